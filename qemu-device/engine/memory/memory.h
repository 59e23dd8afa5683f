// SPDX-License-Identifier: GPL-2.0-or-later
// Keys: the one path from (key, address, length) to bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "core/device_state.h"
#include "core/event_log.h"
#include "core/host.h"
#include "core/limits.h"
#include "core/slab.h"
#include "core/types.h"
#include "memory/device_memory.h"
#include "memory/key_rules.h"
#include "memory/memory_key.h"
#include "memory/page_list.h"
#include "tern_hw.hpp"

namespace tern {

enum class Access : std::uint8_t {
  kReady,
  kPending,   // an on-demand page is absent; nothing was appended
  kDenied,    // nothing was appended
  kDmaError,  // an address is not RAM; abandon the pieces appended before it
};

class Memory {
 public:
  // `max_mr` regions and `max_mw` windows, together at most 2^24 - 3. `dm` is null if the device
  // has no device memory, `pd_lanes` if it has one lane. Without `odp` no region is on demand.
  Memory(Host& host, PageBudget& budget, std::uint32_t max_mr, DeviceMemory* dm = nullptr,
         std::uint32_t max_mw = 0, bool mw_type_2a = false, const LaneMap* pd_lanes = nullptr,
         bool odp = true)
      : rules(mw_type_2a),
        host_(host),
        budget_(budget),
        dm_(dm),
        pd_lanes_(pd_lanes),
        entries_(kFirstIndex, max_mr + max_mw),
        max_mr_(max_mr),
        max_mw_(max_mw),
        odp_(odp) {}

  // Where an access met an absent page. Set only by an access that returns kPending.
  struct Missing {
    std::uint64_t addr = 0;    // first absent byte, as an address of the region
    std::uint64_t length = 0;  // bytes of the access from there to its end
    std::uint32_t key = 0;     // of the region
    bool write = false;
  };

  // Appends the bytes of a WQE's SGE to `out`. The right is TERN_ACCESS_LOCAL_WRITE if the device
  // stores there, otherwise 0. Zero bytes need no key (IBTA 10.6.3.1).
  [[nodiscard]] Access local(const Accessor& who, const KeyRequest& request, SpanList& out,
                             Missing& missing);
  // Appends the bytes that a peer addresses by RETH or AtomicETH; the rights are
  // TERN_ACCESS_REMOTE_*. Zero bytes need no key (IBTA C9-88).
  [[nodiscard]] Access remote(const Accessor& who, const KeyRequest& request, SpanList& out,
                              Missing& missing);
  // The rule that refuses an access, or kNone and where the access goes.
  struct Permit {
    Rule broken = Rule::kNone;
    const Region* region = nullptr;  // null also for zero bytes
    std::uint64_t addr = 0;          // of the first byte, as the region counts

    [[nodiscard]] Access access() const {
      return broken == Rule::kNone ? Access::kReady : Access::kDenied;
    }
  };
  // The checks of remote() without accessing memory. The permit expires with the packet: commands
  // and work requests may change its region.
  [[nodiscard]] Permit check_remote(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                                    std::uint64_t len, std::uint32_t rights) const;
  // What remote() does after its checks. `request`: what `permit` allows, or its first bytes.
  [[nodiscard]] Access map(const Permit& permit, const Accessor& who, const KeyRequest& request,
                           SpanList& out, Missing& missing);
  // Logs a request that the QP does not allow, whatever its key is.
  void denied_by_qp(const Accessor& who, std::uint32_t rkey, std::uint64_t va, std::uint64_t len,
                    std::uint32_t rights) const;
  // Checks a FLUSH of [va, va + len), or of the `whole` region; `rights` are TERN_ACCESS_FLUSH_*. A
  // flush of zero bytes also needs a key, and an address in the region or at its end.
  [[nodiscard]] Access check_flush(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                                   std::uint64_t len, bool whole, std::uint32_t rights) const;

  // Admin commands; return TERN_ST_*. The caller has checked that the PD exists and that reserved
  // bytes outside the page list are zero; these functions check the rest.
  [[nodiscard]] Status create_mr(const tern_cmd_create_mr& cmd, std::uint32_t* key);
  [[nodiscard]] Status destroy_mr(std::uint32_t key);
  [[nodiscard]] Status rereg_mr(const tern_cmd_rereg_mr& cmd);
  [[nodiscard]] Status update_pages(const tern_cmd_update_pages& cmd);
  [[nodiscard]] Status query(std::uint32_t key, tern_rsp_mr* rsp) const;
  [[nodiscard]] Status alloc_mw(Pdn pd, std::uint8_t type, std::uint32_t* key);
  [[nodiscard]] Status free_mw(std::uint32_t key);

