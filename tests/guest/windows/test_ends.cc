// SPDX-License-Identifier: GPL-2.0-or-later
// Destruction of regions, PDs, QPs and processes while windows are bound.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "counts.h"
#include "suite.h"

namespace guest::windows {
namespace {

void require_busy(Region& region) {
  count_refusal();
  require_err(region.deregister(), EBUSY, "ibv_dereg_mr");
  region.check("ibv_dereg_mr");
}

void require_free(Region& region) { require_err(region.deregister(), 0, "ibv_dereg_mr"); }

Bind unbinding(const Window& window) {
  Bind bind = window.request();
  bind.length = 0;
  return bind;
}

// ---- regions ----

void busy(const Env& env, ibv_mw_type type) {
  Window window(env, {.type = type});
  require_busy(window.region);
  window.all_work();
  const MwPtr second = alloc_mw(env.dev.pd(), type);
  Bind request = window.request();
  request.mw = second.get();
  request.new_rkey = with_variant(second->rkey, 3);
  bind(window.path, request);
  window.mw.reset();
  require_busy(window.region);
  window.path.allowed(window.region, Op::kRead,
                      type == IBV_MW_TYPE_1 ? second->rkey : request.new_rkey, window.address(),
                      {1000, 2000});
}

void free_after_unbind(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_1});
  window.rebind(unbinding(window));
  require_free(window.region);
}

void free_after_move(const Env& env) {
  Region elsewhere(env);
  Window window(env, {.type = IBV_MW_TYPE_1});
  Bind request = window.request();
  request.mr = elsewhere.mr();
  request.addr = elsewhere.address();
  window.rebind(request);
  require_free(window.region);
  require_busy(elsewhere);
  window.mw.reset();
}

void free_after_local_inv(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_2});
  local_inv(window.path, window.key);
  require_free(window.region);
}

void free_after_send_inv(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_2});
  window.path.send_inv(window.key);
  require_free(window.region);
}

void free_after_dealloc(const Env& env, ibv_mw_type type) {
  Window window(env, {.type = type});
  window.mw.reset();
  require_free(window.region);
}

// ---- ibv_rereg_mr ----

void rereg_busy(const Env& env, ibv_mw_type type) {
  const PdPtr pd = alloc_pd(env.dev);
  const Region other(env);
  Window window(env, {.type = type});
  void* const at = window.region.data();
  require(ibv_rereg_mr(window.region.mr(), IBV_REREG_MR_CHANGE_PD, pd.get(), nullptr, 0, 0) != 0,
          "another PD: allowed");
  require_err(errno, EBUSY, "another PD");
  require(
      ibv_rereg_mr(window.region.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, at, 4096, 0) != 0,
      "other memory: allowed");
  require_err(errno, EBUSY, "other memory");
  window.all_work();
}

void rereg_access(const Env& env, ibv_mw_type type) {
  Window window(env, {.type = type});
  require_err(ibv_rereg_mr(window.region.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
              0, "ibv_rereg_mr");
  window.all_work();
}

void rereg_read_only(const Env& env, ibv_mw_type type) {
  for (const Op op : {Op::kWrite, Op::kWriteImm, Op::kCmpSwap, Op::kFetchAdd}) {
    Window window(env, {.type = type});
    require_err(ibv_rereg_mr(window.region.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                             IBV_ACCESS_MW_BIND),
                0, "ibv_rereg_mr");
    window.allowed(Op::kRead, 0, 2000);
    window.denied(op, 0, 8);
  }
}

// ---- PDs and QPs ----

// The window is the PD's only object.
void pd_busy(const Env& env, ibv_mw_type type) {
  PdPtr pd = alloc_pd(env.dev);
  MwPtr mw = alloc_mw(pd.get(), type);
  require_err(ibv_dealloc_pd(pd.get()), EBUSY, "ibv_dealloc_pd");
  require_err(ibv_dealloc_mw(mw.release()), 0, "ibv_dealloc_mw");
  require_err(ibv_dealloc_pd(pd.release()), 0, "ibv_dealloc_pd");
}

void qp_destroyed_type1(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_1});
  const Path other(env);
  window.path.destroy_qp();
  other.allowed(window.region, Op::kWrite, window.key, window.address(), {1000, 2000});
  require_busy(window.region);
}

void qp_destroyed_type2(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_2});
  const Path other(env);
  window.path.destroy_qp();
  require_busy(window.region);
  other.denied(window.region, Op::kWrite, window.key, window.address(), 8);
  window.mw.reset();
  require_free(window.region);
}

