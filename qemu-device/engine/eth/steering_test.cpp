// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/steering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/limits.h"
#include "eth/plain_steering.h"
#include "frames/sample_frames.h"

namespace tern::eth {

using namespace frames;

void PrintTo(const Target& t, std::ostream* out) {
  *out << int{t.dest} << ":" << t.id << " tag " << t.tag;
}

namespace {

tern_cmd_create_flow flow_to(std::uint32_t id, std::uint32_t priority = 0) {
  tern_cmd_create_flow cmd{.priority = le(priority),
                           .dest_id = le(id),
                           .tag = le(id + 1000),
                           .counter = le(TERN_NO_COUNTER),
                           .dest = TERN_DEST_ETH_QUEUE,
                           .port = 1};
  return cmd;
}

// A flow of TCP or UDP frames to a port.
tern_cmd_create_flow port_flow(std::uint32_t id, std::uint16_t port,
                               std::uint16_t layers = TERN_LAYER_TCP) {
  tern_cmd_create_flow cmd = flow_to(id);
  cmd.layers = le(layers);
  std::array<std::byte, 2> bytes;
  put16(bytes, 0, port);
  std::memcpy(&cmd.value.dst_port, bytes.data(), bytes.size());
  cmd.mask.dst_port = 0xffff;
  return cmd;
}

class SteeringTest : public ::testing::Test {
 protected:
  std::uint32_t create(const tern_cmd_create_flow& cmd) {
    std::uint32_t id = 0;
    EXPECT_EQ(table_.create(cmd, &id), TERN_ST_OK);
    return id;
  }
  Status refused(const tern_cmd_create_flow& cmd) {
    std::uint32_t id = 0;
    const std::uint32_t before = table_.flows();
    const Status status = table_.create(cmd, &id);
    EXPECT_EQ(table_.flows(), before);
    return status;
  }
  std::uint32_t counter() {
    std::uint32_t id = 0;
    EXPECT_EQ(table_.create_counter(&id), TERN_ST_OK);
    return id;
  }
  std::pair<std::uint64_t, std::uint64_t> counted(std::uint32_t id) {
    tern_rsp_flow_counter reply{};
    EXPECT_EQ(table_.query_counter(id, reply), TERN_ST_OK);
    return {le(reply.packets), le(reply.bytes)};
  }
  Steering::Verdict classify(const Bytes& frame, bool rdma = false) {
    return table_.classify(parse(frame), frame.size(), Stage::kSniffer,
                           rdma ? Stage::kSniffer : Stage::kReceived);
  }
  // The number of the queue that takes the frame; 0: none does.
  std::uint32_t taker(const Bytes& frame) {
    const auto verdict = classify(frame);
    return verdict.taken ? verdict.target.id : 0;
  }
  std::vector<std::uint32_t> copies(const Bytes& frame, bool rdma = false) {
    const auto verdict = classify(frame, rdma);
    std::vector<std::uint32_t> ids;
    for (std::size_t i = 0; i < verdict.copies; ++i) ids.push_back(verdict.copy[i].id);
    return ids;
  }

