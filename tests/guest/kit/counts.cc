// SPDX-License-Identifier: GPL-2.0-or-later
#include "counts.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "failure.h"
#include "lab.h"

namespace guest {
namespace {

// Reads lines such as "alive_qp 1". The read fails if the device is dead.
void read_device(const std::string& device, Counts& counts) {
  const std::filesystem::path function =
      std::filesystem::canonical("/sys/class/infiniband/" + device + "/device");
  std::ifstream in("/sys/kernel/debug/tern" / function.filename() / "objects");
  std::string name;
  std::int64_t value = 0;
  while (in >> name >> value) counts[name] = value;
  if (!counts.contains("alive_qp")) fail("{} counts no objects", device);
  counts.erase("alive_gid");
}

void read_pins(Counts& counts) {
  // The kernel sums the per-CPU counters only on demand.
  std::ofstream("/proc/sys/vm/stat_refresh") << "1\n";
  std::ifstream in("/proc/vmstat");
  std::string name;
  std::int64_t value = 0;
  std::int64_t pins = 0;
  while (in >> name >> value) {
    if (name == "nr_foll_pin_acquired") pins += value;
    if (name == "nr_foll_pin_released") pins -= value;
  }
  counts["pinned_pages"] = pins;
}

// Parses "1: tern0: pd 1 cq 1 qp 1 ...".
void read_restrack(const std::string& device, Counts& counts) {
  std::istringstream in(shell("rdma resource show " + device));
  std::string name;
  std::int64_t value = 0;
  in >> name >> name;
  while (in >> name >> value) counts["restrack_" + name] = value;
  require(counts.contains("restrack_qp"), "rdma resource shows nothing");
}

}  // namespace

Counts read_counts(const std::string& device) {
  Counts counts;
  read_device(device, counts);
  read_pins(counts);
  read_restrack(device, counts);
  return counts;
}

std::string difference(const Counts& before, const Counts& after) {
  std::string text;
  for (const auto& [name, value] : after) {
    const auto old = before.find(name);
    const std::int64_t was = old == before.end() ? 0 : old->second;
    if (was != value) {
      text += (text.empty() ? "" : ", ") + name + " " + std::to_string(was) + " -> " +
              std::to_string(value);
    }
  }
  return text;
}

std::string settle(const std::string& device, const Counts& before, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::string left = difference(before, read_counts(device));
  while (!left.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    left = difference(before, read_counts(device));
  }
  return left;
}

bool drivers_in_tree() {
  std::ifstream taint("/sys/module/tern_ib/taint");
  require(taint.good(), "tern_ib is not loaded");
  std::string flags;
  taint >> flags;
  return flags.find('O') == std::string::npos;
}

}  // namespace guest
