// SPDX-License-Identifier: GPL-2.0-or-later
// The sending half of a reliable connection: fetches send WQEs, segments them into packets, handles
// acknowledgements and responses, and retransmits lost packets (IBTA 9.7.3 to 9.7.8, 10.7).
#pragma once

#include <cstdint>
#include <span>

#include "core/timers.h"
#include "transport/send_queue.h"
#include "wire/packet.h"

namespace tern {

class Requester final : public SendQueue {
 public:
  explicit Requester(Connection& qp);
  ~Requester() override;

  void start() override;
  void reset() override;
  void path_changed() override;
  void stop() override {
    timer_.cancel();
    unshare();
  }
  void move_to(Context& context) override;
  bool transmit(std::uint32_t& allowance) override;
  void fault_over(bool failed) override;
  void state(Archive& ar) override;
  // Handles an ACK, NAK, READ response or ATOMIC acknowledge.
  void deliver(const Packet& packet) override;

 private:
  enum class TimerUse : std::uint8_t { kAck, kRnr };
  static constexpr std::uint32_t kMaxOpenPsns = 1U << 23;

  void begun_state(Archive& ar) const;
  [[nodiscard]] std::uint32_t psns_of(const SendWqe& wqe) const override;
  bool waits(const SendWqe& wqe) const;
  bool may_start(const SendWqe& wqe) const;
  void begin(SendWqe& wqe);
  bool window_full() const;
  void catch_up();
  bool send_one(SendWqe& wqe, std::uint32_t& allowance);
  bool run_local(SendWqe& wqe, std::uint32_t& allowance);
  void send_read(SendWqe& wqe);
  void send_atomic(SendWqe& wqe);
  bool send_atomic_write(SendWqe& wqe);
  void send_flush(SendWqe& wqe);
  void emit_answered(const SendWqe& wqe, Op op);
  std::uint32_t train_of(const SendWqe& wqe, std::uint32_t allowance) const;
  bool unavailable(SendWqe& wqe, std::uint8_t status);
  bool send_data(SendWqe& wqe, std::uint32_t train);
  void emit(Op op, Psn psn, std::uint32_t train = 1);
  void unshare();
  void unshare_before(Psn psn);

  void on_ack(const Packet& packet);
  void on_nak(const Packet& packet);
  void on_rnr(const Packet& packet);
  void drop(SendWqe& wqe, std::uint8_t status);
  void store_part(const Packet& packet, SendWqe& wqe, std::uint32_t offset);
  void on_read_response(const Packet& packet);
  void on_atomic_ack(const Packet& packet);
  bool acknowledge_before(Psn psn);
  bool acknowledge(Psn psn, std::uint32_t limit);
  bool retire();
  void mark_done(std::uint32_t index);

  void go_back();
  void log_retry() const;
  void implied_nak();
  void go_back_once();
  void retry();
  void progressed();
  void arm_ack_timer();
  void expired();

  // Distances are unsigned: a READ of 2 GiB at MTU 256 takes all 2^23 PSNs a side may have
  // outstanding.
  [[nodiscard]] static std::uint32_t distance(Psn from, Psn to) {
    return (to.value() - from.value()) & 0xffffffU;
  }
  [[nodiscard]] std::uint32_t offset_of(Psn psn) const { return distance(oldest_.psn, psn); }
  [[nodiscard]] bool in_flight(Psn psn) const { return offset_of(psn) < offset_of(sent_psn_); }
  SendWqe* wqe_of(Psn psn);

  // The small members come first: they fill the end of the base class. The last one fills that of
  // this class.
  std::uint8_t retries_left_ = 0;
  std::uint8_t rnr_left_ = 0;
  TimerUse timer_use_ = TimerUse::kAck;
  bool rnr_wait_ = false;
  bool repeat_ = false;     // go back once the page fault has ended
  bool went_back_ = false;  // since the last progress or timeout
  Timer timer_;
  Psn sent_psn_;                  // one past the highest PSN sent (READ: of its response)
  Psn window_psn_;                // start of the window of unacknowledged packets
  std::uint32_t reads_out_ = 0;   // responds() WQEs before the cursor that are not done
  std::uint8_t share_queue_ = 0;  // Context::share_queue(), if it is this half's
};

}  // namespace tern
