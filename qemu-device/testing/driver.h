// SPDX-License-Identifier: GPL-2.0-or-later
// A minimal driver of an adapter, and a QP that sends RDMA WRITEs: for tests of what is around the
// engine. They use the device through the contract alone.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>

#include "tern_hw.hpp"

namespace tern::test {

// Waits until done() is true. Returns false after 30 s.
bool wait_until(const std::function<bool()>& done);

// The driver of one adapter. A subclass connects it to the device.
class Driver {
 public:
  // `id` is the last byte of the adapter's addresses.
  explicit Driver(unsigned id) : id_(id) {}
  virtual ~Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // ---- the device ----

  // Memory of the host from DMA address 0 on.
  [[nodiscard]] virtual std::span<std::byte> memory() = 0;
  [[nodiscard]] virtual std::uint32_t reg_read(std::uint32_t offset) = 0;
  virtual void reg_write(std::uint32_t offset, std::uint32_t value) = 0;
  // Stores to the doorbell register of UAR page 0.
  virtual void ring(std::uint32_t value) = 0;
  // Called while the driver waits for an admin command.
  virtual void waits() {}
  // Calls change(), which must not run beside take_events().
  virtual void with_events(const std::function<void()>& change) { change(); }

  // ---- the driver ----

  // Makes the admin queue, the port's settings, a GID, a PD and a completion EQ.
  void bring_up();
  // After a reset: all objects are gone.
  void forget();
  [[nodiscard]] std::uint64_t alloc(std::uint64_t bytes);
  template <class T>
  T* at(std::uint64_t addr) {
    return reinterpret_cast<T*>(memory().data() + addr);
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
  // Consumes events, because an EQ that nobody reads fills up. Returns their number.
  unsigned take_events();

  std::uint32_t pd = 0;
  std::uint32_t eqn = 0;
  static constexpr std::uint16_t kVector = 1;

 private:
  std::uint32_t command(std::uint16_t opcode, std::span<const std::byte> in, bool out);
  void start_admin_queue();

  const unsigned id_;
  static constexpr std::uint64_t kFirst = 4096;
  std::uint64_t next_ = kFirst;
  std::uint64_t aq_ = 0, acq_ = 0, in_ = 0, out_ = 0;
  std::uint32_t aq_tail_ = 0;
  std::uint64_t eq_ = 0;
  std::uint64_t eq_record_ = 0;
  std::uint32_t eq_ci_ = 0;
};

// An RC QP without a receive queue, and its CQ. Sends RDMA WRITEs from its buffer to the peer's.
class Qp {
 public:
  static constexpr std::uint32_t kLogSize = 6;
  static constexpr std::uint32_t kBytes = 1 << 20;  // of the buffer

  explicit Qp(Driver& driver);
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
  // Arms the CQ. Returns whether that took a doorbell.
  bool arm();
  [[nodiscard]] std::span<std::byte> buffer() { return {driver_.at<std::byte>(buffer_), kBytes}; }
  [[nodiscard]] std::uint32_t number() const { return qpn_; }
  // Waits until all posted WQEs are complete.
  [[nodiscard]] bool drain();

 private:
  [[nodiscard]] std::uint64_t cqe_at(std::uint32_t index) const;
  [[nodiscard]] bool written(std::uint32_t index) const;

  Driver& driver_;
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
  explicit EthernetQueue(Driver& driver);
  // Sends frames of `len` bytes, each filled with the number of the frame, and rings one doorbell.
  void send(unsigned frames, std::uint32_t len);

 private:
  Driver& driver_;
  std::uint64_t ring_, record_, frames_;
  std::uint32_t number_;
  std::uint32_t pi_ = 0;
};

}  // namespace tern::test
