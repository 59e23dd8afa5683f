// SPDX-License-Identifier: GPL-2.0-or-later
#include "coverage.h"

namespace guest::generator {
namespace {

class Rules {
 public:
  void need(bool holds, const char* name) {
    if (!holds) broken_.emplace_back(name);
  }
  [[nodiscard]] std::vector<std::string> broken() const { return broken_; }

 private:
  std::vector<std::string> broken_;
};

const Window* by_index(const State& s, int end, std::uint32_t key) {
  for (const Window& w : s.windows.at(static_cast<std::size_t>(end))) {
    if (w.live && w.key >> 8 == key >> 8) return &w;
  }
  return nullptr;
}

std::vector<std::string> of_access(const State& s, const Request& r) {
  const int end = 1 - r.end;
  const Queue& qp = s.conns.at(r.conn).ends.at(static_cast<std::size_t>(end));
  const Window* w = by_index(s, end, r.rkey);
  const bool word = is_atomic(r.verb) || r.verb == Verb::kAtomicWrite;
  const std::uint64_t length = word ? 8 : r.length;
  if (w == nullptr || length == 0) return {};
  Rules rules;
  rules.need(w->key == r.rkey, "mw-variant");
  rules.need(w->bound, "mw-unbound");
  if (!w->bound) return rules.broken();
  const Region& mr = s.regions.at(static_cast<std::size_t>(end)).at(w->region);
  const std::uint64_t last = r.raddr + (length - 1);
  rules.need(w->pd == qp.pd, "mw-pd");
  rules.need(w->type == 1 || w->owner == qp.id, "mw-qp");
  rules.need(r.verb != Verb::kFlush || (mr.access & IBV_ACCESS_FLUSH_GLOBAL) == 0, "mw-flush");
  const bool read = r.verb == Verb::kRead;
  const bool change = !read && r.verb != Verb::kFlush;
  rules.need(!read || (w->rights & IBV_ACCESS_REMOTE_READ) != 0, "mw-read");
  rules.need(!is_atomic(r.verb) || (w->rights & IBV_ACCESS_REMOTE_ATOMIC) != 0, "mw-atomic");
  rules.need(!change || is_atomic(r.verb) || (w->rights & IBV_ACCESS_REMOTE_WRITE) != 0,
             "mw-write");
  rules.need(!change || (mr.access & IBV_ACCESS_LOCAL_WRITE) != 0, "mw-mr-write");
  rules.need(r.raddr >= w->base, "mw-low");
  rules.need(last >= r.raddr, "mw-wrap");
  rules.need(last <= w->base + (w->len - 1), "mw-high");
  return rules.broken();
}

std::vector<std::string> of_bind(const State& s, const Request& r) {
  const auto end = static_cast<std::size_t>(r.end);
  const Queue& qp = s.conns.at(r.conn).ends.at(end);
  const Window& w = s.windows.at(end).at(r.window);
  const Region& mr = s.regions.at(end).at(r.region);
  constexpr unsigned kChange = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  Rules rules;
  rules.need(r.forge != 1, "bind-type");
  rules.need(r.forge != 2 && (w.type == 2 || r.old_key == w.key), "bind-key");
  rules.need(w.type == 1 || !w.bound, "bind-free");
  rules.need(w.pd == qp.pd, "bind-qp-pd");
  rules.need(r.bind_length != 0 || w.type == 1, "bind-zero-length");
  if (r.bind_length == 0) return rules.broken();
  const std::uint64_t last = r.addr + (r.bind_length - 1);
  rules.need(mr.pd == qp.pd, "bind-mr-pd");
  rules.need((mr.access & IBV_ACCESS_MW_BIND) != 0, "bind-mr-right");
  rules.need((r.rights & kChange) == 0 || (mr.access & IBV_ACCESS_LOCAL_WRITE) != 0,
             "bind-local-write");
  rules.need(last >= r.addr, "bind-wrap");
  rules.need(r.addr >= mr.iova && last <= mr.iova + (mr.len - 1), "bind-range");
  return rules.broken();
}

std::vector<std::string> of_invalidation(const State& s, const Request& r) {
  const int end = r.verb == Verb::kSendInv ? 1 - r.end : r.end;
  const Queue& qp = s.conns.at(r.conn).ends.at(static_cast<std::size_t>(end));
  const Window* w = by_index(s, end, r.rkey);
  if (w == nullptr) return {};
  Rules rules;
  const bool free = w->type == 2 && !w->bound;
  rules.need(w->key == r.rkey, "inv-variant");
  rules.need(w->type == 2, "inv-type");
  rules.need(!free, "inv-free");
  rules.need(free || w->pd == qp.pd, "inv-pd");
  rules.need(free || w->type == 1 || w->pd != qp.pd || w->owner == qp.id, "inv-qp");
  return rules.broken();
}

}  // namespace

std::vector<std::string> broken_rules(const State& s, const Request& r) {
  if (r.verb == Verb::kBind) return of_bind(s, r);
  if (r.verb == Verb::kInvalidate || r.verb == Verb::kSendInv) return of_invalidation(s, r);
  if (is_send(r.verb)) return {};
  return of_access(s, r);
}

}  // namespace guest::generator
