// SPDX-License-Identifier: GPL-2.0-or-later
// Connections: their establishment, parameters, private data and rejection.
#include <netdb.h>

#include <algorithm>
#include <cerrno>

#include "cm.h"

namespace guest::cm {
namespace {

// Reasons of a rejection over InfiniBand and RoCE (IBTA volume 1, 12.6.7.2).
constexpr int kInvalidService = 8;
constexpr int kByConsumer = 28;
// The most private data that InfiniBand and RoCE carry.
constexpr std::size_t kMostConnect = 56;
constexpr std::size_t kMostAccept = 196;
constexpr std::size_t kMostReject = 148;

void connected(const Env& env) {
  const Meeting m(env);
  for (int i = 0; i < 3; i++) {
    Peer caller = m.caller();
    const Peer callee = m.connect(caller);
    require(m.address.same_host(rdma_get_peer_addr(callee.id())), "another address of the caller");
    require(callee.port() == m.listener.port(), "port {}", callee.port());
    require(ntohs(rdma_get_dst_port(callee.id())) == caller.port(), "another port of the caller");
    require(state_of(caller.id()->qp) == IBV_QPS_RTS, "the caller's QP is not in RTS");
    exchange(caller, callee);
  }
}

void request_data(const Env& env) {
  const Meeting m(env);
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{17}, kMostConnect}) {
    Peer caller = m.caller();
    const auto data = bytes(length, length);
    const Event event = m.call(caller, Meeting::params(data));
    require_data(event, data);
    const Peer callee(event.id);
    require_err(error_of(rdma_reject(callee.id(), nullptr, 0)), 0, "rdma_reject");
    m.active_events.expect(RDMA_CM_EVENT_REJECTED);
  }
  if (!m.infiniband()) return;
  const Peer caller = m.caller();
  const auto data = bytes(kMostConnect + 1, 1);
  rdma_conn_param param = Meeting::params(data);
  require_refused(error_of(rdma_connect(caller.id(), &param)), EINVAL,
                  "rdma_connect with 57 bytes of private data");
}

void accept_data(const Env& env) {
  const Meeting m(env);
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{100}, kMostAccept}) {
    Peer caller = m.caller();
    Peer callee(m.call(caller).id);
    callee.make_qp();
    const auto data = bytes(length, length);
    require_data(m.accept(callee, Meeting::params(data)), data);
  }
}

// The reason is the transport's; that of InfiniBand and RoCE is the one of the REJ message.
void check_reason(bool infiniband, const Event& event, int reason) {
  if (infiniband) {
    require(event.status == reason, "status {}, not {}", event.status, reason);
  } else if (event.status != -ECONNREFUSED) {
    chose(std::format("status {}", event.status));
  }
}

void reject_data(const Env& env) {
  const Meeting m(env);
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{80}, kMostReject}) {
    Peer caller = m.caller();
    const Peer callee(m.call(caller).id);
    const auto data = bytes(length, length);
    require_err(error_of(rdma_reject(callee.id(), data.data(), static_cast<std::uint8_t>(length))),
                0, "rdma_reject");
    const Event event = m.active_events.expect(RDMA_CM_EVENT_REJECTED);
    require(event.id == caller.id(), "another identifier");
    require_data(event, data);
    check_reason(m.infiniband(), event, kByConsumer);
  }
}

// Of a port that nobody listens to.
void unknown_port(const Env& env) {
  Meeting m(env);
  const Peer caller = m.caller();
  m.listener.close();
  rdma_conn_param param = Meeting::params();
  const int err = error_of(rdma_connect(caller.id(), &param));
  const bool infiniband = caller.id()->verbs->device->transport_type == IBV_TRANSPORT_IB;
  if (err != 0 && !infiniband) return chose("rdma_connect: " + errno_name(err));
  require_err(err, 0, "rdma_connect");
  check_reason(infiniband, m.active_events.expect(RDMA_CM_EVENT_REJECTED), kInvalidService);
}

