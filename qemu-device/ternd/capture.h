// SPDX-License-Identifier: GPL-2.0-or-later
// A capture file: pcap with nanoseconds, of whole Ethernet frames.
//
// A thread writes the file, so that a slow file delays frames little and a stuck one does not delay
// them for long: add() waits for it once, for kRoomWait, and then frames are lost until there is
// space again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "descriptor.h"

namespace tern::daemon {

class Capture {
 public:
  // Bytes that may wait for the file.
  static constexpr std::size_t kBuffer = std::size_t{8} << 20;
  static constexpr std::chrono::milliseconds kRoomWait{100};
  // Frames are in the file after this time.
  static constexpr std::chrono::milliseconds kFlush{100};
  // Time that the destructor waits for the remaining frames to be written.
  static constexpr std::chrono::seconds kEndWait{2};

  // `limit`: bytes after which the capture ends, with a whole frame; 0 for none. `name` is for the
  // journal. Throws std::invalid_argument if the file is not a regular one that can be written.
  Capture(Descriptor file, std::uint64_t limit, const std::string& name = "a capture");
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Any thread. `time` is of the monotonic clock, in ns.
  void add(std::uint64_t time, std::span<const std::byte> frame);

 private:
  struct State;
  // Shared with the thread, which may not end in time.
  std::shared_ptr<State> state_;
};

// Creates an empty file. Throws std::system_error.
Descriptor create_file(const std::string& path);
// Throws std::invalid_argument unless it is a regular file that can be written: another one may
// block its writer for ever.
void check_file(const Descriptor& file, const std::string& name);

}  // namespace tern::daemon
