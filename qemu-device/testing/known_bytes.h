// SPDX-License-Identifier: GPL-2.0-or-later
// Packets of known bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tern::test {

inline std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

// TCP with 11 bytes, and its segments of 8. The identification and the sequence number wrap; CWR is
// for the first segment, PSH and FIN for the last.
inline constexpr std::string_view kTcpPacket =
    "525400770002525400770001"
    "0800"
    "45000033ffff40004006"
    "0000"
    "0a000001"
    "0a000002"
    "12345678"
    "fffffffe"
    "0a0b0c0d"
    "5099"
    "2000"
    "1428"
    "0000"
    "6162636465666768696a6b";
inline constexpr std::string_view kTcpSegments[] = {
    "525400770002525400770001"
    "0800"
    "45000030ffff40004006"
    "26c6"
    "0a000001"
    "0a000002"
    "12345678"
    "fffffffe"
    "0a0b0c0d"
    "5090"
    "2000"
    "6af1"
    "0000"
    "6162636465666768",
    "525400770002525400770001"
    "0800"
    "4500002b000040004006"
    "26cb"
    "0a000001"
    "0a000002"
    "12345678"
    "00000006"
    "0a0b0c0d"
    "5019"
    "2000"
    "2891"
    "0000"
    "696a6b"};

}  // namespace tern::test