  Steering table_{0x1234};
  Bytes frame_ = SampleFrame{}.make();
};

TEST_F(SteeringTest, EmptyTable) {
  EXPECT_FALSE(table_.any(Stage::kReceived));
  EXPECT_FALSE(table_.any(Stage::kSniffer));
  EXPECT_FALSE(classify(frame_).taken);
  EXPECT_EQ(classify(frame_).copies, 0U);
}

TEST_F(SteeringTest, AFlowTakesItsFrames) {
  const std::uint32_t id = create(port_flow(5, 0x5678));
  EXPECT_TRUE(table_.any(Stage::kReceived));
  const auto verdict = classify(frame_);
  EXPECT_TRUE(verdict.taken);
  EXPECT_EQ(verdict.target, (Target{TERN_DEST_ETH_QUEUE, 5, 1005}));
  SampleFrame other;
  other.dst_port = 0x5679;
  EXPECT_EQ(taker(other.make()), 0U);
  other = {};
  other.protocol = 17;
  EXPECT_EQ(taker(other.make()), 0U) << "not a frame with the layer";
  EXPECT_FALSE(classify(frame_, true).taken) << "RoCE";
  EXPECT_EQ(table_.destroy(id), TERN_ST_OK);
  EXPECT_EQ(table_.destroy(id), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(taker(frame_), 0U);
  EXPECT_FALSE(table_.any(Stage::kReceived));
}

TEST_F(SteeringTest, LowestPriorityThenOldest) {
  const std::uint32_t by_port = create(port_flow(1, 0x5678));
  tern_cmd_create_flow all = flow_to(2);
  all.kind = TERN_FLOW_ALL;
  const std::uint32_t by_all = create(all);
  EXPECT_EQ(taker(frame_), 1U) << "of equal priority, created first";
  EXPECT_EQ(table_.destroy(by_port), TERN_ST_OK);
  EXPECT_EQ(taker(frame_), 2U);
  const std::uint32_t younger = create(port_flow(3, 0x5678));
  EXPECT_EQ(taker(frame_), 2U) << "the shape's place in the table does not matter";
  create(port_flow(4, 0x5678));
  EXPECT_EQ(table_.destroy(by_all), TERN_ST_OK);
  EXPECT_EQ(taker(frame_), 3U) << "of two alike, the older";
  EXPECT_EQ(table_.destroy(younger), TERN_ST_OK);
  EXPECT_EQ(taker(frame_), 4U);
  tern_cmd_create_flow first = flow_to(5, 1);
  create(first);
  EXPECT_EQ(taker(frame_), 4U) << "a higher number";
  tern_cmd_create_flow last = port_flow(6, 0x5678);
  last.priority = le(0xffffffffU);
  create(last);
  EXPECT_EQ(taker(frame_), 4U);
}

TEST_F(SteeringTest, DropIsADestination) {
  tern_cmd_create_flow drop = port_flow(0, 0x5678);
  drop.dest = TERN_DEST_NONE;
  create(drop);
  const auto verdict = classify(frame_);
  EXPECT_TRUE(verdict.taken);
  EXPECT_EQ(verdict.target.dest, TERN_DEST_NONE);
}

TEST_F(SteeringTest, MulticastFlows) {
  tern_cmd_create_flow cmd = flow_to(9);
  cmd.kind = TERN_FLOW_MULTICAST;
  create(cmd);
  EXPECT_EQ(taker(frame_), 0U);
  frame_[0] = std::byte{0x33};
  EXPECT_EQ(taker(frame_), 9U);
  std::fill_n(frame_.begin(), 6, std::byte{0xff});
  EXPECT_EQ(taker(frame_), 9U) << "broadcast";
  EXPECT_EQ(taker(Bytes(6, std::byte{0xff})), 0U) << "no Ethernet header";
}

TEST_F(SteeringTest, SniffersSeeEverything) {
  tern_cmd_create_flow cmd = flow_to(7, 5);
  cmd.kind = TERN_FLOW_SNIFFER;
  const std::uint32_t first = create(cmd);
  EXPECT_TRUE(table_.any(Stage::kSniffer));
  EXPECT_FALSE(table_.any(Stage::kReceived));
  cmd = flow_to(8, 4);
  cmd.kind = TERN_FLOW_SNIFFER;
  create(cmd);
  create(port_flow(1, 0x5678));
  EXPECT_TRUE(table_.any(Stage::kReceived));
  EXPECT_EQ(copies(frame_), (std::vector<std::uint32_t>{8, 7}));
  EXPECT_EQ(taker(frame_), 1U);
  EXPECT_EQ(copies(frame_, true), (std::vector<std::uint32_t>{8, 7}));
  EXPECT_EQ(table_.destroy(first), TERN_ST_OK);
  EXPECT_EQ(copies(frame_, true), (std::vector<std::uint32_t>{8}));
}

TEST_F(SteeringTest, CopiesOfContinuingFlows) {
  for (const std::uint32_t id : {1U, 2U, 3U}) {
    tern_cmd_create_flow cmd = id == 2 ? flow_to(id) : port_flow(id, 0x5678);
    cmd.flags = TERN_FLOW_F_CONTINUE;
    create(cmd);
  }
  EXPECT_EQ(copies(frame_), (std::vector<std::uint32_t>{1, 2, 3}))
      << "by creation, whatever the shape";
  EXPECT_EQ(taker(frame_), 0U);
  create(port_flow(4, 0x5678));
  tern_cmd_create_flow late = port_flow(5, 0x5678);
  late.flags = TERN_FLOW_F_CONTINUE;
  create(late);
  EXPECT_EQ(copies(frame_), (std::vector<std::uint32_t>{1, 2, 3}))
      << "behind the flow that takes the frame";
  EXPECT_EQ(taker(frame_), 4U);
}

// A flow that only counts.
TEST_F(SteeringTest, CountersCount) {
  const std::uint32_t id = counter();
  EXPECT_EQ(table_.counters(), 1U);
  tern_cmd_create_flow cmd = port_flow(0, 0x5678);
  cmd.dest = TERN_DEST_NONE;
  cmd.flags = TERN_FLOW_F_CONTINUE;
  cmd.counter = le(id);
  const std::uint32_t only_counts = create(cmd);
  tern_cmd_create_flow taken = port_flow(3, 0x5678);
  taken.counter = le(id);
  const std::uint32_t takes = create(taken);
  const auto verdict = classify(frame_);
  EXPECT_EQ(verdict.copies, 0U);
  EXPECT_EQ(verdict.target.id, 3U);
  EXPECT_EQ(counted(id), std::pair(std::uint64_t{2}, 2 * std::uint64_t{frame_.size()}));
  EXPECT_EQ(table_.destroy_counter(id), TERN_ST_BUSY);
  EXPECT_EQ(table_.destroy(takes), TERN_ST_OK);
  EXPECT_EQ(table_.destroy_counter(id), TERN_ST_BUSY);
  EXPECT_EQ(table_.destroy(only_counts), TERN_ST_OK);
  EXPECT_EQ(table_.destroy_counter(id), TERN_ST_OK);
  EXPECT_EQ(table_.destroy_counter(id), TERN_ST_BAD_HANDLE);
  tern_rsp_flow_counter reply{};
  EXPECT_EQ(table_.query_counter(id, reply), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(refused(cmd), TERN_ST_BAD_HANDLE);
  EXPECT_FALSE(table_.any(Stage::kReceived));
}

// No more flows than that match a frame beside the one that takes it.
TEST_F(SteeringTest, CopiesAreBounded) {
  std::vector<std::uint32_t> expected;
  std::vector<std::uint32_t> counters;
  for (std::uint32_t i = 1; i <= Steering::kMaxCopies + 4; ++i) {
    tern_cmd_create_flow cmd = i % 2 == 0 ? flow_to(i) : port_flow(i, 0x5678);
    cmd.flags = TERN_FLOW_F_CONTINUE;
    counters.push_back(counter());
    cmd.counter = le(counters.back());
    create(cmd);
    if (i <= Steering::kMaxCopies) expected.push_back(i);
  }
  create(flow_to(100));
  EXPECT_EQ(copies(frame_), expected);
  EXPECT_EQ(taker(frame_), 100U);
  for (std::uint32_t i = 0; i < counters.size(); ++i)
    EXPECT_EQ(counted(counters[i]).first, i < Steering::kMaxCopies ? 2U : 0U);
}

TEST_F(SteeringTest, InsideOfVxlan) {
  tern_cmd_create_flow cmd = flow_to(1);
  cmd.layers = le(std::uint16_t{TERN_LAYER_VXLAN});
  cmd.tunnel_value.vni = le(0x123456U);
  cmd.tunnel_mask.vni = le(0xffffffU);
  create(cmd);
  tern_cmd_create_flow inner = flow_to(2);
  inner.layers = le(std::uint16_t{TERN_LAYER_VXLAN | TERN_LAYER_UDP});
  inner.inner_layers = le(std::uint16_t{TERN_LAYER_IPV4 | TERN_LAYER_TCP});
  inner.inner_value.dst_port = port_flow(0, 0x5678).value.dst_port;
  inner.inner_mask.dst_port = 0xffff;
  create(inner);
  EXPECT_EQ(taker(vxlan(frame_, 0x123456).make()), 1U);
  EXPECT_EQ(taker(vxlan(frame_, 0x123457).make()), 2U);
  EXPECT_EQ(taker(frame_), 0U);
  SampleFrame other;
  other.dst_port = 1;
  EXPECT_EQ(taker(vxlan(other.make(), 5).make()), 0U);
  other.v4 = false;
  other.dst_port = 0x5678;
  EXPECT_EQ(taker(vxlan(other.make(), 5).make()), 0U) << "the layers inside count";
}

// Flows of each stage see its frames only, and a frame of two stages sees both in their order.
TEST_F(SteeringTest, StagesAreApart) {
  const auto at = [&](Stage first, Stage last) {
    const auto verdict = table_.classify(parse(frame_), frame_.size(), first, last);
    return std::pair(verdict.taken ? le(verdict.target.id) : 0, verdict.copies);
  };
  std::uint32_t id = 1;
  for (const int kind : {TERN_FLOW_DATAGRAM, TERN_FLOW_SNIFFER, TERN_FLOW_NORMAL, TERN_FLOW_SENT}) {
    tern_cmd_create_flow cmd = flow_to(id, 10 - id);
    cmd.kind = static_cast<std::uint8_t>(kind);
    cmd.tag = 0;
    create(cmd);
    ++id;
  }
  for (const Stage stage : {Stage::kDatagram, Stage::kSniffer, Stage::kReceived, Stage::kSent})
    EXPECT_TRUE(table_.any(stage));
  EXPECT_EQ(at(Stage::kDatagram, Stage::kDatagram), std::pair(1U, std::size_t{0}));
  EXPECT_EQ(at(Stage::kSniffer, Stage::kSniffer), std::pair(0U, std::size_t{1}));
  EXPECT_EQ(at(Stage::kSniffer, Stage::kReceived), std::pair(3U, std::size_t{1}));
  EXPECT_EQ(at(Stage::kSent, Stage::kSent), std::pair(4U, std::size_t{0}));
}

// Each field of ESP, GRE and MPLS; the place of MPLS; the flags of IPv4.
TEST_F(SteeringTest, TunnelsAndFlags) {
  const auto packet = std::span(frame_).subspan(14);
  const auto flow = [](std::uint32_t id, unsigned layers) {
    tern_cmd_create_flow cmd = flow_to(id);
    cmd.layers = le(static_cast<std::uint16_t>(layers));
    return cmd;
  };
  const Bytes keyed = gre(0x2000, 0x0800, packet).make();
  const Bytes keyless = gre(0, 0x0800, packet).make();
  tern_cmd_create_flow cmd = flow(1, TERN_LAYER_GRE);
  cmd.tunnel_value = parse(keyed).tunnel;
  std::memset(&cmd.tunnel_mask.gre_flags, 0xff, 8);
  create(cmd);
  EXPECT_EQ(taker(keyed), 1U);
  EXPECT_EQ(taker(keyless), 0U);
  cmd = flow(2, TERN_LAYER_GRE);
  cmd.inner_layers = le(std::uint16_t{TERN_LAYER_TCP});
  cmd.inner_value.dst_port = port_flow(0, 0x5678).value.dst_port;
  cmd.inner_mask.dst_port = 0xffff;
  create(cmd);
  EXPECT_EQ(taker(keyless), 2U);

  // A layer says where the label is; headers inside need no named tunnel.
  const Bytes stack = mpls(2, packet);
  const Bytes plain = typed(0x8847, stack);
  const Bytes tunneled = udp_to(6635, stack).make();
  cmd = flow(3, TERN_LAYER_MPLS);
  cmd.value.mpls = parse(plain).outer.fields.mpls;
  cmd.mask.mpls = 0xffffffff;
  create(cmd);
  EXPECT_EQ(taker(plain), 3U);
  EXPECT_EQ(taker(tunneled), 0U);
  cmd.dest_id = le(4U);
  cmd.layers = le(std::uint16_t{TERN_LAYER_MPLS_TUNNEL});
  create(cmd);
  EXPECT_EQ(taker(tunneled), 4U);
  EXPECT_EQ(taker(typed(0x8847, mpls(1, packet))), 0U) << "another label";
  cmd = flow(5, 0);
  cmd.inner_layers = le(std::uint16_t{TERN_LAYER_IPV4 | TERN_LAYER_TCP});
  create(cmd);
  EXPECT_EQ(taker(typed(0x8847, mpls(1, packet))), 5U);
  EXPECT_EQ(taker(frame_), 0U);

  SampleFrame esp;
  esp.protocol = 50;
  esp.payload = 20;
  cmd = flow(6, TERN_LAYER_ESP | TERN_LAYER_IPV4);
  cmd.value = parse(esp.make()).outer.fields;
  cmd.mask.spi = cmd.mask.esp_seq = 0xffffffff;
  create(cmd);
  EXPECT_EQ(taker(esp.make()), 6U);
  Bytes other = esp.make();
  other[esp.l4() + 7] ^= std::byte{1};
  EXPECT_EQ(taker(other), 0U);

  SampleFrame icmp;
  icmp.protocol = 1;
  cmd = flow(7, TERN_LAYER_IPV4);
  cmd.value.frag = TERN_FRAG_DONT;
  cmd.mask.frag = TERN_FRAG_DONT | TERN_FRAG_MORE;
  create(cmd);
  EXPECT_EQ(taker(icmp.make()), 7U);
  icmp.fragment = true;
  EXPECT_EQ(taker(icmp.make()), 0U);
}

TEST_F(SteeringTest, BitsOutsideOfTheMaskDoNotMatter) {
  tern_cmd_create_flow cmd = port_flow(1, 0x5678);
  std::memset(&cmd.value, 0x77, sizeof(cmd.value));
  cmd.value.dst_port = port_flow(1, 0x56ff).value.dst_port;
  cmd.mask.dst_port = port_flow(1, 0xff00).value.dst_port;
  create(cmd);
  EXPECT_EQ(taker(frame_), 1U);
  SampleFrame other;
  other.dst_port = 0x5778;
  EXPECT_EQ(taker(other.make()), 0U);
}

TEST_F(SteeringTest, RefusesWhatMakesNoSense) {
  const auto bad = [&](auto&& change) {
    tern_cmd_create_flow cmd = port_flow(1, 80);
    change(cmd);
    return refused(cmd) == TERN_ST_BAD_PARAM;
  };
  const auto layers = [](unsigned v) { return le(static_cast<std::uint16_t>(v)); };
  create(port_flow(1, 80));
  EXPECT_TRUE(bad([](auto& c) { c.kind = 6; }));
  EXPECT_TRUE(bad([](auto& c) { c.flags = 2; }));
  EXPECT_TRUE(bad([](auto& c) { c.tag = le(0x1000000U); }));
  for (const int kind : {TERN_FLOW_DATAGRAM, TERN_FLOW_SENT})
    EXPECT_TRUE(bad([&](auto& c) { c.kind = static_cast<std::uint8_t>(kind); })) << "a tag";
  EXPECT_TRUE(bad([&](auto& c) { c.layers = layers(0x800 | TERN_LAYER_TCP); }));
  for (const unsigned both :
       {TERN_LAYER_TCP | TERN_LAYER_UDP, TERN_LAYER_IPV4 | TERN_LAYER_IPV6,
        TERN_LAYER_TCP | TERN_LAYER_VXLAN, TERN_LAYER_ESP | TERN_LAYER_UDP,
        TERN_LAYER_GRE | TERN_LAYER_UDP, TERN_LAYER_GRE | TERN_LAYER_VXLAN,
        TERN_LAYER_MPLS | TERN_LAYER_IPV4, TERN_LAYER_MPLS | TERN_LAYER_MPLS_TUNNEL,
        TERN_LAYER_MPLS_TUNNEL | TERN_LAYER_VXLAN, TERN_LAYER_MPLS_TUNNEL | TERN_LAYER_TCP}) {
    EXPECT_TRUE(bad([&](auto& c) {
      c.mask = {};
      c.layers = layers(both);
    })) << both;
  }
  for (const unsigned inner : {TERN_LAYER_VXLAN, TERN_LAYER_GRE, TERN_LAYER_MPLS_TUNNEL})
    EXPECT_TRUE(bad([&](auto& c) { c.inner_layers = layers(inner); })) << inner;
  EXPECT_TRUE(bad([](auto& c) { c.tunnel_mask.vni = le(1U); })) << "without VXLAN";
  EXPECT_TRUE(bad([](auto& c) { c.tunnel_mask.gre_key = 1; })) << "without GRE";
  EXPECT_TRUE(bad([&](auto& c) {
    c.layers = layers(TERN_LAYER_UDP | TERN_LAYER_VXLAN);
    c.tunnel_mask.vni = le(0x1000000U);
  }));
  EXPECT_TRUE(bad([](auto& c) { c.layers = 0; })) << "ports without a layer that has them";
  for (const int kind : {TERN_FLOW_ALL, TERN_FLOW_MULTICAST, TERN_FLOW_SNIFFER}) {
    EXPECT_TRUE(bad([&](auto& c) {
      c.kind = static_cast<std::uint8_t>(kind);
      c.mask = {};
    })) << "layers";
    EXPECT_TRUE(bad([&](auto& c) {
      c.kind = static_cast<std::uint8_t>(kind);
      c.layers = 0;
    })) << "a mask";
  }
}

// Each byte of the mask belongs to certain layers.
TEST_F(SteeringTest, MasksNeedTheirLayers) {
  struct Field {
    std::size_t at;
    std::size_t size;
    unsigned layers;  // any of these
  };
  constexpr unsigned kIp = TERN_LAYER_IPV4 | TERN_LAYER_IPV6;
  const Field fields[] = {
      {offsetof(tern_flow_fields, dmac), 14, TERN_LAYER_ETH},
      {offsetof(tern_flow_fields, vlan), 2, TERN_LAYER_VLAN},
      {offsetof(tern_flow_fields, src_ip), 4, kIp},
      {offsetof(tern_flow_fields, src_ip) + 4, 12, TERN_LAYER_IPV6},
      {offsetof(tern_flow_fields, dst_ip), 4, kIp},
      {offsetof(tern_flow_fields, dst_ip) + 4, 12, TERN_LAYER_IPV6},
      {offsetof(tern_flow_fields, flow_label) + 1, 3, TERN_LAYER_IPV6},
      {offsetof(tern_flow_fields, tos), 4, kIp},
      {offsetof(tern_flow_fields, src_port), 4, TERN_LAYER_TCP | TERN_LAYER_UDP},
      {offsetof(tern_flow_fields, spi), 8, TERN_LAYER_ESP},
      {offsetof(tern_flow_fields, mpls), 4, TERN_LAYER_MPLS}};
  for (const unsigned layer : {TERN_LAYER_ETH, TERN_LAYER_VLAN, TERN_LAYER_IPV4, TERN_LAYER_IPV6,
                               TERN_LAYER_TCP, TERN_LAYER_UDP, TERN_LAYER_ESP, TERN_LAYER_MPLS}) {
    for (std::size_t at = 0; at < sizeof(tern_flow_fields); ++at) {
      const bool fits = std::ranges::any_of(fields, [&](const Field& f) {
        return at >= f.at && at < f.at + f.size && (f.layers & layer) != 0;
      });
      for (const bool inner : {false, true}) {
        tern_cmd_create_flow cmd = flow_to(1);
        (inner ? cmd.inner_layers : cmd.layers) = le(static_cast<std::uint16_t>(layer));
        if (inner) cmd.layers = le(std::uint16_t{TERN_LAYER_VXLAN});
        reinterpret_cast<std::uint8_t*>(inner ? &cmd.inner_mask : &cmd.mask)[at] = 1;
        std::uint32_t id = 0;
        ASSERT_EQ(table_.create(cmd, &id), fits ? TERN_ST_OK : TERN_ST_BAD_PARAM)
            << "layer " << layer << " byte " << at;
        if (fits) {
          ASSERT_EQ(table_.destroy(id), TERN_ST_OK);
        }
      }
    }
  }
  tern_cmd_create_flow label = flow_to(1);
  label.layers = le(std::uint16_t{TERN_LAYER_IPV6});
  reinterpret_cast<std::uint8_t*>(&label.mask.flow_label)[1] = 0x10;
  EXPECT_EQ(refused(label), TERN_ST_BAD_PARAM) << "it has 20 bits";
  for (const unsigned layer : {TERN_LAYER_IPV4, TERN_LAYER_IPV6}) {
    for (unsigned bit = 1; bit < 0x100; bit <<= 1) {
      tern_cmd_create_flow cmd = flow_to(1);
      cmd.layers = le(static_cast<std::uint16_t>(layer));
      cmd.mask.frag = static_cast<std::uint8_t>(bit);
      std::uint32_t id = 0;
      const bool fits = bit <= (layer == TERN_LAYER_IPV4 ? TERN_FRAG_MORE : TERN_FRAG_ANY);
      EXPECT_EQ(table_.create(cmd, &id), fits ? TERN_ST_OK : TERN_ST_BAD_PARAM);
    }
  }
}

TEST_F(SteeringTest, Limits) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < kMaxFlowShapes; ++i) ids.push_back(create(flow_to(1, i)));
  EXPECT_EQ(refused(flow_to(1, kMaxFlowShapes)), TERN_ST_NO_RESOURCE);
  create(flow_to(2, 3));
  EXPECT_EQ(table_.destroy(ids[5]), TERN_ST_OK);
  create(flow_to(1, kMaxFlowShapes));

  table_.reset();
  EXPECT_EQ(table_.flows(), 0U);
  EXPECT_FALSE(table_.any(Stage::kReceived));
  ids.clear();
  for (std::uint32_t i = 0; i < kMaxFlows; ++i)
    ids.push_back(create(port_flow(i, static_cast<std::uint16_t>(i))));
  EXPECT_EQ(refused(port_flow(1, 1)), TERN_ST_NO_RESOURCE);
  EXPECT_EQ(table_.flows(), kMaxFlows);
  SampleFrame f;
  f.dst_port = 12345;
  EXPECT_EQ(taker(f.make()), 12345U);
  EXPECT_EQ(table_.destroy(ids[12345]), TERN_ST_OK);
  EXPECT_EQ(taker(f.make()), 0U);
  create(port_flow(1, 12345));
  EXPECT_EQ(taker(f.make()), 1U);

  for (std::uint32_t i = 0; i < kMaxFlowCounters; ++i) (void)counter();
  std::uint32_t id = 0;
  EXPECT_EQ(table_.create_counter(&id), TERN_ST_NO_RESOURCE);
  table_.reset();
  EXPECT_EQ(table_.counters(), 0U);
}

TEST_F(SteeringTest, Destinations) {
  const std::uint32_t a = create(port_flow(3, 80));
  const std::uint32_t b = create(port_flow(3, 81));
  EXPECT_TRUE(table_.refers_to(TERN_DEST_ETH_QUEUE, 3));
  EXPECT_FALSE(table_.refers_to(TERN_DEST_RSS, 3));
  EXPECT_FALSE(table_.refers_to(TERN_DEST_ETH_QUEUE, 4));
  EXPECT_EQ(table_.destroy(a), TERN_ST_OK);
  EXPECT_TRUE(table_.refers_to(TERN_DEST_ETH_QUEUE, 3));
  EXPECT_EQ(table_.destroy(b), TERN_ST_OK);
  EXPECT_FALSE(table_.refers_to(TERN_DEST_ETH_QUEUE, 3));
}

// Frames and flows with few different values, so that many match.
class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}

  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

