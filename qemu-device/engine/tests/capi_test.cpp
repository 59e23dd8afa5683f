// SPDX-License-Identifier: GPL-2.0-or-later
#include "tern_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "core/mutations.h"
#include "core/properties.h"
#include "tern_hw.hpp"
#include "testing/admin_queue.h"
#include "tests/fake_host.h"

namespace {

// How many allocations succeed before one fails; negative: none fails.
thread_local int failing_allocation = -1;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (failing_allocation < 0 || failing_allocation-- != 0) {
    if (void* const p = std::malloc(size != 0 ? size : 1)) return p;
  }
  throw std::bad_alloc();
}
// The library's version would call the sanitizer's, whose memory free() rejects.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size != 0 ? size : 1);
}
// Not inlined: the compiler would take it for new paired with free().
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace tern {
namespace {

// C functions that call a FakeHost.
void* map_c(void* opaque, uint64_t addr, uint64_t* len, bool write) {
  const auto span = static_cast<FakeHost*>(opaque)->map(addr, *len, write);
  *len = span.size();
  return span.empty() ? nullptr : span.data();
}
void unmap_c(void* opaque, void* p, uint64_t len, bool write, uint64_t written) {
  static_cast<FakeHost*>(opaque)->unmap({static_cast<std::byte*>(p), len}, write, written);
}
uint64_t now_c(void* opaque) { return static_cast<FakeHost*>(opaque)->now(); }
uint64_t random_c(void* opaque) { return static_cast<FakeHost*>(opaque)->random(); }
void dm_written_c(void* opaque, void* p, uint64_t len) {
  static_cast<FakeHost*>(opaque)->dm_written({static_cast<std::byte*>(p), len});
}
void ram_written_c(void* opaque, void* p, uint64_t len) {
  static_cast<FakeHost*>(opaque)->ram_written({static_cast<std::byte*>(p), len});
}

constexpr TernHostOps kOps = {map_c, unmap_c, now_c, random_c, dm_written_c, ram_written_c};

constexpr TernProperties kGood = {.dm_size = 0,
                                  .uar_size = 16 << 20,
                                  .max_qp = 64,
                                  .max_cq = 64,
                                  .max_mr = 64,
                                  .max_mw = 64,
                                  .tm_tags = 0,
                                  .eth_queues = 16,
                                  .max_pages = 1 << 20,
                                  .vectors = 8,
                                  .mtu = 9000,
                                  .speed = 100000};

TernConfig good_config() {
  TernConfig c{};
  c.properties = &kGood;
  c.mac[0] = 0x52;
  return c;
}

std::uint64_t& number_of(TernProperties& values, const TernProperty& p) {
  return *reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(&values) + p.offset);
}

// The table has each number that the C surface has a field for, and its limits are checked.
TEST(Capi, RefusesAPropertyOutOfRangeByItsNameAndRange) {
  FakeHost host;
  unsigned numbers = 0;
  for (std::size_t i = 0; tern_property(i) != nullptr; ++i) {
    const TernProperty& p = *tern_property(i);
    EXPECT_EQ(tern_property_named(p.name), &p);
    if (p.offset < 0 || p.type > TERN_PROPERTY_SIZE) continue;
    ++numbers;
    const Property& row = *find_property(p.name);
    EXPECT_EQ(p.initial, row.initial) << p.name;
    EXPECT_NE(std::string(p.help).find(row.range()), std::string::npos) << p.name;
    for (const std::uint64_t bad : {row.min - 1, row.max + 1}) {
      if (row.allows(bad)) continue;  // 0 below a minimum
      TernProperties values = kGood;
      number_of(values, p) = bad;
      char why[128] = "";
      EXPECT_FALSE(tern_properties_check(&values, why, sizeof(why))) << p.name << "=" << bad;
      EXPECT_EQ(why, "property '" + std::string(p.name) + "' must be " + row.range());
      TernConfig config = good_config();
      config.properties = &values;
      EXPECT_EQ(tern_engine_new(&config, &kOps, &host), nullptr) << p.name << "=" << bad;
    }
  }
  EXPECT_EQ(numbers, 14U);
  EXPECT_EQ(tern_property_named("nothing"), nullptr);
}

TEST(Capi, RefusesConfigurationsOutOfRange) {
  FakeHost host;
  static std::byte storage[1 << 16];
  static char word_2a[] = "2a";
  static char word_2c[] = "2c";
  static char wrong_congestion[] = "of";
  using C = TernConfig;
  using P = TernProperties;
  const std::pair<bool, std::function<void(C&, P&)>> rows[] = {
      {true, [](C&, P&) {}},
      {true, [](C& c, P& p) { p.dm_size = 1 << 16, c.dm_storage = storage; }},
      {false, [](C&, P& p) { p.dm_size = 1 << 16; }},
      {false, [](C& c, P& p) { p.dm_size = 4096, c.dm_storage = storage; }},
      {false, [](C& c, P& p) { p.dm_size = std::uint64_t{1} << 37, c.dm_storage = storage; }},
      {false, [](C&, P& p) { p.uar_size = 0; }},
      {true, [](C&, P& p) { p.uar_size = 2 << 16; }},
      {false, [](C&, P& p) { p.uar_size = 3 << 16; }},
      {false, [](C&, P& p) { p.max_qp = 1 << 24; }},
      {false, [](C&, P& p) { p.max_cq = std::uint64_t{1} << 32 | 1; }},
      {false, [](C&, P& p) { p.max_mr = p.max_mw = 1 << 23; }},
      {true, [](C&, P& p) { p.max_mw = 0; }},
      {true, [](C&, P& p) { p.tm_tags = 4096; }},
      {true, [](C&, P& p) { p.vectors = 128; }},
      {true, [](C&, P& p) { p.mtu = 9216; }},
      {false, [](C&, P& p) { p.speed = 0; }},
      {true, [](C&, P& p) { p.max_pages = 1024; }},
      {true, [](C&, P& p) { p.mw_type = word_2a; }},
      {false, [](C&, P& p) { p.mw_type = word_2c; }},
      {false, [](C&, P& p) { p.congestion = wrong_congestion; }},
      {false, [](C& c, P&) { c.mac[0] = 0x53; }},
      {false, [](C& c, P&) { c.mac[0] = 0; }},
  };
  int row = 0;
  for (const auto& [good, change] : rows) {
    TernProperties values = kGood;
    TernConfig config = good_config();
    config.properties = &values;
    change(config, values);
    TernEngine* const e = tern_engine_new(&config, &kOps, &host);
    EXPECT_EQ(e != nullptr, good) << "row " << row;
    tern_engine_free(e);
    ++row;
  }
  const TernConfig config = good_config();
  EXPECT_EQ(tern_engine_new(nullptr, &kOps, &host), nullptr);
  EXPECT_EQ(tern_engine_new(&config, nullptr, &host), nullptr);
  const TernConfig without_properties{};
  EXPECT_EQ(tern_engine_new(&without_properties, &kOps, &host), nullptr);
  for (int i = 0; i < 4; ++i) {
    TernHostOps ops = kOps;
    if (i == 0) ops.map = nullptr;
    if (i == 1) ops.unmap = nullptr;
    if (i == 2) ops.now = nullptr;
    if (i == 3) ops.random = nullptr;
    EXPECT_EQ(tern_engine_new(&config, &ops, &host), nullptr);
  }
}

// Whichever allocation fails, no device is created and nothing leaks.
TEST(Capi, NoDeviceWithoutMemory) {
  FakeHost host;
  const TernConfig config = good_config();
  int failed = 0;
  for (;; ++failed) {
    ASSERT_LT(failed, 10'000);
    failing_allocation = failed;
    TernEngine* const e = tern_engine_new(&config, &kOps, &host);
    const bool all = failing_allocation >= 0;
    failing_allocation = -1;
    EXPECT_EQ(e != nullptr, all) << "allocation " << failed;
    tern_engine_free(e);
    if (all) break;
  }
  EXPECT_GT(failed, 10);
}

class CapiTest : public testing::Test {
 protected:
  CapiTest() {
    const TernConfig config = good_config();
    engine = tern_engine_new(&config, &kOps, &host);
    start();
  }
  ~CapiTest() override { tern_engine_free(engine); }

  void start() {
    test::enable_admin_queue(aq, acq, 4, [this](std::uint32_t offset, std::uint32_t value) {
      tern_engine_reg_write(engine, offset, value);
    });
  }

  void command(std::uint16_t opcode, std::span<const std::byte> in = {}, std::size_t out_len = 0) {
    const tern_aq_entry e = test::admin_entry(opcode, buf, in.size(), buf + 2048, out_len);
    if (!in.empty()) std::memcpy(host.at(buf), in.data(), in.size());
    host.put(aq + tail % 16 * sizeof(e), e);
    tern_engine_reg_write(engine, TERN_REG_AQ_TAIL, ++tail);
    EXPECT_FALSE(tern_engine_run(engine, 1 << 20));
    EXPECT_EQ(host.get<tern_acq_entry>(acq + (tail - 1) % 16 * 16).status, TERN_ST_OK);
  }
  template <class In>
  std::uint32_t make(std::uint16_t opcode, const In& in) {
    command(opcode, std::as_bytes(std::span(&in, 1)), sizeof(tern_rsp_object));
    return host.get<tern_rsp_object>(buf + 2048).id;
  }
  // Enables the port and sends a frame of `len` bytes through the Ethernet function.
  void send_frame(std::uint32_t len) {
    tern_cmd_modify_port port{.mask = TERN_PORT_ENABLE, .enable = 1, .port = 1};
    command(TERN_CMD_MODIFY_PORT, std::as_bytes(std::span(&port, 1)));
    tern_engine_set_link(engine, true);
    tern_cmd_create_cq cq{};
    cq.pages.addr = host.alloc(4096);
    cq.record = host.alloc(64, 64);
    cq.eqn = TERN_NO_EQ;
    cq.log_size = 4;
    tern_cmd_create_eth_queue tx{};
    tx.pages.addr = host.alloc(4096);
    tx.record = host.alloc(sizeof(tern_eth_record), sizeof(tern_eth_record));
    tx.port = 1;
    tx.cqn = make(TERN_CMD_CREATE_CQ, cq);
    tx.log_size = 4;
    const std::uint32_t id = make(TERN_CMD_CREATE_ETH_QUEUE, tx);
    const tern_eth_txd txd = {host.alloc(len), len, TERN_ETH_F_EOP, 0};
    std::memset(host.at(txd.addr), 0x5a, len);
    host.put(std::uint64_t{tx.pages.addr}, txd);
    host.put(std::uint64_t{tx.record}, 1U);
    tern_engine_doorbell(engine, 0, field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_ETH_TX) | id);
    EXPECT_FALSE(tern_engine_run(engine, 1 << 20));
  }

  FakeHost host;
  std::uint64_t aq = host.alloc(4096);
  std::uint64_t acq = host.alloc(4096);
  std::uint64_t buf = host.alloc(4096);
  std::uint32_t tail = 0;
  TernEngine* engine = nullptr;
};

TEST_F(CapiTest, EffectsAreTakenWhole) {
  EXPECT_EQ(tern_engine_take_effects(engine), nullptr);
  command(TERN_CMD_NOP);
  TernEffects* const fx = tern_engine_take_effects(engine);
  ASSERT_NE(fx, nullptr);
  EXPECT_EQ(tern_engine_effects_frames(fx), 0U);
  EXPECT_EQ(tern_engine_effects_vectors(fx)[0], 1U);
  EXPECT_EQ(tern_engine_effects_vectors(fx)[1], 0U);
  EXPECT_EQ(tern_engine_take_effects(engine), nullptr) << "nothing twice";
  tern_engine_effects_free(engine, fx);
  tern_engine_effects_free(engine, nullptr);
}

// A reset drops undelivered effects, by the register and by tern_engine_reset().
TEST_F(CapiTest, AResetDropsEffects) {
  for (const bool by_register : {true, false}) {
    send_frame(100);
    if (by_register) {
      tern_engine_reg_write(engine, TERN_REG_CTRL, TERN_CTRL_RESET);
    } else {
      tern_engine_reset(engine);
    }
    EXPECT_EQ(tern_engine_take_effects(engine), nullptr) << by_register;
    tail = 0;
    start();
  }
}

TEST_F(CapiTest, KnownRamIsNotMapped) {
  const TernRam ram = {buf, 4096, host.at(buf)};
  tern_engine_set_ram(engine, &ram, 1);
  const std::uint64_t before = host.maps;
  (void)make(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{});
  EXPECT_EQ(host.maps, before + 2) << "the entries of the admin queues alone";
  EXPECT_EQ(host.ram_bytes_written, sizeof(tern_rsp_object));
  tern_engine_set_ram(engine, nullptr, 0);
  (void)make(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{});
  EXPECT_EQ(host.maps, before + 6);
  EXPECT_EQ(host.ram_bytes_written, sizeof(tern_rsp_object));
}

TEST_F(CapiTest, FramesStayValidWhileTheEngineGoesOn) {
  send_frame(1000);
  TernEffects* const fx = tern_engine_take_effects(engine);
  ASSERT_NE(fx, nullptr);
  ASSERT_EQ(tern_engine_effects_frames(fx), 1U);
  const TernFrame frame = tern_engine_effects_frame(fx, 0);
  for (int i = 0; i < 10; ++i) {
    command(TERN_CMD_NOP);
    tern_engine_effects_free(engine, tern_engine_take_effects(engine));
  }
  tern_engine_reset(engine);
  ASSERT_EQ(frame.len, 1000U);
  EXPECT_TRUE(frame.to_wire);
  EXPECT_EQ(frame.time, host.clock);
  for (std::uint32_t i = 0; i < frame.len; ++i) ASSERT_EQ(frame.data[i], 0x5a);
  tern_engine_effects_free(engine, fx);
}

TEST_F(CapiTest, ACaptureBeginsAndEnds) {
  tern_engine_set_link(engine, true);
  tern_engine_effects_free(engine, tern_engine_take_effects(engine));
  const std::vector<std::uint8_t> in(100, 0x52);
  for (const bool capture : {false, true, false}) {
    tern_engine_set_capture(engine, capture);
    tern_engine_receive(engine, in.data(), in.size());
    TernEffects* const fx = tern_engine_take_effects(engine);
    ASSERT_EQ(fx != nullptr, capture);
    if (fx == nullptr) continue;
    ASSERT_EQ(tern_engine_effects_frames(fx), 1U);
    const TernFrame frame = tern_engine_effects_frame(fx, 0);
    EXPECT_TRUE(frame.shown);
    EXPECT_FALSE(frame.to_wire);
    EXPECT_EQ(frame.time, host.clock);
    EXPECT_EQ(std::vector(frame.data, frame.data + frame.len), in);
    tern_engine_effects_free(engine, fx);
  }
}

TEST_F(CapiTest, HeldFramesStayValid) {
  tern_engine_set_capture(engine, true);
  const std::vector<std::uint8_t> in(1000, 0x5a);
  const auto take = [&] {
    tern_engine_receive(engine, in.data(), in.size());
    TernEffects* const fx = tern_engine_take_effects(engine);
    EXPECT_EQ(tern_engine_effects_frame(fx, 0).batch, fx);
    return fx;
  };
  const auto intact = [](const TernFrame& frame) {
    return std::all_of(frame.data, frame.data + frame.len,
                       [](std::uint8_t byte) { return byte == 0x5a; });
  };
  tern_engine_effects_free(engine, tern_engine_take_effects(engine));
  std::vector<TernFrame> frames;
  TernEffects* const slow = take();
  frames.push_back(tern_engine_effects_frame(slow, 0));
  ASSERT_TRUE(tern_engine_effects_hold(slow));
  ASSERT_TRUE(tern_engine_effects_hold(slow));
  tern_engine_effects_release(slow, 1);
  tern_engine_effects_free(engine, slow);
  // The others are released at once.
  for (unsigned i = 0; i < 4 * TERN_MAX_HELD; ++i) {
    TernEffects* const fx = take();
    ASSERT_NE(fx, slow);
    ASSERT_TRUE(tern_engine_effects_hold(fx)) << i;
    tern_engine_effects_free(engine, fx);
    tern_engine_effects_release(fx, 1);
  }
  // These are not.
  for (unsigned i = 1;; ++i) {
    TernEffects* const fx = take();
    const bool held = tern_engine_effects_hold(fx);
    ASSERT_EQ(held, i < TERN_MAX_HELD) << "a limit";
    if (held) frames.push_back(tern_engine_effects_frame(fx, 0));
    tern_engine_effects_free(engine, fx);
    if (!held) break;
  }
  EXPECT_TRUE(std::ranges::all_of(frames, intact));
  // One of them makes room for one.
  tern_engine_effects_release(frames.back().batch, 1);
  frames.pop_back();
  tern_engine_effects_free(engine, take());
  TernEffects* const last = take();
  EXPECT_TRUE(tern_engine_effects_hold(last));
  frames.push_back(tern_engine_effects_frame(last, 0));
  tern_engine_effects_free(engine, last);
  // The frames outlive the engine.
  tern_engine_free(engine);
  engine = nullptr;
  EXPECT_TRUE(std::ranges::all_of(frames, intact));
  for (const TernFrame& frame : frames) tern_engine_effects_release(frame.batch, 1);
}

TEST_F(CapiTest, ManyBatchesAtOnce) {
  std::vector<TernEffects*> held;
  for (int i = 0; i < 30; ++i) {
    command(TERN_CMD_NOP);
    held.push_back(tern_engine_take_effects(engine));
    ASSERT_NE(held.back(), nullptr);
  }
  for (TernEffects* const fx : held) tern_engine_effects_free(engine, fx);
  command(TERN_CMD_NOP);
  TernEffects* const fx = tern_engine_take_effects(engine);
  EXPECT_EQ(tern_engine_effects_vectors(fx)[0], 1U) << "a used batch is empty";
  tern_engine_effects_free(engine, fx);
}

TEST_F(CapiTest, InputsReachTheDevice) {
  EXPECT_EQ(tern_engine_reg_read(engine, TERN_REG_STATUS), TERN_STATUS_READY | TERN_STATUS_ENABLED);
  host.clock = 0x5'0000'0007;
  EXPECT_EQ(tern_engine_uar_read(engine, TERN_UAR_CLOCK_LO), 7U);
  EXPECT_EQ(tern_engine_uar_read(engine, TERN_UAR_CLOCK_HI), 5U);
  EXPECT_EQ(tern_engine_next_deadline(engine), UINT64_MAX);
  const std::uint8_t runt[3] = {};
  tern_engine_receive(engine, runt, sizeof(runt));
  tern_engine_dma_invalidate(engine, 0, UINT64_MAX);
  tern_cmd_alloc_pd pd{};
  tern_cmd_create_mr mr{.length = 100, .pdn = make(TERN_CMD_ALLOC_PD, pd)};
  (void)make(TERN_CMD_CREATE_MR, mr);
  send_frame(100);
  TernEngineInfo info;
  tern_engine_info(engine, &info);
  EXPECT_EQ(info.live_keys, 1U);
  EXPECT_EQ(info.live_qps, 0U);
  EXPECT_EQ(info.tx_packets, 1U);
  EXPECT_EQ(info.rx_packets, 0U);
  tern_engine_reset(engine);
  EXPECT_EQ(tern_engine_reg_read(engine, TERN_REG_STATUS),
            static_cast<std::uint32_t>(TERN_STATUS_READY));
  tern_engine_info(engine, &info);
  EXPECT_EQ(info.live_keys, 0U);
}

TEST_F(CapiTest, NothingToPoll) {
  for (const std::uint64_t from : {std::uint64_t{0}, UINT64_MAX}) {
    tern_engine_allow_polling(engine, from);
    EXPECT_TRUE(tern_engine_poll(engine)) << "there is nothing to wait for";
    EXPECT_FALSE(tern_engine_run(engine, 1));
  }
}

TEST(Capi, RulesHaveNamesWhereTheyCanBeSwitchedOff) {
  FakeHost host;
  const TernConfig config = good_config();
  TernEngine* const e = tern_engine_new(&config, &kOps, &host);
  ASSERT_NE(e, nullptr);
  std::size_t rules = 0;
  for (; tern_engine_mutation(rules) != nullptr; ++rules) {
    EXPECT_TRUE(tern_engine_set_mutation(e, tern_engine_mutation(rules)));
  }
  EXPECT_EQ(rules, Mutations::kBuilt ? kRuleNames.size() : 0U);
  EXPECT_EQ(tern_engine_set_mutation(e, ""), Mutations::kBuilt);
  EXPECT_EQ(tern_engine_set_mutation(e, "mw-pd"), Mutations::kBuilt);
  EXPECT_FALSE(tern_engine_set_mutation(e, "mw-p"));
  EXPECT_FALSE(tern_engine_set_mutation(e, nullptr));
  tern_engine_free(e);
}

}  // namespace
}  // namespace tern
