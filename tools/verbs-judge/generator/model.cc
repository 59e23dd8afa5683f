// SPDX-License-Identifier: GPL-2.0-or-later
#include "model.h"

#include <algorithm>

namespace guest::generator {
namespace {

constexpr Statuses kRefused = only(IBV_WC_REM_ACCESS_ERR);
constexpr Statuses kInvalid = only(IBV_WC_REM_INV_REQ_ERR);
// Devices name a refused invalidation differently.
constexpr Statuses kNotInvalidated = only(IBV_WC_LOC_QP_OP_ERR) | only(IBV_WC_MW_BIND_ERR) |
                                     only(IBV_WC_LOC_PROT_ERR) | only(IBV_WC_LOC_ACCESS_ERR);

// Returns how many bytes of [addr, addr + len) are in [base, base + size), from addr on.
std::uint32_t inside(std::uint64_t addr, std::uint64_t len, std::uint64_t base,
                     std::uint32_t size) {
  const std::uint64_t at = addr - base;
  if (addr < base || at >= size) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(len, size - at));
}

unsigned right_of(Verb verb) {
  switch (verb) {
    case Verb::kRead:
      return IBV_ACCESS_REMOTE_READ;
    case Verb::kCas:
    case Verb::kFetchAdd:
      return IBV_ACCESS_REMOTE_ATOMIC;
    case Verb::kFlush:
      return IBV_ACCESS_FLUSH_GLOBAL;
    default:
      return IBV_ACCESS_REMOTE_WRITE;
  }
}

// The bytes of an access by an rkey; not ok if the key does not allow it.
Reach remote(const State& s, int end, const Queue& qp, const Request& r, std::uint32_t length) {
  const unsigned right = right_of(r.verb);
  const auto bytes = [&](int mem, std::uint64_t base, std::uint32_t off, std::uint32_t size) {
    const std::uint32_t n = inside(r.raddr, length, base, size);
    Reach reach{.ok = n == length};
    if (n != 0) {
      reach.spans.push_back(
          {mem_id(end, mem), off + static_cast<std::uint32_t>(r.raddr - base), n});
    }
    return reach;
  };
  if (const Region* mr = region_of(s, end, r.rkey)) {
    if (mr->pd != qp.pd || (mr->access & right) != right) return {.ok = false};
    Reach reach = bytes(mr->mem, mr->iova, mr->off, mr->len);
    if (length == 0) reach.ok = r.raddr - mr->iova <= mr->len;  // FLUSH
    return reach;
  }
  const Window* w = window_of(s, end, r.rkey);
  if (w == nullptr || !w->bound || w->pd != qp.pd || r.verb == Verb::kFlush) return {.ok = false};
  if (w->type == 2 && w->owner != qp.id) return {.ok = false};
  const Region& mr = s.regions.at(static_cast<std::size_t>(end)).at(w->region);
  const bool change = right != IBV_ACCESS_REMOTE_READ;
  if ((w->rights & right) == 0) return {.ok = false};
  if (change && (mr.access & IBV_ACCESS_LOCAL_WRITE) == 0) return {.ok = false};
  return bytes(mr.mem, w->base, w->off, w->len);
}

bool may_bind(const State& s, const Request& r, const Window& w, const Queue& qp) {
  if (r.forge != 0 || w.pd != qp.pd || (w.type == 2 && w.bound)) return false;
  if (w.type == 1 && r.old_key != w.key) return false;
  if (r.bind_length == 0) return w.type == 1;
  const Region& mr = s.regions.at(static_cast<std::size_t>(r.end)).at(r.region);
  if (!mr.live || mr.pd != qp.pd || (mr.access & IBV_ACCESS_MW_BIND) == 0) return false;
  constexpr unsigned kChange = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if ((r.rights & kChange) != 0 && (mr.access & IBV_ACCESS_LOCAL_WRITE) == 0) return false;
  return inside(r.addr, r.bind_length, mr.iova, mr.len) == r.bind_length;
}

bool may_invalidate(const State& s, int end, std::uint32_t key, const Queue& qp) {
  const Window* w = window_of(s, end, key);
  return w != nullptr && w->type == 2 && w->bound && w->owner == qp.id;
}

// Receives the message.
void judge_receive(const State& s, const Request& r, const Receive* receive, Verdict& v) {
  const int end = 1 - r.end;
  const Queue& qp = s.conns.at(r.conn).ends.at(static_cast<std::size_t>(end));
  const std::uint32_t total = r.length + receive->header;
  std::uint64_t room = 0;
  for (std::size_t i = 0; i < receive->num_sge; i++) room += receive->sge.at(i).length;
  const std::span<const ibv_sge> sges(receive->sge.data(), receive->num_sge);
  const Reach all = local(s, end, receive->pd, sges, true);
  v.receive = 0;
  Statuses bad = 0;
  if (room < total) {
    v.receive |= only(IBV_WC_LOC_LEN_ERR);
    bad |= kInvalid;
  }
  const std::uint32_t reach = length_of(all);
  if (!all.ok && total != 0) {
    v.receive |= only(IBV_WC_LOC_PROT_ERR);
    bad |= only(IBV_WC_REM_OP_ERR);
  }
  v.there = all;
  std::uint32_t left = std::min(total, reach);
  for (Span& span : v.there.spans) {
    span.len = std::min(span.len, left);
    left -= span.len;
  }
  if (!all.ok && reach >= total && room >= total) {  // only bytes that are not needed are refused
    v.receive |= kSuccess;
    bad |= kSuccess;
  }
  v.there.ok = bad == 0 || has(bad, IBV_WC_SUCCESS);
  if (r.verb == Verb::kSendInv && !may_invalidate(s, end, r.rkey, qp)) {
    v.receive = (v.receive & ~kSuccess) | kInvalid | only(IBV_WC_LOC_ACCESS_ERR) |
                only(IBV_WC_LOC_QP_OP_ERR) | only(IBV_WC_MW_BIND_ERR);
    // No NAK is prescribed for this error.
    bad = (bad & ~kSuccess) | kInvalid | kRefused | only(IBV_WC_REM_OP_ERR) |
          only(IBV_WC_RETRY_EXC_ERR);
    v.there.ok = false;
  }
  if (bad == 0) v.receive = kSuccess;
  v.allowed |= bad == 0 ? kSuccess : bad;
}

void judge_write(const State& s, const Request& r, const Receive* receive, Verdict& v) {
  const int end = 1 - r.end;
  const Queue& qp = s.conns.at(r.conn).ends.at(static_cast<std::size_t>(end));
  Statuses bad = 0;
  const unsigned right = right_of(r.verb);
  if ((qp.access & right) != right) bad |= kInvalid | kRefused;
  const bool aligned = is_atomic(r.verb) || r.verb == Verb::kAtomicWrite;
  if (aligned && r.raddr % 8 != 0) bad |= kInvalid;
  const std::uint32_t length = aligned ? 8 : r.length;
  if (length != 0 || r.verb == Verb::kFlush) {
    v.there = remote(s, end, qp, r, length);
    if (!v.there.ok) bad |= kRefused;
  }
  if (r.verb == Verb::kWriteImm) {
    if (receive == nullptr) {
      bad |= only(IBV_WC_RNR_RETRY_EXC_ERR);
    } else if (bad == 0) {
      v.receive = kSuccess;
    }
  }
  v.there.ok = bad == 0;
  if ((bad & kInvalid) != 0) v.there.spans.clear();
  v.allowed |= bad != 0 ? bad : kSuccess;
}

}  // namespace

