// SPDX-License-Identifier: GPL-2.0-or-later
// Saved state of lanes, and of what the port knows besides its addresses.
#include <string>

#include "core/archive.h"
#include "datapath/datapath.h"
#include "datapath/port.h"
#include "datapath/port_faults.h"

namespace tern {

void Context::schedule_state(Archive& ar, Qp& qp) {
  auto& lane_ = *static_cast<DataPath*>(this);
  (void)ar.member(qp.ready, {&lane_.ready_});
  const bool notifies = ar.member(qp.notifying, {&lane_.notifying_});
  ar.require(!notifies || qp.route() != nullptr, "a QP notifies nobody");
}

void DataPath::state(Archive& ar, const UarPages& of_home) {
  if (!ar.section("a lane")) return;
  ar.require(effects->empty(), "there are effects that nobody has taken");
  ar(counters.rdma, counters.eth, unfinished_, flushing_, ip_id_, xrc_unseen_);
  ar.timers(timers);
  ar.list(ready_);
  ar.list(notifying_);
  ar.list(written_cqs);
  ar.list(failed_cqs);
  ar.list(tag_lists);
  uars.state(ar, of_home);
  const bool enabled = device.status.bits() & TERN_STATUS_ENABLED;
  if (home() && enabled) uars.queue_state(ar, TERN_UAR_KERNEL, kernel_events_);
}

void DataPath::poller_state(Archive& ar) {
  if (!ar.section("polling")) return;
  ar.require(xrc_unseen_ <= qps_.end(), "there are no such QPs");
  sq_poller.state(
      ar, [](const Qp& qp) { return qp.number().value; },
      [this](std::uint32_t number) {
        Qp* const qp = qps_.find(number);
        return qp != nullptr && &qp->context() == this ? qp : nullptr;
      });
}

void Multicast::state(Archive& ar, const std::function<Qp*(std::uint32_t)>& find_qp) {
  if (!ar.section("multicast groups")) return;
  std::uint32_t left = ar.count(members_.size(), std::size_t{kMaxMcastGroups} * kMaxMcastQps,
                                sizeof(Gid) + sizeof(std::uint32_t));
  if (!ar.reading()) {
    for (auto& [group, qps] : groups_) {
      for (const Qp* const qp : qps) {
        Gid gid = group;
        std::uint32_t number = qp->number().value;
        ar(gid, number);
      }
    }
    return;
  }
  for (; left != 0 && ar.ok(); --left) {
    Gid gid{};
    std::uint32_t number = 0;
    ar(gid, number);
    Qp* const qp = find_qp(number);
    ar.require(is_multicast(gid) && qp != nullptr && attach(gid, *qp) == TERN_ST_OK,
               "a multicast group has a wrong member");
  }
}

void Port::faults_state(Archive& ar) {
  if (!ar.section("fault rules")) return;
  bool has = injector_ != nullptr;
  ar(has);
  if (ar.reading()) {
    faults_ = nullptr;
    injector_.reset();
    if (has) {
      injector_ = std::make_unique<PortFaults>(*this, home_);
      injector_->rules().log = home_.log;
    }
  }
  if (!has) return allow_trains();
  injector_->state(ar);
  if (!ar.reading()) return;
  faults_ = injector_->rules().empty() ? nullptr : injector_.get();
  allow_trains();
}

void PortFaults::state(Archive& ar) {
  faults_.state(ar, datapath_.timers);
  if (ar.reading()) datapath_.host.gate = faults_.empty() ? nullptr : &faults_;
}

}  // namespace tern
