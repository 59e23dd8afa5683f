// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/window_storm.h"

#include <algorithm>

namespace tern {

namespace {

constexpr std::byte kSecret{0xee};   // outside all windows
constexpr std::byte kOffered{0x11};  // stored by the owner into a window
constexpr std::byte kBrought{0x22};  // written by peers

}  // namespace

WindowStorm::WindowStorm(std::uint64_t seed, std::string_view rule)
    : sim(seed),
      rng_(seed),
      a_(sim, {.mw_type_2a = seed % 2 == 0}),
      b_(sim, {.mw_type_2a = seed % 2 == 0}),
      mr_(b_.reg(kLength, {.access = kBindable})),
      source_(a_.reg(kSlot)) {
  const bool off = rule.empty() || b_.device.set_mutation(rule);
  EXPECT_TRUE(off);
  std::ranges::fill(mr_.bytes(), kSecret);
  std::ranges::fill(source_.bytes(), kBrought);
  pairs_.reserve(kPairs);
  for (unsigned i = 0; i < kPairs; ++i) {
    const auto [peer, own] = rc_pair(a_, b_, {.log_mtu = 8, .timeout = 1});
    pairs_.push_back({&peer, &own, &a_.reg(kSlot), new_window(i), {}, {}, false, 0, false});
  }
  shadow_.assign(mr_.bytes().begin(), mr_.bytes().end());
  sim.wire = {.bits_per_ns = 10, .loss = 0.02, .duplicate = 0.02, .reorder = 0.03};
  sim.budget = 600;
  sim.turn_time = 400;
}

void WindowStorm::run(unsigned rounds) {
  for (unsigned round = 0; round < rounds && calm(); ++round) {
    Pair& p = pairs_[pick(kPairs)];
    if (pick(6) == 0) {
      owner_acts(p);
    } else {
      peer_acts(p);
    }
    for (std::uint64_t n = pick(12); n > 0; --n) (void)step();
    listen();
    repair();
  }
}

// ---- invariants ----

bool WindowStorm::alive(const Place& place) const {
  tern_rsp_mr q{};
  return b_.device.registry.memory.query(place.key, &q) == TERN_ST_OK && le(q.key) == place.key &&
         le(q.mr_key) == mr_.key && le(q.length) == place.length;
}

void WindowStorm::mark_writable(std::vector<bool>& bytes) const {
  for (const Pair& p : pairs_) {
    for (const Place& place : p.places) {
      if (!(place.access & TERN_ACCESS_REMOTE_WRITE) || !alive(place)) continue;
      for (std::uint64_t i = 0; i < place.length; ++i) bytes[place.first + i] = true;
    }
  }
}

// One step of the simulation; returns false if nothing is left to do.
bool WindowStorm::step() {
  std::vector<bool> writable(kLength);
  mark_writable(writable);
  const bool more = sim.step();
  const auto now = mr_.bytes();
  if (std::ranges::equal(now, shadow_)) return more;
  mark_writable(writable);
  for (std::uint32_t i = 0; i < kLength; ++i) {
    if (now[i] == shadow_[i]) continue;
    if (!writable[i] || now[i] != kBrought) ++tally_.changed;
    shadow_[i] = now[i];
  }
  return more;
}

// Stores by the owner itself.
void WindowStorm::store(std::uint64_t first, std::uint64_t length, std::byte value) {
  std::ranges::fill(mr_.bytes(first, length), value);
  std::fill_n(shadow_.begin() + static_cast<std::ptrdiff_t>(first), length, value);
}

// Hides the slot except for `place`, which no window covers any more.
void WindowStorm::hide(const Pair& p, const std::optional<Place>& place) {
  const std::uint64_t slot = std::uint64_t{index(p)} * kSlot;
  const std::uint64_t first = place ? place->first : slot;
  const std::uint64_t end = place ? first + place->length : slot;
  store(slot, first - slot, kSecret);
  store(end, slot + kSlot - end, kSecret);
}

// ---- the owner ----

void WindowStorm::post_bind(Pair& p) {
  Place place{};
  const std::uint64_t slot = std::uint64_t{index(p)} * kSlot;
  place.length = 1 + pick(kSlot);
  place.first = slot + pick(kSlot - place.length + 1);
  place.access = kWindowAccess & ~(pick(8) == 0 ? TERN_ACCESS_REMOTE_WRITE : 0U);
  const std::uint32_t zero_based = pick(2) ? TERN_ACCESS_ZERO_BASED : 0;
  for (std::uint64_t i = place.first; i < place.first + place.length; ++i) {
    if (mr_.bytes()[i] == kSecret) store(i, 1, kOffered);
  }
  const SendWr wr = bind(p.mw, mr_, place.first, place.length, place.access | zero_based);
  place.key = p.mw.view.key;
  p.places.push_back(place);
  p.coming = place;
  p.own->post(wr);
}

void WindowStorm::post_end(Pair& p) {
  p.ending = true;
  if (p.mw.type == 1) {
    p.own->post(unbind(p.mw));
  } else if (pick(2)) {
    p.own->post(local_inv(p.mw.view.key));
  } else {
    p.own->post_recv({});
    p.peer->post(send_inv({}, p.mw.view.key));
    ++p.accesses;
  }
}

// The window is unbound or freed.
void WindowStorm::ended(Pair& p) {
  p.places.clear();
  p.coming.reset();
  p.ending = false;
  hide(p, std::nullopt);
  ++tally_.ends;
}

void WindowStorm::free_window(Pair& p) {
  EXPECT_EQ(free_mw(b_, p.mw.view.key), TERN_ST_OK);
  ended(p);
  p.mw = new_window(index(p));
}

void WindowStorm::owner_acts(Pair& p) {
  if (p.broken || p.coming || p.ending) return;
  const bool bound = !p.places.empty();
  if (!bound || (p.mw.type == 1 && pick(3) == 0)) return post_bind(p);
  if (pick(4) == 0) return free_window(p);
  post_end(p);
}

void WindowStorm::owner_hears(Pair& p, const Wc& wc) {
  if (wc.status != TERN_CQE_SUCCESS) {
    p.broken = true;
  } else if (wc.opcode == TERN_WR_BIND_MW && p.coming) {
    p.places.assign(1, *p.coming);
    hide(p, p.coming);
    p.coming.reset();
    ++tally_.binds;
  } else if (p.ending) {
    ended(p);
  }
}

// ---- the peers ----

void WindowStorm::peer_acts(Pair& p) {
  if (p.broken || p.accesses >= 4) return;
  // Mostly its own window; sometimes another one, a wrong key, or an address outside.
  const Pair& whose = pick(12) == 0 ? pairs_[pick(kPairs)] : p;
  TestMr view = whose.mw.view;
  if (pick(40) == 0) view.key = with_variant(view.key, view.key - 1);
  const std::uint64_t room = std::max<std::uint64_t>(view.length, 1);
  auto len = static_cast<std::uint32_t>(1 + pick(std::min<std::uint64_t>(room, kSlot)));
  std::uint64_t at = pick(room - std::min<std::uint64_t>(len, room) + 1);
  if (pick(20) == 0) at = room - std::min<std::uint64_t>(room, len) + 1;  // one byte too far
  if (pick(20) == 0) at = std::uint64_t{0} - 1 - pick(len);               // starts before it
  if (pick(40) == 0) at = rng_();
  ++p.accesses;
  if (pick(2)) {
    p.peer->post(write({source_.sge(0, len)}, view, at));
  } else {
    p.peer->post(read({p.sink->sge(0, len)}, view, at));
  }
}

void WindowStorm::peer_hears(Pair& p, const Wc& wc) {
  if (p.accesses > 0) --p.accesses;
  tally_.leaked += static_cast<unsigned>(std::ranges::count(p.sink->bytes(), kSecret));
  if (wc.status == TERN_CQE_SUCCESS) {
    ++tally_.allowed;
  } else {
    p.broken = true;
    if (wc.status == TERN_CQE_REM_ACCESS_ERR) ++tally_.refused;
  }
}

void WindowStorm::listen() {
  for (Pair& p : pairs_) {
    while (const auto wc = p.own->send_cq().poll()) owner_hears(p, *wc);
    while (const auto wc = p.own->recv_cq().poll()) {
      // SEND_WITH_INV has succeeded or failed.
      if (wc->status != TERN_CQE_SUCCESS) {
        p.broken = true;
      } else if (wc->flags & TERN_CQE_F_INV) {
        EXPECT_EQ(le(wc->inv_rkey), p.mw.view.key);
        ended(p);
      }
    }
    while (const auto wc = p.peer->send_cq().poll()) peer_hears(p, *wc);
    while (p.peer->recv_cq().poll()) {
    }
  }
}

// When nothing is in flight, reconnects failed connections, each with a new window.
void WindowStorm::repair() {
  if (std::ranges::none_of(pairs_, [](const Pair& p) { return p.broken; })) return;
  while (step()) listen();
  listen();
  for (Pair& p : pairs_) {
    if (!p.broken) continue;
    for (TestQp* const qp : {p.peer, p.own}) {
      EXPECT_EQ(qp->to_state(TERN_QPS_RESET), TERN_ST_OK);
      qp->forget_posted();
    }
    free_window(p);
    p.peer->connect(*p.own);
    p.own->connect(*p.peer);
    p.accesses = 0;
    p.broken = false;
  }
}

}  // namespace tern
