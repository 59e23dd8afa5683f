// SPDX-License-Identifier: GPL-2.0-or-later
#include "testing/queues.h"

#include <algorithm>

#include "testing/driver.h"
#include "testing/qp_attributes.h"

namespace tern::test {

// ---- buffers ----

QueueMemory::QueueMemory(Driver& driver, std::uint64_t bytes) {
  const std::uint64_t n = (bytes + kPage - 1) / kPage;
  pages_.num = le(static_cast<std::uint32_t>(n));
  pages_.page_shift = 12;
  if (!driver.scattered()) {
    const std::uint64_t addr = driver.alloc(n * kPage);
    for (std::uint64_t i = 0; i < n; ++i)
      page_.push_back({addr + i * kPage, driver.at(addr + i * kPage, kPage)});
    pages_.addr = le(addr);
    pages_.kind = TERN_PAGES_DIRECT;
    return;
  }
  const std::uint64_t list = driver.alloc(n * 8);
  // Scattered pages with gaps: no code may rely on adjacent pages.
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t addr = driver.alloc(kPage);
    page_.push_back({addr, driver.at(addr, kPage)});
    driver.put(list + i * 8, le(addr));
  }
  pages_.addr = le(list);
  pages_.kind = TERN_PAGES_LIST;
}

void QueueMemory::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t n = std::min<std::uint64_t>(bytes.size(), kPage - offset % kPage);
    std::memcpy(at(offset), bytes.data(), n);
    offset += n;
    bytes = bytes.subspan(n);
  }
}

void TestMr::fill(unsigned seed) const {
  std::uint32_t x = seed * 2654435761U + 1;
  for (std::byte& b : bytes()) {
    x = x * 1664525 + 1013904223;
    b = static_cast<std::byte>(x >> 24);
  }
}

// ---- event queues ----

TestEq::TestEq(Driver& driver, std::uint8_t kind, std::uint16_t vector, unsigned log_size)
    : driver_(driver),
      memory_(driver, (kind == TERN_EQ_FAULT ? sizeof(tern_fault) : sizeof(tern_eqe)) << log_size),
      record_(driver),
      kind_(kind),
      vector_(vector),
      log_size_(log_size) {
  tern_cmd_create_eq cmd{.pages = memory_.pages(),
                         .record = le(record_.address()),
                         .vector = le(vector),
                         .log_size = static_cast<std::uint8_t>(log_size),
                         .kind = kind};
  status_ = driver.try_make(TERN_CMD_CREATE_EQ, cmd, eqn_);
}

template <class T>
std::optional<T> TestEq::take_entry() {
  const std::uint64_t at = (ci_ & ((1U << log_size_) - 1)) * sizeof(T);
  const std::uint32_t want = (ci_ >> log_size_) & 1 ? 0 : 1;
  const std::uint32_t phase = load_word(memory_.at(at + offsetof(T, phase)));
  if ((phase & TERN_CQE_PHASE) != want) return std::nullopt;
  const auto entry = memory_.get<T>(at);
  record_.put(offsetof(tern_eq_record, ci), ++ci_);
  if (kind_ != TERN_EQ_COMPLETION) {
    driver_.doorbell(TERN_UAR_KERNEL, TERN_DB_CMD_EQ_CI, 0);
    driver_.let_run();
  }
  return entry;
}

std::optional<tern_eqe> TestEq::take() {
  const auto eqe = take_entry<tern_eqe>();
  if (eqe) driver_.check_generation(*eqe);
  return eqe;
}

std::optional<tern_fault> TestEq::take_fault() { return take_entry<tern_fault>(); }

unsigned TestEq::drain() {
  unsigned n = 0;
  while (take_entry<tern_eqe>()) ++n;
  return n;
}

std::vector<tern_eqe> TestEq::take_all() {
  std::vector<tern_eqe> all;
  while (const auto eqe = take()) all.push_back(*eqe);
  return all;
}

