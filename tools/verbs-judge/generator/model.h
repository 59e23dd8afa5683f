// SPDX-License-Identifier: GPL-2.0-or-later
// The oracle of one request: what an application may observe, given the state of all keys.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "side.h"

namespace guest::generator {

// A set of completion statuses.
using Statuses = std::uint32_t;
constexpr Statuses only(ibv_wc_status s) { return Statuses{1} << s; }
constexpr bool has(Statuses set, ibv_wc_status s) { return (set & only(s)) != 0; }
constexpr Statuses kSuccess = only(IBV_WC_SUCCESS);
std::string to_text(Statuses set);

struct Region {
  bool live = false;
  std::size_t pd = 0;
  unsigned access = 0;
  int mem = 0;
  std::uint32_t off = 0;
  std::uint32_t len = 0;
  std::uint64_t iova = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};

struct Window {
  bool live = false;
  bool bound = false;
  int type = 0;
  std::size_t pd = 0;
  std::uint32_t key = 0;
  // While it is bound.
  std::size_t region = 0;
  std::uint32_t off = 0;  // in the region's memory
  std::uint32_t len = 0;
  std::uint64_t base = 0;  // the address of its first byte for its users
  unsigned rights = 0;
  int owner = 0;  // QP::id
  bool operator==(const Window&) const = default;
};

struct Queue {
  std::size_t pd = 0;
  unsigned access = 0;
  int id = 0;           // another one after a reset
  bool failed = false;  // in the error state
};

struct Conn {
  bool up = false;    // both QPs exist
  bool dead = false;  // to be connected again
  std::int64_t type = kRc;
  bool srq = false;
  std::uint32_t mtu = 256;
  std::array<Queue, kEnds> ends{};
  [[nodiscard]] bool reliable() const { return type == kRc || type == kXrc; }
};

// Everything that decides what a request does, but for the bytes.
struct State {
  std::array<std::array<Region, kRegions>, kEnds> regions{};
  std::array<std::array<Window, kWindows>, kEnds> windows{};
  std::array<Conn, kConns> conns{};
};

// A receive request.
struct Receive {
  std::uint64_t id = 0;
  std::size_t num_sge = 0;
  std::array<ibv_sge, 2> sge{};
  std::size_t pd = 0;
  std::uint32_t header = 0;  // bytes that precede the payload
  bool used = false;
};

// Bytes of a memory; `mem` counts the memories of both ends.
struct Span {
  int mem = 0;
  std::uint32_t off = 0;
  std::uint32_t len = 0;
  bool operator==(const Span&) const = default;
};
constexpr int mem_id(int end, int mem) { return end * kMems + mem; }

// The bytes that an access may touch: all it names, or those in front of the first that it may not.
struct Reach {
  bool ok = true;
  std::vector<Span> spans{};
  bool operator==(const Reach&) const = default;
};
[[nodiscard]] std::uint32_t length_of(const Reach& reach);

struct Verdict {
  Statuses allowed = 0;   // with which the request may complete
  Statuses receive = 0;   // with which its receive may complete; 0: it takes none
  Reach here{};           // bytes of the requester
  Reach there{};          // bytes of the responder
  bool lossy = false;     // a message that may be lost
  bool delivered = true;  // the responder accepts it
};

// What `request` may do in this state. `receive` is what the peer's queue holds for it, or null.
Verdict judge(const State& state, const Request& request, const Receive* receive);
// Applies a request that succeeded.
void commit(State& state, const Request& request);

// The region or window that has this rkey; null if none has.
const Region* region_of(const State& state, int end, std::uint32_t rkey);
const Window* window_of(const State& state, int end, std::uint32_t rkey);
// Counts the windows that are bound to a region.
int windows_on(const State& state, int end, std::size_t slot);
// The part of a local buffer that the device may use.
Reach local(const State& state, int end, std::size_t pd, std::span<const ibv_sge> sges, bool write);

}  // namespace guest::generator
