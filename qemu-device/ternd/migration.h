// SPDX-License-Identifier: GPL-2.0-or-later
// What a migration carries of an adapter: the size of its state, the state, and the device memory.
// A hypervisor reads and writes it through a window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace tern::daemon {

class MigrationStream {
 public:
  static constexpr std::size_t kWindow = std::size_t{1} << 20;
  // Limit of the state that a hypervisor can write.
  static constexpr std::size_t kMostState = std::size_t{64} << 20;

  explicit MigrationStream(std::span<std::byte> dm) : dm_(dm) {}

  // ---- reading ----

  // Makes the state the content.
  void save(std::vector<std::byte> state);
  // Returns the number of bytes that were not in the window yet.
  [[nodiscard]] std::uint64_t left();
  // Puts the next bytes into the window; returns their number.
  std::size_t fill();
  // Reads the window. Returns false beyond its content.
  [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> to) const;

  // ---- writing ----

  void load();
  // Writes the window. Returns false beyond its end.
  [[nodiscard]] bool write(std::uint64_t offset, std::span<const std::byte> from);
  // Takes the first bytes of the window. Returns false if that are too many: the content is wrong,
  // and nothing may follow.
  [[nodiscard]] bool take(std::uint64_t count);
  [[nodiscard]] bool loading() const { return loading_; }
  // Whether all has been written.
  [[nodiscard]] bool complete() const { return loading_ && at_ == kHeader + size_ + dm_.size(); }
  [[nodiscard]] std::span<const std::byte> state() const { return state_; }

  void clear();

 private:
  static constexpr std::uint64_t kHeader = sizeof(std::uint64_t);

  // Returns the content at a position, to the end of its part.
  [[nodiscard]] std::span<std::byte> part(std::uint64_t at);
  [[nodiscard]] bool append(std::span<const std::byte> from);

  std::span<std::byte> dm_;
  std::uint64_t size_ = 0;        // bytes of the whole state
  std::vector<std::byte> state_;  // while it is written, as much as there is
  std::vector<std::byte> window_;
  std::uint64_t at_ = 0;    // position behind the window
  std::size_t filled_ = 0;  // bytes of the window
  bool saving_ = false;
  bool loading_ = false;
};

}  // namespace tern::daemon
