// SPDX-License-Identifier: GPL-2.0-or-later
// Queues of a test's driver: event queues, completion queues, queue pairs, shared receive queues.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "testing/memory.h"
#include "testing/work_requests.h"

namespace tern::test {

class Driver;
class TestCq;
class TestSrq;

using Wc = tern_cqe;

// The send WQE of `wr` for a QP of `type` (TERN_QPT_*), without the rest of its slot.
[[nodiscard]] std::vector<std::byte> encode(std::uint8_t type, const SendWr& wr);

class TestEq {
 public:
  TestEq(Driver& driver, std::uint8_t kind, std::uint16_t vector, unsigned log_size);
  [[nodiscard]] std::uint32_t number() const { return eqn_; }
  [[nodiscard]] Status created() const { return status_; }
  // Consumes and returns the next event.
  std::optional<tern_eqe> take();
  // The same for a page fault queue.
  std::optional<tern_fault> take_fault();
  [[nodiscard]] std::vector<tern_eqe> take_all();
  // Consumes all events, also during another thread's commands. Returns their number.
  unsigned drain();
  [[nodiscard]] std::uint16_t vector() const { return vector_; }

 private:
  template <class T>
  std::optional<T> take_entry();

  Driver& driver_;
  QueueMemory memory_;
  TestRecord<tern_eq_record> record_;
  std::uint8_t kind_;
  std::uint16_t vector_;
  unsigned log_size_;
  std::uint32_t ci_ = 0;
  std::uint32_t eqn_ = 0;
  Status status_;
};

class TestCq {
 public:
  TestCq(Driver& driver, unsigned log_size, TestEq* eq, std::uint8_t flags = 0);
  [[nodiscard]] std::uint32_t number() const { return cqn_; }
  [[nodiscard]] Status created() const { return status_; }
  // Consumes and returns the next completion; nullopt if there is none.
  std::optional<Wc> poll();
  // The same, but the QP does not learn that its slot is free.
  std::optional<Wc> take();
  [[nodiscard]] std::vector<Wc> poll_all();
  // Waits for a completion; fails the test if none arrives.
  Wc wait();
  // Kicks only if it must. Returns whether it did.
  bool arm(bool solicited_only = false);
  // Call it when software has consumed the event of the last arm.
  void event_taken() { seq_ = (seq_ + 1) & 3; }
  // Overwrites ci in the doorbell record, for tests with a bad record.
  void store_ci(std::uint32_t ci);
  [[nodiscard]] QueueMemory& memory() { return memory_; }
  [[nodiscard]] std::uint64_t record() const { return record_.address(); }
  [[nodiscard]] std::uint32_t consumed() const { return ci_; }

 private:
  [[nodiscard]] std::uint64_t offset_of(std::uint32_t index) const;
  [[nodiscard]] bool written(std::uint32_t index) const;

