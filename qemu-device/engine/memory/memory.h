// SPDX-License-Identifier: GPL-2.0-or-later
// Keys: one path from (key, address, length) to bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/host.h"
#include "core/table.h"
#include "core/types.h"
#include "memory/page_list.h"
#include "tern_hw.hpp"

namespace tern {

// Who asks for access: the QP's protection domain and number.
struct Accessor {
  Pdn pd;
  bool privileged = false;
  Qpn qp;
};

enum class Access : std::uint8_t {
  kReady,
  kPending,   // on-demand page not present; nothing appended
  kDenied,    // nothing appended
  kDmaError,  // an address is not RAM; what was appended before it must be abandoned
};

class Memory {
 public:
  // `max_mr`: regions, at most 2^24 - 2.
  Memory(Host& host, std::uint32_t max_mr) : host_(host), regions_(kFirstIndex, max_mr) {}

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

  // Admin commands: TERN_ST_*. They check everything but the PD's existence, which the caller
  // did; of reserved bytes only those of the page list.
  [[nodiscard]] Status create_mr(const tern_cmd_create_mr& cmd, std::uint32_t* key);
  [[nodiscard]] Status destroy_mr(std::uint32_t key);
  [[nodiscard]] Status update_pages(const tern_cmd_update_pages& cmd);
  [[nodiscard]] Status query(std::uint32_t key, tern_rsp_mr* rsp) const;

  // REG_MR: opens a closed region of kind FAST with the pages the segment names. kReady, or why it
  // stays closed.
  [[nodiscard]] Access register_fast(const Accessor& who, const tern_reg_seg& seg);
  // LOCAL_INV, or SEND_WITH_INV of a peer: closes the key. False: it is not one that `who` may
  // close, and nothing has changed.
  [[nodiscard]] bool invalidate_local(const Accessor& who, std::uint32_t key);
  [[nodiscard]] bool invalidate_remote(const Accessor& who, std::uint32_t key);

  void reset();

  struct Counts {
    std::uint32_t mr;
    std::uint64_t page_entries;
  };
  [[nodiscard]] Counts counts() const { return {regions_.count(), page_entries_}; }

  // Keys that refer to a PD; FREE_PD asks.
  [[nodiscard]] std::uint32_t users_of(Pdn pd) const;

 private:
  static constexpr std::uint32_t kFirstIndex = 2;  // 0: no region; 1: TERN_LKEY_DMA

  // What a key stands for. All accesses come through find() and permitted().
  struct Region {
    std::uint32_t key = 0;
    std::uint32_t access = 0;
    Pdn pd;
    bool fast = false;  // REG_MR and invalidation open and close it, and change the variant
    bool open = false;
    std::uint64_t iova = 0;
    std::uint64_t length = 0;
    std::uint64_t offset = 0;  // of the first byte in the page list
    PageList pages;
  };

  [[nodiscard]] Region* find(std::uint32_t key) const;
  // The same; of a fast region any variant, because commands cannot know the one in force.
  [[nodiscard]] Region* find_for_command(std::uint32_t key) const;
  [[nodiscard]] const Region* permitted(const Accessor& who, std::uint32_t key, std::uint64_t addr,
                                        std::uint64_t len, std::uint32_t rights) const;
  [[nodiscard]] Access append(const Region& region, std::uint64_t addr, std::uint64_t len,
                              bool write, SpanList& out);
  [[nodiscard]] Region* invalidatable(const Accessor& who, std::uint32_t key) const;
  [[nodiscard]] Status load(const tern_cmd_create_mr& cmd, Region& region);
  [[nodiscard]] Status load_fast(const tern_cmd_create_mr& cmd, Region& region);
  std::uint32_t insert(std::unique_ptr<Region> region);
  [[nodiscard]] std::uint8_t new_variant(std::uint32_t index);

  Host& host_;
  Table<Region> regions_;
  std::unordered_map<std::uint32_t, std::uint32_t> pd_users_;
  std::uint64_t page_entries_ = 0;
  std::vector<std::uint8_t> variants_;  // last one of each index; outlives regions and resets
};

}  // namespace tern
