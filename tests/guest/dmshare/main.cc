// SPDX-License-Identifier: GPL-2.0-or-later
// dmshare: tests device memory of several processes: isolation, sharing, and release after any of
// them dies.
//
//   dmshare [-d DEV] [-g GID_INDEX] [PATTERN...]
//
// Prints "ok dmshare/NAME" or "not ok dmshare/NAME - why" for each test. After each test the
// device's object counts and the kernel's pin counts must be the same as before.
//
// Test: dmshare
// Tier: quick, 600 s
// Boot: pcap
// Proves: Device memory of several processes: zeroed, separate, freed with a mapping kept, shared
//   by the four imports, and all returned after a SIGKILL anywhere. After each test the device's
//   objects and the kernel's pins are what they were before.
#include "dmshare.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "counts.h"

namespace guest {

using Clock = std::chrono::steady_clock;
constexpr auto kLimit = std::chrono::seconds(60);

std::uint64_t Where::count(const char* name) const {
  return static_cast<std::uint64_t>(read_counts(device).at(name));
}

void Where::expect_count(const char* name, std::uint64_t expected) const {
  const auto end = Clock::now() + kLimit;
  std::uint64_t now = count(name);
  while (now != expected && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    now = count(name);
  }
  require(now == expected, "{} is {}, not {}", name, now, expected);
}

void Where::expect_all_free() const {
  expect_count("dm_bytes", 0);
  Child other([this](const Talk&) {
    const Device dev = open();
    const DmPtr dm = alloc_dm(dev.context(), size);
    const std::vector<std::byte> bytes = dm_read(dm.get(), 0, size);
    const auto at = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{}; });
    require(at == bytes.end(), "byte {} is not 0", at - bytes.begin());
  });
  other.finish();
}

Mapping mapping_of(const std::vector<Mapping>& before) {
  const std::vector<Mapping> more = added(before, device_mappings());
  require(more.size() == 1, "{} mappings more", more.size());
  return more.front();
}

std::byte* map_again(const Device& dev, std::uint64_t offset, std::uint64_t length) {
  void* map = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, dev.context()->cmd_fd,
                     static_cast<off_t>(offset));
  return map == MAP_FAILED ? nullptr : static_cast<std::byte*>(map);
}

namespace {

// Runs a test and checks that it leaks nothing: the counts return to their values before it.
void sealed(const Where& where, const Test& test) {
  const Counts before = read_counts(where.device);
  test.run();
  const std::string left = settle(where.device, before, kLimit);
  require(left.empty(), "left behind: {}", left);
}

// The first process that uses the device, and the first one that is killed, leave caches behind for
// good.
void warm_up(Where& where) {
  for (int i = 0; i < 2; i++) {
    Child child([&where](const Talk& talk) {
      const Device dev = where.open();
      const std::uint64_t size = max_dm_size(dev.context());
      const Space device(dev, Kind::kDevice, kPage);
      const Space host(dev, Kind::kHost, kPage);
      talk.tell({size});
      talk.wait();
    });
    where.size = child.talk().hear()[0];
    child.kill();
  }
  require(where.size != 0, "max_dm_size is 0");
  std::this_thread::sleep_for(std::chrono::seconds(1));
}

void run(const CommandLine& line) {
  Where where{.device = line.device, .gid_index = line.gid_index, .size = 0};
  warm_up(where);
  std::vector<Test> tests;
  for (const auto& part : {isolation_tests(where), death_tests(where), share_tests(where)}) {
    for (const Test& t : part) tests.push_back({t.name, [&where, t] { sealed(where, t); }});
  }
  run_tests(tests);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  return guest::run_program(argc, argv, {.group = "dmshare", .run = guest::run});
}
