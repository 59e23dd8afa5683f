// SPDX-License-Identifier: GPL-2.0-or-later
// The memory of BAR4: the engine and the hypervisor map the same file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "descriptor.h"

namespace tern::daemon {

class DeviceMemory {
 public:
  // `size` bytes, rounded up to a power of two; 0: none. Throws std::system_error.
  explicit DeviceMemory(std::uint64_t size);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] int fd() const { return file_.get(); }
  // Replaces the file with an empty one, at the same address: the previous hypervisor may still map
  // the old one. Returns false if the host has no memory or descriptors for it now.
  [[nodiscard]] bool renew();

 private:
  std::uint64_t size_;
  std::byte* data_ = nullptr;
  Descriptor file_;
};

}  // namespace tern::daemon
