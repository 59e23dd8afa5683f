// SPDX-License-Identifier: GPL-2.0-or-later
#include "datapath/port.h"

#include <utility>

#include "datapath/datapath.h"
#include "datapath/port_faults.h"
#include "transport/segments.h"
#include "wire/codec.h"
#include "wire/train.h"

namespace tern {

Port::Port(DataPath& datapath, const Table<Qp>& qps)
    : datapath_(datapath),
      qps_(qps),
      capture_(datapath.device.config.capture),
      unfinished_(datapath.device.config.unfinished_frames),
      addresses(datapath.device.config.mac, datapath.device.config.max_mtu,
                datapath.device.config.link_speed),
      ethernet(datapath, addresses) {
  ethernet.capture = capture_;
}

Port::~Port() = default;

// ---- receiving ----

template <class Use>
void Port::finish(const WireFrame& frame, Use use) {
  finished_.resize(frame.bytes.size());  // a train is longer than each of its packets
  if (!tern::finish(frame, finished_, use)) datapath_.counters.add(TERN_CNT_RX_MALFORMED);
}

void Port::receive(const WireFrame& frame) {
  const bool seen =
      faults_ != nullptr || capture_ || (frame.train > 1 && !datapath_.allows_trains());
  if (!frame.finished() && seen) [[unlikely]]
    return finish(frame, [this](const auto& bytes) { receive(bytes); });
  if (faults_ != nullptr && datapath_.device.status.enabled() && addresses.active()) [[unlikely]] {
    return faults_->receive(frame.bytes);
  }
  accept(frame, false);
}

Port::Claim Port::claim(std::span<const std::byte> frame, Route& route, FrameLayout& at) const {
  route = Route{};
  if (parse_route(frame, route, at) != ParseResult::kOk) return Claim::kEthernet;
  if (const auto gid = addresses.find_gid(route.dgid, route.vlan)) {
    route.sgid_index = *gid;
    return Claim::kAddress;
  }
  const bool group = multicast.has(route.dgid) && addresses.has_vlan(route.vlan);
  return group ? Claim::kGroup : Claim::kEthernet;
}

void Port::accept(const WireFrame& from, bool inside) {
  const std::span<const std::byte> frame = from.bytes;
  // A looped back frame was captured when it was sent.
  if (capture_ && !inside) datapath_.effects->show(frame, true, datapath_.host.now());
  if (!datapath_.device.status.enabled() || !addresses.active()) return;
  Packet& packet = datapath_.rx_packet;
  Route& route = packet.route;
  FrameLayout at;
  const Claim whose = claim(frame, route, at);
  if (!from.finished() && (whose != Claim::kAddress || ethernet.sniffs())) [[unlikely]]
    return finish(from, [&](const auto& bytes) { accept(bytes, inside); });
  if (whose == Claim::kEthernet) {
    if (!inside) ethernet.receive(frame);
    return;
  }
  route.local = inside;
  // Multicast frames also go to the Ethernet function, which serves its sniffers itself.
  if (!inside && whose == Claim::kAddress) ethernet.sniff(frame);
  switch (
      parse_packet(frame, at, packet, from.finished() ? icrc_mode : IcrcMode::kOff, from.train)) {
    case ParseResult::kOkBadIcrc:
      datapath_.counters.add(TERN_CNT_RX_ICRC_ERRORS);
      [[fallthrough]];
    case ParseResult::kOk:
      if ((route.traffic_class & kEcnMask) == kEcnCongested) [[unlikely]]
        congested(packet);
      dispatch(packet);
      break;
    case ParseResult::kBadIcrc:
      datapath_.counters.add(TERN_CNT_RX_ICRC_ERRORS);
      if (datapath_.log != nullptr) log_bad_frame(frame, TERN_LOG_DROP_ICRC);
      break;
    default:
      datapath_.counters.add(TERN_CNT_RX_MALFORMED);
      if (datapath_.log != nullptr) log_bad_frame(frame, TERN_LOG_DROP_MALFORMED);
      break;
  }
  packet.payload.clear();
  // The Ethernet function may be a member of the group as well.
  if (whose == Claim::kGroup && !inside) ethernet.receive(frame);
}

std::uint32_t Port::dispatch(Packet& packet, const Qp* except) {
  constexpr std::uint16_t kPkeyIndexMask = 0x7fff;
  Counters& counters = datapath_.counters;
  counters.add(TERN_CNT_RX_RDMA_PACKETS, packet.train);
  counters.add(TERN_CNT_RX_RDMA_BYTES, packet.payload.size());
  if (datapath_.log != nullptr) [[unlikely]]
    log(TERN_LOG_RECEIVED, packet);
  const bool pkey_ok = (packet.pkey & kPkeyIndexMask) == kPkeyIndexMask;
  const bool to_group = packet.dest_qp.value == kMulticastQpn;
  if (pkey_ok && to_group && packet.transport == Transport::kUd) {
    if (const auto n = multicast.deliver(packet, except)) {
      datapath_.charge_sender(*n * (packet.payload.size() + kPacketCost));
      return *n;
    }
  } else if (pkey_ok && !to_group && !is_multicast(packet.route.dgid)) {
    Qp* const qp = qps_.find(packet.dest_qp.value);
    if (packet.transport == Transport::kCnp) return notify(qp, packet);
    if (qp != nullptr && qp->transport() == packet.transport) {
      qp->deliver(packet);
      return 1;
    }
  }
  counters.add(TERN_CNT_RX_QP_MISMATCH, packet.train);
  if (datapath_.log != nullptr) log(TERN_LOG_DROPPED, packet, TERN_LOG_DROP_NO_QP);
  return 0;
}

// ---- sending ----

std::uint32_t Port::emit(Packet& packet) {
  DataPath& datapath = datapath_;
  const std::uint32_t train = std::exchange(packet.train, 1);
  const std::uint32_t cost =
      static_cast<std::uint32_t>(packet.payload.size()) + train * kPacketCost;
  datapath.charge(cost);
  if (datapath.log != nullptr) [[unlikely]]
    log(TERN_LOG_SENT, packet);
  if (!addresses.active()) {  // lost, as on a wire that is down
    if (datapath.log != nullptr) log(TERN_LOG_DROPPED, packet, TERN_LOG_DROP_LINK);
    return 1;
  }
  datapath.counters.add(TERN_CNT_TX_RDMA_PACKETS, train);
  datapath.counters.add(TERN_CNT_TX_RDMA_BYTES, packet.payload.size());
  if (faults_ != nullptr) [[unlikely]] {
    faults_->emit(packet, ip_id_++);
    if (packet.route.local) return 1;
  } else if (!packet.route.local || capture_) {
    const auto room = datapath.effects->begin_frame(packet.payload.size() + kMaxFrameOverhead);
    const Icrc icrc = unfinished_ && !capture_ ? Icrc::kDeferred : Icrc::kPresent;
    packet.train = train;
    const std::size_t len = serialize(packet, ip_id_, room, icrc);
    packet.train = 1;
    ip_id_ = static_cast<std::uint16_t>(ip_id_ + train);
    datapath.effects->commit_frame(len, !packet.route.local,
                                   capture_ ? datapath.host.now() : datapath.now(), icrc, train);
  }
  if (packet.route.local) {
    packet.train = train;
    dispatch(packet);
    packet.train = 1;
  } else if (packet.dest_qp.value == kMulticastQpn && multicast.has(packet.route.dgid)) {
    const Qp* const sender = qps_.find(packet.src_qp.value);
    const bool skip = sender != nullptr && (sender->flags() & TERN_QP_F_NO_MCAST_LOOPBACK) != 0;
    const std::uint32_t copies = dispatch(packet, skip ? sender : nullptr);
    datapath.charge(cost * copies);
    return 1 + copies;
  }
  return 1;
}

// ---- life cycle ----

void Port::allow_trains() {
  datapath_.allow_trains(faults_ == nullptr && !capture_ && datapath_.log == nullptr);
}

void Port::set_log(EventLog* log) {
  if (injector_ != nullptr) injector_->rules().log = log;
  allow_trains();
}

void Port::set_capture(bool capture) {
  capture_ = ethernet.capture = capture;
  allow_trains();
}

void Port::set_link(bool up) {
  if (up == addresses.link_up()) return;
  addresses.set_link(up);
  datapath_.async_events.raise(TERN_EV_PORT_CHANGE, 1);
}

void Port::forget() {
  if (injector_ != nullptr) injector_->rules().forget();
  multicast.clear();
}

void Port::reset() {
  ethernet.reset();
  addresses.reset();
}

// ---- faults ----

bool Port::set_faults(std::string_view text, std::string& error) {
  auto change = parse_fault_change(text, error);
  if (!change) return false;
  if (injector_ == nullptr) {
    if (change->rules.empty()) return true;
    injector_ = std::make_unique<PortFaults>(*this, datapath_);
    injector_->rules().log = datapath_.log;
  }
  if (!injector_->change(std::move(*change), error)) return false;
  faults_ = injector_->rules().empty() ? nullptr : injector_.get();
  allow_trains();
  return true;
}

std::string Port::faults() const {
  return faults_ != nullptr ? faults_->rules().report() : std::string();
}

bool Port::swallows(std::uint16_t command) {
  return faults_ != nullptr && faults_->rules().swallows(command);
}

}  // namespace tern
