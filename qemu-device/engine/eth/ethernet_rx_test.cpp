// SPDX-License-Identifier: GPL-2.0-or-later
// Receive queues: completions, scatter, RSS groups, flows and destinations.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>

#include "eth/rss_hash.h"
#include "frames/checksum.h"
#include "frames/headers.h"
#include "frames/sample_frames.h"
#include "testing/eth_queue.h"
#include "tests/eth_frames.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr Mac kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr Mac kOther = {0x52, 0x54, 0, 7, 7, 7};

// Bitwise CRC-32 of IEEE 802.3, as it is on the wire.
std::array<std::byte, 4> fcs_of(std::span<const std::byte> frame) {
  std::uint32_t crc = 0xffffffff;
  for (const std::byte b : frame) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0U);
  }
  crc = ~crc;
  return {static_cast<std::byte>(crc), static_cast<std::byte>(crc >> 8),
          static_cast<std::byte>(crc >> 16), static_cast<std::byte>(crc >> 24)};
}

class EthernetRxTest : public ::testing::Test {
 protected:
  Sim sim;
  TestNode b{sim};
  std::deque<TestEthQueue> queues;

  TestEthQueue& add_queue(std::uint8_t flags = 0, int buffers = 64, std::uint32_t size = 2048) {
    TestEthQueue& q = queues.emplace_back(b, TERN_ETH_QUEUE_RX, b.create_cq(10), 6, flags);
    EXPECT_EQ(q.created(), TERN_ST_OK);
    for (int i = 0; i < buffers; ++i) q.post_buffer(size);
    return q;
  }
  FrameSpec spec() {
    FrameSpec s;
    s.dst = b.mac();
    return s;
  }
  void pass(std::span<const std::byte> frame) {
    b.device.receive(frame);
    b.wake();
    sim.run_until_idle();
  }
  // What arrives in `q` of this frame.
  std::optional<Wc> completion(TestEthQueue& q, std::span<const std::byte> frame) {
    pass(frame);
    auto all = q.cq().poll_all();
    EXPECT_LE(all.size(), 1U);
    return all.empty() ? std::nullopt : std::optional(all[0]);
  }
  // The queue that the frame reached; none, or more than one: -1.
  int where(std::span<const std::byte> frame) {
    pass(frame);
    int found = -1;
    int copies = 0;
    for (std::size_t i = 0; i < queues.size(); ++i) {
      for (const Wc& wc : queues[i].cq().poll_all()) {
        EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
        last = wc;
        found = static_cast<int>(i);
        ++copies;
        queues[i].post_buffer();
      }
    }
    return copies == 1 ? found : -1;
  }
  tern_cmd_rss group(std::uint8_t log_entries) {
    tern_cmd_rss cmd{.port = 1, .log_entries = log_entries, .kind = TERN_DEST_ETH_QUEUE};
    for (std::size_t i = 0; i < 40; ++i) cmd.key[i] = static_cast<std::uint8_t>(i * 37 + 11);
    for (unsigned i = 0; i < 6; ++i) cmd.fields[i] = i < 2 ? 3 : 15;
    for (std::size_t i = 0; i < 1U << log_entries; ++i)
      cmd.entries[i] = le(queues[i % queues.size()].number());
    return cmd;
  }
  std::uint32_t create(std::uint16_t opcode, const auto& cmd) {
    tern_rsp_object rsp{};
    EXPECT_EQ(b.command(opcode, cmd, &rsp), TERN_ST_OK);
    return le(rsp.id);
  }
  Status set_default(std::uint8_t dest, std::uint32_t id) {
    tern_cmd_set_rx_default cmd{.id = le(id), .dest = dest, .port = 1};
    return b.command(TERN_CMD_SET_RX_DEFAULT, cmd);
  }
  static tern_cmd_create_flow flow(std::uint8_t dest, std::uint32_t id) {
    tern_cmd_create_flow cmd{
        .dest_id = le(id), .counter = le(TERN_NO_COUNTER), .dest = dest, .port = 1};
    return cmd;
  }
  static tern_cmd_create_flow udp_flow(std::uint8_t dest, std::uint32_t id, std::uint16_t port) {
    tern_cmd_create_flow cmd = flow(dest, id);
    cmd.layers = le(static_cast<std::uint16_t>(TERN_LAYER_ETH | TERN_LAYER_IPV4 | TERN_LAYER_UDP));
    cmd.value.dst_port = __builtin_bswap16(port);
    cmd.mask.dst_port = 0xffff;
    return cmd;
  }
  Wc last{};
};

