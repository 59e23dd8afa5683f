// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/responder.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>

#include "objects/context.h"
#include "transport/connection.h"
#include "transport/segments.h"

namespace tern {

namespace {

// Executes the operation on the 8 bytes of `at` and returns their old value. The engine serialises
// it with every other access of the device. A host atomic serialises it with CPUs if the word is
// aligned.
std::uint64_t execute_atomic(const Packet& packet, SpanList& at) {
  const bool swap = packet.op == Op::kCompareSwap;
  if (at.pieces().size() == 1) {
    std::byte* const word = at.pieces()[0].bytes.data();
    return swap ? atomic_compare_swap(word, packet.compare, packet.swap_add)
                : atomic_fetch_add(word, packet.swap_add);
  }
  std::uint64_t old = 0;
  at.copy_to(std::as_writable_bytes(std::span(&old, 1)));
  const std::uint64_t value = !swap                   ? old + packet.swap_add
                              : old == packet.compare ? packet.swap_add
                                                      : old;
  at.copy_from(std::as_bytes(std::span(&value, 1)));
  return old;
}

}  // namespace

Responder::Responder(Connection& qp) : ConnectedReceiver(qp), out_(qp.context().blocks) {}

void Responder::start() {
  epsn_ = Psn(qp_.attr().rq_psn);
  start_answers();
}

void Responder::start_answers() {
  // Room for every pending resource, an ACK between any two of them, repeated answers and the final
  // NAK.
  out_.set_capacity(std::bit_ceil(4U * qp_.attr().max_dest_rd_atomic + 8U));
}

void Responder::move_to(Context& context) {
  Receiver::move_to(context);
  out_.move_to(context.blocks);
}

void Responder::reset() {
  if (auto* const tags = std::get_if<TagTarget>(&target_)) {
    if (tags->holds_tag()) complete(cqe_of(TERN_RECV_TM, TERN_CQE_WR_FLUSH_ERR));
    tags->reset();
  }
  if (auto* const xrc = std::get_if<XrcTarget>(&target_)) *xrc = {};
  ConnectedReceiver::reset();
  out_.clear();
  out_.set_capacity(0);
  msn_ = next_resource_ = 0;
  pending_nak_ = PendingNak::kNone;
  read_outstanding_ = false;
  resources_ = {};
}

// ---- requests ----

void Responder::deliver(const Packet& packet) {
  // An answer to a later request would acknowledge the READ (IBTA 9.7.5.1.2). The peer will repeat
  // the dropped request.
  if (read_outstanding_ && packet.psn.ahead_of(outstanding_psn_) > 0) return;
  const std::int32_t ahead = packet.psn.ahead_of(epsn_);
  if (ahead < 0) return duplicate(packet);
  if (ahead > 0) return out_of_sequence(packet);
  // A peer with more outstanding requests than agreed has to repeat them after answers have been
  // sent.
  if (out_.room() < 2) return;
  if (qp_.faulting(TERN_FAULT_RESPONDER)) return not_ready();
  pending_nak_ = PendingNak::kNone;
  qp_.communication_established();
  const OpTraits& t = traits(packet.transport, packet.op);
  if (!admit(packet) || !in_sequence(packet, t)) {
    return fail(packet, kNakInvalidRequest, TERN_EV_QP_REQ_ERR);
  }
  if (!qp_.follow(packet)) return;
  if (t.send || t.write) return on_message(packet, t);
  if (packet.op == Op::kReadRequest) return on_read(packet);
  if (t.atomic_eth) return on_atomic(packet);
  if (packet.op == Op::kFlush) return on_flush(packet);
  if (packet.op == Op::kAtomicWrite) return on_atomic_write(packet);
  fail(packet, kNakInvalidRequest, TERN_EV_QP_REQ_ERR);
}

// A request was lost. One NAK reports it; if that gets lost as well, the peer's timer has to
// expire. A peer that expects repetitions gets a NAK for each request that asks for an answer, if
// the queue has space besides the answers owed.
void Responder::out_of_sequence(const Packet& packet) {
  if (pending_nak_ != PendingNak::kNone) {
    const bool repeats =
        pending_nak_ == PendingNak::kSequence && packet.ack_req && qp_.ece(TERN_ECE_REPEAT_NAK);
    if (!repeats || out_.room() < 2) return;
  }
  qp_.counters().add(TERN_CNT_OUT_OF_SEQUENCE);
  // Every other answer leaves a place for this one, and no other is queued while this one waits.
  assert(out_.room() != 0);
  pending_nak_ = PendingNak::kSequence;
  nak(epsn_, kNakSequence);
}

// Determines whose keys the request uses. Returns false for an invalid request.
bool Responder::admit(const Packet& packet) {
  auto* const xrc = std::get_if<XrcTarget>(&target_);
  if (xrc == nullptr) [[likely]] {
    keys_ = qp_.accessor();
    return true;
  }
  const bool begins = message_ == Message::kNone;
  const auto keys = xrc->admit(qp_, packet, begins, static_cast<bool>(recv_));
  if (keys) keys_ = *keys;
  return keys.has_value();
}

// Returns the keys of an accepted request, or nothing if its SRQ is gone.
std::optional<Accessor> Responder::keys_of(const Resource& request) const {
  if (!std::holds_alternative<XrcTarget>(target_)) [[likely]]
    return qp_.accessor();
  return XrcTarget::keys_of(qp_, request.srq);
}

bool Responder::holds_request() const {
  const auto* const tags = std::get_if<TagTarget>(&target_);
  return tags != nullptr && tags->holds_request();
}

Srq* Responder::srq() const {
  const auto* const xrc = std::get_if<XrcTarget>(&target_);
  return xrc != nullptr ? XrcTarget::find(qp_, xrc->srq()) : nullptr;
}

// Takes a receive WQE for the message of `packet` unless one is held.
Take Responder::take_message(const Packet& packet) {
  if (auto* const tags = std::get_if<TagTarget>(&target_)) [[unlikely]]
    return tags->take(packet);
  return recv_ ? Take::kTaken : take(Responder::srq());
}

void Responder::complete(tern_cqe cqe) {
  release(cqe);
  bool last = true;
  if (auto* const tags = std::get_if<TagTarget>(&target_)) [[unlikely]]
    last = tags->label(cqe);
  qp_.complete_recv(cqe, last);
}

// Checks that FIRST, MIDDLE, LAST and ONLY follow each other as IBTA 9.7.4.1.3 requires.
bool Responder::in_sequence(const Packet& packet, const OpTraits& t) const {
  const bool data = t.send || t.write;
  if (message_ == Message::kNone) {
    if (data && !t.first) return false;
  } else {
    if (!data || t.first) return false;
    if (t.send != (message_ == Message::kSend)) return false;
  }
  return !data || length_fits(packet, t);
}

// Queues an RNR NAK: the peer has to repeat the expected request later.
void Responder::not_ready() {
  pending_nak_ = PendingNak::kRnr;
  nak(epsn_, rnr());
}

// Returns the memory of a request, for which reach() returned `access`. Null if it is not
// accessible: the NAK is then queued.
SpanList* Responder::open(const Packet& packet, Access access) {
  if (access == Access::kReady) [[likely]]
    return &qp_.context().scatter;
  if (access == Access::kPending) {
    faulted_psn_ = packet.psn;
    not_ready();
  } else {
    refuse(packet, access);
  }
  return nullptr;
}

void Responder::on_message(const Packet& packet, const OpTraits& t) {
  const Refusal refusal = receive(*this, packet, t, keys_);
  if (refusal != Refusal::kNone) [[unlikely]]
    return refuse(packet, t, refusal);
  // The completion is lost, so software does not see the message.
  if (qp_.state() == TERN_QPS_ERR) return nak(packet.psn, kNakRemoteOperation);
  if (t.last) msn_ = (msn_ + 1) & 0xffffffU;
  epsn_ = epsn_.plus(packet.train);
  if (packet.ack_req) acknowledge(epsn_.prev());
}

// The peer has to repeat the packet, or the QP fails.
void Responder::refuse(const Packet& packet, const OpTraits& t, Refusal why) {
  switch (why) {
    case Refusal::kNone:
      return;
    case Refusal::kNoReceive:
      qp_.counters().add(TERN_CNT_OUT_OF_BUFFER);
      return not_ready();
    case Refusal::kAbsent:
      faulted_psn_ = packet.psn;
      if (auto* const tags = std::get_if<TagTarget>(&target_);
          tags != nullptr && t.send && !tags->postponed()) {
        qp_.enter_error(TERN_EV_QP_FATAL);
      }
      return not_ready();
    case Refusal::kQueueFailed:
      return fail(packet, kNakRemoteOperation, TERN_EV_QP_FATAL);
    case Refusal::kTooLong:
      qp_.counters().add(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
      return fail_receive(packet, TERN_CQE_LOC_LEN_ERR, kNakInvalidRequest);
    case Refusal::kProtection:
      return fail_receive(packet, TERN_CQE_LOC_PROT_ERR, kNakRemoteOperation);
    case Refusal::kNotInvalidated:
      return fail_receive(packet, TERN_CQE_REM_INV_REQ_ERR, kNakInvalidRequest);
    case Refusal::kInvalid:
      return fail(packet, kNakInvalidRequest, TERN_EV_QP_REQ_ERR);
    case Refusal::kDenied:
      return fail(packet, kNakRemoteAccess, TERN_EV_QP_ACCESS_ERR);
    case Refusal::kRevoked:
      return refuse(packet, Access::kDenied);
    case Refusal::kDmaError:
      return refuse(packet, Access::kDmaError);
  }
}

// Completes the held WQE with `status`, which reports the error to software.
void Responder::fail_receive(const Packet& packet, std::uint8_t status, std::uint8_t syndrome) {
  complete(cqe_of(TERN_RECV_SEND, status));
  fail(packet, syndrome, -1);
}

// Returns the slot for the next request with a response of its own. If the peer has more
// outstanding requests than it was granted, fails the QP and returns nullptr.
Responder::Resource* Responder::new_resource(const Packet& packet) {
  if (resources_.empty()) resources_.assign(qp_.attr().max_dest_rd_atomic, Resource{});
  // A repeated answer that is still queued does not reserve its slot: the peer has moved on.
  if (resources_.empty() || resources_[next_resource_].pending) {
    fail(packet, kNakInvalidRequest, TERN_EV_QP_REQ_ERR);
    return nullptr;
  }
  Resource& r = resources_[next_resource_];
  r = Resource{};
  r.used = r.pending = true;
  r.first = packet.psn;
  r.op = packet.op;
  r.va = packet.va;
  r.rkey = packet.rkey;
  r.len = packet.dma_len;
  r.psns = 1;
  if (const auto* const xrc = std::get_if<XrcTarget>(&target_)) r.srq = xrc->srq();
  return &r;
}

// Queues the answer to the new resource and consumes its PSNs. A READ is executed when it is
// answered; the others are executed already.
void Responder::answer_later(Answer kind) {
  const Resource& r = resources_[next_resource_];
  epsn_ = epsn_.plus(r.psns);
  msn_ = (msn_ + 1) & 0xffffffU;
  Out& out = push(kind);
  out.resource = static_cast<std::uint16_t>(next_resource_);
  out.msn = msn_;
  out.psn = out.first = r.first;
  next_resource_ = (next_resource_ + 1) % static_cast<std::uint32_t>(resources_.size());
}

void Responder::on_read(const Packet& packet) {
  Context& context = qp_.context();
  if (!allows(packet, keys_, TERN_ACCESS_REMOTE_READ) || packet.dma_len > kMaxDmaLen) {
    return fail(packet, kNakInvalidRequest, TERN_EV_QP_REQ_ERR);
  }
  if (packet.dma_len > 0 &&
      context.memory
              .check_remote(keys_, packet.rkey, packet.va, packet.dma_len, TERN_ACCESS_REMOTE_READ)
              .access() != Access::kReady) {
    return fail(packet, kNakRemoteAccess, TERN_EV_QP_ACCESS_ERR);
  }
  Resource* const r = new_resource(packet);
  if (r == nullptr) return;
  qp_.counters().add(TERN_CNT_RX_READ_REQUESTS);
  r->psns = packets_of(packet.dma_len, qp_.mtu());
  answer_later(Answer::kRead);
}

void Responder::on_atomic(const Packet& packet) {
  if (!allows(packet, keys_, TERN_ACCESS_REMOTE_ATOMIC) || packet.va % 8 != 0) {
    return fail(packet, kNakInvalidRequest, TERN_EV_QP_REQ_ERR);
  }
  SpanList* const to =
      open(packet, reach(keys_, {packet.rkey, packet.va, 8, TERN_ACCESS_REMOTE_ATOMIC}));
  if (to == nullptr) return;
  Resource* const r = new_resource(packet);
  if (r == nullptr) return to->abandon();
  qp_.counters().add(TERN_CNT_RX_ATOMIC_REQUESTS);
  r->result = execute_atomic(packet, *to);
  to->clear();
  answer_later(Answer::kAtomic);
}

// The bytes of earlier requests are in memory already, because the device stores each packet on
// arrival. The fence orders them before the answer for every observer.
void Responder::on_flush(const Packet& packet) {
  constexpr std::uint8_t types = TERN_FLUSH_GLOBAL | TERN_FLUSH_PERSISTENT;
  const std::uint8_t type = packet.flush_type;
  const std::uint32_t rights =
      (type & TERN_FLUSH_GLOBAL ? std::uint32_t{TERN_ACCESS_FLUSH_GLOBAL} : 0) |
      (type & TERN_FLUSH_PERSISTENT ? std::uint32_t{TERN_ACCESS_FLUSH_PERSISTENT} : 0);
  const bool whole = packet.flush_level == TERN_FLUSH_LEVEL_MR;
  if (type == 0 || (type & ~types) || packet.flush_level > TERN_FLUSH_LEVEL_MR ||
      !allows(packet, keys_, rights) || (!whole && packet.dma_len > kMaxDmaLen)) {
    return fail(packet, kNakInvalidRequest, TERN_EV_QP_REQ_ERR);
  }
  if (qp_.context().memory.check_flush(keys_, packet.rkey, packet.va, packet.dma_len, whole,
                                       rights) != Access::kReady) {
    return fail(packet, kNakRemoteAccess, TERN_EV_QP_ACCESS_ERR);
  }
  if (new_resource(packet) == nullptr) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  answer_later(Answer::kDone);
}

void Responder::on_atomic_write(const Packet& packet) {
  if (!allows(packet, keys_, TERN_ACCESS_REMOTE_WRITE) || packet.va % 8 != 0 ||
      packet.dma_len != kAtomicWritePayload || packet.payload.size() != kAtomicWritePayload) {
    return fail(packet, kNakInvalidRequest, TERN_EV_QP_REQ_ERR);
  }
  SpanList* const to =
      open(packet,
           reach(keys_, {packet.rkey, packet.va, kAtomicWritePayload, TERN_ACCESS_REMOTE_WRITE}));
  if (to == nullptr) return;
  if (new_resource(packet) == nullptr) return to->abandon();
  qp_.counters().add(TERN_CNT_RX_WRITE_REQUESTS);
  std::uint64_t value = 0;
  packet.payload.copy_to(std::as_writable_bytes(std::span(&value, 1)));
  to->copy_from(std::as_bytes(std::span(&value, 1)));  // a single store if aligned
  to->clear();
  answer_later(Answer::kDone);
}

// IBTA 9.7.5.1.3: a repeated SEND or WRITE is acknowledged again, a READ is executed again, and any
// other request is answered from its resource (A19 for FLUSH and ATOMIC WRITE). A request without a
// resource is dropped.
void Responder::duplicate(const Packet& packet) {
  // After migration a peer repeats its outstanding requests. Half of all PSNs are before the
  // expected one, so an old PSN alone proves nothing.
  constexpr std::int32_t kOutstanding = 1 << 16;
  if (packet.psn.ahead_of(epsn_) >= -kOutstanding && !qp_.follow(packet)) return;
  qp_.counters().add(TERN_CNT_DUPLICATE_REQUEST);
  if (out_.room() < 2) return;
  const OpTraits& t = traits(packet.transport, packet.op);
  if (t.send || t.write) {
    // Even while a NAK for the expected packet is pending, an ACK of the packet before it is
    // correct.
    if (packet.ack_req) acknowledge(acknowledgeable(packet.psn));
    return;
  }
  // Newest first: after 2^24 PSNs an older resource may cover the same PSNs.
  const auto kept = static_cast<std::uint32_t>(resources_.size());
  for (std::uint32_t age = 1; age <= kept; ++age) {
    const std::uint32_t i = (next_resource_ + kept - age) % kept;
    Resource& r = resources_[i];
    const std::int32_t skip = packet.psn.ahead_of(r.first);
    if (!r.used || skip < 0 || static_cast<std::uint32_t>(skip) >= r.psns) continue;
    Out out;
    out.resource = static_cast<std::uint16_t>(i);
    out.msn = msn_;
    out.psn = packet.psn;
    out.first = r.first;
    if (packet.op != r.op) return;
    if (r.op == Op::kReadRequest) {
      const std::uint64_t bytes = std::uint64_t{static_cast<std::uint32_t>(skip)} * qp_.mtu();
      if (packet.rkey != r.rkey || packet.va != r.va + bytes || packet.dma_len != r.len - bytes) {
        return;
      }
      out.kind = Answer::kRead;
      out.packet = out.start = static_cast<std::uint32_t>(skip);
      if (read_outstanding_ &&
          outstanding_psn_.ahead_of(r.first) < static_cast<std::int32_t>(r.psns))
        read_outstanding_ = false;
      // If the answer to the first request is still queued, restart it here instead of adding
      // another.
      for (std::uint32_t k = 0; k != out_.size(); ++k) {
        Out& before = out_[k];
        if (before.kind == Answer::kRead && before.resource == i && before.first == r.first) {
          before.packet = before.start = out.start;
          qp_.wake();
          return;
        }
      }
    } else {
      if (packet.va != r.va || packet.rkey != r.rkey || packet.dma_len != r.len || r.pending) {
        return;
      }
      out.kind = t.atomic_eth ? Answer::kAtomic : Answer::kDone;
    }
    push(out.kind) = out;
    return;
  }
}

// Returns the newest PSN that an ACK of the repeated SEND or WRITE may carry. It must not cover a
// later READ or atomic, which only its own response completes: some peers would take the ACK for
// that response.
Psn Responder::acknowledgeable(Psn repeated) const {
  Psn newest = epsn_.prev();
  for (const Resource& r : resources_) {
    if (r.used && r.first.ahead_of(repeated) > 0 && newest.ahead_of(r.first) >= 0) {
      newest = r.first.prev();
    }
  }
  return newest;
}

// ---- answers ----

// Queues an answer, which the caller fills in.
Responder::Out& Responder::push(Answer kind) {
  qp_.wake();
  Out& out = out_.push();
  out.kind = kind;
  return out;
}

// Merges consecutive ACKs: the newest one covers the others.
void Responder::acknowledge(Psn psn) {
  if (!out_.empty()) {
    Out& last = out_.back();
    if (last.kind == Answer::kAck) {
      if (psn.ahead_of(last.psn) > 0) last.psn = psn;
      last.msn = msn_;
      return;
    }
  }
  Out& out = push(Answer::kAck);
  out.syndrome = kSyndromeAck;
  out.psn = psn;
  out.msn = msn_;
}

void Responder::nak(Psn psn, std::uint8_t syndrome) {
  if (out_.room() == 0) return;
  Out& out = push(Answer::kNak);
  out.syndrome = syndrome;
  out.psn = psn;
  out.msn = msn_;
}

std::uint8_t Responder::rnr() const {
  return static_cast<std::uint8_t>(kSyndromeKindRnr | (qp_.attr().min_rnr_timer & 0x1f));
}

void Responder::fail(Psn psn, std::uint8_t syndrome, int event) {
  if (syndrome == kNakRemoteAccess) qp_.counters().add(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS);
  nak(psn, syndrome);
  qp_.enter_error(event);
}

void Responder::fail(const Packet& packet, std::uint8_t syndrome, int event) {
  fail(packet.psn, syndrome, event);
  // The rest of the train reaches a QP in error.
  qp_.context().counters.add(TERN_CNT_RX_QP_MISMATCH, packet.train - 1);
}

// Rejects a request whose memory is not permitted or not RAM. If a receive WQE was taken for its
// immediate data, its completion reports the error to software (IBTA: local access error),
// otherwise an event does.
void Responder::refuse(const Packet& packet, Access access) {
  refuse(packet.psn, access);
  qp_.context().counters.add(TERN_CNT_RX_QP_MISMATCH, packet.train - 1);
}

void Responder::refuse(Psn psn, Access access) {
  const bool dma = access == Access::kDmaError;
  int event = dma ? TERN_EV_QP_FATAL : TERN_EV_QP_ACCESS_ERR;
  if (dma) qp_.counters().add(TERN_CNT_DMA_ERRORS);
  if (recv_) {
    complete(cqe_of(TERN_RECV_RDMA_WITH_IMM, TERN_CQE_LOC_ACCESS_ERR));
    event = -1;
  }
  fail(psn, dma ? kNakRemoteOperation : kNakRemoteAccess, event);
}

// The peer repeats the request by itself, so there is nothing to do unless the access must fail.
void Responder::fault_over(bool failed) {
  if (!failed) return;
  if (faulted_ == Faulted::kRequest) return refuse(faulted_psn_, Access::kDenied);
  if (faulted_ == Faulted::kAnswer)
    return fail(faulted_psn_, kNakRemoteAccess, TERN_EV_QP_ACCESS_ERR);
  if (recv_) complete(cqe_of(TERN_RECV_SEND, TERN_CQE_LOC_PROT_ERR));
  fail(faulted_psn_, kNakRemoteOperation, -1);
}

void Responder::stop(bool silent) {
  if (recv_) complete(cqe_of(TERN_RECV_SEND, TERN_CQE_WR_FLUSH_ERR));
  message_ = Message::kNone;
  if (silent) out_.clear();
}

Packet& Responder::answer(Op op, Psn psn) {
  Packet& packet = qp_.context().tx_packet;
  qp_.address(packet);
  packet.op = op;
  packet.psn = psn;
  packet.ack_req = false;
  packet.solicited = false;
  packet.syndrome = kSyndromeAck;
  packet.payload.clear();
  return packet;
}

void Responder::send_ack(const Out& out) {
  Packet& packet = answer(Op::kAck, out.psn);
  packet.syndrome = out.syndrome;
  packet.msn = out.msn;
  qp_.context().emit(packet);
}

void Responder::send_atomic(const Out& out) {
  Resource& r = resources_[out.resource];
  r.pending = false;
  Packet& packet = answer(Op::kAtomicAck, out.psn);
  packet.msn = out.msn;
  packet.original = r.result;
  qp_.context().emit(packet);
}

void Responder::send_done(const Out& out) {
  resources_[out.resource].pending = false;
  Packet& packet = answer(Op::kReadResponseOnly, out.psn);
  packet.msn = out.msn;
  qp_.context().emit(packet);
}

// A READ response met an absent page at `psn`. Sends an RNR NAK, after which the peer requests the
// rest of the READ and everything after it again. `rest`: bytes of the message after those looked
// up.
void Responder::read_not_ready(Out& out, Psn psn, std::uint32_t rest) {
  if (qp_.raise_fault(TERN_FAULT_RESPONDER, qp_.context().missing, rest)) {
    faulted_ = Faulted::kAnswer;
    faulted_psn_ = psn;
  }
  // Drop the answers after it. An executed request is answered from its resource when the peer
  // repeats it.
  for (std::uint32_t i = 0; i != out_.size(); ++i) {
    const Out& dropped = out_[i];
    const bool answers = dropped.kind != Answer::kAck && dropped.kind != Answer::kNak;
    if (answers && resources_[dropped.resource].first == dropped.first) {
      resources_[dropped.resource].pending = false;
    }
  }
  out_.keep_front();
  read_outstanding_ = true;
  outstanding_psn_ = psn;
  out.kind = Answer::kNak;
  out.syndrome = rnr();
  out.psn = psn;
  send_ack(out);
}

// Sends packets of a READ response. Returns true if the answer is finished: the last packet was
// sent, the READ failed, or it met an absent page.
bool Responder::send_read(Out& out, std::uint32_t& allowance) {
  Resource& r = resources_[out.resource];
  const std::uint32_t mtu = qp_.mtu();
  while (allowance > 0 && !qp_.paced()) {
    const std::uint32_t k = out.packet;
    const std::uint64_t offset = std::uint64_t{k} * mtu;
    std::uint32_t train =
        std::min({packets_of(allowance, mtu + kPacketCost), r.psns - k, qp_.max_train()});
    std::uint32_t len = std::min(r.len - static_cast<std::uint32_t>(offset), train * mtu);
    Packet& packet = answer(Op::kReadResponseOnly, r.first.plus(k));
    // Checked again for each packet: the region may have been destroyed since the request arrived.
    const auto keys = keys_of(r);
    const auto find = [&] {
      Context& context = qp_.context();
      return context.memory.remote(*keys, {r.rkey, r.va + offset, len, TERN_ACCESS_REMOTE_READ},
                                   packet.payload, context.missing);
    };
    Access access = !keys ? Access::kDenied : len > 0 ? find() : Access::kReady;
    if (access == Access::kPending) [[unlikely]] {
      // The pages of a train may never all be present at the same time. Those of one packet are
      // enough to make progress.
      if (train > 1) {
        train = 1;
        len = mtu;
        access = find();
      }
      if (access == Access::kPending && qp_.state() != TERN_QPS_ERR) {
        return read_not_ready(out, r.first.plus(k),
                              r.len - static_cast<std::uint32_t>(offset) - len),
               true;
      }
    }
    const bool first = k == out.start;
    const bool last = k + train == r.psns;
    packet.op = first ? (last ? Op::kReadResponseOnly : Op::kReadResponseFirst)
                      : (last ? Op::kReadResponseLast : Op::kReadResponseMiddle);
    if (access != Access::kReady) {
      packet.payload.abandon();
      const bool dma = access == Access::kDmaError;
      qp_.counters().add(dma ? TERN_CNT_DMA_ERRORS : TERN_CNT_RESP_REMOTE_ACCESS_ERRORS);
      out_.keep_front();  // nothing may follow the NAK
      out.kind = Answer::kNak;
      out.syndrome = dma ? kNakRemoteOperation : kNakRemoteAccess;
      out.psn = r.first.plus(k);
      qp_.enter_error(dma ? TERN_EV_QP_FATAL : TERN_EV_QP_ACCESS_ERR);
      send_ack(out);
      return true;
    }
    packet.msn = out.msn;
    packet.train = train;
    out.packet += train;
    allowance -= std::min(allowance, len + train * kPacketCost);
    qp_.send_paced(packet);
    packet.payload.clear();
    if (last) {
      r.pending = false;
      // A repeated READ is answered again, and counts once.
      if (!std::exchange(r.counted, true)) qp_.count(TERN_COMP_OP_REMOTE_READ, true, r.len);
      return true;
    }
  }
  return false;
}

bool Responder::transmit(std::uint32_t& allowance) {
  while (!out_.empty()) {
    if (allowance == 0) return true;
    Out& out = out_.front();
    if (is_stale(out)) {
      out_.pop();
      continue;
    }
    switch (out.kind) {
      case Answer::kRead:
        if (!send_read(out, allowance)) return allowance == 0;
        break;
      case Answer::kAtomic:
        send_atomic(out);
        break;
      case Answer::kDone:
        send_done(out);
        break;
      default:
        send_ack(out);
        break;
    }
    allowance -= std::min(allowance, kPacketCost);
    out_.pop();
  }
  return false;
}

}  // namespace tern
