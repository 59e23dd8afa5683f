// SPDX-License-Identifier: GPL-2.0-or-later
// Random frames that match a flow, or miss it narrowly.
#pragma once

#include <span>

#include "eth/sample_frames.h"
#include "flow.h"

namespace guest::steering {

[[nodiscard]] tern::eth::Bytes draw_frame(std::span<const Flow> flows, const Values& values,
                                          Random& random);

}  // namespace guest::steering
