// SPDX-License-Identifier: GPL-2.0-or-later
// Reduces a program that fails, as long as it fails in the same way.
#pragma once

#include <functional>

#include "steps.h"

namespace guest::generator {

// `fails` runs a program and returns whether it fails in the way that matters.
Steps shrink(Steps steps, const std::function<bool(const Steps&)>& fails);

}  // namespace guest::generator
