// SPDX-License-Identifier: GPL-2.0-or-later
// The Ethernet function: delivery of received and looped back frames.
#include <algorithm>
#include <array>
#include <cstring>

#include "eth/addresses.h"
#include "eth/ethernet.h"
#include "eth/rx_frame.h"
#include "eth/size_class.h"
#include "frames/ethernet.h"
#include "frames/tcp_train.h"
#include "objects/context.h"

namespace tern {

namespace {

// Charges to the sender of a frame, in bytes: for each queue that stores it, in addition to its
// length, and for each lookup of flows.
constexpr std::uint32_t kFrameCost = 64;
constexpr std::uint32_t kLookupCost = 16;

// VLAN ID of a frame, 0 if it has no tag or a priority tag.
std::uint16_t vlan_of(std::span<const std::byte> frame) {
  return frames::is_tagged(frame) ? frames::vlan_of(frame) : std::uint16_t{0};
}

}  // namespace

// ---- filter ----

bool Ethernet::mac_wanted(const Mac& dst) const {
  if (dst == addresses_.mac() || dst == frames::kBroadcast) return true;
  if (frames::is_group(dst) && (le(filter_.flags) & TERN_RXF_ALLMULTI)) return true;
  const auto list = std::span(filter_.macs).first(le(filter_.num_macs));
  return std::ranges::any_of(
      list, [&](const auto& mac) { return std::memcmp(mac, dst.data(), dst.size()) == 0; });
}

bool Ethernet::wanted(std::span<const std::byte> frame) const {
  const std::uint16_t flags = le(filter_.flags);
  if (flags & TERN_RXF_PROMISC) return true;
  if (!mac_wanted(frames::destination(frame))) return false;
  const std::uint16_t vlan = vlan_of(frame);
  if (vlan == 0 || !(flags & TERN_RXF_VLANS)) return true;
  return (le(filter_.vlans[vlan / 32]) >> (vlan % 32)) & 1;
}

// ---- frames from the wire and from this port ----

// Whether a receive queue works. Usually the first one does.
bool Ethernet::receives() const {
  if (first_rx_ == nullptr || !first_rx_->broken) [[likely]]
    return first_rx_ != nullptr;
  bool any = false;
  queues_.for_each([&](std::uint32_t, const EthQueue& q) { any |= !q.transmits() && !q.broken; });
  return any;
}

void Ethernet::receive(std::span<const std::byte> frame) {
  if (!addresses_.active() || frame.size() < frames::kEthernet) return;
  Counters& counters = context_.counters;
  const bool flows = steering.flows() != 0;
  // Without a working queue, the interface has no driver: do not count the loss.
  const bool queue = receives();
  if (!flows) [[likely]] {
    if (!queue) return;
    if (!wanted(frame)) return counters.add_eth(TERN_ETH_CNT_RX_FILTERED);
  }
  if (frame.size() > most_bytes()) return counters.add_eth(TERN_ETH_CNT_RX_TOO_LONG);
  const frames::Headers headers = frames::parse(frame);
  RxFrame rx{.bytes = frame, .headers = headers};
  if (flows) [[unlikely]] {
    if (steer(rx, nullptr)) return;
    if (!wanted(frame)) {
      if (queue && !rx.kept) counters.add_eth(TERN_ETH_CNT_RX_FILTERED);
      return;
    }
  }
  to_default(rx, nullptr);
}

void Ethernet::show_sniffers(std::span<const std::byte> frame) {
  if (!addresses_.active() || frame.size() < frames::kEthernet || frame.size() > most_bytes())
    return;
  const frames::Headers headers = frames::parse(frame);
  RxFrame rx{.bytes = frame, .headers = headers};
  rx.kept = true;  // the counters of the HCA include it
  const auto verdict =
      steering.classify(headers, frame.size(), eth::Stage::kSniffer, eth::Stage::kSniffer);
  context_.charge_sender(std::uint64_t{verdict.lookups} * kLookupCost);
  for (const eth::Target& target : std::span(verdict.copy).first(verdict.copies))
    give(target, rx, nullptr);
}

eth::Steering::Verdict Ethernet::steer_datagram(std::span<const std::byte> headers,
                                                std::size_t bytes) {
  const auto verdict = steering.classify(frames::parse(headers), bytes, eth::Stage::kDatagram,
                                         eth::Stage::kDatagram);
  context_.charge_sender(std::uint64_t{verdict.lookups} * kLookupCost);
  if (verdict.taken && verdict.target.dest == TERN_DEST_NONE)
    context_.counters.add_eth(TERN_ETH_CNT_RX_FLOW_DROPPED);
  return verdict;
}

// Whether the flows of sent frames let a frame of a raw QP pass.
bool Ethernet::may_send(std::span<const std::byte> frame) {
  const auto verdict =
      steering.classify(frames::parse(frame), frame.size(), eth::Stage::kSent, eth::Stage::kSent);
  context_.charge_sender(std::uint64_t{verdict.lookups} * kLookupCost);
  return !verdict.taken || verdict.target.dest != TERN_DEST_NONE;
}

// Delivers a frame that this port sends to its own receivers. Returns whether the frame also goes
// to the wire.
bool Ethernet::loop_back(std::span<const std::byte> frame, const Sender& sender) {
  const Mac dst = frames::destination(frame);
  const bool raw = sender.qpn != 0;
  const bool group = frames::is_group(dst);
  const bool own = raw && dst == addresses_.mac();
  if (!own && !(raw && group) && !claims_.contains(frames::as_number(dst.data()))) return true;
  const frames::Headers headers = frames::parse(frame);
  RxFrame rx{.bytes = frame, .headers = headers};
  const bool taken = steer(rx, &sender);
  if (raw && !taken && wanted(frame)) to_default(rx, &sender);
  return group || !(own || taken);
}

// Gives a frame to the flows that it matches. Returns whether one of them took it.
bool Ethernet::steer(RxFrame& frame, const Sender* sender) {
  const auto verdict = steering.classify(frame.headers, frame.bytes.size(), eth::Stage::kSniffer,
                                         eth::Stage::kReceived);
  context_.charge_sender(std::uint64_t{verdict.lookups} * kLookupCost);
  for (const eth::Target& target : std::span(verdict.copy).first(verdict.copies))
    give(target, frame, sender);
  if (!verdict.taken) return false;
  if (verdict.target.dest == TERN_DEST_NONE) {
    context_.counters.add_eth(TERN_ETH_CNT_RX_FLOW_DROPPED);
  } else {
    give(verdict.target, frame, sender);
  }
  return true;
}

void Ethernet::to_default(RxFrame& frame, const Sender* sender) {
  if (default_.dest != TERN_DEST_NONE) return give(default_, frame, sender);
  if (first_rx_ != nullptr) store(*first_rx_, frame);
}

void Ethernet::give(const eth::Target& target, RxFrame& frame, const Sender* sender) {
  frame.tag = target.tag;
  frame.hash = {};
  switch (target.dest) {
    case TERN_DEST_ETH_QUEUE:
      if (EthQueue* const q = queues_.find(target.id)) store(*q, frame);
      break;
    case TERN_DEST_RSS:
      if (const Group* const group = groups_.find(target.id)) give_to_group(*group, frame, sender);
      break;
    case TERN_DEST_QP:
      give_to_qp(target.id, frame, sender);
      break;
    default:
      break;
  }
}

// Sets the frame's hash, and returns the group's entry for it.
std::uint32_t Ethernet::entry_of(const Group& group, RxFrame& frame) {
  const bool inner = (group.cmd.func & TERN_RSS_F_INNER) != 0 &&
                     (frame.headers.outer.layers & TERN_LAYER_VXLAN) != 0;
  const std::uint8_t func = group.cmd.func & static_cast<std::uint8_t>(~TERN_RSS_F_INNER);
  frame.hash = eth::rss_hash(inner ? frame.headers.inner : frame.headers.outer, func,
                             group.cmd.fields, group.toeplitz);
  return frame.hash.value & ((1U << group.cmd.log_entries) - 1);
}

void Ethernet::give_to_group(const Group& group, RxFrame& frame, const Sender* sender) {
  const std::uint32_t entry = entry_of(group, frame);
  if (group.cmd.kind == TERN_DEST_ETH_QUEUE) {
    store(*group.queues[entry], frame);
  } else {
    give_to_qp(le(group.cmd.entries[entry]), frame, sender);
  }
}

void Ethernet::give_to_qp(std::uint32_t qpn, RxFrame& frame, const Sender* sender) {
  const bool back = sender != nullptr && sender->qpn == qpn && sender->skip_self &&
                    frames::is_group(frames::destination(frame.bytes));
  if (back) return;
  examine(frame);
  if (context_.receive_frame(qpn, frame)) count_received(frame);
}

// Verifies the checksums, only once for each frame.
void Ethernet::examine(RxFrame& frame) {
  if (frame.examined || !frame.headers.outer.ip()) return;
  frame.examined = true;
  frame.checked = frames::check(frame.bytes, frame.headers.outer);
  if (frame.checked.wrong) [[unlikely]]
    context_.counters.add_eth(TERN_ETH_CNT_RX_CSUM_ERRORS);
}

// Counts a frame once, however many receivers get it.
void Ethernet::count_received(RxFrame& frame) {
  if (frame.kept) return;
  frame.kept = true;
  count_received(frame.bytes, frame.bytes.size(), 1);
}

// Counts frames of `bytes` bytes to the destination of `frame`.
void Ethernet::count_received(std::span<const std::byte> frame, std::size_t bytes,
                              std::uint32_t number) {
  Counters& counters = context_.counters;
  counters.add_eth(TERN_ETH_CNT_RX_PACKETS, number);
  counters.add_eth(TERN_ETH_CNT_RX_BYTES, bytes * number);
  counters.add_eth(TERN_ETH_CNT_RX_SIZES + size_class(bytes), number);
  const Mac dst = frames::destination(frame);
  if (frames::is_group(dst))
    counters.add_eth(
        dst == frames::kBroadcast ? TERN_ETH_CNT_RX_BROADCAST : TERN_ETH_CNT_RX_MULTICAST, number);
}

// ---- receive queues ----

// Reads descriptors until their buffers hold `size` bytes. Returns false if the frame must be
// dropped: it is counted then, and uses no descriptor.
bool Ethernet::find_buffers(EthQueue& q, std::size_t size, RxBuffers& buffers) {
  Counters& counters = context_.counters;
  const std::uint32_t most = q.flag(TERN_ETH_QF_SCATTER) ? TERN_ETH_MAX_RXD : 1;
  while (buffers.room < size) {
    if (buffers.count == most) {
      counters.add_eth(TERN_ETH_CNT_RX_TOO_LONG);
      return false;
    }
    const std::uint32_t index = q.ci + buffers.count;
    if (index == q.pi && !read_pi(q)) return false;
    if (index == q.pi) {
      counters.add_eth(TERN_ETH_CNT_RX_NO_BUFFER);
      return false;
    }
    tern_eth_rxd& rxd = buffers.rxd[buffers.count++];
    if (!q.buffer.read(context_.host, q.slot(index), std::as_writable_bytes(std::span(&rxd, 1)))) {
      counters.add(TERN_CNT_DMA_ERRORS);
      fail(q, q.ci);
      return false;
    }
    buffers.room += le(rxd.length);
  }
  return true;
}

// Writes the next bytes of a frame to the buffers, which have space for them. Returns false if a
// buffer is unreachable.
bool Ethernet::write(RxBuffers& buffers, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t length = le(buffers.rxd[buffers.at].length);
    if (buffers.used == length) {
      ++buffers.at;
      buffers.used = 0;
      continue;
    }
    const std::size_t n = std::min<std::size_t>(length - buffers.used, bytes.size());
    if (!dma_write(context_.host, le(buffers.rxd[buffers.at].addr) + buffers.used, bytes.first(n)))
      return false;
    bytes = bytes.subspan(n);
    buffers.used += n;
  }
  return true;
}

