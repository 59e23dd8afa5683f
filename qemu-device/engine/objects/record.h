// SPDX-License-Identifier: GPL-2.0-or-later
// Doorbell records: words that software and device share, outside of the rings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/host.h"
#include "tern_hw.hpp"

namespace tern {

// A record at a DMA address. Every access may fail: the memory is the user's, and a vIOMMU may have taken it away. An address
// that is aligned to the record's size keeps the record within a page.
class Record {
 public:
  Record() = default;
  explicit Record(std::uint64_t addr) : addr_(addr) {}
  // Whether a record of type T may lie there.
  template <class T>
  [[nodiscard]] bool fits() const {
    static_assert((sizeof(T) & (sizeof(T) - 1)) == 0);
    return addr_ % sizeof(T) == 0;
  }

  // The 32-bit word at byte `offset`, 4-byte aligned: acquire load, release store.
  [[nodiscard]] std::optional<std::uint32_t> load32(Host& host, std::size_t offset) const {
    const auto span = host.reach(addr_ + offset, kWord, false);
    if (span.size() != kWord) [[unlikely]] return load_pieces(host, offset, span);
    const std::uint32_t value = load_acquire32(span.data());
    host.release(span, false, 0);
    return le(value);
  }
  [[nodiscard]] bool store32(Host& host, std::size_t offset, std::uint32_t value) const;

 private:
  static constexpr std::size_t kWord = sizeof(std::uint32_t);
  [[nodiscard]] std::optional<std::uint32_t> load_pieces(Host& host, std::size_t offset,
                                                         std::span<std::byte> first) const;

  std::uint64_t addr_ = 0;
};

// Stores a 32-bit word in DMA memory as one piece (release); `addr` is 4-byte aligned. False when it is not RAM.
[[nodiscard]] bool dma_store32(Host& host, std::uint64_t addr, std::uint32_t value);

}  // namespace tern
