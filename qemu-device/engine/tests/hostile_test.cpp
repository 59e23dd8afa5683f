// SPDX-License-Identifier: GPL-2.0-or-later
// Known attacks by a hostile program, peer or kernel. Each ends in a status, a counter or an event
// of the attacker, and a neighbour on the same device does not notice. The fuzzers (fuzz/) try
// unknown ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include "tests/mini_driver.h"

namespace tern {
namespace {

class Hostile : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  // The neighbours, which must not notice.
  TestMr& calm_src = a.reg(4096);
  TestMr& calm_dst = b.reg(4096);
  std::pair<TestQp&, TestQp&> calm = rc_pair(a, b);
  // The memory of attackers and victims.
  TestMr& src = a.reg(65536);
  TestMr& dst = b.reg(65536);
  unsigned round_ = 0;

  void expect_calm() {
    calm_src.fill(++round_);
    calm.second.post_recv({calm_dst.sge()});
    calm.first.post(send({calm_src.sge()}));
    ASSERT_EQ(calm.first.wait_send().status, TERN_CQE_SUCCESS);
    ASSERT_EQ(calm.second.wait_recv().status, TERN_CQE_SUCCESS);
    ASSERT_TRUE(same_bytes(calm_dst.bytes(), calm_src.bytes()));
    calm.first.post(read({calm_src.sge()}, calm_dst));
    ASSERT_EQ(calm.first.wait_send().status, TERN_CQE_SUCCESS);
  }
  static std::vector<std::byte> copy(const TestMr& mr) {
    const auto bytes = mr.bytes();
    return {bytes.begin(), bytes.end()};
  }
};

// ---- doorbells ----

// Every command, through every page, for every number that may be in use.
TEST_F(Hostile, DoorbellsForOthersQueuesOnlyCount) {
  TestQp& victim = rc_pair(a, b).first;
  TestCq& cq = victim.send_cq();
  victim.post(write({src.sge(0, 8)}, dst), false);
  const std::uint32_t other = a.alloc_uar();
  const std::uint64_t before = a.counter(TERN_CNT_BAD_DOORBELL);
  std::uint64_t rung = 0;
  for (const std::uint32_t page : {std::uint32_t{TERN_UAR_KERNEL}, other, other + 1, other + 2}) {
    for (std::uint32_t command = 0; command < 16; ++command) {
      if (page == TERN_UAR_KERNEL && command == TERN_DB_CMD_EQ_CI) continue;  // for the kernel only
      // The page doorbell refers to no queue: it is valid on every allocated page.
      const bool good = command == TERN_DB_CMD_PAGE && page <= other;
      for (std::uint32_t number = 0; number < 64; ++number) {
        a.doorbell(page, command, number);
        if (!good) ++rung;
      }
      a.doorbell(page, command, TERN_DB_NUM_MASK);
      if (!good) ++rung;
    }
  }
  sim.run_until_idle();
  EXPECT_EQ(a.counter(TERN_CNT_BAD_DOORBELL) - before, rung);
  EXPECT_FALSE(cq.poll()) << "nobody but its owner rings for a queue";
  EXPECT_EQ(victim.query().sq_ci, 0U);
  victim.ring();
  EXPECT_EQ(victim.wait_send().status, TERN_CQE_SUCCESS);
  expect_calm();
}

TEST_F(Hostile, DoorbellStormOnOnesOwnQueueIsHarmless) {
  TestQp& qp = rc_pair(a, b).first;
  for (int i = 0; i < 100000; ++i) qp.ring(i % 2 ? TERN_DB_CMD_SQ : TERN_DB_CMD_RQ);
  sim.run_until_idle();
  EXPECT_EQ(a.counter(TERN_CNT_BAD_DOORBELL), 0U);
  qp.post(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(qp.wait_send().status, TERN_CQE_SUCCESS);
  expect_calm();
}

// ---- queues with random contents ----

// Slots of random bytes: no memory changes that the QP has no key for.
TEST_F(Hostile, QueuesOfRandomBytes) {
  std::mt19937_64 random(5);
  TestMr& foreign = b.reg(65536, {.pd = b.alloc_pd()});
  TestMr& mine = a.reg(65536, {.pd = a.alloc_pd()});
  foreign.fill(1);
  mine.fill(2);
  const auto was_foreign = copy(foreign);
  const auto was_mine = copy(mine);
  for (int round = 0; round < 200; ++round) {
    const auto [x, y] = rc_pair(a, b, {.timeout = 1, .retry_cnt = 1, .rnr_retry = 1});
    const std::uint32_t keys[] = {src.key, dst.key, foreign.key, mine.key, TERN_LKEY_DMA};
    for (std::uint32_t slot = 0; slot < 64; ++slot) {
      for (TestQp* const qp : {&x, &y}) {
        for (std::uint64_t at = 0; at < 256; at += 8) {
          std::uint64_t word = random();
          if (random() % 4 == 0) word = keys[random() % 5] | word << 32;
          if (random() % 4 == 0) word = (random() % 2 ? src.iova : dst.iova) + random() % 65536;
          qp->memory().put(qp->sq_slot(slot) + at, word);
          qp->memory().put(qp->rq_slot(slot) + at, word);
        }
        // Mostly a valid opcode and valid flags, to pass the first checks.
        if (random() % 4)
          qp->memory().put(qp->sq_slot(slot), static_cast<std::uint8_t>(random() % 14));
        if (random() % 4)
          qp->memory().put(qp->sq_slot(slot) + 1, static_cast<std::uint16_t>(random() % 3 << 8));
      }
    }
    x.store_sq_pi(1 + random() % 64);
    x.store_rq_pi(static_cast<std::uint32_t>(random() % 65));
    y.store_rq_pi(static_cast<std::uint32_t>(random() % 65));
    x.ring();
    sim.run_until_idle();
    for (TestQp* const qp : {&x, &y}) {
      TestCq* const cqs[] = {&qp->send_cq(), &qp->recv_cq()};
      Driver& node = qp->node();
      node.destroy(*qp);
      for (TestCq* const cq : cqs) node.destroy(*cq);
    }
  }
  EXPECT_TRUE(same_bytes(foreign.bytes(), was_foreign));
  EXPECT_TRUE(same_bytes(mine.bytes(), was_mine));
  (void)a.async_events();
  (void)b.async_events();
  expect_calm();
}

// Every word of a record, with every kind of jump, while the queue is in use.
TEST_F(Hostile, RecordsThatJump) {
  for (const std::uint32_t jump : {65U, 0x7fffffffU, 0x80000000U, 0xffffffffU, 0xffffff00U}) {
    for (int word = 0; word < 3; ++word) {
      const auto [x, y] = rc_pair(a, b);
      y.post_recv({dst.sge()});
      x.post(send({src.sge(0, 20000)}));
      sim.step();
      if (word == 0) x.store_sq_pi(jump);
      if (word == 1) y.store_rq_pi(jump);
      if (word == 2) x.send_cq().store_ci(jump);
      x.ring();
      y.ring(TERN_DB_CMD_RQ);
      sim.run_until_idle();
      expect_calm();
      (void)a.async_events();
      (void)b.async_events();
    }
  }
}

// ---- frames ----

// A frame of each kind on a connection, truncated at every length and with every bit flipped, as a
// wire does it: without a correct ICRC.
TEST_F(Hostile, CutAndCorruptFramesOnlyCount) {
  const auto [x, y] = rc_pair(a, b, {.log_mtu = 8});
  std::vector<std::pair<unsigned, std::vector<std::byte>>> frames;
  std::vector<bool> seen(512);
  sim.pass = [&](unsigned from, std::span<const std::byte> f) {
    const auto opcode = std::to_integer<std::size_t>(f[14 + 40 + 8]) + 256 * from;
    if (!seen[opcode]) frames.emplace_back(from, std::vector(f.begin(), f.end()));
    seen[opcode] = true;
    return true;
  };
  for (int i = 0; i < 4; ++i) y.post_recv({dst.sge()});
  x.post(send({src.sge(0, 700)}));
  x.post(send({src.sge(0, 70)}).immediate(1));
  x.post(write({src.sge(0, 700)}, dst).immediate(1));
  x.post(write({src.sge(0, 70)}, dst));
  x.post(read({src.sge(0, 700)}, dst));
  x.post(read({src.sge(0, 70)}, dst));
  x.post(fetch_add(src.sge(0, 8), dst, 0, 1));
  for (int i = 0; i < 7; ++i) ASSERT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  sim.run_until_idle();
  sim.pass = nullptr;
  ASSERT_GE(frames.size(), 14U);
  const auto before = copy(dst);
  const tern_rsp_query_qp asked = y.query();
  for (const auto& [from, frame] : frames) {
    Device& to = from == 0 ? b.device : a.device;
    for (std::size_t len = 0; len < frame.size(); ++len) {
      std::vector<std::byte> cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(len));
      to.receive(cut);
    }
    for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
      // The ICRC does not cover the Ethernet header and the fields that routers change.
      const std::size_t byte = bit / 8;
      if (byte < 14 || byte == 14 || byte == 15 || byte == 16 || byte == 17 || byte == 21) continue;
      if (byte == 60 || byte == 61 || byte == 66) continue;
      auto bad = frame;
      bad[byte] ^= static_cast<std::byte>(1U << (bit % 8));
      to.receive(bad);
    }
  }
  sim.run_until_idle();
  EXPECT_GT(a.counter(TERN_CNT_RX_ICRC_ERRORS), 100U);
  EXPECT_GT(b.counter(TERN_CNT_RX_ICRC_ERRORS), 100U);
  EXPECT_GT(b.counter(TERN_CNT_RX_MALFORMED), 100U);
  EXPECT_EQ(b.counter(TERN_CNT_DUPLICATE_REQUEST), 0U) << "a damaged frame was taken";
  EXPECT_TRUE(same_bytes(dst.bytes(), before));
  const tern_rsp_query_qp now = y.query();
  EXPECT_EQ(std::memcmp(&asked, &now, sizeof(now)), 0);
  expect_calm();
}