// ---- completions ----

TEST_F(EthernetRxTest, TellsWhichChecksumsAreRight) {
  TestEthQueue& q = add_queue();
  constexpr std::uint8_t kBoth = TERN_CQE_F_L3_OK | TERN_CQE_F_L4_OK;
  const auto flags = [&](const Bytes& f) { return completion(q, f)->flags & kBoth; };
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      FrameSpec s = spec();
      s.ipv6 = ipv6;
      s.udp = udp;
      Bytes f = make_frame(s);
      EXPECT_EQ(flags(f), kBoth);
      f.back() ^= std::byte{1};
      EXPECT_EQ(flags(f), TERN_CQE_F_L3_OK);
      f = make_frame(s, Sums::kPseudo);
      EXPECT_EQ(flags(f), TERN_CQE_F_L3_OK);
      if (ipv6) continue;
      f = make_frame(s);
      f[s.l3() + 8] ^= std::byte{1};  // time to live
      EXPECT_EQ(flags(f), TERN_CQE_F_L4_OK);
      f = make_frame(s);
      put_be16(f, s.l3() + 6, 0x2000);  // a fragment: TCP or UDP is not whole
      put_be16(f, s.l3() + 10, 0);
      put_be16(f, s.l3() + 10, 0xffff - plain_sum(std::span(f).subspan(s.l3(), 20)));
      EXPECT_EQ(flags(f), TERN_CQE_F_L3_OK);
    }
  }
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_CSUM_ERRORS), 4U + 4U + 2U);
  FrameSpec s = spec();
  s.udp = true;
  Bytes none = make_frame(s);
  put_be16(none, s.l4() + 6, 0);
  EXPECT_EQ(flags(none), TERN_CQE_F_L3_OK) << "UDP without checksum is neither right nor wrong";
  EXPECT_EQ(flags(eth_frame(b.mac(), kOther, 100)), 0);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_CSUM_ERRORS), 10U);
}

TEST_F(EthernetRxTest, StripsTheOuterTag) {
  TestEthQueue& q = add_queue(TERN_ETH_QF_STRIP_VLAN);
  FrameSpec s = spec();
  s.vlan = 0xb077;
  const Bytes tagged = make_frame(s);
  auto wc = completion(q, tagged);
  s.vlan.reset();
  EXPECT_EQ(q.received(*wc), make_frame(s));
  EXPECT_EQ(wc->flags, TERN_CQE_F_RECV | TERN_CQE_F_VLAN | TERN_CQE_F_L3_OK | TERN_CQE_F_L4_OK);
  EXPECT_EQ(le(wc->vlan), 0xb077);
  // Without a tag, with one of another type, and cut short.
  wc = completion(q, make_frame(s));
  EXPECT_EQ(wc->flags & TERN_CQE_F_VLAN, 0);
  EXPECT_EQ(q.received(*wc), make_frame(s));
  Bytes other = tagged;
  put_be16(other, 12, 0x88a8);
  wc = completion(q, other);
  EXPECT_EQ(wc->flags & TERN_CQE_F_VLAN, 0);
  EXPECT_EQ(q.received(*wc), other);
  for (std::size_t n = 14; n <= 18; ++n) {
    const auto part = std::span(tagged).first(n);
    wc = completion(q, part);
    ASSERT_TRUE(wc) << n;
    EXPECT_EQ(wc->flags & TERN_CQE_F_VLAN, n == 18 ? TERN_CQE_F_VLAN : 0);
    EXPECT_EQ(le(wc->byte_len), n == 18 ? 14 : n);
  }
  // Of two tags the outer one.
  Bytes twice = tagged;
  const std::array<std::byte, 4> second = {std::byte{0x81}, std::byte{0}, std::byte{0},
                                           std::byte{5}};
  twice.insert(twice.begin() + 12, second.begin(), second.end());
  wc = completion(q, twice);
  EXPECT_EQ(le(wc->vlan), 5);
  EXPECT_EQ(q.received(*wc), tagged);
}

