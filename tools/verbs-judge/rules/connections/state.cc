// SPDX-License-Identifier: GPL-2.0-or-later
// QP states: the posts that each accepts, refused transitions, and recovery from an error.
#include <array>
#include <cerrno>
#include <vector>

#include "connections.h"
#include "trace.h"

namespace guest::connections {
namespace {

PairOptions unconnected() {
  PairOptions o;
  o.connect = false;
  return o;
}

// Posts that the states below RTS refuse.
void posts_below_rts(const Env& env) {
  Pair pair(env, unconnected());
  const Connection& how = pair.how;
  ibv_qp* qp = pair.local.qp();
  const Send send = pair.request(IBV_WR_SEND, 8);
  const ibv_sge sge = pair.local.memory().sge(0, 64);
  auto sends_refused = [&](const char* state) {
    for (const Api api : env.dev.apis()) {
      std::size_t bad = 9;
      const int err = guest::post(qp, api, std::span(&send, 1), &bad);
      if (!usually_refused(err, EINVAL, state)) undecided("an accepted send may be executed later");
      if (api == Api::kPost) require_bad(bad, 0);
    }
  };
  sends_refused("a send in RESET");
  {
    const Pair other(env, unconnected());
    usually_refused(post_recv(other.local.qp(), 0, {&sge, 1}), EINVAL, "ibv_post_recv in RESET");
  }
  require_err(to_init(qp, how), 0, "to INIT");
  sends_refused("a send in INIT");
  require_err(post_recv(qp, 1, {&sge, 1}), 0, "ibv_post_recv in INIT");
  require_err(to_rtr(qp, env.dev, how, pair.remote.endpoint()), 0, "to RTR");
  sends_refused("a send in RTR");
  require_err(post_recv(qp, 2, {&sge, 1}), 0, "ibv_post_recv in RTR");
  require_err(to_rts(qp, how, pair.local.endpoint().psn), 0, "to RTS");
  pair.remote.connect(how, pair.local.endpoint());
  for (std::uint64_t i = 1; i <= 2; i++) {
    pair.remote.send(i, {0, 64});
    require_status(poll(pair.local.recv_cq(), 1).front(), i, IBV_WC_SUCCESS);
  }
  pair.expect_traffic();
}

void refused_steps(const Env& env) {
  Pair pair(env, unconnected());
  const Connection& how = pair.how;
  ibv_qp* qp = pair.local.qp();
  for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE}) {
    require_refused(to_state(qp, to), EINVAL, "bare step from RESET");
  }
  require_refused(to_rtr(qp, env.dev, how, pair.remote.endpoint()), EINVAL, "RESET to RTR");
  require_refused(to_rts(qp, how, 0), EINVAL, "RESET to RTS");
  require_err(to_init(qp, how), 0, "to INIT");
  require_refused(to_rts(qp, how, 0), EINVAL, "INIT to RTS");
  require_refused(to_state(qp, IBV_QPS_RTR), EINVAL, "INIT to RTR without attributes");
  require_err(to_rtr(qp, env.dev, how, pair.remote.endpoint()), 0, "to RTR");
  require_refused(to_init(qp, how), EINVAL, "RTR to INIT");
  require_err(to_rts(qp, how, 0), 0, "to RTS");
  require_refused(to_rtr(qp, env.dev, how, pair.remote.endpoint()), EINVAL, "RTS to RTR");
  require_err(to_state(qp, IBV_QPS_ERR), 0, "to ERR");
  require_refused(to_rts(qp, how, 0), EINVAL, "ERR to RTS");
  require_err(to_state(qp, IBV_QPS_RESET), 0, "to RESET");
  require_refused(to_state(qp, IBV_QPS_ERR), EINVAL, "RESET to ERR");
}

