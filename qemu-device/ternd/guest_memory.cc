// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_memory.h"

#include <algorithm>

#include "engine_host.h"

namespace tern::daemon {

namespace {

thread_local const GuestMemory* adopted = nullptr;
thread_local const Host* borrowed = nullptr;

}  // namespace

void GuestMemory::handle_sigbus() {
  struct sigaction action{};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void GuestMemory::adopt() const { adopted = this; }

void GuestMemory::borrow(const Host* lender) { borrowed = lender; }

// Async-signal-safe: no thread accesses guest memory while the adapter's writes the members that
// this reads.
void GuestMemory::on_sigbus(int, siginfo_t* info, void*) {
  const auto fault = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (adopted != nullptr && adopted->replace(fault)) return;
  if (borrowed != nullptr && static_cast<const EngineHost*>(borrowed)->memory().replace(fault))
    return;
  // Not ours: the access is repeated and ends the process.
  std::signal(SIGBUS, SIG_DFL);
}

// Replaces the whole region, because it is one mapping before and after: the process has a limit of
// mappings, and huge pages cannot be replaced in part. The hypervisor is dropped soon.
bool GuestMemory::replace(std::uintptr_t fault) const {
  const auto put_zeros = [](std::byte* at, std::size_t size, int flags) {
    constexpr int kZeros = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    return mmap(at, size, PROT_READ | PROT_WRITE, kZeros | flags, -1, 0) != MAP_FAILED;
  };
  for (const Region& region : regions_) {
    const auto start = reinterpret_cast<std::uintptr_t>(region.mapping.data());
    if (region.ptr == nullptr || fault < start || fault - start >= region.mapping.size()) continue;
    // A host that does not overcommit may refuse this size.
    std::byte* const page = region.mapping.data() + (fault - start) / region.page * region.page;
    if (!put_zeros(region.mapping.data(), region.mapping.size(), MAP_NORESERVE) &&
        !put_zeros(page, region.page, 0))
      return false;
    lost_.store(true, std::memory_order_relaxed);
    return true;
  }
  return false;
}

// A vIOMMU maps thousands of pages one by one, none of which is among the largest regions.
bool GuestMemory::add(const Region& region) {
  const auto at = std::ranges::lower_bound(regions_, region.addr, {}, &Region::addr);
  if (at != regions_.end() && at->addr == region.addr) {
    *at = region;
    return true;
  }
  regions_.insert(at, region);
  return given_.size() < Host::kMaxRams || region.len > given_.back().len;
}

bool GuestMemory::remove(std::uint64_t addr) {
  const auto at = std::ranges::lower_bound(regions_, addr, {}, &Region::addr);
  if (at != regions_.end() && at->addr == addr) regions_.erase(at);
  return std::ranges::find(given_, addr, &Host::Ram::start) != given_.end();
}

void GuestMemory::update(Host& host) {
  given_ = largest(Host::kMaxRams);
  host.set_ram(given_);
}

std::span<std::byte> GuestMemory::find(std::uint64_t addr, std::uint64_t len, bool write) const {
  if (!allowed_) return {};
  auto at = std::ranges::upper_bound(regions_, addr, {}, &Region::addr);
  if (at == regions_.begin()) return {};
  --at;
  const std::uint64_t offset = addr - at->addr;
  if (offset >= at->len || at->ptr == nullptr || !(write ? at->writable : at->readable)) return {};
  return {at->ptr + offset, static_cast<std::size_t>(std::min(len, at->len - offset))};
}

std::vector<Host::Ram> GuestMemory::largest(std::size_t limit) const {
  if (!allowed_) return {};
  std::vector<Host::Ram> rams;
  for (const Region& region : regions_) {
    if (region.ptr != nullptr && region.readable && region.writable)
      rams.push_back({region.addr, region.len, region.ptr});
  }
  const auto end = rams.begin() + static_cast<std::ptrdiff_t>(std::min(limit, rams.size()));
  std::ranges::partial_sort(rams, end, std::ranges::greater{}, &Host::Ram::len);
  rams.erase(end, rams.end());
  return rams;
}

std::uint64_t GuestMemory::bytes() const {
  std::uint64_t sum = 0;
  for (const Region& region : regions_) sum += region.len;
  return sum;
}

}  // namespace tern::daemon
