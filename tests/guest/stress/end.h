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

// Flows in which an end is asked.
constexpr unsigned kRcFlows = 4;
constexpr unsigned kXrcFlows = 2;
constexpr unsigned kReliableFlows = kRcFlows + kXrcFlows;
constexpr unsigned kUcFlows = 2;
constexpr unsigned kUdFlows = 2;

// What the asking end tells the other; no rounds: there is nothing more to do.
struct Job {
  std::uint64_t seed = 0;
  std::uint64_t rounds = 0;
  bool in_order = true;  // the wire keeps the order and doubles nothing
};

struct Totals {
  std::uint64_t reliable = 0;  // messages that came to this end
  std::uint64_t uc = 0;
  std::uint64_t ud = 0;
};

class End {
 public:
  // `second`: which of the two; they have the halves of every connection.
  End(const Device& dev, const Socket& peer, const Job& job, bool second);

  // All rounds; a failure at either end is a Failure at both.
  void run();
  [[nodiscard]] Totals totals() const;
  // As the other end counted.
  [[nodiscard]] Totals totals_there() const { return there_; }

 private:
  void open(ibv_qp_type here, ibv_qp_type there);
  void introduce();
  void add_flows(std::size_t index, const Introduction& other);
  void play();
  void round(std::uint64_t number);
  // Polls everything until `done`; a failure when nothing moves any more.
  void poll_until(const std::function<bool()>& done);
  bool poll_all();
  void settle();
  void check_states() const;
  // The two ends are at the same place.
  void meet(const std::string& failure = {}) const;
  // A failure of the other end that it has told already.
  void look_at_peer() const;
  [[nodiscard]] std::string where() const;

  const Device& dev_;
  const Socket& peer_;
  Job job_;
  bool second_;
  struct Channel {
    std::unique_ptr<Session> session;
    ibv_qp_type here;
    ibv_qp_type there;
  };
  std::vector<Channel> channels_;
  std::vector<std::unique_ptr<Asker>> askers_;
  std::vector<std::unique_ptr<Asked>> asked_;
  Totals there_;
};

}  // namespace guest
