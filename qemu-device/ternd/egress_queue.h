// SPDX-License-Identifier: GPL-2.0-or-later
// Frames that wait to leave the switch through one port. Any thread may put, one thread takes.
//
// A ring of records. A short frame is copied into its record and read in place. A long frame, or a
// train, stays where the sender's engine made it, and the record refers to it: copying it would
// cost the switch as much as the receiver. The payload of a train may still be in the sender's
// memory. Producers take turns by a lock; the consumer takes none.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/effects_batch.h"
#include "spin_lock.h"

namespace tern::daemon {

// Change of a frame's VLAN tag.
struct TagChange {
  enum class Kind : std::uint8_t { kKeep, kStrip, kInsert };
  Kind kind = Kind::kKeep;
  std::uint16_t vlan = 0;  // kInsert
};

// Changes of a frame, which is copied for them.
struct FrameChange {
  TagChange tag;
  bool congestion = false;  // mark "congestion experienced"
  bool icrc = false;        // write the deferred ICRC
  [[nodiscard]] bool any() const {
    return tag.kind != TagChange::Kind::kKeep || congestion || icrc;
  }
};

class EgressQueue {
 public:
  static constexpr std::size_t kFrameMax = 10240;
  // Shorter frames are copied. Many of them could hold as much memory as many batches.
  static constexpr std::size_t kLong = 1024;

  // `bytes` of frames and headers, at least 4 * kFrameMax.
  explicit EgressQueue(std::size_t bytes);
  ~EgressQueue();
  EgressQueue(const EgressQueue&) = delete;
  EgressQueue& operator=(const EgressQueue&) = delete;

  struct Waiting {
    WireFrame frame;
    std::uint64_t time = 0;  // when it was put
    std::size_t bytes = 0;   // on a wire: of a train, those of its packets' frames
    bool beside = false;     // see put()
  };

  // Any thread. Returns false if `limit` bytes wait already, or there is no space. `batch`: the
  // frame's batch, null if the frame must be copied. `beside`: it has not passed through the
  // switch.
  bool put(const WireFrame& frame, const FrameChange& change, std::uint64_t time, std::size_t limit,
           EffectsBatch* batch = nullptr, bool beside = false);
  // The same for a train of `bytes` on a wire, whose batch can be held.
  bool put_train(const WireFrame& frame, std::size_t bytes, std::uint64_t time, std::size_t limit,
                 EffectsBatch& batch, bool beside = false);
  // Any thread: bytes of frames and headers that wait, wherever the frames are.
  [[nodiscard]] std::size_t length() const {
    const std::uint64_t out = bytes_out_.load(std::memory_order_acquire);
    return static_cast<std::size_t>(bytes_in_.load(std::memory_order_relaxed) - out);
  }

  // Any thread, after put(): either a consumer that is about to sleep sees the frame, or the caller
  // sees that it sleeps.
  void publish() { in_.fetch_add(0, std::memory_order_seq_cst); }

  // The consumer: the frame that has waited longest, valid until pop().
  [[nodiscard]] Waiting front();
  void pop();
  // Sequentially consistent, for a consumer that is about to sleep.
  [[nodiscard]] bool empty() const {
    return in_.load(std::memory_order_seq_cst) == out_.load(std::memory_order_relaxed);
  }

 private:
  struct Header {
    std::uint32_t len;   // WireFrame::size(); kFiller: the rest of the ring is skipped
    std::uint32_t size;  // bytes of the record, header included, plus flags
    std::uint64_t time;
  };
  // Follows the header of a record with kReference.
  struct alignas(std::max_align_t) Reference {
    const std::byte* data;
    EffectsBatch* batch;
    SharedPayload* payload;
    std::uint32_t len;    // of `data`
    std::uint32_t bytes;  // Waiting::bytes
    std::uint32_t train;
    std::uint16_t mss;
  };
  static constexpr std::uint32_t kFiller = UINT32_MAX;
  // Flags. Sizes are multiples of kAlign.
  static constexpr std::uint32_t kReference = 1;
  static constexpr std::uint32_t kDeferredIcrc = 2;
  static constexpr std::uint32_t kInside = 4;
  static constexpr std::uint32_t kBeside = 8;
  static constexpr std::uint32_t kFlags = kReference | kDeferredIcrc | kInside | kBeside;
  static constexpr std::size_t kAlign = alignof(std::max_align_t);
  static_assert(kFlags < kAlign);

  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* p) const;
  };

  [[nodiscard]] std::size_t at(std::uint64_t position) const {
    return static_cast<std::size_t>(position) & (size_ - 1);
  }
  // Bytes that a frame counts for: the size of its record, as if it were copied.
  [[nodiscard]] static std::size_t counted(std::size_t len) {
    return (sizeof(Header) + len + kAlign - 1) & ~(kAlign - 1);
  }
  [[nodiscard]] static std::uint32_t flags_of(const WireFrame& frame, bool beside);
  [[nodiscard]] Header header_at(std::uint64_t position) const;
  [[nodiscard]] Reference reference_at(std::uint64_t position) const;
  void read_consumer();
  [[nodiscard]] bool fits(std::size_t len, std::size_t limit);
  bool put_reference(const WireFrame& frame, std::size_t bytes, std::uint64_t time,
                     std::size_t limit, EffectsBatch& batch, std::uint32_t flags);
  void publish_record(std::uint64_t in, std::size_t len, std::size_t size);
  void prefetch(std::uint64_t position) const;
  [[nodiscard]] std::byte* room(std::uint64_t& in, std::size_t size, std::size_t limit);
  void release_batch();
  [[nodiscard]] std::size_t till_end(std::uint64_t position) const { return size_ - at(position); }

  std::size_t size_;
  std::unique_ptr<std::byte, Unmap> ring_;
  alignas(64) SpinLock producers_;
  // Positions and numbers of bytes. All are free running.
  std::atomic<std::uint64_t> in_ = 0;
  std::atomic<std::uint64_t> bytes_in_ = 0;
  // The consumer's values as last read by the producers. They read them again after a while, or
  // when there is no space.
  std::uint64_t out_seen_ = 0;
  std::uint64_t bytes_out_seen_ = 0;
  alignas(64) std::atomic<std::uint64_t> out_ = 0;
  std::atomic<std::uint64_t> bytes_out_ = 0;
  std::uint64_t in_seen_ = 0;  // last value read by the consumer
  // The consumer's: a batch, and the number of its frames taken and not yet released. They are
  // released together, because the counter is in the cache of the sender's processor.
  EffectsBatch* batch_ = nullptr;
  std::uint32_t taken_ = 0;
};

}  // namespace tern::daemon
