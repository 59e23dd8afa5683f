// SPDX-License-Identifier: GPL-2.0-or-later
// qemu-device/frames: headers, checksums, congestion marks and segments, in two ways. The input is
// an offload descriptor, a number of further payload bytes, a kind of packet, and a frame. The
// oracle is RFC 1071 byte by byte; the segments, put together, must be the frame again.
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "frame_input.h"
#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/ecn.h"
#include "frames/ethernet.h"
#include "frames/headers.h"
#include "frames/layout.h"
#include "frames/segmenter.h"
#include "frames/unfinished.h"

namespace tern::fuzz {

using namespace frames;

namespace {

constexpr unsigned kRight = 0xffff;  // the sum of what has a right checksum

void check_level(const Level& level, std::size_t size) {
  if (level.layers == 0) return;
  expect(
      level.ethernet + kEthernet <= level.l3 && level.l3 <= level.l4 && level.l4 <= level.payload,
      "headers are not in order");
  expect(level.payload <= level.end && level.end <= size, "a header is not in the frame");
}

unsigned header_sum(std::span<const std::byte> frame, const Level& level) {
  return plain_sum(frame.subspan(level.l3, level.l4 - level.l3));
}

// The sum of TCP or UDP with the pseudo header.
unsigned transport_sum(std::span<const std::byte> frame, const Level& level) {
  const std::size_t most = level.end - level.l4;
  const std::size_t length =
      level.tcp() ? most : std::min<std::size_t>(most, get16(frame, level.l4 + kUdpLength));
  const auto addresses = level.ipv4() ? frame.subspan(level.l3 + kIpv4Addresses, 8)
                                      : frame.subspan(level.l3 + kIpv6Addresses, 32);
  const unsigned pseudo = plain_sum(
      addresses, static_cast<unsigned>((level.tcp() ? kTcpProtocol : kUdpProtocol) + length));
  return plain_sum(frame.subspan(level.l4, length), pseudo);
}

void compare_check(std::span<const std::byte> frame, const Level& level) {
  const Checked checked = check(frame, level);
  const bool l3 = level.ip() && (!level.ipv4() || header_sum(frame, level) == kRight);
  expect(checked.l3_ok == l3, "the header's checksum is not as the oracle says");
  const bool none = !level.ip() || (!level.tcp() && !level.udp()) || level.cut ||
                    (level.udp() && get16(frame, level.l4 + kUdpChecksum) == 0);
  const bool l4 = !none && transport_sum(frame, level) == kRight;
  expect(checked.l4_ok == l4, "the checksum of TCP or UDP is not as the oracle says");
  expect(checked.wrong == ((level.ip() && !l3) || (!none && !l4)), "right and wrong differ");
}

void checksums(std::span<const std::byte> bytes) {
  const ExactFrame frame(bytes);
  const Headers headers = parse(frame.bytes());
  check_level(headers.outer, bytes.size());
  check_level(headers.inner, bytes.size());
  for (const Level& level : {headers.inner, headers.outer}) {
    compare_check(frame.bytes(), level);
    fill_checksums(frame.bytes(), level);
    const Checked checked = check(frame.bytes(), level);
    expect(checked.l3_ok == level.ip() && !checked.wrong, "a filled in checksum is wrong");
    expect(checked.l4_ok == ((level.tcp() || level.udp()) && !level.cut),
           "the checksum of TCP or UDP is not filled in");
    compare_check(frame.bytes(), level);
  }
}

// The checksum of everything from `start` on, at any offset.
void complete(std::span<const std::byte> bytes, std::size_t start, std::size_t offset, Zero zero) {
  const ExactFrame frame(bytes);
  const bool fits = start + offset + 2 <= bytes.size();
  expect(complete_checksum(frame.bytes(), start, offset, zero) == fits,
         "a checksum outside of the frame");
  Bytes expected(bytes.begin(), bytes.end());
  if (fits) {
    const auto value = static_cast<std::uint16_t>(~plain_sum(bytes.subspan(start)));
    put16(expected, start + offset, value == 0 && zero == Zero::kReplaced ? 0xffff : value);
  }
  expect(std::ranges::equal(frame.bytes(), expected), "a checksum is not as the oracle says");
}

void marks(std::span<const std::byte> bytes) {
  const ExactFrame frame(bytes);
  const bool capable = is_ecn_capable(frame.bytes());
  mark_congestion(frame.bytes());
  if (!capable) return;
  const std::uint32_t ip = find_payload(bytes)->at;
  const bool ipv4 = find_payload(bytes)->type == kIpv4Type;
  Bytes expected(bytes.begin(), bytes.end());
  expected[ip + 1] |= std::byte{3} << (ipv4 ? 0 : 4);
  if (ipv4) {
    const auto sum = [&](std::span<const std::byte> of) {
      return plain_sum(of.subspan(ip, kIpv4));
    };
    put16(expected, ip + kIpv4Checksum, get16(frame.bytes(), ip + kIpv4Checksum));
    expect((sum(bytes) == kRight) == (sum(frame.bytes()) == kRight),
           "a mark makes a right checksum wrong, or a wrong one right");
  }
  expect(std::ranges::equal(frame.bytes(), expected), "a mark changes other bytes");
}

// The headers of segment `i`, with the checksums that it has.
Bytes headers_of(std::span<const std::byte> headers, const Level& level,
                 std::span<const std::byte> segment, std::size_t i, std::size_t offset, bool last) {
  Bytes expected(headers.begin(), headers.end());
  const auto length = segment.size() - level.l3;
  if (level.ipv4()) {
    put16(expected, level.l3 + kIpv4Length, static_cast<std::uint16_t>(length));
    put16(expected, level.l3 + kIpv4Id,
          static_cast<std::uint16_t>(get16(headers, level.l3 + kIpv4Id) + i));
    put16(expected, level.l3 + kIpv4Checksum, get16(segment, level.l3 + kIpv4Checksum));
  } else {
    put16(expected, level.l3 + kIpv6Length, static_cast<std::uint16_t>(length - kIpv6));
  }
  const std::size_t checksum = level.l4 + (level.tcp() ? kTcpChecksum : kUdpChecksum);
  put16(expected, checksum, get16(segment, checksum));
  if (level.udp()) {
    put16(expected, level.l4 + kUdpLength, static_cast<std::uint16_t>(segment.size() - level.l4));
    return expected;
  }
  put32(expected, level.l4 + kTcpSequence,
        get32(headers, level.l4 + kTcpSequence) + static_cast<std::uint32_t>(offset));
  if (!last) expected[level.l4 + kTcpFlags] &= ~std::byte{kFinPsh};
  if (i != 0) expected[level.l4 + kTcpFlags] &= ~std::byte{kCwr};
  return expected;
}

// Puts segments together again.
class Joined {
 public:
  Joined(std::span<const std::byte> whole, const Level& level, std::size_t mss)
      : whole_(whole), level_(level), mss_(mss) {}

