// SPDX-License-Identifier: GPL-2.0-or-later
// The Ethernet switch between the adapters of one daemon and its uplinks.
//
// It has no thread: the thread that sends a frame puts it into the egress queue of each port that
// the frame leaves through, and then wakes the threads of these ports. The switch learns addresses
// by VLAN and supports access ports. Frames to group addresses leave through all ports. Frames to
// an unknown address leave through uplinks, and through ports with more stations than the switch
// can learn.
//
// A full egress queue blocks the sender of a frame to one port, as priority flow control does,
// unless the port's policy is to drop frames. Like a switch with a PFC watchdog, it stops waiting
// for a port that has taken nothing for kWatchdog. A frame to several ports blocks no sender: a
// slow port would slow down all that send such frames. The port loses its copy.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/limits.h"
#include "egress_queue.h"

namespace tern::daemon {

class Switch;

// Treatment of frames that leave through a port.
struct PortPolicy {
  std::uint64_t queue = std::uint64_t{512} * 1024;  // bytes that may wait
  bool drop = false;                                // drop frames instead of blocking their sender
  std::uint64_t rate = 0;                           // bits a second; 0: not limited
  std::uint64_t delay = 0;                          // ns
  // ECN marking by queue length (RED as RoCEv2 switches do it): none below red_min bytes, with a
  // probability that rises to red_probability at red_max, and all above. red_max 0: off. A packet
  // that is not ECN capable is dropped instead.
  std::uint64_t red_min = 0;
  std::uint64_t red_max = 0;
  double red_probability = 1.0;
  double loss = 0.0;       // probability that a frame is lost
  std::uint16_t vlan = 0;  // not 0: an access port of this VLAN
};

// Frames and bytes by fate. "in" is from the port's adapter to the switch.
struct PortCounters {
  std::uint64_t in_frames, in_bytes, in_discards;
  std::uint64_t out_frames, out_bytes;
  std::uint64_t out_discards;  // queue full, not drained, not usable, or by RED
  std::uint64_t out_lost;      // PortPolicy::loss
  std::uint64_t out_marked;    // by RED
  std::uint64_t blocked;       // times that a sender was blocked by this port
  std::uint64_t watchdog;      // times that the port was considered stuck
};

// A port's user: an adapter or an uplink.
class PortUser {
 public:
  virtual ~PortUser() = default;
  // Any thread. Frames wait in the egress queue, and the user's thread may sleep.
  virtual void frames_wait() = 0;
  // Any thread. A port that blocked a frame of this user has space.
  virtual void room() = 0;
  // Any thread. The port's rate or delay has changed: its first frame may be due earlier.
  virtual void due_changed() { frames_wait(); }
  // Any thread: the lane that a frame is for, of a user with lanes (Switch::add_lane()).
  [[nodiscard]] virtual std::uint8_t lane_of(std::span<const std::byte> /*frame*/) const {
    return 0;
  }
};

// The user of a port whose user is gone.
class NoUser final : public PortUser {
 public:
  static NoUser& instance();
  void frames_wait() override {}
  void room() override {}
};

// A user with several lanes has a Port for each, with a queue and a thread of its own. The others
// share the first one's link, policy and stations.
class Port {
 public:
  enum class Sent : std::uint8_t { kTaken, kBlocked };
  // The port of a guest has few stations, and keeps them until its link goes down: they need not
  // send. An uplink leads to a network, whose stations come and go.
  enum class Kind : std::uint8_t { kGuest, kUplink };

  Port(Switch& owner, unsigned number, std::string name, PortUser& user, std::size_t queue_size,
       Kind kind);

  [[nodiscard]] const std::string& name() const { return name_; }

  // The following functions are for the first lane.

  // A port whose link is down neither sends nor receives; its addresses are forgotten.
  void set_link(bool up);
  [[nodiscard]] bool link() const { return link_.load(std::memory_order_relaxed); }

  // Any thread. Applies to frames sent from now on; rate and delay, to those that wait as well.
  void set_policy(const PortPolicy& policy);
  [[nodiscard]] PortPolicy policy() const;
  // Whether the user may read payload in the memory of other ports' users: otherwise it is copied
  // for this port.
  void set_zero_copy(bool on) { zero_copy_.store(on, std::memory_order_relaxed); }
  [[nodiscard]] PortCounters counters() const;
  [[nodiscard]] std::size_t queue_length() const;
  [[nodiscard]] std::size_t queue_size() const { return queue_size_; }

