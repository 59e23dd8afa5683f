// SPDX-License-Identifier: GPL-2.0-or-later
// Compares the engine's checksums and segments with those of Linux, byte by byte: frames that ask
// for an offload leave a device without any, va, so that Linux does it in software, and arrive at
// vb. What the engine coalesces, Linux must cut into the same frames again.
// qemu-device/engine/tests/offloads/run makes both.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "eth/coalesce.h"
#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/layout.h"
#include "frames/sample_frames.h"
#include "frames/segmenter.h"
#include "frames/vnet_header.h"
#include "testing/packet_socket.h"

namespace tern::eth {

using namespace frames;

namespace {

constexpr unsigned kFrames = 2000;

void require(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(2);
}

// A packet socket of an interface.
class Wire {
 public:
  Wire(const char* name, bool sends) : fd_(socket(AF_PACKET, SOCK_RAW, 0)) {
    require(fd_ >= 0, "socket");
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = sends ? 0 : htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(name));
    const int on = 1;
    const int room = 64 << 20;
    const timeval timeout{2, 0};
    require(
        setsockopt(fd_, SOL_PACKET, sends ? PACKET_VNET_HDR : PACKET_AUXDATA, &on, sizeof(on)) == 0,
        "packet option");
    require(setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) == 0,
            "SO_RCVBUFFORCE");
    require(setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0,
            "SO_RCVTIMEO");
    require(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, name);
  }

