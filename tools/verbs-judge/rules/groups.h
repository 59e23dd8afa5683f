// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <span>

#include "rule.h"

namespace guest {

std::span<const Group> groups();

}  // namespace guest
