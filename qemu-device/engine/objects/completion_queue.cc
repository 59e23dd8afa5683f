// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/limits.h"
#include "objects/context.h"
#include "objects/queues.h"

namespace tern {

namespace {

constexpr Nanos kNanosPerMicro = 1000;
constexpr Nanos kRetry = 1'000'000;  // until an event that did not fit the EQ is tried again

bool size_ok(unsigned log_size) { return log_size >= kMinLogCq && log_size <= kMaxLogCq; }

std::uint64_t ring_bytes(unsigned log_size) { return sizeof(tern_cqe) << log_size; }

}  // namespace

Cq::Cq(Context& context, const tern_cmd_create_cq& cmd, Eq* eq)
    : context_(&context),
      cmd_(cmd),
      buffer_(context.device.page_budget),
      eq_(eq),
      record_(le(std::uint64_t{cmd.record})),
      serial_(context.device.next_serial()),
      period_end_(
          context.timers, [](void* self) { static_cast<Cq*>(self)->fire(); }, this),
      log_size_(cmd.log_size),
      lane_member(
          context, [](void* self, Context& lane) { static_cast<Cq*>(self)->move_to(lane); }, this) {
  if (eq_ != nullptr) eq_->attach_cq();
}

Cq::~Cq() {
  if (eq_ != nullptr) eq_->detach_cq();
}

Status Cq::init() {
  if ((cmd_.flags & ~TERN_CQ_F_IGNORE_OVERRUN) || !size_ok(log_size_) ||
      !record_.fits<tern_cq_record>()) {
    return TERN_ST_BAD_PARAM;
  }
  return buffer_.load(context_->host, cmd_.pages, ring_bytes(log_size_));
}

// Returns whether an entry is free; fails the queue if not. Reads the record only if the last ci
// leaves no space. An impossible consumer index, ahead of pi_ or too far before it, also counts as
// overflow.
bool Cq::make_room() {
  const auto index = static_cast<std::uint32_t>(pi_);
  if (ignores_overrun() || index - ci_ < size()) return true;
  const auto ci = record_.load32(context_->host, offsetof(tern_cq_record, ci));
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
  const std::uint64_t place = pi_ - base_;
  cqe.timestamp = le(context_->now());
  cqe.phase = le(static_cast<std::uint32_t>(~(place >> log_size_) & TERN_CQE_PHASE));
  const std::uint64_t slot = place & (size() - 1);
  if (!buffer_.publish(context_->host, slot * sizeof(cqe), std::as_bytes(std::span(&cqe, 1)))) {
    fail(TERN_CNT_DMA_ERRORS);
    return false;
  }
  ++pi_;
  if (context_->log != nullptr) [[unlikely]]
    log(cqe);
  const bool solicits = (cqe.flags & TERN_CQE_F_SOLICITED) || cqe.status != TERN_CQE_SUCCESS;
  if (solicits) {
    solicited_end_ = pi_;
    ++unreported_solicited_;
  }
  if (armed_ && (solicits || !armed_solicited_)) report(1);
  if (eq_ != nullptr && !written_.linked()) context_->written_cqs.push_back(written_);
  return true;
}

void Cq::log(const tern_cqe& cqe) const {
  const auto flags =
      static_cast<std::uint16_t>((cqe.flags & TERN_CQE_F_RECV ? TERN_LOG_F_RECV : 0) |
                                 (cqe.flags & TERN_CQE_F_SOLICITED ? TERN_LOG_F_SOLICITED : 0));
  context_->log->add({.type = TERN_LOG_CQE,
                      .code = cqe.status,
                      .flags = flags,
                      .qpn = le(std::uint32_t{cqe.qpn}),
                      .addr = le(std::uint64_t{cqe.wr_id}),
                      .length = le(std::uint32_t{cqe.byte_len}),
                      .key = cqn_,
                      .index = le(std::uint32_t{cqe.wqe_index}),
                      .value = cqe.opcode,
                      .detail = le(std::uint32_t{cqe.srqn})});
}

void Cq::arm() {
  if (broken_ || eq_ == nullptr) return;
  const auto word = record_.load32(context_->host, offsetof(tern_cq_record, arm));
  if (!word) return fail(TERN_CNT_DMA_ERRORS);
  const auto seq = static_cast<std::uint8_t>(field_get(TERN_CQ_ARM_SEQ_MASK, *word));
  if (!(*word & TERN_CQ_ARM_VALID) || seq == fired_seq_ || (armed_ && *word == armed_word_)) return;
  // Arming for solicited completions does not narrow an earlier arm for any completion.
  const bool any = armed_ && armed_seq_ == seq && !armed_solicited_;
  armed_ = true;
  armed_word_ = *word;
  armed_seq_ = seq;
  armed_solicited_ = !any && (*word & TERN_CQ_ARM_SOLICITED);

  // `unseen`: CQEs with an index of at least CI; kBehind or more means that CI is ahead of pi_.
  // `later`: CQEs after the newest one that counts for this arm.
  constexpr std::uint32_t kBehind = (TERN_CQ_ARM_CI_MASK + 1) / 2;
  const std::uint64_t unseen = (pi_ - (*word & TERN_CQ_ARM_CI_MASK)) & TERN_CQ_ARM_CI_MASK;
  const std::uint64_t later = armed_solicited_ ? pi_ - solicited_end_ : 0;
  // Does not report a CQE twice, even if software has not polled it: software that arms before it
  // polls would wake up for nothing.
  pending_ = 0;
  if (unseen < kBehind && unseen > later && pi_ - reported_ > later) {
    report(std::min(unseen, armed_solicited_ ? unreported_solicited_ : pi_ - reported_));
  } else {
    period_end_.cancel();
  }
}

// Counts `more` CQEs for the armed event and fires it now or, with moderation, later.
void Cq::report(std::uint64_t more) {
  pending_ += more;
  if (!moderated() || (count_ != 0 && pending_ >= count_)) {
    fire();
  } else if (!period_end_.armed()) {
    period_end_.arm(context_->now() + period_ * kNanosPerMicro);
  }
}

// One unconsumed event is enough: software that consumes it polls the queue afterwards.
void Cq::fire() {
  const auto lock = eq_->lock();
  if (eqe_posted_ && !eq_->consumed(*context_, eqe_index_)) {
    context_->counters.add(TERN_CNT_EQ_COALESCED);
  } else {
    const std::uint64_t index = eq_->pi();
    if (!eq_->post(*context_, TERN_EV_COMPLETION, cqn_, generation())) {
      // Events of destroyed CQs fill the queue. Software does not ring when it consumes them.
      period_end_.arm(context_->now() + kRetry);
      return;
    }
    eqe_index_ = index;
    eqe_posted_ = true;
  }
  reported_ = pi_;
  unreported_solicited_ = 0;
  fired_seq_ = armed_seq_;
  armed_ = false;
  pending_ = 0;
  period_end_.cancel();
  store_reported();
}

// Software that reads an older value rings needlessly.
void Cq::store_reported() {
  const auto index = static_cast<std::uint32_t>(reported_);
  if (!record_.store32(context_->host, offsetof(tern_cq_record, reported), index))
    fail(TERN_CNT_DMA_ERRORS);
}

// Only marks the CQ. Its users are notified later: one that flushes a receive WQE may fail another
// CQ, whose users may fail a third one.
void Cq::fail(unsigned counter) {
  if (broken_) return;
  broken_ = true;
  armed_ = false;
  period_end_.cancel();
  context_->counters.add(counter);
  context_->async_events.raise(*context_, TERN_EV_CQ_ERR, cqn_, generation());
  context_->failed_cqs.push_back(failed_);
}

void Cq::move_to(Context& lane) {
  lane.written_cqs.adopt(written_);
  lane.failed_cqs.adopt(failed_);
  period_end_.move_to(lane.timers);
  context_ = &lane;
  lane.uars.add(uar(), page_queue_);
  users_.for_each([&](CqUser& user) { user.move_to(lane); });
  notified_.for_each([&](CqUser& user) { user.move_to(lane); });
  arm();  // a doorbell may still be on its way to the former lane
}

bool Cq::notify_users(std::uint32_t& most) {
  while (CqUser* const user = users_.front()) {
    if (most == 0) return true;
    --most;
    ++context_->visits;
    user->unlink();
    notified_.push_back(*user);
    user->kind_.failed(user->user_);
  }
  failed_.unlink();
  return false;
}

Status Cq::resize(const tern_cmd_resize_cq& cmd, tern_rsp_resize_cq* rsp) {
  if (!size_ok(cmd.log_size)) return TERN_ST_BAD_PARAM;
  if (broken_) return TERN_ST_BAD_STATE;
  QueueBuffer fresh(context_->device.page_budget);
  const Status st = fresh.load(context_->host, cmd.pages, ring_bytes(cmd.log_size));
  if (st != TERN_ST_OK) return st;
  const auto ci = record_.load32(context_->host, offsetof(tern_cq_record, ci));
  if (!ci) return TERN_ST_DMA_ERROR;
  // Software copies unconsumed CQEs in front of the new ones. If they exceed the old buffer, some
  // are lost already.
  const std::uint32_t unconsumed = static_cast<std::uint32_t>(pi_) - *ci;
  if (unconsumed > size()) return TERN_ST_BAD_STATE;
  if (unconsumed > 1U << cmd.log_size) return TERN_ST_BAD_PARAM;
  buffer_ = std::move(fresh);
  log_size_ = cmd.log_size;
  base_ = pi_;
  ci_ = *ci;
  rsp->pi = le(static_cast<std::uint32_t>(base_));
  rsp->rsvd_4 = 0;
  return TERN_ST_OK;
}

Status Cq::modify(const tern_cmd_modify_cq& cmd) {
  const std::uint16_t count = le(std::uint16_t{cmd.count});
  const std::uint16_t period = le(std::uint16_t{cmd.period});
  // Without a period, the last CQEs before a pause would never be reported.
  if (count > 1 && period == 0) return TERN_ST_BAD_PARAM;
  if (broken_) return TERN_ST_BAD_STATE;
  count_ = count;
  period_ = period;
  period_end_.cancel();
  if (armed_ && pending_ != 0) report(0);
  return TERN_ST_OK;
}

Status Cq::query(tern_rsp_query_cq* rsp) const {
  const auto ci = record_.load32(context_->host, offsetof(tern_cq_record, ci));
  if (!ci) return TERN_ST_DMA_ERROR;
  *rsp = {};
  rsp->pi = le(static_cast<std::uint32_t>(pi_));
  rsp->ci = le(*ci);
  rsp->reported = le(static_cast<std::uint32_t>(reported_));
  rsp->eqn = cmd_.eqn;
  rsp->generation = le(generation());
  rsp->count = le(count_);
  rsp->period = le(period_);
  rsp->log_size = log_size_;
  rsp->flags = cmd_.flags;
  if (armed_)
    rsp->state |= armed_solicited_ ? TERN_CQ_ST_ARMED | TERN_CQ_ST_SOLICITED : TERN_CQ_ST_ARMED;
  if (broken_) rsp->state |= TERN_CQ_ST_FAILED;
  return TERN_ST_OK;
}

}  // namespace tern