std::string to_text(Statuses set) {
  std::string text;
  for (unsigned i = 0; i < 32; i++) {
    if ((set >> i & 1U) == 0) continue;
    text += (text.empty() ? "" : " or ");
    text += ibv_wc_status_str(static_cast<ibv_wc_status>(i));
  }
  return text.empty() ? "nothing" : text;
}

std::uint32_t length_of(const Reach& reach) {
  std::uint32_t n = 0;
  for (const Span& span : reach.spans) n += span.len;
  return n;
}

const Region* region_of(const State& s, int end, std::uint32_t rkey) {
  for (const Region& mr : s.regions.at(static_cast<std::size_t>(end))) {
    if (mr.live && mr.rkey == rkey) return &mr;
  }
  return nullptr;
}

const Window* window_of(const State& s, int end, std::uint32_t rkey) {
  for (const Window& w : s.windows.at(static_cast<std::size_t>(end))) {
    if (w.live && w.key == rkey) return &w;
  }
  return nullptr;
}

int windows_on(const State& s, int end, std::size_t slot) {
  int n = 0;
  for (const Window& w : s.windows.at(static_cast<std::size_t>(end))) {
    n += w.live && w.bound && w.region == slot ? 1 : 0;
  }
  return n;
}

Reach local(const State& s, int end, std::size_t pd, std::span<const ibv_sge> sges, bool write) {
  Reach reach;
  for (const ibv_sge& sge : sges) {
    if (sge.length == 0) continue;
    const auto& regions = s.regions.at(static_cast<std::size_t>(end));
    const auto mr = std::ranges::find_if(
        regions, [&](const Region& m) { return m.live && m.lkey == sge.lkey; });
    std::uint32_t n = 0;
    if (mr != regions.end() && mr->pd == pd &&
        (!write || (mr->access & IBV_ACCESS_LOCAL_WRITE) != 0)) {
      n = inside(sge.addr, sge.length, mr->iova, mr->len);
    }
    if (n != 0) {
      reach.spans.push_back(
          {mem_id(end, mr->mem), mr->off + static_cast<std::uint32_t>(sge.addr - mr->iova), n});
    }
    if (n < sge.length) {
      reach.ok = false;
      break;
    }
  }
  return reach;
}

