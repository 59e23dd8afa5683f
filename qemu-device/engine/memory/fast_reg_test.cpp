// SPDX-License-Identifier: GPL-2.0-or-later
// Regions of kind FAST: what REG_MR accepts, what invalidation closes, and what remains afterwards.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/limits.h"
#include "memory/memory.h"
#include "tests/fake_host.h"

namespace tern {
namespace {

constexpr std::uint32_t kRemote = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                                  TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC;
constexpr std::uint64_t kIova = 0x7f0000000123;

class FastReg : public testing::Test {
 protected:
  FakeHost host;
  PageBudget budget{kMaxPages};
  Memory memory{host, budget, 8};
  SpanList out{host};
  Memory::Missing missing;
  const Accessor kernel{Pdn(8), true, Qpn(3)};
  const Accessor other{Pdn(9), true, Qpn(4)};
  const Accessor user{Pdn(8), false, Qpn(5)};

  static tern_cmd_create_mr command(std::uint32_t entries) {
    tern_cmd_create_mr cmd{};
    cmd.pages.num = le(entries);
    cmd.pdn = le(std::uint32_t{8});
    cmd.kind = TERN_MR_FAST;
    return cmd;
  }
  std::uint32_t create(std::uint32_t entries) {
    std::uint32_t key = 0;
    EXPECT_EQ(memory.create_mr(command(entries), &key), TERN_ST_OK);
    return key;
  }
  // `page` gets pages that are never adjacent; the segment covers all of them except 0x123 bytes.
  std::vector<std::uint64_t> page;
  tern_reg_seg segment(std::uint32_t key, std::uint32_t pages) {
    page.clear();
    const std::uint64_t list = host.alloc(pages * 8ULL + 8);
    for (std::uint32_t i = 0; i < pages; ++i) {
      page.insert(page.begin(), host.alloc(4096));
      host.alloc(4096);
    }
    for (std::uint32_t i = 0; i < pages; ++i) host.put(list + i * 8ULL, le(page[i]));
    tern_reg_seg seg{.iova = le(kIova),
                     .length = le(pages * std::uint64_t{4096} - 0x123),
                     .pages = le(list),
                     .num_pages = le(pages),
                     .key = le(key),
                     .access = le(kRemote),
                     .page_shift = 12,
                     .first_offset = le(std::uint64_t{0x123})};
    return seg;
  }
  Access use(const Accessor& who, std::uint32_t key, std::uint64_t addr, std::uint64_t len) {
    out.abandon();
    const Access a = memory.remote(who, {key, addr, len, TERN_ACCESS_REMOTE_WRITE}, out, missing);
    EXPECT_EQ(memory.check_remote(who, key, addr, len, TERN_ACCESS_REMOTE_WRITE).access(), a);
    std::uint64_t n = 0;
    for (const auto& p : out.pieces()) n += p.bytes.size();
    EXPECT_EQ(n, a == Access::kReady ? len : 0);
    return a;
  }
  tern_rsp_mr query(std::uint32_t key) {
    tern_rsp_mr rsp{};
    EXPECT_EQ(memory.query(key, &rsp), TERN_ST_OK);
    return rsp;
  }
  static std::uint32_t variant(std::uint32_t key, std::uint32_t v) { return (key & ~0xffU) | v; }
};

TEST_F(FastReg, BeginsClosed) {
  const std::uint32_t key = create(4);
  EXPECT_EQ(memory.counts().mr, 1U);
  EXPECT_EQ(memory.counts().page_entries, 4U);
  EXPECT_EQ(memory.users_of(Pdn(8)), 1U);
  EXPECT_EQ(use(kernel, key, 0, 1), Access::kDenied);
  EXPECT_EQ(memory.local(kernel, {key, 0, 1, 0}, out, missing), Access::kDenied);
  const tern_rsp_mr q = query(key);
  EXPECT_EQ(q.state, TERN_KEY_ST_FREE);
  EXPECT_EQ(le(q.key), key);
  EXPECT_EQ(le(q.pdn), 8U);
  EXPECT_EQ(memory.destroy_mr(key), TERN_ST_OK);
  EXPECT_EQ(memory.counts().page_entries, 0U);
  EXPECT_EQ(memory.users_of(Pdn(8)), 0U);
}

TEST_F(FastReg, CreationTakesEntriesAndNothingElse) {
  const std::pair<Status, std::function<void(tern_cmd_create_mr&)>> rows[] = {
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.num = le(kMaxFastRegPages + 1); }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.num = 0xffffffff; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.addr = 8; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.page_shift = 12; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.kind = TERN_PAGES_LIST; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.rsvd_e = 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.iova = 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.length = 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.offset = 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.access = TERN_ACCESS_LOCAL_WRITE; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.dmn = 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.flags = TERN_MR_F_INCOMPLETE; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.rsvd_36 = 1; }},
  };
  int row = 0;
  for (const auto& [status, spoil] : rows) {
    tern_cmd_create_mr cmd = command(4);
    spoil(cmd);
    std::uint32_t key = 0;
    EXPECT_EQ(memory.create_mr(cmd, &key), status) << "row " << row;
    ++row;
  }
  EXPECT_EQ(memory.counts().mr, 0U);
  EXPECT_EQ(memory.counts().page_entries, 0U);
  for (int i = 0; i < 8; ++i) (void)create(kMaxFastRegPages);
  std::uint32_t key;
  EXPECT_EQ(memory.create_mr(command(1), &key), TERN_ST_NO_RESOURCE);
}

