// SPDX-License-Identifier: GPL-2.0-or-later
// What is sent: both ends compute every message, its memory and its bytes from a seed, the flow and
// the message's number in it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace guest {

constexpr std::uint32_t kMtu = 1024;          // bytes in a packet
constexpr std::uint32_t kLongest = 16 * kMtu;  // bytes of a message
constexpr std::uint32_t kGuard = 64;           // bytes behind a message that stay as they are
constexpr std::uint32_t kSlot = kLongest + kGuard;
constexpr std::uint32_t kGrh = 40;
constexpr std::uint64_t kRound = 16;  // messages of a flow between two meetings of the ends
constexpr std::uint64_t kSlots = 2 * kRound;

// A session's memory: slots of what it asks for, of what it is asked for, of receives that no
// message is meant for in particular (unreliable), and the word of the atomics.
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
  ibv_qp_type type = IBV_QPT_RC;  // of the end that asks

  [[nodiscard]] bool reliable() const {
    return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
  }
};

struct Message {
  std::uint64_t number = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::uint32_t length = 0;
  bool swaps = false;         // CMP_AND_SWP: what is compared is equal
  std::uint64_t operand = 0;  // what is added or stored
};

Message message(const Flow& flow, std::uint64_t number);

constexpr bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// What the word is after the message when it was `word` before.
std::uint64_t after(const Message& m, std::uint64_t word);

// The bytes of a message. A datagram's, and those of a SEND of UC, begin with the number.
void write_content(std::span<std::byte> out, const Flow& flow, const Message& m);
// Whether these are they.
bool is_content(std::span<const std::byte> in, const Flow& flow, const Message& m);
// How memory looks that the message has not touched.
void write_blank(std::span<std::byte> out, const Flow& flow, const Message& m);
bool is_blank(std::span<const std::byte> in, const Flow& flow, const Message& m);
// The bytes of `in` behind the message's.
bool is_blank_behind(std::span<const std::byte> in, const Flow& flow, const Message& m);
// Whole packets of the message from its beginning, and behind them nothing.
bool is_beginning(std::span<const std::byte> in, const Flow& flow, const Message& m);

}  // namespace guest
