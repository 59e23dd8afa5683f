// SPDX-License-Identifier: GPL-2.0-or-later
// The runner in one thread without a worker, step by step.
#include <algorithm>
#include <array>
#include <string>

#include "adapter.h"

namespace tern::runner {
namespace {

constexpr std::uint64_t kPatience = Limits{}.tx_patience;

Config with(void (*change)(Config&)) {
  Config config = two_processors();
  change(config);
  return config;
}

class StepTest : public testing::Test {
 protected:
  explicit StepTest(const Config& config = with([](Config&) {}))
      : a({.threads = false, .id = 1, .config = config}) {
    a.bring_up();
    a.pump();
  }
  // Marks of the frames sent since the last call: EthernetQueue numbers its frames.
  std::vector<int> sent() {
    std::vector<int> marks;
    for (const Bytes& frame : a.take_sent()) marks.push_back(std::to_integer<int>(frame.back()));
    return marks;
  }
  [[nodiscard]] TransmitState transmit() const { return a.runner->transmit_state(); }
  std::uint64_t backlog() {
    a.runner->lock();
    const std::uint64_t bytes = a.runner->backlog();
    a.runner->unlock();
    return bytes;
  }
  static std::vector<int> marks(int from, int to) {
    std::vector<int> all;
    for (int i = from; i < to; ++i) all.push_back(i);
    return all;
  }

