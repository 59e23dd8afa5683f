// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/effects.h"

#include <algorithm>

namespace tern {

namespace {
constexpr std::size_t kAlign = 64;  // frames start on a cache line of their own
}  // namespace

std::span<std::byte> Effects::begin_frame(std::size_t max) {
  if (arena_.size() - used_ < max) {
    arena_.resize(std::max(used_ + max, arena_.size() * 2));
  }
  return std::span(arena_).subspan(used_, max);
}

void Effects::commit_frame(std::size_t len, bool to_wire, Nanos time) {
  frames_.push_back({used_, static_cast<std::uint32_t>(len), to_wire, time});
  used_ = std::min(arena_.size(), (used_ + len + kAlign - 1) & ~(kAlign - 1));
}

void Effects::clear() {
  used_ = 0;
  frames_.clear();
  vectors_.fill(0);
}

}  // namespace tern
