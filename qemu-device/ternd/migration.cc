// SPDX-License-Identifier: GPL-2.0-or-later
#include "migration.h"

#include <algorithm>

namespace tern::daemon {

void MigrationStream::clear() {
  state_ = {};
  window_ = {};
  size_ = at_ = 0;
  filled_ = 0;
  saving_ = loading_ = false;
}

std::span<std::byte> MigrationStream::part(std::uint64_t at) {
  if (at < kHeader) return std::as_writable_bytes(std::span(&size_, 1)).subspan(at);
  at -= kHeader;
  if (at < size_) return std::span(state_).subspan(at);
  return dm_.subspan(at - size_);
}

// ---- reading ----

void MigrationStream::save(std::vector<std::byte> state) {
  clear();
  state_ = std::move(state);
  size_ = state_.size();
  window_.resize(kWindow);
  saving_ = true;
}

std::uint64_t MigrationStream::left() { return saving_ ? kHeader + size_ + dm_.size() - at_ : 0; }

std::size_t MigrationStream::fill() {
  filled_ = 0;
  while (filled_ < kWindow && left() != 0) {
    std::span<const std::byte> from = part(at_);
    from = from.first(std::min(from.size(), kWindow - filled_));
    std::ranges::copy(from, window_.begin() + static_cast<std::ptrdiff_t>(filled_));
    filled_ += from.size();
    at_ += from.size();
  }
  return filled_;
}

bool MigrationStream::read(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset > filled_ || to.size() > filled_ - offset) return false;
  std::ranges::copy(std::span(window_).subspan(offset, to.size()), to.begin());
  return true;
}

// ---- writing ----

void MigrationStream::load() {
  clear();
  window_.resize(kWindow);
  loading_ = true;
}

bool MigrationStream::write(std::uint64_t offset, std::span<const std::byte> from) {
  if (!loading_ || offset > kWindow || from.size() > kWindow - offset) return false;
  std::ranges::copy(from, window_.begin() + static_cast<std::ptrdiff_t>(offset));
  return true;
}

bool MigrationStream::take(std::uint64_t count) {
  if (!loading_ || count > kWindow) return false;
  if (append(std::span(window_).first(count))) return true;
  clear();  // nothing may follow
  return false;
}

bool MigrationStream::append(std::span<const std::byte> from) {
  while (!from.empty()) {
    if (at_ == kHeader + size_ + dm_.size() && at_ >= kHeader) return false;
    // The state grows as it comes: a size alone takes no memory.
    if (at_ >= kHeader && at_ < kHeader + size_)
      state_.resize(std::min<std::uint64_t>(size_, at_ - kHeader + from.size()));
    const std::span<std::byte> to = part(at_);
    const std::size_t n = std::min(to.size(), from.size());
    std::ranges::copy(from.first(n), to.begin());
    from = from.subspan(n);
    at_ += n;
    if (at_ == kHeader && size_ > kMostState) return false;
  }
  return true;
}

}  // namespace tern::daemon
