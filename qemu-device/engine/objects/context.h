// SPDX-License-Identifier: GPL-2.0-or-later
// The view of the device, from one lane of it, for objects, transports and the Ethernet function.
// DataPath is the only Context, so nothing is virtual: functions that need higher layers are
// declared here and defined in datapath/datapath.cc.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/block_pool.h"
#include "core/counters.h"
#include "core/device_state.h"
#include "core/effects.h"
#include "core/event_log.h"
#include "core/host.h"
#include "core/list.h"
#include "core/timers.h"
#include "memory/memory.h"
#include "objects/events.h"
#include "objects/page_faults.h"
#include "objects/record.h"
#include "objects/uar_pages.h"
#include "wire/packet.h"

namespace tern {

class Connection;
class Cq;
class Qp;
class Srq;
class TagList;
struct RxFrame;
struct SrqRef;

class Context {
 public:
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Saved places of the QP in the lists of its lane.
  void schedule_state(Archive& ar, Qp& qp);

  // ---- scheduling ----
  // Puts the QP on the ready list or takes it off.
  void schedule(Qp& qp);
  void unschedule(Qp& qp);
  // End polling of the QP's send queue: SqPoller::forget() and release().
  void forget_polled(Qp& qp);
  void release_polled(Qp& qp);

  // ---- time ----
  // The time of this step, for which the clock is read at most once. A call of the host begins a
  // step, and reading a producer index or the work of kStep bytes another one. CQEs are stamped
  // with it: not before the WQE was posted or the packet arrived.
  [[nodiscard]] Nanos now() {
    if (!time_known_) {
      now_ = host.now();
      time_known_ = true;
    }
    return now_;
  }
  // Begins a step: the next now() reads the clock.
  void time_passes() { time_known_ = false; }
  // Reads the index of `record` up to which software has posted WQEs. That may be as late as now.
  [[nodiscard]] std::optional<std::uint32_t> producer_index(const Record& record,
                                                            std::size_t offset) {
    time_passes();
    return record.load32(host, offset);
  }
  // Counts work of `cost` bytes, and begins a step after kStep bytes.
  void spend(std::uint32_t cost) {
    constexpr std::uint32_t kStep = 8192;
    if ((step_ += cost) < kStep) return;
    step_ = 0;
    time_passes();
  }

  // Charges the turn of the running QP with `cost` bytes.
  void charge(std::uint32_t cost);
  // Charges the sender of the packet being received: a sender in this device, or the burst of
  // frames that the host passes to the engine.
  void charge_sender(std::uint64_t cost) { received += cost; }

  // ---- shared payload (core/shared_payload.h) ----
  static constexpr std::uint64_t kShareNone = UINT64_MAX;
  // Whether a frame may leave `payload` in place: it is long enough, and in memory of the guest or
  // of the device.
  [[nodiscard]] bool may_share(const SpanList& payload) const;
  // The queue for payload that requester `owner` shares, the oldest first. `queue`: its number, if
  // `owner` had one before. Null if the next few are in use. A requester needs one only while it
  // shares.
  [[nodiscard]] List<SharedPayload>* share_queue(const void* owner, std::uint8_t& queue);
  // The same, null if nothing is in it.
  [[nodiscard]] const List<SharedPayload>* shared_by(const void* owner, std::uint8_t queue) const {
    const ShareQueue& own = share_queues_[queue];
    return own.owner == owner && !own.payloads.empty() ? &own.payloads : nullptr;
  }
  // Takes all shared payload back: software may then reuse the memory.
  void unshare();
  [[nodiscard]] bool shares() const;

  // ---- packets ----
  // Sends a packet on its route: as a frame to the wire, or directly to the local QP. With the
  // capture tap on, a looped-back packet also becomes a frame, for the capture only. A multicast
  // packet is both sent and looped back. Returns the number of copies made of the payload, at least
  // 1.
  std::uint32_t emit(Packet& packet);
  // Sends a congestion notification to the peer of the QP soon.
  void notify_peer(Qp& qp);
  // Limit of packets in a train on this route, at least 1. A train is indistinguishable from single
  // packets: nobody sees them between here and the QP, or whoever does divides it (wire/train.h).
  [[nodiscard]] std::uint32_t max_train(const Route& route, std::uint32_t mtu) const;
  // Whether the segments of the next large TCP frame may be sent as one frame.
  [[nodiscard]] bool sends_tcp_train() {
    if (!trains_ || !device.config.unfinished_frames) return false;
    if (cut_large == 0) return true;
    --cut_large;
    return false;
  }
  // Addresses::resolve() and Addresses::path_mtu().
  [[nodiscard]] std::optional<Route> resolve(const tern_av& av, std::uint8_t port, Qpn src,
                                             Qpn dst) const;
  [[nodiscard]] std::uint32_t path_mtu() const;

