// SPDX-License-Identifier: GPL-2.0-or-later
// Multicast of UD QPs: which QPs get a copy, over the wire and in loopback, what the Ethernet
// function receives, and the commands with their limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "core/limits.h"
#include "testing/eth_queue.h"
#include "tests/mini_driver.h"
#include "wire/codec.h"

namespace tern {
namespace {

constexpr std::uint32_t kGrh = 40;
constexpr std::uint32_t kEveryone = 0xffffff;

constexpr Gid kGroup6 = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 0x11, 0x22, 0x33};
constexpr Gid kGroup4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 77, 0, 9};

Mac mac_of(const Gid& group) {
  if (group[0] == 0xff) return {0x33, 0x33, group[12], group[13], group[14], group[15]};
  return {0x01, 0x00, 0x5e, static_cast<std::uint8_t>(group[13] & 0x7f), group[14], group[15]};
}

class Mcast : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim, {.unfinished_frames = true}};
  TestNode b{sim};
  TestMr& src = a.reg(4096);

  void SetUp() override { src.fill(5); }

  static TestQp& ud(TestNode& node, QpOptions options = {}) {
    options.type = TERN_QPT_UD;
    TestQp& qp = node.create_qp(options);
    qp.connect();
    return qp;
  }
  static Status command(std::uint16_t opcode, Driver& node, const Gid& group, std::uint32_t qpn) {
    tern_cmd_mcast cmd{};
    cmd.port = 1;
    std::ranges::copy(group, cmd.gid);
    cmd.qpn = le(qpn);
    return node.command(opcode, cmd);
  }
  static Status attach(TestQp& qp, const Gid& group) {
    return command(TERN_CMD_ATTACH_MCAST, qp.node(), group, qp.number());
  }
  static Status detach(TestQp& qp, const Gid& group) {
    return command(TERN_CMD_DETACH_MCAST, qp.node(), group, qp.number());
  }
  // A datagram to a group, from the source GID in the QP's options.
  SendWr to_group(TestQp& from, const Gid& group, std::uint32_t len = 100) {
    SendWr wr = datagram(from, from, {src.sge(0, len)});
    std::ranges::copy(group, wr.ud.av.dgid);
    std::ranges::copy(mac_of(group), wr.ud.av.dmac);
    wr.ud.dqpn = kEveryone;
    return wr;
  }
  void send_to(TestQp& from, const Gid& group) {
    from.post(to_group(from, group));
    EXPECT_EQ(from.wait_send().status, TERN_CQE_SUCCESS);
    sim.run_until_idle();
  }
  // Posts a receive, which expect_copy() checks.
  TestMr& post(TestQp& qp) {
    TestMr& mr = qp.node().reg(512);
    qp.post_recv({mr.sge()});
    return mr;
  }
  void expect_copy(TestQp& qp, const TestMr& mr, const TestQp& from) {
    const auto wc = qp.recv_cq().poll();
    ASSERT_TRUE(wc) << "no copy";
    EXPECT_EQ(wc->status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc->byte_len), kGrh + 100);
    EXPECT_EQ(le(wc->src_qp), from.number());
    EXPECT_TRUE(same_bytes(mr.bytes(kGrh, 100), src.bytes(0, 100)));
    EXPECT_FALSE(qp.recv_cq().poll()) << "one copy";
  }
};

TEST_F(Mcast, EachMemberGetsACopyTheSenderToo) {
  for (const Gid& group : {kGroup6, kGroup4}) {
    SCOPED_TRACE(group[0]);
    const auto gid_index = static_cast<std::uint16_t>(group[0] == 0xff ? 0 : 1);
    TestQp& sender = ud(a, {.gid_index = gid_index});
    TestQp& neighbour = ud(a);
    TestQp& stranger = ud(a);
    TestQp& far1 = ud(b);
    TestQp& far2 = ud(b);
    for (TestQp* const qp : {&sender, &neighbour, &far1, &far2}) {
      ASSERT_EQ(attach(*qp, group), TERN_ST_OK);
      EXPECT_EQ(attach(*qp, group), TERN_ST_OK) << "the same attachment twice is one";
    }
    EXPECT_EQ(le(a.objects().mcast), 2U);
    TestMr& own = post(sender);
    TestMr& near = post(neighbour);
    TestMr& nobodys = post(stranger);
    TestMr& m1 = post(far1);
    TestMr& m2 = post(far2);
    const std::uint64_t frames = sim.stats.sent;
    send_to(sender, group);
    EXPECT_EQ(sim.stats.sent, frames + 1) << "one frame for all";
    expect_copy(sender, own, sender);
    expect_copy(neighbour, near, sender);
    expect_copy(far1, m1, sender);
    expect_copy(far2, m2, sender);
    EXPECT_FALSE(stranger.recv_cq().poll());
    EXPECT_EQ(nobodys.bytes()[kGrh], std::byte{0});
    // The GRH contains the group.
    EXPECT_TRUE(same_bytes(m1.bytes(36, 4), std::as_bytes(std::span(group)).last(4)));
    for (TestQp* const qp : {&sender, &neighbour, &stranger, &far1, &far2}) qp->node().destroy(*qp);
    EXPECT_EQ(le(a.objects().mcast), 0U) << "attachments end with their QPs";
    EXPECT_EQ(le(b.objects().mcast), 0U);
  }
}

