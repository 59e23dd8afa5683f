// SPDX-License-Identifier: GPL-2.0-or-later
// REREG_MR: changes everything in the mask, or nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "core/limits.h"
#include "memory/memory.h"
#include "tests/fake_host.h"

namespace tern {
namespace {

constexpr std::uint32_t kAll = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                               TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC;
constexpr std::uint64_t kIova = 0x40000000;
constexpr std::uint64_t kNewIova = 0x90000000;

class ReregTest : public testing::Test {
 protected:
  FakeHost host;
  PageBudget budget{kMaxPages};
  Memory memory{host, budget, 8};
  SpanList out{host};
  Memory::Missing missing;
  const Accessor user{Pdn(7), false, Qpn(2)};
  const Accessor other{Pdn(8), false, Qpn(3)};
  const std::vector<std::uint64_t> old_pages = {host.alloc(4096), host.alloc(4096)};
  const std::vector<std::uint64_t> new_pages = {host.alloc(4096), host.alloc(4096),
                                                host.alloc(4096)};
  const std::uint32_t key = make(kAll);

  tern_pages list(const std::vector<std::uint64_t>& words) {
    tern_pages p{.addr = host.alloc(words.size() * 8),
                 .num = static_cast<std::uint32_t>(words.size()),
                 .page_shift = 12,
                 .kind = TERN_PAGES_LIST};
    std::memcpy(host.at(p.addr), words.data(), words.size() * 8);
    return p;
  }
  std::uint32_t make(std::uint32_t access, std::uint8_t flags = 0) {
    tern_cmd_create_mr c{};
    c.pages = list(old_pages);
    if (flags & TERN_MR_F_INCOMPLETE) c.pages.addr = 0;
    c.iova = kIova;
    c.length = 8000;
    c.offset = 10;
    c.pdn = 7;
    c.access = access;
    c.flags = flags;
    std::uint32_t made = 0;
    EXPECT_EQ(memory.create_mr(c, &made), TERN_ST_OK);
    return made;
  }
  tern_cmd_rereg_mr command(std::uint32_t mask) {
    tern_cmd_rereg_mr c{.pages = list(new_pages),
                        .iova = kNewIova,
                        .length = 12000,
                        .offset = 20,
                        .key = key,
                        .mask = mask,
                        .pdn = 8,
                        .access = TERN_ACCESS_REMOTE_READ};
    return c;
  }
  Access local(const Accessor& who, std::uint64_t addr, std::uint64_t len, bool write = false) {
    out.abandon();
    return memory.local(who, {key, addr, len, write ? TERN_ACCESS_LOCAL_WRITE : std::uint32_t{0}},
                        out, missing);
  }
  const std::byte* at(std::uint64_t addr, const Accessor& who) {
    return local(who, addr, 1) == Access::kReady ? out.pieces()[0].bytes.data() : nullptr;
  }
  tern_rsp_mr query() {
    tern_rsp_mr rsp{};
    EXPECT_EQ(memory.query(key, &rsp), TERN_ST_OK);
    return rsp;
  }
};

TEST_F(ReregTest, EveryCombination) {
  for (std::uint32_t mask = 0; mask < 8; ++mask) {
    SCOPED_TRACE(mask);
    const bool trans = mask & TERN_REREG_TRANS;
    const bool pd = mask & TERN_REREG_PD;
    const bool access = mask & TERN_REREG_ACCESS;
    tern_cmd_rereg_mr back = command(7);
    back.pages = list(old_pages);
    back.iova = kIova;
    back.length = 8000;
    back.offset = 10;
    back.pdn = 7;
    back.access = kAll;
    ASSERT_EQ(memory.rereg_mr(back), TERN_ST_OK);
    ASSERT_EQ(memory.rereg_mr(command(mask)), TERN_ST_OK);
    const Accessor& owner = pd ? other : user;
    EXPECT_EQ(local(pd ? user : other, trans ? kNewIova : kIova, 1), Access::kDenied);
    const std::uint64_t iova = trans ? kNewIova : kIova;
    const std::uint64_t length = trans ? 12000 : 8000;
    EXPECT_EQ(at(iova, owner), host.at(trans ? new_pages[0] + 20 : old_pages[0] + 10));
    EXPECT_EQ(at(iova + length - 1, owner),
              host.at(trans ? new_pages[2] + 12019 - 8192 : old_pages[1] + 8009 - 4096));
    EXPECT_EQ(local(owner, iova, length), Access::kReady);
    EXPECT_EQ(local(owner, iova, length + 1), Access::kDenied);
    EXPECT_EQ(local(owner, iova - 1, 1), Access::kDenied);
    EXPECT_EQ(local(owner, iova, 8, true), access ? Access::kDenied : Access::kReady);
    out.abandon();
    EXPECT_EQ(memory.check_remote(owner, key, iova, 8, TERN_ACCESS_REMOTE_WRITE).access(),
              access ? Access::kDenied : Access::kReady);
    EXPECT_EQ(memory.check_remote(owner, key, iova, 8, TERN_ACCESS_REMOTE_READ).access(),
              Access::kReady);
    const tern_rsp_mr rsp = query();
    EXPECT_EQ(rsp.key, key) << "the key stays";
    EXPECT_EQ(rsp.iova, iova);
    EXPECT_EQ(rsp.length, length);
    EXPECT_EQ(rsp.pdn, owner.pd.value);
    EXPECT_EQ(rsp.access, access ? TERN_ACCESS_REMOTE_READ : kAll);
    EXPECT_EQ(memory.counts().page_entries, trans ? 3U : 2U);
    EXPECT_EQ(memory.users_of(Pdn(7)), pd ? 0U : 1U);
    EXPECT_EQ(memory.users_of(Pdn(8)), pd ? 1U : 0U);
  }
}

TEST_F(ReregTest, WhatTheMaskDoesNotNameIsNotLookedAt) {
  tern_cmd_rereg_mr c = command(0);
  c.pages.addr = 1;
  c.pages.kind = 99;
  c.iova = UINT64_MAX;
  c.length = UINT64_MAX;
  c.offset = UINT64_MAX;
  c.pdn = 0;
  c.access = 0xffffffff;
  c.flags = 0xff;
  EXPECT_EQ(memory.rereg_mr(c), TERN_ST_OK);
  EXPECT_EQ(local(user, kIova, 8000, true), Access::kReady);
  out.abandon();
}

TEST_F(ReregTest, RefusalsChangeNothing) {
  using C = tern_cmd_rereg_mr;
  const tern_rsp_mr before = query();
  const std::pair<Status, std::function<void(C&)>> rows[] = {
      {TERN_ST_BAD_HANDLE, [](C& c) { c.key ^= 1; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.key += 0x100; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.key = TERN_LKEY_DMA; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.key = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.mask |= 8; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.mask |= 1U << 31; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = 2; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.access = TERN_ACCESS_REMOTE_WRITE; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.access = TERN_ACCESS_REMOTE_ATOMIC; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.access = 1U << 9; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.access = TERN_ACCESS_ZERO_BASED; }},
      {TERN_ST_BAD_PARAM,
       [](C& c) { c.access = TERN_ACCESS_ZERO_BASED, c.mask = TERN_REREG_ACCESS; }},
      {TERN_ST_BAD_PARAM,
       [](C& c) { c.access = TERN_ACCESS_ON_DEMAND, c.mask = TERN_REREG_ACCESS; }},
      {TERN_ST_NOT_SUPPORTED, [](C& c) { c.access = TERN_ACCESS_FLUSH_PERSISTENT; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.iova = UINT64_MAX - 11998; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.length = kMaxMrSize + 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.offset = 4096; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.length = 3 * 4096 - 19; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.num = 2; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.num = 0xffffffff; }},
      {TERN_ST_NO_MEMORY,
       [](C& c) { c.pages.num = 0xffffffff, c.pages.addr = 0, c.flags = TERN_MR_F_INCOMPLETE; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.page_shift = 11; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.kind = 3; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.addr += 4; }},
      {TERN_ST_DMA_ERROR, [](C& c) { c.pages.addr = 8; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = TERN_MR_F_INCOMPLETE; }},  // with an address
  };
  int row = 0;
  for (const auto& [status, spoil] : rows) {
    C c = command(7);
    spoil(c);
    EXPECT_EQ(memory.rereg_mr(c), status) << "row " << row;
    const tern_rsp_mr after = query();
    EXPECT_EQ(std::memcmp(&before, &after, sizeof(before)), 0) << "row " << row;
    EXPECT_EQ(at(kIova, user), host.at(old_pages[0] + 10)) << "row " << row;
    EXPECT_EQ(local(user, kIova, 8000, true), Access::kReady) << "row " << row;
    out.abandon();
    ++row;
  }
  EXPECT_EQ(memory.counts().page_entries, 2U);
  EXPECT_EQ(memory.users_of(Pdn(7)), 1U);
  EXPECT_EQ(memory.users_of(Pdn(8)), 0U);
}

TEST_F(ReregTest, IncompleteListComesByUpdatePages) {
  tern_cmd_rereg_mr c = command(TERN_REREG_TRANS);
  c.flags = TERN_MR_F_INCOMPLETE;
  c.pages.addr = 0;
  ASSERT_EQ(memory.rereg_mr(c), TERN_ST_OK);
  EXPECT_EQ(query().state, TERN_KEY_ST_FREE);
  EXPECT_EQ(local(user, kNewIova, 1), Access::kDenied) << "closed";
  EXPECT_EQ(local(user, kIova, 1), Access::kDenied);
  tern_cmd_update_pages up{.pages = list(new_pages), .key = key, .flags = TERN_UPDATE_LAST};
  ASSERT_EQ(memory.update_pages(up), TERN_ST_OK);
  EXPECT_EQ(at(kNewIova, user), host.at(new_pages[0] + 20));
  EXPECT_EQ(memory.counts().page_entries, 3U);
}

TEST_F(ReregTest, OpensAndKeepsClosed) {
  const std::uint32_t closed = make(kAll, TERN_MR_F_INCOMPLETE);
  tern_cmd_rereg_mr c = command(TERN_REREG_ACCESS);
  c.key = closed;
  ASSERT_EQ(memory.rereg_mr(c), TERN_ST_OK);
  EXPECT_EQ(memory.local(user, {closed, kIova, 1, 0}, out, missing), Access::kDenied)
      << "still closed";
  c.mask = TERN_REREG_TRANS;
  ASSERT_EQ(memory.rereg_mr(c), TERN_ST_OK);
  EXPECT_EQ(memory.local(user, {closed, kNewIova, 1, 0}, out, missing), Access::kReady);
  out.abandon();
}

TEST_F(ReregTest, ZeroBasedRegionsStayZeroBased) {
  tern_cmd_rereg_mr c = command(TERN_REREG_TRANS | TERN_REREG_ACCESS);
  c.iova = 0;
  c.access = TERN_ACCESS_ZERO_BASED | TERN_ACCESS_LOCAL_WRITE;
  ASSERT_EQ(memory.rereg_mr(c), TERN_ST_OK);
  EXPECT_EQ(at(0, user), host.at(new_pages[0] + 20));
  c.mask = TERN_REREG_TRANS;
  c.iova = 4096;
  EXPECT_EQ(memory.rereg_mr(c), TERN_ST_BAD_PARAM);
  EXPECT_EQ(at(0, user), host.at(new_pages[0] + 20));
}

TEST_F(ReregTest, DirectAndBack) {
  const std::uint64_t memory_at = host.alloc(20000);
  tern_cmd_rereg_mr c = command(TERN_REREG_TRANS);
  c.pages = {};
  c.pages.addr = memory_at;
  c.offset = 5000;
  c.length = 15000;
  ASSERT_EQ(memory.rereg_mr(c), TERN_ST_OK);
  EXPECT_EQ(memory.counts().page_entries, 0U);
  EXPECT_EQ(at(kNewIova + 14999, user), host.at(memory_at + 19999));
  ASSERT_EQ(memory.rereg_mr(command(TERN_REREG_TRANS)), TERN_ST_OK);
  EXPECT_EQ(memory.counts().page_entries, 3U);
}

// Old and new list both count while the new one is loaded, since both exist then.
TEST_F(ReregTest, EntriesOfAllRegionsAreLimited) {
  tern_cmd_create_mr big{};
  const std::uint64_t before = budget.held();
  big.pages.num = static_cast<std::uint32_t>(kMaxPages - before - 2);
  big.pages.page_shift = 12;
  big.pages.kind = TERN_PAGES_LIST;
  big.pdn = 7;
  big.flags = TERN_MR_F_INCOMPLETE;
  std::uint32_t all = 0;
  ASSERT_EQ(memory.create_mr(big, &all), TERN_ST_OK);
  EXPECT_EQ(memory.rereg_mr(command(TERN_REREG_TRANS)), TERN_ST_NO_MEMORY);
  EXPECT_EQ(budget.held(), kMaxPages - 2);
  tern_cmd_rereg_mr c = command(TERN_REREG_TRANS);
  c.pages.num = 2;
  c.length = 8000;
  EXPECT_EQ(memory.rereg_mr(c), TERN_ST_OK);
  EXPECT_EQ(memory.destroy_mr(all), TERN_ST_OK);
  EXPECT_EQ(memory.rereg_mr(command(TERN_REREG_TRANS)), TERN_ST_OK);
  EXPECT_EQ(budget.held(), memory.counts().page_entries);
  memory.reset();
  EXPECT_EQ(budget.held(), 0U);
}

TEST_F(ReregTest, OtherKindsOfRegion) {
  tern_cmd_create_mr fast{};
  fast.pages.num = 4;
  fast.pdn = 7;
  fast.kind = TERN_MR_FAST;
  tern_cmd_rereg_mr c = command(TERN_REREG_ACCESS);
  ASSERT_EQ(memory.create_mr(fast, &c.key), TERN_ST_OK);
  EXPECT_EQ(memory.rereg_mr(c), TERN_ST_BAD_STATE);
  c.key ^= 1;
  EXPECT_EQ(memory.rereg_mr(c), TERN_ST_BAD_STATE) << "any variant names it";
}

}  // namespace
}  // namespace tern
