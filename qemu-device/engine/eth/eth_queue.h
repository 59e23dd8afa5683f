// SPDX-License-Identifier: GPL-2.0-or-later
// A transmit or receive queue of the Ethernet function.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/list.h"
#include "core/polled.h"
#include "eth/coalesce.h"
#include "eth/outgoing.h"
#include "objects/queues.h"
#include "objects/record.h"

namespace tern {

// The descriptors of a posted frame, copied.
struct TxDescriptors {
  std::array<tern_eth_txd, TERN_ETH_MAX_TXD> txd;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;  // of the frame
  bool offloads = false;    // txd[0] is a struct tern_eth_offload
  bool misplaced = false;   // another descriptor is one as well

  // Index of the first descriptor of the frame's bytes.
  [[nodiscard]] std::uint32_t first() const { return offloads ? 1 : 0; }
};

// A frame that is being segmented, which may take several turns.
struct TxLarge {
  TxDescriptors descriptors;
  std::optional<eth::Outgoing> segments;  // nothing: no frame is being cut
  std::size_t next = 0;                   // segment
  std::array<std::byte, frames::Segmenter::kMaxHeaders> headers;
};

// The descriptors of the buffers that a received frame needs, copied, and the position of the next
// byte to store.
struct RxBuffers {
  std::array<tern_eth_rxd, TERN_ETH_MAX_RXD> rxd;
  std::uint32_t count = 0;
  std::uint64_t room = 0;  // bytes of all buffers
  std::uint32_t at = 0;    // index of the current buffer
  std::uint64_t used = 0;  // bytes used of the current buffer

  void clear() { room = at = count = 0, used = 0; }
};

// The packet of a queue with TERN_ETH_QF_COALESCE to which the next frame may be added. Its buffers
// are no longer in the ring.
struct RxOpen {
  eth::Coalesced packet;
  RxBuffers buffers;
  tern_cqe cqe;
  std::uint32_t size = 0;  // bytes stored
};

struct EthQueue {
  EthQueue(PageBudget& budget, List<EthQueue>& kicked_queues)
      : buffer(budget), all_kicked(kicked_queues) {}

  tern_cmd_create_eth_queue cmd{};
  QueueBuffer buffer;
  Record record;
  Cq* cq = nullptr;
  std::uint32_t id = 0;
  std::uint32_t pi = 0;  // last read
  std::uint32_t ci = 0;
  bool broken = false;  // stopped until it is destroyed
  // Transmit:
  std::uint32_t turn_left = 0;  // of a turn that the budget cut short
  std::uint32_t debt = 0;       // bytes sent beyond the turns so far
  std::unique_ptr<TxLarge> large;
  List<EthQueue>& all_kicked;
  Hook<EthQueue> kicked{this};
  Polled polled;
  // Receive:
  std::uint32_t references = 0;  // entries of RSS groups
  std::unique_ptr<RxOpen> open;  // with TERN_ETH_QF_COALESCE; in use while `opened` is linked
  Hook<EthQueue> opened{this};
  // The queue learns that the CQ failed from its next completion.
  static constexpr CqUser::Kind kCqUser{[](void*) {}, nullptr};
  CqUser cq_user{kCqUser, nullptr};
  PageQueue page_queue{[](void* self) { static_cast<EthQueue*>(self)->kick(); }, this};

  [[nodiscard]] std::uint32_t size() const { return 1U << cmd.log_size; }
  [[nodiscard]] bool transmits() const { return cmd.direction == TERN_ETH_QUEUE_TX; }
  [[nodiscard]] bool flag(std::uint8_t f) const { return (cmd.flags & f) != 0; }
  [[nodiscard]] std::uint64_t slot(std::uint32_t index) const {
    return std::uint64_t{index & (size() - 1)} * sizeof(tern_eth_txd);
  }
  void kick() {
    if (transmits() && !broken && !kicked.linked()) all_kicked.push_back(kicked);
  }
};

}  // namespace tern
