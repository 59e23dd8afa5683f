// SPDX-License-Identifier: GPL-2.0-or-later
#include "map.h"

#include <cerrno>

#include "failure.h"

namespace guest {

Map::Map(std::size_t length, int protection, int flags, int fd, void* at)
    : at_(static_cast<std::byte*>(::mmap(at, length, protection, flags, fd, 0))), length_(length) {
  require(at_ != MAP_FAILED, "mmap of {} bytes: {}", length, errno_name(errno));
}

void Map::advise(int advice, std::size_t offset, std::size_t length) const {
  if (::madvise(at_ + offset, length ? length : length_ - offset, advice) != 0)
    fail_errno("madvise");
}

void Map::protect(int protection) const {
  if (::mprotect(at_, length_, protection) != 0) fail_errno("mprotect");
}

void Map::unmap() {
  if (at_ != nullptr) ::munmap(at_, length_);
  at_ = nullptr;
}

}  // namespace guest
