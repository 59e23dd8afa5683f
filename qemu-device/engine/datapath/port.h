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
  DataPath& home_;  // lane 0, which alone serves the Ethernet function, groups and fault rules
  const Table<Qp>& qps_;
  PortFaults* faults_ = nullptr;  // null if there are no rules
  bool capture_;                  // also collects looped back and received frames
  const bool unfinished_;         // Config::unfinished_frames
  const bool several_;            // lanes

 public:
  Port(DataPath& home, const Table<Qp>& qps);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // `lane`: the caller's. Every lane may call these functions and emit().
  // The lane that should receive the frame. Any thread may call it.
  [[nodiscard]] std::uint8_t lane_of(std::span<const std::byte> frame) const;
  // Handles a frame from the wire or another lane.
  void receive(DataPath& lane, const WireFrame& frame);
  // Handles a frame that the fault rules let through. `inside`: it was looped back, otherwise it
  // came from the wire.
  void accept(DataPath& lane, const WireFrame& frame, bool inside);
  // Classifies a frame: for the Ethernet function, or RoCE to an address or a multicast group of
  // this port. Fills `route` and, of a RoCE frame, `at`.
  enum class Claim : std::uint8_t { kEthernet, kAddress, kGroup };
  [[nodiscard]] Claim claim(std::span<const std::byte> frame, Route& route, FrameLayout& at) const;
  // Context::emit().
  std::uint32_t emit(DataPath& lane, Packet& packet);
  // Delivers a received packet to its QP or the QPs of its group, after the checks of IBTA 9.6.1
  // that need no QP state. Returns the number of QPs. `except` gets no copy of a packet to its
  // group. A QP of another lane gets the packet there.
  // `frame`: that of the packet, if there is one.
  std::uint32_t dispatch(DataPath& lane, Packet& packet, const Qp* except = nullptr,
                         std::span<const std::byte> frame = {});
  // Notifies the peer of the QP of congestion on the path from it (IBTA A17.9.3).
  void send_notification(DataPath& lane, Qp& qp);

  void set_link(bool up);
  void set_speed(std::uint32_t mbps);
  [[nodiscard]] bool capture() const { return capture_; }
  void set_capture(bool capture);
  // Whether someone sees the frames of all QPs. Then lane 0 serves all of them.
  [[nodiscard]] bool watched() const;
  void set_log(EventLog* log);  // null for none
  // Called before the QPs are destroyed: drops frames that fault rules hold back, and empties the
  // multicast groups.
  void forget();
  void reset();  // addresses and Ethernet queues; the link and the faults stay

  // Saved state of the fault rules and the frames that they hold back.
  void faults_state(Archive& ar);

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
  void finish(DataPath& lane, const WireFrame& frame, Use use);
  // The event log: datapath/port_log.cc.
  void log(const DataPath& lane, std::uint8_t type, const Packet& packet,
           std::uint8_t reason = 0) const;
  void log_bad_frame(const DataPath& lane, std::span<const std::byte> frame,
                     std::uint8_t reason) const;
  bool steer(const Packet& packet, std::span<const std::byte> frame);
  std::uint32_t notify(DataPath& lane, Qp* qp, const Packet& packet);
  void congested(DataPath& lane, const Packet& packet);
  [[nodiscard]] std::uint8_t lane_of(const DataPath& lane, const Qp* qp,
                                     const Packet& packet) const;
  static std::uint32_t hand_over(DataPath& lane, const Packet& packet, std::uint8_t to);

  // Created with the first rules. Stays after the last ones, to pass on the frames held back.
  std::unique_ptr<PortFaults> injector_;
};

}  // namespace tern
