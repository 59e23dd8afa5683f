// SPDX-License-Identifier: GPL-2.0-or-later
// Arithmetic for both halves of a connection: packets of a message, bytes described by SGEs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "memory/memory.h"
#include "tern_hw.hpp"

namespace tern {

// Bytes that a packet, an acknowledgement or a flushed WQE is charged in addition to its payload.
inline constexpr std::uint32_t kPacketCost = 64;

// Order of free-running WQE indices.
constexpr bool is_before(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

// Packets of a message of `bytes`. An empty message takes one.
[[nodiscard]] constexpr std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu) {
  return bytes == 0 ? 1 : (bytes - 1) / mtu + 1;
}

// Appends bytes [offset, offset + len) of the memory that SGEs at(0) .. at(n - 1) describe to
// `out`, and subtracts the bytes found from `len`. Any result but kReady empties `out`, and nothing
// counts as stored. `missing`: as for Memory::local().
template <class SgeAt>
[[nodiscard]] Access map_sges(Memory& memory, const Accessor& who, unsigned n, SgeAt at,
                              std::uint64_t offset, std::uint64_t& len, bool write, SpanList& out,
                              Memory::Missing& missing) {
  for (unsigned i = 0; i < n && len > 0; ++i) {
    const tern_sge sge = at(i);
    const std::uint64_t sge_len = le(std::uint32_t{sge.length});
    if (offset >= sge_len) {
      offset -= sge_len;
      continue;
    }
    const std::uint64_t take = std::min(len, sge_len - offset);
    const KeyRequest request{le(std::uint32_t{sge.lkey}), le(std::uint64_t{sge.addr}) + offset,
                             take, write ? TERN_ACCESS_LOCAL_WRITE : std::uint32_t{0}};
    const Access access = memory.local(who, request, out, missing);
    if (access != Access::kReady) {
      out.abandon();
      return access;
    }
    len -= take;
    offset = 0;
  }
  return Access::kReady;
}

}  // namespace tern
