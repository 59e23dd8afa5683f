// SPDX-License-Identifier: GPL-2.0-or-later
// Extended reliable connections: one target with many SRQs. Which keys a request may use, where it
// completes, and which QPs an error affects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "tests/mini_driver.h"
#include "tests/pager.h"
#include "wire/codec.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Event = std::pair<std::uint16_t, std::uint32_t>;
std::vector<Event> told(TestNode& node) {
  std::vector<Event> events;
  for (const tern_eqe& e : node.async_events()) events.emplace_back(le(e.type), le(e.id));
  return events;
}

// A process at b with its own PD, CQ, SRQ and memory, in a shared XRC domain.
struct Process {
  Process(TestNode& node, std::uint32_t xrcd, SrqOptions options = {}, unsigned log_cq = 8)
      : pd(node.alloc_pd()),
        cq(node.create_cq(log_cq)),
        srq(node.create_srq((options.pd = pd, options.xrcd = xrcd, options.cq = &cq, options))),
        mr(node.reg(1 << 16, {.pd = pd})) {}
  [[nodiscard]] std::uint32_t number() const { return srq.number(); }
  void post(std::uint64_t wr_id, std::uint32_t len = 1 << 16) { srq.post({mr.sge(0, len)}, wr_id); }
  std::uint32_t pd;
  TestCq& cq;
  TestSrq& srq;
  TestMr& mr;
};

class XrcTest : public ::testing::Test {
 protected:
  Sim sim{11};
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(1 << 16);
  std::uint32_t xrcd = b.alloc_xrcd();
  Process p{b, xrcd};
  Process q{b, xrcd};
  TestQp* ini = nullptr;
  TestQp* tgt = nullptr;

  void SetUp() override {
    src.fill(21);
    std::tie(ini, tgt) = connect();
  }
  // An initiator at a (or `from`) and a target at b.
  std::pair<TestQp*, TestQp*> connect(QpOptions options = {}, TestNode* from = nullptr) {
    options.min_rnr_timer = 14;  // 1.28 ms
    options.type = TERN_QPT_XRC_INI;
    TestQp& x = (from ? *from : a).create_qp(options);
    options.type = TERN_QPT_XRC_TGT;
    options.xrcd = xrcd;
    TestQp& y = b.create_qp(options);
    x.connect(y);
    y.connect(x);
    return {&x, &y};
  }
  void slow() {
    sim.budget = 4096;
    sim.turn_time = 1000;
  }
  void expect_sent(TestQp& qp, std::uint8_t status = TERN_CQE_SUCCESS) {
    const Wc wc = qp.wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
  }
  void expect_received(Process& by, std::uint64_t wr_id, std::uint32_t bytes) {
    const Wc wc = by.cq.wait();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(le(wc.wr_id), wr_id);
    EXPECT_EQ(le(wc.qpn), tgt->number());
    EXPECT_EQ(le(wc.srqn), by.number());
    EXPECT_EQ(le(wc.byte_len), bytes);
    EXPECT_EQ(wc.flags & TERN_CQE_F_RECV, TERN_CQE_F_RECV);
  }
  // The target refused: `event`, then the last-WQE event.
  void expect_refused(std::uint8_t status, std::uint16_t event) {
    expect_sent(*ini, status);
    sim.run_until_idle();
    EXPECT_THAT(told(b), ElementsAre(Event(event, tgt->number()),
                                     Event(TERN_EV_QP_LAST_WQE, tgt->number())));
    EXPECT_EQ(tgt->query().attr.state, TERN_QPS_ERR);
    EXPECT_EQ(ini->query().attr.state, TERN_QPS_ERR);
    EXPECT_THAT(told(a), IsEmpty());
    std::tie(ini, tgt) = connect();
  }
  // A request of each kind to the memory of `mr`, for SRQ `srqn`.
  std::vector<SendWr> each_request(const TestMr& mr, std::uint32_t srqn) {
    std::vector<SendWr> all;
    for (SendWr wr :
         {send({src.sge(0, 100)}), send({src.sge(0, 3000)}), send({src.sge(0, 100)}).immediate(1),
          write({src.sge(0, 100)}, mr), write({src.sge(0, 3000)}, mr), write({}, mr),
          read({src.sge(0, 5000)}, mr), write({src.sge(0, 100)}, mr).immediate(2), read({}, mr),
          fetch_add(src.sge(0, 8), mr, 0, 1), compare_swap(src.sge(0, 8), mr, 0, 0, 1),
          atomic_write(1, mr, 0), flush(mr, 0, 8), flush_all(mr)}) {
      all.push_back(std::move(wr).to_srq(srqn));
    }
    return all;
  }
  // Decodes each frame to b, applies `change` and delivers the result.
  void forge(std::function<void(Packet&)> change) {
    sim.pass = [this, change = std::move(change)](unsigned from, std::span<const std::byte> f) {
      if (from != 0) return true;
      Packet packet(a.host);
      EXPECT_EQ(parse_route(f, packet.route), ParseResult::kOk);
      EXPECT_EQ(parse_packet(f, packet), ParseResult::kOk);
      change(packet);
      std::vector<std::byte> out(f.size() + kMaxFrameOverhead);
      out.resize(serialize(packet, 1, out));
      b.receive(out);
      b.wake();
      return false;
    };
  }
};

// ---- operations ----

