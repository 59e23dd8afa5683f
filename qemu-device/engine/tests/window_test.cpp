// SPDX-License-Identifier: GPL-2.0-or-later
// Memory windows in use: what they allow, in which order binds execute, and what happens to windows
// when other objects are destroyed. window_rules*.cpp has what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/window_world.h"
#include "wire/packet.h"

namespace tern {
namespace {

using ::testing::Combine;
using ::testing::Values;

constexpr std::uint64_t kFirst = WindowWorld::kFirst;
constexpr std::uint64_t kBytes = WindowWorld::kBytes;

void expect(const Wc& wc, std::uint8_t opcode, std::uint8_t status = TERN_CQE_SUCCESS) {
  EXPECT_EQ(wc.opcode, opcode);
  EXPECT_EQ(wc.status, status) << status_name(wc.status);
}

bool untouched(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte x) { return x == std::byte{0}; });
}

Status destroy_mr(TestNode& node, std::uint32_t key) {
  return node.command(TERN_CMD_DESTROY_MR, tern_cmd_object{le(key), 0});
}

using Param = std::tuple<MwKind, Path>;

std::string name_of_param(const ::testing::TestParamInfo<Param>& info) {
  return std::string(name_of(std::get<0>(info.param))) + name_of(std::get<1>(info.param));
}

class WindowTest : public ::testing::TestWithParam<Param> {
 protected:
  WindowWorld w{std::get<0>(GetParam()), std::get<1>(GetParam())};
  Link& link = w.link();

  [[nodiscard]] std::vector<Op3> ops() const {
    if (w.path == Path::kUc) return {Op3::kWrite};
    return {Op3::kWrite, Op3::kRead, Op3::kAtomic};
  }
  // Unbinds or invalidates a bound window by a WQE, depending on its type.
  void end(TestMw& mw) {
    link.binder->post(w.type() == 1 ? unbind(mw) : local_inv(mw.view.key));
    EXPECT_EQ(w.wait_bind(link).status, TERN_CQE_SUCCESS);
  }
};

// ---- all types and paths that can bind ----

class WindowBound : public WindowTest {};

TEST_P(WindowBound, QueryTells) {
  TestMw mw = w.make_mw();
  tern_rsp_mr q = query_key(w.b, mw.view.key);
  EXPECT_EQ(q.type, w.type());
  EXPECT_EQ(q.state, w.type() == 1 ? TERN_KEY_ST_VALID : TERN_KEY_ST_FREE);
  EXPECT_EQ(le(q.length), 0U);
  EXPECT_EQ(le(q.mr_key), 0U);
  EXPECT_EQ(le(q.pdn), w.pd);
  w.bound(mw, w.mr, kFirst, kBytes, TERN_ACCESS_REMOTE_READ);
  q = query_key(w.b, mw.view.key);
  EXPECT_EQ(q.state, TERN_KEY_ST_VALID);
  EXPECT_EQ(le(q.iova), w.mr.iova + kFirst);
  EXPECT_EQ(le(q.length), kBytes);
  EXPECT_EQ(le(q.key), mw.view.key);
  EXPECT_EQ(le(q.access), TERN_ACCESS_REMOTE_READ);
  EXPECT_EQ(le(q.mr_key), w.mr.key);
  EXPECT_EQ(le(q.qpn), w.type() == 1 ? 0 : link.binder->number());
  EXPECT_EQ(le(query_key(w.b, w.mr.key).num_windows), 1U);
  const TestMw second = w.window(kWindowAccess | TERN_ACCESS_ZERO_BASED);
  EXPECT_EQ(le(query_key(w.b, second.view.key).iova), 0U);
  EXPECT_EQ(le(query_key(w.b, w.mr.key).num_windows), 2U);
  end(mw);
  q = query_key(w.b, mw.view.key);
  EXPECT_EQ(q.state, w.type() == 1 ? TERN_KEY_ST_VALID : TERN_KEY_ST_FREE);
  EXPECT_EQ(le(q.length), 0U);
  EXPECT_EQ(le(q.mr_key), 0U);
  EXPECT_EQ(le(q.qpn), 0U);
  EXPECT_EQ(le(query_key(w.b, w.mr.key).num_windows), 1U);
}

TEST_P(WindowBound, CountsAndDomain) {
  const tern_rsp_objects before = w.b.objects();
  const std::uint32_t pd = w.b.alloc_pd();
  const TestMw mw = w.make_mw(pd);
  EXPECT_EQ(le(w.b.objects().mw), le(before.mw) + 1);
  EXPECT_EQ(le(w.b.objects().mr), le(before.mr));
  EXPECT_EQ(w.b.command(TERN_CMD_FREE_PD, tern_cmd_object{le(pd), 0}), TERN_ST_BUSY);
  EXPECT_EQ(free_mw(w.b, mw.view.key ^ 0x55), TERN_ST_OK) << "any variant names it";
  EXPECT_EQ(free_mw(w.b, mw.view.key), TERN_ST_BAD_HANDLE);
  w.b.destroy(TERN_CMD_FREE_PD, pd);
  EXPECT_EQ(le(w.b.objects().mw), le(before.mw));
}

