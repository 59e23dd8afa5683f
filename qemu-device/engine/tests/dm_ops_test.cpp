// SPDX-License-Identifier: GPL-2.0-or-later
// Operation pages: loads and stores of BAR2 that are atomic operations on device memory.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/mini_driver.h"
#include "wire/codec.h"

namespace tern {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kAt = 0x7f8;  // of the word, in its page

class DmOpsTest : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestDm dm = a.alloc_dm(2 * kPage);

  Status map(std::uint8_t op, std::uint64_t offset, std::uint32_t* uar) {
    tern_rsp_object rsp{};
    const Status st =
        a.command(TERN_CMD_MAP_DM_OP, tern_cmd_map_dm_op{le(offset), le(dm.number), op, {}}, &rsp);
    *uar = le(std::uint32_t{rsp.id});
    return st;
  }
  // Maps the second page, which has the word.
  std::uint64_t page_of(std::uint8_t op) {
    std::uint32_t uar = 0;
    EXPECT_EQ(map(op, kPage, &uar), TERN_ST_OK);
    return uar * kPage;
  }
  std::uint64_t address() const { return FakeHost::kDm + dm.offset + kPage + kAt; }
  std::uint32_t word() { return le(a.host.get<std::uint32_t>(address())); }
  void set(std::uint32_t value) { a.host.put(address(), le(value)); }
};

TEST_F(DmOpsTest, StoresAndLoads) {
  struct Case {
    std::uint8_t op;
    std::uint32_t before, operand, stored, loaded;
  };
  constexpr Case kCases[] = {
      {TERN_DM_OP_ADD, 0xffffff00, 0x234, 0x134, 0xffffff01},
      {TERN_DM_OP_OR, 0xf0, 0x8000000f, 0x800000ff, 0xf1},
      {TERN_DM_OP_CLEAR, 0xff00ff00, 0x0f000f0f, 0xf000f000, 0},
  };
  static_assert(std::size(kCases) == TERN_DM_OP_NUM);
  for (const Case& c : kCases) {
    const std::uint64_t page = page_of(c.op);
    set(c.before);
    a.device.doorbell(page + kAt, c.operand);
    EXPECT_EQ(word(), c.stored) << +c.op;
    set(c.before);
    EXPECT_EQ(a.device.uar_read(page + kAt), c.before) << +c.op;
    EXPECT_EQ(word(), c.loaded) << +c.op;
    // The words beside it are untouched, and the whole page of BAR2 has the operation.
    EXPECT_EQ(a.host.get<std::uint32_t>(address() - 4), 0U);
    EXPECT_EQ(a.host.get<std::uint32_t>(address() + 4), 0U);
    EXPECT_EQ(a.device.uar_read(page + TERN_UAR_DB), 0U);
    EXPECT_EQ(a.device.uar_read(page + TERN_UAR_CLOCK_LO), 0U);
    a.host.put(FakeHost::kDm + dm.offset + kPage, std::uint64_t{0});
    a.host.put(FakeHost::kDm + dm.offset + kPage + TERN_UAR_CLOCK_LO, std::uint64_t{0});
  }
}

TEST_F(DmOpsTest, UnalignedAccessHasNoEffect) {
  const std::uint64_t page = page_of(TERN_DM_OP_ADD);
  set(7);
  a.device.doorbell(page + kAt + 2, 1);
  EXPECT_EQ(a.device.uar_read(page + kAt + 1), TERN_REG_GONE);
  EXPECT_EQ(word(), 7U);
}

TEST_F(DmOpsTest, RefusedMaps) {
  std::uint32_t uar;
  EXPECT_EQ(map(TERN_DM_OP_NUM, 0, &uar), TERN_ST_BAD_PARAM);
  EXPECT_EQ(map(TERN_DM_OP_ADD, 8, &uar), TERN_ST_BAD_PARAM);
  EXPECT_EQ(map(TERN_DM_OP_ADD, 2 * kPage, &uar), TERN_ST_BAD_PARAM);
  EXPECT_EQ(map(TERN_DM_OP_ADD, UINT64_MAX - kPage + 1, &uar), TERN_ST_BAD_PARAM);
  ++dm.number;
  EXPECT_EQ(map(TERN_DM_OP_ADD, 0, &uar), TERN_ST_BAD_HANDLE);
}

