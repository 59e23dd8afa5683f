// SPDX-License-Identifier: GPL-2.0-or-later
// Transmit queues: offloads, hostile descriptors, and turns of many queues.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>

#include "testing/eth_queue.h"
#include "tests/eth_frames.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

class EthernetTxTest : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestEthQueue tx{a, TERN_ETH_QUEUE_TX, a.create_cq(12), 8};
  TestEthQueue rx{b, TERN_ETH_QUEUE_RX, b.create_cq(12), 10};

  void SetUp() override {
    ASSERT_EQ(tx.created(), TERN_ST_OK);
    ASSERT_EQ(rx.created(), TERN_ST_OK);
    for (int i = 0; i < 1024; ++i) rx.post_buffer(4300);
  }
  FrameSpec spec(std::size_t payload = 100) {
    FrameSpec s;
    s.dst = b.mac();
    s.src = a.mac();
    s.payload = payload;
    return s;
  }
  static tern_eth_offload ops(std::uint16_t o) {
    tern_eth_offload offload{};
    offload.ops = o;
    return offload;
  }
  static tern_eth_offload tso(const FrameSpec& s, std::uint16_t mss) {
    tern_eth_offload offload = ops(s.udp ? TERN_ETH_OP_USO : TERN_ETH_OP_TSO);
    offload.mss = mss;
    offload.header_len = static_cast<std::uint16_t>(s.headers());
    offload.csum_start = static_cast<std::uint16_t>(s.l4());
    return offload;
  }
  std::uint8_t status() {
    sim.run_until_idle();
    const auto all = tx.cq().poll_all();
    EXPECT_EQ(all.size(), 1U);
    EXPECT_EQ(le(all.at(0).wqe_index), tx.posted() - 1);
    return all.at(0).status;
  }
  // All frames that b received.
  std::vector<Bytes> frames() {
    sim.run_until_idle();
    std::vector<Bytes> all;
    for (const Wc& wc : rx.cq().poll_all()) {
      EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
      all.push_back(rx.received(wc));
    }
    return all;
  }
};

TEST_F(EthernetTxTest, CompletesChecksums) {
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      FrameSpec s = spec(333);
      s.ipv6 = ipv6;
      s.udp = udp;
      tern_eth_offload offload = ops(TERN_ETH_OP_CSUM);
      offload.csum_start = static_cast<std::uint16_t>(s.l4());
      offload.csum_offset = udp ? 6 : 16;
      tx.send(offload, make_frame(s, Sums::kPseudo), std::array<std::size_t, 2>{20, 300});
      EXPECT_EQ(status(), TERN_CQE_SUCCESS);
      EXPECT_EQ(frames(), std::vector<Bytes>{make_frame(s)});

      Bytes blank = make_frame(s, Sums::kNone);
      if (!ipv6) put_be16(blank, s.l3() + 10, 0);
      tx.send(ops(TERN_ETH_OP_IP_CSUM), blank);
      EXPECT_EQ(status(), TERN_CQE_SUCCESS);
      EXPECT_EQ(frames(), std::vector<Bytes>{make_frame(s)});
    }
  }
}

TEST_F(EthernetTxTest, InsertsTags) {
  FrameSpec s = spec(50);
  tern_eth_offload offload = ops(TERN_ETH_OP_VLAN | TERN_ETH_OP_CSUM);
  offload.vlan = 0xa123;
  offload.csum_start = static_cast<std::uint16_t>(s.l4());
  offload.csum_offset = 16;
  tx.send(offload, make_frame(s, Sums::kPseudo));
  EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  s.vlan = 0xa123;
  EXPECT_EQ(frames(), std::vector<Bytes>{make_frame(s)});
  // Without any operation, the frame stays as it is.
  tx.send(ops(0), make_frame(spec()));
  EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  EXPECT_EQ(frames(), std::vector<Bytes>{make_frame(spec())});
}

