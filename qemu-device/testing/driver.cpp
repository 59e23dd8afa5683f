// SPDX-License-Identifier: GPL-2.0-or-later
#include "driver.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace tern::test {

namespace {

constexpr unsigned kLogAdmin = 4;
constexpr std::uint32_t kEvents = 64;

}  // namespace

bool wait_until(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// ---- the driver ----

std::uint64_t Driver::alloc(std::uint64_t bytes) {
  const std::uint64_t addr = next_;
  next_ += (bytes + 4095) / 4096 * 4096;
  if (next_ > memory().size()) std::abort();
  return addr;
}

void Driver::store(std::uint64_t addr, std::uint32_t value) {
  std::atomic_ref(*at<std::uint32_t>(addr)).store(value, std::memory_order_seq_cst);
}

std::uint32_t Driver::load(std::uint64_t addr) {
  return std::atomic_ref(*at<std::uint32_t>(addr)).load(std::memory_order_seq_cst);
}

void Driver::doorbell(std::uint32_t command, std::uint32_t number) {
  ring(field_prep(TERN_DB_CMD_MASK, command) | number);
}

void Driver::start_admin_queue() {
  aq_tail_ = 0;
  std::memset(at<std::byte>(acq_), 0, 4096);
  reg_write(TERN_REG_AQ_BASE_LO, static_cast<std::uint32_t>(aq_));
  reg_write(TERN_REG_AQ_BASE_HI, 0);
  reg_write(TERN_REG_ACQ_BASE_LO, static_cast<std::uint32_t>(acq_));
  reg_write(TERN_REG_ACQ_BASE_HI, 0);
  reg_write(TERN_REG_AQ_LOG_SIZE, kLogAdmin);
  reg_write(TERN_REG_CTRL, TERN_CTRL_ENABLE);
}

std::uint32_t Driver::command(std::uint16_t opcode, std::span<const std::byte> in, bool out) {
  constexpr std::uint32_t mask = (1U << kLogAdmin) - 1;
  std::memcpy(at<std::byte>(in_), in.data(), in.size());
  tern_aq_entry entry{};
  entry.opcode = opcode;
  entry.version = TERN_CMD_VERSION;
  entry.in_len = static_cast<std::uint16_t>(in.size());
  entry.out_len = out ? static_cast<std::uint16_t>(sizeof(tern_rsp_object)) : std::uint16_t{0};
  entry.in_addr = in_;
  entry.out_addr = out ? out_ : 0;
  *at<tern_aq_entry>(aq_ + (aq_tail_ & mask) * sizeof(entry)) = entry;
  const std::uint64_t slot = acq_ + (aq_tail_ & mask) * sizeof(tern_acq_entry);
  const std::uint32_t phase = (aq_tail_ >> kLogAdmin) & 1 ? 0 : 1;
  reg_write(TERN_REG_AQ_TAIL, ++aq_tail_);
  const auto done = [&] {
    waits();
    return (load(slot + offsetof(tern_acq_entry, phase)) & TERN_CQE_PHASE) == phase;
  };
  if (!wait_until(done)) {
    ADD_FAILURE() << "command " << opcode << " does not complete";
    return 0;
  }
  EXPECT_EQ(at<tern_acq_entry>(slot)->status, TERN_ST_OK) << "command " << opcode;
  return out ? at<tern_rsp_object>(out_)->id : 0;
}

std::array<std::uint8_t, 6> Driver::mac() const {
  return {0x52, 0x54, 0, 0x77, 0, static_cast<std::uint8_t>(id_)};
}

std::array<std::uint8_t, 16> Driver::gid() const {
  return {0xfd, 77,   0, 0,    0,    0,    0, 0,
          0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, static_cast<std::uint8_t>(id_)};
}

tern_pages Driver::pages(std::uint64_t addr, std::uint64_t bytes) const {
  tern_pages p{};
  p.addr = addr;
  p.num = static_cast<std::uint32_t>((bytes + 4095) / 4096);
  p.page_shift = 12;
  p.kind = TERN_PAGES_DIRECT;
  return p;
}

void Driver::bring_up() {
  aq_ = alloc(4096);
  acq_ = alloc(4096);
  in_ = alloc(4096);
  out_ = alloc(4096);
  start_admin_queue();
  tern_cmd_modify_port port{};
  port.mask = TERN_PORT_MTU | TERN_PORT_ENABLE;
  port.mtu = 4200;
  port.enable = 1;
  port.port = 1;
  run(TERN_CMD_MODIFY_PORT, port);
  tern_cmd_set_gid entry{};
  entry.valid = 1;
  entry.port = 1;
  entry.net_type = TERN_NET_IPV6;
  entry.vlan = TERN_VLAN_NONE;
  std::ranges::copy(mac(), entry.mac);
  std::ranges::copy(gid(), entry.gid);
  run(TERN_CMD_SET_GID, entry);
  pd = make(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{});
  tern_cmd_create_eq eq{};
  with_events([this] {
    eq_ = alloc(kEvents * sizeof(tern_eqe));
    eq_record_ = alloc(64);
    eq_ci_ = 0;
    std::memset(at<std::byte>(eq_), 0, kEvents * sizeof(tern_eqe));
    store(eq_record_, 0);
  });
  eq.pages = pages(eq_, kEvents * sizeof(tern_eqe));
  eq.record = eq_record_;
  eq.vector = kVector;
  eq.log_size = 6;  // kEvents
  eq.kind = TERN_EQ_COMPLETION;
  eqn = make(TERN_CMD_CREATE_EQ, eq);
}

// The EQ's consumer index is published after each event.
unsigned Driver::take_events() {
  for (unsigned taken = 0;; ++taken, store(eq_record_, ++eq_ci_)) {
    const std::uint64_t entry = eq_ + eq_ci_ % kEvents * sizeof(tern_eqe);
    const std::uint32_t phase = eq_ci_ / kEvents % 2 != 0 ? 0 : 1;
    if ((load(entry + offsetof(tern_eqe, phase)) & TERN_CQE_PHASE) != phase) return taken;
  }
}

void Driver::forget() { next_ = kFirst; }

// ---- a QP ----

Qp::Qp(Driver& driver)
    : driver_(driver),
      sq_(driver.alloc((64U << kLogSize) + 4096)),
      record_(driver.alloc(sizeof(tern_qp_record))),
      cq_(driver.alloc(sizeof(tern_cqe) << kLogSize)),
      cq_record_(driver.alloc(sizeof(tern_cq_record))),
      buffer_(driver.alloc(kBytes)) {
  for (const std::uint64_t addr : {record_, cq_, cq_record_})
    std::memset(driver.at<std::byte>(addr), 0, 4096);
  tern_cmd_create_cq cq{};
  cq.pages = driver.pages(cq_, sizeof(tern_cqe) << kLogSize);
  cq.record = cq_record_;
  cq.eqn = driver.eqn;
  cq.log_size = kLogSize;
  cqn_ = driver.make(TERN_CMD_CREATE_CQ, cq);
  tern_cmd_create_qp qp{};
  qp.pages = driver.pages(sq_, (64U << kLogSize) + 64);
  qp.record = record_;
  qp.rq_offset = 64U << kLogSize;
  qp.pdn = driver.pd;
  qp.send_cqn = qp.recv_cqn = cqn_;
  qp.type = TERN_QPT_RC;
  qp.log_sq_size = kLogSize;
  qp.log_sq_stride = qp.log_rq_stride = 6;
  qpn_ = driver.make(TERN_CMD_CREATE_QP, qp);
  tern_cmd_create_mr mr{};
  mr.pages = driver.pages(buffer_, kBytes);
  mr.iova = buffer_;
  mr.length = kBytes;
  mr.pdn = driver.pd;
  mr.access = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE;
  mr.kind = TERN_MR_MEMORY;
  key_ = driver.make(TERN_CMD_CREATE_MR, mr);
}

void Qp::connect(const Qp& peer, std::uint8_t timeout, std::uint8_t retries) {
  peer_ = &peer;
  tern_cmd_modify_qp to{};
  to.qpn = qpn_;
  to.attr.state = TERN_QPS_INIT;
  to.attr.access = TERN_ACCESS_REMOTE_WRITE;
  to.attr.port = 1;
  to.mask = TERN_QPA_STATE | TERN_QPA_PKEY_INDEX | TERN_QPA_PORT | TERN_QPA_ACCESS;
  driver_.run(TERN_CMD_MODIFY_QP, to);
  to.attr.state = TERN_QPS_RTR;
  std::ranges::copy(peer.driver_.gid(), to.attr.av.dgid);
  std::ranges::copy(peer.driver_.mac(), to.attr.av.dmac);
  to.attr.av.hop_limit = 64;
  to.attr.av.port = 1;
  to.attr.path_mtu = 12;
  to.attr.dest_qpn = peer.qpn_;
  to.attr.max_dest_rd_atomic = 1;
  to.attr.min_rnr_timer = 1;
  to.mask = TERN_QPA_STATE | TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN | TERN_QPA_RQ_PSN |
            TERN_QPA_MAX_DEST_RD_ATOMIC | TERN_QPA_MIN_RNR_TIMER;
  driver_.run(TERN_CMD_MODIFY_QP, to);
  to.attr.state = TERN_QPS_RTS;
  to.attr.timeout = timeout;
  to.attr.retry_cnt = retries;
  to.attr.rnr_retry = 7;
  to.attr.max_rd_atomic = 1;
  to.mask = TERN_QPA_STATE | TERN_QPA_SQ_PSN | TERN_QPA_TIMEOUT | TERN_QPA_RETRY_CNT |
            TERN_QPA_RNR_RETRY | TERN_QPA_MAX_RD_ATOMIC;
  driver_.run(TERN_CMD_MODIFY_QP, to);
}

void Qp::post(std::uint32_t bytes, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    const std::uint64_t slot = sq_ + (pi_ + i) % (1U << kLogSize) * 64;
    tern_sq_hdr header{};
    header.opcode = TERN_WR_RDMA_WRITE;
    header.flags = TERN_WQE_F_SIGNALED;
    header.num_sge = 1;
    header.wr_id = pi_ + i;
    *driver_.at<tern_sq_hdr>(slot) = header;
    *driver_.at<tern_rdma_seg>(slot + 32) = {peer_->buffer_, peer_->key_, 0};
    *driver_.at<tern_sge>(slot + 48) = {buffer_, bytes, key_};
  }
  pi_ += n;
  driver_.store(record_ + offsetof(tern_qp_record, sq_pi), pi_);
}

