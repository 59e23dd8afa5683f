// SPDX-License-Identifier: GPL-2.0-or-later
// Makes a program step by step, and imitates each, so as to know what is good and what is not.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "plan.h"
#include "random.h"

namespace guest::generator {

constexpr unsigned kFull = static_cast<unsigned>(kAllAccess) | IBV_ACCESS_MW_BIND;
constexpr std::int64_t kOtherPd = 2;   // the connection whose end 1 is in the other PD
constexpr std::int64_t kNoRights = 7;  // the connection whose QPs lack rights
constexpr std::int64_t kForeign = 3;   // the region in the other PD

class Planner {
 public:
  Planner(std::uint64_t seed, const Caps& caps, Coverage* coverage)
      : random_(seed),
        coverage_(coverage),
        book_(caps, {{{0x100000, 0x200000, 0x300000}, {0x500000, 0x600000, 0x700000}}}) {}

  Steps run(std::size_t count) {
    prologue();
    while (steps_.size() < count) next();
    if (!steps_.empty()) steps_.back()[Arg::kBurst] = 0;
    return std::move(steps_);
  }

 private:
  void prologue();
  void next();
  void emit(Step step);
  void imitate(const Step& step);
  void imitate_request(const Step& step);
  void restart(std::size_t slot);
  [[nodiscard]] bool good(const Step& step);

  // Make a step.
  Step region_step(std::int64_t end, std::int64_t slot);
  Step connect_step(std::int64_t slot);
  Step data_step(std::int64_t conn, std::int64_t end);
  Step bind_step(std::int64_t conn, std::int64_t end);
  Step invalidate_step(std::int64_t conn, std::int64_t end, bool send);
  Step receive_step(std::int64_t conn, std::int64_t end);
  void spoil_data(Step& step);
  void spoil_key(Step& step, const KnownKey& key);
  void spoil_rights(Step& step);
  void spoil_queue(Step& step);
  void spoil_bind(Step& step);
  void wrap_bind(Step& step);
  void spoil_invalidate(Step& step);
  // Emit steps.
  void data(bool burst);
  void bind(bool burst);
  void invalidate(bool burst);
  void burst();
  void change_region();
  void take_write_right();
  void dereg_busy();
  void event();
  bool choose_bound(std::int64_t end, std::int64_t* slot, int type = 0);
  std::optional<std::int64_t> conn_of(const Window& w);
  void supply(std::int64_t conn, std::int64_t end);

  std::int64_t below(std::size_t n) { return random_.below(n); }
  std::int64_t pick(std::initializer_list<std::int64_t> list) {
    return list.begin()[random_.below(list.size())];
  }
  bool percent(unsigned n) { return random_.below(100) < n; }
  std::int64_t length() {
    return percent(60) ? 1 + below(64) : percent(60) ? 1 + below(600) : 1 + below(3000);
  }
  std::int64_t usual_conn() { return percent(75) ? below(2) : below(kConns); }
  const KnownKey* key_of(const Step& step) {
    const auto end = static_cast<int>(step[Arg::kEnd]);
    const bool own = step.on(Arg::kWhose) != (step.verb == Verb::kInvalidate);
    const auto& keys = book_.keys(step.on(Arg::kOf), own ? end : 1 - end, step.index(Arg::kKey));
    return keys.empty() ? nullptr : &keys.back();
  }

  Random random_;
  Coverage* coverage_;
  Book book_;
  Steps steps_;
  std::uint32_t next_key_ = 0x1000;
};

}  // namespace guest::generator