TEST_F(XrcTest, EveryOpcode) {
  p.post(1);
  ini->post(send({src.sge(0, 100)}).to_srq(p.number()));
  expect_sent(*ini);
  expect_received(p, 1, 100);
  EXPECT_TRUE(same_bytes(p.mr.bytes(0, 100), src.bytes(0, 100)));

  p.post(2);
  ini->post(send({src.sge(500, 5000)}).immediate(0x11223344).to_srq(p.number()));
  expect_sent(*ini);
  const Wc wc = p.cq.wait();
  EXPECT_EQ(wc.imm, 0x11223344U);
  EXPECT_EQ(wc.opcode, TERN_RECV_SEND);
  EXPECT_TRUE(same_bytes(p.mr.bytes(0, 5000), src.bytes(500, 5000)));

  ini->post(write({src.sge(0, 7000)}, p.mr, 1000).to_srq(p.number()));
  expect_sent(*ini);
  EXPECT_TRUE(same_bytes(p.mr.bytes(1000, 7000), src.bytes(0, 7000)));

  p.srq.post({}, 3);
  ini->post(write({src.sge(9000, 6000)}, p.mr).immediate(5).to_srq(p.number()));
  expect_sent(*ini);
  expect_received(p, 3, 6000);
  EXPECT_TRUE(same_bytes(p.mr.bytes(0, 6000), src.bytes(9000, 6000)));

  ini->post(read({src.sge(20000, 9000)}, p.mr).to_srq(p.number()));
  expect_sent(*ini);
  EXPECT_TRUE(same_bytes(src.bytes(20000, 9000), p.mr.bytes(0, 9000)));

  p.mr.put(64, le(std::uint64_t{40}));
  ini->post(fetch_add(src.sge(0, 8), p.mr, 64, 2).to_srq(p.number()));
  expect_sent(*ini);
  EXPECT_EQ(le(src.get<std::uint64_t>(0)), 40U);
  ini->post(compare_swap(src.sge(0, 8), p.mr, 64, 42, 7).to_srq(p.number()));
  expect_sent(*ini);
  EXPECT_EQ(le(src.get<std::uint64_t>(0)), 42U);
  EXPECT_EQ(le(p.mr.get<std::uint64_t>(64)), 7U);

  ini->post(atomic_write(le(std::uint64_t{99}), p.mr, 64).to_srq(p.number()));
  expect_sent(*ini);
  EXPECT_EQ(le(p.mr.get<std::uint64_t>(64)), 99U);
  ini->post(flush(p.mr, 0, 72).to_srq(p.number()));
  expect_sent(*ini);
  ini->post(flush_all(p.mr).to_srq(p.number()));
  expect_sent(*ini);

  ini->post({.opcode = TERN_WR_NOP, .wr_id = 99});
  EXPECT_EQ(le(ini->wait_send().wr_id), 99U);
  EXPECT_EQ(p.srq.taken(), 3U);
  EXPECT_THAT(told(b), IsEmpty());
}

TEST_F(XrcTest, EveryRequestNamesItsSrqOnTheWire) {
  unsigned requests = 0, responses = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte> f) {
    Packet packet(a.host);
    EXPECT_EQ(parse_packet(f, packet), ParseResult::kOk);
    EXPECT_EQ(packet.transport, Transport::kXrc);
    const OpTraits& t = traits(packet.transport, packet.op);
    EXPECT_EQ(t.request, from == 0);
    EXPECT_EQ(t.xrceth, t.request);
    EXPECT_EQ(packet.dest_qp.value, (t.request ? tgt : ini)->number());
    EXPECT_EQ(packet.xrc_srq.value, t.request ? p.number() : 0U);
    ++(t.request ? requests : responses);
    return true;
  };
  for (int i = 0; i < 4; ++i) p.post(i);
  for (const SendWr& wr : each_request(p.mr, p.number())) ini->post(wr);
  for (int i = 0; i < 14; ++i) expect_sent(*ini);
  EXPECT_EQ(requests, 14U + 2 + 2);
  EXPECT_GE(responses, 5U + 1 + 2);
}

TEST_F(XrcTest, TheNumberHas24Bits) {
  p.post(1);
  ini->post(send({src.sge(0, 10)}).to_srq(p.number() | 0xab000000));
  expect_sent(*ini);
  expect_received(p, 1, 10);
}

TEST_F(XrcTest, OneTargetServesManyProcesses) {
  for (int i = 0; i < 8; ++i) {
    p.post(100 + i);
    q.post(200 + i);
  }
  for (int i = 0; i < 8; ++i) {
    ini->post(send({src.sge(0, 1000 + i)}).to_srq(p.number()));
    ini->post(send({src.sge(0, 5000 + i)}).to_srq(q.number()));
    ini->post(write({src.sge(0, 64)}, p.mr, 8000).to_srq(p.number()));
    ini->post(read({src.sge(60000, 64)}, q.mr, 8000).to_srq(q.number()));
  }
  for (int i = 0; i < 32; ++i) expect_sent(*ini);
  for (int i = 0; i < 8; ++i) {
    expect_received(p, 100 + i, 1000 + i);
    expect_received(q, 200 + i, 5000 + i);
  }
  EXPECT_FALSE(p.cq.poll());
  EXPECT_FALSE(q.cq.poll());
}

TEST_F(XrcTest, ManyTargetsShareOneSrq) {
  const auto [ini2, tgt2] = connect();
  p.post(1);
  p.post(2);
  ini2->post(send({src.sge(0, 10)}).to_srq(p.number()));
  expect_sent(*ini2);
  const Wc wc = p.cq.wait();
  EXPECT_EQ(le(wc.qpn), tgt2->number());
  EXPECT_EQ(le(wc.wr_id), 1U);
  ini->post(send({src.sge(0, 20)}).to_srq(p.number()));
  expect_sent(*ini);
  expect_received(p, 2, 20);
}

