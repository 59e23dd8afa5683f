// SPDX-License-Identifier: GPL-2.0-or-later
// ibv_alloc_dm, ibv_free_dm, copies by the CPU and ibv_reg_dm_mr, in one process.
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <functional>
#include <limits>

#include "counts.h"
#include "devmem.h"

namespace guest {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::uint64_t dm_bytes(const Scene& env) {
  const auto counts = read_counts(ibv_get_device_name(env.dev.context()->device));
  return static_cast<std::uint64_t>(counts.at("dm_bytes"));
}

std::uint64_t alive_dms(const Scene& env) {
  const auto counts = read_counts(ibv_get_device_name(env.dev.context()->device));
  return static_cast<std::uint64_t>(counts.at("alive_dm"));
}

void refused(const DmPtr& dm, int expected, const std::string& what) {
  require(dm == nullptr, "ibv_alloc_dm {}: succeeds", what);
  require(errno == expected, "ibv_alloc_dm {}: {}, not {}", what, errno_name(errno),
          errno_name(expected));
}

// Makes as many allocations of this size as fit; the one after them fails with ENOMEM.
std::vector<DmPtr> exhaust(const Scene& env, std::uint64_t length, std::uint32_t log_align = 0) {
  std::vector<DmPtr> all;
  while (DmPtr dm = try_alloc_dm(env.dev.context(), length, log_align)) {
    all.push_back(std::move(dm));
    require(all.size() <= env.size, "more allocations than bytes");
  }
  require_err(errno, ENOMEM, "ibv_alloc_dm when all is given away");
  return all;
}

void max_size(const Scene& env) {
  require(env.size != 0, "max_dm_size is 0");
  require(env.expected == 0 || env.size == env.expected, "max_dm_size {}, not {}", env.size,
          env.expected);
  {
    const DmPtr all = alloc_dm(env.dev.context(), env.size);
    require(dm_bytes(env) == env.size, "the device counts {} bytes", dm_bytes(env));
    const std::uint32_t word = 0x12345678;
    dm_write(all.get(), env.size - 4, std::as_bytes(std::span(&word, 1)));
    refused(try_alloc_dm(env.dev.context(), 1), ENOMEM, "of a byte beside it");
  }
  require(dm_bytes(env) == 0, "{} bytes stay", dm_bytes(env));
  for (const std::uint64_t length : {env.size + 1, env.size * 2, kMost, kMost - kPage}) {
    refused(try_alloc_dm(env.dev.context(), length), ENOMEM, "of more than max_dm_size");
  }
}

void lengths(const Scene& env) {
  refused(try_alloc_dm(env.dev.context(), 0), EINVAL, "of no byte");
  for (const std::uint64_t n : {1UL, 2UL, 3UL, 4UL, 5UL, 7UL, 8UL, 100UL, kPage - 1, kPage,
                                kPage + 1, 2 * kPage + 3, 65536UL, 1000003UL}) {
    const DmPtr dm = alloc_dm(env.dev.context(), n);
    require(dm_bytes(env) == (n + kPage - 1) / kPage * kPage, "{} bytes for {}", dm_bytes(env), n);
    require((dm->comp_mask & IBV_DM_MASK_HANDLE) != 0, "no handle");
    std::vector<std::byte> bytes(n & ~3UL);
    fill(bytes, n);
    dm_write(dm.get(), 0, bytes);
    require(dm_read(dm.get(), 0, bytes.size()) == bytes, "{} bytes differ", n);
    // No byte beyond the requested length is accessible, although pages are allocated.
    std::array<std::uint32_t, 2> word{};
    require_err(ibv_memcpy_from_dm(word.data(), dm.get(), n & ~3UL, 4), EFAULT, "copy at the end");
    const MrPtr mr = reg_dm(env.dev.pd(), dm.get(), 0, n);
    require(mr->length == n, "the region has {} bytes, not {}", mr->length, n);
    require(!try_reg_dm(env.dev.pd(), dm.get(), 0, n + 1), "a region of a byte more");
  }
}

// Allocations of one page at this alignment fill every aligned place, despite the gaps between.
void alignments(const Scene& env) {
  for (std::uint32_t log = 0; log <= 12; log++) {
    require(alloc_dm(env.dev.context(), 64, log) != nullptr, "alignment {}", log);
  }
  for (std::uint32_t log = 16; (env.size >> log) != 0; log++) {
    const std::uint64_t places = (env.size + (1UL << log) - 1) >> log;
    const std::vector<DmPtr> all = exhaust(env, 64, log);
    require(all.size() == places, "{} allocations at a multiple of 2^{}, there are {} places",
            all.size(), log, places);
    if (places * kPage < env.size) alloc_dm(env.dev.context(), 64);
  }
  const auto above = static_cast<std::uint32_t>(std::bit_width(env.size));
  for (const std::uint32_t log : {above, 63U, 64U, 65U, 128U, 0x80000000U, 0xffffffffU}) {
    refused(try_alloc_dm(env.dev.context(), 64, log), EINVAL, "of an alignment above the size");
  }
}

void exhaustion(const Scene& env) {
  const std::uint64_t chunk = env.size / 64;
  for (int round = 0; round < 3; round++) {
    std::vector<DmPtr> all = exhaust(env, chunk);
    require(all.size() == 64, "{} of 64 chunks", all.size());
    require(dm_bytes(env) == env.size && alive_dms(env) == 64, "{} bytes in {} allocations",
            dm_bytes(env), alive_dms(env));
    // After every second one is freed there is room, but no gap of two chunks.
    for (std::size_t i = 0; i < all.size(); i += 2) all[i].reset();
    refused(try_alloc_dm(env.dev.context(), 2 * chunk), ENOMEM, "of two chunks in gaps of one");
    require(exhaust(env, chunk).size() == 32, "the gaps do not come back");
    all.clear();
    require(dm_bytes(env) == 0 && alive_dms(env) == 0, "{} bytes in {} allocations stay",
            dm_bytes(env), alive_dms(env));
    alloc_dm(env.dev.context(), env.size);
  }
}

void pages(const Scene& env) {
  const std::uint64_t most = std::min<std::uint64_t>(env.size / kPage, 4096);
  std::vector<DmPtr> all;
  for (std::uint64_t i = 0; i < most; i++) {
    all.push_back(alloc_dm(env.dev.context(), 1 + i % kPage));
    if (i % 64 == 0) {
      std::vector<std::byte> bytes(4);
      fill(bytes, i);
      if (i % kPage >= 3) dm_write(all.back().get(), 0, bytes);
    }
  }
  if (most * kPage == env.size) {
    refused(try_alloc_dm(env.dev.context(), 1), ENOMEM, "of a byte when every page is taken");
  }
  // Allocations 64, 128, ... still hold their pattern: no other one overlaps them.
  for (std::uint64_t i = 64; i < most; i += 64) {
    std::vector<std::byte> bytes(4);
    fill(bytes, i);
    require(dm_read(all[i].get(), 0, 4) == bytes, "allocation {} has another's bytes", i);
  }
}

void zeroed(const Scene& env) {
  for (int round = 0; round < 2; round++) {
    const DmPtr dm = alloc_dm(env.dev.context(), env.size);
    const std::vector<std::byte> bytes = dm_read(dm.get(), 0, env.size);
    const auto at = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{}; });
    require(at == bytes.end(), "byte {} is not 0 in round {}", at - bytes.begin(), round);
    std::vector<std::byte> pattern(env.size);
    fill(pattern, 99);
    dm_write(dm.get(), 0, pattern);
  }
}

