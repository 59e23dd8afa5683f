// SPDX-License-Identifier: GPL-2.0-or-later
#include "event_writer.h"

#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <chrono>

#include "control/device.h"
#include "signals_blocked.h"
#include "tern_event_log.hpp"

namespace tern::runner {

namespace {

// Drain interval while there are events. The ring holds several intervals of a busy engine.
constexpr std::chrono::milliseconds kInterval{10};

}  // namespace

EventWriter::EventWriter(Device& device, Host& host, const EventFile& file)
    : host_(host),
      file_(file.fd),
      room_(file.limit == 0 ? UINT64_MAX : file.limit - sizeof(tern_log_event)) {
  assert(file.limit == 0 || file.limit >= kLeastLimit);
  const tern_log_header header = log_header(file.clock, file.epoch, file.mac, file.name);
  write(&header, sizeof(header));
  device.log_events(file.records);
  log_ = device.datapath.log;
  assert(log_ != nullptr);
  const SignalsBlocked blocked;
  thread_ = std::thread(&EventWriter::loop, this);
}

EventWriter::~EventWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  wake();
  thread_.join();
  drain();
  if (const std::uint64_t lost = log_->lost()) write(record(TERN_LOG_LOST, 0, lost));
}

void EventWriter::File::end() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void EventWriter::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (drain()) {
      wake_.wait_for(lock, kInterval);
      continue;
    }
    asleep_.exchange(true, std::memory_order_acq_rel);
    if (pending()) {
      asleep_.exchange(false, std::memory_order_acq_rel);
      continue;
    }
    lock.unlock();
    asleep_.wait(true);
    lock.lock();
  }
}

bool EventWriter::pending() const { return !log_->records().empty(); }

void EventWriter::logged() {
  if (pending()) wake();
}

void EventWriter::wake() {
  if (asleep_.exchange(false, std::memory_order_acq_rel)) asleep_.notify_one();
}

void EventWriter::flush() {
  const std::lock_guard lock(mutex_);
  drain();
}

void EventWriter::set_epoch(std::uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  drain();
  write(record(TERN_LOG_EPOCH, epoch, 0));
}

// Drains twice, because records are handed out up to the end of the ring. Does not drain until the
// ring is empty: the engine may be as fast as the file. Returns false if there was nothing.
bool EventWriter::drain() {
  for (int i = 0; i < 2; ++i) {
    const auto records = log_->records();
    if (records.empty()) return i != 0;
    write(records.data(), records.size_bytes());
    log_->taken(records.size());
  }
  return true;
}

tern_log_event EventWriter::record(std::uint8_t type, std::uint64_t addr,
                                   std::uint64_t length) const {
  tern_log_event event{};
  event.time = le(host_.now());
  event.type = type;
  event.addr = le(addr);
  event.length = le(length);
  return event;
}

// Writes whole records only. Once the file has ended, discards records, so that they are not
// counted as lost.
void EventWriter::write(const void* data, std::size_t bytes) {
  const bool fits = bytes <= room_;
  if (!fits)
    bytes = static_cast<std::size_t>(room_ / sizeof(tern_log_event) * sizeof(tern_log_event));
  put(data, bytes);
  room_ -= bytes;
  if (fits || !file_.open()) return;
  const tern_log_event full = record(TERN_LOG_FULL);
  put(&full, sizeof(full));
  if (file_.open()) end(0);
}

void EventWriter::put(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  for (std::size_t left = bytes; left != 0 && file_.open();) {
    const ssize_t n = ::write(file_.get(), at, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return end(n < 0 ? errno : ENOSPC);
    at += n;
    left -= static_cast<std::size_t>(n);
  }
}

void EventWriter::end(int error) {
  file_.end();
  host_.trace(Host::Event::kLogEnded, static_cast<std::uint64_t>(error), 0);
}

}  // namespace tern::runner
