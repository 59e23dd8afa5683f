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

// A flow of the frames to kTo, with counters if there are some. The specs follow each other without
// gaps.
FlowPtr create_flow(ibv_qp* qp, ibv_counters* counters = nullptr) {
  ibv_flow_spec_eth eth{};
  eth.type = IBV_FLOW_SPEC_ETH;
  eth.size = sizeof(eth);
  std::ranges::copy(kTo, eth.val.dst_mac);
  std::ranges::fill(eth.mask.dst_mac, std::uint8_t{0xff});
  ibv_flow_spec_counter_action count{};
  count.type = IBV_FLOW_SPEC_ACTION_COUNT;
  count.size = sizeof(count);
  count.counters = counters;
  alignas(8) std::array<std::byte, sizeof(ibv_flow_attr) + sizeof(eth) + sizeof(count)> bytes{};
  auto* const attr = reinterpret_cast<ibv_flow_attr*>(bytes.data());
  attr->type = IBV_FLOW_ATTR_NORMAL;
  attr->port = 1;
  attr->num_of_specs = counters != nullptr ? 2 : 1;
  attr->size = static_cast<std::uint16_t>(bytes.size() - (counters != nullptr ? 0 : sizeof(count)));
  std::memcpy(bytes.data() + sizeof(*attr), &eth, sizeof(eth));
  std::memcpy(bytes.data() + sizeof(*attr) + sizeof(eth), &count, sizeof(count));
  FlowPtr flow(ibv_create_flow(qp, attr));
  if (!flow) fail_errno("ibv_create_flow");
  return flow;
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

// Makes a flow of the frames to kTo with another spec, which may be none; returns the errno, 0 if
// that worked.
int try_flow(ibv_qp* qp, std::span<const std::byte> spec, std::uint32_t flags = 0) {
  ibv_flow_spec_eth eth{};
  eth.type = IBV_FLOW_SPEC_ETH;
  eth.size = sizeof(eth);
  std::ranges::copy(kTo, eth.val.dst_mac);
  std::ranges::fill(eth.mask.dst_mac, std::uint8_t{0xff});
  std::vector<std::uint64_t> bytes((sizeof(ibv_flow_attr) + sizeof(eth) + spec.size() + 7) / 8);
  auto* const attr = reinterpret_cast<ibv_flow_attr*>(bytes.data());
  attr->type = IBV_FLOW_ATTR_NORMAL;
  attr->port = 1;
  attr->flags = flags;
  attr->num_of_specs = spec.empty() ? 1 : 2;
  attr->size = static_cast<std::uint16_t>(sizeof(*attr) + sizeof(eth) + spec.size());
  std::byte* const at = reinterpret_cast<std::byte*>(attr + 1);
  std::memcpy(at, &eth, sizeof(eth));
  std::ranges::copy(spec, at + sizeof(eth));
  errno = 0;
  return refusal_of<FlowPtr>(ibv_create_flow(qp, attr));
}

// A spec of a kind that tern does not have.
template <typename Spec, typename Set>
std::function<int(const Device&)> refuses_spec(ibv_flow_spec_type type, Set set) {
  return [type, set](const Device& dev) {
    Spec spec{};
    spec.type = type;
    spec.size = sizeof(spec);
    set(spec);
    const Raw raw(dev);
    return try_flow(raw.to(), std::as_bytes(std::span(&spec, 1)));
  };
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
  p.partly(
      {"ibv_create_flow"}, {"ibv_destroy_flow"}, "frames to an address, and none without the flow",
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
      },
      {{"ESP", refuses_spec<ibv_flow_spec_esp>(IBV_FLOW_SPEC_ESP,
                                               [](auto& spec) { spec.mask.spi = ~0U; })},
       {"GRE", refuses_spec<ibv_flow_spec_gre>(IBV_FLOW_SPEC_GRE,
                                               [](auto& spec) { spec.mask.protocol = 0xffff; })},
       {"MPLS", refuses_spec<ibv_flow_spec_mpls>(IBV_FLOW_SPEC_MPLS,
                                                 [](auto& spec) { spec.mask.label = ~0U; })},
       {"flags of IPv4", refuses_spec<ibv_flow_spec_ipv4_ext>(
                             IBV_FLOW_SPEC_IPV4_EXT, [](auto& spec) { spec.mask.flags = 0xff; })},
       {"EGRESS",
        [](const Device& dev) {
          const Raw raw(dev);
          return try_flow(raw.to(), {}, IBV_FLOW_ATTR_FLAGS_EGRESS);
        }},
       {"a UD QP", [](const Device& dev) {
          const Pair ud(dev, loop(IBV_QPT_UD));
          return try_flow(ud.remote.end().qp(), {});
        }}});
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
          "the packets and bytes of a flow", [](const Device& dev) {
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
