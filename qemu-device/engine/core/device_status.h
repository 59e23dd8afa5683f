// SPDX-License-Identifier: GPL-2.0-or-later
// Where a device is in its life cycle: TERN_REG_STATUS and TERN_REG_FATAL.
#pragma once

#include <cstdint>

#include "tern_hw.hpp"

namespace tern {

class DeviceStatus {
 public:
  [[nodiscard]] std::uint32_t bits() const { return bits_; }
  [[nodiscard]] std::uint32_t fatal_code() const { return fatal_; }
  // Reset, and neither enabled nor stopped since.
  [[nodiscard]] bool idle() const { return bits_ == TERN_STATUS_READY; }
  [[nodiscard]] bool enabled() const { return bits_ == (TERN_STATUS_READY | TERN_STATUS_ENABLED); }

  void enable() { bits_ |= TERN_STATUS_ENABLED; }
  // Stops the device: TERN_FATAL_*. False: it was stopped before, and the first code stays.
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

}  // namespace tern
