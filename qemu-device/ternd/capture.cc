// SPDX-License-Identifier: GPL-2.0-or-later
#include "capture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

#include "clock.h"
#include "log.h"

namespace tern::daemon {

namespace {

// As in pcap-savefile(5), in this machine's byte order.
struct FileHeader {
  std::uint32_t magic = 0xa1b23c4d;  // nanoseconds
  std::uint16_t major = 2;
  std::uint16_t minor = 4;
  std::uint32_t zone = 0;
  std::uint32_t accuracy = 0;
  std::uint32_t longest = 65536;
  std::uint32_t link_type = 1;  // Ethernet
};
struct RecordHeader {
  std::uint32_t seconds;
  std::uint32_t nanoseconds;
  std::uint32_t captured;
  std::uint32_t length;
};
static_assert(sizeof(FileHeader) == 24 && sizeof(RecordHeader) == 16);

// The thread writes at once when this many bytes wait.
constexpr std::size_t kMuch = Capture::kBuffer / 2;

}  // namespace

struct Capture::State {
  State(Descriptor f, std::uint64_t l, std::string n)
      : file(std::move(f)),
        limit(l),
        name(std::move(n)),
        epoch(static_cast<std::int64_t>(clock_ns(CLOCK_REALTIME)) -
              static_cast<std::int64_t>(clock_ns(CLOCK_MONOTONIC))) {}

  template <typename T>
  void put(const T& header) {
    const auto bytes = std::as_bytes(std::span(&header, 1));
    waiting.insert(waiting.end(), bytes.begin(), bytes.end());
  }
  void run();
  bool write_out(std::span<const std::byte> bytes);

  const Descriptor file;
  const std::uint64_t limit;
  const std::string name;
  const std::int64_t epoch;  // wall time minus monotonic time, in ns

  std::mutex mutex;  // a leaf, for the members below
  std::condition_variable work, room;
  std::vector<std::byte> waiting;
  std::uint64_t size = sizeof(FileHeader);  // of the file, with what waits
  std::uint64_t lost = 0;                   // frames
  bool stalled = false;                     // the file is slow: no thread waits for it
  bool ended = false;                       // no more frames are taken
  bool stopping = false;

  std::binary_semaphore done{0};
};

Descriptor create_file(const std::string& path) {
  constexpr int kMode = 0666;  // less the umask
  return checked(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode), path);
}

void check_file(const Descriptor& file, const std::string& name) {
  struct stat status{};
  const int flags = fcntl(file.get(), F_GETFL);
  // Opening a pipe would wait for its reader.
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || flags < 0 ||
      (flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) != 0) {
    throw std::invalid_argument(name + " needs a regular file that can be written");
  }
}

Capture::Capture(Descriptor file, std::uint64_t limit, const std::string& name) {
  check_file(file, name);
  state_ = std::make_shared<State>(std::move(file), limit, name);
  state_->put(FileHeader{});
  std::thread([state = state_] { state->run(); }).detach();
}

Capture::~Capture() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->work.notify_one();
  }
  const bool written = state_->done.try_acquire_for(kEndWait);
  const std::lock_guard lock(state_->mutex);
  if (!written)
    write_log(LOG_WARNING, "", state_->name + " is not complete: its file does not take it");
  if (state_->lost != 0)
    write_log(
        LOG_WARNING, "",
        state_->name + " lacks " + std::to_string(state_->lost) + " frames: its file was too slow");
}

void Capture::State::run() {
  pthread_setname_np(pthread_self(), "capture");
  std::vector<std::byte> writing;
  std::unique_lock lock(mutex);
  for (bool first = true;; first = false) {
    work.wait(lock, [this] { return stopping || !waiting.empty(); });
    if (waiting.empty()) break;
    // Write the header at once, so that a reader can identify the file.
    if (!first) work.wait_for(lock, kFlush, [this] { return stopping || waiting.size() >= kMuch; });
    writing.swap(waiting);
    stalled = false;
    room.notify_all();
    lock.unlock();
    const bool good = write_out(writing);
    const int error = errno;
    writing.clear();
    lock.lock();
    if (good) continue;
    ended = true;
    waiting.clear();
    write_log(LOG_WARNING, "", name + " ends: " + std::strerror(error));
  }
  lock.unlock();
  done.release();
}

bool Capture::State::write_out(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

void Capture::add(std::uint64_t time, std::span<const std::byte> frame) {
  State& s = *state_;
  const std::size_t bytes = sizeof(RecordHeader) + frame.size();
  std::unique_lock lock(s.mutex);
  const auto fits = [&] { return s.ended || s.waiting.size() + bytes <= kBuffer; };
  if (!s.stalled && !s.room.wait_for(lock, kRoomWait, fits)) s.stalled = true;
  if (!s.ended && s.limit != 0 && s.size + bytes > s.limit) s.ended = true;
  if (s.ended) return;
  if (!fits()) {
    ++s.lost;
    return;
  }
  const auto wall = static_cast<std::uint64_t>(static_cast<std::int64_t>(time) + s.epoch);
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const auto length = static_cast<std::uint32_t>(frame.size());
  const std::size_t before = s.waiting.size();
  s.put(RecordHeader{static_cast<std::uint32_t>(wall / kSecond),
                     static_cast<std::uint32_t>(wall % kSecond), length, length});
  s.waiting.insert(s.waiting.end(), frame.begin(), frame.end());
  s.size += bytes;
  if (before == 0 || (before < kMuch && s.waiting.size() >= kMuch)) s.work.notify_one();
}

}  // namespace tern::daemon
