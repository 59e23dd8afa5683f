// SPDX-License-Identifier: GPL-2.0-or-later
// A packet of every opcode with a recognizable value in every field.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/host.h"
#include "wire/codec.h"
#include "wire/packet.h"

namespace tern {

inline constexpr Transport kAllTransports[] = {Transport::kRc, Transport::kUc, Transport::kUd,
                                               Transport::kCnp, Transport::kXrc};

// Calls `f` for every opcode that exists.
inline void for_each_opcode(const std::function<void(Transport, Op, const OpTraits&)>& f) {
  for (const Transport transport : kAllTransports) {
    for (unsigned op = 0; op < 32; ++op) {
      const OpTraits& t = traits(transport, Op(op));
      if (t.valid) f(transport, Op(op), t);
    }
  }
}

inline Gid sample_gid(bool ipv4, std::uint8_t last) {
  if (ipv4) return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, last};
  return {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0x02, 0x02, 0xc9, 0xff, 0xfe, 0, 0, last};
}

inline Route sample_route(bool ipv4, std::uint16_t vlan) {
  Route r;
  r.sgid = sample_gid(ipv4, 1);
  r.dgid = sample_gid(ipv4, 2);
  r.smac = {0x52, 0x54, 0, 0x77, 0, 1};
  r.dmac = {0x52, 0x54, 0, 0x77, 0, 2};
  r.vlan = vlan;
  r.udp_sport = 0xd234;
  r.flow_label = ipv4 ? 0 : 0x1d234;
  r.traffic_class = 0x6a;
  r.hop_limit = 33;
  r.sl = vlan == 0xffff ? 0 : 5;
  r.ipv4 = ipv4;
  return r;
}

// Fills the headers that the opcode has.
inline void fill_sample(Packet& p, Transport transport, Op op) {
  const OpTraits& t = traits(transport, op);
  p.transport = transport;
  p.op = op;
  p.solicited = t.send;
  p.ack_req = t.request && t.last;
  p.dest_qp = Qpn(0x123456);
  p.psn = Psn(0xfedcba);
  if (t.reth || t.atomic_eth) {
    p.va = 0x1122334455667788;
    p.rkey = 0x99aabbcc;
  }
  if (t.reth) p.dma_len = 0x00102030;
  if (t.atomic_eth) {
    p.swap_add = 0x0102030405060708;
    p.compare = 0x1112131415161718;
  }
  if (t.atomic_ack_eth) p.original = 0x2122232425262728;
  if (t.aeth) {
    p.syndrome = kSyndromeAck;
    p.msn = 0xabcdef;
  }
  if (t.imm) p.imm = 0xd4c3b2a1;
  if (t.ieth) p.inv_rkey = 0x31323334;
  if (t.deth) {
    p.qkey = 0x41424344;
    p.src_qp = Qpn(0x515253);
  }
  if (t.xrceth) p.xrc_srq = Srqn(0x616263);
  if (t.feth) {
    p.flush_type = 3;
    p.flush_level = 1;
  }
}

// Payload size near `want` that such a packet may have.
inline std::size_t sample_payload(Transport transport, Op op, std::size_t want) {
  const OpTraits& t = traits(transport, op);
  if (!t.payload) return 0;
  if (transport == Transport::kCnp) return kCnpPayload;
  if (op == Op::kAtomicWrite) return kAtomicWritePayload;
  return want;
}

inline std::vector<std::byte> pattern(std::size_t n, unsigned seed = 0) {
  std::vector<std::byte> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<std::byte>(i * 7 + seed + 1);
  return v;
}

inline std::vector<std::byte> encode(const Packet& p, std::uint16_t ip_id = 0x4321) {
  std::vector<std::byte> frame(static_cast<std::size_t>(p.payload.size()) + kMaxFrameOverhead);
  frame.resize(serialize(p, ip_id, frame));
  return frame;
}

}  // namespace tern
