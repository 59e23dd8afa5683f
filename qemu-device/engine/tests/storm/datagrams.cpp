// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/datagrams.h"

#include <algorithm>

namespace tern::storm {

void Datagrams::add(TestQp& qp, QpView& view, ReceivePool& pool, std::uint32_t pd) {
  TestMr& mr = qp.node().reg(Slots::bytes_for(kMaxLen, kDepth), {.pd = pd});
  ends_.push_back(std::make_unique<End>(End{&qp, &pool, Slots(mr, kMaxLen, kDepth), {}, 0, {}}));
  view.arrivals = this;
}

void Datagrams::find(Claim claim, const End& end, const std::string& text) {
  c_.findings.add(claim, "UD, node " + std::to_string(node_of(*end.qp).index()) + " QP " +
                             std::to_string(end.qp->number()) + ": " + text);
}

Datagrams::End* Datagrams::end_of(unsigned node, std::uint32_t qpn) {
  for (const auto& end : ends_) {
    if (node_of(*end->qp).index() == node && end->qp->number() == qpn) return end.get();
  }
  return nullptr;
}

void Datagrams::post_from(std::size_t index) {
  End& from = *ends_[index];
  if (from.sent.size() - from.completed >= kDepth || from.qp->sq_free() == 0) return;
  Datagram d{};
  do {
    d.to = c_.random.pick(ends_.size());
  } while (d.to == index);
  d.len = c_.random.one_in(4) ? c_.random.pick(kMaxLen + 1) : c_.random.pick(200);
  d.with_imm = c_.random.one_in(2);
  d.imm = static_cast<std::uint32_t>(c_.random());
  d.gid = static_cast<std::uint16_t>(c_.random.pick(4));
  const std::uint64_t number = from.sent.size();
  const auto slot = static_cast<unsigned>(number % kDepth);
  fill_content(from.near.data(slot, d.len), content_key(c_.seed, 1000 + index, number));
  const TestQp& to = *ends_[d.to]->qp;
  SendWr wr = datagram(*from.qp, to, from.near.sges(slot, d.len, c_.random));
  wr.ud.av.sgid_index = le(d.gid);
  const Gid gid = to.node().gid(d.gid);
  std::ranges::copy(gid, wr.ud.av.dgid);
  wr.wr_id = number;
  if (d.with_imm) (void)std::move(wr).immediate(d.imm);
  from.sent.push_back(d);
  from.qp->post(wr);
}

void Datagrams::post() {
  if (c_.random.one_in(4)) post_from(c_.random.pick(ends_.size()));
}

bool Datagrams::completed(unsigned node, const Wc& wc) {
  End* const end = end_of(node, le(std::uint32_t{wc.qpn}));
  if (end == nullptr) return false;
  if (wc.flags & TERN_CQE_F_RECV) {
    received(*end, wc);
  } else {
    sent(*end, wc);
  }
  return true;
}

void Datagrams::sent(End& end, const Wc& wc) {
  if (wc.status != TERN_CQE_SUCCESS)
    return find(Claim::kStatus, end,
                std::string("a datagram ended with ") + status_name(wc.status));
  if (le(std::uint64_t{wc.wr_id}) != end.completed)
    return find(Claim::kReordered, end, "completions out of order");
  ++end.completed;
}

void Datagrams::arrived(const QpView& at, unsigned from_node, std::uint32_t src_qp, Psn last,
                        bool whole) {
  End* const to = end_of(at.node, at.qp->number());
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const End& from = *ends_[i];
    if (node_of(*from.qp).index() != from_node || from.qp->number() != src_qp) continue;
    const std::uint64_t number = Psn(last.value() - from.qp->options().sq_psn).value();
    if (number >= from.sent.size() || ends_[from.sent[number].to].get() != to) break;
    if (whole) to->arrivals.push_back({i, number});
    return;
  }
  find(Claim::kProtocol, *to, "a datagram that nobody sent here");
}

bool Datagrams::right(const End& end, const Arrival& arrival, const Wc& wc, unsigned slot) const {
  const End& from = *ends_[arrival.from];
  const Datagram& d = from.sent[arrival.number];
  const auto all = end.pool->slots().data(slot, kGrh + d.len);
  const bool ipv4 = d.gid == 1 || d.gid == 2;
  const Gid sgid = from.qp->node().gid(d.gid);
  // The source address in the GRH: the last 4 bytes of an IPv4-mapped GID, or all 16.
  const auto source = ipv4 ? all.subspan(32, 4) : all.subspan(8, 16);
  const auto want = std::as_bytes(std::span(sgid)).last(source.size());
  return le(std::uint32_t{wc.byte_len}) == kGrh + d.len && (wc.flags & TERN_CQE_F_GRH) &&
         std::ranges::equal(source, want) && le(std::uint32_t{wc.src_qp}) == from.qp->number() &&
         ((wc.flags & TERN_CQE_F_IMM) != 0) == d.with_imm && (!d.with_imm || wc.imm == d.imm) &&
         wc.net_type == (ipv4 ? TERN_NET_IPV4 : TERN_NET_IPV6) &&
         is_content(all.subspan(kGrh), content_key(c_.seed, 1000 + arrival.from, arrival.number));
}

void Datagrams::received(End& end, const Wc& wc) {
  unsigned slot = 0;
  if (!end.pool->take(wc, &slot))
    return find(Claim::kDoubled, end, "a receive completed that is not posted");
  if (wc.status != TERN_CQE_SUCCESS) {
    find(Claim::kStatus, end, std::string("a receive ended with ") + status_name(wc.status));
  } else if (end.arrivals.empty()) {
    find(Claim::kDoubled, end, "a receive completed for which no datagram came");
  } else {
    const Arrival arrival = end.arrivals.front();
    end.arrivals.pop_front();
    if (!right(end, arrival, wc, slot)) {
      const bool later = std::ranges::any_of(
          end.arrivals, [&](const Arrival& a) { return right(end, a, wc, slot); });
      find(later ? Claim::kLost : Claim::kCorrupted, end, "another datagram was due");
    }
    const std::uint32_t len = std::min(le(std::uint32_t{wc.byte_len}), end.pool->slots().room());
    if (!end.pool->slots().clean_but(slot, len))
      find(Claim::kOutside, end, "bytes around a datagram");
    ++received_;
  }
  end.pool->rest(slot);
}

bool Datagrams::done() const {
  return std::ranges::all_of(ends_,
                             [](const auto& end) { return end->completed == end->sent.size(); });
}

void Datagrams::finish() {
  for (const auto& end : ends_) {
    if (!end->arrivals.empty())
      find(Claim::kLost, *end, std::to_string(end->arrivals.size()) + " datagrams that arrived");
  }
}

}  // namespace tern::storm
