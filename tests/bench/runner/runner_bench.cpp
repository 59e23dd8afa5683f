// SPDX-License-Identifier: GPL-2.0-or-later
// Cost of a doorbell through the runner and the engine, without a hypervisor.
//
//   lab/build/runner runner_bench
//   lab/sysroot-run build/runner/runner_bench --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>

#include "tests/adapter.h"

namespace tern::runner {
namespace {

Config without_polling() {
  Config config = two_processors();
  config.poll = false;
  return config;
}

// Two connected QPs of one adapter. It polls no queue, so every message needs its doorbell.
class Pair {
  Adapter adapter_;

 public:
  Pair() : adapter_({.config = without_polling()}) {
    adapter_.bring_up();
    adapter_.pump();
    from.emplace(adapter_);
    to_.emplace(adapter_);
    from->connect(*to_);
    to_->connect(*from);
    doorbell_ = field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_SQ) | from->number();
  }
  void ring() { adapter_.runner->doorbell(0, doorbell_); }

  std::optional<Qp> from;

 private:
  std::optional<Qp> to_;
  std::uint32_t doorbell_;
};

// The send queue is empty: the way to the queue and back.
void doorbell(benchmark::State& state) {
  Pair pair;
  for ([[maybe_unused]] auto turn : state) pair.ring();
}
BENCHMARK(doorbell)->Name("doorbell/empty");

// A WRITE of 64 bytes to a QP of the same adapter, with its acknowledgement and completion.
void write(benchmark::State& state) {
  Pair pair;
  for ([[maybe_unused]] auto turn : state) {
    pair.from->post(64);
    pair.ring();
    pair.from->poll();
  }
  if (pair.from->failed() != 0 || pair.from->poll() != pair.from->posted())
    state.SkipWithError("a WRITE failed");
}
BENCHMARK(write)->Name("doorbell/write-64");

}  // namespace
}  // namespace tern::runner

BENCHMARK_MAIN();
