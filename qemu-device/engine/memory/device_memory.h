// SPDX-License-Identifier: GPL-2.0-or-later
// Device memory: which part of BAR4 was given to whom.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "core/host.h"
#include "core/table.h"
#include "memory/page_list.h"
#include "tern_hw.hpp"

namespace tern {

// The bytes are the host's; nothing here allocates any.
class DeviceMemory {
 public:
  // `max`: allocations.
  DeviceMemory(Host& host, std::span<std::byte> storage, std::uint32_t max)
      : host_(host), storage_(storage), max_(storage.empty() ? 0 : max), parts_(1, max_) {}

  // Admin commands: TERN_ST_*. `page_shift` says what whole pages are. What alloc() reserves is nobody's until clear() has
  // zeroed all of it.
  [[nodiscard]] Status alloc(const tern_cmd_alloc_dm& cmd, unsigned page_shift,
                             tern_rsp_alloc_dm* rsp);
  // Zeroes up to `most` bytes of a part that is reserved, and returns how many.
  std::uint64_t clear(std::uint32_t number, std::uint64_t most);
  [[nodiscard]] Status free(std::uint32_t number);

  struct Part {
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t cleared = 0;  // bytes
    std::uint32_t users = 0;    // regions on it
    [[nodiscard]] bool ready() const { return cleared == size; }
  };
  // Null also of a part that is not ready.
  [[nodiscard]] Part* find(std::uint32_t number) const {
    Part* const part = parts_.find(number);
    return part != nullptr && part->ready() ? part : nullptr;
  }
  // Where the device reads and writes; [offset, offset + len) is inside one part.
  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t offset, std::uint64_t len) const {
    return storage_.subspan(offset, len);
  }

  void reset();  // frees all

  [[nodiscard]] std::uint64_t size() const { return storage_.size(); }
  [[nodiscard]] std::uint32_t max() const { return max_; }
  struct Counts {
    std::uint32_t parts;
    std::uint64_t bytes;
  };
  // Of parts that are ready.
  [[nodiscard]] Counts counts() const { return {parts_.count() - reserved_, used_}; }

 private:
  // Where `size` bytes fit best: in the smallest gap, the first of equals. size() if nowhere.
  [[nodiscard]] std::uint64_t place(std::uint64_t size, std::uint64_t align) const;

  Host& host_;
  std::span<std::byte> storage_;
  std::uint32_t max_;
  Table<Part> parts_;
  std::map<std::uint64_t, std::uint64_t> taken_;  // offset: size; what is between them is free
  std::uint64_t used_ = 0;
  std::uint32_t reserved_ = 0;  // parts that are not ready
};

}  // namespace tern
