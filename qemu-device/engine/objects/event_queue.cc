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
    : host_(context.host),
      num_vectors_(context.device.config.num_vectors),
      cmd_(cmd),
      record_(le(std::uint64_t{cmd.record})),
      buffer_(context.device.page_budget) {}

Status Eq::check() const {
  const bool bad = cmd_.kind > TERN_EQ_FAULT || cmd_.log_size < kMinLogEq ||
                   cmd_.log_size > kMaxLogEq || le(std::uint16_t{cmd_.vector}) >= num_vectors_ ||
                   !record_.fits<tern_eq_record>();
  return bad ? TERN_ST_BAD_PARAM : TERN_ST_OK;
}

Status Eq::init() {
  if (const Status st = check(); st != TERN_ST_OK) return st;
  const std::size_t entry = cmd_.kind == TERN_EQ_FAULT ? sizeof(tern_fault) : sizeof(tern_eqe);
  return buffer_.load(host_, cmd_.pages, std::uint64_t{size()} * entry);
}

void Eq::read_ci(Context& lane) {
  const auto ci = record_.load32(host_, offsetof(tern_eq_record, ci));
  if (!ci) return lane.fatal(TERN_FATAL_EQ_DMA);
  // An index ahead of pi_, or before it by more than the queue holds, consumes nothing.
  const std::uint32_t waiting = static_cast<std::uint32_t>(pi_) - *ci;
  if (waiting <= size()) ci_ = pi_ - waiting;
}

bool Eq::consumed(Context& lane, std::uint64_t index) {
  if (ci_ > index) return true;
  // The caller may coalesce a new event into this one. The cause of the new event must be visible
  // before ci is read, so that software that stores ci later finds it.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  read_ci(lane);
  return ci_ > index;
}

bool Eq::make_room(Context& lane) {
  if (pi_ - ci_ >= size()) read_ci(lane);
  return pi_ - ci_ < size();
}

std::uint32_t Eq::phase() const {
  return le(static_cast<std::uint32_t>(~(pi_ >> cmd_.log_size) & TERN_CQE_PHASE));
}

bool Eq::post(Context& lane, std::uint16_t type, std::uint32_t id, std::uint32_t generation) {
  if (!make_room(lane)) return false;
  tern_eqe eqe{};
  eqe.type = le(type);
  eqe.id = le(id);
  eqe.generation = le(generation);
  eqe.phase = phase();
  return publish(lane, std::as_bytes(std::span(&eqe, 1)), type, id);
}

bool Eq::post(Context& lane, tern_fault& entry) {
  if (!make_room(lane)) return false;
  entry.phase = phase();
  return publish(lane, std::as_bytes(std::span(&entry, 1)), 0, 0);
}

bool Eq::publish(Context& lane, std::span<const std::byte> entry, std::uint16_t type,
                 std::uint32_t id) {
  const std::uint64_t slot = pi_ & (size() - 1);
  if (!buffer_.publish(host_, slot * entry.size(), entry)) {
    lane.fatal(TERN_FATAL_EQ_DMA);
    return false;
  }
  ++pi_;
  lane.raise(le(std::uint16_t{cmd_.vector}), type, id);
  return true;
}

// ---- AsyncEvents ----

void AsyncEvents::raise(Context& lane, std::uint16_t type, std::uint32_t id,
                        std::uint32_t generation) {
  const std::scoped_lock lock(mutex_);
  // Events stay in order: a new one must not overtake those waiting.
  if (waiting_.empty() && eq != nullptr && eq->post(lane, type, id, generation)) return;
  const Event event{type, id, generation};
  if (known_.emplace(event, next_).second) {
    waiting_.emplace(next_++, event);
  } else {
    lane.counters.add(TERN_CNT_EQ_COALESCED);
  }
}

bool AsyncEvents::flush(Context& lane, unsigned most) {
  const std::scoped_lock lock(mutex_);
  for (unsigned n = 0; eq != nullptr && !waiting_.empty(); ++n) {
    if (n == most) return true;
    const auto oldest = waiting_.begin();
    const Event& event = oldest->second;
    if (!eq->post(lane, event.type, event.id, event.generation)) return false;
    known_.erase(event);
    waiting_.erase(oldest);
  }
  return false;
}

void AsyncEvents::forget(std::uint32_t id, bool (*of_type)(std::uint16_t)) {
  const std::scoped_lock lock(mutex_);
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
