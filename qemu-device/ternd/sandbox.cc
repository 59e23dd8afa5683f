// SPDX-License-Identifier: GPL-2.0-or-later
#include "sandbox.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace tern::daemon {

namespace {

constexpr int kAllowed[] = {
    // sockets and descriptors
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendto),
    SCMP_SYS(sendmsg),
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    SCMP_SYS(shutdown),
    SCMP_SYS(setsockopt),
    SCMP_SYS(getsockopt),
    SCMP_SYS(getsockname),
    SCMP_SYS(getpeername),
    SCMP_SYS(close),
    SCMP_SYS(fcntl),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(lseek),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(eventfd2),
    // memory
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(memfd_create),
    SCMP_SYS(ftruncate),
    // threads, time and signals
    SCMP_SYS(futex),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(getrandom),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(gettid),
    SCMP_SYS(getpid),
    SCMP_SYS(rseq),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

// Libraries try these, and work without them. A socket that is not unlinked is removed at the next
// start.
constexpr int kRefused[] = {SCMP_SYS(open),     SCMP_SYS(openat),     SCMP_SYS(openat2),
                            SCMP_SYS(access),   SCMP_SYS(faccessat2), SCMP_SYS(stat),
                            SCMP_SYS(readlink), SCMP_SYS(ioctl),      SCMP_SYS(sysinfo),
                            SCMP_SYS(unlink),   SCMP_SYS(unlinkat)};

// Flags of clone() when the C library creates a thread.
constexpr scmp_datum_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                 CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                                 CLONE_CHILD_CLEARTID;

[[noreturn]] void fail(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_KILL_PROCESS)) {
    if (context_ == nullptr) fail(ENOMEM, "sandbox");
    // Applies to all threads. Also allows no new privileges by execve(), which is refused anyway.
    check(seccomp_attr_set(context_, SCMP_FLTATR_CTL_TSYNC, 1));
  }
  ~Filter() { seccomp_release(context_); }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  void allow(int call) { check(seccomp_rule_add(context_, SCMP_ACT_ALLOW, call, 0)); }
  void allow(int call, const scmp_arg_cmp& argument) {
    check(seccomp_rule_add_array(context_, SCMP_ACT_ALLOW, call, 1, &argument));
  }
  void refuse(int call, unsigned error) {
    check(seccomp_rule_add(context_, SCMP_ACT_ERRNO(error), call, 0));
  }
  void refuse(int call, unsigned error, const scmp_arg_cmp& argument) {
    check(seccomp_rule_add_array(context_, SCMP_ACT_ERRNO(error), call, 1, &argument));
  }
  void load() { check(seccomp_load(context_)); }

 private:
  static void check(int result) {
    if (result != 0) fail(-result, "sandbox");
  }
  scmp_filter_ctx context_;
};

}  // namespace

void drop_capabilities() {
  const auto done = [](int result) {
    if (result != 0) fail(errno, "capabilities");
  };
  done(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  done(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
  done(static_cast<int>(syscall(SYS_capset, &header, none)));
}

void enter_sandbox() {
  Filter filter;
  for (const int call : kAllowed) filter.allow(call);
  for (const int call : kRefused) filter.refuse(call, EACCES);
  // Allow no new executable memory.
  filter.allow(SCMP_SYS(mmap), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  filter.allow(SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  // Threads of added adapters. The filter cannot check the arguments of clone3(), which are in
  // memory: after its refusal the C library tries clone().
  filter.allow(SCMP_SYS(clone), SCMP_A0(SCMP_CMP_EQ, kThread));
  filter.refuse(SCMP_SYS(clone3), ENOSYS);
  // Their processor times, names and timers.
  filter.allow(SCMP_SYS(getrusage), SCMP_A0(SCMP_CMP_EQ, RUSAGE_THREAD));
  filter.allow(SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
  filter.allow(SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_TIMERSLACK));
  // The C library names memory if it is configured to.
  filter.refuse(SCMP_SYS(prctl), EACCES, SCMP_A0(SCMP_CMP_EQ, PR_SET_VMA));
  // abort(), and the signal that stops an adapter's thread.
  filter.allow(SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid())));
  filter.load();
}

}  // namespace tern::daemon
