// SPDX-License-Identifier: GPL-2.0-or-later
// Random frames that match a flow, or miss it narrowly.
#pragma once

#include <span>

#include "flow.h"
#include "frames/sample_frames.h"

namespace guest::steering {

[[nodiscard]] tern::frames::Bytes draw_frame(std::span<const Flow> flows, const Values& values,
                                             Random& random);

}  // namespace guest::steering
