// SPDX-License-Identifier: GPL-2.0-or-later
// An engine, a runner and a host for them, with memory, a wire and a minimal driver.
//
// Without `threads` everything happens in the test's thread, which calls pump() for what the runner
// scheduled, and moves the clock. With `threads` the worker runs, and another thread is the host's
// main loop; a test takes the host lock with host().
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "control/device.h"
#include "runner.h"
#include "testing/machine.h"

namespace tern::runner {

using Bytes = std::vector<std::byte>;

using test::EthernetQueue;
using test::Qp;
using test::wait_until;

inline Config two_processors() {
  Config config;
  config.processors = 2;
  return config;
}

class Adapter;

// The engine's host: the adapter's memory and clock.
class EngineHost final : public tern::Host {
 public:
  explicit EngineHost(Adapter& adapter) : adapter_(adapter) {}
  std::span<std::byte> map(std::uint64_t addr, std::uint64_t len, bool write) override;
  void unmap(std::span<std::byte>, bool, std::uint64_t) override {}
  void ram_written(std::span<std::byte>) override {}
  void dm_written(std::span<std::byte>) override {}
  Nanos now() override;
  std::uint64_t random() override;

 private:
  Adapter& adapter_;
};

class Adapter final : public Host, public test::MachineDriver {
 public:
  struct Options {
    bool threads = false;
    unsigned id = 1;
    unsigned slowness = 1;  // divides the clock with threads, for sanitizers
    Config config = two_processors();
    std::optional<EventFile> events{};
  };
  explicit Adapter(const Options& options);
  ~Adapter() override;
  // Ends the threads. They must not outlive a connected peer.
  void shut_down();

  // ---- the host ----

  // In the host thread.
  template <class F>
  auto host(F&& f) {
    const std::lock_guard lock(big_);
    return f(*runner);
  }
  // Without threads: calls what was scheduled, and timers that have expired.
  void pump();
  // Without threads: moves the clock, then pump().
  void advance(std::uint64_t ns);
  [[nodiscard]] bool scheduled(Call call);
  [[nodiscard]] std::optional<std::uint64_t> armed(Timer timer);
  [[nodiscard]] unsigned raised(unsigned vector) const { return raised_.at(vector).load(); }
  [[nodiscard]] std::uint64_t events(Event event) const {
    return events_.at(static_cast<std::size_t>(event)).load();
  }

  // Called by trace(), in any thread.
  std::function<void(Event)> on_event;
  // The wire. Frames of an adapter without a peer are kept.
  std::atomic<bool> blocked = false;
  bool holds = false;                    // a blocked wire takes a frame and holds it
  std::function<void()> on_send;         // after a frame was taken
  std::function<void()> on_raise;        // after a vector was raised
  std::atomic<unsigned> lose_every = 0;  // one of so many frames to the peer; 0: none
  std::size_t inbox_size = 64;           // limit of frames that wait for this adapter
  [[nodiscard]] std::vector<Bytes> take_sent();
  void connect(Adapter& peer) { peer_ = &peer; }
  // A frame for next_frame(), without a notification.
  void put_in_inbox(Bytes frame);
  [[nodiscard]] std::size_t inbox();
  unsigned receive_agains = 0;

  // ---- the driver ----

  // MachineDriver::bring_up(), with the link up.
  void bring_up();
  std::span<std::byte> memory() override { return ram; }
  std::uint32_t reg_read(std::uint32_t offset) override;
  void reg_write(std::uint32_t offset, std::uint32_t value) override;
  void ring(std::uint32_t uar, std::uint32_t value) override;
  void let_run() override;
  void with_events(const std::function<void()>& change) override;

  Bytes ram = Bytes(16 << 20);
  EngineHost engine_host{*this};
  std::optional<Device> engine;
  std::optional<Runner> runner;

  // ---- what the runner calls ----

  std::uint64_t now() override;
  void schedule(Call call) override;
  void trace(Event event, std::uint64_t a, std::uint64_t b) override;
  void capture(const Frame& frame) override;
  void arm(Timer timer, std::uint64_t at) override;
  void disarm(Timer timer) override;
  void raise(unsigned vector) override;
  Sent send(const Frame& frame) override;
  void receive_again() override;
  WireFrame next_frame() override;
  bool wait_for_frames() override;
  void worker_begins() override { ++workers; }
  void worker_ends() override { --workers; }
  std::atomic<int> workers = 0;

 private:
  enum Task { kDeliver, kTakeFrames, kResumed, kTasks };
  void main_loop();
  bool call_next(std::unique_lock<std::mutex>& lock);
  void post(Task task);

  const Options options_;
  std::mutex big_;  // the host lock

  std::mutex mutex_;  // a leaf lock, for the members below
  std::condition_variable wake_;
  std::array<bool, kTasks> tasks_{};
  std::array<std::uint64_t, 2> timers_{UINT64_MAX, UINT64_MAX};
  bool ends_ = false;
  std::vector<Bytes> sent_;
  std::deque<Bytes> inbox_;
  bool waits_ = true;        // for frames from the peer
  bool wants_room_ = false;  // the peer waits for room in the inbox
  unsigned sent_to_peer_ = 0;

  Bytes frame_;  // returned by next_frame()
  Adapter* peer_ = nullptr;
  std::atomic<std::uint64_t> clock_ = 1'000'000;  // without threads
  std::array<std::atomic<unsigned>, TERN_MAX_VECTORS> raised_{};
  std::array<std::atomic<std::uint64_t>, 7> events_{};

  std::thread loop_;
};

}  // namespace tern::runner
