// SPDX-License-Identifier: GPL-2.0-or-later
// Shared memory in which a victim records its progress; it outlives the victim.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "walk.h"

namespace guest::killer {

// What a victim has when it is killed, besides the goals of a walk.
enum VictimGoal : std::size_t { kBound = kWalkGoals, kFork, kGoals };

struct Kind {
  std::size_t goal;
  const char* name;
};

constexpr Kind kKinds[] = {{kContext, "context"},
                           {kPd, "pd"},
                           {kMr, "mr"},
                           {kChannel, "channel"},
                           {kCq, "cq"},
                           {kRc, "rc-qp"},
                           {kUc, "uc-qp"},
                           {kUd, "ud-qp"},
                           {kXrcSend, "xrc-send"},
                           {kXrcTarget, "xrc-recv"},
                           {kOpenedQp, "open-qp"},
                           {kSrq, "srq"},
                           {kXrcSrq, "xrc-srq"},
                           {kXrcd, "xrcd"},
                           {kAh, "ah"},
                           {kMcast, "mcast"},
                           {kMw, "mw"},
                           {kBound, "bound-mw"},
                           {kDm, "dm"},
                           {kDmMr, "dm-mr"},
                           {kRereg, "rereg"},
                           {kConnected, "connected"},
                           {kPosted, "traffic"},
                           {kFork, "fork"}};

// One process. Only the process itself writes here.
struct Role {
  std::atomic<std::uint32_t> verbs;  // called so far
  std::atomic<const char*> last;     // the last of them, a literal
  std::array<std::atomic<std::uint32_t>, kGoals> live;
  std::array<std::atomic<std::uint32_t>, kGoals> missing;  // 1: the device does not support it
};

struct Shared {
  std::array<Role, 2> role;
  WalkShared walk;
};

}  // namespace guest::killer
