// SPDX-License-Identifier: GPL-2.0-or-later
// Device memory: the allocator of BAR4.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "core/event_log.h"
#include "core/host.h"
#include "core/table.h"
#include "memory/page_list.h"
#include "tern_hw.hpp"

namespace tern {

// The host owns the bytes; this class allocates no storage.
class DeviceMemory {
 public:
  // `max`: number of allocations.
  DeviceMemory(Host& host, std::span<std::byte> storage, std::uint32_t max)
      : host_(host), storage_(storage), max_(storage.empty() ? 0 : max), parts_(1, max_) {}

  // Admin commands; return TERN_ST_*. The page size is 1 << page_shift. alloc() reserves a part;
  // find() does not return it until clear() has zeroed all of it.
  [[nodiscard]] Status alloc(const tern_cmd_alloc_dm& cmd, unsigned page_shift,
                             tern_rsp_alloc_dm* rsp);
  // Zeroes up to `most` bytes of a reserved part and returns how many.
  std::uint64_t clear(std::uint32_t number, std::uint64_t most);
  [[nodiscard]] Status free(std::uint32_t number);

  struct Part {
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t cleared = 0;  // bytes zeroed
    std::uint32_t users = 0;    // regions on the part
    [[nodiscard]] bool ready() const { return cleared == size; }
    // Whether bytes [at, at + len) of the part exist.
    [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t len) const {
      return at <= size && len <= size - at;
    }
  };
  // Returns null also for a part that is not ready.
  [[nodiscard]] Part* find(std::uint32_t number) const {
    Part* const part = parts_.find(number);
    return part != nullptr && part->ready() ? part : nullptr;
  }
  // Whether alloc() has reserved the part, and clear() has more to do.
  [[nodiscard]] bool reserved(std::uint32_t number) const {
    const Part* const part = parts_.find(number);
    return part != nullptr && !part->ready();
  }
  // Storage of [offset, offset + len), which must lie inside one part.
  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t offset, std::uint64_t len) const {
    return storage_.subspan(offset, len);
  }

  void reset();  // frees all parts
  // Saved state, without the bytes. The page size is 1 << page_shift.
  void state(Archive& ar, unsigned page_shift);

  [[nodiscard]] std::uint64_t size() const { return storage_.size(); }
  [[nodiscard]] std::uint32_t max() const { return max_; }
  struct Counts {
    std::uint32_t parts;
    std::uint64_t bytes;
  };
  // Counts ready parts only.
  [[nodiscard]] Counts counts() const { return {parts_.count() - reserved_, used_}; }

  EventLog* log = nullptr;

 private:
  void log_part(std::uint8_t change, std::uint32_t number, const Part& part) const;
  // Best fit: offset in the smallest gap that holds `size` bytes, in the first of equal gaps.
  // Returns the size of the storage if there is none.
  [[nodiscard]] std::uint64_t place(std::uint64_t size, std::uint64_t align) const;

  Host& host_;
  std::span<std::byte> storage_;
  std::uint32_t max_;
  Table<Part> parts_;
  std::map<std::uint64_t, std::uint64_t> taken_;  // offset -> size, also of reserved parts
  std::uint64_t used_ = 0;
  std::uint32_t reserved_ = 0;  // parts that are not ready
};

}  // namespace tern
