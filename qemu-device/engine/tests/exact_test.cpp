// SPDX-License-Identifier: GPL-2.0-or-later
// Exact behaviour of requester and responder, for RC and XRC: every code of both timers, every
// retry count, coalesced acknowledgements, repeated requests, peers with another path MTU, and a
// port that goes down and up. Then the parts that apply to UC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/mini_driver.h"
#include "wire/codec.h"

namespace tern {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Not;

// IBTA table 45, in units of 10 us.
constexpr std::array<Nanos, 32> kRnrTimer = {65536, 1,    2,    3,     4,     6,     8,     12,
                                             16,    24,   32,   48,    64,    96,    128,   192,
                                             256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                             4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

class Exact : public ::testing::TestWithParam<bool> {
 protected:
  Sim sim{7};
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(65536);
  TestMr& dst = b.reg(65536);
  TestQp* qa = nullptr;
  TestQp* qb = nullptr;
  TestSrq* srq = nullptr;
  TestCq* recv_cq = nullptr;
  std::uint32_t xrcd = 0;

  [[nodiscard]] static bool xrc() { return GetParam(); }

  void connect(QpOptions here, QpOptions there) {
    if (xrc()) {
      if (xrcd == 0) xrcd = b.alloc_xrcd();
      recv_cq = &b.create_cq(8);
      srq = &b.create_srq({.pd = b.pd(), .log_size = 6, .xrcd = xrcd, .cq = recv_cq});
      here.type = TERN_QPT_XRC_INI;
      there.type = TERN_QPT_XRC_TGT;
      there.xrcd = xrcd;
    }
    qa = &a.create_qp(here);
    qb = &b.create_qp(there);
    if (!xrc()) recv_cq = &qb->recv_cq();
    qa->connect(*qb);
    qb->connect(*qa);
    src.fill(3);
  }
  void connect(const QpOptions& options = {}) { connect(options, options); }
  void post(SendWr wr) { qa->post(xrc() ? std::move(wr).to_srq(srq->number()) : wr); }
  void post_recv(std::uint64_t wr_id) {
    if (xrc()) {
      srq->post({dst.sge()}, wr_id);
    } else {
      qb->post_recv({dst.sge()}, wr_id);
    }
  }
  void expect_sent(std::uint8_t status = TERN_CQE_SUCCESS) const {
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
  }
  void set(TestNode& node, std::string_view rules) {
    std::string error;
    ASSERT_TRUE(node.device.set_faults(rules, error)) << error;
    node.wake();
  }
  std::vector<std::uint16_t> events(TestNode& node) {
    std::vector<std::uint16_t> types;
    for (const tern_eqe& e : node.async_events()) types.push_back(le(e.type));
    return types;
  }
};
INSTANTIATE_TEST_SUITE_P(Both, Exact, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "Xrc" : "Rc"; });

// ---- timers and counts ----

TEST_P(Exact, EveryCodeOfTheRnrTimer) {
  for (std::uint8_t code = 0; code < kRnrTimer.size(); ++code) {
    connect({.min_rnr_timer = code});
    const auto before = b.counter(TERN_CNT_OUT_OF_BUFFER);
    post(send({src.sge(0, 8)}));
    sim.run_until([&] { return b.counter(TERN_CNT_OUT_OF_BUFFER) == before + 1; });
    const Nanos told = sim.now();
    sim.run_until([&] { return b.counter(TERN_CNT_OUT_OF_BUFFER) == before + 2; });
    EXPECT_GE(sim.now() - told, kRnrTimer[code] * 10'000) << unsigned{code};
    EXPECT_LE(sim.now() - told, kRnrTimer[code] * 10'000 + 100'000) << unsigned{code};
    b.destroy(*qb);
    a.destroy(*qa);
  }
}

// At least 4.096 us * 2^code, and at most the larger of four times that and 20 ms.
TEST_P(Exact, EveryCodeOfTheAckTimer) {
  for (std::uint8_t code = 1; code < 32; ++code) {
    connect({.timeout = code});
    std::vector<Nanos> sent;
    sim.pass = [&](unsigned, std::span<const std::byte>) {
      return sent.push_back(sim.now()), false;
    };
    post(write({src.sge(0, 8)}, dst));
    constexpr Nanos kDay = 86'400'000'000'000;
    ASSERT_TRUE(sim.run_until([&] { return sent.size() == 2; }, kDay));
    const Nanos least = Nanos{4096} << code;
    EXPECT_GE(sent[1] - sent[0], least) << unsigned{code};
    EXPECT_LE(sent[1] - sent[0], std::max<Nanos>(4 * least, 20'000'000)) << unsigned{code};
    a.destroy(*qa);
    b.destroy(*qb);
    sim.pass = nullptr;
  }
}

TEST_P(Exact, RetriesAreAsManyAsAgreed) {
  for (std::uint8_t retries = 0; retries <= 7; ++retries) {
    connect({.timeout = 8, .retry_cnt = retries});
    unsigned tries = 0;
    sim.pass = [&](unsigned from, std::span<const std::byte>) { return tries += from == 0, false; };
    post(write({src.sge(0, 8)}, dst).id(1));
    expect_sent(TERN_CQE_RETRY_EXC_ERR);
    EXPECT_EQ(tries, retries + 1U);
    sim.pass = nullptr;
  }
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 1U + 2 + 3 + 4 + 5 + 6 + 7 + 8);
  EXPECT_EQ(a.counter(TERN_CNT_REQ_CQE_ERROR), 8U);
}

TEST_P(Exact, RnrRetriesAreAsManyAsAgreedAndSevenIsNoNumber) {
  for (std::uint8_t retries = 0; retries < 7; ++retries) {
    connect({.rnr_retry = retries});
    const auto before = b.counter(TERN_CNT_OUT_OF_BUFFER);
    post(send({src.sge(0, 8)}));
    expect_sent(TERN_CQE_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER) - before, retries + 1U);
  }
  EXPECT_EQ(a.counter(TERN_CNT_RNR_NAK_RETRY_ERR), 7U);
  connect({.rnr_retry = 7});
  const auto before = b.counter(TERN_CNT_OUT_OF_BUFFER);
  post(send({src.sge(0, 8)}));
  sim.run_for(100'000'000);
  EXPECT_GT(b.counter(TERN_CNT_OUT_OF_BUFFER) - before, 1000U);
  EXPECT_FALSE(qa->send_cq().poll());
  post_recv(1);
  expect_sent();
}

