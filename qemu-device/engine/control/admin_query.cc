// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on the device as a whole, the port and the Ethernet function.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "control/admin.h"
#include "control/admin_commands.h"
#include "control/device.h"
#include "core/limits.h"

namespace tern::commands {

namespace {

constexpr std::string_view kName = "tern engine 1.0";
constexpr std::uint32_t kDeviceVersion = 1;
static_assert(kName.size() < sizeof(tern_rsp_caps::fw_name));

// EUI-64 of a MAC (RFC 4291, appendix A), as a number.
std::uint64_t eui64(const Mac& mac) {
  const std::array<std::uint8_t, 8> eui = {
      static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  std::uint64_t number = 0;
  for (const std::uint8_t byte : eui) number = number << 8 | byte;
  return number;
}

template <std::size_t N>
Status reply_counters(const std::array<std::uint64_t, N>& counters, Reply& reply) {
  std::array<std::uint64_t, N> out;
  std::ranges::transform(counters, out.begin(), [](std::uint64_t v) { return le(v); });
  reply.set(out);
  return TERN_ST_OK;
}

}  // namespace

// ---- the device ----

Status query_caps(Admin& admin, Device& device, const None&, Reply& reply) {
  const Config& config = device.registry.config;
  tern_rsp_caps caps{};
  caps.flags = le(device.registry.caps());
  caps.max_mr_size = le(kMaxMrSize);
  caps.page_shift_mask = le(std::uint64_t{GENMASK(kPageShiftMax, kPageShiftMin)});
  caps.dm_size = le(device.registry.dm.size());
  caps.guid = le(eui64(config.mac));
  caps.max_uar = le(admin.uar_pages());
  caps.max_pd = le(kMaxPd);
  caps.max_mr = le(config.max_mr);
  caps.max_mw = le(config.max_mw);
  caps.max_dm = le(device.registry.dm.max());
  caps.max_eq = le(kMaxEq);
  caps.max_cq = le(config.max_cq);
  caps.max_cqe = le(std::uint32_t{1} << kMaxLogCq);
  caps.max_qp = le(config.max_qp);
  caps.max_qp_wr = le(std::uint32_t{1} << kMaxLogWq);
  caps.max_xrcd = le(kMaxXrcd);
  caps.max_srq = le(kMaxSrq);
  caps.max_srq_wr = le(std::uint32_t{1} << kMaxLogWq);
  caps.max_mcast_grp = le(kMaxMcastGroups);
  caps.max_mcast_qp_attach = le(kMaxMcastQps);
  caps.max_msg_size = le(kMaxMessage);
  caps.max_inline = le(kMaxInline);
  caps.device_version = le(kDeviceVersion);
  caps.max_fast_reg_pages = le(kMaxFastRegPages);
  caps.max_send_sge = le(kMaxSge);
  caps.max_recv_sge = le(kMaxSge);
  caps.max_sge_rd = le(kMaxSge);
  caps.max_rd_atomic = le(std::uint16_t{kMaxRdAtomic});
  caps.gid_table_len = le(Addresses::kGidTableLen);
  caps.num_vectors = le(static_cast<std::uint16_t>(config.num_vectors));
  caps.max_eth_queues = le(device.port.ethernet.max_queues());
  caps.max_tags = le(config.max_tags);
  std::ranges::copy(config.mac, caps.mac);
  caps.local_ca_ack_delay = kLocalAckDelay;
  caps.num_ports = kNumPorts;
  caps.max_rate = le(max_rate(config.link_speed));
  std::memcpy(caps.fw_name, kName.data(), kName.size());
  caps.max_pages = le(device.registry.page_budget.limit());
  caps.max_cmd_pages = le(kMaxCmdPages);
  caps.max_rss = le(Ethernet::kMaxRss);
  caps.max_flows = le(kMaxFlows);
  caps.max_flow_shapes = le(kMaxFlowShapes);
  caps.max_flow_counters = le(kMaxFlowCounters);
  caps.max_counter_sets = le(kMaxCounterSets);
  caps.max_comp_cntrs = le(kMaxCompCounters);
  reply.set(caps);
  return TERN_ST_OK;
}

Status query_objects(Admin&, Device& device, const None&, Reply& reply) {
  tern_rsp_objects rsp{};
  rsp.uar = le(device.datapath.uars.handed_out());
  rsp.pd = le(device.registry.pds.count());
  rsp.eq = le(device.registry.eqs.count());
  rsp.cq = le(device.registry.cqs.count());
  rsp.mr = le(device.registry.memory.counts().mr);
  rsp.mw = le(device.registry.memory.counts().mw);
  rsp.dm = le(device.registry.dm.counts().parts);
  rsp.dm_bytes = le(device.registry.dm.counts().bytes);
  rsp.qp = le(device.registry.qps.count());
  rsp.xrcd = le(device.registry.xrcds.count());
  rsp.srq = le(device.registry.srqs.count());
  rsp.mcast = le(device.port.multicast.attachments());
  rsp.gid = le(device.port.addresses.gid_count());
  rsp.eth_queue = le(device.port.ethernet.queue_count());
  rsp.parked = le(device.registry.page_faults.parked());
  rsp.page_entries = le(device.registry.page_entries());
  rsp.rss = le(device.port.ethernet.rss_count());
  rsp.flow = le(device.port.ethernet.steering.flows());
  rsp.flow_counter = le(device.port.ethernet.steering.counters());
  rsp.counter_set = le(device.registry.counter_sets.count());
  rsp.comp_cntr = le(device.registry.comp_counters.count());
  reply.set(rsp);
  return TERN_ST_OK;
}

Status query_counters(Admin&, Device& device, const tern_cmd_query_counters& cmd, Reply& reply) {
  if (!is_port(cmd.port)) return TERN_ST_BAD_PARAM;
  switch (le(std::uint32_t{cmd.group})) {
    case TERN_COUNTERS_RDMA:
      return reply_counters(device.counters().rdma, reply);
    case TERN_COUNTERS_ETH:
      return reply_counters(device.counters().eth, reply);
    default:
      return TERN_ST_BAD_PARAM;
  }
}

// ---- the port ----

Status query_port(Admin&, Device& device, const tern_cmd_query_port& cmd, Reply& reply) {
  if (!is_port(cmd.port)) return TERN_ST_BAD_PARAM;
  tern_rsp_port rsp{};
  device.port.addresses.query(&rsp);
  reply.set(rsp);
  return TERN_ST_OK;
}

Status modify_port(Admin&, Device& device, const tern_cmd_modify_port& cmd, Reply&) {
  const std::uint32_t mtu = device.port.addresses.mtu();
  const Status st = device.port.addresses.modify(cmd);
  if (device.port.addresses.mtu() != mtu)
    device.registry.async_events.raise(device.datapath, TERN_EV_PORT_CHANGE, cmd.port);
  return st;
}

Status set_gid(Admin&, Device& device, const tern_cmd_set_gid& cmd, Reply&) {
  return device.port.addresses.set_gid(cmd);
}

// ---- congestion control ----

Status query_cc(Admin&, Device& device, const tern_cmd_query_port& cmd, Reply& reply) {
  if (!is_port(cmd.port)) return TERN_ST_BAD_PARAM;
  tern_cc_params rsp{};
  for (unsigned i = 0; i < TERN_CC_NUM; ++i) rsp.value[i] = le(device.registry.congestion.get(i));
  reply.set(rsp);
  return TERN_ST_OK;
}

Status set_cc(Admin&, Device& device, const tern_cmd_set_cc& cmd, Reply&) {
  if (!is_port(cmd.port)) return TERN_ST_BAD_PARAM;
  const std::uint32_t mask = le(std::uint32_t{cmd.mask});
  CongestionParams params = device.registry.congestion;
  for (unsigned i = 0; i < std::size(cmd.params.value); ++i) {
    const std::uint32_t value = le(std::uint32_t{cmd.params.value[i]});
    const bool given = (mask >> i & 1U) != 0;
    if (given ? !params.set(i, value) : value != 0) return TERN_ST_BAD_PARAM;
  }
  device.registry.congestion = params;
  return TERN_ST_OK;
}

}  // namespace tern::commands
