// SPDX-License-Identifier: GPL-2.0-or-later
// Unreliable datagrams and the GSI QP, over the wire and in loopback: every byte of the GRH, every
// field of the completion, every reason to drop, and the send queue error state.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr std::uint32_t kGrh = 40;
constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::uint32_t kOwnQkey = 0x80000000;

// ---- every path ----

struct Path {
  bool loopback;
  std::uint16_t gid_index;
  [[nodiscard]] bool ipv4() const { return gid_index == 1 || gid_index == 2; }
  [[nodiscard]] bool vlan() const { return gid_index >= 2; }
};

std::string name_of(const ::testing::TestParamInfo<Path>& info) {
  constexpr std::array gids = {"Ipv6", "Ipv4", "Ipv4Vlan", "Ipv6Vlan"};
  return std::string(info.param.loopback ? "Inside" : "Wire") + gids.at(info.param.gid_index);
}

class UdPaths : public ::testing::TestWithParam<Path> {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode other{sim};
  TestNode& b = GetParam().loopback ? a : other;
  QpOptions options{.type = TERN_QPT_UD,
                    .gid_index = GetParam().gid_index,
                    .sl = 5,
                    .traffic_class = 0x6a,
                    .hop_limit = 33,
                    .flow_label = 0x12345};
  TestQp& qa = a.create_qp(options);
  TestQp& qb = b.create_qp(options);
  TestMr& src = a.reg(16384);
  TestMr& dst = b.reg(16384);

  void SetUp() override {
    qa.connect();
    qb.connect();
    src.fill(1);
  }

  // The GRH that the receiver must get, according to RFC 791, RFC 8200 and IBTA A17.4.5.1.
  [[nodiscard]] std::vector<std::byte> grh(std::uint32_t len, std::uint32_t headers) {
    const Gid from = a.gid(GetParam().gid_index);
    const Gid to = b.gid(GetParam().gid_index);
    const std::uint32_t udp = 8 + headers + (len + 3) / 4 * 4 + 4;
    std::vector<std::uint8_t> h(kGrh);
    if (GetParam().ipv4()) {
      h[20] = 0x45;
      h[21] = 0x6a;
      h[22] = static_cast<std::uint8_t>((20 + udp) >> 8);
      h[23] = static_cast<std::uint8_t>(20 + udp);
      h[26] = 0x40;  // don't fragment
      h[28] = 33;
      h[29] = 17;
      std::copy_n(from.begin() + 12, 4, h.begin() + 32);
      std::copy_n(to.begin() + 12, 4, h.begin() + 36);
      std::uint32_t sum = 0;
      for (unsigned i = 20; i < 40; i += 2) sum += static_cast<std::uint32_t>(h[i] << 8 | h[i + 1]);
      sum = (sum & 0xffff) + (sum >> 16);
      sum = ~((sum & 0xffff) + (sum >> 16));
      h[30] = static_cast<std::uint8_t>(sum >> 8);
      h[31] = static_cast<std::uint8_t>(sum);
    } else {
      h[0] = 0x66;
      h[1] = 0xa1;
      h[2] = 0x23;
      h[3] = 0x45;
      h[4] = static_cast<std::uint8_t>(udp >> 8);
      h[5] = static_cast<std::uint8_t>(udp);
      h[6] = 17;
      h[7] = 33;
      std::ranges::copy(from, h.begin() + 8);
      std::ranges::copy(to, h.begin() + 24);
    }
    const auto bytes = std::as_bytes(std::span(h));
    return {bytes.begin(), bytes.end()};
  }
  void expect_cqe(const Wc& wc, std::uint32_t len) {
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(wc.opcode, TERN_RECV_SEND);
    EXPECT_TRUE(wc.flags & TERN_CQE_F_RECV);
    EXPECT_TRUE(wc.flags & TERN_CQE_F_GRH);
    EXPECT_EQ(le(wc.byte_len), len + kGrh);
    EXPECT_EQ(le(wc.qpn), qb.number());
    EXPECT_EQ(le(wc.src_qp), qa.number());
    EXPECT_EQ(le(wc.pkey_index), 0U);
    EXPECT_TRUE(std::ranges::equal(wc.smac, a.mac()));
    EXPECT_EQ(wc.net_type, GetParam().ipv4() ? TERN_NET_IPV4 : TERN_NET_IPV6);
    EXPECT_EQ((wc.flags & TERN_CQE_F_VLAN) != 0, GetParam().vlan());
    EXPECT_EQ(le(wc.vlan), GetParam().vlan() ? TestNode::kVlan : 0U);
    EXPECT_EQ(wc.sl, GetParam().vlan() ? 5 : 0);
  }
};

INSTANTIATE_TEST_SUITE_P(All, UdPaths,
                         ::testing::Values(Path{false, 0}, Path{false, 1}, Path{false, 2},
                                           Path{false, 3}, Path{true, 0}, Path{true, 1},
                                           Path{true, 2}, Path{true, 3}),
                         name_of);

