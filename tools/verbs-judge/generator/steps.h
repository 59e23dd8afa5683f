// SPDX-License-Identifier: GPL-2.0-or-later
// Programs of verbs: steps over the objects of two endpoints. A step names objects by slots, so
// that any part of a program is a program again. A step whose objects do not exist does nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace guest::generator {

enum class Verb : std::uint8_t {
  kRegion,
  kDereg,
  kRereg,
  kWindow,
  kDealloc,
  kConnect,
  kReset,
  kDestroy,
  kError,
  kKill,
  kReceive,
  kArm,
  // Requests of a send queue.
  kBind,
  kInvalidate,
  kSend,
  kSendImm,
  kSendInv,
  kWrite,
  kWriteImm,
  kRead,
  kCas,
  kFetchAdd,
  kAtomicWrite,
  kFlush,
  kCount
};

// Arguments of a step. All are 0 unless they are given.
enum class Arg : std::uint8_t {
  kEnd,      // the end that acts
  kConn,     // the connection
  kSlot,     // the object that is made or used: a region, a window
  kType,     // a window: 1 or 2; a connection: see ConnType
  kPd,       // the PD; of a connection: bit 0 for end 0, bit 1 for end 1
  kAccess,   // rights
  kPeer,     // rights of end 1's QP
  kMem,      // the memory under a region; kDeviceMem is device memory
  kOff,      // the first byte in the region or in the memory
  kLen,      // bytes
  kBase,     // of a region: how its addresses are chosen, see Base
  kWhat,     // of a reregistration: IBV_REREG_MR_*
  kOf,       // the key is that of 0: a region, 1: a window
  kKey,      // its slot
  kWhose,    // 0: an object of the other end (LOCAL_INV: of this end), 1: the other way round
  kAge,      // 0: its key; n: the n-th key before
  kLow,      // changes bits of the key's low byte
  kAt,       // address: from the first byte of the key's range
  kTop,      // address: 1: from 2^64 instead
  kLkey,     // 0: the region's lkey, 1: with another low byte, 2: a window's key, 3: an old one
  kSplit,    // bytes of the first of two SGEs
  kVariant,  // of a bind: the low byte of the new key
  kZero,     // of a bind: a zero-based window
  kForge,    // of a bind: 1: lie about the window's type, 2: about its key
  kValue,    // operand
  kBurst,    // do not wait for the completion
  kFence,
  kInline,
  kSilent,  // unsignaled, if another request follows in the queue
  kSolicited,
  kApi,  // 1: ibv_wr_*()
  kSrq,  // of a connection: receives come from an SRQ
  kMtu,  // of a connection: 0: 256 bytes, 1: 1024
  kCount
};

enum ConnType : std::int64_t { kRc, kUc, kUd, kXrc, kConnTypes };
// Addresses of a region: those of its memory, from (nearly) 0, up to 2^64, or small.
enum Base : std::int64_t { kNatural, kLowest, kHighest, kSmall, kBases };

constexpr int kEnds = 2;
constexpr int kRegions = 5;
constexpr int kWindows = 5;
constexpr int kConns = 8;
constexpr int kPds = 2;
constexpr int kHostMems = 3;  // memories of an end
constexpr int kDeviceMem = kHostMems;
constexpr int kMems = kHostMems + 1;
constexpr std::uint32_t kMemSize = 8192;
constexpr std::uint32_t kDeviceMemSize = 4096;
constexpr std::uint32_t mem_size(int mem) { return mem == kDeviceMem ? kDeviceMemSize : kMemSize; }

struct Step {
  Verb verb = Verb::kCount;
  std::array<std::int64_t, static_cast<std::size_t>(Arg::kCount)> args{};

  [[nodiscard]] std::int64_t operator[](Arg a) const { return args[static_cast<std::size_t>(a)]; }
  std::int64_t& operator[](Arg a) { return args[static_cast<std::size_t>(a)]; }
  [[nodiscard]] bool on(Arg a) const { return (*this)[a] != 0; }
  [[nodiscard]] std::size_t index(Arg a) const { return static_cast<std::size_t>((*this)[a]); }
  [[nodiscard]] unsigned bits(Arg a) const { return static_cast<unsigned>((*this)[a]); }
  bool operator==(const Step&) const = default;
};
using Steps = std::vector<Step>;

const char* name_of(Verb verb);
const char* name_of(Arg arg);
constexpr bool is_request(Verb v) { return v >= Verb::kBind && v < Verb::kCount; }
// Executed by the own adapter alone.
constexpr bool is_local(Verb v) { return v == Verb::kBind || v == Verb::kInvalidate; }
constexpr bool is_send(Verb v) {
  return v == Verb::kSend || v == Verb::kSendImm || v == Verb::kSendInv;
}
// Takes a receive of the peer.
constexpr bool takes_receive(Verb v) { return is_send(v) || v == Verb::kWriteImm; }
constexpr bool is_atomic(Verb v) { return v == Verb::kCas || v == Verb::kFetchAdd; }
// Brings bytes from the peer.
constexpr bool is_fetch(Verb v) { return v == Verb::kRead || is_atomic(v); }

// A line of text: the verb, then NAME=NUMBER for each argument that is not 0.
std::string to_text(const Step& step);
// Throws a Failure if the text is malformed. Skips empty lines and comments (#).
Steps parse(const std::string& text);

// What a device can do, as words.
using Caps = std::set<std::string>;
std::string to_text(const Caps& caps);
Caps parse_words(const std::string& text);

}  // namespace guest::generator
