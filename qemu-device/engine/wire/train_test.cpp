// SPDX-License-Identifier: GPL-2.0-or-later
// A train divides into the frames of its packets, byte by byte.
#include "wire/train.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <span>
#include <vector>

#include "tests/fake_host.h"
#include "tests/packet_samples.h"

namespace tern {
namespace {

// The operations of the first, a middle and the last packet of a train.
struct Kind {
  Op train, first, middle, last;
};
constexpr Kind kKinds[] = {
    {Op::kSendFirst, Op::kSendFirst, Op::kSendMiddle, Op::kSendMiddle},
    {Op::kSendMiddle, Op::kSendMiddle, Op::kSendMiddle, Op::kSendMiddle},
    {Op::kSendLast, Op::kSendMiddle, Op::kSendMiddle, Op::kSendLast},
    {Op::kSendLastImm, Op::kSendMiddle, Op::kSendMiddle, Op::kSendLastImm},
    {Op::kSendLastInv, Op::kSendMiddle, Op::kSendMiddle, Op::kSendLastInv},
    {Op::kSendOnly, Op::kSendFirst, Op::kSendMiddle, Op::kSendLast},
    {Op::kSendOnlyImm, Op::kSendFirst, Op::kSendMiddle, Op::kSendLastImm},
    {Op::kSendOnlyInv, Op::kSendFirst, Op::kSendMiddle, Op::kSendLastInv},
    {Op::kWriteFirst, Op::kWriteFirst, Op::kWriteMiddle, Op::kWriteMiddle},
    {Op::kWriteMiddle, Op::kWriteMiddle, Op::kWriteMiddle, Op::kWriteMiddle},
    {Op::kWriteLast, Op::kWriteMiddle, Op::kWriteMiddle, Op::kWriteLast},
    {Op::kWriteLastImm, Op::kWriteMiddle, Op::kWriteMiddle, Op::kWriteLastImm},
    {Op::kWriteOnly, Op::kWriteFirst, Op::kWriteMiddle, Op::kWriteLast},
    {Op::kWriteOnlyImm, Op::kWriteFirst, Op::kWriteMiddle, Op::kWriteLastImm},
    {Op::kReadResponseFirst, Op::kReadResponseFirst, Op::kReadResponseMiddle,
     Op::kReadResponseMiddle},
    {Op::kReadResponseMiddle, Op::kReadResponseMiddle, Op::kReadResponseMiddle,
     Op::kReadResponseMiddle},
    {Op::kReadResponseLast, Op::kReadResponseMiddle, Op::kReadResponseMiddle,
     Op::kReadResponseLast},
    {Op::kReadResponseOnly, Op::kReadResponseFirst, Op::kReadResponseMiddle, Op::kReadResponseLast},
};

struct Shape {
  Transport transport;
  Kind kind;
  std::size_t mtu;
  std::uint32_t packets;
  std::size_t tail;  // bytes of the last packet
  bool ipv4;
  std::uint16_t vlan;
};

constexpr std::uint16_t kIpId = 0xfffe;  // the next ones wrap around

class TrainTest : public ::testing::Test {
 protected:
  FakeHost host{1};

