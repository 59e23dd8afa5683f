// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/memory.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "core/limits.h"
#include "tests/fake_host.h"

namespace tern {
namespace {

constexpr std::uint32_t kAll = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                               TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC;

class PageListTest : public testing::Test {
 protected:
  FakeHost host;
  PageBudget budget{kMaxPages};

  // `n` pages of 1 << shift bytes at addresses that are never adjacent.
  std::vector<std::uint64_t> pages(std::size_t n, unsigned shift = 12) {
    std::vector<std::uint64_t> list;
    for (std::size_t i = 0; i < n; ++i) list.push_back((2 * i + 2) << shift);
    return list;
  }
  std::uint64_t store(const std::vector<std::uint64_t>& words) {
    const std::uint64_t addr = host.alloc(words.size() * 8 + 8);
    std::memcpy(host.at(addr, words.size() * 8), words.data(), words.size() * 8);
    return addr;
  }
  tern_pages list(const std::vector<std::uint64_t>& words, unsigned shift = 12) {
    tern_pages p{.addr = store(words),
                 .num = static_cast<std::uint32_t>(words.size()),
                 .page_shift = static_cast<std::uint8_t>(shift),
                 .kind = TERN_PAGES_LIST};
    return p;
  }
  tern_pages indirect(const std::vector<std::uint64_t>& words, unsigned shift = 12) {
    std::vector<std::uint64_t> chunks;
    for (std::size_t i = 0; i < words.size(); i += TERN_PAGES_CHUNK) {
      const std::size_t n = std::min<std::size_t>(TERN_PAGES_CHUNK, words.size() - i);
      chunks.push_back(store({words.begin() + static_cast<std::ptrdiff_t>(i),
                              words.begin() + static_cast<std::ptrdiff_t>(i + n)}));
    }
    tern_pages p = list(chunks, shift);
    p.num = static_cast<std::uint32_t>(words.size());
    p.kind = TERN_PAGES_INDIRECT;
    return p;
  }
};

TEST_F(PageListTest, DirectIsOneRun) {
  tern_pages p{};
  p.addr = 0x1234;
  PageList l;
  ASSERT_EQ(l.load(host, p, 0), TERN_ST_OK);
  EXPECT_EQ(l.at(0x10, 1 << 30).addr, 0x1244U);
  EXPECT_EQ(l.at(0x10, 1 << 30).len, 1U << 30);
  EXPECT_EQ(l.entries_held(), 0U);
  p.addr = UINT64_MAX - 0xfff;
  ASSERT_EQ(l.load(host, p, 0), TERN_ST_OK);
  EXPECT_EQ(l.at(0x1000, 1).len, 0U) << "wraps";
}

TEST_F(PageListTest, ListAndIndirectGiveTheSamePages) {
  for (const std::size_t n : {1UL, 2UL, 511UL, 512UL, 513UL, 1025UL, 263000UL}) {
    const auto words = pages(n);
    PageList a;
    PageList b;
    ASSERT_EQ(a.load(host, list(words), n), TERN_ST_OK) << n;
    ASSERT_EQ(b.load(host, indirect(words), n), TERN_ST_OK) << n;
    EXPECT_EQ(a.entries_held(), n);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(a.at(i << 12, 1).addr, words[i]);
      ASSERT_EQ(b.at(i << 12, 1).addr, words[i]);
    }
    EXPECT_EQ(a.at(n << 12, 1).len, 0U);
    EXPECT_EQ(a.at(UINT64_MAX, 1).len, 0U);
  }
}

TEST_F(PageListTest, RunsJoinNeighboursAndStopAtGaps) {
  PageList l;
  ASSERT_EQ(l.load(host, list({0x3000, 0x4000, 0x5000, 0x9000, 0x8000}), 5), TERN_ST_OK);
  EXPECT_EQ(l.at(0x10, 0x10000).addr, 0x3010U);
  EXPECT_EQ(l.at(0x10, 0x10000).len, 0x2ff0U);
  EXPECT_EQ(l.at(0x10, 0x1000).len, 0x1000U) << "no more than wanted";
  EXPECT_EQ(l.at(0x3ffc, 64).addr, 0x9ffcU);
  EXPECT_EQ(l.at(0x3ffc, 64).len, 4U);
}

TEST_F(PageListTest, PageShifts) {
  for (unsigned shift = 0; shift < 40; ++shift) {
    PageList l;
    const Status st = l.load(host, list(pages(2, shift), shift), 2);
    EXPECT_EQ(st, shift >= 12 && shift <= 31 ? TERN_ST_OK : TERN_ST_BAD_PARAM) << shift;
    if (st == TERN_ST_OK) {
      EXPECT_EQ(l.at(7, UINT64_MAX).len, (1ULL << shift) - 7);
    }
  }
}

TEST_F(PageListTest, RefusesWhatIsNotAList) {
  const tern_pages good = list(pages(4));
  const tern_pages deep = indirect(pages(600));
  auto st = [&](tern_pages p, std::uint64_t max = 600) {
    PageList l;
    const Status s = l.load(host, p, max);
    if (s != TERN_ST_OK) {
      EXPECT_EQ(l.entries_held(), 0U);
    }
    return s;
  };
  tern_pages p = good;
  EXPECT_EQ(st(p), TERN_ST_OK);
  EXPECT_EQ(st(p, 3), TERN_ST_BAD_PARAM);
  p.kind = 3;
  EXPECT_EQ(st(p), TERN_ST_BAD_PARAM);
  p = good;
  p.rsvd_e = 1;
  EXPECT_EQ(st(p), TERN_ST_BAD_PARAM);
  p = good;
  p.addr += 4;
  EXPECT_EQ(st(p), TERN_ST_BAD_PARAM) << "not aligned";
  p = good;
  p.page_shift = 13;
  host.put<std::uint64_t>(good.addr, 0x1000);
  EXPECT_EQ(st(p), TERN_ST_BAD_PARAM) << "bits below the page size";
  p = good;
  host.put<std::uint64_t>(good.addr, 0x1001);
  EXPECT_EQ(st(p), TERN_ST_BAD_PARAM);
  p = good;
  p.addr = 0x10;
  EXPECT_EQ(st(p), TERN_ST_DMA_ERROR);
  p.addr = UINT64_MAX - 7;
  EXPECT_EQ(st(p), TERN_ST_DMA_ERROR) << "wraps";
  p = deep;
  EXPECT_EQ(st(p), TERN_ST_OK);
  host.put<std::uint64_t>(deep.addr + 8, 0x18);
  EXPECT_EQ(st(p), TERN_ST_DMA_ERROR) << "second chunk is not RAM";
  host.put<std::uint64_t>(deep.addr + 8, 0x1c);
  EXPECT_EQ(st(p), TERN_ST_BAD_PARAM) << "second chunk is not aligned";
}

TEST_F(PageListTest, LoadsThroughShortMappings) {
  const auto words = pages(700);
  const tern_pages p = indirect(words);
  for (const std::uint64_t limit : {1, 3, 8, 100}) {
    host.short_span = limit;
    PageList l;
    ASSERT_EQ(l.load(host, p, 700), TERN_ST_OK);
    for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(l.at(i << 12, 1).addr, words[i]);
  }
}

TEST_F(PageListTest, FailedLoadKeepsTheOldList) {
  PageList l;
  ASSERT_EQ(l.load(host, list({0x3000}), 1), TERN_ST_OK);
  tern_pages bad = list({0x5000, 0x6001});
  EXPECT_EQ(l.load(host, bad, 2), TERN_ST_BAD_PARAM);
  EXPECT_EQ(l.at(0, 1).addr, 0x3000U);
  EXPECT_EQ(l.entries_held(), 1U);
}

TEST_F(PageListTest, ReserveAndUpdate) {
  PageList l;
  EXPECT_EQ(l.reserve(4, 11), TERN_ST_BAD_PARAM);
  ASSERT_EQ(l.reserve(4, 12), TERN_ST_OK);
  EXPECT_EQ(l.at(0, 1).len, 0U) << "absent";
  const tern_pages two = list({0x2000, 0x7000});
  ASSERT_EQ(l.update(host, budget, 1, two), TERN_ST_OK);
  EXPECT_EQ(l.at(0, 1).len, 0U);
  EXPECT_EQ(l.at(0x1000, 1).addr, 0x2000U);
  EXPECT_EQ(l.at(0x2000, 1).addr, 0x7000U);
  EXPECT_EQ(l.at(0x2000, 0x2000).len, 0x1000U) << "the next one is absent";
  ASSERT_EQ(l.update(host, budget, 2, two), TERN_ST_OK);
  EXPECT_EQ(l.update(host, budget, 3, two), TERN_ST_BAD_PARAM);
  EXPECT_EQ(l.update(host, budget, 5, two), TERN_ST_BAD_PARAM);
  EXPECT_EQ(l.update(host, budget, UINT64_MAX, two), TERN_ST_BAD_PARAM);
  ASSERT_EQ(l.update(host, budget, 0, list({0})), TERN_ST_OK);
  EXPECT_EQ(l.at(0, 1).len, 1U) << "DMA address 0 is an address";
  EXPECT_EQ(l.at(0, 1).addr, 0U);

  tern_pages p = two;
  p.kind = TERN_PAGES_DIRECT;
  EXPECT_EQ(l.update(host, budget, 0, p), TERN_ST_BAD_PARAM);
  p.kind = 7;
  EXPECT_EQ(l.update(host, budget, 0, p), TERN_ST_BAD_PARAM);
  p = two;
  p.page_shift = 13;
  EXPECT_EQ(l.update(host, budget, 0, p), TERN_ST_BAD_PARAM);
  p = two;
  p.rsvd_e = 0x100;
  EXPECT_EQ(l.update(host, budget, 0, p), TERN_ST_BAD_PARAM);
  p = two;
  p.addr = 0x10;
  EXPECT_EQ(l.update(host, budget, 0, p), TERN_ST_DMA_ERROR);
  EXPECT_EQ(l.at(0x1000, 1).addr, 0x2000U) << "nothing was changed";
  p.num = 0;
  EXPECT_EQ(l.update(host, budget, 4, p), TERN_ST_OK);
  ASSERT_EQ(l.load(host, tern_pages{}, 0), TERN_ST_OK);
  EXPECT_EQ(l.update(host, budget, 0, two), TERN_ST_BAD_STATE);
}

// Entries of an on-demand list.
constexpr std::uint64_t on(std::uint64_t addr) { return addr | TERN_PAGE_READ | TERN_PAGE_WRITE; }

TEST_F(PageListTest, ASparseListHoldsOnlyBlocksWithPresentPages) {
  constexpr std::uint64_t kBlock = TERN_PAGES_CHUNK;
  constexpr std::uint64_t kFar = std::uint64_t{0x7fffdeadb} - 1;  // last but one of no block
  PageList l;
  EXPECT_EQ(l.reserve_sparse(11), TERN_ST_BAD_PARAM);
  ASSERT_EQ(l.reserve_sparse(12), TERN_ST_OK);
  EXPECT_EQ(l.entries_held(), 0U);
  EXPECT_EQ(l.at(kFar << 12, 1).len, 0U);
  ASSERT_EQ(l.update(host, budget, kFar, list({on(0x5000), on(0x6000), 0, on(0x9000)})),
            TERN_ST_OK);
  constexpr std::uint64_t kWay = 5 * kBlock;  // the nodes that lead to a block
  EXPECT_EQ(l.entries_held(), kWay + kBlock);
  EXPECT_EQ(budget.held(), kWay + kBlock);
  EXPECT_EQ(l.at((kFar << 12) + 0x10, 1 << 20).addr, 0x5010U);
  EXPECT_EQ(l.at((kFar << 12) + 0x10, 1 << 20).len, 0x1ff0U) << "two pages, then a hole";
  EXPECT_EQ(l.usable((kFar << 12) + 0x10, 1 << 20, true), 0x1ff0U);
  EXPECT_EQ(l.usable((kFar + 3) << 12, 100, true), 100U);
  EXPECT_EQ(l.usable((kFar - 1) << 12, 100, false), 0U);
  // A run continues in the next block. The three nodes below those that both places share are new.
  ASSERT_EQ(l.update(host, budget, 3 * kBlock - 1, list({on(0x20000), on(0x21000)})), TERN_ST_OK);
  constexpr std::uint64_t kWays = kWay + 2 * kBlock;
  EXPECT_EQ(budget.held(), kWays + 3 * kBlock);
  EXPECT_EQ(l.at((3 * kBlock - 1) << 12, 1 << 20).len, 0x2000U);
  // Absent pages do not take room, and the last one of a block returns it.
  ASSERT_EQ(l.update(host, budget, 100 * kBlock, list({0, 0})), TERN_ST_OK);
  EXPECT_EQ(budget.held(), kWays + 3 * kBlock);
  ASSERT_EQ(l.update(host, budget, 3 * kBlock - 1, list({0, on(0x21000)})), TERN_ST_OK);
  EXPECT_EQ(budget.held(), kWays + 2 * kBlock);
  EXPECT_EQ(l.at(3 * kBlock << 12, 1).addr, 0x21000U);
  ASSERT_EQ(l.clear(budget, kFar - 200 * kBlock, 200 * kBlock + 3), TERN_ST_OK);
  EXPECT_EQ(budget.held(), kWays + 2 * kBlock) << "the fourth page is still there";
  EXPECT_EQ(l.at(kFar << 12, 1).len, 0U);
  ASSERT_EQ(l.clear(budget, kFar, 4), TERN_ST_OK);
  ASSERT_EQ(l.clear(budget, 3 * kBlock, 1), TERN_ST_OK);
  EXPECT_EQ(budget.held(), 0U);
}

TEST_F(PageListTest, ASparseListEndsWithTheAddressSpaceAndTheBudget) {
  PageBudget small{8 * TERN_PAGES_CHUNK};
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 52;
  PageList l;
  ASSERT_EQ(l.reserve_sparse(12), TERN_ST_OK);
  ASSERT_EQ(l.update(host, small, kEnd - 1, list({on(0x5000)})), TERN_ST_OK);
  EXPECT_EQ(l.at(UINT64_MAX, 1).addr, 0x5fffU);
  EXPECT_EQ(l.usable(UINT64_MAX - 10, 11, true), 11U);
  EXPECT_EQ(l.update(host, small, kEnd - 1, list({on(0x5000), on(0x6000)})), TERN_ST_BAD_PARAM);
  EXPECT_EQ(l.clear(small, kEnd, 1), TERN_ST_BAD_PARAM);
  EXPECT_EQ(l.clear(small, UINT64_MAX, 1), TERN_ST_BAD_PARAM);
  // Two more blocks and the way to them exceed the budget, and nothing changes.
  EXPECT_EQ(l.update(host, small, 511, list({on(0x5000), on(0x6000)})), TERN_ST_NO_MEMORY);
  EXPECT_EQ(l.at(511 << 12, 1).len, 0U);
  EXPECT_EQ(small.held(), std::uint64_t{6 * TERN_PAGES_CHUNK});
  PageList moved = std::move(l);
  EXPECT_EQ(moved.entries_held(), std::uint64_t{6 * TERN_PAGES_CHUNK});
  EXPECT_EQ(l.entries_held(), 0U);
}

// What a lookup of the page at `index` takes, in ns.
double lookup_time(const PageList& list, std::uint64_t index) {
  double best = 1e9;
  for (unsigned run = 0; run < 9; ++run) {
    constexpr unsigned kLookups = 200;
    std::uint64_t sum = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < kLookups; ++i) sum += list.at((index + (sum & 1)) << 12, 1).addr;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    EXPECT_NE(sum, 0U);
    best = std::min(best, took.count() / kLookups);
  }
  return best;
}

