// SPDX-License-Identifier: GPL-2.0-or-later
// The sending half of a reliable connection: fetches send WQEs, cuts them into packets, takes
// acknowledgements and responses, sends again what was lost (IBTA 9.7.3 to 9.7.8, 10.7).
#pragma once

#include <cstdint>
#include <span>

#include "core/timers.h"
#include "transport/send_wqe.h"
#include "wire/packet.h"

namespace tern {

class Qp;

class Requester {
 public:
  explicit Requester(Qp& qp);

  // To RTS for the first time, with attr().sq_psn. Back to nothing.
  void start();
  void reset();

  // The producer index may have moved.
  void kick() { kicked_ = true; }
  // Sends packets for about `allowance` bytes, decrementing it; true when more can be sent now.
  bool transmit(std::uint32_t& allowance);
  // ACK, NAK, READ response or ATOMIC acknowledge.
  void deliver(const Packet& packet);
  // Completes everything posted with WR_FLUSH_ERR; true when the allowance ran out before.
  bool flush(std::uint32_t& allowance);
  void stop_timer() { timer_.cancel(); }

  // Nothing begun is incomplete: in SQD, the queue is drained.
  [[nodiscard]] bool drained() const;
  [[nodiscard]] std::uint32_t consumer_index() const { return una_; }
  [[nodiscard]] Psn next_psn() const { return next_psn_; }

 private:
  enum class TimerUse : std::uint8_t { kAck, kRnr };

  bool fetch();
  bool waits(const SendWqe& wqe) const;
  bool may_start(const SendWqe& wqe) const;
  void begin(SendWqe& wqe);
  bool copy_slot(std::uint32_t index);
  bool window_full(const SendWqe& wqe) const;
  void catch_up();
  bool send_one(SendWqe& wqe, std::uint32_t& allowance);
  bool run_local(SendWqe& wqe, std::uint32_t& allowance);
  bool execute_local(SendWqe& wqe);
  void send_read(SendWqe& wqe);
  void send_atomic(SendWqe& wqe);
  bool send_data(SendWqe& wqe);
  void emit(Op op, Psn psn);
  std::uint8_t gather(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len, bool write,
                      SpanList& out);

  void on_ack(const Packet& packet);
  void on_nak(const Packet& packet);
  void on_rnr(const Packet& packet);
  void on_read_response(const Packet& packet);
  void on_atomic_ack(const Packet& packet);
  bool acknowledge_before(Psn psn);
  bool acknowledge(Psn psn, std::uint32_t limit);
  bool retire();
  void mark_done(std::uint32_t index);
  void complete(const SendWqe& wqe, std::uint8_t status);

  void go_back();
  void implied_nak();
  void go_back_once();
  void retry();
  void progressed();
  void arm_ack_timer();
  void expired();

  // Distances are unsigned: a READ of 2 GiB at MTU 256 takes all 2^23 PSNs a side may have open.
  [[nodiscard]] static std::uint32_t distance(Psn from, Psn to) {
    return (to.value() - from.value()) & 0xffffffU;
  }
  [[nodiscard]] std::uint32_t offset_of(Psn psn) const { return distance(una_psn_, psn); }
  [[nodiscard]] bool in_flight(Psn psn) const { return offset_of(psn) < offset_of(sent_psn_); }
  SendWqe* wqe_of(Psn psn);

  Qp& qp_;
  SendWindow window_;
  Timer timer_;
  // Free-running WQE indices: una_ <= cursor_ <= fetched_ <= posted_.
  std::uint32_t una_ = 0;      // oldest incomplete
  std::uint32_t cursor_ = 0;   // the one being sent
  std::uint32_t fetched_ = 0;  // first not copied yet
  std::uint32_t posted_ = 0;   // producer index last read
  std::uint32_t cursor_packet_ = 0;
  Psn una_psn_;      // oldest PSN not acknowledged
  Psn next_psn_;     // first PSN not given to a WQE
  Psn sent_psn_;     // one past the highest PSN sent (READ: of its response)
  Psn window_psn_;   // what the limit of unacknowledged packets counts from
  std::uint32_t reads_out_ = 0;  // READs and atomics begun before the cursor and not done
  std::uint8_t retries_left_ = 0;
  std::uint8_t rnr_left_ = 0;
  TimerUse timer_use_ = TimerUse::kAck;
  bool rnr_wait_ = false;
  bool went_back_ = false;  // since the last progress or timeout
  bool kicked_ = false;
};

}  // namespace tern