  // REG_MR: opens a closed region of kind FAST on the pages in the segment. Returns kReady, or the
  // reason why the region stays closed.
  [[nodiscard]] Access register_fast(const Accessor& who, const tern_reg_seg& seg);
  // LOCAL_INV, or SEND_WITH_INV from a peer: closes the key. Returns false if `who` may not close
  // it; then nothing has changed.
  [[nodiscard]] bool invalidate_local(const Accessor& who, std::uint32_t key);
  [[nodiscard]] bool invalidate_remote(const Accessor& who, std::uint32_t key);
  // BIND_MW. Returns false if it is refused; then nothing has changed.
  [[nodiscard]] bool bind_mw(const Accessor& who, const tern_bind_seg& seg);

  void reset();
  void state(Archive& ar);

  struct Counts {
    std::uint32_t mr;
    std::uint32_t mw;
    std::uint64_t page_entries;
  };
  [[nodiscard]] Counts counts() const {
    return {entries_.count() - windows_, windows_, page_entries_};
  }

  // Hint that `key`, which need not be valid, will be used soon.
  void prefetch(std::uint32_t key) const { entries_.prefetch(key >> TERN_KEY_INDEX_SHIFT); }

  // Number of keys of the PD; FREE_PD fails while there are any.
  [[nodiscard]] std::uint32_t users_of(Pdn pd) const;
  // Whether a bound type 2 window refers to the QP number. Such a number must not be reused.
  [[nodiscard]] bool names(Qpn qp) const { return qp_windows_.contains(qp.value); }

  KeyRules rules;
  EventLog* log = nullptr;

 private:
  static constexpr std::uint32_t kFirstIndex = 3;  // 0: no region; 1, 2: TERN_LKEY_*

  // What has the key or another variant of it; null if nothing has.
  [[nodiscard, gnu::always_inline]] MemoryKey* resolve(std::uint32_t key) const {
    KeyEntry* const entry = entries_.find(key >> TERN_KEY_INDEX_SHIFT);
    return entry != nullptr ? &entry->key() : nullptr;
  }
  // The same for a work request or a packet. Another lane may be changing the keys of its PDs: they
  // do not exist for this one.
  [[nodiscard, gnu::always_inline]] MemoryKey* resolve(const Accessor& who,
                                                       std::uint32_t key) const {
    MemoryKey* const found = resolve(key);
    if (pd_lanes_ != nullptr) [[unlikely]]
      return own(who, found);
    return found;
  }
  [[nodiscard, gnu::noinline]] MemoryKey* own(const Accessor& who, MemoryKey* key) const;
  // The same, but null unless it is a region or a window.
  [[nodiscard]] static Region* as_region(MemoryKey* key) {
    return key != nullptr && key->kind == KeyKind::kRegion ? static_cast<Region*>(key) : nullptr;
  }
  [[nodiscard]] static Window* as_window(MemoryKey* key) {
    return key != nullptr && key->kind == KeyKind::kWindow ? static_cast<Window*>(key) : nullptr;
  }
  // The region with exactly this key.
  [[nodiscard]] Region* find(const Accessor& who, std::uint32_t key) const;
  // The region `found` by the key, whose variant may differ if the region is fast.
  [[nodiscard]] static Region* fast_or_exact(MemoryKey* found, std::uint32_t key) {
    Region* const region = as_region(found);
    return region && (region->key == key || region->fast) ? region : nullptr;
  }
  // For commands, which cannot know the current variant of a fast region.
  [[nodiscard]] Region* find_for_command(std::uint32_t key) const {
    return fast_or_exact(resolve(key), key);
  }
  // The region of a bound window.
  [[nodiscard]] Region* region_of(const Window& w) const {
    return as_region(resolve(w.region << TERN_KEY_INDEX_SHIFT));
  }
  // A peer's key may belong to a window.
  [[nodiscard]] Permit permit_remote(const Accessor& who, const KeyRequest& request) const;
  [[nodiscard]] Permit permit_through(const Window& w, const Accessor& who,
                                      const KeyRequest& request) const;
  // Access by an lkey without a region: the rule that refuses it, or the result.
  [[nodiscard]] static Rule rule_of_reserved(const Accessor& who, const KeyRequest& request);
  [[nodiscard]] Access reserved(const Accessor& who, const KeyRequest& request, SpanList& out);
  // `addr`: of the first byte, as the region counts.
  [[nodiscard]] Access append(const Region& region, std::uint64_t addr, const KeyRequest& request,
                              SpanList& out, Missing& missing);
  [[nodiscard]] static Access present(const Region& region, std::uint64_t addr,
                                      const KeyRequest& request, Missing& missing);
  // Whether the whole range is readable.
  [[nodiscard]] bool readable(const Region& region, std::uint64_t addr, std::uint64_t len) const;
  // Copies the list of a region of kind MEMORY into `list` and charges its entries to the budget.
  [[nodiscard]] Status load(const tern_pages& pages, std::uint8_t flags, std::uint64_t offset,
                            std::uint64_t length, bool on_demand, PageList& list);
  [[nodiscard]] Status invalidate_pages(Region& region, const tern_cmd_update_pages& cmd);
  [[nodiscard]] Status replace_pages(Region& region, const tern_cmd_update_pages& cmd);
  [[nodiscard]] Status load_fast(const tern_cmd_create_mr& cmd, Region& region);
  [[nodiscard]] Status load_device(const tern_cmd_create_mr& cmd, Region& region);
  void region_state(Archive& ar, Region& region);
  void window_state(Archive& ar, Window& window);
  void count_windows(Archive& ar);
  void forget_user(Pdn pd);
  [[nodiscard]] std::uint32_t insert_region(Region region);
  // Gives the entry a key and returns it.
  [[nodiscard]] std::uint32_t insert(KeyEntry entry);
  void erase(std::uint32_t key, Pdn pd);
  [[nodiscard]] std::uint8_t new_variant(std::uint32_t index);

