// SPDX-License-Identifier: GPL-2.0-or-later
// Accesses that a window does not allow. The windows begin 4 bytes before a multiple of 8 and end
// one byte before one, so that aligned atomics can cross both ends.
#include "tests/window_rules.h"

#include <utility>

namespace tern {

namespace {

constexpr std::uint64_t kBytes = WindowWorld::kBytes;
constexpr std::uint64_t kInside = 4;  // aligned for an atomic

constexpr std::uint64_t before(std::uint64_t bytes) { return std::uint64_t{0} - bytes; }

std::string refused_at(WindowWorld& w, Op3 op, const TestMw& mw, std::uint64_t at,
                       std::uint32_t len) {
  return w.refused(w.link(), w.access(op, mw.view, at, len));
}

TestMw zero_based(WindowWorld& w) { return w.window(kWindowAccess | TERN_ACCESS_ZERO_BASED); }

// A window that ends at the last 64-bit address; its region does not fill its last page.
TestMw at_the_end(WindowWorld& w) {
  const std::uint64_t length = 8092;
  const TestMr& mr = w.b.reg(length, {.pd = w.pd, .access = kBindable, .iova = before(length)});
  TestMw mw = w.make_mw();
  w.bound(mw, mr, length - kBytes, kBytes);
  return mw;
}

std::vector<RuleCase> who_cases() {
  const std::vector<MwKind> by_pd = {MwKind::kType1, MwKind::kType2B};
  const auto foreign = [](WindowWorld& w, Op3 op) {
    const TestMw mw = w.window();
    return w.refused(w.foreign(), w.access(op, mw.view, kInside, 64));
  };
  return {
      {"QpOfAnotherPd", Rule::kMwPd, by_pd, kOwnPath, kAnyOp, foreign},
      {"SrqOfAnotherPd", Rule::kMwPd, kType1, {Path::kXrc}, kAnyOp, foreign},
      {"QpOfAnotherPdAndNumber", Rule::kMwQp, {MwKind::kType2A}, kOwnPath, kAnyOp, foreign},
      {"AnotherQpOfThePd", Rule::kMwQp, kType2, kOwnPath, kAnyOp,
       [](WindowWorld& w, Op3 op) {
         const TestMw mw = w.window();
         return w.refused(w.second(), w.access(op, mw.view, kInside, 64));
       }},
      {"TargetOfTheDomain",
       Rule::kMwQp,
       kType2,
       {Path::kXrc},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         const TestMw mw = w.window();
         return w.refused(w.link(), w.access(op, mw.view, kInside, 64));
       }},
      {"QpAfterReset", Rule::kMwQp, kType2, kOwnPath, kAnyOp,
       [](WindowWorld& w, Op3 op) {
         const TestMw mw = w.window();
         w.reconnect(w.link());
         return refused_at(w, op, mw, kInside, 64);
       }},
  };
}

// No peer can use a type 2 window over XRC, so other rules can be seen there with type 1 only.
std::vector<RuleCase> both(const RuleCase& c) {
  RuleCase own = c;
  own.paths = kOwnPath;
  RuleCase xrc = c;
  xrc.paths = {Path::kXrc};
  std::erase_if(xrc.kinds, [](MwKind k) { return k != MwKind::kType1; });
  return {own, xrc};
}

std::vector<RuleCase> range_cases() {
  return {
      {"OneByteBelow",
       Rule::kMwLow,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         return refused_at(w, op, w.window(), before(op == Op3::kAtomic ? 12 : 1), 1);
       }},
      {"AcrossTheLowEnd",
       Rule::kMwLow,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         return refused_at(w, op, w.window(), before(op == Op3::kAtomic ? 4 : 1), 2);
       }},
      {"OneByteAbove",
       Rule::kMwHigh,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         return refused_at(w, op, w.window(), kBytes + (op == Op3::kAtomic), 1);
       }},
      {"AcrossTheHighEnd",
       Rule::kMwHigh,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         return refused_at(w, op, w.window(), kBytes - (op == Op3::kAtomic ? 7 : 1), 2);
       }},
      {"AllAndOneByteMore",
       Rule::kMwHigh,
       kAnyKind,
       {},
       {Op3::kWrite, Op3::kRead},
       [](WindowWorld& w, Op3 op) { return refused_at(w, op, w.window(), 0, kBytes + 1); }},
      {"ZeroBasedOneByteAbove",
       Rule::kMwHigh,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         return refused_at(w, op, zero_based(w), kBytes + (op == Op3::kAtomic ? 5 : 0), 1);
       }},
      {"ZeroBasedAcrossTheEnd",
       Rule::kMwHigh,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         return refused_at(w, op, zero_based(w), kBytes - (op == Op3::kAtomic ? 3 : 1), 2);
       }},
      {"ZeroBasedOneByteBelow",
       Rule::kMwHigh,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         return refused_at(w, op, zero_based(w), before(op == Op3::kAtomic ? 8 : 1), 1);
       }},
      {"ZeroBasedByTheRegionsAddress",
       Rule::kMwHigh,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         return refused_at(w, op, zero_based(w), w.mr.iova + WindowWorld::kFirst + kInside, 8);
       }},
      {"ZeroBasedAcrossZero",
       Rule::kMwWrap,
       kAnyKind,
       {},
       {Op3::kWrite, Op3::kRead},
       [](WindowWorld& w, Op3 op) { return refused_at(w, op, zero_based(w), before(2), 4); }},
      {"AcrossTheLastAddress",
       Rule::kMwWrap,
       kAnyKind,
       {},
       {Op3::kWrite, Op3::kRead},
       [](WindowWorld& w, Op3 op) { return refused_at(w, op, at_the_end(w), kBytes - 2, 4); }},
  };
}