TEST_P(UdPaths, EveryLength) {
  std::uint64_t id = 0;
  for (const std::uint32_t len : {0U, 1U, 2U, 3U, 4U, 63U, 64U, 1024U, 4095U, 4096U}) {
    std::ranges::fill(dst.bytes(), std::byte{0xee});
    qb.post_recv({dst.sge(100, kGrh + len)}, ++id);
    qa.post(datagram(qa, qb, {src.sge(7, len)}).id(id + 1000));
    const Wc sent = qa.wait_send();
    EXPECT_EQ(sent.status, TERN_CQE_SUCCESS) << status_name(sent.status);
    EXPECT_EQ(sent.opcode, TERN_WR_SEND);
    EXPECT_EQ(le(sent.wr_id), id + 1000);
    const Wc wc = qb.wait_recv();
    expect_cqe(wc, len);
    EXPECT_EQ(le(wc.wr_id), id);
    EXPECT_FALSE(wc.flags & (TERN_CQE_F_IMM | TERN_CQE_F_SOLICITED));
    EXPECT_TRUE(same_bytes(dst.bytes(100, kGrh), grh(len, 12 + 8)));
    EXPECT_TRUE(same_bytes(dst.bytes(100 + kGrh, len), src.bytes(7, len)));
    EXPECT_EQ(dst.bytes()[99], std::byte{0xee});
    EXPECT_EQ(dst.bytes()[100 + kGrh + len], std::byte{0xee});
  }
  EXPECT_EQ(sim.stats.sent > 0, !GetParam().loopback);
}

TEST_P(UdPaths, ImmediateSolicitedAndInline) {
  std::array<std::byte, 77> text;
  text.fill(std::byte{0x5a});
  qb.post_recv({dst.sge(0, 10), dst.sge(1000, 25), dst.sge(2000, 200)});
  SendWr wr = send_inline(text);
  wr.ud = datagram(qa, qb, {}).ud;
  qa.post(std::move(wr).immediate(0xd4c3b2a1).with(TERN_WQE_F_SOLICITED));
  EXPECT_EQ(qa.wait_send().opcode, TERN_WR_SEND_WITH_IMM);
  const Wc wc = qb.wait_recv();
  expect_cqe(wc, text.size());
  EXPECT_TRUE(wc.flags & TERN_CQE_F_IMM);
  EXPECT_TRUE(wc.flags & TERN_CQE_F_SOLICITED);
  EXPECT_EQ(wc.imm, 0xd4c3b2a1);
  // The GRH is scattered like payload: 10 bytes, 25, then 5 followed by the payload.
  const auto want = grh(text.size(), 12 + 8 + 4);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 10), std::span(want).first(10)));
  EXPECT_TRUE(same_bytes(dst.bytes(1000, 25), std::span(want).subspan(10, 25)));
  EXPECT_TRUE(same_bytes(dst.bytes(2000, 5), std::span(want).subspan(35)));
  EXPECT_TRUE(same_bytes(dst.bytes(2005, text.size()), text));
}

TEST_P(UdPaths, OrderUnsignaledAndBothWays) {
  for (std::uint32_t i = 0; i < 60; ++i) {
    qb.post_recv({dst.sge(i * 200, 200)}, i);
    SendWr wr = datagram(qa, qb, {src.sge(i * 100, 100)}).id(i);
    if (i % 20 != 19) wr.flags = 0;
    qa.post(wr);
  }
  for (std::uint32_t i = 0; i < 60; ++i) {
    EXPECT_EQ(le(qb.wait_recv().wr_id), i);
    EXPECT_TRUE(same_bytes(dst.bytes(i * 200 + kGrh, 100), src.bytes(i * 100, 100)));
  }
  for (std::uint64_t i = 19; i < 60; i += 20) EXPECT_EQ(le(qa.wait_send().wr_id), i);
  EXPECT_FALSE(qa.send_cq().poll());
  EXPECT_EQ(le(qa.query().attr.sq_psn), (0xfffff0U + 60) & 0xffffff);
  EXPECT_EQ(le(qa.query().attr.rq_psn), 0U);
  qa.post_recv({src.sge(0, 200)}, 5);
  qb.post(datagram(qb, qa, {dst.sge(0, 9)}));
  EXPECT_EQ(le(qa.wait_recv().wr_id), 5U);
}

