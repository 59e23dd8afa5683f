// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "clock.h"
#include "frames/bytes.h"
#include "frames/ecn.h"
#include "frames/ethernet.h"
#include "frames/layout.h"
#include "wire/codec.h"
#include "wire/train.h"

namespace tern::daemon {

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr auto kRelaxed = std::memory_order_relaxed;

// Returns a key that is never 0 for a station's address.
std::uint64_t key_of(std::uint64_t mac, std::uint16_t vlan) {
  return std::uint64_t{vlan} << 48 | mac;
}

// For counters with one writer at a time.
void count(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) {
  counter.store(counter.load(kRelaxed) + n, kRelaxed);
}
// For counters with several writers.
void add(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) {
  counter.fetch_add(n, kRelaxed);
}

// Returns a number in [0, 1). Senders may draw the same number: it is still random.
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

Port::Port(Switch& owner, unsigned number, std::string name, PortUser& user, std::size_t queue_size,
           Kind kind)
    : switch_(owner),
      number_(number),
      name_(std::move(name)),
      kind_(kind),
      user_(&user),
      queue_size_(queue_size),
      queue_(queue_size),
      limit_(PortPolicy{}.queue),
      random_(0x9e3779b97f4a7c15 * (number + 1)) {
  policy_.queue = std::min<std::uint64_t>(policy_.queue, queue_size_);
  limit_ = policy_.queue;
  lanes_[0] = this;
}

NoUser& NoUser::instance() {
  static NoUser user;
  return user;
}

// Resets the port for its next user.
void Port::begin(std::string name, PortUser& user, Kind kind) {
  for (auto* const counter : {&in_frames_, &in_bytes_, &in_discards_, &out_frames_, &out_bytes_,
                              &out_discards_, &out_lost_, &out_marked_, &blocked_, &watchdog_,
                              &taken_, &full_since_, &taken_when_full_, &stuck_since_}) {
    counter->store(0, kRelaxed);
  }
  wire_free_ = front_due_ = 0;
  blocked_frame_ = divided_.frame = nullptr;
  receivers_ = {};
  receiver_words_ = 0;
  lane_count_.store(1, std::memory_order_release);
  zero_copy_.store(false, kRelaxed);
  kind_.store(kind, kRelaxed);
  set_policy({});
  name_ = std::move(name);
  user_.store(&user, std::memory_order_release);
}

// Drops waiting frames, and resumes senders that wait for space.
void Port::end() {
  while (!queue_.front().frame.empty()) discard();
  release();
  name_.clear();
}

void Port::set_link(bool up) {
  if (link_.exchange(up) == up || up) return;
  switch_.forget(number_);
}

void Port::set_policy(const PortPolicy& policy) {
  std::unique_lock lock(policy_mutex_);
  const bool changed = policy.rate != policy_.rate || policy.delay != policy_.delay;
  policy_ = policy;
  policy_.queue = std::clamp<std::uint64_t>(policy.queue, 2 * EgressQueue::kFrameMax, queue_size_);
  limit_.store(policy_.queue, kRelaxed);
  drop_.store(policy_.drop, kRelaxed);
  shaped_.store(policy_.rate != 0 || policy_.delay != 0, kRelaxed);
  chance_.store(policy_.red_max != 0 || policy_.loss > 0, kRelaxed);
  vlan_.store(policy_.vlan & frames::kVlanMask, kRelaxed);
  if (!changed) return;
  changes_.fetch_add(1, std::memory_order_release);
  lock.unlock();
  user_.load(std::memory_order_acquire)->due_changed();
}

PortPolicy Port::policy() const {
  const std::lock_guard lock(policy_mutex_);
  return policy_;
}

PortCounters Port::counters() const {
  PortCounters sum{};
  for (const Port* const p : lanes()) {
    sum.in_frames += p->in_frames_.load(kRelaxed);
    sum.in_bytes += p->in_bytes_.load(kRelaxed);
    sum.in_discards += p->in_discards_.load(kRelaxed);
    sum.out_frames += p->out_frames_.load(kRelaxed);
    sum.out_bytes += p->out_bytes_.load(kRelaxed);
    sum.out_discards += p->out_discards_.load(kRelaxed);
    sum.out_lost += p->out_lost_.load(kRelaxed);
    sum.out_marked += p->out_marked_.load(kRelaxed);
    sum.blocked += p->blocked_.load(kRelaxed);
    sum.watchdog += p->watchdog_.load(kRelaxed);
  }
  return sum;
}

std::size_t Port::queue_length() const {
  std::size_t sum = 0;
  for (const Port* const p : lanes()) sum += p->queue_.length();
  return sum;
}

// Whether the queue has been full for so long that senders stop waiting for it.
bool Port::stuck(std::uint64_t now) {
  const std::uint64_t taken = taken_.load(kRelaxed);
  const std::uint64_t since = full_since_.load(kRelaxed);
  if (since == 0 || taken != taken_when_full_.load(kRelaxed)) {
    taken_when_full_.store(taken, kRelaxed);
    full_since_.store(now, kRelaxed);
    return false;
  }
  if (now <= since || now - since <= Switch::kWatchdog) return false;
  if (stuck_since_.exchange(since, kRelaxed) != since) add(watchdog_);
  return true;
}

// `to`: the lane with the queue.
Port::Outcome Port::full(Port& to, Port& from, const Passing& passing, Fate fate) const {
  const bool drops = drop_.load(kRelaxed) && passing.lane == nullptr;
  if (!passing.may_block || drops) {
    add(to.out_discards_, passing.frame.train);
    return Outcome::kTaken;
  }
  const std::uint64_t now = switch_.clock_();
  if (to.stuck(now)) {
    add(to.out_discards_, passing.frame.train);
    return Outcome::kTaken;
  }
  to.waiting_[from.number_ / 64].fetch_or(std::uint64_t{1} << from.number_ % 64,
                                          std::memory_order_seq_cst);
  to.any_waits_.fetch_or(1, std::memory_order_seq_cst);
  add(to.blocked_);
  from.blocked_frame_ = passing.frame.bytes.data();
  from.blocked_time_ = passing.time;
  from.blocked_fate_ = fate;
  // The user's thread may have made space just before it could see who waits.
  if (to.queue_.length() == 0)
    to.release();  // NOLINT(readability-container-size-empty): empty() is for the consumer
  return Outcome::kBlocked;
}

// Decides by loss and RED. Drawn once for each frame, however often it is blocked.
Port::Fate Port::fate(Port& from, const Passing& passing) {
  if (passing.may_block &&
      std::exchange(from.blocked_frame_, nullptr) == passing.frame.bytes.data() &&
      from.blocked_time_ == passing.time) {
    return from.blocked_fate_;
  }
  const PortPolicy policy = this->policy();
  if (policy.loss > 0 && draw(random_) < policy.loss) {
    add(out_lost_);
    return Fate::kLose;
  }
  const auto length = static_cast<double>(queue_.length());
  const auto min = static_cast<double>(policy.red_min);
  const auto max = static_cast<double>(policy.red_max);
  if (policy.red_max == 0 || length <= min) return Fate::kPass;
  if (length < max && draw(random_) >= policy.red_probability * (length - min) / (max - min))
    return Fate::kPass;
  if (frames::is_ecn_capable(passing.frame.bytes)) return Fate::kMark;
  add(out_discards_);
  return Fate::kLose;
}

// Whether a train may leave through the port as it is. Policies decide about each packet.
bool Port::takes_whole(const Passing& passing, const FrameChange& change) const {
  // Shorter frames may take the space that a long one waits for.
  const std::size_t size = passing.frame.size();
  const bool fits = size >= EgressQueue::kLong && 4 * size <= limit_.load(kRelaxed);
  return fits && kind_.load(kRelaxed) == Kind::kGuest && !change.any() && !chance_.load(kRelaxed) &&
         !shaped_.load(kRelaxed) && !drop_.load(kRelaxed) && passing.batch != nullptr &&
         passing.batch->can_hold();
}

Port::Outcome Port::offer(Port& from, const Passing& passing) {
  // Acquire: a port that was an adapter's may be an uplink's since its link is up.
  if (!link_.load(std::memory_order_acquire)) {
    add(out_discards_, passing.frame.train);
    return Outcome::kTaken;
  }
  const std::uint16_t access = vlan_.load(kRelaxed);
  FrameChange change;
  if (access != 0) {
    if (access != passing.vlan) return Outcome::kTaken;
    if (passing.tagged) change.tag.kind = TagChange::Kind::kStrip;
  } else if (passing.vlan != 0 && !passing.tagged) {
    change.tag = {TagChange::Kind::kInsert, passing.vlan};
  }
  const bool train = passing.frame.train > 1;
  if (train && !takes_whole(passing, change)) return Outcome::kDivide;
  const Fate fate = !train && chance_.load(kRelaxed) ? this->fate(from, passing) : Fate::kPass;
  if (fate == Fate::kLose) return Outcome::kTaken;
  if (passing.frame.payload != nullptr && !zero_copy_.load(kRelaxed))
    passing.frame.payload->unshare();
  change.congestion = fate == Fate::kMark;
  change.icrc = !passing.frame.finished() && kind_.load(kRelaxed) == Kind::kUplink;
  return put(lane_for(passing.frame), from, passing, change, fate);
}

Port::Outcome Port::offer_lane(Port& from, const Passing& passing) {
  if (passing.frame.train > 1 && !takes_whole(passing, {})) return Outcome::kDivide;
  return put(*passing.lane, from, passing, {}, Fate::kPass);
}

// The lane whose queue gets a frame. Policies see all frames in one queue.
Port& Port::lane_for(const WireFrame& frame) {
  if (lane_count_.load(std::memory_order_acquire) == 1 || shaped_.load(kRelaxed) ||
      chance_.load(kRelaxed)) [[likely]]
    return *this;
  return *lanes_.at(user_.load(std::memory_order_acquire)->lane_of(frame.bytes)).load(kRelaxed);
}

Port::Outcome Port::put(Port& to, Port& from, const Passing& passing, FrameChange change,
                        Fate fate) {
  const auto limit = static_cast<std::size_t>(limit_.load(kRelaxed));
  const WireFrame& frame = passing.frame;
  const bool beside = passing.lane != nullptr;
  const bool taken =
      frame.train > 1
          ? to.queue_.put_train(frame, passing.bytes, passing.time, limit, *passing.batch, beside)
          : to.queue_.put(frame, change, passing.time, limit, passing.batch, beside);
  if (!taken) return full(to, from, passing, fate);
  if (change.congestion) add(to.out_marked_);
  from.receivers_[to.number_ / 64] |= std::uint64_t{1} << to.number_ % 64;
  from.receiver_words_ |= std::uint32_t{1} << to.number_ / 64;
  return Outcome::kTaken;
}

WireFrame Port::front(std::uint64_t now, std::uint64_t* due) {
  const auto [frame, time, bytes, beside] = queue_.front();
  if (frame.empty()) return {};
  if (shaped_.load(kRelaxed)) [[unlikely]] {
    const unsigned changes = changes_.load(std::memory_order_acquire);
    // An old rate may have kept the wire busy for hours.
    if (std::exchange(changes_seen_, changes) != changes) front_due_ = wire_free_ = 0;
    if (front_due_ == 0) {
      const PortPolicy policy = this->policy();
      std::uint64_t sent = time;
      if (policy.rate != 0) {
        const auto bits = static_cast<double>(bytes * 8);
        sent = std::max(sent, wire_free_) +
               static_cast<std::uint64_t>(bits * 1e9 / static_cast<double>(policy.rate));
        wire_free_ = sent;
      }
      front_due_ = sent + policy.delay;
    }
    if (front_due_ > now) {
      if (due != nullptr) *due = front_due_;
      return {};
    }
  }
  return frame;
}

void Port::pop() {
  const EgressQueue::Waiting front = queue_.front();
  if (!front.beside) {
    count(out_frames_, front.frame.train);
    count(out_bytes_, front.bytes);
  }
  count(taken_);
  front_due_ = 0;
  queue_.pop();
}

void Port::discard() {
  add(out_discards_, queue_.front().frame.train);
  count(taken_);
  front_due_ = 0;
  queue_.pop();
}

Port::Sent Port::send_to_lane(unsigned lane, const WireFrame& frame, std::uint64_t now,
                              EffectsBatch* batch) {
  return send({.frame = frame,
               .batch = batch,
               .time = now,
               .bytes = frame.bytes.size(),
               .lane = first_->lanes_.at(lane).load(kRelaxed)});
}

Port::Sent Port::send_one(Passing passing) {
  return switch_.send(*this, passing) == Outcome::kBlocked ? Sent::kBlocked : Sent::kTaken;
}

namespace {

// Writes a packet of a train to `out` and returns it as a frame.
WireFrame packet_of(const Train& train, std::uint32_t i, std::span<std::byte> out) {
  train.write(i, out, Icrc::kDeferred);
  return {out, Icrc::kDeferred};
}

WireFrame packet_of(const frames::TcpTrain& train, std::uint32_t i, std::span<std::byte> out) {
  train.write(i, out);
  return {out};
}

}  // namespace

// Sends a train, or its packets one by one if its destination does not take it. If a packet is
// blocked, the next call goes on with it.
template <class T>
Port::Sent Port::divide(Passing passing, const std::optional<T>& train) {
  const WireFrame frame = passing.frame;
  const std::uint64_t now = passing.time;
  if (!train) {
    count(in_discards_, frame.train);
    return Sent::kTaken;
  }
  if (divided_.frame != frame.bytes.data() || divided_.time != now) {
    divided_.frame = nullptr;
    passing.bytes = train->bytes();
    const Outcome outcome = switch_.send(*this, passing);
    divided_.last = outcome == Outcome::kDivide;
    if (outcome == Outcome::kTaken) return Sent::kTaken;
    if (outcome == Outcome::kBlocked) return Sent::kBlocked;
    divided_.frame = frame.bytes.data();
    divided_.time = now;
    divided_.next = 0;
  }
  for (; divided_.next < train->packets(); ++divided_.next) {
    const auto packet = std::span(divided_.packet).first(train->bytes(divided_.next));
    Passing one{.frame = packet_of(*train, divided_.next, packet),
                .batch = nullptr,
                .time = now,
                .bytes = packet.size()};
    one.frame.inside = frame.inside;
    one.may_block = passing.may_block;
    one.lane = passing.lane;
    if (send_one(one) == Sent::kBlocked) return Sent::kBlocked;
  }
  divided_.frame = nullptr;
  return Sent::kTaken;
}

Port::Sent Port::send_train(const Passing& passing) {
  const auto& [bytes, icrc, train, mss, inside, payload] = passing.frame;
  return mss != 0 ? divide(passing, frames::TcpTrain::parse(bytes, train, mss))
                  : divide(passing, Train::parse(passing.frame));
}

void Port::wake_receivers() {
  for (std::uint32_t words = std::exchange(receiver_words_, 0); words != 0; words &= words - 1) {
    const auto word = static_cast<std::size_t>(std::countr_zero(words));
    for (std::uint64_t ports = std::exchange(receivers_[word], 0); ports != 0; ports &= ports - 1) {
      Port& port = switch_.at(word * 64 + static_cast<std::size_t>(std::countr_zero(ports)));
      port.queue_.publish();
      port.user_.load(std::memory_order_acquire)->frames_wait();
    }
  }
}

void Port::release() {
  if (full_since_.load(kRelaxed) != 0) full_since_.store(0, kRelaxed);
  // A read-modify-write: the positions of frames taken are stored before it, so a sender that it
  // misses sees them.
  if (any_waits_.fetch_or(0, std::memory_order_seq_cst) == 0) return;
  if (queue_.length() > first_->limit_.load(kRelaxed) / 2) return;
  any_waits_.store(0, std::memory_order_seq_cst);
  for (std::size_t word = 0; word < kWords; ++word) {
    std::uint64_t ports = waiting_[word].exchange(0, std::memory_order_seq_cst);
    for (; ports != 0; ports &= ports - 1) {
      const auto number = word * 64 + static_cast<std::size_t>(std::countr_zero(ports));
      switch_.at(number).user_.load(std::memory_order_acquire)->room();
    }
  }
}

// ---- the switch ----

namespace {

// Whether more than `seconds` have passed. The times are those of frames, which are not in order.
bool later(std::uint32_t now, std::uint32_t before, std::uint32_t seconds) {
  return static_cast<std::int32_t>(now - before) > static_cast<std::int32_t>(seconds);
}

std::uint64_t random_seed() {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) std::abort();
  return value;
}

}  // namespace

