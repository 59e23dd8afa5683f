// SPDX-License-Identifier: GPL-2.0-or-later
// Doorbell records: words that software and device share outside the rings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/host.h"
#include "tern_hw.hpp"

namespace tern {

// A record at a DMA address. Every access may fail: the memory belongs to the user, and a vIOMMU
// may have unmapped it. A record whose address is aligned to its size does not cross a page.
class Record {
 public:
  Record() = default;
  explicit Record(std::uint64_t addr) : addr_(addr) {}
  // Whether the address is aligned for a record of type T.
  template <class T>
  [[nodiscard]] bool fits() const {
    static_assert((sizeof(T) & (sizeof(T) - 1)) == 0);
    return addr_ % sizeof(T) == 0;
  }

  // Accesses to the 4-byte aligned word at byte `offset`: acquire load, release store. They return
  // nullopt or false if it is not RAM.
  [[nodiscard]] std::optional<std::uint32_t> load32(Host& host, std::size_t offset) const {
    const auto span = host.reach(addr_ + offset, kWord, false);
    if (span.size() != kWord) [[unlikely]]
      return load_pieces(host, offset, span);
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

// Store an aligned word in DMA memory with a release store; in pieces if the host's mapping splits
// the word. They return false if it is not RAM.
[[nodiscard]] bool dma_store32(Host& host, std::uint64_t addr, std::uint32_t value);
[[nodiscard]] bool dma_store64(Host& host, std::uint64_t addr, std::uint64_t value);

}  // namespace tern
