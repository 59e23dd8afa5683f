// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of memory regions, by subject, and what they share.
#pragma once

#include "loop.h"
#include "rule.h"

namespace guest::regions {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLength = 16 * kPage;

// Memory with a pattern.
class Pages : public Map {
 public:
  explicit Pages(std::size_t length = kLength, int protection = PROT_READ | PROT_WRITE)
      : Map(length, protection) {}
  void paint(std::uint64_t seed) const { fill(bytes(), seed); }
  void check(std::uint64_t seed, const char* what) const {
    const auto at = mismatch(bytes(), seed);
    require(!at, "{}: byte {} was changed", what, at.value_or(0));
  }
};

// Accesses the region under test through its lkey and its rkey. Each access uses new QPs, since a
// refused one ends its QP.
class Probe {
 public:
  Probe(const Device& dev, ibv_pd* pd, const ibv_mr* mr);

  // Moves n bytes from or to `address` by the region's rkey. Returns the completion status.
  [[nodiscard]] ibv_wc_status remote(ibv_wr_opcode opcode, std::uint64_t address,
                                     std::uint32_t n = 8) const;
  // The same with the region in the local SGE.
  [[nodiscard]] ibv_wc_status local(ibv_wr_opcode opcode, std::uint64_t address,
                                    std::uint32_t n = 8) const;
  // Checks that both keys reach all of `bytes`, whose first address is `at`, and none beside them:
  // data moves both ways.
  void reaches(std::span<std::byte> bytes, std::uint64_t at, const char* what) const;
  void reaches(const Pages& pages, const char* what) const {
    reaches(pages.bytes(), pages.address(), what);
  }
  // Checks that neither key reaches these pages, and that no byte there changes.
  void refuses(const Pages& pages, const char* what) const;

 private:
  template <typename Run>
  void moved(std::span<std::byte> from, std::span<std::byte> to, const Run& run,
             const char* what) const;

  const Device& dev_;
  ibv_pd* pd_;
  Pages other_;
  MrPtr key_;
  const ibv_mr* mr_;
};

// Pages, in KiB, that the kernel counts as pinned for this process.
std::uint64_t pinned_kib();

// ibv_reg_mr() and the life of a region.
Rules registration();
// Memory that changes below a region.
Rules memory();
// ibv_rereg_mr().
Rules rereg();
Rules rereg_under_way();
Rules all();

}  // namespace guest::regions
