// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that are refused when posted: the errno, and the fate of the requests around them.
#include <cerrno>

#include "table.h"

namespace guest {
namespace {

// One request more than the queue has slots. A polled completion frees a slot.
void full(const Pair& pair, Api api) {
  const std::size_t slots = pair.local.cap().max_send_wr;
  const std::vector<Send> sends(slots + 1, pair.request(IBV_WR_SEND, 8, 0, 0, 1));
  for (std::size_t i = 0; i < slots; i++) pair.recv(2, 0, 8);
  std::size_t bad = 0;
  require_err(post(pair.local.qp(), api, sends, &bad), ENOMEM, api_name(api));
  if (api == Api::kWr) {
    expect_quiet(pair.local.send_cq(), 5);
    require_err(post(pair.local.qp(), api, std::span(sends).first(slots)), 0, api_name(api));
  } else {
    require(bad == slots, "bad_wr is request {} of {}", bad, slots);
  }
  require_err(post(pair.local.qp(), api, sends[0]), ENOMEM, "before a poll");
  for (std::size_t i = 0; i < slots; i++) {
    pair.expect(1);
    pair.expect_recv(2);
  }
  pair.recv(2, 0, 8);
  pair.post(sends[0], api);
  pair.expect(1);
}

void sges(const Pair& pair, const Type& type, Api api) {
  Send s = pair.request(IBV_WR_SEND, 8, 0, 0, 2);
  s.sges.assign(pair.local.cap().max_send_sge + 1, s.sges[0]);
  check_refusal(pair, api, s, EINVAL);
  if (is_reliable(type.type)) {
    s = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0, 0, 2);
    s.sges.push_back(s.sges[0]);
    require_err(post(pair.local.qp(), api, s), EINVAL, "an atomic with two SGEs");
  }
}

void inline_data(const Pair& pair, Api api) {
  Send s = pair.request(IBV_WR_SEND, pair.local.cap().max_inline_data + 1, 0, 0, 2);
  s.flags |= IBV_SEND_INLINE;
  check_refusal(pair, api, s, EINVAL);
}

void closed(const Device& dev, const Type& type, Api api) {
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
    PairOptions options = loop(type.type);
    options.connect = false;
    Pair pair(dev, options);
    pair.connect(state);
    std::size_t bad = 7;
    const Send s = pair.request(IBV_WR_SEND, 8, 0, 0, 1);
    require_err(post(pair.local.qp(), api, std::span(&s, 1), &bad), EINVAL, api_name(api));
    require(api == Api::kWr || bad == 0, "bad_wr is request {}", bad);
    expect_quiet(pair.local.send_cq(), 2);
  }
}

void flushed(const Pair& pair, Api api) {
  require_err(to_state(pair.local.qp(), IBV_QPS_ERR), 0, "to ERR");
  pair.post(pair.request(IBV_WR_SEND, 8, 0, 0, 1), api);
  pair.expect(1, IBV_WC_WR_FLUSH_ERR);
}

void no_address(const Pair& pair, Api api) {
  Send s = pair.request(IBV_WR_SEND, 8, 0, 0, 2);
  s.ah = nullptr;
  check_refusal(pair, api, s, EINVAL);
}

// Binds of a window of the other type, with a right that windows lack, or without a region; binds
// and invalidations with inline data.
void windows(const Device& dev, const Pair& pair, Api api) {
  const MwPtr type1(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_1));
  const MwPtr type2(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
  require(type1 && type2, "ibv_alloc_mw: {}", errno_name(errno));
  check_refusal(pair, api, bind_request(type1.get(), pair.local.memory(), 1, 2, 8, 0), EINVAL);
  Send s = bind_request(type2.get(), pair.local.memory(), 1, 2, 8, 0);
  s.bind.mw_access_flags |= IBV_ACCESS_MW_BIND;
  check_refusal(pair, api, s, EINVAL);
  s.bind = {};
  check_refusal(pair, api, s, EINVAL);
  if (api == Api::kPost) {
    s = bind_request(type2.get(), pair.local.memory(), 1, 2, 8, 0);
    s.flags |= IBV_SEND_INLINE;
    check_refusal(pair, api, s, EINVAL);
    s.opcode = IBV_WR_LOCAL_INV;
    check_refusal(pair, api, s, EINVAL);
  }
}

