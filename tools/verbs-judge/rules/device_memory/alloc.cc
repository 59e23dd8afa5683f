// SPDX-License-Identifier: GPL-2.0-or-later
// Allocations of device memory, copies by the CPU, and regions: what succeeds and what is refused.
#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "child.h"
#include "device_memory.h"

namespace guest::device_memory {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::uint64_t size_of(const Env& env) {
  need_device_memory(env.dev.context());
  return max_dm_size(env.dev.context());
}

int refusal(const Env& env, std::size_t length, std::uint32_t log = 0, std::uint32_t mask = 0) {
  return try_alloc_dm(env.dev.context(), length, log, mask) ? 0 : errno;
}

void max_size(const Env& env) {
  const std::uint64_t size = size_of(env);
  require(env.dm_size == 0 || size == env.dm_size, "max_dm_size {}, not {}", size, env.dm_size);
  {
    const DmPtr all = try_alloc_dm(env.dev.context(), size);
    require_usual(all != nullptr, "an allocation of max_dm_size: {}", errno_name(errno));
    if (all) {
      const std::uint32_t word = 0x12345678;
      dm_write(all.get(), size - 4, std::as_bytes(std::span(&word, 1)));
      require_refused(refusal(env, 1), ENOMEM, "an allocation beside max_dm_size");
    }
  }
  for (const std::uint64_t length : {size + 1, size * 2, kMost, kMost - kPage}) {
    require_refused(refusal(env, length), ENOMEM, "an allocation of more than max_dm_size");
  }
}

void lengths(const Env& env) {
  const std::uint64_t size = size_of(env);
  usually_refused(refusal(env, 0), EINVAL, "an allocation of no byte");
  for (const std::uint64_t n : {1UL, 2UL, 3UL, 4UL, 5UL, 7UL, 8UL, 100UL, kPage - 1, kPage,
                                kPage + 1, 2 * kPage + 3, 65536UL, 1000003UL}) {
    if (n > size) break;
    const DmPtr dm = try_alloc_dm(env.dev.context(), n);
    require_usual(dm != nullptr, "an allocation of {} bytes: {}", n, errno_name(errno));
    if (!dm) continue;
    require_usual((dm->comp_mask & IBV_DM_MASK_HANDLE) != 0, "an allocation without a handle");
    std::vector<std::byte> bytes(n & ~3UL);
    fill(bytes, n);
    dm_write(dm.get(), 0, bytes);
    require(dm_read(dm.get(), 0, bytes.size()) == bytes, "{} bytes differ", n);
    // Although a device may give more, it gives no access to it.
    std::array<std::uint32_t, 2> word{};
    require_refused(ibv_memcpy_from_dm(word.data(), dm.get(), n & ~3UL, 4), EFAULT,
                    "a copy beyond the end");
    const MrPtr mr = reg_dm(env.dev.pd(), dm.get(), 0, n);
    require(mr->length == n, "the region has {} bytes, not {}", mr->length, n);
    require(!try_reg_dm(env.dev.pd(), dm.get(), 0, n + 1), "a region of a byte more");
  }
}

void alignments(const Env& env) {
  const std::uint64_t size = size_of(env);
  for (std::uint32_t log = 0; log <= 12 && size >> log >= 64; log++) {
    const int err = refusal(env, 64, log);
    require_usual(err == 0, "an alignment of 2^{}: {}", log, errno_name(err));
  }
  const auto above = static_cast<std::uint32_t>(std::bit_width(size));
  for (const std::uint32_t log : {above, 63U, 64U, 65U, 128U, 0x80000000U, 0xffffffffU}) {
    require_refused(refusal(env, 64, log), EINVAL, "an alignment above the size");
  }
}

void comp_mask(const Env& env) {
  size_of(env);
  for (std::uint32_t bit = 0; bit < 32; bit++) {
    usually_refused(refusal(env, 64, 0, 1U << bit), EINVAL, "an allocation with a comp_mask");
  }
  usually_refused(refusal(env, 64, 0, ~0U), EINVAL, "an allocation with a comp_mask");
}

// Chunks until no more fit. No two share a byte, and what is freed can be allocated again.
void exhaustion(const Env& env) {
  const std::uint64_t size = size_of(env);
  const std::uint64_t chunk = std::max<std::uint64_t>(size / 64 & ~3UL, 4);
  std::size_t first = 0;
  for (int round = 0; round < 3; round++) {
    std::vector<DmPtr> all;
    while (DmPtr dm = try_alloc_dm(env.dev.context(), chunk)) {
      std::vector<std::byte> bytes(chunk);
      fill(bytes, all.size());
      dm_write(dm.get(), 0, bytes);
      all.push_back(std::move(dm));
      require(all.size() * chunk <= size, "more than max_dm_size can be allocated");
    }
    require_refused(errno, ENOMEM, "an allocation when all is given away");
    require(!all.empty(), "nothing can be allocated in round {}", round);
    for (std::size_t i = 0; i < all.size(); i++) {
      std::vector<std::byte> bytes(chunk);
      fill(bytes, i);
      require(dm_read(all[i].get(), 0, chunk) == bytes, "allocation {} has another's bytes", i);
    }
    if (round == 0) first = all.size();
    require_usual(all.size() == first, "{} of {} chunks fit again", all.size(), first);
  }
}

void zeroed(const Env& env) {
  const std::uint64_t size = size_of(env);
  for (int round = 0; round < 2; round++) {
    const DmPtr dm = try_alloc_dm(env.dev.context(), size);
    if (!dm) return require_usual(false, "an allocation of max_dm_size: {}", errno_name(errno));
    const std::vector<std::byte> bytes = dm_read(dm.get(), 0, size);
    require_usual(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{}; }),
                  "a new allocation has old bytes");
    dm_write(dm.get(), 0, std::vector<std::byte>(size, std::byte{0x99}));
  }
}