// What one end offers is what the other may use.
void parameters(const Env& env) {
  const Meeting m(env);
  const auto most = static_cast<std::uint8_t>(
      std::min({env.dev.attr().max_qp_rd_atom, env.dev.attr().max_qp_init_rd_atom, 4}));
  if (most < 2) skip("fewer than 2 READs");
  Peer caller = m.caller();
  rdma_conn_param param = Meeting::params();
  param.responder_resources = most;
  param.initiator_depth = static_cast<std::uint8_t>(most - 1);
  param.retry_count = 5;
  param.rnr_retry_count = 6;
  const Event request = m.call(caller, param);
  require_usual(request.conn.initiator_depth == most, "initiator_depth {}, not {}",
                request.conn.initiator_depth, most);
  require_usual(request.conn.responder_resources == most - 1, "responder_resources {}, not {}",
                request.conn.responder_resources, most - 1);
  if (m.infiniband()) {
    require(request.conn.qp_num == caller.id()->qp->qp_num, "qp_num {:#x}", request.conn.qp_num);
    require(request.conn.retry_count == 5, "retry_count {}", request.conn.retry_count);
    require(request.conn.rnr_retry_count == 6, "rnr_retry_count {}", request.conn.rnr_retry_count);
    require(request.conn.srq == 0, "srq {}", request.conn.srq);
  }
  Peer callee(request.id);
  callee.make_qp();
  param.responder_resources = static_cast<std::uint8_t>(most - 1);
  param.initiator_depth = static_cast<std::uint8_t>(most - 1);
  const Event answer = m.accept(callee, param);
  require_usual(answer.conn.initiator_depth == most - 1, "initiator_depth {} of the answer",
                answer.conn.initiator_depth);
  if (m.infiniband()) {
    require(answer.conn.qp_num == callee.id()->qp->qp_num, "qp_num {:#x}", answer.conn.qp_num);
  }
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  const int mask = IBV_QP_RNR_RETRY | IBV_QP_RETRY_CNT | IBV_QP_DEST_QPN;
  require_err(ibv_query_qp(caller.id()->qp, &attr, mask, &init), 0, "ibv_query_qp");
  if (m.infiniband()) {
    require(attr.dest_qp_num == callee.id()->qp->qp_num, "dest_qp_num {:#x}", attr.dest_qp_num);
    require_usual(attr.retry_cnt == 5, "retry_cnt {}", attr.retry_cnt);
  }
  exchange(caller, callee);
}

// The program has made the QP itself and moves it with rdma_init_qp_attr().
void own_qp(const Env& env) {
  const Meeting m(env);
  if (!m.infiniband()) skip("no CONNECT_RESPONSE on iWARP");
  Peer caller = m.caller(false);
  const PdPtr pd(ibv_alloc_pd(caller.id()->verbs));
  const CqPtr cq(ibv_create_cq(caller.id()->verbs, 16, nullptr, nullptr, 0));
  if (!pd || !cq) fail_errno("ibv_create_cq");
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.get();
  init.cap = capacity(4, 4);
  init.qp_type = IBV_QPT_RC;
  const QpPtr qp(ibv_create_qp(pd.get(), &init));
  if (!qp) fail_errno("ibv_create_qp");
  const auto move = [&](ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    require_err(error_of(rdma_init_qp_attr(caller.id(), &attr, &mask)), 0, "rdma_init_qp_attr");
    if (state == IBV_QPS_RTR) {
      attr.max_dest_rd_atomic = 1;
      mask |= IBV_QP_MAX_DEST_RD_ATOMIC;
    } else if (state == IBV_QPS_RTS) {
      attr.max_rd_atomic = 1;
      mask |= IBV_QP_MAX_QP_RD_ATOMIC;
    }
    require_err(ibv_modify_qp(qp.get(), &attr, mask), 0, "ibv_modify_qp by rdma_init_qp_attr");
  };
  move(IBV_QPS_INIT);
  rdma_conn_param param = Meeting::params();
  param.qp_num = qp->qp_num;
  Peer callee(m.call(caller, param).id);
  callee.make_qp();
  callee.recv(1);
  rdma_conn_param answer = Meeting::params();
  require_err(error_of(rdma_accept(callee.id(), &answer)), 0, "rdma_accept");
  m.active_events.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  move(IBV_QPS_RTR);
  move(IBV_QPS_RTS);
  require_err(error_of(rdma_establish(caller.id())), 0, "rdma_establish");
  m.passive_events.expect(RDMA_CM_EVENT_ESTABLISHED);
  const Memory memory(pd.get(), 4096, IBV_ACCESS_LOCAL_WRITE);
  require_err(post(qp.get(), Api::kPost, Send{.sges = {memory.sge(0, 8)}}), 0, "ibv_post_send");
  require_status(poll(cq.get(), 1).front(), 0, IBV_WC_SUCCESS);
  callee.received(1);
}

