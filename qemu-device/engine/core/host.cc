// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/host.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>

#include "core/ordered_copy.h"
#include "core/shared_payload.h"

namespace tern {

namespace {

bool aligned(const std::byte* p, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(p) % to == 0;
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto a0 = reinterpret_cast<std::uintptr_t>(a.data());
  const auto b0 = reinterpret_cast<std::uintptr_t>(b.data());
  return a0 < b0 + b.size() && b0 < a0 + a.size();
}

using Pieces = std::span<const SpanList::Piece>;

bool overlap(Pieces a, Pieces b) {
  return std::ranges::any_of(a, [&](const SpanList::Piece& pa) {
    return std::ranges::any_of(
        b, [&](const SpanList::Piece& pb) { return overlap(pa.bytes, pb.bytes); });
  });
}

}  // namespace

bool dma_read(Host& host, std::uint64_t addr, std::span<std::byte> to) {
  if (!in_range(addr, to.size())) return false;
  while (!to.empty()) {
    const auto span = host.reach(addr, to.size(), false);
    if (span.empty()) return false;
    std::memcpy(to.data(), span.data(), span.size());
    host.release(span, false, 0);
    addr += span.size();
    to = to.subspan(span.size());
  }
  return true;
}

bool dma_write(Host& host, std::uint64_t addr, std::span<const std::byte> from) {
  if (!in_range(addr, from.size())) return false;
  while (!from.empty()) {
    const auto span = host.reach(addr, from.size(), true);
    if (span.empty()) return false;
    std::memcpy(span.data(), from.data(), span.size());
    host.release(span, true, span.size());
    addr += span.size();
    from = from.subspan(span.size());
  }
  return true;
}

bool SpanList::append_dma(std::uint64_t addr, std::uint64_t len, bool write) {
  if (!in_range(addr, len)) return false;
  const std::size_t before = pieces_.size();
  for (std::uint64_t left = len; left != 0;) {
    const auto span = host_->reach(addr, left, write);
    if (span.empty()) {
      for (; pieces_.size() > before; pieces_.pop_back()) {
        host_->release(pieces_.back().bytes, write, 0);
        size_ -= pieces_.back().bytes.size();
      }
      return false;
    }
    pieces_.push_back({span, Origin::kMapped, write});
    size_ += span.size();
    addr += span.size();
    left -= span.size();
  }
  return true;
}

void SpanList::append_device(std::span<std::byte> bytes, bool write) {
  if (bytes.empty()) return;
  pieces_.push_back({bytes, Origin::kDevice, write});
  size_ += bytes.size();
}

void SpanList::append_plain(std::span<std::byte> bytes) {
  if (bytes.empty()) return;
  pieces_.push_back({bytes, Origin::kPlain, true});
  size_ += bytes.size();
}

void SpanList::append_plain(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  // Sources and destinations share the piece type; `write` = false marks the piece as a source.
  pieces_.push_back({{const_cast<std::byte*>(bytes.data()), bytes.size()}, Origin::kPlain, false});
  size_ += bytes.size();
}

void SpanList::clear() { release(true); }

void SpanList::abandon() { release(false); }

void SpanList::release(bool touched) {
  for (const Piece& p : pieces_) {
    const bool written = touched && p.write;
    if (p.origin == Origin::kMapped) host_->release(p.bytes, p.write, written ? p.bytes.size() : 0);
    if (p.origin == Origin::kDevice && written) host_->dm_written(p.bytes);
  }
  pieces_.clear();
  shared_ = nullptr;
  size_ = 0;
}

void SpanList::refer_to(SharedPayload& payload) {
  assert(empty());
  shared_ = &payload;
  size_ = payload.size();
}

// Calls use() with the pieces of this list, or of the payload that it refers to.
template <class Use>
void SpanList::with_pieces(Use use) const {
  if (shared_ != nullptr) [[unlikely]]
    return shared_->read(use);
  use(Pieces(pieces_));
}

void SpanList::copy_to(std::span<std::byte> to) const {
  with_pieces([&](Pieces pieces) { copy_pieces(pieces, 0, to); });
}

void SpanList::copy_from(std::span<const std::byte> from) {
  for (const Piece& p : pieces_) {
    if (from.size() <= p.bytes.size()) {
      return copy_ending(Mover{}, p.bytes.data(), from.data(), from.size());
    }
    Mover::body(p.bytes.data(), from.data(), p.bytes.size());
    from = from.subspan(p.bytes.size());
  }
}

void SpanList::copy(const SpanList& from, SpanList& to) {
  const std::size_t total = static_cast<std::size_t>(std::min(from.size_, to.size_));
  if (total == 0) return;
  from.with_pieces([&](Pieces pieces) {
    if (pieces.size() == 1 && to.pieces_.size() == 1) {
      return copy_ending(Mover{}, to.pieces_[0].bytes.data(), pieces[0].bytes.data(), total);
    }
    if (overlap(pieces, to.pieces_)) {
      // Copying piece by piece could overwrite the source of a later piece. Rare enough for a
      // bounce buffer.
      std::vector<std::byte> bounce(total);
      copy_pieces(pieces, 0, bounce);
      return to.copy_from(bounce);
    }
    copy_pieces_ending(Mover{}, pieces, to.pieces(), total);
  });
}

std::uint64_t atomic_fetch_add(std::byte* p, std::uint64_t add) {
  if (aligned(p, sizeof(std::uint64_t))) {
    return __atomic_fetch_add(reinterpret_cast<std::uint64_t*>(p), add, __ATOMIC_SEQ_CST);
  }
  std::uint64_t old;
  std::memcpy(&old, p, sizeof(old));
  const std::uint64_t sum = old + add;
  std::memcpy(p, &sum, sizeof(sum));
  return old;
}

std::uint64_t atomic_compare_swap(std::byte* p, std::uint64_t compare, std::uint64_t swap) {
  if (aligned(p, sizeof(std::uint64_t))) {
    // On failure the builtin stores the old value in `compare`; on success `compare` equals it.
    __atomic_compare_exchange_n(reinterpret_cast<std::uint64_t*>(p), &compare, swap, false,
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return compare;
  }
  std::uint64_t old;
  std::memcpy(&old, p, sizeof(old));
  if (old == compare) std::memcpy(p, &swap, sizeof(swap));
  return old;
}

namespace {

template <class T>
void store_release(std::byte* p, T value) {
  if (aligned(p, sizeof(value))) {
    __atomic_store_n(reinterpret_cast<T*>(p), value, __ATOMIC_RELEASE);
    return;
  }
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(p, &value, sizeof(value));
}

}  // namespace

void store_release32(std::byte* p, std::uint32_t value) { store_release(p, value); }
void store_release64(std::byte* p, std::uint64_t value) { store_release(p, value); }

std::uint32_t load_acquire32(const std::byte* p) {
  if (aligned(p, sizeof(std::uint32_t))) {
    return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(p), __ATOMIC_ACQUIRE);
  }
  std::uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  std::atomic_thread_fence(std::memory_order_acquire);
  return value;
}

}  // namespace tern