TEST_F(FastReg, OpensWhatTheSegmentNames) {
  const std::uint32_t first = create(4);
  for (const std::uint32_t v : {0U, 255U, 7U, 7U}) {
    const std::uint32_t key = variant(first, v);
    const tern_reg_seg seg = segment(key, 3);
    const std::uint64_t len = 3 * 4096 - 0x123;
    ASSERT_EQ(memory.register_fast(kernel, seg), Access::kReady);
    ASSERT_EQ(use(kernel, key, kIova, len), Access::kReady);
    EXPECT_EQ(out.pieces()[0].bytes.data(), host.at(page[0] + 0x123));
    EXPECT_EQ(out.pieces()[1].bytes.data(), host.at(page[1]));
    EXPECT_EQ(out.pieces()[2].bytes.data(), host.at(page[2]));
    EXPECT_EQ(use(kernel, key, kIova - 1, 1), Access::kDenied);
    EXPECT_EQ(use(kernel, key, kIova, len + 1), Access::kDenied);
    EXPECT_EQ(use(kernel, key, kIova + len, 1), Access::kDenied);
    EXPECT_EQ(use(other, key, kIova, 1), Access::kDenied);
    for (std::uint32_t w = 0; w < 256; ++w) {
      if (w == v) continue;
      EXPECT_EQ(use(kernel, variant(key, w), kIova, 1), Access::kDenied);
    }
    const tern_rsp_mr q = query(first);  // any variant
    EXPECT_EQ(q.state, TERN_KEY_ST_VALID);
    EXPECT_EQ(le(q.key), key);
    EXPECT_EQ(le(q.iova), kIova);
    EXPECT_EQ(le(q.length), len);
    EXPECT_EQ(le(q.access), kRemote);
    // The device copied the list: later changes to it have no effect.
    host.put(le(std::uint64_t{seg.pages}), ~std::uint64_t{0});
    EXPECT_EQ(use(kernel, key, kIova, len), Access::kReady);
    ASSERT_TRUE(memory.invalidate_local(kernel, key));
    EXPECT_EQ(use(kernel, key, kIova, 1), Access::kDenied);
    EXPECT_EQ(query(key).state, TERN_KEY_ST_FREE);
  }
  EXPECT_EQ(memory.counts().page_entries, 4U);
  out.abandon();
  EXPECT_EQ(host.outstanding(), 0U);
}

TEST_F(FastReg, LargePages) {
  const std::uint32_t key = create(1);
  const std::uint64_t dma = host.alloc(3 << 16);
  const std::uint64_t big = (dma + 0xffff) & ~std::uint64_t{0xffff};
  tern_reg_seg seg = segment(key, 1);
  host.put(le(std::uint64_t{seg.pages}), le(big));
  seg.page_shift = 16;
  seg.first_offset = le(std::uint64_t{0xfff0});
  seg.length = le(std::uint64_t{16});
  ASSERT_EQ(memory.register_fast(kernel, seg), Access::kReady);
  ASSERT_EQ(use(kernel, key, kIova, 16), Access::kReady);
  EXPECT_EQ(out.pieces()[0].bytes.data(), host.at(big + 0xfff0));
}

TEST_F(FastReg, NothingAtAll) {
  const std::uint32_t key = create(0);
  tern_reg_seg seg{.key = le(key), .page_shift = 12};
  ASSERT_EQ(memory.register_fast(kernel, seg), Access::kReady);
  EXPECT_EQ(use(kernel, key, 0, 1), Access::kDenied);
  EXPECT_TRUE(memory.invalidate_local(kernel, key));
}

