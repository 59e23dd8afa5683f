// SPDX-License-Identifier: GPL-2.0-or-later
// Saved state of the halves of a queue pair.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <variant>

#include "core/archive.h"
#include "objects/context.h"
#include "objects/srq.h"
#include "transport/connection.h"
#include "transport/path_migration.h"
#include "transport/rendezvous.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/segments.h"
#include "transport/send_rate.h"
#include "transport/tag_responder.h"
#include "transport/unreliable_connection.h"
#include "transport/xrc.h"

namespace tern {

namespace {

// Whether the QP executes WQEs of its send queue.
bool executes(const Connection& qp) {
  return qp.state() == TERN_QPS_RTS || qp.state() == TERN_QPS_SQD;
}

void state_of(Archive& ar, Accessor& who) {
  ar(who.pd.value, who.privileged, who.qp.value, who.generation);
}

void state_of(Archive& ar, SrqRef& ref) { ar(ref.number, ref.serial); }

void state_of(Archive& ar, RecvWqe& wqe) {
  ar(wqe.wr_id, wqe.index, wqe.srqn, wqe.num_sge);
  if (!ar.require(wqe.num_sge <= wqe.sges.size(), "a receive WQE has too many SGEs")) return;
  state_of(ar, wqe.owner);
  for (tern_sge& sge : std::span(wqe.sges).first(wqe.num_sge)) ar(sge);
}

}  // namespace

// ---- send queues ----

// A WQE is decoded again from its slot. What the stream says of it is its progress.
void SendQueue::wqe_state(Archive& ar, std::uint32_t index) {
  if (ar.reading()) window_.make_room(oldest_.wqe, index);
  const std::span<std::byte> slot = window_.slot(index);
  SendWqe& wqe = window_.at(index);
  if (ar.reading()) wqe = SendWqe{};
  if (qp_.rendezvous() == nullptr) {
    ar.bytes(slot);
  } else if (ar.reading() && !qp_.read_sq_slot(index, 0, slot)) {
    return ar.fail("a slot of a send queue is not readable");
  }
  std::uint8_t status = wqe.status;
  bool done = wqe.done;
  ar(wqe.first_psn, wqe.psns, wqe.received, status, done);
  if (!ar.reading()) return;
  std::span<const std::byte> data;
  const std::uint8_t decoded = decode_wqe(qp_.transport(), slot, wqe, data);
  wqe.index = index;
  wqe.done = done;
  wqe.status = status;
  ar.require(decoded == TERN_CQE_SUCCESS || status != TERN_CQE_SUCCESS,
             "a WQE that cannot be executed is valid");
  if (wqe.psns == 0) return;
  ar.require(decoded == TERN_CQE_SUCCESS && !wqe.local && wqe.psns == psns_of(wqe) &&
                 wqe.received <= wqe.psns,
             "a WQE has a wrong number of packets");
}

void SendQueue::state(Archive& ar) {
  bool open = window_.is_open();
  ar(open, oldest_.wqe, oldest_.psn, next_.wqe, next_.psn, next_.packet, fresh_.wqe, fresh_.psn,
     fetched_, posted_, parked_wqe_, kicked_, parked_);
  const bool may_send = qp_.sends() && qp_.state() >= TERN_QPS_RTS;
  if (ar.reading() && ar.require(!open || may_send, "a QP that may not send has a send window") &&
      open)
    window_.open(qp_.sq_size(), qp_.sq_stride());
  if (Rendezvous* const rendezvous = qp_.rendezvous()) rendezvous->state(ar);
  if (!ar.require(held() <= window_.capacity(), "a send queue has too many WQEs") ||
      !ar.require(ordered(), "the indices of a send queue are out of order") ||
      !ar.require(open == qp_.sends() || !executes(qp_), "a send queue is closed"))
    return;
  for (std::uint32_t i = 0; i < held() && ar.ok(); ++i) wqe_state(ar, oldest_.wqe + i);
  if (!ar.reading() || !ar.ok()) return;
  // The cursor is in the message of its WQE.
  ar.require(
      next_.packet == 0 || (next_.wqe != fetched_ && next_.packet < window_.at(next_.wqe).psns),
      "a send queue is past the end of a message");
}

void Requester::state(Archive& ar) {
  SendQueue::state(ar);
  ar(retries_left_, rnr_left_, timer_use_, rnr_wait_, repeat_, went_back_, sent_psn_, window_psn_,
     reads_out_);
  const bool armed = ar.timer(timer_, qp_.context().timers);
  ar.require(timer_use_ <= TimerUse::kRnr && (!armed || executes(qp_)), "a timer is wrong");
  if (executes(qp_) && ar.ok()) begun_state(ar);
}

// Checks the WQEs that have begun: their PSNs follow each other, the oldest that is missing is in
// the first that is not done, and the cursor has the PSN of the first that it will send again.
void Requester::begun_state(Archive& ar) const {
  std::uint32_t reads = 0;
  std::uint64_t open = 0;  // PSNs
  bool waits = false;
  std::optional<Psn> next;
  std::optional<Psn> cursor;
  for (std::uint32_t i = oldest_.wqe; i != fetched_; ++i) {
    const SendWqe& wqe = window_.at(i);
    reads += wqe.responds() && !wqe.done && is_before(i, next_.wqe);
    if (wqe.psns == 0) {
      waits |= !wqe.done;
      continue;
    }
    ar.require(!waits && is_before(i, fresh_.wqe), "a send queue has PSNs of a WQE that waits");
    ar.require(!wqe.done || open == 0, "a WQE of a send queue is done before an older one");
    ar.require(!next || wqe.first_psn == *next, "the PSNs of a send queue have a gap");
    if (!cursor && !is_before(i, next_.wqe))
      cursor = wqe.first_psn.plus(i == next_.wqe ? next_.packet : 0);
    next = wqe.first_psn.plus(wqe.psns);
    if (wqe.done) continue;
    ar.require(open != 0 || distance(wqe.first_psn, oldest_.psn) < wqe.psns,
               "the oldest PSN of a send queue is wrong");
    open += wqe.psns;
  }
  ar.require(!next || *next == fresh_.psn, "the PSNs of a send queue have no end");
  ar.require(open != 0 || oldest_.psn == fresh_.psn, "a send queue waits for nothing");
  ar.require(open <= kMaxOpenPsns && offset_of(sent_psn_) <= offset_of(fresh_.psn),
             "a send queue has sent too much");
  ar.require(reads_out_ == reads && next_.psn == cursor.value_or(fresh_.psn) && consistent(),
             "a send queue is inconsistent");
}

void UnreliableSender::state(Archive& ar) {
  SendQueue::state(ar);
  ar.optional(flush_end_);
  if (!ar.reading() || !ar.ok()) return;
  ar.require(!flush_end_ || (*flush_end_ - oldest_.wqe <= qp_.sq_size() && next_.packet == 0),
             "a flush has no end, or is in the middle of a message");
  // Only the WQE at the cursor has begun.
  bool waits = true;
  for (std::uint32_t i = 1; i < held(); ++i) waits &= window_.at(oldest_.wqe + i).psns == 0;
  ar.require(next_.wqe == oldest_.wqe && waits && (qp_.state() == TERN_QPS_ERR || consistent()),
             "a send queue is inconsistent");
}

// ---- receivers ----

void Receiver::state(Archive& ar) {
  bool holds = static_cast<bool>(recv_);
  ar(faulted_, received_, holds);
  ar.require(faulted_ <= Faulted::kAnswer, "a page fault stopped nothing");
  if (holds) state_of(ar, ar.reading() ? recv_.take() : *recv_);
}

void ConnectedReceiver::state(Archive& ar) {
  Receiver::state(ar);
  ar(message_, write_rkey_, write_va_, write_left_);
  ar.require(message_ <= Message::kWrite, "a message has a wrong kind");
}

void UcReceiver::state(Archive& ar) {
  ConnectedReceiver::state(ar);
  ar(epsn_);
}

void XrcTarget::state(Archive& ar) { state_of(ar, srq_); }

void TagTarget::state(Archive& ar) {
  Message& m = *message_;
  ar(m.labelled);
  if (!m.labelled) return;
  ar(m.headers.tm, m.headers.rndv, m.held, m.kind, m.reported);
  if (!ar.reading() || !ar.require(m.kind <= Kind::kIncomplete, "a message has a wrong kind"))
    return;
  // A message without a receive WQE waits for a rendezvous, and has matched nothing yet.
  ar.require(!recv_ || !tagged() || qp_.tag_list()->claim(m.held), "a message holds no tag");
  ar.require(m.kind != Kind::kRendezvous || qp_.rendezvous() != nullptr,
             "a message needs a rendezvous");
}

void Responder::resources_state(Archive& ar) {
  const std::uint8_t most = qp_.attr().max_dest_rd_atomic;
  const std::uint32_t number = ar.count(resources_.size(), most);
  if (!ar.require(number == 0 || (number == most && qp_.state() >= TERN_QPS_RTR),
                  "a responder has a wrong number of resources"))
    return;
  resources_.resize(number);
  for (Resource& r : resources_) {
    ar(r.va, r.result, r.rkey, r.len, r.psns, r.first, r.op, r.used, r.pending, r.counted);
    state_of(ar, r.srq);
    const bool read = r.op == Op::kReadRequest;
    const bool known = read || r.op == Op::kCompareSwap || r.op == Op::kFetchAdd ||
                       r.op == Op::kFlush || r.op == Op::kAtomicWrite;
    ar.require(known && r.len <= (read ? kMaxDmaLen : UINT32_MAX) &&
                   (!r.used || r.psns == (read ? packets_of(r.len, qp_.mtu()) : 1)),
               "an accepted request is wrong");
  }
  ar(next_resource_);
  ar.require(next_resource_ < std::max(number, 1U), "a responder has no such resource");
}

void Responder::answers_state(Archive& ar) {
  bool ready = out_.capacity() != 0;
  ar(ready);
  if (!ar.require(!ready || qp_.state() >= TERN_QPS_RTR, "a responder answers too early")) return;
  if (ar.reading() && ready) start_answers();
  // Writing, answers that transmit() would drop are left out.
  std::uint32_t stale = 0;
  for (std::uint32_t i = 0; !ar.reading() && i < out_.size(); ++i) stale += is_stale(out_[i]);
  const std::uint32_t left = ar.count(out_.size() - stale, out_.capacity());
  for (std::uint32_t i = 0; i < left + stale && ar.ok(); ++i) {
    if (!ar.reading() && is_stale(out_[i])) continue;
    Out& out = ar.reading() ? out_.push() : out_[i];
    ar(out.kind, out.syndrome, out.resource, out.psn, out.first, out.msn, out.packet, out.start);
    if (!ar.require(out.kind <= Answer::kDone, "an answer has a wrong kind")) return;
    if (out.kind == Answer::kAck || out.kind == Answer::kNak) continue;
    if (!ar.require(out.resource < resources_.size() && !is_stale(out),
                    "an answer belongs to no request"))
      return;
    const Resource& r = resources_[out.resource];
    ar.require(out.kind != Answer::kRead ||
                   (r.op == Op::kReadRequest && out.packet < r.psns && out.start <= out.packet),
               "an answer is past the end of its request");
  }
  ar(pending_nak_);
  // Nothing arrives in ERR.
  ar.require(pending_nak_ <= PendingNak::kRnr &&
                 (!ready || out_.room() != 0 || pending_nak_ != PendingNak::kNone ||
                  qp_.state() == TERN_QPS_ERR),
             "there is no room for a NAK");
}

void Responder::state(Archive& ar) {
  ConnectedReceiver::state(ar);
  if (auto* const xrc = std::get_if<XrcTarget>(&target_)) xrc->state(ar);
  if (auto* const tags = std::get_if<TagTarget>(&target_)) tags->state(ar);
  state_of(ar, keys_);
  ar(epsn_, msn_, faulted_psn_, outstanding_psn_, read_outstanding_);
  resources_state(ar);
  answers_state(ar);
  const std::uint8_t state = qp_.state();
  ar.require(state < TERN_QPS_RTR || state == TERN_QPS_ERR || out_.capacity() != 0,
             "a responder cannot answer");
}

// ---- rendezvous ----

void Rendezvous::state(Archive& ar) {
  const std::uint32_t ci = sender_.consumer_index();
  ar(pi_);
  const std::uint32_t number = pi_ - ci;
  if (!ar.require(number <= kSlots, "there are too many rendezvous") ||
      !ar.require(sender_.posted() - ci <= number, "a rendezvous is missing"))
    return;
  if (ar.reading() && number != 0) slots_.take();
  reads_ = 0;
  for (std::uint32_t i = ci; i != pi_ && ar.ok(); ++i) {
    Slot& s = slot(i);
    ar(s.wqe, s.request.tm, s.request.rndv);
    tern_sq_hdr hdr;
    std::memcpy(&hdr, s.wqe.data(), sizeof(hdr));
    const bool read = hdr.opcode == TERN_WR_RDMA_READ;
    reads_ += read;
    const auto tag = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(le(std::uint64_t{hdr.wr_id}), UINT32_MAX));
    ar.require(read ? !ar.reading() || qp_.tag_list()->claim(tag) : hdr.opcode == TERN_WR_SEND,
               "a rendezvous has no tag");
  }
}

