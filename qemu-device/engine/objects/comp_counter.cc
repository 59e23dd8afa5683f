// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects/comp_counter.h"

#include <algorithm>

#include "objects/context.h"
#include "objects/record.h"

namespace tern {

CompCounter::CompCounter(Context& lane, const tern_cmd_create_comp_cntr& cmd)
    : context_(&lane),
      addresses_{le(std::uint64_t{cmd.value[0]}), le(std::uint64_t{cmd.value[1]})},
      type_(cmd.type),
      lane_member(
          lane, [](void* self, Context& to) { static_cast<CompCounter*>(self)->context_ = &to; },
          this) {}

tern_cmd_create_comp_cntr CompCounter::command() const {
  tern_cmd_create_comp_cntr cmd{};
  cmd.value[0] = le(addresses_[0]);
  cmd.value[1] = le(addresses_[1]);
  cmd.type = type_;
  return cmd;
}

bool CompCounter::valid() const {
  const auto aligned = [](std::uint64_t addr) { return addr % sizeof(std::uint64_t) == 0; };
  return type_ <= TERN_COMP_CNTR_BYTES && std::ranges::all_of(addresses_, aligned);
}

Status CompCounter::init() {
  if (!valid()) return TERN_ST_BAD_PARAM;
  return store(TERN_COMP_CNTR_COMP, 0) && store(TERN_COMP_CNTR_ERR, 0) ? TERN_ST_OK
                                                                       : TERN_ST_DMA_ERROR;
}

bool CompCounter::store(unsigned entry, std::uint64_t value) const {
  return dma_store64(context_->host, addresses_[entry], value);
}

void CompCounter::count(bool success, std::uint64_t bytes) {
  const unsigned entry = success ? TERN_COMP_CNTR_COMP : TERN_COMP_CNTR_ERR;
  values_[entry] += success && type_ == TERN_COMP_CNTR_BYTES ? bytes : 1;
  if (!store(entry, values_[entry])) context_->counters.add(TERN_CNT_DMA_ERRORS);
}

Status CompCounter::modify(const tern_cmd_modify_comp_cntr& cmd) {
  if (cmd.entry > TERN_COMP_CNTR_ERR || cmd.op > TERN_COMP_CNTR_ADD) return TERN_ST_BAD_PARAM;
  const std::uint64_t operand = le(std::uint64_t{cmd.operand});
  std::uint64_t& value = values_[cmd.entry];
  const std::uint64_t next = cmd.op == TERN_COMP_CNTR_ADD ? value + operand : operand;
  if (!store(cmd.entry, next)) return TERN_ST_DMA_ERROR;
  value = next;
  return TERN_ST_OK;
}

}  // namespace tern
