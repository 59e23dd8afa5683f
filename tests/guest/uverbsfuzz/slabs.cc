// SPDX-License-Identifier: GPL-2.0-or-later
#include "slabs.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace guest::uverbsfuzz {
namespace {

using namespace std::string_view_literals;

// Each process has one of these, or a few. Those of file systems and of the page cache vary.
constexpr std::string_view kNamed[] = {"task_struct"sv,   "mm_struct"sv,   "signal_cache"sv,
                                       "sighand_cache"sv, "files_cache"sv, "pid"sv,
                                       "cred_jar"sv,      "cred"sv,        "uts_namespace"sv};

// Returns "kmalloc-512" for kmalloc-rnd-07-512, kmalloc-cg-512 and the like; "" for a cache that
// does not count.
std::string counted_as(const std::string& cache) {
  for (const std::string_view name : kNamed) {
    if (cache == name) return cache;
  }
  if (!cache.starts_with("kmalloc-")) return "";
  return "kmalloc-" + cache.substr(cache.rfind('-') + 1);
}

// Partly used slabs count with all their objects as long as a processor has them.
std::int64_t slack(const std::string& name) {
  if (!name.starts_with("kmalloc-") || name.ends_with("k")) return 0;
  return 4 * 4096 / std::max(std::atoll(name.c_str() + 8), 1LL);
}

// A processor keeps free objects for itself, which count as used.
void shrink_all() {
  std::error_code ignored;
  for (const auto& cache : std::filesystem::directory_iterator("/sys/kernel/slab", ignored)) {
    std::ofstream(cache.path() / "shrink") << "1\n";
  }
}

}  // namespace

Counts read_slabs() {
  sync();
  std::ofstream("/proc/sys/vm/drop_caches") << "2\n";
  shrink_all();
  Counts counts;
  std::ifstream in("/proc/slabinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t active = 0;
    if (!(words >> name >> active)) continue;
    if (const std::string key = counted_as(name); !key.empty()) counts[key] += active;
  }
  if (!counts.contains("task_struct")) throw std::runtime_error("/proc/slabinfo has no tasks");
  return counts;
}

std::string grown(const Counts& before, const Counts& after, std::int64_t allowed,
                  std::int64_t tasks) {
  std::string text;
  for (const auto& [name, value] : after) {
    const auto old = before.find(name);
    const std::int64_t was = old == before.end() ? 0 : old->second;
    if (value - was <= (name == "task_struct" ? tasks : allowed + slack(name))) continue;
    text += (text.empty() ? "" : ", ") + name + " " + std::to_string(was) + " -> " +
            std::to_string(value);
  }
  return text;
}

}  // namespace guest::uverbsfuzz
