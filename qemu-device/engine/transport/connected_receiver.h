// SPDX-License-Identifier: GPL-2.0-or-later
// The receiving half of a connection: messages of several packets, and memory that the peer names.
#pragma once

#include <cstdint>

#include "transport/receiver.h"

namespace tern {

class ConnectedReceiver : public Receiver {
 public:
  using Receiver::Receiver;

  void reset() override;

 protected:
  // What the next packet goes on with; none as well while the rest of a lost message is dropped.
  enum class Message : std::uint8_t { kNone, kSend, kWrite };

  // The first packet of a WRITE: checks its RETH and remembers where the bytes go. Zero, or the syndrome of
  // the NAK that the request deserves.
  [[nodiscard]] std::uint8_t begin_write(const Packet& packet, const Accessor& who);
  // Whether a packet of a WRITE carries as many bytes as the RETH left for it.
  [[nodiscard]] bool as_announced(const Packet& packet) const;
  // Finds memory that a request names, in Context::scatter. With another result than kReady the list is empty;
  // with kPending the page fault is raised. `rest`: bytes of the message behind the packet.
  [[nodiscard]] Access reach(const Accessor& who, std::uint32_t rkey, std::uint64_t va, std::uint64_t len,
                             std::uint32_t rights, std::uint64_t rest = 0);
  // The same where the WRITE goes on.
  [[nodiscard]] Access reach_write(const Accessor& who, std::uint32_t len) {
    return reach(who, write_rkey_, write_va_, len, TERN_ACCESS_REMOTE_WRITE, write_left_ - len);
  }
  // The bytes of a packet of the WRITE are stored.
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
