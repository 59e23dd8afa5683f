// SPDX-License-Identifier: GPL-2.0-or-later
// The sending half of a reliable connection; clauses are of the IBTA specification.
#include "transport/requester.h"

#include <array>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "core/archive.h"
#include "transport/tests/halves.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RequesterTest : public HalfTest {
 protected:
  static constexpr Nanos kTimeout = 4 * (Nanos{4096} << 14);  // of the fixture's attributes

  RequesterTest() {
    qp.sender = &half;
    half.start();
  }
  // Begins again with the attributes that the test has set.
  void restart() {
    half.reset();
    qp.sq.clear();
    qp.sends.clear();
    qp.set_state(TERN_QPS_RTS);
    half.start();
  }
  void post(const SendWr& wr) {
    qp.sq.push_back(encode(TERN_QPT_RC, wr));
    half.kick();
  }
  // Posts `n` SENDs of one packet.
  void post_sends(int n) {
    for (int i = 0; i < n; ++i) post(send({data.sge(0, 8)}));
  }
  void ack(std::uint32_t psn) { deliver({.op = Op::kAck, .psn = psn}); }
  void nak(std::uint32_t psn, std::uint8_t syndrome = kNakSequence) {
    deliver({.op = Op::kAck, .psn = psn, .syndrome = syndrome});
  }
  void rnr(std::uint32_t psn, unsigned code) {
    nak(psn, static_cast<std::uint8_t>(kSyndromeKindRnr | code));
  }
  void respond(Op op, std::uint32_t psn, const Bytes& payload) {
    deliver({.op = op, .psn = psn, .payload = payload});
  }
  std::uint32_t bound_window() {
    std::uint32_t key = 0;
    EXPECT_EQ(memory.alloc_mw(qp.pd(), 2, &key), TERN_ST_OK);
    SendWr wr{.opcode = TERN_WR_BIND_MW};
    wr.bind = {.addr = data.iova,
               .length = 64,
               .lkey = data.key,
               .rkey = key,
               .new_rkey = key,
               .access = TERN_ACCESS_REMOTE_READ,
               .type = 2};
    post(wr);
    EXPECT_THAT(turn(), IsEmpty());
    return key;
  }
  bool readable(std::uint32_t key) {
    return memory.check_remote(qp.accessor(), key, data.iova, 8, TERN_ACCESS_REMOTE_READ)
               .access() == Access::kReady;
  }

  const TestMr peer{.key = 0x77700, .iova = 0x50000};
  Requester half{qp};
};

// ---- segmentation and the window ----

TEST_F(RequesterTest, SegmentsASend) {
  post(send({data.sge(0, 100), data.sge(1000, 500)}).with(TERN_WQE_F_SOLICITED));
  const auto sent = turn();
  ASSERT_THAT(ops(sent), ElementsAre(Op::kSendFirst, Op::kSendMiddle, Op::kSendLast));
  EXPECT_THAT(psns(sent), ElementsAre(100, 101, 102));
  EXPECT_EQ(sent[1].payload, copy(data, 1156, kMtu));
  EXPECT_EQ(sent[2].payload, copy(data, 1412, 88));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sent[i].ack_req, i == 2);
    EXPECT_EQ(sent[i].solicited, i == 2);
    EXPECT_EQ(sent[i].dest_qp, 7U);
  }
}

// An empty message takes a packet, and one of exactly the path MTU no second one.
TEST_F(RequesterTest, OnlyPacketsHaveUpToOneMtu) {
  post(send({}));
  post(send({data.sge(0, kMtu)}));
  post(send({data.sge(0, kMtu)}).immediate(9));
  post(send_inv({data.sge(0, 1)}, 0x4400));
  const auto sent = turn();
  ASSERT_THAT(ops(sent),
              ElementsAre(Op::kSendOnly, Op::kSendOnly, Op::kSendOnlyImm, Op::kSendOnlyInv));
  EXPECT_THAT(sent[0].payload, IsEmpty());
  EXPECT_THAT(sent[1].payload, SizeIs(kMtu));
  EXPECT_EQ(sent[2].imm, 9U);
  EXPECT_EQ(sent[3].inv_rkey, 0x4400U);
}

