// SPDX-License-Identifier: GPL-2.0-or-later
// Faults planted between the engine and the storm's oracle, each of which the oracle must find.
#include <algorithm>
#include <array>

#include "tests/storm/world.h"

namespace tern::storm {

namespace {

constexpr std::size_t kPlants = static_cast<std::size_t>(Plant::kNum);
constexpr std::uint64_t kFirstTick = 300;  // everything is under way by then

struct PlantText {
  const char* name;
  std::vector<Claim> claims;
};

const std::array<PlantText, kPlants>& texts() {
  using C = Claim;
  // Where a message is lost, the next one stands in its place: what is noticed first depends on which.
  static const std::array<PlantText, kPlants> all = {{
      {"None", {}},
      {"Lose", {C::kLost, C::kReordered}},
      {"Double", {C::kDoubled}},
      {"Reorder", {C::kReordered, C::kLost}},
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
  }};
  return all;
}

void flip(std::span<std::byte> bytes) { bytes[0] ^= std::byte{1}; }

}  // namespace

const char* plant_name(Plant plant) { return texts()[static_cast<std::size_t>(plant)].name; }

std::vector<Claim> plant_claims(Plant plant) { return texts()[static_cast<std::size_t>(plant)].claims; }

// True: the completion went where the plant wants it.
bool World::planted(Node& node, const Wc& wc) {
  const std::uint32_t qpn = le(std::uint32_t{wc.qpn});
  if (silenced_ != 0 && &node == &nodes_[0] && qpn == silenced_ && !(wc.flags & TERN_CQE_F_RECV)) return true;
  if (planted_ || ticks_ < kFirstTick || (le(std::uint64_t{wc.wr_id}) & kRegTag)) return false;
  const auto it = node.duties.find(qpn);
  if (it == node.duties.end()) return false;
  return wc.flags & TERN_CQE_F_RECV ? plant_receive(node, it->second, wc) : plant_send(node, it->second, wc);
}

// Once more, from another place that was posted.
void World::pass_again(Node& node, const Duties& duties, Wc wc) {
  const auto other = duties.pool->copy_to_posted(static_cast<unsigned>(le(std::uint64_t{wc.wr_id})));
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
    case Plant::kStatus: {
      if (wc.status != TERN_CQE_RETRY_EXC_ERR && wc.status != TERN_CQE_RNR_RETRY_EXC_ERR) return false;
      Wc other = wc;
      other.status = wc.status == TERN_CQE_RETRY_EXC_ERR ? TERN_CQE_REM_OP_ERR : TERN_CQE_RETRY_EXC_ERR;
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

// What the wire itself does against all rules.
void World::plant_on_the_wire() {
  if (o_.plant != Plant::kForgedAck && o_.plant != Plant::kNakTwice) return;
  sim_.pass = [this, honest = sim_.pass](unsigned from, std::span<const std::byte> frame) {
    const bool passes = honest(from, frame);
    if (planted_ || ticks_ < kFirstTick) return passes;
    const auto seen = look_at(frame);
    if (!seen || seen->transport != Transport::kRc) return passes;
    if (o_.plant == Plant::kNakTwice && seen->op == Op::kAck && seen->syndrome == kNakSequence) {
      planted_ = true;
      (void)honest(from, frame);
    }
    if (o_.plant == Plant::kForgedAck && seen->op == Op::kSendOnly && seen->ack_req && forge_ack(frame)) {
      planted_ = true;
      return false;
    }
    return passes;
  };
}

// An acknowledgement of a SEND that the wire then loses, as its receiver would write it.
bool World::forge_ack(std::span<const std::byte> frame) {
  const Seen seen = *look_at(frame);
  Node& to = nodes_[seen.to_node];
  const auto it = to.duties.find(seen.dest);
  const Qp* const qp = (*to).device.qps.find(seen.dest);
  if (it == to.duties.end() || !it->second.registers || !qp || !qp->route()) return false;
  // Only when it is the next one: the ACK must say no more than that.
  tern_rsp_query_qp q;
  qp->query(&q);
  if (Psn(le(std::uint32_t{q.attr.rq_psn})) != seen.psn) return false;
  Packet packet((*to).host);
  packet.transport = Transport::kRc;
  packet.op = Op::kAck;
  packet.syndrome = kSyndromeAck;
  packet.dest_qp = Qpn(qp->attr().dest_qpn);
  packet.psn = seen.psn;
  packet.route = *qp->route();
  std::vector<std::byte> bytes(256);
  bytes.resize(serialize(packet, 1, bytes));
  sim_.inject(*to, bytes);
  return true;
}

}  // namespace tern::storm
