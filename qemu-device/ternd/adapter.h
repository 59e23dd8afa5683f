// SPDX-License-Identifier: GPL-2.0-or-later
// One adapter: an engine, its PCI function, its port of the switch, and its lanes, which have a
// thread each.
//
// The adapter's own thread serves the hypervisor's messages and lane 0. A hypervisor can block a
// lane's thread in system calls: only end_thread() ends those.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "adapter_config.h"
#include "capture.h"
#include "control/device.h"
#include "descriptor.h"
#include "device_memory.h"
#include "engine_host.h"
#include "function.h"
#include "guest_memory.h"
#include "lane.h"
#include "share.h"
#include "switch.h"
#include "task_queue.h"

namespace tern::daemon {

class Adapter final : public FunctionOwner, public LaneOwner, public EngineHost::Lanes {
 public:
  // Files that an adapter opens, unless a process with more rights passes them.
  struct Files {
    Descriptor listener;
    Descriptor pcap;
    Descriptor events;
  };

  // Opens all files, and starts no thread. Throws std::system_error, and std::invalid_argument for
  // a property.
  Adapter(const AdapterConfig& config, Switch& fabric, const Share& share = {})
      : Adapter(config, fabric, share, {}) {}
  Adapter(const AdapterConfig& config, Switch& fabric, const Share& share, Files files);
  ~Adapter() override;

  // Returns once the threads need no other files. Throws std::runtime_error.
  void start();
  // Detaches the hypervisor, closes the socket and ends the threads. Returns false if one does not
  // end in time: its hypervisor blocks it in a way that no signal ends, such as a page of a file
  // system that does not answer. Then only the end of the process ends it.
  [[nodiscard]] bool stop();
  [[nodiscard]] const AdapterConfig& config() const { return config_; }
  [[nodiscard]] Port& port() { return *port_; }
  // Limit of memory regions that its hypervisor may map at a time.
  [[nodiscard]] std::size_t most_regions() const { return regions_; }
  // Runs `task` in the adapter's thread and waits for it. No lane is then in a turn that began
  // before. Returns false if the thread did not begin the task in time: its hypervisor keeps it
  // waiting.
  bool call(std::function<void()> task) { return post(std::move(task)).wait(); }
  // The same without waiting.
  TaskQueue::Ticket post(std::function<void()> task);

  // ---- within call() ----

  struct Status {
    bool attached;
    bool link;
    std::uint64_t memory;  // bytes that the hypervisor lets us access
    std::size_t regions;   // number of their regions
    Device::Info engine;
    Counters counters;
  };
  [[nodiscard]] Status status();
  // Sets the link that the guest sees while a hypervisor is attached.
  void set_link(bool up);
  // The speed that the port reports from now on, also to later hypervisors.
  void set_speed(std::uint32_t mbps);
  // Returns the reason if the text is wrong.
  std::string set_faults(const std::string& text);
  [[nodiscard]] std::string faults() const;
  void set_icrc(IcrcMode mode);
  // Removes the function by surprise, as if it were pulled out of its slot, or puts one back, which
  // the guest finds by scanning.
  void set_removed(bool removed);
  [[nodiscard]] bool removed() const { return removed_; }
  // Captures all frames of this adapter from now on; null ends the capture. Returns the previous
  // capture, for another thread to destroy.
  std::unique_ptr<Capture> set_capture(std::unique_ptr<Capture> capture);

 private:
  // A call to the engine from outside, while no lane runs.
  class Access;

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
  bool ready() override;
  void log(int priority, const char* message) override;

  // LaneOwner
  void serve() override;
  void timer_expired() override;
  void run_tasks() override;
  void capture(const runner::Host::Frame& frame) override;
  void memory_lost(Lane& lane) override;
  void raise(Lane& lane, unsigned vector) override;
  void log_ended(int error) override;

  // EngineHost::Lanes
  void stop_lanes() override;
  void start_lanes() override;

  void make_engine();
  void announce();
  void log_events(Descriptor file);
  void make_function(Descriptor listener);
  bool renew_memory();
  void loop();
  void watch_function();
  [[nodiscard]] Lane& home() { return *lanes_.front(); }
  [[nodiscard]] runner::Runner& runner() { return home().runner(); }
  // Calls f() for each lane but lane 0.
  template <class F>
  void for_others(F&& f) {
    for (std::size_t i = 1; i < lanes_.size(); ++i) f(*lanes_[i]);
  }

  const AdapterConfig config_;
  const std::size_t regions_, mapped_;
  Files files_;
  DeviceMemory dm_;
  GuestMemory memory_;
  AdapterClock clock_;
  EngineHost engine_host_{memory_, clock_, *this};
  std::unique_ptr<Device> engine_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  OwnedPort port_;
  std::unique_ptr<Function> function_;
  std::unique_ptr<Capture> capture_;
  TaskQueue tasks_;
  alignas(64) std::atomic<bool> running_ = false;

  // Used only by the adapter's thread.
  int watched_ = -1;        // the function's descriptor
  bool attaching_ = false;  // a hypervisor that could not attach is served again
  std::uint64_t log_refilled_ = 0;
  unsigned log_tokens_ = 0;
  bool link_wanted_ = true;
  std::uint32_t speed_wanted_ = 0;  // Runner::set_speed()
  bool fresh_ = true;               // no hypervisor has used the device memory
  bool removed_ = false;

  std::binary_semaphore ended_{0};
  std::thread thread_;
};

}  // namespace tern::daemon
