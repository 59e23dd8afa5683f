// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/watch.h"

#include <algorithm>

#include "transport/segments.h"

namespace tern::storm {

namespace {

constexpr std::size_t kBth = 12;
constexpr std::size_t kXrcEth = 4;
constexpr std::size_t kFeth = 4;
constexpr std::uint32_t kWindow = 128;

// Whether a READ response without payload answers it.
bool is_answered_empty(Op op) { return op == Op::kFlush || op == Op::kAtomicWrite; }

std::uint64_t big(std::span<const std::byte> bytes, std::size_t at, std::size_t n) {
  std::uint64_t v = 0;
  for (std::size_t i = 0; i < n; ++i) v = v << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return v;
}

}  // namespace

std::optional<Seen> look_at(std::span<const std::byte> frame) {
  const auto at = find_parts(frame);
  if (!at) return std::nullopt;
  const auto packet = frame.subspan(at->bth, at->icrc - at->bth);
  const auto opcode = std::to_integer<std::uint8_t>(packet[0]);
  const OpTraits& t = traits_of(opcode);
  const std::size_t header = t.header_bytes;
  const std::size_t pad = std::to_integer<std::size_t>(packet[1]) >> 4 & 3;
  if (!t.valid || packet.size() < header + pad) return std::nullopt;
  Seen seen{};
  seen.transport = static_cast<Transport>(opcode & 0xe0);
  seen.op = static_cast<Op>(opcode & 0x1f);
  seen.traits = &t;
  seen.to_node = std::to_integer<unsigned>(frame[5]) - 1;
  const std::size_t source = at->ip + (at->ipv4 ? 12 + 3 : 8 + 15);
  seen.from_node = std::to_integer<unsigned>(frame[source]) - 1;
  seen.dest = static_cast<std::uint32_t>(big(packet, 5, 3));
  seen.psn = Psn(static_cast<std::uint32_t>(big(packet, 9, 3)));
  seen.ack_req = std::to_integer<unsigned>(packet[8]) & 0x80;
  seen.payload = static_cast<std::uint32_t>(packet.size() - header - pad);
  const std::size_t next = kBth + (t.xrceth ? kXrcEth : 0);
  if (t.aeth) seen.syndrome = static_cast<std::uint8_t>(big(packet, kBth, 1));
  if (t.atomic_ack_eth) seen.original = big(packet, kBth + 4, 8);
  if (t.deth) seen.src_qp = static_cast<std::uint32_t>(big(packet, kBth + 5, 3));
  if (t.reth) {
    const std::size_t reth = next + (t.feth ? kFeth : 0);
    seen.rkey = static_cast<std::uint32_t>(big(packet, reth + 8, 4));
    seen.dma_len = static_cast<std::uint32_t>(big(packet, reth + 12, 4));
  }
  return seen;
}

// ---- views ----

unsigned QpView::most_sent(Psn first, std::uint32_t n) const {
  unsigned most = 0;
  const std::uint32_t at = Psn(first.value() - first_psn.value()).value();
  for (std::uint32_t i = at; i < at + n && i < sent.size(); ++i)
    most = std::max<unsigned>(most, sent[i]);
  return most;
}

unsigned QpView::most_rnr(Psn first, std::uint32_t n) const {
  unsigned most = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto it = rnr_naks.find(first.plus(i).value());
    if (it != rnr_naks.end()) most = std::max(most, it->second);
  }
  return most;
}

WireWatch::WireWatch(Sim& sim, std::vector<TestNode*> nodes, RuleCounts& counts, Findings& findings)
    : sim_(sim),
      nodes_(std::move(nodes)),
      counts_(counts),
      findings_(findings),
      views_(nodes_.size()) {
  sim_.pass = [this](unsigned from, std::span<const std::byte> frame) {
    return on_sent(from, frame);
  };
  sim_.tap = [this](SimNode& to, std::span<const std::byte> frame, bool after) {
    on_delivery(to, frame, after);
  };
}

WireWatch::~WireWatch() {
  sim_.pass = nullptr;
  sim_.tap = nullptr;
}