// ---- acknowledgements ----

TEST_P(Exact, OneAcknowledgementTellsOfAllBefore) {
  connect();
  const Psn last = Psn(qa->options().sq_psn).plus(7);
  unsigned lost = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte> f) {
    Packet p(b.host);
    if (from == 0 || parse_route(f, p.route) != ParseResult::kOk) return true;
    EXPECT_EQ(parse_packet(f, p), ParseResult::kOk);
    EXPECT_EQ(p.syndrome, kSyndromeAck) << "no credits are given";
    if (p.psn == last) return true;
    ++lost;
    return false;
  };
  for (std::uint32_t i = 0; i < 8; ++i) {
    post(write({src.sge(8 * i, 8)}, dst, 8 * i).id(i));
    // Time for a separate acknowledgement of each request.
    sim.run_for(100'000);
  }
  for (std::uint32_t i = 0; i < 8; ++i) {
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.wr_id), i);
  }
  EXPECT_EQ(lost, 7U);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
  EXPECT_EQ(b.counter(TERN_CNT_DUPLICATE_REQUEST), 0U);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 64), src.bytes(0, 64)));
}

// Credits are ignored, even few or none: only RNR NAKs limit the requester.
TEST_P(Exact, CreditsAreNotHeeded) {
  connect();
  for (const char* const rules : {"corrupt=96 tx opcode=ack syndrome=ack sealed",
                                  "corrupt=96 tx opcode=ack syndrome=ack sealed; corrupt=97 tx "
                                  "opcode=ack syndrome=ack sealed; "
                                  "corrupt=98 tx opcode=ack syndrome=ack sealed; corrupt=99 tx "
                                  "opcode=ack syndrome=ack sealed; "
                                  "corrupt=100 tx opcode=ack syndrome=ack sealed"}) {
    set(b, rules);
    for (int i = 0; i < 40; ++i) post_recv(1);
    for (int i = 0; i < 40; ++i) post(send({src.sge(0, 100)}));
    for (int i = 0; i < 40; ++i) expect_sent();
  }
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 0U);
}

