// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/flow.h"

#include <algorithm>

#include "transport/segments.h"

namespace tern::storm {

namespace {

const char* opcode_name(std::uint8_t opcode) {
  switch (opcode) {
    case TERN_WR_SEND:
      return "SEND";
    case TERN_WR_SEND_WITH_IMM:
      return "SEND_WITH_IMM";
    case TERN_WR_SEND_WITH_INV:
      return "SEND_WITH_INV";
    case TERN_WR_RDMA_WRITE:
      return "WRITE";
    case TERN_WR_RDMA_WRITE_WITH_IMM:
      return "WRITE_WITH_IMM";
    case TERN_WR_RDMA_READ:
      return "READ";
    case TERN_WR_ATOMIC_CMP_AND_SWP:
      return "CMP_AND_SWP";
    case TERN_WR_ATOMIC_FETCH_AND_ADD:
      return "FETCH_AND_ADD";
    case TERN_WR_ATOMIC_WRITE:
      return "ATOMIC_WRITE";
    case TERN_WR_FLUSH:
      return "FLUSH";
    default:
      return "?";
  }
}

const char* type_name(std::uint8_t type) {
  return type == TERN_QPT_RC ? "RC" : type == TERN_QPT_UC ? "UC" : "XRC";
}

constexpr std::uint32_t kWrongKey = 0xdead0001;

}  // namespace

ConnectedFlow::ConnectedFlow(Context& context, unsigned id, const FlowOptions& options)
    : Flow(context, id),
      o_(options),
      mtu_(1U << options.from->options().log_mtu),
      near_(options.from->node().reg(Slots::bytes_for(options.max_len, options.depth),
                                     {.pd = options.pd_from}),
            options.max_len, options.depth),
      far_(options.to->node().reg(Slots::bytes_for(options.max_len, options.depth),
                                  {.pd = options.pd_to}),
           options.max_len, options.depth),
      word_(options.to->node().reg(Slots::bytes_for(8, 1), {.pd = options.pd_to}), 8, 1),
      next_psn_(options.from->options().sq_psn) {
  if (o_.to_view) {
    o_.to_view->receives = o_.pool->kind();
    o_.to_view->good_key = far_.mr().key;
  }
  progressed();
}

std::string ConnectedFlow::describe() const {
  const QpOptions& q = o_.from->options();
  return std::string(type_name(q.type)) + " flow " + std::to_string(id_) + " (node " +
         std::to_string(node_of(*o_.from).index()) + " QP " + std::to_string(o_.from->number()) +
         " to node " + std::to_string(node_of(*o_.to).index()) + " QP " +
         std::to_string(o_.to->number()) + ", MTU " + std::to_string(mtu_) + ", retry_cnt " +
         std::to_string(q.retry_cnt) + ", rnr_retry " + std::to_string(q.rnr_retry) + ", " +
         std::to_string(next_) + " posted, " + std::to_string(completed_) + " done)";
}

std::string ConnectedFlow::name_of(const Message& m) const {
  return std::string(opcode_name(m.opcode)) + " " + std::to_string(m.number) + " of " +
         std::to_string(m.len) + " bytes at PSN " + std::to_string(m.psn.value());
}

// Zero, small, around packet boundaries, or random.
std::uint32_t ConnectedFlow::length() {
  const std::uint32_t most = o_.max_len;
  switch (c_.random.pick(8)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return std::min(most, 1 + c_.random.pick(64));
    case 3:
    case 4: {
      const std::uint32_t around = mtu_ * (1 + c_.random.pick(4)) + c_.random.pick(3) - 1;
      return std::min(most, around);
    }
    case 5:
      return c_.random.pick(most + 1);
    default:
      return c_.random.pick(std::min(most, 4 * mtu_) + 1);
  }
}

SendWr ConnectedFlow::request(const Message& m) {
  const unsigned slot = slot_of(m);
  Random& random = c_.random;
  SendWr wr =
      send(m.on_word() || m.flush() ? std::vector<tern_sge>{} : near_.sges(slot, m.len, random));
  wr.opcode = m.opcode;
  wr.wr_id = m.number;
  wr.imm = m.imm;
  wr.inv_rkey = m.key;
  wr.xrc_srqn = o_.pool->kind() == ReceivePool::Kind::kXrc ? o_.pool->srq()->number() : 0;
  if (!m.signaled) wr.flags = 0;
  if (random.one_in(6)) wr.flags |= TERN_WQE_F_FENCE;
  if (m.needs_receive() && random.one_in(3)) wr.flags |= TERN_WQE_F_SOLICITED;
  if (m.on_word()) {
    aim_at_word(wr, m);
  } else if (m.flush()) {
    aim_flush(wr, m);
  } else if (m.write() || m.read()) {
    aim_at_slot(wr, m);
  }
  const std::uint32_t len = m.atomic_write() ? 8 : m.len;
  if (!m.read() && !m.atomic() && !m.flush() && len <= 100 && random.one_in(3)) {
    const auto data = near_.data(slot, len);
    wr.flags |= TERN_WQE_F_INLINE;
    wr.inline_data.assign(data.begin(), data.end());
    wr.sges.clear();
  }
  return wr;
}

// The near slot holds the value of an ATOMIC WRITE, or receives the result of an atomic.
void ConnectedFlow::aim_at_word(SendWr& wr, const Message& m) {
  wr.raddr = word_.mr().iova + word_.offset(0);
  wr.rkey = word_.mr().key;
  if (m.atomic_write()) {
    wr.sges = near_.sges(slot_of(m), 8, c_.random);
    return;
  }
  wr.sges.assign(1, near_.mr().sge(near_.offset(slot_of(m)), 8));
  wr.swap_add = m.opcode == TERN_WR_ATOMIC_FETCH_AND_ADD ? m.after - m.before : m.after;
  wr.compare = m.after == m.before ? m.before + 1 : m.before;
  if (m.opcode == TERN_WR_ATOMIC_CMP_AND_SWP && m.after == m.before) wr.swap_add = c_.random();
}

void ConnectedFlow::aim_at_slot(SendWr& wr, const Message& m) {
  wr.raddr = far_.mr().iova + far_.offset(slot_of(m));
  wr.rkey = far_.mr().key;
  // A request of no bytes needs no key.
  if (m.len == 0 && c_.random.one_in(2)) {
    wr.rkey = kWrongKey;
    wr.raddr = c_.random();
  }
}

void ConnectedFlow::aim_flush(SendWr& wr, const Message& m) const {
  wr.raddr = far_.mr().iova + m.from;
  wr.rkey = far_.mr().key;
  wr.flush.type = TERN_FLUSH_GLOBAL;
  wr.flush.level = m.all ? TERN_FLUSH_LEVEL_MR : TERN_FLUSH_LEVEL_RANGE;
  wr.flush.length = m.len;
}

void ConnectedFlow::compare_write(const Message& m, bool whole) {
  const unsigned slot = slot_of(m);
  const auto data = far_.data(slot, m.len);
  if (!far_.clean_but(slot, m.len))
    find(Claim::kOutside, "bytes around the target of " + name_of(m));
  const std::size_t same = matching(data, key_of(m));
  if (same == m.len) return;
  // Missing data begins at a packet boundary; some guard bytes may match by chance.
  if (!is_guard(data.subspan(same - same % mtu_))) {
    find(Claim::kCorrupted, "byte " + std::to_string(same) + " of the target of " + name_of(m));
  } else if (whole) {
    find(Claim::kLost, std::to_string(m.len - same) + " bytes of " + name_of(m));
  }
}

void ConnectedFlow::compare_read(const Message& m, bool whole) {
  const unsigned slot = slot_of(m);
  const auto data = near_.data(slot, m.len);
  if (!near_.clean_but(slot, m.len))
    find(Claim::kOutside, "bytes around the sink of " + name_of(m));
  const std::size_t same = matching(data, key_of(m));
  if (same == m.len) return;
  // Missing data begins at a packet boundary; some guard bytes may match by chance.
  if (!is_guard(data.subspan(same - same % mtu_))) {
    find(Claim::kCorrupted, "byte " + std::to_string(same) + " of the sink of " + name_of(m));
  } else if (whole) {
    find(Claim::kLost, std::to_string(m.len - same) + " bytes of " + name_of(m));
  }
}

// ---- UC ----

UcFlow::UcFlow(Context& context, unsigned id, const FlowOptions& options)
    : ConnectedFlow(context, id, options) {
  if (o_.to_view) o_.to_view->arrivals = this;
}

Message* UcFlow::find_psn(Psn last) {
  for (auto it = open_.rbegin(); it != open_.rend(); ++it) {
    if (it->psn.plus(it->psns - 1) == last) return &*it;
  }
  return nullptr;
}

void UcFlow::arrived(const QpView&, unsigned, std::uint32_t, Psn last, bool) {
  Message* const m = find_psn(last);
  if (m == nullptr) return find(Claim::kProtocol, "a message ended at a PSN where none ends");
  progressed();
  if (m->needs_receive()) {
    arrivals_.push_back(m->number);
  } else {
    // It may arrive again after its target was compared, which must not change then.
    if (!m->compared) compare_write(*m, true);
    m->compared = true;
  }
}

void UcFlow::close_oldest() {
  Message& m = open_.front();
  if (m.write()) compare_write(m, m.compared);
  far_.wipe(slot_of(m));
  open_.pop_front();
  ++base_;
}

void UcFlow::post() {
  if (winding_up_) return;
  for (unsigned n = c_.random.pick(4); n > 0; --n) {
    if (!open_.empty() && open_.front().done_at != 0 &&
        c_.sim.now() - open_.front().done_at > kRest) {
      close_oldest();
    }
    if (open_.size() >= o_.depth || o_.from->sq_free() == 0) return;
    constexpr std::array<std::uint8_t, 6> kOpcodes = {
        TERN_WR_SEND,       TERN_WR_SEND_WITH_IMM,       TERN_WR_SEND_WITH_IMM,
        TERN_WR_RDMA_WRITE, TERN_WR_RDMA_WRITE_WITH_IMM, TERN_WR_SEND};
    Message m;
    m.number = next_++;
    m.opcode = kOpcodes[c_.random.pick(kOpcodes.size())];
    m.len = length();
    m.imm = static_cast<std::uint32_t>(c_.random());
    m.psns = packets_of(m.len, mtu_);
    m.psn = next_psn_;
    next_psn_ = next_psn_.plus(m.psns);
    near_.wipe(slot_of(m));
    fill_content(near_.data(slot_of(m), m.len), key_of(m));
    open_.push_back(m);
    ++unsent_;
    o_.from->post(request(m));
  }
}

void UcFlow::sent(const Wc& wc) {
  progressed();
  const std::uint64_t number = le(std::uint64_t{wc.wr_id});
  if (wc.status != TERN_CQE_SUCCESS) {
    return find(Claim::kStatus, std::string("a UC request ended with ") + status_name(wc.status));
  }
  if (unsent_ == 0 || number != next_ - unsent_) {
    return find(Claim::kReordered, "completion of request " + std::to_string(number));
  }
  --unsent_;
  ++completed_;
  open_[number - base_].done_at = c_.sim.now();
}

bool UcFlow::same(const Message& m, const Wc& wc, unsigned slot) const {
  const std::uint32_t len = le(std::uint32_t{wc.byte_len});
  const bool imm = wc.flags & TERN_CQE_F_IMM;
  return len == m.len && imm == m.with_imm() && (!imm || wc.imm == m.imm) &&
         wc.opcode == (m.write() ? TERN_RECV_RDMA_WITH_IMM : TERN_RECV_SEND) &&
         (m.write() || is_content(o_.pool->slots().data(slot, len), key_of(m)));
}

void UcFlow::received(const Wc& wc) {
  progressed();
  unsigned slot = 0;
  if (!o_.pool->take(wc, &slot))
    return find(Claim::kDoubled, "a receive completed that is not posted");
  o_.pool->rest(slot);
  if (wc.status != TERN_CQE_SUCCESS) {
    return find(Claim::kStatus, std::string("a UC receive ended with ") + status_name(wc.status));
  }
  if (!o_.pool->slots().margins_clean(slot)) find(Claim::kOutside, "bytes around a receive buffer");
  if (arrivals_.empty())
    return find(Claim::kDoubled, "a receive completed for which no message came");
  const std::uint64_t number = arrivals_.front();
  arrivals_.pop_front();
  if (number < base_) return find(Claim::kReordered, "an old message");
  Message& m = open_[number - base_];
  if (!same(m, wc, slot)) {
    const auto is_it = [&](std::uint64_t n) {
      return n >= base_ && same(open_[n - base_], wc, slot);
    };
    if (std::ranges::any_of(arrivals_, is_it))
      return find(Claim::kLost, name_of(m) + ", which came whole");
    for (const Message& other : open_) {
      if (other.received && same(other, wc, slot)) return find(Claim::kDoubled, name_of(other));
    }
    return find(Claim::kCorrupted, name_of(m));
  }
  if (m.write() && !m.compared) compare_write(m, true);
  m.compared = m.received = true;
}

void UcFlow::finish() {
  if (!arrivals_.empty())
    find(Claim::kLost, std::to_string(arrivals_.size()) + " UC messages that came whole");
  while (!open_.empty()) close_oldest();
}

}  // namespace tern::storm
