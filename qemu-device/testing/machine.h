// SPDX-License-Identifier: GPL-2.0-or-later
// The tests' driver of an adapter with flat memory, and a QP that sends RDMA WRITEs: for tests of
// what is around the engine.
#pragma once

#include <functional>
#include <span>

#include "testing/driver.h"
#include "testing/eth_queue.h"

namespace tern::test {

// The driver of one adapter. A subclass connects it to the device.
class MachineDriver : public Driver {
 public:
  using Driver::Driver;

  // Memory of the host from DMA address 0 on.
  [[nodiscard]] virtual std::span<std::byte> memory() = 0;
  // Calls change(), which must not run beside take_events().
  virtual void with_events(const std::function<void()>& change) { change(); }

  // Makes the admin queue, the port's settings, a GID, a PD and a completion EQ.
  void bring_up();
  // After a reset: all objects are gone.
  void forget();
  // Consumes events, because an EQ that nobody reads fills up. Returns their number.
  unsigned take_events() { return completion_ == nullptr ? 0 : completion_->drain(); }

  std::uint64_t alloc(std::uint64_t len, std::uint64_t align) final;
  std::byte* at(std::uint64_t addr, std::uint64_t /*len*/) final { return memory().data() + addr; }

 private:
  static constexpr std::uint64_t kFirst = 4096;
  std::uint64_t next_ = kFirst;
};

// An RC QP without a receive queue, and its CQ. Sends RDMA WRITEs from its source to the peer's
// target.
class Qp {
 public:
  static constexpr std::uint8_t kLogSize = 6;
  static constexpr std::uint32_t kBytes = 1 << 19;  // of each

  // `pd`: 0 for the driver's own.
  explicit Qp(Driver& driver, std::uint32_t pd = 0);
  // `timeout`: for the acknowledgement, 4.096 us * 2^timeout.
  void connect(const Qp& peer, std::uint8_t timeout = 14, std::uint8_t retries = 7);
  // Posts WRITEs without a doorbell.
  void post(std::uint32_t bytes, unsigned n = 1);
  // Rings the doorbell unless the queue is polled. Returns whether it rang.
  bool ring();
  [[nodiscard]] std::uint32_t free_slots() const { return (1U << kLogSize) - (posted() - done_); }
  [[nodiscard]] bool polled() const { return qp_.polled(); }
  // Takes completions. Returns their number so far.
  std::uint32_t poll();
  [[nodiscard]] std::uint32_t posted() const { return qp_.sq_posted(); }
  [[nodiscard]] std::uint32_t failed() const { return failed_; }
  // Arms the CQ. Returns whether that took a doorbell.
  bool arm();
  [[nodiscard]] std::span<std::byte> source() { return mr_.bytes().first(kBytes); }
  [[nodiscard]] std::span<std::byte> target() { return mr_.bytes().subspan(kBytes); }
  [[nodiscard]] std::uint32_t number() const { return qp_.number(); }
  // The last WQE that was posted.
  [[nodiscard]] std::byte* last_wqe() { return qp_.memory().at(qp_.sq_slot(posted() - 1)); }
  // Waits until all posted WQEs are complete.
  [[nodiscard]] bool drain() {
    return wait_until([&] { return poll() == posted(); });
  }

 private:
  TestQp& qp_;
  TestMr& mr_;
  const Qp* peer_ = nullptr;
  std::uint32_t done_ = 0;
  std::uint32_t failed_ = 0;
};

// An Ethernet transmit queue.
class EthernetQueue {
 public:
  explicit EthernetQueue(Driver& driver);
  // Sends frames of `len` bytes, each filled with the number of the frame, and rings one doorbell.
  void send(unsigned frames, std::uint32_t len);

 private:
  Driver& driver_;
  TestCq cq_;
  TestEthQueue queue_;
  std::uint64_t frames_;
};

}  // namespace tern::test
