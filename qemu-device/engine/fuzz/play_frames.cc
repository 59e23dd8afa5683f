// SPDX-License-Identifier: GPL-2.0-or-later
// Received frames.
#include <algorithm>
#include <cstring>
#include <memory>

#include "play.h"
#include "wire/codec.h"

namespace tern::fuzz {

namespace {

constexpr std::uint32_t kMaxPayload = 4100;

std::span<const std::byte> pattern() {
  static const auto bytes = [] {
    std::array<std::byte, kMaxPayload> b;
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::byte>(i * 7 + 1);
    return b;
  }();
  return bytes;
}

}  // namespace

void fix_icrc(std::span<std::byte> frame) {
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(frame[i]); };
  if (frame.size() < 14 + 20 + 8 + 12 + 4) return;
  std::size_t ip = 14;
  unsigned type = at(12) << 8 | at(13);
  if (type == 0x8100) {
    type = at(16) << 8 | at(17);
    ip = 18;
  }
  const bool ipv4 = type == 0x0800;
  const std::size_t udp = ip + (ipv4 ? 20 : 40);
  if ((!ipv4 && type != 0x86dd) || frame.size() < udp + 8) return;
  if (ipv4) {
    frame[ip + 10] = frame[ip + 11] = std::byte{0};
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 20; i += 2) sum += at(ip + i) << 8 | at(ip + i + 1);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~(sum + (sum >> 16));
    frame[ip + 10] = static_cast<std::byte>(sum >> 8);
    frame[ip + 11] = static_cast<std::byte>(sum);
  }
  const std::size_t len = at(udp + 4) << 8 | at(udp + 5);
  if (len < 8 + 12 + 4 || udp + len > frame.size()) return;
  const std::uint32_t crc = icrc(frame.subspan(ip, udp + len - 4 - ip), ipv4);
  for (std::size_t i = 0; i < 4; ++i) {
    frame[udp + len - 4 + i] = static_cast<std::byte>(crc >> (8 * i));
  }
}

void Play::fill(Packet& p, const FuzzQp& to) {
  Qp* const live = w_.device->registry.qps.find(to.number);
  tern_rsp_query_qp now{};
  if (live != nullptr) live->query(&now);
  constexpr std::array classes = {Transport::kRc,  Transport::kUc,  Transport::kUd,
                                  Transport::kXrc, Transport::kXrc, Transport::kUd};
  const std::uint8_t how = in_.u8();
  p.transport = live != nullptr ? live->transport() : classes[to.type % classes.size()];
  if (how % 32 == 28) {  // a CNP
    p.transport = Transport::kCnp;
    p.op = kCnpOp;
    p.dest_qp = Qpn(to.number);
    const std::uint8_t more = in_.u8();
    p.becn = !(more & 1);
    static constexpr std::array<std::byte, kCnpPayload> kReserved{};
    p.payload.append_plain(more & 2 ? pattern().first(kCnpPayload) : std::span(kReserved));
    return;
  }
  if (how % 32 == 31) p.transport = Transport{static_cast<std::uint8_t>(in_.u8() & 0xe0)};
  p.op = Op{static_cast<std::uint8_t>(in_.u8() & 0x1f)};
  p.dest_qp = Qpn(how % 32 == 30 ? in_.u32() & 0xffffff : how % 32 == 29 ? 0xffffffU : to.number);
  const OpTraits& t = traits(p.transport, p.op);
  // A request has a PSN near the expected one, a response one near the outstanding requests.
  const auto delta = static_cast<std::int8_t>(how & 0x40 ? in_.u8() : 0);
  const std::uint32_t base = t.request ? now.attr.rq_psn : now.attr.sq_psn - 1;
  p.psn = Psn(base + static_cast<std::uint32_t>(delta));
  p.ack_req = how & 0x80;
  const std::uint8_t more = in_.u8();
  p.solicited = more & 1;
  p.pkey = more % 64 == 63 ? in_.u16() : 0xffff;
  p.becn = more & 2;
  p.mig_req = !(more & 4);
  if (t.reth || t.atomic_eth) {
    p.rkey = key();
    p.va = address(p.rkey);
  }
  const std::uint32_t payload = t.payload && p.op == Op::kAtomicWrite && !(more & 8)
                                    ? kAtomicWritePayload
                                : t.payload ? length(kMaxPayload)
                                : more & 8  ? length(64)
                                            : 0;
  if (t.reth) {
    const bool names = p.op == Op::kReadRequest || p.op == Op::kFlush;
    p.dma_len = names ? length(0x1500) : payload;
    if (more & 16) p.dma_len = in_.u32();
  }
  if (t.atomic_eth) {
    p.swap_add = in_.u16();
    p.compare = in_.u16();
  }
  if (t.aeth) {
    constexpr std::array syndromes = {kSyndromeAck, kNakSequence, kNakInvalidRequest,
                                      kNakRemoteAccess, kNakRemoteOperation};
    const std::uint8_t s = in_.u8();
    p.syndrome = s < 0x80 ? syndromes[s % syndromes.size()] : s;
    p.msn = in_.u8();
  }
  if (t.imm) p.imm = in_.u32();
  if (t.ieth) p.inv_rkey = key();
  if (t.deth) {
    p.qkey = more & 32 ? in_.u32() : to.type == TERN_QPT_GSI ? 0x80010000 : World::kQkey;
    p.src_qp = Qpn(in_.u8());
  }
  if (t.xrceth) p.xrc_srq = Srqn(more & 64 ? in_.u8() : w_.srqs[1]);
  if (t.feth) {
    // Mostly a type that the device executes.
    const std::uint8_t what = in_.u8();
    p.flush_type = what & 0xc0 ? std::uint8_t{TERN_FLUSH_GLOBAL} : what;
    p.flush_level = in_.u8();
  }
  const std::uint32_t headers = w_.scene.tags && t.send && t.first ? add_tag(p) : 0;
  p.payload.append_plain(pattern().first(payload > headers ? payload - headers : 0));
}

