// SPDX-License-Identifier: GPL-2.0-or-later
// Tag matching of an SRQ (TERN_SRQ_F_TM): the list of tags, the operations on it, and the count of
// unexpected messages, which decides when a new tag may match.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/list.h"
#include "objects/queues.h"
#include "objects/recv_wqe.h"
#include "objects/uar_pages.h"

namespace tern {

class Context;
class Srq;

class TagList {
 public:
  // The CQ and the doorbell page in `cmd` exist.
  TagList(Context& context, const tern_cmd_create_srq& cmd, Srq& srq, Cq& cq);
  ~TagList();
  TagList(const TagList&) = delete;
  TagList& operator=(const TagList&) = delete;
  // Checks the command, and allocates the list and loads the ring within the budget.
  [[nodiscard]] Status init();
  // Saved state. Reading replaces init().
  void state(Archive& ar);
  // Saved state: a message holds the tag. Returns false if that cannot be.
  [[nodiscard]] bool claim(std::uint32_t number);
  // Stores in the record what the device has consumed. Returns false if the record is unreachable.
  [[nodiscard]] bool store_indices();

  void move_to(Context& lane);

  // ---- operations ----
  // The ring may have new operations.
  void kick();
  // Executes operations for about `budget` bytes. Returns the cost; `more`: some operations are
  // left.
  std::uint32_t run(std::uint32_t budget, bool& more);

  // ---- messages ----
  // A tag that has left the list: it matched a message and is held until release().
  struct Held {
    std::uint64_t recv_wr_id = 0;
    std::uint8_t num_sge = 0;
    std::array<tern_sge, TERN_TM_MAX_SGE> sges;
    // Bytes that its buffer holds.
    [[nodiscard]] std::uint64_t room() const;
  };
  // Finds the oldest tag that matches and may. Returns nothing if there is none.
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t tag);
  // Takes the tag that find() returned off the list. Returns the number by which it is held.
  [[nodiscard]] std::uint32_t take(std::uint32_t position);
  [[nodiscard]] const Held& held(std::uint32_t number) const { return slots_[number].held; }
  void release(std::uint32_t number);

  // A message without a matching tag begins, or ends without reaching software: tags that software
  // adds from now on must not match until software has checked it.
  void unexpected() { ++unexpected_; }
  void forget_unexpected();
  // Whether a tag waits until software has handled unexpected messages.
  [[nodiscard]] bool waiting() const { return ready_ != order_.size(); }

  // Pushes a CQE for a held tag, and sets its srqn, wr_id and kind flags. Returns false if it is
  // lost.
  [[nodiscard]] bool complete(std::uint32_t number, tern_cqe& cqe);

  [[nodiscard]] Srq& srq() const { return srq_; }
  [[nodiscard]] std::uint32_t uar() const { return uar_; }
  [[nodiscard]] PageQueue& page_queue() { return page_queue_; }
  [[nodiscard]] std::uint64_t page_entries() const { return ring_.page_entries() + charged_; }

  Hook<TagList> pending{this};  // in Context::tag_lists

 private:
  struct Slot {
    std::uint32_t handle = 0;
    Held held;
  };
  // The part of an entry that a match reads, in the order in which tags were added. Entries from
  // ready_ on wait.
  struct Entry {
    std::uint64_t tag;
    std::uint64_t mask;
    std::uint32_t slot;
  };

  [[nodiscard]] Status allocate();
  [[nodiscard]] bool consistent();
  [[nodiscard]] std::uint32_t size() const { return 1U << log_ops_; }
  [[nodiscard]] bool execute(std::uint32_t index, std::uint32_t& cost);
  [[nodiscard]] bool add(const tern_tm_op& op);
  [[nodiscard]] bool remove(std::uint32_t handle, std::uint32_t& cost);
  void synchronize();
  void forget(std::uint32_t position);
  void complete_op(const tern_tm_op& op, std::uint32_t index, std::uint8_t status);

  Context* context_;
  Srq& srq_;
  Cq& cq_;
  Record record_;
  QueueBuffer ring_;
  tern_pages pages_;
  std::uint32_t uar_;
  std::uint32_t max_tags_;
  std::uint8_t log_ops_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Entry> order_;
  std::vector<bool> known_;  // saved state: tags whose place has been read
  std::size_t ready_ = 0;
  std::uint64_t charged_ = 0;
  std::uint32_t ci_ = 0;
  std::uint32_t released_ = 0;
  std::uint32_t unexpected_ = 0;  // messages that found no tag, besides those forgotten
  std::uint32_t handled_ = 0;     // number that software last reported as handled
  PageQueue page_queue_{[](void* self) { static_cast<TagList*>(self)->kick(); }, this};
};

}  // namespace tern
