// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/raw.h"

#include <algorithm>
#include <cstring>

#include "core/archive.h"
#include "eth/rx_frame.h"
#include "objects/context.h"
#include "transport/connection.h"
#include "transport/segments.h"

namespace tern {

// ---- sending ----

// The headers in the WQE with which every segment begins. decode_wqe() has checked that they are in
// the slot.
std::span<const std::byte> RawSender::headers(const SendWqe& wqe,
                                              const tern_eth_offload& offload) const {
  if (!eth::Outgoing::segments(offload)) return {};
  return window_.slot(wqe.index).subspan(sizeof(tern_sq_hdr) + sizeof(tern_eth_offload),
                                         le(std::uint16_t{offload.header_len}));
}

// Copies headers and payload of the frame at the cursor to `room`. Returns a CQE status or kAbsent.
std::uint8_t RawSender::gather_frame(const SendWqe& wqe, std::span<const std::byte> head,
                                     std::span<std::byte> room) {
  const auto [offset, length] = (*frames_)->piece(next_.packet);
  SpanList& payload = qp_.context().tx_packet.payload;
  payload.clear();
  // The frame begins with the head, which the SGEs do not contain.
  const auto at = static_cast<std::uint32_t>(offset - head.size());
  const std::uint8_t status = gather(wqe, at, static_cast<std::uint32_t>(length), payload);
  if (status != TERN_CQE_SUCCESS) return status;
  std::ranges::copy(head, room.begin());
  payload.copy_to(room.subspan(head.size(), length));
  return TERN_CQE_SUCCESS;
}

// The frames of a WQE, or nothing if it is wrong. `most`: limit of bytes of a frame.
std::optional<eth::Outgoing> RawSender::outgoing(const SendWqe& wqe, std::size_t most) const {
  const auto offload = window_.segment<tern_eth_offload>(wqe.index);
  const auto first = headers(wqe, offload);
  return eth::Outgoing::make(offload, first, first.size() + std::uint64_t{wqe.length}, most);
}

std::uint32_t RawSender::psns_of(const SendWqe& wqe) const {
  const auto frames = outgoing(wqe, SIZE_MAX);
  return frames ? static_cast<std::uint32_t>(frames->count()) : 0;
}

std::uint8_t RawSender::send_packet(SendWqe& wqe, std::uint32_t& cost) {
  Context& context = qp_.context();
  const auto offload = window_.segment<tern_eth_offload>(wqe.index);
  const auto first = headers(wqe, offload);
  if (next_.packet == 0) {
    *frames_ = outgoing(wqe, eth::most_bytes(context.mtu()));
    if (!*frames_) return TERN_CQE_LOC_LEN_ERR;
    wqe.psns = static_cast<std::uint32_t>((*frames_)->count());
  }
  const eth::Outgoing& frames = **frames_;
  const std::size_t bytes = frames.bytes(next_.packet);
  const auto room = context.effects->begin_frame(std::max(bytes, eth::kMinFrame));
  const std::uint8_t status = gather_frame(wqe, first, room.subspan(frames.start()));
  if (status != TERN_CQE_SUCCESS) return status;
  if (!frames.finish(next_.packet, room.first(bytes))) return TERN_CQE_LOC_LEN_ERR;
  if (SendRate* const rate = qp_.send_rate()) rate->sent(static_cast<std::uint32_t>(bytes));
  cost = context.emit_frame(room, bytes, qp_);
  return TERN_CQE_SUCCESS;
}

void RawSender::state(Archive& ar) {
  UnreliableSender::state(ar);
  if (!ar.reading() || !ar.ok() || next_.packet == 0) return;
  *frames_ = outgoing(window_.at(next_.wqe), SIZE_MAX);
  ar.require(frames_->has_value(), "a frame that is being sent is wrong");
}

// ---- receiving ----

// Copies the frame to the memory of the held WQE. Returns a CQE status or kAbsent.
std::uint8_t RawReceiver::store(const StoredFrame& frame) {
  if (frame.size() > room()) return TERN_CQE_LOC_LEN_ERR;
  SpanList& bytes = qp_.context().raw_frame;
  for (const auto piece : frame.pieces()) bytes.append_plain(piece);
  received_ = 0;
  const std::uint8_t status = scatter(bytes);
  bytes.clear();
  return status;
}

// A frame that is longer than its WQE completes it with an error, and the next frame uses the next
// WQE: no peer can stop the QP.
bool RawReceiver::receive(const RxFrame& frame) {
  Counters& counters = qp_.counters();
  const Take got = qp_.receives() ? take() : Take::kEmpty;
  if (got == Take::kFailed) qp_.enter_error(TERN_EV_QP_FATAL);
  if (got == Take::kEmpty) counters.add(TERN_CNT_OUT_OF_BUFFER);
  if (got != Take::kTaken) return false;
  const bool strip = qp_.flags() & TERN_QP_F_STRIP_VLAN;
  const StoredFrame stored(frame, strip, qp_.flags() & TERN_QP_F_KEEP_FCS);
  const std::uint8_t status = store(stored);
  if (status == kAbsent) {
    counters.add(TERN_CNT_OUT_OF_BUFFER);
    return false;
  }
  tern_cqe cqe = cqe_of(TERN_ETH_RX, status);
  if (status == TERN_CQE_SUCCESS) {
    cqe.byte_len = le(static_cast<std::uint32_t>(stored.size()));
    frame.describe(cqe, strip);
  }
  complete(cqe);
  if (status == TERN_CQE_LOC_LEN_ERR) {
    counters.add(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
  } else if (status != TERN_CQE_SUCCESS) {
    qp_.enter_error(-1);
  }
  return status == TERN_CQE_SUCCESS;
}

void RawReceiver::fault_over(bool failed) {
  if (!failed || !recv_) return;
  received_ = 0;
  complete(cqe_of(TERN_ETH_RX, TERN_CQE_LOC_PROT_ERR));
  qp_.enter_error(-1);
}

}  // namespace tern
