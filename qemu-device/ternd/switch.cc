// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "clock.h"
#include "frame.h"

namespace tern::daemon {

namespace {

constexpr std::size_t kHeader = 14;
constexpr std::uint16_t kVlanMask = 0xfff;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr auto kRelaxed = std::memory_order_relaxed;

std::uint64_t get48(std::span<const std::byte> from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 6; ++i) value = value << 8 | std::to_integer<std::uint64_t>(from[i]);
  return value;
}

// Never 0 for a station's address.
std::uint64_t key_of(std::uint64_t mac, std::uint16_t vlan) { return std::uint64_t{vlan} << 48 | mac; }

// One writer at a time.
void count(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) { counter.store(counter.load(kRelaxed) + n, kRelaxed); }
// Several writers.
void add(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) { counter.fetch_add(n, kRelaxed); }

// From 0 to below 1. Senders may draw the same number: it is still a random one.
double draw(std::atomic<std::uint64_t>& state) {
  std::uint64_t x = state.load(kRelaxed);
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  state.store(x, kRelaxed);
  return static_cast<double>(x >> 11) * 0x1p-53;
}

}  // namespace

// ---- a port ----

Port::Port(Switch& owner, unsigned number, std::string name, PortUser& user, std::size_t queue_size)
    : switch_(owner), number_(number), name_(std::move(name)), user_(&user), queue_size_(queue_size), queue_(queue_size),
      limit_(PortPolicy{}.queue), random_(0x9e3779b97f4a7c15 * (number + 1)) {
  policy_.queue = std::min<std::uint64_t>(policy_.queue, queue_size_);
  limit_ = policy_.queue;
}

NoUser& NoUser::instance() {
  static NoUser user;
  return user;
}

// For the next user: as new.
void Port::begin(std::string name, PortUser& user) {
  for (auto* const counter : {&in_frames_, &in_bytes_, &in_discards_, &out_frames_, &out_bytes_, &out_discards_, &out_lost_, &out_marked_,
                              &blocked_, &watchdog_, &taken_, &full_since_, &taken_when_full_}) {
    counter->store(0, kRelaxed);
  }
  wire_free_ = front_due_ = 0;
  flooding_ = nullptr;
  receivers_ = {};
  set_policy({});
  name_ = std::move(name);
  user_.store(&user, std::memory_order_release);
}

// Frames that wait belong to nobody. Senders that wait for room get it.
void Port::end() {
  while (!queue_.front().bytes.empty()) discard();
  release();
  name_.clear();
}

void Port::set_link(bool up) {
  if (link_.exchange(up) == up || up) return;
  switch_.forget(number_);
}

void Port::set_policy(const PortPolicy& policy) {
  const std::lock_guard lock(policy_mutex_);
  policy_ = policy;
  policy_.queue = std::clamp<std::uint64_t>(policy.queue, 2 * EgressQueue::kFrameMax, queue_size_);
  limit_.store(policy_.queue, kRelaxed);
  drop_.store(policy_.drop, kRelaxed);
  shaped_.store(policy_.rate != 0 || policy_.delay != 0, kRelaxed);
  chance_.store(policy_.red_max != 0 || policy_.loss > 0, kRelaxed);
  vlan_.store(policy_.vlan & kVlanMask, kRelaxed);
}

PortPolicy Port::policy() const {
  const std::lock_guard lock(policy_mutex_);
  return policy_;
}

PortCounters Port::counters() const {
  return {in_frames_.load(kRelaxed),  in_bytes_.load(kRelaxed),     in_discards_.load(kRelaxed), out_frames_.load(kRelaxed),
          out_bytes_.load(kRelaxed),  out_discards_.load(kRelaxed), out_lost_.load(kRelaxed),    out_marked_.load(kRelaxed),
          blocked_.load(kRelaxed),    watchdog_.load(kRelaxed)};
}

