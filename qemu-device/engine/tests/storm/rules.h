// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of PSNs, of the responder's checks, of errors, rates and tags, and how often a storm
// has met each.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tern::storm {

enum class Rule : std::uint8_t {
  // PSNs.
  kInOrder,
  kAheadNak,
  kAheadSilent,
  kAheadAgain,
  kNakTaken,
  kRepeatedSend,
  kRepeatedWrite,
  kRepeatedRead,
  kRepeatedReadPart,
  kRepeatedReadElsewhere,
  kRepeatedReadUnknown,
  kRepeatedAtomic,
  kRepeatedAtomicUnknown,
  kRepeatedFlush,
  kRepeatedFlushElsewhere,
  kRepeatedFlushUnknown,
  kRepeatedAtomicWrite,
  kRepeatedAtomicWriteElsewhere,
  kRepeatedAtomicWriteUnknown,
  kReadPsns,
  kReadEmpty,
  kFlushPsn,
  kAtomicWritePsn,
  kXrcFlush,
  kXrcAtomicWrite,
  kUcGap,
  kUcResumes,
  kUcNoFirst,
  kWrapRequest,
  kWrapRead,
  kWrapUnreliable,
  kWindowFull,
  kAckAsked,
  kReadDepth,
  kReadsRefused,
  kReadsTooMany,
  kCoalescedAck,
  kImpliedByAck,
  kImpliedByRead,
  kImpliedByAtomic,
  kImpliedByEmpty,
  kReadResumed,
  kFlushAgain,
  kAtomicWriteAgain,
  kTimeout,
  kStaleResponse,
  // The responder's checks.
  kOrderNoFirst,
  kOrderFirstAgain,
  kOrderMixed,
  kOrderOther,
  kUcOrder,
  kOpcode,
  kXrcSrq,
  kFlagWrite,
  kFlagRead,
  kFlagAtomic,
  kFlagFlush,
  kFlagAtomicWrite,
  kUcFlag,
  kRnrSend,
  kRnrWriteImm,
  kRnrShared,
  kRnrXrc,
  kUdNoReceive,
  kUcNoReceive,
  kLengthOnly,
  kLengthFirst,
  kLengthLast,
  kLengthReth,
  kLengthMore,
  kLengthLess,
  kLengthReceive,
  kUdLength,
  kUcLength,
  kKeyUnknown,
  kKeyRange,
  kKeyRight,
  kKeyPd,
  kUcKey,
  kZeroWrite,
  kZeroRead,
  kPad,
  kAtomicPlace,
  kAtomicKey,
  kFlushKey,
  kFlushRange,
  kFlushEmpty,
  kAtomicWritePlace,
  kAtomicWriteLength,
  kAtomicWriteKey,
  kAccessEvent,
  kAccessReceive,
  kReadKeyGone,
  kBadReceive,
  kInvalidate,
  kCqOverflow,
  kIcrc,
  // What errors mean to the requester and to both queues.
  kStatusInvalid,
  kStatusAccess,
  kStatusOperation,
  kStatusRetries,
  kStatusRnr,
  kFlushedSends,
  kFlushedReceives,
  kLastWqe,
  // Rates and paths.
  kPaced,
  kCnpSent,
  kCnpTaken,
  kMigrated,
  // Tag matching.
  kTagEager,
  kTagLong,
  kTagRendezvous,
  kTagIncomplete,
  kTagUnexpected,
  kTagNone,
  kTagOldest,
  kTagWaits,
  kTagSkipped,
  kTagReady,
  kTagDeleted,
  kTagNotThere,
  kTagRefused,
  kTagTooLong,
  kTagKeyGone,
  kTagRemoteKeyGone,
  kTagFlushed,
  kTagSrqGone,
  kNum
};

struct RuleText {
  const char* section;  // of the reference
  const char* name;
  const char* text;
  bool forged;  // met by forged frames
};
[[nodiscard]] const RuleText& text_of(Rule rule);

class RuleCounts {
 public:
  void add(Rule rule, std::uint64_t n = 1) { counts_[static_cast<std::size_t>(rule)] += n; }
  [[nodiscard]] std::uint64_t of(Rule rule) const {
    return counts_[static_cast<std::size_t>(rule)];
  }
  void add(const RuleCounts& more) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += more.counts_[i];
  }
  // One line per rule.
  [[nodiscard]] std::string table() const;
  // Names of the rules that were not met.
  [[nodiscard]] std::string missing() const;

 private:
  std::array<std::uint64_t, static_cast<std::size_t>(Rule::kNum)> counts_{};
};

}  // namespace tern::storm
