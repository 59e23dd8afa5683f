// SPDX-License-Identifier: GPL-2.0-or-later
// One direction of a connection: requester (Asker) and responder (Asked). A round has three steps:
// prepare; once both ends have prepared, post and poll until everything is done; once both ends are
// done, verify.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "end.h"
#include "plan.h"

namespace guest {

// What an end must know about the other's session.
struct Introduction {
  Endpoint endpoint;
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

class Asker {
 public:
  Asker(const Flow& flow, const End& session, const Introduction& other);

  void prepare(std::uint64_t round);
  void post() const;
  // Returns true if something has completed.
  bool poll();
  [[nodiscard]] bool done() const { return completed_ == kRound; }
  void verify() const;
  [[nodiscard]] const Flow& flow() const { return flow_; }

 private:
  [[nodiscard]] std::span<std::byte> slot(const Message& m) const;
  void prepare_one(const Message& m);

  Flow flow_;
  const End& session_;
  Introduction other_;
  AhPtr ah_;
  std::vector<Message> messages_;
  std::vector<Send> sends_;
  std::uint64_t word_ = 0;  // the value of the atomics' target after all posted requests
  std::vector<std::uint64_t> originals_;
  std::uint64_t completed_ = 0;
};

class Asked {
 public:
  Asked(const Flow& flow, const End& session) : flow_(flow), session_(session) {}
  virtual ~Asked() = default;
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  virtual void prepare(std::uint64_t round) = 0;
  virtual bool poll() = 0;
  [[nodiscard]] virtual bool done() const = 0;
  virtual void verify(std::uint64_t round) = 0;
  virtual void finish(std::uint64_t rounds) = 0;
  [[nodiscard]] const Flow& flow() const { return flow_; }
  // Returns the number of messages known to have arrived.
  [[nodiscard]] std::uint64_t arrived() const { return arrived_; }

 protected:
  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t offset, std::uint64_t length) const;
  // The memory of a message with the guard bytes after it.
  [[nodiscard]] std::span<std::byte> guarded(const Message& m) const;
  void post(std::uint64_t wr_id, std::uint64_t offset, std::uint32_t length) const;

  const Flow flow_;
  const End& session_;
  std::uint64_t arrived_ = 0;
};

// RC and XRC: every message arrives once and in order.
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

  std::vector<Message> expected_;  // the messages of this round that consume a receive
  std::size_t posted_ = 0;
  std::size_t received_ = 0;
  std::uint64_t word_ = 0;
};

// UC and UD: completed messages are whole. Unless the wire duplicates or reorders packets, they
// arrive at most once and in order. A WRITE that was cut short leaves a prefix of whole packets.
class AskedUnreliably final : public Asked {
 public:
  AskedUnreliably(const Flow& flow, const End& session, bool in_order)
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
  std::uint64_t sent_ = 0;  // number of messages that may have been sent so far
};

}  // namespace guest