  // ---- the user's thread ----

  // Sends a frame that was made at time `now` into the switch. After kBlocked the user sends the
  // same frame with the same time again, once PortUser::room() was called or Switch::kWatchdog has
  // passed, or another one instead. `batch`: the frame's batch, if its bytes may stay in place. A
  // frame that leaves through an uplink gets its ICRC; a train is divided for it, for policies, and
  // where it would be copied. Unless it may block, a full port loses the frame.
  Sent send(const WireFrame& frame, std::uint64_t now, EffectsBatch* batch = nullptr,
            bool may_block = true) {
    return send({.frame = frame,
                 .batch = batch,
                 .time = now,
                 .bytes = frame.bytes.size(),
                 .may_block = may_block});
  }
  // The same for a frame to another lane of the user.
  Sent send_to_lane(unsigned lane, const WireFrame& frame, std::uint64_t now, EffectsBatch* batch);
  // Whether the last train was divided.
  [[nodiscard]] bool divided() const { return divided_.last; }
  // After send(), and before the user sleeps: wakes the users whose ports have got frames. Call it
  // once for many frames, because it waits until other processors see them.
  void wake_receivers();
  // Returns the next frame that leaves through the port at time `now`, valid until pop(). Empty if
  // there is none; if a frame waits for its time, that is stored in `*due`.
  [[nodiscard]] WireFrame front(std::uint64_t now, std::uint64_t* due);
  void pop();
  // The same for a frame that the user could not use: it counts as discarded.
  void discard();
  // Resumes senders that wait for space, if there is some.
  void release();
  // For a thread that is about to sleep: whether no frame waits.
  [[nodiscard]] bool empty() const { return queue_.empty(); }

 private:
  friend class Switch;

  // A frame that passes through the switch.
  struct Passing {
    WireFrame frame;
    EffectsBatch* batch;
    std::uint64_t time;
    std::size_t bytes;  // EgressQueue::Waiting::bytes
    std::uint16_t vlan = 0;
    bool tagged = false;
    bool may_block = true;
    Port* lane = nullptr;  // the user's lane that gets the frame; null: the switch decides
  };
  // A train whose packets are sent one by one.
  struct Divided {
    const std::byte* frame = nullptr;  // null: none is sent
    std::uint64_t time = 0;
    std::uint32_t next = 0;  // packet
    bool last = false;       // the last train was divided
    std::array<std::byte, EgressQueue::kFrameMax> packet;
  };
  enum class Fate : std::uint8_t { kPass, kMark, kLose };
  // kDivide: a train is to be sent as single packets.
  enum class Outcome : std::uint8_t { kTaken, kBlocked, kDivide };
  void begin(std::string name, PortUser& user, Kind kind);
  void end();
  Sent send(const Passing& passing) {
    return passing.frame.train > 1 ? send_train(passing) : send_one(passing);
  }
  Sent send_one(Passing passing);
  Sent send_train(const Passing& passing);
  template <class T>
  Sent divide(Passing passing, const std::optional<T>& train);
  [[nodiscard]] bool takes_whole(const Passing& passing, const FrameChange& change) const;
  Outcome offer(Port& from, const Passing& passing);
  Outcome offer_lane(Port& from, const Passing& passing);
  [[nodiscard]] Port& lane_for(const WireFrame& frame);
  Outcome put(Port& to, Port& from, const Passing& passing, FrameChange change, Fate fate);
  Fate fate(Port& from, const Passing& passing);
  Outcome full(Port& to, Port& from, const Passing& passing, Fate fate) const;
  bool stuck(std::uint64_t now);
  [[nodiscard]] std::span<const std::atomic<Port*>> lanes() const {
    return std::span(lanes_).first(lane_count_.load(std::memory_order_acquire));
  }

  static constexpr std::size_t kWords = 16;

  Switch& switch_;
  const unsigned number_;
  std::string name_;  // of the user; empty: there is none
  std::atomic<Kind> kind_;
  std::atomic<PortUser*> user_;
  const std::size_t queue_size_;
  EgressQueue queue_;
  std::atomic<bool> link_ = false;
  std::atomic<bool> zero_copy_ = false;
  Port* first_ = this;  // the user's first lane
  std::array<std::atomic<Port*>, kMaxLanes> lanes_{};
  std::atomic<unsigned> lane_count_ = 1;

