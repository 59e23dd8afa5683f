// SPDX-License-Identifier: GPL-2.0-or-later
// The Ethernet function: its objects and their references.
#include "eth/ethernet.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/limits.h"
#include "eth/addresses.h"
#include "frames/ethernet.h"
#include "objects/context.h"
#include "objects/uar_pages.h"

namespace tern {

namespace {

constexpr std::uint8_t kLogSizeMin = 4;
constexpr std::uint8_t kLogSizeMax = 14;
constexpr std::uint8_t kLogEntriesMax = 7;
static_assert(1 << kLogEntriesMax == TERN_RSS_ENTRIES);
static_assert(sizeof(tern_eth_rxd) == sizeof(tern_eth_txd));

constexpr std::uint8_t kRxFlags =
    TERN_ETH_QF_SCATTER | TERN_ETH_QF_STRIP_VLAN | TERN_ETH_QF_KEEP_FCS | TERN_ETH_QF_COALESCE;

// Coalescing needs SCATTER and excludes KEEP_FCS: a packet of several frames takes several buffers,
// and has no FCS.
bool may_coalesce(std::uint8_t flags) {
  return (flags & TERN_ETH_QF_COALESCE) == 0 ||
         (flags & (TERN_ETH_QF_SCATTER | TERN_ETH_QF_KEEP_FCS)) == TERN_ETH_QF_SCATTER;
}

// Whether flows of the kind may have such a destination.
bool may_go_to(std::uint8_t kind, std::uint8_t dest) {
  if (dest == TERN_DEST_NONE) return true;
  if (kind == TERN_FLOW_SENT) return dest == TERN_DEST_WIRE;
  return kind == TERN_FLOW_DATAGRAM ? dest == TERN_DEST_QP : dest != TERN_DEST_WIRE;
}

}  // namespace

Ethernet::Ethernet(Context& context, const Addresses& addresses)
    : tx_poller(context, context.device.config.doorbell_cost),
      steering(context.host.random()),
      context_(context),
      addresses_(addresses),
      queues_(1, 2 * kMaxQueues),
      groups_(1, kMaxRss) {}

Ethernet::~Ethernet() = default;

void Ethernet::reset() {
  steering.reset();
  claims_.clear();
  claim_of_.clear();
  groups_.clear();
  qp_entries_.clear();
  default_ = {};
  first_rx_ = nullptr;
  queues_.for_each([this](std::uint32_t, EthQueue& q) { tx_poller.forget(q); });
  queues_.clear();
  filter_ = {};
}

// ---- queues ----

Status Ethernet::check_queue(const tern_cmd_create_eth_queue& cmd) {
  const Record record(le(std::uint64_t{cmd.record}));
  const std::uint8_t flags = cmd.direction == TERN_ETH_QUEUE_RX ? kRxFlags : 0;
  const bool bad = cmd.direction > TERN_ETH_QUEUE_RX || (cmd.flags & ~flags) != 0 ||
                   cmd.log_size < kLogSizeMin || cmd.log_size > kLogSizeMax || !is_port(cmd.port) ||
                   !record.fits<tern_eth_record>() || !may_coalesce(cmd.flags);
  return bad ? TERN_ST_BAD_PARAM : TERN_ST_OK;
}

std::unique_ptr<EthQueue> Ethernet::make_queue(const tern_cmd_create_eth_queue& cmd, Cq& cq) {
  auto q = std::make_unique<EthQueue>(context_.device.page_budget, kicked_);
  q->cmd = cmd;
  q->cq = &cq;
  q->record = Record(le(std::uint64_t{cmd.record}));
  if (q->transmits()) q->large = std::make_unique<TxLarge>();
  if (q->flag(TERN_ETH_QF_COALESCE)) q->open = std::make_unique<RxOpen>();
  return q;
}

Status Ethernet::create_queue(const tern_cmd_create_eth_queue& cmd, Cq* cq, UarPages& uars,
                              std::uint32_t* id) {
  if (const Status st = check_queue(cmd); st != TERN_ST_OK) return st;
  if (!cq) return TERN_ST_BAD_HANDLE;
  if (cq->broken()) return TERN_ST_BAD_STATE;
  if (count_of(cmd.direction) >= max_queues()) return TERN_ST_NO_RESOURCE;
  auto q = make_queue(cmd, *cq);
  const std::uint64_t ring = sizeof(tern_eth_txd) << cmd.log_size;
  if (const Status st = q->buffer.load(context_.host, cmd.pages, ring)) return st;
  cq->attach(q->cq_user);
  EthQueue* const queue = q.get();
  *id = queue->id = queues_.insert(std::move(q));
  uars.add(le(cmd.uar), queue->page_queue);
  if (queue->transmits()) TxAccess::store_status(context_, *queue);
  find_first_rx();
  return TERN_ST_OK;
}

Status Ethernet::destroy_queue(std::uint32_t id) {
  EthQueue* const q = queues_.find(id);
  if (!q) return TERN_ST_BAD_HANDLE;
  const bool is_default = default_.dest == TERN_DEST_ETH_QUEUE && default_.id == id;
  if (q->references != 0 || is_default || steering.refers_to(TERN_DEST_ETH_QUEUE, id))
    return TERN_ST_BUSY;
  tx_poller.forget(*q);
  queues_.erase(id);
  find_first_rx();
  return TERN_ST_OK;
}

void Ethernet::find_first_rx() {
  first_rx_ = nullptr;
  queues_.for_each([this](std::uint32_t, EthQueue& q) {
    if (first_rx_ == nullptr && !q.transmits()) first_rx_ = &q;
  });
}

std::uint32_t Ethernet::count_of(std::uint8_t direction) const {
  std::uint32_t count = 0;
  queues_.for_each(
      [&](std::uint32_t, const EthQueue& q) { count += q.cmd.direction == direction ? 1 : 0; });
  return count;
}

std::uint16_t Ethernet::max_queues() const {
  return std::min(kMaxQueues, context_.device.config.max_eth_queues);
}

EthQueue* Ethernet::receive_queue(std::uint32_t id) const {
  EthQueue* const q = queues_.find(id);
  return q != nullptr && !q->transmits() ? q : nullptr;
}

std::size_t Ethernet::most_bytes() const { return eth::most_bytes(addresses_.mtu()); }

bool Ethernet::read_pi(EthQueue& q) {
  const auto pi = context_.producer_index(q.record, offsetof(tern_eth_record, pi));
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

void Ethernet::complete(EthQueue& q, std::uint32_t index, tern_cqe& cqe) {
  cqe.qpn = le(q.id);
  cqe.wqe_index = le(index);
  // A failed CQ takes no completion about this; the CQ's own event reports the failure.
  if (!q.cq->push(cqe)) stop(q);
}

// The ring is invalid from `index` on: reports that once and stops the queue.
void Ethernet::fail(EthQueue& q, std::uint32_t index) {
  tern_cqe cqe{};
  cqe.opcode = q.transmits() ? TERN_ETH_TX : TERN_ETH_RX;
  cqe.flags = q.transmits() ? 0 : TERN_CQE_F_RECV;
  cqe.status = TERN_CQE_LOC_QP_OP_ERR;
  complete(q, index, cqe);
  stop(q);
}

void Ethernet::stop(EthQueue& q) {
  q.broken = true;
  tx_poller.release(q);
}

void TxAccess::store_status(Context& context, EthQueue& q) {
  // An unreachable record harms only its owner.
  (void)q.record.store32(context.host, offsetof(tern_eth_record, status),
                         q.polled.on ? TERN_ETH_ST_POLLED : 0);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// ---- filter and default ----

Status Ethernet::set_filter(const tern_cmd_set_rx_filter& cmd) {
  constexpr std::uint16_t known = TERN_RXF_PROMISC | TERN_RXF_ALLMULTI | TERN_RXF_VLANS;
  if ((le(cmd.flags) & ~known) != 0 || le(cmd.num_macs) > TERN_RX_FILTER_MACS ||
      !is_port(cmd.port)) {
    return TERN_ST_BAD_PARAM;
  }
  filter_ = cmd;
  return TERN_ST_OK;
}

Status Ethernet::set_default(const tern_cmd_set_rx_default& cmd) {
  const std::uint32_t id = le(std::uint32_t{cmd.id});
  if (!is_port(cmd.port) || cmd.dest > TERN_DEST_RSS || (cmd.dest == TERN_DEST_NONE && id != 0))
    return TERN_ST_BAD_PARAM;
  if (!is_destination(cmd.dest, id)) return TERN_ST_BAD_HANDLE;
  default_ = {.dest = cmd.dest, .id = id};
  return TERN_ST_OK;
}

bool Ethernet::is_destination(const tern_cmd_create_flow& cmd) const {
  const std::uint32_t id = le(std::uint32_t{cmd.dest_id});
  if (cmd.dest == TERN_DEST_WIRE) return true;
  return cmd.kind == TERN_FLOW_DATAGRAM && cmd.dest == TERN_DEST_QP ? context_.takes_datagrams(id)
                                                                    : is_destination(cmd.dest, id);
}

bool Ethernet::is_destination(std::uint8_t dest, std::uint32_t id) const {
  switch (dest) {
    case TERN_DEST_NONE:
      return true;
    case TERN_DEST_ETH_QUEUE:
      return receive_queue(id) != nullptr;
    case TERN_DEST_RSS:
      return groups_.find(id) != nullptr;
    default:
      return context_.takes_frames(id);
  }
}

// ---- RSS groups ----

Status Ethernet::check_rss(const tern_cmd_rss& cmd) const {
  constexpr unsigned kAddresses = TERN_RSS_FIELD_SRC_IP | TERN_RSS_FIELD_DST_IP;
  constexpr unsigned kAll = kAddresses | TERN_RSS_FIELD_SRC_PORT | TERN_RSS_FIELD_DST_PORT;
  const unsigned func = cmd.func & ~unsigned{TERN_RSS_F_INNER};
  // The SPI of the other direction is in no frame, so a symmetric hash cannot include it.
  const unsigned esp =
      func == TERN_RSS_FUNC_SYMMETRIC ? kAddresses : kAddresses | TERN_RSS_FIELD_SPI;
  if (!is_port(cmd.port) || cmd.log_entries > kLogEntriesMax || func > TERN_RSS_FUNC_SYMMETRIC ||
      (cmd.kind != TERN_DEST_ETH_QUEUE && cmd.kind != TERN_DEST_QP)) {
    return TERN_ST_BAD_PARAM;
  }
  for (unsigned i = 0; i < std::size(cmd.fields); ++i) {
    const unsigned known = i > TERN_RSS_UDP6 ? esp : i <= TERN_RSS_IPV6 ? kAddresses : kAll;
    if ((cmd.fields[i] & ~known) != 0) return TERN_ST_BAD_PARAM;
  }
  const auto unused = std::span(cmd.entries).subspan(std::size_t{1} << cmd.log_entries);
  return std::ranges::all_of(unused, [](std::uint32_t entry) { return entry == 0; })
             ? TERN_ST_OK
             : TERN_ST_BAD_PARAM;
}

// Looks up the objects that the entries name.
Status Ethernet::resolve(Group& group) const {
  for (std::size_t i = 0; i < std::size_t{1} << group.cmd.log_entries; ++i) {
    const std::uint32_t id = le(group.cmd.entries[i]);
    if (group.cmd.kind == TERN_DEST_ETH_QUEUE) {
      group.queues[i] = receive_queue(id);
      if (group.queues[i] == nullptr) return TERN_ST_BAD_HANDLE;
    } else if (!context_.takes_frames(id)) {
      return TERN_ST_BAD_HANDLE;
    }
  }
  return TERN_ST_OK;
}

// Adds or removes the references of a group.
void Ethernet::refer(const Group& group, bool add) {
  for (std::size_t i = 0; i < std::size_t{1} << group.cmd.log_entries; ++i) {
    if (group.cmd.kind == TERN_DEST_ETH_QUEUE) {
      group.queues[i]->references += add ? 1 : -1U;
      continue;
    }
    const std::uint32_t qpn = le(group.cmd.entries[i]);
    if (add) {
      ++qp_entries_[qpn];
    } else if (const auto at = qp_entries_.find(qpn); --at->second == 0) {
      qp_entries_.erase(at);
    }
  }
}

Status Ethernet::create_rss(const tern_cmd_rss& cmd, std::uint32_t* id) {
  if (cmd.id != 0) return TERN_ST_BAD_PARAM;
  if (const Status st = check_rss(cmd); st != TERN_ST_OK) return st;
  auto group = std::make_unique<Group>(cmd);
  if (const Status st = resolve(*group); st != TERN_ST_OK) return st;
  if (groups_.full()) return TERN_ST_NO_RESOURCE;
  refer(*group, true);
  *id = groups_.insert(std::move(group));
  return TERN_ST_OK;
}

Status Ethernet::modify_rss(const tern_cmd_rss& cmd) {
  if (const Status st = check_rss(cmd); st != TERN_ST_OK) return st;
  Group* const group = groups_.find(le(std::uint32_t{cmd.id}));
  if (group == nullptr) return TERN_ST_BAD_HANDLE;
  if (cmd.kind != group->cmd.kind || cmd.log_entries != group->cmd.log_entries)
    return TERN_ST_BAD_PARAM;
  Group fresh(cmd);
  if (const Status st = resolve(fresh); st != TERN_ST_OK) return st;
  refer(fresh, true);
  refer(*group, false);
  *group = fresh;
  return TERN_ST_OK;
}

Status Ethernet::destroy_rss(std::uint32_t id) {
  const Group* const group = groups_.find(id);
  if (group == nullptr) return TERN_ST_BAD_HANDLE;
  const bool is_default = default_.dest == TERN_DEST_RSS && default_.id == id;
  if (is_default || steering.refers_to(TERN_DEST_RSS, id)) return TERN_ST_BUSY;
  refer(*group, false);
  groups_.erase(id);
  return TERN_ST_OK;
}

bool Ethernet::refers_to_qp(std::uint32_t qpn) const {
  return qp_entries_.contains(qpn) || steering.refers_to(TERN_DEST_QP, qpn);
}

// ---- flows ----

Status Ethernet::check_flow(const tern_cmd_create_flow& cmd) const {
  const std::uint32_t dest_id = le(std::uint32_t{cmd.dest_id});
  const bool numbered = cmd.dest != TERN_DEST_NONE && cmd.dest != TERN_DEST_WIRE;
  if (!is_port(cmd.port) || cmd.dest > TERN_DEST_WIRE || (!numbered && dest_id != 0) ||
      !may_go_to(cmd.kind, cmd.dest))
    return TERN_ST_BAD_PARAM;
  return is_destination(cmd) ? TERN_ST_OK : TERN_ST_BAD_HANDLE;
}

Status Ethernet::create_flow(const tern_cmd_create_flow& cmd, std::uint32_t* id) {
  if (const Status st = check_flow(cmd); st != TERN_ST_OK) return st;
  if (const Status st = steering.create(cmd, id); st != TERN_ST_OK) return st;
  claim(*id, cmd);
  return TERN_ST_OK;
}

void Ethernet::claim(std::uint32_t id, const tern_cmd_create_flow& cmd) {
  if (!claims(cmd)) return;
  const std::uint64_t mac = frames::as_number(cmd.value.dmac);
  ++claims_[mac];
  claim_of_[id] = mac;
}

Status Ethernet::destroy_flow(std::uint32_t id) {
  if (const Status st = steering.destroy(id); st != TERN_ST_OK) return st;
  const auto claim = claim_of_.find(id);
  if (claim == claim_of_.end()) return TERN_ST_OK;
  if (const auto at = claims_.find(claim->second); --at->second == 0) claims_.erase(at);
  claim_of_.erase(claim);
  return TERN_ST_OK;
}

// Whether frames of this port to the flow's destination address are looped back: the flow is one of
// raw QPs, and matches the whole address.
bool Ethernet::claims(const tern_cmd_create_flow& cmd) const {
  if (cmd.kind != TERN_FLOW_NORMAL || !(le(std::uint16_t{cmd.layers}) & TERN_LAYER_ETH))
    return false;
  if (!std::ranges::all_of(cmd.mask.dmac, [](std::uint8_t byte) { return byte == 0xff; }))
    return false;
  if (cmd.dest == TERN_DEST_QP) return true;
  return cmd.dest == TERN_DEST_RSS &&
         groups_.find(le(std::uint32_t{cmd.dest_id}))->cmd.kind == TERN_DEST_QP;
}

}  // namespace tern
