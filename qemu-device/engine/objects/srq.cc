// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects/srq.h"

#include <cstddef>
#include <utility>

#include "core/limits.h"
#include "objects/context.h"

namespace tern {

bool read_recv_wqe(Host& host, const QueueBuffer& buffer, std::uint64_t slot, unsigned log_stride,
                   RecvWqe& wqe) {
  tern_rq_hdr hdr;
  if (!buffer.read(host, slot, std::as_writable_bytes(std::span(&hdr, 1)))) return false;
  const std::size_t room = ((std::size_t{1} << log_stride) - sizeof(hdr)) / sizeof(tern_sge);
  if (hdr.num_sge > room || hdr.num_sge > RecvWqe::kMaxSge) return false;
  const auto sges = std::span(wqe.sges).first(hdr.num_sge);
  if (!sges.empty() && !buffer.read(host, slot + sizeof(hdr), std::as_writable_bytes(sges))) {
    return false;
  }
  wqe.wr_id = le(std::uint64_t{hdr.wr_id});
  wqe.num_sge = hdr.num_sge;
  return true;
}

constexpr CqUser::Kind Srq::kCqUser = {[](void* self) { static_cast<Srq*>(self)->cq_failed(); },
                                       nullptr};

Srq::Srq(Context& context, const tern_cmd_create_srq& cmd, bool privileged, Cq* cq)
    : context_(&context),
      cmd_(cmd),
      cq_(cq),
      cq_user_(kCqUser, this),
      serial_(context.device.next_serial()),
      buffer_(context.device.page_budget),
      owner_{Pdn(le(std::uint32_t{cmd.pdn})), privileged, Qpn()},
      record_(le(std::uint64_t{cmd.record})),
      log_size_(cmd.log_size),
      lane_member(
          context, [](void* self, Context& lane) { static_cast<Srq*>(self)->move_to(lane); },
          this) {
  if (cq_ != nullptr) cq_->attach(cq_user_);
}

Srq::~Srq() = default;

void Srq::move_to(Context& lane) {
  context_ = &lane;
  if (tags_) return tags_->move_to(lane);
  // The walk of the former lane skips targets that have moved.
  if (cq_ != nullptr && cq_->broken()) lane.xrc_cq_failed();
}

void Srq::cq_failed() {
  fail();
  // A QP of an SRQ with tags uses the CQ itself.
  if (!tags_) context_->xrc_cq_failed();
}

Status Srq::check() const {
  const bool bad = cmd_.log_stride < TERN_RQ_STRIDE_MIN || cmd_.log_stride > TERN_RQ_STRIDE_MAX ||
                   log_size_ > kMaxLogWq || !record_.fits<tern_srq_record>();
  return bad ? TERN_ST_BAD_PARAM : TERN_ST_OK;
}

Status Srq::init() {
  if (const Status st = check(); st != TERN_ST_OK) return st;
  if (cmd_.flags & TERN_SRQ_F_TM) {
    tags_ = std::make_unique<TagList>(*context_, cmd_, *this, *cq_);
    if (const Status st = tags_->init(); st != TERN_ST_OK) return st;
  }
  return buffer_.load(context_->host, cmd_.pages, ring_bytes(log_size_));
}

bool Srq::store_ci() { return record_.store32(context_->host, offsetof(tern_srq_record, ci), ci_); }

// Returns the number of WQEs posted and not yet taken. If the record is unreachable or wrong, fails
// the SRQ and returns nullopt.
std::optional<std::uint32_t> Srq::posted() {
  if (failed_) return std::nullopt;
  const auto pi = context_->producer_index(record_, offsetof(tern_srq_record, pi));
  if (!pi || *pi - ci_ > size()) {
    fail();
    return std::nullopt;
  }
  return *pi - ci_;
}

Take Srq::take(RecvWqe& wqe) {
  const auto waiting = posted();
  if (!waiting) return Take::kFailed;
  if (*waiting == 0) return Take::kEmpty;
  const std::uint64_t slot = std::uint64_t{ci_ & (size() - 1)} << cmd_.log_stride;
  if (!read_recv_wqe(context_->host, buffer_, slot, cmd_.log_stride, wqe)) {
    fail();
    return Take::kFailed;
  }
  wqe.owner = owner_;
  wqe.srqn = srqn_;
  wqe.index = ci_++;
  // The WQE has been copied, so the slot belongs to software again.
  if (!store_ci()) {
    fail();
    return Take::kFailed;
  }
  check_limit(*waiting - 1);
  return Take::kTaken;
}

void Srq::check_limit(std::uint32_t left) {
  if (left >= limit_) return;
  limit_ = 0;
  context_->async_events.raise(*context_, TERN_EV_SRQ_LIMIT, srqn_, generation());
}

void Srq::fail() {
  if (failed_) return;
  failed_ = true;
  limit_ = 0;
  context_->async_events.raise(*context_, TERN_EV_SRQ_ERR, srqn_, generation());
}

Status Srq::modify(const tern_cmd_modify_srq& cmd) {
  const std::uint32_t mask = le(std::uint32_t{cmd.mask});
  const bool resizes = mask & TERN_SRQA_RESIZE;
  if (mask & ~(TERN_SRQA_LIMIT | TERN_SRQA_RESIZE)) return TERN_ST_BAD_PARAM;
  if (resizes) {
    if (cmd.log_size > kMaxLogWq) return TERN_ST_BAD_PARAM;
  } else if (cmd.pages.addr != 0 || cmd.pages.num != 0) {
    return TERN_ST_BAD_PARAM;
  }
  const std::uint32_t limit = mask & TERN_SRQA_LIMIT ? le(std::uint32_t{cmd.limit}) : limit_;
  if (limit > 1U << (resizes ? cmd.log_size : log_size_)) return TERN_ST_BAD_PARAM;
  if (mask == 0) return TERN_ST_OK;
  // A bad record fails the SRQ now rather than with the next message.
  const auto left = posted();
  if (!left) return TERN_ST_BAD_STATE;
  if (resizes) {
    if (*left > 1U << cmd.log_size) return TERN_ST_BAD_PARAM;
    if (const Status st = resize(cmd); st != TERN_ST_OK) return st;
  }
  limit_ = limit;
  check_limit(*left);
  return TERN_ST_OK;
}

// Software has copied the posted WQEs to the new buffer. ci_ stays, so the record stays valid.
Status Srq::resize(const tern_cmd_modify_srq& cmd) {
  QueueBuffer fresh(context_->device.page_budget);
  const Status st = fresh.load(context_->host, cmd.pages, ring_bytes(cmd.log_size));
  if (st != TERN_ST_OK) return st;
  buffer_ = std::move(fresh);
  log_size_ = cmd.log_size;
  return TERN_ST_OK;
}

void Srq::query(tern_rsp_query_srq* rsp) const { *rsp = {le(limit_), le(ci_)}; }

}  // namespace tern
