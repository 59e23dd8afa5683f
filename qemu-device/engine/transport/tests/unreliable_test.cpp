// SPDX-License-Identifier: GPL-2.0-or-later
// The halves of unreliable connections and datagrams; clauses are of the IBTA specification.
#include "transport/datagram.h"
#include "transport/tests/halves.h"
#include "transport/unreliable_connection.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

template <class Sender>
class SenderTest : public HalfTest {
 protected:
  SenderTest(std::uint8_t type, Transport transport) : HalfTest(type, transport), type_(type) {
    qp.sender = &half;
    half.start();
  }
  void post(const SendWr& wr) {
    qp.sq.push_back(encode(type_, wr));
    half.kick();
  }
  Sender half{qp};

 private:
  std::uint8_t type_;
};

template <class HalfReceiver>
class ReceiverTest : public HalfTest {
 protected:
  ReceiverTest(std::uint8_t type, Transport transport) : HalfTest(type, transport) {
    qp.receiver = &half;
    half.start();
  }
  HalfReceiver half{qp};
};

// ---- unreliable connections, sending ----

class UcSenderTest : public SenderTest<UcSender> {
 protected:
  UcSenderTest() : SenderTest(TERN_QPT_UC, Transport::kUc) {}
  const TestMr peer{.key = 0x77700, .iova = 0x50000};
};

// 9.8.2: a message is complete once it is sent.
TEST_F(UcSenderTest, CompletesWithoutAnAck) {
  post(write({data.sge(0, 600)}, peer, 8).immediate(5));
  EXPECT_THAT(psns(turn(1)), ElementsAre(100));
  EXPECT_THAT(qp.sends, IsEmpty());
  const auto sent = turn();
  ASSERT_THAT(ops(sent), ElementsAre(Op::kWriteMiddle, Op::kWriteLastImm));
  EXPECT_THAT(psns(sent), ElementsAre(101, 102));
  EXPECT_EQ(sent[1].payload, copy(data, 512, 88));
  for (const Fields& f : sent) EXPECT_FALSE(f.ack_req);
  EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_SUCCESS));
}

// 10.3.1.6: in SQE, what was posted before the return to RTS is flushed.
TEST_F(UcSenderTest, AnErrorStopsOnlyTheSendQueue) {
  post(send({tern_sge{data.iova, 8, data.key ^ 1}}));
  post(send({data.sge(0, 8)}));
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(statuses(qp.sends), ElementsAre(TERN_CQE_LOC_PROT_ERR));
  EXPECT_EQ(qp.state(), TERN_QPS_SQE);
  EXPECT_THAT(turn(), IsEmpty());
  half.resume();
  qp.set_state(TERN_QPS_RTS);
  post(send({data.sge(0, 8)}));
  EXPECT_THAT(psns(turn()), ElementsAre(100));
  EXPECT_THAT(statuses(qp.sends),
              ElementsAre(TERN_CQE_LOC_PROT_ERR, TERN_CQE_WR_FLUSH_ERR, TERN_CQE_SUCCESS));
}

// ---- unreliable connections, receiving ----

class UcReceiverTest : public ReceiverTest<UcReceiver> {
 protected:
  UcReceiverTest() : ReceiverTest(TERN_QPT_UC, Transport::kUc) {}
  void send(Op op, std::uint32_t psn, unsigned bytes) {
    deliver({.op = op, .psn = psn, .payload = pattern(bytes, psn)});
  }
  void write(Op op, std::uint32_t psn, unsigned bytes, std::uint32_t len) {
    deliver({.op = op,
             .psn = psn,
             .va = data.iova,
             .rkey = data.key,
             .len = len,
             .payload = pattern(bytes, psn)});
  }
};

// 9.8.2: a lost packet costs its message, and nothing else.
TEST_F(UcReceiverTest, ALostPacketDropsItsMessage) {
  post_recv({data.sge(0, 1024)}, 4);
  send(Op::kSendFirst, 200, 256);
  send(Op::kSendMiddle, 202, 256);
  send(Op::kSendLast, 203, 8);
  EXPECT_THAT(qp.receives, IsEmpty());
  EXPECT_EQ(count(TERN_CNT_OUT_OF_SEQUENCE), 1U);
  send(Op::kSendOnly, 204, 8);
  ASSERT_THAT(statuses(qp.receives), ElementsAre(TERN_CQE_SUCCESS));
  EXPECT_EQ(qp.receives[0].wr_id, 4U) << "the lost message's receive";
  EXPECT_EQ(qp.receives[0].byte_len, 8U);
  EXPECT_EQ(copy(data, 0, 8), pattern(8, 204));
}

