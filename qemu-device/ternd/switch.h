// SPDX-License-Identifier: GPL-2.0-or-later
// The Ethernet switch between the adapters of one daemon and its uplinks.
//
// It has no thread: the thread that sends a frame puts it into the egress queue of each port that
// the frame leaves through, and then wakes the threads of these ports. It learns addresses by VLAN,
// floods frames to unknown and multicast addresses, and knows access ports.
//
// A full egress queue blocks the sender, as priority flow control does, unless the port's policy
// says that frames are dropped. Like a switch with a PFC watchdog, it stops waiting for a port that
// has taken nothing for kWatchdog.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "egress_queue.h"

namespace tern::daemon {

class Switch;

// What the switch does to frames that leave through a port.
struct PortPolicy {
  std::uint64_t queue = std::uint64_t{512} * 1024;  // bytes that may wait
  bool drop = false;                 // drop frames instead of blocking their sender
  std::uint64_t rate = 0;            // bits a second; 0: not limited
  std::uint64_t delay = 0;           // ns
  // ECN marking by queue length (RED as RoCEv2 switches do it): none below red_min bytes, with a
  // probability that rises to red_probability at red_max, and all above. red_max 0: off. A packet
  // that is not ECN capable is dropped instead.
  std::uint64_t red_min = 0;
  std::uint64_t red_max = 0;
  double red_probability = 1.0;
  double loss = 0.0;  // probability that a frame is lost
  std::uint16_t vlan = 0;  // not 0: an access port of this VLAN
};

// Frames and bytes by fate. "in" is from the port's adapter to the switch.
struct PortCounters {
  std::uint64_t in_frames, in_bytes, in_discards;
  std::uint64_t out_frames, out_bytes;
  std::uint64_t out_discards;   // queue full, not drained, not usable, or by RED
  std::uint64_t out_lost;       // PortPolicy::loss
  std::uint64_t out_marked;     // by RED
  std::uint64_t blocked;        // times that a sender was blocked by this port
  std::uint64_t watchdog;       // times that the port was taken for stuck
};

// A port's user: an adapter or an uplink.
class PortUser {
 public:
  virtual ~PortUser() = default;
  // Any thread. Frames wait in the egress queue, and the user's thread may sleep.
  virtual void frames_wait() = 0;
  // Any thread. A port that blocked a frame of this one has room.
  virtual void room() = 0;
};

// That of a port whose user is gone.
class NoUser final : public PortUser {
 public:
  static NoUser& instance();
  void frames_wait() override {}
  void room() override {}
};

class Port {
 public:
  enum class Sent : std::uint8_t { kTaken, kBlocked };

  Port(Switch& owner, unsigned number, std::string name, PortUser& user, std::size_t queue_size);

  [[nodiscard]] const std::string& name() const { return name_; }

  // A port whose link is down neither sends nor receives; its addresses are forgotten.
  void set_link(bool up);
  [[nodiscard]] bool link() const { return link_.load(std::memory_order_relaxed); }

  // Any thread. Applies to frames that are sent from now on.
  void set_policy(const PortPolicy& policy);
  [[nodiscard]] PortPolicy policy() const;
  [[nodiscard]] PortCounters counters() const;
  [[nodiscard]] std::size_t queue_length() const { return queue_.length(); }
  [[nodiscard]] std::size_t queue_size() const { return queue_size_; }

  // ---- the user's thread ----

  // Sends a frame that was made at time `now` into the switch. After kBlocked the user sends the same
  // frame with the same time again, once PortUser::room() was called or Switch::kWatchdog has passed,
  // or another one instead. `batch`: that the frame belongs to, if its bytes may stay where they are.
  Sent send(std::span<const std::byte> frame, std::uint64_t now, TernEffects* batch = nullptr);
  // After send(), and before the user sleeps: wakes the users whose ports have been given frames. Once for many frames, because
  // it waits until other processors see them.
  void wake_receivers();
  // The next frame that leaves through the port at time `now`, valid until pop(). Empty if there is
  // none; if one waits for its time, `*due` is when.
  [[nodiscard]] std::span<const std::byte> front(std::uint64_t now, std::uint64_t* due);
  void pop();
  // The same for a frame that the user could not use: it counts as discarded.
  void discard();
  // Senders that wait for room are resumed if there is some.
  void release();
  // For a thread that is about to sleep: nothing waits.
  [[nodiscard]] bool empty() const { return queue_.empty(); }

 private:
  friend class Switch;

  // A frame on its way through the switch.
  struct Passing {
    std::span<const std::byte> bytes;
    TernEffects* batch;
    std::uint64_t time;
    std::uint16_t vlan = 0;
    bool tagged = false;
  };
  void begin(std::string name, PortUser& user);
  void end();
  Sent offer(Port& from, const Passing& frame);
  Sent full(Port& from);
  bool stuck(std::uint64_t now);

  static constexpr std::size_t kWords = 4;

  Switch& switch_;
  const unsigned number_;
  std::string name_;  // of the user; empty: there is none
  std::atomic<PortUser*> user_;
  const std::size_t queue_size_;
  EgressQueue queue_;
  std::atomic<bool> link_ = false;

