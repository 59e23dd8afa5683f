// SPDX-License-Identifier: GPL-2.0-or-later
// ece: rdma_cm negotiates the options of a connection, in both directions.
//
//   ece [-d DEV] [-g GID_INDEX]
//
// Both ends are in this process, at the IPv4 address of the GID. Prints "ok NAME" or "not ok NAME -
// why" for each case.
//
// Test: ece
// Tier: quick, 300 s
// Boot: pair
// Proves: Rdma_cm negotiates the options of a connection: both ends get those that both know,
//   before the QPs are connected. A peer with unknown options, with none, and of another vendor.
//   What the options do is in the engine's tests (Ece).
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "program.h"
#include "verbs.h"

namespace guest {
namespace {

constexpr int kTimeout = 5000;  // ms
constexpr std::uint16_t kPort = 18520;

void check(int result, const char* what) {
  if (result != 0) fail_errno(what);
}

int destroy_id(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  return rdma_destroy_id(id);
}
struct ChannelDestroyer {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
using EventsPtr = std::unique_ptr<rdma_event_channel, ChannelDestroyer>;
struct IdDestroyer {
  void operator()(rdma_cm_id* id) const { note_destroy("destroy", destroy_id(id)); }
};
using IdPtr = std::unique_ptr<rdma_cm_id, IdDestroyer>;

// One end: events of its ids, and the id that is connected.
class End {
 public:
  End() : events_(rdma_create_event_channel()) {
    require(events_ != nullptr, "rdma_create_event_channel");
  }

  IdPtr create_id() {
    rdma_cm_id* id = nullptr;
    check(rdma_create_id(events_.get(), &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
    return IdPtr(id);
  }
  // Waits for an event, and returns the id that it is about.
  rdma_cm_id* expect(rdma_cm_event_type type) {
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(events_.get(), &event), "rdma_get_cm_event");
    rdma_cm_id* const id = event->id;
    const rdma_cm_event_type got = event->event;
    const int status = event->status;
    check(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    require(got == type, "{}, status {}, not {}", rdma_event_str(got), status,
            rdma_event_str(type));
    return id;
  }

 private:
  EventsPtr events_;
};

void create_qp(rdma_cm_id* id) {
  ibv_qp_init_attr attr{};
  attr.cap = capacity(4, 4);
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  check(rdma_create_qp(id, nullptr, &attr), "rdma_create_qp");
}

ibv_ece ece_of(rdma_cm_id* id) {
  ibv_ece ece{};
  require_err(ibv_query_ece(id->qp, &ece), 0, "ibv_query_ece");
  return ece;
}

// A client that wants to connect, and the server that has its request.
class Pair {
 public:
  explicit Pair(const Device& dev) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    std::memcpy(&address.sin_addr, dev.gid().raw + 12, sizeof(address.sin_addr));
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    listener_ = server_.create_id();
    check(rdma_bind_addr(listener_.get(), generic), "rdma_bind_addr");
    check(rdma_listen(listener_.get(), 1), "rdma_listen");
    active_ = client_.create_id();
    check(rdma_resolve_addr(active_.get(), nullptr, generic, kTimeout), "rdma_resolve_addr");
    client_.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(active_.get(), kTimeout), "rdma_resolve_route");
    client_.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  }

  [[nodiscard]] rdma_cm_id* active() const { return active_.get(); }
  [[nodiscard]] rdma_cm_id* passive() const { return passive_.get(); }

