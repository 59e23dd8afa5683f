// SPDX-License-Identifier: GPL-2.0-or-later
// The event log: checks of keys, and changes of regions, windows and device memory.
#include "memory/device_memory.h"
#include "memory/memory.h"

namespace tern {

void Memory::log_check(std::uint8_t operation, const Accessor& who, const KeyRequest& request,
                       Rule broken, Access access) const {
  static_assert(TERN_LOG_CHECK_ABSENT == static_cast<int>(Access::kPending));
  static_assert(TERN_LOG_CHECK_DENIED == static_cast<int>(Access::kDenied));
  static_assert(TERN_LOG_CHECK_DMA == static_cast<int>(Access::kDmaError));
  constexpr std::uint32_t stores =
      TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_ATOMIC;
  const bool by_access = operation == TERN_LOG_CHECK_LOCAL || operation == TERN_LOG_CHECK_REMOTE;
  log->add({.type = TERN_LOG_CHECK,
            .code = operation,
            .flags = static_cast<std::uint16_t>(
                by_access && (request.rights & stores) ? TERN_LOG_F_WRITE : 0),
            .qpn = who.qp.value,
            .addr = request.addr,
            .length = request.length,
            .key = request.key,
            .index = static_cast<std::uint32_t>(access),
            .value = request.rights,
            .detail = static_cast<std::uint32_t>(broken)});
}

void Memory::log_key(std::uint8_t change, const Region& region, Qpn by) const {
  const std::uint32_t kind = region.fast       ? TERN_LOG_KIND_FAST
                             : region.dmn != 0 ? TERN_LOG_KIND_MR_ON_DM
                                               : TERN_LOG_KIND_MR;
  log->add({.type = TERN_LOG_KEY,
            .code = change,
            .qpn = by.value,
            .addr = region.iova,
            .length = region.length,
            .key = region.key,
            .index = kind,
            .value = region.access,
            .detail = region.pd.value});
}

void Memory::log_key(std::uint8_t change, const Window& w, Qpn by) const {
  const bool range = w.bound || change == TERN_LOG_KEY_UNBOUND;
  const Region* const region = range ? region_of(w) : nullptr;
  log->add(
      {.type = TERN_LOG_KEY,
       .code = change,
       .qpn = by.value,
       .addr = range ? w.iova : 0,
       .length = range ? w.length : 0,
       .key = w.key,
       .index = w.type == 1 ? std::uint32_t{TERN_LOG_KIND_MW_1} : std::uint32_t{TERN_LOG_KIND_MW_2},
       .value = range ? std::uint32_t{w.access} : 0,
       .detail = region != nullptr ? region->key
                 : range           ? 0
                                   : w.pd.value});
}

void DeviceMemory::log_part(std::uint8_t change, std::uint32_t number, const Part& part) const {
  log->add({.type = TERN_LOG_KEY,
            .code = change,
            .addr = part.offset,
            .length = part.size,
            .key = number,
            .index = TERN_LOG_KIND_DM});
}

}  // namespace tern
