// SPDX-License-Identifier: GPL-2.0-or-later
// Receive coalescing. What the packets are cut into must be what was received, frame by frame and
// byte by byte.
#include "eth/coalesce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "frames/checksum.h"
#include "frames/sample_frames.h"
#include "frames/segmenter.h"
#include "testing/eth_queue.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

using frames::Bytes;
using frames::get16;
using frames::get8;
using frames::put16;
using frames::SampleFrame;

constexpr std::uint32_t kBuffer = 2048;
constexpr std::uint8_t kFlags = TERN_ETH_QF_SCATTER | TERN_ETH_QF_COALESCE;
constexpr std::uint8_t kAck = 0x10;
constexpr std::uint8_t kPshAck = 0x18;

tern_eth_offload tso(std::size_t l4, std::size_t headers, std::size_t mss) {
  tern_eth_offload ops{.csum_start = le(static_cast<std::uint16_t>(l4)),
                       .mss = le(static_cast<std::uint16_t>(mss)),
                       .header_len = le(static_cast<std::uint16_t>(headers)),
                       .ops = le(std::uint16_t{TERN_ETH_OP_TSO})};
  return ops;
}

// Cuts a large frame, whatever its lengths and checksums. `fixed_id`: the segments do not count.
std::vector<Bytes> cut(const Bytes& frame, std::size_t mss, bool fixed_id = false) {
  const frames::Level level = frames::parse(frame).outer;
  const auto headers = std::span(frame).first(level.payload);
  const auto segmenter =
      frames::Segmenter::make(headers, frame.size(), tso(level.l4, level.payload, mss));
  std::vector<Bytes> frames;
  for (std::size_t i = 0; segmenter && i < segmenter->count(); ++i) {
    const auto [offset, length] = segmenter->piece(i);
    const auto piece = std::span(frame).subspan(level.payload + offset, length);
    Bytes segment(headers.begin(), headers.end());
    segment.insert(segment.end(), piece.begin(), piece.end());
    segmenter->finish(i, segment);
    if (fixed_id) {
      put16(segment, level.l3 + 4, get16(headers, level.l3 + 4));
      frames::fill_checksums(segment, frames::parse(segment).outer);
    }
    frames.push_back(segment);
  }
  return frames;
}

// The frame after its headers were changed.
Bytes sealed(Bytes frame) {
  frames::fill_checksums(frame, frames::parse(frame).outer);
  return frame;
}

class CoalesceTest : public ::testing::Test {
 protected:
  Sim sim;
  TestNode b{sim, options()};
  TestCq& cq = b.create_cq(12);
  std::optional<TestEthQueue> queue;
  std::vector<std::uint32_t> segments;  // of the packets received last
  Wc last{};

  static NodeOptions options() {
    NodeOptions o;
    o.mtu = 4200;
    return o;
  }
  void SetUp() override { open(kFlags); }
  // Creates the only receive queue.
  void open(std::uint8_t flags, int buffers = 64, std::uint32_t size = kBuffer) {
    if (queue) b.destroy(TERN_CMD_DESTROY_ETH_QUEUE, queue->number());
    queue.emplace(b, TERN_ETH_QUEUE_RX, cq, 10, flags);
    EXPECT_EQ(queue->created(), TERN_ST_OK);
    next_ = 0;
    size_ = size;
    for (int i = 0; i < buffers; ++i) queue->post_buffer(size);
  }
  SampleFrame sample(std::size_t payload = 5000, bool v4 = true) {
    SampleFrame f;
    f.v4 = v4;
    f.payload = payload;
    f.flags = kAck;
    return f;
  }
  // The large frame, addressed to the node.
  Bytes large(const SampleFrame& f) {
    Bytes frame = f.make();
    std::memcpy(frame.data(), b.mac().data(), 6);
    // The options differ in their bytes: those of another kind would be noticed.
    for (std::size_t i = 0; f.tcp() && i < f.tcp_options; ++i)
      frame[f.l4() + 20 + i] = static_cast<std::byte>(3 * i + 1);
    return frame;
  }
  std::vector<Bytes> frames_of(const SampleFrame& f, std::size_t mss = 1400) {
    return cut(large(f), mss);
  }

