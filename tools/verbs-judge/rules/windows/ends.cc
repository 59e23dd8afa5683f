// SPDX-License-Identifier: GPL-2.0-or-later
// Destruction of regions, PDs and QPs while windows are bound.
#include <cerrno>

#include "suite.h"

namespace guest::windows {
namespace {

void require_busy(Region& region) {
  count_refusal();
  require_refused(region.deregister(), EBUSY, "ibv_dereg_mr");
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

// Returns an errno. No capability tells whether a device can re-register.
int rereg(ibv_mr* mr, int what, ibv_pd* pd, void* at, std::size_t length, int access) {
  errno = 0;
  if (ibv_rereg_mr(mr, what, pd, at, length, access) == 0) return 0;
  if (errno == EOPNOTSUPP || errno == ENOSYS) skip("ibv_rereg_mr: {}", errno_name(errno));
  return errno != 0 ? errno : EIO;
}

void rereg_busy(const Env& env, ibv_mw_type type) {
  const PdPtr pd = alloc_pd(env.dev);
  const Region other(env);
  Window window(env, {.type = type});
  count_refusal();
  void* const at = window.region.data();
  require_refused(rereg(window.region.mr(), IBV_REREG_MR_CHANGE_PD, pd.get(), nullptr, 0, 0), EBUSY,
                  "another PD");
  require_refused(rereg(window.region.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, at, 4096, 0),
                  EBUSY, "other memory");
  window.all_work();
}

// A device may refuse to re-register a region under a window.
void change_access(const Window& window, int access) {
  const int err =
      rereg(window.region.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access);
  if (err != 0) undecided("ibv_rereg_mr: {}", errno_name(err));
}

void rereg_access(const Env& env, ibv_mw_type type) {
  Window window(env, {.type = type});
  change_access(window, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  window.all_work();
}

void rereg_read_only(const Env& env, ibv_mw_type type) {
  for (const Op op : {Op::kWrite, Op::kWriteImm, Op::kCmpSwap, Op::kFetchAdd}) {
    Window window(env, {.type = type});
    change_access(window, IBV_ACCESS_MW_BIND);
    window.allowed(Op::kRead, 0, 2000);
    window.denied(op, 0, 8);
  }
}

// ---- PDs and QPs ----

// The window is the PD's only object.
void pd_busy(const Env& env, ibv_mw_type type) {
  PdPtr pd = alloc_pd(env.dev);
  MwPtr mw = alloc_mw(pd.get(), type);
  const int err = ibv_dealloc_pd(pd.get());  // it may fail, says the page
  if (err == 0) static_cast<void>(pd.release());
  if (!usually_refused(err, EBUSY, "ibv_dealloc_pd")) undecided("a window outlives its PD");
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
  const int err = window.region.deregister();
  if (err == 0) undecided("a window is free when its QP is gone");
  require_refused(err, EBUSY, "ibv_dereg_mr");
  other.denied(window.region, Op::kWrite, window.key, window.address(), 8);
  window.mw.reset();
  require_free(window.region);
}

void qp_reset_type2(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_2});
  window.path.reconnect();
  const int err = window.region.deregister();
  if (err == 0) undecided("a window is free when its QP was reset");
  if (!strict() &&
      window.path.attempt(Op::kWrite, window.key, window.address(), 8) == IBV_WC_SUCCESS) {
    undecided("a window outlives the reset of its QP");
  }
  if (!strict()) window.path.reconnect();
  require_refused(err, EBUSY, "ibv_dereg_mr");
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
    require_usual(path.qp()->qp_num != qpn, "the number of a QP with windows is given out again");
  }
}

}  // namespace

void add_ends(Rules& t) {
  constexpr const char* kCrashes = "Soft-RoCE of Linux 6.12 frees a QP that a window still uses";
  for (const ibv_mw_type type : kBothTypes) {
    const std::string name = type_name(type);
    const std::string text = type_text(type);
    add(t, "dereg/" + name + "-busy", "ibv_dereg_mr under " + text + " fails", "mr-busy", busy,
        type);
    add(t, "dereg/" + name + "-dealloc", "ibv_dereg_mr works after ibv_dealloc_mw of " + text, "",
        free_after_dealloc, type);
    add(t, "rereg/" + name + "-busy",
        "ibv_rereg_mr under " + text + ", with other memory or PD, fails", "mr-busy", rereg_busy,
        type);
    add(t, "rereg/" + name + "-access",
        "ibv_rereg_mr under " + text + ": the region's remote rights may go", "", rereg_access,
        type);
    add(t, "rereg/" + name + "-read-only",
        "ibv_rereg_mr under " + text + ": without LOCAL_WRITE nothing is written", "mw-mr-write",
        rereg_read_only, type);
    add(t, "pd/" + name + "-busy", "ibv_dealloc_pd with " + text + " fails, as a rule",
        "- the kernel counts users of PDs", pd_busy, type);
  }
  add(t, "dereg/type1-unbind", "ibv_dereg_mr works after an unbind", "", free_after_unbind);
  add(t, "dereg/type1-move", "ibv_dereg_mr works when the window has moved away", "mr-busy",
      free_after_move);
  add(t, "dereg/type2-local-inv", "ibv_dereg_mr works after LOCAL_INV", "", free_after_local_inv);
  add(t, "dereg/type2-send-inv", "ibv_dereg_mr works after SEND_WITH_INV", "", free_after_send_inv);
  add(t, "qp/type1-destroyed", "a type 1 window outlives the QP that bound it", "mr-busy",
      qp_destroyed_type1);
  add(t, "qp/type2-destroyed", "a type 2 window of a QP that is gone refuses", "mw-qp,mr-busy",
      qp_destroyed_type2);
  t.back().risk = kCrashes;
  add(t, "qp/type2-reset", "a type 2 window of a QP that was reset refuses, as a rule",
      "mw-qp,mr-busy", qp_reset_type2);
  add(t, "qp/type2-number", "the number of a QP with windows is not given out again, as a rule", "",
      number_not_reused);
  t.back().risk = kCrashes;
}

}  // namespace guest::windows