  Adapter a;
};

TEST_F(StepTest, AShortMessageIsDoneWithinItsDoorbell) {
  Qp from(a), to(a);
  from.connect(to);
  to.connect(from);
  from.arm();
  const unsigned before = a.raised(Adapter::kCompletionVector);
  std::ranges::fill(from.source(), std::byte{0x77});
  from.post(64);
  EXPECT_TRUE(from.ring());
  EXPECT_EQ(from.poll(), 1U);
  EXPECT_EQ(from.failed(), 0U);
  EXPECT_EQ(to.target()[63], std::byte{0x77});
  EXPECT_EQ(a.raised(Adapter::kCompletionVector), before + 1);
  EXPECT_FALSE(a.scheduled(Host::Call::kDeliver));
}

TEST_F(StepTest, FramesLeaveWithinTheDoorbell) {
  EthernetQueue queue(a);
  queue.send(3, 100);
  EXPECT_EQ(sent(), marks(0, 3));
  EXPECT_EQ(transmit(), TransmitState::kOpen);
  EXPECT_EQ(backlog(), 0U) << "the lock gives back what is done";
}

// Open -> Blocked -> Open, by a wire that takes no frame and by one that holds it.
TEST_F(StepTest, ABlockedWireKeepsTheOrder) {
  EthernetQueue queue(a);
  int first = 0;
  for (const bool holds : {false, true}) {
    a.holds = holds;
    a.blocked = true;
    queue.send(3, 100);
    EXPECT_EQ(transmit(), TransmitState::kBlocked);
    EXPECT_EQ(a.armed(Host::Timer::kPatience), a.now() + kPatience);
    queue.send(2, 100);
    a.pump();
    EXPECT_EQ(sent(), holds ? marks(first, first + 1) : std::vector<int>()) << holds;
    EXPECT_GT(backlog(), 0U);
    a.blocked = false;
    a.runner->resumed();
    EXPECT_EQ(transmit(), TransmitState::kOpen);
    EXPECT_FALSE(a.armed(Host::Timer::kPatience));
    EXPECT_TRUE(sent().empty()) << "deliver() sends";
    a.pump();
    EXPECT_EQ(sent(), marks(first + holds, first + 5));
    first += 5;
  }
  EXPECT_EQ(a.events(Host::Event::kBlocked), 2U);
  EXPECT_EQ(a.events(Host::Event::kResumed), 2U);
  a.runner->resumed();
  EXPECT_EQ(a.events(Host::Event::kResumed), 2U) << "nobody waited";
}

// Blocked -> Lost -> Open.
TEST_F(StepTest, AWireThatTakesNothingLosesFrames) {
  EthernetQueue queue(a);
  a.blocked = true;
  queue.send(3, 100);
  a.advance(kPatience - 1);
  EXPECT_EQ(transmit(), TransmitState::kBlocked);
  a.advance(1);
  EXPECT_EQ(transmit(), TransmitState::kLost);
  EXPECT_EQ(backlog(), 0U);
  queue.send(2, 100);
  a.pump();
  EXPECT_EQ(transmit(), TransmitState::kLost);
  EXPECT_EQ(a.events(Host::Event::kLost), 2U);
  a.blocked = false;
  queue.send(1, 100);
  EXPECT_TRUE(sent().empty()) << "lost until the wire says that it has room";
  a.runner->resumed();
  EXPECT_EQ(transmit(), TransmitState::kOpen);
  queue.send(2, 100);
  EXPECT_EQ(sent(), marks(6, 8));
  a.advance(10 * kPatience);
  EXPECT_EQ(transmit(), TransmitState::kOpen) << "the timer is not armed";
}

// A peer may send notifications and take nothing.
TEST_F(StepTest, NotificationsWithoutRoomDoNotExtendThePatience) {
  EthernetQueue queue(a);
  a.blocked = true;
  queue.send(3, 100);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(transmit(), TransmitState::kBlocked);
    EXPECT_EQ(a.armed(Host::Timer::kPatience), a.now() + kPatience - kPatience / 4 * i);
    a.advance(kPatience / 4);
    a.runner->resumed();
    a.pump();
  }
  a.advance(kPatience / 4);
  EXPECT_EQ(transmit(), TransmitState::kLost);
  EXPECT_EQ(backlog(), 0U);
  a.runner->resumed();
  queue.send(1, 100);
  a.pump();
  EXPECT_EQ(transmit(), TransmitState::kLost) << "it has taken nothing since";
  a.blocked = false;
  a.runner->resumed();
  queue.send(1, 100);
  EXPECT_EQ(sent().size(), 1U);
  a.blocked = true;
  queue.send(1, 100);
  EXPECT_EQ(a.armed(Host::Timer::kPatience), a.now() + kPatience);
}

TEST_F(StepTest, ALinkThatGoesDownOpensTheWay) {
  EthernetQueue queue(a);
  for (const bool lost : {false, true}) {
    a.blocked = true;
    a.runner->set_link(true);
    queue.send(1, 100);
    if (lost) a.advance(kPatience);
    EXPECT_EQ(transmit(), lost ? TransmitState::kLost : TransmitState::kBlocked);
    a.blocked = false;
    a.runner->set_link(false);
    EXPECT_EQ(transmit(), TransmitState::kOpen);
    a.pump();
    EXPECT_EQ(backlog(), 0U);
    a.advance(kPatience);
    EXPECT_EQ(transmit(), TransmitState::kOpen);
  }
}

TEST_F(StepTest, AResetDisownsWhatWaits) {
  EthernetQueue queue(a);
  a.blocked = true;
  queue.send(3, 100);
  const std::uint32_t generation = a.runner->generation();
  a.runner->lock();
  a.runner->reset();
  a.runner->unlock();
  EXPECT_EQ(a.runner->generation(), generation + 1);
  a.pump();
  EXPECT_EQ(transmit(), TransmitState::kBlocked);
  EXPECT_EQ(backlog(), 0U) << "the new driver does not pay for the old one's frames";
  a.blocked = false;
  a.runner->resumed();
  a.pump();
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(backlog(), 0U);
  a.forget();
  a.bring_up();
  EthernetQueue again(a);
  again.send(2, 100);
  EXPECT_EQ(sent(), marks(0, 2));
}

TEST_F(StepTest, AResetWhileABatchIsSent) {
  EthernetQueue queue(a);
  a.on_send = [this] {
    a.runner->lock();
    a.runner->reset();
    a.runner->unlock();
  };
  queue.send(3, 100);
  a.on_send = nullptr;
  a.pump();
  EXPECT_EQ(sent(), marks(0, 1));
  EXPECT_EQ(backlog(), 0U);
}

// A guest may aim an interrupt, or a frame through a hub, at the register that unplugs the adapter.
TEST_F(StepTest, AStopWhileEffectsAreDelivered) {
  EthernetQueue queue(a);
  Qp from(a), to(a);
  from.connect(to);
  to.connect(from);
  a.on_send = [this] { a.runner->stop(); };
  queue.send(3, 100);
  EXPECT_EQ(sent(), marks(0, 1));
  EXPECT_FALSE(a.scheduled(Host::Call::kDeliver));
  EXPECT_FALSE(a.armed(Host::Timer::kPatience));
  from.post(64);
  from.ring();
  a.runner->resumed();
  a.runner->deliver();
  EXPECT_EQ(from.poll(), 0U);
  EXPECT_TRUE(sent().empty());
}

TEST_F(StepTest, AStopWhileAVectorIsRaised) {
  EthernetQueue queue(a);
  Qp from(a), to(a);
  from.connect(to);
  to.connect(from);
  from.arm();
  a.on_raise = [this] { a.runner->stop(); };
  a.blocked = true;
  queue.send(1, 100);
  a.blocked = false;
  a.runner->resumed();
  from.post(64);
  from.ring();
  EXPECT_EQ(a.runner->worker_state(), WorkerState::kStopping);
  a.pump();
  EXPECT_TRUE(sent().empty());
}

// A hub: a frame comes back before send() returns, and makes the device send.
TEST_F(StepTest, AFrameThatComesBackAtOnce) {
  EthernetQueue queue(a);
  int depth = 0, deepest = 0, more = 5;
  a.on_send = [&] {
    deepest = std::max(deepest, ++depth);
    if (more-- > 0) {
      // This is the host thread already.
      a.runner->receive(Bytes(64));
      a.runner->lock();
      a.runner->run();
      a.runner->unlock_and_deliver();
    }
    --depth;
  };
  queue.send(4, 100);
  a.pump();
  EXPECT_EQ(deepest, 1) << "the loop that is under way delivers";
  EXPECT_EQ(sent(), marks(0, 4));
}

TEST_F(StepTest, NothingIsDeliveredWhereItMayNotBe) {
  Qp from(a), to(a);
  from.connect(to);
  to.connect(from);
  from.arm();
  const unsigned before = a.raised(Adapter::kCompletionVector);
  a.runner->lock();
  from.post(64);
  a.engine->doorbell(0, field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_SQ) | from.number());
  a.runner->run();
  a.runner->unlock_without_delivering();
  EXPECT_EQ(from.poll(), 1U);
  EXPECT_EQ(a.raised(Adapter::kCompletionVector), before);
  EXPECT_TRUE(a.scheduled(Host::Call::kDeliver));
  a.pump();
  EXPECT_EQ(a.raised(Adapter::kCompletionVector), before + 1);
}

