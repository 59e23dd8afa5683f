// SPDX-License-Identifier: GPL-2.0-or-later
// Rendezvous of a QP whose SRQ matches tags and which has no send queue of its own: the device
// fetches the data with RDMA READs and then notifies the peer with a FIN message. Both are WQEs of
// a send queue in the device, which the requester serves like any other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/block_pool.h"
#include "tern_hw.hpp"
#include "transport/tag_headers.h"

namespace tern {

class Archive;
class Connection;
class Context;
class SendQueue;

class Rendezvous {
 public:
  static constexpr std::uint8_t kLogSlots = 5;
  static constexpr std::uint8_t kLogStride = 7;

  Rendezvous(Connection& qp, SendQueue& sender);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Whether another request can be served now.
  [[nodiscard]] bool has_room() const;
  // Posts the READ of a request that matched the held tag `tag`, whose buffer is large enough.
  void fetch(std::uint32_t tag, const TagHeaders& request);
  // A WQE has completed: the tag of a READ gets its last CQE, and the FIN message follows.
  void completed(const tern_cqe& cqe);
  // Completes the tags of all requests in progress, and forgets them.
  void reset();
  // The QP moves to this data path.
  void move_to(Context& context);
  // Saved state, when the indices of the send queue are known; check() follows.
  void state(Archive& ar);
  // `held`: the QP holds a request that will need a WQE and another one for its FIN message.
  void check(Archive& ar, bool held) const;

  // The queue, for Qp.
  [[nodiscard]] std::uint32_t posted() const { return pi_; }
  void read(std::uint32_t index, std::size_t offset, std::span<std::byte> to) const;

 private:
  static constexpr std::uint32_t kSlots = 1U << kLogSlots;
  struct Slot {
    std::array<std::byte, 1U << kLogStride> wqe;
    TagHeaders request;
  };

  [[nodiscard]] Slot& slot(std::uint32_t index) const { return (*slots_)[index & (kSlots - 1)]; }
  Slot& post(const tern_sq_hdr& hdr);
  void finish(TagHeaders request);
  void end_tag(std::uint32_t tag, std::uint8_t status, std::uint32_t bytes);

  Connection& qp_;
  SendQueue& sender_;
  Pooled<std::array<Slot, kSlots>> slots_;  // held only while there are WQEs
  std::uint32_t pi_ = 0;
  std::uint32_t reads_ = 0;  // incomplete READs: each will need a slot for its FIN message
};

}  // namespace tern
