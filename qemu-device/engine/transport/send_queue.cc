// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/send_queue.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "objects/context.h"
#include "transport/connection.h"
#include "transport/segments.h"

namespace tern {

namespace {

// Bytes of a slot to copy first; most WQEs are not longer.
constexpr std::size_t kFirstCopy = 64;
// WQEs to fetch ahead at a time.
constexpr std::uint32_t kAhead = 4;

// The opcode of a SEND or WRITE packet from its position in the message.
Op data_op(std::uint8_t opcode, bool first, bool last) {
  switch (opcode) {
    case TERN_WR_SEND:
      return first ? (last ? Op::kSendOnly : Op::kSendFirst)
                   : (last ? Op::kSendLast : Op::kSendMiddle);
    case TERN_WR_SEND_WITH_IMM:
      return first ? (last ? Op::kSendOnlyImm : Op::kSendFirst)
                   : (last ? Op::kSendLastImm : Op::kSendMiddle);
    case TERN_WR_SEND_WITH_INV:
      return first ? (last ? Op::kSendOnlyInv : Op::kSendFirst)
                   : (last ? Op::kSendLastInv : Op::kSendMiddle);
    case TERN_WR_RDMA_WRITE:
      return first ? (last ? Op::kWriteOnly : Op::kWriteFirst)
                   : (last ? Op::kWriteLast : Op::kWriteMiddle);
    default:
      return first ? (last ? Op::kWriteOnlyImm : Op::kWriteFirst)
                   : (last ? Op::kWriteLastImm : Op::kWriteMiddle);
  }
}

// Returns the TERN_COMP_OP_* of a WQE, or 0 if completion counters do not count it.
constexpr unsigned counted_op(std::uint8_t opcode) {
  switch (opcode) {
    case TERN_WR_SEND:
    case TERN_WR_SEND_WITH_IMM:
    case TERN_WR_SEND_WITH_INV:
      return TERN_COMP_OP_SEND;
    case TERN_WR_RDMA_READ:
      return TERN_COMP_OP_RDMA_READ;
    case TERN_WR_RDMA_WRITE:
    case TERN_WR_RDMA_WRITE_WITH_IMM:
      return TERN_COMP_OP_RDMA_WRITE;
    default:
      return 0;
  }
}

}  // namespace

SendQueue::SendQueue(Connection& qp) : qp_(qp), window_(qp.context().blocks) {}

void SendQueue::start() {
  if (!qp_.sends()) return;
  window_.open(qp_.sq_size(), qp_.sq_stride());
  oldest_.psn = next_.psn = fresh_.psn = Psn(qp_.attr().sq_psn);
  kicked_ = true;
}

void SendQueue::move_to(Context& context) { window_.move_to(context.blocks); }

void SendQueue::reset() {
  window_.close();
  oldest_ = fresh_ = {};
  next_ = {};
  fetched_ = posted_ = 0;
  kicked_ = parked_ = false;
}

bool SendQueue::ordered() const {
  return next_.wqe - oldest_.wqe <= held() && held() <= posted_ - oldest_.wqe &&
         posted_ - oldest_.wqe <= qp_.sq_size() && fresh_.wqe - oldest_.wqe <= held() &&
         (!drained() || next_.packet == 0);
}

bool SendQueue::consistent() const {
  return ordered() && (next_.wqe == fetched_ || window_.at(next_.wqe).psns == 0 ||
                       qp_.transport() == Transport::kRaw ||
                       next_.psn == window_.at(next_.wqe).first_psn.plus(next_.packet));
}

// ---- fetching ----

bool SendQueue::copy_slot(std::uint32_t index) {
  const auto slot = window_.slot(index);
  const std::size_t head = std::min(slot.size(), kFirstCopy);
  if (!qp_.read_sq_slot(index, 0, slot.first(head))) return false;
  if (slot.size() == head) return true;
  tern_sq_hdr hdr;
  std::memcpy(&hdr, slot.data(), sizeof(hdr));
  const std::size_t payload = hdr.flags & TERN_WQE_F_INLINE
                                  ? std::size_t{le(std::uint32_t{hdr.length})}
                                  : std::size_t{hdr.num_sge} * sizeof(tern_sge);
  const std::size_t segment =
      segment_bytes(qp_.transport(), wqe_shape(qp_.transport(), hdr.opcode), slot);
  const std::size_t need = std::min(slot.size(), sizeof(hdr) + segment + payload);
  return need <= head || qp_.read_sq_slot(index, head, slot.subspan(head, need - head));
}

bool SendQueue::fetch() {
  if (kicked_ || qp_.polled.on) {
    kicked_ = false;
    const auto pi = qp_.read_sq_pi();
    if (!pi || *pi - oldest_.wqe > qp_.sq_size() || *pi - oldest_.wqe < fetched_ - oldest_.wqe) {
      qp_.enter_error(TERN_EV_QP_FATAL);
      return false;
    }
    const std::uint32_t before = posted_;
    posted_ = *pi;
    if (qp_.context().log != nullptr && posted_ != before) [[unlikely]]
      log_posted(before);
  }
  if (fetched_ == posted_ || fetched_ - oldest_.wqe >= window_.limit()) return false;
  if (!fetch_one()) {
    qp_.enter_error(TERN_EV_QP_FATAL);
    return false;
  }
  return fetch_ahead();
}

// Fetches WQEs beyond the cursor, and prefetches their keys while the WQE at the cursor is sent. If
// one cannot be read, fetch() reports that when the cursor reaches it.
bool SendQueue::fetch_ahead() {
  const std::uint32_t room = window_.limit() - (fetched_ - oldest_.wqe);
  const std::uint32_t end = fetched_ + std::min({posted_ - fetched_, room, kAhead});
  while (fetched_ != end && fetch_one()) prefetch_keys(window_.at(fetched_ - 1));
  return true;
}

bool SendQueue::fetch_one() {
  window_.make_room(oldest_.wqe, fetched_);
  if (!copy_slot(fetched_)) return false;
  SendWqe& wqe = window_.at(fetched_);
  wqe = SendWqe{};
  std::span<const std::byte> data;
  wqe.status = decode_wqe(qp_.transport(), window_.slot(fetched_), wqe, data);
  wqe.index = fetched_;
  const bool missing = (wqe.responds() && qp_.attr().max_rd_atomic == 0) ||
                       (wqe.opcode == TERN_WR_BIND_MW && qp_.context().device.config.max_mw == 0);
  if (missing && !wqe.failed()) wqe.status = TERN_CQE_LOC_QP_OP_ERR;
  ++fetched_;
  if (qp_.context().log != nullptr) [[unlikely]]
    log_wqe(wqe);
  return true;
}

// Also prefetches the peer's key: in loopback it is a key of this device.
void SendQueue::prefetch_keys(const SendWqe& wqe) const {
  const Memory& memory = qp_.context().memory;
  if (wqe.failed() || wqe.local) return;
  memory.prefetch(wqe.rkey);
  if (wqe.num_sge != 0 && !wqe.is_inline())
    memory.prefetch(le(std::uint32_t{window_.sge(wqe.index, 0).lkey}));
}

// ---- execution ----

std::uint8_t SendQueue::execute_local(const SendWqe& wqe) {
  Memory& memory = qp_.context().memory;
  const Accessor who = qp_.accessor();
  bool done = true;
  switch (wqe.opcode) {
    case TERN_WR_BIND_MW:
      return memory.bind_mw(who, window_.segment<tern_bind_seg>(wqe.index)) ? TERN_CQE_SUCCESS
                                                                            : TERN_CQE_MW_BIND_ERR;
    case TERN_WR_LOCAL_INV:
      qp_.context().unshare();
      done = memory.invalidate_local(who, wqe.inv_rkey);
      break;
    case TERN_WR_REG_MR: {
      const Access access = memory.register_fast(who, window_.segment<tern_reg_seg>(wqe.index));
      if (access == Access::kDmaError) qp_.counters().add(TERN_CNT_DMA_ERRORS);
      done = access == Access::kReady;
      break;
    }
    default:
      break;
  }
  return done ? TERN_CQE_SUCCESS : TERN_CQE_LOC_QP_OP_ERR;
}

std::uint8_t SendQueue::gather(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len,
                               SpanList& from) {
  if (wqe.is_inline()) {
    from.append_plain(window_.inline_data(wqe.index).subspan(offset, len));
    return TERN_CQE_SUCCESS;
  }
  return map(wqe, offset, len, false, from);
}

std::uint8_t SendQueue::locate(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len,
                               SpanList& to) {
  return map(wqe, offset, len, true, to);
}

std::uint8_t SendQueue::map(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len, bool write,
                            SpanList& list) {
  Context& context = qp_.context();
  std::uint64_t left = len;
  const Access access = map_sges(
      context.memory, qp_.send_accessor(), wqe.num_sge,
      [&](unsigned i) { return window_.sge(wqe.index, i); }, offset, left, write, list,
      context.missing);
  if (access == Access::kReady) return TERN_CQE_SUCCESS;
  if (access == Access::kPending) return kAbsent;
  if (access == Access::kDmaError) qp_.counters().add(TERN_CNT_DMA_ERRORS);
  return TERN_CQE_LOC_PROT_ERR;
}

void SendQueue::park(std::uint32_t index) {
  if (!qp_.raise_fault(TERN_FAULT_REQUESTER, qp_.context().missing)) return;
  parked_ = true;
  parked_wqe_ = index;
}

void SendQueue::fault_over(bool failed) {
  parked_ = false;
  // The WQE may be complete by now, if the access was for a needless retransmission.
  const bool open =
      parked_wqe_ - oldest_.wqe < fetched_ - oldest_.wqe && !window_.at(parked_wqe_).done;
  if (failed && open) window_.at(parked_wqe_).status = TERN_CQE_LOC_PROT_ERR;
  qp_.wake();
}

std::uint8_t SendQueue::load_data(const SendWqe& wqe, std::uint32_t train) {
  Packet& packet = qp_.context().tx_packet;
  const std::uint32_t offset = next_.packet * qp_.mtu();
  const std::uint32_t len = std::min(wqe.length - offset, train * qp_.mtu());
  const bool last = next_.packet + train == wqe.psns;
  packet.payload.clear();
  const std::uint8_t status = gather(wqe, offset, len, packet.payload);
  if (status != TERN_CQE_SUCCESS) {
    packet.payload.clear();
    return status;
  }
  packet.op = data_op(wqe.opcode, next_.packet == 0, last);
  packet.va = wqe.raddr;
  packet.rkey = wqe.rkey;
  packet.dma_len = wqe.length;
  packet.imm = wqe.imm;
  packet.inv_rkey = wqe.inv_rkey;
  packet.solicited = last && (wqe.flags & TERN_WQE_F_SOLICITED);
  return TERN_CQE_SUCCESS;
}

// ---- completions ----

void SendQueue::complete(const SendWqe& wqe, std::uint8_t status) {
  if (qp_.counts(~0U) && qp_.has_sq()) [[unlikely]]
    qp_.count(counted_op(wqe.opcode), status == TERN_CQE_SUCCESS, wqe.length);
  if (status == TERN_CQE_SUCCESS && !(wqe.flags & TERN_WQE_F_SIGNALED)) return;
  tern_cqe cqe{};
  cqe.wr_id = le(wqe.wr_id);
  cqe.byte_len = le(wqe.length);
  cqe.wqe_index = le(wqe.index);
  cqe.opcode = wqe.opcode;
  cqe.status = status;
  qp_.complete_send(cqe);
}

bool SendQueue::flush(std::uint32_t& allowance) {
  kicked_ = false;
  const auto pi = qp_.read_sq_pi();
  if (!pi || *pi - oldest_.wqe > qp_.sq_size()) return false;
  return flush_to(*pi, allowance);
}

// The oldest WQE is flushed. The indices stay in order.
void SendQueue::pass_flushed() {
  if (held() == 0) ++fetched_;
  pass_oldest();
  if (is_before(posted_, oldest_.wqe)) posted_ = oldest_.wqe;
  next_.wqe = oldest_.wqe;
  next_.packet = 0;
}

bool SendQueue::flush_to(std::uint32_t end, std::uint32_t& allowance) {
  while (oldest_.wqe != end) {
    if (allowance == 0) return true;
    allowance -= std::min(allowance, kPacketCost);
    qp_.context().spend(kPacketCost);
    tern_sq_hdr hdr{};
    if (held() != 0) {
      // The bind has changed the key, so software must learn that it succeeded.
      if (const SendWqe& bound = window_.at(oldest_.wqe);
          bound.done && bound.opcode == TERN_WR_BIND_MW) {
        pass_flushed();
        complete(bound, TERN_CQE_SUCCESS);
        continue;
      }
      std::memcpy(&hdr, window_.slot(oldest_.wqe).data(), sizeof(hdr));
    } else if (!qp_.read_sq_slot(oldest_.wqe, 0, std::as_writable_bytes(std::span(&hdr, 1)))) {
      return false;
    }
    SendWqe wqe;
    wqe.index = oldest_.wqe;
    pass_flushed();
    wqe.opcode = hdr.opcode;
    wqe.wr_id = le(std::uint64_t{hdr.wr_id});
    complete(wqe, TERN_CQE_WR_FLUSH_ERR);
    qp_.counters().add(TERN_CNT_REQ_CQE_FLUSH_ERROR);
  }
  next_.wqe = fresh_.wqe = fetched_ = posted_ = oldest_.wqe;
  next_.packet = 0;
  next_.psn = fresh_.psn;
  settle();
  return false;
}

}  // namespace tern
