// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses and ports: bound, resolved and refused.
#include <ifaddrs.h>

#include <cerrno>

#include "cm.h"

namespace guest::cm {
namespace {

constexpr std::uint32_t kNobody = 0xc0000201;  // 192.0.2.1, of RFC 5737

void bound(const Env& env) {
  const Address address = address_of(env.dev);
  const Events events;
  const Peer a(events, RDMA_PS_TCP);
  const Peer b(events, RDMA_PS_TCP);
  for (const Peer* peer : {&a, &b}) {
    require(peer->id()->verbs == nullptr, "a device before the bind");
    require_err(error_of(rdma_bind_addr(peer->id(), address.get())), 0, "rdma_bind_addr");
    require(peer->id()->verbs != nullptr, "no device after the bind");
    require(peer->id()->port_num >= 1, "port_num {}", peer->id()->port_num);
    require(peer->port() != 0, "no port");
    require(address.same_host(rdma_get_local_addr(peer->id())), "another local address");
  }
  require(a.port() != b.port(), "two identifiers with port {}", a.port());
}

void port_in_use(const Env& env) {
  const Address address = address_of(env.dev);
  const Events events;
  std::uint16_t port = 0;
  {
    const Peer first(events, RDMA_PS_TCP);
    require_err(error_of(rdma_bind_addr(first.id(), address.get())), 0, "rdma_bind_addr");
    require_err(error_of(rdma_listen(first.id(), 4)), 0, "rdma_listen");
    port = first.port();
    const Peer second(events, RDMA_PS_TCP);
    int err = error_of(rdma_bind_addr(second.id(), address.with_port(port).get()));
    if (err == 0) err = error_of(rdma_listen(second.id(), 4));
    require_refused(err, EADDRINUSE, "a second listener of a port");
    // Another port space has its own ports.
    const Peer other(events, RDMA_PS_UDP);
    require_err(error_of(rdma_bind_addr(other.id(), address.with_port(port).get())), 0,
                "the same port of RDMA_PS_UDP");
  }
  const Peer later(events, RDMA_PS_TCP);
  require_err(error_of(rdma_bind_addr(later.id(), address.with_port(port).get())), 0,
              "the port after its identifier is destroyed");
}

void foreign_address(const Env& env) {
  static_cast<void>(address_of(env.dev));
  const Events events;
  const Peer peer(events, RDMA_PS_TCP);
  require_refused(error_of(rdma_bind_addr(peer.id(), ipv4(kNobody).get())), EADDRNOTAVAIL,
                  "rdma_bind_addr to an address of nobody");
}

void resolved(const Env& env) {
  const Meeting m(env);
  const Peer peer(m.active_events, RDMA_PS_TCP);
  m.resolve(peer);
  const std::string device = ibv_get_device_name(peer.id()->verbs->device);
  require(device == ibv_get_device_name(env.dev.context()->device), "device {}", device);
  require(m.address.same_host(rdma_get_peer_addr(peer.id())), "another peer address");
  require(m.address.same_host(rdma_get_local_addr(peer.id())), "another local address");
  require(ntohs(rdma_get_dst_port(peer.id())) == m.listener.port(), "another port of the peer");
  require(peer.id()->pd != nullptr, "no PD");
}

// Resolution of an address that does not answer: refused at once, or an event in the end.
void require_unresolved(const Peer& peer, const Events& events, const Address& to) {
  const int err = error_of(rdma_resolve_addr(peer.id(), nullptr, to.get(), 500));
  if (err != 0) {
    chose(std::format("rdma_resolve_addr of nobody: {}", errno_name(err)));
    return;
  }
  const auto event = events.next(kSoon);
  require(event.has_value(), "no event of an address that does not answer");
  if (event->type == RDMA_CM_EVENT_ADDR_RESOLVED) skip("the network answers for the address");
  require(event->type == RDMA_CM_EVENT_ADDR_ERROR, "{}", rdma_event_str(event->type));
  require(event->status < 0, "RDMA_CM_EVENT_ADDR_ERROR with status {}", event->status);
}

// An address of the device's own network that nobody has.
void no_neighbor(const Env& env) {
  const Address own = address_of(env.dev);
  if (own.get()->sa_family != AF_INET) skip("no IPv4 address");
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail_errno("getifaddrs");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!own.same_host(entry->ifa_addr)) continue;
    const auto number = [](const sockaddr* a) {
      return ntohl(reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr);
    };
    const std::uint32_t mask = number(entry->ifa_netmask);
    const std::uint32_t host = (number(own.get()) | ~mask) - 2;
    if (~mask < 7 || host == number(own.get())) skip("a network of few addresses");
    const Events events;
    const Peer peer(events, RDMA_PS_TCP);
    require_err(error_of(rdma_bind_addr(peer.id(), own.get())), 0, "rdma_bind_addr");
    require_unresolved(peer, events, ipv4(host, 7));
  }
}

