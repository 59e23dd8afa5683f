// SPDX-License-Identifier: GPL-2.0-or-later
// Conditions for an access through a window: range, rights, PD and QP.
#include <algorithm>

#include "suite.h"

namespace guest::windows {
namespace {

// ---- range, exact to the byte ----

void exact(const Env& env, const Form& form) {
  Window window(env, form);
  const std::uint32_t length = form.at.length;
  for (const Op op : {Op::kRead, Op::kWrite, Op::kWriteImm}) {
    window.allowed(op, 0, length);
    window.allowed(op, 0, 1);
    window.allowed(op, length - 1, 1);
  }
  for (const Op op : {Op::kCmpSwap, Op::kFetchAdd}) {
    window.allowed(op, 0, 8);
    window.allowed(op, length - 8, 8);
  }
}

// The window starts inside the atomic's word; the region contains the whole word.
void low(const Env& env, Form form) {
  form.at = {1004, 2000};
  for (const Op op : kAllOps) {
    const Window window(env, form);
    const std::int64_t below = !is_atomic(op) ? -1 : form.zero_based ? -8 : -4;
    window.denied(op, below, 8);
  }
  if (!form.zero_based) {
    const Window window(env, form);
    window.denied(Op::kWrite, window.key, window.region.address(), 8);
  }
}

void high(const Env& env, Form form) {
  form.at = {1000, 2004};
  for (const Op op : kAllOps) {
    const Window window(env, form);
    window.denied(op, is_atomic(op) ? 2000 : 2004 - 7, 8);
  }
  for (const Op op : {Op::kRead, Op::kWrite}) {
    Window window(env, form);
    window.denied(op, 0, 2005);
    const Window another(env, form);
    another.denied(op, 2004, 1);
  }
}

// The first packets of the message are within the window.
void long_message(const Env& env, Form form) {
  form.at = {1000, 6000};
  for (const Op op : {Op::kRead, Op::kWrite}) {
    const Window window(env, form);
    window.denied(op, 0, 6001);
  }
}

// Addresses near 2^64; the end of the range wraps around into the window.
void wrap(const Env& env, Form form) {
  form.iova = 4096;
  for (const Op op : {Op::kRead, Op::kWrite, Op::kWriteImm}) {
    const Window window(env, form);
    const auto first = static_cast<std::uint32_t>(window.address());
    window.denied(op, window.key, ~std::uint64_t{0} - 7, first + 16);
  }
}

// The last byte of the address space can be accessed like any other.
void top(const Env& env, Form form) {
  constexpr std::uint64_t kRegion = 3UL * 4096;
  form.iova = std::uint64_t{0} - kRegion;
  form.at = {kRegion - 2000, 2000};
  Window window(env, form);
  window.allowed(Op::kWrite, 0, form.at.length);
  window.allowed(Op::kRead, 1992, 8);
  window.denied(Op::kWrite, 1993, 8);
}

void add_range_tests(Rules& t) {
  for (const NamedForm& f : kForms) {
    const Form& form = f.form;
    const std::string name = std::string("range/") + f.name;
    const std::string window = f.text;
    add(t, name + "-exact", "the first and the last byte of " + window + " can be reached", "",
        exact, form);
    add(t, name + "-low", "one byte below " + window + " is out of reach",
        form.zero_based ? "mw-wrap,mw-high" : "mw-low", low, form);
    add(t, name + "-high", "one byte beyond " + window + " is out of reach", "mw-high", high, form);
    add(t, name + "-long", "a message that ends beyond " + window + " moves nothing", "mw-high",
        long_message, form);
    add(t, name + "-wrap", "an access of " + window + " does not wrap at 2^64", "mw-wrap", wrap,
        form);
  }
  add(t, "range/type1-top", "a window that ends at 2^64", "mw-wrap",
      [](const Env& env) { top(env, kForms[0].form); });
  for (const ibv_qp_type via : {IBV_QPT_UC, IBV_QPT_XRC_RECV}) {
    const bool uc = via == IBV_QPT_UC;
    for (const bool below : {true, false}) {
      add(t, std::string("range/type1") + (uc ? "-uc" : "-xrc") + (below ? "-low" : "-high"),
          std::string("one byte ") + (below ? "below" : "beyond") +
              " a type 1 window is out of reach for " + (uc ? "UC" : "an XRC target"),
          below ? "mw-low" : "mw-high", [via, below](const Env& env) {
            for (const Op op : {Op::kWrite, Op::kWriteImm}) {
              const Window window(env, {.type = IBV_MW_TYPE_1, .via = via});
              window.denied(op, below ? -1 : 1993, 8);
            }
          });
    }
  }
}

// ---- rights ----

void without(const Env& env, ibv_mw_type type, unsigned right, ibv_qp_type via) {
  for (const Op op : ops_of(via)) {
    const unsigned needs = is_atomic(op)     ? IBV_ACCESS_REMOTE_ATOMIC
                           : op == Op::kRead ? IBV_ACCESS_REMOTE_READ
                                             : IBV_ACCESS_REMOTE_WRITE;
    Window window(
        env, {.type = type, .via = via, .access = static_cast<unsigned>(kRemoteAccess) & ~right});
    if ((needs & right) != 0) {
      window.denied(op, 0, 8);
    } else {
      window.allowed(op, 0, 8);
    }
  }
}

void add_right_tests(Rules& t) {
  struct Right {
    unsigned bit;
    const char* name;
    const char* text;
  };
  constexpr Right kRights[] = {{IBV_ACCESS_REMOTE_READ, "read", "READ"},
                               {IBV_ACCESS_REMOTE_WRITE, "write", "WRITE"},
                               {IBV_ACCESS_REMOTE_ATOMIC, "atomic", "ATOMIC"}};
  for (const ibv_mw_type type : kBothTypes) {
    for (const Right& right : kRights) {
      add(t, "rights/" + type_name(type) + "-" + right.name,
          type_text(type) + " without IBV_ACCESS_REMOTE_" + right.text +
              " refuses that, and the rest works",
          std::string("mw-") + right.name, without, type, right.bit, IBV_QPT_RC);
    }
    add(t, "rights/" + type_name(type) + "-none",
        type_text(type) + " with no right refuses everything", "mw-read,mw-write,mw-atomic",
        without, type, unsigned{kRemoteAccess}, IBV_QPT_RC);
    add(t, "rights/" + type_name(type) + "-uc-write",
        type_text(type) + " without REMOTE_WRITE refuses it on UC", "mw-write", without, type,
        IBV_ACCESS_REMOTE_WRITE, IBV_QPT_UC);
  }
}

// FLUSH and ATOMIC WRITE, by the rights they need.

// The region can be flushed by its own key, but not through the window.
void flush(const Env& env, const Form& form) {
  Window window(env, form);
  const Range at{.offset = form.at.offset, .length = 64};
  window.all_work();
  window.path.allowed(window.region, Op::kFlush, window.region.mr()->rkey,
                      window.region.address(at.offset), at);
  window.denied(Op::kFlush, 0, 64);
}

// REMOTE_WRITE access is both sufficient and necessary.
void atomic_write(const Env& env, Form form) {
  form.access = IBV_ACCESS_REMOTE_WRITE;
  Window window(env, form);
  for (const std::uint32_t at : {0U, form.at.length - 8}) window.allowed(Op::kAtomicWrite, at, 8);
  form.access = static_cast<unsigned>(kRemoteAccess) & ~unsigned{IBV_ACCESS_REMOTE_WRITE};
  const Window closed(env, form);
  closed.denied(Op::kAtomicWrite, 0, 8);
}

// The window starts and ends within words of the region.
void atomic_write_range(const Env& env, Form form) {
  form.at = {1004, 2000};
  for (const std::int64_t at : {-4, 1996}) {
    const Window window(env, form);
    window.denied(Op::kAtomicWrite, at, 8);
  }
}

void add_built_tests(Rules& t) {
  const auto add_form = [&t](ibv_mw_type type, ibv_qp_type via) {
    const bool xrc = via == IBV_QPT_XRC_RECV;
    const Form form{.type = type, .via = via, .flushes = true};
    const std::string name = type_name(type) + (xrc ? "-xrc" : "");
    const std::string text = type_text(type) + (xrc ? " by an XRC target" : "");
    add(t, "rights/" + name + "-flush",
        "FLUSH through " + text + " is refused, of its region it is not", "mw-flush", flush, form);
    add(t, "rights/" + name + "-atomic-write",
        "ATOMIC WRITE through " + text + " needs IBV_ACCESS_REMOTE_WRITE", "mw-write", atomic_write,
        form);
    add(t, "range/" + name + "-atomic-write",
        "ATOMIC WRITE of a word that lies half in " + text + " is refused", "mw-low,mw-high",
        atomic_write_range, form);
  };
  add_form(IBV_MW_TYPE_1, IBV_QPT_RC);
  add_form(IBV_MW_TYPE_2, IBV_QPT_RC);
  add_form(IBV_MW_TYPE_1, IBV_QPT_XRC_RECV);
}

// ---- PD and QP ----

// A path that did not bind the window, in the same PD or in another.
void by_another(const Env& env, ibv_mw_type type, ibv_qp_type via, bool other_pd) {
  const PdPtr pd = alloc_pd(env.dev);
  for (const Op op : ops_of(via)) {
    Window window(env, {.type = type});
    const Path path(env, {.type = via, .pd = other_pd ? pd.get() : nullptr});
    path.denied(window.region, op, window.key, window.address(), 8);
    window.all_work();
  }
}

// Nobody can use a type 2 window bound by an XRC_SEND QP, since XRC targets are other QPs.
void bound_by_xrc(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_2});
  const End sender = xrc_sender(env, window.path);
  const MwPtr mw = alloc_mw(env.dev.pd(), IBV_MW_TYPE_2);
  const std::uint32_t key = bind_by(sender, window, mw.get());
  window.denied(Op::kWrite, key, window.address(), 8);
  const Path target(env, {.type = IBV_QPT_XRC_RECV});
  target.denied(window.region, Op::kWrite, key, window.address(), 8);
}

