// SPDX-License-Identifier: GPL-2.0-or-later
// Registers, life cycle, the admin queue, and the rules that hold for every command.
#include "control/admin.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "control/admin_fixture.h"
#include "faults/rule.h"

namespace tern {
namespace {

// ---- registers and life cycle ----

TEST_F(AdminTest, RegistersAfterPowerOn) {
  EXPECT_EQ(reg(TERN_REG_MAGIC), TERN_MAGIC + 0U);
  EXPECT_EQ(reg(TERN_REG_VERSION), 0x10000U);
  EXPECT_EQ(reg(TERN_REG_STATUS), kReady);
  EXPECT_EQ(reg(TERN_REG_PAGE_SHIFT), 12U);
  EXPECT_EQ(reg(TERN_REG_FATAL), 0U);
  for (const std::uint32_t offset :
       {0x0cU, 0x20U, 0x24U, 0x28U, 0x2cU, 0x30U, 0x34U, 0x38U, 0x3cU}) {
    EXPECT_EQ(reg(offset), 0U) << offset;
  }
  const std::set<std::uint32_t> known = {0x00, 0x04, 0x08, 0x0c, 0x10, 0x14, 0x20, 0x24,
                                         0x28, 0x2c, 0x30, 0x34, 0x38, 0x3c, 0x40, 0x44};
  for (std::uint32_t offset = 0; offset < 0x1000; ++offset) {
    if (known.contains(offset)) continue;
    ASSERT_EQ(reg(offset), TERN_REG_GONE) << offset;
    set(offset, 1);
  }
  EXPECT_EQ(reg(TERN_REG_STATUS), kReady);
}

TEST_F(AdminTest, ReadOnlyRegistersIgnoreWrites) {
  for (const std::uint32_t offset :
       {TERN_REG_MAGIC, TERN_REG_VERSION, TERN_REG_STATUS, TERN_REG_FATAL, TERN_REG_CLOCK_HI}) {
    const std::uint32_t before = reg(offset);
    set(offset, ~before);
    EXPECT_EQ(reg(offset), before);
  }
}

TEST_F(AdminTest, ClockLatchesItsUpperHalf) {
  host.clock = 0x1'ffff'fff0;
  EXPECT_EQ(reg(TERN_REG_CLOCK_LO), 0xfffffff0U);
  host.clock = 0x2'0000'0000;
  EXPECT_EQ(reg(TERN_REG_CLOCK_HI), 1U);
  EXPECT_EQ(reg(TERN_REG_CLOCK_LO), 0U);
  EXPECT_EQ(reg(TERN_REG_CLOCK_HI), 2U);
}

TEST_F(AdminTest, RegistersHoldWhatWasWrittenUntilEnabled) {
  for (const std::uint32_t offset :
       {TERN_REG_PAGE_SHIFT, TERN_REG_AQ_BASE_LO, TERN_REG_AQ_BASE_HI, TERN_REG_ACQ_BASE_LO,
        TERN_REG_ACQ_BASE_HI, TERN_REG_AQ_LOG_SIZE, TERN_REG_AQ_RECORD_LO, TERN_REG_AQ_RECORD_HI}) {
    set(offset, 0xdeadbee0 + offset);
    EXPECT_EQ(reg(offset), 0xdeadbee0 + offset);
  }
  // A page shift that ENABLE has not checked is not used.
  EXPECT_EQ(device.uar_read(0x10), static_cast<std::uint32_t>(host.clock));
  device.doorbell(0, 0);
  enable();
  set(TERN_REG_PAGE_SHIFT, 13);
  set(TERN_REG_AQ_LOG_SIZE, 8);
  set(TERN_REG_AQ_BASE_LO, 0);
  EXPECT_EQ(reg(TERN_REG_PAGE_SHIFT), 12U);
  EXPECT_EQ(reg(TERN_REG_AQ_LOG_SIZE), kLog);
  EXPECT_EQ(reg(TERN_REG_AQ_BASE_LO), static_cast<std::uint32_t>(aq));
}

TEST_F(AdminTest, EnableChecksTheConfiguration) {
  const struct {
    std::uint32_t offset, value;
    bool good;
  } rows[] = {
      {TERN_REG_PAGE_SHIFT, 11, false},         {TERN_REG_PAGE_SHIFT, 12, true},
      {TERN_REG_PAGE_SHIFT, 16, true},          {TERN_REG_PAGE_SHIFT, 17, false},
      {TERN_REG_PAGE_SHIFT, 0xffffffff, false}, {TERN_REG_AQ_LOG_SIZE, 0, false},
      {TERN_REG_AQ_LOG_SIZE, 1, true},          {TERN_REG_AQ_LOG_SIZE, 8, true},
      {TERN_REG_AQ_LOG_SIZE, 9, false},         {TERN_REG_AQ_LOG_SIZE, 0x80000003, false},
      {TERN_REG_AQ_BASE_LO, 0x1020, false},     {TERN_REG_ACQ_BASE_LO, 0x1001, false},
      {TERN_REG_AQ_BASE_HI, 0xffffffff, true},  {TERN_REG_AQ_RECORD_LO, 0x1040, false},
      {TERN_REG_AQ_RECORD_LO, 0x1080, true},    {TERN_REG_AQ_RECORD_HI, 0xffffffff, true},
  };
  for (const auto& r : rows) {
    set(TERN_REG_CTRL, TERN_CTRL_RESET);
    configure();
    set(r.offset, r.value);
    device.datapath.effects->clear();
    set(TERN_REG_CTRL, TERN_CTRL_ENABLE);
    if (r.good) {
      EXPECT_EQ(reg(TERN_REG_STATUS), kEnabled) << r.offset << ' ' << r.value;
      EXPECT_EQ(reg(TERN_REG_FATAL), 0U);
    } else {
      EXPECT_TRUE(reg(TERN_REG_STATUS) & TERN_STATUS_FATAL) << r.offset << ' ' << r.value;
      EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_CONFIG + 0U);
      EXPECT_TRUE(raised(0));
    }
  }
}

TEST_F(AdminTest, OnlyResetLeavesFatal) {
  set(TERN_REG_CTRL, TERN_CTRL_ENABLE);
  ASSERT_TRUE(reg(TERN_REG_STATUS) & TERN_STATUS_FATAL);
  configure();
  EXPECT_EQ(reg(TERN_REG_AQ_LOG_SIZE), 0U) << "takes no configuration";
  set(TERN_REG_CTRL, TERN_CTRL_ENABLE);
  EXPECT_TRUE(reg(TERN_REG_STATUS) & TERN_STATUS_FATAL);
  device.datapath.fatal(TERN_FATAL_INTERNAL);
  EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_CONFIG + 0U) << "the first one stays";
  set(TERN_REG_CTRL, TERN_CTRL_RESET | TERN_CTRL_ENABLE | 0x80);
  EXPECT_EQ(reg(TERN_REG_STATUS), kReady);
  EXPECT_EQ(reg(TERN_REG_FATAL), 0U);
  enable();
}

