// SPDX-License-Identifier: GPL-2.0-or-later
// The runner with its worker, a main loop and vCPU threads: for the thread sanitizer, and for
// behaviour that needs threads.
#include <chrono>
#include <memory>

#include "adapter.h"

namespace tern::runner {
namespace {

using namespace std::chrono_literals;

Adapter::Options threaded(unsigned id, void (*change)(Config&) = [](Config&) {}) {
  // Polling begins after 64 doorbells within 256 us. A slower clock gives a thread sanitizer the
  // time.
  Adapter::Options options{.threads = true, .id = id, .slowness = 4};
  change(options.config);
  return options;
}

// Holds the worker at the end of a slice, with the engine lock, until the gate is opened.
class Gate {
 public:
  explicit Gate(Adapter& adapter) : adapter_(adapter) {
    on_event([this](Host::Event event) {
      if (event != Host::Event::kSlice || open_) return;
      reached_ = true;
      late_ = !wait_until([this] { return open_.load(); });
    });
  }
  ~Gate() {
    open_ = true;
    on_event(nullptr);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void close() { open_ = reached_ = false; }
  void open() { open_ = true; }
  [[nodiscard]] bool reached() {
    return wait_until([this] { return reached_.load(); });
  }
  [[nodiscard]] bool late() const { return late_; }

 private:
  // Takes both locks, because trace() may be called with either.
  void on_event(std::function<void(Host::Event)> f) {
    adapter_.host([&](Runner& r) {
      r.lock();
      adapter_.on_event = std::move(f);
      r.unlock();
    });
  }

  Adapter& adapter_;
  std::atomic<bool> open_ = true;
  std::atomic<bool> reached_ = false;
  std::atomic<bool> late_ = false;
};

// Two QPs of one adapter, connected to each other.
struct Loopback {
  explicit Loopback(Adapter& adapter) : from(adapter), to(adapter) {
    from.connect(to);
    to.connect(from);
  }
  Qp from, to;
};

// Leaves work to the worker: a doorbell does next to none.
void leave_work(Config& config) {
  config.limits.inline_slice = 1;
  config.poll = false;
}

// The doorbell finds the worker busy, so it goes into the ring; then the worker may not run any
// more.
TEST(Doorbells, ReachTheHostThreadWhenTheWorkerMayNotRun) {
  Adapter a(threaded(1, leave_work));
  a.bring_up();
  Loopback first(a), second(a);
  second.from.post(64);
  std::atomic<bool> rung = false;
  const auto on_event = [&](std::function<void(Host::Event)> f) {
    a.host([&](Runner& r) {
      r.lock();
      a.on_event = std::move(f);
      r.unlock();
    });
  };
  on_event([&](Host::Event event) {  // in the worker, with the lock
    if (event != Host::Event::kSlice || rung.load()) return;
    a.runner->doorbell(0, field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_SQ) | second.from.number());
    a.runner->set_host_only(true);
    rung = true;
  });
  first.from.post(32 * 1024);
  first.from.ring();
  EXPECT_TRUE(wait_until([&] { return rung.load(); }));
  EXPECT_TRUE(second.from.drain());
  on_event(nullptr);
}

TEST(Worker, DoesWhatADoorbellLeaves) {
  Adapter a(threaded(1, leave_work));
  Gate gate(a);
  a.bring_up();
  Loopback qps(a);
  ASSERT_TRUE(wait_until([&] { return a.runner->worker_state() == WorkerState::kIdle; }));
  gate.close();
  qps.from.post(4096, 8);
  qps.from.ring();
  ASSERT_TRUE(gate.reached());
  EXPECT_EQ(a.runner->worker_state(), WorkerState::kWorking);
  gate.open();
  EXPECT_TRUE(qps.from.drain());
  EXPECT_TRUE(wait_until([&] { return a.runner->worker_state() == WorkerState::kIdle; }));
}

TEST(Worker, ADoorbellDoesNotWaitForIt) {
  Adapter a(threaded(1, leave_work));
  Gate gate(a);
  a.bring_up();
  Loopback qps(a);
  gate.close();
  qps.from.post(64, 4);
  qps.from.ring();
  ASSERT_TRUE(gate.reached());
  // The worker holds the engine lock.
  qps.from.post(64, 4);
  for (unsigned i = 0; i < DoorbellRing::kSize; ++i) qps.from.ring();
  EXPECT_FALSE(gate.late()) << "a doorbell waited for the lock";
  // The ring is full: this doorbell waits for the lock.
  std::atomic<bool> rung = false;
  std::thread vcpu([&] {
    qps.from.ring();
    rung = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(rung);
  gate.open();
  vcpu.join();
  EXPECT_TRUE(qps.from.drain());
  EXPECT_EQ(qps.from.failed(), 0U);
}

TEST(Worker, ItsInterruptsComeFromTheHostThread) {
  Adapter a(threaded(1, leave_work));
  a.bring_up();
  Loopback qps(a);
  for (unsigned i = 1; i <= 50; ++i) {
    const unsigned before = a.raised(Adapter::kCompletionVector);
    qps.from.arm();
    qps.from.post(4096, 4);
    qps.from.ring();
    ASSERT_TRUE(wait_until([&] { return a.raised(Adapter::kCompletionVector) != before; })) << i;
    ASSERT_TRUE(qps.from.drain());
    // An event reports one or more completions; the next arm asks for a newer one.
  }
}

TEST(Worker, StopsWhileItWorks) {
  for (int i = 0; i < 20; ++i) {
    Adapter a(threaded(1, leave_work));
    a.bring_up();
    Loopback qps(a);
    qps.from.post(Qp::kBytes, 32);
    qps.from.ring();
    std::this_thread::sleep_for(std::chrono::microseconds(i * 100));
    a.host([](Runner& r) { r.stop(); });
    EXPECT_EQ(a.runner->worker_state(), WorkerState::kStopping);
    EXPECT_EQ(a.workers, 0);
    const std::uint32_t done = qps.from.poll();
    qps.from.post(64);
    qps.from.ring();
    std::this_thread::sleep_for(1ms);
    EXPECT_EQ(qps.from.poll(), done) << "inputs do no work any more";
  }
}

// The handshake between a doorbell and a worker that goes idle: each round rings once while the
// worker finishes the work of the doorbell before.
TEST(Worker, NoDoorbellIsLost) {
  Adapter a(threaded(1, leave_work));
  a.bring_up();
  Loopback qps(a);
  const auto end = std::chrono::steady_clock::now() + 3s;
  unsigned delay = 0;
  unsigned rounds = 0;
  while (std::chrono::steady_clock::now() < end || rounds < 100) {
    qps.from.post(64, 2);
    qps.from.ring();
    // Rings around the time when the last completion is written.
    for (unsigned n = 0; qps.from.poll() != qps.from.posted(); ++n)
      ASSERT_LT(n, 100'000'000U) << "round " << rounds;
    for (std::atomic<unsigned> i = 0; i < delay; ++i) {
    }
    delay = (delay + 7) % 401;
    qps.from.post(64, 1);
    qps.from.ring();
    ASSERT_TRUE(qps.from.drain()) << "round " << rounds;
    ++rounds;
  }
  RecordProperty("rounds", static_cast<int>(rounds));
}

// ---- polling ----

void ring_often(Adapter& a, Qp& qp) {
  ASSERT_TRUE(wait_until([&] {
    a.host([](Runner& r) { r.set_running(false); });
    for (int i = 0; i < 200; ++i) qp.ring();
    const bool polled = qp.polled();
    a.host([](Runner& r) { r.set_running(true); });
    return polled;
  }));
}

// A clock of its own: on a busy machine the worker would rather not poll.
TEST(Polling, FindsWorkWithoutADoorbell) {
  Adapter a(threaded(1, [](Config& config) {
    config.open_cpu_clock = [] { return std::unique_ptr<CpuClock>(); };
  }));
  a.bring_up();
  Loopback qps(a);
  bool seen_polling = false;
  unsigned unrung = 0;
  EXPECT_TRUE(wait_until([&] {
    if (!qps.from.polled()) ring_often(a, qps.from);
    for (int i = 0; i < 100; ++i) {
      qps.from.post(64);
      unrung += qps.from.ring() ? 0 : 1;
      seen_polling |= a.runner->worker_state() == WorkerState::kPolling;
      if (!qps.from.drain()) return true;
    }
    return seen_polling && unrung >= 100;
  }));
  EXPECT_TRUE(seen_polling);
  EXPECT_GE(unrung, 100U);
  EXPECT_EQ(qps.from.failed(), 0U);
  // The device stops polling an idle queue.
  EXPECT_TRUE(wait_until([&] { return !qps.from.polled(); }));
  EXPECT_TRUE(wait_until([&] { return a.runner->worker_state() == WorkerState::kIdle; }));
}

// The worker polls until another thread wants the lock or rings.
TEST(Polling, LetsOthersIn) {
  Adapter a(threaded(1));
  a.bring_up();
  Loopback polled(a), other(a);
  std::atomic<bool> ends = false;
  std::thread reader([&] {
    while (!ends) (void)a.reg_read(TERN_REG_STATUS);
  });
  ring_often(a, polled.from);
  for (int i = 0; i < 300; ++i) {
    polled.from.post(64);
    polled.from.ring();
    other.from.post(64);
    other.from.ring();
    ASSERT_TRUE(polled.from.drain());
    ASSERT_TRUE(other.from.drain());
  }
  ends = true;
  reader.join();
}

std::atomic<bool> contention = false;

// Reports that the thread waits most of the time while `contention` is set.
class FakeClock final : public CpuClock {
 public:
  bool read(CpuTimes& times) override {
    times_.ran += 5'000'000;
    if (contention) times_.waited += 20'000'000;
    times = times_;
    return true;
  }

 private:
  CpuTimes times_;
};

TEST(Polling, PausesWhileThereIsContention) {
  Adapter a(threaded(1, [](Config& config) {
    config.open_cpu_clock = [] { return std::make_unique<FakeClock>(); };
  }));
  contention = false;
  a.bring_up();
  Loopback qps(a);
  const auto use = [&] {
    for (int i = 0; i < 50; ++i) {
      qps.from.post(64);
      qps.from.ring();
      if (!qps.from.drain()) return false;
    }
    return true;
  };
  // Rings often. Returns whether the device then polls the queue.
  const auto polled = [&] {
    a.host([](Runner& r) { r.set_running(false); });
    for (int i = 0; i < 200; ++i) qps.from.ring();
    const bool on = qps.from.polled();
    a.host([](Runner& r) { r.set_running(true); });
    return on;
  };
  EXPECT_TRUE(wait_until(polled));
  contention = true;
  EXPECT_TRUE(wait_until([&] { return use() && !polled() && !polled() && !polled(); }));
  EXPECT_GT(a.events(Host::Event::kContention), 0U);
  contention = false;
  EXPECT_TRUE(wait_until(polled)) << "the pause is over";
  EXPECT_TRUE(use());
}

// ---- the wire between two adapters ----

void direct(Config& config) { config.direct_send = true; }
void queued(Config& config) { config.direct_send = false; }

class Across : public testing::TestWithParam<void (*)(Config&)> {
 protected:
  // B takes nothing at first, because its machine is stopped.
  void block(void (*change)(Config&), std::uint8_t timeout) {
    a = std::make_unique<Adapter>(threaded(1, change));
    b = std::make_unique<Adapter>(threaded(2, change));
    a->bring_up();
    b->bring_up();
    a->connect(*b);
    b->connect(*a);
    b->inbox_size = 8;
    from = std::make_unique<Qp>(*a);
    to = std::make_unique<Qp>(*b);
    from->connect(*to, timeout);
    to->connect(*from, timeout);
    b->host([](Runner& r) { r.set_running(false); });
    from->post(65536, 4);
    from->ring();
  }
  [[nodiscard]] bool reaches(TransmitState state) {
    return wait_until(
        [&] { return a->host([](Runner& r) { return r.transmit_state(); }) == state; });
  }
  void finish() {
    b->host([](Runner& r) { r.set_running(true); });
    EXPECT_TRUE(reaches(TransmitState::kOpen));
    EXPECT_TRUE(from->drain());
    EXPECT_EQ(from->failed(), 0U);
  }
  void TearDown() override {
    for (Adapter* const adapter : {a.get(), b.get()}) {
      if (adapter != nullptr) adapter->shut_down();
    }
  }

  std::unique_ptr<Adapter> a, b;
  std::unique_ptr<Qp> from, to;
};

TEST_P(Across, AWireThatIsFullIsWaitedFor) {
  block(GetParam(), 19);  // 2 s
  EXPECT_TRUE(reaches(TransmitState::kBlocked));
  finish();
  EXPECT_EQ(a->events(Host::Event::kLost), 0U);
  EXPECT_GT(a->events(Host::Event::kResumed), 0U);
}

TEST_P(Across, AWireThatTakesNothingIsGivenUp) {
  static void (*mode)(Config&);
  mode = GetParam();
  block(
      [](Config& config) {
        mode(config);
        config.limits.tx_patience = 20'000'000;
      },
      16);  // 268 ms
  EXPECT_TRUE(reaches(TransmitState::kLost));
  finish();
  EXPECT_GT(a->events(Host::Event::kLost), 0U);
}

INSTANTIATE_TEST_SUITE_P(Send, Across, testing::Values(&queued, &direct),
                         [](const auto& param) { return param.index == 0 ? "Queued" : "Direct"; });

// ---- everything at once ----

class Storm : public testing::TestWithParam<void (*)(Config&)> {};

// A vCPU: posts, rings, polls for completions, and arms the CQ now and then.
void vcpu(Qp& qp, const std::atomic<bool>& ends, unsigned seed) {
  constexpr std::array<std::uint32_t, 4> kSizes = {8, 64, 4096, 20'000};
  for (unsigned i = seed; !ends; ++i) {
    (void)qp.poll();
    const unsigned n = std::min(1 + i % 5, qp.free_slots());
    if (n != 0) {
      qp.post(kSizes[i % kSizes.size()], n);
      qp.ring();
    }
    if (i % 16 == 0) qp.arm();
    if (n == 0) std::this_thread::yield();
  }
}

TEST_P(Storm, LosesNothing) {
  Adapter a(threaded(1, GetParam())), b(threaded(2, GetParam()));
  a.bring_up();
  b.bring_up();
  a.connect(b);
  b.connect(a);
  a.inbox_size = b.inbox_size = 16;
  a.lose_every = 97;
  b.lose_every = 89;
  std::deque<Qp> qps;
  std::vector<std::pair<Qp*, Qp*>> pairs;
  for (Adapter* const end : {&b, &a}) {
    for (Adapter* const begin : {&a, &b}) {
      Qp& one = qps.emplace_back(*begin);
      Qp& two = qps.emplace_back(*end);
      one.connect(two, 14);  // 67 ms
      two.connect(one, 14);
      pairs.emplace_back(&one, &two);
    }
  }
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < pairs.size(); ++i)
    threads.emplace_back(vcpu, std::ref(*pairs[i].first), std::cref(ends), i);
  // Meanwhile the host stops and resumes machines, runs commands, and changes power state and link.
  for (unsigned i = 0; i < 60; ++i) {
    Adapter& one = i % 2 != 0 ? a : b;
    switch (i / 2 % 5) {
      case 0:
        one.host([](Runner& r) { r.set_running(false); });
        std::this_thread::sleep_for(2ms);
        one.host([](Runner& r) { r.set_running(true); });
        break;
      case 1:
        (void)one.make(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{});
        break;
      case 2:
        for (const bool host_only : {true, false}) {
          one.host([&](Runner& r) {
            r.lock();
            r.set_host_only(host_only);
            r.unlock_without_delivering();
            r.update_polling();
          });
          std::this_thread::sleep_for(2ms);
        }
        break;
      case 3:
        for (const bool awake : {false, true}) {
          one.host([&](Runner& r) {
            r.lock();
            r.set_awake(awake);
            r.unlock_without_delivering();
          });
        }
        break;
      default:
        one.host([](Runner& r) { r.set_link(true); });
        (void)one.reg_read(TERN_REG_STATUS);
        break;
    }
    std::this_thread::sleep_for(20ms);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  a.lose_every = b.lose_every = 0;
  for (const auto& [one, two] : pairs) {
    EXPECT_TRUE(one->drain());
    EXPECT_EQ(one->failed(), 0U);
    EXPECT_GT(one->posted(), 20U);
  }
  for (Adapter* const adapter : {&a, &b}) adapter->shut_down();
}

TEST_P(Storm, ResetsInTheMiddle) {
  Adapter a(threaded(1, GetParam())), b(threaded(2, GetParam()));
  a.connect(b);
  b.connect(a);
  for (int round = 0; round < 10; ++round) {
    for (Adapter* const adapter : {&a, &b}) {
      adapter->forget();
      adapter->bring_up();
    }
    Loopback inside(a);
    Qp across(a), there(b);
    across.connect(there);
    there.connect(across);
    EthernetQueue ethernet(a);
    std::atomic<bool> ends = false;
    std::thread one(vcpu, std::ref(inside.from), std::cref(ends), 0);
    std::thread two(vcpu, std::ref(across), std::cref(ends), 1);
    for (int i = 0; i < 5; ++i) ethernet.send(10, 1000);
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + round));
    for (Adapter* const adapter : {&a, &b}) {
      adapter->host([](Runner& r) {
        r.lock();
        const std::uint32_t before = r.generation();
        r.reset();
        EXPECT_EQ(r.generation(), before + 1);
        r.unlock();
      });
    }
    std::this_thread::sleep_for(2ms);
    ends = true;
    one.join();
    two.join();
    // Batches in the queue are disowned and freed.
    EXPECT_TRUE(wait_until([&] {
      return a.host([](Runner& r) {
        r.lock();
        const bool none = r.backlog() == 0;
        r.unlock();
        return none;
      });
    }));
  }
  for (Adapter* const adapter : {&a, &b}) adapter->shut_down();
}

INSTANTIATE_TEST_SUITE_P(Send, Storm, testing::Values(&queued, &direct),
                         [](const auto& param) { return param.index == 0 ? "Queued" : "Direct"; });

}  // namespace
}  // namespace tern::runner
