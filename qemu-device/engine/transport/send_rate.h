// SPDX-License-Identifier: GPL-2.0-or-later
// The pacer of a QP that has a rate limit, a static rate, or congestion. Packets of requests and
// READ responses share one rate; acknowledgements are free. The rate is exact to one packet: in
// each interval, a QP that always has work sends what the rate allows, plus or minus one packet.
#pragma once

#include <cstdint>
#include <optional>

#include "core/timers.h"
#include "core/types.h"
#include "transport/reaction_point.h"

namespace tern {

class Archive;
class Connection;
class Context;

// Returns the limit in bit/s of a static rate code (enum ib_rate) for a port of `link_speed`
// Mbit/s; 0: no limit. Returns nothing if there is no such code.
[[nodiscard]] std::optional<std::uint64_t> static_rate(std::uint8_t code, std::uint32_t link_speed);

class SendRate {
 public:
  explicit SendRate(Connection& qp);

  // As in tern_qp_attr.
  void set_limit(std::uint32_t kbit, std::uint32_t max_burst, std::uint32_t typical_packet);
  void set_static(std::uint64_t rate) { static_ = rate; }
  // A congestion notification arrived for the QP.
  void notified();
  // The QP moves to this data path.
  void move_to(Context& context);

  // Returns whether the next packet may leave now. If not, the QP gets a turn once it may.
  [[nodiscard]] bool may_send();
  // A packet of `bytes` bytes on the wire was sent. `packet_rate`: that of its address, 0: none.
  void sent(std::uint32_t bytes, std::uint64_t packet_rate = 0);
  // Whether the QP waits for the time of its next packet.
  [[nodiscard]] bool held() const { return timer_.armed(); }
  // Whether packets may leave without the pacer.
  [[nodiscard]] bool unlimited() const { return rate_ == 0 && !congestion_.active(); }
  // Whether the rate is so slow that the peer should acknowledge each packet: the next request for
  // an acknowledgement may come after the timeout.
  [[nodiscard]] bool slow(std::uint32_t packet) const;
  // The rate in force now, in bit/s; 0: no limit.
  [[nodiscard]] std::uint64_t current();
  // Alternates between false and true: the two halves of the QP take turns to go first.
  bool alternate() { return turn_ = !turn_; }
  void state(Archive& ar);
  [[nodiscard]] const ReactionPoint& congestion() const { return congestion_; }

 private:
  void drain(Nanos now);
  void update(Nanos now);
  [[nodiscard]] std::uint64_t in_force() const;
  // Sets the rate to the lowest limit.
  void enforce();
  void log_rate() const;
  [[nodiscard]] std::uint64_t line() const;
  void expired();

  Connection& qp_;
  Timer timer_;
  ReactionPoint congestion_;
  std::uint64_t limit_ = 0;  // bit/s; 0: none, like the following
  std::uint64_t static_ = 0;
  std::uint64_t packet_rate_ = 0;  // of the last packet's address
  std::uint64_t rate_ = 0;         // the lowest of them
  // Excess of what was sent over the rate, in units of 1e-9 bit: elapsed nanoseconds times bit/s,
  // so that nothing is rounded. Negative: what the QP may catch up on.
  std::int64_t debt_ = 0;
  std::int64_t burst_ = 0;  // a packet may leave while the debt is not above it
  Nanos last_;              // when the debt was valid
  bool burst_set_ = false;
  bool waiting_ = false;  // the QP waits for the time of its next packet
  bool turn_ = false;
};

}  // namespace tern