// Every segment is whole, and together they carry the stream that was posted.
TEST_F(EthernetTxTest, CutsLargeFrames) {
  unsigned seed = 1;
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      for (const bool tag : {false, true}) {
        for (const std::size_t payload : {1U, 1399U, 1400U, 1401U, 30000U, 65000U}) {
          FrameSpec s = spec(payload);
          s.ipv6 = ipv6;
          s.udp = udp;
          s.seed = ++seed;
          s.sequence = 0xfffff000;
          s.tcp_flags = 0x19;  // ACK, PSH, FIN
          tern_eth_offload offload = tso(s, 1400);
          if (tag) offload.ops |= TERN_ETH_OP_VLAN;
          offload.vlan = 0x6005;
          tx.send(offload, make_frame(s, Sums::kNone),
                  std::array<std::size_t, 4>{10, s.headers() - 10, 0, payload / 2});
          EXPECT_EQ(status(), TERN_CQE_SUCCESS);
          if (tag) s.vlan = 0x6005;
          const auto got = frames();
          ASSERT_EQ(got.size(), (payload + 1399) / 1400);
          std::size_t at = 0;
          for (std::size_t i = 0; i < got.size(); ++i) {
            FrameSpec want = s;
            want.payload = std::min<std::size_t>(1400, payload - at);
            want.sequence += static_cast<std::uint32_t>(at);
            const Bytes& f = got[i];
            ASSERT_GE(f.size(), std::max<std::size_t>(60, s.headers() + want.payload));
            EXPECT_TRUE(sums_right(f, want)) << i;
            if (!udp) {
              EXPECT_EQ(get_be32(f, s.l4() + 4), want.sequence);
              EXPECT_EQ(f[s.l4() + 13], i + 1 == got.size() ? std::byte{0x19} : std::byte{0x10});
            }
            if (!ipv6) {
              EXPECT_EQ(get_be16(f, s.l3() + 4), 0x77f0 + i);
            }
            for (std::size_t k = 0; k < want.payload; ++k)
              ASSERT_EQ(f[s.headers() + k], payload_byte(s.seed, at + k));
            at += want.payload;
          }
          EXPECT_EQ(at, payload);
        }
      }
    }
  }
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_SEGMENTED), 48U);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_ERRORS), 0U);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_CSUM_ERRORS), 0U);
}

// A large frame takes several turns; another queue's frames go in between.
// A device whose host takes unfinished frames sends the same segments, TCP's as one frame.
TEST_F(EthernetTxTest, SendsTrains) {
  TestNode c(sim, {.unfinished_frames = true});
  TestEthQueue train(c, TERN_ETH_QUEUE_TX, c.create_cq(12), 8);
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      for (const bool tag : {false, true}) {
        for (const std::size_t payload : {1400U, 1401U, 30000U, 65536U}) {
          for (const bool whole : {false, true}) {
            sim.whole_trains = whole;
            FrameSpec s = spec(payload);
            s.ipv6 = ipv6;
            s.udp = udp;
            s.payload = std::min(payload, TERN_ETH_MAX_TSO - s.headers());
            s.tcp_flags = 0xd9;  // CWR, ECE, ACK, PSH, FIN
            tern_eth_offload offload = tso(s, 1400);
            if (tag) offload.ops |= TERN_ETH_OP_VLAN;
            offload.vlan = 0x6005;
            tx.send(offload, make_frame(s));
            EXPECT_EQ(status(), TERN_CQE_SUCCESS);
            const auto expected = frames();
            const std::uint64_t before = sim.stats.trains;
            train.send(offload, make_frame(s));
            EXPECT_EQ(frames(), expected);
            EXPECT_EQ(train.cq().poll_all().size(), 1U);
            EXPECT_EQ(sim.stats.trains - before, !udp && payload > 1400 ? 1U : 0U);
            for (std::size_t i = 0; i < 2 * expected.size(); ++i) rx.post_buffer(4300);
          }
        }
      }
    }
  }
  for (unsigned n = 0; n < TERN_ETH_CNT_NUM; ++n)
    EXPECT_EQ(c.eth_counter(n), a.eth_counter(n)) << n;
}

