// SPDX-License-Identifier: GPL-2.0-or-later
// Benchmarks of the engine alone: messages per second by operation and size, in loopback and
// between two devices, through regions and through memory windows, over many QPs and over many
// keys, binds of windows, and the device's part of a memory registration. For comparison, the costs
// that bound them: copies of the same shape and the CRC. Everything runs in one thread, so CPU time
// counts.
//
//   engine_bench --benchmark_filter=loopback/write --benchmark_repetitions=5
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/mini_driver.h"
#include "tests/windows.h"

namespace tern {

namespace {

constexpr std::uint64_t kArenaBytes = std::uint64_t{4} << 30;  // untouched pages cost nothing
constexpr std::uint64_t kData = 8 << 20;
constexpr std::uint8_t kLogSq = 6;
constexpr std::uint32_t kRing = 1U << kLogSq;
constexpr std::uint32_t kMtu = 4096;
constexpr unsigned kLogMtu = 12;
constexpr std::uint32_t kBudget = 64 * 1024;
constexpr std::size_t kWqe = sizeof(tern_sq_hdr) + sizeof(tern_rdma_seg) + sizeof(tern_sge);

NodeOptions node_options() {
  NodeOptions o{.mtu = 4200, .max_qp = 3 * 8192, .max_mr = 2 << 20, .bring_up = false};
  return o;
}

QpOptions qp_options(TestCq* cq) {
  QpOptions o{.log_sq_size = kLogSq,
              .log_sq_stride = 7,
              .log_rq_size = kLogSq,
              .log_rq_stride = 6,
              .log_mtu = kLogMtu,
              .gid_index = 1};
  o.send_cq = o.recv_cq = cq;
  return o;
}

// A machine with contiguous memory.
struct Machine : TestNode {
  explicit Machine(Sim& s) : TestNode(s, node_options()) {
    host.use_arena(kArenaBytes);
    host.real_clock = true;
    bring_up();
  }
};

enum class Kind { kSend, kWrite, kInline, kRead, kAtomic };
// Whose key a request has.
enum class Through : std::uint8_t { kRegion = 0, kWindow1 = 1, kWindow2 = 2 };

// One or two machines, QP pairs that connect them, and rings full of copies of one request.
class World {
 public:
  World(bool wire, unsigned pairs, Kind kind, std::uint32_t size,
        Through through = Through::kRegion)
      : kind_(kind),
        a_(std::make_unique<Machine>(sim_)),
        b_(wire ? std::make_unique<Machine>(sim_) : nullptr) {
    // Nothing polls the CQs, so they must accept overruns.
    TestCq& from_cq = from().create_cq(16, nullptr, TERN_CQ_F_IGNORE_OVERRUN);
    TestCq& to_cq = to().create_cq(16, nullptr, TERN_CQ_F_IGNORE_OVERRUN);
    source_ = &from().reg(kData);
    target_ = &to().reg(kData, {.access = kBindable});
    for (unsigned i = 0; i < pairs; ++i) {
      auto pair = std::pair<TestQp*, TestQp*>(&from().create_qp(qp_options(&from_cq)),
                                              &to().create_qp(qp_options(&to_cq)));
      pair.first->connect(*pair.second);
      pair.second->connect(*pair.first);
      pairs_.push_back(pair);
      pi_.push_back(0);
      const TestMr view =
          through == Through::kRegion ? *target_ : window(*pair.second, through).view;
      for (std::uint32_t k = 0; k < kRing; ++k)
        pair.first->post(request(size, *source_, view), false);
      for (std::uint32_t k = 0; kind == Kind::kSend && k < kRing; ++k) {
        pair.second->post_recv({target_->sge(0, std::max(size, 1U))});
      }
      // Hides the WQEs that were posted above: the benchmark publishes them again and again.
      pair.first->store_sq_pi(0);
      pair.second->store_rq_pi(0);
    }
  }