// ---- memory that is unmapped ----

struct Place {
  const char* name;
  // Address of the memory to unmap, whether it is at a, and the operation that then uses it.
  std::function<std::uint64_t(Hostile&, TestQp&, TestQp&)> where;
  bool at_a;
  int op;  // 0 send, 1 write, 2 read, 3 atomic
};

class HostileMemory : public Hostile, public ::testing::WithParamInterface<int> {
 public:
  TestMr& source() { return src; }
  TestMr& target() { return dst; }
};

const Place kPlaces[] = {
    {"SendSlots", [](Hostile&, TestQp& x, TestQp&) { return x.memory().address(0); }, true, 1},
    {"SendRecord", [](Hostile&, TestQp& x, TestQp&) { return x.record(); }, true, 1},
    {"ReceiveSlots", [](Hostile&, TestQp&, TestQp& y) { return y.memory().address(y.rq_slot(0)); },
     false, 0},
    {"ReceiveRecord", [](Hostile&, TestQp&, TestQp& y) { return y.record(); }, false, 0},
    {"SendCompletions",
     [](Hostile&, TestQp& x, TestQp&) { return x.send_cq().memory().address(0); }, true, 1},
    {"ReceiveCompletions",
     [](Hostile&, TestQp&, TestQp& y) { return y.recv_cq().memory().address(0); }, false, 0},
    {"SourceOfSend",
     [](Hostile& h, TestQp&, TestQp&) { return static_cast<HostileMemory&>(h).source().dma; }, true,
     0},
    {"SourceOfWrite",
     [](Hostile& h, TestQp&, TestQp&) { return static_cast<HostileMemory&>(h).source().dma; }, true,
     1},
    {"TargetOfRead",
     [](Hostile& h, TestQp&, TestQp&) { return static_cast<HostileMemory&>(h).source().dma; }, true,
     2},
    {"ResultOfAtomic",
     [](Hostile& h, TestQp&, TestQp&) { return static_cast<HostileMemory&>(h).source().dma; }, true,
     3},
    {"TargetOfSend",
     [](Hostile& h, TestQp&, TestQp&) { return static_cast<HostileMemory&>(h).target().dma; },
     false, 0},
    {"TargetOfWrite",
     [](Hostile& h, TestQp&, TestQp&) { return static_cast<HostileMemory&>(h).target().dma; },
     false, 1},
    {"SourceOfRead",
     [](Hostile& h, TestQp&, TestQp&) { return static_cast<HostileMemory&>(h).target().dma; },
     false, 2},
    {"TargetOfAtomic",
     [](Hostile& h, TestQp&, TestQp&) { return static_cast<HostileMemory&>(h).target().dma; },
     false, 3},
};