// A bind that ibv_bind_mw() refuses leaves the window's key unchanged.
void bind_verb(const Device& dev, const Pair& pair, const Type& type) {
  const MwPtr mw(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_1));
  const MwPtr type2(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
  require(mw && type2, "ibv_alloc_mw: {}", errno_name(errno));
  const std::uint32_t rkey = mw->rkey;
  ibv_mw_bind good{};
  good.bind_info = {.mr = pair.local.memory().mr(),
                    .addr = pair.local.memory().address(),
                    .length = 8,
                    .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  if (type.type == IBV_QPT_UD) {
    require_err(ibv_bind_mw(pair.local.qp(), mw.get(), &good), EINVAL, "a bind on a UD QP");
  } else {
    require_err(ibv_bind_mw(pair.local.qp(), type2.get(), &good), EINVAL, "a window of type 2");
    ibv_mw_bind bad = good;
    bad.send_flags = IBV_SEND_INLINE;
    require_err(ibv_bind_mw(pair.local.qp(), mw.get(), &bad), EINVAL, "a bind with INLINE");
    bad = good;
    bad.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
    require_err(ibv_bind_mw(pair.local.qp(), mw.get(), &bad), EINVAL, "a bind with MW_BIND");
    bad.bind_info.mw_access_flags = 0;
    bad.bind_info.mr = nullptr;
    require_err(ibv_bind_mw(pair.local.qp(), mw.get(), &bad), EINVAL, "a bind without a region");
  }
  require(mw->rkey == rkey, "the key changed");
  expect_quiet(pair.local.send_cq(), 5);
}

// Receives with too many SGEs, and one receive more than the queue has slots.
void receives(const Pair& pair, const Type& type) {
  std::vector<ibv_sge> list(64, pair.remote.end().memory().sge(0, 8));
  require_err(pair.remote.end().try_recv(1, list), EINVAL, "a receive with 64 SGEs");
  list.resize(1);
  int err = 0;
  std::uint32_t posted = 0;
  while ((err = pair.remote.end().try_recv(1, list)) == 0 && posted < 1000) posted++;
  require_err(err, ENOMEM, "one receive too many");
  require(posted >= 16, "{} receives fit", posted);
  if (type.type == IBV_QPT_XRC_SEND) {
    require_err(post_recv(pair.remote.end().qp(), 1, list), EINVAL, "a receive to an XRC target");
    require_err(post_recv(pair.local.qp(), 1, list), EINVAL, "a receive to an XRC sender");
  }
}

void receive_in_reset(const Device& dev, const Type& type) {
  PairOptions options = loop(type.type);
  options.connect = false;
  const Pair pair(dev, options);
  const ibv_sge sge = pair.remote.end().memory().sge(0, 8);
  require_err(post_recv(pair.remote.end().qp(), 1, std::span(&sge, 1)), EINVAL,
              "a receive in RESET");
}

}  // namespace

std::vector<Row> refusal_rows(const Device& dev) {
  using Body = std::function<void(const Type& type, Api api)>;
  struct Cause {
    const char* text;
    const char* name;
    const char* says;
    enum { kAll, kUd, kNotUd } types;
    Body body;
  };
  const std::vector<Cause> causes{
      {"no free slot in the send queue", "SQ_FULL", "ENOMEM", Cause::kAll,
       [&](const Type& type, Api api) { full(Pair(dev, loop(type.type)), api); }},
      {"more SGEs than max_send_sge, or than one for an atomic", "TOO_MANY_SGES", "EINVAL",
       Cause::kAll,
       [&](const Type& type, Api api) { sges(Pair(dev, loop(type.type)), type, api); }},
      {"more inline data than max_inline_data", "INLINE_TOO_BIG", "EINVAL", Cause::kAll,
       [&](const Type& type, Api api) { inline_data(Pair(dev, loop(type.type)), api); }},
      {"QP in RESET, INIT or RTR", "WRONG_STATE", "EINVAL", Cause::kAll,
       [&](const Type& type, Api api) { closed(dev, type, api); }},
      {"QP in ERR", "ERR_STATE", "0, flushed", Cause::kAll,
       [&](const Type& type, Api api) { flushed(Pair(dev, loop(type.type)), api); }},
      {"no address handle", "NO_AH", "EINVAL", Cause::kUd,
       [&](const Type& type, Api api) { no_address(Pair(dev, loop(type.type)), api); }},
      {"IBV_WR_BIND_MW: type 1, no region, a right windows lack", "BIND_WR", "EINVAL",
       Cause::kNotUd,
       [&](const Type& type, Api api) {
         windows(dev, Pair(dev, loop(type.type, kWindowOps)), api);
       }},
      {"ibv_bind_mw: QP type, type 2, no region, such a right", "BIND_VERB", "EINVAL", Cause::kAll,
       [&](const Type& type, Api) { bind_verb(dev, Pair(dev, loop(type.type)), type); }},
      {"receive: more SGEs than max_recv_sge (SRQ: max_sge)", "RECV_SGES", "EINVAL", Cause::kAll,
       [&](const Type& type, Api) { receives(Pair(dev, loop(type.type)), type); }},
      {"receive: no free slot", "RECV_FULL", "ENOMEM", Cause::kAll,
       [&](const Type& type, Api) { receives(Pair(dev, loop(type.type)), type); }},
      {"receive: QP in RESET, or without a receive queue", "RECV_STATE", "EINVAL", Cause::kAll,
       [&](const Type& type, Api) { receive_in_reset(dev, type); }},
  };
  std::vector<Row> rows;
  for (const Cause& cause : causes) {
    Row row{.name = cause.text, .cells = {}};
    for (const Type& type : kTypes) {
      const bool ud = type.type == IBV_QPT_UD;
      if (cause.types == (ud ? Cause::kNotUd : Cause::kUd)) {
        row.cells.emplace_back("\\-");
        continue;
      }
      const bool ok = run_test(std::format("{}_{}", cause.name, type.name), [&] {
        for (const Api api : kBothApis) cause.body(type, api);
      });
      row.cells.emplace_back(ok ? cause.says : "FAILS");
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace guest
