// SPDX-License-Identifier: GPL-2.0-or-later
// The event log (Documentation/spec/event-log.rst): a ring of records with one writer, the engine,
// and one reader in any thread. Neither blocks. Events that find the ring full are lost, and a
// record reports their number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/host.h"
#include "tern_hw.hpp"

namespace tern {

// tern_log_event without its time, in host byte order.
struct LogEvent {
  std::uint8_t type = 0;  // TERN_LOG_*
  std::uint8_t code = 0;
  std::uint16_t flags = 0;
  std::uint32_t qpn = 0;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  std::uint32_t key = 0;
  std::uint32_t index = 0;
  std::uint32_t value = 0;
  std::uint32_t detail = 0;
};

class EventLog {
 public:
  // `records`: a power of two, at least 2.
  EventLog(Host& host, std::size_t records);
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  [[gnu::noinline]] void add(const LogEvent& event);

  // ---- the reader ----

  // The oldest records, up to the end of the ring. They stay until taken().
  [[nodiscard]] std::span<const tern_log_event> records() const;
  void taken(std::size_t records);
  // Records lost since the last record that reports losses.
  [[nodiscard]] std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool has_room(std::uint64_t records);
  void put(const LogEvent& event);

  Host& host_;
  const std::uint64_t size_;
  const std::unique_ptr<tern_log_event[]> ring_;
  std::atomic<std::uint64_t> lost_ = 0;
  std::uint64_t seen_head_ = 0;
  // Indices never wrap. Each is written by one side, so they have a cache line each.
  alignas(64) std::atomic<std::uint64_t> tail_ = 0;
  alignas(64) std::atomic<std::uint64_t> head_ = 0;
};

}  // namespace tern