TEST_F(XrcTest, BothHalvesInOneDevice) {
  std::tie(ini, tgt) = connect({}, &b);
  TestMr& from = b.reg(8192);
  from.fill(3);
  p.post(5);
  ini->post(send({from.sge()}).to_srq(p.number()));
  expect_sent(*ini);
  expect_received(p, 5, 8192);
  EXPECT_TRUE(same_bytes(p.mr.bytes(0, 8192), from.bytes()));
  ini->post(write({from.sge()}, q.mr).to_srq(p.number()));
  expect_sent(*ini, TERN_CQE_REM_ACCESS_ERR);
}

TEST_F(XrcTest, NotReadyUntilAReceiveIsPosted) {
  EXPECT_EQ(p.srq.set_limit(0), TERN_ST_OK);
  ini->post(send({src.sge(0, 3000)}).to_srq(p.number()));
  q.post(9);  // does not help p's message
  sim.run_for(500'000);
  EXPECT_FALSE(ini->send_cq().poll());
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U);
  p.post(1);
  expect_sent(*ini);
  expect_received(p, 1, 3000);
  // The same for the last packet of a WRITE.
  ini->post(write({src.sge(0, 3000)}, p.mr).immediate(1).to_srq(p.number()));
  sim.run_for(500'000);
  EXPECT_FALSE(ini->send_cq().poll());
  p.srq.post({}, 2);
  expect_sent(*ini);
  expect_received(p, 2, 3000);
  EXPECT_EQ(q.srq.taken(), 0U);
}

TEST_F(XrcTest, LimitAndResize) {
  for (int i = 0; i < 3; ++i) p.post(i);
  EXPECT_EQ(p.srq.set_limit(3), TERN_ST_OK);
  EXPECT_THAT(told(b), IsEmpty());
  ini->post(send({src.sge(0, 10)}).to_srq(p.number()));
  expect_sent(*ini);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_LIMIT, p.number())));
  p.srq.prepare_resize(6);
  EXPECT_EQ(p.srq.resize(), TERN_ST_OK);
  for (int i = 1; i < 3; ++i) {
    ini->post(send({src.sge(0, 10)}).to_srq(p.number()));
    expect_sent(*ini);
  }
  for (int i = 0; i < 3; ++i) expect_received(p, i, 10);
}

TEST_F(XrcTest, EverythingArrivesOnceOnABadWire) {
  sim.wire.loss = 0.03;
  sim.wire.duplicate = 0.02;
  sim.wire.reorder = 0.02;
  constexpr int kRounds = 60;
  TestMr& counter = b.reg(8, {.pd = q.pd});
  TestMr& result = a.reg(8 * kRounds);
  TestMr& back = a.reg(1 << 14);
  q.mr.fill(77);
  int sent = 0;
  for (int i = 0; i < kRounds; ++i) {
    for (Process* by : {&p, &q}) {
      if (by->srq.free() > 0) by->post(i, 4096);
    }
    ini->post(send({src.sge(0, 3000)}).to_srq(p.number()));
    ini->post(fetch_add(result.sge(8 * i, 8), counter, 0, 1).to_srq(q.number()));
    ini->post(read({back.sge()}, q.mr, 1 << 14).to_srq(q.number()));
    ini->post(write({src.sge(0, 100)}, p.mr, 50000).to_srq(p.number()));
    ini->post(send({src.sge(0, 64)}).to_srq(q.number()));
    for (; sent < 5 * (i + 1); ++sent) expect_sent(*ini);
    EXPECT_EQ(p.cq.wait().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(q.cq.wait().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(result.get<std::uint64_t>(8 * i)), static_cast<unsigned>(i));
    EXPECT_TRUE(same_bytes(back.bytes(), q.mr.bytes(1 << 14, 1 << 14)));
  }
  EXPECT_EQ(le(counter.get<std::uint64_t>(0)), unsigned{kRounds});
  EXPECT_FALSE(p.cq.poll());
  EXPECT_GT(sim.stats.lost, 10U);
}

// ---- permissions ----

TEST_F(XrcTest, KeysOfAnotherProcessAreRefused) {
  for (const auto& [wr, status] :
       {std::pair{write({src.sge(0, 100)}, q.mr), TERN_CQE_REM_ACCESS_ERR},
        std::pair{write({src.sge(0, 3000)}, q.mr), TERN_CQE_REM_ACCESS_ERR},
        std::pair{read({src.sge(0, 100)}, q.mr), TERN_CQE_REM_ACCESS_ERR},
        std::pair{fetch_add(src.sge(0, 8), q.mr, 0, 1), TERN_CQE_REM_ACCESS_ERR},
        std::pair{compare_swap(src.sge(0, 8), q.mr, 0, 0, 1), TERN_CQE_REM_ACCESS_ERR},
        std::pair{atomic_write(1, q.mr, 0), TERN_CQE_REM_ACCESS_ERR},
        std::pair{flush(q.mr, 0, 8), TERN_CQE_REM_ACCESS_ERR},
        std::pair{flush_all(q.mr), TERN_CQE_REM_ACCESS_ERR}}) {
    ini->post(SendWr(wr).to_srq(p.number()));
    expect_refused(static_cast<std::uint8_t>(status), TERN_EV_QP_ACCESS_ERR);
    ini->post(SendWr(wr).to_srq(q.number()));
    expect_sent(*ini);
  }
}

TEST_F(XrcTest, ReceivesIntoTheMemoryOfAnotherProcessFail) {
  p.srq.post({q.mr.sge()}, 4);
  ini->post(send({src.sge(0, 100)}).to_srq(p.number()));
  expect_sent(*ini, TERN_CQE_REM_OP_ERR);
  const Wc wc = p.cq.wait();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(le(wc.wr_id), 4U);
  EXPECT_EQ(le(wc.qpn), tgt->number());
  EXPECT_EQ(le(wc.srqn), p.number());
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_LAST_WQE, tgt->number())));
}

