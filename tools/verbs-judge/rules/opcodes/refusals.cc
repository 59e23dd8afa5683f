// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that are refused when posted: the errno, and the fate of the requests around them.
#include <cerrno>

#include "opcodes.h"

namespace guest::opcodes {
namespace {

// One request more than the queue has slots. A polled completion frees a slot; a device may also
// free it before, or have more slots than it tells.
void full(const Pair& pair, Api api) {
  const std::size_t slots = pair.local.cap().max_send_wr;
  if (slots + 2 > static_cast<std::size_t>(pair.local.send_cq()->cqe)) {
    undecided("{} requests are more than the CQ holds", slots);
  }
  // Datagrams need no receive; others would wait for it.
  const bool datagrams = pair.local.spec().type == IBV_QPT_UD;
  const std::vector<Send> sends(
      slots + 1, pair.request(datagrams ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 8, 0, 0, 1));
  std::size_t bad = 0;
  std::size_t posted = slots;
  const int err = post(pair.local.qp(), api, sends, &bad);
  if (!usually_refused(err, ENOMEM, api_name(api))) {
    posted++;
  } else if (api == Api::kWr) {
    expect_quiet(pair.local.send_cq(), 5);
    require_err(post(pair.local.qp(), api, std::span(sends).first(slots)), 0, api_name(api));
  } else {
    require_bad(bad, slots);
  }
  if (!usually_refused(post(pair.local.qp(), api, sends[0]), ENOMEM, "before a poll")) posted++;
  for (std::size_t i = 0; i < posted; i++) pair.expect(1);
  pair.post(sends[0], api);
  pair.expect(1);
}

void sges(const Pair& pair, Api api) {
  Send s = pair.request(IBV_WR_SEND, 8, 0, 0, 2);
  s.sges.assign(pair.local.cap().max_send_sge + 1, s.sges[0]);
  check_refusal(pair, api, s, EINVAL, IfAccepted::kMayWork);
}

void atomic_sges(const Pair& pair, Api api) {
  Send s = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0, 0, 2);
  s.sges.push_back(s.sges[0]);
  check_refusal(pair, api, s, EINVAL, IfAccepted::kMayWork);
}

void inline_data(const Pair& pair, Api api) {
  Send s = pair.request(IBV_WR_SEND, pair.local.cap().max_inline_data + 1, 0, 0, 2);
  s.flags |= IBV_SEND_INLINE;
  check_refusal(pair, api, s, EINVAL, IfAccepted::kMayWork);
}

void closed(const Device& dev, const Type& type, Api api) {
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
    PairOptions options = loop(type.type);
    options.connect = false;
    Pair pair(dev, options);
    pair.connect(state);
    std::size_t bad = 7;
    const Send s = pair.request(IBV_WR_SEND, 8, 0, 0, 1);
    const int err = post(pair.local.qp(), api, std::span(&s, 1), &bad);
    if (usually_refused(err, EINVAL, "a post below RTS") && api == Api::kPost) require_bad(bad, 0);
    expect_quiet(pair.local.send_cq(), 2);
  }
}

void flushed(const Pair& pair, Api api) {
  require_err(to_state(pair.local.qp(), IBV_QPS_ERR), 0, "to ERR");
  pair.post(pair.request(IBV_WR_SEND, 8, 0, 0, 1), api);
  pair.expect(1, IBV_WC_WR_FLUSH_ERR);
}

void no_address(const Pair& pair, Api api) {
  need_strict("a null address handle");
  Send s = pair.request(IBV_WR_SEND, 8, 0, 0, 2);
  s.ah = nullptr;
  check_refusal(pair, api, s, EINVAL, IfAccepted::kMustFail);
}

