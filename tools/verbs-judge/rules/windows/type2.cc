// SPDX-License-Identifier: GPL-2.0-or-later
// The life cycle of a type 2 window, bound and invalidated by work requests.
#include "suite.h"

namespace guest::windows {
namespace {

constexpr Form kType2{.type = IBV_MW_TYPE_2};
constexpr Range kAll{.offset = 0, .length = 64};

void bound_by(const Env& env, Api api) {
  Window window(env, kType2);
  local_inv(window.path, window.key);
  Bind request = window.request();
  bind(window.path, request, IBV_WC_SUCCESS, api);
  window.all_work(kAll, request.new_rkey);
}

// Any low byte works, including the current one.
void low_byte(const Env& env) {
  Window window(env, kType2);
  local_inv(window.path, window.key);
  for (const std::uint32_t variant : {0x00U, 0xffU, 0x01U, 0x01U, 0x80U}) {
    Bind request = window.request();
    request.new_rkey = with_variant(window.mw->rkey, variant);
    window.rebind(request);
    window.all_work();
    local_inv(window.path, window.key);
  }
}

void freed_by_local_inv(const Env& env, Api api) {
  for (const Op op : kAllOps) {
    Window window(env, kType2);
    window.all_work(kAll, window.key);
    local_inv(window.path, window.key, IBV_WC_SUCCESS, api);
    window.denied(op, 0, 8);
  }
}

void freed_by_send_inv(const Env& env) {
  for (const Op op : kAllOps) {
    Window window(env, kType2);
    window.path.send_inv(window.key);
    window.denied(op, 0, 8);
  }
}

// The owner sends an invalidation that the peer refuses: only the posting is tested here.
void send_inv_by(const Env& env, Api api) {
  Window window(env, kType2);
  const Path& path = window.path;
  path.peer().post_recv(3, Range{.offset = 0, .length = 8});
  Send send{.opcode = IBV_WR_SEND_WITH_INV, .wr_id = 4, .inv_rkey = path.peer().rkey()};
  send.sges = {path.inbox().sge(0, 8)};
  path.post(send, api);
  const ibv_wc_status there = path.peer().poll_recv(1).front().status;
  require(there != IBV_WC_SUCCESS, "the receive succeeds");
  require_usual(there == IBV_WC_REM_INV_REQ_ERR, "the receive: {}", ibv_wc_status_str(there));
  const ibv_wc_status here = poll(path.send_cq(), 1, 60'000).front().status;
  require_usual(here == IBV_WC_REM_INV_REQ_ERR, "SEND_WITH_INV: {}", ibv_wc_status_str(here));
}

void bound_again(const Env& env) {
  Window window(env, kType2);
  for (int i = 0; i < 3; i++) {
    window.path.send_inv(window.key);
    window.rebind(window.request());
    window.all_work();
    local_inv(window.path, window.key);
    window.rebind(window.request());
    window.all_work();
  }
}

// A bind, an access by the peer and an invalidation, all posted before the first completes.
void pipelined(const Env& env) {
  Window window(env, kType2);
  const Path& path = window.path;
  local_inv(path, window.key);
  Bind request = window.request();
  request.flags = 0;
  for (std::uint32_t i = 0; i < 4; i++) {
    request.new_rkey = with_variant(window.mw->rkey, i);
    require_err(post_bind(path.qp(), request), 0, "post of a bind");
    window.mw->rkey = request.new_rkey;
    Send inv{.opcode = IBV_WR_LOCAL_INV, .wr_id = i, .flags = 0, .inv_rkey = request.new_rkey};
    path.post(inv);
  }
  request = window.request();
  window.rebind(request);
  window.all_work();
}

void send_after_bind(const Env& env) {
  Window window(env, kType2);
  local_inv(window.path, window.key);
  window.send_key_after_bind();
}

// mw->rkey still is the key of the allocation: a bind refers to the window by its index.
void names_by_index(const Env& env) {
  need_strict("another than the current key of a window");
  Window window(env, kType2);
  const std::uint32_t first = window.mw->rkey;
  for (int i = 0; i < 3; i++) {
    local_inv(window.path, window.key);
    window.mw->rkey = with_variant(first, 0x7a);
    window.rebind(window.request());
    window.all_work();
  }
}

void old_key(const Env& env) {
  for (const Op op : kAllOps) {
    Window window(env, kType2);
    const std::uint32_t old = window.key;
    local_inv(window.path, old);
    window.rebind(window.request());
    require(window.key != old, "the test binds with the same key");
    window.all_work();
    window.denied(op, old, window.address(), 8);
  }
}

void other_variant(const Env& env) {
  Window window(env, kType2);
  window.denied(Op::kRead, with_variant(window.key, window.key + 1), window.address(), 8);
}

void never_bound(const Env& env) {
  for (const Op op : kAllOps) {
    Window window(env, kType2);
    const MwPtr fresh = alloc_mw(env.dev.pd(), IBV_MW_TYPE_2);
    window.denied(op, fresh->rkey, window.address(), 8);
  }
}

void uc(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_2, .via = IBV_QPT_UC});
  window.all_work();
  window.path.send_inv(window.key);
  window.rebind(window.request());
  window.all_work();
}

void uc_local_inv(const Env& env) {
  need_uc_local_inv(env);
  Window window(env, {.type = IBV_MW_TYPE_2, .via = IBV_QPT_UC});
  local_inv(window.path, window.key);
  window.denied(Op::kWrite, 0, 8);
  window.rebind(window.request());
  window.all_work();
}

void bound_by_xrc(const Env& env) {
  const Window window(env, kType2);
  const End sender = xrc_sender(env, window.path);
  const MwPtr mw = alloc_mw(env.dev.pd(), IBV_MW_TYPE_2);
  const std::uint32_t key = bind_by(sender, window, mw.get());
  require_err(post_local_inv(sender.qp(), key), 0, "post of LOCAL_INV");
  require_status(poll(sender.send_cq(), 1).front(), kInvId, IBV_WC_SUCCESS);
}

// A type 2 window's kind (2A or 2B) decides who may use it, so the device has at most one.
void kind(const Env& env) {
  need_windows(env.dev.context());
  const unsigned flags = env.dev.attr().device_cap_flags;
  require_usual((flags & IBV_DEVICE_MEM_WINDOW) != 0, "no IBV_DEVICE_MEM_WINDOW");
  const bool a = (flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A) != 0;
  const bool b = (flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
  require_usual(a != b, "type 2A and 2B: {} and {}", a, b);
  require(env.kind.empty() || a == (env.kind == "2a"), "not of kind {}", env.kind);
  require_usual(env.dev.attr().max_mw > 0, "max_mw is {}", env.dev.attr().max_mw);
}

}  // namespace

void add_type2(Rules& t) {
  add(t, "caps/kind", "type 1, and one of type 2A and 2B", "", kind);
  add(t, "type2/bind-post", "bound by ibv_post_send, every operation works", "", bound_by,
      Api::kPost);
  add(t, "type2/bind-wr", "bound by ibv_wr_bind_mw", "", bound_by, Api::kWr);
  add(t, "type2/low-byte", "the low byte of the key is the consumer's, any value", "", low_byte);
  add(t, "type2/local-inv-post", "IBV_WR_LOCAL_INV frees it: its key refuses", "mw-unbound",
      freed_by_local_inv, Api::kPost);
  add(t, "type2/local-inv-wr", "ibv_wr_local_inv frees it: its key refuses", "mw-unbound",
      freed_by_local_inv, Api::kWr);
  add(t, "type2/send-inv", "SEND_WITH_INV frees it; the receive says IBV_WC_WITH_INV and which key",
      "mw-unbound", freed_by_send_inv);
  add(t, "type2/send-inv-post", "IBV_WR_SEND_WITH_INV by ibv_post_send reaches the peer",
      "- it is the peer's region, which cannot be invalidated", send_inv_by, Api::kPost);
  add(t, "type2/send-inv-wr", "IBV_WR_SEND_WITH_INV by ibv_wr_send_inv reaches the peer",
      "- it is the peer's region, which cannot be invalidated", send_inv_by, Api::kWr);
  add(t, "type2/bound-again", "free again, it can be bound again", "", bound_again);
  add(t, "type2/index", "a bind names its window by the index in mw->rkey alone", "",
      names_by_index);
  add(t, "type2/pipelined", "binds and invalidations in one queue happen in order", "", pipelined);
  add(t, "type2/send-after-bind", "a SEND after the bind may carry the new key", "",
      send_after_bind);
  add(t, "type2/old-key", "the key of an earlier bind is dead", "mw-variant", old_key);
  add(t, "type2/other-low-byte", "a key with another low byte is none", "mw-variant",
      other_variant);
  add(t, "type2/never-bound", "a window that was never bound refuses", "- it has no region",
      never_bound);
  add(t, "type2/uc", "bound, written and freed by SEND_WITH_INV on UC", "", uc);
  add(t, "type2/uc-local-inv", "freed by LOCAL_INV on UC: its key refuses", "mw-unbound",
      uc_local_inv);
  add(t, "type2/bound-by-xrc", "an XRC_SEND QP can bind and invalidate", "", bound_by_xrc);
}

}  // namespace guest::windows