TEST_F(XrcTest, AnSrqOfAnotherDomainIsRefusedBeforeAnythingElse) {
  Process foreign(b, b.alloc_xrcd());
  for (const SendWr& wr : each_request(foreign.mr, foreign.number())) {
    foreign.srq.post({foreign.mr.sge()}, 1);
    ini->post(wr);
    expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  }
  EXPECT_EQ(foreign.srq.taken(), 0U);
  EXPECT_EQ(b.counter(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS), 0U);
}

TEST_F(XrcTest, WhatIsNoXrcSrqIsRefused) {
  TestSrq& plain = b.create_srq({.pd = p.pd});
  plain.post({p.mr.sge()}, 1);
  for (const std::uint32_t srqn : {plain.number(), 0U, 12345U, 0xffffffU}) {
    ini->post(write({src.sge(0, 8)}, p.mr).to_srq(srqn));
    expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
    ini->post(send({src.sge(0, 8)}).to_srq(srqn));
    expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  }
  EXPECT_EQ(plain.taken(), 0U);
}

TEST_F(XrcTest, RightsOfTheTargetCount) {
  std::tie(ini, tgt) = connect({.access = TERN_ACCESS_REMOTE_READ});
  ini->post(write({src.sge(0, 8)}, p.mr).to_srq(p.number()));
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
}

TEST_F(XrcTest, ThePrivilegedKeyBelongsToThePrivilegedDomain) {
  TestCq& cq = b.create_cq();
  TestSrq& kernel = b.create_srq({.pd = b.alloc_pd(true), .xrcd = xrcd, .cq = &cq});
  kernel.post({{p.mr.dma, 4096, TERN_LKEY_DMA}}, 1);
  ini->post(send({src.sge(0, 100)}).to_srq(kernel.number()));
  expect_sent(*ini);
  EXPECT_EQ(cq.wait().status, TERN_CQE_SUCCESS);
  p.srq.post({{p.mr.dma, 4096, TERN_LKEY_DMA}}, 2);
  ini->post(send({src.sge(0, 100)}).to_srq(p.number()));
  expect_sent(*ini, TERN_CQE_REM_OP_ERR);
  EXPECT_EQ(p.cq.wait().status, TERN_CQE_LOC_PROT_ERR);
}

TEST_F(XrcTest, SendWithInvalidateGoesByTheSrqsDomain) {
  const std::uint32_t kernel_pd = b.alloc_pd(true);
  TestCq& cq = b.create_cq();
  TestSrq& kernel = b.create_srq({.pd = kernel_pd, .xrcd = xrcd, .cq = &cq});
  TestMr& mr = b.reg(4096, {.pd = kernel_pd});
  const auto [rc, peer] = rc_pair(b, b, {.pd = kernel_pd});
  FastMr fast = b.alloc_fast(4, kernel_pd);
  rc.post(reg_mr(fast));
  EXPECT_EQ(rc.wait_send().status, TERN_CQE_SUCCESS);
  p.post(1);
  ini->post(send_inv({src.sge(0, 8)}, fast.mr.key).to_srq(p.number()));
  expect_sent(*ini, TERN_CQE_REM_INV_REQ_ERR);
  EXPECT_EQ(p.cq.wait().status, TERN_CQE_REM_INV_REQ_ERR);
  std::tie(ini, tgt) = connect();
  constexpr std::array<std::uint8_t, 2> results{TERN_CQE_SUCCESS, TERN_CQE_REM_INV_REQ_ERR};
  for (const std::uint8_t want : results) {
    kernel.post({mr.sge()}, 2);
    ini->post(send_inv({src.sge(0, 8)}, fast.mr.key).to_srq(kernel.number()));
    expect_sent(*ini, want);
    const Wc wc = cq.wait();
    EXPECT_EQ(wc.status, want) << "its second time there is nothing to invalidate";
    if (want == TERN_CQE_SUCCESS) {
      EXPECT_EQ(le(wc.inv_rkey), fast.mr.key);
    }
  }
}

// ---- a message keeps the SRQ of its first packet ----

TEST_F(XrcTest, TheFirstPacketNamesTheSrqOfTheMessage) {
  forge([this](Packet& packet) {
    if (!traits(packet.transport, packet.op).first) packet.xrc_srq = Srqn(q.number());
  });
  p.post(1);
  q.post(2);
  ini->post(send({src.sge(0, 5000)}).to_srq(p.number()));
  expect_sent(*ini);
  expect_received(p, 1, 5000);
  EXPECT_TRUE(same_bytes(p.mr.bytes(0, 5000), src.bytes(0, 5000)));
  p.srq.post({}, 3);
  ini->post(write({src.sge(0, 5000)}, p.mr, 10000).immediate(1).to_srq(p.number()));
  expect_sent(*ini);
  expect_received(p, 3, 5000);
  EXPECT_TRUE(same_bytes(p.mr.bytes(10000, 5000), src.bytes(0, 5000)));
  EXPECT_EQ(q.srq.taken(), 0U);
  ini->post(write({src.sge(0, 5000)}, q.mr).to_srq(p.number()));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
}

