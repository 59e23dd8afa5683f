// SPDX-License-Identifier: GPL-2.0-or-later
// Which queues are polled when there are more than places.
#include "objects/queue_poller.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "objects/queue_fixture.h"

namespace tern {
namespace {

struct FakeQueue {
  std::uint32_t uar;
  Polled polled{};
  bool told = false;  // the status that software sees
  bool posted = false;
};

struct FakeAccess {
  static bool may_poll(const FakeQueue& /*queue*/) { return true; }
  static bool moved(Context& /*context*/, FakeQueue& queue) {
    return std::exchange(queue.posted, false);
  }
  static std::uint32_t uar(const FakeQueue& queue) { return queue.uar; }
  static void kick(FakeQueue& /*queue*/) {}
  static void store_status(Context& /*context*/, FakeQueue& queue) { queue.told = queue.polled.on; }
};

class QueuePollerTest : public QueueTest {
 protected:
  QueuePoller<FakeQueue, FakeAccess> poller{device.datapath, 1000};
  std::deque<FakeQueue> queues;

  FakeQueue& begin(std::uint32_t uar) {
    FakeQueue& queue = queues.emplace_back(uar);
    poller.begin(queue);
    return queue;
  }
  [[nodiscard]] std::ptrdiff_t polled(std::uint32_t uar) const {
    return std::ranges::count_if(queues,
                                 [uar](const FakeQueue& q) { return q.uar == uar && q.polled.on; });
  }
};

// A process with many busy queues leaves places to others.
TEST_F(QueuePollerTest, ProcessesSharePlaces) {
  for (int i = 0; i < 20; ++i) begin(1);
  EXPECT_EQ(polled(1), 16);
  queues[5].polled.idle = 7;
  EXPECT_TRUE(begin(2).polled.on);
  EXPECT_EQ(polled(1), 15);
  EXPECT_FALSE(queues[5].polled.on) << "the one without work";
  EXPECT_FALSE(queues[5].told);
  // Not the other way round: places do not change hands again and again.
  poller.begin(queues[5]);
  EXPECT_FALSE(queues[5].polled.on);
  for (int i = 0; i < 20; ++i) begin(2);
  EXPECT_EQ(polled(1), 8);
  EXPECT_EQ(polled(2), 8);
  for (std::uint32_t uar = 3; uar < 40; ++uar) begin(uar);
  for (std::uint32_t uar = 3; uar < 12; ++uar) EXPECT_EQ(polled(uar), 1) << uar;
  EXPECT_EQ(std::ranges::count_if(queues, [](const FakeQueue& q) { return q.polled.on; }), 16);
  for (const FakeQueue& queue : queues) EXPECT_EQ(queue.told, queue.polled.on);
  poller.allow(kNever);
  EXPECT_FALSE(poller.any());
}

// Where a poll takes long, rare posts do not keep a queue polled. A pause of the host does not end
// it.
TEST_F(QueuePollerTest, AQueueWithRarePostsIsReleased) {
  QueuePoller<FakeQueue, FakeAccess> slow{device.datapath,
                                          100'000};  // ternd: a doorbell is a message
  const auto posts = [&](Nanos spacing, Nanos poll, Nanos pause) {
    FakeQueue& queue = queues.emplace_back(1);
    slow.begin(queue);
    for (int post = 0; post < 100 && queue.polled.on; ++post) {
      for (Nanos t = 0; t < spacing; t += poll) {
        host.advance(poll);
        slow.poll();
      }
      host.advance(pause);
      queue.posted = true;
    }
    const bool on = queue.polled.on;
    slow.forget(queue);
    return on;
  };
  EXPECT_TRUE(posts(1'000'000, 1000, 0));
  EXPECT_FALSE(posts(10'000'000, 1000, 0));
  EXPECT_TRUE(posts(1'000'000, 1000, 100'000'000)) << "the host pauses";
  EXPECT_TRUE(posts(100'000, 20, 0));
}

}  // namespace
}  // namespace tern