// The peer learns of no error, and the QP stays usable.
TEST_F(UcReceiverTest, DropsWhatItCannotReceive) {
  const Bytes before = copy(data, 0, 256);
  send(Op::kSendOnly, 200, 8);
  EXPECT_EQ(count(TERN_CNT_OUT_OF_BUFFER), 1U);
  post_recv({data.sge(512, 4)});
  send(Op::kSendOnly, 201, 8);
  EXPECT_EQ(count(TERN_CNT_RESP_LOCAL_LENGTH_ERROR), 1U);
  write(Op::kWriteOnly, 202, 8, 9);
  qp.attributes().access = TERN_ACCESS_LOCAL_WRITE;
  write(Op::kWriteOnly, 203, 8, 8);
  qp.attributes().access = kAllAccess;
  deliver({.op = Op::kWriteOnly,
           .psn = 204,
           .va = data.iova,
           .rkey = data.key ^ 1,
           .len = 8,
           .payload = pattern(8)});
  EXPECT_EQ(count(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS), 1U);
  EXPECT_EQ(copy(data, 0, 256), before);
  EXPECT_EQ(qp.state(), TERN_QPS_RTS);
  EXPECT_THAT(turn(), IsEmpty());
  send(Op::kSendOnly, 205, 4);
  EXPECT_THAT(statuses(qp.receives), ElementsAre(TERN_CQE_SUCCESS));
}

// ---- datagrams, sending ----

class DatagramSenderTest : public SenderTest<DatagramSender> {
 protected:
  DatagramSenderTest() : SenderTest(TERN_QPT_UD, Transport::kUd) {}
  SendWr datagram(std::uint32_t bytes, std::uint32_t dqpn = 9, std::uint32_t qkey = 0x77) {
    SendWr wr = send({data.sge(0, bytes)});
    wr.ud = {.dqpn = dqpn, .qkey = qkey};
    return wr;
  }
};

// 10.2.5: bit 31 of the request's Q_Key selects that of the QP.
TEST_F(DatagramSenderTest, EachRequestHasItsAddress) {
  post(datagram(100));
  post(datagram(0, 10, 1U << 31).immediate(6));
  const auto sent = turn();
  ASSERT_THAT(ops(sent), ElementsAre(Op::kSendOnly, Op::kSendOnlyImm));
  EXPECT_THAT(psns(sent), ElementsAre(100, 101));
  EXPECT_EQ(sent[0].dest_qp, 9U);
  EXPECT_EQ(sent[0].qkey, 0x77U);
  EXPECT_EQ(sent[0].src_qp, 17U);
  EXPECT_EQ(sent[0].payload, copy(data, 0, 100));
  EXPECT_EQ(sent[1].dest_qp, 10U);
  EXPECT_EQ(sent[1].qkey, 0x1234U);
  EXPECT_EQ(sent[1].imm, 6U);
  EXPECT_THAT(statuses(qp.sends), ElementsAre(0, 0));
}

// ---- datagrams, receiving ----

class DatagramReceiverTest : public ReceiverTest<DatagramReceiver> {
 protected:
  DatagramReceiverTest() : ReceiverTest(TERN_QPT_UD, Transport::kUd) {}
  void arrive(unsigned bytes, std::uint32_t qkey = 0x1234) {
    deliver({.op = Op::kSendOnly, .qkey = qkey, .src_qp = 33, .payload = pattern(bytes)});
  }
};

TEST_F(DatagramReceiverTest, StoresAGrhBeforeThePayload) {
  post_recv({data.sge(0, 20), data.sge(100, 200)}, 8);
  arrive(64);
  ASSERT_THAT(statuses(qp.receives), ElementsAre(TERN_CQE_SUCCESS));
  EXPECT_EQ(qp.receives[0].wr_id, 8U);
  EXPECT_EQ(qp.receives[0].byte_len, 40U + 64U);
  EXPECT_EQ(qp.receives[0].src_qp, 33U);
  EXPECT_EQ(qp.receives[0].flags, TERN_CQE_F_RECV | TERN_CQE_F_GRH);
  EXPECT_EQ(copy(data, 120, 64), pattern(64));
}

// A wrong Q_Key is counted; what does not fit leaves its receive to the next datagram.
TEST_F(DatagramReceiverTest, DropsWhatItCannotReceive) {
  arrive(8);
  EXPECT_EQ(count(TERN_CNT_OUT_OF_BUFFER), 1U);
  post_recv({data.sge(0, 48)}, 5);
  arrive(8, 0x1235);
  EXPECT_EQ(count(TERN_CNT_QKEY_VIOLATIONS), 1U);
  arrive(9);
  EXPECT_EQ(count(TERN_CNT_RESP_LOCAL_LENGTH_ERROR), 1U);
  EXPECT_THAT(qp.receives, IsEmpty());
  arrive(8);
  ASSERT_THAT(statuses(qp.receives), ElementsAre(TERN_CQE_SUCCESS));
  EXPECT_EQ(qp.receives[0].wr_id, 5U);
  EXPECT_EQ(qp.state(), TERN_QPS_RTS);
}

}  // namespace
}  // namespace tern
