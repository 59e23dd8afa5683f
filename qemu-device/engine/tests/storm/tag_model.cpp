// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/tag_model.h"

#include <algorithm>

namespace tern::storm {

// ---- the list ----

void TagModel::add(const Op& op) {
  list_.push_back(op.tag);
  list_.back().may = Tag::May::kWait;
}

std::optional<Tag> TagModel::remove(std::uint32_t handle) {
  const auto at = std::ranges::find(list_, handle, &Tag::handle);
  if (at == list_.end()) return std::nullopt;
  Tag tag = *at;
  list_.erase(at);
  ++released_;
  return tag;
}

void TagModel::ready() {
  for (Tag& tag : list_) {
    if (tag.may == Tag::May::kMatch) continue;
    tag.may = Tag::May::kMatch;
    tag.since = cqes_;
  }
}

bool TagModel::any_waits(bool surely) const {
  return std::ranges::any_of(list_, [&](const Tag& tag) {
    return tag.may == Tag::May::kWait || (!surely && tag.may == Tag::May::kMaybe);
  });
}

void TagModel::loosen() {
  if (handled_ == seen_) may_match();
}

void TagModel::may_match() {
  for (Tag& tag : list_) {
    if (tag.may == Tag::May::kWait) tag.may = Tag::May::kMaybe;
  }
}

// A DEL without a CQE may have been executed.
bool TagModel::may_be_gone(const Tag& tag) const {
  return std::ranges::any_of(ops_, [&](const Op& op) {
    return op.opcode == TERN_TM_DEL && !(op.flags & TERN_TM_F_SIGNALED) &&
           op.tag.handle == tag.handle;
  });
}

// ---- operations ----

// An operation was executed without a CQE.
void TagModel::silent(const Op& op) {
  if (op.opcode == TERN_TM_ADD) add(op);
  if (op.opcode == TERN_TM_DEL) {
    if (auto tag = remove(op.tag.handle)) {
      removed_.push_back(*tag);
      c_.counts.add(Rule::kTagDeleted);
    } else {
      find(Claim::kLost, "a DEL found nothing and has no CQE");
    }
  }
  if (op.flags & TERN_TM_F_SYNC) handled_ = op.unexpected;
  // Nobody knows how many messages were unexpected when it was executed.
  if (handled_ >= op.seen) may_match();
}

// Operations without a CQE may have been executed: they may have synchronized.
void TagModel::expect_silent() {
  std::uint32_t handled = handled_;
  for (const Op& op : ops_) {
    if (op.flags & TERN_TM_F_SIGNALED) return;
    if (op.flags & TERN_TM_F_SYNC) handled = op.unexpected;
    if (handled >= op.seen) return may_match();
  }
}

// What the flag in a CQE says about waiting tags. `must`: a tag would have waited before.
void TagModel::synchronize(bool waits, bool must, bool open) {
  if (!waits) {
    if (must && handled_ != seen_) {
      find(Claim::kReordered, "tags may match while software has handled " +
                                  std::to_string(handled_) + " of " + std::to_string(seen_) +
                                  " unexpected messages");
    }
    if (must) c_.counts.add(Rule::kTagReady);
    return ready();
  }
  if (!any_waits(false)) return find(Claim::kProtocol, "SYNC_REQ, and no tag waits");
  if (handled_ == seen_ && !open) find(Claim::kStall, "tags wait for no unexpected message");
  // If any tag waits, then the newest does.
  list_.back().may = Tag::May::kWait;
}

std::optional<Tag> TagModel::completed(const Wc& wc, bool open) {
  const std::uint32_t index = le(std::uint32_t{wc.wqe_index});
  while (!ops_.empty() && ops_.front().index != index) {
    const Op op = ops_.front();
    ops_.pop_front();
    if (op.flags & TERN_TM_F_SIGNALED) {
      find(Claim::kLost, "no CQE of operation " + std::to_string(op.index));
      return std::nullopt;
    }
    silent(op);
  }
  if (ops_.empty()) {
    find(Claim::kDoubled, "a CQE of operation " + std::to_string(index));
    return std::nullopt;
  }
  const Op op = ops_.front();
  ops_.pop_front();
  const bool good = wc.status == TERN_CQE_SUCCESS;
  if (good && !(op.flags & TERN_TM_F_SIGNALED))
    find(Claim::kDoubled, "a CQE of an unsignaled operation");
  if (wc.opcode != op.opcode - TERN_TM_ADD + TERN_TM_CQE_ADD)
    find(Claim::kCorrupted, "an operation's opcode");
  std::optional<Tag> gone;
  bool fits = wc.status == TERN_CQE_SUCCESS;
  if (op.opcode == TERN_TM_ADD) {
    fits = wc.status == (full() ? TERN_CQE_LOC_QP_OP_ERR : TERN_CQE_SUCCESS);
    if (good) {
      add(op);
    } else {
      gone = op.tag;
      ++released_;
      c_.counts.add(Rule::kTagRefused);
    }
  } else if (op.opcode == TERN_TM_DEL) {
    gone = remove(op.tag.handle);
    fits = wc.status == (gone ? TERN_CQE_SUCCESS : TERN_CQE_TM_ERR);
    c_.counts.add(gone ? Rule::kTagDeleted : Rule::kTagNotThere);
  }
  if (!fits) {
    find(Claim::kStatus, "operation " + std::to_string(op.opcode) + " ended with " +
                             status_name(wc.status) + ", " + std::to_string(list_.size()) +
                             " tags in the list, " + std::to_string(held_) + " held");
  }
  if (op.flags & TERN_TM_F_SYNC) handled_ = op.unexpected;
  const bool waits = wc.flags & TERN_CQE_F_TM_SYNC_REQ;
  if (waits && good && op.opcode == TERN_TM_ADD) c_.counts.add(Rule::kTagWaits);
  synchronize(waits, any_waits(true), open);
  return gone;
}

// ---- messages ----

std::optional<Tag> TagModel::matched(std::uint64_t id, std::uint64_t message) {
  // The tags of operations without a CQE are in the list at the latest when they match.
  while (std::ranges::find(list_, id, &Tag::id) == list_.end() && !ops_.empty() &&
         !(ops_.front().flags & TERN_TM_F_SIGNALED)) {
    const Op op = ops_.front();
    ops_.pop_front();
    silent(op);
  }
  expect_silent();
  const auto at = std::ranges::find(list_, id, &Tag::id);
  if (at == list_.end()) {
    find(Claim::kDoubled,
         "a message matched tag " + std::to_string(id) + ", which is not in the list");
    return std::nullopt;
  }
  Tag tag = *at;
  if (!tag.matches(message)) find(Claim::kCorrupted, "a message matched another tag");
  if (tag.may == Tag::May::kWait) {
    find(Claim::kReordered, "a message matched tag " + std::to_string(id) +
                                ", which waits: software has handled " + std::to_string(handled_) +
                                " of " + std::to_string(seen_));
  }
  for (auto older = list_.begin(); older != at; ++older) {
    if (!older->matches(message)) continue;
    if (older->may == Tag::May::kMatch && !may_be_gone(*older)) {
      find(Claim::kReordered, "a message matched tag " + std::to_string(id) +
                                  ", and not the older " + std::to_string(older->id));
    }
    if (older->may != Tag::May::kMatch) c_.counts.add(Rule::kTagSkipped);
  }
  for (auto newer = at + 1; newer != list_.end(); ++newer) {
    if (newer->matches(message)) c_.counts.add(Rule::kTagOldest);
  }
  list_.erase(at);
  ++held_;
  return tag;
}

void TagModel::unexpected(const Wc& wc, std::uint64_t message, bool whole, std::uint64_t since) {
  expect_silent();
  for (const Tag& tag : list_) {
    if (!tag.matches(message) || may_be_gone(tag)) continue;
    if (tag.may != Tag::May::kMatch) {
      c_.counts.add(Rule::kTagSkipped);
    } else if (whole || tag.since < since) {
      find(Claim::kLost, "a message did not match tag " + std::to_string(tag.id));
    }
  }
  ++seen_;
  const bool waits = wc.flags & TERN_CQE_F_TM_SYNC_REQ;
  const bool silent_add =
      std::ranges::any_of(ops_, [](const Op& op) { return op.opcode == TERN_TM_ADD; });
  if (waits && !any_waits(false) && !silent_add)
    find(Claim::kProtocol, "SYNC_REQ, and no tag waits");
  if (waits) return;
  if (std::ranges::any_of(
          list_, [&](const Tag& tag) { return tag.may == Tag::May::kWait && !may_be_gone(tag); })) {
    find(Claim::kProtocol, "no SYNC_REQ, and a tag waits");
  }
  ready();
}

// ---- the record ----

void TagModel::check_record(const TestSrq& srq) {
  // Operations without a CQE may have released one each.
  const std::uint32_t more = srq.tags_released() - released_;
  if (more > ops_.size()) {
    find(Claim::kLost, "tags_released is " + std::to_string(srq.tags_released()) + ", not " +
                           std::to_string(released_));
  }
}

}  // namespace tern::storm
