// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on doorbell pages, protection domains, event and completion queues, regions
// and windows.
#include <memory>
#include <utility>

#include "control/admin.h"
#include "control/admin_commands.h"
#include "control/device.h"

namespace tern::commands {

namespace {

bool is_cq_event(std::uint16_t type) { return type == TERN_EV_CQ_ERR; }

}  // namespace

// ---- doorbell pages and protection domains ----

Status alloc_uar(Admin&, Device& device, const None&, Reply& reply) {
  std::uint32_t uar;
  const Status st = device.datapath.uars.alloc(UarPages::Use::kQueues, &uar);
  if (st == TERN_ST_OK) reply.set_id(uar);
  return st;
}

Status free_uar(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  for (unsigned i = 1; i < device.lanes(); ++i) {
    if (device.lane(i).uars.used(id_of(cmd))) return TERN_ST_BUSY;
  }
  if (const Status st = device.datapath.uars.free(id_of(cmd)); st != TERN_ST_OK) return st;
  for (unsigned i = 1; i < device.lanes(); ++i) device.lane(i).uars.forget(id_of(cmd));
  device.registry.dm_ops.unmap(id_of(cmd));
  return TERN_ST_OK;
}

Status alloc_pd(Admin&, Device& device, const tern_cmd_alloc_pd& cmd, Reply& reply) {
  const std::uint32_t flags = le(std::uint32_t{cmd.flags});
  if (flags & ~TERN_PD_PRIVILEGED) return TERN_ST_BAD_PARAM;
  if (device.registry.pds.full()) return TERN_ST_NO_RESOURCE;
  auto pd = std::make_unique<Registry::Pd>(device.datapath);
  pd->privileged = flags & TERN_PD_PRIVILEGED;
  Registry::Pd* const made = pd.get();
  made->number = device.registry.pds.insert(std::move(pd));
  device.registry.pd_lanes.set(made->number, 0);
  reply.set_id(made->number);
  return TERN_ST_OK;
}

Status free_pd(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  const Registry::Pd* const pd = device.registry.pds.find(id_of(cmd));
  if (pd == nullptr) return TERN_ST_BAD_HANDLE;
  if (pd->users != 0 || device.registry.memory.users_of(Pdn(id_of(cmd))) != 0) return TERN_ST_BUSY;
  device.registry.pds.erase(id_of(cmd));
  return TERN_ST_OK;
}

// ---- event queues ----

Status create_eq(Admin&, Device& device, const tern_cmd_create_eq& cmd, Reply& reply) {
  auto eq = std::make_unique<Eq>(device.datapath, cmd);
  if (const Status st = eq->init(); st != TERN_ST_OK) return st;
  Eq** const only = eq->kind() == TERN_EQ_ASYNC   ? &device.registry.async_events.eq
                    : eq->kind() == TERN_EQ_FAULT ? &device.registry.page_faults.eq
                                                  : nullptr;
  if (device.registry.eqs.full() || (only != nullptr && *only != nullptr))
    return TERN_ST_NO_RESOURCE;
  if (only != nullptr) *only = eq.get();
  reply.set_id(device.registry.eqs.insert(std::move(eq)));
  if (only != nullptr) device.datapath.flush_events();
  return TERN_ST_OK;
}

Status destroy_eq(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  const Eq* const eq = device.registry.eqs.find(id_of(cmd));
  if (eq == nullptr) return TERN_ST_BAD_HANDLE;
  if (eq->users() != 0) return TERN_ST_BUSY;
  if (eq == device.registry.async_events.eq) device.registry.async_events.eq = nullptr;
  if (eq == device.registry.page_faults.eq) device.registry.page_faults.eq = nullptr;
  device.registry.eqs.erase(id_of(cmd));
  return TERN_ST_OK;
}

// ---- completion queues ----

Status create_cq(Admin&, Device& device, const tern_cmd_create_cq& cmd, Reply& reply) {
  const std::uint32_t eqn = le(std::uint32_t{cmd.eqn});
  Eq* const eq = eqn == TERN_NO_EQ ? nullptr : device.registry.eqs.find(eqn);
  if ((eqn != TERN_NO_EQ && eq == nullptr) ||
      !device.datapath.uars.live(le(std::uint32_t{cmd.uar}))) {
    return TERN_ST_BAD_HANDLE;
  }
  if (eq != nullptr && eq->kind() != TERN_EQ_COMPLETION) return TERN_ST_BAD_PARAM;
  // One entry for each CQ: the event queue cannot overflow.
  if (device.registry.cqs.full() || (eq != nullptr && eq->users() == eq->size()))
    return TERN_ST_NO_RESOURCE;
  auto cq = std::make_unique<Cq>(device.datapath, cmd, eq);
  if (const Status st = cq->init(); st != TERN_ST_OK) return st;
  Cq* const made = cq.get();
  const std::uint32_t cqn = device.registry.cqs.insert(std::move(cq));
  made->set_number(cqn);
  device.datapath.uars.add(made->uar(), made->page_queue());
  reply.set_id(cqn, made->generation());
  return TERN_ST_OK;
}

Status destroy_cq(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  const Cq* const cq = device.registry.cqs.find(id_of(cmd));
  if (cq == nullptr) return TERN_ST_BAD_HANDLE;
  if (cq->used()) return TERN_ST_BUSY;
  device.registry.cqs.erase(id_of(cmd));
  device.registry.async_events.forget(id_of(cmd), is_cq_event);
  return TERN_ST_OK;
}

Status resize_cq(Admin&, Device& device, const tern_cmd_resize_cq& cmd, Reply& reply) {
  Cq* const cq = device.registry.cqs.find(le(std::uint32_t{cmd.cqn}));
  if (cq == nullptr) return TERN_ST_BAD_HANDLE;
  tern_rsp_resize_cq rsp;
  const Status st = cq->resize(cmd, &rsp);
  if (st == TERN_ST_OK) reply.set(rsp);
  return st;
}

Status modify_cq(Admin&, Device& device, const tern_cmd_modify_cq& cmd, Reply&) {
  Cq* const cq = device.registry.cqs.find(le(std::uint32_t{cmd.cqn}));
  return cq == nullptr ? TERN_ST_BAD_HANDLE : cq->modify(cmd);
}

Status query_cq(Admin&, Device& device, const tern_cmd_object& cmd, Reply& reply) {
  const Cq* const cq = device.registry.cqs.find(id_of(cmd));
  if (cq == nullptr) return TERN_ST_BAD_HANDLE;
  tern_rsp_query_cq rsp;
  const Status st = cq->query(&rsp);
  if (st == TERN_ST_OK) reply.set(rsp);
  return st;
}

// ---- regions ----

Status create_mr(Admin&, Device& device, const tern_cmd_create_mr& cmd, Reply& reply) {
  const Registry::Pd* const pd = device.registry.pds.find(le(std::uint32_t{cmd.pdn}));
  if (pd == nullptr) return TERN_ST_BAD_HANDLE;
  if (cmd.kind == TERN_MR_FAST && !pd->privileged) return TERN_ST_DENIED;
  std::uint32_t key;
  const Status st = device.registry.memory.create_mr(cmd, &key);
  if (st == TERN_ST_OK) reply.set_id(key);
  return st;
}

Status destroy_mr(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  return device.registry.memory.destroy_mr(id_of(cmd));
}

Status rereg_mr(Admin&, Device& device, const tern_cmd_rereg_mr& cmd, Reply&) {
  const bool pd = le(std::uint32_t{cmd.mask}) & TERN_REREG_PD;
  if (pd && device.registry.pds.find(le(std::uint32_t{cmd.pdn})) == nullptr)
    return TERN_ST_BAD_HANDLE;
  return device.registry.memory.rereg_mr(cmd);
}

Status update_pages(Admin&, Device& device, const tern_cmd_update_pages& cmd, Reply&) {
  return device.registry.memory.update_pages(cmd);
}

Status query_mr(Admin&, Device& device, const tern_cmd_object& cmd, Reply& reply) {
  tern_rsp_mr rsp;
  const Status st = device.registry.memory.query(id_of(cmd), &rsp);
  if (st == TERN_ST_OK) reply.set(rsp);
  return st;
}

// ---- windows ----

Status alloc_mw(Admin&, Device& device, const tern_cmd_alloc_mw& cmd, Reply& reply) {
  const std::uint32_t pdn = le(std::uint32_t{cmd.pdn});
  if (device.registry.pds.find(pdn) == nullptr) return TERN_ST_BAD_HANDLE;
  std::uint32_t key;
  const Status st = device.registry.memory.alloc_mw(Pdn(pdn), cmd.type, &key);
  if (st == TERN_ST_OK) reply.set_id(key);
  return st;
}

Status free_mw(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  return device.registry.memory.free_mw(id_of(cmd));
}

// ---- device memory ----

Status alloc_dm(Admin& admin, Device& device, const tern_cmd_alloc_dm& cmd, Reply& reply) {
  constexpr std::uint64_t kPartWork = 4;  // to check a part, in page list entries
  device.registry.page_budget.work(device.registry.dm.counts().parts * kPartWork);
  tern_rsp_alloc_dm rsp;
  const Status st = device.registry.dm.alloc(cmd, admin.page_shift(), &rsp);
  if (st != TERN_ST_OK) return st;
  reply.set(rsp);
  reply.when_clear(le(rsp.dmn));
  return TERN_ST_OK;
}

Status free_dm(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  return device.registry.dm.free(id_of(cmd));
}

Status map_dm_op(Admin& admin, Device& device, const tern_cmd_map_dm_op& cmd, Reply& reply) {
  DmOps& ops = device.registry.dm_ops;
  if (const Status st = ops.check(cmd, admin.page_shift()); st != TERN_ST_OK) return st;
  std::uint32_t uar;
  const Status st = device.datapath.uars.alloc(UarPages::Use::kDmOp, &uar);
  if (st != TERN_ST_OK) return st;
  ops.map(cmd, uar);
  reply.set_id(uar);
  return TERN_ST_OK;
}

}  // namespace tern::commands
