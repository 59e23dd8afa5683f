// SPDX-License-Identifier: GPL-2.0-or-later
// Groups of objects that refer to each other. One data path, the group's lane, serves all QPs of a
// group, so that their protection domains, keys, CQs and SRQs need no locks. Commands join groups,
// while no lane runs.
#pragma once

#include <cstdint>
#include <memory>

#include "core/list.h"

namespace tern {

class Archive;
class Context;
class LaneMember;

class LaneGroup {
 public:
  explicit LaneGroup(Context& lane) : lane_(&lane) {}
  LaneGroup(const LaneGroup&) = delete;
  LaneGroup& operator=(const LaneGroup&) = delete;

  [[nodiscard]] Context& lane() const { return *lane_; }
  // Moves all members to `lane`. Returns their number.
  std::uint32_t move_to(Context& lane);
  // Does the same, and keeps the group there for good.
  std::uint32_t fix(Context& lane) {
    fixed_ = true;
    return move_to(lane);
  }
  [[nodiscard]] bool fixed() const { return fixed_; }

  std::uint32_t qps = 0;

 private:
  friend class Archive;
  friend class LaneMember;
  List<LaneMember, BaseHook<LaneMember>> members_;
  Context* lane_;
  std::uint32_t size_ = 0;
  bool fixed_ = false;
};

// An object's membership of a group, which the object contains.
class LaneMember : public BaseHook<LaneMember> {
 public:
  using Move = void (*)(void* object, Context& lane);

  // The object is in a group of its own. `move` takes it to another lane; null: it has no state
  // there.
  LaneMember(Context& lane, Move move, void* object);
  ~LaneMember();

  [[nodiscard]] LaneGroup& group() const { return *group_; }
  // Joins the groups of two members. A group that is not fixed joins one that is, otherwise the
  // smaller one the larger. Returns the number of members that changed their group.
  std::uint32_t join(LaneMember& other);

 private:
  friend class Archive;
  friend class LaneGroup;
  void enter(std::shared_ptr<LaneGroup> group);

  std::shared_ptr<LaneGroup> group_;
  Move move_;
  void* object_;
};

}  // namespace tern
