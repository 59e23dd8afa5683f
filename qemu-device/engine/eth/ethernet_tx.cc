// SPDX-License-Identifier: GPL-2.0-or-later
// The Ethernet function: transmit queues.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "eth/addresses.h"
#include "eth/ethernet.h"
#include "eth/size_class.h"
#include "frames/ethernet.h"
#include "objects/context.h"

namespace tern {

namespace {

constexpr std::uint32_t kFrameCost = 256;   // bytes of budget per frame besides its length
constexpr std::uint32_t kTurn = 16 * 1024;  // a queue's turn while others wait

std::uint32_t cost_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes + kFrameCost, UINT32_MAX));
}

// The first descriptor of a frame with offloads.
tern_eth_offload offload_of(const TxDescriptors& frame) {
  static_assert(sizeof(tern_eth_offload) == sizeof(tern_eth_txd) &&
                offsetof(tern_eth_offload, flags) == offsetof(tern_eth_txd, flags));
  tern_eth_offload offload;
  std::memcpy(&offload, frame.txd.data(), sizeof(offload));
  return offload;
}

}  // namespace

bool Ethernet::kick(std::uint32_t id, std::uint32_t uar) {
  EthQueue* const q = queues_.find(id);
  if (q == nullptr || !q->transmits() || le(q->cmd.uar) != uar) return false;
  tx_poller.rung(*q);
  q->kick();
  return true;
}

// Round robin by bytes, like DataPath::run_qps(): a turn that the budget cuts short continues in
// the next run. A queue whose train exceeded its turn skips others.
void Ethernet::run(std::uint32_t budget) {
  // A train may exceed the budget. Not while the wire takes little.
  trains_ = budget >= kTurn;
  while (budget > 0 && context_.device.status.enabled()) {
    EthQueue* const q = kicked_.pop_front();
    if (q == nullptr) return;
    std::uint32_t turn = q->turn_left != 0 ? q->turn_left : kTurn;
    if (kicked_.empty()) {
      turn = std::max(turn, budget);
    } else if (q->debt >= turn) {
      q->debt -= turn;
      q->turn_left = 0;
      kicked_.push_back(q->kicked);
      continue;
    }
    const std::uint32_t given = std::min(turn, budget);
    std::uint32_t spent = 0;
    const bool more = serve(*q, given, spent);
    budget -= std::min(budget, spent);
    q->turn_left = 0;
    q->debt = spent > turn ? spent - turn : 0;
    if (!more) continue;
    if (spent < turn) {
      q->turn_left = turn - spent;
      kicked_.push_front(q->kicked);
    } else {
      kicked_.push_back(q->kicked);
    }
  }
}

// Sends frames for about `allowance` bytes. The queue is off the list: a later kick is not lost.
// Returns true if more are waiting.
bool Ethernet::serve(EthQueue& q, std::uint32_t allowance, std::uint32_t& spent) {
  if (q.broken || !read_pi(q)) return false;
  while (spent < allowance) {
    std::uint32_t cost;
    const std::uint64_t before = context_.received;
    if (q.large->segments) {
      cost = send_segment(q);
    } else {
      TxDescriptors frame;
      if (take(q, frame) != Took::kFrame) return false;
      q.ci += frame.count;
      cost = send(q, frame);
    }
    // Include the copies of a looped back frame.
    cost += static_cast<std::uint32_t>(context_.received - before);
    if (q.broken) return false;
    context_.spend(cost);
    spent = cost < UINT32_MAX - spent ? spent + cost : UINT32_MAX;
  }
  return q.large->segments || q.ci != q.pi;
}

// Copies the descriptors of the next frame. Returns kNothing if the last one is not posted yet.
Ethernet::Took Ethernet::take(EthQueue& q, TxDescriptors& frame) {
  while (frame.count < q.pi - q.ci) {
    if (frame.count == TERN_ETH_MAX_TXD) {
      fail(q, q.ci);
      return Took::kBroken;
    }
    tern_eth_txd& txd = frame.txd[frame.count];
    if (!q.buffer.read(context_.host, q.slot(q.ci + frame.count),
                       std::as_writable_bytes(std::span(&txd, 1)))) {
      context_.counters.add(TERN_CNT_DMA_ERRORS);
      fail(q, q.ci);
      return Took::kBroken;
    }
    const std::uint16_t flags = le(txd.flags);
    if (flags & TERN_ETH_F_OFFLOAD) [[unlikely]] {
      (frame.count == 0 ? frame.offloads : frame.misplaced) = true;
    } else {
      frame.bytes += le(txd.length);
    }
    ++frame.count;
    if (flags & TERN_ETH_F_EOP) return Took::kFrame;
  }
  return Took::kNothing;
}

