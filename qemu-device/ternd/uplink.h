// SPDX-License-Identifier: GPL-2.0-or-later
// A port of the switch to a network of the host: a tap, or any Ethernet interface by a packet
// socket. It has a thread.
//
// The host's stack may leave the checksum of a packet to the interface. A packet socket then hands
// it over unfinished, with a virtio-net header; the uplink finishes it. It discards packets that the
// host left to the interface to segment: they are longer than the MTU.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>

#include "descriptor.h"
#include "frame.h"
#include "switch.h"

namespace tern::daemon {

class Uplink final : public PortUser {
 public:
  // `text`: tap=NAME or packet=NAME, with properties of the port. Throws std::invalid_argument or
  // std::system_error.
  Uplink(std::string_view text, Switch& fabric);
  ~Uplink() override;

  void start();
  void stop();
  [[nodiscard]] Port& port() { return *port_; }
  // Packets that the host left unfinished in a way that the uplink does not finish.
  [[nodiscard]] std::uint64_t unfinished() const { return unfinished_.load(std::memory_order_relaxed); }

  // PortUser
  void frames_wait() override { wake(); }
  void room() override;

 private:
  void open_tap(const std::string& name);
  void open_packet(const std::string& name);
  void wake();
  void loop();
  bool take_in();
  bool receive();
  bool send_out();
  void sleep(bool writable);

  bool packet_ = false;
  Descriptor file_;
  Descriptor wake_;
  Port* port_ = nullptr;
  std::atomic<bool> sleeping_ = false;
  std::atomic<bool> has_room_ = true;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> unfinished_ = 0;
  std::uint64_t due_ = UINT64_MAX;  // of the port's next frame
  bool blocked_out_ = false;        // the interface takes no more for now

  // A frame from the host, from kTag on; before it is room for a tag.
  alignas(16) std::array<std::byte, kTag + 65536> in_{};
  std::span<const std::byte> frame_;
  std::uint64_t frame_time_ = 0;

  std::thread thread_;
};

// Finishes the checksum of a packet: that of the bytes from `start` on goes `offset` bytes behind it.
// Returns false if there is no room for it.
bool finish_checksum(std::span<std::byte> frame, std::size_t start, std::size_t offset);

}  // namespace tern::daemon
