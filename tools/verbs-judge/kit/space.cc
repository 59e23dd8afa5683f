// SPDX-License-Identifier: GPL-2.0-or-later
#include "space.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "trace.h"

namespace guest {

DmPtr try_alloc_dm(ibv_context* context, std::size_t length, std::uint32_t log_align,
                   std::uint32_t comp_mask) {
  ibv_alloc_dm_attr attr{.length = length, .log_align_req = log_align, .comp_mask = comp_mask};
  errno = 0;
  return DmPtr(ibv_alloc_dm(context, &attr));
}

MrPtr try_reg_dm(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                 unsigned access) {
  errno = 0;
  return MrPtr(ibv_reg_dm_mr(pd, dm, offset, length, access));
}

DmPtr alloc_dm(ibv_context* context, std::size_t length, std::uint32_t log_align) {
  need_device_memory(context);
  if (length > max_dm_size(context)) skip("max_dm_size is less than {}", length);
  DmPtr dm = try_alloc_dm(context, length, log_align);
  // ibv_alloc_dm(3): others may use the rest.
  if (!dm && (errno == ENOMEM || errno == ENOSPC) && !strict()) {
    skip("ibv_alloc_dm of {} bytes: {}", length, errno_name(errno));
  }
  require(dm != nullptr, "ibv_alloc_dm of {} bytes: {}", length, errno_name(errno));
  return dm;
}

MrPtr reg_dm(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length, unsigned access) {
  MrPtr mr = try_reg_dm(pd, dm, offset, length, access);
  require(mr != nullptr, "ibv_reg_dm_mr of {} bytes at {}: {}", length, offset, errno_name(errno));
  trace("ibv_reg_dm_mr of {} bytes at {}, {}: {}", length, offset, access_text(access),
        key_tag(mr->rkey));
  return mr;
}

std::uint64_t max_dm_size(ibv_context* context) {
  ibv_device_attr_ex attr{};
  const int err = ibv_query_device_ex(context, nullptr, &attr);
  require(err == 0, "ibv_query_device_ex: {}", errno_name(err));
  return attr.max_dm_size;
}

void dm_write(ibv_dm* dm, std::uint64_t offset, std::span<const std::byte> bytes) {
  const int err = ibv_memcpy_to_dm(dm, offset, bytes.data(), bytes.size());
  require(err == 0, "ibv_memcpy_to_dm of {} bytes to {}: {}", bytes.size(), offset,
          errno_name(err));
}

std::vector<std::byte> dm_read(ibv_dm* dm, std::uint64_t offset, std::size_t length) {
  std::vector<std::byte> bytes(length);
  const int err = ibv_memcpy_from_dm(bytes.data(), dm, offset, length);
  require(err == 0, "ibv_memcpy_from_dm of {} bytes at {}: {}", length, offset, errno_name(err));
  return bytes;
}

std::vector<std::byte> image(std::size_t length, std::uint64_t background, Patches patches) {
  std::vector<std::byte> bytes(length);
  fill(bytes, background);
  for (const Patch& p : patches) {
    require(p.offset <= length && p.length <= length - p.offset && p.ahead <= p.offset,
            "a patch beyond the memory");
    const auto part = std::span(bytes).subspan(p.offset, p.length);
    if (p.number) {
      std::memcpy(part.data(), &p.seed, std::min<std::size_t>(sizeof(p.seed), p.length));
    } else {
      fill(part, p.seed);
    }
  }
  return bytes;
}

std::optional<std::size_t> wrong_byte(std::span<const std::byte> bytes, std::uint64_t background,
                                      Patches patches) {
  std::vector<std::byte> want = image(bytes.size(), background, patches);
  for (const Patch& p : patches) {
    std::copy_n(&bytes[p.offset - p.ahead], p.ahead, &want[p.offset - p.ahead]);
  }
  const auto at = std::ranges::mismatch(bytes, want).in1;
  if (at == bytes.end()) return {};
  return static_cast<std::size_t>(at - bytes.begin());
}

const char* kind_name(Kind kind) { return kind == Kind::kHost ? "host" : "device"; }

Space::Space(std::unique_ptr<Memory> host)
    : kind_(Kind::kHost),
      length_(host->length()),
      base_(host->address()),
      key_(host->lkey()),
      rkey_(host->rkey()),
      host_(std::move(host)) {}

Space::Space(const Device& dev, Kind kind, std::size_t length, int access, Part part)
    : kind_(kind), length_(length) {
  if (kind == Kind::kHost) {
    *this = Space(std::make_unique<Memory>(dev.pd(), length, access));
    return;
  }
  dm_ = alloc_dm(dev.context(), length);
  mr_ = reg_dm(dev.pd(), dm_.get(), part.offset, part.length == 0 ? length : part.length,
               static_cast<unsigned>(access) | IBV_ACCESS_ZERO_BASED);
  key_ = mr_->lkey;
  rkey_ = mr_->rkey;
}

void Space::paint(std::uint64_t background, Patches patches) const {
  const std::vector<std::byte> bytes = image(length_, background, patches);
  if (host_) {
    std::ranges::copy(bytes, host_->bytes().begin());
  } else {
    dm_write(dm_.get(), 0, bytes);
  }
}

std::optional<std::size_t> Space::differs(std::uint64_t background, Patches patches) const {
  if (host_) return wrong_byte(host_->bytes(), background, patches);
  return wrong_byte(dm_read(dm_.get(), 0, length_), background, patches);
}

void Space::check(std::uint64_t background, Patches patches) const {
  const auto at = differs(background, patches);
  require(!at, "{} memory: byte {} is wrong", kind_name(kind_), at.value_or(0));
}

std::vector<Mapping> device_mappings() {
  std::vector<Mapping> found;
  std::ifstream in("/proc/self/maps");
  for (std::string line; std::getline(in, line);) {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t offset = 0;
    if (line.find("/uverbs") != std::string::npos &&
        std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &offset) ==
            3) {
      found.push_back({start, end - start, offset});
    }
  }
  return found;
}

std::vector<Mapping> added(const std::vector<Mapping>& before, const std::vector<Mapping>& now) {
  std::vector<Mapping> more;
  std::ranges::copy_if(now, std::back_inserter(more), [&](const Mapping& m) {
    return std::ranges::find(before, m) == before.end();
  });
  return more;
}

}  // namespace guest
