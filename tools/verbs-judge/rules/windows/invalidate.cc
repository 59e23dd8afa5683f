// SPDX-License-Identifier: GPL-2.0-or-later
// Refused invalidations, by LOCAL_INV and by SEND_WITH_INV, and invalidations during an access.
#include <chrono>
#include <thread>

#include "suite.h"

namespace guest::windows {
namespace {

enum class How { kLocal, kSend };
constexpr How kBothHows[] = {How::kLocal, How::kSend};

// A region with windows that `owner` has bound, and a QP that tries to invalidate them.
struct Scene {
  explicit Scene(const Env& env, ibv_pd* pd = nullptr)
      : region(env),
        owner(env),
        path(env, {.pd = pd}),
        type1(alloc_mw(env.dev.pd(), IBV_MW_TYPE_1)),
        type2(alloc_mw(env.dev.pd(), IBV_MW_TYPE_2)),
        never(alloc_mw(env.dev.pd(), IBV_MW_TYPE_2)) {
    key1 = bind(owner, on(type1.get()));
    key2 = bind(owner, on(type2.get()));
  }

  Region region;
  Path owner;
  Path path;
  MwPtr type1;
  MwPtr type2;
  MwPtr never;
  std::uint32_t key1 = 0;
  std::uint32_t key2 = 0;

  [[nodiscard]] Bind on(ibv_mw* mw) const {
    return {.mw = mw,
            .mr = region.mr(),
            .addr = region.address(1000),
            .length = 2000,
            .new_rkey = with_variant(mw->rkey, mw->rkey + 3)};
  }
  // Checks that windows and region are unchanged.
  void unchanged() {
    const Range at{.offset = 1000, .length = 2000};
    owner.allowed(region, Op::kWrite, key1, region.address(1000), at);
    owner.allowed(region, Op::kWrite, key2, region.address(1000), at);
    owner.allowed(region, Op::kWrite, region.mr()->rkey, region.address(), {0, 64});
  }
};

void refuse(const Path& path, How how, std::uint32_t key) {
  if (how == How::kLocal) {
    local_inv(path, key, IBV_WC_LOC_QP_OP_ERR);
  } else {
    path.send_inv(key, IBV_WC_REM_INV_REQ_ERR);
  }
}

using Pick = std::function<std::uint32_t(const Scene&)>;

void refused(const Env& env, How how, const Pick& key, bool other_pd = false) {
  const PdPtr pd = alloc_pd(env.dev);
  Scene scene(env, other_pd ? pd.get() : nullptr);
  refuse(scene.path, how, key(scene));
  scene.unchanged();
}

void never_bound(const Env& env, How how) {
  Scene scene(env);
  refuse(scene.path, how, scene.never->rkey);
  bind(scene.owner, scene.on(scene.never.get()));
  scene.unchanged();
}

// Invalidates a window twice, by the QP that bound it.
void twice(const Env& env, How how) {
  Scene scene(env);
  const Bind request = scene.on(scene.never.get());
  bind(scene.path, request);
  local_inv(scene.path, request.new_rkey);
  refuse(scene.path, how, request.new_rkey);
  bind(scene.owner, request);
  scene.unchanged();
}

// The QP that bound the window uses a key with another low byte.
void variant(const Env& env, How how) {
  Scene scene(env);
  const Bind request = scene.on(scene.never.get());
  bind(scene.path, request);
  refuse(scene.path, how, with_variant(request.new_rkey, request.new_rkey + 1));
  scene.type1.reset();
  scene.type2.reset();
  require(scene.region.deregister() != 0, "the window is free");
}

void of_dead_qp(const Env& env, How how) {
  Scene scene(env);
  Path dying(env);
  const Bind request = scene.on(scene.never.get());
  bind(dying, request);
  dying.destroy_qp();
  refuse(scene.path, how, request.new_rkey);
  scene.unchanged();
}

void uc_state(const Env& env) {
  need_uc_local_inv(env);
  Scene scene(env);
  const Path uc(env, {.type = IBV_QPT_UC});
  local_inv(uc, scene.key1, IBV_WC_LOC_QP_OP_ERR);
  scene.unchanged();
}

void uc_send(const Env& env) {
  Scene scene(env);
  const Path uc(env, {.type = IBV_QPT_UC});
  uc.send_inv(scene.key2, IBV_WC_REM_INV_REQ_ERR);
  scene.unchanged();
}

// ---- invalidation during an access ----

constexpr std::uint32_t kLong = 32U << 20;
constexpr int kTries = 20;

struct Transfer {
  explicit Transfer(const Env& env)
      : region(env, {.length = kLong}),
        path(env, {.peer_memory = kLong}),
        mw(alloc_mw(env.dev.pd(), IBV_MW_TYPE_2)) {}

  Region region;
  Path path;
  MwPtr mw;
  std::uint32_t key = 0;

