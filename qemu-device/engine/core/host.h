// SPDX-License-Identifier: GPL-2.0-or-later
// The host interface of the engine, which calls it on the thread that called the device.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/types.h"

namespace tern {

// Filters the device's accesses to host memory while faults are injected.
class DmaGate {
 public:
  virtual ~DmaGate() = default;
  // Returns how many of `len` bytes from `addr` may be mapped now; 0: treat the address as not RAM.
  virtual std::uint64_t reachable(std::uint64_t addr, std::uint64_t len, bool write) = 0;
};

class Host {
 public:
  virtual ~Host() = default;
  // The engine maps memory only through reach(), which applies the gate and uses known RAM or else
  // map(). release() ends the mapping.
  std::span<std::byte> reach(std::uint64_t addr, std::uint64_t len, bool write) {
    if (gate != nullptr) [[unlikely]] {
      len = gate->reachable(addr, len, write);
      if (len == 0) return {};
    }
    for (const Ram& ram : std::span(ram_).first(rams_)) {
      if (const std::uint64_t at = addr - ram.start; at < ram.len) {
        return {ram.base + at, static_cast<std::size_t>(std::min(len, ram.len - at))};
      }
    }
    const auto span = map(addr, len, write);
    // Known RAM at another DMA address. release() cannot tell the two addresses apart, so unmap it
    // now and treat it as known RAM, which stays where it is.
    if (const Ram* const ram = ram_at(span)) [[unlikely]] {
      unmap(span, write, 0);
      return span.first(static_cast<std::size_t>(std::min<std::uint64_t>(
          span.size(), ram->len - static_cast<std::uint64_t>(span.data() - ram->base))));
    }
    return span;
  }
  void release(std::span<std::byte> span, bool write, std::uint64_t written) {
    if (ram_at(span) == nullptr) return unmap(span, write, written);
    if (written != 0) ram_written(span.first(static_cast<std::size_t>(written)));
  }
  DmaGate* gate = nullptr;

  // RAM that needs no map(): at most kMaxRams pieces, which replace those of the previous call.
  // Nothing may be mapped during set_ram().
  struct Ram {
    std::uint64_t start;  // DMA address
    std::uint64_t len;
    std::byte* base;
  };
  static constexpr std::size_t kMaxRams = 4;
  void set_ram(std::span<const Ram> rams) {
    rams_ = rams.size();
    std::ranges::copy(rams, ram_.begin());
  }

  // Maps up to `len` bytes at DMA address `addr`; returns an empty span if it is not RAM. `write`:
  // the device is going to store. Several mappings may exist at a time.
  virtual std::span<std::byte> map(std::uint64_t addr, std::uint64_t len, bool write) = 0;
  // Ends a mapping. The device stored to its first `written` bytes.
  virtual void unmap(std::span<std::byte> span, bool write, std::uint64_t written) = 0;
  // The device has stored to these bytes of known RAM.
  virtual void ram_written(std::span<std::byte> span) = 0;
  // The device has stored to these bytes of device memory.
  virtual void dm_written(std::span<std::byte> span) = 0;
  // Monotonic device clock.
  virtual Nanos now() = 0;
  // 64 random bits, for the variants of keys.
  virtual std::uint64_t random() = 0;
  // Keeps all lanes but lane 0 out of the device until start_lanes(). Called in lane 0, once at a
  // time, and only by a device with several lanes. A host without threads has nothing to do.
  virtual void stop_lanes() {}
  virtual void start_lanes() {}

 private:
  // The known RAM that contains the first byte of `span`; null if there is none.
  [[nodiscard]] const Ram* ram_at(std::span<const std::byte> span) const {
    for (const Ram& ram : std::span(ram_).first(rams_)) {
      // If the piece does not contain it, the difference is at least ram.len.
      if (reinterpret_cast<std::uintptr_t>(span.data()) -
              reinterpret_cast<std::uintptr_t>(ram.base) <
          ram.len)
        return &ram;
    }
    return nullptr;
  }

  std::array<Ram, kMaxRams> ram_{};
  std::size_t rams_ = 0;
};

// Copy between DMA address space and engine memory. Return false if an address is not RAM.
[[nodiscard]] bool dma_read(Host& host, std::uint64_t addr, std::span<std::byte> to);
[[nodiscard]] bool dma_write(Host& host, std::uint64_t addr, std::span<const std::byte> from);

class SharedPayload;

// A list of mapped pieces of memory that form one byte sequence. clear() unmaps the pieces and
// keeps the list's storage, so a long-lived list does not allocate.
class SpanList {
 public:
  explicit SpanList(Host& host) : host_(&host) { pieces_.reserve(40); }
  ~SpanList() { clear(); }
  SpanList(const SpanList&) = delete;
  SpanList& operator=(const SpanList&) = delete;

  enum class Origin : std::uint8_t { kMapped, kPlain, kDevice };
  struct Piece {
    std::span<std::byte> bytes;
    Origin origin;
    bool write;
  };

  // Appends [addr, addr + len) of DMA space. Returns false and appends nothing if it is not RAM.
  [[nodiscard]] bool append_dma(std::uint64_t addr, std::uint64_t len, bool write);
  // Appends device memory.
  void append_device(std::span<std::byte> bytes, bool write);
  // Appends the engine's own memory (a received frame, inline data).
  void append_plain(std::span<std::byte> bytes);
  void append_plain(std::span<const std::byte> bytes);  // never written: source lists only
  // Makes the payload the content of an empty list, which is a source list without pieces.
  void refer_to(SharedPayload& payload);

  // Unmaps everything; reports pieces mapped for writing as written in full.
  void clear();
  // Unmaps everything; reports nothing as written.
  void abandon();

  [[nodiscard]] const Host& host() const { return *host_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::span<const Piece> pieces() const { return pieces_; }

  void copy_to(std::span<std::byte> to) const;  // to.size() <= size()
  // Both store the last byte last (core/ordered_copy.h).
  void copy_from(std::span<const std::byte> from);  // from.size() <= size()
  // Copies from list to list, as many bytes as the shorter one has; the two may overlap.
  static void copy(const SpanList& from, SpanList& to);

 private:
  void release(bool touched);
  template <class Use>
  void with_pieces(Use use) const;
  Host* host_;
  std::vector<Piece> pieces_;
  SharedPayload* shared_ = nullptr;
  std::uint64_t size_ = 0;
};

// Operations on the word at `p` in CPU byte order; atomic if it is aligned, also with respect to
// guest CPUs. The 64-bit operations return the old value.
std::uint64_t atomic_fetch_add(std::byte* p, std::uint64_t add);
std::uint64_t atomic_compare_swap(std::byte* p, std::uint64_t compare, std::uint64_t swap);
void store_release32(std::byte* p, std::uint32_t value);
void store_release64(std::byte* p, std::uint64_t value);
[[nodiscard]] std::uint32_t load_acquire32(const std::byte* p);

}  // namespace tern