// Writes a frame to the next buffers of the ring and fills in its CQE. Returns false if the frame
// was dropped.
bool Ethernet::place(EthQueue& q, RxFrame& frame, RxBuffers& buffers, tern_cqe& cqe) {
  const bool strip = q.flag(TERN_ETH_QF_STRIP_VLAN);
  const StoredFrame stored(frame, strip, q.flag(TERN_ETH_QF_KEEP_FCS));
  if (!find_buffers(q, stored.size(), buffers)) return false;
  examine(frame);
  q.ci += buffers.count;
  frame.describe(cqe, strip);
  if (std::ranges::all_of(stored.pieces(), [&](auto piece) { return write(buffers, piece); }))
      [[likely]] {
    cqe.byte_len = le(static_cast<std::uint32_t>(stored.size()));
    count_received(frame);
  } else {
    context_.counters.add(TERN_CNT_DMA_ERRORS);
    cqe.status = TERN_CQE_LOC_PROT_ERR;
  }
  return true;
}

void Ethernet::store(EthQueue& q, RxFrame& frame) {
  if (q.broken) return;
  context_.charge_sender(frame.bytes.size() + kFrameCost);
  if (q.open != nullptr) return coalesce(q, frame);
  RxBuffers buffers;
  tern_cqe cqe{};
  if (place(q, frame, buffers, cqe)) complete(q, q.ci - 1, cqe);
}

