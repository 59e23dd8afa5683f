// SPDX-License-Identifier: GPL-2.0-or-later
// Registers, life cycle and the admin queue. The commands themselves:
// admin_commands.h.
#pragma once

#include <cstdint>

#include "memory/memory.h"

namespace tern {

class Device;

class Admin {
 public:
  explicit Admin(Device& device) : device_(device) {}

  // BAR0. An offset without a register reads TERN_REG_GONE and takes no write.
  std::uint32_t reg_read(std::uint32_t offset);
  void reg_write(std::uint32_t offset, std::uint32_t value);
  // Stops the device: TERN_FATAL_*; the first one stays.
  void fatal(std::uint32_t code);
  void reset();  // the registers; the Device resets the objects

  // Executes up to `limit` commands; true when more wait.
  bool run(unsigned limit);

  [[nodiscard]] bool enabled() const { return status_ == (TERN_STATUS_READY | TERN_STATUS_ENABLED); }
  [[nodiscard]] unsigned page_shift() const { return page_shift_; }

  // Doorbell pages: number of the page an offset in BAR2 lies in.
  [[nodiscard]] std::uint32_t uar_of(std::uint64_t offset) const;
  [[nodiscard]] std::uint32_t uar_pages() const;  // of BAR2, the kernel's included

 private:
  void enable();
  void configure(std::uint32_t offset, std::uint32_t value);
  void set_tail(std::uint32_t tail);
  void execute(const tern_aq_entry& entry);
  [[nodiscard]] Status perform(const tern_aq_entry& entry, std::uint16_t* out_len);

  Device& device_;
  std::uint32_t status_ = TERN_STATUS_READY;
  std::uint32_t fatal_ = TERN_FATAL_NONE;
  unsigned page_shift_ = TERN_PAGE_SHIFT_MIN;  // in force: ENABLE has checked it
  std::uint32_t page_shift_reg_ = TERN_PAGE_SHIFT_MIN;
  std::uint32_t aq_lo_ = 0;
  std::uint32_t aq_hi_ = 0;
  std::uint32_t acq_lo_ = 0;
  std::uint32_t acq_hi_ = 0;
  std::uint32_t log_size_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;       // fetched; each has one completion, unless a fault swallows it
  std::uint32_t completed_ = 0;
  std::uint32_t clock_hi_ = 0;
};

}  // namespace tern