void copies(const Scene& env) {
  constexpr std::uint64_t kLength = 1024;
  const Space space(env.dev, Kind::kDevice, kLength);
  constexpr std::size_t kGuard = 16;
  for (std::uint64_t offset = 0; offset < 40; offset += 4) {
    for (const std::uint64_t n : {0UL, 4UL, 8UL, 12UL, 60UL, 64UL, 68UL, 500UL, kLength - 40}) {
      space.paint(1);
      // The host's buffer can start at any byte.
      std::vector<std::byte> host(n + 2 * kGuard + 1);
      fill(host, 2);
      const std::size_t begin = kGuard + offset / 4 % 2;
      fill(std::span(host).subspan(begin, n), offset + n);
      const std::vector<std::byte> was = host;
      require_err(ibv_memcpy_to_dm(space.dm(), offset, &host[begin], n), 0, "ibv_memcpy_to_dm");
      require(host == was, "the copy to the device changed the host's memory");
      const Patch patch{.offset = offset, .length = n, .seed = offset + n};
      space.check(1, {&patch, 1});
      fill(host, 3);
      std::vector<std::byte> want = host;
      fill(std::span(want).subspan(begin, n), offset + n);
      require_err(ibv_memcpy_from_dm(&host[begin], space.dm(), offset, n), 0, "ibv_memcpy_from_dm");
      require(host == want, "{} bytes from {} differ, or others were changed", n, offset);
    }
  }
}