// ---- outstanding requests ----

TEST_P(Exact, ReadsAndAtomicsOutstandingAreAsManyAsAgreed) {
  for (const std::uint8_t most : {std::uint8_t{1}, std::uint8_t{3}}) {
    connect({.max_rd_atomic = most, .max_dest_rd_atomic = most});
    int out = 0, seen = 0;
    sim.pass = [&](unsigned from, std::span<const std::byte> f) {
      const auto op = Op{static_cast<std::uint8_t>(std::to_integer<unsigned>(f[62]) & 0x1f)};
      if (from == 0 && (op == Op::kReadRequest || op == Op::kFetchAdd))
        seen = std::max(seen, ++out);
      if (from == 1 &&
          (op == Op::kReadResponseLast || op == Op::kReadResponseOnly || op == Op::kAtomicAck))
        --out;
      return true;
    };
    sim.budget = 4096;
    sim.turn_time = 1000;
    for (std::uint32_t i = 0; i < 40; ++i) {
      post(i % 3 ? read({src.sge(1000 * i, 1000)}, dst, 1000 * i)
                 : fetch_add(src.sge(0, 8), dst, 0, 1));
    }
    for (int i = 0; i < 40; ++i) expect_sent();
    EXPECT_EQ(seen, most);
    EXPECT_EQ(out, 0);
    sim.pass = nullptr;
  }
}

TEST_P(Exact, DrainedWhenAllThatWasBegunIsAcknowledged) {
  connect();
  (void)events(a);
  sim.pass = [](unsigned from, std::span<const std::byte>) { return from == 0; };  // no answer yet
  post(write({src.sge(0, 5000)}, dst).id(1));
  sim.run_for(1'000'000);
  ASSERT_EQ(qa->to_state(TERN_QPS_SQD, TERN_QPM_SQD_NOTIFY), TERN_ST_OK);
  post(write({src.sge(5000, 5000)}, dst, 5000).id(2));
  sim.run_for(1'000'000);
  EXPECT_THAT(events(a), ::testing::IsEmpty());
  sim.pass = nullptr;
  sim.run_until_idle();
  EXPECT_THAT(events(a), ::testing::ElementsAre(TERN_EV_SQ_DRAINED));
  expect_sent();
  EXPECT_FALSE(qa->send_cq().poll());
  ASSERT_EQ(qa->to_state(TERN_QPS_RTS), TERN_ST_OK);
  expect_sent();
  EXPECT_TRUE(same_bytes(dst.bytes(0, 10000), src.bytes(0, 10000)));
}

// ---- repeated requests ----

struct Repeat {
  const char* here;  // fault rules of the requester and of the responder
  const char* there;
  int op;  // 0 write, 1 read, 2 fetch-add, 3 send
  std::uint64_t timeouts, naks, implied, duplicates;
};

