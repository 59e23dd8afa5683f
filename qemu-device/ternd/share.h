// SPDX-License-Identifier: GPL-2.0-or-later
// Divides the host's resources for this process among the adapters: no hypervisor can take the
// share of another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::daemon {

struct AdapterConfig;

// The share of one adapter.
struct Share {
  std::size_t regions = SIZE_MAX;  // of guest memory: each is a mapping and a descriptor
  std::size_t mapped = SIZE_MAX;   // bytes of address space for them
  std::uint64_t memory =
      UINT64_MAX;  // bytes that its guest can make the engine allocate, and device memory
};

// Limits of the process: mappings, descriptors and bytes.
struct HostLimits {
  std::uint64_t mappings;
  std::uint64_t descriptors;
  std::uint64_t memory;

  // Reads the limits of this process on this host: three quarters of the memory of the host, or of
  // the control group's limit.
  static HostLimits read();
};

// Divides `host` into `places` equal parts. Throws std::runtime_error if they are too small to
// serve an adapter.
Share divide(const HostLimits& host, unsigned places);

// Limits the page lists of an adapter to the part of its share that remains when everything else
// that its properties allow is used. Throws std::invalid_argument if that is too little.
void limit_pages(AdapterConfig& config, const Share& share);

}  // namespace tern::daemon