void add_owner_tests(Rules& t) {
  struct Via {
    ibv_qp_type type;
    const char* suffix;
    const char* text;
  };
  constexpr Via kVias[] = {{IBV_QPT_RC, "", "a QP"},
                           {IBV_QPT_UC, "-uc", "a UC QP"},
                           {IBV_QPT_XRC_RECV, "-xrc", "an SRQ of an XRC target"}};
  for (const Via& via : kVias) {
    add(t, std::string("pd/type1") + via.suffix,
        std::string(via.text) + " of another PD cannot use a type 1 window", "mw-pd", by_another,
        IBV_MW_TYPE_1, via.type, true);
  }
  for (const Via& via : kVias) {
    add(t, std::string("qp/type2") + via.suffix,
        std::string(via.type == IBV_QPT_XRC_RECV ? "an XRC target" : via.text) +
            " of the same PD cannot use another QP's type 2 window",
        "mw-qp", by_another, IBV_MW_TYPE_2, via.type, false);
  }
  add(t, "qp/type2-other-pd", "a QP of another PD cannot use a type 2 window", "mw-pd", by_another,
      IBV_MW_TYPE_2, IBV_QPT_RC, true);
  add(t, "qp/type2-bound-by-xrc", "a type 2 window bound by an XRC_SEND QP answers nobody", "mw-qp",
      bound_by_xrc);
}