  // The segments of a large frame as a train, in which checksums are not set.
  std::vector<Bytes> pass_train(const Bytes& frame, std::size_t mss) {
    WireFrame train{frame, Icrc::kDeferred, static_cast<std::uint32_t>(cut(frame, mss).size())};
    train.mss = static_cast<std::uint16_t>(mss);
    b.device.receive_more(train);
    b.device.end_burst();
    return take();
  }
  void expect_train(const SampleFrame& f, const std::vector<std::uint32_t>& counts,
                    std::size_t mss = 1400) {
    EXPECT_EQ(pass_train(large(f), mss), frames_of(f, mss));
    EXPECT_EQ(segments, counts);
  }

  // Passes the frames as one burst. Returns what the packets that arrive are cut into.
  std::vector<Bytes> pass(std::span<const Bytes> burst) {
    for (const Bytes& frame : burst) b.device.receive_more(frame);
    b.device.end_burst();
    return take();
  }
  std::vector<Bytes> take() {
    std::vector<Bytes> frames;
    segments.clear();
    for (const Wc& wc : cq.poll_all()) {
      EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
      EXPECT_EQ(wc.opcode, TERN_ETH_RX);
      const std::uint32_t count = TestEthQueue::buffers_of(le(wc.byte_len), size_);
      EXPECT_EQ(le(wc.wqe_index), next_ + count - 1)
          << "buffers are used in order, and to their end";
      next_ = le(wc.wqe_index) + 1;
      last = wc;
      expand(wc, queue->gathered(wc, size_), frames);
      for (std::uint32_t i = 0; i < count; ++i) queue->post_buffer(size_);
    }
    return frames;
  }
  // Passes a burst, whose packets have as many segments, and become the frames again.
  void expect(const std::vector<Bytes>& burst, const std::vector<std::uint32_t>& counts) {
    EXPECT_EQ(pass(burst), burst);
    EXPECT_EQ(segments, counts);
  }

 private:
  void expand(const Wc& wc, const Bytes& packet, std::vector<Bytes>& frames) {
    const std::uint32_t info = le(wc.srqn);
    if (info == 0) {
      segments.push_back(1);
      frames.push_back(packet);
      return;
    }
    constexpr std::uint8_t kGood = TERN_CQE_F_L3_OK | TERN_CQE_F_L4_OK;
    EXPECT_EQ(wc.flags & kGood, kGood);
    const std::uint32_t count = field_get(TERN_ETH_COALESCED_SEGS_MASK, info);
    check_headers(packet);
    const auto parts = cut(packet, field_get(TERN_ETH_COALESCED_MSS_MASK, info),
                           (info & TERN_ETH_COALESCED_FIXED_ID) != 0);
    EXPECT_GE(count, 2U);
    EXPECT_EQ(parts.size(), count);
    segments.push_back(count);
    frames.insert(frames.end(), parts.begin(), parts.end());
  }
  // What software needs for segmentation, with TERN_ETH_OP_CSUM as well.
  static void check_headers(const Bytes& packet) {
    const frames::Level level = frames::parse(packet).outer;
    ASSERT_TRUE(level.tcp());
    EXPECT_FALSE(level.cut);
    EXPECT_EQ(level.end, packet.size());
    EXPECT_TRUE(frames::check(packet, level).l3_ok);
    Bytes whole = packet;
    ASSERT_TRUE(frames::complete_checksum(whole, level.l4, 16));
    EXPECT_TRUE(frames::check(whole, level).l4_ok);
  }

  std::uint32_t next_ = 0;
  std::uint32_t size_ = kBuffer;
};

TEST_F(CoalesceTest, SegmentsOfAConnectionBecomeOnePacket) {
  for (const bool v4 : {true, false}) {
    for (const std::size_t options : {0U, 12U, 40U}) {
      for (const unsigned tags : {0U, 1U}) {
        SampleFrame f = sample(5000, v4);
        f.tcp_options = options;
        f.tags.assign(tags, 0x8100);
        f.flags = kPshAck;
        expect(frames_of(f), {4});
        EXPECT_EQ(le(last.byte_len), f.headers() + 5000);
      }
    }
  }
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_PACKETS), 48U) << "frames count as on the wire";
}

TEST_F(CoalesceTest, TakesTheTagOff) {
  open(kFlags | TERN_ETH_QF_STRIP_VLAN);
  SampleFrame f = sample();
  const auto untagged = frames_of(f);
  f.tags = {0x8100};
  EXPECT_EQ(pass(frames_of(f)), untagged);
  EXPECT_EQ(segments, std::vector<std::uint32_t>{4});
  EXPECT_TRUE(last.flags & TERN_CQE_F_VLAN);
  EXPECT_EQ(le(last.vlan), 100);
}

