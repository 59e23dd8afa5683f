// SPDX-License-Identifier: GPL-2.0-or-later
// Runs an engine: decides when, for how long and in which thread it runs, and delivers its effects.
//
// An input (a register write, a doorbell, a frame, a deadline) arrives in the host thread. That
// thread takes the engine lock and does up to a slice of work at once, so that a short message
// needs no other thread; the worker does the rest, slice by slice. The thread that runs the engine
// collects its effects. The host thread delivers them: after its input, or when schedule() made it
// call deliver(). Frames keep their order because they pass through one transmit queue, one thread
// at a time.
//
// Threads. The host serialises its calls: one thread at a time is the host thread (in QEMU the one
// that holds the big lock, in a daemon the adapter's own). A call may lead to Host functions that
// call the runner again, in the same thread. The worker is the runner's own thread and waits for no
// lock but the engine's.
//
// Locks. The host's lock is taken before the engine lock, never after it. The runner calls nothing
// that may take the host's lock while it holds the engine lock. A reset bumps a generation; it
// never waits for the worker.
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
// The state changes with the engine lock held. While the worker is Working or Polling, a doorbell
// only puts an entry into a ring: no lock, no system call. When a host thread waits for the lock,
// the worker unlocks it between two slices (yields) and spins for a moment before it sleeps.
//
// Handshake between doorbell() and a worker that goes idle: the former stores its entry and then
// reads the state, the latter stores the state and then reads the ring. All four accesses are
// sequentially consistent, so the worker sees the entry or doorbell() sees an idle worker.
//
// A device with several lanes has a runner for each. That of lane 0 is as described above; the
// others have no worker, and whoever stops their lane (tern::Host::stop_lanes()) is their host
// thread meanwhile.
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
#include "event_writer.h"
#include "host.h"
#include "tern_hw.hpp"
#include "transmit.h"

namespace tern {
class DataPath;
}

namespace tern::runner {

enum class WorkerState : std::uint8_t { kIdle, kWorking, kPolling, kStopping };

struct Limits {
  // Bytes of transport work after which the worker checks whether another thread wants the lock.
  std::uint32_t slice = 64 * 1024;
  // The same for the host thread. A message of 64 KiB and more completes before another thread
  // could have been woken for it.
  std::uint32_t inline_slice = 256 * 1024;
  // The same while the transmit backlog is at `tx_soft`, so that admin commands and
  // acknowledgements still make progress.
  std::uint32_t trickle = 4 * 1024;
  // Limits of the transmit backlog in bytes of frames. Above this an input sends no frames itself,
  // and one delivery sends no further batch;
  std::uint64_t tx_inline = std::uint64_t{128} * 1024;
  // at this the worker pauses;
  std::uint64_t tx_soft = std::uint64_t{1024} * 1024;
  // frames that would exceed this are lost.
  std::uint64_t tx_hard = std::uint64_t{16} * 1024 * 1024;
  // A wire that takes nothing for this many ns counts as unplugged.
  std::uint64_t tx_patience = 1'000'000'000;
  // Limits of one take_frames(), in bytes and in frames. Work caused by frames counts as bytes,
  // too.
  std::uint64_t rx_bytes = std::uint64_t{128} * 1024;
  unsigned rx_frames = 512;
};

struct Config {
  unsigned lane = 0;         // number of the engine's lane to run
  bool poll = true;          // the engine may poll busy send queues
  bool direct_send = false;  // Host::send() may be called with the engine lock, by any thread
  bool running = true;       // the machine runs
  unsigned processors = 1;   // that the threads of the host may use; polling needs more than one
  // Called in the worker's thread.
  std::function<std::unique_ptr<CpuClock>()> open_cpu_clock = open_thread_clock;
  Limits limits{};
};

class Runner {
 public:
  // The caller owns the engine, which must outlive the runner.
  Runner(Device& engine, Host& host, const Config& config);
  // Drops the effects that are left.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Starts the worker. Without it the host thread does all the work, as with set_host_only().
  void start();
  // Ends the worker and the event log. Inputs are allowed afterwards: they do no work, deliver
  // nothing and call no Host function. The caller may hold the host lock, and may be in a Host
  // function.
  void stop();