  Driver& driver_;
  QueueMemory memory_;
  TestRecord<tern_cq_record> record_;
  unsigned log_size_;
  std::uint32_t ci_ = 0;
  std::uint32_t seq_ = 0;
  std::uint32_t cqn_ = 0;
  Status status_;
};

struct QpOptions {
  std::uint32_t pd = 0;       // 0: the driver's own
  TestSrq* srq = nullptr;     // null: the QP has an RQ
  std::uint32_t xrcd = 0;     // of an XRC target
  TestCq* send_cq = nullptr;  // null: the QP gets its own
  TestCq* recv_cq = nullptr;
  bool one_cq = false;  // its own CQ is for both
  std::uint8_t type = TERN_QPT_RC;
  std::uint8_t flags = 0;  // TERN_QP_F_*, besides those for the SRQ and XRC
  std::uint8_t log_sq_size = 6;
  std::uint8_t log_sq_stride = 8;
  std::uint8_t log_rq_size = 6;
  std::uint8_t log_rq_stride = 8;
  unsigned log_cq_size = 8;  // of its own CQs
  TestEq* eq = nullptr;      // of its own CQs
  // Attributes for connecting:
  unsigned log_mtu = 10;
  std::uint16_t gid_index = 0;  // 0: IPv6, 1: IPv4, 2: IPv4 on VLAN 77, 3: IPv6 on VLAN 77
  std::uint32_t access = kAllAccess;
  std::uint32_t sq_psn = 0xfffff0;  // wraps soon
  std::uint32_t rq_psn = 0xfffff0;
  std::uint8_t max_rd_atomic = 16;
  std::uint8_t max_dest_rd_atomic = 16;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t timeout = 14;
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t sl = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  std::uint8_t ece = 0;  // TERN_ECE_*
  std::uint8_t static_rate = 0;
  std::uint32_t qkey = 0x11111111;  // UD: Q_Key of this QP and of the peer
};

class TestQp {
 public:
  TestQp(Driver& driver, const QpOptions& options);
  [[nodiscard]] std::uint32_t number() const { return qpn_; }
  [[nodiscard]] Status created() const { return status_; }
  [[nodiscard]] const QpOptions& options() const { return options_; }
  [[nodiscard]] QpOptions& options() { return options_; }

  // MODIFY_QP with any attributes, and the usual transitions.
  [[nodiscard]] Status modify(const tern_qp_attr& attr, std::uint32_t mask, std::uint32_t flags = 0,
                              std::uint32_t cur_state = 0);
  [[nodiscard]] Status to_init();
  [[nodiscard]] Status to_rtr(const TestQp& peer);
  [[nodiscard]] Status to_rts();
  [[nodiscard]] Status to_state(std::uint8_t state, std::uint32_t flags = 0);
  [[nodiscard]] tern_rsp_query_qp query();
  // RESET to RTS, connected to `peer` (any QP for UD); expects success.
  void connect(const TestQp& peer);
  void connect() { connect(*this); }
  // After RESET, software starts from index 0.
  void forget_posted();

  // Writes and publishes a WQE; rings the doorbell unless `ring` is false.
  void post(const SendWr& wr, bool ring = true);
  // The same without publishing it.
  void put(const SendWr& wr);
  [[nodiscard]] bool polled() const { return (record_status() & TERN_QP_ST_SQ_POLLED) != 0; }
  void post_recv(const std::vector<tern_sge>& sges, std::uint64_t wr_id = 0);
  void ring(std::uint32_t command = TERN_DB_CMD_SQ);
  [[nodiscard]] std::uint32_t sq_free() const {
    return (1U << options_.log_sq_size) - (sq_pi_ - sq_done_);
  }
  [[nodiscard]] std::uint32_t rq_free() const {
    return (1U << options_.log_rq_size) - (rq_pi_ - rq_done_);
  }
  // Overwrite an index in the doorbell record.
  void store_sq_pi(std::uint32_t pi);
  void store_rq_pi(std::uint32_t pi);
  // Memory of the rings, for tests that write invalid WQEs.
  [[nodiscard]] QueueMemory& memory() { return memory_; }
  [[nodiscard]] std::uint64_t sq_slot(std::uint32_t index) const;
  [[nodiscard]] std::uint64_t rq_slot(std::uint32_t index) const;
  [[nodiscard]] std::uint32_t sq_posted() const { return sq_pi_; }
  [[nodiscard]] std::uint32_t record_status() const;
  [[nodiscard]] std::uint64_t record() const { return record_.address(); }

  [[nodiscard]] TestCq& send_cq() const { return *send_cq_; }
  [[nodiscard]] TestCq& recv_cq() const { return *recv_cq_; }
  Wc wait_send() { return send_cq_->wait(); }
  Wc wait_recv() { return recv_cq_->wait(); }
  [[nodiscard]] Driver& node() const { return driver_; }
  // The address vector according to the options, in the contract's byte order.
  [[nodiscard]] tern_av av_to(const TestQp& peer) const;

