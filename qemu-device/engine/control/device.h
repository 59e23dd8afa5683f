// SPDX-License-Identifier: GPL-2.0-or-later
// The device: a registry, a lane and a port, and the entry points for the C interface and for
// tests.
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
#include "core/event_log.h"
#include "core/host.h"
#include "lane/lane.h"
#include "lane/port.h"

namespace tern {

class Admin;

// This class is thread-compatible: the owner serialises all calls.
class Device {
 public:
  Device(Host& host, const Config& config);
  ~Device();

  std::uint32_t reg_read(std::uint32_t offset);
  void reg_write(std::uint32_t offset, std::uint32_t value);
  std::uint32_t uar_read(std::uint64_t offset);
  void doorbell(std::uint64_t offset, std::uint32_t value);
  // receive() handles a single frame, receive_more() one of a burst, which end_burst() ends.
  void receive(std::span<const std::byte> frame) {
    (void)receive_more(frame);
    end_burst();
  }
  // Returns the cost in bytes: the frame's own, or that of all the work that it caused, whichever
  // is larger.
  std::uint64_t receive_more(std::span<const std::byte> frame) {
    const std::uint64_t before = lane.received;
    lane.time_passes();
    port.receive(frame);
    return std::max<std::uint64_t>(frame.size(), lane.received - before);
  }
  void end_burst() {
    port.ethernet.end_burst();
    lane.read_arms();
  }
  void set_link(bool up) { port.set_link(up); }
  void dma_invalidate(std::uint64_t addr, std::uint64_t len);
  void reset();
  bool run(std::uint32_t budget);
  bool look() { return lane.look(); }
  // Switches off a rule of core/rules.h.
  bool set_mutation(std::string_view rule) { return registry.memory.rules.mutations.set(rule); }
  // Device time of the next timer expiry. kNever while the device is not enabled, because nothing
  // runs then.
  [[nodiscard]] Nanos next_deadline() const { return lane.next_deadline(); }
  [[nodiscard]] bool set_faults(std::string_view text, std::string& error) {
    return port.set_faults(text, error);
  }
  [[nodiscard]] std::string faults() const { return port.faults(); }
  // Logs events in a ring of `records`, a power of two, or no longer with 0.
  void log_events(std::size_t records);

  Host& host;
  Registry registry;
  Lane lane;
  Port port;

 private:
  [[nodiscard]] bool ring(std::uint32_t uar, std::uint32_t value);
  [[gnu::noinline]] void log_doorbell(std::uint32_t uar, std::uint32_t value,
                                      std::uint16_t flags) const;

  std::unique_ptr<EventLog> log_;
  std::unique_ptr<Admin> admin_;
  std::vector<std::uint32_t> uar_clock_hi_;  // latched for each doorbell page
};

}  // namespace tern