TEST_F(EthernetRxTest, KeepsTheTagByDefault) {
  TestEthQueue& q = add_queue();
  FrameSpec s = spec();
  s.vlan = 0x77;
  const auto wc = completion(q, make_frame(s));
  EXPECT_EQ(q.received(*wc), make_frame(s));
  EXPECT_EQ(wc->flags & TERN_CQE_F_VLAN, 0);
  EXPECT_EQ(wc->flags & TERN_CQE_F_L4_OK, TERN_CQE_F_L4_OK);
}

TEST_F(EthernetRxTest, AppendsTheFcsOfTheWire) {
  TestEthQueue& q = add_queue(TERN_ETH_QF_KEEP_FCS | TERN_ETH_QF_STRIP_VLAN);
  for (const bool tag : {false, true}) {
    FrameSpec s = spec();
    if (tag) s.vlan = 9;
    const Bytes frame = make_frame(s);
    const auto wc = completion(q, frame);
    s.vlan.reset();
    Bytes want = make_frame(s);
    const auto fcs = fcs_of(frame);
    want.insert(want.end(), fcs.begin(), fcs.end());
    EXPECT_EQ(q.received(*wc), want);
  }
}

// ---- scatter ----

// Every frame fills its buffers exactly, touches nothing behind its end, and takes no buffer more.
TEST_F(EthernetRxTest, ScattersOverWhatItNeeds) {
  constexpr std::uint32_t kSize = 100;
  TestEthQueue& q = add_queue(TERN_ETH_QF_SCATTER, 0);
  std::uint32_t index = 0;
  for (const std::size_t len : {14U, 99U, 100U, 101U, 200U, 201U, 999U, 1600U}) {
    const auto need = static_cast<std::uint32_t>((len + kSize - 1) / kSize);
    for (std::uint32_t i = 0; i < need; ++i) q.post_buffer(kSize);
    const auto frame = eth_frame(b.mac(), kOther, len, 5);
    const auto wc = completion(q, frame);
    ASSERT_TRUE(wc) << len;
    EXPECT_EQ(le(wc->byte_len), len);
    EXPECT_EQ(le(wc->wqe_index), (index += need) - 1);
    EXPECT_EQ(q.gathered(*wc, kSize), frame);
  }
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_PACKETS), 8U);
}

TEST_F(EthernetRxTest, ScattersPiecesOfAnySize) {
  TestEthQueue& q =
      add_queue(TERN_ETH_QF_SCATTER | TERN_ETH_QF_STRIP_VLAN | TERN_ETH_QF_KEEP_FCS, 0);
  FrameSpec s = spec();
  s.vlan = 3;
  const Bytes frame = make_frame(s);  // 158 bytes, 154 without the tag, 158 with FCS
  const std::array<std::uint32_t, 6> sizes = {0, 5, 0, 9, 142, 2};
  std::array<std::uint64_t, 6> at{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    at[i] = b.host.alloc(sizes[i] + 16, 64);
    q.put(at[i], sizes[i], 0);
  }
  q.publish();
  const auto wc = completion(q, frame);
  ASSERT_TRUE(wc);
  EXPECT_EQ(le(wc->wqe_index), 5U);
  Bytes got;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::byte* const p = b.host.at(at[i], sizes[i] + 16);
    got.insert(got.end(), p, p + sizes[i]);
    for (std::size_t k = 0; k < 16; ++k)
      EXPECT_EQ(p[sizes[i] + k], std::byte{0}) << "behind buffer " << i;
  }
  s.vlan.reset();
  Bytes want = make_frame(s);
  const auto fcs = fcs_of(frame);
  want.insert(want.end(), fcs.begin(), fcs.end());
  EXPECT_EQ(got, want);
}

