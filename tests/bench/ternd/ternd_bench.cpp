// SPDX-License-Identifier: GPL-2.0-or-later
// ternd's speed, without virtual machines: test clients drive adapters of a daemon in this process.
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "adapter.h"
#include "tests/client.h"

namespace tern::daemon {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kLong = 64 * 1024;
constexpr unsigned kDepth = 32;

// Pairs of adapters, each adapter with a machine. Each process of a machine has a QP that is
// connected to its peer's.
class Pairs {
 public:
  explicit Pairs(unsigned n, unsigned processes = 1, unsigned lanes = 1) {
    std::string pattern = std::filesystem::temp_directory_path() / "ternd-bench-XXXXXX";
    dir_ = mkdtemp(pattern.data());
    for (unsigned id = 1; id <= 2 * n; ++id) {
      char mac[18];
      std::snprintf(mac, sizeof(mac), "52:54:00:77:00:%02x", id);
      const std::string path = dir_ + "/" + std::to_string(id) + ".sock";
      adapters_
          .emplace_back(
              parse_adapter(path + ",zero-copy=on,mac=" + mac + ",lanes=" + std::to_string(lanes)),
              fabric_)
          .start();
      machines_.emplace_back(path, id);
      machines_.back().bring_up();
    }
    for (unsigned i = 0; i < n; ++i) {
      for (unsigned p = 0; p < processes; ++p) connect(machines_[2 * i], machines_[2 * i + 1]);
    }
  }
  ~Pairs() {
    qps_.clear();
    machines_.clear();
    for (Adapter& adapter : adapters_) (void)adapter.stop();
    adapters_.clear();
    std::filesystem::remove_all(dir_);
  }
  test::Qp& sender(std::size_t pair) { return qps_[2 * pair]; }
  [[nodiscard]] std::size_t size() const { return qps_.size() / 2; }
  [[nodiscard]] unsigned doorbells() const {
    unsigned n = 0;
    for (const TestMachine& m : machines_) n += m.rung;
    return n;
  }

 private:
  void connect(TestMachine& a, TestMachine& b) {
    for (TestMachine* const m : {&a, &b}) qps_.emplace_back(*m, m->alloc_pd());
    test::Qp& x = qps_[qps_.size() - 2];
    test::Qp& y = qps_.back();
    x.connect(y);
    y.connect(x);
  }

  std::string dir_;
  Switch fabric_;
  std::deque<Adapter> adapters_;
  std::deque<TestMachine> machines_;
  std::deque<test::Qp> qps_;
};

// WRITEs of 64 KiB in each pair of QPs, with up to kDepth outstanding. One iteration: a WRITE in
// each pair.
void write_all(benchmark::State& state, Pairs& pairs) {
  std::uint64_t failed = 0;
  const auto keep_busy = [&](std::size_t i, std::uint64_t target) {
    test::Qp& q = pairs.sender(i);
    const std::uint32_t done = q.poll();
    const std::uint32_t room = kDepth - (q.posted() - done);
    const auto more = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(room, target - std::min<std::uint64_t>(target, q.posted())));
    if (more != 0) {
      q.post(kLong, more);
      q.ring();
    }
    return done;
  };
  std::uint64_t target = 0;
  for ([[maybe_unused]] auto _ : state) {
    ++target;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      while (keep_busy(i, target + kDepth) + kDepth < target + kDepth) std::this_thread::yield();
    }
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) failed += pairs.sender(i).failed();
  if (failed != 0) state.SkipWithError("a WRITE failed");
  state.SetBytesProcessed(static_cast<std::int64_t>(target * pairs.size() * kLong));
  state.counters["doorbells"] = pairs.doorbells();
}

void BM_Write(benchmark::State& state) {
  Pairs pairs(static_cast<unsigned>(state.range(0)));
  write_all(state, pairs);
}
BENCHMARK(BM_Write)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->UseRealTime()->MinTime(2);

// Two adapters with four processes each, by lanes.
void BM_WriteLanes(benchmark::State& state) {
  Pairs pairs(1, 4, static_cast<unsigned>(state.range(0)));
  write_all(state, pairs);
}
BENCHMARK(BM_WriteLanes)->Arg(1)->Arg(2)->Arg(4)->UseRealTime()->MinTime(2);

// What one processor copies and checksums, in pieces of a packet's payload: the buffers of
// BM_Write, and some that no cache holds.
void BM_CopyAndChecksum(benchmark::State& state) {
  std::vector<unsigned char> from(static_cast<std::size_t>(state.range(0)), 1);
  std::vector<unsigned char> to(from.size(), 2);
  std::size_t at = 0;
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(to.data() + at, from.data() + at, 4096);
    benchmark::DoNotOptimize(crc32_gzip_refl(0, to.data() + at, 4096));
    at = (at + 4096) % from.size();
  }
  state.SetBytesProcessed(state.iterations() * 4096);
}
BENCHMARK(BM_CopyAndChecksum)->Arg(kLong)->Arg(1 << 20)->Arg(512 << 20)->UseRealTime();

// One WRITE of 8 bytes at a time, from the post to the completion, polled at both ends.
void BM_Latency(benchmark::State& state) {
  Pairs pairs(1);
  test::Qp& q = pairs.sender(0);
  std::vector<double> times;
  for ([[maybe_unused]] auto _ : state) {
    const auto start = Clock::now();
    q.post(8);
    q.ring();
    const std::uint32_t target = q.posted();
    while (q.poll() != target) std::this_thread::yield();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  if (q.failed() != 0) state.SkipWithError("a WRITE failed");
  std::ranges::sort(times);
  state.counters["median_us"] = times[times.size() / 2];
  state.counters["p99_us"] = times[times.size() * 99 / 100];
  state.counters["doorbells_per_write"] =
      static_cast<double>(pairs.doorbells()) / static_cast<double>(times.size());
}
BENCHMARK(BM_Latency)->UseRealTime()->MinTime(2);

// A register read: a message of the hypervisor and its answer.
void BM_Message(benchmark::State& state) {
  std::string dir = std::filesystem::temp_directory_path() / "ternd-bench-m-XXXXXX";
  dir = mkdtemp(dir.data());
  {
    Switch fabric;
    Adapter adapter(parse_adapter(dir + "/m.sock"), fabric);
    adapter.start();
    TestMachine m(dir + "/m.sock", 1);
    for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(m.reg_read(TERN_REG_MAGIC));
  }
  std::filesystem::remove_all(dir);
}
BENCHMARK(BM_Message)->UseRealTime();

}  // namespace
}  // namespace tern::daemon

BENCHMARK_MAIN();
