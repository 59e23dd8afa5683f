// SPDX-License-Identifier: GPL-2.0-or-later
// Device memory at both ends of every operation, over the wire and in loopback.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr std::uint64_t kPart = 65536;
constexpr std::uint64_t kOffset = 13;  // of the regions, so that nothing is aligned
constexpr std::uint64_t kRegion = 50000;
constexpr std::byte kCanary{0xa5};

struct Path {
  bool loopback;
  bool from_dm;
  bool to_dm;
  std::uint8_t type;
};

std::string name_of(const ::testing::TestParamInfo<Path>& info) {
  const Path& p = info.param;
  return std::string(p.type == TERN_QPT_RC ? "Rc" : "Uc") + (p.loopback ? "Inside" : "Wire") +
         (p.from_dm ? "Dm" : "Host") + "To" + (p.to_dm ? "Dm" : "Host");
}

class DmOps : public ::testing::TestWithParam<Path> {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode other{sim};
  TestNode& b = GetParam().loopback ? a : other;
  std::pair<TestQp&, TestQp&> qps = rc_pair(a, b, {.type = GetParam().type, .log_mtu = 10});
  TestQp& qa = qps.first;
  TestQp& qb = qps.second;
  std::span<std::byte> src_whole, dst_whole;  // the memory around the regions
  TestMr& src = make(a, GetParam().from_dm, src_whole);
  TestMr& dst = make(b, GetParam().to_dm, dst_whole);

  static TestMr& make(TestNode& node, bool dm, std::span<std::byte>& whole) {
    if (!dm) {
      TestMr& mr = node.reg(kRegion, {.offset = kOffset});
      whole = {mr.bytes().data() - kOffset, kOffset + kRegion};
      return mr;
    }
    const TestDm part = node.alloc_dm(kPart);
    whole = {node.host.at(FakeHost::kDm + part.offset, kPart), kPart};
    return node.reg_dm(part, kOffset, kRegion);
  }
  void SetUp() override { src.fill(1); }
  void clean() { std::ranges::fill(dst_whole, kCanary); }
  // [at, at + len) of the target equals the source from `from` on; every other byte is unchanged.
  void expect_moved(std::uint64_t at, std::uint64_t len, std::uint64_t from) {
    EXPECT_TRUE(same_bytes(dst.bytes(at, len), src.bytes(from, len)));
    const auto is_canary = [](std::byte x) { return x == kCanary; };
    EXPECT_TRUE(std::ranges::all_of(dst_whole.first(kOffset + at), is_canary));
    EXPECT_TRUE(std::ranges::all_of(dst_whole.subspan(kOffset + at + len), is_canary));
  }
  void expect_sent() {
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    sim.run_until_idle();
  }
  static constexpr std::array<std::uint32_t, 8> kSizes = {1,    8,    1023, 1024,
                                                          1025, 4096, 5001, 40000};
};

std::vector<Path> paths(std::initializer_list<std::uint8_t> types) {
  std::vector<Path> all;
  for (const std::uint8_t type : types) {
    for (const bool loopback : {false, true}) {
      all.push_back({loopback, true, false, type});
      all.push_back({loopback, false, true, type});
      all.push_back({loopback, true, true, type});
    }
  }
  return all;
}

// Operations that UC lacks, and errors that it does not report.
class RcDmOps : public DmOps {};

INSTANTIATE_TEST_SUITE_P(All, DmOps, ::testing::ValuesIn(paths({TERN_QPT_RC, TERN_QPT_UC})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, RcDmOps, ::testing::ValuesIn(paths({TERN_QPT_RC})), name_of);

TEST_P(DmOps, Write) {
  for (const std::uint32_t len : kSizes) {
    clean();
    qa.post(write({src.sge(7, len)}, dst, 3));
    expect_sent();
    expect_moved(3, len, 7);
  }
}

TEST_P(DmOps, WriteToTheLastByte) {
  clean();
  qa.post(write({src.sge(0, 2000)}, dst, kRegion - 2000));
  expect_sent();
  expect_moved(kRegion - 2000, 2000, 0);
}

TEST_P(DmOps, SendAndReceive) {
  for (const std::uint32_t len : kSizes) {
    clean();
    qb.post_recv({dst.sge(3, len)});
    qa.post(send({src.sge(7, len)}));
    expect_sent();
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.byte_len), len);
    expect_moved(3, len, 7);
  }
}