TEST_F(EthernetRxTest, DropsWhatDoesNotFitAndKeepsTheBuffers) {
  TestEthQueue& q = add_queue(TERN_ETH_QF_SCATTER, 0);
  for (int i = 0; i < 3; ++i) q.post_buffer(100);
  EXPECT_FALSE(completion(q, eth_frame(b.mac(), kOther, 301)));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_NO_BUFFER), 1U);
  const auto fits = eth_frame(b.mac(), kOther, 300);
  auto wc = completion(q, fits);
  ASSERT_TRUE(wc);
  EXPECT_EQ(q.gathered(*wc, 100), fits);
  // More buffers than a frame may have.
  for (int i = 0; i < 40; ++i) q.post_buffer(100);
  EXPECT_FALSE(completion(q, eth_frame(b.mac(), kOther, 100 * TERN_ETH_MAX_RXD + 1)));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_TOO_LONG), 1U);
  wc = completion(q, eth_frame(b.mac(), kOther, 100 * TERN_ETH_MAX_RXD));
  ASSERT_TRUE(wc);
  EXPECT_EQ(le(wc->wqe_index), 2U + TERN_ETH_MAX_RXD);
}

TEST_F(EthernetRxTest, UnreachablePiecesFailTheFrame) {
  TestEthQueue& q = add_queue(TERN_ETH_QF_SCATTER, 0);
  q.post_buffer(100);
  q.put(0xdead0000, 100, 0);
  q.publish();
  q.post_buffer(100);
  auto wc = completion(q, eth_frame(b.mac(), kOther, 150));
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(le(wc->wqe_index), 1U);
  EXPECT_EQ(le(wc->byte_len), 0U);
  wc = completion(q, eth_frame(b.mac(), kOther, 100));
  EXPECT_EQ(wc->status, TERN_CQE_SUCCESS);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_PACKETS), 1U);
}

// ---- destinations ----

TEST_F(EthernetRxTest, LowestNumberIsTheDefault) {
  for (int i = 0; i < 3; ++i) add_queue();
  const Bytes frame = make_frame(spec());
  EXPECT_EQ(where(frame), 0);
  b.destroy(TERN_CMD_DESTROY_ETH_QUEUE, queues[0].number());
  EXPECT_EQ(where(frame), 1);
  EXPECT_EQ(set_default(TERN_DEST_ETH_QUEUE, queues[2].number()), TERN_ST_OK);
  EXPECT_EQ(where(frame), 2);
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(queues[2].number()), 0}),
            TERN_ST_BUSY);
  EXPECT_EQ(set_default(TERN_DEST_NONE, 0), TERN_ST_OK);
  EXPECT_EQ(where(frame), 1);
  b.destroy(TERN_CMD_DESTROY_ETH_QUEUE, queues[2].number());
  b.destroy(TERN_CMD_DESTROY_ETH_QUEUE, queues[1].number());
  EXPECT_EQ(where(frame), -1);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_NO_BUFFER), 0U);
}

