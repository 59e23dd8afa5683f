// SPDX-License-Identifier: GPL-2.0-or-later
// Raw packet QPs: a message is an Ethernet frame, or one that is segmented into several. Flows and
// RSS groups deliver received frames.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "eth/outgoing.h"
#include "transport/receiver.h"
#include "transport/unreliable.h"

namespace tern {

struct RxFrame;
class StoredFrame;

class RawSender final : public UnreliableSender {
 public:
  explicit RawSender(Connection& qp)
      : UnreliableSender(qp), frames_(std::make_unique<std::optional<eth::Outgoing>>()) {}
  void state(Archive& ar) override;

 private:
  [[nodiscard]] std::uint32_t psns_of(const SendWqe& wqe) const override;
  [[nodiscard]] std::optional<eth::Outgoing> outgoing(const SendWqe& wqe, std::size_t most) const;
  std::uint8_t send_packet(SendWqe& wqe, std::uint32_t& cost) override;
  [[nodiscard]] std::span<const std::byte> headers(const SendWqe& wqe,
                                                   const tern_eth_offload& offload) const;
  [[nodiscard]] std::uint8_t gather_frame(const SendWqe& wqe, std::span<const std::byte> head,
                                          std::span<std::byte> room);

  // Frames of the WQE at the cursor, from its first packet on. Not a plain member: it would make
  // every QP larger.
  std::unique_ptr<std::optional<eth::Outgoing>> frames_;
};

class RawReceiver final : public Receiver {
 public:
  using Receiver::Receiver;

  // A RoCE packet never reaches a raw QP.
  void deliver(const Packet&) override {}
  void fault_over(bool failed) override;
  // Returns whether the frame was stored.
  bool receive(const RxFrame& frame);

 private:
  [[nodiscard]] std::uint8_t store(const StoredFrame& frame);
};

}  // namespace tern
