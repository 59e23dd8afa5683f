// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects/record.h"

namespace tern {

namespace {

template <class T, void (*Store)(std::byte*, T)>
bool dma_store(Host& host, std::uint64_t addr, T value) {
  value = le(value);
  const auto span = host.reach(addr, sizeof(value), true);
  if (span.size() == sizeof(value)) {
    Store(span.data(), value);
    host.release(span, true, sizeof(value));
    return true;
  }
  // The host's mapping splits the word, so the store cannot be atomic.
  if (!span.empty()) host.release(span, true, 0);
  return dma_write(host, addr, std::as_bytes(std::span(&value, 1)));
}

}  // namespace

bool dma_store32(Host& host, std::uint64_t addr, std::uint32_t value) {
  return dma_store<std::uint32_t, store_release32>(host, addr, value);
}

bool dma_store64(Host& host, std::uint64_t addr, std::uint64_t value) {
  return dma_store<std::uint64_t, store_release64>(host, addr, value);
}

bool Record::store32(Host& host, std::size_t offset, std::uint32_t value) const {
  return dma_store32(host, addr_ + offset, value);
}

std::optional<std::uint32_t> Record::load_pieces(Host& host, std::size_t offset,
                                                 std::span<std::byte> first) const {
  if (!first.empty()) host.release(first, false, 0);
  std::uint32_t value;
  if (!dma_read(host, addr_ + offset, std::as_writable_bytes(std::span(&value, 1)))) {
    return std::nullopt;
  }
  return le(value);
}

}  // namespace tern
