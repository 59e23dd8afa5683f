// SPDX-License-Identifier: GPL-2.0-or-later
#include "metrics.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <string>

#include "clock.h"
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
    {TERN_ETH_CNT_TX_PACKETS, "tx_packets"},
    {TERN_ETH_CNT_TX_BYTES, "tx_bytes"},
    {TERN_ETH_CNT_TX_ERRORS, "tx_errors"},
    {TERN_ETH_CNT_RX_PACKETS, "rx_packets"},
    {TERN_ETH_CNT_RX_BYTES, "rx_bytes"},
    {TERN_ETH_CNT_RX_NO_BUFFER, "rx_out_of_buffer"},
    {TERN_ETH_CNT_RX_TOO_LONG, "rx_oversize"},
    {TERN_ETH_CNT_RX_FILTERED, "rx_filtered"},
    {TERN_ETH_CNT_RX_MULTICAST, "rx_multicast"},
    {TERN_ETH_CNT_TX_MULTICAST, "tx_multicast"},
    {TERN_ETH_CNT_TX_BROADCAST, "tx_broadcast"},
    {TERN_ETH_CNT_RX_BROADCAST, "rx_broadcast"},
    {TERN_ETH_CNT_RX_FLOW_DROPPED, "rx_steered_drop"},
    {TERN_ETH_CNT_RX_CSUM_ERRORS, "rx_csum_errors"},
    {TERN_ETH_CNT_TX_SEGMENTED, "tx_tso_packets"},
    {TERN_ETH_CNT_TX_SIZES + 0, "tx_64_bytes"},
    {TERN_ETH_CNT_TX_SIZES + 1, "tx_65_to_127_bytes"},
    {TERN_ETH_CNT_TX_SIZES + 2, "tx_128_to_255_bytes"},
    {TERN_ETH_CNT_TX_SIZES + 3, "tx_256_to_511_bytes"},
    {TERN_ETH_CNT_TX_SIZES + 4, "tx_512_to_1023_bytes"},
    {TERN_ETH_CNT_TX_SIZES + 5, "tx_1024_to_1518_bytes"},
    {TERN_ETH_CNT_TX_SIZES + 6, "tx_1519_to_max_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 0, "rx_64_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 1, "rx_65_to_127_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 2, "rx_128_to_255_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 3, "rx_256_to_511_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 4, "rx_512_to_1023_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 5, "rx_1024_to_1518_bytes"},
    {TERN_ETH_CNT_RX_SIZES + 6, "rx_1519_to_max_bytes"},
};
static_assert(std::size(kEthernet) == TERN_ETH_CNT_NUM);

struct PortName {
  std::uint64_t PortCounters::* field;
  const char* name;
  const char* help;
};
constexpr PortName kPort[] = {
    {&PortCounters::in_frames, "in_frames", "Frames that the port's user sent into the switch."},
    {&PortCounters::in_bytes, "in_bytes", "Bytes of these frames."},
    {&PortCounters::in_discards, "in_discards",
     "Frames of the port's user that the switch does not forward."},
    {&PortCounters::out_frames, "out_frames", "Frames that left the switch through the port."},
    {&PortCounters::out_bytes, "out_bytes", "Bytes of these frames."},
    {&PortCounters::out_discards, "out_discards",
     "Frames to the port that were discarded: its queue was full, its link down, or by RED."},
    {&PortCounters::out_lost, "out_lost",
     "Frames to the port that were lost because its policy says so."},
    {&PortCounters::out_marked, "out_marked", "Frames to the port that were marked (ECN)."},
    {&PortCounters::blocked, "blocked", "Times that the full port blocked a sender."},
    {&PortCounters::watchdog, "watchdog",
     "Times that the full port took no frame for so long that senders went on."},
};

class Families {
 public:
  void add(const std::string& name, const char* help, prometheus::MetricType type,
           const char* label, const std::string& value, double number) {
    prometheus::MetricFamily* family = nullptr;
    for (auto& f : families_) {
      if (f.name == name) family = &f;
    }
    if (family == nullptr) {
      families_.push_back({name, help, type, {}});
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

void add_port(Families& out, const Port& port, const std::string& name) {
  const PortCounters counters = port.counters();
  for (const PortName& p : kPort) {
    out.add(std::string("tern_port_") + p.name + "_total", p.help, kCounter, "port", name,
            static_cast<double>(counters.*p.field));
  }
  out.add("tern_port_queue_bytes", "Bytes that wait to leave the switch through the port.", kGauge,
          "port", name, static_cast<double>(port.queue_length()));
  out.add("tern_port_link", "Whether the link of the port is up.", kGauge, "port", name,
          port.link() ? 1 : 0);
}

void add_adapter(Families& out, const std::string& name, const AdapterAnswer& a) {
  const auto gauge = [&](const char* what, const char* help, double value) {
    out.add(what, help, kGauge, "adapter", name, value);
  };
  gauge("tern_adapter_attached", "Whether a hypervisor is attached.", a.status.attached ? 1 : 0);
  gauge("tern_adapter_memory_bytes", "Memory that the hypervisor lets the adapter access.",
        static_cast<double>(a.status.memory));
  gauge("tern_adapter_regions", "Regions that this memory is in.",
        static_cast<double>(a.status.regions));
  gauge("tern_adapter_most_regions", "Regions that the hypervisor may map at a time.",
        static_cast<double>(a.adapter->most_regions()));
  gauge("tern_adapter_queue_pairs", "Queue pairs that exist.", a.status.engine.live_qps);
  gauge("tern_adapter_keys", "Memory keys that exist.", a.status.engine.live_keys);
  gauge("tern_adapter_page_entries", "Page list entries that are in use.",
        static_cast<double>(a.status.engine.page_entries));
  const Counters& counters = a.status.counters;
  for (std::size_t i = 0; i < counters.rdma.size(); ++i) {
    out.add(std::string("tern_") + kRdma[i] + "_total",
            "RDMA counter of the adapter, as the guest's `rdma statistic` shows it.", kCounter,
            "adapter", name, static_cast<double>(counters.rdma.at(i)));
  }
  for (const Name& n : kEthernet) {
    out.add(std::string("tern_") + n.name + "_total",
            "Ethernet counter of the adapter, as the guest's `ethtool -S` shows it.", kCounter,
            "adapter", name, static_cast<double>(counters.eth.at(n.index)));
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  const std::lock_guard lock(mutex_);
  if (const std::uint64_t now = clock_ns(); collected_.empty() || now - collected_at_ >= keep_) {
    collected_ = collect();
    collected_at_ = now;
  }
  return collected_;
}

std::vector<prometheus::MetricFamily> Metrics::collect() const {
  Families out;
  for (const AdapterAnswer& a : ask_all(parts_.adapters())) {
    const std::string& name = a.adapter->config().name;
    out.add("tern_adapter_responds",
            "Whether the adapter's thread answers: its hypervisor does not keep it waiting.",
            kGauge, "adapter", name, a.responds ? 1 : 0);
    add_port(out, a.adapter->port(), name);
    if (a.responds) add_adapter(out, name, a);
  }
  for (const auto& uplink : parts_.uplinks()) {
    add_port(out, uplink->port(), uplink->name());
    out.add("tern_uplink_unfinished_total",
            "Packets that the host left unfinished in a way that is not known.", kCounter, "port",
            uplink->name(), static_cast<double>(uplink->unfinished()));
    out.add("tern_uplink_overruns_total", "Packets that the uplink did not take in time.", kCounter,
            "port", uplink->name(), static_cast<double>(uplink->overruns()));
  }
  return out.take();
}

}  // namespace tern::daemon
