// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/properties.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tern {
namespace {

const Property& named(const char* name) { return *find_property(name); }

TEST(Properties, EachHasANameOfItsOwnHelpAndAnAllowedDefault) {
  std::set<std::string> names;
  for (const Property& p : properties()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_EQ(find_property(p.name), &p);
    EXPECT_FALSE(p.description().empty()) << p.name;
    if (p.type == Property::Type::kText) continue;
    EXPECT_TRUE(p.allows(p.initial)) << p.name;
    EXPECT_LE(p.min, p.max) << p.name;
    EXPECT_FALSE(p.default_text().empty()) << p.name;
  }
  EXPECT_EQ(find_property("max"), nullptr);
  EXPECT_EQ(find_property(""), nullptr);
}

TEST(Properties, SayTheirRangeAsUsersWriteIt) {
  EXPECT_EQ(named("mtu").refusal(), "property 'mtu' must be from 1500 to 9216");
  EXPECT_EQ(named("dm-size").range(), "a multiple of 64K from 0 to 64G");
  EXPECT_EQ(named("uar-size").range(), "a power of two from 128K to 1G");
  EXPECT_EQ(named("pcap-limit").range(), "0, or from 24 to 4P");
  EXPECT_EQ(named("events-limit").range(), "0, or from 112 to 4P");
  EXPECT_EQ(named("icrc").range(), "check or warn or off");
  EXPECT_EQ(named("poll").range(), "on or off");
  EXPECT_EQ(named("dm-size").default_text(), "16M");
  EXPECT_EQ(named("max-pages").default_text(), "64M");
  EXPECT_EQ(named("mw-type").default_text(), "2b");
  EXPECT_EQ(named("poll").default_text(), "on");
  EXPECT_EQ(named("odp").default_text(), "on");
  EXPECT_EQ(named("pcap").default_text(), "");
}

TEST(Properties, AllowWhatTheirFormSays) {
  const Property& dm = named("dm-size");
  EXPECT_TRUE(dm.allows(0));
  EXPECT_TRUE(dm.allows(std::uint64_t{64} << 30));
  EXPECT_FALSE(dm.allows((std::uint64_t{64} << 30) + 65536));
  EXPECT_FALSE(dm.allows(65537));
  const Property& uar = named("uar-size");
  EXPECT_TRUE(uar.allows(128 << 10));
  EXPECT_FALSE(uar.allows(0));
  EXPECT_FALSE(uar.allows(3 << 20));
  const Property& limit = named("pcap-limit");
  EXPECT_TRUE(limit.allows(0));
  EXPECT_FALSE(limit.allows(23));
  EXPECT_TRUE(limit.allows(24));
}

TEST(Properties, FindTheWordsOfAChoice) {
  const Property& icrc = named("icrc");
  EXPECT_EQ(icrc.index_of("check"), 0U);
  EXPECT_EQ(icrc.index_of("off"), 2U);
  for (const char* word : {"", "checks", "check|warn", "on"}) {
    EXPECT_EQ(icrc.index_of(word), std::nullopt) << word;
  }
}

TEST(Properties, CheckAWholeConfiguration) {
  EXPECT_EQ(check_properties(Config{}), "");
  for (const Property& p : properties()) {
    if (p.member.index() == 0 || p.type == Property::Type::kChoice) continue;
    Config config;
    p.set(config, p.max);
    EXPECT_EQ(p.get(config), p.max) << p.name;
    if (p.min == 0) continue;
    p.set(config, 0);
    EXPECT_EQ(check_properties(config), p.refusal());
  }
  Config config;
  config.max_mr = config.max_mw = 1 << 23;
  EXPECT_EQ(check_properties(config),
            "properties 'max-mr' and 'max-mw' must be at most 16777214 together");
}

}  // namespace
}  // namespace tern
