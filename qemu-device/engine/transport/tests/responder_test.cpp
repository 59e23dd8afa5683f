// SPDX-License-Identifier: GPL-2.0-or-later
// The receiving half of a reliable connection; clauses are of the IBTA specification.
#include "transport/responder.h"

#include <string>
#include <vector>

#include "core/archive.h"
#include "transport/tests/halves.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// An answer as text: "ack 200", "rnr 200", "nak access 200", "first 200", "atomic 200".
std::string text(const Fields& f) {
  static const char* const naks[] = {"nak sequence", "nak invalid", "nak access", "nak operation"};
  const auto kind = [&]() -> std::string {
    if (f.op == Op::kAtomicAck) return "atomic";
    if (f.op == Op::kReadResponseOnly) return "only";
    if (f.op == Op::kReadResponseFirst) return "first";
    if (f.op == Op::kReadResponseMiddle) return "middle";
    if (f.op == Op::kReadResponseLast) return "last";
    if ((f.syndrome & kSyndromeKindMask) == kSyndromeKindAck) return "ack";
    if ((f.syndrome & kSyndromeKindMask) == kSyndromeKindRnr) return "rnr";
    return naks[f.syndrome & 3];
  };
  return kind() + " " + std::to_string(f.psn);
}

class ResponderTest : public HalfTest {
 protected:
  ResponderTest() {
    qp.receiver = &half;
    half.start();
  }
  // Begins again with the attributes that the test has set.
  void restart() {
    half.reset();
    qp.rq.clear();
    qp.receives.clear();
    qp.errors.clear();
    qp.set_state(TERN_QPS_RTS);
    half.start();
  }
  std::vector<std::string> answers() {
    std::vector<std::string> all;
    for (const Fields& f : turn()) all.push_back(text(f));
    return all;
  }
  // Requests that ask for an acknowledgement; offsets are those in `data`.
  static Fields sending(std::uint32_t psn, Op op = Op::kSendOnly, unsigned bytes = 8) {
    return {.op = op, .psn = psn, .ack_req = true, .payload = pattern(bytes, psn)};
  }
  Fields writing(std::uint32_t psn, Op op, unsigned bytes, std::uint32_t len,
                 std::uint64_t at = 0) const {
    return {.op = op,
            .psn = psn,
            .ack_req = true,
            .va = data.iova + at,
            .rkey = data.key,
            .len = len,
            .payload = pattern(bytes, psn)};
  }
  Fields reading(std::uint32_t psn, std::uint32_t len, std::uint64_t at = 0) const {
    return writing(psn, Op::kReadRequest, 0, len, at);
  }
  Fields adding(std::uint32_t psn, std::uint64_t add, std::uint64_t at = 0) const {
    Fields f = writing(psn, Op::kFetchAdd, 0, 0, at);
    f.swap_add = add;
    return f;
  }
  // The last request of each row is invalid there.
  void expect_invalid(const std::vector<std::vector<Fields>>& rows) {
    for (const auto& row : rows) {
      SCOPED_TRACE(&row - rows.data());
      restart();
      post_recv({data.sge(0, 1024)});
      for (const Fields& f : row) deliver(f);
      EXPECT_EQ(answers().back(), "nak invalid " + std::to_string(row.back().psn));
      EXPECT_THAT(qp.errors, ElementsAre(TERN_EV_QP_REQ_ERR));
    }
  }

  Responder half{qp};
};

// ---- requests in sequence ----

TEST_F(ResponderTest, ASendOfSeveralPacketsFillsOneReceive) {
  post_recv({data.sge(0, 100), data.sge(4096, 1000)}, 7);
  deliver({.op = Op::kSendFirst, .psn = 200, .payload = pattern(256, 1)});
  EXPECT_THAT(turn(), IsEmpty()) << "no answer was requested";
  Fields last = sending(201, Op::kSendLastImm, 10);
  last.imm = 0x55;
  last.solicited = true;
  deliver(last);
  ASSERT_THAT(qp.receives, SizeIs(1));
  EXPECT_NE(qp.established, 0U);
  EXPECT_EQ(qp.receives[0].wr_id, 7U);
  EXPECT_EQ(qp.receives[0].byte_len, 266U);
  EXPECT_EQ(qp.receives[0].imm, 0x55U);
  EXPECT_EQ(qp.receives[0].flags, TERN_CQE_F_RECV | TERN_CQE_F_IMM | TERN_CQE_F_SOLICITED);
  EXPECT_EQ(copy(data, 4096 + 156, 10), pattern(10, 201));
  const auto sent = turn();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(text(sent[0]), "ack 201");
  EXPECT_EQ(sent[0].msn, 1U);
  EXPECT_EQ(sent[0].dest_qp, 7U);
}

