// SPDX-License-Identifier: GPL-2.0-or-later
#include "testing/machine.h"

#include <cstdlib>
#include <cstring>

namespace tern::test {

// ---- the driver ----

std::uint64_t MachineDriver::alloc(std::uint64_t len, std::uint64_t /*align*/) {
  const std::uint64_t addr = next_;
  next_ += (len + QueueMemory::kPage - 1) / QueueMemory::kPage * QueueMemory::kPage;
  if (next_ > memory().size()) std::abort();
  std::memset(at(addr, len), 0, next_ - addr);
  return addr;
}

void MachineDriver::bring_up() {
  start_admin_queue();
  enable_port(4200);
  set_gid(0);
  pd_ = alloc_pd();
  TestEq& eq = create_eq(6);
  with_events([&] { completion_ = &eq; });
}

void MachineDriver::forget() {
  next_ = kFirst;
  aq_ = 0;
}

// ---- a QP ----

Qp::Qp(Driver& driver, std::uint32_t pd)
    : qp_(driver.create_qp({.pd = pd,
                            .one_cq = true,
                            .log_sq_size = kLogSize,
                            .log_sq_stride = 6,
                            .log_rq_size = 0,
                            .log_rq_stride = 6,
                            .log_cq_size = kLogSize,
                            .log_mtu = 12,
                            .access = TERN_ACCESS_REMOTE_WRITE,
                            .sq_psn = 0,
                            .rq_psn = 0,
                            .max_rd_atomic = 1,
                            .max_dest_rd_atomic = 1})),
      mr_(driver.reg(2 * kBytes, {.pd = pd,
                                  .access = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE,
                                  .kind = TERN_PAGES_DIRECT})) {}

void Qp::connect(const Qp& peer, std::uint8_t timeout, std::uint8_t retries) {
  peer_ = &peer;
  qp_.options().timeout = timeout;
  qp_.options().retry_cnt = retries;
  qp_.connect(peer.qp_);
}

void Qp::post(std::uint32_t bytes, unsigned n) {
  for (unsigned i = 0; i < n; ++i)
    qp_.put(write({mr_.sge(0, bytes)}, peer_->mr_, kBytes).id(posted()));
  qp_.store_sq_pi(posted());
}

bool Qp::ring() {
  if (polled()) return false;
  qp_.ring();
  return true;
}

std::uint32_t Qp::poll() {
  while (const auto cqe = qp_.send_cq().take()) {
    EXPECT_EQ(cqe->wqe_index, done_);
    done_ = cqe->wqe_index + 1;
    failed_ += cqe->status != TERN_CQE_SUCCESS;
  }
  return done_;
}

bool Qp::arm() {
  const bool rang = qp_.send_cq().arm();
  qp_.send_cq().event_taken();
  return rang;
}

// ---- an Ethernet queue ----

namespace {

constexpr std::uint64_t kFrames = 256;
constexpr std::uint64_t kFrameBytes = 4096;

}  // namespace

EthernetQueue::EthernetQueue(Driver& driver)
    : driver_(driver),
      cq_(driver, 8, nullptr, TERN_CQ_F_IGNORE_OVERRUN),
      queue_(driver, TERN_ETH_QUEUE_TX, cq_, 8),
      frames_(driver.alloc(kFrames * kFrameBytes)) {}

void EthernetQueue::send(unsigned frames, std::uint32_t len) {
  for (unsigned i = 0; i < frames; ++i) {
    const std::uint32_t number = queue_.posted();
    const std::uint64_t data = frames_ + number % kFrames * kFrameBytes;
    std::memset(driver_.at(data, len), static_cast<int>(number & 0xff), len);
    *driver_.at(data, 1) = std::byte{0x52};  // unicast
    queue_.put(data, len, TERN_ETH_F_EOP);
  }
  queue_.publish();
  queue_.kick();
}

}  // namespace tern::test