TEST_F(AdminTest, UnknownControlBitsAreIgnored) {
  set(TERN_REG_CTRL, 0xfffffffc);
  EXPECT_EQ(reg(TERN_REG_STATUS), kReady);
  enable();
  set(TERN_REG_CTRL, TERN_CTRL_ENABLE);
  EXPECT_EQ(reg(TERN_REG_STATUS), kEnabled);
}

// ---- the queue ----

TEST_F(AdminTest, TailIsIgnoredUntilEnabled) {
  set(TERN_REG_AQ_TAIL, 1000);
  enable();
  EXPECT_FALSE(device.run(1 << 20));
  EXPECT_EQ(reg(TERN_REG_STATUS), kEnabled);
  EXPECT_EQ(run(TERN_CMD_NOP), TERN_ST_OK);
}

TEST_F(AdminTest, CompletionsWrapAndRaise) {
  enable();
  for (std::uint32_t i = 0; i < 5 * kEntries + 3; ++i) {
    EXPECT_EQ(run(TERN_CMD_NOP), TERN_ST_OK);
    EXPECT_TRUE(raised(0));
  }
}

TEST_F(AdminTest, RunsInPieces) {
  enable();
  set(TERN_REG_CTRL, TERN_CTRL_RESET);
  configure();
  // A queue larger than one run() serves.
  aq = host.alloc(256 * sizeof(tern_aq_entry));
  acq = host.alloc(256 * sizeof(tern_acq_entry));
  configure();
  set(TERN_REG_AQ_LOG_SIZE, 8);
  set(TERN_REG_CTRL, TERN_CTRL_ENABLE);
  for (std::uint64_t i = 0; i < 256; ++i) {
    host.put(aq + i * sizeof(tern_aq_entry), entry(TERN_CMD_NOP, 0, 0));
  }
  set(TERN_REG_AQ_TAIL, 256);
  int runs = 1;
  while (device.run(1 << 20)) ++runs;
  EXPECT_GT(runs, 4);
  EXPECT_EQ(host.get<tern_acq_entry>(acq + 255 * 16).aq_head, 256U);
}

