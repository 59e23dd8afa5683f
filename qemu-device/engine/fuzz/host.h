// SPDX-License-Identifier: GPL-2.0-or-later
// The Host of the fuzzers: a small RAM that records what the device may access.
//
// Three checks detect a forbidden access. A map() outside the grants stops the run. The engine sees
// the RAM through its own view, in which AddressSanitizer poisons everything that is not mapped. A
// mapping that outlives the call that made it stops the run, too. The engine does not map device
// memory: AddressSanitizer poisons all of it except the granted parts.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "core/host.h"

namespace tern::fuzz {

// Prints the reason and aborts, which the fuzzer reports as a crash.
[[noreturn]] void violation(const char* why, std::uint64_t a = 0, std::uint64_t b = 0);

class FuzzHost final : public Host {
 public:
  static constexpr std::uint64_t kBase = 0x1'0000'0000;
  static constexpr std::uint64_t kPage = 4096;
  static constexpr unsigned kPages = 128;
  static constexpr std::uint64_t kBytes = kPage * kPages;

  static constexpr std::uint64_t kDmBytes = 16 * kPage;

  static constexpr unsigned kRead = 1;
  static constexpr unsigned kWrite = 2;

  FuzzHost();
  ~FuzzHost() override;
  FuzzHost(const FuzzHost&) = delete;
  FuzzHost& operator=(const FuzzHost&) = delete;

  // Returns to zeroed RAM without grants. The cost depends on the pages used before.
  void restart();

  [[nodiscard]] static constexpr std::uint64_t page(unsigned n) { return kBase + n * kPage; }
  // Whether [addr, addr + len) is RAM. Holes count as RAM.
  [[nodiscard]] static bool is_ram(std::uint64_t addr, std::uint64_t len) {
    return addr >= kBase && addr - kBase <= kBytes && len <= kBytes - (addr - kBase);
  }
  // Software's view of the RAM. Outside RAM, stores have no effect and get() returns zeros.
  void store(std::uint64_t addr, std::span<const std::byte> bytes);
  void load(std::uint64_t addr, std::span<std::byte> bytes) const;
  template <class T>
  void put(std::uint64_t addr, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    store(addr, std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  [[nodiscard]] T get(std::uint64_t addr) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    load(addr, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  // Allows accesses to [addr, addr + len). Each page has one granted range, which grows to include
  // the new one and everything between. Parts outside RAM are ignored.
  void grant(std::uint64_t addr, std::uint64_t len, unsigned rights);
  void grant_reads() { granted_ |= kRead; }
  void grant_all() { granted_ = kRead | kWrite; }
  // Device memory: forbids all of it, allows one more part, or allows all of it.
  [[nodiscard]] std::span<std::byte> dm() { return dm_; }
  void close_dm();
  void grant_dm(std::uint64_t offset, std::uint64_t len);
  void open_dm() { grant_dm(0, kDmBytes); }
  // Holes: pages that are not RAM for the device.
  void punch(unsigned page) { holes_.set(page % kPages); }
  void restore(unsigned page) { holes_.reset(page % kPages); }
  void restore_all() { holes_.reset(); }

  Nanos clock = 1'000'000;
  bool cut_pages = false;  // no mapping crosses a page, as with a bounce buffer
  std::uint64_t most = 0;  // maximum length of a mapping; 0: no limit
  [[nodiscard]] std::size_t outstanding() const { return outstanding_; }

  std::span<std::byte> map(std::uint64_t addr, std::uint64_t len, bool write) override;
  void unmap(std::span<std::byte> span, bool write, std::uint64_t written) override;
  void ram_written(std::span<std::byte>) override {}  // there is no known RAM
  void dm_written(std::span<std::byte> span) override;
  Nanos now() override { return clock; }
  std::uint64_t random() override;

 private:
  struct Grant {
    std::uint16_t begin = 0;
    std::uint16_t end = 0;
    std::uint8_t rights = 0;
  };
  static constexpr std::uint64_t kGranule = 8;  // granularity of ASan
  struct Live {
    std::byte* at;  // null: unmapped
    std::size_t len;
    bool write;
  };
  [[nodiscard]] bool allowed(std::uint64_t offset, std::uint64_t len, unsigned right) const;

  std::byte* mine_ = nullptr;    // software's view
  std::byte* theirs_ = nullptr;  // the device's view of the same memory
  std::vector<std::byte> dm_ = std::vector<std::byte>(kDmBytes);
  std::array<Grant, kPages> grants_{};
  std::bitset<kPages> holes_;
  std::bitset<kPages> dirty_;
  std::vector<Live> live_;  // in the order of mapping
  std::size_t next_ = 0;    // index in live_ where unmap() starts to search
  std::size_t outstanding_ = 0;
  std::array<std::uint16_t, kBytes / kGranule> held_{};  // number of mappings of each granule
  std::uint64_t seed_ = 1;
  unsigned granted_ = 0;  // rights to all of the RAM
};

}  // namespace tern::fuzz
