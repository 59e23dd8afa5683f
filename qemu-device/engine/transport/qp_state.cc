// SPDX-License-Identifier: GPL-2.0-or-later
// MODIFY_QP and QUERY_QP: the state machine of IBTA 10.3.1, with the required and optional
// attributes of each transition (IBTA table 91).
#include <array>
#include <cstddef>
#include <span>

#include "core/limits.h"
#include "objects/context.h"
#include "transport/qp.h"

namespace tern {

namespace {

constexpr std::uint32_t kPsnMask = 0xffffff;
constexpr std::uint32_t kQpAccess = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                                    TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC |
                                    TERN_ACCESS_FLUSH_GLOBAL | TERN_ACCESS_FLUSH_PERSISTENT;

// For connected QPs once they have a peer (IBTA 17.2.8).
constexpr std::uint32_t kMigration = TERN_QPA_ALT_PATH | TERN_QPA_MIG_STATE;

struct Transition {
  std::uint8_t from;
  std::uint8_t to;
  std::uint32_t required;
  std::uint32_t optional;
};

constexpr std::uint32_t kMaxBurst = 1U << 24;

// Attributes that a connection may change once it sends.
constexpr std::uint32_t kSending = TERN_QPA_RATE_LIMIT | kMigration;

constexpr std::array kReliable = {
    Transition{TERN_QPS_RESET, TERN_QPS_INIT, TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT,
               0},
    Transition{TERN_QPS_INIT, TERN_QPS_INIT, 0,
               TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT},
    Transition{TERN_QPS_INIT, TERN_QPS_RTR,
               TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN | TERN_QPA_RQ_PSN |
                   TERN_QPA_MAX_DEST_RD_ATOMIC | TERN_QPA_MIN_RNR_TIMER,
               TERN_QPA_ACCESS | TERN_QPA_PKEY_INDEX | TERN_QPA_ALT_PATH},
    Transition{TERN_QPS_RTR, TERN_QPS_RTS,
               TERN_QPA_TIMEOUT | TERN_QPA_RETRY_CNT | TERN_QPA_RNR_RETRY | TERN_QPA_SQ_PSN |
                   TERN_QPA_MAX_RD_ATOMIC,
               TERN_QPA_ACCESS | TERN_QPA_MIN_RNR_TIMER | kSending},
    Transition{TERN_QPS_RTS, TERN_QPS_RTS, 0,
               TERN_QPA_ACCESS | TERN_QPA_MIN_RNR_TIMER | kSending | TERN_QPA_UDP_SPORT},
    Transition{TERN_QPS_RTS, TERN_QPS_SQD, 0, 0},
    Transition{TERN_QPS_SQD, TERN_QPS_RTS, 0, TERN_QPA_ACCESS | TERN_QPA_MIN_RNR_TIMER | kSending},
    Transition{TERN_QPS_SQD, TERN_QPS_SQD, 0,
               TERN_QPA_AV | TERN_QPA_PORT | TERN_QPA_TIMEOUT | TERN_QPA_RETRY_CNT |
                   TERN_QPA_RNR_RETRY | TERN_QPA_MAX_RD_ATOMIC | TERN_QPA_PKEY_INDEX |
                   TERN_QPA_ACCESS | TERN_QPA_MIN_RNR_TIMER | kSending | TERN_QPA_UDP_SPORT},
};

constexpr std::array kUnreliable = {
    Transition{TERN_QPS_RESET, TERN_QPS_INIT, TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT,
               0},
    Transition{TERN_QPS_INIT, TERN_QPS_INIT, 0,
               TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT},
    Transition{TERN_QPS_INIT, TERN_QPS_RTR,
               TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN | TERN_QPA_RQ_PSN,
               TERN_QPA_ACCESS | TERN_QPA_PKEY_INDEX | TERN_QPA_ALT_PATH},
    Transition{TERN_QPS_RTR, TERN_QPS_RTS, TERN_QPA_SQ_PSN, TERN_QPA_ACCESS | kSending},
    Transition{TERN_QPS_RTS, TERN_QPS_RTS, 0, TERN_QPA_ACCESS | kSending | TERN_QPA_UDP_SPORT},
    Transition{TERN_QPS_RTS, TERN_QPS_SQD, 0, 0},
    Transition{TERN_QPS_SQD, TERN_QPS_RTS, 0, TERN_QPA_ACCESS | kSending},
    Transition{TERN_QPS_SQD, TERN_QPS_SQD, 0,
               TERN_QPA_AV | TERN_QPA_PORT | TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | kSending |
                   TERN_QPA_UDP_SPORT},
    Transition{TERN_QPS_SQE, TERN_QPS_RTS, 0, TERN_QPA_ACCESS | TERN_QPA_RATE_LIMIT},
};

// UD and GSI: each WQE and each packet carries its own addresses.
constexpr std::array kDatagram = {
    Transition{TERN_QPS_RESET, TERN_QPS_INIT, TERN_QPA_PKEY_INDEX | TERN_QPA_QKEY | TERN_QPA_PORT,
               0},
    Transition{TERN_QPS_INIT, TERN_QPS_INIT, 0,
               TERN_QPA_PKEY_INDEX | TERN_QPA_QKEY | TERN_QPA_PORT},
    Transition{TERN_QPS_INIT, TERN_QPS_RTR, 0, TERN_QPA_PKEY_INDEX | TERN_QPA_QKEY},
    Transition{TERN_QPS_RTR, TERN_QPS_RTS, TERN_QPA_SQ_PSN, TERN_QPA_QKEY | TERN_QPA_RATE_LIMIT},
    Transition{TERN_QPS_RTS, TERN_QPS_RTS, 0, TERN_QPA_QKEY | TERN_QPA_RATE_LIMIT},
    Transition{TERN_QPS_RTS, TERN_QPS_SQD, 0, 0},
    Transition{TERN_QPS_SQD, TERN_QPS_RTS, 0, TERN_QPA_QKEY | TERN_QPA_RATE_LIMIT},
    Transition{TERN_QPS_SQD, TERN_QPS_SQD, 0,
               TERN_QPA_PKEY_INDEX | TERN_QPA_QKEY | TERN_QPA_RATE_LIMIT},
    Transition{TERN_QPS_SQE, TERN_QPS_RTS, 0, TERN_QPA_QKEY | TERN_QPA_RATE_LIMIT},
};

// Each frame carries its own addresses, too. A raw QP has no RoCE attributes.
constexpr std::array kRaw = {
    Transition{TERN_QPS_RESET, TERN_QPS_INIT, TERN_QPA_PORT, 0},
    Transition{TERN_QPS_INIT, TERN_QPS_INIT, 0, TERN_QPA_PORT},
    Transition{TERN_QPS_INIT, TERN_QPS_RTR, 0, 0},
    Transition{TERN_QPS_RTR, TERN_QPS_RTS, 0, TERN_QPA_RATE_LIMIT},
    Transition{TERN_QPS_RTS, TERN_QPS_RTS, 0, TERN_QPA_RATE_LIMIT},
    Transition{TERN_QPS_RTS, TERN_QPS_SQD, 0, 0},
    Transition{TERN_QPS_SQD, TERN_QPS_RTS, 0, TERN_QPA_RATE_LIMIT},
    Transition{TERN_QPS_SQD, TERN_QPS_SQD, 0, TERN_QPA_RATE_LIMIT},
    Transition{TERN_QPS_SQE, TERN_QPS_RTS, 0, TERN_QPA_RATE_LIMIT},
};

std::span<const Transition> transitions_of(Transport transport) {
  if (transport == Transport::kUd) return kDatagram;
  if (transport == Transport::kUc) return kUnreliable;
  if (transport == Transport::kRaw) return kRaw;
  return kReliable;
}

// Only a reliable connection has options (ECE).
bool has_options(Transport transport) {
  return transport == Transport::kRc || transport == Transport::kXrc;
}

// Attributes of a reliable connection that an XRC QP of this type lacks: only the other half of the
// connection uses them.
constexpr std::uint32_t unused_attributes(std::uint8_t type) {
  switch (type) {
    case TERN_QPT_XRC_INI:
      return TERN_QPA_MAX_DEST_RD_ATOMIC | TERN_QPA_MIN_RNR_TIMER;
    case TERN_QPT_XRC_TGT:
      return TERN_QPA_RETRY_CNT | TERN_QPA_RNR_RETRY | TERN_QPA_MAX_RD_ATOMIC | TERN_QPA_RATE_LIMIT;
    default:
      return 0;
  }
}

const Transition* find_transition(Transport transport, std::uint8_t from, std::uint8_t to) {
  for (const Transition& t : transitions_of(transport)) {
    if (t.from == from && t.to == to) return &t;
  }
  return nullptr;
}

tern_qp_attr swap_order(tern_qp_attr a) {
  a.dest_qpn = le(std::uint32_t{a.dest_qpn});
  a.qkey = le(std::uint32_t{a.qkey});
  a.sq_psn = le(std::uint32_t{a.sq_psn});
  a.rq_psn = le(std::uint32_t{a.rq_psn});
  a.access = le(std::uint32_t{a.access});
  a.pkey_index = le(std::uint16_t{a.pkey_index});
  a.rate_limit = le(std::uint32_t{a.rate_limit});
  a.max_burst = le(std::uint32_t{a.max_burst});
  a.typical_packet = le(std::uint16_t{a.typical_packet});
  return a;
}

}  // namespace

Status Qp::check_values(std::uint32_t mask, const tern_qp_attr& a) const {
  const auto bad = [mask](std::uint32_t bit, bool out_of_range) {
    return (mask & bit) && out_of_range;
  };
  const bool mtu_ok =
      a.path_mtu >= 8 && a.path_mtu <= 12 && 1U << a.path_mtu <= context_->path_mtu();
  const bool rate_ok = a.rate_limit <= max_rate(context_->device.config.link_speed) &&
                       a.max_burst <= kMaxBurst &&
                       (a.rate_limit != 0 || (a.max_burst == 0 && a.typical_packet == 0));
  if (bad(TERN_QPA_RATE_LIMIT, !rate_ok) ||
      bad(TERN_QPA_AV, !static_rate(a.av.static_rate, context_->device.config.link_speed)) ||
      bad(TERN_QPA_ACCESS, (a.access & ~kQpAccess) != 0) ||
      bad(TERN_QPA_PKEY_INDEX, a.pkey_index != 0) || bad(TERN_QPA_PATH_MTU, !mtu_ok) ||
      bad(TERN_QPA_TIMEOUT, a.timeout > 31) || bad(TERN_QPA_RETRY_CNT, a.retry_cnt > 7) ||
      bad(TERN_QPA_RNR_RETRY, a.rnr_retry > 7) ||
      bad(TERN_QPA_MIN_RNR_TIMER, a.min_rnr_timer > 31) ||
      bad(TERN_QPA_MAX_RD_ATOMIC, a.max_rd_atomic > kMaxRdAtomic) ||
      bad(TERN_QPA_MAX_DEST_RD_ATOMIC, a.max_dest_rd_atomic > kMaxRdAtomic) ||
      bad(TERN_QPA_RQ_PSN, a.rq_psn > kPsnMask) || bad(TERN_QPA_SQ_PSN, a.sq_psn > kPsnMask) ||
      bad(TERN_QPA_DEST_QPN, a.dest_qpn > kPsnMask) || bad(TERN_QPA_PORT, !is_port(a.port)) ||
      bad(TERN_QPA_UDP_SPORT, a.av.udp_sport == 0)) {
    return TERN_ST_BAD_PARAM;
  }
  return TERN_ST_OK;
}

void Qp::apply(std::uint32_t mask, const tern_qp_attr& a) {
  if (mask & TERN_QPA_ACCESS) attr_.access = a.access;
  if (mask & TERN_QPA_PKEY_INDEX) attr_.pkey_index = a.pkey_index;
  if (mask & TERN_QPA_QKEY) attr_.qkey = a.qkey;
  if (mask & TERN_QPA_AV) attr_.av = a.av;
  if (mask & TERN_QPA_UDP_SPORT) {
    attr_.av.udp_sport = a.av.udp_sport;
    route_.udp_sport = le(std::uint16_t{a.av.udp_sport});
  }
  if (mask & TERN_QPA_PATH_MTU) attr_.path_mtu = a.path_mtu;
  if (mask & TERN_QPA_TIMEOUT) attr_.timeout = a.timeout;
  if (mask & TERN_QPA_RETRY_CNT) attr_.retry_cnt = a.retry_cnt;
  if (mask & TERN_QPA_RNR_RETRY) attr_.rnr_retry = a.rnr_retry;
  if (mask & TERN_QPA_RQ_PSN) attr_.rq_psn = a.rq_psn;
  if (mask & TERN_QPA_MAX_RD_ATOMIC) attr_.max_rd_atomic = a.max_rd_atomic;
  if (mask & TERN_QPA_MAX_DEST_RD_ATOMIC) attr_.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if (mask & TERN_QPA_MIN_RNR_TIMER) attr_.min_rnr_timer = a.min_rnr_timer;
  if (mask & TERN_QPA_SQ_PSN) attr_.sq_psn = a.sq_psn;
  if (mask & TERN_QPA_DEST_QPN) attr_.dest_qpn = a.dest_qpn;
  if (mask & TERN_QPA_PORT) attr_.port = a.port;
  if (mask & TERN_QPA_RATE_LIMIT) {
    attr_.rate_limit = a.rate_limit;
    attr_.max_burst = a.max_burst;
    attr_.typical_packet = a.typical_packet;
  }
  if (mask & (TERN_QPA_RATE_LIMIT | TERN_QPA_AV)) set_rates(mask);
}

// A QP without any limit has no pacer.
void Qp::set_rates(std::uint32_t mask) {
  const std::uint64_t path =
      static_rate(attr_.av.static_rate, context_->device.config.link_speed).value_or(0);
  if (send_rate_ == nullptr && path == 0 && attr_.rate_limit == 0) return;
  SendRate& rate = make_send_rate();
  if (mask & TERN_QPA_AV) rate.set_static(path);
  if (mask & TERN_QPA_RATE_LIMIT)
    rate.set_limit(attr_.rate_limit, attr_.max_burst, attr_.typical_packet);
}

Status Qp::check_migration(std::uint32_t mask, const tern_qp_alt& alt) const {
  const bool loads = mask & TERN_QPA_ALT_PATH;
  if (loads && (alt.pkey_index != 0 || alt.timeout > 31 || !is_port(alt.port) ||
                !static_rate(alt.av.static_rate, context_->device.config.link_speed))) {
    return TERN_ST_BAD_PARAM;
  }
  if (!(mask & TERN_QPA_MIG_STATE)) return TERN_ST_OK;
  if (migration_ != nullptr) return migration_->check(alt.mig_state, loads);
  // Until software loads a path, the QP behaves as if it had migrated.
  if (alt.mig_state > TERN_MIG_REARM) return TERN_ST_BAD_PARAM;
  return alt.mig_state == TERN_MIG_MIGRATED || loads ? TERN_ST_OK : TERN_ST_BAD_STATE;
}

void Qp::apply_migration(std::uint32_t mask, const tern_qp_alt& alt, const Route& route) {
  if ((mask & TERN_QPA_AV) && migration_ != nullptr) migration_->forget_left();
  if (mask & TERN_QPA_ALT_PATH) {
    if (migration_ == nullptr) migration_ = std::make_unique<PathMigration>(*this);
    migration_->load(alt, route);
  }
  if ((mask & TERN_QPA_MIG_STATE) && migration_ != nullptr) migration_->request(alt.mig_state);
}

// Restarts timers and retry counters; PSNs and outstanding requests stay.
void Connection::use_path(const tern_qp_alt& path, const Route& route) {
  auto& qp = static_cast<Qp&>(*this);
  attr_.av = path.av;
  attr_.pkey_index = le(std::uint16_t{path.pkey_index});
  attr_.port = path.port;
  attr_.timeout = path.timeout;
  route_ = route;
  qp.set_rates(TERN_QPA_AV);
  qp.sender_->path_changed();
}

// Changes VLAN stripping, which is allowed for a raw QP in any state and with no other change.
Status Qp::set_stripping(std::uint32_t mask, std::uint32_t flags) {
  const bool strip = flags == TERN_QPM_STRIP_VLAN;
  if (transport_ != Transport::kRaw || mask != 0 || (!strip && flags != TERN_QPM_KEEP_VLAN))
    return TERN_ST_BAD_PARAM;
  constexpr std::uint8_t kBit = TERN_QP_F_STRIP_VLAN;
  cmd_.flags = static_cast<std::uint8_t>(strip ? cmd_.flags | kBit : cmd_.flags & ~kBit);
  return TERN_ST_OK;
}

Status Qp::modify(const tern_cmd_modify_qp& cmd) {
  constexpr std::uint32_t kAllMask =
      ((TERN_QPA_RATE_LIMIT << 1) - 1) | kMigration | TERN_QPA_UDP_SPORT;
  const std::uint32_t mask = le(std::uint32_t{cmd.mask});
  const std::uint32_t flags = le(std::uint32_t{cmd.flags});
  const tern_qp_attr a = swap_order(cmd.attr);
  if ((flags & (TERN_QPM_STRIP_VLAN | TERN_QPM_KEEP_VLAN)) != 0) return set_stripping(mask, flags);
  const std::uint32_t ece = field_get(TERN_QPM_ECE_MASK, flags);
  if ((mask & ~kAllMask) || (flags & ~(TERN_QPM_SQD_NOTIFY | TERN_QPM_ECE_MASK)) ||
      (ece & ~TERN_ECE_OPTIONS)) {
    return TERN_ST_BAD_PARAM;
  }
  if ((mask & TERN_QPA_CUR_STATE) && le(std::uint32_t{cmd.cur_state}) != attr_.state) {
    return TERN_ST_BAD_STATE;
  }
  const std::uint8_t next = mask & TERN_QPA_STATE ? a.state : attr_.state;
  const std::uint32_t given = mask & ~(TERN_QPA_STATE | TERN_QPA_CUR_STATE);
  const bool notify = flags & TERN_QPM_SQD_NOTIFY;
  if (notify && next != TERN_QPS_SQD) return TERN_ST_BAD_PARAM;
  if (ece != 0 &&
      (!has_options(transport_) || attr_.state != TERN_QPS_INIT || next != TERN_QPS_RTR)) {
    return TERN_ST_BAD_PARAM;
  }

  if (next == TERN_QPS_RESET || next == TERN_QPS_ERR) {
    if (given != 0) return TERN_ST_BAD_PARAM;
    change_state(next, false);
    return TERN_ST_OK;
  }
  const Transition* const t = find_transition(transport_, attr_.state, next);
  if (t == nullptr) return TERN_ST_BAD_STATE;
  const std::uint32_t unused = unused_attributes(type());
  const std::uint32_t required = t->required & ~unused;
  if ((given & required) != required || (given & ~(required | (t->optional & ~unused)))) {
    return TERN_ST_BAD_PARAM;
  }
  if (const Status status = check_values(given, a); status != TERN_ST_OK) return status;
  if (const Status status = check_migration(given, cmd.alt); status != TERN_ST_OK) return status;
  const Qpn dest(given & TERN_QPA_DEST_QPN ? a.dest_qpn : attr_.dest_qpn);
  std::optional<Route> alternate{std::in_place};
  if (given & TERN_QPA_ALT_PATH) alternate = route_of(cmd.alt.av, cmd.alt.port, dest);
  if (!alternate) return TERN_ST_BAD_PARAM;
  if (given & TERN_QPA_AV) {
    const auto route = route_of(a.av, given & TERN_QPA_PORT ? a.port : attr_.port, dest);
    if (!route) return TERN_ST_BAD_PARAM;
    route_ = *route;
    has_route_ = true;
  }
  apply(given, a);
  if (ece != 0) ece_ = static_cast<std::uint8_t>(ece);
  apply_migration(given, cmd.alt, *alternate);
  change_state(next, notify);
  return TERN_ST_OK;
}

void Qp::change_state(std::uint8_t next, bool notify) {
  const std::uint8_t previous = attr_.state;
  if (next == TERN_QPS_RESET) return to_reset();
  if (next == TERN_QPS_ERR) {
    // Software may move a QP from RESET to ERR. enter_error() ignores a QP in RESET, because the
    // device never does that by itself.
    if (previous == TERN_QPS_RESET) set_state(TERN_QPS_INIT, TERN_LOG_BY_COMMAND);
    return enter_error(-1, true);
  }
  set_state(next, TERN_LOG_BY_COMMAND);
  if (previous == next) return;
  if (next == TERN_QPS_RTR) receiver_->start();
  if (next == TERN_QPS_RTS) {
    // Sending continues, so a drain that has not finished is cancelled.
    attr_.sq_draining = 0;
    sqd_notify_ = false;
    if (previous == TERN_QPS_RTR) sender_->start();
    if (previous == TERN_QPS_SQE) sender_->resume();
    wake();
  }
  if (next == TERN_QPS_SQD) {
    context_->release_polled(*this);
    sqd_notify_ = notify;
    attr_.sq_draining = 1;
    if (sender_->drained()) sq_drained();
  }
}

void Qp::to_reset() {
  context_->forget_polled(*this);
  context_->unschedule(*this);
  cancel_faults();
  if (rare_state_) rare_state_->rq_settled.cancel();
  end_tags();
  sender_->reset();
  receiver_->reset();
  set_state(TERN_QPS_RESET, TERN_LOG_BY_COMMAND);
  attr_ = tern_qp_attr{};
  send_rate_.reset();
  notifying.unlink();
  store_status();
  route_ = Route{};
  migration_.reset();
  generation_ = context_->device.next_qp_generation();
  rq_ci_ = 0;
  has_route_ = comm_est_ = sqd_notify_ = false;
  ece_ = 0;
}

void Qp::query(tern_rsp_query_qp* rsp) const {
  *rsp = tern_rsp_query_qp{};
  tern_qp_attr a = attr_;
  // Reports the next PSNs, not the initial ones: a peer or a new owner of the connection needs
  // those.
  if (sends() && a.state >= TERN_QPS_RTS && a.state <= TERN_QPS_SQE) {
    a.sq_psn = sender_->next_psn().value();
  }
  if (a.state >= TERN_QPS_RTR && a.state <= TERN_QPS_SQE) {
    a.rq_psn = receiver_->expected_psn().value();
  }
  rsp->attr = swap_order(a);
  rsp->sq_ci = le(sender_->consumer_index());
  rsp->rq_ci = le(rq_ci_);
  if (send_rate_ != nullptr)
    rsp->rate = le(static_cast<std::uint32_t>((send_rate_->current() + 999) / 1'000));
  if (migration_ != nullptr) rsp->alt = migration_->query();
}

}  // namespace tern