TEST_F(ResponderTest, AWriteWithImmediateDataTakesAReceiveAtItsEnd) {
  deliver(writing(200, Op::kWriteFirst, 256, 300, 512));
  EXPECT_THAT(answers(), ElementsAre("ack 200"));
  deliver(writing(201, Op::kWriteLastImm, 44, 0));
  EXPECT_THAT(answers(), ElementsAre("rnr 201")) << "none is posted";
  EXPECT_NE(copy(data, 768, 44), pattern(44, 201));
  post_recv({});
  deliver(writing(201, Op::kWriteLastImm, 44, 0));
  EXPECT_THAT(answers(), ElementsAre("ack 201"));
  ASSERT_THAT(qp.receives, SizeIs(1));
  EXPECT_EQ(qp.receives[0].opcode, TERN_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(qp.receives[0].byte_len, 300U);
  EXPECT_EQ(copy(data, 512, 256), pattern(256, 200));
  EXPECT_EQ(copy(data, 768, 44), pattern(44, 201));
}

// The MSN counts messages, and the response to a READ has the PSNs of the request.
TEST_F(ResponderTest, SegmentsTheResponseToARead) {
  post_recv({data.sge(0, 8)});
  deliver(reading(200, 600, 64));
  deliver(sending(203));
  const Bytes all = copy(data, 64, 600);
  const auto sent = turn();
  ASSERT_THAT(sent, SizeIs(4));
  EXPECT_THAT(ops(sent), ElementsAre(Op::kReadResponseFirst, Op::kReadResponseMiddle,
                                     Op::kReadResponseLast, Op::kAck));
  EXPECT_THAT(psns(sent), ElementsAre(200, 201, 202, 203));
  EXPECT_EQ(sent[1].payload, Bytes(all.begin() + 256, all.begin() + 512));
  EXPECT_EQ(sent[2].payload, Bytes(all.begin() + 512, all.end()));
  EXPECT_EQ(sent[2].msn, 1U);
  EXPECT_EQ(sent[3].msn, 2U);
}

// ---- loss ----

// One NAK for a gap: if it is lost, the peer's timer expires.
TEST_F(ResponderTest, AGapIsReportedOnce) {
  post_recv({data.sge(0, 8)});
  deliver(sending(202));
  EXPECT_THAT(answers(), ElementsAre("nak sequence 200"));
  deliver(sending(203));
  deliver(reading(204, 8));
  EXPECT_THAT(answers(), IsEmpty());
  deliver(sending(200));
  EXPECT_THAT(answers(), ElementsAre("ack 200"));
  deliver(sending(203));
  EXPECT_THAT(answers(), ElementsAre("nak sequence 201"));
  EXPECT_THAT(qp.receives, SizeIs(1));
}

TEST_F(ResponderTest, NotReadyUntilAReceiveIsPosted) {
  deliver(sending(200));
  const auto sent = turn();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].psn, 200U);
  EXPECT_EQ(sent[0].syndrome, kSyndromeKindRnr | 12) << "attributes().min_rnr_timer";
  post_recv({data.sge(0, 8)});
  deliver(sending(201));
  EXPECT_THAT(answers(), IsEmpty()) << "the peer repeats this one, too";
  deliver(sending(200));
  EXPECT_THAT(answers(), ElementsAre("ack 200"));
  EXPECT_EQ(count(TERN_CNT_OUT_OF_BUFFER), 1U);
}

// 9.7.5.1.3: the ACK of a repeated SEND or WRITE covers all that arrived.
TEST_F(ResponderTest, RepeatedSendsAndWritesAreAcknowledgedOnly) {
  post_recv({data.sge(0, 8)});
  post_recv({data.sge(0, 8)});
  deliver(sending(200));
  deliver(writing(201, Op::kWriteOnly, 8, 8, 64));
  (void)turn();
  data.put<std::uint64_t>(64, 1);
  deliver(sending(200));
  deliver(writing(201, Op::kWriteOnly, 8, 8, 64));
  EXPECT_THAT(answers(), ElementsAre("ack 201"));
  deliver({.op = Op::kSendOnly, .psn = 200});
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_THAT(qp.receives, SizeIs(1));
  EXPECT_EQ(data.get<std::uint64_t>(64), 1U);
}

// Some requesters would take the ACK of a later PSN for the READ's response.
TEST_F(ResponderTest, TheAckOfARepeatedSendEndsBeforeALaterRead) {
  post_recv({data.sge(0, 8)});
  deliver(sending(200));
  deliver(reading(201, 8));
  (void)turn();
  deliver(sending(200));
  EXPECT_THAT(answers(), ElementsAre("ack 200"));
}

