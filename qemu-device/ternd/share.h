// SPDX-License-Identifier: GPL-2.0-or-later
// What the process may have of the host, divided among the adapters: no hypervisor can take another
// one's part.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::daemon {

struct AdapterConfig;

// The part of one adapter.
struct Share {
  std::size_t regions = SIZE_MAX;  // of guest memory: each is a mapping and a descriptor
  std::uint64_t memory =
      UINT64_MAX;  // bytes that its guest can make the engine allocate, and device memory
};

// What the process may have: mappings, descriptors and bytes.
struct HostLimits {
  std::uint64_t mappings;
  std::uint64_t descriptors;
  std::uint64_t memory;

  // Of this process on this host. Three quarters of the memory that the host has, or the control
  // group allows.
  static HostLimits read();
};

// Divides `host` into `places` equal parts. Throws std::runtime_error if they are too small to
// serve anybody.
Share divide(const HostLimits& host, unsigned places);

// Limits the page lists of an adapter to what is left of its share when it has all else that its
// properties allow. Throws std::invalid_argument if that is too little.
void limit_pages(AdapterConfig& config, const Share& share);

}  // namespace tern::daemon
