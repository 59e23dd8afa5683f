// SPDX-License-Identifier: GPL-2.0-or-later
// Metrics for Prometheus.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "parts.h"

namespace tern::daemon {

// Counters of adapters, with the names that mlx5 gives them, and of ports.
class Metrics final : public prometheus::Collectable {
 public:
  explicit Metrics(const Parts& parts) : parts_(parts) {}
  // Any thread. Omits adapters that do not answer in time.
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Parts& parts_;
};

}  // namespace tern::daemon
