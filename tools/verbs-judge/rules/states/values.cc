// SPDX-License-Identifier: GPL-2.0-or-later
// Values of attributes that are wrong, and attributes without a change of state.
#include <cerrno>

#include "states.h"

namespace guest::states {
namespace {

// What the documents say of a wrong value.
enum class Demand {
  kRefused,  // a check is demanded
  kUsual,    // none is demanded; devices refuse it
  kOpen,     // none is demanded; devices differ
};

struct Wrong {
  const char* name;
  const char* says;
  ibv_qp_type type;
  ibv_qp_state from;
  ibv_qp_state to;
  int bit;  // of the attribute
  Demand demand;
  void (*set)(ibv_qp_attr& attr, const Device& dev);
};

using Attr = ibv_qp_attr;
using Dev = const Device;
// The largest values of fields in packets.
constexpr std::uint32_t k24Bits = 0xffffff;
constexpr int kUnknownBit = 1 << 30;

std::uint8_t unused_gid(Dev& dev) {
  ibv_gid_entry entry{};
  for (std::uint32_t i = 255; i > 0; i--) {
    if (ibv_query_gid_ex(dev.context(), 1, i, &entry, 0) != 0) return static_cast<std::uint8_t>(i);
  }
  skip("each sgid_index has a GID");
}

constexpr Wrong kWrong[] = {
    {"port_0", "port 0", IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PORT, Demand::kRefused,
     [](Attr& a, Dev&) { a.port_num = 0; }},
    {"port_above", "a port above phys_port_cnt", IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_PORT, Demand::kRefused,
     [](Attr& a, Dev& dev) {
       a.port_num = static_cast<std::uint8_t>(dev.attr().phys_port_cnt + 1);
     }},
    {"pkey_index", "a pkey_index past the table", IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_PKEY_INDEX, Demand::kUsual,
     [](Attr& a, Dev& dev) { a.pkey_index = dev.port().pkey_tbl_len; }},
    {"access_flags", "unknown access flags", IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_ACCESS_FLAGS, Demand::kOpen, [](Attr& a, Dev&) { a.qp_access_flags = 1U << 30; }},
    {"path_mtu_0", "a path_mtu of 0", IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU,
     Demand::kUsual, [](Attr& a, Dev&) { a.path_mtu = ibv_mtu{}; }},
    {"path_mtu_unknown", "a path_mtu that no IBV_MTU names", IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_PATH_MTU, Demand::kUsual,
     [](Attr& a, Dev&) { a.path_mtu = static_cast<ibv_mtu>(IBV_MTU_4096 + 1); }},
    {"path_mtu_above", "a path_mtu above active_mtu", IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_PATH_MTU, Demand::kOpen,
     [](Attr& a, Dev& dev) {
       if (dev.active_mtu() == IBV_MTU_4096) skip("active_mtu is the largest there is");
       a.path_mtu = static_cast<ibv_mtu>(dev.active_mtu() + 1);
     }},
    {"sgid_index", "an sgid_index that has no GID", IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV, Demand::kRefused,
     [](Attr& a, Dev& dev) { a.ah_attr.grh.sgid_index = unused_gid(dev); }},
    {"address_port", "a port of the address other than the QP's", IBV_QPT_RC, IBV_QPS_INIT,
     IBV_QPS_RTR, IBV_QP_AV, Demand::kRefused,
     [](Attr& a, Dev& dev) {
       a.ah_attr.port_num = static_cast<std::uint8_t>(dev.attr().phys_port_cnt + 1);
     }},
    {"no_grh", "an address without a GRH where the port requires one", IBV_QPT_RC, IBV_QPS_INIT,
     IBV_QPS_RTR, IBV_QP_AV, Demand::kRefused,
     [](Attr& a, Dev& dev) {
       if ((dev.port().flags & IBV_QPF_GRH_REQUIRED) == 0 &&
           dev.port().link_layer != IBV_LINK_LAYER_ETHERNET) {
         skip("no IBV_QPF_GRH_REQUIRED");
       }
       a.ah_attr.is_global = 0;
     }},
    {"dest_qp_num", "a dest_qp_num of more than 24 bits", IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_DEST_QPN, Demand::kOpen, [](Attr& a, Dev&) { a.dest_qp_num = k24Bits + 2; }},
    {"rq_psn", "an rq_psn of more than 24 bits", IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_RQ_PSN, Demand::kOpen, [](Attr& a, Dev&) { a.rq_psn = k24Bits + 2; }},
    {"min_rnr_timer", "a min_rnr_timer above 31", IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_MIN_RNR_TIMER, Demand::kOpen, [](Attr& a, Dev&) { a.min_rnr_timer = 32; }},
    {"max_dest_rd_atomic", "a max_dest_rd_atomic above max_qp_rd_atom", IBV_QPT_RC, IBV_QPS_INIT,
     IBV_QPS_RTR, IBV_QP_MAX_DEST_RD_ATOMIC, Demand::kUsual,
     [](Attr& a, Dev& dev) {
       if (dev.attr().max_qp_rd_atom >= 255) skip("each value is within max_qp_rd_atom");
       a.max_dest_rd_atomic = static_cast<std::uint8_t>(dev.attr().max_qp_rd_atom + 1);
     }},
    {"max_rd_atomic", "a max_rd_atomic above max_qp_init_rd_atom", IBV_QPT_RC, IBV_QPS_RTR,
     IBV_QPS_RTS, IBV_QP_MAX_QP_RD_ATOMIC, Demand::kUsual,
     [](Attr& a, Dev& dev) {
       if (dev.attr().max_qp_init_rd_atom >= 255) skip("each value is within max_qp_init_rd_atom");
       a.max_rd_atomic = static_cast<std::uint8_t>(dev.attr().max_qp_init_rd_atom + 1);
     }},
    {"sq_psn", "an sq_psn of more than 24 bits", IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_SQ_PSN, Demand::kOpen, [](Attr& a, Dev&) { a.sq_psn = k24Bits + 2; }},
    {"timeout", "a timeout above 31", IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT,
     Demand::kOpen, [](Attr& a, Dev&) { a.timeout = 32; }},
    {"retry_cnt", "a retry_cnt above 7", IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_RETRY_CNT,
     Demand::kOpen, [](Attr& a, Dev&) { a.retry_cnt = 8; }},
    {"rnr_retry", "an rnr_retry above 7", IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_RNR_RETRY,
     Demand::kOpen, [](Attr& a, Dev&) { a.rnr_retry = 8; }},
    {"cur_state", "a cur_qp_state in which the QP is not", IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS,
     IBV_QP_CUR_STATE, Demand::kOpen, [](Attr& a, Dev&) { a.cur_qp_state = IBV_QPS_SQD; }},
    {"state", "a state that no IBV_QPS names", IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_UNKNOWN, 0,
     Demand::kRefused, [](Attr&, Dev&) {}},
    {"mask", "an unknown bit of the mask", IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, kUnknownBit,
     Demand::kRefused, [](Attr&, Dev&) {}},
};

int required(const Wrong& wrong) {
  for (const Step& step : steps()) {
    if (step.from == wrong.from && step.to == wrong.to) return step.required[0];
  }
  return 0;
}

// "If any of the modify attributes or the modify mask are invalid, none of the attributes will be
// modified (including the QP state)."
void unchanged(const Subject& subject, const ibv_qp_attr& before, const char* says) {
  const ibv_qp_attr now = subject.query();
  require(now.qp_state == before.qp_state, "{}: refused, but the QP is in {}", says,
          state_name(now.qp_state));
  for (const Attribute& a : attributes()) {
    require(a.same(before, now), "{}: refused, but {} has changed", says, a.name);
  }
}

void wrong_value(const Env& env, const Wrong& wrong) {
  const Subject subject(env.dev, wrong.type);
  ibv_qp_attr attr = subject.values();
  wrong.set(attr, env.dev);
  subject.drive(wrong.from);
  const ibv_qp_attr before = subject.query();
  const int err = subject.modify(attr, wrong.to, required(wrong) | wrong.bit);
  switch (wrong.demand) {
    case Demand::kRefused:
      require_refused(err, wrong.bit == kUnknownBit ? EOPNOTSUPP : EINVAL, wrong.says);
      break;
    case Demand::kUsual:
      if (!usually_refused(err, EINVAL, wrong.says)) return;
      break;
    case Demand::kOpen:
      chose(std::format("{}: {}", wrong.says, err == 0 ? "accepted" : errno_name(err)));
      if (err == 0) return;
      break;
  }
  unchanged(subject, before, wrong.says);
  // The right values are accepted then.
  if (wrong.from != wrong.to && wrong.to != IBV_QPS_UNKNOWN) {
    require_err(subject.modify(subject.values(), wrong.to, required(wrong)), 0, "the right values");
  }
}

// Without IBV_QP_STATE the state remains, and what that permits is set.
void without_state(const Env& env) {
  const Subject subject(env.dev, IBV_QPT_RC);
  subject.drive(IBV_QPS_RTS);
  ibv_qp_attr attr = subject.values();
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  const int err = ibv_modify_qp(subject.qp(), &attr, IBV_QP_ACCESS_FLAGS);
  require_usual(err == 0, "access flags without IBV_QP_STATE: {}", errno_name(err));
  subject.require_state(IBV_QPS_RTS, "without IBV_QP_STATE");
  const unsigned flags = subject.query().qp_access_flags;
  const unsigned expected = err == 0 ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  require(flags == expected, "qp_access_flags are {:#x}", flags);
  attr.path_mtu = IBV_MTU_256;
  const int other = ibv_modify_qp(subject.qp(), &attr, IBV_QP_PATH_MTU);
  if (!usually_refused(other, EINVAL, "path_mtu without IBV_QP_STATE in RTS")) return;
  require(subject.query().path_mtu == subject.values().path_mtu, "path_mtu has changed");
}

void nothing(const Env& env) {
  const Subject subject(env.dev, IBV_QPT_RC);
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTS}) {
    subject.drive(state);
    ibv_qp_attr attr{};
    const int err = ibv_modify_qp(subject.qp(), &attr, 0);
    if (err != 0) chose(std::format("an empty mask: {}", errno_name(err)));
    subject.require_state(state, "an empty mask");
  }
}

