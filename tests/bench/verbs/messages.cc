// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "clock.h"
#include "measure.h"

namespace guest::bench {
namespace {

constexpr std::uint32_t kSmall = 8;
constexpr std::size_t kWarmUp = 50;
constexpr std::size_t kMostTimes = 20000;
constexpr std::uint32_t kSizes[] = {4096, 65536, 1 << 20};
// Bytes in flight, limited to 64 messages.
constexpr std::uint32_t kUnderWay = 8 << 20;
constexpr std::uint32_t kMostUnderWay = 64;
constexpr std::uint32_t kRateSize = 64;
constexpr std::uint32_t kRateDepth = 256;
constexpr std::uint32_t kList = 32;
// Seconds; bounds a hang.
constexpr double kLimit = 60;

// Ends a polling loop without progress. It reads the cycle counter only seldom: under emulation
// that touches the cache line of the device's clock.
class Watchdog {
 public:
  void check() {
    if (++checks_ % kPeriod != 0) return;
    require(seconds_since(last_) < kLimit, "nothing completes for {} s", kLimit);
  }
  void progress(std::uint64_t at) { last_ = at; }
  [[nodiscard]] std::uint64_t last() const { return last_; }

 private:
  static constexpr unsigned kPeriod = 1000;
  std::uint64_t last_ = ticks();
  unsigned checks_ = 0;
};

// Calls once(number) until the time is up. Returns the duration of each call, except the first
// ones.
template <typename Once>
std::vector<std::uint64_t> sample(double seconds, Once once) {
  std::vector<std::uint64_t> times;
  times.reserve(kMostTimes);
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < kWarmUp; ++i) once(++number);
  const std::uint64_t begin = ticks();
  while (times.size() < kMostTimes && seconds_since(begin) < seconds) {
    const std::uint64_t start = ticks();
    once(++number);
    times.push_back(ticks() - start);
  }
  return times;
}

void wait_for(End& end, Peer& peer, unsigned completions) {
  Watchdog watchdog;
  std::array<ibv_wc, 4> wcs;
  while (completions > 0) {
    completions -= static_cast<unsigned>(
        end.poll(wcs.data(), static_cast<int>(std::min<unsigned>(completions, 4))));
    peer.step();
    watchdog.check();
  }
}

// The latency is half of the round trip.
void write_latency(const Device& dev, Peer& peer, const Scene& scene) {
  if (!scene.wants("write-latency", kSmall)) return;
  End end(dev, {.part = Part::kWriteBack});
  peer.begin(end);
  ibv_sge sge{};
  ibv_send_wr wr = end.request(IBV_WR_RDMA_WRITE, 0, sge);
  sge.addr = end.memory().address(End::kOwnAt);
  const auto times = sample(scene.seconds, [&](std::uint64_t number) {
    end.memory().store64(End::kOwnAt, number);
    end.post(wr);
    Watchdog watchdog;
    ibv_wc wc{};
    int done = 0;
    while (end.memory().load64(End::kNumberAt) != number) {
      done += end.poll(&wc, 1);
      peer.step();
      watchdog.check();
    }
    if (done == 0) wait_for(end, peer, 1);
  });
  peer.finish();
  report_times(scene, "write-latency", kSmall, times, 2);
}

void send_latency(const Device& dev, Peer& peer, const Scene& scene) {
  if (!scene.wants("send-latency", kSmall)) return;
  End end(dev, {.part = Part::kSendBack});
  peer.begin(end);
  ibv_sge sge{};
  ibv_send_wr wr = end.request(IBV_WR_SEND, 0, sge);
  const auto times = sample(scene.seconds, [&](std::uint64_t) {
    end.post(wr);
    wait_for(end, peer, 2);
    end.post_recv(0);
  });
  peer.finish();
  report_times(scene, "send-latency", kSmall, times, 2);
}

// The time to the completion is the latency, since it includes the response.
void answered_latency(const Device& dev, Peer& peer, const Scene& scene, ibv_wr_opcode opcode,
                      const char* what) {
  if (!scene.wants(what, kSmall)) return;
  End end(dev, {});
  peer.begin(end);
  ibv_sge sge{};
  ibv_send_wr wr = end.request(opcode, 0, sge);
  const auto times = sample(scene.seconds, [&](std::uint64_t) {
    end.post(wr);
    wait_for(end, peer, 1);
  });
  peer.finish();
  report_times(scene, what, kSmall, times, 1);
}

// Messages of one QP, as many at a time as its buffers.
class Flow {
 public:
  Flow(const Device& dev, Peer& peer, ibv_wr_opcode opcode, std::uint32_t size)
      : depth_(std::min(kUnderWay / size, kMostUnderWay)),
        peer_(peer),
        end_(dev, {.part = opcode == IBV_WR_SEND ? Part::kTake : Part::kNothing,
                   .size = size,
                   .buffers = depth_}),
        sges_(depth_),
        wrs_(depth_),
        under_way_(depth_) {
    peer_.begin(end_);
    for (std::uint32_t i = 0; i < depth_; ++i) {
      wrs_[i] = end_.request(opcode, i, sges_[i]);
      end_.post(wrs_[i]);
    }
  }
  // Takes completions and returns their number. With `more`, posts as many messages again.
  unsigned step(bool more) {
    std::array<ibv_wc, 16> wcs;
    const auto n = static_cast<unsigned>(end_.poll(wcs.data(), static_cast<int>(wcs.size())));
    for (const ibv_wc& wc : std::span(wcs).first(n)) {
      if (more) end_.post(wrs_[wc.wr_id]);
    }
    if (!more) under_way_ -= n;
    peer_.step();
    return n;
  }
  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] bool idle() const { return under_way_ == 0; }

