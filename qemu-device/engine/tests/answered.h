// SPDX-License-Identifier: GPL-2.0-or-later
// Two connected nodes, for tests of requests that are answered by an empty READ response: FLUSH and
// ATOMIC WRITE.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tests/mini_driver.h"
#include "wire/codec.h"

namespace tern {

class AnsweredTest : public ::testing::Test {
 protected:
  Sim sim{7};
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(65536);
  TestMr& dst = b.reg(65536);
  TestQp* qa = nullptr;
  TestQp* qb = nullptr;

  void SetUp() override { connect(); }
  void connect(const QpOptions& options = {}) {
    const auto [x, y] = rc_pair(a, b, options);
    qa = &x;
    qb = &y;
  }
  // The requester refuses, and the responder notices nothing.
  void expect_local(const SendWr& wr, std::uint8_t status) {
    connect();
    qa->post(wr);
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
    sim.run_until_idle();
    EXPECT_EQ(qb->query().attr.state, TERN_QPS_RTS);
  }
  // The responder refused: both QPs are in error, and b got the event.
  void expect_refused(std::uint8_t status, std::uint16_t event) {
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
    sim.run_until_idle();
    EXPECT_EQ(qa->query().attr.state, TERN_QPS_ERR);
    EXPECT_EQ(qb->query().attr.state, TERN_QPS_ERR);
    EXPECT_TRUE(a.async_events().empty());
    const auto events = b.async_events();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(le(events[0].type), event);
    EXPECT_EQ(le(events[0].id), qb->number());
  }

  // Opcode of a frame in these tests, which use untagged IPv6.
  static std::uint8_t opcode_of(std::span<const std::byte> frame) {
    return std::to_integer<std::uint8_t>(frame[62]);
  }
  // Loses the first `count` frames of node `from` with this opcode.
  void lose(unsigned from, Op op, int count) {
    sim.pass = [=](unsigned node, std::span<const std::byte> f) mutable {
      return node != from || opcode_of(f) != static_cast<std::uint8_t>(op) || count-- <= 0;
    };
  }
  // Applies `change` to every frame to b, or to every frame to a.
  void forge(std::function<void(Packet&)> change) { forge(0, b, std::move(change)); }
  void forge_back(std::function<void(Packet&)> change) { forge(1, a, std::move(change)); }
  // The frame after `change` has been applied.
  std::vector<std::byte> forged(std::span<const std::byte> f,
                                const std::function<void(Packet&)>& change) {
    Packet packet(a.host);
    EXPECT_EQ(parse_route(f, packet.route), ParseResult::kOk);
    EXPECT_EQ(parse_packet(f, packet), ParseResult::kOk);
    change(packet);
    std::vector<std::byte> out(f.size() + kMaxFrameOverhead);
    out.resize(serialize(packet, 1, out));
    return out;
  }

 private:
  void forge(unsigned from, TestNode& to, std::function<void(Packet&)> change) {
    sim.pass = [=, this, &to, change = std::move(change)](unsigned node,
                                                          std::span<const std::byte> f) {
      if (node != from) return true;
      to.receive(forged(f, change));
      to.wake();
      return false;
    };
  }
};

}  // namespace tern