// A process may map pages wherever it likes. No choice may make accesses slow: 5087 parts of 2 MiB
// in one bucket of a hash table took 100 us.
TEST_F(PageListTest, NoAddressesMakeASparseListSlow) {
  constexpr std::uint64_t kStride = 5087;  // a number of buckets of std::unordered_map
  PageList near;
  PageList far;
  ASSERT_EQ(near.reserve_sparse(12), TERN_ST_OK);
  ASSERT_EQ(far.reserve_sparse(12), TERN_ST_OK);
  const tern_pages page = list({on(0x4000)});
  for (std::uint64_t i = 0; i < kStride; ++i) {
    ASSERT_EQ(near.update(host, budget, i * TERN_PAGES_CHUNK, page), TERN_ST_OK);
    ASSERT_EQ(far.update(host, budget, i * kStride * TERN_PAGES_CHUNK, page), TERN_ST_OK);
  }
  for (const std::uint64_t i : {std::uint64_t{0}, kStride / 2, kStride - 1}) {
    const double usual = lookup_time(near, i * TERN_PAGES_CHUNK);
    EXPECT_LT(lookup_time(far, i * kStride * TERN_PAGES_CHUNK), 8 * usual) << "page " << i;
  }
}

TEST_F(PageListTest, OnlyOnDemandListsAreCleared) {
  PageList l;
  ASSERT_EQ(l.load(host, list({0x3000}), 1), TERN_ST_OK);
  EXPECT_EQ(l.clear(budget, 0, 1), TERN_ST_BAD_STATE);
  EXPECT_EQ(l.at(0, 1).addr, 0x3000U);
  ASSERT_EQ(l.load(host, list({on(0x3000), on(0x5000)}), 2, true), TERN_ST_OK);
  EXPECT_EQ(l.clear(budget, 1, 2), TERN_ST_BAD_PARAM);
  EXPECT_EQ(l.clear(budget, 1, 1), TERN_ST_OK);
  EXPECT_EQ(l.at(0, 1).addr, 0x3000U);
  EXPECT_EQ(l.at(0x1000, 1).len, 0U);
}

