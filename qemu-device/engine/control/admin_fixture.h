// SPDX-License-Identifier: GPL-2.0-or-later
// A device with only registers and an admin queue, and helpers that create every kind of object.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "control/device.h"
#include "testing/admin_queue.h"
#include "tests/fake_host.h"

namespace tern {

inline Config admin_test_config() {
  Config c{.uar_bar_size = 16 * 4096,
           .max_qp = 8,
           .max_cq = 40,
           .max_mr = 16,
           .num_vectors = 4,
           .mac = {0x52, 0x54, 0x00, 0x12, 0x34, 0x56}};
  return c;
}

class AdminTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kReady = TERN_STATUS_READY;
  static constexpr std::uint32_t kEnabled = TERN_STATUS_READY | TERN_STATUS_ENABLED;
  static constexpr unsigned kLog = 3;  // of both queues
  static constexpr std::uint32_t kEntries = 1U << kLog;

  static constexpr std::uint64_t kDmBytes = 16 * 4096;

  FakeHost host;
  Device device{host, config()};
  std::uint64_t aq = host.alloc(kEntries * sizeof(tern_aq_entry));
  std::uint64_t acq = host.alloc(kEntries * sizeof(tern_acq_entry));
  std::uint64_t in_buf = host.alloc(2048);
  std::uint64_t out_buf = host.alloc(2048);
  std::uint32_t tail = 0;
  std::uint32_t done = 0;
  tern_acq_entry last{};

  Config config() {
    Config c = admin_test_config();
    c.dm = host.make_dm(kDmBytes);
    return c;
  }

  // ---- registers ----
  std::uint32_t reg(std::uint32_t offset) { return device.reg_read(offset); }
  void set(std::uint32_t offset, std::uint32_t value) { device.reg_write(offset, value); }
  // Writes all registers of the queues; unless `enables`, the device is not enabled yet.
  void configure(Device& to, bool enables = true) {
    to.reg_write(TERN_REG_PAGE_SHIFT, 12);
    test::enable_admin_queue(aq, acq, kLog, [&](std::uint32_t offset, std::uint32_t value) {
      if (enables || offset != TERN_REG_CTRL) to.reg_write(offset, value);
    });
  }
  void configure() { configure(device, false); }
  void enable() {
    std::memset(host.at(acq), 0, kEntries * sizeof(tern_acq_entry));
    tail = done = 0;
    configure(device);
    ASSERT_EQ(reg(TERN_REG_STATUS), kEnabled);
  }
  bool raised(unsigned vector) {
    const bool was = (device.datapath.effects->vectors()[vector / 64] >> (vector % 64)) & 1;
    device.datapath.effects->clear();
    return was;
  }
  // The device goes on from its own state, as another one would.
  void save_and_load() {
    device.datapath.effects->clear();
    std::vector<std::byte> state;
    std::string error;
    EXPECT_TRUE(device.save(state, error) && device.load(state, error)) << error;
  }

  // ---- the queue ----
  void submit(const tern_aq_entry& entry) {
    host.put(aq + tail % kEntries * sizeof(entry), entry);
    set(TERN_REG_AQ_TAIL, ++tail);
  }
  Status reap() {
    last = host.get<tern_acq_entry>(acq + done % kEntries * sizeof(last));
    EXPECT_EQ(last.phase, (done / kEntries) % 2 == 0 ? 1U : 0U) << "not completed";
    ++done;
    EXPECT_EQ(last.aq_head, done);
    return last.status;
  }
  // An entry whose input is in in_buf already.
  tern_aq_entry entry(std::uint16_t opcode, std::size_t in_len, std::size_t out_len) {
    return test::admin_entry(opcode, in_buf, in_len, out_buf, out_len, 0xc0de0000 + tail);
  }
  Status run(const tern_aq_entry& e) {
    submit(e);
    EXPECT_FALSE(device.run(1 << 20));
    const Status st = reap();
    EXPECT_EQ(last.tag, e.tag);
    if (st != TERN_ST_OK) {
      EXPECT_EQ(last.out_len, 0U);
    }
    return st;
  }
  template <class In>
  Status run(std::uint16_t opcode, const In& in, std::size_t out_len = 0) {
    host.put(in_buf, in);
    return run(entry(opcode, sizeof(in), out_len));
  }
  Status run(std::uint16_t opcode) { return run(entry(opcode, 0, 0)); }
  template <class Out>
  Out out() {
    EXPECT_EQ(last.out_len, sizeof(Out));
    return host.get<Out>(out_buf);
  }
  Status on(std::uint16_t opcode, std::uint32_t id, std::size_t out_len = 0) {
    return run(opcode, tern_cmd_object{id, 0}, out_len);
  }
  template <class In>
  std::uint32_t make(std::uint16_t opcode, const In& in) {
    EXPECT_EQ(run(opcode, in, sizeof(tern_rsp_object)), TERN_ST_OK);
    return out<tern_rsp_object>().id;
  }
  tern_rsp_objects objects() {
    EXPECT_EQ(run(entry(TERN_CMD_QUERY_OBJECTS, 0, sizeof(tern_rsp_objects))), TERN_ST_OK);
    return out<tern_rsp_objects>();
  }

