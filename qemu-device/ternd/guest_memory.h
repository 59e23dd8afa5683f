// SPDX-License-Identifier: GPL-2.0-or-later
// The memory that a hypervisor lets its adapter access, by DMA address.
//
// The hypervisor passes regions as file descriptors (DMA_MAP), and libvfio-user maps them. A region
// without a descriptor cannot be accessed: its bytes would have to pass through the socket.
//
// A file may be shorter than its region, and may shrink at any time. An access beyond its end then
// raises SIGBUS. GuestMemory::handle_sigbus() replaces the whole region by zeros, so that the
// access completes, and lost() is true from then on: the adapter drops its hypervisor.
//
// Other adapters may read it, too (core/shared_payload.h). Their readers end before regions change,
// so the handler may search the regions in any reader's thread.
//
// Used by the threads of one adapter. Functions that change it are for the adapter's own, while the
// others access no memory.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/host.h"

namespace tern::daemon {

class GuestMemory {
 public:
  struct Region {
    std::uint64_t addr;
    std::uint64_t len;
    std::byte* ptr;  // null: not accessible
    bool readable;
    bool writable;
    std::span<std::byte> mapping = {};  // the pages around it, whole
    std::size_t page = 0;               // bytes of each
  };

  // Installs the handler of SIGBUS for the process.
  static void handle_sigbus();
  // The calling thread accesses this memory from now on.
  void adopt() const;
  // The calling thread also reads payload in the memory of `lender`, an EngineHost, until the next
  // call; null: it does not. Only core/shared_payload.h keeps the lender while the thread reads.
  static void borrow(const Host* lender);

  // Adds a region, or replaces the one at its address: a hypervisor may map one twice. Returns
  // whether the caller has to update the engine.
  [[nodiscard]] bool add(const Region& region);
  // Removes the region that begins at `addr`. Returns whether the caller has to update the engine,
  // in addition to Device::dma_invalidate(), before the engine runs again.
  [[nodiscard]] bool remove(std::uint64_t addr);

  // Whether the function is bus master. While it is not, no memory is found.
  void allow(bool bus_master) { allowed_ = bus_master; }
  // With the engine lock: sets the memory that the engine accesses without map().
  void update(Host& host);

  // Returns the longest piece of contiguous memory at `addr`, up to `len` bytes. Empty if there is
  // none, or the hypervisor does not allow the access.
  [[nodiscard]] std::span<std::byte> find(std::uint64_t addr, std::uint64_t len, bool write) const;
  // The largest regions that can be read and written, at most `limit`.
  [[nodiscard]] std::vector<Host::Ram> largest(std::size_t limit) const;

  [[nodiscard]] std::size_t regions() const { return regions_.size(); }
  [[nodiscard]] std::uint64_t bytes() const;
  // Whether memory of the hypervisor was missing when it was accessed.
  [[nodiscard]] bool lost() const { return lost_.load(std::memory_order_relaxed); }
  void forget_lost() { lost_.store(false, std::memory_order_relaxed); }

 private:
  static void on_sigbus(int signal, siginfo_t* info, void* context);
  bool replace(std::uintptr_t fault) const;

  std::vector<Region> regions_;   // by address; they do not overlap
  std::vector<Host::Ram> given_;  // to the engine, the largest first
  bool allowed_ = false;
  mutable std::atomic<bool> lost_ = false;
};

}  // namespace tern::daemon