class MemoryTest : public PageListTest {
 protected:
  Memory memory{host, budget, 64};
  SpanList out{host};
  Memory::Missing missing;
  const Accessor user{Pdn(7), false, Qpn(2)};
  const Accessor kernel{Pdn(8), true, Qpn(3)};

  // A region of `length` bytes at `offset` in scattered pages, and the addresses of these pages.
  struct Made {
    std::uint32_t key = 0;
    std::vector<std::uint64_t> page;
  };
  Made make(std::uint64_t iova, std::uint64_t length, std::uint64_t offset, std::uint32_t access,
            Pdn pd = Pdn(7)) {
    Made made;
    for (std::uint64_t i = 0; i < offset + length; i += 4096) made.page.push_back(host.alloc(4096));
    tern_cmd_create_mr cmd = command(iova, length, offset, access, pd);
    cmd.pages = list(made.page);
    EXPECT_EQ(memory.create_mr(cmd, &made.key), TERN_ST_OK);
    return made;
  }
  static tern_cmd_create_mr command(std::uint64_t iova, std::uint64_t length, std::uint64_t offset,
                                    std::uint32_t access, Pdn pd = Pdn(7)) {
    tern_cmd_create_mr cmd{
        .iova = iova, .length = length, .offset = offset, .pdn = pd.value, .access = access};
    return cmd;
  }
  Access local(const Accessor& who, std::uint32_t key, std::uint64_t addr, std::uint64_t len,
               bool write = false) {
    out.abandon();
    const Access a = memory.local(
        who, {key, addr, len, write ? TERN_ACCESS_LOCAL_WRITE : std::uint32_t{0}}, out, missing);
    EXPECT_EQ(out.size(), a == Access::kReady ? len : 0);
    return a;
  }
  Access remote(const Accessor& who, std::uint32_t key, std::uint64_t addr, std::uint64_t len,
                std::uint32_t rights) {
    out.abandon();
    const Access a = memory.remote(who, {key, addr, len, rights}, out, missing);
    EXPECT_EQ(out.size(), a == Access::kReady ? len : 0);
    EXPECT_EQ(memory.check_remote(who, key, addr, len, rights).access(), a);
    return a;
  }
};

