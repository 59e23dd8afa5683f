// SPDX-License-Identifier: GPL-2.0-or-later
// Writes frames to a capture file (nanosecond pcap, Ethernet) that tshark and Wireshark read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

namespace tern {

class PcapWriter {
 public:
  // An unwritable path gives a writer that is not ok().
  explicit PcapWriter(const std::string& path) : file_(std::fopen(path.c_str(), "wb"), &close) {
    put32(0xa1b23c4d);  // nanoseconds
    put32(4U << 16 | 2U);
    put32(0);
    put32(0);
    put32(65535);
    put32(1);  // Ethernet
  }
  [[nodiscard]] bool ok() const { return file_ != nullptr; }

  void frame(std::uint64_t ns, std::span<const std::byte> bytes) {
    put32(static_cast<std::uint32_t>(ns / 1'000'000'000));
    put32(static_cast<std::uint32_t>(ns % 1'000'000'000));
    put32(static_cast<std::uint32_t>(bytes.size()));
    put32(static_cast<std::uint32_t>(bytes.size()));
    if (file_) std::fwrite(bytes.data(), 1, bytes.size(), file_.get());
  }

 private:
  static void close(std::FILE* f) { std::fclose(f); }
  void put32(std::uint32_t v) {
    if (file_) std::fwrite(&v, sizeof(v), 1, file_.get());
  }
  std::unique_ptr<std::FILE, void (*)(std::FILE*)> file_;
};

}  // namespace tern