// Whoever divides a train must not have much more work than its sender.
TEST_F(EthernetTxTest, SomeLargeFramesAreNoTrains) {
  TestNode c(sim, {.unfinished_frames = true});
  TestEthQueue queue(c, TERN_ETH_QUEUE_TX, c.create_cq(12), 8);
  const auto trains = [&](const FrameSpec& s, const tern_eth_offload& offload) {
    const std::uint64_t before = sim.stats.trains;
    queue.send(offload, make_frame(s));
    (void)frames();
    EXPECT_EQ(queue.cq().poll_all().at(0).status, TERN_CQE_SUCCESS);
    for (int i = 0; i < 64; ++i) rx.post_buffer(4300);
    return sim.stats.trains - before;
  };
  const FrameSpec s = spec(4000);
  EXPECT_EQ(trains(s, tso(s, 512)), 1U);
  EXPECT_EQ(trains(s, tso(s, 511)), 0U);
  c.device.cut_large_frames(2);
  EXPECT_EQ(trains(s, tso(s, 1400)), 0U);
  EXPECT_EQ(trains(s, tso(s, 1400)), 0U);
  EXPECT_EQ(trains(s, tso(s, 1400)), 1U);
  sim.budget = 4096;  // as while the wire takes little
  EXPECT_EQ(trains(s, tso(s, 1400)), 0U);
}

// A train is longer than a turn: the queue pays for it with turns that others have.
TEST_F(EthernetTxTest, TrainsShareTheWire) {
  TestNode c(sim, {.unfinished_frames = true});
  TestCq& cq = c.create_cq(12);
  TestEthQueue large(c, TERN_ETH_QUEUE_TX, cq, 8);
  TestEthQueue plain(c, TERN_ETH_QUEUE_TX, cq, 10);
  std::uint64_t in_trains = 0, in_frames = 0;
  sim.whole_trains = true;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    (frame.size() > 2000 ? in_trains : in_frames) += frame.size();
    return false;
  };
  const Bytes small = make_frame(spec(1400));
  const std::uint64_t at = c.host.alloc(small.size(), 64);
  std::memcpy(c.host.at(at), small.data(), small.size());
  for (int i = 0; i < 1000; ++i)
    plain.put(at, static_cast<std::uint32_t>(small.size()), TERN_ETH_F_EOP);
  plain.publish();
  const FrameSpec s = spec(60'000);
  for (int i = 0; i < 20; ++i) {
    large.put_offload(tso(s, 1400));
    large.post(make_frame(s));
  }
  large.kick();
  plain.kick();
  while (in_trains + in_frames < 1'000'000) {
    ASSERT_TRUE(sim.step());
    EXPECT_LE(in_trains, in_frames + 2 * 65536 + in_frames / 4);
    EXPECT_LE(in_frames, in_trains + 2 * 65536 + in_trains / 4);
  }
}

TEST_F(EthernetTxTest, TrainsOutOfReachEndTheFrame) {
  TestNode c(sim, {.unfinished_frames = true});
  TestEthQueue train(c, TERN_ETH_QUEUE_TX, c.create_cq(12), 8);
  const FrameSpec s = spec(9000);
  const Bytes frame = make_frame(s);
  train.put_offload(tso(s, 1400));
  const std::uint64_t at = c.alloc(4000, 64);
  std::ranges::copy(std::span(frame).first(4000), c.at(at, 4000));
  train.put(at, 4000, 0);
  train.put(0xdead0000, static_cast<std::uint32_t>(frame.size() - 4000), TERN_ETH_F_EOP);
  train.publish();
  train.kick();
  EXPECT_TRUE(frames().empty());
  const auto all = train.cq().poll_all();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].status, TERN_CQE_LOC_PROT_ERR);
}

TEST_F(EthernetTxTest, LargeFramesShareTheWire) {
  TestEthQueue other(a, TERN_ETH_QUEUE_TX, a.create_cq());
  ASSERT_EQ(other.created(), TERN_ST_OK);
  std::vector<std::size_t> lengths;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    lengths.push_back(frame.size());
    return true;
  };
  const FrameSpec s = spec(64000);
  tx.send(tso(s, 1000), make_frame(s, Sums::kNone));
  other.send(make_frame(spec(200)));
  sim.budget = 5000;
  sim.run_until_idle();
  ASSERT_EQ(lengths.size(), 65U);
  const auto at = std::ranges::find(lengths, 254U) - lengths.begin();
  EXPECT_GT(at, 8);
  EXPECT_LT(at, 20);
  EXPECT_EQ(tx.cq().poll_all().size(), 1U);
  EXPECT_EQ(frames().size(), 65U);
}