void qp_reset_type2(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_2});
  window.path.reconnect();
  require_busy(window.region);
  window.denied(Op::kWrite, 0, 8);
  window.mw.reset();
  require_free(window.region);
}

// A later QP must not be mistaken for the one that bound the window.
void number_not_reused(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_2});
  const std::uint32_t qpn = window.path.qp()->qp_num;
  window.path.destroy_qp();
  for (int i = 0; i < 40; i++) {
    const Path path(env);
    require(path.qp()->qp_num != qpn, "QP {:#x} exists again", qpn);
  }
}

// ---- processes ----

void process_death(const Env& env) {
  if (!env.counts) throw Skip("its objects cannot be counted");
  const Counts before = read_counts(env.device);
  std::array<int, 2> pipe{};
  require(::pipe2(pipe.data(), O_CLOEXEC) == 0, "pipe2");
  const std::string gid = std::to_string(env.dev.gid_index());
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], STDOUT_FILENO);
    ::execl("/proc/self/exe", "windows", "--victim", "-d", env.device.c_str(), "-g", gid.c_str(),
            nullptr);
    ::_exit(127);
  }
  ::close(pipe[1]);
  char ready = 0;
  const ssize_t got = ::read(pipe[0], &ready, 1);
  ::close(pipe[0]);
  const std::string during = difference(before, read_counts(env.device));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  require(got == 1 && ready == 'r', "the process did not get there");
  require(during.find("alive_mw") != std::string::npos, "no window is counted while it lives: {}",
          during);
  const std::string left = settle(env.device, before, std::chrono::seconds(30));
  require(left.empty(), "left behind: {}", left);
}

}  // namespace

void be_victim(const CommandLine& line) {
  const Device dev(line.device, line.gid_index);
  const auto link = open_link(line);
  const Env env{.dev = dev, .link = *link};
  Window type1(env, {.type = IBV_MW_TYPE_1});
  Window type2(env, {.type = IBV_MW_TYPE_2});
  Window orphan(env, {.type = IBV_MW_TYPE_2});
  orphan.path.destroy_qp();
  std::puts("r");
  std::fflush(stdout);
  ::sleep(600);
}

void add_end_tests(Tests& t) {
  for (const ibv_mw_type type : kBothTypes) {
    const std::string name = type_name(type);
    const std::string text = type_text(type);
    add(t, "dereg/" + name + "-busy", "ibv_dereg_mr under " + text + ": EBUSY", "mr-busy", busy,
        type);
    add(t, "dereg/" + name + "-dealloc", "ibv_dereg_mr works after ibv_dealloc_mw of " + text, "",
        free_after_dealloc, type);
    add(t, "rereg/" + name + "-busy", "ibv_rereg_mr under " + text + ", other memory or PD: EBUSY",
        "mr-busy", rereg_busy, type);
    add(t, "rereg/" + name + "-access",
        "ibv_rereg_mr under " + text + ": the region's remote rights may go", "", rereg_access,
        type);
    add(t, "rereg/" + name + "-read-only",
        "ibv_rereg_mr under " + text + ": without LOCAL_WRITE nothing is written", "mw-mr-write",
        rereg_read_only, type);
    add(t, "pd/" + name + "-busy", "ibv_dealloc_pd with " + text + ": EBUSY",
        "- the kernel counts users of PDs", pd_busy, type);
  }
  add(t, "dereg/type1-unbind", "ibv_dereg_mr works after an unbind", "", free_after_unbind);
  add(t, "dereg/type1-move", "ibv_dereg_mr works when the window has moved away", "mr-busy",
      free_after_move);
  add(t, "dereg/type2-local-inv", "ibv_dereg_mr works after LOCAL_INV", "", free_after_local_inv);
  add(t, "dereg/type2-send-inv", "ibv_dereg_mr works after SEND_WITH_INV", "", free_after_send_inv);
  add(t, "qp/type1-destroyed", "a type 1 window outlives the QP that bound it", "mr-busy",
      qp_destroyed_type1);
  add(t, "qp/type2-destroyed", "a type 2 window of a QP that is gone: refuses, holds the MR",
      "mw-qp,mr-busy", qp_destroyed_type2);
  add(t, "qp/type2-reset", "a type 2 window of a QP that was reset: refuses, holds the MR",
      "mw-qp,mr-busy", qp_reset_type2);
  add(t, "qp/type2-number", "the number of a QP with windows is not given out again", "",
      number_not_reused);
  add(t, "process/death", "a process killed with windows bound leaves nothing", "", process_death);
}

}  // namespace guest::windows
