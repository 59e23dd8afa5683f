// SPDX-License-Identifier: GPL-2.0-or-later
// Runs programs on a device and compares everything that an application can observe with the model.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "explain.h"
#include "failure.h"
#include "memory.h"

namespace guest::generator {

// Something happened that no document allows.
class Violation : public Failure {
 public:
  Violation(std::string what_kind, std::size_t at, const std::string& text)
      : Failure(text), kind(std::move(what_kind)), step(at) {}
  std::string kind;
  std::size_t step;
};

// Falsifies what was observed, once, to test the oracle.
enum class Sabotage {
  kNone,
  kMemory,     // a byte that nobody may write
  kData,       // a byte that a request wrote
  kStatus,     // an error becomes a success
  kFailure,    // a success becomes an error
  kOrder,      // two completions of a queue change places
  kLost,       // a completion is missing
  kTwice,      // a completion comes twice
  kLength,     // byte_len of a receive
  kImmediate,  // the immediate of a receive
  kOpcode,     // the opcode of a completion
  kBusy,       // a region with windows is deregistered
  kCount
};
const char* name_of(Sabotage sabotage);

struct RunOptions {
  std::string device;
  int gid_index = -1;
  bool processes = false;  // end 1 in a process of its own
};

class Runner {
 public:
  Runner(const RunOptions& options, const Caps& caps);
  ~Runner();
  // Throws a Violation.
  void run(const Steps& steps, std::uint64_t seed);
  // Called with what each step did, as text that does not depend on the device's numbers.
  std::function<void(const std::string&)> log;
  // Called with each step, before it is executed, and with each burst and what is wrong with it.
  std::function<void(std::size_t step)> begin;
  std::function<void(const Burst&, const std::string& wrong)> settled;
  // Puts something between the runner and its ends.
  void wrap(const std::function<std::unique_ptr<Side>(int end, std::unique_ptr<Side>)>& wrapper) {
    for (std::size_t end = 0; end < kEnds; end++) {
      sides_.at(end) = wrapper(static_cast<int>(end), std::move(sides_.at(end)));
    }
  }
  [[nodiscard]] const Mems& mems() const { return mems_; }
  // What was under way when a violation was seen.
  [[nodiscard]] const Burst& pending() const { return burst_; }
  Sabotage sabotage = Sabotage::kNone;
  // On a busy machine: a factor for the time after which a datagram is lost.
  unsigned timeout_factor = 1;
  [[nodiscard]] std::uint64_t executed() const { return executed_; }
  void count(std::uint64_t executed) { executed_ += executed; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  // Steps.
  void apply(const Step& step, bool more);
  void make_region(const Step& step);
  void dereg(const Step& step);
  void rereg(const Step& step);
  bool make_window(int end, std::size_t slot, int type, std::size_t pd);
  void dealloc(int end, std::size_t slot);
  void make_conn(const Step& step);
  void destroy_conn(std::size_t slot);
  void request(const Step& step, bool more);
  void receive(const Step& step);
  void error(const Step& step);
  void arm(const Step& step);
  void kill();
  void connect(std::size_t slot);
  void discard();
  void clean();
  [[nodiscard]] std::uint64_t word_at(const Request& r);
  [[nodiscard]] Side& side(int end) { return *sides_.at(static_cast<std::size_t>(end)); }

  // Bursts.
  void settle();
  void follow_silent();
  void wait_for_requests();
  void wait_for_receives();
  void take_completions();
  void take(const Completion& got);
  bool take_request(const Completion& got);
  bool take_receive(const Completion& got);
  void close(std::size_t slot);
  [[nodiscard]] bool requests_done() const;
  [[nodiscard]] bool receives_done();
  [[nodiscard]] bool messages_pending() const;
  void check_events();
  void conclude(const Explanation& how);
  void compare();
  void falsify(std::vector<Completion>& got);
  void write_log();
  [[noreturn]] void violation(const char* kind, const std::string& text) const;

  RunOptions options_;
  Caps caps_;
  Mems mems_;
  std::array<std::unique_ptr<Side>, kEnds> sides_;
  std::array<std::array<std::optional<QpArgs>, kEnds>, kConns> made_{};  // real QPs
  std::array<std::array<Numbers, kEnds>, kConns> numbers_{};
  std::unique_ptr<Book> book_;
  Memories memories_;
  Burst burst_;
  std::size_t at_ = 0;  // the step
  std::uint64_t executed_ = 0;
  std::uint64_t lost_ = 0;
  bool device_memory_ = false;
  struct Armed {
    bool on = false;
    bool solicited = false;
    int hits = 0;
  };
  std::array<std::array<Armed, 2>, kEnds> armed_{};
  // Events may come that the program cannot foresee.
  std::array<bool, kEnds> loose_{};
  std::string text_;  // what the step did, for the log
};

}  // namespace guest::generator
