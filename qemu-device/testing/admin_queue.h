// SPDX-License-Identifier: GPL-2.0-or-later
// The admin queue, for drivers of every kind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern_hw.hpp"

namespace tern::test {

// Enables a device with admin queues of 1 << log_size entries, and with a record unless its address
// is 0. set(offset, value) writes a register.
template <class Set>
void enable_admin_queue(std::uint64_t aq, std::uint64_t acq, unsigned log_size, const Set& set,
                        std::uint64_t record = 0) {
  set(TERN_REG_AQ_BASE_LO, static_cast<std::uint32_t>(aq));
  set(TERN_REG_AQ_BASE_HI, static_cast<std::uint32_t>(aq >> 32));
  set(TERN_REG_ACQ_BASE_LO, static_cast<std::uint32_t>(acq));
  set(TERN_REG_ACQ_BASE_HI, static_cast<std::uint32_t>(acq >> 32));
  set(TERN_REG_AQ_LOG_SIZE, log_size);
  set(TERN_REG_AQ_RECORD_LO, static_cast<std::uint32_t>(record));
  set(TERN_REG_AQ_RECORD_HI, static_cast<std::uint32_t>(record >> 32));
  set(TERN_REG_CTRL, TERN_CTRL_ENABLE);
}

// A command whose input and reply are at these DMA addresses.
[[nodiscard]] inline tern_aq_entry admin_entry(std::uint16_t opcode, std::uint64_t in,
                                               std::size_t in_len, std::uint64_t out,
                                               std::size_t out_len, std::uint32_t tag = 0) {
  tern_aq_entry e{.opcode = le(opcode),
                  .version = le(std::uint16_t{TERN_CMD_VERSION}),
                  .tag = le(tag),
                  .in_len = le(static_cast<std::uint16_t>(in_len)),
                  .out_len = le(static_cast<std::uint16_t>(out_len)),
                  .in_addr = le(in),
                  .out_addr = le(out)};
  return e;
}

}  // namespace tern::test