Verdict judge(const State& s, const Request& r, const Receive* receive) {
  Verdict v;
  const Conn& conn = s.conns.at(r.conn);
  const Queue& own = conn.ends.at(static_cast<std::size_t>(r.end));
  if (r.verb == Verb::kBind) {
    const Window& w = s.windows.at(static_cast<std::size_t>(r.end)).at(r.window);
    v.allowed = w.live && may_bind(s, r, w, own) ? kSuccess : only(IBV_WC_MW_BIND_ERR);
    return v;
  }
  if (r.verb == Verb::kInvalidate) {
    v.allowed = may_invalidate(s, r.end, r.rkey, own) ? kSuccess : kNotInvalidated;
    return v;
  }
  const std::span<const ibv_sge> sges(r.sge.data(), r.num_sge);
  if (r.inline_mem >= 0) {
    v.here.spans = {{mem_id(r.end, r.inline_mem), r.inline_off, r.length}};
  } else if (r.verb != Verb::kAtomicWrite && r.verb != Verb::kFlush) {
    v.here = local(s, r.end, own.pd, sges, is_fetch(r.verb));
  }
  if (!is_send(r.verb)) {
    judge_write(s, r, receive, v);
  } else if (receive != nullptr) {
    judge_receive(s, r, receive, v);
  } else {
    v.allowed |= only(IBV_WC_RNR_RETRY_EXC_ERR);
  }
  v.lossy = !conn.reliable();
  if (v.lossy) {
    v.delivered = has(v.allowed, IBV_WC_SUCCESS) || (v.receive & ~kSuccess) != 0;
    v.allowed = kSuccess;
  }
  if (!v.here.ok) v.allowed = (v.allowed & ~kSuccess) | only(IBV_WC_LOC_PROT_ERR);
  return v;
}

void commit(State& s, const Request& r) {
  auto& windows =
      s.windows.at(static_cast<std::size_t>(r.verb == Verb::kSendInv ? 1 - r.end : r.end));
  if (r.verb == Verb::kInvalidate || r.verb == Verb::kSendInv) {
    for (Window& w : windows) {
      if (w.live && w.type == 2 && w.key == r.rkey) w.bound = false;
    }
  }
  if (r.verb != Verb::kBind) return;
  Window& w = windows.at(r.window);
  w.key = r.new_key;
  w.bound = r.bind_length != 0;
  if (!w.bound) return;
  const Region& mr = s.regions.at(static_cast<std::size_t>(r.end)).at(r.region);
  w.region = r.region;
  w.off = mr.off + static_cast<std::uint32_t>(r.addr - mr.iova);
  w.len = static_cast<std::uint32_t>(r.bind_length);
  w.base = (r.rights & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : r.addr;
  w.rights = r.rights;
  w.owner = s.conns.at(r.conn).ends.at(static_cast<std::size_t>(r.end)).id;
}

}  // namespace guest::generator
