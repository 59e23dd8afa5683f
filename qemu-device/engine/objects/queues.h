// SPDX-License-Identifier: GPL-2.0-or-later
// The queues software and device share: buffers with a doorbell record, event queues,
// completion queues.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/counters.h"
#include "core/effects.h"
#include "core/host.h"
#include "memory/memory.h"

namespace tern {

// A queue's buffer in DMA memory, addressed by byte offset. Every access may fail: the
// memory is the user's, and a vIOMMU may have taken it away.
class QueueBuffer {
 public:
  // `bytes`: what the queue needs; the list must cover it.
  [[nodiscard]] Status load(Host& host, const tern_pages& pages, std::uint64_t bytes);

  [[nodiscard]] bool read(Host& host, std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] bool write(Host& host, std::uint64_t offset, std::span<const std::byte> from) const;
  // 32-bit words of a record: acquire load, release store; 4-byte aligned offsets.
  [[nodiscard]] std::optional<std::uint32_t> load32(Host& host, std::uint64_t offset) const;
  [[nodiscard]] bool store32(Host& host, std::uint64_t offset, std::uint32_t value) const;
  // Writes `from` but for its last 4 bytes, then (release) those: CQEs and EQEs.
  [[nodiscard]] bool publish(Host& host, std::uint64_t offset, std::span<const std::byte> from) const;

  [[nodiscard]] std::uint64_t page_entries() const { return pages_.entries_held(); }

 private:
  PageList pages_;
};

class Device;

// Event queue (CREATE_EQ).
class Eq {
 public:
  Eq(Device& device, const tern_cmd_create_eq& cmd);
  [[nodiscard]] Status init();

  // Index the next event gets, and whether software has consumed event `index`.
  [[nodiscard]] std::uint32_t pi() const { return pi_; }
  [[nodiscard]] bool consumed(std::uint32_t index);
  // Writes an event and raises the vector; false when the queue is full.
  [[nodiscard]] bool post(std::uint16_t type, std::uint32_t id);

  void attach_cq() { ++users_; }
  void detach_cq() { --users_; }
  [[nodiscard]] std::uint32_t users() const { return users_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] bool async() const { return kind_ == TERN_EQ_ASYNC; }
  [[nodiscard]] std::uint64_t page_entries() const { return buffer_.page_entries(); }

 private:
  Device& device_;
  tern_cmd_create_eq cmd_;
  QueueBuffer buffer_;
  std::uint32_t size_;
  std::uint32_t record_;
  std::uint32_t pi_ = 0;
  std::uint32_t users_ = 0;
  std::uint16_t vector_;
  std::uint8_t kind_;
};

// Asynchronous events: what the queue has no room for waits here, once per (type, id).
class AsyncEvents {
 public:
  explicit AsyncEvents(Device& device) : device_(device) {}
  void raise(std::uint16_t type, std::uint32_t id);
  void flush();                   // after software consumed, or the queue came to be
  void forget(std::uint32_t id, bool (*of_type)(std::uint16_t));  // an object is gone
  void clear();

 private:
  Device& device_;
  std::deque<std::pair<std::uint16_t, std::uint32_t>> waiting_;
  std::set<std::pair<std::uint16_t, std::uint32_t>> known_;
};

// Completion queue (CREATE_CQ).
class Cq {
 public:
  Cq(Device& device, const tern_cmd_create_cq& cmd, Eq* eq);
  ~Cq();
  [[nodiscard]] Status init();
  void set_number(std::uint32_t cqn) { cqn_ = cqn; }

  // Appends a completion (its phase word is this function's), fires an armed event when it
  // qualifies. False: overflow or DMA error; the queue is then in error, the event raised,
  // and every later push fails too.
  [[nodiscard]] bool push(tern_cqe& cqe);
  // TERN_DB_CMD_CQ_ARM: looks at the arm word.
  void arm();

  // QPs, SRQs and Ethernet queues that complete into it; the QPs learn of its death.
  void attach() { ++users_; }
  void detach() { --users_; }
  [[nodiscard]] std::uint32_t users() const { return users_; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] std::uint32_t uar() const { return uar_; }
  [[nodiscard]] std::uint32_t number() const { return cqn_; }
  [[nodiscard]] std::uint64_t page_entries() const { return buffer_.page_entries(); }

 private:
  void fire();
  void fail(bool overrun);

  Device& device_;
  tern_cmd_create_cq cmd_;
  QueueBuffer buffer_;
  Eq* eq_;
  std::uint32_t cqn_ = 0;
  std::uint32_t uar_;
  std::uint32_t size_;
  std::uint32_t record_;
  std::uint32_t pi_ = 0;
  std::uint32_t ci_seen_ = 0;          // last ci read; reread only when the queue looks full
  std::uint32_t solicited_end_ = 0;    // index after the newest solicited or failed CQE
  std::uint32_t eqe_index_ = 0;        // of the last event, while eqe_posted_
  std::uint32_t users_ = 0;
  std::uint8_t fired_seq_ = 0xff;      // sequence of the arm that fired last
  std::uint8_t armed_seq_ = 0;
  bool eqe_posted_ = false;
  bool armed_ = false;
  bool armed_solicited_ = false;
  bool ignore_overrun_ = false;
  bool broken_ = false;
};

}  // namespace tern
