// SPDX-License-Identifier: GPL-2.0-or-later
// The rules by subject.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "window.h"

namespace guest::windows {

// Adds a rule whose body gets these arguments after the environment. `switches` is Rule::switches.
// A rule of a refusal must name its switches.
template <typename Run, typename... Args>
void add(Rules& rules, std::string name, std::string says, std::string switches, Run run,
         Args... args) {
  const bool refuses = !switches.empty();
  rules.push_back({.name = std::move(name),
                   .says = std::move(says),
                   .run =
                       [=](const Env& env) {
                         take_refusals();
                         run(env, args...);
                         require(refuses || take_refusals() == 0,
                                 "shows that something is refused, and names no rule");
                       },
                   .switches = std::move(switches)});
}

void add_type1(Rules& rules);
void add_type2(Rules& rules);
void add_access(Rules& rules);
void add_binds(Rules& rules);
void add_invalidations(Rules& rules);
void add_ends(Rules& rules);
void add_memory(Rules& rules);
Rules all();

// The forms of window to which most rules apply alike.
struct NamedForm {
  const char* name;
  const char* text;
  Form form;
};
inline const NamedForm kForms[] = {
    {"type1", "a type 1 window", {.type = IBV_MW_TYPE_1}},
    {"type1-zb", "a zero-based type 1 window", {.type = IBV_MW_TYPE_1, .zero_based = true}},
    {"type2", "a type 2 window", {.type = IBV_MW_TYPE_2}},
    {"type2-zb", "a zero-based type 2 window", {.type = IBV_MW_TYPE_2, .zero_based = true}},
};
constexpr ibv_mw_type kBothTypes[] = {IBV_MW_TYPE_1, IBV_MW_TYPE_2};
inline std::string type_name(ibv_mw_type type) { return type == IBV_MW_TYPE_1 ? "type1" : "type2"; }
inline std::string type_text(ibv_mw_type type) {
  return type == IBV_MW_TYPE_1 ? "a type 1 window" : "a type 2 window";
}

}  // namespace guest::windows
