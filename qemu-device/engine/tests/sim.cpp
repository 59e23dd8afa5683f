// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/sim.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/event_file.h"
#include "wire/codec.h"
#include "wire/train.h"

namespace tern {

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const std::byte b : bytes) h = (h ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3;
  return h;
}

// ---- node ----

namespace {

Config with_dm(Config config, FakeHost& host, std::uint64_t bytes) {
  if (bytes != 0) config.dm = host.make_dm(bytes);
  return config;
}

}  // namespace

SimNode::SimNode(Sim& sim_, const Config& config, std::uint64_t seed, std::uint64_t dm_size)
    : sim(sim_),
      host(seed),
      device(host, with_dm(config, host, dm_size)),
      vectors_raised_(TERN_MAX_VECTORS),
      mailboxes_(device.lanes()) {
  index_ = sim.attach(this);
  const char* const dir = std::getenv("TERN_EVENTS");
  if (!dir) return;
  const std::string number = std::to_string(index_);
  events_ = std::make_unique<EventFile>(
      std::string(dir) + "/" + sim.file_name() + "." + number + ".events", device, "tern" + number);
}

SimNode::~SimNode() {
  if (events_) events_->drain();
  sim.detach(this);
}

unsigned SimNode::take_interrupts(unsigned vector) {
  return std::exchange(vectors_raised_.at(vector), 0U);
}

Nanos SimNode::next_deadline() const {
  Nanos next = kNever;
  for (unsigned i = 0; i < device.lanes(); ++i)
    next = std::min(next, device.lane(i).next_deadline());
  return next;
}

std::uint64_t SimNode::receive(const WireFrame& frame) {
  DataPath& lane = device.lane(device.lane_of(frame.bytes));
  const std::uint64_t cost = device.receive_more(lane, frame);
  device.end_burst(lane);
  return cost;
}

bool SimNode::save_and_load() {
  if (device.datapath.log != nullptr) return false;  // somebody reads its ring
  for (unsigned i = 0; i < device.lanes(); ++i) {
    if (!device.lane(i).effects->empty()) return false;
  }
  std::vector<std::byte> state;
  std::string error;
  EXPECT_TRUE(device.save(state, error)) << error;
  Config config = device.registry.config;
  config.capture = device.port.capture();
  const std::uint64_t share_from = device.datapath.share_from;
  const IcrcMode icrc = device.port.icrc_mode;
  const unsigned cut_large = device.datapath.cut_large;
  const std::size_t plenty = device.datapath.blocks.plenty();
  const std::uint64_t seed = host.seed();
  std::destroy_at(&device);
  std::construct_at(&device, host, config);
  device.port.icrc_mode = icrc;
  if (share_from != Context::kShareNone) device.share_payload(share_from);
  device.cut_large_frames(cut_large);
  device.datapath.blocks.set_plenty(plenty);
  EXPECT_TRUE(device.load(state, error)) << error;
  std::vector<std::byte> again;
  EXPECT_TRUE(device.save(again, error)) << error;
  EXPECT_EQ(again, state) << "a loaded device has another state";
  // The new device has used some.
  host.set_seed(seed);
  return true;
}

bool SimNode::run_lane(unsigned number, std::size_t frames) {
  DataPath& lane = device.lane(number);
  auto& box = mailboxes_[number];
  for (; frames != 0 && !box.empty(); --frames) {
    const LaneFrame frame = std::move(box.front());
    box.pop_front();
    WireFrame wire{frame.bytes, frame.icrc, frame.train};
    wire.mss = frame.mss;
    wire.inside = frame.inside;
    device.receive_more(lane, wire);
  }
  const bool more = device.run(lane, sim.budget);
  collect(lane);
  return more || !box.empty();
}

// With several lanes, each takes some of its frames, and some lanes have no turn.
bool SimNode::run_once() {
  run_lanes();
  if (sim.saves() != 0 && ++runs_ >= sim.saves() && save_and_load()) runs_ = 0;
  return busy_;
}

bool SimNode::run_lanes() {
  const unsigned lanes = device.lanes();
  busy_ = false;
  if (lanes == 1) return busy_ = run_lane(0, 0);
  constexpr std::uint64_t kMostFrames = 8;
  const auto first = static_cast<unsigned>(sim.random() % lanes);
  for (unsigned i = 0; i < lanes; ++i) {
    const std::uint64_t chance = sim.random();
    if (chance % 4 == 0) {
      busy_ = true;
    } else {
      busy_ |= run_lane((first + i) % lanes, 1 + (chance >> 8) % kMostFrames);
    }
  }
  const bool enabled = device.registry.status.enabled();
  for (unsigned i = 0; i < lanes; ++i)
    busy_ |= (enabled && device.lane(i).waits()) || !mailboxes_[i].empty();
  return busy_;
}

void SimNode::pump() {
  while (run_once()) {
  }
}

