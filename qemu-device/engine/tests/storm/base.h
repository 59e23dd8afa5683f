// SPDX-License-Identifier: GPL-2.0-or-later
// What all of the storm needs: its random numbers, what its oracle may find, contents and memory.
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

// All that is random in a storm, but for the wire's own dice, which have the same seed.
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

// What is claimed of the engine, and may turn out not to hold.
enum class Claim : std::uint8_t {
  kLost,       // reported as done, or delivered whole by the wire, and not there
  kDoubled,    // came more often than it may
  kReordered,  // came, or was reported, out of order
  kCorrupted,  // other bytes, length, immediate data, value
  kOutside,    // memory changed that nobody named, or after it was done
  kStatus,     // a completion with a status that nothing justifies
  kStall,      // work that does not get done
  kProtocol,   // packets that the rules forbid
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

// The bytes of a message follow from its key alone.
[[nodiscard]] std::uint64_t content_key(std::uint64_t seed, std::uint64_t flow,
                                        std::uint64_t number);
void fill_content(std::span<std::byte> bytes, std::uint64_t key);
// How many bytes from the first on are those of the content.
[[nodiscard]] std::size_t matching(std::span<const std::byte> bytes, std::uint64_t key);
[[nodiscard]] inline bool is_content(std::span<const std::byte> bytes, std::uint64_t key) {
  return matching(bytes, key) == bytes.size();
}

// What lies where nobody writes.
inline constexpr std::byte kGuard{0xa5};
[[nodiscard]] bool is_guard(std::span<const std::byte> bytes);

// Places for one message each in a region, with bytes before and behind that nobody may touch.
class Slots {
 public:
  static constexpr std::uint32_t kMargin = 64;

  Slots(TestMr& mr, std::uint32_t room, unsigned count) : mr_(&mr), room_(room), count_(count) {
    for (unsigned i = 0; i < count; ++i) wipe(i);
  }
  // Bytes that a region for them must have.
  [[nodiscard]] static std::uint64_t bytes_for(std::uint32_t room, unsigned count) {
    return std::uint64_t{count} * stride_of(room);
  }
  [[nodiscard]] unsigned count() const { return count_; }
  [[nodiscard]] std::uint32_t room() const { return room_; }
  // Offset of a slot's first byte for data in the region.
  [[nodiscard]] std::uint64_t offset(unsigned i) const {
    return std::uint64_t{i} * stride_of(room_) + kMargin;
  }
  [[nodiscard]] std::span<std::byte> data(unsigned i, std::uint32_t len) const {
    return mr_->bytes(offset(i), len);
  }
  [[nodiscard]] std::span<std::byte> whole(unsigned i) const {
    return mr_->bytes(offset(i) - kMargin, stride_of(room_));
  }
  // Nothing of the slot but its first `len` bytes was written.
  [[nodiscard]] bool clean_but(unsigned i, std::uint32_t len) const {
    const auto all = whole(i);
    return is_guard(all.first(kMargin)) && is_guard(all.subspan(kMargin + len));
  }
  // The margins alone were not.
  [[nodiscard]] bool margins_clean(unsigned i) const {
    const auto all = whole(i);
    return is_guard(all.first(kMargin)) && is_guard(all.subspan(kMargin + room_));
  }
  void wipe(unsigned i) const {
    const auto all = whole(i);
    std::memset(all.data(), std::to_integer<int>(kGuard), all.size());
  }
  // The first `len` bytes as one to three SGEs.
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

// Receive WQEs of a QP, or of an SRQ that QPs share, and where they put messages. What was received is
// compared once more when its place is used again: nothing may have changed by then.
class ReceivePool {
 public:
  enum class Kind : std::uint8_t { kQueue, kShared, kXrc };

  // `srq`: null, and then attach() says whose they are.
  ReceivePool(TestNode& node, std::uint32_t pd, std::uint32_t room, unsigned count, TestSrq* srq,
              Kind kind, Findings& findings);
  void attach(TestQp& qp) { qp_ = &qp; }

  // Posts at most `n`, as far as there are places.
  void post(unsigned n);
  // The place of a completion; nothing when it was not posted.
  [[nodiscard]] bool take(const Wc& wc, unsigned* slot);
  // Its message has been looked at.
  void rest(unsigned slot);
  // What rests is as it was.
  void check_resting();

  [[nodiscard]] const Slots& slots() const { return slots_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] TestSrq* srq() const { return srq_; }
  [[nodiscard]] unsigned posted() const { return posted_; }
  // For plants: a posted place that gets the bytes of `slot`, as if its message had come twice.
  [[nodiscard]] std::optional<unsigned> copy_to_posted(unsigned slot);
  // Not more than so many are posted from now on.
  void limit(std::uint64_t n) { left_ = n; }

 private:
  enum class State : std::uint8_t { kFree, kPosted, kTaken, kResting };
  struct Place {
    State state = State::kFree;
    std::vector<std::byte> was;  // while it rests
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
