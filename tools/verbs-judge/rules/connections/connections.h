// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of reliable connections, by subject.
#pragma once

#include "rule.h"

namespace guest::connections {

Rules data();
Rules queue();
Rules local_error();
Rules remote_error();
Rules state();
Rules event();
Rules flush();
Rules all();

}  // namespace guest::connections
