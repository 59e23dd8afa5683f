// SPDX-License-Identifier: GPL-2.0-or-later
// The Ethernet function: frames per second of one queue, sent and received.
#include <benchmark/benchmark.h>

#include <string>

#include "testing/eth_queue.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr unsigned kLogRing = 8;
constexpr std::uint32_t kBatch = 64;
constexpr Mac kPeer = {0x52, 0x54, 0, 9, 9, 9};

// A TCP segment over IPv4 without options, of `len` bytes of frame; its checksums are right.
std::vector<std::byte> tcp_frame(const Mac& dst, std::size_t len) {
  auto frame = eth_frame(dst, kPeer, len);
  const auto put16 = [&](std::size_t at, std::size_t value) {
    frame[at] = static_cast<std::byte>(value >> 8);
    frame[at + 1] = static_cast<std::byte>(value);
  };
  const auto sum = [&](std::size_t from, std::size_t to, std::size_t start) {
    std::uint32_t s = static_cast<std::uint32_t>(start);
    for (std::size_t i = from; i < to; ++i)
      s += std::to_integer<std::uint32_t>(frame[i]) << ((i - from) % 2 == 0 ? 8 : 0);
    while (s >> 16) s = (s & 0xffff) + (s >> 16);
    return s;
  };
  put16(12, 0x0800);
  frame[14] = std::byte{0x45};
  put16(16, len - 14);
  put16(20, 0x4000);
  frame[23] = std::byte{6};
  put16(24, 0);
  put16(24, 0xffff - sum(14, 34, 0));
  frame[46] = std::byte{0x50};
  put16(50, 0);
  put16(50, 0xffff - sum(34, len, sum(26, 34, 6 + len - 34)));
  return frame;
}

struct Card {
  Sim sim;
  TestNode node{sim, options()};
  TestCq& cq = node.create_cq(16, nullptr, TERN_CQ_F_IGNORE_OVERRUN);

  static NodeOptions options() {
    NodeOptions o;
    o.mtu = 4200;
    return o;
  }
};

void transmit(benchmark::State& state, std::size_t len) {
  Card card;
  TestEthQueue queue(card.node, TERN_ETH_QUEUE_TX, card.cq, kLogRing);
  const std::uint64_t data = card.node.host.alloc(len, 64);
  const auto frame = tcp_frame(kPeer, len);
  std::memcpy(card.node.host.at(data), frame.data(), len);
  for (std::uint32_t i = 0; i < 1U << kLogRing; ++i)
    queue.put(data, static_cast<std::uint32_t>(len), TERN_ETH_F_EOP);
  std::uint32_t pi = 0;
  Device& device = card.node.device;
  for (auto _ : state) {
    queue.store_pi(pi += kBatch);
    queue.kick();
    while (device.run(64 * 1024)) {
    }
    device.datapath.effects->clear();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kBatch);
}

void receive(benchmark::State& state, std::size_t len, bool tcp) {
  Card card;
  TestEthQueue queue(card.node, TERN_ETH_QUEUE_RX, card.cq, kLogRing);
  for (std::uint32_t i = 0; i < 1U << kLogRing; ++i) queue.post_buffer(2048);
  queue.store_pi(0);
  const auto frame = tcp ? tcp_frame(card.node.mac(), len) : eth_frame(card.node.mac(), kPeer, len);
  std::uint32_t pi = 0;
  Device& device = card.node.device;
  for (auto _ : state) {
    queue.store_pi(pi += kBatch);
    for (std::uint32_t i = 0; i < kBatch; ++i) device.receive(frame);
    device.datapath.effects->clear();
  }
  if (card.node.eth_counter(TERN_ETH_CNT_RX_PACKETS) == 0) state.SkipWithError("nothing received");
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kBatch);
}

bool add_benchmarks() {
  for (const std::size_t len : {64U, 1514U}) {
    benchmark::RegisterBenchmark("eth/tx/" + std::to_string(len),
                                 [len](benchmark::State& s) { transmit(s, len); });
    for (const bool tcp : {false, true}) {
      benchmark::RegisterBenchmark(
          std::string("eth/rx/") + (tcp ? "tcp/" : "other/") + std::to_string(len),
          [len, tcp](benchmark::State& s) { receive(s, len, tcp); });
    }
  }
  return true;
}

const bool kAdded = add_benchmarks();

}  // namespace
}  // namespace tern