TEST_F(AdminTest, OverrunIsFatal) {
  enable();
  set(TERN_REG_AQ_TAIL, kEntries);
  EXPECT_EQ(reg(TERN_REG_STATUS), kEnabled);
  (void)device.run(1 << 20);
  set(TERN_REG_AQ_TAIL, 2 * kEntries + 1);
  EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_AQ_OVERRUN + 0U);
  set(TERN_REG_CTRL, TERN_CTRL_RESET);
  enable();
  set(TERN_REG_AQ_TAIL, 0xffffffff);
  EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_AQ_OVERRUN + 0U) << "backwards";
}

TEST_F(AdminTest, UnreachableQueuesAreFatal) {
  enable();
  host.punch(aq, 64);
  set(TERN_REG_AQ_TAIL, 1);
  EXPECT_FALSE(device.run(1 << 20));
  EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_AQ_DMA + 0U);
  host.restore(aq);
  set(TERN_REG_CTRL, TERN_CTRL_RESET);
  enable();
  host.punch(acq + 16, 16);
  EXPECT_EQ(run(TERN_CMD_NOP), TERN_ST_OK);
  submit(entry(TERN_CMD_NOP, 0, 0));
  EXPECT_FALSE(device.run(1 << 20));
  EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_AQ_DMA + 0U);
}

TEST_F(AdminTest, QueuesThroughShortMappings) {
  enable();
  for (const std::uint64_t limit : {1, 3, 7, 16}) {
    host.short_span = limit;
    EXPECT_EQ(run(TERN_CMD_NOP), TERN_ST_OK);
    const std::uint32_t pd = make_pd();
    EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_OK);
  }
}

// ---- the record ----

class AdminRecordTest : public AdminTest {
 protected:
  std::uint64_t record = host.alloc(sizeof(tern_aq_record), sizeof(tern_aq_record));

  void SetUp() override {
    configure();
    set(TERN_REG_AQ_RECORD_LO, static_cast<std::uint32_t>(record));
    set(TERN_REG_AQ_RECORD_HI, static_cast<std::uint32_t>(record >> 32));
    set(TERN_REG_CTRL, TERN_CTRL_ENABLE);
    ASSERT_EQ(reg(TERN_REG_STATUS), kEnabled);
  }
  void arm(std::uint32_t index) { host.put(record + offsetof(tern_aq_record, arm), index); }
  [[nodiscard]] bool polled() {
    return host.get<std::uint32_t>(record + offsetof(tern_aq_record, status)) == TERN_AQ_ST_POLLED;
  }
  // Commands by register until the device polls. Returns their number.
  unsigned ring_until_polled(Nanos spacing) {
    device.allow_polling(0);
    unsigned n = 0;
    for (; n < 100 && !polled(); ++n) {
      host.advance(spacing);
      post();
      set(TERN_REG_AQ_TAIL, tail);
      (void)device.run(1 << 20);
      (void)reap();
    }
    return n;
  }
  // Submits a command without the register.
  void post() {
    host.put(aq + tail % kEntries * sizeof(tern_aq_entry), entry(TERN_CMD_NOP, 0, 0));
    host.put(record + offsetof(tern_aq_record, tail), ++tail);
  }
};

