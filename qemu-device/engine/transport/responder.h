// SPDX-License-Identifier: GPL-2.0-or-later
// The receiving half of a reliable connection: checks requests in the order of IBTA 9.7.4,
// executes them, and answers when the scheduler gives it a turn.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "core/block_pool.h"
#include "objects/srq.h"
#include "transport/connected_receiver.h"
#include "transport/tag_responder.h"
#include "transport/xrc.h"
#include "wire/packet.h"

namespace tern {

class Responder : public ConnectedReceiver {
 public:
  explicit Responder(Connection& qp);

  // Starts with attr().rq_psn and max_dest_rd_atomic.
  void start() override;
  void reset() override;
  void deliver(const Packet& packet) override;
  void fault_over(bool failed) override;
  // Sends acknowledgements and responses.
  bool transmit(std::uint32_t& allowance) override;
  // The QP goes to ERR. Requests accepted before are still answered, and the NAK follows. `silent`:
  // software requested the state, and queued answers are dropped.
  void stop(bool silent) override;
  void move_to(Context& context) override;
  void state(Archive& ar) override;

  [[nodiscard]] Psn expected_psn() const override { return epsn_; }
  [[nodiscard]] Srq* srq() const override;
  [[nodiscard]] bool holds_request() const override;

 protected:
  // Where the messages go, and whose keys requests use: the QP's own receive queue or SRQ with the
  // QP's keys, the SRQ that an XRC request refers to, or a tag list.
  struct OwnQueue {};
  using Target = std::variant<OwnQueue, XrcTarget, TagTarget>;
  Target target_;

 private:
  friend ConnectedReceiver;

  // kDone: the empty READ response of a FLUSH or ATOMIC WRITE (IBTA A19).
  enum class Answer : std::uint8_t { kAck, kNak, kRead, kAtomic, kDone };

  // An accepted request with a response of its own, kept so that the response can be repeated (IBTA
  // 9.7.5.1.5 "responder resources").
  struct Resource {
    std::uint64_t va = 0;
    std::uint64_t result = 0;
    std::uint32_t rkey = 0;
    std::uint32_t len = 0;
    std::uint32_t psns = 0;
    SrqRef srq;  // XRC: the SRQ whose keys it uses
    Psn first;
    Op op = Op::kReadRequest;
    bool used = false;
    bool pending = false;  // its first response has not been sent
    bool counted = false;  // READ: the last packet of a response was sent
  };
  // A queued acknowledgement or response.
  struct Out {
    Answer kind = Answer::kAck;
    std::uint8_t syndrome = 0;
    std::uint16_t resource = 0;
    Psn psn;
    Psn first;  // first PSN of the resource it answers
    std::uint32_t msn = 0;
    std::uint32_t packet = 0;  // READ: next packet of the response
    std::uint32_t start = 0;   // READ: first packet of this answer
  };

  void start_answers();
  // Whether another request has the resource of an answer by now.
  [[nodiscard]] bool is_stale(const Out& out) const {
    const bool answers = out.kind != Answer::kAck && out.kind != Answer::kNak;
    return answers && resources_[out.resource].first != out.first;
  }
  void resources_state(Archive& ar);
  void answers_state(Archive& ar);
  [[nodiscard]] bool admit(const Packet& packet);
  [[nodiscard]] std::optional<Accessor> keys_of(const Resource& request) const;
  [[nodiscard]] Take take_message(const Packet& packet);
  void complete(tern_cqe cqe);
  void duplicate(const Packet& packet);
  [[nodiscard]] bool in_sequence(const Packet& packet, const OpTraits& t) const;
  void on_message(const Packet& packet, const OpTraits& t);
  void refuse(const Packet& packet, const OpTraits& t, Refusal why);
  void fail_receive(const Packet& packet, std::uint8_t status, std::uint8_t syndrome);
  void on_read(const Packet& packet);
  void on_atomic(const Packet& packet);
  void on_flush(const Packet& packet);
  void on_atomic_write(const Packet& packet);
  [[nodiscard]] SpanList* open(const Packet& packet, Access access);
  Resource* new_resource(const Packet& packet);
  void answer_later(Answer kind);

  [[nodiscard]] Psn acknowledgeable(Psn repeated) const;
  void acknowledge(Psn psn);
  void nak(Psn psn, std::uint8_t syndrome);
  void out_of_sequence(const Packet& packet);
  void fail(const Packet& packet, std::uint8_t syndrome, int event);
  void fail(Psn psn, std::uint8_t syndrome, int event);
  void refuse(const Packet& packet, Access access);
  void refuse(Psn psn, Access access);
  void not_ready();
  void read_not_ready(Out& out, Psn psn, std::uint32_t rest);
  [[nodiscard]] std::uint8_t rnr() const;
  Out& push(Answer kind);
  void send_ack(const Out& out);
  bool send_read(Out& out, std::uint32_t& allowance);
  void send_atomic(const Out& out);
  void send_done(const Out& out);
  Packet& answer(Op op, Psn psn);

  Accessor keys_;  // whose keys the request uses
  Psn epsn_;
  std::uint32_t msn_ = 0;
  Psn faulted_psn_;  // PSN of the packet that met the absent page
  // With read_outstanding_: PSN at which a READ response stopped at an absent page.
  Psn outstanding_psn_;
  // The NAK sent for the expected packet; no other one is sent until that packet arrives.
  enum class PendingNak : std::uint8_t { kNone, kSequence, kRnr };
  PendingNak pending_nak_ = PendingNak::kNone;
  bool read_outstanding_ = false;  // later requests are dropped until the peer repeats the READ
  std::uint32_t next_resource_ = 0;
  std::vector<Resource> resources_;  // allocated by the first request that needs one
  PooledRing<Out> out_;              // in the order in which they are sent
};

// Responders of the other targets.
class XrcResponder final : public Responder {
 public:
  explicit XrcResponder(Connection& qp) : Responder(qp) { target_.emplace<XrcTarget>(); }
};
class TagResponder final : public Responder {
 public:
  explicit TagResponder(Connection& qp) : Responder(qp) { target_.emplace<TagTarget>(qp, recv_); }
};

}  // namespace tern
