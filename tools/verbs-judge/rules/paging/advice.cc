// SPDX-License-Identifier: GPL-2.0-or-later
// ibv_advise_mr(): what it brings, and what it refuses.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "paging.h"

namespace guest::paging {
namespace {

constexpr auto kRead = IBV_ADVISE_MR_ADVICE_PREFETCH;
constexpr auto kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
constexpr auto kPresent = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
constexpr unsigned kFlush = IBV_ADVISE_MR_FLAG_FLUSH;

int advise(ibv_pd* pd, ibv_advise_mr_advice what, unsigned flags, ibv_sge range) {
  return ibv_advise_mr(pd, what, flags, &range, 1);
}

void need_advice(const Env& env, const ibv_sge& range) {
  const int err = advise(env.dev.pd(), kRead, kFlush, range);
  if (err == EOPNOTSUPP || err == ENOSYS) skip("ibv_advise_mr: {}", errno_name(err));
  require_err(err, 0, "PREFETCH");
}

// A device need not know a kind of advice.
void take(int err, const char* what) {
  if (err == EOPNOTSUPP || err == ENOTSUP) {
    require_usual(false, "{}: {}", what, errno_name(err));
  } else {
    require_err(err, 0, what);
  }
}

void prefetch(const Env& env) {
  need(env, IBV_ODP_SUPPORT_WRITE);
  const Map here(64 * kPage), there(64 * kPage);
  const MrPtr near = on_demand(env, here), far = on_demand(env, there);
  const ibv_sge all = sge(far.get(), there.address(), 64 * kPage);
  need_advice(env, sge(near.get(), here.address(), 64 * kPage));
  const Loop pair(env.dev);
  const auto write = [&](std::uint64_t seed) {
    fill(here.bytes(), seed);
    pair.must(write_from(sge(near.get(), here.address(), 64 * kPage), there.address(), far->rkey),
              "a WRITE after advice");
    expect_pattern(there.bytes(), seed, "a WRITE after advice");
  };
  take(advise(env.dev.pd(), kWrite, kFlush, all), "PREFETCH_WRITE");
  write(1);
  there.advise(MADV_DONTNEED);
  take(advise(env.dev.pd(), kPresent, kFlush, all), "PREFETCH_NO_FAULT of no page");
  std::memset(there.at(), 1, 8 * kPage);
  take(advise(env.dev.pd(), kPresent, kFlush, all), "PREFETCH_NO_FAULT of some pages");
  write(2);
  for (const auto what : {kRead, kWrite, kPresent}) {
    take(advise(env.dev.pd(), what, 0, all), "asynchronous advice");
    write(3);
  }
}

// The errors of the page.
void refused(const Env& env) {
  need(env, 0);
  const Map there(64 * kPage), normal(kPage), read_only(kPage);
  const MrPtr far = on_demand(env, there), pinned = reg(env.dev, normal, kAllAccess);
  const MrPtr no_write = reg(env.dev, read_only, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);
  const PdPtr other = alloc_pd(env.dev);
  const ibv_sge all = sge(far.get(), there.address(), 64 * kPage);
  ibv_sge bad = all;
  bad.lkey ^= 1;
  need_advice(env, all);
  struct Call {
    const char* what;
    int usual;
    ibv_pd* pd;
    ibv_advise_mr_advice advice;
    unsigned flags;
    ibv_sge range;
  };
  ibv_pd* const pd = env.dev.pd();
  const Call calls[] = {
      {"advice for a pinned region", ENOENT, pd, kRead, kFlush,
       sge(pinned.get(), normal.address(), 8)},
      {"advice for another variant of a key", ENOENT, pd, kRead, kFlush, bad},
      {"advice for a region of another PD", EPERM, other.get(), kRead, kFlush, all},
      {"PREFETCH_WRITE without the right", EPERM, pd, kWrite, kFlush,
       sge(no_write.get(), read_only.address(), 8)},
      {"advice in front of a region", EFAULT, pd, kRead, kFlush,
       sge(far.get(), there.address() - 1, 8)},
      {"advice beyond a region", EFAULT, pd, kRead, kFlush,
       sge(far.get(), there.address(63 * kPage), kPage + 1)},
      {"unknown advice", EOPNOTSUPP, pd, static_cast<ibv_advise_mr_advice>(3), 0, all},
      {"unknown flags", EINVAL, pd, kRead, 0x100, all}};
  for (const Call& c : calls) {
    require_refused(advise(c.pd, c.advice, c.flags, c.range), c.usual, c.what);
  }
  require(::mprotect(there.at(10 * kPage), kPage, PROT_NONE) == 0, "mprotect");
  require_refused(advise(pd, kRead, kFlush, all), EFAULT, "PREFETCH of a hole");
  const int later = advise(pd, kRead, 0, all);
  require_usual(later == 0, "asynchronous PREFETCH of a hole: {}", errno_name(later));
}

// Advice that maps only present pages races with advice that faults them in: the kernel must keep
// their results apart.
void races(const Env& env) {
  need(env, 0);
  // New memory has no page table, if it covers what a whole one is for.
  constexpr std::size_t kPages = 1024;
  const Map map(kPages * kPage);
  const auto renew = [&] {
    void* const at = ::mmap(map.at(), kPages * kPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    require(at == map.at(), "mmap");
    (void)::madvise(at, kPages * kPage, MADV_NOHUGEPAGE);
  };
  const MrPtr mr = on_demand(env, map);
  const auto advise_pages = [&](ibv_advise_mr_advice what, std::size_t first, std::size_t pages) {
    return advise(
        env.dev.pd(), what, kFlush,
        sge(mr.get(), map.address(first * kPage), static_cast<std::uint32_t>(pages * kPage)));
  };
  need_advice(env, sge(mr.get(), map.address(), kPage));
  const int known = advise_pages(kPresent, 0, 1);
  if (known != 0) skip("PREFETCH_NO_FAULT: {}", errno_name(known));
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> prefetchers;
    for (int i = 0; i < 3; ++i) {
      prefetchers.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          if (const int err = advise_pages(kPresent, 0, kPages)) failed = err;
        }
      });
    }
    for (std::size_t i = 0; i < rounds(env, 300); ++i) {
      renew();
      require_err(advise_pages(kWrite, kPages / 2 - 4 + i % 8, 1), 0, "PREFETCH_WRITE");
    }
  }
  require_err(failed, 0, "PREFETCH_NO_FAULT");
}

}  // namespace

Rules advice() {
  return {
      {"prefetch", "advice is taken, and WRITEs after it arrive", prefetch},
      {"advice-refused", "advice for what is no region on demand of the PD is refused", refused},
      {"advice-races", "advice from several threads at once is taken", races},
  };
}

}  // namespace guest::paging
