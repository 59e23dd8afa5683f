// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/mini_driver.h"

#include <algorithm>
#include <array>

namespace tern {

namespace {

constexpr unsigned kLogAdmin = 5;
constexpr std::uint64_t kPage = FakeHost::kPage;

std::uint64_t round_up(std::uint64_t v, std::uint64_t to) { return (v + to - 1) / to * to; }

Mac mac_of(unsigned id) {
  return {
      0x52, 0x54, 0x00, 0x77, static_cast<std::uint8_t>(id >> 8), static_cast<std::uint8_t>(id)};
}

Config config_of(const NodeOptions& options, unsigned id, bool captured) {
  Config c;
  c.max_qp = options.max_qp;
  c.link_speed = options.link_speed;
  c.congestion = options.congestion;
  c.max_mr = options.max_mr;
  c.max_mw = options.max_mw;
  c.max_tags = options.max_tags;
  c.max_pages = options.max_pages;
  c.mw_type_2a = options.mw_type_2a;
  c.doorbell_cost = options.doorbell_cost;
  c.max_mtu = 9000;
  c.mac = mac_of(id);
  c.capture = options.capture || captured;
  return c;
}

}  // namespace

// ---- buffers ----

QueueMemory::QueueMemory(FakeHost& host, std::uint64_t bytes) : host_(&host) {
  const std::uint64_t n = (bytes + kPage - 1) / kPage;
  const std::uint64_t list = host.alloc(n * 8);
  // Scattered pages with gaps: no code may rely on adjacent pages.
  for (std::uint64_t i = 0; i < n; ++i) {
    page_.push_back(host.alloc(kPage));
    host.put(list + i * 8, le(page_.back()));
  }
  pages_.addr = le(list);
  pages_.num = le(static_cast<std::uint32_t>(n));
  pages_.page_shift = 12;
  pages_.kind = TERN_PAGES_LIST;
}

void QueueMemory::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t n = std::min<std::uint64_t>(bytes.size(), kPage - offset % kPage);
    std::memcpy(host_->at(address(offset), n), bytes.data(), n);
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

TestEq::TestEq(TestNode& node, std::uint8_t kind, std::uint16_t vector, unsigned log_size)
    : node_(node),
      memory_(node.host, (kind == TERN_EQ_FAULT ? sizeof(tern_fault) : sizeof(tern_eqe))
                             << log_size),
      record_(node.host),
      kind_(kind),
      vector_(vector),
      log_size_(log_size) {
  tern_cmd_create_eq cmd{};
  cmd.pages = memory_.pages();
  cmd.record = le(record_.address());
  cmd.vector = le(vector);
  cmd.log_size = static_cast<std::uint8_t>(log_size);
  cmd.kind = kind;
  tern_rsp_object rsp{};
  status_ = node.command(TERN_CMD_CREATE_EQ, cmd, &rsp);
  eqn_ = le(rsp.id);
}

template <class T>
std::optional<T> TestEq::take_entry() {
  const auto entry = memory_.get<T>((ci_ & ((1U << log_size_) - 1)) * sizeof(T));
  const std::uint32_t want = (ci_ >> log_size_) & 1 ? 0 : 1;
  if ((le(entry.phase) & TERN_CQE_PHASE) != want) return std::nullopt;
  record_.put(offsetof(tern_eq_record, ci), ++ci_);
  if (kind_ != TERN_EQ_COMPLETION) {
    node_.doorbell(TERN_UAR_KERNEL, TERN_DB_CMD_EQ_CI, 0);
    node_.pump();
  }
  return entry;
}

std::optional<tern_eqe> TestEq::take() {
  const auto eqe = take_entry<tern_eqe>();
  if (eqe) node_.check_generation(*eqe);
  return eqe;
}

std::optional<tern_fault> TestEq::take_fault() { return take_entry<tern_fault>(); }

std::vector<tern_eqe> TestEq::take_all() {
  std::vector<tern_eqe> all;
  while (const auto eqe = take()) all.push_back(*eqe);
  return all;
}

// ---- completion queues ----

TestCq::TestCq(TestNode& node, unsigned log_size, TestEq* eq, std::uint8_t flags)
    : node_(node),
      memory_(node.host, sizeof(tern_cqe) << log_size),
      record_(node.host),
      log_size_(log_size) {
  tern_cmd_create_cq cmd{};
  cmd.pages = memory_.pages();
  cmd.record = le(record_.address());
  cmd.eqn = le(eq ? eq->number() : TERN_NO_EQ);
  cmd.uar = le(node.uar());
  cmd.log_size = static_cast<std::uint8_t>(log_size);
  cmd.flags = flags;
  tern_rsp_object rsp{};
  status_ = node.command(TERN_CMD_CREATE_CQ, cmd, &rsp);
  cqn_ = le(rsp.id);
}

void TestCq::store_ci(std::uint32_t ci) { record_.put(offsetof(tern_cq_record, ci), ci); }

tern_cqe TestCq::cqe_at(std::uint32_t index) const {
  return memory_.get<tern_cqe>((index & ((1U << log_size_) - 1)) * sizeof(tern_cqe));
}

bool TestCq::written(std::uint32_t index) const {
  const std::uint32_t want = (index >> log_size_) & 1 ? 0 : 1;
  return (le(cqe_at(index).phase) & TERN_CQE_PHASE) == want;
}

std::optional<Wc> TestCq::poll() {
  if (!written(ci_)) return std::nullopt;
  const tern_cqe cqe = cqe_at(ci_);
  store_ci(++ci_);
  if (TestQp* const qp = node_.find_qp(le(cqe.qpn))) qp->completed(cqe);
  return cqe;
}

std::vector<Wc> TestCq::poll_all() {
  std::vector<Wc> all;
  while (const auto wc = poll()) all.push_back(*wc);
  return all;
}

Wc TestCq::wait() {
  std::optional<Wc> wc;
  node_.sim.run_until([&] { return (wc = poll()).has_value(); });
  if (!wc) {
    ADD_FAILURE() << "no completion will come";
    Wc none{};
    none.status = 0xff;
    return none;
  }
  return *wc;
}

void TestCq::arm(bool solicited_only) {
  const std::uint32_t word = field_prep(TERN_CQ_ARM_CI_MASK, ci_) |
                             (solicited_only ? TERN_CQ_ARM_SOLICITED : 0) | TERN_CQ_ARM_VALID |
                             field_prep(TERN_CQ_ARM_SEQ_MASK, seq_);
  record_.put(offsetof(tern_cq_record, arm), word);
  const std::uint32_t reported = record_.get(offsetof(tern_cq_record, reported));
  if (written(static_cast<std::int32_t>(reported - ci_) > 0 ? reported : ci_)) {
    node_.doorbell(node_.uar(), TERN_DB_CMD_CQ_ARM, cqn_);
  }
}

// ---- queue pairs ----

TestQp::TestQp(TestNode& node, const QpOptions& options)
    : node_(node),
      options_(options),
      send_cq_(options.send_cq),
      recv_cq_(options.recv_cq),
      rq_offset_(1U << (options.log_sq_size + options.log_sq_stride)),
      memory_(node.host, rq_offset_ + (1U << (options.log_rq_size + options.log_rq_stride))),
      record_(node.host) {
  tern_cmd_create_qp cmd{};
  tern_rsp_object rsp{};
  cmd.type = options.type;
  if (options.type == TERN_QPT_XRC_TGT) {
    cmd.flags = TERN_QP_F_NO_RQ | TERN_QP_F_NO_SQ;
    cmd.xrcdn = le(options.xrcd);
    status_ = node.command(TERN_CMD_CREATE_QP, cmd, &rsp);
    qpn_ = le(rsp.id);
    return;
  }
  if (!send_cq_) send_cq_ = &node.create_cq(options.log_cq_size, options.eq);
  cmd.flags = options.flags;
  if (options.type == TERN_QPT_XRC_INI) {
    cmd.flags = TERN_QP_F_NO_RQ;
    recv_cq_ = send_cq_;
  }
  if (!recv_cq_) recv_cq_ = &node.create_cq(options.log_cq_size, options.eq);
  cmd.pages = memory_.pages();
  cmd.sq_offset = le(0U);
  cmd.rq_offset = le(rq_offset_);
  cmd.record = le(record_.address());
  cmd.pdn = le(options.pd ? options.pd : node.pd());
  cmd.uar = le(node.uar());
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
  status_ = node.command(TERN_CMD_CREATE_QP, cmd, &rsp);
  qpn_ = le(rsp.id);
}

Status TestQp::modify(const tern_qp_attr& attr, std::uint32_t mask, std::uint32_t flags,
                      std::uint32_t cur_state) {
  tern_cmd_modify_qp cmd{};
  cmd.qpn = le(qpn_);
  cmd.mask = le(mask);
  cmd.cur_state = le(cur_state);
  cmd.flags = le(flags);
  cmd.attr = attr;
  return node_.command(TERN_CMD_MODIFY_QP, cmd);
}

tern_av TestQp::av_to(const TestQp& peer) const {
  tern_av av{};
  const Gid dgid = peer.node_.gid(options_.gid_index);
  std::ranges::copy(dgid, av.dgid);
  av.flow_label = le(options_.flow_label);
  av.sgid_index = le(options_.gid_index);
  std::ranges::copy(peer.node_.mac(), av.dmac);
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
  if (raw()) return modify(a, TERN_QPA_STATE | TERN_QPA_PORT);
  return modify(a, TERN_QPA_STATE | TERN_QPA_PKEY_INDEX | TERN_QPA_PORT |
                       (sends_datagrams() ? TERN_QPA_QKEY : TERN_QPA_ACCESS));
}

Status TestQp::to_rtr(const TestQp& peer) {
  if (sends_datagrams() || raw()) return to_state(TERN_QPS_RTR);
  tern_qp_attr a{};
  a.state = TERN_QPS_RTR;
  a.av = av_to(peer);
  a.path_mtu = static_cast<std::uint8_t>(options_.log_mtu);
  a.dest_qpn = le(peer.qpn_);
  a.rq_psn = le(options_.rq_psn);
  a.max_dest_rd_atomic = options_.max_dest_rd_atomic;
  a.min_rnr_timer = options_.min_rnr_timer;
  std::uint32_t mask =
      TERN_QPA_STATE | TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN | TERN_QPA_RQ_PSN;
  if (options_.type != TERN_QPT_UC && options_.type != TERN_QPT_XRC_INI) {
    mask |= TERN_QPA_MAX_DEST_RD_ATOMIC | TERN_QPA_MIN_RNR_TIMER;
  }
  return modify(a, mask, field_prep(TERN_QPM_ECE_MASK, options_.ece));
}

Status TestQp::to_rts() {
  if (raw()) return to_state(TERN_QPS_RTS);
  tern_qp_attr a{};
  a.state = TERN_QPS_RTS;
  a.timeout = options_.timeout;
  a.retry_cnt = options_.retry_cnt;
  a.rnr_retry = options_.rnr_retry;
  a.sq_psn = le(options_.sq_psn);
  a.max_rd_atomic = options_.max_rd_atomic;
  std::uint32_t mask = TERN_QPA_STATE | TERN_QPA_SQ_PSN;
  if (!sends_datagrams() && options_.type != TERN_QPT_UC) {
    mask |= TERN_QPA_TIMEOUT;
    if (options_.type != TERN_QPT_XRC_TGT) {
      mask |= TERN_QPA_RETRY_CNT | TERN_QPA_RNR_RETRY | TERN_QPA_MAX_RD_ATOMIC;
    }
  }
  return modify(a, mask);
}

Status TestQp::to_state(std::uint8_t state, std::uint32_t flags) {
  tern_qp_attr a{};
  a.state = state;
  return modify(a, TERN_QPA_STATE, flags);
}

tern_rsp_query_qp TestQp::query() {
  tern_rsp_query_qp rsp{};
  EXPECT_EQ(node_.command(TERN_CMD_QUERY_QP, tern_cmd_object{le(qpn_), 0}, &rsp), TERN_ST_OK);
  return rsp;
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

void TestQp::post(const SendWr& wr, bool ring_now) {
  std::vector<std::byte> slot;
  tern_sq_hdr hdr{};
  hdr.opcode = wr.opcode;
  hdr.flags = wr.flags;
  hdr.num_sge = static_cast<std::uint8_t>(wr.sges.size());
  hdr.length = le(static_cast<std::uint32_t>(wr.inline_data.size()));
  hdr.wr_id = le(wr.wr_id);
  hdr.imm = wr.imm;
  hdr.inv_rkey = le(wr.inv_rkey);
  hdr.xrc_srqn = le(wr.xrc_srqn);
  append(slot, hdr);
  switch (wr.opcode) {
    case TERN_WR_SEND:
    case TERN_WR_SEND_WITH_IMM:
      if (raw()) {
        append(slot, wr.eth);
        slot.insert(slot.end(), wr.headers.begin(), wr.headers.end());
        slot.resize((slot.size() + 15) / 16 * 16);
      }
      if (!sends_datagrams()) break;
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
  EXPECT_LE(slot.size(), std::size_t{1} << options_.log_sq_stride) << "WQE larger than its slot";
  slot.resize(std::size_t{1} << options_.log_sq_stride);
  memory_.write(sq_slot(sq_pi_), slot);
  store_sq_pi(++sq_pi_);
  if (!ring_now) return;
  if (record_status() & TERN_QP_ST_SQ_POLLED) {
    ++node_.unrung;
    node_.wake();  // the device is always running
  } else {
    ring();
  }
}

void TestQp::post_recv(std::vector<tern_sge> sges, std::uint64_t wr_id) {
  std::vector<std::byte> slot;
  tern_rq_hdr hdr{};
  hdr.num_sge = static_cast<std::uint8_t>(sges.size());
  hdr.wr_id = le(wr_id);
  append(slot, hdr);
  for (const tern_sge& s : sges) append(slot, wire_sge(s));
  EXPECT_LE(slot.size(), std::size_t{1} << options_.log_rq_stride) << "WQE larger than its slot";
  memory_.write(rq_slot(rq_pi_), slot);
  store_rq_pi(++rq_pi_);
  if (record_status() & TERN_QP_ST_RQ_KICK) ring(TERN_DB_CMD_RQ);
}

void TestQp::ring(std::uint32_t db) { node_.doorbell(node_.uar(), db, qpn_); }

void TestQp::completed(const Wc& wc) {
  (wc.flags & TERN_CQE_F_RECV ? rq_done_ : sq_done_) = le(wc.wqe_index) + 1;
}

// ---- shared receive queues ----

namespace {

std::uint64_t srq_bytes(const SrqOptions& o, unsigned log_size) {
  return std::uint64_t{1} << (log_size + o.log_stride);
}

}  // namespace

TestSrq::TestSrq(TestNode& node, const SrqOptions& options)
    : node_(node),
      options_(options),
      memory_(node.host, srq_bytes(options, options.log_size)),
      record_(node.host) {
  tern_cmd_create_srq cmd{};
  cmd.pages = memory_.pages();
  cmd.record = le(record_.address());
  cmd.pdn = le(options.pd ? options.pd : node.pd());
  cmd.log_size = options.log_size;
  cmd.log_stride = options.log_stride;
  if (options.xrcd) {
    cmd.flags = TERN_SRQ_F_XRC;
    cmd.xrcdn = le(options.xrcd);
    cmd.cqn = le(options.cq->number());
  }
  if (options.tags != 0) {
    ops_.emplace(node.host, sizeof(tern_tm_op) << options.log_ops);
    cmd.flags = TERN_SRQ_F_TM;
    cmd.cqn = le(options.cq->number());
    cmd.log_ops = options.log_ops;
    cmd.ops_pages = ops_->pages();
    cmd.uar = le(node.uar());
    cmd.max_tags = le(options.tags);
  }
  tern_rsp_object rsp{};
  status_ = node.command(TERN_CMD_CREATE_SRQ, cmd, &rsp);
  srqn_ = le(rsp.id);
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
  tern_tm_op entry{};
  entry.opcode = op.opcode;
  entry.flags = op.flags;
  entry.num_sge = static_cast<std::uint8_t>(op.sges.size());
  entry.handle = le(op.handle);
  entry.wr_id = le(op.wr_id);
  entry.recv_wr_id = le(op.recv_wr_id);
  entry.tag = le(op.tag);
  entry.mask = le(op.mask);
  entry.unexpected = le(op.unexpected);
  for (std::size_t i = 0; i < op.sges.size(); ++i) entry.sge[i] = wire_sge(op.sges[i]);
  const std::uint32_t slot = ops_pi_ & ((1U << options_.log_ops) - 1);
  ops_->write(slot * sizeof(entry), std::as_bytes(std::span(&entry, 1)));
  store_ops_pi(++ops_pi_);
  if (ring) node_.doorbell(node_.uar(), TERN_DB_CMD_TM, srqn_);
}

void TestSrq::store_pi(std::uint32_t pi) { record_.put(offsetof(tern_srq_record, pi), pi); }

void TestSrq::post(std::vector<tern_sge> sges, std::uint64_t wr_id) {
  EXPECT_GT(free(), 0U) << "the SRQ is full";
  std::vector<std::byte> wqe;
  tern_rq_hdr hdr{};
  hdr.num_sge = static_cast<std::uint8_t>(sges.size());
  hdr.wr_id = le(wr_id);
  append(wqe, hdr);
  for (const tern_sge& s : sges) append(wqe, wire_sge(s));
  EXPECT_LE(wqe.size(), std::size_t{1} << options_.log_stride) << "WQE larger than its slot";
  memory_.write(slot(pi_), wqe);
  if (next_)
    next_->write(std::uint64_t{pi_ & ((1U << next_log_size_) - 1)} << options_.log_stride, wqe);
  store_pi(++pi_);
}

Status TestSrq::set_limit(std::uint32_t limit) {
  tern_cmd_modify_srq cmd{};
  cmd.srqn = le(srqn_);
  cmd.mask = le(std::uint32_t{TERN_SRQA_LIMIT});
  cmd.limit = le(limit);
  return node_.command(TERN_CMD_MODIFY_SRQ, cmd);
}

tern_rsp_query_srq TestSrq::query() const {
  tern_rsp_query_srq rsp{};
  EXPECT_EQ(node_.command(TERN_CMD_QUERY_SRQ, tern_cmd_object{le(srqn_), 0}, &rsp), TERN_ST_OK);
  return {le(rsp.limit), le(rsp.ci)};
}

void TestSrq::prepare_resize(unsigned log_size) {
  next_log_size_ = static_cast<std::uint8_t>(log_size);
  next_.emplace(node_.host, srq_bytes(options_, log_size));
  const std::size_t stride = std::size_t{1} << options_.log_stride;
  for (std::uint32_t i = taken(); i != pi_; ++i) {
    const std::byte* const wqe = node_.host.at(memory_.address(slot(i)), stride);
    next_->write(std::uint64_t{i & ((1U << log_size) - 1)} << options_.log_stride,
                 std::span(wqe, stride));
  }
}

Status TestSrq::resize() {
  tern_cmd_modify_srq cmd{};
  cmd.pages = next_->pages();
  cmd.srqn = le(srqn_);
  cmd.mask = le(std::uint32_t{TERN_SRQA_RESIZE});
  cmd.log_size = next_log_size_;
  const Status st = node_.command(TERN_CMD_MODIFY_SRQ, cmd);
  if (st == TERN_ST_OK) {
    memory_ = *next_;
    options_.log_size = next_log_size_;
  }
  next_.reset();
  return st;
}

// ---- the node ----

TestNode::TestNode(Sim& simulation, const NodeOptions& options)
    : TestNode(simulation, options, simulation.new_node_id()) {}

TestNode::TestNode(Sim& simulation, const NodeOptions& options, unsigned id)
    : SimNode(simulation, config_of(options, id, simulation.captures()), 0x7e12 + id,
              options.dm_size),
      options_(options),
      id_(id),
      mac_(mac_of(id)) {
  if (options.bring_up) bring_up();
}

TestNode::~TestNode() = default;

void TestNode::start_admin_queue() {
  constexpr std::uint32_t entries = 1U << kLogAdmin;
  if (!aq_) {
    aq_ = host.alloc(entries * sizeof(tern_aq_entry));
    acq_ = host.alloc(entries * sizeof(tern_acq_entry));
    in_ = host.alloc(TERN_CMD_MAX_LEN);
    out_ = host.alloc(TERN_CMD_MAX_LEN);
  }
  std::memset(host.at(acq_), 0, entries * sizeof(tern_acq_entry));
  aq_tail_ = acq_ci_ = 0;
  EXPECT_EQ(device.reg_read(TERN_REG_MAGIC), TERN_MAGIC);
  EXPECT_EQ(device.reg_read(TERN_REG_STATUS), TERN_STATUS_READY);
  device.reg_write(TERN_REG_PAGE_SHIFT, options_.page_shift);
  device.reg_write(TERN_REG_AQ_BASE_LO, static_cast<std::uint32_t>(aq_));
  device.reg_write(TERN_REG_AQ_BASE_HI, static_cast<std::uint32_t>(aq_ >> 32));
  device.reg_write(TERN_REG_ACQ_BASE_LO, static_cast<std::uint32_t>(acq_));
  device.reg_write(TERN_REG_ACQ_BASE_HI, static_cast<std::uint32_t>(acq_ >> 32));
  device.reg_write(TERN_REG_AQ_LOG_SIZE, kLogAdmin);
  device.reg_write(TERN_REG_CTRL, TERN_CTRL_ENABLE);
  EXPECT_EQ(device.reg_read(TERN_REG_STATUS), TERN_STATUS_READY | TERN_STATUS_ENABLED);
}

void TestNode::bring_up() {
  device.set_link(true);
  start_admin_queue();
  EXPECT_EQ(command(TERN_CMD_QUERY_CAPS, {}, std::as_writable_bytes(std::span(&caps_, 1))),
            TERN_ST_OK);
  async_ = &eqs_.emplace_back(*this, std::uint8_t{TERN_EQ_ASYNC}, std::uint16_t{0}, 6U);
  EXPECT_EQ(async_->created(), TERN_ST_OK);
  tern_cmd_modify_port port{};
  port.mask = le(std::uint32_t{TERN_PORT_MTU | TERN_PORT_ENABLE});
  port.mtu = le(options_.mtu);
  port.enable = 1;
  port.port = 1;
  EXPECT_EQ(command(TERN_CMD_MODIFY_PORT, port), TERN_ST_OK);
  add_gids();
  uar_ = alloc_uar();
  pd_ = alloc_pd();
  completion_ = &create_eq();
  (void)async_->take_all();
}

Gid TestNode::gid(std::uint16_t index) const {
  const auto last = static_cast<std::uint8_t>(id_);
  const auto net = static_cast<std::uint8_t>(index >= 2 ? 78 : 77);
  if (index == 1 || index == 2) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, net, 0, last};
  }
  return {0xfd, net, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, last};
}

void TestNode::add_gids() {
  for (std::uint16_t i = 0; i < 4; ++i) {
    tern_cmd_set_gid cmd{};
    cmd.index = le(i);
    cmd.valid = 1;
    cmd.port = 1;
    cmd.net_type = i == 1 || i == 2 ? TERN_NET_IPV4 : TERN_NET_IPV6;
    cmd.vlan = le(i >= 2 ? kVlan : std::uint16_t{TERN_VLAN_NONE});
    std::ranges::copy(mac_, cmd.mac);
    std::ranges::copy(gid(i), cmd.gid);
    EXPECT_EQ(command(TERN_CMD_SET_GID, cmd), TERN_ST_OK);
  }
}

Status TestNode::command(std::uint16_t opcode, std::span<const std::byte> in,
                         std::span<std::byte> out, std::uint16_t version) {
  constexpr std::uint32_t mask = (1U << kLogAdmin) - 1;
  if (!in.empty()) std::memcpy(host.at(in_), in.data(), in.size());
  if (!out.empty()) std::memset(host.at(out_), 0, out.size());
  tern_aq_entry entry{};
  entry.opcode = le(opcode);
  entry.version = le(version);
  entry.tag = le(0x5a000000U + aq_tail_);
  entry.in_len = le(static_cast<std::uint16_t>(in.size()));
  entry.out_len = le(static_cast<std::uint16_t>(out.size()));
  entry.in_addr = le(in.empty() ? 0 : in_);
  entry.out_addr = le(out.empty() ? 0 : out_);
  host.put(aq_ + (aq_tail_ & mask) * sizeof(entry), entry);
  device.reg_write(TERN_REG_AQ_TAIL, ++aq_tail_);

  const std::uint64_t slot = acq_ + (acq_ci_ & mask) * sizeof(tern_acq_entry);
  const std::uint32_t want = (acq_ci_ >> kLogAdmin) & 1 ? 0 : 1;
  for (int turns = 0; turns < 1000; ++turns) {
    pump();
    const auto done = host.get<tern_acq_entry>(slot);
    if ((le(done.phase) & TERN_CQE_PHASE) != want) continue;
    ++acq_ci_;
    EXPECT_EQ(le(done.tag), le(entry.tag));
    EXPECT_LE(le(done.out_len), out.size());
    if (!out.empty()) std::memcpy(out.data(), host.at(out_), out.size());
    if (done.status == TERN_ST_OK && out.size() == sizeof(tern_rsp_object)) {
      const auto made = host.get<tern_rsp_object>(out_);
      generations_[{opcode, le(made.id)}] = le(made.generation);
    }
    return le(done.status);
  }
  ADD_FAILURE() << "command " << opcode << " does not complete; status register "
                << device.reg_read(TERN_REG_STATUS);
  return TERN_ST_INTERNAL;
}

void TestNode::check_generation(const tern_eqe& eqe) const {
  std::uint16_t creator = TERN_CMD_CREATE_QP;
  switch (le(eqe.type)) {
    case TERN_EV_PORT_CHANGE:
      EXPECT_EQ(le(eqe.generation), 0U);
      return;
    case TERN_EV_COMPLETION:
    case TERN_EV_CQ_ERR:
      creator = TERN_CMD_CREATE_CQ;
      break;
    case TERN_EV_SRQ_ERR:
    case TERN_EV_SRQ_LIMIT:
      creator = TERN_CMD_CREATE_SRQ;
      break;
    default:
      break;
  }
  const auto known = generations_.find({creator, le(eqe.id)});
  ASSERT_NE(known, generations_.end()) << "event " << le(eqe.type) << " of " << le(eqe.id);
  EXPECT_EQ(le(eqe.generation), known->second) << "event " << le(eqe.type) << " of " << le(eqe.id);
}

void TestNode::destroy(std::uint16_t opcode, std::uint32_t id) {
  EXPECT_EQ(command(opcode, tern_cmd_object{le(id), 0}), TERN_ST_OK) << "command " << opcode;
}

std::uint32_t TestNode::alloc_pd(bool privileged) {
  tern_cmd_alloc_pd cmd{};
  cmd.flags = le(privileged ? TERN_PD_PRIVILEGED : 0U);
  tern_rsp_object rsp{};
  EXPECT_EQ(command(TERN_CMD_ALLOC_PD, cmd, &rsp), TERN_ST_OK);
  return le(rsp.id);
}

std::uint32_t TestNode::alloc_uar() {
  tern_rsp_object rsp{};
  EXPECT_EQ(command(TERN_CMD_ALLOC_UAR, {}, std::as_writable_bytes(std::span(&rsp, 1))),
            TERN_ST_OK);
  return le(rsp.id);
}

std::uint32_t TestNode::alloc_xrcd() {
  tern_rsp_object rsp{};
  EXPECT_EQ(command(TERN_CMD_ALLOC_XRCD, {}, std::as_writable_bytes(std::span(&rsp, 1))),
            TERN_ST_OK);
  return le(rsp.id);
}

TestEq& TestNode::create_eq(unsigned log_size, std::uint16_t vector) {
  TestEq& eq = eqs_.emplace_back(*this, std::uint8_t{TERN_EQ_COMPLETION}, vector, log_size);
  EXPECT_EQ(eq.created(), TERN_ST_OK);
  return eq;
}

TestCq& TestNode::create_cq(unsigned log_size, TestEq* on, std::uint8_t flags) {
  TestCq& cq = cqs_.emplace_back(*this, log_size, on ? on : completion_, flags);
  EXPECT_EQ(cq.created(), TERN_ST_OK);
  return cq;
}

TestQp& TestNode::create_qp(const QpOptions& options) {
  TestQp& qp = qps_.emplace_back(*this, options);
  EXPECT_EQ(qp.created(), TERN_ST_OK);
  return qp;
}

TestSrq& TestNode::create_srq(const SrqOptions& options) {
  TestSrq& srq = srqs_.emplace_back(*this, options);
  EXPECT_EQ(srq.created(), TERN_ST_OK);
  return srq;
}

Status TestNode::try_reg(std::uint64_t len, const RegOptions& options, TestMr* mr) {
  const std::uint64_t page = std::uint64_t{1} << options.page_shift;
  const std::uint64_t real = round_up(
      std::max<std::uint64_t>(options.alias ? options.alias : options.offset + len, 1), page);
  const std::uint64_t num = (options.offset + len + page - 1) / page;
  const std::uint64_t memory = host.alloc(real, page);
  tern_cmd_create_mr cmd{};
  cmd.pages.kind = options.kind;
  cmd.pages.page_shift = static_cast<std::uint8_t>(options.page_shift);
  cmd.pages.num = le(static_cast<std::uint32_t>(num));
  if (options.kind == TERN_PAGES_DIRECT) {
    cmd.pages.addr = le(memory);
  } else {
    const auto page_at = [&](std::uint64_t i) { return le(memory + i * page % real); };
    const std::uint64_t list = host.alloc(std::max<std::uint64_t>(num, 1) * 8);
    for (std::uint64_t i = 0; i < num; ++i) host.put(list + i * 8, page_at(i));
    cmd.pages.addr = le(list);
    if (options.kind == TERN_PAGES_INDIRECT) {
      const std::uint64_t chunks = (num + TERN_PAGES_CHUNK - 1) / TERN_PAGES_CHUNK;
      const std::uint64_t top = host.alloc(std::max<std::uint64_t>(chunks, 1) * 8);
      for (std::uint64_t i = 0; i < chunks; ++i) {
        host.put(top + i * 8, le(list + i * TERN_PAGES_CHUNK * 8));
      }
      cmd.pages.addr = le(top);
    }
  }
  *mr = {.host = &host,
         .iova = options.iova ? options.iova : memory + options.offset,
         .length = len,
         .dma = memory + options.offset,
         .backed = std::min(len, real - options.offset)};
  cmd.iova = le(mr->iova);
  cmd.length = le(len);
  cmd.offset = le(options.offset);
  cmd.pdn = le(options.pd ? options.pd : pd_);
  cmd.access = le(options.access);
  cmd.kind = TERN_MR_MEMORY;
  const tern_pages pages = cmd.pages;
  // A command reads a limited number of entries: the list of a larger region comes in parts.
  const std::uint64_t part = le(caps_.max_cmd_pages);
  const bool parts = options.kind != TERN_PAGES_DIRECT && num > part;
  if (parts) {
    cmd.flags = TERN_MR_F_INCOMPLETE;
    cmd.pages.kind = TERN_PAGES_LIST;
    cmd.pages.addr = 0;
  }
  tern_rsp_object rsp{};
  Status st = command(TERN_CMD_CREATE_MR, cmd, &rsp);
  mr->key = le(rsp.id);
  for (std::uint64_t first = 0; parts && st == TERN_ST_OK && first < num; first += part) {
    tern_cmd_update_pages update{};
    update.pages = pages;
    const std::uint64_t in_chunk = options.kind == TERN_PAGES_INDIRECT ? TERN_PAGES_CHUNK : 1;
    update.pages.addr = le(le(pages.addr) + first / in_chunk * 8);
    update.pages.num = le(static_cast<std::uint32_t>(std::min(part, num - first)));
    update.first = le(first);
    update.key = rsp.id;
    update.flags = le(first + part >= num ? TERN_UPDATE_LAST : 0U);
    st = command(TERN_CMD_UPDATE_PAGES, update);
  }
  return st;
}

TestMr& TestNode::reg(std::uint64_t len, const RegOptions& options) {
  TestMr& mr = mrs_.emplace_back();
  EXPECT_EQ(try_reg(len, options, &mr), TERN_ST_OK);
  return mr;
}

FastMr TestNode::alloc_fast(std::uint32_t pages, std::uint32_t pd) {
  FastMr fast;
  fast.mr.host = &host;
  fast.mr.length = fast.mr.backed = std::uint64_t{pages} * kPage;
  fast.mr.iova = fast.mr.dma = host.alloc(fast.mr.length);
  fast.list = host.alloc(pages * 8ULL);
  for (std::uint32_t i = 0; i < pages; ++i)
    host.put(fast.list + i * 8ULL, le(fast.mr.dma + i * kPage));
  tern_cmd_create_mr cmd{};
  cmd.pages.num = le(pages);
  cmd.pdn = le(pd);
  cmd.kind = TERN_MR_FAST;
  tern_rsp_object rsp{};
  EXPECT_EQ(command(TERN_CMD_CREATE_MR, cmd, &rsp), TERN_ST_OK);
  fast.mr.key = le(rsp.id);
  return fast;
}

void TestNode::destroy(TestQp& qp) { destroy(TERN_CMD_DESTROY_QP, qp.number()); }

void TestNode::destroy(TestCq& cq) { destroy(TERN_CMD_DESTROY_CQ, cq.number()); }

void TestNode::destroy(TestSrq& srq) { destroy(TERN_CMD_DESTROY_SRQ, srq.number()); }

std::uint64_t TestNode::counter(unsigned index) {
  std::array<std::uint64_t, TERN_CNT_RDMA_NUM> counters{};
  EXPECT_EQ(
      command(TERN_CMD_QUERY_COUNTERS,
              tern_cmd_query_counters{le(std::uint32_t{TERN_COUNTERS_RDMA}), 1, {}}, &counters),
      TERN_ST_OK);
  return le(counters.at(index));
}

std::uint64_t TestNode::eth_counter(unsigned index) {
  std::array<std::uint64_t, TERN_ETH_CNT_NUM> counters{};
  EXPECT_EQ(
      command(TERN_CMD_QUERY_COUNTERS,
              tern_cmd_query_counters{le(std::uint32_t{TERN_COUNTERS_ETH}), 1, {}}, &counters),
      TERN_ST_OK);
  return le(counters.at(index));
}

tern_rsp_objects TestNode::objects() {
  tern_rsp_objects rsp{};
  EXPECT_EQ(command(TERN_CMD_QUERY_OBJECTS, {}, std::as_writable_bytes(std::span(&rsp, 1))),
            TERN_ST_OK);
  return rsp;
}

void TestNode::doorbell(std::uint32_t uar, std::uint32_t db, std::uint32_t number) {
  // Nodes lose different doorbells, but the same ones in every run.
  const std::uint32_t hash = (++doorbells_ + id_) * 2654435761U;
  const bool lost = hash >> 24 < sim.lost_values;
  device.doorbell((std::uint64_t{uar} << options_.page_shift) + TERN_UAR_DB,
                  lost ? field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_PAGE)
                       : field_prep(TERN_DB_CMD_MASK, db) | number);
  wake();
}

