// SPDX-License-Identifier: GPL-2.0-or-later
// Connects a port with its fault rules: serialises outgoing packets to frames, and forwards frames
// that pass the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "faults/faults.h"
#include "wire/packet.h"

namespace tern {

class Archive;
class DataPath;
class Port;

class PortFaults final : public Faults::Port {
 public:
  PortFaults(tern::Port& port, DataPath& datapath);
  ~PortFaults() override;
  PortFaults(const PortFaults&) = delete;
  PortFaults& operator=(const PortFaults&) = delete;

  // Like Faults::change(). The rules apply to the device's memory accesses as well.
  [[nodiscard]] bool change(FaultChange change, std::string& error);
  // Sends a packet to the wire or in loopback, as its route says.
  void emit(const Packet& packet, std::uint16_t ip_id);
  // Handles a frame from the wire.
  void receive(std::span<const std::byte> frame);
  [[nodiscard]] Faults& rules() { return faults_; }
  void state(Archive& ar);

  void send(std::span<const std::byte> frame) override;
  void accept(std::span<const std::byte> frame, bool inside) override;
  void fatal(std::uint32_t code) override;

 private:
  tern::Port& port_;
  DataPath& datapath_;
  Faults faults_;
  std::vector<std::byte> frame_;  // being sent
};

}  // namespace tern