// The hash of every frame, the entry it selects, and a spread over all queues.
TEST_F(EthernetRxTest, GroupsSpreadByHash) {
  for (int i = 0; i < 5; ++i) add_queue();
  for (const std::uint8_t func :
       {std::uint8_t{TERN_RSS_FUNC_TOEPLITZ}, std::uint8_t{TERN_RSS_FUNC_SYMMETRIC}}) {
    tern_cmd_rss cmd = group(7);
    cmd.func = func;
    const std::uint32_t id = create(TERN_CMD_CREATE_RSS, cmd);
    ASSERT_EQ(set_default(TERN_DEST_RSS, id), TERN_ST_OK);
    std::set<int> seen;
    for (unsigned i = 0; i < 200; ++i) {
      FrameSpec s = spec();
      s.ipv6 = i % 2 == 0;
      s.udp = i % 3 == 0;
      s.src_port = static_cast<std::uint16_t>(40000 + i * 7);
      s.src_host = static_cast<std::uint8_t>(i);
      const Bytes frame = make_frame(s);
      const auto want = eth::rss_hash(frames::parse(frame).outer, func, cmd.fields, cmd.key);
      const int q = where(frame);
      EXPECT_EQ(q, static_cast<int>((want.value & 127) % 5));
      EXPECT_EQ(le(last.inv_rkey), want.value);
      EXPECT_EQ(le(last.pkey_index), TERN_ETH_HASH_L4);
      seen.insert(q);
    }
    EXPECT_EQ(seen.size(), 5U);
    EXPECT_EQ(where(eth_frame(b.mac(), kOther, 100)), 0) << "no hash";
    EXPECT_EQ(le(last.inv_rkey), 0U);
    EXPECT_EQ(le(last.pkey_index), TERN_ETH_HASH_NONE);
    ASSERT_EQ(set_default(TERN_DEST_NONE, 0), TERN_ST_OK);
    b.destroy(TERN_CMD_DESTROY_RSS, id);
  }
}

// By the headers inside of VXLAN; a frame without them by its own.
TEST_F(EthernetRxTest, GroupsThatLookInside) {
  for (int i = 0; i < 3; ++i) add_queue();
  tern_cmd_rss cmd = group(7);
  cmd.func = TERN_RSS_FUNC_TOEPLITZ | TERN_RSS_F_INNER;
  ASSERT_EQ(set_default(TERN_DEST_RSS, create(TERN_CMD_CREATE_RSS, cmd)), TERN_ST_OK);
  std::set<int> seen;
  for (unsigned i = 0; i < 60; ++i) {
    frames::SampleFrame inner;
    inner.v4 = i % 2 == 0;
    inner.protocol = i % 3 == 0 ? 17 : 6;
    inner.src_port = static_cast<std::uint16_t>(1000 + i);
    const Bytes inside = inner.make();
    Bytes outside = frames::vxlan(inside, 5).make();
    std::ranges::copy(std::as_bytes(std::span(b.mac())), outside.begin());
    const auto want =
        eth::rss_hash(frames::parse(inside).outer, TERN_RSS_FUNC_TOEPLITZ, cmd.fields, cmd.key);
    const int q = where(outside);
    EXPECT_EQ(q, static_cast<int>((want.value & 127) % 3));
    EXPECT_EQ(le(last.inv_rkey), want.value);
    EXPECT_EQ(le(last.pkey_index), TERN_ETH_HASH_L4);
    seen.insert(q);
  }
  EXPECT_EQ(seen.size(), 3U);
  const Bytes plain = make_frame(spec());
  (void)where(plain);
  EXPECT_EQ(
      le(last.inv_rkey),
      eth::rss_hash(frames::parse(plain).outer, TERN_RSS_FUNC_TOEPLITZ, cmd.fields, cmd.key).value);
  // What is inside is not IP.
  Bytes arp = frames::SampleFrame{}.make();
  frames::put16(arp, 12, 0x0806);
  Bytes around = frames::vxlan(arp, 5).make();
  std::ranges::copy(std::as_bytes(std::span(b.mac())), around.begin());
  EXPECT_EQ(where(around), 0);
  EXPECT_EQ(le(last.pkey_index), TERN_ETH_HASH_NONE);
}

