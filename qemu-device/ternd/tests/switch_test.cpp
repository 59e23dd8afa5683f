// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "switch_fixture.h"
#include "wire/codec.h"

namespace tern::daemon {
namespace {

TEST_F(SwitchTest, LearnsAddressesAndFloodsUnknownOnes) {
  add(3);
  send(0, frame(2, 1));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_EQ(take(2).size(), 1U);
  EXPECT_TRUE(take(0).empty());
  send(1, frame(1, 2));
  EXPECT_EQ(take(0).size(), 1U);
  EXPECT_TRUE(take(2).empty());
  send(0, frame(2, 1));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_TRUE(take(2).empty());
  EXPECT_EQ(port(0).counters().in_frames, 2U);
  EXPECT_EQ(port(1).counters().out_frames, 2U);
}

TEST_F(SwitchTest, ReceiversAreWokenOnceForManyFrames) {
  add(3);
  send(0, frame(0xff, 1));
  send(0, frame(0xff, 1));
  EXPECT_EQ(users[1].woken + users[2].woken, 0U);
  port(0).wake_receivers();
  EXPECT_EQ(users[1].woken, 1U);
  EXPECT_EQ(users[2].woken, 1U);
  send(1, frame(1, 2));
  port(0).wake_receivers();
  EXPECT_EQ(users[0].woken, 0U) << "that is another sender's";
  port(1).wake_receivers();
  EXPECT_EQ(users[0].woken, 1U);
  EXPECT_EQ(users[2].woken, 1U);
}

TEST_F(SwitchTest, PortsShareALongFrame) {
  add(3);
  Engine engine;
  const Bytes bytes = frame(0xff, 1, 4000);
  const EffectsBatch::Frame broadcast = engine.make(bytes);
  EXPECT_EQ(port(0).send({broadcast.bytes}, now, broadcast.batch), Port::Sent::kTaken);
  engine.free(broadcast);
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_EQ(port(i).front(now, nullptr).bytes.data(), broadcast.bytes.data());
    EXPECT_THAT(take(i), testing::ElementsAre(bytes));
  }
}

TEST_F(SwitchTest, AFrameDoesNotReturnToItsPort) {
  add(2);
  send(0, frame(9, 1));
  send(0, frame(9, 2));
  take(1);
  send(0, frame(1, 2));
  EXPECT_TRUE(take(0).empty());
  EXPECT_TRUE(take(1).empty());
}

TEST_F(SwitchTest, AStationMoves) {
  add(3);
  send(0, frame(0xff, 1));
  send(1, frame(0xff, 1));
  const Bytes f = frame(0xff, 1);
  EXPECT_EQ(fabric.find(address_of(f), 0), &port(1));
  take(2);
  send(2, frame(1, 3));
  EXPECT_EQ(take(1).size(), 2U);  // the broadcast and this one
}

TEST_F(SwitchTest, ForgetsWhatIsOldOrDown) {
  add(1, kQueue, Port::Kind::kUplink);
  add(2);
  send(0, frame(0xff, 1));
  take(1);
  take(2);
  pass(Switch::kAge + 1);
  send(1, frame(1, 2));
  EXPECT_EQ(take(2).size(), 1U) << "an old address is unknown";
  take(0);
  send(0, frame(0xff, 1));
  take(1);
  take(2);
  port(0).set_link(false);
  send(1, frame(1, 2));
  EXPECT_EQ(take(2).size(), 1U);
  EXPECT_TRUE(take(0).empty());
  EXPECT_EQ(send(0, frame(2, 1)), Port::Sent::kTaken);
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(port(0).counters().in_discards, 1U);
}

// The sender's frame was made before the last one of the receiver, of the next second.
TEST_F(SwitchTest, AnAddressIsNotOldBecauseItWasHeardLater) {
  add(1);
  add(1, kQueue, Port::Kind::kUplink);
  add(1);
  send(0, frame(0xff, 1));
  now = 101'000'000'000;
  send(1, frame(0xff, 2));
  take_all();
  now = 100'900'000'000;
  send(0, frame(2, 1));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_TRUE(take(2).empty()) << "not of its business";
  send(1, frame(0xff, 2));
  now = 101'000'000'000 + std::uint64_t{Switch::kAge} * 1'000'000'000;
  take_all();
  send(0, frame(2, 1));
  EXPECT_TRUE(take(2).empty()) << "an older frame has made the address no older";
}

TEST_F(SwitchTest, FramesToUnknownAddressesLeaveThroughUplinks) {
  add(3);
  add(2, kQueue, Port::Kind::kUplink);
  send(0, frame(9, 1));
  EXPECT_EQ(take(1).size() + take(2).size(), 2U) << "a guest that has never sent may have it";
  take_all();
  for (unsigned i = 0; i < 3; ++i) send(i, frame(0xff, i + 1));
  take_all();
  send(0, frame(9, 1));
  EXPECT_TRUE(take(1).empty());
  EXPECT_TRUE(take(2).empty());
  EXPECT_EQ(take(3).size(), 1U);
  EXPECT_EQ(take(4).size(), 1U);
  send(3, frame(9, 7));
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(take(4).size(), 1U);
}

TEST_F(SwitchTest, AGuestThatOnlyReceivesKeepsItsAddress) {
  add(3);
  for (unsigned i = 0; i < 3; ++i) send(i, frame(0xff, i + 1));
  pass(10 * Switch::kAge);
  take_all();
  send(0, frame(2, 1));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_TRUE(take(2).empty());
}

TEST_F(SwitchTest, OldAddressesMakeRoomForNewOnes) {
  for (const auto& [kind, most] : {std::pair{Port::Kind::kGuest, Switch::kMaxAddresses},
                                   {Port::Kind::kUplink, Switch::kMaxUplinkAddresses}}) {
    const auto at = static_cast<unsigned>(fabric.ports().size());
    add(1, kQueue, kind);
    add(2);
    for (unsigned i = 1; i <= 2; ++i) send(at + i, frame(0xff, 100 + at + i));
    for (unsigned i = 0; i <= most; ++i) {
      send(at, from_station(i));
      take_all();
    }
    send(at + 1, to_station(most, 101 + at));
    EXPECT_EQ(take(at).size(), 1U) << "of more stations than are learned, any may be there";
    EXPECT_EQ(fabric.find(address_of(from_station(most)), 0), nullptr);
    take_all();
    pass(Switch::kAge + 1);
    send(at, from_station(most + 1));
    take_all();
    EXPECT_EQ(fabric.find(address_of(from_station(most + 1)), 0), &port(at));
    send(at + 1, to_station(most + 1, 101 + at));
    EXPECT_EQ(take(at).size(), 1U);
    EXPECT_TRUE(take(at + 2).empty());
    port(at).set_link(false);
  }
}

TEST_F(SwitchTest, AStationMovesToAPortThatHasManyAddresses) {
  add(2);
  for (unsigned i = 0; i < Switch::kMaxAddresses; ++i) {
    send(0, from_station(i + 1));
    take(1);
  }
  send(1, frame(0xff, 9));
  send(0, frame(0xff, 9));
  take(0);
  take(1);
  EXPECT_EQ(fabric.find(address_of(frame(0xff, 9)), 0), nullptr);
  send(1, frame(9, 8));
  EXPECT_EQ(take(0).size(), 1U);
}

// Two ports cannot take addresses from each other to have more together.
TEST_F(SwitchTest, MovesCountAgainstTheLimit) {
  add(3);
  for (unsigned round = 0; round < 600; ++round) {
    for (const unsigned at : {1U, 0U}) {
      for (unsigned i = 0; i < Switch::kMaxAddresses; ++i) {
        Bytes f = from_station(round * Switch::kMaxAddresses + i);
        std::copy_n(f.begin() + 6, 6, f.begin());
        send(at, f);
        take_all();
      }
    }
  }
  send(2, frame(0xff, 9));
  EXPECT_EQ(fabric.find(address_of(frame(0xff, 9)), 0), &port(2));
}

// These addresses meet in a table whose hash everybody knows.
TEST_F(SwitchTest, AStationCannotKeepOthersOutOfTheTable) {
  add(1);
  add(1, kQueue, Port::Kind::kUplink);
  std::vector<Bytes> stations;
  for (std::uint64_t i = 0; stations.size() < 64; ++i) {
    const std::uint64_t mac = 0x02'00'00'00'00'00 | i;
    if ((mac * 0x9e3779b97f4a7c15 >> 32) % 8192 != 77) continue;
    Bytes f = frame(0xff, 0);
    for (std::size_t byte = 0; byte < 6; ++byte)
      f[6 + byte] = static_cast<std::byte>(mac >> 8 * (5 - byte));
    stations.push_back(f);
  }
  for (const Bytes& f : stations) send(0, f);
  for (const Bytes& f : stations) EXPECT_EQ(fabric.find(address_of(f), 0), &port(0));
}

TEST_F(SwitchTest, TheTableHoldsTheAddressesOfAllGuests) {
  add(Switch::kMaxPorts);
  const auto of = [](unsigned guest, unsigned i) {
    return from_station(guest * Switch::kMaxAddresses + i);
  };
  const auto each = [&](const auto& use) {
    for (unsigned guest = 0; guest < Switch::kMaxPorts; ++guest)
      for (unsigned i = 0; i < Switch::kMaxAddresses; ++i) use(guest, of(guest, i));
  };
  each([&](unsigned guest, Bytes f) {
    std::copy_n(f.begin() + 6, 6, f.begin());  // to itself: no other port takes it
    send(guest, f);
  });
  unsigned unknown = 0;
  each([&](unsigned guest, const Bytes& f) {
    unknown += fabric.find(address_of(f), 0) != &port(guest);
  });
  EXPECT_EQ(unknown, 0U);
}

TEST_F(SwitchTest, OnePortCannotFillTheTable) {
  add(3);
  for (unsigned i = 0; i < 4 * Switch::kMaxAddresses; ++i) {
    send(0, from_station(i));
    take(1);
    take(2);
  }
  send(1, frame(0xff, 2));
  take(0);
  take(2);
  send(0, frame(2, 1));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_TRUE(take(2).empty()) << "another port's address is known";
}

TEST_F(SwitchTest, AccessPortsTagAndUntag) {
  add(4);
  PortPolicy access;
  access.vlan = 77;
  port(0).set_policy(access);
  port(1).set_policy(access);
  access.vlan = 78;
  port(2).set_policy(access);
  send(0, frame(0xff, 1));
  EXPECT_THAT(take(1), testing::ElementsAre(frame(0xff, 1)));
  EXPECT_TRUE(take(2).empty());
  EXPECT_THAT(take(3), testing::ElementsAre(frame(0xff, 1, 64, 77)));
  send(3, frame(1, 4, 64, 77));
  EXPECT_THAT(take(0), testing::ElementsAre(frame(1, 4)));
  send(3, frame(0xff, 4, 64, 78));
  EXPECT_TRUE(take(0).empty());
  EXPECT_EQ(take(2).size(), 1U);
  send(3, frame(0xff, 4));
  EXPECT_TRUE(take(0).empty()) << "an untagged frame is of no VLAN of theirs";
  send(0, frame(0xff, 1, 64, 78));
  EXPECT_EQ(port(0).counters().in_discards, 1U) << "a tag of another VLAN";
  EXPECT_TRUE(take(2).empty());
}

TEST_F(SwitchTest, TheSameAddressInTwoVlans) {
  add(4);
  send(0, frame(0xff, 1, 64, 10));
  send(1, frame(0xff, 1, 64, 11));
  for (std::size_t i = 0; i < 4; ++i) take(i);
  send(2, frame(1, 3, 64, 10));
  EXPECT_EQ(take(0).size(), 1U);
  EXPECT_TRUE(take(1).empty());
  send(2, frame(1, 3, 64, 11));
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_TRUE(take(0).empty());
}

TEST_F(SwitchTest, AFullQueueBlocksItsSenderUntilThereIsRoom) {
  add(2);
  send(1, frame(0xff, 2));
  take(0);
  unsigned sent = 0;
  while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) ++sent;
  EXPECT_EQ(sent, kQueue / 1024);
  EXPECT_EQ(users[0].rooms, 0U);
  EXPECT_EQ(take(1).size(), sent);
  EXPECT_EQ(users[0].rooms, 1U);
  EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kTaken);
  EXPECT_EQ(port(1).counters().out_discards, 0U);
  EXPECT_EQ(port(1).counters().blocked, 1U);
}

