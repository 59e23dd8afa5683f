// SPDX-License-Identifier: GPL-2.0-or-later
// The receiving half of a connection: messages of several packets, and RDMA WRITE.
#pragma once

#include <cstdint>

#include "transport/receiver.h"

namespace tern {

class ConnectedReceiver : public Receiver {
 public:
  using Receiver::Receiver;

  void reset() override;

 protected:
  // The message that the next packet continues. Also kNone while the rest of a lost message is
  // dropped.
  enum class Message : std::uint8_t { kNone, kSend, kWrite };

  // Whether the QP allows peers requests that need `rights` (TERN_ACCESS_*).
  [[nodiscard]] bool allows(const Packet& packet, const Accessor& who, std::uint32_t rights) const;
  // Handles the first packet of a WRITE: checks its RETH and records the destination. Returns zero
  // or the syndrome of the NAK to send.
  [[nodiscard]] std::uint8_t begin_write(const Packet& packet, const Accessor& who);
  // Returns whether the length of a WRITE packet agrees with the bytes left of the RETH's length.
  [[nodiscard]] bool as_announced(const Packet& packet) const;
  // Maps the memory that a request addresses into Context::scatter, which stays empty unless the
  // result is kReady. For kPending it raises the page fault. `rest`: bytes of the message after the
  // packet.
  [[nodiscard]] Access reach(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                             std::uint64_t len, std::uint32_t rights, std::uint64_t rest = 0);
  // The same for the next `len` bytes of the WRITE.
  [[nodiscard]] Access reach_write(const Accessor& who, std::uint32_t len) {
    return reach(who, write_rkey_, write_va_, len, TERN_ACCESS_REMOTE_WRITE, write_left_ - len);
  }
  // Advances the WRITE by `len` stored bytes.
  void written(std::uint32_t len) {
    write_va_ += len;
    write_left_ -= len;
    received_ += len;
  }

  Message message_ = Message::kNone;

 private:
  std::uint32_t write_rkey_ = 0;
  std::uint64_t write_va_ = 0;
  std::uint32_t write_left_ = 0;
};

}  // namespace tern