TEST_F(EthernetTxTest, RefusesOffloads) {
  const FrameSpec s = spec(5000);
  const Bytes frame = make_frame(s, Sums::kNone);
  const auto refused = [&](const tern_eth_offload& offload, const Bytes& bytes) {
    tx.send(offload, bytes);
    return status() == TERN_CQE_LOC_LEN_ERR;
  };
  const auto changed = [&](auto change) {
    tern_eth_offload offload = tso(s, 1000);
    change(offload);
    return refused(offload, frame);
  };
  EXPECT_TRUE(changed([](auto& o) { o.mss = 0; }));
  EXPECT_TRUE(changed([](auto& o) { o.mss = 4200 + 22; }))
      << "a segment longer than the MTU allows";
  EXPECT_TRUE(changed([](auto& o) { o.header_len = 0; }));
  EXPECT_TRUE(changed([](auto& o) { o.header_len = 53; })) << "TCP header cut short";
  EXPECT_TRUE(changed([](auto& o) { o.header_len = 55; }));
  EXPECT_TRUE(changed([](auto& o) { o.header_len = 0xffff; }));
  EXPECT_TRUE(changed([](auto& o) { o.csum_start = 33; }));
  EXPECT_TRUE(changed([](auto& o) { o.ops = TERN_ETH_OP_USO; })) << "TCP";
  EXPECT_TRUE(changed([](auto& o) { o.ops = 0x20; }));
  EXPECT_TRUE(changed([](auto& o) { o.ops = TERN_ETH_OP_CSUM | TERN_ETH_OP_IP_CSUM; }));
  EXPECT_TRUE(changed([](auto& o) { o.rsvd_e = 1; }));
  EXPECT_TRUE(changed([](auto& o) { o.ops = 0; })) << "too long without segmentation";
  EXPECT_TRUE(refused(tso(s, 1000), make_frame(spec(40), Sums::kNone)) == false)
      << "one short segment";
  EXPECT_TRUE(refused(tso(spec(65536), 1000), make_frame(spec(65536), Sums::kNone)));
  EXPECT_FALSE(refused(tso(spec(65482), 4000), make_frame(spec(65482), Sums::kNone)));
  EXPECT_TRUE(refused(tso(s, 1000), Bytes(5000))) << "no IP";
  EXPECT_TRUE(refused(tso(s, 1000), Bytes(20))) << "shorter than the headers";
  tern_eth_offload outside = ops(TERN_ETH_OP_CSUM);
  const Bytes small = make_frame(spec(100));
  outside.csum_start = static_cast<std::uint16_t>(small.size() - 1);
  EXPECT_TRUE(refused(outside, small));
  outside.csum_start = 0xffff;
  outside.csum_offset = 0xffff;
  EXPECT_TRUE(refused(outside, small));
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_ERRORS), 17U);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_SEGMENTED), 2U);
  // The queue still works.
  frames();
  tx.send(small);
  EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  EXPECT_EQ(frames(), std::vector<Bytes>{small});
}

// A tag needs its room, too: the peer could not receive the frame.
TEST_F(EthernetTxTest, TagsCountForTheLength) {
  const auto sends = [&](std::size_t payload) {
    tx.send(ops(TERN_ETH_OP_VLAN), make_frame(spec(payload)));
    return status() == TERN_CQE_SUCCESS;
  };
  EXPECT_TRUE(sends(4200 + 22 - 4 - 54));
  EXPECT_FALSE(sends(4200 + 22 - 4 - 54 + 1));
  EXPECT_EQ(frames().at(0).size(), 4222U);
}

