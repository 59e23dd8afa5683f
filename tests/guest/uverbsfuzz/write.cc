// SPDX-License-Identifier: GPL-2.0-or-later
// Commands that programs write() to the device file: a valid one by a table, then some of it
// changed.
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/tern-abi.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "raw.h"

namespace guest::uverbsfuzz {
namespace {

enum class Source { kValue, kHandle, kAddress, kFile };
using enum Source;

constexpr std::size_t kNone = 0;

struct Field {
  std::size_t offset;
  std::size_t bytes;
  Source source;
  std::uint64_t value = 0;  // mostly the value; the type of a handle
};

// `makes`: the type of the driver's part and of the handle in the first word of the response.
struct Head {
  std::uint32_t number;
  std::size_t core;
  std::size_t response;
  std::size_t makes = kNone;
  bool extended = false;
};
struct Command : Head {
  std::vector<Field> fields{};
};

// A structure that ends in a flexible array member has members whose offset ISO C++ allows.
#define AT(type, member) offsetof(ib_uverbs_##type, member), sizeof(ib_uverbs_##type::member)
#define CMD(number, type) IB_USER_VERBS_CMD_##number, sizeof(ib_uverbs_##type)
#define EX_CMD(number, type) IB_USER_VERBS_EX_CMD_##number, sizeof(ib_uverbs_##type)

const std::vector<Command> kMakers = {
    {{CMD(ALLOC_PD, alloc_pd), 4, UVERBS_OBJECT_PD}},
    {{CMD(REG_MR, reg_mr), 12, UVERBS_OBJECT_MR},
     {{AT(reg_mr, start), kAddress},
      {AT(reg_mr, length), kValue, kPage},
      {AT(reg_mr, pd_handle), kHandle, UVERBS_OBJECT_PD},
      {AT(reg_mr, access_flags), kValue, 0x1f}}},
    {{CMD(ALLOC_MW, alloc_mw), 8, UVERBS_OBJECT_MW},
     {{AT(alloc_mw, pd_handle), kHandle, UVERBS_OBJECT_PD}, {AT(alloc_mw, mw_type), kValue, 1}}},
    {{CMD(CREATE_AH, create_ah), 4 + sizeof(tern_uresp_create_ah), UVERBS_OBJECT_AH},
     {{AT(create_ah, pd_handle), kHandle, UVERBS_OBJECT_PD},
      {AT(create_ah, attr.is_global), kValue, 1},
      {AT(create_ah, attr.port_num), kValue, 1},
      {AT(create_ah, attr.grh.dgid[10]), kValue, 0xff}}},
    {{CMD(CREATE_CQ, create_cq), 8 + sizeof(tern_uresp_create_cq), UVERBS_OBJECT_CQ},
     {{AT(create_cq, cqe), kValue, 1}, {AT(create_cq, comp_channel), kValue, 0xffffffff}}},
    {{CMD(CREATE_QP, create_qp), 32, UVERBS_OBJECT_QP},
     {{AT(create_qp, pd_handle), kHandle, UVERBS_OBJECT_PD},
      {AT(create_qp, send_cq_handle), kHandle, UVERBS_OBJECT_CQ},
      {AT(create_qp, recv_cq_handle), kHandle, UVERBS_OBJECT_CQ},
      {AT(create_qp, max_send_wr), kValue, 1},
      {AT(create_qp, max_recv_wr), kValue, 1},
      {AT(create_qp, max_send_sge), kValue, 1},
      {AT(create_qp, max_recv_sge), kValue, 1},
      {AT(create_qp, qp_type), kValue, 2}}},
    // An XRC target: its PD is a domain.
    {{CMD(CREATE_QP, create_qp), 32, UVERBS_OBJECT_QP},
     {{AT(create_qp, pd_handle), kHandle, UVERBS_OBJECT_XRCD},
      {AT(create_qp, qp_type), kValue, 10}}},
    {{CMD(CREATE_SRQ, create_srq), 16 + sizeof(tern_uresp_create_srq), UVERBS_OBJECT_SRQ},
     {{AT(create_srq, pd_handle), kHandle, UVERBS_OBJECT_PD},
      {AT(create_srq, max_wr), kValue, 1},
      {AT(create_srq, max_sge), kValue, 1}}},
    {{CMD(OPEN_XRCD, open_xrcd), 4, UVERBS_OBJECT_XRCD},
     {{AT(open_xrcd, fd), kFile}, {AT(open_xrcd, oflags), kValue, 0100}}},
    {{CMD(CREATE_XSRQ, create_xsrq), 16 + sizeof(tern_uresp_create_srq), UVERBS_OBJECT_SRQ},
     {{AT(create_xsrq, srq_type), kValue, 1},
      {AT(create_xsrq, pd_handle), kHandle, UVERBS_OBJECT_PD},
      {AT(create_xsrq, max_wr), kValue, 1},
      {AT(create_xsrq, max_sge), kValue, 1},
      {AT(create_xsrq, xrcd_handle), kHandle, UVERBS_OBJECT_XRCD},
      {AT(create_xsrq, cq_handle), kHandle, UVERBS_OBJECT_CQ}}},
    {{CMD(OPEN_QP, open_qp), 32, UVERBS_OBJECT_QP},
     {{AT(open_qp, pd_handle), kHandle, UVERBS_OBJECT_XRCD},
      {AT(open_qp, qpn), kValue, 0x40},
      {AT(open_qp, qp_type), kValue, 10}}},
    {{CMD(CREATE_COMP_CHANNEL, create_comp_channel), 4}},
};

const std::vector<Command> kOthers = {
    {{CMD(QUERY_DEVICE, query_device), sizeof(ib_uverbs_query_device_resp)}},
    {{CMD(QUERY_PORT, query_port), 40}, {{AT(query_port, port_num), kValue, 1}}},
    {{IB_USER_VERBS_CMD_DEALLOC_PD, 4, 0}, {{0, 4, kHandle, UVERBS_OBJECT_PD}}},
    {{IB_USER_VERBS_CMD_DEREG_MR, 4, 0}, {{0, 4, kHandle, UVERBS_OBJECT_MR}}},
    {{IB_USER_VERBS_CMD_DEALLOC_MW, 4, 0}, {{0, 4, kHandle, UVERBS_OBJECT_MW}}},
    {{IB_USER_VERBS_CMD_DESTROY_AH, 4, 0}, {{0, 4, kHandle, UVERBS_OBJECT_AH}}},
    {{IB_USER_VERBS_CMD_CLOSE_XRCD, 4, 0}, {{0, 4, kHandle, UVERBS_OBJECT_XRCD}}},
    {{IB_USER_VERBS_CMD_DESTROY_CQ, 16, 8}, {{8, 4, kHandle, UVERBS_OBJECT_CQ}}},
    {{IB_USER_VERBS_CMD_DESTROY_QP, 16, 4}, {{8, 4, kHandle, UVERBS_OBJECT_QP}}},
    {{IB_USER_VERBS_CMD_DESTROY_SRQ, 16, 4}, {{8, 4, kHandle, UVERBS_OBJECT_SRQ}}},
    {{CMD(REREG_MR, rereg_mr), 8},
     {{AT(rereg_mr, mr_handle), kHandle, UVERBS_OBJECT_MR},
      {AT(rereg_mr, flags), kValue, 1},
      {AT(rereg_mr, start), kAddress},
      {AT(rereg_mr, length), kValue, kPage},
      {AT(rereg_mr, pd_handle), kHandle, UVERBS_OBJECT_PD}}},
    {{CMD(RESIZE_CQ, resize_cq), 16},
     {{AT(resize_cq, cq_handle), kHandle, UVERBS_OBJECT_CQ}, {AT(resize_cq, cqe), kValue, 16}}},
    {{CMD(QUERY_QP, query_qp), sizeof(ib_uverbs_query_qp_resp)},
     {{AT(query_qp, qp_handle), kHandle, UVERBS_OBJECT_QP},
      {AT(query_qp, attr_mask), kValue, 0xffff}}},
    {{CMD(MODIFY_QP, modify_qp), 0},
     {{AT(modify_qp, qp_handle), kHandle, UVERBS_OBJECT_QP},
      {AT(modify_qp, attr_mask), kValue, 1},
      {AT(modify_qp, qp_state), kValue, 6}}},
    {{CMD(QUERY_SRQ, query_srq), 16}, {{AT(query_srq, srq_handle), kHandle, UVERBS_OBJECT_SRQ}}},
    {{CMD(MODIFY_SRQ, modify_srq), 0},
     {{AT(modify_srq, srq_handle), kHandle, UVERBS_OBJECT_SRQ},
      {AT(modify_srq, attr_mask), kValue, 2},
      {AT(modify_srq, srq_limit), kValue, 1}}},
    {{CMD(ATTACH_MCAST, attach_mcast), 0},
     {{0, 1, kValue, 0xff}, {AT(attach_mcast, qp_handle), kHandle, UVERBS_OBJECT_QP}}},
    {{CMD(DETACH_MCAST, detach_mcast), 0},
     {{0, 1, kValue, 0xff}, {AT(detach_mcast, qp_handle), kHandle, UVERBS_OBJECT_QP}}},
    // The kernel has queues of its own only for its own QPs: the device refuses these.
    {{CMD(POST_SEND, post_send), 4}, {{AT(post_send, qp_handle), kHandle, UVERBS_OBJECT_QP}}},
    {{CMD(POST_RECV, post_recv), 4}, {{AT(post_recv, qp_handle), kHandle, UVERBS_OBJECT_QP}}},
    {{CMD(POST_SRQ_RECV, post_srq_recv), 4},
     {{AT(post_srq_recv, srq_handle), kHandle, UVERBS_OBJECT_SRQ}}},
    {{CMD(POLL_CQ, poll_cq), 64},
     {{AT(poll_cq, cq_handle), kHandle, UVERBS_OBJECT_CQ}, {AT(poll_cq, ne), kValue, 1}}},
    {{CMD(REQ_NOTIFY_CQ, req_notify_cq), 0},
     {{AT(req_notify_cq, cq_handle), kHandle, UVERBS_OBJECT_CQ}}},
};

const std::vector<Command> kExtended = {
    {{EX_CMD(QUERY_DEVICE, ex_query_device), 304, kNone, true}},
    {{EX_CMD(CREATE_CQ, ex_create_cq), 16 + sizeof(tern_uresp_create_cq), UVERBS_OBJECT_CQ, true},
     {{AT(ex_create_cq, cqe), kValue, 1}, {AT(ex_create_cq, comp_channel), kValue, 0xffffffff}}},
    {{EX_CMD(CREATE_QP, ex_create_qp), 40, UVERBS_OBJECT_QP, true},
     {{AT(ex_create_qp, pd_handle), kHandle, UVERBS_OBJECT_PD},
      {AT(ex_create_qp, send_cq_handle), kHandle, UVERBS_OBJECT_CQ},
      {AT(ex_create_qp, recv_cq_handle), kHandle, UVERBS_OBJECT_CQ},
      {AT(ex_create_qp, max_send_wr), kValue, 1},
      {AT(ex_create_qp, max_recv_wr), kValue, 1},
      {AT(ex_create_qp, max_send_sge), kValue, 1},
      {AT(ex_create_qp, max_recv_sge), kValue, 1},
      {AT(ex_create_qp, qp_type), kValue, 2},
      {AT(ex_create_qp, rwq_ind_tbl_handle), kHandle, UVERBS_OBJECT_RWQ_IND_TBL}}},
    {{EX_CMD(MODIFY_QP, ex_modify_qp) + sizeof(tern_ureq_modify_qp), 8, kNone, true},
     {{AT(ex_modify_qp, base.qp_handle), kHandle, UVERBS_OBJECT_QP},
      {AT(ex_modify_qp, base.attr_mask), kValue, 1},
      {AT(ex_modify_qp, base.qp_state), kValue, 6}}},
    {{EX_CMD(CREATE_FLOW, create_flow), 8, kNone, true},
     {{AT(create_flow, qp_handle), kHandle, UVERBS_OBJECT_QP},
      {AT(create_flow, flow_attr.size), kValue, sizeof(ib_uverbs_flow_attr)},
      {AT(create_flow, flow_attr.port), kValue, 1},
      {AT(create_flow, flow_attr.type), kValue, 3}}},
    {{EX_CMD(DESTROY_FLOW, destroy_flow), 0, kNone, true},
     {{AT(destroy_flow, flow_handle), kHandle, UVERBS_OBJECT_FLOW}}},
    {{EX_CMD(CREATE_WQ, ex_create_wq), 24, UVERBS_OBJECT_WQ, true},
     {{AT(ex_create_wq, pd_handle), kHandle, UVERBS_OBJECT_PD},
      {AT(ex_create_wq, cq_handle), kHandle, UVERBS_OBJECT_CQ},
      {AT(ex_create_wq, max_wr), kValue, 1},
      {AT(ex_create_wq, max_sge), kValue, 1}}},
    {{EX_CMD(MODIFY_WQ, ex_modify_wq), 0, kNone, true},
     {{AT(ex_modify_wq, wq_handle), kHandle, UVERBS_OBJECT_WQ},
      {AT(ex_modify_wq, attr_mask), kValue, 1},
      {AT(ex_modify_wq, wq_state), kValue, 1}}},
    {{EX_CMD(DESTROY_WQ, ex_destroy_wq), 16, kNone, true},
     {{AT(ex_destroy_wq, wq_handle), kHandle, UVERBS_OBJECT_WQ}}},
    {{EX_CMD(CREATE_RWQ_IND_TBL, ex_create_rwq_ind_table) + 8, 16, kNone, true},
     {{sizeof(ib_uverbs_ex_create_rwq_ind_table), 4, kHandle, UVERBS_OBJECT_WQ}}},
    {{EX_CMD(DESTROY_RWQ_IND_TBL, ex_destroy_rwq_ind_table), 0, kNone, true},
     {{AT(ex_destroy_rwq_ind_table, ind_tbl_handle), kHandle, UVERBS_OBJECT_RWQ_IND_TBL}}},
    {{EX_CMD(MODIFY_CQ, ex_modify_cq), 0, kNone, true},
     {{AT(ex_modify_cq, cq_handle), kHandle, UVERBS_OBJECT_CQ},
      {AT(ex_modify_cq, attr_mask), kValue, 1}}},
};

#undef AT
#undef CMD
#undef EX_CMD

std::vector<std::byte> core_part(Random& random, const Raw& raw, const Command& command) {
  std::vector<std::byte> core(command.core);
  const bool answers = !command.extended && command.response != 0;
  for (const Field& field : command.fields) {
    const bool odd = random.one_in(10);
    const std::uint64_t other = interesting(random);
    std::uint64_t value = odd ? other : field.value;
    if (field.source == kHandle) value = raw.handles.any(random, field.value);
    if (field.source == kAddress) value = raw.arena.address(random);
    if (field.source == kFile) value = odd ? other : ~std::uint64_t{0};
    std::memcpy(core.data() + field.offset, &value, field.bytes);
    // hca_va follows start: it has to have the same offset in its page.
    if (field.source == kAddress) std::memcpy(core.data() + field.offset + 16, &value, 8);
  }
  spoil(random, core, answers ? 8 : 0);
  return core;
}

// ib_core returns with the queue locked when a state is out of range: it can then not be destroyed,
// and the kernel warns when the file is closed.
void keep_in_range(std::vector<std::byte>& core) {
  for (const std::size_t at : {offsetof(ib_uverbs_ex_modify_wq, wq_state),
                               offsetof(ib_uverbs_ex_modify_wq, curr_wq_state)}) {
    std::uint32_t state = 0;
    if (core.size() < at + 4) continue;
    std::memcpy(&state, core.data() + at, 4);
    state %= 3;
    std::memcpy(core.data() + at, &state, 4);
  }
}

std::vector<std::byte> packed(Random& random, const Command& command,
                              const std::vector<std::byte>& core,
                              const std::vector<std::byte>& driver, std::uint64_t response) {
  std::vector<std::byte> bytes;
  const auto append = [&](const void* from, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), begin, begin + size);
  };
  const std::size_t word = command.extended ? 8 : 4;
  ib_uverbs_cmd_hdr header{};
  header.command = command.number;
  header.out_words = static_cast<std::uint16_t>(command.response / word);
  if (command.extended) {
    header.command |= IB_USER_VERBS_CMD_FLAG_EXTENDED;
    header.in_words = static_cast<std::uint16_t>(core.size() / word);
    append(&header, sizeof(header));
    ib_uverbs_ex_cmd_hdr more{};
    more.response = command.response == 0 ? 0 : response;
    more.provider_in_words = static_cast<std::uint16_t>(driver.size() / word);
    append(&more, sizeof(more));
  } else {
    header.in_words =
        static_cast<std::uint16_t>((sizeof(header) + core.size() + driver.size()) / word);
    append(&header, sizeof(header));
  }
  append(core.data(), core.size());
  append(driver.data(), driver.size());
  if (!command.extended && command.response != 0) {
    std::memcpy(bytes.data() + sizeof(header), &response, sizeof(response));
  }
  if (random.one_in(12)) bytes.resize(4 * random.below(bytes.size() / 4 + 8));
  // The command itself stays: others are in other rows.
  if (random.one_in(12)) spoil(random, bytes, 4);
  return bytes;
}

