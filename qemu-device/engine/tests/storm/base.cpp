// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/base.h"

#include <algorithm>
#include <array>

namespace tern::storm {

const char* claim_name(Claim claim) {
  constexpr std::array names = {"lost",    "doubled",      "reordered", "corrupted",
                                "outside", "wrong status", "stall",     "protocol"};
  return names[static_cast<std::size_t>(claim)];
}

// ---- contents ----

namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t word_of(std::uint64_t key, std::uint64_t i) {
  return mix(key + i * 0x9e3779b97f4a7c15);
}

}  // namespace

std::uint64_t content_key(std::uint64_t seed, std::uint64_t flow, std::uint64_t number) {
  return mix(mix(mix(seed + 1) + flow) + number);
}

void fill_content(std::span<std::byte> bytes, std::uint64_t key) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = word_of(key, at / 8);
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

std::size_t matching(std::span<const std::byte> bytes, std::uint64_t key) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = word_of(key, at / 8);
    const auto want = std::as_bytes(std::span(&word, 1));
    const std::size_t n = std::min<std::size_t>(8, bytes.size() - at);
    if (std::memcmp(bytes.data() + at, want.data(), n) == 0) continue;
    std::size_t same = 0;
    while (bytes[at + same] == want[same]) ++same;
    return at + same;
  }
  return bytes.size();
}

bool is_guard(std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  return bytes[0] == kGuard && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

std::vector<tern_sge> Slots::sges(unsigned i, std::uint32_t len, Random& random) const {
  if (len == 0) return {};
  if (len < 3 || random.one_in(2)) return {mr_->sge(offset(i), len)};
  const std::uint32_t first = 1 + random.pick(len - 2);
  const std::uint32_t second = 1 + random.pick(len - first);
  const tern_sge a = mr_->sge(offset(i), first);
  const tern_sge b = mr_->sge(offset(i) + first, second);
  if (first + second == len) return {a, b};
  return {a, b, mr_->sge(offset(i) + first + second, len - first - second)};
}

// ---- receives ----

ReceivePool::ReceivePool(TestNode& node, std::uint32_t pd, std::uint32_t room, unsigned count,
                         TestSrq* srq, Kind kind, Findings& findings)
    : slots_(node.reg(Slots::bytes_for(room, count), {.pd = pd}), room, count),
      findings_(findings),
      srq_(srq),
      kind_(kind),
      places_(count) {}

void ReceivePool::check(unsigned slot) {
  const auto now = slots_.whole(slot);
  if (!std::ranges::equal(now, places_[slot].was)) {
    findings_.add(Claim::kOutside, "a receive buffer changed after its message was complete");
  }
}

void ReceivePool::check_resting() {
  for (unsigned i = 0; i < places_.size(); ++i) {
    if (places_[i].state == State::kResting) check(i);
  }
}

void ReceivePool::post(unsigned n) {
  // Starts with the slot that has rested longest.
  for (std::size_t tries = places_.size(); n > 0 && left_ > 0 && tries > 0; --tries) {
    const unsigned slot = next_;
    Place& place = places_[slot];
    if (srq_ ? srq_->free() == 0 : qp_->rq_free() == 0) return;
    next_ = (next_ + 1) % static_cast<unsigned>(places_.size());
    if (place.state == State::kPosted || place.state == State::kTaken) continue;
    if (place.state == State::kResting) check(slot);
    slots_.wipe(slot);
    place.state = State::kPosted;
    std::vector<tern_sge> sges = {slots_.mr().sge(slots_.offset(slot), slots_.room())};
    if (srq_) {
      srq_->post(std::move(sges), slot);
    } else {
      qp_->post_recv(std::move(sges), slot);
    }
    ++posted_;
    --n;
    --left_;
  }
}

bool ReceivePool::take(const Wc& wc, unsigned* slot) {
  const std::uint64_t id = le(std::uint64_t{wc.wr_id});
  if (id >= places_.size() || places_[id].state != State::kPosted) return false;
  *slot = static_cast<unsigned>(id);
  places_[id].state = State::kTaken;
  --posted_;
  return true;
}

std::optional<unsigned> ReceivePool::copy_to_posted(unsigned slot) {
  for (unsigned i = 0; i < places_.size(); ++i) {
    if (i == slot || places_[i].state != State::kPosted) continue;
    std::ranges::copy(slots_.whole(slot), slots_.whole(i).begin());
    return i;
  }
  return std::nullopt;
}

void ReceivePool::rest(unsigned slot) {
  const auto now = slots_.whole(slot);
  places_[slot].was.assign(now.begin(), now.end());
  places_[slot].state = State::kResting;
}

}  // namespace tern::storm