TEST_P(RcDmOps, Read) {
  for (const std::uint32_t len : kSizes) {
    clean();
    qb.post(read({dst.sge(3, len)}, src, 7));
    const Wc wc = qb.wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    sim.run_until_idle();
    expect_moved(3, len, 7);
  }
}

TEST_P(DmOps, ListsOfBothKinds) {
  const TestDm part = a.alloc_dm(4096);
  TestMr& more = a.reg_dm(part, 0, 4096);
  TestMr& plain = a.reg(4096);
  more.fill(2);
  plain.fill(3);
  clean();
  qa.post(write({more.sge(5, 700), src.sge(0, 1501), plain.sge(1, 9), more.sge(4000, 96)}, dst));
  expect_sent();
  EXPECT_TRUE(same_bytes(dst.bytes(0, 700), more.bytes(5, 700)));
  EXPECT_TRUE(same_bytes(dst.bytes(700, 1501), src.bytes(0, 1501)));
  EXPECT_TRUE(same_bytes(dst.bytes(2201, 9), plain.bytes(1, 9)));
  EXPECT_TRUE(same_bytes(dst.bytes(2210, 96), more.bytes(4000, 96)));
  EXPECT_EQ(dst.bytes()[2306], kCanary);
}

TEST_P(RcDmOps, OneByteTooFarMovesNone) {
  clean();
  qa.post(write({src.sge(0, 100)}, dst, kRegion - 99));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_TRUE(std::ranges::all_of(dst_whole, [](std::byte x) { return x == kCanary; }));
}

TEST_P(DmOps, OneByteTooFarAtHome) {
  qa.post(write({src.sge(kRegion - 99, 100)}, dst));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_LOC_PROT_ERR);
}

// ---- atomics ----

std::string side_of(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "Inside" : "Wire";
}

class DmAtomics : public ::testing::TestWithParam<bool> {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode other{sim};
  TestNode& b = GetParam() ? a : other;
  std::pair<TestQp&, TestQp&> qps = rc_pair(a, b);
  TestQp& qa = qps.first;
  TestDm mine = a.alloc_dm(4096);
  TestDm theirs = b.alloc_dm(8192);
  TestMr& result = a.reg_dm(mine, 8, 64);
  TestMr& target = b.reg_dm(theirs, 0, 8192);
};

INSTANTIATE_TEST_SUITE_P(All, DmAtomics, ::testing::Bool(), side_of);

TEST_P(DmAtomics, FetchAdd) {
  for (const std::uint64_t at : {0, 8, 4088, 4096, 8184}) {
    target.put<std::uint64_t>(at, 0xfffffffffffffff0);
    for (std::uint64_t i = 0; i < 5; ++i) {
      qa.post(fetch_add(result.sge(8, 8), target, at, 7));
      EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
      EXPECT_EQ(result.get<std::uint64_t>(8), 0xfffffffffffffff0 + 7 * i);
    }
    EXPECT_EQ(target.get<std::uint64_t>(at), 0xfffffffffffffff0 + 35);
  }
}

TEST_P(DmAtomics, CompareSwap) {
  target.put<std::uint64_t>(16, 100);
  target.put<std::uint64_t>(8, 1);
  target.put<std::uint64_t>(24, 3);
  qa.post(compare_swap(result.sge(0, 8), target, 16, 99, 5));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(result.get<std::uint64_t>(0), 100U);
  EXPECT_EQ(target.get<std::uint64_t>(16), 100U);
  qa.post(compare_swap(result.sge(0, 8), target, 16, 100, 5));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(result.get<std::uint64_t>(0), 100U);
  EXPECT_EQ(target.get<std::uint64_t>(16), 5U);
  EXPECT_EQ(target.get<std::uint64_t>(8), 1U);
  EXPECT_EQ(target.get<std::uint64_t>(24), 3U);
}

