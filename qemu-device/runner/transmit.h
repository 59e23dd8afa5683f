// SPDX-License-Identifier: GPL-2.0-or-later
// Frames to be sent on the wire.
//
// A batch holds the frames of one slice of work. It is collected with the engine lock, sent by the
// host thread, and then done until the next holder of the engine lock frees it:
//
//   collected --(host thread)--> transmit queue --(sent, lost or disowned)--> done
//   done --(engine lock)--> free
//
// The lists keep the order of the wire.
//
//   State    Event                      Next     Effect
//   Open     send() holds or blocks     Blocked  the timeout (Timer::kPatience) runs
//   Blocked  resumed(), link down       Open     sending continues
//   Blocked  the timeout expires        Lost     the queue is dropped, as if unplugged
//   Lost     resumed(), link down       Open     later frames are sent
//
// The timeout runs from the first frame that the wire did not take: notifications of a wire that
// takes nothing do not extend it.
//
// A reset disowns the batches in the queue: their generation has ended. They leave the queue in any
// state, and the state, which is that of the wire, remains.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>

#include "host.h"

namespace tern::runner {

enum class TransmitState : std::uint8_t { kOpen, kBlocked, kLost };

struct Batch {
  EffectsBatch* effects;
  std::size_t next;          // frame to be sent
  std::uint64_t bytes;       // of its frames to the wire
  std::uint32_t generation;  // of the device that produced it
};
using Batches = std::list<Batch>;

// Used in the host thread, without the engine lock unless stated otherwise.
class Transmit {
 public:
  Transmit(Host& host, std::uint64_t patience) : host_(host), patience_(patience) {}

  [[nodiscard]] TransmitState state() const { return state_; }
  // With the engine lock: appends batches to the queue.
  void add(Batches& collected) { queue_.splice(queue_.end(), collected); }
  // Sends the rest of the first batch. Returns the bytes of the batch, or 0 if nothing more can be
  // sent now.
  std::uint64_t send_batch();
  // The wire has space again. Returns false if nothing waited for it.
  bool resumed();
  void patience_over();
  // The wire has taken a frame. Any thread.
  void took() { took_.store(true, std::memory_order_relaxed); }
  // The wire may never take the frame that it holds.
  void link_down() {
    state_ = TransmitState::kOpen;
    held_ = false;
    lost_at_ = 0;
  }
  // Called by a reset, with the engine lock too. send_batch() may be in progress.
  void disown() { ++generation_; }
  [[nodiscard]] std::uint32_t generation() const { return generation_; }

  // Batches that can be freed.
  [[nodiscard]] Batches& done() { return done_; }
  [[nodiscard]] Batches& queue() { return queue_; }

 private:
  bool send(Batch& batch);
  void block(std::size_t frames, bool held);

  Host& host_;
  const std::uint64_t patience_;  // ns
  TransmitState state_ = TransmitState::kOpen;
  bool held_ = false;               // Blocked: the wire holds a frame
  std::uint64_t lost_at_ = 0;       // when the wire counts as unplugged; 0: not known
  std::atomic<bool> took_ = false;  // a frame since lost_at_ was set
  Batches queue_;
  Batches done_;
  std::uint32_t generation_ = 0;  // written with the engine lock
};

}  // namespace tern::runner
