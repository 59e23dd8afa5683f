// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that are refused when posted: the errno, and the fate of the requests around them.
#include <cerrno>

#include "table.h"

namespace guest {
namespace {

// One request more than the queue has slots. A polled completion frees a slot.
void full(const Ends& ends, Api api) {
  const std::size_t slots = ends.cap().max_send_wr;
  const std::vector<Send> sends(slots + 1, ends.request(IBV_WR_SEND, 1, 8));
  for (std::size_t i = 0; i < slots; i++) {
    ends.recv(2, 0, 8);
  }
  std::size_t bad = 0;
  require_err(post(ends.qp(), api, sends, &bad), ENOMEM, api_name(api));
  if (api == Api::kWr) {
    expect_quiet(ends.send_cq(), 5);
    require_err(post(ends.qp(), api, std::span(sends).first(slots)), 0, api_name(api));
  } else {
    require(bad == slots, "bad_wr is request {} of {}", bad, slots);
  }
  require_err(post(ends.qp(), api, sends[0]), ENOMEM, "before a poll");
  for (std::size_t i = 0; i < slots; i++) {
    ends.sent(1);
    ends.received(2);
  }
  ends.recv(2, 0, 8);
  ends.post(sends[0], api);
  ends.sent(1);
}

void sges(const Ends& ends, const Type& type, Api api) {
  Send s = ends.request(IBV_WR_SEND, 2, 8);
  s.sges.assign(ends.cap().max_send_sge + 1, s.sges[0]);
  check_refusal(ends, api, s, EINVAL);
  if (is_reliable(type)) {
    s = ends.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 4);
    s.sges.push_back(s.sges[0]);
    require_err(post(ends.qp(), api, s), EINVAL, "an atomic with two SGEs");
  }
}

void inline_data(const Ends& ends, Api api) {
  Send s = ends.request(IBV_WR_SEND, 2, ends.cap().max_inline_data + 1);
  s.flags |= IBV_SEND_INLINE;
  check_refusal(ends, api, s, EINVAL);
}

void closed(const Device& dev, const Type& type, Api api) {
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
    const Ends ends(dev, type, {.connect = false});
    ends.bring_to(state);
    std::size_t bad = 7;
    const Send s = ends.request(IBV_WR_SEND, 1, 8);
    require_err(post(ends.qp(), api, std::span(&s, 1), &bad), EINVAL, api_name(api));
    require(api == Api::kWr || bad == 0, "bad_wr is request {}", bad);
    expect_quiet(ends.send_cq(), 2);
  }
}

void flushed(const Ends& ends, Api api) {
  require_err(to_state(ends.qp(), IBV_QPS_ERR), 0, "to ERR");
  ends.post(ends.request(IBV_WR_SEND, 1, 8), api);
  ends.sent(1, IBV_WC_WR_FLUSH_ERR);
}

void no_address(const Ends& ends, Api api) {
  Send s = ends.request(IBV_WR_SEND, 2, 8);
  s.ah = nullptr;
  check_refusal(ends, api, s, EINVAL);
}

// Binds of a window of the other type, with a right that windows lack, or without a region; binds
// and invalidations with inline data.
void windows(const Device& dev, const Ends& ends, Api api) {
  const MwPtr type1(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_1));
  const MwPtr type2(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
  require(type1 && type2, "ibv_alloc_mw: {}", errno_name(errno));
  check_refusal(ends, api, ends.bind(type1.get(), ends.here(), 1, 2, 8, 0), EINVAL);
  Send s = ends.bind(type2.get(), ends.here(), 1, 2, 8, 0);
  s.bind.mw_access_flags |= IBV_ACCESS_MW_BIND;
  check_refusal(ends, api, s, EINVAL);
  s.bind = {};
  check_refusal(ends, api, s, EINVAL);
  if (api == Api::kPost) {
    s = ends.bind(type2.get(), ends.here(), 1, 2, 8, 0);
    s.flags |= IBV_SEND_INLINE;
    check_refusal(ends, api, s, EINVAL);
    s.opcode = IBV_WR_LOCAL_INV;
    check_refusal(ends, api, s, EINVAL);
  }
}

