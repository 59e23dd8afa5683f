// SPDX-License-Identifier: GPL-2.0-or-later
// Memory for data in flight. The block returned last is taken first, so that many queues that run
// in turn share a few cache lines, and an idle queue holds none.
#pragma once

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

namespace tern {

class BlockPool {
 public:
  static constexpr std::size_t kAlign = 64;

  // Memory is scarce when at least this many bytes are taken.
  static constexpr std::size_t kPlenty = std::size_t{256} << 20;

  BlockPool() = default;
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Returns `bytes` uninitialized bytes, aligned to kAlign. Pass the same number to give().
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    const unsigned order = order_of(bytes);
    Free& free = free_[order];
    std::byte* const block = free.first;
    if (block == nullptr) [[unlikely]]
      return allocate(bytes);
    ASAN_UNPOISON_MEMORY_REGION(block, std::max(bytes, sizeof(free.first)));
    std::memcpy(&free.first, block, sizeof(free.first));
    --free.number;
    taken_ += std::size_t{1} << order;
    return block;
  }
  void give(std::byte* block, std::size_t bytes) {
    const unsigned order = order_of(bytes);
    Free& free = free_[order];
    taken_ -= std::size_t{1} << order;
    if (free.number >= kKept >> order) [[unlikely]]
      return release(block);
    std::memcpy(block, &free.first, sizeof(free.first));
    ASAN_POISON_MEMORY_REGION(block, std::size_t{1} << order);
    free.first = block;
    ++free.number;
  }

  // Takes over a block of `bytes` bytes that `from` has given out: give() returns it here.
  void adopt(BlockPool& from, std::size_t bytes) {
    const std::size_t size = std::size_t{1} << order_of(bytes);
    from.taken_ -= size;
    taken_ += size;
  }

  // Whether much memory is taken. The owner should then take only enough for one step.
  [[nodiscard]] bool scarce() const { return taken_ >= plenty_; }
  void set_plenty(std::size_t bytes) { plenty_ = bytes; }
  [[nodiscard]] std::size_t plenty() const { return plenty_; }
  [[nodiscard]] std::size_t taken() const { return taken_; }

 private:
  // Free bytes kept of each block size; the rest is freed.
  static constexpr std::size_t kKept = 1 << 20;

  // Free blocks of one size. Each begins with the address of the next one.
  struct Free {
    std::byte* first = nullptr;
    std::size_t number = 0;
  };
  // The logarithm of the block size.
  static unsigned order_of(std::size_t bytes) {
    return static_cast<unsigned>(std::bit_width(std::max(bytes, kAlign) - 1));
  }
  [[gnu::noinline]] std::byte* allocate(std::size_t bytes);
  [[gnu::noinline]] static void release(std::byte* block);

  std::size_t taken_ = 0;  // sum of the block sizes
  std::size_t plenty_ = kPlenty;
  std::array<Free, 32> free_;  // by order_of()
};

// A T in a block of the pool, with one owner at a time.
template <class T>
class Pooled {
 public:
  explicit Pooled(BlockPool& pool) : pool_(&pool) {}
  ~Pooled() { give(); }
  Pooled(const Pooled&) = delete;
  Pooled& operator=(const Pooled&) = delete;

  T& take() {
    if (held_ == nullptr) held_ = new (pool_->take(sizeof(T))) T;
    return *held_;
  }
  void give() {
    if (held_ == nullptr) return;
    held_->~T();
    pool_->give(reinterpret_cast<std::byte*>(held_), sizeof(T));
    held_ = nullptr;
  }
  // The T belongs to another pool from now on.
  void move_to(BlockPool& pool) {
    if (held_ != nullptr) pool.adopt(*pool_, sizeof(T));
    pool_ = &pool;
  }
  explicit operator bool() const { return held_ != nullptr; }
  T* operator->() const { return held_; }
  T& operator*() const { return *held_; }

 private:
  BlockPool* pool_;
  T* held_ = nullptr;
};

// A ring of Ts in a block of the pool, which is held only while there are any.
template <class T>
class PooledRing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit PooledRing(BlockPool& pool) : pool_(&pool) {}
  ~PooledRing() { clear(); }
  PooledRing(const PooledRing&) = delete;
  PooledRing& operator=(const PooledRing&) = delete;

  // The ring is empty. `capacity`: a power of two up to 2^15, or 0.
  void set_capacity(std::uint32_t capacity) { capacity_ = static_cast<std::uint16_t>(capacity); }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  // How many more it can hold.
  [[nodiscard]] std::uint32_t room() const { return capacity_ - std::uint32_t{size_}; }
  // Element `i`, counted from the oldest.
  [[nodiscard]] T& operator[](std::uint32_t i) { return held_[(head_ + i) & (capacity_ - 1U)]; }
  [[nodiscard]] T& front() { return (*this)[0]; }
  [[nodiscard]] T& back() { return (*this)[size_ - 1U]; }
  // There is room. Returns the new element.
  T& push(const T& value = {}) {
    if (held_ == nullptr) held_ = reinterpret_cast<T*>(pool_->take(capacity_ * sizeof(T)));
    return *new (&(*this)[size_++]) T(value);
  }
  // Removes the oldest element.
  void pop() {
    ++head_;
    if (--size_ == 0) clear();
  }
  // The ring belongs to another pool from now on.
  void move_to(BlockPool& pool) {
    if (held_ != nullptr) pool.adopt(*pool_, capacity_ * sizeof(T));
    pool_ = &pool;
  }
  // Removes all but the oldest element.
  void keep_front() { size_ = 1; }
  void clear() {
    head_ = size_ = 0;
    if (held_ == nullptr) return;
    pool_->give(reinterpret_cast<std::byte*>(held_), capacity_ * sizeof(T));
    held_ = nullptr;
  }

 private:
  BlockPool* pool_;
  T* held_ = nullptr;
  std::uint16_t head_ = 0;  // free running
  std::uint16_t size_ = 0;
  std::uint16_t capacity_ = 0;
};

}  // namespace tern
