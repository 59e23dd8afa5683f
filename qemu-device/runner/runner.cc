// SPDX-License-Identifier: GPL-2.0-or-later
#include "runner.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "control/device.h"
#include "signals_blocked.h"

namespace tern::runner {

namespace {

// Number of times that the worker checks for threads waiting for the lock before it sleeps on it.
constexpr unsigned kSpins = 200;
// Contention is measured after this many polls, about half a millisecond.
constexpr unsigned kJudgeEvery = 16384;
// The same for a host thread that polls, in ns. A turn has no fixed length while the
// thread yields.
constexpr std::uint64_t kJudgeInterval = 1'000'000;
// Waits shorter than this on average (ns) are brief: the other threads yield as well.
constexpr std::uint64_t kBrief = 1'000'000;
// Longest back-off, in ns. Polling continues at a lower rate, so a longer one gains little.
constexpr std::uint64_t kMaxBackOff = 400'000'000;

void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Runner::Runner(Device& engine, Host& host, const Config& config)
    : engine_(engine),
      lane_(engine.lane(config.lane)),
      home_(config.lane == 0),
      host_(host),
      limits_(config.limits),
      poll_(config.poll && config.processors > 1),
      direct_send_(config.direct_send),
      open_cpu_clock_(config.open_cpu_clock),
      running_(config.running),
      transmit_(host, config.limits.tx_patience) {
  allow_polling();
}

Runner::~Runner() {
  stop();
  acquire();
  drop_effects();
  free_batches(transmit_.queue());
  mutex_.unlock();
}

void Runner::start() {
  const SignalsBlocked blocked;
  const std::lock_guard lock(mutex_);
  worker_ = std::thread(&Runner::work_loop, this);
  started_ = true;
}

void Runner::stop() {
  lock();
  state_.store(WorkerState::kStopping);
  transmit_.disown();
  wake_.notify_one();
  mutex_.unlock();
  vectors_ = {};
  if (worker_.joinable()) worker_.join();
  events_.reset();
}

void Runner::log_events(const EventFile& file) {
  events_ = std::make_unique<EventWriter>(engine_, host_, file);
}

void Runner::flush_events() {
  if (events_) events_->flush();
}

void Runner::set_event_epoch(std::uint64_t epoch) {
  if (events_) events_->set_epoch(epoch);
}

// ---- the engine lock ----

void Runner::acquire() {
  waiters_.fetch_add(1);
  mutex_.lock();
  waiters_.fetch_sub(1);
  free_batches(transmit_.done());
}

void Runner::lock() {
  acquire();
  work_ |= take_doorbells();
}

void Runner::unlock() {
  if (events_) events_->logged();
  // If another thread waits for the lock, the worker goes idle again, and that thread's unlock()
  // wakes it.
  if (worker_state() == WorkerState::kIdle && worker_may_run()) wake_.notify_one();
  mutex_.unlock();
}

void Runner::unlock_without_delivering() {
  bool schedule = collect();
  // QPs may have come from other lanes.
  if (host_runs()) due_ |= lane_.waits();
  schedule |= may_run() && (due_ || (work_ && host_runs()) || lane_.next_deadline() < armed_);
  unlock();
  if (schedule) request(Host::Call::kDeliver);
}

bool Runner::unlock_after_commands() {
  due_ |= lane_.waits() || lane_.next_deadline() < armed_;
  // A reset disowns batches.
  const bool work = due_ || work_ || !lane_.effects->empty() || !transmit_.queue().empty();
  unlock();
  return work;
}

// ---- effects ----

void Runner::free_batches(Batches& batches) {
  for (const Batch& batch : batches) {
    backlog_ -= batch.bytes;
    lane_.free_effects(batch.effects);
  }
  batches.clear();
}

// Sends frames under the engine lock while the transmit queue is empty. Returns the index of the
// first frame that the wire does not take.
std::size_t Runner::send_now(EffectsBatch& effects) {
  const std::size_t frames = effects.frames();
  for (std::size_t i = 0; i < frames; ++i) {
    const Host::Frame frame = effects.frame(i);
    if (!frame.to_wire) continue;
    if (host_.send(frame) == Host::Sent::kBlocked) return i;
    transmit_.took();
  }
  return frames;
}

// Takes the collected effects out of the engine. Returns true if there is something to deliver.
bool Runner::collect() {
  EffectsBatch* const effects = lane_.take_effects();
  if (effects == nullptr) return false;
  const Vectors& vectors = effects->vectors();
  for (std::size_t i = 0; i < kVectorWords; ++i) collected_vectors_[i] |= vectors[i];

  const std::size_t frames = effects->frames();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < frames; ++i) {
    const Host::Frame frame = effects->frame(i);
    if (frame.shown) host_.capture(frame);
    if (frame.to_wire) bytes += frame.size();
  }
  std::size_t next = 0;
  if (bytes != 0 && direct_send_ && backlog_ == 0) next = send_now(*effects);
  const bool lost = bytes != 0 && next != frames && backlog_ + bytes > limits_.tx_hard;
  if (lost) host_.trace(Host::Event::kLost, frames - next, 0);
  if (bytes == 0 || next == frames || lost) {
    lane_.free_effects(effects);
    return std::ranges::any_of(collected_vectors_, [](std::uint64_t word) { return word != 0; });
  }
  collected_.push_back({effects, next, bytes, transmit_.generation()});
  backlog_ += bytes;
  return true;
}

void Runner::reset() {
  if (home_) engine_.reset();
  drop_effects();
  work_ = false;
  awake_ = true;
  // The link event is not written: there is no event queue now.
  if (home_) engine_.set_link(link_);
  // Until the disowned batches are done, they count as backlog.
  if (!transmit_.queue().empty()) request(Host::Call::kDeliver);
}

void Runner::drop_effects() {
  lane_.free_effects(lane_.take_effects());
  free_batches(collected_);
  collected_vectors_ = {};
  vectors_ = {};
  transmit_.disown();
}

// Delivers with only the host lock held. A call to `host_` may cause an input at once (a hub
// returns a frame); the loop in progress then delivers the effects of that input. The call may also
// cause stop(), because a guest can aim an interrupt at the register that unplugs the adapter. Two
// adapters on a hub could keep each other's loop running for ever, so effects above a limit are
// left to deliver().
void Runner::deliver_effects(bool frames) {
  if (delivering_ || !running_ || stopping()) return;
  delivering_ = true;
  raise_vectors();
  std::uint64_t sent = 0;
  while (frames && !stopping() && sent < limits_.tx_inline) {
    const std::uint64_t bytes = transmit_.send_batch();
    if (bytes == 0) break;
    sent += bytes;
    raise_vectors();
  }
  raise_vectors();
  delivering_ = false;
  if (sent >= limits_.tx_inline) request(Host::Call::kDeliver);
}

void Runner::request(Host::Call call) {
  if (!stopping()) host_.schedule(call);
}

void Runner::raise_vectors() {
  for (std::size_t i = 0; i < kVectorWords; ++i) {
    while (vectors_[i] != 0) {
      const int bit = std::countr_zero(vectors_[i]);
      vectors_[i] &= vectors_[i] - 1;
      host_.raise(static_cast<unsigned>(i) * 64 + static_cast<unsigned>(bit));
    }
  }
}

// Called with the lock, which it drops. `scheduled`: the caller is deliver().
void Runner::finish(bool scheduled) {
  const std::uint64_t deadline = lane_.next_deadline();
  collect();
  for (std::size_t i = 0; i < kVectorWords; ++i)
    vectors_[i] |= std::exchange(collected_vectors_[i], std::uint64_t{0});
  transmit_.add(collected_);
  // An expired timer fires again and again until the engine runs. So arm none while nothing may
  // run, and none while the worker is about to run, because it would contend with this thread for
  // the lock.
  const bool arm = deadline < armed_ && may_run() && !worker_may_run();
  if (arm) armed_ = deadline;
  const bool frames = scheduled || backlog_ <= limits_.tx_inline;
  const bool throttled = backlog_ >= limits_.tx_soft;
  const bool again = work_ && host_runs() && may_run() && !throttled;
  unlock();

  if (arm) host_.arm(Host::Timer::kEngine, deadline);
  deliver_effects(frames);
  // deliver() frees the batches just sent, and wakes a worker that waits for that.
  if (again || !frames || (throttled && !transmit_.done().empty())) request(Host::Call::kDeliver);
}

// ---- inputs ----

void Runner::run() {
  if (!may_run()) {
    work_ = true;
  } else if (!worker_may_run()) {
    work_ = engine_.run(lane_, backlog_ < limits_.tx_soft ? limits_.inline_slice : limits_.trickle);
  }
}

bool Runner::worker_busy() const {
  const WorkerState state = state_.load(std::memory_order_seq_cst);
  return state == WorkerState::kWorking || state == WorkerState::kPolling;
}

bool Runner::take_doorbells() {
  return doorbells_.take_all(
      [this](const Doorbell& d) { engine_.doorbell(lane_, d.offset, d.value); });
}

void Runner::doorbell(std::uint64_t offset, std::uint32_t value) {
  const bool put = worker_busy() && doorbells_.put({offset, value});
  if (put && worker_busy()) return;
  acquire();
  take_doorbells();
  if (!put) engine_.doorbell(lane_, offset, value);
  run();
  unlock_and_deliver();
}

bool Runner::receive(std::span<const std::byte> frame) {
  if (!awake_ || !present_) return true;
  lock();
  if (!running_) {
    refused_ = true;
    unlock();
    host_.trace(Host::Event::kRefused, frame.size(), 0);
    return false;
  }
  engine_.receive(frame);
  run();
  unlock_and_deliver();
  return true;
}

void Runner::take_frames() {
  // set_running() schedules another call when the machine continues.
  if (!running_ || stopping()) return;
  lock();
  std::uint64_t bytes = 0;
  bool waits = false;
  // An empty poll counts too: the peer may be adding frames all the time.
  for (unsigned looks = 0; bytes < limits_.rx_bytes && looks < limits_.rx_frames && !waits;
       ++looks) {
    const WireFrame frame = host_.next_frame();
    if (frame.empty()) {
      waits = host_.wait_for_frames();
      continue;
    }
    const bool taken = awake_ && present_;
    bytes += taken ? engine_.receive_more(lane_, frame) : frame.size();
  }
  engine_.end_burst(lane_);
  if (!waits) {
    // Releases the space to the peer now. The next call takes the rest.
    host_.wait_for_frames();
    request(Host::Call::kTakeFrames);
  }
  run();
  unlock_and_deliver();
}

void Runner::resumed() {
  if (transmit_.resumed()) request(Host::Call::kDeliver);
}

void Runner::set_link(bool up) {
  if (!up) {
    transmit_.link_down();
    request(Host::Call::kDeliver);
  }
  lock();
  link_ = up;
  follow_link();
  run();
  unlock_without_delivering();
}

void Runner::set_speed(std::uint32_t mbps) {
  lock();
  speed_ = mbps;
  follow_link();
  run();
  unlock_without_delivering();
}

// The engine notifies the driver in memory, which it must not access while nothing may run.
void Runner::follow_link() {
  if (!home_ || !may_run()) return;
  engine_.set_link(link_);
  engine_.set_speed(speed_);
}

void Runner::set_running(bool running) {
  lock();
  running_ = running;
  follow_link();
  unlock();
  if (running) {
    due_ = true;
    request(Host::Call::kDeliver);
    request(Host::Call::kTakeFrames);
  }
}

void Runner::set_awake(bool awake) {
  if (awake && !awake_) {
    // Deadlines may have passed meanwhile.
    due_ = true;
    request(Host::Call::kDeliver);
  }
  awake_ = awake;
  follow_link();
}

bool Runner::save(std::vector<std::byte>& to, std::string& error, std::size_t most) {
  const std::scoped_lock locked(*this);
  collect();
  if (!engine_.save(to, error, most)) return false;
  for (std::size_t i = 0; i < kVectorWords; ++i) {
    const std::uint64_t word = vectors_[i] | collected_vectors_[i];
    const auto bytes = std::as_bytes(std::span(&word, 1));
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
  return true;
}

bool Runner::load(std::span<const std::byte> state, std::string& error) {
  Vectors vectors;
  if (state.size() < sizeof(vectors)) {
    error = "the state is too short";
    return false;
  }
  const auto last = state.last(sizeof(vectors));
  std::memcpy(vectors.data(), last.data(), last.size());
  lock();
  drop_effects();
  const bool ok = engine_.load(state.first(state.size() - last.size()), error);
  if (ok) vectors_ = vectors;
  // Deadlines may have passed, and queues may have been written.
  work_ = due_ = true;
  armed_ = UINT64_MAX;
  unlock_without_delivering();
  return ok;
}

void Runner::deliver() {
  lock();
  if (due_) armed_ = UINT64_MAX;
  if (due_ || work_) {
    due_ = false;
    run();
  }
  finish(true);
  if (running_ && !stopping() && std::exchange(refused_, false)) host_.receive_again();
}

bool Runner::poll_only() {
  if (!may_poll_ || due_ || refused_ || !transmit_.queue().empty() || !transmit_.done().empty())
    return false;
  lock();
  const bool only = work_ && may_run() && host_runs() && backlog_ == 0 && !engine_.poll(lane_);
  mutex_.unlock();
  return only;
}

void Runner::expired(Host::Timer timer) {
  switch (timer) {
    case Host::Timer::kEngine:
      due_ = true;
      request(Host::Call::kDeliver);
      break;
    case Host::Timer::kPatience:
      transmit_.patience_over();
      request(Host::Call::kDeliver);
      break;
  }
}

// ---- the worker ----

void Runner::enter(WorkerState next) {
  if (worker_state() != WorkerState::kStopping) state_.store(next, std::memory_order_relaxed);
}

// Lets host threads that wait for the lock take it.
void Runner::yield(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  for (unsigned i = 0; i < kSpins && contended(); ++i) cpu_relax();
  lock.lock();
}

// Sleeps until woken. Returns at once if there is work and no host thread waits for the lock.
void Runner::idle(std::unique_lock<std::mutex>& lock) {
  // Sequentially consistent: the ring is read after this store (see doorbell()).
  state_.store(WorkerState::kIdle, std::memory_order_seq_cst);
  work_ |= take_doorbells();
  if (worker_may_run() && !contended()) return;
  // A doorbell came through the ring because the worker was busy, and only the host thread may
  // serve it now.
  if (work_ && may_run() && !worker_may_run()) request(Host::Call::kDeliver);
  if (may_poll_) {
    // The clock reads a file; no host thread should wait for that.
    lock.unlock();
    const auto verdict = judge();
    lock.lock();
    pause_polling(verdict);
    // A thread that held the lock meanwhile found no sleeping worker to wake.
    if (stopping() || (worker_may_run() && !contended())) return;
  }
  wake_.wait(lock);
  if (may_poll_) contention_.skip();
}

void Runner::work_loop() {
  host_.worker_begins();
  contention_.start(open_cpu_clock_());
  {
    std::unique_lock lock(mutex_);
    while (worker_state() != WorkerState::kStopping) {
      if (contended()) yield(lock);
      work_ |= take_doorbells();
      if (worker_may_run() && !contended()) {
        work_slice();
      } else if (worker_state() != WorkerState::kStopping) {
        idle(lock);
      }
    }
  }
  host_.worker_ends();
}

void Runner::work_slice() {
  enter(WorkerState::kWorking);
  work_ = engine_.run(lane_, limits_.slice);
  if (events_) events_->logged();
  host_.trace(Host::Event::kSlice, work_, 0);
  // The worker itself handles deadlines that pass while it works: see finish().
  if (collect() || (!worker_may_run() && lane_.next_deadline() < armed_)) {
    request(Host::Call::kDeliver);
  }
  if (worker_may_run()) poll();
}

void Runner::poll() {
  enter(WorkerState::kPolling);
  do {
    if (++polls_ % kJudgeEvery == 0 && may_poll_) pause_polling(judge());
    if (engine_.poll(lane_)) break;
    cpu_relax();
  } while (!doorbells_.pending() && !contended());
  enter(WorkerState::kWorking);
}

// ---- polling and contention ----

void Runner::allow_polling() {
  may_poll_ = poll_ && !host_only_;
  engine_.allow_polling(lane_, may_poll_ ? 0 : UINT64_MAX);
  // The next run checks the queues that were polled once more.
  work_ = true;
}

void Runner::update_polling() {
  if (may_poll_ != (poll_ && !host_only_)) stop_polling();
}

std::optional<Contention::Verdict> Runner::judge() {
  const auto verdict = contention_.judge();
  if (verdict) host_.trace(Host::Event::kContention, verdict->ran, verdict->waited);
  return verdict;
}

// The engine polls no queue while other threads need the processor.
void Runner::pause_polling(const std::optional<Contention::Verdict>& verdict) {
  if (!may_poll_) return;
  if (verdict && verdict->pause != 0) engine_.allow_polling(lane_, host_.now() + verdict->pause);
}

void Runner::begin_polling() {
  contention_.start(poll_ ? open_cpu_clock_() : nullptr, kBrief, kMaxBackOff);
}

Contention::Level Runner::contention(std::uint64_t now) {
  using Level = Contention::Level;
  if (now >= judge_at_) {
    judge_at_ = now + kJudgeInterval;
    const auto verdict = judge();
    if (verdict && verdict->level != Level::kNone) brief_until_ = now + verdict->pause;
    if (verdict && verdict->level == Level::kLong) long_until_ = brief_until_;
  }
  if (now < long_until_) return Level::kLong;
  return now < brief_until_ ? Level::kBrief : Level::kNone;
}

void Runner::stop_polling() {
  lock();
  allow_polling();
  unlock_without_delivering();
}

}  // namespace tern::runner
