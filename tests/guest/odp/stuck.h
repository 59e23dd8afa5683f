// SPDX-License-Identifier: GPL-2.0-or-later
// Pages that never arrive.
#pragma once

#include <memory>

#include "paging.h"

namespace guest {

// Registers a mapping with a userfaultfd, so that its pages arrive when the caller gives them.
int userfaultfd_of(const Map& map);

// A mapping of which no page arrives, because the process that would deliver it stops when it is
// asked.
class Stuck {
 public:
  explicit Stuck(bool file);  // a file of a file system in user space, or memory with a userfaultfd
  [[nodiscard]] const Map& map() const { return *map_; }
  void wait() const;  // until a page was asked for
  void end() const;   // the process ends, and nobody waits for its pages any more

 private:
  bool file_;
  std::unique_ptr<Map> map_;
  std::string dir_;
  pid_t server_ = -1;
};

// odp --hold: until SIGTERM, the device waits for a page. Prints "ready" when it does.
void hold(bool file);

}  // namespace guest
