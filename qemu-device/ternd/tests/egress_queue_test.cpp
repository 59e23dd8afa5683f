// SPDX-License-Identifier: GPL-2.0-or-later
#include "egress_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "frames.h"

namespace tern::daemon {
namespace {

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

TEST(EgressQueueTest, ALongFrameStaysWhereItIs) {
  Engine engine;
  EgressQueue queue(kQueue);
  for (unsigned round = 0; round < 3 * EffectsPool::kMaxHeld; ++round) {
    const Bytes bytes = frame_of(4000, round);
    std::array<EffectsBatch::Frame, 2> frames{engine.make(bytes),
                                              engine.make(frame_of(4000, round + 1))};
    for (const EffectsBatch::Frame& frame : frames) {
      ASSERT_TRUE(queue.put(frame.bytes, {}, round, kQueue, false, frame.batch));
      engine.free(frame);
    }
    EXPECT_EQ(queue.length(), 2U * 4016);
    for (unsigned i = 0; i < 2; ++i) {
      const auto front = queue.front();
      ASSERT_EQ(front.bytes.data(), frames.at(i).bytes.data()) << round;
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
    const EffectsBatch::Frame frame = engine.make(bytes);
    EXPECT_TRUE(queue.put(frame.bytes, tag, 0, kQueue, congestion, frame.batch));
    const bool is = queue.front().bytes.data() != frame.bytes.data();
    EXPECT_TRUE(std::ranges::equal(frame.bytes, bytes)) << "the sender's is not changed";
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

// Frames outlive their engine. More than the engine lends are copied; the queue releases what
// nobody takes.
TEST(EgressQueueTest, FramesOutliveTheirEngine) {
  Engine engine;
  {
    EgressQueue queue(1 << 20);
    for (unsigned i = 0; i < 2 * EffectsPool::kMaxHeld; ++i) {
      const EffectsBatch::Frame frame = engine.make(frame_of(4000, i));
      ASSERT_TRUE(queue.put(frame.bytes, {}, i, 1 << 20, false, frame.batch));
      engine.free(frame);
    }
    engine.end();
    for (unsigned i = 0; i < EffectsPool::kMaxHeld + 10; ++i) {
      ASSERT_TRUE(std::ranges::equal(queue.front().bytes, frame_of(4000, i))) << i;
      queue.pop();
    }
  }
  Engine other;
  EgressQueue queue(kQueue);
  const EffectsBatch::Frame frame = other.make(frame_of(4000, 1));
  ASSERT_TRUE(queue.put(frame.bytes, {}, 0, kQueue, false, frame.batch));
  other.free(frame);
  other.end();
}

}  // namespace
}  // namespace tern::daemon
