// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan.h"

#include <algorithm>

#include "planner.h"

namespace guest::generator {

Step Planner::region_step(std::int64_t end, std::int64_t slot) {
  Step s{.verb = Verb::kRegion};
  s[Arg::kEnd] = end;
  s[Arg::kSlot] = slot;
  s[Arg::kAccess] = kFull | (book_.can("flush") ? unsigned{IBV_ACCESS_FLUSH_GLOBAL} : 0U);
  s[Arg::kLen] = kMemSize;
  if (slot == 0) return s;
  s[Arg::kMem] = slot == kForeign ? 1 : book_.can("dm") && percent(15) ? kDeviceMem : 1 + below(2);
  s[Arg::kPd] = slot == kForeign ? 1 : 0;
  const std::uint32_t size = mem_size(static_cast<int>(s[Arg::kMem]));
  s[Arg::kOff] = percent(50) ? below(64) * 8 : below(1024);
  s[Arg::kLen] = std::min<std::int64_t>(64 + below(size), size - s[Arg::kOff]);
  s[Arg::kBase] = percent(40) ? kNatural : below(kBases);
  if (slot > 1 && percent(40)) {
    constexpr unsigned kSome[] = {IBV_ACCESS_MW_BIND, IBV_ACCESS_LOCAL_WRITE,
                                  IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
                                  IBV_ACCESS_REMOTE_ATOMIC};
    s[Arg::kAccess] &= ~std::int64_t{kSome[random_.below(5)]};
    // Remote writes need LOCAL_WRITE.
    if ((s[Arg::kAccess] & IBV_ACCESS_LOCAL_WRITE) == 0) {
      s[Arg::kAccess] &= ~std::int64_t{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
    }
  }
  return s;
}

Step Planner::connect_step(std::int64_t slot) {
  Step s{.verb = Verb::kConnect};
  s[Arg::kConn] = slot;
  const std::int64_t rights =
      kRemoteAccess | (book_.can("flush") ? int{IBV_ACCESS_FLUSH_GLOBAL} : 0);
  s[Arg::kAccess] = s[Arg::kPeer] = rights;
  s[Arg::kType] = slot == 3 ? kUc : slot == 4 ? kUd : slot == 5 ? kXrc : kRc;
  if (slot == kOtherPd) s[Arg::kPd] = 2;
  if (slot == 6) s[Arg::kSrq] = 1;
  if (slot == kNoRights) {
    s[Arg::kAccess] =
        rights & ~pick({IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC});
    s[Arg::kPeer] =
        rights & ~pick({IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC});
  }
  s[Arg::kMtu] = percent(30) ? 1 : 0;
  return s;
}

void Planner::prologue() {
  for (std::int64_t end = 0; end < kEnds; end++) {
    for (std::int64_t slot = 0; slot < 4; slot++) emit(region_step(end, slot));
    Step last = region_step(end, 4);
    if (percent(60)) last[Arg::kAccess] = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
    emit(last);
  }
  for (std::int64_t conn = 0; conn < kConns; conn++) {
    if (conn < 2 || percent(50)) emit(connect_step(conn));
  }
}

// ---- what a step would do ----

void Planner::emit(Step step) {
  steps_.push_back(step);
  imitate(step);
}

void Planner::restart(std::size_t slot) {
  const auto dead = book_.restart(slot);
  for (std::size_t end = 0; end < kEnds; end++) {
    for (const std::size_t w : dead.at(end)) book_.window(static_cast<int>(end), w) = {};
  }
}

void Planner::imitate(const Step& step) {
  const int end = static_cast<int>(step[Arg::kEnd]);
  const std::size_t slot = step.index(Arg::kSlot);
  Conn& conn = book_.conn(step.index(Arg::kConn));
  next_key_ += 0x100;
  switch (step.verb) {
    case Verb::kRegion:
      if (const auto args = book_.region_args(step)) {
        book_.made_region(end, *args, {.lkey = next_key_, .rkey = next_key_});
      }
      break;
    case Verb::kDereg:
      if (coverage_ != nullptr && book_.region(end, slot).live &&
          windows_on(book_.state, end, slot) != 0) {
        (*coverage_)["mr-busy"]++;
      }
      book_.region(end, slot).live =
          book_.region(end, slot).live && windows_on(book_.state, end, slot) != 0;
      break;
    case Verb::kRereg:
      if (const auto args = book_.rereg_args(step)) {
        book_.made_region(end, *args, {.lkey = next_key_, .rkey = next_key_});
      }
      break;
    case Verb::kDealloc:
      book_.window(end, slot) = {};
      break;
    case Verb::kConnect:
      if (!conn.up && book_.qp_args(step, 0)) book_.made_conn(step);
      break;
    case Verb::kReset:
      conn.dead = conn.up;
      break;
    case Verb::kDestroy:
      restart(step.index(Arg::kConn));
      conn = {};
      break;
    case Verb::kError:
      conn.dead = true;
      break;
    case Verb::kKill:
      for (std::size_t c = 0; c < kConns; c++) {
        restart(c);
        book_.conn(c) = {};
      }
      book_.receives_died(1);
      for (std::size_t i = 0; i < kRegions; i++) book_.region(1, i) = {};
      for (std::size_t i = 0; i < kWindows; i++) book_.window(1, i) = {};
      break;
    case Verb::kReceive:
      if (conn.up && conn.dead) restart(step.index(Arg::kConn));
      if (const auto r = book_.receive(step))
        book_.receives(step.index(Arg::kConn), end).push_back(*r);
      break;
    default:
      if (is_request(step.verb)) imitate_request(step);
      break;
  }
}

void Planner::imitate_request(const Step& step) {
  const std::size_t slot = step.index(Arg::kConn);
  const int end = static_cast<int>(step[Arg::kEnd]);
  Conn& conn = book_.conn(slot);
  if (conn.up && conn.dead) restart(slot);
  Window& w = book_.window(end, step.index(Arg::kKey));
  if (conn.up && step.verb == Verb::kBind && !w.live && book_.can("windows")) {
    book_.made_window(end, step.index(Arg::kKey), step[Arg::kType] == 1 ? 1 : 2,
                      step.index(Arg::kPd) % kPds, next_key_);
  }
  auto r = book_.request(step);
  if (!r) return;
  if (r->verb == Verb::kBind && w.type == 1) r->new_key = (w.key & ~0xffU) | ((w.key + 1) & 0xffU);
  book_.posted(*r, r->new_key);
  const Verdict v = judge(book_.state, *r, book_.next_receive(slot, 1 - end));
  if (coverage_ != nullptr && conn.type != kUc && v.here.ok) {
    const std::vector<std::string> broken = broken_rules(book_.state, *r);
    if (broken.size() == 1) (*coverage_)[broken[0]]++;
  }
  if (has(v.allowed, IBV_WC_SUCCESS)) {
    commit(book_.state, *r);
    auto& receives = book_.receives(slot, 1 - end);
    if (takes_receive(r->verb) && !receives.empty()) receives.pop_front();
    return;
  }
  conn.dead = true;
  if (r->verb == Verb::kBind) book_.forget_key(*r);
}

// Whether the step does something, and certainly succeeds.
bool Planner::good(const Step& step) {
  const std::size_t slot = step.index(Arg::kConn);
  const Conn& conn = book_.conn(slot);
  if (!conn.up) return false;
  if (step.verb == Verb::kBind &&
      !book_.window(static_cast<int>(step[Arg::kEnd]), step.index(Arg::kKey)).live) {
    return step.on(Arg::kType) && step.on(Arg::kLen) && step[Arg::kPd] == 0;
  }
  const auto r = book_.request(step);
  if (!r) return false;
  const Receive* receive = conn.dead ? nullptr : book_.next_receive(slot, 1 - r->end);
  const Verdict v = judge(book_.state, *r, receive);
  return v.allowed == kSuccess && v.there.ok && (v.receive == 0 || v.receive == kSuccess);
}

// ---- requests ----

Step Planner::data_step(std::int64_t conn, std::int64_t end) {
  Step s{.verb = Verb::kWrite};
  const unsigned kind = random_.below(100);
  s.verb = kind < 28   ? Verb::kWrite
           : kind < 34 ? Verb::kWriteImm
           : kind < 56 ? Verb::kRead
           : kind < 64 ? Verb::kCas
           : kind < 72 ? Verb::kFetchAdd
           : kind < 78 ? Verb::kAtomicWrite
           : kind < 84 ? Verb::kFlush
           : kind < 93 ? Verb::kSend
                       : Verb::kSendImm;
  s[Arg::kConn] = conn;
  s[Arg::kEnd] = end;
  s[Arg::kSlot] = percent(70) ? 0 : below(kRegions);
  s[Arg::kLen] = percent(3) ? 0 : length();
  s[Arg::kOff] = below(2000);
  if (percent(15)) s[Arg::kSplit] = 1 + below(100);
  s[Arg::kOf] = percent(75) && book_.can("windows") ? 1 : 0;
  s[Arg::kKey] = below(kWindows);
  if (s.on(Arg::kOf) && percent(70) && choose_bound(1 - end, &s[Arg::kKey])) {
    const Window& w = book_.window(static_cast<int>(1 - end), s.index(Arg::kKey));
    if (w.type == 2) s[Arg::kConn] = conn_of(w).value_or(conn);
  }
  const KnownKey* key = key_of(s);
  const std::int64_t range = key != nullptr ? std::int64_t{key->len} : 0;
  const std::int64_t len = is_atomic(s.verb) || s.verb == Verb::kAtomicWrite ? 8 : s[Arg::kLen];
  const std::int64_t room = range - len;
  if (room > 0)
    s[Arg::kAt] = percent(30) ? pick({0, room}) : below(static_cast<std::size_t>(room) + 1);
  if (len == 8 && key != nullptr)
    s[Arg::kAt] -=
        static_cast<std::int64_t>((key->base + static_cast<std::uint64_t>(s[Arg::kAt])) % 8);
  if (len == 8 && s[Arg::kAt] < 0) s[Arg::kAt] += 8;
  s[Arg::kValue] = below(1000);
  if (percent(12)) s[Arg::kFence] = 1;
  if (percent(10)) s[Arg::kInline] = 1;
  if (percent(20)) s[Arg::kSolicited] = 1;
  if (percent(30)) s[Arg::kApi] = 1;
  return s;
}

Step Planner::bind_step(std::int64_t conn, std::int64_t end) {
  Step s{.verb = Verb::kBind};
  s[Arg::kConn] = conn;
  s[Arg::kEnd] = end;
  s[Arg::kKey] = below(kWindows);
  s[Arg::kType] = 1 + below(2);
  s[Arg::kSlot] = percent(60) ? 1 : below(kRegions);
  s[Arg::kAccess] = percent(50)
                        ? std::int64_t{kRemoteAccess}
                        : kRemoteAccess & ~pick({IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
                                                 IBV_ACCESS_REMOTE_ATOMIC, kRemoteAccess});
  const Region& mr = book_.region(static_cast<int>(end), s.index(Arg::kSlot));
  if (mr.live) {
    s[Arg::kAt] = percent(20) ? 0 : below(mr.len);
    const std::int64_t room = mr.len - s[Arg::kAt];
    s[Arg::kLen] = percent(20)
                       ? room
                       : 1 + below(static_cast<std::size_t>(std::min<std::int64_t>(room, 2000)));
  }
  s[Arg::kVariant] = below(256);
  if (percent(20)) s[Arg::kZero] = 1;
  if (percent(10)) s[Arg::kFence] = 1;
  if (percent(30)) s[Arg::kApi] = 1;
  return s;
}

// The connection whose QP has bound the window.
std::optional<std::int64_t> Planner::conn_of(const Window& w) {
  for (std::size_t c = 0; c < kConns; c++) {
    const Conn& conn = book_.conn(c);
    if (conn.up && !conn.dead && (conn.ends[0].id == w.owner || conn.ends[1].id == w.owner)) {
      return static_cast<std::int64_t>(c);
    }
  }
  return {};
}

bool Planner::choose_bound(std::int64_t end, std::int64_t* slot, int type) {
  const std::size_t first = random_.below(kWindows);
  for (std::size_t i = 0; i < kWindows; i++) {
    const std::size_t at = (first + i) % kWindows;
    const Window& w = book_.window(static_cast<int>(end), at);
    if (!w.live || !w.bound || (type != 0 && w.type != type)) continue;
    *slot = static_cast<std::int64_t>(at);
    return true;
  }
  return false;
}

Step Planner::invalidate_step(std::int64_t conn, std::int64_t end, bool send) {
  Step s{.verb = send ? Verb::kSendInv : Verb::kInvalidate};
  s[Arg::kConn] = conn;
  s[Arg::kEnd] = end;
  s[Arg::kOf] = 1;
  s[Arg::kKey] = below(kWindows);
  const std::int64_t owner = send ? 1 - end : end;
  if (choose_bound(owner, &s[Arg::kKey], 2)) {
    const Window& w = book_.window(static_cast<int>(owner), s.index(Arg::kKey));
    s[Arg::kConn] = conn_of(w).value_or(conn);
  }
  if (send) {
    s[Arg::kLen] = below(64);
    s[Arg::kOff] = below(1000);
  }
  if (percent(20)) s[Arg::kFence] = 1;
  if (percent(30)) s[Arg::kApi] = 1;
  return s;
}

Step Planner::receive_step(std::int64_t conn, std::int64_t end) {
  Step s{.verb = Verb::kReceive};
  s[Arg::kConn] = conn;
  s[Arg::kEnd] = end;
  s[Arg::kSlot] = percent(80) ? 0 : below(kRegions);
  s[Arg::kOff] = 4000 + below(1000);
  s[Arg::kLen] = percent(5) ? 0 : percent(20) ? 1 + below(64) : 700 + below(2300);
  if (percent(20)) s[Arg::kSplit] = 1 + below(300);
  if (percent(3)) s[Arg::kLkey] = 1 + below(3);
  return s;
}

// ---- what comes next ----

// Posts a receive where there is none.
void Planner::supply(std::int64_t conn, std::int64_t end) {
  const auto slot = static_cast<std::size_t>(conn);
  const bool have =
      !book_.conn(slot).dead && book_.next_receive(slot, static_cast<int>(end)) != nullptr;
  if (!have ? percent(90) : percent(5)) emit(receive_step(conn, end));
}

void Planner::data(bool burst) {
  const bool spoil = percent(burst ? 10 : 28);
  for (int tries = 0; tries < 12; tries++) {
    std::int64_t conn = burst ? below(2) : usual_conn();
    const std::int64_t end = below(2);
    if (!book_.conn(static_cast<std::size_t>(conn)).up) conn = below(2);
    Step s = data_step(conn, end);
    if (takes_receive(s.verb) && !burst) supply(s[Arg::kConn], 1 - end);
    if (!good(s)) continue;
    if (spoil) spoil_data(s);
    s[Arg::kBurst] = burst ? 1 : 0;
    if (burst && percent(25)) s[Arg::kSilent] = 1;
    return emit(s);
  }
}

void Planner::bind(bool burst) {
  const bool spoil = percent(burst ? 8 : 30);
  for (int tries = 0; tries < 12; tries++) {
    Step s = bind_step(burst || percent(85) ? below(2) : below(kConns), below(2));
    if (!good(s)) continue;
    if (spoil) spoil_bind(s);
    s[Arg::kBurst] = burst ? 1 : 0;
    return emit(s);
  }
}

void Planner::invalidate(bool burst) {
  const bool spoil = percent(burst ? 10 : 45);
  for (int tries = 0; tries < 12; tries++) {
    const bool send = percent(50);
    const std::int64_t conn = burst ? below(2) : usual_conn();
    const std::int64_t end = below(2);
    Step s = invalidate_step(conn, end, send);
    if (send && !burst) supply(s[Arg::kConn], 1 - end);
    if (!good(s)) continue;
    Step spoilt = s;
    if (spoil) spoil_invalidate(spoilt);
    spoilt[Arg::kBurst] = burst ? 1 : 0;
    emit(spoilt);
    if (!burst && percent(15)) emit(s);  // once more
    return;
  }
}

void Planner::burst() {
  for (std::int64_t conn = 0; conn < 2; conn++) {
    for (std::int64_t end = 0; end < 2; end++) {
      if (percent(50)) supply(conn, end);
    }
  }
  const unsigned count = 2 + random_.below(6);
  const std::size_t first = steps_.size();
  for (unsigned i = 0; i < count; i++) {
    const unsigned kind = random_.below(100);
    if (kind < 65) {
      data(true);
    } else if (kind < 82) {
      bind(true);
    } else {
      invalidate(true);
    }
  }
  if (steps_.size() > first) steps_.back()[Arg::kBurst] = 0;
}

void Planner::change_region() {
  const std::int64_t end = below(2);
  const std::int64_t slot = percent(30) ? 4 : 1 + below(kRegions - 1);
  Step s{.verb = Verb::kDereg};
  s[Arg::kEnd] = end;
  s[Arg::kSlot] = slot;
  if (percent(30) && book_.can("rereg")) {
    s.verb = Verb::kRereg;
    const Step fresh = region_step(end, slot);
    s[Arg::kWhat] = 1 + below(7);
    s[Arg::kAccess] = fresh[Arg::kAccess];
    s[Arg::kPd] = slot == kForeign ? 1 : percent(20) ? 1 : 0;
    s[Arg::kMem] = fresh[Arg::kMem] % kHostMems;
    s[Arg::kOff] = fresh[Arg::kOff];
    s[Arg::kLen] = fresh[Arg::kLen];
    return emit(s);
  }
  emit(s);
  emit(region_step(end, slot));
}

// A window that may write, on a region that may not be written any more.
void Planner::take_write_right() {
  const std::int64_t end = below(2);
  std::int64_t slot = 0;
  if (!book_.can("rereg") || !choose_bound(end, &slot)) return;
  const Window& w = book_.window(static_cast<int>(end), static_cast<std::size_t>(slot));
  Step s{.verb = Verb::kRereg};
  s[Arg::kEnd] = end;
  s[Arg::kSlot] = static_cast<std::int64_t>(w.region);
  s[Arg::kWhat] = IBV_REREG_MR_CHANGE_ACCESS;
  s[Arg::kAccess] = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
  emit(s);
  for (std::int64_t conn = 0; conn < 2; conn++) {
    Step write{.verb = percent(60) ? Verb::kWrite : Verb::kFetchAdd};
    write[Arg::kConn] = conn;
    write[Arg::kEnd] = 1 - end;
    write[Arg::kOf] = 1;
    write[Arg::kKey] = slot;
    write[Arg::kLen] = 1;
    write[Arg::kAt] = is_atomic(write.verb) ? static_cast<std::int64_t>((8 - w.base % 8) % 8) : 0;
    emit(write);
  }
  s[Arg::kAccess] = kFull;
  emit(s);
}

void Planner::dereg_busy() {
  const std::int64_t end = below(2);
  std::int64_t slot = 0;
  if (!choose_bound(end, &slot)) return;
  Step s{.verb = Verb::kDereg};
  s[Arg::kEnd] = end;
  s[Arg::kSlot] = static_cast<std::int64_t>(
      book_.window(static_cast<int>(end), static_cast<std::size_t>(slot)).region);
  emit(s);
}

void Planner::event() {
  Step s{.verb = Verb::kReset};
  const unsigned kind = random_.below(100);
  s[Arg::kEnd] = below(2);
  s[Arg::kConn] = below(kConns);
  if (kind < 45) {
    s.verb = Verb::kArm;
    s[Arg::kSolicited] = percent(30) ? 1 : 0;
  } else if (kind < 65) {
    s.verb = Verb::kError;
  } else if (kind < 75) {
    s.verb = Verb::kDestroy;
  } else if (kind < 90) {
    s.verb = Verb::kDealloc;
    s[Arg::kSlot] = below(kWindows);
  } else if (book_.can("processes") && percent(50)) {
    s = {.verb = Verb::kKill};
    emit(s);
    return prologue();
  }
  emit(s);
  if (s.verb == Verb::kDestroy) emit(connect_step(s[Arg::kConn]));
}

void Planner::next() {
  const unsigned kind = random_.below(100);
  if (kind < 46) return data(false);
  if (kind < 66 && book_.can("windows")) return bind(false);
  if (kind < 74 && book_.can("windows")) return invalidate(false);
  if (kind < 85 && book_.can("bursts")) return burst();
  if (kind < 90) return change_region();
  if (kind < 92) return take_write_right();
  if (kind < 95) return dereg_busy();
  event();
}

Steps plan(std::uint64_t seed, std::size_t steps, const Caps& caps, Coverage* coverage) {
  return Planner(seed, caps, coverage).run(steps);
}

}  // namespace guest::generator
