// SPDX-License-Identifier: GPL-2.0-or-later
// One interface to host and device memory: fill, change and check bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "verbs.h"

namespace guest {

// ibv_free_dm() is a static inline function; a template argument needs one with linkage.
constexpr unsigned kDmAccess = static_cast<unsigned>(kAllAccess) | IBV_ACCESS_ZERO_BASED;

// Returns an empty pointer and sets errno if the call is refused.
DmPtr try_alloc_dm(ibv_context* context, std::size_t length, std::uint32_t log_align = 0,
                   std::uint32_t comp_mask = 0);
MrPtr try_reg_dm(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                 unsigned access = kDmAccess);
// The same, but a refusal fails the test.
DmPtr alloc_dm(ibv_context* context, std::size_t length, std::uint32_t log_align = 0);
MrPtr reg_dm(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
             unsigned access = kDmAccess);
std::uint64_t max_dm_size(ibv_context* context);

// Copies by the CPU; offsets and lengths are multiples of 4.
void dm_write(ibv_dm* dm, std::uint64_t offset, std::span<const std::byte> bytes);
std::vector<std::byte> dm_read(ibv_dm* dm, std::uint64_t offset, std::size_t length);

// A range that differs from the background: a pattern, or the 8 bytes of a number.
struct Patch {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t seed = 0;
  bool number = false;      // the bytes are those of `seed` itself, in host byte order
  std::uint64_t ahead = 0;  // bytes in front of `offset` that are not checked
};
using Patches = std::span<const Patch>;

// Returns `length` bytes of the background with the patches applied.
std::vector<std::byte> image(std::size_t length, std::uint64_t background, Patches patches);
// Returns the position of the first checked byte that differs from the image.
std::optional<std::size_t> wrong_byte(std::span<const std::byte> bytes, std::uint64_t background,
                                      Patches patches);

enum class Kind : std::uint32_t { kHost, kDevice };
constexpr Kind kKinds[] = {Kind::kHost, Kind::kDevice};
const char* kind_name(Kind kind);

// The bytes of a space that its region covers; length 0: all of them.
struct Part {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// Memory of one kind with a region on all or a part of it. Addresses in a region of device memory
// start at 0, those in host memory at the memory's address.
class Space {
 public:
  explicit Space(std::unique_ptr<Memory> host);
  // `length` must be a multiple of 4.
  Space(const Device& dev, Kind kind, std::size_t length, int access = kAllAccess, Part part = {});

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::size_t length() const { return length_; }
  // Returns the address of a byte of the region, as used in an SGE or by the peer.
  [[nodiscard]] std::uint64_t address(std::uint64_t offset = 0) const { return base_ + offset; }
  [[nodiscard]] std::uint32_t lkey() const { return key_; }
  [[nodiscard]] std::uint32_t rkey() const { return rkey_; }
  [[nodiscard]] ibv_sge sge(std::uint64_t offset, std::uint32_t length) const {
    return {.addr = address(offset), .length = length, .lkey = lkey()};
  }
  // Device memory only.
  [[nodiscard]] ibv_dm* dm() const { return dm_.get(); }
  // Host memory only.
  [[nodiscard]] std::span<std::byte> bytes() const { return host_->bytes(); }
  [[nodiscard]] const Memory& memory() const { return *host_; }

  // Accesses by the CPU; offsets count from the start of the memory.
  void paint(std::uint64_t background, Patches patches = {}) const;
  void check(std::uint64_t background, Patches patches = {}) const;
  // Returns the position of the first wrong byte, if any.
  [[nodiscard]] std::optional<std::size_t> differs(std::uint64_t background, Patches patches) const;

 private:
  Kind kind_;
  std::size_t length_;
  std::uint64_t base_ = 0;
  std::uint32_t key_ = 0;
  std::uint32_t rkey_ = 0;
  std::unique_ptr<Memory> host_;
  DmPtr dm_;
  MrPtr mr_;
};

// A mapping of the device file in this process.
struct Mapping {
  std::uint64_t start;
  std::uint64_t length;
  std::uint64_t offset;  // in the file
  bool operator==(const Mapping&) const = default;
};
std::vector<Mapping> device_mappings();
// Returns the mappings in `now` that are not in `before`.
std::vector<Mapping> added(const std::vector<Mapping>& before, const std::vector<Mapping>& now);

}  // namespace guest