  // Publishes the next requests of pair i and rings the doorbell.
  void post(unsigned i, std::uint32_t count = 1, bool rings = true) {
    pi_[i] += count;
    if (kind_ == Kind::kSend) pairs_[i].second->store_rq_pi(pi_[i] + kRing / 2);
    pairs_[i].first->store_sq_pi(pi_[i]);
    if (rings)
      from().device.doorbell(doorbell_offset(), TERN_DB_CMD_SQ << 28 | pairs_[i].first->number());
  }
  // Replaces the whole ring of pair i by copies of `requests`, whose number divides it.
  void replace(unsigned i, const std::vector<SendWr>& requests) {
    for (std::uint32_t k = 0; k < kRing; ++k)
      pairs_[i].first->post(requests[k % requests.size()], false);
    pairs_[i].first->store_sq_pi(0);
  }
  // Rewrites the slot of pair i's next request, as a poster would.
  void write_request(unsigned i) {
    TestQp& qp = *pairs_[i].first;
    if (wqe_.empty()) {
      const std::byte* const first = from().host.at(qp.memory().address(qp.sq_slot(0)));
      wqe_.assign(first, first + kWqe);
    }
    std::memcpy(from().host.at(qp.memory().address(qp.sq_slot(pi_[i]))), wqe_.data(), kWqe);
  }
  // Runs until all devices are idle.
  void finish() {
    do {
      while (from().device.run(kBudget)) {
      }
      if (b_ == nullptr) {
        from().device.datapath.effects->clear();
        return;
      }
    } while (pass(*a_, *b_) | (b_->device.run(kBudget), pass(*b_, *a_)));
  }

  TestNode& from() { return *a_; }
  TestNode& to() { return b_ != nullptr ? *b_ : *a_; }
  TestQp& qp(unsigned i) { return *pairs_[i].first; }
  TestMr& source() { return *source_; }
  TestMr& target() { return *target_; }
  [[nodiscard]] SendWr request(std::uint32_t size, const TestMr& source,
                               const TestMr& target) const {
    switch (kind_) {
      case Kind::kSend:
        return send({source.sge(0, size)});
      case Kind::kWrite:
        return write({source.sge(0, size)}, target);
      case Kind::kInline:
        return write_inline(source.bytes(0, size), target);
      case Kind::kRead:
        return read({source.sge(0, size)}, target);
      default:
        return fetch_add(source.sge(0, 8), target, 0, 1);
    }
  }

 private:
  // A window to all of the target, which `binder` has bound.
  TestMw window(TestQp& binder, Through through) {
    TestMw mw = alloc_mw(to(), static_cast<std::uint8_t>(through));
    binder.post(bind(mw, *target_, 0, kData));
    finish();
    return mw;
  }
  std::uint64_t doorbell_offset() { return std::uint64_t{from().uar()} << 12; }
  // Delivers all frames that `x` sent to `y`; returns whether there were any.
  bool pass(Machine& x, Machine& y) {
    Effects& fx = *x.device.datapath.effects;
    if (fx.empty()) return false;
    const bool any = !fx.frames().empty();
    for (const Effects::Frame& f : fx.frames()) y.device.receive(fx.bytes(f));
    fx.clear();
    return any;
  }