// ---- trains ----

// The receive queue of a train without flows; null if a raw QP gets its frames.
EthQueue* Ethernet::queue_for_train(RxFrame& frame) const {
  switch (default_.dest) {
    case TERN_DEST_NONE:
      return first_rx_;
    case TERN_DEST_ETH_QUEUE:
      return queues_.find(default_.id);
    case TERN_DEST_RSS: {
      const Group* const group = groups_.find(default_.id);
      if (group == nullptr || group->cmd.kind != TERN_DEST_ETH_QUEUE) return nullptr;
      return group->queues[entry_of(*group, frame)];
    }
    default:
      return nullptr;
  }
}

// The queue gets the packet that it would have coalesced from the segments.
bool Ethernet::receive_train(const WireFrame& train) {
  const std::span<const std::byte> frame = train.bytes;
  if (steering.flows() != 0 || sniffs() || !wanted(frame)) return false;
  const frames::Headers headers = frames::parse(frame);
  const frames::Level& level = headers.outer;
  RxFrame rx{.bytes = frame, .headers = headers};
  EthQueue* const q = queue_for_train(rx);
  if (q == nullptr || q->broken || q->open == nullptr || level.payload + train.mss > most_bytes() ||
      !eth::Coalesced::may_join(frame, level))
    return false;
  if (q->opened.linked()) close(*q);
  const auto segments = frames::TcpTrain::parse(frame, train.train, train.mss);
  RxOpen& open = *q->open;
  open.buffers.clear();
  open.cqe = {};
  const bool strip = q->flag(TERN_ETH_QF_STRIP_VLAN);
  const StoredFrame stored(rx, strip, false);
  if (q->broken || !segments || !extend(*q, open.buffers, stored.size())) return false;
  context_.charge_sender(segments->bytes() + std::uint64_t{train.train} * kFrameCost);
  rx.examined = true;
  rx.checked = {.l3_ok = true, .l4_ok = true};
  rx.describe(open.cqe, strip);
  open.size = static_cast<std::uint32_t>(stored.size());
  open.packet.start(frame, level, train.train, train.mss);
  q->ci += open.buffers.count;
  if (std::ranges::all_of(stored.pieces(), [&](auto piece) { return write(open.buffers, piece); }))
      [[likely]] {
    count_received(frame, segments->bytes(0), train.train - 1);
    count_received(frame, segments->bytes(train.train - 1), 1);
  } else {
    context_.counters.add(TERN_CNT_DMA_ERRORS);
    open.cqe.status = TERN_CQE_LOC_PROT_ERR;
  }
  close(*q);
  return true;
}

