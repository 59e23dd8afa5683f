// SPDX-License-Identifier: GPL-2.0-or-later
// The plan: both ends compute every message, its memory and its data from a seed, the flow, and the
// message's number in it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace guest {

constexpr std::uint32_t kMtu = 1024;           // bytes per packet
constexpr std::uint32_t kLongest = 16 * kMtu;  // bytes per message
constexpr std::uint32_t kGuard = 64;           // bytes after a message that must not change
constexpr std::uint32_t kSlot = kLongest + kGuard;
constexpr std::uint64_t kRound = 16;  // messages of a flow per round
constexpr std::uint64_t kSlots = 2 * kRound;

// Layout of a session's memory: slots for the requester, slots for the responder, receive buffers
// for messages of unreliable flows, and the atomics' target word.
constexpr std::uint64_t kAskedAt = kRound * kSlot;
constexpr std::uint64_t kBuffersAt = kAskedAt + kSlots * kSlot;
constexpr std::uint64_t kWordAt = kBuffersAt + kSlots * kSlot;
constexpr std::uint32_t kMemory = static_cast<std::uint32_t>(kWordAt + 64);

constexpr std::uint64_t ask_slot(std::uint64_t number) { return number % kRound * kSlot; }
constexpr std::uint64_t asked_slot(std::uint64_t number) {
  return kAskedAt + number % kSlots * kSlot;
}

struct Flow {
  std::uint64_t seed = 0;
  std::uint32_t id = 0;
  ibv_qp_type type = IBV_QPT_RC;  // of the requester

  [[nodiscard]] bool reliable() const { return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND; }
};

struct Message {
  std::uint64_t number = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::uint32_t length = 0;
  bool swaps = false;         // CMP_AND_SWP: the comparison succeeds
  std::uint64_t operand = 0;  // the value to add or to swap in
};

Message message(const Flow& flow, std::uint64_t number);

constexpr bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// Returns the value of the word after the message, if it was `word` before.
std::uint64_t after(const Message& m, std::uint64_t word);

// Writes the data of a message. UD messages and UC SENDs start with the message's number.
void write_content(std::span<std::byte> out, const Flow& flow, const Message& m);
// Returns whether these bytes are the message's data.
bool is_content(std::span<const std::byte> in, const Flow& flow, const Message& m);
// Writes the pattern of memory that the message has not touched yet.
void write_blank(std::span<std::byte> out, const Flow& flow, const Message& m);
bool is_blank(std::span<const std::byte> in, const Flow& flow, const Message& m);
// Checks the bytes of `in` after the message's data.
bool is_blank_after(std::span<const std::byte> in, const Flow& flow, const Message& m);
// Checks that `in` holds a prefix of whole packets of the message, and the blank pattern after it.
bool is_beginning(std::span<const std::byte> in, const Flow& flow, const Message& m);

}  // namespace guest
