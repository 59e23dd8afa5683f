// SPDX-License-Identifier: GPL-2.0-or-later
#include "transmit.h"

namespace tern::runner {

// Returns false if the wire takes no more for now.
bool Transmit::send(Batch& batch) {
  const std::size_t frames = batch.effects->frames();
  while (batch.next < frames && batch.generation == generation_) {
    if (state_ == TransmitState::kLost) {
      host_.trace(Host::Event::kLost, frames - batch.next, 0);
      return true;
    }
    const Host::Frame frame = batch.effects->frame(batch.next);
    const auto sent = frame.to_wire ? host_.send(frame) : Host::Sent::kTaken;
    if (sent != Host::Sent::kBlocked) ++batch.next;
    if (sent == Host::Sent::kTaken) {
      took();
    } else {
      block(frames - batch.next, sent == Host::Sent::kHeld);
      return false;
    }
  }
  return true;
}

// A notification of a wire that still takes nothing does not extend its timeout.
void Transmit::block(std::size_t frames, bool held) {
  host_.trace(Host::Event::kBlocked, frames, 0);
  state_ = TransmitState::kBlocked;
  held_ = held;
  if (took_.exchange(false, std::memory_order_relaxed) || lost_at_ == 0)
    lost_at_ = host_.now() + patience_;
  host_.arm(Host::Timer::kPatience, lost_at_);
}

std::uint64_t Transmit::send_batch() {
  if (queue_.empty()) return 0;
  // A blocked wire does not delay batches that are not sent any more.
  if (state_ == TransmitState::kBlocked && queue_.front().generation == generation_) return 0;
  if (!send(queue_.front())) return 0;
  done_.splice(done_.end(), queue_, queue_.begin());
  return done_.back().bytes;
}

bool Transmit::resumed() {
  if (state_ == TransmitState::kOpen) return false;
  host_.trace(Host::Event::kResumed, 0, 0);
  state_ = TransmitState::kOpen;
  // The wire has taken the frame that it held.
  if (held_) took();
  held_ = false;
  host_.disarm(Host::Timer::kPatience);
  return true;
}

void Transmit::patience_over() {
  if (state_ == TransmitState::kBlocked) state_ = TransmitState::kLost;
}

}  // namespace tern::runner