  Bytes frame() {
    SampleFrame f = draw_frame(random_);
    f.last = static_cast<std::uint8_t>(below(4));
    f.dst_port = static_cast<std::uint16_t>(80 + below(4));
    f.src_port = static_cast<std::uint16_t>(1000 + below(2));
    Bytes frame = f.make();
    frame[0] = std::byte{static_cast<unsigned char>(below(3))};
    const auto packet = std::span(frame).subspan(f.l3());
    switch (below(12)) {
      case 0:
        return gre(static_cast<std::uint16_t>(below(4) << 12), 0x6558, frame).make();
      case 1:
        return typed(0x8847, mpls(1 + below(2), packet));
      case 2:
        return udp_to(6635, mpls(1 + below(2), packet)).make();
      case 3:
      case 4:
        return vxlan(frame, below(3)).make();
      default:
        return frame;
    }
  }

  tern_cmd_create_flow flow(const std::vector<std::uint32_t>& counters) {
    tern_cmd_create_flow c{};
    c.priority = le(below(3));
    c.dest = static_cast<std::uint8_t>(below(4));
    c.dest_id = le(below(50));
    c.tag = le(below(100));
    c.counter = le(below(3) == 0 ? counters[below(static_cast<unsigned>(counters.size()))]
                                 : TERN_NO_COUNTER);
    c.flags = below(4) == 0 ? TERN_FLOW_F_CONTINUE : 0;
    c.kind = static_cast<std::uint8_t>(below(10) == 0 ? 1 + below(5) : 0);
    if (c.kind == TERN_FLOW_DATAGRAM || c.kind == TERN_FLOW_SENT) {
      c.tag = 0;
    } else if (c.kind != TERN_FLOW_NORMAL) {
      return c;
    }
    const Headers like = parse(frame());
    c.layers = le(pick_layers(like.outer.layers));
    pick_fields(like.outer, le(c.layers), c.value, c.mask);
    c.tunnel_value = like.tunnel;
    if ((le(c.layers) & TERN_LAYER_VXLAN) != 0) {
      c.tunnel_mask.vni = le(below(2) == 0 ? 0xffffffU : 0U);
    } else if ((le(c.layers) & TERN_LAYER_GRE) != 0) {
      c.tunnel_mask.gre_key = below(2) == 0 ? 0xffffffff : 0;
    }
    if (like.inner.layers == 0) return c;
    c.inner_layers = le(pick_layers(like.inner.layers));
    pick_fields(like.inner, le(c.inner_layers), c.inner_value, c.inner_mask);
    return c;
  }

