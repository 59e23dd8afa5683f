// SPDX-License-Identifier: GPL-2.0-or-later
// A QP that writes to its twin, with a channel and a CQ of its own for its send completions.
#pragma once

#include <optional>

#include "pair.h"

namespace guest {

struct CqSpec {
  std::uint32_t entries = EndSpec{}.send_wr;
  // Either makes an extended CQ; the test is skipped if the device refuses it.
  std::uint64_t wc_flags = 0;
  std::uint32_t flags = 0;
};

class Rig {
 public:
  explicit Rig(const Device& dev, const CqSpec& spec = {});

  [[nodiscard]] const Device& dev() const { return dev_; }
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
  // Null unless the CQ is an extended one.
  [[nodiscard]] ibv_cq_ex* cq_ex() const { return cq_ex_; }
  [[nodiscard]] ibv_comp_channel* channel() const { return channel_.get(); }
  [[nodiscard]] ibv_qp* qp() const { return pair_->local.qp(); }
  [[nodiscard]] const Memory& memory() const { return pair_->local.memory(); }
  [[nodiscard]] const Memory& there() const { return pair_->remote.end().memory(); }

  // Writes the first 8 bytes of the memory. wr_id counts up from 0.
  void write(unsigned count = 1);
  // Writes once more and waits until all completions are in the CQ.
  void settle();
  // Checks that the completions are the next ones in order.
  void take(std::span<const ibv_wc> wcs);
  void poll_all(unsigned count);
  void arm(bool solicited = false) const;
  [[nodiscard]] bool event(int ms) const { return wait_event(channel_.get(), ms); }
  // Returns an errno.
  [[nodiscard]] int moderate(std::uint16_t count, std::uint16_t period) const;
  [[nodiscard]] std::uint64_t posted() const { return posted_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

 private:
  const Device& dev_;
  ChannelPtr channel_;
  ibv_cq_ex* cq_ex_ = nullptr;
  CqPtr cq_;
  std::optional<Pair> pair_;
  std::uint64_t posted_ = 0;
  std::uint64_t taken_ = 0;
};

// The device's clock, in its own unit.
std::uint64_t raw_clock(ibv_context* context);

}  // namespace guest
