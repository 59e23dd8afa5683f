// SPDX-License-Identifier: GPL-2.0-or-later
// Errors on a reliable connection and how they are reported: completions at both ends, QP states,
// asynchronous events, counters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rc_pair_test.h"
#include "wire/codec.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::uint16_t> types_of(const std::vector<tern_eqe>& events) {
  std::vector<std::uint16_t> types;
  for (const tern_eqe& e : events) types.push_back(le(e.type));
  return types;
}

class RcError : public RcPairTest {
 protected:
  RcError() : RcPairTest(1, 65536, 3) {}
  void SetUp() override { connect(); }

  void expect_state(TestQp& qp, std::uint8_t state) { EXPECT_EQ(qp.query().attr.state, state); }
  // The responder refused: both QPs are in error, and b got the event.
  void expect_refused(std::uint8_t status, std::uint16_t event) {
    expect_status(status);
    sim.run_until_idle();
    expect_state(*qa, TERN_QPS_ERR);
    expect_state(*qb, TERN_QPS_ERR);
    EXPECT_THAT(types_of(a.async_events()), IsEmpty());
    const auto events = b.async_events();
    ASSERT_THAT(types_of(events), ElementsAre(event));
    EXPECT_EQ(le(events[0].id), qb->number());
  }
  // The requester refused; the peer does not notice.
  void expect_local(std::uint8_t status) {
    expect_status(status);
    sim.run_until_idle();
    expect_state(*qa, TERN_QPS_ERR);
    expect_state(*qb, TERN_QPS_RTS);
    EXPECT_THAT(types_of(a.async_events()), IsEmpty());
    EXPECT_THAT(types_of(b.async_events()), IsEmpty());
  }
  bool untouched(const TestMr& mr) {
    return std::ranges::all_of(mr.bytes(), [](std::byte x) { return x == std::byte{0}; });
  }
};

// ---- other connections ----

// The addresses of a connection may exist in another VLAN as well: who is there is not the peer.
TEST_F(RcError, TheSameAddressInAnotherVlanIsNotThePeer) {
  tern_cmd_set_gid cmd{.index = le(std::uint16_t{4}),
                       .valid = 1,
                       .net_type = TERN_NET_IPV6,
                       .vlan = le(std::uint16_t{TestNode::kVlan}),
                       .port = 1};
  std::ranges::copy(b.mac(), cmd.mac);
  std::ranges::copy(b.gid(0), cmd.gid);
  ASSERT_EQ(b.command(TERN_CMD_SET_GID, cmd), TERN_ST_OK);
  const auto inject = [&](std::uint16_t vlan) {
    Packet packet(a.host);
    packet.op = Op::kSendOnly;
    packet.dest_qp = Qpn(qb->number());
    packet.psn = Psn(qb->query().attr.rq_psn);
    packet.route.sgid = a.gid(0);
    packet.route.dgid = b.gid(0);
    packet.route.vlan = vlan;
    packet.route.smac = a.mac();
    packet.route.dmac = b.mac();
    packet.route.udp_sport = 0xc000;
    std::vector<std::byte> frame(kMaxFrameOverhead);
    frame.resize(serialize(packet, 1, frame));
    sim.inject(a, frame);
    sim.run_until_idle();
  };
  qb->post_recv({dst.sge()});
  const std::uint64_t before = b.counter(TERN_CNT_RX_QP_MISMATCH);
  inject(TestNode::kVlan);
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH) - before, 1U);
  EXPECT_FALSE(qb->recv_cq().poll());
  inject(TERN_VLAN_NONE);
  EXPECT_TRUE(qb->recv_cq().poll());
}

// ---- remote access ----

TEST_F(RcError, WriteWithUnknownKey) {
  TestMr wrong = dst;
  wrong.key ^= 1;
  qa->post(write({src.sge(0, 100)}, wrong));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
  EXPECT_TRUE(untouched(dst));
  EXPECT_EQ(b.counter(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS), 1U);
  EXPECT_EQ(a.counter(TERN_CNT_REQ_REMOTE_ACCESS_ERRORS), 1U);
}