TEST_F(AdminRecordTest, OnlyTheArmedCompletionRaises) {
  EXPECT_EQ(run(TERN_CMD_NOP), TERN_ST_OK);
  EXPECT_TRUE(raised(0)) << "a zeroed record arms the first one";
  for (std::uint32_t i = 1; i < 3 * kEntries; ++i) {
    EXPECT_EQ(run(TERN_CMD_NOP), TERN_ST_OK);
    EXPECT_FALSE(raised(0)) << i;
  }
  arm(done + 2);
  for (const bool want : {false, false, true, false}) {
    EXPECT_EQ(run(TERN_CMD_NOP), TERN_ST_OK);
    EXPECT_EQ(raised(0), want);
  }
  arm(done - 1);
  EXPECT_EQ(run(TERN_CMD_NOP), TERN_ST_OK);
  EXPECT_FALSE(raised(0)) << "it was there before";
}

TEST_F(AdminRecordTest, CommandsInARowArePolled) {
  EXPECT_LT(ring_until_polled(100), 20U);
  ASSERT_TRUE(polled());
  EXPECT_FALSE(device.poll());
  post();
  EXPECT_TRUE(device.poll());
  EXPECT_TRUE(device.run(1 << 20)) << "polls on";
  EXPECT_EQ(reap(), TERN_ST_OK);
  // A register write beside it does no harm.
  post();
  set(TERN_REG_AQ_TAIL, tail);
  EXPECT_TRUE(device.run(1 << 20));
  EXPECT_EQ(reap(), TERN_ST_OK);
  EXPECT_FALSE(device.poll());
}

TEST_F(AdminRecordTest, AnIdleQueueIsReleasedAndLosesNoCommand) {
  (void)ring_until_polled(100);
  ASSERT_TRUE(polled());
  unsigned polls = 0;
  while (!device.poll()) ASSERT_LT(++polls, 10'000U);
  EXPECT_FALSE(polled());
  EXPECT_FALSE(device.run(1 << 20)) << "nothing to do";

  (void)ring_until_polled(100);
  ASSERT_TRUE(polled());
  post();
  device.allow_polling(kNever);
  EXPECT_FALSE(polled());
  EXPECT_FALSE(device.run(1 << 20));
  EXPECT_EQ(reap(), TERN_ST_OK) << "stored before software could see that";
}

TEST_F(AdminRecordTest, RareCommandsAreNotPolled) { EXPECT_EQ(ring_until_polled(1'000'000), 100U); }

TEST_F(AdminRecordTest, AnUnreachableRecordIsFatal) {
  (void)ring_until_polled(100);
  ASSERT_TRUE(polled());
  host.punch(record, 4);
  EXPECT_TRUE(device.poll());
  EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_AQ_DMA + 0U);
  EXPECT_FALSE(device.run(1 << 20));
  host.restore(record);
  set(TERN_REG_CTRL, TERN_CTRL_RESET);
  EXPECT_EQ(reg(TERN_REG_AQ_RECORD_LO), 0U);
  enable();
  EXPECT_EQ(run(TERN_CMD_NOP), TERN_ST_OK);
  EXPECT_TRUE(raised(0)) << "without a record each completion raises";
}

TEST_F(AdminRecordTest, AnUnreachableArmWordIsFatal) {
  host.punch(record + offsetof(tern_aq_record, arm), 4);
  submit(entry(TERN_CMD_NOP, 0, 0));
  EXPECT_FALSE(device.run(1 << 20));
  EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_AQ_DMA + 0U);
}