  Sim sim_;
  Kind kind_;
  std::unique_ptr<Machine> a_;
  std::unique_ptr<Machine> b_;
  TestMr* source_ = nullptr;
  TestMr* target_ = nullptr;
  std::vector<std::pair<TestQp*, TestQp*>> pairs_;
  std::vector<std::uint32_t> pi_;
  std::vector<std::byte> wqe_;
};

// Messages of `size` bytes: as many in flight as make up 256 KiB, at most half a ring.
void messages(benchmark::State& state, bool wire, Kind kind, std::uint32_t size,
              Through through = Through::kRegion) {
  World world(wire, 1, kind, size, through);
  const std::uint32_t batch = std::clamp(256U * 1024 / std::max(size, 1U), 1U, kRing / 2);
  for (auto _ : state) {
    world.post(0, batch);
    world.finish();
  }
  const auto done = static_cast<std::int64_t>(state.iterations()) * batch;
  if (world.qp(0).query().attr.state != TERN_QPS_RTS) state.SkipWithError("the QP is in error");
  state.SetItemsProcessed(done);
  state.SetBytesProcessed(done * size);
}

// Messages of `size` bytes posted one by one: each has completed before the next one is posted.
void single_messages(benchmark::State& state, bool wire, Kind kind, std::uint32_t size) {
  World world(wire, 1, kind, size);
  for (auto _ : state) {
    world.write_request(0);
    world.post(0);
    world.finish();
  }
  if (world.qp(0).query().attr.state != TERN_QPS_RTS) state.SkipWithError("the QP is in error");
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

// Binds of a window, which the next request ends: a bind to other bytes (type 1) or LOCAL_INV.
void binds(benchmark::State& state, std::uint8_t type) {
  World world(false, 1, Kind::kWrite, 8);
  TestMw mw = alloc_mw(world.from(), type);
  const std::uint32_t first = mw.view.key;
  std::vector<SendWr> requests;
  while (requests.size() < kRing) {
    requests.push_back(bind(mw, world.target(), 8 * requests.size(), 64));
    // The ring repeats, so its last bind leaves the key that its first one expects.
    if (requests.size() == kRing) requests.back().bind.new_rkey = le(first);
    if (type == 2) requests.push_back(local_inv(mw.view.key));
  }
  world.replace(0, requests);
  for (auto _ : state) {
    world.post(0, kRing / 2);
    world.finish();
  }
  if (world.qp(0).query().attr.state != TERN_QPS_RTS) state.SkipWithError("the QP is in error");
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kRing / 2);
}

// Messages over `state.range(0)` QPs in turn, `burst` of them with one doorbell; without doorbells,
// the cost of posting alone.
void many_qps(benchmark::State& state, unsigned burst, bool rings) {
  const auto pairs = static_cast<unsigned>(state.range(0));
  constexpr unsigned kTurn = 64;
  World world(false, pairs, Kind::kWrite, 64);
  unsigned next = 0;
  for (auto _ : state) {
    for (unsigned i = 0; i < kTurn; i += burst) {
      for (unsigned k = 0; k < burst; ++k) {
        world.write_request(next);
        world.post(next, 1, rings && k + 1 == burst);
      }
      next = next + 1 == pairs ? 0 : next + 1;
    }
    world.finish();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kTurn);
}

// Each WRITE uses two random keys out of `state.range(0)`; all regions map the same memory.
void many_keys(benchmark::State& state) {
  const auto keys = static_cast<std::size_t>(state.range(0));
  World world(false, 1, Kind::kWrite, 64);
  TestNode& node = world.from();
  const TestMr& first = world.source();
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < keys; ++i) {
    tern_cmd_create_mr cmd{};
    tern_rsp_object rsp{};
    cmd.access = le(kAllAccess);
    cmd.pdn = le(node.pd());
    cmd.iova = le(first.iova);
    cmd.length = le(std::uint64_t{4096});
    cmd.pages.kind = TERN_PAGES_DIRECT;
    cmd.pages.addr = le(first.dma);
    if (node.command(TERN_CMD_CREATE_MR, cmd, &rsp) != TERN_ST_OK)
      return state.SkipWithError("CREATE_MR");
    numbers.push_back(le(rsp.id));
  }
  std::mt19937_64 random(1);
  constexpr std::uint32_t kTurn = kRing / 2;
  TestQp& qp = world.qp(0);
  std::uint32_t index = 0;
  std::vector<std::uint32_t> drawn(1 << 16);
  for (auto& n : drawn) n = numbers[random() % keys];
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < kRing; ++i) {
    qp.memory().put(qp.sq_slot(i) + sizeof(tern_sq_hdr) + offsetof(tern_rdma_seg, raddr),
                    le(first.iova));
  }
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < kTurn; ++i, ++index) {
      const std::uint64_t slot = qp.sq_slot(index) + sizeof(tern_sq_hdr);
      qp.memory().put(slot + offsetof(tern_rdma_seg, rkey), le(drawn[at++ & (drawn.size() - 1)]));
      qp.memory().put(slot + sizeof(tern_rdma_seg) + offsetof(tern_sge, lkey),
                      le(drawn[at++ & (drawn.size() - 1)]));
    }
    world.post(0, kTurn);
    world.finish();
  }
  if (qp.query().attr.state != TERN_QPS_RTS) state.SkipWithError("the QP is in error");
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kTurn);
}

// Command to register `pages` pages, as the driver builds it.
tern_cmd_create_mr listed(Machine& machine, std::uint64_t pages) {
  const std::uint64_t lists = (pages + TERN_PAGES_CHUNK - 1) / TERN_PAGES_CHUNK;
  const std::uint64_t data = machine.host.alloc(FakeHost::kPage);
  const std::uint64_t list = machine.host.alloc(lists * FakeHost::kPage);
  const std::uint64_t top = machine.host.alloc(FakeHost::kPage);
  for (std::uint64_t i = 0; i < pages; ++i) machine.host.put(list + 8 * i, le(data));
  for (std::uint64_t i = 0; i < lists; ++i)
    machine.host.put(top + 8 * i, le(list + i * FakeHost::kPage));
  tern_cmd_create_mr cmd{.iova = le(std::uint64_t{1} << 32),
                         .length = le(pages * FakeHost::kPage),
                         .pdn = le(machine.pd()),
                         .access = le(kAllAccess)};
  cmd.pages.page_shift = 12;
  cmd.pages.num = le(static_cast<std::uint32_t>(pages));
  cmd.pages.kind = lists > 1 ? TERN_PAGES_INDIRECT : TERN_PAGES_LIST;
  cmd.pages.addr = le(lists > 1 ? top : list);
  return cmd;
}

