// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/addresses.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/limits.h"

namespace tern {

namespace {

constexpr std::uint32_t kDefaultMtu = 1500;
constexpr std::uint32_t kMinMtu = 68;  // RFC 791
// Bytes that headers add to the path MTU; software assumes the same for RoCEv2.
constexpr std::uint32_t kPathMtuOverhead = 80;
constexpr std::uint16_t kVlanMax = 4094;
constexpr std::uint32_t kPortMask = TERN_PORT_MTU | TERN_PORT_MAC | TERN_PORT_ENABLE;

template <std::size_t N>
std::array<std::uint8_t, N> array_of(const std::uint8_t (&bytes)[N]) {
  std::array<std::uint8_t, N> a;
  std::memcpy(a.data(), bytes, N);
  return a;
}

bool is_zero(std::span<const std::uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t b) { return b == 0; });
}

// The UDP source port spreads flows over paths: 0xc000 plus 14 bits. Packets with the same flow
// label use the same port, as do packets without one between the same two QPs.
std::uint16_t udp_source_port(std::uint32_t flow_label, Qpn a, Qpn b) {
  if (flow_label == 0) {
    const std::uint64_t product = std::uint64_t{a.value} * b.value;
    const std::uint64_t folded = product ^ (product >> 20);
    flow_label = static_cast<std::uint32_t>(folded ^ (folded >> 40)) & 0xfffff;
  }
  return static_cast<std::uint16_t>(0xc000U | ((flow_label ^ (flow_label >> 14)) & 0x3fffU));
}

}  // namespace

bool is_station(const Mac& mac) { return (mac[0] & 1) == 0 && !is_zero(mac); }

Addresses::Addresses(const Mac& permanent, std::uint32_t max_mtu, std::uint32_t speed)
    : gids_(kGidTableLen),
      permanent_(permanent),
      mac_(permanent),
      max_mtu_(max_mtu),
      mtu_(std::min(kDefaultMtu, max_mtu)),
      speed_(speed) {}

Status Addresses::set_gid(const tern_cmd_set_gid& cmd) {
  const std::uint16_t index = le(cmd.index);
  if (index >= kGidTableLen || cmd.valid > 1 || !is_port(cmd.port) || !is_zero(cmd.rsvd_d)) {
    return TERN_ST_BAD_PARAM;
  }
  if (!cmd.valid) {
    gids_[index] = Entry{};
    return TERN_ST_OK;
  }
  Entry e{.valid = true,
          .ipv4 = cmd.net_type == TERN_NET_IPV4,
          .vlan = le(cmd.vlan),
          .mac = array_of(cmd.mac),
          .gid = array_of(cmd.gid)};
  // VLAN 0 on the wire means "no VLAN", so it cannot tell two entries apart.
  const bool vlan_ok = e.vlan == TERN_VLAN_NONE || (e.vlan >= 1 && e.vlan <= kVlanMax);
  if ((!e.ipv4 && cmd.net_type != TERN_NET_IPV6) || e.ipv4 != is_mapped(e.gid) || is_zero(e.gid) ||
      !vlan_ok || !is_station(e.mac)) {
    return TERN_ST_BAD_PARAM;
  }
  gids_[index] = e;
  return TERN_ST_OK;
}

Status Addresses::modify(const tern_cmd_modify_port& cmd) {
  const std::uint32_t mask = le(cmd.mask);
  const std::uint32_t mtu = le(cmd.mtu);
  const Mac mac = array_of(cmd.mac);
  if ((mask & ~kPortMask) != 0 || !is_port(cmd.port)) return TERN_ST_BAD_PARAM;
  if ((mask & TERN_PORT_MTU) && (mtu < kMinMtu || mtu > max_mtu_)) return TERN_ST_BAD_PARAM;
  if ((mask & TERN_PORT_MAC) && !is_station(mac)) return TERN_ST_BAD_PARAM;
  if ((mask & TERN_PORT_ENABLE) && cmd.enable > 1) return TERN_ST_BAD_PARAM;
  if (mask & TERN_PORT_MTU) mtu_ = mtu;
  if (mask & TERN_PORT_MAC) mac_ = mac;
  if (mask & TERN_PORT_ENABLE) enabled_ = cmd.enable != 0;
  return TERN_ST_OK;
}

void Addresses::query(tern_rsp_port* rsp) const {
  *rsp = {};
  rsp->link_up = link_up_;
  std::memcpy(rsp->mac, mac_.data(), mac_.size());
  rsp->mtu = le(mtu_);
  rsp->max_mtu = le(max_mtu_);
  rsp->speed = le(speed_);
}

void Addresses::reset() {
  std::ranges::fill(gids_, Entry{});
  mac_ = permanent_;
  mtu_ = std::min(kDefaultMtu, max_mtu_);
  enabled_ = false;
}

std::uint32_t Addresses::path_mtu() const {
  constexpr std::uint32_t kMin = 256;
  constexpr std::uint32_t kMax = 4096;
  if (mtu_ < kMin + kPathMtuOverhead) return 0;
  return std::min(std::bit_floor(mtu_ - kPathMtuOverhead), kMax);
}

std::uint32_t Addresses::gid_count() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(gids_, &Entry::valid));
}

std::optional<std::uint16_t> Addresses::find_gid(const Gid& gid, std::uint16_t vlan) const {
  const auto it = std::ranges::find_if(
      gids_, [&](const Entry& e) { return e.valid && e.vlan == vlan && same(e.gid, gid); });
  if (it == gids_.end()) return std::nullopt;
  return static_cast<std::uint16_t>(it - gids_.begin());
}

bool Addresses::has_vlan(std::uint16_t vlan) const {
  return std::ranges::any_of(gids_, [&](const Entry& e) { return e.valid && e.vlan == vlan; });
}

std::optional<Route> Addresses::resolve(const tern_av& av, std::uint8_t port, Qpn src,
                                        Qpn dst) const {
  if (av.port != port) return std::nullopt;
  const std::uint16_t index = le(av.sgid_index);
  if (index >= kGidTableLen || !gids_[index].valid) return std::nullopt;
  const Entry& source = gids_[index];
  Route r;
  r.dgid = array_of(av.dgid);
  if (is_mapped(r.dgid) != source.ipv4) return std::nullopt;
  r.sgid = source.gid;
  r.smac = source.mac;
  r.dmac = array_of(av.dmac);
  r.vlan = source.vlan;
  r.flow_label = le(av.flow_label) & 0xfffff;
  r.udp_sport = le(av.udp_sport);
  if (r.udp_sport == 0) r.udp_sport = udp_source_port(r.flow_label, src, dst);
  r.sgid_index = index;
  r.traffic_class = av.traffic_class;
  r.hop_limit = av.hop_limit;
  r.sl = av.sl;
  r.port = port;
  r.ipv4 = source.ipv4;
  r.local = find_gid(r.dgid, r.vlan).has_value();
  return r;
}

}  // namespace tern