TEST_F(EthernetRxTest, GroupsChangeUnderTraffic) {
  for (int i = 0; i < 2; ++i) add_queue();
  tern_cmd_rss cmd = group(0);
  cmd.id = le(create(TERN_CMD_CREATE_RSS, cmd));
  ASSERT_EQ(set_default(TERN_DEST_RSS, le(cmd.id)), TERN_ST_OK);
  const Bytes frame = make_frame(spec());
  EXPECT_EQ(where(frame), 0);
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(queues[0].number()), 0}),
            TERN_ST_BUSY);
  cmd.entries[0] = le(queues[1].number());
  cmd.fields[TERN_RSS_TCP4] = TERN_RSS_FIELD_SRC_IP;
  ASSERT_EQ(b.command(TERN_CMD_MODIFY_RSS, cmd), TERN_ST_OK);
  EXPECT_EQ(where(frame), 1);
  EXPECT_EQ(le(last.pkey_index), TERN_ETH_HASH_L3);
  b.destroy(TERN_CMD_DESTROY_ETH_QUEUE, queues[0].number());
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(queues[1].number()), 0}),
            TERN_ST_BUSY);
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_RSS, tern_cmd_object{le(std::uint32_t{cmd.id}), 0}),
            TERN_ST_BUSY);
  ASSERT_EQ(set_default(TERN_DEST_NONE, 0), TERN_ST_OK);
  b.destroy(TERN_CMD_DESTROY_RSS, le(std::uint32_t{cmd.id}));
  b.destroy(TERN_CMD_DESTROY_ETH_QUEUE, queues[1].number());
}

// ---- flows ----

TEST_F(EthernetRxTest, FlowsTakeFramesBeforeTheFilter) {
  for (int i = 0; i < 3; ++i) add_queue();
  tern_cmd_create_flow cmd = udp_flow(TERN_DEST_ETH_QUEUE, queues[2].number(), 2000);
  cmd.tag = le(0xabcdefU);
  const std::uint32_t counter = [&] { return b.make(TERN_CMD_CREATE_FLOW_COUNTER); }();
  cmd.counter = le(counter);
  const std::uint32_t id = create(TERN_CMD_CREATE_FLOW, cmd);
  FrameSpec s = spec();
  s.udp = true;
  EXPECT_EQ(where(make_frame(s)), 2);
  EXPECT_EQ(le(last.src_qp), 0xabcdefU);
  s.dst = kOther;  // the filter would drop it
  EXPECT_EQ(where(make_frame(s)), 2);
  s.dst_port = 2001;
  EXPECT_EQ(where(make_frame(s)), -1);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FILTERED), 1U);
  s.dst = b.mac();
  EXPECT_EQ(where(make_frame(s)), 0);
  EXPECT_EQ(le(last.src_qp), 0U);
  const auto counted =
      b.query<tern_rsp_flow_counter>(TERN_CMD_QUERY_FLOW_COUNTER, tern_cmd_object{le(counter), 0});
  EXPECT_EQ(le(counted.packets), 2U);
  EXPECT_EQ(le(counted.bytes), 2 * make_frame(s).size());
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_FLOW_COUNTER, tern_cmd_object{le(counter), 0}),
            TERN_ST_BUSY);
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(queues[2].number()), 0}),
            TERN_ST_BUSY);
  EXPECT_EQ(le(b.objects().flow), 1U);
  EXPECT_EQ(le(b.objects().flow_counter), 1U);
  b.destroy(TERN_CMD_DESTROY_FLOW, id);
  b.destroy(TERN_CMD_DESTROY_FLOW_COUNTER, counter);
  b.destroy(TERN_CMD_DESTROY_ETH_QUEUE, queues[2].number());
  EXPECT_EQ(le(b.objects().flow), 0U);
}