TEST_F(RequesterTest, RequestsAnAckEvery32Packets) {
  post(write({data.sge(0, 100 * kMtu)}, peer));
  std::vector<std::uint32_t> asking;
  for (const Fields& f : turn()) {
    if (f.ack_req) asking.push_back(f.psn);
  }
  EXPECT_THAT(asking, ElementsAre(131, 163, 195, 199));
}

TEST_F(RequesterTest, HasAtMost128PacketsInFlight) {
  post(write({data.sge(0, 200 * kMtu)}, peer));
  EXPECT_THAT(turn(), SizeIs(128));
  EXPECT_THAT(turn(), IsEmpty());
  ack(131);
  const auto sent = turn();
  ASSERT_THAT(sent, SizeIs(32));
  EXPECT_EQ(sent[0].psn, 228U);
}

// ---- acknowledgements ----

// 9.7.5.1.1: an ACK covers all earlier requests.
TEST_F(RequesterTest, OneAckCompletesSeveralRequestsInOrder) {
  post(send({data.sge(0, 8)}).id(1));
  post(send({data.sge(0, 8)}).id(2).unsignaled());
  post(send({data.sge(0, 300)}).id(3));
  post(send({data.sge(0, 8)}).id(4));
  (void)turn();
  ack(102);
  EXPECT_THAT(qp.sends, SizeIs(1)) << "the third lacks a packet, the second asks for no CQE";
  ack(103);
  ASSERT_THAT(qp.sends, SizeIs(2));
  EXPECT_EQ(qp.sends[0].wr_id, 1U);
  EXPECT_EQ(qp.sends[1].wr_id, 3U);
  EXPECT_EQ(qp.sends[1].byte_len, 300U);
}

TEST_F(RequesterTest, IgnoresAcksOutsideTheFlight) {
  post_sends(2);
  (void)turn();
  for (const std::uint32_t psn : {99U, 102U, 0x800064U}) {
    ack(psn);
    nak(psn);
    nak(psn, kNakRemoteAccess);
  }
  nak(100, 0x40);  // reserved kinds
  nak(100, 0x80);
  EXPECT_THAT(qp.sends, IsEmpty());
  EXPECT_THAT(turn(), IsEmpty());
}

TEST_F(RequesterTest, PsnsWrap) {
  qp.attributes().sq_psn = 0xffffff;
  restart();
  post_sends(3);
  EXPECT_THAT(psns(turn()), ElementsAre(0xffffff, 0, 1));
  nak(0);
  EXPECT_THAT(qp.sends, SizeIs(1));
  EXPECT_THAT(psns(turn()), ElementsAre(0, 1));
  ack(1);
  EXPECT_THAT(statuses(qp.sends), ElementsAre(0, 0, 0));
}

// The request before it succeeds, and the one after it is flushed.
TEST_F(RequesterTest, ANakFailsItsRequest) {
  const std::pair<std::uint8_t, unsigned> rows[] = {
      {kNakInvalidRequest, TERN_CQE_REM_INV_REQ_ERR},
      {kNakRemoteAccess, TERN_CQE_REM_ACCESS_ERR},
      {kNakRemoteOperation, TERN_CQE_REM_OP_ERR},
      {0x64, TERN_CQE_BAD_RESP_ERR}};  // of RD, which nobody implements
  for (const auto& [syndrome, status] : rows) {
    restart();
    post_sends(3);
    (void)turn();
    nak(101, syndrome);
    EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_SUCCESS, status));
    EXPECT_EQ(qp.state(), TERN_QPS_ERR);
    std::uint32_t allowance = kTurn;
    EXPECT_FALSE(half.flush(allowance));
    EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_SUCCESS, status, TERN_CQE_WR_FLUSH_ERR));
  }
}

// ---- loss ----

TEST_F(RequesterTest, ASequenceNakGoesBack) {
  post_sends(1);
  post(write({data.sge(0, 3 * kMtu)}, peer));
  post_sends(1);
  (void)turn();
  nak(102);
  EXPECT_THAT(qp.sends, SizeIs(1)) << "a NAK acknowledges what is before it";
  const auto sent = turn();
  EXPECT_THAT(psns(sent), ElementsAre(102, 103, 104));
  EXPECT_THAT(ops(sent), ElementsAre(Op::kWriteMiddle, Op::kWriteLast, Op::kSendOnly));
  EXPECT_EQ(sent[0].payload, copy(data, kMtu, kMtu));
}