// A SEND takes a WQE of p's SRQ and meets an absent page. The peer repeats it for q's SRQ: neither
// process may get what is the other's.
TEST_F(XrcTest, AMessageThatIsRepeatedKeepsItsSrq) {
  Pager pager(b);
  OnDemandMr lazy(b, 8192, p.pd);
  pager.add(lazy);
  p.srq.post({lazy.sge(0, 4096)}, 1);
  q.post(2);
  bool repeated = false;
  forge([&](Packet& packet) {
    if (repeated) packet.xrc_srq = Srqn(q.number());
  });
  ini->post(send({src.sge(0, 100)}).to_srq(p.number()));
  ASSERT_TRUE(sim.run_until([&] {
    pager.collect();
    return !pager.faults.empty();
  }));
  EXPECT_EQ(p.srq.taken(), 1U);
  repeated = true;
  ASSERT_EQ(pager.resolve(0), TERN_ST_OK);
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  const Wc wc = p.cq.wait();
  EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(wc.wr_id), 1U);
  EXPECT_EQ(le(wc.srqn), p.number());
  EXPECT_FALSE(q.cq.poll());
  EXPECT_EQ(q.srq.taken(), 0U);
  sim.pass = nullptr;
}

TEST_F(XrcTest, EveryPacketNamesAnSrqOfTheDomain) {
  Process foreign(b, b.alloc_xrcd());
  forge([&](Packet& packet) {
    if (packet.op == Op::kSendMiddle) packet.xrc_srq = Srqn(foreign.number());
  });
  p.post(1);
  ini->post(send({src.sge(0, 5000)}).to_srq(p.number()));
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  const Wc wc = p.cq.wait();
  EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(wc.wr_id), 1U);
  EXPECT_EQ(le(wc.srqn), p.number());
  sim.pass = nullptr;
}

TEST_F(XrcTest, AReadKeepsTheSrqItNamed) {
  slow();
  q.mr.fill(5);
  TestMr& into = a.reg(1 << 16);
  p.post(1, 4096);
  ini->post(read({into.sge()}, q.mr).to_srq(q.number()));
  ini->post(send({src.sge(0, 100)}).to_srq(p.number()));  // executed before the READ is answered
  ini->post(read({src.sge(1000, 1000)}, p.mr).to_srq(p.number()));
  for (int i = 0; i < 3; ++i) expect_sent(*ini);
  EXPECT_TRUE(same_bytes(into.bytes(), q.mr.bytes()));
  EXPECT_TRUE(same_bytes(src.bytes(1000, 1000), p.mr.bytes(0, 1000)));
}

TEST_F(XrcTest, ARepeatedReadKeepsItToo) {
  q.mr.fill(5);
  TestMr& into = a.reg(1 << 16);
  int lost = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte> f) {
    Packet packet(a.host);
    EXPECT_EQ(parse_packet(f, packet), ParseResult::kOk);
    return from == 0 || packet.op != Op::kReadResponseMiddle || ++lost > 3;
  };
  p.post(1, 4096);
  ini->post(read({into.sge()}, q.mr).to_srq(q.number()));
  ini->post(send({src.sge(0, 100)}).to_srq(p.number()));
  expect_sent(*ini);
  expect_sent(*ini);
  EXPECT_GT(lost, 3);
  EXPECT_TRUE(same_bytes(into.bytes(), q.mr.bytes()));
}

// ---- destroyed SRQs ----

TEST_F(XrcTest, AnSrqDestroyedUnderItsMessage) {
  slow();
  p.post(1);
  ini->post(send({src.sge()}).to_srq(p.number()));
  sim.run_until([&] { return p.srq.taken() == 1; });
  b.destroy(p.srq);
  b.destroy(p.cq);
  b.dereg(p.mr);
  b.destroy(TERN_CMD_FREE_PD, p.pd);
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
}

TEST_F(XrcTest, AnSrqDestroyedUnderAWrite) {
  // Another SRQ number in later packets does not help the message.
  int packets = 0;
  forge([&](Packet& packet) {
    if (++packets == 10) b.destroy(p.srq);
    if (packets >= 10) packet.xrc_srq = Srqn(q.number());
  });
  ini->post(write({src.sge()}, p.mr).to_srq(p.number()));
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  sim.pass = nullptr;
  // The data written so far is there; the rest is not.
  EXPECT_TRUE(same_bytes(p.mr.bytes(0, 9 * 1024), src.bytes(0, 9 * 1024)));
  EXPECT_EQ(p.mr.get<std::uint64_t>(9 * 1024), 0U);
}