// ---- completion queues ----

TestCq::TestCq(Driver& driver, unsigned log_size, TestEq* eq, std::uint8_t flags)
    : driver_(driver),
      memory_(driver, sizeof(tern_cqe) << log_size),
      record_(driver),
      log_size_(log_size) {
  tern_cmd_create_cq cmd{.pages = memory_.pages(),
                         .record = le(record_.address()),
                         .eqn = le(eq ? eq->number() : TERN_NO_EQ),
                         .uar = le(driver.uar()),
                         .log_size = static_cast<std::uint8_t>(log_size),
                         .flags = flags};
  status_ = driver.try_make(TERN_CMD_CREATE_CQ, cmd, cqn_);
}

void TestCq::store_ci(std::uint32_t ci) { record_.put(offsetof(tern_cq_record, ci), ci); }

std::uint64_t TestCq::offset_of(std::uint32_t index) const {
  return (index & ((1U << log_size_) - 1)) * sizeof(tern_cqe);
}

bool TestCq::written(std::uint32_t index) const {
  const std::uint32_t want = (index >> log_size_) & 1 ? 0 : 1;
  const std::byte* const phase = memory_.at(offset_of(index) + offsetof(tern_cqe, phase));
  return (load_word(phase) & TERN_CQE_PHASE) == want;
}

std::optional<Wc> TestCq::take() {
  if (!written(ci_)) return std::nullopt;
  const auto cqe = memory_.get<tern_cqe>(offset_of(ci_));
  store_ci(++ci_);
  return cqe;
}

std::optional<Wc> TestCq::poll() {
  const auto cqe = take();
  if (!cqe) return std::nullopt;
  if (TestQp* const qp = driver_.find_qp(le(cqe->qpn))) qp->completed(*cqe);
  return cqe;
}

std::vector<Wc> TestCq::poll_all() {
  std::vector<Wc> all;
  while (const auto wc = poll()) all.push_back(*wc);
  return all;
}

Wc TestCq::wait() {
  std::optional<Wc> wc;
  driver_.wait([&] { return (wc = poll()).has_value(); });
  if (!wc) {
    ADD_FAILURE() << "no completion will come";
    Wc none{};
    none.status = 0xff;
    return none;
  }
  return *wc;
}

bool TestCq::arm(bool solicited_only) {
  const std::uint32_t word = field_prep(TERN_CQ_ARM_CI_MASK, ci_) |
                             (solicited_only ? TERN_CQ_ARM_SOLICITED : 0) | TERN_CQ_ARM_VALID |
                             field_prep(TERN_CQ_ARM_SEQ_MASK, seq_);
  record_.put(offsetof(tern_cq_record, arm), word);
  const std::uint32_t reported = record_.get(offsetof(tern_cq_record, reported));
  if (!written(static_cast<std::int32_t>(reported - ci_) > 0 ? reported : ci_)) return false;
  driver_.doorbell(driver_.uar(), TERN_DB_CMD_CQ_ARM, cqn_);
  return true;
}

// ---- queue pairs ----