TEST_F(RcError, ReadWithUnknownKey) {
  TestMr wrong = dst;
  wrong.key += 256;
  qa->post(read({src.sge(0, 100)}, wrong));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
}

TEST_F(RcError, AtomicWithUnknownKey) {
  TestMr wrong = dst;
  wrong.key = 0;
  qa->post(fetch_add(src.sge(0, 8), wrong, 0, 1));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
}

TEST_F(RcError, OneByteTooFar) {
  qa->post(write({src.sge(0, 4097)}, dst, dst.length - 4096));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
  EXPECT_TRUE(untouched(dst));
}

TEST_F(RcError, OneByteTooEarly) {
  TestMr early = dst;
  early.iova -= 1;
  qa->post(write({src.sge(0, 5000)}, early));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
  EXPECT_TRUE(untouched(dst));
}

TEST_F(RcError, AddressesThatWrap) {
  TestMr wrap = dst;
  wrap.iova = ~std::uint64_t{0} - 10;
  qa->post(read({src.sge(0, 5000)}, wrap));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
}

TEST_F(RcError, RegionOfAnotherDomain) {
  TestMr& foreign = b.reg(4096, {.pd = b.alloc_pd()});
  qa->post(write({src.sge(0, 100)}, foreign));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
}

struct Right {
  std::uint8_t opcode;
  std::uint32_t without;
};
class RcRights : public RcError, public ::testing::WithParamInterface<Right> {
 protected:
  SendWr request(const TestMr& to) {
    switch (GetParam().opcode) {
      case TERN_WR_RDMA_WRITE:
        return write({src.sge(0, 64)}, to);
      case TERN_WR_RDMA_READ:
        return read({src.sge(0, 64)}, to);
      case TERN_WR_ATOMIC_FETCH_AND_ADD:
        return fetch_add(src.sge(0, 8), to, 0, 1);
      default:
        return compare_swap(src.sge(0, 8), to, 0, 0, 1);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(
    Each, RcRights,
    ::testing::Values(Right{TERN_WR_RDMA_WRITE, TERN_ACCESS_REMOTE_WRITE},
                      Right{TERN_WR_RDMA_READ, TERN_ACCESS_REMOTE_READ},
                      Right{TERN_WR_ATOMIC_FETCH_AND_ADD, TERN_ACCESS_REMOTE_ATOMIC},
                      Right{TERN_WR_ATOMIC_CMP_AND_SWP, TERN_ACCESS_REMOTE_ATOMIC}));

TEST_P(RcRights, RegionMustGrantIt) {
  TestMr& mr = b.reg(4096, {.access = kAllAccess & ~GetParam().without});
  qa->post(request(mr));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
  EXPECT_TRUE(untouched(mr));
}

TEST_P(RcRights, QueuePairMustGrantIt) {
  connect({.access = kAllAccess & ~GetParam().without});
  qa->post(request(dst));
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  EXPECT_TRUE(untouched(dst));
  EXPECT_EQ(a.counter(TERN_CNT_REQ_REMOTE_INVALID_REQUEST), 1U);
}

TEST_F(RcError, UnalignedAtomic) {
  qa->post(fetch_add(src.sge(0, 8), dst, 4, 1));
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
}

TEST_F(RcError, MemoryBehindTheRegionIsGone) {
  b.host.punch(dst.dma + 8192, 4096);
  qa->post(write({src.sge(0, 20000)}, dst));
  expect_status(TERN_CQE_REM_OP_ERR);
  EXPECT_GE(b.counter(TERN_CNT_DMA_ERRORS), 1U);
  b.host.restore(dst.dma + 8192);
}

// Behind an IOMMU: memory that the device can write but not read yields no old value.
TEST_F(RcError, AtomicNeedsToReadItsTarget) {
  b.host.write_only = dst.dma;
  qa->post(write({src.sge(0, 8)}, dst, 0));
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  const std::uint64_t before = b.host.get<std::uint64_t>(dst.dma);
  qa->post(fetch_add(src.sge(0, 8), dst, 0, 1));
  expect_refused(TERN_CQE_REM_OP_ERR, TERN_EV_QP_FATAL);
  EXPECT_EQ(b.counter(TERN_CNT_DMA_ERRORS), 1U);
  EXPECT_EQ(b.host.get<std::uint64_t>(dst.dma), before);
}

TEST_F(RcError, RegionGoesAwayDuringARead) {
  sim.budget = 4096;
  sim.turn_time = 1000;
  TestMr& big = b.reg(1 << 20);
  TestMr& into = a.reg(1 << 20);
  qa->post(read({into.sge()}, big));
  sim.run_for(30'000);
  b.dereg(big);
  expect_status(TERN_CQE_REM_ACCESS_ERR);
  sim.run_until_idle();
  expect_state(*qb, TERN_QPS_ERR);
}

TEST_F(RcError, MoreReadsThanGranted) {
  // b grants one, a assumes sixteen.
  TestQp& x = a.create_qp({.max_rd_atomic = 16});
  TestQp& y = b.create_qp({.max_dest_rd_atomic = 1});
  x.connect(y);
  y.connect(x);
  sim.budget = 4096;
  sim.turn_time = 1000;
  for (int i = 0; i < 8; ++i) x.post(read({src.sge(0, 30000)}, dst));
  std::vector<std::uint8_t> seen;
  for (int i = 0; i < 8; ++i) seen.push_back(x.wait_send().status);
  // Requests that arrive while the first READ is being answered are refused; none gets a wrong
  // answer.
  EXPECT_THAT(seen, ::testing::Contains(TERN_CQE_REM_INV_REQ_ERR));
}

// ---- receives ----

TEST_F(RcError, ReceiveTooSmall) {
  qb->post_recv({dst.sge(0, 99)}, 42);
  qa->post(send({src.sge(0, 100)}));
  expect_status(TERN_CQE_REM_INV_REQ_ERR);
  const Wc wc = qb->wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_LEN_ERR);
  EXPECT_EQ(le(wc.wr_id), 42U);
  EXPECT_EQ(wc.flags & TERN_CQE_F_RECV, TERN_CQE_F_RECV);
  sim.run_until_idle();
  expect_state(*qa, TERN_QPS_ERR);
  expect_state(*qb, TERN_QPS_ERR);
  EXPECT_EQ(b.counter(TERN_CNT_RESP_LOCAL_LENGTH_ERROR), 1U);
}

TEST_F(RcError, ReceiveTooSmallForTheThirdPacket) {
  qb->post_recv({dst.sge(0, 2048)}, 42);
  qa->post(send({src.sge(0, 2049)}));
  expect_status(TERN_CQE_REM_INV_REQ_ERR);
  EXPECT_EQ(qb->wait_recv().status, TERN_CQE_LOC_LEN_ERR);
  EXPECT_TRUE(same_bytes(dst.bytes(2048, 100), std::vector<std::byte>(100)));
}

TEST_F(RcError, ReceiveIntoForeignMemory) {
  TestMr& foreign = b.reg(4096, {.pd = b.alloc_pd()});
  qb->post_recv({foreign.sge()}, 7);
  qa->post(send({src.sge(0, 100)}));
  expect_status(TERN_CQE_REM_OP_ERR);
  const Wc wc = qb->wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(le(wc.wr_id), 7U);
}

TEST_F(RcError, ReceiveIntoReadOnlyMemory) {
  TestMr& fixed = b.reg(4096, {.access = TERN_ACCESS_REMOTE_READ});
  qb->post_recv({fixed.sge()});
  qa->post(send({src.sge(0, 100)}));
  expect_status(TERN_CQE_REM_OP_ERR);
  EXPECT_EQ(qb->wait_recv().status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_TRUE(untouched(fixed));
}

TEST_F(RcError, ReceiveRingNonsense) {
  qb->store_rq_pi(65);
  qa->post(send({src.sge(0, 100)}));
  expect_refused(TERN_CQE_REM_OP_ERR, TERN_EV_QP_FATAL);
}

TEST_F(RcError, ReceiveWqeNonsense) {
  tern_rq_hdr hdr{};
  hdr.num_sge = 16;  // more than a slot of 256 bytes holds
  qb->memory().put(qb->rq_slot(0), hdr);
  qb->store_rq_pi(1);
  qa->post(send({src.sge(0, 100)}));
  expect_status(TERN_CQE_REM_OP_ERR);
  sim.run_until_idle();
  expect_state(*qb, TERN_QPS_ERR);
}

// ---- local errors of the sender ----

TEST_F(RcError, UnknownLocalKey) {
  tern_sge sge = src.sge(0, 100);
  sge.lkey += 1;
  qa->post(write({sge}, dst));
  expect_local(TERN_CQE_LOC_PROT_ERR);
}

TEST_F(RcError, LocalAddressOutside) {
  qa->post(send({src.sge(65000, 537)}));
  expect_local(TERN_CQE_LOC_PROT_ERR);
}

TEST_F(RcError, ReservedKeyNeedsAPrivilegedDomain) {
  qa->post(write({{src.dma, 100, TERN_LKEY_DMA}}, dst));
  expect_local(TERN_CQE_LOC_PROT_ERR);
  TestQp& kernel = a.create_qp({.pd = a.alloc_pd(true)});
  TestQp& peer = b.create_qp();
  kernel.connect(peer);
  peer.connect(kernel);
  kernel.post(write({{src.dma, 100, TERN_LKEY_DMA}}, dst));
  EXPECT_EQ(kernel.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 100), src.bytes(0, 100)));
}

TEST_F(RcError, ReadIntoReadOnlyMemory) {
  TestMr& fixed = a.reg(4096, {.access = TERN_ACCESS_REMOTE_READ});
  qa->post(read({fixed.sge(0, 100)}, dst));
  expect_local(TERN_CQE_LOC_PROT_ERR);
  EXPECT_TRUE(untouched(fixed));
}

TEST_F(RcError, SecondPieceOutside) {
  qa->post(write({src.sge(0, 5000), src.sge(60000, 6000)}, dst));
  expect_status(TERN_CQE_LOC_PROT_ERR);
  sim.run_until_idle();
  expect_state(*qa, TERN_QPS_ERR);
}

TEST_F(RcError, SourceMemoryIsGone) {
  a.host.punch(src.dma + 4096, 4096);
  qa->post(write({src.sge(0, 9000)}, dst));
  expect_status(TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(a.counter(TERN_CNT_DMA_ERRORS), 1U);
  a.host.restore(src.dma + 4096);
}

TEST_F(RcError, UnknownOpcodes) {
  for (const unsigned opcode : {0x0eU, 0x0fU, 0x40U, 0xffU}) {
    connect();
    qa->post(SendWr{.opcode = static_cast<std::uint8_t>(opcode), .wr_id = opcode});
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_LOC_QP_OP_ERR) << opcode;
    EXPECT_EQ(le(wc.wr_id), opcode);
    EXPECT_EQ(wc.opcode, opcode);
  }
}

TEST_F(RcError, MalformedWqes) {
  const auto refuse = [&](SendWr wr, auto change, std::uint8_t status) {
    connect();
    qa->post(wr, false);
    auto hdr = qa->memory().get<tern_sq_hdr>(0);
    change(hdr);
    qa->memory().put(0, hdr);
    qa->ring();
    expect_local(status);
  };
  const SendWr good = write({src.sge(0, 100)}, dst);
  refuse(good, [](auto& h) { h.flags |= 0x80; }, TERN_CQE_LOC_QP_OP_ERR);
  refuse(good, [](auto& h) { h.num_sge = 14; }, TERN_CQE_LOC_QP_OP_ERR);
  refuse(good, [](auto& h) { h.num_sge = 255; }, TERN_CQE_LOC_QP_OP_ERR);
  refuse(
      write_inline(src.bytes(0, 100), dst), [](auto& h) { h.length = le(209U); },
      TERN_CQE_LOC_QP_OP_ERR);
  refuse(
      write_inline(src.bytes(0, 100), dst), [](auto& h) { h.length = le(0xffffffffU); },
      TERN_CQE_LOC_QP_OP_ERR);
  refuse(
      read({src.sge(0, 10)}, dst), [](auto& h) { h.flags |= TERN_WQE_F_INLINE; },
      TERN_CQE_LOC_QP_OP_ERR);
  refuse(fetch_add(src.sge(0, 7), dst, 0, 1), [](auto&) {}, TERN_CQE_LOC_LEN_ERR);
  refuse(write({{0, 0x80000000, 0}, {0, 1, 0}}, dst), [](auto&) {}, TERN_CQE_LOC_LEN_ERR);
  refuse(write({{0, 0xffffffff, 0}, {0, 0xffffffff, 0}}, dst), [](auto&) {}, TERN_CQE_LOC_LEN_ERR);
}

TEST_F(RcError, ReadsThatWereNotNegotiated) {
  connect({.max_rd_atomic = 0});
  qa->post(read({src.sge(0, 100)}, dst));
  expect_local(TERN_CQE_LOC_QP_OP_ERR);
}

TEST_F(RcError, SendIndexJump) {
  qa->post(write({src.sge(0, 8)}, dst), false);
  qa->store_sq_pi(65);
  qa->ring();
  sim.run_until_idle();
  expect_state(*qa, TERN_QPS_ERR);
  EXPECT_THAT(types_of(a.async_events()), ElementsAre(TERN_EV_QP_FATAL));
}

TEST_F(RcError, SendIndexGoesBack) {
  for (int i = 0; i < 5; ++i) qa->post(write({src.sge(0, 8)}, dst));
  for (int i = 0; i < 5; ++i) expect_status(TERN_CQE_SUCCESS);
  qa->store_sq_pi(4);
  qa->ring();
  sim.run_until_idle();
  expect_state(*qa, TERN_QPS_ERR);
  EXPECT_THAT(types_of(a.async_events()), ElementsAre(TERN_EV_QP_FATAL));
}

TEST_F(RcError, QueueMemoryIsGone) {
  const std::uint64_t page = qa->memory().address(0);
  a.host.punch(page, 4096);
  qa->store_sq_pi(1);
  qa->ring();
  sim.run_until_idle();
  expect_state(*qa, TERN_QPS_ERR);
  EXPECT_THAT(types_of(a.async_events()), ElementsAre(TERN_EV_QP_FATAL));
  a.host.restore(page);
}

// ---- flushing ----

TEST_F(RcError, FlushesInOrderBehindTheFailure) {
  qa->post_recv({src.sge(0, 100)}, 900);
  qa->post_recv({src.sge(0, 100)}, 901);
  TestMr wrong = dst;
  wrong.key += 256;
  qa->post(write({src.sge(0, 8)}, dst).id(1).unsignaled());
  qa->post(write({src.sge(0, 8)}, wrong).id(2).unsignaled());
  for (std::uint64_t i = 3; i < 40; ++i) {
    SendWr wr = i % 2 ? write({src.sge(0, 8000)}, dst) : read({src.sge(0, 8000)}, dst);
    wr.wr_id = i;
    if (i % 3 == 0) wr.flags = 0;
    qa->post(wr);
  }
  const Wc first = qa->wait_send();
  EXPECT_EQ(first.status, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_EQ(le(first.wr_id), 2U);
  for (std::uint64_t i = 3; i < 40; ++i) {
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(le(wc.wr_id), i);
    EXPECT_EQ(le(wc.wqe_index), i - 1);
    EXPECT_EQ(wc.opcode, i % 2 ? TERN_WR_RDMA_WRITE : TERN_WR_RDMA_READ);
  }
  for (std::uint64_t i = 900; i < 902; ++i) {
    const Wc wc = qa->wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(le(wc.wr_id), i);
  }
  EXPECT_EQ(a.counter(TERN_CNT_REQ_CQE_FLUSH_ERROR), 37U);
  EXPECT_EQ(a.counter(TERN_CNT_RESP_CQE_FLUSH_ERROR), 2U);
  EXPECT_EQ(a.counter(TERN_CNT_REQ_CQE_ERROR), 1U);
}

TEST_F(RcError, WorkPostedInTheErrorStateIsFlushed) {
  EXPECT_EQ(qa->to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_EQ(qa->record_status(), TERN_QP_ST_RQ_KICK);
  EXPECT_EQ(qb->record_status(), 0U);
  qa->post(send({src.sge(0, 8)}).id(5));
  qa->post_recv({src.sge(0, 8)}, 6);
  Wc wc = qa->wait_send();
  EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(wc.wr_id), 5U);
  wc = qa->wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(wc.wr_id), 6U);
  EXPECT_EQ(wc.flags, TERN_CQE_F_RECV);
}

TEST_F(RcError, ModifyToErrorFlushesWhatIsUnderWay) {
  sim.wire.latency = 1'000'000;
  for (std::uint64_t i = 0; i < 10; ++i) qa->post(write({src.sge(0, 3000)}, dst).id(i));
  sim.run_for(1000);
  EXPECT_EQ(qa->to_state(TERN_QPS_ERR), TERN_ST_OK);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(le(wc.wr_id), i);
  }
  sim.run_until_idle();
  EXPECT_FALSE(qa->send_cq().poll());
}

TEST_F(RcError, MessageUnderWayIsFlushedAtTheReceiver) {
  qb->post_recv({dst.sge(0, 60000)}, 1);
  qb->post_recv({dst.sge(0, 60000)}, 2);
  sim.wire.bits_per_ns = 1;
  qa->post(send({src.sge(0, 60000)}));
  sim.run_for(100'000);
  EXPECT_EQ(qb->to_state(TERN_QPS_ERR), TERN_ST_OK);
  for (std::uint64_t i = 1; i < 3; ++i) {
    const Wc wc = qb->wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(le(wc.wr_id), i);
  }
  // The responder does not answer any more.
  expect_status(TERN_CQE_RETRY_EXC_ERR);
}

TEST_F(RcError, ResetForgetsEverything) {
  sim.wire.latency = 1'000'000;
  qb->post_recv({dst.sge(0, 60000)}, 1);
  for (int i = 0; i < 10; ++i) qa->post(write({src.sge(0, 3000)}, dst));
  sim.run_for(1000);
  EXPECT_EQ(qa->to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(qb->to_state(TERN_QPS_RESET), TERN_ST_OK);
  sim.run_until_idle();
  EXPECT_FALSE(qa->send_cq().poll());
  EXPECT_FALSE(qb->recv_cq().poll());
  // The same QPs work again.
  qa->forget_posted();
  qb->forget_posted();
  qa->connect(*qb);
  qb->connect(*qa);
  qb->post_recv({dst.sge()}, 8);
  qa->post(send({src.sge(0, 100)}).id(9));
  const Wc wc = qa->wait_send();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(wc.wr_id), 9U);
  EXPECT_EQ(le(qb->wait_recv().wr_id), 8U);
}

TEST_F(RcError, ErrorStateCanBeLeftByResetOnly) {
  TestMr wrong = dst;
  wrong.key += 256;
  qa->post(write({src.sge(0, 8)}, wrong));
  expect_status(TERN_CQE_REM_ACCESS_ERR);
  sim.run_until_idle();
  EXPECT_EQ(qa->to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(qb->to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(qa->record_status(), 0U);
  qa->forget_posted();
  qb->forget_posted();
  qa->connect(*qb);
  qb->connect(*qa);
  qa->post(write({src.sge(0, 8)}, dst));
  expect_status(TERN_CQE_SUCCESS);
}

TEST_F(RcError, DestroyedWithWorkUnderWay) {
  sim.wire.latency = 100'000;
  qb->post_recv({dst.sge()});
  for (int i = 0; i < 10; ++i) qa->post(read({src.sge(0, 3000)}, dst));
  sim.run_for(1000);
  a.destroy(*qa);
  sim.run_for(1'000'000);
  b.destroy(*qb);
  sim.run_until_idle();
  EXPECT_FALSE(qa->send_cq().poll());
  EXPECT_EQ(le(a.objects().qp), 0U);
}

}  // namespace
}  // namespace tern