// Whether the queue has been full for so long that senders no longer wait for it.
bool Port::stuck(std::uint64_t now) {
  const std::uint64_t taken = taken_.load(kRelaxed);
  const std::uint64_t since = full_since_.load(kRelaxed);
  if (since == 0 || taken != taken_when_full_.load(kRelaxed)) {
    taken_when_full_.store(taken, kRelaxed);
    full_since_.store(now, kRelaxed);
    return false;
  }
  return now > since && now - since > Switch::kWatchdog;
}

Port::Sent Port::full(Port& from) {
  if (drop_.load(kRelaxed)) {
    add(out_discards_);
    return Sent::kTaken;
  }
  const std::uint64_t now = switch_.clock_();
  if (stuck(now)) {
    if (now - full_since_.load(kRelaxed) < 2 * Switch::kWatchdog) add(watchdog_);
    add(out_discards_);
    return Sent::kTaken;
  }
  waiting_[from.number_ / 64].fetch_or(std::uint64_t{1} << from.number_ % 64, std::memory_order_seq_cst);
  add(blocked_);
  // The user's thread may have made room just before it could see who waits.
  if (queue_.length() == 0) release();  // NOLINT(readability-container-size-empty): empty() is for the consumer
  return Sent::kBlocked;
}

Port::Sent Port::offer(Port& from, const Passing& frame) {
  if (!link_.load(kRelaxed)) {
    add(out_discards_);
    return Sent::kTaken;
  }
  const std::uint16_t access = vlan_.load(kRelaxed);
  TagChange tag;
  if (access != 0) {
    if (access != frame.vlan) return Sent::kTaken;
    if (frame.tagged) tag.kind = TagChange::Kind::kStrip;
  } else if (frame.vlan != 0 && !frame.tagged) {
    tag = {TagChange::Kind::kInsert, frame.vlan};
  }
  bool mark = false;
  if (chance_.load(kRelaxed)) {
    const PortPolicy policy = this->policy();
    if (policy.loss > 0 && draw(random_) < policy.loss) {
      add(out_lost_);
      return Sent::kTaken;
    }
    const auto length = static_cast<double>(queue_.length());
    if (policy.red_max != 0 && length > static_cast<double>(policy.red_min)) {
      const auto min = static_cast<double>(policy.red_min);
      const auto max = static_cast<double>(policy.red_max);
      mark = length >= max || draw(random_) < policy.red_probability * (length - min) / (max - min);
    }
    if (mark && !is_ecn_capable(frame.bytes)) {
      add(out_discards_);
      return Sent::kTaken;
    }
  }
  const auto limit = static_cast<std::size_t>(limit_.load(kRelaxed));
  if (!queue_.put(frame.bytes, tag, frame.time, limit, mark, frame.batch)) return full(from);
  if (mark) add(out_marked_);
  from.receivers_[number_ / 64] |= std::uint64_t{1} << number_ % 64;
  return Sent::kTaken;
}

std::span<const std::byte> Port::front(std::uint64_t now, std::uint64_t* due) {
  const EgressQueue::Frame frame = queue_.front();
  if (frame.bytes.empty()) return {};
  if (shaped_.load(kRelaxed)) [[unlikely]] {
    if (front_due_ == 0) {
      const PortPolicy policy = this->policy();
      std::uint64_t sent = frame.time;
      if (policy.rate != 0) {
        const auto bits = static_cast<double>(frame.bytes.size() * 8);
        sent = std::max(sent, wire_free_) + static_cast<std::uint64_t>(bits * 1e9 / static_cast<double>(policy.rate));
        wire_free_ = sent;
      }
      front_due_ = sent + policy.delay;
    }
    if (front_due_ > now) {
      if (due != nullptr) *due = front_due_;
      return {};
    }
  }
  return frame.bytes;
}

void Port::pop() {
  const EgressQueue::Frame frame = queue_.front();
  count(out_frames_);
  count(out_bytes_, frame.bytes.size());
  count(taken_);
  front_due_ = 0;
  queue_.pop();
}

