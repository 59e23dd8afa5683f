// SPDX-License-Identifier: GPL-2.0-or-later
// Devices on one wire in one thread. Time is simulated and all randomness comes from one seed: a
// run with the same seed and the same program repeats every frame. The lanes of a device run in
// seeded order.
#pragma once

#include <cstdint>
#include <deque>
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

// What the wire does to frames. The rates are probabilities per frame.
struct WireModel {
  Nanos latency = 2'000;       // one way
  double bits_per_ns = 100.0;  // rate of each sender
  double loss = 0;
  double duplicate = 0;
  double corrupt = 0;  // one bit is flipped
  double reorder = 0;  // the frame is delayed by reorder_by
  Nanos reorder_by = 20'000;
};

class EventFile;
class Sim;

// A device with its host, plugged into the wire.
class SimNode {
 public:
  // `dm_size`: bytes of device memory.
  SimNode(Sim& sim, const Config& config, std::uint64_t seed, std::uint64_t dm_size = 0);
  SimNode(const SimNode&) = delete;
  SimNode& operator=(const SimNode&) = delete;
  virtual ~SimNode();

  // Hands a frame from the wire to the lane that should receive it. Returns the cost.
  std::uint64_t receive(const WireFrame& frame);
  // When a timer of any lane is due.
  [[nodiscard]] Nanos next_deadline() const;
  // Runs this device alone until it is idle; the clock stands still.
  void pump();
  // Replaces the device by a new one that continues from its saved state. Returns false, and does
  // nothing, while the device has frames or interrupts that the next round hands over.
  bool save_and_load();
  // Call it after writing to the device: the next round runs the device.
  void wake() { busy_ = true; }

  [[nodiscard]] bool raised(unsigned vector) const { return vectors_raised_.at(vector) != 0; }
  // Node number on the wire, as in Sim::pass.
  [[nodiscard]] unsigned index() const { return index_; }
  // Returns how often the vector was raised since the last call.
  unsigned take_interrupts(unsigned vector);

  Sim& sim;
  FakeHost host;
  Device device;

 private:
  friend class Sim;
  // A frame on its way to another lane.
  struct LaneFrame {
    std::vector<std::byte> bytes;
    Icrc icrc;
    std::uint32_t train;
    std::uint16_t mss;
    bool inside;
  };
  bool run_once();
  bool run_lanes();
  bool run_lane(unsigned number, std::size_t frames);
  void collect(DataPath& lane);
  std::unique_ptr<EventFile> events_;
  unsigned index_ = 0;
  bool busy_ = false;
  unsigned runs_ = 0;  // since the last save
  Nanos tx_free_ = 0;  // when the transmitter will be idle
  std::vector<unsigned> vectors_raised_;
  std::vector<std::deque<LaneFrame>> mailboxes_;  // frames that wait, by lane
};

