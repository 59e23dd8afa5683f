// SPDX-License-Identifier: GPL-2.0-or-later
#include "lane.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "clock.h"
#include "end_thread.h"
#include "unix_socket.h"

namespace tern::daemon {

namespace {

// Time that the thread spins for frames after it had work, in ns. A sleep and the wake-up cost as
// much.
constexpr std::uint64_t kSpin = 30'000;
// While others need its processor: time that the thread polls before it sleeps between two polls,
// length of such a sleep, and time after which it stops polling, in ns since it had work. After a
// sleep it gets its processor back from a guest at once, after a yield only when the guest's time
// slice ends.
constexpr std::uint64_t kPollLimit = 100'000;
constexpr std::uint64_t kNap = 50'000;
constexpr std::uint64_t kIdle = 10'000'000;
// Timer slack. The kernel's default is as long as the sleep itself.
constexpr unsigned long kTimerSlack = 1'000;
// Interval at which the thread of lane 0 polls its descriptors while it does not sleep, in ns.
constexpr std::uint64_t kLookEvery = 20'000;
// Interval at which the thread yields while it is busy, in ns.
constexpr std::uint64_t kYieldEvery = 10'000;
// Large TCP frames that are cut after one whose train was divided, as on the way to an uplink.
constexpr unsigned kCutFrames = 64;
// Limit of the time that a command waits for a lane that it has held before, in ns.
constexpr std::uint64_t kMaxGrace = 100'000;
// The largest egress queue that a port can be given while the daemon runs.
constexpr std::size_t kQueueMax = std::size_t{4} << 20;

constexpr auto kEngineTimer = static_cast<std::size_t>(runner::Host::Timer::kEngine);
constexpr auto kPatienceTimer = static_cast<std::size_t>(runner::Host::Timer::kPatience);

}  // namespace

Lane::Lane(unsigned number, const AdapterConfig& config, Device& engine, const GuestMemory& memory,
           const AdapterClock& clock, LaneOwner& owner, Switch& fabric, Port* first)
    : number_(number),
      engine_(engine),
      memory_(memory),
      clock_(clock),
      owner_(owner),
      epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll")),
      wake_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      runner_(make_runner(config.poll)),
      port_(first == nullptr ? fabric.add(config.name, *this, kQueueMax)
                             : fabric.add_lane(*first, *this)) {
  watch(wake_.get());
}

std::unique_ptr<runner::Runner> Lane::make_runner(bool poll) {
  runner::Config config;
  config.lane = number_;
  config.poll = poll;
  config.direct_send = true;
  config.processors = std::thread::hardware_concurrency();
  // The thread serves its hypervisor, or waits for commands, between two slices.
  config.limits.inline_slice = config.limits.slice;
  return std::make_unique<runner::Runner>(engine_, *this, config);
}

// ---- other threads ----

void Lane::wake() {
  if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false))
    eventfd_write(wake_.get(), 1);
}

void Lane::request(unsigned calls) {
  requests_.fetch_or(calls, std::memory_order_seq_cst);
  wake();
}

// The loop polls the port itself while it does not sleep.
void Lane::frames_wait() { wake(); }

void Lane::start(const std::string& name) {
  thread_ = std::thread([this, name] {
    begin(name);
    begun_.release();
    loop();
    ended_.release();
  });
  begun_.acquire();
}

bool Lane::stop(const std::function<void()>& interrupt) {
  return !thread_.joinable() || end_thread(thread_, ended_, interrupt);
}

void Lane::interrupt() { interrupt_thread(thread_); }

// Serves the doorbell here if the lane's thread sleeps: a short message needs no wake-up.
bool Lane::ring_asleep(std::uint64_t offset, std::uint32_t value) {
  if (!sleeping_.load(std::memory_order_seq_cst)) return false;
  const std::unique_lock lock(turn_, std::try_to_lock);
  // The thread may have slept and begun its next round.
  if (!lock || !sleeping_.load(std::memory_order_seq_cst)) return false;
  const auto deadlines = deadlines_;
  runner_->doorbell(offset, value);
  port_.wake_receivers();
  if (requests_.load(std::memory_order_relaxed) != 0 || deadlines_ != deadlines) request(kTurn);
  return true;
}

