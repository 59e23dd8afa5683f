// SPDX-License-Identifier: GPL-2.0-or-later
#include "side.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

namespace guest {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::uint32_t kFirstPsn = 0xffff80;  // soon wraps
constexpr auto kStuck = 120s;                  // bounds a hang
constexpr auto kQuiet = 500ms;                 // for packets that may still be on the wire
constexpr auto kPause = 100us;                 // leaves the processor to the device

// The message by which the ends synchronize.
struct Word {
  bool failed = false;
  std::array<char, 240> text{};
};

Connection connection() {
  Connection how;
  how.mtu = IBV_MTU_1024;
  how.timeout = 14;  // 67 ms; tern waits four times that
  how.max_rd_atomic = 8;
  return how;
}

template <typename T>
T receive(const Socket& peer) {
  T value;
  require(peer.read(&value, sizeof(value)), "the peer has gone");
  return value;
}

bool asks(ibv_qp_type type) { return type != IBV_QPT_XRC_RECV; }
bool is_asked(ibv_qp_type type) { return type != IBV_QPT_XRC_SEND; }

}  // namespace

Side::Side(const Device& dev, const Socket& peer, const Job& job, bool second)
    : dev_(dev), peer_(peer), job_(job), second_(second) {}

void Side::open(ibv_qp_type here, ibv_qp_type there) {
  EndSpec options;
  options.type = here;
  options.memory = kMemory;
  options.psn = (kFirstPsn - static_cast<std::uint32_t>(channels_.size())) & 0xffffff;
  channels_.push_back({std::make_unique<End>(dev_, options), here, there});
}

// Both ends create their sessions in the same order, so a session's index identifies it at both.
void Side::introduce() {
  for (unsigned i = 0; i < kRcFlows; i++) open(IBV_QPT_RC, IBV_QPT_RC);
  for (unsigned i = 0; i < 2 * kXrcFlows; i++) {
    const bool from_first = i % 2 == 0;
    if (from_first != second_) {
      open(IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV);
    } else {
      open(IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND);
    }
  }
  for (unsigned i = 0; i < kUcFlows; i++) open(IBV_QPT_UC, IBV_QPT_UC);
  for (unsigned i = 0; i < kUdFlows; i++) open(IBV_QPT_UD, IBV_QPT_UD);
  for (const Channel& c : channels_) {
    const Introduction self{.endpoint = c.session->endpoint(),
                            .address = c.session->memory().address(),
                            .rkey = c.session->memory().rkey()};
    peer_.write(&self, sizeof(self));
  }
  for (std::size_t i = 0; i < channels_.size(); i++) {
    const auto other = receive<Introduction>(peer_);
    const End& session = *channels_[i].session;
    connect(session.qp(), dev_, connection(), session.endpoint(), other.endpoint);
    add_flows(i, other);
  }
}

// In flow 2i the first end's session i is the requester; in flow 2i + 1 the second's is.
void Side::add_flows(std::size_t index, const Introduction& other) {
  const Channel& c = channels_[index];
  const auto id = static_cast<std::uint32_t>(2 * index);
  if (asks(c.here)) {
    const Flow flow{.seed = job_.seed, .id = id + (second_ ? 1 : 0), .type = c.here};
    askers_.push_back(std::make_unique<Asker>(flow, *c.session, other));
  }
  if (!is_asked(c.here)) return;
  const Flow flow{.seed = job_.seed, .id = id + (second_ ? 0 : 1), .type = c.there};
  if (flow.reliable()) {
    asked_.push_back(std::make_unique<AskedReliably>(flow, *c.session));
  } else {
    asked_.push_back(std::make_unique<AskedUnreliably>(flow, *c.session, job_.in_order));
  }
}

void Side::meet(const std::string& failure) const {
  Word mine;
  mine.failed = !failure.empty();
  std::snprintf(mine.text.data(), mine.text.size(), "%s", failure.c_str());
  peer_.write(&mine, sizeof(mine));
  if (mine.failed) return;
  const Word theirs = receive<Word>(peer_);
  require(!theirs.failed, "peer: {}", theirs.text.data());
}

void Side::look_at_peer() const {
  Word theirs;
  const ssize_t n = ::recv(peer_.fd(), &theirs, sizeof(theirs), MSG_PEEK | MSG_DONTWAIT);
  require(n != 0, "the peer has gone");
  require(n < static_cast<ssize_t>(sizeof(theirs)) || !theirs.failed, "peer: {}",
          theirs.text.data());
}

bool Side::poll_all() {
  bool moved = false;
  for (const auto& f : askers_) moved |= f->poll();
  for (const auto& f : asked_) moved |= f->poll();
  return moved;
}

std::string Side::where() const {
  std::string text;
  for (const auto& f : askers_) text += f->done() ? "" : std::format(" flow {} asks", f->flow().id);
  for (const auto& f : asked_) {
    text += f->done() ? "" : std::format(" flow {} is asked", f->flow().id);
  }
  return text;
}

void Side::poll_until(const std::function<bool()>& done) {
  auto last = Clock::now();
  while (!done()) {
    if (poll_all()) {
      last = Clock::now();
      continue;
    }
    look_at_peer();
    require(Clock::now() - last < kStuck, "nothing moves:{}", where());
    std::this_thread::sleep_for(kPause);
  }
}

void Side::round(std::uint64_t number) {
  for (const auto& f : askers_) f->prepare(number);
  for (const auto& f : asked_) f->prepare(number);
  meet();
  for (const auto& f : askers_) f->post();
  poll_until([this] {
    const auto done = [](const auto& f) { return f->done(); };
    return std::ranges::all_of(askers_, done) && std::ranges::all_of(asked_, done);
  });
  meet();
  for (const auto& f : askers_) f->verify();
  for (const auto& f : asked_) f->verify(number);
}

// Late packets may still arrive; they must not change completed messages.
void Side::settle() {
  const auto end = Clock::now() + kQuiet;
  poll_until([end] { return Clock::now() >= end; });
  for (const auto& f : asked_) f->finish(job_.rounds);
  check_states();
}

void Side::check_states() const {
  for (std::size_t i = 0; i < channels_.size(); i++) {
    const ibv_qp_state state = state_of(channels_[i].session->qp());
    require(state == IBV_QPS_RTS, "session {} is in state {}", i, static_cast<int>(state));
  }
}

void Side::play() {
  for (std::uint64_t n = 0; n < job_.rounds; n++) round(n);
  settle();
  meet();
  const Totals here = totals();
  peer_.write(&here, sizeof(here));
  there_ = receive<Totals>(peer_);
  // The sessions may be destroyed once both ends have finished.
  meet();
}

void Side::run() {
  try {
    introduce();
    play();
  } catch (const std::exception& e) {
    try {
      meet(e.what());
    } catch (const std::exception&) {
      // The peer has failed too, or has gone; report the first failure.
    }
    throw;
  }
}

Totals Side::totals() const {
  Totals sum;
  for (const auto& f : asked_) {
    (f->flow().reliable()           ? sum.reliable
     : f->flow().type == IBV_QPT_UC ? sum.uc
                                    : sum.ud) += f->arrived();
  }
  return sum;
}

}  // namespace guest
