// SPDX-License-Identifier: GPL-2.0-or-later
// Operation pages: pages of BAR2 whose loads and stores are atomic operations on device memory.
#pragma once

#include <cstdint>
#include <map>

#include "core/host.h"
#include "memory/device_memory.h"
#include "tern_hw.hpp"

namespace tern {

class DmOps {
 public:
  DmOps(Host& host, DeviceMemory& dm) : host_(host), dm_(dm) {}

  struct Page {
    std::uint32_t dmn;
    std::uint64_t offset;  // in device memory
    std::uint8_t op;       // TERN_DM_OP_*
  };

  // MAP_DM_OP. Call map() only after check() with the same command has returned TERN_ST_OK.
  [[nodiscard]] Status check(const tern_cmd_map_dm_op& cmd, unsigned page_shift) const;
  void map(const tern_cmd_map_dm_op& cmd, std::uint32_t uar);
  void unmap(std::uint32_t uar);  // no effect if this page of BAR2 has no operation
  void reset() { pages_.clear(); }
  void state(Archive& ar, unsigned page_shift);

  // The operation of a page of BAR2; null if it has none.
  [[nodiscard]] const Page* find(std::uint32_t uar) const {
    if (pages_.empty()) return nullptr;
    const auto it = pages_.find(uar);
    return it == pages_.end() ? nullptr : &it->second;
  }
  // A load and a store at an offset inside the page. An offset that is not a multiple of 4 reads
  // ones and writes nothing.
  [[nodiscard]] std::uint32_t load(const Page& page, std::uint64_t at);
  void store(const Page& page, std::uint64_t at, std::uint32_t value);

 private:
  // Returns the old value.
  std::uint32_t execute(const Page& page, std::uint64_t at, std::uint32_t operand);

  Host& host_;
  DeviceMemory& dm_;
  std::map<std::uint32_t, Page> pages_;  // by page of BAR2
};

}  // namespace tern
