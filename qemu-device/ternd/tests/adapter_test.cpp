// SPDX-License-Identifier: GPL-2.0-or-later
// Adapters of a daemon, with test clients as their hypervisors.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/pci_regs.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <thread>

#include "adapter.h"
#include "client.h"
#include "fixture.h"

namespace tern::daemon {
namespace {

using test::Qp;
using test::wait_until;

using AdapterTest = AdapterFixture;

TEST_F(AdapterTest, TwoMachinesWriteToEachOther) {
  make(2);
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  exchange(qa, qb, 1);
  exchange(qb, qa, 2);
  EXPECT_EQ(fabric.ports()[0].counters().out_discards, 0U);
}

TEST_F(AdapterTest, AMachineWritesToItself) {
  make(1);
  TestMachine& a = attach(1);
  Qp x(a);
  Qp y(a);
  connect(x, y);
  exchange(x, y, 3);
  EXPECT_EQ(fabric.ports()[0].counters().in_frames, 0U);
}

TEST_F(AdapterTest, AnArmedCqRaisesAnInterrupt) {
  make(2);
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(qa.arm()) << "no CQE is there: no message";
    qa.post(64);
    qa.ring();
    ASSERT_TRUE(a.wait_interrupt()) << i;
    EXPECT_FALSE(qa.arm()) << "the CQE that is there was reported";
    ASSERT_TRUE(qa.drain());
    a.take_events();
  }
}

TEST_F(AdapterTest, AHypervisorIsReplaced) {
  make(2);
  TestMachine& a = attach(1);
  Qp qa(a);
  for (unsigned round = 0; round < 5; ++round) {
    std::optional<TestMachine> b(std::in_place, path(2), 2);
    b->bring_up();
    EXPECT_TRUE(fabric.ports()[1].link());
    Qp qb(*b);
    Qp another(a);
    connect(another, qb);
    exchange(another, qb, round);
    // It goes away while the device works.
    another.post(Qp::kBytes, 8);
    another.ring();
    b.reset();
    ASSERT_TRUE(wait_until([&] { return !attached(2); }));
    EXPECT_FALSE(fabric.ports()[1].link());
    EXPECT_TRUE(attached(1)) << "the other is undisturbed";
    a.forget();
    a.client.reset();
    a.set_bus_master(true);
    a.bring_up();
  }
}

TEST_F(AdapterTest, AResetAndAnFlrEndEverything) {
  make(1);
  TestMachine& a = attach(1);
  const auto enabled = [&] { return (a.reg_read(TERN_REG_STATUS) & TERN_STATUS_ENABLED) != 0; };
  EXPECT_TRUE(enabled());
  EXPECT_EQ(a.client.reset(), 0);
  EXPECT_FALSE(enabled());
  std::uint16_t command = 0;
  EXPECT_EQ(a.client.read(Client::kConfig, PCI_COMMAND, &command, sizeof(command)), 0);
  EXPECT_EQ(command & PCI_COMMAND_MASTER, 0);
  a.set_bus_master(true);
  a.forget();
  a.bring_up();
  EXPECT_TRUE(enabled());
  EXPECT_EQ(a.client.reset_function(), 0);
  EXPECT_FALSE(enabled());
  a.set_bus_master(true);
  a.forget();
  a.bring_up();
  EXPECT_TRUE(enabled());
}

TEST_F(AdapterTest, WithoutBusMasterThereIsNoDma) {
  make(2);
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  b.set_bus_master(false);
  std::ranges::fill(qb.target(), std::byte{0});
  qa.source()[0] = std::byte{1};
  qa.post(64);
  qa.ring();
  EXPECT_TRUE(qa.drain());
  EXPECT_EQ(qa.failed(), 1U);
  EXPECT_EQ(qb.target()[0], std::byte{0});
}

TEST_F(AdapterTest, UnmappedMemoryIsNotTouched) {
  make(2);
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  // The buffer's memory goes while WRITEs arrive. After the answer the adapter cannot store there.
  qa.source()[0] = std::byte{1};
  qa.post(Qp::kBytes, 16);
  qa.ring();
  const auto at = static_cast<std::uint64_t>(qb.target().data() - b.memory().data());
  ASSERT_EQ(b.client.unmap(0, TestMachine::kMemory), 0);
  std::ranges::fill(qb.target(), std::byte{0x5a});
  EXPECT_EQ(b.client.map(0, at, b.file.get(), 0), 0);
  EXPECT_EQ(b.client.map(at + Qp::kBytes, TestMachine::kMemory - at - Qp::kBytes, b.file.get(),
                         at + Qp::kBytes),
            0);
  EXPECT_TRUE(qa.drain());
  EXPECT_TRUE(std::ranges::all_of(qb.target(), [](std::byte x) { return x == std::byte{0x5a}; }));
  EXPECT_GT(qa.failed(), 0U);
}

// As a vIOMMU does: it maps page by page, and unmaps ranges.
TEST_F(AdapterTest, ARangeOfRegionsIsUnmapped) {
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kPages = 64;
  make(1);
  TestMachine m(path(1), 1);
  const auto mapped = [&] {
    std::uint64_t bytes = 0;
    EXPECT_TRUE(adapter(1).call([&] { bytes = adapter(1).status().memory; }));
    return bytes;
  };
  const std::uint64_t before = mapped();
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 36;
  for (std::uint64_t i = 0; i < kPages; ++i) {
    ASSERT_EQ(m.client.map(kFirst + i * kPage, kPage, m.file.get(), i * kPage), 0);
  }
  EXPECT_EQ(mapped(), before + kPages * kPage);
  EXPECT_EQ(m.client.unmap(kFirst + 4 * kPage, 8 * kPage), 0);
  EXPECT_EQ(mapped(), before + (kPages - 8) * kPage);
  EXPECT_EQ(m.client.map(kFirst + 5 * kPage, kPage, m.file.get(), 60 * kPage), 0)
      << "another page is there now";
  EXPECT_EQ(m.client.unmap(kFirst, std::uint64_t{1} << 36), 0) << "all that is left, and a hole";
  EXPECT_EQ(mapped(), before);
  EXPECT_EQ(m.client.unmap(kFirst, kPages * kPage), 0);
}

TEST_F(AdapterTest, ReadOnlyMemoryIsNotWritten) {
  make(1);
  TestMachine m(path(1), 1);
  ASSERT_EQ(m.client.unmap(0, TestMachine::kMemory), 0);
  ASSERT_EQ(m.client.map(0, TestMachine::kMemory, m.file.get(), 0, false), 0);
  m.reg_write(TERN_REG_AQ_BASE_LO, 4096);
  m.reg_write(TERN_REG_AQ_BASE_HI, 0);
  m.reg_write(TERN_REG_ACQ_BASE_LO, 8192);
  m.reg_write(TERN_REG_ACQ_BASE_HI, 0);
  m.reg_write(TERN_REG_AQ_LOG_SIZE, 4);
  m.reg_write(TERN_REG_CTRL, TERN_CTRL_ENABLE);
  m.reg_write(TERN_REG_AQ_TAIL, 1);
  EXPECT_TRUE(wait_until([&] { return (m.reg_read(TERN_REG_STATUS) & TERN_STATUS_FATAL) != 0; }));
  EXPECT_TRUE(std::ranges::all_of(m.memory(), [](std::byte x) { return x == std::byte{0}; }));
}

TEST_F(AdapterTest, AFileThatIsTooShortCostsOnlyItsHypervisor) {
  make(2);
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  ASSERT_EQ(ftruncate(b.file.get(), 4096), 0);
  qa.post(Qp::kBytes, 4);
  qa.ring();
  EXPECT_TRUE(b.client.ended());
  EXPECT_TRUE(wait_until([&] { return !attached(2); }));
  EXPECT_TRUE(attached(1));
}

TEST_F(AdapterTest, DeviceMemoryIsSharedAndNewForTheNextHypervisor) {
  make(1, ",dm-size=64K");
  Descriptor old;
  {
    TestMachine m(path(1), 1);
    std::uint64_t size = 0;
    old = m.client.dm_file(&size);
    ASSERT_TRUE(old);
    EXPECT_EQ(size, 65536U);
    EXPECT_EQ(pwrite(old.get(), "secret", 6, 0), 6);
    EXPECT_NE(ftruncate(old.get(), 0), 0) << "sealed";
  }
  ASSERT_TRUE(wait_until([&] { return !attached(1); }));
  TestMachine m(path(1), 1);
  std::uint64_t size = 0;
  const Descriptor now = m.client.dm_file(&size);
  ASSERT_TRUE(now);
  std::array<char, 6> text{};
  EXPECT_EQ(pread(now.get(), text.data(), text.size(), 0), 6);
  EXPECT_THAT(text, testing::Each(0));
  // Who kept the old file does not see the new one.
  EXPECT_EQ(pwrite(now.get(), "new", 3, 0), 3);
  EXPECT_EQ(pread(old.get(), text.data(), text.size(), 0), 6);
  EXPECT_EQ(std::memcmp(text.data(), "secret", 6), 0);
}

// While the host has no descriptor for new device memory, the next hypervisor waits.
TEST_F(AdapterTest, AHypervisorWaitsForItsDeviceMemory) {
  make(1);
  {
    const TestMachine m(path(1), 1);
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit none{3, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_LT(memfd_create("m", 0), 0);
    EXPECT_EQ(shutdown(m.client.fd(), SHUT_RDWR), 0);
    EXPECT_TRUE(wait_until([&] { return !attached(1); }));
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  expect_usable(1);
}

TEST(DeviceMemoryTest, IsOldUntilItCanBeNew) {
  DeviceMemory memory(65536);
  memory.data()[0] = std::byte{1};
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{3, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_FALSE(memory.renew());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(memory.data()[0], std::byte{1});
  EXPECT_TRUE(memory.renew());
  EXPECT_EQ(memory.data()[0], std::byte{0});
}

TEST_F(AdapterTest, AccessesOfOtherSizesReadOnesAndWriteNothing) {
  make(1);
  TestMachine& m = attach(1);
  std::uint64_t wide = 0;
  EXPECT_EQ(m.client.read(TERN_BAR_REGS, TERN_REG_MAGIC, &wide, 8), 0);
  EXPECT_EQ(wide, UINT64_MAX);
  std::uint8_t narrow = 0;
  EXPECT_EQ(m.client.read(TERN_BAR_REGS, TERN_REG_MAGIC, &narrow, 1), 0);
  EXPECT_EQ(narrow, 0xff);
  const std::uint8_t reset = TERN_CTRL_RESET;
  EXPECT_EQ(m.client.write(TERN_BAR_REGS, TERN_REG_CTRL, &reset, 1), 0);
  EXPECT_NE(m.reg_read(TERN_REG_STATUS) & TERN_STATUS_ENABLED, 0U);
}

TEST_F(AdapterTest, TheLinkFollowsItsSetting) {
  make(1);
  adapter(1).call([&] { adapter(1).set_link(false); });
  attach(1);
  EXPECT_FALSE(fabric.ports()[0].link());
  adapter(1).call([&] { adapter(1).set_link(true); });
  EXPECT_TRUE(fabric.ports()[0].link());
}

TEST_F(AdapterTest, TheSpeedFollowsItsSetting) {
  make(1);
  adapter(1).call([&] { adapter(1).set_speed(400); });
  TestMachine& m = attach(1);
  const auto speed = [&] {
    return le(m.query<tern_rsp_port>(TERN_CMD_QUERY_PORT, tern_cmd_query_port{1, {}}).speed);
  };
  EXPECT_EQ(speed(), 400U);
  adapter(1).call([&] { adapter(1).set_speed(300); });
  EXPECT_EQ(speed(), 300U);
}

TEST_F(AdapterTest, FaultRulesAreSetAndRead) {
  make(1);
  std::string error, text;
  ASSERT_TRUE(adapter(1).call([&] {
    error = adapter(1).set_faults("nonsense");
    EXPECT_EQ(adapter(1).set_faults("drop rx"), "");
    text = adapter(1).faults();
  }));
  EXPECT_NE(error, "");
  EXPECT_THAT(text, testing::HasSubstr("drop"));
}

TEST_F(AdapterTest, AChangedRateEndsTheWait) {
  make(2);
  TestMachine& a = attach(1);
  TestMachine& b = attach(2);
  Qp qa(a);
  Qp qb(b);
  constexpr std::uint8_t kSecond = 18;
  qa.connect(qb, kSecond);
  qb.connect(qa, kSecond);
  Port& port = fabric.ports()[1];
  port.set_policy({.rate = 1});
  qa.post(64);
  qa.ring();
  ASSERT_TRUE(wait_until([&] { return port.queue_length() != 0; }));
  // Its thread finds the frame.
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(adapter(2).call([] {}));
  EXPECT_NE(port.queue_length(), 0U);
  port.set_policy({});
  EXPECT_TRUE(qa.drain());
  EXPECT_EQ(qa.failed(), 0U);
}

TEST_F(AdapterTest, ASecondDaemonRefusesAPathInUseAndTakesAStaleOne) {
  make(1);
  Switch other;
  EXPECT_THROW(Adapter(parse_adapter(path(1)), other), std::system_error);
  // A socket that nobody listens on.
  const std::string stale = path(7);
  {
    Descriptor s(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un addr{};
    addr.sun_family = AF_UNIX;
    stale.copy(addr.sun_path, sizeof(addr.sun_path) - 1);
    ASSERT_EQ(bind(s.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)), 0);
  }
  EXPECT_NO_THROW(Adapter(parse_adapter(stale), other));
  EXPECT_FALSE(std::filesystem::exists(stale));
}

}  // namespace
}  // namespace tern::daemon
