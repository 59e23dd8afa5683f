// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "switch.h"
#include "tern_hw.hpp"

namespace tern::daemon {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::size_t kQueue = 64 * 1024;

// ---- the egress queue ----

Bytes frame_of(std::size_t len, unsigned seed) {
  Bytes b(len);
  for (std::size_t i = 0; i < len; ++i) b[i] = static_cast<std::byte>(seed * 31 + i);
  return b;
}

TEST(EgressQueueTest, FramesComeOutAsTheyWentIn) {
  constexpr std::size_t kLimit = 128 * 1024;
  EgressQueue queue(4 * kLimit);
  std::mt19937 random(1);
  std::deque<Bytes> model;
  for (unsigned step = 0; step < 200'000; ++step) {
    // The queue is short for a while, then long for a while.
    if (random() % 16 < (step / 1000 % 2 == 0 ? 7 : 9)) {
      const Bytes frame = frame_of(14 + random() % 9000, step);
      if (queue.put(frame, {}, step, kLimit, false)) {
        model.push_back(frame);
      } else {
        ASSERT_GT(queue.length() + frame.size() + 32, kLimit) << step;
      }
    } else {
      const auto front = queue.front();
      ASSERT_EQ(front.bytes.empty(), model.empty()) << step;
      if (model.empty()) continue;
      ASSERT_TRUE(std::ranges::equal(front.bytes, model.front())) << step;
      queue.pop();
      model.pop_front();
      ASSERT_EQ(queue.empty(), model.empty());
    }
  }
}

TEST(EgressQueueTest, TheLimitCountsWhatWaits) {
  EgressQueue queue(kQueue);
  const Bytes frame = frame_of(1000, 1);
  unsigned frames = 0;
  while (queue.put(frame, {}, 0, 10'000, false)) ++frames;
  EXPECT_EQ(frames, 10'000U / 1024);
  EXPECT_LE(queue.length(), 10'000U);
  ASSERT_FALSE(queue.front().bytes.empty());
  queue.pop();
  EXPECT_TRUE(queue.put(frame, {}, 0, 10'000, false));
}

TEST(EgressQueueTest, TwoProducersAndAConsumerInThreads) {
  EgressQueue queue(kQueue);
  constexpr unsigned kFrames = 20'000;
  std::vector<std::thread> producers;
  for (unsigned id = 0; id < 2; ++id) {
    producers.emplace_back([&queue, id] {
      for (unsigned i = 0; i < kFrames; ++i) {
        Bytes frame(60 + i % 3000);
        std::memcpy(frame.data(), &i, sizeof(i));
        frame[12] = static_cast<std::byte>(id);
        frame.back() = static_cast<std::byte>(i);
        while (!queue.put(frame, {}, i, kQueue, false)) std::this_thread::yield();
      }
    });
  }
  std::array<unsigned, 2> next{};
  for (unsigned taken = 0; taken < 2 * kFrames;) {
    const auto front = queue.front();
    if (front.bytes.empty()) {
      std::this_thread::yield();
      continue;
    }
    unsigned& expected = next.at(std::to_integer<unsigned>(front.bytes[12]));
    unsigned i = 0;
    std::memcpy(&i, front.bytes.data(), sizeof(i));
    ASSERT_EQ(i, expected++);
    ASSERT_EQ(front.bytes.size(), 60 + i % 3000);
    ASSERT_EQ(front.bytes.back(), static_cast<std::byte>(i));
    queue.pop();
    ++taken;
  }
  for (std::thread& producer : producers) producer.join();
}

// An engine whose capture makes batches of one frame.
class Engine {
 public:
  Engine() {
    static constexpr TernHostOps kOps = {.map = [](void*, std::uint64_t, std::uint64_t*, bool) -> void* { return nullptr; },
                                         .unmap = [](void*, void*, std::uint64_t, bool, std::uint64_t) {},
                                         .now = [](void*) { return std::uint64_t{1}; },
                                         .random = [](void*) { return std::uint64_t{1}; },
                                         .dm_written = nullptr,
                                         .ram_written = nullptr};
    TernConfig config{};
    config.uar_bar_size = 2 << TERN_PAGE_SHIFT_MAX;
    config.max_qp = config.max_cq = config.max_mr = config.max_mw = 2;
    config.num_vectors = 2;
    config.max_mtu = 9216;
    config.link_speed = 1000;
    config.mac[0] = 2;
    config.capture = 1;
    engine_.reset(tern_engine_new(&config, &kOps, nullptr));
  }
  // The frame's batch has an owner, who frees it.
  TernFrame make(const Bytes& frame) {
    tern_engine_receive(engine_.get(), frame.data(), frame.size());
    return tern_engine_effects_frame(tern_engine_take_effects(engine_.get()), 0);
  }
  void free(const TernFrame& frame) { tern_engine_effects_free(engine_.get(), frame.batch); }
  void end() { engine_.reset(); }

 private:
  struct Free {
    void operator()(TernEngine* e) const { tern_engine_free(e); }
  };
  std::unique_ptr<TernEngine, Free> engine_;
};

std::span<const std::byte> bytes_of(const TernFrame& frame) { return std::as_bytes(std::span(frame.data, frame.len)); }

TEST(EgressQueueTest, ALongFrameStaysWhereItIs) {
  Engine engine;
  EgressQueue queue(kQueue);
  for (unsigned round = 0; round < 3 * TERN_MAX_HELD; ++round) {
    const Bytes bytes = frame_of(4000, round);
    std::array<TernFrame, 2> frames{engine.make(bytes), engine.make(frame_of(4000, round + 1))};
    for (const TernFrame& frame : frames) {
      ASSERT_TRUE(queue.put(bytes_of(frame), {}, round, kQueue, false, frame.batch));
      engine.free(frame);
    }
    EXPECT_EQ(queue.length(), 2U * 4016);
    for (unsigned i = 0; i < 2; ++i) {
      const auto front = queue.front();
      ASSERT_EQ(static_cast<const void*>(front.bytes.data()), frames.at(i).data) << round;
      ASSERT_EQ(front.time, round);
      ASSERT_TRUE(std::ranges::equal(front.bytes, frame_of(4000, round + i)));
      queue.pop();
    }
    EXPECT_EQ(queue.length(), 0U);
    ASSERT_TRUE(queue.front().bytes.empty());
  }
}

TEST(EgressQueueTest, WhatIsChangedOrShortIsCopied) {
  Engine engine;
  EgressQueue queue(kQueue);
  const auto copied = [&](const Bytes& bytes, TagChange tag, bool congestion) {
    const TernFrame frame = engine.make(bytes);
    EXPECT_TRUE(queue.put(bytes_of(frame), tag, 0, kQueue, congestion, frame.batch));
    const bool is = static_cast<const void*>(queue.front().bytes.data()) != frame.data;
    EXPECT_TRUE(std::ranges::equal(bytes_of(frame), bytes)) << "the sender's is not changed";
    queue.pop();
    engine.free(frame);
    return is;
  };
  Bytes packet = frame_of(4000, 1);
  packet[12] = std::byte{8};
  packet[13] = std::byte{0};
  EXPECT_TRUE(copied(frame_of(100, 1), {}, false));
  EXPECT_TRUE(copied(packet, {}, true));
  EXPECT_TRUE(copied(packet, {TagChange::Kind::kInsert, 7}, false));
  EXPECT_TRUE(copied(packet, {TagChange::Kind::kStrip, 0}, false));
  EXPECT_FALSE(copied(packet, {}, false));
}

// Frames outlive their engine. More than the engine lends are copied; the queue releases what nobody takes.
TEST(EgressQueueTest, FramesOutliveTheirEngine) {
  Engine engine;
  {
    EgressQueue queue(1 << 20);
    for (unsigned i = 0; i < 2 * TERN_MAX_HELD; ++i) {
      const TernFrame frame = engine.make(frame_of(4000, i));
      ASSERT_TRUE(queue.put(bytes_of(frame), {}, i, 1 << 20, false, frame.batch));
      engine.free(frame);
    }
    engine.end();
    for (unsigned i = 0; i < TERN_MAX_HELD + 10; ++i) {
      ASSERT_TRUE(std::ranges::equal(queue.front().bytes, frame_of(4000, i))) << i;
      queue.pop();
    }
  }
  Engine other;
  EgressQueue queue(kQueue);
  const TernFrame frame = other.make(frame_of(4000, 1));
  ASSERT_TRUE(queue.put(bytes_of(frame), {}, 0, kQueue, false, frame.batch));
  other.free(frame);
  other.end();
}

// ---- the switch ----

struct User final : PortUser {
  void frames_wait() override { ++woken; }
  void room() override { ++rooms; }
  std::atomic<unsigned> woken = 0;
  std::atomic<unsigned> rooms = 0;
};

struct SwitchTest : testing::Test {
  SwitchTest() {
    fabric.set_clock([this] { return now; });
  }
  void add(unsigned n, std::size_t queue = kQueue) {
    for (unsigned i = 0; i < n; ++i) fabric.add("p" + std::to_string(fabric.ports().size()), users.emplace_back(), queue).set_link(true);
  }
  Port& port(std::size_t i) { return fabric.ports().at(i); }

  // A frame between stations, each the last byte of its address; 0xff: broadcast.
  static Bytes frame(unsigned to, unsigned from, std::size_t len = 64, int vlan = -1) {
    Bytes f(len);
    const auto address = [&](std::size_t at, unsigned station) {
      f[at] = static_cast<std::byte>(station == 0xff ? 0xff : 2);
      for (std::size_t i = 1; i < 6; ++i) f[at + i] = static_cast<std::byte>(station == 0xff ? 0xff : 0);
      f[at + 5] = static_cast<std::byte>(station);
    };
    address(0, to);
    address(6, from);
    f[12] = std::byte{8};
    if (vlan < 0) return f;
    const std::array<std::byte, 4> tag{std::byte{0x81}, std::byte{0}, static_cast<std::byte>(vlan >> 8), static_cast<std::byte>(vlan)};
    f.insert(f.begin() + 12, tag.begin(), tag.end());
    return f;
  }
  static std::span<const std::byte, 6> address_of(const Bytes& f) { return std::span(f).subspan<6, 6>(); }

  Port::Sent send(std::size_t from, const Bytes& f) { return port(from).send(f, now); }
  // Takes all frames that leave through a port.
  std::vector<Bytes> take(std::size_t i) {
    std::vector<Bytes> taken;
    for (auto f = port(i).front(now, nullptr); !f.empty(); f = port(i).front(now, nullptr)) {
      taken.emplace_back(f.begin(), f.end());
      port(i).pop();
    }
    port(i).release();
    return taken;
  }

  Switch fabric;
  std::deque<User> users;
  std::uint64_t now = 1'000'000'000;
};

TEST_F(SwitchTest, LearnsAddressesAndFloodsUnknownOnes) {
  add(3);
  send(0, frame(2, 1));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_EQ(take(2).size(), 1U);
  EXPECT_TRUE(take(0).empty());
  send(1, frame(1, 2));
  EXPECT_EQ(take(0).size(), 1U);
  EXPECT_TRUE(take(2).empty());
  send(0, frame(2, 1));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_TRUE(take(2).empty());
  EXPECT_EQ(port(0).counters().in_frames, 2U);
  EXPECT_EQ(port(1).counters().out_frames, 2U);
}

TEST_F(SwitchTest, ReceiversAreWokenOnceForManyFrames) {
  add(3);
  send(0, frame(0xff, 1));
  send(0, frame(0xff, 1));
  EXPECT_EQ(users[1].woken + users[2].woken, 0U);
  port(0).wake_receivers();
  EXPECT_EQ(users[1].woken, 1U);
  EXPECT_EQ(users[2].woken, 1U);
  send(1, frame(1, 2));
  port(0).wake_receivers();
  EXPECT_EQ(users[0].woken, 0U) << "that is another sender's";
  port(1).wake_receivers();
  EXPECT_EQ(users[0].woken, 1U);
  EXPECT_EQ(users[2].woken, 1U);
}

TEST_F(SwitchTest, PortsShareALongFrame) {
  add(3);
  Engine engine;
  const Bytes bytes = frame(0xff, 1, 4000);
  const TernFrame broadcast = engine.make(bytes);
  EXPECT_EQ(port(0).send(bytes_of(broadcast), now, broadcast.batch), Port::Sent::kTaken);
  engine.free(broadcast);
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_EQ(static_cast<const void*>(port(i).front(now, nullptr).data()), broadcast.data);
    EXPECT_THAT(take(i), testing::ElementsAre(bytes));
  }
}

TEST_F(SwitchTest, AFrameDoesNotReturnToItsPort) {
  add(2);
  send(0, frame(9, 1));
  send(0, frame(9, 2));
  take(1);
  send(0, frame(1, 2));
  EXPECT_TRUE(take(0).empty());
  EXPECT_TRUE(take(1).empty());
}

TEST_F(SwitchTest, AStationMoves) {
  add(3);
  send(0, frame(0xff, 1));
  send(1, frame(0xff, 1));
  const Bytes f = frame(0xff, 1);
  EXPECT_EQ(fabric.find(address_of(f), 0), &port(1));
  take(2);
  send(2, frame(1, 3));
  EXPECT_EQ(take(1).size(), 2U);  // the broadcast and this one
}

TEST_F(SwitchTest, ForgetsWhatIsOldOrDown) {
  add(3);
  send(0, frame(0xff, 1));
  take(1);
  take(2);
  now += std::uint64_t{Switch::kAge + 1} * 1'000'000'000;
  send(1, frame(1, 2));
  EXPECT_EQ(take(2).size(), 1U) << "an old address is flooded to";
  take(0);
  send(0, frame(0xff, 1));
  take(1);
  take(2);
  port(0).set_link(false);
  send(1, frame(1, 2));
  EXPECT_EQ(take(2).size(), 1U);
  EXPECT_TRUE(take(0).empty());
  EXPECT_EQ(send(0, frame(2, 1)), Port::Sent::kTaken);
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(port(0).counters().in_discards, 1U);
}

TEST_F(SwitchTest, OnePortCannotFillTheTable) {
  add(3);
  for (unsigned i = 0; i < 4 * Switch::kMaxAddresses; ++i) {
    Bytes f = frame(0xff, 1);
    f[9] = static_cast<std::byte>(i >> 8);
    f[10] = static_cast<std::byte>(i);
    send(0, f);
    take(1);
    take(2);
  }
  send(1, frame(0xff, 2));
  take(0);
  take(2);
  send(0, frame(2, 1));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_TRUE(take(2).empty()) << "another port's address is known";
}

TEST_F(SwitchTest, AccessPortsTagAndUntag) {
  add(4);
  PortPolicy access;
  access.vlan = 77;
  port(0).set_policy(access);
  port(1).set_policy(access);
  access.vlan = 78;
  port(2).set_policy(access);
  send(0, frame(0xff, 1));
  EXPECT_THAT(take(1), testing::ElementsAre(frame(0xff, 1)));
  EXPECT_TRUE(take(2).empty());
  EXPECT_THAT(take(3), testing::ElementsAre(frame(0xff, 1, 64, 77)));
  send(3, frame(1, 4, 64, 77));
  EXPECT_THAT(take(0), testing::ElementsAre(frame(1, 4)));
  send(3, frame(0xff, 4, 64, 78));
  EXPECT_TRUE(take(0).empty());
  EXPECT_EQ(take(2).size(), 1U);
  send(3, frame(0xff, 4));
  EXPECT_TRUE(take(0).empty()) << "an untagged frame is of no VLAN of theirs";
  send(0, frame(0xff, 1, 64, 78));
  EXPECT_EQ(port(0).counters().in_discards, 1U) << "a tag of another VLAN";
  EXPECT_TRUE(take(2).empty());
}

TEST_F(SwitchTest, TheSameAddressInTwoVlans) {
  add(4);
  send(0, frame(0xff, 1, 64, 10));
  send(1, frame(0xff, 1, 64, 11));
  for (std::size_t i = 0; i < 4; ++i) take(i);
  send(2, frame(1, 3, 64, 10));
  EXPECT_EQ(take(0).size(), 1U);
  EXPECT_TRUE(take(1).empty());
  send(2, frame(1, 3, 64, 11));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_TRUE(take(0).empty());
}

TEST_F(SwitchTest, AFullQueueBlocksItsSenderUntilThereIsRoom) {
  add(2);
  send(1, frame(0xff, 2));
  take(0);
  unsigned sent = 0;
  while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) ++sent;
  EXPECT_EQ(sent, kQueue / 1024);
  EXPECT_EQ(users[0].rooms, 0U);
  EXPECT_EQ(take(1).size(), sent);
  EXPECT_EQ(users[0].rooms, 1U);
  EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kTaken);
  EXPECT_EQ(port(1).counters().out_discards, 0U);
  EXPECT_EQ(port(1).counters().blocked, 1U);
}

TEST_F(SwitchTest, ABlockedFloodGoesOnWhereItStopped) {
  add(4);
  send(2, frame(0xff, 3));
  for (std::size_t i = 0; i < 4; ++i) take(i);
  while (send(0, frame(3, 1, 1000)) == Port::Sent::kTaken) {
  }
  const Bytes broadcast = frame(0xff, 1, 1000);
  ++now;
  EXPECT_EQ(send(0, broadcast), Port::Sent::kBlocked);
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_TRUE(take(3).empty());
  take(2);
  EXPECT_EQ(send(0, broadcast), Port::Sent::kTaken);
  EXPECT_TRUE(take(1).empty()) << "it has this frame";
  EXPECT_EQ(take(2).size(), 1U);
  EXPECT_EQ(take(3).size(), 1U);
}

TEST_F(SwitchTest, APortThatTakesNothingDoesNotBlockForEver) {
  add(3);
  send(1, frame(0xff, 2));
  take(0);
  while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) {
  }
  now += Switch::kWatchdog / 2;
  EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kBlocked);
  now += Switch::kWatchdog;
  EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kTaken);
  EXPECT_GE(port(1).counters().out_discards, 1U);
  EXPECT_GE(port(1).counters().watchdog, 1U);
  take(1);
  EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kTaken);
  EXPECT_EQ(take(1).size(), 1U) << "it drains again";
}