QpView& WireWatch::add(TestQp& qp) {
  auto& slot = views_[node_of(qp).index()][qp.number()];
  slot = std::make_unique<QpView>();
  slot->qp = &qp;
  slot->node = node_of(qp).index();
  slot->mtu = 1U << qp.options().log_mtu;
  slot->first_psn = slot->una = slot->window_base = slot->end = Psn(qp.options().sq_psn);
  slot->expected = Psn(qp.options().rq_psn);
  return *slot;
}

void WireWatch::connect(QpView& a, QpView& b) {
  a.peer = &b;
  b.peer = &a;
}

QpView* WireWatch::find(unsigned node, std::uint32_t qpn) const {
  if (node >= views_.size()) return nullptr;
  const auto it = views_[node].find(qpn);
  return it == views_[node].end() ? nullptr : it->second.get();
}

void WireWatch::finish() {
  for (TestNode* const node : nodes_) {
    const auto& c = node->device.counters().rdma;
    counts_.add(Rule::kTimeout, c[TERN_CNT_LOCAL_ACK_TIMEOUT_ERR]);
    counts_.add(Rule::kCnpSent, c[TERN_CNT_NP_CNP_SENT]);
    counts_.add(Rule::kCnpTaken, c[TERN_CNT_RP_CNP_HANDLED]);
    counts_.add(Rule::kIcrc, c[TERN_CNT_RX_ICRC_ERRORS] + c[TERN_CNT_RX_MALFORMED]);
  }
}

// ---- packets sent ----

// The device may catch up on what it was late with, and is exact to one packet.
bool Pace::take(std::uint64_t frame, Nanos now) {
  constexpr std::uint64_t kLate = 2'000'000;  // ns
  constexpr std::uint64_t kCatchUp = 256 << 10;
  const std::uint64_t spare = std::min(kbit_ * kLate / 8'000'000, kCatchUp);
  const bool good = bytes_ <= kbit_ * (now - since_) / 8'000'000 + spare;
  bytes_ += frame;
  return good;
}

// Acknowledgements are not limited.
void WireWatch::sent_paced(QpView& by, const Seen& seen, std::size_t frame) {
  const bool response = seen.op >= Op::kReadResponseFirst && seen.op <= Op::kReadResponseOnly;
  if ((!seen.traits->request && !response) || !by.pace.limited()) return;
  counts_.add(Rule::kPaced);
  if (by.pace.take(frame, sim_.now())) return;
  findings_.add(Claim::kProtocol, "a QP sends faster than its rate limit");
}

bool WireWatch::on_sent(unsigned from, std::span<const std::byte> frame) {
  fingerprint_ = (fingerprint_ ^ hash_bytes(frame.last(4)) ^ from) * 0x100000001b3 + sim_.now();
  const auto seen = look_at(frame);
  if (!seen) return true;
  const QpView* const to = find(seen->to_node, seen->dest);
  if (to == nullptr || to->peer == nullptr) return true;
  QpView& by = *to->peer;
  sent_paced(by, *seen, frame.size());
  if (seen->transport == Transport::kCnp) {
    // Neither a request nor an answer.
  } else if (seen->traits->request) {
    sent_request(by, *seen);
  } else {
    sent_answer(by, *seen);
  }
  return !by.black_hole && !to->black_hole;
}

