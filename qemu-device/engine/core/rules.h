// SPDX-License-Identifier: GPL-2.0-or-later
// The rules that an operation on a key may break. TERN_MUTATIONS can switch off those of memory
// windows (core/mutations.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tern_hw.hpp"

namespace tern {

// Numbered as the event log numbers them.
enum class Rule : std::uint8_t {
  kNone = TERN_LOG_RULE_NONE,  // all rules hold
  // Of memory windows: these can be switched off.
  kMwPd = TERN_LOG_RULE_MW_PD,
  kMwQp = TERN_LOG_RULE_MW_QP,
  kMwLow = TERN_LOG_RULE_MW_LOW,
  kMwHigh = TERN_LOG_RULE_MW_HIGH,
  kMwWrap = TERN_LOG_RULE_MW_WRAP,
  kMwRead = TERN_LOG_RULE_MW_READ,
  kMwWrite = TERN_LOG_RULE_MW_WRITE,
  kMwAtomic = TERN_LOG_RULE_MW_ATOMIC,
  kMwFlush = TERN_LOG_RULE_MW_FLUSH,
  kMwVariant = TERN_LOG_RULE_MW_VARIANT,
  kMwUnbound = TERN_LOG_RULE_MW_UNBOUND,
  kMwMrWrite = TERN_LOG_RULE_MW_MR_WRITE,
  kBindQpPd = TERN_LOG_RULE_BIND_QP_PD,
  kBindMrPd = TERN_LOG_RULE_BIND_MR_PD,
  kBindMrRight = TERN_LOG_RULE_BIND_MR_RIGHT,
  kBindLocalWrite = TERN_LOG_RULE_BIND_LOCAL_WRITE,
  kBindRange = TERN_LOG_RULE_BIND_RANGE,
  kBindWrap = TERN_LOG_RULE_BIND_WRAP,
  kBindFree = TERN_LOG_RULE_BIND_FREE,
  kBindType = TERN_LOG_RULE_BIND_TYPE,
  kBindZeroLength = TERN_LOG_RULE_BIND_ZERO_LENGTH,
  kBindKey = TERN_LOG_RULE_BIND_KEY,
  kInvFree = TERN_LOG_RULE_INV_FREE,
  kInvType = TERN_LOG_RULE_INV_TYPE,
  kInvQp = TERN_LOG_RULE_INV_QP,
  kInvPd = TERN_LOG_RULE_INV_PD,
  kInvVariant = TERN_LOG_RULE_INV_VARIANT,
  kMrBusy = TERN_LOG_RULE_MR_BUSY,
  kInvMrBound = TERN_LOG_RULE_INV_MR_BOUND,
  // Of all keys, and of work requests.
  kKey = TERN_LOG_RULE_KEY,
  kMrClosed = TERN_LOG_RULE_MR_CLOSED,
  kMrPd = TERN_LOG_RULE_MR_PD,
  kMrLocalWrite = TERN_LOG_RULE_MR_LOCAL_WRITE,
  kMrRemoteWrite = TERN_LOG_RULE_MR_REMOTE_WRITE,
  kMrRemoteRead = TERN_LOG_RULE_MR_REMOTE_READ,
  kMrRemoteAtomic = TERN_LOG_RULE_MR_REMOTE_ATOMIC,
  kMrFlush = TERN_LOG_RULE_MR_FLUSH,
  kMrLow = TERN_LOG_RULE_MR_LOW,
  kMrHigh = TERN_LOG_RULE_MR_HIGH,
  kPrivileged = TERN_LOG_RULE_PRIVILEGED,
  kFields = TERN_LOG_RULE_FIELDS,
  kFast = TERN_LOG_RULE_FAST,
  kFastOpen = TERN_LOG_RULE_FAST_OPEN,
  kInvRights = TERN_LOG_RULE_INV_RIGHTS,
  kQpRights = TERN_LOG_RULE_QP_RIGHTS,
};

// Names of the rules that can be switched off, in the order of Rule from kMwPd. Each ends with a
// NUL because the C API returns it.
inline constexpr auto kRuleNames = std::to_array<std::string_view>({
    "mw-pd",
    "mw-qp",
    "mw-low",
    "mw-high",
    "mw-wrap",
    "mw-read",
    "mw-write",
    "mw-atomic",
    "mw-flush",
    "mw-variant",
    "mw-unbound",
    "mw-mr-write",
    "bind-qp-pd",
    "bind-mr-pd",
    "bind-mr-right",
    "bind-local-write",
    "bind-range",
    "bind-wrap",
    "bind-free",
    "bind-type",
    "bind-zero-length",
    "bind-key",
    "inv-free",
    "inv-type",
    "inv-qp",
    "inv-pd",
    "inv-variant",
    "mr-busy",
    "inv-mr-bound",
});
static_assert(kRuleNames.size() == static_cast<std::size_t>(Rule::kInvMrBound));

}  // namespace tern
