// SPDX-License-Identifier: GPL-2.0-or-later
// Pending doorbells for the worker: one thread puts, the holder of the engine lock takes, and
// neither waits for the other.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace tern::runner {

struct Doorbell {
  std::uint64_t offset;
  std::uint32_t value;
};

class DoorbellRing {
 public:
  static constexpr unsigned kSize = 64;  // a power of two

  // Returns false if the ring is full.
  bool put(const Doorbell& doorbell) {
    const unsigned in = in_.load(std::memory_order_relaxed);
    if (in - out_.load(std::memory_order_acquire) >= kSize) return false;
    ring_[in % kSize] = doorbell;
    // Sequentially consistent: the caller's next load comes after this store (Runner::doorbell()).
    in_.store(in + 1, std::memory_order_seq_cst);
    return true;
  }

  [[nodiscard]] bool pending() const {
    return out_.load(std::memory_order_relaxed) != in_.load(std::memory_order_seq_cst);
  }

  // Calls take(doorbell) for each doorbell that is pending now. Returns true if there was one.
  template <class Take>
  bool take_all(Take&& take) {
    const unsigned in = in_.load(std::memory_order_seq_cst);
    unsigned out = out_.load(std::memory_order_relaxed);
    const bool some = out != in;
    while (out != in) {
      const Doorbell doorbell = ring_[out % kSize];
      out_.store(++out, std::memory_order_release);
      take(doorbell);
    }
    return some;
  }

 private:
  std::array<Doorbell, kSize> ring_{};
  std::atomic<unsigned> in_ = 0;  // both free running
  std::atomic<unsigned> out_ = 0;
};

}  // namespace tern::runner
