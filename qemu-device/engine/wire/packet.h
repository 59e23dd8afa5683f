// SPDX-License-Identifier: GPL-2.0-or-later
// A transport packet with decoded headers. Requester and responder exchange it, both over the wire
// and in loopback. Field layouts: IBTA 9.2, 9.3.
#pragma once

#include <cstdint>

#include "core/host.h"
#include "core/list.h"
#include "core/shared_payload.h"
#include "core/types.h"

namespace tern {

// The transport class: upper three bits of the BTH opcode. kRaw stands for QPs whose frames have no
// BTH: it has no valid opcode, so no packet ever has it.
enum class Transport : std::uint8_t {
  kRc = 0x00,
  kUc = 0x20,
  kUd = 0x60,
  kCnp = 0x80,
  kXrc = 0xa0,
  kRaw = 0xc0
};

// The operation: lower five bits of the BTH opcode.
enum class Op : std::uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImm = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAck = 0x11,
  kAtomicAck = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInv = 0x16,
  kSendOnlyInv = 0x17,
  kFlush = 0x1c,
  kAtomicWrite = 0x1d,
};

// The operation of the congestion notification packet in class Transport::kCnp (opcode 0x81).
inline constexpr Op kCnpOp = Op{0x01};
inline constexpr std::uint32_t kCnpPayload = 16;
inline constexpr std::uint32_t kAtomicWritePayload = 8;

// The ECN field of a traffic class (RFC 3168).
inline constexpr std::uint8_t kEcnMask = 0x03;
inline constexpr std::uint8_t kEcnCapable = 0x02;  // ECT(0)
inline constexpr std::uint8_t kEcnCongested = 0x03;

// Properties of an operation; one row per opcode of a transport class.
struct OpTraits {
  bool valid : 1;
  bool request : 1;  // goes to the responder, otherwise to the requester
  bool first : 1;    // FIRST, ONLY or a single-packet operation: starts a message
  bool last : 1;     // LAST, ONLY or a single-packet operation: ends a message
  bool send : 1;
  bool write : 1;  // RDMA WRITE; ATOMIC WRITE is neither send nor write
  bool reth : 1;
  bool atomic_eth : 1;
  bool aeth : 1;
  bool atomic_ack_eth : 1;
  bool imm : 1;
  bool ieth : 1;
  bool deth : 1;
  bool xrceth : 1;
  bool feth : 1;
  bool payload : 1;           // may carry payload
  std::uint8_t header_bytes;  // of BTH and extension headers
};

// Row of `op` in class `transport`; `valid` is false if the class does not have the operation.
[[nodiscard]] const OpTraits& traits(Transport transport, Op op);
// The same, indexed by the first byte of the BTH.
[[nodiscard]] const OpTraits& traits_of(std::uint8_t opcode);

// AETH syndromes (IBTA 9.7.5.2.1): the upper three bits give the kind.
inline constexpr std::uint8_t kSyndromeAck = 0x1f;  // ACK, no end-to-end credits
inline constexpr std::uint8_t kSyndromeKindMask = 0xe0;
inline constexpr std::uint8_t kSyndromeKindAck = 0x00;
inline constexpr std::uint8_t kSyndromeKindRnr = 0x20;
inline constexpr std::uint8_t kSyndromeKindNak = 0x60;
inline constexpr std::uint8_t kNakSequence = 0x60;
inline constexpr std::uint8_t kNakInvalidRequest = 0x61;
inline constexpr std::uint8_t kNakRemoteAccess = 0x62;
inline constexpr std::uint8_t kNakRemoteOperation = 0x63;

class Archive;

// Source and destination of a packet.
struct Route {
  Gid sgid{};
  Gid dgid{};
  Mac smac{};
  Mac dmac{};
  std::uint16_t vlan = 0xffff;  // TERN_VLAN_NONE
  std::uint16_t udp_sport = 0;
  std::uint32_t flow_label = 0;
  std::uint16_t sgid_index = 0;  // transmit: table entry of the source; receive: of dgid
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t sl = 0;
  bool ipv4 = false;
  bool local = false;     // the destination is this device
  std::uint8_t port = 1;  // on which it leaves or arrived

  void state(Archive& ar);
};

struct Packet {
  explicit Packet(Host& host) : payload(host) {}
  // Opcode of the BTH.
  [[nodiscard]] std::uint8_t opcode() const {
    return static_cast<std::uint8_t>(static_cast<unsigned>(transport) | static_cast<unsigned>(op));
  }

  Transport transport = Transport::kRc;
  Op op = Op::kAck;
  bool solicited = false;
  bool ack_req = false;
  bool mig_req = true;
  bool fecn = false;
  bool becn = false;
  std::uint16_t pkey = 0xffff;
  Qpn dest_qp;
  Psn psn;

  std::uint64_t va = 0;        // RETH, AtomicETH
  std::uint32_t rkey = 0;      // RETH, AtomicETH
  std::uint32_t dma_len = 0;   // RETH
  std::uint64_t swap_add = 0;  // AtomicETH
  std::uint64_t compare = 0;   // AtomicETH
  std::uint64_t original = 0;  // AtomicAckETH
  std::uint8_t syndrome = 0;   // AETH
  std::uint32_t msn = 0;       // AETH
  std::uint32_t imm = 0;       // ImmDt, bytes as on the wire
  std::uint32_t inv_rkey = 0;  // IETH
  std::uint32_t qkey = 0;      // DETH
  Qpn src_qp;                  // DETH
  Srqn xrc_srq;                // XRCETH
  std::uint8_t flush_type = 0;
  std::uint8_t flush_level = 0;

  Route route;
  SpanList payload;  // without padding
  // To send: the payload may be shared (core/shared_payload.h), and this queue collects it. Null:
  // it is copied.
  List<SharedPayload>* share = nullptr;
  // One Packet may stand for `train` consecutive packets of a message. It carries the payload of
  // all of them, and its opcode says whether they include the first and the last of the message.
  // See Context::max_train().
  std::uint32_t train = 1;
};

}  // namespace tern
