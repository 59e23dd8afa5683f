// SPDX-License-Identifier: GPL-2.0-or-later
// Completion events, solicited or not, and asynchronous events.
#include <vector>

#include "connections.h"

namespace guest::connections {
namespace {

constexpr int kSoon = 5000;  // ms; an expected event must arrive within this time
constexpr int kNever = 150;  // ms; no event may arrive within this time

void arm(ibv_cq* cq, bool solicited_only) {
  require_err(ibv_req_notify_cq(cq, solicited_only ? 1 : 0), 0, "ibv_req_notify_cq");
}

// Each arm gives one event; without an arm there is none.
void one_event_an_arm(const Env& env) {
  const Pair pair(env);
  for (std::uint64_t i = 0; i < 20; i++) {
    pair.remote.arm(false);
    require(!pair.remote.wait_event(i == 0 ? kNever : 0), "event without a completion");
    for (std::uint64_t n = 0; n < 3; n++) {
      pair.remote.post_recv(n, {0, 64});
      pair.post(pair.request(IBV_WR_SEND, 8));
      pair.expect(0);
    }
    static_cast<void>(pair.remote.poll_recv(3));
    require(pair.remote.wait_event(kSoon), "no event");
    require(!pair.remote.wait_event(i < 2 ? kNever : 0), "second event of one arm");
  }
  pair.remote.post_recv(0, {0, 64});
  pair.post(pair.request(IBV_WR_SEND, 8));
  pair.expect_recv(0);
  require(!pair.remote.wait_event(kNever), "event without an arm");
}

// If the completion precedes the arm, devices may raise the event at once, or with the next
// completion: only a new one must raise it.
void arm_after_completion(const Env& env) {
  const Pair pair(env);
  bool at_once = true;
  for (int i = 0; i < 10 && at_once; i++) {
    pair.remote.post_recv(1, {0, 64});
    pair.post(pair.request(IBV_WR_SEND, 8));
    pair.expect(0);
    pair.remote.arm(false);
    at_once = pair.remote.wait_event(strict() ? kSoon : kNever);
    require_usual(at_once, "no event of a completion that waits");
    if (!at_once) {
      pair.remote.post_recv(1, {0, 64});
      pair.post(pair.request(IBV_WR_SEND, 8));
      pair.expect(0);
      require(pair.remote.wait_event(kSoon), "no event of a new completion");
      pair.expect_recv(1);
    }
    pair.expect_recv(1);
  }
  // A completion polled before the arm raises no event.
  pair.remote.arm(false);
  require(!pair.remote.wait_event(kNever), "event of a polled completion");
}

void solicited(const Env& env) {
  const Pair pair(env);
  for (const Api api : env.dev.apis()) {
    for (const ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}) {
      pair.remote.arm(true);
      pair.remote.post_recv(1, {0, 64});
      pair.remote.post_recv(2, {0, 64});
      pair.post(pair.request(op, 8), api);
      pair.expect(0);
      pair.expect_recv(1);
      require(!pair.remote.wait_event(kNever), "event of a message that is not solicited");
      Send send = pair.request(op, 8);
      send.flags |= IBV_SEND_SOLICITED;
      pair.post(send, api);
      pair.expect(0);
      require(pair.remote.wait_event(kSoon), "no event of a solicited message");
      pair.expect_recv(2);
    }
  }
}

// An unsuccessful completion raises an event even if armed for solicited ones only.
void solicited_error(const Env& env) {
  const Pair pair(env);
  pair.remote.arm(true);
  pair.remote.post_recv(1, {0, 64});
  pair.remote.to_state(IBV_QPS_ERR);
  require(pair.remote.wait_event(kSoon), "no event");
  pair.expect_recv(1, IBV_WC_WR_FLUSH_ERR);
}

// Arming for solicited completions does not weaken an earlier arm for any completion.
void any_outlives_solicited(const Env& env) {
  const Pair pair(env);
  pair.remote.arm(false);
  pair.remote.arm(true);
  pair.remote.post_recv(1, {0, 64});
  pair.post(pair.request(IBV_WR_SEND, 8));
  pair.expect(0);
  require(pair.remote.wait_event(kSoon), "no event");
  pair.expect_recv(1);
}

// Wait, arm, poll: the usual loop must lose no wake-up.
void wake_up_loop(const Env& env) {
  const ChannelPtr channel(ibv_create_comp_channel(env.dev.context()));
  const CqPtr cq = create_cq(env.dev, 16, channel.get());
  PairOptions o;
  o.local.send_cq = cq.get();
  const Pair pair(env, o);
  arm(cq.get(), false);
  for (unsigned i = 0; i < 2 * env.effort; i++) {
    pair.post(pair.request(IBV_WR_RDMA_WRITE, 8, 0, 0, i));
    require(wait_event(channel.get(), kSoon), "no event for completion {}", i);
    arm(cq.get(), false);
    require_status(poll(cq.get(), 1).front(), i, IBV_WC_SUCCESS);
    // The arm preceded the poll, so the polled completion may have raised one more event.
    while (wait_event(channel.get(), 0)) arm(cq.get(), false);
  }
}

// More completions than the CQ holds raise IBV_EVENT_CQ_ERR.
void cq_overflow(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 4);
  const std::uint32_t count = static_cast<std::uint32_t>(cq->cqe) + 8;
  if (count > static_cast<std::uint32_t>(env.dev.attr().max_qp_wr)) {
    skip("max_qp_wr is less than {}", count);
  }
  PairOptions o;
  o.local.send_cq = cq.get();
  o.local.send_wr = count;
  const Pair pair(env, o);
  pair.post(std::vector<Send>(count, pair.request(IBV_WR_RDMA_WRITE, 8)));
  require(env.dev.wait_async(IBV_EVENT_CQ_ERR, kSoon), "no IBV_EVENT_CQ_ERR");
  require_usual(env.dev.wait_async(IBV_EVENT_QP_FATAL, strict() ? kSoon : 500),
                "no IBV_EVENT_QP_FATAL");
  require_usual(state_of(pair.local.qp()) == IBV_QPS_ERR, "the QP is not in ERR");
  // Other QPs are not affected.
  const Pair next(env);
  next.expect_traffic();
}