TEST_P(WindowBound, EndedByAWqeItLetsTheRegionGo) {
  TestMw mw = w.window();
  EXPECT_EQ(destroy_mr(w.b, w.mr.key), TERN_ST_BUSY);
  end(mw);
  EXPECT_EQ(destroy_mr(w.b, w.mr.key), TERN_ST_OK);
  EXPECT_EQ(free_mw(w.b, mw.view.key), TERN_ST_OK);
}

TEST_P(WindowBound, FreedWhileBoundItLetsTheRegionGo) {
  const TestMw mw = w.window();
  EXPECT_EQ(free_mw(w.b, mw.view.key), TERN_ST_OK);
  EXPECT_EQ(destroy_mr(w.b, w.mr.key), TERN_ST_OK);
  EXPECT_EQ(le(w.b.objects().mw), 0U);
}

TEST_P(WindowBound, UnsignaledIsSilent) {
  TestMw mw = w.make_mw();
  link.binder->post(bind(mw, w.mr, 0, 64).unsignaled());
  link.binder->post(SendWr{.opcode = TERN_WR_NOP, .wr_id = 3});
  EXPECT_EQ(le(w.wait_bind(link).wr_id), 3U);
  EXPECT_EQ(le(query_key(w.b, mw.view.key).length), 64U);
}

TEST_P(WindowBound, WaitsWhileDraining) {
  TestMw mw = w.make_mw();
  const std::uint32_t before = mw.view.key;
  EXPECT_EQ(link.binder->to_state(TERN_QPS_SQD), TERN_ST_OK);
  link.binder->post(bind(mw, w.mr, 0, 64));
  w.sim.run_until_idle();
  EXPECT_EQ(le(query_key(w.b, before).length), 0U);
  EXPECT_EQ(link.binder->to_state(TERN_QPS_RTS), TERN_ST_OK);
  expect(w.wait_bind(link), TERN_WR_BIND_MW);
}

TEST_P(WindowBound, FlushedItBindsNothing) {
  TestMw mw = w.make_mw();
  const std::uint32_t before = mw.view.key;
  EXPECT_EQ(link.binder->to_state(TERN_QPS_ERR), TERN_ST_OK);
  link.binder->post(bind(mw, w.mr, 0, 64));
  expect(w.wait_bind(link), TERN_WR_BIND_MW, TERN_CQE_WR_FLUSH_ERR);
  const tern_rsp_mr q = query_key(w.b, before);
  EXPECT_EQ(le(q.key), before);
  EXPECT_EQ(le(q.length), 0U);
}

TEST_P(WindowBound, InlineIsRefused) {
  TestMw mw = w.make_mw();
  link.binder->post(bind(mw, w.mr, 0, 64).with(TERN_WQE_F_INLINE));
  expect(w.wait_bind(link), TERN_WR_BIND_MW, TERN_CQE_LOC_QP_OP_ERR);
}

TEST_P(WindowBound, KeyIsNoLkey) {
  const TestMw mw = w.window(kWindowAccess | TERN_ACCESS_LOCAL_WRITE);
  SendWr wr = send({{mw.view.iova, 8, mw.view.key}});
  link.binder->post(wr);
  EXPECT_EQ(w.wait_bind(link).status, TERN_CQE_LOC_PROT_ERR);
}

