// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/reaction_point.h"

#include <algorithm>

namespace tern {

namespace {

constexpr unsigned kAlphaBits = 20;
constexpr std::uint32_t kOne = 1U << kAlphaBits;
constexpr unsigned kParamBits = 10;  // alpha and g of the parameters are in units of 1/1024
// Limit of increases in one call; the next call does the rest.
constexpr unsigned kSteps = 64;

std::uint32_t times(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> kAlphaBits);
}

// Returns base ^ n, both in units of 2^-20.
std::uint32_t power(std::uint32_t base, std::uint64_t n) {
  std::uint32_t result = kOne;
  for (; n != 0 && result != 0; n >>= 1) {
    if (n & 1) result = times(result, base);
    base = times(base, base);
  }
  return result;
}

std::uint64_t ceiling(const CongestionParams& params, std::uint64_t line) {
  const std::uint64_t most = params.bits_per_second(TERN_CC_RP_MAX_RATE);
  return most != 0 ? std::min(most, line) : line;
}

}  // namespace

void ReactionPoint::begin(const CongestionParams& params, std::uint64_t line) {
  active_ = true;
  alpha_ = params.get(TERN_CC_RP_INITIAL_ALPHA_VALUE) << (kAlphaBits - kParamBits);
  rate_ = target_ = ceiling(params, line);
}

void ReactionPoint::cut(const CongestionParams& params) {
  if (params.get(TERN_CC_RP_CLAMP_TGT_RATE) != 0 || increased_) target_ = rate_;
  const std::uint64_t part =
      (rate_ * alpha_) >> (kAlphaBits - kParamBits + params.get(TERN_CC_RP_GD));
  const std::uint64_t least = rate_ / 100 * params.get(TERN_CC_RP_MIN_DEC_FAC);
  rate_ = std::max(rate_ - std::min(part, rate_), least);
}

void ReactionPoint::notified(const CongestionParams& params, std::uint64_t line, Nanos now) {
  if (active_) advance(params, line, now);
  const bool begins = !active_;
  if (!begins && now - last_cut_ < params.nanos(TERN_CC_RP_RATE_REDUCE_MONITOR_PERIOD)) return;
  if (begins) begin(params, line);
  const std::uint64_t first = params.bits_per_second(TERN_CC_RP_RATE_TO_SET_ON_FIRST_CNP);
  if (begins && first != 0) {
    rate_ = target_ = std::min(first, rate_);
  } else {
    cut(params);
  }
  rate_ = std::max(rate_, params.bits_per_second(TERN_CC_RP_MIN_RATE));
  target_ = std::max(target_, rate_);
  alpha_ += static_cast<std::uint32_t>(
      (std::uint64_t{kOne - alpha_} * params.get(TERN_CC_RP_DCE_TCP_G)) >> kParamBits);
  alpha_next_ = now + params.nanos(TERN_CC_RP_DCE_TCP_RTT);
  time_next_ = now + params.nanos(TERN_CC_RP_TIME_RESET);
  last_cut_ = now;
  time_stage_ = byte_stage_ = 0;
  bytes_ = 0;
  increased_ = false;
}

// Fast recovery, then additive increase, then hyper increase once both the timer and the byte
// counter have reached the threshold.
void ReactionPoint::increase(const CongestionParams& params, std::uint64_t line) {
  const std::uint32_t threshold = params.get(TERN_CC_RP_THRESHOLD);
  const std::uint32_t later = std::min(time_stage_, byte_stage_);
  if (later > threshold) {
    target_ += params.bits_per_second(TERN_CC_RP_HAI_RATE) * std::min(later - threshold, kSteps);
  } else if (std::max(time_stage_, byte_stage_) >= threshold) {
    target_ += params.bits_per_second(TERN_CC_RP_AI_RATE);
  }
  const std::uint64_t most = ceiling(params, line);
  target_ = std::min(target_, most);
  rate_ = std::min((rate_ + target_ + 1) / 2, most);
  // The last thousandth would take ten more steps without visible effect.
  if (rate_ >= most - most / 1000) active_ = false;
}

void ReactionPoint::sent(const CongestionParams& params, std::uint64_t line, std::uint32_t bytes) {
  const std::uint64_t reset = params.get(TERN_CC_RP_BYTE_RESET);
  if (!active_ || reset == 0) return;
  bytes_ += bytes;
  if (bytes_ < reset) return;
  bytes_ = bytes_ - reset < reset ? bytes_ - reset : 0;
  ++byte_stage_;
  increased_ = true;
  increase(params, line);
}

void ReactionPoint::advance(const CongestionParams& params, std::uint64_t line, Nanos now) {
  if (now >= alpha_next_) {
    const Nanos period = params.nanos(TERN_CC_RP_DCE_TCP_RTT);
    const std::uint64_t periods = (now - alpha_next_) / period + 1;
    const std::uint32_t kept =
        kOne - (params.get(TERN_CC_RP_DCE_TCP_G) << (kAlphaBits - kParamBits));
    alpha_ = times(alpha_, power(kept, periods));
    alpha_next_ += periods * period;
  }
  for (unsigned step = 0; active_ && time_next_ <= now && step < kSteps; ++step) {
    ++time_stage_;
    increased_ |= params.get(TERN_CC_RP_CLAMP_TGT_RATE_ATI) != 0;
    increase(params, line);
    time_next_ += params.nanos(TERN_CC_RP_TIME_RESET);
  }
}

}  // namespace tern