// ---- other uses of a window's key ----

void as_lkey(const Env& env, ibv_mw_type type) {
  const Window window(env, {.type = type});
  Send send{.opcode = IBV_WR_SEND, .wr_id = 1};
  send.sges = {{.addr = window.address(), .length = 8, .lkey = window.key}};
  window.path.post(send);
  window.path.done(1, IBV_WC_LOC_PROT_ERR);
}

void qp_rights(const Env& env) {
  struct Case {
    Op op;
    int right;
  };
  for (const Case c :
       {Case{Op::kRead, IBV_ACCESS_REMOTE_READ}, Case{Op::kWrite, IBV_ACCESS_REMOTE_WRITE},
        Case{Op::kFetchAdd, IBV_ACCESS_REMOTE_ATOMIC}}) {
    const Window window(env, {.type = IBV_MW_TYPE_1});
    const Path path(env, {.qp_access = kRemoteAccess & ~c.right});
    path.denied(window.region, c.op, window.key, window.address(), 8, IBV_WC_REM_INV_REQ_ERR);
  }
}

void zero_length(const Env& env) {
  Window window(env, {.type = IBV_MW_TYPE_1});
  const std::uint32_t old = window.key;
  window.rebind(window.request());
  for (const Op op : {Op::kRead, Op::kWrite}) {
    window.path.allowed(window.region, op, old, window.address(), {1000, 0});
  }
}

}  // namespace

void add_access(Rules& t) {
  add_range_tests(t);
  add_right_tests(t);
  add_built_tests(t);
  add_owner_tests(t);
  for (const ibv_mw_type type : kBothTypes) {
    add(t, "access/" + type_name(type) + "-as-lkey",
        "a window's key is no lkey: IBV_WC_LOC_PROT_ERR",
        "- a rule of local accesses: lkeys name regions", as_lkey, type);
  }
  add(t, "access/qp-rights", "the QP's rights count too: IBV_WC_REM_INV_REQ_ERR",
      "- a rule of the QP, before its key is looked at", qp_rights);
  add(t, "access/zero-length", "of an access of no bytes the key is not checked", "", zero_length);
}

}  // namespace guest::windows
