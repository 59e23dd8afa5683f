// SPDX-License-Identifier: GPL-2.0-or-later
// Ports with several lanes: which queue gets a frame, and what lanes share.
#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "switch_fixture.h"

namespace tern::daemon {
namespace {

// Port 0 has three lanes, with users 2 to 4; port 1 has one.
struct LanePortsTest : SwitchTest {
  LanePortsTest() {
    add(2);
    lanes.push_back(&port(0));
    for (unsigned i = 1; i < 3; ++i)
      lanes.push_back(&fabric.add_lane(port(0), users.emplace_back()));
    send(1, frame(0xff, 2));
    take(0);
  }
  // A frame for a lane.
  static Bytes to_lane(unsigned lane, std::size_t len = 64) {
    Bytes f = frame(1, 2, len);
    f.back() = static_cast<std::byte>(lane);
    return f;
  }
  std::size_t take_lane(unsigned number) {
    Port& lane = *lanes.at(number);
    std::size_t n = 0;
    for (; !lane.front(now, nullptr).empty(); ++n) lane.pop();
    lane.release();
    return n;
  }
  void learn() {
    send(0, frame(0xff, 1));
    take(1);
  }
  std::vector<Port*> lanes;
};

TEST_F(LanePortsTest, FramesGoToTheirLanes) {
  learn();
  for (unsigned lane = 0; lane < 3; ++lane) {
    for (unsigned i = 0; i <= lane; ++i) EXPECT_EQ(send(1, to_lane(lane)), Port::Sent::kTaken);
  }
  port(1).wake_receivers();
  EXPECT_EQ(users[0].woken, 1U);
  EXPECT_EQ(users[2].woken, 1U);
  EXPECT_EQ(users[3].woken, 1U);
  EXPECT_NE(port(0).queue_length(), 0U);
  for (unsigned lane = 0; lane < 3; ++lane) EXPECT_EQ(take_lane(lane), lane + 1);
  EXPECT_EQ(port(0).queue_length(), 0U);
  EXPECT_EQ(port(0).counters().out_frames, 6U + 1U) << "with the one that was flooded";
}

TEST_F(LanePortsTest, AnyLaneSendsForTheStation) {
  EXPECT_EQ(lanes[2]->send({frame(2, 1)}, now), Port::Sent::kTaken);
  lanes[2]->wake_receivers();
  EXPECT_EQ(users[1].woken, 1U);
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_EQ(port(0).counters().in_frames, 1U);
  EXPECT_EQ(fabric.find(address_of(frame(2, 1)), 0), &port(0)) << "learned for the first lane";
  EXPECT_EQ(lanes[1]->send({frame(1, 1)}, now), Port::Sent::kTaken);
  for (unsigned lane = 0; lane < 3; ++lane) EXPECT_EQ(take_lane(lane), 0U) << "its own station";
}

TEST_F(LanePortsTest, AFloodedFrameComesOnce) {
  Bytes f = frame(0xff, 2);
  f.back() = std::byte{1};
  send(1, f);
  EXPECT_EQ(take_lane(0) + take_lane(1) + take_lane(2), 1U);
  EXPECT_EQ(lanes[1]->send({frame(0xff, 1)}, now), Port::Sent::kTaken);
  EXPECT_EQ(take_lane(0) + take_lane(1) + take_lane(2), 0U) << "not to the sender's other lanes";
}

TEST_F(LanePortsTest, LinkAndVlanAreThoseOfTheFirstLane) {
  learn();
  port(0).set_policy({.vlan = 5});
  send(1, to_lane(1));
  EXPECT_EQ(take_lane(1), 0U) << "another VLAN";
  EXPECT_EQ(lanes[1]->send({frame(2, 1, 64, 6)}, now), Port::Sent::kTaken);
  EXPECT_EQ(port(0).counters().in_discards, 1U);
  port(0).set_policy({});
  port(0).set_link(false);
  EXPECT_EQ(lanes[1]->send({frame(2, 1)}, now), Port::Sent::kTaken);
  EXPECT_EQ(port(0).counters().in_discards, 2U);
  EXPECT_TRUE(take(1).empty());
}

TEST_F(LanePortsTest, PoliciesSeeOneQueue) {
  learn();
  for (const PortPolicy& policy : {PortPolicy{.rate = 1'000'000'000}, PortPolicy{.delay = 10},
                                   PortPolicy{.red_max = 1000}, PortPolicy{.loss = 1e-9}}) {
    port(0).set_policy(policy);
    for (unsigned lane = 0; lane < 3; ++lane) send(1, to_lane(lane));
    now += 1'000'000;
    EXPECT_EQ(take_lane(0), 3U);
    EXPECT_EQ(take_lane(1) + take_lane(2), 0U);
  }
}

TEST_F(LanePortsTest, FramesBetweenLanes) {
  Engine engine;
  const auto made = engine.make(to_lane(0, 4000));
  WireFrame f{made.bytes, Icrc::kDeferred};
  f.inside = true;
  port(0).set_link(false);
  EXPECT_EQ(lanes[2]->send_to_lane(1, f, now, made.batch), Port::Sent::kTaken);
  lanes[2]->wake_receivers();
  EXPECT_EQ(users[2].woken, 1U);
  const WireFrame got = lanes[1]->front(now, nullptr);
  EXPECT_TRUE(got.inside);
  EXPECT_FALSE(got.finished());
  EXPECT_EQ(got.bytes.data(), made.bytes.data()) << "not copied";
  EXPECT_EQ(take_lane(1), 1U);
  EXPECT_EQ(lanes[2]->send_to_lane(0, {to_lane(0)}, now, nullptr), Port::Sent::kTaken);
  EXPECT_EQ(take_lane(0), 1U);
  const PortCounters c = port(0).counters();
  EXPECT_EQ(c.in_frames, 0U) << "the switch has not seen it";
  EXPECT_EQ(c.out_frames, 1U) << "the one of the constructor";
  EXPECT_EQ(c.out_bytes, 64U);
  engine.free(made);
}

// One lane's full queue holds up those that send to it, and no others.
TEST_F(LanePortsTest, EachLaneBlocksItsSenders) {
  learn();
  port(0).set_policy({.queue = 2 * EgressQueue::kFrameMax, .drop = true});
  const Bytes f = to_lane(1, 4000);
  while (lanes[2]->send_to_lane(1, {f}, now, nullptr) == Port::Sent::kTaken) {
  }
  EXPECT_EQ(port(0).counters().blocked, 1U) << "frames inside are not dropped";
  EXPECT_EQ(lanes[2]->send_to_lane(0, {f}, now, nullptr), Port::Sent::kTaken);
  EXPECT_EQ(send(1, to_lane(2, 4000)), Port::Sent::kTaken);
  EXPECT_EQ(take_lane(2), 1U);
  EXPECT_GT(take_lane(1), 2U);
  EXPECT_EQ(users[3].rooms, 1U);
  EXPECT_EQ(users[0].rooms + users[1].rooms + users[2].rooms, 0U);
}

TEST_F(LanePortsTest, ATrainIsDividedIfItCannotBeHeld) {
  Engine engine;
  const Bytes bytes = engine.make_roce(3 * 4096, 3);
  WireFrame train{bytes, Icrc::kDeferred, 3};
  train.inside = true;
  EXPECT_EQ(lanes[0]->send_to_lane(2, train, now, nullptr), Port::Sent::kTaken);
  for (unsigned i = 0; i < 3; ++i) {
    const WireFrame f = lanes[2]->front(now, nullptr);
    EXPECT_EQ(f.train, 1U);
    EXPECT_TRUE(f.inside);
    lanes[2]->pop();
  }
  EXPECT_EQ(take_lane(2), 0U);
}

TEST_F(LanePortsTest, LanesAreUsedAgain) {
  learn();
  send(1, to_lane(1));
  Port* const first = lanes[1];
  Switch::remove(port(0));
  port(1).wake_receivers();
  EXPECT_EQ(users[2].woken, 0U) << "its user is gone";
  add(1);
  lanes[1] = &fabric.add_lane(port(0), users.emplace_back());
  EXPECT_EQ(lanes[1], first);
  EXPECT_EQ(take_lane(1), 0U);
  learn();
  send(1, to_lane(1));
  EXPECT_EQ(take_lane(1), 1U);
}

TEST_F(LanePortsTest, ThereIsALimit) {
  User user;
  for (unsigned left = Switch::kMaxLanePorts - 2; left != 0;) {
    Port& p = fabric.add("many", user, kQueue);
    for (unsigned i = 1; i < kMaxLanes && left != 0; ++i, --left) fabric.add_lane(p, user);
  }
  EXPECT_THROW(fabric.add_lane(port(1), user), std::length_error);
}

}  // namespace
}  // namespace tern::daemon
