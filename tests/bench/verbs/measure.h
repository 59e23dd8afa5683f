// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "end.h"
#include "result.h"

namespace guest::bench {

// Between two ends: latency, bandwidth, messages a second.
void measure_messages(const Device& dev, Peer& peer, const Scene& scene);
// Of one device alone: registration, windows, device memory.
void measure_memory(const Device& dev, const Scene& scene);
// What bounds them: the library without a device behind it, and copies by the guest's processor.
void measure_limits(const Device& dev, const Scene& scene);

}  // namespace guest::bench