TestQp::TestQp(Driver& driver, const QpOptions& options)
    : driver_(driver),
      options_(options),
      send_cq_(options.send_cq),
      recv_cq_(options.recv_cq),
      rq_offset_(1U << (options.log_sq_size + options.log_sq_stride)),
      memory_(driver, rq_offset_ + (1U << (options.log_rq_size + options.log_rq_stride))),
      record_(driver) {
  tern_cmd_create_qp cmd{};
  cmd.type = options.type;
  if (options.type == TERN_QPT_XRC_TGT) {
    cmd.flags = TERN_QP_F_NO_RQ | TERN_QP_F_NO_SQ;
    cmd.xrcdn = le(options.xrcd);
    status_ = driver.try_make(TERN_CMD_CREATE_QP, cmd, qpn_);
    return;
  }
  if (!send_cq_) send_cq_ = &driver.create_cq(options.log_cq_size, options.eq);
  cmd.flags = options.flags;
  if (options.type == TERN_QPT_XRC_INI) cmd.flags = TERN_QP_F_NO_RQ;
  if (options.type == TERN_QPT_XRC_INI || options.one_cq) recv_cq_ = send_cq_;
  if (!recv_cq_) recv_cq_ = &driver.create_cq(options.log_cq_size, options.eq);
  cmd.pages = memory_.pages();
  cmd.sq_offset = le(0U);
  cmd.rq_offset = le(rq_offset_);
  cmd.record = le(record_.address());
  cmd.pdn = le(options.pd ? options.pd : driver.pd());
  cmd.uar = le(driver.uar());
  cmd.send_cqn = le(send_cq_->number());
  cmd.recv_cqn = le(recv_cq_->number());
  if (options.srq) {
    cmd.flags = options.flags | TERN_QP_F_SRQ | TERN_QP_F_NO_RQ;
    cmd.srqn = le(options.srq->number());
  }
  cmd.log_sq_size = options.log_sq_size;
  cmd.log_sq_stride = options.log_sq_stride;
  cmd.log_rq_size = options.log_rq_size;
  cmd.log_rq_stride = options.log_rq_stride;
  status_ = driver.try_make(TERN_CMD_CREATE_QP, cmd, qpn_);
}

Status TestQp::modify(const tern_qp_attr& attr, std::uint32_t mask, std::uint32_t flags,
                      std::uint32_t cur_state) {
  tern_cmd_modify_qp cmd{.qpn = le(qpn_),
                         .mask = le(mask),
                         .cur_state = le(cur_state),
                         .flags = le(flags),
                         .attr = attr};
  return driver_.command(TERN_CMD_MODIFY_QP, cmd);
}

tern_av TestQp::av_to(const TestQp& peer) const {
  tern_av av{};
  const Gid dgid = peer.driver_.gid(options_.gid_index);
  std::ranges::copy(dgid, av.dgid);
  av.flow_label = le(options_.flow_label);
  av.sgid_index = le(options_.gid_index);
  std::ranges::copy(peer.driver_.mac(), av.dmac);
  av.hop_limit = options_.hop_limit;
  av.traffic_class = options_.traffic_class;
  av.sl = options_.sl;
  av.static_rate = options_.static_rate;
  av.port = 1;
  return av;
}

Status TestQp::to_init() {
  tern_qp_attr a{};
  a.state = TERN_QPS_INIT;
  a.access = le(options_.access);
  a.qkey = le(options_.qkey);
  a.port = 1;
  return modify(a, needed_attributes(options_.type, a.state));
}

Status TestQp::to_rtr(const TestQp& peer) {
  if (!is_connected(options_.type)) return to_state(TERN_QPS_RTR);
  tern_qp_attr a{};
  a.state = TERN_QPS_RTR;
  a.av = av_to(peer);
  a.path_mtu = static_cast<std::uint8_t>(options_.log_mtu);
  a.dest_qpn = le(peer.qpn_);
  a.rq_psn = le(options_.rq_psn);
  a.max_dest_rd_atomic = options_.max_dest_rd_atomic;
  a.min_rnr_timer = options_.min_rnr_timer;
  return modify(a, needed_attributes(options_.type, a.state),
                field_prep(TERN_QPM_ECE_MASK, options_.ece));
}

Status TestQp::to_rts() {
  tern_qp_attr a{};
  a.state = TERN_QPS_RTS;
  a.timeout = options_.timeout;
  a.retry_cnt = options_.retry_cnt;
  a.rnr_retry = options_.rnr_retry;
  a.sq_psn = le(options_.sq_psn);
  a.max_rd_atomic = options_.max_rd_atomic;
  return modify(a, needed_attributes(options_.type, a.state));
}

