// SPDX-License-Identifier: GPL-2.0-or-later
#include <ifaddrs.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "cm.h"

namespace guest::cm {

Address Address::with_port(std::uint16_t port) const {
  Address a = *this;
  a.storage.sin6_port = htons(port);  // at the same place in both families
  return a;
}

bool Address::same_host(const sockaddr* other) const {
  if (other == nullptr || other->sa_family != get()->sa_family) return false;
  if (other->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(other)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(other)->sin6_addr, &storage.sin6_addr,
                     sizeof(in6_addr)) == 0;
}

Address ipv4(std::uint32_t host, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(host);
  Address a;
  std::memcpy(&a.storage, &in, sizeof(in));
  return a;
}

namespace {

bool is_of(const Device& dev, const Events& events, const Address& address) {
  const Peer peer(events, RDMA_PS_TCP);
  return rdma_bind_addr(peer.id(), address.get()) == 0 && peer.id()->verbs != nullptr &&
         std::string_view(ibv_get_device_name(peer.id()->verbs->device)) ==
             ibv_get_device_name(dev.context()->device);
}

}  // namespace

Address address_of(const Device& dev) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail_errno("getifaddrs");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  const Events events;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      Address address;
      std::memcpy(&address.storage, entry->ifa_addr,
                  family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      if (is_of(dev, events, address)) return address;
    }
  }
  skip("no address of the device");
}

Events::Events() : channel_(rdma_create_event_channel()) {
  if (!channel_) fail_errno("rdma_create_event_channel");
}

std::optional<Event> Events::next(int timeout_ms) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd fd{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    if (::poll(&fd, 1, static_cast<int>(std::max<long>(left, 0))) != 1) return {};
    rdma_cm_event* raw = nullptr;
    if (rdma_get_cm_event(channel_.get(), &raw) != 0) fail_errno("rdma_get_cm_event");
    Event event{
        .type = raw->event, .status = raw->status, .id = raw->id, .listen_id = raw->listen_id};
    const bool datagrams = raw->id->ps == RDMA_PS_UDP;
    if (datagrams) {
      event.ud = raw->param.ud;
    } else {
      event.conn = raw->param.conn;
    }
    const void* data = datagrams ? event.ud.private_data : event.conn.private_data;
    const std::size_t length = datagrams ? event.ud.private_data_len : event.conn.private_data_len;
    if (data != nullptr) {
      event.data.resize(length);
      std::memcpy(event.data.data(), data, length);
    }
    rdma_ack_cm_event(raw);
    if (event.type != RDMA_CM_EVENT_TIMEWAIT_EXIT) return event;
  }
}

Event Events::expect(rdma_cm_event_type type) const {
  const auto event = next(kSoon);
  require(event.has_value(), "no {}", rdma_event_str(type));
  require(event->type == type, "{} with status {}, not {}", rdma_event_str(event->type),
          event->status, rdma_event_str(type));
  return *event;
}

std::vector<std::byte> bytes(std::size_t length, std::uint64_t seed) {
  std::vector<std::byte> data(length);
  fill(data, seed);
  return data;
}

void require_data(const Event& event, std::span<const std::byte> sent) {
  require(event.data.size() >= sent.size(), "{} bytes of private data, of {} sent",
          event.data.size(), sent.size());
  require(std::ranges::equal(std::span(event.data).first(sent.size()), sent),
          "other private data of {} bytes", sent.size());
  for (std::size_t i = sent.size(); i < event.data.size(); i++) {
    require(event.data[i] == std::byte{0}, "byte {} behind the private data", i);
  }
}

Peer::Peer(const Events& events, rdma_port_space space) {
  if (rdma_create_id(events.get(), &id_, nullptr, space) != 0) fail_errno("rdma_create_id");
}

void Peer::close() {
  if (id_ == nullptr) return;
  if (id_->qp != nullptr) rdma_destroy_qp(id_);
  memory_.reset();
  note_destroy("rdma_destroy_id", error_of(rdma_destroy_id(id_)));
  id_ = nullptr;
}

