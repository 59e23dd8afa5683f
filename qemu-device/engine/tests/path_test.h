// SPDX-License-Identifier: GPL-2.0-or-later
// A connection over the wire or in loopback, at any path MTU and with addresses of any kind.
#pragma once

#include <array>
#include <string>

#include "tests/mini_driver.h"

namespace tern {

struct PathParam {
  bool loopback;
  unsigned log_mtu;
  std::uint16_t gid_index;
};

inline std::string name_of(const ::testing::TestParamInfo<PathParam>& info) {
  constexpr std::array gids = {"Ipv6", "Ipv4", "Ipv4Vlan", "Ipv6Vlan"};
  return std::string(info.param.loopback ? "Inside" : "Wire") + gids.at(info.param.gid_index) +
         "Mtu" + std::to_string(1U << info.param.log_mtu);
}

class PathTest : public ::testing::TestWithParam<PathParam> {
 protected:
  static constexpr std::byte kUntouched{0};

  PathTest(std::uint8_t qp_type, std::uint64_t region)
      : qps(rc_pair(
            a, b,
            {.type = qp_type, .log_mtu = GetParam().log_mtu, .gid_index = GetParam().gid_index})),
        src(a.reg(region)),
        dst(b.reg(region)) {
    src.fill(1);
  }
  // No completion is left over, and no error was counted.
  void TearDown() override {
    sim.run_until_idle();
    for (TestQp* const qp : {&qa, &qb}) {
      EXPECT_FALSE(qp->send_cq().poll());
      EXPECT_FALSE(qp->recv_cq().poll());
    }
    for (TestNode* const n : {&a, &other}) {
      EXPECT_TRUE(n->async_events().empty());
      EXPECT_EQ(n->counter(TERN_CNT_OUT_OF_SEQUENCE), 0U);
      EXPECT_EQ(n->counter(TERN_CNT_RX_MALFORMED), 0U);
    }
    EXPECT_EQ(sim.stats.sent > 0, !GetParam().loopback);
  }

  Sim sim;
  TestNode a{sim};
  TestNode other{sim};
  TestNode& b = GetParam().loopback ? a : other;
  std::pair<TestQp&, TestQp&> qps;
  TestQp& qa = qps.first;
  TestQp& qb = qps.second;
  TestMr& src;
  TestMr& dst;
  const std::uint32_t mtu = 1U << GetParam().log_mtu;
};

}  // namespace tern
