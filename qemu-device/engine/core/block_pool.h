// SPDX-License-Identifier: GPL-2.0-or-later
// Memory of what is under way. The block given back last is taken first, so that many queues that work in turn use the same few
// lines of the cache, and one that is idle holds nothing.
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

  // Bytes taken beyond which it is scarce.
  static constexpr std::size_t kPlenty = std::size_t{256} << 20;

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // `bytes` bytes that hold anything, aligned to kAlign. give() wants the same number.
  [[nodiscard]] std::byte* take(std::size_t bytes);
  void give(std::byte* block, std::size_t bytes);

  // Much is taken: an owner that can do with less takes no more than it needs for one step.
  [[nodiscard]] bool scarce() const { return taken_ >= plenty_; }
  void set_plenty(std::size_t bytes) { plenty_ = bytes; }
  [[nodiscard]] std::size_t taken() const { return taken_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{kAlign}); }
  };
  std::size_t taken_ = 0;  // bytes, as the blocks are large
  std::size_t plenty_ = kPlenty;
  // By the logarithm of their size.
  std::array<std::vector<std::unique_ptr<std::byte[], Free>>, 32> free_;
};

// The same of a type: held by one owner at a time.
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