  mutable std::mutex policy_mutex_;
  PortPolicy policy_;
  // Copies for the hot path.
  std::atomic<std::uint64_t> limit_;
  std::atomic<bool> drop_ = false;
  std::atomic<bool> shaped_ = false;   // rate or delay
  std::atomic<unsigned> changes_ = 0;  // of rate or delay
  std::atomic<bool> chance_ = false;   // RED or loss
  std::atomic<std::uint16_t> vlan_ = 0;

  // Each of these groups has one writer while frames flow, and cache lines of its own. The user's
  // thread writes this one as it takes frames.
  alignas(64) std::atomic<std::uint64_t> taken_ = 0;  // frames
  std::atomic<std::uint64_t> out_frames_ = 0, out_bytes_ = 0;
  std::uint64_t wire_free_ = 0;  // when the last frame will have left, at the policy's rate
  std::uint64_t front_due_ = 0;  // of the first frame; 0: not computed
  unsigned changes_seen_ = 0;    // the two above follow these changes_

  // Written by the user's thread as it sends. Keeps the decision about a frame that a port blocked.
  alignas(64) std::atomic<std::uint64_t> in_frames_ = 0;
  std::atomic<std::uint64_t> in_bytes_ = 0, in_discards_ = 0;
  const std::byte* blocked_frame_ = nullptr;
  std::uint64_t blocked_time_ = 0;
  Fate blocked_fate_ = Fate::kPass;
  Divided divided_;
  std::array<std::uint64_t, kWords> receivers_{};  // bit n: port n, for wake_receivers()
  std::uint32_t receiver_words_ = 0;               // bit n: receivers_[n] is not 0

  // Written by senders to this port, while it is full or has a policy.
  alignas(64) std::atomic<std::uint64_t> full_since_ = 0;  // 0: not full
  std::atomic<std::uint64_t> taken_when_full_ = 0;
  std::atomic<std::uint64_t> stuck_since_ = 0;  // full_since_ when watchdog_ last counted
  std::array<std::atomic<std::uint64_t>, kWords> waiting_{};  // bit n: port n waits for space
  std::atomic<unsigned> any_waits_ = 0;
  std::atomic<std::uint64_t> out_discards_ = 0, out_lost_ = 0, out_marked_ = 0;
  std::atomic<std::uint64_t> blocked_ = 0, watchdog_ = 0;
  std::atomic<std::uint64_t> random_;
};

class Switch {
 public:
  static constexpr unsigned kMaxPorts = 256;
  // Lanes of these ports, without the first ones.
  static constexpr unsigned kMaxLanePorts = 768;
  // A port whose queue stays full for this long, in ns, while it takes no frame, blocks no more
  // senders until it takes one. Shorter than a sender's timeout (runner::Limits::tx_patience).
  static constexpr std::uint64_t kWatchdog = 200'000'000;
  // Addresses of an uplink are forgotten after this many seconds without a frame from them, those
  // of a guest when it needs space for others.
  static constexpr std::uint32_t kAge = 300;
  // Limit of addresses of a guest's port, and of an uplink. Further ones are not learned, and the
  // port gets frames to unknown addresses.
  static constexpr unsigned kMaxAddresses = 256;
  static constexpr unsigned kMaxUplinkAddresses = 16384;

  // Called for each frame that enters the switch, with its ICRC.
  using Tap =
      std::function<void(const Port& from, std::span<const std::byte> frame, std::uint64_t time)>;

  Switch();
  // One thread adds and removes ports, and may do so while others send. Throws std::length_error if
  // there are kMaxPorts.
  Port& add(std::string name, PortUser& user, std::size_t queue_size,
            Port::Kind kind = Port::Kind::kGuest);
  // Adds a lane to the port of a guest, up to kMaxLanes, before its link is up. Throws
  // std::length_error if there are kMaxLanePorts.
  Port& add_lane(Port& port, PortUser& user);
  // After the user's threads have ended. Threads that send may still call the user, until each of
  // them has returned from send(), wake_receivers() and release().
  static void leave(Port& port);
  // Call it after leave(): a later user may then have the port.
  static void remove(Port& port);
  // For the thread that adds ports. Includes removed ones, which have no name.
  [[nodiscard]] std::deque<Port>& ports() { return storage_; }
  // Before any thread sends.
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  // The clock of the watchdog, for tests: a frame that is offered again keeps its time.
  void set_clock(std::function<std::uint64_t()> clock) { clock_ = std::move(clock); }