  // ---- Ethernet frames (eth/rx_frame.h) ----
  // Addresses::mtu().
  [[nodiscard]] std::uint32_t mtu() const;
  // Sends the frame in the first `bytes` bytes of `room` for the raw QP `from`: Ethernet::emit().
  // Returns the cost to charge its turn with, in bytes, copies to local QPs included.
  std::uint32_t emit_frame(std::span<std::byte> room, std::size_t bytes, const Connection& from);
  // Whether flows and RSS groups may refer to the QP: it is a raw QP with a receive queue.
  [[nodiscard]] bool takes_frames(std::uint32_t qpn) const;
  // Whether a flow of datagrams may refer to the QP: it is a UD QP with a receive queue.
  [[nodiscard]] bool takes_datagrams(std::uint32_t qpn) const;
  // Delivers a frame to such a QP. Returns whether the frame was stored; the QP counts those it
  // drops. Sends nothing.
  bool receive_frame(std::uint32_t qpn, const RxFrame& frame);

  // ---- objects ----
  // Both return null if there is no such SRQ; with an SrqRef also if the number has been reused.
  [[nodiscard]] Srq* find_srq(std::uint32_t number) const;
  [[nodiscard]] Srq* find_srq(const SrqRef& ref) const;
  // The CQ of an XRC SRQ has failed. The data path walks all QPs in slices to find the XRC targets
  // that hold a WQE of that SRQ.
  void xrc_cq_failed();
  // Stops the device with TERN_FATAL_* `code`; only the first code is kept.
  void fatal(std::uint32_t code) {
    if (device.status.stop(code)) raise(0);
  }
  // Raises an interrupt. `type` and `id`: of the event that it reports, if any.
  void raise(unsigned vector, std::uint16_t type = 0, std::uint32_t id = 0) {
    if (log != nullptr) [[unlikely]] {
      log->add({.type = TERN_LOG_INTERRUPT, .key = id, .index = vector, .value = type});
    }
    effects->raise(vector);
  }

  Host& host;
  DeviceState& device;
  Memory& memory;
  std::unique_ptr<Effects> effects;  // Device::take_effects() swaps it out
  EventLog* log = nullptr;           // null: events are not logged
  TimerQueue timers;

  // The packet that the running QP builds.
  Packet tx_packet;
  // Payload destination of the packet being delivered.
  SpanList scatter;
  // Destination of the GRH of the datagram being delivered.
  SpanList grh;
  // The Ethernet frame that is being stored for a raw QP.
  SpanList raw_frame;

  Counters counters;
  BlockPool blocks;  // for data in flight
  AsyncEvents& async_events;
  PageFaults& page_faults;
  UarPages uars;            // this lane's queues by doorbell page; lane 0 allocates the pages
  Memory::Missing missing;  // set by the access that met an absent page, for its fault
  List<Cq> written_cqs;     // CQs with an EQ that got CQEs in this call; DataPath::read_arms()
  List<Cq> failed_cqs;      // some of their users are not notified; DataPath::notify_cq_users()
  List<TagList> tag_lists;  // with operations to execute
  unsigned cut_large = 0;   // Device::cut_large_frames()
  std::uint64_t share_from = kShareNone;  // Device::share_payload(): bytes
  std::uint64_t visits = 0;    // objects visited on behalf of another object; tests bound it
  std::uint64_t received = 0;  // sum of charge_sender()
  const std::uint8_t lane;     // its number

 protected:
  Context(std::uint8_t number, Host& host_, DeviceState& device_, Memory& memory_,
          AsyncEvents& events, PageFaults& faults)
      : host(host_),
        device(device_),
        memory(memory_),
        effects(std::make_unique<Effects>()),
        tx_packet(host),
        scatter(host),
        grh(host),
        raw_frame(host),
        async_events(events),
        page_faults(faults),
        lane(number),
        trains_(!device_.config.capture) {}
  ~Context() = default;

  bool trains_;

 private:
  struct ShareQueue {
    const void* owner = nullptr;
    List<SharedPayload> payloads;
  };
  std::array<ShareQueue, 64> share_queues_;
  std::uint8_t next_share_queue_ = 0;
  bool used_share_queue_ = false;  // since unshare()
  Nanos now_ = 0;
  bool time_known_ = false;  // whether now_ is valid
  std::uint32_t step_ = 0;   // cost of the work since the clock was read
};

}  // namespace tern
