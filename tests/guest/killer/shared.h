// SPDX-License-Identifier: GPL-2.0-or-later
// Shared memory in which a victim records its progress; it outlives the victim.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "random.h"

namespace guest::killer {

enum Kind : std::size_t {
  kContext,
  kPd,
  kMr,
  kChannel,
  kCq,
  kRc,
  kUc,
  kUd,
  kXrcSend,
  kXrcRecv,
  kOpenedQp,
  kSrq,
  kXrcSrq,
  kXrcd,
  kAh,
  kMcast,
  kMw,
  kBound,
  kDm,
  kDmMr,
  kRereg,
  kConnected,
  kTraffic,
  kFork,
  kKinds
};

constexpr std::array<const char*, kKinds> kKindNames = {
    "context",  "pd",       "mr",      "channel", "cq",      "rc-qp",     "uc-qp",   "ud-qp",
    "xrc-send", "xrc-recv", "open-qp", "srq",     "xrc-srq", "xrcd",      "ah",      "mcast",
    "mw",       "bound-mw", "dm",      "dm-mr",   "rereg",   "connected", "traffic", "fork"};

// One process. Only the process itself writes here.
struct Role {
  std::atomic<std::uint32_t> verbs;  // called so far
  std::atomic<const char*> last;     // the last of them, a literal
  std::array<std::atomic<std::uint32_t>, kKinds> live;
  std::array<std::atomic<std::uint32_t>, kKinds> missing;  // 1: the device does not support it
};

struct Shared {
  std::array<Role, 2> role;
  std::atomic<std::uint32_t> target_qpn;  // an XRC target of the first process, or 0
  std::atomic<std::uint32_t> srqn;        // an XRC SRQ of either process, or 0
};

}  // namespace guest::killer
