// SPDX-License-Identifier: GPL-2.0-or-later
// What the device counts, and how it fills its memory: in pages, from every gap. The rules that
// hold for every adapter are verbs-judge's.
#include <algorithm>
#include <cerrno>

#include "counts.h"
#include "devmem.h"

namespace guest {
namespace {

constexpr std::uint64_t kPage = 4096;

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
  }
  require(dm_bytes(env) == 0, "{} bytes stay", dm_bytes(env));
}

void lengths(const Scene& env) {
  for (const std::uint64_t n : {1UL, 8UL, kPage - 1, kPage, kPage + 1, 2 * kPage + 3, 1000003UL}) {
    const DmPtr dm = alloc_dm(env.dev.context(), n);
    require(dm_bytes(env) == (n + kPage - 1) / kPage * kPage, "{} bytes for {}", dm_bytes(env), n);
  }
}

// Allocations of one page at this alignment fill every aligned place, despite the gaps between.
void alignments(const Scene& env) {
  for (std::uint32_t log = 16; (env.size >> log) != 0; log++) {
    const std::uint64_t places = (env.size + (1UL << log) - 1) >> log;
    const std::vector<DmPtr> all = exhaust(env, 64, log);
    require(all.size() == places, "{} allocations at a multiple of 2^{}, there are {} places",
            all.size(), log, places);
    if (places * kPage < env.size) alloc_dm(env.dev.context(), 64);
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

}  // namespace

std::vector<Test> api_tests(const Scene& env) {
  return tests_of(env, {{"max-size", max_size},
                        {"alloc-lengths", lengths},
                        {"alloc-alignments", alignments},
                        {"exhaustion", exhaustion},
                        {"every-page", pages}});
}

}  // namespace guest