TEST_F(StepTest, AMachineThatStandsStillDoesNothing) {
  Qp from(a), to(a);
  from.connect(to);
  to.connect(from);
  a.runner->set_running(false);
  from.post(64);
  from.ring();
  a.runner->take_frames();
  EXPECT_FALSE(a.runner->receive(Bytes(64)));
  EXPECT_EQ(a.events(Host::Event::kRefused), 1U);
  a.pump();
  EXPECT_EQ(from.poll(), 0U);
  a.runner->set_running(true);
  EXPECT_TRUE(a.scheduled(Host::Call::kDeliver));
  EXPECT_TRUE(a.scheduled(Host::Call::kTakeFrames)) << "frames may have come meanwhile";
  a.pump();
  EXPECT_EQ(from.poll(), 1U);
  EXPECT_GT(a.receive_agains, 0U);
  EXPECT_TRUE(a.runner->receive(Bytes(64)));
}

TEST_F(StepTest, ARefusedFrameIsOfferedAgain) {
  a.runner->set_running(false);
  EXPECT_FALSE(a.runner->receive(Bytes(64)));
  a.runner->deliver();
  EXPECT_EQ(a.receive_agains, 0U) << "while the machine is stopped";
  a.runner->set_running(true);
  a.pump();
  EXPECT_EQ(a.receive_agains, 1U);
  a.runner->deliver();
  EXPECT_EQ(a.receive_agains, 1U);
}

// The peer decides when the link changes, but DMA stops with the machine and with the function.
class LinkTest : public StepTest {
 protected:
  LinkTest() {
    tern_cmd_create_eq eq{.pages = events_.pages(),
                          .record = test::TestRecord<tern_eq_record>(a).address(),
                          .log_size = 6,
                          .kind = TERN_EQ_ASYNC};
    a.make(TERN_CMD_CREATE_EQ, eq);
    a.pump();
    (void)told();  // bring_up() changed the link
  }
  // Returns whether the queue has changed since the last call.
  bool told() {
    const auto now = events_.get<Entries>(0);
    return std::exchange(seen_, now) != now;
  }
  void set_awake(bool awake) {
    a.runner->lock();
    a.runner->set_awake(awake);
    a.runner->unlock_without_delivering();
  }

