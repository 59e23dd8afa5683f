// SPDX-License-Identifier: GPL-2.0-or-later
// Placement in device memory, and regions on a part of it, checked to the byte.
#include "memory/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "core/limits.h"
#include "memory/memory.h"
#include "tests/fake_host.h"

namespace tern {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kBytes = 32 * kPage;
constexpr std::uint32_t kMax = 24;
constexpr std::uint32_t kAll = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                               TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC;

class DeviceMemoryTest : public testing::Test {
 protected:
  FakeHost host;
  std::span<std::byte> storage = host.make_dm(kBytes);
  DeviceMemory dm{host, storage, kMax};

  Status alloc(std::uint64_t length, std::uint32_t log_align, tern_rsp_alloc_dm* rsp,
               unsigned page_shift = 12) {
    const Status st = dm.alloc({length, log_align, 0}, page_shift, rsp);
    if (st == TERN_ST_OK) {
      EXPECT_EQ(dm.clear(rsp->dmn, UINT64_MAX), rsp->size);
    }
    return st;
  }
  tern_rsp_alloc_dm take(std::uint64_t pages, std::uint32_t log_align = 0) {
    tern_rsp_alloc_dm rsp{};
    EXPECT_EQ(alloc(pages * kPage, log_align, &rsp), TERN_ST_OK);
    EXPECT_EQ(rsp.size, pages * kPage);
    EXPECT_NE(rsp.dmn, 0U);
    return rsp;
  }
  Status refused(std::uint64_t length, std::uint32_t log_align = 0) {
    tern_rsp_alloc_dm rsp{};
    return alloc(length, log_align, &rsp);
  }
};

TEST_F(DeviceMemoryTest, WholePages) {
  for (const auto& [length, size] : {std::pair{1ULL, 4096ULL},
                                     {4095ULL, 4096ULL},
                                     {4096ULL, 4096ULL},
                                     {4097ULL, 8192ULL},
                                     {8191ULL, 8192ULL}}) {
    tern_rsp_alloc_dm rsp{};
    ASSERT_EQ(alloc(length, 0, &rsp), TERN_ST_OK);
    EXPECT_EQ(rsp.size, size);
    EXPECT_EQ(rsp.offset % kPage, 0U);
    EXPECT_EQ(rsp.rsvd_14, 0U);
    EXPECT_EQ(dm.counts().bytes, size);
    EXPECT_EQ(dm.free(rsp.dmn), TERN_ST_OK);
  }
  tern_rsp_alloc_dm rsp{};
  ASSERT_EQ(alloc(1, 0, &rsp, 16), TERN_ST_OK);
  EXPECT_EQ(rsp.size, 65536U);
  EXPECT_EQ(alloc(65537, 0, &rsp, 16), TERN_ST_NO_MEMORY) << "a page of 64 KiB is left";
  EXPECT_EQ(alloc(65536, 0, &rsp, 16), TERN_ST_OK);
  EXPECT_EQ(rsp.offset, 65536U);
}

TEST_F(DeviceMemoryTest, Refusals) {
  EXPECT_EQ(refused(0), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused(kBytes + 1), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused(UINT64_MAX), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused(1, 64), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused(1, UINT32_MAX), TERN_ST_BAD_PARAM);
  EXPECT_EQ(dm.counts().parts, 0U);
  EXPECT_EQ(host.dm_bytes_written, 0U);
  for (const std::uint32_t none : {0U, 1U, 2U, 0xffffffffU}) {
    EXPECT_EQ(dm.free(none), TERN_ST_BAD_HANDLE);
    EXPECT_EQ(dm.find(none), nullptr);
  }
}

TEST_F(DeviceMemoryTest, AllOfItAndNoMore) {
  const auto all = take(32);
  EXPECT_EQ(all.offset, 0U);
  EXPECT_EQ(refused(1), TERN_ST_NO_MEMORY);
  EXPECT_EQ(dm.counts().bytes, kBytes);
  EXPECT_EQ(dm.free(all.dmn), TERN_ST_OK);
  EXPECT_EQ(dm.free(all.dmn), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(dm.counts().bytes, 0U);
  EXPECT_EQ(take(32).offset, 0U);
}

TEST_F(DeviceMemoryTest, AlignmentIsOfTheOffset) {
  const auto first = take(1);
  EXPECT_EQ(first.offset, 0U);
  for (std::uint32_t log = 0; log <= 16; ++log) {
    const auto part = take(1, log);
    EXPECT_EQ(part.offset % (std::uint64_t{1} << log), 0U) << log;
    EXPECT_NE(part.offset, 0U);
    EXPECT_EQ(dm.free(part.dmn), TERN_ST_OK);
  }
  // Only offset 0 is aligned this far.
  for (std::uint32_t log = 17; log <= 63; ++log)
    EXPECT_EQ(refused(1, log), TERN_ST_NO_MEMORY) << log;
  EXPECT_EQ(dm.free(first.dmn), TERN_ST_OK);
  for (std::uint32_t log = 17; log <= 63; ++log) {
    const auto part = take(32, log);
    EXPECT_EQ(part.offset, 0U);
    EXPECT_EQ(dm.free(part.dmn), TERN_ST_OK);
  }
}

TEST_F(DeviceMemoryTest, AlignedPartBehindTheEndDoesNotFit) {
  (void)take(17);  // every offset with that alignment lies in this part
  EXPECT_EQ(refused(kPage, 16), TERN_ST_NO_MEMORY);
  EXPECT_EQ(refused(16 * kPage), TERN_ST_NO_MEMORY);
  EXPECT_EQ(take(15).offset, 17 * kPage);
}

TEST_F(DeviceMemoryTest, FreedNeighboursAreOnePieceAgain) {
  std::vector<tern_rsp_alloc_dm> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(take(4));
  EXPECT_EQ(refused(1), TERN_ST_NO_MEMORY);
  // Part 3 extends the gap upwards, part 1 downwards.
  for (const int i : {2, 3, 1}) EXPECT_EQ(dm.free(parts.at(i).dmn), TERN_ST_OK);
  EXPECT_EQ(refused(13 * kPage), TERN_ST_NO_MEMORY);
  EXPECT_EQ(take(12).offset, 4 * kPage);
}

TEST_F(DeviceMemoryTest, SmallPartsLeaveTheLargeGapsWhole) {
  const auto a = take(8);
  const auto b = take(1);
  const auto c = take(2);
  (void)take(1);
  EXPECT_EQ(dm.free(a.dmn), TERN_ST_OK);
  EXPECT_EQ(dm.free(c.dmn), TERN_ST_OK);
  EXPECT_EQ(take(2).offset, c.offset) << "the smallest gap that it fits";
  EXPECT_EQ(take(8).offset, a.offset);
  EXPECT_EQ(dm.free(b.dmn), TERN_ST_OK);
  EXPECT_EQ(take(1).offset, b.offset);
  EXPECT_EQ(take(20).offset, 12 * kPage);
  EXPECT_EQ(refused(1), TERN_ST_NO_MEMORY);
}

TEST_F(DeviceMemoryTest, AsManyPartsAsItSays) {
  EXPECT_EQ(dm.max(), kMax);
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < kMax; ++i) numbers.push_back(take(1).dmn);
  EXPECT_EQ(refused(1), TERN_ST_NO_RESOURCE);
  EXPECT_EQ(dm.counts().parts, kMax);
  std::ranges::sort(numbers);
  EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end());
  EXPECT_EQ(dm.free(numbers[5]), TERN_ST_OK);
  (void)take(1);
  EXPECT_EQ(refused(1), TERN_ST_NO_RESOURCE);
}

