// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/device.h"

#include <algorithm>
#include <array>
#include <utility>

#include "control/admin.h"
#include "control/device_faults.h"
#include "core/limits.h"
#include "transport/segments.h"
#include "wire/codec.h"

namespace tern {

namespace {

// A QP's turn in bytes, a packet counting kPacketCost besides its payload: with N others ready,
// nobody waits for more than N such turns. Who is alone goes on to the end of the slice.
constexpr std::uint32_t kQuantum = 16 * 1024;
constexpr unsigned kTimers = 64;
constexpr std::uint8_t kEcnMask = 0x03;  // of the traffic class (RFC 3168)
constexpr std::uint8_t kEcnCongested = 0x03;

// What works whatever the properties are, a line each.
constexpr std::uint64_t kCaps = TERN_CAP_RC |
                                TERN_CAP_UC |
                                TERN_CAP_UD |
                                TERN_CAP_XRC |
                                TERN_CAP_MCAST |
                                TERN_CAP_SRQ |
                                TERN_CAP_SRQ_RESIZE |
                                TERN_CAP_ATOMIC |
                                TERN_CAP_FLUSH |
                                TERN_CAP_ATOMIC_WRITE |
                                TERN_CAP_FRWR |
                                TERN_CAP_RESIZE_CQ |
                                TERN_CAP_MODERATE_CQ |
                                TERN_CAP_IGNORE_OVERRUN |
                                TERN_CAP_REREG_MR |
                                TERN_CAP_TIMESTAMP |
                                TERN_CAP_ODP |
                                TERN_CAP_VLAN;

}  // namespace

Device::Device(Host& host_, const Config& config_)
    : host(host_),
      config(config_),
      effects(std::make_unique<Effects>()),
      port(config.mac, config.max_mtu, config.link_speed),
      page_budget(config.max_pages),
      dm(host, config.dm, kMaxDm),
      memory(host, page_budget, config.max_mr, &dm, config.max_mw, config.mw_type_2a),
      async_events(*this),
      page_faults(*this),
      ethernet(*this),
      pds(1, kMaxPd),
      eqs(1, kMaxEq),
      cqs(1, config.max_cq),
      xrcds(1, kMaxXrcd),
      srqs(1, kMaxSrq),
      sq_poller(*this),
      qps(kGsiQpn, config.max_qp, 1),
      tx_packet(host),
      rx_packet(host),
      scatter(host),
      grh(host),
      admin_(std::make_unique<Admin>(*this)),
      kernel_events_([](void* self) { static_cast<Device*>(self)->flush_events(); }, this),
      uar_clock_hi_(config.uar_bar_size >> TERN_PAGE_SHIFT_MIN) {}

Device::~Device() { reset(); }

// ---- registers and doorbells ----

std::uint32_t Device::reg_read(std::uint32_t offset) { return admin_->reg_read(offset); }

void Device::reg_write(std::uint32_t offset, std::uint32_t value) {
  admin_->reg_write(offset, value);
}

std::uint32_t Device::uar_read(std::uint64_t offset) {
  const std::uint64_t reg = offset & ((std::uint64_t{1} << admin_->page_shift()) - 1);
  std::uint32_t& high = uar_clock_hi_[admin_->uar_of(offset)];
  if (reg == TERN_UAR_CLOCK_LO) {
    const Nanos now = host.now();
    high = static_cast<std::uint32_t>(now >> 32);
    return static_cast<std::uint32_t>(now);
  }
  return reg == TERN_UAR_CLOCK_HI ? high : TERN_REG_GONE;
}

void Device::doorbell(std::uint64_t offset, std::uint32_t value) {
  const std::uint64_t in_page = offset & ((std::uint64_t{1} << admin_->page_shift()) - 1);
  if (!admin_->enabled() || in_page != TERN_UAR_DB) return;
  const std::uint32_t uar = admin_->uar_of(offset);
  const std::uint32_t number = field_get(TERN_DB_NUM_MASK, value);
  switch (field_get(TERN_DB_CMD_MASK, value)) {
    case TERN_DB_CMD_PAGE:
      if (uars.ring(uar)) return;
      break;
    case TERN_DB_CMD_SQ:
      if (Qp* const qp = qps.find(number); qp != nullptr && qp->uar() == uar) {
        sq_poller.rung(*qp);
        return qp->kick_sq();
      }
      break;
    case TERN_DB_CMD_RQ:
      if (Qp* const qp = qps.find(number); qp != nullptr && qp->uar() == uar) return qp->kick_rq();
      break;
    case TERN_DB_CMD_CQ_ARM:
      if (Cq* const cq = cqs.find(number); cq != nullptr && cq->uar() == uar) return cq->arm();
      break;
    case TERN_DB_CMD_EQ_CI:
      if (uar == TERN_UAR_KERNEL) return flush_events();
      break;
    case TERN_DB_CMD_ETH_TX:
      if (ethernet.kick(number, uar)) return;
      break;
    default:
      break;
  }
  counters.add(TERN_CNT_BAD_DOORBELL);
}

// What waited for room in the kernel's event queues.
void Device::flush_events() {
  async_events.flush();
  page_faults.flush();
}

// Looks at queues whose page was rung, and returns what that cost: half of the budget at most, so that the queues found get some.
std::uint32_t Device::look_at_pages(std::uint32_t budget) {
  constexpr std::uint32_t kLookCost = 256;  // bytes
  if (!uars.pending()) [[likely]] return 0;
  return uars.run(std::max(budget / 2 / kLookCost, 1U)) * kLookCost;
}

// ---- packets ----

void Device::receive(std::span<const std::byte> frame) {
  if (faults_ != nullptr && admin_->enabled() && port.active()) [[unlikely]] {
    return faults_->receive(frame);
  }
  accept(frame, false);
}

Device::Claim Device::claim(std::span<const std::byte> frame, Route& route) const {
  route = Route{};
  if (parse_route(frame, route) != ParseResult::kOk) return Claim::kEthernet;
  if (const auto gid = port.find_gid(route.dgid, route.vlan)) {
    route.sgid_index = *gid;
    return Claim::kAddress;
  }
  const bool group = multicast.has(route.dgid) && port.has_vlan(route.vlan);
  return group ? Claim::kGroup : Claim::kEthernet;
}

void Device::accept(std::span<const std::byte> frame, bool inside) {
  // What turned round was shown when it was sent.
  if (config.capture && !inside) effects->show(frame, true, host.now());
  if (!admin_->enabled() || !port.active()) return;
  Route& route = rx_packet.route;
  const Claim whose = claim(frame, route);
  if (whose == Claim::kEthernet) {
    if (!inside) ethernet.receive(frame);
    return;
  }
  route.local = inside;
  switch (parse_packet(frame, rx_packet, icrc_mode)) {
    case ParseResult::kOkBadIcrc:
      counters.add(TERN_CNT_RX_ICRC_ERRORS);
      [[fallthrough]];
    case ParseResult::kOk:
      if ((route.traffic_class & kEcnMask) == kEcnCongested) counters.add(TERN_CNT_NP_ECN_MARKED);
      dispatch(rx_packet);
      break;
    case ParseResult::kBadIcrc:
      counters.add(TERN_CNT_RX_ICRC_ERRORS);
      break;
    default:
      counters.add(TERN_CNT_RX_MALFORMED);
      break;
  }
  rx_packet.payload.clear();
  // A group is not ours alone.
  if (whose == Claim::kGroup && !inside) ethernet.receive(frame);
}

bool Device::can_receive() { return true; }  // the Ethernet function drops and counts

std::uint32_t Device::dispatch(Packet& packet) {
  constexpr std::uint16_t kPkeyIndexMask = 0x7fff;
  counters.add(TERN_CNT_RX_RDMA_PACKETS, packet.train);
  counters.add(TERN_CNT_RX_RDMA_BYTES, packet.payload.size());
  const bool pkey_ok = (packet.pkey & kPkeyIndexMask) == kPkeyIndexMask;
  const bool to_group = packet.dest_qp.value == kMulticastQpn;
  if (pkey_ok && to_group && packet.transport == Transport::kUd) {
    if (const std::uint32_t n = multicast.deliver(packet)) return n;
  } else if (pkey_ok && !to_group && !is_multicast(packet.route.dgid)) {
    Qp* const qp = qps.find(packet.dest_qp.value);
    if (packet.transport == Transport::kCnp) return notify(qp, packet);
    if (qp != nullptr && qp->transport() == packet.transport) {
      qp->deliver(packet);
      return 1;
    }
  }
  counters.add(TERN_CNT_RX_QP_MISMATCH, packet.train);
  return 0;
}

// A congestion notification (IBTA A17.9.4): counted, and no rate is limited.
std::uint32_t Device::notify(const Qp* qp, const Packet& packet) {
  std::array<std::byte, kCnpPayload> reserved;
  packet.payload.copy_to(reserved);
  if (!packet.becn || std::ranges::any_of(reserved, [](std::byte b) { return b != std::byte{0}; })) {
    counters.add(TERN_CNT_RX_MALFORMED);
    return 0;
  }
  const bool heard = qp != nullptr && qp->has_peer(packet.route);
  counters.add(heard ? TERN_CNT_RP_CNP_HANDLED : TERN_CNT_RX_QP_MISMATCH);
  return heard ? 1 : 0;
}

std::uint32_t Device::emit(Packet& packet) {
  const std::uint32_t train = std::exchange(packet.train, 1);
  const std::uint32_t cost = static_cast<std::uint32_t>(packet.payload.size()) + train * kPacketCost;
  emitted_ += cost;
  if (!port.active()) return 1;  // lost, as on a wire that is down
  counters.add(TERN_CNT_TX_RDMA_PACKETS, train);
  counters.add(TERN_CNT_TX_RDMA_BYTES, packet.payload.size());
  if (faults_ != nullptr) [[unlikely]] {
    faults_->emit(packet, ip_id_++);
    if (packet.route.local) return 1;
  } else if (!packet.route.local || config.capture) {
    const auto room = effects->begin_frame(packet.payload.size() + kMaxFrameOverhead);
    const std::size_t len = serialize(packet, ip_id_++, room);
    effects->commit_frame(len, !packet.route.local, config.capture ? host.now() : 0);
  }
  if (packet.route.local) {
    packet.train = train;
    dispatch(packet);
    packet.train = 1;
  } else if (packet.dest_qp.value == kMulticastQpn && multicast.has(packet.route.dgid)) {
    const std::uint32_t copies = dispatch(packet);
    emitted_ += cost * copies;
    return 1 + copies;
  }
  return 1;
}

void Device::set_link(bool up) {
  if (up == port.link_up()) return;
  port.set_link(up);
  async_events.raise(TERN_EV_PORT_CHANGE, 1);
}

void Device::dma_invalidate(std::uint64_t, std::uint64_t) {
  // Nothing is cached across calls: every access is mapped when it happens.
}

// ---- scheduling ----

void Device::schedule(Qp& qp) {
  if (qp.ready.linked()) return;
  qp.prefetch();
  if (const Route* const route = qp.route(); route != nullptr && route->local) {
    if (const Qp* const peer = qps.find(qp.attr().dest_qpn)) peer->prefetch();
  }
  ready_.push_back(qp.ready);
}

void Device::unschedule(Qp& qp) { qp.ready.unlink(); }

// Round robin by bytes. A budget that ends within a turn does not end the turn. What a turn costs is what
// was sent in it, also where the last packet was more than was left.
bool Device::run_qps(std::uint32_t budget) {
  while (!ready_.empty() && budget > 0 && admin_->enabled()) {
    Qp& qp = *ready_.pop_front();
    std::uint32_t turn = qp.turn_left != 0 ? qp.turn_left : kQuantum;
    if (ready_.empty()) turn = std::max(turn, budget);
    const std::uint32_t given = std::min(turn, budget);
    std::uint32_t allowance = given;
    emitted_ = 0;
    const bool more = qp.service(allowance);
    const std::uint32_t spent = std::max({given - allowance, emitted_, 1U});
    budget -= std::min(budget, spent);
    qp.turn_left = 0;
    if (!more || qp.ready.linked()) continue;
    if (allowance == 0 && spent < turn) {
      qp.turn_left = turn - spent;
      ready_.push_front(qp.ready);  // its turn is not over
    } else {
      schedule(qp);
    }
  }
  return !ready_.empty() && admin_->enabled();
}

bool Device::run(std::uint32_t budget) {
  bool more = admin_->run();
  unfinished_ = more;
  if (!admin_->enabled()) return more;
  more |= timers.run(host.now(), kTimers);
  budget -= std::min(budget, look_at_pages(budget));
  if (xrc_unseen_ != 0) [[unlikely]] walk_xrc_targets();
  more |= uars.pending() || xrc_unseen_ != 0;
  more |= ethernet.run(budget);
  sq_poller.look();
  more |= run_qps(budget);
  unfinished_ = more;
  return more || sq_poller.any();
}

bool Device::look() {
  if (unfinished_ || !ready_.empty() || uars.pending()) return true;
  sq_poller.look();
  return !ready_.empty() || !sq_poller.any();
}

Nanos Device::next_deadline() const { return admin_->enabled() ? timers.next() : kNever; }

// ---- life cycle ----

void Device::walk_xrc_targets() {
  constexpr std::uint32_t kSlice = 256;
  for (std::uint32_t n = 0; n < kSlice && xrc_unseen_ != 0; ++n) {
    ++visits;
    Qp* const qp = qps.find(--xrc_unseen_);
    if (qp != nullptr && qp->xrc_target() && qp->holds_dead_receive()) qp->enter_error(TERN_EV_QP_FATAL);
  }
}

void Device::fatal(std::uint32_t code) { admin_->fatal(code); }

void Device::reset() {
  if (faults_ != nullptr) faults_->rules().forget();
  multicast.clear();
  qps.clear();
  xrc_unseen_ = 0;
  withheld_qpns_.clear();
  ethernet.reset();
  srqs.clear();
  xrcds.clear();
  cqs.clear();
  eqs.clear();
  async_eq = fault_eq = nullptr;
  async_events.clear();
  memory.reset();
  dm.reset();
  pds.clear();
  port.reset();
  counters = Counters{};
  uars.reset();
  admin_->reset();
  // Frames and interrupts of what is no more.
  effects->clear();
}

std::uint64_t Device::caps() const {
  std::uint64_t caps = kCaps;
  if (dm.size() != 0) caps |= TERN_CAP_DM;
  if (config.max_mw != 0) {
    caps |= TERN_CAP_MW_TYPE_1 | (config.mw_type_2a ? TERN_CAP_MW_TYPE_2A : TERN_CAP_MW_TYPE_2B);
  }
  return caps;
}

bool Device::qp_number_left() {
  if (!qps.full()) return true;
  std::erase_if(withheld_qpns_, [this](std::uint32_t qpn) {
    if (memory.names(Qpn(qpn))) return false;
    qps.release(qpn);
    return true;
  });
  return !qps.full();
}

void Device::remove_qp(std::uint32_t qpn) {
  const bool named = memory.names(Qpn(qpn));
  qps.erase(qpn, named);
  if (named) withheld_qpns_.push_back(qpn);
}

Srq* Device::find_srq(const SrqRef& ref) const {
  Srq* const srq = srqs.find(ref.number);
  return srq != nullptr && srq->ref().serial == ref.serial ? srq : nullptr;
}

}  // namespace tern
