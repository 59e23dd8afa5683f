// SPDX-License-Identifier: GPL-2.0-or-later
// The device: a registry, the data paths of its lanes and a port, and the entry points for its host
// (a runner, the C surface, a test). A received frame is delivered to its QP or queue at once;
// other work that inputs cause waits for run(). The device collects effects (frames, interrupts),
// and take_effects() hands them over, so that the host can act on them without its lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/registry.h"
#include "core/config.h"
#include "core/counters.h"
#include "core/effects_batch.h"
#include "core/event_log.h"
#include "core/host.h"
#include "datapath/datapath.h"
#include "datapath/port.h"

namespace tern {

class Admin;

// This class is thread-compatible: the owner serialises all calls, except for reading a batch that
// it has taken, and for those of different lanes. Functions without a lane belong to lane 0; those
// that change what lanes share stop the others by Host::stop_lanes().
class Device {
 public:
  Device(Host& host, const Config& config);
  ~Device();

  std::uint32_t reg_read(std::uint32_t offset);
  void reg_write(std::uint32_t offset, std::uint32_t value);
  std::uint32_t uar_read(std::uint64_t offset);
  void doorbell(std::uint64_t offset, std::uint32_t value);
  // receive() handles a single frame, receive_more() one of a burst, which end_burst() ends.
  void receive(const WireFrame& frame) {
    (void)receive_more(frame);
    end_burst();
  }
  // Returns the cost in bytes: the frame's own, or that of all the work that it caused, whichever
  // is larger.
  std::uint64_t receive_more(const WireFrame& frame) { return receive_more(datapath, frame); }
  void end_burst() { end_burst(datapath); }

  // ---- lanes ----
  [[nodiscard]] unsigned lanes() const { return registry.config.lanes; }
  [[nodiscard]] DataPath& lane(unsigned number) {
    return number == 0 ? datapath : *others_[number - 1];
  }
  [[nodiscard]] const DataPath& lane(unsigned number) const {
    return number == 0 ? datapath : *others_[number - 1];
  }
  // Cuts the next `number` large TCP frames, because their trains would be divided.
  void cut_large_frames(unsigned number) { datapath.cut_large = number; }
  // The lanes that a doorbell is for, a bit each: lane 0 has those that it must refuse.
  [[nodiscard]] std::uint32_t doorbell_lanes(std::uint64_t offset, std::uint32_t value) const;
  // These do for one lane what the functions of the same name do for lane 0, or for all.
  void doorbell(DataPath& lane, std::uint64_t offset, std::uint32_t value);
  std::uint64_t receive_more(DataPath& lane, const WireFrame& frame) {
    const std::uint64_t before = lane.received;
    lane.time_passes();
    port.receive(lane, frame);
    return std::max<std::uint64_t>(frame.size(), lane.received - before);
  }
  void end_burst(DataPath& lane) {
    if (&lane == &datapath) port.ethernet.end_burst();
    if (registry.status.enabled()) lane.read_arms();
  }
  bool run(DataPath& lane, std::uint32_t budget);
  bool poll(DataPath& lane);
  void allow_polling(DataPath& lane, Nanos from);
  // The lane that should receive a frame. Any thread may call it.
  [[nodiscard]] std::uint8_t lane_of(std::span<const std::byte> frame) const {
    return port.lane_of(frame);
  }
  // LaneMember::join() and LaneGroup::fix() to lane 0, charged to the command that causes them.
  void join(LaneMember& a, LaneMember& b) { registry.page_budget.work(a.join(b)); }
  void fix(LaneGroup& group) { registry.page_budget.work(group.fix(datapath)); }
  // Puts a group without QPs into the lane with the fewest QPs, since it gets one now.
  void place(LaneGroup& group);

  // Keeps other lanes out of the device.
  class Alone {
   public:
    explicit Alone(Device& device) : device_(device) {
      if (device_.lanes() > 1 && device_.alone_++ == 0) device_.host.stop_lanes();
    }
    ~Alone() {
      if (device_.lanes() > 1 && --device_.alone_ == 0) device_.host.start_lanes();
    }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    Device& device_;
  };

