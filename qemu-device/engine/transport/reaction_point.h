// SPDX-License-Identifier: GPL-2.0-or-later
// The rate of one flow under DCQCN: Zhu et al., "Congestion Control for Large-Scale RDMA
// Deployments", SIGCOMM 2015, section 4. It has no timer of its own: the caller passes the time
// before it uses the rate.
#pragma once

#include <cstdint>

#include "core/congestion.h"
#include "core/types.h"

namespace tern {

class ReactionPoint {
 public:
  // Whether the flow is limited. A flow without notifications recovers and is free again.
  [[nodiscard]] bool active() const { return active_; }
  [[nodiscard]] std::uint64_t rate() const { return rate_; }  // bit/s
  [[nodiscard]] std::uint64_t target() const { return target_; }
  // In units of 2^-20.
  [[nodiscard]] std::uint32_t alpha() const { return alpha_; }
  // Time of the next increase by the timer.
  [[nodiscard]] Nanos next() const { return time_next_; }

  // Handles a congestion notification. `line`: the rate of the port, bit/s.
  void notified(const CongestionParams& params, std::uint64_t line, Nanos now);
  // Accounts for `bytes` bytes that the flow has sent.
  void sent(const CongestionParams& params, std::uint64_t line, std::uint32_t bytes);
  void state(Archive& ar);
  // Processes the timers due until `now`, in bounded steps.
  void advance(const CongestionParams& params, std::uint64_t line, Nanos now);

 private:
  void begin(const CongestionParams& params, std::uint64_t line);
  void cut(const CongestionParams& params);
  void increase(const CongestionParams& params, std::uint64_t line);

  bool active_ = false;
  bool increased_ = false;   // since the last cut, in a way that makes the rate the target
  std::uint32_t alpha_ = 0;  // congestion estimate, of 2^20
  std::uint32_t time_stage_ = 0;
  std::uint32_t byte_stage_ = 0;
  std::uint64_t rate_ = 0;
  std::uint64_t target_ = 0;
  std::uint64_t bytes_ = 0;  // since the last increase by bytes
  Nanos alpha_next_ = 0;
  Nanos time_next_ = 0;
  Nanos last_cut_ = 0;
};

}  // namespace tern