TEST_P(Exact, WhatIsLostIsRepeatedAndNothingElse) {
  constexpr std::uint32_t kLong = 10 * 1024;
  constexpr std::array kRepeats = {
      Repeat{"drop tx opcode=write-middle nth=5", "", 0, 0, 1, 0, 0},
      Repeat{"drop tx opcode=send-first nth=1", "", 3, 0, 1, 0, 0},
      Repeat{"drop tx opcode=write-last nth=1", "", 0, 1, 0, 0, 9},
      Repeat{"", "drop tx opcode=ack nth=1", 0, 1, 0, 0, 10},
      Repeat{"", "drop tx opcode=read-response-first nth=1", 1, 0, 0, 9, 1},
      Repeat{"", "drop tx opcode=read-response-middle nth=4", 1, 0, 0, 5, 1},
      Repeat{"", "drop tx opcode=read-response-last nth=1", 1, 1, 0, 0, 1},
      Repeat{"drop tx opcode=read-request nth=1", "", 1, 1, 0, 0, 0},
      Repeat{"drop tx opcode=fetch-add nth=1", "", 2, 1, 0, 0, 0},
      Repeat{"", "drop tx opcode=atomic-ack nth=1", 2, 1, 0, 0, 1},
      Repeat{"duplicate=2 tx opcode=fetch-add", "", 2, 0, 0, 0, 2},
      Repeat{"duplicate tx opcode=write-first", "", 0, 0, 0, 0, 1},
  };
  for (const Repeat& r : kRepeats) {
    SCOPED_TRACE(std::string(r.here) + " | " + r.there);
    connect();
    const auto count = [&] {
      return std::array{a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR),
                        a.counter(TERN_CNT_PACKET_SEQ_ERR), a.counter(TERN_CNT_IMPLIED_NAK_SEQ_ERR),
                        b.counter(TERN_CNT_DUPLICATE_REQUEST),
                        b.counter(TERN_CNT_RX_ATOMIC_REQUESTS)};
    };
    const auto before = count();
    dst.fill(9);
    dst.put(0, std::uint64_t{100});
    set(a, r.here);
    set(b, r.there);
    if (r.op == 0) post(write({src.sge(0, kLong)}, dst));
    if (r.op == 1) post(read({src.sge(0, kLong)}, dst));
    if (r.op == 2) post(fetch_add(src.sge(0, 8), dst, 0, 5));
    if (r.op == 3) {
      post_recv(1);
      post(send({src.sge(0, kLong)}));
    }
    expect_sent();
    sim.run_until_idle();
    const auto now = count();
    const std::array want{r.timeouts, r.naks, r.implied, r.duplicates,
                          r.op == 2 ? std::uint64_t{1} : 0};
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(now[i] - before[i], want[i]) << i;
    if (r.op == 2) {
      EXPECT_EQ(src.get<std::uint64_t>(0), 100U);
      EXPECT_EQ(dst.get<std::uint64_t>(0), 105U);
    } else {
      EXPECT_TRUE(same_bytes(dst.bytes(0, kLong), src.bytes(0, kLong)));
    }
    set(a, "");
    set(b, "");
  }
}

// ---- peers with another path MTU ----

TEST_P(Exact, PeersOfAnotherPathMtuAreRefused) {
  struct Way {
    unsigned here, there;
  };
  for (const auto& [here, there] : {Way{11, 10}, Way{10, 11}, Way{12, 8}}) {
    const QpOptions ours{.log_mtu = here};
    const QpOptions theirs{.log_mtu = there};
    // A message that fits into one packet at both ends works.
    connect(ours, theirs);
    dst.fill(1);
    post(write({src.sge(0, 200)}, dst));
    expect_sent();
    EXPECT_TRUE(same_bytes(dst.bytes(0, 200), src.bytes(0, 200)));
    post(read({src.sge(0, 200)}, dst));
    expect_sent();
    // A longer one is an invalid request, and none of its bytes are stored.
    for (const bool sends : {false, true}) {
      connect(ours, theirs);
      (void)events(a);
      (void)events(b);
      post_recv(1);
      dst.fill(4);
      const std::vector<std::byte> was(dst.bytes().begin(), dst.bytes().end());
      post(sends ? send({src.sge(0, 9000)}) : write({src.sge(0, 9000)}, dst));
      expect_sent(TERN_CQE_REM_INV_REQ_ERR);
      sim.run_until_idle();
      EXPECT_THAT(events(b), Contains(TERN_EV_QP_REQ_ERR));
      EXPECT_EQ(qb->query().attr.state, TERN_QPS_ERR);
      EXPECT_TRUE(same_bytes(dst.bytes(), was));
    }
    // The responder splits the READ response by its own path MTU.
    connect(ours, theirs);
    post(read({src.sge(0, 9000)}, dst));
    expect_sent(TERN_CQE_BAD_RESP_ERR);
    EXPECT_EQ(qa->query().attr.state, TERN_QPS_ERR);
    sim.run_until_idle();
  }
}

// ---- port ----

TEST_P(Exact, APortThatComesBackInTimeIsNotNoticed) {
  for (TestNode* const node : {&a, &b}) {
    connect({.timeout = 14, .retry_cnt = 7});
    (void)events(*node);
    node->device.set_link(false);
    dst.fill(1);
    post(write({src.sge(0, 20000)}, dst));
    sim.run_for(600'000'000);
    EXPECT_FALSE(qa->send_cq().poll());
    node->device.set_link(true);
    expect_sent();
    EXPECT_TRUE(same_bytes(dst.bytes(0, 20000), src.bytes(0, 20000)));
    EXPECT_THAT(events(*node), AllOf(Not(::testing::IsEmpty()), Each(TERN_EV_PORT_CHANGE)));
    EXPECT_EQ(qa->query().attr.state, TERN_QPS_RTS);
  }
}