TEST_P(WindowBound, CommandsOnRegionsRefuseItsKey) {
  const TestMw mw = w.window();
  EXPECT_EQ(destroy_mr(w.b, mw.view.key), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(free_mw(w.b, w.mr.key), TERN_ST_BAD_HANDLE);
  tern_cmd_update_pages update{.key = le(mw.view.key),
                               .flags = le(std::uint32_t{TERN_UPDATE_CLOSE})};
  EXPECT_EQ(w.b.command(TERN_CMD_UPDATE_PAGES, update), TERN_ST_BAD_HANDLE);
  tern_cmd_rereg_mr rereg{.key = le(mw.view.key), .mask = le(std::uint32_t{TERN_REREG_ACCESS})};
  EXPECT_EQ(w.b.command(TERN_CMD_REREG_MR, rereg), TERN_ST_BAD_HANDLE);
}

TEST_P(WindowBound, DeviceResetEndsAll) {
  (void)w.window();
  (void)w.make_mw();
  w.b.device.reset();
  EXPECT_EQ(w.b.device.registry.memory.counts().mw, 0U);
  EXPECT_EQ(w.b.device.registry.memory.counts().mr, 0U);
  EXPECT_FALSE(w.b.device.registry.memory.names(Qpn(link.binder->number())));
}

// A window can be bound after a refused bind: UC recovers from SQE.
TEST_P(WindowBound, RefusedThenBound) {
  TestMw mw = w.make_mw();
  TestMw bad = mw;
  link.binder->post(bind(bad, w.mr, 0, WindowWorld::kLength + 1));
  expect(w.wait_bind(link), TERN_WR_BIND_MW, TERN_CQE_MW_BIND_ERR);
  if (w.path != Path::kUc) return;
  EXPECT_EQ(link.binder->to_state(TERN_QPS_RTS), TERN_ST_OK);
  w.bound(mw, w.mr);
  EXPECT_EQ(le(query_key(w.b, mw.view.key).length), kBytes);
}

INSTANTIATE_TEST_SUITE_P(All, WindowBound,
                         Combine(Values(MwKind::kType1, MwKind::kType2A, MwKind::kType2B),
                                 Values(Path::kRc, Path::kUc, Path::kXrc)),
                         name_of_param);

// ---- all types and paths that can access ----

class WindowAccess : public WindowTest {};

TEST_P(WindowAccess, ToTheByteByAddress) {
  const TestMw mw = w.window();
  for (const Op3 op : ops()) {
    const bool atomic = op == Op3::kAtomic;
    EXPECT_EQ(w.works(link, op, mw.view, atomic ? 4 : 0, kBytes), "") << name_of(op);
    EXPECT_EQ(w.works(link, op, mw.view, atomic ? 4 : 0, 1), "") << name_of(op);
    EXPECT_EQ(w.works(link, op, mw.view, kBytes - (atomic ? 15 : 1), 1), "") << name_of(op);
  }
}

TEST_P(WindowAccess, ToTheByteFromZero) {
  const TestMw mw = w.window(kWindowAccess | TERN_ACCESS_ZERO_BASED);
  for (const Op3 op : ops()) {
    const bool atomic = op == Op3::kAtomic;
    EXPECT_EQ(w.works(link, op, mw.view, 0, kBytes), "") << name_of(op);
    EXPECT_EQ(w.works(link, op, mw.view, 0, 1), "") << name_of(op);
    EXPECT_EQ(w.works(link, op, mw.view, kBytes - (atomic ? 11 : 1), 1), "") << name_of(op);
  }
}

TEST_P(WindowAccess, AllOfARegionAndOneByteOfIt) {
  TestMw all = w.make_mw();
  w.bound(all, w.mr, 0, WindowWorld::kLength);
  TestMw last = w.make_mw();
  w.bound(last, w.mr, WindowWorld::kLength - 1, 1);
  EXPECT_EQ(w.works(link, Op3::kWrite, all.view, 0, WindowWorld::kLength), "");
  EXPECT_EQ(w.works(link, Op3::kWrite, last.view, 0, 1), "");
}

TEST_P(WindowAccess, UpToTheLastAddressThereIs) {
  const std::uint64_t length = 2 * 4096;
  TestMr& high = w.b.reg(length, {.pd = w.pd, .access = kBindable, .iova = 0 - length});
  TestMw mw = w.make_mw();
  w.bound(mw, high, length - 100, 100);
  link.peer->post(write({w.src.sge(0, 100)}, mw.view).to_srq(link.srq ? link.srq->number() : 0));
  expect(link.peer->wait_send(), TERN_WR_RDMA_WRITE);
  w.sim.run_until_idle();
  EXPECT_TRUE(same_bytes(high.bytes(length - 100, 100), w.src.bytes(0, 100)));
  EXPECT_TRUE(untouched(high.bytes(0, length - 100)));
}

TEST_P(WindowAccess, ZeroBasedRegion) {
  const TestMr zero = reg_zero_based(w.b, 4096, w.pd);
  for (const std::uint32_t more : {0U, std::uint32_t{TERN_ACCESS_ZERO_BASED}}) {
    TestMw mw = w.make_mw();
    w.bound(mw, zero, 1000, 100, kWindowAccess | more);
    EXPECT_EQ(mw.view.iova, more ? 0U : 1000U);
    link.peer->post(write({w.src.sge(0, 100)}, mw.view).to_srq(link.srq ? link.srq->number() : 0));
    expect(link.peer->wait_send(), TERN_WR_RDMA_WRITE);
    w.sim.run_until_idle();
    EXPECT_TRUE(same_bytes(zero.bytes(1000, 100), w.src.bytes(0, 100)));
    EXPECT_TRUE(untouched(zero.bytes(0, 1000)));
    EXPECT_TRUE(untouched(zero.bytes(1100, 4096 - 1100)));
  }
}

TEST_P(WindowAccess, DeviceMemory) {
  const TestDm dm = w.b.alloc_dm(8192);
  const TestMr& mr = w.b.reg_dm(dm, 1000, 5000, kBindable, w.pd);
  TestMw mw = w.make_mw();
  w.bound(mw, mr, 100, 4000);
  const auto bytes = w.b.device.registry.config.dm.subspan(dm.offset, dm.size);
  link.peer->post(write({w.src.sge(0, 4000)}, mw.view).to_srq(link.srq ? link.srq->number() : 0));
  expect(link.peer->wait_send(), TERN_WR_RDMA_WRITE);
  w.sim.run_until_idle();
  EXPECT_TRUE(same_bytes(bytes.subspan(1100, 4000), w.src.bytes(0, 4000)));
  EXPECT_TRUE(untouched(bytes.subspan(0, 1100)));
  EXPECT_TRUE(untouched(bytes.subspan(5100)));
  EXPECT_EQ(w.b.command(TERN_CMD_DESTROY_MR, tern_cmd_object{le(mr.key), 0}), TERN_ST_BUSY);
  EXPECT_EQ(w.refused(link, w.access(Op3::kWrite, mw.view, 3999, 2)), "");
  EXPECT_TRUE(untouched(bytes.subspan(5100)));
}

TEST_P(WindowAccess, RebindingMovesIt) {
  TestMw mw = w.window();
  if (w.type() == 2) end(mw);
  w.bound(mw, w.mr, 0, 200, TERN_ACCESS_REMOTE_WRITE);
  EXPECT_EQ(w.works(link, Op3::kWrite, mw.view, 0, 200), "");
  EXPECT_EQ(w.refused(link, w.access(Op3::kWrite, mw.view, 200, 1)), "");
}

TEST_P(WindowAccess, ClosedRegionAnswersNobody) {
  const TestMw mw = w.window();
  const auto update = [&](std::uint32_t flags) {
    tern_cmd_update_pages cmd{.key = le(w.mr.key), .flags = le(flags)};
    EXPECT_EQ(w.b.command(TERN_CMD_UPDATE_PAGES, cmd), TERN_ST_OK);
  };
  update(TERN_UPDATE_CLOSE);
  EXPECT_EQ(w.refused(w.link(), w.access(Op3::kWrite, mw.view, 0, 8)), "");
  update(TERN_UPDATE_LAST);
  if (w.type() == 1) {
    EXPECT_EQ(w.works(w.second(), Op3::kWrite, mw.view, 0, 8), "");
  }
}

TEST_P(WindowAccess, LocalWriteComesBack) {
  const TestMw mw = w.window();
  const std::uint32_t less = TERN_ACCESS_REMOTE_READ | TERN_ACCESS_MW_BIND;
  EXPECT_EQ(w.b.rereg(w.mr, TERN_REREG_ACCESS, {.access = less}), TERN_ST_OK);
  if (w.path != Path::kUc) {
    EXPECT_EQ(w.works(link, Op3::kRead, mw.view, 0, 100), "");
  }
  EXPECT_EQ(w.b.rereg(w.mr, TERN_REREG_ACCESS, {.access = kBindable}), TERN_ST_OK);
  EXPECT_EQ(w.works(link, Op3::kWrite, mw.view, 0, 100), "");
}

// A FAST region under a window can be invalidated once the window is unbound.
TEST_P(WindowAccess, FastRegion) {
  FastMr fast = w.b.alloc_fast(2, w.pd);
  link.binder->post(reg_mr(fast, kBindable));
  expect(w.wait_bind(link), TERN_WR_REG_MR);
  TestMw mw = w.make_mw();
  w.bound(mw, fast.mr, 4000, 1000);
  link.peer->post(write({w.src.sge(0, 1000)}, mw.view).to_srq(link.srq ? link.srq->number() : 0));
  expect(link.peer->wait_send(), TERN_WR_RDMA_WRITE);
  w.sim.run_until_idle();
  EXPECT_TRUE(same_bytes(fast.mr.bytes(4000, 1000), w.src.bytes(0, 1000)));
  end(mw);
  link.binder->post(local_inv(fast.mr.key));
  expect(w.wait_bind(link), TERN_WR_LOCAL_INV);
}

// No peer can use a type 2 window over XRC.
INSTANTIATE_TEST_SUITE_P(All, WindowAccess,
                         Combine(Values(MwKind::kType1, MwKind::kType2A, MwKind::kType2B),
                                 Values(Path::kRc, Path::kUc)),
                         name_of_param);
INSTANTIATE_TEST_SUITE_P(Xrc, WindowAccess, Combine(Values(MwKind::kType1), Values(Path::kXrc)),
                         name_of_param);

// Paths on which the QP that binds also sends.
class WindowPair : public WindowTest {};

// The bind and the message that carries the new key are posted together.
TEST_P(WindowPair, SendCarriesTheNewKey) {
  link.peer->post_recv({w.src.sge(0, 4)});
  TestMw mw = w.make_mw();
  link.own->post(bind(mw, w.mr, kFirst, kBytes), false);
  const std::uint32_t key = le(mw.view.key);
  link.own->post(send_inline(std::as_bytes(std::span(&key, 1))), false);
  link.own->ring();
  EXPECT_EQ(link.peer->wait_recv().status, TERN_CQE_SUCCESS);
  mw.view.key = le(w.src.get<std::uint32_t>(0));
  EXPECT_EQ(w.works(link, Op3::kWrite, mw.view, 0, 100), "");
}

INSTANTIATE_TEST_SUITE_P(All, WindowPair,
                         Combine(Values(MwKind::kType1, MwKind::kType2A, MwKind::kType2B),
                                 Values(Path::kRc, Path::kUc)),
                         name_of_param);

// ---- order and failures, over RC ----

class WindowRc : public WindowTest {
 protected:
  TestQp& own = *link.own;
  TestMr& theirs = w.a.reg(64 * 1024);
  TestMr& ours = w.b.reg(64 * 1024, {.pd = w.pd});

  // Loses the first frame of this opcode that node `from` sends.
  void lose(unsigned from, Op op) {
    w.sim.pass = [from, op, lost = false](unsigned node, std::span<const std::byte> f) mutable {
      if (lost || node != from || f[62] != static_cast<std::byte>(op)) return true;
      return !(lost = true);
    };
  }
};

TEST_P(WindowRc, BindDoesNotWaitForAcknowledgements) {
  TestMw mw = w.make_mw();
  lose(1, Op::kWriteOnly);
  own.post(write({ours.sge(0, 8)}, theirs), false);
  own.post(bind(mw, w.mr, 0, 64), false);
  own.ring();
  w.b.pump();
  EXPECT_FALSE(own.send_cq().poll()) << "completions come in order";
  EXPECT_EQ(le(query_key(w.b, w.mr.key).num_windows), 1U);
  expect(own.wait_send(), TERN_WR_RDMA_WRITE);
  expect(own.wait_send(), TERN_WR_BIND_MW);
}

TEST_P(WindowRc, FencedBindWaitsForReads) {
  TestMw mw = w.make_mw();
  lose(0, Op::kReadResponseOnly);
  own.post(read({ours.sge(0, 8)}, theirs), false);
  own.post(bind(mw, w.mr, 0, 64).with(TERN_WQE_F_FENCE), false);
  own.ring();
  w.sim.run_for(1'000'000);
  EXPECT_EQ(le(query_key(w.b, w.mr.key).num_windows), 0U);
  expect(own.wait_send(), TERN_WR_RDMA_READ);
  expect(own.wait_send(), TERN_WR_BIND_MW);
  EXPECT_EQ(le(query_key(w.b, w.mr.key).num_windows), 1U);
}

// An executed bind cannot be undone, so it completes with success although the WQE before it
// failed.
TEST_P(WindowRc, BoundBehindARequestThatFails) {
  TestMw mw = w.make_mw();
  TestMw silent = w.make_mw();
  TestMr wrong = theirs;
  wrong.key ^= 1;
  own.post(write({ours.sge(0, 8)}, wrong).id(1), false);
  own.post(bind(mw, w.mr, 0, 64).id(2), false);
  own.post(bind(silent, w.mr, 0, 64).id(3).unsignaled(), false);
  own.post(write({ours.sge(0, 8)}, theirs).id(4), false);
  own.ring();
  expect(own.wait_send(), TERN_WR_RDMA_WRITE, TERN_CQE_REM_ACCESS_ERR);
  const Wc wc = own.wait_send();
  expect(wc, TERN_WR_BIND_MW);
  EXPECT_EQ(le(wc.wr_id), 2U);
  const Wc flushed = own.wait_send();
  expect(flushed, TERN_WR_RDMA_WRITE, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(flushed.wr_id), 4U);
  EXPECT_EQ(le(query_key(w.b, mw.view.key).length), 64U);
  EXPECT_EQ(le(query_key(w.b, silent.view.key).length), 64U);
}

TEST_P(WindowRc, RefusedBindFailsInItsTurn) {
  TestMw mw = w.make_mw();
  TestMw after = w.make_mw();
  const std::uint32_t free_key = after.view.key;
  own.post(write({ours.sge(0, 5000)}, theirs), false);
  own.post(bind(mw, w.mr, 0, WindowWorld::kLength + 1), false);
  own.post(bind(after, w.mr, 0, 64), false);
  own.ring();
  expect(own.wait_send(), TERN_WR_RDMA_WRITE);
  expect(own.wait_send(), TERN_WR_BIND_MW, TERN_CQE_MW_BIND_ERR);
  expect(own.wait_send(), TERN_WR_BIND_MW, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(query_key(w.b, free_key).length), 0U) << "begun behind a failure";
}

TEST_P(WindowRc, ReadUnderWayIsCutOff) {
  for (const bool freed : {false, true}) {
    Link over = w.connect(w.pd);
    w.mr.fill(6);
    std::ranges::fill(theirs.bytes(), std::byte{0});
    TestMw mw = w.make_mw();
    over.own->post(bind(mw, w.mr, 0, WindowWorld::kLength));
    expect(over.own->wait_send(), TERN_WR_BIND_MW);
    w.sim.budget = 1024;
    w.sim.turn_time = 100'000;
    over.peer->post(read({theirs.sge(0, WindowWorld::kLength)}, mw.view));
    w.sim.run_until([&] { return theirs.bytes()[0] != std::byte{0}; });
    const TestMw gone = mw;
    if (freed) {
      EXPECT_EQ(free_mw(w.b, mw.view.key), TERN_ST_OK);
    } else {
      over.own->post(w.type() == 1 ? unbind(mw) : local_inv(mw.view.key));
      EXPECT_EQ(over.own->wait_send().status, TERN_CQE_SUCCESS);
    }
    std::ranges::fill(w.mr.bytes(), std::byte{0xee});  // the memory has a new use now
    expect(over.peer->wait_send(), TERN_WR_RDMA_READ, TERN_CQE_REM_ACCESS_ERR);
    const auto got = theirs.bytes(0, WindowWorld::kLength);
    EXPECT_NE(got[0], std::byte{0}) << "the test cut too early";
    EXPECT_EQ(got[WindowWorld::kLength - 1], std::byte{0}) << gone.view.key;
    EXPECT_EQ(std::search_n(got.begin(), got.end(), 64, std::byte{0xee}), got.end());
  }
}

TEST_P(WindowRc, WriteUnderWayIsCutOff) {
  TestMr& big = w.b.reg(64 * 1024, {.pd = w.pd, .access = kBindable});
  TestMw mw = w.make_mw();
  w.bound(mw, big, 0, 64 * 1024);
  theirs.fill(9);
  w.sim.wire.bits_per_ns = 1;
  link.peer->post(write({theirs.sge()}, mw.view));
  w.sim.run_for(200'000);
  end(mw);
  const std::vector<std::byte> then(big.bytes().begin(), big.bytes().end());
  expect(link.peer->wait_send(), TERN_WR_RDMA_WRITE, TERN_CQE_REM_ACCESS_ERR);
  w.sim.run_until_idle();
  EXPECT_EQ(then[0], theirs.bytes()[0]) << "the test cut too early";
  EXPECT_TRUE(same_bytes(big.bytes(), then));
  EXPECT_TRUE(untouched(big.bytes(60 * 1024, 4096)));
}

INSTANTIATE_TEST_SUITE_P(All, WindowRc,
                         Combine(Values(MwKind::kType1, MwKind::kType2A, MwKind::kType2B),
                                 Values(Path::kRc)),
                         name_of_param);

// ---- type 2: invalidation by the peer, and destruction of the QP ----

class WindowType2 : public WindowTest {
 protected:
  Wc send_and_invalidate(const TestMw& mw, std::vector<tern_sge> payload = {}) {
    link.peer->post(send_inv(std::move(payload), mw.view.key));
    EXPECT_EQ(link.peer->wait_send().status, TERN_CQE_SUCCESS);
    return link.recv_cq->wait();
  }
};

TEST_P(WindowType2, PeerInvalidates) {
  TestMw mw = w.window();
  for (const std::uint32_t variant : {0x80U, 0x7fU, 0U}) {
    link.own->post_recv({w.mr.sge()}, variant);
    const Wc wc = send_and_invalidate(mw, {w.src.sge(0, 3000)});
    expect(wc, TERN_RECV_SEND);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV | TERN_CQE_F_INV);
    EXPECT_EQ(le(wc.inv_rkey), mw.view.key);
    EXPECT_EQ(le(wc.byte_len), 3000U);
    EXPECT_TRUE(same_bytes(w.mr.bytes(0, 3000), w.src.bytes(0, 3000)));
    EXPECT_EQ(query_key(w.b, mw.view.key).state, TERN_KEY_ST_FREE);
    // The consumer may choose any next variant.
    mw.view.key = with_variant(mw.view.key, variant);
    w.bound(mw, w.mr);
    EXPECT_EQ(w.works(link, Op3::kWrite, mw.view, 0, kBytes), "");
  }
}

// A bind refers to a type 2 window by its index, whatever the variant.
TEST_P(WindowType2, BoundUnderTheVariantItHadAndAnyOther) {
  TestMw mw = w.make_mw();
  for (unsigned round = 0; round < 3; ++round) {
    const std::uint32_t same = mw.view.key;
    SendWr wr = bind(mw, w.mr, kFirst, kBytes);
    wr.bind.rkey = le(with_variant(same, 7 * round));
    wr.bind.new_rkey = le(same);
    mw.view.key = same;
    link.binder->post(wr);
    expect(w.wait_bind(link), TERN_WR_BIND_MW);
    EXPECT_EQ(w.works(link, Op3::kWrite, mw.view, 0, kBytes), "");
    end(mw);
  }
}

// Invalidation needs no access right to the window.
TEST_P(WindowType2, PeerNeedsNoRightToInvalidate) {
  TestMw mw = w.make_mw();
  w.bound(mw, w.mr, 0, 64, 0);
  w.post_recv(link);
  EXPECT_EQ(send_and_invalidate(mw).status, TERN_CQE_SUCCESS);
  EXPECT_EQ(query_key(w.b, mw.view.key).state, TERN_KEY_ST_FREE);
}

TEST_P(WindowType2, StaysBoundWithoutItsQp) {
  TestMw mw = w.window();
  const std::uint32_t number = link.own->number();
  w.b.destroy(*link.own);
  tern_rsp_mr q = query_key(w.b, mw.view.key);
  EXPECT_EQ(q.state, TERN_KEY_ST_VALID);
  EXPECT_EQ(le(q.qpn), number);
  EXPECT_EQ(destroy_mr(w.b, w.mr.key), TERN_ST_BUSY);
  EXPECT_EQ(w.refused(w.second(), w.access(Op3::kWrite, mw.view, 0, 8)), "");
  EXPECT_EQ(free_mw(w.b, mw.view.key), TERN_ST_OK);
  EXPECT_EQ(destroy_mr(w.b, w.mr.key), TERN_ST_OK);
}

TEST_P(WindowType2, StaysBoundAfterReset) {
  TestMw mw = w.window();
  EXPECT_EQ(link.own->to_state(TERN_QPS_RESET), TERN_ST_OK);
  const tern_rsp_mr q = query_key(w.b, mw.view.key);
  EXPECT_EQ(q.state, TERN_KEY_ST_VALID);
  EXPECT_EQ(le(q.qpn), link.own->number());
  EXPECT_EQ(free_mw(w.b, mw.view.key), TERN_ST_OK);
  EXPECT_EQ(destroy_mr(w.b, w.mr.key), TERN_ST_OK);
}

INSTANTIATE_TEST_SUITE_P(All, WindowType2,
                         Combine(Values(MwKind::kType2A, MwKind::kType2B),
                                 Values(Path::kRc, Path::kUc)),
                         name_of_param);

// ---- tests with nodes of their own ----

// The ACK is lost, and the window is bound again under the same key: the repeated request must not
// invalidate it.
TEST(Window, RepeatedSendInvalidatesNothingTwice) {
  WindowWorld w(MwKind::kType2B, Path::kRc);
  TestMw mw = w.window();
  const std::uint32_t key = mw.view.key;
  w.link().own->post_recv({}, 1);
  w.link().own->post_recv({}, 2);
  w.sim.pass = [lost = false](unsigned node, std::span<const std::byte> f) mutable {
    if (lost || node != 1 || f[62] != static_cast<std::byte>(Op::kAck)) return true;
    return !(lost = true);
  };
  w.link().peer->post(send_inv({}, key));
  expect(w.link().own->wait_recv(), TERN_RECV_SEND);
  mw.view.key = with_variant(key, key - 1);
  w.bound(mw, w.mr);
  EXPECT_EQ(mw.view.key, key);
  expect(w.link().peer->wait_send(), TERN_WR_SEND_WITH_INV);
  EXPECT_GT(w.b.counter(TERN_CNT_DUPLICATE_REQUEST), 0U);
  EXPECT_EQ(query_key(w.b, key).state, TERN_KEY_ST_VALID);
  w.sim.run_until_idle();
  EXPECT_FALSE(w.link().own->recv_cq().poll());
  EXPECT_EQ(w.works(w.link(), Op3::kWrite, mw.view, 0, kBytes), "");
}

// A bind executes once, even if packets before it are retransmitted.
TEST(Window, GoingBackBindsNothingTwice) {
  WindowWorld w(MwKind::kType2B, Path::kRc);
  TestMr& theirs = w.a.reg(16 * 1024);
  TestMr& ours = w.b.reg(16 * 1024, {.pd = w.pd});
  TestMw mw = w.make_mw();
  w.sim.pass = [n = 0](unsigned node, std::span<const std::byte> f) mutable {
    return node != 1 || f[62] != static_cast<std::byte>(Op::kWriteMiddle) || n++ != 2;
  };
  w.link().own->post(write({ours.sge()}, theirs), false);
  w.link().own->post(bind(mw, w.mr, kFirst, kBytes), false);
  w.link().own->post(write({ours.sge()}, theirs), false);
  w.link().own->ring();
  expect(w.link().own->wait_send(), TERN_WR_RDMA_WRITE);
  expect(w.link().own->wait_send(), TERN_WR_BIND_MW);
  expect(w.link().own->wait_send(), TERN_WR_RDMA_WRITE);
  EXPECT_EQ(le(query_key(w.b, w.mr.key).num_windows), 1U);
}

TEST(Window, NumberOfAQpRestsWhileAWindowNamesIt) {
  Sim sim;
  TestNode node(sim, {.max_qp = 4});
  TestMr& mr = node.reg(4096, {.access = kBindable});
  std::vector<TestMw> windows;
  std::vector<std::uint32_t> numbers;
  // Each QP leaves a bound window behind.
  for (unsigned i = 0; i < 4; ++i) {
    TestQp& qp = node.create_qp();
    qp.connect(qp);
    TestMw mw = alloc_mw(node, 2);
    qp.post(bind(mw, mr, 0, 64));
    expect(qp.wait_send(), TERN_WR_BIND_MW);
    windows.push_back(mw);
    numbers.push_back(qp.number());
    node.destroy(qp);
  }
  TestQp none(node, {});
  EXPECT_EQ(none.created(), TERN_ST_NO_RESOURCE);
  EXPECT_EQ(le(node.objects().qp), 0U);
  // Only the third number can be reused.
  EXPECT_EQ(free_mw(node, windows[2].view.key), TERN_ST_OK);
  TestQp& qp = node.create_qp();
  EXPECT_EQ(qp.number(), numbers[2]);
  TestQp again(node, {});
  EXPECT_EQ(again.created(), TERN_ST_NO_RESOURCE);
}

TEST(Window, Limits) {
  Sim sim;
  TestNode node(sim, {.max_mr = 3, .max_mw = 2});
  EXPECT_EQ(le(node.caps().max_mw), 2U);
  std::vector<TestMw> windows = {alloc_mw(node, 1), alloc_mw(node, 2)};
  tern_cmd_alloc_mw cmd{le(node.pd()), 1, {}};
  EXPECT_EQ(node.command(TERN_CMD_ALLOC_MW, cmd), TERN_ST_NO_RESOURCE);
  // Regions and windows have separate limits.
  for (unsigned i = 0; i < 3; ++i) (void)node.reg(64);
  TestMr more;
  EXPECT_EQ(node.try_reg(64, {}, &more), TERN_ST_NO_RESOURCE);
  EXPECT_EQ(free_mw(node, windows[0].view.key), TERN_ST_OK);
  EXPECT_EQ(node.try_reg(64, {}, &more), TERN_ST_NO_RESOURCE);
  const TestMw next = alloc_mw(node, 1);
  EXPECT_NE(next.view.key, windows[0].view.key) << "an index comes with another variant";
  for (const unsigned type : {0U, 3U, 255U}) {
    cmd.type = static_cast<std::uint8_t>(type);
    EXPECT_EQ(node.command(TERN_CMD_ALLOC_MW, cmd), TERN_ST_BAD_PARAM);
  }
  cmd = {le(77U), 1, {}};
  EXPECT_EQ(node.command(TERN_CMD_ALLOC_MW, cmd), TERN_ST_BAD_HANDLE);
}

TEST(Window, DeviceWithoutWindows) {
  Sim sim;
  TestNode node(sim, {.max_mw = 0});
  constexpr std::uint64_t kAny = TERN_CAP_MW_TYPE_1 | TERN_CAP_MW_TYPE_2A | TERN_CAP_MW_TYPE_2B;
  EXPECT_EQ(le(node.caps().flags) & kAny, 0U);
  EXPECT_EQ(le(node.caps().max_mw), 0U);
  EXPECT_EQ(node.command(TERN_CMD_ALLOC_MW, tern_cmd_alloc_mw{le(node.pd()), 1, {}}),
            TERN_ST_NOT_SUPPORTED);
  EXPECT_EQ(free_mw(node, 0x200), TERN_ST_NOT_SUPPORTED);
  TestQp& qp = node.create_qp();
  qp.connect(qp);
  TestMw mw;
  qp.post(bind(mw, node.reg(64), 0, 64));
  expect(qp.wait_send(), TERN_WR_BIND_MW, TERN_CQE_LOC_QP_OP_ERR);
}

TEST(Window, TypeOfTheDevice) {
  Sim sim;
  for (const bool type_2a : {false, true}) {
    TestNode node(sim, {.mw_type_2a = type_2a});
    const std::uint64_t caps = le(node.caps().flags);
    EXPECT_NE(caps & TERN_CAP_MW_TYPE_1, 0U);
    EXPECT_EQ((caps & TERN_CAP_MW_TYPE_2A) != 0, type_2a);
    EXPECT_EQ((caps & TERN_CAP_MW_TYPE_2B) != 0, !type_2a);
  }
}

TEST(Window, SegmentBeyondTheSlot) {
  WindowWorld w(MwKind::kType1, Path::kRc);
  TestQp& qp = w.b.create_qp({.pd = w.pd, .log_sq_stride = 6});
  qp.connect(qp);
  qp.post(local_inv(0), false);
  auto hdr = qp.memory().get<tern_sq_hdr>(0);
  hdr.opcode = TERN_WR_BIND_MW;
  qp.memory().put(0, hdr);
  qp.ring();
  expect(qp.wait_send(), TERN_WR_BIND_MW, TERN_CQE_LOC_QP_OP_ERR);
}

// Rules and windows are the same in loopback.
TEST(Window, OverLoopback) {
  Sim sim;
  TestNode node(sim);
  const auto [x, y] = rc_pair(node, node);
  TestMr& src = node.reg(4096);
  TestMr& dst = node.reg(4096, {.access = kBindable});
  src.fill(2);
  TestMw mw = alloc_mw(node, 2);
  y.post(bind(mw, dst, 100, 50));
  expect(y.wait_send(), TERN_WR_BIND_MW);
  x.post(write({src.sge(0, 50)}, mw.view));
  expect(x.wait_send(), TERN_WR_RDMA_WRITE);
  EXPECT_TRUE(same_bytes(dst.bytes(100, 50), src.bytes(0, 50)));
  x.post(write({src.sge(0, 51)}, mw.view));
  expect(x.wait_send(), TERN_WR_RDMA_WRITE, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_TRUE(untouched(dst.bytes(150, 4096 - 150)));
}

}  // namespace
}  // namespace tern
