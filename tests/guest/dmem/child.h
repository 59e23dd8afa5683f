// SPDX-License-Identifier: GPL-2.0-or-later
// A process of a test's own that is talked to, and may be killed at any moment.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace guest {

using Words = std::array<std::uint64_t, 8>;

// One side of the conversation between a process and its parent.
class Talk {
 public:
  explicit Talk(int fd) : fd_(fd) {}
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;
  ~Talk();

  void tell(const Words& words = {}) const;
  // What the other side tells; its failure is one here, and so is its silence.
  [[nodiscard]] Words hear() const;
  void wait() const { static_cast<void>(hear()); }
  void tell_failure(const std::string& why) const;
  // A file of this process for the other one.
  void give(int file) const;
  [[nodiscard]] int take() const;

 private:
  int fd_;
};

class Child {
 public:
  // The body runs in a new process, which ends with it.
  explicit Child(const std::function<void(const Talk&)>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  [[nodiscard]] const Talk& talk() const { return talk_; }
  // Tells, and hears the answer.
  [[nodiscard]] Words ask(const Words& words = {}) const;
  // SIGKILL, and until it is gone.
  void kill();
  // Until the body has ended; a failure of it is one here.
  void finish();

 private:
  int theirs_;
  Talk talk_;
  pid_t pid_;
};

}  // namespace guest