  // Windows: memory/window.cc.
  [[nodiscard]] Status query_mw(const Window& w, tern_rsp_mr* rsp) const;
  void unbind(Window& w, Qpn by = {});
  [[nodiscard]] bool invalidate(const Accessor& who, std::uint32_t key, bool remote);
  // Fills the region as the segment says. Returns TERN_ST_*; on failure the region stays closed.
  [[nodiscard]] Status open_fast(Region& region, const tern_reg_seg& seg);

  // The event log: memory/key_log.cc.
  // Logs the check (`operation`: TERN_LOG_CHECK_*) and returns its result: kDenied if a rule is
  // broken, otherwise `access`.
  Access concluded(std::uint8_t operation, const Accessor& who, const KeyRequest& request,
                   Rule broken, Access access = Access::kReady) const {
    if (broken != Rule::kNone) access = Access::kDenied;
    if (log != nullptr) [[unlikely]]
      log_check(operation, who, request, broken, access);
    return access;
  }
  [[gnu::noinline]] void log_check(std::uint8_t operation, const Accessor& who,
                                   const KeyRequest& request, Rule broken, Access access) const;
  // `change`: TERN_LOG_KEY_*.
  void log_key(std::uint8_t change, const Region& region, Qpn by = {}) const;
  void log_key(std::uint8_t change, const Window& w, Qpn by = {}) const;

  Host& host_;
  PageBudget& budget_;
  DeviceMemory* dm_;
  const LaneMap* pd_lanes_;
  Slab<KeyEntry> entries_;
  const std::uint32_t max_mr_;
  const std::uint32_t max_mw_;
  const bool odp_;
  std::uint32_t windows_ = 0;
  std::mutex qp_windows_mutex_;                        // lanes share the map
  std::map<std::uint32_t, std::uint32_t> qp_windows_;  // QP number -> windows bound
  std::map<std::uint32_t, std::uint32_t> pd_users_;
  std::uint64_t page_entries_ = 0;                         // held by regions; part of the budget
  std::array<std::vector<std::byte>, kMaxLanes> discard_;  // written through TERN_LKEY_NULL
  std::vector<std::uint8_t> variants_;  // last variant of each index; outlives regions and resets
};

}  // namespace tern
