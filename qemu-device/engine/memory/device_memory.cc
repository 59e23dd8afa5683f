// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/device_memory.h"

#include <algorithm>

namespace tern {

namespace {

constexpr std::uint32_t kMaxLogAlign = 63;

// `align` is a power of two. Offsets are far below 2^63, so this does not wrap.
std::uint64_t round_up(std::uint64_t value, std::uint64_t align) {
  return (value + (align - 1)) & ~(align - 1);
}

}  // namespace

// Small parts go to small gaps, so that large gaps stay whole.
std::uint64_t DeviceMemory::place(std::uint64_t size, std::uint64_t align) const {
  std::uint64_t best = storage_.size();
  std::uint64_t least = UINT64_MAX;
  const auto consider = [&](std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t start = round_up(begin, align);
    if (start > end || size > end - start || end - begin >= least) return;
    best = start;
    least = end - begin;
  };
  std::uint64_t begin = 0;
  for (const auto& [offset, len] : taken_) {
    consider(begin, offset);
    begin = offset + len;
  }
  consider(begin, storage_.size());
  return best;
}

Status DeviceMemory::alloc(const tern_cmd_alloc_dm& cmd, unsigned page_shift,
                           tern_rsp_alloc_dm* rsp) {
  const std::uint64_t length = le(std::uint64_t{cmd.length});
  const std::uint32_t log_align = le(std::uint32_t{cmd.log_align});
  if (length == 0 || length > storage_.size() || log_align > kMaxLogAlign) {
    return TERN_ST_BAD_PARAM;
  }
  if (parts_.full()) return TERN_ST_NO_RESOURCE;
  const std::uint64_t page = std::uint64_t{1} << page_shift;
  const std::uint64_t size = round_up(length, page);
  const std::uint64_t offset = place(size, std::max(page, std::uint64_t{1} << log_align));
  if (offset == storage_.size()) return TERN_ST_NO_MEMORY;
  taken_.emplace(offset, size);
  ++reserved_;
  *rsp = {};
  rsp->offset = le(offset);
  rsp->size = le(size);
  rsp->dmn = le(parts_.insert(std::make_unique<Part>(Part{offset, size})));
  return TERN_ST_OK;
}

// The part may hold data of its last owner, or of a CPU that stored to unallocated BAR4.
std::uint64_t DeviceMemory::clear(std::uint32_t number, std::uint64_t most) {
  Part& part = *parts_.find(number);
  const std::uint64_t len = std::min(most, part.size - part.cleared);
  const std::span<std::byte> bytes = this->bytes(part.offset + part.cleared, len);
  std::ranges::fill(bytes, std::byte{0});
  host_.dm_written(bytes);
  part.cleared += len;
  if (part.ready()) {
    --reserved_;
    used_ += part.size;
    if (log != nullptr) log_part(TERN_LOG_KEY_CREATED, number, part);
  }
  return len;
}

Status DeviceMemory::free(std::uint32_t number) {
  const Part* const part = find(number);
  if (part == nullptr) return TERN_ST_BAD_HANDLE;
  if (part->users != 0) return TERN_ST_BUSY;
  if (log != nullptr) log_part(TERN_LOG_KEY_DESTROYED, number, *part);
  used_ -= part->size;
  taken_.erase(part->offset);
  parts_.erase(number);
  return TERN_ST_OK;
}

void DeviceMemory::reset() {
  parts_.clear();
  taken_.clear();
  used_ = 0;
  reserved_ = 0;
}

}  // namespace tern