  // ---- the event log: for the host thread, before stop() ----

  // Before start(). Throws std::bad_alloc or std::system_error.
  void log_events(const EventFile& file);
  // EventWriter::flush() and set_epoch().
  void flush_events();
  void set_event_epoch(std::uint64_t epoch);

  // ---- inputs: the host thread ----

  void doorbell(std::uint64_t offset, std::uint32_t value);
  // For the runner of another lane: leaves the doorbell to the lane's thread, which has to call
  // deliver(). Returns false if too many wait already. Called by one thread at a time.
  [[nodiscard]] bool post_doorbell(std::uint64_t offset, std::uint32_t value) {
    return doorbells_.put({offset, value});
  }
  // Passes a frame to the engine. Returns false if the frame is not taken; Host::receive_again()
  // then asks for it again.
  bool receive(std::span<const std::byte> frame);
  // Takes frames from the wire (Host::next_frame()).
  void take_frames();
  // The wire has space again.
  void resumed();
  // The engine is notified once it may run.
  void set_link(bool up);
  // Device::set_speed().
  void set_speed(std::uint32_t mbps);
  void set_running(bool running);
  // Called after set_host_only(), once memory can be accessed again: the engine stores in guest
  // memory which queues are polled.
  void update_polling();
  // `present` is false after a surprise removal: frames for the function are lost.
  void set_present(bool present) { present_ = present; }
  // Device::save() with the interrupts that are not delivered yet, while the machine is stopped.
  // Frames that were not sent are lost for a device that is loaded, as on a wire. On an error
  // returns false, with the reason in `error`.
  [[nodiscard]] bool save(std::vector<std::byte>& to, std::string& error,
                          std::size_t most = SIZE_MAX);
  // Device::load(), before the machine runs. On an error returns false, with the reason in `error`.
  [[nodiscard]] bool load(std::span<const std::byte> state, std::string& error);
  // Called as requested by Host::schedule() and Host::arm().
  void deliver();
  // Without a worker, in place of a requested deliver(): returns true if deliver() would only poll
  // send queues, which this call has then done. The request remains.
  bool poll_only();
  void expired(Host::Timer timer);

  // ---- a host without a worker: its thread polls, and yields after each turn ----

  // Call it at the beginning of the thread.
  void begin_polling();
  // Call it before each turn, with the time of the device clock: returns the contention for the
  // thread's processor. The engine polls in any case. The thread should sleep between two polls
  // that find nothing.
  Contention::Level contention(std::uint64_t now);
  // Stops polling the send queues polled so far: the thread may sleep until they ring.
  void stop_polling();
  // The thread has slept.
  void slept() { contention_.skip(); }

  // ---- other calls to the engine: the host thread, between lock() and one of the unlocks ----

  // Takes the engine lock before the worker's next slice.
  void lock();
  // Unlocks after calls that caused neither work nor effects.
  void unlock();
  // Does up to a slice of the work that inputs caused, unless the worker already has work and will
  // do this as well.
  void run();
  // Unlocks. Delivers the effects or requests that by schedule().
  void unlock_and_deliver() { finish(false); }
  // The same for callers that must not deliver anything themselves.
  void unlock_without_delivering();
  // Unlocks after commands in another lane. Returns true if they made work for this one: deliver()
  // must follow.
  [[nodiscard]] bool unlock_after_commands();

  // With the lock: resets the engine, if this is the runner of lane 0, and drops all effects.
  void reset();
  // With the lock; unlock_without_delivering() must follow. An adapter that sleeps (D3hot) does no
  // work.
  void set_awake(bool awake);
  // Likewise. The engine then runs in the host thread only, because its memory accesses need the
  // host lock.
  void set_host_only(bool host_only) { host_only_ = host_only; }

