// SPDX-License-Identifier: GPL-2.0-or-later
// Regions that change while requests are in progress.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr std::uint32_t kLen = 65536;
constexpr std::uint32_t kMtu = 1024;

class Rereg : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  std::pair<TestQp&, TestQp&> qps = rc_pair(a, b);
  TestQp& qa = qps.first;
  TestQp& qb = qps.second;
  TestMr& src = a.reg(kLen);
  TestMr& dst = b.reg(kLen);
  unsigned full = 0;  // frames with a full payload, both directions

  void SetUp() override {
    src.fill(1);
    sim.budget = 2 * kMtu;
    sim.pass = [this](unsigned, std::span<const std::byte> frame) {
      if (frame.size() > kMtu) ++full;
      return true;
    };
  }
  // Runs until some packets of a message have been sent, but far from all.
  void run_into_it() {
    ASSERT_TRUE(sim.run_until([this] { return full >= 6; }));
    ASSERT_LT(full, 40U);
  }
  std::uint8_t status() { return qa.wait_send().status; }
  static Status close(TestNode& node, const TestMr& mr) {
    return node.command(
        TERN_CMD_UPDATE_PAGES,
        tern_cmd_update_pages{.key = le(mr.key), .flags = le(std::uint32_t{TERN_UPDATE_CLOSE})});
  }
  static bool zero(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte x) { return x == std::byte{0}; });
  }
};

TEST_F(Rereg, OtherMemoryAtTheNextPacketOfARead) {
  dst.fill(2);
  const TestMr before = dst;
  qa.post(read({src.sge()}, dst));
  run_into_it();
  ASSERT_EQ(b.rereg(dst, TERN_REREG_TRANS, {.iova = dst.iova}, kLen), TERN_ST_OK);
  EXPECT_EQ(dst.key, before.key);
  ASSERT_EQ(status(), TERN_CQE_SUCCESS);
  // First the old data, then the zeros of the new memory; the change falls between two packets.
  std::uint32_t at = 0;
  while (at < kLen && std::ranges::equal(src.bytes(at, kMtu), before.bytes(at, kMtu))) at += kMtu;
  EXPECT_GE(at, 6 * kMtu);
  EXPECT_LT(at, kLen);
  EXPECT_TRUE(zero(src.bytes(at, kLen - at)));
}

TEST_F(Rereg, AnotherRangeEndsARead) {
  qa.post(read({src.sge()}, dst));
  run_into_it();
  ASSERT_EQ(b.rereg(dst, TERN_REREG_TRANS, {.iova = dst.iova}, 4 * kMtu), TERN_ST_OK);
  EXPECT_EQ(status(), TERN_CQE_REM_ACCESS_ERR);
}

TEST_F(Rereg, AnotherDomainEndsARead) {
  dst.fill(2);
  src.fill(3);
  const std::vector<std::byte> last(src.bytes().end() - 8 * kMtu, src.bytes().end());
  const std::uint32_t pd = b.alloc_pd();
  qa.post(read({src.sge()}, dst));
  run_into_it();
  ASSERT_EQ(b.rereg(dst, TERN_REREG_PD, {.pd = pd}), TERN_ST_OK);
  EXPECT_EQ(status(), TERN_CQE_REM_ACCESS_ERR);
  EXPECT_TRUE(same_bytes(src.bytes(kLen - last.size(), last.size()), last));
}

TEST_F(Rereg, FewerRightsEndARead) {
  qa.post(read({src.sge()}, dst));
  run_into_it();
  ASSERT_EQ(b.rereg(dst, TERN_REREG_ACCESS, {.access = kAllAccess & ~TERN_ACCESS_REMOTE_READ}),
            TERN_ST_OK);
  EXPECT_EQ(status(), TERN_CQE_REM_ACCESS_ERR);
}

TEST_F(Rereg, FailureLeavesTheReadAlone) {
  dst.fill(2);
  qa.post(read({src.sge()}, dst));
  run_into_it();
  EXPECT_EQ(b.rereg(dst, TERN_REREG_ACCESS, {.access = TERN_ACCESS_REMOTE_WRITE}),
            TERN_ST_BAD_PARAM);
  EXPECT_EQ(b.rereg(dst, TERN_REREG_PD, {.pd = 0xffff}), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(b.rereg(dst, 7, {.iova = UINT64_MAX - 10}, kLen), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(src.bytes(), dst.bytes()));
}

TEST_F(Rereg, FewerRightsEndAWrite) {
  qa.post(write({src.sge()}, dst));
  ASSERT_TRUE(sim.run_until([this] { return sim.stats.delivered >= 6; }));
  ASSERT_EQ(b.rereg(dst, TERN_REREG_ACCESS,
                    {.access = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_READ}),
            TERN_ST_OK);
  const std::vector<std::byte> then(dst.bytes().begin(), dst.bytes().end());
  EXPECT_FALSE(zero(then));
  EXPECT_TRUE(zero(std::span(then).last(16 * kMtu)));
  EXPECT_EQ(status(), TERN_CQE_REM_ACCESS_ERR);
  sim.run_until_idle();
  EXPECT_TRUE(same_bytes(dst.bytes(), then)) << "no byte moved after the command";
}

TEST_F(Rereg, OtherMemoryAtTheNextPacketOfAWrite) {
  const TestMr before = dst;
  qa.post(write({src.sge()}, dst));
  ASSERT_TRUE(sim.run_until([this] { return sim.stats.delivered >= 6; }));
  ASSERT_EQ(b.rereg(dst, TERN_REREG_TRANS, {.iova = dst.iova}, kLen), TERN_ST_OK);
  const std::vector<std::byte> then(before.bytes().begin(), before.bytes().end());
  EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(before.bytes(), then)) << "the old memory may be unpinned";
  for (std::uint32_t at = 0; at < kLen; at += kMtu) {
    const bool early = std::ranges::equal(before.bytes(at, kMtu), src.bytes(at, kMtu));
    EXPECT_NE(early, std::ranges::equal(dst.bytes(at, kMtu), src.bytes(at, kMtu))) << at;
  }
}