// A flow takes the datagrams whose headers match, and its QP makes all checks.
TEST_P(UdPaths, FlowsReplaceTheDestination) {
  const bool ipv4 = GetParam().ipv4();
  TestQp& taker = b.create_qp(options);
  taker.connect();
  TestMr& own = b.reg(4096);
  tern_cmd_create_flow cmd{.dest_id = le(taker.number()),
                           .counter = le(b.make(TERN_CMD_CREATE_FLOW_COUNTER)),
                           .kind = TERN_FLOW_DATAGRAM,
                           .dest = TERN_DEST_QP,
                           .port = 1};
  const int ip = ipv4 ? TERN_LAYER_IPV4 : TERN_LAYER_IPV6;
  cmd.layers = le(static_cast<std::uint16_t>(TERN_LAYER_ETH | ip | TERN_LAYER_UDP |
                                             (GetParam().vlan() ? TERN_LAYER_VLAN : 0)));
  const Gid from = a.gid(GetParam().gid_index);
  std::ranges::copy(std::span(from).subspan(ipv4 ? 12 : 0), cmd.value.src_ip);
  std::fill_n(cmd.mask.src_ip, ipv4 ? 4 : 16, 0xff);
  std::ranges::copy(a.mac(), cmd.value.smac);
  std::ranges::fill(cmd.mask.smac, 0xff);
  cmd.value.tos = 0x6a;
  cmd.value.ttl = 33;
  cmd.mask.tos = cmd.mask.ttl = 0xff;
  cmd.value.dst_port = __builtin_bswap16(4791);
  cmd.mask.dst_port = 0xffff;
  const std::uint32_t id = b.make(TERN_CMD_CREATE_FLOW, cmd);
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_QP, tern_cmd_object{le(taker.number()), 0}), TERN_ST_BUSY);

  std::uint64_t wr_id = 0;
  const auto send = [&](std::uint32_t dqpn) {
    SendWr wr = datagram(qa, qb, {src.sge(0, 100)});
    wr.ud.dqpn = le(dqpn);
    qa.post(std::move(wr).id(++wr_id));
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    sim.run_until_idle();
  };
  const auto takes = [&](TestQp& qp) {
    const auto wc = qp.recv_cq().poll();
    if (!wc) return false;
    EXPECT_EQ(wc->status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc->byte_len), kGrh + 100);
    EXPECT_EQ(le(wc->qpn), qp.number());
    EXPECT_EQ(le(wc->src_qp), qa.number());
    return true;
  };
  for (std::uint64_t i = 0; i < 4; ++i) {
    qb.post_recv({dst.sge(i * 200, 200)}, i);
    taker.post_recv({own.sge(i * 200, 200)}, i);
  }
  send(qb.number());
  EXPECT_TRUE(takes(taker));
  EXPECT_FALSE(takes(qb));
  EXPECT_TRUE(same_bytes(own.bytes(0, kGrh), grh(100, 12 + 8)));
  EXPECT_TRUE(same_bytes(own.bytes(kGrh, 100), src.bytes(0, 100)));
  send(0x7fffff);
  EXPECT_TRUE(takes(taker)) << "to a QP that does not exist";
  tern_rsp_flow_counter counted{};
  ASSERT_EQ(b.command(TERN_CMD_QUERY_FLOW_COUNTER, tern_cmd_object{cmd.counter, 0}, &counted),
            TERN_ST_OK);
  EXPECT_EQ(le(counted.packets), 2U);
  const std::uint64_t frame = 14 + (GetParam().vlan() ? 4 : 0) + (ipv4 ? 20 : 40) + 8 + 20 + 104;
  EXPECT_EQ(le(counted.bytes), 2 * frame);

  tern_qp_attr attr{};
  attr.qkey = le(kQkey + 1);
  ASSERT_EQ(taker.modify(attr, TERN_QPA_QKEY), TERN_ST_OK);
  send(qb.number());
  EXPECT_FALSE(takes(taker));
  EXPECT_FALSE(takes(qb));
  EXPECT_EQ(b.counter(TERN_CNT_QKEY_VIOLATIONS), 1U);
  attr.qkey = le(kQkey);
  ASSERT_EQ(taker.modify(attr, TERN_QPA_QKEY), TERN_ST_OK);

  // Another header, and no flow.
  b.destroy(TERN_CMD_DESTROY_FLOW, id);
  cmd.value.ttl = 34;
  const std::uint32_t none = b.make(TERN_CMD_CREATE_FLOW, cmd);
  send(qb.number());
  EXPECT_TRUE(takes(qb));
  b.destroy(TERN_CMD_DESTROY_FLOW, none);

  // A copy, and nothing at all.
  cmd.value.ttl = 33;
  cmd.flags = TERN_FLOW_F_CONTINUE;
  const std::uint32_t copies = b.make(TERN_CMD_CREATE_FLOW, cmd);
  send(qb.number());
  EXPECT_TRUE(takes(taker));
  EXPECT_TRUE(takes(qb));
  b.destroy(TERN_CMD_DESTROY_FLOW, copies);
  cmd.flags = 0;
  cmd.dest = TERN_DEST_NONE;
  cmd.dest_id = 0;
  const std::uint32_t drop = b.make(TERN_CMD_CREATE_FLOW, cmd);
  send(qb.number());
  EXPECT_FALSE(takes(taker));
  EXPECT_FALSE(takes(qb));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FLOW_DROPPED), 1U);
  b.destroy(TERN_CMD_DESTROY_FLOW, drop);
  b.destroy(taker);
}

