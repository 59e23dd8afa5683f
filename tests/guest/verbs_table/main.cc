// SPDX-License-Identifier: GPL-2.0-or-later
// verbs_table: calls every verb with a manual page and checks the documented effect.
//
//   verbs_table [-d DEV] [-g GID_INDEX] --pages DIR  prints "ok NAME" or "not ok NAME - why" for
//                                                    each page and probe
//   verbs_table ... --rst FILE                       also writes the table of what was seen
//   verbs_table ... --compare FILE                   also fails if a row of FILE (pages.txt) is not
//                                                    what was seen
//
// DIR has the sources of rdma-core's pages (libibverbs/man). A page without a probe fails, as does
// a probe without a page.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "table.h"

namespace guest::verbs {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The pages of section 3: files NAME.3 and NAME.3.md, and the second names of CMakeLists.txt's list
// of aliases.
std::set<std::string> pages_of(const std::string& dir) {
  std::set<std::string> pages;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (const std::size_t end = name.find(".3"); end != std::string::npos) {
      pages.insert(name.substr(0, end));
    }
  }
  const std::string list = read_file(dir + "/CMakeLists.txt");
  std::size_t at = list.find("rdma_alias_man_pages(");
  require(at != std::string::npos, "{}: no aliases", dir);
  at = list.find('(', at) + 1;
  std::string words = list.substr(at, list.find(')', at) - at);
  std::ranges::replace(words, '\n', ' ');
  bool alias = false;
  for (std::size_t begin = words.find_first_not_of(' '); begin != std::string::npos;
       alias = !alias) {
    const std::size_t end = words.find(' ', begin);
    const std::string word = words.substr(begin, end - begin);
    if (alias && word.ends_with(".3")) pages.insert(word.substr(0, word.size() - 2));
    begin = words.find_first_not_of(' ', end);
  }
  require(pages.size() > 100, "{}: {} pages only", dir, pages.size());
  return pages;
}

struct Row {
  Seen seen;
  std::string saw;
};
using Rows = std::map<std::string, Row>;  // by page

// Tries what the verbs refuse; returns it for the table, by errno.
std::string refused(const Probe& probe, const Device& dev) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Refusal& refusal : probe.refusals) {
    errno = 0;
    const int err = refusal.call(dev);
    require(err != 0, "{} works now", refusal.what);
    const auto at =
        std::ranges::find(found, errno_name(err), &std::pair<std::string, std::string>::first);
    if (at == found.end()) {
      found.emplace_back(errno_name(err), refusal.what);
    } else {
      at->second += ", " + refusal.what;
    }
  }
  std::string text;
  for (const auto& [err, what] : found) text += std::format("; {}: {}", err, what);
  return text;
}

// Runs a probe, reports its pages and adds their rows.
void run(const Probe& probe, const Device& dev, Rows& rows) {
  std::string saw, refusals;
  const Outcome outcome = attempt(*probe.pages.begin(), [&] {
    saw = probe.saw + probe.body(dev);
    refusals = refused(probe, dev);
  });
  for (const std::string& page : probe.pages) {
    if (report(page, outcome)) rows.emplace(page, Row{probe.seen, saw + refusals});
  }
  for (const std::string& page : probe.whole) {
    if (report(page, outcome)) rows.emplace(page, Row{Seen::kWorks, saw});
  }
}

constexpr const char* kIntro = R"(.. Written by verbs_table --rst (tests/guest/verbs_table).

Each verb, by page
==================

*works*: all that the test tried did what the page says. *partly*: the same, except for the flags
and values after the errno that they returned. *refuses*: the verb returns the error of its page.

)";

std::string word(Seen seen) {
  return seen == Seen::kWorks ? "works" : seen == Seen::kPartly ? "partly" : "refuses";
}

std::string to_rst(const Rows& rows) {
  std::size_t page = 4, saw = 0;
  for (const auto& [name, row] : rows) {
    page = std::max(page, name.size());
    saw = std::max(saw, row.saw.size());
  }
  const std::string rule = std::string(page, '=') + " ======= " + std::string(saw, '=') + "\n";
  std::string out =
      kIntro + rule + std::format("{:{}} tern    What the test saw\n", "Page", page) + rule;
  for (const auto& [name, row] : rows) {
    out += std::format("{:{}} {:7} {}\n", name, page, word(row.seen), row.saw);
  }
  return out + rule;
}

// Every row must be in the file as it was seen, whatever the width of the columns, and no other row
// but those of pages that this lane's rdma-core lacks.
std::string differs(const Rows& rows, const std::string& file) {
  std::map<std::string, std::string> lines;
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t end = std::min(file.find('\n', at), file.size());
    const std::string line = file.substr(at, end - at);
    const std::size_t name = line.find(' ');
    if (name != std::string::npos) {
      lines[line.substr(0, name)] =
          line.substr(std::min(line.find_first_not_of(' ', name), line.size()));
    }
    at = end + 1;
  }
  for (const auto& [name, row] : rows) {
    const std::string want = std::format("{:7} {}", word(row.seen), row.saw);
    if (lines[name] != want) return std::format("the row of {} is not '{}'", name, want);
  }
  const std::vector<std::string> newer = newer_pages();
  for (const auto& [name, text] : lines) {
    const std::string found = text.substr(0, text.find(' '));
    const bool row = name.find("ibv_") != std::string::npos &&
                     (found == "works" || found == "partly" || found == "refuses");
    if (row && !rows.contains(name) && std::ranges::find(newer, name) == newer.end()) {
      return std::format("{} has a row, but no page", name);
    }
  }
  for (const std::string& name : newer) {
    if (!lines.contains(name)) return std::format("{} has no row", name);
  }
  return {};
}

void run_all(const CommandLine& line, const std::string& dir, const std::string& rst,
             const std::string& compare) {
  const Device dev(line.device, line.gid_index);
  std::set<std::string> left = pages_of(dir);
  Probes probes;
  add_device_probes(probes);
  add_memory_probes(probes);
  add_queue_probes(probes);
  add_qp_probes(probes);
  add_work_probes(probes);
  add_frame_probes(probes);
  add_newer_probes(probes);
  Rows rows;
  for (const Probe& probe : probes.all()) {
    run(probe, dev, rows);
    std::vector<std::string> pages = probe.pages;
    pages.insert(pages.end(), probe.whole.begin(), probe.whole.end());
    for (const std::string& page : pages) {
      if (left.erase(page) == 0) {
        report(false, page + "_page", "there is no such page, or two probes of it");
      }
    }
  }
  for (const std::string& page : left) report(false, page, "a page without a probe");
  if (!rst.empty()) std::ofstream(rst) << to_rst(rows);
  if (!compare.empty()) {
    const std::string why = differs(rows, read_file(compare));
    report(why.empty(), "documented", why);
  }
}

}  // namespace
}  // namespace guest::verbs

int main(int argc, char** argv) {
  using namespace guest;
  std::string pages, rst, compare;
  return run_program(
      argc, argv,
      {.limit = 120,
       .options = {{"pages", &pages}, {"rst", &rst}, {"compare", &compare}},
       .run = [&](const CommandLine& line) { verbs::run_all(line, pages, rst, compare); }});
}
