// SPDX-License-Identifier: GPL-2.0-or-later
#include "shrink.h"

#include <algorithm>
#include <chrono>

namespace guest::generator {
namespace {

using Clock = std::chrono::steady_clock;

class Shrinker {
 public:
  Shrinker(Steps steps, const std::function<bool(const Steps&)>& fails)
      : steps_(std::move(steps)), fails_(fails) {}

  Steps run() {
    for (bool progress = true; progress && runs_ != 0;) {
      progress = remove_steps();
      progress = simplify() || progress;
    }
    return std::move(steps_);
  }

 private:
  bool attempt(const Steps& some) {
    if (runs_ == 0 || Clock::now() > end_) runs_ = 0;
    if (runs_ == 0) return false;
    runs_--;
    if (!fails_(some)) return false;
    steps_ = some;
    return true;
  }
  // Removes pieces, first large ones.
  bool remove_steps() {
    bool progress = false;
    for (std::size_t piece = std::max<std::size_t>(steps_.size() / 2, 1); piece != 0; piece /= 2) {
      for (std::size_t at = 0; at < steps_.size();) {
        Steps some = steps_;
        const auto first = some.begin() + static_cast<std::ptrdiff_t>(at);
        some.erase(first, first + static_cast<std::ptrdiff_t>(std::min(piece, some.size() - at)));
        if (!some.empty() && attempt(some)) {
          progress = true;
        } else {
          at += piece;
        }
      }
    }
    return progress;
  }
  // Brings arguments nearer to 0.
  bool simplify() {
    bool progress = false;
    for (std::size_t i = 0; i < steps_.size(); i++) {
      for (std::size_t a = 0; a < steps_[i].args.size(); a++) {
        for (bool again = true; again;) {
          again = false;
          const std::int64_t value = steps_[i].args[a];
          for (const std::int64_t simpler :
               {std::int64_t{0}, std::int64_t{8}, value / 2, value - 1}) {
            if (value <= simpler || simpler < 0) continue;
            Steps some = steps_;
            some[i].args[a] = simpler;
            if (!attempt(some)) continue;
            again = progress = true;
            break;
          }
          if (value - steps_[i].args[a] == 1) again = false;  // not step by step
        }
      }
    }
    return progress;
  }

  Steps steps_;
  const std::function<bool(const Steps&)>& fails_;
  unsigned runs_ = 1500;
  Clock::time_point end_ = Clock::now() + std::chrono::seconds(60);
};

}  // namespace

Steps shrink(Steps steps, const std::function<bool(const Steps&)>& fails) {
  return Shrinker(std::move(steps), fails).run();
}

}  // namespace guest::generator