// Completes the frame that ends with the descriptor taken last.
void Ethernet::sent(EthQueue& q, std::uint8_t status) {
  if (status != TERN_CQE_SUCCESS) context_.counters.add_eth(TERN_ETH_CNT_TX_ERRORS);
  tern_cqe cqe{};
  cqe.opcode = TERN_ETH_TX;
  cqe.status = status;
  complete(q, q.ci - 1, cqe);
}

// Sends a frame, or the first segment of a large one, and returns its cost.
std::uint32_t Ethernet::send(EthQueue& q, const TxDescriptors& frame) {
  if (!frame.offloads && !frame.misplaced) [[likely]]
    return send_plain(q, frame);
  const tern_eth_offload offload = offload_of(frame);
  // An offload descriptor with EOP would be a frame without bytes.
  if (frame.misplaced || le(std::uint16_t{offload.flags}) != TERN_ETH_F_OFFLOAD) {
    sent(q, TERN_CQE_LOC_LEN_ERR);
    return cost_of(0);
  }
  return eth::Outgoing::segments(offload) ? begin_large(q, frame, offload)
                                          : send_whole(q, frame, offload);
}

std::uint32_t Ethernet::send_plain(EthQueue& q, const TxDescriptors& frame) {
  if (frame.bytes < frames::kEthernet || frame.bytes > most_bytes()) {
    sent(q, TERN_CQE_LOC_LEN_ERR);
    return cost_of(0);
  }
  const auto bytes = static_cast<std::size_t>(frame.bytes);
  const auto room = context_.effects->begin_frame(std::max(bytes, frames::kMinFrame));
  if (!gather(frame, 0, room.first(bytes))) {
    sent(q, TERN_CQE_LOC_PROT_ERR);
  } else {
    emit(room, bytes, {});
    sent(q, TERN_CQE_SUCCESS);
  }
  return cost_of(bytes);
}

std::uint32_t Ethernet::send_whole(EthQueue& q, const TxDescriptors& frame,
                                   const tern_eth_offload& offload) {
  const auto outgoing = eth::Outgoing::make(offload, {}, frame.bytes, most_bytes());
  if (!outgoing) {
    sent(q, TERN_CQE_LOC_LEN_ERR);
    return cost_of(0);
  }
  const std::size_t bytes = outgoing->bytes(0);
  const auto room = context_.effects->begin_frame(std::max(bytes, frames::kMinFrame));
  if (!gather(frame, 0, room.first(bytes).subspan(outgoing->start()))) {
    sent(q, TERN_CQE_LOC_PROT_ERR);
  } else if (!outgoing->finish(0, room.first(bytes))) {
    sent(q, TERN_CQE_LOC_LEN_ERR);
  } else {
    emit(room, bytes, {});
    sent(q, TERN_CQE_SUCCESS);
  }
  return cost_of(bytes);
}

std::uint32_t Ethernet::begin_large(EthQueue& q, const TxDescriptors& frame,
                                    const tern_eth_offload& offload) {
  TxLarge& large = *q.large;
  const std::size_t headers = le(std::uint16_t{offload.header_len});
  if (headers > large.headers.size() || headers > frame.bytes) {
    sent(q, TERN_CQE_LOC_LEN_ERR);
    return cost_of(0);
  }
  const auto copied = std::span(large.headers).first(headers);
  if (!gather(frame, 0, copied)) {
    sent(q, TERN_CQE_LOC_PROT_ERR);
    return cost_of(headers);
  }
  large.segments = eth::Outgoing::make(offload, copied, frame.bytes, most_bytes());
  if (!large.segments) {
    sent(q, TERN_CQE_LOC_LEN_ERR);
    return cost_of(headers);
  }
  if (!addresses_.active()) {
    context_.counters.add_eth(TERN_ETH_CNT_TX_ERRORS);
    large.segments.reset();
    sent(q, TERN_CQE_SUCCESS);
    return cost_of(headers);
  }
  large.descriptors = frame;
  large.next = 0;
  context_.counters.add_eth(TERN_ETH_CNT_TX_SEGMENTED);
  const bool whole = trains_ && claims_.empty() && large.segments->train_bytes() != 0 &&
                     context_.sends_tcp_train();
  return whole ? send_train(q) : send_segment(q);
}

