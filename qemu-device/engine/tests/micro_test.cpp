// SPDX-License-Identifier: GPL-2.0-or-later
// One operation with one fault: checks the completions of both ends, the data, and every error
// counter. Runs between two devices, and in loopback. tests/guest/micro runs the same table between
// machines.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr std::uint32_t kMtu = 1024;
constexpr std::uint32_t kLong = 10 * kMtu;

constexpr unsigned kTrouble[] = {
    TERN_CNT_OUT_OF_BUFFER,
    TERN_CNT_OUT_OF_SEQUENCE,
    TERN_CNT_DUPLICATE_REQUEST,
    TERN_CNT_RNR_NAK_RETRY_ERR,
    TERN_CNT_PACKET_SEQ_ERR,
    TERN_CNT_IMPLIED_NAK_SEQ_ERR,
    TERN_CNT_LOCAL_ACK_TIMEOUT_ERR,
    TERN_CNT_RESP_LOCAL_LENGTH_ERROR,
    TERN_CNT_RESP_CQE_ERROR,
    TERN_CNT_REQ_CQE_ERROR,
    TERN_CNT_REQ_REMOTE_INVALID_REQUEST,
    TERN_CNT_REQ_REMOTE_ACCESS_ERRORS,
    TERN_CNT_RESP_REMOTE_ACCESS_ERRORS,
    TERN_CNT_RESP_CQE_FLUSH_ERROR,
    TERN_CNT_REQ_CQE_FLUSH_ERROR,
    TERN_CNT_RX_ICRC_ERRORS,
    TERN_CNT_RX_MALFORMED,
    TERN_CNT_RX_QP_MISMATCH,
    TERN_CNT_DMA_ERRORS,
    TERN_CNT_CQ_OVERRUNS,
    TERN_CNT_NP_ECN_MARKED,
    TERN_CNT_NP_CNP_SENT,
    TERN_CNT_RP_CNP_HANDLED,
};

using Moves = std::map<unsigned, std::uint64_t>;

struct Micro {
  const char* name;
  const char* here;   // fault rules of the requester; {here}, {there}: the QP numbers
  const char* there;  // fault rules of the responder
  void (*run)(struct Bench& bench);
  Moves asks;
  Moves answers;
  QpOptions options{};
};

// Both ends of a case.
struct Bench {
  Bench(TestNode& x, TestNode& y, const QpOptions& options)
      : a(x),
        b(y),
        src(a.reg(65536)),
        dst(b.reg(65536)),
        pair(rc_pair(a, b, options)),
        qa(pair.first),
        qb(pair.second) {
    src.fill(3);
  }
  void expect(std::uint64_t id, std::uint8_t status = TERN_CQE_SUCCESS) const {
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
    EXPECT_EQ(le(wc.wr_id), id);
  }
  void expect_recv(std::uint64_t id, std::uint32_t len) const {
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(le(wc.wr_id), id);
    EXPECT_EQ(le(wc.byte_len), len);
  }
  void expect_same(std::uint32_t len) const {
    EXPECT_TRUE(same_bytes(dst.bytes(0, len), src.bytes(0, len)));
  }
  TestNode& a;
  TestNode& b;
  TestMr& src;
  TestMr& dst;
  std::pair<TestQp&, TestQp&> pair;
  TestQp& qa;
  TestQp& qb;
};

void write_of(Bench& t, std::uint32_t len) {
  t.qa.post(write({t.src.sge(0, len)}, t.dst).id(1));
  t.expect(1);
  t.expect_same(len);
}
void short_write(Bench& t) { write_of(t, 100); }
void long_write(Bench& t) { write_of(t, kLong); }

void long_read(Bench& t) {
  t.dst.fill(9);
  t.qa.post(read({t.src.sge(0, kLong)}, t.dst).id(1));
  t.expect(1);
  t.expect_same(kLong);
}

void long_send(Bench& t) {
  t.qb.post_recv({t.dst.sge(0, kLong)}, 7);
  t.qa.post(send({t.src.sge(0, kLong)}).id(1));
  t.expect(1);
  t.expect_recv(7, kLong);
  t.expect_same(kLong);
  EXPECT_FALSE(t.qb.recv_cq().poll());
}

void send_before_recv(Bench& t) {
  t.qa.post(send({t.src.sge(0, kLong)}).id(1));
  t.a.sim.run_for(5'000'000);
  EXPECT_FALSE(t.qa.send_cq().poll());
  t.qb.post_recv({t.dst.sge(0, kLong)}, 7);
  t.expect(1);
  t.expect_recv(7, kLong);
  t.expect_same(kLong);
}

void add(Bench& t) {
  t.dst.put(0, std::uint64_t{100});
  t.qa.post(fetch_add(t.src.sge(0, 8), t.dst, 0, 5).id(1));
  t.expect(1);
  t.a.sim.run_until_idle();
  EXPECT_EQ(t.src.get<std::uint64_t>(0), 100U);
  EXPECT_EQ(t.dst.get<std::uint64_t>(0), 105U);
}

