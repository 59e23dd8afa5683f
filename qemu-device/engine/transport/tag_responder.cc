// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/tag_responder.h"

#include <algorithm>
#include <cstring>

#include "objects/context.h"
#include "objects/tag_list.h"
#include "transport/connection.h"
#include "transport/rendezvous.h"

namespace tern {

namespace {

// Discards the bytes that exceed the tag's buffer.
tern_sge to_nowhere(std::uint32_t length) {
  return {0, le(length), le(std::uint32_t{TERN_LKEY_NULL})};
}

}  // namespace

std::uint64_t TagResponder::tag() const { return from_wire(std::uint64_t{headers_->tm.tag}); }

void TagResponder::reset() {
  // A tag that has matched always gets its last CQE: software holds its buffer until then.
  if (recv_ && labelled_) {
    if (tagged()) {
      complete(cqe_of(TERN_RECV_TM, TERN_CQE_WR_FLUSH_ERR));
    } else if (kind_ == Kind::kUnexpected) {
      qp_.tag_list()->forget_unexpected();
    }
  }
  labelled_ = false;
  Responder::reset();
}

// ---- the beginning of a message ----

// Copies the headers of a message from its first packet. A message with malformed headers has no
// tag.
TagResponder::Kind TagResponder::parse(const Packet& packet) {
  const std::uint64_t size = packet.payload.size();
  if (size < sizeof(headers_->tm)) return Kind::kNoTag;
  *headers_ = {};
  const std::size_t copied = std::min<std::uint64_t>(size, sizeof(*headers_));
  packet.payload.copy_to(std::as_writable_bytes(std::span(headers_.get(), 1)).first(copied));
  if (headers_->tm.opcode == TERN_TMH_EAGER) return Kind::kEager;
  const OpTraits& t = traits(packet.transport, packet.op);
  const bool request = headers_->tm.opcode == TERN_TMH_RNDV && t.last &&
                       size >= sizeof(*headers_) && size <= TERN_TM_MAX_RNDV;
  return request ? Kind::kRendezvous : Kind::kNoTag;
}

Take TagResponder::take_message(const Packet& packet) {
  const OpTraits& t = traits(packet.transport, packet.op);
  // The peer repeats a message that had to wait, and may not change it.
  if (recv_) return labelled_ && !t.send ? Take::kFailed : Take::kTaken;
  labelled_ = false;
  if (!t.send) return take();
  TagList& tags = *qp_.tag_list();
  if (tags.srq().failed()) return Take::kFailed;
  const Kind kind = parse(packet);
  if (kind != Kind::kNoTag) {
    const Take got = match(packet, kind);
    if (got != Take::kEmpty || labelled_) return got;
  }
  const Take got = take();
  if (got != Take::kTaken) return got;
  kind_ = kind == Kind::kNoTag ? Kind::kNoTag : Kind::kUnexpected;
  if (kind_ == Kind::kUnexpected) tags.unexpected();
  labelled_ = true;
  return got;
}

// Searches for a matching tag. kEmpty: none matches or, if labelled_ is set, one matches but the QP
// cannot serve another rendezvous: the peer has to repeat the request.
Take TagResponder::match(const Packet& packet, Kind kind) {
  TagList& tags = *qp_.tag_list();
  const auto position = tags.find(tag());
  if (!position) return Take::kEmpty;
  // In RTR the READs of the QP are not known yet: the data is fetched in RTS.
  const bool may_read = qp_.state() == TERN_QPS_RTR || qp_.attr().max_rd_atomic != 0;
  Rendezvous* const rendezvous = may_read ? qp_.rendezvous() : nullptr;
  if (kind == Kind::kRendezvous && rendezvous != nullptr && !rendezvous->has_room()) {
    labelled_ = true;
    return Take::kEmpty;
  }
  held_ = tags.take(*position);
  const std::uint64_t bytes = from_wire(std::uint32_t{headers_->rndv.length});
  if (kind == Kind::kRendezvous &&
      (rendezvous == nullptr || bytes > tags.held(held_).room() || bytes > kMaxDmaLen)) {
    kind = Kind::kIncomplete;
  }
  to_tag(kind);
  labelled_ = true;
  reported_ = false;
  const bool single = traits(packet.transport, packet.op).last && packet.train == 1;
  return single || report_match() ? Take::kTaken : Take::kFailed;
}

// Makes a receive WQE of the tag's buffer. Discards the header of an eager message and, for a
// request, the bytes that exceed the buffer.
void TagResponder::to_tag(Kind kind) {
  kind_ = kind;
  const TagList& tags = *qp_.tag_list();
  const TagList::Held& held = tags.held(held_);
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

void TagResponder::add_match(tern_cqe& cqe) const {
  tern_tm_cqe match;
  std::memcpy(&match, &cqe, sizeof(match));
  match.app_ctx = le(from_wire(std::uint32_t{headers_->tm.app_ctx}));
  match.tag = le(tag());
  std::memcpy(&cqe, &match, sizeof(match));
  cqe.flags |= TERN_CQE_F_TM_MATCH;
}

// Reports the match before the message is complete: other messages may complete in between. Returns
// false if the CQ takes no CQE: the QP has to go to the error state, which releases the receive
// WQE.
bool TagResponder::report_match() {
  reported_ = true;
  tern_cqe cqe{};
  cqe.qpn = le(qp_.number().value);
  add_match(cqe);
  return qp_.tag_list()->complete(held_, cqe);
}

void TagResponder::postponed() {
  if (tagged() && !reported_ && !report_match()) qp_.enter_error(TERN_EV_QP_FATAL);
}

// Turns the CQE of the held WQE, which has been released, into one of tag matching.
void TagResponder::label(tern_cqe& cqe) {
  TagList& tags = *qp_.tag_list();
  labelled_ = false;
  if (tagged()) return label_tagged(cqe);
  if (kind_ == Kind::kNoTag) {
    cqe.opcode = TERN_RECV_TM_NO_TAG;
    return;
  }
  cqe.opcode = TERN_RECV_TM;
  if (cqe.status != TERN_CQE_SUCCESS) return tags.forget_unexpected();
  if (tags.waiting()) cqe.flags |= TERN_CQE_F_TM_SYNC_REQ;
}

void TagResponder::label_tagged(tern_cqe& cqe) {
  TagList& tags = *qp_.tag_list();
  cqe.opcode = TERN_RECV_TM;
  const bool success = cqe.status == TERN_CQE_SUCCESS;
  std::uint32_t bytes = received_;
  if (kind_ == Kind::kEager) {
    bytes -= std::min<std::uint32_t>(bytes, sizeof(tern_tm_header));
  } else {
    const std::uint64_t room = kind_ == Kind::kRendezvous ? 0 : tags.held(held_).room();
    bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, room));
  }
  cqe.byte_len = le(bytes);
  if (!reported_) add_match(cqe);
  if (success && kind_ == Kind::kRendezvous) {
    qp_.rendezvous()->fetch(held_, *headers_);
    return;
  }
  if (success) cqe.flags |= TERN_CQE_F_TM_DATA_VALID;
  if (success && kind_ == Kind::kIncomplete) cqe.status = TERN_CQE_TM_RNDV_INCOMPLETE;
  tags.release(held_);
}

}  // namespace tern