 private:
  std::uint16_t pick_layers(std::uint16_t layers) {
    return below(2) == 0 ? layers : static_cast<std::uint16_t>(layers & below(0x800));
  }
  // Few masks: there may be only so many shapes.
  void pick_fields(const Level& like, unsigned layers, tern_flow_fields& value,
                   tern_flow_fields& mask) {
    value = like.fields;
    const bool transport = (layers & (TERN_LAYER_TCP | TERN_LAYER_UDP)) != 0;
    switch (below(4)) {
      case 0:
        if (transport) mask.dst_port = 0xffff;
        break;
      case 1:
        if ((layers & (TERN_LAYER_IPV4 | TERN_LAYER_IPV6)) != 0)
          std::memset(mask.src_ip, 0xff, (layers & TERN_LAYER_IPV4) != 0 ? 4 : 16);
        if (transport) mask.src_port = mask.dst_port = 0xffff;
        break;
      case 2:
        if ((layers & TERN_LAYER_ETH) != 0) mask.dmac[0] = 0xff;
        if ((layers & (TERN_LAYER_MPLS | TERN_LAYER_MPLS_TUNNEL)) != 0) mask.mpls = 0xffffffff;
        break;
      default:
        break;
    }
  }

  std::mt19937 random_;
};

class SteeringAgainstPlain : public SteeringTest, public ::testing::WithParamInterface<unsigned> {};