// A bind that ibv_bind_mw() refuses leaves the window's key unchanged.
void bind_verb(const Device& dev, const Ends& ends, const Type& type) {
  const MwPtr mw(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_1));
  const MwPtr type2(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
  require(mw && type2, "ibv_alloc_mw: {}", errno_name(errno));
  const std::uint32_t rkey = mw->rkey;
  ibv_mw_bind good{};
  good.bind_info = {.mr = ends.here().mr(),
                    .addr = ends.here().address(),
                    .length = 8,
                    .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  if (type.type == IBV_QPT_UD) {
    require_err(ibv_bind_mw(ends.qp(), mw.get(), &good), EINVAL, "a bind on a UD QP");
  } else {
    require_err(ibv_bind_mw(ends.qp(), type2.get(), &good), EINVAL, "a window of type 2");
    ibv_mw_bind bad = good;
    bad.send_flags = IBV_SEND_INLINE;
    require_err(ibv_bind_mw(ends.qp(), mw.get(), &bad), EINVAL, "a bind with INLINE");
    bad = good;
    bad.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
    require_err(ibv_bind_mw(ends.qp(), mw.get(), &bad), EINVAL, "a bind with MW_BIND");
    bad.bind_info.mw_access_flags = 0;
    bad.bind_info.mr = nullptr;
    require_err(ibv_bind_mw(ends.qp(), mw.get(), &bad), EINVAL, "a bind without a region");
  }
  require(mw->rkey == rkey, "the key changed");
  expect_quiet(ends.send_cq(), 5);
}

// Receives with too many SGEs, and one receive more than the queue has slots.
void receives(const Ends& ends, const Type& type) {
  std::vector<ibv_sge> list(64, ends.there().sge(0, 8));
  require_err(ends.try_recv(1, list), EINVAL, "a receive with 64 SGEs");
  list.resize(1);
  int err = 0;
  std::uint32_t posted = 0;
  while ((err = ends.try_recv(1, list)) == 0 && posted < 1000) {
    posted++;
  }
  require_err(err, ENOMEM, "one receive too many");
  require(posted >= 16, "{} receives fit", posted);
  if (type.type == IBV_QPT_XRC_SEND) {
    require_err(post_recv(ends.peer(), 1, list), EINVAL, "a receive to an XRC target");
    require_err(post_recv(ends.qp(), 1, list), EINVAL, "a receive to an XRC sender");
  }
}

void receive_in_reset(const Device& dev, const Type& type) {
  const Ends ends(dev, type, {.connect = false});
  const ibv_sge sge = ends.there().sge(0, 8);
  require_err(post_recv(ends.peer(), 1, std::span(&sge, 1)), EINVAL, "a receive in RESET");
}

}  // namespace

std::vector<Row> refusal_rows(const Device& dev, const Runner& run) {
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
       [&](const Type& type, Api api) { full(Ends(dev, type), api); }},
      {"more SGEs than max_send_sge, or than one for an atomic", "TOO_MANY_SGES", "EINVAL",
       Cause::kAll, [&](const Type& type, Api api) { sges(Ends(dev, type), type, api); }},
      {"more inline data than max_inline_data", "INLINE_TOO_BIG", "EINVAL", Cause::kAll,
       [&](const Type& type, Api api) { inline_data(Ends(dev, type), api); }},
      {"QP in RESET, INIT or RTR", "WRONG_STATE", "EINVAL", Cause::kAll,
       [&](const Type& type, Api api) { closed(dev, type, api); }},
      {"QP in ERR", "ERR_STATE", "0, flushed", Cause::kAll,
       [&](const Type& type, Api api) { flushed(Ends(dev, type), api); }},
      {"no address handle", "NO_AH", "EINVAL", Cause::kUd,
       [&](const Type& type, Api api) { no_address(Ends(dev, type), api); }},
      {"IBV_WR_BIND_MW: type 1, no region, a right windows lack", "BIND_WR", "EINVAL",
       Cause::kNotUd,
       [&](const Type& type, Api api) {
         windows(dev, Ends(dev, type, {.more_ops = kWindowOps}), api);
       }},
      {"ibv_bind_mw: QP type, type 2, no region, such a right", "BIND_VERB", "EINVAL", Cause::kAll,
       [&](const Type& type, Api) { bind_verb(dev, Ends(dev, type), type); }},
      {"receive: more SGEs than max_recv_sge (SRQ: max_sge)", "RECV_SGES", "EINVAL", Cause::kAll,
       [&](const Type& type, Api) { receives(Ends(dev, type), type); }},
      {"receive: no free slot", "RECV_FULL", "ENOMEM", Cause::kAll,
       [&](const Type& type, Api) { receives(Ends(dev, type), type); }},
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
      const bool ok = run(std::format("{}_{}", cause.name, type.name), [&] {
        for (const Api api : kBothApis) {
          cause.body(type, api);
        }
      });
      row.cells.emplace_back(ok ? cause.says : "FAILS");
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace guest