TEST_F(Mcast, ASenderThatWantsNoCopyOfItsOwn) {
  TestQp& shy = ud(a, {.flags = TERN_QP_F_NO_MCAST_LOOPBACK});
  TestQp& far = ud(b, {.flags = TERN_QP_F_NO_MCAST_LOOPBACK});
  for (TestQp* const qp : {&shy, &far}) ASSERT_EQ(attach(*qp, kGroup6), TERN_ST_OK);
  TestMr& own = post(shy);
  TestMr& m = post(far);
  send_to(shy, kGroup6);
  expect_copy(far, m, shy);
  EXPECT_FALSE(shy.recv_cq().poll());
  EXPECT_EQ(a.counter(TERN_CNT_RX_QP_MISMATCH), 0U) << "there is a group";
  // A neighbour with the flag gets the copy, and the sender those of others.
  TestQp& neighbour = ud(a, {.flags = TERN_QP_F_NO_MCAST_LOOPBACK});
  ASSERT_EQ(attach(neighbour, kGroup6), TERN_ST_OK);
  TestMr& near = post(neighbour);
  send_to(shy, kGroup6);
  expect_copy(neighbour, near, shy);
  EXPECT_FALSE(shy.recv_cq().poll());
  send_to(neighbour, kGroup6);
  expect_copy(shy, own, neighbour);
  (void)post(shy);
  // A frame of another port with the same QP number in it.
  SendWr from_far = to_group(far, kGroup6);
  from_far.sges = {b.reg(4096).sge(0, 100)};
  far.post(from_far);
  sim.run_until_idle();
  EXPECT_TRUE(shy.recv_cq().poll());
}

TEST_F(Mcast, AMemberMaySendNothingAndASenderBeNoMember) {
  TestQp& sender = ud(a);
  TestQp& member = ud(b);
  ASSERT_EQ(attach(member, kGroup6), TERN_ST_OK);
  TestMr& mr = post(member);
  send_to(sender, kGroup6);
  expect_copy(member, mr, sender);
  EXPECT_EQ(a.counter(TERN_CNT_RX_RDMA_PACKETS), 0U);
}

TEST_F(Mcast, QkeysWqesAndStatesAreEachMembersOwn) {
  TestQp& sender = ud(a);
  TestQp& good = ud(b);
  TestQp& other_key = ud(b, {.qkey = 0x2222});
  TestQp& no_wqe = ud(b);
  TestQp& not_ready = b.create_qp({.type = TERN_QPT_UD});
  TestQp& wrong_memory = ud(b);
  for (TestQp* const qp : {&wrong_memory, &other_key, &no_wqe, &not_ready, &good}) {
    ASSERT_EQ(attach(*qp, kGroup6), TERN_ST_OK);
  }
  wrong_memory.post_recv({{0x1000, 512, 0x12345678}});
  (void)post(other_key);
  TestMr& mr = post(good);
  send_to(sender, kGroup6);
  expect_copy(good, mr, sender);
  EXPECT_EQ(b.counter(TERN_CNT_QKEY_VIOLATIONS), 1U);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U);
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 1U);
  EXPECT_EQ(wrong_memory.wait_recv().status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(b.counter(TERN_CNT_RX_RDMA_PACKETS), 1U);
}

