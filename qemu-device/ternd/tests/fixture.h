// SPDX-License-Identifier: GPL-2.0-or-later
// A switch with adapters, and machines that use them.
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>

#include "client.h"
#include "parts.h"
#include "unix_socket.h"

namespace tern::daemon {

// Two machines with QPs that are connected.
struct ConnectedPair {
  ConnectedPair(TestMachine& first, TestMachine& second) : a(first), b(second), qa(a), qb(b) {
    qa.connect(qb);
    qb.connect(qa);
  }
  TestMachine& a;
  TestMachine& b;
  test::Qp qa;
  test::Qp qb;
};

struct AdapterFixture : testing::Test {
  explicit AdapterFixture(const Share& share = {}) : parts(share) {
    GuestMemory::handle_sigbus();
    std::string pattern = testing::TempDir() + "ternd-XXXXXX";
    dir = mkdtemp(pattern.data());
  }
  ~AdapterFixture() override {
    machines.clear();
    EXPECT_TRUE(parts.stop());
    std::filesystem::remove_all(dir);
  }

  std::string path(unsigned id) const { return dir + "/" + std::to_string(id) + ".sock"; }
  // Adapters 1 to n, running.
  void make(unsigned n, const std::string& properties = "") {
    for (unsigned id = 1; id <= n; ++id) {
      std::string text = path(id);
      if (const char* const lanes = std::getenv("TERN_SIM_LANES"))
        text.append(",lanes=").append(lanes);
      text.append(",mac=52:54:00:77:00:0").append(std::to_string(id));
      parts.add(parse_adapter(text + ",zero-copy=on" + properties)).start();
    }
  }
  Adapter& adapter(unsigned id) { return *parts.adapters().at(id - 1); }
  TestMachine& attach(unsigned id) {
    TestMachine& m = machines.emplace_back(path(id), id);
    m.bring_up();
    return m;
  }
  bool attached(unsigned id) {
    bool is = false;
    EXPECT_TRUE(adapter(id).call([&] { is = adapter(id).status().attached; }));
    return is;
  }
  static void connect(test::Qp& a, test::Qp& b) {
    a.connect(b);
    b.connect(a);
  }
  // Sends WRITEs from a to b and compares the data.
  static void exchange(test::Qp& a, test::Qp& b, unsigned seed) {
    for (const std::uint32_t size : {1U, 8U, 4096U, 65536U, test::Qp::kBytes}) {
      for (std::size_t i = 0; i < size; ++i)
        a.source()[i] = static_cast<std::byte>(seed + size + i * 7 + (i >> 8));
      std::ranges::fill(b.target(), std::byte{0});
      a.post(size);
      a.ring();
      ASSERT_TRUE(a.drain());
      ASSERT_EQ(a.failed(), 0U);
      ASSERT_TRUE(std::ranges::equal(a.source().first(size), b.target().first(size))) << size;
      ASSERT_TRUE(size == test::Qp::kBytes || b.target()[size] == std::byte{0}) << size;
    }
  }
  // A new hypervisor can use the adapter.
  void expect_usable(unsigned id) {
    TestMachine m(path(id), id);
    m.bring_up();
    EXPECT_TRUE(fabric.ports()[id - 1].link());
    test::Qp x(m);
    test::Qp y(m);
    connect(x, y);
    exchange(x, y, 77);
  }

  std::string dir;
  Parts parts;
  Switch& fabric = parts.fabric();
  std::deque<TestMachine> machines;
};

// Machines on adapters 1 and 2 with connected QPs.
struct PairFixture : AdapterFixture {
  explicit PairFixture(unsigned adapters, const std::string& properties = "") {
    make(adapters, properties);
    a = &attach(1);
    b = &attach(2);
    qa = std::make_unique<test::Qp>(*a);
    qb = std::make_unique<test::Qp>(*b);
    connect(*qa, *qb);
  }
  TestMachine* a = nullptr;
  TestMachine* b = nullptr;
  std::unique_ptr<test::Qp> qa, qb;
};

}  // namespace tern::daemon
