// SPDX-License-Identifier: GPL-2.0-or-later
// The egress port of a switch in a simulation: a queue that drains at a rate, with marks by RED as
// RoCEv2 switches make them, and the fixed point that the fluid model of DCQCN predicts for it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "tests/sim.h"
#include "wire/codec.h"

namespace tern {

struct RedOptions {
  double bits_per_ns = 40;
  double k_min = 5'000;  // bytes; no mark below
  double k_max = 200'000;
  double p_max = 0.01;  // probability of a mark at k_max; above, every packet is marked
  double limit = 4e6;   // bytes; a packet beyond is lost
};

class Bottleneck {
 public:
  // The port to node `to`.
  Bottleneck(Sim& sim, unsigned to, const RedOptions& options) : sim_(sim), options_(options) {
    sim.queue = [this, to](unsigned node, std::span<std::byte> frame) {
      return node == to ? enter(frame) : sim_.now();
    };
  }
  ~Bottleneck() { sim_.queue = nullptr; }
  Bottleneck(const Bottleneck&) = delete;
  Bottleneck& operator=(const Bottleneck&) = delete;

  struct Stats {
    std::uint64_t frames = 0;
    std::uint64_t bytes = 0;
    std::uint64_t marks = 0;
    std::uint64_t drops = 0;
    double queue_time = 0;  // integral of the length over time, byte ns
    double longest = 0;
    Nanos from = 0;
    std::map<std::uint32_t, std::uint64_t> flows;  // bytes by destination QP
  };
  // What happened since the last call.
  Stats take_stats() {
    Stats s = std::exchange(stats_, Stats{});
    stats_.from = sim_.now();
    return s;
  }
  [[nodiscard]] double mean_queue() const {
    return stats_.queue_time / static_cast<double>(sim_.now() - stats_.from);
  }
  [[nodiscard]] const Stats& stats() const { return stats_; }

 private:
  [[nodiscard]] double backlog() const {
    return free_at_ > static_cast<double>(sim_.now())
               ? (free_at_ - static_cast<double>(sim_.now())) * options_.bits_per_ns / 8
               : 0;
  }
  Nanos enter(std::span<std::byte> frame) {
    constexpr double kGap = 24;  // preamble, FCS and gap
    const double before = backlog();
    const double bytes = static_cast<double>(frame.size()) + kGap;
    if (before + bytes > options_.limit) {
      ++stats_.drops;
      return kNever;
    }
    if (const auto at = find_parts(frame); at && chance(probability(before))) {
      ++stats_.marks;
      mark_congestion(frame, *at);
    }
    const double took = bytes * 8 / options_.bits_per_ns;
    free_at_ = std::max(free_at_, static_cast<double>(sim_.now())) + took;
    // Little's law: each frame adds its size times the time that it stays.
    stats_.queue_time += bytes * (free_at_ - static_cast<double>(sim_.now()));
    stats_.longest = std::max(stats_.longest, before + bytes);
    ++stats_.frames;
    stats_.bytes += frame.size() + 24;
    if (const auto at = find_parts(frame))
      stats_.flows[bth_of(frame, *at).dest_qp.value] += frame.size();
    return static_cast<Nanos>(free_at_);
  }
  [[nodiscard]] double probability(double length) const {
    if (length <= options_.k_min) return 0;
    if (length > options_.k_max) return 1;
    return options_.p_max * (length - options_.k_min) / (options_.k_max - options_.k_min);
  }
  bool chance(double p) { return p > 0 && std::uniform_real_distribution<>(0, 1)(random_) < p; }

  Sim& sim_;
  RedOptions options_;
  double free_at_ = 0;  // when the queue will be empty
  std::mt19937_64 random_{7};
  Stats stats_;
};

// Jain's fairness index.
inline double jain(const std::vector<double>& rates) {
  double sum = 0;
  double squares = 0;
  for (const double r : rates) {
    sum += r;
    squares += r * r;
  }
  return squares == 0 ? 0 : sum * sum / (static_cast<double>(rates.size()) * squares);
}

// The probability of a mark in the fixed point of the fluid model (Zhu et al., section 5.1), for
// `flows` flows that share `rate` bit/s in packets of `packet` bits.
inline double marks_of_model(unsigned flows, double rate, double packet,
                             const CongestionParams& params) {
  const double r = rate / flows / packet;
  const double tau = static_cast<double>(params.nanos(TERN_CC_NP_MIN_TIME_BETWEEN_CNPS)) * 1e-9;
  const double tau_alpha = static_cast<double>(params.nanos(TERN_CC_RP_DCE_TCP_RTT)) * 1e-9;
  const double timer = static_cast<double>(params.nanos(TERN_CC_RP_TIME_RESET)) * 1e-9;
  const double counter = params.get(TERN_CC_RP_BYTE_RESET) * 8.0 / packet;
  const double stages = params.get(TERN_CC_RP_THRESHOLD);
  const double step = static_cast<double>(params.bits_per_second(TERN_CC_RP_AI_RATE)) / packet;
  const auto balance = [&](double p) {  // decrease of the rate minus its increase
    const double quiet = std::log1p(-p);
    const auto events = [&](double n) { return p / std::expm1(std::min(-quiet * n, 700.0)); };
    const double alpha = -std::expm1(quiet * tau_alpha * r);
    const double cut = -std::expm1(quiet * tau * r);
    const double by_bytes = events(counter);
    const double by_time = events(timer * r);
    const double gap = tau * step * r *
                       (std::exp(quiet * stages * counter) * by_bytes +
                        std::exp(quiet * stages * timer * r) * by_time) /
                       cut;
    return r * alpha * cut / (2 * tau) - gap / 2 * r * (by_bytes + by_time);
  };
  double low = 1e-9;
  double high = 0.9;
  for (int i = 0; i < 200; ++i) {
    const double middle = std::sqrt(low * high);
    (balance(middle) > 0 ? high : low) = middle;
  }
  return low;
}

}  // namespace tern
