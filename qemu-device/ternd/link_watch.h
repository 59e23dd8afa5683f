// SPDX-License-Identifier: GPL-2.0-or-later
// Reports whether an interface of the host is up and has a carrier, by rtnetlink.
#pragma once

#include <utility>

#include "descriptor.h"

namespace tern::daemon {

class LinkWatch {
 public:
  enum class State { kDown, kUp, kGone };

  // Opens the socket that it needs. Throws std::system_error.
  static Descriptor open();

  // `index`: of the interface. The state is kDown until read() has the answer.
  LinkWatch(unsigned index, Descriptor socket) : index_(index), socket_(std::move(socket)) {
    ask();
  }

  // Readable when there are messages.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Reads messages; if fd() is readable afterwards, there are more. An interface that is gone does
  // not return.
  State read();

 private:
  void ask();

  const unsigned index_;
  Descriptor socket_;
  State state_ = State::kDown;
};

}  // namespace tern::daemon
