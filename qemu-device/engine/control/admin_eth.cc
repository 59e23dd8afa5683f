// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on the Ethernet function: queues, receive filter, RSS groups, flows and their counters.
#include "control/admin.h"
#include "control/admin_commands.h"
#include "control/device.h"

namespace tern::commands {

Status create_eth_queue(Admin&, Device& device, const tern_cmd_create_eth_queue& cmd,
                        Reply& reply) {
  if (!device.datapath.uars.live(le(std::uint32_t{cmd.uar}))) return TERN_ST_BAD_HANDLE;
  std::uint32_t id;
  Cq* const cq = device.registry.cqs.find(le(cmd.cqn));
  if (cq != nullptr) device.fix(cq->lane_member.group());
  const Status st = device.port.ethernet.create_queue(cmd, cq, device.datapath.uars, &id);
  if (st == TERN_ST_OK) reply.set_id(id);
  return st;
}

Status destroy_eth_queue(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  return device.port.ethernet.destroy_queue(id_of(cmd));
}

Status set_rx_filter(Admin&, Device& device, const tern_cmd_set_rx_filter& cmd, Reply&) {
  return device.port.ethernet.set_filter(cmd);
}

Status set_rx_default(Admin&, Device& device, const tern_cmd_set_rx_default& cmd, Reply&) {
  return device.port.ethernet.set_default(cmd);
}

Status create_rss(Admin&, Device& device, const tern_cmd_rss& cmd, Reply& reply) {
  std::uint32_t id;
  const Status st = device.port.ethernet.create_rss(cmd, &id);
  if (st == TERN_ST_OK) reply.set_id(id);
  return st;
}

Status modify_rss(Admin&, Device& device, const tern_cmd_rss& cmd, Reply&) {
  return device.port.ethernet.modify_rss(cmd);
}

Status destroy_rss(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  return device.port.ethernet.destroy_rss(id_of(cmd));
}

Status create_flow(Admin&, Device& device, const tern_cmd_create_flow& cmd, Reply& reply) {
  std::uint32_t id;
  const Status st = device.port.ethernet.create_flow(cmd, &id);
  if (st != TERN_ST_OK) return st;
  device.update_lanes();
  reply.set_id(id);
  return TERN_ST_OK;
}

Status destroy_flow(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  const Status st = device.port.ethernet.destroy_flow(id_of(cmd));
  device.update_lanes();
  return st;
}

Status create_flow_counter(Admin&, Device& device, const None&, Reply& reply) {
  std::uint32_t id;
  const Status st = device.port.ethernet.steering.create_counter(&id);
  if (st == TERN_ST_OK) reply.set_id(id);
  return st;
}

Status query_flow_counter(Admin&, Device& device, const tern_cmd_object& cmd, Reply& reply) {
  tern_rsp_flow_counter rsp{};
  const Status st = device.port.ethernet.steering.query_counter(id_of(cmd), rsp);
  if (st == TERN_ST_OK) reply.set(rsp);
  return st;
}

Status destroy_flow_counter(Admin&, Device& device, const tern_cmd_object& cmd, Reply&) {
  return device.port.ethernet.steering.destroy_counter(id_of(cmd));
}

}  // namespace tern::commands