Switch::Switch()
    : clock_([] { return clock_ns(); }),
      seed_(random_seed()),
      table_(std::make_unique<std::array<Bucket, kBuckets>>()) {
  for (unsigned i = 0; i < kMaxQueues; ++i) stations_[i].owner = kMaxQueues + i;
}

// Uses a port of `storage` again, or makes one there. Throws std::length_error with `error` beyond
// `most`.
Port& Switch::make(std::deque<Port>& storage, unsigned most, const char* error, std::string name,
                   PortUser& user, std::size_t queue_size, Port::Kind kind) {
  for (Port& port : storage) {
    if (!port.name_.empty() || port.queue_size_ != queue_size) continue;
    port.begin(std::move(name), user, kind);
    return port;
  }
  if (storage.size() == most) throw std::length_error(error);
  const unsigned number = count_.load(kRelaxed);
  Port& port = storage.emplace_back(*this, number, std::move(name), user, queue_size, kind);
  ports_[number].store(&port, std::memory_order_release);
  count_.store(number + 1, std::memory_order_release);
  return port;
}

Port& Switch::add(std::string name, PortUser& user, std::size_t queue_size, Port::Kind kind) {
  return make(storage_, kMaxPorts, "a switch has at most 256 ports", std::move(name), user,
              queue_size, kind);
}