TEST_P(DmAtomics, AddressMustBeAligned) {
  for (const std::uint64_t at : {1, 4, 7}) {
    const auto pair = rc_pair(a, b);
    pair.first.post(fetch_add(result.sge(0, 8), target, 64 + at, 1));
    EXPECT_EQ(pair.first.wait_send().status, TERN_CQE_REM_INV_REQ_ERR);
    EXPECT_EQ(target.get<std::uint64_t>(64), 0U);
    EXPECT_EQ(target.get<std::uint64_t>(72), 0U);
  }
}

TEST_P(DmAtomics, LastWordOfARegionAndNotBehindIt) {
  TestMr& small = b.reg_dm(theirs, 4096, 24);
  qa.post(fetch_add(result.sge(0, 8), small, 16, 9));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(target.get<std::uint64_t>(4096 + 16), 9U);
  qa.post(fetch_add(result.sge(0, 8), small, 24, 9));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_EQ(target.get<std::uint64_t>(4096 + 24), 0U);
}

// Only the peer's address must be aligned, not the word in device memory.
TEST_P(DmAtomics, WordThatIsNotAligned) {
  TestMr& odd = b.reg_dm(theirs, 3, 100);
  odd.put<std::uint64_t>(8, 41);
  qa.post(fetch_add(result.sge(0, 8), odd, 8, 1));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(result.get<std::uint64_t>(0), 41U);
  EXPECT_EQ(odd.get<std::uint64_t>(8), 42U);
}

TEST_P(DmAtomics, NeedTheRight) {
  TestMr& weak = b.reg_dm(theirs, 0, 64, kAllAccess & ~TERN_ACCESS_REMOTE_ATOMIC);
  qa.post(fetch_add(result.sge(0, 8), weak, 0, 1));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_EQ(target.get<std::uint64_t>(0), 0U);
}

// ---- datagrams ----

class DmDatagrams : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(All, DmDatagrams, ::testing::Bool(), side_of);

TEST_P(DmDatagrams, BothEndsAndTheGrh) {
  Sim sim;
  TestNode a(sim);
  TestNode other(sim);
  TestNode& b = GetParam() ? a : other;
  TestQp& qa = a.create_qp({.type = TERN_QPT_UD});
  TestQp& qb = b.create_qp({.type = TERN_QPT_UD});
  qa.connect();
  qb.connect();
  const TestDm part = a.alloc_dm(4096);
  const TestDm target = b.alloc_dm(8192);
  TestMr& src = a.reg_dm(part, 1, 4000);
  TestMr& dst = b.reg_dm(target, 5, 4080);
  src.fill(4);
  for (const std::uint32_t len : {1U, 100U, 1024U, 4000U}) {
    std::ranges::fill(dst.bytes(), kCanary);
    qb.post_recv({dst.sge(0, 40 + len)});
    qa.post(datagram(qa, qb, {src.sge(0, len)}));
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.byte_len), len + 40);
    EXPECT_EQ(std::to_integer<int>(dst.bytes()[0]) >> 4, 6) << "the GRH's version";
    EXPECT_TRUE(same_bytes(dst.bytes(40, len), src.bytes(0, len)));
    EXPECT_EQ(dst.bytes()[40 + len], kCanary);
  }
}

// ---- life cycle ----

class DmLife : public ::testing::Test {
 protected:
  Sim sim;
};

TEST_F(DmLife, DeviceWithoutIt) {
  TestNode bare(sim, {.dm_size = 0});
  EXPECT_FALSE(le(bare.caps().flags) & TERN_CAP_DM);
  EXPECT_EQ(le(bare.caps().dm_size), 0U);
  EXPECT_EQ(le(bare.caps().max_dm), 0U);
  TestDm dm;
  EXPECT_EQ(bare.try_alloc_dm(1, 0, &dm), TERN_ST_NOT_SUPPORTED);
  // The device does not examine the input.
  EXPECT_EQ(bare.command(TERN_CMD_ALLOC_DM, std::uint32_t{1}), TERN_ST_NOT_SUPPORTED);
  EXPECT_EQ(bare.command(TERN_CMD_FREE_DM, tern_cmd_object{1, 1}), TERN_ST_NOT_SUPPORTED);
  tern_cmd_create_mr mr{.pdn = le(bare.pd()), .dmn = le(1U), .kind = TERN_MR_DM};
  EXPECT_EQ(bare.command(TERN_CMD_CREATE_MR, mr), TERN_ST_NOT_SUPPORTED);
  TestNode node(sim);
  EXPECT_TRUE(le(node.caps().flags) & TERN_CAP_DM);
  EXPECT_EQ(le(node.caps().dm_size), node.options().dm_size);
}