void WireWatch::sent_request(QpView& by, const Seen& seen) {
  if (seen.transport == Transport::kUc) return;
  const std::uint32_t at = Psn(seen.psn.value() - by.first_psn.value()).value();
  if (at >= 1U << 22) {
    return findings_.add(Claim::kProtocol, "a request with a PSN that is far from all others");
  }
  if (at >= by.sent.size()) by.sent.resize(at + 1);
  const bool repeated = by.sent[at] != 0;
  if (by.sent[at] < 255) ++by.sent[at];
  const bool data = seen.traits->send || seen.traits->write;
  const bool read = seen.op == Op::kReadRequest;
  const bool empty = is_answered_empty(seen.op);
  const std::uint32_t psns = read ? packets_of(seen.dma_len, by.mtu) : 1;
  const bool fresh = seen.psn.ahead_of(by.end) >= 0;
  if (repeated || !fresh) by.window_base = by.una;
  if (data) {
    const Psn base = by.una.ahead_of(by.window_base) > 0 ? by.una : by.window_base;
    if (seen.psn.ahead_of(base) == static_cast<std::int32_t>(kWindow) - 1)
      counts_.add(Rule::kWindowFull);
    if (seen.ack_req && !seen.traits->last) counts_.add(Rule::kAckAsked);
  }
  if (read) by.window_base = seen.psn.plus(psns);
  if (empty) {
    if (repeated) counts_.add(seen.op == Op::kFlush ? Rule::kFlushAgain : Rule::kAtomicWriteAgain);
    by.awaited.try_emplace(seen.psn.value(), Awaited{seen.op});
  }
  if (read || empty || seen.traits->atomic_eth) {
    if (read && !fresh && !by.reads.contains(seen.psn.value())) counts_.add(Rule::kReadResumed);
    if (fresh) {
      if (read) by.reads.insert(seen.psn.value());
      while (!by.outstanding.empty() && by.una.ahead_of(by.outstanding.front()) > 0) {
        by.outstanding.pop_front();
      }
      by.outstanding.push_back(seen.psn.plus(psns - 1));
      if (by.outstanding.size() == by.qp->options().max_rd_atomic) counts_.add(Rule::kReadDepth);
    }
  }
  if (seen.psn.plus(psns).ahead_of(by.end) > 0) by.end = seen.psn.plus(psns);
}

void WireWatch::sent_answer(QpView& by, const Seen& seen) {
  if (by.keep_answers) by.answers.push_back({seen.op, seen.syndrome, seen.psn});
  switch (seen.op) {
    case Op::kAck:
      if (seen.syndrome == kNakSequence) {
        counts_.add(Rule::kAheadNak);
        if (by.naks_due == 0) {
          findings_.add(Claim::kProtocol, "NAK 0x60 once more without a packet ahead");
        } else {
          --by.naks_due;
        }
      }
      if ((seen.syndrome & kSyndromeKindMask) != kSyndromeKindAck) break;
      if (const auto it = by.peer->awaited.find(seen.psn.value());
          it != by.peer->awaited.end() && !it->second.answered) {
        findings_.add(Claim::kProtocol, "an ACK where a FLUSH or ATOMIC WRITE wants a response");
      }
      if (by.again_send) counts_.add(Rule::kRepeatedSend);
      if (by.again_write) counts_.add(Rule::kRepeatedWrite);
      by.again_send = by.again_write = false;
      break;
    case Op::kReadResponseFirst:
    case Op::kReadResponseOnly:
      sent_read_response(by, seen);
      break;
    case Op::kAtomicAck: {
      const auto [it, first] = by.results.emplace(seen.psn.value(), seen.original);
      if (!first && it->second != seen.original) {
        findings_.add(Claim::kDoubled, "a repeated atomic was answered with another value");
      }
      if (by.again_atomic != seen.psn) break;
      counts_.add(Rule::kRepeatedAtomic);
      by.again_atomic.reset();
      break;
    }
    default:
      break;
  }
}

void WireWatch::sent_read_response(QpView& by, const Seen& seen) {
  const auto it = by.peer->awaited.find(seen.psn.value());
  if (it != by.peer->awaited.end()) return sent_empty(by, seen, it->second);
  if (by.again_read != seen.psn) return;
  counts_.add(by.again_part ? Rule::kRepeatedReadPart : Rule::kRepeatedRead);
  by.again_read.reset();
}

void WireWatch::sent_empty(QpView& by, const Seen& seen, Awaited& awaited) {
  const bool flush = awaited.op == Op::kFlush;
  if (seen.op != Op::kReadResponseOnly || seen.payload != 0) {
    findings_.add(Claim::kProtocol, "a FLUSH or ATOMIC WRITE was answered with bytes");
  }
  if (flush && by.flushes) by.flushes->flush_answered(seen.psn);
  awaited.answered = true;
  if (by.again_empty != seen.psn) return;
  counts_.add(flush ? Rule::kRepeatedFlush : Rule::kRepeatedAtomicWrite);
  by.again_empty.reset();
}

