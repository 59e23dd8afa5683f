// SPDX-License-Identifier: GPL-2.0-or-later
// Two nodes, each with a region, and a reliable connection between them.
#pragma once

#include <cstdint>

#include "tests/mini_driver.h"

namespace tern {

class RcPairTest : public ::testing::Test {
 protected:
  explicit RcPairTest(std::uint64_t seed = 42, std::uint32_t bytes = 1 << 18, std::uint8_t fill = 5)
      : sim(seed), src(a.reg(bytes)), dst(b.reg(bytes)), fill_(fill) {}

  void connect(const QpOptions& options = {}) {
    const auto [x, y] = rc_pair(a, b, options);
    qa = &x;
    qb = &y;
    src.fill(fill_);
  }
  void expect_status(std::uint8_t status) {
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
  }

  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestQp* qa = nullptr;
  TestQp* qb = nullptr;
  TestMr& src;
  TestMr& dst;

 private:
  std::uint8_t fill_;
};

}  // namespace tern