// The headers of a message to an SRQ with tags.
TagHeaders Play::tag_headers(std::uint8_t how) {
  const Region& from = how & 8 ? w_.ro : w_.rw;
  TagHeaders headers{};
  headers.tm = {static_cast<std::uint8_t>(how & 4 ? in_.u8() : how & 3), {}, 7, 0};
  headers.tm.tag = from_wire(std::uint64_t{in_.pick(4)});
  headers.rndv = {from_wire(from.iova), from_wire(from.key), from_wire(length(0x800))};
  return headers;
}

// Appends such headers, and returns their length.
std::uint32_t Play::add_tag(Packet& p) {
  const std::uint8_t how = in_.u8();
  headers_ = tag_headers(how);
  const bool request = headers_.tm.opcode == TERN_TMH_RNDV;
  const std::size_t needed = request ? sizeof(headers_) : sizeof(headers_.tm);
  const std::size_t bytes = how & 16 ? in_.pick(sizeof(headers_)) : needed;
  p.payload.append_plain(std::as_bytes(std::span(&headers_, 1)).first(bytes));
  return static_cast<std::uint32_t>(bytes);
}

void Play::frame() {
  const FuzzQp& to = qp();
  Packet p(w_.host);
  fill(p, to);
  const std::uint8_t damage = in_.u8();
  p.route.ipv4 = w_.scene.ipv4;
  p.route.sgid = w_.scene.loopback ? w_.own_gid() : w_.peer_gid();
  p.route.dgid = damage % 32 == 31 ? w_.peer_gid() : w_.own_gid();
  p.route.smac = World::kPeerMac;
  p.route.dmac = World::kMac;
  p.route.vlan = w_.scene.vlan ? World::kVlan : std::uint16_t{TERN_VLAN_NONE};
  if (damage % 32 == 30) p.route.vlan ^= 1;
  if (damage % 32 == 29) p.route.traffic_class = 3;  // congestion experienced
  p.route.udp_sport = 0xc000;
  std::vector<std::byte> frame(static_cast<std::size_t>(p.payload.size()) + kMaxFrameOverhead);
  frame.resize(serialize(p, 1, frame));
  p.payload.clear();
  inject(frame, damage);
}

// `damage` >> 5 selects a change to the frame before it arrives; 0 to 2 select none.
void Play::inject(std::vector<std::byte>& frame, std::uint8_t damage) {
  const auto turn = [&] {
    if (!frame.empty()) frame[in_.u16() % frame.size()] ^= static_cast<std::byte>(in_.u8());
  };
  switch (damage >> 5) {
    case 3:
      frame.resize(std::min<std::size_t>(frame.size(), in_.u16() % 128));  // truncated
      break;
    case 4:
      turn();
      fix_icrc(frame);
      break;
    case 5:
      turn();  // leaves the ICRC wrong
      break;
    case 6:
      frame.resize(frame.size() + in_.u8());  // padded
      break;
    case 7:
      turn();
      turn();
      frame.resize(frame.size() - std::min<std::size_t>(frame.size(), in_.u8() % 8));
      fix_icrc(frame);
      break;
    default:
      break;
  }
  // An allocation of exactly this size, so that ASan detects reads past the end.
  const auto exact = std::make_unique<std::byte[]>(frame.size());
  std::ranges::copy(frame, exact.get());
  // The burst that some frames begin ends with the next frame, or when the device runs.
  if ((damage & 3) == 3) {
    w_.device->receive_more(std::span(exact.get(), frame.size()));
  } else {
    w_.device->receive(std::span(exact.get(), frame.size()));
  }
  w_.collect();
  w_.check();
}

void Play::raw_frame() {
  const std::uint8_t damage = in_.u8();
  const auto bytes = std::as_bytes(in_.bytes(in_.u8()));
  std::vector<std::byte> frame(bytes.begin(), bytes.end());
  if (damage & 1) fix_icrc(frame);
  inject(frame, damage);
}

void Play::echo() {
  const std::uint8_t which = in_.u8();
  const std::uint8_t damage = in_.u8();
  if (w_.sent.empty()) return;
  std::vector<std::byte> frame = w_.sent[which % w_.sent.size()];
  std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
  const std::size_t ip = 14 + (w_.scene.vlan ? 4 : 0);
  const std::size_t addresses = ip + (w_.scene.ipv4 ? 12 : 8);
  const std::size_t n = w_.scene.ipv4 ? 4 : 16;
  const std::size_t bth = ip + (w_.scene.ipv4 ? 20 : 40) + 8;
  if (frame.size() < bth + 12) return;
  std::swap_ranges(frame.begin() + static_cast<std::ptrdiff_t>(addresses),
                   frame.begin() + static_cast<std::ptrdiff_t>(addresses + n),
                   frame.begin() + static_cast<std::ptrdiff_t>(addresses + n));
  const std::uint32_t qpn = qp().number;
  for (std::size_t i = 0; i < 3; ++i) {
    frame[bth + 5 + i] = static_cast<std::byte>(qpn >> (16 - 8 * i));
  }
  fix_icrc(frame);
  inject(frame, damage);
}

}  // namespace tern::fuzz