TEST_F(Mcast, DetachEndsIt) {
  TestQp& sender = ud(a);
  TestQp& one = ud(b);
  TestQp& two = ud(b);
  ASSERT_EQ(attach(one, kGroup6), TERN_ST_OK);
  ASSERT_EQ(attach(two, kGroup6), TERN_ST_OK);
  ASSERT_EQ(attach(two, kGroup4), TERN_ST_OK);
  EXPECT_EQ(le(b.objects().mcast), 3U);
  ASSERT_EQ(detach(one, kGroup6), TERN_ST_OK);
  EXPECT_EQ(detach(one, kGroup6), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(detach(one, kGroup4), TERN_ST_BAD_HANDLE);
  (void)post(one);
  TestMr& mr = post(two);
  send_to(sender, kGroup6);
  EXPECT_FALSE(one.recv_cq().poll());
  expect_copy(two, mr, sender);
  // Attachments survive RESET.
  ASSERT_EQ(two.to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(le(b.objects().mcast), 2U);
  ASSERT_EQ(detach(two, kGroup6), TERN_ST_OK);
  ASSERT_EQ(detach(two, kGroup4), TERN_ST_OK);
  EXPECT_EQ(le(b.objects().mcast), 0U);
}

TEST_F(Mcast, OnlyPacketsToEveryoneInTheVlanOfAnEntry) {
  TestQp& sender = ud(a);
  TestQp& on_vlan = ud(a, {.gid_index = 3});
  TestQp& member = ud(b);
  ASSERT_EQ(attach(member, kGroup6), TERN_ST_OK);
  // To the member's number, but with the group's address.
  (void)post(member);
  SendWr wr = to_group(sender, kGroup6);
  wr.ud.dqpn = member.number();
  sender.post(wr);
  // To the multicast number, but with a unicast address.
  wr = datagram(sender, member, {src.sge(0, 8)});
  wr.ud.dqpn = kEveryone;
  sender.post(wr);
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 2U);
  EXPECT_FALSE(member.recv_cq().poll());
  // b has GIDs on the VLAN and without VLAN, so it receives both.
  send_to(on_vlan, kGroup6);
  const auto wc = member.recv_cq().poll();
  ASSERT_TRUE(wc);
  EXPECT_TRUE(wc->flags & TERN_CQE_F_VLAN);
  EXPECT_EQ(le(wc->vlan), TestNode::kVlan);
  // Without GIDs on the VLAN, b does not receive from it.
  for (const std::uint16_t index : std::array<std::uint16_t, 2>{2, 3}) {
    tern_cmd_set_gid cmd{.index = le(index), .port = 1};
    ASSERT_EQ(b.command(TERN_CMD_SET_GID, cmd), TERN_ST_OK);
  }
  (void)post(member);
  send_to(on_vlan, kGroup6);
  EXPECT_FALSE(member.recv_cq().poll());
}

TEST_F(Mcast, TheEthernetFunctionSeesThemIfItsFilterWants) {
  TestQp& sender = ud(a);
  TestQp& member = ud(b);
  TestCq& cq = b.create_cq();
  TestEthQueue rx(b, TERN_ETH_QUEUE_RX, cq);
  ASSERT_EQ(rx.created(), TERN_ST_OK);
  for (int i = 0; i < 4; ++i) rx.post_buffer();
  ASSERT_EQ(attach(member, kGroup6), TERN_ST_OK);
  TestMr& unwanted = post(member);
  send_to(sender, kGroup6);
  expect_copy(member, unwanted, sender);
  EXPECT_FALSE(cq.poll());
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FILTERED), 1U);
  tern_cmd_set_rx_filter filter{.num_macs = le(std::uint16_t{1}), .port = 1};
  std::ranges::copy(mac_of(kGroup6), filter.macs[0]);
  ASSERT_EQ(b.command(TERN_CMD_SET_RX_FILTER, filter), TERN_ST_OK);
  TestMr& wanted = post(member);
  send_to(sender, kGroup6);
  expect_copy(member, wanted, sender);
  const auto wc = cq.poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->opcode, TERN_ETH_RX);
  const auto frame = rx.received(*wc);
  EXPECT_EQ(frame[0], std::byte{0x33});
  Packet packet(b.host);
  EXPECT_EQ(parse_packet(frame, packet), ParseResult::kOk) << "with its ICRC";
  // A group without members belongs to the Ethernet function, whatever the frame contains.
  ASSERT_EQ(detach(member, kGroup6), TERN_ST_OK);
  const std::uint64_t packets = b.counter(TERN_CNT_RX_RDMA_PACKETS);
  send_to(sender, kGroup6);
  EXPECT_TRUE(cq.poll());
  EXPECT_EQ(b.counter(TERN_CNT_RX_RDMA_PACKETS), packets);
}