 private:
  using Entries = std::array<std::byte, 64 * sizeof(tern_eqe)>;
  test::QueueMemory events_{a, sizeof(Entries)};
  Entries seen_{};
};

TEST_F(LinkTest, IsToldAtOnce) {
  a.runner->set_link(false);
  EXPECT_TRUE(told());
}

TEST_F(LinkTest, IsToldWhenTheMachineContinues) {
  a.runner->set_running(false);
  a.runner->set_link(false);
  a.pump();
  EXPECT_FALSE(told());
  a.runner->set_running(true);
  a.pump();
  EXPECT_TRUE(told());
  a.runner->set_running(false);
  a.runner->set_link(true);
  a.runner->set_link(false);
  a.runner->set_running(true);
  a.pump();
  EXPECT_FALSE(told()) << "it is what it was";
}

TEST_F(LinkTest, ItsSpeedIsToldWhenTheMachineContinues) {
  a.runner->set_running(false);
  a.runner->set_speed(1000);
  a.pump();
  EXPECT_FALSE(told());
  a.runner->set_running(true);
  a.pump();
  EXPECT_TRUE(told());
}

TEST_F(LinkTest, IsToldWhenTheFunctionWakes) {
  set_awake(false);
  a.runner->set_link(false);
  a.pump();
  EXPECT_FALSE(told());
  set_awake(true);
  a.pump();
  EXPECT_TRUE(told());
}

// A peer whose WRITEs the adapter acknowledges, which shows what the adapter does with frames.
class FramesTest : public StepTest {
 protected:
  FramesTest() : b({.threads = false, .id = 2}) {
    b.bring_up();
    from.emplace(b);
    to.emplace(a);
    from->connect(*to);
    to->connect(*from);
    (void)a.take_sent();
  }
  // The frame of a WRITE.
  Bytes request() {
    from->post(64);
    from->ring();
    auto frames = b.take_sent();
    EXPECT_EQ(frames.size(), 1U);
    return frames.empty() ? Bytes(64) : frames.front();
  }
  // Returns whether the adapter answers it. The answer must not depend on how the frame arrives.
  bool answers(const Bytes& frame) {
    EXPECT_TRUE(a.runner->receive(frame));
    a.pump();
    const bool by_receive = !a.take_sent().empty();
    a.put_in_inbox(frame);
    a.runner->take_frames();
    a.pump();
    EXPECT_EQ(a.inbox(), 0U);
    EXPECT_EQ(!a.take_sent().empty(), by_receive);
    return by_receive;
  }

  Adapter b;
  std::optional<Qp> from, to;
};

TEST_F(FramesTest, AnAdapterThatSleepsLosesFrames) {
  const auto set_awake = [this](bool awake) {
    a.runner->lock();
    a.runner->set_awake(awake);
    a.runner->unlock_without_delivering();
  };
  Qp inside(a), other(a);
  inside.connect(other);
  other.connect(inside);
  const Bytes frame = request();
  set_awake(false);
  EXPECT_FALSE(answers(frame));
  inside.post(64);
  inside.ring();
  a.pump();
  EXPECT_EQ(inside.poll(), 0U) << "no work";
  set_awake(true);
  EXPECT_TRUE(a.scheduled(Host::Call::kDeliver));
  a.pump();
  EXPECT_EQ(inside.poll(), 1U);
  EXPECT_TRUE(answers(frame));
}

TEST_F(FramesTest, FramesThatFaultRulesHoldBackWaitForTheMachine) {
  const auto set_faults = [this](const char* rules) {
    std::string why;
    a.runner->lock();
    EXPECT_TRUE(a.engine->set_faults(rules, why)) << why;
    a.runner->run();
    a.runner->unlock_and_deliver();
    a.pump();
  };
  set_faults("delay=10s rx");
  EXPECT_FALSE(answers(request()));
  a.runner->set_running(false);
  set_faults("");
  EXPECT_TRUE(a.take_sent().empty());
  a.runner->set_running(true);
  a.pump();
  EXPECT_FALSE(a.take_sent().empty());
}