  void start(ibv_wr_opcode opcode) {
    Bind all{.mw = mw.get(), .mr = region.mr(), .addr = region.address(), .length = kLong};
    all.new_rkey = key = with_variant(mw->rkey, key + 1);
    bind(path, all);
    path.peer().post(
        {.opcode = opcode, .wr_id = 5, .raddr = region.address(), .rkey = all.new_rkey},
        {0, kLong});
  }
};

void wait_until(const std::function<bool()>& begun) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!begun()) {
    require(std::chrono::steady_clock::now() < end, "the transfer does not begin");
    std::this_thread::yield();
  }
}

// A READ must not return data written to the region after the invalidation completed.
void read_under_way(const Env& env) {
  Transfer x(env);
  for (int i = 0; i < kTries; i++) {
    x.path.peer().fill({0, 8}, 99);
    const std::uint64_t before = x.path.peer().load64(0);
    x.start(IBV_WR_RDMA_READ);
    wait_until([&] { return x.path.peer().load64(0) != before; });
    local_inv(x.path, x.key);
    x.region.fill({0, kLong}, 1000);
    const ibv_wc_status status = x.path.peer().poll_send(1).front().status;
    const std::uint64_t last = x.path.peer().load64(kLong - 8);
    require(last != x.region.expected64(kLong - 8), "bytes moved after the invalidation");
    if (status != IBV_WC_SUCCESS) {
      require(status == IBV_WC_REM_ACCESS_ERR, "READ: {}", ibv_wc_status_str(status));
      x.path.expect_owner_error(IBV_EVENT_QP_ACCESS_ERR);
      return;
    }
    x.region.fill({0, kLong}, 2000 + static_cast<std::uint64_t>(i));
  }
  undecided("no READ of {} was caught under way", kTries);
}

// A WRITE must not store anything after the invalidation completed.
void write_under_way(const Env& env) {
  Transfer x(env);
  for (int i = 0; i < kTries; i++) {
    x.region.fill({0, kLong}, 3000 + static_cast<std::uint64_t>(i));
    x.path.peer().fill({0, kLong}, 4000 + static_cast<std::uint64_t>(i));
    const std::uint64_t before = x.region.first64();
    x.start(IBV_WR_RDMA_WRITE);
    wait_until([&] { return x.region.first64() != before; });
    local_inv(x.path, x.key);
    const std::vector<std::byte> then = x.region.load();
    const ibv_wc_status status = x.path.peer().poll_send(1).front().status;
    require(x.region.load() == then, "bytes moved after the invalidation");
    if (status != IBV_WC_SUCCESS) {
      require(status == IBV_WC_REM_ACCESS_ERR, "WRITE: {}", ibv_wc_status_str(status));
      x.path.expect_owner_error(IBV_EVENT_QP_ACCESS_ERR);
      return;
    }
  }
  undecided("no WRITE of {} was caught under way", kTries);
}

}  // namespace

void add_invalidations(Rules& t) {
  constexpr const char* kCrashes = "Soft-RoCE of Linux 6.12 dereferences a null pointer";
  for (const How how : kBothHows) {
    const std::string name = how == How::kLocal ? "local-inv/" : "send-inv/";
    const std::string text =
        how == How::kLocal ? "refused: LOCAL_INV of " : "refused: SEND_WITH_INV of ";
    const auto add_pick = [&](const char* what, const char* of, const char* rules,
                              const Pick& pick) {
      add(t, name + what, text + of, rules, refused, how, pick, false);
    };
    add(t, name + "never-bound", text + "a window that was never bound", "inv-free", never_bound,
        how);
    t.back().risk = kCrashes;
    add(t, name + "twice", text + "a window that is free again", "inv-free", twice, how);
    t.back().risk = kCrashes;
    add_pick("type1", "a type 1 window", "inv-type", [](const Scene& s) { return s.key1; });
    add_pick("other-qp", "another QP's window", "inv-qp", [](const Scene& s) { return s.key2; });
    add(t, name + "other-pd", text + "another PD's window", "inv-pd",
        [how](const Env& env) { refused(env, how, [](const Scene& s) { return s.key2; }, true); });
    add(t, name + "low-byte", text + "a key with another low byte", "inv-variant,mr-busy", variant,
        how);
    add(t, name + "dead-qp", text + "a window of a QP that is gone", "inv-qp", of_dead_qp, how);
    t.back().risk = kCrashes;
    add_pick("unknown", "a key of nothing", "- there is nothing to compare it with",
             [](const Scene& s) { return s.key2 ^ 0x00555500; });
    add_pick("region", "the key of a region that windows are bound to",
             "- a process's regions cannot be invalidated at all",
             [](const Scene& s) { return s.region.mr()->rkey; });
  }
  add(t, "local-inv/uc", "refused: LOCAL_INV of a type 1 window on UC, which stops the QP",
      "inv-type", uc_state);
  add(t, "send-inv/uc", "refused: SEND_WITH_INV of another QP's window on UC", "inv-qp", uc_send);
  add(t, "under-way/read", "a READ under way stops when its window is invalidated", "mw-unbound",
      read_under_way);
  add(t, "under-way/write", "a WRITE under way stops when its window is invalidated", "mw-unbound",
      write_under_way);
}

}  // namespace guest::windows