TEST_F(Rereg, OwnRegionChangesUnderASend) {
  const std::uint32_t pd = a.alloc_pd();
  qb.post_recv({dst.sge()});
  qa.post(send({src.sge()}));
  run_into_it();
  ASSERT_EQ(a.rereg(src, TERN_REREG_PD, {.pd = pd}), TERN_ST_OK);
  EXPECT_EQ(status(), TERN_CQE_LOC_PROT_ERR);
}

TEST_F(Rereg, ReceiveIntoARegionThatBecameReadOnly) {
  qb.post_recv({dst.sge()});
  ASSERT_EQ(b.rereg(dst, TERN_REREG_ACCESS, {.access = TERN_ACCESS_REMOTE_READ}), TERN_ST_OK);
  qa.post(send({src.sge(0, 100)}));
  EXPECT_EQ(status(), TERN_CQE_REM_OP_ERR);
  EXPECT_EQ(qb.wait_recv().status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_TRUE(zero(dst.bytes()));
}

// A peer with the key uses the new memory only; the old memory may be unmapped.
TEST_F(Rereg, OldMemoryMayGoAway) {
  const TestMr before = dst;
  ASSERT_EQ(b.rereg(dst, 7, {.pd = b.pd(), .iova = dst.iova}, kLen), TERN_ST_OK);
  b.host.punch(before.dma, kLen);
  qa.post(write({src.sge()}, dst));
  EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(), src.bytes()));
  EXPECT_TRUE(zero(before.bytes()));
}

// An exporter of memory takes it back: its owner closes the region and keeps the key.
TEST_F(Rereg, ClosedUnderAWrite) {
  qa.post(write({src.sge()}, dst));
  ASSERT_TRUE(sim.run_until([this] { return sim.stats.delivered >= 6; }));
  ASSERT_EQ(close(b, dst), TERN_ST_OK);
  EXPECT_FALSE(zero(dst.bytes()));
  std::ranges::fill(dst.bytes(), std::byte{0x5a});  // the exporter's again
  EXPECT_EQ(status(), TERN_CQE_REM_ACCESS_ERR);
  sim.run_until_idle();
  EXPECT_TRUE(std::ranges::all_of(dst.bytes(), [](std::byte x) { return x == std::byte{0x5a}; }));
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_MR, tern_cmd_object{le(dst.key), 0}), TERN_ST_OK);
}

TEST_F(Rereg, ClosedUnderARead) {
  dst.fill(2);
  qa.post(read({src.sge()}, dst));
  run_into_it();
  ASSERT_EQ(close(b, dst), TERN_ST_OK);
  b.host.punch(dst.dma, kLen);
  EXPECT_EQ(status(), TERN_CQE_REM_ACCESS_ERR);
}

TEST_F(Rereg, OwnRegionClosedUnderARead) {
  dst.fill(2);
  qa.post(read({src.sge()}, dst));
  run_into_it();
  ASSERT_EQ(close(a, src), TERN_ST_OK);
  std::ranges::fill(src.bytes(), std::byte{0x5a});
  EXPECT_EQ(status(), TERN_CQE_LOC_PROT_ERR);
  sim.run_until_idle();
  EXPECT_TRUE(std::ranges::all_of(src.bytes(), [](std::byte x) { return x == std::byte{0x5a}; }));
}

TEST_F(Rereg, OwnRegionClosedUnderASend) {
  qb.post_recv({dst.sge()});
  qa.post(send({src.sge()}));
  run_into_it();
  ASSERT_EQ(close(a, src), TERN_ST_OK);
  a.host.punch(src.dma, kLen);
  EXPECT_EQ(status(), TERN_CQE_LOC_PROT_ERR);
}

TEST_F(Rereg, DeviceTellsThatItCan) {
  EXPECT_TRUE(le(a.caps().flags) & TERN_CAP_REREG_MR);
  const TestDm part = a.alloc_dm(4096);
  TestMr& dm = a.reg_dm(part, 0, 4096);
  EXPECT_EQ(a.rereg(dm, TERN_REREG_ACCESS), TERN_ST_BAD_STATE);
  dm.key ^= 1;
  EXPECT_EQ(a.rereg(dm, TERN_REREG_ACCESS), TERN_ST_BAD_HANDLE);
}

}  // namespace
}  // namespace tern