  void add(std::span<const std::byte> segment) {
    const auto headers = whole_.first(level_.payload);
    const std::size_t payload = segment.size() - headers.size();
    const bool last = headers.size() + at_ + payload == whole_.size();
    expect(last ? payload <= mss_ : payload == mss_, "a segment has a wrong size");
    expect(std::ranges::equal(segment.first(headers.size()),
                              headers_of(headers, level_, segment, number_, at_, last)),
           "a segment has other headers");
    expect(std::ranges::equal(segment.subspan(headers.size()),
                              whole_.subspan(headers.size() + at_, payload)),
           "a segment has other bytes");
    const Level level = parse(segment).outer;
    expect(level.payload == headers.size() && level.end == segment.size(),
           "a segment has wrong lengths");
    expect(!level.ipv4() || header_sum(segment, level) == kRight, "a header has a wrong checksum");
    expect(transport_sum(segment, level) == kRight, "a segment has a wrong checksum");
    expect(level.tcp() || get16(segment, level.l4 + kUdpChecksum) != 0,
           "a segment has no checksum");
    at_ += payload;
    ++number_;
  }
  void finish() const {
    expect(level_.payload + at_ == whole_.size(), "the segments are not the whole");
  }

 private:
  std::span<const std::byte> whole_;
  Level level_;
  std::size_t mss_;
  std::size_t at_ = 0;
  std::size_t number_ = 0;
};

// All of so many take long.
constexpr std::size_t kMost = 64;

void segments(std::span<const std::byte> bytes, const tern_eth_offload& ops) {
  const ExactFrame headers(bytes.first(std::min<std::size_t>(bytes.size(), le(ops.header_len))));
  const auto segmenter = Segmenter::make(headers.bytes(), bytes.size(), ops);
  if (!segmenter) return;
  expect(segmenter->count() <= Segmenter::kMaxSegments, "too many segments");
  Joined joined(bytes, parse_template(headers.bytes()), le(ops.mss));
  if (segmenter->count() > kMost) return;
  for (std::size_t i = 0; i < segmenter->count(); ++i) {
    const auto piece = segmenter->piece(i);
    Bytes whole(headers.bytes().begin(), headers.bytes().end());
    const auto payload = bytes.subspan(headers.bytes().size() + piece.offset, piece.length);
    whole.insert(whole.end(), payload.begin(), payload.end());
    const ExactFrame segment(whole);
    segmenter->finish(i, segment.bytes());
    joined.add(segment.bytes());
  }
  joined.finish();
}

void finish(std::span<const std::byte> bytes, const Unfinished& what) {
  const ExactFrame packet(bytes);
  PacketFinisher finisher;
  if (!finisher.start(packet.bytes(), what)) {
    expect(finisher.frame().empty(), "a refused packet has a frame");
    return;
  }
  if (what.kind == Unfinished::Kind::kWhole) {
    expect(finisher.frame().size() == bytes.size(), "a whole packet has another length");
    finisher.next();
    expect(finisher.frame().empty(), "a whole packet has two frames");
    return;
  }
  const Level level = parse_template(bytes.first(std::min(bytes.size(), Segmenter::kMaxHeaders)));
  const std::size_t length = level.ipv4() ? get16(bytes, level.l3 + kIpv4Length)
                                          : kIpv6 + get16(bytes, level.l3 + kIpv6Length);
  expect(level.l3 + length <= bytes.size(), "a packet is longer than its frame");
  Joined joined(bytes.first(level.l3 + length), level, what.segment);
  std::size_t count = 0;
  for (; !finisher.frame().empty(); finisher.next(), ++count) {
    if (count == kMost) return;
    joined.add(finisher.frame());
  }
  joined.finish();
}

}  // namespace

}  // namespace tern::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern;
  fuzz::Input in({data, size});
  tern_eth_offload ops{};
  const auto descriptor = in.bytes(sizeof(ops));
  if (!descriptor.empty()) std::memcpy(&ops, descriptor.data(), descriptor.size());
  const std::size_t more = in.u16() % 8192;
  const std::uint8_t kind = in.u8();
  frames::Bytes frame = fuzz::take_frame(in, ops);
  fuzz::checksums(frame);
  fuzz::complete(frame, le(ops.csum_start), le(ops.csum_offset),
                 (kind & 0x80) != 0 ? frames::Zero::kKept : frames::Zero::kReplaced);
  fuzz::marks(frame);
  for (std::size_t i = 0; i < more; ++i) frame.push_back(static_cast<std::byte>(i * 29 + (i >> 8)));
  // With lengths that include what was added, mostly.
  const frames::Level level = frames::parse_template(frame);
  if (level.ip() && (kind & 0x40) == 0) {
    const std::size_t ip = frame.size() - level.l3;
    frames::put16(frame, level.l3 + (level.ipv4() ? frames::kIpv4Length : frames::kIpv6Length),
                  static_cast<std::uint16_t>(level.ipv4() ? ip : ip - frames::kIpv6));
  }
  fuzz::segments(frame, ops);
  const bool udp = (le(ops.ops) & TERN_ETH_OP_USO) != 0;
  const bool right = (kind & 0x20) == 0;
  fuzz::finish(frame,
               {frames::Unfinished::Kind{static_cast<std::uint8_t>(kind & 3)}, (kind & 4) == 0,
                le(ops.csum_start),
                right ? (udp ? frames::kUdpChecksum : frames::kTcpChecksum) : le(ops.csum_offset),
                le(ops.mss)});
  return 0;
}
