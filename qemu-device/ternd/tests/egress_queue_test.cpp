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
      if (queue.put({frame}, {}, step, kLimit)) {
        model.push_back(frame);
      } else {
        ASSERT_GT(queue.length() + frame.size() + 32, kLimit) << step;
      }
    } else {
      const auto front = queue.front();
      ASSERT_EQ(front.frame.bytes.empty(), model.empty()) << step;
      if (model.empty()) continue;
      ASSERT_TRUE(std::ranges::equal(front.frame.bytes, model.front())) << step;
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
  while (queue.put({frame}, {}, 0, 10'000)) ++frames;
  EXPECT_EQ(frames, 10'000U / 1024);
  EXPECT_LE(queue.length(), 10'000U);
  ASSERT_FALSE(queue.front().frame.bytes.empty());
  queue.pop();
  EXPECT_TRUE(queue.put({frame}, {}, 0, 10'000));
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
        while (!queue.put({frame}, {}, i, kQueue)) std::this_thread::yield();
      }
    });
  }
  std::array<unsigned, 2> next{};
  for (unsigned taken = 0; taken < 2 * kFrames;) {
    const auto front = queue.front();
    if (front.frame.bytes.empty()) {
      std::this_thread::yield();
      continue;
    }
    unsigned& expected = next.at(std::to_integer<unsigned>(front.frame.bytes[12]));
    unsigned i = 0;
    std::memcpy(&i, front.frame.bytes.data(), sizeof(i));
    ASSERT_EQ(i, expected++);
    ASSERT_EQ(front.frame.bytes.size(), 60 + i % 3000);
    ASSERT_EQ(front.frame.bytes.back(), static_cast<std::byte>(i));
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
      ASSERT_TRUE(queue.put({frame.bytes}, {}, round, kQueue, frame.batch));
      engine.free(frame);
    }
    EXPECT_EQ(queue.length(), 2U * 4016);
    for (unsigned i = 0; i < 2; ++i) {
      const auto front = queue.front();
      ASSERT_EQ(front.frame.bytes.data(), frames.at(i).bytes.data()) << round;
      ASSERT_EQ(front.time, round);
      ASSERT_TRUE(std::ranges::equal(front.frame.bytes, frame_of(4000, round + i)));
      queue.pop();
    }
    EXPECT_EQ(queue.length(), 0U);
    ASSERT_TRUE(queue.front().frame.bytes.empty());
  }
}

TEST(EgressQueueTest, WhatIsChangedOrShortIsCopied) {
  Engine engine;
  EgressQueue queue(kQueue);
  const auto copied = [&](const Bytes& bytes, const FrameChange& change) {
    const EffectsBatch::Frame frame = engine.make(bytes);
    EXPECT_TRUE(queue.put({frame.bytes}, change, 0, kQueue, frame.batch));
    const bool is = queue.front().frame.bytes.data() != frame.bytes.data();
    EXPECT_TRUE(std::ranges::equal(frame.bytes, bytes)) << "the sender's is not changed";
    queue.pop();
    engine.free(frame);
    return is;
  };
  Bytes packet = frame_of(4000, 1);
  packet[12] = std::byte{8};
  packet[13] = std::byte{0};
  EXPECT_TRUE(copied(frame_of(100, 1), {}));
  EXPECT_TRUE(copied(packet, {.tag = {}, .congestion = true}));
  EXPECT_TRUE(copied(packet, {.tag = {}, .icrc = true}));
  EXPECT_TRUE(copied(packet, {{TagChange::Kind::kInsert, 7}}));
  EXPECT_TRUE(copied(packet, {{TagChange::Kind::kStrip, 0}}));
  EXPECT_FALSE(copied(packet, {}));
}

// Frames outlive their engine. More than the engine lends are copied; the queue releases what
// nobody takes.
TEST(EgressQueueTest, FramesOutliveTheirEngine) {
  Engine engine;
  {
    EgressQueue queue(1 << 20);
    for (unsigned i = 0; i < 2 * EffectsPool::kMaxHeld; ++i) {
      const EffectsBatch::Frame frame = engine.make(frame_of(4000, i));
      ASSERT_TRUE(queue.put({frame.bytes}, {}, i, 1 << 20, frame.batch));
      engine.free(frame);
    }
    engine.end();
    for (unsigned i = 0; i < EffectsPool::kMaxHeld + 10; ++i) {
      ASSERT_TRUE(std::ranges::equal(queue.front().frame.bytes, frame_of(4000, i))) << i;
      queue.pop();
    }
  }
  Engine other;
  EgressQueue queue(kQueue);
  const EffectsBatch::Frame frame = other.make(frame_of(4000, 1));
  ASSERT_TRUE(queue.put({frame.bytes}, {}, 0, kQueue, frame.batch));
  other.free(frame);
  other.end();
}

}  // namespace
}  // namespace tern::daemon