Status TestQp::to_state(std::uint8_t state, std::uint32_t flags) {
  tern_qp_attr a{};
  a.state = state;
  return modify(a, TERN_QPA_STATE, flags);
}

tern_rsp_query_qp TestQp::query() {
  return driver_.query<tern_rsp_query_qp>(TERN_CMD_QUERY_QP, tern_cmd_object{le(qpn_), 0});
}

void TestQp::connect(const TestQp& peer) {
  EXPECT_EQ(to_init(), TERN_ST_OK);
  EXPECT_EQ(to_rtr(peer), TERN_ST_OK);
  EXPECT_EQ(to_rts(), TERN_ST_OK);
}

void TestQp::forget_posted() {
  sq_pi_ = sq_done_ = rq_pi_ = rq_done_ = 0;
  store_sq_pi(0);
  store_rq_pi(0);
}

std::uint64_t TestQp::sq_slot(std::uint32_t index) const {
  return std::uint64_t{index & ((1U << options_.log_sq_size) - 1)} << options_.log_sq_stride;
}

std::uint64_t TestQp::rq_slot(std::uint32_t index) const {
  return rq_offset_ +
         (std::uint64_t{index & ((1U << options_.log_rq_size) - 1)} << options_.log_rq_stride);
}

void TestQp::store_sq_pi(std::uint32_t pi) { record_.put(offsetof(tern_qp_record, sq_pi), pi); }

void TestQp::store_rq_pi(std::uint32_t pi) { record_.put(offsetof(tern_qp_record, rq_pi), pi); }

std::uint32_t TestQp::record_status() const {
  return record_.get(offsetof(tern_qp_record, status));
}

namespace {

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

tern_sge wire_sge(const tern_sge& s) { return {le(s.addr), le(s.length), le(s.lkey)}; }

}  // namespace

std::vector<std::byte> encode(std::uint8_t type, const SendWr& wr) {
  std::vector<std::byte> slot;
  tern_sq_hdr hdr{.opcode = wr.opcode,
                  .flags = wr.flags,
                  .num_sge = static_cast<std::uint8_t>(wr.sges.size()),
                  .length = le(static_cast<std::uint32_t>(wr.inline_data.size())),
                  .wr_id = le(wr.wr_id),
                  .imm = wr.imm,
                  .inv_rkey = le(wr.inv_rkey),
                  .xrc_srqn = le(wr.xrc_srqn)};
  append(slot, hdr);
  switch (wr.opcode) {
    case TERN_WR_SEND:
    case TERN_WR_SEND_WITH_IMM:
      if (type == TERN_QPT_RAW) {
        append(slot, wr.eth);
        slot.insert(slot.end(), wr.headers.begin(), wr.headers.end());
        slot.resize((slot.size() + 15) / 16 * 16);
      }
      if (!sends_datagrams(type)) break;
      append(slot, tern_ud_seg{wr.ud.av, le(wr.ud.dqpn), le(wr.ud.qkey)});
      break;
    case TERN_WR_RDMA_WRITE:
    case TERN_WR_RDMA_WRITE_WITH_IMM:
    case TERN_WR_RDMA_READ:
    case TERN_WR_ATOMIC_WRITE:
      append(slot, tern_rdma_seg{le(wr.raddr), le(wr.rkey), 0});
      break;
    case TERN_WR_ATOMIC_CMP_AND_SWP:
    case TERN_WR_ATOMIC_FETCH_AND_ADD:
      append(slot, tern_atomic_seg{le(wr.raddr), le(wr.rkey), 0, le(wr.swap_add), le(wr.compare)});
      break;
    case TERN_WR_FLUSH:
      append(slot, tern_flush_seg{le(wr.raddr),
                                  le(wr.rkey),
                                  wr.flush.type,
                                  wr.flush.level,
                                  {},
                                  le(std::uint64_t{wr.flush.length}),
                                  0});
      break;
    case TERN_WR_REG_MR:
      append(slot, wr.reg);
      break;
    case TERN_WR_BIND_MW:
      append(slot, wr.bind);
      break;
    default:
      break;
  }
  for (const tern_sge& s : wr.sges) append(slot, wire_sge(s));
  slot.insert(slot.end(), wr.inline_data.begin(), wr.inline_data.end());
  return slot;
}