// An event of the simulation, to compare runs.
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
  // With TERN_CAPTURES=DIR in the environment, every simulation writes its first 10,000 frames to a
  // file in DIR that is named after the test: input for tests/judge. With TERN_EVENTS=DIR every
  // node writes its event log there, to a file of the same name with its number on the wire.
  explicit Sim(std::uint64_t seed = 1);

  [[nodiscard]] Nanos now() const { return now_; }
  // One round: runs every busy device once. If none is busy, advances time to the next frame or
  // timer. Returns false if there is none either.
  bool step();
  // Steps until nothing is left to do; fails the test after `limit` of simulated time.
  void run_until_idle(Nanos limit = 100'000'000'000);
  // Runs for `span` of simulated time, even if nothing happens.
  void run_for(Nanos span);
  // Steps until `done()`. Returns its last value: false if everything became idle or `limit`
  // passed.
  bool run_until(const std::function<bool()>& done, Nanos limit = 100'000'000'000);

  // Number for a new node of this simulation, from 1.
  [[nodiscard]] unsigned new_node_id() { return ++node_ids_; }

  WireModel wire;
  // Budget of each run of a device in bytes, and the duration of a round. If turn_time is 0,
  // devices are infinitely fast and only the wire takes time.
  std::uint32_t budget = 65536;
  Nanos turn_time = 0;
  // How many of 256 doorbells lose their value and arrive as TERN_DB_CMD_PAGE.
  unsigned lost_values = 0;
  // Called for each frame put on the wire; false loses the frame.
  std::function<bool(unsigned from, std::span<const std::byte> frame)> pass;

  // A queue that frames pass on their way, as in the egress port of a switch. Called when a frame
  // reaches it; may mark the frame. Returns when the frame has left, or kNever if it is lost.
  std::function<Nanos(unsigned to, std::span<std::byte> frame)> queue;

  // Called right before and right after a device receives a frame from the wire.
  std::function<void(SimNode& to, std::span<const std::byte> frame, bool after)> tap;
  // Puts a frame on the wire as if `from` had sent it. It arrives unchanged, and `pass` does not
  // see it.
  void inject(SimNode& from, std::span<const std::byte> frame);

  // Trains stay whole on their way: the wire model treats one as a frame, which it never corrupts.
  // Otherwise each packet has a frame of its own. `pass`, `queue` and `tap` see frames as they are
  // on the way.
  bool whole_trains = false;

  // Frames and interrupts recorded while `tracing`.
  bool tracing = false;
  [[nodiscard]] const std::vector<TraceEntry>& trace() const { return trace_; }
  // Also writes the first `limit` frames, sent or looped back, to this file.
  void capture(const std::string& path, std::uint64_t limit = UINT64_MAX) {
    pcap_ = std::make_unique<PcapWriter>(path);
    pcap_left_ = limit;
  }
  // Whether nodes must hand over looped-back frames.
  [[nodiscard]] bool captures() const { return pcap_ != nullptr; }
  // With TERN_SAVES=N in the environment, every device is saved and loaded after each N runs.
  [[nodiscard]] unsigned saves() const { return saves_; }
  // A name for files of this simulation, of the test and a number.
  [[nodiscard]] const std::string& file_name() const { return file_name_; }

  struct Stats {
    std::uint64_t sent = 0;
    std::uint64_t lost = 0;
    std::uint64_t duplicated = 0;
    std::uint64_t corrupted = 0;
    std::uint64_t reordered = 0;
    std::uint64_t delivered = 0;
    std::uint64_t deferred = 0;  // delivered without their ICRC
    std::uint64_t trains = 0;    // made
    std::uint64_t shared = 0;    // delivered, made with their payload elsewhere
  };
  Stats stats;

 private:
  friend class SimNode;
  // Keeps the payload that a frame refers to until it has been delivered or lost.
  class Sharing {
   public:
    Sharing(const WireFrame& frame, EffectsBatch& batch)
        : frame_(frame), headers_(frame.bytes.begin(), frame.bytes.end()), batch_(batch) {
      frame_.bytes = headers_;
    }
    ~Sharing() {
      frame_.payload->finish();
      batch_.release(1);
    }
    Sharing(const Sharing&) = delete;
    Sharing& operator=(const Sharing&) = delete;
    [[nodiscard]] const WireFrame& frame() const { return frame_; }

   private:
    WireFrame frame_;
    std::vector<std::byte> headers_;
    EffectsBatch& batch_;
  };
  struct InFlight {
    Nanos time;
    std::uint64_t order;  // number of the transmission; breaks ties
    unsigned from;
    std::shared_ptr<std::vector<std::byte>> bytes;  // with the ICRC, unless it is a train
    Icrc icrc = Icrc::kPresent;                     // as the receiver gets it
    std::uint32_t train = 1;
    std::uint16_t mss = 0;
    std::shared_ptr<Sharing> sharing = nullptr;  // null: the sender made `bytes`
    std::uint32_t packet = 0;                    // of the train that shares
    bool queued = false;                         // behind the queue already
    bool operator>(const InFlight& o) const {
      return time != o.time ? time > o.time : order > o.order;
    }
  };

  unsigned attach(SimNode* node);
  void detach(SimNode* node);
  void send(SimNode& from, const WireFrame& made, const std::shared_ptr<Sharing>& sharing,
            std::uint32_t packet = 0);
  void send_packets(SimNode& from, const WireFrame& made, const std::shared_ptr<Sharing>& sharing);
  void fly(InFlight frame, Nanos when);
  void deliver(const InFlight& f);
  void check_shared(const InFlight& f);
  bool enter_queue(const InFlight& f, unsigned to);
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
  std::string file_name_;
  unsigned saves_ = 0;
  std::unique_ptr<PcapWriter> pcap_;
  std::uint64_t pcap_left_ = 0;
};

// FNV-1a, 64 bits.
[[nodiscard]] std::uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace tern
