// SPDX-License-Identifier: GPL-2.0-or-later
// What the list of an SRQ's tags must be, by the data book and the order of the CQEs.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/storm/flow.h"

namespace tern::storm {

// A tag as software knows it.
struct Tag {
  // Whether a message may match it. kMaybe: the device may have noticed that nothing is left to
  // synchronize, without a CQE that says so.
  enum class May : std::uint8_t { kWait, kMaybe, kMatch };

  std::uint64_t id = 0;  // recv_wr_id
  std::uint32_t handle = 0;
  std::uint64_t tag = 0;
  std::uint64_t mask = 0;
  unsigned buffer = 0;  // number of its buffer
  std::uint32_t room = 0;
  May may = May::kWait;
  std::uint64_t since = 0;  // number of the CQE from which on it may match

  [[nodiscard]] bool matches(std::uint64_t message) const { return (message & mask) == tag; }
};

// Gets every CQE of the SRQ in order. The order of CQEs is that of operations and matches: only an
// operation without a CQE may be executed at any time before the next one with a CQE.
class TagModel {
 public:
  TagModel(Context& context, std::uint32_t max_tags, std::string name)
      : c_(context), max_tags_(max_tags), name_(std::move(name)) {}

  struct Op {
    std::uint32_t index = 0;  // in the ring
    std::uint8_t opcode = 0;
    std::uint8_t flags = 0;
    std::uint32_t unexpected = 0;
    std::uint32_t seen = 0;  // unexpected messages when it was posted
    Tag tag;                 // ADD; DEL: only the handle
  };
  void posted(const Op& op) {
    ops_.push_back(op);
    ops_.back().seen = seen_;
  }
  // A CQE of an operation. Returns the tag that is not in the list any more: it was removed, or it
  // was refused. `open`: whether a message may have begun that will be unexpected.
  [[nodiscard]] std::optional<Tag> completed(const Wc& wc, bool open);

  // A CQE says that a message matched the tag `id`. Returns it.
  [[nodiscard]] std::optional<Tag> matched(std::uint64_t id, std::uint64_t message);
  // A CQE says that no tag matched. `whole`: the message began now, and not earlier since `since`.
  void unexpected(const Wc& wc, std::uint64_t message, bool whole, std::uint64_t since);
  // A held tag has had its last CQE.
  void released() {
    --held_;
    ++released_;
  }
  // A message that would have been unexpected has ended without being one.
  void loosen();
  // Compares the record after all CQEs have been handled.
  void check_record(const TestSrq& srq);

  void count() { ++cqes_; }
  [[nodiscard]] std::uint64_t cqes() const { return cqes_; }
  // Unexpected messages whose CQEs software has handled.
  [[nodiscard]] std::uint32_t seen() const { return seen_; }
  [[nodiscard]] const std::deque<Tag>& list() const { return list_; }
  [[nodiscard]] std::size_t ops_open() const { return ops_.size(); }
  // Tags removed by operations without a CQE.
  [[nodiscard]] std::vector<Tag> take_removed() { return std::exchange(removed_, {}); }
  [[nodiscard]] std::uint32_t held() const { return held_; }

 private:
  void find(Claim claim, const std::string& text) { c_.findings.add(claim, name_ + ": " + text); }
  void silent(const Op& op);
  void expect_silent();
  void may_match();
  void add(const Op& op);
  std::optional<Tag> remove(std::uint32_t handle);
  void synchronize(bool waits, bool must, bool open);
  void ready();
  [[nodiscard]] bool any_waits(bool surely) const;
  [[nodiscard]] bool may_be_gone(const Tag& tag) const;
  [[nodiscard]] bool full() const { return list_.size() + held_ == max_tags_; }

  Context& c_;
  std::uint32_t max_tags_;
  std::string name_;
  std::deque<Op> ops_;  // posted, and not known to be executed
  std::deque<Tag> list_;
  std::vector<Tag> removed_;
  std::uint32_t held_ = 0;      // tags that messages have matched and that have no last CQE yet
  std::uint32_t released_ = 0;  // as in the record
  std::uint32_t seen_ = 0;
  std::uint32_t handled_ = 0;  // as the device was told last
  std::uint64_t cqes_ = 0;
};

}  // namespace tern::storm
