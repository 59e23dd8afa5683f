// SPDX-License-Identifier: GPL-2.0-or-later
// Payload of a frame that stays in the memory of its sender until the receiver copies it.
//
// The sender owns the object. It stops sharing before software may reuse the memory or take it
// away: unshare() makes a copy for those who read later. Any thread may read, and must only copy
// meanwhile: unshare() waits for readers. So sender and receivers trust each other's memory not to
// keep a thread waiting (Device::share_payload()).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/host.h"
#include "core/list.h"
#include "core/types.h"

namespace tern {

class SharedPayload {
 public:
  SharedPayload() = default;
  SharedPayload(const SharedPayload&) = delete;
  SharedPayload& operator=(const SharedPayload&) = delete;

  // ---- the sender ----

  // Refers to the pieces of `payload`, which follow the first `offset` bytes of the frame. Nobody
  // may read the object.
  void share(const SpanList& payload, std::size_t offset);
  // Unlinks it, and frees the copy. Nobody may read the object.
  void reset();
  // Unlinks it, and makes a copy unless the frame has been received or dropped.
  void take_back();

  Hook<SharedPayload> queue{this};  // Context::share_queue()
  Psn end;                          // one past the last packet's

  // ---- any thread ----

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t offset() const { return offset_; }
  // Whose memory it is. It may be gone once there is a copy.
  [[nodiscard]] const Host* host() const { return host_; }
  // Calls use() with the pieces, which stay valid meanwhile.
  template <class Use>
  void read(Use use) {
    const Reading reading(*this);
    use(std::span<const SpanList::Piece>(pieces_));
  }
  // Copies the bytes from `offset` on.
  void copy_to(std::size_t offset, std::span<std::byte> to);
  // Makes a copy: afterwards nobody reads the sender's memory.
  void unshare();
  // The frame has been received or dropped: nobody reads it any more.
  void finish() { state_.fetch_or(kDone, std::memory_order_release); }
  [[nodiscard]] bool done() const {
    const std::uint32_t state = state_.load(std::memory_order_acquire);
    return (state & kDone) != 0 && (state & kReaders) == 0;
  }

 private:
  // Flags, and the number of readers of the shared memory.
  static constexpr std::uint32_t kCopied = 1U << 31;
  static constexpr std::uint32_t kCopying = 1U << 30;
  static constexpr std::uint32_t kDone = 1U << 29;
  static constexpr std::uint32_t kReaders = kDone - 1;

  class Reading {
   public:
    explicit Reading(SharedPayload& payload) : payload_(payload), shared_(payload.begin_read()) {}
    ~Reading() {
      if (shared_) payload_.end_read();
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    SharedPayload& payload_;
    const bool shared_;
  };
  bool begin_read();
  void end_read();

  std::atomic<std::uint32_t> state_ = 0;
  std::size_t size_ = 0;
  std::size_t offset_ = 0;
  const Host* host_ = nullptr;
  std::vector<SpanList::Piece> pieces_;  // of the shared memory, or of the copy
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace tern
