// SPDX-License-Identifier: GPL-2.0-or-later
// One direction of a connection: who asks, and who is asked. Rounds: prepare, and then, when both
// ends are prepared, post and poll until all is done, and when it is at both ends, verify.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "peer.h"
#include "plan.h"

namespace guest {

// What an end tells the other of its session.
struct Introduction {
  Endpoint endpoint;
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

class Asker {
 public:
  Asker(const Flow& flow, const Session& session, const Introduction& other);

  void prepare(std::uint64_t round);
  void post() const;
  // True when something completed.
  bool poll();
  [[nodiscard]] bool done() const { return completed_ == kRound; }
  void verify() const;
  [[nodiscard]] const Flow& flow() const { return flow_; }

 private:
  [[nodiscard]] std::span<std::byte> slot(const Message& m) const;
  void prepare_one(const Message& m);

  Flow flow_;
  const Session& session_;
  Introduction other_;
  AhPtr ah_;
  std::vector<Message> messages_;
  std::vector<Send> sends_;
  std::uint64_t word_ = 0;  // what the word of the atomics is when all posted is done
  std::vector<std::uint64_t> originals_;
  std::uint64_t completed_ = 0;
};

class Asked {
 public:
  Asked(const Flow& flow, const Session& session) : flow_(flow), session_(session) {}
  virtual ~Asked() = default;
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  virtual void prepare(std::uint64_t round) = 0;
  virtual bool poll() = 0;
  [[nodiscard]] virtual bool done() const = 0;
  virtual void verify(std::uint64_t round) = 0;
  virtual void finish(std::uint64_t rounds) = 0;
  [[nodiscard]] const Flow& flow() const { return flow_; }
  // Messages that this end can tell to have come.
  [[nodiscard]] std::uint64_t arrived() const { return arrived_; }

 protected:
  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t offset, std::uint64_t length) const;
  // The memory of a message with what guards it.
  [[nodiscard]] std::span<std::byte> guarded(const Message& m) const;
  void post(std::uint64_t wr_id, std::uint64_t offset, std::uint32_t length) const;

  const Flow flow_;
  const Session& session_;
  std::uint64_t arrived_ = 0;
};

// RC and XRC: every message, once, in order.
class AskedReliably final : public Asked {
 public:
  using Asked::Asked;

  void prepare(std::uint64_t round) override;
  bool poll() override;
  [[nodiscard]] bool done() const override { return received_ == expected_.size(); }
  void verify(std::uint64_t round) override;
  void finish(std::uint64_t rounds) override;

 private:
  void post_up_to(std::size_t count);
  void check_one(const Message& m, const ibv_wc& wc) const;

  std::vector<Message> expected_;  // those that take a receive, of this round
  std::size_t posted_ = 0;
  std::size_t received_ = 0;
  std::uint64_t word_ = 0;
};

// UC and UD: what completes is whole; unless the wire doubles packets or swaps them it comes at most
// once and in order. What a WRITE that was cut short leaves behind is its beginning.
class AskedUnreliably final : public Asked {
 public:
  AskedUnreliably(const Flow& flow, const Session& session, bool in_order)
      : Asked(flow, session), in_order_(in_order) {}

  void prepare(std::uint64_t round) override;
  bool poll() override;
  [[nodiscard]] bool done() const override { return true; }
  void verify(std::uint64_t round) override;
  void finish(std::uint64_t) override {}

 private:
  void check_one(const ibv_wc& wc);

  bool in_order_;
  std::optional<std::uint64_t> last_;
  std::uint64_t sent_ = 0;  // what may have been sent so far
};

}  // namespace guest