void Port::discard() {
  add(out_discards_);
  count(taken_);
  front_due_ = 0;
  queue_.pop();
}

Port::Sent Port::send(std::span<const std::byte> frame, std::uint64_t now, TernEffects* batch) {
  Passing passing{.bytes = frame, .batch = batch, .time = now};
  return switch_.send(*this, passing);
}

void Port::wake_receivers() {
  for (std::size_t word = 0; word < kWords; ++word) {
    for (std::uint64_t ports = std::exchange(receivers_[word], 0); ports != 0; ports &= ports - 1) {
      Port& port = switch_.at(word * 64 + static_cast<std::size_t>(std::countr_zero(ports)));
      port.queue_.publish();
      port.user_.load(std::memory_order_acquire)->frames_wait();
    }
  }
}

void Port::release() {
  if (full_since_.load(kRelaxed) != 0) full_since_.store(0, kRelaxed);
  for (std::size_t word = 0; word < kWords; ++word) {
    if (waiting_[word].load(std::memory_order_seq_cst) == 0) continue;
    if (queue_.length() > limit_.load(kRelaxed) / 2) return;
    std::uint64_t ports = waiting_[word].exchange(0, std::memory_order_seq_cst);
    for (; ports != 0; ports &= ports - 1) {
      const auto number = word * 64 + static_cast<std::size_t>(std::countr_zero(ports));
      switch_.at(number).user_.load(std::memory_order_acquire)->room();
    }
  }
}

// ---- the switch ----

Switch::Switch() : clock_([] { return clock_ns(); }), entries_(std::make_unique<std::array<Entry, kEntries>>()) {}

Port& Switch::add(std::string name, PortUser& user, std::size_t queue_size) {
  for (Port& port : storage_) {
    if (!port.name_.empty() || port.queue_size_ != queue_size) continue;
    port.begin(std::move(name), user);
    return port;
  }
  const auto number = static_cast<unsigned>(storage_.size());
  if (number == kMaxPorts) throw std::length_error("a switch has at most 256 ports");
  Port& port = storage_.emplace_back(*this, number, std::move(name), user, queue_size);
  ports_[number].store(&port, std::memory_order_release);
  count_.store(number + 1, std::memory_order_release);
  return port;
}

void Switch::leave(Port& port) {
  port.set_link(false);
  port.user_.store(&NoUser::instance(), std::memory_order_release);
}

void Switch::remove(Port& port) {
  leave(port);
  port.end();
}

Switch::Entry* Switch::lookup(std::uint64_t key) const {
  std::uint64_t hash = key * 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i < kProbes; ++i) {
    Entry& entry = (*entries_)[((hash >> 32) + i) % kEntries];
    if (entry.key.load(std::memory_order_acquire) == key) return &entry;
  }
  return nullptr;
}

void Switch::learn(std::uint64_t key, unsigned port, std::uint32_t seconds) {
  if (Entry* const entry = lookup(key); entry != nullptr && entry->port.load(kRelaxed) == port) {
    if (entry->seen.load(kRelaxed) != seconds) entry->seen.store(seconds, kRelaxed);
    return;
  }
  const std::lock_guard lock(learning_);
  if (Entry* const entry = lookup(key)) {
    // The station has moved.
    const std::uint32_t before = entry->port.load(kRelaxed);
    if (before != kNone) learned_[before].fetch_sub(1, kRelaxed);
    learned_[port].fetch_add(1, kRelaxed);
    entry->port.store(port, kRelaxed);
    entry->seen.store(seconds, kRelaxed);
    return;
  }
  if (learned_[port].load(kRelaxed) >= kMaxAddresses) return;
  const std::uint64_t hash = key * 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i < kProbes; ++i) {
    Entry& entry = (*entries_)[((hash >> 32) + i) % kEntries];
    const std::uint32_t before = entry.port.load(kRelaxed);
    if (before != kNone && seconds - entry.seen.load(kRelaxed) <= kAge) continue;
    if (before != kNone) learned_[before].fetch_sub(1, kRelaxed);
    learned_[port].fetch_add(1, kRelaxed);
    // A reader between these stores floods a frame, or sends it to a port that drops it.
    entry.port.store(port, kRelaxed);
    entry.seen.store(seconds, kRelaxed);
    entry.key.store(key, std::memory_order_release);
    return;
  }
}