TEST_F(DeviceMemoryTest, ZeroedBeforeItIsGivenOut) {
  std::ranges::fill(storage, std::byte{0xee});
  const auto part = take(2);
  const auto is = [&](std::uint64_t from, std::uint64_t len, std::byte want) {
    return std::ranges::all_of(storage.subspan(from, len), [&](std::byte b) { return b == want; });
  };
  EXPECT_TRUE(is(part.offset, 2 * kPage, std::byte{0}));
  EXPECT_TRUE(is(2 * kPage, kBytes - 2 * kPage, std::byte{0xee})) << "nobody else's bytes";
  EXPECT_EQ(host.dm_bytes_written, 2 * kPage);
  // The next owner must not see the data of the previous one.
  std::ranges::fill(storage.subspan(part.offset, part.size), std::byte{0x55});
  EXPECT_EQ(dm.free(part.dmn), TERN_ST_OK);
  const auto again = take(1);
  EXPECT_EQ(again.offset, part.offset);
  EXPECT_TRUE(is(again.offset, kPage, std::byte{0}));
}

TEST_F(DeviceMemoryTest, ResetTakesAllBack) {
  for (int i = 0; i < 5; ++i) (void)take(3);
  dm.reset();
  EXPECT_EQ(dm.counts().parts, 0U);
  EXPECT_EQ(dm.counts().bytes, 0U);
  EXPECT_EQ(take(32).offset, 0U);
}

