// SPDX-License-Identifier: GPL-2.0-or-later
// Big-endian header fields. A view of a header has exactly the header's size, so the compiler
// checks every field's offset; only taking the view needs a check at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace tern::frames {

// N bytes of a received header.
template <std::size_t N>
class HeaderReader {
 public:
  constexpr explicit HeaderReader(std::span<const std::byte, N> bytes) : bytes_(bytes) {}

  template <std::size_t Offset>
  [[nodiscard]] constexpr std::uint8_t u8() const {
    static_assert(Offset + 1 <= N);
    return std::to_integer<std::uint8_t>(bytes_[Offset]);
  }
  template <std::size_t Offset>
  [[nodiscard]] constexpr std::uint16_t u16() const {
    return static_cast<std::uint16_t>(number<Offset, 2>());
  }
  template <std::size_t Offset>
  [[nodiscard]] constexpr std::uint32_t u24() const {
    return static_cast<std::uint32_t>(number<Offset, 3>());
  }
  template <std::size_t Offset>
  [[nodiscard]] constexpr std::uint32_t u32() const {
    return static_cast<std::uint32_t>(number<Offset, 4>());
  }
  template <std::size_t Offset>
  [[nodiscard]] constexpr std::uint64_t u64() const {
    return number<Offset, 8>();
  }
  template <std::size_t Offset, std::size_t Count>
  [[nodiscard]] constexpr std::span<const std::byte, Count> bytes() const {
    static_assert(Offset + Count <= N);
    return bytes_.template subspan<Offset, Count>();
  }

 private:
  template <std::size_t Offset, std::size_t Count>
  [[nodiscard]] constexpr std::uint64_t number() const {
    static_assert(Offset + Count <= N);
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < Count; ++i) {
      v = v << 8 | std::to_integer<std::uint64_t>(bytes_[Offset + i]);
    }
    return v;
  }
  std::span<const std::byte, N> bytes_;
};

// N bytes of a header being written.
template <std::size_t N>
class HeaderWriter {
 public:
  constexpr explicit HeaderWriter(std::span<std::byte, N> bytes) : bytes_(bytes) {}

  template <std::size_t Offset>
  constexpr void u8(std::uint8_t v) const {
    number<Offset, 1>(v);
  }
  template <std::size_t Offset>
  constexpr void u16(std::uint16_t v) const {
    number<Offset, 2>(v);
  }
  template <std::size_t Offset>
  constexpr void u24(std::uint32_t v) const {
    number<Offset, 3>(v);
  }
  template <std::size_t Offset>
  constexpr void u32(std::uint32_t v) const {
    number<Offset, 4>(v);
  }
  template <std::size_t Offset>
  constexpr void u64(std::uint64_t v) const {
    number<Offset, 8>(v);
  }
  template <std::size_t Offset, std::size_t Count>
  [[nodiscard]] constexpr std::span<std::byte, Count> bytes() const {
    static_assert(Offset + Count <= N);
    return bytes_.template subspan<Offset, Count>();
  }

 private:
  template <std::size_t Offset, std::size_t Count>
  constexpr void number(std::uint64_t v) const {
    static_assert(Offset + Count <= N);
    for (std::size_t i = Count; i-- > 0; v >>= 8) bytes_[Offset + i] = static_cast<std::byte>(v);
  }
  std::span<std::byte, N> bytes_;
};

// Takes headers off the front of a buffer. The caller has checked the length: taking more bytes
// than are left is a bug, so take() aborts.
template <class Byte>
class HeaderCursor {
 public:
  explicit HeaderCursor(std::span<Byte> bytes) : bytes_(bytes) {}

  template <std::size_t N>
  [[nodiscard]] std::span<Byte, N> take() {
    if (bytes_.size() < N) std::abort();
    const auto front = bytes_.template first<N>();
    bytes_ = bytes_.subspan(N);
    return front;
  }
  [[nodiscard]] std::span<Byte> rest() const { return bytes_; }

 private:
  std::span<Byte> bytes_;
};

}  // namespace tern::frames
