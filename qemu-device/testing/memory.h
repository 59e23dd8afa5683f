// SPDX-License-Identifier: GPL-2.0-or-later
// Memory that a driver shares with its device: queues, doorbell records, regions.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tern_hw.hpp"

namespace tern {

using Gid = std::array<std::uint8_t, 16>;
using Mac = std::array<std::uint8_t, 6>;
using Status = std::uint16_t;  // TERN_ST_*

}  // namespace tern

namespace tern::test {

class Driver;

// A word that the device reads or writes at the same time.
[[nodiscard]] inline std::uint32_t load_word(const std::byte* from) {
  auto* const word = reinterpret_cast<std::uint32_t*>(const_cast<std::byte*>(from));
  return le(std::atomic_ref(*word).load(std::memory_order_seq_cst));
}
inline void store_word(std::byte* to, std::uint32_t value) {
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(to))
      .store(le(value), std::memory_order_seq_cst);
}

// Memory of a queue, and its pages for the device: scattered ones with a page list if the driver
// says so.
class QueueMemory {
 public:
  static constexpr std::uint64_t kPage = 4096;

  QueueMemory(Driver& driver, std::uint64_t bytes);
  [[nodiscard]] tern_pages pages() const { return pages_; }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const {
    return page_[offset / kPage].bytes + offset % kPage;
  }
  [[nodiscard]] std::uint64_t address(std::uint64_t offset) const {
    return page_[offset / kPage].address + offset % kPage;
  }
  template <class T>
  [[nodiscard]] T get(std::uint64_t offset) const {
    T value{};
    std::memcpy(&value, at(offset), sizeof(T));
    return value;
  }
  template <class T>
  void put(std::uint64_t offset, const T& value) {
    std::memcpy(at(offset), &value, sizeof(T));
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes);

 private:
  struct Page {
    std::uint64_t address;
    std::byte* bytes;
  };
  std::vector<Page> page_;
  tern_pages pages_{};
};

// A zeroed doorbell record.
template <class T>
class TestRecord {
 public:
  template <class D>
  explicit TestRecord(D& driver)
      : addr_(driver.alloc(sizeof(T), sizeof(T))), bytes_(driver.at(addr_, sizeof(T))) {}
  [[nodiscard]] std::uint64_t address() const { return addr_; }
  [[nodiscard]] std::uint32_t get(std::size_t offset) const { return load_word(bytes_ + offset); }
  void put(std::size_t offset, std::uint32_t value) { store_word(bytes_ + offset, value); }

 private:
  std::uint64_t addr_;
  std::byte* bytes_;
};

inline constexpr std::uint32_t kAllAccess = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                                            TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC |
                                            TERN_ACCESS_FLUSH_GLOBAL;

// A region over contiguous memory, or one that maps the same pages repeatedly.
struct TestMr {
  std::byte* memory = nullptr;
  std::uint32_t key = 0;
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  std::uint64_t dma = 0;     // DMA address of the first byte
  std::uint64_t backed = 0;  // bytes of memory in the region

  [[nodiscard]] tern_sge sge(std::uint64_t offset, std::uint32_t len) const {
    return {iova + offset, len, key};
  }
  [[nodiscard]] tern_sge sge() const { return sge(0, static_cast<std::uint32_t>(length)); }
  // The memory of the region. Of repeated pages, only the first pass.
  [[nodiscard]] std::span<std::byte> bytes() const { return {memory, backed}; }
  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t offset, std::uint64_t len) const {
    return bytes().subspan(offset, len);
  }
  // Fills the memory with a pattern that depends on `seed`.
  void fill(unsigned seed) const;
  template <class T>
  [[nodiscard]] T get(std::uint64_t offset) const {
    T value{};
    std::memcpy(&value, memory + offset, sizeof(T));
    return value;
  }
  template <class T>
  void put(std::uint64_t offset, const T& value) const {
    std::memcpy(memory + offset, &value, sizeof(T));
  }
};

struct RegOptions {
  std::uint32_t pd = 0;  // 0: the driver's own
  std::uint32_t access = kAllAccess;
  std::uint64_t iova = 0;    // 0: the DMA address
  std::uint64_t offset = 0;  // of the first byte in the first page
  std::uint64_t alias = 0;   // if not 0, the region maps this many bytes of memory repeatedly
  unsigned page_shift = 12;
  std::uint8_t kind = TERN_PAGES_LIST;
};

// An allocation of device memory.
struct TestDm {
  std::uint32_t number = 0;
  std::uint64_t offset = 0;  // in BAR4
  std::uint64_t size = 0;
};

}  // namespace tern::test