// Each packet behind a lost one may cause a NAK: all but the first change nothing.
TEST_F(RequesterTest, GoesBackOnceUntilThereIsProgress) {
  post_sends(3);
  (void)turn();
  nak(101);
  EXPECT_THAT(psns(turn()), ElementsAre(101, 102));
  nak(101);
  EXPECT_THAT(turn(), IsEmpty());
  nak(102);
  EXPECT_THAT(psns(turn()), ElementsAre(102));
  EXPECT_EQ(count(TERN_CNT_PACKET_SEQ_ERR), 3U);
}

TEST_F(RequesterTest, DoesNotRepeatWhatIsAcknowledgedMeanwhile) {
  post(write({data.sge(0, 4 * kMtu)}, peer));
  (void)turn();
  nak(100);
  ack(101);
  EXPECT_THAT(psns(turn()), ElementsAre(102, 103));
}

// 9.7.6.1.3: a timeout is at most four times 4.096 us * 2^n.
TEST_F(RequesterTest, GivesUpAfterTheAgreedTimeouts) {
  post_sends(2);
  (void)turn();
  for (int retry = 0; retry < 2; ++retry) {
    pass(kTimeout - 1);
    EXPECT_THAT(turn(), IsEmpty());
    pass(1);
    EXPECT_THAT(psns(turn()), ElementsAre(100, 101));
  }
  pass(kTimeout);
  EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_RETRY_EXC_ERR));
  EXPECT_THAT(qp.errors, ElementsAre(-1));
  pass(10 * kTimeout);
  EXPECT_THAT(qp.sends, SizeIs(1));
}

// 9.9.2.1.1: progress resets the counter.
TEST_F(RequesterTest, CountsRetriesSinceTheLastProgress) {
  post_sends(5);
  (void)turn();
  for (std::uint32_t psn = 100; psn < 105; ++psn) {
    for (int retry = 0; retry < 2; ++retry) {
      pass(kTimeout);
      EXPECT_EQ(turn().at(0).psn, psn);
    }
    ack(psn);
  }
  EXPECT_THAT(statuses(qp.sends), ElementsAre(0, 0, 0, 0, 0));
}

// ---- receiver not ready ----

// Table 45, in ns.
TEST_F(RequesterTest, AnRnrNakSaysHowLongToWait) {
  qp.attributes().rnr_retry = 7;
  const std::pair<unsigned, Nanos> rows[] = {
      {0, 655'360'000}, {1, 10'000}, {12, 640'000}, {20, 10'240'000}, {31, 491'520'000}};
  for (const auto& [code, wait] : rows) {
    restart();
    post_sends(2);
    (void)turn();
    rnr(101, code);
    EXPECT_THAT(qp.sends, SizeIs(1));
    pass(wait - 1);
    EXPECT_THAT(turn(), IsEmpty()) << code;
    pass(1);
    EXPECT_THAT(psns(turn()), ElementsAre(101)) << code;
  }
}