  // Sends the request. `qpn`: of a QP that rdma_cm does not know, or 0.
  void request(std::uint32_t qpn = 0) {
    rdma_conn_param param{};
    param.retry_count = param.rnr_retry_count = 7;
    param.qp_num = qpn;
    check(rdma_connect(active_.get(), &param), "rdma_connect");
    passive_.reset(server_.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  }
  void establish() {
    check(rdma_accept(passive_.get(), nullptr), "rdma_accept");
    client_.expect(RDMA_CM_EVENT_ESTABLISHED);
    server_.expect(RDMA_CM_EVENT_ESTABLISHED);
  }
  void reject() {
    check(rdma_reject(passive_.get(), nullptr, 0), "rdma_reject");
    client_.expect(RDMA_CM_EVENT_REJECTED);
  }
  void disconnect() {
    check(rdma_disconnect(active_.get()), "rdma_disconnect");
    server_.expect(RDMA_CM_EVENT_DISCONNECTED);
    // The answer to the client's request.
    check(rdma_disconnect(passive_.get()), "rdma_disconnect");
    client_.expect(RDMA_CM_EVENT_DISCONNECTED);
  }

 private:
  End server_;
  End client_;
  IdPtr listener_;
  IdPtr active_;
  IdPtr passive_;
};

// Sends a message over the connection.
void talk(const Pair& pair) {
  std::array<std::byte, 64> to{}, from{};
  fill(from, 3);
  ibv_mr* const to_mr = rdma_reg_msgs(pair.passive(), to.data(), to.size());
  ibv_mr* const from_mr = rdma_reg_msgs(pair.active(), from.data(), from.size());
  require(to_mr != nullptr && from_mr != nullptr, "rdma_reg_msgs");
  check(rdma_post_recv(pair.passive(), nullptr, to.data(), to.size(), to_mr), "rdma_post_recv");
  check(rdma_post_send(pair.active(), nullptr, from.data(), from.size(), from_mr, 0),
        "rdma_post_send");
  ibv_wc wc{};
  require(rdma_get_send_comp(pair.active(), &wc) == 1 && wc.status == IBV_WC_SUCCESS, "no send");
  require(rdma_get_recv_comp(pair.passive(), &wc) == 1 && wc.status == IBV_WC_SUCCESS,
          "no receive");
  rdma_dereg_mr(to_mr);
  rdma_dereg_mr(from_mr);
  require(to == from, "another message");
}

void both_ends(const Device& dev) {
  Pair pair(dev);
  create_qp(pair.active());
  const ibv_ece supported = ece_of(pair.active());
  require(supported.vendor_id == dev.attr().vendor_id && supported.options != 0,
          "vendor {:#x}, options {:#x}", supported.vendor_id, supported.options);
  pair.request();
  ibv_ece remote{};
  check(rdma_get_remote_ece(pair.passive(), &remote), "rdma_get_remote_ece");
  require(remote.vendor_id == supported.vendor_id && remote.options == supported.options,
          "the server got {:#x} of {:#x}", remote.options, remote.vendor_id);
  create_qp(pair.passive());
  require(ece_of(pair.passive()).options == supported.options, "the server has {:#x}",
          ece_of(pair.passive()).options);
  pair.establish();
  require(ece_of(pair.active()).options == supported.options, "the client has {:#x}",
          ece_of(pair.active()).options);
  talk(pair);
  pair.disconnect();
}

// The client offers `ece`; returns what the server's QP takes.
std::uint32_t offer(const Device& dev, const ibv_ece& ece) {
  const CqPtr cq = create_cq(dev, 16);
  const QpPtr external = create_qp(dev, {.send_cq = cq.get(), .recv_cq = cq.get()});
  Pair pair(dev);
  ibv_ece local = ece;
  check(rdma_set_local_ece(pair.active(), &local), "rdma_set_local_ece");
  pair.request(external->qp_num);
  ibv_ece remote{};
  check(rdma_get_remote_ece(pair.passive(), &remote), "rdma_get_remote_ece");
  require(remote.vendor_id == ece.vendor_id && remote.options == ece.options,
          "the server got {:#x} of {:#x}", remote.options, remote.vendor_id);
  create_qp(pair.passive());
  const std::uint32_t taken = ece_of(pair.passive()).options;
  pair.reject();
  return taken;
}

std::uint32_t supported_options(const Device& dev) {
  const CqPtr cq = create_cq(dev, 16);
  const QpPtr qp = create_qp(dev, {.send_cq = cq.get(), .recv_cq = cq.get()});
  ibv_ece ece{};
  require_err(ibv_query_ece(qp.get(), &ece), 0, "ibv_query_ece");
  return ece.options;
}

// A peer of a later version offers more: what both know is left.
void unknown_options(const Device& dev) {
  const std::uint32_t known = supported_options(dev);
  const std::uint32_t taken =
      offer(dev, {.vendor_id = dev.attr().vendor_id, .options = ~0U, .comp_mask = 0});
  require(taken == known, "the server has {:#x} of {:#x}", taken, known);
}

void no_options(const Device& dev) {
  const std::uint32_t taken =
      offer(dev, {.vendor_id = dev.attr().vendor_id, .options = 0, .comp_mask = 0});
  require(taken == 0, "the server has {:#x}", taken);
}

void another_vendor(const Device& dev) {
  const std::uint32_t taken =
      offer(dev, {.vendor_id = dev.attr().vendor_id + 1, .options = ~0U, .comp_mask = 0});
  require(taken == 0, "the server has {:#x}", taken);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  return run_program(argc, argv, {.limit = 60, .run = [](const CommandLine& line) {
                                    const Device dev(line.device, line.gid_index);
                                    run_tests(tests_of(dev, {{"both_ends", both_ends},
                                                             {"unknown_options", unknown_options},
                                                             {"no_options", no_options},
                                                             {"another_vendor", another_vendor}}));
                                  }});
}
