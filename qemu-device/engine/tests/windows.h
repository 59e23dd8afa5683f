// SPDX-License-Identifier: GPL-2.0-or-later
// Memory windows of the tests' driver and provider.
#pragma once

#include <cstdint>

#include "tests/mini_driver.h"

namespace tern {

inline constexpr std::uint32_t kWindowAccess =
    TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC;
inline constexpr std::uint32_t kBindable = kAllAccess | TERN_ACCESS_MW_BIND;

// A window. `view` is what a peer may know, in the form of a region for requests: key, address of
// the first byte, length.
struct TestMw {
  std::uint8_t type = 1;
  TestMr view;
};

[[nodiscard]] TestMw alloc_mw(TestNode& node, std::uint8_t type, std::uint32_t pd = 0);
[[nodiscard]] Status free_mw(TestNode& node, std::uint32_t key);
[[nodiscard]] tern_rsp_mr query_key(TestNode& node, std::uint32_t key);

[[nodiscard]] constexpr std::uint32_t with_variant(std::uint32_t key, std::uint32_t variant) {
  return (key & ~std::uint32_t{TERN_KEY_VARIANT_MASK}) | (variant & TERN_KEY_VARIANT_MASK);
}
[[nodiscard]] constexpr std::uint32_t next_variant(std::uint32_t key) {
  return with_variant(key, key + 1);
}

// A region whose addresses start at 0; expects success.
[[nodiscard]] TestMr reg_zero_based(TestNode& node, std::uint64_t len, std::uint32_t pd,
                                    std::uint32_t access = kBindable);

// A bind of `length` bytes from `offset` in the region, under the next variant. Updates `mw` to the
// state after a successful bind.
[[nodiscard]] SendWr bind(TestMw& mw, const TestMr& mr, std::uint64_t offset, std::uint64_t length,
                          std::uint32_t access = kWindowAccess);
// Unbinds a type 1 window.
[[nodiscard]] SendWr unbind(TestMw& mw);

}  // namespace tern