  // For tests: the port that frames to an address leave through; null if it is unknown.
  [[nodiscard]] const Port* find(std::span<const std::byte, 6> mac, std::uint16_t vlan) const;

 private:
  friend class Port;
  static constexpr unsigned kMaxQueues = kMaxPorts + kMaxLanePorts;
  // The addresses of all guests fill half of the table. An address is in one of two buckets: with
  // this choice, both are hardly ever full while others have room.
  static constexpr std::size_t kWays = 8;
  static constexpr std::size_t kBuckets = std::size_t{2} * kMaxPorts * kMaxAddresses / kWays;
  // A port that always sends from new addresses causes at most one search for old ones in this many
  // seconds.
  static constexpr std::uint32_t kSweep = 10;

  struct Entry {
    std::atomic<std::uint64_t> key = 0;    // vlan and address; 0: free
    std::atomic<std::uint64_t> owner = 0;  // Stations::owner of the port
    std::atomic<std::uint32_t> seen = 0;   // in seconds
  };
  using Bucket = std::array<Entry, kWays>;
  // State of a port's stations.
  struct Stations {
    // The port's number, and above it how often its addresses were forgotten: earlier entries are
    // free.
    std::atomic<std::uint64_t> owner;
    std::atomic<unsigned> learned = 0;
    std::atomic<bool> more = false;        // than were learned
    std::atomic<std::uint32_t> swept = 0;  // in seconds
  };

  [[nodiscard]] std::uint64_t hash(std::uint64_t key) const;
  [[nodiscard]] std::array<Bucket*, 2> buckets(std::uint64_t key) const;
  [[nodiscard]] Entry* lookup(std::uint64_t key) const;
  [[nodiscard]] Entry* room(std::uint64_t key, std::uint32_t seconds) const;
  [[nodiscard]] bool owned(std::uint64_t owner) const {
    return owner != 0 && stations_[owner % kMaxQueues].owner.load() == owner;
  }
  [[nodiscard]] bool usable(const Entry& entry, std::uint64_t owner, std::uint32_t seconds) const;
  [[nodiscard]] const Port* station(std::uint64_t key, std::uint32_t seconds) const;
  void forget(unsigned port);
  void learn(std::uint64_t key, const Port& port, std::uint32_t seconds);
  void insert(std::uint64_t key, const Port& port, std::uint32_t seconds);
  void forget_station(std::uint64_t key);
  void sweep(const Port& port, std::uint32_t seconds);
  void uncount(std::uint64_t owner) {
    if (owned(owner)) stations_[owner % kMaxQueues].learned.fetch_sub(1);
  }
  Port::Outcome send(Port& from, Port::Passing& passing);
  void flood(Port& from, Port::Passing& frame, bool group);
  void show(const Port& from, const Port::Passing& passing) const;

  [[nodiscard]] Port& at(std::size_t number) const {
    return *ports_[number].load(std::memory_order_acquire);
  }

  Port& make(std::deque<Port>& storage, unsigned most, const char* error, std::string name,
             PortUser& user, std::size_t queue_size, Port::Kind kind);

  std::deque<Port> storage_;
  std::deque<Port> lanes_;  // but the first ones
  std::array<std::atomic<Port*>, kMaxQueues> ports_{};
  std::atomic<unsigned> count_ = 0;
  Tap tap_;
  std::function<std::uint64_t()> clock_;
  const std::uint64_t seed_;  // guests choose the keys
  std::mutex learning_;
  std::unique_ptr<std::array<Bucket, kBuckets>> table_;
  std::array<Stations, kMaxQueues> stations_;
};

// Removes a port when its user is destroyed.
struct RemovePort {
  void operator()(Port* port) const { Switch::remove(*port); }
};
using OwnedPort = std::unique_ptr<Port, RemovePort>;

}  // namespace tern::daemon
