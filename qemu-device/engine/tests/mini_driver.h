// SPDX-License-Identifier: GPL-2.0-or-later
// The tests' driver and provider. They use a device through the contract alone and never look
// inside the engine.
//
//   Sim sim;
//   TestNode a(sim), b(sim);
//   auto [qa, qb] = rc_pair(a, b);
//   TestMr& src = a.reg(4096);
//   TestMr& dst = b.reg(4096);
//   qa.post(write({src.sge()}, dst));
//   EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
#pragma once

#include <cstring>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "tests/sim.h"

namespace tern {

class TestNode;
class TestCq;
class TestSrq;

// ---- buffers ----

// DMA memory of a queue in scattered pages, with the page list for the device.
class QueueMemory {
 public:
  QueueMemory(FakeHost& host, std::uint64_t bytes);
  [[nodiscard]] tern_pages pages() const { return pages_; }
  template <class T>
  [[nodiscard]] T get(std::uint64_t offset) const {
    return host_->get<T>(address(offset));
  }
  template <class T>
  void put(std::uint64_t offset, const T& value) {
    host_->put(address(offset), value);
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t address(std::uint64_t offset) const {
    return page_[offset / FakeHost::kPage] + offset % FakeHost::kPage;
  }

 private:
  FakeHost* host_;
  std::vector<std::uint64_t> page_;
  tern_pages pages_{};
};

// A doorbell record, zeroed and aligned to its size. Records share pages.
template <class T>
class TestRecord {
 public:
  explicit TestRecord(FakeHost& host) : host_(&host), addr_(host.alloc(sizeof(T), sizeof(T))) {}
  [[nodiscard]] std::uint64_t address() const { return addr_; }
  [[nodiscard]] std::uint32_t get(std::size_t offset) const {
    return le(host_->get<std::uint32_t>(addr_ + offset));
  }
  void put(std::size_t offset, std::uint32_t value) { host_->put(addr_ + offset, le(value)); }

 private:
  FakeHost* host_;
  std::uint64_t addr_;
};

inline constexpr std::uint32_t kAllAccess = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                                            TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC |
                                            TERN_ACCESS_FLUSH_GLOBAL;

// A region over contiguous memory, or one that maps the same pages repeatedly.
struct TestMr {
  FakeHost* host = nullptr;
  std::uint32_t key = 0;
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  std::uint64_t dma = 0;     // DMA address of the first byte
  std::uint64_t backed = 0;  // bytes of memory in the region

  [[nodiscard]] tern_sge sge(std::uint64_t offset, std::uint32_t len) const {
    return {iova + offset, len, key};
  }
  [[nodiscard]] tern_sge sge() const { return sge(0, static_cast<std::uint32_t>(length)); }
  // The memory of the region. Of repeated pages, only the first pass.
  [[nodiscard]] std::span<std::byte> bytes() const { return {host->at(dma, backed), backed}; }
  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t offset, std::uint64_t len) const {
    return bytes().subspan(offset, len);
  }
  // Fills the memory with a pattern that depends on `seed`.
  void fill(unsigned seed) const;
  template <class T>
  [[nodiscard]] T get(std::uint64_t offset) const {
    return host->get<T>(dma + offset);
  }
  template <class T>
  void put(std::uint64_t offset, const T& value) const {
    host->put(dma + offset, value);
  }
};

struct RegOptions {
  std::uint32_t pd = 0;  // 0: the node's own
  std::uint32_t access = kAllAccess;
  std::uint64_t iova = 0;    // 0: the DMA address
  std::uint64_t offset = 0;  // of the first byte in the first page
  std::uint64_t alias = 0;   // if not 0, the region maps this many bytes of memory repeatedly
  unsigned page_shift = 12;
  std::uint8_t kind = TERN_PAGES_LIST;
};

// An allocation of device memory.
struct TestDm {
  std::uint32_t number = 0;
  std::uint64_t offset = 0;  // in BAR4
  std::uint64_t size = 0;
};

// ---- work ----

struct SendWr {
  std::uint8_t opcode = TERN_WR_SEND;
  std::vector<tern_sge> sges{};
  std::uint64_t wr_id = 0;
  std::uint8_t flags = TERN_WQE_F_SIGNALED;
  std::uint64_t raddr = 0;
  std::uint32_t rkey = 0;
  std::uint32_t imm = 0;  // as on the wire
  std::uint32_t xrc_srqn = 0;
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;
  tern_flush_seg flush{};                // FLUSH: type, level and length, in host byte order
  std::vector<std::byte> inline_data{};  // with TERN_WQE_F_INLINE
  std::uint32_t inv_rkey = 0;            // SEND_WITH_INV, LOCAL_INV
  tern_reg_seg reg{};                    // REG_MR; as in the WQE
  tern_bind_seg bind{};                  // BIND_MW; as in the WQE
  tern_ud_seg ud{};                      // UD QPs; in host byte order
  tern_eth_offload eth{};                // raw QPs; as in the WQE
  std::vector<std::byte> headers{};      // ... that segment

