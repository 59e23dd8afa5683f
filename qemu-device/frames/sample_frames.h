// SPDX-License-Identifier: GPL-2.0-or-later
// Frames for tests, and where their headers are.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "frames/bytes.h"
#include "tern_hw.hpp"

namespace tern::frames {

using Bytes = std::vector<std::byte>;

// RFC 1071 byte by byte.
inline unsigned plain_sum(std::span<const std::byte> bytes, unsigned sum = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += std::to_integer<unsigned>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

struct SampleFrame {
  bool v4 = true;
  std::uint8_t protocol = 6;
  std::vector<std::uint16_t>
      tags{};  // types, the outer one first; the tag control information is 100, 101, ...
  std::size_t options = 0;                 // bytes of IPv4 options, multiples of 4
  std::vector<std::uint8_t> extensions{};  // of IPv6, each of 8 bytes
  std::size_t tcp_options = 0;
  std::size_t payload = 0;
  std::size_t padding = 0;  // after the IP packet
  bool fragment = false;    // IPv4: more fragments
  std::uint16_t src_port = 0x1234;
  std::uint16_t dst_port = 0x5678;
  std::uint8_t last = 1;      // last byte of the source address
  std::uint8_t flags = 0x18;  // of TCP
  std::uint32_t sequence = 0xffffff00;
  Bytes inside{};  // payload, instead of `payload` bytes

  [[nodiscard]] bool tcp() const { return protocol == 6; }
  [[nodiscard]] bool udp() const { return protocol == 17; }
  [[nodiscard]] std::size_t l3() const { return 14 + 4 * tags.size(); }
  [[nodiscard]] std::size_t l4() const {
    return l3() + (v4 ? 20 + options : 40 + 8 * extensions.size());
  }
  [[nodiscard]] std::size_t headers() const {
    return l4() + (tcp() ? 20 + tcp_options : udp() ? 8 : 0);
  }
  [[nodiscard]] std::size_t end() const {
    return headers() + (inside.empty() ? payload : inside.size());
  }
  [[nodiscard]] std::size_t checksum() const { return l4() + (tcp() ? 16 : 6); }

  // The sum of the pseudo header of a packet of `length` bytes of TCP or UDP.
  [[nodiscard]] unsigned pseudo(std::span<const std::byte> frame, std::size_t length) const {
    return plain_sum(v4 ? frame.subspan(l3() + 12, 8) : frame.subspan(l3() + 8, 32),
                     protocol + static_cast<unsigned>(length));
  }
  // Whether a receiver accepts the checksums of a frame without padding.
  [[nodiscard]] bool valid(std::span<const std::byte> frame) const {
    if (v4 && plain_sum(frame.subspan(l3(), 20 + options)) != 0xffff) return false;
    return plain_sum(frame.subspan(l4()), pseudo(frame, frame.size() - l4())) == 0xffff;
  }

  // Without checksums.
  [[nodiscard]] Bytes make() const {
    Bytes p(end() + padding);
    for (std::size_t i = 0; i < 12; ++i) p[i] = static_cast<std::byte>(0x52 + i * 6);
    for (std::size_t i = 0; i < tags.size(); ++i) {
      put16(p, 12 + 4 * i, tags[i]);
      put16(p, 14 + 4 * i, static_cast<std::uint16_t>(100 + i));
    }
    put16(p, l3() - 2, v4 ? 0x0800 : 0x86dd);
    if (v4) {
      make_ipv4(p);
    } else {
      make_ipv6(p);
    }
    if (tcp() || udp()) make_transport(p);
    for (std::size_t i = headers(); i < end(); ++i) {
      p[i] = inside.empty() ? static_cast<std::byte>((i - headers()) * 13 + ((i - headers()) >> 8))
                            : inside[i - headers()];
    }
    return p;
  }

 private:
  static void put8(Bytes& p, std::size_t at, std::size_t v) { p[at] = static_cast<std::byte>(v); }

  void make_ipv4(Bytes& p) const {
    put8(p, l3(), 0x45 + options / 4);
    put8(p, l3() + 1, 0xb8);
    put16(p, l3() + 2, static_cast<std::uint16_t>(end() - l3()));
    put16(p, l3() + 4, 0xfffe);
    put16(p, l3() + 6, fragment ? 0x2000 : 0x4000);
    put8(p, l3() + 8, 63);
    put8(p, l3() + 9, protocol);
    for (std::size_t i = 0; i < 8; ++i) put8(p, l3() + 12 + i, 0xc0 + i);
    put8(p, l3() + 15, last);
    for (std::size_t i = 0; i < options; ++i) put8(p, l3() + 20 + i, 1);
  }
  void make_ipv6(Bytes& p) const {
    put32(p, l3(), 0x6b8abcde);
    put16(p, l3() + 4, static_cast<std::uint16_t>(end() - l3() - 40));
    put8(p, l3() + 6, extensions.empty() ? protocol : extensions[0]);
    put8(p, l3() + 7, 63);
    for (std::size_t i = 0; i < 32; ++i) put8(p, l3() + 8 + i, 0x20 + i);
    put8(p, l3() + 23, last);
    for (std::size_t i = 0; i < extensions.size(); ++i) {
      put8(p, l3() + 40 + 8 * i, i + 1 < extensions.size() ? extensions[i + 1] : protocol);
    }
  }
  void make_transport(Bytes& p) const {
    put16(p, l4(), src_port);
    put16(p, l4() + 2, dst_port);
    if (udp()) {
      put16(p, l4() + 4, static_cast<std::uint16_t>(end() - l4()));
      return;
    }
    put32(p, l4() + 4, sequence);
    put8(p, l4() + 12, (5 + tcp_options / 4) << 4);
    put8(p, l4() + 13, flags);
  }
};

// An Ethernet frame inside of VXLAN.
inline SampleFrame vxlan(const Bytes& inner, std::uint32_t vni) {
  SampleFrame f;
  f.protocol = 17;
  f.dst_port = 4789;
  f.inside.resize(8);
  put32(f.inside, 0, 0x08000000);
  put32(f.inside, 4, vni << 8);
  f.inside.insert(f.inside.end(), inner.begin(), inner.end());
  return f;
}

// GRE with the fields that the flags have: the checksum is 0, the key 0x01020304.
inline SampleFrame gre(std::uint16_t flags, std::uint16_t type, std::span<const std::byte> inner) {
  SampleFrame f;
  f.protocol = 47;
  f.inside.resize(4);
  put16(f.inside, 0, flags);
  put16(f.inside, 2, type);
  for (const unsigned flag : {0x8000U, 0x2000U, 0x1000U}) {
    if ((flags & flag) == 0) continue;
    f.inside.resize(f.inside.size() + 4);
    if (flag == 0x2000) put32(f.inside, f.inside.size() - 4, 0x01020304);
  }
  f.inside.insert(f.inside.end(), inner.begin(), inner.end());
  return f;
}

// A stack of MPLS labels 0x10000, 0x20000, ... with TTL 64.
inline Bytes mpls(std::size_t labels, std::span<const std::byte> inner) {
  Bytes p(4 * labels);
  for (std::size_t i = 0; i < labels; ++i)
    put32(p, 4 * i, static_cast<std::uint32_t>((i + 1) << 28 | (i + 1 == labels ? 0x100 : 0) | 64));
  p.insert(p.end(), inner.begin(), inner.end());
  return p;
}

// A frame of a type that SampleFrame lacks.
inline Bytes typed(std::uint16_t type, std::span<const std::byte> inside) {
  Bytes p = SampleFrame{}.make();
  p.resize(14);
  put16(p, 12, type);
  p.insert(p.end(), inside.begin(), inside.end());
  return p;
}

// UDP to a port.
inline SampleFrame udp_to(std::uint16_t port, const Bytes& inside) {
  SampleFrame f;
  f.protocol = 17;
  f.dst_port = port;
  f.inside = inside;
  return f;
}

// Frames of all kinds that the device parses, drawn at random.
inline SampleFrame draw_frame(std::mt19937& random) {
  const auto draw = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  SampleFrame f;
  f.v4 = draw(2) == 0;
  f.protocol = std::array<std::uint8_t, 4>{6, 17, 6, 1}[draw(4)];
  for (unsigned i = draw(4); i > 1; --i) f.tags.push_back(draw(2) == 0 ? 0x8100 : 0x88a8);
  if (f.v4) {
    f.options = 4 * draw(11);
    f.fragment = draw(8) == 0;
  } else {
    for (unsigned i = draw(5); i > 1; --i)
      f.extensions.push_back(std::array<std::uint8_t, 3>{0, 43, 60}[draw(3)]);
  }
  f.tcp_options = 4 * draw(11);
  f.payload = draw(200);
  f.padding = draw(2) * draw(40);
  f.last = static_cast<std::uint8_t>(draw(256));
  f.src_port = static_cast<std::uint16_t>(random());
  return f;
}

}  // namespace tern::frames
