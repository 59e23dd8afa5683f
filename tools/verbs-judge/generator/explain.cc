// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain.h"

#include <arpa/inet.h>

#include <algorithm>
#include <format>
#include <set>

namespace guest::generator {
namespace {

constexpr Statuses kRemoteErrors = only(IBV_WC_REM_ACCESS_ERR) | only(IBV_WC_REM_INV_REQ_ERR) |
                                   only(IBV_WC_REM_OP_ERR) | only(IBV_WC_RETRY_EXC_ERR);

// A point between two requests.
struct Node {
  State state;
  std::uint32_t done = 0;
  std::array<std::array<bool, kEnds>, kConns> cut{};  // a flushed request did not reach the peer
  std::array<std::array<std::uint8_t, kEnds>, kConns> taken{};  // receives
};

class Search {
 public:
  Search(Book& book, const Burst& burst) : book_(book), burst_(burst) {
    out_.parts.resize(burst.ops.size());
    for (std::size_t i = 0; i < burst.ops.size(); i++) before_.push_back(predecessors(i));
  }

  Explanation run() {
    Node start{.state = book_.state};
    visit(start);
    if (!out_.found && out_.why.empty()) out_.why = "no order of the requests leads to this";
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::uint32_t predecessors(std::size_t i) const;
  void visit(const Node& node);
  void finish(const Node& node);
  void flushed(const Node& node, std::size_t i);
  void completed(const Node& node, std::size_t i);
  // The next receive that the peer's completions show; null if there is none.
  const Receive* arrived(const Node& node, const Request& r, const ibv_wc** wc) const;
  std::string wrong_arrival(const Request& r, const Receive& receive, const Verdict& v,
                            const ibv_wc& wc) const;
  void note(std::size_t i, const Verdict& v);
  void no(std::string why) {
    if (out_.why.empty() || burst_.ops.size() > 1) out_.why = std::move(why);
  }

  Book& book_;
  const Burst& burst_;
  std::vector<std::uint32_t> before_;
  std::set<std::string> seen_;
  Explanation out_;
};

std::uint32_t Search::predecessors(std::size_t i) const {
  const Request& r = burst_.ops[i].request;
  const bool fence = (r.flags & IBV_SEND_FENCE) != 0;
  std::uint32_t mask = 0;
  for (std::size_t k = 0; k < i; k++) {
    const Request& before = burst_.ops[k].request;
    if (before.end != r.end || before.conn != r.conn) continue;
    // A bind or an invalidation may overtake what is on its way to the peer; a READ may still be
    // under way when later requests are executed.
    const bool ordered =
        is_local(before.verb) || (is_fetch(before.verb) ? fence : !is_local(r.verb));
    if (ordered) mask |= 1U << k;
  }
  return mask;
}

std::string image_of(const Node& node) {
  std::string text;
  const auto add = [&text](auto value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  add(node.done);
  for (const auto& windows : node.state.windows) {
    for (const Window& w : windows) {
      add(w.bound);
      add(w.key);
      add(w.off);
      add(w.len);
      add(w.owner);
    }
  }
  for (std::size_t c = 0; c < kConns; c++) {
    for (std::size_t end = 0; end < kEnds; end++) {
      add(node.state.conns.at(c).ends.at(end).failed);
      add(node.cut.at(c).at(end));
      add(node.taken.at(c).at(end));
    }
  }
  return text;
}

void Search::visit(const Node& node) {
  if (!seen_.insert(image_of(node)).second || seen_.size() > 200000) return;
  if (node.done == (std::uint32_t{1} << burst_.ops.size()) - 1) return finish(node);
  for (std::size_t i = 0; i < burst_.ops.size(); i++) {
    if ((node.done >> i & 1U) != 0 || (before_[i] & ~node.done) != 0) continue;
    if (burst_.ops[i].status() == IBV_WC_WR_FLUSH_ERR) {
      flushed(node, i);
    } else {
      completed(node, i);
    }
  }
}

void Search::finish(const Node& node) {
  for (const Op& op : burst_.ops) {
    const Conn& c = node.state.conns.at(op.request.conn);
    if (op.status() == IBV_WC_WR_FLUSH_ERR && !burst_.closed.at(op.request.conn) &&
        !c.ends.at(static_cast<std::size_t>(op.request.end)).failed) {
      return no("a request is flushed, but nothing has failed");
    }
  }
  for (std::size_t c = 0; c < kConns; c++) {
    for (std::size_t end = 0; end < kEnds; end++) {
      const auto& all = burst_.arrivals.at(c).at(end);
      const auto real = std::ranges::count_if(
          all, [](const ibv_wc& wc) { return wc.status != IBV_WC_WR_FLUSH_ERR; });
      if (real != node.taken.at(c).at(end)) {
        return no(std::format("{} receives of connection {} complete at end {}, not {}", real, c,
                              end, int{node.taken.at(c).at(end)}));
      }
    }
  }
  out_.found = true;
  const auto same = [&node](const State& s) { return s.windows == node.state.windows; };
  if (std::ranges::none_of(out_.finals, same)) out_.finals.push_back(node.state);
}

const Receive* Search::arrived(const Node& node, const Request& r, const ibv_wc** wc) const {
  const auto end = static_cast<std::size_t>(1 - r.end);
  const auto& all = burst_.arrivals.at(r.conn).at(end);
  const std::size_t next = node.taken.at(r.conn).at(end);
  *wc = nullptr;
  if (next < all.size() && all[next].status != IBV_WC_WR_FLUSH_ERR) *wc = &all[next];
  std::size_t skip = next;
  for (const Receive& receive : book_.receives(r.conn, 1 - r.end)) {
    if (receive.used) continue;
    if (*wc != nullptr ? receive.id == (*wc)->wr_id : skip-- == 0) return &receive;
  }
  return nullptr;
}

std::string Search::wrong_arrival(const Request& r, const Receive& receive, const Verdict& v,
                                  const ibv_wc& wc) const {
  if (!has(v.receive, wc.status)) {
    return std::format("the receive completes with {}, not {}", ibv_wc_status_str(wc.status),
                       to_text(v.receive));
  }
  if (wc.status != IBV_WC_SUCCESS) return {};
  const bool imm = r.verb == Verb::kSendImm || r.verb == Verb::kWriteImm;
  const bool inv = r.verb == Verb::kSendInv;
  if (wc.opcode != (r.verb == Verb::kWriteImm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV)) {
    return std::format("the receive has opcode {}", static_cast<int>(wc.opcode));
  }
  if (wc.byte_len != r.length + receive.header) {
    return std::format("the receive has byte_len {}, not {}", wc.byte_len,
                       r.length + receive.header);
  }
  if (imm != ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) || (imm && ntohl(wc.imm_data) != r.imm)) {
    return "the receive has another immediate";
  }
  if (inv != ((wc.wc_flags & IBV_WC_WITH_INV) != 0) || (inv && wc.invalidated_rkey != r.rkey)) {
    return "the receive names another invalidated key";
  }
  return {};
}

void Search::note(std::size_t i, const Verdict& v) {
  Part& part = out_.parts[i];
  part.here = v.here;
  if (std::ranges::find(part.there, v.there) == part.there.end()) part.there.push_back(v.there);
}

void Search::flushed(const Node& node, std::size_t i) {
  const Request& r = burst_.ops[i].request;
  const auto own = static_cast<std::size_t>(r.end);
  Node next = node;
  next.done |= 1U << i;
  next.cut.at(r.conn).at(own) = true;
  visit(next);
  // It may have been executed before its queue failed.
  const Conn& c = node.state.conns.at(r.conn);
  if (node.cut.at(r.conn).at(own) || c.ends.at(own).failed) return;
  if (!is_local(r.verb) && c.ends.at(1 - own).failed) return;
  const ibv_wc* wc = nullptr;
  const Receive* receive = takes_receive(r.verb) ? arrived(node, r, &wc) : nullptr;
  const Verdict v = judge(node.state, r, receive);
  note(i, v);
  next = node;
  next.done |= 1U << i;
  if (v.receive != 0) {
    if (wc == nullptr || !wrong_arrival(r, *receive, v, *wc).empty()) return;
    next.taken.at(r.conn).at(1 - own)++;
  }
  if (has(v.allowed, IBV_WC_SUCCESS) && (wc == nullptr || wc->status == IBV_WC_SUCCESS)) {
    out_.parts[i].maybe = true;
    Node done = next;
    commit(done.state, r);
    visit(done);
  }
  if ((v.allowed & kRemoteErrors) != 0) {
    next.state.conns.at(r.conn).ends.at(0).failed = true;
    next.state.conns.at(r.conn).ends.at(1).failed = true;
    visit(next);
  }
}

void Search::completed(const Node& node, std::size_t i) {
  const Op& op = burst_.ops[i];
  const Request& r = op.request;
  const auto own = static_cast<std::size_t>(r.end);
  const Conn& c = node.state.conns.at(r.conn);
  const ibv_wc_status status = op.status();
  Node next = node;
  next.done |= 1U << i;
  const auto fail = [&](std::size_t end) {
    next.state.conns.at(r.conn).ends.at(end).failed = true;
  };
  const bool stopped = node.cut.at(r.conn).at(own) || c.ends.at(own).failed;
  if (!is_local(r.verb) && c.reliable()) {
    if (stopped) return no("a request is executed after one that failed");
    if (c.ends.at(1 - own).failed) {
      if (status != IBV_WC_RETRY_EXC_ERR) return;
      fail(own);
      return visit(next);
    }
  }
  const ibv_wc* wc = nullptr;
  const Receive* receive = takes_receive(r.verb) ? arrived(node, r, &wc) : nullptr;
  const Verdict v = judge(node.state, r, receive);
  note(i, v);
  if (!has(v.allowed, status)) {
    return no(std::format("{} completes with {}, not {}", name_of(r.verb),
                          ibv_wc_status_str(status), to_text(v.allowed)));
  }
  bool happened = status == IBV_WC_SUCCESS && !v.lossy && v.there.ok;
  if (v.receive != 0 && (status == IBV_WC_SUCCESS || has(kRemoteErrors, status)) && v.here.ok) {
    if (wc == nullptr && v.lossy) return visit(next);  // lost
    if (wc == nullptr && status != IBV_WC_SUCCESS && r.verb == Verb::kWriteImm) {
    } else if (wc == nullptr) {
      return no("a message arrived, and no receive completes");
    } else if (const std::string why = wrong_arrival(r, *receive, v, *wc); !why.empty()) {
      return no(why);
    } else {
      next.taken.at(r.conn).at(1 - own)++;
      happened = status == IBV_WC_SUCCESS && wc->status == IBV_WC_SUCCESS;
      if (wc->status != IBV_WC_SUCCESS) fail(1 - own);
    }
  }
  if (status != IBV_WC_SUCCESS) {
    fail(own);
    if (has(kRemoteErrors, status)) fail(1 - own);
  } else if (is_local(r.verb) || happened) {
    commit(next.state, r);
  }
  out_.parts[i].happened = happened;
  visit(next);
}

}  // namespace

ibv_wc_opcode wc_opcode(Verb verb) {
  switch (verb) {
    case Verb::kBind:
      return IBV_WC_BIND_MW;
    case Verb::kInvalidate:
      return IBV_WC_LOCAL_INV;
    case Verb::kWrite:
    case Verb::kWriteImm:
      return IBV_WC_RDMA_WRITE;
    case Verb::kRead:
      return IBV_WC_RDMA_READ;
    case Verb::kCas:
      return IBV_WC_COMP_SWAP;
    case Verb::kFetchAdd:
      return IBV_WC_FETCH_ADD;
    case Verb::kAtomicWrite:
      return IBV_WC_ATOMIC_WRITE;
    case Verb::kFlush:
      return IBV_WC_FLUSH;
    default:
      return IBV_WC_SEND;
  }
}

Explanation explain(Book& book, const Burst& burst) { return Search(book, burst).run(); }

}  // namespace guest::generator