 private:
  friend class TestCq;
  void completed(const Wc& wc);
  Driver& driver_;
  QpOptions options_;
  TestCq* send_cq_;
  TestCq* recv_cq_;
  std::uint32_t rq_offset_;
  QueueMemory memory_;
  TestRecord<tern_qp_record> record_;
  std::uint32_t qpn_ = 0;
  std::uint32_t sq_pi_ = 0;
  std::uint32_t sq_done_ = 0;
  std::uint32_t rq_pi_ = 0;
  std::uint32_t rq_done_ = 0;
  Status status_;
};

struct SrqOptions {
  std::uint32_t pd = 0;  // 0: the driver's own
  std::uint8_t log_size = 4;
  std::uint8_t log_stride = 7;
  std::uint32_t xrcd = 0;  // not 0: an XRC SRQ
  TestCq* cq = nullptr;    // of an XRC SRQ or one with tags
  std::uint32_t tags = 0;  // not 0: tag matching
  std::uint8_t log_ops = 4;
};

// An operation on the tags of an SRQ.
struct TagOp {
  std::uint8_t opcode = TERN_TM_ADD;
  std::uint8_t flags = TERN_TM_F_SIGNALED;
  std::uint32_t handle = 0;
  std::uint64_t wr_id = 0;
  std::uint64_t recv_wr_id = 0;
  std::uint64_t tag = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  std::uint32_t unexpected = 0;
  std::vector<tern_sge> sges;
};

class TestSrq {
 public:
  TestSrq(Driver& driver, const SrqOptions& options);
  [[nodiscard]] std::uint32_t number() const { return srqn_; }
  [[nodiscard]] Status created() const { return status_; }

  void post(const std::vector<tern_sge>& sges, std::uint64_t wr_id = 0);
  // Free slots, and WQEs taken by the device according to the record.
  [[nodiscard]] std::uint32_t free() const { return (1U << options_.log_size) - (pi_ - taken()); }
  [[nodiscard]] std::uint32_t taken() const;
  [[nodiscard]] std::uint32_t posted() const { return pi_; }
  [[nodiscard]] Status set_limit(std::uint32_t limit);
  [[nodiscard]] tern_rsp_query_srq query() const;
  // prepare_resize() copies the WQEs to a buffer of the new size; until resize() executes
  // MODIFY_SRQ and switches to it, post() writes to both buffers.
  void prepare_resize(unsigned log_size);
  [[nodiscard]] Status resize();
  // Address of the new buffer's page list.
  [[nodiscard]] std::uint64_t next_pages() const { return le(next_->pages().addr); }
  // Writes and publishes an operation on the tags; rings the doorbell unless `ring` is false.
  void post_op(const TagOp& op, bool ring = true);
  [[nodiscard]] std::uint32_t ops_free() const {
    return (1U << options_.log_ops) - (ops_pi_ - ops_done());
  }
  [[nodiscard]] std::uint32_t ops_done() const;
  [[nodiscard]] std::uint32_t tags_released() const;
  // Overwrites pi or ops_pi in the doorbell record.
  void store_pi(std::uint32_t pi);
  void store_ops_pi(std::uint32_t pi);
  [[nodiscard]] QueueMemory& ops_memory() { return *ops_; }
  // For tests that write invalid WQEs or unmap memory.
  [[nodiscard]] QueueMemory& memory() { return memory_; }
  [[nodiscard]] std::uint64_t slot(std::uint32_t index) const;
  [[nodiscard]] std::uint64_t record() const { return record_.address(); }

 private:
  Driver& driver_;
  SrqOptions options_;
  QueueMemory memory_;
  TestRecord<tern_srq_record> record_;
  std::unique_ptr<QueueMemory> ops_;
  std::uint32_t ops_pi_ = 0;
  std::unique_ptr<QueueMemory> next_;  // while a resize is in progress
  std::uint8_t next_log_size_ = 0;
  std::uint32_t pi_ = 0;
  std::uint32_t srqn_ = 0;
  Status status_;
};

}  // namespace tern::test