TEST_F(FastReg, RefusesBadSegments) {
  const std::uint32_t key = create(3);
  const tern_reg_seg good = segment(key, 2);
  using Seg = tern_reg_seg;
  const std::pair<Access, std::function<void(Seg&)>> rows[] = {
      {Access::kDenied, [](Seg& s) { s.key = le(std::uint32_t{TERN_LKEY_DMA}); }},
      {Access::kDenied, [](Seg& s) { s.key = 0; }},
      {Access::kDenied, [](Seg& s) { s.key = 0xffffffff; }},
      {Access::kDenied, [](Seg& s) { s.num_pages = le(4U); }},
      {Access::kDenied, [](Seg& s) { s.num_pages = 0xffffffff; }},
      {Access::kDenied, [](Seg& s) { s.num_pages = le(1U); }},
      {Access::kDenied, [](Seg& s) { s.num_pages = 0; }},
      {Access::kDenied, [](Seg& s) { s.page_shift = 11; }},
      {Access::kDenied, [](Seg& s) { s.page_shift = 32; }},
      {Access::kDenied, [](Seg& s) { s.page_shift = 255; }},
      {Access::kDenied, [](Seg& s) { s.page_shift = 20; }},  // not aligned to this page size
      {Access::kDenied, [](Seg& s) { s.pages = le(le(std::uint64_t{s.pages}) + 1); }},
      {Access::kDmaError, [](Seg& s) { s.pages = le(std::uint64_t{8}); }},
      {Access::kDmaError, [](Seg& s) { s.pages = le(~std::uint64_t{7}); }},
      {Access::kDenied, [](Seg& s) { s.first_offset = le(std::uint64_t{4096}); }},
      {Access::kDenied, [](Seg& s) { s.first_offset = ~std::uint64_t{0}; }},
      {Access::kDenied, [](Seg& s) { s.first_offset = le(std::uint64_t{0x124}); }},
      {Access::kDenied, [](Seg& s) { s.length = ~std::uint64_t{0}; }},
      {Access::kDenied, [](Seg& s) { s.length = le(kMaxMrSize + 1); }},
      {Access::kDenied, [](Seg& s) { s.iova = le(~std::uint64_t{0} - 7899); }},
      {Access::kDenied, [](Seg& s) { s.access = le(std::uint32_t{TERN_ACCESS_REMOTE_WRITE}); }},
      {Access::kDenied, [](Seg& s) { s.access |= le(std::uint32_t{TERN_ACCESS_ZERO_BASED}); }},
      {Access::kDenied, [](Seg& s) { s.access |= le(std::uint32_t{TERN_ACCESS_ON_DEMAND}); }},
      {Access::kDenied,
       [](Seg& s) { s.access |= le(std::uint32_t{TERN_ACCESS_FLUSH_PERSISTENT}); }},
      {Access::kDenied, [](Seg& s) { s.access |= le(1U << 31); }},
      {Access::kDenied, [](Seg& s) { s.rsvd_25[0] = 1; }},
      {Access::kDenied, [](Seg& s) { s.rsvd_25[2] = 0x80; }},
  };
  int row = 0;
  for (const auto& [want, spoil] : rows) {
    tern_reg_seg seg = good;
    spoil(seg);
    EXPECT_EQ(memory.register_fast(kernel, seg), want) << "row " << row;
    EXPECT_EQ(query(key).state, TERN_KEY_ST_FREE);
    EXPECT_EQ(use(kernel, key, kIova, 1), Access::kDenied);
    ++row;
  }
  EXPECT_EQ(memory.register_fast(user, good), Access::kDenied) << "not privileged";
  EXPECT_EQ(memory.register_fast(other, good), Access::kDenied) << "another PD";
  EXPECT_EQ(memory.register_fast(kernel, good), Access::kReady);
  EXPECT_EQ(memory.register_fast(kernel, good), Access::kDenied) << "open already";
  EXPECT_EQ(use(kernel, key, kIova, 1), Access::kReady);
  out.abandon();
  EXPECT_EQ(host.outstanding(), 0U);
}

TEST_F(FastReg, APageThatIsNoPageNeverGetsUsed) {
  const std::uint32_t key = create(3);
  ASSERT_EQ(memory.register_fast(kernel, segment(key, 3)), Access::kReady);
  ASSERT_TRUE(memory.invalidate_local(kernel, key));
  tern_reg_seg bad = segment(key, 3);
  host.put(le(std::uint64_t{bad.pages}) + 16, le(page[2] + 1));
  EXPECT_EQ(memory.register_fast(kernel, bad), Access::kDenied);
  // A shorter list does not expose the old pages either.
  const tern_reg_seg one = segment(key, 1);
  ASSERT_EQ(memory.register_fast(kernel, one), Access::kReady);
  EXPECT_EQ(use(kernel, key, kIova, 4096 - 0x123), Access::kReady);
  EXPECT_EQ(use(kernel, key, kIova, 4096 - 0x122), Access::kDenied);
}

