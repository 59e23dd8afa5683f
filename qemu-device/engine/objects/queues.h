// SPDX-License-Identifier: GPL-2.0-or-later
// The queues that software and device share: rings, event queues, completion queues.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "core/counters.h"
#include "core/device_state.h"
#include "core/effects.h"
#include "core/host.h"
#include "core/lane_group.h"
#include "core/list.h"
#include "core/timers.h"
#include "memory/memory.h"
#include "objects/record.h"
#include "objects/uar_pages.h"

namespace tern {

// Writes an entry with a phase word: `from` without its last 4 bytes, then these 4 bytes with a
// release store. `addr` is 4-byte aligned. Returns false if part of the entry is not RAM.
[[nodiscard]] bool dma_publish(Host& host, std::uint64_t addr, std::span<const std::byte> from);

// The rings of a queue in DMA memory, addressed by byte offset. The device only reads WQEs and
// descriptors, and only writes CQEs and EQEs. Every access may fail: the memory belongs to the
// user, and a vIOMMU may have unmapped it.
class QueueBuffer {
 public:
  explicit QueueBuffer(PageBudget& budget) : budget_(&budget) {}
  ~QueueBuffer() { budget_->release(page_entries()); }
  QueueBuffer(const QueueBuffer&) = delete;
  QueueBuffer& operator=(const QueueBuffer&) = delete;
  // `other` must belong to the same device. It takes over the old rings and releases them.
  QueueBuffer& operator=(QueueBuffer&& other) noexcept {
    std::swap(pages_, other.pages_);
    return *this;
  }

  // Call it once. `bytes` is the size of the rings. The list must cover them (else
  // TERN_ST_BAD_PARAM); entries beyond them are not kept.
  [[nodiscard]] Status load(Host& host, const tern_pages& pages, std::uint64_t bytes);

  [[nodiscard]] bool read(Host& host, std::uint64_t offset, std::span<std::byte> to) const;
  // dma_publish() of a CQE or EQE, which does not cross a page.
  [[nodiscard]] bool publish(Host& host, std::uint64_t offset,
                             std::span<const std::byte> from) const;

  [[nodiscard]] std::uint64_t page_entries() const { return pages_.entries_held(); }
  void state(Archive& ar) { pages_.state(ar, *budget_); }

 private:
  PageList pages_;
  PageBudget* budget_;
};

class Context;

// A user of a CQ. The QP, XRC SRQ or Ethernet queue that completes into the CQ contains it.
class CqUser : public BaseHook<CqUser> {
 public:
  struct Kind {
    void (*failed)(void*);               // the CQ takes no more completions
    void (*move)(void*, Context& lane);  // the CQ moves to this lane; null: the user does not
  };
  CqUser(const Kind& kind, void* user) : kind_(kind), user_(user) {}
  void move_to(Context& lane) {
    if (kind_.move != nullptr) kind_.move(user_, lane);
  }

 private:
  friend class Cq;
  const Kind& kind_;
  void* user_;
};

// Event queue (CREATE_EQ). Its posters serialise their calls: those of an EQ for completions by
// lock(). `lane`: the caller's.
class Eq {
 public:
  Eq(Context& context, const tern_cmd_create_eq& cmd);
  // Checks the command and loads the buffer.
  [[nodiscard]] Status init();
  // Saved state, besides the command. Reading replaces init().
  [[nodiscard]] const tern_cmd_create_eq& command() const { return cmd_; }
  void state(Archive& ar);

  // Index of the next event; it never wraps.
  [[nodiscard]] std::uint64_t pi() const { return pi_; }
  // Whether software has consumed event `index`, which is below pi(). Reads ci from the record if
  // necessary.
  [[nodiscard]] bool consumed(Context& lane, std::uint64_t index);
  // Writes an event and raises the vector. Returns false if the queue is full, or if it is
  // unreachable, which is fatal to the device.
  [[nodiscard]] bool post(Context& lane, std::uint16_t type, std::uint32_t id,
                          std::uint32_t generation = 0);
  // The same for an entry of a fault queue, whose phase word it sets.
  [[nodiscard]] bool post(Context& lane, tern_fault& entry);
  // Lanes share EQs.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  void attach_cq() { ++users_; }
  void detach_cq() { --users_; }
  [[nodiscard]] std::uint32_t users() const { return users_; }
  [[nodiscard]] std::uint32_t size() const { return 1U << cmd_.log_size; }
  [[nodiscard]] std::uint8_t kind() const { return cmd_.kind; }
  [[nodiscard]] std::uint64_t page_entries() const { return buffer_.page_entries(); }

 private:
  [[nodiscard]] Status check() const;
  void read_ci(Context& lane);
  [[nodiscard]] bool make_room(Context& lane);
  [[nodiscard]] std::uint32_t phase() const;
  // `type` and `id` are for the event log.
  [[nodiscard]] bool publish(Context& lane, std::span<const std::byte> entry, std::uint16_t type,
                             std::uint32_t id);