TEST_F(DmOpsTest, MemoryIsBusyUntilThePageIsFreed) {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  ASSERT_EQ(map(TERN_DM_OP_OR, 0, &first), TERN_ST_OK);
  ASSERT_EQ(map(TERN_DM_OP_OR, 0, &second), TERN_ST_OK);
  EXPECT_NE(first, second);
  const tern_cmd_object memory{le(dm.number), 0};
  a.destroy(TERN_CMD_FREE_UAR, first);
  EXPECT_EQ(a.command(TERN_CMD_FREE_DM, memory), TERN_ST_BUSY);
  a.destroy(TERN_CMD_FREE_UAR, second);
  EXPECT_EQ(a.command(TERN_CMD_FREE_UAR, tern_cmd_object{le(second), 0}), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(a.command(TERN_CMD_FREE_DM, memory), TERN_ST_OK);
  // A freed page executes nothing.
  a.device.doorbell(second * kPage, 1);
  EXPECT_EQ(a.device.uar_read(second * kPage), TERN_REG_GONE);
  EXPECT_EQ(a.host.get<std::uint32_t>(FakeHost::kDm + dm.offset), 0U);
}

TEST_F(DmOpsTest, PageHasNoQueues) {
  std::uint32_t uar = 0;
  ASSERT_EQ(map(TERN_DM_OP_ADD, 0, &uar), TERN_ST_OK);
  tern_cmd_create_cq cq{.eqn = le(std::uint32_t{TERN_NO_EQ}), .uar = le(uar), .log_size = 4};
  tern_rsp_object rsp{};
  EXPECT_EQ(a.command(TERN_CMD_CREATE_CQ, cq, &rsp), TERN_ST_BAD_HANDLE);
}

// Additions of the CPU and atomics of a peer are all counted, whatever their order.
TEST_F(DmOpsTest, ConcurrentWithAtomicsOfAPeer) {
  const auto [qa, qb] = rc_pair(b, a);
  (void)qb;
  const std::uint64_t page = page_of(TERN_DM_OP_ADD);
  TestMr& target = a.reg_dm(dm, kPage, kPage);
  TestMr& result = b.reg(64);
  constexpr unsigned kRounds = 32;
  std::uint32_t seen = 0;
  for (unsigned i = 0; i < kRounds; ++i) {
    qa.post(fetch_add(result.sge(0, 8), target, kAt, 1));
    a.device.doorbell(page + kAt, 1000);
    const std::uint32_t now = a.device.uar_read(page + kAt);
    EXPECT_GE(now, seen + 1000);
    seen = now;
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  }
  EXPECT_EQ(word(), kRounds * 1002);
}

TEST_F(DmOpsTest, WithoutDeviceMemory) {
  Sim other;
  TestNode bare(other, {.dm_size = 0});
  EXPECT_EQ(bare.command(TERN_CMD_MAP_DM_OP, tern_cmd_map_dm_op{}), TERN_ST_NOT_SUPPORTED);
}

// ---- UDP source ports ----

class SourcePort : public ::testing::TestWithParam<std::uint8_t> {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  std::pair<TestQp&, TestQp&> qps = rc_pair(a, b, {.type = GetParam()});
  std::uint16_t last = 0;  // source port of the last frame of `a`

  Status set(std::uint16_t port, std::uint32_t more = 0) {
    tern_qp_attr attr = qps.first.query().attr;
    attr.av.udp_sport = le(port);
    return qps.first.modify(attr, TERN_QPA_UDP_SPORT | more);
  }
  void exchange() {
    TestMr& mr = a.reg(64);
    qps.second.post_recv({b.reg(64).sge()});
    qps.first.post(send({mr.sge()}));
    EXPECT_EQ(qps.first.wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(qps.second.wait_recv().status, TERN_CQE_SUCCESS);
  }
};

INSTANTIATE_TEST_SUITE_P(All, SourcePort, ::testing::Values(TERN_QPT_RC, TERN_QPT_UC));

TEST_P(SourcePort, IsOnTheWire) {
  sim.pass = [&](unsigned from, std::span<const std::byte> frame) {
    Packet packet(a.host);
    if (from == 0 && parse_route(frame, packet.route) == ParseResult::kOk)
      last = packet.route.udp_sport;
    return true;
  };
  exchange();
  EXPECT_GE(last, 0xc000);
  for (const std::uint16_t port : {std::uint16_t{1}, std::uint16_t{0xc123}, std::uint16_t{65535}}) {
    EXPECT_EQ(set(port), TERN_ST_OK);
    EXPECT_EQ(le(std::uint16_t{qps.first.query().attr.av.udp_sport}), port);
    exchange();
    EXPECT_EQ(last, port);
  }
}

TEST_P(SourcePort, Refused) {
  EXPECT_EQ(set(0), TERN_ST_BAD_PARAM);
  EXPECT_EQ(set(5, TERN_QPA_DEST_QPN), TERN_ST_BAD_PARAM);
  EXPECT_EQ(qps.first.to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_EQ(set(5), TERN_ST_BAD_PARAM);
  TestQp& unconnected = a.create_qp({.type = GetParam()});
  EXPECT_EQ(unconnected.to_init(), TERN_ST_OK);
  EXPECT_EQ(unconnected.modify({}, TERN_QPA_UDP_SPORT), TERN_ST_BAD_PARAM);
}

}  // namespace
}  // namespace tern
