// SPDX-License-Identifier: GPL-2.0-or-later
// State of the device's life cycle: TERN_REG_STATUS and TERN_REG_FATAL.
#pragma once

#include <cstdint>

#include "tern_hw.hpp"

namespace tern {

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

}  // namespace tern
