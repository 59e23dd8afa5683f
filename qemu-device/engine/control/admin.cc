// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/admin.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "control/admin_commands.h"
#include "control/device.h"
#include "tern_event_log_layout.h"
#include "tern_layout.h"

namespace tern {

namespace {

constexpr std::uint32_t kLogSizeMin = 1;
constexpr std::uint32_t kLogSizeMax = 8;
constexpr std::uint64_t kQueueAlign = 64;
constexpr std::uint64_t kArgumentAlign = 8;

std::uint64_t join(std::uint32_t hi, std::uint32_t lo) { return std::uint64_t{hi} << 32 | lo; }

}  // namespace

Admin::Admin(Device& device)
    : device_(device), poller_(device.datapath, device.registry.config.doorbell_cost) {}

// ---- registers ----

std::uint32_t Admin::reg_read(std::uint32_t offset) {
  switch (offset) {
    case TERN_REG_MAGIC:
      return TERN_MAGIC;
    case TERN_REG_VERSION:
      return TERN_VERSION_MAJOR << 16 | TERN_VERSION_MINOR;
    case TERN_REG_STATUS:
      return device_.registry.status.bits();
    case TERN_REG_PAGE_SHIFT:
      return page_shift_reg_;
    case TERN_REG_FATAL:
      return device_.registry.status.fatal_code();
    case TERN_REG_AQ_BASE_LO:
      return aq_lo_;
    case TERN_REG_AQ_BASE_HI:
      return aq_hi_;
    case TERN_REG_ACQ_BASE_LO:
      return acq_lo_;
    case TERN_REG_ACQ_BASE_HI:
      return acq_hi_;
    case TERN_REG_AQ_LOG_SIZE:
      return log_size_;
    case TERN_REG_AQ_RECORD_LO:
      return record_lo_;
    case TERN_REG_AQ_RECORD_HI:
      return record_hi_;
    case TERN_REG_CLOCK_LO: {
      const Nanos now = device_.host.now();
      clock_hi_ = static_cast<std::uint32_t>(now >> 32);
      return static_cast<std::uint32_t>(now);
    }
    case TERN_REG_CLOCK_HI:
      return clock_hi_;
    case TERN_REG_CTRL:
    case TERN_REG_AQ_TAIL:
      return 0;  // write-only
    default:
      return TERN_REG_GONE;
  }
}

void Admin::reg_write(std::uint32_t offset, std::uint32_t value) {
  if (offset == TERN_REG_CTRL) {
    if (value & TERN_CTRL_RESET) return device_.reset();
    if ((value & TERN_CTRL_ENABLE) && device_.registry.status.idle()) enable();
    return;
  }
  if (enabled()) {
    if (offset != TERN_REG_AQ_TAIL) return;
    set_tail(value);
    if (enabled()) poller_.rung(*this);
  } else if (device_.registry.status.idle()) {
    configure(offset, value);
  }
}

void Admin::configure(std::uint32_t offset, std::uint32_t value) {
  switch (offset) {
    case TERN_REG_PAGE_SHIFT:
      page_shift_reg_ = value;
      break;
    case TERN_REG_AQ_BASE_LO:
      aq_lo_ = value;
      break;
    case TERN_REG_AQ_BASE_HI:
      aq_hi_ = value;
      break;
    case TERN_REG_ACQ_BASE_LO:
      acq_lo_ = value;
      break;
    case TERN_REG_ACQ_BASE_HI:
      acq_hi_ = value;
      break;
    case TERN_REG_AQ_LOG_SIZE:
      log_size_ = value;
      break;
    case TERN_REG_AQ_RECORD_LO:
      record_lo_ = value;
      break;
    case TERN_REG_AQ_RECORD_HI:
      record_hi_ = value;
      break;
    default:
      break;
  }
}

// ---- life cycle ----

bool Admin::configured() const {
  return page_shift_reg_ >= TERN_PAGE_SHIFT_MIN && page_shift_reg_ <= TERN_PAGE_SHIFT_MAX &&
         log_size_ >= kLogSizeMin && log_size_ <= kLogSizeMax && aq_lo_ % kQueueAlign == 0 &&
         acq_lo_ % kQueueAlign == 0 && record_lo_ % sizeof(tern_aq_record) == 0;
}

void Admin::enable() {
  if (!configured()) return fatal(TERN_FATAL_CONFIG);
  if (const std::uint64_t record = join(record_hi_, record_lo_); record != 0)
    record_.emplace(record);
  page_shift_ = page_shift_reg_;
  for (unsigned i = 0; i < device_.lanes(); ++i) device_.lane(i).enable(uar_pages());
  device_.registry.status.enable();
}

bool Admin::enabled() const { return device_.registry.status.enabled(); }

void Admin::fatal(std::uint32_t code) { device_.datapath.fatal(code); }

void Admin::reset() {
  poller_.forget(*this);
  record_.reset();
  device_.registry.status.reset();
  page_shift_ = page_shift_reg_ = TERN_PAGE_SHIFT_MIN;
  aq_lo_ = aq_hi_ = acq_lo_ = acq_hi_ = record_lo_ = record_hi_ = log_size_ = 0;
  tail_ = head_ = completed_ = clock_hi_ = 0;
  num_clearing_ = 0;
}

// ---- doorbell pages ----

std::uint32_t Admin::uar_of(std::uint64_t offset) const {
  return static_cast<std::uint32_t>(offset >> page_shift_);
}

std::uint32_t Admin::uar_pages() const {
  return static_cast<std::uint32_t>(device_.registry.config.uar_bar_size >> page_shift_);
}

// ---- the queue ----

void Admin::set_tail(std::uint32_t tail) {
  tail_ = tail;
  if (tail_ - head_ > 1U << log_size_) fatal(TERN_FATAL_AQ_OVERRUN);
}

bool AdminAccess::may_poll(const Admin& admin) { return admin.record_.has_value(); }

bool AdminAccess::moved(Context& context, const Admin& admin) {
  if (admin.head_ != admin.tail_) return false;
  const auto tail = admin.record_->load32(context.host, offsetof(tern_aq_record, tail));
  return !tail || *tail != admin.tail_;
}

void AdminAccess::kick(Admin& admin) {
  const auto tail = admin.record_->load32(admin.device_.host, offsetof(tern_aq_record, tail));
  if (!tail) return admin.fatal(TERN_FATAL_AQ_DMA);
  admin.set_tail(*tail);
}

void AdminAccess::store_status(Context& context, const Admin& admin) {
  if (!admin.enabled()) return;
  // moved() finds out whether the record is reachable.
  (void)admin.record_->store32(context.host, offsetof(tern_aq_record, status),
                               admin.polled.on ? TERN_AQ_ST_POLLED : 0);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Admin::execute_waiting(std::uint32_t& budget) {
  static_assert(kMaxClearing == std::size_t{1} << kLogSizeMax);
  clear(budget);
  if (head_ == tail_) return enabled() && waiting();
  const Device::Alone alone(device_);
  // A command may take memory away, or let software reuse it.
  device_.unshare();
  const std::uint64_t enough = device_.registry.page_budget.worked() + kPageEntries;
  for (unsigned n = 0;
       n < kCommands && enabled() && head_ != tail_ && num_clearing_ < kMaxClearing &&
       device_.registry.page_budget.worked() < enough;
       ++n) {
    const std::uint64_t slot = head_ & ((1U << log_size_) - 1);
    tern_aq_entry entry;
    if (!dma_read(device_.host, join(aq_hi_, aq_lo_) + slot * sizeof(entry),
                  std::as_writable_bytes(std::span(&entry, 1)))) {
      fatal(TERN_FATAL_AQ_DMA);
      return false;
    }
    execute(entry);
    clear(budget);
  }
  return enabled() && waiting();
}

// Zeroes device memory for the allocations in progress, round robin, so that a large one does not
// delay a small one.
void Admin::clear(std::uint32_t& budget) {
  while (enabled() && num_clearing_ != 0 && budget != 0) {
    const Clearing first = clearing_[0];
    const std::uint64_t zeroed = device_.registry.dm.clear(first.dmn, std::min(budget, kClearTurn));
    budget -= static_cast<std::uint32_t>(zeroed);
    std::shift_left(clearing_.begin(), clearing_.begin() + num_clearing_, 1);
    if (device_.registry.dm.find(first.dmn) != nullptr) {
      --num_clearing_;
      cleared(first);
    } else {
      clearing_[num_clearing_ - 1] = first;
    }
  }
}

void Admin::cleared(const Clearing& done) {
  const auto reply = std::as_bytes(std::span(&done.reply, 1)).first(done.out_len);
  if (dma_write(device_.host, done.out_addr, reply))
    return complete(done.tag, TERN_ST_OK, done.out_len);
  // Software does not learn the number, so the part cannot stay allocated.
  (void)device_.registry.dm.free(done.dmn);
  complete(done.tag, TERN_ST_DMA_ERROR, 0);
}

void Admin::execute(const tern_aq_entry& entry) {
  ++head_;
  if (device_.port.swallows(le(std::uint16_t{entry.opcode}))) return;
  std::uint16_t out_len = 0;
  std::uint32_t dmn = 0;
  const Status status = perform(entry, &out_len, &dmn);
  if (dmn == 0) complete(entry.tag, status, out_len);
}

// `tag` has the byte order of the entry.
void Admin::complete(std::uint32_t tag, Status status, std::uint16_t out_len) {
  const std::uint32_t index = completed_++;
  tern_acq_entry done{};
  done.status = le(status);
  done.tag = tag;
  done.out_len = le(out_len);
  done.aq_head = le(head_);
  done.phase = le((~(index >> log_size_)) & TERN_CQE_PHASE);
  const std::uint64_t slot = index & ((1U << log_size_) - 1);
  if (!dma_publish(device_.host, join(acq_hi_, acq_lo_) + slot * sizeof(done),
                   std::as_bytes(std::span(&done, 1)))) {
    return fatal(TERN_FATAL_AQ_DMA);
  }
  if (armed(index)) device_.datapath.raise(0);
}

// Whether software wants an interrupt for the completion, which has just been written.
bool Admin::armed(std::uint32_t index) {
  if (!record_) return true;
  // Software stores the word, issues a full barrier, and then looks for the completion.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto arm = record_->load32(device_.host, offsetof(tern_aq_record, arm));
  if (!arm) fatal(TERN_FATAL_AQ_DMA);
  return arm == index;
}

// Copies the input and maps the reply before the command runs, so that a command whose memory is
// unreachable changes nothing.
Status Admin::perform(const tern_aq_entry& entry, std::uint16_t* out_len, std::uint32_t* dmn) {
  const Command* const command = find_command(le(std::uint16_t{entry.opcode}));
  if (command == nullptr) return TERN_ST_BAD_OPCODE;
  if (le(std::uint16_t{entry.version}) != TERN_CMD_VERSION) return TERN_ST_BAD_VERSION;
  const bool missing = command->needs != 0 && !(device_.registry.caps() & command->needs);
  if (missing) return TERN_ST_NOT_SUPPORTED;
  const std::size_t in_len = le(std::uint16_t{entry.in_len});
  const std::size_t room = le(std::uint16_t{entry.out_len});
  const std::uint64_t in_addr = le(std::uint64_t{entry.in_addr});
  const std::uint64_t out_addr = le(std::uint64_t{entry.out_addr});
  if (in_len > TERN_CMD_MAX_LEN || room > TERN_CMD_MAX_LEN || in_len < command->in_size) {
    return TERN_ST_BAD_LENGTH;
  }
  if (entry.rsvd_c != 0 || (in_len != 0 && in_addr % kArgumentAlign != 0) ||
      (room != 0 && out_addr % kArgumentAlign != 0)) {
    return TERN_ST_BAD_PARAM;
  }
  std::array<std::byte, TERN_CMD_MAX_LEN> in;
  if (!dma_read(device_.host, in_addr, std::span(in).first(in_len))) return TERN_ST_DMA_ERROR;
  if (!is_clean(*command, std::span<const std::byte>(in).first(in_len))) return TERN_ST_BAD_PARAM;

  SpanList to(device_.host);
  const std::size_t most = std::min<std::size_t>(room, command->out_size);
  if (!to.append_dma(out_addr, most, true)) return TERN_ST_DMA_ERROR;
  Reply reply;
  const Status status = command->run(*this, device_, in.data(), reply);
  const std::size_t len = status == TERN_ST_OK ? std::min(most, reply.size()) : 0;
  if (reply.clearing() != 0) {
    to.abandon();
    Clearing& more = clearing_[num_clearing_++];
    more = {reply.clearing(), entry.tag, out_addr, static_cast<std::uint16_t>(len), {}};
    std::memcpy(&more.reply, reply.bytes().data(), sizeof(more.reply));
    *dmn = more.dmn;
    return status;
  }
  if (len == 0) {
    to.abandon();
    return status;
  }
  to.copy_from(reply.bytes().first(len));
  *out_len = static_cast<std::uint16_t>(len);
  return status;
}

}  // namespace tern
