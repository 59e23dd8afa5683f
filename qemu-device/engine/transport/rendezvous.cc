// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/rendezvous.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "objects/context.h"
#include "objects/tag_list.h"
#include "transport/connection.h"
#include "transport/send_queue.h"

namespace tern {

namespace {

// A slot holds the READ with every SGE that a tag has.
static_assert(sizeof(tern_sq_hdr) + sizeof(tern_rdma_seg) + TERN_TM_MAX_SGE * sizeof(tern_sge) <=
              std::size_t{1} << Rendezvous::kLogStride);

template <class T>
std::byte* put(std::byte* at, const T& value) {
  std::memcpy(at, &value, sizeof(value));
  return at + sizeof(value);
}

}  // namespace

Rendezvous::Rendezvous(Connection& qp, SendQueue& sender)
    : qp_(qp), sender_(sender), slots_(qp.context().blocks) {}

void Rendezvous::move_to(Context& context) { slots_.move_to(context.blocks); }

bool Rendezvous::has_room() const { return pi_ - sender_.consumer_index() + reads_ + 2 <= kSlots; }

Rendezvous::Slot& Rendezvous::post(const tern_sq_hdr& hdr) {
  slots_.take();
  assert(pi_ - sender_.consumer_index() < kSlots);
  Slot& to = slot(pi_++);
  to.wqe = {};
  put(to.wqe.data(), hdr);
  sender_.kick();
  qp_.wake();
  return to;
}

void Rendezvous::fetch(std::uint32_t tag, const TagHeaders& request) {
  const TagList::Held& held = qp_.tag_list()->held(tag);
  std::uint32_t left = from_wire(std::uint32_t{request.rndv.length});
  tern_sq_hdr hdr{};
  hdr.opcode = TERN_WR_RDMA_READ;
  hdr.flags = TERN_WQE_F_SIGNALED;
  hdr.wr_id = le(std::uint64_t{tag});
  std::array<tern_sge, TERN_TM_MAX_SGE> sges;
  for (unsigned i = 0; i < held.num_sge && left > 0; ++i) {
    const std::uint32_t take = std::min(left, le(std::uint32_t{held.sges[i].length}));
    sges[hdr.num_sge++] = {held.sges[i].addr, le(take), held.sges[i].lkey};
    left -= take;
  }
  Slot& to = post(hdr);
  to.request = request;
  tern_rdma_seg seg{};
  seg.raddr = le(from_wire(std::uint64_t{request.rndv.va}));
  seg.rkey = le(from_wire(std::uint32_t{request.rndv.rkey}));
  std::byte* at = put(to.wqe.data() + sizeof(hdr), seg);
  for (unsigned i = 0; i < hdr.num_sge; ++i) at = put(at, sges[i]);
  ++reads_;
}

// Posts the FIN message for a request: its headers with another opcode.
void Rendezvous::finish(TagHeaders request) {
  request.tm.opcode = TERN_TMH_FIN;
  tern_sq_hdr hdr{};
  hdr.opcode = TERN_WR_SEND;
  hdr.flags = TERN_WQE_F_INLINE | TERN_WQE_F_SIGNALED;
  hdr.length = le(static_cast<std::uint32_t>(sizeof(request)));
  put(post(hdr).wqe.data() + sizeof(hdr), request);
}

void Rendezvous::completed(const tern_cqe& cqe) {
  const bool success = cqe.status == TERN_CQE_SUCCESS;
  if (cqe.opcode == TERN_WR_RDMA_READ) {
    --reads_;
    const auto tag = static_cast<std::uint32_t>(le(std::uint64_t{cqe.wr_id}));
    end_tag(tag, cqe.status, success ? le(std::uint32_t{cqe.byte_len}) : 0);
    if (success && qp_.state() != TERN_QPS_ERR)
      finish(slot(le(std::uint32_t{cqe.wqe_index})).request);
  } else if (!success && cqe.status != TERN_CQE_WR_FLUSH_ERR) {
    // No CQE tells software that the FIN message was lost.
    qp_.enter_error(TERN_EV_QP_FATAL);
  }
  if (pi_ == sender_.consumer_index()) slots_.give();
}

void Rendezvous::end_tag(std::uint32_t tag, std::uint8_t status, std::uint32_t bytes) {
  tern_cqe cqe{};
  cqe.qpn = le(qp_.number().value);
  cqe.byte_len = le(bytes);
  cqe.status = status;
  if (status == TERN_CQE_SUCCESS) cqe.flags = TERN_CQE_F_TM_DATA_VALID;
  TagList& tags = *qp_.tag_list();
  qp_.count_recv(cqe);
  // Software that polls the CQE may add another tag at once.
  tags.release(tag);
  if (!tags.complete(tag, cqe)) qp_.enter_error(TERN_EV_QP_FATAL);
}

void Rendezvous::reset() {
  for (std::uint32_t i = sender_.consumer_index(); i != pi_; ++i) {
    tern_sq_hdr hdr;
    std::memcpy(&hdr, slot(i).wqe.data(), sizeof(hdr));
    if (hdr.opcode == TERN_WR_RDMA_READ) {
      end_tag(static_cast<std::uint32_t>(le(std::uint64_t{hdr.wr_id})), TERN_CQE_WR_FLUSH_ERR, 0);
    }
  }
  pi_ = reads_ = 0;
  slots_.give();
}

void Rendezvous::read(std::uint32_t index, std::size_t offset, std::span<std::byte> to) const {
  std::memcpy(to.data(), slot(index).wqe.data() + offset, to.size());
}

}  // namespace tern
