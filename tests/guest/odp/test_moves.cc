// SPDX-License-Identifier: GPL-2.0-or-later
// The kernel moves pages of a region: compaction, swap, NUMA nodes. These need root. What a process
// can do by itself is verbs-judge's.
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "paging.h"

namespace guest {
namespace {

constexpr std::uint32_t kSpan = 4 * kPage;

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
  return tests_of(dev, {{"compaction", compacted}});
}

std::vector<Test> swap_tests(const Device& dev) { return tests_of(dev, {{"swap", swapped}}); }

std::vector<Test> node_tests(const Device& dev) {
  return tests_of(dev, {{"move-pages", moved_by_request}, {"numa-balancing", balanced}});
}

}  // namespace guest