void SimNode::collect(DataPath& lane) {
  if (events_) events_->drain();
  Effects& fx = *lane.effects;
  if (fx.empty()) return;
  const bool shares = std::ranges::any_of(
      fx.frames(), [](const Effects::Frame& f) { return f.payload != nullptr; });
  EffectsBatch* const batch = shares ? lane.take_effects() : nullptr;  // which then has fx
  for (const Effects::Frame& f : fx.frames()) {
    const auto bytes = fx.bytes(f);
    if (sim.pcap_ && f.shown && !f.received && sim.pcap_left_ > 0) {
      --sim.pcap_left_;
      sim.pcap_->frame(sim.now(), bytes);
    }
    if (f.lane != Effects::kNoLane) {
      mailboxes_.at(f.lane).push_back(
          {{bytes.begin(), bytes.end()}, f.icrc, f.train, f.mss, f.inside});
      busy_ = true;
    } else if (f.to_wire) {
      EXPECT_EQ(f.time, host.clock) << "an old time stamp";
      WireFrame frame{bytes, f.icrc, f.train};
      frame.mss = f.mss;
      frame.payload = f.payload;
      sim.stats.trains += f.train > 1;
      std::shared_ptr<Sim::Sharing> sharing;
      if (f.payload != nullptr && batch->hold())
        sharing = std::make_shared<Sim::Sharing>(frame, *batch);
      f.train > 1 && !sim.whole_trains ? sim.send_packets(*this, frame, sharing)
                                       : sim.send(*this, frame, sharing);
    }
  }
  for (unsigned v = 0; v < TERN_MAX_VECTORS; ++v) {
    if (!((fx.vectors()[v / 64] >> (v % 64)) & 1)) continue;
    ++vectors_raised_[v];
    sim.record(TraceEntry::Kind::kInterrupt, index_, v);
  }
  batch != nullptr ? lane.free_effects(batch) : fx.clear();
}

// ---- wire ----

Sim::Sim(std::uint64_t seed) : random_(seed) {
  constexpr std::uint64_t kFrames = 10'000;
  static unsigned count = 0;
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  file_name_ = test ? std::string(test->test_suite_name()) + "." + test->name() : "none";
  std::ranges::replace(file_name_, '/', '_');
  file_name_ += "." + std::to_string(++count);
  if (const char* const saves = std::getenv("TERN_SAVES"))
    saves_ = static_cast<unsigned>(std::strtoul(saves, nullptr, 0));
  if (const char* const dir = std::getenv("TERN_CAPTURES"))
    capture(std::string(dir) + "/" + file_name_ + ".pcap", kFrames);
}

unsigned Sim::attach(SimNode* node) {
  nodes_.push_back(node);
  node->host.clock = now_;
  return static_cast<unsigned>(nodes_.size() - 1);
}

void Sim::detach(SimNode* node) { nodes_[node->index_] = nullptr; }

