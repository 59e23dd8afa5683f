// SPDX-License-Identifier: GPL-2.0-or-later
// The QPs whose send queue the device polls (tern_qp_record.status, TERN_QP_ST_SQ_POLLED).
#pragma once

#include "objects/queue_poller.h"
#include "transport/qp.h"

namespace tern {

struct SqAccess {
  static bool may_poll(const Qp& qp) { return qp.has_sq() && qp.state() == TERN_QPS_RTS; }
  static bool moved(Context& /*context*/, Qp& qp) { return qp.sq_moved(); }
  static std::uint32_t uar(const Qp& qp) { return qp.uar(); }
  static void kick(Qp& qp) { qp.kick_sq(); }
  static void store_status(Context& /*context*/, Qp& qp) { qp.store_status(); }
};

using SqPoller = QueuePoller<Qp, SqAccess>;

}  // namespace tern