TEST_F(SwitchTest, ASlowPortIsNotStuck) {
  add(2);
  send(1, frame(0xff, 2));
  take(0);
  while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) {
  }
  for (int i = 0; i < 10; ++i) {
    now += Switch::kWatchdog - 1000;
    ASSERT_FALSE(port(1).front(now, nullptr).empty());
    port(1).pop();
    while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) {
    }
  }
  EXPECT_EQ(port(1).counters().out_discards, 0U);
}

TEST_F(SwitchTest, ADroppingPortCountsWhatItDrops) {
  add(2);
  PortPolicy policy;
  policy.queue = 32 * 1024;
  policy.drop = true;
  port(1).set_policy(policy);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kTaken);
  EXPECT_EQ(take(1).size(), 32U);
  EXPECT_EQ(port(1).counters().out_discards, 68U);
}

TEST_F(SwitchTest, RateAndDelayHoldFramesBack) {
  add(2);
  PortPolicy policy;
  policy.rate = 1'000'000'000;  // 1000 bytes in 8 us
  policy.delay = 100'000;
  port(1).set_policy(policy);
  const std::uint64_t start = now;
  for (int i = 0; i < 3; ++i) send(0, frame(2, 1, 1000));
  for (std::uint64_t i = 1; i <= 3; ++i) {
    std::uint64_t due = 0;
    EXPECT_TRUE(port(1).front(now, &due).empty());
    EXPECT_EQ(due, start + i * 8'000 + 100'000);
    now = due;
    EXPECT_FALSE(port(1).front(now, &due).empty());
    port(1).pop();
  }
  // An idle wire saves nothing up.
  now += 1'000'000;
  send(0, frame(2, 1, 1000));
  std::uint64_t due = 0;
  EXPECT_TRUE(port(1).front(now, &due).empty());
  EXPECT_EQ(due, now + 108'000);
}

TEST_F(SwitchTest, LossIsAsProbableAsItSays) {
  add(2, std::size_t{4} << 20);
  PortPolicy policy;
  policy.queue = std::size_t{4} << 20;
  policy.loss = 0.1;
  port(1).set_policy(policy);
  std::size_t came = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 2000; ++i) send(0, frame(2, 1));
    came += take(1).size();
  }
  EXPECT_EQ(came + port(1).counters().out_lost, 20'000U);
  // Six standard deviations.
  EXPECT_NEAR(static_cast<double>(port(1).counters().out_lost), 2000, 6 * 42.5);
}

