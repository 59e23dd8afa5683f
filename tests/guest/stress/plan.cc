// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "verbs.h"

namespace guest {

namespace {

constexpr std::uint32_t kShortestNumbered = 8;
constexpr std::uint32_t kLongestDatagram = 2048;

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// A pseudo-random number for one property of one message.
std::uint64_t draw(const Flow& flow, std::uint64_t number, std::uint64_t what) {
  return mix(mix(mix(flow.seed) + flow.id) + number * 8 + what);
}

enum : std::uint64_t { kOpcode, kLength, kOperand, kContent, kBlank };

ibv_wr_opcode choose_opcode(const Flow& flow, std::uint64_t x) {
  constexpr std::array kReliable = {IBV_WR_SEND,
                                    IBV_WR_SEND,
                                    IBV_WR_SEND_WITH_IMM,
                                    IBV_WR_RDMA_WRITE,
                                    IBV_WR_RDMA_WRITE,
                                    IBV_WR_RDMA_WRITE_WITH_IMM,
                                    IBV_WR_RDMA_READ,
                                    IBV_WR_RDMA_READ,
                                    IBV_WR_ATOMIC_CMP_AND_SWP,
                                    IBV_WR_ATOMIC_FETCH_AND_ADD};
  constexpr std::array kUnreliable = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                      IBV_WR_RDMA_WRITE_WITH_IMM};
  if (flow.reliable()) return kReliable[x % kReliable.size()];
  return kUnreliable[x % (flow.type == IBV_QPT_UD ? 2 : kUnreliable.size())];
}

std::uint32_t choose_length(const Flow& flow, std::uint64_t x) {
  constexpr std::array<std::uint32_t, 8> kMost = {64,       64,       kMtu,     kMtu,
                                                  4 * kMtu, 4 * kMtu, 4 * kMtu, kLongest};
  std::uint32_t most = kMost[x % kMost.size()];
  if (flow.type == IBV_QPT_UD) most = std::min(most, kLongestDatagram);
  const auto length = static_cast<std::uint32_t>((x >> 8) % (most + 1));
  return flow.reliable() ? length : std::max(length, kShortestNumbered);
}

bool begins_with_number(const Flow& flow, const Message& m) {
  return !flow.reliable() && (m.opcode == IBV_WR_SEND || m.opcode == IBV_WR_SEND_WITH_IMM);
}

}  // namespace

Message message(const Flow& flow, std::uint64_t number) {
  Message m{.number = number};
  m.opcode = choose_opcode(flow, draw(flow, number, kOpcode) >> 8);
  m.length = choose_length(flow, draw(flow, number, kLength));
  m.operand = draw(flow, number, kOperand);
  m.swaps = (m.operand & 1) != 0;
  if (is_atomic(m.opcode)) m.length = 8;
  return m;
}

std::uint64_t after(const Message& m, std::uint64_t word) {
  switch (m.opcode) {
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return word + m.operand;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return m.swaps ? m.operand : word;
    default:
      return word;
  }
}

void write_content(std::span<std::byte> out, const Flow& flow, const Message& m) {
  const std::uint64_t seed = draw(flow, m.number, kContent);
  if (!begins_with_number(flow, m)) return fill(out, seed);
  std::memcpy(out.data(), &m.number, sizeof(m.number));
  fill(out.subspan(sizeof(m.number)), seed);
}

bool is_content(std::span<const std::byte> in, const Flow& flow, const Message& m) {
  const std::uint64_t seed = draw(flow, m.number, kContent);
  if (!begins_with_number(flow, m)) return !mismatch(in, seed);
  return std::memcmp(in.data(), &m.number, sizeof(m.number)) == 0 &&
         !mismatch(in.subspan(sizeof(m.number)), seed);
}

void write_blank(std::span<std::byte> out, const Flow& flow, const Message& m) {
  fill(out, draw(flow, m.number, kBlank));
}

bool is_blank(std::span<const std::byte> in, const Flow& flow, const Message& m) {
  return !mismatch(in, draw(flow, m.number, kBlank));
}

bool is_blank_after(std::span<const std::byte> in, const Flow& flow, const Message& m) {
  std::array<std::byte, kSlot> blank{};
  const std::span all = std::span(blank).first(in.size());
  write_blank(all, flow, m);
  return std::ranges::equal(all.subspan(m.length), in.subspan(m.length));
}

bool is_beginning(std::span<const std::byte> in, const Flow& flow, const Message& m) {
  std::array<std::byte, kSlot> expected{};
  const std::span all = std::span(expected).first(in.size());
  write_blank(all, flow, m);
  for (std::uint32_t at = 0;; at = std::min(at + kMtu, m.length)) {
    write_content(all.first(at), flow, m);
    if (std::ranges::equal(all, in)) return true;
    if (at == m.length) return false;
  }
}

}  // namespace guest
