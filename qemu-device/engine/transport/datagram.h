// SPDX-License-Identifier: GPL-2.0-or-later
// Unreliable datagrams, including those of the GSI QP: a message is one packet, and its WQE holds
// the address vector (IBTA 9.8.3, 10.2.2, A17.4.5).
#pragma once

#include <cstdint>

#include "transport/receiver.h"
#include "transport/unreliable.h"

namespace tern {

class DatagramSender final : public UnreliableSender {
 public:
  using UnreliableSender::UnreliableSender;

 private:
  [[nodiscard]] std::uint32_t psns_of(const SendWqe&) const override { return 1; }
  std::uint8_t send_packet(SendWqe& wqe, std::uint32_t& cost) override;
};

class DatagramReceiver final : public Receiver {
 public:
  using Receiver::Receiver;

  void deliver(const Packet& packet) override;
  void fault_over(bool failed) override;

 private:
  void finish(const Packet& packet);
};

}  // namespace tern