TEST_P(UdPaths, FlowsLeaveManagementAlone) {
  QpOptions gsi = options;
  gsi.type = TERN_QPT_GSI;
  gsi.pd = b.alloc_pd(true);
  gsi.qkey = 0x80010000;
  TestQp& manager = b.create_qp(gsi);
  manager.connect();
  tern_cmd_create_flow all{.counter = le(TERN_NO_COUNTER),
                           .kind = TERN_FLOW_DATAGRAM,
                           .dest = TERN_DEST_NONE,
                           .port = 1};
  b.make(TERN_CMD_CREATE_FLOW, all);
  constexpr std::uint32_t kMad = 256;
  src.bytes(0, 1)[0] = std::byte{1};  // the version
  manager.post_recv({b.reg(kGrh + kMad, {.pd = gsi.pd}).sge()});
  SendWr wr = datagram(qa, manager, {src.sge(0, kMad)});
  wr.ud.qkey = gsi.qkey;
  tern_qp_attr attr{};
  attr.qkey = le(gsi.qkey);
  ASSERT_EQ(qa.modify(attr, TERN_QPA_QKEY), TERN_ST_OK);
  qa.post(std::move(wr));
  EXPECT_EQ(manager.wait_recv().status, TERN_CQE_SUCCESS);
  for (const std::uint32_t qpn : {manager.number(), 0x7fffffU}) {
    tern_cmd_create_flow bad = all;
    bad.dest = TERN_DEST_QP;
    bad.dest_id = le(qpn);
    EXPECT_EQ(b.command(TERN_CMD_CREATE_FLOW, bad), TERN_ST_BAD_HANDLE);
  }
  all.dest = TERN_DEST_ETH_QUEUE;
  EXPECT_EQ(b.command(TERN_CMD_CREATE_FLOW, all), TERN_ST_BAD_PARAM);
}

// ---- Q_Keys, address vectors, lengths ----

class Ud : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestQp& qa = a.create_qp({.type = TERN_QPT_UD});
  TestQp& qb = b.create_qp({.type = TERN_QPT_UD});
  TestMr& src = a.reg(16384);
  TestMr& dst = b.reg(16384);

  void SetUp() override {
    qa.connect();
    qb.connect();
    src.fill(3);
  }
  SendWr hello(std::uint32_t len = 32) { return datagram(qa, qb, {src.sge(0, len)}); }
  void expect_dropped(unsigned counter) {
    const std::uint64_t before = b.counter(counter);
    qa.post(hello());
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS) << "nobody tells a datagram's sender";
    sim.run_until_idle();
    EXPECT_EQ(b.counter(counter), before + 1);
    EXPECT_FALSE(qb.recv_cq().poll());
    EXPECT_EQ(qb.query().attr.state, TERN_QPS_RTS);
  }
  void expect_sqe(std::uint8_t status) {
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
    EXPECT_EQ(qa.query().attr.state, TERN_QPS_SQE);
  }
  void recover() {
    ASSERT_EQ(qa.to_state(TERN_QPS_RTS), TERN_ST_OK);
    qb.post_recv({dst.sge(0, 4200)});
    qa.post(hello());
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
  }
};

TEST_F(Ud, WrongQkeyIsDroppedAndCounted) {
  qb.post_recv({dst.sge(0, 200)});
  SendWr wr = hello();
  wr.ud.qkey = kQkey + 1;
  qa.post(wr);
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  sim.run_until_idle();
  EXPECT_FALSE(qb.recv_cq().poll());
  EXPECT_EQ(b.counter(TERN_CNT_QKEY_VIOLATIONS), 1U);
  EXPECT_TRUE(b.async_events().empty());
  // The WQE is still there for a sender with the right key.
  qa.post(hello());
  EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
}

TEST_F(Ud, Bit31SendsTheQpsOwnQkey) {
  tern_qp_attr attr{};
  attr.qkey = le(0x80010000U);
  ASSERT_EQ(qa.modify(attr, TERN_QPA_QKEY), TERN_ST_OK);
  ASSERT_EQ(qb.modify(attr, TERN_QPA_QKEY), TERN_ST_OK);
  qb.post_recv({dst.sge(0, 200)});
  SendWr wr = hello();
  wr.ud.qkey = kOwnQkey | 0x123;
  qa.post(wr);
  EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
  wr.ud.qkey = 0x00010000;
  qa.post(wr);
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_QKEY_VIOLATIONS), 1U);
}

