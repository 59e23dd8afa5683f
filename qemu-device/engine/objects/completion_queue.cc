// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstddef>

#include "control/device.h"
#include "core/limits.h"
#include "objects/queues.h"

namespace tern {

Cq::Cq(Device& device, const tern_cmd_create_cq& cmd, Eq* eq)
    : device_(device), cmd_(cmd), eq_(eq) {
  if (eq_ != nullptr) eq_->attach_cq();
}

Cq::~Cq() {
  if (eq_ != nullptr) eq_->detach_cq();
}

Status Cq::init() {
  const std::uint64_t record = le(std::uint32_t{cmd_.record_offset});
  if (cmd_.flags & ~TERN_CQ_F_IGNORE_OVERRUN) return TERN_ST_BAD_PARAM;
  if (cmd_.flags & TERN_CQ_F_IGNORE_OVERRUN) return TERN_ST_NOT_SUPPORTED;
  if (cmd_.log_size < kMinLogCq || cmd_.log_size > kMaxLogCq || record % TERN_RECORD_SIZE != 0 ||
      record < std::uint64_t{size()} * sizeof(tern_cqe)) {
    return TERN_ST_BAD_PARAM;
  }
  return buffer_.load(device_.host, cmd_.pages, record + sizeof(tern_cq_record));
}

// Whether there is a free entry; the record is read only when none is known. A consumer index
// that cannot be, ahead of ours or too far behind, is an overflow, too.
bool Cq::make_room() {
  const auto index = static_cast<std::uint32_t>(pi_);
  if (index - ci_ < size()) return true;
  const auto ci =
      buffer_.load32(device_.host, le(std::uint32_t{cmd_.record_offset}) + offsetof(tern_cq_record, ci));
  if (!ci) {
    fail(TERN_CNT_DMA_ERRORS);
    return false;
  }
  if (index - *ci >= size()) {
    fail(TERN_CNT_CQ_OVERRUNS);
    return false;
  }
  ci_ = *ci;
  return true;
}

bool Cq::push(tern_cqe& cqe) {
  if (broken_ || !make_room()) return false;
  cqe.timestamp = le(device_.host.now());
  cqe.phase = le(static_cast<std::uint32_t>(~(pi_ >> cmd_.log_size) & TERN_CQE_PHASE));
  const std::uint64_t slot = pi_ & (size() - 1);
  if (!buffer_.publish(device_.host, slot * sizeof(cqe), std::as_bytes(std::span(&cqe, 1)))) {
    fail(TERN_CNT_DMA_ERRORS);
    return false;
  }
  ++pi_;
  const bool solicits = (cqe.flags & TERN_CQE_F_SOLICITED) || cqe.status != TERN_CQE_SUCCESS;
  if (solicits) solicited_end_ = pi_;
  if (armed_ && (solicits || !armed_solicited_)) fire();
  return true;
}

void Cq::arm() {
  if (broken_ || eq_ == nullptr) return;
  const auto word =
      buffer_.load32(device_.host, le(std::uint32_t{cmd_.record_offset}) + offsetof(tern_cq_record, arm));
  if (!word) return fail(TERN_CNT_DMA_ERRORS);
  const auto seq = static_cast<std::uint8_t>(field_get(TERN_CQ_ARM_SEQ_MASK, *word));
  if (!(*word & TERN_CQ_ARM_VALID) || seq == fired_seq_) return;
  // A request for any completion stays one when one for solicited ones follows.
  const bool any = armed_ && armed_seq_ == seq && !armed_solicited_;
  armed_ = true;
  armed_seq_ = seq;
  armed_solicited_ = !any && (*word & TERN_CQ_ARM_SOLICITED);

  // CQEs with an index not below CI, none when CI is ahead of us; and how many of them came
  // after the newest that counts.
  constexpr std::uint32_t kBehind = (TERN_CQ_ARM_CI_MASK + 1) / 2;
  const std::uint64_t unseen = (pi_ - (*word & TERN_CQ_ARM_CI_MASK)) & TERN_CQ_ARM_CI_MASK;
  const std::uint64_t later = armed_solicited_ ? pi_ - solicited_end_ : 0;
  // What an earlier event told of is not told again, whether or not software has read it: who
  // arms before it polls would be woken for nothing.
  if (unseen < kBehind && unseen > later && pi_ - told_ > later) fire();
}

// One event that is not consumed is enough: who takes it looks at the queue after that.
void Cq::fire() {
  if (eqe_posted_ && !eq_->consumed(eqe_index_)) {
    device_.counters.add(TERN_CNT_EQ_COALESCED);
  } else {
    const std::uint64_t index = eq_->pi();
    if (!eq_->post(TERN_EV_COMPLETION, cqn_)) return;  // stays armed
    eqe_index_ = index;
    eqe_posted_ = true;
  }
  told_ = pi_;
  fired_seq_ = armed_seq_;
  armed_ = false;
}

void Cq::fail(unsigned counter) {
  broken_ = true;
  armed_ = false;
  device_.counters.add(counter);
  device_.async_events.raise(TERN_EV_CQ_ERR, cqn_);
  device_.cq_failed(*this);
}

}  // namespace tern
