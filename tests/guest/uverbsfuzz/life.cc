// SPDX-License-Identifier: GPL-2.0-or-later
#include "life.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>

namespace guest::uverbsfuzz {
namespace {

// Counts a context that the kernel refuses: the device may be going.
ibv_context* open_device(const std::string& name, Tally& tally) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr) return nullptr;
  ibv_context* verbs = nullptr;
  for (ibv_device** device = list; *device != nullptr; ++device) {
    if (name != ibv_get_device_name(*device)) continue;
    verbs = ibv_open_device(*device);
    if (verbs == nullptr) ++tally.refused_opens;
  }
  ibv_free_device_list(list);
  return verbs;
}

// The file of the XRC domain that all processes share.
int xrcd_file() {
  static const int file = open("/run/uverbsfuzz.xrcd", O_RDONLY | O_CLOEXEC);
  return file;
}

}  // namespace

Thread::Thread(Process& process, std::uint64_t seed)
    : Walk(process.verbs, process.tally.walk,
           {.seed = seed,
            .how = {.timeout = 8, .retry_cnt = 1, .rnr_retry = 1, .min_rnr_timer = 1},
            .xrcd_fd = xrcd_file(),
            .wild = true}),
      process_(process) {}

void Thread::note(std::size_t op, int err) {
  trace_ = (trace_ ^ (op << 16 ^ static_cast<std::uint64_t>(err + 1))) * 0x100000001b3;
}

void Thread::run(std::uint32_t calls) {
  const std::vector<Op>& all = ops();
  for (std::uint32_t i = 0; i < calls; ++i) {
    // Each call has a generator of its own: the next choice does not depend on its draws.
    const std::uint64_t seed = random_.next();
    const std::size_t chosen = draw<Op>(random_, all);
    const Op& op = all[chosen];
    // Nothing that could change what later calls of the trace find.
    if (process_.options.orderly && !op.traced) {
      note(chosen, 0);
      continue;
    }
    const Random later = random_;
    random_ = Random(seed);
    errno = 0;
    const int err = (this->*op.call)();
    random_ = later;
    ++process_.tally.calls;
    note(chosen, op.traced ? err : 0);
    if (std::getenv("UVERBSFUZZ_TRACE") != nullptr)
      std::fprintf(stderr, "%u %s %d\n", i, op.name, err);
  }
}

int live(const LifeOptions& options, Tally& tally) {
  Process process{.options = options, .tally = tally};
  process.verbs = open_device(options.device, tally);
  if (process.verbs == nullptr) {
    usleep(20000);
    return 2;
  }
  ++tally.reached[kContext];
  fcntl(process.verbs->async_fd, F_SETFL, O_NONBLOCK);
  Random random(options.seed);
  const std::size_t threads = options.orderly ? 1 : 1 + random.below(3);
  const std::uint32_t calls = options.orderly ? 600 : 100 + random.below(600);
  const std::uint32_t end = random.below(3);
  std::vector<std::unique_ptr<Thread>> all;
  for (std::size_t i = 0; i < threads; ++i) {
    all.push_back(std::make_unique<Thread>(process, random.next()));
  }
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) {
    others.emplace_back([&thread = *all[i], calls] { thread.run(calls); });
  }
  all[0]->run(calls);
  // Some end while their other threads are in calls.
  if (end == 0 && !options.orderly) _exit(0);
  for (std::thread& other : others) other.join();
  if (options.orderly) {
    tally.trace = all[0]->trace();
    tally.traced = calls;
  }
  if (end == 1) _exit(0);
  for (const auto& thread : all) thread->destroy_all();
  ibv_close_device(process.verbs);
  return 0;
}

}  // namespace guest::uverbsfuzz