// 9.7.5.1.3: a repeated READ is executed again, from any of its packets on.
TEST_F(ResponderTest, ARepeatedReadIsExecutedAgain) {
  deliver(reading(200, 600));
  (void)turn();
  data.fill(5);
  deliver(reading(200, 600));
  EXPECT_THAT(answers(), ElementsAre("first 200", "middle 201", "last 202"));
  deliver(reading(201, 344, 256));
  const auto sent = turn();
  ASSERT_THAT(ops(sent), ElementsAre(Op::kReadResponseFirst, Op::kReadResponseLast));
  EXPECT_THAT(psns(sent), ElementsAre(201, 202));
  EXPECT_EQ(sent[0].payload, copy(data, 256, 256));
}

TEST_F(ResponderTest, ARepeatedAtomicIsNotExecutedAgain) {
  data.put<std::uint64_t>(0, 40);
  deliver(adding(200, 2));
  deliver(adding(200, 2));
  EXPECT_THAT(answers(), ElementsAre("atomic 200")) << "the first answer is still queued";
  data.put<std::uint64_t>(0, 1000);
  deliver(adding(200, 2));
  const auto sent = turn();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].original, 40U);
  EXPECT_EQ(data.get<std::uint64_t>(0), 1000U);
}

// 9.7.5.1.5: it keeps as many results as the peer may have requests outstanding.
TEST_F(ResponderTest, KeepsTheResultsOfTheNewestRequests) {
  for (std::uint32_t psn = 200; psn < 203; ++psn) {
    deliver(adding(psn, 1));
    (void)turn();
  }
  for (std::uint32_t psn = 200; psn < 203; ++psn) deliver(adding(psn, 1));
  EXPECT_THAT(answers(), ElementsAre("atomic 201", "atomic 202"));
}

// A request that only claims to be a repetition could read what the peer may not.
TEST_F(ResponderTest, AForgedRepetitionIsDropped) {
  deliver(reading(200, 600));
  deliver(adding(203, 1));
  (void)turn();
  const Bytes before = copy(data, 0, 1024);
  std::vector<Fields> forged = {reading(200, 601), reading(200, 600, 8), reading(201, 600, 256),
                                adding(203, 1, 8), adding(200, 1),       reading(203, 8),
                                reading(190, 8)};
  forged.push_back(reading(200, 600));
  forged.back().rkey ^= 1;
  forged.push_back(adding(203, 1));
  forged.back().rkey ^= 1;
  for (const Fields& f : forged) deliver(f);
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_EQ(copy(data, 0, 1024), before);
  EXPECT_EQ(count(TERN_CNT_DUPLICATE_REQUEST), forged.size());
  EXPECT_EQ(qp.state(), TERN_QPS_RTS);
}

// ---- invalid requests ----

// 9.7.4.1.3.
TEST_F(ResponderTest, PacketsOfAMessageFollowEachOther) {
  const Fields first = sending(200, Op::kSendFirst, 256);
  const Fields begun = writing(200, Op::kWriteFirst, 256, 512);
  expect_invalid({{sending(200, Op::kSendMiddle, 256)},
                  {sending(200, Op::kSendLast)},
                  {writing(200, Op::kWriteMiddle, 256, 0)},
                  {first, sending(201, Op::kSendFirst, 256)},
                  {first, sending(201)},
                  {first, writing(201, Op::kWriteMiddle, 256, 0)},
                  {first, reading(201, 8)},
                  {begun, sending(201, Op::kSendLast)},
                  {begun, writing(201, Op::kWriteOnly, 8, 8)}});
}

// Only the last packet is shorter than the path MTU; atomics are aligned.
TEST_F(ResponderTest, PacketsHaveTheLengthsOfTheirPlace) {
  const Fields first = sending(200, Op::kSendFirst, 256);
  const Fields begun = writing(200, Op::kWriteFirst, 256, 512);
  const Fields middle = writing(201, Op::kWriteMiddle, 256, 0);
  expect_invalid({{sending(200, Op::kSendFirst, 255)},
                  {sending(200, Op::kSendOnly, 257)},
                  {first, sending(201, Op::kSendMiddle, 255)},
                  {first, sending(201, Op::kSendLast, 0)},
                  {first, sending(201, Op::kSendLast, 257)},
                  {begun, writing(201, Op::kWriteLast, 255, 0)},
                  {begun, middle, writing(202, Op::kWriteMiddle, 256, 0)},
                  {writing(200, Op::kWriteOnly, 8, 9)},
                  {writing(200, Op::kWriteFirst, 256, 0x80000001)},
                  {reading(200, 0x80000001)},
                  {adding(200, 1, 4)},
                  {writing(200, Op::kAtomicWrite, 8, 8, 4)},
                  {writing(200, Op::kAtomicWrite, 4, 8)}});
}