  SendWr&& id(std::uint64_t v) && { return wr_id = v, std::move(*this); }
  SendWr&& with(std::uint8_t more_flags) && { return flags |= more_flags, std::move(*this); }
  SendWr&& unsignaled() && { return flags &= ~TERN_WQE_F_SIGNALED & 0xff, std::move(*this); }
  SendWr&& to_srq(std::uint32_t srqn) && { return xrc_srqn = srqn, std::move(*this); }
  SendWr&& immediate(std::uint32_t v) &&;  // turns SEND and WRITE into their _WITH_IMM
};

// Common requests. `at`: offset in the remote region.
[[nodiscard]] SendWr send(std::vector<tern_sge> sges);
[[nodiscard]] SendWr send_inline(std::span<const std::byte> data);
[[nodiscard]] SendWr write(std::vector<tern_sge> sges, const TestMr& to, std::uint64_t at = 0);
[[nodiscard]] SendWr write_inline(std::span<const std::byte> data, const TestMr& to,
                                  std::uint64_t at = 0);
[[nodiscard]] SendWr read(std::vector<tern_sge> sges, const TestMr& from, std::uint64_t at = 0);
[[nodiscard]] SendWr fetch_add(const tern_sge& result, const TestMr& at_mr, std::uint64_t at,
                               std::uint64_t add);
[[nodiscard]] SendWr compare_swap(const tern_sge& result, const TestMr& at_mr, std::uint64_t at,
                                  std::uint64_t compare, std::uint64_t swap);
[[nodiscard]] SendWr flush(const TestMr& of, std::uint64_t at, std::uint64_t len,
                           std::uint8_t type = TERN_FLUSH_GLOBAL);
[[nodiscard]] SendWr flush_all(const TestMr& of, std::uint8_t type = TERN_FLUSH_GLOBAL);
// The value is inline data, or that in the SGE.
[[nodiscard]] SendWr atomic_write(std::uint64_t value, const TestMr& to, std::uint64_t at);
[[nodiscard]] SendWr atomic_write(const tern_sge& value, const TestMr& to, std::uint64_t at);

// A region of kind FAST and its memory: contiguous whole pages.
struct FastMr {
  TestMr mr;               // the key is that of the last reg_mr()
  std::uint64_t list = 0;  // DMA address of the page list
};
// Opens the whole region under the next variant, and stores the new key in fast.mr.
[[nodiscard]] SendWr reg_mr(FastMr& fast, std::uint32_t access = kAllAccess);
[[nodiscard]] SendWr local_inv(std::uint32_t key);
[[nodiscard]] SendWr send_inv(std::vector<tern_sge> sges, std::uint32_t key);
// A datagram from `from` to `to`, with the address vector and Q_Key from the options of `from`.
class TestQp;
[[nodiscard]] SendWr datagram(const TestQp& from, const TestQp& to, std::vector<tern_sge> sges);

using Wc = tern_cqe;

// ---- queues ----

class TestEq {
 public:
  TestEq(TestNode& node, std::uint8_t kind, std::uint16_t vector, unsigned log_size);
  [[nodiscard]] std::uint32_t number() const { return eqn_; }
  [[nodiscard]] Status created() const { return status_; }
  // Consumes and returns the next event.
  std::optional<tern_eqe> take();
  // The same for a page fault queue.
  std::optional<tern_fault> take_fault();
  [[nodiscard]] std::vector<tern_eqe> take_all();
  [[nodiscard]] std::uint16_t vector() const { return vector_; }

 private:
  template <class T>
  std::optional<T> take_entry();

  TestNode& node_;
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
  TestCq(TestNode& node, unsigned log_size, TestEq* eq, std::uint8_t flags = 0);
  [[nodiscard]] std::uint32_t number() const { return cqn_; }
  [[nodiscard]] Status created() const { return status_; }
  // Consumes and returns the next completion; nullopt if there is none.
  std::optional<Wc> poll();
  [[nodiscard]] std::vector<Wc> poll_all();
  // Runs the simulation until there is a completion; fails the test if none arrives.
  Wc wait();
  // Kicks only if it must.
  void arm(bool solicited_only = false);
  // Call it when software has consumed the event of the last arm.
  void event_taken() { seq_ = (seq_ + 1) & 3; }
  // Overwrites ci in the doorbell record, for tests with a bad record.
  void store_ci(std::uint32_t ci);
  [[nodiscard]] QueueMemory& memory() { return memory_; }
  [[nodiscard]] std::uint64_t record() const { return record_.address(); }
  [[nodiscard]] std::uint32_t consumed() const { return ci_; }

