// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/ethernet.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/limits.h"
#include "eth/addresses.h"
#include "objects/context.h"
#include "objects/uar_pages.h"

namespace tern {

namespace {

constexpr std::size_t kHeader = 14;
constexpr std::size_t kTag = 4;
constexpr std::size_t kMinFrame = 60;          // without FCS
constexpr std::uint32_t kFrameCost = 256;      // bytes of budget per frame besides its length
constexpr std::uint8_t kLogSizeMin = 4;
constexpr std::uint8_t kLogSizeMax = 14;
constexpr std::uint32_t kDescriptor = sizeof(tern_eth_txd);
static_assert(sizeof(tern_eth_rxd) == kDescriptor);
constexpr Mac kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

template <class T>
std::span<std::byte> bytes_of(T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

Mac destination(std::span<const std::byte> frame) {
  Mac mac;
  std::memcpy(mac.data(), frame.data(), mac.size());
  return mac;
}

bool is_group(const Mac& mac) { return (mac[0] & 1) != 0; }

// VLAN ID of a frame, 0 if it has no tag or a priority tag.
std::uint16_t vlan_of(std::span<const std::byte> frame) {
  if (frame.size() < kHeader + kTag) return 0;
  if (frame[12] != std::byte{0x81} || frame[13] != std::byte{0x00}) return 0;
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(frame[14] & std::byte{0x0f}) << 8 |
                                    std::to_integer<unsigned>(frame[15]));
}

}  // namespace

struct Ethernet::Queue {
  explicit Queue(PageBudget& budget) : buffer(budget) {}

  tern_cmd_create_eth_queue cmd{};
  QueueBuffer buffer;
  Record record;
  Cq* cq = nullptr;
  std::uint32_t id = 0;
  std::uint32_t pi = 0;  // last read
  std::uint32_t ci = 0;
  bool kicked = false;
  bool broken = false;  // stopped until it is destroyed
  // The queue learns that the CQ failed from its next completion.
  CqUser cq_user{[](void*) {}, nullptr};
  PageQueue page_queue{[](void* self) { static_cast<Queue*>(self)->kicked = true; }, this};

