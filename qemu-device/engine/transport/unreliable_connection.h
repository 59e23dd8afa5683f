// SPDX-License-Identifier: GPL-2.0-or-later
// Unreliable connections: messages of any length to one peer, without acknowledgements and
// retransmissions. A message that misses a packet is lost as a whole (IBTA 9.8.2).
#pragma once

#include <cstdint>

#include "transport/connected_receiver.h"
#include "transport/unreliable.h"

namespace tern {

class UcSender final : public UnreliableSender {
 public:
  using UnreliableSender::UnreliableSender;

 private:
  [[nodiscard]] std::uint32_t psns_of(const SendWqe& wqe) const override;
  std::uint8_t send_packet(SendWqe& wqe, std::uint32_t& cost) override;
};

class UcReceiver final : public ConnectedReceiver {
 public:
  using ConnectedReceiver::ConnectedReceiver;

  // Starts with attr().rq_psn.
  void start() override;
  void deliver(const Packet& packet) override;
  void fault_over(bool failed) override;
  void state(Archive& ar) override;

  [[nodiscard]] Psn expected_psn() const override { return epsn_; }

 private:
  friend ConnectedReceiver;

  [[nodiscard]] Take take_message(const Packet&) { return take(); }
  void refuse(Refusal why);
  void drop();
  void drop(unsigned counter);
  void fail(std::uint8_t status);

  Psn epsn_;
};

}  // namespace tern
