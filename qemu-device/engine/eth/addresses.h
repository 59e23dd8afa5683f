// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses of a port: link, MAC, MTU and the GID table, and the routes derived from them.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "memory/memory.h"
#include "wire/packet.h"

namespace tern {

class Archive;

// Returns whether a GID maps an IPv4 address: ::ffff:0:0/96 (RFC 4291 2.5.5.2).
[[nodiscard]] inline bool is_mapped(const Gid& gid) {
  constexpr Gid kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.data(), kPrefix.data(), 12) == 0;
}

// Returns whether a GID is an IPv6 multicast address (RFC 4291 2.7) or maps an IPv4 one.
[[nodiscard]] inline bool is_multicast(const Gid& gid) {
  return gid[0] == 0xff || (gid[12] >> 4 == 0xe && is_mapped(gid));
}

// Returns whether a station may have the address: it is neither a group address nor zero.
[[nodiscard]] bool is_station(const Mac& mac);

class Addresses {
 public:
  Addresses(const Mac& permanent, std::uint32_t max_mtu, std::uint32_t speed);

  [[nodiscard]] Status set_gid(const tern_cmd_set_gid& cmd);
  [[nodiscard]] Status modify(const tern_cmd_modify_port& cmd);
  void query(tern_rsp_port* rsp) const;
  void set_link(bool up) { link_up_ = up; }
  void set_speed(std::uint32_t mbps) { speed_ = mbps; }
  void state(Archive& ar);
  void reset();  // GIDs cleared, permanent MAC, disabled; link and speed stay as they are

  // Whether the port carries traffic: the link is up and software has enabled the port.
  [[nodiscard]] bool active() const { return link_up_ && enabled_; }
  [[nodiscard]] bool link_up() const { return link_up_; }
  [[nodiscard]] std::uint32_t speed() const { return speed_; }
  [[nodiscard]] bool enabled() const { return enabled_; }
  [[nodiscard]] const Mac& mac() const { return mac_; }
  [[nodiscard]] const Mac& permanent_mac() const { return permanent_; }
  [[nodiscard]] std::uint32_t mtu() const { return mtu_; }
  // The largest path MTU of packets sent through this port, in bytes; 0 if not even 256 fits.
  [[nodiscard]] std::uint32_t path_mtu() const;
  [[nodiscard]] std::uint32_t max_mtu() const { return max_mtu_; }
  [[nodiscard]] std::uint32_t gid_count() const;

  // Index of a valid entry with this GID and VLAN.
  [[nodiscard]] std::optional<std::uint16_t> find_gid(const Gid& gid, std::uint16_t vlan) const;
  // Whether a valid entry is on this VLAN; TERN_VLAN_NONE: whether one is untagged.
  [[nodiscard]] bool has_vlan(std::uint16_t vlan) const;
  // The route of packets sent with `av`. Nothing if its source GID is not in the table or not of
  // the destination's address family, or if `av` is not for `port`, which is the QP's. Sets
  // Route::local if dgid is in the table with the same VLAN.
  [[nodiscard]] std::optional<Route> resolve(const tern_av& av, std::uint8_t port, Qpn src,
                                             Qpn dst) const;

  static constexpr std::uint16_t kGidTableLen = 128;

 private:
  struct Entry {
    bool valid = false;
    bool ipv4 = false;
    std::uint16_t vlan = 0xffff;
    Mac mac{};
    Gid gid{};
  };
  std::vector<Entry> gids_;
  Mac permanent_;
  Mac mac_;
  std::uint32_t max_mtu_;
  std::uint32_t mtu_;
  std::uint32_t speed_;
  bool link_up_ = false;
  bool enabled_ = false;
};

}  // namespace tern