void TestQp::put(const SendWr& wr) {
  std::vector<std::byte> slot = encode(options_.type, wr);
  EXPECT_LE(slot.size(), std::size_t{1} << options_.log_sq_stride) << "WQE larger than its slot";
  slot.resize(std::size_t{1} << options_.log_sq_stride);
  memory_.write(sq_slot(sq_pi_++), slot);
}

void TestQp::post(const SendWr& wr, bool ring_now) {
  put(wr);
  store_sq_pi(sq_pi_);
  if (!ring_now) return;
  if (polled()) {
    driver_.posted_unrung();
  } else {
    ring();
  }
}

void TestQp::post_recv(const std::vector<tern_sge>& sges, std::uint64_t wr_id) {
  std::vector<std::byte> slot;
  tern_rq_hdr hdr{.num_sge = static_cast<std::uint8_t>(sges.size()), .wr_id = le(wr_id)};
  append(slot, hdr);
  for (const tern_sge& s : sges) append(slot, wire_sge(s));
  EXPECT_LE(slot.size(), std::size_t{1} << options_.log_rq_stride) << "WQE larger than its slot";
  memory_.write(rq_slot(rq_pi_), slot);
  store_rq_pi(++rq_pi_);
  if (record_status() & TERN_QP_ST_RQ_KICK) ring(TERN_DB_CMD_RQ);
}

void TestQp::ring(std::uint32_t db) { driver_.doorbell(driver_.uar(), db, qpn_); }

void TestQp::completed(const Wc& wc) {
  (wc.flags & TERN_CQE_F_RECV ? rq_done_ : sq_done_) = le(wc.wqe_index) + 1;
}

// ---- shared receive queues ----

namespace {

std::uint64_t srq_bytes(const SrqOptions& o, unsigned log_size) {
  return std::uint64_t{1} << (log_size + o.log_stride);
}

}  // namespace

TestSrq::TestSrq(Driver& driver, const SrqOptions& options)
    : driver_(driver),
      options_(options),
      memory_(driver, srq_bytes(options, options.log_size)),
      record_(driver) {
  tern_cmd_create_srq cmd{.pages = memory_.pages(),
                          .record = le(record_.address()),
                          .pdn = le(options.pd ? options.pd : driver.pd()),
                          .log_size = options.log_size,
                          .log_stride = options.log_stride};
  if (options.xrcd) {
    cmd.flags = TERN_SRQ_F_XRC;
    cmd.xrcdn = le(options.xrcd);
    cmd.cqn = le(options.cq->number());
  }
  if (options.tags != 0) {
    ops_ = std::make_unique<QueueMemory>(driver, sizeof(tern_tm_op) << options.log_ops);
    cmd.flags = TERN_SRQ_F_TM;
    cmd.cqn = le(options.cq->number());
    cmd.log_ops = options.log_ops;
    cmd.ops_pages = ops_->pages();
    cmd.uar = le(driver.uar());
    cmd.max_tags = le(options.tags);
  }
  status_ = driver.try_make(TERN_CMD_CREATE_SRQ, cmd, srqn_);
}

std::uint64_t TestSrq::slot(std::uint32_t index) const {
  return std::uint64_t{index & ((1U << options_.log_size) - 1)} << options_.log_stride;
}

std::uint32_t TestSrq::taken() const { return record_.get(offsetof(tern_srq_record, ci)); }

std::uint32_t TestSrq::ops_done() const { return record_.get(offsetof(tern_srq_record, ops_ci)); }

std::uint32_t TestSrq::tags_released() const {
  return record_.get(offsetof(tern_srq_record, tags_released));
}