TEST_F(MemoryTest, BytesComeFromTheRightPages) {
  const Made mr = make(0x70000f80, 9000, 0xf80, kAll);
  for (std::uint64_t i = 0; i < 9000; ++i) {
    const std::uint64_t at = i + 0xf80;
    host.put(mr.page[at / 4096] + at % 4096, static_cast<std::uint8_t>(i * 7));
  }
  for (const std::uint64_t limit : {0, 1, 100}) {
    host.short_span = limit;
    ASSERT_EQ(local(user, mr.key, 0x70000f80 + 5, 8995), Access::kReady);
    std::vector<std::byte> bytes(8995);
    out.copy_to(bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(bytes[i], std::byte(static_cast<std::uint8_t>((i + 5) * 7)));
    }
  }
}

TEST_F(MemoryTest, RangeEndsExactly) {
  constexpr std::uint64_t kAt = 0x10000;
  const Made mr = make(kAt, 5000, 0, kAll);
  const auto bits = TERN_ACCESS_REMOTE_READ;
  EXPECT_EQ(remote(user, mr.key, kAt, 5000, bits), Access::kReady);
  EXPECT_EQ(remote(user, mr.key, kAt + 4999, 1, bits), Access::kReady);
  EXPECT_EQ(remote(user, mr.key, kAt - 1, 1, bits), Access::kDenied);
  EXPECT_EQ(remote(user, mr.key, kAt - 1, 2, bits), Access::kDenied);
  EXPECT_EQ(remote(user, mr.key, kAt + 5000, 1, bits), Access::kDenied);
  EXPECT_EQ(remote(user, mr.key, kAt + 4999, 2, bits), Access::kDenied);
  EXPECT_EQ(remote(user, mr.key, kAt, 5001, bits), Access::kDenied);
  EXPECT_EQ(remote(user, mr.key, kAt + 1, UINT64_MAX, bits), Access::kDenied);
  EXPECT_EQ(remote(user, mr.key, UINT64_MAX, 2, bits), Access::kDenied);
  EXPECT_EQ(local(user, mr.key, kAt, 5000), Access::kReady);
  EXPECT_EQ(local(user, mr.key, kAt, 5001), Access::kDenied);
  EXPECT_EQ(local(user, mr.key, kAt - 1, 1), Access::kDenied);
  EXPECT_EQ(local(user, mr.key, UINT64_MAX - 3, 8), Access::kDenied);
}

TEST_F(MemoryTest, RegionAtTheEndOfTheAddressSpace) {
  const Made mr = make(UINT64_MAX - 4095, 4096, 0, kAll);
  EXPECT_EQ(local(user, mr.key, UINT64_MAX, 1), Access::kReady);
  EXPECT_EQ(local(user, mr.key, UINT64_MAX, 2), Access::kDenied);
  EXPECT_EQ(local(user, mr.key, 0, 1), Access::kDenied);
}

TEST_F(MemoryTest, ZeroBased) {
  const Made mr = make(0, 4096, 100, kAll | TERN_ACCESS_ZERO_BASED);
  ASSERT_EQ(local(user, mr.key, 0, 8), Access::kReady);
  EXPECT_EQ(out.pieces()[0].bytes.data(), host.at(mr.page[0] + 100));
  EXPECT_EQ(local(user, mr.key, 4095, 1), Access::kReady);
  EXPECT_EQ(local(user, mr.key, 4096, 1), Access::kDenied);
}

TEST_F(MemoryTest, RightsAreNeeded) {
  const struct {
    std::uint32_t granted, asked;
  } rows[] = {
      {TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE, TERN_ACCESS_REMOTE_WRITE},
      {TERN_ACCESS_REMOTE_READ, TERN_ACCESS_REMOTE_READ},
      {TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_ATOMIC, TERN_ACCESS_REMOTE_ATOMIC},
  };
  for (const auto& r : rows) {
    const Made mr = make(0x1000, 4096, 0, r.granted);
    for (const std::uint32_t asked :
         {TERN_ACCESS_REMOTE_WRITE, TERN_ACCESS_REMOTE_READ, TERN_ACCESS_REMOTE_ATOMIC}) {
      EXPECT_EQ(remote(user, mr.key, 0x1000, 8, asked),
                asked == r.asked ? Access::kReady : Access::kDenied);
    }
    EXPECT_EQ(local(user, mr.key, 0x1000, 8, true),
              r.granted & TERN_ACCESS_LOCAL_WRITE ? Access::kReady : Access::kDenied);
    EXPECT_EQ(local(user, mr.key, 0x1000, 8, false), Access::kReady);
  }
}

TEST_F(MemoryTest, MappingsAreForWritingOnlyWhenWritten) {
  const Made mr = make(0x1000, 4096, 0, kAll);
  ASSERT_EQ(remote(user, mr.key, 0x1000, 8, TERN_ACCESS_REMOTE_READ), Access::kReady);
  EXPECT_FALSE(out.pieces()[0].write);
  ASSERT_EQ(remote(user, mr.key, 0x1000, 8, TERN_ACCESS_REMOTE_WRITE), Access::kReady);
  EXPECT_TRUE(out.pieces()[0].write);
  ASSERT_EQ(remote(user, mr.key, 0x1000, 8, TERN_ACCESS_REMOTE_ATOMIC), Access::kReady);
  EXPECT_TRUE(out.pieces()[0].write);
  out.abandon();
}

