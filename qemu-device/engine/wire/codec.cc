// SPDX-License-Identifier: GPL-2.0-or-later
#include "wire/codec.h"

#include <isa-l/crc.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>

#include "frames/checksum.h"
#include "frames/ethernet.h"
#include "frames/header_view.h"
#include "frames/layout.h"
#include "tern_hw.hpp"
#include "wire/bth.h"

namespace tern {

namespace {

using frames::HeaderCursor, frames::HeaderReader, frames::HeaderWriter;
using frames::kEthernet, frames::kTag, frames::kIpv4, frames::kIpv6, frames::kUdp;
using frames::kIpv4FragmentMask, frames::kUdpProtocol;
using frames::kIpv4Type, frames::kIpv6Type, frames::kVlanType;

constexpr std::uint16_t kDontFragment = 0x4000;
constexpr std::uint8_t kDefaultHopLimit = 64;

// The ICRC starts with the masked LRH, IP header, UDP header and BTH.
constexpr std::size_t kMaxMasked = 8 + kIpv6 + kUdp + kBth;

#if defined(__x86_64__)
[[gnu::target("avx")]] void clear_upper_halves() { _mm256_zeroupper(); }
const bool has_avx = __builtin_cpu_supports("avx");
#endif

// ISA-L keeps the complemented CRC between calls, as zlib does.
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) {
  crc = crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
#if defined(__x86_64__)
  // ISA-L 2.31 leaves data in the upper halves of vector registers: the next SSE instruction would
  // take longer than the CRC of a packet.
  if (has_avx) clear_upper_halves();
#endif
  return crc;
}

// ICRC of a packet: over the masked LRH, the masked IP, UDP and BTH in `headers`, and `rest`, the
// bytes after them.
std::uint32_t icrc_of(std::span<const std::byte> headers, bool ipv4,
                      std::span<const std::byte> rest) {
  // A call costs more than the copy of a short rest.
  constexpr std::size_t kShort = 64;
  std::array<std::byte, kMaxMasked + kShort> masked;
  std::fill_n(masked.begin(), 8, std::byte{0xff});
  const std::span ip = std::span(masked).subspan(8);
  // Lengths that the compiler knows need no call.
  if (ipv4) {
    std::memcpy(ip.data(), headers.data(), kIpv4 + kUdp + kBth);
  } else {
    std::memcpy(ip.data(), headers.data(), kIpv6 + kUdp + kBth);
  }
  const std::size_t udp = ipv4 ? kIpv4 : kIpv6;
  if (ipv4) {
    ip[1] = std::byte{0xff};            // TOS
    ip[8] = std::byte{0xff};            // TTL
    ip[10] = ip[11] = std::byte{0xff};  // header checksum
  } else {
    ip[0] |= std::byte{0x0f};  // traffic class, flow label
    ip[1] = ip[2] = ip[3] = std::byte{0xff};
    ip[7] = std::byte{0xff};  // hop limit
  }
  ip[udp + 6] = ip[udp + 7] = std::byte{0xff};  // UDP checksum
  ip[udp + kUdp + 4] = std::byte{0xff};         // FECN, BECN, reserved
  const std::size_t size = 8 + headers.size();
  if (rest.size() > kShort) return crc32(crc32(0, std::span(masked).first(size)), rest);
  std::ranges::copy(rest, std::span(masked).subspan(size).begin());
  return crc32(0, std::span(masked).first(size + rest.size()));
}

bool locate_ipv4(std::span<const std::byte> rest, FrameLayout& at) {
  if (rest.size() < kIpv4) return false;
  const auto header = rest.first<kIpv4>();
  const HeaderReader<kIpv4> ip(header);
  // IP options are not accepted (version and length 0x45). The host's stack handles fragments and
  // headers with a wrong checksum.
  const std::size_t total = ip.u16<2>();
  if (ip.u8<0>() != 0x45 || total < kIpv4 + kUdp || (ip.u16<6>() & kIpv4FragmentMask) != 0 ||
      ip.u8<9>() != kUdpProtocol || frames::ipv4_checksum(header) != 0) {
    return false;
  }
  at.ipv4 = true;
  at.ip_header = kIpv4;
  at.ip_payload = total - kIpv4;
  return true;
}

bool locate_ipv6(std::span<const std::byte> rest, FrameLayout& at) {
  if (rest.size() < kIpv6) return false;
  const HeaderReader<kIpv6> ip(rest.first<kIpv6>());
  if (ip.u8<0>() >> 4 != 6 || ip.u8<6>() != kUdpProtocol || ip.u16<4>() < kUdp) return false;
  at.ip_header = kIpv6;
  at.ip_payload = ip.u16<4>();
  return true;
}

// Finds the IP and UDP headers. Returns false unless the frame is UDP to the RoCEv2 port; otherwise
// the frame holds both headers completely.
bool locate(std::span<const std::byte> frame, FrameLayout& at) {
  const auto payload = frames::find_payload(frame);
  if (!payload) return false;
  at.ip = payload->at;
  at.tci = payload->at == kEthernet ? std::uint16_t{0} : frames::tci_of(frame);
  const auto rest = frame.subspan(at.ip);
  if (payload->type == kIpv4Type) {
    if (!locate_ipv4(rest, at)) return false;
  } else if (payload->type != kIpv6Type || !locate_ipv6(rest, at)) {
    return false;
  }
  if (frame.size() < at.udp() + kUdp) return false;
  return HeaderReader<kUdp>(frame.subspan(at.udp()).first<kUdp>()).u16<2>() == kRoceUdpPort;
}

// Bytes from the UDP header to the ICRC, both included; 0 if the lengths are inconsistent. Short
// frames are padded in transit, so the UDP length gives the end. The UDP checksum is ignored: it
// covers nothing that the ICRC does not.
std::size_t packet_length(std::span<const std::byte> frame, const FrameLayout& at) {
  const std::size_t len = HeaderReader<kUdp>(frame.subspan(at.udp()).first<kUdp>()).u16<4>();
  const bool fits =
      len == at.ip_payload && len >= kUdp + kBth + kIcrc && frame.size() - at.udp() >= len;
  return fits ? len : 0;
}

template <std::size_t N>
void copy_out(std::span<const std::byte, N> from, std::array<std::uint8_t, N>& to) {
  std::memcpy(to.data(), from.data(), N);
}

template <std::size_t N>
void copy_in(const std::array<std::uint8_t, N>& from, std::span<std::byte, N> to) {
  std::memcpy(to.data(), from.data(), N);
}

Gid mapped_gid(std::span<const std::byte, 4> ip) {
  Gid gid{};
  gid[10] = gid[11] = 0xff;
  std::memcpy(gid.data() + 12, ip.data(), 4);
  return gid;
}

// Whether the bytes after the headers are a valid payload for the operation. Responder and
// requester check the lengths that depend on the path MTU.
bool payload_fits(const OpTraits& t, Transport transport, Op op, std::size_t payload,
                  std::size_t pad) {
  if (!t.payload) return payload == 0 && pad == 0;
  if (transport == Transport::kCnp) return payload == kCnpPayload && pad == 0;
  if (op == Op::kAtomicWrite) return payload == kAtomicWritePayload && pad == 0;
  return true;
}

void read_bth(const HeaderReader<kBth>& bth, Packet& p) {
  p.solicited = (bth.u8<1>() & kBthSolicited) != 0;
  p.mig_req = (bth.u8<1>() & kBthMigReq) != 0;
  p.pkey = bth.u16<2>();
  p.fecn = (bth.u8<4>() & kBthFecn) != 0;
  p.becn = (bth.u8<4>() & kBthBecn) != 0;
  p.dest_qp = Qpn(bth.u24<5>());
  p.ack_req = (bth.u8<8>() & kBthAckReq) != 0;
  p.psn = Psn(bth.u24<9>());
}

// Packets are reused: clears the fields of absent headers.
void clear_extensions(Packet& p) {
  p.va = p.swap_add = p.compare = p.original = 0;
  p.rkey = p.dma_len = p.msn = p.imm = p.inv_rkey = p.qkey = 0;
  p.syndrome = p.flush_type = p.flush_level = 0;
  p.src_qp = Qpn(0);
  p.xrc_srq = Srqn(0);
}

// The order of extension headers: IBTA 9.3, A14.3, A19.
void read_extensions(HeaderCursor<const std::byte>& cursor, const OpTraits& t, Packet& p) {
  clear_extensions(p);
  if (t.deth) {
    const HeaderReader<8> deth(cursor.take<8>());
    p.qkey = deth.u32<0>();
    p.src_qp = Qpn(deth.u24<5>());
  }
  if (t.xrceth) p.xrc_srq = Srqn(HeaderReader<4>(cursor.take<4>()).u24<1>());
  if (t.feth) {
    const HeaderReader<4> feth(cursor.take<4>());
    p.flush_type = feth.u8<3>() & 0x0f;
    p.flush_level = (feth.u8<3>() >> 4) & 0x03;
  }
  if (t.reth) {
    const HeaderReader<16> reth(cursor.take<16>());
    p.va = reth.u64<0>();
    p.rkey = reth.u32<8>();
    p.dma_len = reth.u32<12>();
  }
  if (t.atomic_eth) {
    const HeaderReader<28> atomic(cursor.take<28>());
    p.va = atomic.u64<0>();
    p.rkey = atomic.u32<8>();
    p.swap_add = atomic.u64<12>();
    p.compare = atomic.u64<20>();
  }
  if (t.aeth) {
    const HeaderReader<4> aeth(cursor.take<4>());
    p.syndrome = aeth.u8<0>();
    p.msn = aeth.u24<1>();
  }
  if (t.atomic_ack_eth) p.original = HeaderReader<8>(cursor.take<8>()).u64<0>();
  // Kept in the wire's byte order, as in the immediate fields of WQE and CQE.
  if (t.imm) std::memcpy(&p.imm, cursor.take<4>().data(), 4);
  if (t.ieth) p.inv_rkey = HeaderReader<4>(cursor.take<4>()).u32<0>();
}

void write_bth(const HeaderWriter<kBth>& bth, const Packet& p, std::size_t pad) {
  bth.u8<0>(p.opcode());
  bth.u8<1>(static_cast<std::uint8_t>((p.solicited ? kBthSolicited : 0) |
                                      (p.mig_req ? kBthMigReq : 0) | pad << 4));
  bth.u16<2>(p.pkey);
  bth.u8<4>(static_cast<std::uint8_t>((p.fecn ? kBthFecn : 0) | (p.becn ? kBthBecn : 0)));
  bth.u24<5>(p.dest_qp.value);
  bth.u8<8>(p.ack_req ? kBthAckReq : 0);
  bth.u24<9>(p.psn.value());
}

void write_extensions(HeaderCursor<std::byte>& cursor, const OpTraits& t, const Packet& p) {
  if (t.deth) {
    const HeaderWriter<8> deth(cursor.take<8>());
    deth.u32<0>(p.qkey);
    deth.u8<4>(0);
    deth.u24<5>(p.src_qp.value);
  }
  if (t.xrceth) HeaderWriter<4>(cursor.take<4>()).u32<0>(p.xrc_srq.value & 0xffffff);
  if (t.feth) {
    HeaderWriter<4>(cursor.take<4>()).u32<0>((p.flush_type & 0x0fU) | (p.flush_level & 0x03U) << 4);
  }
  if (t.reth) {
    const HeaderWriter<16> reth(cursor.take<16>());
    reth.u64<0>(p.va);
    reth.u32<8>(p.rkey);
    reth.u32<12>(p.dma_len);
  }
  if (t.atomic_eth) {
    const HeaderWriter<28> atomic(cursor.take<28>());
    atomic.u64<0>(p.va);
    atomic.u32<8>(p.rkey);
    atomic.u64<12>(p.swap_add);
    atomic.u64<20>(p.compare);
  }
  if (t.aeth) {
    const HeaderWriter<4> aeth(cursor.take<4>());
    aeth.u8<0>(p.syndrome);
    aeth.u24<1>(p.msn);
  }
  if (t.atomic_ack_eth) HeaderWriter<8>(cursor.take<8>()).u64<0>(p.original);
  if (t.imm) std::memcpy(cursor.take<4>().data(), &p.imm, 4);
  if (t.ieth) HeaderWriter<4>(cursor.take<4>()).u32<0>(p.inv_rkey);
}

// `payload`: bytes after the IP header.
void write_ipv4(std::span<std::byte, kIpv4> out, const Route& r, std::uint16_t id,
                std::size_t payload) {
  // Summed before they are stored: reading words back right after bytes were stored is slow.
  const std::uint32_t first = 0x45000000U | std::uint32_t{r.traffic_class} << 16 |
                              static_cast<std::uint16_t>(kIpv4 + payload);
  const std::uint32_t second = std::uint32_t{id} << 16 | kDontFragment;
  const std::uint32_t third =
      std::uint32_t{r.hop_limit ? r.hop_limit : kDefaultHopLimit} << 24 | kUdpProtocol << 16;
  const std::uint32_t from = frames::get32(std::as_bytes(std::span(r.sgid)), 12);
  const std::uint32_t to = frames::get32(std::as_bytes(std::span(r.dgid)), 12);
  const std::uint16_t sum = frames::fold(std::uint64_t{first} + second + third + from + to);
  const HeaderWriter<kIpv4> ip(out);
  ip.u32<0>(first);
  ip.u32<4>(second);
  ip.u32<8>(third | static_cast<std::uint16_t>(~sum));
  ip.u32<12>(from);
  ip.u32<16>(to);
}

void write_ipv6(std::span<std::byte, kIpv6> out, const Route& r, std::size_t payload) {
  const HeaderWriter<kIpv6> ip(out);
  ip.u32<0>(6U << 28 | static_cast<std::uint32_t>(r.traffic_class) << 20 |
            (r.flow_label & 0xfffff));
  ip.u16<4>(static_cast<std::uint16_t>(payload));
  ip.u8<6>(kUdpProtocol);
  ip.u8<7>(r.hop_limit ? r.hop_limit : kDefaultHopLimit);
  copy_in(r.sgid, ip.bytes<8, 16>());
  copy_in(r.dgid, ip.bytes<24, 16>());
}

void write_ethernet(HeaderCursor<std::byte>& cursor, const Route& r) {
  const HeaderWriter<12> macs(cursor.take<12>());
  copy_in(r.dmac, macs.bytes<0, 6>());
  copy_in(r.smac, macs.bytes<6, 6>());
  if (r.vlan != TERN_VLAN_NONE) {
    const HeaderWriter<kTag> tag(cursor.take<kTag>());
    tag.u16<0>(kVlanType);
    tag.u16<2>(static_cast<std::uint16_t>((r.sl & 7U) << 13 | (r.vlan & 0xfffU)));
  }
  HeaderWriter<2>(cursor.take<2>()).u16<0>(r.ipv4 ? kIpv4Type : kIpv6Type);
}

// Bytes from the UDP header to the ICRC, both included.
std::size_t udp_length(const Packet& p) {
  const auto payload = static_cast<std::size_t>(p.payload.size());
  return kUdp + traits(p.transport, p.op).header_bytes + payload + pad_of(payload) + kIcrc;
}

}  // namespace

