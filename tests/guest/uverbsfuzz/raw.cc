// SPDX-License-Identifier: GPL-2.0-or-later
#include "raw.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/tern-abi.h>

#include <algorithm>
#include <cstring>

namespace guest::uverbsfuzz {
namespace {

constexpr std::uint64_t kInKernel = 0xffff888000000000;

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

constexpr std::uint64_t rounded(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

void Handles::add(std::size_t type, std::uint32_t handle) {
  const std::scoped_lock lock(mutex_);
  auto& known = known_[type % kTypes];
  if (known.size() < 64) {
    known.push_back(handle);
  } else {
    known[handle % 64] = handle;
  }
}

std::uint32_t Handles::any(Random& random, std::size_t type) {
  // The number of draws does not depend on what exists.
  const std::uint32_t choice = random.below(16);
  const std::uint32_t pick = random.below(1U << 30);
  const std::scoped_lock lock(mutex_);
  if (choice == 0) return pick % 64;
  if (choice == 1) return pick;
  const auto& known = known_[(choice == 2 ? pick / 64 : type) % kTypes];
  return known.empty() ? pick % 32 : known[pick % known.size()];
}

std::uint64_t Arena::response(Random& random) const {
  const std::uint32_t where = random.below(32);
  const std::uint64_t good = number(page(200 + random.below(32)));
  if (where == 0) return hole_.address();
  if (where == 1) return read_only_.address();
  if (where == 2) return kInKernel;
  // Runs into the page that is not there.
  if (where == 3) return memory_.address() + kBytes - 4;
  return good;
}

std::uint64_t Arena::address(Random& random) const {
  const std::uint32_t where = random.below(16);
  const std::uint64_t offset = random.below(128 * kPage);
  const std::uint64_t whole = offset / kPage * kPage;
  switch (where) {
    case 0:
      return 0;
    case 1:
      return hole_.address() + whole;
    case 2:
      return read_only_.address() + whole;
    case 3:
      return kInKernel + whole;
    case 4:
      return ~std::uint64_t{0} - offset;
    case 5:
      return memory_.address() + offset;
    default:
      return memory_.address() + whole;
  }
}

std::uint64_t interesting(Random& random) {
  static constexpr std::uint64_t kValues[] = {
      0,     1,     2,       3,        4,        7,   8,          15,         16,   31,   32,
      63,    64,    127,     128,      255,      256, 4095,       4096,       4097, 8192, 1023,
      65535, 65536, 1 << 20, ~0U >> 1, 1U << 31, ~0U, 1ULL << 32, ~0ULL >> 1, ~0ULL};
  return kValues[random.below(std::size(kValues))];
}

void spoil(Random& random, std::vector<std::byte>& bytes, std::size_t from) {
  const std::uint32_t changes = random.one_in(3) ? 1 + random.below(3) : 0;
  for (std::uint32_t i = 0; i < changes; ++i) {
    const std::uint64_t value = interesting(random);
    const std::size_t width = std::size_t{1} << random.below(4);
    const std::uint32_t at = random.below(1U << 20);
    if (bytes.size() < from + width) continue;
    const std::size_t slots = (bytes.size() - from) / width;
    std::memcpy(bytes.data() + from + at % slots * width, &value, width);
  }
}

std::vector<std::byte> driver_part(Random& random, const Arena& arena, std::size_t type) {
  // Buffers and records overlap those of other objects at times: the memory is the process's own.
  const std::uint64_t buffer = number(arena.page(8 * random.below(16)));
  const std::uint64_t record = number(arena.page(240)) + 256 * random.below(64);
  const auto log_size = static_cast<std::uint8_t>(random.below(6));
  const auto receive_queue = [=](auto req) {
    req.buf_addr = buffer;
    req.buf_len = rounded(std::uint64_t{32} << log_size);
    req.record_addr = record;
    req.log_size = log_size;
    req.log_stride = 5;
    return bytes_of(req);
  };
  switch (type) {
    case UVERBS_OBJECT_CQ: {
      tern_ureq_create_cq req{};
      req.buf_addr = buffer;
      req.buf_len = rounded(std::uint64_t{64} << log_size);
      req.record_addr = record;
      req.log_size = log_size;
      return bytes_of(req);
    }
    case UVERBS_OBJECT_QP: {
      tern_ureq_create_qp req{};
      req.buf_addr = buffer;
      req.log_sq_size = req.log_rq_size = log_size;
      req.log_sq_stride = 7;
      req.log_rq_stride = 5;
      req.buf_len = rounded((std::uint64_t{128} << log_size) + (std::uint64_t{32} << log_size));
      req.record_addr = record;
      return bytes_of(req);
    }
    case UVERBS_OBJECT_SRQ:
      return receive_queue(tern_ureq_create_srq{});
    case UVERBS_OBJECT_WQ:
      return receive_queue(tern_ureq_create_wq{});
    default:
      return {};
  }
}

}  // namespace guest::uverbsfuzz
