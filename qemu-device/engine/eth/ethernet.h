// SPDX-License-Identifier: GPL-2.0-or-later
// The Ethernet function: transmit and receive queues, receive filter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/table.h"
#include "objects/queues.h"

namespace tern {

class Addresses;
class Context;
class UarPages;

class Ethernet {
 public:
  static constexpr std::uint16_t kMaxQueues = 1;  // of each direction

  Ethernet(Context& context, const Addresses& addresses);
  ~Ethernet();

  // The caller has checked that the UAR page, one of `uars`, is allocated; the rest is checked
  // here. `cq`: the CQ that the command refers to, null if it does not exist.
  [[nodiscard]] Status create_queue(const tern_cmd_create_eth_queue& cmd, Cq* cq, UarPages& uars, std::uint32_t* id);
  [[nodiscard]] Status destroy_queue(std::uint32_t id);
  [[nodiscard]] Status set_filter(const tern_cmd_set_rx_filter& cmd);
  void reset();

  // TERN_DB_CMD_ETH_TX through page `uar`. Returns false if the page has no such transmit queue.
  [[nodiscard]] bool kick(std::uint32_t id, std::uint32_t uar);
  // Sends frames for about `budget` bytes. Returns true if more are waiting.
  bool run(std::uint32_t budget);
  // Handles a frame that is not RoCE to this port: filters, copies and completes it. Counters
  // record the outcome.
  void receive(std::span<const std::byte> frame);

  [[nodiscard]] std::uint32_t queue_count() const { return queues_.count(); }

 private:
  struct Queue;
  struct TxFrame;
  enum class Took : std::uint8_t { kFrame, kNothing, kBroken };

  [[nodiscard]] bool wanted(std::span<const std::byte> frame) const;
  [[nodiscard]] bool mac_wanted(const Mac& dst) const;
  [[nodiscard]] Queue* first(std::uint8_t direction) const;
  [[nodiscard]] bool read_pi(Queue& q);
  [[nodiscard]] std::uint32_t most_bytes() const;
  void run_queue(Queue& q, std::uint32_t& budget);
  [[nodiscard]] Took take_frame(Queue& q, TxFrame& frame);
  [[nodiscard]] std::uint8_t send(const TxFrame& frame);
  void complete(Queue& q, std::uint32_t index, std::uint8_t opcode, std::uint8_t status,
                std::uint32_t len);
  void fail(Queue& q, std::uint32_t index);

  Context& context_;
  const Addresses& addresses_;
  Table<Queue> queues_;
  tern_cmd_set_rx_filter filter_{};
};

}  // namespace tern
