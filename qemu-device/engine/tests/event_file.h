// SPDX-License-Identifier: GPL-2.0-or-later
// Writes the event log of a simulated device to a file, as the runner does for a real one.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "control/device.h"
#include "tern_event_log.hpp"

namespace tern {

class EventFile {
 public:
  // The device logs from now on. Its clock is that of the captures, so the epoch is 0.
  EventFile(const std::string& path, Device& device, const std::string& name)
      : file_(std::fopen(path.c_str(), "wb"), &close), device_(device) {
    constexpr std::size_t kRecords = std::size_t{1} << 16;
    device.log_events(kRecords);
    log_ = device.datapath.log;
    const tern_log_header header =
        log_header(TERN_LOG_CLOCK_VIRTUAL, 0, device.port.addresses.mac(), name);
    put(&header, sizeof(header));
  }

  // Writes what the device has logged, unless the test has replaced the log by one of its own.
  void drain() {
    if (device_.datapath.log != log_) return;
    for (auto records = log_->records(); !records.empty(); records = log_->records()) {
      put(records.data(), records.size_bytes());
      log_->taken(records.size());
    }
  }

 private:
  static void close(std::FILE* f) { std::fclose(f); }
  void put(const void* data, std::size_t bytes) {
    if (file_) std::fwrite(data, 1, bytes, file_.get());
  }
  std::unique_ptr<std::FILE, void (*)(std::FILE*)> file_;
  Device& device_;
  EventLog* log_;
};

}  // namespace tern
