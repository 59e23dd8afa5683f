// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/device.h"

#include <utility>

#include "control/admin.h"

namespace tern {

Device::Device(Host& host_, const Config& config)
    : host(host_),
      registry(host, config),
      datapath(host, registry, registry.memory, registry.qps, registry.srqs, port),
      port(datapath, registry.qps),
      admin_(std::make_unique<Admin>(*this)),
      uar_clock_hi_(config.uar_bar_size >> TERN_PAGE_SHIFT_MIN) {}

Device::~Device() { reset(); }

std::uint32_t Device::reg_read(std::uint32_t offset) { return admin_->reg_read(offset); }

void Device::reg_write(std::uint32_t offset, std::uint32_t value) {
  datapath.time_passes();
  admin_->reg_write(offset, value);
}

std::uint32_t Device::uar_read(std::uint64_t offset) {
  const std::uint64_t reg = offset & ((std::uint64_t{1} << admin_->page_shift()) - 1);
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
  datapath.time_passes();
  const std::uint64_t in_page = offset & ((std::uint64_t{1} << admin_->page_shift()) - 1);
  if (!registry.status.enabled()) return;
  const std::uint32_t uar = admin_->uar_of(offset);
  if (const DmOps::Page* const page = registry.dm_ops.find(uar))
    return registry.dm_ops.store(*page, in_page, value);
  if (in_page != TERN_UAR_DB) return;
  if (datapath.log != nullptr) [[unlikely]]
    log_doorbell(uar, value, 0);
  if (ring(uar, value)) [[likely]]
    return;
  datapath.counters.add(TERN_CNT_BAD_DOORBELL);
  if (datapath.log != nullptr) [[unlikely]]
    log_doorbell(uar, value, TERN_LOG_F_REFUSED);
}

// Returns false if the page has no such queue.
bool Device::ring(std::uint32_t uar, std::uint32_t value) {
  const std::uint32_t number = field_get(TERN_DB_NUM_MASK, value);
  switch (field_get(TERN_DB_CMD_MASK, value)) {
    case TERN_DB_CMD_PAGE:
      return datapath.uars.ring(uar);
    case TERN_DB_CMD_SQ:
      if (Qp* const qp = registry.qps.find(number); qp != nullptr && qp->uar() == uar) {
        datapath.sq_poller.rung(*qp);
        qp->kick_sq();
        return true;
      }
      return false;
    case TERN_DB_CMD_RQ:
      if (Qp* const qp = registry.qps.find(number); qp != nullptr && qp->uar() == uar) {
        qp->kick_rq();
        return true;
      }
      return false;
    case TERN_DB_CMD_CQ_ARM:
      if (Cq* const cq = registry.cqs.find(number); cq != nullptr && cq->uar() == uar) {
        cq->arm();
        return true;
      }
      return false;
    case TERN_DB_CMD_EQ_CI:
      if (uar != TERN_UAR_KERNEL) return false;
      datapath.flush_events();
      return true;
    case TERN_DB_CMD_ETH_TX:
      return port.ethernet.kick(number, uar);
    case TERN_DB_CMD_TM:
      if (const Srq* const srq = registry.srqs.find(number);
          srq != nullptr && srq->tags() != nullptr) {
        if (srq->tags()->uar() != uar) return false;
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
  datapath.log = registry.memory.log = registry.dm.log = log.get();
  port.set_log(log.get());
  log_ = std::move(log);
}

void Device::dma_invalidate(std::uint64_t, std::uint64_t) {
  // Nothing is cached across calls: every access is mapped when it happens.
}

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

void Device::allow_polling(Nanos from) {
  datapath.allow_polling(from);
  admin_->allow_polling(from);
}

Device::Info Device::info() const {
  const Counters& counters = datapath.counters;
  const auto keys = registry.memory.counts();
  return {
      .live_qps = registry.qps.count(),
      .live_keys = keys.mr + keys.mw,
      .page_entries = registry.page_entries(),
      .tx_packets = counters.rdma[TERN_CNT_TX_RDMA_PACKETS] + counters.eth[TERN_ETH_CNT_TX_PACKETS],
      .rx_packets =
          counters.rdma[TERN_CNT_RX_RDMA_PACKETS] + counters.eth[TERN_ETH_CNT_RX_PACKETS]};
}

// Destroys users before the objects they use.
void Device::reset() {
  port.forget();
  registry.reset_qps();
  port.reset();
  registry.reset();
  datapath.async_events.eq = datapath.page_faults.eq = nullptr;
  datapath.reset();
  admin_->reset();
  // Drop frames and interrupts of the objects that were destroyed.
  datapath.effects->clear();
  if (datapath.log != nullptr) [[unlikely]]
    datapath.log->add({.type = TERN_LOG_RESET});
}

}  // namespace tern