TEST_F(Ud, UnusableVectors) {
  const auto post = [&](auto&& change) {
    SendWr wr = hello();
    change(wr.ud);
    qa.post(wr);
    expect_sqe(TERN_CQE_LOC_QP_OP_ERR);
    recover();
  };
  post([](tern_ud_seg& ud) { ud.av.sgid_index = le(std::uint16_t{4}); });
  post([](tern_ud_seg& ud) { ud.av.sgid_index = le(std::uint16_t{128}); });
  post([](tern_ud_seg& ud) { ud.av.sgid_index = le(std::uint16_t{0xffff}); });
  post([](tern_ud_seg& ud) { ud.av.sgid_index = le(std::uint16_t{1}); });  // the other family
  post([](tern_ud_seg& ud) { ud.dqpn = 0x1000000; });
  EXPECT_EQ(a.counter(TERN_CNT_REQ_CQE_ERROR), 5U);
}

TEST_F(Ud, AnEntryThatIsClearedIsGoneFromTheNextWqeOn) {
  qb.post_recv({dst.sge(0, 200)});
  qa.post(hello());
  EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  tern_cmd_set_gid none{};
  none.port = 1;
  ASSERT_EQ(a.command(TERN_CMD_SET_GID, none), TERN_ST_OK);
  qa.post(hello());
  expect_sqe(TERN_CQE_LOC_QP_OP_ERR);
}

TEST_F(Ud, LongerThanThePathMtu) {
  qa.post(hello(4097));
  expect_sqe(TERN_CQE_LOC_LEN_ERR);
  recover();
  // The limit is that of the port when the WQE executes.
  tern_cmd_modify_port port{.mask = le(std::uint32_t{TERN_PORT_MTU}), .mtu = le(1500U), .port = 1};
  ASSERT_EQ(a.command(TERN_CMD_MODIFY_PORT, port), TERN_ST_OK);
  qa.post(hello(1025));
  expect_sqe(TERN_CQE_LOC_LEN_ERR);
  recover();
  qb.post_recv({dst.sge(0, 2000)});
  qa.post(hello(1024));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(qb.wait_recv().byte_len), 1024 + kGrh);
  port.mtu = le(335U);
  ASSERT_EQ(a.command(TERN_CMD_MODIFY_PORT, port), TERN_ST_OK);
  qa.post(hello(1));
  expect_sqe(TERN_CQE_LOC_LEN_ERR);
}

TEST_F(Ud, WrongMemoryAndWrongOpcodes) {
  SendWr wr = hello();
  wr.sges = {{src.iova, 8, src.key + 1}};
  qa.post(wr);
  expect_sqe(TERN_CQE_LOC_PROT_ERR);
  recover();
  wr.sges = {src.sge(0, 8), {src.iova + src.length - 4, 8, src.key}};
  qa.post(wr);
  expect_sqe(TERN_CQE_LOC_PROT_ERR);
  recover();
  for (const int opcode :
       {TERN_WR_SEND_WITH_INV, TERN_WR_RDMA_WRITE, TERN_WR_RDMA_WRITE_WITH_IMM, TERN_WR_RDMA_READ,
        TERN_WR_ATOMIC_CMP_AND_SWP, TERN_WR_ATOMIC_FETCH_AND_ADD, TERN_WR_ATOMIC_WRITE,
        TERN_WR_FLUSH, TERN_WR_LOCAL_INV, TERN_WR_BIND_MW, TERN_WR_REG_MR, 0xff}) {
    SendWr other = write({src.sge(0, 8)}, dst);
    other.opcode = static_cast<std::uint8_t>(opcode);
    qa.post(other);
    expect_sqe(TERN_CQE_LOC_QP_OP_ERR);
    recover();
  }
  EXPECT_TRUE(a.async_events().empty()) << "the completion tells it";
  qa.post(SendWr{.opcode = TERN_WR_NOP, .wr_id = 8});
  EXPECT_EQ(qa.wait_send().opcode, TERN_WR_NOP);
}

// ---- the send queue error state ----

TEST_F(Ud, SqeStopsSendingAndNothingElse) {
  SendWr bad = hello();
  bad.ud.av.sgid_index = le(std::uint16_t{9});
  qa.post(hello().id(1).unsignaled(), false);
  qa.post(std::move(bad).id(2).unsignaled(), false);
  qa.post(hello().id(3).unsignaled(), false);
  qa.post(hello().id(4));
  EXPECT_EQ(le(qa.wait_send().wr_id), 2U);  // the first one was executed and is unsignaled
  for (const std::uint64_t id : {3, 4}) {
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(le(wc.wr_id), id);
  }
  EXPECT_EQ(qa.query().attr.state, TERN_QPS_SQE);
  EXPECT_EQ(qa.record_status(), 0U) << "the receive queue is not in error";
  // WQEs posted in SQE are flushed, too.
  qa.post(hello().id(5));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_WR_FLUSH_ERR);
  // Receiving continues.
  TestMr& own = a.reg(4096);
  qa.post_recv({own.sge(0, 200)}, 77);
  qb.post(datagram(qb, qa, {dst.sge(0, 10)}));
  const Wc got = qa.wait_recv();
  EXPECT_EQ(got.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(got.wr_id), 77U);
  recover();
  EXPECT_EQ(qa.query().attr.state, TERN_QPS_RTS);
}