TEST_F(MemoryTest, KeysAndDomainsMustMatch) {
  const Made mr = make(0x1000, 4096, 0, kAll);
  EXPECT_EQ(local(user, mr.key, 0x1000, 1), Access::kReady);
  for (std::uint32_t v = 1; v < 256; ++v) {
    EXPECT_EQ(local(user, mr.key ^ v, 0x1000, 1), Access::kDenied);
  }
  for (const std::uint32_t key : {0U, 1U, 0x100U, 0x101U, mr.key + 0x100, 0xffffffffU}) {
    EXPECT_EQ(local(user, key, 0x1000, 1), Access::kDenied) << key;
    EXPECT_EQ(remote(user, key, 0x1000, 1, TERN_ACCESS_REMOTE_READ), Access::kDenied) << key;
  }
  EXPECT_EQ(local(kernel, mr.key, 0x1000, 1), Access::kDenied) << "another PD, if privileged";
  EXPECT_EQ(remote(kernel, mr.key, 0x1000, 1, TERN_ACCESS_REMOTE_READ), Access::kDenied);
}

TEST_F(MemoryTest, NoBytesNeedNoKey) {
  EXPECT_EQ(local(user, 0, 0xdead, 0), Access::kReady);
  EXPECT_EQ(local(user, 0, 0xdead, 0, true), Access::kReady);
  EXPECT_EQ(remote(user, 0xffffffff, UINT64_MAX, 0, TERN_ACCESS_REMOTE_WRITE), Access::kReady);
}

TEST_F(MemoryTest, FlushesAreCheckedWithoutBytes) {
  constexpr std::uint32_t kGlobal = TERN_ACCESS_FLUSH_GLOBAL;
  const std::uint32_t key = make(0x1000, 8000, 100, kGlobal).key;
  const auto check = [&](const Accessor& who, std::uint64_t va, std::uint64_t len, bool whole,
                         std::uint32_t rights) {
    return memory.check_flush(who, key, va, len, whole, rights);
  };
  EXPECT_EQ(check(user, 0x1000, 8000, false, kGlobal), Access::kReady);
  EXPECT_EQ(check(user, 0x1000, 8001, false, kGlobal), Access::kDenied);
  EXPECT_EQ(check(user, 0x1000 + 8000, 0, false, kGlobal), Access::kReady);
  EXPECT_EQ(check(user, 0x1000 + 8001, 0, false, kGlobal), Access::kDenied);
  EXPECT_EQ(check(user, 0xfff, 0, false, kGlobal), Access::kDenied);
  EXPECT_EQ(check(user, 0xfff, UINT64_MAX, true, kGlobal), Access::kReady);
  EXPECT_EQ(check(kernel, 0x1000, 0, true, kGlobal), Access::kDenied);
  EXPECT_EQ(check(user, 0x1000, 0, true, TERN_ACCESS_FLUSH_PERSISTENT), Access::kDenied);
  EXPECT_EQ(check(user, 0x1000, 0, true, kGlobal | TERN_ACCESS_FLUSH_PERSISTENT), Access::kDenied);
  EXPECT_EQ(memory.check_flush(user, 0, 0, 0, true, kGlobal), Access::kDenied);
  EXPECT_EQ(memory.check_flush(user, key ^ 1, 0x1000, 0, true, kGlobal), Access::kDenied);
}

TEST_F(MemoryTest, ReservedKeyIsForPrivilegedDomainsAndLocal) {
  const std::uint64_t addr = host.alloc(8192);
  EXPECT_EQ(local(kernel, TERN_LKEY_DMA, addr + 1, 8000, true), Access::kReady);
  EXPECT_EQ(local(user, TERN_LKEY_DMA, addr, 1), Access::kDenied);
  EXPECT_EQ(local(kernel, TERN_LKEY_DMA, addr + 8000, 8000), Access::kDmaError);
  EXPECT_EQ(local(kernel, TERN_LKEY_DMA, UINT64_MAX, 2), Access::kDmaError);
  EXPECT_EQ(remote(kernel, TERN_LKEY_DMA, addr, 1, TERN_ACCESS_REMOTE_READ), Access::kDenied);
  EXPECT_EQ(local(kernel, TERN_LKEY_DMA + 1, addr, 1), Access::kDenied) << "another variant";
}

TEST_F(MemoryTest, HoleInTheMiddleIsADmaError) {
  const Made mr = make(0, 3 * 4096, 0, kAll | TERN_ACCESS_ZERO_BASED);
  host.punch(mr.page[1], 4096);
  EXPECT_EQ(local(user, mr.key, 0, 4096), Access::kReady);
  out.abandon();
  EXPECT_EQ(memory.local(user, {mr.key, 0, 8192, 0}, out, missing), Access::kDmaError);
  out.abandon();
  EXPECT_EQ(host.outstanding(), 0U);
  host.restore(mr.page[1]);
  EXPECT_EQ(local(user, mr.key, 0, 3 * 4096), Access::kReady);
}

TEST_F(MemoryTest, DirectRegion) {
  const std::uint64_t addr = host.alloc(10000);
  tern_cmd_create_mr cmd = command(0x5000, 9000, 100, kAll);
  cmd.pages.addr = addr;
  std::uint32_t key;
  ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK);
  ASSERT_EQ(local(user, key, 0x5000, 9000), Access::kReady);
  EXPECT_EQ(out.pieces()[0].bytes.data(), host.at(addr + 100));
  EXPECT_EQ(local(user, key, 0x5000, 9001), Access::kDenied);
  tern_cmd_update_pages up{.key = key, .flags = TERN_UPDATE_CLOSE};
  ASSERT_EQ(memory.update_pages(up), TERN_ST_OK);
  EXPECT_EQ(local(user, key, 0x5000, 1), Access::kDenied);
  up.pages = list({0x3000});
  EXPECT_EQ(memory.update_pages(up), TERN_ST_BAD_STATE);
  // The largest region, far beyond the end of RAM.
  cmd = command(0, kMaxMrSize, 0, kAll);
  ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK);
  EXPECT_EQ(local(user, key, addr, 10000), Access::kReady);
  EXPECT_EQ(local(user, key, 0x10, 1), Access::kDmaError);
}

