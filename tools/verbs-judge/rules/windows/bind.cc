// SPDX-License-Identifier: GPL-2.0-or-later
// Binds that are refused, and the state they leave unchanged.
#include <cerrno>

#include "suite.h"

namespace guest::windows {
namespace {

// Two QPs of the owner, a region, and a window: a type 1 window is bound, a type 2 window is free.
struct Scene {
  Scene(const Env& environment, ibv_mw_type type, ibv_qp_type via)
      : env(environment),
        region(env),
        path(env, {.type = via}),
        other(env),
        mw(alloc_mw(env.dev.pd(), type)),
        good{.mw = mw.get(),
             .mr = region.mr(),
             .addr = region.address(1000),
             .length = 2000,
             .new_rkey = with_variant(mw->rkey, mw->rkey + 3)} {
    if (type == IBV_MW_TYPE_1) bind(other, good);
    key = mw->rkey;
  }

  const Env& env;
  Region region;
  Path path;
  Path other;
  MwPtr mw;
  Bind good;
  std::uint32_t key = 0;

  // Checks that the window is unchanged: bound with its key, or free to be bound.
  void unchanged() {
    mw->rkey = key;  // ibv_bind_mw(3) asks the caller to restore it after a failed bind
    if (mw->type == IBV_MW_TYPE_2) {
      bind(other, good);
      key = good.new_rkey;
    }
    for (const Op op : {Op::kRead, Op::kWrite}) {
      other.allowed(region, op, key, region.address(1000), {1000, 2000});
    }
  }
  void refused(const Bind& bad) {
    bind(path, bad, IBV_WC_MW_BIND_ERR);
    unchanged();
  }
};

// Makes a good bind bad.
using Spoil = std::function<void(Bind&, Scene&)>;

void refused(const Env& env, ibv_mw_type type, const Spoil& spoil, ibv_qp_type via = IBV_QPT_RC) {
  Scene scene(env, type, via);
  Bind bad = scene.good;
  spoil(bad, scene);
  scene.refused(bad);
}

// A bind to this region is refused.
void refused_on(const Env& env, ibv_mw_type type, const RegionOptions& options, unsigned access) {
  const Region region(env, options);
  refused(env, type, [&](Bind& bad, Scene&) {
    bad.mr = region.mr();
    bad.addr = region.address(1000);
    bad.access = access;
  });
}

void read_only_region(const Env& env, ibv_mw_type type) {
  Window window(env, {.type = type,
                      .access = IBV_ACCESS_REMOTE_READ,
                      .mr_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND});
  window.allowed(Op::kRead, 0, 2000);
}

// The region needs no remote access rights of its own.
void private_region(const Env& env, ibv_mw_type type) {
  Window window(env, {.type = type, .mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND});
  window.all_work();
}

void whole_region(const Env& env, ibv_mw_type type) {
  Window window(env, {.type = type, .at = {0, 3 * 4096}});
  window.allowed(Op::kWrite, 0, 3 * 4096);
}

// ---- the PDs of QP, window and region ----

void qp_of_other_pd(const Env& env, ibv_mw_type type) {
  const PdPtr pd = alloc_pd(env.dev);
  Scene scene(env, type, IBV_QPT_RC);
  const Path foreign(env, {.pd = pd.get()});
  bind(foreign, scene.good, IBV_WC_MW_BIND_ERR);
  scene.unchanged();
}

// Only type 2: for type 1 ibv_bind_mw() itself compares the PDs of window and region.
void window_of_other_pd(const Env& env) {
  const PdPtr pd = alloc_pd(env.dev);
  const MwPtr mw = alloc_mw(pd.get(), IBV_MW_TYPE_2);
  refused(env, IBV_MW_TYPE_2, [&](Bind& bad, Scene&) {
    bad.mw = mw.get();
    bad.new_rkey = with_variant(mw->rkey, 1);
  });
}

void region_of_other_pd(const Env& env) {
  const PdPtr pd = alloc_pd(env.dev);
  refused_on(env, IBV_MW_TYPE_2, {.pd = pd.get()}, kRemoteAccess);
}

// ---- refused by libibverbs, before the device sees it ----

void arguments(const Env& env) {
  const PdPtr pd = alloc_pd(env.dev);
  const Region foreign(env, {.pd = pd.get()});
  const Path path(env);
  const Region region(env);
  const MwPtr type1 = alloc_mw(env.dev.pd(), IBV_MW_TYPE_1);
  const MwPtr type2 = alloc_mw(env.dev.pd(), IBV_MW_TYPE_2);
  ibv_mw_bind request{};
  request.bind_info = {.mr = region.mr(),
                       .addr = region.address(),
                       .length = 100,
                       .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  const std::uint32_t key = type1->rkey;
  require_refused(ibv_bind_mw(path.qp(), type2.get(), &request), EINVAL, "a type 2 window");
  request.bind_info.mr = foreign.mr();
  require_refused(ibv_bind_mw(path.qp(), type1.get(), &request), EPERM, "a region of another PD");
  request.bind_info.mr = nullptr;
  require_refused(ibv_bind_mw(path.qp(), type1.get(), &request), EINVAL,
                  "a range without a region");
  require(type1->rkey == key, "the key changed");
}

// ---- the window ----

// The window is already bound through another QP.
void not_free(const Env& env) {
  Scene scene(env, IBV_MW_TYPE_2, IBV_QPT_RC);
  bind(scene.other, scene.good);
  Bind again = scene.good;
  again.new_rkey = with_variant(scene.good.new_rkey, scene.good.new_rkey + 1);
  again.addr = scene.region.address(4096);
  bind(scene.path, again, IBV_WC_MW_BIND_ERR);
  scene.other.allowed(scene.region, Op::kWrite, scene.good.new_rkey, scene.region.address(1000),
                      {1000, 2000});
}

// Expects EINVAL; if the post works, that is a choice, or reports how the request completes.
void expect_einval(const Path& path, int err, const char* what) {
  if (err == 0) {
    if (!strict()) undecided("{}: accepted", what);
    const ibv_wc wc = poll(path.send_cq(), 1).front();
    fail("{}: 0, not EINVAL; it completes with {}", what, ibv_wc_status_str(wc.status));
  }
  require_refused(err, EINVAL, what);
}

// A type 1 window in a send request, which is for type 2 only.
void type1_by_post(const Env& env, Api api) {
  Scene scene(env, IBV_MW_TYPE_1, IBV_QPT_RC);
  Send send{.opcode = IBV_WR_BIND_MW, .wr_id = kBindId};
  send.mw = scene.mw.get();
  send.bind = scene.good.info();
  send.bind_rkey = with_variant(scene.key, scene.key + 1);
  expect_einval(scene.path, guest::post(scene.path.qp(), api, send), api_name(api));
  scene.unchanged();
}

// A program that lies about a window's type deceives only its own library, not the device.
void forged_type(const Env& env, ibv_mw_type type) {
  need_strict("a window of a forged type");
  Scene scene(env, type, IBV_QPT_RC);
  scene.mw->type = type == IBV_MW_TYPE_1 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
  Bind forged = scene.good;
  forged.new_rkey = with_variant(scene.key, scene.key + 1);
  require_err(post_bind(scene.path.qp(), forged), 0, "post of a bind");
  scene.mw->type = type;
  scene.path.done(kBindId, IBV_WC_MW_BIND_ERR);
  scene.unchanged();
}

// A bind that the provider refuses leaves the queue unchanged.
void refused_at_post(const Env& env, ibv_mw_type type, const Spoil& spoil) {
  Scene scene(env, type, IBV_QPT_RC);
  Bind bad = scene.good;
  spoil(bad, scene);
  expect_einval(scene.path, post_bind(scene.path.qp(), bad), "post of a bind");
  require(scene.mw->rkey == scene.key, "the key changed");
  scene.unchanged();
  scene.path.sync();
}

// The program sets the window's key to a value that is not the current one.
void stale_key(const Env& env) {
  Scene scene(env, IBV_MW_TYPE_1, IBV_QPT_RC);
  scene.mw->rkey = with_variant(scene.key, scene.key + 5);
  scene.refused(scene.good);
}

// A failed bind flushes the requests after it.
void flushes(const Env& env) {
  Scene scene(env, IBV_MW_TYPE_2, IBV_QPT_RC);
  Bind bad = scene.good;
  bad.length = 3UL * 4096;
  const int err = post_bind(scene.path.qp(), bad);
  if (err != 0) undecided("post of a bind: {}", errno_name(err));
  require_err(post_local_inv(scene.path.qp(), bad.new_rkey), 0, "post of LOCAL_INV");
  scene.path.done(kBindId, IBV_WC_MW_BIND_ERR);
  scene.path.done(kInvId, IBV_WC_WR_FLUSH_ERR);
  scene.unchanged();
}

void add_both(Rules& t, const char* what, const std::string& says, const std::string& rules,
              const Spoil& spoil) {
  for (const ibv_mw_type type : kBothTypes) {
    add(t, "bind/" + type_name(type) + "-" + what,
        "refused: a bind of " + type_text(type) + " to " + says, rules, refused, type, spoil,
        IBV_QPT_RC);
  }
}

void add_region_tests(Rules& t) {
  for (const ibv_mw_type type : kBothTypes) {
    const std::string name = "bind/" + type_name(type);
    const std::string text = type_text(type);
    add(t, name + "-no-mw-bind",
        "refused: a bind of " + text + " to a region without IBV_ACCESS_MW_BIND", "bind-mr-right",
        refused_on, type, RegionOptions{.access = kAllAccess}, unsigned{kRemoteAccess});
    for (const bool write : {true, false}) {
      add(t, name + (write ? "-write" : "-atomic") + "-not-writable",
          "refused: a bind of " + text + " with " + (write ? "REMOTE_WRITE" : "REMOTE_ATOMIC") +
              " to a region without LOCAL_WRITE",
          "bind-local-write", refused_on, type,
          RegionOptions{.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND},
          write ? unsigned{IBV_ACCESS_REMOTE_WRITE} : unsigned{IBV_ACCESS_REMOTE_ATOMIC});
    }
    add(t, name + "-read-only", "a bind of " + text + " to read to a region that nobody may write",
        "", read_only_region, type);
    add(t, name + "-private", text + " may have rights that its region has not", "", private_region,
        type);
    add(t, name + "-whole", text + " on the whole region", "", whole_region, type);
    add(t, name + "-qp-pd", "refused: a bind of " + text + " by a QP of another PD",
        "- window and region both are of another PD than the QP", qp_of_other_pd, type);
  }
  add(t, "bind/type2-window-pd", "refused: a bind of a type 2 window of another PD than the QP's",
      "bind-qp-pd", window_of_other_pd);
  add(t, "bind/type2-region-pd", "refused: a bind of a type 2 window to a region of another PD",
      "bind-mr-pd", region_of_other_pd);
}

void add_range_tests(Rules& t) {
  add_both(t, "range-low", "a range that begins before the region", "bind-range",
           [](Bind& bad, Scene& scene) { bad.addr = scene.region.address() - 1; });
  add_both(t, "range-high", "a range that ends after the region", "bind-range",
           [](Bind& bad, Scene& scene) { bad.addr = scene.region.address(3UL * 4096 - 1999); });
  add_both(t, "range-huge", "a range of 2^63 bytes", "bind-range",
           [](Bind& bad, Scene&) { bad.length = std::uint64_t{1} << 63; });
  add_both(t, "range-zero-based", "a range outside of the region, zero-based", "bind-range",
           [](Bind& bad, Scene& scene) {
             bad.addr = scene.region.address(3UL * 4096);
             bad.access |= IBV_ACCESS_ZERO_BASED;
           });
  add_both(t, "wrap", "a range that wraps at 2^64 into the region", "bind-wrap",
           [](Bind& bad, Scene& scene) {
             bad.addr = std::uint64_t{0} - 64;
             bad.length = scene.region.address(64) + 64;
           });
}

// Binds that name no region or window.
void add_key_tests(Rules& t) {
  add_both(t, "unknown-region", "a key that no region has",
           "- there is no region to compare anything with", [](Bind& bad, Scene& scene) {
             need_strict("a copy of a region");
             static ibv_mr gone;
             gone = *scene.region.mr();
             gone.lkey ^= 0x00555500;
             bad.mr = &gone;
           });
  add_both(t, "window-as-region", "another window", "- there is no region to compare anything with",
           [](Bind& bad, Scene& scene) {
             need_strict("a copy of a region");
             static ibv_mr window;
             window = *scene.region.mr();
             window.lkey = scene.mw->rkey;
             bad.mr = &window;
           });
  add_both(t, "unknown-window", "anything when no window has the key",
           "- there is no window to compare it with", [](Bind& bad, Scene& scene) {
             need_strict("a key that no window has");
             scene.mw->rkey ^= 0x00555500;
             bad.new_rkey ^= 0x00555500;
           });
}

}  // namespace

void add_binds(Rules& t) {
  add_region_tests(t);
  add_range_tests(t);
  add_key_tests(t);
  for (const ibv_mw_type type : kBothTypes) {
    add(t, "bind/" + type_name(type) + "-flags",
        "EINVAL: a bind of " + type_text(type) + " with another right",
        "- refused when it is posted", [type](const Env& env) {
          refused_at_post(env, type, [](Bind& bad, Scene&) { bad.access |= IBV_ACCESS_MW_BIND; });
        });
    add(t, "bind/" + type_name(type) + "-flush-right",
        "EINVAL: a bind of " + type_text(type) + " with the right to FLUSH",
        "- refused when it is posted", [type](const Env& env) {
          refused_at_post(env, type,
                          [](Bind& bad, Scene&) { bad.access |= IBV_ACCESS_FLUSH_GLOBAL; });
        });
    add(t, "bind/" + type_name(type) + "-forged",
        "refused: a bind of " + type_text(type) + " as one of the other type", "bind-type",
        forged_type, type);
  }
  add(t, "bind/type1-stale-key",
      "refused: a bind of a type 1 window by another than its current key", "bind-key", stale_key);
  add(t, "bind/type1-by-post", "EINVAL: a bind of a type 1 window by ibv_post_send",
      "- refused when it is posted", type1_by_post, Api::kPost);
  add(t, "bind/type1-by-wr", "EINVAL: a bind of a type 1 window by ibv_wr_bind_mw",
      "- refused when it is posted", type1_by_post, Api::kWr);
  add(t, "bind/type1-arguments",
      "EINVAL, EPERM: ibv_bind_mw of type 2, to another PD's region, to none",
      "- libibverbs refuses them", arguments);
  add(t, "bind/type2-not-free", "refused: a bind of a type 2 window that is bound", "bind-free",
      not_free);
  add(t, "bind/type2-zero-length", "refused: a bind of a type 2 window with length 0",
      "bind-zero-length", [](const Env& env) {
        refused(env, IBV_MW_TYPE_2, [](Bind& bad, Scene&) { bad.length = 0; });
      });
  add(t, "bind/type2-null-mr", "EINVAL: a bind of a type 2 window to no region",
      "- refused when it is posted", [](const Env& env) {
        need_strict("a null region with a type 2 window");
        refused_at_post(env, IBV_MW_TYPE_2, [](Bind& bad, Scene&) {
          bad.mr = nullptr;
          bad.addr = bad.length = 0;
        });
      });
  add(t, "bind/flush", "what was posted after a failed bind is flushed", "bind-range", flushes);
  add(t, "bind/uc", "a bind that fails on UC stops the QP, as a rule in SQE", "bind-mr-right",
      [](const Env& env) {
        const Region region(env, {.access = kAllAccess});
        refused(
            env, IBV_MW_TYPE_1,
            [&](Bind& bad, Scene&) {
              bad.mr = region.mr();
              bad.addr = region.address();
            },
            IBV_QPT_UC);
      });
}

}  // namespace guest::windows
