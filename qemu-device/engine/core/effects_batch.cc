// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/effects_batch.h"

#include <utility>

namespace tern {

bool EffectsBatch::can_hold() const {
  return counted_ || held_batches_.load(std::memory_order_relaxed) < EffectsPool::kMaxHeld;
}

bool EffectsBatch::hold() {
  if (!can_hold()) return false;
  if (!counted_) {
    held_batches_.fetch_add(1, std::memory_order_relaxed);
    counted_ = true;
  }
  users_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

EffectsBatch* EffectsPool::take(std::unique_ptr<Effects>& collected) {
  if (!held_.empty()) reclaim();
  Batch batch;
  if (pool_.empty()) {
    batch.reset(new EffectsBatch(held_batches_));
  } else {
    batch = std::move(pool_.front());
    pool_.pop_front();
  }
  std::swap(batch->effects_, collected);
  return batch.release();
}

void EffectsPool::free(EffectsBatch* batch) {
  if (batch == nullptr) return;
  Batch owner(batch);
  if (!batch->held()) return recycle(std::move(owner));
  held_.push_back(std::move(owner));
}

// Batches are reused from the front. One that was held goes to the back, because its lines are in
// another processor's cache; they have left it when its turn comes.
void EffectsPool::recycle(Batch batch) {
  const bool was_held = std::exchange(batch->counted_, false);
  if (was_held) held_batches_.fetch_sub(1, std::memory_order_relaxed);
  if (pool_.size() >= kMaxHeld) return;
  batch->effects_->clear();
  pool_.insert(was_held ? pool_.end() : pool_.begin(), std::move(batch));
}

// Recycles batches that are no longer held: only the oldest ones, because most readers are equally
// fast, or at the limit any of them.
void EffectsPool::reclaim() {
  const bool all = held_batches_.load(std::memory_order_relaxed) >= kMaxHeld;
  auto kept = held_.begin();
  auto at = kept;
  for (; at != held_.end(); ++at) {
    if (!(*at)->held()) {
      recycle(std::move(*at));
    } else if (all) {
      *kept++ = std::move(*at);
    } else {
      break;
    }
  }
  held_.erase(std::move(at, held_.end(), kept), held_.end());
}

}  // namespace tern
