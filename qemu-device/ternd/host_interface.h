// SPDX-License-Identifier: GPL-2.0-or-later
// Frames from and to an interface of the host: a tap, or any Ethernet interface by a packet socket.
//
// Packets that the host's stack left to the interface to finish are finished here. A tap has none:
// without IFF_VNET_HDR and offloads the kernel finishes packets before it queues them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "descriptor.h"
#include "frames/layout.h"
#include "frames/unfinished.h"

namespace tern::daemon {

class HostInterface {
 public:
  enum class Kind { kTap, kPacket };

  // Opens the file of the interface: a tap, which is created if it does not exist, or a packet
  // socket. Also sets the interface's index. Throws std::system_error.
  static Descriptor open(Kind kind, const std::string& name, unsigned* index);

  HostInterface(Kind kind, Descriptor file)
      : packet_(kind == Kind::kPacket), file_(std::move(file)) {}

  // Readable when there are frames, writable when frames are taken.
  [[nodiscard]] int fd() const { return file_.get(); }

  // Reads the host's next packet. Returns false if there is none. There may be no frame afterwards,
  // because the packet was discarded.
  bool receive();
  // The current frame of the packet, valid until next() or receive(). Empty: there are no more.
  [[nodiscard]] std::span<const std::byte> frame() const { return segments_.frame(); }
  void next() { segments_.next(); }
  // Packets that the host left unfinished in a way that is not supported here. Any thread.
  [[nodiscard]] std::uint64_t unfinished() const {
    return unfinished_.load(std::memory_order_relaxed);
  }
  // Packets that did not fit a packet socket. The interface counts those of a tap. Any thread.
  std::uint64_t overruns();

  enum class Sent { kTaken, kFull, kRefused };
  // kRefused: the interface is down, or the frame is longer than its MTU.
  Sent send(std::span<const std::byte> frame);
  // Forgets an error, which would keep the file readable.
  void clear_error();

 private:
  // Limit of a packet from the host: an IP packet of 64 KiB and its Ethernet header.
  static constexpr std::size_t kPacketMax = 65536 + 64;

  bool receive_packet();

  bool packet_;
  Descriptor file_;
  std::atomic<std::uint64_t> unfinished_ = 0;
  std::atomic<std::uint64_t> overruns_ = 0;
  frames::PacketFinisher segments_;
  // The packet begins at kTag, to leave space for a tag before it.
  alignas(16) std::array<std::byte, frames::kTag + kPacketMax> in_{};
};

}  // namespace tern::daemon
