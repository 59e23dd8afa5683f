// SPDX-License-Identifier: GPL-2.0-or-later
#include "tern_runner.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include "handles.h"
#include "runner.h"

namespace {

using tern::runner::Config;
using tern::runner::Host;
using tern::runner::Runner;

static_assert(TERN_CALL_TAKE_FRAMES == static_cast<int>(Host::Call::kTakeFrames));
static_assert(TERN_SENT_BLOCKED == static_cast<int>(Host::Sent::kBlocked));
static_assert(TERN_EVENT_LOG_ENDED == static_cast<int>(Host::Event::kLogEnded));

// Calls the host's C functions as a Host.
class CallbackHost final : public Host {
 public:
  CallbackHost(const TernRunnerOps& ops, void* opaque) : ops_(ops), opaque_(opaque) {}

  std::uint64_t now() override { return ops_.now(opaque_); }
  void schedule(Call call) override { ops_.schedule(opaque_, static_cast<TernCall>(call)); }
  void trace(Event event, std::uint64_t a, std::uint64_t b) override {
    ops_.trace(opaque_, static_cast<TernEvent>(event), a, b);
  }
  void capture(const Frame& frame) override {
    const TernFrame f = tern::capi::to_c(frame);
    ops_.capture(opaque_, &f);
  }
  void arm(Timer timer, std::uint64_t at) override {
    ops_.arm(opaque_, static_cast<TernTimer>(timer), at);
  }
  void disarm(Timer timer) override { ops_.disarm(opaque_, static_cast<TernTimer>(timer)); }
  void raise(unsigned vector) override { ops_.raise(opaque_, vector); }
  Sent send(const Frame& frame) override {
    const TernFrame f = tern::capi::to_c(frame);
    return static_cast<Sent>(ops_.send(opaque_, &f));
  }
  void receive_again() override { ops_.receive_again(opaque_); }
  tern::WireFrame next_frame() override {
    std::uint32_t len = 0;
    const void* const frame = ops_.next_frame(opaque_, &len);
    if (frame == nullptr) return {};
    return std::span(static_cast<const std::byte*>(frame), len);
  }
  bool wait_for_frames() override { return ops_.wait_for_frames(opaque_); }
  void worker_begins() override { ops_.worker_begins(opaque_); }
  void worker_ends() override { ops_.worker_ends(opaque_); }

 private:
  TernRunnerOps ops_;
  void* opaque_;
};

Config to_config(const TernRunnerConfig& c) {
  Config config;
  config.poll = c.poll;
  config.direct_send = c.direct_send;
  config.running = c.running;
  config.processors = c.processors;
  return config;
}

}  // namespace

struct TernRunner {
  TernRunner(TernEngine& e, const TernRunnerConfig& config, const TernRunnerOps& ops, void* opaque)
      : host(ops, opaque), runner(e.device, host, to_config(config)) {}

  CallbackHost host;
  Runner runner;
};

// Functions throw only if memory runs out or a lock fails. No caller handles that, so
// std::terminate() ends the process.
TernRunner* tern_runner_new(TernEngine* e, const TernRunnerConfig* config, const TernRunnerOps* ops,
                            void* opaque) {
  return new TernRunner(*e, *config, *ops, opaque);
}

void tern_runner_free(TernRunner* r) { delete r; }

bool tern_runner_start(TernRunner* r) {
  try {
    r->runner.start();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

bool tern_runner_log_events(TernRunner* r, const TernEventFile* f) {
  tern::runner::EventFile file;
  file.fd = f->fd;
  file.limit = f->limit;
  file.clock = f->clock;
  file.epoch = f->epoch;
  file.mac = std::to_array(f->mac);
  if (f->name != nullptr) file.name = f->name;
  try {
    r->runner.log_events(file);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void tern_runner_flush_events(TernRunner* r) { r->runner.flush_events(); }

void tern_runner_set_event_epoch(TernRunner* r, std::uint64_t epoch) {
  r->runner.set_event_epoch(epoch);
}

void tern_runner_stop(TernRunner* r) { r->runner.stop(); }

void tern_runner_doorbell(TernRunner* r, std::uint64_t offset, std::uint32_t value) {
  r->runner.doorbell(offset, value);
}

bool tern_runner_receive(TernRunner* r, const void* frame, std::size_t len) {
  return r->runner.receive({static_cast<const std::byte*>(frame), len});
}

void tern_runner_take_frames(TernRunner* r) { r->runner.take_frames(); }

void tern_runner_resumed(TernRunner* r) { r->runner.resumed(); }

void tern_runner_set_link(TernRunner* r, bool up) { r->runner.set_link(up); }

void tern_runner_set_speed(TernRunner* r, uint32_t mbps) { r->runner.set_speed(mbps); }

void tern_runner_set_running(TernRunner* r, bool running) { r->runner.set_running(running); }

void tern_runner_update_polling(TernRunner* r) { r->runner.update_polling(); }

void tern_runner_set_present(TernRunner* r, bool present) { r->runner.set_present(present); }

void tern_runner_deliver(TernRunner* r) { r->runner.deliver(); }

void tern_runner_expired(TernRunner* r, TernTimer timer) {
  r->runner.expired(static_cast<Host::Timer>(timer));
}

void tern_runner_lock(TernRunner* r) { r->runner.lock(); }

void tern_runner_unlock(TernRunner* r) { r->runner.unlock(); }

void tern_runner_run(TernRunner* r) { r->runner.run(); }

void tern_runner_unlock_and_deliver(TernRunner* r) { r->runner.unlock_and_deliver(); }

void tern_runner_unlock_without_delivering(TernRunner* r) { r->runner.unlock_without_delivering(); }

std::uint32_t tern_runner_reset(TernRunner* r) {
  r->runner.reset();
  return r->runner.generation();
}

void* tern_runner_save(TernRunner* r, size_t* len, char* error, size_t error_len) try {
  std::vector<std::byte> state;
  std::string why;
  void* const copy = r->runner.save(state, why) ? std::malloc(state.size()) : nullptr;
  if (copy == nullptr) {
    tern::capi::copy_text(why.empty() ? "there is no memory" : why, error, error_len);
    return nullptr;
  }
  std::memcpy(copy, state.data(), state.size());
  *len = state.size();
  return copy;
} catch (const std::exception& e) {
  tern::capi::copy_text(e.what(), error, error_len);
  return nullptr;
}

bool tern_runner_load(TernRunner* r, const void* state, size_t len, char* error,
                      size_t error_len) try {
  std::string why;
  const bool ok = r->runner.load({static_cast<const std::byte*>(state), len}, why);
  if (!ok) tern::capi::copy_text(why, error, error_len);
  return ok;
} catch (const std::exception& e) {
  tern::capi::copy_text(e.what(), error, error_len);
  return false;
}

void tern_runner_set_awake(TernRunner* r, bool awake) { r->runner.set_awake(awake); }

void tern_runner_set_host_only(TernRunner* r, bool host_only) {
  r->runner.set_host_only(host_only);
}
