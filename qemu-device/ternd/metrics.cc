// SPDX-License-Identifier: GPL-2.0-or-later
#include "metrics.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <string>

#include "tern_hw.hpp"

namespace tern::daemon {

namespace {

// As `rdma statistic` shows them in the guest, by index.
constexpr const char* kRdma[] = {
#define TERN_COUNTER(index, name) name,
#include "tern_counters.h"
};
constexpr unsigned kRdmaOrder[] = {
#define TERN_COUNTER(index, name) index,
#include "tern_counters.h"
};
static_assert(std::size(kRdma) == TERN_CNT_RDMA_NUM);
static_assert(std::ranges::equal(kRdmaOrder, std::views::iota(0U, std::size(kRdmaOrder))));

struct Name {
  unsigned index;
  const char* name;
};
constexpr Name kEthernet[] = {
    {TERN_ETH_CNT_TX_PACKETS, "tx_packets"},       {TERN_ETH_CNT_TX_BYTES, "tx_bytes"},         {TERN_ETH_CNT_TX_ERRORS, "tx_errors"},
    {TERN_ETH_CNT_RX_PACKETS, "rx_packets"},       {TERN_ETH_CNT_RX_BYTES, "rx_bytes"},         {TERN_ETH_CNT_RX_NO_BUFFER, "rx_out_of_buffer"},
    {TERN_ETH_CNT_RX_TOO_LONG, "rx_oversize"},     {TERN_ETH_CNT_RX_FILTERED, "rx_filtered"},   {TERN_ETH_CNT_RX_MULTICAST, "rx_multicast"},
    {TERN_ETH_CNT_TX_MULTICAST, "tx_multicast"},   {TERN_ETH_CNT_TX_BROADCAST, "tx_broadcast"}, {TERN_ETH_CNT_RX_BROADCAST, "rx_broadcast"},
    {TERN_ETH_CNT_RX_FLOW_DROPPED, "rx_steered_drop"}, {TERN_ETH_CNT_RX_CSUM_ERRORS, "rx_csum_errors"},
    {TERN_ETH_CNT_TX_SEGMENTED, "tx_tso_packets"},
    {TERN_ETH_CNT_TX_SIZES + 0, "tx_64_bytes"},    {TERN_ETH_CNT_TX_SIZES + 1, "tx_65_to_127_bytes"},
    {TERN_ETH_CNT_TX_SIZES + 2, "tx_128_to_255_bytes"},   {TERN_ETH_CNT_TX_SIZES + 3, "tx_256_to_511_bytes"},
    {TERN_ETH_CNT_TX_SIZES + 4, "tx_512_to_1023_bytes"},  {TERN_ETH_CNT_TX_SIZES + 5, "tx_1024_to_1518_bytes"},
    {TERN_ETH_CNT_TX_SIZES + 6, "tx_1519_to_max_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 0, "rx_64_bytes"},    {TERN_ETH_CNT_RX_SIZES + 1, "rx_65_to_127_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 2, "rx_128_to_255_bytes"},   {TERN_ETH_CNT_RX_SIZES + 3, "rx_256_to_511_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 4, "rx_512_to_1023_bytes"},  {TERN_ETH_CNT_RX_SIZES + 5, "rx_1024_to_1518_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 6, "rx_1519_to_max_bytes"},
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
    for (std::size_t i = 0; i < rdma.size(); ++i) {
      out.add(std::string("tern_") + kRdma[i] + "_total", kCounter, "adapter", name, static_cast<double>(rdma.at(i)));
    }
    for (const Name& n : kEthernet) {
      out.add(std::string("tern_") + n.name + "_total", kCounter, "adapter", name, static_cast<double>(ethernet.at(n.index)));
    }
  }
  for (Uplink& uplink : uplinks_) {
    add_port(out, uplink.port());
    out.add("tern_uplink_unfinished_total", kCounter, "port", uplink.port().name(), static_cast<double>(uplink.unfinished()));
    out.add("tern_uplink_overruns_total", kCounter, "port", uplink.port().name(), static_cast<double>(uplink.overruns()));
  }
  return out.take();
}

}  // namespace tern::daemon
