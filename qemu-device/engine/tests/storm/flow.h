// SPDX-License-Identifier: GPL-2.0-or-later
// Flows of messages from one QP to another, and the results they must have.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/storm/base.h"
#include "tests/storm/watch.h"

namespace tern::storm {

inline constexpr std::uint64_t kRegTag = std::uint64_t{1} << 63;  // wr_id of a REG_MR

// Shared by all flows.
struct Context {
  std::uint64_t seed;
  Sim& sim;
  Random& random;
  Findings& findings;
  RuleCounts& counts;
};

class Flow {
 public:
  Flow(Context& context, unsigned id) : c_(context), id_(id) {}
  virtual ~Flow() = default;
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // May post some messages, but none after wind_up().
  virtual void post() = 0;
  virtual void wind_up() { winding_up_ = true; }
  // Handles a completion of the requester, or of the responder.
  virtual void sent(const Wc& wc) = 0;
  virtual void received(const Wc& wc) = 0;
  // Whether everything posted is complete and everything expected has arrived.
  [[nodiscard]] virtual bool done() const = 0;
  // Compares the rest once the simulation is idle.
  virtual void finish() = 0;
  [[nodiscard]] virtual std::string describe() const = 0;

  [[nodiscard]] std::uint64_t messages() const { return completed_; }
  // Time of the last progress.
  [[nodiscard]] Nanos quiet_since() const { return progress_; }

 protected:
  void find(Claim claim, const std::string& text) {
    c_.findings.add(claim, describe() + ": " + text);
  }
  void progressed() { progress_ = c_.sim.now(); }

  Context& c_;
  unsigned id_;
  bool winding_up_ = false;
  std::uint64_t completed_ = 0;
  Nanos progress_ = 0;
};

struct Message {
  std::uint64_t number = 0;
  std::uint8_t opcode = 0;
  std::uint32_t len = 0;
  std::uint32_t imm = 0;
  std::uint32_t key = 0;     // SEND_WITH_INV
  std::uint64_t before = 0;  // atomic, ATOMIC WRITE: old and new value of the word
  std::uint64_t after = 0;
  std::uint64_t from = 0;  // FLUSH: offset of its len bytes in the far region
  bool all = false;        // FLUSH of the whole far region; ignores from and len
  Psn psn;
  std::uint32_t psns = 1;
  bool signaled = true;
  bool received = false;  // its receive has completed
  bool compared = false;  // WRITE: its bytes have been seen in the target
  bool flushed = false;   // WRITE: a FLUSH of its bytes was answered
  Nanos done_at = 0;

  [[nodiscard]] bool write() const {
    return opcode == TERN_WR_RDMA_WRITE || opcode == TERN_WR_RDMA_WRITE_WITH_IMM;
  }
  [[nodiscard]] bool read() const { return opcode == TERN_WR_RDMA_READ; }
  [[nodiscard]] bool atomic() const {
    return opcode == TERN_WR_ATOMIC_CMP_AND_SWP || opcode == TERN_WR_ATOMIC_FETCH_AND_ADD;
  }
  [[nodiscard]] bool atomic_write() const { return opcode == TERN_WR_ATOMIC_WRITE; }
  // Whether it accesses the flow's word.
  [[nodiscard]] bool on_word() const { return atomic() || atomic_write(); }
  [[nodiscard]] bool flush() const { return opcode == TERN_WR_FLUSH; }
  [[nodiscard]] bool with_imm() const {
    return opcode == TERN_WR_SEND_WITH_IMM || opcode == TERN_WR_RDMA_WRITE_WITH_IMM;
  }
  [[nodiscard]] bool needs_receive() const {
    return opcode == TERN_WR_SEND || opcode == TERN_WR_SEND_WITH_IMM ||
           opcode == TERN_WR_SEND_WITH_INV || opcode == TERN_WR_RDMA_WRITE_WITH_IMM;
  }
};

// How a flow is meant to end.
enum class Fate : std::uint8_t {
  kLive,
  kBlackHole,  // the wire loses everything from some message on
  kStarve,     // no receives are posted from some message on
  kImpatient,  // few retries: it may fail or not
};

struct FlowOptions {
  TestQp* from;
  TestQp* to;
  QpView* from_view;  // null: both QPs are in one device
  QpView* to_view;
  ReceivePool* pool;
  std::uint32_t pd_from;
  std::uint32_t pd_to;
  std::uint32_t max_len;
  unsigned depth;  // maximum number of open messages
  Fate fate = Fate::kLive;
  unsigned quota = 0;        // kBlackHole and kStarve: number of messages that succeed
  bool invalidates = false;  // uses SEND_WITH_INV, too; both ends have an SQ and privileged PDs
};

// A flow with near and far memory, which has a slot for every open message.
class ConnectedFlow : public Flow {
 public:
  ConnectedFlow(Context& context, unsigned id, const FlowOptions& options);
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] const FlowOptions& options() const { return o_; }
  // For plants: local and remote memory of a message.
  [[nodiscard]] std::span<std::byte> near_bytes(std::uint64_t number) const {
    return near_.whole(static_cast<unsigned>(number % o_.depth)).subspan(Slots::kMargin);
  }
  [[nodiscard]] std::span<std::byte> far_bytes(std::uint64_t number) const {
    return far_.whole(static_cast<unsigned>(number % o_.depth)).subspan(Slots::kMargin);
  }
  [[nodiscard]] std::span<std::byte> word_bytes() const { return word_.data(0, 8); }

