// SPDX-License-Identifier: GPL-2.0-or-later
// Entries of the key table: regions, and memory windows, which are second keys to parts of regions.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/types.h"
#include "memory/page_list.h"
#include "tern_hw.hpp"

namespace tern {

// The initiator of an access: protection domain and number of its QP.
struct Accessor {
  Pdn pd;
  bool privileged = false;
  Qpn qp;
  std::uint64_t generation = 0;  // of the QP: every reset begins a new one, unique on the device
};

// An access by a key.
struct KeyRequest {
  std::uint32_t key;
  std::uint64_t addr;
  std::uint64_t length;
  std::uint32_t rights;  // TERN_ACCESS_*

  // Whether the device stores there.
  [[nodiscard]] bool writes() const {
    return rights &
           (TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_ATOMIC);
  }
};

enum class KeyKind : std::uint8_t { kVacant, kRegion, kWindow };

// What all keys have. Rights are 16 bits wide so that a region fits in a cache line.
struct MemoryKey {
  explicit MemoryKey(KeyKind k) : kind(k) {}
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  std::uint64_t offset = 0;  // of the first byte, see Region and Window
  std::uint32_t key = 0;
  Pdn pd;
  std::uint16_t access = 0;  // TERN_ACCESS_*
  KeyKind kind;
};
static_assert(TERN_ACCESS_FLUSH_PERSISTENT <= UINT16_MAX);

// `offset` counts in the page list or in all device memory.
struct Region : MemoryKey {
  Region() : MemoryKey(KeyKind::kRegion) {}
  bool open = false;
  std::uint32_t windows = 0;  // number of windows bound to it
  [[no_unique_address]] PageList pages;
  bool fast = false;      // kind FAST: REG_MR opens it and sets its variant; invalidation closes it
  std::uint32_t dmn = 0;  // its part of device memory; 0: it has a page list
};

// Work requests bind a window to a region, and invalidate it. `offset` counts in the region. Unless
// the window is bound, all members but key, PD and type are undefined.
struct Window : MemoryKey {
  Window() : MemoryKey(KeyKind::kWindow) {}
  bool bound = false;
  std::uint8_t type = 1;            // 1 or 2
  std::uint32_t region = 0;         // index of the region's key
  Qpn qp;                           // type 2: the QP that bound it,
  std::uint64_t qp_generation = 0;  // and its generation
};

// An entry of the key table. It fills a cache line, so that each check of a key reads one line of
// the table, and those of a window two: its own and its region's.
class alignas(64) KeyEntry {
 public:
  KeyEntry() : key_(KeyKind::kVacant) {}
  explicit KeyEntry(Region region) : region_(std::move(region)) {}
  explicit KeyEntry(const Window& window) : window_(window) {}
  KeyEntry(KeyEntry&& other) noexcept { take(other); }
  KeyEntry& operator=(KeyEntry&& other) noexcept {
    if (this == &other) return *this;
    drop();
    take(other);
    return *this;
  }
  ~KeyEntry() { drop(); }

  // The part that regions and windows have in common.
  [[nodiscard]] MemoryKey& key() { return key_; }
  [[nodiscard]] const MemoryKey& key() const { return key_; }
  [[nodiscard]] bool vacant() const { return key().kind == KeyKind::kVacant; }

 private:
  void take(KeyEntry& other) {
    switch (other.key().kind) {
      case KeyKind::kRegion:
        std::construct_at(&region_, std::move(other.region_));
        break;
      case KeyKind::kWindow:
        std::construct_at(&window_, other.window_);
        break;
      case KeyKind::kVacant:
        std::construct_at(&key_, KeyKind::kVacant);
        break;
    }
  }
  void drop() {
    if (key().kind == KeyKind::kRegion) std::destroy_at(&region_);
  }

  // All members begin with a MemoryKey.
  union {
    MemoryKey key_;
    Region region_;
    Window window_;
  };
};
static_assert(sizeof(KeyEntry) == 64);

inline constexpr std::uint32_t kWindowRights = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                                               TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC |
                                               TERN_ACCESS_ZERO_BASED;
// Rights of a peer to change bytes: the region must grant TERN_ACCESS_LOCAL_WRITE for them.
inline constexpr std::uint32_t kRemoteChange = TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_ATOMIC;
inline constexpr std::uint32_t kRemoteRights = kRemoteChange | TERN_ACCESS_REMOTE_READ;

}  // namespace tern