TEST_F(MemoryTest, CreationRefuses) {
  const std::vector<std::uint64_t> words = {0x2000, 0x8000};
  tern_cmd_create_mr good = command(0x1000, 8000, 100, kAll);
  good.pages = list(words);
  const std::pair<Status, std::function<void(tern_cmd_create_mr&)>> rows[] = {
      {TERN_ST_NOT_SUPPORTED, [](auto& c) { c.kind = TERN_MR_DM; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.kind = TERN_MR_FAST; }},  // with addresses
      {TERN_ST_BAD_PARAM, [](auto& c) { c.kind = 3; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.flags = 2; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.dmn = 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.access = 1U << 9; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.access = 1U << 31; }},
      {TERN_ST_BAD_PARAM,
       [](auto& c) { c.access |= TERN_ACCESS_ON_DEMAND, c.pages.kind = TERN_PAGES_DIRECT; }},
      {TERN_ST_NOT_SUPPORTED, [](auto& c) { c.access |= TERN_ACCESS_FLUSH_PERSISTENT; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.access = TERN_ACCESS_REMOTE_WRITE; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.access = TERN_ACCESS_REMOTE_ATOMIC; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.access |= TERN_ACCESS_ZERO_BASED; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.iova = UINT64_MAX - 7998; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.length = UINT64_MAX; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.iova = 0, c.length = kMaxMrSize + 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.offset = 4096; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.offset = UINT64_MAX; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.length = 8092 + 1; }},  // needs a third page
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.num = 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.num = 0xffffffff; }},
      {TERN_ST_NO_MEMORY,
       [](auto& c) { c.pages.num = 0xffffffff, c.pages.addr = 0, c.flags = TERN_MR_F_INCOMPLETE; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.offset = 193; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.page_shift = 11; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.page_shift = 14; }},  // 0x2000 is unaligned
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.page_shift = 64; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.kind = 3; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.rsvd_e = 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.addr += 1; }},
      {TERN_ST_DMA_ERROR, [](auto& c) { c.pages.addr = 8; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.flags = TERN_MR_F_INCOMPLETE; }},  // with an address
      {TERN_ST_BAD_PARAM,  // a direct list that wraps
       [](auto& c) { c.pages.kind = TERN_PAGES_DIRECT, c.pages.addr = UINT64_MAX - 8000; }},
      {TERN_ST_BAD_PARAM,
       [](auto& c) { c.pages.kind = TERN_PAGES_DIRECT, c.offset = UINT64_MAX - 5; }},
      {TERN_ST_BAD_PARAM,
       [](auto& c) { c.pages.addr = 0, c.pages.kind = 0, c.flags = TERN_MR_F_INCOMPLETE; }},
      {TERN_ST_BAD_PARAM,
       [](auto& c) { c.pages.addr = 0, c.pages.kind = 2, c.flags = TERN_MR_F_INCOMPLETE; }},
      {TERN_ST_BAD_PARAM,
       [](auto& c) { c.pages.addr = 0, c.pages.rsvd_e = 1, c.flags = TERN_MR_F_INCOMPLETE; }},
  };
  int row = 0;
  for (const auto& [status, spoil] : rows) {
    tern_cmd_create_mr cmd = good;
    spoil(cmd);
    std::uint32_t key = 0;
    EXPECT_EQ(memory.create_mr(cmd, &key), status) << "row " << row;
    EXPECT_EQ(key, 0U);
    ++row;
  }
  EXPECT_EQ(memory.counts().mr, 0U);
  EXPECT_EQ(memory.counts().page_entries, 0U);
  EXPECT_EQ(memory.users_of(Pdn(7)), 0U);
  std::uint32_t key;
  EXPECT_EQ(memory.create_mr(good, &key), TERN_ST_OK);
  EXPECT_EQ(memory.counts().page_entries, 2U);
}

TEST_F(MemoryTest, LimitOfRegionsAndNewVariants) {
  std::vector<std::uint32_t> keys;
  tern_cmd_create_mr cmd = command(0, 100, 0, 0);
  std::uint32_t key = 0;
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK);
    EXPECT_GE(key >> 8, 2U);
    keys.push_back(key);
  }
  EXPECT_EQ(memory.create_mr(cmd, &key), TERN_ST_NO_RESOURCE);
  // An index gets a new variant each time it is reused, and the step varies.
  std::set<std::uint32_t> steps;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t old = keys[0];
    ASSERT_EQ(memory.destroy_mr(old), TERN_ST_OK);
    EXPECT_EQ(memory.destroy_mr(old), TERN_ST_BAD_HANDLE);
    ASSERT_EQ(memory.create_mr(cmd, &keys[0]), TERN_ST_OK);
    EXPECT_EQ(keys[0] >> 8, old >> 8);
    ASSERT_NE(keys[0], old);
    steps.insert((keys[0] - old) & 0xff);
  }
  EXPECT_GT(steps.size(), 100U);
}

