// SPDX-License-Identifier: GPL-2.0-or-later
// A child process that exchanges messages with a test and can be killed at any moment.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace guest {

using Words = std::array<std::uint64_t, 8>;

// One end of the socket between a process and its parent.
class Talk {
 public:
  explicit Talk(int fd) : fd_(fd) {}
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;
  ~Talk();

  void tell(const Words& words = {}) const;
  // Receives a message. Throws if the other end reports a failure, skips, has gone, or stays
  // silent.
  [[nodiscard]] Words hear() const;
  void wait() const { static_cast<void>(hear()); }
  // Passes an open file to the other process.
  void give(int file) const;
  [[nodiscard]] int take() const;

 private:
  int fd_;
};

class Child {
 public:
  // Forks a process that runs `body` and exits. What the device chose there is recorded here when
  // the process finishes.
  explicit Child(const std::function<void(const Talk&)>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  [[nodiscard]] const Talk& talk() const { return talk_; }
  // Sends a message and receives the answer.
  [[nodiscard]] Words ask(const Words& words = {}) const;
  // Sends SIGKILL and reaps the process.
  void kill();
  // Waits until `body` has returned. Throws if it failed.
  void finish();

 private:
  int theirs_;
  Talk talk_;
  pid_t pid_;
};

}  // namespace guest