// The CQ overruns in the middle. A device in this state could be saved, and not loaded.
TEST_F(Ud, AFlushThatTheErrorStateOvertakesHasEnded) {
  TestQp& qp = a.create_qp({.type = TERN_QPT_UD, .log_cq_size = 4});
  qp.connect();
  const SendWr good = datagram(qp, qb, {src.sge(0, 32)});
  SendWr bad = good;
  bad.ud.dqpn = 0xffffffff;
  qp.post(bad);
  EXPECT_EQ(qp.wait_send().status, TERN_CQE_LOC_QP_OP_ERR);
  for (unsigned i = 0; i < 40; ++i) qp.post(good, false);
  sim.budget = 64;
  ASSERT_EQ(qp.to_state(TERN_QPS_RTS), TERN_ST_OK);
  sim.run_until_idle();
  ASSERT_EQ(qp.query().attr.state, TERN_QPS_ERR);
  qp.post(good);
  sim.run_until_idle();
  EXPECT_TRUE(a.save_and_load());
}

TEST_F(Ud, WhatWasPostedBeforeTheReturnToRtsIsFlushed) {
  SendWr bad = hello();
  bad.ud.dqpn = 0xffffffff;
  qa.post(bad);
  expect_sqe(TERN_CQE_LOC_QP_OP_ERR);
  // Posted without a doorbell: the device has not seen them when the state changes.
  for (std::uint64_t i = 0; i < 40; ++i) qa.post(hello().id(i), false);
  sim.budget = 64;
  ASSERT_EQ(qa.to_state(TERN_QPS_RTS), TERN_ST_OK);
  qb.post_recv({dst.sge(0, 4200)});
  qa.post(hello().id(100));
  for (std::uint64_t i = 0; i < 40; ++i) {
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(le(wc.wr_id), i);
  }
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_FALSE(qb.recv_cq().poll());
}

TEST_F(Ud, FromSqeToErrAndReset) {
  SendWr bad = hello();
  bad.ud.dqpn = 0xffffffff;
  qa.post(bad);
  expect_sqe(TERN_CQE_LOC_QP_OP_ERR);
  qa.post_recv({src.sge(0, 100)}, 9);
  ASSERT_EQ(qa.to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_EQ(qa.wait_recv().status, TERN_CQE_WR_FLUSH_ERR);
  ASSERT_EQ(qa.to_state(TERN_QPS_RESET), TERN_ST_OK);
  qa.forget_posted();
  qa.connect();
  recover();
}

TEST_F(Ud, JumpOfTheIndexIsFatalAlsoFromSqe) {
  SendWr bad = hello();
  bad.ud.dqpn = 0xffffffff;
  qa.post(bad);
  expect_sqe(TERN_CQE_LOC_QP_OP_ERR);
  qa.store_sq_pi(qa.sq_posted() + 1000);
  qa.ring();
  sim.run_until_idle();
  EXPECT_EQ(qa.query().attr.state, TERN_QPS_SQE);
  ASSERT_EQ(qa.to_state(TERN_QPS_RTS), TERN_ST_OK);
  sim.run_until_idle();
  EXPECT_EQ(qa.query().attr.state, TERN_QPS_ERR);
  const auto events = a.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_QP_FATAL);
  EXPECT_EQ(le(events[0].id), qa.number());
}

// ---- the receive queue ----

TEST_F(Ud, NoWqe) {
  expect_dropped(TERN_CNT_OUT_OF_BUFFER);
  expect_dropped(TERN_CNT_OUT_OF_BUFFER);
  EXPECT_TRUE(b.async_events().empty());
}

