// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of keys. Each function returns the first rule that an operation breaks and that is not
// switched off, or kNone: then the operation may proceed. Nothing here changes or logs anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/mutations.h"
#include "memory/memory_key.h"

namespace tern {

class KeyRules {
 public:
  explicit KeyRules(bool mw_type_2a) : mw_type_2a_(mw_type_2a) {}

  // An access by the key of a region; null if there is no such region.
  [[nodiscard]] static Rule access(const Region* region, const Accessor& who,
                                   const KeyRequest& request);
  // An access by the key of a window, whose variant may differ. A FLUSH is the only access of 0
  // bytes.
  [[nodiscard]] Rule access(const Window& w, const Accessor& who, const KeyRequest& request) const;
  // An access to the region of a window that permits it; null if the region is gone.
  [[nodiscard]] Rule access_through(const Region* region, std::uint32_t rights) const;

  // BIND_MW of this window to this region; null: nothing has the key, or the length is 0.
  [[nodiscard]] Rule bind(const Accessor& who, const tern_bind_seg& seg, const Window* window,
                          const Region* region) const;
  // REG_MR of a region with this key or another variant of it, apart from the WQE's fields.
  [[nodiscard]] static Rule registration(const Accessor& who, const Region* region);
  // LOCAL_INV, or SEND_WITH_INV from a peer (`remote`).
  [[nodiscard]] Rule invalidation(const Accessor& who, const Region* region, bool remote) const;
  [[nodiscard]] Rule invalidation(const Accessor& who, const Window& w, std::uint32_t key) const;
  // DESTROY_MR, or a REREG_MR that moves the region.
  [[nodiscard]] Rule change(const Region& region) const;

  Mutations mutations;  // outlives resets

 private:
  struct Test {
    Rule rule;
    bool kept;
  };
  template <std::size_t N>
  [[nodiscard]] Rule first_broken(const Test (&tests)[N]) const;
  [[nodiscard]] bool foreign(const Window& w, const Accessor& who) const;
  [[nodiscard]] static bool bound_by(const Window& w, const Accessor& who);

  const bool mw_type_2a_;
};

// The first missing right of a region.
[[gnu::noinline, gnu::cold]] inline Rule rule_of_right(std::uint32_t lacking) {
  if (lacking & TERN_ACCESS_LOCAL_WRITE) return Rule::kMrLocalWrite;
  if (lacking & TERN_ACCESS_REMOTE_WRITE) return Rule::kMrRemoteWrite;
  if (lacking & TERN_ACCESS_REMOTE_READ) return Rule::kMrRemoteRead;
  return lacking & TERN_ACCESS_REMOTE_ATOMIC ? Rule::kMrRemoteAtomic : Rule::kMrFlush;
}

// Inlined: permitted accesses pay only for the comparisons.
[[gnu::always_inline]] inline Rule KeyRules::access(const Region* region, const Accessor& who,
                                                    const KeyRequest& request) {
  if (region == nullptr) return Rule::kKey;
  if (!region->open) return Rule::kMrClosed;
  if (region->pd != who.pd) return Rule::kMrPd;
  const std::uint32_t lacking = request.rights & ~std::uint32_t{region->access};
  if (lacking != 0) return rule_of_right(lacking);
  // Each unsigned difference is compared before it is used, so nothing wraps.
  if (request.addr < region->iova) return Rule::kMrLow;
  const std::uint64_t offset = request.addr - region->iova;
  return offset > region->length || request.length > region->length - offset ? Rule::kMrHigh
                                                                             : Rule::kNone;
}

// All tests are evaluated, which takes no branch each: usually all rules are kept.
template <std::size_t N>
[[gnu::always_inline]] inline Rule KeyRules::first_broken(const Test (&tests)[N]) const {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    if ((tests[I].kept & ...)) [[likely]]
      return Rule::kNone;
    Rule broken = Rule::kNone;
    (void)((tests[I].kept || mutations.off(tests[I].rule) || (broken = tests[I].rule, false)) &&
           ...);
    return broken;
  }(std::make_index_sequence<N>{});
}

// Type 1 and 2B: the window is of another PD.
inline bool KeyRules::foreign(const Window& w, const Accessor& who) const {
  return (w.type == 1 || !mw_type_2a_) && w.pd != who.pd;
}

// A type 1 window is usable by every QP of its PD, 2A by the QP that bound it, 2B by that QP while
// it is in the window's PD. A reset gives the QP a new generation, so it cannot use its windows any
// more.
inline bool KeyRules::bound_by(const Window& w, const Accessor& who) {
  return w.type == 1 || w.qp_generation == who.generation;
}

[[gnu::always_inline]] inline Rule KeyRules::access(const Window& w, const Accessor& who,
                                                    const KeyRequest& request) const {
  // What is undefined in an unbound window is read, but decides nothing.
  const bool other_pd = foreign(w, who);
  const std::uint32_t lacking = request.rights & ~std::uint32_t{w.access};
  // Last bytes are compared, so that a window may end at the last 64-bit address.
  const std::uint64_t last = request.addr + (request.length - 1);
  return first_broken({
      {Rule::kMwVariant, w.key == request.key},
      {Rule::kMwUnbound, w.bound},
      {Rule::kMwPd, !other_pd},
      {Rule::kMwQp, other_pd || bound_by(w, who)},
      {Rule::kMwRead, !(lacking & TERN_ACCESS_REMOTE_READ)},
      {Rule::kMwWrite, !(lacking & TERN_ACCESS_REMOTE_WRITE)},
      {Rule::kMwAtomic, !(lacking & TERN_ACCESS_REMOTE_ATOMIC)},
      {Rule::kMwFlush, !(lacking & (TERN_ACCESS_FLUSH_GLOBAL | TERN_ACCESS_FLUSH_PERSISTENT))},
      {Rule::kMwLow, request.addr >= w.iova},
      {Rule::kMwWrap, last >= request.addr},
      {Rule::kMwHigh, last <= w.iova + (w.length - 1)},
  });
}

[[gnu::always_inline]] inline Rule KeyRules::access_through(const Region* region,
                                                            std::uint32_t rights) const {
  if (region == nullptr) return Rule::kMrClosed;
  return first_broken({
      {Rule::kMrClosed, region->open},
      {Rule::kMwMrWrite,
       !(rights & kRemoteChange) || (region->access & TERN_ACCESS_LOCAL_WRITE) != 0},
  });
}

}  // namespace tern
