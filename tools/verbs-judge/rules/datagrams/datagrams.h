// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of datagrams, by subject, and what they share.
#pragma once

#include <cstring>

#include "rule.h"

namespace guest::datagrams {

constexpr int kLost = 50;  // ms; a datagram that arrives would arrive within this time

// Two UD QPs of one device.
class Ends : public Pair {
 public:
  explicit Ends(const Device& dev) : Pair(dev, alike({.type = IBV_QPT_UD, .send_wr = 8})) {}
  explicit Ends(const Env& env) : Ends(env.dev) {}

  [[nodiscard]] const End& there() const { return remote.end(); }
  [[nodiscard]] Send message(std::uint32_t length = 8) const {
    return request(IBV_WR_SEND, length);
  }
  // Sends a datagram that must arrive in this receive.
  ibv_wc arrives(const Send& send, std::uint64_t wr_id) const {
    run(send);
    return expect_recv(wr_id);
  }
  // Sends a datagram that is dropped on its way: that is a success of the sender.
  void dropped(const Send& send) const {
    run(send);
    expect_quiet(there().recv_cq(), kLost);
  }
  // Posts a receive and expects that datagrams arrive.
  void works(std::uint64_t wr_id) const {
    recv(wr_id, 0, 8);
    arrives(message(), wr_id);
  }
};

inline bool same_gid(const void* a, const ibv_gid& b) {
  return std::memcmp(a, b.raw, sizeof(b.raw)) == 0;
}

Rules delivery();
Rules addresses();
Rules multicast();
Rules all();

}  // namespace guest::datagrams