// On a hub each frame is answered before send() returns. The host lock must not be held meanwhile
// for as long as there is work.
TEST_F(FramesTest, AnswersThatComeAtOnceDoNotProlongADelivery) {
  unsigned frames = 0;
  b.on_send = [&] {
    ++frames;
    for (const Bytes& frame : b.take_sent()) a.runner->receive(frame);
  };
  a.on_send = [&] {
    for (const Bytes& frame : a.take_sent()) b.runner->receive(frame);
  };
  from->post(Qp::kBytes, 32);
  from->ring();
  unsigned most = frames;
  for (int i = 0; i < 10'000 && from->poll() != from->posted(); ++i) {
    for (Adapter* each : {&a, &b}) {
      frames = 0;
      each->runner->deliver();
      most = std::max(most, frames);
    }
  }
  EXPECT_EQ(from->poll(), from->posted());
  EXPECT_EQ(from->failed(), 0U);
  // A batch is a slice, which may have twice its budget.
  EXPECT_LE(most * 4096, Limits{}.tx_inline + std::uint64_t{2} * Limits{}.inline_slice);
  b.on_send = a.on_send = nullptr;
}

TEST_F(FramesTest, ARemovedFunctionLosesFrames) {
  const Bytes frame = request();
  a.runner->set_present(false);
  EXPECT_FALSE(answers(frame));
  a.runner->set_present(true);
  EXPECT_TRUE(answers(frame));
}

TEST_F(StepTest, FramesAreTakenInPieces) {
  // Limited by their number,
  for (int i = 0; i < 1000; ++i) a.put_in_inbox(Bytes(20));
  a.runner->take_frames();
  EXPECT_EQ(a.inbox(), 1000U - Limits{}.rx_frames);
  EXPECT_TRUE(a.scheduled(Host::Call::kTakeFrames));
  a.pump();
  EXPECT_EQ(a.inbox(), 0U);
  EXPECT_FALSE(a.scheduled(Host::Call::kTakeFrames)) << "the peer notifies";
  // ... and by their bytes.
  for (int i = 0; i < 100; ++i) a.put_in_inbox(Bytes(4096));
  a.runner->take_frames();
  EXPECT_EQ(a.inbox(), 100U - 32U);
}

// ... and by the work that they cause: a frame that a queue stores costs 64 bytes more than it has.
TEST_F(StepTest, FramesAreTakenByTheWorkThatTheyCause) {
  constexpr std::size_t kBytes = 1024;
  const test::TestEthQueue queue(a, TERN_ETH_QUEUE_RX, a.create_cq(6), 8);
  const Bytes broadcast(kBytes, std::byte{0xff});
  for (int i = 0; i < 200; ++i) a.put_in_inbox(broadcast);
  a.runner->take_frames();
  const std::uint64_t cost = kBytes + 64;
  EXPECT_EQ(a.inbox(), 200U - (Limits{}.rx_bytes + cost - 1) / cost);
}

TEST_F(StepTest, ADeadlineSendsAgain) {
  Adapter b({.threads = false, .id = 2});
  b.bring_up();
  Qp from(a), to(b);
  from.connect(to, 10);  // 4 ms
  from.post(100);
  from.ring();
  const auto first = a.take_sent();
  ASSERT_EQ(first.size(), 1U);
  const auto deadline = a.armed(Host::Timer::kEngine);
  ASSERT_TRUE(deadline);
  EXPECT_GT(*deadline, a.now());
  a.advance(*deadline - a.now() - 1);
  EXPECT_TRUE(a.take_sent().empty());
  // No timer while nothing may run: it would fire again and again.
  a.runner->set_running(false);
  a.advance(1);
  EXPECT_FALSE(a.armed(Host::Timer::kEngine));
  EXPECT_FALSE(a.scheduled(Host::Call::kDeliver));
  EXPECT_TRUE(a.take_sent().empty());
  a.runner->set_running(true);
  a.pump();
  // The first deadline may be earlier than that of the QP.
  std::size_t again = a.take_sent().size();
  for (int i = 0; i < 20 && again == 0; ++i) {
    const auto next = a.armed(Host::Timer::kEngine);
    ASSERT_TRUE(next);
    a.advance(*next > a.now() ? *next - a.now() : 0);
    again = a.take_sent().size();
  }
  EXPECT_EQ(again, 1U);
  EXPECT_TRUE(a.armed(Host::Timer::kEngine));
}

