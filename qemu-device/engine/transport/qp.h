// SPDX-License-Identifier: GPL-2.0-or-later
// A queue pair: its state machine (IBTA 10.3.1), its queues, and the two halves that its type
// selects: SendQueue and Receiver.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/counters.h"
#include "core/one_of.h"
#include "core/polled.h"
#include "core/timers.h"
#include "objects/page_faults.h"
#include "objects/queues.h"
#include "objects/uar_pages.h"
#include "transport/datagram.h"
#include "transport/path_migration.h"
#include "transport/raw.h"
#include "transport/rendezvous.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/send_rate.h"
#include "transport/tag_responder.h"
#include "transport/unreliable_connection.h"
#include "transport/xrc.h"
#include "wire/packet.h"

namespace tern {

class Context;
class Srq;
class TagList;
struct RxFrame;

// The members that a message needs come first and are contiguous: prefetch() fetches them.
class alignas(64) Qp {
 public:
  // The caller has checked `cmd` against limits; init() checks and copies the page list.
  Qp(Context& context, const tern_cmd_create_qp& cmd, Cq* send_cq, Cq* recv_cq, bool privileged,
     Srq* srq = nullptr);
  ~Qp();
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  [[nodiscard]] Status init();
  void set_number(Qpn qpn) { qpn_ = qpn; }
  // Logs a state, a change that has happened, or with TERN_LOG_NO_QP creation and destruction.
  [[gnu::noinline]] void log_state(std::uint8_t from, std::uint8_t to, std::uint32_t cause,
                                   std::uint32_t event = 0) const;
  // Generation of its number, constant for the QP's life; see Context::next_serial().
  [[nodiscard]] std::uint32_t generation() const { return serial_; }

  // MODIFY_QP does all checks before any change. QUERY_QP.
  [[nodiscard]] Status modify(const tern_cmd_modify_qp& cmd);
  void query(tern_rsp_query_qp* rsp) const;

  // RESUME_QP: ends the page fault of half `side` (TERN_FAULT_*) with `result` (TERN_RESUME_*).
  // Returns TERN_ST_BAD_STATE if that half has no reported fault with this token.
  [[nodiscard]] Status resume_fault(std::uint8_t side, std::uint32_t token, std::uint8_t result);

  // Reports a page fault of half `side`, whose access met an absent page (Memory::missing()).
  // `rest`: bytes after the access that the message will use as well. Returns false, and reports
  // nothing, if the half has a fault already.
  bool raise_fault(std::uint8_t side, std::uint64_t rest = 0);
  [[nodiscard]] bool faulting(std::uint8_t side) const { return faulting_ & 1U << side; }

  // BIND_COUNTER_SET: counts in `set` from now on, or with null in the device's counters.
  void bind(CounterSet* set);
  // TERN_CNT_* of events that concern this QP.
  [[nodiscard]] Counters& counters() const { return *counters_; }

  // Doorbells.
  void kick_sq();
  void kick_rq();
  // TERN_DB_CMD_PAGE: as if software had rung every doorbell of the QP.
  void look();

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
  // Handles a packet that came by a path of this connection and that the peer may send now: it may
  // arm the QP or let it migrate. Returns false if the packet must be dropped.
  [[nodiscard]] bool follow(const Packet& packet) {
    return migration_ == nullptr || migration_->follow(packet);
  }
  // The peer does not answer: migrates. Returns false if the QP is not armed.
  bool migrate() { return migration_ != nullptr && migration_->migrate(); }
  // Makes `path`, in the contract's byte order, the primary path.
  void use_path(const tern_qp_alt& path, const Route& route);
  // Fills in the fields that all packets to the peer share.
  void address(Packet& packet) const {
    packet.transport = transport_;
    packet.src_qp = qpn_;
    packet.dest_qp = Qpn(attr_.dest_qpn);
    packet.route = route_;
    packet.mig_req = migration_ == nullptr || migration_->mig_req();
  }

  // Moves the QP to the error state and flushes both queues. `event`: TERN_EV_*, negative for none.
  // `silent`: software requested the state, and queued answers are not sent.
  void enter_error(int event, bool silent = false);
  // A send WQE completed with an error. An RC or XRC QP goes to ERR, a QP of another type to SQE,
  // in which receiving continues (IBTA 10.3.1.6).
  void send_failed();

