// SPDX-License-Identifier: GPL-2.0-or-later
// Two QPs for one offence: x commits it, or forged frames carry its name, and y is the target.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/storm/flow.h"

namespace tern::storm {

struct SceneOptions {
  std::uint32_t access = kAllAccess;
  std::uint8_t max_dest_rd_atomic = 4;
  bool shared = false;    // y receives from an SRQ
  bool small_cq = false;  // the requester's CQ has only two entries
};

struct Scene {
  using Change = std::function<void(std::vector<std::byte>& bth_on)>;

  Scene(Context& context, WireWatch& watch, TestNode& a, TestNode& b, std::uint8_t type,
        const SceneOptions& options, const char* name);
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  [[nodiscard]] Random& random() { return c_.random; }
  [[nodiscard]] Sim& sim() { return c_.sim; }
  [[nodiscard]] TestNode& b() { return b_; }
  [[nodiscard]] TestQp& x() { return *x_; }
  [[nodiscard]] TestQp& y() { return *y_; }
  [[nodiscard]] TestMr& near() { return *near_; }
  [[nodiscard]] TestMr& target() { return *target_; }
  [[nodiscard]] std::uint32_t mtu() const { return mtu_; }
  [[nodiscard]] bool good() const { return good_; }

  // ---- frames ----
  // begin() starts a request with the next PSN; end() adds payload and puts it on the wire.
  Packet& begin(Op op);
  void end(std::uint32_t payload, const Change& change = {});
  void put(Op op, std::uint32_t payload, const Change& change = {}) {
    (void)begin(op);
    end(payload, change);
  }
  void put_write(Op op, const TestMr& to, std::uint32_t dma_len, std::uint32_t payload);
  void put_read(const TestMr& from, std::uint32_t len, std::uint64_t at = 0);
  void put_atomic(const TestMr& at, std::uint64_t offset);
  void put_flush(const TestMr& of, std::uint32_t len, std::uint64_t at = 0);
  void put_atomic_write(const TestMr& to, std::uint64_t at = 0, std::uint32_t dma_len = 8);
  // Puts a random request that is answered by a READ response.
  void put_answered();
  // The next request has a PSN `n` lower.
  void back(std::uint32_t n) { psn_ = Psn(psn_.value() - n); }
  // Runs until the frames on the wire have arrived and been answered.
  void settle();

  // ---- expected results ----
  // Expects one NAK, of request `request` (counted from the first PSN), the QP in error, and
  // `event` at its end (negative: no event). The target must be untouched unless `written` is not
  // 0.
  void expect_nak(std::uint8_t syndrome, std::uint32_t request, int event,
                  std::uint32_t written = 0);
  void expect_late_nak(std::uint8_t syndrome, int event);
  void expect_answer(Op op, std::uint32_t request);
  void expect_silence();
  void expect_dropped(unsigned counter);
  void expect_untouched(std::uint32_t written = 0);
  void expect_event(int event);
  void expect_receive(std::uint8_t status);
  void expect_received(std::uint32_t len);
  // Expects that a valid message is still received.
  void expect_still_receiving();
  [[nodiscard]] const std::vector<Answer>& answers() const { return view_y_->answers; }
  void forget_answers() { view_y_->answers.clear(); }

  // ---- posted requests ----
  // Posts a receive of at most `len` bytes.
  void receive(std::uint32_t len = 65536);
  // Posts `wr`, which must fail as the received NAK says; the requests behind it and the receives
  // must be flushed.
  void fails(const SendWr& wr, int event);
  void overflows();

 private:
  void wrong(const std::string& text);
  void flushed(std::uint8_t first_status);
  [[nodiscard]] bool has_event(int event);
  [[nodiscard]] std::uint8_t state() const;
  [[nodiscard]] TestCq& receive_cq() const { return srq_cq_ ? *srq_cq_ : y_->recv_cq(); }

  Context& c_;
  TestNode& a_;
  TestNode& b_;
  const char* name_;
  bool good_ = true;
  std::uint32_t mtu_;
  TestQp* x_;
  TestQp* y_;
  QpView* view_x_;
  QpView* view_y_;
  TestMr* near_;
  TestMr* target_;
  TestMr* sink_;
  TestSrq* srq_ = nullptr;
  TestCq* srq_cq_ = nullptr;
  Psn first_;
  Psn psn_;
  Packet packet_;
  std::uint64_t malformed_;
  std::uint64_t too_long_;
  std::vector<tern_eqe> events_;
};

}  // namespace tern::storm
