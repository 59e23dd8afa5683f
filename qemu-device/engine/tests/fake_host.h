// SPDX-License-Identifier: GPL-2.0-or-later
// A Host for unit tests: RAM with holes, a clock that only the test advances, seeded random
// numbers, and a count of all mappings. Misuse fails the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/host.h"

namespace tern {

class FakeHost : public Host {
 public:
  static constexpr std::uint64_t kBase = 0x1'0000'0000;  // first address from alloc()
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kArena = 0x1'0000'0000'0000;
  static constexpr std::uint64_t kDm = 0xd0'0000'0000;  // address of device memory for tests

  explicit FakeHost(std::uint64_t seed = 1) : seed_(seed) {}
  ~FakeHost() override { EXPECT_EQ(outstanding(), 0U) << "mappings left behind"; }

  // ---- memory ----
  // Returns zeroed RAM of `len` bytes at a new address, followed by `gap` unmapped bytes.
  std::uint64_t alloc(std::uint64_t len, std::uint64_t align = kPage, std::uint64_t gap = kPage) {
    const std::uint64_t addr = (next_ + align - 1) & ~(align - 1);
    next_ = ((addr + len + kPage - 1) & ~(kPage - 1)) + gap;
    if (arena_) {
      EXPECT_LE(next_, kArena + arena_len_) << "the arena is too small";
    } else {
      add_ram(addr, len);
    }
    return addr;
  }
  // For benchmarks: from now on alloc() takes memory from one piece of `len` bytes, whose mappings
  // are not counted.
  void use_arena(std::uint64_t len) {
    arena_.reset(static_cast<std::byte*>(std::calloc(1, len)));
    // Large pages, as QEMU has for guest memory. Everything works without them, only more slowly.
    constexpr std::uintptr_t kHuge = 2 << 20;
    const std::uintptr_t start =
        (reinterpret_cast<std::uintptr_t>(arena_.get()) + kHuge - 1) & ~(kHuge - 1);
    (void)madvise(reinterpret_cast<void*>(start), len - kHuge, MADV_HUGEPAGE);
    arena_len_ = len;
    next_ = kArena;
    const Host::Ram all{kArena, len, arena_.get()};
    set_ram({&all, 1});
  }
  // Zeroed RAM at a given address; must not overlap other RAM.
  void add_ram(std::uint64_t addr, std::uint64_t len) {
    // calloc: untouched pages cost nothing, so tests may allocate generously.
    Ram ram{len, {static_cast<std::byte*>(std::calloc(1, len ? len : 1)), &std::free}};
    ram_.emplace(addr, std::move(ram));
  }
  // Zeroed device memory. at() finds it at kDm, map() does not.
  std::span<std::byte> make_dm(std::uint64_t len) {
    add_ram(kDm, len);
    punch(kDm, len);
    return {at(kDm, len), len};
  }
  // punch() makes [addr, addr + len) not RAM; restore() undoes that.
  void punch(std::uint64_t addr, std::uint64_t len) { holes_[addr] = len; }
  void restore(std::uint64_t addr) { holes_.erase(addr); }

  // The test's view: ignores holes and is not counted.
  [[nodiscard]] std::byte* at(std::uint64_t addr, std::uint64_t len = 1) {
    if (addr - kArena < arena_len_) return arena_.get() + (addr - kArena);
    auto it = ram_.upper_bound(addr);
    if (it == ram_.begin()) return nullptr;
    --it;
    const std::uint64_t offset = addr - it->first;
    if (offset > it->second.len || it->second.len - offset < len) return nullptr;
    return it->second.bytes.get() + offset;
  }
  template <class T>
  [[nodiscard]] T get(std::uint64_t addr) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::byte* p = at(addr, sizeof(T));
    EXPECT_NE(p, nullptr) << "no RAM at " << addr;
    if (p) std::memcpy(&value, p, sizeof(T));
    return value;
  }
  template <class T>
  void put(std::uint64_t addr, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::byte* p = at(addr, sizeof(T));
    ASSERT_NE(p, nullptr) << "no RAM at " << addr;
    std::memcpy(p, &value, sizeof(T));
  }

