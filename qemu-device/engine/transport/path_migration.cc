// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/path_migration.h"

#include <utility>

#include "objects/context.h"
#include "transport/connection.h"

namespace tern {

namespace {

// Returns whether a packet that arrived on route `from` used the path of the outgoing route `path`.
bool arrived_by(const Route& from, const Route& path) {
  return from.sgid == path.dgid && from.dgid == path.sgid && from.vlan == path.vlan;
}

}  // namespace

void PathMigration::load(const tern_qp_alt& alt, const Route& route) {
  alt_ = alt;
  route_ = route;
  reported_ = false;
  forget_left();
}

std::optional<Route> PathMigration::resolve() const {
  return qp_.route_of(alt_.av, alt_.port, Qpn(qp_.attr().dest_qpn));
}

// Only the device arms a QP. A QP in REARM does not leave that state on request: the peer may be
// armed by now.
Status PathMigration::check(std::uint8_t state, bool loads) const {
  switch (state) {
    case TERN_MIG_MIGRATED:
      if (state_ == TERN_MIG_REARM) return TERN_ST_BAD_STATE;
      return state_ == TERN_MIG_MIGRATED || loads || resolve() ? TERN_ST_OK : TERN_ST_BAD_PARAM;
    case TERN_MIG_REARM:
      if (state_ == TERN_MIG_ARMED) return TERN_ST_BAD_STATE;
      return loads || alt_.port != 0 ? TERN_ST_OK : TERN_ST_BAD_STATE;
    default:
      return TERN_ST_BAD_PARAM;
  }
}

void PathMigration::request(std::uint8_t state) {
  if (state == TERN_MIG_MIGRATED) {
    (void)migrate();  // a QP that is not armed has migrated already
    return;
  }
  state_ = state;
  reported_ = false;
  forget_left();
}

bool PathMigration::migrate() {
  if (state_ != TERN_MIG_ARMED) return false;
  // Software may have removed the source GID since it loaded the path.
  const auto route = resolve();
  if (!route) {
    report_error();
    return false;
  }
  left_ = *qp_.route();
  state_ = TERN_MIG_MIGRATED;
  const tern_qp_alt path = std::exchange(alt_, {});
  qp_.use_path(path, *route);
  qp_.context().async_events.raise(qp_.context(), TERN_EV_PATH_MIG, qp_.number().value,
                                   qp_.generation());
  return true;
}

// Reports once until software acts: a peer cannot fill the event queue.
void PathMigration::report_error() {
  if (reported_) return;
  reported_ = true;
  qp_.context().async_events.raise(qp_.context(), TERN_EV_PATH_MIG_ERR, qp_.number().value,
                                   qp_.generation());
}

bool PathMigration::by_alternate(const Packet& packet) const {
  return alt_.port != 0 && packet.mig_req && arrived_by(packet.route, route_);
}

bool PathMigration::follow(const Packet& packet) {
  const bool primary = arrived_by(packet.route, *qp_.route());
  if (state_ == TERN_MIG_REARM && primary && !packet.mig_req) state_ = TERN_MIG_ARMED;
  if (state_ != TERN_MIG_ARMED || !packet.mig_req) return true;
  if (by_alternate(packet)) return migrate();
  // The peer has migrated to a path that is not the alternate path here.
  report_error();
  return true;
}

bool PathMigration::accept(const Packet& packet, bool primary) {
  switch (state_) {
    case TERN_MIG_ARMED:
      return primary || by_alternate(packet);
    case TERN_MIG_REARM:
      // The peer has migrated, and the QP was not ready to follow.
      if (!primary && by_alternate(packet)) report_error();
      return primary;
    default:
      // The peer may not have seen yet that this QP has migrated.
      return primary || (!packet.mig_req && left_ && arrived_by(packet.route, *left_));
  }
}

tern_qp_alt PathMigration::query() const {
  tern_qp_alt alt = alt_;
  alt.mig_state = state_;
  return alt;
}

}  // namespace tern