// Binds of a window of the other type, with a right that windows lack, or without a region; binds
// and invalidations with inline data.
void windows(const Device& dev, const Type& type, Api api) {
  need_windows(dev.context(), IBV_MW_TYPE_2);
  if (type.type == IBV_QPT_XRC_SEND) need_xrc(dev.context());
  const std::uint64_t ops =
      api == Api::kWr ? kWindowOps & ~std::uint64_t{IBV_QP_EX_WITH_LOCAL_INV} : 0;
  if (ops != 0 && !dev.supports(type.type, ops)) return;
  const auto check = [&](ibv_mw_type kind, const auto& spoil) {
    const Pair pair(dev, loop(type.type, ops));
    const MwPtr mw = alloc_mw(dev.pd(), kind);
    Send s = bind_request(mw.get(), pair.local.memory(), 1, 2, 8, 0);
    spoil(s);
    check_refusal(pair, api, s, EINVAL, IfAccepted::kMayWork);
  };
  check(IBV_MW_TYPE_2, [](Send& s) { s.bind.mw_access_flags |= IBV_ACCESS_MW_BIND; });
  if (strict()) check(IBV_MW_TYPE_2, [](Send& s) { s.bind = {}; });
  if (api == Api::kPost) {
    check(IBV_MW_TYPE_2, [](Send& s) { s.flags |= IBV_SEND_INLINE; });
    check(IBV_MW_TYPE_2, [](Send& s) {
      s.flags |= IBV_SEND_INLINE;
      s.opcode = IBV_WR_LOCAL_INV;
    });
  }
  check(IBV_MW_TYPE_1, [](Send&) {});
}

