// SPDX-License-Identifier: GPL-2.0-or-later
// Tells whether an interface of the host is up and has a carrier, by rtnetlink.
#pragma once

#include "descriptor.h"

namespace tern::daemon {

class LinkWatch {
 public:
  enum class State { kDown, kUp, kGone };

  // `index`: of the interface. Throws std::system_error. The state is kDown until read() has the answer.
  explicit LinkWatch(unsigned index);

  // Readable when there is news.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Reads all news. An interface that is gone does not return.
  State read();

 private:
  void ask();

  const unsigned index_;
  Descriptor socket_;
  State state_ = State::kDown;
};

}  // namespace tern::daemon
