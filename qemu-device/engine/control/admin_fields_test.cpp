// SPDX-License-Identifier: GPL-2.0-or-later
// Runs every admin command with every field of every width set to values at and beyond the ends of
// its range, and with every address and page list unreachable. The device may only return a status,
// and a command that fails must change nothing that QUERY_OBJECTS or a query of another object
// shows.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/admin_fixture.h"

namespace tern {
namespace {

using Bytes = std::vector<std::byte>;
// A command's opcode, and the kind of object if the command takes several.
using Input = std::pair<std::uint16_t, std::string>;

template <class T>
Bytes bytes_of(const T& value) {
  const auto b = std::as_bytes(std::span(&value, 1));
  return {b.begin(), b.end()};
}

class AdminFields : public AdminTest {
 protected:
  std::uint32_t uar = 0, pd = 0, eqn = 0, cqn = 0, key = 0, qpn = 0, srqn = 0;
  std::uint32_t xrcd = 0, ini_qpn = 0, tgt_qpn = 0, xrc_srqn = 0, ud_qpn = 0;
  std::uint32_t dmn = 0, free_dmn = 0, dm_key = 0;
  std::uint32_t eth_rx = 0, rss = 0, flow = 0, flow_counter = 0, counter_set = 0, comp_cntr = 0;
  std::uint64_t caps = 0;

  // Creates one object of each kind, so that every command has one to refer to.
  void build() {
    set(TERN_REG_CTRL, TERN_CTRL_RESET);
    enable();
    EXPECT_EQ(run(entry(TERN_CMD_QUERY_CAPS, 0, sizeof(tern_rsp_caps))), TERN_ST_OK);
    caps = out<tern_rsp_caps>().flags;
    uar = make_uar();
    pd = make_pd(TERN_PD_PRIVILEGED);
    eqn = make(TERN_CMD_CREATE_EQ, eq_command());
    cqn = make(TERN_CMD_CREATE_CQ, cq_command(eqn, uar));
    key = make(TERN_CMD_CREATE_MR, mr_command(pd));
    qpn = make(TERN_CMD_CREATE_QP, qp_command(pd, uar, cqn));
    if (caps & TERN_CAP_DM) {
      dmn = make_dm();
      free_dmn = make_dm();
      dm_key = make(TERN_CMD_CREATE_MR, dm_mr_command());
    }
    if (caps & TERN_CAP_SRQ) srqn = make(TERN_CMD_CREATE_SRQ, srq_command_of());
    if (caps & TERN_CAP_MCAST) {
      tern_cmd_create_qp ud = qp_command(pd, uar, cqn);
      ud.type = TERN_QPT_UD;
      ud_qpn = make(TERN_CMD_CREATE_QP, ud);
    }
    tern_cmd_create_eth_queue receive = eth_command(cqn, uar);
    receive.direction = TERN_ETH_QUEUE_RX;
    eth_rx = make(TERN_CMD_CREATE_ETH_QUEUE, receive);
    if (caps & TERN_CAP_STEERING) {
      rss = make(TERN_CMD_CREATE_RSS, rss_command());
      flow = make(TERN_CMD_CREATE_FLOW, flow_command());
      EXPECT_EQ(run(entry(TERN_CMD_CREATE_FLOW_COUNTER, 0, 8)), TERN_ST_OK);
      flow_counter = out<tern_rsp_object>().id;
    }
    if (caps & TERN_CAP_COUNTER_SETS) {
      EXPECT_EQ(run(entry(TERN_CMD_CREATE_COUNTER_SET, 0, 8)), TERN_ST_OK);
      counter_set = out<tern_rsp_object>().id;
    }
    if (caps & TERN_CAP_COMP_CNTR) comp_cntr = make(TERN_CMD_CREATE_COMP_CNTR, comp_cntr_command());
    if (caps & TERN_CAP_XRC) {
      xrcd = make_xrcd();
      ini_qpn = make(TERN_CMD_CREATE_QP, initiator_command());
      tgt_qpn = make(TERN_CMD_CREATE_QP, target_command());
      xrc_srqn = make(TERN_CMD_CREATE_SRQ, xrc_srq_command());
    }
  }
  std::uint32_t make_dm() {
    EXPECT_EQ(run(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{4096, 0, 0}, sizeof(tern_rsp_alloc_dm)),
              TERN_ST_OK);
    return out<tern_rsp_alloc_dm>().dmn;
  }
  tern_cmd_create_mr dm_mr_command() const {
    tern_cmd_create_mr c{.length = 4000,
                         .offset = 96,
                         .pdn = pd,
                         .access = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_ZERO_BASED,
                         .dmn = dmn,
                         .kind = TERN_MR_DM};
    return c;
  }
  tern_cmd_create_comp_cntr comp_cntr_command() {
    return {.value = {host.alloc(8, 8), host.alloc(8, 8)}};
  }
  tern_cmd_resize_cq resize_command() {
    tern_cmd_resize_cq c{.pages = pages(2), .cqn = cqn, .log_size = 7};
    return c;
  }
  tern_cmd_rereg_mr rereg_command() {
    tern_cmd_rereg_mr c{.pages = pages(2),
                        .length = 8000,
                        .offset = 100,
                        .key = key,
                        .mask = TERN_REREG_TRANS | TERN_REREG_PD | TERN_REREG_ACCESS,
                        .pdn = pd};
    return c;
  }
  tern_cmd_create_srq srq_command_of() {
    tern_cmd_create_srq c{.pages = pages(1),
                          .record = host.alloc(sizeof(tern_srq_record), sizeof(tern_srq_record)),
                          .pdn = pd,
                          .log_size = 4,
                          .log_stride = 7};
    return c;
  }
  tern_cmd_create_srq xrc_srq_command() {
    tern_cmd_create_srq c = srq_command_of();
    c.flags = TERN_SRQ_F_XRC;
    c.xrcdn = xrcd;
    c.cqn = cqn;
    return c;
  }
  tern_cmd_create_qp initiator_command() {
    tern_cmd_create_qp c = qp_command(pd, uar, cqn);
    c.type = TERN_QPT_XRC_INI;
    c.flags = TERN_QP_F_NO_RQ;
    return c;
  }
  tern_cmd_create_qp target_command() {
    tern_cmd_create_qp c{
        .xrcdn = xrcd, .type = TERN_QPT_XRC_TGT, .flags = TERN_QP_F_NO_SQ | TERN_QP_F_NO_RQ};
    return c;
  }
  tern_cmd_rss rss_command() const {
    tern_cmd_rss c{.port = 1, .log_entries = 1, .kind = TERN_DEST_ETH_QUEUE};
    c.fields[TERN_RSS_TCP4] = TERN_RSS_FIELD_SRC_PORT;
    c.entries[0] = c.entries[1] = eth_rx;
    return c;
  }
  tern_cmd_create_flow flow_command() const {
    tern_cmd_create_flow c{.dest_id = eth_rx,
                           .counter = TERN_NO_COUNTER,
                           .dest = TERN_DEST_ETH_QUEUE,
                           .port = 1,
                           .layers = TERN_LAYER_ETH | TERN_LAYER_IPV4};
    c.value.dst_ip[3] = c.mask.dst_ip[3] = 1;
    return c;
  }
  // Moves the QP to INIT.
  static tern_cmd_modify_qp modify_command(std::uint32_t number) {
    tern_cmd_modify_qp c{
        .qpn = number,
        .mask = TERN_QPA_STATE | TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT};
    c.attr.port = 1;
    c.attr.state = TERN_QPS_INIT;
    return c;
  }
  static tern_cmd_modify_srq limit_command(std::uint32_t number) {
    tern_cmd_modify_srq c{.srqn = number, .mask = TERN_SRQA_LIMIT, .limit = 3};
    return c;
  }