TEST_F(RequesterTest, CountsRnrRetriesUnlessTheyAreSeven) {
  for (const unsigned retries : {2U, 7U}) {
    qp.attributes().rnr_retry = static_cast<std::uint8_t>(retries);
    restart();
    post_sends(1);
    (void)turn();
    for (unsigned i = 0; i < (retries == 7 ? 50 : retries); ++i) {
      rnr(100, 1);
      pass(10'000);
      ASSERT_THAT(turn(), SizeIs(1));
    }
    EXPECT_THAT(qp.sends, IsEmpty());
    rnr(100, 1);
    EXPECT_THAT(qp.sends, SizeIs(retries == 7 ? 0 : 1));
  }
  restart();
  EXPECT_EQ(count(TERN_CNT_RNR_NAK_RETRY_ERR), 1U);
}

TEST_F(RequesterTest, OtherNaksDoNotCutAnRnrWaitShort) {
  post_sends(2);
  (void)turn();
  rnr(100, 12);
  nak(100);
  rnr(100, 1);
  pass(639'999);
  EXPECT_THAT(turn(), IsEmpty());
  pass(1);
  EXPECT_THAT(psns(turn()), ElementsAre(100, 101));
}

// ---- READ ----

// A READ takes a PSN for each packet of its response.
TEST_F(RequesterTest, AReadStoresItsResponse) {
  post(read({data.sge(0, 100), data.sge(4096, 500)}, peer, 8).id(5));
  post_sends(1);
  const auto sent = turn();
  ASSERT_THAT(ops(sent), ElementsAre(Op::kReadRequest, Op::kSendOnly));
  EXPECT_THAT(psns(sent), ElementsAre(100, 103));
  EXPECT_EQ(sent[0].va, peer.iova + 8);
  EXPECT_EQ(sent[0].rkey, peer.key);
  EXPECT_EQ(sent[0].len, 600U);
  EXPECT_TRUE(sent[0].ack_req);
  const Bytes all = pattern(600, 9);
  respond(Op::kReadResponseFirst, 100, {all.begin(), all.begin() + 256});
  respond(Op::kReadResponseMiddle, 101, {all.begin() + 256, all.begin() + 512});
  EXPECT_THAT(qp.sends, IsEmpty());
  respond(Op::kReadResponseLast, 102, {all.begin() + 512, all.end()});
  ASSERT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_SUCCESS));
  EXPECT_EQ(qp.sends[0].wr_id, 5U);
  EXPECT_EQ(copy(data, 0, 100), Bytes(all.begin(), all.begin() + 100));
  EXPECT_EQ(copy(data, 4096, 500), Bytes(all.begin() + 100, all.end()));
}

// 9.7.5.1.1: the response after a lost one is an implied NAK.
TEST_F(RequesterTest, AGapInAResponseRequestsTheRest) {
  post(read({data.sge(0, 600)}, peer));
  (void)turn();
  const Bytes before = copy(data, 256, 344);
  respond(Op::kReadResponseFirst, 100, pattern(256));
  respond(Op::kReadResponseLast, 102, pattern(88));
  EXPECT_EQ(copy(data, 256, 344), before);
  const auto sent = turn();
  ASSERT_THAT(ops(sent), ElementsAre(Op::kReadRequest));
  EXPECT_EQ(sent[0].psn, 101U);
  EXPECT_EQ(sent[0].va, peer.iova + 256);
  EXPECT_EQ(sent[0].len, 344U);
  respond(Op::kReadResponseLast, 102, pattern(88));
  EXPECT_THAT(turn(), IsEmpty()) << "the rest of the old response";
  respond(Op::kReadResponseFirst, 101, pattern(256));
  respond(Op::kReadResponseLast, 102, pattern(88));
  EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_SUCCESS));
}

TEST_F(RequesterTest, ATimeoutRepeatsTheRestOfARead) {
  post(read({data.sge(0, 600)}, peer));
  (void)turn();
  respond(Op::kReadResponseFirst, 100, pattern(256));
  pass(kTimeout);
  const auto sent = turn();
  ASSERT_THAT(psns(sent), ElementsAre(101));
  EXPECT_EQ(sent[0].va, peer.iova + 256);
}

TEST_F(RequesterTest, ARepeatedResponseStoresNothing) {
  post(read({data.sge(0, 300)}, peer));
  (void)turn();
  respond(Op::kReadResponseFirst, 100, pattern(256, 7));
  respond(Op::kReadResponseFirst, 100, pattern(256, 8));
  EXPECT_EQ(copy(data, 0, 256), pattern(256, 7));
}

// 9.7.5.1.1: only its response completes a READ, which acknowledges the requests before it.
TEST_F(RequesterTest, AnAckCompletesNoReadButAResponseTheSendsBefore) {
  post_sends(1);
  post(read({data.sge(0, 256)}, peer));
  post_sends(1);
  (void)turn();
  ack(102);
  EXPECT_THAT(qp.sends, SizeIs(1));
  EXPECT_THAT(psns(turn()), ElementsAre(101, 102));
  respond(Op::kReadResponseOnly, 101, pattern(256));
  EXPECT_THAT(qp.sends, SizeIs(2));
  restart();
  post_sends(1);
  post(read({data.sge(0, 256)}, peer));
  (void)turn();
  respond(Op::kReadResponseOnly, 101, pattern(256));
  EXPECT_THAT(statuses(qp.sends), ElementsAre(0, 0));
}