  [[nodiscard]] Qpn number() const { return qpn_; }
  [[nodiscard]] std::uint8_t state() const { return attr_.state; }
  [[nodiscard]] std::uint8_t type() const { return cmd_.type; }
  [[nodiscard]] Transport transport() const { return transport_; }
  [[nodiscard]] std::uint8_t flags() const { return cmd_.flags; }
  [[nodiscard]] bool xrc_target() const { return cmd_.type == TERN_QPT_XRC_TGT; }
  [[nodiscard]] std::uint32_t xrcd() const { return cmd_.xrcdn; }
  [[nodiscard]] std::uint32_t uar() const { return cmd_.uar; }
  [[nodiscard]] Pdn pd() const { return Pdn(cmd_.pdn); }
  [[nodiscard]] Accessor accessor() const { return {pd(), privileged_, qpn_, generation_}; }
  [[nodiscard]] const tern_qp_attr& attr() const { return attr_; }
  [[nodiscard]] std::uint32_t mtu() const { return 1U << attr_.path_mtu; }
  [[nodiscard]] const Route* route() const { return has_route_ ? &route_ : nullptr; }
  // Whether the connection has this option, TERN_ECE_*.
  [[nodiscard]] bool ece(std::uint8_t option) const { return ece_ & option; }
  [[nodiscard]] Context& context() const { return context_; }
  [[nodiscard]] Cq* send_cq() const { return send_cq_; }
  [[nodiscard]] Cq* recv_cq() const { return recv_cq_; }
  [[nodiscard]] std::uint64_t page_entries() const { return buffer_.page_entries(); }
  // XRC target: returns whether the receive WQE it holds can never complete because the CQ is dead.
  [[nodiscard]] bool holds_dead_receive() const { return receiver_->receives_into_dead(); }

  // The queues, for SendQueue and Receiver.
  [[nodiscard]] std::uint32_t sq_size() const { return 1U << cmd_.log_sq_size; }
  [[nodiscard]] std::uint32_t sq_stride() const { return 1U << cmd_.log_sq_stride; }
  [[nodiscard]] bool has_sq() const { return !(cmd_.flags & TERN_QP_F_NO_SQ); }
  // Whether there are send WQEs: the QP has an SQ, or the device uses its sending half itself.
  [[nodiscard]] bool sends() const { return has_sq() || fetches_; }
  // tag_list(): of its SRQ; null if that has none. rendezvous(): fetches the data of rendezvous;
  // null if software does.
  [[nodiscard]] TagList* tag_list() const;
  [[nodiscard]] Rendezvous* rendezvous() const {
    return seldom_ ? seldom_->rendezvous.get() : nullptr;
  }
  // Ends the messages in progress that have matched a tag: the QP is about to be destroyed.
  void end_tags();
  // Accessor for the keys of send WQEs' SGEs.
  [[nodiscard]] Accessor send_accessor() const;
  [[nodiscard]] bool has_rq() const { return !(cmd_.flags & TERN_QP_F_NO_RQ); }
  [[nodiscard]] bool receives() const { return has_rq() || srq_ != nullptr; }
  [[nodiscard]] std::optional<std::uint32_t> read_sq_pi();
  // Returns whether sq_pi has moved since the send queue read it, and no kick is pending. An
  // unreadable record counts as moved.
  [[nodiscard]] bool sq_moved();
  // Reads bytes of slot `index`, from byte `offset` on. Returns false if they are not reachable.
  [[nodiscard]] bool read_sq_slot(std::uint32_t index, std::size_t offset, std::span<std::byte> to);
  // Takes the next receive WQE of the RQ or the SRQ. kFailed: the queue itself is unusable (DMA
  // error, index jump, too many SGEs). `xrc`: the SRQ that an XRC request refers to.
  [[nodiscard]] Take take_rq_wqe(RecvWqe& wqe, Srq* xrc = nullptr);
  // Writes a completion to the send or receive CQ. If that fails, the QP goes to the error state. A
  // receive of an XRC target completes into the CQ of its SRQ, and is dropped if the SRQ is gone.
  void complete_send(tern_cqe& cqe);
  void complete_recv(tern_cqe& cqe);
  // A valid packet arrived. The first one in RTR raises COMM_EST (IBTA 11.6.3.1).
  void communication_established();
  // The send queue is drained: raises SQ_DRAINED if software asked for it.
  void sq_drained();

