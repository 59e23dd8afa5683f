// SPDX-License-Identifier: GPL-2.0-or-later
// Keys: one path from (key, address, length) to bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/host.h"
#include "core/mutations.h"
#include "core/page_budget.h"
#include "core/slab.h"
#include "core/types.h"
#include "memory/device_memory.h"
#include "memory/page_list.h"
#include "memory/window.h"
#include "tern_hw.hpp"

namespace tern {

// Who asks for access: the QP's protection domain and number.
struct Accessor {
  Pdn pd;
  bool privileged = false;
  Qpn qp;
  std::uint64_t generation = 0;  // of a QP: each reset begins one that no QP had before
};

enum class Access : std::uint8_t {
  kReady,
  kPending,   // on-demand page not present: missing() says which; nothing appended
  kDenied,    // nothing appended
  kDmaError,  // an address is not RAM; what was appended before it must be abandoned
};

class Memory {
 public:
  // `max_mr` regions and `max_mw` windows, together at most 2^24 - 2. `dm`: null when the device
  // has none.
  Memory(Host& host, PageBudget& budget, std::uint32_t max_mr, DeviceMemory* dm = nullptr, std::uint32_t max_mw = 0,
         bool mw_type_2a = false)
      : host_(host),
        budget_(budget),
        dm_(dm),
        entries_(kFirstIndex, max_mr + max_mw),
        max_mr_(max_mr),
        max_mw_(max_mw),
        mw_type_2a_(mw_type_2a) {}

  // One SGE of a WQE: appends its bytes to `out`. `write`: the device stores there. No bytes
  // need no key (IBTA 10.6.3.1).
  [[nodiscard]] Access local(const Accessor& who, std::uint32_t lkey, std::uint64_t addr,
                             std::uint64_t len, bool write, SpanList& out);
  // What a peer asks for by RETH or AtomicETH; `rights` are TERN_ACCESS_REMOTE_*. No bytes
  // need no key (IBTA C9-88).
  [[nodiscard]] Access remote(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                              std::uint64_t len, std::uint32_t rights, SpanList& out);
  // The same checks without touching memory.
  [[nodiscard]] Access check_remote(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                                    std::uint64_t len, std::uint32_t rights) const;
  // A FLUSH of [va, va + len), or of the `whole` region; `rights` are TERN_ACCESS_FLUSH_*. No bytes
  // need a key as well, and an address that is the region's or its end.
  [[nodiscard]] Access check_flush(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                                   std::uint64_t len, bool whole, std::uint32_t rights) const;

  // Where the access stopped that was kPending last.
  struct Missing {
    std::uint64_t addr = 0;    // first absent byte, an address of the region
    std::uint64_t length = 0;  // bytes of the access from there on
    std::uint32_t key = 0;     // the region's
    bool write = false;
  };
  [[nodiscard]] const Missing& missing() const { return missing_; }

  // Admin commands: TERN_ST_*. They check everything but the PD's existence, which the caller
  // did; of reserved bytes only those of the page list.
  [[nodiscard]] Status create_mr(const tern_cmd_create_mr& cmd, std::uint32_t* key);
  [[nodiscard]] Status destroy_mr(std::uint32_t key);
  [[nodiscard]] Status rereg_mr(const tern_cmd_rereg_mr& cmd);
  [[nodiscard]] Status update_pages(const tern_cmd_update_pages& cmd);
  [[nodiscard]] Status query(std::uint32_t key, tern_rsp_mr* rsp) const;
  [[nodiscard]] Status alloc_mw(Pdn pd, std::uint8_t type, std::uint32_t* key);
  [[nodiscard]] Status free_mw(std::uint32_t key);

  // REG_MR: opens a closed region of kind FAST with the pages the segment names. kReady, or why it
  // stays closed.
  [[nodiscard]] Access register_fast(const Accessor& who, const tern_reg_seg& seg);
  // LOCAL_INV, or SEND_WITH_INV of a peer: closes the key. False: it is not one that `who` may
  // close, and nothing has changed.
  [[nodiscard]] bool invalidate_local(const Accessor& who, std::uint32_t key);
  [[nodiscard]] bool invalidate_remote(const Accessor& who, std::uint32_t key);
  // BIND_MW. False: refused, and nothing has changed.
  [[nodiscard]] bool bind_mw(const Accessor& who, const tern_bind_seg& seg);

  void reset();

  struct Counts {
    std::uint32_t mr;
    std::uint32_t mw;
    std::uint64_t page_entries;
  };
  [[nodiscard]] Counts counts() const {
    return {entries_.count() - windows_, windows_, page_entries_};
  }

  // The key will be used soon, if it is one.
  void prefetch(std::uint32_t key) const { entries_.prefetch(key >> TERN_KEY_INDEX_SHIFT); }

  // Keys that refer to a PD; FREE_PD asks.
  [[nodiscard]] std::uint32_t users_of(Pdn pd) const;
  // Whether a bound window names the QP: its number is not for another one.
  [[nodiscard]] bool names(Qpn qp) const { return qp_windows_.contains(qp.value); }

  Mutations mutations;  // outlives resets