// A peer that is wrong about a request must not store anything.
TEST_F(RequesterTest, AResponseMustFitItsRequest) {
  const SendWr fetch = read({data.sge(0, 600)}, peer);
  const SendWr add = fetch_add(data.sge(0, 8), peer, 0, 1);
  const SendWr plain = send({data.sge(0, 8)});
  const std::tuple<const SendWr*, Op, unsigned> rows[] = {
      {&fetch, Op::kReadResponseFirst, 255}, {&fetch, Op::kReadResponseFirst, 257},
      {&fetch, Op::kReadResponseLast, 256},  {&fetch, Op::kReadResponseOnly, 600},
      {&fetch, Op::kAtomicAck, 0},           {&add, Op::kReadResponseOnly, 8},
      {&plain, Op::kReadResponseOnly, 0},    {&plain, Op::kAtomicAck, 0}};
  const Bytes before = copy(data, 0, 1024);
  for (const auto& [wr, op, bytes] : rows) {
    restart();
    post(*wr);
    (void)turn();
    respond(op, 100, pattern(bytes, 3));
    EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_BAD_RESP_ERR));
    EXPECT_EQ(copy(data, 0, 1024), before);
  }
}

// ---- other requests with responses ----

TEST_F(RequesterTest, AtomicsStoreTheOldValue) {
  post(fetch_add(data.sge(0, 8), peer, 16, 5));
  post(compare_swap(data.sge(8, 8), peer, 24, 6, 7));
  const auto sent = turn();
  ASSERT_THAT(ops(sent), ElementsAre(Op::kFetchAdd, Op::kCompareSwap));
  EXPECT_EQ(sent[0].va, peer.iova + 16);
  EXPECT_EQ(sent[0].swap_add, 5U);
  EXPECT_EQ(sent[1].compare, 6U);
  EXPECT_EQ(sent[1].swap_add, 7U);
  deliver({.op = Op::kAtomicAck, .psn = 100, .original = 0x1122334455667788});
  deliver({.op = Op::kAtomicAck, .psn = 101, .original = 6});
  EXPECT_THAT(statuses(qp.sends), ElementsAre(0, 0));
  EXPECT_EQ(data.get<std::uint64_t>(0), 0x1122334455667788U);
  EXPECT_EQ(data.get<std::uint64_t>(8), 6U);
}

TEST_F(RequesterTest, KeepsToTheNumberOfOutstandingReads) {
  for (int i = 0; i < 3; ++i) post(read({data.sge(0, 8)}, peer));
  post_sends(1);
  EXPECT_THAT(psns(turn()), ElementsAre(100, 101));
  respond(Op::kReadResponseOnly, 100, pattern(8));
  EXPECT_THAT(psns(turn()), ElementsAre(102, 103));
  qp.attributes().max_rd_atomic = 0;
  restart();
  post(read({data.sge(0, 8)}, peer));
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_LOC_QP_OP_ERR));
}

// A fence waits for READs and atomics, not for SENDs.
TEST_F(RequesterTest, AFenceWaitsForResponses) {
  post_sends(1);
  post(send({data.sge(0, 8)}).with(TERN_WQE_F_FENCE));
  post(read({data.sge(0, 8)}, peer));
  post(send({data.sge(0, 8)}).with(TERN_WQE_F_FENCE));
  EXPECT_THAT(psns(turn()), ElementsAre(100, 101, 102));
  respond(Op::kReadResponseOnly, 102, pattern(8));
  EXPECT_THAT(psns(turn()), ElementsAre(103));
}

// ---- local requests, states, errors ----

// Earlier requests may need the key, if only for a retransmission.
TEST_F(RequesterTest, AnInvalidationWaitsForEarlierRequests) {
  const std::uint32_t window = bound_window();
  ASSERT_TRUE(readable(window));
  post_sends(1);
  post(local_inv(window));
  EXPECT_THAT(turn(), SizeIs(1));
  EXPECT_TRUE(readable(window));
  ack(100);
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_FALSE(readable(window));
  EXPECT_THAT(statuses(qp.sends), ElementsAre(0, 0, 0));
}

// In SQD a message that has begun ends, and no other begins.
TEST_F(RequesterTest, DrainsInSqd) {
  post(write({data.sge(0, 600)}, peer));
  post_sends(1);
  EXPECT_THAT(turn(1), SizeIs(1));
  qp.set_state(TERN_QPS_SQD);
  EXPECT_THAT(psns(turn()), ElementsAre(101, 102));
  EXPECT_EQ(qp.drained, 0U);
  ack(102);
  EXPECT_EQ(qp.drained, 1U);
  EXPECT_THAT(turn(), IsEmpty());
  qp.set_state(TERN_QPS_RTS);
  EXPECT_THAT(psns(turn()), ElementsAre(103));
}

