// SPDX-License-Identifier: GPL-2.0-or-later
// Binds that are refused.
#include "tests/window_rules.h"

namespace tern {

namespace {

constexpr std::uint64_t kLength = WindowWorld::kLength;
constexpr std::uint64_t kBelow = UINT64_MAX;  // one byte before the region
constexpr std::uint64_t kWraps = std::uint64_t{0} - 50;

// A bind of a window that was never bound, modified by `change`.
template <class F>
std::string refused_if(WindowWorld& w, const TestMr& mr, std::uint64_t offset, std::uint64_t length,
                       std::uint32_t access, F&& change) {
  TestMw mw = w.make_mw();
  const std::uint32_t key = mw.view.key;
  SendWr wr = bind(mw, mr, offset, length, access);
  change(wr.bind);
  return w.bind_refused(w.link(), wr, key);
}

std::string refused(WindowWorld& w, const TestMr& mr, std::uint64_t offset, std::uint64_t length,
                    std::uint32_t access = kWindowAccess) {
  return refused_if(w, mr, offset, length, access, [](tern_bind_seg&) {});
}

template <std::uint64_t Offset, std::uint64_t Length, std::uint32_t More>
std::string range(WindowWorld& w, Op3) {
  return refused(w, w.mr, Offset, Length, kWindowAccess | More);
}

template <std::uint64_t Offset, std::uint64_t Length>
std::string range_from_zero(WindowWorld& w, Op3) {
  return refused(w, reg_zero_based(w.b, kLength, w.pd), Offset, Length);
}

const TestMr& region(WindowWorld& w, std::uint32_t access, std::uint32_t pd = 0) {
  return w.b.reg(kLength, {.pd = pd ? pd : w.pd, .access = access});
}

constexpr std::uint32_t kZb = TERN_ACCESS_ZERO_BASED;

std::vector<RuleCase> range_cases() {
  return {
      {"BindOneByteBelow", Rule::kBindRange, kAnyKind, kAnyPath, kNoOp, range<kBelow, 2, 0>},
      {"BindBelow", Rule::kBindRange, kAnyKind, kAnyPath, kNoOp, range<kBelow, 1, kZb>},
      {"BindOneByteAbove", Rule::kBindRange, kAnyKind, kAnyPath, kNoOp, range<kLength - 10, 11, 0>},
      {"BindAllAndOneByteMore", Rule::kBindRange, kAnyKind, kAnyPath, kNoOp,
       range<0, kLength + 1, kZb>},
      {"BindBehind", Rule::kBindRange, kAnyKind, kAnyPath, kNoOp, range<kLength, 1, 0>},
      {"BindFromZeroOneByteAbove", Rule::kBindRange, kAnyKind, kAnyPath, kNoOp,
       range_from_zero<kLength - 10, 11>},
      {"BindWraps", Rule::kBindWrap, kAnyKind, kAnyPath, kNoOp, range<100, kWraps, 0>},
      {"BindZeroBasedWraps", Rule::kBindWrap, kAnyKind, kAnyPath, kNoOp, range<100, kWraps, kZb>},
      {"BindFromZeroWraps", Rule::kBindWrap, kAnyKind, kAnyPath, kNoOp,
       range_from_zero<100, kWraps>},
  };
}

std::vector<RuleCase> region_cases() {
  constexpr std::uint32_t kReadable = TERN_ACCESS_REMOTE_READ | TERN_ACCESS_MW_BIND;
  return {
      {"RegionOfAnotherPd", Rule::kBindMrPd, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) { return refused(w, region(w, kBindable, w.other_pd), 0, 64); }},
      {"RegionWithoutMwBind", Rule::kBindMrRight, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) { return refused(w, region(w, kAllAccess), 0, 64); }},
      {"WriteWithoutLocalWrite", Rule::kBindLocalWrite, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused(w, region(w, kReadable), 0, 64, TERN_ACCESS_REMOTE_WRITE);
       }},
      {"AtomicWithoutLocalWrite", Rule::kBindLocalWrite, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused(w, region(w, kReadable), 0, 64, TERN_ACCESS_REMOTE_ATOMIC);
       }},
      {"NoRegion", Rule::kNone, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused_if(w, w.mr, 0, 64, kWindowAccess, [](auto& s) { s.lkey = 0; });
       }},
      {"AllOfTheHostsMemory", Rule::kNone, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused_if(w, w.mr, 0, 64, kWindowAccess,
                           [](auto& s) { s.lkey = le(std::uint32_t{TERN_LKEY_DMA}); });
       }},
      {"RegionsOtherVariant", Rule::kNone, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused_if(w, w.mr, 0, 64, kWindowAccess,
                           [](auto& s) { s.lkey = le(le(std::uint32_t{s.lkey}) ^ 1); });
       }},
      {"WindowInAWindow", Rule::kNone, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         const TestMw outer = w.window();
         return refused(w, outer.view, 0, 64);
       }},
      {"ClosedRegion", Rule::kNone, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) { return refused(w, w.b.alloc_fast(1, w.pd).mr, 0, 64); }},
      {"EmptyRegion", Rule::kBindRange, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused(w, w.b.reg(0, {.pd = w.pd, .access = kBindable}), 0, 1);
       }},
  };
}

