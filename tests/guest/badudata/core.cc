// SPDX-License-Identifier: GPL-2.0-or-later
#include "core.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/tern-abi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "counts.h"
#include "map.h"
#include "program.h"
#include "uverbs.h"

namespace guest::uverbs {
namespace {

constexpr int kProcesses = 500;

// Returns the number of task_struct in use, which root may read.
long tasks() {
  // KASAN keeps freed ones in quarantine until then.
  std::ofstream("/sys/kernel/slab/task_struct/shrink") << "1\n";
  FILE* slabs = std::fopen("/proc/slabinfo", "r");
  if (slabs == nullptr) throw std::runtime_error("cannot read /proc/slabinfo");
  char line[512];
  long active = -1;
  while (active < 0 && std::fgets(line, sizeof(line), slabs) != nullptr) {
    if (std::sscanf(line, "task_struct %ld", &active) != 1) active = -1;
  }
  std::fclose(slabs);
  if (active < 0) throw std::runtime_error("the kernel merges the slab of task_struct");
  return active;
}

// GET_CONTEXT on a file that has a context. Returns its errno.
int context_twice(const std::string& path) {
  Uverbs verbs(path, sizeof(tern_uresp_alloc_ucontext));
  Method method{.object = UVERBS_OBJECT_DEVICE, .method = UVERBS_METHOD_GET_CONTEXT};
  return verbs.call(method);
}

// The context that is refused must not keep the process that asked for it.
void context_holds_no_task(const std::string& path) {
  const int err = context_twice(path);
  const long before = tasks();
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(context_twice(path) == EINVAL ? 0 : 1);
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      report(false, "second-context-holds-no-task", "a process failed");
      return;
    }
  }
  long more = 0;
  for (int i = 0; i < 100; ++i) {
    more = tasks() - before;
    if (more < kProcesses / 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  report(err == EINVAL && more < kProcesses / 2, "second-context-holds-no-task",
         std::string(std::strerror(err)) + ", " + std::to_string(more) + " tasks more of " +
             std::to_string(kProcesses));
}

// Creates a work queue and returns its handle.
std::uint32_t create_wq(Uverbs& verbs, const Map& memory) {
  ib_uverbs_ex_create_wq core = {};
  core.pd_handle = verbs.alloc_pd();

  Request cq{.command = IB_USER_VERBS_CMD_CREATE_CQ};
  ib_uverbs_create_cq cq_core = {};
  cq_core.cqe = 16;
  cq_core.comp_channel = -1;
  append(cq.core, cq_core);
  tern_ureq_create_cq cq_driver = {};
  cq_driver.buf_addr = memory.address();
  cq_driver.buf_len = kPage;
  cq_driver.log_size = 4;
  cq_driver.record_addr = memory.address(kPage);
  append(cq.driver, cq_driver);
  cq.core_response = sizeof(ib_uverbs_create_cq_resp);
  cq.driver_response = sizeof(tern_uresp_create_cq);
  if (verbs.call(cq)) throw std::runtime_error("no CQ");
  core.cq_handle = verbs.response<ib_uverbs_create_cq_resp>().cq_handle;

  core.max_wr = 16;
  core.max_sge = 1;
  tern_ureq_create_wq driver = {};
  driver.buf_addr = memory.address(2 * kPage);
  driver.buf_len = kPage;
  driver.log_size = 4;
  driver.log_stride = 5;
  driver.record_addr = memory.address(kPage) + 1024;
  Request wq{.command = IB_USER_VERBS_EX_CMD_CREATE_WQ};
  wq.extended = true;
  append(wq.core, core);
  append(wq.driver, driver);
  wq.core_response = sizeof(ib_uverbs_ex_create_wq_resp);
  if (const int err = verbs.call(wq))
    throw std::runtime_error(std::string("no work queue: ") + std::strerror(err));
  return verbs.response<ib_uverbs_ex_create_wq_resp>().wq_handle;
}

// A state that is refused must not keep the work queue from being destroyed.
void wrong_state_locks_nothing(const std::string& path) {
  const Map memory(4 * kPage);
  Uverbs verbs(path, sizeof(tern_uresp_alloc_ucontext));
  ib_uverbs_ex_modify_wq core = {};
  core.wq_handle = create_wq(verbs, memory);
  core.attr_mask = 1;  // the state
  core.wq_state = 7;
  Request modify{.command = IB_USER_VERBS_EX_CMD_MODIFY_WQ};
  modify.extended = true;
  append(modify.core, core);
  const int err = verbs.call(modify);
  ib_uverbs_ex_destroy_wq gone = {};
  gone.wq_handle = core.wq_handle;
  Request destroy{.command = IB_USER_VERBS_EX_CMD_DESTROY_WQ};
  destroy.extended = true;
  append(destroy.core, gone);
  destroy.core_response = sizeof(ib_uverbs_ex_destroy_wq_resp);
  const int err_destroy = verbs.call(destroy);
  report(err == EINVAL && err_destroy == 0, "wrong-state-locks-no-work-queue",
         std::string(std::strerror(err)) + ", then " + std::strerror(err_destroy));
}

}  // namespace

void core_refusals(const std::string& path) {
  // A stock ib_core leaks the task, and keeps the work queue locked.
  if (!drivers_in_tree()) return;
  context_holds_no_task(path);
  wrong_state_locks_nothing(path);
}

}  // namespace guest::uverbs
