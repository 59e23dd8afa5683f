// SPDX-License-Identifier: GPL-2.0-or-later
// A port: addresses, Ethernet function, multicast groups, and the demultiplexing of frames and
// packets. Fault rules apply between the port and the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "core/table.h"
#include "datapath/multicast.h"
#include "eth/addresses.h"
#include "eth/ethernet.h"
#include "transport/qp.h"
#include "wire/codec.h"
#include "wire/packet.h"

namespace tern {

class DataPath;
class PortFaults;

class Port {
  // First, so that they share cache lines with the addresses, which every packet needs.
  DataPath& datapath_;
  const Table<Qp>& qps_;
  PortFaults* faults_ = nullptr;  // null if there are no rules
  bool capture_;                  // also collects looped back and received frames
  const bool unfinished_;         // Config::unfinished_frames
  std::uint16_t ip_id_ = 0;

 public:
  Port(DataPath& datapath, const Table<Qp>& qps);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Handles a frame from the wire.
  void receive(const WireFrame& frame);
  // Handles a frame that the fault rules let through. `inside`: it was looped back, otherwise it
  // came from the wire.
  void accept(const WireFrame& frame, bool inside);
  // Classifies a frame: for the Ethernet function, or RoCE to an address or a multicast group of
  // this port. Fills `route` and, of a RoCE frame, `at`.
  enum class Claim : std::uint8_t { kEthernet, kAddress, kGroup };
  [[nodiscard]] Claim claim(std::span<const std::byte> frame, Route& route, FrameLayout& at) const;
  // Context::emit().
  std::uint32_t emit(Packet& packet);
  // Delivers a received packet to its QP or the QPs of its group, after the checks of IBTA 9.6.1
  // that need no QP state. Returns the number of QPs. `except` gets no copy of a packet to its
  // group.
  std::uint32_t dispatch(Packet& packet, const Qp* except = nullptr);
  // Notifies the peer of the QP of congestion on the path from it (IBTA A17.9.3).
  void send_notification(Qp& qp);

  void set_link(bool up);
  [[nodiscard]] bool capture() const { return capture_; }
  void set_capture(bool capture);
  void set_log(EventLog* log);  // null for none
  // Called before the QPs are destroyed: drops frames that fault rules hold back, and empties the
  // multicast groups.
  void forget();
  void reset();  // addresses and Ethernet queues; the link and the faults stay

  // ---- fault injection (Documentation/faults.rst) ----
  // Replaces the rules, adds some or removes some; an empty text removes all. Returns false, with
  // the reason in `error`, if the text is wrong.
  [[nodiscard]] bool set_faults(std::string_view text, std::string& error);
  // The rules with their counts.
  [[nodiscard]] std::string faults() const;
  // Returns whether a rule drops this admin command.
  [[nodiscard]] bool swallows(std::uint16_t command);

  Addresses addresses;
  IcrcMode icrc_mode = IcrcMode::kCheck;
  Multicast multicast;
  Ethernet ethernet;

 private:
  void allow_trains();
  template <class Use>
  void finish(const WireFrame& frame, Use use);
  // The event log: datapath/port_log.cc.
  void log(std::uint8_t type, const Packet& packet, std::uint8_t reason = 0) const;
  void log_bad_frame(std::span<const std::byte> frame, std::uint8_t reason) const;
  std::uint32_t notify(Qp* qp, const Packet& packet);
  void congested(const Packet& packet);

  // Created with the first rules. Stays after the last ones, to pass on the frames held back.
  std::unique_ptr<PortFaults> injector_;
  std::vector<std::byte> finished_;  // finish()
};

}  // namespace tern
