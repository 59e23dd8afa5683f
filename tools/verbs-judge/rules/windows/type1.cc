// SPDX-License-Identifier: GPL-2.0-or-later
// The life cycle of a type 1 window: ibv_bind_mw(3).
#include <cerrno>

#include "suite.h"

namespace guest::windows {
namespace {

constexpr Form kType1{.type = IBV_MW_TYPE_1};
constexpr Range kAll{.offset = 0, .length = 64};

Bind nothing(const Window& window) {
  Bind bind = window.request();
  bind.length = 0;
  return bind;
}

void key_at_post(const Env& env) {
  Window window(env, kType1);
  const std::uint32_t before = window.mw->rkey;
  const int err = post_bind(window.path.qp(), window.request());
  const std::uint32_t after = window.mw->rkey;
  require_err(err, 0, "ibv_bind_mw");
  require(after != before, "the key is the same on return");
  require_usual(after >> 8 == before >> 8, "the key has another index");
  require(window.path.done(kBindId).opcode == IBV_WC_BIND_MW, "another opcode than BIND_MW");
  require(window.mw->rkey == after, "the key changed after return");
  window.all_work(kAll, after);
}

void rebind_moves(const Env& env) {
  Window window(env, kType1);
  window.all_work();
  const std::uint64_t at = 5000;
  Bind elsewhere = window.request();
  elsewhere.addr = window.region.address(at);
  elsewhere.length = 640;
  window.rebind(elsewhere);
  for (const Op op : kAllOps) {
    const Range bytes{.offset = at, .length = is_atomic(op) ? 8U : 640U};
    window.path.allowed(window.region, op, window.key, window.region.address(at), bytes);
  }
}

void old_key(const Env& env) {
  for (const Op op : kAllOps) {
    Window window(env, kType1);
    const std::uint32_t old = window.key;
    window.rebind(window.request());
    window.all_work();
    window.denied(op, old, window.address(), 8);
  }
}

void unbind(const Env& env, bool null_mr) {
  for (const Op op : kAllOps) {
    Window window(env, kType1);
    Bind unbound = nothing(window);
    if (null_mr) {
      unbound.mr = nullptr;
      unbound.addr = 0;
    }
    window.rebind(unbound);
    window.denied(op, 0, 8);
  }
}

void old_key_after_unbind(const Env& env) {
  for (const Op op : {Op::kRead, Op::kWrite}) {
    Window window(env, kType1);
    const std::uint32_t old = window.key;
    window.rebind(nothing(window));
    window.denied(op, old, window.address(), 8);
  }
}

void bound_again(const Env& env) {
  Window window(env, kType1);
  window.rebind(nothing(window));
  window.rebind(nothing(window));
  window.rebind(window.request());
  window.all_work();
}

void never_bound(const Env& env) {
  for (const Op op : kAllOps) {
    Window window(env, kType1);
    const MwPtr fresh = alloc_mw(env.dev.pd(), IBV_MW_TYPE_1);
    window.denied(op, fresh->rkey, window.address(), 8);
  }
}

void fence(const Env& env) {
  Window window(env, kType1);
  Send read{.opcode = IBV_WR_RDMA_READ, .wr_id = 1};
  read.sges = {window.path.inbox().sge(0, 512)};
  read.raddr = window.path.peer().address();
  read.rkey = window.path.peer().rkey();
  window.path.post(read);
  Bind fenced = window.request();
  fenced.flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED;
  require_err(post_bind(window.path.qp(), fenced), 0, "ibv_bind_mw");
  window.path.done(1);
  window.path.done(kBindId);
  window.all_work(kAll, window.mw->rkey);
}

void unsignaled(const Env& env) {
  Window window(env, kType1);
  Bind silent = window.request();
  silent.flags = 0;
  require_err(post_bind(window.path.qp(), silent), 0, "ibv_bind_mw");
  expect_quiet(window.path.send_cq(), 50);
  window.all_work(kAll, window.mw->rkey);
  expect_quiet(window.path.send_cq(), 5);
}

void signal_all(const Env& env) {
  const Window window(env, kType1);
  const Path path(env, {.signal_all = true});
  Bind request = window.request();
  request.flags = 0;
  require_err(post_bind(path.qp(), request), 0, "ibv_bind_mw");
  path.done(kBindId);
}

void send_after_bind(const Env& env) { Window(env, kType1).send_key_after_bind(); }

void other_qp(const Env& env) {
  Window window(env, kType1);
  const Path other(env);
  for (const Op op : kAllOps) {
    other.allowed(window.region, op, window.key, window.address(), {1000, 8});
  }
}

void through(const Env& env, ibv_qp_type type) {
  Window window(env, {.type = IBV_MW_TYPE_1, .via = type});
  window.all_work();
}

void bound_by_uc(const Env& env) {
  Window window(env, kType1);
  const Path uc(env, {.type = IBV_QPT_UC});
  const Bind request = window.request();
  bind(uc, request);
  window.all_work(kAll, window.mw->rkey);
}

void bound_by_xrc(const Env& env) {
  Window window(env, kType1);
  const End sender = xrc_sender(env, window.path);
  require_err(post_bind(sender.qp(), window.request()), 0, "ibv_bind_mw");
  require_status(poll(sender.send_cq(), 1).front(), kBindId, IBV_WC_SUCCESS);
  window.all_work(kAll, window.mw->rkey);
}

void local_write_flag(const Env& env, ibv_mw_type type) {
  Window window(env, {.type = type, .access = kRemoteAccess | IBV_ACCESS_LOCAL_WRITE});
  window.all_work();
}

void dealloc(const Env& env, ibv_mw_type type) {
  Window window(env, {.type = type});
  window.all_work();
  require_err(ibv_dealloc_mw(window.mw.release()), 0, "ibv_dealloc_mw");
  window.denied(Op::kRead, 0, 8);
  require_err(window.region.deregister(), 0, "ibv_dereg_mr");
}

}  // namespace

void add_type1(Rules& t) {
  add(t, "type1/key-at-post", "ibv_bind_mw returns with the new key in mw->rkey, index as before",
      "", key_at_post);
  add(t, "type1/rebind", "a bind of a bound window moves it", "", rebind_moves);
  add(t, "type1/old-key", "the key before a rebind is dead", "mw-variant", old_key);
  add(t, "type1/unbind", "zero length unbinds: the new key refuses", "mw-unbound", unbind, false);
  add(t, "type1/unbind-null-mr", "zero length unbinds without an MR too", "mw-unbound", unbind,
      true);
  t.back().risk = "Soft-RoCE's provider dereferences the null region";
  add(t, "type1/old-key-after-unbind", "zero length unbinds: the old key is dead",
      "- both mw-variant and mw-unbound refuse it", old_key_after_unbind);
  add(t, "type1/bound-again", "an unbound window can be unbound and bound again", "", bound_again);
  add(t, "type1/never-bound", "a window that was never bound refuses", "- it has no region",
      never_bound);
  add(t, "type1/fence", "IBV_SEND_FENCE: the bind completes after a READ", "", fence);
  add(t, "type1/unsignaled", "without IBV_SEND_SIGNALED a bind has no completion", "", unsignaled);
  add(t, "type1/signal-all", "with sq_sig_all every bind has one", "", signal_all);
  add(t, "type1/send-after-bind", "a SEND after the bind may carry the new key", "",
      send_after_bind);
  add(t, "type1/other-qp", "any QP of the PD may use it", "", other_qp);
  add(t, "type1/through-uc", "WRITE, WRITE WITH IMM through a UC QP", "", through, IBV_QPT_UC);
  add(t, "type1/through-xrc", "every operation through an XRC target", "", through,
      IBV_QPT_XRC_RECV);
  add(t, "type1/bound-by-uc", "a UC QP can bind", "", bound_by_uc);
  add(t, "type1/bound-by-xrc", "an XRC_SEND QP can bind", "", bound_by_xrc);
  for (const ibv_mw_type type : kBothTypes) {
    const std::string name = type_name(type);
    add(t, name + "/local-write",
        "IBV_ACCESS_LOCAL_WRITE among the rights means nothing, or is refused", "",
        local_write_flag, type);
    add(t, name + "/dealloc", "ibv_dealloc_mw of a bound window unbinds it",
        "- the key is gone with the window: no rule is asked", dealloc, type);
  }
}

}  // namespace guest::windows
