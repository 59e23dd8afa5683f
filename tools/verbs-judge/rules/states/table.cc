// SPDX-License-Identifier: GPL-2.0-or-later
// The table of transitions, and a QP that takes them.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "states.h"

namespace guest::states {
namespace {

constexpr int kMigration = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kInitUd = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int kPath = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kPathResponder = kPath | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kPathMore = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
constexpr int kRequester =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kReady = IBV_QP_CUR_STATE | kMigration | IBV_QP_ACCESS_FLAGS;
constexpr int kReadyResponder = kReady | IBV_QP_MIN_RNR_TIMER;
constexpr int kReadyUd = IBV_QP_CUR_STATE | IBV_QP_QKEY;
constexpr std::array<int, 6> kReadyAll{kReadyResponder, kReady,          kReadyUd,
                                       kReady,          kReadyResponder, 0};
constexpr int kNotify = IBV_QP_EN_SQD_ASYNC_NOTIFY;
constexpr int kDrained = IBV_QP_AV | kMigration | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
constexpr int kDrainedRequester = kDrained | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kDrainedResponder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

// In the order of kColumns.
constexpr Step kSteps[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, {kInit, kInit, kInitUd, kInit, kInit, IBV_QP_PORT}, {}},
    {IBV_QPS_INIT, IBV_QPS_INIT, {}, {kInit, kInit, kInitUd, kInit, kInit, 0}},
    {IBV_QPS_INIT,
     IBV_QPS_RTR,
     {kPathResponder, kPath, 0, kPath, kPathResponder, 0},
     {kPathMore, kPathMore, IBV_QP_PKEY_INDEX | IBV_QP_QKEY, kPathMore, kPathMore, 0}},
    {IBV_QPS_RTR,
     IBV_QPS_RTS,
     {kRequester, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN, kRequester, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, 0},
     kReadyAll},
    {IBV_QPS_RTS, IBV_QPS_RTS, {}, kReadyAll},
    {IBV_QPS_RTS, IBV_QPS_SQD, {}, {kNotify, kNotify, kNotify, kNotify, kNotify, 0}},
    {IBV_QPS_SQD, IBV_QPS_RTS, {}, kReadyAll},
    {IBV_QPS_SQD,
     IBV_QPS_SQD,
     {},
     {kDrainedRequester | kDrainedResponder, kDrained, IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
      kDrainedRequester, kDrained | IBV_QP_PORT | IBV_QP_TIMEOUT | kDrainedResponder, 0}},
    {IBV_QPS_SQE, IBV_QPS_RTS, {}, {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS, kReadyUd, 0, 0, 0}},
};

template <auto Field>
bool same(const ibv_qp_attr& set, const ibv_qp_attr& got) {
  return set.*Field == got.*Field;
}
// A device may round these up.
template <auto Field>
bool at_least(const ibv_qp_attr& set, const ibv_qp_attr& got) {
  return set.*Field <= got.*Field;
}
bool unknown(const ibv_qp_attr&, const ibv_qp_attr&) { return true; }

// Linux takes the hop limit from the route.
template <auto Field>
bool same_address(const ibv_qp_attr& set, const ibv_qp_attr& got) {
  const ibv_ah_attr& a = set.*Field;
  const ibv_ah_attr& b = got.*Field;
  return a.port_num == b.port_num && a.is_global == b.is_global &&
         a.grh.sgid_index == b.grh.sgid_index && a.grh.traffic_class == b.grh.traffic_class &&
         std::memcmp(a.grh.dgid.raw, b.grh.dgid.raw, sizeof(a.grh.dgid.raw)) == 0;
}
bool same_alternate(const ibv_qp_attr& set, const ibv_qp_attr& got) {
  return same_address<&ibv_qp_attr::alt_ah_attr>(set, got) &&
         set.alt_port_num == got.alt_port_num && set.alt_timeout == got.alt_timeout;
}

using A = ibv_qp_attr;
constexpr Attribute kAttributes[] = {
    {IBV_QP_CUR_STATE, "IBV_QP_CUR_STATE", unknown},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "IBV_QP_EN_SQD_ASYNC_NOTIFY", unknown},
    {IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS", same<&A::qp_access_flags>},
    {IBV_QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX", same<&A::pkey_index>},
    {IBV_QP_PORT, "IBV_QP_PORT", same<&A::port_num>},
    {IBV_QP_QKEY, "IBV_QP_QKEY", same<&A::qkey>},
    {IBV_QP_AV, "IBV_QP_AV", same_address<&A::ah_attr>},
    {IBV_QP_PATH_MTU, "IBV_QP_PATH_MTU", same<&A::path_mtu>},
    {IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT", same<&A::timeout>},
    {IBV_QP_RETRY_CNT, "IBV_QP_RETRY_CNT", same<&A::retry_cnt>},
    {IBV_QP_RNR_RETRY, "IBV_QP_RNR_RETRY", same<&A::rnr_retry>},
    {IBV_QP_RQ_PSN, "IBV_QP_RQ_PSN", same<&A::rq_psn>},
    {IBV_QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC", at_least<&A::max_rd_atomic>},
    {IBV_QP_ALT_PATH, "IBV_QP_ALT_PATH", same_alternate},
    {IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER", same<&A::min_rnr_timer>},
    {IBV_QP_SQ_PSN, "IBV_QP_SQ_PSN", same<&A::sq_psn>},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC", at_least<&A::max_dest_rd_atomic>},
    {IBV_QP_PATH_MIG_STATE, "IBV_QP_PATH_MIG_STATE", same<&A::path_mig_state>},
    {IBV_QP_CAP, "IBV_QP_CAP", unknown},
    {IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN", same<&A::dest_qp_num>},
};

std::size_t column(ibv_qp_type type) {
  std::size_t i = 0;
  while (kColumns.at(i).type != type) i++;
  return i;
}

}  // namespace

const char* state_name(ibv_qp_state state) {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return static_cast<std::size_t>(state) < std::size(kNames) ? kNames[state] : "an unknown state";
}

std::span<const Step> steps() { return kSteps; }
std::span<const Attribute> attributes() { return kAttributes; }

bool has_step(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET)) return true;
  const bool has_sqe = type == IBV_QPT_UC || type == IBV_QPT_UD;
  for (const Step& step : kSteps) {
    if (step.from == from && step.to == to) return from != IBV_QPS_SQE || has_sqe;
  }
  return false;
}

Subject::Subject(const Device& dev, ibv_qp_type type)
    : dev_(dev), type_(type), cq_(create_cq(dev, 16)), memory_(dev.pd(), 4096, kAllAccess) {
  QpSpec spec{.type = type};
  if (type == IBV_QPT_XRC_RECV) {
    xrc_ = open_xrc(dev, dev.pd(), cq_.get());
    spec.xrcd = xrc_.xrcd.get();
  } else {
    spec.send_cq = cq_.get();
    spec.recv_cq = type == IBV_QPT_XRC_SEND ? nullptr : cq_.get();
    if (type == IBV_QPT_XRC_SEND) spec.cap = capacity(4, 0);
    spec.send_ops = IBV_QP_EX_WITH_SEND;
  }
  if (type == IBV_QPT_RAW_PACKET) {
    if (dev.attr().max_raw_ethy_qp == 0) skip("max_raw_ethy_qp is 0");
    qp_ = try_create_qp(dev, spec);
    if (!qp_) skip("no QP of raw packets: {}", errno_name(errno));
  } else {
    qp_ = create_qp(dev, spec);
  }
}

ibv_qp_attr Subject::values() const {
  ibv_qp_attr a{};
  a.path_mtu = std::min(dev_.active_mtu(), IBV_MTU_512);
  a.path_mig_state = IBV_MIG_MIGRATED;
  a.qkey = 0x01234567;
  a.rq_psn = a.sq_psn = 0x00abcde;
  a.dest_qp_num = qp()->qp_num;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  a.cap = capacity(4, 4);
  a.ah_attr = path_to_itself(dev_);
  a.ah_attr.grh.hop_limit = 33;
  a.ah_attr.grh.traffic_class = 32;
  a.alt_ah_attr = a.ah_attr;
  a.max_rd_atomic = a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 13;
  a.port_num = a.alt_port_num = 1;
  a.timeout = 15;
  a.alt_timeout = 16;
  a.retry_cnt = 5;
  a.rnr_retry = 6;
  return a;
}

int Subject::modify(ibv_qp_attr attr, ibv_qp_state to, int mask) const {
  attr.qp_state = to;
  return ibv_modify_qp(qp(), &attr, mask | IBV_QP_STATE);
}

ibv_qp_attr Subject::query() const {
  ibv_qp_attr got{};
  ibv_qp_init_attr init{};
  int mask = IBV_QP_STATE;
  for (const Attribute& attribute : kAttributes) mask |= attribute.bit;
  require_err(ibv_query_qp(qp(), &got, mask, &init), 0, "ibv_query_qp");
  return got;
}

void Subject::require_state(ibv_qp_state state, const std::string& when) const {
  const ibv_qp_state now = state_of(qp());
  require(now == state, "{}: the QP is in {}, not in {}", when, state_name(now), state_name(state));
}

void Subject::step(ibv_qp_state from, ibv_qp_state to) const {
  for (const Step& s : kSteps) {
    if (s.from != from || s.to != to) continue;
    const int err = modify(values(), to, s.required.at(column(type_)));
    if (to == IBV_QPS_SQD && err != 0) {
      require_usual(false, "a change to SQD: {}", errno_name(err));
      skip("no SQD");
    }
    require(err == 0, "{} to {}: {}", state_name(from), state_name(to), errno_name(err));
    if (to == IBV_QPS_SQD) wait_drained();
  }
}

// The send queue is empty, but a device may need a moment to find out.
void Subject::wait_drained() const {
  constexpr int kMost = 1000;  // ms
  for (int ms = 0; ms < kMost && query().sq_draining != 0; ms++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Lets a send fail, which stops the send queue of a QP without a connection.
void Subject::break_send_queue() const {
  AhPtr ah;
  Send send{.sges = {memory_.sge(0, 8)}, .raddr = memory_.address(), .rkey = memory_.rkey()};
  send.sges[0].lkey ^= 0xffff00;
  if (type_ == IBV_QPT_UD) ah = create_ah(dev_, dev_.gid(), dev_.port().lid);
  send.ah = ah.get();
  send.remote_qpn = qp()->qp_num;
  send.remote_qkey = values().qkey;
  require_err(post(qp(), Api::kPost, send), 0, "ibv_post_send");
  const ibv_wc wc = poll(cq_.get(), 1).front();
  require(wc.status != IBV_WC_SUCCESS, "a send with a wrong key succeeds");
  const ibv_qp_state now = state_of(qp());
  if (now != IBV_QPS_SQE) {
    require_usual(false, "after a failed send the QP is in {}", state_name(now));
    skip("no SQE");
  }
}

void Subject::drive(ibv_qp_state state) const {
  if (state_of(qp()) == IBV_QPS_SQD) wait_drained();
  require_err(to_state(qp(), IBV_QPS_RESET), 0, "to RESET");
  const auto passes = [state](ibv_qp_state by) { return state != IBV_QPS_RESET && state >= by; };
  if (passes(IBV_QPS_INIT)) step(IBV_QPS_RESET, IBV_QPS_INIT);
  if (passes(IBV_QPS_RTR)) step(IBV_QPS_INIT, IBV_QPS_RTR);
  if (passes(IBV_QPS_RTS)) step(IBV_QPS_RTR, IBV_QPS_RTS);
  if (state == IBV_QPS_SQD) step(IBV_QPS_RTS, IBV_QPS_SQD);
  if (state == IBV_QPS_SQE) break_send_queue();
  if (state == IBV_QPS_ERR) require_err(to_state(qp(), IBV_QPS_ERR), 0, "to ERR");
  require_state(state, "a change of state");
}

}  // namespace guest::states
