// SPDX-License-Identifier: GPL-2.0-or-later
// A capture file: pcap with nanoseconds, of whole Ethernet frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <span>
#include <string>

#include "descriptor.h"

struct pcap;
struct pcap_dumper;

namespace tern::daemon {

class Capture {
 public:
  // `limit`: bytes after which the capture ends, with a whole frame; 0 for none. Throws
  // std::runtime_error.
  Capture(const std::string& path, std::uint64_t limit);
  // The same for an open file.
  Capture(Descriptor file, std::uint64_t limit);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Any thread. `time` is of the monotonic clock, in ns.
  void add(std::uint64_t time, std::span<const std::byte> frame);

  // Writes what all captures have buffered, so that a file can be read soon after a frame.
  static void flush_all();

 private:
  Capture(std::FILE* file, const std::string& name, std::uint64_t limit);
  void flush();

  const std::uint64_t limit_;
  std::mutex mutex_;
  pcap* handle_ = nullptr;
  pcap_dumper* dumper_ = nullptr;
  std::int64_t epoch_ = 0;  // wall time minus monotonic time, in ns
  std::uint64_t written_ = 0;
  bool full_ = false;
  bool pending_ = false;
};

}  // namespace tern::daemon
