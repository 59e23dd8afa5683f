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

#include "runner.h"
#include "tern_hw.hpp"

namespace tern::runner {

using Bytes = std::vector<std::byte>;

// Waits until done() is true. Returns false after 30 s.
bool wait_until(const std::function<bool()>& done);

inline Config two_processors() {
  Config config;
  config.processors = 2;
  return config;
}

class Adapter final : public Host {
 public:
  struct Options {
    bool threads = false;
    unsigned id = 1;
    unsigned slowness = 1;  // divides the clock with threads, for sanitizers
    Config config = two_processors();
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
  [[nodiscard]] std::uint64_t events(Event event) const { return events_.at(static_cast<std::size_t>(event)).load(); }

  // Called by trace(), in any thread.
  std::function<void(Event)> on_event;
  // The wire. Frames of an adapter without a peer are kept.
  std::atomic<bool> blocked = false;
  bool holds = false;                  // a blocked wire takes a frame and holds it
  std::function<void()> on_send;       // after a frame was taken
  std::function<void()> on_raise;      // after a vector was raised
  std::atomic<unsigned> lose_every = 0;  // one of so many frames to the peer; 0: none
  std::size_t inbox_size = 64;         // limit of frames that wait for this adapter
  [[nodiscard]] std::vector<Bytes> take_sent();
  void connect(Adapter& peer) { peer_ = &peer; }
  // A frame for next_frame(), without a notification.
  void put_in_inbox(Bytes frame);
  [[nodiscard]] std::size_t inbox();
  unsigned receive_agains = 0;

  // ---- the driver ----

  void bring_up();
  // After a reset: all objects are gone.
  void forget();
  [[nodiscard]] std::uint64_t alloc(std::uint64_t bytes);
  template <class T>
  T* at(std::uint64_t addr) {
    return reinterpret_cast<T*>(ram.data() + addr);
  }
  void store(std::uint64_t addr, std::uint32_t value);
  [[nodiscard]] std::uint32_t load(std::uint64_t addr);
  void doorbell(std::uint32_t command, std::uint32_t number);
  template <class In>
  std::uint32_t make(std::uint16_t opcode, const In& in) {
    return command(opcode, std::as_bytes(std::span(&in, 1)), true);
  }
  template <class In>
  void run(std::uint16_t opcode, const In& in) {
    command(opcode, std::as_bytes(std::span(&in, 1)), false);
  }
  [[nodiscard]] tern_pages pages(std::uint64_t addr, std::uint64_t bytes) const;
  [[nodiscard]] std::array<std::uint8_t, 6> mac() const;
  [[nodiscard]] std::array<std::uint8_t, 16> gid() const;
  [[nodiscard]] std::uint32_t reg_read(std::uint32_t offset);
  void reg_write(std::uint32_t offset, std::uint32_t value);

  Bytes ram = Bytes(16 << 20);
  TernEngine* engine = nullptr;
  std::optional<Runner> runner;
  std::uint32_t pd = 0;
  std::uint32_t eqn = 0;
  static constexpr std::uint16_t kVector = 1;

  // ---- what the runner calls ----

  std::uint64_t now() override;
  void schedule(Call call) override;
  void trace(Event event, std::uint64_t a, std::uint64_t b) override;
  void capture(const TernFrame& frame) override;
  void arm(Timer timer, std::uint64_t at) override;
  void disarm(Timer timer) override;
  void raise(unsigned vector) override;
  Sent send(const TernFrame& frame) override;
  void receive_again() override;
  std::span<const std::byte> next_frame() override;
  bool wait_for_frames() override;
  void worker_begins() override { ++workers; }
  void worker_ends() override { --workers; }
  std::atomic<int> workers = 0;

 private:
  enum Task { kDeliver, kTakeFrames, kResumed, kTasks };
  std::uint32_t command(std::uint16_t opcode, std::span<const std::byte> in, bool out);
  void start_admin_queue();
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
  bool waits_ = true;         // for frames from the peer
  bool wants_room_ = false;   // the peer waits for room in the inbox
  unsigned sent_to_peer_ = 0;

  Bytes frame_;  // returned by next_frame()
  Adapter* peer_ = nullptr;
  std::atomic<std::uint64_t> clock_ = 1'000'000;  // without threads
  std::array<std::atomic<unsigned>, TERN_MAX_VECTORS> raised_{};
  std::array<std::atomic<std::uint64_t>, 6> events_{};

  std::uint64_t next_ = 4096;
  std::uint64_t aq_, acq_, in_, out_;
  std::uint32_t aq_tail_ = 0;
  std::thread loop_;

  // The completion EQ, host thread.
  void take_events();
  std::uint64_t eq_ = 0;
  std::uint64_t eq_record_ = 0;
  std::uint32_t eq_ci_ = 0;
};

// An RC QP without a receive queue, and its CQ. Sends RDMA WRITEs from its buffer to the peer's.
class Qp {
 public:
  static constexpr std::uint32_t kLogSize = 6;
  static constexpr std::uint32_t kBytes = 1 << 20;  // of the buffer

  explicit Qp(Adapter& adapter);
  // `timeout`: for the acknowledgement, 4.096 us * 2^timeout.
  void connect(const Qp& peer, std::uint8_t timeout = 14, std::uint8_t retries = 7);
  // Posts WRITEs without a doorbell.
  void post(std::uint32_t bytes, unsigned n = 1);
  // Rings the doorbell unless the queue is polled. Returns whether it rang.
  bool ring();
  [[nodiscard]] std::uint32_t free_slots() const { return (1U << kLogSize) - (pi_ - done_); }
  [[nodiscard]] bool polled();
  // Takes completions. Returns their number so far.
  std::uint32_t poll();
  [[nodiscard]] std::uint32_t posted() const { return pi_; }
  [[nodiscard]] std::uint32_t failed() const { return failed_; }
  void arm();
  [[nodiscard]] std::span<std::byte> buffer() { return {adapter_.at<std::byte>(buffer_), kBytes}; }
  [[nodiscard]] std::uint32_t number() const { return qpn_; }
  // Waits until all posted WQEs are complete.
  [[nodiscard]] bool drain();

 private:
  Adapter& adapter_;
  const Qp* peer_ = nullptr;
  std::uint64_t sq_, record_, cq_, cq_record_, buffer_;
  std::uint32_t cqn_, qpn_, key_;
  std::uint32_t pi_ = 0;
  std::uint32_t ci_ = 0;
  std::uint32_t done_ = 0;
  std::uint32_t failed_ = 0;
  std::uint32_t arm_sequence_ = 0;
};

// An Ethernet transmit queue.
class EthernetQueue {
 public:
  explicit EthernetQueue(Adapter& adapter);
  // Sends frames of `len` bytes, each filled with the number of the frame, and rings one doorbell.
  void send(unsigned frames, std::uint32_t len);

 private:
  Adapter& adapter_;
  std::uint64_t ring_, record_, frames_;
  std::uint32_t number_;
  std::uint32_t pi_ = 0;
};

}  // namespace tern::runner
