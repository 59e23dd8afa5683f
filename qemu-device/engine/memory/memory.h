// SPDX-License-Identifier: GPL-2.0-or-later
// Regions, windows and device memory: one path from (key, address, length) to bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/host.h"
#include "core/table.h"
#include "core/types.h"
#include "tern_hw.hpp"

namespace tern {

using Status = std::uint16_t;  // TERN_ST_*

// A page list copied out of DMA memory. entries_held() feeds QUERY_OBJECTS.
class PageList {
 public:
  // Copies what `desc` describes; `max_entries` bounds it. TERN_ST_OK or why not.
  [[nodiscard]] Status load(Host& host, const tern_pages& desc, std::uint64_t max_entries);
  // Room for `entries` pages of 1 << page_shift bytes, all absent.
  [[nodiscard]] Status reserve(std::uint64_t entries, unsigned page_shift);
  // Replaces entries [first, first + desc.num).
  [[nodiscard]] Status update(Host& host, std::uint64_t first, const tern_pages& desc);

  // DMA address of byte `offset` and how many bytes are contiguous in DMA space from it.
  struct Run {
    std::uint64_t addr;
    std::uint64_t len;  // 0: outside the list or an absent page
  };
  [[nodiscard]] Run at(std::uint64_t offset, std::uint64_t want) const;

  [[nodiscard]] std::uint64_t bytes() const;  // covered by the list; a DIRECT one has no end
  [[nodiscard]] std::uint64_t entries_held() const { return pages_.size(); }
  [[nodiscard]] unsigned page_shift() const { return shift_; }

 private:
  std::vector<std::uint64_t> pages_;
  std::uint64_t direct_ = 0;
  unsigned shift_ = 12;
  bool is_direct_ = false;
};

// Who asks for access: the QP's protection domain and number.
struct Accessor {
  Pdn pd;
  bool privileged = false;
  Qpn qp;
};

enum class Access : std::uint8_t {
  kReady,
  kPending,  // on-demand page not present; nothing appended
  kDenied,
  kDmaError,  // the page list points at something that is not RAM
};

class Memory {
 public:
  Memory(Host& host, std::span<std::byte> dm, std::uint32_t max_mr, std::uint32_t max_mw,
         bool mw_type_2a);
  ~Memory();

  // One SGE of a WQE: appends its bytes to `out`. `write`: the device stores there.
  [[nodiscard]] Access local(const Accessor& who, std::uint32_t lkey, std::uint64_t addr,
                             std::uint64_t len, bool write, SpanList& out);
  // What a peer asks for by RETH or AtomicETH; `rights` are TERN_ACCESS_REMOTE_*.
  [[nodiscard]] Access remote(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                              std::uint64_t len, std::uint32_t rights, SpanList& out);
  // The same checks without touching memory.
  [[nodiscard]] Access check_remote(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                                    std::uint64_t len, std::uint32_t rights);

  // Admin commands; they check everything but the PD's existence, which the caller did.
  [[nodiscard]] Status create_mr(const tern_cmd_create_mr& cmd, std::uint32_t* key);
  [[nodiscard]] Status destroy_mr(std::uint32_t key);
  [[nodiscard]] Status update_pages(const tern_cmd_update_pages& cmd);
  [[nodiscard]] Status query(std::uint32_t key, tern_rsp_mr* rsp) const;
  [[nodiscard]] Status alloc_dm(const tern_cmd_alloc_dm& cmd, unsigned page_shift,
                                tern_rsp_alloc_dm* rsp);
  [[nodiscard]] Status free_dm(std::uint32_t dmn);
  void reset();

  struct Counts {
    std::uint32_t mr, mw, dm;
    std::uint64_t dm_bytes, page_entries;
  };
  [[nodiscard]] Counts counts() const;

  // Keys that refer to a PD; FREE_PD asks.
  [[nodiscard]] std::uint32_t users_of(Pdn pd) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern
