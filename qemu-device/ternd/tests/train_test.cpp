// SPDX-License-Identifier: GPL-2.0-or-later
// Trains in the switch: they pass whole between guests, and whoever needs their packets gets those.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <vector>

#include "frames.h"
#include "frames/sample_frames.h"
#include "frames/tcp_train.h"
#include "switch.h"
#include "wire/train.h"

namespace tern::daemon {
namespace {

struct User final : PortUser {
  void frames_wait() override {}
  void room() override { ++rooms; }
  unsigned rooms = 0;
};

// `shares`: the payload of the train is elsewhere.
class TrainFixture : public testing::Test {
 protected:
  static constexpr std::uint32_t kPackets = 4;
  static constexpr std::size_t kMtu = 4096;
  static constexpr std::size_t kPayload = (kPackets - 1) * kMtu + 7;

  explicit TrainFixture(bool shares = false) : shares_(shares) {
    fabric.set_clock([this] { return now; });
    const Train parts = *Train::parse({bytes, Icrc::kDeferred, kPackets});
    for (std::uint32_t i = 0; i < kPackets; ++i) {
      packets.emplace_back(parts.bytes(i));
      parts.write(i, packets.back());
      unfinished.emplace_back(parts.bytes(i));
      parts.write(i, unfinished.back(), Icrc::kDeferred);
    }
  }
  ~TrainFixture() override { engine.free(made); }
  // A port with the station that the train goes to.
  void add(Port::Kind kind = Port::Kind::kGuest, const PortPolicy& policy = {}) {
    fabric.add("sender", users.emplace_back(), kQueue).set_link(true);
    fabric.add("receiver", users.emplace_back(), kQueue, kind).set_link(true);
    learn();
    to().set_policy(policy);
    to().set_zero_copy(true);
  }
  void learn(bool tagged = false) {
    Bytes f(64);
    std::ranges::copy(std::span(bytes).first<6>(), f.begin() + 6);
    if (tagged) {
      f[12] = std::byte{0x81};
      f[15] = std::byte{5};
    }
    to().send(f, now);
    while (!from().front(now, nullptr).empty()) from().pop();
  }
  Port& from() { return fabric.ports().at(0); }
  Port& to() { return fabric.ports().at(1); }
  WireFrame train() {
    WireFrame frame{made.bytes, Icrc::kDeferred, kPackets};
    if (shares_) frame.payload = &payload;
    return frame;
  }
  Port::Sent send() { return from().send(train(), now, made.batch); }
  std::vector<Bytes> take(std::size_t most = 100) {
    std::vector<Bytes> taken;
    for (WireFrame f = to().front(now, nullptr); !f.empty() && taken.size() < most;
         f = to().front(now, nullptr)) {
      taken.emplace_back(f.bytes.begin(), f.bytes.end());
      EXPECT_EQ(f.train, 1U);
      to().pop();
    }
    to().release();
    return taken;
  }
  [[nodiscard]] std::size_t wire_bytes() const {
    return std::accumulate(packets.begin(), packets.end(), std::size_t{0},
                           [](std::size_t sum, const Bytes& p) { return sum + p.size(); });
  }
  void expect_counted() {
    EXPECT_EQ(from().counters().in_frames, kPackets);
    EXPECT_EQ(from().counters().in_bytes, wire_bytes());
    EXPECT_EQ(to().counters().out_frames, kPackets);
    EXPECT_EQ(to().counters().out_bytes, wire_bytes());
  }
  void expect_divided(const std::vector<Bytes>& expected) {
    EXPECT_EQ(send(), Port::Sent::kTaken);
    now += 1000;  // longer than any policy delays them
    EXPECT_THAT(take(), testing::ElementsAreArray(expected));
  }

