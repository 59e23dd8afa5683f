// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/key_rules.h"

#include <algorithm>
#include <cstdint>

namespace tern {

Rule KeyRules::bind(const Accessor& who, const tern_bind_seg& seg, const Window* window,
                    const Region* region) const {
  if (window == nullptr) return Rule::kKey;
  const Window& w = *window;
  const std::uint32_t key = le(std::uint32_t{seg.rkey});
  const std::uint32_t access = le(std::uint32_t{seg.access});
  // The binder of a type 2 window need not know its last variant.
  const bool named = (w.type == 2 || key == w.key) &&
                     (le(std::uint32_t{seg.new_rkey}) ^ key) >> TERN_KEY_INDEX_SHIFT == 0;
  const bool known = (access & ~kWindowRights) == 0 &&
                     std::ranges::all_of(seg.rsvd_21, [](std::uint8_t b) { return b == 0; });
  const Rule of_window = first_broken({
      {Rule::kBindType, seg.type == w.type},
      {Rule::kBindKey, named},
      {Rule::kBindFree, w.type == 1 || !w.bound},
      {Rule::kBindQpPd, w.pd == who.pd},
      {Rule::kFields, known},
  });
  const std::uint64_t length = le(std::uint64_t{seg.length});
  if (of_window != Rule::kNone) return of_window;
  if (length == 0) return first_broken({{Rule::kBindZeroLength, w.type == 1}});
  if (region == nullptr) return Rule::kKey;
  const std::uint64_t addr = le(std::uint64_t{seg.addr});
  const std::uint64_t last = addr + (length - 1);
  const bool inside =
      region->length != 0 && addr >= region->iova && last <= region->iova + (region->length - 1);
  return first_broken({
      {Rule::kMrClosed, region->open},
      {Rule::kBindMrPd, region->pd == who.pd},
      {Rule::kBindMrRight, (region->access & TERN_ACCESS_MW_BIND) != 0},
      {Rule::kBindLocalWrite,
       !(access & kRemoteChange) || (region->access & TERN_ACCESS_LOCAL_WRITE) != 0},
      {Rule::kBindWrap, last >= addr},
      {Rule::kBindRange, inside},
  });
}

Rule KeyRules::registration(const Accessor& who, const Region* region) {
  if (!who.privileged) return Rule::kPrivileged;
  if (region == nullptr) return Rule::kKey;
  if (!region->fast) return Rule::kFast;
  if (region->open) return Rule::kFastOpen;
  return region->pd != who.pd ? Rule::kMrPd : Rule::kNone;
}

Rule KeyRules::invalidation(const Accessor& who, const Region* region, bool remote) const {
  if (region == nullptr) return Rule::kKey;
  return first_broken({
      {Rule::kFast, region->fast},
      {Rule::kMrClosed, region->open},
      {Rule::kMrPd, region->pd == who.pd},
      {Rule::kInvMrBound, region->windows == 0},
      // A peer may invalidate only a region that grants remote access.
      {Rule::kInvRights, !remote || (region->access & kRemoteRights) != 0},
  });
}

Rule KeyRules::invalidation(const Accessor& who, const Window& w, std::uint32_t key) const {
  const bool free = w.type == 2 && !w.bound;
  const bool other_pd = foreign(w, who);
  return first_broken({
      {Rule::kInvVariant, w.key == key},
      {Rule::kInvType, w.type == 2},
      {Rule::kInvFree, !free},
      {Rule::kInvPd, free || !other_pd},
      {Rule::kInvQp, free || other_pd || bound_by(w, who)},
  });
}

Rule KeyRules::change(const Region& region) const {
  return first_broken({{Rule::kMrBusy, region.windows == 0}});
}

}  // namespace tern
