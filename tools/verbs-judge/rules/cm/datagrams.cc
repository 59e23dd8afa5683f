// SPDX-License-Identifier: GPL-2.0-or-later
// The port space of datagrams: the lookup of a QP, and multicast groups.
#include <cerrno>
#include <chrono>
#include <thread>

#include "cm.h"

namespace guest::cm {
namespace {

constexpr std::size_t kMostLookup = 180;  // bytes of private data

void need_datagrams(const Meeting& m) {
  if (!m.infiniband()) skip("no datagrams on iWARP");
}

void send_to(const Peer& from, const rdma_ud_param& to, std::uint64_t wr_id) {
  ibv_ah_attr attr = to.ah_attr;
  const AhPtr ah(ibv_create_ah(from.id()->pd, &attr));
  if (!ah) fail_errno("ibv_create_ah of the event's address");
  const Send send{.sges = {from.memory().sge(0, 8)},
                  .wr_id = wr_id,
                  .ah = ah.get(),
                  .remote_qpn = to.qp_num,
                  .remote_qkey = to.qkey};
  require_err(post(from.id()->qp, Api::kPost, send), 0, "ibv_post_send");
  from.sent(wr_id);
}

void lookup(const Env& env) {
  const Meeting m(env, RDMA_PS_UDP);
  need_datagrams(m);
  for (const std::size_t length : {std::size_t{0}, std::size_t{33}, kMostLookup}) {
    Peer caller = m.caller();
    const auto data = bytes(length, length);
    const Event request = m.call(caller, Meeting::params(data));
    require_data(request, data);
    Peer callee(request.id);
    callee.make_qp();
    const auto answer = bytes(length / 2, 9);
    const Event event = m.accept(callee, Meeting::params(answer));
    require_data(event, answer);
    require(event.ud.qp_num == callee.id()->qp->qp_num, "qp_num {:#x}", event.ud.qp_num);
    callee.recv(1);
    send_to(caller, event.ud, 2);
    callee.received(1);
  }
}

void lookup_refused(const Env& env) {
  const Meeting m(env, RDMA_PS_UDP);
  need_datagrams(m);
  Peer caller = m.caller();
  const Peer callee(m.call(caller).id);
  require_err(error_of(rdma_reject(callee.id(), nullptr, 0)), 0, "rdma_reject");
  const auto event = m.active_events.next(kSoon);
  require(event.has_value(), "no event of a lookup that was rejected");
  require(event->type == RDMA_CM_EVENT_UNREACHABLE || event->type == RDMA_CM_EVENT_REJECTED, "{}",
          rdma_event_str(event->type));
  require(event->status != 0, "{} with status 0", rdma_event_str(event->type));
}

// A member of a group of datagrams.
Peer member(const Meeting& m, const Address& group) {
  Peer peer(m.active_events, RDMA_PS_UDP);
  require_err(error_of(rdma_bind_addr(peer.id(), m.address.get())), 0, "rdma_bind_addr");
  peer.make_qp();
  require_err(error_of(rdma_join_multicast(peer.id(), group.get(), nullptr)), 0,
              "rdma_join_multicast");
  return peer;
}

void multicast(const Env& env) {
  const Meeting m(env, RDMA_PS_UDP);
  need_datagrams(m);
  if (env.dev.attr().max_mcast_grp == 0) skip("max_mcast_grp is 0");
  if (m.address.get()->sa_family != AF_INET) skip("no IPv4 address");
  const Address group = ipv4(0xef070809);  // 239.7.8.9
  std::vector<Peer> members;
  rdma_ud_param to{};
  for (int i = 0; i < 2; i++) {
    members.push_back(member(m, group));
    const Event event = m.active_events.expect(RDMA_CM_EVENT_MULTICAST_JOIN);
    require(event.id == members.back().id(), "another identifier");
    require(event.ud.qp_num == 0xffffff, "qp_num {:#x} of a group", event.ud.qp_num);
    to = event.ud;
  }
  for (const Peer& peer : members) peer.recv(1);
  Peer sender = m.caller();
  send_to(sender, to, 5);
  for (const Peer& peer : members) {
    ibv_wc wc{};
    int n = 0;
    for (int ms = 0; ms < 500 && n == 0; ms++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      n = ibv_poll_cq(peer.id()->recv_cq, 1, &wc);
    }
    require_usual(n == 1, "a group does not reach a member on the sender's port");
    if (n == 1) require_status(wc, 1, IBV_WC_SUCCESS);
  }
  require_err(error_of(rdma_leave_multicast(members[0].id(), group.get())), 0,
              "rdma_leave_multicast");
  members[0].recv(2);
  members[1].recv(2);
  send_to(sender, to, 6);
  expect_quiet(members[0].id()->recv_cq, kNever);
}

}  // namespace

Rules datagrams() {
  return {
      {"lookup", "a lookup of RDMA_PS_UDP finds QP and address, by which datagrams arrive", lookup},
      {"lookup_refused", "a lookup that is rejected ends with an event and a status",
       lookup_refused},
      {"multicast", "members of a group get what is sent to it, until they leave", multicast},
  };
}

}  // namespace guest::cm
