// SPDX-License-Identifier: GPL-2.0-or-later
// Congestion of RoCEv2 (IBTA A17.9): the notification point, and the handling of notifications from
// the wire. transport/reaction_point.h has the reaction point.
#include <algorithm>
#include <array>
#include <cassert>

#include "datapath/datapath.h"
#include "datapath/port.h"

namespace tern {

namespace {

constexpr std::uint8_t kDscpShift = 2;  // of the traffic class

}  // namespace

// A congestion notification from the wire (A17.9.4).
std::uint32_t Port::notify(DataPath& lane, Qp* qp, const Packet& packet) {
  std::array<std::byte, kCnpPayload> reserved;
  packet.payload.copy_to(reserved);
  if (!packet.becn ||
      std::ranges::any_of(reserved, [](std::byte b) { return b != std::byte{0}; })) {
    lane.counters.add(TERN_CNT_RX_MALFORMED);
    return 0;
  }
  if (qp == nullptr || !qp->has_peer(packet.route)) {
    lane.counters.add(TERN_CNT_RX_QP_MISMATCH);
    return 0;
  }
  lane.counters.add(qp->congestion_notified() ? TERN_CNT_RP_CNP_HANDLED : TERN_CNT_RP_CNP_IGNORED);
  return 1;
}

// Handles a packet marked "congestion experienced": its QP notifies the peer, unless it has done so
// recently. The peer may be any host: it can make us store no more than one list entry.
void Port::congested(DataPath& lane, const Packet& packet) {
  Qp* const qp = qps_.find(packet.dest_qp.value);
  if (qp != nullptr && &qp->context() != &lane) return;  // for its lane, like the packet
  lane.counters.add(TERN_CNT_NP_ECN_MARKED);
  const bool flow = qp != nullptr && qp->transport() == packet.transport &&
                    packet.transport != Transport::kUd && !is_multicast(packet.route.dgid) &&
                    qp->has_peer(packet.route);
  if (!flow || qp->notifying.linked() ||
      !lane.device.congestion.enabled(TERN_CC_NP_ENABLE, qp->route()->sl))
    return;
  const Nanos now = lane.host.now();
  if (now < qp->next_notification) return;
  qp->next_notification = now + lane.device.congestion.nanos(TERN_CC_NP_MIN_TIME_BETWEEN_CNPS);
  lane.notify_peer(*qp);
}

void Port::send_notification(DataPath& lane, Qp& qp) {
  assert(qp.route() != nullptr);  // a reset takes the QP off the list
  constexpr std::array<std::byte, kCnpPayload> reserved{};
  const CongestionParams& params = lane.device.congestion;
  Packet& packet = lane.tx_packet;
  packet.transport = Transport::kCnp;
  packet.op = kCnpOp;
  packet.src_qp = qp.number();
  packet.dest_qp = Qpn(qp.attr().dest_qpn);
  packet.psn = Psn();
  packet.ack_req = packet.solicited = packet.mig_req = false;
  packet.becn = true;
  packet.route = *qp.route();
  packet.route.traffic_class =
      static_cast<std::uint8_t>(params.get(TERN_CC_NP_CNP_DSCP) << kDscpShift);
  if (params.get(TERN_CC_NP_CNP_PRIO_MODE) == 0) {
    packet.route.sl = static_cast<std::uint8_t>(params.get(TERN_CC_NP_CNP_PRIO));
  }
  packet.payload.clear();
  packet.payload.append_plain(std::span<const std::byte>(reserved));
  lane.counters.add(TERN_CNT_NP_CNP_SENT);
  emit(lane, packet);
  packet.payload.clear();
  packet.becn = false;
}

}  // namespace tern
