// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/datagram.h"

#include <algorithm>
#include <array>

#include "objects/context.h"
#include "transport/connection.h"
#include "transport/segments.h"
#include "wire/codec.h"

namespace tern {

namespace {

constexpr std::uint32_t kGrh = 40;  // bytes before the payload, with IPv4 too
constexpr std::uint32_t kMaxPayload = 4096;
constexpr std::uint32_t kQpnMask = 0xffffff;
constexpr std::uint32_t kOwnQkey = 1U << 31;  // IBTA 10.2.5: use the QP's Q_Key, not the WQE's

}  // namespace

std::uint8_t DatagramSender::send_packet(SendWqe& wqe, std::uint32_t& cost) {
  Context& context = qp_.context();
  const auto ud = window_.segment<tern_ud_seg>(wqe.index);
  const std::uint32_t dqpn = le(std::uint32_t{ud.dqpn});
  const std::uint32_t qkey = le(std::uint32_t{ud.qkey});
  if (dqpn > kQpnMask) return TERN_CQE_LOC_QP_OP_ERR;
  const auto route = context.resolve(ud.av, qp_.attr().port, qp_.number(), Qpn(dqpn));
  const auto path_rate = static_rate(ud.av.static_rate, context.device.config.link_speed);
  if (!route || !path_rate) return TERN_CQE_LOC_QP_OP_ERR;
  if (wqe.length > context.path_mtu()) return TERN_CQE_LOC_LEN_ERR;

  Packet& packet = context.tx_packet;
  packet.payload.clear();
  const std::uint8_t status = gather(wqe, 0, wqe.length, packet.payload);
  if (status != TERN_CQE_SUCCESS) return status;
  wqe.first_psn = take_psn();
  wqe.psns = 1;
  packet.transport = Transport::kUd;
  packet.op = wqe.opcode == TERN_WR_SEND_WITH_IMM ? Op::kSendOnlyImm : Op::kSendOnly;
  packet.dest_qp = Qpn(dqpn);
  packet.psn = wqe.first_psn;
  packet.ack_req = false;
  packet.solicited = wqe.flags & TERN_WQE_F_SOLICITED;
  packet.imm = wqe.imm;
  packet.qkey = qkey & kOwnQkey ? qp_.attr().qkey : qkey;
  packet.src_qp = qp_.number();
  packet.route = *route;
  SendRate* const rate = *path_rate != 0 ? &qp_.make_send_rate() : qp_.send_rate();
  if (rate != nullptr) rate->sent(frame_bytes(packet), *path_rate);
  packet.mig_req = true;
  const std::uint32_t times = context.emit(packet);
  cost += wqe.length * times + kPacketCost * (times - 1);
  return TERN_CQE_SUCCESS;
}

// A datagram that cannot be received is dropped, and the next one uses the receive WQE. An invalid
// receive WQE moves the QP to the error state.
void DatagramReceiver::deliver(const Packet& packet) {
  Context& context = qp_.context();
  if (packet.qkey != qp_.attr().qkey) return qp_.counters().add(TERN_CNT_QKEY_VIOLATIONS);
  const std::uint64_t len = packet.payload.size();
  if (len > kMaxPayload) return qp_.counters().add(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
  const Take got = take();
  if (got == Take::kEmpty) return qp_.counters().add(TERN_CNT_OUT_OF_BUFFER);
  if (got == Take::kFailed) return qp_.enter_error(TERN_EV_QP_FATAL);
  if (kGrh + len > room()) return qp_.counters().add(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
  std::array<std::byte, kGrh> grh;
  make_grh(packet, grh);
  context.grh.append_plain(std::span<const std::byte>(grh));
  received_ = 0;
  std::uint8_t status = scatter(context.grh);
  context.grh.clear();
  if (status == TERN_CQE_SUCCESS) {
    received_ = kGrh;
    status = scatter(packet.payload);
  }
  if (status == kAbsent) return qp_.counters().add(TERN_CNT_OUT_OF_BUFFER);
  if (status != TERN_CQE_SUCCESS) {
    complete(cqe_of(TERN_RECV_SEND, status));
    return qp_.enter_error(-1);
  }
  received_ = kGrh + static_cast<std::uint32_t>(len);
  finish(packet);
}

void DatagramReceiver::fault_over(bool failed) {
  if (!failed || !recv_) return;
  received_ = 0;
  complete(cqe_of(TERN_RECV_SEND, TERN_CQE_LOC_PROT_ERR));
  qp_.enter_error(-1);
}

void DatagramReceiver::finish(const Packet& packet) {
  const Route& route = packet.route;
  tern_cqe cqe = cqe_of(packet, TERN_RECV_SEND);
  cqe.flags |= TERN_CQE_F_GRH;
  cqe.src_qp = le(packet.src_qp.value);
  std::ranges::copy(route.smac, cqe.smac);
  cqe.net_type = route.ipv4 ? TERN_NET_IPV4 : TERN_NET_IPV6;
  if (route.vlan != TERN_VLAN_NONE) {
    cqe.flags |= TERN_CQE_F_VLAN;
    cqe.vlan = le(route.vlan);
    cqe.sl = route.sl & 7;
  }
  complete(cqe);
}

}  // namespace tern