TEST_P(HostileMemory, OwnerIsToldAndNobodyElse) {
  const Place& place = kPlaces[GetParam()];
  const auto [x, y] = rc_pair(a, b, {.timeout = 8, .retry_cnt = 2, .rnr_retry = 2});
  TestNode& node = place.at_a ? a : b;
  const std::uint64_t at = place.where(*this, x, y) & ~(FakeHost::kPage - 1);
  const std::uint64_t errors = node.counter(TERN_CNT_DMA_ERRORS);
  y.post_recv({dst.sge(0, 4096)});
  if (place.op == 0) x.post(send({src.sge(0, 3000)}), false);
  if (place.op == 1) x.post(write({src.sge(0, 3000)}, dst), false);
  if (place.op == 2) x.post(read({src.sge(0, 3000)}, dst), false);
  if (place.op == 3) x.post(fetch_add(src.sge(0, 8), dst, 0, 1), false);
  node.host.punch(at, FakeHost::kPage);
  x.ring();
  sim.run_until_idle();
  // An error is reported: by a completion or an event.
  bool told = !node.async_events().empty();
  for (TestCq* const cq : {&x.send_cq(), &y.recv_cq()}) {
    for (const Wc& wc : cq->poll_all()) told |= wc.status != TERN_CQE_SUCCESS;
  }
  EXPECT_TRUE(told);
  EXPECT_LE(node.counter(TERN_CNT_DMA_ERRORS) - errors, 1U) << "told once";
  EXPECT_EQ((place.at_a ? x : y).query().attr.state, TERN_QPS_ERR);
  expect_calm();
  // Once the memory is back, a reset is enough, unless a CQ has failed.
  node.host.restore(at);
  if (std::string(place.name).ends_with("Completions")) return;
  for (TestQp* const qp : {&x, &y}) {
    EXPECT_EQ(qp->to_state(TERN_QPS_RESET), TERN_ST_OK);
    qp->forget_posted();
  }
  x.connect(y);
  y.connect(x);
  sim.run_until_idle();
  (void)x.send_cq().poll_all();
  x.post(write({src.sge(0, 3000)}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Places, HostileMemory,
                         ::testing::Range(0, static_cast<int>(std::size(kPlaces))),
                         [](const auto& place) { return std::string(kPlaces[place.param].name); });

}  // namespace
}  // namespace tern
