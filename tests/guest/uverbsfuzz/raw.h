// SPDX-License-Identifier: GPL-2.0-or-later
// Mutated commands of the two interfaces of uverbs, ioctl() and write(), for a device file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "map.h"
#include "random.h"
#include "tally.h"

namespace guest::uverbsfuzz {

inline constexpr std::size_t kPage = 4096;

// Types of uobjects: the numbers that the kernel gives them, UVERBS_OBJECT_*.
inline constexpr std::size_t kTypes = 20;

// The handles of a device file that are probably valid. All threads of a process share them.
class Handles {
 public:
  void add(std::size_t type, std::uint32_t handle);
  // Mostly a handle of the type; sometimes one of another type, a small number, or anything.
  std::uint32_t any(Random& random, std::size_t type);
  // Keeps others out, so that a child of a fork() does not inherit their lock.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }

 private:
  std::mutex mutex_;
  std::array<std::vector<std::uint32_t>, kTypes> known_;
};

// Memory that requests refer to.
class Arena {
 public:
  static constexpr std::size_t kBytes = 256 * kPage;

  // A page of read-write memory.
  [[nodiscard]] std::byte* page(std::size_t number) const {
    return memory_.at(number % 256 * kPage);
  }
  // Where a response goes: mostly to memory.
  std::uint64_t response(Random& random) const;
  // An address that may be good, bad, or the kernel's.
  std::uint64_t address(Random& random) const;

 private:
  const Map memory_{kBytes};
  const Map read_only_{kBytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS};
  const Map hole_{kBytes, PROT_NONE};
};

struct Raw {
  int fd;
  Handles& handles;
  const Arena& arena;
  Tally& tally;
  bool core_bugs;  // also send what ib_core itself gets wrong
  bool opens;      // opens QPs, else uses multicast groups
};

// Values that are often boundaries.
std::uint64_t interesting(Random& random);
// Changes up to three bytes or words from offset `from` on.
void spoil(Random& random, std::vector<std::byte>& bytes, std::size_t from);
// The driver's part of a creating command, with buffers in the arena; empty for other types.
std::vector<std::byte> driver_part(Random& random, const Arena& arena, std::size_t type);

// Sends a method. Returns an errno.
int random_ioctl(Random& random, const Raw& raw);
// Sends a method of the driver's own. Returns an errno.
int driver_ioctl(Random& random, const Raw& raw);
// Sends a command by write(). Returns an errno.
int random_write(Random& random, const Raw& raw);
// Sends GET_CONTEXT on a file without a context. Returns an errno.
int get_context(int fd, std::uint64_t response);

}  // namespace guest::uverbsfuzz