void Peer::make_qp() {
  ibv_qp_init_attr attr{};
  attr.cap = capacity(8, 8);
  attr.qp_type = id_->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
  attr.sq_sig_all = 1;
  require_err(error_of(rdma_create_qp(id_, nullptr, &attr)), 0, "rdma_create_qp");
  memory_ = std::make_unique<Memory>(id_->pd, 4096, IBV_ACCESS_LOCAL_WRITE);
}

void Peer::recv(std::uint64_t wr_id) const {
  const std::uint32_t header = id_->ps == RDMA_PS_UDP ? kGrh : 0;
  require_err(post_recv(id_->qp, wr_id, memory_->sge(2048, header + 8)), 0, "ibv_post_recv");
}

void Peer::send(std::uint64_t wr_id) const {
  require_err(post(id_->qp, Api::kPost, Send{.sges = {memory_->sge(0, 8)}, .wr_id = wr_id}), 0,
              "ibv_post_send");
}

void Peer::sent(std::uint64_t wr_id) const {
  require_status(poll(id_->send_cq, 1).front(), wr_id, IBV_WC_SUCCESS);
}

void Peer::received(std::uint64_t wr_id) const {
  require_status(poll(id_->recv_cq, 1).front(), wr_id, IBV_WC_SUCCESS);
}

int error_of(int result) { return result == 0 ? 0 : errno; }

Meeting::Meeting(const Env& env, rdma_port_space space, int backlog)
    : address(address_of(env.dev)), listener(passive_events, space) {
  require_err(error_of(rdma_bind_addr(listener.id(), address.get())), 0, "rdma_bind_addr");
  require_err(error_of(rdma_listen(listener.id(), backlog)), 0, "rdma_listen");
}

bool Meeting::infiniband() const {
  return listener.id()->verbs->device->transport_type == IBV_TRANSPORT_IB;
}

void Meeting::resolve(const Peer& peer) const {
  require_err(error_of(rdma_resolve_addr(peer.id(), nullptr,
                                         address.with_port(listener.port()).get(), kResolve)),
              0, "rdma_resolve_addr");
  require(active_events.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id == peer.id(), "another identifier");
  require_err(error_of(rdma_resolve_route(peer.id(), kResolve)), 0, "rdma_resolve_route");
  active_events.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

Peer Meeting::caller(bool with_qp) const {
  Peer peer(active_events, listener.id()->ps);
  resolve(peer);
  if (with_qp) peer.make_qp();
  return peer;
}

rdma_conn_param Meeting::params(std::span<const std::byte> data) {
  rdma_conn_param param{};
  param.private_data = data.data();
  param.private_data_len = static_cast<std::uint8_t>(data.size());
  param.responder_resources = param.initiator_depth = 1;
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  return param;
}

Event Meeting::call(Peer& peer, rdma_conn_param param) const {
  require_err(error_of(rdma_connect(peer.id(), &param)), 0, "rdma_connect");
  const Event event = passive_events.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  require(event.listen_id == listener.id(), "a request of another listener");
  return event;
}

Event Meeting::accept(const Peer& callee, rdma_conn_param param) const {
  require_err(error_of(rdma_accept(callee.id(), &param)), 0, "rdma_accept");
  const Event event = active_events.expect(RDMA_CM_EVENT_ESTABLISHED);
  if (callee.id()->ps != RDMA_PS_UDP) passive_events.expect(RDMA_CM_EVENT_ESTABLISHED);
  return event;
}

Peer Meeting::connect(Peer& peer) const {
  Peer callee(call(peer).id);
  callee.make_qp();
  accept(callee);
  return callee;
}

// The side that called sends first, as iWARP needs it.
void exchange(const Peer& a, const Peer& b) {
  a.recv(1);
  b.recv(2);
  a.send(3);
  b.received(2);
  b.send(4);
  a.received(1);
  a.sent(3);
  b.sent(4);
}

Rules all() {
  Rules rules;
  append(rules, addresses(), "rdma_bind_addr(3), rdma_resolve_addr(3), rdma_resolve_route(3)");
  append(rules, connections(), "rdma_connect(3), rdma_accept(3), rdma_reject(3)");
  append(rules, ends(), "rdma_disconnect(3), rdma_destroy_id(3), rdma_migrate_id(3)");
  append(rules, datagrams(), "rdma_connect(3), rdma_join_multicast(3)");
  return rules;
}

}  // namespace guest::cm
