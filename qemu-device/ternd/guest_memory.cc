// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_memory.h"

#include <unistd.h>

#include <algorithm>

namespace tern::daemon {

namespace {

thread_local const GuestMemory* adopted = nullptr;

}  // namespace

void GuestMemory::handle_sigbus() {
  struct sigaction action {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void GuestMemory::adopt() const { adopted = this; }

// Async-signal-safe: the thread itself is the only writer of what this reads, and does not access
// guest memory while it writes.
void GuestMemory::on_sigbus(int, siginfo_t* info, void*) {
  const auto fault = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (adopted != nullptr && adopted->replace_page(fault)) return;
  // Not ours: the access is repeated and ends the process.
  std::signal(SIGBUS, SIG_DFL);
}

bool GuestMemory::replace_page(std::uintptr_t fault) const {
  for (const Region& region : regions_) {
    const auto start = reinterpret_cast<std::uintptr_t>(region.ptr);
    if (region.ptr == nullptr || fault < start || fault - start >= region.len) continue;
    const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    // A file of huge pages takes a whole huge page: then this fails, and the process ends.
    std::byte* const page = region.ptr + (fault - start) - fault % size;
    if (mmap(page, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) return false;
    lost_ = 1;
    return true;
  }
  return false;
}

void GuestMemory::add(const Region& region) {
  const auto at = std::ranges::lower_bound(regions_, region.addr, {}, &Region::addr);
  if (at != regions_.end() && at->addr == region.addr) {
    *at = region;
  } else {
    regions_.insert(at, region);
  }
}

void GuestMemory::remove(std::uint64_t addr) {
  const auto at = std::ranges::lower_bound(regions_, addr, {}, &Region::addr);
  if (at != regions_.end() && at->addr == addr) regions_.erase(at);
}

void GuestMemory::tell(TernEngine* engine) const {
  const std::vector<TernRam> rams = largest(TERN_MAX_RAM);
  tern_engine_set_ram(engine, rams.data(), rams.size());
}

std::span<std::byte> GuestMemory::find(std::uint64_t addr, std::uint64_t len, bool write) const {
  if (!allowed_) return {};
  auto at = std::ranges::upper_bound(regions_, addr, {}, &Region::addr);
  if (at == regions_.begin()) return {};
  --at;
  const std::uint64_t offset = addr - at->addr;
  if (offset >= at->len || at->ptr == nullptr || (write && !at->writable)) return {};
  return {at->ptr + offset, static_cast<std::size_t>(std::min(len, at->len - offset))};
}

std::vector<TernRam> GuestMemory::largest(std::size_t limit) const {
  if (!allowed_) return {};
  std::vector<TernRam> rams;
  for (const Region& region : regions_) {
    if (region.ptr != nullptr && region.writable) rams.push_back({region.addr, region.len, region.ptr});
  }
  // A vIOMMU maps thousands of pages one by one: no full sort for each.
  const auto end = rams.begin() + static_cast<std::ptrdiff_t>(std::min(limit, rams.size()));
  std::ranges::partial_sort(rams, end, std::ranges::greater{}, &TernRam::len);
  rams.erase(end, rams.end());
  return rams;
}

std::uint64_t GuestMemory::bytes() const {
  std::uint64_t sum = 0;
  for (const Region& region : regions_) sum += region.len;
  return sum;
}

}  // namespace tern::daemon