bool Qp::polled() {
  return (driver_.load(record_ + offsetof(tern_qp_record, status)) & TERN_QP_ST_SQ_POLLED) != 0;
}

bool Qp::ring() {
  if (polled()) return false;
  driver_.doorbell(TERN_DB_CMD_SQ, qpn_);
  return true;
}

std::uint64_t Qp::cqe_at(std::uint32_t index) const {
  return cq_ + index % (1U << kLogSize) * sizeof(tern_cqe);
}

bool Qp::written(std::uint32_t index) const {
  const std::uint32_t phase = (index >> kLogSize) & 1 ? 0 : 1;
  return (driver_.load(cqe_at(index) + offsetof(tern_cqe, phase)) & TERN_CQE_PHASE) == phase;
}

std::uint32_t Qp::poll() {
  for (;;) {
    if (!written(ci_)) return done_;
    const tern_cqe cqe = *driver_.at<tern_cqe>(cqe_at(ci_));
    EXPECT_EQ(cqe.wqe_index, done_);
    done_ = cqe.wqe_index + 1;
    failed_ += cqe.status != TERN_CQE_SUCCESS;
    driver_.store(cq_record_, ++ci_);
  }
}

bool Qp::arm() {
  driver_.store(cq_record_ + offsetof(tern_cq_record, arm),
                field_prep(TERN_CQ_ARM_CI_MASK, ci_) | TERN_CQ_ARM_VALID |
                    field_prep(TERN_CQ_ARM_SEQ_MASK, arm_sequence_++));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t reported = driver_.load(cq_record_ + offsetof(tern_cq_record, reported));
  if (!written(static_cast<std::int32_t>(reported - ci_) > 0 ? reported : ci_)) return false;
  driver_.doorbell(TERN_DB_CMD_CQ_ARM, cqn_);
  return true;
}

