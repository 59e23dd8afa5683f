// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

namespace tern::daemon {

inline constexpr const char kVersion[] = "1.0";

}  // namespace tern::daemon
