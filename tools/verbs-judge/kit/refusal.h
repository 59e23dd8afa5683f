// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that are not valid. Providers check little when a request is posted; what they let pass
// may fail later.
#pragma once

#include "pair.h"

namespace guest {

// What an accepted request may do: only fail or vanish, or also work, as if it were valid.
enum class IfAccepted { kMustFail, kMayWork };

// Posts three requests of which the second is wrong; it uses the first 4096 bytes of both ends. If
// it is refused, as a rule with this errno, ibv_post_send() executes only the first, and ibv_wr_*()
// none. A device may accept it, which is its choice; the pair cannot be used afterwards.
void check_refusal(const Pair& pair, Api api, const Send& wrong, int usual, IfAccepted then);

}  // namespace guest
