// SPDX-License-Identifier: GPL-2.0-or-later
// Packets travel as trains unless they are captured: looped back ones, and those between devices of
// one host. Completions, memory, counters and packet sequence numbers must be the same.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr std::uint32_t kMtu = 1024;
constexpr std::uint64_t kRegion = 300 * kMtu + 7;

struct Outcome {
  std::vector<std::tuple<std::uint64_t, std::uint8_t, std::uint8_t, std::uint32_t>> completions;
  std::vector<std::uint64_t> counters;
  std::uint64_t memory = 0;
  std::vector<std::uint32_t> psns;
  std::vector<std::uint16_t> events;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

void take(Outcome& out, TestCq& cq) {
  for (const Wc& wc : cq.poll_all()) {
    out.completions.emplace_back(le(wc.wr_id), wc.opcode, wc.status,
                                 wc.status == TERN_CQE_SUCCESS ? le(wc.byte_len) : 0);
  }
}

enum class Path { kLoopback, kWire, kShared };

class Train : public ::testing::TestWithParam<std::tuple<std::uint8_t, Path>> {
 protected:
  static std::uint8_t type() { return std::get<0>(GetParam()); }
  // Runs `work` on devices with a capture, which makes every packet, or on some without.
  template <class Work>
  static Outcome outcome_of(bool captured, Work work, const QpOptions& more = {}) {
    const bool wire = std::get<1>(GetParam()) != Path::kLoopback;
    const bool shares = std::get<1>(GetParam()) == Path::kShared;
    Sim sim;
    sim.whole_trains = true;
    const NodeOptions each{.capture = captured, .unfinished_frames = true, .share_payload = shares};
    TestNode a(sim, each);
    TestNode b(sim, each);
    TestNode& node = wire ? b : a;
    QpOptions options = more;
    options.type = type();
    auto [qa, qb] = rc_pair(a, node, options);
    TestMr& src = a.reg(kRegion);
    TestMr& dst = node.reg(kRegion);
    src.fill(1);
    work(sim, qa, qb, src, dst);
    sim.run_until_idle();
    Outcome out;
    for (TestQp* const qp : {&qa, &qb}) {
      take(out, qp->send_cq());
      take(out, qp->recv_cq());
      const auto attr = qp->query().attr;
      out.psns.insert(out.psns.end(), {le(attr.sq_psn), le(attr.rq_psn), attr.state});
    }
    for (unsigned i = 0; i < TERN_CNT_RDMA_NUM; ++i)
      out.counters.push_back(a.counter(i) + b.counter(i));
    out.memory = hash_bytes(dst.bytes()) ^ hash_bytes(src.bytes());
    for (TestNode* const n : {&a, &b})
      for (const tern_eqe& e : n->async_events()) out.events.push_back(le(e.type));
    const bool allowed = a.device.datapath.allows_trains();
    EXPECT_TRUE(!captured || !allowed);
    EXPECT_EQ(sim.stats.trains != 0, wire && type() == TERN_QPT_RC && allowed);
    EXPECT_EQ(sim.stats.shared != 0, shares && type() == TERN_QPT_RC && allowed);
    return out;
  }
  // `overflow`: a receive is too short. Its contents are undefined then, and how many packets are
  // dropped after the error depends on the trains.
  template <class Work>
  static Outcome expect_same(Work work, const QpOptions& options = {}, bool overflow = false) {
    Outcome plain = outcome_of(false, work, options);
    Outcome shown = outcome_of(true, work, options);
    if (overflow) {
      EXPECT_GE(plain.counters[TERN_CNT_RX_QP_MISMATCH], shown.counters[TERN_CNT_RX_QP_MISMATCH]);
      for (Outcome* const out : {&plain, &shown})
        out->memory = out->counters[TERN_CNT_RX_QP_MISMATCH] = 0;
    }
    EXPECT_EQ(plain.completions, shown.completions);
    EXPECT_EQ(plain.counters, shown.counters);
    EXPECT_EQ(plain.memory, shown.memory);
    EXPECT_EQ(plain.psns, shown.psns);
    EXPECT_EQ(plain.events, shown.events);
    return plain;
  }
};

std::string name_of(const ::testing::TestParamInfo<std::tuple<std::uint8_t, Path>>& test) {
  const auto [type, path] = test.param;
  return std::string(type == TERN_QPT_RC ? "Rc" : "Uc") +
         std::array{"Loopback", "Wire", "Shared"}.at(static_cast<std::size_t>(path));
}

INSTANTIATE_TEST_SUITE_P(Types, Train,
                         ::testing::Combine(::testing::Values(TERN_QPT_RC, TERN_QPT_UC),
                                            ::testing::Values(Path::kLoopback, Path::kWire,
                                                              Path::kShared)),
                         name_of);

constexpr std::array<std::uint32_t, 9> kSizes = {
    0, 1, kMtu, kMtu + 1, 4 * kMtu, 16 * kMtu - 1, 33 * kMtu, 128 * kMtu + 3, 300 * kMtu};

TEST_P(Train, Messages) {
  const Outcome out = expect_same([](Sim&, TestQp& qa, TestQp& qb, TestMr& src, TestMr& dst) {
    std::uint64_t id = 0;
    for (const std::uint32_t size : kSizes) {
      qb.post_recv({dst.sge(0, 100), dst.sge(100, size)}, ++id);
      qa.post(send({src.sge(0, size / 3), src.sge(size / 3, size - size / 3)}).id(id));
      qa.post(write({src.sge(5, size)}, dst, 7).id(id + 100));
      if (type() == TERN_QPT_RC) qb.post(read({dst.sge(1, size)}, src, 3).id(id + 200));
    }
  });
  EXPECT_GE(out.completions.size(), 3 * kSizes.size());
  for (const auto& [id, opcode, status, length] : out.completions)
    EXPECT_EQ(status, TERN_CQE_SUCCESS) << id;
  EXPECT_GT(out.counters[TERN_CNT_TX_RDMA_PACKETS], 900U);
}

// The receiver is not ready for the second message: RC waits for it, UC loses that and the third.
TEST_P(Train, NoReceive) {
  const Outcome out = expect_same([](Sim& sim, TestQp& qa, TestQp& qb, TestMr& src, TestMr& dst) {
    qb.post_recv({dst.sge(0, 64 * kMtu)}, 1);
    for (std::uint64_t id = 1; id < 4; ++id) qa.post(send({src.sge(0, 40 * kMtu)}).id(id));
    sim.run_for(50'000);
    qb.post_recv({dst.sge(64 * kMtu, 64 * kMtu)}, 2);
    qb.post_recv({dst.sge(128 * kMtu, 64 * kMtu)}, 3);
  });
  EXPECT_GT(out.counters[TERN_CNT_OUT_OF_BUFFER], 0U);
  EXPECT_EQ(out.completions.size(), type() == TERN_QPT_RC ? 6U : 4U);
}

// Errors in the middle of a message, with requests behind it.
TEST_P(Train, Errors) {
  const auto overflow = [](Sim&, TestQp& qa, TestQp& qb, TestMr& src, TestMr& dst) {
    qb.post_recv({dst.sge(0, 10 * kMtu)}, 1);
    qa.post(send({src.sge(0, 40 * kMtu)}).id(1));
    qa.post(write({src.sge(0, 40 * kMtu)}, dst).id(2));
  };
  expect_same(overflow, {}, true);
  expect_same([](Sim&, TestQp& qa, TestQp&, TestMr& src, TestMr& dst) {
    qa.post(write({src.sge(0, 40 * kMtu)}, dst).id(1));
    qa.post(write({src.sge(0, 40 * kMtu)}, dst, 270 * kMtu).id(2));
    qa.post(write({src.sge(0, 40 * kMtu)}, dst).id(3));
  });
}

// Many requests in flight in both directions, with wrapping PSNs.
TEST_P(Train, ManyAtATime) {
  for (const std::uint32_t psn : {0U, 0xffff80U, 0x7fffffU}) {
    QpOptions options;
    options.sq_psn = options.rq_psn = psn;
    expect_same(
        [](Sim& sim, TestQp& qa, TestQp& qb, TestMr& src, TestMr& dst) {
          sim.budget = 10'000;
          for (std::uint64_t id = 0; id < 28; ++id) {
            qa.post(write({src.sge(id, 17 * kMtu)}, dst, id * 10 * kMtu).id(id));
            qb.post(write({src.sge(id, 9 * kMtu + 1)}, dst, (id * 9 + 1) * kMtu).id(id));
          }
        },
        options);
  }
}

// The wire loses, repeats and delays whole trains.
class TrainLoss : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Shared, TrainLoss, ::testing::Bool());

TEST_P(TrainLoss, EveryByteArrives) {
  std::uint64_t harmed = 0;
  const NodeOptions options{.unfinished_frames = true, .share_payload = GetParam()};
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    Sim sim(seed);
    sim.whole_trains = true;
    sim.wire.loss = sim.wire.duplicate = sim.wire.reorder = 0.05;
    TestNode a(sim, options);
    TestNode b(sim, options);
    const auto [qa, qb] = rc_pair(a, b);
    TestMr& src = a.reg(kRegion);
    TestMr& dst = b.reg(2 * kRegion);
    TestMr& back = a.reg(kRegion);
    src.fill(static_cast<std::uint8_t>(seed));
    qa.post(write({src.sge(0, kRegion)}, dst));
    qb.post_recv({dst.sge(kRegion, kRegion)}, 1);
    qa.post(send({src.sge(0, kRegion)}));
    qa.post(read({back.sge(0, kRegion)}, dst));
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(sim.stats.trains > 10, a.device.datapath.allows_trains());
    harmed += sim.stats.lost + sim.stats.reordered;
    EXPECT_TRUE(same_bytes(dst.bytes(0, kRegion), src.bytes(0, kRegion)));
    EXPECT_TRUE(same_bytes(dst.bytes(kRegion, kRegion), src.bytes(0, kRegion)));
    EXPECT_TRUE(same_bytes(back.bytes(0, kRegion), src.bytes(0, kRegion)));
  }
  EXPECT_GT(harmed, 6U);
}

}  // namespace
}  // namespace tern
