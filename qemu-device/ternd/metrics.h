// SPDX-License-Identifier: GPL-2.0-or-later
// Metrics for Prometheus.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "parts.h"

namespace tern::daemon {

// Counters of adapters, with the names that mlx5 gives them, and of ports.
class Metrics final : public prometheus::Collectable {
 public:
  // Time for which an answer is given again, in ns: anybody may ask, and each adapter stops its
  // lanes to answer.
  static constexpr std::uint64_t kKeep = 1'000'000'000;

  explicit Metrics(const Parts& parts, std::uint64_t keep = kKeep) : parts_(parts), keep_(keep) {}
  // Any thread. Omits adapters that do not answer in time.
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  [[nodiscard]] std::vector<prometheus::MetricFamily> collect() const;

  const Parts& parts_;
  const std::uint64_t keep_;
  mutable std::mutex mutex_;  // held while adapters answer
  mutable std::vector<prometheus::MetricFamily> collected_;
  mutable std::uint64_t collected_at_ = 0;
};

}  // namespace tern::daemon
