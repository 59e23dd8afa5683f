// SPDX-License-Identifier: GPL-2.0-or-later
#include "host_interface.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "frames/vnet_header.h"

namespace tern::daemon {

namespace {

using frames::VnetHeader;

// Size of a packet socket's buffer: more than the 208 KiB of most hosts, because many packets of 64
// KiB may arrive at once.
constexpr int kReceiveBuffer = 8 << 20;

constexpr std::size_t kFrameMin = frames::kEthernet;

std::optional<frames::Unfinished::Kind> kind_of(std::uint8_t gso_type) {
  // Every segmentation here preserves ECN.
  switch (gso_type & ~VnetHeader::kEcn) {
    case 0:
      return frames::Unfinished::Kind::kWhole;
    case VnetHeader::kTcp4:
      return frames::Unfinished::Kind::kTcp4;
    case VnetHeader::kTcp6:
      return frames::Unfinished::Kind::kTcp6;
    case VnetHeader::kAnyUdp:
      return frames::Unfinished::Kind::kAnyUdp;
    default:
      return std::nullopt;
  }
}

// Returns the tag that the kernel has taken out of the frame, in network byte order.
std::optional<std::array<std::uint16_t, 2>> tag_of(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata aux;
    std::memcpy(&aux, CMSG_DATA(c), sizeof(aux));
    if ((aux.tp_status & TP_STATUS_VLAN_VALID) == 0) continue;
    const std::uint16_t tpid = (aux.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0
                                   ? aux.tp_vlan_tpid
                                   : std::uint16_t{ETHERTYPE_VLAN};
    return {{htons(tpid), htons(aux.tp_vlan_tci)}};
  }
  return std::nullopt;
}

Descriptor open_tap(const std::string& name, unsigned* index) {
  Descriptor file = checked(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK), "/dev/net/tun");
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  // A persistent tap keeps the offloads of its last user.
  if (ioctl(file.get(), TUNSETIFF, &request) != 0 || ioctl(file.get(), TUNSETOFFLOAD, 0) != 0) {
    throw std::system_error(errno, std::generic_category(), "tap " + name);
  }
  *index = if_nametoindex(request.ifr_name);
  if (*index == 0) throw std::system_error(errno, std::generic_category(), "tap " + name);
  return file;
}

Descriptor open_packet(const std::string& name, unsigned* index) {
  Descriptor file =
      checked(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "packet socket");
  *index = if_nametoindex(name.c_str());
  if (*index == 0) throw std::system_error(errno, std::generic_category(), "interface " + name);
  const int on = 1;
  packet_mreq all{};
  all.mr_ifindex = static_cast<int>(*index);
  all.mr_type = PACKET_MR_PROMISC;
  sockaddr_ll addr{};
  addr.sll_family = AF_PACKET;
  addr.sll_protocol = htons(ETH_P_ALL);
  addr.sll_ifindex = static_cast<int>(*index);
  if (setsockopt(file.get(), SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0 ||
      setsockopt(file.get(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) != 0 ||
      setsockopt(file.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) != 0 ||
      setsockopt(file.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) != 0 ||
      bind(file.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)) != 0) {
    throw std::system_error(errno, std::generic_category(), "interface " + name);
  }
  // Exceeds the limit of the host if permitted.
  if (setsockopt(file.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof(kReceiveBuffer)) !=
      0) {
    setsockopt(file.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof(kReceiveBuffer));
  }
  return file;
}

}  // namespace

Descriptor HostInterface::open(Kind kind, const std::string& name, unsigned* index) {
  return kind == Kind::kPacket ? open_packet(name, index) : open_tap(name, index);
}

bool HostInterface::receive() {
  if (packet_) return receive_packet();
  const ssize_t got = read(file_.get(), in_.data() + frames::kTag, kPacketMax);
  if (got < 0) return errno == EINTR;
  const std::span<std::byte> frame(in_.data() + frames::kTag, static_cast<std::size_t>(got));
  segments_.start(frame.size() < kFrameMin ? frame.first(0) : frame, {});
  return true;
}

bool HostInterface::receive_packet() {
  std::byte* const data = in_.data() + frames::kTag;
  VnetHeader header{};
  iovec parts[2] = {{&header, sizeof(header)}, {data, kPacketMax}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata))> control{};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(file_.get(), &message, 0);
  segments_.start({}, {});
  // EINVAL: the packet is unfinished in a way that virtio-net headers cannot express.
  if (got < 0 && errno != EINVAL) return errno == EINTR;
  const auto kind = kind_of(header.gso_type);
  if (got < 0 || !kind || (message.msg_flags & MSG_TRUNC) != 0) {
    unfinished_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (static_cast<std::size_t>(got) < sizeof(header) + kFrameMin) return true;
  std::span<std::byte> frame(data, static_cast<std::size_t>(got) - sizeof(header));
  frames::Unfinished what{*kind, (header.flags & VnetHeader::kNeedsChecksum) != 0,
                          header.csum_start, header.csum_offset, header.gso_size};
  if (const auto tag = tag_of(message)) {
    std::memmove(in_.data(), data, frames::kAddresses);
    std::memcpy(in_.data() + frames::kAddresses, tag->data(), frames::kTag);
    frame = {in_.data(), frame.size() + frames::kTag};
    what.checksum_start += frames::kTag;
  }
  if (!segments_.start(frame, what)) unfinished_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

HostInterface::Sent HostInterface::send(std::span<const std::byte> frame) {
  VnetHeader header{};  // nothing left to finish
  const iovec parts[2] = {{&header, sizeof(header)},
                          {const_cast<std::byte*>(frame.data()), frame.size()}};
  const ssize_t written = writev(file_.get(), packet_ ? parts : parts + 1, packet_ ? 2 : 1);
  if (written >= 0) return Sent::kTaken;
  return errno == EAGAIN ? Sent::kFull : Sent::kRefused;
}

std::uint64_t HostInterface::overruns() {
  // The kernel counts since the last call.
  tpacket_stats stats{};
  socklen_t size = sizeof(stats);
  if (!packet_ || getsockopt(file_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) != 0)
    return 0;
  return overruns_.fetch_add(stats.tp_drops, std::memory_order_relaxed) + stats.tp_drops;
}

void HostInterface::clear_error() {
  int error = 0;
  socklen_t size = sizeof(error);
  if (packet_) getsockopt(file_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
}

}  // namespace tern::daemon
