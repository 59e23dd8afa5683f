// SPDX-License-Identifier: GPL-2.0-or-later
// A port of the switch to a network of the host: a tap, or any Ethernet interface by a packet
// socket. It has a thread. The port's link is that of the interface.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "capture.h"
#include "descriptor.h"
#include "host_interface.h"
#include "link_watch.h"
#include "switch.h"
#include "task_queue.h"
#include "uplink_faults.h"

namespace tern::daemon {

class Uplink final : public PortUser {
 public:
  // Files that an uplink opens for an interface, unless a process with more rights passes them.
  struct Files {
    Descriptor interface;  // the tap, or the packet socket
    Descriptor netlink;
    unsigned index = 0;
  };
  // A parsed text: tap=NAME or packet=NAME, with properties of the port.
  struct Config {
    HostInterface::Kind kind;
    std::string name;  // of the interface, and of the port
    PortPolicy policy;
  };
  // Throws std::invalid_argument.
  static Config parse(std::string_view text);
  // Throws std::system_error.
  static Files open(const Config& config);

  Uplink(std::string_view text, Switch& fabric) : Uplink(parse(text), fabric) {}
  Uplink(const Config& config, Switch& fabric) : Uplink(config, fabric, open(config)) {}
  Uplink(const Config& config, Switch& fabric, Files files);
  ~Uplink() override;

  void start();
  // Ends the thread. Returns false if it does not end in time: a control client may have passed an
  // interface that blocks it. Then only the end of the process ends it.
  bool stop();

  // ---- any thread ----

  [[nodiscard]] Port& port() { return *port_; }
  [[nodiscard]] const std::string& name() const { return config_.name; }
  [[nodiscard]] const char* kind() const {
    return config_.kind == HostInterface::Kind::kTap ? "tap" : "packet";
  }
  // Packets that the host left unfinished in a way that the uplink does not support.
  [[nodiscard]] std::uint64_t unfinished();
  // Packets lost because the uplink did not take them in time.
  [[nodiscard]] std::uint64_t overruns();
  // Runs `task` in the uplink's thread and waits for it. Returns false if the thread does not run.
  bool call(std::function<void()> task) { return post(std::move(task)).wait(); }
  // The same without waiting.
  TaskQueue::Ticket post(std::function<void()> task);

  // PortUser
  void frames_wait() override { wake(); }
  void room() override;

  // ---- within call() ----

  // Captures all frames that enter and leave the switch from now on; null ends the capture. Returns
  // the previous capture, for another thread to destroy.
  std::unique_ptr<Capture> set_capture(std::unique_ptr<Capture> capture) {
    return std::exchange(capture_, std::move(capture));
  }
  // Returns the reason if the text is wrong.
  std::string set_faults(const std::string& text);
  // Continues with an interface that was opened again, for example after its deletion.
  void reopen(Files files);
  [[nodiscard]] std::string faults() const { return faults_ ? faults_->report() : ""; }

 private:
  void wake();
  void loop();
  void watch_link();
  bool run_faults();
  bool take_in();
  void begin_wait();
  void end_wait();
  [[nodiscard]] std::span<const std::byte> incoming();
  void pop_incoming();
  bool send_out();
  bool send_front();
  bool send_held();
  void sleep();

  const Config config_;
  std::mutex host_mutex_;  // the thread changes host_, others read its counters
  std::unique_ptr<HostInterface> host_;
  std::uint64_t unfinished_before_ = 0;  // by those before host_
  std::uint64_t overruns_before_ = 0;
  std::unique_ptr<LinkWatch> link_;
  Descriptor wake_;
  const OwnedPort port_;
  std::atomic<bool> sleeping_ = false;
  std::atomic<bool> has_room_ = true;
  std::atomic<bool> stop_ = false;
  TaskQueue tasks_;

  // Used only by the thread.
  std::unique_ptr<Capture> capture_;
  // Created with the first rules. Stays after the last ones, to pass on the frames held back.
  std::unique_ptr<UplinkFaults> faults_;
  bool gone_ = false;                 // the interface was deleted
  bool blocked_out_ = false;          // it takes no more for now
  std::uint64_t due_ = UINT64_MAX;    // of the port's next frame
  std::span<const std::byte> frame_;  // offered to the switch; empty: none
  std::uint64_t frame_time_ = 0;
  // A port that takes its frames slowly may stop those for the others half of the time at most: the
  // uplink may wait for `patience_` ns more, which grows while it does not wait.
  std::uint64_t patience_ = Switch::kWatchdog;
  std::uint64_t waited_until_ = 0;
  std::uint64_t waits_since_ = 0;  // 0: it does not wait
  std::uint64_t retry_at_ = 0;     // if it waits: the port loses the frame then

  std::binary_semaphore ended_{0};
  std::thread thread_;
};

}  // namespace tern::daemon
