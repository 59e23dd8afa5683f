// SPDX-License-Identifier: GPL-2.0-or-later
// Traffic of every kind at once on a wire that loses, duplicates, delays and corrupts frames:
// reliable requests are executed once and in order. tests/judge/engine also checks the frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr std::uint32_t kPiece = 16384;
constexpr unsigned kPieces = 4;
constexpr unsigned kRounds = 40;

struct Faults {
  double rate;  // of each kind of fault
  std::uint64_t seed;
};

// One end sends; the other is the target of WRITEs and READs. Each round moves a few messages.
class Pair {
 public:
  Pair(TestNode& a, TestNode& b, std::uint64_t seed, QpOptions options) : random_(seed) {
    const std::uint32_t pd_a = a.alloc_pd(true);
    const std::uint32_t pd_b = b.alloc_pd(true);
    options.pd = pd_a;
    if (options.type == TERN_QPT_XRC_INI) {
      xrcd_ = b.alloc_xrcd();
      srq_cq_ = &b.create_cq();
      srq_ = &b.create_srq({.pd = pd_b, .xrcd = xrcd_, .cq = srq_cq_});
    }
    from_ = &a.create_qp(options);
    options.pd = pd_b;
    options.xrcd = xrcd_;
    if (xrcd_ != 0) options.type = TERN_QPT_XRC_TGT;
    to_ = &b.create_qp(options);
    from_->connect(*to_);
    to_->connect(*from_);
    near_ = &a.reg(kPiece * kPieces, {.pd = pd_a});
    far_ = &b.reg(kPiece * kPieces + 8, {.pd = pd_b});
    reliable_ = options.type != TERN_QPT_UC;
    if (xrcd_ == 0) fast_ = b.alloc_fast(4, pd_b);
  }

  // Posts the requests of a round. The receives that they need are posted now or later.
  void begin() {
    for (unsigned i = 0; i < kPieces; ++i) {
      jobs_.push_back({static_cast<unsigned>(random_() % (reliable_ ? 10 : 5)), length(), i});
      request(jobs_.back());
    }
    if (random_() % 2) receive();
  }
  void receive() {
    for (; owed_ > 0; --owed_) {
      const Job& job = *receives_.front();
      receives_.pop_front();
      const tern_sge sge = far_->sge(job.piece * kPiece, job.kind == kWriteImm ? 0 : kPiece);
      const std::vector<tern_sge> sges =
          job.kind == kWriteImm ? std::vector<tern_sge>{} : std::vector{sge};
      if (srq_) {
        srq_->post(sges, job.piece);
      } else {
        to_->post_recv(sges, job.piece);
      }
    }
  }
  [[nodiscard]] bool sent() {
    while (const auto wc = from_->send_cq().poll()) {
      if (wc->opcode == TERN_WR_REG_MR) continue;
      EXPECT_EQ(wc->status, TERN_CQE_SUCCESS) << status_name(wc->status);
      ++done_;
    }
    return done_ == jobs_.size();
  }
  // All requests are complete: compares the data that they moved.
  void end() {
    TestCq& cq = srq_cq_ ? *srq_cq_ : to_->recv_cq();
    for (const Job& job : jobs_) {
      const bool receives = job.kind == kSend || job.kind == kSendImm || job.kind == kWriteImm ||
                            job.kind == kSendInv;
      if (!reliable_) continue;
      if (receives) {
        const auto wc = cq.poll();
        ASSERT_TRUE(wc);
        EXPECT_EQ(wc->status, TERN_CQE_SUCCESS) << status_name(wc->status);
        EXPECT_EQ(le(wc->wr_id), job.piece);
        EXPECT_EQ(le(wc->byte_len), job.len);
      }
      const std::uint64_t at = job.piece * kPiece;
      if (job.kind == kAtomic) {
        EXPECT_EQ(near_->get<std::uint64_t>(at), le(job.before));
      } else {
        EXPECT_TRUE(same_bytes(far_->bytes(at, job.len), near_->bytes(at, job.len)));
      }
    }
    EXPECT_FALSE(reliable_ && cq.poll());
    // Receive WQEs left over from lost messages serve the next round, which needs the same.
    (void)cq.poll_all();
    jobs_.clear();
    done_ = 0;
    invalidates_ = false;
  }

 private:
  enum Kind : unsigned {
    kSend,
    kSendImm,
    kWrite,
    kWriteImm,
    kSendInv,
    kRead,
    kAtomic,
    kCompare,
    kWord,
    kFlush
  };
  struct Job {
    unsigned kind;
    std::uint32_t len;
    unsigned piece;
    std::uint64_t before = 0;
  };

