// SPDX-License-Identifier: GPL-2.0-or-later
// Registers, life cycle and the admin queue. The commands are in admin_commands.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/limits.h"
#include "memory/memory.h"
#include "objects/queue_poller.h"
#include "objects/record.h"

namespace tern {

class Admin;
class Device;

// Polling of the admin queue (tern_aq_record.status, TERN_AQ_ST_POLLED).
struct AdminAccess {
  static bool may_poll(const Admin& admin);
  static bool moved(Context& context, const Admin& admin);
  static std::uint32_t uar(const Admin& /*admin*/) { return TERN_UAR_KERNEL; }
  static void kick(Admin& admin);
  static void store_status(Context& context, const Admin& admin);
};

class Admin {
 public:
  explicit Admin(Device& device);

  // BAR0. An offset without a register reads as TERN_REG_GONE and ignores writes.
  std::uint32_t reg_read(std::uint32_t offset);
  void reg_write(std::uint32_t offset, std::uint32_t value);
  void reset();  // registers and life cycle; the Device resets the objects
  // Saved state of the registers; then that of commands in progress, when all objects are known.
  // The state of the life cycle is known.
  void state(Archive& ar);
  void commands_state(Archive& ar);

  // Polls, and executes a slice of commands. Zeroes device memory for about `budget` bytes, from
  // which it subtracts them. Returns true if more commands are waiting or in progress.
  bool run(std::uint32_t& budget) { return poll() && execute_waiting(budget); }

  // QueuePoller::allow() and poll(); the latter returns true if commands are waiting.
  void allow_polling(Nanos from) { poller_.allow(from); }
  bool poll() {
    if (polls()) poller_.poll();
    return waiting();
  }
  [[nodiscard]] bool polls() const { return poller_.any() && enabled(); }

  [[nodiscard]] unsigned page_shift() const { return page_shift_; }

  // Returns the number of the doorbell page that contains `offset` in BAR2.
  [[nodiscard]] std::uint32_t uar_of(std::uint64_t offset) const;
  [[nodiscard]] std::uint32_t uar_pages() const;  // in BAR2, including the kernel's

  Polled polled;  // the poller's

 private:
  friend struct AdminAccess;
  // A slice ends after kCommands commands, or once they have done as much work as reading
  // kPageEntries page list entries.
  static constexpr unsigned kCommands = 16;
  static constexpr std::uint64_t kPageEntries = kMaxCmdPages;
  // Limit of ALLOC_DM commands in progress, at which no further command is fetched: the entries of
  // the largest queue, which software never exceeds if it obeys the limit of outstanding commands.
  static constexpr std::size_t kMaxClearing = 256;
  // Bytes to zero of an allocation before another one has its turn.
  static constexpr std::uint32_t kClearTurn = 16 * 1024;

  // An ALLOC_DM command that completes once its part of device memory is zeroed.
  struct Clearing {
    std::uint32_t dmn;
    std::uint32_t tag;  // as in the entry
    std::uint64_t out_addr;
    std::uint16_t out_len;
    tern_rsp_alloc_dm reply;
  };

  [[nodiscard]] bool enabled() const;
  // Whether the registers allow TERN_CTRL_ENABLE.
  [[nodiscard]] bool configured() const;
  [[nodiscard]] bool waiting() const { return head_ != tail_ || num_clearing_ != 0; }
  void enable();
  void fatal(std::uint32_t code);
  void configure(std::uint32_t offset, std::uint32_t value);
  void set_tail(std::uint32_t tail);
  bool execute_waiting(std::uint32_t& budget);
  void execute(const tern_aq_entry& entry);
  // Sets `dmn` to a part of device memory if the command completes only once that part is zeroed.
  [[nodiscard]] Status perform(const tern_aq_entry& entry, std::uint16_t* out_len,
                               std::uint32_t* dmn);
  void complete(std::uint32_t tag, Status status, std::uint16_t out_len);
  [[nodiscard]] bool armed(std::uint32_t index);
  void clear(std::uint32_t& budget);
  void cleared(const Clearing& done);

  Device& device_;
  unsigned page_shift_ = TERN_PAGE_SHIFT_MIN;  // in use: ENABLE has checked it
  std::uint32_t page_shift_reg_ = TERN_PAGE_SHIFT_MIN;
  std::uint32_t aq_lo_ = 0;
  std::uint32_t aq_hi_ = 0;
  std::uint32_t acq_lo_ = 0;
  std::uint32_t acq_hi_ = 0;
  std::uint32_t record_lo_ = 0;
  std::uint32_t record_hi_ = 0;
  std::uint32_t log_size_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;  // fetched; each gets one completion, unless a fault rule drops it
  std::uint32_t completed_ = 0;
  std::optional<Record> record_;
  // Commands come in small numbers: a few in a row are worth polling for more.
  QueuePoller<Admin, AdminAccess, 4> poller_;
  std::array<Clearing, kMaxClearing> clearing_;
  std::size_t num_clearing_ = 0;
  std::uint32_t clock_hi_ = 0;
};

}  // namespace tern
