// SPDX-License-Identifier: GPL-2.0-or-later
// Mapped memory that is not registered.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

namespace guest {

class Map {
 public:
  explicit Map(std::size_t length, int protection = PROT_READ | PROT_WRITE,
               int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1, void* at = nullptr);
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;
  ~Map() { unmap(); }

  [[nodiscard]] std::byte* at(std::size_t offset = 0) const { return at_ + offset; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {at_, length_}; }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t offset, std::size_t n) const {
    return {at_ + offset, n};
  }
  [[nodiscard]] std::size_t length() const { return length_; }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(at_) + offset;
  }
  void advise(int advice, std::size_t offset = 0, std::size_t length = 0) const;
  void protect(int protection) const;
  void unmap();

 private:
  std::byte* at_;
  std::size_t length_;
};

// An object that this process and its children share, and that is never destroyed.
template <typename T>
T* new_shared() {
  void* const memory =
      ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return new (memory) T{};
}

}  // namespace guest
