// SPDX-License-Identifier: GPL-2.0-or-later
// The engine's fault rules, applied to the frames of an uplink. tx is from the switch to the host,
// rx from the host to the switch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "faults/faults.h"

namespace tern::daemon {

class UplinkFaults final : private Faults::Port, private Host {
 public:
  using Frames = std::deque<std::vector<std::byte>>;

  UplinkFaults() : faults_(*this, timers_, *this) {}

  // Changes the rules. Returns the reason if the text is wrong, or has rules of commands, memory or
  // the device, which an uplink does not have.
  std::string set(const std::string& text);
  [[nodiscard]] std::string report() const { return faults_.report(); }

  // A frame that passes goes into out() or in(), now or later.
  void transmit(std::span<const std::byte> frame) { faults_.transmit(frame, false); }
  void receive(std::span<const std::byte> frame) { faults_.receive(frame, false); }
  [[nodiscard]] Frames& out() { return out_; }
  [[nodiscard]] Frames& in() { return in_; }

  // Time at which frames held back pass; UINT64_MAX: there are none.
  [[nodiscard]] std::uint64_t due() const { return timers_.next(); }
  void run(std::uint64_t time) { timers_.run(time, 1); }

 private:
  // Faults::Port
  void send(std::span<const std::byte> frame) override {
    out_.emplace_back(frame.begin(), frame.end());
  }
  void accept(std::span<const std::byte> frame, bool) override {
    in_.emplace_back(frame.begin(), frame.end());
  }
  void fatal(std::uint32_t) override {}

  // Host: a clock, and no memory.
  std::span<std::byte> map(std::uint64_t, std::uint64_t, bool) override { return {}; }
  void unmap(std::span<std::byte>, bool, std::uint64_t) override {}
  void ram_written(std::span<std::byte>) override {}
  void dm_written(std::span<std::byte>) override {}
  Nanos now() override;
  std::uint64_t random() override { return 0; }

  TimerQueue timers_;
  Faults faults_;
  Frames out_;
  Frames in_;
};

}  // namespace tern::daemon
