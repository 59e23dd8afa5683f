// SPDX-License-Identifier: GPL-2.0-or-later
#include "result.h"

#include <algorithm>
#include <cstdio>

#include "clock.h"

namespace guest::bench {

void report(const Scene& scene, const std::string& what, std::uint64_t size, double value,
            const char* unit) {
  std::printf(
      "{\"device\": \"%s\", \"path\": \"%s\", \"what\": \"%s\", \"size\": %llu, \"value\": %.6g, "
      "\"unit\": \"%s\"}\n",
      scene.device.c_str(), scene.path.c_str(), what.c_str(), static_cast<unsigned long long>(size),
      value, unit);
  std::fflush(stdout);
}

void report_times(const Scene& scene, const std::string& what, std::uint64_t size,
                  std::vector<std::uint64_t> times, double parts) {
  if (times.empty()) return;
  std::ranges::sort(times);
  const auto at = [&](double q) {
    return static_cast<double>(
               times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))]) *
           tick_ns() / 1e3 / parts;
  };
  report(scene, what, size, at(0.5), "us");
  report(scene, what + "-p99", size, at(0.99), "us");
}

}  // namespace guest::bench
