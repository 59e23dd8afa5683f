// SPDX-License-Identifier: GPL-2.0-or-later
#include "datapath/port_faults.h"

#include <utility>

#include "datapath/datapath.h"
#include "datapath/port.h"
#include "wire/codec.h"

namespace tern {

PortFaults::PortFaults(tern::Port& port, DataPath& datapath)
    : port_(port), datapath_(datapath), faults_(*this, datapath.timers, datapath.host) {}

PortFaults::~PortFaults() { datapath_.host.gate = nullptr; }

bool PortFaults::change(FaultChange change, std::string& error) {
  if (!faults_.change(std::move(change), error)) return false;
  datapath_.host.gate = faults_.empty() ? nullptr : &faults_;
  return true;
}

// The capture tap sees the packet as the HCA built it; the rules apply after that.
void PortFaults::emit(const Packet& packet, std::uint16_t ip_id) {
  frame_.resize(packet.payload.size() + kMaxFrameOverhead);
  const auto frame = std::span<const std::byte>(frame_).first(serialize(packet, ip_id, frame_));
  if (port_.capture()) datapath_.effects->show(frame, false, datapath_.host.now());
  faults_.transmit(frame, packet.route.local);
}

void PortFaults::receive(std::span<const std::byte> frame) {
  Route route;
  FrameLayout at;
  if (port_.claim(frame, route, at) == tern::Port::Claim::kEthernet)
    return port_.accept(datapath_, frame, false);
  faults_.receive(frame, false);
}

void PortFaults::send(std::span<const std::byte> frame) {
  if (port_.addresses.active()) datapath_.effects->send_unseen(frame, datapath_.host.now());
}

void PortFaults::accept(std::span<const std::byte> frame, bool inside) {
  port_.accept(datapath_, frame, inside);
}

void PortFaults::fatal(std::uint32_t code) { datapath_.fatal(code); }

}  // namespace tern
