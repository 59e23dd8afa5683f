// SPDX-License-Identifier: GPL-2.0-or-later
#include "share.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <stdexcept>
#include <string>

#include "adapter_config.h"
#include "core/limits.h"

namespace tern::daemon {

namespace {

// Limit of regions of one adapter: as many as Linux's type 1 IOMMU driver allows.
constexpr std::uint64_t kMostRegions = 65535;
// A machine without a vIOMMU has about ten.
constexpr std::uint64_t kLeastRegions = 32;
// The process's own mappings: libraries, and the heaps and stacks of its other threads.
constexpr std::uint64_t kOwnMappings = 1024;
// Mappings of a lane: its thread's stack and heap, its queue.
constexpr std::uint64_t kMappingsOfLane = 6;
// Mappings of an adapter without regions: lanes, engine, device memory.
constexpr std::uint64_t kMappingsEach = 58 + kMaxLanes * kMappingsOfLane;
// The process's own descriptors: control clients, metrics, uplinks.
constexpr std::uint64_t kOwnDescriptors = 256;
// Descriptors of an adapter without regions: interrupts (128 vectors, error, request), those of one
// message, sockets, files, three for each lane.
constexpr std::uint64_t kDescriptorsEach = 157 + 3 * kMaxLanes;

// Half of the addresses of a process: regions may be far larger than the memory behind them.
constexpr std::size_t kAddresses = std::size_t{64} << 40;

// Bytes of an object with its lists, rounded up.
constexpr std::uint64_t kQp = 1280;
constexpr std::uint64_t kCq = 512;
constexpr std::uint64_t kKey = 192;
constexpr std::uint64_t kDomain = 160;  // for protection or XRC
constexpr std::uint64_t kSrq = 640;
constexpr std::uint64_t kDmPart = 128;
constexpr std::uint64_t kUarPage = 96;  // in each lane
constexpr std::uint64_t kMember = 80;   // of a multicast group
constexpr std::uint64_t kCounterSet = 704;
constexpr std::uint64_t kCompCounter = 192;
constexpr std::uint64_t kFlow = 512;
constexpr std::uint64_t kFlowCounter = 64;
constexpr std::uint64_t kPageEntry = 8;
// Bytes of a page of BAR2, and of the smallest part of BAR4.
constexpr std::uint64_t kPage = 4096;
// All objects whose number is the same for every adapter.
constexpr std::uint64_t kOthers = kMaxPd * kDomain + kMaxXrcd * kDomain + kMaxSrq * kSrq +
                                  kMaxMcastGroups * kMaxMcastQps * kMember +
                                  kMaxCounterSets * kCounterSet + kMaxCompCounters * kCompCounter +
                                  kMaxFlows * kFlow + kMaxFlowCounters * kFlowCounter;
// Tables that do not depend on properties.
constexpr std::uint64_t kBase = std::uint64_t{4} << 20;
// A lane's queue and frames in flight.
constexpr std::uint64_t kLane = std::uint64_t{20} << 20;
// The fewest page list entries worth having: 1 GiB of memory regions.
constexpr std::uint64_t kLeastPages = std::uint64_t{256} << 10;

std::uint64_t number_in(const std::string& path, std::uint64_t otherwise) {
  std::uint64_t value = 0;
  return std::ifstream(path) >> value ? value : otherwise;
}

// Returns the memory limit of the control group of this process, or a lower one of a group above
// it. In version 2 "max" means no limit.
std::uint64_t group_limit() {
  std::uint64_t least = number_in("/sys/fs/cgroup/memory.max", UINT64_MAX);
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string group = line.substr(3); group.size() > 1; group.erase(group.rfind('/'))) {
      least = std::min(least, number_in("/sys/fs/cgroup" + group + "/memory.max", UINT64_MAX));
    }
  }
  return least;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

HostLimits HostLimits::read() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_max = 1024;
  const std::uint64_t host = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {.mappings = number_in("/proc/sys/vm/max_map_count", 65530),
          .descriptors = files.rlim_max,
          .memory = std::min(host, group_limit()) / 4 * 3};
}

Share divide(const HostLimits& host, unsigned places) {
  const auto part = [places](std::uint64_t all, std::uint64_t own, std::uint64_t each) {
    const std::uint64_t left = all > own ? (all - own) / places : 0;
    return left > each ? left - each : 0;
  };
  const std::uint64_t mappings = part(host.mappings, kOwnMappings, kMappingsEach);
  const std::uint64_t descriptors = part(host.descriptors, kOwnDescriptors, kDescriptorsEach);
  if (mappings < kLeastRegions)
    throw std::runtime_error("vm.max_map_count is too low for " + std::to_string(places) +
                             " adapters");
  if (descriptors < kLeastRegions) {
    throw std::runtime_error("the limit of open files (" + std::to_string(host.descriptors) +
                             ") is too low for " + std::to_string(places) + " adapters");
  }
  return {.regions = std::min({mappings, descriptors, kMostRegions}),
          .mapped = kAddresses / places,
          .memory = host.memory / places};
}

void limit_pages(AdapterConfig& config, const Share& share) {
  Config& c = config.engine;
  const std::uint64_t dm = c.dm_size == 0 ? 0 : std::bit_ceil(c.dm_size);
  const std::uint64_t pages = c.uar_bar_size / kPage;
  const std::uint64_t parts = std::min<std::uint64_t>(dm / kPage, kMaxDm);
  const std::uint64_t objects = c.max_qp * kQp + c.max_cq * kCq +
                                (std::uint64_t{c.max_mr} + c.max_mw) * kKey +
                                c.lanes * pages * kUarPage + parts * kDmPart + kOthers;
  const std::uint64_t fixed = kBase + c.lanes * kLane + dm + objects;
  if (share.memory < fixed + kLeastPages * kPageEntry) {
    throw std::invalid_argument(config.path + ": may take " + mebibytes(fixed) +
                                " besides page lists, and its share of the memory is " +
                                mebibytes(share.memory) +
                                ": allow more with --memory or fewer with --max-adapters, or lower "
                                "max-qp, max-mr, max-mw or dm-size");
  }
  c.max_pages = std::min(c.max_pages, (share.memory - fixed) / kPageEntry);
}

}  // namespace tern::daemon