bool Qp::drain() {
  return wait_until([&] { return poll() == pi_; });
}

// ---- an Ethernet queue ----

EthernetQueue::EthernetQueue(Driver& driver)
    : driver_(driver),
      ring_(driver.alloc(4096)),
      record_(driver.alloc(sizeof(tern_eth_record))),
      frames_(driver.alloc(256 * 4096)) {
  tern_cmd_create_cq cq{};
  cq.pages = driver.pages(driver.alloc(256 * sizeof(tern_cqe)), 256 * sizeof(tern_cqe));
  cq.record = driver.alloc(sizeof(tern_cq_record));
  cq.eqn = TERN_NO_EQ;
  cq.log_size = 8;
  cq.flags = TERN_CQ_F_IGNORE_OVERRUN;
  tern_cmd_create_eth_queue tx{};
  tx.cqn = driver.make(TERN_CMD_CREATE_CQ, cq);
  tx.pages = driver.pages(ring_, 4096);
  tx.record = record_;
  tx.direction = TERN_ETH_QUEUE_TX;
  tx.log_size = 8;
  tx.port = 1;
  number_ = driver.make(TERN_CMD_CREATE_ETH_QUEUE, tx);
}

void EthernetQueue::send(unsigned frames, std::uint32_t len) {
  for (unsigned i = 0; i < frames; ++i, ++pi_) {
    const std::uint64_t data = frames_ + pi_ % 256 * 4096;
    std::memset(driver_.at<std::byte>(data), static_cast<int>(pi_ & 0xff), len);
    *driver_.at<std::byte>(data) = std::byte{0x52};  // unicast
    *driver_.at<tern_eth_txd>(ring_ + pi_ % 256 * sizeof(tern_eth_txd)) = {data, len,
                                                                           TERN_ETH_F_EOP, 0};
  }
  driver_.store(record_, pi_);
  driver_.doorbell(TERN_DB_CMD_ETH_TX, number_);
}

}  // namespace tern::test
