// SPDX-License-Identifier: GPL-2.0-or-later
// Saved states: which are refused, and why. That a device continues as if nothing had happened is
// shown by the storm (StormSelf.SavingChangesNothing), and by all tests with TERN_SAVES=N.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/properties.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

// A device in the middle of work of every kind.
class SavedState : public ::testing::Test {
 protected:
  SavedState() {
    a.create_srq();
    qa = &a.create_qp();
    qb = &b.create_qp();
    qa->connect(*qb);
    qb->connect(*qa);
    near = &a.reg(65536);
    far = &b.reg(65536);
    for (unsigned i = 0; i < 6; ++i) {
      const int opcode = i % 2 == 0 ? TERN_WR_RDMA_WRITE : TERN_WR_RDMA_READ;
      qa->post({.opcode = static_cast<std::uint8_t>(opcode),
                .sges = {near->sge(0, 20'000)},
                .raddr = far->iova,
                .rkey = far->key});
    }
    for (unsigned i = 0; i < 3; ++i) (void)sim.step();
    save();
  }
  // Saves the device of node a.
  void save() {
    while (!a.device.datapath.effects->empty()) ASSERT_TRUE(sim.step());
    state.clear();
    std::string error;
    ASSERT_TRUE(a.device.save(state, error)) << error;
  }
  // Where the state has these bytes.
  std::size_t find(std::span<const std::byte> bytes) {
    const auto found = std::ranges::search(state, bytes);
    EXPECT_FALSE(found.empty());
    return static_cast<std::size_t>(found.begin() - state.begin());
  }
  // What a device says of the state with another value at `at`.
  template <class T>
  std::string with(std::size_t at, const T& value) {
    auto other = state;
    std::memcpy(&other.at(at), &value, sizeof(value));
    return refused(a.device.registry.config, other);
  }
  // A device with this configuration, and what it says of the state.
  std::string refused(const Config& config, const std::vector<std::byte>& from) {
    Device other(a.host, config);
    std::string error;
    EXPECT_FALSE(other.load(from, error));
    EXPECT_FALSE(error.empty());
    // It is as after a reset.
    EXPECT_EQ(other.reg_read(TERN_REG_STATUS), TERN_STATUS_READY);
    EXPECT_EQ(other.registry.page_entries(), 0U);
    EXPECT_EQ(other.info().live_qps, 0U);
    EXPECT_EQ(other.next_deadline(), kNever);
    return error;
  }

  Sim sim{3};
  TestNode a{sim, {.lanes = 1}};
  TestNode b{sim, {.lanes = 1}};
  TestQp* qa;
  TestQp* qb;
  TestMr* near;
  TestMr* far;
  std::vector<std::byte> state;
};

TEST_F(SavedState, MayNotExceedALimit) {
  std::vector<std::byte> to;
  std::string error;
  EXPECT_TRUE(a.device.save(to, error, state.size())) << error;
  to.clear();
  EXPECT_FALSE(a.device.save(to, error, state.size() - 1));
  EXPECT_THAT(error, ::testing::HasSubstr("too large"));
  EXPECT_LT(to.size(), state.size());
}

TEST_F(SavedState, WorkGoesOn) {
  ASSERT_FALSE(state.empty());
  ASSERT_TRUE(a.save_and_load());
  for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
}

// Their frames would be lost.
TEST_F(SavedState, EffectsThatNobodyHasTakenAreNotSaved) {
  qa->post(send_inline(std::vector<std::byte>(8)));
  (void)a.device.run(65536);
  ASSERT_FALSE(a.device.datapath.effects->empty());
  std::string error;
  EXPECT_FALSE(a.device.save(state, error));
  EXPECT_EQ(error, "there are effects that nobody has taken (a lane)");
}

TEST_F(SavedState, EachPropertyMustBeTheSame) {
  for (const Property& property : properties()) {
    if (std::holds_alternative<std::monostate>(property.member)) continue;
    Config config = a.device.registry.config;
    const std::uint64_t was = property.get(config);
    std::uint64_t value = was == property.max ? property.min : was + 1;
    while (!property.allows(value)) ++value;
    property.set(config, value);
    if (!check_properties(config).empty() || property.name == std::string("dm-size") ||
        property.name == std::string("uar-size"))
      continue;
    EXPECT_EQ(refused(config, state),
              "property '" + std::string(property.name) + "' is " + std::to_string(value) +
                  ", and was " + std::to_string(was) + " when the state was saved (properties)");
  }
  Config config = a.device.registry.config;
  config.mac[5] ^= 1;
  EXPECT_EQ(refused(config, state), "property 'mac' differs (properties)");
  config = a.device.registry.config;
  config.lanes = 3;
  EXPECT_EQ(refused(config, state),
            "property 'lanes' is 3, and was 1 when the state was saved (properties)");
}

TEST_F(SavedState, OtherVersionsAndByteOrders) {
  auto other = state;
  other[4] ^= std::byte{1};
  EXPECT_EQ(refused(a.device.registry.config, other), "the state has another version (the header)");
  other = state;
  std::swap(other[0], other[3]);
  EXPECT_EQ(refused(a.device.registry.config, other),
            "this is no state of a tern device with this byte order (the header)");
}

// If a class saves more or less than before, raise kVersion in control/state.cc, and note the new
// size here: another version of tern must not take the state for its own.
TEST_F(SavedState, AnotherLayoutIsAnotherVersion) {
  std::uint32_t version = 0;
  std::memcpy(&version, &state[4], sizeof(version));
  EXPECT_EQ(version, 2U);
  EXPECT_EQ(state.size(), 21865U);
}

TEST_F(SavedState, EveryPartIsRefused) {
  const Config config = a.device.registry.config;
  for (std::size_t size = 0; size < state.size(); size += 1 + size / 64) {
    (void)refused(config, {state.begin(), state.begin() + static_cast<std::ptrdiff_t>(size)});
    if (HasFailure()) FAIL() << size << " of " << state.size() << " bytes";
  }
  auto longer = state;
  longer.push_back(std::byte{0});
  EXPECT_EQ(refused(config, longer), "the state is too long (the end)");
}

// Flows are linked in the order of their creation, when all are known.
TEST_F(SavedState, AFlowThatIsCutOff) {
  TestQp& raw = a.create_qp({.type = TERN_QPT_RAW});
  raw.connect();
  const tern_cmd_create_flow cmd{.dest_id = le(raw.number()),
                                 .counter = le(TERN_NO_COUNTER),
                                 .kind = TERN_FLOW_MULTICAST,
                                 .dest = TERN_DEST_QP,
                                 .port = 1,
                                 .flags = TERN_FLOW_F_CONTINUE};
  ASSERT_EQ(a.command(TERN_CMD_CREATE_FLOW, cmd), TERN_ST_OK);
  save();
  const auto bytes = std::as_bytes(std::span(&cmd, 1));
  const auto found = std::ranges::search(state, bytes.first(offsetof(tern_cmd_create_flow, flags)));
  ASSERT_FALSE(found.empty());
  for (auto end = found.end(); end < found.begin() + sizeof(cmd) + 16; ++end)
    (void)refused(a.device.registry.config, {state.begin(), end});
}

// The send queue is idle and has sent one packet.
TEST_F(SavedState, PlacesOfASendQueueThatAreOutOfOrder) {
  auto [from, to] = rc_pair(a, b);
  from.post(write({near->sge(0, 8)}, *far));
  ASSERT_EQ(from.wait_send().status, TERN_CQE_SUCCESS);
  save();
  const std::uint32_t psn = from.options().sq_psn + 1;
  // The oldest WQE and PSN, the cursor with its packet, and the next WQE and PSN to be assigned.
  const std::array<std::uint32_t, 7> places{1, psn, 1, psn, 0, 1, psn};
  const std::size_t at = find(std::as_bytes(std::span(places)));
  EXPECT_THAT(with(at + 3 * sizeof(psn), psn + 1),
              ::testing::HasSubstr("a send queue is inconsistent"));
  for (const std::uint32_t wqe : {0U, 2U, 0x80000001U})
    EXPECT_THAT(with(at + 5 * sizeof(wqe), wqe), ::testing::HasSubstr("out of order")) << wqe;
}

// Operations on device memory access whole pages.
TEST_F(SavedState, APartOfDeviceMemoryThatIsNoPage) {
  const TestDm dm = a.alloc_dm(4096);
  save();
  const std::array<std::uint64_t, 3> part{dm.offset, 4096, 4096};
  const std::size_t at = find(std::as_bytes(std::span(part)));
  const std::uint64_t end = a.device.registry.config.dm.size();
  for (const auto& wrong :
       {std::array{end - 1, std::uint64_t{1}, std::uint64_t{1}},
        std::array{std::uint64_t{64}, std::uint64_t{4096}, std::uint64_t{4096}}}) {
    EXPECT_THAT(with(at, wrong), ::testing::HasSubstr("a part is wrong"));
  }
}

// An RC QP has no such state.
TEST_F(SavedState, AReliableQpInTheErrorStateOfItsSendQueue) {
  auto [from, to] = rc_pair(a, b);
  save();
  const tern_qp_attr attr = from.query().attr;
  auto wrong = attr;
  wrong.state = TERN_QPS_SQE;
  EXPECT_THAT(with(find(std::as_bytes(std::span(&attr, 1))), wrong),
              ::testing::HasSubstr("the attributes of a QP are wrong"));
}

// WQEs complete in order, and only those that send packets have PSNs.
TEST_F(SavedState, WqesThatCannotHaveSentWhatTheySay) {
  auto [from, to] = rc_pair(a, b);
  constexpr std::uint64_t kId = 0x7761697473;
  for (std::uint64_t i = 0; i < 2; ++i)
    from.post(write({near->sge(0, 2'000)}, *far).id(kId + i), false);
  from.post(SendWr{.opcode = TERN_WR_BIND_MW}.id(kId + 2).with(TERN_WQE_F_FENCE));
  (void)a.device.run(1);
  save();
  const auto progress = [&](std::uint64_t number) {
    const std::uint64_t id = le(kId + number);
    return find(std::as_bytes(std::span(&id, 1))) - offsetof(tern_sq_hdr, wr_id) +
           (std::size_t{1} << from.options().log_sq_stride);
  };
  // First PSN, number of PSNs and of packets received, status, and whether it is done.
  EXPECT_THAT(with(progress(1) + 13, true),
              ::testing::HasSubstr("a WQE of a send queue is done before an older one"));
  EXPECT_THAT(with(progress(2) + 4, std::uint32_t{1}),
              ::testing::HasSubstr("a WQE has a wrong number of packets"));
}

// The QP talks to itself: its own answer ends its requests, with their timer, in the same turn.
TEST_F(SavedState, AQpThatItsOwnAnswerFailsSendsNoRequest) {
  sim.budget = 4096;
  TestQp& qp = a.create_qp({.rnr_retry = 0});
  qp.connect(qp);
  TestMr& own = a.reg(65536);
  qp.post(send({near->sge(0, 8)}), false);  // to no receive WQE
  qp.post(write({near->sge(0, 60'000)}, own));
  EXPECT_EQ(qp.wait_send().status, TERN_CQE_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(a.device.registry.qps.find(qp.number())->attr().state, TERN_QPS_ERR);
  save();
}

// UC: only the WQE at the cursor has sent packets.
TEST_F(SavedState, AWqeThatWaitsHasNoPsns) {
  auto [from, to] = rc_pair(a, b, {.type = TERN_QPT_UC});
  constexpr std::uint64_t kId = 0x7761697473;
  for (std::uint64_t i = 0; i < 3; ++i)
    from.post(write({near->sge(0, 60'000)}, *far).id(kId + i), i == 2);
  (void)a.device.run(1);
  save();
  const std::uint64_t id = le(kId + 2);
  // The slot of the WQE is followed by its first PSN and the number of its PSNs.
  const std::size_t at = find(std::as_bytes(std::span(&id, 1))) - offsetof(tern_sq_hdr, wr_id) +
                         (std::size_t{1} << from.options().log_sq_stride);
  ASSERT_EQ(state.at(at + 4), std::byte{0});
  const std::uint32_t psns = (60'000 >> from.options().log_mtu) + 1;
  EXPECT_THAT(with(at + 4, psns), ::testing::HasSubstr("a send queue is inconsistent"));
}

// The fuzz target `state` does the same for longer.
TEST_F(SavedState, DamageIsRefusedOrHarmless) {
  std::mt19937 random(1);
  const Config config = a.device.registry.config;
  unsigned loaded = 0;
  for (unsigned i = 0; i < 3'000; ++i) {
    auto damaged = state;
    for (auto n = 1 + random() % 3; n != 0; --n)
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    Device other(a.host, config);
    std::string error;
    if (!other.load(damaged, error)) continue;
    ++loaded;
    for (unsigned n = 0; n < 50 && other.run(65536); ++n) other.datapath.effects->clear();
    other.datapath.effects->clear();
  }
  EXPECT_GT(loaded, 100U);
}

}  // namespace
}  // namespace tern