TestQp* TestNode::find_qp(std::uint32_t qpn) {
  // The newest first: numbers are reused.
  const auto it = std::ranges::find_if(qps_.rbegin(), qps_.rend(),
                                       [&](const TestQp& q) { return q.number() == qpn; });
  return it == qps_.rend() ? nullptr : &*it;
}

std::pair<TestQp&, TestQp&> rc_pair(TestNode& a, TestNode& b, const QpOptions& options) {
  TestQp& qa = a.create_qp(options);
  TestQp& qb = b.create_qp(options);
  qa.connect(qb);
  qb.connect(qa);
  return {qa, qb};
}

::testing::AssertionResult same_bytes(std::span<const std::byte> got,
                                      std::span<const std::byte> want) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " bytes, not " << want.size();
  }
  const auto [g, w] = std::ranges::mismatch(got, want);
  if (g == got.end()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "byte " << (g - got.begin()) << " is " << std::to_integer<int>(*g) << ", not "
         << std::to_integer<int>(*w);
}

const char* status_name(std::uint8_t status) {
  constexpr std::array names = {
      "SUCCESS",          "LOC_LEN_ERR",   "LOC_QP_OP_ERR",     "LOC_PROT_ERR",    "WR_FLUSH_ERR",
      "MW_BIND_ERR",      "BAD_RESP_ERR",  "LOC_ACCESS_ERR",    "REM_INV_REQ_ERR", "REM_ACCESS_ERR",
      "REM_OP_ERR",       "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "REM_ABORT_ERR",   "FATAL_ERR",
      "RESP_TIMEOUT_ERR", "GENERAL_ERR"};
  return status < names.size() ? names[status] : "?";
}

}  // namespace tern
