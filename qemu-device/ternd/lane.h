// SPDX-License-Identifier: GPL-2.0-or-later
// One lane of an adapter: the runner of one of the engine's data paths, the queue of the adapter's
// port for it, and the thread that serves both.
//
// The adapter's own thread serves lane 0, and with it the hypervisor. A thread sleeps only in
// sleep(): other threads wake it by request(). It uses the lane in turns. Commands in lane 0 hold
// the others: between hold() and resume() the adapter's thread has their turn.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <span>
#include <string>
#include <thread>

#include "adapter_config.h"
#include "clock.h"
#include "control/device.h"
#include "descriptor.h"
#include "guest_memory.h"
#include "runner.h"
#include "switch.h"

namespace tern::daemon {

class Lane;

class LaneOwner {
 public:
  virtual ~LaneOwner() = default;
  // In the thread of lane 0: a watched descriptor is readable, set_timer() is due, tasks were
  // requested.
  virtual void serve() = 0;
  virtual void timer_expired() = 0;
  virtual void run_tasks() = 0;
  virtual void capture(const runner::Host::Frame& frame) = 0;
  // In any lane's thread.
  virtual void memory_lost(Lane& lane) = 0;
  virtual void raise(Lane& lane, unsigned vector) = 0;
  // In any thread: the event log has ended, for errno `error`, or 0 at its limit.
  virtual void log_ended(int error) = 0;
};

class Lane final : public PortUser, public runner::Host {
 public:
  // `first`: the adapter's port; null for lane 0, which makes it. Throws std::system_error and
  // std::length_error.
  Lane(unsigned number, const AdapterConfig& config, Device& engine, const GuestMemory& memory,
       const AdapterClock& clock, LaneOwner& owner, Switch& fabric, Port* first);
  ~Lane() override = default;

  [[nodiscard]] Port& port() { return port_; }
  [[nodiscard]] runner::Runner& runner() { return *runner_; }

  // ---- any thread ----

  enum Request : unsigned {
    kDeliver = 1,
    kTakeFrames = 2,
    kRoom = 4,
    kTasks = 8,
    kStop = 16,
    kTurn = 32,  // nothing, but a thread that polls does not sleep
  };
  void request(unsigned calls);
  // PortUser
  void frames_wait() override;
  void room() override { request(kRoom); }
  void due_changed() override { request(kTakeFrames); }
  [[nodiscard]] std::uint8_t lane_of(std::span<const std::byte> frame) const override {
    return engine_.lane_of(frame);
  }

  // ---- the thread of lane 0, for another lane ----

  // Starts a thread with this name. Returns once it needs no other files.
  void start(const std::string& name);
  // Ends it, once kStop is requested: end_thread().
  [[nodiscard]] bool stop(const std::function<void()>& interrupt);
  void interrupt();
  void ring(std::uint64_t offset, std::uint32_t value);
  void hold();
  void resume();

  // ---- the lane's thread ----

  // Call it first.
  void begin(const std::string& name);
  // Serves the lane until kStop is requested.
  void loop();
  // Serves a readable descriptor.
  void watch(int fd);
  void unwatch(int fd);
  void set_timer(std::uint64_t at) { timer_at_ = at; }

  // In a turn: drops the frames that wait in the port's queue.
  void drop_frames();

 private:
  using Level = runner::Contention::Level;

  // runner::Host
  std::uint64_t now() override;
  void schedule(Call call) override;
  void trace(Event event, std::uint64_t a, std::uint64_t b) override;
  void capture(const Frame& frame) override;
  void arm(Timer timer, std::uint64_t at) override {
    deadlines_[static_cast<std::size_t>(timer)] = clock_.host_time(at);
  }
  void disarm(Timer timer) override { deadlines_[static_cast<std::size_t>(timer)] = UINT64_MAX; }
  void raise(unsigned vector) override { owner_.raise(*this, vector); }
  Sent send(const Frame& frame) override;
  void receive_again() override {}
  WireFrame next_frame() override;
  bool wait_for_frames() override;
  void worker_begins() override {}
  void worker_ends() override {}

  [[nodiscard]] bool home() const { return number_ == 0; }
  [[nodiscard]] std::unique_ptr<runner::Runner> make_runner(bool poll);
  void wake();
  bool ring_asleep(std::uint64_t offset, std::uint32_t value);
  bool turn();
  bool work();
  bool run_timers();
  void look();
  [[nodiscard]] std::uint64_t spin_until(Level contention) const;
  // Sleeps until woken, or until `until`.
  void sleep(std::uint64_t until);
  void finish_frame();

  const unsigned number_;
  Device& engine_;
  const GuestMemory& memory_;
  const AdapterClock& clock_;
  LaneOwner& owner_;
  Descriptor epoll_;
  Descriptor wake_;  // an eventfd
  std::unique_ptr<runner::Runner> runner_;
  Port& port_;

  std::atomic<unsigned> requests_ = 0;
  alignas(64) std::atomic<bool> sleeping_ =
      false;  // read for each frame that the switch puts into the queue

  alignas(64) std::atomic<bool> held_ = false;  // the thread begins no turn
  std::atomic<bool> waits_ = false;             // it waits for one
  std::mutex turn_;                             // held during a turn of another lane than lane 0

  // Used only by the thread, in its turn.
  std::array<std::uint64_t, 2> deadlines_{UINT64_MAX, UINT64_MAX};
  std::uint64_t retry_at_ = UINT64_MAX;   // a blocked frame is offered again
  std::uint64_t frame_due_ = UINT64_MAX;  // the port's next frame is held back until then
  std::uint64_t timer_at_ = UINT64_MAX;
  std::uint64_t turn_at_ = 0;    // when this turn began
  std::uint64_t active_at_ = 0;  // when there was work last
  std::uint64_t yielded_at_ = 0;
  std::uint64_t looked_at_ = 0;  // when the thread last polled its descriptors
  bool frame_taken_ = false;     // next_frame() returned the port's first frame
  bool polling_ = false;         // the engine has nothing to do but poll
  bool stop_ = false;

  std::binary_semaphore begun_{0};
  std::binary_semaphore ended_{0};
  std::thread thread_;
};

}  // namespace tern::daemon
