// SPDX-License-Identifier: GPL-2.0-or-later
// Hypervisors that break the protocol or stop reading. The others must not notice.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "adapter.h"
#include "client.h"
#include "fixture.h"
#include "protocol.h"

namespace tern::daemon {
namespace {

using test::Qp;
using test::wait_until;

using protocol::Header;

// `size`: what the header says.
std::vector<std::byte> message(std::uint16_t command, std::uint32_t size, std::size_t body) {
  std::vector<std::byte> m(sizeof(Header) + body);
  const Header h{1, command, size, 0, 0};
  std::memcpy(m.data(), &h, sizeof(h));
  return m;
}

// Two machines that exchange data on adapters 1 and 2; adapter 3 is for the hostile one.
struct HostileTest : PairFixture {
  HostileTest() : PairFixture(3) {}
  void others_work() {
    exchange(*qa, *qb, ++seed);
    EXPECT_TRUE(attached(1));
    EXPECT_TRUE(attached(2));
  }
  void adapter_works() { expect_usable(3); }

  unsigned seed = 0;
};

TEST_F(HostileTest, MemoryThatMayNotBeRead) {
  for (const std::uint32_t flags : {0U, protocol::kWritable}) {
    SCOPED_TRACE(flags);
    Client c(path(3));
    const Descriptor file = checked(memfd_create("m", MFD_CLOEXEC), "memfd");
    ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
    const int fd = file.get();
    const protocol::DmaMap map{.flags = flags, .offset = 0, .addr = 0, .size = 1 << 20};
    EXPECT_EQ(c.command(protocol::kDmaMap, protocol::bytes_of(map), std::span(&fd, 1)), 0);
    EXPECT_EQ(c.use_queues(65536), 0);
    EXPECT_TRUE(wait_until([&] {
      std::uint32_t status = 0;
      return c.read(TERN_BAR_REGS, TERN_REG_STATUS, &status, sizeof(status)) != 0 ||
             (status & TERN_STATUS_FATAL) != 0;
    }));
    others_work();
    EXPECT_TRUE(attached(3))
        << "an access that is not allowed is an error of the device, not of the protocol";
  }
  ASSERT_TRUE(wait_until([&] { return !attached(3); }));
  adapter_works();
}

// A region whose file is gone when the adapter reads its queue there. Huge pages cannot be replaced
// in part.
TEST_F(HostileTest, MemoryThatIsGone) {
  constexpr std::uint64_t kSize = std::uint64_t{4} << 20;
  for (const unsigned kind : {0U, unsigned{MFD_HUGETLB}}) {
    const Descriptor file = checked(memfd_create("m", MFD_CLOEXEC | kind), "memfd");
    Client c(path(3));
    if (ftruncate(file.get(), kSize) != 0 || c.map(0, kSize, file.get(), 0) != 0) {
      ASSERT_NE(kind, 0U);
      continue;  // the host has no pool of huge pages
    }
    ASSERT_EQ(ftruncate(file.get(), 0), 0);
    EXPECT_EQ(c.use_queues(65536), 0);
    EXPECT_TRUE(c.ended());
    others_work();
    ASSERT_TRUE(wait_until([&] { return !attached(3); }));
  }
  adapter_works();
}

TEST_F(HostileTest, SaysNothing) {
  const Descriptor silent = connect_to(path(3));
  others_work();
  EXPECT_TRUE(adapter(3).call([] {})) << "the adapter's thread waits for a version for ever";
  char c = 0;
  EXPECT_LE(recv(silent.get(), &c, 1, 0), 0) << "dropped";
  adapter_works();
}

TEST_F(HostileTest, SaysNothingWhenTheDaemonStops) {
  const Descriptor silent = connect_to(path(3));
  EXPECT_TRUE(wait_until([&] {
    int unread = 0;
    return ioctl(silent.get(), SIOCOUTQ, &unread) == 0 && unread == 0;
  }));
  EXPECT_TRUE(adapter(3).stop());
}

// A machine whose adapter waits in an interrupt: a blocking eventfd whose counter is full.
struct BlockedMachine {
  explicit BlockedMachine(const std::string& path) : m(path, 3) {
    m.bring_up();
    EXPECT_EQ(eventfd_write(full.get(), UINT64_MAX - 1), 0);
    EXPECT_EQ(m.client.set_vector(TestMachine::kCompletionVector, full.get()), 0);
    Qp& x = qps.emplace_back(m);
    AdapterFixture::connect(x, qps.emplace_back(m));
    thread = std::thread([&x] {
      x.arm();
      x.post(64);
      x.ring();
    });
  }
  ~BlockedMachine() { thread.join(); }