// An IPv4 or IPv6 packet with this ECN field; the IPv4 checksum is right.
Bytes packet(bool v6, unsigned ecn, int vlan = -1) {
  Bytes f = SwitchTest::frame(2, 1, 1000, vlan);
  const std::size_t at = vlan < 0 ? 14U : 18U;
  f[at - 2] = static_cast<std::byte>(v6 ? 0x86 : 0x08);
  f[at - 1] = static_cast<std::byte>(v6 ? 0xdd : 0x00);
  if (v6) {
    f[at] = std::byte{0x60};
    f[at + 1] = static_cast<std::byte>(ecn << 4);
    return f;
  }
  f[at] = std::byte{0x45};
  f[at + 1] = static_cast<std::byte>(0x68 | ecn);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2) sum += std::to_integer<unsigned>(f[at + i]) << 8 | std::to_integer<unsigned>(f[at + i + 1]);
  sum = (sum & 0xffff) + (sum >> 16);
  f[at + 10] = static_cast<std::byte>(~sum >> 8);
  f[at + 11] = static_cast<std::byte>(~sum);
  return f;
}

TEST_F(SwitchTest, MarksPacketsWhenTheQueueIsLong) {
  add(2, std::size_t{1} << 20);
  PortPolicy policy;
  policy.queue = std::size_t{1} << 20;
  policy.red_min = 100 * 1024;
  policy.red_max = 200 * 1024;
  policy.red_probability = 0.5;
  port(1).set_policy(policy);
  std::vector<bool> marked;
  for (int i = 0; i < 300; ++i) send(0, packet(false, 2));
  for (const Bytes& f : take(1)) marked.push_back((std::to_integer<unsigned>(f[15]) & 3) == 3);
  ASSERT_EQ(marked.size(), 300U);
  const auto count = [&](std::size_t first, std::size_t last) {
    return std::count(marked.begin() + static_cast<std::ptrdiff_t>(first), marked.begin() + static_cast<std::ptrdiff_t>(last), true);
  };
  // A packet takes 1024 bytes of the queue.
  EXPECT_EQ(count(0, 100), 0);
  EXPECT_EQ(count(201, 300), 99);
  EXPECT_GT(count(100, 200), 5);
  EXPECT_LT(count(100, 200), 50);
  EXPECT_EQ(port(1).counters().out_marked, static_cast<std::uint64_t>(count(0, 300)));
}

