// SPDX-License-Identifier: GPL-2.0-or-later
// What the fuzz targets of ternd have in common: a function with an engine behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "control/device.h"
#include "device_memory.h"
#include "function.h"
#include "guest_memory.h"

namespace tern::daemon {

// A function with an engine, without a runner: the owner runs the engine after each message. What a
// hypervisor has left behind when it is gone ends the process.
class World final : public FunctionOwner {
 public:
  static constexpr std::uint64_t kUar = std::uint64_t{128} * 1024;
  static constexpr std::uint64_t kDm = std::uint64_t{64} * 1024;

  World();
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Function& function() { return *function_; }
  // Handles a message, or attaches a hypervisor, and runs the engine.
  void serve();
  // Runs the engine, no longer than a guest can keep it busy in one call.
  void run();
  // Serves until the hypervisor, which has closed its socket, is detached.
  void end();
  void allow_polling(bool allow) { engine_->allow_polling(allow ? host_.time : kNever); }
  void set_link(bool up) { engine_->set_link(up); }
  void pass(std::uint64_t ns) { host_.time += ns; }
  [[nodiscard]] Device::Info info() const { return engine_->info(); }

 private:
  struct EngineHost final : Host {
    explicit EngineHost(const GuestMemory& m) : memory(m) {}
    std::span<std::byte> map(std::uint64_t addr, std::uint64_t len, bool write) override {
      return memory.find(addr, len, write);
    }
    void unmap(std::span<std::byte>, bool, std::uint64_t) override {}
    void ram_written(std::span<std::byte>) override {}
    void dm_written(std::span<std::byte>) override {}
    Nanos now() override { return time; }
    std::uint64_t random() override { return 0x9e3779b97f4a7c15; }

    const GuestMemory& memory;
    Nanos time = 0;
  };

  // FunctionOwner
  std::uint32_t read_register(std::uint64_t offset) override;
  void write_register(std::uint64_t offset, std::uint32_t value) override;
  std::uint32_t read_doorbell(std::uint64_t offset) override;
  void ring_doorbell(std::uint64_t offset, std::uint32_t value) override;
  void memory_added(const GuestMemory::Region& region) override;
  void memory_removed(const GuestMemory::Region& region) override;
  void reset() override;
  void power_changed(bool bus_master, bool awake) override;
  bool save(std::vector<std::byte>& to, std::string& why) override;
  bool load(std::span<const std::byte> state, std::string& why) override;
  void attached() override;
  void detached() override;
  void log(int, const char*) override {}

  DeviceMemory dm_;
  GuestMemory memory_;
  EngineHost host_{memory_};
  std::unique_ptr<Device> engine_;
  std::string path_;
  std::unique_ptr<Function> function_;
};

// Ends the process if more and more descriptors are open. Called after each input.
void check_descriptors();

}  // namespace tern::daemon
