// SPDX-License-Identifier: GPL-2.0-or-later
#include "uplink.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "adapter_config.h"
#include "clock.h"

namespace tern::daemon {

namespace {

constexpr std::size_t kQueue = std::size_t{4} << 20;
// Frames taken at a time from each side.
constexpr unsigned kBurst = 64;

// struct virtio_net_hdr of linux/virtio_net.h, which is no C++.
struct VnetHeader {
  static constexpr std::uint8_t kNeedsChecksum = 1;
  std::uint8_t flags;
  std::uint8_t gso_type;  // 0: whole packets
  std::uint16_t hdr_len;
  std::uint16_t gso_size;
  std::uint16_t csum_start;
  std::uint16_t csum_offset;
};
static_assert(sizeof(VnetHeader) == 10);

}  // namespace

bool finish_checksum(std::span<std::byte> frame, std::size_t start, std::size_t offset) {
  if (start > frame.size() || offset > frame.size() - start || frame.size() - start - offset < 2) return false;
  std::uint64_t sum = 0;
  const auto bytes = frame.subspan(start);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += std::to_integer<std::uint64_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  std::uint64_t value = ~sum & 0xffff;
  // In UDP, 0 means that there is none.
  if (value == 0) value = 0xffff;
  put16(bytes, offset, static_cast<std::uint16_t>(value));
  return true;
}

Uplink::Uplink(std::string_view text, Switch& fabric) : wake_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  const std::size_t equals = text.find('=');
  const std::string_view kind = text.substr(0, equals);
  if (equals == std::string_view::npos || (kind != "tap" && kind != "packet")) {
    throw std::invalid_argument("an uplink is tap=NAME or packet=NAME, not '" + std::string(text) + "'");
  }
  text.remove_prefix(equals + 1);
  std::size_t comma = text.find(',');
  const std::string name(text.substr(0, comma));
  if (name.empty() || name.size() >= IFNAMSIZ) throw std::invalid_argument("'" + name + "' is no name of an interface");
  PortPolicy policy;
  while (comma != std::string_view::npos) {
    text.remove_prefix(comma + 1);
    comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t at = item.find('=');
    if (at == std::string_view::npos || !set_port_property(policy, item.substr(0, at), item.substr(at + 1))) {
      throw std::invalid_argument("an uplink has no property '" + std::string(item.substr(0, at)) + "'");
    }
  }
  packet_ = kind == "packet";
  packet_ ? open_packet(name) : open_tap(name);
  port_ = &fabric.add(name, *this, kQueue);
  port_->set_policy(policy);
}

Uplink::~Uplink() { stop(); }

void Uplink::open_tap(const std::string& name) {
  file_ = checked(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK), "/dev/net/tun");
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(file_.get(), TUNSETIFF, &request) != 0) throw std::system_error(errno, std::generic_category(), "tap " + name);
}

void Uplink::open_packet(const std::string& name) {
  file_ = checked(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "packet socket");
  const unsigned index = if_nametoindex(name.c_str());
  if (index == 0) throw std::system_error(errno, std::generic_category(), "interface " + name);
  const int on = 1;
  packet_mreq all{};
  all.mr_ifindex = static_cast<int>(index);
  all.mr_type = PACKET_MR_PROMISC;
  sockaddr_ll addr{};
  addr.sll_family = AF_PACKET;
  addr.sll_protocol = htons(ETH_P_ALL);
  addr.sll_ifindex = static_cast<int>(index);
  if (setsockopt(file_.get(), SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0 ||
      setsockopt(file_.get(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) != 0 ||
      setsockopt(file_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) != 0 ||
      setsockopt(file_.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) != 0 ||
      bind(file_.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)) != 0) {
    throw std::system_error(errno, std::generic_category(), "interface " + name);
  }
}

void Uplink::start() {
  port_->set_link(true);
  thread_ = std::thread(&Uplink::loop, this);
}

void Uplink::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true);
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Uplink::wake() {
  if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false)) eventfd_write(wake_.get(), 1);
}

void Uplink::room() {
  has_room_.store(true, std::memory_order_seq_cst);
  wake();
}

void Uplink::loop() {
  pthread_setname_np(pthread_self(), "uplink");
  while (!stop_.load(std::memory_order_relaxed)) {
    const bool in = take_in();
    const bool out = send_out();
    if (!in && !out) sleep(blocked_out_);
  }
}