 protected:
  [[nodiscard]] std::uint32_t length();
  [[nodiscard]] unsigned slot_of(const Message& m) const {
    return static_cast<unsigned>(m.number % o_.depth);
  }
  [[nodiscard]] std::uint64_t key_of(const Message& m) const {
    return content_key(c_.seed, id_, m.number);
  }
  [[nodiscard]] std::string name_of(const Message& m) const;
  [[nodiscard]] SendWr request(const Message& m);
  // Set the part of a request that determines what it does at the far end.
  void aim_at_word(SendWr& wr, const Message& m);
  void aim_at_slot(SendWr& wr, const Message& m);
  void aim_flush(SendWr& wr, const Message& m) const;
  // Checks the target of a WRITE: all of it if `whole`, else a prefix of whole packets.
  void compare_write(const Message& m, bool whole);
  void compare_read(const Message& m, bool whole);

  FlowOptions o_;
  std::uint32_t mtu_;
  Slots near_;
  Slots far_;
  Slots word_;  // target of atomics and ATOMIC WRITEs, at the far end
  std::uint64_t next_ = 0;
  Psn next_psn_;
};

// RC and XRC: every message once and in order, or an error with a reason.
class ReliableFlow final : public ConnectedFlow, public Flushes {
 public:
  ReliableFlow(Context& context, unsigned id, const FlowOptions& options);

  void post() override;
  void wind_up() override;
  void sent(const Wc& wc) override;
  void received(const Wc& wc) override;
  [[nodiscard]] bool done() const override;
  void finish() override;
  // Handles the completion of a REG_MR that the far end has posted for this flow.
  void registered(const Wc& wc);
  // Compares the targets that the FLUSH at `psn` covers, when its response is sent.
  void flush_answered(Psn psn) override;
  // For plants: the target of an open WRITE that is covered by the FLUSH with this PSN or number.
  // Empty if there is none.
  [[nodiscard]] std::span<std::byte> flushed_bytes(Psn psn) const;
  [[nodiscard]] std::span<std::byte> flushed_bytes(std::uint64_t number) const {
    return flushed_bytes(open_[number - base_].psn);
  }
  [[nodiscard]] const Message& message(std::uint64_t number) const { return open_[number - base_]; }
  [[nodiscard]] bool is_open(std::uint64_t number) const {
    return number >= base_ && number < next_;
  }
  [[nodiscard]] bool dead() const { return dead_; }
  // Whether the flow is meant to fail.
  [[nodiscard]] bool doomed() const {
    return o_.fate == Fate::kBlackHole || o_.fate == Fate::kStarve;
  }

 private:
  enum class Key : std::uint8_t { kClosed, kOpening, kOpen, kLent };

  void post_one(bool last);
  void choose(Message& m);
  void chain(Message& m);
  void choose_flush(Message& m);
  void doom();
  void succeed(Message& m);
  void fail(Message& m, std::uint8_t status);
  void compare_receive(const Message& m, const Wc& wc, unsigned slot);
  void compare_atomic(const Message& m);
  void compare_word(const Message& m);
  void compare_flushed(const Message& flush);
  [[nodiscard]] bool covers(const Message& flush, const Message& m) const;
  [[nodiscard]] const Message* open_at(Psn psn) const;
  void misplaced(const Message& m, const Wc& wc, unsigned slot);
  [[nodiscard]] bool same(const Message& m, const Wc& wc, unsigned slot) const;
  Message& at(std::uint64_t number) { return open_[number - base_]; }

  std::deque<Message> open_;  // from base_ on; in a dead flow, all that were open when it died
  std::deque<Message> history_;
  std::uint64_t base_ = 0;
  std::uint64_t flushed_ = 0;  // in a dead flow: the next message to be flushed
  std::uint64_t value_ = 0;    // of the word when everything posted is done
  std::uint64_t reached_ = 0;  // of the word after the requests that have succeeded
  bool dead_ = false;
  bool hole_ = false;
  std::uint64_t hole_from_ = 0;  // first message that falls into the hole, and one past the last
  std::uint64_t hole_end_ = 0;
  FastMr fast_;
  Key key_ = Key::kClosed;
};

// UC: a message arrives complete, with its last packet, or not at all.
class UcFlow final : public ConnectedFlow, public Arrivals {
 public:
  UcFlow(Context& context, unsigned id, const FlowOptions& options);

  void post() override;
  void sent(const Wc& wc) override;
  void received(const Wc& wc) override;
  [[nodiscard]] bool done() const override { return unsent_ == 0; }
  void finish() override;
  void arrived(const QpView& at, unsigned from_node, std::uint32_t src_qp, Psn last,
               bool whole) override;

 private:
  // After this time no packet of a message is on the wire.
  static constexpr Nanos kRest = 3'000'000;

  void close_oldest();
  [[nodiscard]] bool same(const Message& m, const Wc& wc, unsigned slot) const;
  [[nodiscard]] Message* find_psn(Psn last);

  std::deque<Message> open_;  // posted, and the slots not reused yet
  std::uint64_t base_ = 0;
  unsigned unsent_ = 0;
  std::deque<std::uint64_t> arrivals_;  // must complete a receive, in this order
};

}  // namespace tern::storm
