// SPDX-License-Identifier: GPL-2.0-or-later
// Frames on their way to the wire.
//
// A batch is what one slice of work produced. It is collected with the engine lock, sent by the host thread, and done until the next
// holder of the engine lock gives its memory back:
//
//   collected --(the host thread passes)--> transmit queue --(sent, lost or disowned)--> done --(engine lock)--> free
//
// The order of the lists is the order of the wire.
//
//   State    Event                      Next     Effect
//   Open     send() holds or blocks     Blocked  the patience timer runs
//   Blocked  resumed(), link down       Open     sending goes on
//   Blocked  the patience timer fires   Lost     the queue is dropped, as if unplugged
//   Lost     resumed(), link down       Open     what is sent from now on leaves
//
// A reset disowns what is in the queue: its generation is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "host.h"

namespace tern::runner {

enum class TransmitState : std::uint8_t { kOpen, kBlocked, kLost };

struct Batch {
  TernEffects* effects;
  std::size_t next;          // frame to be sent
  std::uint64_t bytes;       // of its frames for the wire
  std::uint32_t generation;  // of the device that made it
};
using Batches = std::list<Batch>;

// All in the host thread, without the engine lock where not said otherwise.
class Transmit {
 public:
  Transmit(Host& host, std::uint64_t patience) : host_(host), patience_(patience) {}

  [[nodiscard]] TransmitState state() const { return state_; }
  // With the engine lock: queues batches behind those that are there.
  void add(Batches& collected) { queue_.splice(queue_.end(), collected); }
  // Sends what is left of the first batch. False: there is nothing more to be sent now.
  bool send_batch();
  // The wire has room again. False: nobody waited for it.
  bool resumed();
  void patience_over();
  // The frame that is held may never be taken.
  void link_down() { state_ = TransmitState::kOpen; }
  // With the engine lock too. By a reset; send_batch() may be under way.
  void disown() { ++generation_; }
  [[nodiscard]] std::uint32_t generation() const { return generation_; }

  // Batches whose memory can be given back.
  [[nodiscard]] Batches& done() { return done_; }
  [[nodiscard]] Batches& queue() { return queue_; }

 private:
  bool send(Batch& batch);

  Host& host_;
  const std::uint64_t patience_;  // ns
  TransmitState state_ = TransmitState::kOpen;
  Batches queue_;
  Batches done_;
  std::uint32_t generation_ = 0;  // written with the engine lock
};

}  // namespace tern::runner
