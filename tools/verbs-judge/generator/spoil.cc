// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that must be refused, or look as if.
#include "planner.h"

namespace guest::generator {

// Arguments around the edges of a key's range.
void Planner::spoil_key(Step& s, const KnownKey& key) {
  const bool word = is_atomic(s.verb) || s.verb == Verb::kAtomicWrite;
  const std::int64_t len = word ? 8 : std::max<std::int64_t>(s[Arg::kLen], 1);
  switch (below(10)) {
    case 0:
    case 1:
      s[Arg::kAt] = word ? -8 : -pick({1, 1, 8});
      if (!word) s[Arg::kLen] = std::max<std::int64_t>(std::min<std::int64_t>(len, key.len), 1);
      break;
    case 2:
    case 3:
      s[Arg::kLen] = std::max<std::int64_t>(std::min<std::int64_t>(len, key.len), 1);
      s[Arg::kAt] = key.len - (word ? 0 : s[Arg::kLen]) + pick({1, 1, 8});
      if (word) s[Arg::kAt] = (key.len & ~7U) + static_cast<std::int64_t>((8 - key.base % 8) % 8);
      break;
    case 4:  // goes on after the end
      s[Arg::kAt] = 0;
      s[Arg::kLen] = std::min<std::int64_t>(key.len + 1, 3000);
      break;
    case 5:
    case 6:  // wraps into the range
      if (key.base < 3000 || key.base > ~std::uint64_t{0} - 0x10000) {
        s[Arg::kTop] = 1;
        s[Arg::kAt] = -8;
        s[Arg::kLen] =
            std::min<std::int64_t>(static_cast<std::int64_t>(key.base & 0xfff) + 16, 4000);
        if (!is_fetch(s.verb)) s.verb = Verb::kWrite;
        if (is_atomic(s.verb)) s.verb = Verb::kRead;
        s[Arg::kOff] = 0;
        s[Arg::kSlot] = 0;
        break;
      }
      [[fallthrough]];
    case 7:
      s[Arg::kLow] = 1 + below(255);
      break;
    case 8:
      s[Arg::kAge] = 1 + below(2);
      break;
    default:
      s[Arg::kLen] = 0;
      s[Arg::kLow] = below(256);
      break;
  }
}

// An operation that a window does not allow, or a window that is not bound.
void Planner::spoil_rights(Step& s) {
  constexpr Verb kVerbs[] = {Verb::kRead,     Verb::kWrite,       Verb::kCas,
                             Verb::kFetchAdd, Verb::kAtomicWrite, Verb::kFlush};
  constexpr unsigned kNeeds[] = {IBV_ACCESS_REMOTE_READ,   IBV_ACCESS_REMOTE_WRITE,
                                 IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC,
                                 IBV_ACCESS_REMOTE_WRITE,  IBV_ACCESS_FLUSH_GLOBAL};
  const std::int64_t owner = 1 - s[Arg::kEnd];
  const std::size_t first = random_.below(kWindows);
  for (std::size_t i = 0; i < kWindows; i++) {
    const std::size_t slot = (first + i) % kWindows;
    const Window& w = book_.window(static_cast<int>(owner), slot);
    if (!w.live || (!w.bound && percent(60)) || (w.bound && w.len < 16)) continue;
    const std::size_t op = random_.below(6);
    if (w.bound && (w.rights & kNeeds[op]) != 0) continue;
    s.verb = kVerbs[op];
    s[Arg::kOf] = 1;
    s[Arg::kKey] = static_cast<std::int64_t>(slot);
    s[Arg::kLen] = 8;
    s[Arg::kAt] = w.bound ? static_cast<std::int64_t>((8 - w.base % 8) % 8) : 0;
    if (w.bound && w.type == 2) s[Arg::kConn] = conn_of(w).value_or(s[Arg::kConn]);
    return;
  }
}

// A QP that may not use the window.
void Planner::spoil_queue(Step& s) {
  if (percent(50) && book_.conn(kOtherPd).up) {
    s[Arg::kConn] = kOtherPd;
    s[Arg::kEnd] = 0;
    s[Arg::kSlot] = 0;
  } else {
    s[Arg::kConn] = s[Arg::kConn] == 0 ? 1 : 0;
  }
  const std::int64_t owner = 1 - s[Arg::kEnd];
  s[Arg::kOf] = 1;
  if (choose_bound(owner, &s[Arg::kKey], s[Arg::kConn] == kOtherPd ? 1 : 2)) {
    const Window& w = book_.window(static_cast<int>(owner), s.index(Arg::kKey));
    if (conn_of(w) == s[Arg::kConn]) s[Arg::kConn] = 1 - s[Arg::kConn];
    s.verb = (w.rights & IBV_ACCESS_REMOTE_READ) != 0 ? Verb::kRead : Verb::kWrite;
    s[Arg::kAt] = 0;
    s[Arg::kLen] = 1;
  }
}

void Planner::spoil_data(Step& s) {
  const KnownKey* key = key_of(s);
  switch (below(16)) {
    case 0:
    case 1:
    case 2:
      return spoil_queue(s);
    case 3:
    case 4:
    case 5:
      return spoil_rights(s);
    case 6:
      s[Arg::kWhose] = 1;
      break;
    case 7:
      s[Arg::kLkey] = 1 + below(3);
      break;
    case 8: {
      const Region& mr = book_.region(static_cast<int>(s[Arg::kEnd]), s.index(Arg::kSlot));
      s[Arg::kOff] = pick({-1, std::int64_t{mr.len} - s[Arg::kLen] + 1});
      break;
    }
    case 9:
      s[Arg::kAt] += pick({1, 4});
      break;
    case 10:
      s[Arg::kConn] = below(kConns);
      break;
    default:
      if (key != nullptr) spoil_key(s, *key);
      break;
  }
}

// A range that begins below 2^64 and goes on from 0, into a region there.
void Planner::wrap_bind(Step& s) {
  const Region& mr = book_.region(static_cast<int>(s[Arg::kEnd]), s.index(Arg::kSlot));
  s[Arg::kTop] = 1;
  s[Arg::kAt] = -8;
  s[Arg::kLen] = static_cast<std::int64_t>(mr.iova & 0xffff) + 16;
  for (std::int64_t i = 1; i < kRegions; i++) {
    const Region& low = book_.region(static_cast<int>(s[Arg::kEnd]), static_cast<std::size_t>(i));
    if (!low.live || low.iova > 0x9000) continue;
    s[Arg::kSlot] = i;
    s[Arg::kLen] = static_cast<std::int64_t>(low.iova) + 16;
  }
}

void Planner::spoil_bind(Step& s) {
  const Region& mr = book_.region(static_cast<int>(s[Arg::kEnd]), s.index(Arg::kSlot));
  switch (below(14)) {
    case 0:
      s[Arg::kSlot] = kForeign;
      break;
    case 1:
      s[Arg::kSlot] = 4;
      s[Arg::kAt] = below(64);
      s[Arg::kLen] = 64;
      s[Arg::kAccess] = pick({IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC});
      break;
    case 2:
      s[Arg::kAt] = -1;
      break;
    case 3:
      s[Arg::kLen] = mr.len - s[Arg::kAt] + 1;
      break;
    case 4:
    case 5:
      wrap_bind(s);
      break;
    case 6:
      s[Arg::kLen] = 0;
      s[Arg::kType] = 2;
      for (std::int64_t i = 0; i < kWindows; i++) {
        const Window& w = book_.window(static_cast<int>(s[Arg::kEnd]), static_cast<std::size_t>(i));
        if (!w.live || (w.type == 2 && !w.bound)) s[Arg::kKey] = i;
      }
      break;
    case 7:
      s[Arg::kPd] = 1;  // a window in the other PD
      for (std::int64_t i = 0; i < kWindows; i++) {
        if (!book_.window(static_cast<int>(s[Arg::kEnd]), static_cast<std::size_t>(i)).live)
          s[Arg::kKey] = i;
      }
      break;
    case 8:
    case 12:
    case 13:
      if (choose_bound(s[Arg::kEnd], &s[Arg::kKey], 2)) break;
      s[Arg::kEnd] = 1 - s[Arg::kEnd];
      s[Arg::kSlot] = 0;
      s[Arg::kAt] = 0;
      s[Arg::kLen] = 64;
      choose_bound(s[Arg::kEnd], &s[Arg::kKey], 2);
      break;
    case 9:
      s[Arg::kForge] = 1 + below(2);
      break;
    default:
      s[Arg::kSlot] = below(kRegions);
      s[Arg::kAccess] = kRemoteAccess;
      break;
  }
}

void Planner::spoil_invalidate(Step& s) {
  switch (below(6)) {
    case 0:
      s[Arg::kLow] = 1 + below(255);
      break;
    case 1:
      s[Arg::kConn] = s[Arg::kConn] == 0 ? 1 : 0;
      break;
    case 2:
      if (!book_.conn(kOtherPd).up) break;
      s[Arg::kConn] = kOtherPd;
      s[Arg::kEnd] = s.verb == Verb::kSendInv ? 0 : 1;
      if (s.verb == Verb::kSendInv) supply(kOtherPd, 1);
      s[Arg::kSlot] = s.verb == Verb::kSendInv ? 0 : kForeign;
      s[Arg::kOf] = 1;
      choose_bound(1, &s[Arg::kKey], 2);
      break;
    case 3:
      s[Arg::kAge] = 1;
      break;
    case 4:
      s[Arg::kOf] = percent(30) ? 0 : 1;
      if (s.on(Arg::kOf))
        choose_bound(s.verb == Verb::kSendInv ? 1 - s[Arg::kEnd] : s[Arg::kEnd], &s[Arg::kKey], 1);
      break;
    default:
      s[Arg::kKey] = below(kWindows);
      break;
  }
}

}  // namespace guest::generator