TEST_F(XrcTest, AnSrqDestroyedUnderARead) {
  slow();
  TestMr& into = a.reg(1 << 16);
  int answers = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte>) { return answers += from == 1, true; };
  ini->post(read({into.sge()}, p.mr).to_srq(p.number()));
  sim.run_until([&] { return answers >= 5; });
  EXPECT_LT(answers, 64);
  const std::uint32_t number = p.number();
  b.destroy(p.srq);
  // A new SRQ gets the same number, domain and PD. The READ does not belong to it.
  tern_cmd_create_srq cmd{};
  const QueueMemory memory(b, 4096);
  cmd.pages = memory.pages();
  cmd.record = le(b.host.alloc(128, 128));
  cmd.pdn = le(p.pd);
  cmd.xrcdn = le(xrcd);
  cmd.cqn = le(p.cq.number());
  cmd.log_size = 3;
  cmd.log_stride = 7;
  cmd.flags = TERN_SRQ_F_XRC;
  tern_rsp_object rsp{};
  for (unsigned i = 0; i < 20000 && le(rsp.id) != number; ++i) {
    ASSERT_EQ(b.command(TERN_CMD_CREATE_SRQ, cmd, &rsp), TERN_ST_OK);
  }
  ASSERT_EQ(le(rsp.id), number);
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
}

TEST_F(XrcTest, DestroyedTargetLosesItsMessage) {
  const auto before = b.objects();
  slow();
  p.post(1);
  ini->post(send({src.sge()}).to_srq(p.number()));
  sim.run_until([&] { return p.srq.taken() == 1; });
  b.destroy(*tgt);
  EXPECT_EQ(b.objects().qp, before.qp - 1);
  sim.run_for(1'000'000);
  EXPECT_FALSE(p.cq.poll());
  EXPECT_THAT(told(b), IsEmpty());
}

// ---- errors ----

TEST_F(XrcTest, FlushOfBothHalves) {
  slow();
  p.post(1);
  ini->post(send({src.sge()}).id(7).to_srq(p.number()));
  ini->post(write({src.sge(0, 8)}, p.mr).id(8).to_srq(p.number()));
  sim.run_until([&] { return p.srq.taken() == 1; });
  EXPECT_EQ(tgt->to_state(TERN_QPS_ERR), TERN_ST_OK);
  const auto wc = p.cq.poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(wc->wr_id), 1U);
  EXPECT_EQ(le(wc->qpn), tgt->number());
  EXPECT_EQ(le(wc->srqn), p.number());
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_LAST_WQE, tgt->number())));
  EXPECT_EQ(ini->to_state(TERN_QPS_ERR), TERN_ST_OK);
  for (const std::uint64_t id : {7U, 8U}) {
    const Wc flushed = ini->wait_send();
    EXPECT_EQ(flushed.status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(le(flushed.wr_id), id);
  }
  EXPECT_THAT(told(a), IsEmpty()) << "an initiator takes no receive WQEs";
}

TEST_F(XrcTest, ATargetIsUsedAgainAfterReset) {
  ini->post(write({src.sge(0, 8)}, q.mr).to_srq(p.number()));
  expect_sent(*ini, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_EQ(tgt->to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(ini->to_state(TERN_QPS_RESET), TERN_ST_OK);
  ini->forget_posted();
  ini->connect(*tgt);
  tgt->connect(*ini);
  p.post(3);
  ini->post(send({src.sge(0, 50)}).to_srq(p.number()));
  expect_sent(*ini);
  expect_received(p, 3, 50);
}

TEST_F(XrcTest, ATargetHasNoRecordToStoreTo) {
  b.host.add_ram(0, FakeHost::kPage);  // where a record of address 0 would be
  const std::vector<std::byte> before(FakeHost::kPage, std::byte{0xee});
  std::ranges::copy(before, b.host.at(0, FakeHost::kPage));
  for (const int state : {TERN_QPS_ERR, TERN_QPS_RESET, TERN_QPS_ERR}) {
    EXPECT_EQ(tgt->to_state(static_cast<std::uint8_t>(state)), TERN_ST_OK);
  }
  (void)connect();
  EXPECT_EQ(std::memcmp(b.host.at(0, FakeHost::kPage), before.data(), before.size()), 0);
  sim.run_until_idle();
  (void)told(b);
}

TEST_F(XrcTest, ASpoiledSrqTakesOnlyThoseThatNeedIt) {
  const auto [ini2, tgt2] = connect();
  p.post(1);
  p.srq.store_pi(100);
  ini->post(send({src.sge(0, 10)}).to_srq(p.number()));
  expect_sent(*ini, TERN_CQE_REM_OP_ERR);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_ERR, p.number()),
                                   Event(TERN_EV_QP_FATAL, tgt->number()),
                                   Event(TERN_EV_QP_LAST_WQE, tgt->number())));
  q.post(1);
  ini2->post(send({src.sge(0, 10)}).to_srq(q.number()));
  expect_sent(*ini2);
  ini2->post(write({src.sge(0, 10)}, p.mr).to_srq(p.number()));
  expect_sent(*ini2);
  ini2->post(send({src.sge(0, 10)}).to_srq(p.number()));
  expect_sent(*ini2, TERN_CQE_REM_OP_ERR);
}