// Attributes that were set can be queried.
void query(const Env& env) {
  PairOptions o;
  o.how.timeout = 11;
  o.how.retry_cnt = 5;
  o.how.rnr_retry = 3;
  o.how.min_rnr_timer = 17;
  o.how.max_rd_atomic = 2;
  o.how.max_dest_rd_atomic = 3;
  o.how.qp_access = IBV_ACCESS_REMOTE_READ;
  const Pair pair(env, o);
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  const int mask = IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                   IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_QP_RD_ATOMIC |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS | IBV_QP_DEST_QPN |
                   IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_AV;
  require_err(ibv_query_qp(pair.local.qp(), &a, mask, &init), 0, "ibv_query_qp");
  require(a.qp_state == IBV_QPS_RTS && a.cur_qp_state == IBV_QPS_RTS, "state");
  require(a.path_mtu == pair.how.mtu, "path_mtu {}", static_cast<int>(a.path_mtu));
  require(a.timeout == 11 && a.retry_cnt == 5 && a.rnr_retry == 3, "timeout {} {} {}", a.timeout,
          a.retry_cnt, a.rnr_retry);
  require(a.min_rnr_timer == 17, "min_rnr_timer {}", a.min_rnr_timer);
  require(a.max_rd_atomic >= 2 && a.max_dest_rd_atomic >= 3, "rd_atomic {} {}", a.max_rd_atomic,
          a.max_dest_rd_atomic);
  require(a.qp_access_flags == IBV_ACCESS_REMOTE_READ, "access {:#x}", a.qp_access_flags);
  require(a.dest_qp_num == pair.remote.endpoint().qpn, "dest_qp_num {:#x}", a.dest_qp_num);
  require(a.rq_psn == pair.remote.endpoint().psn, "rq_psn {:#x}", a.rq_psn);
  require(a.sq_psn == pair.local.endpoint().psn, "sq_psn {:#x}", a.sq_psn);
  require(std::equal(std::begin(a.ah_attr.grh.dgid.raw), std::end(a.ah_attr.grh.dgid.raw),
                     std::begin(pair.remote.endpoint().gid.raw)),
          "dgid");
  require(a.ah_attr.grh.sgid_index == env.dev.gid_index(), "sgid_index");
}

// Removes what the QPs completed before they were reset.
void drain(const Pair& pair) {
  constexpr std::size_t kMost = 256;
  std::size_t left = poll_for(pair.local.send_cq(), kMost, 20).size();
  left += poll_for(pair.local.recv_cq(), kMost, 5).size();
  require_usual(left == 0, "completions of before stay in the CQ when a QP is reset");
  pair.remote.expect_quiet(5);
}

// From an error, or with work outstanding, through RESET to a working connection.
void reset_and_reuse(const Env& env) {
  Pair pair(env);
  for (int round = 0; round < 4; round++) {
    pair.expect_traffic();
    const ibv_sge sge = pair.local.memory().sge(0, 64);
    require_err(post_recv(pair.local.qp(), 1, {&sge, 1}), 0, "ibv_post_recv");
    if (round % 2 == 0) {
      Send bad = pair.request(IBV_WR_RDMA_WRITE, 8);
      bad.rkey += 1;
      pair.post(bad);
      pair.expect(0, IBV_WC_REM_ACCESS_ERR);
    } else {
      // Outstanding: the other end has no receive for it.
      pair.post(pair.request(IBV_WR_SEND, 8));
    }
    require_err(to_state(pair.local.qp(), IBV_QPS_RESET), 0, "to RESET");
    pair.remote.to_state(IBV_QPS_RESET);
    drain(pair);
    pair.connect();
  }
  pair.expect_traffic();
}

// Moving the QP to ERR flushes all posted requests in order.
void flush_on_err(const Env& env) {
  const Pair pair(env);
  const ibv_sge sge = pair.local.memory().sge(0, 64);
  std::vector<Send> list;
  for (std::uint64_t i = 0; i < 8; i++) {
    require_err(post_recv(pair.local.qp(), i, {&sge, 1}), 0, "ibv_post_recv");
    list.push_back(pair.request(IBV_WR_SEND, 8));
    list.back().wr_id = i;
  }
  pair.post(list);  // without receives at the other end none completes
  expect_quiet(pair.local.send_cq(), 30);
  require_err(to_state(pair.local.qp(), IBV_QPS_ERR), 0, "to ERR");
  const auto recvs = poll(pair.local.recv_cq(), 8);
  for (std::uint64_t i = 0; i < 8; i++) {
    pair.expect(i, IBV_WC_WR_FLUSH_ERR);
    require_status(recvs[i], i, IBV_WC_WR_FLUSH_ERR);
  }
}