 private:
  [[nodiscard]] tern_cqe cqe_at(std::uint32_t index) const;
  [[nodiscard]] bool written(std::uint32_t index) const;

  TestNode& node_;
  QueueMemory memory_;
  TestRecord<tern_cq_record> record_;
  unsigned log_size_;
  std::uint32_t ci_ = 0;
  std::uint32_t seq_ = 0;
  std::uint32_t cqn_ = 0;
  Status status_;
};

struct QpOptions {
  std::uint32_t pd = 0;       // 0: the node's own
  TestSrq* srq = nullptr;     // null: the QP has an RQ
  std::uint32_t xrcd = 0;     // of an XRC target
  TestCq* send_cq = nullptr;  // null: the QP gets its own
  TestCq* recv_cq = nullptr;
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
  TestQp(TestNode& node, const QpOptions& options);
  [[nodiscard]] std::uint32_t number() const { return qpn_; }
  [[nodiscard]] Status created() const { return status_; }
  [[nodiscard]] const QpOptions& options() const { return options_; }

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
  void post_recv(std::vector<tern_sge> sges, std::uint64_t wr_id = 0);
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
  [[nodiscard]] TestNode& node() const { return node_; }
  // The address vector according to the options, in the contract's byte order.
  [[nodiscard]] tern_av av_to(const TestQp& peer) const;

 private:
  friend class TestCq;
  void completed(const Wc& wc);
  [[nodiscard]] bool raw() const { return options_.type == TERN_QPT_RAW; }
  [[nodiscard]] bool sends_datagrams() const {
    return options_.type == TERN_QPT_UD || options_.type == TERN_QPT_GSI;
  }

  TestNode& node_;
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
  std::uint32_t pd = 0;  // 0: the node's own
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
  std::vector<tern_sge> sges{};
};

class TestSrq {
 public:
  TestSrq(TestNode& node, const SrqOptions& options);
  [[nodiscard]] std::uint32_t number() const { return srqn_; }
  [[nodiscard]] Status created() const { return status_; }

  void post(std::vector<tern_sge> sges, std::uint64_t wr_id = 0);
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
  TestNode& node_;
  SrqOptions options_;
  QueueMemory memory_;
  TestRecord<tern_srq_record> record_;
  std::optional<QueueMemory> ops_;
  std::uint32_t ops_pi_ = 0;
  std::optional<QueueMemory> next_;  // while a resize is in progress
  std::uint8_t next_log_size_ = 0;
  std::uint32_t pi_ = 0;
  std::uint32_t srqn_ = 0;
  Status status_;
};

// ---- the node ----

struct NodeOptions {
  std::uint32_t mtu = 4200;
  std::uint32_t max_qp = 4096;
  std::uint32_t max_mr = 4096;
  std::uint32_t max_mw = 4096;
  std::uint16_t max_tags = Config{}.max_tags;
  std::uint64_t max_pages = kMaxPages;
  bool mw_type_2a = false;
  unsigned page_shift = 12;
  std::uint64_t dm_size = 1 << 20;
  bool capture = false;
  Nanos doorbell_cost = Config{}.doorbell_cost;
  std::uint32_t link_speed = Config{}.link_speed;
  CongestionParams congestion{};
  bool bring_up = true;  // false: only plugged in, no register written
};

class TestNode : public SimNode {
 public:
  static constexpr std::uint16_t kCompletionVector = 1;
  static constexpr std::uint16_t kVlan = 77;

  explicit TestNode(Sim& simulation, const NodeOptions& options = {});
  ~TestNode() override;

  // Sets up registers, admin queue, asynchronous EQ, port, GIDs, PD, UAR page, and completion EQ.
  void bring_up();
  void start_admin_queue();

  // Executes an admin command.
  template <class In>
  [[nodiscard]] Status command(std::uint16_t opcode, const In& in) {
    return command(opcode, std::as_bytes(std::span(&in, 1)), {});
  }
  template <class In, class Out>
  [[nodiscard]] Status command(std::uint16_t opcode, const In& in, Out* out) {
    return command(opcode, std::as_bytes(std::span(&in, 1)),
                   std::as_writable_bytes(std::span(out, 1)));
  }
  [[nodiscard]] Status command(std::uint16_t opcode, std::span<const std::byte> in,
                               std::span<std::byte> out, std::uint16_t version = TERN_CMD_VERSION);
  // A command on one object; expects success.
  void destroy(std::uint16_t opcode, std::uint32_t id);