std::uint32_t icrc(std::span<const std::byte> ip, bool ipv4) {
  const std::size_t headers = (ipv4 ? kIpv4 : kIpv6) + kUdp + kBth;
  if (ip.size() < headers) return 0;
  return icrc_of(ip.first(headers), ipv4, ip.subspan(headers));
}

void write_icrc(std::span<std::byte> frame, const FrameParts& at) {
  const std::uint32_t crc = icrc(frame.subspan(at.ip, at.icrc - at.ip), at.ipv4);
  HeaderWriter<kIcrc>(frame.subspan(at.icrc).first<kIcrc>()).u32<0>(__builtin_bswap32(crc));
}

void write_icrc(std::span<std::byte> frame) {
  if (const auto at = find_parts(frame)) write_icrc(frame, *at);
}

ParseResult parse_route(std::span<const std::byte> frame, Route& route, FrameLayout& at) {
  at = {};
  if (!locate(frame, at)) return ParseResult::kNotRoce;
  const HeaderReader<kEthernet> eth(frame.first<kEthernet>());
  copy_out(eth.bytes<0, 6>(), route.dmac);
  copy_out(eth.bytes<6, 6>(), route.smac);
  // VLAN 0 is a priority tag: no VLAN (IEEE 802.1Q 9.6).
  const std::uint16_t vlan = at.tci & 0xfff;
  route.vlan = vlan ? vlan : std::uint16_t{TERN_VLAN_NONE};
  route.sl = static_cast<std::uint8_t>(at.tci >> 13);
  route.ipv4 = at.ipv4;
  route.local = false;
  route.sgid_index = 0;
  if (at.ipv4) {
    const HeaderReader<kIpv4> ip(frame.subspan(at.ip).first<kIpv4>());
    route.traffic_class = ip.u8<1>();
    route.flow_label = 0;
    route.hop_limit = ip.u8<8>();
    route.sgid = mapped_gid(ip.bytes<12, 4>());
    route.dgid = mapped_gid(ip.bytes<16, 4>());
  } else {
    const HeaderReader<kIpv6> ip(frame.subspan(at.ip).first<kIpv6>());
    route.traffic_class = static_cast<std::uint8_t>(ip.u32<0>() >> 20);
    route.flow_label = ip.u32<0>() & 0xfffff;
    route.hop_limit = ip.u8<7>();
    copy_out(ip.bytes<8, 16>(), route.sgid);
    copy_out(ip.bytes<24, 16>(), route.dgid);
  }
  route.udp_sport = HeaderReader<kUdp>(frame.subspan(at.udp()).first<kUdp>()).u16<0>();
  return ParseResult::kOk;
}

