// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/registry.h"

#include "core/limits.h"
#include "objects/context.h"

namespace tern {

namespace {

// Features of every configuration, one per line.
constexpr std::uint64_t kCaps =
    TERN_CAP_RC | TERN_CAP_UC | TERN_CAP_UD | TERN_CAP_XRC | TERN_CAP_MCAST | TERN_CAP_SRQ |
    TERN_CAP_SRQ_RESIZE | TERN_CAP_ATOMIC | TERN_CAP_FLUSH | TERN_CAP_ATOMIC_WRITE | TERN_CAP_FRWR |
    TERN_CAP_RESIZE_CQ | TERN_CAP_MODERATE_CQ | TERN_CAP_IGNORE_OVERRUN | TERN_CAP_REREG_MR |
    TERN_CAP_TIMESTAMP | TERN_CAP_VLAN | TERN_CAP_ETH_OFFLOAD | TERN_CAP_STEERING |
    TERN_CAP_RAW_QP | TERN_CAP_COUNTER_SETS | TERN_CAP_RSS_TUNNEL | TERN_CAP_UD_NO_LOOPBACK |
    TERN_CAP_ECE | TERN_CAP_RATE_LIMIT | TERN_CAP_CC | TERN_CAP_APM | TERN_CAP_UDP_SPORT |
    TERN_CAP_ETH_COALESCE | TERN_CAP_COMP_CNTR;

}  // namespace

void Registry::Pd::moved(void* self, Context& lane) {
  lane.device.pd_lanes.set(static_cast<const Pd*>(self)->number, lane.lane);
}

void Registry::Xrcd::moved(void* self, Context& lane) {
  static_cast<const Xrcd*>(self)->targets.for_each([&](CqUser& target) { target.move_to(lane); });
}

LaneMember& Registry::member_of(const Qp& qp) const {
  return qp.xrc_target() ? xrcds.find(qp.xrcd())->lane_member : qp.send_cq()->lane_member;
}

Registry::Registry(Host& host, const Config& config_)
    : DeviceState(config_),
      dm(host, config.dm, kMaxDm),
      dm_ops(host, dm),
      memory(host, page_budget, config.max_mr, &dm, config.max_mw, config.mw_type_2a,
             config.lanes > 1 ? &pd_lanes : nullptr, config.odp),
      pds(1, kMaxPd),
      eqs(1, kMaxEq),
      cqs(1, config.max_cq),
      xrcds(1, kMaxXrcd),
      srqs(1, kMaxSrq),
      counter_sets(1, kMaxCounterSets),
      comp_counters(1, kMaxCompCounters),
      qps(kGsiQpn, config.max_qp, 1) {}

std::uint64_t Registry::caps() const {
  std::uint64_t caps = kCaps;
  if (config.odp) caps |= TERN_CAP_ODP;
  if (dm.size() != 0) caps |= TERN_CAP_DM | TERN_CAP_DM_OPS;
  if (config.max_mw != 0) {
    caps |= TERN_CAP_MW_TYPE_1 | (config.mw_type_2a ? TERN_CAP_MW_TYPE_2A : TERN_CAP_MW_TYPE_2B);
  }
  return caps;
}

bool Registry::qp_number_left() {
  if (!qps.full()) return true;
  // Checks the oldest first, and stops at the first that is free. The next call
  // checks the others first.
  constexpr std::uint64_t kLookWork = 16;  // in page list entries
  for (std::size_t n = withheld_qpns_.size(); n != 0; --n) {
    page_budget.work(kLookWork);
    const std::uint32_t qpn = withheld_qpns_.front();
    withheld_qpns_.pop_front();
    if (!memory.names(Qpn(qpn))) {
      qps.release(qpn);
      return true;
    }
    withheld_qpns_.push_back(qpn);
  }
  return false;
}

void Registry::remove_qp(std::uint32_t qpn) {
  const bool named = memory.names(Qpn(qpn));
  qps.erase(qpn, named);
  if (named) withheld_qpns_.push_back(qpn);
}

void Registry::reset_qps() {
  qps.clear();
  withheld_qpns_.clear();
}

void Registry::reset() {
  async_events.eq = page_faults.eq = nullptr;
  async_events.clear();
  congestion = config.congestion;
  counter_sets.clear();
  comp_counters.clear();
  srqs.clear();
  xrcds.clear();
  cqs.clear();
  eqs.clear();
  memory.reset();
  dm_ops.reset();
  dm.reset();
  pds.clear();
}

}  // namespace tern
