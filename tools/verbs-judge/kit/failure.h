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

// Thrown by a test that does not apply here, since the device does not claim what it needs.
class Skip : public Failure {
 public:
  using Failure::Failure;
};

// Thrown by a test that ends early, since the device chose where no document decides.
class Undecided : public Failure {
 public:
  using Failure::Failure;
};

template <typename... Args>
[[noreturn]] void skip(std::format_string<Args...> text, Args&&... args) {
  throw Skip(std::format(text, std::forward<Args>(args)...));
}

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

// Records what the device chose where no document decides. The test goes on.
void chose(std::string what);
// Returns what was recorded since the last call, in one line.
std::string take_choices();

// Strict: the device must also choose as tern does.
void set_strict(bool strict);
bool strict();
// Checks that a call was refused. No document names most errnos, so another one than the usual is a
// choice of the device.
void require_refused(int err, int usual, const char* what);
// The same where devices are known to accept the call, too, which is then their choice. Returns
// whether it was refused.
bool usually_refused(int err, int usual, const char* what);
// Fails if strict, otherwise records a choice.
template <typename... Args>
void require_usual(bool condition, std::format_string<Args...> text, Args&&... args) {
  if (condition) return;
  std::string what = std::format(text, std::forward<Args>(args)...);
  if (strict()) throw Failure(what);
  chose(std::move(what));
}

// Ends the test: what follows depends on a choice that the device made otherwise. Fails if strict.
template <typename... Args>
[[noreturn]] void undecided(std::format_string<Args...> text, Args&&... args) {
  const std::string what = std::format(text, std::forward<Args>(args)...);
  if (strict()) throw Failure(what);
  throw Undecided(what);
}
// Skips the test unless strict: its arguments are none that a program may pass, so a provider may
// even crash.
void need_strict(const char* arguments);

// A failed destroy fails the test. Destructors only record it here; attempt() calls
// take_destroy_errors().
void note_destroy(const char* what, int err);
std::string take_destroy_errors();

}  // namespace guest