  // A valid input for each command that has input.
  std::map<Input, Bytes> good() {
    std::map<Input, Bytes> m;
    const auto add = [&m](std::uint16_t opcode, const auto& in, const char* what = "") {
      m[{opcode, what}] = bytes_of(in);
    };
    tern_cmd_modify_port port{.mask = TERN_PORT_MTU, .mtu = 1500, .port = 1};
    add(TERN_CMD_MODIFY_PORT, port);
    tern_cmd_set_gid gid{.valid = 1, .net_type = TERN_NET_IPV6, .vlan = TERN_VLAN_NONE, .port = 1};
    gid.mac[0] = 2;
    gid.gid[0] = 0xfd;
    add(TERN_CMD_SET_GID, gid);
    add(TERN_CMD_QUERY_COUNTERS, tern_cmd_query_counters{TERN_COUNTERS_RDMA, 1, {}});
    add(TERN_CMD_QUERY_PORT, tern_cmd_query_port{1, {}});
    add(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{});
    add(TERN_CMD_CREATE_EQ, eq_command());
    add(TERN_CMD_CREATE_CQ, cq_command(eqn, uar));
    add(TERN_CMD_RESIZE_CQ, resize_command());
    add(TERN_CMD_QUERY_CQ, tern_cmd_object{cqn, 0});
    add(TERN_CMD_MODIFY_CQ, tern_cmd_modify_cq{cqn, 16, 100});
    add(TERN_CMD_CREATE_MR, mr_command(pd));
    add(TERN_CMD_CREATE_QP, qp_command(pd, uar, cqn));
    add(TERN_CMD_CREATE_ETH_QUEUE, eth_command(cqn, uar));
    tern_cmd_update_pages update{.pages = pages(1), .key = key};
    add(TERN_CMD_UPDATE_PAGES, update);
    if (caps & TERN_CAP_REREG_MR) add(TERN_CMD_REREG_MR, rereg_command());
    if (caps & TERN_CAP_DM) {
      add(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{8000, 13, 0});
      add(TERN_CMD_FREE_DM, tern_cmd_object{free_dmn, 0});
      add(TERN_CMD_MAP_DM_OP, tern_cmd_map_dm_op{0, dmn, TERN_DM_OP_ADD, {}});
      add(TERN_CMD_CREATE_MR, dm_mr_command(), "device memory");
      add(TERN_CMD_DESTROY_MR, tern_cmd_object{dm_key, 0}, "device memory");
    }
    add(TERN_CMD_MODIFY_QP, modify_command(qpn));
    tern_cmd_set_rx_filter filter{};
    filter.port = 1;
    add(TERN_CMD_SET_RX_FILTER, filter);
    for (const auto& [code, id] : {std::pair{TERN_CMD_FREE_UAR, uar},
                                   {TERN_CMD_FREE_PD, pd},
                                   {TERN_CMD_DESTROY_EQ, eqn},
                                   {TERN_CMD_DESTROY_CQ, cqn},
                                   {TERN_CMD_DESTROY_MR, key},
                                   {TERN_CMD_QUERY_MR, key},
                                   {TERN_CMD_DESTROY_QP, qpn},
                                   {TERN_CMD_QUERY_QP, qpn},
                                   {TERN_CMD_DESTROY_ETH_QUEUE, eth_rx}}) {
      add(static_cast<std::uint16_t>(code), tern_cmd_object{id, 0});
    }
    if (caps & TERN_CAP_STEERING) {
      add(TERN_CMD_SET_RX_DEFAULT, tern_cmd_set_rx_default{rss, TERN_DEST_RSS, 1, {}});
      add(TERN_CMD_CREATE_RSS, rss_command());
      tern_cmd_rss modify = rss_command();
      modify.id = rss;
      add(TERN_CMD_MODIFY_RSS, modify);
      add(TERN_CMD_CREATE_FLOW, flow_command());
      add(TERN_CMD_DESTROY_RSS, tern_cmd_object{rss, 0});
      add(TERN_CMD_DESTROY_FLOW, tern_cmd_object{flow, 0});
      add(TERN_CMD_QUERY_FLOW_COUNTER, tern_cmd_object{flow_counter, 0});
      add(TERN_CMD_DESTROY_FLOW_COUNTER, tern_cmd_object{flow_counter, 0});
    }
    if (caps & TERN_CAP_COUNTER_SETS) {
      add(TERN_CMD_DESTROY_COUNTER_SET, tern_cmd_object{counter_set, 0});
      add(TERN_CMD_QUERY_COUNTER_SET, tern_cmd_object{counter_set, 0});
      add(TERN_CMD_BIND_COUNTER_SET, tern_cmd_bind_counter_set{qpn, counter_set});
    }
    if (caps & TERN_CAP_COMP_CNTR) {
      add(TERN_CMD_CREATE_COMP_CNTR, comp_cntr_command());
      add(TERN_CMD_DESTROY_COMP_CNTR, tern_cmd_object{comp_cntr, 0});
      add(TERN_CMD_MODIFY_COMP_CNTR,
          tern_cmd_modify_comp_cntr{comp_cntr, TERN_COMP_CNTR_ERR, TERN_COMP_CNTR_ADD, 0, 5});
      add(TERN_CMD_ATTACH_COMP_CNTR,
          tern_cmd_attach_comp_cntr{qpn, comp_cntr, TERN_COMP_OP_SEND, 0});
    }
    if (caps & TERN_CAP_CC) {
      tern_cmd_set_cc c{.mask = 1U << TERN_CC_RP_AI_RATE, .port = 1};
      c.params.value[TERN_CC_RP_AI_RATE] = 7;
      add(TERN_CMD_QUERY_CC, tern_cmd_query_port{1, {}});
      add(TERN_CMD_SET_CC, c);
    }
    if (caps & TERN_CAP_SRQ) {
      add(TERN_CMD_CREATE_SRQ, srq_command_of());
      add(TERN_CMD_DESTROY_SRQ, tern_cmd_object{srqn, 0});
      add(TERN_CMD_QUERY_SRQ, tern_cmd_object{srqn, 0});
      add(TERN_CMD_MODIFY_SRQ, limit_command(srqn));
    }
    if (caps & TERN_CAP_XRC) {
      add(TERN_CMD_FREE_XRCD, tern_cmd_object{xrcd, 0});
      add(TERN_CMD_CREATE_QP, initiator_command(), "initiator");
      add(TERN_CMD_CREATE_QP, target_command(), "target");
      add(TERN_CMD_CREATE_SRQ, xrc_srq_command(), "XRC SRQ");
      for (const auto& [what, number] : {std::pair{"initiator", ini_qpn}, {"target", tgt_qpn}}) {
        add(TERN_CMD_DESTROY_QP, tern_cmd_object{number, 0}, what);
        add(TERN_CMD_QUERY_QP, tern_cmd_object{number, 0}, what);
        add(TERN_CMD_MODIFY_QP, modify_command(number), what);
      }
      add(TERN_CMD_DESTROY_SRQ, tern_cmd_object{xrc_srqn, 0}, "XRC SRQ");
      add(TERN_CMD_QUERY_SRQ, tern_cmd_object{xrc_srqn, 0}, "XRC SRQ");
      add(TERN_CMD_MODIFY_SRQ, limit_command(xrc_srqn), "XRC SRQ");
    }
    if (caps & TERN_CAP_MCAST) {
      tern_cmd_mcast c{};
      c.gid[0] = 0xff;
      c.qpn = ud_qpn;
      c.port = 1;
      add(TERN_CMD_ATTACH_MCAST, c);
      add(TERN_CMD_DETACH_MCAST, c);
    }
    return m;
  }

