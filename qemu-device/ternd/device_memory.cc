// SPDX-License-Identifier: GPL-2.0-or-later
#include "device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <bit>

namespace tern::daemon {

DeviceMemory::DeviceMemory(std::uint64_t size) : size_(size == 0 ? 0 : std::bit_ceil(size)) {
  if (!renew()) throw std::system_error(errno, std::generic_category(), "device memory");
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

bool DeviceMemory::renew() {
  if (size_ == 0) return true;
  Descriptor file(memfd_create("tern-dm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Seal the file: if a hypervisor could shrink it, our accesses would fail.
  if (!file || ftruncate(file.get(), static_cast<off_t>(size_)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return false;
  }
  void* const data = mmap(data_, size_, PROT_READ | PROT_WRITE,
                          MAP_SHARED | (data_ != nullptr ? MAP_FIXED : 0), file.get(), 0);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(data);
  file_ = std::move(file);
  return true;
}

}  // namespace tern::daemon
