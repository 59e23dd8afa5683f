// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of completion queues, by subject.
#pragma once

#include "rig.h"
#include "rule.h"

namespace guest::queues {

constexpr int kSoon = 20000;  // ms; an expected event must arrive within this time
constexpr int kNever = 150;   // ms; no event may arrive within this time
constexpr std::uint32_t kDepth = EndSpec{}.send_wr;  // requests outstanding at most

Rules resize();
Rules moderation();
Rules fields();
Rules channels();
Rules all();

}  // namespace guest::queues
