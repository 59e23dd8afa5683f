// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/addresses.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/packet_samples.h"

namespace tern {
namespace {

constexpr Mac kMac = {0x52, 0x54, 0, 0x77, 0, 1};

tern_cmd_set_gid entry(std::uint16_t index, bool ipv4, std::uint8_t last,
                       std::uint16_t vlan = TERN_VLAN_NONE) {
  tern_cmd_set_gid cmd{.index = le(index),
                       .valid = 1,
                       .net_type = static_cast<std::uint8_t>(ipv4 ? TERN_NET_IPV4 : TERN_NET_IPV6),
                       .vlan = le(vlan),
                       .port = 1};
  std::ranges::copy(kMac, cmd.mac);
  std::ranges::copy(sample_gid(ipv4, last), cmd.gid);
  return cmd;
}

tern_av av_to(const Gid& dgid, std::uint16_t sgid_index) {
  tern_av av{};
  std::ranges::copy(dgid, av.dgid);
  av.sgid_index = le(sgid_index);
  av.hop_limit = 9;
  av.traffic_class = 0x22;
  av.sl = 3;
  av.port = 1;
  av.dmac[5] = 0x42;
  return av;
}

class PortTest : public ::testing::Test {
 protected:
  Addresses port{kMac, 9000, 100000};
};

TEST_F(PortTest, StartsDown) {
  EXPECT_FALSE(port.active());
  EXPECT_EQ(port.mtu(), 1500U);
  EXPECT_EQ(port.gid_count(), 0U);
  tern_rsp_port rsp{};
  port.query(&rsp);
  EXPECT_EQ(rsp.link_up, 0);
  EXPECT_EQ(le(rsp.mtu), 1500U);
  EXPECT_EQ(le(rsp.max_mtu), 9000U);
  EXPECT_EQ(le(rsp.speed), 100000U);
  EXPECT_TRUE(std::ranges::equal(rsp.mac, kMac));
}

TEST_F(PortTest, ModifiesWhatTheMaskNames) {
  tern_cmd_modify_port cmd{};
  cmd.mtu = le(1U);  // not in the mask
  cmd.port = 1;
  cmd.mask = le(TERN_PORT_ENABLE);
  cmd.enable = 1;
  EXPECT_EQ(port.modify(cmd), TERN_ST_OK);
  EXPECT_TRUE(port.enabled());
  EXPECT_FALSE(port.active());
  port.set_link(true);
  EXPECT_TRUE(port.active());
  EXPECT_EQ(port.mac(), kMac);

  cmd.mask = le(TERN_PORT_MTU | TERN_PORT_MAC);
  cmd.mtu = le(9000U);
  cmd.mac[0] = 0x02;
  cmd.enable = 0;
  EXPECT_EQ(port.modify(cmd), TERN_ST_OK);
  EXPECT_EQ(port.mtu(), 9000U);
  EXPECT_EQ(port.mac()[0], 0x02);
  EXPECT_TRUE(port.enabled());
  EXPECT_EQ(port.permanent_mac(), kMac);

  port.reset();
  EXPECT_EQ(port.mac(), kMac);
  EXPECT_EQ(port.mtu(), 1500U);
  EXPECT_FALSE(port.enabled());
  EXPECT_TRUE(port.link_up());
}

TEST_F(PortTest, RefusesBadValuesWhole) {
  tern_cmd_modify_port cmd{};
  const auto refuse = [&](auto change) {
    cmd = {};
    cmd.mask = le(TERN_PORT_MTU | TERN_PORT_MAC | TERN_PORT_ENABLE);
    cmd.mtu = le(4000U);
    cmd.mac[0] = 0x02;
    cmd.port = 1;
    change();
    EXPECT_EQ(port.modify(cmd), TERN_ST_BAD_PARAM);
    EXPECT_EQ(port.mtu(), 1500U);
    EXPECT_EQ(port.mac(), kMac);
  };
  refuse([&] { cmd.mask |= le(8U); });
  refuse([&] { cmd.port = 0; });
  refuse([&] { cmd.port = 2; });
  refuse([&] { cmd.mtu = le(67U); });
  refuse([&] { cmd.mtu = le(9001U); });
  refuse([&] { cmd.mac[0] = 0x01; });
  refuse([&] { cmd.mac[0] = 0x00; });
  refuse([&] { cmd.enable = 2; });
}

TEST_F(PortTest, GidTable) {
  EXPECT_EQ(port.set_gid(entry(0, false, 1)), TERN_ST_OK);
  EXPECT_EQ(port.set_gid(entry(127, true, 1)), TERN_ST_OK);
  EXPECT_EQ(port.set_gid(entry(5, true, 1, 100)), TERN_ST_OK);
  EXPECT_EQ(port.gid_count(), 3U);
  EXPECT_EQ(port.find_gid(sample_gid(true, 1), TERN_VLAN_NONE), 127);
  EXPECT_EQ(port.find_gid(sample_gid(true, 1), 100), 5);
  EXPECT_EQ(port.find_gid(sample_gid(true, 1), 101), std::nullopt);
  EXPECT_EQ(port.find_gid(sample_gid(false, 2), TERN_VLAN_NONE), std::nullopt);

  tern_cmd_set_gid clear{.index = le(std::uint16_t{5}), .port = 1};
  EXPECT_EQ(port.set_gid(clear), TERN_ST_OK);
  EXPECT_EQ(port.set_gid(clear), TERN_ST_OK);
  EXPECT_EQ(port.gid_count(), 2U);
  EXPECT_EQ(port.find_gid(sample_gid(true, 1), 100), std::nullopt);
  port.reset();
  EXPECT_EQ(port.gid_count(), 0U);
}

TEST_F(PortTest, RefusesBadGids) {
  const auto refuse = [&](tern_cmd_set_gid cmd, auto change) {
    change(cmd);
    EXPECT_EQ(port.set_gid(cmd), TERN_ST_BAD_PARAM);
    EXPECT_EQ(port.gid_count(), 0U);
  };
  const auto v4 = entry(3, true, 1), v6 = entry(3, false, 1);
  refuse(v4, [](auto& c) { c.index = le(std::uint16_t{128}); });
  refuse(v4, [](auto& c) { c.valid = 2; });
  refuse(v4, [](auto& c) { c.net_type = 0; });
  refuse(v4, [](auto& c) { c.net_type = 3; });
  refuse(v4, [](auto& c) { c.net_type = TERN_NET_IPV6; });
  refuse(v6, [](auto& c) { c.net_type = TERN_NET_IPV4; });
  refuse(v4, [](auto& c) { c.vlan = le(std::uint16_t{0}); });
  refuse(v4, [](auto& c) { c.vlan = le(std::uint16_t{4095}); });
  refuse(v4, [](auto& c) { c.mac[0] |= 1; });
  refuse(v6, [](auto& c) { std::ranges::fill(c.mac, 0); });
  refuse(v6, [](auto& c) { std::ranges::fill(c.gid, 0); });
  refuse(v6, [](auto& c) { c.rsvd_d[2] = 1; });
  refuse(v6, [](auto& c) { c.port = 0; });
  refuse(v6, [](auto& c) { c.port = 2; });
}

TEST_F(PortTest, ResolvesRoutes) {
  ASSERT_EQ(port.set_gid(entry(1, true, 1, 100)), TERN_ST_OK);
  tern_av av = av_to(sample_gid(true, 2), 1);
  av.flow_label = le(0xffffffffU);
  const auto r = port.resolve(av, 1, Qpn(2), Qpn(3));
  ASSERT_TRUE(r);
  EXPECT_EQ(r->sgid, sample_gid(true, 1));
  EXPECT_EQ(r->dgid, sample_gid(true, 2));
  EXPECT_EQ(r->smac, kMac);
  EXPECT_EQ(r->dmac[5], 0x42);
  EXPECT_EQ(r->vlan, 100);
  EXPECT_EQ(r->flow_label, 0xfffffU);
  EXPECT_EQ(r->sgid_index, 1);
  EXPECT_EQ(r->traffic_class, 0x22);
  EXPECT_EQ(r->hop_limit, 9);
  EXPECT_EQ(r->sl, 3);
  EXPECT_TRUE(r->ipv4);
  EXPECT_FALSE(r->local);
}

TEST_F(PortTest, RoutesNeedASourceOfTheSameFamily) {
  ASSERT_EQ(port.set_gid(entry(1, true, 1)), TERN_ST_OK);
  ASSERT_EQ(port.set_gid(entry(2, false, 1)), TERN_ST_OK);
  const auto ok = [&](bool ipv4, std::uint16_t index) {
    return port.resolve(av_to(sample_gid(ipv4, 2), index), 1, Qpn(2), Qpn(3)).has_value();
  };
  EXPECT_TRUE(ok(true, 1));
  EXPECT_TRUE(ok(false, 2));
  EXPECT_FALSE(ok(false, 1));
  EXPECT_FALSE(ok(true, 2));
  EXPECT_FALSE(ok(true, 0));
  EXPECT_FALSE(ok(true, 128));
  EXPECT_FALSE(ok(true, 0xffff));
}

TEST_F(PortTest, LocalMeansAnyOwnGidOnThatVlan) {
  ASSERT_EQ(port.set_gid(entry(1, true, 1)), TERN_ST_OK);
  ASSERT_EQ(port.set_gid(entry(2, true, 9)), TERN_ST_OK);
  ASSERT_EQ(port.set_gid(entry(3, true, 7, 100)), TERN_ST_OK);
  const auto local = [&](std::uint8_t last, std::uint16_t index) {
    return port.resolve(av_to(sample_gid(true, last), index), 1, Qpn(2), Qpn(3))->local;
  };
  EXPECT_TRUE(local(1, 1));
  EXPECT_TRUE(local(9, 1));
  EXPECT_FALSE(local(7, 1));
  EXPECT_TRUE(local(7, 3));
  EXPECT_FALSE(local(1, 3));
}

TEST_F(PortTest, SourcePortFollowsFlowLabelOrQueuePairs) {
  ASSERT_EQ(port.set_gid(entry(1, true, 1)), TERN_ST_OK);
  tern_av av = av_to(sample_gid(true, 2), 1);
  const auto sport = [&](std::uint32_t a, std::uint32_t b) {
    return port.resolve(av, 1, Qpn(a), Qpn(b))->udp_sport;
  };
  EXPECT_EQ(sport(0x10, 0x11), 0xc000 | 0x110);
  EXPECT_EQ(sport(0x10, 0x11), sport(0x11, 0x10));
  // 0x123456 * 0xabcdef = 0xc379aaaaaaaa... folded at 20 and 40 bits, then at 14.
  const std::uint64_t v = 0x123456ULL * 0xabcdefULL;
  const std::uint64_t f = v ^ (v >> 20);
  const std::uint32_t label = (f ^ (f >> 40)) & 0xfffff;
  EXPECT_EQ(sport(0x123456, 0xabcdef), 0xc000 | ((label & 0x3fff) ^ (label >> 14)));
  av.flow_label = le(0xabcdeU);
  EXPECT_EQ(sport(0x10, 0x11), 0xc000 | (0x3cde ^ 0x2a));
  av.udp_sport = le(std::uint16_t{1234});
  EXPECT_EQ(sport(0x10, 0x11), 1234);
}

}  // namespace
}  // namespace tern
