// SPDX-License-Identifier: GPL-2.0-or-later
// What the objects and data paths of a device share: its properties, life cycle, limits and
// serials.
#pragma once

#include <cstdint>

#include "core/config.h"
#include "core/congestion.h"
#include "tern_hw.hpp"

namespace tern {

// State of the device's life cycle: TERN_REG_STATUS and TERN_REG_FATAL.
class DeviceStatus {
 public:
  [[nodiscard]] std::uint32_t bits() const { return bits_; }
  [[nodiscard]] std::uint32_t fatal_code() const { return fatal_; }
  // True after a reset until the device is enabled or stopped.
  [[nodiscard]] bool idle() const { return bits_ == TERN_STATUS_READY; }
  [[nodiscard]] bool enabled() const { return bits_ == (TERN_STATUS_READY | TERN_STATUS_ENABLED); }

  void enable() { bits_ |= TERN_STATUS_ENABLED; }
  // Stops the device with TERN_FATAL_* `code`. Returns false if it was stopped before; the first
  // code is kept.
  [[nodiscard]] bool stop(std::uint32_t code) {
    if (bits_ & TERN_STATUS_FATAL) return false;
    bits_ |= TERN_STATUS_FATAL;
    fatal_ = code;
    return true;
  }
  void reset() { *this = DeviceStatus(); }

 private:
  std::uint32_t bits_ = TERN_STATUS_READY;
  std::uint32_t fatal_ = TERN_FATAL_NONE;
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
      : config(properties), page_budget(properties.max_pages), congestion(properties.congestion) {}
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // A serial for a new CQ, QP or SRQ, also after a reset. Software knows the low 32 bits as the
  // generation of the object's number, which the object's events carry.
  [[nodiscard]] std::uint64_t next_serial() { return ++serials_; }
  [[nodiscard]] std::uint64_t next_qp_generation() { return ++qp_generations_; }

  const Config config;
  DeviceStatus status;
  PageBudget page_budget;
  CongestionParams congestion;

 private:
  std::uint64_t serials_ = 0;
  std::uint64_t qp_generations_ = 0;
};

}  // namespace tern
