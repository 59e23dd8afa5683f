// SPDX-License-Identifier: GPL-2.0-or-later
#include "datapath/port.h"

#include <utility>

#include "datapath/datapath.h"
#include "datapath/port_faults.h"
#include "transport/segments.h"
#include "wire/codec.h"
#include "wire/train.h"

namespace tern {

Port::Port(DataPath& home, const Table<Qp>& qps)
    : home_(home),
      qps_(qps),
      capture_(home.device.config.capture),
      unfinished_(home.device.config.unfinished_frames),
      several_(home.device.config.lanes > 1),
      addresses(home.device.config.mac, home.device.config.max_mtu, home.device.config.link_speed),
      ethernet(home, addresses) {
  ethernet.capture = capture_;
}

Port::~Port() = default;

// ---- receiving ----

template <class Use>
void Port::finish(DataPath& lane, const WireFrame& frame, Use use) {
  // A train is longer than each of its packets, but for their padding.
  lane.finished.resize(std::max(frame.size(), frames::kMinFrame));
  if (!tern::finish(frame, lane.finished, use)) lane.counters.add(TERN_CNT_RX_MALFORMED);
}

std::uint8_t Port::lane_of(std::span<const std::byte> frame) const {
  return home_.device.qp_lanes.get(destination_of(frame).value);
}

void Port::receive(DataPath& lane, const WireFrame& frame) {
  const bool inside = frame.inside;
  if (several_) [[unlikely]] {
    if (lane.lane != 0 && watched()) return lane.effects->hand_over(frame, 0, inside, lane.now());
    if (inside) return accept(lane, frame, true);
  }
  const bool seen = faults_ != nullptr || capture_ || (frame.train > 1 && !lane.allows_trains());
  if (!frame.finished() && seen) [[unlikely]]
    return finish(lane, frame, [&](const auto& bytes) { receive(lane, bytes); });
  if (faults_ != nullptr && lane.device.status.enabled() && addresses.active()) [[unlikely]] {
    return faults_->receive(frame.bytes);
  }
  accept(lane, frame, false);
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

void Port::accept(DataPath& lane, const WireFrame& from, bool inside) {
  const std::span<const std::byte> frame = from.bytes;
  // A looped back frame was captured when it was sent.
  if (capture_ && !inside) lane.effects->show(frame, true, lane.host.now());
  if (!lane.device.status.enabled() || !addresses.active()) return;
  Packet& packet = lane.rx_packet;
  Route& route = packet.route;
  FrameLayout at;
  const Claim whose = claim(frame, route, at);
  if (whose != Claim::kAddress && lane.lane != 0)
    return lane.effects->hand_over(from, 0, inside, lane.now());
  if (from.mss != 0 && whose == Claim::kEthernet && ethernet.receive_train(from)) return;
  if (!from.finished() && (whose != Claim::kAddress || ethernet.sniffs())) [[unlikely]]
    return finish(lane, from, [&](const auto& bytes) { accept(lane, bytes, inside); });
  if (whose == Claim::kEthernet) {
    if (!inside) ethernet.receive(frame);
    return;
  }
  route.local = inside;
  // Multicast frames also go to the Ethernet function, which serves its sniffers itself.
  if (!inside && whose == Claim::kAddress) ethernet.sniff(frame);
  switch (parse_packet(from, at, packet, from.finished() ? icrc_mode : IcrcMode::kOff)) {
    case ParseResult::kOkBadIcrc:
      lane.counters.add(TERN_CNT_RX_ICRC_ERRORS);
      [[fallthrough]];
    case ParseResult::kOk:
      if ((route.traffic_class & kEcnMask) == kEcnCongested) [[unlikely]]
        congested(lane, packet);
      dispatch(lane, packet, nullptr, frame);
      break;
    case ParseResult::kBadIcrc:
      lane.counters.add(TERN_CNT_RX_ICRC_ERRORS);
      if (lane.log != nullptr) log_bad_frame(lane, frame, TERN_LOG_DROP_ICRC);
      break;
    default:
      lane.counters.add(TERN_CNT_RX_MALFORMED);
      if (lane.log != nullptr) log_bad_frame(lane, frame, TERN_LOG_DROP_MALFORMED);
      break;
  }
  packet.payload.clear();
  // The Ethernet function may be a member of the group as well.
  if (whose == Claim::kGroup && !inside) ethernet.receive(frame);
}

// The lane of a packet's QP. A packet to nobody stays in `lane`.
std::uint8_t Port::lane_of(const DataPath& lane, const Qp* qp, const Packet& packet) const {
  if (qp != nullptr) return qp->context().lane;
  return packet.dest_qp.value == kMulticastQpn ? std::uint8_t{0} : lane.lane;
}

// Passes a packet to lane `to`, which receives it as if it came to that lane first. A group's
// packet comes from a QP: lane 0 claims those from the wire.
std::uint32_t Port::hand_over(DataPath& lane, const Packet& packet, std::uint8_t to) {
  const bool inside = packet.route.local || packet.dest_qp.value == kMulticastQpn;
  const auto room = lane.effects->begin_frame(packet.payload.size() + kMaxFrameOverhead);
  const std::size_t len = serialize(packet, lane.take_ip_ids(packet.train), room, Icrc::kDeferred);
  lane.effects->commit_to_lane(len, to, inside, lane.now(), packet.train);
  return 1;
}

// Gives a datagram to a QP to the flows that it matches. Returns whether one of them took it. A
// looped back packet has no frame: its headers are those that it would have on the wire.
bool Port::steer(const Packet& packet, std::span<const std::byte> frame) {
  std::array<std::byte, kMaxFrameOverhead> room;
  if (frame.empty()) frame = std::span(room).first(serialize_headers(packet, 0, room).size);
  const auto verdict =
      ethernet.steer_datagram(frame, std::max<std::size_t>(frame_bytes(packet), frames::kMinFrame));
  const auto give = [&](const eth::Target& target) {
    Qp* const qp = target.dest == TERN_DEST_QP ? qps_.find(target.id) : nullptr;
    if (qp == nullptr) return;
    home_.charge_sender(packet.payload.size() + kPacketCost);
    qp->deliver(packet);
  };
  for (const eth::Target& target : std::span(verdict.copy).first(verdict.copies)) give(target);
  if (verdict.taken) give(verdict.target);
  return verdict.taken;
}

std::uint32_t Port::dispatch(DataPath& lane, Packet& packet, const Qp* except,
                             std::span<const std::byte> frame) {
  constexpr std::uint16_t kPkeyIndexMask = 0x7fff;
  Qp* const qp = qps_.find(packet.dest_qp.value);
  if (several_) [[unlikely]] {
    if (const std::uint8_t to = lane_of(lane, qp, packet); to != lane.lane)
      return hand_over(lane, packet, to);
  }
  Counters& counters = lane.counters;
  counters.add(TERN_CNT_RX_RDMA_PACKETS, packet.train);
  counters.add(TERN_CNT_RX_RDMA_BYTES, packet.payload.size());
  if (lane.log != nullptr) [[unlikely]]
    log(lane, TERN_LOG_RECEIVED, packet);
  const bool pkey_ok = (packet.pkey & kPkeyIndexMask) == kPkeyIndexMask;
  const bool to_group = packet.dest_qp.value == kMulticastQpn;
  if (pkey_ok && to_group && packet.transport == Transport::kUd) {
    if (const auto n = multicast.deliver(packet, except)) {
      lane.charge_sender(*n * (packet.payload.size() + kPacketCost));
      return *n;
    }
  } else if (pkey_ok && !to_group && !is_multicast(packet.route.dgid)) {
    if (packet.transport == Transport::kCnp) return notify(lane, qp, packet);
    // Connection management must go on whatever flows there are (IBTA 3.9.3.2).
    constexpr std::uint32_t kFirstQpn = 2;
    if (packet.transport == Transport::kUd && ethernet.takes_datagrams() &&
        packet.dest_qp.value >= kFirstQpn && steer(packet, frame)) [[unlikely]]
      return 1;
    if (qp != nullptr && qp->transport() == packet.transport) {
      qp->deliver(packet);
      return 1;
    }
  }
  counters.add(TERN_CNT_RX_QP_MISMATCH, packet.train);
  if (lane.log != nullptr) log(lane, TERN_LOG_DROPPED, packet, TERN_LOG_DROP_NO_QP);
  return 0;
}

// ---- sending ----

std::uint32_t Port::emit(DataPath& lane, Packet& packet) {
  const std::uint32_t train = std::exchange(packet.train, 1);
  List<SharedPayload>* const share = std::exchange(packet.share, nullptr);
  const std::uint32_t cost =
      static_cast<std::uint32_t>(packet.payload.size()) + train * kPacketCost;
  lane.charge(cost);
  if (lane.log != nullptr) [[unlikely]]
    log(lane, TERN_LOG_SENT, packet);
  if (!addresses.active()) {  // lost, as on a wire that is down
    if (lane.log != nullptr) log(lane, TERN_LOG_DROPPED, packet, TERN_LOG_DROP_LINK);
    return 1;
  }
  lane.counters.add(TERN_CNT_TX_RDMA_PACKETS, train);
  lane.counters.add(TERN_CNT_TX_RDMA_BYTES, packet.payload.size());
  if (faults_ != nullptr) [[unlikely]] {
    faults_->emit(packet, lane.take_ip_ids(1));
    if (packet.route.local) return 1;
  } else if (share != nullptr && !packet.route.local) {
    const auto room = lane.effects->begin_frame(kMaxFrameOverhead);
    packet.train = train;
    const auto [len, offset] = serialize_headers(packet, lane.take_ip_ids(train), room);
    packet.train = 1;
    SharedPayload& shared =
        lane.effects->commit_shared(len, packet.payload, offset, lane.now(), train);
    shared.end = packet.psn.plus(train);
    share->push_back(shared.queue);
  } else if (!packet.route.local || capture_) {
    const auto room = lane.effects->begin_frame(packet.payload.size() + kMaxFrameOverhead);
    const Icrc icrc = unfinished_ && !capture_ ? Icrc::kDeferred : Icrc::kPresent;
    packet.train = train;
    const std::size_t len = serialize(packet, lane.take_ip_ids(train), room, icrc);
    packet.train = 1;
    lane.effects->commit_frame(len, !packet.route.local, capture_ ? lane.host.now() : lane.now(),
                               icrc, train);
  }
  if (packet.route.local) {
    packet.train = train;
    dispatch(lane, packet);
    packet.train = 1;
  } else if (packet.dest_qp.value == kMulticastQpn && multicast.has(packet.route.dgid)) {
    const Qp* const sender = qps_.find(packet.src_qp.value);
    const bool skip = sender != nullptr && (sender->flags() & TERN_QP_F_NO_MCAST_LOOPBACK) != 0;
    const std::uint32_t copies = dispatch(lane, packet, skip ? sender : nullptr);
    lane.charge(cost * copies);
    return 1 + copies;
  }
  return 1;
}

// ---- life cycle ----

bool Port::watched() const {
  return faults_ != nullptr || capture_ || home_.log != nullptr || ethernet.sniffs() ||
         ethernet.takes_datagrams();
}

void Port::allow_trains() {
  home_.allow_trains(faults_ == nullptr && !capture_ && home_.log == nullptr);
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
  home_.async_events.raise(home_, TERN_EV_PORT_CHANGE, 1);
}

void Port::set_speed(std::uint32_t mbps) {
  if (mbps == addresses.speed()) return;
  addresses.set_speed(mbps);
  home_.async_events.raise(home_, TERN_EV_PORT_CHANGE, 1);
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
    injector_ = std::make_unique<PortFaults>(*this, home_);
    injector_->rules().log = home_.log;
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