// A bind that ibv_bind_mw() refuses leaves the window's key unchanged. libibverbs itself refuses a
// window of type 2, and a range without a region.
void bind_verb(const Device& dev, const Type& type) {
  need_windows(dev.context(), IBV_MW_TYPE_1);
  const auto refused = [&](const char* what, bool by_library, const auto& spoil) {
    const Pair pair(dev, loop(type.type));
    const MwPtr mw = alloc_mw(dev.pd(), IBV_MW_TYPE_1);
    const std::uint32_t rkey = mw->rkey;
    ibv_mw_bind bind{};
    bind.bind_info = {.mr = pair.local.memory().mr(),
                      .addr = pair.local.memory().address(),
                      .length = 8,
                      .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    ibv_mw* const window = spoil(bind);
    const int err = ibv_bind_mw(pair.local.qp(), window != nullptr ? window : mw.get(), &bind);
    if (by_library) require_refused(err, EINVAL, what);
    if (usually_refused(err, EINVAL, what)) {
      require(mw->rkey == rkey, "{}: the key changed", what);
      expect_quiet(pair.local.send_cq(), 5);
      return;
    }
    for (const ibv_wc& wc : poll_for(pair.local.send_cq(), 1, 300)) {
      require(wc.status != IBV_WC_SUCCESS || type.type != IBV_QPT_UD, "{}: works", what);
    }
  };
  const auto same = [](ibv_mw_bind&) -> ibv_mw* { return nullptr; };
  if (type.type == IBV_QPT_UD) return refused("a bind on a UD QP", false, same);
  if (dev.attr().device_cap_flags &
      (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) {
    const MwPtr type2 = alloc_mw(dev.pd(), IBV_MW_TYPE_2);
    refused("a window of type 2", true, [&](ibv_mw_bind&) { return type2.get(); });
  }
  refused("a bind with INLINE", false, [](ibv_mw_bind& bind) -> ibv_mw* {
    bind.send_flags = IBV_SEND_INLINE;
    return nullptr;
  });
  refused("a bind with MW_BIND", false, [](ibv_mw_bind& bind) -> ibv_mw* {
    bind.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
    return nullptr;
  });
  refused("a bind without a region", true, [](ibv_mw_bind& bind) -> ibv_mw* {
    bind.bind_info.mr = nullptr;
    return nullptr;
  });
}

// The capacities of an end's receive queue, or of its SRQ.
ibv_srq_attr receive_capacity(const End& end) {
  ibv_srq_attr attr{};
  attr.max_wr = end.cap().max_recv_wr;
  attr.max_sge = end.cap().max_recv_sge;
  if (end.srq() != nullptr) require_err(ibv_query_srq(end.srq(), &attr), 0, "ibv_query_srq");
  return attr;
}

void receive_sges(const Pair& pair) {
  const End& end = pair.remote.end();
  const std::vector<ibv_sge> list(receive_capacity(end).max_sge + 1, end.memory().sge(0, 8));
  usually_refused(end.try_recv(1, list), EINVAL, "a receive with too many SGEs");
}

void receive_full(const Pair& pair, const Type& type) {
  const End& end = pair.remote.end();
  const std::vector<ibv_sge> list{end.memory().sge(0, 8)};
  const std::uint32_t slots = receive_capacity(end).max_wr;
  require(slots >= 16, "{} slots", slots);
  for (std::uint32_t i = 0; i < slots; i++) require_err(end.try_recv(1, list), 0, "a receive");
  usually_refused(end.try_recv(1, list), ENOMEM, "one receive too many");
  if (type.type == IBV_QPT_XRC_SEND && strict()) {
    require_refused(post_recv(end.qp(), 1, list), EINVAL, "a receive to an XRC target");
    require_refused(post_recv(pair.local.qp(), 1, list), EINVAL, "a receive to an XRC sender");
  }
}

void receive_in_reset(const Device& dev, const Type& type) {
  PairOptions options = loop(type.type);
  options.connect = false;
  const Pair pair(dev, options);
  if (type.type == IBV_QPT_XRC_SEND) need_strict("a QP without a receive queue");
  const ibv_sge sge = pair.remote.end().memory().sge(0, 8);
  usually_refused(post_recv(pair.remote.end().qp(), 1, std::span(&sge, 1)), EINVAL,
                  "a receive in RESET");
}

struct Cause {
  const char* text;
  const char* name;
  const char* says;
  enum { kAll, kUd, kNotUd } types;
  void (*use)(const Device& dev, const Type& type, Api api);
};

}  // namespace

Cells refusal_cells() {
  static constexpr Cause kCauses[] = {
      {"no free slot in the send queue", "SQ_FULL", "ENOMEM", Cause::kAll,
       [](const Device& dev, const Type& type, Api api) { full(Pair(dev, loop(type.type)), api); }},
      {"more SGEs than max_send_sge, or than one for an atomic", "TOO_MANY_SGES", "EINVAL",
       Cause::kAll,
       [](const Device& dev, const Type& type, Api api) {
         sges(Pair(dev, loop(type.type)), api);
         if (!is_reliable(type.type) || !claims_atomics(dev)) return;
         atomic_sges(Pair(dev, loop(type.type)), api);
       }},
      {"more inline data than max_inline_data", "INLINE_TOO_BIG", "EINVAL", Cause::kAll,
       [](const Device& dev, const Type& type, Api api) {
         inline_data(Pair(dev, loop(type.type)), api);
       }},
      {"QP in RESET, INIT or RTR", "WRONG_STATE", "EINVAL", Cause::kAll, closed},
      {"QP in ERR", "ERR_STATE", "0, flushed", Cause::kAll,
       [](const Device& dev, const Type& type, Api api) {
         flushed(Pair(dev, loop(type.type)), api);
       }},
      {"no address handle", "NO_AH", "EINVAL", Cause::kUd,
       [](const Device& dev, const Type& type, Api api) {
         no_address(Pair(dev, loop(type.type)), api);
       }},
      {"IBV_WR_BIND_MW: type 1, no region, a right windows lack", "BIND_WR", "EINVAL",
       Cause::kNotUd,
       [](const Device& dev, const Type& type, Api api) { windows(dev, type, api); }},
      {"ibv_bind_mw: QP type, type 2, no region, such a right", "BIND_VERB", "EINVAL", Cause::kAll,
       [](const Device& dev, const Type& type, Api) { bind_verb(dev, type); }},
      {"receive: more SGEs than max_recv_sge (SRQ: max_sge)", "RECV_SGES", "EINVAL", Cause::kAll,
       [](const Device& dev, const Type& type, Api) { receive_sges(Pair(dev, loop(type.type))); }},
      {"receive: no free slot", "RECV_FULL", "ENOMEM", Cause::kAll,
       [](const Device& dev, const Type& type, Api) {
         receive_full(Pair(dev, loop(type.type)), type);
       }},
      {"receive: QP in RESET, or without a receive queue", "RECV_STATE", "EINVAL", Cause::kAll,
       [](const Device& dev, const Type& type, Api) { receive_in_reset(dev, type); }},
  };
  Cells cells;
  for (const Cause& cause : kCauses) {
    for (std::size_t i = 0; i < kTypes.size(); i++) {
      const Type& type = kTypes[i];
      if (cause.types == (type.type == IBV_QPT_UD ? Cause::kNotUd : Cause::kUd)) continue;
      cells.push_back({.row = cause.text,
                       .type = i,
                       .says = cause.says,
                       .rule = {.name = std::format("{}_{}", cause.name, type.name),
                                .says = std::format("{}, refused: {}", type.name, cause.text),
                                .run = [&cause, &type](const Env& env) {
                                  for (const Api api : env.dev.apis()) {
                                    cause.use(env.dev, type, api);
                                  }
                                }}});
    }
  }
  return cells;
}

}  // namespace guest::opcodes
