// SPDX-License-Identifier: GPL-2.0-or-later
// The probes of verbs: each calls the verbs of a page or more and sees them do what the pages say.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "opcode_table/ends.h"

namespace guest::verbs {

// What a probe saw: the verb worked, or it refused as its page says.
enum class Seen { kWorks, kRefuses };

struct Probe {
  std::vector<std::string> pages;  // of section 3
  std::string saw;                 // what the probe saw, for the table
  std::function<Seen(const Device&)> body;  // throws a Failure
};

class Probes {
 public:
  // The verbs work.
  void works(std::initializer_list<std::string> pages, std::string saw, std::function<void(const Device&)> body) {
    probes_.push_back({pages, std::move(saw), [body = std::move(body)](const Device& dev) {
                         body(dev);
                         return Seen::kWorks;
                       }});
  }
  // The verbs refuse.
  void refuses(std::initializer_list<std::string> pages, std::string saw, std::function<void(const Device&)> body) {
    probes_.push_back({pages, std::move(saw), [body = std::move(body)](const Device& dev) {
                         body(dev);
                         return Seen::kRefuses;
                       }});
  }
  [[nodiscard]] const std::vector<Probe>& all() const { return probes_; }

 private:
  std::vector<Probe> probes_;
};

void add_device_probes(Probes& probes);
void add_memory_probes(Probes& probes);
void add_queue_probes(Probes& probes);
void add_qp_probes(Probes& probes);
void add_work_probes(Probes& probes);
void add_frame_probes(Probes& probes);
// Verbs that are younger than rdma-core 56.1.
void add_newer_probes(Probes& probes);

// kTypes by name.
inline constexpr const Type& kUd = kTypes[0];
inline constexpr const Type& kRc = kTypes[2];

// An errno that a refused verb must have set.
inline void require_errno(int expected, const char* what) { require_err(errno, expected, what); }

// Returns the second context of a device, which shares the first one's objects.
ContextPtr import_context(const Device& dev);

}  // namespace guest::verbs
