// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "end.h"
#include "result.h"

namespace guest::bench {

// Between two ends: latency, bandwidth, message rate.
void measure_messages(const Device& dev, Peer& peer, const Scene& scene);
// One device alone: registration, windows, device memory.
void measure_memory(const Device& dev, const Scene& scene);
// Registration and deregistration with these rights, as figures "register" and "deregister" with a
// suffix.
void measure_registration(const Device& dev, const Scene& scene, int access,
                          const std::string& suffix);
// Regions on demand beside pinned ones; nothing if the device has none.
void measure_on_demand(const Device& dev, const Scene& scene);
// Limits: the library without a device, and copies by the guest's processor.
void measure_limits(const Device& dev, const Scene& scene);

}  // namespace guest::bench
