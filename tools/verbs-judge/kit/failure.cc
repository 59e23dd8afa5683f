// SPDX-License-Identifier: GPL-2.0-or-later
#include "failure.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace guest {
namespace {

std::mutex destroy_mutex;
std::string destroy_errors;

std::mutex choice_mutex;
std::vector<std::string> choices;
bool is_strict = false;

}  // namespace

void fail_errno(const char* what) { fail("{}: {}", what, std::strerror(errno)); }

std::string errno_name(int err) {
  const char* name = err == 0 ? "0" : strerrorname_np(err);
  return name != nullptr ? name : std::to_string(err);
}

void require_err(int err, int expected, const char* what) {
  require(err == expected, "{}: {}, not {}", what, errno_name(err), errno_name(expected));
}

void chose(std::string what) {
  const std::scoped_lock lock(choice_mutex);
  if (std::ranges::find(choices, what) == choices.end()) choices.push_back(std::move(what));
}

std::string take_choices() {
  const std::scoped_lock lock(choice_mutex);
  std::string line;
  for (const std::string& what : choices) line += (line.empty() ? "" : "; ") + what;
  choices.clear();
  return line;
}

void set_strict(bool strict) { is_strict = strict; }
bool strict() { return is_strict; }

void require_refused(int err, int usual, const char* what) {
  require(err != 0, "{}: succeeds", what);
  require_usual(err == usual, "{}: {}, not {}", what, errno_name(err), errno_name(usual));
}

void need_strict(const char* arguments) {
  if (!strict()) skip("only with --strict, since no program may pass {}", arguments);
}

bool usually_refused(int err, int usual, const char* what) {
  if (err == 0 && !strict()) {
    chose(std::format("{}: accepted", what));
    return false;
  }
  require_refused(err, usual, what);
  return true;
}

void note_destroy(const char* what, int err) {
  if (err != 0) {
    const std::scoped_lock lock(destroy_mutex);
    destroy_errors += std::format(" {}: {}", what, errno_name(err));
  }
}

std::string take_destroy_errors() {
  const std::scoped_lock lock(destroy_mutex);
  return std::exchange(destroy_errors, {});
}

}  // namespace guest
