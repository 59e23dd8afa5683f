// SPDX-License-Identifier: GPL-2.0-or-later
// A queue pair: its state machine (IBTA 10.3.1), its queues, and the two halves that its type
// selects: SendQueue and Receiver.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/one_of.h"
#include "core/timers.h"
#include "objects/page_faults.h"
#include "objects/queues.h"
#include "objects/uar_pages.h"
#include "transport/connection.h"
#include "transport/datagram.h"
#include "transport/raw.h"
#include "transport/rendezvous.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/tag_responder.h"
#include "transport/unreliable_connection.h"
#include "transport/xrc.h"
#include "wire/packet.h"

namespace tern {

class Qp;
struct RxFrame;

// The scheduler's bookkeeping of a QP.
struct QpSchedule {
  explicit QpSchedule(Qp* qp) : ready(qp), notifying(qp) {}
  Hook<Qp> ready;
  Hook<Qp> notifying;
  Nanos next_notification = 0;  // earliest time
  std::uint32_t turn_left = 0;  // bytes left of a turn that the budget cut short
};

// The members that a message needs come first and are contiguous: prefetch() fetches them.
class alignas(64) Qp final : public QpSchedule, public Connection {
 public:
  // The caller has checked `cmd` against limits; init() checks and copies the page list.
  Qp(Context& context, const tern_cmd_create_qp& cmd, Cq* send_cq, Cq* recv_cq, bool privileged,
     Srq* srq = nullptr);
  ~Qp();

  [[nodiscard]] Status init();
  void set_number(Qpn qpn) { qpn_ = qpn; }
  // Logs a state, a change that has happened, or with TERN_LOG_NO_QP creation and destruction.
  [[gnu::noinline]] void log_state(std::uint8_t from, std::uint8_t to, std::uint32_t cause,
                                   std::uint32_t event = 0) const;

  // MODIFY_QP does all checks before any change. QUERY_QP.
  [[nodiscard]] Status modify(const tern_cmd_modify_qp& cmd);
  void query(tern_rsp_query_qp* rsp) const;

  // Saved state, besides the number. command() is what the constructor needs; reading replaces
  // init().
  [[nodiscard]] tern_cmd_create_qp command() const;
  void archive(Archive& ar, const Table<CounterSet>& sets, const Table<CompCounter>& counters,
               const LaneGroup& group);

  // RESUME_QP: ends the page fault of half `side` (TERN_FAULT_*) with `result` (TERN_RESUME_*).
  // Returns TERN_ST_BAD_STATE if that half has no reported fault with this token.
  [[nodiscard]] Status resume_fault(std::uint8_t side, std::uint32_t token, std::uint8_t result);

  // The QP moves to this lane.
  void move_to(Context& lane);
  // XRC target: its entry in the list of its domain.
  [[nodiscard]] CqUser& domain_entry() { return send_user_; }

  // BIND_COUNTER_SET: counts in `set` from now on, or with null in the device's counters.
  void bind(CounterSet* set);
  // ATTACH_COMP_CNTR: whether the operations `ops`, TERN_COMP_OP_*, may get a completion counter;
  // gives it to them.
  [[nodiscard]] Status check_attach(std::uint32_t ops) const;
  void attach(CompCounter& counter, std::uint32_t ops);

  // Doorbells.
  void kick_sq();
  void kick_rq();
  // TERN_DB_CMD_PAGE: as if software had rung every doorbell of the QP.
  void recheck();

  // Does work for about `allowance` bytes and decrements it. Returns true if the QP has more to do.
  bool service(std::uint32_t& allowance);
  // Handles a packet addressed to this QP. The caller has compared the transport class.
  void deliver(const Packet& packet);
  // Handles a congestion notification from the peer. Returns false if the QP ignores it.
  bool congestion_notified();
  // Handles a frame that a flow or an RSS group gives to this QP. Returns whether it was stored.
  bool receive(const RxFrame& frame);
  // Returns whether the QP is connected and a packet with this `route` is from its peer.
  [[nodiscard]] bool has_peer(const Route& route) const;

