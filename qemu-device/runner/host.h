// SPDX-License-Identifier: GPL-2.0-or-later
// The runner's requirements on its host: a hypervisor's device model, a daemon, a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/effects_batch.h"

namespace tern::runner {

// Each function states its caller:
//   [host]  the host thread, without the engine lock: the function may call the runner again
//   [lock]  any thread, with the engine lock: it must neither take the host lock nor call the
//           runner
//   [any]   either of them, and the worker without a lock
class Host {
 public:
  virtual ~Host() = default;

  using Frame = EffectsBatch::Frame;
  enum class Call : std::uint8_t { kDeliver, kTakeFrames };
  enum class Timer : std::uint8_t {
    kEngine,    // the engine's next deadline, or earlier
    kPatience,  // the wire has taken nothing for too long
  };
  enum class Sent : std::uint8_t {
    kTaken,    // sent, or lost on the way
    kHeld,     // accepted; send no other frame before Runner::resumed(). Not with direct_send.
    kBlocked,  // not taken; Runner::resumed() reports space
  };
  enum class Event : std::uint8_t {
    kSlice,    // of the worker; whether there is more
    kBlocked,  // frames of the batch that wait
    kResumed,
    kLost,        // frames
    kRefused,     // a received frame; bytes
    kContention,  // measured; ns running, ns waiting for a processor
    kLogEnded,    // the event log, in its thread; errno, or 0 at its limit
  };

  // [any] The device clock in ns.
  virtual std::uint64_t now() = 0;
  // [any] Makes the host thread call Runner::deliver() or Runner::take_frames() soon. Further
  // requests before that call have no effect.
  virtual void schedule(Call call) = 0;
  // [any] For debugging; Event describes the values.
  virtual void trace(Event event, std::uint64_t a, std::uint64_t b) = 0;
  // [lock] Passes a frame to the capture tap.
  virtual void capture(const Frame& frame) = 0;

  // [host] Calls Runner::expired() when the device clock reaches `at`; replaces an earlier
  // deadline.
  virtual void arm(Timer timer, std::uint64_t at) = 0;
  virtual void disarm(Timer timer) = 0;
  // [host] Raises an interrupt.
  virtual void raise(unsigned vector) = 0;
  // [host], with Config::direct_send also [lock], but by one thread at a time: sends a frame.
  virtual Sent send(const Frame& frame) = 0;
  // [host] A frame that Runner::receive() refused may be offered again.
  virtual void receive_again() = 0;

  // [lock], in the host thread, and only in Runner::take_frames(): returns the next frame on the
  // wire, valid until the next call, or an empty one if there is none.
  virtual WireFrame next_frame() = 0;
  // The same: releases the space of frames taken to the peer. Returns true if no frame has arrived
  // meanwhile; the host then calls Runner::take_frames() when one does.
  virtual bool wait_for_frames() = 0;

  // In the worker's thread, when it begins and before it ends.
  virtual void worker_begins() = 0;
  virtual void worker_ends() = 0;
};

}  // namespace tern::runner