// A right that the QP lacks makes a request invalid; one that the key lacks, an access error.
TEST_F(ResponderTest, RightsOfTheQpAndOfTheKey) {
  const TestMr closed = reg(1, TERN_ACCESS_LOCAL_WRITE);
  const std::vector<Fields> requests = {writing(200, Op::kWriteOnly, 8, 8), reading(200, 8),
                                        adding(200, 1)};
  for (Fields f : requests) {
    restart();
    qp.attributes().access = TERN_ACCESS_LOCAL_WRITE;
    deliver(f);
    EXPECT_THAT(answers(), ElementsAre("nak invalid 200"));
    qp.attributes().access = kAllAccess;
    for (int row = 0; row < 3; ++row) {
      restart();
      f.rkey = row == 0 ? closed.key : row == 1 ? data.key ^ 1 : data.key;
      f.va = row == 0 ? closed.iova : row == 1 ? data.iova : data.iova + data.length;
      deliver(f);
      EXPECT_THAT(answers(), ElementsAre("nak access 200")) << row;
      EXPECT_THAT(qp.errors, ElementsAre(TERN_EV_QP_ACCESS_ERR));
    }
  }
}

TEST_F(ResponderTest, ErrorsOfTheReceive) {
  const std::tuple<tern_sge, unsigned, std::string> rows[] = {
      {data.sge(0, 7), TERN_CQE_LOC_LEN_ERR, "nak invalid 200"},
      {{data.iova, 8, data.key ^ 1}, TERN_CQE_LOC_PROT_ERR, "nak operation 200"}};
  for (const auto& [sge, status, answer] : rows) {
    restart();
    post_recv({sge});
    deliver(sending(200));
    EXPECT_THAT(statuses(qp.receives), ElementsAre(status));
    EXPECT_THAT(answers(), ElementsAre(answer));
    EXPECT_THAT(qp.errors, ElementsAre(-1)) << "the completion reports it";
  }
  restart();
  qp.rq_unusable = true;
  deliver(sending(200));
  EXPECT_THAT(answers(), ElementsAre("nak operation 200"));
  EXPECT_THAT(qp.errors, ElementsAre(TERN_EV_QP_FATAL));
}

TEST_F(ResponderTest, APeerKeepsToTheOutstandingReadsItWasGranted) {
  for (std::uint32_t psn = 200; psn < 203; ++psn) deliver(reading(psn, 8));
  EXPECT_THAT(answers(), ElementsAre("only 200", "only 201", "nak invalid 202"));
  qp.attributes().max_dest_rd_atomic = 0;
  restart();
  deliver(adding(200, 1));
  EXPECT_THAT(answers(), ElementsAre("nak invalid 200"));
}

// ---- answers ----

TEST_F(ResponderTest, AcksMergeButNotAcrossAResponse) {
  for (int i = 0; i < 4; ++i) post_recv({data.sge(0, 8)});
  for (const std::uint32_t psn : {200U, 201U, 202U}) deliver(sending(psn));
  const auto sent = turn();
  ASSERT_THAT(psns(sent), ElementsAre(202));
  EXPECT_EQ(sent[0].msn, 3U);
  EXPECT_EQ(qp.wakes, 1U);
  deliver(writing(203, Op::kWriteOnly, 8, 8));
  deliver(reading(204, 8));
  deliver(sending(205));
  EXPECT_THAT(answers(), ElementsAre("ack 203", "only 204", "ack 205"));
}

// A full queue of answers drops requests, which the peer repeats; the NAK of a gap has a place.
TEST_F(ResponderTest, TheQueueOfAnswersIsBounded) {
  post_recv({data.sge(0, 8)});
  deliver(adding(200, 1));
  (void)turn();
  for (int i = 0; i < 100; ++i) deliver(adding(200, 1));
  deliver(sending(201));
  EXPECT_THAT(qp.receives, IsEmpty());
  deliver(sending(203));
  const auto queued = answers();
  EXPECT_THAT(queued, SizeIs(16)) << "4 * max_dest_rd_atomic + 8";
  EXPECT_EQ(queued.back(), "nak sequence 201");
  deliver(sending(201));
  EXPECT_THAT(answers(), ElementsAre("ack 201"));
}

