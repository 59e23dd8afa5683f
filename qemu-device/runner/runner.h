// SPDX-License-Identifier: GPL-2.0-or-later
// Runs an engine: when, for how long and in which thread, and delivers its effects.
//
// An input (a register write, a doorbell, a frame, a deadline) comes in the host thread. That thread takes the engine lock and does
// up to a slice of work there and then, so that a short message needs no other thread; the worker does the rest, slice by slice.
// Whoever runs the engine collects its effects. The host thread delivers them: after its input, or when schedule() made it call
// deliver(). Frames keep their order because they pass through one transmit queue, and one thread at a time.
//
// Threads. The host serialises its calls: one thread at a time is the host thread (in QEMU the one that holds the big lock, in a
// daemon the adapter's own). A call may lead to Host functions that call the runner again, in the same thread. The worker is the
// runner's own thread and waits for no lock but the engine's.
//
// Locks. The host's lock is taken before the engine lock, never after it. The runner calls nothing that may take the host's lock while
// it holds the engine lock. A reset bumps a generation; it never waits for the worker.
//
// The worker:
//
//   State     Event                                             Next
//   Idle      a doorbell or other input left work that the      Working
//             worker may do: the unlock wakes it
//   Working   a slice is over, there is more                    Polling
//   Polling   a polled send queue has work, a doorbell is       Working
//             pending, or a host thread waits for the lock
//   Working   no work, or none that the worker may do (machine  Idle
//             stopped, device asleep, host thread only, transmit
//             backlog), or a host thread waits for the lock and
//             will wake it
//   any       stop()                                            Stopping
//
// The state changes with the engine lock held. While the worker is Working or Polling, a doorbell only puts a note in a ring: no lock, no
// system call. When a host thread waits for the lock, the worker unlocks it between two slices (yields) and spins for a moment before
// it sleeps.
//
// Handshake between doorbell() and the worker that goes idle: one stores its note and then reads the state, the other stores the state
// and then reads the ring. All four are sequentially consistent, so the worker sees the note or doorbell() sees an idle worker.
//
// Sending: transmit.h. Contention for the processor that the worker polls on: contention.h.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "contention.h"
#include "doorbell_ring.h"
#include "host.h"
#include "tern_regs.h"
#include "transmit.h"

namespace tern::runner {

enum class WorkerState : std::uint8_t { kIdle, kWorking, kPolling, kStopping };

struct Limits {
  // Bytes of transport work between two looks at who else wants the lock.
  std::uint32_t slice = 64 * 1024;
  // The same for the host thread: a message of 64 KiB and more is done before another thread would have been woken for it.
  std::uint32_t inline_slice = 256 * 1024;
  // The same while the transmit backlog is at `tx_soft`: admin commands and answers still make progress.
  std::uint32_t trickle = 4 * 1024;
  // Bytes of frames in the transmit backlog: with more, an input sends none itself,
  std::uint64_t tx_inline = std::uint64_t{128} * 1024;
  // ... with so many the worker pauses,
  std::uint64_t tx_soft = std::uint64_t{1024} * 1024;
  // ... and frames that would make it more are lost.
  std::uint64_t tx_hard = std::uint64_t{16} * 1024 * 1024;
  // A wire that takes nothing for so many ns counts as unplugged.
  std::uint64_t tx_patience = 1'000'000'000;
  // A frame that the engine cannot take now is offered again after so many ns.
  std::uint64_t rx_retry = 250'000;
  // Bytes, and frames, that one take_frames() takes.
  std::uint64_t rx_bytes = std::uint64_t{128} * 1024;
  unsigned rx_frames = 512;
};

struct Config {
  bool poll = true;          // the engine may poll busy send queues
  bool direct_send = false;  // Host::send() may be called with the engine lock, by any thread
  bool running = true;       // the machine runs
  unsigned processors = std::thread::hardware_concurrency();  // polling needs more than one
  // Called in the worker's thread.
  std::function<std::unique_ptr<CpuClock>()> open_cpu_clock = open_schedstat;
  Limits limits{};
};

class Runner {
 public:
  // The engine stays the caller's and must outlive the runner.
  Runner(TernEngine* engine, Host& host, const Config& config);
  // Drops the effects that are left.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Starts the worker. Without it the host thread does all, as with set_host_only().
  void start();
  // Ends it. Inputs are allowed afterwards and do no work. The caller may hold the host lock.
  void stop();

  // ---- inputs: the host thread ----