TEST_F(CoalesceTest, WithoutTheFlagFramesStaySingle) {
  open(TERN_ETH_QF_SCATTER);
  expect(frames_of(sample()), {1, 1, 1, 1});
}

TEST_F(CoalesceTest, ABurstEndsThePacket) {
  const auto frames = frames_of(sample());
  for (const Bytes& frame : frames) expect({frame}, {1});
  // A frame that comes alone.
  b.device.receive(frames[0]);
  EXPECT_EQ(take().size(), 1U);
}

// A frame that changes in one place never joins, and frames after it follow in order.
TEST_F(CoalesceTest, WhatSegmentationWouldNotMakeStaysApart) {
  struct Change {
    const char* what;
    std::function<void(Bytes&, const SampleFrame&)> apply;
  };
  const auto flip = [](std::size_t at, unsigned bits) {
    return [=](Bytes& frame, const SampleFrame& f) {
      frame[f.l4() + at] ^= static_cast<std::byte>(bits);
    };
  };
  const auto flip_l3 = [](std::size_t at, unsigned bits) {
    return [=](Bytes& frame, const SampleFrame& f) {
      frame[f.l3() + at] ^= static_cast<std::byte>(bits);
    };
  };
  const std::vector<Change> changes = {
      {"source MAC", [](Bytes& frame, const SampleFrame&) { frame[8] ^= std::byte{1}; }},
      {"VLAN", [](Bytes& frame, const SampleFrame&) { frame[15] ^= std::byte{1}; }},
      {"priority", [](Bytes& frame, const SampleFrame&) { frame[14] ^= std::byte{0x20}; }},
      {"source port", flip(1, 1)},
      {"destination port", flip(3, 1)},
      {"sequence", flip(7, 1)},
      {"acknowledgement", flip(11, 1)},
      {"reserved bit", flip(12, 1)},
      {"SYN", flip(13, 2)},
      {"RST", flip(13, 4)},
      {"no ACK", flip(13, 0x10)},
      {"URG", flip(13, 0x20)},
      {"ECE", flip(13, 0x40)},
      {"CWR", flip(13, 0x80)},
      {"window", flip(15, 1)},
      {"urgent pointer", flip(19, 1)},
      {"option", flip(25, 1)},
  };
  const std::vector<Change> changes4 = {{"TOS", flip_l3(1, 4)},
                                        {"ECN", flip_l3(1, 3)},
                                        {"identification", flip_l3(4, 1)},
                                        {"DF", flip_l3(6, 0x40)},
                                        {"evil bit", flip_l3(6, 0x80)},
                                        {"TTL", flip_l3(8, 1)},
                                        {"source", flip_l3(13, 1)},
                                        {"destination", flip_l3(19, 1)},
                                        {"fragment", flip_l3(6, 0x20)}};
  const std::vector<Change> changes6 = {{"class", flip_l3(1, 0x10)},
                                        {"label", flip_l3(3, 1)},
                                        {"hop limit", flip_l3(7, 1)},
                                        {"source", flip_l3(20, 1)},
                                        {"destination", flip_l3(36, 1)}};
  for (const bool v4 : {true, false}) {
    SampleFrame f = sample(5000, v4);
    f.tags = {0x8100};
    f.tcp_options = 12;
    const auto frames = frames_of(f);
    const auto apart = [&](const Change& change) {
      SCOPED_TRACE(std::string(v4 ? "IPv4 " : "IPv6 ") + change.what);
      Bytes odd = frames[2];
      change.apply(odd, f);
      odd = sealed(odd);
      expect({frames[0], frames[1], odd, frames[2], frames[3]}, {2, 1, 2});
    };
    for (const Change& change : changes) apart(change);
    for (const Change& change : v4 ? changes4 : changes6) apart(change);
  }
}

TEST_F(CoalesceTest, OtherFramesStayApart) {
  SampleFrame f = sample();
  const auto frames = frames_of(f);
  Bytes wrong = frames[2];
  wrong.back() ^= std::byte{1};
  expect({frames[0], frames[1], wrong, frames[3]}, {2, 1, 1});
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_CSUM_ERRORS), 1U);
  // Padding would get lost.
  Bytes padded = frames[2];
  padded.resize(padded.size() + 4);
  expect({frames[0], frames[1], padded, frames[3]}, {2, 1, 1});
  f.options = 4;
  expect(frames_of(f), {1, 1, 1, 1});
  f.options = 0;
  f.tags = {0x88a8, 0x8100};
  expect(frames_of(f), {1, 1, 1, 1});
  f = sample(5000, false);
  f.extensions = {60};
  expect(frames_of(f), {1, 1, 1, 1});
  f = sample(1000);
  f.protocol = 17;
  const Bytes datagram = sealed(large(f));
  expect({datagram, datagram}, {1, 1});
  f = sample(0);
  const Bytes ack = sealed(large(f));
  expect({ack, ack}, {1, 1});
}

