// SPDX-License-Identifier: GPL-2.0-or-later
#include "host.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace tern::fuzz {

void violation(const char* why, std::uint64_t a, std::uint64_t b) {
  std::fprintf(stderr, "INVARIANT BROKEN: %s (0x%" PRIx64 ", 0x%" PRIx64 ")\n", why, a, b);
  std::abort();
}

FuzzHost::FuzzHost() {
  const int fd = memfd_create("fuzz-ram", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, kBytes) != 0) violation("no memory for the RAM");
  const auto view = [fd] {
    void* const p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) violation("no memory for the RAM");
    return static_cast<std::byte*>(p);
  };
  mine_ = view();
  theirs_ = view();
  close(fd);
  ASAN_POISON_MEMORY_REGION(theirs_, kBytes);
}

FuzzHost::~FuzzHost() {
  open_dm();
  ASAN_UNPOISON_MEMORY_REGION(theirs_, kBytes);
  munmap(mine_, kBytes);
  munmap(theirs_, kBytes);
}

void FuzzHost::restart() {
  for (unsigned i = 0; i < kPages; ++i) {
    if (dirty_[i]) std::memset(mine_ + i * kPage, 0, kPage);
  }
  dirty_.reset();
  holes_.reset();
  grants_.fill({});
  clock = 1'000'000;
  cut_pages = false;
  granted_ = 0;
  most = 0;
  seed_ = 1;
  open_dm();
  std::ranges::fill(dm_, std::byte{0});
  close_dm();
}

void FuzzHost::close_dm() { ASAN_POISON_MEMORY_REGION(dm_.data(), kDmBytes); }

void FuzzHost::grant_dm(std::uint64_t offset, std::uint64_t len) {
  ASAN_UNPOISON_MEMORY_REGION(dm_.data() + offset, len);
}

void FuzzHost::dm_written(std::span<std::byte> span) {
  const std::byte* const begin = dm_.data();
  if (span.empty() || span.data() < begin || span.data() + span.size() > begin + kDmBytes) {
    violation("not device memory", span.size());
  }
}

void FuzzHost::store(std::uint64_t addr, std::span<const std::byte> bytes) {
  if (bytes.empty() || !is_ram(addr, bytes.size())) return;
  const std::uint64_t at = addr - kBase;
  std::memcpy(mine_ + at, bytes.data(), bytes.size());
  for (std::uint64_t p = at / kPage; p <= (at + bytes.size() - 1) / kPage; ++p) dirty_.set(p);
}

void FuzzHost::load(std::uint64_t addr, std::span<std::byte> bytes) const {
  if (is_ram(addr, bytes.size())) std::memcpy(bytes.data(), mine_ + (addr - kBase), bytes.size());
}

void FuzzHost::grant(std::uint64_t addr, std::uint64_t len, unsigned rights) {
  len = std::min(len, kBytes + kPage);
  while (len != 0) {
    const std::uint64_t in_page = addr % kPage;
    const std::uint64_t n = std::min(len, kPage - in_page);
    if (is_ram(addr, n)) {
      Grant& g = grants_[(addr - kBase) / kPage];
      const auto end = static_cast<std::uint16_t>(in_page + n);
      g.begin = g.rights ? std::min(g.begin, static_cast<std::uint16_t>(in_page))
                         : static_cast<std::uint16_t>(in_page);
      g.end = std::max(g.end, end);
      g.rights |= static_cast<std::uint8_t>(rights);
    }
    if (addr + n < addr) return;
    addr += n;
    len -= n;
  }
}

bool FuzzHost::allowed(std::uint64_t offset, std::uint64_t len, unsigned right) const {
  if (granted_ & right) return true;
  while (len != 0) {
    const Grant& g = grants_[offset / kPage];
    const std::uint64_t in_page = offset % kPage;
    const std::uint64_t n = std::min(len, kPage - in_page);
    if (!(g.rights & right) || in_page < g.begin || in_page + n > g.end) return false;
    offset += n;
    len -= n;
  }
  return true;
}

// Not instrumented for coverage: the fuzzer must not learn addresses from the comparisons here.
__attribute__((no_sanitize("coverage"))) std::span<std::byte> FuzzHost::map(std::uint64_t addr,
                                                                            std::uint64_t len,
                                                                            bool write) {
  if (len == 0) violation("a mapping of nothing", addr);
  if (!is_ram(addr, 1)) return {};
  const std::uint64_t offset = addr - kBase;
  std::uint64_t room = std::min(len, kBytes - offset);
  if (cut_pages) room = std::min(room, kPage - offset % kPage);
  if (most != 0) room = std::min(room, most);
  for (std::uint64_t p = offset / kPage; p <= (offset + room - 1) / kPage; ++p) {
    if (!holes_[p]) continue;
    if (p == offset / kPage) return {};
    room = p * kPage - offset;
    break;
  }
  if (!allowed(offset, room, write ? kWrite : kRead)) {
    violation(write ? "the device writes memory nobody gave it"
                    : "the device reads memory nobody gave it",
              addr, room);
  }
  if (write) {
    for (std::uint64_t p = offset / kPage; p <= (offset + room - 1) / kPage; ++p) dirty_.set(p);
  }
  std::byte* const at = theirs_ + offset;
  ASAN_UNPOISON_MEMORY_REGION(at, room);
  for (std::uint64_t g = offset / kGranule; g <= (offset + room - 1) / kGranule; ++g) ++held_[g];
  live_.push_back({at, static_cast<std::size_t>(room), write});
  ++outstanding_;
  return {at, static_cast<std::size_t>(room)};
}

// Mappings mostly end in the order in which they began, so the search starts after the last match.
// There may be thousands of mappings of a few bytes each.
__attribute__((no_sanitize("coverage"))) void FuzzHost::unmap(std::span<std::byte> span, bool write,
                                                              std::uint64_t written) {
  std::size_t left = live_.size();
  for (; left != 0; --left, ++next_) {
    if (next_ == live_.size()) next_ = 0;
    const Live& l = live_[next_];
    if (l.at == span.data() && l.len == span.size() && l.write == write) break;
  }
  if (left == 0) violation("an unmap of what is not mapped", span.size());
  if (written > span.size() || (!write && written != 0))
    violation("more written than mapped", written);
  live_[next_++].at = nullptr;
  if (--outstanding_ == 0) {
    live_.clear();
    next_ = 0;
  }
  // A granule stays accessible while another mapping includes it.
  const auto offset = static_cast<std::uint64_t>(span.data() - theirs_);
  for (std::uint64_t g = offset / kGranule; g <= (offset + span.size() - 1) / kGranule; ++g) {
    if (--held_[g] == 0) ASAN_POISON_MEMORY_REGION(theirs_ + g * kGranule, kGranule);
  }
}

std::uint64_t FuzzHost::random() {  // splitmix64
  std::uint64_t z = (seed_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace tern::fuzz
