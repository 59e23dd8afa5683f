// SPDX-License-Identifier: GPL-2.0-or-later
// mutations: switches the device's rules of windows off (part K of N), see mutate.h.
//
//   mutations [-d DEV] [-g GID_INDEX] [--part K/N] [RULE...]
#include <string>

#include "mutate.h"

int main(int argc, char** argv) {
  using namespace guest;
  windows::Part part;
  const auto set_part = [&part](const std::string& text) { part = windows::parse_part(text); };
  return run_program(
      argc, argv,
      {.limit = 300, .options = {{"part", set_part}}, .run = [&part](const CommandLine& line) {
         const Device dev(line.device, line.gid_index);
         const auto link = open_link(line);
         const Env env{.dev = dev, .link = *link};
         windows::run_mutations(windows::all(), line.words, part, [&env](const Rule& rule) {
           return attempt(rule.name, [&] { rule.run(env); }).why;
         });
       }});
}
