// SPDX-License-Identifier: GPL-2.0-or-later
// An adapter's PCI Express function, served to one hypervisor at a time by the vfio-user protocol.
//
// Only function.cc uses libvfio-user, which handles messages; the owner sees accesses to BARs,
// guest memory, resets and power.
//
// Used by one thread, the adapter's, but for raise_beside(). Its calls to the owner are made within
// serve().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config_space.h"
#include "descriptor.h"
#include "guest_memory.h"
#include "migration.h"
#include "tern_hw.hpp"

struct vfu_ctx;

namespace tern::daemon {

class FunctionOwner {
 public:
  virtual ~FunctionOwner() = default;
  virtual std::uint32_t read_register(std::uint64_t offset) = 0;
  virtual void write_register(std::uint64_t offset, std::uint32_t value) = 0;
  virtual std::uint32_t read_doorbell(std::uint64_t offset) = 0;
  virtual void ring_doorbell(std::uint64_t offset, std::uint32_t value) = 0;
  // A region of memory was added, or is about to be unmapped.
  virtual void memory_added(const GuestMemory::Region& region) = 0;
  virtual void memory_removed(const GuestMemory::Region& region) = 0;
  // A reset of the device or function. Config space has its initial contents afterwards.
  virtual void reset() = 0;
  // The DMA permission or the power state in config space has changed.
  virtual void power_changed(bool bus_master, bool awake) = 0;
  // The state of the device for a migration, while it sleeps.
  virtual bool save(std::vector<std::byte>& to, std::string& why) = 0;
  // Returns false if the state is refused, with the reason in `why`.
  virtual bool load(std::span<const std::byte> state, std::string& why) = 0;
  virtual void attached() = 0;
  virtual void detached() = 0;
  // Whether a hypervisor may attach now.
  virtual bool ready() { return true; }
  // For the journal.
  virtual void log(int priority, const char* message) = 0;
};

// The file and the memory of BAR4; both have ConfigSpace::Options::dm_size bytes.
struct DmFile {
  int fd = -1;
  std::byte* data = nullptr;
};

class Function {
 public:
  struct Options {
    ConfigSpace::Options space;
    std::size_t regions = SIZE_MAX;  // of guest memory, at a time
    std::size_t mapped = SIZE_MAX;   // their bytes
    bool migration = false;          // whether the hypervisor may save and load it
  };

  // Serves the hypervisor that connects to `listener`, which does not block. Throws
  // std::system_error.
  Function(Descriptor listener, const Options& options, const DmFile& dm, FunctionOwner& owner);
  ~Function();
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  // Becomes readable when serve() has work. It changes when a hypervisor attaches or detaches.
  [[nodiscard]] int fd() const;
  // Attaches a hypervisor and waits for it to negotiate the version, or handles up to `limit` of
  // its messages. It waits at most kWaitLimit for each part of a message, and for each answer to be
  // read. Returns false if a hypervisor waits that cannot be attached now, because the owner is not
  // ready or the host has no descriptors left.
  bool serve(unsigned limit);
  [[nodiscard]] bool attached() const { return attached_; }
  // Detaches the hypervisor, after a call of detached(), and closes the socket.
  void close();
  // Ends the connection. serve() then detaches the hypervisor.
  void drop();
  // Replaces the file of BAR4, while no hypervisor is attached or within FunctionOwner::detached().
  // Returns false if there is no memory for that.
  [[nodiscard]] bool set_dm(const DmFile& dm);
  // Resets the function. Then, if it is removed by surprise, config space reads ones and takes no
  // writes.
  void set_removed(bool removed);
  // Raises an interrupt.
  void raise(unsigned vector);
  // The same for other threads, at any time before close(). While serve() handles a message, the
  // interrupt waits for the end of that, and the caller does not.
  void raise_beside(unsigned vector);

 private:
  struct Access;  // the library's callbacks

  // Limit for the hypervisor to send the rest of a message, or to read an answer, in ms.
  static constexpr unsigned kWaitLimit = 2000;

  // Held while the hypervisor may change the descriptors of interrupts, or another thread uses
  // them.
  class Vectors;

  void add_regions();
  bool add_dm();
  void add_migration();
  bool migrate(int to);
  bool loaded();
  // A reset, which also ends a migration, and one by the guest, which does not.
  void reset();
  void reset_function();
  int run();
  void raise_pending();
  void sync_power();
  bool attach();
  void on_detached();

  const Options options_;
  FunctionOwner& owner_;
  ConfigSpace space_;
  DmFile dm_;
  MigrationStream stream_;
  vfu_ctx* ctx_ = nullptr;
  bool attached_ = false;
  bool removed_ = false;
  bool bus_master_ = false;
  bool awake_ = true;
  bool paused_ = false;  // by a migration: the device does nothing
  std::atomic<bool> vectors_held_ = false;
  std::array<std::atomic<std::uint64_t>, TERN_MAX_VECTORS / 64> pending_{};  // raise_beside()
};

}  // namespace tern::daemon
