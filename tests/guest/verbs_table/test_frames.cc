// SPDX-License-Identifier: GPL-2.0-or-later
// Ethernet frames: flows, their counters and actions, work queues, segmentation. Needs CAP_NET_RAW.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "table.h"

namespace guest::verbs {
namespace {

constexpr std::array<std::uint8_t, 6> kTo{0x02, 0, 0, 0, 0, 0x77};
constexpr std::array<std::uint8_t, 6> kFrom{0x02, 0, 0, 0, 0, 0x78};
constexpr std::uint16_t kExperimental = 0x88b5;  // EtherType
constexpr std::uint32_t kFrame = 128;
constexpr std::uint32_t kTcpHeaders = 14 + 20 + 20;

using FlowPtr = Owner<ibv_flow>;
using CountersPtr = Owner<ibv_counters>;
using WqPtr = Owner<ibv_wq>;
using TablePtr = Owner<ibv_rwq_ind_table>;

// A raw packet QP that sends, and one that receives what a flow gives it.
class Raw {
 public:
  explicit Raw(const Device& dev)
      : dev_(dev),
        send_cq_(create_cq(dev, 16)),
        recv_cq_(create_cq(dev, 16)),
        memory_(dev.pd(), 8192, kAllAccess),
        from_(make_qp()),
        to_(make_qp()) {
    put_header(kExperimental);
  }

  [[nodiscard]] ibv_qp* to() const { return to_.get(); }
  [[nodiscard]] ibv_cq* recv_cq() const { return recv_cq_.get(); }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] ibv_sge inbox() const { return memory_.sge(4096, 2048); }
  [[nodiscard]] std::byte* outbox() const { return memory_.bytes().data(); }

  void put_header(std::uint16_t type) const {
    std::memcpy(outbox(), kTo.data(), 6);
    std::memcpy(outbox() + 6, kFrom.data(), 6);
    const std::uint16_t be = htons(type);
    std::memcpy(outbox() + 12, &be, 2);
  }
  void post_recv() const { require_err(guest::post_recv(to(), 2, inbox()), 0, "ibv_post_recv"); }
  // Sends the frame in the outbox.
  void send() const {
    const Send s{.sges = {memory_.sge(0, kFrame)}, .wr_id = 1};
    require_err(post(from_.get(), Api::kPost, s), 0, "ibv_post_send");
    require_status(poll(send_cq_.get(), 1).front(), 1, IBV_WC_SUCCESS);
  }
  // Sends what follows the headers in the outbox in segments of `mss` bytes.
  void send_large(std::uint32_t length, std::uint16_t mss) const {
    ibv_qp_ex* const q = ibv_qp_to_qp_ex(from_.get());
    ibv_wr_start(q);
    q->wr_id = 1;
    q->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send_tso(q, outbox(), kTcpHeaders, mss);
    ibv_wr_set_sge(q, memory_.lkey(), memory_.address(kTcpHeaders), length);
    require_err(ibv_wr_complete(q), 0, "ibv_wr_complete");
    require_status(poll(send_cq_.get(), 1).front(), 1, IBV_WC_SUCCESS);
  }
  void received(std::uint32_t length) const {
    const ibv_wc wc = poll(recv_cq(), 1).front();
    require_status(wc, 2, IBV_WC_SUCCESS);
    require(wc.byte_len == length, "{} bytes", wc.byte_len);
    require(std::memcmp(memory_.bytes().data() + 4096, kTo.data(), 6) == 0, "another frame");
  }

 private:
  QpPtr make_qp() const {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = send_cq_.get();
    attr.recv_cq = recv_cq_.get();
    attr.cap = capacity(4, 4);
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.comp_mask =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    attr.pd = dev_.pd();
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO;
    attr.max_tso_header = kTcpHeaders;
    QpPtr qp(ibv_create_qp_ex(dev_.context(), &attr));
    require(qp != nullptr, "a raw packet QP: {}", errno_name(errno));
    connect_to_itself(qp.get(), dev_);
    return qp;
  }

