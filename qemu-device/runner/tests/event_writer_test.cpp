// SPDX-License-Identifier: GPL-2.0-or-later
// The file of the event log: its header, all events in order, its end.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "adapter.h"

namespace tern::runner {
namespace {

using Events = std::vector<tern_log_event>;

class EventWriterTest : public testing::Test {
 protected:
  ~EventWriterTest() override { std::remove(path.c_str()); }

  EventFile file(std::uint64_t limit = 0) {
    EventFile f;
    f.fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    f.limit = limit;
    f.clock = TERN_LOG_CLOCK_VIRTUAL;
    f.epoch = 1'700'000'000'000'000'000;
    f.mac = {0x52, 0x54, 0, 0, 0, 7};
    f.name = "tern0";
    return f;
  }
  Events read() {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_GE(bytes.size(), sizeof(header));
    EXPECT_EQ((bytes.size() - sizeof(header)) % sizeof(tern_log_event), 0U);
    std::memcpy(&header, bytes.data(), sizeof(header));
    Events events((bytes.size() - sizeof(header)) / sizeof(tern_log_event));
    if (!events.empty())
      std::memcpy(events.data(), bytes.data() + sizeof(header),
                  events.size() * sizeof(tern_log_event));
    return events;
  }
  static std::size_t count(const Events& events, std::uint8_t type) {
    return static_cast<std::size_t>(
        std::ranges::count(events, type, [](const tern_log_event& e) { return e.type; }));
  }
  static void expect_ordered(const Events& events) {
    for (std::size_t i = 1; i < events.size(); ++i)
      ASSERT_GE(le(events[i].time), le(events[i - 1].time)) << i;
  }

  const std::string path = testing::TempDir() + "/events-" + std::to_string(getpid());
  tern_log_header header{};
};

TEST_F(EventWriterTest, TheHeaderSaysWhoseLogItIs) {
  Adapter a({.events = file()});
  a.runner->flush_events();
  EXPECT_TRUE(read().empty());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(header.magic), sizeof(header.magic)),
            std::string("ternlog\0", 8));
  EXPECT_EQ(le(header.version), TERN_LOG_VERSION);
  EXPECT_EQ(le(header.header_size), sizeof(tern_log_header));
  EXPECT_EQ(le(header.record_size), sizeof(tern_log_event));
  EXPECT_EQ(header.clock, TERN_LOG_CLOCK_VIRTUAL);
  EXPECT_EQ(le(header.epoch), 1'700'000'000'000'000'000U);
  EXPECT_EQ(header.mac[5], 7);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(header.name)), "tern0");
}

TEST_F(EventWriterTest, HasWhatHappenedInOrder) {
  Adapter a({.events = file()});
  a.bring_up();
  Qp from(a), to(a);
  from.connect(to);
  to.connect(from);
  a.runner->flush_events();
  const std::size_t before = read().size();
  from.post(64);
  EXPECT_TRUE(from.ring());
  EXPECT_EQ(from.poll(), 1U);
  a.runner->flush_events();
  Events events = read();
  expect_ordered(events);
  events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(before));
  std::vector<unsigned> types;
  for (const tern_log_event& e : events) types.push_back(e.type);
  EXPECT_THAT(types,
              testing::ElementsAre(TERN_LOG_DOORBELL, TERN_LOG_POSTED, TERN_LOG_WQE, TERN_LOG_CHECK,
                                   TERN_LOG_SENT, TERN_LOG_RECEIVED, TERN_LOG_CHECK, TERN_LOG_CHECK,
                                   TERN_LOG_SENT, TERN_LOG_RECEIVED, TERN_LOG_CQE));
}

TEST_F(EventWriterTest, SurvivesAResetAndIsCompleteAtTheEnd) {
  {
    Adapter a({.events = file()});
    a.bring_up();
    a.runner->lock();
    a.runner->reset();
    a.runner->unlock_without_delivering();
    a.runner->flush_events();
    const Events events = read();
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.back().type, TERN_LOG_RESET);
    a.forget();
    a.bring_up();
    Qp from(a), to(a);
    from.connect(to);
    from.post(64);
    from.ring();
  }
  const Events events = read();
  EXPECT_EQ(count(events, TERN_LOG_RESET), 1U);
  EXPECT_EQ(count(events, TERN_LOG_SENT), 1U);
  expect_ordered(events);
}

TEST_F(EventWriterTest, TheClockMayGetANewEpoch) {
  Adapter a({.events = file()});
  a.runner->set_event_epoch(5);
  const Events events = read();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].type, TERN_LOG_EPOCH);
  EXPECT_EQ(le(events[0].time), a.now());
  EXPECT_EQ(le(events[0].addr), 5U);
}

