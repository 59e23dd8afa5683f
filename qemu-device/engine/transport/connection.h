// SPDX-License-Identifier: GPL-2.0-or-later
// What the halves of a queue pair, rendezvous, path migration and the pacer need of it. Qp is the
// only Connection of the device, so nothing is virtual: functions that need its queues or its state
// machine are declared here and defined in transport/qp.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/counters.h"
#include "core/polled.h"
#include "memory/memory.h"
#include "objects/recv_wqe.h"
#include "tern_hw.hpp"
#include "transport/path_migration.h"
#include "transport/send_rate.h"
#include "wire/packet.h"

namespace tern {

class CompCounter;
class Context;
class Rendezvous;
class Srq;
class TagList;

class Connection {
 public:
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // ---- attributes ----
  [[nodiscard]] Context& context() const { return *context_; }
  // TERN_CNT_* of events that concern this QP.
  [[nodiscard]] Counters& counters() const { return *counters_; }
  [[nodiscard]] Qpn number() const { return qpn_; }
  // Generation of its number, constant for the QP's life; see DeviceState::next_serial().
  [[nodiscard]] std::uint32_t generation() const { return serial_; }
  [[nodiscard]] std::uint8_t state() const { return attr_.state; }
  [[nodiscard]] Transport transport() const { return transport_; }
  [[nodiscard]] std::uint8_t flags() const { return cmd_.flags; }
  [[nodiscard]] std::uint32_t xrcd() const { return cmd_.xrcdn; }
  [[nodiscard]] const tern_qp_attr& attr() const { return attr_; }
  [[nodiscard]] std::uint32_t mtu() const { return 1U << attr_.path_mtu; }
  // Whether the connection has this option, TERN_ECE_*.
  [[nodiscard]] bool ece(std::uint8_t option) const { return ece_ & option; }
  [[nodiscard]] Pdn pd() const { return Pdn(cmd_.pdn); }
  [[nodiscard]] Accessor accessor() const { return {pd(), privileged_, qpn_, generation_}; }
  // Accessor for the keys of send WQEs' SGEs.
  [[nodiscard]] Accessor send_accessor() const;

  // ---- queues ----
  [[nodiscard]] std::uint32_t sq_size() const { return 1U << cmd_.log_sq_size; }
  [[nodiscard]] std::uint32_t sq_stride() const { return 1U << cmd_.log_sq_stride; }
  [[nodiscard]] bool has_sq() const { return !(cmd_.flags & TERN_QP_F_NO_SQ); }
  // Whether there are send WQEs: the QP has an SQ, or the device uses its sending half itself.
  [[nodiscard]] bool sends() const { return has_sq() || fetches_; }
  [[nodiscard]] bool receives() const;
  [[nodiscard]] std::optional<std::uint32_t> read_sq_pi();
  // Reads bytes of slot `index`, from byte `offset` on. Returns false if they are not reachable.
  [[nodiscard]] bool read_sq_slot(std::uint32_t index, std::size_t offset, std::span<std::byte> to);
  // Takes the next receive WQE of the RQ or the SRQ. kFailed: the queue itself is unusable (DMA
  // error, index jump, too many SGEs). `xrc`: the SRQ that an XRC request refers to.
  [[nodiscard]] Take take_rq_wqe(RecvWqe& wqe, Srq* xrc = nullptr);
  // Writes a completion to the send or receive CQ. If that fails, the QP goes to the error state. A
  // receive of an XRC target completes into the CQ of its SRQ, and is dropped if the SRQ is gone.
  void complete_send(tern_cqe& cqe);
  // `counts`: no further completion is of the same message.
  void complete_recv(tern_cqe& cqe, bool counts = true);
  // Whether one of these operations, TERN_COMP_OP_*, has a completion counter.
  [[nodiscard]] bool counts(unsigned ops) const { return counted_ & ops; }
  // Counts the completion of an operation, if it has a counter: of a message of `bytes` bytes.
  void count(unsigned op, bool success, std::uint64_t bytes);
  void count_recv(const tern_cqe& cqe);
  // tag_list(): of its SRQ; null if that has none. rendezvous(): fetches the data of rendezvous;
  // null if software does.
  [[nodiscard]] TagList* tag_list() const;
  [[nodiscard]] Rendezvous* rendezvous() const;

