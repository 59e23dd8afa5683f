// SPDX-License-Identifier: GPL-2.0-or-later
#include "contention.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
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

std::uint64_t ns_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// Each switch to the thread ends a wait.
class ElapsedClock final : public CpuClock {
 public:
  bool read(CpuTimes& times) override {
    rusage usage{};
    if (getrusage(RUSAGE_THREAD, &usage) != 0) return false;
    const std::uint64_t now = ns_of(CLOCK_MONOTONIC);
    const std::uint64_t ran = ns_of(CLOCK_THREAD_CPUTIME_ID);
    // The clocks differ by some ppm.
    if (now - now_ > ran - ran_) waited_ += (now - now_) - (ran - ran_);
    now_ = now;
    ran_ = ran;
    times = {ran, waited_, static_cast<std::uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw)};
    return true;
  }

 private:
  std::uint64_t now_ = ns_of(CLOCK_MONOTONIC);
  std::uint64_t ran_ = ns_of(CLOCK_THREAD_CPUTIME_ID);
  std::uint64_t waited_ = 0;
};

}  // namespace

std::unique_ptr<CpuClock> open_thread_clock() {
  const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::make_unique<ElapsedClock>();
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