TEST_F(AdminRecordTest, ATailThatJumpsIsFatal) {
  (void)ring_until_polled(100);
  ASSERT_TRUE(polled());
  host.put(record + offsetof(tern_aq_record, tail), tail + kEntries + 1);
  EXPECT_TRUE(device.poll());
  EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_AQ_OVERRUN + 0U);
  save_and_load();
  EXPECT_EQ(reg(TERN_REG_FATAL), TERN_FATAL_AQ_OVERRUN + 0U);
}

// ---- rules of every command ----

// A command: size of its input, offsets that must be zero in it, size of its reply.
struct Shape {
  std::uint16_t opcode;
  std::string name;  // in the contract, without TERN_CMD_
  std::size_t in;
  std::vector<std::size_t> reserved;
  std::size_t out;
};

std::vector<std::size_t> range(std::size_t first, std::size_t n) {
  std::vector<std::size_t> r;
  for (std::size_t i = 0; i < n; ++i) r.push_back(first + i);
  return r;
}

std::vector<std::size_t> operator+(std::vector<std::size_t> a, const std::vector<std::size_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

#define COMMAND(name) TERN_CMD_##name, #name

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {COMMAND(NOP), 0, {}, 0},
      {COMMAND(QUERY_CAPS), 0, {}, 216},
      {COMMAND(QUERY_OBJECTS), 0, {}, 96},
      {COMMAND(QUERY_COUNTERS), 8, range(5, 3), 280},
      {COMMAND(QUERY_PORT), 8, range(1, 7), 24},
      {COMMAND(MODIFY_PORT), 16, {}, 0},
      {COMMAND(SET_GID), 32, range(13, 3), 0},
      {COMMAND(ALLOC_UAR), 0, {}, 8},
      {COMMAND(FREE_UAR), 8, range(4, 4), 0},
      {COMMAND(ALLOC_PD), 8, range(4, 4), 8},
      {COMMAND(FREE_PD), 8, range(4, 4), 0},
      {COMMAND(CREATE_EQ), 32, range(14, 2) + range(0x1c, 4), 8},
      {COMMAND(DESTROY_EQ), 8, range(4, 4), 0},
      {COMMAND(CREATE_CQ), 40, range(14, 2) + range(0x22, 6), 8},
      {COMMAND(DESTROY_CQ), 8, range(4, 4), 0},
      {COMMAND(RESIZE_CQ), 24, range(14, 2) + range(0x15, 3), 8},
      {COMMAND(MODIFY_CQ), 8, {}, 0},
      {COMMAND(QUERY_CQ), 8, range(4, 4), 32},
      {COMMAND(CREATE_MR), 56, range(14, 2) + range(0x36, 2), 8},
      {COMMAND(DESTROY_MR), 8, range(4, 4), 0},
      {COMMAND(UPDATE_PAGES), 32, range(14, 2), 0},
      {COMMAND(REREG_MR), 64, range(14, 2) + range(0x39, 7), 0},
      {COMMAND(QUERY_MR), 8, range(4, 4), 48},
      {COMMAND(ALLOC_MW), 8, range(5, 3), 8},
      {COMMAND(FREE_MW), 8, range(4, 4), 0},
      {COMMAND(ALLOC_DM), 16, range(12, 4), 24},
      {COMMAND(FREE_DM), 8, range(4, 4), 0},
      {COMMAND(MAP_DM_OP), 16, range(13, 3), 8},
      {COMMAND(CREATE_QP), 64, range(14, 2) + range(0x3e, 2), 8},
      {COMMAND(DESTROY_QP), 8, range(4, 4), 0},
      {COMMAND(MODIFY_QP), 152,
       range(0x10 + 0x23, 5) + range(0x10 + 0x52, 6) + range(0x68 + 0x23, 5) +
           range(0x68 + 0x2d, 3),
       0},
      {COMMAND(QUERY_QP), 8, range(4, 4), 152},
      {COMMAND(RESUME_QP), 16, range(0xa, 6), 0},
      {COMMAND(ALLOC_XRCD), 0, {}, 8},
      {COMMAND(FREE_XRCD), 8, range(4, 4), 0},
      {COMMAND(CREATE_SRQ), 64, range(14, 2) + range(0x28 + 14, 2), 8},
      {COMMAND(DESTROY_SRQ), 8, range(4, 4), 0},
      {COMMAND(MODIFY_SRQ), 32, range(14, 2) + range(0x1d, 3), 0},
      {COMMAND(QUERY_SRQ), 8, range(4, 4), 8},
      {COMMAND(ATTACH_MCAST), 24, range(0x15, 3), 0},
      {COMMAND(DETACH_MCAST), 24, range(0x15, 3), 0},
      {COMMAND(CREATE_ETH_QUEUE), 40, range(14, 2) + range(0x24, 4), 8},
      {COMMAND(DESTROY_ETH_QUEUE), 8, range(4, 4), 0},
      {COMMAND(SET_RX_FILTER), 904, range(5, 3), 0},
      {COMMAND(SET_RX_DEFAULT), 8, range(6, 2), 0},
      {COMMAND(CREATE_RSS), 568, {}, 8},
      {COMMAND(MODIFY_RSS), 568, {}, 0},
      {COMMAND(DESTROY_RSS), 8, range(4, 4), 0},
      {COMMAND(CREATE_FLOW), 336, {}, 8},
      {COMMAND(DESTROY_FLOW), 8, range(4, 4), 0},
      {COMMAND(CREATE_FLOW_COUNTER), 0, {}, 8},
      {COMMAND(QUERY_FLOW_COUNTER), 8, range(4, 4), 16},
      {COMMAND(DESTROY_FLOW_COUNTER), 8, range(4, 4), 0},
      {COMMAND(CREATE_COUNTER_SET), 0, {}, 8},
      {COMMAND(DESTROY_COUNTER_SET), 8, range(4, 4), 0},
      {COMMAND(QUERY_COUNTER_SET), 8, range(4, 4), 280},
      {COMMAND(BIND_COUNTER_SET), 8, {}, 0},
      {COMMAND(CREATE_COMP_CNTR), 24, range(0x11, 7), 8},
      {COMMAND(DESTROY_COMP_CNTR), 8, range(4, 4), 0},
      {COMMAND(MODIFY_COMP_CNTR), 16, range(6, 2), 0},
      {COMMAND(ATTACH_COMP_CNTR), 16, range(12, 4), 0},
      {COMMAND(QUERY_CC), 8, range(1, 7), 128},
      {COMMAND(SET_CC), 136, range(5, 3), 0},
  };
  return all;
}

