// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/device.h"

#include <bit>
#include <cassert>
#include <utility>

#include "control/admin.h"

namespace tern {

namespace {

// Offset of a register of BAR2 in its doorbell page.
std::uint64_t offset_in_page(std::uint64_t offset, unsigned page_shift) {
  return offset & ((std::uint64_t{1} << page_shift) - 1);
}

}  // namespace

Device::Device(Host& host_, const Config& config)
    : host(host_),
      registry(host, config),
      datapath(0, host, registry, registry.memory, registry.async_events, registry.page_faults,
               registry.qps, registry.srqs, port),
      port(datapath, registry.qps),
      watched_(config.capture),
      admin_(std::make_unique<Admin>(*this)),
      uar_clock_hi_(config.uar_bar_size >> TERN_PAGE_SHIFT_MIN) {
  assert(lanes() >= 1 && lanes() <= kMaxLanes);
  for (std::uint8_t i = 1; i < lanes(); ++i) {
    others_.push_back(std::make_unique<DataPath>(i, host, registry, registry.memory,
                                                 registry.async_events, registry.page_faults,
                                                 registry.qps, registry.srqs, port));
  }
}

Device::~Device() {
  ++alone_;  // no lane runs any more
  reset();
}

std::uint32_t Device::reg_read(std::uint32_t offset) {
  const std::uint32_t value = admin_->reg_read(offset);
  // Software may give the device up once it sees this.
  if (offset == TERN_REG_STATUS && (value & TERN_STATUS_FATAL) != 0) [[unlikely]] {
    const Alone alone(*this);
    unshare();
  }
  return value;
}

void Device::reg_write(std::uint32_t offset, std::uint32_t value) {
  datapath.time_passes();
  if (offset != TERN_REG_CTRL) return admin_->reg_write(offset, value);
  const Alone alone(*this);
  admin_->reg_write(offset, value);
}

std::uint32_t Device::uar_read(std::uint64_t offset) {
  const std::uint64_t reg = offset_in_page(offset, admin_->page_shift());
  if (const DmOps::Page* const page = registry.dm_ops.find(admin_->uar_of(offset))) {
    return registry.dm_ops.load(*page, reg);
  }
  std::uint32_t& high = uar_clock_hi_[admin_->uar_of(offset)];
  if (reg == TERN_UAR_CLOCK_LO) {
    const Nanos now = host.now();
    high = static_cast<std::uint32_t>(now >> 32);
    return static_cast<std::uint32_t>(now);
  }
  return reg == TERN_UAR_CLOCK_HI ? high : TERN_REG_GONE;
}

void Device::doorbell(std::uint64_t offset, std::uint32_t value) {
  for (std::uint32_t left = doorbell_lanes(offset, value); left != 0; left &= left - 1)
    doorbell(lane(static_cast<unsigned>(std::countr_zero(left))), offset, value);
}

void Device::doorbell(DataPath& lane, std::uint64_t offset, std::uint32_t value) {
  if (&lane == &datapath) return ring_own(offset, value);
  lane.time_passes();
  if (!registry.status.enabled()) return;
  // Lane 0 finds out whether there is such a page.
  if (!ring(lane, admin_->uar_of(offset), value) &&
      field_get(TERN_DB_CMD_MASK, value) != TERN_DB_CMD_PAGE)
    lane.counters.add(TERN_CNT_BAD_DOORBELL);
}

std::uint32_t Device::doorbell_lanes(std::uint64_t offset, std::uint32_t value) const {
  constexpr std::uint32_t kHome = 1;
  const auto bit = [](const Context& lane) { return std::uint32_t{1} << lane.lane; };
  const std::uint64_t in_page = offset_in_page(offset, admin_->page_shift());
  if (lanes() == 1 || in_page != TERN_UAR_DB ||
      registry.dm_ops.find(admin_->uar_of(offset)) != nullptr)
    return kHome;
  const std::uint32_t number = field_get(TERN_DB_NUM_MASK, value);
  switch (field_get(TERN_DB_CMD_MASK, value)) {
    case TERN_DB_CMD_PAGE:
      return (kHome << lanes()) - 1;
    case TERN_DB_CMD_SQ:
    case TERN_DB_CMD_RQ: {
      const Qp* const qp = registry.qps.find(number);
      return qp != nullptr ? bit(qp->context()) : kHome;
    }
    case TERN_DB_CMD_CQ_ARM: {
      const Cq* const cq = registry.cqs.find(number);
      return cq != nullptr ? bit(cq->lane_member.group().lane()) : kHome;
    }
    case TERN_DB_CMD_TM: {
      const Srq* const srq = registry.srqs.find(number);
      return srq != nullptr ? bit(srq->lane_member.group().lane()) : kHome;
    }
    default:
      return kHome;
  }
}

// Rings a doorbell of lane 0, or refuses it.
void Device::ring_own(std::uint64_t offset, std::uint32_t value) {
  datapath.time_passes();
  const std::uint64_t in_page = offset_in_page(offset, admin_->page_shift());
  if (!registry.status.enabled()) return;
  const std::uint32_t uar = admin_->uar_of(offset);
  if (const DmOps::Page* const page = registry.dm_ops.find(uar))
    return registry.dm_ops.store(*page, in_page, value);
  if (in_page != TERN_UAR_DB) return;
  if (datapath.log != nullptr) [[unlikely]]
    log_doorbell(uar, value, 0);
  if (ring(datapath, uar, value)) [[likely]]
    return;
  datapath.counters.add(TERN_CNT_BAD_DOORBELL);
  if (datapath.log != nullptr) [[unlikely]]
    log_doorbell(uar, value, TERN_LOG_F_REFUSED);
}

// Returns false if the page has no such queue in this lane.
bool Device::ring(DataPath& lane, std::uint32_t uar, std::uint32_t value) {
  const std::uint32_t number = field_get(TERN_DB_NUM_MASK, value);
  const bool home = &lane == &datapath;
  switch (field_get(TERN_DB_CMD_MASK, value)) {
    case TERN_DB_CMD_EQ_CI:
      if (!home || uar != TERN_UAR_KERNEL) return false;
      datapath.flush_events();
      return true;
    case TERN_DB_CMD_ETH_TX:
      return home && port.ethernet.kick(number, uar);
    case TERN_DB_CMD_PAGE:
      return lane.uars.ring(uar);
    case TERN_DB_CMD_SQ:
      if (Qp* const qp = registry.qps.find(number);
          qp != nullptr && qp->uar() == uar && &qp->context() == &lane) {
        lane.sq_poller.rung(*qp);
        qp->kick_sq();
        return true;
      }
      return false;
    case TERN_DB_CMD_RQ:
      if (Qp* const qp = registry.qps.find(number);
          qp != nullptr && qp->uar() == uar && &qp->context() == &lane) {
        qp->kick_rq();
        return true;
      }
      return false;
    case TERN_DB_CMD_CQ_ARM:
      if (Cq* const cq = registry.cqs.find(number);
          cq != nullptr && cq->uar() == uar && &cq->lane_member.group().lane() == &lane) {
        cq->arm();
        return true;
      }
      return false;
    case TERN_DB_CMD_TM:
      if (const Srq* const srq = registry.srqs.find(number);
          srq != nullptr && srq->tags() != nullptr && srq->tags()->uar() == uar &&
          &srq->lane_member.group().lane() == &lane) {
        srq->tags()->kick();
        return true;
      }
      return false;
    default:
      return false;
  }
}

void Device::log_doorbell(std::uint32_t uar, std::uint32_t value, std::uint16_t flags) const {
  const std::uint32_t command = field_get(TERN_DB_CMD_MASK, value);
  const std::uint32_t number = field_get(TERN_DB_NUM_MASK, value);
  const bool of_qp = command == TERN_DB_CMD_SQ || command == TERN_DB_CMD_RQ;
  datapath.log->add({.type = TERN_LOG_DOORBELL,
                     .code = static_cast<std::uint8_t>(command),
                     .flags = flags,
                     .qpn = of_qp ? number : 0,
                     .key = uar,
                     .index = number});
}

void Device::log_events(std::size_t records) {
  std::unique_ptr<EventLog> log =
      records == 0 ? nullptr : std::make_unique<EventLog>(host, records);
  const Alone alone(*this);
  datapath.log = registry.memory.log = registry.dm.log = log.get();
  port.set_log(log.get());
  log_ = std::move(log);
  update_lanes();
}

// Nothing else is cached across calls: every access is mapped when it happens.
void Device::dma_invalidate(std::uint64_t, std::uint64_t) {
  const Alone alone(*this);
  unshare();
}

void Device::unshare() {
  for_each_lane([](DataPath& lane) { lane.unshare(); });
}

void Device::share_payload(std::uint64_t least) {
  const Alone alone(*this);
  for_each_lane([least](DataPath& lane) { lane.share_from = least; });
}

// ---- lanes ----

bool Device::run(DataPath& lane, std::uint32_t budget) {
  if (&lane == &datapath) return run(budget);
  lane.time_passes();
  const bool more = lane.run(budget, false);
  end_burst(lane);
  return more || (registry.status.enabled() && !lane.failed_cqs.empty());
}

void Device::place(LaneGroup& group) {
  if (lanes() == 1 || group.fixed() || watched_ || group.qps != 0) return;
  unsigned best = lanes() - 1;
  for (unsigned i = best; i-- > 0;) {
    if (registry.lane_qps[i] < registry.lane_qps[best]) best = i;
  }
  registry.page_budget.work(group.move_to(lane(best)));
}

void Device::update_lanes() {
  for (const auto& other : others_) other->allow_trains(datapath.allows_trains());
  const bool watched = port.watched();
  if (lanes() == 1 || watched == watched_) return;
  watched_ = watched;
  if (watched) {
    return registry.for_each_group(
        [this](LaneGroup& g) { registry.page_budget.work(g.move_to(datapath)); });
  }
  // Spreads the groups as if their QPs were made now.
  registry.for_each_group([this](LaneGroup& group) {
    if (&group.lane() != &datapath) return;
    const std::uint32_t qps = std::exchange(group.qps, 0U);
    if (qps != 0) place(group);
    group.qps = qps;
  });
}

void Device::set_link(bool up) {
  const Alone alone(*this);
  port.set_link(up);
}

void Device::set_speed(std::uint32_t mbps) {
  const Alone alone(*this);
  const std::uint32_t most = registry.config.link_speed;
  port.set_speed(mbps == 0 ? most : std::min(mbps, most));
}

void Device::set_capture(bool capture) {
  const Alone alone(*this);
  port.set_capture(capture);
  update_lanes();
}

bool Device::set_faults(std::string_view text, std::string& error) {
  const Alone alone(*this);
  const bool ok = port.set_faults(text, error);
  update_lanes();
  return ok;
}

// ---- running ----

bool Device::run(std::uint32_t budget) {
  datapath.time_passes();
  // Allocations of device memory share the budget with QPs and Ethernet queues.
  const std::uint32_t most = budget - budget / 2;
  std::uint32_t left = most;
  const bool waiting = admin_->run(left);
  const bool more = datapath.run(budget - (most - left), waiting);
  end_burst();  // of frames that were looped back
  if (more) return true;
  // The last step may have found that a CQ has failed. A device that stopped notifies nobody.
  return admin_->polls() || (registry.status.enabled() && !datapath.failed_cqs.empty());
}

bool Device::poll() {
  const bool work = datapath.poll();
  return admin_->poll() || work || !(datapath.polls() || admin_->polls());
}

bool Device::poll(DataPath& lane) {
  return &lane == &datapath ? poll() : lane.poll() || !lane.polls();
}

void Device::allow_polling(Nanos from) { allow_polling(datapath, from); }

void Device::allow_polling(DataPath& lane, Nanos from) {
  lane.allow_polling(from);
  if (&lane == &datapath) admin_->allow_polling(from);
}

Counters Device::counters() const {
  Counters sum = datapath.counters;
  for (const auto& other : others_) sum += other->counters;
  return sum;
}

Device::Info Device::info() const {
  const Counters sum = counters();
  const auto keys = registry.memory.counts();
  return {.live_qps = registry.qps.count(),
          .live_keys = keys.mr + keys.mw,
          .page_entries = registry.page_entries(),
          .tx_packets = sum.rdma[TERN_CNT_TX_RDMA_PACKETS] + sum.eth[TERN_ETH_CNT_TX_PACKETS],
          .rx_packets = sum.rdma[TERN_CNT_RX_RDMA_PACKETS] + sum.eth[TERN_ETH_CNT_RX_PACKETS]};
}

// Destroys users before the objects they use.
void Device::reset() {
  const Alone alone(*this);
  unshare();
  port.forget();
  registry.reset_qps();
  port.reset();
  registry.reset();
  for_each_lane([](DataPath& lane) { lane.reset(); });
  admin_->reset();
  // Drop frames and interrupts of the objects that were destroyed.
  for_each_lane([](DataPath& lane) { lane.effects->clear(); });
  if (datapath.log != nullptr) [[unlikely]]
    datapath.log->add({.type = TERN_LOG_RESET});
  update_lanes();
}

}  // namespace tern
