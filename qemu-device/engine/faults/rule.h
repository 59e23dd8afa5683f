// SPDX-License-Identifier: GPL-2.0-or-later
// What shall go wrong, and when: rules as text. Documentation/faults.rst has the grammar.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/types.h"

namespace tern {

inline constexpr std::size_t kMaxFaultText = 8192;
inline constexpr std::size_t kMaxFaultRules = 64;

struct FaultRule {
  enum class Action : std::uint8_t {
    kDrop,
    kDuplicate,
    kDelay,
    kReorder,
    kCorrupt,
    kMark,
    kFatal,
    kAdminDrop,
    kDmaError,
  };
  enum class Way : std::uint8_t { kNone, kTx, kRx };
  // What of a packet is corrupted: one bit of it.
  enum class Part : std::uint8_t { kIcrc, kPayload, kPsn, kQp, kOpcode, kAny, kBit };

  std::string text;  // as it was written

  // Which packets.
  std::bitset<256> opcodes = std::bitset<256>().set();
  std::optional<std::uint32_t> qpn;
  std::optional<std::pair<Psn, Psn>> psns;  // first and last
  // Which of those that match; 0: not given.
  std::uint64_t nth = 0;
  std::uint64_t every = 0;
  std::uint64_t count = 0;
  std::uint64_t seed = 1;
  // Which memory accesses.
  std::uint64_t first_addr = 0;
  std::uint64_t last_addr = UINT64_MAX;
  // What becomes of them.
  std::uint64_t amount = 0;  // copies, nanoseconds, frames to wait for, TERN_FATAL_*
  Nanos after = 0;           // when copies follow
  std::uint32_t bit = 0;     // of kBit, from the first of the BTH

  // The small ones, in the same order.
  std::optional<std::uint32_t> ppm;  // chance of each that matches, in millionths
  std::optional<std::uint16_t> command;
  Action action = Action::kDrop;
  Way way = Way::kNone;
  std::uint8_t syndrome_mask = 0;  // 0: with or without AETH
  std::uint8_t syndrome = 0;
  bool reads = true;  // of memory
  bool writes = true;
  Part part = Part::kIcrc;
  bool sealed = false;  // the ICRC is made to fit
};

// The rules of `text`; nothing, and in `error` which rule is wrong and why, when one is.
[[nodiscard]] std::optional<std::vector<FaultRule>> parse_faults(std::string_view text,
                                                                 std::string& error);

// The opcodes (first byte of the BTH) that a name stands for; none when it is no name.
[[nodiscard]] std::bitset<256> opcodes_named(std::string_view name);
// Those of a transport class.
[[nodiscard]] std::bitset<256> opcodes_of(std::string_view transport);
// TERN_CMD_* by its name in small letters, `create-qp`.
[[nodiscard]] std::optional<std::uint16_t> command_named(std::string_view name);

}  // namespace tern
