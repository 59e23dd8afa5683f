// SPDX-License-Identifier: GPL-2.0-or-later
#include "tern_engine.h"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "eth/addresses.h"
#include "handles.h"

static_assert(TERN_MAX_RAM == tern::Host::kMaxRams);
static_assert(TERN_MAX_HELD == tern::EffectsPool::kMaxHeld);
static_assert(TERN_MAX_VECTORS == 128, "tern_engine_effects_vectors() promises two words");

using tern::capi::batch_of;
using tern::capi::handle_of;

namespace {

constexpr std::uint64_t kDmGranule = 1 << TERN_PAGE_SHIFT_MAX;
constexpr std::uint64_t kUarMin = 2 << TERN_PAGE_SHIFT_MAX;  // one page besides the kernel's
constexpr std::uint64_t kUarMax = std::uint64_t{1} << 32;
constexpr std::uint64_t kDmMax = std::uint64_t{1} << 40;
// Doorbells and keys have 24 bits for the number of a queue, region or window; 0 and 1 are never
// allocated.
constexpr std::uint32_t kMaxObjects = (1U << 24) - 2;
constexpr std::uint32_t kMaxEthQueues = 16;
constexpr std::uint64_t kPagesMin = 1024;  // fewer are of no use
constexpr std::uint64_t kPagesMax = std::uint64_t{1} << 32;
constexpr std::uint32_t kMtuMin = 1500;
constexpr std::uint32_t kMtuMax = 9216;

bool in(std::uint64_t value, std::uint64_t min, std::uint64_t max) {
  return value >= min && value <= max;
}

bool is_valid(const TernConfig& c) {
  return c.dm_size % kDmGranule == 0 && c.dm_size <= kDmMax &&
         (c.dm_size == 0 || c.dm_storage != nullptr) && c.uar_bar_size % kUarMin == 0 &&
         in(c.uar_bar_size, kUarMin, kUarMax) && in(c.max_qp, 1, kMaxObjects) &&
         in(c.max_cq, 1, kMaxObjects) && in(c.max_mr, 1, kMaxObjects) &&
         c.max_mw <= kMaxObjects - c.max_mr && c.max_eth_queues <= kMaxEthQueues &&
         in(c.num_vectors, 2, TERN_MAX_VECTORS) && in(c.max_mtu, kMtuMin, kMtuMax) &&
         c.link_speed != 0 && tern::is_station(std::to_array(c.mac)) && c.mw_type_2a <= 1 &&
         c.capture <= 1 && c.max_tags <= TERN_MAX_TAGS &&
         (c.max_pages == 0 || in(c.max_pages, kPagesMin, kPagesMax));
}

tern::Config to_config(const TernConfig& c) {
  tern::Config config;
  config.dm = {static_cast<std::byte*>(c.dm_storage), static_cast<std::size_t>(c.dm_size)};
  config.uar_bar_size = c.uar_bar_size;
  config.max_qp = c.max_qp;
  config.max_cq = c.max_cq;
  config.max_mr = c.max_mr;
  if (c.max_eth_queues != 0) config.max_eth_queues = static_cast<std::uint16_t>(c.max_eth_queues);
  config.max_mw = c.max_mw;
  config.max_tags = static_cast<std::uint16_t>(c.max_tags);
  config.num_vectors = c.num_vectors;
  config.max_mtu = c.max_mtu;
  config.link_speed = c.link_speed;
  std::ranges::copy(c.mac, config.mac.begin());
  config.mw_type_2a = c.mw_type_2a != 0;
  config.capture = c.capture != 0;
  if (c.doorbell_cost != 0) config.doorbell_cost = c.doorbell_cost;
  if (c.max_pages != 0) config.max_pages = c.max_pages;
  return config;
}

}  // namespace