// Requests complete in order, and so does one that fails before it is sent.
TEST_F(RequesterTest, AnInvalidRequestFailsInItsTurn) {
  const std::pair<SendWr, unsigned> rows[] = {
      {SendWr{.opcode = 0x55}, TERN_CQE_LOC_QP_OP_ERR},
      {send({tern_sge{data.iova, 8, data.key ^ 1}}), TERN_CQE_LOC_PROT_ERR},
      {send({data.sge(16 * kPage - 4, 8)}), TERN_CQE_LOC_PROT_ERR},
      {fetch_add(data.sge(0, 4), peer, 0, 1), TERN_CQE_LOC_LEN_ERR},
      {local_inv(0x123), TERN_CQE_LOC_QP_OP_ERR}};
  for (const auto& [wr, status] : rows) {
    restart();
    post_sends(1);
    post(wr);
    EXPECT_THAT(turn(), SizeIs(1));
    EXPECT_THAT(qp.sends, IsEmpty());
    ack(100);
    (void)turn();
    EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_SUCCESS, status));
    EXPECT_EQ(qp.state(), TERN_QPS_ERR);
  }
}

TEST_F(RequesterTest, AFlushReportsExecutedBinds) {
  post_sends(1);
  (void)turn();
  (void)bound_window();
  post_sends(1);
  std::uint32_t allowance = 1;
  EXPECT_TRUE(half.flush(allowance)) << "it has an allowance, too";
  allowance = kTurn;
  EXPECT_FALSE(half.flush(allowance));
  EXPECT_THAT(statuses(qp.sends),
              ElementsAre(TERN_CQE_WR_FLUSH_ERR, TERN_CQE_SUCCESS, TERN_CQE_WR_FLUSH_ERR));
}

// ---- page faults ----

TEST_F(RequesterTest, ParksAtAnAbsentPage) {
  const TestMr cold = reg(2, kAllAccess | TERN_ACCESS_ON_DEMAND);
  set_present(cold, 0);
  post(send({cold.sge(kPage - kMtu, 2 * kMtu)}));
  post_sends(1);
  EXPECT_THAT(psns(turn()), ElementsAre(100));
  ASSERT_THAT(qp.faults, SizeIs(1));
  EXPECT_EQ(qp.faults[0].addr, cold.iova + kPage);
  EXPECT_EQ(qp.faults[0].key, cold.key);
  EXPECT_THAT(turn(), IsEmpty());
  set_present(cold, 1);
  qp.resume(TERN_FAULT_REQUESTER);
  EXPECT_THAT(psns(turn()), ElementsAre(101, 102));
}

// The response is dropped, and requested again without a retry.
TEST_F(RequesterTest, AResponseToAnAbsentPageIsRequestedAgain) {
  qp.attributes().retry_cnt = 0;
  restart();
  const TestMr cold = reg(1, kAllAccess | TERN_ACCESS_ON_DEMAND);
  post(read({cold.sge(0, 300)}, peer));
  (void)turn();
  respond(Op::kReadResponseFirst, 100, pattern(256));
  respond(Op::kReadResponseLast, 101, pattern(44));
  EXPECT_THAT(qp.faults, SizeIs(1));
  pass(2 * kTimeout);
  EXPECT_THAT(qp.sends, IsEmpty());
  set_present(cold, 0);
  qp.resume(TERN_FAULT_REQUESTER);
  EXPECT_THAT(psns(turn()), ElementsAre(100));
  respond(Op::kReadResponseFirst, 100, pattern(256));
  respond(Op::kReadResponseLast, 101, pattern(44));
  EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_SUCCESS));
}

// ---- saved state ----

class SavedRequester : public RequesterTest {
 protected:
  // Where a saved state has the indices, in units of four bytes: behind the number of timers and
  // the flag that says that the queue is open.
  enum Index {
    kOldest,
    kOldestPsn,
    kNext,
    kNextPsn,
    kPacket,
    kFresh,
    kFreshPsn,
    kFetched,
    kPosted
  };
  static constexpr std::size_t kIndices = sizeof(std::uint32_t) + 1;