  [[nodiscard]] bool send(const VnetHeader& offload, const Bytes& frame) const {
    Bytes bytes(sizeof(offload) + frame.size());
    std::memcpy(bytes.data(), &offload, sizeof(offload));
    std::ranges::copy(frame, bytes.begin() + sizeof(offload));
    return ::send(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  }

  // The next frame from the sender of `like`; the machine sends frames of its own. Empty if none
  // comes.
  [[nodiscard]] Bytes receive(const Bytes& like) const {
    for (;;) {
      auto received = test::ReceivedFrame::take(fd_, 70'000);
      if (!received) return {};
      Bytes& frame = received->bytes;
      if (frame.size() < kEthernet ||
          !std::equal(like.begin(), like.begin() + kAddresses, frame.begin()))
        continue;
      // The stack takes the outer tag off.
      const auto aux = received->control<tpacket_auxdata>(SOL_PACKET, PACKET_AUXDATA);
      if (aux && (aux->tp_status & TP_STATUS_VLAN_VALID) != 0) {
        frame.insert(frame.begin() + kAddresses, kTag, std::byte{0});
        put16(frame, kAddresses, aux->tp_vlan_tpid);
        put16(frame, kAddresses + 2, aux->tp_vlan_tci);
      }
      return frame;
    }
  }

 private:
  int fd_;
};

// What the engine makes of the frame.
std::vector<Bytes> segments(const SampleFrame& f, const Bytes& frame, std::size_t mss) {
  tern_eth_offload ops{};
  ops.csum_start = le(static_cast<std::uint16_t>(f.l4()));
  ops.mss = le(static_cast<std::uint16_t>(mss));
  ops.header_len = le(static_cast<std::uint16_t>(f.headers()));
  ops.ops = le(static_cast<std::uint16_t>(TERN_ETH_OP_TSO | (f.udp() ? TERN_ETH_OP_USO : 0)));
  const auto headers = std::span(frame).first(f.headers());
  const auto segmenter = Segmenter::make(headers, frame.size(), ops);
  std::vector<Bytes> frames;
  for (std::size_t i = 0; segmenter && i < segmenter->count(); ++i) {
    const auto [offset, length] = segmenter->piece(i);
    const auto piece = std::span(frame).subspan(f.headers() + offset, length);
    Bytes segment(headers.begin(), headers.end());
    segment.insert(segment.end(), piece.begin(), piece.end());
    segmenter->finish(i, segment);
    frames.push_back(segment);
  }
  return frames;
}

std::optional<SampleFrame> draw(std::mt19937& random) {
  SampleFrame f = draw_frame(random);
  if (f.fragment || (!f.tcp() && !f.udp())) return {};
  f.padding = 0;
  // Any flags, or those of data.
  f.flags = static_cast<std::uint8_t>(random() % 2 == 0 ? random() : 0x18);
  if (random() % 2 == 0) f.options = 0, f.extensions.clear();
  f.sequence = static_cast<std::uint32_t>(random());
  f.payload = 1 + random() % (random() % 10 == 0 ? 60'000 : 4'000);
  return f;
}

void describe(const SampleFrame& f, std::size_t mss, const char* what) {
  std::printf("IPv%c protocol %d tags %zu options %zu extensions %zu payload %zu mss %zu: %s\n",
              f.v4 ? '4' : '6', f.protocol, f.tags.size(), f.options, f.extensions.size(),
              f.payload, mss, what);
}

// Sends a frame. Returns whether what arrives is what the engine makes of it.
bool same(const Wire& out, const Wire& in, const SampleFrame& f, std::size_t mss) {
  Bytes frame = f.make();
  put16(frame, f.checksum(), static_cast<std::uint16_t>(f.pseudo(frame, frame.size() - f.l4())));
  VnetHeader offload{};
  offload.flags = VnetHeader::kNeedsChecksum;
  offload.hdr_len = static_cast<std::uint16_t>(f.headers());
  offload.csum_start = static_cast<std::uint16_t>(f.l4());
  offload.csum_offset = static_cast<std::uint16_t>(f.checksum() - f.l4());
  std::vector<Bytes> expected;
  if (mss == 0) {
    expected = {frame};
    (void)complete_checksum(expected[0], offload.csum_start, offload.csum_offset);
  } else {
    offload.gso_type = f.udp() ? VnetHeader::kAnyUdp : f.v4 ? VnetHeader::kTcp4 : VnetHeader::kTcp6;
    if (f.tcp() && (f.flags & 0x80) != 0) offload.gso_type |= VnetHeader::kEcn;
    offload.gso_size = static_cast<std::uint16_t>(mss);
    expected = segments(f, frame, mss);
  }
  if (!out.send(offload, frame)) {
    describe(f, mss, std::strerror(errno));
    return false;
  }
  for (const Bytes& must : expected) {
    const Bytes is = in.receive(frame);
    if (is == must) continue;
    const auto at = std::ranges::mismatch(is, must).in1 - is.begin();
    std::printf("%zu bytes instead of %zu, different from byte %td on\n", is.size(), must.size(),
                at);
    describe(f, mss, "not what Linux makes of it");
    return false;
  }
  return !expected.empty();
}

// A packet of the receiver, with its payload.
struct Packet {
  Coalesced headers;
  Bytes payload;
  std::vector<Bytes> frames;
};

// What a receive queue that coalesces makes of these frames.
std::vector<Packet> coalesce(std::span<const Bytes> frames) {
  std::vector<Packet> packets;
  bool open = false;
  for (const Bytes& frame : frames) {
    const Level level = parse(frame).outer;
    const bool joins = Coalesced::may_join(frame, level) && check(frame, level).l4_ok;
    if (open && joins && packets.back().headers.continues(frame, level)) {
      packets.back().headers.add(frame, level);
    } else {
      open = joins && Coalesced::may_lead(frame, level);
      if (!open) continue;
      packets.emplace_back().headers.start(frame, level);
    }
    Packet& packet = packets.back();
    packet.payload.insert(packet.payload.end(), frame.begin() + level.payload, frame.end());
    packet.frames.push_back(frame);
  }
  std::erase_if(packets, [](const Packet& packet) { return packet.frames.size() < 2; });
  return packets;
}

// Has Linux cut a packet. Returns whether the frames arrive that it was made of.
bool same_again(const Wire& out, const Wire& in, Packet& packet) {
  const std::uint32_t info = packet.headers.describe();
  const auto headers = packet.headers.finish();
  const Level level = parse_template(headers);
  VnetHeader offload{};
  offload.flags = VnetHeader::kNeedsChecksum;
  offload.gso_type = level.ipv4() ? VnetHeader::kTcp4 : VnetHeader::kTcp6;
  offload.hdr_len = static_cast<std::uint16_t>(headers.size());
  offload.gso_size = static_cast<std::uint16_t>(field_get(TERN_ETH_COALESCED_MSS_MASK, info));
  offload.csum_start = static_cast<std::uint16_t>(level.l4);
  offload.csum_offset = 16;
  Bytes frame(headers.begin(), headers.end());
  frame.insert(frame.end(), packet.payload.begin(), packet.payload.end());
  if (!out.send(offload, frame)) return false;
  return std::ranges::all_of(packet.frames,
                             [&](const Bytes& must) { return in.receive(frame) == must; });
}

// The segments of TCP, as a receiver coalesces them. Returns their packets, or -1 if Linux cuts one
// into other frames.
int coalesced(const Wire& out, const Wire& in, const SampleFrame& f, std::size_t mss) {
  Bytes frame = f.make();
  auto packets = coalesce(segments(f, frame, mss));
  for (Packet& packet : packets) {
    if (same_again(out, in, packet)) continue;
    describe(f, mss, "cut by Linux after it was coalesced, other frames");
    return -1;
  }
  return static_cast<int>(packets.size());
}

int run() {
  const Wire out("va", true);
  const Wire in("vb", false);
  std::mt19937 random(1);
  unsigned checksums = 0;
  unsigned cut = 0;
  unsigned joined = 0;
  for (unsigned i = 0; i < kFrames;) {
    auto f = draw(random);
    if (!f) continue;
    ++i;
    const std::size_t mss = 64 + random() % 1400;
    // Linux takes no more segments of UDP at once.
    if (f->udp()) f->payload = std::min(f->payload, 128 * mss);
    const bool segment = f->payload > mss && random() % 4 != 0;
    if (!same(out, in, *f, segment ? mss : 0)) return 1;
    ++(segment ? cut : checksums);
    if (!segment || !f->tcp()) continue;
    const int packets = coalesced(out, in, *f, mss);
    if (packets < 0) return 1;
    joined += static_cast<unsigned>(packets);
  }
  std::printf(
      "%u frames with a checksum and %u in segments are those of Linux, and so are %u packets "
      "after coalescing\n",
      checksums, cut, joined);
  return checksums > 100 && cut > 100 && joined > 100 ? 0 : 1;
}

}  // namespace
}  // namespace tern::eth

int main() { return tern::eth::run(); }