void Rendezvous::check(Archive& ar, bool held) const {
  const std::uint32_t used = pi_ - sender_.consumer_index();
  ar.require(used + reads_ + (held ? 2 : 0) <= kSlots, "there are too many rendezvous");
}

// ---- paths and rates ----

void PathMigration::state(Archive& ar) {
  ar(alt_, state_, reported_);
  route_.state(ar);
  bool left = left_.has_value();
  ar(left);
  if (ar.reading() && left) left_.emplace();
  if (left) left_->state(ar);
  ar.require(
      state_ <= TERN_MIG_ARMED && (alt_.port == 0 || is_port(alt_.port)) && alt_.timeout <= 31,
      "an alternate path is wrong");
}

void ReactionPoint::state(Archive& ar) {
  constexpr std::uint32_t kMaxAlpha = 1U << 20;
  ar(active_, increased_, alpha_, time_stage_, byte_stage_, rate_, target_, bytes_, alpha_next_,
     time_next_, last_cut_);
  ar.require(alpha_ <= kMaxAlpha && rate_ <= kMaxRate && target_ <= kMaxRate, "a rate is wrong");
}

void SendRate::state(Archive& ar) {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  congestion_.state(ar);
  (void)ar.timer(timer_, qp_.context().timers);
  ar(limit_, static_, packet_rate_, rate_, debt_, burst_, last_, burst_set_, waiting_, turn_);
  ar.require(limit_ <= kMaxRate && static_ <= kMaxRate && packet_rate_ <= kMaxRate &&
                 rate_ <= kMaxRate && debt_ > -kMost && debt_ < kMost && burst_ >= 0 &&
                 burst_ < kMost,
             "a rate is wrong");
}

}  // namespace tern
