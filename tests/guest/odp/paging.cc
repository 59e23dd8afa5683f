// SPDX-License-Identifier: GPL-2.0-or-later
#include "paging.h"

#include <chrono>
#include <fstream>
#include <thread>

namespace guest {

MrPtr reg_all(const Device& dev, int access) {
  MrPtr mr(ibv_reg_mr(dev.pd(), nullptr, SIZE_MAX, static_cast<unsigned>(access)));
  require(mr != nullptr, "ibv_reg_mr of the address space: {}", errno_name(errno));
  return mr;
}

std::string get(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  std::getline(in, text);
  return text;
}

void put(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  require(out.good(), "cannot write {} to {}", text, path);
}

std::uint64_t counter(const Device& dev, const std::string& name) {
  // The kernel answers from memory for 10 ms after a read.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return std::stoull(get(std::string("/sys/class/infiniband/") +
                         ibv_get_device_name(dev.context()->device) + "/ports/1/hw_counters/" +
                         name));
}

}  // namespace guest