TernEngine* tern_engine_new(const TernConfig* config, const TernHostOps* ops, void* opaque) {
  if (config == nullptr || ops == nullptr || !is_valid(*config) || ops->map == nullptr ||
      ops->unmap == nullptr || ops->now == nullptr || ops->random == nullptr) {
    return nullptr;
  }
  // The only exception that the library throws. A running device cannot continue, so the exception
  // ends the process.
  try {
    return new TernEngine(to_config(*config), *ops, opaque);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void tern_engine_free(TernEngine* e) { delete e; }

std::uint32_t tern_engine_reg_read(TernEngine* e, std::uint32_t offset) {
  return e->device.reg_read(offset);
}

void tern_engine_reg_write(TernEngine* e, std::uint32_t offset, std::uint32_t value) {
  e->device.reg_write(offset, value);
}

std::uint32_t tern_engine_uar_read(TernEngine* e, std::uint64_t offset) {
  return e->device.uar_read(offset);
}

void tern_engine_doorbell(TernEngine* e, std::uint64_t offset, std::uint32_t value) {
  e->device.doorbell(offset, value);
}

void tern_engine_receive(TernEngine* e, const void* frame, std::size_t len) {
  e->device.receive({static_cast<const std::byte*>(frame), len});
}

std::uint64_t tern_engine_receive_more(TernEngine* e, const void* frame, std::size_t len) {
  return e->device.receive_more({static_cast<const std::byte*>(frame), len});
}

void tern_engine_end_burst(TernEngine* e) { e->device.end_burst(); }

void tern_engine_set_link(TernEngine* e, bool up) { e->device.set_link(up); }

void tern_engine_dma_invalidate(TernEngine* e, std::uint64_t addr, std::uint64_t len) {
  e->device.dma_invalidate(addr, len);
}

void tern_engine_set_ram(TernEngine* e, const TernRam* ram, std::size_t n) {
  std::array<tern::Host::Ram, tern::Host::kMaxRams> rams;
  n = std::min(n, rams.size());
  std::transform(ram, ram + n, rams.begin(), [](const TernRam& r) {
    return tern::Host::Ram{r.addr, r.len, static_cast<std::byte*>(r.ptr)};
  });
  e->host.set_ram(std::span(rams).first(n));
}

void tern_engine_reset(TernEngine* e) { e->device.reset(); }

namespace {

// Copies as much of `text` as fits, and a NUL.
void copy_text(const std::string& text, char* to, std::size_t len) {
  if (len == 0) return;
  to[text.copy(to, len - 1)] = '\0';
}

}  // namespace

bool tern_engine_set_faults(TernEngine* e, const char* text, char* error, std::size_t len) {
  std::string why;
  if (e->device.set_faults(text, why)) return true;
  copy_text(why, error, len);
  return false;
}

bool tern_engine_set_congestion(TernEngine* e, const char* text, char* error, std::size_t len) {
  std::string why;
  const auto params = tern::parse_congestion(text, why);
  if (params) {
    e->device.lane.set_congestion(*params);
  } else {
    copy_text(why, error, len);
  }
  return params.has_value();
}

std::size_t tern_engine_get_faults(TernEngine* e, char* buf, std::size_t len) {
  const std::string text = e->device.faults();
  copy_text(text, buf, len);
  return text.size();
}

void tern_engine_set_icrc_mode(TernEngine* e, TernIcrcMode mode) {
  switch (mode) {
    case TERN_ICRC_WARN:
      e->device.port.icrc_mode = tern::IcrcMode::kWarn;
      break;
    case TERN_ICRC_OFF:
      e->device.port.icrc_mode = tern::IcrcMode::kOff;
      break;
    default:
      e->device.port.icrc_mode = tern::IcrcMode::kCheck;
      break;
  }
}

void tern_engine_set_capture(TernEngine* e, bool capture) { e->device.port.set_capture(capture); }

bool tern_engine_run(TernEngine* e, std::uint32_t budget) { return e->device.run(budget); }

void tern_engine_allow_polling(TernEngine* e, std::uint64_t from) {
  e->device.lane.allow_polling(from);
}

bool tern_engine_look(TernEngine* e) { return e->device.look(); }

TernEffects* tern_engine_take_effects(TernEngine* e) { return handle_of(e->device.take_effects()); }

void tern_engine_effects_free(TernEngine* e, TernEffects* fx) {
  e->device.free_effects(batch_of(fx));
}

bool tern_engine_effects_hold(TernEffects* fx) { return batch_of(fx)->hold(); }

void tern_engine_effects_release(TernEffects* fx, std::uint32_t holds) {
  batch_of(fx)->release(holds);
}

std::size_t tern_engine_effects_frames(const TernEffects* fx) { return batch_of(fx)->frames(); }

TernFrame tern_engine_effects_frame(const TernEffects* fx, std::size_t i) {
  return tern::capi::to_c(batch_of(const_cast<TernEffects*>(fx))->frame(i));
}

const std::uint64_t* tern_engine_effects_vectors(const TernEffects* fx) {
  return batch_of(fx)->vectors().data();
}

std::uint64_t tern_engine_next_deadline(const TernEngine* e) { return e->device.next_deadline(); }

bool tern_engine_log_events(TernEngine* e, std::size_t records) {
  try {
    e->device.log_events(records);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

const void* tern_engine_events(const TernEngine* e, std::size_t* n) {
  const tern::EventLog* const log = e->device.lane.log;
  const auto records = log != nullptr ? log->records() : std::span<const tern_log_event>();
  *n = records.size();
  return records.data();
}

void tern_engine_events_taken(TernEngine* e, std::size_t n) { e->device.lane.log->taken(n); }

std::uint64_t tern_engine_events_lost(const TernEngine* e) {
  const tern::EventLog* const log = e->device.lane.log;
  return log != nullptr ? log->lost() : 0;
}

void tern_engine_info(const TernEngine* e, TernEngineInfo* info) {
  const tern::Device::Info i = e->device.info();
  *info = {i.live_qps, i.live_keys, i.page_entries, i.tx_packets, i.rx_packets};
}

const std::uint64_t* tern_engine_rdma_counters(const TernEngine* e) {
  return e->device.lane.counters.rdma.data();
}

const std::uint64_t* tern_engine_eth_counters(const TernEngine* e) {
  return e->device.lane.counters.eth.data();
}

bool tern_engine_set_mutation(TernEngine* e, const char* rule) {
  return rule != nullptr && e->device.set_mutation(rule);
}

const char* tern_engine_mutation(std::size_t i) {
  return tern::Mutations::kBuilt && i < tern::kRuleNames.size() ? tern::kRuleNames[i].data()
                                                                : nullptr;
}