Port& Switch::add_lane(Port& port, PortUser& user) {
  const unsigned number = port.lane_count_.load(kRelaxed);
  Port& lane = make(lanes_, kMaxLanePorts, "the adapters of a switch have at most 768 more lanes",
                    port.name_, user, port.queue_size_, Port::Kind::kGuest);
  lane.first_ = &port;
  port.lanes_.at(number).store(&lane, kRelaxed);
  port.lane_count_.store(number + 1, std::memory_order_release);
  return lane;
}

void Switch::leave(Port& port) {
  port.set_link(false);
  // Other ports must not resume a later user either, which may be incomplete.
  Switch& owner = port.switch_;
  const unsigned count = owner.count_.load(std::memory_order_acquire);
  for (Port* const lane : port.lanes()) {
    lane->user_.store(&NoUser::instance(), std::memory_order_release);
    for (unsigned i = 0; i < count; ++i) {
      owner.at(i).waiting_[lane->number_ / 64].fetch_and(~(std::uint64_t{1} << lane->number_ % 64),
                                                         std::memory_order_relaxed);
    }
  }
}

void Switch::remove(Port& port) {
  leave(port);
  for (Port* const lane : port.lanes()) lane->end();
}

// Mixes all bits of the seed into all bits: without the seed, nobody can find colliding keys.
std::uint64_t Switch::hash(std::uint64_t key) const {
  std::uint64_t x = key ^ seed_;
  for (const std::uint64_t factor : {0xbf58476d1ce4e5b9, 0x94d049bb133111eb}) {
    x = (x ^ x >> 31) * factor;
    x ^= std::rotl(seed_, 32);
  }
  return x ^ x >> 31;
}

