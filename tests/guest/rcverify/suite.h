// SPDX-License-Identifier: GPL-2.0-or-later
// The tests by subject.
#pragma once

#include <vector>

#include "pair.h"

namespace guest {

std::vector<Test> data_tests(Env& env);
std::vector<Test> queue_tests(Env& env);
std::vector<Test> local_error_tests(Env& env);
std::vector<Test> remote_error_tests(Env& env);
std::vector<Test> state_tests(Env& env);
std::vector<Test> event_tests(Env& env);
std::vector<Test> flush_tests(Env& env);

}  // namespace guest