void no_route(const Env& env) {
  const Address own = address_of(env.dev);
  if (own.get()->sa_family != AF_INET) skip("no IPv4 address");
  const Events events;
  const Peer peer(events, RDMA_PS_TCP);
  require_err(error_of(rdma_bind_addr(peer.id(), own.get())), 0, "rdma_bind_addr");
  require_unresolved(peer, events, ipv4(kNobody, 7));
}

// Calls that come too early.
void wrong_order(const Env& env) {
  const Meeting m(env);
  const Peer peer(m.active_events, RDMA_PS_TCP);
  require_err(error_of(rdma_bind_addr(peer.id(), m.address.get())), 0, "rdma_bind_addr");
  require_refused(error_of(rdma_resolve_route(peer.id(), kResolve)), EINVAL,
                  "rdma_resolve_route without an address");
  rdma_conn_param param = Meeting::params();
  require_refused(error_of(rdma_connect(peer.id(), &param)), EINVAL,
                  "rdma_connect without a route");
  require_refused(error_of(rdma_accept(peer.id(), &param)), EINVAL,
                  "rdma_accept of an identifier without a request");
  require_refused(error_of(rdma_reject(peer.id(), nullptr, 0)), EINVAL,
                  "rdma_reject of an identifier without a request");
  require_refused(error_of(rdma_disconnect(peer.id())), EINVAL,
                  "rdma_disconnect of an identifier without a connection");
  m.resolve(peer);
  require_refused(error_of(rdma_listen(peer.id(), 1)), EINVAL,
                  "rdma_listen of an identifier that has a route");
  require_refused(error_of(rdma_bind_addr(peer.id(), m.address.get())), EINVAL,
                  "rdma_bind_addr of an identifier that has a route");
}

void options(const Env& env) {
  const Meeting m(env);
  const Peer peer(m.active_events, RDMA_PS_TCP);
  std::uint8_t tos = 0x28;
  require_err(error_of(rdma_set_option(peer.id(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1)), 0,
              "RDMA_OPTION_ID_TOS");
  int reuse = 1;
  require_err(error_of(rdma_set_option(peer.id(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse,
                                       sizeof(reuse))),
              0, "RDMA_OPTION_ID_REUSEADDR");
  require_refused(error_of(rdma_set_option(peer.id(), RDMA_OPTION_ID, 99, &reuse, sizeof(reuse))),
                  ENOSYS, "an unknown option");
  m.resolve(peer);
  Peer same(m.active_events, RDMA_PS_TCP);
  m.resolve(same);
  same.make_qp();
  const Peer callee = m.connect(same);
  exchange(same, callee);
}

}  // namespace

Rules addresses() {
  return {
      {"bound", "rdma_bind_addr chooses the device of the address, and a free port", bound},
      {"port_in_use", "a port has one listener in its port space", port_in_use},
      {"foreign_address", "rdma_bind_addr refuses an address that no device has", foreign_address},
      {"resolved", "an identifier that was resolved knows device and addresses", resolved},
      {"no_neighbor", "an address of which no neighbor answers: RDMA_CM_EVENT_ADDR_ERROR",
       no_neighbor},
      {"no_route", "an address that cannot be reached is not resolved", no_route},
      {"wrong_order", "calls that come too early are refused", wrong_order},
      {"options", "options are set before the address is resolved", options, "rdma_set_option(3)"},
  };
}

}  // namespace guest::cm
