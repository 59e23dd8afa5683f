// SPDX-License-Identifier: GPL-2.0-or-later
#include "leak.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstddef>
#include <stdexcept>

#include "verbs.h"

namespace guest::killer {
namespace {

// Memory without huge pages: a contiguous region needs no page list, so page_entries would not
// move.
void* scattered_memory(std::size_t length) {
  void* const memory =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, length, MADV_NOHUGEPAGE);
  return memory;
}

// Creates at least one object of each type.
bool make_objects(const std::string& device) {
  constexpr std::size_t length = std::size_t{4} << 20;
  ibv_context* const verbs = open_context(device);
  if (verbs == nullptr) return false;
  ibv_pd* const pd = ibv_alloc_pd(verbs);
  ibv_cq* const cq = ibv_create_cq(verbs, 16, nullptr, nullptr, 0);
  void* const memory = scattered_memory(length);
  if (pd == nullptr || cq == nullptr || memory == nullptr) return false;
  ibv_qp_init_attr qp = {};
  qp.send_cq = qp.recv_cq = cq;
  qp.cap = capacity(8, 8);
  qp.qp_type = IBV_QPT_RC;
  ibv_srq_init_attr srq = {};
  srq.attr.max_wr = 8;
  srq.attr.max_sge = 1;
  ibv_xrcd_init_attr xrcd = {};
  xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd.fd = -1;
  xrcd.oflags = O_CREAT;
  ibv_alloc_dm_attr dm = {};
  dm.length = 4096;
  return ibv_alloc_mw(pd, IBV_MW_TYPE_1) != nullptr && ibv_alloc_dm(verbs, &dm) != nullptr &&
         ibv_reg_mr(pd, memory, length, IBV_ACCESS_LOCAL_WRITE) != nullptr &&
         ibv_create_qp(pd, &qp) != nullptr && ibv_create_srq(pd, &srq) != nullptr &&
         ibv_open_xrcd(verbs, &xrcd) != nullptr;
}

[[noreturn]] void hold(const std::string& device, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (make_objects(device) && write(ready, "", 1) == 1) {
    for (;;) pause();
  }
  _exit(1);
}

}  // namespace

void plant_leak(const std::string& device) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid == 0) {
    close(ready[0]);
    hold(device, ready[1]);
  }
  close(ready[1]);
  char byte = 0;
  const bool held = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  if (!held) throw std::runtime_error("no objects to leak");
}

}  // namespace guest::killer
