// SPDX-License-Identifier: GPL-2.0-or-later
// Failed expectations of a test.
#pragma once

#include <cstdint>
#include <format>
#include <stdexcept>
#include <string>

namespace guest {

// A failed expectation of a test, or a call that failed where it must not.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown by a test that does not apply here.
class Skip : public Failure {
 public:
  using Failure::Failure;
};

template <typename... Args>
[[noreturn]] void fail(std::format_string<Args...> text, Args&&... args) {
  throw Failure(std::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
void require(bool condition, std::format_string<Args...> text, Args&&... args) {
  if (!condition) throw Failure(std::format(text, std::forward<Args>(args)...));
}

// Throws a Failure "what: text" for a call that reports by errno.
[[noreturn]] void fail_errno(const char* what);
// Returns the name of an errno value, "0" for none.
std::string errno_name(int err);
void require_err(int err, int expected, const char* what);

// A failed destroy fails the test. Destructors only record it here; attempt() calls
// take_destroy_errors().
void note_destroy(const char* what, int err);
std::string take_destroy_errors();

}  // namespace guest