TEST_F(FastReg, InvalidationNeedsTheValidKeyOfItsDomain) {
  const std::uint32_t key = create(1);
  tern_reg_seg seg = segment(key, 1);
  ASSERT_EQ(memory.register_fast(kernel, seg), Access::kReady);
  for (const std::uint32_t k : {0U, std::uint32_t{TERN_LKEY_DMA}, key ^ 1, key + 0x100, ~0U}) {
    EXPECT_FALSE(memory.invalidate_local(kernel, k)) << k;
    EXPECT_FALSE(memory.invalidate_remote(kernel, k)) << k;
  }
  EXPECT_FALSE(memory.invalidate_local(other, key));
  EXPECT_FALSE(memory.invalidate_remote(other, key));
  EXPECT_EQ(use(kernel, key, kIova, 1), Access::kReady);
  EXPECT_TRUE(memory.invalidate_remote(kernel, key));
  EXPECT_FALSE(memory.invalidate_remote(kernel, key)) << "closed already";
  EXPECT_FALSE(memory.invalidate_local(kernel, key));
  EXPECT_EQ(use(kernel, key, kIova, 1), Access::kDenied);

  // A peer cannot invalidate a region without remote rights.
  seg.access = le(std::uint32_t{TERN_ACCESS_LOCAL_WRITE});
  ASSERT_EQ(memory.register_fast(kernel, seg), Access::kReady);
  EXPECT_FALSE(memory.invalidate_remote(kernel, key));
  EXPECT_EQ(query(key).state, TERN_KEY_ST_VALID);
  EXPECT_TRUE(memory.invalidate_local(kernel, key));
}

TEST_F(FastReg, OtherRegionsCannotBeInvalidated) {
  tern_cmd_create_mr cmd{};
  cmd.pages.addr = le(host.alloc(4096));
  cmd.length = le(std::uint64_t{4096});
  cmd.pdn = le(std::uint32_t{8});
  cmd.access = le(kRemote);
  std::uint32_t key = 0;
  ASSERT_EQ(memory.create_mr(cmd, &key), TERN_ST_OK);
  EXPECT_FALSE(memory.invalidate_local(kernel, key));
  EXPECT_FALSE(memory.invalidate_remote(kernel, key));
  tern_reg_seg seg = segment(key, 1);
  EXPECT_EQ(memory.register_fast(kernel, seg), Access::kDenied);
  EXPECT_EQ(use(kernel, key, 0, 4096), Access::kReady);
}

TEST_F(FastReg, PagesAreRegMrsAlone) {
  const std::uint32_t key = create(1);
  tern_cmd_update_pages up{.key = le(key), .flags = le(std::uint32_t{TERN_UPDATE_LAST})};
  EXPECT_EQ(memory.update_pages(up), TERN_ST_BAD_STATE);
  EXPECT_EQ(query(key).state, TERN_KEY_ST_FREE);
  ASSERT_EQ(memory.register_fast(kernel, segment(key, 1)), Access::kReady);
  up.flags = le(std::uint32_t{TERN_UPDATE_CLOSE});
  EXPECT_EQ(memory.update_pages(up), TERN_ST_BAD_STATE);
  EXPECT_EQ(query(key).state, TERN_KEY_ST_VALID);
}

// Software need not know which of its REG_MRs executed before the QP failed.
TEST_F(FastReg, DestroyedOpenUnderAnyVariant) {
  const std::uint32_t key = create(2);
  const std::uint32_t open = variant(key, (key + 9) & 0xff);
  ASSERT_EQ(memory.register_fast(kernel, segment(open, 2)), Access::kReady);
  EXPECT_EQ(memory.destroy_mr(key + 0x100), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(memory.destroy_mr(variant(key, (key + 77) & 0xff)), TERN_ST_OK);
  EXPECT_EQ(use(kernel, open, kIova, 1), Access::kDenied);
  EXPECT_EQ(memory.counts().mr, 0U);
  EXPECT_EQ(memory.counts().page_entries, 0U);
  EXPECT_EQ(memory.destroy_mr(key), TERN_ST_BAD_HANDLE);
}

// The next region of an index must not get the variant that was valid last.
TEST_F(FastReg, TheLastVariantIsNotGivenOutNext) {
  Memory one(host, budget, 1);
  const auto make = [&] {
    std::uint32_t key = 0;
    EXPECT_EQ(one.create_mr(command(1), &key), TERN_ST_OK);
    return key;
  };
  std::uint32_t key = make();
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t last = variant(key, static_cast<std::uint32_t>(host.random()) & 0xff);
    tern_reg_seg seg{.key = le(last), .page_shift = 12};
    ASSERT_EQ(one.register_fast(kernel, seg), Access::kReady);
    ASSERT_EQ(one.destroy_mr(last), TERN_ST_OK);
    key = make();
    ASSERT_NE(key, last);
    ASSERT_EQ(key >> 8, last >> 8);
  }
}

}  // namespace
}  // namespace tern