TEST_F(CoalesceTest, AShorterSegmentEndsThePacket) {
  auto frames = frames_of(sample(5000));  // the last of 800 bytes
  SampleFrame next = sample(2800);
  next.sequence += 5000;
  Bytes head = large(next);
  put16(head, next.l3() + 4,
        static_cast<std::uint16_t>(get16(head, next.l3() + 4) + frames.size()));
  const auto more = cut(head, 1400);
  frames.insert(frames.end(), more.begin(), more.end());
  expect(frames, {4, 2});
  // A longer one cannot follow.
  SampleFrame f = sample(1000);
  const Bytes small = sealed(large(f));
  f.payload = 1400;
  f.sequence += 1000;
  Bytes longer = large(f);
  put16(longer, f.l3() + 4, static_cast<std::uint16_t>(get16(small, f.l3() + 4) + 1));
  expect({small, sealed(longer)}, {1, 1});
}

TEST_F(CoalesceTest, PshAndFinEndThePacket) {
  for (const unsigned flags : {0x18U, 0x11U, 0x19U}) {
    const auto plain = frames_of(sample());
    auto frames = plain;
    frames[1][sample().l4() + 13] = std::byte(flags);
    frames[1] = sealed(frames[1]);
    expect(frames, {2, 2});
    expect({frames[1], frames[2], frames[3]}, {1, 2});
  }
}

TEST_F(CoalesceTest, Identifications) {
  const SampleFrame f = sample();
  const auto with = [&](std::vector<std::uint16_t> ids, bool df) {
    auto frames = frames_of(f);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      put16(frames[i], f.l3() + 4, ids[i]);
      put16(frames[i], f.l3() + 6, df ? 0x4000 : 0);
      frames[i] = sealed(frames[i]);
    }
    return frames;
  };
  expect(with({0xfffe, 0xffff, 0, 1}, true), {4});
  expect(with({0xfffe, 0xffff, 0, 1}, false), {4});
  expect(with({7, 7, 7, 7}, true), {4});
  EXPECT_TRUE(le(last.srqn) & TERN_ETH_COALESCED_FIXED_ID);
  expect(with({7, 7, 7, 7}, false), {4});
  expect(with({7, 8, 8, 8}, true), {2, 2});
  expect(with({7, 7, 8, 9}, true), {2, 2});
  expect(with({7, 9, 11, 13}, true), {1, 1, 1, 1});
}

// ---- trains ----

TEST_F(CoalesceTest, ATrainIsOnePacket) {
  std::uint64_t packets = 0, bytes = 0;
  for (const bool v4 : {true, false}) {
    for (const std::size_t options : {0U, 40U}) {
      for (const std::size_t payload : {1401U, 5000U, 65'000U}) {
        for (const std::uint8_t flags : {kAck, kPshAck, std::uint8_t{0x59}}) {
          SampleFrame f = sample(payload, v4);
          f.tcp_options = options;
          f.tags.assign(payload % 2, 0x8100);
          f.flags = flags;
          const auto frames = frames_of(f);
          open(kFlags, 64, 4096);
          expect_train(f, {static_cast<std::uint32_t>(frames.size())});
          packets += frames.size();
          for (const Bytes& frame : frames) bytes += std::max(frames::kMinFrame, frame.size());
        }
      }
    }
  }
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_PACKETS), packets) << "frames count as on the wire";
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_BYTES), bytes);
  open(kFlags | TERN_ETH_QF_STRIP_VLAN);
  SampleFrame f = sample();
  const auto untagged = frames_of(f);
  f.tags = {0x8100};
  EXPECT_EQ(pass_train(large(f), 1400), untagged);
  EXPECT_EQ(segments, std::vector<std::uint32_t>{4});
  EXPECT_TRUE(last.flags & TERN_CQE_F_VLAN);
}