#undef COMMAND

// Fault rules select a command by its name in lower case, with hyphens.
TEST_F(AdminTest, EveryCommandHasANameForFaultRules) {
  for (const Shape& s : shapes()) {
    std::string name = s.name;
    for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(c));
    EXPECT_EQ(command_named(name), s.opcode) << name;
  }
}

TEST_F(AdminTest, EveryCodeOfTheContractAndNoOther) {
  enable();
  std::set<unsigned> done_codes;
  for (const Shape& s : shapes()) done_codes.insert(s.opcode);
  for (unsigned code = 0; code < 0x10000; code += code < 0x200 ? 1 : 0x101) {
    const Status st = run(static_cast<std::uint16_t>(code));
    if (!done_codes.contains(code)) {
      EXPECT_EQ(st, TERN_ST_BAD_OPCODE) << code;
    } else {
      EXPECT_TRUE(st == TERN_ST_OK || st == TERN_ST_BAD_LENGTH) << code;
    }
  }
}

TEST_F(AdminTest, Versions) {
  enable();
  for (const Shape& s : shapes()) {
    for (const unsigned version : {0U, 2U, 0xffffU}) {
      tern_aq_entry e = entry(s.opcode, s.in, 0);
      e.version = static_cast<std::uint16_t>(version);
      EXPECT_EQ(run(e), TERN_ST_BAD_VERSION) << s.opcode;
    }
  }
}

