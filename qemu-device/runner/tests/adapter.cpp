// SPDX-License-Identifier: GPL-2.0-or-later
#include "adapter.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace tern::runner {

namespace {

constexpr std::uint64_t kUarBytes = 2 << 16;

std::uint64_t steady_now() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

}  // namespace

// ---- the engine's host ----

std::span<std::byte> EngineHost::map(std::uint64_t addr, std::uint64_t len, bool) {
  const std::span ram(adapter_.ram);
  if (addr >= ram.size()) return {};
  return ram.subspan(static_cast<std::size_t>(addr))
      .first(std::min<std::uint64_t>(len, ram.size() - addr));
}

Nanos EngineHost::now() { return adapter_.now(); }

std::uint64_t EngineHost::random() {
  static std::atomic<std::uint64_t> state = 1;
  std::uint64_t x = state.fetch_add(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 27);
}

// ---- the adapter ----

Adapter::Adapter(const Options& options) : MachineDriver(options.id), options_(options) {
  tern::Config config;
  config.uar_bar_size = kUarBytes;
  config.max_qp = config.max_cq = config.max_mr = config.max_mw = 64;
  config.max_tags = 0;
  config.num_vectors = 8;
  std::ranges::copy(mac(), config.mac.begin());
  engine.emplace(engine_host, config);
  runner.emplace(*engine, *this, options.config);
  if (options.events) runner->log_events(*options.events);
  if (!options_.threads) return;
  runner->start();
  loop_ = std::thread(&Adapter::main_loop, this);
}

void Adapter::shut_down() {
  if (loop_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      wake_.notify_all();
    }
    loop_.join();
  }
  host([](Runner& r) { r.stop(); });
}

Adapter::~Adapter() {
  shut_down();
  runner.reset();
  engine.reset();
  EXPECT_EQ(workers, 0);
}

// ---- the host ----

void Adapter::post(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_[task] = true;
  wake_.notify_one();
}

void Adapter::schedule(Call call) { post(call == Call::kDeliver ? kDeliver : kTakeFrames); }

bool Adapter::scheduled(Call call) {
  const std::lock_guard lock(mutex_);
  return tasks_[call == Call::kDeliver ? kDeliver : kTakeFrames];
}

std::optional<std::uint64_t> Adapter::armed(Timer timer) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t at = timers_.at(static_cast<std::size_t>(timer));
  return at == UINT64_MAX ? std::nullopt : std::optional(at);
}

void Adapter::arm(Timer timer, std::uint64_t at) {
  const std::lock_guard lock(mutex_);
  timers_.at(static_cast<std::size_t>(timer)) = at;
  wake_.notify_one();
}

void Adapter::disarm(Timer timer) { arm(timer, UINT64_MAX); }

// Called with mutex_, which it drops meanwhile: makes the next call that is due. Returns false if
// there is none.
bool Adapter::call_next(std::unique_lock<std::mutex>& lock) {
  const auto task = std::ranges::find(tasks_, true);
  const auto timer =
      std::ranges::find_if(timers_, [t = now()](std::uint64_t at) { return at <= t; });
  if (task == tasks_.end() && timer == timers_.end()) return false;
  if (task != tasks_.end()) {
    *task = false;
  } else {
    *timer = UINT64_MAX;
  }
  lock.unlock();
  host([&](Runner& r) {
    if (task == tasks_.end()) return r.expired(static_cast<Timer>(timer - timers_.begin()));
    switch (task - tasks_.begin()) {
      case kDeliver:
        return r.deliver();
      case kTakeFrames:
        return r.take_frames();
      default:
        return r.resumed();
    }
  });
  lock.lock();
  return true;
}

void Adapter::pump() {
  std::unique_lock lock(mutex_);
  for (int i = 0; i < 1000 && call_next(lock); ++i) {
  }
}

void Adapter::advance(std::uint64_t ns) {
  clock_ += ns;
  pump();
}

void Adapter::main_loop() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (!call_next(lock)) wake_.wait_for(lock, std::chrono::microseconds(200));
  }
}

std::uint64_t Adapter::now() {
  return options_.threads ? steady_now() / options_.slowness : clock_.load();
}

void Adapter::trace(Event event, std::uint64_t, std::uint64_t) {
  ++events_.at(static_cast<std::size_t>(event));
  if (on_event) on_event(event);
}

void Adapter::capture(const Frame& frame) { EXPECT_FALSE(frame.bytes.empty()); }

void Adapter::raise(unsigned vector) {
  if (vector == kCompletionVector) take_events();
  ++raised_.at(vector);
  if (on_raise) on_raise();
}

void Adapter::receive_again() { ++receive_agains; }

Host::Sent Adapter::send(const Frame& frame) {
  Bytes bytes(frame.bytes.begin(), frame.bytes.end());
  if (blocked && !holds) return Sent::kBlocked;
  if (peer_ != nullptr) {
    const std::lock_guard lock(peer_->mutex_);
    if (peer_->inbox_.size() >= peer_->inbox_size) {
      peer_->wants_room_ = true;
      return Sent::kBlocked;
    }
    const unsigned every = lose_every;
    if (every == 0 || ++sent_to_peer_ % every != 0) peer_->inbox_.push_back(std::move(bytes));
    if (std::exchange(peer_->waits_, false)) {
      peer_->tasks_[kTakeFrames] = true;
      peer_->wake_.notify_one();
    }
  } else {
    const std::lock_guard lock(mutex_);
    sent_.push_back(std::move(bytes));
  }
  if (on_send) on_send();
  return blocked ? Sent::kHeld : Sent::kTaken;
}

std::vector<Bytes> Adapter::take_sent() {
  const std::lock_guard lock(mutex_);
  return std::exchange(sent_, {});
}

void Adapter::put_in_inbox(Bytes frame) {
  const std::lock_guard lock(mutex_);
  inbox_.push_back(std::move(frame));
}

std::size_t Adapter::inbox() {
  const std::lock_guard lock(mutex_);
  return inbox_.size();
}

WireFrame Adapter::next_frame() {
  const std::lock_guard lock(mutex_);
  if (inbox_.empty()) return {};
  frame_ = std::move(inbox_.front());
  inbox_.pop_front();
  return {frame_};
}

bool Adapter::wait_for_frames() {
  bool wanted = false;
  bool none = false;
  {
    const std::lock_guard lock(mutex_);
    wanted = std::exchange(wants_room_, false);
    none = waits_ = inbox_.empty();
  }
  if (wanted) peer_->post(kResumed);
  return none;
}

// ---- the driver ----

void Adapter::ring(std::uint32_t uar, std::uint32_t value) {
  host([&](Runner& r) { r.doorbell(std::uint64_t{uar} << 12, value); });
}

std::uint32_t Adapter::reg_read(std::uint32_t offset) {
  return host([&](Runner& r) {
    r.lock();
    const std::uint32_t value = engine->reg_read(offset);
    r.unlock();
    return value;
  });
}

void Adapter::reg_write(std::uint32_t offset, std::uint32_t value) {
  host([&](Runner& r) {
    r.lock();
    engine->reg_write(offset, value);
    r.run();
    r.unlock_and_deliver();
  });
}

void Adapter::let_run() {
  if (!options_.threads) pump();
}

void Adapter::with_events(const std::function<void()>& change) {
  host([&](Runner&) { change(); });
}

void Adapter::bring_up() {
  host([](Runner& r) { r.set_link(true); });
  MachineDriver::bring_up();
}

}  // namespace tern::runner