  [[nodiscard]] std::uint8_t type() const { return cmd_.type; }
  [[nodiscard]] bool xrc_target() const { return cmd_.type == TERN_QPT_XRC_TGT; }
  [[nodiscard]] std::uint32_t uar() const { return cmd_.uar; }
  [[nodiscard]] Cq* send_cq() const { return send_cq_; }
  [[nodiscard]] Cq* recv_cq() const { return recv_cq_; }
  [[nodiscard]] std::uint64_t page_entries() const { return buffer_.page_entries(); }
  // XRC target: returns whether the receive WQE it holds can never complete because the CQ is dead.
  [[nodiscard]] bool holds_dead_receive() const { return receiver_->receives_into_dead(); }
  [[nodiscard]] bool has_rq() const { return !(cmd_.flags & TERN_QP_F_NO_RQ); }
  // Returns whether sq_pi has moved since the send queue read it, and no kick is pending. An
  // unreadable record counts as moved.
  [[nodiscard]] bool sq_moved();
  // Ends the messages in progress that have matched a tag: the QP is about to be destroyed.
  void end_tags();

  // Stores in the QP's record which doorbells the device needs, then issues a full barrier. If a
  // poster of sends read the old status, the device sees its producer index after this.
  void store_status();
  // Hint that the QP will be used soon: with many QPs it is unlikely to be cached.
  void prefetch() const {
    const auto* const bytes = reinterpret_cast<const std::byte*>(this);
    const auto used =
        static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&page_queue_) - bytes);
    for (std::size_t i = 0; i < used; i += alignof(Qp)) __builtin_prefetch(bytes + i);
  }

  [[nodiscard]] PageQueue& page_queue() { return page_queue_; }

 private:
  friend class Connection;

  static const CqUser::Kind kCqUser;

  // Members that few QPs use; see rare_state().
  struct RareState {
    explicit RareState(Qp& qp);
    std::array<Fault, 2> faults;  // by TERN_FAULT_*
    Timer rq_settled;             // in ERR: when it expires, rq_pi is read once more
    CounterSet* counter_set = nullptr;
    std::array<CompCounter*, TERN_COMP_OP_NUM> comp_counters{};  // by bit of TERN_COMP_OP_*
    std::unique_ptr<Rendezvous> rendezvous;
  };
  // Allocates it if necessary.
  [[nodiscard]] RareState& rare_state();
  void attributes_state(Archive& ar);
  void rare_state(Archive& ar, const Table<CounterSet>& sets, const Table<CompCounter>& counters,
                  const LaneGroup& group);
  void faults_state(Archive& ar);

  [[nodiscard]] Status check_values(std::uint32_t mask, const tern_qp_attr& a) const;
  void apply(std::uint32_t mask, const tern_qp_attr& a);
  [[nodiscard]] Status check_migration(std::uint32_t mask, const tern_qp_alt& alt) const;
  void apply_migration(std::uint32_t mask, const tern_qp_alt& alt, const Route& route);
  [[nodiscard]] bool takes(bool request) const;
  [[nodiscard]] bool from_peer(const Packet& packet);
  [[nodiscard]] Status set_stripping(std::uint32_t mask, std::uint32_t flags);
  void change_state(std::uint8_t next, bool notify);
  // `cause`: TERN_LOG_BY_*, `event`: TERN_EV_*, 0 for none.
  void set_state(std::uint8_t next, std::uint32_t cause, std::uint32_t event = 0);
  void to_reset();
  void cancel_faults();
  void detach_comp_counters();
  void log_fault(std::uint8_t code, const Fault& fault) const;
  [[gnu::noinline]] void log_wqe(const RecvWqe& wqe) const;
  void log_refused(const Packet& packet) const;
  bool flush_rq(std::uint32_t& allowance);
  bool service_paced(std::uint32_t& allowance);
  void set_rates(std::uint32_t mask);
  [[nodiscard]] std::uint32_t rq_size() const { return 1U << cmd_.log_rq_size; }
  [[nodiscard]] std::uint64_t rq_slot(std::uint32_t index) const;

  std::uint32_t rq_ci_ = 0;
  bool comm_est_ = false;
  bool sqd_notify_ = false;
  Cq* send_cq_;
  Cq* recv_cq_;
  Srq* srq_;
  Record record_;
  QueueBuffer buffer_;

  // The two halves that the QP type selects.
  OneOf<SendQueue, Requester, UcSender, DatagramSender, RawSender> sender_;
  OneOf<Receiver, Responder, XrcResponder, TagResponder, UcReceiver, DatagramReceiver, RawReceiver>
      receiver_;
  // prefetch() stops here: no message needs the members below.
  PageQueue page_queue_;
  CqUser send_user_;
  CqUser recv_user_;
  std::unique_ptr<RareState> rare_state_;
};

}  // namespace tern
