// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/changes.h"

#include <algorithm>
#include <utility>

namespace tern::storm {

namespace {

Status modify_path(const TestQp& qp, std::uint32_t mask, const tern_qp_alt& alt) {
  tern_cmd_modify_qp cmd{.qpn = le(qp.number()), .mask = le(mask), .alt = alt};
  return qp.node().command(TERN_CMD_MODIFY_QP, cmd);
}

}  // namespace

void Changes::next() {
  if (!c_.random.one_in(24)) return;
  const ReliableFlow& flow = *flows_[c_.random.pick(flows_.size())];
  if (flow.dead()) return;
  const bool live = flow.options().fate == Fate::kLive && flow.options().from_view != nullptr;
  switch (c_.random.pick(4)) {
    case 0:
      return limit(flow, c_.random.one_in(2));
    case 1:
      if (live) arm(flow);
      return;
    default:
      if (live) migrate(flow);
      return;
  }
}

// A packet of the path MTU takes up to 20 us, which is no more than the wire delays packets by.
void Changes::limit(const ReliableFlow& flow, bool far) {
  TestQp& qp = far ? *flow.options().to : *flow.options().from;
  QpView* const view = far ? flow.options().to_view : flow.options().from_view;
  // An XRC target has no limit.
  if (view == nullptr || qp.options().type == TERN_QPT_XRC_TGT ||
      qp.query().attr.state != TERN_QPS_RTS)
    return;
  const std::uint32_t slowest = (8U << qp.options().log_mtu) * 50;
  const std::uint32_t kbit = c_.random.one_in(4) ? 0 : slowest * (1 + c_.random.pick(20));
  tern_qp_attr attr{};
  attr.rate_limit = le(kbit);
  EXPECT_EQ(qp.modify(attr, TERN_QPA_RATE_LIMIT), TERN_ST_OK);
  view->pace.start(kbit, c_.sim.now());
}

// Gives both ends an alternate path: another pair of their GIDs.
void Changes::arm(const ReliableFlow& flow) {
  TestQp *x = flow.options().from, *y = flow.options().to;
  const auto path = static_cast<std::uint16_t>(c_.random.pick(4));
  for (int end = 0; end < 2; ++end, std::swap(x, y)) {
    const tern_rsp_query_qp now = x->query();
    if (now.attr.state != TERN_QPS_RTS || now.alt.mig_state != TERN_MIG_MIGRATED) continue;
    tern_qp_alt alt{};
    alt.av = x->av_to(*y);
    alt.av.sgid_index = le(path);
    std::ranges::copy(y->node().gid(path), alt.av.dgid);
    alt.port = 1;
    alt.timeout = x->options().timeout;
    alt.mig_state = TERN_MIG_REARM;
    EXPECT_EQ(modify_path(*x, TERN_QPA_ALT_PATH | TERN_QPA_MIG_STATE, alt), TERN_ST_OK);
  }
}

void Changes::migrate(const ReliableFlow& flow) {
  TestQp& qp = c_.random.one_in(2) ? *flow.options().from : *flow.options().to;
  const tern_rsp_query_qp now = qp.query();
  if (now.attr.state != TERN_QPS_RTS || now.alt.mig_state != TERN_MIG_ARMED) return;
  tern_qp_alt alt{};
  alt.mig_state = TERN_MIG_MIGRATED;
  EXPECT_EQ(modify_path(qp, TERN_QPA_MIG_STATE, alt), TERN_ST_OK);
  c_.counts.add(Rule::kMigrated);
}

}  // namespace tern::storm