// Sends all segments of a large frame as one frame.
std::uint32_t Ethernet::send_train(EthQueue& q) {
  TxLarge& large = *q.large;
  const eth::Outgoing segments = *std::exchange(large.segments, std::nullopt);
  const std::size_t bytes = segments.train_bytes();
  const auto room = context_.effects->begin_frame(bytes).first(bytes);
  const auto at = room.subspan(segments.start());
  std::memcpy(at.data(), large.headers.data(), segments.headers());
  if (!gather(large.descriptors, segments.headers(), at.subspan(segments.headers()))) {
    sent(q, TERN_CQE_LOC_PROT_ERR);
    return cost_of(bytes);
  }
  segments.finish_train(room);
  const auto last = static_cast<std::uint32_t>(segments.count() - 1);
  count_sent(room, segments.bytes(0), last);
  count_sent(room, segments.bytes(last), 1);
  context_.effects->commit_frame(bytes, true, context_.host.now(), Icrc::kDeferred, last + 1,
                                 static_cast<std::uint16_t>(segments.mss()));
  sent(q, TERN_CQE_SUCCESS);
  return cost_of(bytes + last * std::uint64_t{kFrameCost});
}

// Sends the next segment of a large frame. The payload goes from the posted buffers directly to the
// frame.
std::uint32_t Ethernet::send_segment(EthQueue& q) {
  TxLarge& large = *q.large;
  const eth::Outgoing& segments = *large.segments;
  const auto [offset, length] = segments.piece(large.next);
  const std::size_t bytes = segments.bytes(large.next);
  const auto room = context_.effects->begin_frame(std::max(bytes, frames::kMinFrame));
  const auto at = room.first(bytes).subspan(segments.start());
  std::memcpy(at.data(), large.headers.data(), segments.headers());
  std::uint8_t status = TERN_CQE_SUCCESS;
  if (!gather(large.descriptors, offset, at.subspan(segments.headers(), length))) {
    status = TERN_CQE_LOC_PROT_ERR;
  } else if (!segments.finish(large.next, room.first(bytes))) {
    status = TERN_CQE_LOC_LEN_ERR;
  } else {
    emit(room, bytes, {});
  }
  if (status != TERN_CQE_SUCCESS || ++large.next == segments.count()) {
    large.segments.reset();
    sent(q, status);
  }
  return cost_of(bytes);
}

// Copies bytes [offset, offset + to.size()) of a posted frame, all of which exist. Returns false if
// they are unreachable.
bool Ethernet::gather(const TxDescriptors& frame, std::size_t offset, std::span<std::byte> to) {
  for (std::uint32_t i = frame.first(); i < frame.count && !to.empty(); ++i) {
    const std::size_t length = le(frame.txd[i].length);
    if (offset >= length) {
      offset -= length;
      continue;
    }
    const std::size_t n = std::min(length - offset, to.size());
    if (!dma_read(context_.host, le(frame.txd[i].addr) + offset, to.first(n))) {
      context_.counters.add(TERN_CNT_DMA_ERRORS);
      return false;
    }
    to = to.subspan(n);
    offset = 0;
  }
  return true;
}

void Ethernet::emit(std::span<std::byte> room, std::size_t bytes, const Sender& sender) {
  // As with an unplugged cable, the frame is lost and the sender sees success.
  if (!addresses_.active()) return context_.counters.add_eth(TERN_ETH_CNT_TX_ERRORS);
  const std::size_t len = std::max(bytes, frames::kMinFrame);
  std::ranges::fill(room.subspan(bytes, len - bytes), std::byte{0});
  const auto frame = room.first(len);
  if (sender.qpn != 0 && steering.any(eth::Stage::kSent) && !may_send(frame)) [[unlikely]]
    return;
  count_sent(frame, bytes, 1);
  bool to_wire = true;
  if (sender.qpn != 0 || !claims_.empty()) [[unlikely]]
    to_wire = loop_back(frame, sender);
  if (to_wire || capture) context_.effects->commit_frame(len, to_wire, context_.host.now());
}

// Counts frames of `bytes` bytes, without padding, to the destination of `frame`.
void Ethernet::count_sent(std::span<const std::byte> frame, std::size_t bytes,
                          std::uint32_t number) {
  Counters& counters = context_.counters;
  counters.add_eth(TERN_ETH_CNT_TX_PACKETS, number);
  counters.add_eth(TERN_ETH_CNT_TX_BYTES, bytes * number);
  counters.add_eth(TERN_ETH_CNT_TX_SIZES + size_class(std::max(bytes, frames::kMinFrame)), number);
  const Mac dst = frames::destination(frame);
  if (frames::is_group(dst))
    counters.add_eth(
        dst == frames::kBroadcast ? TERN_ETH_CNT_TX_BROADCAST : TERN_ETH_CNT_TX_MULTICAST, number);
}

}  // namespace tern
