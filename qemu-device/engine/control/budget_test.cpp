// SPDX-License-Identifier: GPL-2.0-or-later
// Limits of what a hostile driver can make the device hold and do: Documentation/spec/limits.rst.
#include <gtest/gtest.h>
#include <malloc.h>

#include <vector>

#include "control/admin_fixture.h"

namespace tern {
namespace {

// A device with the default limits, except for a page budget that the test can afford to fill.
constexpr std::uint64_t kPages = 1 << 20;

class BudgetTest : public AdminTest {
 protected:
  static Config budget_config(FakeHost& host) {
    Config c;
    c.mac = admin_test_config().mac;
    c.dm = host.make_dm(kDmBytes);
    c.max_pages = kPages;
    return c;
  }
  Device hostile{host, budget_config(host)};
  std::uint32_t hostile_tail = 0;
  tern_acq_entry answer{};

  void start() {
    std::memset(host.at(acq), 0, kEntries * sizeof(tern_acq_entry));
    configure(hostile);
    hostile_tail = 0;
  }
  // Runs one command and returns its status.
  Status order(const tern_aq_entry& e) {
    host.put(aq + hostile_tail % kEntries * sizeof(e), e);
    const std::uint32_t slot = hostile_tail % kEntries;
    hostile.reg_write(TERN_REG_AQ_TAIL, ++hostile_tail);
    while (hostile.run(1 << 20)) {
    }
    answer = host.get<tern_acq_entry>(acq + slot * sizeof(answer));
    return answer.status;
  }
  template <class In>
  Status order(std::uint16_t opcode, const In& in) {
    host.put(in_buf, in);
    return order(entry(opcode, sizeof(in), 64));
  }
  std::uint32_t id() { return host.get<std::uint32_t>(out_buf); }
  // A list of `num` pages whose chunks are all the same chunk: a few KiB of memory can describe any
  // number of pages.
  tern_pages repeated(std::uint64_t num) {
    tern_pages p{};
    if (chunk == 0) {
      chunk = host.alloc(4096);
      const std::uint64_t page = host.alloc(4096);
      for (int i = 0; i < TERN_PAGES_CHUNK; ++i) host.put(chunk + i * 8ULL, page);
      top = host.alloc(8 * 4096);
      for (int i = 0; i < 4096; ++i) host.put(top + i * 8ULL, chunk);
    }
    p.addr = top;
    p.num = static_cast<std::uint32_t>(num);
    p.page_shift = 12;
    p.kind = TERN_PAGES_INDIRECT;
    return p;
  }
  // Creates objects until the device refuses one. Returns their number.
  template <class F>
  std::uint32_t fill(F&& make) {
    std::uint32_t n = 0;
    while (make() == TERN_ST_OK) ++n;
    return n;
  }
  std::uint64_t chunk = 0;
  std::uint64_t top = 0;
};

// Bytes of heap in use, mapped ones included.
std::uint64_t heap() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_F(BudgetTest, AllThatADriverCanMakeIsBounded) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's heap is not counted";
#endif
  start();
  const std::uint64_t record = host.alloc(4096);
  (void)repeated(1);
  ASSERT_EQ(order(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{TERN_PD_PRIVILEGED, 0}), TERN_ST_OK);
  const std::uint32_t pd = id();
  const std::uint64_t before = heap();
  std::uint64_t objects_made = 0;
  const auto many = [&](auto&& make) {
    const std::uint32_t n = fill(make);
    objects_made += n;
    return n;
  };
  EXPECT_EQ(many([&] { return order(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{}); }), kMaxPd - 1);
  EXPECT_EQ(many([&] { return order(entry(TERN_CMD_ALLOC_UAR, 0, 8)); }), 4095U);
  EXPECT_EQ(many([&] { return order(entry(TERN_CMD_ALLOC_XRCD, 0, 8)); }), kMaxXrcd);
  const std::uint32_t xrcd = id();
  tern_cmd_create_cq cq{
      .pages = repeated(kMaxCmdPages), .record = record, .eqn = TERN_NO_EQ, .log_size = kMaxLogCq};
  // CQs with page lists until the budget is used up, then CQs that need no entries.
  EXPECT_EQ(many([&] { return order(TERN_CMD_CREATE_CQ, cq); }), kPages / kMaxCmdPages);
  EXPECT_EQ(answer.status, TERN_ST_NO_MEMORY);
  EXPECT_EQ(hostile.registry.page_entries(), kPages);
  cq.pages = {};
  cq.pages.addr = host.alloc(4096);
  cq.log_size = 6;
  EXPECT_EQ(many([&] { return order(TERN_CMD_CREATE_CQ, cq); }), 16384U - kPages / kMaxCmdPages);
  const std::uint32_t cqn = 16384;
  tern_cmd_create_eq eq{.pages = cq.pages, .record = record, .log_size = 4};
  EXPECT_EQ(many([&] { return order(TERN_CMD_CREATE_EQ, eq); }), kMaxEq);
  tern_cmd_create_srq srq{.pages = cq.pages,
                          .record = record,
                          .pdn = pd,
                          .xrcdn = xrcd,
                          .cqn = cqn,
                          .log_size = 3,
                          .log_stride = 6,
                          .flags = TERN_SRQ_F_XRC};
  EXPECT_EQ(many([&] { return order(TERN_CMD_CREATE_SRQ, srq); }), kMaxSrq);
  tern_cmd_create_qp qp{.pages = cq.pages, .record = record, .pdn = pd};
  qp.send_cqn = qp.recv_cqn = cqn;
  qp.type = TERN_QPT_UD;
  qp.log_sq_size = qp.log_rq_size = 2;
  qp.log_sq_stride = 8;
  qp.log_rq_stride = 7;
  qp.rq_offset = 1024;
  EXPECT_EQ(many([&] { return order(TERN_CMD_CREATE_QP, qp); }), 16384U);
  // Attach every QP to a group, and fill every group.
  tern_cmd_mcast group{};
  group.port = 1;
  group.gid[0] = 0xff;
  for (std::uint32_t g = 0; g < kMaxMcastGroups; ++g) {
    std::memcpy(group.gid + 8, &g, sizeof(g));
    for (std::uint32_t i = 0; i < kMaxMcastQps; ++i) {
      group.qpn = 2 + (g * kMaxMcastQps + i) % 16384;
      if (order(TERN_CMD_ATTACH_MCAST, group) == TERN_ST_OK) ++objects_made;
    }
  }
  tern_cmd_create_mr mr{};
  mr.pages.addr = cq.pages.addr;
  mr.length = 4096;
  mr.pdn = pd;
  EXPECT_EQ(many([&] { return order(TERN_CMD_CREATE_MR, mr); }), 65536U);
  tern_cmd_alloc_mw mw{.pdn = pd, .type = 1};
  EXPECT_EQ(many([&] { return order(TERN_CMD_ALLOC_MW, mw); }), 65536U);
  while (order(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{1, 0, 0}) == TERN_ST_OK) {
  }
  const std::uint64_t used = heap() - before;
  RecordProperty("bytes", std::to_string(used));
  RecordProperty("objects", std::to_string(objects_made));
  // Documentation/spec/limits.rst, "What a driver can make the device hold": 96 MiB and the page
  // lists.
  EXPECT_LT(used, (std::uint64_t{96} << 20) + kPages * 8);
  // All entries are counted, and a reset releases all of them.
  EXPECT_EQ(hostile.registry.page_entries(), kPages);
  hostile.reset();
  EXPECT_EQ(hostile.registry.page_entries(), 0U);
}

TEST_F(BudgetTest, AResizeIsChargedWhileBothListsAreThere) {
  start();
  const std::uint64_t record = host.alloc(4096);
  tern_cmd_create_cq cq{
      .pages = repeated(kMaxCmdPages), .record = record, .eqn = TERN_NO_EQ, .log_size = kMaxLogCq};
  for (std::uint64_t i = 0; i < kPages / kMaxCmdPages; ++i)
    ASSERT_EQ(order(TERN_CMD_CREATE_CQ, cq), TERN_ST_OK);
  const std::uint32_t cqn = id();
  tern_cmd_resize_cq resize{.pages = repeated(1), .cqn = cqn, .log_size = 6};
  EXPECT_EQ(order(TERN_CMD_RESIZE_CQ, resize), TERN_ST_NO_MEMORY);
  EXPECT_EQ(order(TERN_CMD_DESTROY_CQ, tern_cmd_object{cqn - 1, 0}), TERN_ST_OK);
  EXPECT_EQ(order(TERN_CMD_RESIZE_CQ, resize), TERN_ST_OK);
  EXPECT_EQ(hostile.registry.page_entries(), kPages - 2 * kMaxCmdPages + 1);
}

TEST_F(BudgetTest, OneCommandReadsSoManyEntries) {
  start();
  ASSERT_EQ(order(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{}), TERN_ST_OK);
  tern_cmd_create_mr mr{.pages = repeated(kMaxCmdPages + 1), .length = 4096, .pdn = id()};
  EXPECT_EQ(order(TERN_CMD_CREATE_MR, mr), TERN_ST_BAD_PARAM);
  EXPECT_EQ(hostile.registry.page_entries(), 0U);
  mr.pages.addr = 0;
  mr.pages.kind = TERN_PAGES_LIST;
  mr.flags = TERN_MR_F_INCOMPLETE;
  ASSERT_EQ(order(TERN_CMD_CREATE_MR, mr), TERN_ST_OK);
  EXPECT_EQ(hostile.registry.page_entries(), kMaxCmdPages + 1);
  tern_cmd_update_pages update{.pages = repeated(kMaxCmdPages + 1), .key = id()};
  EXPECT_EQ(order(TERN_CMD_UPDATE_PAGES, update), TERN_ST_BAD_PARAM);
  update.pages.num = kMaxCmdPages;
  EXPECT_EQ(order(TERN_CMD_UPDATE_PAGES, update), TERN_ST_OK);
}

// A slice ends when its commands have read enough entries, however few commands there were.
TEST_F(BudgetTest, EntriesEndASlice) {
  start();
  ASSERT_EQ(order(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{}), TERN_ST_OK);
  tern_cmd_create_mr mr{.pages = repeated(kMaxCmdPages), .length = 4096, .pdn = id()};
  host.put(in_buf, mr);
  for (std::uint32_t i = 0; i < 4; ++i) {
    host.put(aq + (hostile_tail + i) % kEntries * sizeof(tern_aq_entry),
             entry(TERN_CMD_CREATE_MR, sizeof(mr), 8));
  }
  hostile.reg_write(TERN_REG_AQ_TAIL, hostile_tail += 4);
  for (unsigned done_now = 1; done_now <= 4; ++done_now) {
    EXPECT_EQ(hostile.run(1 << 20), done_now < 4);
    EXPECT_EQ(hostile.registry.memory.counts().mr, done_now);
  }
}

// A failed CQ notifies its users and visits no other object.
TEST_F(BudgetTest, AFailedQueueVisitsItsUsers) {
  start();
  const std::uint64_t record = host.alloc(4096);
  ASSERT_EQ(order(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{}), TERN_ST_OK);
  tern_cmd_create_qp qp{};
  qp.pdn = id();
  tern_cmd_create_cq cq{};
  cq.pages.addr = host.alloc(4096);
  cq.record = record;
  cq.eqn = TERN_NO_EQ;
  cq.log_size = 6;
  qp.pages = cq.pages;
  qp.record = record;
  qp.type = TERN_QPT_UD;
  qp.log_sq_stride = 8;
  qp.log_rq_stride = 7;
  qp.rq_offset = 1024;
  for (std::uint32_t i = 0; i < 200; ++i) {
    ASSERT_EQ(order(TERN_CMD_CREATE_CQ, cq), TERN_ST_OK);
    qp.send_cqn = qp.recv_cqn = id();
    ASSERT_EQ(order(TERN_CMD_CREATE_QP, qp), TERN_ST_OK);
  }
  Cq* const cq_of_last = hostile.registry.cqs.find(qp.send_cqn);
  ASSERT_NE(cq_of_last, nullptr);
  const std::uint64_t before = hostile.datapath.visits;
  host.punch(cq.pages.addr, 4096);
  tern_cqe cqe{};
  EXPECT_FALSE(cq_of_last->push(cqe));
  EXPECT_EQ(hostile.datapath.visits - before, 0U) << "later";
  while (hostile.run(1 << 20)) {
  }
  // The QP as sender and as receiver. No walk over all QPs: no XRC SRQ is among the users.
  EXPECT_EQ(hostile.datapath.visits - before, 2U);
}

// As many as the tables allow may use one CQ.
TEST_F(BudgetTest, AFailedQueueNotifiesItsUsersInSlices) {
  start();
  constexpr std::uint32_t kQps = 1000;
  constexpr std::uint32_t kBudget = 65536;
  ASSERT_EQ(order(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{}), TERN_ST_OK);
  tern_cmd_create_qp qp{};
  qp.pdn = id();
  tern_cmd_create_cq cq{};
  cq.pages.addr = host.alloc(4096);
  cq.record = qp.record = host.alloc(4096);
  cq.eqn = TERN_NO_EQ;
  cq.log_size = 6;
  ASSERT_EQ(order(TERN_CMD_CREATE_CQ, cq), TERN_ST_OK);
  qp.send_cqn = qp.recv_cqn = id();
  qp.pages = cq.pages;
  qp.type = TERN_QPT_UD;
  qp.log_sq_stride = 8;
  qp.log_rq_stride = 7;
  qp.rq_offset = 1024;
  for (std::uint32_t i = 0; i < kQps; ++i) ASSERT_EQ(order(TERN_CMD_CREATE_QP, qp), TERN_ST_OK);
  host.punch(cq.pages.addr, 4096);
  tern_cqe cqe{};
  const std::uint64_t before = hostile.datapath.visits;
  EXPECT_FALSE(hostile.registry.cqs.find(qp.send_cqn)->push(cqe));
  std::uint64_t seen = before;
  bool more = true;
  while (more) {
    more = hostile.run(kBudget);
    EXPECT_LE(hostile.datapath.visits - seen, kBudget / 2 / 256);
    seen = hostile.datapath.visits;
  }
  EXPECT_EQ(seen - before, 2U * kQps);
}

// ---- device memory in pieces ----

class ClearingTest : public AdminTest {
 protected:
  static constexpr std::uint64_t kLarge = 4 << 20;
  static constexpr std::uint64_t kStorage = 32 << 20;
  Config large_config() {
    Config c = admin_test_config();
    c.dm = storage;
    return c;
  }
  std::vector<std::byte> storage = std::vector<std::byte>(kStorage);
  Device large{host, large_config()};
  std::uint32_t submitted = 0;
  std::uint64_t replies = host.alloc(32 * 128);

