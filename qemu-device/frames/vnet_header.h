// SPDX-License-Identifier: GPL-2.0-or-later
// struct virtio_net_hdr of linux/virtio_net.h, which C++ cannot include: what a stack has left to
// do on a packet. In the byte order of this machine.
#pragma once

#include <cstdint>

namespace tern::frames {

struct VnetHeader {
  static constexpr std::uint8_t kNeedsChecksum = 1;  // flags
  static constexpr std::uint8_t kTcp4 = 1;           // gso_type
  static constexpr std::uint8_t kTcp6 = 4;
  static constexpr std::uint8_t kAnyUdp = 5;
  static constexpr std::uint8_t kEcn = 0x80;  // with one of TCP
  std::uint8_t flags;
  std::uint8_t gso_type;
  std::uint16_t hdr_len;
  std::uint16_t gso_size;
  std::uint16_t csum_start;
  std::uint16_t csum_offset;
};
static_assert(sizeof(VnetHeader) == 10);

}  // namespace tern::frames