  const bool shares_;
  Engine engine;
  const Bytes bytes = engine.make_roce(kPayload, kPackets);
  SharedPayload payload;
  const EffectsBatch::Frame made =
      engine.make(shares_ ? engine.make_roce(kPayload, kPackets, &payload) : bytes);
  std::vector<Bytes> packets;     // as frames
  std::vector<Bytes> unfinished;  // the same without ICRC
  Switch fabric;
  std::deque<User> users;
  std::uint64_t now = 1'000'000'000;
};

class TrainTest : public TrainFixture, public testing::WithParamInterface<bool> {
 protected:
  TrainTest() : TrainFixture(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Shared, TrainTest, testing::Bool());

TEST_P(TrainTest, PassesWholeBetweenGuests) {
  add();
  EXPECT_EQ(send(), Port::Sent::kTaken);
  const WireFrame front = to().front(now, nullptr);
  EXPECT_EQ(front.train, kPackets);
  EXPECT_FALSE(front.finished());
  EXPECT_EQ(front.bytes.data(), made.bytes.data()) << "not copied";
  EXPECT_EQ(front.payload, shares_ ? &payload : nullptr);
  Bytes whole(front.size());
  front.copy_to(whole);
  EXPECT_EQ(whole, bytes);
  EXPECT_FALSE(payload.done());
  to().pop();
  EXPECT_EQ(payload.done(), shares_);
  expect_counted();
}

TEST_P(TrainTest, AnUplinkGetsPackets) {
  add(Port::Kind::kUplink);
  expect_divided(packets);
  expect_counted();
}

TEST_P(TrainTest, PoliciesDecideAboutPackets) {
  for (const PortPolicy& policy :
       {PortPolicy{.drop = true}, PortPolicy{.rate = 1'000'000'000'000},
        PortPolicy{.red_min = 1 << 19, .red_max = 1 << 20}, PortPolicy{.loss = 1e-9},
        PortPolicy{.queue = std::uint64_t{24} * 1024}}) {
    if (fabric.ports().empty()) add();
    to().set_policy(policy);
    expect_divided(unfinished);
  }
  to().set_policy({.loss = 1.0});
  EXPECT_EQ(send(), Port::Sent::kTaken);
  EXPECT_EQ(to().counters().out_lost, kPackets);
}

TEST_P(TrainTest, AnAccessPortTagsPackets) {
  add();
  from().set_policy({.vlan = 5});
  learn(true);
  EXPECT_EQ(send(), Port::Sent::kTaken);
  const auto taken = take();
  ASSERT_EQ(taken.size(), kPackets);
  for (std::uint32_t i = 0; i < kPackets; ++i) EXPECT_EQ(taken[i].size(), packets[i].size() + 4);
}

// The receiver gets what the tap has seen.
TEST_P(TrainTest, TheTapSeesPackets) {
  std::vector<Bytes> seen;
  fabric.set_tap([&](const Port&, std::span<const std::byte> f, std::uint64_t) {
    if (f.size() > 64) seen.emplace_back(f.begin(), f.end());
  });
  add();
  EXPECT_EQ(send(), Port::Sent::kTaken);
  if (shares_) engine.change();
  const WireFrame front = to().front(now, nullptr);
  EXPECT_EQ(front.train, kPackets);
  Bytes whole(front.size());
  front.copy_to(whole);
  EXPECT_EQ(whole, bytes);
  EXPECT_THAT(seen, testing::ElementsAreArray(packets));
}

TEST_P(TrainTest, UnknownStationsAreSentPackets) {
  fabric.add("sender", users.emplace_back(), kQueue).set_link(true);
  fabric.add("receiver", users.emplace_back(), kQueue).set_link(true);
  expect_divided(unfinished);
}

TEST_P(TrainTest, WithoutABatchItIsCopiedInPackets) {
  add();
  EXPECT_EQ(from().send(train(), now), Port::Sent::kTaken);
  EXPECT_THAT(take(), testing::ElementsAreArray(unfinished));
}

// A slow port must not keep more of the sender's memory.
TEST_P(TrainTest, WhenNoBatchCanBeHeldItIsCopiedInPackets) {
  add();
  std::vector<EffectsBatch::Frame> held;
  while (made.batch->can_hold()) {
    held.push_back(engine.make(frame_of(64, 1)));
    ASSERT_TRUE(held.back().batch->hold());
    ASSERT_LE(held.size(), EffectsPool::kMaxHeld);
  }
  expect_divided(unfinished);
  for (const auto& frame : held) {
    frame.batch->release(1);
    engine.free(frame);
  }
}

TEST_P(TrainTest, AFullQueueBlocksIt) {
  add();
  unsigned sent = 0;
  while (send() == Port::Sent::kTaken) ++sent;
  EXPECT_EQ(sent, kQueue / bytes.size());
  EXPECT_EQ(to().front(now, nullptr).train, kPackets);
  for (unsigned i = 0; i < sent; ++i) to().pop();
  to().release();
  EXPECT_EQ(users[0].rooms, 1U);
  EXPECT_EQ(send(), Port::Sent::kTaken);
}

TEST_P(TrainTest, APortThatIsStuckLosesAllPackets) {
  add();
  while (send() == Port::Sent::kTaken) {
  }
  now += 2 * Switch::kWatchdog;
  EXPECT_EQ(from().send(train(), now, made.batch), Port::Sent::kTaken);
  EXPECT_EQ(to().counters().out_discards, kPackets);
}

TEST_P(TrainTest, APortWithoutZeroCopyGetsACopy) {
  add();
  to().set_zero_copy(false);
  EXPECT_EQ(send(), Port::Sent::kTaken);
  const WireFrame front = to().front(now, nullptr);
  engine.change();
  Bytes whole(front.size());
  front.copy_to(whole);
  EXPECT_EQ(whole, bytes);
  EXPECT_EQ(front.train, kPackets);
}

// The queue of an uplink is full in the middle of a train: the next call sends the rest.
TEST_P(TrainTest, BlockedInTheMiddle) {
  add(Port::Kind::kUplink);
  std::vector<Bytes> expected;
  std::vector<Bytes> taken;
  unsigned blocked = 0;
  for (unsigned round = 0; round < 50; ++round) {
    while (send() == Port::Sent::kBlocked) {
      ++blocked;
      for (const Bytes& f : take(5)) taken.push_back(f);
      while (to().queue_length() > kQueue / 2)
        for (const Bytes& f : take(1)) taken.push_back(f);
    }
    expected.insert(expected.end(), packets.begin(), packets.end());
    ++now;
  }
  for (const Bytes& f : take(1000)) taken.push_back(f);
  EXPECT_GT(blocked, 5U);
  EXPECT_EQ(taken.size(), expected.size());
  EXPECT_TRUE(taken == expected);
  EXPECT_EQ(from().counters().in_frames, expected.size());
}

// As when the receiver's hypervisor goes.
TEST_P(TrainTest, ItsPacketsCountAsDiscarded) {
  add();
  EXPECT_EQ(send(), Port::Sent::kTaken);
  to().discard();
  EXPECT_EQ(to().counters().out_discards, kPackets);
  EXPECT_EQ(payload.done(), shares_);
}

// A train of TCP segments, to the same station.
struct TcpTrainTest : TrainFixture {
  static constexpr std::uint32_t kSegments = 5;
  static constexpr std::uint16_t kMss = 1400;
  TcpTrainTest() {
    frames::SampleFrame sample;
    sample.payload = (kSegments - 1) * kMss + 7;
    tcp = sample.make();
    std::ranges::copy(std::span(bytes).first(frames::kAddresses), tcp.begin());
    const auto train = *frames::TcpTrain::parse(tcp, kSegments, kMss);
    for (std::uint32_t i = 0; i < kSegments; ++i) {
      segments.emplace_back(train.bytes(i));
      train.write(i, segments.back());
    }
    batch = engine.make(tcp);
  }
  ~TcpTrainTest() override { engine.free(batch); }
  Port::Sent send() {
    WireFrame train{batch.bytes, Icrc::kDeferred, kSegments};
    train.mss = kMss;
    return from().send(train, now, batch.batch);
  }
  Bytes tcp;
  std::vector<Bytes> segments;
  EffectsBatch::Frame batch;
};

TEST_F(TcpTrainTest, PassesWholeBetweenGuests) {
  add();
  EXPECT_EQ(send(), Port::Sent::kTaken);
  const WireFrame front = to().front(now, nullptr);
  EXPECT_EQ(front.train, kSegments);
  EXPECT_EQ(front.mss, kMss);
  EXPECT_FALSE(front.finished());
  EXPECT_EQ(front.bytes.data(), batch.bytes.data()) << "not copied";
  to().pop();
  EXPECT_EQ(from().counters().in_frames, kSegments);
  EXPECT_EQ(to().counters().out_frames, kSegments);
}

TEST_F(TcpTrainTest, OthersGetSegments) {
  for (const PortPolicy& policy :
       {PortPolicy{.rate = 100'000'000'000}, PortPolicy{.drop = true}, PortPolicy{.loss = 1e-12}}) {
    add(Port::Kind::kGuest, policy);
    EXPECT_EQ(send(), Port::Sent::kTaken);
    now += 1'000'000;
    EXPECT_THAT(take(), testing::ElementsAreArray(segments));
    Switch::remove(to());
    Switch::remove(from());
  }
  add(Port::Kind::kUplink);
  EXPECT_EQ(send(), Port::Sent::kTaken);
  EXPECT_THAT(take(), testing::ElementsAreArray(segments));
}

}  // namespace
}  // namespace tern::daemon