// ---- coalescing ----

// Adds a frame to the queue's open packet. If the frame does not continue it, completes the packet
// first to keep the order, then stores the frame, which may open another packet.
void Ethernet::coalesce(EthQueue& q, RxFrame& frame) {
  const frames::Level& level = frame.headers.outer;
  const bool may_join = eth::Coalesced::may_join(frame.bytes, level);
  if (q.opened.linked()) {
    if (may_join && join(q, frame)) return;
    close(q);
    if (q.broken) return;
  }
  RxOpen& open = *q.open;
  open.buffers.clear();
  open.cqe = {};
  if (!place(q, frame, open.buffers, open.cqe)) return;
  const bool good =
      frame.checked.l3_ok && frame.checked.l4_ok && open.cqe.status == TERN_CQE_SUCCESS;
  if (!may_join || !good || !eth::Coalesced::may_lead(frame.bytes, level))
    return complete(q, q.ci - 1, open.cqe);
  open.packet.start(frame.bytes, level);
  open.size = le(std::uint32_t{open.cqe.byte_len});
  opened_.push_back(q.opened);
}

// Appends the payload of a frame to the open packet, if the frame continues it. On any failure the
// frame stays a single one.
bool Ethernet::join(EthQueue& q, RxFrame& frame) {
  RxOpen& open = *q.open;
  const frames::Level& level = frame.headers.outer;
  if (!open.packet.continues(frame.bytes, level) || le(open.cqe.src_qp) != frame.tag) return false;
  examine(frame);
  if (!frame.checked.l3_ok || !frame.checked.l4_ok) return false;
  const auto payload = frame.bytes.subspan(level.payload);
  const std::uint32_t count = open.buffers.count;
  if (!extend(q, open.buffers, open.size + payload.size())) return false;
  if (!write(open.buffers, payload)) {
    open.buffers.count = count;
    return false;
  }
  q.ci += open.buffers.count - count;
  open.size += static_cast<std::uint32_t>(payload.size());
  open.packet.add(frame.bytes, level);
  count_received(frame);
  if (open.packet.ended()) close(q);
  return true;
}