int to_sqd(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

// No capability tells of SQD.
void sqd(const Pair& pair) {
  const int err = to_sqd(pair.local.qp());
  trace("QP {:#x} to SQD: {}", pair.local.qp()->qp_num, errno_name(err));
  if (err == EOPNOTSUPP) undecided("to SQD: EOPNOTSUPP");
  require_err(err, 0, "to SQD");
}

// SQD: requests already started finish, and an event reports that. Others wait for RTS; the first
// request may be one of these.
void send_queue_drained(const Env& env) {
  PairOptions o;
  o.local.memory = o.remote.memory = 1 << 20;
  const Pair pair(env, o);
  for (int round = 0; round < 2; round++) {
    pair.fill({0, 1 << 20}, 4);
    pair.post(pair.request(IBV_WR_RDMA_WRITE, 1 << 20));
    sqd(pair);
    require(env.dev.wait_async(IBV_EVENT_SQ_DRAINED, 10000), "no IBV_EVENT_SQ_DRAINED");
    Send later = pair.request(IBV_WR_RDMA_WRITE, 8);
    later.wr_id = 1;
    pair.post(later);
    const auto done = poll_for(pair.local.send_cq(), 2, strict() ? 1000 : 50);
    require(done.size() <= 1, "a request that was posted in SQD completes there");
    for (const ibv_wc& wc : done) require_status(wc, 0, IBV_WC_SUCCESS);
    require_usual(done.size() == 1, "a request posted just before SQD waits for RTS");
    // Receiving continues in SQD.
    const ibv_sge sge = pair.local.memory().sge(0, 64);
    require_err(post_recv(pair.local.qp(), 9, {&sge, 1}), 0, "ibv_post_recv");
    pair.remote.send(2, {0, 64});
    require_status(poll(pair.local.recv_cq(), 1).front(), 9, IBV_WC_SUCCESS);
    require_err(to_state(pair.local.qp(), IBV_QPS_RTS), 0, "SQD to RTS");
    if (done.empty()) pair.expect(0);
    pair.expect(1);
    static_cast<void>(pair.remote.poll_send(1));
  }
}

// A request that got an RNR NAK is outstanding: no SQ_DRAINED before its completion.
void drained_after_rnr(const Env& env) {
  PairOptions o;
  o.how.rnr_retry = 7;
  o.how.min_rnr_timer = 14;  // 1.28 ms
  const Pair pair(env, o);
  for (std::uint64_t round = 0; round < 3; round++) {
    pair.post(pair.request(IBV_WR_SEND, 8));
    expect_quiet(pair.local.send_cq(), 30);
    sqd(pair);
    require(!env.dev.wait_async(IBV_EVENT_SQ_DRAINED, 100),
            "IBV_EVENT_SQ_DRAINED with a request outstanding");
    ibv_qp_attr a{};
    ibv_qp_init_attr init{};
    require_err(ibv_query_qp(pair.local.qp(), &a, IBV_QP_STATE, &init), 0, "ibv_query_qp");
    require(a.sq_draining != 0, "sq_draining is clear with a request outstanding");
    pair.remote.post_recv(round, {0, 64});
    require(env.dev.wait_async(IBV_EVENT_SQ_DRAINED, 10000), "no IBV_EVENT_SQ_DRAINED");
    pair.expect(0);
    pair.expect_recv(round);
    require_err(to_state(pair.local.qp(), IBV_QPS_RTS), 0, "SQD to RTS");
  }
  pair.expect_traffic();
}

}  // namespace

Rules state() {
  return {
      {"posts_below_rts",
       "a send is refused below RTS and a receive in RESET; receives of INIT and RTR are used",
       posts_below_rts},
      {"refused_steps", "a change of state that the table of ibv_modify_qp(3) lacks is refused",
       refused_steps},
      {"query", "ibv_query_qp returns the attributes that ibv_modify_qp set", query},
      {"reset_and_reuse",
       "a QP that was reset can be connected again, and nothing of before appears",
       reset_and_reuse},
      {"flush_on_err", "a change to ERR flushes all requests of both queues in order",
       flush_on_err},
      {"send_queue_drained",
       "in SQD started requests finish, an event says so, and later ones wait for RTS",
       send_queue_drained},
      {"drained_after_rnr",
       "no IBV_EVENT_SQ_DRAINED while a request waits for a receive of the peer",
       drained_after_rnr},
  };
}

}  // namespace guest::connections
