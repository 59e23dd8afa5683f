// SPDX-License-Identifier: GPL-2.0-or-later
// The kernel and the process take pages away from a region, in every way, while the peer uses it.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <random>
#include <thread>

#include "paging.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace guest::paging {
namespace {

constexpr std::uint32_t kReadWrite = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
constexpr std::uint32_t kSpan = 4 * kPage;

void dont_need(const Env& env) {
  need(env, kReadWrite);
  const Bed bed(env.dev, 64 * kPage);
  for (std::uint64_t i = 0; i < rounds(env, 100); ++i) {
    const std::size_t at = i % 60 * kPage + i;
    bed.write(at, kSpan - 300, i);
    expect_pattern(bed.map.bytes(at, kSpan - 300), i, "what was written");
    bed.map.advise(MADV_DONTNEED);
    // The frames go to somebody else, who must not see the next WRITE.
    const Map canary(64 * kPage);
    fill(canary.bytes(), 1000 + i);
    expect_zeros(bed.read(at, kSpan), "READ after MADV_DONTNEED");
    bed.write(at, kSpan, i + 1);
    expect_pattern(canary.bytes(), 1000 + i, "canary");
  }
}

void free_lazily(const Env& env) {
  need(env, kReadWrite);
  const Bed bed(env.dev, 64 * kPage);
  for (std::uint64_t i = 0; i < 50; ++i) {
    bed.write(0, 64 * kPage, i);
    bed.map.advise(MADV_FREE);
    bed.write(8 * kPage, kSpan, 500 + i);  // a write cancels it
    expect_pattern(bed.map.bytes(8 * kPage, kSpan), 500 + i, "a WRITE after MADV_FREE");
  }
}

void unmapped(const Env& env) {
  need(env, kReadWrite);
  const Bed bed(env.dev, 64 * kPage);
  for (std::uint64_t i = 0; i < rounds(env, 100); ++i) {
    bed.write(0, kSpan, i);
    // Nobody else may get the address.
    const auto map_there = [&](int protection) {
      void* const at = ::mmap(bed.map.at(kPage), 2 * kPage, protection,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      require(at == bed.map.at(kPage), "mmap");
    };
    map_there(PROT_NONE);
    const Map canary(2 * kPage);
    fill(canary.bytes(), 2000 + i);
    map_there(PROT_READ | PROT_WRITE);
    bed.write(0, kSpan, i + 1);
    expect_pattern(bed.map.bytes(0, kSpan), i + 1, "WRITE to new memory at the same address");
    expect_pattern(canary.bytes(), 2000 + i, "canary");
  }
}

void remapped(const Env& env) {
  need(env, kReadWrite);
  const Bed bed(env.dev, 64 * kPage);
  for (std::uint64_t i = 0; i < rounds(env, 100); ++i) {
    bed.write(0, kSpan, i);
    void* const moved =
        ::mremap(bed.map.at(), kSpan, kSpan, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr);
    require(moved != MAP_FAILED, "mremap: {}", errno_name(errno));
    // The address has new memory now; the old data is elsewhere.
    bed.write(0, kSpan, 3000 + i);
    expect_pattern({static_cast<std::byte*>(moved), kSpan}, i, "what mremap moved");
    expect_pattern(bed.map.bytes(0, kSpan), 3000 + i, "what is there now");
    ::munmap(moved, kSpan);
  }
}

void forked(const Env& env) {
  need(env, kReadWrite);
  const Bed bed(env.dev, 64 * kPage);
  for (std::uint64_t i = 0; i < 30; ++i) {
    bed.write(0, kSpan, i);
    int ready[2];
    require(::pipe(ready) == 0, "pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      char c = 0;
      const bool go = ::read(ready[0], &c, 1) == 1;
      ::_exit(go && !mismatch(bed.map.bytes(0, kSpan), i) ? 0 : 1);
    }
    // Each has its copy from here on, whoever writes first.
    if (i % 2 != 0) bed.map.at()[0] = std::byte{1};
    bed.write(0, kSpan, 4000 + i);
    require(::write(ready[1], "x", 1) == 1, "write");
    int status = 0;
    ::waitpid(child, &status, 0);
    ::close(ready[0]);
    ::close(ready[1]);
    require(status == 0, "the child sees what the peer wrote to its parent");
    expect_pattern(bed.map.bytes(0, kSpan), 4000 + i, "the parent");
  }
}

void holes(const Env& env) {
  need(env, kReadWrite);
  const int fd = ::memfd_create("odp", 0);
  require(fd >= 0 && ::ftruncate(fd, 64 * kPage) == 0, "memfd");
  const Bed bed(env.dev, 64 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  std::vector<std::byte> file(kSpan);
  for (std::uint64_t i = 0; i < rounds(env, 100); ++i) {
    const std::size_t at = i % 50 * kPage;
    bed.write(at, kSpan, i);
    require(::pread(fd, file.data(), kSpan, static_cast<off_t>(at)) == kSpan, "pread");
    expect_pattern(file, i, "the file");
    require(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                        kSpan) == 0,
            "fallocate");
    expect_zeros(bed.read(at, kSpan), "a hole");
  }
  ::close(fd);
}

void huge(const Env& env) {
  need(env, kReadWrite);
  constexpr std::size_t kHuge = 2 << 20;
  const Bed bed(env.dev, 4 * kHuge);
  const std::size_t first = (kHuge - bed.map.address() % kHuge) % kHuge;
  bed.map.advise(MADV_HUGEPAGE, first, 2 * kHuge);
  for (std::uint64_t i = 0; i < 20; ++i) {
    bed.write(first + kHuge - kSpan / 2, kSpan, i);
    // Collapses what small pages there are, then splits it.
    (void)::madvise(bed.map.at(first), 2 * kHuge, MADV_COLLAPSE);
    expect_pattern(bed.read(first + kHuge - kSpan / 2, kSpan), i, "READ after a collapse");
    bed.map.advise(MADV_DONTNEED, first + kHuge + 8 * kPage, kPage);
    bed.write(first + kHuge + 7 * kPage, kSpan, 5000 + i);
    expect_pattern(bed.map.bytes(first + kHuge + 7 * kPage, kSpan), 5000 + i,
                   "WRITE after a split");
    expect_pattern(bed.map.bytes(first + kHuge - kSpan / 2, kSpan), i, "beside it");
    bed.map.advise(MADV_DONTNEED, first, 2 * kHuge);
  }
}

// Random changes by one thread, random accesses by the peer: every page has its own owner's data.
void storm(const Env& env) {
  need(env, kReadWrite);
  constexpr std::size_t kPages = 256;
  const Bed bed(env.dev, kPages * kPage);
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> moves = 0;
  std::jthread mover([&] {
    std::mt19937 random(5);
    // Without effect on the data: the pages move, or become read-only for a moment.
    while (!stop) {
      const std::size_t at = random() % kPages * kPage;
      const std::size_t n = std::min<std::size_t>(random() % 16 + 1, kPages - at / kPage) * kPage;
      switch (random() % 3) {
        case 0:
          bed.map.advise(MADV_PAGEOUT, at, n);
          break;
        case 1:
          bed.map.advise(MADV_COLD, at, n);
          break;
        default: {
          const pid_t child = ::fork();
          if (child == 0) ::_exit(0);
          ::waitpid(child, nullptr, 0);
        }
      }
      ++moves;
    }
  });
  try {
    std::mt19937 random(6);
    std::vector<std::uint64_t> seeds(kPages);
    bed.write(0, kPages * kPage, 0);
    for (std::size_t p = 0; p < kPages; ++p) bed.write(p * kPage, kPage, seeds[p] = p);
    for (unsigned i = 0; i < rounds(env, 300) || moves <= 10; ++i) {
      const std::size_t p = random() % kPages;
      if (random() % 2) bed.write(p * kPage, kPage, seeds[p] = random());
      expect_pattern(bed.read(p * kPage, kPage), seeds[p], "a page");
    }
    for (std::size_t p = 0; p < kPages; ++p)
      expect_pattern(bed.map.bytes(p * kPage, kPage), seeds[p], "a page at the end");
  } catch (...) {
    stop = true;
    throw;
  }
  stop = true;
}

// A region of the address space, of which 64 GiB are mapped on a machine with far less memory.
void implicit(const Env& env) {
  need(env, kReadWrite);
  if ((env.dev.attr_ex().odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) == 0) {
    skip("no IBV_ODP_SUPPORT_IMPLICIT");
  }
  constexpr std::size_t kBig = std::size_t{64} << 30;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const room = ::mmap(nullptr, kBig, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (room == MAP_FAILED) skip("64 GiB cannot be mapped here: {}", errno_name(errno));
  ::munmap(room, kBig);
  const Map big(kBig, PROT_READ | PROT_WRITE, kFlags);
  const Map plain(16 * kPage);
  big.advise(MADV_NOHUGEPAGE);  // 2 MiB a page would not fit
  const MrPtr all = all_memory(env);
  const Loop pair(env.dev);
  std::mt19937_64 random(7);
  std::vector<std::size_t> at(rounds(env, 400) + 100);
  for (std::size_t i = 0; i < at.size(); ++i) {
    at[i] = random() % (kBig / kSpan) * kSpan;
    fill(plain.bytes(0, kSpan - 8), i);
    pair.must(
        write_from(sge(all.get(), plain.address(), kSpan - 8), big.address(at[i] + 8), all->rkey),
        "WRITE");
    if (i % 200 == 199) big.advise(MADV_DONTNEED, at[i / 2], kPage);
  }
  for (std::size_t i = at.size() - 100; i < at.size() - 1; ++i) {
    pair.must(
        read_into(sge(all.get(), plain.address(), kSpan - 8), big.address(at[i] + 8), all->rkey),
        "READ");
    expect_pattern(plain.bytes(0, kSpan - 8), i, "READ");
  }
  // An address that is not mapped, and one that no process has.
  for (const std::uint64_t bad :
       {std::uint64_t{4096}, std::uint64_t{0xffff800000000000}, UINT64_MAX - 8}) {
    const Loop other(env.dev);
    const auto status = other.run(write_from(sge(all.get(), plain.address(), 8), bad, all->rkey));
    require(status != IBV_WC_SUCCESS, "WRITE to {:#x} succeeds", bad);
    require_usual(status == IBV_WC_REM_ACCESS_ERR, "WRITE to memory that is not there: {}",
                  ibv_wc_status_str(status));
  }
  pair.must(write_from(sge(all.get(), plain.address(), 8), big.address(), all->rkey),
            "WRITE after an error elsewhere");
}

}  // namespace

Rules moves() {
  return {
      {"dont-need", "after MADV_DONTNEED a region has new pages, and the old ones are left alone",
       dont_need},
      {"free", "a WRITE cancels MADV_FREE", free_lazily},
      {"unmap", "memory that is unmapped and mapped again serves its region", unmapped},
      {"remap", "mremap takes pages away from a region, which gets new ones", remapped},
      {"fork", "after a fork a WRITE reaches the parent only", forked},
      {"holes", "holes that are punched in a file read as zeros", holes},
      {"huge", "huge pages are built and split below a region", huge},
      {"storm", "every page keeps its bytes while the memory moves at random", storm},
      {"implicit", "a region of the address space reaches what is mapped", implicit},
  };
}

}  // namespace guest::paging
