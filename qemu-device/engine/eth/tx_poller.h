// SPDX-License-Identifier: GPL-2.0-or-later
// The transmit queues that the device polls (tern_eth_record.status, TERN_ETH_ST_POLLED).
#pragma once

#include "eth/eth_queue.h"
#include "objects/queue_poller.h"

namespace tern {

struct TxAccess {
  static bool may_poll(const EthQueue& q) { return q.transmits() && !q.broken; }
  static bool moved(Context& context, EthQueue& q) {
    if (q.kicked.linked()) return false;
    const auto pi = q.record.load32(context.host, offsetof(tern_eth_record, pi));
    return !pi || *pi != q.pi;
  }
  static std::uint32_t uar(const EthQueue& q) { return le(q.cmd.uar); }
  static void kick(EthQueue& q) { q.kick(); }
  static void store_status(Context& context, EthQueue& q);
};

using TxPoller = QueuePoller<EthQueue, TxAccess>;

}  // namespace tern
