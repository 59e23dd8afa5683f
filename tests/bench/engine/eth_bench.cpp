// SPDX-License-Identifier: GPL-2.0-or-later
// What the Ethernet function does to each frame: headers, checksums, hashes, and steering with many
// flows.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "eth/rss_hash.h"
#include "eth/steering.h"
#include "frames/checksum.h"
#include "frames/layout.h"
#include "frames/sample_frames.h"
#include "frames/segmenter.h"
#include "frames/unfinished.h"

namespace tern::eth {

using namespace frames;

namespace {

constexpr std::size_t kFrames =
    16384;  // a power of two, larger than the caches next to the processor
constexpr std::uint8_t kAllFields = TERN_RSS_FIELD_SRC_IP | TERN_RSS_FIELD_DST_IP |
                                    TERN_RSS_FIELD_SRC_PORT | TERN_RSS_FIELD_DST_PORT;

SampleFrame full_frame(bool v4) {
  SampleFrame f;
  f.v4 = v4;
  f.payload = 1514 - f.headers();
  return f;
}

void parse_frame(benchmark::State& state) {
  const bool tunnel = state.range(0) == 1;
  const Bytes frame =
      tunnel ? vxlan(full_frame(true).make(), 1).make() : full_frame(state.range(0) == 4).make();
  for (auto _ : state) benchmark::DoNotOptimize(parse(frame));
}
BENCHMARK(parse_frame)->Name("eth/parse/ip4-ip6-vxlan")->Arg(4)->Arg(6)->Arg(1)->ArgName("");

void check_frame(benchmark::State& state) {
  SampleFrame f;
  f.payload = static_cast<std::size_t>(state.range(0)) - f.headers();
  Bytes frame = f.make();
  const Level level = parse(frame).outer;
  fill_checksums(frame, level);
  for (auto _ : state) {
    benchmark::DoNotOptimize(check(frame, level));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(
      static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * frame.size()));
}
BENCHMARK(check_frame)->Name("eth/check")->Arg(64)->Arg(1500)->Arg(9000)->ArgName("");

// 64 KiB of TCP in segments of 1448 bytes, with the copies that put them together.
void segment(benchmark::State& state) {
  SampleFrame f;
  f.payload = 65160;
  const Bytes frame = f.make();
  const auto headers = std::span(frame).first(f.headers());
  const auto payload = std::span(frame).subspan(f.headers());
  tern_eth_offload ops{.csum_start = le(static_cast<std::uint16_t>(f.l4())),
                       .mss = le(std::uint16_t{1448}),
                       .header_len = le(static_cast<std::uint16_t>(f.headers())),
                       .ops = le(std::uint16_t{TERN_ETH_OP_TSO})};
  Bytes out(1514);
  for (auto _ : state) {
    const auto segmenter = Segmenter::make(headers, frame.size(), ops);
    for (std::size_t i = 0; i < segmenter->count(); ++i) {
      const auto [offset, length] = segmenter->piece(i);
      std::ranges::copy(headers, out.begin());
      std::memcpy(out.data() + headers.size(), payload.data() + offset, length);
      segmenter->finish(i, std::span(out).first(headers.size() + length));
      benchmark::ClobberMemory();
    }
  }
  state.SetBytesProcessed(
      static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * f.payload));
}
BENCHMARK(segment)->Name("eth/segment");

// The same in the packet's own memory, as ternd's uplinks do it.
void finish(benchmark::State& state) {
  SampleFrame f;
  f.payload = 65160;
  const Bytes frame = f.make();
  Bytes packet = frame;
  const Unfinished what{Unfinished::Kind::kTcp4, true, f.l4(), kTcpChecksum, 1448};
  PacketFinisher finisher;
  for (auto _ : state) {
    std::copy_n(frame.begin(), f.headers(), packet.begin());
    if (!finisher.start(packet, what)) state.SkipWithError("refused");
    for (; !finisher.frame().empty(); finisher.next()) benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(
      static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * f.payload));
}
BENCHMARK(finish)->Name("eth/finish");

void hash(benchmark::State& state) {
  const Level level = parse(full_frame(state.range(0) == 4).make()).outer;
  std::array<std::uint8_t, 40> key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(i * 7 + 1);
  std::array<std::uint8_t, 8> fields;
  fields.fill(kAllFields);
  const Toeplitz toeplitz(key);
  for (auto _ : state) {
    benchmark::DoNotOptimize(rss_hash(level, TERN_RSS_FUNC_TOEPLITZ, fields, toeplitz));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(hash)->Name("eth/hash")->Arg(4)->Arg(6)->ArgName("");

// The connection that frame `i` belongs to.
SampleFrame connection(std::size_t i) {
  SampleFrame f;
  f.last = static_cast<std::uint8_t>(i >> 10);
  f.src_port = static_cast<std::uint16_t>(0x4000 + (i & 1023));
  f.payload = 10;
  return f;
}

// Flows of TCP connections, spread over shapes by priority; frames of random connections. Half of
// the frames belong to no flow.
void classify(benchmark::State& state) {
  const auto flows = static_cast<std::uint32_t>(state.range(0));
  const auto shapes = static_cast<std::uint32_t>(state.range(1));
  std::mt19937 random(1);
  Steering table(random());
  for (std::uint32_t i = 0; i < flows; ++i) {
    const Level like = parse(connection(i).make()).outer;
    tern_cmd_create_flow cmd{
        .priority = le(i % shapes),
        .dest_id = le(i),
        .counter = le(TERN_NO_COUNTER),
        .dest = TERN_DEST_ETH_QUEUE,
        .layers = le(std::uint16_t{TERN_LAYER_ETH | TERN_LAYER_IPV4 | TERN_LAYER_TCP}),
        .value = like.fields};
    std::memset(cmd.mask.src_ip, 0xff, 4);
    std::memset(cmd.mask.dst_ip, 0xff, 4);
    cmd.mask.protocol = 0xff;
    cmd.mask.src_port = cmd.mask.dst_port = 0xffff;
    std::uint32_t id = 0;
    if (table.create(cmd, &id) != TERN_ST_OK) state.SkipWithError("create");
  }
  std::vector<Bytes> frames;
  for (std::size_t i = 0; i < kFrames; ++i)
    frames.push_back(connection(random() % std::max(2 * flows, 2U)).make());
  std::size_t at = 0;
  std::size_t taken = 0;
  for (auto _ : state) {
    const Bytes& frame = frames[at++ % kFrames];
    taken += table.classify(parse(frame), frame.size(), eth::Stage::kSniffer, eth::Stage::kReceived)
                 .taken;
  }
  state.counters["taken"] = static_cast<double>(taken) / static_cast<double>(state.iterations());
}
BENCHMARK(classify)
    ->Name("eth/classify/flows-shapes")
    ->Args({0, 1})
    ->Args({1, 1})
    ->Args({1000, 1})
    ->Args({10000, 1})
    ->Args({10000, 8})
    ->Args({10000, 64})
    ->ArgNames({"", ""});

}  // namespace
}  // namespace tern::eth
