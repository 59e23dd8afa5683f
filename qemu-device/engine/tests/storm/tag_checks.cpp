// SPDX-License-Identifier: GPL-2.0-or-later
// What completions and memory must show of messages to an SRQ with tags.
#include <algorithm>
#include <array>

#include "tests/storm/tags.h"
#include "transport/tag_headers.h"

namespace tern::storm {

namespace {

constexpr std::uint64_t kTagId = kRegTag >> 1;  // in the recv_wr_id of tags

tern_tm_cqe match_of(const Wc& wc) {
  tern_tm_cqe match;
  std::memcpy(&match, &wc, sizeof(match));
  return match;
}

}  // namespace

// ---- small things ----

unsigned TagFlow::slot_of(const Message& m) { return static_cast<unsigned>(m.number % kDepth); }

std::uint64_t TagFlow::key_of(const Pair& pair, const Message& m) const {
  return content_key(c_.seed, (std::uint64_t{id_} << 8) + pair.node->index(), m.number);
}

std::string TagFlow::name_of(const Message& m) const {
  constexpr std::array kNames = {"eager message", "request", "message without a tag", "WRITE"};
  return std::string(kNames[static_cast<std::size_t>(m.kind)]) + " " + std::to_string(m.number) +
         " of " + std::to_string(m.len) + " bytes with tag " + std::to_string(m.tag) +
         (m.match ? ", matched by " + std::to_string(m.match->id & ~kTagId) : std::string());
}

std::uint64_t TagFlow::hash_of(const Buffer& buffer) {
  return hash_bytes(buffer.slots.whole(buffer.slot));
}

std::span<std::byte> TagFlow::buffer_of(std::uint64_t recv_wr_id) const {
  for (const Tag& tag : model_->list()) {
    if (tag.id == recv_wr_id) return buffers_[tag.buffer].slots.whole(buffers_[tag.buffer].slot);
  }
  return {};
}

TagFlow::Pair* TagFlow::pair_of(const Wc& wc) {
  const std::uint32_t qpn = le(std::uint32_t{wc.qpn});
  const auto it =
      std::ranges::find_if(pairs_, [&](const Pair& p) { return p.up && p.y->number() == qpn; });
  return it == pairs_.end() ? nullptr : &*it;
}

// Whether the device fetches the data of a request that has matched.
bool TagFlow::by_device(const Pair& pair, const Message& m) const {
  return pair.fetches && pair.y->options().max_rd_atomic != 0 && m.len <= m.match->room;
}

// Whether a message may be arriving that no tag has matched.
bool TagFlow::may_be_open() const {
  return std::ranges::any_of(pairs_, [](const Pair& pair) {
    const auto next = std::ranges::find(pair.open, false, &Message::begun);
    return pair.up && next != pair.open.end() && next->kind == Message::Kind::kEager &&
           next->total > pair.mtu;
  });
}

// A buffer that is not posted, or whose region is gone.
void TagFlow::check_buffer(const Buffer& buffer) {
  if (buffer.posted && !buffer.closed) {
    if (!is_guard(buffer.slots.whole(buffer.slot)))
      find(Claim::kOutside, "the buffer of a tag that matched nothing");
  } else if (hash_of(buffer) != buffer.was) {
    find(Claim::kOutside, buffer.closed ? "a buffer whose key is gone changed"
                                        : "the buffer of a tag that is done changed");
  }
}

void TagFlow::give_back(const Tag& tag, bool untouched) {
  Buffer& buffer = buffers_[tag.buffer];
  if (untouched || buffer.closed) check_buffer(buffer);
  buffer.posted = false;
  if (!buffer.closed) buffer.was = hash_of(buffer);
}

// ---- the CQs ----

void TagFlow::poll() {
  while (auto wc = cq_->poll()) {
    progressed();
    for (unsigned n = plant ? plant(*this, *wc) : 1; n > 0; --n) completed(*wc);
  }
  if (c_.findings.empty()) model_->check_record(*srq_);
  // A message has been received before its sender or the FIN reports it.
  for (Pair& pair : pairs_) {
    while (const auto wc = pair.fin_cq->poll()) fin(pair, *wc);
    while (const auto wc = pair.send_cq->poll()) sent(pair, *wc);
    forget_done(pair);
  }
}

void TagFlow::completed(const Wc& wc) {
  model_->count();
  if (le(std::uint32_t{wc.srqn}) != srq_->number())
    return find(Claim::kCorrupted, "a CQE with another srqn");
  if (wc.opcode >= TERN_TM_CQE_ADD && wc.opcode <= TERN_TM_CQE_SYNC) return completed_op(wc);
  Pair* const pair = pair_of(wc);
  if (pair == nullptr) return find(Claim::kCorrupted, "a CQE of a QP that has no connection");
  if (wc.flags & TERN_CQE_F_TM_MATCH) return begun(*pair, wc);
  const std::uint64_t id = le(std::uint64_t{wc.wr_id});
  if (!(id & kTagId)) return delivered(*pair, wc);
  const auto m = std::ranges::find_if(
      pair->open, [&](const Message& o) { return o.match && !o.ended && o.match->id == id; });
  if (m == pair->open.end())
    return find(Claim::kDoubled, "a last CQE of tag " + std::to_string(id & ~kTagId));
  ended(*pair, *m, wc);
}

void TagFlow::completed_op(const Wc& wc) {
  const auto gone = model_->completed(wc, may_be_open());
  for (const Tag& tag : model_->take_removed()) give_back(tag, true);
  if (gone) give_back(*gone, true);
}

// ---- tags that match ----

void TagFlow::begun(Pair& pair, const Wc& wc) {
  const tern_tm_cqe match = match_of(wc);
  Message* const m = pair.first(&Message::begun);
  if (m == nullptr) return find(Claim::kDoubled, "a message matched that was never sent, or twice");
  if (le(std::uint32_t{match.app_ctx}) != static_cast<std::uint32_t>(m->number) || !m->tagged() ||
      le(std::uint64_t{match.tag}) != m->tag) {
    return find(Claim::kReordered, "message " + std::to_string(le(std::uint32_t{match.app_ctx})) +
                                       " matched where " + name_of(*m) + " was due");
  }
  m->match = model_->matched(le(std::uint64_t{wc.wr_id}), m->tag);
  for (const Tag& tag : model_->take_removed()) give_back(tag, true);
  if (!m->match) return;
  m->begun = true;
  pair.since = model_->cqes();
  if ((wc.flags & TERN_CQE_F_TM_DATA_VALID) || wc.status != TERN_CQE_SUCCESS)
    return ended(pair, *m, wc);
  if (m->kind == Message::Kind::kEager) {
    if (m->total <= pair.mtu) find(Claim::kProtocol, "a match without data of " + name_of(*m));
    c_.counts.add(Rule::kTagLong);
  }
}

void TagFlow::ended(Pair& pair, Message& m, const Wc& wc) {
  if (wc.opcode != TERN_RECV_TM)
    find(Claim::kCorrupted, "the opcode of the last CQE of " + name_of(m));
  m.ended = true;
  if (m.kind == Message::Kind::kEager) pair.since = model_->cqes();
  check_end(pair, m, wc);
  model_->released();
  give_back(*m.match, false);
  if (m.good) ++completed_;
}

void TagFlow::check_end(Pair& pair, Message& m, const Wc& wc) {
  const Buffer& buffer = buffers_[m.match->buffer];
  const std::uint32_t len = le(std::uint32_t{wc.byte_len});
  const bool request = m.kind == Message::Kind::kRequest;
  const bool valid = wc.flags & TERN_CQE_F_TM_DATA_VALID;
  if (wc.status == TERN_CQE_SUCCESS) {
    m.good = true;
    if (!valid || len != m.len || m.len > m.match->room)
      find(Claim::kCorrupted, "the last CQE of " + name_of(m));
    // A READ of nothing needs no key.
    if (request && (!by_device(pair, m) || (m.never && m.len != 0)))
      find(Claim::kStatus, name_of(m) + " was fetched");
    c_.counts.add(request ? Rule::kTagRendezvous : Rule::kTagEager);
    return compare(m, buffer, key_of(pair, m), true);
  }
  if (wc.status == TERN_CQE_TM_RNDV_INCOMPLETE) {
    if (!request || by_device(pair, m)) find(Claim::kStatus, name_of(m) + " was left to software");
    if (!valid || len != std::min(m.total, m.match->room)) {
      return find(Claim::kCorrupted, std::to_string(len) + " bytes of " + name_of(m));
    }
    const auto came = buffer.slots.data(buffer.slot, len);
    if (!std::ranges::equal(came, pair.near->data(slot_of(m), m.total).first(len))) {
      find(Claim::kCorrupted, name_of(m) + " for software");
    }
    if (!buffer.slots.clean_but(buffer.slot, len))
      find(Claim::kOutside, "bytes around " + name_of(m));
    return c_.counts.add(Rule::kTagIncomplete);
  }
  failed(pair, m, wc, buffer);
}

// The first error of a connection must have a reason; the others are flushed.
void TagFlow::failed(Pair& pair, const Message& m, const Wc& wc, const Buffer& buffer) {
  const bool eager = m.kind == Message::Kind::kEager;
  bool right = false;
  switch (wc.status) {
    case TERN_CQE_LOC_LEN_ERR:
      right = eager && m.len > m.match->room;
      c_.counts.add(Rule::kTagTooLong);
      break;
    case TERN_CQE_LOC_PROT_ERR:
      right = buffer.closed;
      c_.counts.add(Rule::kTagKeyGone);
      break;
    case TERN_CQE_REM_ACCESS_ERR:
      right = !eager && m.closed;
      c_.counts.add(Rule::kTagRemoteKeyGone);
      break;
    case TERN_CQE_WR_FLUSH_ERR:
    case TERN_CQE_RETRY_EXC_ERR:
      right = justified(pair);
      c_.counts.add(Rule::kTagFlushed);
      break;
    default:
      break;
  }
  if (!right) find(Claim::kStatus, name_of(m) + " ended with " + status_name(wc.status));
  pair.broken = pair.may_fail = true;
  compare(m, buffer, key_of(pair, m), false);
}

// The data of a message that has matched: all of it if `whole`, else a part from the first byte on.
void TagFlow::compare(const Message& m, const Buffer& buffer, std::uint64_t key, bool whole) {
  const std::uint32_t len = std::min(m.len, m.match->room);
  const auto data = buffer.slots.data(buffer.slot, len);
  if (!buffer.slots.clean_but(buffer.slot, len))
    find(Claim::kOutside, "bytes around the data of " + name_of(m));
  const std::size_t same = matching(data, key);
  if (same == len) return;
  if (!is_guard(data.subspan(same))) {
    find(Claim::kCorrupted, "byte " + std::to_string(same) + " of " + name_of(m));
  } else if (whole) {
    find(Claim::kLost, std::to_string(len - same) + " bytes of " + name_of(m));
  }
}

// ---- receive WQEs ----

void TagFlow::delivered(Pair& pair, const Wc& wc) {
  unsigned slot = 0;
  if (!pool_->take(wc, &slot))
    return find(Claim::kDoubled, "a receive completed that is not posted");
  Message* const m = pair.first(&Message::begun);
  if (m == nullptr)
    return find(Claim::kDoubled, "a message was received that was never sent, or twice");
  m->begun = m->ended = true;
  m->good = wc.status == TERN_CQE_SUCCESS;
  if (m->good) {
    check_delivered(pair, *m, wc, slot);
    ++completed_;
  } else {
    if (wc.status != TERN_CQE_WR_FLUSH_ERR || !justified(pair)) {
      find(Claim::kStatus,
           "the receive of " + name_of(*m) + " ended with " + status_name(wc.status));
    }
    pair.broken = pair.may_fail = true;
    model_->loosen();
  }
  pair.since = model_->cqes();
  pool_->rest(slot);
}

void TagFlow::check_delivered(Pair& pair, Message& m, const Wc& wc, unsigned slot) {
  const std::uint8_t opcode = m.kind == Message::Kind::kWrite ? TERN_RECV_RDMA_WITH_IMM
                              : m.tagged()                    ? TERN_RECV_TM
                                                              : TERN_RECV_TM_NO_TAG;
  const std::uint32_t len = le(std::uint32_t{wc.byte_len});
  if (wc.opcode != opcode || len != m.total || (wc.flags & TERN_CQE_F_TM_DATA_VALID)) {
    return find(Claim::kCorrupted, "the CQE of " + name_of(m) + " has opcode " +
                                       std::to_string(wc.opcode) + " and " + std::to_string(len) +
                                       " bytes");
  }
  if (m.kind == Message::Kind::kWrite && wc.imm != static_cast<std::uint32_t>(m.number)) {
    find(Claim::kReordered, "another WRITE where " + name_of(m) + " was due");
  }
  const Slots& slots = pool_->slots();
  if (!slots.clean_but(slot, len))
    find(Claim::kOutside, "bytes around what was received of " + name_of(m));
  if (!std::ranges::equal(slots.data(slot, len), pair.near->data(slot_of(m), len))) {
    find(Claim::kCorrupted, name_of(m) + " in a receive buffer");
  }
  if (!m.tagged()) {
    if (m.kind == Message::Kind::kNoTag) c_.counts.add(Rule::kTagNone);
    return;
  }
  c_.counts.add(Rule::kTagUnexpected);
  model_->unexpected(wc, m.tag, m.total <= pair.mtu, std::max(m.since, pair.since));
}

// ---- the sender ----

void TagFlow::sent(Pair& pair, const Wc& wc) {
  progressed();
  Message* const m = pair.first(&Message::sent);
  if (m == nullptr || le(std::uint64_t{wc.wr_id}) != m->number) {
    return find(Claim::kReordered,
                "completion of SEND " + std::to_string(le(std::uint64_t{wc.wr_id})));
  }
  m->sent = true;
  if (wc.status != TERN_CQE_SUCCESS) {
    if (!justified(pair))
      find(Claim::kStatus, name_of(*m) + " was sent with " + status_name(wc.status));
    pair.broken = pair.may_fail = true;
    return;
  }
  if (!m->begun || (!m->ended && m->kind != Message::Kind::kRequest)) {
    find(Claim::kLost, name_of(*m) + " is reported as done, and was not received");
  }
}

// The FIN of a request whose data was fetched.
void TagFlow::fin(Pair& pair, const Wc& wc) {
  progressed();
  unsigned slot = 0;
  if (!pair.fins || !pair.fins->take(wc, &slot))
    return find(Claim::kDoubled, "a FIN in a receive that is not posted");
  if (wc.status != TERN_CQE_SUCCESS) {
    if (wc.status != TERN_CQE_WR_FLUSH_ERR || !justified(pair)) {
      find(Claim::kStatus,
           std::string("the receive of a FIN ended with ") + status_name(wc.status));
    }
    pair.broken = pair.may_fail = true;
    return pair.fins->rest(slot);
  }
  TagHeaders got{};
  const auto bytes = pair.fins->slots().data(slot, sizeof(got));
  std::memcpy(&got, bytes.data(), sizeof(got));
  const std::uint32_t number = from_wire(std::uint32_t{got.tm.app_ctx});
  const auto m = std::ranges::find_if(
      pair.open, [&](const Message& o) { return static_cast<std::uint32_t>(o.number) == number; });
  const bool due =
      m != pair.open.end() && m->kind == Message::Kind::kRequest && m->good && !m->finished;
  if (!due)
    return find(Claim::kDoubled, "a FIN that is not due, of message " + std::to_string(number));
  m->finished = true;
  TagHeaders want{};
  std::memcpy(&want, pair.near->data(slot_of(*m), sizeof(want)).data(), sizeof(want));
  want.tm.opcode = TERN_TMH_FIN;
  if (le(std::uint32_t{wc.byte_len}) != sizeof(want) ||
      std::memcmp(&got, &want, sizeof(want)) != 0) {
    find(Claim::kCorrupted, "the FIN of " + name_of(*m));
  }
  if (!pair.fins->slots().clean_but(slot, sizeof(want)))
    find(Claim::kOutside, "bytes around a FIN");
  pair.fins->rest(slot);
}

void TagFlow::forget_done(Pair& pair) {
  const auto over = [](const Message& m) {
    const bool fetched = m.kind == Message::Kind::kRequest && m.match && m.good;
    return m.sent && m.ended && (m.finished || !fetched);
  };
  while (!pair.open.empty() && over(pair.open.front())) pair.open.pop_front();
}

}  // namespace tern::storm