TEST_F(CoalesceTest, ATrainThatCannotBeAPacketIsDivided) {
  const std::vector<std::uint32_t> single(4, 1);
  SampleFrame f = sample();
  f.options = 4;
  expect_train(f, single);
  f = sample();
  f.tags = {0x88a8, 0x8100};
  expect_train(f, single);
  f = sample(5000, false);
  f.extensions = {60};
  expect_train(f, single);
  f = sample();
  f.flags = 0x90;  // CWR, which only the first segment has
  expect_train(f, {1, 3});
  open(TERN_ETH_QF_SCATTER);
  expect_train(sample(), single);
  // 18 buffers hold 27000 bytes.
  open(kFlags, 64, 1500);
  expect_train(sample(28'000), {19, 1});
  // Somebody sees the frames.
  open(kFlags);
  b.device.set_capture(true);
  expect_train(sample(), {4});
}

// Packets of a train may be longer than the train, because they are padded.
TEST_F(CoalesceTest, AShortTrain) {
  SampleFrame f = sample(2);
  f.options = 4;
  EXPECT_EQ(pass_train(large(f), 1).size(), 2U);
}

// A train needs the queue of its frames, and no other.
TEST_F(CoalesceTest, ATrainNeedsItsQueue) {
  TestCq& other = b.create_cq(4);
  TestEthQueue second(b, TERN_ETH_QUEUE_RX, other, 4, kFlags);
  for (int i = 0; i < 8; ++i) second.post_buffer(kBuffer);
  const auto to = [&](std::uint8_t dest) {
    b.run(TERN_CMD_SET_RX_DEFAULT,
          tern_cmd_set_rx_default{
              .id = le(dest == TERN_DEST_NONE ? 0 : second.number()), .dest = dest, .port = 1});
  };
  const auto packets = [&] {
    to(TERN_DEST_ETH_QUEUE);
    (void)pass_train(large(sample()), 1400);
    return other.poll_all().size();
  };
  EXPECT_EQ(packets(), 1U);
  to(TERN_DEST_NONE);
  queue->store_pi(5000);  // more than it has
  b.device.receive(frames_of(sample())[0]);
  EXPECT_NE(cq.poll_all().at(0).status, TERN_CQE_SUCCESS);
  EXPECT_EQ(packets(), 1U);
  to(TERN_DEST_NONE);
  EXPECT_TRUE(pass_train(large(sample()), 1400).empty());
}

TEST_F(CoalesceTest, ATrainFollowsAnOpenPacket) {
  const auto frames = frames_of(sample());
  SampleFrame next = sample(4200);
  next.sequence += 5000;
  b.device.receive_more(frames[0]);
  b.device.receive_more(frames[1]);
  const auto got = pass_train(large(next), 1400);
  EXPECT_EQ(segments, (std::vector<std::uint32_t>{2, 3}));
  ASSERT_EQ(got.size(), 5U);
  EXPECT_EQ(got[1], frames[1]);
  EXPECT_EQ(got[2], frames_of(next)[0]);
}

TEST_F(CoalesceTest, ATrainWithoutBuffersLosesFrames) {
  open(kFlags, 2);
  const auto got = pass_train(large(sample()), 1400);
  const auto frames = frames_of(sample());
  EXPECT_EQ(got, std::vector<Bytes>(frames.begin(), frames.begin() + 2));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_NO_BUFFER), 2U);
}

TEST_F(CoalesceTest, ATrainToSomebodyElseIsFiltered) {
  Bytes frame = large(sample());
  frame[5] ^= std::byte{1};
  EXPECT_TRUE(pass_train(frame, 1400).empty());
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FILTERED), 4U);
}

TEST_F(CoalesceTest, ATrainToAnUnreachableBufferFails) {
  open(kFlags, 0);
  queue->put(0xdead0000, 8192, 0);
  queue->publish();
  const Bytes frame = large(sample());
  WireFrame train{frame, Icrc::kDeferred, 4};
  train.mss = 1400;
  b.device.receive_more(train);
  const auto all = cq.poll_all();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].status, TERN_CQE_LOC_PROT_ERR);
}

// ---- buffers ----

TEST_F(CoalesceTest, APacketHasAsManyBuffersAsAFrame) {
  open(kFlags, 64, 1500);
  // 18 buffers hold 27000 bytes: the headers and 19 segments.
  expect(frames_of(sample(28000)), {19, 1});
  open(kFlags, 64, 8192);
  // 65535 bytes of IP at most.
  std::vector<Bytes> stream;
  SampleFrame f = sample(40'000);
  for (int i = 0; i < 2; ++i, f.sequence += 40'000) {
    Bytes head = large(f);
    put16(head, f.l3() + 4, static_cast<std::uint16_t>(10 * i));
    const auto part = cut(head, 4000);
    stream.insert(stream.end(), part.begin(), part.end());
  }
  expect(stream, {16, 4});
}

TEST_F(CoalesceTest, WithoutBuffersThePacketIsCompleteAndFramesAreLost) {
  open(kFlags, 2);
  const auto frames = frames_of(sample());
  const auto got = pass(frames);
  EXPECT_EQ(segments, std::vector<std::uint32_t>{2});
  EXPECT_EQ(got, std::vector<Bytes>(frames.begin(), frames.begin() + 2));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_NO_BUFFER), 2U);
}

