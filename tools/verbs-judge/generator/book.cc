// SPDX-License-Identifier: GPL-2.0-or-later
#include "book.h"

#include <algorithm>

#include "random.h"

namespace guest::generator {
namespace {

constexpr unsigned kWindowRights =
    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint64_t kPageMask = 4095;
constexpr std::uint64_t kSmallBase = 0x7000;

std::uint64_t operand(std::int64_t value) {
  return value == 0 ? 1 : Random(static_cast<std::uint64_t>(value)).next();
}

void confine(RegionArgs& args, const Step& step) {
  const std::uint32_t size = mem_size(args.mem);
  args.off = std::min(static_cast<std::uint32_t>(step.index(Arg::kOff)), size - 1);
  args.len = std::clamp(static_cast<std::uint32_t>(step.index(Arg::kLen)), 1U, size - args.off);
}

}  // namespace

const Receive* Book::next_receive(std::size_t slot, int end) {
  for (const Receive& r : receives(slot, end)) {
    if (!r.used) return &r;
  }
  return nullptr;
}

std::optional<RegionArgs> Book::region_args(const Step& step) const {
  const auto end = step.index(Arg::kEnd);
  RegionArgs args{.slot = step.index(Arg::kSlot),
                  .pd = step.index(Arg::kPd) % kPds,
                  .access = step.bits(Arg::kAccess),
                  .mem = static_cast<int>(step[Arg::kMem])};
  if (args.mem == kDeviceMem && !can("dm")) return {};
  if (state.regions.at(end).at(args.slot).live) return {};
  confine(args, step);
  if (args.mem == kDeviceMem) return args;
  const std::int64_t base = step[Arg::kBase];
  if (base == kHighest && can("top")) {  // the last byte is that of a page
    args.len = std::min(args.len, mem_size(args.mem));
    args.off = mem_size(args.mem) - args.len;
    args.iova = 0 - std::uint64_t{args.len};
  } else if (base == kLowest && can("iova")) {
    args.iova = args.off & kPageMask;
  } else if (base == kSmall && can("iova")) {
    args.iova = kSmallBase + (args.off & kPageMask);
  } else {
    args.iova = addresses_.at(end).at(static_cast<std::size_t>(args.mem)) + args.off;
  }
  return args;
}

std::optional<RegionArgs> Book::rereg_args(const Step& step) {
  const int end = static_cast<int>(step[Arg::kEnd]);
  const Region& mr = region(end, step.index(Arg::kSlot));
  if (!mr.live || !can("rereg") || mr.mem == kDeviceMem) return {};
  RegionArgs args{.slot = step.index(Arg::kSlot),
                  .pd = mr.pd,
                  .access = mr.access,
                  .mem = mr.mem,
                  .off = mr.off,
                  .len = mr.len,
                  .iova = mr.iova};
  const unsigned what = step.bits(Arg::kWhat);
  // Documents leave open what happens to the windows.
  if ((what & ~unsigned{IBV_REREG_MR_CHANGE_ACCESS}) != 0 &&
      windows_on(state, end, args.slot) != 0) {
    return {};
  }
  if ((what & IBV_REREG_MR_CHANGE_PD) != 0) args.pd = step.index(Arg::kPd) % kPds;
  if ((what & IBV_REREG_MR_CHANGE_ACCESS) != 0) args.access = step.bits(Arg::kAccess);
  if ((what & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    args.mem = static_cast<int>(step[Arg::kMem] % kHostMems);
    confine(args, step);
    args.iova =
        addresses_.at(step.index(Arg::kEnd)).at(static_cast<std::size_t>(args.mem)) + args.off;
  }
  return args;
}

std::optional<QpArgs> Book::qp_args(const Step& step, int end) const {
  static constexpr std::array<const char*, kConnTypes> kNeeds{"rc", "uc", "ud", "xrc"};
  const auto type = static_cast<std::size_t>(step[Arg::kType] % kConnTypes);
  if (!can(kNeeds.at(type))) return {};
  const bool srq = step.on(Arg::kSrq) && can("srq") && type == kRc;
  return QpArgs{.conn = step.index(Arg::kConn),
                .type = static_cast<std::int64_t>(type),
                .pd = (step.index(Arg::kPd) >> end) & 1U,
                .access = step.bits(end == 0 ? Arg::kAccess : Arg::kPeer),
                .srq = srq,
                .mtu = step.on(Arg::kMtu) ? IBV_MTU_1024 : IBV_MTU_256};
}

ibv_sge Book::local_sge(const Step& step) {
  const int end = static_cast<int>(step[Arg::kEnd]);
  const std::size_t slot = step.index(Arg::kSlot);
  const Region& mr = region(end, slot);
  std::uint32_t lkey = mr.lkey;
  const std::vector<KnownKey>& known = keys(false, end, slot);
  switch (step[Arg::kLkey]) {
    case 1:
      lkey ^= 0x5a;
      break;
    case 2:
      lkey = window(end, slot).live ? window(end, slot).key : lkey ^ 0x3c;
      break;
    case 3:
      lkey = known.size() > 1 ? known[known.size() - 2].lkey : lkey ^ 0x81;
      break;
    default:
      break;
  }
  return {.addr = mr.iova + static_cast<std::uint64_t>(step[Arg::kOff]),
          .length = std::min(static_cast<std::uint32_t>(step.index(Arg::kLen)), kMemSize),
          .lkey = lkey};
}

bool Book::set_local(const Step& step, Request& r) {
  const Region& mr = region(r.end, step.index(Arg::kSlot));
  if (r.verb == Verb::kFlush || r.verb == Verb::kAtomicWrite) {
    r.length = r.verb == Verb::kFlush ? static_cast<std::uint32_t>(step.index(Arg::kLen)) : 8;
    return true;
  }
  if (!mr.live) return false;
  ibv_sge sge = local_sge(step);
  if (is_atomic(r.verb)) sge.length = 8;
  r.length = sge.length;
  const std::int64_t at = std::int64_t{mr.off} + step[Arg::kOff];
  if (step.on(Arg::kInline) && can("inline") && !is_fetch(r.verb) && mr.mem != kDeviceMem &&
      r.length <= 64 && at >= 0 && at + r.length <= mem_size(mr.mem)) {
    r.inline_mem = mr.mem;
    r.inline_off = static_cast<std::uint32_t>(at);
    r.flags |= IBV_SEND_INLINE;
    return true;
  }
  const auto split = static_cast<std::uint32_t>(step.index(Arg::kSplit));
  if (sge.length == 0) return true;
  r.sge[0] = sge;
  r.num_sge = 1;
  if (split != 0 && split < sge.length && !is_atomic(r.verb)) {
    r.sge[0].length = split;
    r.sge[1] = {.addr = sge.addr + split, .length = sge.length - split, .lkey = sge.lkey};
    r.num_sge = 2;
  }
  return true;
}

// Whether an invalidation names a free window, which crashes Soft-RoCE.
bool Book::names_free_window(const Request& r) const {
  const int end = r.verb == Verb::kInvalidate ? r.end : 1 - r.end;
  return std::ranges::any_of(state.windows.at(static_cast<std::size_t>(end)), [&](const Window& w) {
    return w.live && w.type == 2 && !w.bound && w.key >> 8 == r.rkey >> 8;
  });
}

bool Book::set_key(const Step& step, Request& r) {
  if (r.verb == Verb::kSend || r.verb == Verb::kSendImm) return true;
  const bool own = step.on(Arg::kWhose) != (r.verb == Verb::kInvalidate);
  const std::vector<KnownKey>& known =
      keys(step.on(Arg::kOf), own ? r.end : 1 - r.end, step.index(Arg::kKey));
  const std::size_t age = step.index(Arg::kAge);
  if (known.size() <= age) return false;
  const KnownKey& key = known[known.size() - 1 - age];
  r.rkey = key.key ^ (step.bits(Arg::kLow) & 0xffU);
  if ((r.verb == Verb::kInvalidate || r.verb == Verb::kSendInv) && !can("risky") &&
      names_free_window(r)) {
    return false;
  }
  r.raddr = (step.on(Arg::kTop) ? 0 : key.base) + static_cast<std::uint64_t>(step[Arg::kAt]);
  return true;
}

bool Book::set_bind(const Step& step, Request& r) {
  r.window = step.index(Arg::kKey);
  r.region = step.index(Arg::kSlot);
  const Window& w = window(r.end, r.window);
  const Region& mr = region(r.end, r.region);
  if (!w.live || !mr.live) return false;
  if (mr.mem == kDeviceMem && !can("dm-windows")) return false;
  const bool zero = step.on(Arg::kZero) && can(w.type == 1 ? "zero-based-1" : "zero-based-2");
  r.addr = (step.on(Arg::kTop) ? 0 : mr.iova) + static_cast<std::uint64_t>(step[Arg::kAt]);
  r.bind_length = step.index(Arg::kLen);
  // libibverbs may compare the PDs although no region is bound.
  if (r.bind_length == 0 && w.type == 1 && (!can("unbind") || mr.pd != w.pd)) return false;
  r.rights =
      (step.bits(Arg::kAccess) & kWindowRights) | (zero ? unsigned{IBV_ACCESS_ZERO_BASED} : 0U);
  r.forge = can("forge") ? static_cast<int>(step[Arg::kForge]) : 0;
  if (r.forge == 2 && w.type == 2) r.forge = 0;
  r.old_key = keys(true, r.end, r.window).back().key;
  r.new_key = (w.key & ~0xffU) | (step.bits(Arg::kVariant) & 0xffU);
  return true;
}

std::optional<Request> Book::request(const Step& step) {
  Request r{
      .verb = step.verb, .end = static_cast<int>(step[Arg::kEnd]), .conn = step.index(Arg::kConn)};
  const Conn& c = conn(r.conn);
  if (!c.up) return {};
  if (c.type == kXrc && r.end == 1) return {};
  if (c.type == kUd && r.verb != Verb::kSend && r.verb != Verb::kSendImm) return {};
  if (c.type == kUc &&
      (is_fetch(r.verb) || r.verb == Verb::kAtomicWrite || r.verb == Verb::kFlush)) {
    return {};
  }
  if (c.type == kUc && (r.verb == Verb::kSendInv || r.verb == Verb::kInvalidate) &&
      !can("uc-inv")) {
    return {};
  }
  if ((is_local(r.verb) || r.verb == Verb::kSendInv) && !can("windows")) return {};
  if (c.type == kUc && r.verb == Verb::kBind && !can("uc-bind")) return {};
  if (is_atomic(r.verb) && !can("atomics")) return {};
  if (r.verb == Verb::kFlush && !can("flush")) return {};
  if (r.verb == Verb::kAtomicWrite && !can("atomic-write")) return {};
  r.flags = IBV_SEND_SIGNALED;
  if (step.on(Arg::kFence) && c.reliable()) r.flags |= IBV_SEND_FENCE;
  if (step.on(Arg::kSolicited) && takes_receive(r.verb)) r.flags |= IBV_SEND_SOLICITED;
  r.api_wr =
      r.verb == Verb::kFlush || r.verb == Verb::kAtomicWrite || (step.on(Arg::kApi) && can("wr"));
  if (r.verb == Verb::kBind) {
    if (!set_bind(step, r)) return {};
  } else {
    if (r.verb != Verb::kInvalidate && !set_local(step, r)) return {};
    if (!set_key(step, r)) return {};
  }
  r.compare_add = operand(step[Arg::kValue]);
  r.swap = operand(step[Arg::kValue] + 1);
  r.id = next_id_++;
  r.imm = static_cast<std::uint32_t>(r.id * 2654435761U);
  return r;
}

std::optional<Receive> Book::receive(const Step& step) {
  const int end = static_cast<int>(step[Arg::kEnd]);
  const std::size_t slot = step.index(Arg::kConn);
  const Conn& c = conn(slot);
  if (!c.up || (c.type == kXrc && end == 0)) return {};
  if (receives(slot, end).size() >= 16) return {};
  Receive r{.pd = c.srq || c.type == kXrc ? 0 : queue(slot, end).pd,
            .header = c.type == kUd ? 40U : 0U};
  if (step.on(Arg::kLen)) {
    if (!region(end, step.index(Arg::kSlot)).live) return {};
    r.sge[0] = local_sge(step);
    r.num_sge = 1;
    const auto split = static_cast<std::uint32_t>(step.index(Arg::kSplit));
    if (split != 0 && split < r.sge[0].length) {
      r.sge[1] = r.sge[0];
      r.sge[0].length = split;
      r.sge[1].addr += split;
      r.sge[1].length -= split;
      r.num_sge = 2;
    }
  }
  r.id = next_id_++;
  return r;
}

void Book::made_region(int end, const RegionArgs& args, const Keys& made) {
  region(end, args.slot) = {.live = true,
                            .pd = args.pd,
                            .access = args.access,
                            .mem = args.mem,
                            .off = args.off,
                            .len = args.len,
                            .iova = args.iova,
                            .lkey = made.lkey,
                            .rkey = made.rkey};
  keys(false, end, args.slot)
      .push_back({.key = made.rkey, .lkey = made.lkey, .base = args.iova, .len = args.len});
}

void Book::made_window(int end, std::size_t slot, int type, std::size_t pd, std::uint32_t key) {
  window(end, slot) = {.live = true, .type = type, .pd = pd, .key = key};
  keys(true, end, slot).push_back({.key = key});
}

void Book::made_conn(const Step& step) {
  Conn& c = conn(step.index(Arg::kConn));
  c = {.up = true, .dead = true};
  for (int end = 0; end < kEnds; end++) {
    const QpArgs args = qp_args(step, end).value();
    c.type = args.type;
    c.srq = args.srq;
    c.mtu = args.mtu == IBV_MTU_256 ? 256 : 1024;
    c.ends.at(static_cast<std::size_t>(end)) = {.pd = args.type == kXrc && end == 1 ? 0 : args.pd,
                                                .access = args.access,
                                                .id = next_queue_++};
  }
}

void Book::posted(const Request& r, std::uint32_t new_key) {
  if (r.verb != Verb::kBind) return;
  const Region& mr = region(r.end, r.region);
  const std::uint64_t base = (r.rights & IBV_ACCESS_ZERO_BASED) != 0 ? 0
                             : r.bind_length != 0                    ? r.addr
                                                                     : mr.iova;
  keys(true, r.end, r.window)
      .push_back({.key = new_key, .base = base, .len = static_cast<std::uint32_t>(r.bind_length)});
}

void Book::forget_key(const Request& r) {
  std::vector<KnownKey>& known = keys(true, r.end, r.window);
  if (known.size() > 1) known.pop_back();
}

std::array<std::vector<std::size_t>, kEnds> Book::restart(std::size_t slot) {
  std::array<std::vector<std::size_t>, kEnds> dead;
  Conn& c = conn(slot);
  for (std::size_t end = 0; end < kEnds; end++) {
    for (std::size_t i = 0; i < kWindows; i++) {
      const Window& w = state.windows.at(end).at(i);
      if (w.live && w.bound && w.type == 2 && w.owner == c.ends.at(end).id)
        dead.at(end).push_back(i);
    }
    c.ends.at(end).id = next_queue_++;
    c.ends.at(end).failed = false;
    if (!c.srq && c.type != kXrc) receives(slot, static_cast<int>(end)).clear();
  }
  c.dead = false;
  return dead;
}

}  // namespace guest::generator