ParseResult parse_packet(std::span<const std::byte> frame, Packet& packet, IcrcMode mode) {
  FrameLayout at;
  if (locate(frame, at)) return parse_packet(WireFrame(frame), at, packet, mode);
  packet.payload.clear();
  return ParseResult::kNotRoce;
}

ParseResult parse_packet(const WireFrame& from, const FrameLayout& at, Packet& packet,
                         IcrcMode mode) {
  packet.payload.clear();
  const std::span<const std::byte> frame = from.bytes;
  const std::size_t udp_len = from.train == 1 ? packet_length(frame, at) : frame.size() - at.udp();
  if (udp_len < kUdp + kBth + kIcrc) return ParseResult::kMalformed;
  const auto covered = frame.subspan(at.ip, at.ip_header + udp_len - kIcrc);
  HeaderCursor cursor(frame.subspan(at.udp() + kUdp, udp_len - kUdp - kIcrc));
  const std::size_t elsewhere = from.payload == nullptr ? 0 : from.payload->size();
  const std::size_t transport_bytes = cursor.rest().size() + elsewhere;
  const HeaderReader<kBth> bth(cursor.take<kBth>());

  const std::uint8_t opcode = bth.u8<0>();
  const Transport transport = class_of(opcode);
  const Op op = op_of(opcode);
  const OpTraits& t = traits(transport, op);
  const std::size_t headers = t.header_bytes;
  const std::size_t pad = (bth.u8<1>() >> 4) & 3;
  if (!t.valid || (bth.u8<1>() & 0x0f) != 0 || transport_bytes % 4 != 0 ||
      transport_bytes < headers + pad + elsewhere ||
      !payload_fits(t, transport, op, transport_bytes - headers - pad, pad)) {
    return ParseResult::kMalformed;
  }

  ParseResult result = ParseResult::kOk;
  if (mode != IcrcMode::kOff) {
    const auto tail = HeaderReader<kIcrc>(frame.subspan(at.udp() + udp_len - kIcrc).first<kIcrc>());
    if (__builtin_bswap32(tail.u32<0>()) != icrc(covered, at.ipv4)) {
      if (mode == IcrcMode::kCheck) return ParseResult::kBadIcrc;
      result = ParseResult::kOkBadIcrc;
    }
  }

  packet.transport = transport;
  packet.op = op;
  packet.train = from.train;
  read_bth(bth, packet);
  read_extensions(cursor, t, packet);
  if (from.payload != nullptr) {
    packet.payload.refer_to(*from.payload);
  } else {
    packet.payload.append_plain(cursor.rest().first(transport_bytes - headers - pad));
  }
  return result;
}

