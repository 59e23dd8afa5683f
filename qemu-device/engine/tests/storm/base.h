// SPDX-License-Identifier: GPL-2.0-or-later
// Basics of the storm: random numbers, findings of the oracle, message contents, and memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/mini_driver.h"

namespace tern::storm {

// All randomness of a storm except that of the wire, which uses the same seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t operator()() { return engine_(); }
  // From 0 to n - 1.
  std::uint32_t pick(std::uint64_t n) { return static_cast<std::uint32_t>(engine_() % n); }
  bool one_in(std::uint64_t n) { return engine_() % n == 0; }

 private:
  std::mt19937_64 engine_;
};

// Claims about the engine that the oracle may find violated.
enum class Claim : std::uint8_t {
  kLost,       // reported as done or delivered complete by the wire, but missing
  kDoubled,    // arrived more often than allowed
  kReordered,  // arrived or was reported out of order
  kCorrupted,  // wrong bytes, length, immediate data or value
  kOutside,    // memory changed that no request refers to, or changed after completion
  kStatus,     // a completion with an unjustified status
  kStall,      // work that does not complete
  kProtocol,   // packets that violate the protocol
};
[[nodiscard]] const char* claim_name(Claim claim);

struct Finding {
  Claim claim;
  std::string text;
};

class Findings {
 public:
  void add(Claim claim, std::string text) {
    if (all_.size() < kMost) all_.push_back({claim, std::move(text)});
  }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  [[nodiscard]] const std::vector<Finding>& all() const { return all_; }

 private:
  static constexpr std::size_t kMost = 20;
  std::vector<Finding> all_;
};

// ---- contents ----

// The content of a message depends on its key only.
[[nodiscard]] std::uint64_t content_key(std::uint64_t seed, std::uint64_t flow,
                                        std::uint64_t number);
void fill_content(std::span<std::byte> bytes, std::uint64_t key);
// Number of leading bytes that match the content.
[[nodiscard]] std::size_t matching(std::span<const std::byte> bytes, std::uint64_t key);
[[nodiscard]] inline bool is_content(std::span<const std::byte> bytes, std::uint64_t key) {
  return matching(bytes, key) == bytes.size();
}

// Fill byte of memory that must stay untouched.
inline constexpr std::byte kGuard{0xa5};
[[nodiscard]] bool is_guard(std::span<const std::byte> bytes);

// Slots in a region for one message each, with margins before and after that must stay untouched.
class Slots {
 public:
  static constexpr std::uint32_t kMargin = 64;

  Slots(TestMr& mr, std::uint32_t room, unsigned count) : mr_(&mr), room_(room), count_(count) {
    for (unsigned i = 0; i < count; ++i) wipe(i);
  }
  // Size of a region with `count` slots.
  [[nodiscard]] static std::uint64_t bytes_for(std::uint32_t room, unsigned count) {
    return std::uint64_t{count} * stride_of(room);
  }
  [[nodiscard]] unsigned count() const { return count_; }
  [[nodiscard]] std::uint32_t room() const { return room_; }
  // Offset in the region of a slot's first data byte.
  [[nodiscard]] std::uint64_t offset(unsigned i) const {
    return std::uint64_t{i} * stride_of(room_) + kMargin;
  }
  [[nodiscard]] std::span<std::byte> data(unsigned i, std::uint32_t len) const {
    return mr_->bytes(offset(i), len);
  }
  [[nodiscard]] std::span<std::byte> whole(unsigned i) const {
    return mr_->bytes(offset(i) - kMargin, stride_of(room_));
  }
  // Whether only the first `len` data bytes of the slot may have been written.
  [[nodiscard]] bool clean_but(unsigned i, std::uint32_t len) const {
    const auto all = whole(i);
    return is_guard(all.first(kMargin)) && is_guard(all.subspan(kMargin + len));
  }
  // Whether the margins are untouched.
  [[nodiscard]] bool margins_clean(unsigned i) const {
    const auto all = whole(i);
    return is_guard(all.first(kMargin)) && is_guard(all.subspan(kMargin + room_));
  }
  void wipe(unsigned i) const {
    const auto all = whole(i);
    std::memset(all.data(), std::to_integer<int>(kGuard), all.size());
  }
  // The first `len` data bytes of a slot, split into one to three SGEs.
  [[nodiscard]] std::vector<tern_sge> sges(unsigned i, std::uint32_t len, Random& random) const;
  [[nodiscard]] TestMr& mr() const { return *mr_; }

 private:
  [[nodiscard]] static std::uint32_t stride_of(std::uint32_t room) {
    return ((room + 7) & ~7U) + 2 * kMargin;
  }
  TestMr* mr_;
  std::uint32_t room_;
  unsigned count_;
};

// ---- receives ----

// Receive WQEs of a QP or of an SRQ, and their buffers. A received message is compared again when
// its slot is reused: it must not have changed since.
class ReceivePool {
 public:
  enum class Kind : std::uint8_t { kQueue, kShared, kXrc };

  // `srq`: null if the WQEs are for the QP of attach().
  ReceivePool(TestNode& node, std::uint32_t pd, std::uint32_t room, unsigned count, TestSrq* srq,
              Kind kind, Findings& findings);
  void attach(TestQp& qp) { qp_ = &qp; }

  // Posts up to `n` WQEs, as far as slots are available.
  void post(unsigned n);
  // Finds the slot of a completion. Returns false if it was not posted.
  [[nodiscard]] bool take(const Wc& wc, unsigned* slot);
  // The message in `slot` has been checked: keeps a copy for the second comparison.
  void rest(unsigned slot);
  // Compares all resting slots with their copies.
  void check_resting();

  [[nodiscard]] const Slots& slots() const { return slots_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] TestSrq* srq() const { return srq_; }
  [[nodiscard]] unsigned posted() const { return posted_; }
  // For plants: copies `slot` to a posted slot, as if its message had been received twice. Returns
  // that slot.
  [[nodiscard]] std::optional<unsigned> copy_to_posted(unsigned slot);
  // Posts at most `n` more WQEs from now on.
  void limit(std::uint64_t n) { left_ = n; }

 private:
  enum class State : std::uint8_t { kFree, kPosted, kTaken, kResting };
  struct Place {
    State state = State::kFree;
    std::vector<std::byte> was;  // the bytes of a resting slot
  };
  void check(unsigned slot);

  Slots slots_;
  Findings& findings_;
  TestQp* qp_ = nullptr;
  TestSrq* srq_;
  Kind kind_;
  std::vector<Place> places_;
  std::uint64_t left_ = UINT64_MAX;
  unsigned posted_ = 0;
  unsigned next_ = 0;
};

}  // namespace tern::storm
