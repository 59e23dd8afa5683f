// SPDX-License-Identifier: GPL-2.0-or-later
// Memory for data in flight. The block returned last is taken first, so that many queues that run
// in turn share a few cache lines, and an idle queue holds none.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace tern {

class BlockPool {
 public:
  static constexpr std::size_t kAlign = 64;

  // Memory is scarce when at least this many bytes are taken.
  static constexpr std::size_t kPlenty = std::size_t{256} << 20;

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Returns `bytes` uninitialized bytes, aligned to kAlign. Pass the same number to give().
  [[nodiscard]] std::byte* take(std::size_t bytes);
  void give(std::byte* block, std::size_t bytes);

  // Whether much memory is taken. The owner should then take only enough for one step.
  [[nodiscard]] bool scarce() const { return taken_ >= plenty_; }
  void set_plenty(std::size_t bytes) { plenty_ = bytes; }
  [[nodiscard]] std::size_t taken() const { return taken_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{kAlign}); }
  };
  std::size_t taken_ = 0;  // sum of the block sizes
  std::size_t plenty_ = kPlenty;
  // Indexed by the logarithm of the block size.
  std::array<std::vector<std::unique_ptr<std::byte[], Free>>, 32> free_;
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
  explicit operator bool() const { return held_ != nullptr; }
  T* operator->() const { return held_; }

 private:
  BlockPool* pool_;
  T* held_ = nullptr;
};

}  // namespace tern