TEST_F(EthernetRxTest, FlowsDropCopyAndGroup) {
  for (int i = 0; i < 3; ++i) add_queue();
  FrameSpec s = spec();
  s.udp = true;
  const Bytes frame = make_frame(s);
  tern_cmd_create_flow cmd = udp_flow(TERN_DEST_NONE, 0, 2000);
  std::uint32_t id = create(TERN_CMD_CREATE_FLOW, cmd);
  EXPECT_EQ(where(frame), -1);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FLOW_DROPPED), 1U);
  b.destroy(TERN_CMD_DESTROY_FLOW, id);

  cmd = udp_flow(TERN_DEST_ETH_QUEUE, queues[1].number(), 2000);
  cmd.flags = TERN_FLOW_F_CONTINUE;
  id = create(TERN_CMD_CREATE_FLOW, cmd);
  pass(frame);
  EXPECT_EQ(queues[0].cq().poll_all().size(), 1U);
  EXPECT_EQ(queues[1].cq().poll_all().size(), 1U);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_PACKETS), 1U) << "one frame in two places";
  b.destroy(TERN_CMD_DESTROY_FLOW, id);

  const tern_cmd_rss rss = group(1);
  const std::uint32_t group_id = create(TERN_CMD_CREATE_RSS, rss);
  cmd = udp_flow(TERN_DEST_RSS, group_id, 2000);
  id = create(TERN_CMD_CREATE_FLOW, cmd);
  const auto hash = eth::rss_hash(frames::parse(frame).outer, rss.func, rss.fields, rss.key);
  EXPECT_EQ(where(frame), static_cast<int>(hash.value & 1));
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_RSS, tern_cmd_object{le(group_id), 0}), TERN_ST_BUSY);
  b.destroy(TERN_CMD_DESTROY_FLOW, id);
  b.destroy(TERN_CMD_DESTROY_RSS, group_id);
}

// A sniffer sees all frames, RoCE included, and takes none away.
TEST_F(EthernetRxTest, SniffersSeeRoce) {
  TestNode a(sim);
  auto [qa, qb] = rc_pair(a, b);
  add_queue();
  add_queue(0, 64, 4300);
  tern_cmd_create_flow cmd = flow(TERN_DEST_ETH_QUEUE, queues[1].number());
  cmd.kind = TERN_FLOW_SNIFFER;
  const std::uint32_t id = create(TERN_CMD_CREATE_FLOW, cmd);
  const TestMr& mr = a.reg(4096);
  const TestMr& to = b.reg(4096);
  qa.post(write({mr.sge(0, 1000)}, to));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  const auto seen = queues[1].cq().poll_all();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_GT(le(seen[0].byte_len), 1000U);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_PACKETS), 0U);
  // Frames of the interface reach it beside the sniffer.
  pass(make_frame(spec()));
  EXPECT_EQ(queues[0].cq().poll_all().size(), 1U);
  EXPECT_EQ(queues[1].cq().poll_all().size(), 1U);
  // The frame that the filter drops is counted only if nobody has it.
  FrameSpec s = spec();
  s.dst = kOther;
  pass(make_frame(s));
  EXPECT_EQ(queues[1].cq().poll_all().size(), 1U);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FILTERED), 0U);
  b.destroy(TERN_CMD_DESTROY_FLOW, id);
  qa.post(write({mr.sge(0, 1000)}, to));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(queues[1].cq().poll_all().empty());
}

// A frame costs as much as all its copies.
TEST_F(EthernetRxTest, EachCopyIsCharged) {
  add_queue();
  add_queue();
  tern_cmd_create_flow cmd = flow(TERN_DEST_ETH_QUEUE, queues[1].number());
  cmd.kind = TERN_FLOW_SNIFFER;
  for (std::size_t i = 0; i < eth::Steering::kMaxCopies; ++i) create(TERN_CMD_CREATE_FLOW, cmd);
  const auto frame = make_frame(spec());
  const std::uint64_t cost = b.device.receive_more(frame);
  b.device.end_burst();
  EXPECT_EQ(queues[0].cq().poll_all().size(), 1U);
  EXPECT_EQ(queues[1].cq().poll_all().size(), eth::Steering::kMaxCopies);
  EXPECT_GE(cost, (eth::Steering::kMaxCopies + 1) * (frame.size() + 64));
}

