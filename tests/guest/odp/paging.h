// SPDX-License-Identifier: GPL-2.0-or-later
// What the tests of on-demand paging share: mapped memory, connected QPs, one request at a time.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "map.h"
#include "pair.h"
#include "program.h"

namespace guest {

constexpr std::size_t kPage = 4096;
constexpr int kOdpAccess = kFlushAccess | IBV_ACCESS_ON_DEMAND;

// Connected RC QPs of one PD without memory, which share a CQ.
class Loop {
 public:
  explicit Loop(const Device& dev, unsigned depth = 64, ibv_srq* srq = nullptr);
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
  [[nodiscard]] ibv_qp* a() const { return pair_->local.qp(); }
  [[nodiscard]] ibv_qp* b() const { return pair_->remote.end().qp(); }
  // Posts a request to a() and returns the status of its completion.
  ibv_wc_status run(const Send& send, int timeout_ms = 60000);
  void must(const Send& send, const char* what);
  void close() { pair_.reset(); }

 private:
  CqPtr cq_;
  std::optional<Pair> pair_;
};

// A region that a test registers over memory it has mapped. A refusal fails the test.
MrPtr reg(const Device& dev, const Map& map, int access = kOdpAccess);
MrPtr reg_all(const Device& dev, int access = kOdpAccess);  // implicit

Send write_from(const ibv_sge& from, std::uint64_t to, std::uint32_t rkey);
Send read_into(const ibv_sge& into, std::uint64_t from, std::uint32_t rkey);
ibv_sge sge(const ibv_mr* mr, std::uint64_t address, std::uint32_t length);

void expect_pattern(std::span<const std::byte> bytes, std::uint64_t seed, const char* what);
void expect_zeros(std::span<const std::byte> bytes, const char* what);

// A port counter of the device.
std::uint64_t counter(const Device& dev, const std::string& name);
void put(const std::string& path, const std::string& text);
std::string get(const std::string& path);

std::vector<Test> explicit_tests(const Device& dev);
std::vector<Test> move_tests(const Device& dev);
std::vector<Test> swap_tests(const Device& dev);
std::vector<Test> node_tests(const Device& dev);  // need two NUMA nodes
std::vector<Test> late_tests(const Device& dev);
std::vector<Test> dmabuf_tests(const Device& dev);
std::vector<Test> peer_tests(const Device& dev);    // need two adapters and rdma-core 62
std::vector<Test> revoke_tests(const Device& dev);  // need tern_exporter.ko

}  // namespace guest
