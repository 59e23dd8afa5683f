// SPDX-License-Identifier: GPL-2.0-or-later
#include "adapter.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "clock.h"
#include "end_thread.h"
#include "log.h"
#include "tern_hw.hpp"
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
// Interval at which the thread polls the hypervisor's socket while it does not sleep, in ns.
constexpr std::uint64_t kServeEvery = 20'000;
// Interval at which the thread yields while it is busy, in ns.
constexpr std::uint64_t kYieldEvery = 10'000;
// Messages of the hypervisor that are handled at a time.
constexpr unsigned kMessages = 16;
// Cost of a doorbell to a guest: a message of its hypervisor and the answer (ternd_bench,
// BM_Message), which take two to three times as long on busy processors.
constexpr std::uint32_t kDoorbellCost = 200'000;
// The same without device memory: QEMU does not wait for the answer if no region is mapped. The
// message itself takes longer, so a queue that is rung every 40 us is worth polling.
constexpr std::uint32_t kPostedDoorbellCost = 10'000;
// Messages about one hypervisor in the journal: a burst, and one more in each interval.
constexpr unsigned kLogBurst = 10;
constexpr std::uint64_t kLogInterval = 10'000'000'000;
// The largest egress queue that a port can be given while the daemon runs.
constexpr std::size_t kQueueMax = std::size_t{4} << 20;

// Time until a hypervisor that could not attach is tried again, in ns.
constexpr std::uint64_t kAttachAgain = 100'000'000;

constexpr auto kEngineTimer = static_cast<std::size_t>(runner::Host::Timer::kEngine);
constexpr auto kPatienceTimer = static_cast<std::size_t>(runner::Host::Timer::kPatience);

// Encoded as in PCI Express's Link Capabilities Register: the lowest speed from 8 GT/s on at which
// 16 lanes sustain the port. 8 GT/s carry 104 Gbit/s of payload in TLPs of 128 bytes.
std::uint32_t link_speed(std::uint32_t port_speed) {
  constexpr std::uint32_t k8Gt = 3;
  constexpr std::uint32_t k64Gt = 6;
  std::uint32_t speed = k8Gt;
  for (std::uint64_t sustained = 100'000; sustained < port_speed && speed < k64Gt; sustained *= 2)
    ++speed;
  return speed;
}

AdapterConfig limited(AdapterConfig config, const Share& share) {
  limit_pages(config, share);
  return config;
}

}  // namespace

Adapter::Adapter(const AdapterConfig& config, Switch& fabric, const Share& share, Files files)
    : config_(limited(config, share)),
      regions_(share.regions),
      files_(std::move(files)),
      owned_port_(&fabric.add(config.name, *this, kQueueMax)),
      port_(*owned_port_),
      dm_(config.engine.dm_size),
      epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll")),
      wake_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  port_.set_policy(config_.port);
  make_engine();
  if (!config_.events.empty() && !files_.events) files_.events = create_file(config_.events);
  if (!config_.pcap.empty() && !files_.pcap) files_.pcap = create_file(config_.pcap);
  // One hypervisor at a time: the next ones wait in connect().
  make_function(files_.listener
                    ? std::move(files_.listener)
                    : listen_at(config_.path, 0, socket_rights(config_.user, config_.group)));
  epoll_event event{.events = EPOLLIN, .data = {.fd = wake_.get()}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  watch_function();
}

Adapter::~Adapter() {
  if (!stop()) std::_Exit(1);
  // After stop() the path may be another adapter's.
  if (!running_.load()) unlink(config_.path.c_str());
}

void Adapter::make_engine() {
  Config c = config_.engine;
  c.dm = std::span(dm_.data(), c.dm_size);
  c.unfinished_frames = true;
  c.doorbell_cost = c.dm_size == 0 ? kPostedDoorbellCost : kDoorbellCost;
  engine_ = std::make_unique<Device>(engine_host_, c);
  const std::string why = set_faults(config_.faults);
  if (!why.empty()) throw std::invalid_argument("property 'faults': " + why);
  set_icrc(config_.icrc);

  runner::Config rc;
  rc.poll = config_.poll;
  rc.direct_send = true;
  rc.processors = std::thread::hardware_concurrency();
  // The thread serves its hypervisor between two slices.
  rc.limits.inline_slice = rc.limits.slice;
  runner_ = std::make_unique<runner::Runner>(*engine_, *this, rc);
}