TEST_F(SwitchTest, MarkingKeepsChecksumsRightAndDropsWhatIsNotCapable) {
  add(2);
  PortPolicy policy;
  policy.red_min = 0;
  policy.red_max = 1;
  port(1).set_policy(policy);
  send(0, frame(2, 1));  // the queue must not be empty; ARP and the like is not marked
  for (const int vlan : {-1, 77}) {
    for (const bool v6 : {false, true}) {
      send(0, packet(v6, 1, vlan));
      send(0, packet(v6, 0, vlan));
    }
  }
  const auto taken = take(1);
  ASSERT_EQ(taken.size(), 5U);
  EXPECT_EQ(taken[1], packet(false, 3));
  EXPECT_EQ(taken[2], packet(true, 3));
  EXPECT_EQ(taken[3], packet(false, 3, 77));
  EXPECT_EQ(taken[4], packet(true, 3, 77));
  EXPECT_EQ(port(1).counters().out_discards, 4U);
}

TEST_F(SwitchTest, RefusesFramesThatAreTooShortOrLong) {
  add(2);
  send(0, Bytes(13));
  send(0, Bytes(EgressQueue::kFrameMax));
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(port(0).counters().in_discards, 2U);
}

TEST_F(SwitchTest, TheTapSeesEachFrameOnce) {
  add(4);
  unsigned seen = 0;
  fabric.set_tap([&](const Port& from, std::span<const std::byte> f, std::uint64_t) {
    EXPECT_EQ(&from, &port(0));
    EXPECT_EQ(f.size(), 64U);
    ++seen;
  });
  send(0, frame(0xff, 1));
  EXPECT_EQ(seen, 1U);
}

