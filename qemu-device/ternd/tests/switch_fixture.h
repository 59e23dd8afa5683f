// SPDX-License-Identifier: GPL-2.0-or-later
// A switch under simulated time, whose ports are served by the test.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "frames.h"
#include "switch.h"

namespace tern::daemon {

struct User final : PortUser {
  void frames_wait() override { ++woken; }
  void room() override { ++rooms; }
  // The last byte of a frame names its lane, if the user has lanes.
  [[nodiscard]] std::uint8_t lane_of(std::span<const std::byte> frame) const override {
    return std::to_integer<std::uint8_t>(frame.back());
  }
  std::atomic<unsigned> woken = 0;
  std::atomic<unsigned> rooms = 0;
};

struct SwitchTest : testing::Test {
  SwitchTest() {
    fabric.set_clock([this] { return now; });
  }
  void add(unsigned n, std::size_t queue = kQueue, Port::Kind kind = Port::Kind::kGuest) {
    for (unsigned i = 0; i < n; ++i)
      fabric.add("p" + std::to_string(fabric.ports().size()), users.emplace_back(), queue, kind)
          .set_link(true);
  }
  // A frame to all from one of many stations.
  static Bytes from_station(unsigned number) {
    Bytes f = frame(0xff, 1);
    f[8] = static_cast<std::byte>(number >> 16);
    f[9] = static_cast<std::byte>(number >> 8);
    f[10] = static_cast<std::byte>(number);
    return f;
  }
  // A frame to one of them.
  static Bytes to_station(unsigned number, unsigned from) {
    Bytes f = frame(1, from);
    f[2] = static_cast<std::byte>(number >> 16);
    f[3] = static_cast<std::byte>(number >> 8);
    f[4] = static_cast<std::byte>(number);
    return f;
  }
  void take_all() {
    for (std::size_t i = 0; i < fabric.ports().size(); ++i) take(i);
  }
  void pass(unsigned seconds) { now += seconds * std::uint64_t{1'000'000'000}; }
  Port& port(std::size_t i) { return fabric.ports().at(i); }

  // A frame between stations, each the last byte of its address; 0xff: broadcast.
  static Bytes frame(unsigned to, unsigned from, std::size_t len = 64, int vlan = -1) {
    Bytes f(len);
    const auto address = [&](std::size_t at, unsigned station) {
      f[at] = static_cast<std::byte>(station == 0xff ? 0xff : 2);
      for (std::size_t i = 1; i < 6; ++i)
        f[at + i] = static_cast<std::byte>(station == 0xff ? 0xff : 0);
      f[at + 5] = static_cast<std::byte>(station);
    };
    address(0, to);
    address(6, from);
    f[12] = std::byte{8};
    if (vlan < 0) return f;
    const std::array<std::byte, 4> tag{std::byte{0x81}, std::byte{0},
                                       static_cast<std::byte>(vlan >> 8),
                                       static_cast<std::byte>(vlan)};
    f.insert(f.begin() + 12, tag.begin(), tag.end());
    return f;
  }
  static std::span<const std::byte, 6> address_of(const Bytes& f) {
    return std::span(f).subspan<6, 6>();
  }

  Port::Sent send(std::size_t from, const Bytes& f) { return port(from).send({f}, now); }
  // Takes all frames that leave through a port.
  std::vector<Bytes> take(std::size_t i) {
    std::vector<Bytes> taken;
    for (auto f = port(i).front(now, nullptr); !f.empty(); f = port(i).front(now, nullptr)) {
      taken.emplace_back(f.bytes.begin(), f.bytes.end());
      port(i).pop();
    }
    port(i).release();
    return taken;
  }

  Switch fabric;
  std::deque<User> users;
  std::uint64_t now = 1'000'000'000;
};

}  // namespace tern::daemon
