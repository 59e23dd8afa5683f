// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/shared_payload.h"

#include <cassert>
#include <utility>

#include "core/ordered_copy.h"

namespace tern {

void SharedPayload::share(const SpanList& payload, std::size_t offset) {
  const auto pieces = payload.pieces();
  pieces_.assign(pieces.begin(), pieces.end());
  size_ = static_cast<std::size_t>(payload.size());
  offset_ = offset;
  host_ = &payload.host();
  state_.store(0, std::memory_order_relaxed);
}

void SharedPayload::reset() {
  queue.unlink();
  copy_ = {};
}

void SharedPayload::take_back() {
  queue.unlink();
  if (!done()) unshare();
}

// Registers a reader of the shared memory. Returns false if there is a copy.
bool SharedPayload::begin_read() {
  std::uint32_t state = state_.load(std::memory_order_acquire);
  for (;;) {
    if ((state & kCopied) != 0) return false;
    if ((state & kCopying) != 0) {
      state_.wait(state, std::memory_order_relaxed);
      state = state_.load(std::memory_order_acquire);
    } else if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) {
      return true;
    }
  }
}

void SharedPayload::end_read() {
  state_.fetch_sub(1, std::memory_order_release);
  state_.notify_all();
}

void SharedPayload::copy_to(std::size_t offset, std::span<std::byte> to) {
  assert(offset + to.size() <= size_);
  read([&](std::span<const SpanList::Piece> pieces) { copy_pieces(pieces, offset, to); });
}

void SharedPayload::unshare() {
  std::uint32_t state = state_.load(std::memory_order_acquire);
  if ((state & kCopied) != 0) return;
  auto copy = std::make_unique_for_overwrite<std::byte[]>(size_);
  for (;;) {
    if ((state & kCopied) != 0) return;
    if ((state & (kCopying | kReaders)) != 0) {
      state_.wait(state, std::memory_order_relaxed);
      state = state_.load(std::memory_order_acquire);
    } else if (state_.compare_exchange_weak(state, state | kCopying, std::memory_order_acquire)) {
      break;
    }
  }
  const std::span<std::byte> bytes(copy.get(), size_);
  copy_pieces(pieces_, 0, bytes);
  copy_ = std::move(copy);
  // There is at least one piece: this does not allocate.
  pieces_.assign(1, {bytes, SpanList::Origin::kPlain, false});
  state_.fetch_xor(kCopied | kCopying, std::memory_order_release);
  state_.notify_all();
}

}  // namespace tern
