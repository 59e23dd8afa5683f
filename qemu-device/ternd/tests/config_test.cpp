// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/pci_regs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "adapter_config.h"
#include "config_space.h"
#include "guest_memory.h"
#include "options.h"
#include "tern_hw.hpp"
#include "uplink.h"

namespace tern::daemon {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    (void)parse_adapter(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(AdapterConfigTest, ThePathAloneIsEnough) {
  const AdapterConfig c = parse_adapter("/run/ternd/vm1.sock");
  EXPECT_EQ(c.path, "/run/ternd/vm1.sock");
  EXPECT_EQ(c.name, "vm1");
  EXPECT_EQ(c.engine.dm_size, 16U << 20);
  EXPECT_EQ(c.engine.mac[0] & 3, 2) << "locally administered, a station";
  EXPECT_EQ(c.engine.mac, parse_adapter("/run/ternd/vm1.sock").engine.mac);
  EXPECT_NE(c.engine.mac, parse_adapter("/run/ternd/vm2.sock").engine.mac);
}

TEST(AdapterConfigTest, TakesEachPropertyOfTheDevice) {
  const AdapterConfig c = parse_adapter(
      "a,name=x,mac=52:54:00:12:34:56,dm-size=0,uar-size=128K,max-qp=10,max-cq=11,max-mr=12,max-mw="
      "13,tm-tags=15,eth-queues=14,max-pages=2K,vectors=2,"
      "mtu=1500,speed=400000,mw-type=2a,odp=off,poll=off,pcap=f.pcap,pcap-limit=1M,"
      "events=f.log,events-limit=2M,faults=drop tx,icrc=warn");
  EXPECT_EQ(c.name, "x");
  EXPECT_THAT(c.engine.mac, testing::ElementsAre(0x52, 0x54, 0, 0x12, 0x34, 0x56));
  EXPECT_EQ(c.engine.dm_size, 0U);
  EXPECT_EQ(c.engine.uar_bar_size, 131072U);
  EXPECT_EQ(c.engine.max_qp, 10U);
  EXPECT_EQ(c.engine.max_cq, 11U);
  EXPECT_EQ(c.engine.max_mr, 12U);
  EXPECT_EQ(c.engine.max_mw, 13U);
  EXPECT_EQ(c.engine.max_tags, 15U);
  EXPECT_EQ(c.engine.max_eth_queues, 14U);
  EXPECT_EQ(c.engine.max_pages, 2048U);
  EXPECT_EQ(c.engine.num_vectors, 2U);
  EXPECT_EQ(c.engine.max_mtu, 1500U);
  EXPECT_EQ(c.engine.link_speed, 400000U);
  EXPECT_TRUE(c.engine.mw_type_2a);
  EXPECT_FALSE(c.engine.odp);
  EXPECT_FALSE(c.poll);
  EXPECT_EQ(c.pcap, "f.pcap");
  EXPECT_EQ(c.pcap_limit, 1U << 20);
  EXPECT_EQ(c.events, "f.log");
  EXPECT_EQ(c.events_limit, 2U << 20);
  EXPECT_EQ(c.faults, "drop tx");
  EXPECT_EQ(c.icrc, IcrcMode::kWarn);
}

TEST(AdapterConfigTest, TakesPropertiesOfThePort) {
  const PortPolicy p = parse_adapter(
                           "a,queue=1M,full=drop,rate=2.5G,delay=1.5us,red-min=10K,red-max=20K,red-"
                           "probability=10%,loss=0.5,vlan=7")
                           .port;
  EXPECT_EQ(p.queue, 1U << 20);
  EXPECT_TRUE(p.drop);
  EXPECT_EQ(p.rate, 2'500'000'000U);
  EXPECT_EQ(p.delay, 1500U);
  EXPECT_EQ(p.red_min, 10240U);
  EXPECT_EQ(p.red_max, 20480U);
  EXPECT_DOUBLE_EQ(p.red_probability, 0.1);
  EXPECT_DOUBLE_EQ(p.loss, 0.5);
  EXPECT_EQ(p.vlan, 7);
}

TEST(AdapterConfigTest, SaysWhatIsWrong) {
  EXPECT_THAT(refusal(",mtu=1500"), HasSubstr("path"));
  EXPECT_THAT(refusal("a,nothing=1"), HasSubstr("no property 'nothing'"));
  EXPECT_THAT(refusal("a,mtu"), HasSubstr("has no value"));
  EXPECT_THAT(refusal("a,mtu=100"), HasSubstr("from 1500 to 9216"));
  EXPECT_THAT(refusal("a,mtu=1500.5"), HasSubstr("from 1500 to 9216"));
  EXPECT_THAT(refusal("a,mtu=2K"), HasSubstr("number"));
  EXPECT_THAT(refusal("a,mtu=-1"), HasSubstr("number"));
  EXPECT_THAT(refusal("a,mtu=nan"), HasSubstr("number"));
  EXPECT_THAT(refusal("a,mtu="), HasSubstr("number"));
  EXPECT_THAT(refusal("a,dm-size=1"), HasSubstr("multiple of 64K"));
  EXPECT_THAT(refusal("a,dm-size=128G"), HasSubstr("dm-size"));
  EXPECT_THAT(refusal("a,uar-size=200K"), HasSubstr("power of two"));
  EXPECT_THAT(refusal("a,max-mw=16777213"), HasSubstr("max-mr"));
  EXPECT_THAT(refusal("a,tm-tags=4097"), HasSubstr("tm-tags"));
  EXPECT_THAT(refusal("a,mw-type=3"), HasSubstr("2b or 2a"));
  EXPECT_THAT(refusal("a,poll=yes"), HasSubstr("on or off"));
  EXPECT_THAT(refusal("a,loss=2"), HasSubstr("0 to 1"));
  EXPECT_EQ(refusal("a,delay=10s"), "");
  for (const char* delay : {"10.1s", "1e12s", "1e300s", "1e308s"})
    EXPECT_THAT(refusal(std::string("a,delay=") + delay), HasSubstr("at most 10s")) << delay;
  EXPECT_THAT(refusal("a,events-limit=111"), HasSubstr("0, or from 112"));
  EXPECT_THAT(refusal("a,red-max=10K,red-min=10K"), HasSubstr("less than"));
  for (const char* mac : {"52:54:00:12:34", "52:54:00:12:34:56:78", "525400123456",
                          "52:54:00:12:34:5x", "01:00:5e:00:00:01", ""}) {
    EXPECT_THAT(refusal(std::string("a,mac=") + mac), HasSubstr("mac")) << mac;
  }
}

// Every property of the table is one of the daemon, has the table's default, and is refused with
// its name and range.
TEST(AdapterConfigTest, TakesTheTableOfProperties) {
  const Config initial;
  for (const Property& p : properties()) {
    const std::string set = std::string("a,") + p.name + "=";
    if (p.type == Property::Type::kText) {
      const std::string text =
          p.name == std::string("mac") ? "52:54:00:12:34:56" : p.default_text();
      EXPECT_EQ(refusal(set + text), "");
      continue;
    }
    const AdapterConfig c = parse_adapter(set + p.default_text());
    if (p.member.index() != 0) {
      EXPECT_EQ(p.get(c.engine), p.get(initial)) << p.name;
    }
    EXPECT_EQ(refusal(set + "5000000000000000"), p.refusal());
    const bool numeric = p.type <= Property::Type::kSize;
    if (numeric && p.min > 1) {
      EXPECT_EQ(refusal(set + std::to_string(p.min - 1)), p.refusal());
    }
    if (numeric) {
      EXPECT_EQ(refusal(set + "64.5"), p.refusal());
    }
  }
}

TEST(AdapterConfigTest, HelpHasEveryProperty) {
  const auto help = adapter_properties();
  EXPECT_EQ(help.size(), 38U);
  for (const Property& p : properties()) {
    const auto at = std::ranges::find(help, p.name, &PropertyHelp::name);
    ASSERT_NE(at, help.end()) << p.name;
    EXPECT_THAT(at->text, HasSubstr(p.description()));
    if (!p.default_text().empty()) {
      EXPECT_THAT(at->text, testing::EndsWith(" (" + p.default_text() + ")"));
    }
  }
}

// ---- options ----

int status_of(const std::string& config) {
  const std::string file = testing::TempDir() + "ternd-options-" + std::to_string(getpid());
  std::ofstream(file) << config;
  std::array<std::string, 3> args{"ternd", "--config", file};
  std::array<char*, 3> argv{args[0].data(), args[1].data(), args[2].data()};
  int status = 0;
  const bool good = parse_options(3, argv.data(), &status).has_value();
  std::filesystem::remove(file);
  return good ? 0 : status;
}

TEST(OptionsTest, AMistypedOptionOfTheFileIsAnError) {
  EXPECT_EQ(status_of("adapter = [\"/run/a.sock\"]\ncontrol = \"/run/control\"\n"), 0);
  EXPECT_EQ(status_of("adapter = [\"/run/a.sock\"]\ncontol = \"/run/control\"\n"), 2);
  EXPECT_EQ(status_of("adapter = [\"/run/a.sock\"]\nno_sandbox = true\n"), 2);
  EXPECT_EQ(status_of("adapter = [\"/run/a.sock\"]\nmemory = \"4G\"\nmax-adapters = 3\n"), 0);
  EXPECT_EQ(status_of("adapter = [\"/run/a.sock\"]\nmax-adapters = 300\n"), 2);
}

// ---- config space ----

struct ConfigSpaceTest : testing::Test {
  static ConfigSpace::Options options() {
    ConfigSpace::Options o;
    o.uar_size = 1 << 24;
    o.dm_size = 1 << 25;
    o.vectors = 16;
    o.link_speed = 3;
    return o;
  }
  std::uint32_t read(std::size_t at, std::size_t len = 4) const {
    std::uint32_t value = 0;
    space.read(at, std::as_writable_bytes(std::span(&value, 1)).first(len));
    return value;
  }
  bool write(std::size_t at, std::uint32_t value, std::size_t len = 4) {
    return space.write(at, std::as_bytes(std::span(&value, 1)).first(len));
  }
  std::size_t capability(unsigned id) const {
    std::size_t at = read(PCI_CAPABILITY_LIST, 1);
    while (at != 0 && read(at, 1) != id) at = read(at + 1, 1);
    return at;
  }
  ConfigSpace space{options()};
};

TEST_F(ConfigSpaceTest, NamesTheFunction) {
  EXPECT_EQ(read(0), std::uint32_t{TERN_PCI_DEVICE_ID} << 16 | TERN_PCI_VENDOR_ID);
  EXPECT_EQ(read(PCI_CLASS_REVISION), std::uint32_t{TERN_PCI_CLASS} << 8 | TERN_PCI_REVISION);
  for (const unsigned id : {PCI_CAP_ID_PM, PCI_CAP_ID_EXP, PCI_CAP_ID_MSIX})
    EXPECT_NE(capability(id), 0U) << id;
  EXPECT_EQ(read(PCI_CFG_SPACE_SIZE), 0U) << "no extended capability";
}

TEST_F(ConfigSpaceTest, BarsTellTheirSizes) {
  for (unsigned bar = 0; bar < 6; ++bar) write(PCI_BASE_ADDRESS_0 + 4 * bar, UINT32_MAX);
  EXPECT_EQ(read(PCI_BASE_ADDRESS_0), UINT32_MAX << 16);
  EXPECT_EQ(read(PCI_BASE_ADDRESS_1), 0U);
  EXPECT_EQ(read(PCI_BASE_ADDRESS_2), UINT32_MAX << 24 | PCI_BASE_ADDRESS_MEM_TYPE_64);
  EXPECT_EQ(read(PCI_BASE_ADDRESS_3), UINT32_MAX);
  EXPECT_EQ(read(PCI_BASE_ADDRESS_4),
            UINT32_MAX << 25 | PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH);
  EXPECT_EQ(read(PCI_BASE_ADDRESS_5), UINT32_MAX);
}

TEST_F(ConfigSpaceTest, ABarAbove4GiBHasAllItsAddressBits) {
  ConfigSpace::Options large = options();
  large.dm_size = std::uint64_t{1} << 36;
  space = ConfigSpace(large);
  for (const unsigned bar : {4U, 5U}) write(PCI_BASE_ADDRESS_0 + 4 * bar, UINT32_MAX);
  EXPECT_EQ(read(PCI_BASE_ADDRESS_4),
            std::uint32_t{PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH});
  EXPECT_EQ(read(PCI_BASE_ADDRESS_5), UINT32_MAX << 4);
}

TEST_F(ConfigSpaceTest, OnlyWritableBitsChange) {
  const ConfigSpace before = space;
  for (std::size_t at = 0; at < ConfigSpace::kSize; at += 4) {
    if (at == capability(PCI_CAP_ID_EXP) + PCI_EXP_DEVCTL) continue;
    EXPECT_FALSE(write(at, UINT32_MAX)) << at;
  }
  EXPECT_EQ(read(0), std::uint32_t{TERN_PCI_DEVICE_ID} << 16 | TERN_PCI_VENDOR_ID);
  EXPECT_TRUE(space.bus_master());
  EXPECT_FALSE(space.awake());
  const std::size_t msix = capability(PCI_CAP_ID_MSIX);
  EXPECT_EQ(read(msix + 2, 2), 15U | PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
  EXPECT_EQ(read(msix + PCI_MSIX_TABLE), std::uint32_t{TERN_MSIX_TABLE_OFFSET});
  space.reset();
  for (std::size_t at = 0; at < ConfigSpace::kSize; at += 4) {
    std::uint32_t was = 0;
    before.read(at, std::as_writable_bytes(std::span(&was, 1)));
    EXPECT_EQ(read(at), was) << at;
  }
}

TEST_F(ConfigSpaceTest, StatesThatTheFunctionLacksAreDiscarded) {
  const std::size_t control = capability(PCI_CAP_ID_PM) + PCI_PM_CTRL;
  for (const std::size_t len : {1U, 2U, 4U}) {
    for (const std::uint32_t state : {0U, 3U}) {
      EXPECT_FALSE(write(control, state, len));
      for (const std::uint32_t lacks : {1U, 2U}) {
        EXPECT_FALSE(write(control, lacks, len));
        EXPECT_EQ(read(control, 2) & PCI_PM_CTRL_STATE_MASK, state);
        EXPECT_EQ(space.awake(), state == 0);
      }
    }
  }
  ConfigSpace other(options());
  std::array<std::byte, ConfigSpace::kSize> contents{};
  std::ranges::copy(other.contents(), contents.begin());
  contents.at(control) |= std::byte{2};
  other.load(contents);
  EXPECT_TRUE(other.awake());
}

TEST_F(ConfigSpaceTest, FlrIsRequestedByItsBitOnly) {
  const std::size_t exp = capability(PCI_CAP_ID_EXP);
  EXPECT_FALSE(write(exp + PCI_EXP_DEVCTL, 0x7fff, 2));
  EXPECT_TRUE(write(exp + PCI_EXP_DEVCTL, 0x8000, 2));
  EXPECT_EQ(read(exp + PCI_EXP_DEVCTL, 2) & 0x8000U, 0U);
  EXPECT_TRUE(write(exp + PCI_EXP_DEVCTL + 1, 0x80, 1));
}

// ---- memory ----

TEST(GuestMemoryTest, FindsTheLongestPiece) {
  std::array<std::byte, 64> a{};
  std::array<std::byte, 64> b{};
  GuestMemory memory;
  EXPECT_TRUE(memory.add({0x2000, 64, b.data(), true, false}));
  EXPECT_TRUE(memory.add({0x1000, 64, a.data(), true, true}));
  EXPECT_TRUE(memory.add({0x3000, 64, nullptr, true, true}));
  EXPECT_TRUE(memory.find(0x1000, 1, false).empty()) << "no bus master";
  EXPECT_TRUE(memory.largest(4).empty());
  memory.allow(true);
  EXPECT_TRUE(memory.find(0xfff, 1, false).empty());
  EXPECT_EQ(memory.find(0x1000, 1000, true).data(), a.data());
  EXPECT_EQ(memory.find(0x1000, 1000, true).size(), 64U);
  EXPECT_EQ(memory.find(0x1030, 8, true).data(), a.data() + 48);
  EXPECT_EQ(memory.find(0x1030, 8, true).size(), 8U);
  EXPECT_TRUE(memory.find(0x1040, 1, false).empty());
  EXPECT_EQ(memory.find(0x2000, 4, false).data(), b.data());
  EXPECT_TRUE(memory.find(0x2000, 4, true).empty()) << "read only";
  EXPECT_TRUE(memory.find(0x3000, 4, false).empty()) << "without a descriptor";
  EXPECT_TRUE(memory.add({0x4000, 64, a.data(), false, true}));
  EXPECT_TRUE(memory.find(0x4000, 4, false).empty()) << "write only";
  EXPECT_EQ(memory.find(0x4000, 4, true).data(), a.data());
  (void)memory.remove(0x4000);
  EXPECT_TRUE(memory.find(UINT64_MAX, 4, false).empty());
  EXPECT_EQ(memory.largest(4).size(), 1U);
  EXPECT_EQ(memory.bytes(), 192U);
  (void)memory.remove(0x1000);
  EXPECT_TRUE(memory.find(0x1000, 1, false).empty());
  EXPECT_EQ(memory.find(0x2000, 4, false).data(), b.data());
}

// ---- uplinks ----

TEST(UplinkTextTest, SaysWhatIsWrong) {
  Switch fabric;
  EXPECT_THROW(Uplink("eth0", fabric), std::invalid_argument);
  EXPECT_THROW(Uplink("wire=eth0", fabric), std::invalid_argument);
  EXPECT_THROW(Uplink("tap=", fabric), std::invalid_argument);
  EXPECT_THROW(Uplink("tap=a-name-that-is-too-long", fabric), std::invalid_argument);
  EXPECT_THROW(Uplink("tap=t,mtu=1500", fabric), std::invalid_argument);
  EXPECT_THROW(Uplink("packet=no-such-if0", fabric), std::system_error);
}

}  // namespace
}  // namespace tern::daemon
