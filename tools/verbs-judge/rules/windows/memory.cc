// SPDX-License-Identifier: GPL-2.0-or-later
// Windows on zero-based regions and on device memory.
#include <cerrno>

#include "suite.h"

namespace guest::windows {
namespace {

void zero_based_region(const Env& env, Form form) {
  form.iova = 0;
  Window window(env, form);
  window.all_work();
  window.denied(Op::kWrite, 1993, 8);
}

void works(const Env& env, Form form, ibv_qp_type via) {
  form.via = via;
  Window window(env, form);
  window.all_work();
  for (const Op op : {Op::kWrite, Op::kRead}) {
    if (via == IBV_QPT_RC) {
      window.allowed(op, 0, form.at.length);
    }
  }
}

void low(const Env& env, const Form& form) {
  for (const Op op : kAllOps) {
    const Window window(env, form);
    window.denied(op, is_atomic(op) ? -8 : -1, 8);
  }
}

void high(const Env& env, const Form& form) {
  for (const Op op : kAllOps) {
    const Window window(env, form);
    window.denied(op, is_atomic(op) ? 2000 : 1993, 8);
  }
}

void rights(const Env& env, Form form) {
  form.access = IBV_ACCESS_REMOTE_READ;
  for (const Op op : {Op::kWrite, Op::kWriteImm, Op::kFetchAdd}) {
    Window window(env, form);
    window.allowed(Op::kRead, 0, form.at.length);
    window.denied(op, 0, 8);
  }
}

// The bind's range ends one byte beyond the region.
void out_of_region(const Env& env, const Form& form) {
  const Window window(env, form);
  const Path path(env);
  const MwPtr mw = alloc_mw(env.dev.pd(), form.type);
  Bind bad = window.request();
  bad.mw = mw.get();
  bad.addr = window.region.address(3UL * 4096 - 1999);
  bad.new_rkey = with_variant(mw->rkey, 1);
  bind(path, bad, IBV_WC_MW_BIND_ERR);
  window.region.check("the bind");
}

void busy(const Env& env, const Form& form) {
  Window window(env, form);
  require_refused(window.region.deregister(), EBUSY, "ibv_dereg_mr");
  // Others may free memory under a region.
  if (strict()) {
    require_refused(ibv_free_dm(window.region.device_memory()), EBUSY, "ibv_free_dm");
  }
  window.all_work();
  window.mw.reset();
  require_err(window.region.deregister(), 0, "ibv_dereg_mr");
}

void revoked(const Env& env, const Form& form) {
  Window window(env, form);
  window.all_work();
  if (form.type == IBV_MW_TYPE_2) {
    local_inv(window.path, window.key);
  } else {
    Bind nothing = window.request();
    nothing.length = 0;
    window.rebind(nothing);
  }
  window.denied(Op::kWrite, 0, 8);
}

}  // namespace

void add_memory(Rules& t) {
  for (const NamedForm& f : kForms) {
    add(t, std::string("zero-based/") + f.name, std::string(f.text) + " on a zero-based region",
        "mw-high", zero_based_region, f.form);
  }
  for (const NamedForm& f : kForms) {
    Form form = f.form;
    form.device_memory = true;
    const std::string name = std::string("dm/") + f.name;
    const std::string text = std::string(f.text) + " on device memory";
    add(t, name, text + ": every operation", "", works, form, IBV_QPT_RC);
    add(t, name + "-low", text + ": one byte below is out of reach",
        form.zero_based ? "mw-wrap,mw-high" : "mw-low", low, form);
    add(t, name + "-high", text + ": one byte beyond is out of reach", "mw-high", high, form);
    if (form.zero_based) continue;
    add(t, name + "-uc", text + ": WRITE on UC", "", works, form, IBV_QPT_UC);
    add(t, name + "-rights", text + ": what it may be used for", "mw-write,mw-atomic", rights,
        form);
    add(t, name + "-range", text + ": stays in its region", "bind-range", out_of_region, form);
    add(t, name + "-busy", text + ": ibv_dereg_mr fails, as ibv_free_dm does as a rule", "mr-busy",
        busy, form);
    add(t, name + "-revoked", text + ": refuses when it was taken back", "mw-unbound", revoked,
        form);
  }
}

}  // namespace guest::windows