TEST_F(Mcast, DamagedFramesReachNoMember) {
  TestQp& sender = ud(a);
  TestQp& member = ud(b);
  ASSERT_EQ(attach(member, kGroup4), TERN_ST_OK);
  ASSERT_EQ(attach(member, kGroup6), TERN_ST_OK);
  (void)post(member);
  std::vector<std::byte> frame;
  sim.pass = [&](unsigned, std::span<const std::byte> f) {
    frame.assign(f.begin(), f.end());
    return false;
  };
  send_to(sender, kGroup6);
  ASSERT_FALSE(frame.empty());
  frame[frame.size() - 6] ^= std::byte{1};
  b.receive(frame);
  EXPECT_EQ(b.counter(TERN_CNT_RX_ICRC_ERRORS), 1U);
  frame[14 + 40 + 8] = std::byte{0xff};  // not an opcode
  b.receive(frame);
  EXPECT_EQ(b.counter(TERN_CNT_RX_MALFORMED), 1U);
  EXPECT_FALSE(member.recv_cq().poll());
}

TEST_F(Mcast, CommandsCheckWhatTheyAreGiven) {
  TestQp& qp = ud(a);
  TestQp& rc = a.create_qp();
  TestQp& gsi = a.create_qp({.pd = a.alloc_pd(true), .type = TERN_QPT_GSI});
  const Gid zero{};
  Gid class_c = kGroup4;
  class_c[12] = 192;
  Gid not_mapped = kGroup4;
  not_mapped[3] = 1;
  for (const std::uint16_t opcode :
       std::array<std::uint16_t, 2>{TERN_CMD_ATTACH_MCAST, TERN_CMD_DETACH_MCAST}) {
    for (const Gid& gid : {zero, class_c, not_mapped, a.gid(0), a.gid(1)}) {
      EXPECT_EQ(command(opcode, a, gid, qp.number()), TERN_ST_BAD_PARAM);
    }
    EXPECT_EQ(command(opcode, a, kGroup6, 0), TERN_ST_BAD_HANDLE);
    EXPECT_EQ(command(opcode, a, kGroup6, kEveryone), TERN_ST_BAD_HANDLE);
    EXPECT_EQ(command(opcode, a, kGroup6, 0x1000002), TERN_ST_BAD_HANDLE);
    EXPECT_EQ(command(opcode, a, kGroup6, rc.number()), TERN_ST_BAD_PARAM);
    EXPECT_EQ(command(opcode, a, kGroup6, gsi.number()), TERN_ST_BAD_PARAM);
  }
  EXPECT_EQ(le(a.objects().mcast), 0U);
}

TEST_F(Mcast, Limits) {
  EXPECT_EQ(le(a.caps().max_mcast_grp), kMaxMcastGroups);
  EXPECT_EQ(le(a.caps().max_mcast_qp_attach), kMaxMcastQps);
  std::vector<TestQp*> qps;
  for (std::uint32_t i = 0; i <= kMaxMcastQps; ++i) {
    qps.push_back(&a.create_qp({.type = TERN_QPT_UD, .log_cq_size = 2}));
    EXPECT_EQ(attach(*qps[i], kGroup6), i < kMaxMcastQps ? TERN_ST_OK : TERN_ST_NO_RESOURCE);
  }
  EXPECT_EQ(attach(*qps[0], kGroup6), TERN_ST_OK) << "it is in already";
  a.destroy(*qps[0]);
  EXPECT_EQ(attach(*qps[kMaxMcastQps], kGroup6), TERN_ST_OK);
  Gid group = kGroup4;
  for (std::uint32_t i = 1; i <= kMaxMcastGroups; ++i) {
    group[14] = static_cast<std::uint8_t>(i >> 8);
    group[15] = static_cast<std::uint8_t>(i);
    EXPECT_EQ(attach(*qps[1], group), i < kMaxMcastGroups ? TERN_ST_OK : TERN_ST_NO_RESOURCE) << i;
  }
  EXPECT_EQ(le(a.objects().mcast), kMaxMcastQps + kMaxMcastGroups - 1);
  a.destroy(*qps[1]);
  EXPECT_EQ(le(a.objects().mcast), kMaxMcastQps - 1);
  EXPECT_EQ(attach(*qps[2], group), TERN_ST_OK);
}

