// SPDX-License-Identifier: GPL-2.0-or-later
// The tests' driver (testing/driver.h) of a device in the simulation.
//
//   Sim sim;
//   TestNode a(sim), b(sim);
//   auto [qa, qb] = rc_pair(a, b);
//   TestMr& src = a.reg(4096);
//   TestMr& dst = b.reg(4096);
//   qa.post(write({src.sge()}, dst));
//   EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
#pragma once

#include <cstring>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "testing/driver.h"
#include "tests/sim.h"

namespace tern {

using namespace test;

struct NodeOptions {
  std::uint32_t mtu = 4200;
  std::uint32_t max_qp = 4096;
  std::uint32_t max_mr = 4096;
  std::uint32_t max_mw = 4096;
  std::uint16_t max_tags = Config{}.max_tags;
  std::uint64_t max_pages = kMaxPages;
  bool mw_type_2a = false;
  bool odp = true;
  unsigned page_shift = 12;
  std::uint64_t dm_size = 1 << 20;
  bool capture = false;
  bool unfinished_frames = false;
  bool share_payload = false;
  unsigned lanes = 0;  // 0: as many as TERN_SIM_LANES says, or one
  Nanos doorbell_cost = Config{}.doorbell_cost;
  std::uint32_t link_speed = Config{}.link_speed;
  CongestionParams congestion{};
  bool bring_up = true;  // false: only plugged in, no register written
};

class TestNode : public SimNode, public Driver {
 public:
  explicit TestNode(Sim& simulation, const NodeOptions& options = {});
  ~TestNode() override;

  // Sets up registers, admin queue, asynchronous EQ, port, GIDs, PD, UAR page, and completion EQ.
  void bring_up();
  void start_admin_queue();

  // Device memory; expects success.
  [[nodiscard]] TestDm alloc_dm(std::uint64_t len, std::uint32_t log_align = 0);
  [[nodiscard]] Status try_alloc_dm(std::uint64_t len, std::uint32_t log_align, TestDm* dm);
  void free(const TestDm& dm) { destroy(TERN_CMD_FREE_DM, dm.number); }
  // A zero-based region on [offset, offset + len) of `dm`; expects success.
  TestMr& reg_dm(const TestDm& dm, std::uint64_t offset, std::uint64_t len,
                 std::uint32_t access = kAllAccess, std::uint32_t pd = 0);
  // REREG_MR: takes the attributes in `mask` from `options`; the new memory is a new piece of `len`
  // bytes.
  [[nodiscard]] Status rereg(TestMr& mr, std::uint32_t mask, const RegOptions& options = {},
                             std::uint64_t len = 0);

  [[nodiscard]] std::uint64_t counter(unsigned index);
  [[nodiscard]] std::uint64_t eth_counter(unsigned index);
  [[nodiscard]] tern_rsp_objects objects() {
    return query<tern_rsp_objects>(TERN_CMD_QUERY_OBJECTS);
  }
  // Consumes and returns all asynchronous events.
  std::vector<tern_eqe> async_events() { return async_->take_all(); }
  [[nodiscard]] const NodeOptions& options() const { return options_; }

  // ---- the device ----

  std::uint64_t alloc(std::uint64_t len, std::uint64_t align) override {
    return host.alloc(len, align);
  }
  std::byte* at(std::uint64_t addr, std::uint64_t len) override { return host.at(addr, len); }
  bool scattered() const override { return true; }
  std::uint32_t reg_read(std::uint32_t offset) override { return device.reg_read(offset); }
  void reg_write(std::uint32_t offset, std::uint32_t value) override {
    device.reg_write(offset, value);
  }
  void ring(std::uint32_t uar, std::uint32_t value) override;
  void let_run() override { pump(); }
  bool wait_command(const std::function<bool()>& done) override;
  bool wait(const std::function<bool()>& done) override { return sim.run_until(done); }
  void posted_unrung() override;

 private:
  TestNode(Sim& simulation, const NodeOptions& options, unsigned id);

  NodeOptions options_;
  std::uint32_t doorbells_ = 0;
};

// The node of a QP.
[[nodiscard]] inline TestNode& node_of(const TestQp& qp) {
  return static_cast<TestNode&>(qp.node());
}

// Two connected QPs, RC unless `options` say UC. a and b may be the same node. Both QPs get
// `options.pd` and the CQs of `options`, so set these only if a is b.
std::pair<TestQp&, TestQp&> rc_pair(TestNode& a, TestNode& b, const QpOptions& options = {});

// Compares two pieces of memory and reports the first difference.
::testing::AssertionResult same_bytes(std::span<const std::byte> got,
                                      std::span<const std::byte> want);

// The name of a completion status, for messages.
[[nodiscard]] const char* status_name(std::uint8_t status);

}  // namespace tern
