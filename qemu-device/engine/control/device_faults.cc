// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/device_faults.h"

#include <utility>

#include "control/device.h"
#include "wire/codec.h"

namespace tern {

DeviceFaults::DeviceFaults(Device& device, std::vector<FaultRule> rules)
    : device_(device), faults_(std::move(rules), *this, device.timers, device.host) {
  device.host.gate = &faults_;
}

DeviceFaults::~DeviceFaults() { device_.host.gate = nullptr; }

// The tap sees the packet as the HCA made it; what becomes of it happens on its way.
void DeviceFaults::emit(const Packet& packet, std::uint16_t ip_id) {
  frame_.resize(packet.payload.size() + kMaxFrameOverhead);
  const auto frame = std::span<const std::byte>(frame_).first(serialize(packet, ip_id, frame_));
  if (device_.config.capture) device_.effects->show(frame, false, device_.host.now());
  faults_.transmit(frame, packet.route.local);
}

void DeviceFaults::receive(std::span<const std::byte> frame) {
  Route route;
  if (device_.claim(frame, route) == Device::Claim::kEthernet) return device_.accept(frame, false);
  faults_.receive(frame, false);
}

void DeviceFaults::send(std::span<const std::byte> frame) {
  if (device_.port.active()) device_.effects->send_unseen(frame, device_.host.now());
}

void DeviceFaults::accept(std::span<const std::byte> frame, bool inside) {
  device_.accept(frame, inside);
}

void DeviceFaults::fatal(std::uint32_t code) { device_.fatal(code); }

bool Device::set_faults(std::string_view text, std::string& error) {
  auto rules = parse_faults(text, error);
  if (!rules) return false;
  // What the old rules hold back is not lost.
  if (faults_ != nullptr) faults_->rules().release();
  faults_.reset();
  if (rules->empty()) return true;
  faults_ = std::make_unique<DeviceFaults>(*this, std::move(*rules));
  faults_->rules().begin();
  return true;
}

std::string Device::faults() const {
  return faults_ != nullptr ? faults_->rules().report() : std::string();
}

bool Device::swallows(std::uint16_t command) {
  return faults_ != nullptr && faults_->rules().swallows(command);
}

}  // namespace tern