// A port that is full sets the pace of those that send to it alone.
TEST_F(SwitchTest, AFullPortDoesNotBlockFramesToAll) {
  add(4);
  send(2, frame(0xff, 3));
  for (std::size_t i = 0; i < 4; ++i) take(i);
  while (send(0, frame(3, 1, 1000)) == Port::Sent::kTaken) {
  }
  const auto before = port(2).counters();
  EXPECT_EQ(send(0, frame(0xff, 1, 1000)), Port::Sent::kTaken);
  EXPECT_EQ(send(1, frame(9, 2, 1000)), Port::Sent::kTaken);
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_EQ(take(3).size(), 2U);
  EXPECT_EQ(port(2).counters().blocked, before.blocked);
  EXPECT_EQ(port(2).counters().out_discards, before.out_discards + 1);
  EXPECT_EQ(send(0, frame(3, 1, 1000)), Port::Sent::kBlocked) << "to it alone";
  take(2);
  EXPECT_EQ(users[0].rooms, 1U);
}

TEST_F(SwitchTest, APortThatTakesNothingDoesNotBlockForEver) {
  add(3);
  send(1, frame(0xff, 2));
  take(0);
  while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) {
  }
  now += Switch::kWatchdog / 2;
  EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kBlocked);
  now += Switch::kWatchdog;
  EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kTaken);
  EXPECT_GE(port(1).counters().out_discards, 1U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kTaken);
  EXPECT_EQ(port(1).counters().watchdog, 1U) << "once, however many frames it discards";
  take(1);
  while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) {
  }
  now += Switch::kWatchdog + 1;
  EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kTaken);
  EXPECT_EQ(port(1).counters().watchdog, 2U);
  EXPECT_FALSE(take(1).empty()) << "it drains again";
}