  Bytes counts() {
    const auto o = objects();
    return bytes_of(o);
  }
  // What QUERY_* report for the objects that build() created.
  Bytes state() {
    Bytes all = counts();
    const auto more = [&](std::uint16_t code, std::uint32_t id, std::size_t len) {
      (void)on(code, id, len);
      const std::byte* const p = host.at(out_buf, len);
      if (last.status == TERN_ST_OK) all.insert(all.end(), p, p + len);
    };
    more(TERN_CMD_QUERY_MR, key, sizeof(tern_rsp_mr));
    if (dm_key != 0) more(TERN_CMD_QUERY_MR, dm_key, sizeof(tern_rsp_mr));
    more(TERN_CMD_QUERY_CQ, cqn, sizeof(tern_rsp_query_cq));
    more(TERN_CMD_QUERY_QP, qpn, sizeof(tern_rsp_query_qp));
    for (const std::uint32_t number : {ud_qpn, ini_qpn, tgt_qpn}) {
      if (number != 0) more(TERN_CMD_QUERY_QP, number, sizeof(tern_rsp_query_qp));
    }
    for (const std::uint32_t number : {srqn, xrc_srqn}) {
      if (number != 0) more(TERN_CMD_QUERY_SRQ, number, sizeof(tern_rsp_query_srq));
    }
    EXPECT_EQ(run(TERN_CMD_QUERY_PORT, tern_cmd_query_port{1, {}}, sizeof(tern_rsp_port)),
              TERN_ST_OK);
    const std::byte* const p = host.at(out_buf, sizeof(tern_rsp_port));
    all.insert(all.end(), p, p + sizeof(tern_rsp_port));
    return all;
  }