  [[nodiscard]] std::uint32_t alloc_pd(bool privileged = false);
  [[nodiscard]] std::uint32_t alloc_uar();
  [[nodiscard]] std::uint32_t alloc_xrcd();
  TestEq& create_eq(unsigned log_size = 8, std::uint16_t vector = kCompletionVector);
  TestCq& create_cq(unsigned log_size = 8, TestEq* eq = nullptr, std::uint8_t flags = 0);
  TestQp& create_qp(const QpOptions& options = {});
  TestSrq& create_srq(const SrqOptions& options = {});
  // Expects success; the memory is zero.
  TestMr& reg(std::uint64_t len, const RegOptions& options = {});
  [[nodiscard]] Status try_reg(std::uint64_t len, const RegOptions& options, TestMr* mr);
  // A closed region with room for `pages` pages, in a privileged PD; expects success.
  [[nodiscard]] FastMr alloc_fast(std::uint32_t pages, std::uint32_t pd);
  // Device memory; expects success.
  [[nodiscard]] TestDm alloc_dm(std::uint64_t len, std::uint32_t log_align = 0);
  [[nodiscard]] Status try_alloc_dm(std::uint64_t len, std::uint32_t log_align, TestDm* dm);
  void free(const TestDm& dm) { destroy(TERN_CMD_FREE_DM, dm.number); }
  // A zero-based region on [offset, offset + len) of `dm`; expects success.
  TestMr& reg_dm(const TestDm& dm, std::uint64_t offset, std::uint64_t len,
                 std::uint32_t access = kAllAccess, std::uint32_t pd = 0);
  // REREG_MR: takes the attributes in `mask` from `options`; the new memory is a new piece of `len`
  // bytes.
  [[nodiscard]] Status rereg(TestMr& mr, std::uint32_t mask, const RegOptions& options = {},
                             std::uint64_t len = 0);
  void dereg(const TestMr& mr) { destroy(TERN_CMD_DESTROY_MR, mr.key); }
  void destroy(TestQp& qp);
  void destroy(TestCq& cq);
  void destroy(TestSrq& srq);

  std::uint64_t unrung = 0;  // requests posted without a doorbell because the device polled the SQ
  [[nodiscard]] std::uint64_t counter(unsigned index);
  [[nodiscard]] std::uint64_t eth_counter(unsigned index);
  [[nodiscard]] tern_rsp_objects objects();
  // Consumes and returns all asynchronous events.
  std::vector<tern_eqe> async_events() { return async_->take_all(); }

  // Expects that an event carries the generation of the object with its number.
  void check_generation(const tern_eqe& eqe) const;

  void doorbell(std::uint32_t uar, std::uint32_t command, std::uint32_t number);
  [[nodiscard]] std::uint32_t uar() const { return uar_; }
  [[nodiscard]] std::uint32_t pd() const { return pd_; }
  [[nodiscard]] TestEq& eq() { return *completion_; }
  [[nodiscard]] TestEq& async_eq() { return *async_; }
  [[nodiscard]] const Mac& mac() const { return mac_; }
  [[nodiscard]] Gid gid(std::uint16_t index) const;
  [[nodiscard]] TestQp* find_qp(std::uint32_t qpn);
  [[nodiscard]] const tern_rsp_caps& caps() const { return caps_; }
  [[nodiscard]] const NodeOptions& options() const { return options_; }

 private:
  TestNode(Sim& simulation, const NodeOptions& options, unsigned id);
  void add_gids();

  NodeOptions options_;
  unsigned id_;
  Mac mac_;
  tern_rsp_caps caps_{};
  std::uint64_t aq_ = 0;
  std::uint64_t acq_ = 0;
  std::uint64_t in_ = 0;
  std::uint64_t out_ = 0;
  std::uint32_t aq_tail_ = 0;
  std::uint32_t acq_ci_ = 0;
  std::uint32_t uar_ = 0;
  std::uint32_t pd_ = 0;
  std::uint32_t doorbells_ = 0;
  // By the command that created the object, and its number.
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::uint32_t> generations_;
  TestEq* async_ = nullptr;
  TestEq* completion_ = nullptr;
  std::deque<TestEq> eqs_;
  std::deque<TestCq> cqs_;
  std::deque<TestQp> qps_;
  std::deque<TestSrq> srqs_;
  std::deque<TestMr> mrs_;
};

// Two connected QPs, RC unless `options` say UC. a and b may be the same node. Both QPs get
// `options.pd` and the CQs of `options`, so set these only if a is b.
std::pair<TestQp&, TestQp&> rc_pair(TestNode& a, TestNode& b, const QpOptions& options = {});

// Compares two pieces of memory and reports the first difference.
::testing::AssertionResult same_bytes(std::span<const std::byte> got,
                                      std::span<const std::byte> want);

// The name of a completion status, for messages.
[[nodiscard]] const char* status_name(std::uint8_t status);

}  // namespace tern
