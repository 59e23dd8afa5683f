// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects/context.h"

#include <algorithm>
#include <utility>

namespace tern {

bool Context::may_share(const SpanList& payload) const {
  return payload.size() >= share_from &&
         std::ranges::none_of(payload.pieces(), [](const SpanList::Piece& piece) {
           return piece.origin == SpanList::Origin::kPlain;
         });
}

List<SharedPayload>* Context::share_queue(const void* owner, std::uint8_t& queue) {
  constexpr unsigned kProbes = 4;
  used_share_queue_ = true;
  if (share_queues_[queue].owner == owner) return &share_queues_[queue].payloads;
  for (unsigned i = 0; i < kProbes; ++i) {
    const std::uint8_t number = next_share_queue_;
    next_share_queue_ = static_cast<std::uint8_t>((number + 1) % share_queues_.size());
    ShareQueue& next = share_queues_[number];
    if (!next.payloads.empty()) continue;
    next.owner = owner;
    queue = number;
    return &next.payloads;
  }
  return nullptr;
}

void Context::unshare() {
  if (!std::exchange(used_share_queue_, false)) return;
  for (ShareQueue& queue : share_queues_)
    while (SharedPayload* const payload = queue.payloads.front()) payload->take_back();
}

bool Context::shares() const {
  return std::ranges::any_of(share_queues_,
                             [](const ShareQueue& queue) { return !queue.payloads.empty(); });
}

}  // namespace tern