  TestMachine m;
  Descriptor full = checked(eventfd(0, EFD_CLOEXEC), "eventfd");
  std::deque<Qp> qps;
  std::thread thread;
};

TEST_F(HostileTest, BlocksInAnInterruptWhenTheDaemonStops) {
  const BlockedMachine m(path(3));
  others_work();
  EXPECT_TRUE(adapter(3).stop()) << "its thread waits in write()";
}

TEST_F(HostileTest, GarbageInsteadOfAVersion) {
  {
    const Descriptor s = connect_to(path(3));
    const std::vector<std::byte> garbage(4096, std::byte{0xa5});
    ASSERT_GT(send(s.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
    others_work();
  }
  adapter_works();
}

TEST_F(HostileTest, HalfAMessage) {
  {
    Client c(path(3));
    c.send_raw(message(9, 16 + 16, 4));
    others_work();
    EXPECT_TRUE(c.ended()) << "the rest does not come";
  }
  adapter_works();
}

TEST_F(HostileTest, MessagesOfImpossibleLengths) {
  for (const std::uint32_t size : {0U, 15U, 1U << 30, UINT32_MAX}) {
    Client c(path(3));
    c.send_raw(message(9, size, 0));
    others_work();
  }
  adapter_works();
}

TEST_F(HostileTest, WrongCommandsAreRefusedAndTheConnectionGoesOn) {
  Client c(path(3));
  const std::vector<std::byte> body(64);
  for (const std::uint16_t number :
       {std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{15}, std::uint16_t{999}}) {
    EXPECT_NE(c.command(number, body), 0) << number;
  }
  std::uint32_t magic = 0;
  EXPECT_EQ(c.read(TERN_BAR_REGS, TERN_REG_MAGIC, &magic, 4), 0);
  EXPECT_EQ(magic, std::uint32_t{TERN_MAGIC});
}

TEST_F(HostileTest, RegionsOutsideTheirBounds) {
  Client c(path(3));
  std::uint32_t value = 0;
  EXPECT_NE(c.read(TERN_BAR_REGS, TERN_BAR_REGS_SIZE, &value, 4), 0);
  EXPECT_NE(c.read(TERN_BAR_REGS, UINT64_MAX - 1, &value, 4), 0);
  EXPECT_NE(c.read(1, 0, &value, 4), 0);
  EXPECT_NE(c.read(99, 0, &value, 4), 0);
  EXPECT_NE(c.write(Client::kConfig, 4094, &value, 4), 0);
  std::vector<std::byte> all(4096);
  EXPECT_EQ(c.read(Client::kConfig, 0, all.data(), 4096), 0);
  EXPECT_EQ(c.write(Client::kConfig, 0, all.data(), 4096), 0);
}

TEST_F(HostileTest, MemoryThatIsNoneOrOverlaps) {
  Client c(path(3));
  const Descriptor file = checked(memfd_create("m", MFD_CLOEXEC), "memfd");
  ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
  EXPECT_NE(c.map(0, 0, file.get(), 0), 0) << "no length";
  EXPECT_NE(c.map(UINT64_MAX - 4095, 8192, file.get(), 0), 0) << "wraps";
  EXPECT_EQ(c.map(0, 1 << 20, file.get(), 0), 0);
  EXPECT_NE(c.map(4096, 4096, file.get(), 0), 0) << "overlaps";
  EXPECT_NE(c.map(0, 1 << 20, file.get(), 4096), 0) << "the same with another offset";
  EXPECT_NE(c.unmap(0, 4096), 0) << "a part";
  EXPECT_NE(c.unmap(4096, 1 << 20), 0) << "a part at its end";
  EXPECT_NE(c.unmap(0, 0), 0);
  EXPECT_NE(c.unmap(4096, UINT64_MAX - 4095), 0) << "wraps";
  EXPECT_EQ(c.unmap(1 << 20, 4096), 0) << "nothing is there, as with the kernel's VFIO";
  const Descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_NE(c.map(1 << 24, 4096, null.get(), 0), 0) << "not mappable";
  EXPECT_NE(c.map(1 << 25, std::uint64_t{1} << 60, file.get(), 0), 0) << "too long";
  EXPECT_EQ(c.map(0, 1 << 20, file.get(), 0), 0) << "the same once more";
  EXPECT_EQ(c.unmap(0, 1 << 20), 0);
  std::uint64_t left = 1;
  EXPECT_TRUE(adapter(3).call([&] { left = adapter(3).status().memory; }));
  EXPECT_EQ(left, 0U);
}

unsigned open_descriptors() {
  unsigned n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

TEST_F(HostileTest, DescriptorsDoNotLeak) {
  const unsigned before = open_descriptors();
  {
    Client c(path(3));
    const Descriptor file = checked(memfd_create("m", MFD_CLOEXEC), "memfd");
    ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
    const std::array<int, 8> eight{file.get(), file.get(), file.get(), file.get(),
                                   file.get(), file.get(), file.get(), file.get()};
    std::vector<std::byte> body(32);
    for (int i = 0; i < 200; ++i) {
      (void)c.map(0, 1 << 20, file.get(), 0);     // the same region again
      (void)c.map(1, UINT64_MAX, file.get(), 0);  // refused
      for (std::uint16_t n = 2; n < 14; ++n) (void)c.command(n, body, eight);
    }
  }
  ASSERT_TRUE(wait_until([&] { return !attached(3); }));
  EXPECT_LE(open_descriptors(), before);
  others_work();
}

TEST_F(HostileTest, InterruptsOutsideTheirRange) {
  Client c(path(3));
  const Descriptor event = checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  EXPECT_EQ(c.set_vector(31, event.get()), 0);
  EXPECT_NE(c.set_vector(32, event.get()), 0);
  EXPECT_NE(c.set_vector(UINT32_MAX, event.get()), 0);
  vfio_irq_set set{};
  set.argsz = sizeof(set);
  set.flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
  set.index = VFIO_PCI_MSIX_IRQ_INDEX;
  for (const auto& [start, count] :
       {std::pair{1U, UINT32_MAX}, std::pair{31U, UINT32_MAX - 29}, std::pair{0U, 33U}}) {
    set.start = start;
    set.count = count;
    EXPECT_NE(c.command(8, std::as_bytes(std::span(&set, 1))), 0) << start << " " << count;
  }
  others_work();
}

// QEMU sets the events of errors and of requests to release the device.
TEST_F(HostileTest, OtherInterruptsAreNotVectors) {
  Client c(path(3));
  const Descriptor vector = checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  const Descriptor other = checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  const auto set = [&c](unsigned index, unsigned data, unsigned count,
                        std::span<const int> fds = {}) {
    vfio_irq_set head{};
    head.argsz = sizeof(head);
    head.flags = data | VFIO_IRQ_SET_ACTION_TRIGGER;
    head.index = index;
    head.count = count;
    const std::byte yes[] = {std::byte{1}};
    const auto bools = std::span(yes).first(data == VFIO_IRQ_SET_DATA_BOOL ? 1 : 0);
    return c.command(protocol::kSetIrqs, protocol::joined(head, bools), fds);
  };
  const auto raised = [](const Descriptor& event) {
    eventfd_t value = 0;
    return eventfd_read(event.get(), &value) == 0;
  };
  EXPECT_EQ(c.set_vector(0, vector.get()), 0);
  for (const unsigned index : {VFIO_PCI_ERR_IRQ_INDEX, VFIO_PCI_REQ_IRQ_INDEX}) {
    const int fd = other.get();
    EXPECT_EQ(set(index, VFIO_IRQ_SET_DATA_EVENTFD, 1, {&fd, 1}), 0);
    for (const unsigned data : {VFIO_IRQ_SET_DATA_NONE, VFIO_IRQ_SET_DATA_BOOL}) {
      EXPECT_EQ(set(VFIO_PCI_MSIX_IRQ_INDEX, data, 1), 0);
      EXPECT_TRUE(raised(vector));
      EXPECT_FALSE(raised(other));
      EXPECT_EQ(set(index, data, 1), 0);
      EXPECT_FALSE(raised(vector));
      EXPECT_TRUE(raised(other));
    }
    EXPECT_EQ(set(index, VFIO_IRQ_SET_DATA_NONE, 0), 0);
  }
  EXPECT_EQ(set(VFIO_PCI_MSIX_IRQ_INDEX, VFIO_IRQ_SET_DATA_NONE, 1), 0);
  EXPECT_TRUE(raised(vector)) << "it is left";
}

TEST_F(HostileTest, AnEventThatCannotBeRaisedBlocksNobodyElse) {
  // As an interrupt of a machine that others send to.
  const BlockedMachine m(path(3));
  others_work();
  eventfd_t value;
  EXPECT_EQ(eventfd_read(m.full.get(), &value), 0);  // lets the adapter's thread go
}

TEST_F(HostileTest, AHypervisorThatReadsNoAnswers) {
  {
    Client c(path(3));
    const Header h{1, 9, 32, 0, 0};
    std::vector<std::byte> m(32);
    std::memcpy(m.data(), &h, sizeof(h));
    const std::uint32_t count = 4;
    std::memcpy(m.data() + 28, &count, sizeof(count));
    // More answers than the socket holds.
    fcntl(c.fd(), F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 100'000; ++i) {
      if (send(c.fd(), m.data(), m.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN) break;
    }
    others_work();
  }
  ASSERT_TRUE(wait_until([&] { return !attached(3); }));
  adapter_works();
}

TEST_F(HostileTest, AFrozenMachineDoesNotStopItsPeers) {
  // Its thread waits in an answer that nobody reads, while a peer sends to it.
  auto m = std::make_unique<TestMachine>(path(3), 3);
  m->bring_up();
  Qp q3(*m);
  Qp to3(*a);
  connect(to3, q3);
  exchange(to3, q3, 5);
  const Descriptor full = checked(eventfd(0, EFD_CLOEXEC), "eventfd");
  ASSERT_EQ(eventfd_write(full.get(), UINT64_MAX - 1), 0);
  ASSERT_EQ(m->client.set_vector(TestMachine::kCompletionVector, full.get()), 0);
  std::thread machine([&] {
    q3.arm();
    q3.post(64);
    q3.ring();
  });
  to3.post(Qp::kBytes, 16);
  to3.ring();
  for (int i = 0; i < 3; ++i) others_work();
  eventfd_t value;
  EXPECT_EQ(eventfd_read(full.get(), &value), 0);
  machine.join();
}

}  // namespace
}  // namespace tern::daemon