TEST_F(MemoryTest, DestroyedKeysAreDead) {
  const Made mr = make(0, 4096, 0, kAll | TERN_ACCESS_ZERO_BASED);
  EXPECT_EQ(memory.users_of(Pdn(7)), 1U);
  EXPECT_EQ(memory.destroy_mr(mr.key ^ 1), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(memory.destroy_mr(TERN_LKEY_DMA), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(memory.destroy_mr(mr.key), TERN_ST_OK);
  EXPECT_EQ(local(user, mr.key, 0, 1), Access::kDenied);
  EXPECT_EQ(memory.users_of(Pdn(7)), 0U);
  EXPECT_EQ(memory.counts().page_entries, 0U);
}

TEST_F(MemoryTest, IncompleteRegionOpensWithItsLastUpdate) {
  tern_cmd_create_mr cmd = command(0, 4 * 4096, 0, kAll);
  cmd.flags = TERN_MR_F_INCOMPLETE;
  cmd.pages.num = 4;
  cmd.pages.page_shift = 12;
  cmd.pages.kind = TERN_PAGES_LIST;
  std::uint32_t key;
  ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK);
  EXPECT_EQ(memory.counts().page_entries, 4U);
  EXPECT_EQ(local(user, key, 0, 1), Access::kDenied);
  tern_rsp_mr rsp;
  ASSERT_EQ(memory.query(key, &rsp), TERN_ST_OK);
  EXPECT_EQ(rsp.state, TERN_KEY_ST_FREE);

  std::vector<std::uint64_t> words;
  for (int i = 0; i < 4; ++i) words.push_back(host.alloc(4096));
  tern_cmd_update_pages up{.pages = list({words[0], words[1]}), .key = key};
  ASSERT_EQ(memory.update_pages(up), TERN_ST_OK);
  EXPECT_EQ(local(user, key, 0, 1), Access::kDenied) << "not opened yet";
  up.pages = list({words[2], words[3]});
  up.first = 2;
  up.flags = 4;
  EXPECT_EQ(memory.update_pages(up), TERN_ST_BAD_PARAM);
  up.flags = TERN_UPDATE_LAST | TERN_UPDATE_CLOSE;
  EXPECT_EQ(memory.update_pages(up), TERN_ST_BAD_PARAM);
  up.flags = TERN_UPDATE_LAST;
  up.first = 3;
  EXPECT_EQ(memory.update_pages(up), TERN_ST_BAD_PARAM) << "past the end";
  up.first = 2;
  up.key = key ^ 1;
  EXPECT_EQ(memory.update_pages(up), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(local(user, key, 0, 1), Access::kDenied) << "a refused command opens nothing";
  up.key = key;
  ASSERT_EQ(memory.update_pages(up), TERN_ST_OK);
  EXPECT_EQ(local(user, key, 0, 4 * 4096), Access::kReady);

  up = {};
  up.key = key;
  up.flags = TERN_UPDATE_CLOSE;
  ASSERT_EQ(memory.update_pages(up), TERN_ST_OK);
  EXPECT_EQ(local(user, key, 0, 1), Access::kDenied);
  up.flags = TERN_UPDATE_LAST;
  ASSERT_EQ(memory.update_pages(up), TERN_ST_OK);
  EXPECT_EQ(local(user, key, 0, 1), Access::kReady);
}

TEST_F(MemoryTest, AbsentPagesOfAnOpenKeyAreDmaErrors) {
  tern_cmd_create_mr cmd = command(0, 2 * 4096, 0, kAll);
  cmd.flags = TERN_MR_F_INCOMPLETE;
  cmd.pages.num = 2;
  cmd.pages.page_shift = 12;
  cmd.pages.kind = TERN_PAGES_LIST;
  std::uint32_t key;
  ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK);
  tern_cmd_update_pages up{
      .pages = list({host.alloc(4096)}), .key = key, .flags = TERN_UPDATE_LAST};
  ASSERT_EQ(memory.update_pages(up), TERN_ST_OK);
  EXPECT_EQ(local(user, key, 0, 4096), Access::kReady);
  EXPECT_EQ(local(user, key, 4096, 1), Access::kDmaError);
}

TEST_F(MemoryTest, SixtyFourGigabytesOfSmallPages) {
  constexpr std::uint64_t kPages = 16 << 20;
  tern_cmd_create_mr cmd = command(0x7f0000000000, kPages << 12, 0, kAll);
  cmd.flags = TERN_MR_F_INCOMPLETE;
  cmd.pages.num = kPages;
  cmd.pages.page_shift = 12;
  cmd.pages.kind = TERN_PAGES_LIST;
  std::uint32_t key;
  ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK);
  // Every entry refers to the same page; each command brings as many entries as it may.
  constexpr std::uint64_t kStep = kMaxCmdPages;
  const std::uint64_t page = host.alloc(4096);
  const tern_pages chunk = list(std::vector<std::uint64_t>(TERN_PAGES_CHUNK, page));
  tern_cmd_update_pages up{};
  up.pages = list(std::vector<std::uint64_t>(kStep / TERN_PAGES_CHUNK, chunk.addr));
  up.pages.num = kStep;
  up.pages.kind = TERN_PAGES_INDIRECT;
  up.key = key;
  for (std::uint64_t i = 0; i < kPages; i += kStep) {
    up.first = i;
    up.flags = i + kStep == kPages ? TERN_UPDATE_LAST : 0;
    ASSERT_EQ(memory.update_pages(up), TERN_ST_OK);
  }
  EXPECT_EQ(memory.counts().page_entries, kPages);
  EXPECT_EQ(local(user, key, cmd.iova + cmd.length - 100, 100), Access::kReady);
  EXPECT_EQ(out.pieces()[0].bytes.data(), host.at(page + 4096 - 100));
  EXPECT_EQ(local(user, key, cmd.iova + cmd.length - 100, 101), Access::kDenied);
}

// The bits of each entry decide which page is missing; an access that has to wait maps nothing.
TEST_F(MemoryTest, AbsentPagesOfOnDemandRegions) {
  std::vector<std::uint64_t> pages;
  for (int i = 0; i < 4; ++i) pages.push_back(host.alloc(4096));
  tern_cmd_create_mr cmd = command(0x10000, 4 * 4096 - 100, 100, kAll | TERN_ACCESS_ON_DEMAND);
  cmd.pages = list({pages[0] | TERN_PAGE_READ | TERN_PAGE_WRITE, pages[1] | TERN_PAGE_READ,
                    pages[2] | TERN_PAGE_WRITE, pages[3] | TERN_PAGE_READ | TERN_PAGE_WRITE});
  std::uint32_t key;
  ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK);
  const std::uint64_t second = 0x10000 + 4096 - 100;
  EXPECT_EQ(local(user, key, 0x10000, 2 * 4096 - 100), Access::kReady);
  EXPECT_EQ(out.pieces()[0].bytes.data(), host.at(pages[0] + 100)) << "the bits are no address";
  EXPECT_EQ(local(user, key, 0x10000, 3 * 4096 - 100), Access::kPending);
  EXPECT_EQ(missing.addr, second + 4096) << "writable alone is absent";
  EXPECT_EQ(missing.length, 4096U);
  EXPECT_EQ(missing.key, key);
  EXPECT_FALSE(missing.write);
  EXPECT_EQ(local(user, key, second - 6, 8, true), Access::kPending);
  EXPECT_EQ(missing.addr, second);
  EXPECT_EQ(missing.length, 2U);
  EXPECT_TRUE(missing.write);
  EXPECT_EQ(remote(user, key, second + 8192, 4096, TERN_ACCESS_REMOTE_ATOMIC), Access::kReady);
  EXPECT_EQ(local(user, key, second + 8192, 4097), Access::kDenied) << "the end of the region";
  // Other bits are invalid.
  cmd.pages = list({pages[0] | 4, pages[1], pages[2], pages[3]});
  EXPECT_EQ(memory.create_mr(cmd, &key), TERN_ST_BAD_PARAM);
}

