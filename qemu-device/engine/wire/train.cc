// SPDX-License-Identifier: GPL-2.0-or-later
#include "wire/train.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/layout.h"
#include "wire/bth.h"

namespace tern {

namespace {

using frames::kIpv4Checksum, frames::kIpv4Id, frames::kIpv4Length, frames::kIpv6Length;
using frames::kUdp, frames::kUdpLength;

// Bytes of a BTH.
constexpr std::size_t kFlags = 1;  // solicited event, MigReq and pad count
constexpr std::size_t kAckReq = 8;
constexpr std::size_t kPsn = 9;
constexpr std::uint8_t kPadBits = 0x30;

bool is_response(std::uint8_t opcode) {
  const Op op = op_of(opcode);
  return traits_of(opcode).valid && op >= Op::kReadResponseFirst && op <= Op::kReadResponseOnly;
}

// The last packet of a message whose packets are one train with this operation.
Op last_of(Op op) {
  switch (op) {
    case Op::kSendOnly:
      return Op::kSendLast;
    case Op::kSendOnlyImm:
      return Op::kSendLastImm;
    case Op::kSendOnlyInv:
      return Op::kSendLastInv;
    case Op::kWriteOnly:
      return Op::kWriteLast;
    case Op::kWriteOnlyImm:
      return Op::kWriteLastImm;
    case Op::kReadResponseOnly:
      return Op::kReadResponseLast;
    default:
      return op;
  }
}

}  // namespace

std::optional<Train> Train::parse(const WireFrame& from) {
  const std::span<const std::byte> frame = from.bytes;
  const std::uint32_t packets = from.train;
  Train train;
  Route route;
  if (packets < 2 || parse_route(frame, route, train.at_) != ParseResult::kOk) return {};
  train.frame_ = frame;
  train.packets_ = packets;
  if (frame.size() < train.bth() + kBth) return {};
  train.opcode_ = std::to_integer<std::uint8_t>(frame[train.bth()]);
  const OpTraits& t = traits_of(train.opcode_);
  if ((!t.send && !t.write && !is_response(train.opcode_)) || t.deth) return {};
  const std::size_t pad = frames::get8(frame, train.bth() + kFlags) >> 4 & 3;
  const std::size_t headers = train.bth() + t.header_bytes;
  if (frame.size() < headers + pad + kIcrc) return {};
  train.payload_ = frame.subspan(headers, frame.size() - headers - pad - kIcrc);
  train.size_ = train.payload_.size();
  if (from.payload != nullptr) {
    if (train.size_ != 0) return {};
    train.shared_ = from.payload;
    train.size_ = from.payload->size();
  }
  // Path MTUs are powers of two.
  const std::size_t all = train.size_;
  train.mtu_ = std::bit_ceil((all + packets - 1) / packets);
  if (all > kMaxBytes || all <= (packets - 1) * train.mtu_) return {};
  return train;
}

Op Train::op(std::uint32_t i) const {
  const OpTraits& t = traits_of(opcode_);
  if (i == packets_ - 1 && t.last) return last_of(op_of(opcode_));
  const bool first = i == 0 && t.first;
  if (t.send) return first ? Op::kSendFirst : Op::kSendMiddle;
  if (t.write) return first ? Op::kWriteFirst : Op::kWriteMiddle;
  return first ? Op::kReadResponseFirst : Op::kReadResponseMiddle;
}

// Opcode of packet `i`.
std::uint8_t Train::opcode(std::uint32_t i) const {
  return static_cast<std::uint8_t>(static_cast<unsigned>(class_of(opcode_)) |
                                   static_cast<unsigned>(op(i)));
}

std::size_t Train::bytes(std::uint32_t i) const {
  const std::size_t payload = payload_bytes(i);
  return std::max(frames::kMinFrame,
                  bth() + traits_of(opcode(i)).header_bytes + payload + pad_of(payload) + kIcrc);
}

std::size_t Train::bytes() const {
  const std::size_t middle = packets_ == 2 ? 0 : (packets_ - 2) * bytes(1);
  return bytes(0) + middle + bytes(packets_ - 1);
}

// Copies the extension headers of one packet.
void Train::copy_extensions(const OpTraits& to, std::span<std::byte> out) const {
  const OpTraits& from = traits_of(opcode_);
  const std::byte* in = frame_.data() + bth() + kBth;
  const auto take = [&](bool has, bool wants, std::size_t bytes) {
    if (has && wants) {
      std::copy_n(in, bytes, out.begin());
      out = out.subspan(bytes);
    }
    if (has) in += bytes;
  };
  take(from.xrceth, to.xrceth, 4);
  take(from.reth, to.reth, 16);
  take(from.aeth, to.aeth, 4);
  take(from.imm, to.imm, 4);
  take(from.ieth, to.ieth, 4);
}

void Train::write(std::uint32_t i, std::span<std::byte> out, Icrc with) const {
  assert(out.size() == bytes(i));
  const std::size_t payload = payload_bytes(i);
  const std::size_t pad = pad_of(payload);
  const std::uint8_t opcode = this->opcode(i);
  const OpTraits& t = traits_of(opcode);
  const std::size_t data = bth() + t.header_bytes;
  const std::size_t icrc = data + payload + pad;

  std::ranges::copy(frame_.first(bth() + kBth), out.begin());
  const auto udp_len = static_cast<std::uint16_t>(icrc + kIcrc - at_.udp());
  frames::put16(out, at_.udp() + kUdpLength, udp_len);
  if (at_.ipv4) {
    const auto ip = out.subspan(at_.ip, at_.ip_header);
    frames::put16(ip, kIpv4Length, static_cast<std::uint16_t>(at_.ip_header + udp_len));
    frames::put16(ip, kIpv4Id, static_cast<std::uint16_t>(frames::get16(ip, kIpv4Id) + i));
    frames::put16(ip, kIpv4Checksum, 0);
    frames::put16(ip, kIpv4Checksum, frames::ipv4_checksum(ip.first<frames::kIpv4>()));
  } else {
    frames::put16(out, at_.ip + kIpv6Length, udp_len);
  }

  const auto bth = out.subspan(this->bth(), kBth);
  std::uint8_t flags = frames::get8(bth, kFlags) & static_cast<std::uint8_t>(~kPadBits);
  if (i != packets_ - 1) {
    flags &= static_cast<std::uint8_t>(~kBthSolicited);
    bth[kAckReq] &= std::byte{static_cast<std::uint8_t>(~kBthAckReq)};
  }
  const std::uint32_t psn = frames::get32(bth, kAckReq) & 0xffffff;
  bth[0] = std::byte{opcode};
  bth[kFlags] = std::byte{static_cast<std::uint8_t>(flags | pad << 4)};
  const std::uint32_t next = Psn(psn).plus(i).value();
  bth[kPsn] = static_cast<std::byte>(next >> 16);
  frames::put16(bth, kPsn + 1, static_cast<std::uint16_t>(next));

  copy_extensions(t, out.subspan(this->bth() + kBth, t.header_bytes - kBth));
  if (shared_ != nullptr) {
    shared_->copy_to(i * mtu_, out.subspan(data, payload));
  } else {
    std::ranges::copy(payload_.subspan(i * mtu_, payload), out.subspan(data).begin());
  }
  std::ranges::fill(out.subspan(data + payload), std::byte{0});
  if (with == Icrc::kPresent) write_icrc(out, FrameParts{at_.ip, this->bth(), icrc, at_.ipv4});
}

}  // namespace tern
