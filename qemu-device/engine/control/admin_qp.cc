// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on queue pairs.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "control/admin.h"
#include "control/admin_commands.h"
#include "control/device.h"
#include "core/limits.h"

namespace tern::commands {

namespace {

bool is_qp_event(std::uint16_t type) {
  return type >= TERN_EV_QP_FATAL && type <= TERN_EV_PATH_MIG_ERR;
}

// Bytes [begin, end) of a QP's buffer, used by one of its rings.
struct Part {
  std::uint64_t begin;
  std::uint64_t end;
};

constexpr std::uint64_t kMaxGap = 1 << TERN_PAGE_SHIFT_MAX;

bool overlap(const Part& a, const Part& b) { return a.begin < b.end && b.begin < a.end; }

// Checks that SQ and RQ are each within their limits, 64-byte aligned and do not overlap.
// Qp::init() checks that the page list covers them.
Status check_layout(const tern_cmd_create_qp& cmd) {
  std::array<Part, 2> parts;
  std::size_t n = 0;
  const auto add = [&](std::uint32_t offset, std::uint64_t bytes) {
    parts[n++] = {offset, offset + bytes};
    return offset % TERN_RECORD_LINE == 0;
  };
  const auto log_ok = [](std::uint8_t size, std::uint8_t stride, unsigned min, unsigned max) {
    return size <= kMaxLogWq && stride >= min && stride <= max;
  };
  if (!(cmd.flags & TERN_QP_F_NO_SQ) &&
      (!log_ok(cmd.log_sq_size, cmd.log_sq_stride, TERN_SQ_STRIDE_MIN, TERN_SQ_STRIDE_MAX) ||
       !add(le(std::uint32_t{cmd.sq_offset}),
            std::uint64_t{1} << (cmd.log_sq_size + cmd.log_sq_stride)))) {
    return TERN_ST_BAD_PARAM;
  }
  if (!(cmd.flags & TERN_QP_F_NO_RQ) &&
      (!log_ok(cmd.log_rq_size, cmd.log_rq_stride, TERN_RQ_STRIDE_MIN, TERN_RQ_STRIDE_MAX) ||
       !add(le(std::uint32_t{cmd.rq_offset}),
            std::uint64_t{1} << (cmd.log_rq_size + cmd.log_rq_stride)))) {
    return TERN_ST_BAD_PARAM;
  }
  if (n == 2 && overlap(parts[0], parts[1])) return TERN_ST_BAD_PARAM;
  // The page list has entries for the gaps before and between the rings too, so a gap is limited to
  // the largest page of a host.
  std::ranges::sort(std::span(parts).first(n), {}, &Part::begin);
  std::uint64_t end = 0;
  for (const Part& part : std::span(parts).first(n)) {
    if (part.begin - end > kMaxGap) return TERN_ST_BAD_PARAM;
    end = part.end;
  }
  return TERN_ST_OK;
}

// An XRC target has no buffer and refers only to its domain.
Status check_target(const tern_cmd_create_qp& cmd) {
  const bool bare = is_none(cmd.pages) && cmd.sq_offset == 0 && cmd.rq_offset == 0 &&
                    cmd.record == 0 && cmd.pdn == 0 && cmd.uar == 0 && cmd.send_cqn == 0 &&
                    cmd.recv_cqn == 0;
  return bare ? TERN_ST_OK : TERN_ST_BAD_PARAM;
}

// Joins the groups of the parents. `fixed`: lane 0 has to serve the QP.
LaneGroup& join_parents(Device& device, const QpParents& p, bool fixed) {
  LaneMember& base = p.pd != nullptr ? p.pd->lane_member : p.xrcd->lane_member;
  if (p.send_cq != nullptr) device.join(base, p.send_cq->lane_member);
  if (p.recv_cq != nullptr) device.join(base, p.recv_cq->lane_member);
  if (p.srq != nullptr) device.join(base, p.srq->lane_member);
  if (fixed) device.fix(base.group());
  device.place(base.group());
  return base.group();
}

}  // namespace

Status check_qp(const tern_cmd_create_qp& cmd) {
  constexpr unsigned every = TERN_QP_F_SRQ | TERN_QP_F_NO_SQ | TERN_QP_F_NO_RQ;
  unsigned known = every;
  if (cmd.type == TERN_QPT_RAW)
    known |= TERN_QP_F_STRIP_VLAN | TERN_QP_F_KEEP_FCS | TERN_QP_F_NO_MCAST_LOOPBACK;
  if (cmd.type == TERN_QPT_UD) known |= TERN_QP_F_NO_MCAST_LOOPBACK;
  if (cmd.type > TERN_QPT_RAW || (cmd.flags & ~known)) return TERN_ST_BAD_PARAM;
  const bool initiator = cmd.type == TERN_QPT_XRC_INI;
  const bool target = cmd.type == TERN_QPT_XRC_TGT;
  // A QP with an SRQ has no RQ of its own.
  const bool shares = cmd.flags & TERN_QP_F_SRQ;
  if (shares && (!(cmd.flags & TERN_QP_F_NO_RQ) || cmd.type == TERN_QPT_GSI)) {
    return TERN_ST_BAD_PARAM;
  }
  // A QP without an SRQ or XRC domain must have 0 in place of its number.
  if ((!shares && cmd.srqn != 0) || (!target && cmd.xrcdn != 0)) return TERN_ST_BAD_PARAM;
  // An XRC initiator has no RQ; an XRC target has no SQ either.
  if (initiator && cmd.flags != TERN_QP_F_NO_RQ) return TERN_ST_BAD_PARAM;
  if (target && cmd.flags != (TERN_QP_F_NO_RQ | TERN_QP_F_NO_SQ)) return TERN_ST_BAD_PARAM;
  return target ? check_target(cmd) : check_layout(cmd);
}

Status find_qp_parents(const Registry& registry, const tern_cmd_create_qp& cmd, QpParents& p) {
  if (cmd.type == TERN_QPT_XRC_TGT) {
    p.xrcd = registry.xrcds.find(le(std::uint32_t{cmd.xrcdn}));
    return p.xrcd != nullptr ? TERN_ST_OK : TERN_ST_BAD_HANDLE;
  }
  const bool shares = cmd.flags & TERN_QP_F_SRQ;
  p.pd = registry.pds.find(le(std::uint32_t{cmd.pdn}));
  p.send_cq = registry.cqs.find(le(std::uint32_t{cmd.send_cqn}));
  p.recv_cq = registry.cqs.find(le(std::uint32_t{cmd.recv_cqn}));
  if (shares) p.srq = registry.srqs.find(le(std::uint32_t{cmd.srqn}));
  if (p.pd == nullptr || p.send_cq == nullptr || p.recv_cq == nullptr ||
      (shares && p.srq == nullptr))
    return TERN_ST_BAD_HANDLE;
  // An XRC SRQ receives only messages that refer to it.
  if (shares && p.srq->xrcd() != 0) return TERN_ST_BAD_PARAM;
  // All messages to an SRQ with tags complete in one order.
  if (shares && p.srq->tags() != nullptr) {
    if (cmd.type != TERN_QPT_RC) return TERN_ST_BAD_PARAM;
    p.recv_cq = p.srq->cq();
  }
  return TERN_ST_OK;
}

Status create_qp(Admin&, Device& device, const tern_cmd_create_qp& cmd, Reply& reply) {
  QpParents p;
  if (const Status st = check_qp(cmd); st != TERN_ST_OK) return st;
  if (const Status st = find_qp_parents(device.registry, cmd, p); st != TERN_ST_OK) return st;
  if (p.pd != nullptr && !device.datapath.uars.live(le(std::uint32_t{cmd.uar})))
    return TERN_ST_BAD_HANDLE;
  // A dead CQ reported its failure to the QPs it had; a new one would never learn of it.
  if (p.send_cq != nullptr && (p.send_cq->broken() || p.recv_cq->broken()))
    return TERN_ST_BAD_STATE;
  const bool privileged = p.pd != nullptr && p.pd->privileged;
  const bool gsi = cmd.type == TERN_QPT_GSI;
  if (gsi && !privileged) return TERN_ST_DENIED;
  if (gsi ? device.registry.qps.find(kGsiQpn) != nullptr : !device.registry.qp_number_left())
    return TERN_ST_NO_RESOURCE;
  LaneGroup& group = join_parents(device, p, gsi || cmd.type == TERN_QPT_RAW);
  Context& lane = group.lane();
  auto qp = std::make_unique<Qp>(lane, cmd, p.send_cq, p.recv_cq, privileged, p.srq);
  if (const Status st = qp->init(); st != TERN_ST_OK) return st;
  Qp* const made = qp.get();
  ++group.qps;
  std::uint32_t qpn = kGsiQpn;
  if (gsi) {
    device.registry.qps.put(kGsiQpn, std::move(qp));
  } else {
    qpn = device.registry.qps.insert(std::move(qp));
  }
  made->set_number(Qpn(qpn));
  device.registry.qp_lanes.set(qpn, lane.lane);
  if (device.datapath.log != nullptr)
    made->log_state(TERN_LOG_NO_QP, TERN_QPS_RESET, TERN_LOG_BY_COMMAND);
  // Another queue may have used the record before.
  made->store_status();
  if (made->xrc_target()) {
    p.xrcd->targets.push_back(made->domain_entry());
  } else {
    lane.uars.add(made->uar(), made->page_queue());
  }
  ++(p.pd != nullptr ? p.pd->users : p.xrcd->users);
  reply.set_id(qpn, made->generation());
  return TERN_ST_OK;
}

Status destroy_qp(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  Qp* const qp = device.registry.qps.find(id_of(cmd));
  if (qp == nullptr) return TERN_ST_BAD_HANDLE;
  if (device.port.ethernet.refers_to_qp(id_of(cmd))) return TERN_ST_BUSY;
  qp->end_tags();
  --device.registry.member_of(*qp).group().qps;
  device.registry.qp_lanes.set(id_of(cmd), 0);
  if (Registry::Xrcd* const xrcd = device.registry.xrcds.find(qp->xrcd()); xrcd != nullptr)
    --xrcd->users;
  if (Registry::Pd* const pd = device.registry.pds.find(qp->pd().value); pd != nullptr) --pd->users;
  constexpr std::uint64_t kGroupWork = 64;  // to leave a group, in page list entries
  const std::uint32_t groups = device.port.multicast.forget(*qp);
  device.datapath.visits += groups;
  device.registry.page_budget.work(groups * kGroupWork);
  if (device.datapath.log != nullptr)
    qp->log_state(qp->state(), TERN_LOG_NO_QP, TERN_LOG_BY_COMMAND);
  device.registry.remove_qp(id_of(cmd));
  device.registry.async_events.forget(id_of(cmd), is_qp_event);
  return TERN_ST_OK;
}

Status modify_qp(Admin&, Device& device, const tern_cmd_modify_qp& cmd, Reply&) {
  Qp* const qp = device.registry.qps.find(le(std::uint32_t{cmd.qpn}));
  return qp == nullptr ? TERN_ST_BAD_HANDLE : qp->modify(cmd);
}

Status resume_qp(Admin&, Device& device, const tern_cmd_resume_qp& cmd, Reply&) {
  if (cmd.side > TERN_FAULT_RESPONDER || cmd.result > TERN_RESUME_FAIL) return TERN_ST_BAD_PARAM;
  Qp* const qp = device.registry.qps.find(le(std::uint32_t{cmd.qpn}));
  if (qp == nullptr) return TERN_ST_BAD_HANDLE;
  return qp->resume_fault(cmd.side, le(std::uint32_t{cmd.token}), cmd.result);
}

Status query_qp(Admin&, Device& device, const tern_cmd_object& cmd, Reply& reply) {
  const Qp* const qp = device.registry.qps.find(id_of(cmd));
  if (qp == nullptr) return TERN_ST_BAD_HANDLE;
  tern_rsp_query_qp rsp;
  qp->query(&rsp);
  reply.set(rsp);
  return TERN_ST_OK;
}

}  // namespace tern::commands
