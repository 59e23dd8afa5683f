// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/mini_driver.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace tern {

namespace {

unsigned default_lanes() {
  const char* const lanes = std::getenv("TERN_SIM_LANES");
  return lanes != nullptr ? static_cast<unsigned>(std::atoi(lanes)) : 1;
}

Config config_of(const NodeOptions& options, unsigned id, bool captured) {
  Config c{.max_qp = options.max_qp,
           .max_mr = options.max_mr,
           .max_mw = options.max_mw,
           .max_tags = options.max_tags,
           .max_pages = options.max_pages,
           .max_mtu = 9000,
           .link_speed = options.link_speed,
           .mac = {0x52, 0x54, 0x00, 0x77, static_cast<std::uint8_t>(id >> 8),
                   static_cast<std::uint8_t>(id)},
           .mw_type_2a = options.mw_type_2a,
           .odp = options.odp,
           .congestion = options.congestion,
           .doorbell_cost = options.doorbell_cost,
           .lanes = options.lanes != 0 ? options.lanes : default_lanes(),
           .capture = options.capture || captured,
           .unfinished_frames = options.unfinished_frames};
  return c;
}

}  // namespace

TestNode::TestNode(Sim& simulation, const NodeOptions& options)
    : TestNode(simulation, options, simulation.new_node_id()) {}

TestNode::TestNode(Sim& simulation, const NodeOptions& options, unsigned id)
    : SimNode(simulation, config_of(options, id, simulation.captures()), 0x7e12 + id,
              options.dm_size),
      Driver(id),
      options_(options) {
  if (options.share_payload) device.share_payload(1);
  if (options.bring_up) bring_up();
}

TestNode::~TestNode() = default;

void TestNode::start_admin_queue() {
  EXPECT_EQ(device.reg_read(TERN_REG_MAGIC), TERN_MAGIC);
  EXPECT_EQ(device.reg_read(TERN_REG_STATUS), TERN_STATUS_READY);
  device.reg_write(TERN_REG_PAGE_SHIFT, options_.page_shift);
  Driver::start_admin_queue();
  EXPECT_EQ(device.reg_read(TERN_REG_STATUS), TERN_STATUS_READY | TERN_STATUS_ENABLED);
}

void TestNode::bring_up() {
  device.set_link(true);
  start_admin_queue();
  caps_ = query<tern_rsp_caps>(TERN_CMD_QUERY_CAPS);
  async_ = &create_eq(6, 0, TERN_EQ_ASYNC);
  enable_port(options_.mtu);
  for (std::uint16_t i = 0; i < 4; ++i) set_gid(i);
  uar_ = alloc_uar();
  pd_ = alloc_pd();
  completion_ = &create_eq();
  (void)async_->take_all();
}

bool TestNode::wait_command(const std::function<bool()>& done) {
  for (int turns = 0; turns < 1000; ++turns) {
    pump();
    if (done()) return true;
  }
  return false;
}

void TestNode::posted_unrung() {
  ++unrung;
  wake();  // the device is always running
}

void TestNode::ring(std::uint32_t uar, std::uint32_t value) {
  // Nodes lose different doorbells, but the same ones in every run.
  const std::uint32_t hash = (++doorbells_ + id_) * 2654435761U;
  const bool lost = hash >> 24 < sim.lost_values;
  device.doorbell((std::uint64_t{uar} << options_.page_shift) + TERN_UAR_DB,
                  lost ? field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_PAGE) : value);
  wake();
}

std::uint64_t TestNode::counter(unsigned index) {
  const tern_cmd_query_counters cmd{le(std::uint32_t{TERN_COUNTERS_RDMA}), 1, {}};
  return le(
      query<std::array<std::uint64_t, TERN_CNT_RDMA_NUM>>(TERN_CMD_QUERY_COUNTERS, cmd).at(index));
}

std::uint64_t TestNode::eth_counter(unsigned index) {
  const tern_cmd_query_counters cmd{le(std::uint32_t{TERN_COUNTERS_ETH}), 1, {}};
  return le(
      query<std::array<std::uint64_t, TERN_ETH_CNT_NUM>>(TERN_CMD_QUERY_COUNTERS, cmd).at(index));
}

std::pair<TestQp&, TestQp&> rc_pair(TestNode& a, TestNode& b, const QpOptions& options) {
  TestQp& qa = a.create_qp(options);
  TestQp& qb = b.create_qp(options);
  qa.connect(qb);
  qb.connect(qa);
  return {qa, qb};
}

::testing::AssertionResult same_bytes(std::span<const std::byte> got,
                                      std::span<const std::byte> want) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " bytes, not " << want.size();
  }
  const auto [g, w] = std::ranges::mismatch(got, want);
  if (g == got.end()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "byte " << (g - got.begin()) << " is " << std::to_integer<int>(*g) << ", not "
         << std::to_integer<int>(*w);
}

const char* status_name(std::uint8_t status) {
  constexpr std::array names = {
      "SUCCESS",          "LOC_LEN_ERR",   "LOC_QP_OP_ERR",     "LOC_PROT_ERR",    "WR_FLUSH_ERR",
      "MW_BIND_ERR",      "BAD_RESP_ERR",  "LOC_ACCESS_ERR",    "REM_INV_REQ_ERR", "REM_ACCESS_ERR",
      "REM_OP_ERR",       "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "REM_ABORT_ERR",   "FATAL_ERR",
      "RESP_TIMEOUT_ERR", "GENERAL_ERR"};
  return status < names.size() ? names[status] : "?";
}

}  // namespace tern
