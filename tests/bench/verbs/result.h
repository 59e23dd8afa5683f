// SPDX-License-Identifier: GPL-2.0-or-later
// What a measurement says: one line of JSON each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace guest::bench {

// Where it was measured; part of each line.
struct Scene {
  std::string device;  // tern0, rxe0
  std::string path;    // loop, across
  double seconds = 0.4;
  std::string only;  // a figure, as WHAT/SIZE; empty: all

  [[nodiscard]] bool wants(const std::string& what, std::uint64_t size) const {
    return only.empty() || only == what + "/" + std::to_string(size);
  }
};

void report(const Scene& scene, const std::string& what, std::uint64_t size, double value, const char* unit);
// Median and 99th percentile of times in ticks, as microseconds divided by `parts`.
void report_times(const Scene& scene, const std::string& what, std::uint64_t size, std::vector<std::uint64_t> times,
                  double parts);

}  // namespace guest::bench
