// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/event_log.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace tern {

EventLog::EventLog(Host& host, std::size_t records)
    : host_(host),
      size_(records),
      ring_(std::make_unique_for_overwrite<tern_log_event[]>(records)) {
  assert(std::has_single_bit(records) && records >= 2);
}

bool EventLog::has_room(std::uint64_t records) {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (size_ - (tail - seen_head_) >= records) return true;
  seen_head_ = head_.load(std::memory_order_acquire);
  return size_ - (tail - seen_head_) >= records;
}

void EventLog::put(const LogEvent& e) {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  ring_[tail & (size_ - 1)] = {.time = le(std::uint64_t{host_.now()}),
                               .type = e.type,
                               .code = e.code,
                               .flags = le(e.flags),
                               .qpn = le(e.qpn),
                               .addr = le(e.addr),
                               .length = le(e.length),
                               .key = le(e.key),
                               .index = le(e.index),
                               .value = le(e.value),
                               .detail = le(e.detail)};
  tail_.store(tail + 1, std::memory_order_release);
}

void EventLog::add(const LogEvent& event) {
  const std::uint64_t lost = lost_.load(std::memory_order_relaxed);
  if (!has_room(lost == 0 ? 1 : 2)) [[unlikely]]
    return lost_.store(lost + 1, std::memory_order_relaxed);
  if (lost != 0) [[unlikely]] {
    put({.type = TERN_LOG_LOST, .length = lost});
    lost_.store(0, std::memory_order_relaxed);
  }
  put(event);
}

std::span<const tern_log_event> EventLog::records() const {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const std::uint64_t at = head & (size_ - 1);
  const std::uint64_t records = tail_.load(std::memory_order_acquire) - head;
  return {&ring_[at], static_cast<std::size_t>(std::min(records, size_ - at))};
}

void EventLog::taken(std::size_t records) {
  head_.store(head_.load(std::memory_order_relaxed) + records, std::memory_order_release);
}

}  // namespace tern