 private:
  const std::uint32_t depth_;
  Peer& peer_;
  End end_;
  std::vector<ibv_sge> sges_;
  std::vector<ibv_send_wr> wrs_;
  std::uint32_t under_way_;
};

// Returns GB/s of the flows together.
double run_flows(std::deque<Flow>& flows, const Scene& scene, std::uint32_t size) {
  // The first round includes the first accesses to memory and code.
  std::uint64_t left = flows.front().depth() * flows.size();
  std::uint64_t done = 0;
  std::uint64_t begin = 0;
  Watchdog watchdog;
  bool more = true;
  while (!std::ranges::all_of(flows, &Flow::idle)) {
    unsigned n = 0;
    for (Flow& flow : flows) n += flow.step(more);
    if (n == 0) {
      watchdog.check();
      continue;
    }
    watchdog.progress(ticks());
    if (begin != 0) {
      done += n;
    } else if (left -= std::min<std::uint64_t>(left, n); left == 0) {
      begin = ticks();
    }
    more = begin == 0 || seconds_since(begin) < scene.seconds;
  }
  const double took = static_cast<double>(watchdog.last() - begin) * tick_ns() / 1e9;
  return static_cast<double>(done) * size / took / 1e9;
}

void bandwidth(const Device& dev, Peer& peer, const Scene& scene, ibv_wr_opcode opcode,
               const char* what, std::uint32_t size) {
  if (!scene.wants(what, size)) return;
  std::deque<Flow> flows;
  flows.emplace_back(dev, peer, opcode, size);
  const double speed = run_flows(flows, scene, size);
  peer.finish();
  report(scene, what, size, speed, "GB/s");
}

// WRITEs in four protection domains, as those of four processes: an adapter with several lanes
// serves them by several threads.
void bandwidth_of_four(const Scene& scene, int gid_index) {
  constexpr const char* kWhat = "write-bandwidth-4";
  constexpr std::uint32_t kSize = 65536;
  if (!scene.wants(kWhat, kSize)) return;
  std::deque<Device> devices;
  std::vector<std::unique_ptr<Peer>> peers;
  std::deque<Flow> flows;
  for (unsigned i = 0; i < 4; ++i) {
    devices.emplace_back(scene.device, gid_index);
    peers.push_back(local_peer(devices.back()));
    flows.emplace_back(devices.back(), *peers.back(), IBV_WR_RDMA_WRITE, kSize);
  }
  const double speed = run_flows(flows, scene, kSize);
  for (const auto& peer : peers) peer->finish();
  report(scene, kWhat, kSize, speed, "GB/s");
}

// WRITEs of 64 bytes, posted one by one or as lists; one per list is signaled.
void message_rate(const Device& dev, Peer& peer, const Scene& scene, bool lists) {
  const char* const what = lists ? "write-rate-lists" : "write-rate";
  if (!scene.wants(what, kRateSize)) return;
  End end(dev, {.size = kRateSize, .buffers = kRateDepth});
  peer.begin(end);
  std::array<ibv_sge, kList> sges{};
  std::array<ibv_send_wr, kList> wrs{};
  for (std::uint32_t i = 0; i < kList; ++i) {
    wrs.at(i) = end.request(IBV_WR_RDMA_WRITE, i, sges.at(i));
    if (i + 1 < kList) wrs.at(i).send_flags = 0;
    if (lists && i + 1 < kList) wrs.at(i).next = &wrs.at(i + 1);
  }
  std::uint32_t under_way = 0;
  std::uint64_t done = 0;
  const std::uint64_t begin = ticks();
  Watchdog watchdog;
  bool more = true;
  while (more || under_way > 0) {
    while (more && under_way + kList <= kRateDepth) {
      for (std::uint32_t i = 0; i < (lists ? 1 : kList); ++i) end.post(wrs.at(i));
      under_way += kList;
    }
    ibv_wc wc{};
    if (end.poll(&wc, 1) != 0) {
      under_way -= kList;
      done += kList;
      watchdog.progress(ticks());
      more = seconds_since(begin) < scene.seconds;
    } else {
      watchdog.check();
    }
    peer.step();
  }
  peer.finish();
  const double took = static_cast<double>(watchdog.last() - begin) * tick_ns() / 1e9;
  report(scene, what, kRateSize, static_cast<double>(done) / took / 1e6, "M/s");
}

}  // namespace

void measure_messages(const Device& dev, Peer& peer, const Scene& scene) {
  send_latency(dev, peer, scene);
  write_latency(dev, peer, scene);
  answered_latency(dev, peer, scene, IBV_WR_RDMA_READ, "read-latency");
  answered_latency(dev, peer, scene, IBV_WR_ATOMIC_FETCH_AND_ADD, "atomic-latency");
  for (const std::uint32_t size : kSizes) {
    bandwidth(dev, peer, scene, IBV_WR_RDMA_WRITE, "write-bandwidth", size);
    bandwidth(dev, peer, scene, IBV_WR_RDMA_READ, "read-bandwidth", size);
    bandwidth(dev, peer, scene, IBV_WR_SEND, "send-bandwidth", size);
  }
  if (scene.path == "loop") bandwidth_of_four(scene, dev.gid_index());
  message_rate(dev, peer, scene, false);
  message_rate(dev, peer, scene, true);
}

}  // namespace guest::bench
