// SPDX-License-Identifier: GPL-2.0-or-later
// What the handles of the C surface stand for; for its own files only.
#pragma once

#include <optional>
#include <string>

#include "control/device.h"
#include "core/config.h"
#include "core/effects_batch.h"
#include "core/host.h"
#include "tern_engine.h"

namespace tern::capi {

// Calls the host's C functions as a tern::Host.
class CallbackHost final : public Host {
 public:
  CallbackHost(const TernHostOps& ops, void* opaque) : ops_(ops), opaque_(opaque) {}

  std::span<std::byte> map(std::uint64_t addr, std::uint64_t len, bool write) override {
    std::uint64_t got = len;
    void* const p = ops_.map(opaque_, addr, &got, write);
    if (p == nullptr) return {};
    return {static_cast<std::byte*>(p), static_cast<std::size_t>(got)};
  }
  void unmap(std::span<std::byte> span, bool write, std::uint64_t written) override {
    ops_.unmap(opaque_, span.data(), span.size(), write, written);
  }
  void dm_written(std::span<std::byte> span) override {
    if (ops_.dm_written != nullptr) ops_.dm_written(opaque_, span.data(), span.size());
  }
  void ram_written(std::span<std::byte> span) override {
    if (ops_.ram_written != nullptr) ops_.ram_written(opaque_, span.data(), span.size());
  }
  Nanos now() override { return ops_.now(opaque_); }
  std::uint64_t random() override { return ops_.random(opaque_); }

 private:
  TernHostOps ops_;
  void* opaque_;
};

// TernEffects is a name for EffectsBatch in C.
inline TernEffects* handle_of(EffectsBatch* batch) { return reinterpret_cast<TernEffects*>(batch); }
inline EffectsBatch* batch_of(TernEffects* fx) { return reinterpret_cast<EffectsBatch*>(fx); }
inline const EffectsBatch* batch_of(const TernEffects* fx) {
  return reinterpret_cast<const EffectsBatch*>(fx);
}
inline TernFrame to_c(const EffectsBatch::Frame& frame) {
  return {handle_of(frame.batch),
          reinterpret_cast<const std::uint8_t*>(frame.bytes.data()),
          static_cast<std::uint32_t>(frame.bytes.size()),
          frame.to_wire,
          frame.shown,
          frame.time};
}

// The configuration of a device with these properties; nullopt if one is out of range, with the
// reason in `error`.
std::optional<Config> to_config(const TernProperties& values, std::string& error);

// Copies as much of `text` as fits, and a NUL.
inline void copy_text(const std::string& text, char* to, std::size_t len) {
  if (len == 0) return;
  to[text.copy(to, len - 1)] = '\0';
}

}  // namespace tern::capi

struct TernEngine {
  TernEngine(const tern::Config& config, const TernHostOps& ops, void* opaque)
      : host(ops, opaque), device(host, config) {}

  tern::capi::CallbackHost host;
  tern::Device device;
};
