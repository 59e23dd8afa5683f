// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/admin_commands.h"

#include <algorithm>
#include <type_traits>

namespace tern {

namespace {

template <class In>
using Handler = Status (*)(Admin&, Device&, const In&, Reply&);

// Copies the input into its type and calls the command.
template <class In, Handler<In> F>
Status run_typed(Admin& admin, Device& device, const std::byte* in, Reply& reply) {
  In cmd{};
  if constexpr (!std::is_empty_v<In>) std::memcpy(&cmd, in, sizeof(cmd));
  return F(admin, device, cmd, reply);
}

template <class T>
constexpr std::uint16_t size_of = std::is_empty_v<T> ? 0 : sizeof(T);

template <class In, Handler<In> F, class Out>
constexpr Command typed(std::span<const Reserved> reserved = {}, std::uint64_t needs = 0) {
  return {true, size_of<In>, size_of<Out>, reserved, run_typed<In, F>, needs};
}

// A device has windows of both types or of none.
constexpr std::uint64_t kAnyMw = TERN_CAP_MW_TYPE_1;

// Offset and length of a member. A macro, because offsetof() needs the member's name.
#define RSVD(type, member) \
  Reserved { offsetof(type, member), sizeof(type::member) }
constexpr std::array kObject = {RSVD(tern_cmd_object, rsvd_4)};
constexpr std::array kQueryCounters = {RSVD(tern_cmd_query_counters, rsvd_5)};
constexpr std::array kQueryPort = {RSVD(tern_cmd_query_port, rsvd_1)};
constexpr std::array kSetGid = {RSVD(tern_cmd_set_gid, rsvd_d)};
constexpr std::array kAllocPd = {RSVD(tern_cmd_alloc_pd, rsvd_4)};
constexpr std::array kCreateEq = {RSVD(tern_cmd_create_eq, pages.rsvd_e),
                                  RSVD(tern_cmd_create_eq, rsvd_1c)};
constexpr std::array kCreateCq = {RSVD(tern_cmd_create_cq, pages.rsvd_e),
                                  RSVD(tern_cmd_create_cq, rsvd_22)};
constexpr std::array kResizeCq = {RSVD(tern_cmd_resize_cq, pages.rsvd_e),
                                  RSVD(tern_cmd_resize_cq, rsvd_15)};
constexpr std::array kCreateMr = {RSVD(tern_cmd_create_mr, pages.rsvd_e),
                                  RSVD(tern_cmd_create_mr, rsvd_36)};
constexpr std::array kUpdatePages = {RSVD(tern_cmd_update_pages, pages.rsvd_e)};
constexpr std::array kReregMr = {RSVD(tern_cmd_rereg_mr, pages.rsvd_e),
                                 RSVD(tern_cmd_rereg_mr, rsvd_39)};
constexpr std::array kAllocDm = {RSVD(tern_cmd_alloc_dm, rsvd_c)};
constexpr std::array kMapDmOp = {RSVD(tern_cmd_map_dm_op, rsvd_d)};
constexpr std::array kAllocMw = {RSVD(tern_cmd_alloc_mw, rsvd_5)};
constexpr std::array kCreateQp = {RSVD(tern_cmd_create_qp, pages.rsvd_e),
                                  RSVD(tern_cmd_create_qp, rsvd_3e)};
constexpr std::array kModifyQp = {
    RSVD(tern_cmd_modify_qp, attr.av.rsvd_23), RSVD(tern_cmd_modify_qp, attr.rsvd_52),
    RSVD(tern_cmd_modify_qp, alt.av.rsvd_23), RSVD(tern_cmd_modify_qp, alt.rsvd_2d)};
constexpr std::array kResumeQp = {RSVD(tern_cmd_resume_qp, rsvd_a)};
constexpr std::array kCreateCompCntr = {RSVD(tern_cmd_create_comp_cntr, rsvd_11)};
constexpr std::array kModifyCompCntr = {RSVD(tern_cmd_modify_comp_cntr, rsvd_6)};
constexpr std::array kAttachCompCntr = {RSVD(tern_cmd_attach_comp_cntr, rsvd_c)};
constexpr std::array kCreateSrq = {RSVD(tern_cmd_create_srq, pages.rsvd_e),
                                   RSVD(tern_cmd_create_srq, ops_pages.rsvd_e)};
constexpr std::array kModifySrq = {RSVD(tern_cmd_modify_srq, pages.rsvd_e),
                                   RSVD(tern_cmd_modify_srq, rsvd_1d)};
constexpr std::array kMcast = {RSVD(tern_cmd_mcast, rsvd_15)};
constexpr std::array kCreateEthQueue = {RSVD(tern_cmd_create_eth_queue, pages.rsvd_e),
                                        RSVD(tern_cmd_create_eth_queue, rsvd_24)};
constexpr std::array kSetRxFilter = {RSVD(tern_cmd_set_rx_filter, rsvd_5)};
constexpr std::array kSetRxDefault = {RSVD(tern_cmd_set_rx_default, rsvd_6)};
constexpr std::array kSetCc = {RSVD(tern_cmd_set_cc, rsvd_5)};
#undef RSVD

using commands::None;
using Object = tern_cmd_object;
using Number = tern_rsp_object;
using CounterReply = std::array<std::uint64_t, TERN_CNT_RDMA_NUM>;
static_assert(TERN_ETH_CNT_NUM <= TERN_CNT_RDMA_NUM);

constexpr std::size_t kCodes = TERN_CMD_SET_CC + 1;

constexpr std::array<Command, kCodes> make_table() {
  namespace c = commands;
  std::array<Command, kCodes> t{};
  t[TERN_CMD_NOP] = typed<None, c::nop, None>();
  t[TERN_CMD_QUERY_CAPS] = typed<None, c::query_caps, tern_rsp_caps>();
  t[TERN_CMD_QUERY_OBJECTS] = typed<None, c::query_objects, tern_rsp_objects>();
  t[TERN_CMD_QUERY_COUNTERS] =
      typed<tern_cmd_query_counters, c::query_counters, CounterReply>(kQueryCounters);
  t[TERN_CMD_QUERY_PORT] = typed<tern_cmd_query_port, c::query_port, tern_rsp_port>(kQueryPort);
  t[TERN_CMD_MODIFY_PORT] = typed<tern_cmd_modify_port, c::modify_port, None>();
  t[TERN_CMD_SET_GID] = typed<tern_cmd_set_gid, c::set_gid, None>(kSetGid);
  t[TERN_CMD_ALLOC_UAR] = typed<None, c::alloc_uar, Number>();
  t[TERN_CMD_FREE_UAR] = typed<Object, c::free_uar, None>(kObject);
  t[TERN_CMD_ALLOC_PD] = typed<tern_cmd_alloc_pd, c::alloc_pd, Number>(kAllocPd);
  t[TERN_CMD_FREE_PD] = typed<Object, c::free_pd, None>(kObject);
  t[TERN_CMD_CREATE_EQ] = typed<tern_cmd_create_eq, c::create_eq, Number>(kCreateEq);
  t[TERN_CMD_DESTROY_EQ] = typed<Object, c::destroy_eq, None>(kObject);
  t[TERN_CMD_CREATE_CQ] = typed<tern_cmd_create_cq, c::create_cq, Number>(kCreateCq);
  t[TERN_CMD_DESTROY_CQ] = typed<Object, c::destroy_cq, None>(kObject);
  t[TERN_CMD_RESIZE_CQ] =
      typed<tern_cmd_resize_cq, c::resize_cq, tern_rsp_resize_cq>(kResizeCq, TERN_CAP_RESIZE_CQ);
  t[TERN_CMD_MODIFY_CQ] = typed<tern_cmd_modify_cq, c::modify_cq, None>({}, TERN_CAP_MODERATE_CQ);
  t[TERN_CMD_QUERY_CQ] = typed<Object, c::query_cq, tern_rsp_query_cq>(kObject);
  t[TERN_CMD_CREATE_MR] = typed<tern_cmd_create_mr, c::create_mr, Number>(kCreateMr);
  t[TERN_CMD_DESTROY_MR] = typed<Object, c::destroy_mr, None>(kObject);
  t[TERN_CMD_UPDATE_PAGES] = typed<tern_cmd_update_pages, c::update_pages, None>(kUpdatePages);
  t[TERN_CMD_REREG_MR] = typed<tern_cmd_rereg_mr, c::rereg_mr, None>(kReregMr);
  t[TERN_CMD_QUERY_MR] = typed<Object, c::query_mr, tern_rsp_mr>(kObject);
  t[TERN_CMD_ALLOC_MW] = typed<tern_cmd_alloc_mw, c::alloc_mw, Number>(kAllocMw, kAnyMw);
  t[TERN_CMD_FREE_MW] = typed<Object, c::free_mw, None>(kObject, kAnyMw);
  t[TERN_CMD_ALLOC_DM] =
      typed<tern_cmd_alloc_dm, c::alloc_dm, tern_rsp_alloc_dm>(kAllocDm, TERN_CAP_DM);
  t[TERN_CMD_FREE_DM] = typed<Object, c::free_dm, None>(kObject, TERN_CAP_DM);
  t[TERN_CMD_MAP_DM_OP] =
      typed<tern_cmd_map_dm_op, c::map_dm_op, Number>(kMapDmOp, TERN_CAP_DM_OPS);
  t[TERN_CMD_CREATE_QP] = typed<tern_cmd_create_qp, c::create_qp, Number>(kCreateQp);
  t[TERN_CMD_DESTROY_QP] = typed<Object, c::destroy_qp, None>(kObject);
  t[TERN_CMD_MODIFY_QP] = typed<tern_cmd_modify_qp, c::modify_qp, None>(kModifyQp);
  t[TERN_CMD_QUERY_QP] = typed<Object, c::query_qp, tern_rsp_query_qp>(kObject);
  t[TERN_CMD_RESUME_QP] = typed<tern_cmd_resume_qp, c::resume_qp, None>(kResumeQp);
  t[TERN_CMD_ALLOC_XRCD] = typed<None, c::alloc_xrcd, Number>();
  t[TERN_CMD_FREE_XRCD] = typed<Object, c::free_xrcd, None>(kObject);
  t[TERN_CMD_CREATE_SRQ] = typed<tern_cmd_create_srq, c::create_srq, Number>(kCreateSrq);
  t[TERN_CMD_DESTROY_SRQ] = typed<Object, c::destroy_srq, None>(kObject);
  t[TERN_CMD_MODIFY_SRQ] = typed<tern_cmd_modify_srq, c::modify_srq, None>(kModifySrq);
  t[TERN_CMD_QUERY_SRQ] = typed<Object, c::query_srq, tern_rsp_query_srq>(kObject);
  t[TERN_CMD_ATTACH_MCAST] = typed<tern_cmd_mcast, c::attach_mcast, None>(kMcast);
  t[TERN_CMD_DETACH_MCAST] = typed<tern_cmd_mcast, c::detach_mcast, None>(kMcast);
  t[TERN_CMD_CREATE_ETH_QUEUE] =
      typed<tern_cmd_create_eth_queue, c::create_eth_queue, Number>(kCreateEthQueue);
  t[TERN_CMD_DESTROY_ETH_QUEUE] = typed<Object, c::destroy_eth_queue, None>(kObject);
  t[TERN_CMD_SET_RX_FILTER] = typed<tern_cmd_set_rx_filter, c::set_rx_filter, None>(kSetRxFilter);
  t[TERN_CMD_SET_RX_DEFAULT] =
      typed<tern_cmd_set_rx_default, c::set_rx_default, None>(kSetRxDefault, TERN_CAP_STEERING);
  t[TERN_CMD_CREATE_RSS] = typed<tern_cmd_rss, c::create_rss, Number>({}, TERN_CAP_STEERING);
  t[TERN_CMD_MODIFY_RSS] = typed<tern_cmd_rss, c::modify_rss, None>({}, TERN_CAP_STEERING);
  t[TERN_CMD_DESTROY_RSS] = typed<Object, c::destroy_rss, None>(kObject, TERN_CAP_STEERING);
  t[TERN_CMD_CREATE_FLOW] =
      typed<tern_cmd_create_flow, c::create_flow, Number>({}, TERN_CAP_STEERING);
  t[TERN_CMD_DESTROY_FLOW] = typed<Object, c::destroy_flow, None>(kObject, TERN_CAP_STEERING);
  t[TERN_CMD_CREATE_FLOW_COUNTER] =
      typed<None, c::create_flow_counter, Number>({}, TERN_CAP_STEERING);
  t[TERN_CMD_QUERY_FLOW_COUNTER] =
      typed<Object, c::query_flow_counter, tern_rsp_flow_counter>(kObject, TERN_CAP_STEERING);
  t[TERN_CMD_DESTROY_FLOW_COUNTER] =
      typed<Object, c::destroy_flow_counter, None>(kObject, TERN_CAP_STEERING);
  t[TERN_CMD_CREATE_COUNTER_SET] =
      typed<None, c::create_counter_set, Number>({}, TERN_CAP_COUNTER_SETS);
  t[TERN_CMD_DESTROY_COUNTER_SET] =
      typed<Object, c::destroy_counter_set, None>(kObject, TERN_CAP_COUNTER_SETS);
  t[TERN_CMD_QUERY_COUNTER_SET] =
      typed<Object, c::query_counter_set, CounterReply>(kObject, TERN_CAP_COUNTER_SETS);
  t[TERN_CMD_BIND_COUNTER_SET] =
      typed<tern_cmd_bind_counter_set, c::bind_counter_set, None>({}, TERN_CAP_COUNTER_SETS);
  t[TERN_CMD_CREATE_COMP_CNTR] = typed<tern_cmd_create_comp_cntr, c::create_comp_cntr, Number>(
      kCreateCompCntr, TERN_CAP_COMP_CNTR);
  t[TERN_CMD_DESTROY_COMP_CNTR] =
      typed<Object, c::destroy_comp_cntr, None>(kObject, TERN_CAP_COMP_CNTR);
  t[TERN_CMD_MODIFY_COMP_CNTR] = typed<tern_cmd_modify_comp_cntr, c::modify_comp_cntr, None>(
      kModifyCompCntr, TERN_CAP_COMP_CNTR);
  t[TERN_CMD_ATTACH_COMP_CNTR] = typed<tern_cmd_attach_comp_cntr, c::attach_comp_cntr, None>(
      kAttachCompCntr, TERN_CAP_COMP_CNTR);
  t[TERN_CMD_QUERY_CC] =
      typed<tern_cmd_query_port, c::query_cc, tern_cc_params>(kQueryPort, TERN_CAP_CC);
  t[TERN_CMD_SET_CC] = typed<tern_cmd_set_cc, c::set_cc, None>(kSetCc, TERN_CAP_CC);
  return t;
}

constexpr std::array kTable = make_table();

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

const Command* find_command(std::uint16_t opcode) {
  return opcode < kTable.size() && kTable[opcode].known ? &kTable[opcode] : nullptr;
}

bool is_clean(const Command& command, std::span<const std::byte> in) {
  return all_zero(in.subspan(command.in_size)) &&
         std::ranges::all_of(command.reserved, [in](const Reserved& r) {
           return all_zero(in.subspan(r.offset, r.len));
         });
}

Status commands::nop(Admin&, Device&, const None&, Reply&) { return TERN_ST_OK; }

}  // namespace tern