// The late duplicate of the WRITE does not overwrite what the peer has stored since.
void write_with_ghost(Bench& t) {
  write_of(t, 64);
  t.dst.put(0, std::uint64_t{0x5555});
  t.a.sim.run_until_idle();
  EXPECT_EQ(t.dst.get<std::uint64_t>(0), 0x5555U);
}

void fail_first(Bench& t, bool sends, std::uint8_t status) {
  for (std::uint64_t id = 1; id <= 4; ++id) {
    SendWr wr = sends ? send({t.src.sge(0, 64)}) : write({t.src.sge(0, 64)}, t.dst);
    wr.wr_id = id;
    t.qa.post(wr, id == 4);
  }
  t.expect(1, status);
  for (std::uint64_t id = 2; id <= 4; ++id) t.expect(id, TERN_CQE_WR_FLUSH_ERR);
}
void writes_fail(Bench& t) { fail_first(t, false, TERN_CQE_RETRY_EXC_ERR); }
void sends_fail(Bench& t) { fail_first(t, true, TERN_CQE_RNR_RETRY_EXC_ERR); }

// Three messages of three packets. The second is lost, and the third takes its receive WQE.
void second_of_three_lost(Bench& t) {
  constexpr std::uint32_t kLength = 3 * kMtu;
  for (std::uint32_t i = 0; i < 3; ++i) t.qb.post_recv({t.dst.sge(i * kLength, kLength)}, 10 + i);
  for (std::uint32_t i = 0; i < 3; ++i) {
    t.qa.post(send({t.src.sge(i * kLength, kLength)}).id(1 + i));
    t.expect(1 + i);
  }
  t.expect_recv(10, kLength);
  t.expect_recv(11, kLength);
  EXPECT_FALSE(t.qb.recv_cq().poll());
  EXPECT_TRUE(same_bytes(t.dst.bytes(0, kLength), t.src.bytes(0, kLength)));
  EXPECT_TRUE(same_bytes(t.dst.bytes(kLength, kLength), t.src.bytes(2 * kLength, kLength)));
}

constexpr QpOptions kFewRetries = {.min_rnr_timer = 14, .retry_cnt = 2, .rnr_retry = 2};
constexpr QpOptions kLongRnr = {.min_rnr_timer = 0};
constexpr QpOptions kUc = {.type = TERN_QPT_UC};
constexpr QpOptions kWraps = {.sq_psn = 0xfffffc, .rq_psn = 0xfffffc};

constexpr unsigned kTimeout = TERN_CNT_LOCAL_ACK_TIMEOUT_ERR;
constexpr unsigned kGap = TERN_CNT_OUT_OF_SEQUENCE;
constexpr unsigned kNak = TERN_CNT_PACKET_SEQ_ERR;
constexpr unsigned kImplied = TERN_CNT_IMPLIED_NAK_SEQ_ERR;
constexpr unsigned kAgain = TERN_CNT_DUPLICATE_REQUEST;
constexpr unsigned kIcrc = TERN_CNT_RX_ICRC_ERRORS;
constexpr unsigned kRnr = TERN_CNT_OUT_OF_BUFFER;
constexpr unsigned kFailed = TERN_CNT_REQ_CQE_ERROR;
constexpr unsigned kFlushed = TERN_CNT_REQ_CQE_FLUSH_ERROR;