void Adapter::log_events(Descriptor file) {
  runner::EventFile log;
  log.limit = config_.events_limit;
  log.clock = TERN_LOG_CLOCK_MONOTONIC;
  log.epoch = clock_ns(CLOCK_REALTIME) - clock_ns();
  log.mac = config_.engine.mac;
  log.name = config_.name;
  log.fd = file.release();
  runner_->log_events(log);
}

void Adapter::make_function(Descriptor listener) {
  Function::Options options;
  options.space.uar_size = config_.engine.uar_bar_size;
  options.space.dm_size = dm_.size();
  options.space.vectors = config_.engine.num_vectors;
  options.space.link_speed = link_speed(config_.engine.link_speed);
  options.regions = regions_;
  function_ =
      std::make_unique<Function>(std::move(listener), options, DmFile{dm_.fd(), dm_.data()}, *this);
}

void Adapter::start() {
  if (files_.events) log_events(std::move(files_.events));
  if (files_.pcap)
    set_capture(
        std::make_unique<Capture>(std::move(files_.pcap), config_.pcap_limit, config_.pcap));
  thread_ = std::thread(&Adapter::loop, this);
  running_.wait(false);
}

bool Adapter::stop() {
  if (thread_.joinable()) {
    request(kStop);
    if (!end_thread(thread_, ended_)) return false;
    unlink(config_.path.c_str());
  }
  // Other threads may still wake this one, but use none of the members freed here.
  if (function_) function_->close();
  capture_.reset();
  runner_.reset();
  function_.reset();
  engine_.reset();
  return true;
}

// ---- other threads ----

void Adapter::request(unsigned calls) {
  requests_.fetch_or(calls, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false))
    eventfd_write(wake_.get(), 1);
}

void Adapter::frames_wait() {
  // The loop polls the port itself while it does not sleep.
  if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false))
    eventfd_write(wake_.get(), 1);
}

void Adapter::room() { request(kRoom); }

TaskQueue::Ticket Adapter::post(std::function<void()> task) {
  TaskQueue::Ticket ticket = tasks_.post(std::move(task));
  request(kTasks);
  return ticket;
}

// ---- the thread ----

void Adapter::loop() {
  pthread_setname_np(pthread_self(), config_.name.substr(0, 15).c_str());
  prctl(PR_SET_TIMERSLACK, kTimerSlack);
  memory_.adopt();
  runner_->begin_polling();
  running_.store(true);
  running_.notify_one();
  for (;;) {
    const bool busy = work();
    port_.wake_receivers();
    if (stop_) break;
    if (busy) active_at_ = turn_at_;
    const Level contention = runner_->contention(turn_at_);
    if (!busy && turn_at_ >= spin_until(contention)) {
      if (contention != Level::kNone && polling_ && turn_at_ >= active_at_ + kIdle)
        runner_->stop_polling();
      sleep(polling_ ? turn_at_ + kNap : UINT64_MAX);
      continue;
    }
    if (turn_at_ >= served_at_ + kServeEvery) {
      served_at_ = turn_at_;
      serve();
      port_.wake_receivers();
    }
    // There may be more adapters than processors, and another one may have work because of this
    // one.
    if (contention != Level::kLong && (!busy || turn_at_ >= yielded_at_ + kYieldEvery)) {
      std::this_thread::yield();
      yielded_at_ = turn_at_;
    }
  }
  runner_->stop();
  // Close it here, because a hypervisor with many regions makes this slow.
  function_->close();
  ended_.release();
}

// Time until which the thread spins if it finds nothing to do.
std::uint64_t Adapter::spin_until(Level contention) const {
  if (contention == Level::kLong) return 0;
  if (!polling_) return active_at_ + kSpin;
  return contention == Level::kBrief ? active_at_ + kPollLimit : UINT64_MAX;
}