  // ---- settings of the test ----
  std::uint64_t short_span = 0;      // maximum length of a mapping; 0: no limit
  bool bounce_pages = false;         // no mapping crosses a 4 KiB boundary
  std::uint64_t write_only = 0;      // address in a write-only page; 0: none
  std::uint64_t fail_maps_from = 0;  // mappings from this number (1 or more) on fail; 0: none
  Nanos clock = 1'000'000;
  unsigned clock_reads = 0;
  bool real_clock = false;  // for benchmarks: now() costs what it costs in a real host
  void advance(Nanos by) { clock += by; }
  std::function<void(std::byte*)> stored;  // called after the device has stored to a mapping
  bool hash_stores = false;                // compute `stores`

  // ---- results for the test ----
  std::uint64_t maps = 0;     // successful mappings
  std::uint64_t refused = 0;  // failed mappings
  std::uint64_t unmaps = 0;
  std::uint64_t bytes_written = 0;      // reported to unmap()
  std::uint64_t ram_bytes_written = 0;  // reported to ram_written()
  std::uint64_t dm_bytes_written = 0;   // reported to dm_written()
  std::uint64_t stores = 0;             // hash of the device's stores and their times, in order
  [[nodiscard]] std::size_t outstanding() const { return live_.size(); }

  // ---- Host ----
  std::span<std::byte> map(std::uint64_t addr, std::uint64_t len, bool write) override {
    EXPECT_GT(len, 0U) << "map of nothing";
    std::uint64_t room = ram_at(addr);
    const bool unreadable = write_only != 0 && !write && addr / kPage == write_only / kPage;
    if (room == 0 || len == 0 || unreadable ||
        (fail_maps_from && maps + refused + 1 >= fail_maps_from)) {
      ++refused;
      return {};
    }
    room = std::min(room, len);
    if (short_span) room = std::min(room, short_span);
    if (bounce_pages) room = std::min(room, kPage - addr % kPage);
    ++maps;
    std::byte* const p = at(addr, room);
    live_.emplace(p, Live{room, write});
    return {p, room};
  }
  void unmap(std::span<std::byte> span, bool write, std::uint64_t written) override {
    ++unmaps;
    bytes_written += written;
    EXPECT_LE(written, span.size());
    EXPECT_TRUE(write || written == 0) << "a read-only mapping was written";
    const auto [first, last] = live_.equal_range(span.data());
    const auto it = std::find_if(first, last, [&](const auto& m) {
      return m.second.len == span.size() && m.second.write == write;
    });
    if (it == last) {
      ADD_FAILURE() << "unmap of what was not mapped";
      return;
    }
    live_.erase(it);
    if (hash_stores && written != 0) add_store(span.first(written));
    if (stored && written != 0) stored(span.data());
  }
  void ram_written(std::span<std::byte> span) override { ram_bytes_written += span.size(); }
  void dm_written(std::span<std::byte> span) override { dm_bytes_written += span.size(); }
  Nanos now() override {
    ++clock_reads;
    if (!real_clock) return clock;
    return static_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  void set_seed(std::uint64_t seed) { seed_ = seed; }
  std::uint64_t random() override {  // splitmix64
    std::uint64_t z = (seed_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  struct Ram {
    std::uint64_t len;
    std::unique_ptr<std::byte, decltype(&std::free)> bytes;
  };
  struct Live {
    std::uint64_t len;
    bool write;
  };

  void add_store(std::span<const std::byte> bytes) {  // FNV-1a
    constexpr std::uint64_t kPrime = 0x100000001b3;
    stores = (stores ^ clock) * kPrime;
    for (const std::byte b : bytes) stores = (stores ^ std::to_integer<std::uint64_t>(b)) * kPrime;
  }

  // Bytes of RAM from `addr` to the end of its piece or the next hole.
  std::uint64_t ram_at(std::uint64_t addr) {
    auto it = ram_.upper_bound(addr);
    if (it == ram_.begin()) return 0;
    --it;
    const std::uint64_t offset = addr - it->first;
    if (offset >= it->second.len) return 0;
    std::uint64_t room = it->second.len - offset;
    for (const auto& [start, len] : holes_) {
      if (addr >= start && addr - start < len) return 0;
      if (start > addr) room = std::min(room, start - addr);
    }
    return room;
  }

  std::unique_ptr<std::byte, decltype(&std::free)> arena_{nullptr, &std::free};
  std::uint64_t arena_len_ = 0;
  std::map<std::uint64_t, Ram> ram_;
  std::map<std::uint64_t, std::uint64_t> holes_;
  std::multimap<std::byte*, Live> live_;
  std::uint64_t next_ = kBase;
  std::uint64_t seed_;
};

}  // namespace tern
