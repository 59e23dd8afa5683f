// SPDX-License-Identifier: GPL-2.0-or-later
// Connections, operations and messages of an SRQ with tags.
#include "tests/storm/tags.h"

#include <algorithm>
#include <array>

#include "transport/tag_headers.h"

namespace tern::storm {

namespace {

constexpr std::uint32_t kMaxTags = 24;
constexpr unsigned kLogOps = 5;
constexpr unsigned kBuffers = 48;
constexpr std::uint32_t kRoom = 8192;   // of a tag, and most bytes of data
constexpr Nanos kCoolDown = 3'000'000;  // no packet of a connection is on its way any more
constexpr std::uint64_t kShort = 8;     // tags from here on have small buffers

std::uint32_t be(std::uint32_t v) { return from_wire(v); }
std::uint64_t be(std::uint64_t v) { return from_wire(v); }

}  // namespace

TagFlow::TagFlow(Context& context, WireWatch& watch, unsigned id, TestNode& to,
                 const std::vector<TestNode*>& from)
    : Flow(context, id), watch_(watch), to_(to), own_left_(12), keys_left_(12), remakes_left_(2) {
  TestMr& memory = to.reg(Slots::bytes_for(kRoom, kBuffers));
  const Slots slots(memory, kRoom, kBuffers);
  for (unsigned i = 0; i < kBuffers; ++i) {
    buffers_.push_back({.slots = slots, .slot = i});
    buffers_.back().was = hash_of(buffers_.back());
  }
  for (TestNode* const node : from) {
    Pair& pair = pairs_.emplace_back();
    pair.node = node;
    pair.send_cq = &node->create_cq(9);
    pair.fin_cq = &node->create_cq(9);
    constexpr std::uint32_t kSend = kRoom + 64;
    pair.near.emplace(node->reg(Slots::bytes_for(kSend, kDepth)), kSend, kDepth);
    pair.far.emplace(node->reg(Slots::bytes_for(kRoom, kDepth)), kRoom, kDepth);
  }
  make_srq();
  for (Pair& pair : pairs_) connect(pair);
}

std::string TagFlow::describe() const {
  std::string text = "tags of node " + std::to_string(to_.index()) + " (SRQ " +
                     std::to_string(srq_->number()) + ", " + std::to_string(model_->list().size()) +
                     " in the list, " + std::to_string(model_->ops_open()) + " operations open";
  for (const Pair& pair : pairs_) {
    text += pair.up ? ", QP " + std::to_string(pair.y->number()) + " of node " +
                          std::to_string(pair.node->index()) + " with " +
                          std::to_string(pair.open.size()) + " open of " + std::to_string(pair.next)
                    : std::string(", no connection");
  }
  return text + ")";
}

// ---- the SRQ ----

void TagFlow::make_srq() {
  cq_ = &to_.create_cq(11);
  const std::uint64_t before = to_.objects().page_entries;
  srq_ = &to_.create_srq({.log_size = 6, .cq = cq_, .tags = kMaxTags, .log_ops = kLogOps});
  srq_entries_ = to_.objects().page_entries - before;
  EXPECT_EQ(srq_->created(), TERN_ST_OK);
  const std::string name = "tags of node " + std::to_string(to_.index());
  model_.emplace(c_, kMaxTags, name);
  pool_.emplace(to_, to_.pd(), kRoom + 64, 40, srq_, ReceivePool::Kind::kShared, c_.findings);
  op_index_ = 0;
  unrung_ = last_op_ = false;
}

// Destroys the SRQ with the tags that it has. No QP uses it.
void TagFlow::end_srq() {
  if (!model_->list().empty()) c_.counts.add(Rule::kTagSrqGone);
  const std::uint64_t before = to_.objects().page_entries;
  to_.destroy(*srq_);
  if (before - to_.objects().page_entries != srq_entries_)
    find(Claim::kLost, "a part of the budget of an SRQ");
  if (cq_->poll()) find(Claim::kDoubled, "a CQE of an SRQ that is destroyed");
  to_.destroy(*cq_);
  pool_->check_resting();
  for (Buffer& buffer : buffers_) {
    check_buffer(buffer);
    buffer.posted = false;
    buffer.was = hash_of(buffer);
  }
}

void TagFlow::remake() {
  for (Pair& pair : pairs_) {
    if (pair.up) tear_down(pair);
  }
  end_srq();
  make_srq();
}

// ---- connections ----

void TagFlow::connect(Pair& pair) {
  Random& random = c_.random;
  const auto psn = [&] { return 0xffffff - random.pick(random.one_in(2) ? 20 : 600); };
  const auto depth = static_cast<std::uint8_t>(random.one_in(6) ? 0 : 1 + random.pick(16));
  QpOptions q{.send_cq = pair.send_cq,
              .recv_cq = pair.fin_cq,
              .log_mtu = 8 + random.pick(5),
              .gid_index = static_cast<std::uint16_t>(random.pick(4)),
              .sq_psn = psn(),
              .rq_psn = psn(),
              .min_rnr_timer = static_cast<std::uint8_t>(1 + random.pick(20)),
              .timeout = static_cast<std::uint8_t>(6 + random.pick(6)),
              .ece = static_cast<std::uint8_t>(random.one_in(2) ? TERN_ECE_REPEAT_NAK : 0)};
  QpOptions r = q;
  r.send_cq = r.recv_cq = nullptr;
  r.log_cq_size = 2;
  r.srq = srq_;
  r.max_rd_atomic = depth;
  std::swap(r.sq_psn, r.rq_psn);
  pair.fetches = !random.one_in(3);
  if (pair.fetches) r.flags = TERN_QP_F_NO_SQ;
  pair.x = &pair.node->create_qp(q);
  pair.y = &to_.create_qp(r);
  pair.x->connect(*pair.y);
  pair.y->connect(*pair.x);
  pair.view_x = &watch_.add(*pair.x);
  pair.view_y = &watch_.add(*pair.y);
  WireWatch::connect(*pair.view_x, *pair.view_y);
  pair.view_y->receives = ReceivePool::Kind::kShared;
  pair.fins.emplace(*pair.node, pair.node->pd(), 64, 16, nullptr, ReceivePool::Kind::kQueue,
                    c_.findings);
  pair.fins->attach(*pair.x);
  pair.mtu = 1U << q.log_mtu;
  pair.since = model_->cqes();
  pair.up = true;
  pair.may_fail = pair.broken = false;
}

// The packets show that the retries of one end are used up.
bool TagFlow::justified(const Pair& pair) {
  const auto used_up = [](const QpView& v) {
    return v.most_sent(v.first_psn, static_cast<std::uint32_t>(v.sent.size())) >=
           v.qp->options().retry_cnt;
  };
  return pair.may_fail || used_up(*pair.view_x) || used_up(*pair.view_y);
}

// Something that software may do to a connection at any time.
void TagFlow::hurt(Pair& pair) {
  pair.may_fail = pair.broken = true;
  model_->loosen();
  TestQp& qp = c_.random.one_in(2) ? *pair.x : *pair.y;
  const bool reset = c_.random.one_in(3);
  EXPECT_EQ(qp.to_state(reset ? TERN_QPS_RESET : TERN_QPS_ERR), TERN_ST_OK);
  poll();
  model_->loosen();
}

void TagFlow::tear_down(Pair& pair) {
  pair.may_fail = true;
  poll();
  model_->loosen();
  to_.destroy(*pair.y);
  poll();
  model_->loosen();
  for (const Message& m : pair.open) {
    if (m.match && !m.ended)
      find(Claim::kLost, "the QP is gone, and there is no last CQE of " + name_of(m));
  }
  pair.node->destroy(*pair.x);
  poll();
  pair.open.clear();
  pair.fins.reset();
  pair.up = false;
  pair.again = c_.sim.now() + kCoolDown;
  progressed();
  (void)to_.async_events();
  (void)pair.node->async_events();
}

// ---- posting ----

void TagFlow::post() {
  if (!winding_up_ && remakes_left_ > 0 && c_.random.one_in(6000)) {
    --remakes_left_;
    remake();
  }
  if (c_.random.one_in(4)) pool_->post(1 + c_.random.pick(6));
  if (!winding_up_ || !last_op_) post_op();
  for (Pair& pair : pairs_) {
    if (!pair.up) {
      if (!winding_up_ && c_.sim.now() >= pair.again) connect(pair);
      continue;
    }
    if (pair.broken) {
      if (c_.random.one_in(40)) tear_down(pair);
      continue;
    }
    if (c_.random.one_in(3)) pair.fins->post(1 + c_.random.pick(4));
    if (winding_up_) continue;
    if (c_.random.one_in(3000)) {
      hurt(pair);
      continue;
    }
    for (unsigned n = c_.random.pick(3); n > 0 && pair.open.size() < kDepth; --n)
      post_message(pair);
  }
  if (c_.random.one_in(20)) close_something();
}

std::optional<unsigned> TagFlow::free_buffer() {
  for (std::size_t tries = buffers_.size(); tries > 0; --tries) {
    const unsigned i = next_buffer_;
    next_buffer_ = (next_buffer_ + 1) % static_cast<unsigned>(buffers_.size());
    Buffer& buffer = buffers_[i];
    if (buffer.posted || buffer.own) continue;
    check_buffer(buffer);
    buffer.slots.wipe(buffer.slot);
    return i;
  }
  return std::nullopt;
}

void TagFlow::post_add(TagModel::Op& op, TagOp& wr) {
  Random& random = c_.random;
  std::optional<unsigned> i;
  const bool own = own_left_ > 0 && random.one_in(40);
  if (own) {
    --own_left_;
    i = static_cast<unsigned>(buffers_.size());
    buffers_.push_back(
        {.slots = Slots(to_.reg(Slots::bytes_for(kRoom, 1)), kRoom, 1), .slot = 0, .own = true});
  } else {
    i = free_buffer();
  }
  if (!i) return;
  Tag& tag = op.tag;
  tag.id = kRegTag >> 1 | ++next_tag_;
  tag.buffer = *i;
  tag.room = kRoom;
  tag.tag = random.pick(6);
  tag.mask = ~std::uint64_t{0};
  switch (random.pick(12)) {
    case 0:
      tag.tag = tag.mask = 0;
      break;
    case 1:
      tag.mask = ~std::uint64_t{1};  // a tag with that bit never matches
      break;
    case 2:
      tag.tag = kShort + random.pick(2);
      tag.room = random.pick(100);
      break;
    default:
      break;
  }
  wr.sges = buffers_[*i].slots.sges(buffers_[*i].slot, tag.room, random);
  buffers_[*i].posted = true;
  wr.recv_wr_id = tag.id;
  wr.tag = tag.tag;
  wr.mask = tag.mask;
}

void TagFlow::post_op() {
  if (srq_->ops_free() == 0) return;
  Random& random = c_.random;
  TagModel::Op op;
  const unsigned what = winding_up_ ? 9 : random.pick(12);
  op.opcode = what < 6 ? TERN_TM_ADD : what < 8 ? TERN_TM_DEL : TERN_TM_SYNC;
  op.index = op_index_;
  op.flags = winding_up_ || !random.one_in(5) ? TERN_TM_F_SIGNALED : 0;
  op.tag.handle = random.pick(64);
  TagOp wr;
  if (op.opcode == TERN_TM_ADD) {
    // Mostly when there is room for it.
    if (model_->list().size() + model_->held() >= kMaxTags - 2 && !random.one_in(20)) return;
    post_add(op, wr);
    if (op.tag.id == 0) return;
  }
  if (op.opcode == TERN_TM_DEL && !model_->list().empty() && !random.one_in(4)) {
    op.tag.handle = model_->list()[random.pick(model_->list().size())].handle;
  }
  if (winding_up_ || random.one_in(3)) {
    op.flags |= TERN_TM_F_SYNC;
    op.unexpected = model_->seen();
  }
  wr.opcode = op.opcode;
  wr.flags = op.flags;
  wr.handle = op.tag.handle;
  wr.wr_id = op.index;
  wr.unexpected = op.unexpected;
  ++op_index_;
  model_->posted(op);
  last_op_ = winding_up_;
  unrung_ = !winding_up_ && random.one_in(4);
  srq_->post_op(wr, !unrung_);
}

std::uint32_t TagFlow::length(const Pair& pair) {
  switch (c_.random.pick(6)) {
    case 0:
      return c_.random.pick(3);
    case 1:
    case 2:
      return c_.random.pick(100);
    case 3:
      return std::min(kRoom, pair.mtu * (1 + c_.random.pick(3)) + c_.random.pick(40) - 20);
    default:
      return c_.random.pick(kRoom + 1);
  }
}

void TagFlow::choose(Pair& pair, Message& m) {
  Random& random = c_.random;
  m.tag = random.pick(6);
  m.len = length(pair);
  switch (random.pick(16)) {
    case 0:
      m.kind = Message::Kind::kWrite;
      m.len = m.total = 0;
      return;
    case 1:
    case 2:
      m.kind = Message::Kind::kNoTag;
      m.total = m.len;
      return;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
      m.kind = Message::Kind::kRequest;
      m.total = sizeof(TagHeaders) + random.pick(TERN_TM_MAX_RNDV - sizeof(TagHeaders) + 1);
      if (random.one_in(8)) m.tag = kShort + random.pick(2);
      return;
    default:
      // RareState for a buffer that may be too small.
      if (random.one_in(60)) m.tag = kShort + random.pick(2);
      m.total = sizeof(tern_tm_header) + m.len;
      return;
  }
}

// The bytes of the SEND. A message without a tag has bytes that are almost a header.
void TagFlow::write_message(const Pair& pair, const Message& m) {
  Random& random = c_.random;
  const unsigned slot = slot_of(m);
  const auto bytes = pair.near->data(slot, m.total);
  fill_content(bytes, key_of(pair, m) + 1);
  TagHeaders headers{};
  headers.tm.app_ctx = be(static_cast<std::uint32_t>(m.number));
  headers.tm.tag = be(m.tag);
  if (m.kind == Message::Kind::kEager) {
    headers.tm.opcode = TERN_TMH_EAGER;
    std::memcpy(bytes.data(), &headers.tm, sizeof(headers.tm));
    fill_content(bytes.subspan(sizeof(headers.tm)), key_of(pair, m));
    return;
  }
  const TestMr& from = m.key ? *m.key : pair.far->mr();
  headers.rndv = {be(from.iova + (m.key ? 0 : pair.far->offset(slot))), be(from.key), be(m.len)};
  headers.tm.opcode = TERN_TMH_RNDV;
  if (m.kind == Message::Kind::kNoTag) {
    constexpr std::array<std::uint8_t, 4> kNone = {TERN_TMH_NO_TAG, TERN_TMH_FIN, 4, 255};
    const bool request = m.total >= sizeof(headers) && m.total <= TERN_TM_MAX_RNDV;
    if (m.total >= sizeof(headers.tm) && (request || random.one_in(2))) {
      headers.tm.opcode = kNone[random.pick(kNone.size())];
    }
  } else {
    const auto data = m.key ? m.key->bytes(0, m.len) : pair.far->data(slot, m.len);
    if (!m.closed) fill_content(data, key_of(pair, m));
  }
  std::memcpy(bytes.data(), &headers, std::min<std::size_t>(sizeof(headers), bytes.size()));
}

void TagFlow::post_message(Pair& pair) {
  if (pair.x->sq_free() == 0) return;
  Random& random = c_.random;
  Message m;
  m.number = pair.next++;
  m.since = model_->cqes() + 1;
  choose(pair, m);
  if (m.kind == Message::Kind::kRequest && keys_left_ > 0 && random.one_in(60)) {
    --keys_left_;
    m.key = &pair.node->reg(kRoom);
    pair.may_fail = true;
    if (random.one_in(3)) {
      pair.node->dereg(*m.key);
      m.closed = m.never = true;
    }
  }
  pair.near->wipe(slot_of(m));
  pair.far->wipe(slot_of(m));
  write_message(pair, m);
  SendWr wr = send(pair.near->sges(slot_of(m), m.total, random));
  wr.wr_id = m.number;
  if (m.kind == Message::Kind::kWrite) {
    wr.opcode = TERN_WR_RDMA_WRITE_WITH_IMM;
    wr.imm = static_cast<std::uint32_t>(m.number);
  }
  pair.open.push_back(m);
  pair.x->post(wr);
  progressed();
}

// Deregisters the memory of a tag or of a request.
void TagFlow::close_something() {
  for (Buffer& buffer : buffers_) {
    if (!buffer.own || buffer.closed || c_.random.one_in(2)) continue;
    to_.dereg(buffer.slots.mr());
    buffer.closed = true;
    buffer.was = hash_of(buffer);
    return;
  }
  for (Pair& pair : pairs_) {
    for (Message& m : pair.open) {
      if (!m.key || m.closed || c_.random.one_in(2)) continue;
      pair.node->dereg(*m.key);
      m.closed = true;
      return;
    }
  }
}

// ---- the end ----

bool TagFlow::done() const {
  return winding_up_ && last_op_ && model_->ops_open() == 0 &&
         std::ranges::all_of(pairs_, [](const Pair& pair) {
           return !pair.up || (pair.open.empty() && !pair.broken);
         });
}

void TagFlow::finish() {
  poll();
  for (Pair& pair : pairs_) {
    if (pair.up) tear_down(pair);
  }
  if (model_->held() != 0)
    find(Claim::kLost, std::to_string(model_->held()) + " tags have no last CQE");
  end_srq();
}

}  // namespace tern::storm