// The two buckets that may hold an address.
std::array<Switch::Bucket*, 2> Switch::buckets(std::uint64_t key) const {
  const std::uint64_t x = hash(key);
  return {&(*table_)[x % kBuckets], &(*table_)[(x >> 32) % kBuckets]};
}

Switch::Entry* Switch::lookup(std::uint64_t key) const {
  for (Bucket* const bucket : buckets(key))
    for (Entry& entry : *bucket)
      if (entry.key.load(std::memory_order_acquire) == key) return &entry;
  return nullptr;
}

// Whether frames may use the entry.
bool Switch::usable(const Entry& entry, std::uint64_t owner, std::uint32_t seconds) const {
  return owned(owner) && (at(owner % kMaxQueues).kind_.load(kRelaxed) == Port::Kind::kGuest ||
                          !later(seconds, entry.seen.load(kRelaxed), kAge));
}

const Port* Switch::station(std::uint64_t key, std::uint32_t seconds) const {
  const Entry* const entry = lookup(key);
  if (entry == nullptr) return nullptr;
  const std::uint64_t owner = entry->owner.load(kRelaxed);
  return usable(*entry, owner, seconds) ? &at(owner % kMaxQueues) : nullptr;
}

void Switch::learn(std::uint64_t key, const Port& port, std::uint32_t seconds) {
  Stations& stations = stations_[port.number_];
  Entry* const entry = lookup(key);
  const std::uint64_t owner = entry == nullptr ? 0 : entry->owner.load(kRelaxed);
  if (owner == stations.owner.load(kRelaxed)) {
    if (later(seconds, entry->seen.load(kRelaxed), 0)) entry->seen.store(seconds, kRelaxed);
    return;
  }
  const unsigned most =
      port.kind_.load(kRelaxed) == Port::Kind::kGuest ? kMaxAddresses : kMaxUplinkAddresses;
  if (stations.learned.load(kRelaxed) >= most) {
    stations.more.store(true, kRelaxed);
    // Without the lock: a port that always sends from new addresses would keep it from the others.
    if (later(seconds, stations.swept.load(kRelaxed), kSweep)) sweep(port, seconds);
    if (stations.learned.load(kRelaxed) >= most) {
      // Flooded frames reach the station here.
      if (owned(owner)) forget_station(key);
      return;
    }
  }
  insert(key, port, seconds);
}

