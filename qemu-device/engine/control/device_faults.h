// SPDX-License-Identifier: GPL-2.0-or-later
// Between a device and its faults: packets become frames on their way out, and what comes through
// goes where it would have gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "faults/faults.h"
#include "wire/packet.h"

namespace tern {

class Device;

class DeviceFaults final : public Faults::Port {
 public:
  // The memory accesses of `device` pass by `rules` from now on, until it is destroyed.
  DeviceFaults(Device& device, std::vector<FaultRule> rules);
  ~DeviceFaults() override;
  DeviceFaults(const DeviceFaults&) = delete;
  DeviceFaults& operator=(const DeviceFaults&) = delete;

  // A packet that the HCA sends: to the wire or inside, as its route says.
  void emit(const Packet& packet, std::uint16_t ip_id);
  // A frame from the wire.
  void receive(std::span<const std::byte> frame);
  [[nodiscard]] Faults& rules() { return faults_; }

  void send(std::span<const std::byte> frame) override;
  void accept(std::span<const std::byte> frame, bool inside) override;
  void fatal(std::uint32_t code) override;

 private:
  Device& device_;
  Faults faults_;
  std::vector<std::byte> frame_;  // being sent
};

}  // namespace tern
