// SPDX-License-Identifier: GPL-2.0-or-later
// Frames for the tests of the switch and its queues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tern_engine.h"
#include "tern_hw.hpp"

namespace tern::daemon {

using Bytes = std::vector<std::byte>;
inline constexpr std::size_t kQueue = 64 * 1024;

inline Bytes frame_of(std::size_t len, unsigned seed) {
  Bytes b(len);
  for (std::size_t i = 0; i < len; ++i) b[i] = static_cast<std::byte>(seed * 31 + i);
  return b;
}

// An engine whose capture makes batches of one frame.
class Engine {
 public:
  Engine() {
    static constexpr TernHostOps kOps = {
        .map = [](void*, std::uint64_t, std::uint64_t*, bool) -> void* { return nullptr; },
        .unmap = [](void*, void*, std::uint64_t, bool, std::uint64_t) {},
        .now = [](void*) { return std::uint64_t{1}; },
        .random = [](void*) { return std::uint64_t{1}; },
        .dm_written = nullptr,
        .ram_written = nullptr};
    TernConfig config{};
    config.uar_bar_size = 2 << TERN_PAGE_SHIFT_MAX;
    config.max_qp = config.max_cq = config.max_mr = config.max_mw = 2;
    config.num_vectors = 2;
    config.max_mtu = 9216;
    config.link_speed = 1000;
    config.mac[0] = 2;
    config.capture = 1;
    engine_.reset(tern_engine_new(&config, &kOps, nullptr));
  }
  // The frame's batch has an owner, who frees it.
  TernFrame make(const Bytes& frame) {
    tern_engine_receive(engine_.get(), frame.data(), frame.size());
    return tern_engine_effects_frame(tern_engine_take_effects(engine_.get()), 0);
  }
  void free(const TernFrame& frame) { tern_engine_effects_free(engine_.get(), frame.batch); }
  void end() { engine_.reset(); }

 private:
  struct Free {
    void operator()(TernEngine* e) const { tern_engine_free(e); }
  };
  std::unique_ptr<TernEngine, Free> engine_;
};

inline std::span<const std::byte> bytes_of(const TernFrame& frame) {
  return std::as_bytes(std::span(frame.data, frame.len));
}

}  // namespace tern::daemon