  // ---- for traces and tests ----

  [[nodiscard]] WorkerState worker_state() const { return state_.load(std::memory_order_relaxed); }
  [[nodiscard]] TransmitState transmit_state() const { return transmit_.state(); }   // host thread
  [[nodiscard]] std::uint32_t generation() const { return transmit_.generation(); }  // host thread
  [[nodiscard]] std::uint64_t backlog() const { return backlog_; }  // with the lock

 private:
  static constexpr std::size_t kVectorWords = TERN_MAX_VECTORS / 64;
  using Vectors = std::array<std::uint64_t, kVectorWords>;

  // With or without the lock: only the host thread begins to stop.
  [[nodiscard]] bool stopping() const { return worker_state() == WorkerState::kStopping; }
  // With the lock.
  [[nodiscard]] bool may_run() const { return running_ && awake_ && !stopping(); }
  [[nodiscard]] bool worker_may_run() const {
    return work_ && may_run() && !host_runs() && backlog_ < limits_.tx_soft;
  }
  // The host thread runs the engine: there is no worker, or it may not run.
  [[nodiscard]] bool host_runs() const { return host_only_ || !started_; }
  [[nodiscard]] bool contended() const { return waiters_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool worker_busy() const;
  void acquire();
  bool take_doorbells();
  void free_batches(Batches& batches);
  bool collect();
  void drop_effects();
  std::size_t send_now(EffectsBatch& effects);
  void allow_polling();
  void follow_link();

  // Host thread, without the lock.
  void finish(bool scheduled);
  void deliver_effects(bool frames);
  void raise_vectors();

  // Any thread: requests the call from the host, unless the runner stops.
  void request(Host::Call call);

  // Worker, with the lock.
  void work_loop();
  void work_slice();
  void enter(WorkerState next);
  void yield(std::unique_lock<std::mutex>& lock);
  void idle(std::unique_lock<std::mutex>& lock);
  void poll();

  // The thread that polls.
  void pause_polling(const std::optional<Contention::Verdict>& verdict);
  std::optional<Contention::Verdict> judge();

  Device& engine_;
  DataPath& lane_;
  const bool home_;  // lane 0
  Host& host_;
  const Limits limits_;
  const bool poll_;
  const bool direct_send_;
  const std::function<std::unique_ptr<CpuClock>()> open_cpu_clock_;

  std::mutex mutex_;                   // the engine lock
  std::atomic<unsigned> waiters_ = 0;  // host threads that wait for it
  std::atomic<WorkerState> state_ = WorkerState::kIdle;
  DoorbellRing doorbells_;

  // The worker's number of polls.
  unsigned polls_ = 0;

  // The worker's, or the host thread's if there is none.
  Contention contention_;

  // With the lock.
  std::condition_variable wake_;  // the idle worker waits for it
  bool work_ = false;             // the engine has work to do now
  bool running_;                  // written in the host thread
  bool awake_ = true;             // written in the host thread
  bool host_only_ = false;
  bool link_ = false;
  std::uint32_t speed_ = 0;
  bool started_ = false;              // there is a worker
  bool may_poll_ = false;             // the engine may poll
  std::uint64_t armed_ = UINT64_MAX;  // when Timer::kEngine fires
  std::uint64_t backlog_ = 0;         // bytes of all batches that are not freed
  Vectors collected_vectors_{};
  Batches collected_;

  // The host thread's.
  Transmit transmit_;
  Vectors vectors_{};  // to be raised
  bool present_ = true;
  bool delivering_ = false;
  bool due_ = false;               // a deadline has passed, or may have
  bool refused_ = false;           // a frame was refused and will be offered again
  std::uint64_t judge_at_ = 0;     // without a worker
  std::uint64_t brief_until_ = 0;  // contention of this level or a higher one
  std::uint64_t long_until_ = 0;

  std::unique_ptr<EventWriter> events_;
  std::thread worker_;
};

}  // namespace tern::runner
