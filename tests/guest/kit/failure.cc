// SPDX-License-Identifier: GPL-2.0-or-later
#include "failure.h"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

namespace guest {
namespace {

std::mutex destroy_mutex;
std::string destroy_errors;

}  // namespace

void fail_errno(const char* what) { fail("{}: {}", what, std::strerror(errno)); }

std::string errno_name(int err) {
  const char* name = err == 0 ? "0" : strerrorname_np(err);
  return name != nullptr ? name : std::to_string(err);
}

void require_err(int err, int expected, const char* what) {
  require(err == expected, "{}: {}, not {}", what, errno_name(err), errno_name(expected));
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