TEST_F(Ud, TooLongForTheWqe) {
  qb.post_recv({dst.sge(0, kGrh + 31)}, 1);
  std::ranges::fill(dst.bytes(), std::byte{0xee});
  expect_dropped(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
  EXPECT_EQ(dst.bytes()[0], std::byte{0xee});
  // The WQE stays for a datagram that fits.
  qa.post(hello(31));
  const Wc wc = qb.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(wc.wr_id), 1U);
  // Not even the GRH fits.
  qb.post_recv({dst.sge(0, kGrh - 1)}, 2);
  expect_dropped(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
  // In ERR it is flushed first, being the oldest.
  qb.post_recv({dst.sge(0, 100)}, 3);
  ASSERT_EQ(qb.to_state(TERN_QPS_ERR), TERN_ST_OK);
  for (const std::uint64_t id : {2, 3}) {
    const Wc flushed = qb.wait_recv();
    EXPECT_EQ(flushed.status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(le(flushed.wr_id), id);
  }
}

TEST_F(Ud, MemoryOfTheWqeThatIsNotAllowed) {
  TestMr& read_only = b.reg(4096, {.access = 0});
  struct Case {
    std::vector<tern_sge> sges;
    const char* what;
  };
  for (const Case& c : {Case{{{dst.iova, 200, dst.key + 1}}, "wrong key"},
                        Case{{read_only.sge(0, 200)}, "no right to write"},
                        Case{{dst.sge(0, 50), {dst.iova + dst.length, 100, dst.key}}, "range"}}) {
    SCOPED_TRACE(c.what);
    qb.post_recv(c.sges, 5);
    qb.post_recv({dst.sge(0, 200)}, 6);
    qa.post(hello());
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_LOC_PROT_ERR) << status_name(wc.status);
    EXPECT_EQ(le(wc.wr_id), 5U);
    EXPECT_EQ(qb.wait_recv().status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(qb.query().attr.state, TERN_QPS_ERR);
    EXPECT_TRUE(b.async_events().empty()) << "the completion tells it";
    ASSERT_EQ(qb.to_state(TERN_QPS_RESET), TERN_ST_OK);
    qb.forget_posted();
    qb.connect();
  }
}

TEST_F(Ud, QueueThatCannotBeRead) {
  qb.store_rq_pi(1000);
  qa.post(hello());
  sim.run_until_idle();
  EXPECT_EQ(qb.query().attr.state, TERN_QPS_ERR);
  const auto events = b.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_QP_FATAL);
}

TEST_F(Ud, ReceivesFromRtrOnAndRaisesNoEvent) {
  TestQp& late = b.create_qp({.type = TERN_QPT_UD});
  const auto send_one = [&] {
    qa.post(datagram(qa, late, {src.sge(0, 8)}));
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    sim.run_until_idle();
  };
  late.post_recv({dst.sge(0, 100)});
  late.post_recv({dst.sge(0, 100)});
  send_one();
  ASSERT_EQ(late.to_init(), TERN_ST_OK);
  send_one();
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 2U);
  ASSERT_EQ(late.to_rtr(late), TERN_ST_OK);
  send_one();
  EXPECT_EQ(late.wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(b.async_events().empty()) << "datagrams establish nothing";
  ASSERT_EQ(late.to_rts(), TERN_ST_OK);
  ASSERT_EQ(late.to_state(TERN_QPS_SQD), TERN_ST_OK);
  send_one();
  EXPECT_EQ(late.wait_recv().status, TERN_CQE_SUCCESS);
}

TEST_F(Ud, ClassOfThePacketIsCompared) {
  TestQp& rc = b.create_qp();
  rc.connect(rc);
  qa.post(datagram(qa, rc, {src.sge(0, 8)}));
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 1U);
  EXPECT_EQ(rc.query().attr.state, TERN_QPS_RTS);
}

// ---- draining ----

TEST_F(Ud, SqdHoldsWhatWasNotBegun) {
  ASSERT_EQ(qa.to_state(TERN_QPS_SQD, TERN_QPM_SQD_NOTIFY), TERN_ST_OK);
  const auto events = a.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_SQ_DRAINED);
  EXPECT_EQ(qa.query().attr.sq_draining, 0);
  qb.post_recv({dst.sge(0, 100)});
  qa.post(hello());
  sim.run_until_idle();
  EXPECT_FALSE(qa.send_cq().poll());
  ASSERT_EQ(qa.to_state(TERN_QPS_RTS), TERN_ST_OK);
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
}

// ---- scheduling ----

