// SPDX-License-Identifier: GPL-2.0-or-later
// UDP source ports. The peer sees them on the wire: a sniffer on its port gets each RoCE frame.
#include <arpa/inet.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "raw.h"
#include "tests.h"

namespace guest {
namespace {

constexpr std::uint32_t kFrame = 2048;
constexpr std::uint16_t kRoce = 4791;
constexpr std::uint32_t kMessage = 64;
constexpr int kSniffed = 32;

// What the client sends; the answer is a Report.
struct Order {
  std::uint32_t unconnected = 0;  // 1: the QP at `from` is to be connected
  std::uint32_t type = IBV_QPT_RC;
  Endpoint from;
};
struct Report {
  Endpoint self;
  std::uint16_t sport = 0;  // of the message that arrived last
};

// A raw packet QP that gets a copy of every frame.
class Sniffer {
 public:
  explicit Sniffer(const Device& dev)
      : memory_(dev.pd(), kSniffed * kFrame, kAllAccess), cq_(create_cq(dev, kSniffed)) {
    qp_ = create_qp(dev, {.type = IBV_QPT_RAW_PACKET,
                          .send_cq = cq_.get(),
                          .recv_cq = cq_.get(),
                          .cap = capacity(1, kSniffed)});
    connect(qp_.get(), dev, {}, {}, {}, IBV_QPS_RTR);
    for (std::uint32_t i = 0; i < kSniffed; i++) refill(i);
    ibv_flow_attr flow{};
    flow.type = IBV_FLOW_ATTR_SNIFFER;
    flow.size = sizeof(flow);
    flow.port = 1;
    flow_ = ibv_create_flow(qp_.get(), &flow);
    require(flow_ != nullptr, "a sniffer: {}", errno_name(errno));
  }
  Sniffer(const Sniffer&) = delete;
  Sniffer& operator=(const Sniffer&) = delete;
  ~Sniffer() { note_destroy("ibv_destroy_flow", ibv_destroy_flow(flow_)); }

  // The source port of the last frame to `qpn`. Waits for one: the copy may arrive after the
  // message.
  std::uint16_t last_to(std::uint32_t qpn) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    std::uint16_t sport = 0;
    while (sport == 0 && std::chrono::steady_clock::now() < end) sport = drain(qpn);
    return sport;
  }

 private:
  std::uint16_t drain(std::uint32_t qpn) {
    std::uint16_t sport = 0;
    ibv_wc wc{};
    while (ibv_poll_cq(cq_.get(), 1, &wc) == 1) {
      const auto slot = static_cast<std::uint32_t>(wc.wr_id);
      const auto frame = memory_.bytes().subspan(slot * kFrame, wc.byte_len);
      if (const std::uint16_t port = port_of(frame, qpn); port != 0) sport = port;
      refill(slot);
    }
    return sport;
  }
  static std::uint16_t u16(std::span<const std::byte> frame, std::size_t at) {
    return static_cast<std::uint16_t>(std::to_integer<unsigned>(frame[at]) << 8 |
                                      std::to_integer<unsigned>(frame[at + 1]));
  }
  // The frame's UDP source port if it is a RoCE packet to the QP.
  static std::uint16_t port_of(std::span<const std::byte> frame, std::uint32_t qpn) {
    constexpr std::size_t kEth = 14;
    if (frame.size() < kEth + 40 + 8 + 12) return 0;
    const std::size_t udp = kEth + (u16(frame, 12) == 0x0800 ? 20 : 40);
    const std::size_t bth = udp + 8;
    const std::uint32_t to =
        std::to_integer<std::uint32_t>(frame[bth + 5]) << 16 | u16(frame, bth + 6);
    return u16(frame, udp + 2) == kRoce && to == qpn ? u16(frame, udp) : std::uint16_t{0};
  }
  void refill(std::uint32_t slot) const {
    require_err(post_recv(qp_.get(), slot, memory_.sge(slot * kFrame, kFrame)), 0, "post_recv");
  }

