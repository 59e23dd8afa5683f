// SPDX-License-Identifier: GPL-2.0-or-later
// A queue pair: its state machine (IBTA 10.3.1), its queues, and the two halves that its type
// makes of them: SendQueue and Receiver.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "core/timers.h"
#include "objects/page_faults.h"
#include "objects/queues.h"
#include "objects/uar_pages.h"
#include "transport/datagram.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/sq_poller.h"
#include "transport/unreliable_connection.h"
#include "transport/xrc.h"
#include "wire/packet.h"

namespace tern {

class Context;
class Srq;

// All of it lies in a row, so that prefetch() reaches it.
class alignas(64) Qp {
 public:
  // `cmd` has been checked against limits; init() checks and copies the page list.
  Qp(Context& context, const tern_cmd_create_qp& cmd, Cq* send_cq, Cq* recv_cq, bool privileged,
     Srq* srq = nullptr);
  ~Qp();
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  [[nodiscard]] Status init();
  void set_number(Qpn qpn) { qpn_ = qpn; }

  // MODIFY_QP: all checks first, then all changes. QUERY_QP.
  [[nodiscard]] Status modify(const tern_cmd_modify_qp& cmd);
  void query(tern_rsp_query_qp* rsp) const;

  // RESUME_QP: ends the fault of one half, TERN_FAULT_*, by TERN_RESUME_*. TERN_ST_BAD_STATE: no such fault waits.
  [[nodiscard]] Status resume_fault(std::uint8_t side, std::uint32_t token, std::uint8_t result);

  // An access of one half met an absent page, Memory::missing(): reports it, unless that half has a fault
  // already. `rest`: bytes behind the access that the message will use as well. False: it has one.
  bool raise_fault(std::uint8_t side, std::uint64_t rest = 0);
  [[nodiscard]] bool faulting(std::uint8_t side) const {
    return faulting_ & 1U << side;
  }

  // Doorbells.
  void kick_sq();
  void kick_rq();
  // All of them: TERN_DB_CMD_PAGE.
  void look();

  // Serves the QP for about `allowance` bytes, decrementing it; true when it has more to do.
  bool service(std::uint32_t& allowance);
  // A packet addressed to this QP, its transport class already compared.
  void deliver(const Packet& packet);
  // Whether the QP is connected, and the packet that came by `route` is from its peer.
  [[nodiscard]] bool has_peer(const Route& route) const;

  // To the error state: flushes both queues. `event`: TERN_EV_* or none (negative).
  void enter_error(int event, bool silent = false);
  // A send WQE completed with an error: ERR when somebody waits for answers, else SQE, where
  // receiving goes on (IBTA 10.3.1.6).
  void send_failed();

  [[nodiscard]] Qpn number() const { return qpn_; }
  [[nodiscard]] std::uint8_t state() const { return attr_.state; }
  [[nodiscard]] std::uint8_t type() const { return cmd_.type; }
  [[nodiscard]] Transport transport() const { return transport_; }
  [[nodiscard]] bool xrc_target() const { return cmd_.type == TERN_QPT_XRC_TGT; }
  [[nodiscard]] std::uint32_t xrcd() const { return cmd_.xrcdn; }
  [[nodiscard]] std::uint32_t uar() const { return cmd_.uar; }
  [[nodiscard]] Pdn pd() const { return Pdn(cmd_.pdn); }
  [[nodiscard]] Accessor accessor() const { return {pd(), privileged_, qpn_, generation_}; }
  [[nodiscard]] const tern_qp_attr& attr() const { return attr_; }
  [[nodiscard]] std::uint32_t mtu() const { return 1U << attr_.path_mtu; }
  [[nodiscard]] const Route* route() const { return has_route_ ? &route_ : nullptr; }
  [[nodiscard]] Context& context() const { return context_; }
  [[nodiscard]] Cq* send_cq() const { return send_cq_; }
  [[nodiscard]] Cq* recv_cq() const { return recv_cq_; }
  [[nodiscard]] std::uint64_t page_entries() const { return buffer_.page_entries(); }
  // Of an XRC target: whether the receive WQE it holds can never complete, because the CQ is dead.
  [[nodiscard]] bool holds_dead_receive() const { return receiver_->receives_into_dead(); }