TEST_P(Exact, APortThatStaysDownUsesTheRetriesUp) {
  connect({.timeout = 10, .retry_cnt = 3});
  a.device.set_link(false);
  for (std::uint64_t i = 1; i <= 3; ++i) post(write({src.sge(0, 8)}, dst).id(i));
  expect_sent(TERN_CQE_RETRY_EXC_ERR);
  expect_sent(TERN_CQE_WR_FLUSH_ERR);
  expect_sent(TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 4U);
  a.device.set_link(true);
}

// ---- UC ----

class UcExact : public ::testing::Test {
 protected:
  Sim sim{8};
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(65536);
  TestMr& dst = b.reg(65536);
};

// The sender is not told; messages of one packet arrive.
TEST_F(UcExact, MessagesOfAnotherPathMtuVanish) {
  for (const bool larger : {false, true}) {
    TestQp& x = a.create_qp({.type = TERN_QPT_UC, .log_mtu = larger ? 11U : 10U});
    TestQp& y = b.create_qp({.type = TERN_QPT_UC, .log_mtu = larger ? 10U : 11U});
    x.connect(y);
    y.connect(x);
    src.fill(2);
    dst.fill(1);
    y.post_recv({dst.sge(0, 10000)}, 1);
    const std::vector<std::byte> was(dst.bytes().begin(), dst.bytes().end());
    x.post(send({src.sge(0, 9000)}));
    x.post(write({src.sge(0, 9000)}, dst));
    EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
    sim.run_until_idle();
    EXPECT_FALSE(y.recv_cq().poll());
    EXPECT_TRUE(same_bytes(dst.bytes(), was));
    x.post(send({src.sge(0, 900)}));
    EXPECT_EQ(y.wait_recv().status, TERN_CQE_SUCCESS);
    EXPECT_TRUE(same_bytes(dst.bytes(0, 900), src.bytes(0, 900)));
    EXPECT_EQ(y.query().attr.state, TERN_QPS_RTS);
  }
}

TEST_F(UcExact, WhatIsSentWhileAPortIsDownIsLost) {
  const auto [x, y] = rc_pair(a, b, {.type = TERN_QPT_UC});
  src.fill(2);
  for (TestNode* const node : {&a, &b}) {
    y.post_recv({dst.sge()}, 1);
    node->device.set_link(false);
    x.post(send({src.sge(0, 3000)}));
    EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
    sim.run_until_idle();
    EXPECT_FALSE(y.recv_cq().poll());
    node->device.set_link(true);
    dst.fill(1);
    x.post(send({src.sge(3000, 3000)}));
    EXPECT_EQ(y.wait_recv().status, TERN_CQE_SUCCESS);
    EXPECT_TRUE(same_bytes(dst.bytes(0, 3000), src.bytes(3000, 3000)));
    EXPECT_FALSE(y.recv_cq().poll());
  }
}

// A lost first, middle or last packet loses its message and no other.
TEST_F(UcExact, AnyLostPacketTakesItsMessage) {
  for (const char* const opcode : {"send-first", "send-middle", "send-last-imm", "send-only-imm"}) {
    SCOPED_TRACE(opcode);
    const auto [x, y] = rc_pair(a, b, {.type = TERN_QPT_UC});
    const std::uint32_t len = std::string(opcode) == "send-only-imm" ? 100 : 5000;
    std::string error;
    ASSERT_TRUE(a.device.set_faults(std::string("drop tx nth=1 opcode=") + opcode, error)) << error;
    for (std::uint64_t i = 1; i <= 3; ++i) y.post_recv({dst.sge()}, i);
    for (std::uint32_t i = 1; i <= 3; ++i) {
      x.post(send({src.sge(0, len)}).immediate(i));
      EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
    }
    sim.run_until_idle();
    std::vector<std::uint32_t> came;
    while (const auto wc = y.recv_cq().poll()) came.push_back(wc->imm);
    EXPECT_EQ(came, (std::vector<std::uint32_t>{2, 3}));
    ASSERT_TRUE(a.device.set_faults("", error));
  }
}

}  // namespace
}  // namespace tern