TEST_F(SwitchTest, ASlowPortIsNotStuck) {
  add(2);
  send(1, frame(0xff, 2));
  take(0);
  while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) {
  }
  for (int i = 0; i < 10; ++i) {
    now += Switch::kWatchdog - 1000;
    ASSERT_FALSE(port(1).front(now, nullptr).empty());
    port(1).pop();
    while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) {
    }
  }
  EXPECT_EQ(port(1).counters().out_discards, 0U);
}

TEST_F(SwitchTest, ADroppingPortCountsWhatItDrops) {
  add(2);
  PortPolicy policy;
  policy.queue = 32 * 1024;
  policy.drop = true;
  port(1).set_policy(policy);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(send(0, frame(2, 1, 1000)), Port::Sent::kTaken);
  EXPECT_EQ(take(1).size(), 32U);
  EXPECT_EQ(port(1).counters().out_discards, 68U);
}

TEST_F(SwitchTest, RateAndDelayHoldFramesBack) {
  add(2);
  PortPolicy policy;
  policy.rate = 1'000'000'000;  // 1000 bytes in 8 us
  policy.delay = 100'000;
  port(1).set_policy(policy);
  const std::uint64_t start = now;
  for (int i = 0; i < 3; ++i) send(0, frame(2, 1, 1000));
  for (std::uint64_t i = 1; i <= 3; ++i) {
    std::uint64_t due = 0;
    EXPECT_TRUE(port(1).front(now, &due).empty());
    EXPECT_EQ(due, start + i * 8'000 + 100'000);
    now = due;
    EXPECT_FALSE(port(1).front(now, &due).empty());
    port(1).pop();
  }
  // An idle wire saves nothing up.
  now += 1'000'000;
  send(0, frame(2, 1, 1000));
  std::uint64_t due = 0;
  EXPECT_TRUE(port(1).front(now, &due).empty());
  EXPECT_EQ(due, now + 108'000);
}

// A rate that is too low by mistake would hold the first frame for hours.
TEST_F(SwitchTest, AChangedRateEndsTheWait) {
  add(2);
  port(1).set_policy({.rate = 1});
  const std::uint64_t start = now;
  send(0, frame(2, 1, 1000));
  std::uint64_t due = 0;
  EXPECT_TRUE(port(1).front(now, &due).empty());
  EXPECT_EQ(due, start + 8'000 * std::uint64_t{1'000'000'000});
  users[1].woken = 0;
  port(1).set_policy({.rate = 1'000'000'000});
  EXPECT_EQ(users[1].woken, 1U);
  EXPECT_TRUE(port(1).front(now, &due).empty());
  EXPECT_EQ(due, start + 8'000);
  port(1).set_policy({.rate = 1});
  EXPECT_TRUE(port(1).front(now, &due).empty());
  port(1).set_policy({});
  EXPECT_EQ(take(1).size(), 1U);
  send(0, frame(2, 1, 1000));
  port(1).set_policy({.rate = 1'000'000'000});
  EXPECT_TRUE(port(1).front(now, &due).empty());
  EXPECT_EQ(due, start + 8'000) << "the wire is free";
  port(1).set_policy({.rate = 1'000'000'000, .loss = 1e-9});
  send(0, frame(2, 1, 1000));
  now = due;
  ASSERT_FALSE(port(1).front(now, &due).empty());
  port(1).pop();
  EXPECT_TRUE(port(1).front(now, &due).empty());
  EXPECT_EQ(due, start + 16'000) << "the rate is as before";
}

TEST_F(SwitchTest, LossIsAsProbableAsItSays) {
  add(2, std::size_t{4} << 20);
  PortPolicy policy;
  policy.queue = std::size_t{4} << 20;
  policy.loss = 0.1;
  port(1).set_policy(policy);
  std::size_t came = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 2000; ++i) send(0, frame(2, 1));
    came += take(1).size();
  }
  EXPECT_EQ(came + port(1).counters().out_lost, 20'000U);
  // Six standard deviations.
  EXPECT_NEAR(static_cast<double>(port(1).counters().out_lost), 2000, 6 * 42.5);
}

// Loss and marks are drawn once for a frame, however often its sender is blocked.
TEST_F(SwitchTest, ABlockedFrameIsNotLostByTryingAgain) {
  add(2);
  send(1, frame(0xff, 2));
  take(0);
  while (send(0, frame(2, 1, 1000)) == Port::Sent::kTaken) {
  }
  PortPolicy policy = port(1).policy();
  policy.loss = 0.5;
  port(1).set_policy(policy);
  Bytes blocked = frame(2, 1, 1000);
  while (send(0, blocked) == Port::Sent::kTaken) ++now;
  const std::uint64_t lost = port(1).counters().out_lost;
  for (unsigned i = 0; i < 200; ++i) ASSERT_EQ(send(0, blocked), Port::Sent::kBlocked);
  take(1);
  EXPECT_EQ(send(0, blocked), Port::Sent::kTaken);
  EXPECT_EQ(port(1).counters().out_lost, lost);
  EXPECT_EQ(take(1).size(), 1U);
}

// An IPv4 or IPv6 packet with this ECN field; the IPv4 checksum is right.
Bytes packet(bool v6, unsigned ecn, int vlan = -1) {
  Bytes f = SwitchTest::frame(2, 1, 1000, vlan);
  const std::size_t at = vlan < 0 ? 14U : 18U;
  f[at - 2] = static_cast<std::byte>(v6 ? 0x86 : 0x08);
  f[at - 1] = static_cast<std::byte>(v6 ? 0xdd : 0x00);
  if (v6) {
    f[at] = std::byte{0x60};
    f[at + 1] = static_cast<std::byte>(ecn << 4);
    return f;
  }
  f[at] = std::byte{0x45};
  f[at + 1] = static_cast<std::byte>(0x68 | ecn);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2)
    sum += std::to_integer<unsigned>(f[at + i]) << 8 | std::to_integer<unsigned>(f[at + i + 1]);
  sum = (sum & 0xffff) + (sum >> 16);
  f[at + 10] = static_cast<std::byte>(~sum >> 8);
  f[at + 11] = static_cast<std::byte>(~sum);
  return f;
}

TEST_F(SwitchTest, MarksPacketsWhenTheQueueIsLong) {
  add(2, std::size_t{1} << 20);
  PortPolicy policy;
  policy.queue = std::size_t{1} << 20;
  policy.red_min = 100 * 1024;
  policy.red_max = 200 * 1024;
  policy.red_probability = 0.5;
  port(1).set_policy(policy);
  std::vector<bool> marked;
  for (int i = 0; i < 300; ++i) send(0, packet(false, 2));
  for (const Bytes& f : take(1)) marked.push_back((std::to_integer<unsigned>(f[15]) & 3) == 3);
  ASSERT_EQ(marked.size(), 300U);
  const auto count = [&](std::size_t first, std::size_t last) {
    return std::count(marked.begin() + static_cast<std::ptrdiff_t>(first),
                      marked.begin() + static_cast<std::ptrdiff_t>(last), true);
  };
  // A packet takes 1024 bytes of the queue.
  EXPECT_EQ(count(0, 100), 0);
  EXPECT_EQ(count(201, 300), 99);
  EXPECT_GT(count(100, 200), 5);
  EXPECT_LT(count(100, 200), 50);
  EXPECT_EQ(port(1).counters().out_marked, static_cast<std::uint64_t>(count(0, 300)));
}

TEST_F(SwitchTest, MarkingKeepsChecksumsRightAndDropsWhatIsNotCapable) {
  add(2);
  PortPolicy policy;
  policy.red_min = 0;
  policy.red_max = 1;
  port(1).set_policy(policy);
  send(0, frame(2, 1));  // the queue must not be empty; ARP and the like is not marked
  for (const int vlan : {-1, 77}) {
    for (const bool v6 : {false, true}) {
      send(0, packet(v6, 1, vlan));
      send(0, packet(v6, 0, vlan));
    }
  }
  const auto taken = take(1);
  ASSERT_EQ(taken.size(), 5U);
  EXPECT_EQ(taken[1], packet(false, 3));
  EXPECT_EQ(taken[2], packet(true, 3));
  EXPECT_EQ(taken[3], packet(false, 3, 77));
  EXPECT_EQ(taken[4], packet(true, 3, 77));
  EXPECT_EQ(port(1).counters().out_discards, 4U);
}

TEST_F(SwitchTest, RefusesFramesThatAreTooShortOrLong) {
  add(2);
  send(0, Bytes(13));
  send(0, Bytes(EgressQueue::kFrameMax));
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(port(0).counters().in_discards, 2U);
}

TEST_F(SwitchTest, TheTapSeesEachFrameOnce) {
  add(4);
  unsigned seen = 0;
  fabric.set_tap([&](const Port& from, std::span<const std::byte> f, std::uint64_t) {
    EXPECT_EQ(&from, &port(0));
    EXPECT_EQ(f.size(), 64U);
    ++seen;
  });
  send(0, frame(0xff, 1));
  EXPECT_EQ(seen, 1U);
}

// Guests need none; an uplink and the tap do.
TEST_F(SwitchTest, ADeferredIcrcIsCompletedForThoseWhoNeedIt) {
  add(2);
  add(1, kQueue, Port::Kind::kUplink);
  Engine engine;
  unsigned seen = 0;
  for (const std::size_t payload : {100U, 4000U}) {
    const Bytes deferred = engine.make_roce(payload);
    Bytes complete = deferred;
    write_icrc(complete);
    ASSERT_NE(deferred, complete);
    fabric.set_tap([&](const Port&, std::span<const std::byte> f, std::uint64_t) {
      EXPECT_TRUE(std::ranges::equal(f, complete));
      ++seen;
    });
    const EffectsBatch::Frame frame = engine.make(deferred);
    EXPECT_EQ(port(0).send({frame.bytes, Icrc::kDeferred}, now, frame.batch), Port::Sent::kTaken);
    engine.free(frame);
    EXPECT_EQ(port(1).front(now, nullptr).icrc, Icrc::kDeferred);
    EXPECT_THAT(take(1), testing::ElementsAre(deferred));
    EXPECT_EQ(port(2).front(now, nullptr).icrc, Icrc::kPresent);
    EXPECT_THAT(take(2), testing::ElementsAre(complete));
  }
  EXPECT_EQ(seen, 2U);
}

TEST(SwitchLimits, TakesSoManyPorts) {
  Switch fabric;
  User user;
  for (unsigned i = 0; i < Switch::kMaxPorts; ++i) fabric.add("p", user, kQueue);
  EXPECT_THROW(fabric.add("p", user, kQueue), std::length_error);
}

// Senders that block each other, in threads: all frames arrive, in order.
TEST(SwitchThreads, NothingIsLostUnderBackPressure) {
  struct Station final : PortUser {
    void frames_wait() override {}
    void room() override { has_room.store(true); }
    std::atomic<bool> has_room = true;
  };
  constexpr unsigned kStations = 4;
  constexpr std::uint32_t kFrames = 5000;
  Switch fabric;
  std::deque<Station> stations(kStations);
  for (unsigned i = 0; i < kStations; ++i) {
    Port& port = fabric.add("p" + std::to_string(i), stations[i], kQueue);
    port.set_link(true);
    const Bytes hello = SwitchTest::frame(0xff, i + 1);
    port.send({hello}, 1);
  }
  std::atomic<unsigned> done = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kStations; ++i) {
    threads.emplace_back([&, i] {
      Port& port = fabric.ports()[i];
      std::array<std::uint32_t, kStations> next{};
      std::uint32_t sent = 0;
      std::uint64_t received = 0;
      bool finished = false;
      while (done.load() < kStations) {
        if (sent < kFrames && stations[i].has_room.exchange(false)) {
          while (sent < kFrames) {
            // One after the other to each of the others.
            const unsigned to = (i + 1 + sent % (kStations - 1)) % kStations;
            Bytes f = SwitchTest::frame(to + 1, i + 1, 100 + sent % 2000);
            std::memcpy(f.data() + 20, &sent, sizeof(sent));
            if (port.send({f}, sent + 2) == Port::Sent::kBlocked) break;
            ++sent;
          }
          if (sent == kFrames) stations[i].has_room = true;
        }
        for (auto f = port.front(0, nullptr); !f.empty(); f = port.front(0, nullptr)) {
          if (f.bytes[0] != std::byte{0xff}) {
            const unsigned from = std::to_integer<unsigned>(f.bytes[11]) - 1;
            std::uint32_t number = 0;
            std::memcpy(&number, f.bytes.data() + 20, sizeof(number));
            EXPECT_TRUE(next.at(from) <= number) << "out of order";
            next.at(from) = number + 1;
            ++received;
          }
          port.pop();
          port.release();
        }
        if (!finished && sent == kFrames && received == kFrames) {
          finished = true;
          ++done;
        }
        std::this_thread::yield();
      }
      EXPECT_EQ(received, kFrames);
      EXPECT_EQ(port.counters().out_discards, 0U);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace tern::daemon
