// SPDX-License-Identifier: GPL-2.0-or-later
// Fault rules. Documentation/faults.rst has the grammar.
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
  // The part of a packet in which one bit is flipped.
  enum class Part : std::uint8_t { kIcrc, kPayload, kPsn, kQp, kOpcode, kAny, kBit };

  std::string text;  // as the user wrote it

  // Packets that match.
  std::bitset<256> opcodes = std::bitset<256>().set();
  std::optional<std::uint32_t> qpn;
  std::optional<std::pair<Psn, Psn>> psns;  // first and last
  // Matches that the rule applies to; 0: not given.
  std::uint64_t nth = 0;
  std::uint64_t every = 0;
  std::uint64_t count = 0;
  std::uint64_t seed = 1;
  // Memory accesses that match.
  std::uint64_t first_addr = 0;
  std::uint64_t last_addr = UINT64_MAX;
  // Parameters of the action.
  std::uint64_t amount = 0;  // copies, nanoseconds, frames to wait for, TERN_FATAL_*
  Nanos after = 0;           // delay of the copies
  std::uint32_t bit = 0;     // for kBit, counted from the start of the BTH

  // Small members, in the same order.
  std::optional<std::uint32_t> ppm;  // probability for each match, in millionths
  std::optional<std::uint16_t> command;
  Action action = Action::kDrop;
  Way way = Way::kNone;
  std::uint8_t syndrome_mask = 0;  // 0: with or without AETH
  std::uint8_t syndrome = 0;
  bool reads = true;  // memory accesses
  bool writes = true;
  Part part = Part::kIcrc;
  bool sealed = false;  // the ICRC is recomputed
};

// Parses the rules of `text`. Returns nothing if one is wrong; `error` then names it and the
// reason.
[[nodiscard]] std::optional<std::vector<FaultRule>> parse_faults(std::string_view text,
                                                                 std::string& error);

// Rules that replace the present ones, are added to them, or are removed from them.
struct FaultChange {
  enum class Kind : std::uint8_t { kReplace, kAdd, kRemove };
  Kind kind = Kind::kReplace;
  std::vector<FaultRule> rules;
};

// The same for a text that may begin with `add` or `remove`.
[[nodiscard]] std::optional<FaultChange> parse_fault_change(std::string_view text,
                                                            std::string& error);

// The opcodes (first byte of the BTH) that a name stands for; none if the name is unknown.
[[nodiscard]] std::bitset<256> opcodes_named(std::string_view name);
// The opcodes of a transport class; none if the name is unknown.
[[nodiscard]] std::bitset<256> opcodes_of(std::string_view transport);
// TERN_CMD_* by its name in lower case, such as `create-qp`.
[[nodiscard]] std::optional<std::uint16_t> command_named(std::string_view name);

}  // namespace tern