  void doorbell(std::uint64_t offset, std::uint32_t value);
  // A frame. False: not taken; Host::receive_again() says when to offer it again.
  bool receive(std::span<const std::byte> frame);
  // What lies on the wire (Host::next_frame()).
  void take_frames();
  // The wire has room again.
  void resumed();
  void set_link(bool up);
  void set_running(bool running);
  // After set_host_only(), when memory can be accessed again: the engine reports in it which queues are polled.
  void update_polling();
  // False: the function was removed by surprise, and frames for it are lost.
  void set_present(bool present) { present_ = present; }
  // What Host::schedule() and arm() asked for.
  void deliver();
  void expired(Host::Timer timer);

  // ---- other calls to the engine: the host thread, between lock() and one of the unlocks ----

  // Takes the engine lock before the worker's next slice.
  void lock();
  // After what caused neither work nor effects.
  void unlock();
  // Does what the inputs so far ask for, within bounds.
  void run();
  // Unlocks, and delivers what the engine made or lets schedule() do it.
  void unlock_and_deliver() { finish(false); }
  // The same for callers in which nothing may be delivered.
  void unlock_without_delivering();

  // With the lock: forgets all effects and resets the engine.
  void reset();
  // With the lock, and unlock_without_delivering() after it. An adapter that sleeps (D3hot) does no work.
  void set_awake(bool awake);
  // The same. The engine runs in the host thread only: its memory accesses need the host lock.
  void set_host_only(bool host_only) { host_only_ = host_only; }

  // ---- for traces and tests ----

  [[nodiscard]] WorkerState worker_state() const { return state_.load(std::memory_order_relaxed); }
  [[nodiscard]] TransmitState transmit_state() const { return transmit_.state(); }  // host thread
  [[nodiscard]] std::uint32_t generation() const { return transmit_.generation(); }  // host thread
  [[nodiscard]] std::uint64_t backlog() const { return backlog_; }                   // with the lock

 private:
  static constexpr std::size_t kVectorWords = TERN_MAX_VECTORS / 64;
  using Vectors = std::array<std::uint64_t, kVectorWords>;

  // With the lock.
  [[nodiscard]] bool may_run() const { return running_ && awake_ && worker_state() != WorkerState::kStopping; }
  [[nodiscard]] bool worker_may_run() const {
    return work_ && may_run() && !host_runs() && backlog_ < limits_.tx_soft;
  }
  // There is no worker, or it may not run.
  [[nodiscard]] bool host_runs() const { return host_only_ || !started_; }
  [[nodiscard]] bool contended() const { return waiters_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool worker_busy() const;
  void acquire();
  bool take_doorbells();
  void free_batches(Batches& batches);
  bool collect();
  void drop_effects();
  std::size_t send_now(const TernEffects* effects, std::size_t frames);
  void allow_polling();

  // Host thread, without the lock.
  void finish(bool scheduled);
  void deliver_effects(bool frames);
  void raise_vectors();

  // Worker, with the lock.
  void work_loop();
  void work_slice();
  void enter(WorkerState next);
  void yield(std::unique_lock<std::mutex>& lock);
  void idle(std::unique_lock<std::mutex>& lock);
  void poll();
  void judge_contention();

  TernEngine* const engine_;
  Host& host_;
  const Limits limits_;
  const bool poll_;
  const bool direct_send_;
  const std::function<std::unique_ptr<CpuClock>()> open_cpu_clock_;

  std::mutex mutex_;                 // the engine lock
  std::atomic<unsigned> waiters_ = 0;  // host threads that wait for it
  std::atomic<WorkerState> state_ = WorkerState::kIdle;
  DoorbellRing doorbells_;

  // The worker's.
  Contention contention_;
  unsigned looks_ = 0;

  // With the lock.
  std::condition_variable wake_;  // the idle worker waits for it
  bool work_ = false;             // the engine has more to do at once
  bool running_;                  // written in the host thread
  bool awake_ = true;             // written in the host thread
  bool host_only_ = false;
  bool started_ = false;  // there is a worker
  bool may_poll_ = false;  // what the engine was told
  std::uint64_t armed_ = UINT64_MAX;  // when Timer::kEngine fires
  std::uint64_t backlog_ = 0;         // bytes of all batches that were not given back
  Vectors collected_vectors_{};
  Batches collected_;

  // The host thread's.
  Transmit transmit_;
  Vectors vectors_{};  // to be raised
  bool present_ = true;
  bool delivering_ = false;
  bool due_ = false;      // a deadline passed or may have
  bool refused_ = false;  // a frame waits to be offered again

  std::thread worker_;
};

}  // namespace tern::runner