  // Stores in the QP's record which doorbells the device needs, then issues a full barrier. If a
  // poster of sends read the old status, the device sees its producer index after this.
  void store_status();
  // Asks the scheduler for a turn.
  void wake();

  // Null if the QP was never limited.
  [[nodiscard]] SendRate* send_rate() const { return send_rate_.get(); }
  [[nodiscard]] SendRate& make_send_rate();
  // Sends a packet of a connection, which counts against the QP's rate.
  void send_paced(Packet& packet);
  // Whether its next packet has to wait for the pacer, which gives the QP a turn then.
  [[nodiscard]] bool paced() const { return send_rate_ != nullptr && !send_rate_->may_send(); }
  // Context::may_train(), unless the pacer needs single packets.
  [[nodiscard]] bool may_train() const;
  // Approximate size of its longest packets on the wire, in bytes.
  [[nodiscard]] std::uint32_t packet_bytes() const;
  // Hint that the QP will be used soon: with many QPs it is unlikely to be cached.
  void prefetch() const {
    const auto* const bytes = reinterpret_cast<const std::byte*>(this);
    const auto used =
        static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&page_queue_) - bytes);
    for (std::size_t i = 0; i < used; i += alignof(Qp)) __builtin_prefetch(bytes + i);
  }

  [[nodiscard]] PageQueue& page_queue() { return page_queue_; }
  // Resolves the route of `av`; nullopt if the source GID is not ours. Sets ECT if congestion
  // control is on.
  [[nodiscard]] std::optional<Route> route_of(const tern_av& av, std::uint8_t port, Qpn dest) const;

  // Scheduler's bookkeeping.
  Hook<Qp> ready{this};
  Hook<Qp> notifying{this};
  std::uint32_t turn_left = 0;  // bytes left of a turn that the budget cut short
  Polled polled;
  Nanos next_notification = 0;  // earliest time

 private:
  // Members that few QPs use; see seldom().
  struct Seldom {
    explicit Seldom(Qp& qp);
    std::array<Fault, 2> faults;  // by TERN_FAULT_*
    Timer rq_settled;             // in ERR: when it expires, rq_pi is read once more
    CounterSet* counter_set = nullptr;
    std::unique_ptr<Rendezvous> rendezvous;
  };
  // Allocates it if necessary.
  [[nodiscard]] Seldom& seldom();

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
  void log_fault(std::uint8_t code, const Fault& fault) const;
  [[gnu::noinline]] void log_wqe(const RecvWqe& wqe) const;
  void log_refused(const Packet& packet) const;
  bool flush_rq(std::uint32_t& allowance);
  bool service_paced(std::uint32_t& allowance);
  void set_rates(std::uint32_t mask);
  [[nodiscard]] std::uint32_t rq_size() const { return 1U << cmd_.log_rq_size; }
  [[nodiscard]] std::uint64_t rq_slot(std::uint32_t index) const;

  Transport transport_;  // in the cache line that the scheduler reads
  bool privileged_;
  bool has_route_ = false;
  std::uint8_t faulting_ = 0;  // a bit for each fault that has not ended
  bool fetches_ = false;       // rendezvous() exists
  bool comm_est_ = false;
  bool sqd_notify_ = false;
  std::uint8_t ece_ = 0;  // TERN_ECE_*
  Context& context_;
  Counters* counters_;
  tern_cmd_create_qp cmd_;  // in host byte order, except for the page list
  Cq* send_cq_;
  Cq* recv_cq_;
  Srq* srq_;
  Record record_;
  QueueBuffer buffer_;
  Qpn qpn_;
  std::uint32_t rq_ci_ = 0;
  std::uint64_t generation_;  // Accessor::generation
  tern_qp_attr attr_{};       // in host byte order
  Route route_;
  std::uint32_t serial_;                      // generation()
  std::unique_ptr<PathMigration> migration_;  // made with the first alternate path

  // The two halves that the QP type selects.
  OneOf<SendQueue, Requester, UcSender, DatagramSender, RawSender> sender_;
  OneOf<Receiver, Responder, XrcResponder, TagResponder, UcReceiver, DatagramReceiver, RawReceiver>
      receiver_;
  std::unique_ptr<SendRate> send_rate_;
  // prefetch() stops here: no message needs the members below.
  PageQueue page_queue_;
  CqUser send_user_;
  CqUser recv_user_;
  std::unique_ptr<Seldom> seldom_;
};

}  // namespace tern
