// SPDX-License-Identifier: GPL-2.0-or-later
// Memory below a region: huge pages, forks, unmapping, and limits.
#include <grp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "child.h"
#include "regions.h"

namespace guest::regions {
namespace {

// Pages of 2 MiB, transparent or reserved if there are any: a region crosses the border of two.
void huge_pages(const Env& env) {
  constexpr std::size_t kHuge = 2 << 20;
  const auto use = [&](const Map& map, const char* what) {
    const std::size_t first = (kHuge - map.address() % kHuge) % kHuge;
    const std::size_t offset = first + kHuge - 5000;
    fill(map.bytes(), 3);
    const MrPtr mr = try_reg(env.dev.pd(), map.at(offset), 10001, kAllAccess);
    require(mr != nullptr, "{}: {}", what, errno_name(errno));
    Probe(env.dev, env.dev.pd(), mr.get())
        .reaches(map.bytes(offset, 10001), map.address(offset), what);
    const MrPtr all = reg(env.dev, map, kAllAccess);
    require(all->length == map.length(), "a region of {} bytes", all->length);
  };
  const Map transparent(3 * kHuge);
  (void)::madvise(transparent.at(), transparent.length(), MADV_HUGEPAGE);
  use(transparent, "transparent huge pages");
  void* const reserved = ::mmap(nullptr, 2 * kHuge, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (reserved == MAP_FAILED) return;
  ::munmap(reserved, 2 * kHuge);
  use(Map(2 * kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB),
      "reserved huge pages");
}

// Forks a child that runs `body` and waits for its end.
template <typename Body>
void in_child(const Body& body) {
  const pid_t child = ::fork();
  require(child >= 0, "fork: {}", errno_name(errno));
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  require(::waitpid(child, &status, 0) == child && status == 0, "the child: {:#x}",
          static_cast<unsigned>(status));
}

// The device sends what the parent writes, not what its child does.
void forked(const Env& env) {
  const ibv_fork_status state = ibv_is_fork_initialized();
  if (state == IBV_FORK_DISABLED) skip("fork is not safe here unless RDMAV_FORK_SAFE is set");
  const Pages source, target;
  const MrPtr from = reg(env.dev, source, kAllAccess), to = reg(env.dev, target, kAllAccess);
  const Loop pair(env.dev);
  for (std::uint64_t round = 0; round < 10; round++) {
    source.paint(1);
    target.paint(2);
    in_child([&] {
      if (state == IBV_FORK_UNNEEDED) fill(source.bytes(), 3);
      if (state == IBV_FORK_UNNEEDED) fill(target.bytes(), 3);
    });
    source.paint(4 + round);
    pair.must(write_from(sge(from.get(), source.address(), kLength), target.address(), to->rkey),
              "a WRITE after a fork");
    target.check(4 + round, "what arrived");
  }
}

// The same with memory that children do not get.
void hidden_from_children(const Env& env) {
  const Pages source, target;
  const MrPtr from = reg(env.dev, source, kAllAccess), to = reg(env.dev, target, kAllAccess);
  source.advise(MADV_DONTFORK);
  target.advise(MADV_DONTFORK);
  const Loop pair(env.dev);
  in_child([] {});
  source.paint(5);
  pair.must(write_from(sge(from.get(), source.address(), kLength), target.address(), to->rkey),
            "a WRITE after a fork");
  target.check(5, "what arrived");
}

// The program takes memory away from a region that is in use, and gets new memory at its place.
void unmapped_later(const Env& env) {
  const Pages source;
  const MrPtr from = reg(env.dev, source, kAllAccess);
  source.paint(6);
  for (std::uint64_t round = 0; round < 20; round++) {
    const Pages target;
    const MrPtr to = reg(env.dev, target, kAllAccess);
    const Loop pair(env.dev, 4);
    target.paint(7);
    void* const at = ::mmap(target.at(), kLength, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    require(at == target.at(), "mmap: {}", errno_name(errno));
    target.paint(8);
    const Pages canary;
    canary.paint(9);
    const ibv_wc_status status = pair.run(
        write_from(sge(from.get(), source.address(), kLength), target.address(), to->rkey));
    require_usual(status == IBV_WC_SUCCESS, "a WRITE to memory that was unmapped: {}",
                  ibv_wc_status_str(status));
    canary.check(9, "other memory");
    require_usual(!mismatch(target.bytes(), 8), "the WRITE goes to new memory at its address");
  }
}

// A process without privileges may pin as much as RLIMIT_MEMLOCK says.
void memory_limit(const Env& env) {
  const std::string name = ibv_get_device_name(env.dev.context()->device);
  constexpr rlim_t kLimit = 256 * kPage;
  Child child([&](const Talk&) {
    const Device dev(name, env.dev.gid_index());
    const rlimit limit{.rlim_cur = kLimit, .rlim_max = kLimit};
    require(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit: {}", errno_name(errno));
    if (::getuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setuid(65534) != 0)) {
      fail_errno("setuid");
    }
    const Pages large(4 * kLimit), small(16 * kPage);
    const MrPtr none = try_reg(dev.pd(), large.at(), large.length(), kAllAccess);
    usually_refused(none ? 0 : errno, ENOMEM, "more than RLIMIT_MEMLOCK");
    for (int i = 0; i < 40; i++) {
      const MrPtr mr = try_reg(dev.pd(), small.at(), small.length(), kAllAccess);
      require(mr != nullptr, "less than RLIMIT_MEMLOCK, {} times: {}", i, errno_name(errno));
    }
  });
  child.finish();
}

}  // namespace

Rules memory() {
  return {
      {"huge-pages", "a region may lie in huge pages, at any byte", huge_pages},
      {"fork", "after a fork the device uses the parent's memory", forked, "ibv_fork_init(3)"},
      {"dont-fork", "memory that children do not get serves its region on", hidden_from_children,
       "ibv_fork_init(3)"},
      {"unmapped-later", "a region whose memory is unmapped reaches no other memory",
       unmapped_later},
      {"memory-limit", "without privileges RLIMIT_MEMLOCK limits regions", memory_limit,
       "getrlimit(2)"},
  };
}

}  // namespace guest::regions
