// SPDX-License-Identifier: GPL-2.0-or-later
// QPs of raw packets, and the flows that bring them packets.
#include <net/ethernet.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>

#include "rule.h"

namespace guest::flows {
namespace {

constexpr std::uint32_t kFrame = 100;
constexpr std::uint16_t kType = 0x88b5;  // for local experiments
using Mac = std::array<std::uint8_t, ETH_ALEN>;
constexpr Mac kStation{0x02, 0x00, 0x00, 0x12, 0x34, 0x56};

struct FlowCloser {
  void operator()(ibv_flow* flow) const { note_destroy("destroy", ibv_destroy_flow(flow)); }
};
using FlowPtr = std::unique_ptr<ibv_flow, FlowCloser>;

// A QP of raw packets, ready to send.
class Raw {
 public:
  explicit Raw(const Env& env)
      : cq_(create_cq(env.dev, 32)), memory_(env.dev.pd(), 8192, kAllAccess) {
    if (env.dev.attr().max_raw_ethy_qp == 0) skip("max_raw_ethy_qp is 0");
    QpSpec spec{.type = IBV_QPT_RAW_PACKET, .send_cq = cq_.get(), .recv_cq = cq_.get()};
    spec.send_ops = IBV_QP_EX_WITH_SEND;
    qp_ = try_create_qp(env.dev, spec);
    if (!qp_) skip("no QP of raw packets: {}", errno_name(errno));
    connect_to_itself(qp_.get(), env.dev);
  }
  [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  void send(const Mac& to, std::uint64_t seed) const {
    ether_header header{};
    std::memcpy(header.ether_dhost, to.data(), to.size());
    header.ether_shost[0] = 0x02;
    header.ether_shost[5] = 0x99;
    header.ether_type = static_cast<std::uint16_t>(kType >> 8 | (kType & 0xff) << 8);
    const auto bytes = memory_.bytes();
    std::memcpy(bytes.data(), &header, sizeof(header));
    fill(bytes.subspan(sizeof(header), kFrame - sizeof(header)), seed);
    require_err(post(qp(), Api::kPost, Send{.sges = {memory_.sge(0, kFrame)}, .wr_id = 7}), 0,
                "ibv_post_send");
    require_status(poll(cq(), 1).front(), 7, IBV_WC_SUCCESS);
  }

 private:
  CqPtr cq_;
  Memory memory_;
  QpPtr qp_;
};

// A flow of the frames to one station.
struct EthFlow {
  ibv_flow_attr attr{};
  ibv_flow_spec_eth eth{};
};

EthFlow to_station(const Mac& mac) {
  EthFlow flow;
  flow.attr.type = IBV_FLOW_ATTR_NORMAL;
  flow.attr.size = sizeof(flow);
  flow.attr.num_of_specs = 1;
  flow.attr.port = 1;
  flow.eth.type = IBV_FLOW_SPEC_ETH;
  flow.eth.size = sizeof(flow.eth);
  std::memcpy(flow.eth.val.dst_mac, mac.data(), mac.size());
  std::memset(flow.eth.mask.dst_mac, 0xff, sizeof(flow.eth.mask.dst_mac));
  return flow;
}

// Skips the rule if the device has no flows.
FlowPtr create(const Raw& raw, EthFlow flow) {
  FlowPtr made(ibv_create_flow(raw.qp(), &flow.attr));
  if (!made && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM || errno == ENXIO)) {
    skip("no ibv_create_flow: {}", errno_name(errno));
  }
  return made;
}

void made(const Env& env) {
  const Raw raw(env);
  for (int i = 0; i < 5; i++) {
    const FlowPtr flow = create(raw, to_station(kStation));
    if (!flow) fail_errno("ibv_create_flow");
  }
}

// Nobody needs to have the frame, but a QP has to send it.
void sent(const Env& env) {
  const Raw raw(env);
  for (std::uint64_t i = 0; i < 8; i++) raw.send(kStation, i);
}

void steered(const Env& env) {
  const Raw from(env);
  const Raw to(env);
  const Raw other(env);
  FlowPtr flow = create(to, to_station(kStation));
  if (!flow) fail_errno("ibv_create_flow");
  for (const Raw* raw : {&to, &other}) {
    require_err(post_recv(raw->qp(), 1, raw->memory().sge(4096, 2048)), 0, "ibv_post_recv");
  }
  from.send(kStation, 9);
  ibv_wc wc{};
  int n = 0;
  for (int ms = 0; ms < 200 && n == 0; ms++) {
    expect_quiet(other.cq(), 1);
    n = ibv_poll_cq(to.cq(), 1, &wc);
  }
  if (n == 0) {
    chose("a frame does not come back to a QP of its own port");
    return;
  }
  require_status(wc, 1, IBV_WC_SUCCESS);
  require(wc.byte_len == kFrame, "byte_len {}", wc.byte_len);
  const auto payload = to.memory().bytes().subspan(4096 + ETH_HLEN, kFrame - ETH_HLEN);
  require(!mismatch(payload, 9), "wrong bytes");
  flow.reset();
  require_err(post_recv(to.qp(), 2, to.memory().sge(4096, 2048)), 0, "ibv_post_recv");
  from.send(kStation, 10);
  expect_quiet(to.cq(), 50);
}

void refused(const Env& env) {
  const Raw raw(env);
  {
    const FlowPtr good = create(raw, to_station(kStation));
    if (!good) fail_errno("ibv_create_flow");
  }
  const auto refuse = [&raw](const char* what, const std::function<void(EthFlow&)>& change) {
    EthFlow flow = to_station(kStation);
    change(flow);
    const FlowPtr none = create(raw, flow);
    require_refused(none ? 0 : errno, EINVAL, what);
  };
  refuse("port 0", [](EthFlow& f) { f.attr.port = 0; });
  refuse("a port above phys_port_cnt", [&env](EthFlow& f) {
    f.attr.port = static_cast<std::uint8_t>(env.dev.attr().phys_port_cnt + 1);
  });
  refuse("an unknown spec", [](EthFlow& f) { f.eth.type = static_cast<ibv_flow_spec_type>(0x7f); });
  refuse("more specs than there are", [](EthFlow& f) { f.attr.num_of_specs = 2; });
}

void other_types(const Env& env) {
  const Raw raw(env);
  {
    const FlowPtr good = create(raw, to_station(kStation));
    if (!good) fail_errno("ibv_create_flow");
  }
  const Pair pair(env.dev);
  EthFlow flow = to_station(kStation);
  const FlowPtr none(ibv_create_flow(pair.local.qp(), &flow.attr));
  require_refused(none ? 0 : errno, EINVAL, "a flow of an RC QP");
}

}  // namespace

Rules all() {
  return {
      {"made", "a flow can be made and destroyed, again and again", made},
      {"sent", "a QP of raw packets sends frames", sent},
      {"steered", "a frame goes to the QP whose flow it matches, until the flow is destroyed",
       steered},
      {"refused", "a malformed flow is refused", refused},
      {"other_types", "a QP of a connection has no flows", other_types},
  };
}

}  // namespace guest::flows