// Finds room in the emptier one of an address's buckets. Returns null if both are full.
Switch::Entry* Switch::room(std::uint64_t key, std::uint32_t seconds) const {
  Entry* best = nullptr;
  std::size_t most = 0;
  for (Bucket* const bucket : buckets(key)) {
    Entry* first = nullptr;
    std::size_t free = 0;
    for (Entry& entry : *bucket) {
      if (usable(entry, entry.owner.load(kRelaxed), seconds)) continue;
      if (free++ == 0) first = &entry;
    }
    if (free > most) {
      best = first;
      most = free;
    }
    if (free > kWays / 2) break;  // lookups begin with the first bucket
  }
  return best;
}

void Switch::insert(std::uint64_t key, const Port& port, std::uint32_t seconds) {
  Stations& stations = stations_[port.number_];
  const std::lock_guard lock(learning_);
  Entry* entry = lookup(key);
  if (entry == nullptr) entry = room(key, seconds);
  if (entry == nullptr) {
    stations.more.store(true, kRelaxed);
    return;
  }
  uncount(entry->owner.load(kRelaxed));
  stations.learned.fetch_add(1, kRelaxed);
  // Between these stores a reader takes the address for unknown, or sends a frame to a port that
  // drops it.
  entry->owner.store(stations.owner.load(kRelaxed), kRelaxed);
  entry->seen.store(seconds, kRelaxed);
  entry->key.store(key, std::memory_order_release);
}