template <std::uint32_t Lacking>
std::string lacking(WindowWorld& w, Op3 op) {
  return refused_at(w, op, w.window(kWindowAccess & ~Lacking), kInside, 64);
}

std::vector<RuleCase> right_cases() {
  return {
      {"NoRemoteRead", Rule::kMwRead, kAnyKind, {}, {Op3::kRead}, lacking<TERN_ACCESS_REMOTE_READ>},
      {"NoRemoteWrite",
       Rule::kMwWrite,
       kAnyKind,
       {},
       {Op3::kWrite},
       lacking<TERN_ACCESS_REMOTE_WRITE>},
      {"NoRemoteAtomic",
       Rule::kMwAtomic,
       kAnyKind,
       {},
       {Op3::kAtomic},
       lacking<TERN_ACCESS_REMOTE_ATOMIC>},
      {"RegionLostLocalWrite",
       Rule::kMwMrWrite,
       kAnyKind,
       {},
       {Op3::kWrite, Op3::kAtomic},
       [](WindowWorld& w, Op3 op) {
         const TestMw mw = w.window();
         EXPECT_EQ(w.b.rereg(w.mr, TERN_REREG_ACCESS,
                             {.access = TERN_ACCESS_REMOTE_READ | TERN_ACCESS_MW_BIND}),
                   TERN_ST_OK);
         return refused_at(w, op, mw, kInside, 64);
       }},
      // The local write right of a window gives the peer no right.
      {"LocalWriteIsNone",
       Rule::kMwWrite,
       kAnyKind,
       {},
       {Op3::kWrite},
       [](WindowWorld& w, Op3 op) {
         return refused_at(w, op, w.window(TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_READ),
                           kInside, 64);
       }},
  };
}

