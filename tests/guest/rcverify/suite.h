// SPDX-License-Identifier: GPL-2.0-or-later
// The tests by subject.
#pragma once

#include <span>

#include "pair.h"

namespace guest {

struct Entry {
  const char* name;
  void (*run)(Env& env);
};

std::span<const Entry> data_tests();
std::span<const Entry> queue_tests();
std::span<const Entry> local_error_tests();
std::span<const Entry> remote_error_tests();
std::span<const Entry> state_tests();
std::span<const Entry> event_tests();
std::span<const Entry> flush_tests();

}  // namespace guest