void Switch::forget_station(std::uint64_t key) {
  const std::lock_guard lock(learning_);
  Entry* const entry = lookup(key);
  if (entry == nullptr) return;
  uncount(entry->owner.load(kRelaxed));
  entry->owner.store(0, kRelaxed);
}

// Forgets the old addresses of a port.
void Switch::sweep(const Port& port, std::uint32_t seconds) {
  Stations& stations = stations_[port.number_];
  const std::lock_guard lock(learning_);
  stations.swept.store(seconds, kRelaxed);
  for (Bucket& bucket : *table_) {
    for (Entry& entry : bucket) {
      const std::uint64_t owner = entry.owner.load(kRelaxed);
      if (owner != stations.owner.load(kRelaxed) ||
          !later(seconds, entry.seen.load(kRelaxed), kAge))
        continue;
      uncount(owner);
      entry.owner.store(0, kRelaxed);
    }
  }
}

void Switch::forget(unsigned port) {
  Stations& stations = stations_[port];
  const std::lock_guard lock(learning_);
  stations.owner.fetch_add(kMaxQueues);
  stations.learned.store(0, kRelaxed);
  stations.more.store(false, kRelaxed);
  stations.swept.store(0, kRelaxed);
}

const Port* Switch::find(std::span<const std::byte, 6> mac, std::uint16_t vlan) const {
  return station(key_of(frames::get48(mac, 0), vlan),
                 static_cast<std::uint32_t>(clock_() / kSecond));
}

