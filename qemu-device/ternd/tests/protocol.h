// SPDX-License-Identifier: GPL-2.0-or-later
// The messages of the vfio-user protocol that the tests send, apart from the library under test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace tern::daemon::protocol {

enum Command : std::uint16_t {
  kVersion = 1,
  kDmaMap = 2,
  kDmaUnmap = 3,
  kRegionInfo = 5,
  kSetIrqs = 8,
  kRead = 9,
  kWrite = 10,
  kReset = 13
};

struct Header {
  std::uint16_t id;
  std::uint16_t command;
  std::uint32_t size;
  std::uint32_t flags;
  std::uint32_t error;
};
constexpr std::uint32_t kReply = 1;
constexpr std::uint32_t kTypeMask = 0xf;
constexpr std::uint32_t kError = 1 << 5;

constexpr std::uint32_t kReadable = 1;
constexpr std::uint32_t kWritable = 2;
struct DmaMap {
  std::uint32_t argsz = sizeof(DmaMap);
  std::uint32_t flags;
  std::uint64_t offset;
  std::uint64_t addr;
  std::uint64_t size;
};
struct DmaUnmap {
  std::uint32_t argsz = sizeof(DmaUnmap);
  std::uint32_t flags = 0;
  std::uint64_t addr;
  std::uint64_t size;
};
// Of kRead and kWrite.
struct Access {
  std::uint64_t offset;
  std::uint32_t region;
  std::uint32_t count;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// `head`, and `body` behind it.
template <class T>
std::vector<std::byte> joined(const T& head, std::span<const std::byte> body) {
  std::vector<std::byte> all(sizeof(head) + body.size());
  std::memcpy(all.data(), &head, sizeof(head));
  std::ranges::copy(body, all.begin() + sizeof(head));
  return all;
}

inline std::vector<std::byte> message(std::uint16_t id, std::uint16_t command,
                                      std::span<const std::byte> body) {
  return joined(Header{id, command, static_cast<std::uint32_t>(sizeof(Header) + body.size()), 0, 0},
                body);
}

// The body of kVersion: version 0.1 and `capabilities`, text in JSON.
template <std::size_t N>
std::vector<std::byte> version(const char (&capabilities)[N]) {
  constexpr std::uint16_t kMinor = 1;
  return joined(std::uint32_t{kMinor} << 16, std::as_bytes(std::span(capabilities)));
}

}  // namespace tern::daemon::protocol
