// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/send_rate.h"

#include <algorithm>
#include <array>

#include "objects/context.h"
#include "transport/connection.h"

namespace tern {

namespace {

constexpr std::int64_t kByte = 8'000'000'000;  // units of debt
// Limits, in time and bytes, of what a QP may catch up on when the host serves it late.
constexpr Nanos kLate = 2'000'000;
constexpr std::uint64_t kMostLate = std::uint64_t{256 << 10} * kByte;
static_assert(kMaxRate <= UINT64_MAX / kLate);

constexpr std::uint64_t kMega = 1'000'000;
// enum ib_rate, in Mbit/s. 0: the port's rate; kNone: no such code.
constexpr std::uint32_t kNone = UINT32_MAX;
constexpr std::array<std::uint32_t, 26> kStaticRates = {
    0,       kNone,   2'500,  10'000,  30'000,  5'000,   20'000,    40'000,   60'000,
    80'000,  120'000, 14'000, 56'000,  112'000, 168'000, 25'000,    100'000,  200'000,
    300'000, 28'000,  50'000, 400'000, 600'000, 800'000, 1'200'000, 1'600'000};

}  // namespace

std::optional<std::uint64_t> static_rate(std::uint8_t code, std::uint32_t link_speed) {
  // Before Linux 7 the connection manager reports every faster port as 40 Gbit/s.
  constexpr std::uint32_t kFastest = 40'000;
  if (code >= kStaticRates.size() || kStaticRates[code] == kNone) return std::nullopt;
  const std::uint32_t rate = kStaticRates[code];
  return rate < std::min(link_speed, kFastest) ? rate * kMega : 0;
}

SendRate::SendRate(Connection& qp)
    : qp_(qp),
      timer_(
          qp.context().timers, [](void* self) { static_cast<SendRate*>(self)->expired(); }, this),
      last_(qp.context().host.now()) {}

void SendRate::move_to(Context& context) { timer_.move_to(context.timers); }

std::uint64_t SendRate::line() const {
  return std::min(qp_.context().device.config.link_speed * kMega, kMaxRate);
}

std::uint64_t SendRate::in_force() const {
  std::uint64_t rate = UINT64_MAX;
  for (const std::uint64_t one :
       {limit_, static_, packet_rate_, congestion_.active() ? congestion_.rate() : 0}) {
    if (one != 0) rate = std::min(rate, one);
  }
  return rate == UINT64_MAX ? 0 : rate;
}

void SendRate::enforce() {
  const std::uint64_t before = rate_;
  rate_ = in_force();
  if (rate_ != before && qp_.context().log != nullptr) [[unlikely]]
    log_rate();
}

// Reduces the debt by the bytes that the rate has allowed since the last call.
void SendRate::drain(Nanos now) {
  const Nanos elapsed = now - last_;
  last_ = now;
  if (rate_ == 0) {
    debt_ = 0;
    return;
  }
  std::int64_t floor = std::min<std::int64_t>(debt_, 0);
  if (waiting_ && !burst_set_)
    floor = -static_cast<std::int64_t>(std::min(kMostLate, rate_ * kLate));
  const auto span = static_cast<std::uint64_t>(std::max<std::int64_t>(debt_ - floor, 0));
  if (elapsed > span / rate_) {
    debt_ = std::min(debt_, floor);
  } else {
    debt_ -= static_cast<std::int64_t>(elapsed * rate_);
  }
}

void SendRate::update(Nanos now) {
  drain(now);
  if (congestion_.active()) congestion_.advance(qp_.context().device.congestion, line(), now);
  enforce();
}

void SendRate::set_limit(std::uint32_t kbit, std::uint32_t max_burst,
                         std::uint32_t typical_packet) {
  update(qp_.context().host.now());
  const std::uint32_t packet = typical_packet != 0 ? typical_packet : qp_.packet_bytes();
  limit_ = std::uint64_t{kbit} * 1'000;
  burst_set_ = max_burst != 0;
  burst_ = (max_burst - std::min(max_burst, packet)) * kByte;
  enforce();
  if (timer_.armed()) qp_.wake();
}

void SendRate::notified() {
  Context& context = qp_.context();
  const Nanos now = context.host.now();
  update(now);
  congestion_.notified(context.device.congestion, line(), now);
  enforce();
}

bool SendRate::may_send() {
  const Nanos now = qp_.context().host.now();
  update(now);
  if (rate_ == 0 || debt_ <= burst_) {
    timer_.cancel();  // a higher rate may have ended the wait early
    waiting_ = false;
    return true;
  }
  waiting_ = true;
  const auto excess = static_cast<std::uint64_t>(debt_ - burst_);
  Nanos due = now + (excess - 1) / rate_ + 1;
  // The rate may have increased by then.
  if (congestion_.active()) due = std::min(due, std::max(congestion_.next(), now + 1));
  timer_.arm(due);
  return false;
}

void SendRate::expired() {
  if (!may_send()) return;
  waiting_ = true;  // until it sends
  qp_.wake();
}

void SendRate::sent(std::uint32_t bytes, std::uint64_t packet_rate) {
  packet_rate_ = packet_rate;
  congestion_.sent(qp_.context().device.congestion, line(), bytes);
  enforce();
  debt_ = rate_ == 0 ? 0 : debt_ + std::int64_t{bytes} * kByte;
}

bool SendRate::slow(std::uint32_t packet) const {
  // Slow if 32 packets, after which a requester requests an acknowledgement anyway, take over 20
  // ms.
  return rate_ != 0 && rate_ < std::uint64_t{packet} * 8 * 32 * 50;
}

std::uint64_t SendRate::current() {
  update(qp_.context().host.now());
  return rate_;
}

}  // namespace tern