  void set_link(bool up);
  // The speed that the port reports from now on: as configured if `mbps` is 0 or more than that.
  void set_speed(std::uint32_t mbps);
  void set_capture(bool capture);
  // Allows frames to refer to payload of at least `least` bytes in the memory of the guest, where
  // their receivers read it (core/shared_payload.h). Less is copied as quickly. Memory may go away
  // after dma_invalidate().
  void share_payload(std::uint64_t least = 8192);
  // While no lane runs: takes all shared payload back.
  void unshare();
  void dma_invalidate(std::uint64_t addr, std::uint64_t len);
  void reset();
  // Appends the state of the device and its objects to `to`, but not the bytes of device memory.
  // The host has taken all effects, and ended all bursts. On an error returns false, with the
  // reason in `error`; more than `most` bytes in `to` are one.
  [[nodiscard]] bool save(std::vector<std::byte>& to, std::string& error,
                          std::size_t most = SIZE_MAX);
  // Makes this device what another one was when it was saved. It must be configured alike, have the
  // same device memory and DMA memory, and a clock that goes on. Link, speed and polling are as
  // they were. On an error returns false, with the reason in `error`, and the device is reset.
  [[nodiscard]] bool load(std::span<const std::byte> state, std::string& error);
  bool run(std::uint32_t budget);
  // Polls queues. Returns false if run() would find nothing to do; returns true also once no queue
  // is polled any more.
  bool poll();
  // Allows polling from time `from` on: QueuePoller::allow() of all polled queues.
  void allow_polling(Nanos from);
  // Returns the effects collected so far, or null if there are none. The caller owns them until
  // free_effects(), which recycles their memory.
  [[nodiscard]] EffectsBatch* take_effects() { return datapath.take_effects(); }
  void free_effects(EffectsBatch* batch) { datapath.free_effects(batch); }
  // Switches off a rule of core/rules.h.
  bool set_mutation(std::string_view rule) { return registry.memory.rules.mutations.set(rule); }
  // Device time at which run() is due for a timer, or earlier: run() then finds nothing to do.
  // kNever while the device is not enabled, because nothing runs then.
  [[nodiscard]] Nanos next_deadline() const { return datapath.next_deadline(); }
  [[nodiscard]] bool set_faults(std::string_view text, std::string& error);
  [[nodiscard]] std::string faults() const { return port.faults(); }
  // Logs events in a ring of `records`, a power of two, or no longer with 0. Throws std::bad_alloc.
  // Nobody may read the former ring.
  void log_events(std::size_t records);
  // Statistics for traces and monitors.
  struct Info {
    std::uint32_t live_qps;
    std::uint32_t live_keys;
    std::uint64_t page_entries;
    std::uint64_t tx_packets;
    std::uint64_t rx_packets;
  };
  [[nodiscard]] Info info() const;
  // Returns the sum over all lanes.
  [[nodiscard]] Counters counters() const;
  // Some frames of all QPs are watched from now on, or no longer: lane 0 serves all QPs or not.
  void update_lanes();

  Host& host;
  Registry registry;
  DataPath datapath;
  Port port;

 private:
  template <class F>
  void for_each_lane(F&& f) {
    for (unsigned i = 0; i < lanes(); ++i) f(lane(i));
  }
  void state(Archive& ar);
  [[nodiscard]] bool archive(Archive& ar, std::string& error);
  void properties_state(Archive& ar) const;
  void ring_own(std::uint64_t offset, std::uint32_t value);
  [[nodiscard]] bool ring(DataPath& lane, std::uint32_t uar, std::uint32_t value);
  [[gnu::noinline]] void log_doorbell(std::uint32_t uar, std::uint32_t value,
                                      std::uint16_t flags) const;

  std::vector<std::unique_ptr<DataPath>> others_;  // lanes 1 and higher
  bool watched_ = false;
  unsigned alone_ = 0;  // depth of Alone
  std::unique_ptr<EventLog> log_;
  std::unique_ptr<Admin> admin_;
  std::vector<std::uint32_t> uar_clock_hi_;  // latched for each doorbell page
};

}  // namespace tern
