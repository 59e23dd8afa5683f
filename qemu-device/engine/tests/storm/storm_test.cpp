// SPDX-License-Identifier: GPL-2.0-or-later
// engine_storm                   the fixed corpus and the tests of the oracle; takes gtest options
// engine_storm --corpus          the corpus alone, with the table of rules
// engine_storm --seed N          one seed; prints a hash of its trace
// engine_storm --seconds S       random seeds for S seconds (wall clock); a failure names its seed
// The last two also take --packets N: packets of each seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/storm/world.h"

namespace tern::storm {
namespace {

constexpr std::uint64_t kCorpus = 24;  // seeds 1 to kCorpus
constexpr std::uint64_t kLeastPackets = 1'000'000;
constexpr std::uint64_t kLeastUnrung = 1'000;

struct Settings {
  std::uint64_t seed = 0;
  std::uint64_t seconds = 0;
  std::uint64_t packets = StormOptions{}.packets;
} settings;

void print(std::uint64_t seed, const StormResult& r) {
  std::printf("seed 0x%llx: %llu packets, %llu messages, %llu ms simulated; %s\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(r.wire.sent),
              static_cast<unsigned long long>(r.messages),
              static_cast<unsigned long long>(r.simulated / 1'000'000), r.rates.c_str());
  std::fflush(stdout);
}

std::string replay(std::uint64_t seed, std::uint64_t packets) {
  char text[96];
  std::snprintf(text, sizeof(text), "again: qemu-device/engine/tests/storm/run --seed 0x%llx%s%s",
                static_cast<unsigned long long>(seed),
                packets == StormOptions{}.packets ? "" : " --packets ",
                packets == StormOptions{}.packets ? "" : std::to_string(packets).c_str());
  return text;
}

StormResult expect_calm(std::uint64_t seed, std::uint64_t packets, bool trace = false) {
  SCOPED_TRACE(replay(seed, packets));
  StormResult r = run_storm({.seed = seed, .packets = packets, .trace = trace});
  print(seed, r);
  for (const Finding& f : r.findings.all()) ADD_FAILURE() << claim_name(f.claim) << ": " << f.text;
  return r;
}

// ---- the corpus ----

class StormCorpus : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static void SetUpTestSuite() {
    counts = {};
    packets = unrung = seeds = 0;
  }
  // All seeds together must meet every rule; a part of them need not.
  static void TearDownTestSuite() {
    if (seeds != kCorpus) return;
    std::printf("%llu packets; how often each rule was met:\n%s",
                static_cast<unsigned long long>(packets), counts.table().c_str());
    std::printf("%llu requests without doorbell, to queues that the device polled\n",
                static_cast<unsigned long long>(unrung));
    EXPECT_GE(packets, kLeastPackets);
    EXPECT_GT(unrung, kLeastUnrung);
    EXPECT_EQ(counts.missing(), "");
  }
  static inline RuleCounts counts;
  static inline std::uint64_t packets = 0;
  static inline std::uint64_t unrung = 0;
  static inline std::uint64_t seeds = 0;
};

TEST_P(StormCorpus, EverythingOnceAndInOrder) {
  const StormResult r = expect_calm(GetParam(), StormOptions{}.packets);
  counts.add(r.counts);
  packets += r.wire.sent;
  unrung += r.unrung;
  ++seeds;
  // There was enough traffic.
  EXPECT_GT(r.messages, 1000U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StormCorpus, ::testing::Range<std::uint64_t>(1, kCorpus + 1));

// ---- the oracle ----

TEST(StormSelf, SameSeedSameStorm) {
  const StormResult a = run_storm({.seed = 77, .packets = 10'000});
  const StormResult b = run_storm({.seed = 77, .packets = 10'000});
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  EXPECT_EQ(a.messages, b.messages);
  EXPECT_EQ(a.counts.table(), b.counts.table());
  EXPECT_NE(a.fingerprint, run_storm({.seed = 78, .packets = 10'000}).fingerprint);
}

TEST(StormSelf, UnfinishedFramesChangeNothing) {
  for (const std::uint64_t seed : {5, 6, 8}) {
    const StormOptions options{.seed = seed, .packets = 20'000, .trace = true};
    StormOptions other = options;
    other.unfinished_frames = true;
    const StormResult unfinished = run_storm(other);
    EXPECT_EQ(run_storm(options).trace, unfinished.trace) << seed;
    EXPECT_GT(unfinished.wire.deferred, 1000U);
    EXPECT_GT(unfinished.wire.trains, 100U);
  }
}

TEST(StormSelf, SharedPayloadChangesNothing) {
  for (const std::uint64_t seed : {5, 6, 8}) {
    const StormOptions options{
        .seed = seed, .packets = 20'000, .trace = true, .unfinished_frames = true};
    StormOptions other = options;
    other.share_payload = true;
    const StormResult shared = run_storm(other);
    EXPECT_EQ(run_storm(options).trace, shared.trace) << seed;
    EXPECT_GT(shared.wire.shared, 100U);
  }
}

// A device that is saved and loaded at random steps does the same, to the last frame and store.
TEST(StormSelf, SavingChangesNothing) {
  std::uint64_t saves = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const StormOptions options{.seed = seed, .packets = 10'000, .trace = true};
    StormOptions other = options;
    other.saves = 5;
    const StormResult saved = run_storm(other);
    ASSERT_EQ(run_storm(options).trace, saved.trace) << seed;
    saves += saved.saves;
  }
  EXPECT_GT(saves, 1'000U);
}

class StormOracle : public ::testing::TestWithParam<Plant> {};

TEST_P(StormOracle, Notices) {
  const StormResult r = run_storm({.seed = 11, .packets = 30'000, .plant = GetParam()});
  ASSERT_FALSE(r.findings.empty()) << "nothing was found";
  const auto claims = plant_claims(GetParam());
  const Finding& first = r.findings.all().front();
  EXPECT_TRUE(std::ranges::find(claims, first.claim) != claims.end())
      << claim_name(first.claim) << ": " << first.text;
}

std::vector<Plant> all_plants() {
  std::vector<Plant> all;
  for (unsigned i = 1; i < static_cast<unsigned>(Plant::kNum); ++i)
    all.push_back(static_cast<Plant>(i));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Plants, StormOracle, ::testing::ValuesIn(all_plants()),
                         [](const auto& p) { return std::string(plant_name(p.param)); });

// ---- one seed, and random ones ----

TEST(StormSeed, DISABLED_One) {
  const StormResult r = expect_calm(settings.seed, settings.packets, true);
  std::printf("%s", r.counts.table().c_str());
  std::printf("trace 0x%016llx\n", static_cast<unsigned long long>(r.trace));
}

TEST(StormSeed, DISABLED_Random) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(settings.seconds);
  std::random_device device;
  RuleCounts counts;
  std::uint64_t packets = 0, seeds = 0;
  while (std::chrono::steady_clock::now() < end && !HasFailure()) {
    const StormResult r = expect_calm((std::uint64_t{device()} << 8) + seeds % 4, settings.packets);
    counts.add(r.counts);
    packets += r.wire.sent;
    ++seeds;
  }
  std::printf("%llu seeds, %llu packets; how often each rule was met:\n%s",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(packets),
              counts.table().c_str());
}

int run(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (name == "--corpus") {
      GTEST_FLAG_SET(filter, "Seeds/StormCorpus.*");
      continue;
    }
    const bool seed = name == "--seed", seconds = name == "--seconds";
    if (value == nullptr || (!seed && !seconds && name != "--packets")) {
      std::fprintf(stderr, "usage: %s [--corpus | --seed N | --seconds S] [--packets N]\n",
                   argv[0]);
      return 2;
    }
    (seed      ? settings.seed
     : seconds ? settings.seconds
               : settings.packets) = std::strtoull(value, nullptr, 0);
    ++i;
    if (!seed && !seconds) continue;
    GTEST_FLAG_SET(also_run_disabled_tests, true);
    GTEST_FLAG_SET(filter, seed ? "StormSeed.DISABLED_One" : "StormSeed.DISABLED_Random");
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace tern::storm

int main(int argc, char** argv) { return tern::storm::run(argc, argv); }