  [[nodiscard]] std::uint32_t size() const { return 1U << cmd.log_size; }
  [[nodiscard]] bool transmits() const { return cmd.direction == TERN_ETH_QUEUE_TX; }
  [[nodiscard]] std::uint64_t slot(std::uint32_t index) const {
    return std::uint64_t{index & (size() - 1)} * kDescriptor;
  }
};

// The descriptors of one frame, copied.
struct Ethernet::TxFrame {
  std::array<tern_eth_txd, TERN_ETH_MAX_TXD> txd;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
};

Ethernet::Ethernet(Context& context, const Addresses& addresses)
    : context_(context), addresses_(addresses), queues_(1, 2 * kMaxQueues) {}

Ethernet::~Ethernet() = default;

Status Ethernet::create_queue(const tern_cmd_create_eth_queue& cmd, Cq* cq, UarPages& uars, std::uint32_t* id) {
  const Record record(le(std::uint64_t{cmd.record}));
  if (cmd.direction > TERN_ETH_QUEUE_RX || cmd.log_size < kLogSizeMin ||
      cmd.log_size > kLogSizeMax || !is_port(cmd.port) || !record.fits<tern_eth_record>()) {
    return TERN_ST_BAD_PARAM;
  }
  if (!cq) return TERN_ST_BAD_HANDLE;
  if (cq->broken()) return TERN_ST_BAD_STATE;
  if (first(cmd.direction)) return TERN_ST_NO_RESOURCE;
  auto q = std::make_unique<Queue>(context_.page_budget);
  q->cmd = cmd;
  q->cq = cq;
  q->record = record;
  const std::uint64_t ring = std::uint64_t{kDescriptor} << cmd.log_size;
  if (const Status st = q->buffer.load(context_.host, cmd.pages, ring)) return st;
  cq->attach(q->cq_user);
  Queue* const queue = q.get();
  *id = queue->id = queues_.insert(std::move(q));
  uars.add(le(cmd.uar), queue->page_queue);
  return TERN_ST_OK;
}

Status Ethernet::destroy_queue(std::uint32_t id) {
  Queue* const q = queues_.find(id);
  if (!q) return TERN_ST_BAD_HANDLE;
  queues_.erase(id);
  return TERN_ST_OK;
}

Status Ethernet::set_filter(const tern_cmd_set_rx_filter& cmd) {
  constexpr std::uint16_t known = TERN_RXF_PROMISC | TERN_RXF_ALLMULTI | TERN_RXF_VLANS;
  if ((le(cmd.flags) & ~known) != 0 || le(cmd.num_macs) > TERN_RX_FILTER_MACS ||
      !is_port(cmd.port)) {
    return TERN_ST_BAD_PARAM;
  }
  filter_ = cmd;
  return TERN_ST_OK;
}

void Ethernet::reset() {
  queues_.clear();
  filter_ = {};
}

bool Ethernet::kick(std::uint32_t id, std::uint32_t uar) {
  Queue* const q = queues_.find(id);
  if (!q || !q->transmits() || le(q->cmd.uar) != uar) return false;
  q->kicked = true;
  return true;
}

bool Ethernet::run(std::uint32_t budget) {
  bool more = false;
  queues_.for_each([&](std::uint32_t, Queue& q) {
    if (q.transmits() && q.kicked) run_queue(q, budget);
    more |= q.transmits() && q.kicked;
  });
  return more;
}

void Ethernet::run_queue(Queue& q, std::uint32_t& budget) {
  // Clear the kick before reading the index, so that a later kick is not lost.
  q.kicked = false;
  if (q.broken || !read_pi(q)) return;
  for (;;) {
    if (budget == 0) {
      q.kicked = true;
      return;
    }
    TxFrame frame;
    if (take_frame(q, frame) != Took::kFrame) return;
    q.ci += frame.count;
    const std::uint8_t status = send(frame);
    complete(q, q.ci - 1, TERN_ETH_TX, status, 0);
    if (q.broken) return;
    const std::uint64_t cost = frame.bytes + kFrameCost;
    budget = cost < budget ? budget - static_cast<std::uint32_t>(cost) : 0;
  }
}

bool Ethernet::read_pi(Queue& q) {
  const auto pi = q.record.load32(context_.host, offsetof(tern_eth_record, pi));
  if (!pi) {
    context_.counters.add(TERN_CNT_DMA_ERRORS);
    fail(q, q.ci);
    return false;
  }
  if (*pi - q.ci > q.size()) {
    fail(q, q.ci);
    return false;
  }
  q.pi = *pi;
  return true;
}

// A frame of full MTU has up to two tags (IEEE 802.1ad).
std::uint32_t Ethernet::most_bytes() const {
  return addresses_.mtu() + static_cast<std::uint32_t>(kHeader + 2 * kTag);
}

// Copies the descriptors of the next frame. Returns kNothing if the last of them is not posted yet.
Ethernet::Took Ethernet::take_frame(Queue& q, TxFrame& frame) {
  while (frame.count < q.pi - q.ci) {
    if (frame.count == TERN_ETH_MAX_TXD) {
      fail(q, q.ci);
      return Took::kBroken;
    }
    tern_eth_txd& txd = frame.txd[frame.count];
    if (!q.buffer.read(context_.host, q.slot(q.ci + frame.count), bytes_of(txd))) {
      context_.counters.add(TERN_CNT_DMA_ERRORS);
      fail(q, q.ci);
      return Took::kBroken;
    }
    ++frame.count;
    frame.bytes += le(txd.length);
    if (le(txd.flags) & TERN_ETH_F_EOP) return Took::kFrame;
  }
  return Took::kNothing;
}

// Gathers a frame and sends it to the wire. Returns the status of its completion.
std::uint8_t Ethernet::send(const TxFrame& frame) {
  Counters& counters = context_.counters;
  if (frame.bytes < kHeader || frame.bytes > most_bytes()) {
    counters.add_eth(TERN_ETH_CNT_TX_ERRORS);
    return TERN_CQE_LOC_LEN_ERR;
  }
  if (!addresses_.active()) {
    // As with an unplugged cable, the frame is lost and the driver is not told.
    counters.add_eth(TERN_ETH_CNT_TX_ERRORS);
    return TERN_CQE_SUCCESS;
  }
  const auto bytes = static_cast<std::size_t>(frame.bytes);
  const std::size_t len = std::max(bytes, kMinFrame);
  const auto room = context_.effects->begin_frame(len);
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < frame.count; ++i) {
    const std::uint32_t n = le(frame.txd[i].length);
    if (!dma_read(context_.host, le(frame.txd[i].addr), room.subspan(at, n))) {
      counters.add_eth(TERN_ETH_CNT_TX_ERRORS);
      counters.add(TERN_CNT_DMA_ERRORS);
      return TERN_CQE_LOC_PROT_ERR;
    }
    at += n;
  }
  std::ranges::fill(room.subspan(bytes), std::byte{0});
  context_.effects->commit_frame(len, true, context_.host.now());
  counters.add_eth(TERN_ETH_CNT_TX_PACKETS);
  counters.add_eth(TERN_ETH_CNT_TX_BYTES, bytes);
  return TERN_CQE_SUCCESS;
}