  const Device& dev_;
  CqPtr send_cq_;
  CqPtr recv_cq_;
  Memory memory_;
  QpPtr from_;
  QpPtr to_;
};

// The specs of a flow, which follow each other without gaps. The first is that of the frames to
// kTo.
class Specs {
 public:
  Specs() {
    ibv_flow_spec_eth eth{};
    eth.type = IBV_FLOW_SPEC_ETH;
    std::ranges::copy(kTo, eth.val.dst_mac);
    std::ranges::fill(eth.mask.dst_mac, std::uint8_t{0xff});
    add(eth);
  }
  static Specs none() {
    Specs specs;
    specs.count_ = 0;
    specs.bytes_.clear();
    return specs;
  }

  template <typename Spec>
  Specs& add(Spec spec) {
    spec.size = sizeof(spec);
    const auto bytes = std::as_bytes(std::span(&spec, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    ++count_;
    return *this;
  }
  Specs& count(ibv_counters* counters) {
    ibv_flow_spec_counter_action spec{};
    spec.type = IBV_FLOW_SPEC_ACTION_COUNT;
    spec.counters = counters;
    return add(spec);
  }
  // Null with errno if the verb refuses.
  [[nodiscard]] FlowPtr try_flow(ibv_qp* qp, std::uint32_t flags = 0) const {
    std::vector<std::uint64_t> bytes((sizeof(ibv_flow_attr) + bytes_.size() + 7) / 8);
    auto* const attr = reinterpret_cast<ibv_flow_attr*>(bytes.data());
    attr->type = IBV_FLOW_ATTR_NORMAL;
    attr->port = 1;
    attr->flags = flags;
    attr->num_of_specs = count_;
    attr->size = static_cast<std::uint16_t>(sizeof(*attr) + bytes_.size());
    std::memcpy(attr + 1, bytes_.data(), bytes_.size());
    errno = 0;
    return FlowPtr(ibv_create_flow(qp, attr));
  }
  [[nodiscard]] FlowPtr flow(ibv_qp* qp, std::uint32_t flags = 0) const {
    FlowPtr flow = try_flow(qp, flags);
    if (!flow) fail_errno("ibv_create_flow");
    return flow;
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint8_t count_ = 0;
};

// A flow of the frames to kTo, with counters if there are some.
FlowPtr create_flow(ibv_qp* qp, ibv_counters* counters = nullptr) {
  Specs specs;
  if (counters != nullptr) specs.count(counters);
  return specs.flow(qp);
}

CountersPtr new_counters(const Device& dev) {
  ibv_counters_init_attr init{};
  CountersPtr counters(ibv_create_counters(dev.context(), &init));
  require(counters != nullptr, "ibv_create_counters: {}", errno_name(errno));
  return counters;
}

// The packets in place 0, the bytes in place 1.
void attach(ibv_counters* counters) {
  for (std::uint32_t i = 0; i < 2; i++) {
    ibv_counter_attach_attr at{};
    at.counter_desc = i == 0 ? IBV_COUNTER_PACKETS : IBV_COUNTER_BYTES;
    at.index = i;
    require_err(ibv_attach_counters_point_flow(counters, &at, nullptr), 0,
                "ibv_attach_counters_point_flow");
  }
}

std::uint64_t packets_of(ibv_counters* counters) {
  std::array<std::uint64_t, 2> values{};
  require_err(ibv_read_counters(counters, values.data(), values.size(), 0), 0, "ibv_read_counters");
  return values[0];
}

// A spec of a header, whose value and mask are set by the caller.
template <typename Spec>
Spec spec_of(unsigned type) {
  Spec spec{};
  spec.type = static_cast<ibv_flow_spec_type>(type);
  return spec;
}

// IPv4 around the rest of the frame.
std::vector<std::uint8_t> ipv4(std::uint8_t protocol, std::vector<std::uint8_t> inside) {
  std::vector<std::uint8_t> bytes(20);
  bytes[0] = 0x45;
  bytes[3] = kFrame - 14;
  bytes[6] = 0x40;  // "don't fragment"
  bytes[8] = 64;
  bytes[9] = protocol;
  bytes.insert(bytes.end(), inside.begin(), inside.end());
  return bytes;
}

// The flow takes a frame of this type with these headers, and does not if a bit of byte `at` of
// them is another.
void expect_match(const Device& dev, const char* what, const Specs& specs, std::uint16_t type,
                  const std::vector<std::uint8_t>& headers, std::size_t at, std::uint8_t bit = 1) {
  const Raw raw(dev);
  raw.put_header(type);
  std::memcpy(raw.outbox() + 14, headers.data(), headers.size());
  const FlowPtr flow = specs.flow(raw.to());
  raw.post_recv();
  raw.send();
  raw.received(kFrame);
  raw.post_recv();
  raw.outbox()[14 + at] ^= std::byte{bit};
  raw.send();
  try {
    expect_quiet(raw.recv_cq(), 20);
  } catch (const Failure&) {
    fail("{}: the flow takes another frame", what);
  }
}

void expect_headers(const Device& dev) {
  auto esp = spec_of<ibv_flow_spec_esp>(IBV_FLOW_SPEC_ESP);
  esp.val = {.spi = htonl(0x11223344), .seq = htonl(7)};
  esp.mask = {.spi = ~0U, .seq = ~0U};
  const std::vector<std::uint8_t> esp_bytes = {0x11, 0x22, 0x33, 0x44, 0, 0, 0, 7};
  expect_match(dev, "ESP", Specs().add(esp), 0x0800, ipv4(50, esp_bytes), 27);

  auto gre = spec_of<ibv_flow_spec_gre>(IBV_FLOW_SPEC_GRE);
  gre.val = {.c_ks_res0_ver = htons(0x2000), .protocol = htons(0x0800), .key = htonl(5)};
  gre.mask = {.c_ks_res0_ver = 0xffff, .protocol = 0xffff, .key = ~0U};
  auto inner = spec_of<ibv_flow_spec_ipv4_ext>(IBV_FLOW_SPEC_IPV4_EXT | IBV_FLOW_SPEC_INNER);
  inner.val.proto = 17;
  inner.mask.proto = 0xff;
  std::vector<std::uint8_t> inside = ipv4(17, {});
  inside[3] = 20;
  std::vector<std::uint8_t> gre_bytes = {0x20, 0, 0x08, 0, 0, 0, 0, 5};
  gre_bytes.insert(gre_bytes.end(), inside.begin(), inside.end());
  expect_match(dev, "the key of GRE", Specs().add(gre), 0x0800, ipv4(47, gre_bytes), 27);
  expect_match(dev, "IPv4 in GRE", Specs().add(gre).add(inner), 0x0800, ipv4(47, gre_bytes), 37);

  auto mpls = spec_of<ibv_flow_spec_mpls>(IBV_FLOW_SPEC_MPLS);
  mpls.val.label = htonl(0x12345140);
  mpls.mask.label = ~0U;
  auto udp = spec_of<ibv_flow_spec_tcp_udp>(IBV_FLOW_SPEC_UDP);
  udp.val.dst_port = htons(6635);
  udp.mask.dst_port = 0xffff;
  std::vector<std::uint8_t> stack = {0x12, 0x34, 0x51, 0x40};
  stack.insert(stack.end(), inside.begin(), inside.end());
  std::vector<std::uint8_t> in_udp = {0, 1, 6635 >> 8, 6635 & 0xff, 0, 32, 0, 0};
  in_udp.insert(in_udp.end(), stack.begin(), stack.end());
  std::vector<std::uint8_t> in_gre = {0, 0, 0x88, 0x47};
  in_gre.insert(in_gre.end(), stack.begin(), stack.end());
  expect_match(dev, "MPLS", Specs().add(mpls), 0x8847, stack, 1);
  expect_match(dev, "IPv4 in MPLS", Specs().add(mpls).add(inner), 0x8847, stack, 13);
  expect_match(dev, "MPLS in UDP", Specs().add(udp).add(mpls), 0x0800, ipv4(17, in_udp), 29);
  auto any_gre = spec_of<ibv_flow_spec_gre>(IBV_FLOW_SPEC_GRE);
  expect_match(dev, "MPLS in GRE", Specs().add(any_gre).add(mpls), 0x0800, ipv4(47, in_gre), 25);

  // The bits are numbered from the first of the three: "don't fragment" is bit 1.
  auto ip = spec_of<ibv_flow_spec_ipv4_ext>(IBV_FLOW_SPEC_IPV4_EXT);
  ip.val.flags = 2;
  ip.mask.flags = 6;
  expect_match(dev, "\"don't fragment\"", Specs().add(ip), 0x0800, ipv4(1, {}), 6, 0x40);
  expect_match(dev, "\"more fragments\"", Specs().add(ip), 0x0800, ipv4(1, {}), 6, 0x20);
}

// Frames that are sent, which a flow counts or drops.
void expect_egress(const Device& dev) {
  const Raw raw(dev);
  const FlowPtr in = create_flow(raw.to());
  const CountersPtr counters = new_counters(dev);
  attach(counters.get());
  {
    const FlowPtr out = Specs().count(counters.get()).flow(raw.to(), IBV_FLOW_ATTR_FLAGS_EGRESS);
    raw.post_recv();
    raw.send();
    raw.received(kFrame);
    require(packets_of(counters.get()) == 1, "the frame was not counted");
  }
  const FlowPtr out = Specs()
                          .add(spec_of<ibv_flow_spec_action_drop>(IBV_FLOW_SPEC_ACTION_DROP))
                          .count(counters.get())
                          .flow(raw.to(), IBV_FLOW_ATTR_FLAGS_EGRESS);
  raw.post_recv();
  raw.send();
  expect_quiet(raw.recv_cq(), 20);
  require(packets_of(counters.get()) == 2, "the frame that was dropped was not counted");
}

// Datagrams to the first pair, which the flow of the second pair's QP takes.
void expect_datagrams(const Device& dev) {
  const Pair ud(dev, loop(IBV_QPT_UD));
  const Pair other(dev, loop(IBV_QPT_UD));
  auto udp = spec_of<ibv_flow_spec_tcp_udp>(IBV_FLOW_SPEC_UDP);
  udp.val.dst_port = htons(4791);
  udp.mask.dst_port = 0xffff;
  ud.recv(1, 0, 64);
  other.recv(2, 0, 64);
  {
    const FlowPtr flow = Specs::none().add(udp).flow(other.remote.end().qp());
    ud.run(ud.request(IBV_WR_SEND, 64, 0, 0, 3));
    other.expect_recv(2);
  }
  ud.run(ud.request(IBV_WR_SEND, 64, 0, 0, 4));
  ud.expect_recv(1);
}

// A WQ with a flag that tern does not have.
std::function<int(const Device&)> refuses_wq_flag(std::uint32_t flag) {
  return [flag](const Device& dev) {
    const CqPtr cq = create_cq(dev, 16);
    ibv_wq_init_attr attr{};
    attr.wq_type = IBV_WQT_RQ;
    attr.max_wr = 4;
    attr.max_sge = 1;
    attr.pd = dev.pd();
    attr.cq = cq.get();
    attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
    attr.create_flags = flag;
    errno = 0;
    return refusal_of<WqPtr>(ibv_create_wq(dev.context(), &attr));
  };
}

void add_flows(Probes& p) {
  p.works({"ibv_create_flow", "ibv_destroy_flow"},
          "frames to an address, and none without the flow; ESP, GRE, MPLS, flags of IPv4; EGRESS; "
          "datagrams of a UD QP",
          [](const Device& dev) {
            const Raw raw(dev);
            raw.post_recv();
            {
              const FlowPtr flow = create_flow(raw.to());
              raw.send();
              raw.received(kFrame);
            }
            raw.post_recv();
            raw.send();
            expect_quiet(raw.recv_cq(), 100);
            expect_headers(dev);
            expect_egress(dev);
            expect_datagrams(dev);
          });
  p.partly({"ibv_attach_counters_point_flow"}, {},
           "packets and bytes; EBUSY while a flow has the counters",
           [](const Device& dev) {
             const Raw raw(dev);
             const CountersPtr counters = new_counters(dev);
             attach(counters.get());
             const FlowPtr flow = create_flow(raw.to(), counters.get());
             ibv_counter_attach_attr at{};
             at.counter_desc = IBV_COUNTER_PACKETS;
             at.index = 2;
             require_err(ibv_attach_counters_point_flow(counters.get(), &at, nullptr), EBUSY,
                         "ibv_attach_counters_point_flow");
           },
           {{"a flow that is there", [](const Device& dev) {
               const Raw raw(dev);
               const CountersPtr counters = new_counters(dev);
               attach(counters.get());
               const FlowPtr flow = create_flow(raw.to(), counters.get());
               ibv_counter_attach_attr at{};
               at.counter_desc = IBV_COUNTER_PACKETS;
               at.index = 2;
               return ibv_attach_counters_point_flow(counters.get(), &at, flow.get());
             }}});
  p.works({"ibv_create_counters", "ibv_destroy_counters", "ibv_read_counters"},
          "the packets and bytes of a flow; EBUSY while it has them", [](const Device& dev) {
            const Raw raw(dev);
            const CountersPtr counters = new_counters(dev);
            attach(counters.get());
            const FlowPtr flow = create_flow(raw.to(), counters.get());
            raw.post_recv();
            raw.send();
            raw.received(kFrame);
            std::array<std::uint64_t, 2> values{};
            require_err(ibv_read_counters(counters.get(), values.data(), values.size(), 0), 0,
                        "ibv_read_counters");
            require(values[0] == 1 && values[1] == kFrame, "{} packets, {} bytes", values[0],
                    values[1]);
            require_err(ibv_destroy_counters(counters.get()), EBUSY, "ibv_destroy_counters");
          });
  p.refuses({"ibv_create_flow_action", "ibv_modify_flow_action", "ibv_destroy_flow_action"},
            "EOPNOTSUPP: Linux has no flow action without a vendor's verb any more",
            [](const Device& dev) {
              ibv_flow_action_esp_attr attr{};
              errno = 0;
              require(ibv_create_flow_action_esp(dev.context(), &attr) == nullptr, "an action");
              require_errno(EOPNOTSUPP, "ibv_create_flow_action_esp");
              ibv_flow_action none{};
              none.context = dev.context();
              require_err(ibv_modify_flow_action_esp(&none, &attr), EOPNOTSUPP,
                          "ibv_modify_flow_action_esp");
              require_err(ibv_destroy_flow_action(&none), EOPNOTSUPP, "ibv_destroy_flow_action");
            });
}

WqPtr create_wq(const Device& dev, ibv_cq* cq) {
  ibv_wq_init_attr attr{};
  attr.wq_type = IBV_WQT_RQ;
  attr.max_wr = 4;
  attr.max_sge = 1;
  attr.pd = dev.pd();
  attr.cq = cq;
  WqPtr wq(ibv_create_wq(dev.context(), &attr));
  if (!wq) fail_errno("ibv_create_wq");
  return wq;
}

QpPtr create_rss_qp(const Device& dev, ibv_rwq_ind_table* table) {
  std::array<std::uint8_t, 40> key{};
  key.fill(0x5a);
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RAW_PACKET;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  attr.pd = dev.pd();
  attr.rwq_ind_tbl = table;
  attr.rx_hash_conf = {
      .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
      .rx_hash_key_len = static_cast<std::uint8_t>(key.size()),
      .rx_hash_key = key.data(),
      .rx_hash_fields_mask = std::uint64_t{IBV_RX_HASH_SRC_IPV4} | IBV_RX_HASH_DST_IPV4};
  QpPtr qp(ibv_create_qp_ex(dev.context(), &attr));
  if (!qp) fail_errno("ibv_create_qp_ex");
  return qp;
}

void add_work_queues(Probes& p) {
  p.partly({"ibv_create_wq"}, {}, "a WQ that becomes ready",
           [](const Device& dev) {
             const Raw raw(dev);
             const WqPtr wq = create_wq(dev, raw.recv_cq());
             ibv_wq_attr state{};
             state.attr_mask = IBV_WQ_ATTR_STATE;
             state.wq_state = IBV_WQS_RDY;
             require_err(ibv_modify_wq(wq.get(), &state), 0, "ibv_modify_wq");
           },
           {{"DELAY_DROP", refuses_wq_flag(IBV_WQ_FLAGS_DELAY_DROP)},
            {"PCI_WRITE_END_PADDING", refuses_wq_flag(IBV_WQ_FLAGS_PCI_WRITE_END_PADDING)}});
  p.works(
      {"ibv_modify_wq", "ibv_destroy_wq", "ibv_create_rwq_ind_table", "ibv_destroy_rwq_ind_table"},
      "a frame in a WQ of an RSS QP's table", [](const Device& dev) {
        const Raw raw(dev);
        const WqPtr wq = create_wq(dev, raw.recv_cq());
        ibv_wq_attr state{};
        state.attr_mask = IBV_WQ_ATTR_STATE;
        state.wq_state = IBV_WQS_RDY;
        require_err(ibv_modify_wq(wq.get(), &state), 0, "ibv_modify_wq");
        ibv_wq* entry = wq.get();
        ibv_rwq_ind_table_init_attr init{};
        init.ind_tbl = &entry;
        const TablePtr table(ibv_create_rwq_ind_table(dev.context(), &init));
        require(table != nullptr, "ibv_create_rwq_ind_table: {}", errno_name(errno));
        require(ibv_destroy_wq(wq.get()) == EBUSY, "the WQ of a table was destroyed");
        const QpPtr rss = create_rss_qp(dev, table.get());
        ibv_sge sge = raw.inbox();
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = 2;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        require_err(ibv_post_wq_recv(wq.get(), &wr, &bad), 0, "ibv_post_wq_recv");
        const FlowPtr flow = create_flow(rss.get());
        raw.send();
        raw.received(kFrame);
      });
}

// Headers of TCP over IPv4, whose checksums and lengths the device completes.
void put_tcp(const Raw& raw) {
  raw.put_header(0x0800);
  auto* const ip = reinterpret_cast<std::uint8_t*>(raw.outbox() + 14);
  std::memset(ip, 0, kTcpHeaders - 14);
  ip[0] = 0x45;
  ip[8] = 64;
  ip[9] = 6;
  ip[12] = ip[16] = 10;
  ip[15] = 1;
  ip[19] = 2;
  ip[20 + 12] = 0x50;  // a TCP header of 20 bytes
  ip[20 + 13] = 0x10;  // ACK
}

void add_segments(Probes& p) {
  p.works({"ibv_wr_send_tso"}, "150 bytes in segments of 100", [](const Device& dev) {
    const Raw raw(dev);
    const FlowPtr flow = create_flow(raw.to());
    put_tcp(raw);
    raw.post_recv();
    raw.post_recv();
    raw.send_large(150, 100);
    raw.received(kTcpHeaders + 100);
    raw.received(kTcpHeaders + 50);
  });
}

}  // namespace

void add_frame_probes(Probes& probes) {
  add_flows(probes);
  add_work_queues(probes);
  add_segments(probes);
}

}  // namespace guest::verbs
