// SPDX-License-Identifier: GPL-2.0-or-later
// What the processes did, counted in memory that outlives them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "walk.h"

namespace guest::uverbsfuzz {

// What must be reached, besides the goals of a walk.
enum FuzzGoal : std::size_t {
  kDmabufMr = kWalkGoals,
  kRaw,
  kWq,
  kRssTable,
  kRssQp,
  kFlow,
  kCounters,
  kModify,
  kSport,
  kQueryKey,
  kMapOp,
  kMmap,
  kUnmapQueue,
  kScribble,
  kDoorbell,
  kMemory,
  kIoctl,
  kDriverIoctl,
  kWrite,
  kWriteEx,
  kFreshFile,
  kFork,
  kCloseFile,
  kGoals
};

constexpr std::array<std::string_view, kGoals> kGoalNames = {
    "context",    "pd",        "mr",           "odp-mr", "dm",          "dm-mr",      "channel",
    "cq",         "srq",       "xrc-srq",      "rc-qp",  "uc-qp",       "ud-qp",      "xrc-send",
    "xrc-target", "opened-qp", "xrcd",         "ah",     "mcast",       "mw",         "connected",
    "posted",     "completed", "query",        "resize", "rereg",       "destroy",    "dmabuf-mr",
    "raw-qp",     "wq",        "rss-table",    "rss-qp", "flow",        "counters",   "modify",
    "sport",      "query-key", "map-op",       "mmap",   "unmap-queue", "scribble",   "doorbell",
    "memory",     "ioctl",     "driver-ioctl", "write",  "write-ex",    "fresh-file", "fork",
    "close-file"};

// Goals that need CAP_NET_RAW, or to open /dev/udmabuf.
constexpr bool needs_root(std::size_t goal) {
  return goal == kDmabufMr || goal == kRaw || goal == kRssQp || goal == kFlow;
}

struct Tally {
  std::array<std::atomic<std::uint64_t>, kGoals> reached;
  std::atomic<std::uint64_t> calls;          // that entered the kernel
  std::atomic<std::uint64_t> refused_opens;  // contexts that the kernel refused
  std::atomic<std::uint64_t> trace;          // digest of the last life that kept one
  std::atomic<std::uint64_t> traced;         // calls in it
  std::atomic<std::uint64_t> disturbed;      // disturbances that ended well
  WalkShared walk;
  std::atomic<std::uint32_t> stop;  // the disturbances have to end
};

}  // namespace guest::uverbsfuzz
