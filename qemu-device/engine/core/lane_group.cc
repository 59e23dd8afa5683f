// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/lane_group.h"

#include <utility>

namespace tern {

std::uint32_t LaneGroup::move_to(Context& lane) {
  if (lane_ == &lane) return 0;
  lane_ = &lane;
  members_.for_each([&](const LaneMember& member) {
    if (member.move_ != nullptr) member.move_(member.object_, lane);
  });
  return size_;
}

LaneMember::LaneMember(Context& lane, Move move, void* object) : move_(move), object_(object) {
  enter(std::make_shared<LaneGroup>(lane));
}

LaneMember::~LaneMember() { --group_->size_; }

void LaneMember::enter(std::shared_ptr<LaneGroup> group) {
  group_ = std::move(group);
  group_->members_.push_back(*this);
  ++group_->size_;
}

std::uint32_t LaneMember::join(LaneMember& other) {
  if (group_ == other.group_) return 0;
  std::shared_ptr<LaneGroup> kept = group_;
  std::shared_ptr<LaneGroup> gone = other.group_;
  if (kept->fixed_ == gone->fixed_ ? gone->size_ > kept->size_ : gone->fixed_)
    std::swap(kept, gone);
  const std::uint32_t moved = gone->size_;
  (void)gone->move_to(*kept->lane_);
  kept->fixed_ |= gone->fixed_;
  kept->qps += std::exchange(gone->qps, 0U);
  while (LaneMember* const member = gone->members_.pop_front()) member->enter(kept);
  return moved;
}

}  // namespace tern
