// SPDX-License-Identifier: GPL-2.0-or-later
#include "sandbox.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <memory>
#include <system_error>

namespace tern::daemon {

namespace {

constexpr int kAllowed[] = {
    // sockets and descriptors
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg),
    SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(shutdown), SCMP_SYS(setsockopt),
    SCMP_SYS(getsockopt), SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(close), SCMP_SYS(fcntl), SCMP_SYS(fstat),
    SCMP_SYS(newfstatat), SCMP_SYS(lseek), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2), SCMP_SYS(unlink), SCMP_SYS(unlinkat),
    // memory
    SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect), SCMP_SYS(madvise), SCMP_SYS(brk),
    SCMP_SYS(memfd_create), SCMP_SYS(ftruncate),
    // threads, time and signals
    SCMP_SYS(futex), SCMP_SYS(sched_yield), SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getrandom), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall), SCMP_SYS(gettid), SCMP_SYS(getpid), SCMP_SYS(tgkill),
    SCMP_SYS(rseq), SCMP_SYS(set_robust_list), SCMP_SYS(exit), SCMP_SYS(exit_group),
};

// Libraries try these, and work without.
constexpr int kRefused[] = {SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(access), SCMP_SYS(faccessat2), SCMP_SYS(stat),
                            SCMP_SYS(readlink), SCMP_SYS(ioctl), SCMP_SYS(sysinfo), SCMP_SYS(prctl)};

[[noreturn]] void fail(int error) { throw std::system_error(error, std::generic_category(), "sandbox"); }

void drop_capabilities() {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

}  // namespace

void enter_sandbox() {
  drop_capabilities();
  const std::unique_ptr<void, decltype(&seccomp_release)> filter(seccomp_init(SCMP_ACT_KILL_PROCESS), seccomp_release);
  if (!filter) fail(ENOMEM);
  // All threads, and no new privileges by execve(), which is not allowed anyway.
  if (const int r = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1)) fail(-r);
  for (const int call : kAllowed) {
    if (const int r = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0)) fail(-r);
  }
  for (const int call : kRefused) {
    if (const int r = seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EACCES), call, 0)) fail(-r);
  }
  if (const int r = seccomp_load(filter.get())) fail(-r);
}

}  // namespace tern::daemon