  Memory memory_;
  CqPtr cq_;
  QpPtr qp_;
  ibv_flow* flow_ = nullptr;
};

constexpr Connection kHow{.mtu = IBV_MTU_1024};

void receive(const End& end) { end.recv(1, {0, kMessage}); }

Report ask(const Socket& peer, const Order& order) {
  peer.write(&order, sizeof(order));
  Report report;
  require(peer.read(&report, sizeof(report)), "the peer has gone");
  return report;
}

// Sends one message and returns the source port with which it arrived.
std::uint16_t send_one(const Socket& peer, const End& end) {
  require_err(post(end.qp(), Api::kPost, {.sges = {end.sge({0, kMessage})}}), 0, "post");
  require(poll(end.send_cq(), 1).front().status == IBV_WC_SUCCESS, "the SEND failed");
  return ask(peer, {}).sport;
}

void on_the_wire(const Device& dev, const Socket& peer, ibv_qp_type type) {
  const End end(dev, {.type = type});
  const Report first = ask(
      peer, {.unconnected = 1, .type = static_cast<std::uint32_t>(type), .from = end.endpoint()});
  connect(end.qp(), dev, kHow, end.endpoint(), first.self);
  std::uint16_t sport = 0;
  require_err(terndv_query_qp_udp_sport(end.qp(), &sport), 0, "terndv_query_qp_udp_sport");
  std::uint16_t seen = send_one(peer, end);
  require(seen == sport && sport >= 0xc000, "port {} on the wire, {} by the query", seen, sport);
  for (const std::uint16_t port : {std::uint16_t{0xdead}, std::uint16_t{1}, std::uint16_t{65535}}) {
    require_err(terndv_modify_qp_udp_sport(end.qp(), port), 0, "terndv_modify_qp_udp_sport");
    require_err(terndv_query_qp_udp_sport(end.qp(), &sport), 0, "terndv_query_qp_udp_sport");
    require(sport == port, "{} by the query", sport);
    seen = send_one(peer, end);
    require(seen == port, "port {} on the wire, not {}", seen, port);
  }
}

void refused(const Device& dev) {
  std::uint16_t sport = 0;
  const End fresh(dev, {});
  require_err(terndv_modify_qp_udp_sport(fresh.qp(), 5), EINVAL, "in RESET");
  require_err(terndv_query_qp_udp_sport(fresh.qp(), &sport), EINVAL, "query in RESET");
  const End datagrams(dev, {.type = IBV_QPT_UD});
  connect_to_itself(datagrams.qp(), dev);
  require_err(terndv_modify_qp_udp_sport(datagrams.qp(), 5), EOPNOTSUPP, "UD");
  require_err(terndv_query_qp_udp_sport(datagrams.qp(), &sport), EOPNOTSUPP, "query of UD");
  connect_to_itself(fresh.qp(), dev);
  require_err(terndv_modify_qp_udp_sport(fresh.qp(), 0), EINVAL, "port 0");
  require_err(terndv_modify_qp_udp_sport(fresh.qp(), 5), 0, "in RTS");
}

// ib_core gives an XRC target, and each process that opens one, an object of its own.
void xrc_target(const Device& dev) {
  const CqPtr cq = create_cq(dev, 8);
  const XrcShare share = open_xrc(dev, dev.pd(), cq.get());
  const QpPtr target = create_qp(dev, {.type = IBV_QPT_XRC_RECV, .xrcd = share.xrcd.get()});
  connect_to_itself(target.get(), dev);
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = target->qp_num;
  attr.xrcd = share.xrcd.get();
  attr.qp_type = IBV_QPT_XRC_RECV;
  const QpPtr opened(ibv_open_qp(dev.context(), &attr));
  require(opened != nullptr, "ibv_open_qp: {}", errno_name(errno));
  std::uint16_t sport = 0;
  require_err(terndv_modify_qp_udp_sport(target.get(), 0xdead), 0, "of the target");
  require_err(terndv_query_qp_udp_sport(opened.get(), &sport), 0, "query of the opened one");
  require(sport == 0xdead, "{} by the query", sport);
  require_err(terndv_modify_qp_udp_sport(opened.get(), 0xbeef), 0, "of the opened one");
  require_err(terndv_query_qp_udp_sport(target.get(), &sport), 0, "query of the target");
  require(sport == 0xbeef, "{} by the query", sport);
}

}  // namespace

void serve(const Device& dev, const Socket& client) {
  Sniffer sniffer(dev);
  std::unique_ptr<End> end;
  Order order;
  while (client.read(&order, sizeof(order))) {
    Report report;
    if (order.unconnected != 0) {
      end = std::make_unique<End>(dev, EndSpec{.type = static_cast<ibv_qp_type>(order.type)});
      connect(end->qp(), dev, kHow, end->endpoint(), order.from);
      receive(*end);
    } else {
      require(poll(end->recv_cq(), 1).front().status == IBV_WC_SUCCESS, "the receive failed");
      receive(*end);
      report.sport = sniffer.last_to(end->qp()->qp_num);
    }
    report.self = end->endpoint();
    client.write(&report, sizeof(report));
  }
}

std::vector<Test> sport_tests(const Device& dev, const Socket* peer) {
  std::vector<Test> tests{{"sport-refused", [&dev] { refused(dev); }},
                          {"sport-xrc-target", [&dev] { xrc_target(dev); }}};
  if (peer == nullptr) return tests;
  tests.push_back({"sport-rc-on-the-wire", [&dev, peer] { on_the_wire(dev, *peer, IBV_QPT_RC); }});
  tests.push_back({"sport-uc-on-the-wire", [&dev, peer] { on_the_wire(dev, *peer, IBV_QPT_UC); }});
  return tests;
}

}  // namespace guest