TEST(SwitchLimits, TakesSoManyPorts) {
  Switch fabric;
  User user;
  for (unsigned i = 0; i < Switch::kMaxPorts; ++i) fabric.add("p", user, kQueue);
  EXPECT_THROW(fabric.add("p", user, kQueue), std::length_error);
}

// Senders that block each other, in threads: all frames arrive, in order.
TEST(SwitchThreads, NothingIsLostUnderBackPressure) {
  struct Station final : PortUser {
    void frames_wait() override {}
    void room() override { has_room.store(true); }
    std::atomic<bool> has_room = true;
  };
  constexpr unsigned kStations = 4;
  constexpr std::uint32_t kFrames = 5000;
  Switch fabric;
  std::deque<Station> stations(kStations);
  for (unsigned i = 0; i < kStations; ++i) {
    Port& port = fabric.add("p" + std::to_string(i), stations[i], kQueue);
    port.set_link(true);
    const Bytes hello = SwitchTest::frame(0xff, i + 1);
    port.send(hello, 1);
  }
  std::atomic<unsigned> done = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kStations; ++i) {
    threads.emplace_back([&, i] {
      Port& port = fabric.ports()[i];
      std::array<std::uint32_t, kStations> next{};
      std::uint32_t sent = 0;
      std::uint64_t received = 0;
      bool finished = false;
      while (done.load() < kStations) {
        if (sent < kFrames && stations[i].has_room.exchange(false)) {
          while (sent < kFrames) {
            // One after the other to each of the others.
            const unsigned to = (i + 1 + sent % (kStations - 1)) % kStations;
            Bytes f = SwitchTest::frame(to + 1, i + 1, 100 + sent % 2000);
            std::memcpy(f.data() + 20, &sent, sizeof(sent));
            if (port.send(f, sent + 2) == Port::Sent::kBlocked) break;
            ++sent;
          }
          if (sent == kFrames) stations[i].has_room = true;
        }
        for (auto f = port.front(0, nullptr); !f.empty(); f = port.front(0, nullptr)) {
          if (f[0] != std::byte{0xff}) {
            const unsigned from = std::to_integer<unsigned>(f[11]) - 1;
            std::uint32_t number = 0;
            std::memcpy(&number, f.data() + 20, sizeof(number));
            EXPECT_TRUE(next.at(from) <= number) << "out of order";
            next.at(from) = number + 1;
            ++received;
          }
          port.pop();
          port.release();
        }
        if (!finished && sent == kFrames && received == kFrames) {
          finished = true;
          ++done;
        }
        std::this_thread::yield();
      }
      EXPECT_EQ(received, kFrames);
      EXPECT_EQ(port.counters().out_discards, 0U);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace tern::daemon
