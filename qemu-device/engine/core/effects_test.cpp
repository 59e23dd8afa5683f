// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/effects.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tern {
namespace {

void add_frame(Effects& fx, std::size_t len, unsigned value) {
  const auto room = fx.begin_frame(len + 50);
  ASSERT_EQ(room.size(), len + 50);
  std::ranges::fill(room.first(len), static_cast<std::byte>(value));
  fx.commit_frame(len, value % 2 == 0, value);
}

TEST(Effects, KeepsFramesInOrder) {
  Effects fx;
  EXPECT_TRUE(fx.empty());
  // Enough frames to reallocate the storage several times.
  for (unsigned i = 0; i < 200; ++i) add_frame(fx, 1 + i * 37, i);
  EXPECT_FALSE(fx.empty());
  ASSERT_EQ(fx.frames().size(), 200U);
  for (unsigned i = 0; i < 200; ++i) {
    const Effects::Frame& f = fx.frames()[i];
    EXPECT_EQ(f.len, 1 + i * 37);
    EXPECT_EQ(f.to_wire, i % 2 == 0);
    EXPECT_EQ(f.time, i);
    EXPECT_TRUE(std::ranges::all_of(fx.bytes(f),
                                    [&](std::byte b) { return b == static_cast<std::byte>(i); }));
  }
  EXPECT_GE(fx.frame_bytes(), 200U);
}

TEST(Effects, ForgetsRoomThatWasNotCommitted) {
  Effects fx;
  (void)fx.begin_frame(1000);
  add_frame(fx, 10, 2);
  ASSERT_EQ(fx.frames().size(), 1U);
  EXPECT_EQ(fx.bytes(fx.frames()[0])[9], std::byte{2});
}

TEST(Effects, CollectsVectorsOnce) {
  Effects fx;
  fx.raise(0);
  fx.raise(63);
  fx.raise(64);
  fx.raise(127);
  fx.raise(64);
  EXPECT_FALSE(fx.empty());
  EXPECT_EQ(fx.vectors()[0], (1ULL << 63) | 1);
  EXPECT_EQ(fx.vectors()[1], (1ULL << 63) | 1);
}

TEST(Effects, ClearedIsEmptyAndUsable) {
  Effects fx;
  add_frame(fx, 5000, 1);
  fx.raise(3);
  fx.clear();
  EXPECT_TRUE(fx.empty());
  EXPECT_EQ(fx.frame_bytes(), 0U);
  add_frame(fx, 20, 4);
  EXPECT_EQ(fx.frames()[0].offset, 0U);
}

}  // namespace
}  // namespace tern
