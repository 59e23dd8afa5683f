// SPDX-License-Identifier: GPL-2.0-or-later
// Devices on one wire inside one thread. Time is simulated, everything random comes from one
// seed, so a run with the same seed and the same program is the same to the last frame.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "control/device.h"
#include "tests/fake_host.h"
#include "tests/pcap.h"

namespace tern {

// What the wire does to frames. Rates are probabilities of each frame.
struct WireModel {
  Nanos latency = 2'000;       // one way
  double bits_per_ns = 100.0;  // of each sender
  double loss = 0;
  double duplicate = 0;
  double corrupt = 0;          // one bit is turned over
  double reorder = 0;          // the frame is held back
  Nanos reorder_by = 20'000;
};

class Sim;

// A device with its host, plugged into the wire.
class SimNode {
 public:
  // `dm_size`: bytes of device memory.
  SimNode(Sim& sim, const Config& config, std::uint64_t seed, std::uint64_t dm_size = 0);
  SimNode(const SimNode&) = delete;
  SimNode& operator=(const SimNode&) = delete;
  virtual ~SimNode();

  // Runs the device alone until it has nothing to do now; the clock stands still.
  void pump();
  // Something was written to the device: it gets a turn.
  void wake() { busy_ = true; }

  [[nodiscard]] bool raised(unsigned vector) const { return vectors_raised_.at(vector) != 0; }
  // Its place on the wire: what Sim::pass calls it.
  [[nodiscard]] unsigned index() const { return index_; }
  // How often a vector was raised since the last call.
  unsigned take_interrupts(unsigned vector);

  Sim& sim;
  FakeHost host;
  Device device;

 private:
  friend class Sim;
  bool run_once();
  void collect();
  unsigned index_ = 0;
  bool busy_ = false;
  Nanos tx_free_ = 0;  // when the sender's end of the wire is free again
  std::vector<unsigned> vectors_raised_;
};

// One thing that happened, for comparing runs.
struct TraceEntry {
  enum class Kind : std::uint8_t { kSent, kDelivered, kInterrupt };
  Nanos time;
  Kind kind;
  unsigned node;
  std::uint64_t value;  // hash of the frame, or the vector
  friend bool operator==(const TraceEntry&, const TraceEntry&) = default;
};

class Sim {
 public:
  // With TERN_CAPTURES=DIR in the environment every simulation is captured in a file there that has
  // the test's name, up to its 10,000th frame: input for tests/judge.
  explicit Sim(std::uint64_t seed = 1);

  [[nodiscard]] Nanos now() const { return now_; }
  // One round: every busy device gets a turn; when none is busy, time goes on to the next frame
  // or timer. False when nothing will ever happen by itself.
  bool step();
  // Until step() has nothing to do; fails the test after `limit` of simulated time.
  void run_until_idle(Nanos limit = 100'000'000'000);
  // For `span` of simulated time, also when nothing happens.
  void run_for(Nanos span);
  // Until `done()`; false when all was idle, or `limit` passed, before.
  bool run_until(const std::function<bool()>& done, Nanos limit = 100'000'000'000);

  // The next number of a node of this simulation, from 1.
  [[nodiscard]] unsigned new_node_id() { return ++node_ids_; }

  WireModel wire;
  // Bytes of budget of each turn of a device, and how long a round of turns takes. With 0 the
  // devices are infinitely fast, and only the wire takes time.
  std::uint32_t budget = 65536;
  Nanos turn_time = 0;
  // Of 256 doorbells so many arrive without their value: TERN_DB_CMD_PAGE.
  unsigned lost_values = 0;
  // Called for each frame put on the wire; false: it is lost.
  std::function<bool(unsigned from, std::span<const std::byte> frame)> pass;

  // Called right before and right after a frame of the wire is handed to a device.
  std::function<void(SimNode& to, std::span<const std::byte> frame, bool after)> tap;
  // Puts a frame on the wire as if `from` had sent it; it arrives as it is. `pass` does not see it.
  void inject(SimNode& from, std::span<const std::byte> frame);

  // Frames and interrupts so far, kept while `tracing`.
  bool tracing = false;
  [[nodiscard]] const std::vector<TraceEntry>& trace() const { return trace_; }
  // Every frame that is sent or turns round inside goes to this file, too, the first `limit` ones.
  void capture(const std::string& path, std::uint64_t limit = UINT64_MAX) {
    pcap_ = std::make_unique<PcapWriter>(path);
    pcap_left_ = limit;
  }
  // Whether nodes must hand over the frames that turn round inside.
  [[nodiscard]] bool captures() const { return pcap_ != nullptr; }

  struct Stats {
    std::uint64_t sent = 0;
    std::uint64_t lost = 0;
    std::uint64_t duplicated = 0;
    std::uint64_t corrupted = 0;
    std::uint64_t reordered = 0;
    std::uint64_t delivered = 0;
  };
  Stats stats;

 private:
  friend class SimNode;
  struct InFlight {
    Nanos time;
    std::uint64_t order;  // of sending; ties are served in it
    unsigned from;
    std::shared_ptr<std::vector<std::byte>> bytes;
    bool operator>(const InFlight& o) const {
      return time != o.time ? time > o.time : order > o.order;
    }
  };

  unsigned attach(SimNode* node);
  void detach(SimNode* node);
  void send(SimNode& from, std::span<const std::byte> frame);
  void fly(SimNode& from, std::shared_ptr<std::vector<std::byte>> bytes, Nanos when);
  void deliver(const InFlight& f);
  void record(TraceEntry::Kind kind, unsigned node, std::uint64_t value);
  [[nodiscard]] Nanos next_event() const;
  void advance(Nanos to);
  bool chance(double p);
  std::uint64_t random();

  std::vector<SimNode*> nodes_;  // null: detached
  unsigned node_ids_ = 0;
  std::priority_queue<InFlight, std::vector<InFlight>, std::greater<>> flying_;
  Nanos now_ = 1'000'000;
  std::uint64_t order_ = 0;
  std::uint64_t random_;
  std::vector<TraceEntry> trace_;
  std::unique_ptr<PcapWriter> pcap_;
  std::uint64_t pcap_left_ = 0;
};

// FNV-1a, 64 bits.
[[nodiscard]] std::uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace tern
