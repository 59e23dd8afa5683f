// SPDX-License-Identifier: GPL-2.0-or-later
// An AF_XDP socket with its memory.
#ifndef SOCKET_H
#define SOCKET_H
#include <linux/if_xdp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bpf.h"

namespace xdp {

constexpr std::uint32_t kChunk = 2048;
constexpr std::uint32_t kChunks = 2048;
constexpr std::uint32_t kEntries = 1024;  // of each ring

// A ring that this process or the kernel fills.
template <typename T>
struct Ring {
  std::uint32_t* producer = nullptr;
  std::uint32_t* consumer = nullptr;
  std::uint32_t* flags = nullptr;
  T* entries = nullptr;

  std::uint32_t used() const { return __atomic_load_n(producer, __ATOMIC_ACQUIRE) - *consumer; }
  std::uint32_t room() const {
    return kEntries - (*producer - __atomic_load_n(consumer, __ATOMIC_ACQUIRE));
  }
  T& at(std::uint32_t index) const { return entries[index & (kEntries - 1)]; }
  void push(const T& value) {
    at(*producer) = value;
    __atomic_store_n(producer, *producer + 1, __ATOMIC_RELEASE);
  }
  T pop() {
    const T value = at(*consumer);
    __atomic_store_n(consumer, *consumer + 1, __ATOMIC_RELEASE);
    return value;
  }
  // The fence orders the new producer index before the flag.
  bool needs_wakeup() const {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP;
  }
};

struct Options {
  bool zero_copy = true;
  bool fragments = false;
  bool need_wakeup = true;
};

class Socket {
 public:
  Socket(unsigned ifindex, std::uint32_t queue, const Options& options);
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  int fd() const { return fd_.get(); }
  bool zero_copy() const;

  // Sends a frame from as many chunks as it needs. False without room.
  bool send(std::span<const std::byte> frame);
  // The next frame, or nothing.
  bool receive(std::vector<std::byte>& frame);
  // Wakes the kernel up where it asks for it, takes back sent chunks and waits a while for frames.
  void wait(int milliseconds);
  void kick();

 private:
  void map_rings();

  Options options_;
  Fd fd_;
  std::byte* memory_ = nullptr;
  Ring<std::uint64_t> fill_, done_;
  Ring<xdp_desc> rx_, tx_;
  std::vector<std::uint64_t> free_;
  std::vector<std::byte> part_;  // of a frame whose other descriptors have not come
};

}  // namespace xdp
#endif
