// SPDX-License-Identifier: GPL-2.0-or-later
// The end of connections and identifiers.
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "cm.h"

namespace guest::cm {
namespace {

void require_disconnected(const Events& events, const Peer& peer) {
  const Event event = events.expect(RDMA_CM_EVENT_DISCONNECTED);
  require(event.id == peer.id(), "another identifier");
}

// One end disconnects. The other hears of it and answers, of which the first hears.
void disconnect(const Meeting& m, const Peer& caller, const Peer& callee, bool by_caller) {
  require_err(error_of(rdma_disconnect(by_caller ? caller.id() : callee.id())), 0,
              "rdma_disconnect");
  const auto hears = [&](bool caller_hears) {
    require_disconnected(caller_hears ? m.active_events : m.passive_events,
                         caller_hears ? caller : callee);
  };
  hears(!by_caller);
  static_cast<void>(rdma_disconnect(by_caller ? callee.id() : caller.id()));
  hears(by_caller);
}

void disconnected(const Env& env) {
  const Meeting m(env);
  for (const bool by_caller : {true, false}) {
    Peer caller = m.caller();
    const Peer callee = m.connect(caller);
    exchange(caller, callee);
    callee.recv(7);
    disconnect(m, caller, callee, by_caller);
    require_status(poll(callee.id()->recv_cq, 1).front(), 7, IBV_WC_WR_FLUSH_ERR);
  }
}

void peer_destroyed(const Env& env) {
  const Meeting m(env);
  Peer caller = m.caller();
  Peer callee = m.connect(caller);
  exchange(caller, callee);
  callee.close();
  require_disconnected(m.active_events, caller);
}

void request_destroyed(const Env& env) {
  const Meeting m(env);
  Peer caller = m.caller();
  Peer callee(m.call(caller).id);
  callee.close();
  const auto event = m.active_events.next(kSoon);
  require(event.has_value(), "no event of a call whose other end is destroyed");
  require(event->type == RDMA_CM_EVENT_REJECTED || event->type == RDMA_CM_EVENT_CONNECT_ERROR ||
              event->type == RDMA_CM_EVENT_UNREACHABLE,
          "{}", rdma_event_str(event->type));
  require_usual(event->type == RDMA_CM_EVENT_REJECTED, "{}", rdma_event_str(event->type));
}

// An identifier may be destroyed in each state, and the listener works on.
void each_state(const Env& env) {
  const Meeting m(env);
  const Address to = m.address.with_port(m.listener.port());
  rdma_conn_param param = Meeting::params();
  {
    const Peer idle(m.active_events, RDMA_PS_TCP);
    const Peer bound(m.active_events, RDMA_PS_TCP);
    require_err(error_of(rdma_bind_addr(bound.id(), m.address.get())), 0, "rdma_bind_addr");
    const Peer listening(m.active_events, RDMA_PS_TCP);
    require_err(error_of(rdma_bind_addr(listening.id(), m.address.get())), 0, "rdma_bind_addr");
    require_err(error_of(rdma_listen(listening.id(), 1)), 0, "rdma_listen");
  }
  {
    const Peer resolved(m.active_events, RDMA_PS_TCP);
    require_err(error_of(rdma_resolve_addr(resolved.id(), nullptr, to.get(), kResolve)), 0,
                "rdma_resolve_addr");
    m.active_events.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  }
  {
    const Peer routed = m.caller();
  }
  {
    Peer calling = m.caller();
    const Peer callee(m.call(calling, param).id);
  }
  {
    Peer calling = m.caller();
    const Peer callee(m.call(calling, param).id);
    calling.close();
    static_cast<void>(rdma_accept(callee.id(), &param));
    static_cast<void>(m.passive_events.next(kNever));
  }
  while (m.active_events.next(kNever).has_value()) {
  }
  while (m.passive_events.next(kNever).has_value()) {
  }
  Peer caller = m.caller();
  const Peer callee = m.connect(caller);
  exchange(caller, callee);
}

// In the midst of a resolution, whose event may be lost with the identifier.
void while_resolving(const Env& env) {
  const Address to = address_of(env.dev).with_port(9);
  for (int i = 0; i < 20; i++) {
    const Events events;
    const Peer peer(events, RDMA_PS_TCP);
    require_err(error_of(rdma_resolve_addr(peer.id(), nullptr, to.get(), kResolve)), 0,
                "rdma_resolve_addr");
  }
}

// "rdma_destroy_id ... Users must free any associated QP ... and ack any related events."
void destroy_waits(const Env& env) {
  const Meeting m(env);
  Peer peer(m.active_events, RDMA_PS_TCP);
  const Address to = m.address.with_port(m.listener.port());
  require_err(error_of(rdma_resolve_addr(peer.id(), nullptr, to.get(), kResolve)), 0,
              "rdma_resolve_addr");
  pollfd fd{.fd = m.active_events.get()->fd, .events = POLLIN, .revents = 0};
  require(::poll(&fd, 1, kSoon) == 1, "no event");
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(m.active_events.get(), &event) != 0) fail_errno("rdma_get_cm_event");
  std::atomic<bool> gone = false;
  std::thread destroyer([&] {
    peer.close();
    gone = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(kNever));
  const bool early = gone;
  rdma_ack_cm_event(event);
  destroyer.join();
  require(!early, "rdma_destroy_id has not waited for the acknowledgement");
}

void migrated(const Env& env) {
  const Meeting m(env);
  const Events others;
  Peer caller = m.caller();
  rdma_conn_param param = Meeting::params();
  require_err(error_of(rdma_migrate_id(caller.id(), others.get())), 0, "rdma_migrate_id");
  require(caller.id()->channel == others.get(), "another channel");
  Peer callee(m.call(caller, param).id);
  callee.make_qp();
  require_err(error_of(rdma_accept(callee.id(), &param)), 0, "rdma_accept");
  require(others.expect(RDMA_CM_EVENT_ESTABLISHED).id == caller.id(), "another identifier");
  require(!m.active_events.next(0), "an event on the channel of before");
  m.passive_events.expect(RDMA_CM_EVENT_ESTABLISHED);
  exchange(caller, callee);
  require_err(error_of(rdma_disconnect(callee.id())), 0, "rdma_disconnect");
  // The event waits, and moves along.
  std::this_thread::sleep_for(std::chrono::milliseconds(kNever));
  require_err(error_of(rdma_migrate_id(caller.id(), m.active_events.get())), 0, "rdma_migrate_id");
  require_disconnected(m.active_events, caller);
  require(!others.next(0), "an event on the channel of before");
}

}  // namespace

Rules ends() {
  return {
      {"disconnected", "rdma_disconnect by either end: both get the event, requests are flushed",
       disconnected},
      {"peer_destroyed", "a connection whose other end is destroyed is disconnected",
       peer_destroyed},
      {"request_destroyed", "a call whose other end is destroyed ends with an event",
       request_destroyed},
      {"each_state", "an identifier can be destroyed in each state", each_state},
      {"while_resolving", "an identifier can be destroyed while its address is resolved",
       while_resolving},
      {"destroy_waits", "rdma_destroy_id waits until the events are acknowledged", destroy_waits},
      {"migrated", "rdma_migrate_id moves an identifier, and its events, to another channel",
       migrated},
  };
}

}  // namespace guest::cm