TEST_F(DmLife, UsedUpAndGivenBack) {
  TestNode a(sim, {.dm_size = 1 << 16});
  std::vector<TestDm> parts;
  TestDm dm;
  while (a.try_alloc_dm(4096, 0, &dm) == TERN_ST_OK) parts.push_back(dm);
  EXPECT_EQ(parts.size(), 16U);
  EXPECT_EQ(a.try_alloc_dm(4096, 0, &dm), TERN_ST_NO_MEMORY);
  EXPECT_EQ(le(a.objects().dm), 16U);
  EXPECT_EQ(le(a.objects().dm_bytes), 1U << 16);
  TestMr& mr = a.reg_dm(parts[3], 0, 4096);
  EXPECT_EQ(a.command(TERN_CMD_FREE_DM, tern_cmd_object{le(parts[3].number), 0}), TERN_ST_BUSY);
  a.dereg(mr);
  for (const TestDm& part : parts) a.free(part);
  EXPECT_EQ(le(a.objects().dm), 0U);
  EXPECT_EQ(le(a.objects().dm_bytes), 0U);
  EXPECT_EQ(a.alloc_dm(1 << 16, 16).offset, 0U);
}

TEST_F(DmLife, NextOwnerSeesZeros) {
  TestNode a(sim);
  const TestDm first = a.alloc_dm(65536);
  TestMr& mr = a.reg_dm(first, 0, 65536);
  mr.fill(9);
  a.dereg(mr);
  a.free(first);
  const TestDm second = a.alloc_dm(65536);
  EXPECT_EQ(second.offset, first.offset);
  TestMr& again = a.reg_dm(second, 0, 65536);
  EXPECT_TRUE(std::ranges::all_of(again.bytes(), [](std::byte x) { return x == std::byte{0}; }));
}

TEST_F(DmLife, ResetTakesAllBack) {
  TestNode a(sim);
  for (int i = 0; i < 3; ++i) (void)a.reg_dm(a.alloc_dm(100000), 5, 90000);
  a.device.reset();
  a.start_admin_queue();
  EXPECT_EQ(le(a.objects().dm), 0U);
  EXPECT_EQ(le(a.objects().dm_bytes), 0U);
  EXPECT_EQ(le(a.objects().mr), 0U);
  EXPECT_EQ(a.alloc_dm(1 << 20).offset, 0U);
}

TEST_F(DmLife, RegionThatGoesUnderARead) {
  TestNode a(sim);
  TestNode b(sim);
  const auto [qa, qb] = rc_pair(a, b);
  (void)qb;
  const TestDm part = b.alloc_dm(65536);
  TestMr& src = b.reg_dm(part, 0, 65536);
  TestMr& dst = a.reg(65536);
  src.fill(1);
  sim.budget = 2048;
  unsigned responses = 0;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    if (frame.size() > 1000) ++responses;
    return true;
  };
  qa.post(read({dst.sge()}, src));
  ASSERT_TRUE(sim.run_until([&] { return responses >= 4; }));
  b.dereg(src);
  b.free(part);
  const TestDm next = b.alloc_dm(65536);
  EXPECT_EQ(next.offset, part.offset);
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_TRUE(
      std::ranges::all_of(dst.bytes(40000, 25536), [](std::byte x) { return x == std::byte{0}; }));
}

// The device's DMA addresses do not include its own memory.
TEST_F(DmLife, NoQueueLivesInIt) {
  TestNode a(sim);
  (void)a.alloc_dm(65536);
  tern_cmd_create_mr mr{};
  mr.pages.addr = le(FakeHost::kDm);
  mr.pages.num = le(1U);
  mr.pages.page_shift = 12;
  mr.pages.kind = TERN_PAGES_LIST;
  mr.length = le(std::uint64_t{4096});
  mr.pdn = le(a.pd());
  EXPECT_EQ(a.command(TERN_CMD_CREATE_MR, mr), TERN_ST_DMA_ERROR);
}

}  // namespace
}  // namespace tern
