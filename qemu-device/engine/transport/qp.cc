// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/qp.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "objects/comp_counter.h"
#include "objects/context.h"
#include "transport/segments.h"
#include "wire/codec.h"

namespace tern {

// Devices with many QPs need them small (Documentation/performance.rst).
static_assert(sizeof(Qp) <= 896);

namespace {

Transport transport_of(std::uint8_t type) {
  switch (type) {
    case TERN_QPT_UC:
      return Transport::kUc;
    case TERN_QPT_UD:
    case TERN_QPT_GSI:
      return Transport::kUd;
    case TERN_QPT_XRC_INI:
    case TERN_QPT_XRC_TGT:
      return Transport::kXrc;
    case TERN_QPT_RAW:
      return Transport::kRaw;
    default:
      return Transport::kRc;
  }
}

// The page list stays little-endian: QueueBuffer converts it.
tern_cmd_create_qp swap_order(tern_cmd_create_qp cmd) {
  cmd.record = le(std::uint64_t{cmd.record});
  cmd.sq_offset = le(std::uint32_t{cmd.sq_offset});
  cmd.rq_offset = le(std::uint32_t{cmd.rq_offset});
  cmd.pdn = le(std::uint32_t{cmd.pdn});
  cmd.uar = le(std::uint32_t{cmd.uar});
  cmd.send_cqn = le(std::uint32_t{cmd.send_cqn});
  cmd.recv_cqn = le(std::uint32_t{cmd.recv_cqn});
  cmd.srqn = le(std::uint32_t{cmd.srqn});
  cmd.xrcdn = le(std::uint32_t{cmd.xrcdn});
  return cmd;
}

template <class Sender>
void make_sender(Qp& qp, Sender& sender) {
  if (qp.transport() == Transport::kUd) return sender.template emplace<DatagramSender>(qp);
  if (qp.transport() == Transport::kUc) return sender.template emplace<UcSender>(qp);
  if (qp.transport() == Transport::kRaw) return sender.template emplace<RawSender>(qp);
  sender.template emplace<Requester>(qp);
}

template <class Half>
void make_receiver(Qp& qp, Half& receiver) {
  if (qp.transport() == Transport::kUd) return receiver.template emplace<DatagramReceiver>(qp);
  if (qp.transport() == Transport::kUc) return receiver.template emplace<UcReceiver>(qp);
  if (qp.transport() == Transport::kRaw) return receiver.template emplace<RawReceiver>(qp);
  if (qp.xrc_target()) return receiver.template emplace<XrcResponder>(qp);
  if (qp.tag_list() != nullptr) return receiver.template emplace<TagResponder>(qp);
  receiver.template emplace<Responder>(qp);
}

}  // namespace

tern_cmd_create_qp Qp::command() const {
  tern_cmd_create_qp cmd = swap_order(cmd_);
  // The constructor sets the size of the device's own send queue.
  if (fetches_) cmd.log_sq_size = cmd.log_sq_stride = 0;
  return cmd;
}

constexpr CqUser::Kind Qp::kCqUser = {
    [](void* self) { static_cast<Qp*>(self)->enter_error(TERN_EV_QP_FATAL); },
    [](void* self, Context& lane) { static_cast<Qp*>(self)->move_to(lane); }};

Qp::Qp(Context& context, const tern_cmd_create_qp& cmd, Cq* send_cq, Cq* recv_cq, bool privileged,
       Srq* srq)
    : QpSchedule(this),
      Connection(context, swap_order(cmd), transport_of(cmd.type), privileged),
      send_cq_(send_cq),
      recv_cq_(recv_cq),
      srq_(srq),
      record_(cmd_.record),
      buffer_(context.device.page_budget),
      page_queue_([](void* self) { static_cast<Qp*>(self)->recheck(); }, this),
      send_user_(kCqUser, this),
      recv_user_(kCqUser, this) {
  ++context.device.lane_qps[context.lane];
  make_sender(*this, sender_);
  make_receiver(*this, receiver_);
  if (send_cq_ != nullptr) send_cq_->attach(send_user_);
  if (recv_cq_ != nullptr) recv_cq_->attach(recv_user_);
  if (srq_ != nullptr) srq_->attach();
  // Without a queue, its size may be anything.
  if (!has_sq()) cmd_.log_sq_size = cmd_.log_sq_stride = 0;
  if (!has_rq()) cmd_.log_rq_size = cmd_.log_rq_stride = 0;
  if (tag_list() != nullptr && !has_sq()) {
    cmd_.log_sq_size = Rendezvous::kLogSlots;
    cmd_.log_sq_stride = Rendezvous::kLogStride;
    rare_state().rendezvous = std::make_unique<Rendezvous>(*this, *sender_);
    fetches_ = true;
  }
}

Qp::~Qp() {
  --context_->device.lane_qps[context_->lane];
  bind(nullptr);
  if (counted_ != 0) [[unlikely]]
    detach_comp_counters();
  cancel_faults();
  context_->forget_polled(*this);
  context_->unschedule(*this);
  if (srq_ != nullptr) srq_->detach();
}

// Also called for the second of its CQs.
void Qp::move_to(Context& lane) {
  if (context_ == &lane) return;
  context_->release_polled(*this);
  context_->unschedule(*this);
  const bool notifies = notifying.linked();
  notifying.unlink();
  if (counters_ == &context_->counters) counters_ = &lane.counters;
  sender_->move_to(lane);
  receiver_->move_to(lane);
  if (send_rate_ != nullptr) send_rate_->move_to(lane);
  if (rare_state_) {
    rare_state_->rq_settled.move_to(lane.timers);
    if (rare_state_->rendezvous) rare_state_->rendezvous->move_to(lane);
  }
  --lane.device.lane_qps[context_->lane];
  ++lane.device.lane_qps[lane.lane];
  lane.device.qp_lanes.set(qpn_.value, lane.lane);
  context_ = &lane;
  if (notifies) lane.notify_peer(*this);
  if (!xrc_target()) lane.uars.add(uar(), page_queue_);
  wake();
  recheck();  // a doorbell may still be on its way to the former lane
}

Qp::RareState::RareState(Qp& qp)
    : rq_settled(qp.context_->timers, [](void* self) { static_cast<Qp*>(self)->kick_rq(); }, &qp) {}

Qp::RareState& Qp::rare_state() {
  if (!rare_state_) rare_state_ = std::make_unique<RareState>(*this);
  return *rare_state_;
}

Status Qp::init() {
  if (xrc_target()) return TERN_ST_OK;  // an XRC target has neither record nor buffer
  if (!record_.fits<tern_qp_record>()) return TERN_ST_BAD_PARAM;
  const auto end = [](std::uint32_t offset, unsigned log_bytes) {
    return std::uint64_t{offset} + (std::uint64_t{1} << log_bytes);
  };
  std::uint64_t bytes = 0;
  if (has_sq()) {
    bytes = std::max(bytes, end(cmd_.sq_offset, cmd_.log_sq_size + cmd_.log_sq_stride));
  }
  if (has_rq()) {
    bytes = std::max(bytes, end(cmd_.rq_offset, cmd_.log_rq_size + cmd_.log_rq_stride));
  }
  if (bytes == 0) return TERN_ST_OK;
  return buffer_.load(context_->host, cmd_.pages, bytes);
}

// ---- queues ----

std::optional<std::uint32_t> Connection::read_sq_pi() {
  auto& qp = static_cast<Qp&>(*this);
  if (fetches_) [[unlikely]]
    return rendezvous()->posted();
  return context_->producer_index(qp.record_, offsetof(tern_qp_record, sq_pi));
}

bool Qp::sq_moved() {
  if (sender_->kicked()) return false;
  const auto pi = read_sq_pi();
  return !pi || *pi != sender_->posted();
}

bool Connection::read_sq_slot(std::uint32_t index, std::size_t offset, std::span<std::byte> to) {
  auto& qp = static_cast<Qp&>(*this);
  if (fetches_) [[unlikely]] {
    rendezvous()->read(index, offset, to);
    return true;
  }
  const std::uint64_t slot = std::uint64_t{index & (sq_size() - 1)} << cmd_.log_sq_stride;
  return qp.buffer_.read(context_->host, cmd_.sq_offset + slot + offset, to);
}

std::uint64_t Qp::rq_slot(std::uint32_t index) const {
  return cmd_.rq_offset + (std::uint64_t{index & (rq_size() - 1)} << cmd_.log_rq_stride);
}

Take Connection::take_rq_wqe(RecvWqe& wqe, Srq* xrc) {
  auto& qp = static_cast<Qp&>(*this);
  if (Srq* const srq = xrc != nullptr ? xrc : qp.srq_; srq != nullptr) {
    const Take got = srq->take(wqe);
    wqe.owner.qp = qpn_;
    if (context_->log != nullptr && got == Take::kTaken) [[unlikely]]
      qp.log_wqe(wqe);
    return got;
  }
  if (!qp.has_rq()) return Take::kFailed;
  const auto pi = context_->producer_index(qp.record_, offsetof(tern_qp_record, rq_pi));
  if (!pi || *pi - qp.rq_ci_ > qp.rq_size()) return Take::kFailed;
  if (*pi == qp.rq_ci_) return Take::kEmpty;
  if (!read_recv_wqe(context_->host, qp.buffer_, qp.rq_slot(qp.rq_ci_), cmd_.log_rq_stride, wqe))
    return Take::kFailed;
  wqe.owner = accessor();
  wqe.srqn = 0;
  wqe.index = qp.rq_ci_++;
  if (context_->log != nullptr) [[unlikely]]
    qp.log_wqe(wqe);
  return Take::kTaken;
}

void Connection::complete_send(tern_cqe& cqe) {
  auto& qp = static_cast<Qp&>(*this);
  if (fetches_) [[unlikely]]
    return rendezvous()->completed(cqe);
  cqe.qpn = le(qpn_.value);
  if (!qp.send_cq_->push(cqe)) enter_error(TERN_EV_QP_FATAL);
}

void Connection::complete_recv(tern_cqe& cqe, bool counts) {
  auto& qp = static_cast<Qp&>(*this);
  cqe.qpn = le(qpn_.value);
  if (counts) count_recv(cqe);
  if (!qp.xrc_target()) {
    if (!qp.recv_cq_->push(cqe)) enter_error(TERN_EV_QP_FATAL);
  } else if (Srq* const from = qp.receiver_->srq(); from != nullptr && !from->cq()->push(cqe)) {
    from->fail();
    // When the CQ fails, xrc_cq_failed() finds the targets that hold a receive WQE. This QP no
    // longer holds one.
    enter_error(TERN_EV_QP_FATAL);
  }
}

TagList* Connection::tag_list() const {
  const auto& qp = static_cast<const Qp&>(*this);
  return qp.srq_ != nullptr ? qp.srq_->tags() : nullptr;
}

Rendezvous* Connection::rendezvous() const {
  const auto& qp = static_cast<const Qp&>(*this);
  return qp.rare_state_ ? qp.rare_state_->rendezvous.get() : nullptr;
}

bool Connection::receives() const {
  const auto& qp = static_cast<const Qp&>(*this);
  return qp.has_rq() || qp.srq_ != nullptr;
}

Accessor Connection::send_accessor() const {
  const auto& qp = static_cast<const Qp&>(*this);
  if (!fetches_) [[likely]]
    return accessor();
  Accessor keys = qp.srq_->owner();
  keys.qp = qpn_;
  return keys;
}

void Qp::end_tags() {
  if (tag_list() == nullptr) return;
  receiver_->reset();
  if (fetches_) rendezvous()->reset();
}

void Qp::bind(CounterSet* set) {
  if (set == nullptr && !rare_state_) return;
  CounterSet*& bound = rare_state().counter_set;
  if (bound != nullptr) --bound->users;
  if (set != nullptr) ++set->users;
  bound = set;
  counters_ = set != nullptr ? &set->values : &context_->counters;
}

Status Qp::check_attach(std::uint32_t ops) const {
  if (ops == 0 || (ops & ~((1U << TERN_COMP_OP_NUM) - 1))) return TERN_ST_BAD_PARAM;
  if (attr_.state != TERN_QPS_RESET && attr_.state != TERN_QPS_INIT) return TERN_ST_BAD_STATE;
  return counts(ops) ? TERN_ST_BUSY : TERN_ST_OK;
}

void Qp::attach(CompCounter& counter, std::uint32_t ops) {
  auto& counters = rare_state().comp_counters;
  for (unsigned op = 0; op != counters.size(); ++op) {
    if (!(ops & 1U << op)) continue;
    counters[op] = &counter;
    ++counter.users;
  }
  counted_ |= static_cast<std::uint8_t>(ops);
}

void Qp::detach_comp_counters() {
  for (CompCounter* const counter : rare_state().comp_counters) {
    if (counter != nullptr) --counter->users;
  }
}

void Connection::count_recv(const tern_cqe& cqe) {
  if (!counts(TERN_COMP_OP_RECV)) [[likely]]
    return;
  constexpr std::uint32_t kGrh = 40;
  const std::uint32_t bytes = le(std::uint32_t{cqe.byte_len});
  count(TERN_COMP_OP_RECV, cqe.status == TERN_CQE_SUCCESS,
        cqe.flags & TERN_CQE_F_GRH ? bytes - std::min(bytes, kGrh) : bytes);
}

void Connection::count(unsigned op, bool success, std::uint64_t bytes) {
  if (!counts(op)) [[likely]]
    return;
  auto& qp = static_cast<Qp&>(*this);
  const auto index = static_cast<unsigned>(std::countr_zero(op));
  qp.rare_state_->comp_counters[index]->count(success, bytes);
}

// ---- doorbells and turns ----

void Qp::store_status() {
  if (xrc_target()) return;  // an XRC target has no record
  const std::uint32_t status = (attr_.state == TERN_QPS_ERR ? TERN_QP_ST_RQ_KICK : 0) |
                               (polled.on ? TERN_QP_ST_SQ_POLLED : 0);
  // An unreachable record harms only its owner.
  (void)record_.store32(context_->host, offsetof(tern_qp_record, status), status);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Connection::wake() { context_->schedule(static_cast<Qp&>(*this)); }

bool Qp::congestion_notified() {
  if (!context_->device.congestion.enabled(TERN_CC_RP_ENABLE, route_.sl)) return false;
  make_send_rate().notified();
  return true;
}

void Qp::kick_sq() {
  if (!has_sq()) return;
  sender_->kick();
  // The pacer then wakes the QP for the WQEs posted meanwhile as well.
  const bool held = send_rate_ != nullptr && send_rate_->held() && attr_.state == TERN_QPS_RTS;
  if (!held) wake();
}

void Qp::recheck() {
  if (has_sq() && sq_moved()) kick_sq();
  kick_rq();
}

void Qp::kick_rq() {
  if (attr_.state == TERN_QPS_ERR) wake();
}

bool Qp::service(std::uint32_t& allowance) {
  switch (attr_.state) {
    case TERN_QPS_RTR:
      return receiver_->transmit(allowance);
    case TERN_QPS_RTS:
    case TERN_QPS_SQD: {
      if (send_rate_ != nullptr) [[unlikely]]
        return service_paced(allowance);
      // The responder gets half of the turn, then the requester the other half, then the responder
      // what is left of it. Neither starves the other, and one alone uses the whole turn. An answer
      // that fails ends the requests.
      const std::uint32_t given = allowance - allowance / 2;
      std::uint32_t half = given;
      bool answers = receiver_->transmit(half);
      allowance -= given - half;
      const bool requests = attr_.state != TERN_QPS_ERR && sender_->transmit(allowance);
      if (answers && allowance > 0) answers = receiver_->transmit(allowance);
      return answers || requests || attr_.state == TERN_QPS_ERR;
    }
    case TERN_QPS_SQE:
      return sender_->flush(allowance);
    case TERN_QPS_ERR:
      if (receiver_->transmit(allowance)) return true;
      if (sends() && sender_->flush(allowance)) return true;
      return has_rq() && flush_rq(allowance);
    default:
      return false;
  }
}

// The halves share one rate, and the first may use it up.
bool Qp::service_paced(std::uint32_t& allowance) {
  const bool requests_first = send_rate_->alternate();
  bool more = requests_first && sender_->transmit(allowance);
  more |= receiver_->transmit(allowance);
  if (!requests_first && attr_.state != TERN_QPS_ERR) more |= sender_->transmit(allowance);
  return more || attr_.state == TERN_QPS_ERR;
}

bool Qp::has_peer(const Route& route) const {
  const std::uint8_t state = attr_.state;
  const bool connected = state == TERN_QPS_RTR || state == TERN_QPS_RTS || state == TERN_QPS_SQD ||
                         state == TERN_QPS_SQE;
  return has_route_ && connected && route.sgid == route_.dgid && route.dgid == route_.sgid &&
         route.vlan == route_.vlan;
}

// Returns whether the QP's state and type allow requests, or responses if `request` is false.
bool Qp::takes(bool request) const {
  const std::uint8_t state = attr_.state;
  if (type() == (request ? TERN_QPT_XRC_INI : TERN_QPT_XRC_TGT))
    return false;  // it has only the other half
  if (state == TERN_QPS_RTS || state == TERN_QPS_SQD) return true;
  return request && (state == TERN_QPS_RTR || state == TERN_QPS_SQE);
}

// Returns whether the packet came by a path of this connection. The same addresses may exist in
// another VLAN.
bool Qp::from_peer(const Packet& packet) {
  const Route& route = packet.route;
  const bool primary =
      same(route.sgid, route_.dgid) && same(route.dgid, route_.sgid) && route.vlan == route_.vlan;
  return migration_ == nullptr ? primary : migration_->accept(packet, primary);
}

void Qp::deliver(const Packet& packet) {
  const bool request = traits(packet.transport, packet.op).request;
  if (!takes(request) || (has_route_ && !from_peer(packet))) {
    context_->counters.add(TERN_CNT_RX_QP_MISMATCH, packet.train);
    if (context_->log != nullptr) log_refused(packet);
    return;
  }
  if (request) return receiver_->deliver(packet);
  sender_->deliver(packet);
}

bool Qp::receive(const RxFrame& frame) {
  const std::uint8_t state = attr_.state;
  if (transport_ != Transport::kRaw || state < TERN_QPS_RTR || state == TERN_QPS_ERR) {
    context_->counters.add(TERN_CNT_RX_QP_MISMATCH);
    return false;
  }
  return static_cast<RawReceiver&>(*receiver_).receive(frame);
}

void Connection::communication_established() {
  auto& qp = static_cast<Qp&>(*this);
  if (qp.comm_est_ || attr_.state != TERN_QPS_RTR) return;
  qp.comm_est_ = true;
  context_->async_events.raise(*context_, TERN_EV_COMM_EST, qpn_.value, generation());
}

void Connection::sq_drained() {
  auto& qp = static_cast<Qp&>(*this);
  attr_.sq_draining = 0;
  if (!qp.sqd_notify_) return;
  qp.sqd_notify_ = false;
  context_->async_events.raise(*context_, TERN_EV_SQ_DRAINED, qpn_.value, generation());
}

// ---- page faults ----

bool Connection::raise_fault(std::uint8_t side, const Memory::Missing& missing,
                             std::uint64_t rest) {
  auto& qp = static_cast<Qp&>(*this);
  if (faulting(side)) return false;
  Fault& fault = qp.rare_state().faults[side];
  fault.addr = missing.addr;
  fault.length = missing.length + rest;
  fault.key = missing.key;
  fault.write = missing.write;
  fault.qpn = qpn_.value;
  fault.side = side;
  fault.port = attr_.port;
  faulting_ = static_cast<std::uint8_t>(faulting_ | 1U << side);
  context_->page_faults.raise(*context_, fault);
  if (context_->log != nullptr) qp.log_fault(TERN_LOG_PF_RAISED, fault);
  return true;
}

Status Qp::resume_fault(std::uint8_t side, std::uint32_t token, std::uint8_t result) {
  if (!rare_state_ || !context_->page_faults.resume(rare_state_->faults[side], token))
    return TERN_ST_BAD_STATE;
  faulting_ = static_cast<std::uint8_t>(faulting_ & ~(1U << side));
  const bool failed = result == TERN_RESUME_FAIL;
  if (context_->log != nullptr)
    log_fault(failed ? TERN_LOG_PF_FAILED : TERN_LOG_PF_RESUMED, rare_state_->faults[side]);
  if (side == TERN_FAULT_REQUESTER) {
    sender_->fault_over(failed);
  } else {
    receiver_->fault_over(failed);
  }
  return TERN_ST_OK;
}

void Qp::cancel_faults() {
  if (!rare_state_) return;
  for (Fault& fault : rare_state_->faults) {
    if (context_->log != nullptr && fault.state != Fault::State::kNone)
      log_fault(TERN_LOG_PF_CANCELLED, fault);
    context_->page_faults.cancel(fault);
  }
  faulting_ = 0;
}

// ---- errors ----

void Qp::set_state(std::uint8_t next, std::uint32_t cause, std::uint32_t event) {
  const std::uint8_t before = std::exchange(attr_.state, next);
  if (context_->log != nullptr && before != next) log_state(before, next, cause, event);
}

void Connection::enter_error(int event, bool silent) {
  auto& qp = static_cast<Qp&>(*this);
  if (attr_.state == TERN_QPS_ERR || attr_.state == TERN_QPS_RESET) return;
  qp.set_state(TERN_QPS_ERR, silent ? TERN_LOG_BY_COMMAND : TERN_LOG_BY_DEVICE,
               event > 0 ? static_cast<std::uint32_t>(event) : 0);
  attr_.sq_draining = 0;
  qp.cancel_faults();
  qp.sender_->stop();
  // Software must ring for WQEs that it posts from now on. The flush finds those posted before.
  context_->forget_polled(qp);
  qp.store_status();
  // A poster of receives has no barrier between storing rq_pi and loading the status. If it read
  // the old status, its index is visible when this timer expires.
  if (qp.has_rq()) qp.rare_state().rq_settled.arm(context_->host.now() + TERN_RQ_SETTLE_NS);
  qp.receiver_->stop(silent);
  if (event >= 0) {
    context_->async_events.raise(*context_, static_cast<std::uint16_t>(event), qpn_.value,
                                 generation());
  }
  // The QP has completed the receive WQE it held and takes no other (IBTA 10.3.1, affiliated
  // event).
  if (qp.srq_ != nullptr || qp.xrc_target()) {
    context_->async_events.raise(*context_, TERN_EV_QP_LAST_WQE, qpn_.value, generation());
  }
  wake();
}

void Connection::send_failed() {
  auto& qp = static_cast<Qp&>(*this);
  if (transport_ == Transport::kRc || transport_ == Transport::kXrc) return enter_error(-1);
  if (attr_.state != TERN_QPS_RTS && attr_.state != TERN_QPS_SQD) return;
  qp.set_state(TERN_QPS_SQE, TERN_LOG_BY_DEVICE);
  attr_.sq_draining = 0;
  qp.sqd_notify_ = false;
  context_->release_polled(qp);
  wake();
}

bool Qp::flush_rq(std::uint32_t& allowance) {
  const auto pi = context_->producer_index(record_, offsetof(tern_qp_record, rq_pi));
  if (!pi || *pi - rq_ci_ > rq_size()) return false;
  while (rq_ci_ != *pi) {
    if (allowance == 0) return true;
    tern_rq_hdr hdr;
    if (!buffer_.read(context_->host, rq_slot(rq_ci_),
                      std::as_writable_bytes(std::span(&hdr, 1)))) {
      return false;
    }
    tern_cqe cqe{};
    cqe.wr_id = hdr.wr_id;
    cqe.wqe_index = le(rq_ci_++);
    cqe.opcode = TERN_RECV_SEND;
    cqe.status = TERN_CQE_WR_FLUSH_ERR;
    cqe.flags = TERN_CQE_F_RECV;
    counters().add(TERN_CNT_RESP_CQE_FLUSH_ERROR);
    complete_recv(cqe);
    context_->spend(kPacketCost);
    allowance -= std::min(allowance, kPacketCost);
  }
  return false;
}

}  // namespace tern
