// SPDX-License-Identifier: GPL-2.0-or-later
#include "device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <bit>

namespace tern::daemon {

DeviceMemory::DeviceMemory(std::uint64_t size) : size_(size == 0 ? 0 : std::bit_ceil(size)) {
  if (size_ != 0) renew();
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

void DeviceMemory::renew() {
  if (size_ == 0) return;
  Descriptor file = checked(memfd_create("tern-dm", MFD_CLOEXEC | MFD_ALLOW_SEALING), "device memory");
  // A hypervisor that could shrink it would make our accesses fail.
  if (ftruncate(file.get(), static_cast<off_t>(size_)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw std::system_error(errno, std::generic_category(), "device memory");
  }
  void* const data = mmap(data_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | (data_ != nullptr ? MAP_FIXED : 0), file.get(), 0);
  if (data == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "device memory");
  data_ = static_cast<std::byte*>(data);
  file_ = std::move(file);
}

}  // namespace tern::daemon
