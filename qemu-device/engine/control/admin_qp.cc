// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on queue pairs.
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

#include "control/admin.h"
#include "control/admin_commands.h"
#include "control/device.h"
#include "core/limits.h"

namespace tern::commands {

namespace {

std::uint32_t id_of(const tern_cmd_object& cmd) { return le(std::uint32_t{cmd.id}); }

bool is_qp_event(std::uint16_t type) {
  return type >= TERN_EV_QP_FATAL && type <= TERN_EV_PATH_MIG_ERR;
}

// What one part of a QP's buffer takes: bytes [begin, end).
struct Part {
  std::uint64_t begin;
  std::uint64_t end;
};

bool overlap(const Part& a, const Part& b) { return a.begin < b.end && b.begin < a.end; }

// SQ, RQ and record: each in its limits, 64-byte aligned, none over another. That the page
// list covers them is the QP's check.
Status check_layout(const tern_cmd_create_qp& cmd) {
  std::array<Part, 3> parts;
  std::size_t n = 0;
  const auto add = [&](std::uint32_t offset, std::uint64_t bytes) {
    parts[n++] = {offset, offset + bytes};
    return offset % TERN_RECORD_SIZE == 0;
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
  if (!add(le(std::uint32_t{cmd.record_offset}), TERN_RECORD_SIZE)) return TERN_ST_BAD_PARAM;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      if (overlap(parts[i], parts[j])) return TERN_ST_BAD_PARAM;
    }
  }
  return TERN_ST_OK;
}

Status check_type(const tern_cmd_create_qp& cmd) {
  constexpr unsigned known = TERN_QP_F_SRQ | TERN_QP_F_NO_SQ | TERN_QP_F_NO_RQ;
  if (cmd.type > TERN_QPT_GSI || (cmd.flags & ~known)) return TERN_ST_BAD_PARAM;
  const bool supported = cmd.type == TERN_QPT_RC || cmd.type == TERN_QPT_UC ||
                         cmd.type == TERN_QPT_UD || cmd.type == TERN_QPT_GSI;
  if (!supported) return TERN_ST_NOT_SUPPORTED;
  // Of an SRQ or an XRC domain that is not there nothing may be said; and who takes WQEs from an
  // SRQ has no RQ besides.
  const bool shares = cmd.flags & TERN_QP_F_SRQ;
  if (shares && !(cmd.flags & TERN_QP_F_NO_RQ)) return TERN_ST_BAD_PARAM;
  return (!shares && cmd.srqn != 0) || cmd.xrcdn != 0 ? TERN_ST_BAD_PARAM : TERN_ST_OK;
}

}  // namespace

Status create_qp(Admin& admin, Device& device, const tern_cmd_create_qp& cmd, Reply& reply) {
  if (const Status st = check_type(cmd); st != TERN_ST_OK) return st;
  if (const Status st = check_layout(cmd); st != TERN_ST_OK) return st;
  Device::Pd* const pd = device.pds.find(le(std::uint32_t{cmd.pdn}));
  Cq* const send_cq = device.cqs.find(le(std::uint32_t{cmd.send_cqn}));
  Cq* const recv_cq = device.cqs.find(le(std::uint32_t{cmd.recv_cqn}));
  const bool shares = cmd.flags & TERN_QP_F_SRQ;
  Srq* const srq = shares ? device.srqs.find(le(std::uint32_t{cmd.srqn})) : nullptr;
  if (pd == nullptr || send_cq == nullptr || recv_cq == nullptr || (shares && srq == nullptr) ||
      !admin.uar_live(le(std::uint32_t{cmd.uar}))) {
    return TERN_ST_BAD_HANDLE;
  }
  // A dead CQ has told its QPs that it died; one that came later would never know.
  if (send_cq->broken() || recv_cq->broken()) return TERN_ST_BAD_STATE;
  const bool gsi = cmd.type == TERN_QPT_GSI;
  if (gsi && !pd->privileged) return TERN_ST_DENIED;
  if (gsi ? device.qps.find(kGsiQpn) != nullptr : device.qps.full()) return TERN_ST_NO_RESOURCE;
  auto qp = std::make_unique<Qp>(device, cmd, send_cq, recv_cq, pd->privileged, srq);
  if (const Status st = qp->init(); st != TERN_ST_OK) return st;
  Qp* const made = qp.get();
  std::uint32_t qpn = kGsiQpn;
  if (gsi) {
    device.qps.put(kGsiQpn, std::move(qp));
  } else {
    qpn = device.qps.insert(std::move(qp));
  }
  made->set_number(Qpn(qpn));
  ++pd->users;
  reply.set_id(qpn);
  return TERN_ST_OK;
}

Status destroy_qp(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  const Qp* const qp = device.qps.find(id_of(cmd));
  if (qp == nullptr) return TERN_ST_BAD_HANDLE;
  --device.pds.find(qp->pd().value)->users;
  device.qps.erase(id_of(cmd));
  device.async_events.forget(id_of(cmd), is_qp_event);
  return TERN_ST_OK;
}

Status modify_qp(Admin&, Device& device, const tern_cmd_modify_qp& cmd, Reply&) {
  Qp* const qp = device.qps.find(le(std::uint32_t{cmd.qpn}));
  return qp == nullptr ? TERN_ST_BAD_HANDLE : qp->modify(cmd);
}

Status query_qp(Admin&, Device& device, const tern_cmd_object& cmd, Reply& reply) {
  const Qp* const qp = device.qps.find(id_of(cmd));
  if (qp == nullptr) return TERN_ST_BAD_HANDLE;
  tern_rsp_query_qp rsp;
  qp->query(&rsp);
  reply.set(rsp);
  return TERN_ST_OK;
}

}  // namespace tern::commands