TEST_F(AdminTest, InputLength) {
  enable();
  std::memset(host.at(in_buf), 0, 2048);
  for (const Shape& s : shapes()) {
    for (std::size_t len = 0; len < s.in; ++len) {
      EXPECT_EQ(run(entry(s.opcode, len, 0)), TERN_ST_BAD_LENGTH) << s.opcode << ' ' << len;
    }
    EXPECT_EQ(run(entry(s.opcode, 1025, 0)), TERN_ST_BAD_LENGTH) << s.opcode;
    EXPECT_EQ(run(entry(s.opcode, 0xffff, 0)), TERN_ST_BAD_LENGTH) << s.opcode;
    EXPECT_EQ(run(entry(s.opcode, s.in, 1025)), TERN_ST_BAD_LENGTH) << s.opcode;
    const Status plain = run(entry(s.opcode, s.in, 0));
    EXPECT_EQ(run(entry(s.opcode, 1024, 0)), plain) << s.opcode << ": zeros past the structure";
  }
}

TEST_F(AdminTest, BytesPastTheStructureMustBeZero) {
  enable();
  for (const Shape& s : shapes()) {
    for (const std::size_t at : {s.in, s.in + 1, std::size_t{1000}, std::size_t{1023}}) {
      std::memset(host.at(in_buf), 0, 2048);
      host.put<std::uint8_t>(in_buf + at, 1);
      EXPECT_EQ(run(entry(s.opcode, 1024, 0)), TERN_ST_BAD_PARAM) << s.opcode << ' ' << at;
      // Bytes past the end of the input are ignored.
      EXPECT_EQ(run(entry(TERN_CMD_NOP, at, 0)), TERN_ST_OK);
    }
  }
}

TEST_F(AdminTest, ReservedBytesMustBeZero) {
  enable();
  for (const Shape& s : shapes()) {
    for (const std::size_t at : s.reserved) {
      std::memset(host.at(in_buf), 0, 2048);
      host.put<std::uint8_t>(in_buf + at, 0x80);
      EXPECT_EQ(run(entry(s.opcode, s.in, 0)), TERN_ST_BAD_PARAM) << s.opcode << ' ' << at;
    }
  }
  tern_aq_entry e = entry(TERN_CMD_NOP, 0, 0);
  e.rsvd_c = 1;
  EXPECT_EQ(run(e), TERN_ST_BAD_PARAM);
}

TEST_F(AdminTest, AddressesOfArguments) {
  enable();
  tern_aq_entry e = entry(TERN_CMD_ALLOC_PD, 8, 8);
  host.put(in_buf, std::uint64_t{0});
  for (const std::uint64_t bad : {1, 2, 4}) {
    e = entry(TERN_CMD_ALLOC_PD, 8, 8);
    e.in_addr += bad;
    EXPECT_EQ(run(e), TERN_ST_BAD_PARAM);
    e = entry(TERN_CMD_ALLOC_PD, 8, 8);
    e.out_addr += bad;
    EXPECT_EQ(run(e), TERN_ST_BAD_PARAM);
  }
  for (const std::uint64_t hole : {std::uint64_t{0x1000}, UINT64_MAX - 7}) {
    e = entry(TERN_CMD_ALLOC_PD, 8, 8);
    e.in_addr = hole;
    EXPECT_EQ(run(e), TERN_ST_DMA_ERROR);
    e = entry(TERN_CMD_ALLOC_PD, 8, 8);
    e.out_addr = hole;
    EXPECT_EQ(run(e), TERN_ST_DMA_ERROR);
  }
  // The addresses are ignored when there are no bytes.
  e = entry(TERN_CMD_NOP, 0, 0);
  e.in_addr = e.out_addr = 1;
  EXPECT_EQ(run(e), TERN_ST_OK);
  EXPECT_EQ(objects().pd, 0U);
}

