// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on RSS groups, flows and flow counters: fields, references and limits. What they do to
// frames: eth/ethernet_rx_test.cpp.
#include <vector>

#include "control/admin_fixture.h"

namespace tern {
namespace {

class AdminEthTest : public AdminTest {
 protected:
  std::uint32_t uar = 0;
  std::uint32_t cqn = 0;
  std::uint32_t rx = 0;
  std::uint32_t tx = 0;

  void SetUp() override {
    enable();
    uar = make_uar();
    cqn = make(TERN_CMD_CREATE_CQ, cq_command(TERN_NO_EQ, uar));
    tx = make(TERN_CMD_CREATE_ETH_QUEUE, eth_command(cqn, uar));
    rx = make_rx();
  }
  std::uint32_t make_rx() {
    tern_cmd_create_eth_queue c = eth_command(cqn, uar);
    c.direction = TERN_ETH_QUEUE_RX;
    return make(TERN_CMD_CREATE_ETH_QUEUE, c);
  }
  tern_cmd_rss rss_command() const {
    tern_cmd_rss c{.port = 1, .log_entries = 2, .kind = TERN_DEST_ETH_QUEUE};
    for (unsigned i = 0; i < 4; ++i) c.entries[i] = rx;
    return c;
  }
  tern_cmd_create_flow flow_command() const {
    tern_cmd_create_flow c{.dest_id = rx,
                           .counter = TERN_NO_COUNTER,
                           .dest = TERN_DEST_ETH_QUEUE,
                           .port = 1,
                           .layers = TERN_LAYER_ETH};
    return c;
  }
  std::uint32_t make_counter() {
    EXPECT_EQ(run(entry(TERN_CMD_CREATE_FLOW_COUNTER, 0, 8)), TERN_ST_OK);
    return out<tern_rsp_object>().id;
  }
  Status set_default(std::uint8_t dest, std::uint32_t id) {
    return run(TERN_CMD_SET_RX_DEFAULT, tern_cmd_set_rx_default{id, dest, 1, {}});
  }
};

TEST_F(AdminEthTest, FieldsOfGroups) {
  const auto status = [&](auto change) {
    tern_cmd_rss c = rss_command();
    change(c);
    return run(TERN_CMD_CREATE_RSS, c, 8);
  };
  EXPECT_EQ(status([](auto& c) { c.id = 1; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.port = 0; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.port = 2; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.log_entries = 8; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.log_entries = 255; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.log_entries = 1; }), TERN_ST_BAD_PARAM)
      << "entries that are not used";
  EXPECT_EQ(status([](auto& c) { c.log_entries = 3; }), TERN_ST_BAD_HANDLE)
      << "entries that are missing";
  EXPECT_EQ(status([](auto& c) { c.kind = TERN_DEST_NONE; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.kind = TERN_DEST_RSS; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.kind = TERN_DEST_QP; }), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(status([](auto& c) { c.func = 2; }), TERN_ST_BAD_PARAM);
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_EQ(status([i](auto& c) { c.fields[i] = 0x20; }), TERN_ST_BAD_PARAM);
    EXPECT_EQ(status([i](auto& c) { c.fields[i] = TERN_RSS_FIELD_SPI; }),
              i > 5 ? TERN_ST_OK : TERN_ST_BAD_PARAM)
        << i;
    EXPECT_EQ(status([i](auto& c) { c.fields[i] = TERN_RSS_FIELD_DST_PORT; }),
              i < 2 || i > 5 ? TERN_ST_BAD_PARAM : TERN_ST_OK)
        << i;
    EXPECT_EQ(status([i](auto& c) { c.fields[i] = TERN_RSS_FIELD_SRC_IP; }), TERN_ST_OK) << i;
  }
  const auto symmetric_esp = [&](std::uint8_t fields) {
    return status([fields](auto& c) {
      c.func = TERN_RSS_FUNC_SYMMETRIC;
      c.fields[TERN_RSS_ESP4] = fields;
    });
  };
  EXPECT_EQ(symmetric_esp(TERN_RSS_FIELD_SPI), TERN_ST_BAD_PARAM)
      << "the other direction has another";
  EXPECT_EQ(symmetric_esp(TERN_RSS_FIELD_SRC_IP), TERN_ST_OK);
  EXPECT_EQ(status([](auto& c) { c.func = TERN_RSS_F_INNER | TERN_RSS_FUNC_SYMMETRIC; }),
            TERN_ST_OK);
  EXPECT_EQ(status([](auto& c) { c.func = TERN_RSS_F_INNER | 2; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([&](auto& c) { c.entries[3] = tx; }), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(status([&](auto& c) { c.entries[3] = 99; }), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(objects().rss, 16U);
}

TEST_F(AdminEthTest, GroupsUpToTheLimit) {
  std::vector<std::uint32_t> all;
  for (int i = 0; i < 64; ++i) all.push_back(make(TERN_CMD_CREATE_RSS, rss_command()));
  EXPECT_EQ(run(TERN_CMD_CREATE_RSS, rss_command(), 8), TERN_ST_NO_RESOURCE);
  for (const std::uint32_t id : all) EXPECT_EQ(on(TERN_CMD_DESTROY_RSS, id), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_RSS, all[0]), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx), TERN_ST_OK) << "all references are gone";
}

TEST_F(AdminEthTest, ModifyKeepsKindAndSize) {
  tern_cmd_rss c = rss_command();
  EXPECT_EQ(run(TERN_CMD_MODIFY_RSS, c), TERN_ST_BAD_HANDLE);
  c.id = make(TERN_CMD_CREATE_RSS, rss_command());
  EXPECT_EQ(run(TERN_CMD_MODIFY_RSS, c), TERN_ST_OK);
  tern_cmd_rss other = c;
  other.log_entries = 1;
  other.entries[2] = other.entries[3] = 0;
  EXPECT_EQ(run(TERN_CMD_MODIFY_RSS, other), TERN_ST_BAD_PARAM);
  other = c;
  other.kind = TERN_DEST_QP;
  EXPECT_EQ(run(TERN_CMD_MODIFY_RSS, other), TERN_ST_BAD_PARAM);
  // A command that fails changes nothing: the queue is still referred to, the new one is not.
  const std::uint32_t rx2 = make_rx();
  other = c;
  other.entries[0] = rx2;
  other.entries[1] = 99;
  EXPECT_EQ(run(TERN_CMD_MODIFY_RSS, other), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx2), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx), TERN_ST_BUSY);
  const std::uint32_t rx3 = make_rx();
  for (unsigned i = 0; i < 4; ++i) c.entries[i] = rx3;
  EXPECT_EQ(run(TERN_CMD_MODIFY_RSS, c), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx3), TERN_ST_BUSY);
}

TEST_F(AdminEthTest, Defaults) {
  EXPECT_EQ(set_default(TERN_DEST_QP, 0), TERN_ST_BAD_PARAM);
  EXPECT_EQ(set_default(TERN_DEST_NONE, 1), TERN_ST_BAD_PARAM);
  EXPECT_EQ(set_default(TERN_DEST_ETH_QUEUE, tx), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(set_default(TERN_DEST_ETH_QUEUE, 99), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(set_default(TERN_DEST_RSS, 1), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(run(TERN_CMD_SET_RX_DEFAULT, tern_cmd_set_rx_default{0, 0, 2, {}}), TERN_ST_BAD_PARAM);
  EXPECT_EQ(set_default(TERN_DEST_ETH_QUEUE, rx), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx), TERN_ST_BUSY);
  EXPECT_EQ(set_default(TERN_DEST_RSS, 1), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx), TERN_ST_BUSY)
      << "a command that fails changes nothing";
  EXPECT_EQ(set_default(TERN_DEST_NONE, 0), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx), TERN_ST_OK);
}

TEST_F(AdminEthTest, FieldsOfFlows) {
  const auto status = [&](auto change) {
    tern_cmd_create_flow c = flow_command();
    change(c);
    return run(TERN_CMD_CREATE_FLOW, c, 8);
  };
  EXPECT_EQ(status([](auto& c) { c.port = 0; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.kind = 6; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.dest = 5; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.kind = TERN_FLOW_DATAGRAM; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.kind = TERN_FLOW_SENT; }), TERN_ST_BAD_PARAM);
  for (const unsigned kind : {TERN_FLOW_NORMAL, TERN_FLOW_SENT}) {
    EXPECT_EQ(status([&](auto& c) {
                c.kind = static_cast<std::uint8_t>(kind);
                c.dest = TERN_DEST_WIRE;
              }),
              TERN_ST_BAD_PARAM)
        << "with a number, or not sent";
  }
  EXPECT_EQ(status([](auto& c) { c.dest = TERN_DEST_NONE; }), TERN_ST_BAD_PARAM) << "with a number";
  EXPECT_EQ(status([](auto& c) { c.dest = TERN_DEST_QP; }), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(status([](auto& c) { c.dest = TERN_DEST_RSS; }), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(status([&](auto& c) { c.dest_id = tx; }), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(status([](auto& c) { c.flags = 2; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.tag = 1 << 24; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.counter = 5; }), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(status([](auto& c) { c.layers = 0x800; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.mask.dst_port = 1; }), TERN_ST_BAD_PARAM) << "without its layer";
  EXPECT_EQ(objects().flow, 0U);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx), TERN_ST_OK);
}

TEST_F(AdminEthTest, FlowsHoldWhatTheyReferTo) {
  const std::uint32_t group = make(TERN_CMD_CREATE_RSS, rss_command());
  const std::uint32_t counter = make_counter();
  tern_cmd_create_flow c = flow_command();
  c.counter = counter;
  const std::uint32_t first = make(TERN_CMD_CREATE_FLOW, c);
  c.dest = TERN_DEST_RSS;
  c.dest_id = group;
  const std::uint32_t second = make(TERN_CMD_CREATE_FLOW, c);
  EXPECT_EQ(on(TERN_CMD_DESTROY_RSS, group), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_FLOW_COUNTER, counter), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_FLOW, second), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_FLOW, second), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_RSS, group), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_FLOW_COUNTER, counter), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_FLOW, first), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_FLOW_COUNTER, counter), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_QUERY_FLOW_COUNTER, counter, 16), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, rx), TERN_ST_OK);
}

TEST_F(AdminEthTest, ShapesUpToTheLimit) {
  tern_cmd_create_flow c = flow_command();
  for (std::uint32_t i = 0; i < 64; ++i) {
    c.priority = i;
    (void)make(TERN_CMD_CREATE_FLOW, c);
  }
  c.priority = 64;
  EXPECT_EQ(run(TERN_CMD_CREATE_FLOW, c, 8), TERN_ST_NO_RESOURCE);
  c.priority = 5;
  EXPECT_EQ(run(TERN_CMD_CREATE_FLOW, c, 8), TERN_ST_OK) << "a shape in use";
  EXPECT_EQ(objects().flow, 65U);
}

TEST_F(AdminEthTest, ResetDestroysFlowsAndGroups) {
  (void)make(TERN_CMD_CREATE_RSS, rss_command());
  (void)make(TERN_CMD_CREATE_FLOW, flow_command());
  (void)make_counter();
  set(TERN_REG_CTRL, TERN_CTRL_RESET);
  enable();
  const auto left = objects();
  EXPECT_EQ(left.rss | left.flow | left.flow_counter | left.eth_queue, 0U);
}

}  // namespace
}  // namespace tern