// A refused copy changes no byte on either side.
void refused_copies(const Scene& env, const std::vector<std::array<std::uint64_t, 2>>& cases,
                    int expected) {
  constexpr std::uint64_t kLength = 1024;
  const Space space(env.dev, Kind::kDevice, kLength);
  space.paint(1);
  std::vector<std::byte> host(kLength + 64);
  fill(host, 2);
  const std::vector<std::byte> was = host;
  for (const auto& [offset, length] : cases) {
    const int to = ibv_memcpy_to_dm(space.dm(), offset, host.data(), length);
    require(to == expected, "ibv_memcpy_to_dm of {:#x} bytes at {:#x}: {}, not {}", length, offset,
            errno_name(to), errno_name(expected));
    const int from = ibv_memcpy_from_dm(host.data(), space.dm(), offset, length);
    require(from == expected, "ibv_memcpy_from_dm of {:#x} bytes at {:#x}: {}, not {}", length,
            offset, errno_name(from), errno_name(expected));
    require(host == was, "bytes came to the host");
  }
  space.check(1);
}

void comp_mask(const Scene& env) {
  for (std::uint32_t bit = 0; bit < 32; bit++) {
    refused(try_alloc_dm(env.dev.context(), 64, 0, 1U << bit), EINVAL, "with a comp_mask");
  }
  refused(try_alloc_dm(env.dev.context(), 64, 0, ~0U), EINVAL, "with all of comp_mask");
  require(alive_dms(env) == 0, "{} allocations", alive_dms(env));
}

// A refused ibv_free_dm() leaves mapping, regions and keys usable.
void free_busy(const Scene& env) {
  DmPtr dm = alloc_dm(env.dev.context(), 4 * kPage);
  MrPtr first = reg_dm(env.dev.pd(), dm.get(), 0, kPage);
  const MrPtr second = reg_dm(env.dev.pd(), dm.get(), kPage, 0);
  std::vector<std::byte> bytes(4 * kPage);
  fill(bytes, 7);
  for (int i = 0; i < 3; i++) {
    require_err(ibv_free_dm(dm.get()), EBUSY, "ibv_free_dm with a region on it");
    dm_write(dm.get(), 0, bytes);
    require(dm_read(dm.get(), 0, bytes.size()) == bytes, "the bytes differ");
    reg_dm(env.dev.pd(), dm.get(), 4, 8);
    first.reset();
  }
  require(alive_dms(env) == 1 && dm_bytes(env) == 4 * kPage, "the device counts {} bytes in {}",
          dm_bytes(env), alive_dms(env));
}

void regions(const Scene& env) {
  constexpr std::uint64_t kLength = 2 * kPage + 100;
  const DmPtr dm = alloc_dm(env.dev.context(), kLength);
  for (const std::uint64_t offset : {0UL, 1UL, 4UL, 63UL, kPage - 1, kPage, kPage + 1, kLength}) {
    for (const std::uint64_t n : {0UL, 1UL, 3UL, 8UL, kPage, kLength - offset}) {
      const MrPtr mr = try_reg_dm(env.dev.pd(), dm.get(), offset, n);
      if (offset + n > kLength) {
        require(!mr && errno == EINVAL, "a region of {} bytes at {}: {}", n, offset,
                errno_name(errno));
        continue;
      }
      require(mr != nullptr, "a region of {} bytes at {}: {}", n, offset, errno_name(errno));
      require(mr->length == n && mr->addr == nullptr && mr->lkey != 0, "what the region says");
    }
  }
}