TEST_F(XrcTest, ADeadCqTakesItsSrqsAndWhoIsReceivingFromThem) {
  Process small(b, xrcd, {}, 1);  // two completions
  const auto [ini2, tgt2] = connect();
  const auto [ini3, tgt3] = connect();
  slow();
  for (int i = 0; i < 4; ++i) small.post(i);
  for (int i = 0; i < 2; ++i) {
    ini->post(send({src.sge(0, 10)}).to_srq(small.number()));
    expect_sent(*ini);
  }
  // tgt2 is in the middle of a message when tgt's completion overflows the CQ.
  ini2->post(send({src.sge()}).to_srq(small.number()));
  sim.run_until([&] { return small.srq.taken() == 3; });
  ini->post(send({src.sge(0, 10)}).to_srq(small.number()));
  sim.run_until([&] { return tgt->query().attr.state == TERN_QPS_ERR; });
  const auto events = told(b);
  EXPECT_THAT(
      events,
      ElementsAre(Event(TERN_EV_CQ_ERR, small.cq.number()), Event(TERN_EV_SRQ_ERR, small.number()),
                  Event(TERN_EV_QP_FATAL, tgt->number()), Event(TERN_EV_QP_LAST_WQE, tgt->number()),
                  Event(TERN_EV_QP_FATAL, tgt2->number()),
                  Event(TERN_EV_QP_LAST_WQE, tgt2->number())));
  EXPECT_EQ(tgt2->query().attr.state, TERN_QPS_ERR);
  // tgt3 is not affected until it needs a WQE.
  q.post(1);
  ini3->post(send({src.sge(0, 10)}).to_srq(q.number()));
  expect_sent(*ini3);
  ini3->post(write({src.sge(0, 10)}, small.mr).to_srq(small.number()));
  expect_sent(*ini3);
  ini3->post(send({src.sge(0, 10)}).to_srq(small.number()));
  expect_sent(*ini3, TERN_CQE_REM_OP_ERR);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_FATAL, tgt3->number()),
                                   Event(TERN_EV_QP_LAST_WQE, tgt3->number())));
  // No SRQ can be created on a failed CQ.
  TestSrq late(b, {.xrcd = xrcd, .cq = &small.cq});
  EXPECT_EQ(late.created(), TERN_ST_BAD_STATE);
}

// ---- initiators and targets ----

TEST_F(XrcTest, AnInitiatorTakesNoRequest) {
  QpOptions options{.type = TERN_QPT_XRC_INI};
  options.timeout = 1;
  options.retry_cnt = 1;
  TestQp& x = a.create_qp(options);
  TestQp& y = b.create_qp(options);
  x.connect(y);
  y.connect(x);
  x.post(send({src.sge(0, 8)}).to_srq(p.number()));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_RETRY_EXC_ERR);
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 2U);
  EXPECT_EQ(y.query().attr.state, TERN_QPS_RTS);
}

TEST_F(XrcTest, ATargetTakesNoResponse) {
  forge([](Packet& packet) {
    packet.op = Op::kAck;
    packet.syndrome = kSyndromeAck;
    packet.payload.clear();
  });
  ini->post(send({src.sge(0, 8)}).to_srq(p.number()));
  sim.run_for(100'000);
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 1U);
  EXPECT_EQ(tgt->query().attr.state, TERN_QPS_RTS);
  sim.pass = nullptr;
}

TEST_F(XrcTest, PacketsOfRcAreNotForXrc) {
  forge([](Packet& packet) { packet.transport = Transport::kRc; });
  p.post(1);
  ini->post(send({src.sge(0, 8)}).to_srq(p.number()));
  sim.run_for(100'000);
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 1U);
  sim.pass = nullptr;
  expect_sent(*ini);  // retransmitted after the timeout
}

TEST_F(XrcTest, TheAttributesOfEachHalf) {
  const auto refused = [](TestQp& qp, std::uint32_t mask) {
    tern_qp_attr attr{};
    attr.state = TERN_QPS_RTS;
    attr.retry_cnt = attr.rnr_retry = 1;
    attr.timeout = 14;
    return qp.modify(attr, TERN_QPA_STATE | mask);
  };
  EXPECT_EQ(refused(*ini, TERN_QPA_MIN_RNR_TIMER), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused(*ini, TERN_QPA_ACCESS), TERN_ST_OK);
  EXPECT_EQ(refused(*tgt, TERN_QPA_MIN_RNR_TIMER), TERN_ST_OK);
  EXPECT_EQ(refused(*tgt, TERN_QPA_ACCESS), TERN_ST_OK);
  EXPECT_EQ(tgt->to_state(TERN_QPS_SQD), TERN_ST_OK);
  EXPECT_EQ(ini->to_state(TERN_QPS_SQD), TERN_ST_OK);
  const auto in_sqd = [](TestQp& qp, std::uint32_t mask) {
    tern_qp_attr attr{};
    attr.state = TERN_QPS_SQD;
    return qp.modify(attr, TERN_QPA_STATE | mask);
  };
  for (const std::uint32_t mask :
       {TERN_QPA_RETRY_CNT, TERN_QPA_RNR_RETRY, TERN_QPA_MAX_RD_ATOMIC}) {
    EXPECT_EQ(in_sqd(*tgt, mask), TERN_ST_BAD_PARAM);
    EXPECT_EQ(in_sqd(*ini, mask), TERN_ST_OK);
  }
  EXPECT_EQ(in_sqd(*ini, TERN_QPA_MAX_DEST_RD_ATOMIC), TERN_ST_BAD_PARAM);
  EXPECT_EQ(in_sqd(*tgt, TERN_QPA_TIMEOUT), TERN_ST_OK);
  // The same two sets on the way from RTR to RTS.
  TestQp& x = a.create_qp({.type = TERN_QPT_XRC_INI});
  TestQp& y = b.create_qp({.xrcd = xrcd, .type = TERN_QPT_XRC_TGT});
  EXPECT_EQ(x.to_init(), TERN_ST_OK);
  EXPECT_EQ(y.to_init(), TERN_ST_OK);
  EXPECT_EQ(x.to_rtr(y), TERN_ST_OK);
  EXPECT_EQ(y.to_rtr(x), TERN_ST_OK);
  constexpr std::uint32_t both = TERN_QPA_TIMEOUT | TERN_QPA_SQ_PSN;
  constexpr std::uint32_t sender = TERN_QPA_RETRY_CNT | TERN_QPA_RNR_RETRY | TERN_QPA_MAX_RD_ATOMIC;
  EXPECT_EQ(refused(x, both), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused(y, both | sender), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused(x, both | sender), TERN_ST_OK);
  EXPECT_EQ(refused(y, both), TERN_ST_OK);
}