void Lane::ring(std::uint64_t offset, std::uint32_t value) {
  if (ring_asleep(offset, value)) return;
  if (!runner_->post_doorbell(offset, value)) {
    // Takes those that wait.
    hold();
    resume();
    (void)runner_->post_doorbell(offset, value);
  }
  request(kDeliver | kTurn);
}

void Lane::hold() {
  // Commands that follow each other must not keep the thread from its turn.
  for (const std::uint64_t until = clock_ns() + kMaxGrace;
       waits_.load(std::memory_order_relaxed) && clock_ns() < until;)
    std::this_thread::yield();
  held_.store(true, std::memory_order_relaxed);
  turn_.lock();
  runner_->lock();
}

void Lane::resume() {
  const bool work = runner_->unlock_after_commands();
  held_.store(false, std::memory_order_release);
  turn_.unlock();
  held_.notify_one();
  if (work) request(kDeliver | kTurn);
}

// ---- the thread ----

void Lane::watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void Lane::unwatch(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void Lane::begin(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  prctl(PR_SET_TIMERSLACK, kTimerSlack);
  memory_.adopt();
  runner_->begin_polling();
}

void Lane::loop() {
  for (;;) {
    const bool busy = turn();
    if (stop_) return;
    if (busy) active_at_ = turn_at_;
    const Level contention = runner_->contention(turn_at_);
    if (!busy && turn_at_ >= spin_until(contention)) {
      if (contention != Level::kNone && polling_ && turn_at_ >= active_at_ + kIdle)
        runner_->stop_polling();
      sleep(polling_ ? turn_at_ + kNap : UINT64_MAX);
      continue;
    }
    if (home() && turn_at_ >= looked_at_ + kLookEvery) {
      looked_at_ = turn_at_;
      look();
      port_.wake_receivers();
    }
    // There may be more lanes than processors, and another one may have work because of this one.
    if (contention != Level::kLong && (!busy || turn_at_ >= yielded_at_ + kYieldEvery)) {
      std::this_thread::yield();
      yielded_at_ = turn_at_;
    }
  }
}

// Time until which the thread spins if it finds nothing to do.
std::uint64_t Lane::spin_until(Level contention) const {
  if (contention == Level::kLong) return 0;
  if (!polling_) return active_at_ + kSpin;
  return contention == Level::kBrief ? active_at_ + kPollLimit : UINT64_MAX;
}

// Returns false if there was nothing to do.
bool Lane::turn() {
  std::unique_lock lock(turn_, std::defer_lock);
  if (!home()) {
    // A mutex is not fair: without this, the thread would take it again and again.
    if (held_.load(std::memory_order_acquire)) {
      waits_.store(true, std::memory_order_relaxed);
      held_.wait(true, std::memory_order_acquire);
    }
    lock.lock();
    waits_.store(false, std::memory_order_relaxed);
  }
  const bool busy = work();
  port_.wake_receivers();
  return busy;
}

bool Lane::work() {
  bool busy = run_timers();
  polling_ = false;
  unsigned calls = requests_.load(std::memory_order_relaxed) == 0
                       ? 0
                       : requests_.exchange(0, std::memory_order_acquire);
  if (calls == kDeliver && runner_->poll_only()) {
    requests_.fetch_or(kDeliver, std::memory_order_relaxed);
    polling_ = true;
    calls = 0;
  }
  if ((calls & kTasks) != 0) owner_.run_tasks();
  if ((calls & kStop) != 0) stop_ = true;
  if ((calls & kRoom) != 0) {
    retry_at_ = UINT64_MAX;
    runner_->resumed();
  }
  if ((calls & kTakeFrames) != 0 || (frame_due_ == UINT64_MAX && !port_.empty())) {
    runner_->take_frames();
    busy = true;
  }
  if ((calls & kDeliver) != 0) {
    runner_->deliver();
    busy = true;
  }
  if (memory_.lost()) [[unlikely]]
    owner_.memory_lost(*this);
  return busy;
}

bool Lane::run_timers() {
  const std::uint64_t time = turn_at_ = clock_ns();
  bool any = false;
  for (const Timer timer : {Timer::kEngine, Timer::kPatience}) {
    std::uint64_t& deadline = deadlines_[static_cast<std::size_t>(timer)];
    if (time < deadline) continue;
    deadline = UINT64_MAX;
    runner_->expired(timer);
    any = true;
  }
  if (time >= retry_at_) {
    retry_at_ = UINT64_MAX;
    runner_->resumed();
    any = true;
  }
  if (time >= frame_due_) {
    frame_due_ = UINT64_MAX;
    any = true;
  }
  if (time >= timer_at_) {
    timer_at_ = UINT64_MAX;
    owner_.timer_expired();
  }
  return any;
}

// Serves one readable descriptor, if there is any.
void Lane::look() {
  epoll_event event;
  if (epoll_wait(epoll_.get(), &event, 1, 0) != 1) return;
  if (event.data.fd == wake_.get()) {
    eventfd_t value;
    eventfd_read(wake_.get(), &value);
    return;
  }
  owner_.serve();
}

void Lane::sleep(std::uint64_t until) {
  const std::uint64_t due = std::min({until, deadlines_[kEngineTimer], deadlines_[kPatienceTimer],
                                      retry_at_, frame_due_, timer_at_});
  const std::uint64_t time = clock_ns();
  if (due <= time) return;
  sleeping_.store(true, std::memory_order_seq_cst);
  // A producer that enqueues from here on sees sleeping_ and wakes this thread. Others that request
  // deliveries request a turn, too.
  const unsigned standing = polling_ ? unsigned{kDeliver} : 0U;
  if ((requests_.load(std::memory_order_seq_cst) & ~standing) != 0 ||
      (frame_due_ == UINT64_MAX && !port_.empty())) {
    sleeping_.store(false, std::memory_order_relaxed);
    return;
  }
  const timespec left = timespec_of(due - time);
  epoll_event event;
  const int events =
      epoll_pwait2(epoll_.get(), &event, 1, due == UINT64_MAX ? nullptr : &left, nullptr);
  sleeping_.store(false, std::memory_order_relaxed);
  runner_->slept();
  if (events > 0) look();
}

void Lane::drop_frames() {
  finish_frame();
  while (!port_.front(UINT64_MAX, nullptr).empty()) port_.discard();
  port_.release();
  if (home()) frame_due_ = UINT64_MAX;  // only its queue is shaped
}

// ---- the runner's host ----

std::uint64_t Lane::now() { return clock_.now(); }

void Lane::schedule(Call call) {
  requests_.fetch_or(call == Call::kDeliver ? kDeliver : kTakeFrames, std::memory_order_relaxed);
}

// Any thread.
void Lane::trace(Event event, std::uint64_t a, std::uint64_t) {
  if (event == Event::kLogEnded) owner_.log_ended(static_cast<int>(a));
}

// While a capture runs, lane 0 serves all QPs.
void Lane::capture(const Frame& frame) {
  if (home()) owner_.capture(frame);
}

runner::Host::Sent Lane::send(const Frame& frame) {
  const std::uint64_t time = clock_.host_time(frame.time);
  const Port::Sent sent = frame.lane == Effects::kNoLane
                              ? port_.send(frame.wire(), time, frame.batch)
                              : port_.send_to_lane(frame.lane, frame.wire(), time, frame.batch);
  if (port_.divided() && frame.mss != 0) engine_.cut_large_frames(kCutFrames);
  if (sent == Port::Sent::kTaken) return Sent::kTaken;
  // The watchdog may then discard it.
  retry_at_ = clock_ns() + Switch::kWatchdog;
  return Sent::kBlocked;
}

void Lane::finish_frame() {
  if (frame_taken_) port_.pop();
  frame_taken_ = false;
  GuestMemory::borrow(nullptr);
}

WireFrame Lane::next_frame() {
  finish_frame();
  std::uint64_t due = UINT64_MAX;
  const WireFrame frame = port_.front(turn_at_, &due);
  if (frame.payload != nullptr) GuestMemory::borrow(frame.payload->host());
  frame_taken_ = !frame.empty();
  frame_due_ = due;
  return frame;
}

bool Lane::wait_for_frames() {
  finish_frame();
  port_.release();
  return frame_due_ != UINT64_MAX || port_.empty();
}

}  // namespace tern::daemon