  // Runs the command with this input. Returns its status.
  Status attempt(std::uint16_t opcode, const Bytes& in) {
    std::memcpy(host.at(in_buf), in.data(), in.size());
    return run(entry(opcode, in.size(), 512));
  }
};

// Tries each position as a field of 1, 2, 4 and 8 bytes, which includes the fields of the
// structures.
TEST_F(AdminFields, EveryFieldOutOfRange) {
  build();
  Bytes before = state();
  std::map<Input, std::set<Status>> seen;
  std::uint64_t tried = 0;
  const auto all = good();
  for (const auto& [input, first] : all) {
    const auto& [opcode, what] = input;
    // A valid input fails at most because an object is in use or missing.
    ASSERT_NE(attempt(opcode, good().at(input)), TERN_ST_BAD_PARAM) << opcode << ' ' << what;
    build();
    before = state();
    Bytes valid = good().at(input);
    const std::size_t bytes = std::min<std::size_t>(first.size(), 96);
    for (const std::size_t width : {1U, 2U, 4U, 8U}) {
      const std::uint64_t top =
          width == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * width)) - 1;
      const std::uint64_t values[] = {0,      1,   2,       3,       31,          32,      0x40,
                                      0x1000, top, top - 1, top / 2, top / 2 + 1, top - 63};
      for (std::size_t at = 0; at + width <= bytes; at += width) {
        for (const std::uint64_t value : values) {
          Bytes in = valid;
          for (std::size_t i = 0; i < width; ++i)
            in[at + i] = static_cast<std::byte>(value >> (8 * i));
          const Status st = attempt(opcode, in);
          ++tried;
          ASSERT_EQ(reg(TERN_REG_STATUS), kEnabled)
              << opcode << ' ' << what << ' ' << at << ' ' << value;
          ASSERT_LT(st, TERN_ST_INTERNAL) << opcode << ' ' << what << ' ' << at << ' ' << value;
          seen[input].insert(st);
          if (st == TERN_ST_OK) {
            build();
            before = state();
            valid = good().at(input);  // refers to the new objects
          } else {
            ASSERT_EQ(state(), before)
                << "opcode " << opcode << ' ' << what << " offset " << at << " width " << width
                << " value " << value << " status " << st << " changed something";
          }
        }
      }
    }
  }
  EXPECT_GT(tried, 5000U);
  // Every command that takes more than a number was refused for its fields.
  for (const auto& [input, statuses] : seen) {
    if (all.at(input).size() <= 8) continue;
    EXPECT_TRUE(statuses.contains(TERN_ST_BAD_PARAM)) << input.first << ' ' << input.second;
  }
}