void Ethernet::complete(Queue& q, std::uint32_t index, std::uint8_t opcode, std::uint8_t status,
                        std::uint32_t len) {
  tern_cqe cqe{};
  cqe.qpn = le(q.id);
  cqe.byte_len = le(len);
  cqe.wqe_index = le(index);
  cqe.timestamp = le(context_.host.now());
  cqe.opcode = opcode;
  cqe.status = status;
  cqe.flags = opcode == TERN_ETH_RX ? TERN_CQE_F_RECV : 0;
  // A failed CQ takes no completion about this; the CQ's own event reports the failure.
  if (!q.cq->push(cqe)) q.broken = true;
}

// The ring is invalid from `index` on: reports that once and stops the queue.
void Ethernet::fail(Queue& q, std::uint32_t index) {
  complete(q, index, q.transmits() ? TERN_ETH_TX : TERN_ETH_RX, TERN_CQE_LOC_QP_OP_ERR, 0);
  q.broken = true;
}

Ethernet::Queue* Ethernet::first(std::uint8_t direction) const {
  Queue* found = nullptr;
  queues_.for_each([&](std::uint32_t, Queue& q) {
    if (!found && q.cmd.direction == direction) found = &q;
  });
  return found;
}

bool Ethernet::mac_wanted(const Mac& dst) const {
  if (dst == addresses_.mac() || dst == kBroadcast) return true;
  if (is_group(dst) && (le(filter_.flags) & TERN_RXF_ALLMULTI)) return true;
  const auto list = std::span(filter_.macs).first(le(filter_.num_macs));
  return std::ranges::any_of(
      list, [&](const auto& mac) { return std::memcmp(mac, dst.data(), dst.size()) == 0; });
}

bool Ethernet::wanted(std::span<const std::byte> frame) const {
  const std::uint16_t flags = le(filter_.flags);
  if (flags & TERN_RXF_PROMISC) return true;
  if (!mac_wanted(destination(frame))) return false;
  const std::uint16_t vlan = vlan_of(frame);
  if (vlan == 0 || !(flags & TERN_RXF_VLANS)) return true;
  return (le(filter_.vlans[vlan / 32]) >> (vlan % 32)) & 1;
}

void Ethernet::receive(std::span<const std::byte> frame) {
  Queue* const q = first(TERN_ETH_QUEUE_RX);
  // The interface is down, or has no driver or no working queue. The loss is not worth counting.
  if (!addresses_.active() || !q || q->broken || frame.size() < kHeader) return;
  Counters& counters = context_.counters;
  if (!wanted(frame)) return counters.add_eth(TERN_ETH_CNT_RX_FILTERED);
  if (frame.size() > most_bytes()) {
    return counters.add_eth(TERN_ETH_CNT_RX_TOO_LONG);
  }
  if (q->ci == q->pi && !read_pi(*q)) return;
  if (q->ci == q->pi) return counters.add_eth(TERN_ETH_CNT_RX_NO_BUFFER);
  tern_eth_rxd rxd;
  if (!q->buffer.read(context_.host, q->slot(q->ci), bytes_of(rxd))) {
    counters.add(TERN_CNT_DMA_ERRORS);
    return fail(*q, q->ci);
  }
  if (le(rxd.length) < frame.size()) return counters.add_eth(TERN_ETH_CNT_RX_TOO_LONG);
  const std::uint32_t index = q->ci++;
  if (!dma_write(context_.host, le(rxd.addr), frame)) {
    counters.add(TERN_CNT_DMA_ERRORS);
    return complete(*q, index, TERN_ETH_RX, TERN_CQE_LOC_PROT_ERR, 0);
  }
  counters.add_eth(TERN_ETH_CNT_RX_PACKETS);
  counters.add_eth(TERN_ETH_CNT_RX_BYTES, frame.size());
  const Mac dst = destination(frame);
  if (is_group(dst) && dst != kBroadcast) counters.add_eth(TERN_ETH_CNT_RX_MULTICAST);
  complete(*q, index, TERN_ETH_RX, TERN_CQE_SUCCESS, static_cast<std::uint32_t>(frame.size()));
}

}  // namespace tern
