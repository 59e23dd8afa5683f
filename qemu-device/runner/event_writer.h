// SPDX-License-Identifier: GPL-2.0-or-later
// Writes the engine's event log to a file (firmware-if/tern_event_log.h), in a thread of its own: a
// slow file loses events, which a record counts, and delays no other thread.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "core/event_log.h"
#include "host.h"
#include "tern_hw.hpp"

namespace tern {
class Device;
}  // namespace tern

namespace tern::runner {

// An open file for the log, and the adapter's properties for its header.
struct EventFile {
  int fd = -1;              // the writer closes it
  std::uint64_t limit = 0;  // bytes after which the log ends, with TERN_LOG_FULL; 0 for none
  std::uint8_t clock = 0;   // TERN_LOG_CLOCK_*
  std::uint64_t epoch = 0;  // ns from 1970 to 0 of the device clock
  std::array<std::uint8_t, 6> mac{};
  std::string name;
  std::size_t records = std::size_t{1} << 18;  // of the ring, 12 MiB
};

class EventWriter {
 public:
  // The smallest limit of a file: it holds the header and the record that ends the log.
  static constexpr std::uint64_t kLeastLimit = sizeof(tern_log_header) + sizeof(tern_log_event);

  // Starts the log of the engine. Throws std::bad_alloc or std::system_error.
  EventWriter(Device& device, Host& host, const EventFile& file);
  // Writes the remaining events. The engine continues to log, without a reader.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Called by the engine's thread after the engine has run: wakes the writing thread if there are
  // events.
  void logged();
  // Any thread. Events logged before are in the file when this returns.
  void flush();
  // Like flush(), and gives the device clock another epoch.
  void set_epoch(std::uint64_t epoch);

 private:
  class File {
   public:
    explicit File(int fd) : fd_(fd) {}
    ~File() { end(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] bool open() const { return fd_ >= 0; }
    void end();

   private:
    int fd_;
  };

  void loop();
  void wake();
  [[nodiscard]] bool pending() const;
  bool drain();
  void write(const void* data, std::size_t bytes);
  void put(const void* data, std::size_t bytes);
  [[nodiscard]] tern_log_event record(std::uint8_t type, std::uint64_t addr = 0,
                                      std::uint64_t length = 0) const;
  void write(const tern_log_event& event) { write(&event, sizeof(event)); }
  void end(int error);

  Host& host_;
  EventLog* log_ = nullptr;  // of the engine

  std::mutex mutex_;  // a leaf, for the members below
  std::condition_variable wake_;
  bool stopping_ = false;
  File file_;           // closed: nothing more is written
  std::uint64_t room_;  // bytes left before TERN_LOG_FULL

  // The thread sleeps until logged(). Both sides exchange it and never store it, so that each sees
  // the other's earlier changes of the ring.
  std::atomic<bool> asleep_ = false;
  std::thread thread_;
};

}  // namespace tern::runner
