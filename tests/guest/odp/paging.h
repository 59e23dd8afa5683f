// SPDX-License-Identifier: GPL-2.0-or-later
// What the tests of on-demand paging share.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "loop.h"
#include "program.h"

namespace guest {

constexpr std::size_t kPage = 4096;
constexpr int kOdpAccess = kFlushAccess | IBV_ACCESS_ON_DEMAND;

// A region on demand. A refusal fails the test.
inline MrPtr reg(const Device& dev, const Map& map) { return reg(dev, map, kOdpAccess); }
MrPtr reg_all(const Device& dev, int access = kOdpAccess);  // implicit

// A port counter of the device.
std::uint64_t counter(const Device& dev, const std::string& name);
void put(const std::string& path, const std::string& text);
std::string get(const std::string& path);

std::vector<Test> counted_tests(const Device& dev);
std::vector<Test> move_tests(const Device& dev);
std::vector<Test> swap_tests(const Device& dev);
std::vector<Test> node_tests(const Device& dev);  // need two NUMA nodes
std::vector<Test> late_tests(const Device& dev);
std::vector<Test> dmabuf_tests(const Device& dev);
std::vector<Test> peer_tests(const Device& dev);    // need two adapters and rdma-core 62
std::vector<Test> revoke_tests(const Device& dev);  // need tern_exporter.ko

}  // namespace guest
