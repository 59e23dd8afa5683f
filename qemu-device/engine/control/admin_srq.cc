// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on shared receive queues and XRC domains.
#include <memory>
#include <utility>

#include "control/admin.h"
#include "control/admin_commands.h"
#include "control/device.h"

namespace tern::commands {

namespace {

bool is_srq_event(std::uint16_t type) {
  return type == TERN_EV_SRQ_ERR || type == TERN_EV_SRQ_LIMIT;
}

}  // namespace

// Checks that the numbers and sizes that this kind of SRQ does not use are 0.
Status check_srq(const tern_cmd_create_srq& cmd, const Config& config) {
  const bool xrc = cmd.flags == TERN_SRQ_F_XRC;
  const bool tm = cmd.flags == TERN_SRQ_F_TM;
  if (cmd.flags != 0 && !xrc && !tm) return TERN_ST_BAD_PARAM;
  if (tm && config.max_tags == 0) return TERN_ST_NOT_SUPPORTED;
  const bool has_ring =
      cmd.log_ops != 0 || !is_none(cmd.ops_pages) || cmd.uar != 0 || cmd.max_tags != 0;
  if ((!xrc && cmd.xrcdn != 0) || (!xrc && !tm && cmd.cqn != 0) || (!tm && has_ring))
    return TERN_ST_BAD_PARAM;
  return TERN_ST_OK;
}

Status alloc_xrcd(Admin&, Device& device, const None&, Reply& reply) {
  if (device.registry.xrcds.full()) return TERN_ST_NO_RESOURCE;
  reply.set_id(device.registry.xrcds.insert(std::make_unique<Registry::Xrcd>(device.datapath)));
  return TERN_ST_OK;
}

Status free_xrcd(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  const Registry::Xrcd* const xrcd = device.registry.xrcds.find(id_of(cmd));
  if (xrcd == nullptr) return TERN_ST_BAD_HANDLE;
  if (xrcd->users != 0) return TERN_ST_BUSY;
  device.registry.xrcds.erase(id_of(cmd));
  return TERN_ST_OK;
}

Status create_srq(Admin&, Device& device, const tern_cmd_create_srq& cmd, Reply& reply) {
  if (const Status st = check_srq(cmd, device.registry.config); st != TERN_ST_OK) return st;
  const bool xrc = cmd.flags == TERN_SRQ_F_XRC;
  const bool has_cq = cmd.flags != 0;
  Registry::Pd* const pd = device.registry.pds.find(le(std::uint32_t{cmd.pdn}));
  Registry::Xrcd* const xrcd =
      xrc ? device.registry.xrcds.find(le(std::uint32_t{cmd.xrcdn})) : nullptr;
  Cq* const cq = has_cq ? device.registry.cqs.find(le(std::uint32_t{cmd.cqn})) : nullptr;
  if (pd == nullptr || (xrc && xrcd == nullptr) || (has_cq && cq == nullptr) ||
      (cmd.flags == TERN_SRQ_F_TM && !device.datapath.uars.live(le(std::uint32_t{cmd.uar})))) {
    return TERN_ST_BAD_HANDLE;
  }
  // A dead CQ reported its failure to the SRQs it had; a new one would never learn of it.
  if (has_cq && cq->broken()) return TERN_ST_BAD_STATE;
  if (device.registry.srqs.full()) return TERN_ST_NO_RESOURCE;
  if (cq != nullptr) device.join(pd->lane_member, cq->lane_member);
  if (xrcd != nullptr) device.join(pd->lane_member, xrcd->lane_member);
  Context& lane = pd->lane_member.group().lane();
  auto srq = std::make_unique<Srq>(lane, cmd, pd->privileged, cq);
  if (const Status st = srq->init(); st != TERN_ST_OK) return st;
  Srq* const made = srq.get();
  device.join(pd->lane_member, made->lane_member);
  const std::uint32_t srqn = device.registry.srqs.insert(std::move(srq));
  made->set_number(srqn);
  // Another queue may have used the record before. If it is unreachable, the SRQ fails with the
  // first WQE.
  (void)made->store_ci();
  if (TagList* const tags = made->tags(); tags != nullptr) {
    (void)tags->store_indices();
    lane.uars.add(tags->uar(), tags->page_queue());
  }
  ++pd->users;
  if (xrc) ++xrcd->users;
  reply.set_id(srqn, made->generation());
  return TERN_ST_OK;
}

Status destroy_srq(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  const Srq* const srq = device.registry.srqs.find(id_of(cmd));
  if (srq == nullptr) return TERN_ST_BAD_HANDLE;
  if (srq->users() != 0) return TERN_ST_BUSY;
  --device.registry.pds.find(srq->pd().value)->users;
  if (Registry::Xrcd* const xrcd = device.registry.xrcds.find(srq->xrcd()); xrcd != nullptr)
    --xrcd->users;
  device.registry.srqs.erase(id_of(cmd));
  device.registry.async_events.forget(id_of(cmd), is_srq_event);
  return TERN_ST_OK;
}

Status modify_srq(Admin&, Device& device, const tern_cmd_modify_srq& cmd, Reply&) {
  Srq* const srq = device.registry.srqs.find(le(std::uint32_t{cmd.srqn}));
  return srq == nullptr ? TERN_ST_BAD_HANDLE : srq->modify(cmd);
}

Status query_srq(Admin&, Device& device, const tern_cmd_object& cmd, Reply& reply) {
  const Srq* const srq = device.registry.srqs.find(id_of(cmd));
  if (srq == nullptr) return TERN_ST_BAD_HANDLE;
  tern_rsp_query_srq rsp;
  srq->query(&rsp);
  reply.set(rsp);
  return TERN_ST_OK;
}

}  // namespace tern::commands
