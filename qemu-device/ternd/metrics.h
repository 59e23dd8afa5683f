// SPDX-License-Identifier: GPL-2.0-or-later
// Metrics for Prometheus.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <deque>
#include <vector>

#include "adapter.h"
#include "uplink.h"

namespace tern::daemon {

// Counters of adapters, with the names that mlx5 gives them, and of ports.
class Metrics final : public prometheus::Collectable {
 public:
  Metrics(std::deque<Adapter>& adapters, std::deque<Uplink>& uplinks) : adapters_(adapters), uplinks_(uplinks) {}
  // Any thread. An adapter that does not answer is left out.
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  std::deque<Adapter>& adapters_;
  std::deque<Uplink>& uplinks_;
};

}  // namespace tern::daemon
