// SPDX-License-Identifier: GPL-2.0-or-later
// The device: owns every object, dispatches doorbells and packets, schedules QPs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/uar_pages.h"
#include "core/block_pool.h"
#include "core/counters.h"
#include "core/effects.h"
#include "core/host.h"
#include "core/limits.h"
#include "core/page_budget.h"
#include "core/table.h"
#include "core/timers.h"
#include "eth/ethernet.h"
#include "eth/port.h"
#include "memory/device_memory.h"
#include "memory/memory.h"
#include "objects/page_faults.h"
#include "objects/queues.h"
#include "objects/srq.h"
#include "transport/multicast.h"
#include "transport/qp.h"
#include "transport/sq_poller.h"
#include "wire/codec.h"
#include "wire/packet.h"

namespace tern {

struct Config {
  std::span<std::byte> dm;
  std::uint64_t uar_bar_size = 16 << 20;
  std::uint32_t max_qp = 16384;
  std::uint32_t max_cq = 16384;
  std::uint32_t max_mr = 65536;
  std::uint32_t max_mw = 65536;
  std::uint64_t max_pages = kMaxPages;  // page list entries of all objects
  std::uint32_t num_vectors = 16;
  std::uint32_t max_mtu = 9000;
  std::uint32_t link_speed = 100000;
  Mac mac{};
  bool mw_type_2a = false;
  bool capture = false;
};

class Admin;
class DeviceFaults;

// The QP of connection management has this number always (IBTA 3.9.3.2); 0 is never used.
inline constexpr std::uint32_t kGsiQpn = 1;

// This class is thread-compatible: the owner serialises all calls.
class Device {
 public:
  Device(Host& host, const Config& config);
  ~Device();

  // ---- inputs (capi) ----
  std::uint32_t reg_read(std::uint32_t offset);
  void reg_write(std::uint32_t offset, std::uint32_t value);
  std::uint32_t uar_read(std::uint64_t offset);
  void doorbell(std::uint64_t offset, std::uint32_t value);
  void receive(std::span<const std::byte> frame);
  [[nodiscard]] bool can_receive();
  void set_link(bool up);
  void dma_invalidate(std::uint64_t addr, std::uint64_t len);
  void reset();
  bool run(std::uint32_t budget);
  // Looks at the queues whose software need not ring. False: run() would find nothing to do yet.
  bool look();
  // Switches a rule off: core/mutations.h.
  bool set_mutation(std::string_view rule) { return memory.mutations.set(rule); }
  // Device clock of the next expiry; never while the device is not enabled, because nothing runs then.
  [[nodiscard]] Nanos next_deadline() const;

  // ---- faults on demand (Documentation/faults.rst) ----
  // Replaces the rules; the empty text: by none. False, and why, when the text is no list of rules.
  [[nodiscard]] bool set_faults(std::string_view text, std::string& error);
  // The rules with their counts.
  [[nodiscard]] std::string faults() const;
  // Whether a rule swallows this admin command.
  [[nodiscard]] bool swallows(std::uint16_t command);
  // A frame that no rule stops: from the wire, or one that turned round inside.
  void accept(std::span<const std::byte> frame, bool inside);
  // Whose a frame is: the Ethernet function's, or RoCE to an address or a group of this port. Fills
  // `route`.
  enum class Claim : std::uint8_t { kEthernet, kAddress, kGroup };
  [[nodiscard]] Claim claim(std::span<const std::byte> frame, Route& route) const;
  IcrcMode icrc_mode = IcrcMode::kCheck;
  std::uint64_t visits = 0;  // objects looked at because of another one; tests bound it

  // ---- for the transports ----
  // Sends a packet on its route: a frame to the wire, or straight to the local QP. When the
  // capture tap is on, what turns round inside becomes a frame that is only shown. A packet to a
  // multicast group goes both ways. Returns how often its payload was copied, at least 1.
  std::uint32_t emit(Packet& packet);
  // Whether nobody can tell packets on this route from a train of them: they turn round inside, and are not shown.
  [[nodiscard]] bool may_train(const Route& route) const {
    return route.local && faults_ == nullptr && !config.capture;
  }
  // Hands a received packet to its QP or the QPs of its group, after the checks of IBTA 9.6.1 that
  // need no QP state. Returns the number of QPs.
  std::uint32_t dispatch(Packet& packet);
  void schedule(Qp& qp);
  void unschedule(Qp& qp);
  // The CQ of an XRC SRQ takes no more completions. Targets that hold a WQE of that SRQ are found by a walk over all QPs,
  // which run() makes in slices.
  void xrc_cq_failed() { xrc_unseen_ = qps.end(); }
  void fatal(std::uint32_t code);

  // Objects an admin command or another object may name.
  struct Pd {
    bool privileged = false;
    std::uint32_t users = 0;
  };
  struct Xrcd {
    std::uint32_t users = 0;
  };
  [[nodiscard]] std::uint64_t page_entries() const { return page_budget.held(); }
  // TERN_CAP_*: what works, with these properties.
  [[nodiscard]] std::uint64_t caps() const;
  // The SRQ that `ref` remembers; null when it is gone.
  [[nodiscard]] Srq* find_srq(const SrqRef& ref) const;
  [[nodiscard]] std::uint64_t next_srq_serial() { return ++srq_serials_; }
  [[nodiscard]] std::uint64_t next_qp_generation() { return ++qp_generations_; }
  // Whether a QP would find a number that no window names; destroys one.
  [[nodiscard]] bool qp_number_left();
  void remove_qp(std::uint32_t qpn);

  Host& host;
  const Config config;
  Counters counters;
  std::unique_ptr<Effects> effects;  // swapped out by the C surface
  TimerQueue timers;
  Port port;
  PageBudget page_budget;
  DeviceMemory dm;
  Memory memory;
  UarPages uars;
  AsyncEvents async_events;
  PageFaults page_faults;
  BlockPool blocks;  // of what is under way
  Ethernet ethernet;
  Table<Pd> pds;
  Table<Eq> eqs;
  Table<Cq> cqs;
  Table<Xrcd> xrcds;
  Table<Srq> srqs;
  SqPoller sq_poller;
  Table<Qp> qps;
  Multicast multicast;
  Eq* async_eq = nullptr;
  Eq* fault_eq = nullptr;

  // The packet being built by whoever has its turn, and the one being parsed.
  Packet tx_packet;
  Packet rx_packet;
  // Where the payload of the packet being delivered goes.
  SpanList scatter;
  // The GRH that precedes a datagram being delivered.
  SpanList grh;

 private:
  friend class Admin;
  void flush_events();
  [[nodiscard]] std::uint32_t look_at_pages(std::uint32_t budget);
  std::uint32_t notify(const Qp* qp, const Packet& packet);
  bool run_qps(std::uint32_t budget);
  void walk_xrc_targets();

  std::unique_ptr<Admin> admin_;
  std::unique_ptr<DeviceFaults> faults_;  // null: none
  PageQueue kernel_events_;  // the asynchronous and the fault EQ
  std::vector<std::uint32_t> uar_clock_hi_;  // latched for each doorbell page
  bool unfinished_ = false;  // the last run left something
  List<Qp> ready_;
  std::uint32_t xrc_unseen_ = 0;  // QP numbers below are still to be looked at
  std::uint32_t emitted_ = 0;  // cost of the packets sent since a QP got its turn
  std::uint64_t srq_serials_ = 0;  // given out; outlives resets
  std::uint64_t qp_generations_ = 0;     // the same
  std::vector<std::uint32_t> withheld_qpns_;  // of destroyed QPs that windows name
  std::uint16_t ip_id_ = 0;
};

}  // namespace tern