TEST_F(AdminTest, CommandWhoseReplyCannotBeWrittenDoesNothing) {
  enable();
  tern_aq_entry e = entry(TERN_CMD_ALLOC_UAR, 0, 8);
  e.out_addr = 0x2000;
  EXPECT_EQ(run(e), TERN_ST_DMA_ERROR);
  host.put(in_buf, tern_cmd_alloc_pd{});
  e = entry(TERN_CMD_ALLOC_PD, 8, 8);
  host.punch(out_buf + 4, 4);  // second half of the reply
  EXPECT_EQ(run(e), TERN_ST_DMA_ERROR);
  host.restore(out_buf + 4);
  const auto counts = objects();
  EXPECT_EQ(counts.uar, 0U);
  EXPECT_EQ(counts.pd, 0U);
}

TEST_F(AdminTest, RepliesAreCut) {
  enable();
  for (const std::size_t len : {0, 1, 4, 100, 191, 192, 193, 1024}) {
    std::memset(host.at(out_buf), 0xee, 2048);
    EXPECT_EQ(run(entry(TERN_CMD_QUERY_CAPS, 0, len)), TERN_ST_OK);
    const std::size_t written = std::min(len, sizeof(tern_rsp_caps));
    EXPECT_EQ(last.out_len, written);
    EXPECT_EQ(host.get<std::uint8_t>(out_buf + written), 0xeeU);
  }
}

TEST_F(AdminTest, NothingRunsInFatal) {
  enable();
  submit(entry(TERN_CMD_NOP, 0, 0));
  device.datapath.fatal(TERN_FATAL_INTERNAL);
  EXPECT_TRUE(raised(0));
  EXPECT_FALSE(device.run(1 << 20));
  EXPECT_EQ(host.get<tern_acq_entry>(acq).phase, 0U);
}

// Random commands, often close enough to valid ones to pass the first checks. Nothing may break,
// and a reset must leave nothing behind.
TEST_F(AdminTest, RandomCommands) {
  FakeHost dice(7);
  const auto roll = [&](std::uint64_t n) { return dice.random() % n; };
  for (int round = 0; round < 20; ++round) {
    enable();
    const std::uint32_t uar = make_uar();
    const std::uint32_t pd = make_pd();
    const std::uint32_t eqn = make(TERN_CMD_CREATE_EQ, eq_command());
    const std::uint32_t cqn = make(TERN_CMD_CREATE_CQ, cq_command(eqn, uar));
    const std::uint32_t key = make(TERN_CMD_CREATE_MR, mr_command(pd));
    const std::uint32_t qpn = make(TERN_CMD_CREATE_QP, qp_command(pd, uar, cqn));
    const std::uint32_t known[] = {uar, pd, eqn, cqn, key, qpn, 0, 1, TERN_NO_EQ, 4096, 8192};
    for (int i = 0; i < 300; ++i) {
      const Shape& s = shapes()[roll(shapes().size())];
      std::memset(host.at(in_buf), 0, 2048);
      for (std::size_t at = 0; at + 4 <= s.in; at += 4) {
        if (roll(2)) host.put(in_buf + at, known[roll(std::size(known))]);
        if (roll(8) == 0) host.put(in_buf + at, static_cast<std::uint32_t>(dice.random()));
      }
      if (s.in >= 16 && roll(2)) host.put(in_buf, pages(roll(4)));
      for (const std::size_t at : s.reserved) host.put<std::uint8_t>(in_buf + at, 0);
      (void)run(entry(s.opcode, s.in, roll(300)));
      if (reg(TERN_REG_STATUS) != kEnabled) break;
    }
    (void)objects();
    set(TERN_REG_CTRL, TERN_CTRL_RESET);
    enable();
    EXPECT_EQ(objects().page_entries, 0U);
    set(TERN_REG_CTRL, TERN_CTRL_RESET);
  }
}

}  // namespace
}  // namespace tern
