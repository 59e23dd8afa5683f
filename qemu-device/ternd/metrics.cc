// SPDX-License-Identifier: GPL-2.0-or-later
#include "metrics.h"

#include <array>
#include <string>

#include "tern_hw.hpp"

namespace tern::daemon {

namespace {

struct Name {
  unsigned index;
  const char* name;
};

// As `rdma statistic` shows them in the guest.
constexpr Name kRdma[] = {
    {TERN_CNT_RX_WRITE_REQUESTS, "rx_write_requests"},
    {TERN_CNT_RX_READ_REQUESTS, "rx_read_requests"},
    {TERN_CNT_RX_ATOMIC_REQUESTS, "rx_atomic_requests"},
    {TERN_CNT_OUT_OF_BUFFER, "out_of_buffer"},
    {TERN_CNT_OUT_OF_SEQUENCE, "out_of_sequence"},
    {TERN_CNT_DUPLICATE_REQUEST, "duplicate_request"},
    {TERN_CNT_RNR_NAK_RETRY_ERR, "rnr_nak_retry_err"},
    {TERN_CNT_PACKET_SEQ_ERR, "packet_seq_err"},
    {TERN_CNT_IMPLIED_NAK_SEQ_ERR, "implied_nak_seq_err"},
    {TERN_CNT_LOCAL_ACK_TIMEOUT_ERR, "local_ack_timeout_err"},
    {TERN_CNT_RESP_LOCAL_LENGTH_ERROR, "resp_local_length_error"},
    {TERN_CNT_RESP_CQE_ERROR, "resp_cqe_error"},
    {TERN_CNT_REQ_CQE_ERROR, "req_cqe_error"},
    {TERN_CNT_REQ_REMOTE_INVALID_REQUEST, "req_remote_invalid_request"},
    {TERN_CNT_REQ_REMOTE_ACCESS_ERRORS, "req_remote_access_errors"},
    {TERN_CNT_RESP_REMOTE_ACCESS_ERRORS, "resp_remote_access_errors"},
    {TERN_CNT_RESP_CQE_FLUSH_ERROR, "resp_cqe_flush_error"},
    {TERN_CNT_REQ_CQE_FLUSH_ERROR, "req_cqe_flush_error"},
    {TERN_CNT_RX_ICRC_ERRORS, "rx_icrc_encapsulated"},
    {TERN_CNT_RX_MALFORMED, "rx_malformed"},
    {TERN_CNT_RX_QP_MISMATCH, "rx_qp_mismatch"},
    {TERN_CNT_QKEY_VIOLATIONS, "qkey_violations"},
    {TERN_CNT_BAD_DOORBELL, "bad_doorbell"},
    {TERN_CNT_DMA_ERRORS, "dma_errors"},
    {TERN_CNT_CQ_OVERRUNS, "cq_overruns"},
    {TERN_CNT_TX_RDMA_PACKETS, "tx_rdma_packets"},
    {TERN_CNT_TX_RDMA_BYTES, "tx_rdma_bytes"},
    {TERN_CNT_RX_RDMA_PACKETS, "rx_rdma_packets"},
    {TERN_CNT_RX_RDMA_BYTES, "rx_rdma_bytes"},
    {TERN_CNT_NP_ECN_MARKED, "np_ecn_marked_roce_packets"},
    {TERN_CNT_NP_CNP_SENT, "np_cnp_sent"},
    {TERN_CNT_RP_CNP_HANDLED, "rp_cnp_handled"},
    {TERN_CNT_EQ_COALESCED, "eq_coalesced"},
    {TERN_CNT_PAGE_FAULTS, "page_faults"},
};
static_assert(std::size(kRdma) == TERN_CNT_RDMA_NUM);

constexpr Name kEthernet[] = {
    {TERN_ETH_CNT_TX_PACKETS, "tx_packets"},       {TERN_ETH_CNT_TX_BYTES, "tx_bytes"},         {TERN_ETH_CNT_TX_ERRORS, "tx_errors"},
    {TERN_ETH_CNT_RX_PACKETS, "rx_packets"},       {TERN_ETH_CNT_RX_BYTES, "rx_bytes"},         {TERN_ETH_CNT_RX_NO_BUFFER, "rx_out_of_buffer"},
    {TERN_ETH_CNT_RX_TOO_LONG, "rx_oversize"},     {TERN_ETH_CNT_RX_FILTERED, "rx_filtered"},   {TERN_ETH_CNT_RX_MULTICAST, "rx_multicast"},
};
static_assert(std::size(kEthernet) == TERN_ETH_CNT_NUM);

struct PortName {
  std::uint64_t PortCounters::*field;
  const char* name;
};
constexpr PortName kPort[] = {
    {&PortCounters::in_frames, "in_frames"},       {&PortCounters::in_bytes, "in_bytes"},     {&PortCounters::in_discards, "in_discards"},
    {&PortCounters::out_frames, "out_frames"},     {&PortCounters::out_bytes, "out_bytes"},   {&PortCounters::out_discards, "out_discards"},
    {&PortCounters::out_lost, "out_lost"},         {&PortCounters::out_marked, "out_marked"}, {&PortCounters::blocked, "blocked"},
    {&PortCounters::watchdog, "watchdog"},
};

class Families {
 public:
  void add(const std::string& name, prometheus::MetricType type, const char* label, const std::string& value, double number) {
    prometheus::MetricFamily* family = nullptr;
    for (auto& f : families_) {
      if (f.name == name) family = &f;
    }
    if (family == nullptr) {
      families_.push_back({name, "", type, {}});
      family = &families_.back();
    }
    prometheus::ClientMetric metric;
    metric.label.push_back({label, value});
    if (type == prometheus::MetricType::Counter) {
      metric.counter.value = number;
    } else {
      metric.gauge.value = number;
    }
    family->metric.push_back(std::move(metric));
  }
  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

constexpr auto kCounter = prometheus::MetricType::Counter;
constexpr auto kGauge = prometheus::MetricType::Gauge;

void add_port(Families& out, const Port& port) {
  const PortCounters counters = port.counters();
  for (const PortName& p : kPort) {
    out.add(std::string("tern_port_") + p.name + "_total", kCounter, "port", port.name(), static_cast<double>(counters.*p.field));
  }
  out.add("tern_port_queue_bytes", kGauge, "port", port.name(), static_cast<double>(port.queue_length()));
  out.add("tern_port_link", kGauge, "port", port.name(), port.link() ? 1 : 0);
}

}  // namespace

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  Families out;
  for (Adapter& adapter : adapters_) {
    const std::string& name = adapter.config().name;
    Adapter::Status status{};
    std::array<std::uint64_t, TERN_CNT_RDMA_NUM> rdma{};
    std::array<std::uint64_t, TERN_ETH_CNT_NUM> ethernet{};
    const bool answered = adapter.call([&] {
      status = adapter.status();
      std::copy_n(tern_engine_rdma_counters(adapter.engine()), rdma.size(), rdma.begin());
      std::copy_n(tern_engine_eth_counters(adapter.engine()), ethernet.size(), ethernet.begin());
    });
    out.add("tern_adapter_responds", kGauge, "adapter", name, answered ? 1 : 0);
    add_port(out, adapter.port());
    if (!answered) continue;
    out.add("tern_adapter_attached", kGauge, "adapter", name, status.attached ? 1 : 0);
    out.add("tern_adapter_memory_bytes", kGauge, "adapter", name, static_cast<double>(status.memory));
    out.add("tern_adapter_queue_pairs", kGauge, "adapter", name, status.engine.live_qps);
    out.add("tern_adapter_keys", kGauge, "adapter", name, status.engine.live_keys);
    out.add("tern_adapter_page_entries", kGauge, "adapter", name, static_cast<double>(status.engine.page_entries));
    for (const Name& n : kRdma) out.add(std::string("tern_") + n.name + "_total", kCounter, "adapter", name, static_cast<double>(rdma.at(n.index)));
    for (const Name& n : kEthernet) {
      out.add(std::string("tern_") + n.name + "_total", kCounter, "adapter", name, static_cast<double>(ethernet.at(n.index)));
    }
  }
  for (Uplink& uplink : uplinks_) {
    add_port(out, uplink.port());
    out.add("tern_uplink_unfinished_total", kCounter, "port", uplink.port().name(), static_cast<double>(uplink.unfinished()));
  }
  return out.take();
}

}  // namespace tern::daemon
