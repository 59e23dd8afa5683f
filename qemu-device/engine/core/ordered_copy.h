// SPDX-License-Identifier: GPL-2.0-or-later
// Copies that store the end of the message last. Programs poll the last byte of a buffer that a
// peer writes, and read the rest when it changes; memmove() may store the end first.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tern {

// The stores of copy_ending(); tests substitute a Mover that records them.
struct Mover {
  // Stores n > 0 bytes in any order; `to` and `from` may overlap.
  static void body(std::byte* to, const std::byte* from, std::size_t n) {
    std::memmove(to, from, n);
  }
  // Stores an aligned word at once, after all earlier stores.
  template <class T>
  static void last(std::byte* to, T value) {
    __atomic_store_n(reinterpret_cast<T*>(to), value, __ATOMIC_RELEASE);
  }
};

// Copies n bytes; `to` and `from` may overlap. The last store is the largest aligned word of up to
// 8 bytes that ends with the last byte of `to`: a reader that sees the last byte sees all others.
template <class M>
inline void copy_ending(M&& m, std::byte* to, const std::byte* from, std::size_t n) {
  // Load the end before storing the body, which may overwrite it.
  const auto with = [&]<class T>(T end) {
    const std::size_t before = n - sizeof(T);
    std::memcpy(&end, from + before, sizeof(T));
    if (before != 0) m.body(to, from, before);
    m.last(to + before, end);
  };
  if (n == 0) return;
  const auto stop = reinterpret_cast<std::uintptr_t>(to) + n;
  if (stop % 8 == 0 && n >= 8) [[likely]]
    return with(std::uint64_t{});
  if (stop % 4 == 0 && n >= 4) return with(std::uint32_t{});
  if (stop % 2 == 0 && n >= 2) return with(std::uint16_t{});
  with(std::uint8_t{});
}

// Copies the bytes from `offset` on out of a sequence of pieces, which may overlap `to`.
template <class Pieces>
inline void copy_pieces(const Pieces& from, std::size_t offset, std::span<std::byte> to) {
  for (const auto& piece : from) {
    const std::size_t skip = std::min(offset, piece.bytes.size());
    const std::size_t n = std::min(to.size(), piece.bytes.size() - skip);
    if (n != 0) std::memmove(to.data(), piece.bytes.data() + skip, n);
    offset -= skip;
    to = to.subspan(n);
  }
}

// Copies `total` bytes from one sequence of pieces to another; no two may overlap. The last store
// is that of copy_ending().
template <class M, class Pieces>
void copy_pieces_ending(M&& m, const Pieces& from, const Pieces& to, std::size_t total) {
  for (std::size_t i = 0, j = 0, i_off = 0, j_off = 0; total != 0;) {
    const auto s = from[i].bytes.subspan(i_off);
    const auto d = to[j].bytes.subspan(j_off);
    const std::size_t n = std::min({s.size(), d.size(), total});
    total -= n;
    if (total == 0) return copy_ending(m, d.data(), s.data(), n);
    m.body(d.data(), s.data(), n);
    i_off = n == s.size() ? (++i, 0) : i_off + n;
    j_off = n == d.size() ? (++j, 0) : j_off + n;
  }
}

}  // namespace tern