TEST_P(SteeringAgainstPlain, EveryVerdict) {
  Draws draws(GetParam());
  PlainSteering plain;
  std::vector<std::uint32_t> counters;
  for (unsigned i = 0; i < 5; ++i) counters.push_back(counter());
  unsigned taken = 0;
  unsigned copied = 0;
  unsigned full = 0;
  for (unsigned round = 0; round < 3000; ++round) {
    if (plain.size() < 10 || draws.below(100) < 52) {
      const tern_cmd_create_flow cmd = draws.flow(counters);
      std::uint32_t id = 0;
      const Status status = table_.create(cmd, &id);
      ASSERT_EQ(status, plain.has_room_for(cmd) ? TERN_ST_OK : TERN_ST_NO_RESOURCE);
      if (status == TERN_ST_OK) plain.add(id, cmd);
      full += status != TERN_ST_OK;
    } else {
      ASSERT_EQ(table_.destroy(plain.remove(draws.below(static_cast<unsigned>(plain.size())))),
                TERN_ST_OK);
    }
    ASSERT_EQ(table_.flows(), plain.size());
    for (unsigned i = 0; i < 8; ++i) {
      const Bytes frame = draws.frame();
      const Headers headers = parse(frame);
      const auto first = static_cast<Stage>(draws.below(kStages));
      const bool both = first == Stage::kSniffer && draws.below(8) != 0;
      const Stage last = both ? Stage::kReceived : first;
      const auto is = table_.classify(headers, frame.size(), first, last);
      const auto expected = plain.classify(headers, frame.size(), first, last);
      ASSERT_EQ(is.taken, expected.taken);
      if (is.taken) {
        ASSERT_EQ(is.target, expected.target);
      }
      ASSERT_EQ(std::vector<Target>(is.copy.begin(),
                                    is.copy.begin() + static_cast<std::ptrdiff_t>(is.copies)),
                expected.copies);
      taken += is.taken;
      copied += is.copies != 0;
    }
  }
  for (const std::uint32_t id : counters) EXPECT_EQ(counted(id), plain.counted[id]);
  EXPECT_GT(taken, 1000U);
  EXPECT_LT(taken, 23'000U);
  EXPECT_GT(copied, 500U);
  EXPECT_GT(full, 0U);
  while (plain.size() != 0)
    ASSERT_EQ(table_.destroy(plain.remove(draws.below(static_cast<unsigned>(plain.size())))),
              TERN_ST_OK);
  EXPECT_EQ(table_.flows(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SteeringAgainstPlain, ::testing::Range(1U, 9U));

}  // namespace
}  // namespace tern::eth
