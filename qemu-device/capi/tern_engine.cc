// SPDX-License-Identifier: GPL-2.0-or-later
#include "tern_engine.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string>

#include "eth/addresses.h"
#include "handles.h"

static_assert(TERN_MAX_RAM == tern::Host::kMaxRams);
static_assert(TERN_MAX_HELD == tern::EffectsPool::kMaxHeld);
static_assert(TERN_MAX_VECTORS == 128, "tern_engine_effects_vectors() promises two words");

using tern::capi::batch_of;
using tern::capi::copy_text;
using tern::capi::handle_of;

namespace {

std::optional<tern::Config> to_config(const TernConfig& c) {
  std::string error;
  auto config = tern::capi::to_config(*c.properties, error);
  if (!config || (config->dm_size != 0 && c.dm_storage == nullptr) ||
      !tern::is_station(std::to_array(c.mac))) {
    return std::nullopt;
  }
  config->dm = {static_cast<std::byte*>(c.dm_storage), static_cast<std::size_t>(config->dm_size)};
  std::ranges::copy(c.mac, config->mac.begin());
  config->capture = c.capture;
  return config;
}

}  // namespace

TernEngine* tern_engine_new(const TernConfig* config, const TernHostOps* ops, void* opaque) {
  if (config == nullptr || config->properties == nullptr || ops == nullptr || ops->map == nullptr ||
      ops->unmap == nullptr || ops->now == nullptr || ops->random == nullptr) {
    return nullptr;
  }
  // The only exception that the library throws. A running device cannot continue, so the exception
  // ends the process.
  try {
    const std::optional<tern::Config> c = to_config(*config);
    return c ? new TernEngine(*c, *ops, opaque) : nullptr;
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
  e->device.receive(std::span(static_cast<const std::byte*>(frame), len));
}

std::uint64_t tern_engine_receive_more(TernEngine* e, const void* frame, std::size_t len) {
  return e->device.receive_more(std::span(static_cast<const std::byte*>(frame), len));
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

bool tern_engine_set_faults(TernEngine* e, const char* text, char* error, std::size_t len) {
  std::string why;
  if (e->device.set_faults(text, why)) return true;
  copy_text(why, error, len);
  return false;
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

void tern_engine_set_capture(TernEngine* e, bool capture) { e->device.set_capture(capture); }

bool tern_engine_run(TernEngine* e, std::uint32_t budget) { return e->device.run(budget); }

void tern_engine_allow_polling(TernEngine* e, std::uint64_t from) { e->device.allow_polling(from); }

bool tern_engine_poll(TernEngine* e) { return e->device.poll(); }

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
  const tern::EventLog* const log = e->device.datapath.log;
  const auto records = log != nullptr ? log->records() : std::span<const tern_log_event>();
  *n = records.size();
  return records.data();
}

void tern_engine_events_taken(TernEngine* e, std::size_t n) { e->device.datapath.log->taken(n); }

std::uint64_t tern_engine_events_lost(const TernEngine* e) {
  const tern::EventLog* const log = e->device.datapath.log;
  return log != nullptr ? log->lost() : 0;
}

void tern_engine_info(const TernEngine* e, TernEngineInfo* info) {
  const tern::Device::Info i = e->device.info();
  *info = {i.live_qps, i.live_keys, i.page_entries, i.tx_packets, i.rx_packets};
}

const std::uint64_t* tern_engine_rdma_counters(const TernEngine* e) {
  return e->device.datapath.counters.rdma.data();
}

const std::uint64_t* tern_engine_eth_counters(const TernEngine* e) {
  return e->device.datapath.counters.eth.data();
}

bool tern_engine_set_mutation(TernEngine* e, const char* rule) {
  return rule != nullptr && e->device.set_mutation(rule);
}

const char* tern_engine_mutation(std::size_t i) {
  return tern::Mutations::kBuilt && i < tern::kRuleNames.size() ? tern::kRuleNames[i].data()
                                                                : nullptr;
}
