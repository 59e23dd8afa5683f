// SPDX-License-Identifier: GPL-2.0-or-later
// What the objects and data paths of a device share: its properties, life cycle, limits and
// serials.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/config.h"
#include "core/congestion.h"
#include "core/limits.h"
#include "tern_hw.hpp"

namespace tern {

class Archive;

// State of the device's life cycle: TERN_REG_STATUS and TERN_REG_FATAL. Every lane may stop the
// device.
class DeviceStatus {
 public:
  [[nodiscard]] std::uint32_t bits() const { return bits_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t fatal_code() const { return fatal_.load(std::memory_order_relaxed); }
  // True after a reset until the device is enabled or stopped.
  [[nodiscard]] bool idle() const { return bits() == TERN_STATUS_READY; }
  [[nodiscard]] bool enabled() const { return bits() == (TERN_STATUS_READY | TERN_STATUS_ENABLED); }

  void enable() { bits_.fetch_or(TERN_STATUS_ENABLED, std::memory_order_relaxed); }
  // Stops the device with TERN_FATAL_* `code`. Returns false if it was stopped before; the first
  // code is kept.
  [[nodiscard]] bool stop(std::uint32_t code) {
    std::uint32_t none = TERN_FATAL_NONE;
    if (!fatal_.compare_exchange_strong(none, code, std::memory_order_relaxed)) return false;
    bits_.fetch_or(TERN_STATUS_FATAL, std::memory_order_relaxed);
    return true;
  }
  void state(Archive& ar);
  void reset() {
    bits_.store(TERN_STATUS_READY, std::memory_order_relaxed);
    fatal_.store(TERN_FATAL_NONE, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> bits_ = TERN_STATUS_READY;
  std::atomic<std::uint32_t> fatal_ = TERN_FATAL_NONE;
};

// The lane of each QP or PD, by number. Any thread may read it.
class LaneMap {
 public:
  // Numbers below `numbers`; 0: all are in lane 0.
  explicit LaneMap(std::size_t numbers)
      : size_(numbers), lanes_(std::make_unique<std::atomic<std::uint8_t>[]>(numbers)) {}
  void set(std::uint32_t number, std::uint8_t lane) {
    if (number < size_) lanes_[number].store(lane, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint8_t get(std::uint32_t number) const {
    return number < size_ ? lanes_[number].load(std::memory_order_relaxed) : std::uint8_t{0};
  }

 private:
  std::size_t size_;
  std::unique_ptr<std::atomic<std::uint8_t>[]> lanes_;
};

// Page list entries: bounds how many all objects of a device hold, and counts how many its commands
// have read.
class PageBudget {
 public:
  explicit PageBudget(std::uint64_t limit) : limit_(limit) {}
  PageBudget(const PageBudget&) = delete;
  PageBudget& operator=(const PageBudget&) = delete;

  // Call it before allocating `entries`. Returns false if they exceed the limit.
  [[nodiscard]] bool charge(std::uint64_t entries) {
    if (entries > limit_ - held_) return false;
    held_ += entries;
    return true;
  }
  void release(std::uint64_t entries) { held_ -= entries; }
  [[nodiscard]] std::uint64_t held() const { return held_; }
  [[nodiscard]] std::uint64_t limit() const { return limit_; }

  // Adds to the work of a command: entries read, or other work of the same cost. A slice of
  // commands ends after a certain amount of work.
  void work(std::uint64_t entries) { worked_ += entries; }
  [[nodiscard]] std::uint64_t worked() const { return worked_; }

 private:
  std::uint64_t limit_;
  std::uint64_t held_ = 0;
  std::uint64_t worked_ = 0;
};

class DeviceState {
 public:
  explicit DeviceState(const Config& properties)
      : config(properties),
        page_budget(properties.max_pages),
        congestion(properties.congestion),
        qp_lanes(properties.lanes > 1 ? std::size_t{properties.max_qp} + 2 : 0),
        pd_lanes(properties.lanes > 1 ? std::size_t{kMaxPd} + 1 : 0) {}
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // A serial for a new CQ, QP or SRQ, also after a reset. Software knows the low 32 bits as the
  // generation of the object's number, which the object's events carry.
  [[nodiscard]] std::uint64_t next_serial() { return ++serials_; }
  [[nodiscard]] std::uint64_t next_qp_generation() { return ++qp_generations_; }
  void state(Archive& ar);

  const Config config;
  DeviceStatus status;
  PageBudget page_budget;
  CongestionParams congestion;
  LaneMap qp_lanes;
  LaneMap pd_lanes;
  std::array<std::uint32_t, kMaxLanes> lane_qps{};  // QPs of each lane

 private:
  std::uint64_t serials_ = 0;
  std::uint64_t qp_generations_ = 0;
};

}  // namespace tern
