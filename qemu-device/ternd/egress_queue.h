// SPDX-License-Identifier: GPL-2.0-or-later
// Frames that wait to leave the switch through one port. Any thread may put, one thread takes.
//
// A ring of bytes: a frame is copied once, into the ring, and read in place. Producers take turns
// by a lock; the consumer takes none.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace tern::daemon {

// What happens to the VLAN tag of a frame while it is copied.
struct TagChange {
  enum class Kind : std::uint8_t { kKeep, kStrip, kInsert };
  Kind kind = Kind::kKeep;
  std::uint16_t vlan = 0;  // kInsert
};

class EgressQueue {
 public:
  static constexpr std::size_t kFrameMax = 10240;

  // `bytes` of frames and headers, at least 4 * kFrameMax.
  explicit EgressQueue(std::size_t bytes);

  struct Frame {
    std::span<const std::byte> bytes;  // empty: no frame
    std::uint64_t time;                // when it was put
  };

  // Any thread. Returns false if `limit` bytes wait already, or there is no room.
  bool put(std::span<const std::byte> frame, TagChange tag, std::uint64_t time, std::size_t limit, bool congestion);
  // Any thread: bytes of frames and headers that wait.
  [[nodiscard]] std::size_t length() const { return waiting(in_.load(std::memory_order_relaxed), out_.load(std::memory_order_acquire)); }

  // The consumer: the frame that has waited longest, valid until pop().
  [[nodiscard]] Frame front();
  void pop();
  // Sequentially consistent, for a consumer that is about to sleep.
  [[nodiscard]] bool empty() const { return in_.load(std::memory_order_seq_cst) == out_.load(std::memory_order_relaxed); }

 private:
  struct Header {
    std::uint32_t len;   // of the frame; kFiller: the rest of the ring is skipped
    std::uint32_t size;  // of the record with this header
    std::uint64_t time;
  };
  static constexpr std::uint32_t kFiller = UINT32_MAX;
  static constexpr std::size_t kAlign = alignof(std::max_align_t);

  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* p) const;
  };

  [[nodiscard]] std::size_t at(std::uint64_t position) const { return static_cast<std::size_t>(position) & (size_ - 1); }
  // Without the filler. Only one can wait: two are further apart than the ring is long.
  [[nodiscard]] std::size_t waiting(std::uint64_t in, std::uint64_t out) const {
    const std::uint64_t filler = out <= filler_at_.load(std::memory_order_relaxed) ? filler_size_.load(std::memory_order_relaxed) : 0;
    return static_cast<std::size_t>(in - out - std::min(filler, in - out));
  }
  [[nodiscard]] std::size_t till_end(std::uint64_t position) const { return size_ - at(position); }

  std::size_t size_;
  std::unique_ptr<std::byte, Unmap> ring_;
  alignas(64) std::mutex producers_;
  std::atomic<std::uint64_t> in_ = 0;  // free running
  // The last filler.
  std::atomic<std::uint64_t> filler_at_ = 0;
  std::atomic<std::uint64_t> filler_size_ = 0;
  alignas(64) std::atomic<std::uint64_t> out_ = 0;
};

// Whether it is an ECN capable IP packet, with or without one VLAN tag.
bool is_ecn_capable(std::span<const std::byte> frame);
// Sets Congestion Experienced in such a packet. ICRC does not cover the field.
void mark_congestion(std::span<std::byte> frame);

}  // namespace tern::daemon
