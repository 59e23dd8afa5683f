// SPDX-License-Identifier: GPL-2.0-or-later
// Explicit Congestion Notification in IP headers (RFC 3168).
#pragma once

#include <cstddef>
#include <span>

namespace tern::frames {

// Whether the frame is an ECN capable IP packet, with or without one VLAN tag.
[[nodiscard]] bool is_ecn_capable(std::span<const std::byte> frame);
// Sets Congestion Experienced in such a packet. ICRC does not cover the field.
void mark_congestion(std::span<std::byte> frame);
// The same where the caller knows the IP header's offset.
void mark_congestion(std::span<std::byte> frame, std::size_t ip, bool ipv4);

}  // namespace tern::frames
