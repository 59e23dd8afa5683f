// SPDX-License-Identifier: GPL-2.0-or-later
// PDs that are in use, and objects of one PD used with those of another.
#include <cerrno>
#include <functional>

#include "loop.h"
#include "protection.h"

namespace guest::protection {
namespace {

constexpr std::uint32_t kLength = 256;

// Deallocates a PD while the object that `make` creates in it exists, and after that.
template <typename Make>
void busy(const Env& env, const char* what, bool may_succeed, const Make& make) {
  PdPtr pd = alloc_pd(env.dev);
  {
    const auto object = make(pd.get());
    require(object != nullptr, "{}: {}", what, errno_name(errno));
    const int err = ibv_dealloc_pd(pd.get());
    if (err == 0) static_cast<void>(pd.release());
    if (!may_succeed) {
      require_refused(err, EBUSY, what);
    } else if (!usually_refused(err, EBUSY, what)) {
      return;
    }
    const Memory memory(pd.get(), kLength, kAllAccess);
  }
  require_err(ibv_dealloc_pd(pd.release()), 0, "ibv_dealloc_pd of an empty PD");
}

void busy_with_region(const Env& env) {
  const Map map(4096);
  busy(env, "a PD with a region", false,
       [&](ibv_pd* pd) { return try_reg(pd, map.at(), map.length(), kAllAccess); });
}

void busy_with_qp(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 16);
  busy(env, "a PD with a QP", false, [&](ibv_pd* pd) {
    QpSpec spec{.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get()};
    return try_create_qp(env.dev, spec);
  });
}

void busy_with_srq(const Env& env) {
  if (env.dev.attr().max_srq == 0) skip("max_srq is 0");
  busy(env, "a PD with an SRQ", false, [&](ibv_pd* pd) {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    return SrqPtr(ibv_create_srq(pd, &attr));
  });
}

void busy_with_window(const Env& env) {
  need_windows(env.dev.context());
  const bool one = (env.dev.attr().device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0;
  busy(env, "a PD with a window", false,
       [&](ibv_pd* pd) { return MwPtr(ibv_alloc_mw(pd, one ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2)); });
}

// Some libraries keep address handles without the kernel.
void busy_with_ah(const Env& env) {
  if (env.dev.iwarp()) skip("iWARP has no address handles");
  ibv_ah_attr attr = path_to_itself(env.dev);
  busy(env, "a PD with an address handle", true,
       [&](ibv_pd* pd) { return AhPtr(ibv_create_ah(pd, &attr)); });
}

// A SEND of a QP from a region of another PD; nothing arrives.
void send(const Env& env, const Type& type) {
  PairOptions options = alike({.type = type.type, .memory = 4096});
  options.local.foreign_pd = true;
  const Pair pair(env.dev, options);
  pair.remote.fill({0, 4096}, 1);
  pair.recv(5, 0, kLength);
  pair.run(pair.request(IBV_WR_SEND, kLength), Api::kPost, IBV_WC_LOC_PROT_ERR);
  pair.remote.expect_quiet(20);
  pair.remote.check({0, 4096}, 1);
}

// A receive into a region of another PD. The sender of an unreliable QP learns nothing of it.
void receive(const Env& env, const Type& type) {
  PairOptions options = alike({.type = type.type, .memory = 4096});
  options.remote.foreign_pd = true;
  const Pair pair(env.dev, options);
  pair.remote.fill({0, 4096}, 1);
  pair.recv(5, 0, kLength);
  pair.run(pair.request(IBV_WR_SEND, kLength), Api::kPost,
           is_reliable(type.type) ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
  pair.expect_recv(5, IBV_WC_LOC_PROT_ERR);
  pair.remote.check({0, 4096}, 1);
}

// An SRQ in a PD of its own. Receives use keys of one of both PDs; devices differ in which.
void srq(const Env& env) {
  if (env.dev.attr().max_srq == 0) skip("max_srq is 0");
  const PdPtr pd = alloc_pd(env.dev);
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  const Memory source(env.dev.pd(), kLength, kAllAccess);
  const Memory of_qp(env.dev.pd(), kLength, kAllAccess), of_srq(pd.get(), kLength, kAllAccess);
  int works = 0;
  for (const Memory* memory : {&of_qp, &of_srq}) {
    const SrqPtr srq(ibv_create_srq(pd.get(), &attr));
    require(srq != nullptr, "ibv_create_srq: {}", errno_name(errno));
    const CqPtr cq = create_cq(env.dev, 16);
    EndSpec spec{.memory = 0, .send_cq = cq.get(), .recv_cq = cq.get(), .use_srq = srq.get()};
    const Pair pair(env.dev, alike(spec));
    fill(source.bytes(), 3);
    fill(memory->bytes(), 4);
    require_err(post_srq_recv(srq.get(), 5, memory->sge(0, kLength)), 0, "a receive");
    pair.post({.sges = {source.sge(0, kLength)}, .wr_id = 6});
    bool came = true;
    for (const ibv_wc& wc : poll(cq.get(), 2)) came = came && wc.status == IBV_WC_SUCCESS;
    require(!mismatch(memory->bytes(), came ? 3 : 4), "{}",
            came ? "other bytes came" : "a refused message moved bytes");
    works += came ? 1 : 0;
    if (came && memory == &of_qp) require_usual(false, "an SRQ uses keys of its QP's PD");
  }
  require(works == 1, "keys of {} PDs work in one SRQ", works);
}

// Documents want the PDs to agree; many devices do not compare them.
void address_handle(const Env& env) {
  const Pair pair(env.dev, alike({.type = IBV_QPT_UD}));
  const PdPtr pd = alloc_pd(env.dev);
  ibv_ah_attr attr = path_to_itself(env.dev);
  const AhPtr ah(ibv_create_ah(pd.get(), &attr));
  require(ah != nullptr, "ibv_create_ah: {}", errno_name(errno));
  pair.recv(5, 0, kLength);
  Send send = pair.request(IBV_WR_SEND, kLength);
  send.ah = ah.get();
  const int err = post(pair.local.qp(), Api::kPost, send);
  require_usual(err == 0, "an address handle of another PD: {}", errno_name(err));
  if (err != 0) return;
  const ibv_wc_status status = poll(pair.local.send_cq(), 1).front().status;
  require_usual(status == IBV_WC_SUCCESS, "an address handle of another PD: {}",
                ibv_wc_status_str(status));
}

// A region that works for its PD after QPs of another one were refused.
void region_survives(const Env& env) {
  const PdPtr pd = alloc_pd(env.dev);
  const Memory memory(env.dev.pd(), 4096, kAllAccess), foreign(pd.get(), 4096, kAllAccess);
  for (int round = 0; round < 5; round++) {
    const Loop stranger(env.dev, 4, nullptr, pd.get());
    const ibv_wc_status status =
        stranger.run(write_from(foreign.sge(0, 8), memory.address(), memory.rkey()));
    require(status == IBV_WC_REM_ACCESS_ERR, "a WRITE of another PD: {}",
            ibv_wc_status_str(status));
    const Loop owner(env.dev, 4);
    owner.must(write_from(memory.sge(0, 8), memory.address(100), memory.rkey()), "a WRITE");
  }
}

Rules of_types() {
  Rules rules;
  for (const Type& type : kTypes) {
    rules.push_back({std::string("send-") + type.name,
                     std::string(type.name) + ": a SEND from a region of another PD is refused",
                     [&type](const Env& env) { send(env, type); }});
    rules.push_back(
        {std::string("receive-") + type.name,
         std::string(type.name) + ": a receive into a region of another PD: IBV_WC_LOC_PROT_ERR",
         [&type](const Env& env) { receive(env, type); }});
  }
  return rules;
}

}  // namespace

Rules domains() {
  Rules rules = {
      {"busy-region", "a PD with a region in it cannot be deallocated", busy_with_region},
      {"busy-qp", "a PD with a QP in it cannot be deallocated", busy_with_qp},
      {"busy-srq", "a PD with an SRQ in it cannot be deallocated", busy_with_srq},
      {"busy-window", "a PD with a window in it cannot be deallocated", busy_with_window},
      {"busy-ah", "a PD with an address handle in it cannot be deallocated", busy_with_ah},
      {"srq", "an SRQ takes keys of one PD", srq},
      {"ah", "an address handle of another PD works or is refused", address_handle},
      {"region-survives", "a region works on after a QP of another PD was refused",
       region_survives},
  };
  append(rules, of_types(), "");
  return rules;
}

}  // namespace guest::protection