  // Send queue as SendQueue reads it.
  [[nodiscard]] std::uint32_t sq_size() const { return 1U << cmd_.log_sq_size; }
  [[nodiscard]] std::uint32_t sq_stride() const { return 1U << cmd_.log_sq_stride; }
  [[nodiscard]] bool has_sq() const { return !(cmd_.flags & TERN_QP_F_NO_SQ); }
  [[nodiscard]] bool has_rq() const { return !(cmd_.flags & TERN_QP_F_NO_RQ); }
  [[nodiscard]] std::optional<std::uint32_t> read_sq_pi();
  // Whether it shows something that nobody has told the send queue of.
  [[nodiscard]] bool sq_moved();
  // Bytes of slot `index` from `offset` on; false when they cannot be reached.
  [[nodiscard]] bool read_sq_slot(std::uint32_t index, std::size_t offset, std::span<std::byte> to);
  // The next receive WQE, of the RQ or the SRQ. kFailed (DMA error, index jump, too many SGEs): the
  // queue's own fault. `xrc`: the SRQ an XRC request named.
  [[nodiscard]] Take take_rq_wqe(RecvWqe& wqe, Srq* xrc = nullptr);
  // Completes into the send or receive CQ; a failed push is the CQ's error, not the caller's. An
  // XRC target's receive goes to the CQ of the SRQ, and vanishes with that.
  void complete_send(tern_cqe& cqe);
  void complete_recv(tern_cqe& cqe);
  // First packet of an established connection while in RTR (IBTA 11.6.3.1, COMM_EST).
  void communication_established();
  void sq_drained();

  // Tells software in its record which doorbells the device wants. A full barrier follows: who
  // posts and has not seen it yet has stored an index that is seen from here on.
  void store_status();
  // Asks the scheduler for a turn.
  void wake();
  // It will be wanted soon: among many queue pairs it is in no cache near by.
  void prefetch() const {
    const auto* const bytes = reinterpret_cast<const std::byte*>(this);
    const auto used = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&page_queue_) - bytes);
    for (std::size_t i = 0; i < used; i += alignof(Qp)) __builtin_prefetch(bytes + i);
  }

  [[nodiscard]] PageQueue& page_queue() { return page_queue_; }

  // Scheduler's bookkeeping.
  Hook<Qp> ready{this};
  std::uint32_t turn_left = 0;  // bytes of a turn that a budget cut short
  SqPolled polled;

 private:
  [[nodiscard]] Status check_values(std::uint32_t mask, const tern_qp_attr& a) const;
  void apply(std::uint32_t mask, const tern_qp_attr& a);
  void change_state(std::uint8_t next, bool notify);
  void to_reset();
  void cancel_faults();
  bool flush_rq(std::uint32_t& allowance);
  [[nodiscard]] std::uint32_t rq_size() const { return 1U << cmd_.log_rq_size; }
  [[nodiscard]] std::uint64_t rq_slot(std::uint32_t index) const;

  Transport transport_;  // in the line of what the scheduler looks at
  bool privileged_;
  bool has_route_ = false;
  std::uint8_t faulting_ = 0;  // a bit for each of faults_ that is not over
  Context& context_;
  tern_cmd_create_qp cmd_;  // in host byte order, but for the page list
  Cq* send_cq_;
  Cq* recv_cq_;
  Srq* srq_;
  Record record_;
  QueueBuffer buffer_;
  Qpn qpn_;
  std::uint32_t rq_ci_ = 0;
  std::uint64_t generation_;  // Accessor::generation
  tern_qp_attr attr_{};  // in host byte order
  Route route_;
  bool comm_est_ = false;
  bool sqd_notify_ = false;

  // The halves that its type has.
  std::variant<std::monostate, Requester, UcSender, DatagramSender> sender_space_;
  std::variant<std::monostate, Responder, XrcResponder, UcReceiver, DatagramReceiver> receiver_space_;
  SendQueue* sender_;
  Receiver* receiver_;
  // From here on prefetch() does not reach: no message needs it.
  PageQueue page_queue_;
  CqUser send_user_;
  CqUser recv_user_;
  std::array<Fault, 2> faults_;  // by TERN_FAULT_*
  Timer rq_settled_;  // in ERR: rq_pi is read once more
};

}  // namespace tern
