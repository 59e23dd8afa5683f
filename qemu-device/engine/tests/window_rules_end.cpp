// SPDX-License-Identifier: GPL-2.0-or-later
// What must not end a window, and changes to a region that a bound window prevents.
#include "tests/window_rules.h"

namespace tern {

namespace {

using Inv = std::string (*)(WindowWorld&, Link&, std::uint32_t key, std::uint32_t look);

std::string local(WindowWorld& w, Link& over, std::uint32_t key, std::uint32_t look) {
  return w.local_inv_refused(over, key, look);
}
std::string remote(WindowWorld& w, Link& over, std::uint32_t key, std::uint32_t look) {
  return w.remote_inv_refused(over, key, look);
}

template <Inv inv>
std::string free_window(WindowWorld& w, Op3) {
  const std::uint32_t key = w.make_mw().view.key;
  return inv(w, w.link(), key, key);
}

template <Inv inv>
std::string twice(WindowWorld& w, Op3) {
  const std::uint32_t key = w.window().view.key;
  w.link().binder->post(local_inv(key));
  EXPECT_EQ(w.wait_bind(w.link()).status, TERN_CQE_SUCCESS);
  return inv(w, w.link(), key, key);
}

template <Inv inv>
std::string bound_window(WindowWorld& w, Op3) {
  const std::uint32_t key = w.window().view.key;
  return inv(w, w.link(), key, key);
}

template <Inv inv>
std::string other_variant(WindowWorld& w, Op3) {
  const std::uint32_t key = w.window().view.key;
  return inv(w, w.link(), key ^ 1, key);
}

template <Inv inv>
std::string another_qp(WindowWorld& w, Op3) {
  const std::uint32_t key = w.window().view.key;
  return inv(w, w.second(), key, key);
}

template <Inv inv>
std::string another_pd(WindowWorld& w, Op3) {
  const std::uint32_t key = w.window().view.key;
  return inv(w, w.foreign(), key, key);
}

template <Inv inv>
std::string after_reset(WindowWorld& w, Op3) {
  const std::uint32_t key = w.window().view.key;
  w.reconnect(w.link());
  return inv(w, w.link(), key, key);
}

template <Inv inv>
std::string region(WindowWorld& w, Op3) {
  return inv(w, w.link(), w.mr.key, w.mr.key);
}

template <Inv inv>
std::string freed(WindowWorld& w, Op3) {
  const std::uint32_t key = w.window().view.key;
  EXPECT_EQ(free_mw(w.b, key), TERN_ST_OK);
  return inv(w, w.link(), key, 0);
}

template <Inv inv>
std::string region_with_window(WindowWorld& w, Op3) {
  FastMr fast = w.b.alloc_fast(2, w.pd);
  w.link().binder->post(reg_mr(fast, kBindable));
  EXPECT_EQ(w.wait_bind(w.link()).status, TERN_CQE_SUCCESS);
  TestMw mw = w.make_mw();
  w.bound(mw, fast.mr, 100, 100);
  return inv(w, w.link(), fast.mr.key, fast.mr.key);
}

std::vector<RuleCase> local_cases() {
  return {
      {"LocalInvOfAFreeWindow", Rule::kInvFree, kType2, kAnyPath, kNoOp, free_window<local>},
      {"LocalInvTwice", Rule::kInvFree, kType2, kAnyPath, kNoOp, twice<local>},
      {"LocalInvOfType1", Rule::kInvType, kType1, kAnyPath, kNoOp, bound_window<local>},
      {"LocalInvOfUnboundType1", Rule::kInvType, kType1, kAnyPath, kNoOp, free_window<local>},
      {"LocalInvOfAnotherVariant", Rule::kInvVariant, kType2, kAnyPath, kNoOp,
       other_variant<local>},
      {"LocalInvByAnotherQp", Rule::kInvQp, kType2, kAnyPath, kNoOp, another_qp<local>},
      {"LocalInvByAnotherQpAndPd",
       Rule::kInvQp,
       {MwKind::kType2A},
       kAnyPath,
       kNoOp,
       another_pd<local>},
      {"LocalInvAfterReset", Rule::kInvQp, kType2, kOwnPath, kNoOp, after_reset<local>},
      {"LocalInvByAnotherPd", Rule::kInvPd, {MwKind::kType2B}, kAnyPath, kNoOp, another_pd<local>},
      {"LocalInvOfARegion", Rule::kNone, kAnyKind, kAnyPath, kNoOp, region<local>},
      {"LocalInvOfAFreedWindow", Rule::kNone, kAnyKind, kAnyPath, kNoOp, freed<local>},
      {"LocalInvOfARegionWithAWindow", Rule::kInvMrBound, kAnyKind, kAnyPath, kNoOp,
       region_with_window<local>},
  };
}

// An XRC target never is the QP that bound the window and refuses for that reason. Such a refusal
// says nothing about other rules, so cases of rules that are checked later do not run over XRC.
std::vector<RuleCase> remote_cases() {
  return {
      {"RemoteInvOfAFreeWindow", Rule::kInvFree, kType2, kAnyPath, kNoOp, free_window<remote>},
      {"RemoteInvTwice", Rule::kInvFree, kType2, kAnyPath, kNoOp, twice<remote>},
      {"RemoteInvOfType1", Rule::kInvType, kType1, kAnyPath, kNoOp, bound_window<remote>},
      {"RemoteInvOfUnboundType1", Rule::kInvType, kType1, kAnyPath, kNoOp, free_window<remote>},
      {"RemoteInvOfAnotherVariant", Rule::kInvVariant, kType2, kOwnPath, kNoOp,
       other_variant<remote>},
      {"RemoteInvToAnotherQp", Rule::kInvQp, kType2, kAnyPath, kNoOp, another_qp<remote>},
      {"RemoteInvToTheTarget", Rule::kInvQp, kType2, {Path::kXrc}, kNoOp, bound_window<remote>},
      {"RemoteInvToAnotherQpAndPd",
       Rule::kInvQp,
       {MwKind::kType2A},
       kAnyPath,
       kNoOp,
       another_pd<remote>},
      {"RemoteInvAfterReset", Rule::kInvQp, kType2, kOwnPath, kNoOp, after_reset<remote>},
      {"RemoteInvToAnotherPd",
       Rule::kInvPd,
       {MwKind::kType2B},
       kAnyPath,
       kNoOp,
       another_pd<remote>},
      {"RemoteInvOfARegion", Rule::kNone, kAnyKind, kAnyPath, kNoOp, region<remote>},
      {"RemoteInvOfAFreedWindow", Rule::kNone, kAnyKind, kAnyPath, kNoOp, freed<remote>},
      {"RemoteInvOfARegionWithAWindow", Rule::kInvMrBound, kAnyKind, kAnyPath, kNoOp,
       region_with_window<remote>},
  };
}

std::string destroy_is_busy(WindowWorld& w) {
  const Status st = w.b.command(TERN_CMD_DESTROY_MR, tern_cmd_object{le(w.mr.key), 0});
  return WindowWorld::unless(st == TERN_ST_BUSY, "the region could be destroyed");
}

std::vector<RuleCase> region_cases() {
  return {
      {"RegionIsBusy", Rule::kMrBusy, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         (void)w.window();
         return destroy_is_busy(w);
       }},
      {"RegionIsBusyWithoutTheQp", Rule::kMrBusy, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         (void)w.window();
         w.b.destroy(*w.link().binder);
         return destroy_is_busy(w);
       }},
      {"RegionIsBusyForOtherMemory",
       Rule::kMrBusy,
       kAnyKind,
       {Path::kRc},
       kNoOp,
       [](WindowWorld& w, Op3) {
         (void)w.window();
         const Status st = w.b.rereg(w.mr, TERN_REREG_TRANS | TERN_REREG_ACCESS,
                                     {.access = kBindable}, WindowWorld::kLength);
         return WindowWorld::unless(st == TERN_ST_BUSY, "the region moved");
       }},
      {"RegionIsBusyForAnotherPd",
       Rule::kMrBusy,
       kAnyKind,
       {Path::kRc},
       kNoOp,
       [](WindowWorld& w, Op3) {
         (void)w.window();
         const Status st = w.b.rereg(w.mr, TERN_REREG_PD, {.pd = w.other_pd});
         return WindowWorld::unless(st == TERN_ST_BUSY, "the region changed its PD");
       }},
      {"RegionIsBusyWhileOneOfTwoIsBound", Rule::kMrBusy, kAnyKind, kAnyPath, kNoOp,
       [](WindowWorld& w, Op3) {
         (void)w.window();
         const TestMw mw = w.window();
         EXPECT_EQ(free_mw(w.b, mw.view.key), TERN_ST_OK);
         return destroy_is_busy(w);
       }},
  };
}

}  // namespace

std::vector<RuleCase> end_cases() {
  std::vector<RuleCase> all;
  for (const auto& cases : {local_cases(), remote_cases(), region_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace tern