TEST_F(EventWriterTest, EndsAtItsLimitAndSaysSo) {
  constexpr std::uint64_t kFit = 3;
  Adapter a({.events = file(sizeof(tern_log_header) + kFit * sizeof(tern_log_event) + 1)});
  a.bring_up();
  EthernetQueue(a).send(1, 100);
  a.runner->flush_events();
  const Events events = read();
  ASSERT_EQ(events.size(), kFit);
  EXPECT_EQ(count(events, TERN_LOG_FULL), 1U);
  EXPECT_EQ(events.back().type, TERN_LOG_FULL);
  EXPECT_EQ(le(events.back().time), a.now());
  expect_ordered(events);
  EXPECT_EQ(a.events(Host::Event::kLogEnded), 1U);
  EthernetQueue(a).send(1, 100);
  a.runner->flush_events();
  EXPECT_EQ(read().size(), kFit);
  EXPECT_EQ(a.events(Host::Event::kLogEnded), 1U);
}

TEST_F(EventWriterTest, TheLeastFileHasOneRecord) {
  Adapter a({.events = file(EventWriter::kLeastLimit)});
  a.bring_up();
  a.runner->flush_events();
  const Events events = read();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].type, TERN_LOG_FULL);
}

TEST_F(EventWriterTest, AFileThatCannotBeWrittenStopsNothing) {
  EventFile full = file();
  close(full.fd);
  full.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  Adapter a({.events = full});
  a.bring_up();
  EXPECT_EQ(a.events(Host::Event::kLogEnded), 1U);
}

// A pipe that nobody reads: the thread hangs, the adapter does not.
TEST_F(EventWriterTest, ASlowFileLosesEventsAndSaysSo) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  EventFile slow = file();
  close(slow.fd);
  slow.fd = ends[1];
  slow.records = 256;
  std::uint64_t records = 0;
  std::uint64_t lost = 0;
  std::thread reader;
  {
    // Every WRITE is done within its doorbell.
    Config config = two_processors();
    config.poll = false;
    Adapter a({.config = config, .events = slow});
    a.bring_up();
    Qp from(a), to(a);
    from.connect(to);
    to.connect(from);
    constexpr unsigned kWrites = 4096;
    for (unsigned i = 0; i < kWrites; ++i) {
      from.post(64);
      from.ring();
      from.poll();
    }
    EXPECT_EQ(from.poll(), kWrites);
    EXPECT_EQ(from.failed(), 0U);
    EXPECT_GT(a.engine->datapath.log->lost(), 10'000U);
    reader = std::thread([&] {
      std::FILE* const in = fdopen(ends[0], "rb");
      tern_log_event e{};
      EXPECT_EQ(std::fread(&header, sizeof(header), 1, in), 1U);
      for (; std::fread(&e, sizeof(e), 1, in) == 1; ++records)
        lost += e.type == TERN_LOG_LOST ? le(e.length) : 0;
      std::fclose(in);
    });
  }
  reader.join();
  EXPECT_GT(records, 256U);
  EXPECT_GT(lost, 10'000U);
}

// Hundreds of adapters may have logs.
TEST_F(EventWriterTest, SleepsWhileNothingHappens) {
  Adapter a({.events = file()});
  a.bring_up();
  a.runner->flush_events();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  // Counts how often the other threads have slept.
  const auto switches = [] {
    rusage all{}, own{};
    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &own);
    return all.ru_nvcsw - own.ru_nvcsw;
  };
  const auto before = switches();
  for (int i = 0; i < 100; ++i) {
    a.runner->lock();
    a.runner->unlock_without_delivering();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LT(switches() - before, 20);
  // An event wakes it.
  const auto size = std::filesystem::file_size(path);
  Qp qp(a);
  for (int i = 0; i < 1000 && std::filesystem::file_size(path) == size; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GT(std::filesystem::file_size(path), size);
}

// With the worker: one thread logs, another one writes.
TEST_F(EventWriterTest, NothingIsLostWhileThreadsWork) {
  std::uint32_t done = 0;
  {
    Adapter a({.threads = true, .events = file()});
    a.bring_up();
    Qp from(a), to(a);
    from.connect(to);
    to.connect(from);
    for (int round = 0; round < 20; ++round) {
      from.post(64, from.free_slots());
      from.ring();
      ASSERT_TRUE(from.drain());
    }
    done = from.posted();
    a.shut_down();
  }
  const Events events = read();
  EXPECT_EQ(count(events, TERN_LOG_LOST), 0U);
  EXPECT_EQ(count(events, TERN_LOG_CQE), done);
  EXPECT_EQ(count(events, TERN_LOG_WQE), done);
  expect_ordered(events);
}

}  // namespace
}  // namespace tern::runner