// From the host into the switch. Returns false if there is nothing, or the switch takes no more.
bool Uplink::take_in() {
  for (unsigned i = 0; i < kBurst; ++i) {
    if (!has_room_.load(std::memory_order_seq_cst)) return i != 0;
    if (frame_.empty() && !receive()) return i != 0;
    if (frame_.empty()) continue;
    has_room_.store(false, std::memory_order_seq_cst);
    if (port_->send(frame_, frame_time_) == Port::Sent::kBlocked) return i != 0;
    has_room_.store(true, std::memory_order_seq_cst);
    frame_ = {};
  }
  return true;
}

// Reads the host's next frame. Returns false if there is none.
bool Uplink::receive() {
  std::byte* const data = in_.data() + kTag;
  VnetHeader header{};
  iovec parts[2] = {{&header, sizeof(header)}, {data, in_.size() - kTag}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata))> control{};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = packet_ ? recvmsg(file_.get(), &message, 0) : read(file_.get(), data, in_.size() - kTag);
  if (got < 0) return errno == EINTR;
  const std::size_t head = packet_ ? sizeof(header) : 0;
  if (static_cast<std::size_t>(got) < head + kMacs + 2) return got != 0;
  std::span<std::byte> frame(data, static_cast<std::size_t>(got) - head);
  frame_time_ = clock_ns();
  frame_ = {};
  if (packet_) {
    const bool finished = (header.flags & VnetHeader::kNeedsChecksum) == 0 || finish_checksum(frame, header.csum_start, header.csum_offset);
    if (!finished || header.gso_type != 0 || (message.msg_flags & MSG_TRUNC) != 0) {
      unfinished_.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    // The kernel has taken the tag out of the frame.
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
      tpacket_auxdata aux;
      std::memcpy(&aux, CMSG_DATA(c), sizeof(aux));
      if ((aux.tp_status & TP_STATUS_VLAN_VALID) == 0) continue;
      std::memmove(in_.data(), data, kMacs);
      const std::array<std::uint16_t, 2> tag{
          htons((aux.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? aux.tp_vlan_tpid : std::uint16_t{ETHERTYPE_VLAN}), htons(aux.tp_vlan_tci)};
      std::memcpy(in_.data() + kMacs, tag.data(), sizeof(tag));
      frame = {in_.data(), frame.size() + kTag};
    }
  }
  frame_ = frame;
  return true;
}

// From the switch to the host. Returns false if there is nothing, or the host takes no more.
bool Uplink::send_out() {
  unsigned sent = 0;
  blocked_out_ = false;
  due_ = UINT64_MAX;
  for (; sent < kBurst; ++sent) {
    const auto frame = port_->front(clock_ns(), &due_);
    if (frame.empty()) break;
    VnetHeader header{};
    const iovec parts[2] = {{&header, sizeof(header)}, {const_cast<std::byte*>(frame.data()), frame.size()}};
    const ssize_t written = writev(file_.get(), packet_ ? parts : parts + 1, packet_ ? 2 : 1);
    if (written < 0 && errno == EAGAIN) {
      blocked_out_ = true;
      break;
    }
    // Other errors lose the frame: the interface is down, or the frame is longer than its MTU.
    port_->pop();
  }
  port_->release();
  return sent != 0;
}

void Uplink::sleep(bool writable) {
  sleeping_.store(true, std::memory_order_seq_cst);
  // Whoever puts something after this sees that the thread sleeps.
  const bool waits = !frame_.empty() && !has_room_.load(std::memory_order_seq_cst);
  const bool frames = !writable && due_ == UINT64_MAX && !port_->empty();
  if ((frame_.empty() || waits) && !frames) {
    const std::uint64_t now = clock_ns();
    // The switch's watchdog may discard a frame that is offered again.
    const std::uint64_t until = std::min(due_, waits ? now + Switch::kWatchdog : UINT64_MAX);
    const std::uint64_t left = until > now ? until - now : 0;
    const timespec limit{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
    pollfd fds[2] = {{wake_.get(), POLLIN, 0}, {file_.get(), static_cast<short>((waits ? 0 : POLLIN) | (writable ? POLLOUT : 0)), 0}};
    const int events = ppoll(fds, 2, until == UINT64_MAX ? nullptr : &limit, nullptr);
    if (events == 0 && waits) has_room_.store(true, std::memory_order_seq_cst);
    if (fds[0].revents != 0) {
      eventfd_t value;
      eventfd_read(wake_.get(), &value);
    }
  }
  sleeping_.store(false, std::memory_order_relaxed);
}

}  // namespace tern::daemon