  void SetUp() override {
    configure(large);
    std::ranges::fill(large.registry.config.dm, std::byte{0x5a});
  }
  // Each command has its own input and reply, because they complete in any order.
  template <class In>
  void submit_to(std::uint16_t opcode, const In& in, std::size_t out_len) {
    const std::uint64_t at = in_buf + submitted * 64;
    host.put(at, in);
    tern_aq_entry e = entry(opcode, sizeof(in), out_len);
    e.tag = 0x100 + submitted;
    e.in_addr = at;
    e.out_addr = replies + submitted * 128;
    host.put(aq + submitted % kEntries * sizeof(e), e);
    large.reg_write(TERN_REG_AQ_TAIL, ++submitted);
  }
  tern_acq_entry completion(std::uint32_t n) {
    return host.get<tern_acq_entry>(acq + n * sizeof(tern_acq_entry));
  }
  template <class Out>
  Out reply_of(std::uint32_t n) {
    return host.get<Out>(replies + n * 128);
  }
};

TEST_F(ClearingTest, OthersCompleteInTheMeantime) {
  submit_to(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{kLarge, 0, 0}, sizeof(tern_rsp_alloc_dm));
  EXPECT_TRUE(large.run(2 << 20)) << "more to zero";
  EXPECT_EQ(completion(0).phase, 0U);
  EXPECT_EQ(large.registry.dm.counts().parts, 0U);
  EXPECT_EQ(large.registry.dm.counts().bytes, 0U);
  submit_to(TERN_CMD_FREE_DM, tern_cmd_object{1, 0}, 0);
  submit_to(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{4096, 0, 0}, sizeof(tern_rsp_alloc_dm));
  EXPECT_TRUE(large.run(2 << 20));
  EXPECT_EQ(completion(0).tag, 0x101U);
  EXPECT_EQ(completion(0).status, TERN_ST_BAD_HANDLE) << "nobody's yet";
  EXPECT_EQ(completion(0).aq_head, 2U) << "fetched, though one of them is not complete";
  unsigned slices = 2;
  while (large.run(2 << 20)) ++slices;
  // A slice zeroes 1 MiB, half of its budget, and the small allocation completes before the large
  // one.
  EXPECT_GE(slices, 4U);
  EXPECT_LE(slices, 6U);
  EXPECT_EQ(completion(1).tag, 0x102U);
  EXPECT_EQ(completion(2).tag, 0x100U);
  EXPECT_EQ(completion(2).status, TERN_ST_OK);
  const auto rsp = reply_of<tern_rsp_alloc_dm>(0);
  EXPECT_EQ(rsp.size, kLarge);
  for (const std::byte b : large.registry.config.dm.subspan(rsp.offset, rsp.size))
    ASSERT_EQ(b, std::byte{0});
  EXPECT_EQ(large.registry.dm.counts().parts, 2U);
  EXPECT_EQ(large.registry.dm.counts().bytes, kLarge + 4096);
  submit_to(TERN_CMD_FREE_DM, tern_cmd_object{rsp.dmn, 0}, 0);
  EXPECT_FALSE(large.run(2 << 20));
  EXPECT_EQ(completion(3).status, TERN_ST_OK);
}

// Software may have a queue full of them outstanding. The device goes on fetching.
TEST_F(ClearingTest, AnyNumberHoldsUpNoOther) {
  constexpr std::uint32_t kMany = 17;
  for (std::uint32_t n = 0; n < kMany; ++n) {
    submit_to(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{kStorage / kMany / 4096 * 4096, 0, 0},
              sizeof(tern_rsp_alloc_dm));
    if (n % 8 == 7) {
      EXPECT_TRUE(large.run(2 << 20));
    }
  }
  submit_to(TERN_CMD_NOP, tern_cmd_object{}, 0);
  EXPECT_TRUE(large.run(2 << 20));
  EXPECT_TRUE(large.run(2 << 20)) << "still zeroing";
  EXPECT_EQ(completion(0).tag, 0x100U + kMany);
  EXPECT_EQ(completion(0).status, TERN_ST_OK);
  EXPECT_EQ(completion(0).aq_head, kMany + 1);
  EXPECT_EQ(completion(1).phase, 0U);
  while (large.run(2 << 20)) {
  }
  EXPECT_EQ(large.registry.dm.counts().parts, kMany);
}

// The zeroing of device memory and the work of QPs share the budget of a run.
TEST_F(ClearingTest, ZeroingIsCharged) {
  constexpr std::uint32_t kBudget = 65536;
  constexpr std::uint64_t kBytes = 1 << 18;
  submit_to(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{kBytes, 0, 0}, sizeof(tern_rsp_alloc_dm));
  const auto dirty = [&] {
    const auto part = large.registry.config.dm.first(2 * kBytes);
    return static_cast<std::size_t>(std::ranges::count(part, std::byte{0x5a}));
  };
  std::size_t before = dirty();
  bool more = true;
  while (more) {
    more = large.run(kBudget);
    const std::size_t now = dirty();
    ASSERT_LE(before - now, kBudget / 2);
    ASSERT_TRUE(!more || now < before);
    before = now;
  }
  EXPECT_EQ(before, kBytes);
}

TEST_F(ClearingTest, ResetDropsThem) {
  submit_to(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{2 * kLarge, 0, 0}, sizeof(tern_rsp_alloc_dm));
  EXPECT_TRUE(large.run(1 << 20));
  large.reset();
  EXPECT_FALSE(large.run(1 << 20));
  EXPECT_EQ(completion(0).phase, 0U) << "no completion of the time before";
  SetUp();
  submitted = 0;
  submit_to(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{2 * kLarge, 0, 0}, sizeof(tern_rsp_alloc_dm));
  while (large.run(1 << 20)) {
  }
  EXPECT_EQ(completion(0).status, TERN_ST_OK) << "all of it is free again";
}

// If the reply can no longer be written, software does not learn the number.
TEST_F(ClearingTest, TheReplysMemoryGoes) {
  submit_to(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{kLarge, 0, 0}, sizeof(tern_rsp_alloc_dm));
  EXPECT_TRUE(large.run(1 << 20));
  host.punch(replies, 64);
  while (large.run(1 << 20)) {
  }
  EXPECT_EQ(completion(0).status, TERN_ST_DMA_ERROR);
  EXPECT_EQ(large.registry.dm.counts().parts, 0U);
  EXPECT_EQ(large.registry.dm.counts().bytes, 0U);
}

}  // namespace
}  // namespace tern
