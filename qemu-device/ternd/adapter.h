// SPDX-License-Identifier: GPL-2.0-or-later
// One adapter: an engine, the runner that runs it, its PCI function and its port of the switch, all
// in one thread.
//
// The thread is the runner's host thread, and there is no worker. It serves the hypervisor's
// messages, takes frames from the port, runs the engine and polls. It sleeps only in sleep(): other
// threads wake it by request(). A hypervisor can block it in other system calls: only end_thread()
// ends those.
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

#include "adapter_config.h"
#include "capture.h"
#include "control/device.h"
#include "descriptor.h"
#include "device_memory.h"
#include "engine_host.h"
#include "function.h"
#include "guest_memory.h"
#include "runner.h"
#include "share.h"
#include "switch.h"
#include "task_queue.h"

namespace tern::daemon {

class Adapter final : public FunctionOwner, public PortUser, public runner::Host {
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

  // Returns once the thread needs no other files. Throws std::runtime_error.
  void start();
  // Detaches the hypervisor, closes the socket, ends the thread, and frees its resources. Returns
  // false if the thread does not end in time: its hypervisor blocks it in a way that no signal
  // ends, such as a page of a file system that does not answer. Then only the end of the process
  // ends it.
  [[nodiscard]] bool stop();
  [[nodiscard]] const AdapterConfig& config() const { return config_; }
  [[nodiscard]] Port& port() { return port_; }
  // Limit of memory regions that its hypervisor may map at a time.
  [[nodiscard]] std::size_t most_regions() const { return regions_; }
  // Runs `task` in the adapter's thread and waits for it. Returns false if the thread did not begin
  // it in time: its hypervisor keeps it waiting.
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
  };
  [[nodiscard]] Status status() const;
  // Sets the link that the guest sees while a hypervisor is attached.
  void set_link(bool up);
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
  [[nodiscard]] Counters counters() const { return engine_->counters(); }

  // PortUser
  void frames_wait() override;
  void room() override;

 private:
  using Level = runner::Contention::Level;
  enum Request : unsigned { kDeliver = 1, kTakeFrames = 2, kRoom = 4, kTasks = 8, kStop = 16 };

  // FunctionOwner
  std::uint32_t read_register(std::uint64_t offset) override;
  void write_register(std::uint64_t offset, std::uint32_t value) override;
  std::uint32_t read_doorbell(std::uint64_t offset) override;
  void ring_doorbell(std::uint64_t offset, std::uint32_t value) override;
  void memory_added(const GuestMemory::Region& region) override;
  void memory_removed(const GuestMemory::Region& region) override;
  void reset() override;
  void power_changed(bool bus_master, bool awake) override;
  void attached() override;
  void detached() override;
  bool ready() override;
  void log(int priority, const char* message) override;

  // runner::Host
  std::uint64_t now() override;
  void schedule(Call call) override;
  void trace(Event event, std::uint64_t a, std::uint64_t b) override;
  void capture(const Frame& frame) override;
  void arm(Timer timer, std::uint64_t at) override {
    deadlines_[static_cast<std::size_t>(timer)] = at;
  }
  void disarm(Timer timer) override { deadlines_[static_cast<std::size_t>(timer)] = UINT64_MAX; }
  void raise(unsigned vector) override { function_->raise(vector); }
  Sent send(const Frame& frame) override;
  void receive_again() override {}
  WireFrame next_frame() override;
  bool wait_for_frames() override;
  void worker_begins() override {}
  void worker_ends() override {}

  void make_engine();
  void log_events(Descriptor file);
  void make_function(Descriptor listener);
  bool renew_memory();
  void request(unsigned calls);
  void loop();
  bool work();
  bool run_timers();
  void serve();
  void watch_function();
  [[nodiscard]] std::uint64_t spin_until(Level contention) const;
  // Sleeps until woken, or until `until`.
  void sleep(std::uint64_t until);
  void finish_frame();

  const AdapterConfig config_;
  const std::size_t regions_;
  Files files_;
  const OwnedPort owned_port_;
  Port& port_;
  DeviceMemory dm_;
  GuestMemory memory_;
  EngineHost engine_host_{memory_};
  std::unique_ptr<Device> engine_;
  std::unique_ptr<runner::Runner> runner_;
  std::unique_ptr<Function> function_;
  std::unique_ptr<Capture> capture_;
  Descriptor epoll_;
  Descriptor wake_;   // an eventfd
  int watched_ = -1;  // the function's descriptor in epoll_

  std::atomic<unsigned> requests_ = 0;
  alignas(64) std::atomic<bool> sleeping_ =
      false;  // read for each frame that the switch puts into the queue
  alignas(64) std::atomic<bool> running_ = false;
  TaskQueue tasks_;

  // Used only by the adapter's thread.
  std::array<std::uint64_t, 2> deadlines_{UINT64_MAX, UINT64_MAX};
  std::uint64_t retry_at_ = UINT64_MAX;   // a blocked frame is offered again
  std::uint64_t frame_due_ = UINT64_MAX;  // the port's next frame is held back until then
  std::uint64_t attach_at_ = UINT64_MAX;  // a hypervisor that could not attach is served again
  std::uint64_t turn_at_ = 0;             // when this turn began
  std::uint64_t active_at_ = 0;           // when there was work last
  std::uint64_t yielded_at_ = 0;
  std::uint64_t served_at_ = 0;  // when the thread last polled the hypervisor's socket
  std::uint64_t log_refilled_ = 0;
  unsigned log_tokens_ = 0;
  bool frame_taken_ = false;  // next_frame() returned the port's first frame
  bool polling_ = false;      // the engine has nothing to do but poll
  bool link_wanted_ = true;
  bool fresh_ = true;  // no hypervisor has used the device memory
  bool removed_ = false;
  bool stop_ = false;

  std::binary_semaphore ended_{0};
  std::thread thread_;
};

}  // namespace tern::daemon