void Switch::forget(unsigned port) {
  const std::lock_guard lock(learning_);
  for (Entry& entry : *entries_) {
    if (entry.port.load(kRelaxed) == port) entry.port.store(kNone, kRelaxed);
  }
  learned_[port].store(0, kRelaxed);
}

const Port* Switch::find(std::span<const std::byte, 6> mac, std::uint16_t vlan) const {
  const Entry* const entry = lookup(key_of(get48(mac), vlan));
  const std::uint32_t port = entry == nullptr ? kNone : entry->port.load(kRelaxed);
  return port == kNone ? nullptr : &at(port);
}

Port::Sent Switch::flood(Port& from, const Port::Passing& frame) {
  // A frame that was blocked goes on with the port that blocked it.
  unsigned next = frame.bytes.data() == from.flooding_ && frame.time == from.flooding_time_ ? from.flooded_ : 0;
  for (const unsigned count = count_.load(std::memory_order_acquire); next < count; ++next) {
    Port& port = at(next);
    if (&port == &from || !port.link_.load(kRelaxed)) continue;
    if (port.offer(from, frame) == Port::Sent::kBlocked) {
      from.flooding_ = frame.bytes.data();
      from.flooding_time_ = frame.time;
      from.flooded_ = next;
      return Port::Sent::kBlocked;
    }
  }
  from.flooding_ = nullptr;
  return Port::Sent::kTaken;
}

Port::Sent Switch::send(Port& from, Port::Passing& passing) {
  const std::span<const std::byte> frame = passing.bytes;
  if (!from.link_.load(kRelaxed) || frame.size() < kHeader || frame.size() + kTag > EgressQueue::kFrameMax) {
    count(from.in_discards_);
    return Port::Sent::kTaken;
  }
  passing.tagged = frame.size() >= kHeader + kTag && get16(frame, kMacs) == kVlanTpid;
  const std::uint16_t access = from.vlan_.load(kRelaxed);
  std::uint16_t vlan = passing.tagged ? get16(frame, kMacs + 2) & kVlanMask : access;
  if (access != 0 && passing.tagged) {
    // An access port has no tagged frames of other VLANs; a priority tag belongs to the port's.
    if (vlan != 0 && vlan != access) {
      count(from.in_discards_);
      return Port::Sent::kTaken;
    }
    vlan = access;
  }
  passing.vlan = vlan;
  const std::uint64_t to = get48(frame);
  const std::uint64_t source = get48(frame.subspan(6));
  constexpr std::uint64_t kGroup = std::uint64_t{1} << 40;
  const auto seconds = static_cast<std::uint32_t>(passing.time / kSecond);
  if ((source & kGroup) == 0 && source != 0) learn(key_of(source, vlan), from.number_, seconds);

  Port::Sent sent = Port::Sent::kTaken;
  const Entry* const entry = (to & kGroup) != 0 ? nullptr : lookup(key_of(to, vlan));
  const bool fresh = entry != nullptr && seconds - entry->seen.load(kRelaxed) <= kAge;
  const std::uint32_t number = fresh ? entry->port.load(kRelaxed) : kNone;
  if (number == kNone) {
    sent = flood(from, passing);
  } else if (number != from.number_) {
    sent = at(number).offer(from, passing);
  }
  if (sent == Port::Sent::kBlocked) return sent;
  count(from.in_frames_);
  count(from.in_bytes_, frame.size());
  if (tap_) tap_(from, frame, passing.time);
  return sent;
}

}  // namespace tern::daemon