TEST_F(XrcTest, WhatAQueryTells) {
  p.post(1);
  ini->post(send({src.sge(0, 3000)}).to_srq(p.number()));
  expect_sent(*ini);
  const tern_rsp_query_qp i = ini->query();
  EXPECT_EQ(le(i.attr.sq_psn), 0xfffff3U);
  EXPECT_EQ(le(i.sq_ci), 1U);
  EXPECT_EQ(le(i.rq_ci), 0U);
  const tern_rsp_query_qp t = tgt->query();
  EXPECT_EQ(le(t.attr.rq_psn), 0xfffff3U);
  EXPECT_EQ(le(t.attr.sq_psn), 0xfffff0U) << "as set";
  EXPECT_EQ(le(t.attr.dest_qpn), ini->number());
  EXPECT_EQ(t.attr.max_dest_rd_atomic, 16U);
  EXPECT_EQ(le(t.sq_ci) | le(t.rq_ci), 0U);
}

TEST_F(XrcTest, ATargetHasNothingToDrain) {
  EXPECT_EQ(tgt->to_state(TERN_QPS_SQD, TERN_QPM_SQD_NOTIFY), TERN_ST_OK);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SQ_DRAINED, tgt->number())));
  EXPECT_EQ(tgt->query().attr.sq_draining, 0U);
  p.post(1);
  ini->post(send({src.sge(0, 10)}).to_srq(p.number()));
  expect_sent(*ini);
  // Doorbells have no effect on a target, which has no UAR page. The kernel's page may ring it.
  b.doorbell(TERN_UAR_KERNEL, TERN_DB_CMD_SQ, tgt->number());
  b.doorbell(TERN_UAR_KERNEL, TERN_DB_CMD_RQ, tgt->number());
  EXPECT_EQ(tgt->to_state(TERN_QPS_ERR), TERN_ST_OK);
  b.doorbell(TERN_UAR_KERNEL, TERN_DB_CMD_RQ, tgt->number());
  b.doorbell(b.uar(), TERN_DB_CMD_SQ, tgt->number());
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_BAD_DOORBELL), 1U);
}

TEST_F(XrcTest, ConnectionIsEstablishedInRtr) {
  TestQp& x = a.create_qp({.type = TERN_QPT_XRC_INI});
  TestQp& y = b.create_qp({.xrcd = xrcd, .type = TERN_QPT_XRC_TGT});
  x.connect(y);
  EXPECT_EQ(y.to_init(), TERN_ST_OK);
  EXPECT_EQ(y.to_rtr(x), TERN_ST_OK);
  x.post(write({src.sge(0, 8)}, p.mr).to_srq(p.number()));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_COMM_EST, y.number())));
}

TEST_F(XrcTest, ResetOfTheDeviceEndsAllOfIt) {
  slow();
  p.post(1);
  ini->post(send({src.sge()}).to_srq(p.number()));
  sim.run_until([&] { return p.srq.taken() == 1; });
  b.device.reg_write(TERN_REG_CTRL, TERN_CTRL_RESET);
  b.start_admin_queue();
  const tern_rsp_objects none = b.objects();
  EXPECT_EQ(none.xrcd | none.srq | none.qp | none.cq | none.pd, 0U);
  EXPECT_EQ(none.page_entries, 0U);
}

// A saved state may name any SRQ. One without a domain has no CQ.
TEST_F(XrcTest, AMessageOfASavedStateIsForAnSrqOfTheDomain) {
  TestSrq& plain = b.create_srq();
  slow();
  p.post(1);
  ini->post(send({src.sge(0, 60000)}).to_srq(p.number()));
  ASSERT_TRUE(sim.run_until([&] { return p.srq.taken() == 1; }));
  sim.pass = [](unsigned, std::span<const std::byte>) { return false; };
  while (!b.device.datapath.effects->empty()) ASSERT_TRUE(sim.step());
  std::vector<std::byte> state;
  std::string error;
  ASSERT_TRUE(b.device.save(state, error)) << error;
  // The SRQ of the message, and whose keys it uses.
  const auto bytes_of = [&](const TestSrq& srq) {
    const SrqRef ref = b.device.registry.srqs.find(srq.number())->ref();
    std::vector<std::byte> bytes;
    const auto put = [&](const auto& value) {
      const auto more = std::as_bytes(std::span(&value, 1));
      bytes.insert(bytes.end(), more.begin(), more.end());
    };
    put(ref.number);
    put(ref.serial);
    put(p.pd);
    put(false);
    put(tgt->number());
    return bytes;
  };
  const auto found = std::ranges::search(state, bytes_of(p.srq));
  ASSERT_FALSE(found.empty());
  std::ranges::copy(bytes_of(plain), found.begin());
  ASSERT_TRUE(b.device.load(state, error)) << error;
  EXPECT_EQ(tgt->to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_FALSE(p.cq.poll());
}

}  // namespace
}  // namespace tern
