// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/archive.h"

#include <algorithm>
#include <utility>

namespace tern {

void Archive::fail(std::string_view why) {
  if (!ok()) return;
  error_ = std::string(why) + " (" + section_ + ")";
  from_ = {};
}

void Archive::raw(void* data, std::size_t size) {
  if (!reading()) {
    if (!ok() || size > most_ - to_->size()) return fail("the state is too large");
    const auto* const from = static_cast<const std::byte*>(data);
    to_->insert(to_->end(), from, from + size);
    return;
  }
  if (from_.size() < size) {
    std::memset(data, 0, size);
    return fail("the state is too short");
  }
  std::memcpy(data, from_.data(), size);
  from_ = from_.subspan(size);
}

void Archive::bytes(std::span<std::byte> data) {
  if (!data.empty()) raw(data.data(), data.size());
}

// The name itself is in the stream, as a hash (FNV-1a): a reader that lost its place notices.
bool Archive::section(const char* name) {
  std::uint32_t hash = 0x811c9dc5;
  for (const char* c = name; *c != 0; ++c)
    hash = (hash ^ static_cast<unsigned char>(*c)) * 0x01000193;
  std::uint32_t found = hash;
  section_ = name;
  raw(&found, sizeof(found));
  return require(found == hash, "the state is damaged");
}

std::uint32_t Archive::count(std::size_t have, std::size_t most, std::size_t least) {
  auto number = static_cast<std::uint32_t>(have);
  raw(&number, sizeof(number));
  if (!reading()) return number;
  if (number > most) fail("there are too many of something");
  if (number > from_.size() / least) fail("the state is too short");
  return ok() ? number : 0;
}

void Archive::text(std::string& text, std::size_t most) {
  text.resize(count(text.size(), most));
  bytes(std::as_writable_bytes(std::span(text)));
}

// ---- lists ----

void Archive::add_list(const void* list, void (*push)(void*, ListLink&)) {
  lists_.push_back({list, push, {}});
  placed_ = 0;
}

void Archive::place(const ListLink& link) {
  places_.emplace(&link, Place{static_cast<std::uint32_t>(lists_.size() - 1), placed_++});
}

std::uint32_t Archive::member_of(ListLink& link) {
  Place at{kNowhere, 0};
  if (!reading()) {
    const auto found = places_.find(&link);
    // A member of a list that was not written would be lost.
    if (found != places_.end())
      at = found->second;
    else if (link.linked())
      fail("a list is missing");
  }
  raw(&at.list, sizeof(at.list));
  if (at.list == kNowhere) return kNowhere;
  raw(&at.position, sizeof(at.position));
  if (!require(at.list < lists_.size(), "there is no such list")) return kNowhere;
  if (reading()) {
    link.unlink();
    lists_[at.list].members.push_back({at.position, &link});
  }
  return at.list;
}

// Whether the positions in each list are 0, 1, 2 ...
bool Archive::lists_complete() {
  return std::ranges::all_of(lists_, [](ListOf& l) {
    std::ranges::sort(l.members, {}, &Pending::position);
    for (std::uint32_t i = 0; i < l.members.size(); ++i) {
      if (l.members[i].position != i) return false;
    }
    return true;
  });
}

// ---- timers ----

void Archive::timers(TimerQueue& queue) {
  timers_[&queue].resize(count(queue.heap_.size(), UINT32_MAX, sizeof(Nanos)));
}

// A timer is written with its place in the heap, so that timers with one deadline keep their order.
bool Archive::timer(Timer& timer, TimerQueue& queue) {
  auto place = static_cast<std::uint32_t>(timer.index_ == Timer::kIdle ? kNowhere : timer.index_);
  raw(&place, sizeof(place));
  if (place == kNowhere) return false;
  TimerOf t{&timer, reading() ? 0 : timer.key(), timer.deadline_};
  raw(&t.key, sizeof(t.key));
  raw(&t.deadline, sizeof(t.deadline));
  if (reading()) {
    auto& places = timers_[&queue];
    if (require(place < places.size() && places[place].timer == nullptr && t.key <= t.deadline,
                "a timer has a wrong place"))
      places[place] = t;
  }
  return t.deadline != kNever;
}

bool Archive::timers_complete() {
  return std::ranges::all_of(timers_, [](const auto& queue) {
    const auto& heap = queue.second;
    for (std::size_t i = 0; i < heap.size(); ++i) {
      if (heap[i].timer == nullptr || heap[(i - (i != 0)) / 2].key > heap[i].key) return false;
    }
    return true;
  });
}

// ---- groups ----

void Archive::group(LaneMember& member, Context& lane) {
  std::uint32_t number = 0;
  if (!reading()) {
    const auto next = static_cast<std::uint32_t>(groups_.size());
    number = numbers_.try_emplace(member.group_.get(), next).first->second;
  }
  raw(&number, sizeof(number));
  if (!require(number <= groups_.size(), "there is no such group")) return;
  if (number == groups_.size()) {
    auto group = reading() ? std::make_shared<LaneGroup>(lane) : member.group_;
    value(group->fixed_);
    list(group->members_);
    groups_.push_back(std::move(group));
  }
  const auto& group = groups_[number];
  if (!require(&group->lane() == &lane, "an object is not in the lane of its group")) return;
  if (reading()) {
    member.unlink();
    --member.group_->size_;
    member.group_ = group;
    ++group->size_;
  }
  const bool listed = this->member(member, {&group->members_});
  require(listed, "an object is not in its group");
}

bool Archive::finish() {
  section_ = "the end";
  if (!reading()) return ok();
  require(from_.empty(), "the state is too long");
  require(lists_complete(), "a list lacks a member");
  require(timers_complete(), "the timers are out of order");
  if (!ok()) return false;
  for (const ListOf& l : lists_) {
    for (const Pending& p : l.members) l.push(const_cast<void*>(l.list), *p.link);
  }
  for (auto& [queue, heap] : timers_) {
    auto& to = const_cast<TimerQueue&>(*queue);
    to.heap_.clear();
    for (const TimerOf& t : heap) {
      t.timer->index_ = to.heap_.size();
      to.heap_.push_back({t.key, t.timer});
      t.timer->set(t.deadline);
    }
  }
  return true;
}

}  // namespace tern
