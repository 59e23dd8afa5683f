// SPDX-License-Identifier: GPL-2.0-or-later
#include "datapath/datapath.h"

#include <algorithm>
#include <atomic>

#include "datapath/port.h"
#include "eth/rx_frame.h"
#include "transport/segments.h"
#include "wire/train.h"

namespace tern {

namespace {

// A QP's turn in bytes: payload, and kPacketCost for each packet. With N other QPs ready, no QP
// waits for more than N turns. A lone QP continues to the end of the slice.
constexpr std::uint32_t kQuantum = 16 * 1024;
constexpr std::uint32_t kVisitCost = 256;  // bytes, for an object visited on behalf of another one
constexpr unsigned kTimers = 64;
constexpr unsigned kNotifications = 64;  // in one run
constexpr unsigned kEvents = 256;        // waiting events posted at once

// Limit of objects that a part of a run may visit: the cost is about half of the budget.
constexpr std::uint32_t visits_for(std::uint32_t budget) {
  return std::max(budget / 2 / kVisitCost, 1U);
}

}  // namespace

DataPath::DataPath(std::uint8_t number, Host& host_, DeviceState& device_, Memory& memory_,
                   AsyncEvents& events, PageFaults& faults, const Table<Qp>& qps,
                   const Table<Srq>& srqs, Port& port)
    : Context(number, host_, device_, memory_, events, faults),
      sq_poller(*this, device_.config.doorbell_cost),
      rx_packet(host_),
      qps_(qps),
      srqs_(srqs),
      port_(port),
      kernel_events_([](void* self) { static_cast<DataPath*>(self)->flush_events(); }, this) {}

// ---- Context: functions for the layers below ----

void Context::schedule(Qp& qp) { static_cast<DataPath*>(this)->make_ready(qp); }

void Context::unschedule(Qp& qp) { qp.ready.unlink(); }

void Context::charge(std::uint32_t cost) {
  static_cast<DataPath*>(this)->emitted_ += cost;
  spend(cost);
}

void Context::forget_polled(Qp& qp) { static_cast<DataPath*>(this)->sq_poller.forget(qp); }

void Context::release_polled(Qp& qp) { static_cast<DataPath*>(this)->sq_poller.release(qp); }

std::uint32_t Context::emit(Packet& packet) {
  auto* const datapath = static_cast<DataPath*>(this);
  return datapath->port_.emit(*datapath, packet);
}

void Context::notify_peer(Qp& qp) {
  static_cast<DataPath*>(this)->notifying_.push_back(qp.notifying);
}

std::optional<Route> Context::resolve(const tern_av& av, std::uint8_t port, Qpn src,
                                      Qpn dst) const {
  return static_cast<const DataPath*>(this)->port_.addresses.resolve(av, port, src, dst);
}

std::uint32_t Context::max_train(const Route& route, std::uint32_t mtu) const {
  if (!trains_) return 1;
  if (!route.local) return device.config.unfinished_frames ? Train::kMaxBytes / mtu : 1;
  // The packets may go to another lane as one frame.
  return device.config.lanes == 1 ? UINT32_MAX : Train::kMaxBytes / mtu;
}

std::uint32_t Context::path_mtu() const {
  return static_cast<const DataPath*>(this)->port_.addresses.path_mtu();
}

std::uint32_t Context::mtu() const {
  return static_cast<const DataPath*>(this)->port_.addresses.mtu();
}

std::uint32_t Context::emit_frame(std::span<std::byte> room, std::size_t bytes,
                                  const Connection& from) {
  auto* const datapath = static_cast<DataPath*>(this);
  const std::uint64_t before = datapath->received;
  datapath->port_.ethernet.emit(
      room, bytes, {from.number().value, (from.flags() & TERN_QP_F_NO_MCAST_LOOPBACK) != 0});
  const auto cost = static_cast<std::uint32_t>(bytes + kPacketCost + (datapath->received - before));
  datapath->charge(cost);
  return cost;
}

bool Context::takes_frames(std::uint32_t qpn) const {
  const Qp* const qp = static_cast<const DataPath*>(this)->qps_.find(qpn);
  return qp != nullptr && qp->transport() == Transport::kRaw && qp->receives();
}

bool Context::takes_datagrams(std::uint32_t qpn) const {
  const Qp* const qp = static_cast<const DataPath*>(this)->qps_.find(qpn);
  return qp != nullptr && qp->type() == TERN_QPT_UD && qp->receives();
}

bool Context::receive_frame(std::uint32_t qpn, const RxFrame& frame) {
  auto* const datapath = static_cast<DataPath*>(this);
  Qp* const qp = datapath->qps_.find(qpn);
  datapath->charge_sender(frame.bytes.size() + kPacketCost);
  return qp != nullptr && qp->receive(frame);
}

Srq* Context::find_srq(std::uint32_t number) const {
  return static_cast<const DataPath*>(this)->srqs_.find(number);
}

Srq* Context::find_srq(const SrqRef& ref) const {
  Srq* const srq = find_srq(ref.number);
  return srq != nullptr && srq->ref().serial == ref.serial ? srq : nullptr;
}

void Context::xrc_cq_failed() {
  auto* const datapath = static_cast<DataPath*>(this);
  datapath->xrc_unseen_ = datapath->qps_.end();
}

// ---- life cycle ----

void DataPath::enable(std::uint32_t uar_pages) {
  uars.enable(uar_pages);
  if (home()) uars.add(TERN_UAR_KERNEL, kernel_events_);
}

void DataPath::reset() {
  xrc_unseen_ = 0;
  flushing_ = false;
  counters = Counters{};
  uars.reset();
}

void DataPath::read_arms() {
  if (written_cqs.empty()) return;
  // Software stores the word, issues a full barrier, and then checks for CQEs.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  while (Cq* const cq = written_cqs.pop_front()) cq->arm();
}

void DataPath::flush_events() {
  flushing_ = async_events.flush(*this, kEvents);
  flushing_ |= page_faults.flush(*this, kEvents);
}

// Checks the queues of doorbell pages that were rung. Returns the cost, which is at most about half
// of the budget, so that some is left for the queues with work.
std::uint32_t DataPath::check_pages(std::uint32_t budget) {
  if (!uars.pending()) [[likely]]
    return 0;
  return uars.run(visits_for(budget)) * kVisitCost;
}

// Notifies users of CQs that have failed, with the same limit.
std::uint32_t DataPath::notify_cq_users(std::uint32_t budget) {
  const std::uint32_t most = visits_for(budget);
  std::uint32_t left = most;
  while (Cq* const cq = failed_cqs.front()) {
    if (cq->notify_users(left)) break;
  }
  return (most - left) * kVisitCost;
}

// Looks for XRC targets that hold a WQE whose CQ has failed, with the same limit.
std::uint32_t DataPath::walk_xrc_targets(std::uint32_t budget) {
  std::uint32_t n = 0;
  for (const std::uint32_t most = visits_for(budget); n < most && xrc_unseen_ != 0; ++n) {
    ++visits;
    Qp* const qp = qps_.find(--xrc_unseen_);
    if (qp != nullptr && &qp->context() == this && qp->xrc_target() && qp->holds_dead_receive())
      qp->enter_error(TERN_EV_QP_FATAL);
  }
  return n * kVisitCost;
}

void DataPath::send_notifications() {
  for (unsigned i = 0; i < kNotifications && !notifying_.empty(); ++i)
    port_.send_notification(*this, *notifying_.pop_front());
}

// ---- scheduling ----

// The QP has to wait for others: until then it can be fetched from memory, with its peer.
void DataPath::prefetch(const Qp& qp) const {
  qp.prefetch();
  if (const Route* const route = qp.route(); route != nullptr && route->local) {
    if (const Qp* const peer = qps_.find(qp.attr().dest_qpn)) peer->prefetch();
  }
}

void DataPath::make_ready(Qp& qp) {
  if (qp.ready.linked()) return;
  if (!ready_.empty()) prefetch(qp);
  ready_.push_back(qp.ready);
}

// Round robin by bytes. A turn that the budget cuts short continues in the next run. All bytes sent
// in a turn are charged, even if the last packet exceeded what was left of it.
void DataPath::run_qps(std::uint32_t budget) {
  while (!ready_.empty() && budget > 0 && device.status.enabled()) {
    Qp& qp = *ready_.pop_front();
    std::uint32_t turn = qp.turn_left != 0 ? qp.turn_left : kQuantum;
    if (ready_.empty()) turn = std::max(turn, budget);
    const std::uint32_t given = std::min(turn, budget);
    std::uint32_t allowance = given;
    emitted_ = 0;
    const bool more = qp.service(allowance);
    const std::uint32_t spent = std::max(std::max(given - allowance, emitted_), 1U);
    budget -= std::min(budget, spent);
    qp.turn_left = 0;
    if (!more || qp.ready.linked()) continue;
    if (allowance == 0 && spent < turn) {
      qp.turn_left = turn - spent;
      ready_.push_front(qp.ready);  // its turn is not over
    } else {
      make_ready(qp);
    }
  }
}

// Executes operations of tag lists in turn. Returns the cost, which is at most about half of the
// budget.
std::uint32_t DataPath::run_tags(std::uint32_t budget) {
  constexpr std::uint32_t kTurn = 4096;
  std::uint32_t spent = 0;
  while (spent < budget / 2) {
    TagList* const list = tag_lists.pop_front();
    if (list == nullptr) break;
    bool left = false;
    spent += list->run(std::min(kTurn, budget / 2 - spent), left);
    if (left) list->kick();
  }
  return spent;
}

bool DataPath::run(std::uint32_t budget, bool more) {
  unfinished_ = more;
  if (!device.status.enabled()) return more;
  budget -= std::min(budget, check_pages(budget));
  if (flushing_) [[unlikely]]
    flush_events();
  if (!failed_cqs.empty()) [[unlikely]]
    budget -= std::min(budget, notify_cq_users(budget));
  if (xrc_unseen_ != 0) [[unlikely]]
    budget -= std::min(budget, walk_xrc_targets(budget));
  if (!notifying_.empty()) [[unlikely]]
    send_notifications();
  if (!tag_lists.empty()) [[unlikely]]
    budget -= std::min(budget, run_tags(std::max(budget, 2U)));
  if (home()) {
    if (port_.ethernet.tx_poller.any()) port_.ethernet.tx_poller.poll();
    if (port_.ethernet.waiting()) port_.ethernet.run(budget);
  }
  if (sq_poller.any()) sq_poller.poll();
  run_qps(budget);
  // Last, because the QPs have read the clock by now. A timer may make work of any kind.
  if (device.status.enabled()) {
    if (timers.next() != kNever) more |= timers.run(now(), kTimers);
    more |= waits();
  }
  unfinished_ = more;
  return more || polls();
}

bool DataPath::waits() const {
  return !ready_.empty() || !notifying_.empty() || uars.pending() || !tag_lists.empty() ||
         flushing_ || xrc_unseen_ != 0 || !failed_cqs.empty() ||
         (home() && port_.ethernet.waiting());
}

bool DataPath::poll() {
  if (unfinished_ || waits()) return true;
  sq_poller.poll();
  if (home()) port_.ethernet.tx_poller.poll();
  return waits();
}

bool DataPath::polls() const {
  return sq_poller.any() || (home() && port_.ethernet.tx_poller.any());
}

void DataPath::allow_polling(Nanos from) {
  sq_poller.allow(from);
  if (home()) port_.ethernet.tx_poller.allow(from);
}

}  // namespace tern
