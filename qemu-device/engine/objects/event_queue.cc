// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <atomic>
#include <cstddef>

#include "core/limits.h"
#include "objects/context.h"
#include "objects/events.h"
#include "objects/queues.h"

namespace tern {

// ---- Eq ----

Eq::Eq(Context& context, const tern_cmd_create_eq& cmd)
    : context_(context),
      cmd_(cmd),
      record_(le(std::uint64_t{cmd.record})),
      buffer_(context.device.page_budget) {}

Status Eq::init() {
  if (cmd_.kind > TERN_EQ_FAULT || cmd_.log_size < kMinLogEq || cmd_.log_size > kMaxLogEq ||
      le(std::uint16_t{cmd_.vector}) >= context_.device.config.num_vectors ||
      !record_.fits<tern_eq_record>()) {
    return TERN_ST_BAD_PARAM;
  }
  const std::size_t entry = cmd_.kind == TERN_EQ_FAULT ? sizeof(tern_fault) : sizeof(tern_eqe);
  return buffer_.load(context_.host, cmd_.pages, std::uint64_t{size()} * entry);
}

void Eq::read_ci() {
  const auto ci = record_.load32(context_.host, offsetof(tern_eq_record, ci));
  if (!ci) return context_.fatal(TERN_FATAL_EQ_DMA);
  // An index ahead of pi_, or before it by more than the queue holds, consumes nothing.
  const std::uint32_t waiting = static_cast<std::uint32_t>(pi_) - *ci;
  if (waiting <= size()) ci_ = pi_ - waiting;
}

bool Eq::consumed(std::uint64_t index) {
  if (ci_ > index) return true;
  // The caller may coalesce a new event into this one. The cause of the new event must be visible
  // before ci is read, so that software that stores ci later finds it.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  read_ci();
  return ci_ > index;
}

bool Eq::make_room() {
  if (pi_ - ci_ >= size()) read_ci();
  return pi_ - ci_ < size();
}

std::uint32_t Eq::phase() const {
  return le(static_cast<std::uint32_t>(~(pi_ >> cmd_.log_size) & TERN_CQE_PHASE));
}

bool Eq::post(std::uint16_t type, std::uint32_t id, std::uint32_t generation) {
  if (!make_room()) return false;
  tern_eqe eqe{};
  eqe.type = le(type);
  eqe.id = le(id);
  eqe.generation = le(generation);
  eqe.phase = phase();
  return publish(std::as_bytes(std::span(&eqe, 1)), type, id);
}

bool Eq::post(tern_fault& entry) {
  if (!make_room()) return false;
  entry.phase = phase();
  return publish(std::as_bytes(std::span(&entry, 1)), 0, 0);
}

bool Eq::publish(std::span<const std::byte> entry, std::uint16_t type, std::uint32_t id) {
  const std::uint64_t slot = pi_ & (size() - 1);
  if (!buffer_.publish(context_.host, slot * entry.size(), entry)) {
    context_.fatal(TERN_FATAL_EQ_DMA);
    return false;
  }
  ++pi_;
  context_.raise(le(std::uint16_t{cmd_.vector}), type, id);
  return true;
}

// ---- AsyncEvents ----

void AsyncEvents::raise(std::uint16_t type, std::uint32_t id, std::uint32_t generation) {
  // Events stay in order: a new one must not overtake those waiting.
  if (waiting_.empty() && eq != nullptr && eq->post(type, id, generation)) return;
  const Event event{type, id, generation};
  if (known_.emplace(event, next_).second) {
    waiting_.emplace(next_++, event);
  } else {
    counters_.add(TERN_CNT_EQ_COALESCED);
  }
}

bool AsyncEvents::flush(unsigned most) {
  for (unsigned n = 0; eq != nullptr && !waiting_.empty(); ++n) {
    if (n == most) return true;
    const auto oldest = waiting_.begin();
    const Event& event = oldest->second;
    if (!eq->post(event.type, event.id, event.generation)) return false;
    known_.erase(event);
    waiting_.erase(oldest);
  }
  return false;
}

void AsyncEvents::forget(std::uint32_t id, bool (*of_type)(std::uint16_t)) {
  for (auto at = known_.lower_bound({0, id, 0}); at != known_.end() && at->first.id == id;) {
    if (of_type(at->first.type)) {
      waiting_.erase(at->second);
      at = known_.erase(at);
    } else {
      ++at;
    }
  }
}

void AsyncEvents::clear() {
  waiting_.clear();
  known_.clear();
}

}  // namespace tern
