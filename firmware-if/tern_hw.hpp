/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
// The contract for C++20: definitions that the headers need from their
// includer, and typed access to little-endian members.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

#include <linux/types.h>

#ifndef GENMASK
#define GENMASK(h, l) ((~0U << (l)) & (~0U >> (31 - (h))))
#endif
#ifndef BIT
#define BIT(n) (1U << (n))
#endif
#ifndef BIT_ULL
#define BIT_ULL(n) (1ULL << (n))
#endif

#include "tern_regs.h"
#include "tern_cq.h"
#include "tern_io.h"
#include "tern_admin.h"
#include "tern_aq_record.h"
#include "tern_verbs.h"
#include "tern_change.h"
#include "tern_comp_cntr.h"
#include "tern_counts.h"
#include "tern_dm_op.h"
#include "tern_page_fault.h"
#include "tern_tm.h"
#include "tern_eth.h"
#include "tern_coalesced.h"
#include "tern_flow.h"
#include "tern_congestion.h"
#include "tern_event_log.h"

namespace tern {

// Converts between a little-endian member and a host number. Only the headers
// of tag matching have another byte order: see from_wire().
template <std::unsigned_integral T>
[[nodiscard]] constexpr T le(T v) noexcept {
  if constexpr (std::endian::native == std::endian::little || sizeof(T) == 1) {
    return v;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(__builtin_bswap16(v));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(__builtin_bswap32(v));
  } else {
    return static_cast<T>(__builtin_bswap64(v));
  }
}

// Returns the bits of `word` that are in `mask`, shifted down to bit 0.
[[nodiscard]] constexpr std::uint32_t field_get(std::uint32_t mask, std::uint32_t word) noexcept {
  return (word & mask) >> std::countr_zero(mask);
}

// Returns `value` shifted up to the position of `mask`.
[[nodiscard]] constexpr std::uint32_t field_prep(std::uint32_t mask, std::uint32_t value) noexcept {
  return (value << std::countr_zero(mask)) & mask;
}

}  // namespace tern
