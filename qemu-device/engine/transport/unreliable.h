// SPDX-License-Identifier: GPL-2.0-or-later
// What sending without acknowledgements has in common: a WQE is complete when its last packet has
// left, and one that fails stops the send queue alone (IBTA 9.8, 10.3.1.6).
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
  bool transmit(std::uint32_t& allowance) override;

 protected:
  // Sends the packet at the cursor and adds what it takes of a turn to `cost`, kPacketCost but for
  // the first copy; sets psns of the WQE with the first packet. A CQE status, or kAbsent.
  virtual std::uint8_t send_packet(SendWqe& wqe, std::uint32_t& cost) = 0;

 private:
  void finish(const SendWqe& wqe);

  std::optional<std::uint32_t> flush_end_;  // what was posted before resume() ends here
};

}  // namespace tern