  // ---- what happened ----
  // Moves the QP to the error state and flushes both queues. `event`: TERN_EV_*, negative for none.
  // `silent`: software requested the state, and queued answers are not sent.
  void enter_error(int event, bool silent = false);
  // A send WQE completed with an error. An RC or XRC QP goes to ERR, a QP of another type to SQE,
  // in which receiving continues (IBTA 10.3.1.6).
  void send_failed();
  // A valid packet arrived. The first one in RTR raises COMM_EST (IBTA 11.6.3.1).
  void communication_established();
  // The send queue is drained: raises SQ_DRAINED if software asked for it.
  void sq_drained();
  // Asks the scheduler for a turn.
  void wake();
  // Reports a page fault of half `side`, whose access met an absent page. `rest`: bytes after the
  // access that the message will use as well. Returns false, and reports nothing, if the half has a
  // fault already.
  bool raise_fault(std::uint8_t side, const Memory::Missing& missing, std::uint64_t rest = 0);
  [[nodiscard]] bool faulting(std::uint8_t side) const { return faulting_ & 1U << side; }

  // ---- packets ----
  // Fills in the fields that all packets to the peer share.
  void address(Packet& packet) const {
    packet.transport = transport_;
    packet.src_qp = qpn_;
    packet.dest_qp = Qpn(attr_.dest_qpn);
    packet.route = route_;
    packet.mig_req = migration_ == nullptr || migration_->mig_req();
  }
  // Sends a packet of a connection, which counts against the QP's rate.
  void send_paced(Packet& packet);
  // Whether its next packet has to wait for the pacer, which gives the QP a turn then.
  [[nodiscard]] bool paced() const { return send_rate_ != nullptr && !send_rate_->may_send(); }
  // Null if the QP was never limited.
  [[nodiscard]] SendRate* send_rate() const { return send_rate_.get(); }
  [[nodiscard]] SendRate& make_send_rate();
  // Context::max_train(), or 1 if the pacer needs single packets.
  [[nodiscard]] std::uint32_t max_train() const;
  // Approximate size of its longest packets on the wire, in bytes.
  [[nodiscard]] std::uint32_t packet_bytes() const;

  // ---- paths ----
  [[nodiscard]] const Route* route() const { return has_route_ ? &route_ : nullptr; }
  // Resolves the route of `av`; nullopt if the source GID is not ours. Sets ECT if congestion
  // control is on.
  [[nodiscard]] std::optional<Route> route_of(const tern_av& av, std::uint8_t port, Qpn dest) const;
  // Makes `path`, in the contract's byte order, the primary path.
  void use_path(const tern_qp_alt& path, const Route& route);
  // Handles a packet that came by a path of this connection and that the peer may send now: it may
  // arm the QP or let it migrate. Returns false if the packet must be dropped.
  [[nodiscard]] bool follow(const Packet& packet) {
    return migration_ == nullptr || migration_->follow(packet);
  }
  // The peer does not answer: migrates. Returns false if the QP is not armed.
  bool migrate() { return migration_ != nullptr && migration_->migrate(); }

  Polled polled;

 protected:
  // `cmd`: in host byte order, except for the page list.
  Connection(Context& context, const tern_cmd_create_qp& cmd, Transport transport, bool privileged);
  ~Connection() = default;

  Transport transport_;  // in the cache line that the scheduler reads
  bool privileged_;
  bool has_route_ = false;
  std::uint8_t faulting_ = 0;  // a bit for each fault that has not ended
  bool fetches_ = false;       // rendezvous() exists
  std::uint8_t ece_ = 0;       // TERN_ECE_*
  std::uint8_t counted_ = 0;   // TERN_COMP_OP_*: those with a completion counter
  Qpn qpn_;
  Context* context_;
  Counters* counters_;
  tern_cmd_create_qp cmd_;
  std::uint64_t generation_;  // Accessor::generation
  tern_qp_attr attr_{};       // in host byte order
  Route route_;
  std::uint32_t serial_;                      // generation()
  std::unique_ptr<PathMigration> migration_;  // made with the first alternate path
  std::unique_ptr<SendRate> send_rate_;
};

}  // namespace tern