 private:
  static constexpr std::uint32_t kFirstIndex = 2;  // 0: no region; 1: TERN_LKEY_DMA

  // The members that an access reads come first: they share a cache line.
  struct Region {
    [[no_unique_address]] PageList pages;
    bool open = false;
    bool fast = false;  // REG_MR and invalidation open and close it, and change the variant
    std::uint32_t key = 0;
    std::uint32_t access = 0;
    Pdn pd;
    std::uint32_t dmn = 0;  // the allocation of device memory it is in; 0: it has a page list
    std::uint64_t iova = 0;
    std::uint64_t length = 0;
    std::uint64_t offset = 0;   // of the first byte, in the page list or in all device memory
    std::uint32_t windows = 0;  // number bound to it
  };

  // An entry of the key table: a region, a window or vacant.
  struct alignas(64) Entry {
    Region region;                   // its key is 0 unless the entry is a region
    std::unique_ptr<Window> window;  // null unless the entry is a window

    [[nodiscard]] bool vacant() const { return region.key == 0 && window == nullptr; }
    [[nodiscard]] Pdn pd() const { return window ? window->pd : region.pd; }
    void set_key(std::uint32_t key) { (window ? window->key : region.key) = key; }
  };
  static_assert(sizeof(Entry) == 128);

  // The region with exactly this key.
  [[nodiscard]] Region* find(std::uint32_t key) const;
  // The same, but any variant of a fast region: commands cannot know the current one.
  [[nodiscard]] Region* find_for_command(std::uint32_t key) const;
  [[nodiscard]] Region* region_at(std::uint32_t index) const;
  [[nodiscard]] static const Region* permitted(const Region* region, const Accessor& who,
                                               std::uint64_t addr, std::uint64_t len,
                                               std::uint32_t rights);
  // The same for a peer's key, which may be a window's: `addr` becomes an address of the region.
  [[nodiscard]] const Region* permitted_remote(const Accessor& who, std::uint32_t key,
                                               std::uint64_t& addr, std::uint64_t len,
                                               std::uint32_t rights) const;
  [[nodiscard]] Access append(const Region& region, std::uint64_t addr, std::uint64_t len,
                              bool write, SpanList& out);
  [[nodiscard]] Access present(const Region& region, std::uint64_t addr, std::uint64_t len,
                               bool write);
  // Whether the device can read all of it.
  [[nodiscard]] bool readable(const Region& region, std::uint64_t addr, std::uint64_t len) const;
  [[nodiscard]] Region* invalidatable(const Accessor& who, std::uint32_t key) const;
  // Copies the list of a region of kind MEMORY into `list` and charges the budget.
  [[nodiscard]] Status load(const tern_pages& pages, std::uint8_t flags, std::uint64_t offset,
                            std::uint64_t length, bool on_demand, PageList& list);
  [[nodiscard]] Status load_fast(const tern_cmd_create_mr& cmd, Region& region);
  [[nodiscard]] Status load_device(const tern_cmd_create_mr& cmd, Region& region);
  void forget_user(Pdn pd);
  [[nodiscard]] std::uint32_t insert_region(Region region);
  // Gives the entry a key and returns it.
  [[nodiscard]] std::uint32_t insert(Entry entry);
  void erase(std::uint32_t key, Pdn pd);
  [[nodiscard]] std::uint8_t new_variant(std::uint32_t index);

  // Windows: memory/window.cc.
  [[nodiscard]] Window* find_window(std::uint32_t key) const;  // any variant
  [[nodiscard]] Status query_mw(const Window& w, tern_rsp_mr* rsp) const;
  [[nodiscard]] bool holds(Rule rule, bool kept) const { return mutations.holds(rule, kept); }
  [[nodiscard]] bool belongs(const Window& w, const Accessor& who, Rule pd, Rule qp) const;
  [[nodiscard]] bool allows(std::uint32_t access, std::uint32_t rights) const;
  [[nodiscard]] bool in_window(const Window& w, std::uint64_t addr, std::uint64_t len) const;
  [[nodiscard]] const Region* through(const Window& w, const Accessor& who, std::uint64_t& addr,
                                      std::uint64_t len, std::uint32_t rights) const;
  [[nodiscard]] Window* bindable(const Accessor& who, const tern_bind_seg& seg) const;
  [[nodiscard]] Region* bind_target(const Accessor& who, const tern_bind_seg& seg) const;
  void unbind(Window& w);
  [[nodiscard]] bool invalidate_mw(Window& w, const Accessor& who, std::uint32_t key);

  Host& host_;
  PageBudget& budget_;
  DeviceMemory* dm_;
  Slab<Entry> entries_;
  const std::uint32_t max_mr_;
  const std::uint32_t max_mw_;
  const bool mw_type_2a_;
  std::uint32_t windows_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> qp_windows_;  // bound, by the QP they name
  std::unordered_map<std::uint32_t, std::uint32_t> pd_users_;
  std::uint64_t page_entries_ = 0;  // of regions, of what the budget holds
  Missing missing_;
  std::vector<std::uint8_t> variants_;  // last one of each index; outlives regions and resets
};

}  // namespace tern
