// SPDX-License-Identifier: GPL-2.0-or-later
// Results of measurements, one line of JSON each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace guest::bench {

// Where a figure was measured, as part of its line.
struct Scene {
  std::string device;  // tern0, rxe0
  std::string path;    // loop, across
  double seconds = 0.4;
  std::string only;  // only this figure, as WHAT/SIZE; empty: all

  [[nodiscard]] bool wants(const std::string& what, std::uint64_t size) const {
    return only.empty() || only == what + "/" + std::to_string(size);
  }
};

void report(const Scene& scene, const std::string& what, std::uint64_t size, double value,
            const char* unit);
// Reports median and 99th percentile of times in ticks, converted to microseconds and divided by
// `parts`.
void report_times(const Scene& scene, const std::string& what, std::uint64_t size,
                  std::vector<std::uint64_t> times, double parts);

}  // namespace guest::bench
