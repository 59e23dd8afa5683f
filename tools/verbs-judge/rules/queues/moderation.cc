// SPDX-License-Identifier: GPL-2.0-or-later
// Moderated events.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "queues.h"

namespace guest::queues {
namespace {

struct Limits {
  std::uint16_t count;
  std::uint16_t period;
};

Limits need_moderation(const Env& env) {
  const ibv_cq_moderation_caps& caps = env.dev.attr_ex().cq_mod_caps;
  if (caps.max_cq_count == 0 && caps.max_cq_period == 0) skip("cq_mod_caps are 0");
  return {.count = caps.max_cq_count, .period = caps.max_cq_period};
}

void limits(const Env& env) {
  const Limits most = need_moderation(env);
  const Rig rig(env.dev);
  require_err(rig.moderate(most.count, most.period), 0, "the largest values");
  require_err(rig.moderate(0, 0), 0, "none");
  usually_refused(rig.moderate(2, 0), EINVAL, "a count without a period");
  require_err(rig.moderate(0, 0), 0, "none");
  if (most.count < UINT16_MAX) {
    require_refused(rig.moderate(static_cast<std::uint16_t>(most.count + 1), most.period), EINVAL,
                    "a count above max_cq_count");
  }
  ibv_modify_cq_attr none{};
  usually_refused(ibv_modify_cq(rig.cq(), &none), EINVAL, "no attribute");
  none.attr_mask = 1U << 1;
  require_refused(ibv_modify_cq(rig.cq(), &none), EINVAL, "an unknown attribute");
}

// Unmoderated, each arm gives one event. Moderated, an event comes after `count` completions or
// after the period.
void counts(const Env& env) {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint16_t kCount = 16;
  constexpr unsigned kRounds = 40;
  const Limits most = need_moderation(env);
  if (most.count < kCount) skip("max_cq_count is {}", most.count);
  Rig rig(env.dev);
  for (const bool moderated : {false, true}) {
    require_err(moderated ? rig.moderate(kCount, most.period) : rig.moderate(0, 0), 0,
                "ibv_modify_cq");
    const auto start = Clock::now();
    const std::uint64_t first = rig.taken();
    unsigned events = 0;
    while (rig.taken() < first + std::uint64_t{kRounds} * kCount) {
      rig.arm();
      rig.write();
      if (!moderated || rig.posted() - rig.taken() == kCount) {
        require(rig.event(kSoon), "no event");
      } else if (!rig.event(0)) {
        continue;
      }
      events++;
      rig.poll_all(static_cast<unsigned>(rig.posted() - rig.taken()));
    }
    const auto took =
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
    const auto periods = static_cast<std::uint64_t>(took) / std::max<std::uint16_t>(most.period, 1);
    if (moderated) {
      require_usual(events <= kRounds + periods + 1, "{} events for {} times {} completions",
                    events, kRounds, kCount);
    } else {
      require(events == kRounds * kCount, "{} events", events);
    }
  }
}

// Fewer completions than the count raise an event when the period is over.
void period(const Env& env) {
  const Limits most = need_moderation(env);
  Rig rig(env.dev);
  for (const std::uint16_t count : {std::uint16_t{0}, most.count}) {
    require_err(rig.moderate(count, std::min<std::uint16_t>(most.period, 30000)), 0,
                "ibv_modify_cq");
    for (int round = 0; round < 5; round++) {
      rig.arm();
      rig.write(3);
      require(rig.event(kSoon), "no event after the period");
      rig.poll_all(3);
    }
  }
}

// The period starts with the first completion: no event comes before it ends.
void not_before_period(const Env& env) {
  const Limits most = need_moderation(env);
  const std::uint64_t khz = env.dev.attr_ex().hca_core_clock;
  if (khz == 0) skip("hca_core_clock is 0");
  const std::uint16_t wait = std::min<std::uint16_t>(most.period, 30000);
  Rig rig(env.dev, {.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP});
  require_err(rig.moderate(most.count, wait), 0, "ibv_modify_cq");
  for (int round = 0; round < 5; round++) {
    rig.arm();
    rig.write(3);
    require(rig.event(kSoon), "no event after the period");
    const std::uint64_t at = raw_clock(env.dev.context());
    ibv_poll_cq_attr attr{};
    require_err(ibv_start_poll(rig.cq_ex(), &attr), 0, "ibv_start_poll");
    const std::uint64_t first = ibv_wc_read_completion_ts(rig.cq_ex());
    ibv_end_poll(rig.cq_ex());
    require_usual((at - first) * 1000 / khz >= wait, "an event {} us after the first completion",
                  (at - first) * 1000 / khz);
    for (int more = 0; more < 2; more++) {
      while (ibv_start_poll(rig.cq_ex(), &attr) != 0) std::this_thread::yield();
      ibv_end_poll(rig.cq_ex());
    }
  }
}

// The event that moderation holds back is not lost.
void off(const Env& env) {
  const Limits most = need_moderation(env);
  Rig rig(env.dev);
  for (int round = 0; round < 10; round++) {
    require_err(rig.moderate(most.count, most.period), 0, "ibv_modify_cq");
    rig.arm();
    rig.write();
    require_err(rig.moderate(0, 0), 0, "ibv_modify_cq");
    require(rig.event(kSoon), "no event");
    rig.poll_all(1);
  }
}

}  // namespace

Rules moderation() {
  return {
      {"moderation_limits", "moderation takes values up to cq_mod_caps, and no others", limits},
      {"moderation_counts", "one event an arm, or one for so many completions", counts},
      {"moderation_period", "an event comes at the latest when the period is over", period},
      {"moderation_waits", "no event comes before the period is over", not_before_period},
      {"moderation_off", "the event that moderation holds back comes when it is switched off", off},
  };
}

}  // namespace guest::queues