  Host& host_;
  const std::uint32_t num_vectors_;
  std::mutex mutex_;
  tern_cmd_create_eq cmd_;
  Record record_;
  QueueBuffer buffer_;
  std::uint64_t pi_ = 0;
  std::uint64_t ci_ = 0;  // last value read
  std::uint32_t users_ = 0;
};

// Completion queue (CREATE_CQ).
class Cq {
 public:
  // `eq` may be null; then the CQ cannot be armed.
  Cq(Context& context, const tern_cmd_create_cq& cmd, Eq* eq);
  ~Cq();
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;
  // Checks the command except for the objects it refers to, and loads the buffer.
  [[nodiscard]] Status init();
  void set_number(std::uint32_t cqn) { cqn_ = cqn; }
  // Saved state, besides the command and the number. Reading replaces init().
  [[nodiscard]] const tern_cmd_create_cq& command() const { return cmd_; }
  void state(Archive& ar);
  [[nodiscard]] Context& context() const { return *context_; }

  // Appends a completion and sets its time stamp and phase word. Fires the event if the CQ is armed
  // for this completion. Returns false on overflow or DMA error: the CQ is then broken, the error
  // event is raised, its users are notified over several runs, and every later push fails. The
  // caller may fail the user whose completion is lost at once.
  [[nodiscard]] bool push(tern_cqe& cqe);
  // Notifies users of the broken CQ, at most `most`, which it decrements. Returns whether some are
  // left.
  bool notify_users(std::uint32_t& most);
  // Reads the arm word: for TERN_DB_CMD_CQ_ARM, and after CQEs were written (Context::written_cqs).
  void arm();
  // RESIZE_CQ: the next completion goes to the new buffer. On failure nothing has changed.
  [[nodiscard]] Status resize(const tern_cmd_resize_cq& cmd, tern_rsp_resize_cq* rsp);
  // MODIFY_CQ: event moderation; 0 and 0 disable it.
  [[nodiscard]] Status modify(const tern_cmd_modify_cq& cmd);
  // QUERY_CQ.
  [[nodiscard]] Status query(tern_rsp_query_cq* rsp) const;

  // The CQ and its users move to this lane.
  void move_to(Context& lane);

  // QPs, SRQs and Ethernet queues that complete into the CQ.
  void attach(CqUser& user) { users_.push_back(user); }
  static void detach(CqUser& user) { user.unlink(); }
  // Saved membership of a user.
  void user_state(Archive& ar, CqUser& user) {
    const bool used = ar.member(user, {&users_, &notified_});
    ar.require(used, "a CQ lacks a user");
  }
  [[nodiscard]] bool used() const { return !users_.empty() || !notified_.empty(); }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] std::uint32_t uar() const { return le(std::uint32_t{cmd_.uar}); }
  [[nodiscard]] std::uint32_t number() const { return cqn_; }
  // Generation of its number; see DeviceState::next_serial().
  [[nodiscard]] std::uint32_t generation() const { return static_cast<std::uint32_t>(serial_); }
  [[nodiscard]] PageQueue& page_queue() { return page_queue_; }
  [[nodiscard]] std::uint64_t page_entries() const { return buffer_.page_entries(); }

 private:
  [[nodiscard]] std::uint32_t size() const { return 1U << log_size_; }
  [[nodiscard]] bool ignores_overrun() const { return cmd_.flags & TERN_CQ_F_IGNORE_OVERRUN; }
  [[nodiscard]] bool moderated() const { return count_ != 0 || period_ != 0; }
  [[nodiscard]] bool make_room();
  void report(std::uint64_t more);
  void fire();
  void store_reported();
  void fail(unsigned counter);
  [[gnu::noinline]] void log(const tern_cqe& cqe) const;

  Context* context_;
  tern_cmd_create_cq cmd_;
  QueueBuffer buffer_;
  Eq* eq_;
  Record record_;
  std::uint64_t serial_;
  std::uint32_t cqn_ = 0;
  List<CqUser, BaseHook<CqUser>> users_;
  List<CqUser, BaseHook<CqUser>> notified_;  // users that know that the CQ is broken
  Hook<Cq> written_{this};                   // in Context::written_cqs
  Hook<Cq> failed_{this};                    // in Context::failed_cqs
  std::uint64_t base_ = 0;                   // index of the CQE that goes to slot 0 first
  std::uint64_t pi_ = 0;                     // index of the next CQE; never wraps
  std::uint64_t solicited_end_ = 0;          // index after the newest solicited or failed CQE
  std::uint64_t reported_ = 0;               // every CQE below this index was reported by an event
  std::uint64_t unreported_solicited_ = 0;   // solicited and failed CQEs from there on
  std::uint64_t eqe_index_ = 0;              // of the last event; valid if eqe_posted_
  std::uint64_t pending_ = 0;                // CQEs that wait for the armed event
  Timer period_end_;                         // of the moderation of these
  std::uint32_t ci_ = 0;          // last value read; reread only when the queue looks full
  std::uint32_t armed_word_ = 0;  // valid if armed_
  std::uint16_t count_ = 0;       // moderation: CQEs; 0 for no limit
  std::uint16_t period_ = 0;      // moderation: microseconds
  std::uint8_t log_size_ = 0;
  std::uint8_t fired_seq_ = 0xff;  // sequence number of the arm that fired last
  std::uint8_t armed_seq_ = 0;
  bool eqe_posted_ = false;
  bool armed_ = false;
  bool armed_solicited_ = false;
  bool broken_ = false;
  PageQueue page_queue_{[](void* self) { static_cast<Cq*>(self)->arm(); }, this};

 public:
  LaneMember lane_member;
};

}  // namespace tern