void refused_regions(const Scene& env) {
  constexpr std::uint64_t kLength = kPage;
  const DmPtr dm = alloc_dm(env.dev.context(), kLength);
  constexpr std::array<std::array<std::uint64_t, 2>, 9> kRanges{{{0, kLength + 1},
                                                                 {1, kLength},
                                                                 {kLength, 1},
                                                                 {kLength + 1, 0},
                                                                 {2 * kPage, 1},
                                                                 {kMost, 2},
                                                                 {kMost - 3, 4},
                                                                 {4, kMost - 3},
                                                                 {0, kMost}}};
  for (const auto& [offset, n] : kRanges) {
    require(!try_reg_dm(env.dev.pd(), dm.get(), offset, n), "a region of {:#x} bytes at {:#x}", n,
            offset);
    require_err(errno, EINVAL, "a region beyond the allocation");
  }
  require(!try_reg_dm(env.dev.pd(), dm.get(), 0, 64, kAllAccess), "one that is not zero-based");
  require_err(errno, EINVAL, "a region that is not zero-based");
  for (const int remote : {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC}) {
    const unsigned access = IBV_ACCESS_ZERO_BASED | static_cast<unsigned>(remote);
    require(!try_reg_dm(env.dev.pd(), dm.get(), 0, 64, access), "remote write without local");
    require_err(errno, EINVAL, "remote write without local write");
  }
  require(!try_reg_dm(env.dev.pd(), dm.get(), 0, 64, kDmAccess | IBV_ACCESS_ON_DEMAND),
          "on demand");
  require(errno == EINVAL || errno == EOPNOTSUPP, "on demand: {}", errno_name(errno));
  require_err(ibv_rereg_mr(reg_dm(env.dev.pd(), dm.get(), 0, 64).get(), IBV_REREG_MR_CHANGE_ACCESS,
                           nullptr, nullptr, 0, kAllAccess),
              IBV_REREG_MR_ERR_CMD, "ibv_rereg_mr of a region in device memory");
}

}  // namespace

std::vector<Test> api_tests(const Scene& env) {
  return tests_of(
      env,
      {{"max-size", max_size},
       {"alloc-lengths", lengths},
       {"alloc-alignments", alignments},
       {"alloc-comp-mask", comp_mask},
       {"exhaustion", exhaustion},
       {"every-page", pages},
       {"zeroed", zeroed},
       {"copies", copies},
       {"copy-not-in-words",
        [](const Scene& scene) {
          refused_copies(
              scene,
              {{1, 4}, {2, 4}, {3, 8}, {0, 1}, {0, 2}, {0, 3}, {4, 5}, {1, 3}, {2, 2}, {1021, 3}},
              EINVAL);
        }},
       {"copy-out-of-range",
        [](const Scene& scene) {
          refused_copies(scene,
                         {{1024, 4},
                          {1020, 8},
                          {0, 1028},
                          {4, 1024},
                          {4096, 4},
                          {1UL << 32, 4},
                          {0, 1UL << 32},
                          {1028, 0}},
                         EFAULT);
        }},
       {"copy-wraps",
        [](const Scene& scene) {
          refused_copies(scene,
                         {{kMost - 3, 4},
                          {kMost - 3, 8},
                          {kMost - 1023, 1024},
                          {8, kMost - 3},
                          {4, kMost - 7},
                          {1UL << 63, 1UL << 63},
                          {kMost - 3, 0}},
                         EFAULT);
        }},
       {"free-busy", free_busy},
       {"regions", regions},
       {"refused-regions", refused_regions}});
}

}  // namespace guest