// For each command that takes a page list: an unreachable array or chunk, and unaligned entries.
TEST_F(AdminFields, PageListsOutOfReach) {
  build();
  const Bytes before = state();
  const Input inputs[] = {{TERN_CMD_CREATE_EQ, ""},          {TERN_CMD_CREATE_CQ, ""},
                          {TERN_CMD_CREATE_MR, ""},          {TERN_CMD_CREATE_QP, ""},
                          {TERN_CMD_CREATE_SRQ, ""},         {TERN_CMD_CREATE_ETH_QUEUE, ""},
                          {TERN_CMD_UPDATE_PAGES, ""},       {TERN_CMD_REREG_MR, ""},
                          {TERN_CMD_CREATE_QP, "initiator"}, {TERN_CMD_CREATE_SRQ, "XRC SRQ"}};
  for (const Input& input : inputs) {
    const std::uint16_t opcode = input.first;
    if (!good().contains(input)) continue;
    const auto with = [&](const std::function<void(tern_pages&)>& spoil) {
      Bytes in = good().at(input);
      tern_pages p;
      std::memcpy(&p, in.data(), sizeof(p));
      spoil(p);
      std::memcpy(in.data(), &p, sizeof(p));
      const Status st = attempt(opcode, in);
      EXPECT_EQ(state(), before) << opcode;
      return st;
    };
    constexpr std::uint64_t holes[] = {0, 0x1000, UINT64_MAX - 7, UINT64_MAX - 4095};
    for (const std::uint64_t nowhere : holes) {
      EXPECT_EQ(with([&](tern_pages& p) { p.addr = nowhere; }), TERN_ST_DMA_ERROR) << opcode;
    }
    EXPECT_EQ(with([&](tern_pages& p) { p.addr += 4; }), TERN_ST_BAD_PARAM) << opcode;
    EXPECT_EQ(with([&](tern_pages& p) { host.put(p.addr, host.get<std::uint64_t>(p.addr) + 64); }),
              TERN_ST_BAD_PARAM)
        << opcode;
    // An unreachable array, an unreachable chunk, an unaligned chunk, an unreachable array of
    // chunks.
    const std::uint64_t edge = host.alloc(4096);
    EXPECT_EQ(with([&](tern_pages& p) { p.addr = edge + 4096, p.kind = TERN_PAGES_LIST; }),
              TERN_ST_DMA_ERROR);
    const std::uint64_t chunks = host.alloc(64);
    host.put(chunks, std::uint64_t{0x2000});
    EXPECT_EQ(with([&](tern_pages& p) { p.addr = chunks, p.kind = TERN_PAGES_INDIRECT; }),
              TERN_ST_DMA_ERROR);
    host.put(chunks, chunks + 1);
    EXPECT_EQ(with([&](tern_pages& p) { p.addr = chunks, p.kind = TERN_PAGES_INDIRECT; }),
              TERN_ST_BAD_PARAM);
    EXPECT_EQ(with([&](tern_pages& p) { p.addr = 0x8000, p.kind = TERN_PAGES_INDIRECT; }),
              TERN_ST_DMA_ERROR);
  }
}

}  // namespace
}  // namespace tern