  std::vector<std::byte> data(const Shape& s) {
    return pattern((s.packets - 1) * s.mtu + s.tail, s.packets);
  }
  // Packet `i`, or the whole train.
  std::vector<std::byte> frame(const Shape& s, std::optional<std::uint32_t> i) {
    const auto all = data(s);
    const bool end = !i || *i == s.packets - 1;
    const Op op = !i ? s.kind.train : *i == 0 ? s.kind.first : end ? s.kind.last : s.kind.middle;
    Packet p(host);
    fill_sample(p, s.transport, op);
    p.route = sample_route(s.ipv4, s.vlan);
    p.solicited = p.solicited && end && traits(s.transport, op).last;
    p.ack_req = p.ack_req && end;
    p.psn = p.psn.plus(i.value_or(0));
    p.train = i ? 1 : s.packets;
    const std::span<const std::byte> payload(all);
    p.payload.append_plain(!i ? payload : payload.subspan(*i * s.mtu, end ? s.tail : s.mtu));
    return encode(p, static_cast<std::uint16_t>(kIpId + i.value_or(0)));
  }
  void check(const Shape& s) {
    const auto whole = frame(s, {});
    const auto train = Train::parse({whole, Icrc::kDeferred, s.packets});
    ASSERT_TRUE(train);
    ASSERT_EQ(train->packets(), s.packets);
    for (std::uint32_t i = 0; i < s.packets; ++i) {
      std::vector<std::byte> out(train->bytes(i), std::byte{0xa5});
      train->write(i, out);
      ASSERT_EQ(out, frame(s, i)) << "packet " << i;
    }
  }
};

TEST_F(TrainTest, DividesIntoItsPackets) {
  for (const Transport transport : {Transport::kRc, Transport::kXrc}) {
    for (const Kind& kind : kKinds) {
      if (!traits(transport, kind.train).valid) continue;
      for (const auto& [mtu, packets] :
           {std::pair{256U, 2U}, {256U, 32U}, {1024U, 3U}, {4096U, 16U}}) {
        for (const std::size_t tail : {std::size_t{mtu}, std::size_t{mtu - 1}, std::size_t{1}}) {
          if (tail != mtu && !traits(transport, kind.train).last) continue;
          for (const bool ipv4 : {true, false}) {
            SCOPED_TRACE(::testing::Message()
                         << static_cast<int>(transport) << " " << static_cast<int>(kind.train)
                         << " " << mtu << " " << packets << " " << tail << " " << ipv4);
            check({transport, kind, mtu, packets, tail, ipv4,
                   ipv4 ? std::uint16_t{0xffff} : std::uint16_t{5}});
          }
        }
      }
    }
  }
}

TEST_F(TrainTest, RefusesOtherFrames) {
  const Shape shape{Transport::kRc, kKinds[5], 1024, 4, 1024, true, 0xffff};
  const auto whole = frame(shape, {});
  ASSERT_TRUE(Train::parse({whole, Icrc::kDeferred, 4}));
  EXPECT_FALSE(Train::parse({whole, Icrc::kDeferred, 0}));
  EXPECT_FALSE(Train::parse({whole, Icrc::kDeferred, 1}));
  EXPECT_FALSE(Train::parse({whole, Icrc::kDeferred, 4097})) << "more packets than bytes";
  for (std::size_t bytes = 0; bytes < 60; ++bytes)
    EXPECT_FALSE(Train::parse({std::span(whole).first(bytes), Icrc::kDeferred, 2})) << bytes;
  for (const auto& [transport, op] : {std::pair{Transport::kRc, Op::kAck},
                                      {Transport::kRc, Op::kReadRequest},
                                      {Transport::kRc, Op::kFetchAdd},
                                      {Transport::kUd, Op::kSendOnly},
                                      {Transport::kRc, Op::kAtomicWrite}}) {
    const Shape other{transport, {op, op, op, op}, 1024, 2, 1024, true, 0xffff};
    EXPECT_FALSE(Train::parse({frame(other, {}), Icrc::kDeferred, 2})) << static_cast<int>(op);
  }
}

// Whatever bytes a frame has, dividing it stays inside of it.
TEST_F(TrainTest, AnyBytes) {
  std::mt19937 random(3);
  for (unsigned round = 0; round < 2000; ++round) {
    auto whole = frame({Transport::kRc, kKinds[random() % std::size(kKinds)], 256,
                        2 + static_cast<std::uint32_t>(random() % 4), 256, random() % 2 == 0, 7},
                       {});
    for (unsigned i = 0; i < 3; ++i) whole[random() % 90] = static_cast<std::byte>(random());
    whole.resize(whole.size() - random() % 300);
    const auto train =
        Train::parse({whole, Icrc::kDeferred, 2 + static_cast<std::uint32_t>(random() % 4)});
    for (std::uint32_t i = 0; train && i < train->packets(); ++i) {
      std::vector<std::byte> out(train->bytes(i));
      train->write(i, out);
    }
  }
}

}  // namespace
}  // namespace tern
