// SPDX-License-Identifier: GPL-2.0-or-later
// The names that rules use for packets and admin commands.
#include <algorithm>
#include <array>
#include <span>

#include "faults/rule.h"
#include "tern_hw.hpp"
#include "wire/packet.h"

namespace tern {

namespace {

struct OpName {
  std::string_view name;
  Op op;
};

constexpr OpName kOps[] = {
    {"send-first", Op::kSendFirst},
    {"send-middle", Op::kSendMiddle},
    {"send-last", Op::kSendLast},
    {"send-last-imm", Op::kSendLastImm},
    {"send-last-inv", Op::kSendLastInv},
    {"send-only", Op::kSendOnly},
    {"send-only-imm", Op::kSendOnlyImm},
    {"send-only-inv", Op::kSendOnlyInv},
    {"write-first", Op::kWriteFirst},
    {"write-middle", Op::kWriteMiddle},
    {"write-last", Op::kWriteLast},
    {"write-last-imm", Op::kWriteLastImm},
    {"write-only", Op::kWriteOnly},
    {"write-only-imm", Op::kWriteOnlyImm},
    {"read-request", Op::kReadRequest},
    {"read-response-first", Op::kReadResponseFirst},
    {"read-response-middle", Op::kReadResponseMiddle},
    {"read-response-last", Op::kReadResponseLast},
    {"read-response-only", Op::kReadResponseOnly},
    {"ack", Op::kAck},
    {"atomic-ack", Op::kAtomicAck},
    {"compare-swap", Op::kCompareSwap},
    {"fetch-add", Op::kFetchAdd},
    {"flush", Op::kFlush},
    {"atomic-write", Op::kAtomicWrite},
};

// Each prefix is also the name of a group: all packets whose name begins with it.
constexpr std::string_view kPrefixes[] = {"send", "write", "read-response"};

constexpr Transport kClasses[] = {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrc};

struct ClassName {
  std::string_view name;
  Transport transport;
};

constexpr ClassName kTransports[] = {
    {"rc", Transport::kRc},   {"uc", Transport::kUc},   {"ud", Transport::kUd},
    {"xrc", Transport::kXrc}, {"cnp", Transport::kCnp},
};

struct CommandName {
  std::string_view name;
  std::uint16_t code;
};

constexpr CommandName kCommands[] = {
    {"nop", TERN_CMD_NOP},
    {"query-caps", TERN_CMD_QUERY_CAPS},
    {"query-objects", TERN_CMD_QUERY_OBJECTS},
    {"query-counters", TERN_CMD_QUERY_COUNTERS},
    {"query-port", TERN_CMD_QUERY_PORT},
    {"modify-port", TERN_CMD_MODIFY_PORT},
    {"set-gid", TERN_CMD_SET_GID},
    {"alloc-uar", TERN_CMD_ALLOC_UAR},
    {"free-uar", TERN_CMD_FREE_UAR},
    {"alloc-pd", TERN_CMD_ALLOC_PD},
    {"free-pd", TERN_CMD_FREE_PD},
    {"alloc-xrcd", TERN_CMD_ALLOC_XRCD},
    {"free-xrcd", TERN_CMD_FREE_XRCD},
    {"create-eq", TERN_CMD_CREATE_EQ},
    {"destroy-eq", TERN_CMD_DESTROY_EQ},
    {"create-cq", TERN_CMD_CREATE_CQ},
    {"destroy-cq", TERN_CMD_DESTROY_CQ},
    {"resize-cq", TERN_CMD_RESIZE_CQ},
    {"modify-cq", TERN_CMD_MODIFY_CQ},
    {"query-cq", TERN_CMD_QUERY_CQ},
    {"create-mr", TERN_CMD_CREATE_MR},
    {"destroy-mr", TERN_CMD_DESTROY_MR},
    {"update-pages", TERN_CMD_UPDATE_PAGES},
    {"rereg-mr", TERN_CMD_REREG_MR},
    {"query-mr", TERN_CMD_QUERY_MR},
    {"alloc-mw", TERN_CMD_ALLOC_MW},
    {"free-mw", TERN_CMD_FREE_MW},
    {"alloc-dm", TERN_CMD_ALLOC_DM},
    {"free-dm", TERN_CMD_FREE_DM},
    {"map-dm-op", TERN_CMD_MAP_DM_OP},
    {"create-qp", TERN_CMD_CREATE_QP},
    {"destroy-qp", TERN_CMD_DESTROY_QP},
    {"modify-qp", TERN_CMD_MODIFY_QP},
    {"query-qp", TERN_CMD_QUERY_QP},
    {"resume-qp", TERN_CMD_RESUME_QP},
    {"create-srq", TERN_CMD_CREATE_SRQ},
    {"destroy-srq", TERN_CMD_DESTROY_SRQ},
    {"modify-srq", TERN_CMD_MODIFY_SRQ},
    {"query-srq", TERN_CMD_QUERY_SRQ},
    {"attach-mcast", TERN_CMD_ATTACH_MCAST},
    {"detach-mcast", TERN_CMD_DETACH_MCAST},
    {"create-eth-queue", TERN_CMD_CREATE_ETH_QUEUE},
    {"destroy-eth-queue", TERN_CMD_DESTROY_ETH_QUEUE},
    {"set-rx-filter", TERN_CMD_SET_RX_FILTER},
    {"set-rx-default", TERN_CMD_SET_RX_DEFAULT},
    {"create-rss", TERN_CMD_CREATE_RSS},
    {"modify-rss", TERN_CMD_MODIFY_RSS},
    {"destroy-rss", TERN_CMD_DESTROY_RSS},
    {"create-flow", TERN_CMD_CREATE_FLOW},
    {"destroy-flow", TERN_CMD_DESTROY_FLOW},
    {"create-flow-counter", TERN_CMD_CREATE_FLOW_COUNTER},
    {"query-flow-counter", TERN_CMD_QUERY_FLOW_COUNTER},
    {"destroy-flow-counter", TERN_CMD_DESTROY_FLOW_COUNTER},
    {"create-counter-set", TERN_CMD_CREATE_COUNTER_SET},
    {"destroy-counter-set", TERN_CMD_DESTROY_COUNTER_SET},
    {"query-counter-set", TERN_CMD_QUERY_COUNTER_SET},
    {"bind-counter-set", TERN_CMD_BIND_COUNTER_SET},
    {"create-comp-cntr", TERN_CMD_CREATE_COMP_CNTR},
    {"destroy-comp-cntr", TERN_CMD_DESTROY_COMP_CNTR},
    {"modify-comp-cntr", TERN_CMD_MODIFY_COMP_CNTR},
    {"attach-comp-cntr", TERN_CMD_ATTACH_COMP_CNTR},
    {"query-cc", TERN_CMD_QUERY_CC},
    {"set-cc", TERN_CMD_SET_CC},
};

std::size_t byte_of(Transport transport, Op op) {
  return static_cast<std::size_t>(transport) | static_cast<std::size_t>(op);
}

bool in_group(std::string_view name, std::string_view group) {
  return std::ranges::find(kPrefixes, group) != std::end(kPrefixes) && name.starts_with(group) &&
         name.size() > group.size() && name[group.size()] == '-';
}

bool belongs(const OpName& row, Transport transport, std::string_view name) {
  if (row.name == name || in_group(row.name, name)) return true;
  const OpTraits& t = traits(transport, row.op);
  return (name == "atomic" && t.atomic_eth) || (name == "request" && t.request) ||
         (name == "response" && t.valid && !t.request);
}

}  // namespace

std::bitset<256> opcodes_named(std::string_view name) {
  std::bitset<256> found;
  if (name == "cnp") found.set(byte_of(Transport::kCnp, kCnpOp));
  for (const Transport transport : kClasses) {
    for (const OpName& row : kOps) {
      if (traits(transport, row.op).valid && belongs(row, transport, name)) {
        found.set(byte_of(transport, row.op));
      }
    }
  }
  return found;
}

std::bitset<256> opcodes_of(std::string_view transport) {
  constexpr std::size_t kOpsOfClass = 32;
  std::bitset<256> found;
  for (const ClassName& row : kTransports) {
    if (row.name != transport) continue;
    for (std::size_t op = 0; op < kOpsOfClass; ++op) {
      found.set(static_cast<std::size_t>(row.transport) + op);
    }
  }
  return found;
}

std::optional<std::uint16_t> command_named(std::string_view name) {
  const auto* const row = std::ranges::find(kCommands, name, &CommandName::name);
  if (row == std::end(kCommands)) return std::nullopt;
  return row->code;
}

}  // namespace tern
