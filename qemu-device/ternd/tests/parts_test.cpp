// SPDX-License-Identifier: GPL-2.0-or-later
// Adapters that come and go while others work.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "commands.h"
#include "fixture.h"
#include "metrics.h"
#include "unix_socket.h"

namespace tern::daemon {
namespace {

using Json = nlohmann::ordered_json;
using test::Qp;
using test::wait_until;
using testing::HasSubstr;

struct PartsTest : PairFixture {
  PartsTest() : PairFixture(2) {}
  Adapter& add(unsigned id) {
    Adapter& adapter =
        parts.add(parse_adapter(path(id) + ",mac=52:54:00:77:00:0" + std::to_string(id)));
    adapter.start();
    return adapter;
  }
  void remove(unsigned id) { parts.remove(parts.adapter(std::to_string(id))); }
};

TEST_F(PartsTest, AnAdapterComesAndGoesUnderTraffic) {
  std::atomic<bool> stop = false;
  std::thread others([&] {
    for (unsigned seed = 0; !stop && !HasFatalFailure(); ++seed) exchange(*qa, *qb, seed);
  });
  std::thread metrics([&] {
    while (!stop) EXPECT_FALSE(Metrics(parts).Collect().empty());
  });
  for (unsigned round = 0; round < 12; ++round) {
    add(3);
    TestMachine m(path(3), 3);
    m.bring_up();
    Qp x(m);
    Qp y(m);
    connect(x, y);
    exchange(x, y, round);
    EXPECT_TRUE(attached(1));
    remove(3);
    EXPECT_TRUE(m.client.ended());
    EXPECT_FALSE(parts.adapter("3"));
    EXPECT_LE(fabric.ports().size(), 4U) << "ports are used again";
  }
  stop = true;
  others.join();
  metrics.join();
}

// Frames to it are on their way when it goes.
TEST_F(PartsTest, APeerOfTheOneThatGoesHasErrorsOnly) {
  add(3);
  TestMachine& m = attach(3);
  Qp there(m);
  Qp here(*a);
  there.connect(here, 8, 1);
  here.connect(there, 8, 1);
  here.post(Qp::kBytes, 16);
  here.ring();
  remove(3);
  EXPECT_TRUE(here.drain()) << "the peer does not notice";
  a->take_events();
  exchange(*qa, *qb, 1);
  // The next one has its port.
  const std::size_t ports = fabric.ports().size();
  add(4);
  EXPECT_EQ(fabric.ports().size(), ports);
  TestMachine m4(path(4), 4);
  m4.bring_up();
  Qp x(m4);
  Qp y(m4);
  connect(x, y);
  exchange(x, y, 2);
}

TEST_F(PartsTest, WhatCannotBeAddedLeavesNothing) {
  const std::size_t ports = fabric.ports().size();
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_THROW(parts.add(parse_adapter(path(1))), std::invalid_argument) << "the name";
    EXPECT_THROW(parts.add(parse_adapter(path(1) + ",name=other")), std::system_error)
        << "the socket";
    EXPECT_THROW(parts.add(parse_adapter(path(5) + ",faults=explode")), std::invalid_argument);
  }
  EXPECT_LE(fabric.ports().size(), ports + 1);
  EXPECT_EQ(parts.adapters().size(), 2U);
  add(5);
  exchange(*qa, *qb, 1);
}

TEST_F(PartsTest, ThereIsAPlaceForEachOnly) {
  Parts few({}, 1);
  few.add(parse_adapter(dir + "/one.sock"));
  try {
    few.add(parse_adapter(dir + "/two.sock"));
    ADD_FAILURE() << "it has a place";
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("--max-adapters"));
  }
  few.remove(few.adapter("one"));
  EXPECT_NO_THROW(few.add(parse_adapter(dir + "/two.sock")));
}

// A hypervisor may keep a thread waiting for ever, in which case nobody knows that it uses no port
// that is gone.
TEST_F(PartsTest, AnAdapterThatDoesNotRespondKeepsNoPlaceOfOthers) {
  Parts few({}, 2);
  const auto add_to = [&](const std::string& name) {
    few.add(parse_adapter(dir + "/" + name + ".sock")).start();
  };
  add_to("stuck");
  std::binary_semaphore go{0};
  auto stuck = few.adapter("stuck")->post([&] { go.acquire(); });
  for (const std::string name : {"one", "two"}) {
    ASSERT_NO_THROW(add_to(name));
    EXPECT_NO_THROW(few.remove(few.adapter(name)));
  }
  EXPECT_NO_THROW(add_to("one"));
  go.release();
  EXPECT_TRUE(stuck.wait());
}

// As ternctl does: the descriptor of the socket comes with the request.
TEST_F(PartsTest, ByCommand) {
  const auto ask = [&](const Json& request, std::vector<Descriptor> files = {}) {
    return Json::parse(run_command(parts, request.dump(), std::move(files)));
  };
  const Json request = {{"command", "adapter-add"},
                        {"text", path(3) + ",mac=52:54:00:77:00:03,rate=100G"},
                        {"files", {"listener"}}};
  EXPECT_TRUE(ask(request).contains("error")) << "without the socket";
  std::vector<Descriptor> files;
  files.push_back(listen_at(path(3), 0));
  EXPECT_EQ(ask(request, std::move(files)).at("result").at("name"), "3");
  expect_usable(3);
  EXPECT_EQ(parts.adapter("3")->port().policy().rate, 100'000'000'000U);
  EXPECT_TRUE(ask({{"command", "adapter-remove"}, {"adapter", "3"}}).contains("result"));
  EXPECT_TRUE(ask({{"command", "adapter-remove"}, {"adapter", "3"}}).contains("error"));
  EXPECT_EQ(ask({{"command", "list"}}).at("result").at("adapters").size(), 2U);
}

// A full pipe would block the thread that writes for ever.
TEST_F(PartsTest, EventsGoToARegularFileOnly) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor reader(ends[0]);
  std::vector<Descriptor> files;
  files.push_back(listen_at(path(3), 0));
  files.emplace_back(ends[1]);
  const Json request = {{"command", "adapter-add"},
                        {"text", path(3) + ",events=/run/pipe"},
                        {"files", {"listener", "events"}}};
  EXPECT_THAT(run_command(parts, request.dump(), std::move(files)), HasSubstr("regular file"));
  EXPECT_FALSE(parts.adapter("3"));
}

}  // namespace
}  // namespace tern::daemon