  std::uint32_t length() {
    switch (random_() % 4) {
      case 0:
        return static_cast<std::uint32_t>(random_() % 64);
      case 1:
        return static_cast<std::uint32_t>(1024 * (random_() % 8));
      default:
        return static_cast<std::uint32_t>(random_() % kPiece);
    }
  }
  void fill(const TestMr& mr, const Job& job) {
    for (std::byte& x : mr.bytes(job.piece * kPiece, job.len))
      x = static_cast<std::byte>(random_());
  }
  void expect_receive(const Job& job) {
    receives_.push_back(&job);
    ++owed_;
  }
  void request(Job& job) {
    const std::uint64_t at = job.piece * kPiece;
    if (job.kind == kWord) job.len = 8;
    const tern_sge sge = near_->sge(at, job.len);
    fill(job.kind == kRead ? *far_ : *near_, job);
    switch (job.kind) {
      case kSendInv:
        if (xrcd_ == 0 && reliable_ && !invalidates_) {
          // The key must be open when the peer invalidates it; the round before has closed it.
          invalidates_ = true;
          to_->post(reg_mr(fast_));
          EXPECT_EQ(to_->wait_send().status, TERN_CQE_SUCCESS);
          expect_receive(job);
          return post(send_inv({sge}, fast_.mr.key));
        }
        job.kind = kSend;
        [[fallthrough]];
      case kSend:
        expect_receive(job);
        return post(send({sge}));
      case kSendImm:
        expect_receive(job);
        return post(send({sge}).immediate(job.piece).with(TERN_WQE_F_SOLICITED));
      case kWrite:
        return post(write({sge}, *far_, at));
      case kWriteImm:
        expect_receive(job);
        return post(write({sge}, *far_, at).immediate(job.piece));
      case kRead:
        return post(read({sge}, *far_, at));
      case kWord:
        return post(atomic_write(sge, *far_, at));
      case kFlush:
        post(random_() % 2 ? flush(*far_, at, job.len) : flush_all(*far_));
        job.len = 0;
        return;
      default:
        job.kind = kAtomic;
        job.len = 0;
        job.before = counter_;
        if (random_() % 2) {
          post(fetch_add(near_->sge(at, 8), *far_, kPiece * kPieces, 3));
          counter_ += 3;
        } else {
          post(
              compare_swap(near_->sge(at, 8), *far_, kPiece * kPieces, counter_, counter_ * 5 + 1));
          counter_ = counter_ * 5 + 1;
        }
    }
  }
  void post(SendWr&& wr) { from_->post(std::move(wr).to_srq(srq_ ? srq_->number() : 0)); }

  std::mt19937_64 random_;
  TestQp* from_ = nullptr;
  TestQp* to_ = nullptr;
  TestSrq* srq_ = nullptr;
  TestCq* srq_cq_ = nullptr;
  TestMr* near_ = nullptr;
  TestMr* far_ = nullptr;
  FastMr fast_;
  std::uint32_t xrcd_ = 0;
  bool reliable_ = true;
  bool invalidates_ = false;
  std::uint64_t counter_ = 0;
  std::deque<Job> jobs_;
  std::deque<const Job*> receives_;
  unsigned owed_ = 0;
  std::size_t done_ = 0;
};

class Mixed : public ::testing::TestWithParam<Faults> {
 protected:
  Sim sim{GetParam().seed};
  TestNode a{sim, {.mtu = 4200}};
  TestNode b{sim, {.mtu = 4200}};
  std::mt19937_64 random{GetParam().seed};
  std::deque<Pair> pairs;

  void add(TestNode& x, TestNode& y, std::uint8_t type) {
    pairs.emplace_back(
        x, y, random(),
        QpOptions{.type = type,
                  .log_mtu = static_cast<unsigned>(8 + random() % 5),
                  .gid_index = static_cast<std::uint16_t>(random() % 4),
                  .sq_psn = static_cast<std::uint32_t>(pairs.size() % 2 ? 0xfffff0 : 7),
                  .rq_psn = static_cast<std::uint32_t>(pairs.size() % 2 ? 0xfffff0 : 7),
                  .max_rd_atomic = 4,
                  .max_dest_rd_atomic = 4,
                  .min_rnr_timer = static_cast<std::uint8_t>(1 + random() % 24),
                  .timeout = 12});
  }
};

TEST_P(Mixed, EverythingArrivesOnce) {
  for (unsigned i = 0; i < 3; ++i) {
    add(a, b, TERN_QPT_RC);
    add(b, a, TERN_QPT_RC);
    add(a, b, TERN_QPT_XRC_INI);
  }
  add(b, a, TERN_QPT_XRC_INI);
  add(a, a, TERN_QPT_RC);
  add(a, b, TERN_QPT_UC);
  add(b, b, TERN_QPT_UC);
  QpOptions datagrams{.type = TERN_QPT_UD};
  TestQp& ud_a = a.create_qp(datagrams);
  TestQp& ud_b = b.create_qp(datagrams);
  ud_a.connect();
  ud_b.connect();
  TestMr& text = a.reg(4096);
  sim.budget = 8192;
  sim.turn_time = 500;
  sim.wire.loss = sim.wire.duplicate = sim.wire.corrupt = sim.wire.reorder = GetParam().rate;
  for (unsigned round = 0; round < kRounds; ++round) {
    for (Pair& pair : pairs) pair.begin();
    for (unsigned i = 0; i < 4; ++i) {
      ud_a.post(datagram(ud_a, i % 2 ? ud_b : ud_a, {text.sge(0, 100 * i)}));
    }
    sim.run_for(30'000);
    for (Pair& pair : pairs) pair.receive();
    ASSERT_TRUE(sim.run_until([&] {
      (void)ud_a.send_cq().poll_all();
      return std::ranges::all_of(pairs, &Pair::sent);
    }));
    sim.run_until_idle();
    for (Pair& pair : pairs) pair.end();
  }
}

INSTANTIATE_TEST_SUITE_P(Rates, Mixed,
                         ::testing::Values(Faults{0, 1}, Faults{0.001, 2}, Faults{0.01, 3},
                                           Faults{0.01, 4}, Faults{0.02, 5}, Faults{0.05, 6},
                                           Faults{0.05, 7}, Faults{0.05, 8}),
                         [](const auto& p) {
                           return "PerMille" +
                                  std::to_string(static_cast<int>(p.param.rate * 1000)) + "Seed" +
                                  std::to_string(p.param.seed);
                         });

}  // namespace
}  // namespace tern
