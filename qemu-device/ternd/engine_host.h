// SPDX-License-Identifier: GPL-2.0-or-later
// The engine's host: the memory of the adapter's hypervisor, the clock, and random numbers.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "clock.h"
#include "core/host.h"
#include "guest_memory.h"

namespace tern::daemon {

class EngineHost final : public Host {
 public:
  // What stops the threads of the engine's lanes, and lets them continue.
  class Lanes {
   public:
    virtual ~Lanes() = default;
    virtual void stop_lanes() = 0;
    virtual void start_lanes() = 0;
  };

  EngineHost(const GuestMemory& memory, const AdapterClock& clock, Lanes& lanes)
      : memory_(memory), clock_(clock), lanes_(lanes) {}

  [[nodiscard]] const GuestMemory& memory() const { return memory_; }

  std::span<std::byte> map(std::uint64_t addr, std::uint64_t len, bool write) override {
    return memory_.find(addr, len, write);
  }
  void unmap(std::span<std::byte>, bool, std::uint64_t) override {}
  void ram_written(std::span<std::byte>) override {}
  void dm_written(std::span<std::byte>) override {}
  Nanos now() override { return clock_.now(); }
  std::uint64_t random() override {
    std::uint64_t value = 0;
    // Up to 256 bytes are returned whole once the kernel's generator is initialised.
    if (getrandom(&value, sizeof(value), 0) != sizeof(value)) std::abort();
    return value;
  }
  void stop_lanes() override { lanes_.stop_lanes(); }
  void start_lanes() override { lanes_.start_lanes(); }

 private:
  const GuestMemory& memory_;
  const AdapterClock& clock_;
  Lanes& lanes_;
};

}  // namespace tern::daemon
