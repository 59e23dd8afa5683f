// SPDX-License-Identifier: GPL-2.0-or-later
#include "contention.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace tern::runner {

namespace {

class SchedStat final : public CpuClock {
 public:
  explicit SchedStat(int fd) : fd_(fd) {}
  ~SchedStat() override { close(fd_); }
  SchedStat(const SchedStat&) = delete;
  SchedStat& operator=(const SchedStat&) = delete;

  bool read(CpuTimes& times) override {
    std::array<char, 96> text;
    const ssize_t n = pread(fd_, text.data(), text.size(), 0);
    if (n <= 0) return false;
    CpuTimes now;
    const char* const end = text.data() + n;
    const auto ran = std::from_chars(text.data(), end, now.ran);
    if (ran.ec != std::errc() || ran.ptr == end) return false;
    const auto waited = std::from_chars(ran.ptr + 1, end, now.waited);
    if (waited.ec != std::errc() || waited.ptr == end) return false;
    if (std::from_chars(waited.ptr + 1, end, now.waits).ec != std::errc()) return false;
    times = now;
    return true;
  }

 private:
  int fd_;
};

}  // namespace

std::unique_ptr<CpuClock> open_schedstat() {
  const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  return std::make_unique<SchedStat>(fd);
}

void Contention::start(std::unique_ptr<CpuClock> clock, std::uint64_t brief,
                       std::uint64_t max_pause) {
  clock_ = std::move(clock);
  brief_ = brief;
  max_pause_ = max_pause;
  skip();
}

void Contention::skip() {
  if (clock_) clock_->read(last_);
}

std::optional<Contention::Verdict> Contention::judge() {
  const CpuTimes before = last_;
  skip();
  ran_ += last_.ran - before.ran;
  waited_ += last_.waited - before.waited;
  waits_ += last_.waits - before.waits;
  if (ran_ + waited_ < kWindow) return std::nullopt;
  Verdict verdict{ran_, waited_, Level::kNone, 0};
  if (waited_ > kWindow / kPart) {
    verdict.level = waited_ < brief_ * waits_ ? Level::kBrief : Level::kLong;
    verdict.pause = pause_;
    pause_ = std::min(2 * pause_, max_pause_);
  } else {
    pause_ = kMinPause;
  }
  ran_ = waited_ = waits_ = 0;
  return verdict;
}

}  // namespace tern::runner
