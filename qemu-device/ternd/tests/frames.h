// SPDX-License-Identifier: GPL-2.0-or-later
// Frames for the tests of the switch and its queues.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "control/device.h"
#include "tern_hw.hpp"
#include "tests/packet_samples.h"

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
    Config config;
    config.uar_bar_size = 2 << TERN_PAGE_SHIFT_MAX;
    config.max_qp = config.max_cq = config.max_mr = config.max_mw = 2;
    config.num_vectors = 2;
    config.max_mtu = 9216;
    config.link_speed = 1000;
    config.mac[0] = 2;
    config.capture = true;
    device_ = std::make_unique<Device>(host_, config);
  }
  // The frame's batch has an owner, who frees it.
  EffectsBatch::Frame make(const Bytes& frame) {
    device_->receive(frame);
    return device_->take_effects()->frame(0);
  }
  void free(const EffectsBatch::Frame& frame) { device_->free_effects(frame.batch); }
  void end() { device_.reset(); }
  // Changes the memory of the payload that make_roce() shared last.
  void change() { std::ranges::fill(data_, std::byte{0xff}); }
  // A RoCE frame with a deferred ICRC, or a train. With `shared` a train without its payload, which
  // is then stored there and shared.
  Bytes make_roce(std::size_t payload, std::uint32_t packets = 1, SharedPayload* shared = nullptr) {
    Packet packet(host_);
    packet.route = sample_route(false, TERN_VLAN_NONE);
    fill_sample(packet, Transport::kRc, Op::kWriteOnly);
    packet.train = packets;
    data_ = frame_of(payload, 1);
    packet.payload.append_plain(std::span<const std::byte>(data_));
    Bytes frame(payload + kMaxFrameOverhead);
    if (shared != nullptr) {
      const auto [size, offset] = serialize_headers(packet, 1, frame);
      shared->share(packet.payload, offset);
      frame.resize(size);
      return frame;
    }
    frame.resize(serialize(packet, 1, frame, Icrc::kDeferred));
    return frame;
  }

 private:
  struct NoMemory final : Host {
    std::span<std::byte> map(std::uint64_t, std::uint64_t, bool) override { return {}; }
    void unmap(std::span<std::byte>, bool, std::uint64_t) override {}
    void ram_written(std::span<std::byte>) override {}
    void dm_written(std::span<std::byte>) override {}
    Nanos now() override { return 1; }
    std::uint64_t random() override { return 1; }
  };
  NoMemory host_;
  Bytes data_;
  std::unique_ptr<Device> device_;
};

}  // namespace tern::daemon
