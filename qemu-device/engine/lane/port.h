// SPDX-License-Identifier: GPL-2.0-or-later
// A port: its addresses, the Ethernet function, multicast groups, and who gets a frame or a packet. Between it and the wire stand the
// faults that rules want.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/config.h"
#include "core/table.h"
#include "eth/addresses.h"
#include "eth/ethernet.h"
#include "transport/multicast.h"
#include "transport/qp.h"
#include "wire/codec.h"
#include "wire/packet.h"

namespace tern {

class Lane;
class PortFaults;

class Port {
  // With the addresses in the lines of the cache that each packet needs.
  Lane& lane_;
  const Table<Qp>& qps_;
  std::unique_ptr<PortFaults> faults_;  // null: none
  std::uint16_t ip_id_ = 0;

 public:
  Port(Lane& lane, const Table<Qp>& qps);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // A frame from the wire.
  void receive(std::span<const std::byte> frame);
  // A frame that no rule stops: from the wire, or one that was looped back.
  void accept(std::span<const std::byte> frame, bool inside);
  // Whose a frame is: the Ethernet function's, or RoCE to an address or a group of this port. Fills
  // `route`.
  enum class Claim : std::uint8_t { kEthernet, kAddress, kGroup };
  [[nodiscard]] Claim claim(std::span<const std::byte> frame, Route& route) const;
  // Context::emit().
  std::uint32_t emit(Packet& packet);
  // Hands a received packet to its QP or the QPs of its group, after the checks of IBTA 9.6.1 that
  // need no QP state. Returns the number of QPs.
  std::uint32_t dispatch(Packet& packet);

  void set_link(bool up);
  // Before the QPs go: frames that faults hold back are lost, and groups are empty.
  void forget();
  void reset();  // addresses and Ethernet queues; the link and the faults stay

  // ---- faults on demand (Documentation/faults.rst) ----
  // Replaces the rules; the empty text: by none. False, and why, when the text is no list of rules.
  [[nodiscard]] bool set_faults(std::string_view text, std::string& error);
  // The rules with their counts.
  [[nodiscard]] std::string faults() const;
  // Whether a rule swallows this admin command.
  [[nodiscard]] bool swallows(std::uint16_t command);

  Addresses addresses;
  IcrcMode icrc_mode = IcrcMode::kCheck;
  Multicast multicast;
  Ethernet ethernet;

 private:
  std::uint32_t notify(const Qp* qp, const Packet& packet);
};

}  // namespace tern
