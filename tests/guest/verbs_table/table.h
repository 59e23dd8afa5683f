// SPDX-License-Identifier: GPL-2.0-or-later
// The probes of verbs: each calls the verbs of a page or more and sees them do what the pages say.
#pragma once

#include <cerrno>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "pair.h"
#include "program.h"

namespace guest::verbs {

// What a probe saw: the verb worked, it worked but for something that its page offers, or it
// refused as its page says.
enum class Seen { kWorks, kPartly, kRefuses };

// Something that a page offers and tern refuses. It is tried, and the table has the errno.
struct Refusal {
  std::string what;
  std::function<int(const Device&)> call;  // returns the errno; 0: it worked, so the table is wrong
};

struct Probe {
  std::vector<std::string> pages;  // of section 3
  std::string saw;                 // what the body checks, for the table
  std::function<std::string(const Device&)>
      body;  // throws a Failure; returns what it measured, which follows `saw`
  Seen seen;
  std::vector<Refusal> refusals{};
  std::vector<std::string> whole{};  // more pages, whose verbs refuse nothing
};

class Probes {
 public:
  // The verbs work.
  void works(std::initializer_list<std::string> pages, std::string saw,
             std::function<void(const Device&)> body) {
    probes_.push_back({pages, std::move(saw), silent(std::move(body)), Seen::kWorks});
  }
  // The verbs work, and the body says what it measured.
  void measures(std::initializer_list<std::string> pages, std::string saw,
                std::function<std::string(const Device&)> body) {
    probes_.push_back({pages, std::move(saw), std::move(body), Seen::kWorks});
  }
  // The verbs work, but for what those of `pages` refuse.
  void partly(std::initializer_list<std::string> pages, std::initializer_list<std::string> whole,
              std::string saw, std::function<void(const Device&)> body,
              std::vector<Refusal> refusals) {
    probes_.push_back({pages, std::move(saw), silent(std::move(body)), Seen::kPartly,
                       std::move(refusals), whole});
  }
  // The verbs refuse.
  void refuses(std::initializer_list<std::string> pages, std::string saw,
               std::function<void(const Device&)> body) {
    probes_.push_back({pages, std::move(saw), silent(std::move(body)), Seen::kRefuses});
  }
  [[nodiscard]] const std::vector<Probe>& all() const { return probes_; }

 private:
  static std::function<std::string(const Device&)> silent(std::function<void(const Device&)> body) {
    return [body = std::move(body)](const Device& dev) {
      body(dev);
      return std::string();
    };
  }
  std::vector<Probe> probes_;
};

void add_device_probes(Probes& probes);
void add_memory_probes(Probes& probes);
void add_queue_probes(Probes& probes);
void add_qp_probes(Probes& probes);
void add_work_probes(Probes& probes);
void add_frame_probes(Probes& probes);
// Verbs that are younger than rdma-core 56.1, and their pages, which both lanes know.
void add_newer_probes(Probes& probes);
std::vector<std::string> newer_pages();

// The errno of a verb that returns an object, after destroying that; 0 if it worked.
template <typename Ptr, typename T>
int refusal_of(T* object) {
  const int err = errno;
  const Ptr owner(object);
  return object != nullptr ? 0 : err;
}

// An errno that a refused verb must have set.
inline void require_errno(int expected, const char* what) { require_err(errno, expected, what); }

// Returns the second context of a device, which shares the first one's objects.
ContextPtr import_context(const Device& dev);

}  // namespace guest::verbs