class SmallLimits : public StepTest {
 protected:
  SmallLimits()
      : StepTest(with([](Config& config) {
          config.limits.tx_inline = 2000;
          config.limits.tx_soft = 8000;
          config.limits.tx_hard = 20'000;
          config.limits.inline_slice = 30'000;
          config.limits.trickle = 1;
        })) {}
};

TEST_F(SmallLimits, ManyFramesAreSentLater) {
  EthernetQueue queue(a);
  queue.send(5, 1000);
  EXPECT_TRUE(sent().empty());
  EXPECT_TRUE(a.scheduled(Host::Call::kDeliver));
  a.pump();
  EXPECT_EQ(sent(), marks(0, 5));
}

TEST_F(SmallLimits, ABacklogSlowsTheEngineAndIsBounded) {
  EthernetQueue queue(a);
  a.blocked = true;
  queue.send(9, 1000);
  a.pump();
  EXPECT_EQ(backlog(), 9000U);
  // Above the soft limit it still makes progress, in small steps.
  queue.send(8, 1000);
  EXPECT_GT(backlog(), 9000U);
  EXPECT_LT(backlog(), 17'000U);
  for (int i = 0; i < 100; ++i) a.runner->deliver();
  EXPECT_EQ(backlog(), 17'000U);
  EXPECT_EQ(a.events(Host::Event::kLost), 0U);
  // Above the hard limit frames are lost.
  queue.send(8, 1000);
  for (int i = 0; i < 100; ++i) a.runner->deliver();
  EXPECT_EQ(backlog(), 20'000U);
  EXPECT_EQ(a.events(Host::Event::kLost), 5U);
  a.blocked = false;
  a.runner->resumed();
  a.pump();
  EXPECT_EQ(sent(), marks(0, 20));
  EXPECT_EQ(backlog(), 0U);
}

class DirectSend : public StepTest {
 protected:
  DirectSend() : StepTest(with([](Config& config) { config.direct_send = true; })) {}
};

TEST_F(DirectSend, FramesNeedNoDelivery) {
  EthernetQueue queue(a);
  a.runner->lock();
  a.runner->unlock_without_delivering();
  a.pump();
  queue.send(3, 100);
  EXPECT_EQ(sent(), marks(0, 3));
  EXPECT_EQ(backlog(), 0U);
}

// The first frame that the wire does not take, and all frames after it, go through the queue.
TEST_F(DirectSend, WhatTheWireDoesNotTakeWaits) {
  EthernetQueue queue(a);
  a.on_send = [&, n = 0]() mutable { a.blocked = ++n == 2; };
  queue.send(4, 100);
  EXPECT_EQ(sent(), marks(0, 2));
  EXPECT_EQ(transmit(), TransmitState::kBlocked);
  a.on_send = nullptr;
  a.blocked = false;
  queue.send(2, 100);
  EXPECT_TRUE(sent().empty()) << "not past those that wait";
  a.runner->resumed();
  a.pump();
  EXPECT_EQ(sent(), marks(2, 6));
  EXPECT_EQ(backlog(), 0U);
}

class HostOnly : public StepTest {
 protected:
  HostOnly() : StepTest(with([](Config& config) { config.limits.inline_slice = 1; })) { set(true); }
  void set(bool on) {
    a.runner->lock();
    a.runner->set_host_only(on);
    a.runner->unlock_without_delivering();
    a.runner->update_polling();
    a.pump();
  }
};

TEST_F(HostOnly, TheHostThreadDoesAll) {
  Qp from(a), to(a);
  from.connect(to);
  to.connect(from);
  from.post(Qp::kBytes, 4);
  from.ring();
  EXPECT_LT(from.poll(), 4U);
  EXPECT_TRUE(a.scheduled(Host::Call::kDeliver)) << "there is nobody else";
  EXPECT_TRUE(wait_until([&] {
    a.pump();
    return from.poll() == 4;
  }));
  EXPECT_FALSE(a.scheduled(Host::Call::kDeliver));
}

TEST_F(HostOnly, NoQueueIsPolled) {
  Qp from(a), to(a);
  from.connect(to);
  to.connect(from);
  for (const bool host_only : {true, false, true}) {
    set(host_only);
    // While the machine is stopped, a queue that rings often becomes polled, but nothing polls it.
    a.runner->set_running(false);
    for (int i = 0; i < 200; ++i) from.ring();
    EXPECT_EQ(from.polled(), !host_only);
    // The engine reports the end of polling only once memory can be written.
    a.runner->lock();
    a.runner->set_host_only(true);
    a.runner->unlock_without_delivering();
    EXPECT_EQ(from.polled(), !host_only);
    a.runner->update_polling();
    EXPECT_FALSE(from.polled());
    a.runner->set_running(true);
    a.pump();
  }
}

// There is no worker here: the host thread polls between two deliveries.
TEST_F(StepTest, AHostWithoutAWorkerPolls) {
  Qp from(a), to(a);
  from.connect(to);
  to.connect(from);
  EXPECT_FALSE(a.runner->poll_only()) << "nothing is polled";
  a.runner->set_running(false);
  for (int i = 0; i < 200; ++i) from.ring();
  a.runner->set_running(true);
  a.runner->deliver();
  ASSERT_TRUE(from.polled());
  EXPECT_TRUE(a.scheduled(Host::Call::kDeliver));
  EXPECT_TRUE(a.runner->poll_only());
  from.post(64);
  EXPECT_FALSE(a.runner->poll_only()) << "there is work";
  a.runner->deliver();
  EXPECT_EQ(from.poll(), 1U);
  EXPECT_TRUE(from.polled());
}

// What the thread's processor reports.
CpuTimes cpu_times;

class FakeClock final : public CpuClock {
 public:
  bool read(CpuTimes& times) override {
    times = cpu_times;
    return true;
  }
};

using Level = Contention::Level;

class HostPolls : public StepTest {
 protected:
  HostPolls()
      : StepTest(with([](Config& config) {
          config.open_cpu_clock = [] { return std::make_unique<FakeClock>(); };
        })) {
    cpu_times = {};
    a.runner->begin_polling();
    from.connect(to);
    to.connect(from);
  }
  // After the thread has run for 20 ms, and waited for `waited` ns in so many turns.
  Level contention(std::uint64_t waited, std::uint64_t waits) {
    cpu_times.ran += 20'000'000;
    cpu_times.waited += waited;
    cpu_times.waits += waits;
    a.advance(2'000'000);
    return a.runner->contention(a.now());
  }
  void ring_often() {
    a.runner->set_running(false);
    for (int i = 0; i < 200; ++i) from.ring();
    a.runner->set_running(true);
    a.runner->deliver();
  }

  Qp from{a}, to{a};
};

TEST_F(HostPolls, TellsTheLevelOfContention) {
  EXPECT_EQ(contention(0, 0), Level::kNone);
  EXPECT_EQ(contention(20'000'000, 20'000), Level::kBrief);
  EXPECT_GT(a.events(Host::Event::kContention), 0U);
  EXPECT_EQ(contention(20'000'000, 10), Level::kLong);
  EXPECT_EQ(contention(0, 0), Level::kLong) << "for a while";
  a.advance(400'000'000);
  EXPECT_EQ(a.runner->contention(a.now()), Level::kNone) << "but not for longer";
}

TEST_F(HostPolls, PollsInSpiteOfContentionUntilToldToStop) {
  EXPECT_EQ(contention(20'000'000, 10), Level::kLong);
  ring_often();
  EXPECT_TRUE(from.polled());
  EXPECT_TRUE(a.runner->poll_only());
  a.runner->stop_polling();
  EXPECT_FALSE(a.runner->poll_only());
  a.runner->deliver();
  EXPECT_FALSE(from.polled());
  ring_often();
  EXPECT_TRUE(from.polled()) << "once it rings again";
}

// A sleeping thread does not wait for a processor, and being woken is no contention.
TEST_F(HostPolls, SleepDoesNotCount) {
  cpu_times.waited += 1'000'000'000;
  cpu_times.waits += 1;
  a.runner->slept();
  EXPECT_EQ(contention(0, 0), Level::kNone);
}

TEST(Config, PollingNeedsAnotherProcessor) {
  for (const unsigned processors : {1U, 2U}) {
    Config config;
    config.processors = processors;
    Adapter a({.threads = false, .id = 1, .config = config});
    a.bring_up();
    Qp from(a), to(a);
    from.connect(to);
    to.connect(from);
    a.runner->set_running(false);
    for (int i = 0; i < 200; ++i) from.ring();
    EXPECT_EQ(from.polled(), processors == 2);
  }
}

}  // namespace
}  // namespace tern::runner
