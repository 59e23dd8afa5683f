// SPDX-License-Identifier: GPL-2.0-or-later
// The limits of the process, divided among its adapters.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <memory>
#include <stdexcept>

#include "adapter_config.h"
#include "client.h"
#include "core/limits.h"
#include "fixture.h"
#include "share.h"

namespace tern::daemon {
namespace {

using test::Qp;
using test::wait_until;
using testing::HasSubstr;

constexpr std::uint64_t kMi = std::uint64_t{1} << 20;
constexpr std::uint64_t kGi = std::uint64_t{1} << 30;

TEST(ShareTest, IsAnEqualPart) {
  const HostLimits host{.mappings = 65530, .descriptors = 262144, .memory = 8 * kGi};
  const Share eight = divide(host, 8);
  EXPECT_EQ(eight.mapped, std::size_t{8} << 40);
  EXPECT_LT(8 * eight.regions, host.mappings);
  EXPECT_GT(8 * eight.regions, host.mappings * 9 / 10);
  EXPECT_EQ(eight.memory, kGi);
  const Share one = divide({.mappings = 1'000'000, .descriptors = 1'000'000, .memory = kGi}, 1);
  EXPECT_EQ(one.regions, 65535U);
  // Few descriptors.
  EXPECT_LT(4 * divide({.mappings = 65530, .descriptors = 4096, .memory = kGi}, 4).regions, 4096U);
  EXPECT_THROW((void)divide({.mappings = 65530, .descriptors = 1024, .memory = kGi}, 8),
               std::runtime_error);
  EXPECT_THROW((void)divide({.mappings = 2000, .descriptors = 65536, .memory = kGi}, 16),
               std::runtime_error);
}

TEST(ShareTest, LimitsPageLists) {
  AdapterConfig config = parse_adapter("a");
  limit_pages(config, {});
  EXPECT_EQ(config.engine.max_pages, std::uint64_t{64} << 20) << "the default";
  limit_pages(config, {.memory = kGi / 2});
  EXPECT_LT(config.engine.max_pages * 8, kGi / 2);
  EXPECT_GT(config.engine.max_pages * 8, kGi / 8);
  try {
    limit_pages(config, {.memory = kGi / 16});
    ADD_FAILURE() << "it fits";
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("--memory"));
  }
}

// The sizes are those that the engine's BudgetTest finds.
TEST(ShareTest, CountsAllThatAGuestCanMake) {
  const auto besides_pages = [](const std::string& properties) {
    AdapterConfig config = parse_adapter(
        "a,lanes=1,dm-size=0,uar-size=128K,max-qp=1,max-cq=1,max-mr=1,max-mw=0" + properties);
    limit_pages(config, {.memory = kGi / 2});
    EXPECT_LT(config.engine.max_pages, kMaxPages);
    return kGi / 2 - config.engine.max_pages * 8;
  };
  const std::uint64_t least = besides_pages("");
  EXPECT_GT(least, (kMaxPd + kMaxXrcd) * 152 + kMaxSrq * 280 + kMaxCounterSets * 648 +
                       kMaxMcastGroups * kMaxMcastQps * 74 + kMaxCompCounters * 184 +
                       kMaxFlows * 331 + kMaxFlowCounters * 56);
  EXPECT_GE(besides_pages(",max-qp=1001"), least + 1000 * 928);
  EXPECT_GE(besides_pages(",max-cq=1001"), least + 1000 * 472);
  EXPECT_GE(besides_pages(",max-mr=1001"), least + 1000 * 129);
  EXPECT_GE(besides_pages(",max-mw=1000"), least + 1000 * 129);
  EXPECT_GE(besides_pages(",dm-size=64M"), least + 64 * kMi + 16384 * 112);
  EXPECT_GE(besides_pages(",uar-size=64M"), least + (16384 - 32) * 80);
}

TEST(ShareTest, ThisHostServesAnAdapter) {
  const HostLimits host = HostLimits::read();
  EXPECT_GT(host.memory, std::uint64_t{64} << 20);
  EXPECT_GE(divide(host, 1).regions, 32U);
}

// Four adapters in a process with few descriptors. Two of their hypervisors map as many regions as
// they get.
struct GreedyTest : AdapterFixture {
  static constexpr rlim_t kFiles = 4096;
  static constexpr unsigned kAdapters = 4;
  static Share share() {
    Share share = divide({.mappings = 65530, .descriptors = kFiles, .memory = 16 * kGi}, kAdapters);
    share.mapped = std::min<std::size_t>(share.mapped, 256 * kGi);  // TSan leaves few addresses
    return share;
  }

  GreedyTest() : AdapterFixture(share()) {
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit few{std::min(kFiles, before.rlim_max), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~GreedyTest() override { setrlimit(RLIMIT_NOFILE, &before); }

  // Maps pages until one is refused. Returns their number.
  static std::size_t map_pages(Client& c, int fd) {
    constexpr std::uint64_t kPage = 4096;
    std::size_t n = 0;
    while (n < kFiles && c.map(std::uint64_t{2} * kPage * n, kPage, fd, 0) == 0) ++n;
    return n;
  }
  rlimit before{};
};

TEST_F(GreedyTest, TakesItsOwnPartOnly) {
  ASSERT_GE(before.rlim_max, kFiles);
  make(kAdapters);
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  const Descriptor file = checked(memfd_create("m", MFD_CLOEXEC), "memfd");
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  Client third(path(3));
  Client fourth(path(4));
  EXPECT_EQ(map_pages(third, file.get()), share().regions);
  EXPECT_EQ(map_pages(fourth, file.get()), share().regions) << "the other one has not taken them";
  // The others grow, take interrupts, and are replaced.
  EXPECT_EQ(b.client.map(kGi, 4096, b.file.get(), 0), 0);
  exchange(qa, qb, 1);
  const Descriptor event = checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  EXPECT_EQ(b.client.set_vector(9, event.get()), 0);
  exchange(qa, qb, 2);
  // What it gives back it can have again.
  EXPECT_EQ(third.unmap(0, 4096), 0);
  EXPECT_EQ(third.map(0, 4096, file.get(), 0), 0);
  EXPECT_NE(third.map(kGi, 4096, file.get(), 0), 0);
  EXPECT_TRUE(attached(3));
  EXPECT_TRUE(attached(4));
  EXPECT_TRUE(attached(1));
  EXPECT_TRUE(attached(2));
}

// A file may be shorter than its region, and a region longer than memory.
TEST_F(GreedyTest, MapsItsOwnPartOfTheAddressesOnly) {
  make(kAdapters);
  const Descriptor file = checked(memfd_create("m", MFD_CLOEXEC), "memfd");
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  for (const unsigned id : {3U, 4U}) {
    Client c(path(id));
    std::uint64_t mapped = 0;
    for (std::uint64_t size = std::uint64_t{8} << 40; size >= 4096; size /= 2) {
      while (mapped < share().mapped && c.map(mapped, size, file.get(), 0) == 0) mapped += size;
    }
    EXPECT_EQ(mapped, share().mapped) << "adapter " << id;
    EXPECT_NE(c.map(mapped, 4096, file.get(), 0), 0);
  }
}

}  // namespace
}  // namespace tern::daemon