// The frame whose piece is lost goes to the next buffers, or fails alone.
TEST_F(CoalesceTest, AnUnreachableBufferFailsOneFrame) {
  open(kFlags, 1);
  queue->put(0xdead0000, kBuffer, 0);
  queue->publish();
  for (int i = 0; i < 4; ++i) queue->post_buffer(kBuffer);
  for (const Bytes& frame : frames_of(sample())) b.device.receive_more(frame);
  b.device.end_burst();
  const auto all = cq.poll_all();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(all[0].wqe_index), 0U);
  EXPECT_EQ(le(all[0].srqn), 0U);
  EXPECT_EQ(all[1].status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(le(all[1].wqe_index), 1U);
  EXPECT_EQ(all[2].status, TERN_CQE_SUCCESS);
  EXPECT_EQ(field_get(TERN_ETH_COALESCED_SEGS_MASK, le(all[2].srqn)), 2U);
}

TEST_F(CoalesceTest, AResetForgetsThePacket) {
  b.device.receive_more(frames_of(sample())[0]);
  b.device.reset();
  b.device.end_burst();
  EXPECT_TRUE(cq.poll_all().empty());
}

TEST_F(CoalesceTest, RefusedFlags) {
  for (const unsigned flags :
       {8U, 8U | TERN_ETH_QF_KEEP_FCS, 8U | TERN_ETH_QF_SCATTER | TERN_ETH_QF_KEEP_FCS}) {
    EXPECT_EQ(TestEthQueue(b, TERN_ETH_QUEUE_RX, cq, 6, static_cast<std::uint8_t>(flags)).created(),
              TERN_ST_BAD_PARAM);
  }
  EXPECT_EQ(TestEthQueue(b, TERN_ETH_QUEUE_TX, cq, 6, TERN_ETH_QF_COALESCE).created(),
            TERN_ST_BAD_PARAM);
}

// ---- everything at random ----

// Streams of several connections, interleaved, with frames lost, repeated, changed and damaged.
TEST_F(CoalesceTest, AnythingComesOutAsItCameIn) {
  std::mt19937 random(1);
  const auto draw = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  std::uint32_t joined = 0;
  open(kFlags, 500);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::vector<Bytes>> flows;
    for (unsigned i = 0; i <= draw(3); ++i) {
      SampleFrame f = frames::draw_frame(random);
      f.flags = draw(3) != 0 ? kPshAck : static_cast<std::uint8_t>(random());
      f.payload = 1 + draw(20'000);
      f.padding = 0;
      if (draw(4) != 0)
        f.protocol = 6, f.fragment = false, f.options = 0, f.extensions.clear(),
        f.tags.resize(draw(2), 0x8100);
      auto frames = f.tcp() && !f.fragment ? frames_of(f, 50 + draw(1400)) : std::vector<Bytes>{};
      if (frames.empty()) frames = {large(f)};
      flows.push_back(std::move(frames));
    }
    std::vector<Bytes> burst;
    unsigned flow = 0;
    while (!flows.empty()) {
      if (draw(6) == 0) flow = draw(8);
      auto& frames = flows[flow % flows.size()];
      Bytes frame = frames.front();
      frames.erase(frames.begin());
      if (frames.empty()) flows.erase(flows.begin() + flow % flows.size());
      const unsigned fate = draw(60);
      if (frame.size() > 4000 || fate == 0) continue;
      if (fate == 1) burst.push_back(frame);
      if (fate == 2)
        frame[12 + draw(static_cast<unsigned>(frame.size()) - 12)] ^=
            static_cast<std::byte>(1U << draw(8));
      if (fate == 3) {
        frame[12 + draw(60) % (frame.size() - 12)] ^= static_cast<std::byte>(1U << draw(8));
        frame = sealed(frame);
      }
      burst.push_back(frame);
      if (burst.size() > 100) break;
    }
    ASSERT_EQ(pass(burst), burst) << "round " << round;
    for (const std::uint32_t count : segments) joined += count - 1;
  }
  EXPECT_GT(joined, 5000U);
}

}  // namespace
}  // namespace tern
