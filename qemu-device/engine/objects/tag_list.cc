// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects/tag_list.h"

#include <algorithm>
#include <cstddef>

#include "objects/context.h"
#include "objects/srq.h"

namespace tern {

namespace {

// Costs in bytes of a turn: of an operation, and of each tag that is compared.
constexpr std::uint32_t kOpCost = 128;
constexpr std::uint32_t kCompareCost = 4;

std::uint8_t cqe_opcode(std::uint8_t op) {
  switch (op) {
    case TERN_TM_ADD:
      return TERN_TM_CQE_ADD;
    case TERN_TM_DEL:
      return TERN_TM_CQE_DEL;
    default:
      return TERN_TM_CQE_SYNC;
  }
}

}  // namespace

std::uint64_t TagList::Held::room() const {
  std::uint64_t room = 0;
  for (unsigned i = 0; i < num_sge; ++i) room += le(std::uint32_t{sges[i].length});
  return room;
}

TagList::TagList(Context& context, const tern_cmd_create_srq& cmd, Srq& srq, Cq& cq)
    : context_(&context),
      srq_(srq),
      cq_(cq),
      record_(le(std::uint64_t{cmd.record})),
      ring_(context.device.page_budget),
      pages_(cmd.ops_pages),
      uar_(le(std::uint32_t{cmd.uar})),
      max_tags_(le(std::uint32_t{cmd.max_tags})),
      log_ops_(cmd.log_ops) {}

TagList::~TagList() { context_->device.page_budget.release(charged_); }

void TagList::move_to(Context& lane) {
  pending.unlink();
  context_ = &lane;
  lane.uars.add(uar_, page_queue_);
  kick();
}

// Checks the command and allocates the list within the budget.
Status TagList::allocate() {
  if (log_ops_ > TERN_TM_MAX_LOG_OPS || max_tags_ == 0 ||
      max_tags_ > context_->device.config.max_tags) {
    return TERN_ST_BAD_PARAM;
  }
  const std::uint64_t bytes = max_tags_ * (sizeof(Slot) + sizeof(Entry) + sizeof(std::uint32_t));
  const std::uint64_t entries = bytes / sizeof(std::uint64_t);
  PageBudget& budget = context_->device.page_budget;
  if (!budget.charge(entries)) return TERN_ST_NO_MEMORY;
  charged_ = entries;
  budget.work(entries);
  slots_.resize(max_tags_);
  order_.reserve(max_tags_);
  return TERN_ST_OK;
}

Status TagList::init() {
  if (const Status st = allocate(); st != TERN_ST_OK) return st;
  const Status st = ring_.load(context_->host, pages_, sizeof(tern_tm_op) << log_ops_);
  if (st != TERN_ST_OK) return st;
  free_.resize(max_tags_);
  for (std::uint32_t i = 0; i < max_tags_; ++i) free_[i] = max_tags_ - 1 - i;
  return TERN_ST_OK;
}

bool TagList::store_indices() {
  return record_.store32(context_->host, offsetof(tern_srq_record, ops_ci), ci_) &&
         record_.store32(context_->host, offsetof(tern_srq_record, tags_released), released_);
}

// ---- operations ----

void TagList::kick() {
  if (!pending.linked()) context_->tag_lists.push_back(pending);
}

std::uint32_t TagList::run(std::uint32_t budget, bool& more) {
  more = false;
  if (srq_.failed()) return 1;
  const auto pi = context_->producer_index(record_, offsetof(tern_srq_record, ops_pi));
  if (!pi || *pi - ci_ > size()) {
    srq_.fail();
    return 1;
  }
  std::uint32_t cost = 1;
  const std::uint32_t begin = ci_;
  while (ci_ != *pi && cost < budget && !srq_.failed()) {
    if (!execute(ci_, cost)) {
      srq_.fail();
      return cost;
    }
  }
  if (ci_ != begin && !store_indices()) srq_.fail();
  more = ci_ != *pi && !srq_.failed();
  return cost;
}

// Returns false if the ring is unreachable or the operation is invalid.
bool TagList::execute(std::uint32_t index, std::uint32_t& cost) {
  tern_tm_op op;
  const std::uint64_t slot = std::uint64_t{index & (size() - 1)} * sizeof(op);
  if (!ring_.read(context_->host, slot, std::as_writable_bytes(std::span(&op, 1)))) return false;
  cost += kOpCost;
  std::uint8_t status = TERN_CQE_SUCCESS;
  switch (op.opcode) {
    case TERN_TM_ADD:
      if (op.num_sge > TERN_TM_MAX_SGE) return false;
      if (!add(op)) status = TERN_CQE_LOC_QP_OP_ERR;
      break;
    case TERN_TM_DEL:
      if (!remove(le(std::uint32_t{op.handle}), cost)) status = TERN_CQE_TM_ERR;
      break;
    case TERN_TM_SYNC:
      break;
    default:
      return false;
  }
  if (op.flags & TERN_TM_F_SYNC) handled_ = le(std::uint32_t{op.unexpected});
  synchronize();
  ++ci_;
  complete_op(op, index, status);
  return true;
}

bool TagList::add(const tern_tm_op& op) {
  if (free_.empty()) {
    ++released_;
    return false;
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  Slot& slot = slots_[number];
  slot.handle = le(std::uint32_t{op.handle});
  slot.held.recv_wr_id = le(std::uint64_t{op.recv_wr_id});
  slot.held.num_sge = op.num_sge;
  std::ranges::copy(op.sge, slot.held.sges.begin());
  order_.push_back({le(std::uint64_t{op.tag}), le(std::uint64_t{op.mask}), number});
  return true;
}

bool TagList::remove(std::uint32_t handle, std::uint32_t& cost) {
  cost += static_cast<std::uint32_t>(order_.size()) * kCompareCost;
  context_->visits += order_.size();
  const auto at =
      std::ranges::find_if(order_, [&](const Entry& e) { return slots_[e.slot].handle == handle; });
  if (at == order_.end()) return false;
  free_.push_back(take(static_cast<std::uint32_t>(at - order_.begin())));
  ++released_;
  return true;
}

// Software has compared every unexpected message with all tags: no waiting tag matches one.
void TagList::synchronize() {
  if (handled_ == unexpected_) ready_ = order_.size();
}

void TagList::forget(std::uint32_t position) {
  order_.erase(order_.begin() + position);
  if (position < ready_) --ready_;
}

void TagList::complete_op(const tern_tm_op& op, std::uint32_t index, std::uint8_t status) {
  if (status == TERN_CQE_SUCCESS && !(op.flags & TERN_TM_F_SIGNALED)) return;
  tern_cqe cqe{};
  cqe.wr_id = op.wr_id;
  cqe.wqe_index = le(index);
  cqe.srqn = le(srq_.number());
  cqe.opcode = cqe_opcode(op.opcode);
  cqe.status = status;
  if (waiting()) cqe.flags = TERN_CQE_F_TM_SYNC_REQ;
  // Software that polls the CQE may post again at once.
  if (!store_indices() || !cq_.push(cqe)) srq_.fail();
}

// ---- messages ----

std::optional<std::uint32_t> TagList::find(std::uint64_t tag) {
  std::size_t i = 0;
  while (i < ready_ && (tag & order_[i].mask) != order_[i].tag) ++i;
  context_->visits += i;
  context_->charge(static_cast<std::uint32_t>(i) * kCompareCost);
  context_->charge_sender(i * kCompareCost);
  if (i == ready_) return std::nullopt;
  return static_cast<std::uint32_t>(i);
}

std::uint32_t TagList::take(std::uint32_t position) {
  const std::uint32_t slot = order_[position].slot;
  forget(position);
  return slot;
}

void TagList::release(std::uint32_t number) {
  free_.push_back(number);
  ++released_;
  if (!record_.store32(context_->host, offsetof(tern_srq_record, tags_released), released_))
    srq_.fail();
}

void TagList::forget_unexpected() {
  --unexpected_;
  synchronize();
}

bool TagList::complete(std::uint32_t number, tern_cqe& cqe) {
  cqe.wr_id = le(slots_[number].held.recv_wr_id);
  cqe.srqn = le(srq_.number());
  cqe.opcode = TERN_RECV_TM;
  cqe.flags |= TERN_CQE_F_RECV;
  if (cq_.push(cqe)) return true;
  srq_.fail();
  return false;
}

}  // namespace tern
