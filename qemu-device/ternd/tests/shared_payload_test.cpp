// SPDX-License-Identifier: GPL-2.0-or-later
// Adapters with zero-copy=on read payload in the memory of each other's guests.
#include <gtest/gtest.h>
#include <linux/pci_regs.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <semaphore>

#include "fixture.h"

namespace tern::daemon {
namespace {

using test::Qp;
using test::wait_until;

// DMA address of a region beside the machine's memory.
constexpr std::uint64_t kBeside = std::uint64_t{1} << 32;
constexpr std::uint64_t kPage = 4096;

struct SharedPayloadTest : AdapterFixture {
  static void fill(std::span<std::byte> bytes, unsigned value) {
    std::ranges::fill(bytes, static_cast<std::byte>(value));
  }
  static bool has(std::span<const std::byte> bytes, unsigned value) {
    return std::ranges::all_of(bytes,
                               [value](std::byte b) { return b == static_cast<std::byte>(value); });
  }
};

TEST_F(SharedPayloadTest, OnlyBothTogether) {
  make(1);
  parts.add(parse_adapter(path(2) + ",mac=52:54:00:77:00:02,zero-copy=off")).start();
  ConnectedPair pair(attach(1), attach(2));
  exchange(pair.qa, pair.qb, 1);
  exchange(pair.qb, pair.qa, 2);
}

// Frames wait in the queue of the receiver while something ends the sender's right to its memory.
struct TakenBackTest : SharedPayloadTest {
  static constexpr std::uint32_t kWindow = 100'000;  // that a QP sends without an ACK
  TakenBackTest() { make(2, ",lanes=1"); }
  void expect(const std::function<void(TestMachine& a)>& end) {
    TestMachine& b = attach(2);
    TestMachine a(path(1), 1);
    a.bring_up();
    ConnectedPair pair(a, b);
    std::binary_semaphore held{0};
    auto ticket = adapter(2).post([&] { held.acquire(); });
    fill(pair.qa.source(), 1);
    pair.qa.post(kWindow);
    pair.qa.ring();
    const Port& queue = fabric.ports()[1];
    EXPECT_TRUE(wait_until([&] { return queue.queue_length() > 65536; }));
    end(a);
    fill(pair.qa.source(), 0xee);
    held.release();
    EXPECT_TRUE(ticket.wait());
    EXPECT_TRUE(wait_until([&] { return queue.queue_length() == 0; }));
    EXPECT_GT(std::ranges::count(pair.qb.target(), std::byte{1}), 65536 / 2);
    EXPECT_EQ(std::ranges::count(pair.qb.target(), std::byte{0xee}), 0);
  }
};

TEST_F(TakenBackTest, ByTheEndOfItsMemory) {
  expect([](TestMachine& a) { EXPECT_EQ(a.client.unmap(0, TestMachine::kMemory), 0); });
}

TEST_F(TakenBackTest, ByBusMasterEnable) {
  expect([](TestMachine& a) { a.set_bus_master(false); });
}

TEST_F(TakenBackTest, ByTheStateOfItsPower) {
  expect([](TestMachine& a) {
    constexpr std::uint64_t kControl = 0x40 + PCI_PM_CTRL;  // of the power management capability
    constexpr std::uint16_t kD3 = 3;
    EXPECT_EQ(a.client.write(Client::kConfig, kControl, &kD3, sizeof(kD3)), 0);
  });
}

TEST_F(TakenBackTest, ByAReset) {
  expect([](TestMachine& a) { EXPECT_EQ(a.client.reset(), 0); });
}

TEST_F(TakenBackTest, ByACommand) {
  expect([](TestMachine& a) { (void)a.alloc_pd(); });
}

TEST_F(TakenBackTest, ByTheEndOfItsAdapter) {
  expect([this](TestMachine&) { parts.remove(parts.adapters().front()); });
}

// Regions come and go at both ends while one reads from the other.
TEST_F(SharedPayloadTest, RegionsComeAndGo) {
  make(2);
  TestMachine& a = attach(1);
  TestMachine& b = attach(2);
  ConnectedPair pair(a, b);
  const Descriptor file = checked(memfd_create("m", MFD_CLOEXEC), "memfd");
  ASSERT_EQ(ftruncate(file.get(), kPage), 0);
  for (unsigned round = 0; round < 50; ++round) {
    fill(pair.qa.source(), round);
    pair.qa.post(Qp::kBytes, 4);
    pair.qa.ring();
    TestMachine& changes = round % 2 == 0 ? a : b;
    EXPECT_EQ(changes.client.map(kBeside, kPage, file.get(), 0), 0);
    EXPECT_EQ(changes.client.unmap(kBeside, kPage), 0);
    ASSERT_TRUE(pair.qa.drain());
    ASSERT_EQ(pair.qa.failed(), 0U);
    // The memory has a new use, which its peer never sees.
    fill(pair.qa.source(), 0xff);
    ASSERT_TRUE(has(pair.qb.target(), round)) << round;
  }
}

// Frames wait in the queue of the receiver while their sender goes.
TEST_F(SharedPayloadTest, SendersGo) {
  make(3);
  TestMachine& b = attach(2);
  for (unsigned round = 0; round < 10; ++round) {
    {
      TestMachine a(path(1), 1);
      a.bring_up();
      ConnectedPair pair(a, b);
      pair.qa.post(Qp::kBytes, 8);
      pair.qa.ring();
    }
    EXPECT_TRUE(wait_until([&] { return !attached(1); }));
  }
  ConnectedPair pair(b, attach(3));
  exchange(pair.qa, pair.qb, 3);
}

// The sender's memory is shorter than it says: its peer finds out, and only the sender is dropped.
TEST_F(SharedPayloadTest, MemoryThatIsMissingCostsItsOwner) {
  make(2);
  TestMachine& b = attach(2);
  for (unsigned round = 0; round < 10; ++round) {
    TestMachine a(path(1), 1);
    a.bring_up();
    ConnectedPair pair(a, b);
    pair.qa.post(Qp::kBytes, 16);
    // The source is what was allocated last.
    ASSERT_EQ(ftruncate(a.file.get(), pair.qa.source().data() - a.memory().data()), 0);
    pair.qa.ring();
    EXPECT_TRUE(a.client.ended());
    EXPECT_TRUE(wait_until([&] { return !attached(1); }));
    EXPECT_TRUE(attached(2));
  }
}

}  // namespace
}  // namespace tern::daemon
