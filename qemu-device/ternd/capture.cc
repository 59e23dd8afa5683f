// SPDX-License-Identifier: GPL-2.0-or-later
#include "capture.h"

#include <pcap/pcap.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <set>
#include <stdexcept>

#include "clock.h"

namespace tern::daemon {

namespace {

constexpr int kSnapLen = 65536;
constexpr std::uint64_t kFileHeader = 24;
constexpr std::uint64_t kRecordHeader = 16;

std::mutex all_mutex;
std::set<Capture*>& all() {
  static std::set<Capture*> captures;
  return captures;
}

}  // namespace

// The dumper closes the streams.
// NOLINTBEGIN(clang-analyzer-unix.Stream)
Capture::Capture(const std::string& path, std::uint64_t limit) : Capture(std::fopen(path.c_str(), "wbe"), path, limit) {}

Capture::Capture(Descriptor file, std::uint64_t limit) : Capture(fdopen(file.release(), "wb"), "the capture", limit) {}
// NOLINTEND(clang-analyzer-unix.Stream)

Capture::Capture(std::FILE* file, const std::string& name, std::uint64_t limit) : limit_(limit), written_(kFileHeader) {
  if (file == nullptr) throw std::runtime_error(name + ": " + std::strerror(errno));
  handle_ = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, kSnapLen, PCAP_TSTAMP_PRECISION_NANO);
  dumper_ = handle_ == nullptr ? nullptr : pcap_dump_fopen(handle_, file);
  if (dumper_ == nullptr) {
    if (handle_ != nullptr) pcap_close(handle_);
    std::fclose(file);
    throw std::runtime_error(name + ": cannot be written");
  }
  pcap_dump_flush(dumper_);
  epoch_ = static_cast<std::int64_t>(clock_ns(CLOCK_REALTIME)) - static_cast<std::int64_t>(clock_ns(CLOCK_MONOTONIC));
  const std::lock_guard lock(all_mutex);
  all().insert(this);
}

Capture::~Capture() {
  {
    const std::lock_guard lock(all_mutex);
    all().erase(this);
  }
  pcap_dump_close(dumper_);
  pcap_close(handle_);
}

void Capture::add(std::uint64_t time, std::span<const std::byte> frame) {
  const std::lock_guard lock(mutex_);
  if (full_) return;
  if (limit_ != 0 && written_ + kRecordHeader + frame.size() > limit_) {
    full_ = true;
    pcap_dump_flush(dumper_);
    return;
  }
  const std::uint64_t wall = time + static_cast<std::uint64_t>(epoch_);
  pcap_pkthdr header{};
  header.ts.tv_sec = static_cast<time_t>(wall / 1'000'000'000);
  // Nanoseconds: the file's header says so.
  header.ts.tv_usec = static_cast<suseconds_t>(wall % 1'000'000'000);
  header.caplen = header.len = static_cast<bpf_u_int32>(frame.size());
  pcap_dump(reinterpret_cast<u_char*>(dumper_), &header, reinterpret_cast<const u_char*>(frame.data()));
  written_ += kRecordHeader + frame.size();
  pending_ = true;
}

void Capture::flush() {
  const std::lock_guard lock(mutex_);
  if (pending_) pcap_dump_flush(dumper_);
  pending_ = false;
}

void Capture::flush_all() {
  const std::lock_guard lock(all_mutex);
  for (Capture* const capture : all()) capture->flush();
}

}  // namespace tern::daemon
