// SPDX-License-Identifier: GPL-2.0-or-later
// The function's PCI Express config space: its contents, and which bits software may change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tern::daemon {

class ConfigSpace {
 public:
  static constexpr std::size_t kSize = 4096;

  struct Options {
    std::uint64_t uar_size = 0;    // of BAR2, a power of two
    std::uint64_t dm_size = 0;     // of BAR4, a power of two; 0: none
    std::uint32_t vectors = 0;     // of MSI-X
    std::uint32_t link_speed = 0;  // encoded as in the Link Capabilities Register
  };
  explicit ConfigSpace(const Options& options);

  // Any range within kSize.
  void read(std::size_t at, std::span<std::byte> to) const;
  // Changes the bits that may change. Returns true if the function must be reset (FLR).
  bool write(std::size_t at, std::span<const std::byte> from);
  // The values after a reset.
  void reset();
  [[nodiscard]] std::span<const std::byte, kSize> contents() const { return value_; }
  // Takes the bits that may change from another function's contents.
  void load(std::span<const std::byte, kSize> contents);

  [[nodiscard]] bool bus_master() const;
  // Power state D0.
  [[nodiscard]] bool awake() const;

 private:
  void set16(std::size_t at, std::uint16_t value, std::uint16_t writable = 0,
             std::uint16_t clearable = 0);
  void set32(std::size_t at, std::uint32_t value, std::uint32_t writable = 0);
  void add_bar(unsigned index, std::uint64_t size, std::uint32_t flags);
  void add_capabilities(const Options& options);
  [[nodiscard]] std::byte writable(std::size_t at, std::byte value) const;

  std::array<std::byte, kSize> value_{};
  std::array<std::byte, kSize> initial_{};
  std::array<std::byte, kSize> writable_{};   // bits that can be written
  std::array<std::byte, kSize> clearable_{};  // bits that a written 1 clears
};

}  // namespace tern::daemon
