// SPDX-License-Identifier: GPL-2.0-or-later
// What a QP of each type needs on its way from RESET to RTS.
#pragma once

#include <cstdint>

#include "tern_hw.hpp"

namespace tern::test {

[[nodiscard]] constexpr bool sends_datagrams(std::uint8_t type) {
  return type == TERN_QPT_UD || type == TERN_QPT_GSI;
}
[[nodiscard]] constexpr bool is_connected(std::uint8_t type) {
  return type != TERN_QPT_RAW && !sends_datagrams(type);
}

// The mask of MODIFY_QP to `state`: INIT, RTR or RTS.
[[nodiscard]] constexpr std::uint32_t needed_attributes(std::uint8_t type, std::uint8_t state) {
  std::uint32_t mask = TERN_QPA_STATE;
  switch (state) {
    case TERN_QPS_INIT:
      if (type == TERN_QPT_RAW) return mask | TERN_QPA_PORT;
      return mask | TERN_QPA_PKEY_INDEX | TERN_QPA_PORT |
             (sends_datagrams(type) ? TERN_QPA_QKEY : TERN_QPA_ACCESS);
    case TERN_QPS_RTR:
      if (!is_connected(type)) return mask;
      mask |= TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN | TERN_QPA_RQ_PSN;
      if (type == TERN_QPT_UC || type == TERN_QPT_XRC_INI) return mask;
      return mask | TERN_QPA_MAX_DEST_RD_ATOMIC | TERN_QPA_MIN_RNR_TIMER;
    default:
      if (type == TERN_QPT_RAW) return mask;
      mask |= TERN_QPA_SQ_PSN;
      if (sends_datagrams(type) || type == TERN_QPT_UC) return mask;
      mask |= TERN_QPA_TIMEOUT;
      if (type == TERN_QPT_XRC_TGT) return mask;
      return mask | TERN_QPA_RETRY_CNT | TERN_QPA_RNR_RETRY | TERN_QPA_MAX_RD_ATOMIC;
  }
}

}  // namespace tern::test
