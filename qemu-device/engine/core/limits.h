// SPDX-License-Identifier: GPL-2.0-or-later
// Compile-time limits of the device, reported by QUERY_CAPS and enforced by the commands.
#pragma once

#include <cstdint>

namespace tern {

inline constexpr unsigned kMaxLanes = 16;
inline constexpr std::uint32_t kMaxPd = 65536;
inline constexpr std::uint32_t kMaxEq = 256;
inline constexpr std::uint32_t kMaxSrq = 16384;
inline constexpr std::uint32_t kMaxXrcd = 16384;
inline constexpr std::uint32_t kMaxDm = 65536;
inline constexpr std::uint32_t kMaxCounterSets = 4096;
inline constexpr std::uint32_t kMaxCompCounters = 65536;
inline constexpr std::uint8_t kMinLogEq = 4;
inline constexpr std::uint8_t kMaxLogEq = 20;
// An arm has 24 bits for a CQ index, so a CQ must stay well below 2^24 entries.
inline constexpr std::uint8_t kMinLogCq = 1;
inline constexpr std::uint8_t kMaxLogCq = 22;
inline constexpr std::uint8_t kMaxLogWq = 15;
inline constexpr std::uint32_t kMaxMcastGroups = 8192;
// Bounds the copies of a multicast datagram, all of which are made in one step.
inline constexpr std::uint32_t kMaxMcastQps = 64;
inline constexpr std::uint32_t kMaxFlows = 16384;
inline constexpr std::uint32_t kMaxFlowShapes = 64;
inline constexpr std::uint32_t kMaxFlowCounters = 16384;
inline constexpr std::uint16_t kMaxSge = 32;
inline constexpr std::uint32_t kMaxInline = 1024;
inline constexpr std::uint32_t kMaxMessage = 0x8000'0000;  // 2^31 bytes, IBTA 9.7.2 C9-94
inline constexpr std::uint8_t kMaxRdAtomic = 16;
inline constexpr std::uint8_t kLocalAckDelay = 15;  // 134 ms: an emulated machine may be slow

// Ports are numbered from 1.
inline constexpr std::uint8_t kNumPorts = 1;
constexpr bool is_port(std::uint8_t port) { return port >= 1 && port <= kNumPorts; }

inline constexpr std::uint64_t kMaxMrSize = std::uint64_t{1} << 40;
// Page list entries of all objects together, unless the host sets a limit: 512 MiB of lists, which
// describe 256 GiB of 4 KiB pages.
inline constexpr std::uint64_t kMaxPages = std::uint64_t{1} << 26;
// Entries that one command reads; enough for the largest ring in 4 KiB pages.
inline constexpr std::uint32_t kMaxCmdPages = 65536;
static_assert(std::uint64_t{64} << kMaxLogCq <= std::uint64_t{kMaxCmdPages} << 12);

// Largest rate limit, in kbit/s: the port's speed (Mbit/s), or what 32 bits hold.
constexpr std::uint32_t max_rate(std::uint32_t link_speed) {
  constexpr std::uint32_t kMost = 4'000'000'000;
  return link_speed < kMost / 1'000 ? link_speed * 1'000 : kMost;
}

// Entries of a REG_MR list: 2 MiB of 4 KiB pages. The list itself fills one such page.
inline constexpr std::uint32_t kMaxFastRegPages = 512;

inline constexpr unsigned kPageShiftMin = 12;  // of page lists
inline constexpr unsigned kPageShiftMax = 31;

}  // namespace tern
