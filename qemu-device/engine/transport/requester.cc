// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/requester.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "objects/context.h"
#include "transport/connection.h"
#include "transport/segments.h"

namespace tern {

namespace {

// Limit of SEND and WRITE packets in flight: bounds the cost of a loss, and the buffering needed on
// the wire.
constexpr std::uint32_t kMaxUnacked = 128;
constexpr std::uint32_t kAckInterval = 32;

// A timeout below this would fire because the host was busy, not because a packet was lost.
constexpr Nanos kMinAckTimeout = 20'000'000;

// IBTA table 45, in units of 10 us.
constexpr std::array<std::uint32_t, 32> kRnrTimer = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr Nanos rnr_nanos(std::uint8_t code) { return Nanos{kRnrTimer[code & 0x1f]} * 10'000; }

std::uint8_t nak_status(std::uint8_t syndrome) {
  switch (syndrome) {
    case kNakInvalidRequest:
      return TERN_CQE_REM_INV_REQ_ERR;
    case kNakRemoteAccess:
      return TERN_CQE_REM_ACCESS_ERR;
    case kNakRemoteOperation:
      return TERN_CQE_REM_OP_ERR;
    default:
      return TERN_CQE_BAD_RESP_ERR;
  }
}

}  // namespace

Requester::Requester(Connection& qp)
    : SendQueue(qp),
      timer_(
          qp.context().timers, [](void* self) { static_cast<Requester*>(self)->expired(); }, this) {
}

Requester::~Requester() {
  // Commands take shared payload back.
  assert(qp_.context().shared_by(this, share_queue_) == nullptr);
}

void Requester::start() {
  SendQueue::start();
  sent_psn_ = window_psn_ = next_.psn;
  retries_left_ = qp_.attr().retry_cnt;
  rnr_left_ = qp_.attr().rnr_retry;
}

void Requester::move_to(Context& context) {
  // The lane that it leaves lists the payload.
  unshare();
  SendQueue::move_to(context);
  timer_.move_to(context.timers);
}

void Requester::reset() {
  SendQueue::reset();
  timer_.cancel();
  unshare();
  reads_out_ = 0;
  rnr_wait_ = went_back_ = repeat_ = false;
}

// ---- sending ----

// In SQD a WQE that has not begun waits, even if it would fail.
bool Requester::waits(const SendWqe& wqe) const {
  return qp_.state() != TERN_QPS_RTS && wqe.psns == 0;
}

bool Requester::may_start(const SendWqe& wqe) const {
  if ((wqe.flags & TERN_WQE_F_FENCE) && reads_out_ > 0) return false;
  if (wqe.responds() && reads_out_ >= qp_.attr().max_rd_atomic) return false;
  if (wqe.psns != 0) return true;
  const std::uint32_t open = distance(oldest_.psn, fresh_.psn);
  return open == 0 || open + packets_of(wqe.length, qp_.mtu()) < kMaxOpenPsns;
}

std::uint32_t Requester::psns_of(const SendWqe& wqe) const {
  return wqe.atomic() ? 1 : packets_of(wqe.length, qp_.mtu());
}

void Requester::begin(SendWqe& wqe) {
  if (wqe.psns != 0) return;
  mark_begun();
  wqe.first_psn = fresh_.psn;
  wqe.psns = psns_of(wqe);
  fresh_.psn = fresh_.psn.plus(wqe.psns);
}

bool Requester::window_full() const { return distance(window_psn_, next_.psn) >= kMaxUnacked; }

// After a go-back, acknowledgements of earlier transmissions may overtake the cursor.
void Requester::catch_up() {
  while (next_.wqe != fetched_ && window_.at(next_.wqe).done) pass(window_.at(next_.wqe));
  if (next_.wqe == fetched_) return;
  const SendWqe& wqe = window_.at(next_.wqe);
  if (wqe.psns == 0) return;
  const std::uint32_t acked = distance(wqe.first_psn, oldest_.psn);
  if (acked > next_.packet && acked < wqe.psns) {
    next_.packet = acked;
    next_.psn = oldest_.psn;
  }
}

bool Requester::transmit(std::uint32_t& allowance) {
  while (!rnr_wait_ && !parked() && window_.is_open()) {
    catch_up();
    if (!has_wqe()) return false;
    SendWqe& wqe = window_.at(next_.wqe);
    if (waits(wqe)) return false;
    if (wqe.failed()) {
      retire();
      return false;
    }
    if ((next_.packet == 0 && !may_start(wqe)) || window_full()) return false;
    if (allowance == 0) return true;
    if (!wqe.local && qp_.paced()) return false;
    if (!send_one(wqe, allowance)) return false;
  }
  return false;
}

bool Requester::send_one(SendWqe& wqe, std::uint32_t& allowance) {
  if (wqe.local) return run_local(wqe, allowance);
  begin(wqe);
  qp_.context().tx_packet.xrc_srq = Srqn(wqe.xrc_srqn);
  std::uint32_t cost = kPacketCost;
  if (wqe.read()) {
    send_read(wqe);
  } else if (wqe.atomic()) {
    send_atomic(wqe);
  } else if (wqe.flush()) {
    send_flush(wqe);
  } else if (wqe.atomic_write()) {
    if (!send_atomic_write(wqe)) return false;
  } else {
    // The peer may answer before send_data() returns, and complete the WQE.
    const std::uint32_t train = train_of(wqe, allowance);
    cost = train * (kPacketCost + std::min(wqe.length, qp_.mtu()));
    if (!send_data(wqe, train)) return false;
  }
  allowance -= std::min(allowance, cost);
  return qp_.state() != TERN_QPS_ERR;
}

// A local WQE (bind, invalidate, register) executes when the cursor reaches it, and completes in
// order. Returns false if the WQE has to wait, or if it or the QP failed.
bool Requester::run_local(SendWqe& wqe, std::uint32_t& allowance) {
  // Earlier WQEs may need the key until they complete, if only for a retransmission.
  if (wqe.opcode == TERN_WR_LOCAL_INV && next_.wqe != oldest_.wqe) return false;
  allowance -= std::min(allowance, kPacketCost);
  qp_.context().spend(kPacketCost);
  wqe.status = execute_local(wqe);
  const bool failed = wqe.failed();
  if (!failed) {
    mark_begun();
    mark_done(next_.wqe);
    ++next_.wqe;
  }
  return retire() && !failed;
}

void Requester::emit(Op op, Psn psn, std::uint32_t train) {
  Packet& packet = qp_.context().tx_packet;
  qp_.address(packet);
  packet.op = op;
  packet.psn = psn;
  packet.train = train;
  if (distance(oldest_.psn, psn) >= distance(oldest_.psn, sent_psn_)) sent_psn_ = psn.plus(train);
  if (!timer_.armed()) arm_ack_timer();
  qp_.send_paced(packet);
}

void Requester::send_read(SendWqe& wqe) {
  Packet& packet = qp_.context().tx_packet;
  const std::uint32_t skip = next_.packet * qp_.mtu();
  const Psn psn = next_.psn;
  packet.payload.clear();
  packet.va = wqe.raddr + skip;
  packet.rkey = wqe.rkey;
  packet.dma_len = wqe.length - skip;
  packet.ack_req = true;
  packet.solicited = false;
  const Psn end = wqe.first_psn.plus(wqe.psns);
  if (offset_of(end) > offset_of(sent_psn_)) sent_psn_ = end;
  window_psn_ = end;
  ++reads_out_;
  pass(wqe);
  emit(Op::kReadRequest, psn);
}

// Sends a request of one packet that the peer answers with a response of its own.
void Requester::emit_answered(const SendWqe& wqe, Op op) {
  Packet& packet = qp_.context().tx_packet;
  packet.va = wqe.raddr;
  packet.rkey = wqe.rkey;
  packet.ack_req = true;
  packet.solicited = false;
  ++reads_out_;
  pass(wqe);
  emit(op, wqe.first_psn);
  packet.payload.clear();
}

void Requester::send_atomic(SendWqe& wqe) {
  Packet& packet = qp_.context().tx_packet;
  packet.payload.clear();
  packet.dma_len = 0;
  const auto seg = window_.segment<tern_atomic_seg>(wqe.index);
  packet.swap_add = le(std::uint64_t{seg.swap_add});
  packet.compare = le(std::uint64_t{seg.compare});
  emit_answered(wqe, wqe.opcode == TERN_WR_ATOMIC_CMP_AND_SWP ? Op::kCompareSwap : Op::kFetchAdd);
}

bool Requester::send_atomic_write(SendWqe& wqe) {
  Packet& packet = qp_.context().tx_packet;
  packet.payload.clear();
  const std::uint8_t status = gather(wqe, 0, wqe.length, packet.payload);
  if (status != TERN_CQE_SUCCESS) {
    packet.payload.clear();
    return unavailable(wqe, status);
  }
  packet.dma_len = wqe.length;
  emit_answered(wqe, Op::kAtomicWrite);
  return true;
}

void Requester::send_flush(SendWqe& wqe) {
  Packet& packet = qp_.context().tx_packet;
  packet.payload.clear();
  packet.dma_len = wqe.range;
  packet.flush_type = wqe.flush_type;
  packet.flush_level = wqe.flush_level;
  emit_answered(wqe, Op::kFlush);
}

// Returns the number of packets of the message, from the cursor on, to send as one train: as many
// as fit into this turn and the window, up to the next packet that requests an ACK. A train
// contains no retransmission.
std::uint32_t Requester::train_of(const SendWqe& wqe, std::uint32_t allowance) const {
  const Psn psn = next_.psn;
  if (wqe.psns == 1 || psn != sent_psn_) return 1;
  const std::uint32_t turn = packets_of(allowance, qp_.mtu() + kPacketCost);
  const std::uint32_t open = kMaxUnacked - distance(window_psn_, psn);
  const std::uint32_t to_ack = kAckInterval - next_.packet % kAckInterval;
  return std::min({turn, open, to_ack, wqe.psns - next_.packet, qp_.max_train()});
}

// The bytes of a request are not available, and gather() returned `status`: parks or fails the WQE.
// Returns false.
bool Requester::unavailable(SendWqe& wqe, std::uint8_t status) {
  if (status == kAbsent) {
    park(wqe.index);
  } else {
    wqe.status = status;
    retire();
  }
  return false;
}

bool Requester::send_data(SendWqe& wqe, std::uint32_t train) {
  const std::uint32_t whole = train;
  std::uint8_t status = load_data(wqe, train);
  // The pages of a train may never all be present at the same time. Those of one packet are enough
  // to make progress.
  if (status == kAbsent && train > 1) status = load_data(wqe, train = 1);
  if (status != TERN_CQE_SUCCESS) {
    // Report the pages that the whole train needs.
    if (status == kAbsent && whole > 1) (void)load_data(wqe, whole);
    return unavailable(wqe, status);
  }
  Packet& packet = qp_.context().tx_packet;
  const Psn psn = next_.psn;
  const bool last = next_.packet + train == wqe.psns;
  const SendRate* const rate = qp_.send_rate();
  packet.ack_req = last || (next_.packet + train) % kAckInterval == 0 ||
                   (rate != nullptr && rate->slow(qp_.mtu()));
  if (last) {
    pass(wqe);
  } else {
    next_.packet += train;
    next_.psn = psn.plus(train);
  }
  // Software may not change the bytes of a request before it is acknowledged.
  if (train > 1 && qp_.context().may_share(packet.payload))
    packet.share = qp_.context().share_queue(this, share_queue_);
  emit(packet.op, psn, train);
  packet.payload.clear();
  return true;
}

void Requester::unshare() {
  const List<SharedPayload>* const queue = qp_.context().shared_by(this, share_queue_);
  while (queue != nullptr && !queue->empty()) queue->front()->take_back();
}

// Call it before software learns that the packets before `psn` have been received: whoever
// acknowledges a packet need not have received it.
void Requester::unshare_before(Psn psn) {
  const List<SharedPayload>* const queue = qp_.context().shared_by(this, share_queue_);
  const std::uint32_t limit = offset_of(psn);
  while (queue != nullptr && !queue->empty() && offset_of(queue->front()->end) <= limit)
    queue->front()->take_back();
}

// ---- acknowledgements and responses ----

void Requester::deliver(const Packet& packet) {
  if (!in_flight(packet.psn) || !qp_.follow(packet)) return;
  switch (packet.op) {
    case Op::kAck:
      switch (packet.syndrome & kSyndromeKindMask) {
        case kSyndromeKindAck:
          return on_ack(packet);
        case kSyndromeKindRnr:
          return on_rnr(packet);
        case kSyndromeKindNak:
          return on_nak(packet);
        default:
          return;  // reserved: ignored
      }
    case Op::kAtomicAck:
      return on_atomic_ack(packet);
    default:
      return on_read_response(packet);
  }
}

SendWqe* Requester::wqe_of(Psn psn) {
  for (std::uint32_t i = oldest_.wqe; i != fetched_; ++i) {
    SendWqe& wqe = window_.at(i);
    if (wqe.psns != 0 && distance(wqe.first_psn, psn) < wqe.psns) return &wqe;
  }
  return nullptr;
}

void Requester::mark_done(std::uint32_t index) {
  SendWqe& wqe = window_.at(index);
  wqe.done = true;
  if (wqe.responds() && is_before(index, next_.wqe)) --reads_out_;
}

// Treats every PSN before `psn` as received by the peer. Returns false if a response is missing.
// That is an implied NAK (IBTA 9.7.5.1.1), and oldest_.psn is then the oldest missing PSN.
bool Requester::acknowledge_before(Psn psn) {
  const std::uint32_t limit = offset_of(psn);
  const Psn before = oldest_.psn;
  unshare_before(psn);
  const bool complete = acknowledge(psn, limit);
  if (oldest_.psn != before) {
    // Any progress, even an implied one, resets the retry counters (IBTA 9.9.2.1.1).
    retries_left_ = qp_.attr().retry_cnt;
    rnr_left_ = qp_.attr().rnr_retry;
    went_back_ = false;
  }
  return complete;
}

bool Requester::acknowledge(Psn psn, std::uint32_t limit) {
  for (std::uint32_t i = oldest_.wqe; i != fetched_; ++i) {
    SendWqe& wqe = window_.at(i);
    if (wqe.done) continue;
    if (wqe.psns == 0) break;
    if (wqe.responds()) {
      const Psn expected = wqe.first_psn.plus(wqe.received);
      if (offset_of(expected) >= limit) break;
      oldest_.psn = expected;
      return false;
    }
    if (offset_of(wqe.first_psn.plus(wqe.psns - 1)) >= limit) break;
    mark_done(i);
  }
  oldest_.psn = psn;
  return true;
}

void Requester::on_ack(const Packet& packet) {
  if (!acknowledge_before(packet.psn.next())) return implied_nak();
  progressed();
}

void Requester::on_nak(const Packet& packet) {
  const bool all = acknowledge_before(packet.psn);
  if (packet.syndrome == kNakSequence || !all) {
    if (!all) return implied_nak();
    qp_.counters().add(TERN_CNT_PACKET_SEQ_ERR);
    return go_back_once();
  }
  if (packet.syndrome == kNakInvalidRequest) {
    qp_.counters().add(TERN_CNT_REQ_REMOTE_INVALID_REQUEST);
  } else if (packet.syndrome == kNakRemoteAccess) {
    qp_.counters().add(TERN_CNT_REQ_REMOTE_ACCESS_ERRORS);
  }
  if (SendWqe* const wqe = wqe_of(packet.psn)) wqe->status = nak_status(packet.syndrome);
  retire();
}

void Requester::on_rnr(const Packet& packet) {
  if (!acknowledge_before(packet.psn)) return implied_nak();
  SendWqe* const wqe = wqe_of(packet.psn);
  if (wqe == nullptr || rnr_wait_) return;
  if (rnr_left_ == 0) {
    qp_.counters().add(TERN_CNT_RNR_NAK_RETRY_ERR);
    wqe->status = TERN_CQE_RNR_RETRY_EXC_ERR;
    retire();
    return;
  }
  if (!retire()) return;
  if (qp_.attr().rnr_retry != 7) --rnr_left_;
  go_back();
  rnr_wait_ = true;
  timer_use_ = TimerUse::kRnr;
  timer_.arm(qp_.context().now() + rnr_nanos(packet.syndrome));
}

// A response is dropped because locate() returned `status` for its memory. On an absent page this
// half parks, and requests the missing bytes again after the fault without using up a retry.
void Requester::drop(SendWqe& wqe, std::uint8_t status) {
  if (status == kAbsent) {
    park(wqe.index);
    repeat_ = true;
    progressed();
  } else {
    wqe.status = status;
    retire();
  }
}

// The pages of a train may never all be present at the same time: stores the packets at its
// beginning that have theirs, and drops the rest.
void Requester::store_part(const Packet& packet, SendWqe& wqe, std::uint32_t offset) {
  SpanList& to = qp_.context().scatter;
  auto len = static_cast<std::uint32_t>(packet.payload.size());
  std::uint32_t n = 0;
  for (std::uint32_t absent = packet.train; absent - n > 1;) {
    const std::uint32_t tried = (n + absent) / 2;
    const bool present = locate(wqe, offset, tried * qp_.mtu(), to) == TERN_CQE_SUCCESS;
    to.abandon();
    (present ? n : absent) = tried;
  }
  if (n != 0 && locate(wqe, offset, n * qp_.mtu(), to) == TERN_CQE_SUCCESS) {
    SpanList::copy(packet.payload, to);
    to.clear();
    wqe.received = offset / qp_.mtu() + n;
    (void)acknowledge_before(packet.psn.plus(n));
    offset += n * qp_.mtu();
    len -= n * qp_.mtu();
  }
  drop(wqe, locate(wqe, offset, len, to));
}

void Requester::on_read_response(const Packet& packet) {
  SendWqe* const wqe = wqe_of(packet.psn);
  if (wqe == nullptr) return;
  if (!acknowledge_before(packet.psn)) return implied_nak();
  const std::uint32_t k = distance(wqe->first_psn, packet.psn);
  const bool last = packet.op == Op::kReadResponseLast || packet.op == Op::kReadResponseOnly;
  const std::uint32_t offset = k * qp_.mtu();
  const std::uint32_t want =
      wqe->read() ? std::min(wqe->length - offset, packet.train * qp_.mtu()) : 0;
  const bool fits = wqe->read_response() && last == (k + packet.train == wqe->psns) &&
                    packet.payload.size() == want;
  if (!fits) {
    wqe->status = TERN_CQE_BAD_RESP_ERR;
    retire();
    return;
  }
  SpanList& to = qp_.context().scatter;
  const auto len = static_cast<std::uint32_t>(packet.payload.size());
  const std::uint8_t status = locate(*wqe, offset, len, to);
  if (status == kAbsent && packet.train > 1) return store_part(packet, *wqe, offset);
  if (status != TERN_CQE_SUCCESS) return drop(*wqe, status);
  SpanList::copy(packet.payload, to);
  to.clear();
  wqe->received = k + packet.train;
  if (last) mark_done(wqe->index);
  (void)acknowledge_before(packet.psn.plus(packet.train));
  progressed();
}

void Requester::on_atomic_ack(const Packet& packet) {
  SendWqe* const wqe = wqe_of(packet.psn);
  if (wqe == nullptr) return;
  if (!acknowledge_before(packet.psn)) return implied_nak();
  if (!wqe->atomic()) {
    wqe->status = TERN_CQE_BAD_RESP_ERR;
    retire();
    return;
  }
  SpanList& to = qp_.context().scatter;
  const std::uint8_t status = locate(*wqe, 0, 8, to);
  if (status != TERN_CQE_SUCCESS) return drop(*wqe, status);
  const std::uint64_t value = le(packet.original);
  to.copy_from(std::as_bytes(std::span(&value, 1)));
  to.clear();
  mark_done(wqe->index);
  (void)acknowledge_before(packet.psn.next());
  progressed();
}

// Completes WQEs that are done, or have failed, in order. Returns false if the QP is in the error
// state.
bool Requester::retire() {
  while (oldest_.wqe != fetched_) {
    const SendWqe& wqe = window_.at(oldest_.wqe);
    if (!wqe.done && (!wqe.failed() || waits(wqe))) break;
    if (next_.wqe == oldest_.wqe) pass(wqe);
    pass_oldest();
    qp_.context().charge_sender(kPacketCost);
    if (!wqe.done) unshare();
    complete(wqe, wqe.done ? static_cast<std::uint8_t>(TERN_CQE_SUCCESS) : wqe.status);
    if (!wqe.done) {
      qp_.counters().add(TERN_CNT_REQ_CQE_ERROR);
      qp_.send_failed();
    }
    if (qp_.state() == TERN_QPS_ERR) return false;
  }
  if (qp_.state() == TERN_QPS_SQD && drained()) qp_.sq_drained();
  assert(consistent());
  settle();
  return true;
}

// ---- retries and the timer ----

// A response that is missing while this half is parked was probably dropped because of the fault:
// request it again after the fault.
void Requester::implied_nak() {
  if (parked()) {
    repeat_ = true;
    retire();
    return;
  }
  qp_.counters().add(TERN_CNT_IMPLIED_NAK_SEQ_ERR);
  go_back_once();
}

// Every later response of the same stream reveals a missing response again, and a NAK may arrive
// twice: go back only once until there is progress. An RNR wait continues until its timer expires.
void Requester::go_back_once() {
  if (!retire() || went_back_ || rnr_wait_) return;
  if (parked()) {
    repeat_ = true;
    return;
  }
  went_back_ = true;
  retry();
}

void Requester::fault_over(bool failed) {
  SendQueue::fault_over(failed);
  if (repeat_) {
    repeat_ = false;
    // Packets still in flight must not cause another go-back.
    went_back_ = true;
    go_back();
  }
  if (!rnr_wait_ && in_flight(oldest_.psn)) arm_ack_timer();
  retire();
}

void Requester::progressed() {
  if (oldest_.psn.ahead_of(window_psn_) > 0) window_psn_ = oldest_.psn;
  if (!rnr_wait_) {
    if (in_flight(oldest_.psn)) {
      arm_ack_timer();
    } else {
      timer_.cancel_lazily();
    }
  }
  if (retire() && pending()) qp_.wake();
}

// Retransmits from the oldest unacknowledged PSN (go-back-N).
void Requester::go_back() {
  if (qp_.context().log != nullptr) log_retry();
  next_.wqe = oldest_.wqe;
  while (next_.wqe != fetched_ && window_.at(next_.wqe).done) ++next_.wqe;
  next_.packet = 0;
  next_.psn = fresh_.psn;
  if (next_.wqe != fetched_) {
    const SendWqe& wqe = window_.at(next_.wqe);
    if (wqe.psns != 0) {
      next_.packet = distance(wqe.first_psn, oldest_.psn);
      next_.psn = oldest_.psn;
    }
  }
  reads_out_ = 0;
  window_psn_ = oldest_.psn;
  assert(consistent());
}

void Requester::path_changed() {
  retries_left_ = qp_.attr().retry_cnt;
  rnr_left_ = qp_.attr().rnr_retry;
  if (timer_.armed() && timer_use_ == TimerUse::kAck) arm_ack_timer();
}

void Requester::retry() {
  if (retries_left_ > 0) {
    --retries_left_;
  } else if (!qp_.migrate()) {
    for (std::uint32_t i = oldest_.wqe; i != fetched_; ++i) {
      if (window_.at(i).done) continue;
      window_.at(i).status = TERN_CQE_RETRY_EXC_ERR;
      break;
    }
    retire();
    return;
  }
  go_back();
  // The timer restarts when the packet is sent, which may have to wait for the QP's turn.
  timer_.cancel();
  qp_.wake();
}

void Requester::arm_ack_timer() {
  const std::uint8_t code = qp_.attr().timeout & 0x1f;
  if (code == 0) return timer_.cancel_lazily();
  // IBTA 9.7.6.1.3: at least 4.096 us * 2^code and at most four times that. Use the maximum: the
  // peer shares our processors, and a needless retry slows both down.
  const Nanos timeout = std::max(4 * (Nanos{4096} << code), kMinAckTimeout);
  timer_use_ = TimerUse::kAck;
  timer_.arm_lazily(qp_.context().now() + timeout);
}

void Requester::expired() {
  if (timer_use_ == TimerUse::kRnr) {
    rnr_wait_ = false;
    qp_.wake();
    return;
  }
  if (!in_flight(oldest_.psn)) return;
  if (parked()) {
    repeat_ = true;
    return;
  }
  qp_.counters().add(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR);
  went_back_ = false;
  retry();
}

}  // namespace tern