std::optional<FrameParts> find_parts(std::span<const std::byte> frame) {
  FrameLayout at;
  if (!locate(frame, at)) return std::nullopt;
  const std::size_t udp_len = packet_length(frame, at);
  if (udp_len == 0) return std::nullopt;
  return FrameParts{at.ip, at.udp() + kUdp, at.udp() + udp_len - kIcrc, at.ipv4};
}

Qpn destination_of(std::span<const std::byte> frame) {
  FrameLayout at;
  if (!locate(frame, at) || frame.size() < at.udp() + kUdp + kBth) return Qpn(0);
  return Qpn(HeaderReader<kBth>(frame.subspan(at.udp() + kUdp).first<kBth>()).u24<5>());
}

Bth bth_of(std::span<const std::byte> frame, const FrameParts& at) {
  const HeaderReader<kBth> bth(frame.subspan(at.bth).first<kBth>());
  return {bth.u8<0>(), Qpn(bth.u24<5>()), Psn(bth.u24<9>())};
}

namespace {

struct Written {
  std::size_t masked;               // bytes from the IP header to the BTH, both included
  std::span<std::byte> from_ip;     // the rest of the frame from there
  std::span<std::byte> behind_bth;  // and from there
  std::span<std::byte> payload;     // and from there
};

// Writes all headers. The length of a train's payload need not fit into their fields.
Written write_headers(const Packet& packet, std::uint16_t ip_id, std::span<std::byte> out) {
  const Route& route = packet.route;
  const std::size_t udp_len = packet.train == 1 ? udp_length(packet) : 0;
  const std::size_t ip_len = std::max<std::size_t>(udp_len, kUdp);
  HeaderCursor cursor(out);
  write_ethernet(cursor, route);
  const auto from_ip = cursor.rest();
  if (route.ipv4) {
    write_ipv4(cursor.take<kIpv4>(), route, ip_id, ip_len);
  } else {
    write_ipv6(cursor.take<kIpv6>(), route, ip_len);
  }
  const HeaderWriter<kUdp> udp(cursor.take<kUdp>());
  udp.u16<0>(route.udp_sport);
  udp.u16<2>(kRoceUdpPort);
  udp.u16<4>(static_cast<std::uint16_t>(udp_len));
  udp.u16<6>(0);  // no checksum: the ICRC covers more
  write_bth(HeaderWriter<kBth>(cursor.take<kBth>()), packet,
            pad_of(static_cast<std::size_t>(packet.payload.size())));
  const std::size_t masked = from_ip.size() - cursor.rest().size();
  const auto behind_bth = cursor.rest();
  write_extensions(cursor, traits(packet.transport, packet.op), packet);
  return {masked, from_ip, behind_bth, cursor.rest()};
}

}  // namespace

