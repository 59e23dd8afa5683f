// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of shared receive queues, and QPs that share one.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "rule.h"

namespace guest::srq {

// An SRQ of 16 requests of up to 2 SGEs, or more, and connected pairs whose other ends share it.
class Shared {
 public:
  explicit Shared(const Device& dev, std::size_t pairs = 1, ibv_srq_attr attr = {16, 2, 0},
                  ibv_qp_type type = IBV_QPT_RC);

  [[nodiscard]] ibv_srq* srq() const { return srq_.get(); }
  [[nodiscard]] const ibv_srq_attr& attr() const { return attr_; }
  [[nodiscard]] Pair& pair(std::size_t i = 0) const { return *pairs_.at(i); }
  [[nodiscard]] std::size_t pairs() const { return pairs_.size(); }
  [[nodiscard]] ibv_sge sge(std::uint64_t i = 0) const { return memory_.sge(i % 64 * 64, 64); }
  // Posts receives first, first + 1 and so on.
  void post(std::uint64_t first, std::uint64_t count = 1) const;
  // Sends a message of 8 bytes to the SRQ, and expects that it takes this receive.
  void send(std::uint64_t wr_id, std::size_t pair = 0) const;
  // Expects a receive completion of this pair.
  ibv_wc received(std::uint64_t wr_id, std::size_t pair = 0,
                  ibv_wc_status status = IBV_WC_SUCCESS) const;
  [[nodiscard]] ibv_srq_attr query() const;
  [[nodiscard]] int modify(int mask, std::uint32_t max_wr, std::uint32_t limit) const;
  void close_pair(std::size_t i) { pairs_.at(i).reset(); }

 private:
  ibv_srq_attr attr_;
  Memory memory_;
  CqPtr cq_;
  SrqPtr srq_;
  std::vector<std::unique_ptr<Pair>> pairs_;
};

// Creates an SRQ, and updates the attributes. Skips the rule if the device has none; returns an
// empty pointer and sets errno if it refuses.
SrqPtr try_create(const Device& dev, ibv_srq_attr& attr);

// The object of the next event of this type. Empty after timeout_ms.
std::optional<ibv_async_event> next_event(const Device& dev, ibv_event_type type, int timeout_ms);

Rules queue();
Rules events();
Rules all();

}  // namespace guest::srq