// clang-format off
const Micro kMicros[] = {
    {"nothing", "", "", long_write, {}, {}},
    {"read-response-4-lost", "drop rx opcode=read-response qp={here} nth=4", "", long_read,
     {{kImplied, 6}}, {{kAgain, 1}}},
    {"read-response-first-lost", "drop rx opcode=read-response-first qp={here} nth=1", "",
     long_read, {{kImplied, 9}}, {{kAgain, 1}}},
    {"read-response-last-lost", "", "drop tx opcode=read-response-last qp={here} nth=1", long_read,
     {{kTimeout, 1}}, {{kAgain, 1}}},
    {"read-request-lost", "drop tx opcode=read-request qp={there} nth=1", "", long_read,
     {{kTimeout, 1}}, {}},
    {"ack-corrupted", "corrupt rx opcode=ack qp={here} nth=1", "", short_write,
     {{kIcrc, 1}, {kTimeout, 1}}, {{kAgain, 1}}},
    {"ack-lost", "", "drop tx opcode=ack qp={here} nth=1", short_write, {{kTimeout, 1}},
     {{kAgain, 1}}},
    {"write-middle-lost", "drop tx opcode=write-middle qp={there} nth=5", "", long_write,
     {{kNak, 1}}, {{kGap, 1}}},
    {"write-middle-corrupted", "", "corrupt=payload rx opcode=write-middle qp={there} nth=5",
     long_write, {{kNak, 1}}, {{kGap, 1}, {kIcrc, 1}}},
    {"write-last-lost", "drop tx opcode=write-last qp={there} nth=1", "", long_write,
     {{kTimeout, 1}}, {{kAgain, 9}}},
    {"send-first-lost", "drop tx opcode=send-first qp={there} nth=1", "", long_send, {{kNak, 1}},
     {{kGap, 1}}},
    {"nak-lost",
     "drop rx syndrome=nak qp={here} nth=1;drop tx opcode=write-first qp={there} nth=1", "",
     long_write, {{kTimeout, 1}}, {{kGap, 1}}},
    {"rnr-then-ready", "", "", send_before_recv, {}, {{kRnr, 1}}, kLongRnr},
    {"rnr-nak-lost", "drop rx syndrome=rnr qp={here} nth=1", "", send_before_recv, {{kTimeout, 1}},
     {{kRnr, 1}}, kLongRnr},
    {"rnr-retries-used-up", "", "", sends_fail,
     {{TERN_CNT_RNR_NAK_RETRY_ERR, 1}, {kFailed, 1}, {kFlushed, 3}}, {{kRnr, 3}}, kFewRetries},
    {"retries-used-up", "drop tx opcode=write qp={there}", "", writes_fail,
     {{kTimeout, 3}, {kFailed, 1}, {kFlushed, 3}}, {}, kFewRetries},
    {"atomic-request-doubled", "duplicate tx opcode=fetch-add qp={there}", "", add, {},
     {{kAgain, 1}}},
    {"atomic-response-lost", "drop rx opcode=atomic-ack qp={here} nth=1", "", add, {{kTimeout, 1}},
     {{kAgain, 1}}},
    {"write-comes-again-late", "duplicate tx opcode=write-only qp={there} after=1s", "",
     write_with_ghost, {}, {{kAgain, 1}}},
    {"write-delayed", "delay=50ms tx opcode=write-only qp={there}", "", short_write, {}, {}},
    {"ack-delayed-beyond-timeout", "delay=400ms rx opcode=ack qp={here} nth=1", "", short_write,
     {{kTimeout, 1}}, {{kAgain, 1}}},
    {"congestion-marked", "", "mark rx opcode=write-last qp={there}", long_write,
     {{TERN_CNT_RP_CNP_HANDLED, 1}}, {{TERN_CNT_NP_ECN_MARKED, 1}, {TERN_CNT_NP_CNP_SENT, 1}}},
    {"psn-wraps", "drop tx psn=0 opcode=write qp={there} nth=1", "", long_write, {{kNak, 1}},
     {{kGap, 1}}, kWraps},
    {"psn-wraps-in-a-read", "drop rx psn=0xffffff-0 opcode=read-response qp={here} nth=1 count=2",
     "", long_read, {{kImplied, 5}}, {{kAgain, 1}}, kWraps},
    {"uc-middle-lost", "drop tx opcode=send-middle transport=uc qp={there} nth=2", "",
     second_of_three_lost, {}, {{kGap, 1}}, kUc},
};
// clang-format on

std::string with_numbers(std::string rules, const Bench& t) {
  const auto replace = [&rules](const std::string& what, std::uint32_t number) {
    for (auto at = rules.find(what); at != std::string::npos; at = rules.find(what)) {
      rules.replace(at, what.size(), std::to_string(number));
    }
  };
  replace("{here}", t.qa.number());
  replace("{there}", t.qb.number());
  return rules;
}

class MicroTest : public ::testing::TestWithParam<std::tuple<Micro, bool>> {};

TEST_P(MicroTest, CountsAndCompletions) {
  const auto& [c, inside] = GetParam();
  Sim sim;
  TestNode a{sim};
  TestNode other{sim};
  TestNode& b = inside ? a : other;
  Bench t(a, b, c.options);
  std::string here = with_numbers(c.here, t);
  const std::string there = with_numbers(c.there, t);
  if (inside) here += ";" + there;
  std::string error;
  ASSERT_TRUE(a.device.set_faults(here, error)) << error;
  if (!inside) {
    ASSERT_TRUE(b.device.set_faults(there, error)) << error;
  }
  c.run(t);
  sim.run_until_idle();
  const auto count = [](const Moves& moves, unsigned i) {
    const auto it = moves.find(i);
    return it == moves.end() ? std::uint64_t{0} : it->second;
  };
  for (const unsigned i : kTrouble) {
    const std::uint64_t want = count(c.asks, i) + (inside ? count(c.answers, i) : 0);
    EXPECT_EQ(a.counter(i), want) << "who asks, counter " << i;
    if (!inside) {
      EXPECT_EQ(b.counter(i), count(c.answers, i)) << "who answers, counter " << i;
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Micro, bool>>& info) {
  std::string name = std::get<0>(info.param).name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name + (std::get<1>(info.param) ? "_inside" : "_across");
}

INSTANTIATE_TEST_SUITE_P(All, MicroTest,
                         ::testing::Combine(::testing::ValuesIn(kMicros), ::testing::Bool()),
                         name_of);

}  // namespace
}  // namespace tern