// ibv_query_qp() returns how the QP was created, in each state.
void query_creation(const Env& env) {
  const Subject subject(env.dev, IBV_QPT_RC);
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTS, IBV_QPS_ERR}) {
    subject.drive(state);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    require_err(ibv_query_qp(subject.qp(), &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0,
                "ibv_query_qp");
    require(init.qp_type == IBV_QPT_RC, "qp_type {}", static_cast<int>(init.qp_type));
    require(init.send_cq == subject.qp()->send_cq && init.recv_cq == subject.qp()->recv_cq,
            "other CQs");
    require(init.srq == nullptr && init.sq_sig_all == 0, "srq or sq_sig_all");
    require(attr.cap.max_send_wr >= 4 && attr.cap.max_recv_wr >= 4,
            "max_send_wr {}, max_recv_wr {}", attr.cap.max_send_wr, attr.cap.max_recv_wr);
    require(attr.cap.max_send_sge >= 1 && attr.cap.max_recv_sge >= 1, "max_send_sge, max_recv_sge");
  }
}

}  // namespace

Rules values() {
  Rules rules{
      {"without_state", "without IBV_QP_STATE the state remains and what it permits is set",
       without_state},
      {"nothing", "an empty mask changes nothing", nothing},
      {"query_creation", "ibv_query_qp returns the attributes of the creation in each state",
       query_creation},
  };
  for (const Wrong& wrong : kWrong) {
    rules.push_back(
        {.name = std::format("wrong_{}", wrong.name),
         .says = std::format("{}: ibv_modify_qp {}, or changes nothing", wrong.says,
                             wrong.demand == Demand::kRefused ? "refuses it" : "may refuse it"),
         .run = [&wrong](const Env& env) { wrong_value(env, wrong); }});
  }
  return rules;
}

Rules all() {
  Rules rules;
  append(rules, transitions(), "ibv_modify_qp(3); IBTA volume 1, 10.3.1 and 11.2.5.2");
  append(rules, values(), "ibv_modify_qp(3), ibv_query_qp(3); IBTA volume 1, 11.2.5");
  return rules;
}

}  // namespace guest::states
