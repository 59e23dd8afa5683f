// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of a device, by subject.
#pragma once

#include "rule.h"

namespace guest::device {

// Lists, attributes, ports, GIDs, P_Keys.
Rules query();
// What a device claims is there; what it does not claim is refused.
Rules claims();
// Limits are reached and not exceeded.
Rules limits();
Rules all();

}  // namespace guest::device
