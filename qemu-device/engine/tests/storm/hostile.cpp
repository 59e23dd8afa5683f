// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/hostile.h"

#include <algorithm>
#include <functional>

#include "tests/storm/scene.h"

namespace tern::storm {

// The QP type of an offence; kAny: RC or XRC.
enum class On : std::uint8_t { kRc, kAny, kXrc, kUc, kUd };

namespace {

constexpr std::uint32_t kNobodys = 0xdead0001;
constexpr std::uint8_t k61 = kNakInvalidRequest;
constexpr std::uint8_t k62 = kNakRemoteAccess;

// ---- forged frames ----

void order_no_first(Scene& s) {
  s.put(s.random().one_in(2) ? Op::kSendMiddle : Op::kWriteLast, s.mtu());
  s.expect_nak(k61, 0, TERN_EV_QP_REQ_ERR);
}

void order_first_again(Scene& s) {
  s.receive();
  s.put(Op::kSendFirst, s.mtu());
  s.put(s.random().one_in(2) ? Op::kSendFirst : Op::kSendOnly, s.mtu());
  s.expect_nak(k61, 1, TERN_EV_QP_REQ_ERR);
}

void order_mixed(Scene& s) {
  s.receive();
  s.put(Op::kSendFirst, s.mtu());
  s.put(Op::kWriteMiddle, s.mtu());
  s.expect_nak(k61, 1, TERN_EV_QP_REQ_ERR);
}

void order_other(Scene& s) {
  s.receive();
  s.put(Op::kSendFirst, s.mtu());
  s.put_answered();
  s.expect_nak(k61, 1, TERN_EV_QP_REQ_ERR);
}

// A FLUSH without placement type, or an ATOMIC WRITE that is not aligned to 8 bytes: never
// executed.
void opcode(Scene& s) {
  const bool flush = s.random().one_in(2);
  Packet& p = s.begin(flush ? Op::kFlush : Op::kAtomicWrite);
  p.va = s.target().iova + (flush ? 0 : 4);
  p.rkey = s.target().key;
  p.dma_len = 8;
  p.flush_type = 0;
  s.end(flush ? 0 : kAtomicWritePayload);
  s.expect_nak(k61, 0, TERN_EV_QP_REQ_ERR);
}

void xrc_srq(Scene& s) {
  TestNode& b = s.b();
  TestSrq& other = b.create_srq({.pd = b.pd(), .xrcd = b.alloc_xrcd(), .cq = &b.create_cq(4)});
  Packet& p = s.begin(Op::kSendOnly);
  p.xrc_srq = Srqn(other.number());
  s.end(16);
  s.expect_nak(k61, 0, TERN_EV_QP_REQ_ERR);
}

void length_only(Scene& s) {
  s.receive();
  s.put(Op::kSendOnly, s.mtu() + 4);
  s.expect_nak(k61, 0, TERN_EV_QP_REQ_ERR);
}

void length_first(Scene& s) {
  s.receive();
  s.put(Op::kSendFirst, s.mtu() - 4);
  s.expect_nak(k61, 0, TERN_EV_QP_REQ_ERR);
}

void length_last(Scene& s) {
  s.receive();
  s.put(Op::kSendFirst, s.mtu());
  s.put(Op::kSendLast, 0);
  s.expect_nak(k61, 1, TERN_EV_QP_REQ_ERR);
}

void length_reth(Scene& s) {
  switch (s.random().pick(3)) {
    case 0:
      s.put_write(Op::kWriteFirst, s.target(), 0x80000001, s.mtu());
      break;
    case 1:
      s.put_flush(s.target(), 0x80000001);
      break;
    default:
      s.put_read(s.target(), 0x80000001);
      break;
  }
  s.expect_nak(k61, 0, TERN_EV_QP_REQ_ERR);
}

void length_more(Scene& s) {
  s.put_write(Op::kWriteOnly, s.target(), 60, 64);
  s.expect_nak(k61, 0, TERN_EV_QP_REQ_ERR);
}

void length_less(Scene& s) {
  s.put_write(Op::kWriteFirst, s.target(), s.mtu() + 64, s.mtu());
  s.put(Op::kWriteLast, 60);
  s.expect_nak(k61, 1, TERN_EV_QP_REQ_ERR, s.mtu());
}

void reads_refused(Scene& s) {
  s.put_answered();
  s.expect_nak(k61, 0, TERN_EV_QP_REQ_ERR);
}

// Both arrive before the responder runs: it answers the first, then sends the NAK.
void reads_too_many(Scene& s) {
  s.put_read(s.target(), 8);
  s.put_answered();
  s.expect_answer(Op::kReadResponseOnly, 0);
  s.expect_nak(k61, 1, TERN_EV_QP_REQ_ERR);
}

void read_elsewhere(Scene& s) {
  s.put_read(s.target(), 3 * s.mtu());
  s.settle();
  s.expect_answer(Op::kReadResponseFirst, 0);
  s.forget_answers();
  s.back(3);
  TestMr other = s.target();
  switch (s.random().pick(3)) {
    case 0:
      other.key = kNobodys;
      s.put_read(other, 3 * s.mtu());
      break;
    case 1:
      s.put_read(s.target(), 3 * s.mtu() + 1);
      break;
    default:
      s.put_read(s.target(), 3 * s.mtu(), 8);
      break;
  }
  s.expect_silence();
}

void read_unknown(Scene& s) {
  s.back(200);
  s.put_read(s.target(), 64);
  s.expect_silence();
}

void atomic_unknown(Scene& s) {
  s.back(100);
  s.put_atomic(s.target(), 0);
  s.expect_silence();
  s.expect_untouched();
}

// Forgets the answer to the first request; the next request has the same PSN.
void answered_once(Scene& s) {
  s.settle();
  s.expect_answer(Op::kReadResponseOnly, 0);
  s.forget_answers();
  s.back(1);
}

void flush_elsewhere(Scene& s) {
  s.put_flush(s.target(), 64);
  answered_once(s);
  TestMr other = s.target();
  other.key = kNobodys;
  switch (s.random().pick(4)) {
    case 0:
      s.put_flush(other, 64);
      break;
    case 1:
      s.put_flush(s.target(), 65);
      break;
    case 2:
      s.put_read(s.target(), 64);
      break;
    default:
      s.put_flush(s.target(), 64, 1);
      break;
  }
  s.expect_silence();
}

void flush_unknown(Scene& s) {
  s.back(100);
  s.put_flush(s.target(), 64);
  s.expect_silence();
}

// The repeated request is answered again, but must not write again.
void atomic_write_elsewhere(Scene& s) {
  s.put_atomic_write(s.target());
  answered_once(s);
  std::ranges::fill(s.target().bytes(0, 8), kGuard);
  s.put_atomic_write(s.target());
  answered_once(s);
  s.expect_untouched();
  TestMr other = s.target();
  other.key = kNobodys;
  switch (s.random().pick(3)) {
    case 0:
      s.put_atomic_write(other);
      break;
    case 1:
      s.put_flush(s.target(), 8);
      break;
    default:
      s.put_atomic_write(s.target(), 8);
      break;
  }
  s.expect_silence();
  s.expect_untouched();
}

void atomic_write_unknown(Scene& s) {
  s.back(100);
  s.put_atomic_write(s.target());
  s.expect_silence();
  s.expect_untouched();
}

void atomic_write_length(Scene& s) {
  s.put_atomic_write(s.target(), 0, s.random().one_in(2) ? 0 : 9 + s.random().pick(64));
  s.expect_nak(k61, 0, TERN_EV_QP_REQ_ERR);
}

// More pad bytes than payload.
void pad(Scene& s) {
  s.receive();
  s.put(Op::kSendOnly, 0, [](std::vector<std::byte>& bth_on) { bth_on[1] |= std::byte{0x30}; });
  s.expect_dropped(TERN_CNT_RX_MALFORMED);
}

void access_receive(Scene& s) {
  s.receive();
  TestMr& gone = s.b().reg(4 * s.mtu());
  s.put_write(Op::kWriteFirst, gone, 2 * s.mtu(), s.mtu());
  s.settle();
  s.b().dereg(gone);
  s.put(Op::kWriteLastImm, s.mtu());
  s.expect_nak(k62, 1, -1, s.mtu());
  s.expect_receive(TERN_CQE_LOC_ACCESS_ERR);
}

void read_key_gone(Scene& s) {
  TestMr& gone = s.b().reg(1 << 20);
  s.put_read(gone, 1 << 20);
  // The key is destroyed when a part has been answered.
  s.sim().run_until([&] { return !s.answers().empty(); }, 1'000'000);
  s.b().dereg(gone);
  s.expect_late_nak(k62, TERN_EV_QP_ACCESS_ERR);
}

// ---- UC ----

void uc_order(Scene& s) {
  s.receive();
  s.put(Op::kSendFirst, s.mtu());
  s.put(Op::kSendFirst, s.mtu());
  s.put(Op::kSendLast, 20);
  s.expect_received(s.mtu() + 20);
}

void uc_flag(Scene& s) {
  s.put_write(Op::kWriteOnly, s.target(), 64, 64);
  s.expect_untouched();
  s.expect_still_receiving();
}

void uc_key(Scene& s) {
  TestMr other = s.target();
  other.key = kNobodys;
  s.put_write(Op::kWriteOnly, other, 64, 64);
  s.expect_untouched();
  s.expect_still_receiving();
}

void uc_length(Scene& s) {
  s.receive(100);
  s.put(Op::kSendOnly, 120);
  s.settle();
  s.expect_still_receiving();
}

void ud_length(Scene& s) {
  s.receive(40 + 99);
  s.put(Op::kSendOnly, 100);
  s.expect_dropped(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
  s.put(Op::kSendOnly, 99);
  s.expect_received(40 + 99);
}

// ---- requests posted by a program ----

void flag_write(Scene& s) { s.fails(write({s.near().sge(0, 64)}, s.target()), TERN_EV_QP_REQ_ERR); }
void flag_read(Scene& s) { s.fails(read({s.near().sge(0, 64)}, s.target()), TERN_EV_QP_REQ_ERR); }
void flag_atomic(Scene& s) {
  s.fails(fetch_add(s.near().sge(0, 8), s.target(), 0, 1), TERN_EV_QP_REQ_ERR);
}

void flag_flush(Scene& s) { s.fails(flush(s.target(), 0, 64), TERN_EV_QP_REQ_ERR); }
void flag_atomic_write(Scene& s) { s.fails(atomic_write(7, s.target(), 0), TERN_EV_QP_REQ_ERR); }

// A WRITE, a WRITE with immediate (which takes a receive), or a READ.
SendWr any_access(Scene& s, const TestMr& to, std::uint64_t at, std::uint32_t len) {
  switch (s.random().pick(3)) {
    case 0:
      return write({s.near().sge(0, len)}, to, at);
    case 1:
      return write({s.near().sge(0, len)}, to, at).immediate(7);
    default:
      return read({s.near().sge(0, len)}, to, at);
  }
}

void key_unknown(Scene& s) {
  TestMr other = s.target();
  other.key = kNobodys;
  s.fails(any_access(s, other, 0, 64), TERN_EV_QP_ACCESS_ERR);
}

void key_range(Scene& s) {
  const std::uint32_t len = 1 + s.random().pick(3 * s.mtu());
  s.fails(any_access(s, s.target(), s.target().length - len + 1, len), TERN_EV_QP_ACCESS_ERR);
}

void key_right(Scene& s) {
  TestMr& deaf = s.b().reg(4096, {.access = TERN_ACCESS_LOCAL_WRITE});
  s.fails(any_access(s, deaf, 0, 64), TERN_EV_QP_ACCESS_ERR);
}

void key_pd(Scene& s) {
  TestMr& foreign = s.b().reg(4096, {.pd = s.b().alloc_pd()});
  s.fails(any_access(s, foreign, 0, 64), TERN_EV_QP_ACCESS_ERR);
}

void atomic_place(Scene& s) {
  s.fails(fetch_add(s.near().sge(0, 8), s.target(), 1 + s.random().pick(7), 1), TERN_EV_QP_REQ_ERR);
}

void atomic_key(Scene& s) {
  TestMr& other = s.b().reg(4096, {.access = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE});
  s.fails(compare_swap(s.near().sge(0, 8), other, 0, 0, 1), TERN_EV_QP_ACCESS_ERR);
}

// A key that is destroyed, belongs to another PD, or lacks `right`.
TestMr& closed(Scene& s, std::uint32_t right) {
  switch (s.random().pick(3)) {
    case 0:
      return s.b().reg(4096, {.pd = s.b().alloc_pd()});
    case 1:
      return s.b().reg(4096, {.access = kAllAccess & ~right});
    default: {
      TestMr& gone = s.b().reg(4096);
      s.b().dereg(gone);
      return gone;
    }
  }
}

void flush_key(Scene& s) {
  const TestMr& other = closed(s, TERN_ACCESS_FLUSH_GLOBAL);
  s.fails(s.random().one_in(2) ? flush_all(other) : flush(other, 0, 64), TERN_EV_QP_ACCESS_ERR);
}

void flush_range(Scene& s) {
  const std::uint32_t len = 1 + s.random().pick(3 * s.mtu());
  s.fails(flush(s.target(), s.target().length - len + 1, len), TERN_EV_QP_ACCESS_ERR);
}

void flush_empty(Scene& s) {
  s.fails(flush(closed(s, TERN_ACCESS_FLUSH_GLOBAL), 0, 0), TERN_EV_QP_ACCESS_ERR);
}

void atomic_write_place(Scene& s) {
  s.fails(atomic_write(7, s.target(), 1 + s.random().pick(7)), TERN_EV_QP_REQ_ERR);
}

void atomic_write_key(Scene& s) {
  if (s.random().one_in(4)) {
    s.fails(atomic_write(7, s.target(), s.target().length), TERN_EV_QP_ACCESS_ERR);
  } else {
    s.fails(atomic_write(7, closed(s, TERN_ACCESS_REMOTE_WRITE), 0), TERN_EV_QP_ACCESS_ERR);
  }
}

void length_receive(Scene& s) {
  s.receive(100);
  s.fails(send({s.near().sge(0, 101 + s.random().pick(3 * s.mtu()))}), -1);
  s.expect_receive(TERN_CQE_LOC_LEN_ERR);
}

void bad_receive(Scene& s) {
  s.y().post_recv({{s.target().iova, 4096, kNobodys}}, 1);
  s.fails(send({s.near().sge(0, 64)}), -1);
  s.expect_receive(TERN_CQE_LOC_PROT_ERR);
}

void invalidate(Scene& s) {
  s.receive();
  s.fails(send_inv({s.near().sge(0, 64)}, s.random().one_in(2) ? kNobodys : s.target().key), -1);
  s.expect_receive(TERN_CQE_REM_INV_REQ_ERR);
}

// The receives belong to an SRQ: the last-WQE event is raised.
void last_wqe(Scene& s) {
  TestMr other = s.target();
  other.key = kNobodys;
  s.fails(write({s.near().sge(0, 64)}, other), TERN_EV_QP_ACCESS_ERR);
  s.expect_event(TERN_EV_QP_LAST_WQE);
}

void cq_overflow(Scene& s) {
  for (int i = 0; i < 4; ++i) s.x().post(write({s.near().sge(0, 8)}, s.target()));
  s.overflows();
}

}  // namespace

struct Hostile::Offence {
  Rule rule;
  void (*run)(Scene&);
  On on;
  SceneOptions options{};
};

namespace {

const Hostile::Offence kOffences[] = {
    {Rule::kOrderNoFirst, order_no_first, On::kAny},
    {Rule::kOrderFirstAgain, order_first_again, On::kAny},
    {Rule::kOrderMixed, order_mixed, On::kAny},
    {Rule::kOrderOther, order_other, On::kAny},
    {Rule::kOpcode, opcode, On::kAny},
    {Rule::kXrcSrq, xrc_srq, On::kXrc},
    {Rule::kLengthOnly, length_only, On::kAny},
    {Rule::kLengthFirst, length_first, On::kAny},
    {Rule::kLengthLast, length_last, On::kAny},
    {Rule::kLengthReth, length_reth, On::kAny},
    {Rule::kLengthMore, length_more, On::kAny},
    {Rule::kLengthLess, length_less, On::kAny},
    {Rule::kReadsRefused, reads_refused, On::kRc, {.max_dest_rd_atomic = 0}},
    {Rule::kReadsTooMany, reads_too_many, On::kRc, {.max_dest_rd_atomic = 1}},
    {Rule::kRepeatedReadElsewhere, read_elsewhere, On::kAny},
    {Rule::kRepeatedReadUnknown, read_unknown, On::kAny},
    {Rule::kRepeatedAtomicUnknown, atomic_unknown, On::kAny},
    {Rule::kRepeatedFlushElsewhere, flush_elsewhere, On::kAny},
    {Rule::kRepeatedFlushUnknown, flush_unknown, On::kAny},
    {Rule::kRepeatedAtomicWriteElsewhere, atomic_write_elsewhere, On::kAny},
    {Rule::kRepeatedAtomicWriteUnknown, atomic_write_unknown, On::kAny},
    {Rule::kPad, pad, On::kAny},
    {Rule::kAccessReceive, access_receive, On::kRc},
    {Rule::kReadKeyGone, read_key_gone, On::kRc},
    {Rule::kUcOrder, uc_order, On::kUc},
    {Rule::kUcFlag, uc_flag, On::kUc, {.access = TERN_ACCESS_REMOTE_READ}},
    {Rule::kUcKey, uc_key, On::kUc},
    {Rule::kUcLength, uc_length, On::kUc},
    {Rule::kUdLength, ud_length, On::kUd},
    {Rule::kFlagWrite, flag_write, On::kAny, {.access = TERN_ACCESS_REMOTE_READ}},
    {Rule::kFlagRead, flag_read, On::kAny, {.access = TERN_ACCESS_REMOTE_WRITE}},
    {Rule::kFlagAtomic, flag_atomic, On::kAny, {.access = TERN_ACCESS_REMOTE_WRITE}},
    {Rule::kFlagFlush, flag_flush, On::kAny, {.access = kAllAccess & ~TERN_ACCESS_FLUSH_GLOBAL}},
    {Rule::kFlagAtomicWrite,
     flag_atomic_write,
     On::kAny,
     {.access = kAllAccess & ~TERN_ACCESS_REMOTE_WRITE}},
    {Rule::kKeyUnknown, key_unknown, On::kAny},
    {Rule::kKeyRange, key_range, On::kAny},
    {Rule::kKeyRight, key_right, On::kAny},
    {Rule::kKeyPd, key_pd, On::kAny},
    {Rule::kAtomicPlace, atomic_place, On::kAny},
    {Rule::kAtomicKey, atomic_key, On::kAny},
    {Rule::kFlushKey, flush_key, On::kAny},
    {Rule::kFlushRange, flush_range, On::kAny},
    {Rule::kFlushEmpty, flush_empty, On::kAny},
    {Rule::kAtomicWritePlace, atomic_write_place, On::kAny},
    {Rule::kAtomicWriteLength, atomic_write_length, On::kAny},
    {Rule::kAtomicWriteKey, atomic_write_key, On::kAny},
    {Rule::kLengthReceive, length_receive, On::kAny},
    {Rule::kBadReceive, bad_receive, On::kRc},
    {Rule::kInvalidate, invalidate, On::kRc},
    {Rule::kLastWqe, last_wqe, On::kRc, {.shared = true}},
    {Rule::kCqOverflow, cq_overflow, On::kRc, {.small_cq = true}},
};

std::uint8_t type_of(On on, Random& random) {
  switch (on) {
    case On::kUc:
      return TERN_QPT_UC;
    case On::kUd:
      return TERN_QPT_UD;
    case On::kXrc:
      return TERN_QPT_XRC_INI;
    case On::kAny:
      return random.one_in(3) ? TERN_QPT_XRC_INI : TERN_QPT_RC;
    default:
      return TERN_QPT_RC;
  }
}

}  // namespace

Hostile::Hostile(Context& context, WireWatch& watch, TestNode& a, TestNode& b)
    : c_(context), watch_(watch), a_(a), b_(b) {
  for (const Offence& offence : kOffences) order_.push_back(&offence);
  for (std::size_t i = order_.size(); i > 1; --i)
    std::swap(order_[i - 1], order_[c_.random.pick(i)]);
}

void Hostile::next() {
  const Offence& offence = *order_[next_++];
  Scene scene(c_, watch_, a_, b_, type_of(offence.on, c_.random), offence.options,
              text_of(offence.rule).name);
  offence.run(scene);
  if (scene.good()) c_.counts.add(offence.rule);
}

}  // namespace tern::storm
