/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
// The event log for C++20: the header of a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "tern_hw.hpp"

namespace tern {

// `clock`: TERN_LOG_CLOCK_*; `epoch`: ns from 1970 to 0 of that clock; `name`: of the
// adapter, cut to the size of the field.
[[nodiscard]] inline tern_log_header log_header(std::uint8_t clock, std::uint64_t epoch, std::span<const std::uint8_t, 6> mac,
                                                std::string_view name) {
  tern_log_header header{};
  std::ranges::copy(TERN_LOG_MAGIC, header.magic);
  header.version = le(std::uint16_t{TERN_LOG_VERSION});
  header.header_size = le(std::uint16_t{sizeof(header)});
  header.record_size = le(std::uint16_t{sizeof(tern_log_event)});
  header.clock = clock;
  header.epoch = le(epoch);
  std::ranges::copy(mac, header.mac);
  name.copy(reinterpret_cast<char*>(header.name), sizeof(header.name) - 1);
  return header;
}

}  // namespace tern
