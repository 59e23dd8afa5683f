// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "verbs.h"

namespace guest::bench {

// Mapped memory; its pages are allocated before the measurement, unless `flags` lacks MAP_POPULATE.
class Pages {
 public:
  explicit Pages(std::size_t length, int flags = MAP_POPULATE)
      : length_(length),
        data_(::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
                     -1, 0)) {
    if (data_ == MAP_FAILED) fail_errno("mmap");
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(data_, length_); }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::byte* at(std::size_t offset) const {
    return static_cast<std::byte*>(data_) + offset;
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(at(offset));
  }
  [[nodiscard]] std::size_t length() const { return length_; }

 private:
  std::size_t length_;
  void* data_;
};

}  // namespace guest::bench