// ---- packets received ----

WireWatch::Before WireWatch::state_of(SimNode& node, std::uint32_t qpn) const {
  Before b;
  b.counters = node.device.counters();
  if (const Qp* const qp = node.device.registry.qps.find(qpn)) {
    tern_rsp_query_qp q;
    qp->query(&q);
    b.expected = Psn(le(std::uint32_t{q.attr.rq_psn}));
    b.sq_ci = le(std::uint32_t{q.sq_ci});
    b.state = q.attr.state;
  }
  return b;
}

void WireWatch::on_delivery(SimNode& to, std::span<const std::byte> frame, bool after) {
  const auto seen = look_at(frame);
  if (!seen) return;
  const Before now = state_of(to, seen->dest);
  if (!after) {
    before_ = now;
    return;
  }
  // Only packets that a QP has accepted: the device has checked ICRC and destination.
  if (moved(now, TERN_CNT_RX_RDMA_PACKETS) != 1 || moved(now, TERN_CNT_RX_QP_MISMATCH) != 0) return;
  QpView* const at = find(to.index(), seen->dest);
  if (at == nullptr || seen->transport == Transport::kCnp) return;
  if (!seen->traits->request) return got_answer(*at, *seen, now);
  if (seen->transport == Transport::kUc || seen->transport == Transport::kUd) {
    return got_unreliable(*at, *seen, now);
  }
  got_request(*at, *seen, now);
}

void WireWatch::got_request(QpView& at, const Seen& seen, const Before& now) {
  const std::int32_t ahead = seen.psn.ahead_of(before_.expected);
  if (ahead < 0) return got_repeated(at, seen);
  if (ahead > 0) {
    if (moved(now, TERN_CNT_OUT_OF_SEQUENCE) == 0) return counts_.add(Rule::kAheadSilent);
    const bool again = at.qp->options().ece & TERN_ECE_REPEAT_NAK && seen.ack_req;
    if (at.nak_owed && again) counts_.add(Rule::kAheadAgain);
    if (at.nak_owed && !again) {
      findings_.add(Claim::kProtocol, "NAK 0x60 twice without the expected packet between");
    }
    at.nak_owed = true;
    ++at.naks_due;
    return;
  }
  at.nak_owed = false;
  if (moved(now, TERN_CNT_OUT_OF_BUFFER) != 0) {
    counts_.add(seen.traits->send ? Rule::kRnrSend : Rule::kRnrWriteImm);
    if (at.receives == ReceivePool::Kind::kShared) counts_.add(Rule::kRnrShared);
    if (at.receives == ReceivePool::Kind::kXrc) counts_.add(Rule::kRnrXrc);
    return;
  }
  if (now.state != TERN_QPS_ERR && now.expected != before_.expected) got_executed(at, seen, now);
}

void WireWatch::got_executed(QpView& at, const Seen& seen, const Before& now) {
  counts_.add(Rule::kInOrder);
  const bool read = seen.op == Op::kReadRequest;
  const std::uint32_t psns = read ? packets_of(seen.dma_len, at.mtu) : 1;
  if (now.expected != before_.expected.plus(psns)) {
    findings_.add(Claim::kProtocol, "the expected PSN has not grown by what the request takes");
  }
  // PSNs wrap: an earlier result under this PSN belonged to another request.
  if (seen.traits->atomic_eth) at.results.erase(seen.psn.value());
  if (read && psns > 1) counts_.add(Rule::kReadPsns);
  if (read && seen.dma_len == 0) counts_.add(Rule::kReadEmpty);
  if (seen.op == Op::kFlush && seen.dma_len > at.mtu) counts_.add(Rule::kFlushPsn);
  if (seen.op == Op::kAtomicWrite) counts_.add(Rule::kAtomicWritePsn);
  if (seen.transport == Transport::kXrc && is_answered_empty(seen.op)) {
    counts_.add(seen.op == Op::kFlush ? Rule::kXrcFlush : Rule::kXrcAtomicWrite);
  }
  if (now.expected.value() < before_.expected.value()) {
    counts_.add(Rule::kWrapRequest);
    if (read && now.expected.value() != 0) counts_.add(Rule::kWrapRead);
  }
  const bool other_key = at.good_key != 0 && seen.rkey != at.good_key;
  if (read && seen.dma_len == 0 && other_key) counts_.add(Rule::kZeroRead);
  if (seen.op == Op::kWriteOnly && seen.dma_len == 0 && other_key) counts_.add(Rule::kZeroWrite);
}

