// SPDX-License-Identifier: GPL-2.0-or-later
// Faults planted between the engine and the storm's oracle, each of which the oracle must find.
#include <algorithm>
#include <array>

#include "tests/storm/world.h"

namespace tern::storm {

namespace {

constexpr std::size_t kPlants = static_cast<std::size_t>(Plant::kNum);
constexpr std::uint64_t kFirstTick = 300;  // everything is in flight by then

struct PlantText {
  const char* name;
  std::vector<Claim> claims;
};

const std::array<PlantText, kPlants>& texts() {
  using C = Claim;
  // When a message is lost, the next one takes its place. What is noticed first depends on the two:
  // an empty message only shows that it is another one.
  static const std::array<PlantText, kPlants> all = {{
      {"None", {}},
      {"Lose", {C::kLost, C::kReordered, C::kCorrupted}},
      {"Double", {C::kDoubled}},
      {"Reorder", {C::kReordered, C::kLost, C::kCorrupted}},
      {"Corrupt", {C::kCorrupted}},
      {"CorruptRead", {C::kCorrupted}},
      {"Outside", {C::kOutside}},
      {"Ghost", {C::kOutside}},
      {"AtomicTwice", {C::kCorrupted, C::kDoubled}},
      {"Status", {C::kStatus}},
      {"FlushOrder", {C::kStatus}},
      {"Stall", {C::kStall}},
      {"ForgedAck", {C::kLost}},
      {"UnreliableDouble", {C::kDoubled}},
      {"UnreliableLose", {C::kLost}},
      {"NakTwice", {C::kProtocol}},
      {"FlushAnswer", {C::kLost}},
      {"FlushDone", {C::kLost}},
      {"FlushAcked", {C::kProtocol}},
      {"FlushBytes", {C::kProtocol}},
      {"WordLost", {C::kLost}},
      {"WordTwice", {C::kDoubled}},
      {"ForgedWord", {C::kLost}},
      {"TagLost", {C::kLost, C::kReordered}},
      {"TagTwice", {C::kDoubled, C::kReordered}},
      {"TagCorrupt", {C::kCorrupted}},
      {"TagOutside", {C::kOutside}},
      {"TagEarly", {C::kLost, C::kReordered, C::kProtocol}},
      {"TagOther", {C::kReordered, C::kCorrupted}},
  }};
  return all;
}

void flip(std::span<std::byte> bytes) { bytes[0] ^= std::byte{1}; }

// Restores the fill byte. Returns false if there are no bytes.
bool unwrite(std::span<std::byte> bytes) {
  std::ranges::fill(bytes, kGuard);
  return !bytes.empty();
}

}  // namespace

const char* plant_name(Plant plant) { return texts()[static_cast<std::size_t>(plant)].name; }

std::vector<Claim> plant_claims(Plant plant) {
  return texts()[static_cast<std::size_t>(plant)].claims;
}

// Returns true if the plant has handled the completion.
bool World::planted(Node& node, const Wc& wc) {
  const std::uint32_t qpn = le(std::uint32_t{wc.qpn});
  if (silenced_ != 0 && &node == &nodes_[0] && qpn == silenced_ && !(wc.flags & TERN_CQE_F_RECV))
    return true;
  if (planted_ || ticks_ < kFirstTick || (le(std::uint64_t{wc.wr_id}) & kRegTag)) return false;
  const auto it = node.duties.find(qpn);
  if (it == node.duties.end()) return false;
  return wc.flags & TERN_CQE_F_RECV ? plant_receive(node, it->second, wc)
                                    : plant_send(node, it->second, wc);
}

// Delivers the completion, then again with another posted slot.
void World::pass_again(Node& node, const Duties& duties, Wc wc) {
  const auto other =
      duties.pool->copy_to_posted(static_cast<unsigned>(le(std::uint64_t{wc.wr_id})));
  dispatch_one(node, wc);
  if (!other) return;
  planted_ = true;
  wc.wr_id = le(std::uint64_t{*other});
  dispatch_one(node, wc);
}

bool World::plant_receive(Node& node, const Duties& duties, const Wc& wc) {
  const std::uint32_t len = le(std::uint32_t{wc.byte_len});
  const bool send = wc.opcode == TERN_RECV_SEND && len >= 8;
  const bool reliable = duties.registers != nullptr;
  if (duties.pool == nullptr || wc.status != TERN_CQE_SUCCESS || !send) return false;
  const Slots& slots = duties.pool->slots();
  const auto slot = static_cast<unsigned>(le(std::uint64_t{wc.wr_id}));
  switch (o_.plant) {
    case Plant::kLose:
      return planted_ = reliable;
    case Plant::kUcLose:
      return planted_ = !reliable;
    case Plant::kDouble:
    case Plant::kUcDouble:
      if (reliable != (o_.plant == Plant::kDouble)) return false;
      pass_again(node, duties, wc);
      return true;
    case Plant::kReorder:
      if (!reliable || (held_ && held_->qpn != wc.qpn)) return false;
      if (!held_) {
        if (&node != &nodes_[1]) return false;
        held_ = wc;
        return true;
      }
      if (&node != &nodes_[1]) return false;
      planted_ = true;
      dispatch_one(node, wc);
      dispatch_one(node, *held_);
      return true;
    case Plant::kCorrupt:
      if (!reliable) return false;
      flip(slots.data(slot, len).last(1));
      planted_ = true;
      return false;
    case Plant::kOutside:
      flip(slots.whole(slot));
      planted_ = true;
      return false;
    default:
      return false;
  }
}

bool World::plant_send(Node& node, const Duties& duties, const Wc& wc) {
  const std::uint64_t number = le(std::uint64_t{wc.wr_id});
  const bool ok = wc.status == TERN_CQE_SUCCESS;
  const std::uint32_t len = le(std::uint32_t{wc.byte_len});
  if (duties.connected == nullptr) return false;
  switch (o_.plant) {
    case Plant::kCorruptRead:
      if (!ok || wc.opcode != TERN_WR_RDMA_READ || len == 0) return false;
      flip(duties.connected->near_bytes(number).subspan(len - 1));
      planted_ = true;
      return false;
    case Plant::kGhost: {
      if (!ok || wc.opcode != TERN_WR_RDMA_WRITE || len < 8) return false;
      const auto far = duties.connected->far_bytes(number);
      const std::vector<std::byte> was(far.begin(), far.end());
      dispatch_one(node, wc);
      std::ranges::copy(was, far.begin());
      return planted_ = true;
    }
    case Plant::kAtomicTwice:
      if (!ok || wc.opcode != TERN_WR_ATOMIC_FETCH_AND_ADD) return false;
      flip(duties.connected->word_bytes());
      planted_ = true;
      return false;
    case Plant::kFlushDone:
      if (ok && wc.opcode == TERN_WR_FLUSH && duties.reliable) {
        planted_ = unwrite(duties.reliable->flushed_bytes(number));
      }
      return false;
    case Plant::kWordLost:
    case Plant::kWordTwice:
      if (ok && duties.reliable) planted_ = plant_word(*duties.reliable, wc);
      return false;
    case Plant::kStatus: {
      if (wc.status != TERN_CQE_RETRY_EXC_ERR && wc.status != TERN_CQE_RNR_RETRY_EXC_ERR)
        return false;
      Wc other = wc;
      other.status =
          wc.status == TERN_CQE_RETRY_EXC_ERR ? TERN_CQE_REM_OP_ERR : TERN_CQE_RETRY_EXC_ERR;
      if (wc.status == TERN_CQE_RNR_RETRY_EXC_ERR) other.status = TERN_CQE_LOC_PROT_ERR;
      dispatch_one(node, other);
      return planted_ = true;
    }
    case Plant::kFlushOrder:
      if (wc.status != TERN_CQE_WR_FLUSH_ERR || &node != &nodes_[0]) return false;
      if (held_ && held_->qpn != wc.qpn) return false;
      if (!held_) {
        held_ = wc;
        return true;
      }
      planted_ = true;
      dispatch_one(node, wc);
      dispatch_one(node, *held_);
      return true;
    case Plant::kStall:
      if (!ok || &node != &nodes_[0]) return false;
      silenced_ = le(std::uint32_t{wc.qpn});
      return planted_ = true;
    default:
      return false;
  }
}

// Plants in the CQEs of an SRQ with tags. Returns how often the CQE is delivered.
unsigned World::plant_tag(TagFlow& tags, Wc& wc) {
  if (planted_ || ticks_ < kFirstTick || wc.status != TERN_CQE_SUCCESS) return 1;
  constexpr std::uint8_t kWhole = TERN_CQE_F_TM_MATCH | TERN_CQE_F_TM_DATA_VALID;
  const std::uint64_t id = le(std::uint64_t{wc.wr_id});
  const bool whole = (wc.flags & kWhole) == kWhole && le(std::uint32_t{wc.byte_len}) >= 8;
  switch (o_.plant) {
    case Plant::kTagEarly:
      if (wc.opcode != TERN_TM_CQE_ADD || !(wc.flags & TERN_CQE_F_TM_SYNC_REQ)) return 1;
      wc.flags &= ~TERN_CQE_F_TM_SYNC_REQ & 0xff;
      break;
    case Plant::kTagLost:
    case Plant::kTagTwice:
      if (!whole) return 1;
      planted_ = true;
      return o_.plant == Plant::kTagLost ? 0 : 2;
    case Plant::kTagOther:
      if (!whole || tags.newest() == id) return 1;
      wc.wr_id = le(tags.newest());
      break;
    default: {
      const auto buffer = tags.buffer_of(id);
      if (!whole || buffer.empty()) return 1;
      flip(buffer.subspan(o_.plant == Plant::kTagOutside ? Slots::kMargin - 1 : Slots::kMargin));
      break;
    }
  }
  planted_ = true;
  return 1;
}

// Sets the word to its value before a completed ATOMIC WRITE, or to that left by an older one.
bool World::plant_word(const ReliableFlow& flow, const Wc& wc) {
  const std::uint64_t number = le(std::uint64_t{wc.wr_id});
  if (!flow.is_open(number)) return false;
  const Message& m = flow.message(number);
  if (!m.on_word()) return false;
  std::uint64_t value = m.before;
  if (o_.plant == Plant::kWordLost) {
    if (!m.atomic_write()) return false;
  } else {
    if (!wrote_ && m.atomic_write() && !flow.doomed()) {
      wrote_ = &flow;
      written_ = m.after;
    }
    // After the next request it would look as if the later one were lost.
    if (wrote_ != &flow || written_ == m.before || written_ == m.after) return false;
    value = written_;
  }
  std::memcpy(flow.word_bytes().data(), &value, sizeof(value));
  return true;
}

// Plants of a wire that breaks the rules.
void World::plant_on_the_wire() {
  if (o_.plant == Plant::kNone) return;
  honest_ = sim_.pass;
  sim_.pass = [this](unsigned from, std::span<const std::byte> frame) {
    if (!planted_ && ticks_ >= kFirstTick) {
      const auto seen = look_at(frame);
      if (seen && seen->transport == Transport::kRc && plant_frame(*seen, from, frame)) {
        planted_ = true;
        return false;
      }
    }
    return honest_(from, frame);
  };
}

// Returns true if the frame is lost; no one else has seen it.
bool World::plant_frame(const Seen& seen, unsigned from, std::span<const std::byte> frame) {
  switch (o_.plant) {
    case Plant::kNakTwice:
      if (seen.op != Op::kAck || seen.syndrome != kNakSequence) return false;
      (void)honest_(from, frame);
      planted_ = true;
      return false;
    case Plant::kForgedAck:
    case Plant::kForgedWord: {
      const bool word = o_.plant == Plant::kForgedWord;
      if (seen.op != (word ? Op::kAtomicWrite : Op::kSendOnly) || !seen.ack_req || !is_next(seen))
        return false;
      (void)honest_(from, frame);
      const auto answer = answer_to(seen, word ? Op::kReadResponseOnly : Op::kAck);
      sim_.inject(*nodes_[seen.to_node], answer);
      return true;
    }
    case Plant::kFlushAnswer:
    case Plant::kFlushAcked:
    case Plant::kFlushBytes:
      return seen.op == Op::kReadResponseOnly && plant_response(seen, from);
    default:
      return false;
  }
}

// Plants for the response of a FLUSH that was not answered before.
bool World::plant_response(const Seen& seen, unsigned from) {
  const auto it = nodes_[seen.to_node].duties.find(seen.dest);
  const QpView* const view = watch_->find(seen.to_node, seen.dest);
  if (it == nodes_[seen.to_node].duties.end() || !it->second.reliable || !view) return false;
  const auto awaited = view->awaited.find(seen.psn.value());
  if (awaited == view->awaited.end() || awaited->second.op != Op::kFlush ||
      awaited->second.answered)
    return false;
  if (o_.plant == Plant::kFlushAnswer) {
    planted_ = unwrite(it->second.reliable->flushed_bytes(seen.psn));
    return false;
  }
  Seen request = seen;
  request.to_node = from;
  request.dest = view->peer->qp->number();
  const bool acked = o_.plant == Plant::kFlushAcked;
  (void)honest_(from, answer_to(request, acked ? Op::kAck : Op::kReadResponseOnly, acked ? 0 : 8));
  return true;
}

// Only then does the forged answer acknowledge this request alone.
bool World::is_next(const Seen& seen) {
  Node& to = nodes_[seen.to_node];
  const auto it = to.duties.find(seen.dest);
  const Qp* const qp = (*to).device.registry.qps.find(seen.dest);
  if (it == to.duties.end() || !it->second.registers || !qp || !qp->route()) return false;
  tern_rsp_query_qp q;
  qp->query(&q);
  return Psn(le(std::uint32_t{q.attr.rq_psn})) == seen.psn;
}

// The answer to a request as its receiver would write it, with `bytes` bytes of payload.
std::vector<std::byte> World::answer_to(const Seen& seen, Op op, unsigned bytes) {
  TestNode& by = *nodes_[seen.to_node];
  const Qp* const qp = by.device.registry.qps.find(seen.dest);
  Packet packet(by.host);
  packet.transport = Transport::kRc;
  packet.op = op;
  packet.syndrome = kSyndromeAck;
  packet.dest_qp = Qpn(qp->attr().dest_qpn);
  packet.psn = seen.psn;
  packet.route = *qp->route();
  const std::vector<std::byte> data(bytes);
  packet.payload.append_plain(std::span(data));
  std::vector<std::byte> frame(256);
  frame.resize(serialize(packet, 1, frame));
  packet.payload.clear();
  return frame;
}

}  // namespace tern::storm