bool sends_state(const Command& command) {
  return command.extended && command.number == IB_USER_VERBS_EX_CMD_MODIFY_WQ;
}

// A process either opens QPs or joins groups. Returns whether it leaves this command to others.
bool belongs_to_others(const Raw& raw, const Command& command) {
  if (raw.core_bugs || command.extended) return false;
  const bool joins = command.number == IB_USER_VERBS_CMD_ATTACH_MCAST ||
                     command.number == IB_USER_VERBS_CMD_DETACH_MCAST;
  return raw.opens ? joins : command.number == IB_USER_VERBS_CMD_OPEN_QP;
}

int send(Random& random, const Raw& raw, const Command& command) {
  std::vector<std::byte> core = core_part(random, raw, command);
  if (random.one_in(16)) core.resize(core.size() / 8 * 8 + 8 * random.below(3));
  std::vector<std::byte> driver = driver_part(random, raw.arena, command.makes);
  if (command.extended && command.number == IB_USER_VERBS_EX_CMD_MODIFY_QP) {
    driver.assign(core.end() - static_cast<std::ptrdiff_t>(
                                   std::min(core.size(), sizeof(tern_ureq_modify_qp))),
                  core.end());
    core.resize(sizeof(ib_uverbs_ex_modify_qp));
  }
  spoil(random, driver, 0);
  const std::uint64_t response = raw.arena.response(random);
  std::vector<std::byte> bytes = packed(random, command, core, driver, response);
  if (!raw.core_bugs && sends_state(command)) {
    constexpr std::size_t kHeaders = sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_ex_cmd_hdr);
    std::vector<std::byte> tail(
        bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), kHeaders)), bytes.end());
    keep_in_range(tail);
    std::copy(tail.rbegin(), tail.rend(), bytes.rbegin());
  }
  if (belongs_to_others(raw, command)) return EPROTONOSUPPORT;
  ++raw.tally.calls;
  if (write(raw.fd, bytes.data(), bytes.size()) < 0) return errno;
  ++raw.tally.reached[command.extended ? kWriteEx : kWrite];
  std::uint32_t first = 0;
  const auto good = reinterpret_cast<std::uint64_t>(raw.arena.page(200));
  if (response < good || response >= good + 32 * kPage) return 0;
  std::memcpy(&first, reinterpret_cast<const void*>(response), sizeof(first));
  if (command.makes != kNone) raw.handles.add(command.makes, first);
  if (command.number == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL && !command.extended && first > 2) {
    close(static_cast<int>(first));
  }
  return 0;
}

}  // namespace

int random_write(Random& random, const Raw& raw) {
  const std::uint32_t which = random.below(8);
  const auto& commands = which < 3 ? kMakers : which < 5 ? kOthers : kExtended;
  return send(random, raw, commands[random.below(commands.size())]);
}

int get_context(int fd, std::uint64_t response) {
  struct {
    ib_uverbs_cmd_hdr header;
    std::uint64_t response;
  } command{};
  command.header.command = IB_USER_VERBS_CMD_GET_CONTEXT;
  command.header.in_words = sizeof(command) / 4;
  command.header.out_words = (8 + sizeof(tern_uresp_alloc_ucontext)) / 4;
  command.response = response;
  return write(fd, &command, sizeof(command)) < 0 ? errno : 0;
}

}  // namespace guest::uverbsfuzz
