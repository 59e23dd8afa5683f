// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/dm_ops.h"

#include <array>

namespace tern {

namespace {

// The operand of a load.
constexpr std::array<std::uint32_t, TERN_DM_OP_NUM> kLoadOperand = {1, 1, UINT32_MAX};

}  // namespace

Status DmOps::check(const tern_cmd_map_dm_op& cmd, unsigned page_shift) const {
  const DeviceMemory::Part* const part = dm_.find(le(std::uint32_t{cmd.dmn}));
  if (part == nullptr) return TERN_ST_BAD_HANDLE;
  const std::uint64_t offset = le(std::uint64_t{cmd.offset});
  const std::uint64_t in_page = offset & ((std::uint64_t{1} << page_shift) - 1);
  // A part has whole pages, so a page that begins inside it ends inside it.
  if (cmd.op >= TERN_DM_OP_NUM || in_page != 0 || offset >= part->size) return TERN_ST_BAD_PARAM;
  return TERN_ST_OK;
}

void DmOps::map(const tern_cmd_map_dm_op& cmd, std::uint32_t uar) {
  const std::uint32_t dmn = le(std::uint32_t{cmd.dmn});
  DeviceMemory::Part& part = *dm_.find(dmn);
  ++part.users;
  pages_.insert_or_assign(uar, Page{dmn, part.offset + le(std::uint64_t{cmd.offset}), cmd.op});
}

void DmOps::unmap(std::uint32_t uar) {
  const auto it = pages_.find(uar);
  if (it == pages_.end()) return;
  --dm_.find(it->second.dmn)->users;
  pages_.erase(it);
}

std::uint32_t DmOps::load(const Page& page, std::uint64_t at) {
  return at % sizeof(std::uint32_t) == 0 ? execute(page, at, kLoadOperand[page.op]) : TERN_REG_GONE;
}

void DmOps::store(const Page& page, std::uint64_t at, std::uint32_t value) {
  if (at % sizeof(std::uint32_t) == 0) execute(page, at, value);
}

// CPUs and other data paths may access the word at the same time.
std::uint32_t DmOps::execute(const Page& page, std::uint64_t at, std::uint32_t operand) {
  const std::span<std::byte> bytes = dm_.bytes(page.offset + at, sizeof(std::uint32_t));
  auto* const word = reinterpret_cast<std::uint32_t*>(bytes.data());
  std::uint32_t old;
  switch (page.op) {
    case TERN_DM_OP_ADD:
      old = __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
      break;
    case TERN_DM_OP_OR:
      old = __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
      break;
    default:
      old = __atomic_fetch_and(word, ~operand, __ATOMIC_SEQ_CST);
      break;
  }
  host_.dm_written(bytes);
  return old;
}

}  // namespace tern
