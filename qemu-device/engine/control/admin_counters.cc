// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on counter sets and completion counters.
#include <memory>
#include <utility>

#include "control/admin_commands.h"
#include "control/device.h"

namespace tern::commands {

Status create_counter_set(Admin&, Device& device, const None&, Reply& reply) {
  if (device.registry.counter_sets.full()) return TERN_ST_NO_RESOURCE;
  auto set = std::make_unique<CounterSet>(device.datapath);
  CounterSet* const made = set.get();
  made->number = device.registry.counter_sets.insert(std::move(set));
  reply.set_id(made->number);
  return TERN_ST_OK;
}

Status destroy_counter_set(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  const CounterSet* const set = device.registry.counter_sets.find(id_of(cmd));
  if (set == nullptr) return TERN_ST_BAD_HANDLE;
  if (set->users != 0) return TERN_ST_BUSY;
  device.registry.counter_sets.erase(id_of(cmd));
  return TERN_ST_OK;
}

Status query_counter_set(Admin&, Device& device, const tern_cmd_object& cmd, Reply& reply) {
  const CounterSet* const set = device.registry.counter_sets.find(id_of(cmd));
  if (set == nullptr) return TERN_ST_BAD_HANDLE;
  auto counters = set->values.rdma;
  for (std::uint64_t& value : counters) value = le(value);
  reply.set(counters);
  return TERN_ST_OK;
}

Status bind_counter_set(Admin&, Device& device, const tern_cmd_bind_counter_set& cmd, Reply&) {
  const std::uint32_t number = le(std::uint32_t{cmd.set});
  Qp* const qp = device.registry.qps.find(le(std::uint32_t{cmd.qpn}));
  CounterSet* const set = number != 0 ? device.registry.counter_sets.find(number) : nullptr;
  if (qp == nullptr || (number != 0 && set == nullptr)) return TERN_ST_BAD_HANDLE;
  if (set != nullptr) device.join(set->lane_member, device.registry.member_of(*qp));
  qp->bind(set);
  return TERN_ST_OK;
}

Status create_comp_cntr(Admin&, Device& device, const tern_cmd_create_comp_cntr& cmd,
                        Reply& reply) {
  if (device.registry.comp_counters.full()) return TERN_ST_NO_RESOURCE;
  auto counter = std::make_unique<CompCounter>(device.datapath, cmd);
  if (const Status st = counter->init(); st != TERN_ST_OK) return st;
  CompCounter* const made = counter.get();
  made->number = device.registry.comp_counters.insert(std::move(counter));
  reply.set_id(made->number);
  return TERN_ST_OK;
}

Status destroy_comp_cntr(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  const CompCounter* const counter = device.registry.comp_counters.find(id_of(cmd));
  if (counter == nullptr) return TERN_ST_BAD_HANDLE;
  if (counter->users != 0) return TERN_ST_BUSY;
  device.registry.comp_counters.erase(id_of(cmd));
  return TERN_ST_OK;
}

Status modify_comp_cntr(Admin&, Device& device, const tern_cmd_modify_comp_cntr& cmd, Reply&) {
  CompCounter* const counter = device.registry.comp_counters.find(le(std::uint32_t{cmd.id}));
  return counter != nullptr ? counter->modify(cmd) : TERN_ST_BAD_HANDLE;
}

Status attach_comp_cntr(Admin&, Device& device, const tern_cmd_attach_comp_cntr& cmd, Reply&) {
  CompCounter* const counter = device.registry.comp_counters.find(le(std::uint32_t{cmd.id}));
  Qp* const qp = device.registry.qps.find(le(std::uint32_t{cmd.qpn}));
  if (counter == nullptr || qp == nullptr) return TERN_ST_BAD_HANDLE;
  const std::uint32_t ops = le(std::uint32_t{cmd.ops});
  const Status st = qp->check_attach(ops);
  if (st != TERN_ST_OK) return st;
  device.join(counter->lane_member, device.registry.member_of(*qp));
  qp->attach(*counter, ops);
  return TERN_ST_OK;
}

}  // namespace tern::commands
