// SPDX-License-Identifier: GPL-2.0-or-later
// The Host of the fuzzers: a little RAM that knows what of it the device may touch.
//
// Three nets catch an access that nothing allows: a map() outside what was granted stops the
// run; the engine sees the RAM through a view of its own, which AddressSanitizer guards but for what is
// mapped at the moment; and a mapping that outlives the call it was made in stops the run, too.
// Device memory, which the engine does not map, AddressSanitizer guards but for what was granted.
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

// Says why and stops: what the fuzzer reports as a crash.
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

  // Back to zeroed RAM that nothing is granted of. What was used before decides what it costs.
  void restart();

  [[nodiscard]] static constexpr std::uint64_t page(unsigned n) { return kBase + n * kPage; }
  // Whether [addr, addr + len) is RAM: holes do not count here.
  [[nodiscard]] static bool is_ram(std::uint64_t addr, std::uint64_t len) {
    return addr >= kBase && addr - kBase <= kBytes && len <= kBytes - (addr - kBase);
  }
  // Software's own view of the RAM; what is not RAM reads zeros and takes no write.
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

  // Allows accesses to [addr, addr + len) and what was granted of the same pages before, and all
  // between them. Parts outside RAM are ignored.
  void grant(std::uint64_t addr, std::uint64_t len, unsigned rights);
  void grant_reads() { granted_ |= kRead; }
  void grant_all() { granted_ = kRead | kWrite; }
  // Device memory: nothing of it, a part besides, or all of it is the device's to touch.
  [[nodiscard]] std::span<std::byte> dm() { return dm_; }
  void close_dm();
  void grant_dm(std::uint64_t offset, std::uint64_t len);
  void open_dm() { grant_dm(0, kDmBytes); }
  // Pages that are not RAM for the device now.
  void punch(unsigned page) { holes_.set(page % kPages); }
  void mend(unsigned page) { holes_.reset(page % kPages); }
  void mend_all() { holes_.reset(); }

  Nanos clock = 1'000'000;
  bool cut_pages = false;  // no mapping crosses a page, as with bounce buffers
  std::uint64_t most = 0;  // bytes of a mapping; 0: no limit
  [[nodiscard]] std::size_t outstanding() const { return outstanding_; }

  std::span<std::byte> map(std::uint64_t addr, std::uint64_t len, bool write) override;
  void unmap(std::span<std::byte> span, bool write, std::uint64_t written) override;
  void ram_written(std::span<std::byte>) override {}  // none is told of
  void dm_written(std::span<std::byte> span) override;
  Nanos now() override { return clock; }
  std::uint64_t random() override;

 private:
  struct Grant {
    std::uint16_t begin = 0;
    std::uint16_t end = 0;
    std::uint8_t rights = 0;
  };
  static constexpr std::uint64_t kGranule = 8;  // what ASan tells apart
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
  std::size_t next_ = 0;    // of live_: where unmap() looks first
  std::size_t outstanding_ = 0;
  std::array<std::uint16_t, kBytes / kGranule> held_{};  // mappings of each granule
  std::uint64_t seed_ = 1;
  unsigned granted_ = 0;  // of all of it
};

}  // namespace tern::fuzz
