// SPDX-License-Identifier: GPL-2.0-or-later
// The device: a registry, a data path and a port, and the entry points for its host (a runner, the
// C surface, a test). A received frame is delivered to its QP or queue at once; other work that
// inputs cause waits for run(). The device collects effects (frames, interrupts), and
// take_effects() hands them over, so that the host can act on them without its lock.
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
#include "core/effects_batch.h"
#include "core/event_log.h"
#include "core/host.h"
#include "datapath/datapath.h"
#include "datapath/port.h"

namespace tern {

class Admin;

// This class is thread-compatible: the owner serialises all calls, except for reading a batch that
// it has taken.
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
  std::uint64_t receive_more(const WireFrame& frame) {
    const std::uint64_t before = datapath.received;
    datapath.time_passes();
    port.receive(frame);
    return std::max<std::uint64_t>(frame.bytes.size(), datapath.received - before);
  }
  void end_burst() {
    port.ethernet.end_burst();
    if (registry.status.enabled()) datapath.read_arms();
  }
  void set_link(bool up) { port.set_link(up); }
  void dma_invalidate(std::uint64_t addr, std::uint64_t len);
  void reset();
  bool run(std::uint32_t budget);
  // Polls queues. Returns false if run() would find nothing to do; returns true also once no queue
  // is polled any more.
  bool poll();
  // Allows polling from time `from` on: QueuePoller::allow() of all polled queues.
  void allow_polling(Nanos from);
  // Returns the effects collected so far, or null if there are none. The caller owns them until
  // free_effects(), which recycles their memory.
  [[nodiscard]] EffectsBatch* take_effects() {
    return datapath.effects->empty() ? nullptr : batches_.take(datapath.effects);
  }
  void free_effects(EffectsBatch* batch) { batches_.free(batch); }
  // Switches off a rule of core/rules.h.
  bool set_mutation(std::string_view rule) { return registry.memory.rules.mutations.set(rule); }
  // Device time at which run() is due for a timer, or earlier: run() then finds nothing to do.
  // kNever while the device is not enabled, because nothing runs then.
  [[nodiscard]] Nanos next_deadline() const { return datapath.next_deadline(); }
  [[nodiscard]] bool set_faults(std::string_view text, std::string& error) {
    return port.set_faults(text, error);
  }
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

  Host& host;
  Registry registry;
  DataPath datapath;
  Port port;

 private:
  [[nodiscard]] bool ring(std::uint32_t uar, std::uint32_t value);
  [[gnu::noinline]] void log_doorbell(std::uint32_t uar, std::uint32_t value,
                                      std::uint16_t flags) const;

  EffectsPool batches_;
  std::unique_ptr<EventLog> log_;
  std::unique_ptr<Admin> admin_;
  std::vector<std::uint32_t> uar_clock_hi_;  // latched for each doorbell page
};

}  // namespace tern