void several(const Env& env) {
  constexpr std::size_t kCount = 8;
  const Meeting m(env, RDMA_PS_TCP, kCount);
  std::vector<Peer> callers;
  std::vector<Peer> callees;
  for (std::size_t i = 0; i < kCount; i++) callers.push_back(m.caller());
  for (Peer& caller : callers) {
    callees.emplace_back(m.call(caller).id);
    callees.back().make_qp();
  }
  // Accepted in another order than they have called.
  for (std::size_t i = kCount; i-- > 0;) {
    require(m.accept(callees[i]).id == callers[i].id(), "another identifier");
  }
  for (std::size_t i = 0; i < kCount; i++) exchange(callers[i], callees[i]);
}

// As many calls as the backlog wait until they are accepted.
void backlog(const Env& env) {
  constexpr int kBacklog = 3;
  const Meeting m(env, RDMA_PS_TCP, kBacklog);
  std::vector<Peer> callers;
  rdma_conn_param param = Meeting::params();
  for (int i = 0; i < kBacklog; i++) {
    callers.push_back(m.caller());
    require_err(error_of(rdma_connect(callers.back().id(), &param)), 0, "rdma_connect");
  }
  std::vector<Peer> callees;
  for (int i = 0; i < kBacklog; i++) {
    callees.emplace_back(m.passive_events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  }
  for (Peer& callee : callees) {
    callee.make_qp();
    m.accept(callee);
  }
}

// With rdma_getaddrinfo() and rdma_create_ep() the calls wait for their events.
void endpoints(const Env& env) {
  const Meeting m(env);
  if (m.address.get()->sa_family != AF_INET) skip("no IPv4 address");
  char host[INET_ADDRSTRLEN] = {};
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* info = nullptr;
  require(getnameinfo(m.address.get(), sizeof(sockaddr_in), host, sizeof(host), nullptr, 0,
                      NI_NUMERICHOST) == 0,
          "getnameinfo");
  const std::string port = std::to_string(m.listener.port());
  require(rdma_getaddrinfo(host, port.c_str(), &hints, &info) == 0, "rdma_getaddrinfo: {}",
          errno_name(errno));
  const std::unique_ptr<rdma_addrinfo, void (*)(rdma_addrinfo*)> owner(info, rdma_freeaddrinfo);
  require(info->ai_port_space == RDMA_PS_TCP && m.address.same_host(info->ai_dst_addr),
          "rdma_getaddrinfo returns another address");
  ibv_qp_init_attr attr{};
  attr.cap = capacity(4, 4);
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  rdma_cm_id* id = nullptr;
  require_err(error_of(rdma_create_ep(&id, info, nullptr, &attr)), 0, "rdma_create_ep");
  require(id->qp != nullptr, "no QP");
  rdma_destroy_ep(id);
}

}  // namespace

Rules connections() {
  return {
      {"connected", "a call that is accepted becomes a connection, on which both ends send",
       connected},
      {"request_data", "the other end gets the private data of a call", request_data},
      {"accept_data", "the caller gets the private data of the one that accepts", accept_data},
      {"reject_data", "a rejection has its reason and private data", reject_data},
      {"unknown_port", "a call to a port without a listener is rejected", unknown_port},
      {"parameters", "each end sees the parameters that the other has given", parameters},
      {"own_qp", "a program can move its own QP by rdma_init_qp_attr and rdma_establish", own_qp,
       "rdma_init_qp_attr(3), rdma_establish(3)"},
      {"several", "calls may wait, and be accepted in any order", several},
      {"backlog", "as many calls as the backlog of rdma_listen wait for an answer", backlog,
       "rdma_listen(3)"},
      {"endpoints", "rdma_create_ep resolves what rdma_getaddrinfo returned, and makes a QP",
       endpoints, "rdma_getaddrinfo(3), rdma_create_ep(3)"},
  };
}

}  // namespace guest::cm