TEST_F(EthernetRxTest, FlowsAreNotForRoce) {
  TestNode a(sim);
  auto [qa, qb] = rc_pair(a, b);
  add_queue();
  tern_cmd_create_flow cmd = flow(TERN_DEST_NONE, 0);
  cmd.kind = TERN_FLOW_ALL;
  create(TERN_CMD_CREATE_FLOW, cmd);
  const TestMr& mr = a.reg(4096);
  qa.post(write({mr.sge(0, 1000)}, b.reg(4096)));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FLOW_DROPPED), 0U);
  EXPECT_EQ(where(make_frame(spec())), -1);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FLOW_DROPPED), 1U);
}

TEST_F(EthernetRxTest, StoppedQueuesTakeNothing) {
  add_queue();
  TestEthQueue& bad = add_queue();
  bad.store_pi(1000);
  const std::uint32_t id =
      create(TERN_CMD_CREATE_FLOW, udp_flow(TERN_DEST_ETH_QUEUE, bad.number(), 2000));
  FrameSpec s = spec();
  s.udp = true;
  for (int i = 0; i < 3; ++i) pass(make_frame(s));
  const auto all = bad.cq().poll_all();
  EXPECT_EQ(all.size(), 1U);
  EXPECT_EQ(all.at(0).status, TERN_CQE_LOC_QP_OP_ERR);
  s.dst_port = 1;
  EXPECT_EQ(where(make_frame(s)), 0);
  b.destroy(TERN_CMD_DESTROY_FLOW, id);
}

// The first queue of a group stops. The others go on, and so do the counters.
TEST_F(EthernetRxTest, OthersGoOnWhenTheFirstQueueStops) {
  for (int i = 0; i < 3; ++i) add_queue();
  const tern_cmd_rss cmd = group(7);
  ASSERT_EQ(set_default(TERN_DEST_RSS, create(TERN_CMD_CREATE_RSS, cmd)), TERN_ST_OK);
  queues[0].store_pi(1000);
  std::array<std::size_t, 3> sent{};
  for (unsigned i = 0; i < 90; ++i) {
    FrameSpec s = spec();
    s.src_port = static_cast<std::uint16_t>(40000 + i);
    const Bytes frame = make_frame(s);
    const auto hash = eth::rss_hash(frames::parse(frame).outer, cmd.func, cmd.fields, cmd.key);
    ++sent[(hash.value & 127) % 3];
    pass(frame);
  }
  const auto stopped = queues[0].cq().poll_all();
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_EQ(stopped[0].status, TERN_CQE_LOC_QP_OP_ERR);
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_GT(sent[i], 0U);
    EXPECT_EQ(queues[i].cq().poll_all().size(), sent[i]);
  }
  pass(eth_frame(kOther, kOther, 100));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FILTERED), 1U);
}

TEST_F(EthernetRxTest, ResetForgetsGroupsAndFlows) {
  add_queue();
  const std::uint32_t id = create(TERN_CMD_CREATE_RSS, group(2));
  EXPECT_EQ(set_default(TERN_DEST_RSS, id), TERN_ST_OK);
  create(TERN_CMD_CREATE_FLOW, udp_flow(TERN_DEST_RSS, id, 1));
  EXPECT_EQ(le(b.objects().rss), 1U);
  b.device.reset();
  EXPECT_EQ(b.device.port.ethernet.rss_count(), 0U);
  EXPECT_EQ(b.device.port.ethernet.steering.flows(), 0U);
  EXPECT_EQ(b.device.registry.page_entries(), 0U);
  b.device.receive(eth_frame(kBroadcast, kOther, 100));
}

}  // namespace
}  // namespace tern