void TestSrq::store_ops_pi(std::uint32_t pi) { record_.put(offsetof(tern_srq_record, ops_pi), pi); }

void TestSrq::post_op(const TagOp& op, bool ring) {
  EXPECT_GT(ops_free(), 0U) << "the ring is full";
  tern_tm_op entry{.opcode = op.opcode,
                   .flags = op.flags,
                   .num_sge = static_cast<std::uint8_t>(op.sges.size()),
                   .handle = le(op.handle),
                   .wr_id = le(op.wr_id),
                   .recv_wr_id = le(op.recv_wr_id),
                   .tag = le(op.tag),
                   .mask = le(op.mask),
                   .unexpected = le(op.unexpected)};
  for (std::size_t i = 0; i < op.sges.size(); ++i) entry.sge[i] = wire_sge(op.sges[i]);
  const std::uint32_t slot = ops_pi_ & ((1U << options_.log_ops) - 1);
  ops_->write(slot * sizeof(entry), std::as_bytes(std::span(&entry, 1)));
  store_ops_pi(++ops_pi_);
  if (ring) driver_.doorbell(driver_.uar(), TERN_DB_CMD_TM, srqn_);
}

void TestSrq::store_pi(std::uint32_t pi) { record_.put(offsetof(tern_srq_record, pi), pi); }

void TestSrq::post(const std::vector<tern_sge>& sges, std::uint64_t wr_id) {
  EXPECT_GT(free(), 0U) << "the SRQ is full";
  std::vector<std::byte> wqe;
  tern_rq_hdr hdr{.num_sge = static_cast<std::uint8_t>(sges.size()), .wr_id = le(wr_id)};
  append(wqe, hdr);
  for (const tern_sge& s : sges) append(wqe, wire_sge(s));
  EXPECT_LE(wqe.size(), std::size_t{1} << options_.log_stride) << "WQE larger than its slot";
  memory_.write(slot(pi_), wqe);
  if (next_)
    next_->write(std::uint64_t{pi_ & ((1U << next_log_size_) - 1)} << options_.log_stride, wqe);
  store_pi(++pi_);
}

Status TestSrq::set_limit(std::uint32_t limit) {
  tern_cmd_modify_srq cmd{
      .srqn = le(srqn_), .mask = le(std::uint32_t{TERN_SRQA_LIMIT}), .limit = le(limit)};
  return driver_.command(TERN_CMD_MODIFY_SRQ, cmd);
}

tern_rsp_query_srq TestSrq::query() const {
  const auto rsp =
      driver_.query<tern_rsp_query_srq>(TERN_CMD_QUERY_SRQ, tern_cmd_object{le(srqn_), 0});
  return {le(rsp.limit), le(rsp.ci)};
}

void TestSrq::prepare_resize(unsigned log_size) {
  next_log_size_ = static_cast<std::uint8_t>(log_size);
  next_ = std::make_unique<QueueMemory>(driver_, srq_bytes(options_, log_size));
  const std::size_t stride = std::size_t{1} << options_.log_stride;
  for (std::uint32_t i = taken(); i != pi_; ++i) {
    const std::byte* const wqe = memory_.at(slot(i));
    next_->write(std::uint64_t{i & ((1U << log_size) - 1)} << options_.log_stride,
                 std::span(wqe, stride));
  }
}

Status TestSrq::resize() {
  tern_cmd_modify_srq cmd{.pages = next_->pages(),
                          .srqn = le(srqn_),
                          .mask = le(std::uint32_t{TERN_SRQA_RESIZE}),
                          .log_size = next_log_size_};
  const Status st = driver_.command(TERN_CMD_MODIFY_SRQ, cmd);
  if (st == TERN_ST_OK) {
    memory_ = *next_;
    options_.log_size = next_log_size_;
  }
  next_.reset();
  return st;
}

}  // namespace tern::test
