// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/shared_payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "core/effects_batch.h"
#include "core/wire_frame.h"
#include "tests/fake_host.h"

namespace tern {
namespace {

using Bytes = std::vector<std::byte>;

class SharedPayloadTest : public ::testing::Test {
 protected:
  static Bytes pattern(std::size_t n, unsigned seed = 1) {
    Bytes bytes(n);
    for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + seed);
    return bytes;
  }
  // Shares memory_, in two pieces.
  void share(SharedPayload& payload) {
    SpanList list(host_);
    list.append_plain(std::span(memory_).first(kFirst));
    list.append_plain(std::span(memory_).subspan(kFirst));
    payload.share(list, 0);
  }
  static Bytes read(SharedPayload& payload) {
    Bytes bytes(payload.size());
    payload.copy_to(0, bytes);
    return bytes;
  }

  static constexpr std::size_t kSize = 10'000;
  static constexpr std::size_t kFirst = 3'000;
  FakeHost host_{1};
  Bytes memory_ = pattern(kSize);
};

TEST_F(SharedPayloadTest, ReadersSeeTheMemory) {
  SharedPayload payload;
  share(payload);
  EXPECT_EQ(payload.size(), kSize);
  memory_[5] = std::byte{99};
  EXPECT_EQ(read(payload), memory_);
  for (const std::size_t offset :
       {std::size_t{0}, std::size_t{1}, kFirst - 1, kFirst, kFirst + 1, kSize - 10}) {
    std::array<std::byte, 10> part{};
    payload.copy_to(offset, part);
    EXPECT_TRUE(std::ranges::equal(part, std::span(memory_).subspan(offset, 10))) << offset;
  }
}

TEST_F(SharedPayloadTest, LaterReadersSeeTheCopy) {
  SharedPayload payload;
  share(payload);
  const Bytes before = memory_;
  payload.unshare();
  memory_ = pattern(kSize, 2);
  EXPECT_EQ(read(payload), before);
  payload.unshare();
  EXPECT_EQ(read(payload), before);
}

TEST_F(SharedPayloadTest, WhatIsDoneIsTakenBackWithoutACopy) {
  SharedPayload payload;
  share(payload);
  payload.finish();
  payload.take_back();
  memory_[7] = std::byte{77};
  EXPECT_EQ(read(payload), memory_) << "nobody else reads it";
}

TEST_F(SharedPayloadTest, IsDoneOnceFinishedAndNotRead) {
  SharedPayload payload;
  share(payload);
  EXPECT_FALSE(payload.done());
  payload.read([&](auto) {
    payload.finish();
    EXPECT_FALSE(payload.done());
  });
  EXPECT_TRUE(payload.done());
  share(payload);
  EXPECT_FALSE(payload.done()) << "it is another frame's";
}

TEST_F(SharedPayloadTest, ASourceListRefersToIt) {
  SharedPayload payload;
  share(payload);
  SpanList from(host_);
  from.refer_to(payload);
  EXPECT_EQ(from.size(), kSize);
  for (const bool copied : {false, true}) {
    if (copied) payload.unshare();
    Bytes to(kSize);
    from.copy_to(to);
    EXPECT_EQ(to, memory_);
    Bytes pieces(kSize);
    SpanList list(host_);
    list.append_plain(std::span(pieces).first(100));
    list.append_plain(std::span(pieces).subspan(100));
    SpanList::copy(from, list);
    EXPECT_EQ(pieces, memory_);
  }
  // The destination is the memory itself, a little later.
  share(payload);
  const Bytes before = memory_;
  SpanList later(host_);
  later.append_plain(std::span(memory_).subspan(1));
  SpanList::copy(from, later);
  EXPECT_TRUE(
      std::ranges::equal(std::span(memory_).subspan(1), std::span(before).first(kSize - 1)));
  from.clear();
  EXPECT_TRUE(from.empty());
}

TEST_F(SharedPayloadTest, AFrameHasItWhereItBelongs) {
  Effects effects;
  const auto room = effects.begin_frame(100);
  for (std::size_t i = 0; i < 60; ++i) room[i] = static_cast<std::byte>(i);
  SpanList list(host_);
  list.append_plain(std::span(memory_));
  effects.commit_shared(60, list, 54, 1, 2);
  const Effects::Frame& made = effects.frames().front();
  WireFrame frame{effects.bytes(made), made.icrc, made.train};
  frame.payload = made.payload;
  EXPECT_EQ(frame.size(), 60 + kSize);
  EXPECT_FALSE(frame.finished());
  Bytes whole(frame.size());
  frame.copy_to(whole);
  EXPECT_TRUE(std::ranges::equal(std::span(whole).first(54), frame.bytes.first(54)));
  EXPECT_TRUE(std::ranges::equal(std::span(whole).subspan(54, kSize), memory_));
  EXPECT_TRUE(std::ranges::equal(std::span(whole).subspan(54 + kSize), frame.bytes.subspan(54)));
  Effects other;
  other.hand_over(frame, 1, false, 1);
  EXPECT_TRUE(std::ranges::equal(other.bytes(other.frames().back()), whole));
}

TEST_F(SharedPayloadTest, EffectsReuseThemAndForgetWhoListsThem) {
  Effects effects;
  SpanList list(host_);
  list.append_plain(std::span(memory_));
  List<SharedPayload> listed;
  const SharedPayload* first = nullptr;
  for (unsigned round = 0; round < 3; ++round) {
    (void)effects.begin_frame(100);
    SharedPayload& payload = effects.commit_shared(60, list, 54, 1, 2);
    if (round == 0) first = &payload;
    EXPECT_EQ(&payload, first);
    listed.push_back(payload.queue);
    if (round == 1) payload.unshare();
    if (round == 2) payload.take_back();
    EXPECT_EQ(listed.empty(), round == 2);
    effects.clear();
    EXPECT_TRUE(listed.empty());
  }
}

// No reader sees memory that changed after unshare() has returned.
TEST_F(SharedPayloadTest, UnsharingWaitsForReaders) {
  constexpr unsigned kRounds = 2'000;
  std::vector<std::unique_ptr<SharedPayload>> payloads;
  for (unsigned i = 0; i < kRounds; ++i) payloads.push_back(std::make_unique<SharedPayload>());
  std::atomic<unsigned> shared = 0;
  std::atomic<bool> wrong = false;
  const auto reader = [&] {
    Bytes bytes(kSize);
    for (unsigned i = 0; i < kRounds; ++i) {
      while (shared.load(std::memory_order_acquire) <= i) std::this_thread::yield();
      payloads[i]->copy_to(0, bytes);
      const auto value = static_cast<std::byte>(i);
      if (std::ranges::any_of(bytes, [value](std::byte b) { return b != value; })) wrong = true;
    }
  };
  std::thread one(reader);
  std::thread other(reader);
  for (unsigned i = 0; i < kRounds; ++i) {
    std::ranges::fill(memory_, static_cast<std::byte>(i));
    share(*payloads[i]);
    shared.store(i + 1, std::memory_order_release);
    if (i % 3 == 0) std::this_thread::yield();
    payloads[i]->unshare();
  }
  one.join();
  other.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace tern