  std::vector<std::byte> save() {
    std::vector<std::byte> to;
    Archive ar(to);
    ar.timers(context.timers);
    half.state(ar);
    EXPECT_TRUE(ar.ok()) << ar.error();
    return to;
  }
  // What another half says of the state after this change.
  std::string load(std::vector<std::byte> state,
                   std::initializer_list<std::pair<Index, std::uint32_t>> changes) {
    for (const auto& [index, value] : changes)
      std::memcpy(&state[kIndices + index * sizeof(value)], &value, sizeof(value));
    Requester other(qp);
    Archive ar{std::span<const std::byte>(state)};
    ar.timers(context.timers);
    other.state(ar);
    return ar.error().substr(0, ar.error().find(" ("));
  }
};

// A retransmission would read beyond the inline payload.
TEST_F(SavedRequester, TheOldestPsnIsInAWqe) {
  post(send_inline(pattern(4)));
  EXPECT_THAT(psns(turn()), ElementsAre(100));
  const auto state = save();
  EXPECT_EQ(load(state, {}), "");
  for (const std::uint32_t psn : {99U, 101U, 102U, 1000U})
    EXPECT_EQ(load(state, {{kOldestPsn, psn}}), "the oldest PSN of a send queue is wrong") << psn;
  EXPECT_EQ(load(state, {{kFreshPsn, 102}}), "the PSNs of a send queue have no end");
}

TEST_F(SavedRequester, NothingIsSentBeyondWhatHasBegun) {
  post(write({data.sge(0, 3 * kMtu)}, peer));
  (void)turn();
  const auto state = save();
  EXPECT_EQ(load(state, {}), "");
  EXPECT_EQ(load(state, {{kOldestPsn, 102}}), "");
  EXPECT_EQ(load(state, {{kOldestPsn, 103}}), "the oldest PSN of a send queue is wrong");
  EXPECT_EQ(load(state, {{kNext, 0}, {kPacket, 3}}), "a send queue is past the end of a message");
  EXPECT_EQ(load(state, {{kNext, 0}, {kPacket, 2}, {kNextPsn, 101}}),
            "a send queue is inconsistent");
  ack(102);
  EXPECT_EQ(load(save(), {{kOldestPsn, 102}}), "a send queue waits for nothing");
}

// In each state of a QP.
TEST_F(SavedRequester, TheIndicesAreInOrder) {
  post_sends(3);
  (void)turn();
  for (const auto qp_state :
       std::to_array<std::uint8_t>({TERN_QPS_RTS, TERN_QPS_SQD, TERN_QPS_ERR})) {
    qp.set_state(qp_state);
    if (qp_state == TERN_QPS_ERR) half.stop();
    const auto state = save();
    EXPECT_EQ(load(state, {}), "");
    for (const auto& [index, value] :
         std::initializer_list<std::pair<Index, std::uint32_t>>{{kNext, 4},
                                                                {kNext, 0xffffffff},
                                                                {kFetched, 4},
                                                                {kPosted, 2},
                                                                {kPosted, 1000},
                                                                {kFresh, 4}}) {
      EXPECT_EQ(load(state, {{index, value}}), "the indices of a send queue are out of order")
          << index << ' ' << value;
    }
  }
}

TEST_F(SavedRequester, OnlyAQueueThatSendsHasATimer) {
  post_sends(1);
  (void)turn();
  const auto state = save();
  qp.set_state(TERN_QPS_ERR);
  EXPECT_EQ(load(state, {}), "a timer is wrong");
}

// The slice of a flush may end anywhere.
TEST_F(SavedRequester, AFlushInProgress) {
  post(write({data.sge(0, 100 * kMtu)}, peer));
  post_sends(8);
  (void)turn(10 * kMtu);
  qp.set_state(TERN_QPS_ERR);
  half.stop();
  for (unsigned i = 0; i < 9; ++i) {
    EXPECT_EQ(load(save(), {}), "") << i;
    std::uint32_t allowance = 1;
    (void)half.flush(allowance);
    EXPECT_EQ(qp.sends.size(), i + 1);
  }
  EXPECT_EQ(load(save(), {}), "");
}

}  // namespace
}  // namespace tern