TEST_F(DeviceMemoryTest, ReservedUntilAllOfItIsZero) {
  std::ranges::fill(storage, std::byte{0x5a});
  tern_rsp_alloc_dm rsp{};
  ASSERT_EQ(dm.alloc({3 * kPage, 0, 0}, 12, &rsp), TERN_ST_OK);
  EXPECT_EQ(dm.clear(rsp.dmn, kPage), kPage);
  EXPECT_EQ(dm.find(rsp.dmn), nullptr);
  EXPECT_EQ(dm.free(rsp.dmn), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(dm.counts().parts, 0U);
  EXPECT_EQ(dm.counts().bytes, 0U);
  EXPECT_EQ(storage[rsp.offset + kPage], std::byte{0x5a}) << "not yet";
  const tern_rsp_alloc_dm other = take(1);
  EXPECT_TRUE(other.offset >= rsp.offset + rsp.size || other.offset + other.size <= rsp.offset);
  EXPECT_EQ(dm.clear(rsp.dmn, kPage), kPage);
  EXPECT_EQ(dm.clear(rsp.dmn, UINT64_MAX), kPage);
  ASSERT_NE(dm.find(rsp.dmn), nullptr);
  for (const std::byte b : storage.subspan(rsp.offset, rsp.size)) ASSERT_EQ(b, std::byte{0});
  EXPECT_EQ(dm.counts().parts, 2U);
  EXPECT_EQ(dm.counts().bytes, 4 * kPage);
  EXPECT_EQ(dm.free(rsp.dmn), TERN_ST_OK);
}

TEST_F(DeviceMemoryTest, NoneAtAll) {
  DeviceMemory none(host, {}, kMax);
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(none.max(), 0U);
  tern_rsp_alloc_dm rsp{};
  EXPECT_EQ(none.alloc({1, 0, 0}, 12, &rsp), TERN_ST_BAD_PARAM);
}

// Compares with a model of every page: parts never overlap, and NO_MEMORY is justified.
TEST_F(DeviceMemoryTest, RandomUse) {
  FakeHost dice(11);
  std::map<std::uint32_t, tern_rsp_alloc_dm> live;
  for (int step = 0; step < 4000; ++step) {
    std::vector<bool> taken(kBytes / kPage);
    for (const auto& [number, part] : live) {
      for (std::uint64_t p = part.offset / kPage; p < (part.offset + part.size) / kPage; ++p) {
        ASSERT_FALSE(taken.at(p)) << "two have page " << p;
        taken.at(p) = true;
      }
    }
    if (!live.empty() && dice.random() % 2 == 0) {
      const auto it = std::next(live.begin(), static_cast<long>(dice.random() % live.size()));
      ASSERT_EQ(dm.free(it->first), TERN_ST_OK);
      live.erase(it);
      continue;
    }
    const std::uint64_t pages = 1 + dice.random() % 9;
    const auto log_align = static_cast<std::uint32_t>(dice.random() % 17);
    const std::uint64_t align = std::max<std::uint64_t>((1ULL << log_align) / kPage, 1);
    bool fits = false;
    for (std::uint64_t p = 0; p + pages <= taken.size() && !fits; p += align) {
      fits = std::none_of(taken.begin() + static_cast<long>(p),
                          taken.begin() + static_cast<long>(p + pages), [](bool t) { return t; });
    }
    tern_rsp_alloc_dm rsp{};
    const Status st = alloc(pages * kPage - dice.random() % kPage, log_align, &rsp);
    if (live.size() == kMax) {
      ASSERT_EQ(st, TERN_ST_NO_RESOURCE);
    } else {
      ASSERT_EQ(st, fits ? TERN_ST_OK : TERN_ST_NO_MEMORY);
    }
    if (st != TERN_ST_OK) continue;
    ASSERT_EQ(rsp.offset % (std::uint64_t{1} << log_align), 0U);
    ASSERT_TRUE(live.emplace(rsp.dmn, rsp).second);
  }
}

// ---- regions ----

class DeviceRegionTest : public DeviceMemoryTest {
 protected:
  PageBudget budget{kMaxPages};
  Memory memory{host, budget, 8, &dm};
  SpanList out{host};
  Memory::Missing missing;
  const Accessor user{Pdn(7), false, Qpn(2)};
  const tern_rsp_alloc_dm part = take(2, 13);

  void SetUp() override { ASSERT_EQ(part.offset, 0U); }
  tern_cmd_create_mr command(std::uint64_t offset, std::uint64_t length,
                             std::uint32_t access = kAll) const {
    tern_cmd_create_mr c{.length = length,
                         .offset = offset,
                         .pdn = 7,
                         .access = access,
                         .dmn = part.dmn,
                         .kind = TERN_MR_DM};
    return c;
  }
  std::uint32_t make(const tern_cmd_create_mr& c) {
    std::uint32_t key = 0;
    EXPECT_EQ(memory.create_mr(c, &key), TERN_ST_OK);
    return key;
  }
  Access remote(std::uint32_t key, std::uint64_t addr, std::uint64_t len, std::uint32_t rights) {
    out.abandon();
    const Access a = memory.remote(user, {key, addr, len, rights}, out, missing);
    EXPECT_EQ(out.size(), a == Access::kReady ? len : 0);
    EXPECT_EQ(memory.check_remote(user, key, addr, len, rights).access(), a);
    return a;
  }
  Access local(std::uint32_t key, std::uint64_t addr, std::uint64_t len, bool write) {
    out.abandon();
    return memory.local(user, {key, addr, len, write ? TERN_ACCESS_LOCAL_WRITE : std::uint32_t{0}},
                        out, missing);
  }
};

TEST_F(DeviceRegionTest, SubRangesToTheByte) {
  const std::uint32_t key = make(command(100, 5000));
  ASSERT_EQ(remote(key, 0, 5000, TERN_ACCESS_REMOTE_READ), Access::kReady);
  ASSERT_EQ(out.pieces().size(), 1U) << "pages of device memory are neighbours";
  EXPECT_EQ(out.pieces()[0].bytes.data(), storage.data() + 100);
  ASSERT_EQ(remote(key, 4999, 1, TERN_ACCESS_REMOTE_WRITE), Access::kReady);
  EXPECT_EQ(out.pieces()[0].bytes.data(), storage.data() + 5099);
  out.abandon();
  EXPECT_EQ(remote(key, 5000, 1, TERN_ACCESS_REMOTE_READ), Access::kDenied);
  EXPECT_EQ(remote(key, 0, 5001, TERN_ACCESS_REMOTE_READ), Access::kDenied);
  EXPECT_EQ(remote(key, UINT64_MAX, 1, TERN_ACCESS_REMOTE_READ), Access::kDenied);
  EXPECT_EQ(remote(key, UINT64_MAX, 2, TERN_ACCESS_REMOTE_READ), Access::kDenied) << "wraps to 0";
  EXPECT_EQ(remote(key, 1, UINT64_MAX, TERN_ACCESS_REMOTE_READ), Access::kDenied);
  EXPECT_EQ(local(key, 4999, 2, false), Access::kDenied);
  EXPECT_EQ(host.maps, 0U) << "nothing of it is mapped";
}

TEST_F(DeviceRegionTest, AddressesMayBeginAnywhere) {
  tern_cmd_create_mr c = command(8, 8184);
  c.iova = 0x7f0000000000;
  const std::uint32_t key = make(c);
  ASSERT_EQ(remote(key, c.iova + 8183, 1, TERN_ACCESS_REMOTE_READ), Access::kReady);
  EXPECT_EQ(out.pieces()[0].bytes.data(), storage.data() + 8191);
  EXPECT_EQ(remote(key, c.iova - 1, 1, TERN_ACCESS_REMOTE_READ), Access::kDenied);
  EXPECT_EQ(remote(key, 0, 1, TERN_ACCESS_REMOTE_READ), Access::kDenied);
}

TEST_F(DeviceRegionTest, SecondPartHasItsOwnBytes) {
  const auto second = take(1);
  tern_cmd_create_mr c = command(0, kPage);
  c.dmn = second.dmn;
  const std::uint32_t key = make(c);
  ASSERT_EQ(remote(key, 0, kPage, TERN_ACCESS_REMOTE_WRITE), Access::kReady);
  EXPECT_EQ(out.pieces()[0].bytes.data(), storage.data() + second.offset);
  out.abandon();
}

TEST_F(DeviceRegionTest, StoresAreTold) {
  const std::uint32_t key = make(command(0, 8192));
  host.dm_bytes_written = 0;
  ASSERT_EQ(remote(key, 0, 100, TERN_ACCESS_REMOTE_WRITE), Access::kReady);
  out.abandon();
  EXPECT_EQ(host.dm_bytes_written, 0U) << "nothing was stored";
  ASSERT_EQ(remote(key, 0, 100, TERN_ACCESS_REMOTE_READ), Access::kReady);
  out.clear();
  EXPECT_EQ(host.dm_bytes_written, 0U);
  ASSERT_EQ(remote(key, 0, 100, TERN_ACCESS_REMOTE_WRITE), Access::kReady);
  out.clear();
  EXPECT_EQ(host.dm_bytes_written, 100U);
  ASSERT_EQ(remote(key, 8, 8, TERN_ACCESS_REMOTE_ATOMIC), Access::kReady);
  out.clear();
  EXPECT_EQ(host.dm_bytes_written, 108U);
  ASSERT_EQ(local(key, 8, 32, true), Access::kReady);
  out.clear();
  EXPECT_EQ(host.dm_bytes_written, 140U);
}

TEST_F(DeviceRegionTest, RightsAndDomains) {
  const std::uint32_t key = make(command(0, 64, TERN_ACCESS_REMOTE_READ | TERN_ACCESS_MW_BIND));
  EXPECT_EQ(remote(key, 0, 8, TERN_ACCESS_REMOTE_READ), Access::kReady);
  EXPECT_EQ(remote(key, 0, 8, TERN_ACCESS_REMOTE_WRITE), Access::kDenied);
  EXPECT_EQ(remote(key, 0, 8, TERN_ACCESS_REMOTE_ATOMIC), Access::kDenied);
  EXPECT_EQ(local(key, 0, 8, true), Access::kDenied);
  EXPECT_EQ(local(key, 0, 8, false), Access::kReady);
  const Accessor other{Pdn(8), false, Qpn(2)};
  EXPECT_EQ(memory.local(other, {key, 0, 8, 0}, out, missing), Access::kDenied);
}

TEST_F(DeviceRegionTest, CreationRefuses) {
  using C = tern_cmd_create_mr;
  const std::pair<Status, std::function<void(C&)>> rows[] = {
      {TERN_ST_BAD_HANDLE, [](C& c) { c.dmn = 0; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.dmn; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.dmn = 0xffffffff; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.length = 8193; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.offset = 8193, c.length = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.offset = 1, c.length = 8192; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.offset = UINT64_MAX, c.length = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.offset = UINT64_MAX - 1, c.length = 4; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.length = UINT64_MAX; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.iova = UINT64_MAX - 8190; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.addr = 4096; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.num = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.page_shift = 12; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.kind = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = TERN_MR_F_INCOMPLETE; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = 0x80; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.access = TERN_ACCESS_REMOTE_WRITE; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.access = 1U << 20; }},
      {TERN_ST_NOT_SUPPORTED, [](C& c) { c.access |= TERN_ACCESS_ON_DEMAND; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.access |= TERN_ACCESS_ZERO_BASED, c.iova = 8; }},
  };
  int row = 0;
  for (const auto& [status, spoil] : rows) {
    C c = command(0, 8192);
    spoil(c);
    std::uint32_t key = 0;
    EXPECT_EQ(memory.create_mr(c, &key), status) << "row " << row;
    ++row;
  }
  EXPECT_EQ(memory.counts().mr, 0U);
  EXPECT_EQ(dm.find(part.dmn)->users, 0U) << "no attempt left a user behind";
  for (int i = 0; i < 8; ++i) (void)make(command(8192, 0));
  std::uint32_t key = 0;
  EXPECT_EQ(memory.create_mr(command(0, 1), &key), TERN_ST_NO_RESOURCE);
  EXPECT_EQ(dm.find(part.dmn)->users, 8U);
}

TEST_F(DeviceRegionTest, BusyWhileARegionIsOnIt) {
  const std::uint32_t a = make(command(0, 8192));
  const std::uint32_t b = make(command(4096, 0));
  EXPECT_EQ(dm.free(part.dmn), TERN_ST_BUSY);
  EXPECT_EQ(memory.destroy_mr(a), TERN_ST_OK);
  EXPECT_EQ(dm.free(part.dmn), TERN_ST_BUSY) << "the other has no bytes, but it is there";
  EXPECT_EQ(memory.destroy_mr(b), TERN_ST_OK);
  EXPECT_EQ(memory.counts().page_entries, 0U);
  EXPECT_EQ(dm.free(part.dmn), TERN_ST_OK);
}

TEST_F(DeviceRegionTest, HasNoPageList) {
  const std::uint32_t key = make(command(0, 8192));
  tern_cmd_update_pages up{.key = key, .flags = TERN_UPDATE_CLOSE};
  EXPECT_EQ(memory.update_pages(up), TERN_ST_OK);
  EXPECT_EQ(local(key, 0, 1, false), Access::kDenied) << "closed";
  up.flags = TERN_UPDATE_LAST;
  EXPECT_EQ(memory.update_pages(up), TERN_ST_OK);
  EXPECT_EQ(local(key, 0, 1, false), Access::kReady);
  up.pages.num = 1;
  up.pages.kind = TERN_PAGES_LIST;
  up.pages.page_shift = 12;
  EXPECT_EQ(memory.update_pages(up), TERN_ST_BAD_STATE);
  tern_cmd_rereg_mr r{};
  r.key = key;
  EXPECT_EQ(memory.rereg_mr(r), TERN_ST_BAD_STATE);
  tern_rsp_mr rsp{};
  EXPECT_EQ(memory.query(key, &rsp), TERN_ST_OK);
  EXPECT_EQ(rsp.length, 8192U);
  EXPECT_EQ(rsp.state, TERN_KEY_ST_VALID);
}

}  // namespace
}  // namespace tern