std::uint64_t Sim::random() {  // splitmix64
  std::uint64_t z = (random_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

bool Sim::chance(double p) { return p > 0 && static_cast<double>(random() >> 11) * 0x1p-53 < p; }

void Sim::record(TraceEntry::Kind kind, unsigned node, std::uint64_t value) {
  if (tracing) trace_.push_back({now_, kind, node, value});
}

// Sends the packets of a train, those of RoCE as frames without ICRC.
void Sim::send_packets(SimNode& from, const WireFrame& made,
                       const std::shared_ptr<Sharing>& sharing) {
  std::vector<std::byte> storage(std::max(made.size(), frames::kMinFrame));
  const Icrc icrc = made.mss == 0 ? Icrc::kDeferred : Icrc::kPresent;
  std::uint32_t packet = 0;
  ASSERT_TRUE(finish(made, storage, [&](std::span<const std::byte> frame) {
    send(from, {frame, icrc}, sharing, packet++);
  }));
}

void Sim::send(SimNode& from, const WireFrame& made, const std::shared_ptr<Sharing>& sharing,
               std::uint32_t packet) {
  ++stats.sent;
  auto bytes = std::make_shared<std::vector<std::byte>>(made.size());
  made.copy_to(*bytes);
  Icrc icrc = made.icrc;
  if (!made.finished() && made.train == 1) write_icrc(*bytes);
  const std::span<const std::byte> frame = *bytes;
  if (tracing) record(TraceEntry::Kind::kSent, from.index_, hash_bytes(frame));
  const auto on_wire =
      static_cast<Nanos>(static_cast<double>((frame.size() + 24) * 8) / wire.bits_per_ns);
  from.tx_free_ = std::max(from.tx_free_, now_) + on_wire;
  if ((pass && !pass(from.index_, frame)) || chance(wire.loss)) {
    ++stats.lost;
    return;
  }
  if (made.train == 1 && chance(wire.corrupt)) {
    ++stats.corrupted;
    icrc = Icrc::kPresent;
    const std::uint64_t bit = random() % (bytes->size() * 8);
    (*bytes)[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  Nanos when = from.tx_free_ + wire.latency;
  const InFlight flying{.time = when,
                        .order = 0,
                        .from = from.index_,
                        .bytes = std::move(bytes),
                        .icrc = icrc,
                        .train = made.train,
                        .mss = made.mss,
                        .sharing = sharing,
                        .packet = packet};
  if (chance(wire.duplicate)) {
    ++stats.duplicated;
    fly(flying, when);
  }
  if (chance(wire.reorder)) {
    ++stats.reordered;
    when += wire.reorder_by;
  }
  fly(flying, when);
}

void Sim::inject(SimNode& from, std::span<const std::byte> frame) {
  ++stats.sent;
  fly({.time = 0,
       .order = 0,
       .from = from.index_,
       .bytes = std::make_shared<std::vector<std::byte>>(frame.begin(), frame.end())},
      now_ + wire.latency);
}

void Sim::fly(InFlight frame, Nanos when) {
  frame.time = when;
  frame.order = order_++;
  flying_.push(std::move(frame));
}

// Returns whether the frame is in the queue now, or lost.
bool Sim::enter_queue(const InFlight& f, unsigned to) {
  const Nanos when = queue(to, *f.bytes);
  if (when == kNever) {
    ++stats.lost;
  } else if (when > now_) {
    InFlight queued = f;
    queued.queued = true;
    fly(std::move(queued), when);
  } else {
    return false;
  }
  return true;
}

namespace {

// A frame as its sender made it if it deferred the ICRC.
std::vector<std::byte> without_icrc(std::vector<std::byte> frame) {
  const auto at = find_parts(frame);
  if (at) std::fill_n(frame.begin() + static_cast<std::ptrdiff_t>(at->icrc), 4, std::byte{0});
  return frame;
}

}  // namespace

// Compares a frame as it was sent with what its sender's memory makes of it now.
void Sim::check_shared(const InFlight& f) {
  ++stats.shared;
  if (f.train == 1 && f.icrc == Icrc::kPresent) return;  // damaged
  std::vector<std::byte> now(f.bytes->size());
  if (f.train > 1) {
    f.sharing->frame().copy_to(now);
  } else {
    Train::parse(f.sharing->frame())->write(f.packet, now);
    if (now != *f.bytes) mark_congestion(now, *find_parts(now));
  }
  EXPECT_EQ(now, *f.bytes) << "the payload changed on the way";
}

// Like a switch: delivers to the owner of the address, or floods if there is none.
void Sim::deliver(const InFlight& f) {
  SimNode* owner = nullptr;
  for (SimNode* const n : nodes_) {
    if (n && std::memcmp(f.bytes->data(), n->device.port.addresses.mac().data(), sizeof(Mac)) == 0)
      owner = n;
  }
  if (queue && owner && !f.queued && enter_queue(f, owner->index_)) return;
  for (SimNode* const n : nodes_) {
    if (!n || n->index_ == f.from || (owner && n != owner)) continue;
    ++stats.delivered;
    if (f.sharing != nullptr) check_shared(f);
    if (tracing) record(TraceEntry::Kind::kDelivered, n->index_, hash_bytes(*f.bytes));
    if (tap) tap(*n, *f.bytes, false);
    stats.deferred += f.icrc == Icrc::kDeferred;
    if (f.train == 1 && f.icrc == Icrc::kDeferred) {
      n->receive({without_icrc(*f.bytes), f.icrc});
    } else if (f.sharing != nullptr && f.train > 1) {
      n->receive(f.sharing->frame());
    } else {
      WireFrame frame{*f.bytes, f.icrc, f.train};
      frame.mss = f.mss;
      n->receive(frame);
    }
    n->wake();
    if (tap) tap(*n, *f.bytes, true);
  }
}

// ---- time ----

Nanos Sim::next_event() const {
  Nanos next = flying_.empty() ? kNever : flying_.top().time;
  for (const SimNode* const n : nodes_) {
    if (n) next = std::min(next, n->next_deadline());
  }
  return next;
}

void Sim::advance(Nanos to) {
  now_ = std::max(now_, to);
  for (SimNode* const n : nodes_) {
    if (!n) continue;
    n->host.clock = now_;
    if (n->next_deadline() <= now_) n->wake();
  }
  while (!flying_.empty() && flying_.top().time <= now_) {
    const InFlight f = flying_.top();
    flying_.pop();
    deliver(f);
  }
}

bool Sim::step() {
  bool worked = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    SimNode* const n = nodes_[i];
    if (!n || !n->busy_) continue;
    n->run_once();
    worked = true;
  }
  if (worked) {
    if (turn_time) advance(now_ + turn_time);
    return true;
  }
  const Nanos next = next_event();
  if (next == kNever) return false;
  advance(next);
  return true;
}

void Sim::run_until_idle(Nanos limit) {
  const Nanos end = now_ + limit;
  while (step()) {
    if (now_ > end) {
      ADD_FAILURE() << "not idle after " << limit << " ns";
      return;
    }
  }
}

bool Sim::run_until(const std::function<bool()>& done, Nanos limit) {
  const Nanos end = now_ + limit;
  while (!done()) {
    if (now_ > end || !step()) return done();
  }
  return true;
}

void Sim::run_for(Nanos span) {
  const Nanos end = now_ + span;
  for (;;) {
    const bool busy = std::ranges::any_of(nodes_, [](const SimNode* n) { return n && n->busy_; });
    if (now_ > end || (!busy && next_event() > end)) break;
    step();
  }
  advance(end);
}

}  // namespace tern