TEST_F(EthernetTxTest, OffloadDescriptorsOnlyBegin) {
  const Bytes frame = make_frame(spec());
  const std::uint64_t addr = a.host.alloc(frame.size(), 64);
  std::memcpy(a.host.at(addr), frame.data(), frame.size());
  // Alone, with EOP.
  tern_eth_offload alone = ops(0);
  alone.flags = TERN_ETH_F_EOP;
  tx.put_offload(alone);
  tx.publish();
  tx.kick();
  EXPECT_EQ(status(), TERN_CQE_LOC_LEN_ERR);
  // Twice.
  tx.put_offload(ops(0));
  tx.put_offload(ops(0));
  tx.put(addr, static_cast<std::uint32_t>(frame.size()), TERN_ETH_F_EOP);
  tx.publish();
  tx.kick();
  EXPECT_EQ(status(), TERN_CQE_LOC_LEN_ERR);
  // Behind bytes.
  tx.put(addr, 20, 0);
  tx.put_offload(ops(0));
  tx.put(addr + 20, static_cast<std::uint32_t>(frame.size()) - 20, TERN_ETH_F_EOP);
  tx.publish();
  tx.kick();
  EXPECT_EQ(status(), TERN_CQE_LOC_LEN_ERR);
  // Unknown flags beside it.
  tern_eth_offload unknown = ops(0);
  unknown.flags = 4;
  tx.send(unknown, frame);
  EXPECT_EQ(status(), TERN_CQE_LOC_LEN_ERR);
  EXPECT_TRUE(frames().empty());
}

TEST_F(EthernetTxTest, MostDescriptorsIncludeTheOffload) {
  const Bytes frame = make_frame(spec(300));
  tx.send(ops(0), frame, std::vector<std::size_t>(TERN_ETH_MAX_TXD - 2, 10));
  EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  EXPECT_EQ(frames(), std::vector<Bytes>{frame});
  tx.send(ops(0), frame, std::vector<std::size_t>(TERN_ETH_MAX_TXD - 1, 10));
  sim.run_until_idle();
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_LOC_QP_OP_ERR);
}

// Some segments leave before the device finds that the rest is not there.
TEST_F(EthernetTxTest, SegmentsOutOfReachEndTheFrame) {
  const FrameSpec s = spec(2000);
  const Bytes frame = make_frame(s, Sums::kNone);
  const std::uint64_t addr = a.host.alloc(frame.size(), 64);
  std::memcpy(a.host.at(addr), frame.data(), frame.size());
  tx.put_offload(tso(s, 1000));
  tx.put(addr, static_cast<std::uint32_t>(s.headers()) + 1500, 0);
  tx.put(0xdead0000, 3000, TERN_ETH_F_EOP);
  tx.publish();
  tx.kick();
  EXPECT_EQ(status(), TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(frames().size(), 1U);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_ERRORS), 1U);
  tx.send(tso(s, 1000), frame);
  EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  EXPECT_EQ(frames().size(), 2U);
}

TEST_F(EthernetTxTest, DestroyedAmidALargeFrame) {
  const FrameSpec s = spec(64000);
  tx.send(tso(s, 500), make_frame(s, Sums::kNone));
  EXPECT_TRUE(a.device.run(3000));
  a.destroy(TERN_CMD_DESTROY_ETH_QUEUE, tx.number());
  sim.run_until_idle();
  EXPECT_TRUE(tx.cq().poll_all().empty());
  EXPECT_LT(b.eth_counter(TERN_ETH_CNT_RX_PACKETS), 128U);
}

TEST_F(EthernetTxTest, LargeFramesVanishWithoutLink) {
  a.device.set_link(false);
  const FrameSpec s = spec(3000);
  tx.send(tso(s, 1000), make_frame(s, Sums::kNone));
  EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_ERRORS), 1U);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_SEGMENTED), 0U);
  EXPECT_EQ(sim.stats.sent, 0U);
}

TEST_F(EthernetTxTest, CountsKindsAndSizes) {
  const auto send = [&](const Mac& dst, std::size_t len) {
    tx.send(eth_frame(dst, a.mac(), len));
    EXPECT_EQ(status(), TERN_CQE_SUCCESS);
  };
  constexpr std::array<std::size_t, 12> kLengths = {42,  60,  61,  123,  124,  251,
                                                    252, 507, 508, 1019, 1020, 1514};
  for (const std::size_t n : kLengths) send(b.mac(), n);
  send(b.mac(), 1515);
  send({0x33, 0x33, 0, 0, 0, 1}, 100);
  send({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 100);
  constexpr std::array<std::uint64_t, TERN_ETH_SIZES> kWant = {2, 4, 2, 2, 2, 2, 1};
  for (unsigned i = 0; i < TERN_ETH_SIZES; ++i)
    EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_SIZES + i), kWant[i]) << i;
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_MULTICAST), 1U);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_BROADCAST), 1U);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_BROADCAST), 1U);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_SIZES), 2U);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_SIZES + 6), 1U);
}