  mutable std::mutex policy_mutex_;
  PortPolicy policy_;
  // Copies for the hot path.
  std::atomic<std::uint64_t> limit_;
  std::atomic<bool> drop_ = false;
  std::atomic<bool> shaped_ = false;   // rate or delay
  std::atomic<bool> chance_ = false;   // RED or loss
  std::atomic<std::uint16_t> vlan_ = 0;

  // Each of these groups has one writer while frames flow, and cache lines of its own. Here, it is the user's thread that takes.
  alignas(64) std::atomic<std::uint64_t> taken_ = 0;  // frames
  std::atomic<std::uint64_t> out_frames_ = 0, out_bytes_ = 0;
  std::uint64_t wire_free_ = 0;  // when the last frame has left, at the policy's rate
  std::uint64_t front_due_ = 0;  // of the first frame; 0: not computed

  // The user's thread that sends, and a frame that was flooded to some ports before one blocked it.
  alignas(64) std::atomic<std::uint64_t> in_frames_ = 0;
  std::atomic<std::uint64_t> in_bytes_ = 0, in_discards_ = 0;
  const std::byte* flooding_ = nullptr;
  std::uint64_t flooding_time_ = 0;
  unsigned flooded_ = 0;
  std::array<std::uint64_t, kWords> receivers_{};  // bit n: port n, for wake_receivers()

  // Senders to this port, while it is full or has a policy.
  alignas(64) std::atomic<std::uint64_t> full_since_ = 0;  // 0: not full
  std::atomic<std::uint64_t> taken_when_full_ = 0;
  std::array<std::atomic<std::uint64_t>, kWords> waiting_{};  // bit n: port n waits for room
  std::atomic<std::uint64_t> out_discards_ = 0, out_lost_ = 0, out_marked_ = 0;
  std::atomic<std::uint64_t> blocked_ = 0, watchdog_ = 0;
  std::atomic<std::uint64_t> random_;
};

class Switch {
 public:
  static constexpr unsigned kMaxPorts = 256;
  // A port whose queue stays full for this long, in ns, while it takes no frame, blocks no more
  // senders until it takes one. Shorter than a sender's patience (runner::Limits::tx_patience).
  static constexpr std::uint64_t kWatchdog = 200'000'000;
  // Addresses are forgotten after this many seconds without a frame from them.
  static constexpr std::uint32_t kAge = 300;
  // Addresses that one port may have: more are not learned, and frames to them are flooded.
  static constexpr unsigned kMaxAddresses = 256;

  // Called for each frame that enters the switch.
  using Tap = std::function<void(const Port& from, std::span<const std::byte> frame, std::uint64_t time)>;

  Switch();
  // One thread adds and removes ports, and may do so while others send. Throws std::length_error if there
  // are kMaxPorts.
  Port& add(std::string name, PortUser& user, std::size_t queue_size);
  // After the user's thread has ended. Threads that send may still call the user, until each of them has
  // returned from send(), wake_receivers() and release().
  static void leave(Port& port);
  // After that: a later user may have the port.
  static void remove(Port& port);
  // Those that were removed included, which have no name. For the thread that adds them.
  [[nodiscard]] std::deque<Port>& ports() { return storage_; }
  // Before any thread sends.
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  // The clock of the watchdog, for tests: a frame that is offered again keeps its time.
  void set_clock(std::function<std::uint64_t()> clock) { clock_ = std::move(clock); }

  // The port that frames to an address leave through, for tests: null if it is not known.
  [[nodiscard]] const Port* find(std::span<const std::byte, 6> mac, std::uint16_t vlan) const;

 private:
  friend class Port;
  static constexpr std::size_t kEntries = 8192;
  static constexpr std::size_t kProbes = 8;
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Entry {
    std::atomic<std::uint64_t> key = 0;  // vlan and address; 0: free
    std::atomic<std::uint32_t> port = kNone;
    std::atomic<std::uint32_t> seen = 0;  // in seconds
  };

  [[nodiscard]] Entry* lookup(std::uint64_t key) const;
  void forget(unsigned port);
  void learn(std::uint64_t key, unsigned port, std::uint32_t seconds);
  Port::Sent send(Port& from, Port::Passing& passing);
  Port::Sent flood(Port& from, const Port::Passing& frame);

  [[nodiscard]] Port& at(std::size_t number) const { return *ports_[number].load(std::memory_order_acquire); }

  std::deque<Port> storage_;
  std::array<std::atomic<Port*>, kMaxPorts> ports_{};
  std::atomic<unsigned> count_ = 0;
  Tap tap_;
  std::function<std::uint64_t()> clock_;
  std::mutex learning_;
  std::unique_ptr<std::array<Entry, kEntries>> entries_;
  std::array<std::atomic<unsigned>, kMaxPorts> learned_{};
};

// Removes a port with its user.
struct RemovePort {
  void operator()(Port* port) const { Switch::remove(*port); }
};
using OwnedPort = std::unique_ptr<Port, RemovePort>;

}  // namespace tern::daemon
