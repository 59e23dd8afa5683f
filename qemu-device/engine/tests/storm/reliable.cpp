// SPDX-License-Identifier: GPL-2.0-or-later
// Flows of RC and XRC.
#include <algorithm>

#include "tests/storm/flow.h"
#include "transport/segments.h"

namespace tern::storm {

namespace {

constexpr std::size_t kHistory = 64;
constexpr unsigned kIntoTheHole = 5;  // posted after the last message that succeeds

std::string what_came(const Wc& wc) {
  return "a completion with " + std::string(status_name(wc.status)) + " of request " +
         std::to_string(le(std::uint64_t{wc.wr_id}));
}

}  // namespace

ReliableFlow::ReliableFlow(Context& context, unsigned id, const FlowOptions& options)
    : ConnectedFlow(context, id, options) {
  word_.mr().put(word_.offset(0), value_);
  if (o_.to_view) o_.to_view->flushes = this;
  if (o_.invalidates) fast_ = o_.to->node().alloc_fast(1, o_.pd_to);
}

// ---- posting ----

void ReliableFlow::choose(Message& m) {
  switch (c_.random.pick(o_.invalidates && key_ == Key::kOpen ? 11 : 10)) {
    case 0:
      m.opcode = TERN_WR_SEND;
      break;
    case 1:
      m.opcode = TERN_WR_SEND_WITH_IMM;
      break;
    case 2:
    case 3:
      m.opcode = TERN_WR_RDMA_WRITE;
      break;
    case 4:
      m.opcode = TERN_WR_RDMA_WRITE_WITH_IMM;
      break;
    case 5:
    case 6:
      m.opcode = TERN_WR_RDMA_READ;
      break;
    case 7:
    case 8:
      return chain(m);
    case 9:
      return choose_flush(m);
    default:
      m.opcode = TERN_WR_SEND_WITH_INV;
      m.key = fast_.mr.key;
      key_ = Key::kLent;
      break;
  }
  m.len = length();
  m.imm = static_cast<std::uint32_t>(c_.random());
}

// Atomics and ATOMIC WRITEs on one word. The result of each atomic shows that all requests before
// it were executed exactly once.
void ReliableFlow::chain(Message& m) {
  m.before = value_;
  switch (c_.random.pick(4)) {
    case 0:
      m.opcode = TERN_WR_ATOMIC_FETCH_AND_ADD;
      m.after = m.before + 1 + c_.random.pick(1000);
      break;
    case 1:
      m.opcode = TERN_WR_ATOMIC_CMP_AND_SWP;
      // Some compare with a value that the word does not have.
      m.after = c_.random.one_in(5) ? m.before : c_.random();
      break;
    default:
      m.opcode = TERN_WR_ATOMIC_WRITE;
      m.after = c_.random();
      break;
  }
  value_ = m.after;
}

// A FLUSH of the whole region, a random range, or the target of an open message.
void ReliableFlow::choose_flush(Message& m) {
  m.opcode = TERN_WR_FLUSH;
  const std::uint64_t length = far_.mr().length;
  m.from = c_.random.pick(length + 1);
  switch (c_.random.pick(4)) {
    case 0:
      m.all = true;
      break;
    case 1:
      break;
    case 2:
      if (!open_.empty()) {
        const Message& of = open_[c_.random.pick(open_.size())];
        m.from = far_.offset(slot_of(of));
        m.len = of.flush() ? 0 : of.len;
        break;
      }
      [[fallthrough]];
    default:
      m.len = c_.random.pick(length - m.from + 1);
      break;
  }
}

void ReliableFlow::post_one(bool last) {
  Message m;
  m.number = next_++;
  choose(m);
  if (o_.fate == Fate::kStarve && hole_) {
    m.opcode = TERN_WR_SEND;
    m.len = std::min({m.len, mtu_, o_.max_len});
  } else if (hole_ && m.len > mtu_) {
    m.len = mtu_;
  }
  m.signaled = last || doomed() || m.number % 4 == 3 || c_.random.one_in(2);
  m.psns = m.read() || m.needs_receive() || m.write() ? packets_of(m.len, mtu_) : 1;
  m.psn = next_psn_;
  next_psn_ = next_psn_.plus(m.psns);
  const unsigned slot = slot_of(m);
  near_.wipe(slot);
  if (!far_.clean_but(slot, 0))
    find(Claim::kOutside, "the target of a request that was long done changed");
  if (m.read()) {
    fill_content(far_.data(slot, m.len), key_of(m));
  } else if (m.atomic_write()) {
    near_.mr().put(near_.offset(slot), m.after);
  } else if (!m.atomic() && !m.flush()) {
    fill_content(near_.data(slot, m.len), key_of(m));
  }
  open_.push_back(m);
  o_.from->post(request(m));
  progressed();
}

// The messages that succeed are over.
void ReliableFlow::doom() {
  if (!open_.empty()) return;
  hole_ = true;
  hole_from_ = next_;
  hole_end_ = next_ + kIntoTheHole + (o_.fate == Fate::kStarve ? o_.pool->posted() : 0);
  if (o_.fate == Fate::kBlackHole) {
    o_.from_view->black_hole = true;
  } else {
    // The posted receives are used first; the next message finds none.
    o_.pool->limit(0);
  }
}

void ReliableFlow::post() {
  if (dead_) return;
  if (doomed() && (next_ >= o_.quota || winding_up_)) {
    if (!hole_) doom();
    while (hole_ && next_ < hole_end_ && open_.size() < o_.depth && o_.from->sq_free() > 0) {
      post_one(false);
    }
    return;
  }
  if (winding_up_) return;
  if (o_.invalidates && key_ == Key::kClosed && c_.random.one_in(8)) {
    SendWr wr = reg_mr(fast_);
    wr.wr_id = kRegTag | id_;
    key_ = Key::kOpening;
    o_.to->post(wr);
  }
  for (unsigned n = c_.random.pick(4); n > 0; --n) {
    if (open_.size() >= o_.depth || o_.from->sq_free() < 2) return;
    post_one(false);
    if (doomed() && next_ >= o_.quota) return;
  }
}

void ReliableFlow::wind_up() {
  winding_up_ = true;
  // A signaled request must report that the last ones are done.
  if (!dead_ && !hole_ && !open_.empty() && !open_.back().signaled) {
    if (open_.size() < o_.depth) {
      post_one(true);
    } else {
      winding_up_ = false;  // try again next time
    }
  }
}

void ReliableFlow::registered(const Wc& wc) {
  progressed();
  key_ = wc.status == TERN_CQE_SUCCESS ? Key::kOpen : Key::kLent;
}

// ---- the requester's completions ----

void ReliableFlow::sent(const Wc& wc) {
  progressed();
  const std::uint64_t number = le(std::uint64_t{wc.wr_id});
  if (dead_) {
    if (wc.status != TERN_CQE_WR_FLUSH_ERR || number != flushed_) {
      return find(Claim::kStatus,
                  what_came(wc) + " where " + std::to_string(flushed_) + " had to be flushed");
    }
    ++flushed_;
    c_.counts.add(Rule::kFlushedSends);
    return;
  }
  if (number < base_) return find(Claim::kDoubled, what_came(wc) + ", which was complete");
  if (number >= next_) return find(Claim::kCorrupted, what_came(wc) + ", which was never posted");
  const Message& m = at(number);
  if (m.opcode != wc.opcode)
    return find(Claim::kCorrupted, what_came(wc) + " has the opcode of another");
  if (wc.status == TERN_CQE_SUCCESS) {
    const std::uint32_t len = m.flush() ? 0 : m.on_word() ? 8 : m.len;
    if (le(std::uint32_t{wc.byte_len}) != len)
      find(Claim::kCorrupted, what_came(wc) + " has another length");
    // Compare before the covered WRITEs are removed from open_.
    if (m.flush()) compare_flushed(m);
  }
  while (base_ < number) {
    if (open_.front().signaled) {
      return find(Claim::kReordered, what_came(wc) + " before that of " + name_of(open_.front()));
    }
    succeed(open_.front());
    open_.pop_front();
    ++base_;
  }
  if (wc.status != TERN_CQE_SUCCESS) return fail(at(number), wc.status);
  if (!open_.front().signaled)
    return find(Claim::kDoubled, what_came(wc) + ", which is not signaled");
  succeed(open_.front());
  open_.pop_front();
  ++base_;
}

void ReliableFlow::succeed(Message& m) {
  ++completed_;
  const unsigned slot = slot_of(m);
  if (m.needs_receive() && !m.received) {
    find(Claim::kLost, name_of(m) + " is reported as done, and was not received");
  }
  if (m.write()) {
    if (!m.compared) compare_write(m, true);
  } else if (m.read()) {
    compare_read(m, true);
  } else if (m.on_word()) {
    if (m.atomic()) compare_atomic(m);
    compare_word(m);
    reached_ = m.after;
  }
  far_.wipe(slot);
  history_.push_back(m);
  if (history_.size() > kHistory) history_.pop_front();
}

void ReliableFlow::compare_atomic(const Message& m) {
  const unsigned slot = slot_of(m);
  const auto got = near_.mr().get<std::uint64_t>(near_.offset(slot));
  if (!near_.clean_but(slot, 8)) find(Claim::kOutside, "bytes around the result of " + name_of(m));
  if (got != m.before) {
    find(Claim::kCorrupted,
         name_of(m) + " returned " + std::to_string(got) + ", not " + std::to_string(m.before));
  }
}

// The word must have the value left by `m`, or by a later request that has executed already.
void ReliableFlow::compare_word(const Message& m) {
  if (!word_.clean_but(0, 8)) find(Claim::kOutside, "bytes around the word of " + name_of(m));
  const auto word = word_.mr().get<std::uint64_t>(word_.offset(0));
  const auto left = [&](const Message& other) {
    return other.on_word() && other.number >= m.number && other.after == word;
  };
  if (std::ranges::any_of(open_, left)) return;
  const auto left_once = [&](const Message& other) {
    return other.on_word() && other.after == word;
  };
  const Claim claim = word == m.before                           ? Claim::kLost
                      : std::ranges::any_of(history_, left_once) ? Claim::kDoubled
                                                                 : Claim::kCorrupted;
  find(claim, "the word is " + std::to_string(word) + " when " + name_of(m) +
                  " is done, which left " + std::to_string(m.after));
}

// ---- FLUSH ----

bool ReliableFlow::covers(const Message& flush, const Message& m) const {
  if (!m.write() || m.number >= flush.number) return false;
  const std::uint64_t at = far_.offset(slot_of(m));
  return flush.all || (at >= flush.from && at + m.len <= flush.from + flush.len);
}

void ReliableFlow::compare_flushed(const Message& flush) {
  for (Message& m : open_) {
    if (!covers(flush, m)) continue;
    compare_write(m, true);
    m.flushed = true;
  }
}

const Message* ReliableFlow::open_at(Psn psn) const {
  const auto it = std::ranges::find_if(open_, [&](const Message& m) { return m.psn == psn; });
  return it == open_.end() ? nullptr : &*it;
}

void ReliableFlow::flush_answered(Psn psn) {
  const Message* const m = open_at(psn);
  if (m == nullptr) return;  // complete, and answered again
  if (!m->flush()) return find(Claim::kProtocol, name_of(*m) + " was answered as a FLUSH");
  compare_flushed(*m);
}

std::span<std::byte> ReliableFlow::flushed_bytes(Psn psn) const {
  const Message* const flush = open_at(psn);
  for (const Message& m : open_) {
    if (flush && covers(*flush, m) && m.len >= 8) return far_.data(slot_of(m), m.len);
  }
  return {};
}

// ---- errors ----

// The first request that fails: the packets must justify the status.
void ReliableFlow::fail(Message& m, std::uint8_t status) {
  dead_ = true;
  flushed_ = m.number + 1;
  const QpOptions& q = o_.from->options();
  const QpView* const v = o_.from_view;
  const std::string name = name_of(m) + " ended with " + status_name(status);
  if (v == nullptr) return find(Claim::kStatus, name + " inside of a device");
  if (status == TERN_CQE_RETRY_EXC_ERR) {
    c_.counts.add(Rule::kStatusRetries);
    const unsigned sent = v->most_sent(m.psn, m.psns);
    // One less is possible: a NAK may arrive between a timeout and the QP's turn.
    if (sent < q.retry_cnt || sent == 0)
      find(Claim::kStatus, name + " after " + std::to_string(sent) + " times");
    if (o_.fate == Fate::kBlackHole && hole_ && m.number >= hole_from_ &&
        sent != q.retry_cnt + 1U) {
      find(Claim::kStatus, name + " after " + std::to_string(sent) + " times with nobody there");
    }
    return;
  }
  if (status == TERN_CQE_RNR_RETRY_EXC_ERR) {
    c_.counts.add(Rule::kStatusRnr);
    const unsigned naks = v->most_rnr(m.psn, m.psns);
    if (!m.needs_receive() || q.rnr_retry == 7 || naks < q.rnr_retry + 1U) {
      find(Claim::kStatus, name + " after " + std::to_string(naks) + " RNR NAKs");
    }
    return;
  }
  find(Claim::kStatus, name);
}

// ---- the responder's completions ----

bool ReliableFlow::same(const Message& m, const Wc& wc, unsigned slot) const {
  const std::uint32_t len = le(std::uint32_t{wc.byte_len});
  const bool imm = wc.flags & TERN_CQE_F_IMM;
  const bool inv = wc.flags & TERN_CQE_F_INV;
  return len == m.len && wc.opcode == (m.write() ? TERN_RECV_RDMA_WITH_IMM : TERN_RECV_SEND) &&
         imm == m.with_imm() && (!imm || wc.imm == m.imm) &&
         inv == (m.opcode == TERN_WR_SEND_WITH_INV) &&
         (!inv || le(std::uint32_t{wc.inv_rkey}) == m.key) &&
         (m.write() || is_content(o_.pool->slots().data(slot, len), key_of(m)));
}

// `wc` is not the receive of `m`: finds out whether it belongs to another message or is corrupt.
void ReliableFlow::misplaced(const Message& m, const Wc& wc, unsigned slot) {
  // Empty messages cannot be told apart.
  const bool telling = le(std::uint32_t{wc.byte_len}) >= 8 || (wc.flags & TERN_CQE_F_IMM);
  const auto is_it = [&](const Message& other) {
    return &other != &m && other.needs_receive() && same(other, wc, slot);
  };
  const auto came = std::ranges::find_if(open_, is_it);
  if (telling && came != open_.end()) {
    return find(came->received ? Claim::kDoubled : Claim::kReordered,
                name_of(*came) + " came where " + name_of(m) + " was due");
  }
  if (telling && std::ranges::any_of(history_, is_it)) {
    return find(Claim::kDoubled, "an old message came where " + name_of(m) + " was due");
  }
  find(Claim::kCorrupted,
       name_of(m) + ": received " + std::to_string(le(std::uint32_t{wc.byte_len})) + " bytes");
}

void ReliableFlow::compare_receive(const Message& m, const Wc& wc, unsigned slot) {
  if (!same(m, wc, slot)) return misplaced(m, wc, slot);
  const std::uint32_t len = m.write() ? 0 : m.len;
  if (!o_.pool->slots().clean_but(slot, len))
    find(Claim::kOutside, "bytes around what was received of " + name_of(m));
}

void ReliableFlow::received(const Wc& wc) {
  progressed();
  unsigned slot = 0;
  if (!o_.pool->take(wc, &slot))
    return find(Claim::kDoubled, "a receive completed that is not posted");
  if (wc.status == TERN_CQE_WR_FLUSH_ERR) {
    o_.pool->rest(slot);
    o_.pool->limit(0);
    if (o_.to->query().attr.state != TERN_QPS_ERR)
      find(Claim::kStatus, "a receive was flushed, and the QP lives");
    return c_.counts.add(Rule::kFlushedReceives);
  }
  if (wc.status != TERN_CQE_SUCCESS) {
    return find(Claim::kStatus, std::string("a receive ended with ") + status_name(wc.status));
  }
  const auto due = std::ranges::find_if(
      open_, [](const Message& m) { return m.needs_receive() && !m.received; });
  if (due == open_.end()) {
    find(Claim::kDoubled, "a message was received that was never sent, or twice");
  } else {
    compare_receive(*due, wc, slot);
    due->received = true;
    if (due->opcode == TERN_WR_SEND_WITH_INV) key_ = Key::kClosed;
    // Requests execute in order, so all earlier WRITEs must be in place.
    for (auto it = open_.begin(); it != due + 1; ++it) {
      if (!it->write() || it->compared) continue;
      compare_write(*it, true);
      it->compared = true;
    }
  }
  o_.pool->rest(slot);
}

// ---- the end ----

bool ReliableFlow::done() const {
  if (dead_) return flushed_ == next_;
  if (doomed()) return false;
  return winding_up_ && open_.empty();
}

void ReliableFlow::finish() {
  std::uint64_t word = word_.mr().get<std::uint64_t>(word_.offset(0));
  bool known = word == reached_;
  if (!word_.clean_but(0, 8)) find(Claim::kOutside, "bytes around the word of the atomics");
  // The requests in flight when the flow died may have executed in part, from the first packet on.
  for (const Message& m : open_) {
    const unsigned slot = slot_of(m);
    if (m.write()) compare_write(m, m.compared || m.flushed);
    if (m.read()) compare_read(m, false);
    if (m.on_word()) known |= word == m.after;
    if (!m.atomic()) continue;
    const auto got = near_.mr().get<std::uint64_t>(near_.offset(slot));
    if (!is_guard(near_.data(slot, 8)) && got != m.before) {
      find(Claim::kCorrupted, name_of(m) + " returned " + std::to_string(got));
    }
  }
  if (!known) find(Claim::kDoubled, "the word of the atomics is " + std::to_string(word));
  if (dead_ == (o_.from->query().attr.state == TERN_QPS_RTS)) {
    find(Claim::kStatus, "the QP is in state " + std::to_string(o_.from->query().attr.state));
  }
}

}  // namespace tern::storm