  // ---- objects ----
  tern_pages pages(std::uint64_t n) {
    tern_pages p{.addr = host.alloc(n * 8),
                 .num = static_cast<std::uint32_t>(n),
                 .page_shift = 12,
                 .kind = TERN_PAGES_LIST};
    for (std::uint64_t i = 0; i < n; ++i) host.put(p.addr + 8 * i, host.alloc(4096));
    return p;
  }
  std::uint32_t make_uar() {
    EXPECT_EQ(run(entry(TERN_CMD_ALLOC_UAR, 0, 8)), TERN_ST_OK);
    return out<tern_rsp_object>().id;
  }
  std::uint32_t make_xrcd() {
    EXPECT_EQ(run(entry(TERN_CMD_ALLOC_XRCD, 0, 8)), TERN_ST_OK);
    return out<tern_rsp_object>().id;
  }
  std::uint32_t make_pd(std::uint32_t flags = 0) {
    return make(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{flags, 0});
  }
  tern_cmd_create_eq eq_command(std::uint8_t kind = TERN_EQ_COMPLETION) {
    tern_cmd_create_eq c{.pages = pages(1),
                         .record = host.alloc(sizeof(tern_eq_record), sizeof(tern_eq_record)),
                         .vector = 1,
                         .log_size = 4,
                         .kind = kind};
    return c;
  }
  tern_cmd_create_cq cq_command(std::uint32_t eqn, std::uint32_t uar) {
    tern_cmd_create_cq c{.pages = pages(1),
                         .record = host.alloc(sizeof(tern_cq_record), sizeof(tern_cq_record)),
                         .eqn = eqn,
                         .uar = uar,
                         .log_size = 6};
    return c;
  }
  tern_cmd_create_mr mr_command(std::uint32_t pdn) {
    tern_cmd_create_mr c{
        .pages = pages(2), .length = 8192, .pdn = pdn, .access = TERN_ACCESS_LOCAL_WRITE};
    return c;
  }
  tern_cmd_create_qp qp_command(std::uint32_t pdn, std::uint32_t uar, std::uint32_t cqn) {
    tern_cmd_create_qp c{.pages = pages(2),
                         .record = host.alloc(sizeof(tern_qp_record), sizeof(tern_qp_record)),
                         .rq_offset = 4096,
                         .pdn = pdn,
                         .uar = uar};
    c.send_cqn = c.recv_cqn = cqn;
    c.type = TERN_QPT_RC;
    c.log_sq_size = 4;
    c.log_sq_stride = 8;
    c.log_rq_size = 5;
    c.log_rq_stride = 7;
    return c;
  }
  tern_cmd_create_srq srq_command(std::uint32_t pdn) {
    tern_cmd_create_srq c{.pages = pages(1),
                          .record = host.alloc(sizeof(tern_srq_record), sizeof(tern_srq_record)),
                          .pdn = pdn,
                          .log_size = 5,
                          .log_stride = 7};
    return c;
  }
  tern_cmd_create_eth_queue eth_command(std::uint32_t cqn, std::uint32_t uar) {
    tern_cmd_create_eth_queue c{
        .pages = pages(1),
        .record = host.alloc(sizeof(tern_eth_record), sizeof(tern_eth_record)),
        .cqn = cqn,
        .uar = uar,
        .log_size = 8,
        .port = 1};
    return c;
  }
};

}  // namespace tern
