// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/flow_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tern::eth {
namespace {

struct Object {
  std::uint32_t hash;
  unsigned number;
};
using Index = FlowIndex<Object>;

const Object* find(const Index& index, const Object& o) {
  return index.find(o.hash, [&](const Object& other) { return other.number == o.number; });
}

// Objects with hashes from a few values to all: found while they are in the index, and no longer.
TEST(FlowIndexTest, EveryOrder) {
  std::mt19937 random(1);
  for (const std::uint32_t spread : {0xfU, 0xffU, 0xffff'fff0U, 0xffff'ffffU}) {
    Index index;
    std::vector<std::pair<Object, const Object*>> in;
    std::vector<Object> out;
    std::size_t refused = 0;
    for (unsigned i = 0; i < 20'000; ++i) {
      if (random() % 5 < 3) {
        const Object o{static_cast<std::uint32_t>(random()) & spread, i};
        if (const Object* const at = index.insert(o.hash, std::make_unique<Object>(o))) {
          in.emplace_back(o, at);
        } else {
          ++refused;
        }
      } else if (!in.empty()) {
        std::swap(in[random() % in.size()], in.back());
        index.erase(in.back().first.hash, in.back().second);
        out.push_back(in.back().first);
        in.pop_back();
      }
      ASSERT_EQ(index.count(), in.size());
      if (i % 256 != 0) continue;
      for (const auto& [o, at] : in) ASSERT_EQ(find(index, o), at);
      for (const Object& o : out) ASSERT_EQ(find(index, o), nullptr);
    }
    // 16 or 256 different hashes have 64 places each; others do not collide.
    EXPECT_EQ(refused != 0, spread <= 0xff) << spread;
  }
}

// However many collide, a lookup compares with a bounded number.
TEST(FlowIndexTest, CollisionsAreBounded) {
  Index index;
  std::size_t taken = 0;
  for (unsigned i = 0; i < 1000; ++i)
    taken += index.insert(77, std::make_unique<Object>(Object{77, i})) != nullptr;
  EXPECT_EQ(taken, Index::kMaxProbe);
  std::size_t compared = 0;
  EXPECT_EQ(index.find(77, [&](const Object&) { return ++compared == 0; }), nullptr);
  EXPECT_EQ(compared, Index::kMaxProbe);
}

TEST(FlowIndexTest, HalfOfThePlaces) {
  Index index;
  std::size_t taken = 0;
  std::mt19937 random(2);
  for (unsigned i = 0; i < Index::kMaxPlaces; ++i) {
    const auto hash = static_cast<std::uint32_t>(random());
    taken += index.insert(hash, std::make_unique<Object>(Object{hash, i})) != nullptr;
  }
  EXPECT_LE(taken, Index::kMaxPlaces / 2);
  EXPECT_GT(taken, Index::kMaxPlaces / 2 - 100);
}

}  // namespace
}  // namespace tern::eth
