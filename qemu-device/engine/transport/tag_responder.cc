// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/tag_responder.h"

#include <algorithm>
#include <cstring>

#include "objects/context.h"
#include "objects/srq.h"
#include "objects/tag_list.h"
#include "transport/connection.h"
#include "transport/receiver.h"
#include "transport/rendezvous.h"

namespace tern {

namespace {

// Discards the bytes that exceed the tag's buffer.
tern_sge to_nowhere(std::uint32_t length) {
  return {0, le(length), le(std::uint32_t{TERN_LKEY_NULL})};
}

}  // namespace

std::uint64_t TagTarget::tag() const { return from_wire(std::uint64_t{message_->headers.tm.tag}); }

void TagTarget::reset() {
  if (recv_ && message_->labelled && message_->kind == Kind::kUnexpected)
    qp_.tag_list()->forget_unexpected();
  message_->labelled = false;
}

// ---- the beginning of a message ----

// Copies the headers of a message from its first packet. A message with malformed headers has no
// tag.
TagTarget::Kind TagTarget::parse(const Packet& packet) {
  const std::uint64_t size = packet.payload.size();
  if (size < sizeof(message_->headers.tm)) return Kind::kNoTag;
  message_->headers = {};
  const std::size_t copied = std::min<std::uint64_t>(size, sizeof(message_->headers));
  packet.payload.copy_to(std::as_writable_bytes(std::span(&message_->headers, 1)).first(copied));
  if (message_->headers.tm.opcode == TERN_TMH_EAGER) return Kind::kEager;
  const OpTraits& t = traits(packet.transport, packet.op);
  const bool request = message_->headers.tm.opcode == TERN_TMH_RNDV && t.last &&
                       size >= sizeof(message_->headers) && size <= TERN_TM_MAX_RNDV;
  return request ? Kind::kRendezvous : Kind::kNoTag;
}

// Takes the next receive WQE of the SRQ.
Take TagTarget::next() {
  const Take got = qp_.take_rq_wqe(recv_.take());
  if (got != Take::kTaken) recv_.give();
  return got;
}

Take TagTarget::take(const Packet& packet) {
  const OpTraits& t = traits(packet.transport, packet.op);
  // The peer repeats a message that had to wait, and may not change it.
  if (recv_) return message_->labelled && !t.send ? Take::kFailed : Take::kTaken;
  message_->labelled = false;
  if (!t.send) return next();
  TagList& tags = *qp_.tag_list();
  if (tags.srq().failed()) return Take::kFailed;
  const Kind kind = parse(packet);
  if (kind != Kind::kNoTag) {
    const Take got = match(packet, kind);
    if (got != Take::kEmpty || message_->labelled) return got;
  }
  const Take got = next();
  if (got != Take::kTaken) return got;
  message_->kind = kind == Kind::kNoTag ? Kind::kNoTag : Kind::kUnexpected;
  if (message_->kind == Kind::kUnexpected) tags.unexpected();
  message_->labelled = true;
  return got;
}

// Searches for a matching tag. kEmpty: none matches or, if the message is labelled, one matches but
// the QP cannot serve another rendezvous: the peer has to repeat the request.
Take TagTarget::match(const Packet& packet, Kind kind) {
  TagList& tags = *qp_.tag_list();
  const auto position = tags.find(tag());
  if (!position) return Take::kEmpty;
  // In RTR the READs of the QP are not known yet: the data is fetched in RTS.
  const bool may_read = qp_.state() == TERN_QPS_RTR || qp_.attr().max_rd_atomic != 0;
  Rendezvous* const rendezvous = may_read ? qp_.rendezvous() : nullptr;
  if (kind == Kind::kRendezvous && rendezvous != nullptr && !rendezvous->has_room()) {
    message_->labelled = true;
    return Take::kEmpty;
  }
  message_->held = tags.take(*position);
  const std::uint64_t bytes = from_wire(std::uint32_t{message_->headers.rndv.length});
  if (kind == Kind::kRendezvous &&
      (rendezvous == nullptr || bytes > tags.held(message_->held).room() || bytes > kMaxDmaLen)) {
    kind = Kind::kIncomplete;
  }
  to_tag(kind);
  message_->labelled = true;
  message_->reported = false;
  const bool single = traits(packet.transport, packet.op).last && packet.train == 1;
  return single || report_match() ? Take::kTaken : Take::kFailed;
}

// Makes a receive WQE of the tag's buffer. Discards the header of an eager message and, for a
// request, the bytes that exceed the buffer.
void TagTarget::to_tag(Kind kind) {
  message_->kind = kind;
  const TagList& tags = *qp_.tag_list();
  const TagList::Held& held = tags.held(message_->held);
  RecvWqe& wqe = recv_.take();
  wqe.wr_id = held.recv_wr_id;
  wqe.owner = tags.srq().owner();
  wqe.owner.qp = qp_.number();
  wqe.srqn = tags.srq().number();
  wqe.index = 0;
  unsigned n = 0;
  if (kind == Kind::kEager) wqe.sges[n++] = to_nowhere(sizeof(tern_tm_header));
  if (kind != Kind::kRendezvous) {
    for (unsigned i = 0; i < held.num_sge; ++i) wqe.sges[n++] = held.sges[i];
  }
  if (kind != Kind::kEager) wqe.sges[n++] = to_nowhere(TERN_TM_MAX_RNDV);
  wqe.num_sge = static_cast<std::uint8_t>(n);
}

// ---- completions ----

void TagTarget::add_match(tern_cqe& cqe) const {
  tern_tm_cqe match;
  std::memcpy(&match, &cqe, sizeof(match));
  match.app_ctx = le(from_wire(std::uint32_t{message_->headers.tm.app_ctx}));
  match.tag = le(tag());
  std::memcpy(&cqe, &match, sizeof(match));
  cqe.flags |= TERN_CQE_F_TM_MATCH;
}

// Reports the match before the message is complete: other messages may complete in between. Returns
// false if the CQ takes no CQE: the QP has to go to the error state, which releases the receive
// WQE.
bool TagTarget::report_match() {
  message_->reported = true;
  tern_cqe cqe{};
  cqe.qpn = le(qp_.number().value);
  add_match(cqe);
  return qp_.tag_list()->complete(message_->held, cqe);
}

bool TagTarget::postponed() {
  return !message_->labelled || !tagged() || message_->reported || report_match();
}

bool TagTarget::label(tern_cqe& cqe) {
  if (!message_->labelled) return true;
  message_->labelled = false;
  TagList& tags = *qp_.tag_list();
  if (tagged()) return label_tagged(cqe);
  if (message_->kind == Kind::kNoTag) {
    cqe.opcode = TERN_RECV_TM_NO_TAG;
    return true;
  }
  cqe.opcode = TERN_RECV_TM;
  if (cqe.status != TERN_CQE_SUCCESS) {
    tags.forget_unexpected();
  } else if (tags.waiting()) {
    cqe.flags |= TERN_CQE_F_TM_SYNC_REQ;
  }
  return true;
}

bool TagTarget::label_tagged(tern_cqe& cqe) {
  TagList& tags = *qp_.tag_list();
  cqe.opcode = TERN_RECV_TM;
  const bool success = cqe.status == TERN_CQE_SUCCESS;
  std::uint32_t bytes = le(std::uint32_t{cqe.byte_len});
  if (message_->kind == Kind::kEager) {
    bytes -= std::min<std::uint32_t>(bytes, sizeof(tern_tm_header));
  } else {
    const std::uint64_t room =
        message_->kind == Kind::kRendezvous ? 0 : tags.held(message_->held).room();
    bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, room));
  }
  cqe.byte_len = le(bytes);
  if (!message_->reported) add_match(cqe);
  if (success && message_->kind == Kind::kRendezvous) {
    qp_.rendezvous()->fetch(message_->held, message_->headers);
    return false;
  }
  if (success) cqe.flags |= TERN_CQE_F_TM_DATA_VALID;
  if (success && message_->kind == Kind::kIncomplete) cqe.status = TERN_CQE_TM_RNDV_INCOMPLETE;
  tags.release(message_->held);
  return true;
}

}  // namespace tern