// Notes what a repeated request asks for; the rule is counted when it is answered.
void WireWatch::got_repeated(QpView& at, const Seen& seen) {
  if (seen.op == Op::kReadRequest) {
    at.again_read = seen.psn;
    at.again_part = at.peer != nullptr && !at.peer->reads.contains(seen.psn.value());
  } else if (seen.traits->atomic_eth) {
    at.again_atomic = seen.psn;
  } else if (is_answered_empty(seen.op)) {
    at.again_empty = seen.psn;
  } else if (seen.ack_req) {
    (seen.traits->send ? at.again_send : at.again_write) = true;
  }
}

void WireWatch::got_unreliable(QpView& at, const Seen& seen, const Before& now) {
  const bool none = moved(now, TERN_CNT_OUT_OF_BUFFER) != 0;
  if (seen.transport == Transport::kUd) {
    if (none) counts_.add(Rule::kUdNoReceive);
    const bool taken = !none && moved(now, TERN_CNT_QKEY_VIOLATIONS) == 0 &&
                       moved(now, TERN_CNT_RESP_LOCAL_LENGTH_ERROR) == 0;
    if (at.arrivals) at.arrivals->arrived(at, seen.from_node, seen.src_qp, seen.psn, taken);
    return;
  }
  const OpTraits& t = *seen.traits;
  if (seen.psn != at.expected) {
    counts_.add(Rule::kUcGap);
    at.in_message = false;
    at.lost_step = true;
  }
  at.expected = seen.psn.next();
  if (at.expected.value() == 0) counts_.add(Rule::kWrapUnreliable);
  if (!t.first && !at.in_message) return counts_.add(Rule::kUcNoFirst);
  if (none) {
    counts_.add(Rule::kUcNoReceive);
    at.in_message = false;
    return;
  }
  if (t.first && std::exchange(at.lost_step, false)) counts_.add(Rule::kUcResumes);
  at.in_message = !t.last;
  if (t.last && at.arrivals) at.arrivals->arrived(at, seen.from_node, 0, seen.psn, true);
}

void WireWatch::got_answer(QpView& at, const Seen& seen, const Before& now) {
  if (seen.psn.ahead_of(at.una) < 0) counts_.add(Rule::kStaleResponse);
  const bool implied = moved(now, TERN_CNT_IMPLIED_NAK_SEQ_ERR) != 0;
  if (moved(now, TERN_CNT_PACKET_SEQ_ERR) != 0) counts_.add(Rule::kNakTaken);
  const std::uint8_t kind =
      seen.op == Op::kAck ? seen.syndrome & kSyndromeKindMask : kSyndromeKindAck;
  if (implied) {
    counts_.add(seen.op == Op::kAck                     ? Rule::kImpliedByAck
                : seen.op == Op::kAtomicAck             ? Rule::kImpliedByAtomic
                : at.awaited.contains(seen.psn.value()) ? Rule::kImpliedByEmpty
                                                        : Rule::kImpliedByRead);
    return;
  }
  if (kind == kSyndromeKindRnr) ++at.rnr_naks[seen.psn.value()];
  if (kind == kSyndromeKindNak && seen.syndrome != kNakSequence && at.fatal_nak == 0) {
    at.fatal_nak = seen.syndrome;
  }
  const Psn done = kind == kSyndromeKindAck ? seen.psn.next() : seen.psn;
  if (done.ahead_of(at.una) > 0 && done.ahead_of(at.end) <= 0) at.una = done;
  if (seen.op == Op::kAck && kind == kSyndromeKindAck && now.sq_ci - before_.sq_ci >= 2 &&
      now.sq_ci - before_.sq_ci < 1U << 16) {
    counts_.add(Rule::kCoalescedAck);
  }
}

}  // namespace tern::storm