TEST_F(ResponderTest, AnErrorFlushesTheHeldReceive) {
  post_recv({data.sge(0, 1024)}, 3);
  deliver(sending(200, Op::kSendFirst, 256));
  half.stop(false);
  EXPECT_THAT(statuses(qp.receives), ElementsAre(TERN_CQE_WR_FLUSH_ERR));
  EXPECT_THAT(answers(), ElementsAre("ack 200"));
  restart();
  deliver(writing(200, Op::kWriteOnly, 8, 8));
  half.stop(true);
  EXPECT_THAT(answers(), IsEmpty()) << "software requested the state";
}

// ---- page faults ----

TEST_F(ResponderTest, ARequestWaitsForAnAbsentPage) {
  const TestMr cold = reg(1, kAllAccess | TERN_ACCESS_ON_DEMAND);
  Fields write = writing(200, Op::kWriteOnly, 8, 8);
  write.rkey = cold.key;
  write.va = cold.iova + 16;
  deliver(write);
  EXPECT_THAT(answers(), ElementsAre("rnr 200"));
  ASSERT_THAT(qp.faults, SizeIs(1));
  EXPECT_EQ(qp.faults[0].addr, cold.iova + 16);
  EXPECT_TRUE(qp.faults[0].write);
  deliver(sending(201));
  EXPECT_THAT(answers(), IsEmpty());
  deliver(write);
  EXPECT_THAT(answers(), ElementsAre("rnr 200"));
  set_present(cold, 0);
  qp.resume(TERN_FAULT_RESPONDER);
  deliver(write);
  EXPECT_THAT(answers(), ElementsAre("ack 200"));
  EXPECT_EQ(copy(cold, 16, 8), write.payload);
}

TEST_F(ResponderTest, AFaultThatIsNotResolvedFailsTheAccess) {
  const TestMr cold = reg(1, kAllAccess | TERN_ACCESS_ON_DEMAND);
  Fields add = adding(200, 1);
  add.rkey = cold.key;
  add.va = cold.iova;
  deliver(add);
  (void)turn();
  qp.resume(TERN_FAULT_RESPONDER, true);
  EXPECT_THAT(answers(), ElementsAre("nak access 200"));
  restart();
  post_recv({cold.sge(0, 8)});
  deliver(sending(200));
  EXPECT_THAT(answers(), ElementsAre("rnr 200"));
  qp.resume(TERN_FAULT_RESPONDER, true);
  EXPECT_THAT(statuses(qp.receives), ElementsAre(TERN_CQE_LOC_PROT_ERR));
  EXPECT_THAT(answers(), ElementsAre("nak operation 200"));
}

// The peer requests the rest of the READ again, and no answer may overtake it.
TEST_F(ResponderTest, AResponseStopsAtAnAbsentPage) {
  const TestMr cold = reg(2, kAllAccess | TERN_ACCESS_ON_DEMAND);
  set_present(cold, 0);
  Fields read = reading(200, 2 * kMtu);
  read.rkey = cold.key;
  read.va = cold.iova + kPage - kMtu;
  deliver(read);
  deliver(writing(202, Op::kWriteOnly, 8, 8));
  EXPECT_THAT(answers(), ElementsAre("first 200", "rnr 201"));
  set_present(cold, 1);
  qp.resume(TERN_FAULT_RESPONDER);
  deliver(writing(202, Op::kWriteOnly, 8, 8));
  EXPECT_THAT(answers(), IsEmpty());
  read.psn = 201;
  read.va += kMtu;
  read.len -= kMtu;
  deliver(read);
  deliver(writing(202, Op::kWriteOnly, 8, 8));
  EXPECT_THAT(answers(), ElementsAre("only 201", "ack 202"));
}

// ---- saved state ----

// The peer repeats a request whose answer it has not got, and a later one takes its resource.
TEST_F(ResponderTest, AnAnswerThatWouldBeDroppedIsNotSaved) {
  qp.attributes().max_dest_rd_atomic = 1;
  restart();
  deliver(reading(200, 8));
  EXPECT_THAT(answers(), ElementsAre("only 200"));
  deliver(reading(200, 8));
  deliver(adding(201, 1));
  std::vector<std::byte> state;
  Archive to(state);
  half.state(to);
  ASSERT_TRUE(to.finish()) << to.error();
  half.reset();
  Archive from{std::span<const std::byte>(state)};
  half.state(from);
  ASSERT_TRUE(from.finish()) << from.error();
  EXPECT_THAT(answers(), ElementsAre("atomic 201"));
}

}  // namespace
}  // namespace tern