// ---- many queues ----

// Sixteen queues full of frames get the same number of bytes, up to one turn each, whatever their
// frames' sizes.
TEST_F(EthernetTxTest, QueuesShareFairly) {
  constexpr unsigned kQueues = 15;
  std::deque<TestEthQueue> queues;
  TestCq& cq = a.create_cq(12);
  for (unsigned i = 0; i < kQueues; ++i) queues.emplace_back(a, TERN_ETH_QUEUE_TX, cq, 8);
  std::array<std::uint64_t, kQueues> sent{};
  std::uint64_t frames_seen = 0;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    sent.at(std::to_integer<unsigned>(frame[11])) += frame.size() + 256;
    ++frames_seen;
    return false;
  };
  for (unsigned i = 0; i < kQueues; ++i) {
    ASSERT_EQ(queues[i].created(), TERN_ST_OK);
    const auto frame =
        eth_frame(b.mac(), {0, 0, 0, 0, 0, static_cast<std::uint8_t>(i)}, 200 + 250 * i);
    const std::uint64_t addr = a.host.alloc(frame.size(), 64);
    std::memcpy(a.host.at(addr), frame.data(), frame.size());
    for (int k = 0; k < 256; ++k)
      queues[i].put(addr, static_cast<std::uint32_t>(frame.size()), TERN_ETH_F_EOP);
    queues[i].publish();
    queues[i].kick();
  }
  sim.budget = 7000;
  while (frames_seen < 600) sim.step();
  const auto [least, most] = std::ranges::minmax(sent);
  EXPECT_LE(most - least, 2 * 16384U);
  EXPECT_GT(least, 0U);
  sim.run_until_idle();
  EXPECT_EQ(frames_seen, 256U * kQueues);
}

TEST_F(EthernetTxTest, QueuesComeAndGoInAnyOrder) {
  std::deque<TestEthQueue> queues;
  for (unsigned i = 0; i < 15; ++i) queues.emplace_back(a, TERN_ETH_QUEUE_TX, a.create_cq());
  const Bytes frame = make_frame(spec());
  for (const unsigned i : {7U, 0U, 14U, 3U}) {
    queues[i].send(frame);
    a.destroy(TERN_CMD_DESTROY_ETH_QUEUE, queues[i].number());
    queues[i].kick();
  }
  EXPECT_EQ(a.counter(TERN_CNT_BAD_DOORBELL), 4U);
  EXPECT_TRUE(frames().empty()) << "destroyed before they were served";
  TestEthQueue late(a, TERN_ETH_QUEUE_TX, a.create_cq());
  ASSERT_EQ(late.created(), TERN_ST_OK);
  late.send(frame);
  queues[9].send(frame);
  EXPECT_EQ(frames().size(), 2U);
  EXPECT_EQ(le(a.objects().eth_queue), 13U);
}

// A doorbell without payload finds the queue as well.
TEST_F(EthernetTxTest, PageDoorbellServesAllQueues) {
  TestEthQueue other(a, TERN_ETH_QUEUE_TX, a.create_cq());
  const Bytes frame = make_frame(spec());
  for (TestEthQueue* q : {&tx, &other}) {
    const std::uint64_t addr = a.host.alloc(frame.size(), 64);
    std::memcpy(a.host.at(addr), frame.data(), frame.size());
    q->put(addr, static_cast<std::uint32_t>(frame.size()), TERN_ETH_F_EOP);
    q->publish();
  }
  a.doorbell(a.uar(), TERN_DB_CMD_PAGE, 0);
  EXPECT_EQ(frames(), (std::vector<Bytes>{frame, frame}));
}

// A stopped queue does not stop the others.
TEST_F(EthernetTxTest, StoppedQueuesStopAlone) {
  TestEthQueue other(a, TERN_ETH_QUEUE_TX, a.create_cq());
  other.store_pi(1000);
  other.kick();
  tx.send(make_frame(spec()));
  EXPECT_EQ(frames().size(), 1U);
  EXPECT_EQ(other.cq().wait().status, TERN_CQE_LOC_QP_OP_ERR);
  other.kick();
  EXPECT_FALSE(a.device.run(65536));
}

}  // namespace
}  // namespace tern
