// SPDX-License-Identifier: GPL-2.0-or-later
// One of the two ends: sessions of every type, and rounds in step with the other end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flow.h"
#include "tcp.h"

namespace guest {

// The number of flows in which an end is the responder.
constexpr unsigned kRcFlows = 4;
constexpr unsigned kXrcFlows = 2;
constexpr unsigned kReliableFlows = kRcFlows + kXrcFlows;
constexpr unsigned kUcFlows = 2;
constexpr unsigned kUdFlows = 2;

// Sent by the client to the server; 0 rounds: nothing more to do.
struct Job {
  std::uint64_t seed = 0;
  std::uint64_t rounds = 0;
  bool in_order = true;  // the wire neither reorders nor duplicates packets
};

struct Totals {
  std::uint64_t reliable = 0;  // messages that arrived at this end
  std::uint64_t uc = 0;
  std::uint64_t ud = 0;
};

class Side {
 public:
  // `second` selects the end; each has one half of every connection.
  Side(const Device& dev, const Socket& peer, const Job& job, bool second);

  // Runs all rounds. A failure at either end is a Failure at both.
  void run();
  [[nodiscard]] Totals totals() const;
  // Returns the totals that the other end counted.
  [[nodiscard]] Totals totals_there() const { return there_; }

 private:
  void open(ibv_qp_type here, ibv_qp_type there);
  void introduce();
  void add_flows(std::size_t index, const Introduction& other);
  void play();
  void round(std::uint64_t number);
  // Polls everything until `done`. Throws a Failure when nothing progresses any more.
  void poll_until(const std::function<bool()>& done);
  bool poll_all();
  void settle();
  void check_states() const;
  // Waits until the other end is at the same point; reports a failure to it.
  void meet(const std::string& failure = {}) const;
  // Throws if the other end has already reported a failure.
  void look_at_peer() const;
  [[nodiscard]] std::string where() const;

  const Device& dev_;
  const Socket& peer_;
  Job job_;
  bool second_;
  struct Channel {
    std::unique_ptr<End> session;
    ibv_qp_type here;
    ibv_qp_type there;
  };
  std::vector<Channel> channels_;
  std::vector<std::unique_ptr<Asker>> askers_;
  std::vector<std::unique_ptr<Asked>> asked_;
  Totals there_;
};

}  // namespace guest
