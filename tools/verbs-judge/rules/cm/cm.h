// SPDX-License-Identifier: GPL-2.0-or-later
// Both ends of a conversation by the RDMA connection manager, in this process.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rule.h"

namespace guest::cm {

constexpr int kSoon = 20000;    // ms; an expected event must arrive within this time
constexpr int kNever = 150;     // ms; no event may arrive within this time
constexpr int kResolve = 2000;  // ms; for the resolution of an address or route

struct ChannelCloser {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};

// An IPv4 or IPv6 address with a port.
struct Address {
  sockaddr_in6 storage{};
  [[nodiscard]] sockaddr* get() const {
    return const_cast<sockaddr*>(reinterpret_cast<const sockaddr*>(&storage));
  }
  [[nodiscard]] Address with_port(std::uint16_t port) const;  // host order
  [[nodiscard]] bool same_host(const sockaddr* other) const;
};
Address ipv4(std::uint32_t host, std::uint16_t port = 0);  // host order

// The first address by which the connection manager chooses this device. Skips the rule if there is
// none.
Address address_of(const Device& dev);

// What an event said. It is acknowledged.
struct Event {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  rdma_cm_id* listen_id = nullptr;
  rdma_conn_param conn{};
  rdma_ud_param ud{};
  std::vector<std::byte> data{};  // private
};

class Events {
 public:
  Events();
  [[nodiscard]] rdma_event_channel* get() const { return channel_.get(); }
  // The next event. RDMA_CM_EVENT_TIMEWAIT_EXIT is passed over.
  [[nodiscard]] std::optional<Event> next(int timeout_ms) const;
  // The next event, which must be this one.
  Event expect(rdma_cm_event_type type) const;

 private:
  std::unique_ptr<rdma_event_channel, ChannelCloser> channel_;
};

std::vector<std::byte> bytes(std::size_t length, std::uint64_t seed);
// Private data may be followed by zeros.
void require_data(const Event& event, std::span<const std::byte> sent);

// An identifier, with a QP and memory if they are made.
class Peer {
 public:
  Peer(const Events& events, rdma_port_space space);
  explicit Peer(rdma_cm_id* id) : id_(id) {}
  Peer(Peer&& other) noexcept
      : id_(std::exchange(other.id_, nullptr)), memory_(std::move(other.memory_)) {}
  Peer& operator=(Peer&&) = delete;
  ~Peer() { close(); }
  void close();

  [[nodiscard]] rdma_cm_id* id() const { return id_; }
  [[nodiscard]] const Memory& memory() const { return *memory_; }
  [[nodiscard]] std::uint16_t port() const { return ntohs(rdma_get_src_port(id_)); }
  void make_qp();
  // Posts a receive of 8 bytes behind the header of a datagram.
  void recv(std::uint64_t wr_id) const;
  void send(std::uint64_t wr_id) const;
  void sent(std::uint64_t wr_id) const;
  void received(std::uint64_t wr_id) const;

 private:
  rdma_cm_id* id_ = nullptr;
  std::unique_ptr<Memory> memory_;
};

// Returns the errno of a call that returned -1.
int error_of(int result);

// A listener, and an identifier that has resolved its address and route.
class Meeting {
 public:
  explicit Meeting(const Env& env, rdma_port_space space = RDMA_PS_TCP, int backlog = 8);

  [[nodiscard]] bool infiniband() const;  // the transport, of RoCE, too
  // Resolves address and route of another identifier.
  void resolve(const Peer& peer) const;
  [[nodiscard]] Peer caller(bool with_qp = true) const;
  static rdma_conn_param params(std::span<const std::byte> data = {});
  // Connects; the other end has a QP then, but has not accepted.
  Event call(Peer& peer, rdma_conn_param param = params()) const;
  // Takes a call to its end, and checks the events of both.
  Event accept(const Peer& callee, rdma_conn_param param = params()) const;
  // From resolution to an established connection.
  Peer connect(Peer& peer) const;

  Address address;
  Events passive_events;
  Events active_events;
  Peer listener;
};
void exchange(const Peer& a, const Peer& b);

Rules addresses();
Rules connections();
Rules ends();
Rules datagrams();
Rules all();

}  // namespace guest::cm