TEST_F(MemoryTest, EntriesOfAllRegionsAreBounded) {
  tern_cmd_create_mr cmd = command(0, kMaxMrSize, 0, kAll);
  cmd.flags = TERN_MR_F_INCOMPLETE;
  cmd.pages.num = kMaxPages;
  cmd.pages.page_shift = 14;
  cmd.pages.kind = TERN_PAGES_LIST;
  std::uint32_t key;
  std::uint32_t other;
  ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK) << "untouched lists cost no memory";
  cmd.length = 4096;
  cmd.pages.num = 1;
  EXPECT_EQ(memory.create_mr(cmd, &other), TERN_ST_NO_MEMORY);
  ASSERT_EQ(memory.destroy_mr(key), TERN_ST_OK);
  EXPECT_EQ(memory.create_mr(cmd, &other), TERN_ST_OK);
}

TEST_F(MemoryTest, QueryAndReset) {
  const Made mr = make(0x1080, 4096, 0x80, kAll);
  tern_rsp_mr rsp;
  ASSERT_EQ(memory.query(mr.key, &rsp), TERN_ST_OK);
  EXPECT_EQ(rsp.iova, 0x1080U);
  EXPECT_EQ(rsp.length, 4096U);
  EXPECT_EQ(rsp.key, mr.key);
  EXPECT_EQ(rsp.pdn, 7U);
  EXPECT_EQ(rsp.access, kAll);
  EXPECT_EQ(rsp.state, TERN_KEY_ST_VALID);
  EXPECT_EQ(rsp.type, 0U);
  EXPECT_EQ(memory.query(mr.key + 1, &rsp), TERN_ST_BAD_HANDLE);
  memory.reset();
  EXPECT_EQ(memory.counts().mr, 0U);
  EXPECT_EQ(memory.counts().page_entries, 0U);
  EXPECT_EQ(memory.users_of(Pdn(7)), 0U);
  EXPECT_EQ(local(user, mr.key, 0x1080, 1), Access::kDenied);
}

TEST_F(MemoryTest, OneMappingForEachPage) {
  const Made mr = make(0, 32 * 4096, 0, kAll | TERN_ACCESS_ZERO_BASED);
  const std::uint64_t before = host.maps;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(local(user, mr.key, 0, 4096), Access::kReady);
  EXPECT_EQ(host.maps - before, 100U);
}

// A region of the whole address space.
TEST_F(MemoryTest, ASparseRegion) {
  tern_cmd_create_mr cmd = command(0, UINT64_MAX, 0, kAll | TERN_ACCESS_ON_DEMAND);
  cmd.pages.page_shift = 12;
  cmd.pages.kind = TERN_PAGES_LIST;
  std::uint32_t key = 0;
  EXPECT_EQ(memory.create_mr(cmd, &key), TERN_ST_BAD_PARAM) << "longer than max_mr_size";
  cmd.flags = TERN_MR_F_SPARSE;
  for (const auto change : std::vector<void (*)(tern_cmd_create_mr&)>{
           [](auto& c) { c.access &= ~TERN_ACCESS_ON_DEMAND; }, [](auto& c) { c.pages.num = 1; },
           [](auto& c) { c.pages.addr = 0x1000; }, [](auto& c) { c.offset = 2; },
           [](auto& c) { c.iova = 2; }, [](auto& c) { c.pages.kind = TERN_PAGES_DIRECT; },
           [](auto& c) { c.pages.page_shift = 11; }, [](auto& c) { c.flags |= 4; }}) {
    tern_cmd_create_mr bad = cmd;
    change(bad);
    EXPECT_EQ(memory.create_mr(bad, &key), TERN_ST_BAD_PARAM);
  }
  ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK);
  EXPECT_EQ(local(user, key, 0x7f1234567fff, 100), Access::kPending);
  EXPECT_EQ(missing.addr, 0x7f1234567fffU);
  EXPECT_EQ(missing.length, 100U);
  EXPECT_EQ(local(user, key, UINT64_MAX, 1), Access::kDenied) << "the length is one byte less";
  const std::uint64_t page = host.alloc(4096);
  tern_cmd_update_pages update{
      .pages = list({on(page), on(page)}), .first = 0x7f1234567, .key = key};
  ASSERT_EQ(memory.update_pages(update), TERN_ST_OK);
  constexpr std::uint64_t kNodes = 6;  // the block and the way to it
  EXPECT_EQ(memory.counts().page_entries, kNodes * TERN_PAGES_CHUNK);
  EXPECT_EQ(local(user, key, 0x7f1234567fff, 100, true), Access::kReady);
  EXPECT_EQ(remote(user, key, 0x7f1234567fff, 100, TERN_ACCESS_REMOTE_WRITE), Access::kReady);
  update.pages.addr = 0;
  update.flags = TERN_UPDATE_ABSENT;
  ASSERT_EQ(memory.update_pages(update), TERN_ST_OK);
  EXPECT_EQ(local(user, key, 0x7f1234567fff, 100, true), Access::kPending);
  EXPECT_EQ(memory.counts().page_entries, 0U);
  update.pages.addr = 0x1000;
  EXPECT_EQ(memory.update_pages(update), TERN_ST_BAD_PARAM);
  ASSERT_EQ(memory.destroy_mr(key), TERN_ST_OK);
  EXPECT_EQ(budget.held(), 0U);
}

TEST_F(MemoryTest, TheNullKeyReadsZerosAndDiscards) {
  const std::uint64_t len = 200000;  // more than the memory behind it
  EXPECT_EQ(local(user, TERN_LKEY_NULL, 0xdead0000beef, len, true), Access::kReady);
  for (const auto& piece : out.pieces()) std::ranges::fill(piece.bytes, std::byte{0x55});
  EXPECT_EQ(local(user, TERN_LKEY_NULL, 0, len), Access::kReady);
  for (const auto& piece : out.pieces()) {
    EXPECT_TRUE(std::ranges::all_of(piece.bytes, [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(local(user, TERN_LKEY_NULL, UINT64_MAX, 2), Access::kDenied) << "wraps";
  EXPECT_EQ(local(user, TERN_LKEY_NULL | 1, 0, 1), Access::kDenied) << "another variant";
  EXPECT_EQ(remote(user, TERN_LKEY_NULL, 0, 1, TERN_ACCESS_REMOTE_READ), Access::kDenied);
}

}  // namespace
}  // namespace tern
