// SPDX-License-Identifier: GPL-2.0-or-later
#include "socket.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace xdp {

namespace {

void* map_ring(int fd, const xdp_ring_offset& o, std::size_t entry, off_t page) {
  void* const p = mmap(nullptr, o.desc + kEntries * entry, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_POPULATE, fd, page);
  if (p == MAP_FAILED) die("mmap of a ring");
  return p;
}

template <typename T>
Ring<T> make_ring(int fd, const xdp_ring_offset& o, off_t page) {
  auto* const base = static_cast<std::byte*>(map_ring(fd, o, sizeof(T), page));
  const auto word = [base](std::uint64_t offset) {
    return static_cast<std::uint32_t*>(static_cast<void*>(base + offset));
  };
  return {word(o.producer), word(o.consumer), word(o.flags),
          static_cast<T*>(static_cast<void*>(base + o.desc))};
}

void set(int fd, int option, const void* value, socklen_t size) {
  if (setsockopt(fd, SOL_XDP, option, value, size) != 0)
    die("setsockopt " + std::to_string(option));
}

// Tries for ten seconds. The kernel releases the queue of a closed socket later, in a work item,
// and bind() fails with EBUSY until then.
void bind_queue(int fd, const sockaddr_xdp& address) {
  const auto* const to = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  for (int tries = 1000; bind(fd, to, sizeof(address)) != 0; tries--) {
    if (errno != EBUSY || tries == 0) die("bind");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

Socket::Socket(unsigned ifindex, std::uint32_t queue, const Options& options)
    : options_(options), fd_(socket(AF_XDP, SOCK_RAW, 0)) {
  if (fd_.get() < 0) die("socket");
  void* const memory = mmap(nullptr, kChunk * kChunks, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) die("mmap");
  memory_ = static_cast<std::byte*>(memory);
  xdp_umem_reg umem{};
  umem.addr = reinterpret_cast<std::uintptr_t>(memory);
  umem.len = kChunk * kChunks;
  umem.chunk_size = kChunk;
  set(fd(), XDP_UMEM_REG, &umem, sizeof(umem));
  for (const int ring : {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING})
    set(fd(), ring, &kEntries, sizeof(kEntries));
  map_rings();
  // Half of the chunks receive, half send.
  for (std::uint32_t i = 0; i < kChunks; i++)
    if (i < kEntries)
      fill_.push(std::uint64_t{i} * kChunk);
    else
      free_.push_back(std::uint64_t{i} * kChunk);
  sockaddr_xdp address{};
  address.sxdp_family = AF_XDP;
  address.sxdp_ifindex = ifindex;
  address.sxdp_queue_id = queue;
  address.sxdp_flags = static_cast<std::uint16_t>((options.zero_copy ? XDP_ZEROCOPY : XDP_COPY) |
                                                  (options.need_wakeup ? XDP_USE_NEED_WAKEUP : 0) |
                                                  (options.fragments ? XDP_USE_SG : 0));
  bind_queue(fd(), address);
}

Socket::~Socket() { munmap(memory_, kChunk * kChunks); }

void Socket::map_rings() {
  xdp_mmap_offsets offsets{};
  socklen_t size = sizeof(offsets);
  if (getsockopt(fd(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size) != 0) die("XDP_MMAP_OFFSETS");
  rx_ = make_ring<xdp_desc>(fd(), offsets.rx, XDP_PGOFF_RX_RING);
  tx_ = make_ring<xdp_desc>(fd(), offsets.tx, XDP_PGOFF_TX_RING);
  fill_ = make_ring<std::uint64_t>(fd(), offsets.fr, static_cast<off_t>(XDP_UMEM_PGOFF_FILL_RING));
  done_ = make_ring<std::uint64_t>(fd(), offsets.cr,
                                   static_cast<off_t>(XDP_UMEM_PGOFF_COMPLETION_RING));
}

bool Socket::zero_copy() const {
  xdp_options options{};
  socklen_t size = sizeof(options);
  if (getsockopt(fd(), SOL_XDP, XDP_OPTIONS, &options, &size) != 0) die("XDP_OPTIONS");
  return options.flags & XDP_OPTIONS_ZEROCOPY;
}

bool Socket::send(std::span<const std::byte> frame) {
  const std::size_t parts = (frame.size() + kChunk - 1) / kChunk;
  while (done_.used() != 0) free_.push_back(done_.pop() & ~std::uint64_t{kChunk - 1});
  if (free_.size() < parts || tx_.room() < parts) return false;
  while (!frame.empty()) {
    const std::size_t n = std::min<std::size_t>(frame.size(), kChunk);
    const std::uint64_t address = free_.back();
    free_.pop_back();
    std::memcpy(memory_ + address, frame.data(), n);
    frame = frame.subspan(n);
    tx_.push({address, static_cast<std::uint32_t>(n), frame.empty() ? 0U : XDP_PKT_CONTD});
  }
  return true;
}

bool Socket::receive(std::vector<std::byte>& frame) {
  while (rx_.used() != 0) {
    const xdp_desc desc = rx_.pop();
    const std::span<const std::byte> part(memory_ + desc.addr, desc.len);
    part_.insert(part_.end(), part.begin(), part.end());
    fill_.push(desc.addr & ~std::uint64_t{kChunk - 1});
    if (desc.options & XDP_PKT_CONTD) continue;
    frame.swap(part_);
    part_.clear();
    return true;
  }
  return false;
}

void Socket::kick() {
  // Without the flag, the kernel still has to be told of frames to send.
  if (tx_.used() != 0 && (!options_.need_wakeup || tx_.needs_wakeup()))
    sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0);
  if (options_.need_wakeup && fill_.needs_wakeup())
    recvfrom(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

void Socket::wait(int milliseconds) {
  kick();
  pollfd p{fd(), POLLIN, 0};
  if (rx_.used() == 0) poll(&p, 1, milliseconds);
}

}  // namespace xdp
