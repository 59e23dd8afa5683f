// SPDX-License-Identifier: GPL-2.0-or-later
// A port of the switch to a network of the host: a tap, or any Ethernet interface by a packet
// socket. It has a thread. The port's link is that of the interface.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>

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
  // `text`: tap=NAME or packet=NAME, with properties of the port. Throws std::invalid_argument or
  // std::system_error.
  Uplink(std::string_view text, Switch& fabric);
  ~Uplink() override;
  // The name of the interface, and of the port.
  static std::string name_in(std::string_view text);

  void start();
  void stop();

  // ---- any thread ----

  [[nodiscard]] Port& port() { return *port_; }
  // Packets that the host left unfinished in a way that the uplink does not finish.
  [[nodiscard]] std::uint64_t unfinished() const { return host_->unfinished(); }
  // Packets that were lost because the uplink did not take them in time.
  [[nodiscard]] std::uint64_t overruns() { return host_->overruns(); }
  // Runs `task` in the uplink's thread and waits for it. Returns false if the thread does not run.
  bool call(const std::function<void()>& task);

  // PortUser
  void frames_wait() override { wake(); }
  void room() override;

  // ---- within call() ----

  // Captures all frames from now on, as the switch sees them; null ends the capture.
  void set_capture(std::unique_ptr<Capture> capture) { capture_ = std::move(capture); }
  // Returns the reason if the text is wrong.
  std::string set_faults(const std::string& text);
  [[nodiscard]] std::string faults() const { return faults_ ? faults_->report() : ""; }

 private:
  void wake();
  void loop();
  void watch_link();
  bool run_faults();
  bool take_in();
  [[nodiscard]] std::span<const std::byte> incoming();
  void pop_incoming();
  bool send_out();
  bool send_front();
  bool send_held();
  void sleep();

  std::unique_ptr<HostInterface> host_;
  std::unique_ptr<LinkWatch> link_;
  Descriptor wake_;
  Port* port_ = nullptr;
  std::atomic<bool> sleeping_ = false;
  std::atomic<bool> has_room_ = true;
  std::atomic<bool> stop_ = false;
  TaskQueue tasks_;

  // The thread.
  std::unique_ptr<Capture> capture_;
  // Made with the first rules. After the last ones it still passes on what they held back.
  std::unique_ptr<UplinkFaults> faults_;
  bool gone_ = false;                 // the interface was deleted
  bool blocked_out_ = false;          // it takes no more for now
  std::uint64_t due_ = UINT64_MAX;    // of the port's next frame
  std::span<const std::byte> frame_;  // offered to the switch; empty: none
  std::uint64_t frame_time_ = 0;

  std::thread thread_;
};

}  // namespace tern::daemon