void copies(const Env& env) {
  constexpr std::uint64_t kLength = 1024;
  need_device_memory(env.dev.context());
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

using Places = std::vector<std::array<std::uint64_t, 2>>;

// A refused copy changes no byte on either side. `check` judges what a copy returns.
void refused_copies(const Env& env, const Places& places,
                    const std::function<bool(int err, const char* what)>& check) {
  constexpr std::uint64_t kLength = 1024;
  need_device_memory(env.dev.context());
  const Space space(env.dev, Kind::kDevice, kLength);
  std::vector<std::byte> host(kLength + 64);
  fill(host, 2);
  const std::vector<std::byte> was = host;
  for (const auto& [offset, length] : places) {
    space.paint(1);
    if (check(ibv_memcpy_to_dm(space.dm(), offset, host.data(), length), "a copy to the device")) {
      space.check(1);
    }
    if (check(ibv_memcpy_from_dm(host.data(), space.dm(), offset, length),
              "a copy from the device")) {
      require(host == was, "bytes came to the host");
    }
    host = was;
  }
}

// No document says how finely the CPU can copy.
void not_in_words(const Env& env) {
  refused_copies(
      env, {{1, 4}, {2, 4}, {3, 8}, {0, 1}, {0, 2}, {0, 3}, {4, 5}, {1, 3}, {2, 2}, {1021, 3}},
      [](int err, const char* what) {
        return usually_refused(err, EINVAL, (std::string(what) + ", not in words").c_str());
      });
}

bool beyond(int err, const char* what) {
  require_refused(err, EFAULT, (std::string(what) + " beyond the allocation").c_str());
  return true;
}

void out_of_range(const Env& env) {
  refused_copies(
      env, {{1024, 4}, {1020, 8}, {0, 1028}, {4, 1024}, {4096, 4}, {1UL << 32, 4}, {0, 1UL << 32}},
      beyond);
  if (strict()) refused_copies(env, {{1028, 0}, {kMost - 3, 0}}, beyond);
}

// In a process of its own: a library that adds without care does not survive this.
void wraps(const Env& env) {
  const std::string name = ibv_get_device_name(env.dev.context()->device);
  Child child([&](const Talk&) {
    const Device dev(name, env.dev.gid_index());
    Env own{.dev = dev, .link = env.link};
    refused_copies(own,
                   {{kMost - 3, 4},
                    {kMost - 3, 8},
                    {kMost - 1023, 1024},
                    {8, kMost - 3},
                    {4, kMost - 7},
                    {1UL << 63, 1UL << 63}},
                   beyond);
  });
  child.finish();
}

// A refused ibv_free_dm() leaves memory, regions and keys usable.
void free_busy(const Env& env) {
  need_device_memory(env.dev.context());
  DmPtr dm = alloc_dm(env.dev.context(), 64);
  MrPtr first = reg_dm(env.dev.pd(), dm.get(), 0, 32);
  const MrPtr second = reg_dm(env.dev.pd(), dm.get(), 32, 8);
  std::vector<std::byte> bytes(64);
  fill(bytes, 7);
  for (int i = 0; i < 3; i++) {
    require_refused(ibv_free_dm(dm.get()), EBUSY, "ibv_free_dm with a region on it");
    dm_write(dm.get(), 0, bytes);
    require(dm_read(dm.get(), 0, bytes.size()) == bytes, "the bytes differ");
    reg_dm(env.dev.pd(), dm.get(), 4, 8);
    first.reset();
  }
}

void regions(const Env& env) {
  const std::uint64_t length = std::min(2 * kPage + 100, size_of(env));
  const DmPtr dm = alloc_dm(env.dev.context(), length);
  for (const std::uint64_t offset : {0UL, 1UL, 4UL, 63UL, kPage - 1, kPage, kPage + 1, length}) {
    for (const std::uint64_t n : {0UL, 1UL, 3UL, 8UL, kPage, length - offset}) {
      const MrPtr mr = try_reg_dm(env.dev.pd(), dm.get(), offset, n);
      if (offset + n > length) {
        require_refused(mr ? 0 : errno, EINVAL, "a region beyond the allocation");
        continue;
      }
      require_usual(mr != nullptr, "a region of {} bytes at {}: {}", n, offset, errno_name(errno));
      if (!mr) continue;
      require(mr->length == n, "a region of {} bytes, not {}", mr->length, n);
      require_usual(mr->addr == nullptr, "a region with an address");
    }
  }
}

void refused_regions(const Env& env) {
  need_device_memory(env.dev.context());
  constexpr std::uint64_t kLength = 256;
  const DmPtr dm = alloc_dm(env.dev.context(), kLength);
  const auto refused = [&](std::uint64_t offset, std::uint64_t n, unsigned access) {
    return try_reg_dm(env.dev.pd(), dm.get(), offset, n, access) ? 0 : errno;
  };
  const Places places{{0, kLength + 1}, {1, kLength},   {kLength, 1},
                      {kLength + 1, 0}, {2 * kPage, 1}, {kMost, 2},
                      {kMost - 3, 4},   {4, kMost - 3}, {0, kMost}};
  for (const auto& [offset, n] : places) {
    require_refused(refused(offset, n, kDmAccess), EINVAL, "a region beyond the allocation");
  }
  require_refused(refused(0, 64, kAllAccess), EINVAL, "a region that is not zero-based");
  for (const int remote : {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC}) {
    const unsigned access = IBV_ACCESS_ZERO_BASED | static_cast<unsigned>(remote);
    require_refused(refused(0, 64, access), EINVAL, "remote rights to write without LOCAL_WRITE");
  }
  usually_refused(refused(0, 64, kDmAccess | IBV_ACCESS_ON_DEMAND), EINVAL, "a region on demand");
  const MrPtr mr = reg_dm(env.dev.pd(), dm.get(), 0, 64);
  require_usual(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                             kAllAccess) == IBV_REREG_MR_ERR_CMD,
                "ibv_rereg_mr of a region in device memory is accepted");
}

}  // namespace

Rules alloc() {
  return {
      {"max-size", "no more than max_dm_size can be allocated", max_size},
      {"alloc-lengths", "no copy and no region reaches beyond the length that was asked for",
       lengths},
      {"alloc-alignments", "an alignment above the size of the memory is refused", alignments},
      {"alloc-comp-mask", "unknown bits of comp_mask are refused", comp_mask},
      {"exhaustion", "allocations do not overlap, and freed memory can be allocated again",
       exhaustion},
      {"zeroed", "a new allocation is zero", zeroed},
      {"copies", "copies by the CPU move their bytes and no other", copies},
      {"copy-not-in-words", "a copy that is not in words is refused, or moves its bytes",
       not_in_words},
      {"copy-out-of-range", "a copy beyond the allocation is refused and moves no byte",
       out_of_range},
      {"copy-wraps", "a copy that wraps at 2^64 is refused and moves no byte", wraps},
      {"free-busy", "ibv_free_dm fails while a region is on the memory, and changes nothing",
       free_busy},
      {"regions", "a region may be on any part of an allocation", regions},
      {"refused-regions", "regions beyond the allocation, or not zero-based, are refused",
       refused_regions},
  };
}

}  // namespace guest::device_memory