// Operations that UC does not have. No peer can use a type 2 window over XRC.
std::vector<RuleCase> answered_cases() {
  std::vector<RuleCase> all;
  for (const auto& [kinds, path] :
       {std::pair{kAnyKind, Path::kRc}, std::pair{kType1, Path::kXrc}}) {
    all.push_back({"Flush", Rule::kMwFlush, kinds, {path}, kNoOp, [](WindowWorld& w, Op3) {
                     return w.refused(w.link(), flush(w.window().view, kInside, 64));
                   }});
    all.push_back({"NoRemoteWriteForAtomicWrite",
                   Rule::kMwWrite,
                   kinds,
                   {path},
                   kNoOp,
                   [](WindowWorld& w, Op3) {
                     const TestMw mw = w.window(kWindowAccess & ~TERN_ACCESS_REMOTE_WRITE);
                     return w.refused(w.link(), atomic_write(~std::uint64_t{0}, mw.view, kInside));
                   }});
  }
  return all;
}

void invalidate(WindowWorld& w, const TestMw& mw) {
  w.link().binder->post(local_inv(mw.view.key));
  EXPECT_EQ(w.wait_bind(w.link()).status, TERN_CQE_SUCCESS);
}

std::vector<RuleCase> state_cases() {
  return {
      {"KeyBeforeTheRebind",
       Rule::kMwVariant,
       kType1,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         TestMw mw = w.window();
         const TestMw old = mw;
         w.bound(mw, w.mr);
         return refused_at(w, op, old, kInside, 64);
       }},
      {"KeyBeforeTheNextBind",
       Rule::kMwVariant,
       kType2,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         TestMw mw = w.window();
         const TestMw old = mw;
         invalidate(w, mw);
         w.bound(mw, w.mr);
         return refused_at(w, op, old, kInside, 64);
       }},
      {"VariantThatNeverWas",
       Rule::kMwVariant,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         TestMw mw = w.window();
         mw.view.key = with_variant(mw.view.key, mw.view.key + 0x80);
         return refused_at(w, op, mw, kInside, 64);
       }},
      {"AfterUnbind",
       Rule::kMwUnbound,
       kType1,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         TestMw mw = w.window();
         w.link().binder->post(unbind(mw));
         EXPECT_EQ(w.wait_bind(w.link()).status, TERN_CQE_SUCCESS);
         return refused_at(w, op, mw, kInside, 64);
       }},
      {"AfterLocalInvalidation",
       Rule::kMwUnbound,
       kType2,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         const TestMw mw = w.window();
         invalidate(w, mw);
         return refused_at(w, op, mw, kInside, 64);
       }},
      {"AfterRemoteInvalidation",
       Rule::kMwUnbound,
       kType2,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         const TestMw mw = w.window();
         w.post_recv(w.link());
         w.link().peer->post(send_inv({}, mw.view.key));
         EXPECT_EQ(w.link().peer->wait_send().status, TERN_CQE_SUCCESS);
         EXPECT_EQ(w.link().recv_cq->wait().status, TERN_CQE_SUCCESS);
         return refused_at(w, op, mw, kInside, 64);
       }},
      {"NeverBound",
       Rule::kNone,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         TestMw mw = w.make_mw();
         mw.view.iova = w.mr.iova + WindowWorld::kFirst;
         return refused_at(w, op, mw, kInside, 64);
       }},
      {"Freed",
       Rule::kNone,
       kAnyKind,
       {},
       kAnyOp,
       [](WindowWorld& w, Op3 op) {
         const TestMw mw = w.window();
         EXPECT_EQ(free_mw(w.b, mw.view.key), TERN_ST_OK);
         return refused_at(w, op, mw, kInside, 64);
       }},
  };
}

}  // namespace

std::vector<RuleCase> access_cases() {
  std::vector<RuleCase> all = who_cases();
  for (const auto& cases : {range_cases(), right_cases(), state_cases()}) {
    for (const RuleCase& c : cases) {
      for (RuleCase& on_path : both(c)) all.push_back(std::move(on_path));
    }
  }
  for (RuleCase& c : answered_cases()) all.push_back(std::move(c));
  return all;
}

}  // namespace tern
