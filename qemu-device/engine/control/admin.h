// SPDX-License-Identifier: GPL-2.0-or-later
// Registers, life cycle, the admin queue and its commands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/memory.h"

namespace tern {

class Device;

class Admin {
 public:
  explicit Admin(Device& device) : device_(device) {}

  std::uint32_t reg_read(std::uint32_t offset);
  void reg_write(std::uint32_t offset, std::uint32_t value);
  void fatal(std::uint32_t code);
  void reset();  // the registers and UAR pages; the Device resets the objects

  // Executes up to `limit` commands; true when more wait.
  bool run(unsigned limit);

  [[nodiscard]] bool enabled() const { return status_ == (TERN_STATUS_READY | TERN_STATUS_ENABLED); }
  [[nodiscard]] unsigned page_shift() const { return page_shift_; }
  // UAR pages: number of the page an offset in BAR2 lies in; whether it is handed out.
  [[nodiscard]] std::uint32_t uar_of(std::uint64_t offset) const;
  [[nodiscard]] bool uar_live(std::uint32_t uar) const;

 private:
  // One reply: what to write back, and the status.
  struct Reply {
    std::vector<std::byte> bytes;
  };
  void execute(const tern_aq_entry& entry);
  Status dispatch(const tern_aq_entry& entry, std::span<const std::byte> in, Reply& reply);
  void complete(const tern_aq_entry& entry, Status status, std::uint16_t out_len);
  void enable();

  Device& device_;
  std::uint32_t status_ = TERN_STATUS_READY;
  std::uint32_t fatal_ = TERN_FATAL_NONE;
  unsigned page_shift_ = TERN_PAGE_SHIFT_MIN;
  std::uint64_t aq_base_ = 0;
  std::uint64_t acq_base_ = 0;
  std::uint32_t log_size_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t acq_pi_ = 0;
  std::uint32_t clock_hi_ = 0;
  std::vector<bool> uars_;               // handed out
  std::vector<std::uint32_t> uar_users_; // queues on each page
  std::uint32_t uar_next_ = 1;           // where the search for a free page goes on
};

}  // namespace tern