// Reads descriptors until the buffers of the open packet hold `size` bytes. On failure returns
// false and changes nothing: the frame then closes the packet, and storing it reports the reason.
bool Ethernet::extend(EthQueue& q, RxBuffers& buffers, std::uint64_t size) {
  std::uint64_t room = buffers.room;
  std::uint32_t count = buffers.count;
  for (std::uint32_t index = q.ci; room < size; ++index) {
    if (count == TERN_ETH_MAX_RXD) return false;
    if (index == q.pi) {
      const auto pi = q.record.load32(context_.host, offsetof(tern_eth_record, pi));
      if (!pi || *pi == index || *pi - index > q.size() - (index - q.ci)) return false;
      q.pi = *pi;
    }
    tern_eth_rxd& rxd = buffers.rxd[count++];
    if (!q.buffer.read(context_.host, q.slot(index), std::as_writable_bytes(std::span(&rxd, 1))))
      return false;
    room += le(rxd.length);
  }
  buffers.room = room;
  buffers.count = count;
  return true;
}

// Replaces the headers of the first frame with those of the packet.
bool Ethernet::write_headers(RxOpen& open) {
  const auto headers = open.packet.finish();
  open.buffers.at = 0;
  open.buffers.used = 0;
  const bool strip = (open.cqe.flags & TERN_CQE_F_VLAN) != 0;
  return write(open.buffers, headers.first(frames::kAddresses)) &&
         write(open.buffers, headers.subspan(frames::kAddresses + (strip ? frames::kTag : 0)));
}

// Completes the open packet.
void Ethernet::close(EthQueue& q) {
  RxOpen& open = *q.open;
  q.opened.unlink();
  open.cqe.byte_len = le(open.size);
  if (open.packet.segments() > 1) {
    open.cqe.srqn = le(open.packet.describe());
    if (!write_headers(open)) {
      context_.counters.add(TERN_CNT_DMA_ERRORS);
      open.cqe.status = TERN_CQE_LOC_PROT_ERR;
    }
  }
  complete(q, q.ci - 1, open.cqe);
}

}  // namespace tern
