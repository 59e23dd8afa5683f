// SPDX-License-Identifier: GPL-2.0-or-later
#include "runner.h"

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

#include "verbs.h"
#include "watchdog.h"

namespace guest {
namespace {

constexpr unsigned kTestLimit = 900;  // seconds; bounds a hang

bool run_one(const std::string& name, const Named& test) {
  const Watchdog watchdog(name, kTestLimit);
  const auto start = std::chrono::steady_clock::now();
  std::string why;
  try {
    test.run();
  } catch (const std::exception& e) {
    why = e.what();
  }
  why += take_destroy_errors();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (why.empty()) {
    std::printf("ok %s # %.2f s\n", name.c_str(), took.count());
  } else {
    std::printf("not ok %s - %s\n", name.c_str(), why.c_str());
  }
  std::fflush(stdout);
  return why.empty();
}

}  // namespace

bool run_named(const std::string& prefix, std::span<const Named> tests,
               std::span<const char* const> patterns) {
  std::size_t passed = 0;
  std::size_t chosen = 0;
  for (const Named& t : tests) {
    if (patterns.empty() || std::ranges::any_of(patterns, [&](const char* p) {
          return ::fnmatch(p, t.name.c_str(), 0) == 0;
        })) {
      chosen++;
      passed += run_one(prefix + "/" + t.name, t) ? 1U : 0U;
    }
  }
  std::printf("# %zu of %zu passed\n", passed, chosen);
  return passed == chosen && chosen != 0;
}

}  // namespace guest
