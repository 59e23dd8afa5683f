// SPDX-License-Identifier: GPL-2.0-or-later
// The event log: packets.
#include "datapath/datapath.h"
#include "datapath/port.h"
#include "wire/codec.h"

namespace tern {

namespace {

std::uint16_t flags_of(const Packet& packet, const OpTraits& t) {
  const bool congested = (packet.route.traffic_class & kEcnMask) == kEcnCongested;
  return static_cast<std::uint16_t>(
      (packet.route.local ? TERN_LOG_F_LOOPBACK : 0) | (packet.ack_req ? TERN_LOG_F_ACK_REQ : 0) |
      (packet.solicited ? TERN_LOG_F_SOLICITED : 0) | (congested ? TERN_LOG_F_CE : 0) |
      (packet.becn ? TERN_LOG_F_BECN : 0) | (t.aeth ? TERN_LOG_F_AETH : 0));
}

}  // namespace

// A received packet has its source's QP number only in a DETH; otherwise the QP's peer is logged.
void Port::log(const DataPath& lane, std::uint8_t type, const Packet& packet,
               std::uint8_t reason) const {
  const OpTraits& t = traits(packet.transport, packet.op);
  const bool sent = type == TERN_LOG_SENT || reason == TERN_LOG_DROP_LINK;
  std::uint32_t source = packet.src_qp.value;
  if (!sent && !t.deth) {
    const Qp* const qp = qps_.find(packet.dest_qp.value);
    source = qp != nullptr ? qp->attr().dest_qpn : 0;
  }
  const std::uint32_t dest = packet.dest_qp.value;
  const bool addressed = t.reth || t.atomic_eth;
  lane.log->add({.type = type,
                 .code = packet.opcode(),
                 .flags = flags_of(packet, t),
                 .qpn = sent ? source : dest,
                 .addr = addressed ? packet.va : 0,
                 .length = packet.payload.size(),
                 .key = type == TERN_LOG_DROPPED ? reason
                        : addressed              ? packet.rkey
                                                 : 0,
                 .index = packet.psn.value(),
                 .value = sent ? dest : source,
                 .detail = t.aeth ? std::uint32_t{packet.syndrome} << 24 | packet.msn : 0});
}

void Port::log_bad_frame(const DataPath& lane, std::span<const std::byte> frame,
                         std::uint8_t reason) const {
  LogEvent event{.type = TERN_LOG_DROPPED, .length = frame.size(), .key = reason};
  if (const auto at = find_parts(frame)) {
    const Bth bth = bth_of(frame, *at);
    event.code = bth.opcode;
    event.qpn = bth.dest_qp.value;
    event.index = bth.psn.value();
  }
  lane.log->add(event);
}

}  // namespace tern
