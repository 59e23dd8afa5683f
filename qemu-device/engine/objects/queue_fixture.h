// SPDX-License-Identifier: GPL-2.0-or-later
// Fixtures for the queues: a bare device, an event queue of 16 entries and a completion queue of 8.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "control/device.h"
#include "core/limits.h"
#include "objects/queues.h"
#include "tests/fake_host.h"

namespace tern {

class QueueTest : public testing::Test {
 protected:
  QueueTest() { config.mac = {0x52, 0x54, 0, 0, 0, 1}; }

  FakeHost host;
  Config config;
  Device device{host, config};

  tern_pages direct(std::uint64_t bytes) {
    tern_pages p{};
    p.addr = host.alloc(bytes);
    return p;
  }
  // A list of `n` pages that are not adjacent; stores their addresses in `where`.
  tern_pages list(std::size_t n, std::vector<std::uint64_t>* where = nullptr) {
    tern_pages p{.addr = host.alloc(n * 8),
                 .num = static_cast<std::uint32_t>(n),
                 .page_shift = 12,
                 .kind = TERN_PAGES_LIST};
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t page = host.alloc(4096);
      host.put(p.addr + i * 8, page);
      if (where) where->push_back(page);
    }
    return p;
  }
  bool raised(unsigned vector) {
    const bool was = (device.datapath.effects->vectors()[vector / 64] >> (vector % 64)) & 1;
    device.datapath.effects->clear();
    return was;
  }
  void enable() {
    device.reg_write(TERN_REG_AQ_LOG_SIZE, 1);
    device.reg_write(TERN_REG_CTRL, TERN_CTRL_ENABLE);
    ASSERT_TRUE(status() & TERN_STATUS_ENABLED);
  }
  std::uint32_t status() { return device.reg_read(TERN_REG_STATUS); }
};

class EqTest : public QueueTest {
 protected:
  static constexpr std::uint32_t kSize = 16;

  tern_cmd_create_eq command() {
    tern_cmd_create_eq cmd{.pages = direct(kSize * sizeof(tern_eqe)),
                           .record = host.alloc(sizeof(tern_eq_record), sizeof(tern_eq_record)),
                           .vector = 3,
                           .log_size = 4};
    return cmd;
  }
  void set_ci(const tern_cmd_create_eq& cmd, std::uint32_t ci) { host.put(cmd.record, ci); }
  tern_eqe at(const tern_cmd_create_eq& cmd, std::uint32_t slot) {
    return host.get<tern_eqe>(cmd.pages.addr + slot * sizeof(tern_eqe));
  }
};

class CqTest : public EqTest {
 protected:
  static constexpr std::uint32_t kCqes = 8;

  CqTest() {
    eq_cmd = command();
    eq = std::make_unique<Eq>(device.datapath, eq_cmd);
    EXPECT_EQ(eq->init(), TERN_ST_OK);
    cmd.pages = direct(kCqes * sizeof(tern_cqe));
    cmd.record = host.alloc(sizeof(tern_cq_record), sizeof(tern_cq_record));
    cmd.uar = 5;
    cmd.log_size = 3;
    cq = std::make_unique<Cq>(device.datapath, cmd, eq.get());
    EXPECT_EQ(cq->init(), TERN_ST_OK);
    cq->set_number(77);
  }
  ~CqTest() override { cq.reset(); }

  bool push(std::uint8_t flags = 0, std::uint8_t st = TERN_CQE_SUCCESS) {
    device.datapath.time_passes();
    tern_cqe cqe{.wr_id = ++wr_id, .status = st, .flags = flags};
    return cq->push(cqe);
  }
  bool solicited() { return push(TERN_CQE_F_RECV | TERN_CQE_F_SOLICITED); }
  tern_cqe cqe(std::uint32_t slot) {
    return host.get<tern_cqe>(cmd.pages.addr + slot * sizeof(tern_cqe));
  }
  void consume(std::uint32_t ci) { host.put(cmd.record, ci); }
  void arm(std::uint32_t ci, unsigned seq, bool only_solicited = false, bool valid = true) {
    store_arm(ci, seq, only_solicited, valid);
    device.datapath.time_passes();
    cq->arm();
  }
  // Arms without a doorbell.
  void store_arm(std::uint32_t ci, unsigned seq, bool only_solicited = false, bool valid = true) {
    host.put(cmd.record + offsetof(tern_cq_record, arm),
             (ci & TERN_CQ_ARM_CI_MASK) | (only_solicited ? TERN_CQ_ARM_SOLICITED : 0) |
                 (valid ? TERN_CQ_ARM_VALID : 0) | field_prep(TERN_CQ_ARM_SEQ_MASK, seq));
  }
  std::uint32_t reported() {
    return host.get<std::uint32_t>(cmd.record + offsetof(tern_cq_record, reported));
  }
  // Number of events posted since the last call; consumes them.
  std::uint64_t events() {
    const std::uint64_t n = eq->pi() - taken;
    taken = eq->pi();
    set_ci(eq_cmd, static_cast<std::uint32_t>(taken));
    return n;
  }
  std::uint64_t count(unsigned index) { return device.datapath.counters.rdma[index]; }

  tern_cmd_create_eq eq_cmd;
  std::unique_ptr<Eq> eq;
  tern_cmd_create_cq cmd{};
  std::unique_ptr<Cq> cq;
  std::uint64_t wr_id = 0;
  std::uint64_t taken = 0;
};

}  // namespace tern