// A QP that floods delays a connection by no more than its turn.
TEST_F(Ud, DatagramsCostTheirTurn) {
  TestQp& flood = a.create_qp({.type = TERN_QPT_UD, .log_sq_size = 10, .log_cq_size = 11});
  flood.connect();
  const auto [quick, peer] = rc_pair(a, b);
  (void)peer;
  sim.budget = 4096;
  sim.turn_time = 1000;
  for (unsigned i = 0; i < 1000; ++i)
    flood.post(datagram(flood, qb, {src.sge(0, 4096)}).unsignaled(), false);
  flood.ring();
  sim.run_for(3'000);
  unsigned between = 0;
  bool sent = false;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    if (!sent && frame.size() > 4000) ++between;
    if (frame.size() < 200) sent = true;
    return true;
  };
  quick.post(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(quick.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(sent);
  EXPECT_LE(between, 2 * (16U * 1024 / 4096) + 2);
}

// ---- the GSI QP ----

class Gsi : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  std::uint32_t pd_a = a.alloc_pd(true);
  std::uint32_t pd_b = b.alloc_pd(true);
};

TEST_F(Gsi, IsNumberOneAndAlone) {
  TestQp& gsi = a.create_qp({.pd = pd_a, .type = TERN_QPT_GSI, .qkey = 0x80010000});
  EXPECT_EQ(gsi.number(), 1U);
  EXPECT_EQ(le(a.objects().qp), 1U);
  TestQp second(a, {.pd = pd_a, .type = TERN_QPT_GSI});
  EXPECT_EQ(second.created(), TERN_ST_NO_RESOURCE);
  TestQp common(a, {.type = TERN_QPT_GSI});
  EXPECT_EQ(common.created(), TERN_ST_DENIED);
  a.destroy(gsi);
  EXPECT_EQ(le(a.objects().qp), 0U);
  EXPECT_EQ(common.created(), TERN_ST_DENIED);
  EXPECT_EQ(a.create_qp().number(), 2U) << "its number is for nobody else";
  EXPECT_EQ(a.create_qp({.pd = pd_a, .type = TERN_QPT_GSI}).number(), 1U);
}

TEST_F(Gsi, TalksToItsLikeWithKernelMemory) {
  QpOptions options{.pd = pd_a, .type = TERN_QPT_GSI, .qkey = 0x80010000};
  TestQp& ga = a.create_qp(options);
  options.pd = pd_b;
  TestQp& gb = b.create_qp(options);
  ga.connect();
  gb.connect();
  const std::uint64_t from = a.host.alloc(4096);
  const std::uint64_t to = b.host.alloc(4096);
  std::memset(a.host.at(from), 0x33, 256);
  gb.post_recv({{to, 40, TERN_LKEY_DMA}, {to + 1024, 256, TERN_LKEY_DMA}});
  SendWr wr = datagram(ga, gb, {{from, 256, TERN_LKEY_DMA}});
  wr.ud.qkey = kOwnQkey;
  ga.post(wr);
  EXPECT_EQ(ga.wait_send().status, TERN_CQE_SUCCESS);
  const Wc wc = gb.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(wc.src_qp), 1U);
  EXPECT_EQ(le(wc.qpn), 1U);
  EXPECT_EQ(le(wc.byte_len), 296U);
  EXPECT_EQ(std::memcmp(b.host.at(to + 1024), a.host.at(from), 256), 0);
}

TEST_F(Gsi, WithoutOneItsPacketsAreNobodys) {
  TestQp& ud = a.create_qp({.type = TERN_QPT_UD});
  ud.connect();
  TestMr& src = a.reg(64);
  SendWr wr = datagram(ud, ud, {src.sge()});
  wr.ud.dqpn = 1;
  ud.post(wr);
  EXPECT_EQ(ud.wait_send().status, TERN_CQE_SUCCESS);
  wr.ud.dqpn = 0;
  ud.post(wr);
  sim.run_until_idle();
  EXPECT_EQ(a.counter(TERN_CNT_RX_QP_MISMATCH), 2U);
}

// ---- transitions ----

TEST_F(Ud, AttributesOfEachTransition) {
  TestQp& qp = a.create_qp({.type = TERN_QPT_UD});
  tern_qp_attr attr{};
  const auto go = [&](std::uint8_t state, std::uint32_t mask) {
    attr.state = state;
    return qp.modify(attr, mask | TERN_QPA_STATE);
  };
  attr.port = 1;
  EXPECT_EQ(go(TERN_QPS_INIT, TERN_QPA_PKEY_INDEX | TERN_QPA_PORT), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_INIT, TERN_QPA_PKEY_INDEX | TERN_QPA_QKEY), TERN_ST_BAD_PARAM);
  EXPECT_EQ(
      go(TERN_QPS_INIT, TERN_QPA_PKEY_INDEX | TERN_QPA_PORT | TERN_QPA_QKEY | TERN_QPA_ACCESS),
      TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTR, 0), TERN_ST_BAD_STATE);
  EXPECT_EQ(go(TERN_QPS_INIT, TERN_QPA_PKEY_INDEX | TERN_QPA_PORT | TERN_QPA_QKEY), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_INIT, TERN_QPA_QKEY), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_RTR, TERN_QPA_AV), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTR, TERN_QPA_PATH_MTU), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTR, TERN_QPA_PKEY_INDEX | TERN_QPA_QKEY), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_SQE, 0), TERN_ST_BAD_STATE);
  EXPECT_EQ(go(TERN_QPS_RTS, 0), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTS, TERN_QPA_SQ_PSN | TERN_QPA_TIMEOUT), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTS, TERN_QPA_SQ_PSN | TERN_QPA_QKEY), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_RTS, TERN_QPA_QKEY), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_SQE, 0), TERN_ST_BAD_STATE) << "only the device enters it";
  EXPECT_EQ(go(TERN_QPS_SQD, TERN_QPA_QKEY), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_SQD, 0), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_SQD, TERN_QPA_PKEY_INDEX | TERN_QPA_QKEY), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_RTS, TERN_QPA_QKEY), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_ERR, 0), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_RTS, 0), TERN_ST_BAD_STATE);
  EXPECT_EQ(go(TERN_QPS_RESET, 0), TERN_ST_OK);
}

}  // namespace
}  // namespace tern
