// SPDX-License-Identifier: GPL-2.0-or-later
// The event log: which events a device logs, in which order, and what it says of a refused access.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/pager.h"
#include "tests/rc_pair_test.h"
#include "tests/window_rules.h"
#include "wire/codec.h"

namespace tern {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

using Events = std::vector<tern_log_event>;

constexpr std::size_t kRecords = 1 << 14;

Events take(EventLog& log) {
  Events all;
  for (auto records = log.records(); !records.empty(); records = log.records()) {
    all.insert(all.end(), records.begin(), records.end());
    log.taken(records.size());
  }
  return all;
}

Events take(TestNode& node) { return take(*node.device.datapath.log); }

Events of_type(Events events, std::uint8_t type) {
  std::erase_if(events, [&](const tern_log_event& e) { return e.type != type; });
  return events;
}

std::string number(std::uint64_t n) { return " " + std::to_string(n); }

// The parts of an event that the tests of sequences compare.
std::string text(const tern_log_event& e) {
  static const char* const checks[] = {"",         "local",     "remote",    "bind",
                                       "register", "local-inv", "remote-inv"};
  static const char* const changes[] = {"",       "created", "destroyed", "changed",
                                        "opened", "closed",  "bound",     "unbound"};
  switch (e.type) {
    case TERN_LOG_LOST:
      return "lost" + number(le(e.length));
    case TERN_LOG_RESET:
      return "reset";
    case TERN_LOG_DOORBELL:
      return "doorbell" + number(e.code) + (le(e.flags) & TERN_LOG_F_REFUSED ? " refused" : "");
    case TERN_LOG_POSTED:
      return "posted" + number(le(e.value)) + number(le(e.index));
    case TERN_LOG_WQE:
      return std::string(le(e.flags) & TERN_LOG_F_RECV ? "recv" : "wqe") + number(e.code) +
             number(le(e.index)) + number(le(e.length));
    case TERN_LOG_SENT:
    case TERN_LOG_RECEIVED:
    case TERN_LOG_DROPPED:
      return (e.type == TERN_LOG_SENT       ? "sent"
              : e.type == TERN_LOG_RECEIVED ? "received"
                                            : "dropped" + number(le(e.key)) + " of") +
             number(e.code) + number(le(e.index) & 0xff) + number(le(e.length)) +
             (le(e.flags) & TERN_LOG_F_AETH ? " aeth" + number(le(e.detail) >> 24) : "");
    case TERN_LOG_RETRY:
      return "retry" + number(le(e.index) & 0xff);
    case TERN_LOG_CHECK:
      return std::string("check ") + checks[e.code] + number(le(e.length)) + number(le(e.index)) +
             number(le(e.detail));
    case TERN_LOG_KEY:
      return std::string("key ") + changes[e.code] + number(le(e.index)) + number(le(e.length));
    case TERN_LOG_PAGE_FAULT:
      return "fault" + number(e.code) + number(le(e.length)) +
             (le(e.flags) & TERN_LOG_F_RESPONDER ? " responder" : " requester");
    case TERN_LOG_CQE:
      return "cqe" + number(e.code) + number(le(e.index));
    case TERN_LOG_INTERRUPT:
      return "interrupt" + number(le(e.index));
    case TERN_LOG_FAULT:
      return "injected" + number(e.code) + number(le(e.value)) + number(le(e.index) & 0xff) +
             number(le(e.key));
    case TERN_LOG_QP_STATE:
      return "state" + number(le(e.index)) + number(e.code) + number(le(e.value)) +
             number(le(e.detail));
    case TERN_LOG_RATE:
      return "rate" + number(le(e.length)) + number(le(e.addr)) + number(le(e.value));
    default:
      return "type" + number(e.type);
  }
}

std::vector<std::string> texts(const Events& events) {
  std::vector<std::string> all;
  for (const tern_log_event& e : events) all.push_back(text(e));
  return all;
}

std::vector<std::string> take_texts(TestNode& node) { return texts(take(node)); }

// PSNs begin at 0xfffff0: 240 in these texts.
class EventLogTest : public RcPairTest {
 protected:
  EventLogTest() { connect(); }
  void log() {
    a.device.log_events(kRecords);
    b.device.log_events(kRecords);
  }
  // A new connection, from which only the next requests are logged.
  void reconnect(const QpOptions& options = {}) {
    connect(options);
    (void)b.async_events();
    log();
  }
  // Posts a request that b refuses; returns b's events.
  std::vector<std::string> refused(const SendWr& wr,
                                   std::uint8_t status = TERN_CQE_REM_ACCESS_ERR) {
    qa->post(wr);
    expect_status(status);
    sim.run_until_idle();
    auto all = take_texts(b);
    reconnect();
    return all;
  }
};

TEST_F(EventLogTest, NothingIsLoggedUnlessAsked) {
  EXPECT_EQ(a.device.datapath.log, nullptr);
  log();
  a.device.log_events(0);
  EXPECT_EQ(a.device.datapath.log, nullptr);
  qa->post(write({src.sge(0, 64)}, dst));
  expect_status(TERN_CQE_SUCCESS);
}

TEST_F(EventLogTest, AWriteStepByStep) {
  log();
  qa->send_cq().arm();
  qa->post(write({src.sge(0, 1500)}, dst, 8));
  expect_status(TERN_CQE_SUCCESS);
  const Events events = take(a);
  EXPECT_THAT(texts(events),
              ElementsAre("doorbell 1", "posted 0 1", "wqe 4 0 1500", "check local 1024 0 0",
                          "sent 6 240 1024", "check local 476 0 0", "sent 8 241 476",
                          "received 17 241 0 aeth 31", "cqe 0 0", "interrupt 1"));
  EXPECT_THAT(take_texts(b),
              ElementsAre("received 6 240 1024", "check remote 1500 0 0", "check remote 1024 0 0",
                          "received 8 241 476", "check remote 476 0 0", "sent 17 241 0 aeth 31"));
  ASSERT_EQ(events.size(), 10U);
  for (std::size_t i = 1; i < events.size(); ++i)
    EXPECT_GE(le(events[i].time), le(events[i - 1].time));
  EXPECT_EQ(le(events[0].qpn), qa->number());
  EXPECT_EQ(le(events[0].key), a.uar());
  const tern_log_event& sent = events[4];
  EXPECT_EQ(le(sent.qpn), qa->number());
  EXPECT_EQ(le(sent.value), qb->number());
  EXPECT_EQ(le(sent.addr), dst.iova + 8);
  EXPECT_EQ(le(sent.key), dst.key);
  EXPECT_EQ(le(sent.index), 0xfffff0U);
  EXPECT_EQ(le(events[7].qpn), qa->number());
  EXPECT_EQ(le(events[7].value), qb->number());
  EXPECT_EQ(le(events[8].key), qa->send_cq().number());
}

TEST_F(EventLogTest, AReceiveAndItsWqe) {
  log();
  qb->post_recv({dst.sge(0, 100)}, 7);
  qa->post(send({src.sge(0, 64)}));
  expect_status(TERN_CQE_SUCCESS);
  const Events events = take(b);
  EXPECT_THAT(texts(events), ElementsAre("received 4 240 64", "recv 0 0 100", "check local 64 0 0",
                                         "cqe 0 0", "sent 17 240 0 aeth 31"));
  EXPECT_EQ(le(events[3].addr), 7U);
}

TEST_F(EventLogTest, APacketThatIsLostIsSentAgain) {
  log();
  bool lost = false;
  sim.pass = [&](unsigned from, std::span<const std::byte>) {
    return from != a.index() || std::exchange(lost, true);
  };
  qa->post(write({src.sge(0, 64)}, dst));
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_THAT(take_texts(a),
              ElementsAre("doorbell 1", "posted 0 1", "wqe 4 0 64", "check local 64 0 0",
                          "sent 10 240 64", "retry 240", "check local 64 0 0", "sent 10 240 64",
                          "received 17 240 0 aeth 31", "cqe 0 0"));
}

TEST_F(EventLogTest, InjectedFaults) {
  std::string error;
  ASSERT_TRUE(a.device.set_faults("drop rx opcode=read-request; drop tx nth=1", error)) << error;
  log();
  qa->post(write({src.sge(0, 64)}, dst));
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_THAT(take_texts(a), ElementsAre("doorbell 1", "posted 0 1", "wqe 4 0 64",
                                         "check local 64 0 0", "sent 10 240 64",
                                         "injected 0 10 240 1", "retry 240", "check local 64 0 0",
                                         "sent 10 240 64", "received 17 240 0 aeth 31", "cqe 0 0"));
}

TEST_F(EventLogTest, ADamagedPacketIsDropped) {
  std::string error;
  ASSERT_TRUE(a.device.set_faults("corrupt=payload tx nth=1", error)) << error;
  log();
  qa->post(write({src.sge(0, 64)}, dst));
  expect_status(TERN_CQE_SUCCESS);
  const auto events = take_texts(b);
  ASSERT_FALSE(events.empty());
  EXPECT_THAT(events[0], ::testing::StartsWith("dropped 3 of 10 240"));
}

// ---- checks of keys ----

// The first packet of a request is refused: what b logs.
std::vector<std::string> refusal(unsigned opcode, unsigned bytes, unsigned checked, unsigned rule) {
  return {"received" + number(opcode) + " 240" + number(bytes),
          "check remote" + number(checked) + " 2" + number(rule),
          "state 3 6 1" + number(TERN_EV_QP_ACCESS_ERR), "sent 17 240 0 aeth 98"};
}

TEST_F(EventLogTest, ARefusedAccessHasItsRule) {
  static_assert(TERN_QPS_RTS == 3 && TERN_QPS_ERR == 6);
  const auto same = [](std::vector<std::string> events) {
    std::erase_if(events,
                  [](const std::string& e) { return e == "interrupt 0" || e.starts_with("key"); });
    return events;
  };
  const auto wants = [&](unsigned opcode, unsigned bytes, unsigned checked, unsigned rule) {
    return ElementsAreArray(refusal(opcode, bytes, checked, rule));
  };
  log();
  TestMr wrong = dst;
  wrong.key ^= 1;
  EXPECT_THAT(same(refused(write({src.sge(0, 64)}, wrong))), wants(10, 64, 64, TERN_LOG_RULE_KEY));
  EXPECT_THAT(
      same(refused(read({src.sge(0, 64)}, b.reg(4096, {.access = TERN_ACCESS_LOCAL_WRITE})))),
      wants(12, 0, 64, TERN_LOG_RULE_MR_REMOTE_READ));
  EXPECT_THAT(
      same(refused(write({src.sge(0, 64)}, b.reg(4096, {.access = TERN_ACCESS_REMOTE_READ})))),
      wants(10, 64, 64, TERN_LOG_RULE_MR_REMOTE_WRITE));
  EXPECT_THAT(same(refused(fetch_add(src.sge(0, 8),
                                     b.reg(4096, {.access = TERN_ACCESS_REMOTE_READ}), 0, 1))),
              wants(20, 0, 8, TERN_LOG_RULE_MR_REMOTE_ATOMIC));
  EXPECT_THAT(same(refused(write({src.sge(0, 64)}, b.reg(4096, {.pd = b.alloc_pd()})))),
              wants(10, 64, 64, TERN_LOG_RULE_MR_PD));
  EXPECT_THAT(same(refused(write({src.sge(0, 64)}, dst, std::uint64_t{0} - 1))),
              wants(10, 64, 64, TERN_LOG_RULE_MR_LOW));
  EXPECT_THAT(same(refused(write({src.sge(0, 64)}, dst, dst.length - 63))),
              wants(10, 64, 64, TERN_LOG_RULE_MR_HIGH));
}

TEST_F(EventLogTest, TheQpMayNotAllowIt) {
  reconnect({.access = TERN_ACCESS_REMOTE_READ});
  qa->post(write({src.sge(0, 64)}, dst));
  expect_status(TERN_CQE_REM_INV_REQ_ERR);
  const Events checks = of_type(take(b), TERN_LOG_CHECK);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(text(checks[0]), "check remote 64 2" + number(TERN_LOG_RULE_QP_RIGHTS));
  EXPECT_EQ(le(checks[0].key), dst.key);
  EXPECT_EQ(le(checks[0].value), std::uint32_t{TERN_ACCESS_REMOTE_WRITE});
}

TEST_F(EventLogTest, ALocalKeyThatIsRefused) {
  log();
  const TestMr& foreign = a.reg(4096, {.pd = a.alloc_pd()});
  (void)take(a);
  qa->post(write({foreign.sge(0, 64)}, dst));
  expect_status(TERN_CQE_LOC_PROT_ERR);
  EXPECT_THAT(take_texts(a),
              ElementsAre("doorbell 1", "posted 0 1", "wqe 4 0 64",
                          "check local 64 2" + number(TERN_LOG_RULE_MR_PD),
                          "cqe" + number(TERN_CQE_LOC_PROT_ERR) + " 0", "state 3 6 1 0"));
}

// Each rule of windows, refused by each of the tests that a device must refuse.
class WindowRuleLogged : public ::testing::TestWithParam<RuleTest> {};

TEST_P(WindowRuleLogged, UnderItsNumber) {
  const RuleTest& test = GetParam();
  WindowWorld w(test.kind, test.path);
  w.b.device.log_events(kRecords);
  EXPECT_EQ(test.rule_case.run(w, test.op), "");
  std::vector<std::uint32_t> rules;
  for (const tern_log_event& e : of_type(take(w.b), TERN_LOG_CHECK)) {
    if (le(e.index) == TERN_LOG_CHECK_DENIED) rules.push_back(le(e.detail));
  }
  EXPECT_THAT(rules, Contains(static_cast<std::uint32_t>(test.rule_case.rule)));
}

// Commands check no key.
std::vector<RuleTest> rules_of_keys() {
  std::vector<RuleTest> tests = rule_tests();
  std::erase_if(tests, [](const RuleTest& t) {
    return t.rule_case.rule == Rule::kNone || t.rule_case.rule == Rule::kMrBusy;
  });
  return tests;
}

INSTANTIATE_TEST_SUITE_P(All, WindowRuleLogged, ::testing::ValuesIn(rules_of_keys()),
                         [](const auto& tested) { return tested.param.name(); });

// ---- keys ----

TEST(EventLogKeys, ARegion) {
  Sim sim;
  TestNode a{sim};
  a.device.log_events(kRecords);
  TestMr& mr = a.reg(8192);
  ASSERT_EQ(a.rereg(mr, TERN_REREG_ACCESS, {.access = TERN_ACCESS_LOCAL_WRITE}), TERN_ST_OK);
  a.dereg(mr);
  const Events events = of_type(take(a), TERN_LOG_KEY);
  EXPECT_THAT(texts(events),
              ElementsAre("key created 1 8192", "key changed 1 8192", "key destroyed 1 8192"));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(le(events[0].key), mr.key);
  EXPECT_EQ(le(events[0].value), kAllAccess);
  EXPECT_EQ(le(events[1].value), std::uint32_t{TERN_ACCESS_LOCAL_WRITE});
}

TEST(EventLogKeys, DeviceMemory) {
  Sim sim;
  TestNode a{sim};
  a.device.log_events(kRecords);
  const TestDm dm = a.alloc_dm(4096);
  const TestMr& mr = a.reg_dm(dm, 0, 64);
  a.dereg(mr);
  a.free(dm);
  EXPECT_THAT(texts(of_type(take(a), TERN_LOG_KEY)),
              ElementsAre("key created 6 4096", "key created 3 64", "key destroyed 3 64",
                          "key destroyed 6 4096"));
}

TEST(EventLogKeys, AWindowIsBoundAndInvalidated) {
  WindowWorld w(MwKind::kType2B, Path::kRc);
  w.b.device.log_events(kRecords);
  TestMw mw = w.make_mw();
  w.bound(mw, w.mr, 100, 64, TERN_ACCESS_REMOTE_WRITE);
  const Events bound = take(w.b);
  EXPECT_THAT(texts(bound), ElementsAre("key created 5 0", "doorbell 1", "posted 0 1",
                                        "wqe" + number(TERN_WR_BIND_MW) + " 0 0",
                                        "check bind 64 0 0", "key bound 5 64", "cqe 0 0"));
  ASSERT_EQ(bound.size(), 7U);
  EXPECT_EQ(le(bound[5].key), mw.view.key);
  EXPECT_EQ(le(bound[5].detail), w.mr.key);
  EXPECT_EQ(le(bound[5].qpn), w.link().binder->number());
  EXPECT_EQ(w.works(w.link(), Op3::kWrite, mw.view, 0, 64), "");
  EXPECT_THAT(texts(of_type(take(w.b), TERN_LOG_CHECK)), Contains("check remote 64 0 0"));
  w.link().binder->post(local_inv(mw.view.key));
  EXPECT_EQ(w.wait_bind(w.link()).status, TERN_CQE_SUCCESS);
  EXPECT_THAT(take_texts(w.b),
              ElementsAre("doorbell 1", "posted 1 2", "wqe" + number(TERN_WR_LOCAL_INV) + " 1 0",
                          "check local-inv 0 0 0", "key unbound 5 64", "cqe 0 1"));
  EXPECT_EQ(w.refused(w.link(), w.access(Op3::kWrite, mw.view, 0, 64)), "");
  EXPECT_THAT(take_texts(w.b), Contains("check remote 64 2" + number(TERN_LOG_RULE_MW_UNBOUND)));
}

TEST(EventLogKeys, AFastRegionIsOpenedAndClosed) {
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  const std::uint32_t pd = b.alloc_pd(true);
  const auto& [x, y] = rc_pair(a, b, {});
  (void)x;
  (void)y;
  TestQp& qp = b.create_qp({.pd = pd});
  qp.connect();
  FastMr fast = b.alloc_fast(2, pd);
  b.device.log_events(kRecords);
  qp.post(reg_mr(fast));
  qp.post(local_inv(fast.mr.key));
  (void)qp.wait_send();
  (void)qp.wait_send();
  const auto all = take_texts(b);
  EXPECT_THAT(all, ::testing::IsSupersetOf({"check register 8192 0 0", "key opened 2 8192",
                                            "check local-inv 0 0 0", "key closed 2 8192"}));
}

// ---- page faults ----

TEST(EventLogOdp, AnAbsentPage) {
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  OnDemandMr dst{b, 8192};
  const TestMr& src = a.reg(4096);
  Pager pager{b};
  pager.add(dst);
  const auto [qa, qb] = rc_pair(a, b);
  (void)qb;
  b.device.log_events(kRecords);
  qa.post(write({src.sge(0, 64)}, dst.mr));
  sim.run_for(1'000'000);
  pager.resolve_all();
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  auto events = take_texts(b);
  std::erase_if(events, [](const std::string& e) {
    return e.starts_with("interrupt") || e.starts_with("key");
  });
  EXPECT_THAT(events, Contains("fault 2 64 responder"));
  ASSERT_GE(events.size(), 8U);
  EXPECT_EQ(events.back(), "sent 17 240 0 aeth 31");
  events.resize(5);
  EXPECT_THAT(events,
              ElementsAre("received 10 240 64", "check remote 64 0 0", "check remote 64 1 0",
                          "fault 1 64 responder", "sent 17 240 0 aeth 33"));
}

// ---- QPs and the device ----

TEST(EventLogQps, StatesFromTheFirstToTheLast) {
  Sim sim;
  TestNode a{sim};
  a.device.log_events(kRecords);
  TestQp& qp = a.create_qp();
  qp.connect();
  ASSERT_EQ(qp.to_state(TERN_QPS_SQD), TERN_ST_OK);
  ASSERT_EQ(qp.to_state(TERN_QPS_ERR), TERN_ST_OK);
  ASSERT_EQ(qp.to_state(TERN_QPS_RESET), TERN_ST_OK);
  ASSERT_EQ(qp.to_state(TERN_QPS_ERR), TERN_ST_OK);
  a.destroy(qp);
  EXPECT_THAT(texts(of_type(take(a), TERN_LOG_QP_STATE)),
              ElementsAre("state 255 0 0 0", "state 0 1 0 0", "state 1 2 0 0", "state 2 3 0 0",
                          "state 3 4 0 0", "state 4 6 0 0", "state 6 0 0 0", "state 0 1 0 0",
                          "state 1 6 0 0", "state 6 255 0 0"));
}

TEST_F(EventLogTest, DoorbellsThatAreRefused) {
  log();
  a.doorbell(a.uar(), TERN_DB_CMD_SQ, 0xffff);
  a.doorbell(a.uar(), TERN_DB_CMD_PAGE, 0);
  EXPECT_THAT(take_texts(a), ElementsAre("doorbell 1", "doorbell 1 refused", "doorbell 0"));
}

TEST_F(EventLogTest, AQpThatDoesNotTakeAPacket) {
  log();
  ASSERT_EQ(qb->to_state(TERN_QPS_ERR), TERN_ST_OK);
  (void)take(b);
  qa->post(write({src.sge(0, 64)}, dst));
  sim.run_for(1'000'000);
  EXPECT_THAT(take_texts(b), ElementsAre("received 10 240 64", "dropped 5 of 10 240 64"));
}

TEST_F(EventLogTest, ARateLimit) {
  log();
  tern_qp_attr attr{};
  attr.rate_limit = le(100'000U);
  ASSERT_EQ(qa->modify(attr, TERN_QPA_RATE_LIMIT), TERN_ST_OK);
  ASSERT_EQ(qa->modify(attr, TERN_QPA_RATE_LIMIT), TERN_ST_OK);
  attr.rate_limit = le(0U);
  ASSERT_EQ(qa->modify(attr, TERN_QPA_RATE_LIMIT), TERN_ST_OK);
  EXPECT_THAT(texts(of_type(take(a), TERN_LOG_RATE)),
              ElementsAre("rate 100000000 0 0", "rate 0 0 0"));
}

// Marked packets cut the rate; it recovers to the target, and the QP is free at the end.
TEST_F(EventLogTest, CongestionControl) {
  bool marks = true;
  sim.queue = [&](unsigned to, std::span<std::byte> frame) {
    const auto at = find_parts(frame);
    if (marks && to == b.index() && at) mark_congestion(frame, *at);
    return sim.now();
  };
  log();
  const auto write_all = [&](int times) {
    for (int i = 0; i < times; ++i) {
      qa->post(write({src.sge()}, dst));
      ASSERT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
    }
  };
  write_all(4);
  const Events cuts = of_type(take(a), TERN_LOG_RATE);
  ASSERT_FALSE(cuts.empty());
  constexpr std::uint64_t kLine = 100'000'000'000;
  // The first notification halves the rate: alpha is almost 1.
  EXPECT_NEAR(static_cast<double>(le(cuts[0].length)), kLine / 2.0, kLine / 1000.0);
  EXPECT_EQ(le(cuts[0].addr), kLine);
  EXPECT_NEAR(le(cuts[0].value), 1U << 20, 1U << 11);
  for (const tern_log_event& e : cuts) EXPECT_EQ(le(e.qpn), qa->number());
  marks = false;
  std::uint64_t before = le(cuts.back().length);
  Events last;
  for (int i = 0; i < 100 && (last.empty() || le(last.back().length) != 0); ++i) {
    sim.run_for(10'000'000);
    write_all(1);
    last = of_type(take(a), TERN_LOG_RATE);
    for (const tern_log_event& e : last) {
      if (le(e.length) != 0) {
        EXPECT_GT(le(e.length), before);
      }
      before = le(e.length);
    }
  }
  ASSERT_FALSE(last.empty());
  EXPECT_EQ(text(last.back()), "rate 0 0 0");
}

TEST_F(EventLogTest, AResetIsAnEvent) {
  log();
  b.device.reset();
  EXPECT_EQ(take_texts(b).back(), "reset");
}

// Packets in loopback are logged one by one, both ways.
TEST(EventLogLoopback, HasEachPacketTwice) {
  Sim sim;
  TestNode a{sim};
  const TestMr& src = a.reg(8192);
  const TestMr& dst = a.reg(8192);
  const auto [qp, peer] = rc_pair(a, a);
  (void)peer;
  a.device.log_events(kRecords);
  qp.post(write({src.sge(0, 3000)}, dst));
  EXPECT_EQ(qp.wait_send().status, TERN_CQE_SUCCESS);
  const Events events = take(a);
  EXPECT_EQ(of_type(events, TERN_LOG_SENT).size(), 4U);
  EXPECT_EQ(of_type(events, TERN_LOG_RECEIVED).size(), 4U);
  EXPECT_TRUE(le(of_type(events, TERN_LOG_SENT)[0].flags) & TERN_LOG_F_LOOPBACK);
}

// ---- the ring ----

TEST(EventLogRing, AFullRingCountsWhatItLoses) {
  FakeHost host;
  EventLog log(host, 8);
  EXPECT_TRUE(log.records().empty());
  const auto add = [&](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t i = from; i < to; ++i) log.add({.type = TERN_LOG_POSTED, .index = i});
  };
  add(0, 3);
  EXPECT_EQ(texts(take(log)).size(), 3U);
  add(3, 20);
  EXPECT_EQ(log.lost(), 9U);
  EXPECT_EQ(log.records().size(), 5U) << "up to the end of the ring";
  log.taken(1);
  add(20, 21);
  EXPECT_EQ(log.lost(), 10U) << "there is no room for the event besides the record of the loss";
  log.taken(1);
  add(21, 23);
  EXPECT_EQ(log.lost(), 1U) << "the second found no room";
  EXPECT_THAT(texts(take(log)), ElementsAre("posted 0 5", "posted 0 6", "posted 0 7", "posted 0 8",
                                            "posted 0 9", "posted 0 10", "lost 10", "posted 0 21"));
  add(23, 24);
  EXPECT_THAT(texts(take(log)), ElementsAre("lost 1", "posted 0 23"));
  EXPECT_EQ(log.lost(), 0U);
}

// What a device does does not depend on its log.
TEST(EventLogRing, ChangesNothing) {
  const auto trace = [](std::size_t records) {
    Sim sim(7);
    sim.wire.loss = 0.02;
    sim.wire.reorder = 0.02;
    sim.tracing = true;
    TestNode a{sim, {.lanes = 1}};
    TestNode b{sim, {.lanes = 1}};
    a.device.log_events(records);
    b.device.log_events(records);
    const TestMr& src = a.reg(1 << 18);
    const TestMr& dst = b.reg(1 << 18);
    const auto [qa, qb] = rc_pair(a, b);
    (void)qb;
    qa.post(write({src.sge(0, 200'000)}, dst));
    qa.post(read({src.sge(0, 100'000)}, dst));
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    return sim.trace();
  };
  const auto without = trace(0);
  EXPECT_GT(without.size(), 300U);
  EXPECT_EQ(trace(kRecords), without);
  EXPECT_EQ(trace(2), without) << "a full ring delays nothing";
}

}  // namespace
}  // namespace tern
