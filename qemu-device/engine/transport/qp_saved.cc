// SPDX-License-Identifier: GPL-2.0-or-later
// Saved state of a queue pair.
#include <cstdint>
#include <memory>

#include "core/archive.h"
#include "objects/comp_counter.h"
#include "objects/context.h"
#include "transport/qp.h"

namespace tern {

void Qp::attributes_state(Archive& ar) {
  tern_qp_attr& a = attr_;
  ar(a, has_route_, ece_, generation_, serial_, rq_ci_, comm_est_, sqd_notify_);
  route_.state(ar);
  constexpr std::uint32_t kPsnMask = 0xffffff;
  const bool reliable = transport_ == Transport::kRc || transport_ == Transport::kXrc;
  const bool connected = reliable || transport_ == Transport::kUc;
  const bool talks = a.state >= TERN_QPS_RTR && a.state <= TERN_QPS_SQE;
  // A QP in ERR may never have been connected.
  const bool has_mtu = a.path_mtu >= 8 && a.path_mtu <= 12;
  ar.require(a.state <= TERN_QPS_ERR && (a.path_mtu == 0 || has_mtu) && a.timeout <= 31 &&
                 a.retry_cnt <= 7 && a.rnr_retry <= 7 && a.min_rnr_timer <= 31 &&
                 a.max_rd_atomic <= kMaxRdAtomic && a.max_dest_rd_atomic <= kMaxRdAtomic &&
                 a.sq_psn <= kPsnMask && a.rq_psn <= kPsnMask && a.dest_qpn <= kPsnMask &&
                 (!reliable || a.state != TERN_QPS_SQE) &&
                 (!connected || !talks || (has_mtu && has_route_)),
             "the attributes of a QP are wrong");
}

void Qp::faults_state(Archive& ar) {
  faulting_ = 0;
  for (std::uint8_t side = 0; side < rare_state_->faults.size(); ++side) {
    Fault& fault = rare_state_->faults[side];
    context_->page_faults.fault_state(ar, fault);
    if (fault.state == Fault::State::kNone) continue;
    faulting_ = static_cast<std::uint8_t>(faulting_ | 1U << side);
    const bool waits = side == TERN_FAULT_REQUESTER
                           ? state() == TERN_QPS_RTS || state() == TERN_QPS_SQD
                           : state() >= TERN_QPS_RTR && state() <= TERN_QPS_SQE;
    ar.require(fault.side == side && fault.qpn == qpn_.value && waits,
               "a page fault has a wrong QP");
  }
}

void Qp::rare_state(Archive& ar, const Table<CounterSet>& sets, const Table<CompCounter>& counters,
                    const LaneGroup& group) {
  RareState& rare = rare_state();
  (void)ar.timer(rare.rq_settled, context_->timers);
  faults_state(ar);
  // 0: none.
  std::uint32_t set = rare.counter_set != nullptr ? rare.counter_set->number : 0;
  ar(set);
  if (ar.reading() && set != 0) {
    CounterSet* const found = sets.find(set);
    if (!ar.require(found != nullptr && &found->lane_member.group() == &group,
                    "a QP has no such counter set"))
      return;
    bind(found);
  }
  for (unsigned op = 0; op < rare.comp_counters.size(); ++op) {
    const CompCounter* const has = rare.comp_counters[op];
    std::uint32_t counter = has != nullptr ? has->number : 0;
    ar(counter);
    if (!ar.reading() || counter == 0) continue;
    CompCounter* const found = counters.find(counter);
    if (!ar.require(found != nullptr && &found->lane_member.group() == &group,
                    "a QP has no such completion counter"))
      return;
    attach(*found, 1U << op);
  }
}

void Qp::archive(Archive& ar, const Table<CounterSet>& sets, const Table<CompCounter>& counters,
                 const LaneGroup& group) {
  attributes_state(ar);
  if (!ar.ok()) return;
  buffer_.state(ar);
  bool rare = rare_state_ != nullptr;
  ar(rare);
  if (rare) rare_state(ar, sets, counters, group);
  bool migrates = migration_ != nullptr;
  bool paced = send_rate_ != nullptr;
  ar(migrates, paced);
  if (ar.reading() && migrates) migration_ = std::make_unique<PathMigration>(*this);
  if (migrates) migration_->state(ar);
  if (paced) make_send_rate().state(ar);
  if (!ar.ok()) return;
  sender_->state(ar);
  if (!ar.ok()) return;
  receiver_->state(ar);
  if (fetches_) rendezvous()->check(ar, receiver_->holds_request());
  ar(next_notification, turn_left);
  polled.state(ar);
  context_->schedule_state(ar, *this);
  if (send_cq_ != nullptr) send_cq_->user_state(ar, send_user_);
  if (recv_cq_ != nullptr) recv_cq_->user_state(ar, recv_user_);
  if (!xrc_target()) context_->uars.queue_state(ar, uar(), page_queue_);
  ar.require(migration_ == nullptr || has_route_, "a QP migrates from nowhere");
}

}  // namespace tern