// The copy for each member is charged to the sender's turn.
TEST_F(Mcast, CopiesCostTheSendersTurn) {
  TestQp& flood = ud(a, {.log_sq_size = 10, .log_cq_size = 11});
  std::vector<TestQp*> members;
  for (unsigned i = 0; i < 15; ++i) {
    members.push_back(&ud(a));
    ASSERT_EQ(attach(*members.back(), kGroup6), TERN_ST_OK);
  }
  const auto [quick, peer] = rc_pair(a, b);
  (void)peer;
  TestMr& dst = b.reg(64);
  sim.budget = 4096;
  sim.turn_time = 1000;
  for (unsigned i = 0; i < 1000; ++i)
    flood.post(to_group(flood, kGroup6, 1024).unsignaled(), false);
  flood.ring();
  sim.run_for(3'000);
  const std::uint64_t before = a.device.counters().rdma[TERN_CNT_OUT_OF_BUFFER];
  quick.post(write({src.sge(0, 8)}, dst));
  sim.run_until([&] { return b.device.counters().rdma[TERN_CNT_RX_WRITE_REQUESTS] != 0; });
  // A turn of 16 KiB is one datagram to a sender and 15 members; a few may be sent until the WRITE
  // has crossed the wire.
  EXPECT_LE(a.device.counters().rdma[TERN_CNT_OUT_OF_BUFFER] - before, 15U * 8);
}

TEST_F(Mcast, ResetOfTheDeviceForgetsGroups) {
  TestQp& qp = ud(a);
  ASSERT_EQ(attach(qp, kGroup6), TERN_ST_OK);
  a.device.reset();
  EXPECT_EQ(a.device.port.multicast.attachments(), 0U);
}

// A frame costs as much as all its receivers.
TEST_F(Mcast, EachCopyIsCharged) {
  TestQp& from = ud(a);
  for (std::uint32_t i = 0; i < kMaxMcastQps; ++i) {
    ASSERT_EQ(attach(ud(b, {.log_cq_size = 2}), kGroup6), TERN_ST_OK);
  }
  std::uint64_t cost = 0;
  std::size_t size = 0;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    size = frame.size();
    cost = b.device.receive_more(frame);
    b.device.end_burst();
    return false;
  };
  from.post(to_group(from, kGroup6, 100));
  EXPECT_EQ(from.wait_send().status, TERN_CQE_SUCCESS);
  sim.run_until_idle();
  EXPECT_EQ(cost, kMaxMcastQps * (100 + 64U));
  // One without receivers costs its bytes.
  Gid nobody = kGroup6;
  nobody[15] ^= 1;
  from.post(to_group(from, nobody, 100));
  sim.run_until_idle();
  EXPECT_EQ(cost, size);
}

// One process may fill the table of groups. To destroy a QP of another one must not search it.
TEST_F(Mcast, AQpLeavesItsGroupsOnly) {
  TestQp& many = ud(b);
  TestQp& few = ud(b);
  Multicast& groups = b.device.port.multicast;
  const auto time = [&] {
    double best = 1e9;
    for (unsigned run = 0; run < 50; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      const Qp* const qp = b.device.registry.qps.find(few.number());
      groups.forget(*qp);
      const auto end = std::chrono::steady_clock::now();
      best = std::min(best, std::chrono::duration<double, std::nano>(end - begin).count());
    }
    return best;
  };
  Gid group = kGroup6;
  const double alone = time();
  for (std::uint32_t i = 0; i < kMaxMcastGroups; ++i) {
    group[1] = static_cast<std::uint8_t>(i >> 8);
    group[2] = static_cast<std::uint8_t>(i);
    ASSERT_EQ(groups.attach(group, *b.device.registry.qps.find(many.number())), TERN_ST_OK);
  }
  EXPECT_LT(time(), 50 * std::max(alone, 20.0));
  const std::uint64_t visits = b.device.datapath.visits;
  b.destroy(few);
  EXPECT_EQ(b.device.datapath.visits, visits);
  b.destroy(many);
  EXPECT_EQ(b.device.datapath.visits - visits, kMaxMcastGroups);
  EXPECT_EQ(groups.attachments(), 0U);
}

}  // namespace
}  // namespace tern
