// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/tests/halves.h"

#include <algorithm>

namespace tern {

namespace {

constexpr std::uint8_t kLogSqSize = 8;
constexpr std::uint8_t kLogStride = 7;
constexpr std::uint32_t kPd = 5;

tern_cmd_create_qp command(std::uint8_t type) {
  return {.pdn = kPd, .type = type, .log_sq_size = kLogSqSize, .log_sq_stride = kLogStride};
}

// Assigns the fields of one to those of the other by `assign`, except for PSNs, QPNs and payload.
template <class P, class F, class Assign>
void each_field(P& p, F& f, Assign assign) {
  assign(p.op, f.op);
  assign(p.ack_req, f.ack_req);
  assign(p.syndrome, f.syndrome);
  assign(p.msn, f.msn);
  assign(p.va, f.va);
  assign(p.rkey, f.rkey);
  assign(p.dma_len, f.len);
  assign(p.swap_add, f.swap_add);
  assign(p.compare, f.compare);
  assign(p.original, f.original);
  assign(p.imm, f.imm);
  assign(p.inv_rkey, f.inv_rkey);
  assign(p.qkey, f.qkey);
  assign(p.solicited, f.solicited);
}

Fields fields_of(const Packet& p) {
  Fields f{.psn = p.psn.value(), .dest_qp = p.dest_qp.value, .src_qp = p.src_qp.value};
  each_field(p, f, [](const auto& from, auto& to) { to = from; });
  f.payload.resize(p.payload.size());
  p.payload.copy_to(f.payload);
  return f;
}

FakeConnection& fake(Connection* qp) { return static_cast<FakeConnection&>(*qp); }

}  // namespace

// ---- the seam: Context ----

std::uint32_t Context::emit(Packet& packet) {
  static_cast<FakeContext*>(this)->sent.push_back(fields_of(packet));
  return 1;
}

std::optional<Route> Context::resolve(const tern_av&, std::uint8_t, Qpn, Qpn) const {
  return Route{};
}

std::uint32_t Context::max_train(const Route&, std::uint32_t) const { return 1; }
std::uint32_t Context::path_mtu() const { return 1024; }
std::uint32_t Context::mtu() const { return 1500; }
Srq* Context::find_srq(std::uint32_t) const { return nullptr; }
Srq* Context::find_srq(const SrqRef&) const { return nullptr; }
void Context::xrc_cq_failed() {}
void Context::charge(std::uint32_t) {}

// ---- the seam: Connection ----

std::optional<std::uint32_t> Connection::read_sq_pi() {
  return static_cast<std::uint32_t>(fake(this).sq.size());
}

bool Connection::read_sq_slot(std::uint32_t index, std::size_t offset, std::span<std::byte> to) {
  if (index >= fake(this).sq.size()) return false;
  Bytes slot = fake(this).sq[index];
  slot.resize(sq_stride());
  std::ranges::copy(std::span(slot).subspan(offset, to.size()), to.begin());
  return true;
}

Take Connection::take_rq_wqe(RecvWqe& wqe, Srq*) {
  auto& rq = fake(this).rq;
  if (fake(this).rq_unusable) return Take::kFailed;
  if (rq.empty()) return Take::kEmpty;
  wqe = rq.front();
  wqe.owner = accessor();
  rq.pop_front();
  return Take::kTaken;
}

void Connection::complete_send(tern_cqe& cqe) { fake(this).sends.push_back(cqe); }
void Connection::complete_recv(tern_cqe& cqe, bool) { fake(this).receives.push_back(cqe); }
void Connection::count(unsigned, bool, std::uint64_t) {}
void Connection::count_recv(const tern_cqe&) {}
TagList* Connection::tag_list() const { return nullptr; }
Rendezvous* Connection::rendezvous() const { return nullptr; }
bool Connection::receives() const { return true; }
Accessor Connection::send_accessor() const { return accessor(); }
void Connection::communication_established() { ++fake(this).established; }
void Connection::sq_drained() { ++fake(this).drained; }
void Connection::wake() { ++fake(this).wakes; }
void Connection::use_path(const tern_qp_alt&, const Route&) {}

void Connection::enter_error(int event, bool silent) {
  if (attr_.state == TERN_QPS_ERR) return;
  attr_.state = TERN_QPS_ERR;
  faulting_ = 0;
  if (fake(this).sender != nullptr) fake(this).sender->stop();
  if (fake(this).receiver != nullptr) fake(this).receiver->stop(silent);
  fake(this).errors.push_back(event);
}

void Connection::send_failed() {
  if (transport_ == Transport::kRc) return enter_error(-1);
  attr_.state = TERN_QPS_SQE;
}

bool Connection::raise_fault(std::uint8_t side, const Memory::Missing& missing, std::uint64_t) {
  if (faulting(side)) return false;
  faulting_ = static_cast<std::uint8_t>(faulting_ | 1U << side);
  fake(this).faults.push_back(missing);
  return true;
}

FakeConnection::FakeConnection(Context& context, std::uint8_t type, Transport transport)
    : Connection(context, command(type), transport, false) {
  qpn_ = Qpn(17);
  attr_.dest_qpn = 7;
  attr_.state = TERN_QPS_RTS;
  attr_.path_mtu = 8;
  attr_.access = kAllAccess;
  attr_.max_rd_atomic = attr_.max_dest_rd_atomic = 2;
  attr_.min_rnr_timer = 12;
  attr_.timeout = 14;
  attr_.retry_cnt = attr_.rnr_retry = 2;
  attr_.qkey = 0x1234;
  attr_.sq_psn = 100;
  attr_.rq_psn = 200;
  attr_.port = 1;
}

void FakeConnection::resume(std::uint8_t side, bool failed) {
  ASSERT_TRUE(faulting(side));
  faulting_ = static_cast<std::uint8_t>(faulting_ & ~(1U << side));
  if (side == TERN_FAULT_REQUESTER) return sender->fault_over(failed);
  receiver->fault_over(failed);
}

// ---- the fixture ----

HalfTest::HalfTest(std::uint8_t type, Transport transport) : qp(context, type, transport) {
  data = reg(16);
  data.fill(1);
}

TestMr HalfTest::reg(std::uint32_t pages, std::uint32_t access) {
  const std::uint64_t bytes = pages * kPage;
  const std::uint64_t at = host.alloc(bytes);
  const std::uint64_t list = host.alloc(pages * 8);
  TestMr mr{.memory = host.at(at, bytes), .iova = at, .length = bytes, .dma = at, .backed = bytes};
  const bool absent = access & TERN_ACCESS_ON_DEMAND;
  for (std::uint32_t i = 0; !absent && i < pages; ++i) host.put(list + i * 8, at + i * kPage);
  const tern_cmd_create_mr cmd{
      .pages = {.addr = list, .num = pages, .page_shift = 12, .kind = TERN_PAGES_LIST},
      .iova = mr.iova,
      .length = mr.length,
      .pdn = kPd,
      .access = access};
  EXPECT_EQ(memory.create_mr(cmd, &mr.key), TERN_ST_OK);
  return mr;
}

void HalfTest::set_present(const TestMr& mr, std::uint32_t page) {
  const std::uint64_t list = host.alloc(8);
  host.put(list, (mr.dma + page * kPage) | TERN_PAGE_READ | TERN_PAGE_WRITE);
  const tern_cmd_update_pages cmd{
      .pages = {.addr = list, .num = 1, .page_shift = 12, .kind = TERN_PAGES_LIST},
      .first = page,
      .key = mr.key};
  EXPECT_EQ(memory.update_pages(cmd), TERN_ST_OK);
}

Bytes HalfTest::pattern(std::size_t len, unsigned seed) {
  Bytes bytes(len);
  TestMr{.memory = bytes.data(), .backed = len}.fill(seed);
  return bytes;
}

void HalfTest::post_recv(const std::vector<tern_sge>& sges, std::uint64_t wr_id) {
  RecvWqe wqe;
  wqe.wr_id = wr_id;
  wqe.num_sge = static_cast<std::uint8_t>(sges.size());
  std::ranges::copy(sges, wqe.sges.begin());
  qp.rq.push_back(wqe);
}

void HalfTest::deliver(const Fields& f) {
  Packet p(host);
  p.transport = qp.transport();
  p.psn = Psn(f.psn);
  p.src_qp = Qpn(f.src_qp);
  each_field(p, f, [](auto& to, const auto& from) { to = from; });
  p.payload.append_plain(std::span<const std::byte>(f.payload));
  context.time_passes();
  if (qp.sender != nullptr) return qp.sender->deliver(p);
  qp.receiver->deliver(p);
}

std::vector<Fields> HalfTest::turn(std::uint32_t allowance) {
  context.time_passes();
  if (qp.sender != nullptr) {
    (void)qp.sender->transmit(allowance);
  } else {
    (void)qp.receiver->transmit(allowance);
  }
  return std::exchange(context.sent, {});
}

void HalfTest::pass(Nanos time) {
  host.advance(time);
  context.time_passes();
  (void)context.timers.run(host.now(), 100);
}

}  // namespace tern