std::vector<RuleCase> window_cases() {
  return {
      {"WindowOfAnotherPd", Rule::kBindQpPd, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         TestMw mw = w.make_mw(w.other_pd);
         const std::uint32_t key = mw.view.key;
         return w.bind_refused(w.link(), bind(mw, w.mr, 0, 64), key);
       }},
      {"BoundAlready", Rule::kBindFree, kType2, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         TestMw mw = w.window();
         const std::uint32_t key = mw.view.key;
         return w.bind_refused(w.link(), bind(mw, w.mr, 0, 64), key);
       }},
      {"VerbOfTheOtherType", Rule::kBindType, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused_if(w, w.mr, 0, 64, kWindowAccess,
                           [](auto& s) { s.type = static_cast<std::uint8_t>(3 - s.type); });
       }},
      {"TypeZero", Rule::kBindType, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused_if(w, w.mr, 0, 64, kWindowAccess, [](auto& s) { s.type = 0; });
       }},
      {"ZeroLength", Rule::kBindZeroLength, kType2, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) { return refused(w, w.mr, 0, 0); }},
      {"ZeroLengthAndNoRegion", Rule::kBindZeroLength, kType2, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused_if(w, w.mr, 0, 0, 0, [](auto& s) { s.lkey = 0; });
       }},
      {"StaleKey", Rule::kBindKey, kType1, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         TestMw mw = w.window();
         TestMw stale = mw;
         w.bound(mw, w.mr);
         return w.bind_refused(w.link(), bind(stale, w.mr, 0, 64), mw.view.key);
       }},
      {"StaleKeyOfAnUnbind", Rule::kBindKey, kType1, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         TestMw mw = w.window();
         TestMw stale = mw;
         w.bound(mw, w.mr);
         return w.bind_refused(w.link(), unbind(stale), mw.view.key);
       }},
      {"NewKeyOfAnotherIndex", Rule::kBindKey, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         const TestMw other = w.make_mw();
         return refused_if(w, w.mr, 0, 64, kWindowAccess,
                           [&](auto& s) { s.new_rkey = le(other.view.key); });
       }},
      {"RegionsKey", Rule::kNone, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         TestMw mw = w.make_mw();
         mw.view.key = w.mr.key;
         return w.bind_refused(w.link(), bind(mw, w.mr, 0, 64), w.mr.key);
       }},
  };
}

template <std::uint32_t Right>
std::string right(WindowWorld& w, Op3) {
  return refused(w, w.mr, 0, 64, kWindowAccess | Right);
}

std::vector<RuleCase> segment_cases() {
  return {
      {"RightToBind", Rule::kNone, kAnyKind, kAnyPath, kNoOp, right<TERN_ACCESS_MW_BIND>},
      {"RightToPageRequests", Rule::kNone, kAnyKind, kAnyPath, kNoOp, right<TERN_ACCESS_ON_DEMAND>},
      {"RightToFlush", Rule::kNone, kAnyKind, kAnyPath, kNoOp, right<TERN_ACCESS_FLUSH_GLOBAL>},
      {"RightThatIsNone", Rule::kNone, kAnyKind, kAnyPath, kNoOp, right<0x80000000>},
      {"ReservedByte", Rule::kNone, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         return refused_if(w, w.mr, 0, 64, kWindowAccess, [](auto& s) { s.rsvd_21[14] = 1; });
       }},
  };
}

}  // namespace

std::vector<RuleCase> bind_cases() {
  std::vector<RuleCase> all;
  for (const auto& cases : {range_cases(), region_cases(), window_cases(), segment_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace tern