std::size_t serialize(const Packet& packet, std::uint16_t ip_id, std::span<std::byte> out,
                      Icrc icrc) {
  const auto payload = static_cast<std::size_t>(packet.payload.size());
  const Written at = write_headers(packet, ip_id, out);
  packet.payload.copy_to(at.payload.first(payload));
  const auto padding = at.payload.subspan(payload, pad_of(payload));
  std::ranges::fill(padding, std::byte{0});
  const std::size_t covered = at.behind_bth.size() - at.payload.size() + payload + padding.size();
  std::uint32_t crc = 0;
  if (icrc == Icrc::kPresent)
    crc = icrc_of(at.from_ip.first(at.masked), packet.route.ipv4, at.behind_bth.first(covered));
  HeaderWriter<kIcrc>(at.behind_bth.subspan(covered).first<kIcrc>()).u32<0>(__builtin_bswap32(crc));

  std::size_t len = out.size() - at.behind_bth.size() + covered + kIcrc;
  for (; len < frames::kMinFrame; ++len) out[len] = std::byte{0};
  return len;
}

HeadersOnly serialize_headers(const Packet& train, std::uint16_t ip_id, std::span<std::byte> out) {
  const std::size_t offset = out.size() - write_headers(train, ip_id, out).payload.size();
  const std::size_t tail = pad_of(static_cast<std::size_t>(train.payload.size())) + kIcrc;
  std::ranges::fill(out.subspan(offset, tail), std::byte{0});
  return {offset + tail, offset};
}

std::uint32_t frame_bytes(const Packet& packet) {
  const std::size_t tag = packet.route.vlan != TERN_VLAN_NONE ? kTag : 0;
  return static_cast<std::uint32_t>(kEthernet + tag + (packet.route.ipv4 ? kIpv4 : kIpv6) +
                                    udp_length(packet));
}

void make_grh(const Packet& packet, std::span<std::byte, 40> out) {
  if (packet.route.ipv4) {
    std::ranges::fill(out.first<20>(), std::byte{0});
    write_ipv4(out.last<kIpv4>(), packet.route, 0, udp_length(packet));
  } else {
    write_ipv6(out, packet.route, udp_length(packet));
  }
}

}  // namespace tern