// A guest may receive without ever sending: while its port has no address, it gets frames to
// unknown ones.
void Switch::flood(Port& from, Port::Passing& frame, bool group) {
  frame.may_block = false;
  const unsigned count = count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < count; ++i) {
    Port& port = at(i);
    if (&port == from.first_ || !port.link_.load(kRelaxed)) continue;
    const bool all_known = port.kind_.load(kRelaxed) == Port::Kind::kGuest &&
                           stations_[i].learned.load(kRelaxed) != 0 &&
                           !stations_[i].more.load(kRelaxed);
    if (group || !all_known) port.offer(from, frame);
  }
}

void Switch::show(const Port& from, const Port::Passing& passing) const {
  const auto tap = [&](std::span<const std::byte> frame) { tap_(from, frame, passing.time); };
  if (passing.frame.finished()) return tap(passing.frame.bytes);
  std::array<std::byte, EgressQueue::kFrameMax> storage;
  (void)finish(passing.frame, storage, tap);  // send_train() has parsed it
}

Port::Outcome Switch::send(Port& from, Port::Passing& passing) {
  const Port& first = *from.first_;
  if (passing.lane != nullptr) return from.first_->offer_lane(from, passing);
  const std::span<const std::byte> frame = passing.frame.bytes;
  const bool too_long =
      frame.size() + frames::kTag > EgressQueue::kFrameMax && passing.frame.train == 1;
  if (!first.link_.load(kRelaxed) || frame.size() < frames::kEthernet || too_long) {
    count(from.in_discards_, passing.frame.train);
    return Port::Outcome::kTaken;
  }
  // The tap sees what the receiver gets, even if the guest changes its memory meanwhile.
  if (tap_ && passing.frame.payload != nullptr) passing.frame.payload->unshare();
  passing.tagged = frames::is_tagged(frame);
  const std::uint16_t access = first.vlan_.load(kRelaxed);
  std::uint16_t vlan = passing.tagged ? frames::vlan_of(frame) : access;
  if (access != 0 && passing.tagged) {
    // An access port drops tagged frames of other VLANs; a priority tag belongs to the port's VLAN.
    if (vlan != 0 && vlan != access) {
      count(from.in_discards_, passing.frame.train);
      return Port::Outcome::kTaken;
    }
    vlan = access;
  }
  passing.vlan = vlan;
  const std::uint64_t to = frames::get48(frame, 0);
  const std::uint64_t source = frames::get48(frame, 6);
  constexpr std::uint64_t kGroup = std::uint64_t{1} << 40;
  const auto seconds = static_cast<std::uint32_t>(passing.time / kSecond);
  if ((source & kGroup) == 0 && source != 0) learn(key_of(source, vlan), first, seconds);

  Port::Outcome sent = Port::Outcome::kTaken;
  const bool group = (to & kGroup) != 0;
  const Port* const port = group ? nullptr : station(key_of(to, vlan), seconds);
  if (port == nullptr) {
    if (passing.frame.train > 1) return Port::Outcome::kDivide;
    flood(from, passing, group);
  } else if (port != &first) {
    sent = at(port->number_).offer(from, passing);
  }
  if (sent != Port::Outcome::kTaken) return sent;
  count(from.in_frames_, passing.frame.train);
  count(from.in_bytes_, passing.bytes);
  if (tap_) show(first, passing);
  return sent;
}

}  // namespace tern::daemon