// Returns false if there was nothing to do.
bool Adapter::work() {
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
  if ((calls & kTasks) != 0) tasks_.run();
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
  if (memory_.lost()) [[unlikely]] {
    memory_.forget_lost();
    log(LOG_WARNING, "the hypervisor's memory is shorter than it says: it is dropped");
    function_->drop();
  }
  return busy;
}

bool Adapter::run_timers() {
  const std::uint64_t time = turn_at_ = now();
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
  if (time >= attach_at_) {
    attach_at_ = UINT64_MAX;
    watch_function();
  }
  return any;
}

void Adapter::serve() {
  epoll_event event;
  if (epoll_wait(epoll_.get(), &event, 1, 0) != 1) return;
  if (event.data.fd == wake_.get()) {
    eventfd_t value;
    eventfd_read(wake_.get(), &value);
    return;
  }
  if (!function_->serve(kMessages)) attach_at_ = now() + kAttachAgain;
  watch_function();
}

// The descriptor changes when a hypervisor attaches or detaches. One that cannot attach now leaves
// it readable.
void Adapter::watch_function() {
  const int fd = attach_at_ == UINT64_MAX ? function_->fd() : -1;
  if (fd == watched_) return;
  // epoll drops a closed descriptor by itself, unless its number was reused.
  if (watched_ >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched_, nullptr);
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (fd >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  watched_ = fd;
}

void Adapter::sleep(std::uint64_t until) {
  const std::uint64_t due = std::min({until, deadlines_[kEngineTimer], deadlines_[kPatienceTimer],
                                      retry_at_, frame_due_, attach_at_});
  const std::uint64_t time = now();
  if (due <= time) return;
  sleeping_.store(true, std::memory_order_seq_cst);
  // A producer that enqueues from here on sees sleeping_ and wakes this thread. Only this thread
  // requests deliveries.
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
  if (events > 0) serve();
}

// ---- the function's owner ----

std::uint32_t Adapter::read_register(std::uint64_t offset) {
  if (removed_) return UINT32_MAX;
  runner_->lock();
  const std::uint32_t value = engine_->reg_read(static_cast<std::uint32_t>(offset));
  runner_->unlock();
  return value;
}

void Adapter::write_register(std::uint64_t offset, std::uint32_t value) {
  if (removed_) return;
  runner_->lock();
  engine_->reg_write(static_cast<std::uint32_t>(offset), value);
  runner_->run();
  runner_->unlock_and_deliver();
}

std::uint32_t Adapter::read_doorbell(std::uint64_t offset) {
  if (removed_) return UINT32_MAX;
  runner_->lock();
  const std::uint32_t value = engine_->uar_read(offset);
  runner_->unlock();
  return value;
}

void Adapter::ring_doorbell(std::uint64_t offset, std::uint32_t value) {
  if (!removed_) runner_->doorbell(offset, value);
}

void Adapter::memory_added(const GuestMemory::Region& region) {
  runner_->lock();
  if (memory_.add(region)) memory_.update(engine_host_);
  runner_->unlock_without_delivering();
}

void Adapter::memory_removed(const GuestMemory::Region& region) {
  runner_->lock();
  if (memory_.remove(region.addr)) memory_.update(engine_host_);
  engine_->dma_invalidate(region.addr, region.len);
  runner_->unlock_without_delivering();
}

void Adapter::reset() {
  runner_->lock();
  memory_.allow(false);
  runner_->reset();
  memory_.update(engine_host_);
  runner_->unlock();
}

void Adapter::power_changed(bool bus_master, bool awake) {
  runner_->lock();
  memory_.allow(bus_master);
  memory_.update(engine_host_);
  if (!bus_master) engine_->dma_invalidate(0, UINT64_MAX);
  runner_->set_awake(awake);
  runner_->unlock_without_delivering();
}

void Adapter::attached() {
  log(LOG_INFO, "a hypervisor is attached");
  set_link(link_wanted_);
}

void Adapter::detached() {
  log(LOG_INFO, "the hypervisor is gone");
  port_.set_link(false);
  runner_->set_link(false);
  // The next hypervisor gets an adapter that is present.
  removed_ = false;
  runner_->set_present(true);
  finish_frame();
  while (!port_.front(UINT64_MAX, nullptr).empty()) port_.discard();
  port_.release();
  frame_due_ = UINT64_MAX;
  fresh_ = renew_memory();
  if (!fresh_)
    log(LOG_WARNING,
        "the host has no memory or descriptors for device memory: the next hypervisor waits");
}

bool Adapter::renew_memory() { return dm_.renew() && function_->set_dm({dm_.fd(), dm_.data()}); }

bool Adapter::ready() {
  if (!fresh_) fresh_ = renew_memory();
  return fresh_;
}

void Adapter::log(int priority, const char* message) {
  const std::uint64_t time = now();
  if (const std::uint64_t more = (time - log_refilled_) / kLogInterval; more != 0) {
    log_tokens_ = static_cast<unsigned>(std::min<std::uint64_t>(kLogBurst, log_tokens_ + more));
    log_refilled_ = time;
  }
  if (log_tokens_ == 0) return;
  --log_tokens_;
  write_log(priority, config_.name, message);
}

// ---- the runner's host ----

std::uint64_t Adapter::now() { return clock_ns(); }

void Adapter::schedule(Call call) {
  requests_.fetch_or(call == Call::kDeliver ? kDeliver : kTakeFrames, std::memory_order_relaxed);
}

// Any thread.
void Adapter::trace(Event event, std::uint64_t a, std::uint64_t) {
  if (event != Event::kLogEnded) return;
  const std::string why = a == 0 ? "events-limit" : std::strerror(static_cast<int>(a));
  write_log(a == 0 ? LOG_INFO : LOG_WARNING, config_.name,
            "the event log " + config_.events + " ends: " + why);
}

void Adapter::capture(const Frame& frame) {
  if (capture_) capture_->add(frame.time, frame.bytes);
}

runner::Host::Sent Adapter::send(const Frame& frame) {
  if (port_.send(frame.wire(), frame.time, frame.batch) == Port::Sent::kTaken) return Sent::kTaken;
  // The watchdog may then discard it.
  retry_at_ = now() + Switch::kWatchdog;
  return Sent::kBlocked;
}

void Adapter::finish_frame() {
  if (frame_taken_) port_.pop();
  frame_taken_ = false;
}

WireFrame Adapter::next_frame() {
  finish_frame();
  std::uint64_t due = UINT64_MAX;
  const WireFrame frame = port_.front(turn_at_, &due);
  frame_taken_ = !frame.empty();
  frame_due_ = due;
  return frame;
}

bool Adapter::wait_for_frames() {
  finish_frame();
  port_.release();
  return frame_due_ != UINT64_MAX || port_.empty();
}

// ---- within call() ----

Adapter::Status Adapter::status() const {
  return {function_->attached(), port_.link(), memory_.bytes(), memory_.regions(), engine_->info()};
}

void Adapter::set_link(bool up) {
  link_wanted_ = up;
  if (!function_->attached()) return;
  port_.set_link(up);
  runner_->set_link(up);
}

std::string Adapter::set_faults(const std::string& text) {
  std::string why;
  if (runner_) runner_->lock();
  const bool ok = engine_->set_faults(text, why);
  if (runner_) {
    runner_->run();
    runner_->unlock_without_delivering();
  }
  return ok ? "" : why;
}

std::string Adapter::faults() const { return engine_->faults(); }

void Adapter::set_removed(bool removed) {
  if (removed == removed_) return;
  removed_ = removed;
  runner_->set_present(!removed);
  function_->set_removed(removed);
}

std::unique_ptr<Capture> Adapter::set_capture(std::unique_ptr<Capture> capture) {
  runner_->lock();
  engine_->set_capture(capture != nullptr);
  // Frames made before may lack the ICRC: collect them before the capture begins.
  runner_->unlock_without_delivering();
  return std::exchange(capture_, std::move(capture));
}

void Adapter::set_icrc(IcrcMode mode) { engine_->port.icrc_mode = mode; }

}  // namespace tern::daemon
