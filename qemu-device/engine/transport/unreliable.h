// SPDX-License-Identifier: GPL-2.0-or-later
// Base of send queues without acknowledgements: a WQE is complete once its last packet is sent, and
// a WQE that fails stops only the send queue (IBTA 9.8, 10.3.1.6).
#pragma once

#include <cstdint>
#include <optional>

#include "transport/send_queue.h"

namespace tern {

class UnreliableSender : public SendQueue {
 public:
  using SendQueue::SendQueue;

  void reset() override;
  void resume() override;
  void stop() override { flush_end_.reset(); }
  bool transmit(std::uint32_t& allowance) override;
  void state(Archive& ar) override;

 protected:
  // Returns the PSN of the packet at the cursor, which is about to be sent.
  Psn take_psn() {
    const Psn psn = next_.psn;
    next_.psn = fresh_.psn = psn.next();
    return psn;
  }
  // Sends the packet at the cursor and adds its further cost to `cost`, in which the caller has
  // included kPacketCost for one copy. Sets psns of the WQE with its first packet. Returns a CQE
  // status or kAbsent.
  virtual std::uint8_t send_packet(SendWqe& wqe, std::uint32_t& cost) = 0;

 private:
  void finish(const SendWqe& wqe);

  std::optional<std::uint32_t> flush_end_;  // end of the WQEs posted before resume()
};

}  // namespace tern