void comm_established(const Env& env) {
  PairOptions o;
  o.connect = false;
  Pair pair(env, o);
  ibv_qp* qp = pair.local.qp();
  const ibv_sge sge = pair.local.memory().sge(0, 64);
  require_err(to_init(qp, pair.how), 0, "to INIT");
  require_err(post_recv(qp, 1, {&sge, 1}), 0, "ibv_post_recv");
  require_err(to_rtr(qp, env.dev, pair.how, pair.remote.endpoint()), 0, "to RTR");
  pair.remote.connect(pair.how, pair.local.endpoint());
  pair.remote.send(2, {0, 64});
  require_usual(env.dev.wait_async(IBV_EVENT_COMM_EST, strict() ? kSoon : 500),
                "no IBV_EVENT_COMM_EST");
  require_status(poll(pair.local.recv_cq(), 1).front(), 1, IBV_WC_SUCCESS);
}

}  // namespace

Rules event() {
  return {
      {"one_event_an_arm", "ibv_req_notify_cq gives one event, and there is none without it",
       one_event_an_arm},
      {"arm_after_completion",
       "a completion after ibv_req_notify_cq raises the event, though others wait",
       arm_after_completion},
      {"solicited",
       "armed for solicited completions, only IBV_SEND_SOLICITED messages raise the event",
       solicited},
      {"solicited_error",
       "armed for solicited completions, an unsuccessful one raises the event too",
       solicited_error},
      {"any_outlives_solicited",
       "arming for solicited completions does not weaken an earlier arm for any",
       any_outlives_solicited},
      {"wake_up_loop", "wait, arm, poll: the usual loop loses no wake-up", wake_up_loop},
      {"cq_overflow", "more completions than a CQ holds: IBV_EVENT_CQ_ERR, and other CQs work on",
       cq_overflow},
      {"comm_established", "a message that arrives in RTR raises IBV_EVENT_COMM_EST",
       comm_established},
  };
}

}  // namespace guest::connections
