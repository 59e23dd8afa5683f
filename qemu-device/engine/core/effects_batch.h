// SPDX-License-Identifier: GPL-2.0-or-later
// Batches of effects: the host takes one with the engine lock, acts on it without, and gives it
// back. Another thread may read its frames in place for longer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "core/effects.h"
#include "core/types.h"

namespace tern {

// Owned by the pool, by the host from take() to free(), and by its holders. The last owner deletes
// it.
class EffectsBatch {
 public:
  struct Frame {
    EffectsBatch* batch;               // that the frame belongs to
    std::span<const std::byte> bytes;  // as in WireFrame
    bool to_wire;                      // or to a lane; false: seen by the capture tap only
    bool shown;                        // false: not seen by the capture tap
    // Device clock in ns when it was created; of a RoCE frame without capture, Context::now().
    Nanos time;
    Icrc icrc = Icrc::kPresent;
    std::uint32_t train = 1;
    std::uint16_t mss = 0;
    std::uint8_t lane = Effects::kNoLane;  // Effects::Frame
    bool inside = false;
    SharedPayload* payload = nullptr;
    [[nodiscard]] std::size_t size() const { return wire().size(); }
    [[nodiscard]] WireFrame wire() const {
      WireFrame frame{bytes, icrc, train};
      frame.mss = mss;
      frame.inside = inside;
      frame.payload = payload;
      return frame;
    }
  };

  explicit EffectsBatch(std::atomic<std::uint32_t>& held_batches) : held_batches_(held_batches) {}
  EffectsBatch(const EffectsBatch&) = delete;
  EffectsBatch& operator=(const EffectsBatch&) = delete;

  [[nodiscard]] std::size_t frames() const { return effects_->frames().size(); }
  [[nodiscard]] Frame frame(std::size_t i) {
    const Effects::Frame& f = effects_->frames()[i];
    return {.batch = this,
            .bytes = effects_->bytes(f),
            .to_wire = f.to_wire,
            .shown = f.shown,
            .time = f.time,
            .icrc = f.icrc,
            .train = f.train,
            .mss = f.mss,
            .lane = f.lane,
            .inside = f.inside,
            .payload = f.payload};
  }
  // Bit v of word v / 64: raise vector v.
  [[nodiscard]] const auto& vectors() const { return effects_->vectors(); }

  // The host: keeps the frames valid after free(), until release() has been called as often.
  // Returns false if EffectsPool::kMaxHeld batches are held already, so that a slow reader cannot
  // take more memory.
  [[nodiscard]] bool hold();
  [[nodiscard]] bool can_hold() const;
  // Any thread, also after the end of the pool.
  void release(std::uint32_t holds) {
    if (users_.fetch_sub(holds, std::memory_order_acq_rel) == holds) delete this;
  }

 private:
  friend class EffectsPool;
  ~EffectsBatch() = default;
  [[nodiscard]] bool held() const { return users_.load(std::memory_order_acquire) != 1; }

  std::unique_ptr<Effects> effects_ = std::make_unique<Effects>();
  std::atomic<std::uint32_t>& held_batches_;  // of the pool; holders do not access it
  bool counted_ = false;                      // in held_batches_
  std::atomic<std::uint32_t> users_ = 1;      // the owner, and holds
};

class EffectsPool {
 public:
  static constexpr std::size_t kMaxHeld = 32;

  // Moves `collected` to a batch and leaves an empty list there.
  [[nodiscard]] EffectsBatch* take(std::unique_ptr<Effects>& collected);
  // Recycles the memory of a batch; `batch` may be null.
  void free(EffectsBatch* batch);

 private:
  struct DropOwner {
    void operator()(EffectsBatch* batch) const { batch->release(1); }
  };
  using Batch = std::unique_ptr<EffectsBatch, DropOwner>;

  void recycle(Batch batch);
  void reclaim();

  std::atomic<std::uint32_t> held_batches_ = 0;
  std::deque<Batch> pool_;   // batches to reuse
  std::vector<Batch> held_;  // freed by the host, and held at the last check; the oldest first
};

}  // namespace tern
