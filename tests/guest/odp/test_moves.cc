// SPDX-License-Identifier: GPL-2.0-or-later
// The kernel and the process take pages away from a region, in every way, while the peer uses it.
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "paging.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace guest {
namespace {

// A region whose memory moves, and pinned memory to access it from.
struct Bed {
  Bed(const Device& dev, std::size_t length, int protection = PROT_READ | PROT_WRITE,
      int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1)
      : pair(dev),
        map(length, protection, flags, fd),
        plain(1 << 20),
        mr(reg(dev, map)),
        local(reg(dev, plain, kAllAccess)) {}
  // RDMA writes a pattern, or reads into `plain` and compares.
  void write(std::size_t offset, std::uint32_t n, std::uint64_t seed) {
    fill(plain.bytes(0, n), seed);
    pair.must(write_from(sge(local.get(), plain.address(), n), map.address(offset), mr->rkey),
              "WRITE");
  }
  std::span<std::byte> read(std::size_t offset, std::uint32_t n) {
    std::ranges::fill(plain.bytes(0, n), std::byte{0xee});
    pair.must(read_into(sge(local.get(), plain.address(), n), map.address(offset), mr->rkey),
              "READ");
    return plain.bytes(0, n);
  }
  Loop pair;
  Map map, plain;
  MrPtr mr, local;
};

constexpr std::uint32_t kSpan = 4 * kPage;

void dont_need(const Device& dev) {
  Bed bed(dev, 64 * kPage);
  for (std::uint64_t i = 0; i < 200; ++i) {
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

void free_lazily(const Device& dev) {
  Bed bed(dev, 64 * kPage);
  for (std::uint64_t i = 0; i < 50; ++i) {
    bed.write(0, 64 * kPage, i);
    bed.map.advise(MADV_FREE);
    bed.write(8 * kPage, kSpan, 500 + i);  // a write cancels it
    expect_pattern(bed.map.bytes(8 * kPage, kSpan), 500 + i, "a WRITE after MADV_FREE");
  }
}

void unmapped(const Device& dev) {
  Bed bed(dev, 64 * kPage);
  for (std::uint64_t i = 0; i < 100; ++i) {
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

void remapped(const Device& dev) {
  Bed bed(dev, 64 * kPage);
  for (std::uint64_t i = 0; i < 100; ++i) {
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

void forked(const Device& dev) {
  Bed bed(dev, 64 * kPage);
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

void holes(const Device& dev) {
  const int fd = ::memfd_create("odp", 0);
  require(fd >= 0 && ::ftruncate(fd, 64 * kPage) == 0, "memfd");
  Bed bed(dev, 64 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  std::vector<std::byte> file(kSpan);
  for (std::uint64_t i = 0; i < 100; ++i) {
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

void huge(const Device& dev) {
  constexpr std::size_t kHuge = 2 << 20;
  Bed bed(dev, 4 * kHuge);
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

void compacted(const Device& dev) {
  Bed bed(dev, 2048 * kPage);
  std::atomic<bool> stop = false;
  // Leaves gaps in memory, so that there is something to compact.
  std::jthread mess([&] {
    while (!stop) {
      const Map scrap(4096 * kPage);
      for (std::size_t p = 0; p < 4096; ++p) *scrap.at(p * kPage) = std::byte{1};
      for (std::size_t p = 0; p < 4096; p += 2) scrap.advise(MADV_DONTNEED, p * kPage, kPage);
      put("/proc/sys/vm/compact_memory", "1");
    }
  });
  try {
    for (std::uint64_t i = 0; i < 60; ++i) {
      const std::size_t at = i % 8 * 255 * kPage;
      bed.write(at, 255 * kPage, i);
      expect_pattern(bed.read(at, 255 * kPage), i, "during compaction");
    }
  } catch (...) {
    stop = true;
    throw;
  }
  stop = true;
}

// Random changes by one thread, random accesses by the peer: every page has its own owner's data.
void storm(const Device& dev) {
  constexpr std::size_t kPages = 256;
  Bed bed(dev, kPages * kPage);
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
    for (unsigned i = 0; i < 1000; ++i) {
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
  require(moves > 10, "the memory hardly moved: {}", moves.load());
}

// A region of the address space, of which 64 GiB are mapped on a machine with far less memory.
void implicit(const Device& dev) {
  constexpr std::size_t kBig = std::size_t{64} << 30;
  const Map big(kBig, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  const Map plain(16 * kPage);
  big.advise(MADV_NOHUGEPAGE);  // 2 MiB a page would not fit
  const MrPtr all = reg_all(dev);
  Loop pair(dev);
  std::mt19937_64 random(7);
  std::vector<std::size_t> at(1000);
  for (std::size_t i = 0; i < at.size(); ++i) {
    at[i] = random() % (kBig / kSpan) * kSpan;
    fill(plain.bytes(0, kSpan - 8), i);
    pair.must(
        write_from(sge(all.get(), plain.address(), kSpan - 8), big.address(at[i] + 8), all->rkey),
        "WRITE");
    if (i % 500 == 499) big.advise(MADV_DONTNEED, at[i / 2], kPage);
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
    Loop other(dev);
    const auto status = other.run(write_from(sge(all.get(), plain.address(), 8), bad, all->rkey));
    require(status == IBV_WC_REM_ACCESS_ERR, "WRITE to {:#x}: {}", bad, ibv_wc_status_str(status));
  }
  pair.must(write_from(sge(all.get(), plain.address(), 8), big.address(), all->rkey),
            "WRITE after an error elsewhere");
}

// Memory beyond a cgroup's limit goes to a swap device in compressed memory and comes back.
void swapped(const Device& dev) {
  constexpr std::size_t kRegion = 40 << 20, kChunk = 1 << 18;
  if (::system("modprobe zram num_devices=1 2>/dev/null; [ -e /sys/block/zram0/disksize ]") != 0)
    fail("there is no zram");
  if (get("/sys/block/zram0/disksize") == "0") {
    put("/sys/block/zram0/disksize", "256M");
    require(::system("mkswap /dev/zram0 >/dev/null && swapon /dev/zram0") == 0, "swapon");
  }
  const std::string group = "/sys/fs/cgroup/odp";
  if (::system("mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup") != 0)
    fail("there is no cgroup2");
  put("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
  std::filesystem::create_directory(group);
  put(group + "/memory.max", std::to_string(16 << 20));
  const std::string back = "/sys/fs/cgroup/cgroup.procs";
  put(group + "/cgroup.procs", std::to_string(::getpid()));
  std::string why;
  try {
    Bed bed(dev, kRegion);
    for (std::size_t at = 0; at < kRegion; at += kChunk) bed.write(at, kChunk, at);
    for (std::size_t at = 0; at < kRegion; at += kChunk)
      expect_pattern(bed.read(at, kChunk), at, "READ from swap");
    std::ifstream stat(group + "/memory.stat");
    const std::string current = get(group + "/memory.swap.peak");
    require(current.empty() || std::stoull(current) > (16U << 20), "only {} bytes were swapped",
            current);
  } catch (const std::exception& e) {
    why = e.what();
  }
  put(back, std::to_string(::getpid()));
  ::rmdir(group.c_str());
  require(::system("swapoff /dev/zram0 && echo 1 >/sys/block/zram0/reset") == 0, "swapoff");
  require(why.empty(), "{}", why);
}

// Moves the pages of a map to a node; returns how many are there now.
std::size_t move_to_node(const Map& map, int node) {
  const std::size_t n = map.length() / kPage;
  std::vector<void*> pages(n);
  for (std::size_t p = 0; p < n; ++p) pages[p] = map.at(p * kPage);
  const std::vector<int> nodes(n, node);
  std::vector<int> status(n, -1);
  require(
      ::syscall(SYS_move_pages, 0, n, pages.data(), nodes.data(), status.data(), MPOL_MF_MOVE) >= 0,
      "move_pages: {}", errno_name(errno));
  return static_cast<std::size_t>(std::ranges::count(status, node));
}

void moved_by_request(const Device& dev) {
  constexpr std::uint32_t kLen = 256 * kPage;
  Bed bed(dev, kLen);
  bed.map.advise(MADV_NOHUGEPAGE);
  std::size_t moved = 0;
  for (int i = 0; i < 40; ++i) {
    bed.write(0, kLen, static_cast<std::uint64_t>(i));
    moved += move_to_node(bed.map, i % 2);
    expect_pattern(bed.read(0, kLen), static_cast<std::uint64_t>(i),
                   "READ after the pages have moved");
    bed.write(kPage, kSpan, static_cast<std::uint64_t>(100 + i));
    expect_pattern(bed.map.bytes(kPage, kSpan), static_cast<std::uint64_t>(100 + i),
                   "WRITE after the pages have moved");
  }
  require(moved > std::size_t{20} * 256, "only {} pages have moved", moved);
}

std::uint64_t vmstat(const std::string& name) {
  std::ifstream in("/proc/vmstat");
  std::string key;
  for (std::uint64_t value = 0; in >> key >> value;) {
    if (key == name) return value;
  }
  fail("/proc/vmstat has no {}", name);
}

// The kernel moves pages to the node of the processor that uses them, and takes them from the
// region twice: to see who uses them, and to move them.
void balanced(const Device& dev) {
  constexpr std::uint32_t kLen = 256 * kPage;
  const std::string knobs = "/sys/kernel/debug/sched/numa_balancing/";
  put(knobs + "scan_delay_ms", "10");
  put(knobs + "scan_period_min_ms", "20");
  put("/proc/sys/kernel/numa_balancing", "1");
  Bed bed(dev, kLen);
  bed.map.advise(MADV_NOHUGEPAGE);
  const std::uint64_t before = vmstat("numa_pages_migrated");
  const std::uint64_t faults = counter(dev, "page_faults");
  std::atomic<bool> stop = false;
  std::atomic<unsigned> node = 0;
  std::jthread user([&] {
    std::uint64_t sum = 0;
    while (!stop) {
      cpu_set_t cpus;
      CPU_ZERO(&cpus);
      CPU_SET(node, &cpus);  // processor N is node N's
      ::sched_setaffinity(0, sizeof(cpus), &cpus);
      for (unsigned n = 0; n < 1000 && !stop; ++n) {
        for (std::size_t p = 0; p < kLen / kPage; ++p) {
          sum +=
              static_cast<std::uint64_t>(*const_cast<volatile std::byte*>(bed.map.at(p * kPage)));
        }
      }
    }
    (void)sum;
  });
  std::string why;
  try {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    std::uint64_t i = 0;
    // Other processes' pages move, too.
    while (vmstat("numa_pages_migrated") < before + 300 ||
           counter(dev, "page_faults") < faults + 20) {
      require(std::chrono::steady_clock::now() < end, "{} pages moved, {} faults",
              vmstat("numa_pages_migrated") - before, counter(dev, "page_faults") - faults);
      node = static_cast<unsigned>(++i / 8 % 2);
      bed.write(0, kLen, i);
      expect_pattern(bed.read(0, kLen), i, "READ while pages move");
    }
    expect_pattern(bed.map.bytes(0, kLen), i, "the memory");
  } catch (const std::exception& e) {
    why = e.what();
  }
  stop = true;
  require(why.empty(), "{}", why);
}

}  // namespace

std::vector<Test> move_tests(const Device& dev) {
  return tests_of(dev, {{"dont-need", dont_need},
                        {"free", free_lazily},
                        {"unmap", unmapped},
                        {"remap", remapped},
                        {"fork", forked},
                        {"holes", holes},
                        {"huge", huge},
                        {"compaction", compacted},
                        {"storm", storm},
                        {"implicit", implicit}});
}

std::vector<Test> swap_tests(const Device& dev) { return tests_of(dev, {{"swap", swapped}}); }

std::vector<Test> node_tests(const Device& dev) {
  return tests_of(dev, {{"move-pages", moved_by_request}, {"numa-balancing", balanced}});
}

}  // namespace guest