void registration(benchmark::State& state) {
  Sim sim;
  Machine machine(sim);
  const tern_cmd_create_mr cmd =
      listed(machine, static_cast<std::uint64_t>(state.range(0)) / FakeHost::kPage);
  for (auto _ : state) {
    tern_rsp_object rsp{};
    const auto begin = std::chrono::steady_clock::now();
    const Status st = machine.command(TERN_CMD_CREATE_MR, cmd, &rsp);
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if (st != TERN_ST_OK) return state.SkipWithError("CREATE_MR");
    machine.destroy(TERN_CMD_DESTROY_MR, le(rsp.id));
  }
}

// ---- bounds ----

void copy(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> from(kData);
  std::vector<std::byte> to(kData);
  // As many buffers in turn as a guest's benchmark has messages in flight.
  const std::size_t end = std::min(kData, 64 * size);
  std::size_t at = 0;
  for (auto _ : state) {
    std::memcpy(&to[at], &from[at], size);
    at = at + size < end ? at + size : 0;
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * size));
}

void crc(benchmark::State& state) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(state.range(0)), 0x5a);
  std::uint32_t sum = 0;
  for (auto _ : state) {
    sum = crc32_gzip_refl(sum, bytes.data(), bytes.size());
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes.size()));
}

void add_messages() {
  constexpr std::pair<const char*, Kind> kKinds[] = {{"send", Kind::kSend},
                                                     {"write", Kind::kWrite},
                                                     {"read", Kind::kRead},
                                                     {"inline", Kind::kInline},
                                                     {"atomic", Kind::kAtomic}};
  constexpr std::pair<const char*, Through> kThroughs[] = {
      {"mr", Through::kRegion}, {"mw1", Through::kWindow1}, {"mw2", Through::kWindow2}};
  for (const bool wire : {false, true}) {
    for (const auto& [name, kind] : kKinds) {
      for (const std::uint32_t size : {8U, 64U, 1024U, 4096U, 65536U, 1U << 20}) {
        if ((kind == Kind::kAtomic && size != 8) || (kind == Kind::kInline && size != 8)) continue;
        benchmark::RegisterBenchmark(
            std::string(wire ? "wire/" : "loopback/") + name + "/" + std::to_string(size),
            [wire, kind, size](benchmark::State& s) { messages(s, wire, kind, size); });
        if (size > 4096) continue;
        benchmark::RegisterBenchmark(
            std::string(wire ? "single/wire/" : "single/loopback/") + name + "/" +
                std::to_string(size),
            [wire, kind, size](benchmark::State& s) { single_messages(s, wire, kind, size); });
      }
    }
  }
  for (const bool wire : {false, true}) {
    for (const std::uint32_t size : {8U, 64U}) {
      for (const auto& [name, through] : kThroughs) {
        benchmark::RegisterBenchmark(std::string("access/") + (wire ? "wire/" : "loopback/") +
                                         name + "/" + std::to_string(size),
                                     [wire, size, through](benchmark::State& s) {
                                       messages(s, wire, Kind::kWrite, size, through);
                                     });
      }
    }
  }
  benchmark::RegisterBenchmark("bind/mw1", [](benchmark::State& s) { binds(s, 1); });
  benchmark::RegisterBenchmark("bind/mw2", [](benchmark::State& s) { binds(s, 2); });
  for (const unsigned burst : {1U, 16U}) {
    for (const bool rings : {true, false}) {
      benchmark::RegisterBenchmark(
          (rings ? "qps-by-" : "qps-posts-by-") + std::to_string(burst),
          [burst, rings](benchmark::State& s) { many_qps(s, burst, rings); })
          ->RangeMultiplier(8)
          ->Range(1, 8192)
          ->ArgName("");
    }
  }
  benchmark::RegisterBenchmark("keys", many_keys)
      ->Arg(1000)
      ->Arg(100'000)
      ->Arg(1'000'000)
      ->ArgName("");
  benchmark::RegisterBenchmark("register", registration)
      ->Arg(4096)
      ->Arg(1 << 20)
      ->Arg(256 << 20)
      ->ArgName("")
      ->UseManualTime();
  benchmark::RegisterBenchmark("copy", copy)->Arg(4096)->Arg(65536)->Arg(1 << 20)->ArgName("");
  benchmark::RegisterBenchmark("crc32", crc)->Arg(64)->Arg(4096)->ArgName("");
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  tern::add_messages();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
