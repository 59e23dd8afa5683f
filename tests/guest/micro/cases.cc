// SPDX-License-Identifier: GPL-2.0-or-later
#include "cases.h"

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "lab.h"

namespace guest {

namespace {

constexpr std::uint32_t kMtu = 1024;
constexpr std::uint32_t kPackets = 10;
constexpr std::uint32_t kBytes = kPackets * kMtu;
constexpr std::uint64_t kOld = 1000;  // seeds of the old contents and of the new data
constexpr std::uint64_t kNew = 2000;
constexpr std::uint8_t kRnrNever = 0;  // 655 ms: longer than it takes to post a receive

Connection usual() {
  Connection how;
  how.mtu = IBV_MTU_1024;
  how.timeout = 16;  // 268 ms; tern waits four times that, so a slow host causes no retransmission
  return how;
}

PairOptions reliable(Connection how = usual()) {
  PairOptions o;
  o.how = how;
  return o;
}

PairOptions of_type(ibv_qp_type here, ibv_qp_type there) {
  PairOptions o = reliable();
  o.local.type = here;
  o.remote.type = there;
  return o;
}

PairOptions wrapping(ibv_qp_type here = IBV_QPT_RC, ibv_qp_type there = IBV_QPT_RC) {
  PairOptions o = of_type(here, there);
  o.local.psn = 0xfffffc;
  o.remote.psn = 0xfffffc;
  return o;
}

// The case connects one end with a path MTU of 1024 bytes and the other with 512.
PairOptions unconnected(ibv_qp_type here, ibv_qp_type there) {
  PairOptions o = of_type(here, there);
  o.connect = false;
  return o;
}

PairOptions xrc(Connection how) {
  PairOptions o = of_type(IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV);
  o.how = how;
  return o;
}

Connection many_retries() {
  Connection how = usual();
  how.timeout = 12;
  how.min_rnr_timer = 14;  // 1.28 ms
  return how;
}

Connection retries() {
  Connection how = usual();
  how.timeout = 12;
  how.retry_cnt = 2;
  how.rnr_retry = 2;
  how.min_rnr_timer = 14;  // 1.28 ms
  return how;
}

PairOptions few_retries() { return reliable(retries()); }

Connection long_timeouts() {
  Connection how = usual();
  how.min_rnr_timer = kRnrNever;
  return how;
}

PairOptions long_rnr() { return reliable(long_timeouts()); }

// ---- operations ----

Send ask(const Pair& pair, ibv_wr_opcode opcode, std::uint32_t length, std::uint64_t wr_id = 1,
         std::uint64_t at = 0) {
  Send send = pair.request(opcode, length, at);
  send.wr_id = wr_id;
  send.srqn = pair.remote.endpoint().srqn;
  return send;
}

Send write_of(const Pair& pair, std::uint32_t length) {
  return ask(pair, IBV_WR_RDMA_WRITE, length);
}

void write(const Pair& pair, std::uint32_t length) {
  pair.fill({0, length}, kNew);
  pair.remote.fill({0, length}, kOld);
  pair.post(write_of(pair, length));
  pair.expect(1);
  pair.remote.check({0, length}, kNew);
}
void short_write(const Pair& pair) { write(pair, 100); }
void long_write(const Pair& pair) { write(pair, kBytes); }

void read(const Pair& pair, std::uint32_t length) {
  pair.remote.fill({0, length}, kNew);
  pair.fill({0, length}, kOld);
  pair.post(ask(pair, IBV_WR_RDMA_READ, length));
  require(pair.expect(1).byte_len == length, "READ of another length");
  pair.check({0, length}, kNew);
}
void long_read(const Pair& pair) { read(pair, kBytes); }

Send send_of(const Pair& pair, std::uint32_t length, std::uint64_t wr_id) {
  return ask(pair, IBV_WR_SEND, length, wr_id);
}

void expect_received(const Pair& pair, std::uint64_t wr_id, std::uint32_t length) {
  require(pair.expect_recv(wr_id).byte_len == length, "receive of another length");
  pair.remote.check({0, length}, kNew);
}

void send(const Pair& pair, std::uint32_t length) {
  pair.fill({0, length}, kNew);
  pair.remote.fill({0, length}, kOld);
  pair.remote.post_recv(7, {0, length});
  pair.post(send_of(pair, length, 1));
  pair.expect(1);
  expect_received(pair, 7, length);
  pair.remote.expect_quiet(100);
}
void long_send(const Pair& pair) { send(pair, kBytes); }

// The receive is posted after the sender got an RNR NAK.
void send_before_recv(const Pair& pair) {
  pair.fill({0, kBytes}, kNew);
  pair.remote.fill({0, kBytes}, kOld);
  pair.post(send_of(pair, kBytes, 1));
  expect_quiet(pair.local.send_cq(), 200);
  pair.remote.post_recv(7, {0, kBytes});
  pair.expect(1);
  expect_received(pair, 7, kBytes);
}

void fetch_add(const Pair& pair) {
  pair.remote.store64(0, 100);
  Send send = ask(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
  send.compare_add = 5;
  pair.post(send);
  pair.expect(1);
  require(pair.local.memory().load64(0) == 100, "the answer is {}", pair.local.memory().load64(0));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  require(pair.remote.load64(0) == 105, "the sum is {}", pair.remote.load64(0));
}

// The duplicate of the WRITE must not be executed: data stored after the first one stays.
void write_with_ghost(const Pair& pair) {
  pair.fill({0, 64}, kNew);
  pair.post(write_of(pair, 64));
  pair.expect(1);
  pair.remote.check({0, 64}, kNew);
  pair.remote.fill({0, 64}, kOld);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  pair.remote.check({0, 64}, kOld);
}

// Four requests, of which the first fails: the others are flushed in order.
void fail_first(const Pair& pair, ibv_wr_opcode opcode, ibv_wc_status status) {
  std::vector<Send> sends;
  for (std::uint64_t id = 1; id <= 4; id++) sends.push_back(ask(pair, opcode, 64, id));
  pair.post(sends);
  pair.expect(1, status);
  for (std::uint64_t id = 2; id <= 4; id++) pair.expect(id, IBV_WC_WR_FLUSH_ERR);
}
void writes_fail(const Pair& pair) { fail_first(pair, IBV_WR_RDMA_WRITE, IBV_WC_RETRY_EXC_ERR); }
void sends_fail(const Pair& pair) { fail_first(pair, IBV_WR_SEND, IBV_WC_RNR_RETRY_EXC_ERR); }

// DMA errors in the memory of the source, the target and the receiver.
void source_unreachable(const Pair& pair) {
  pair.post(write_of(pair, 100));
  pair.expect(1, IBV_WC_LOC_PROT_ERR);
}
void target_unreachable(const Pair& pair) {
  pair.post(write_of(pair, 100));
  pair.expect(1, IBV_WC_REM_OP_ERR);
}
void receiver_unreachable(const Pair& pair) {
  pair.remote.post_recv(7, {0, 100});
  pair.post(send_of(pair, 100, 1));
  pair.expect(1, IBV_WC_REM_OP_ERR);
  pair.expect_recv(7, IBV_WC_LOC_PROT_ERR);
}

// Three messages of three packets. The second is lost, and the third takes the receive that it
// would have used.
void second_of_three_lost(const Pair& pair) {
  constexpr std::uint32_t kLength = 3 * kMtu;
  pair.remote.fill({0, 3 * kLength}, kOld);
  for (std::uint64_t i = 0; i < 3; i++) pair.remote.post_recv(10 + i, {i * kLength, kLength});
  for (std::uint64_t i = 0; i < 3; i++) {
    pair.fill({i * kLength, kLength}, kNew + i);
    pair.post(ask(pair, IBV_WR_SEND, kLength, 1 + i, i * kLength));
    pair.expect(1 + i);
  }
  pair.expect_recv(10);
  pair.expect_recv(11);
  pair.remote.expect_quiet(200);
  pair.remote.check({0, kLength}, kNew);
  pair.remote.check({kLength, kLength}, kNew + 2);
}

// An rnr_retry of 7 means unlimited: the receive is posted after many more RNR NAKs.
void send_long_before_recv(const Pair& pair) {
  pair.fill({0, 100}, kNew);
  pair.post(send_of(pair, 100, 1));
  expect_quiet(pair.local.send_cq(), 2000);
  pair.remote.post_recv(7, {0, 100});
  pair.expect(1);
  expect_received(pair, 7, 100);
}

// UC: a message without a receive is lost, but not the next one.
void no_receive(const Pair& pair) {
  pair.post(send_of(pair, 3 * kMtu, 1));
  pair.expect(1);
  pair.remote.expect_quiet(200);
  send(pair, 3 * kMtu);
}

// ---- two path MTUs ----

void connect_differently(const Pair& pair) {
  Connection there = pair.how;
  there.mtu = IBV_MTU_512;
  pair.remote.connect(there, pair.local.endpoint());
  connect(pair.local.qp(), pair.local.device(), pair.how, pair.local.endpoint(),
          pair.remote.endpoint());
}

void refused_mtu(const Pair& pair) {
  connect_differently(pair);
  write(pair, 300);
  pair.remote.fill({0, kBytes}, kOld);
  pair.post(write_of(pair, kBytes));
  pair.expect(1, IBV_WC_REM_INV_REQ_ERR);
  require(pair.remote.wait_async(IBV_EVENT_QP_REQ_ERR, 10000), "no IBV_EVENT_QP_REQ_ERR");
  // An XRC target receives from SRQs and reports that it will take no more WQEs.
  require(pair.remote.endpoint().srqn == 0 ||
              pair.remote.wait_async(IBV_EVENT_QP_LAST_WQE_REACHED, 10000),
          "no IBV_EVENT_QP_LAST_WQE_REACHED");
  pair.remote.check({0, kBytes}, kOld);
}

void bad_response_mtu(const Pair& pair) {
  connect_differently(pair);
  read(pair, 300);
  pair.post(ask(pair, IBV_WR_RDMA_READ, kBytes));
  pair.expect(1, IBV_WC_BAD_RESP_ERR);
}

void lost_mtu(const Pair& pair) {
  connect_differently(pair);
  pair.remote.fill({0, kBytes}, kOld);
  pair.remote.post_recv(7, {0, kBytes});
  pair.post(send_of(pair, kBytes, 1));
  pair.expect(1);
  pair.remote.expect_quiet(200);
  pair.remote.check({0, kBytes}, kOld);
  pair.fill({0, 300}, kNew);
  pair.post(send_of(pair, 300, 2));
  pair.expect(2);
  expect_received(pair, 7, 300);
}

// ---- the port ----

void link(const Pair& pair, bool up) {
  shell(std::string("labctl link $(hostname) ") + (up ? "up" : "down") + " 2>&1");
  require(pair.local.device().wait_async(up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 60000),
          "no event of the port");
}

void write_while_down(const Pair& pair) {
  pair.fill({0, kBytes}, kNew);
  pair.remote.fill({0, kBytes}, kOld);
  link(pair, false);
  pair.post(write_of(pair, kBytes));
  expect_quiet(pair.local.send_cq(), 1500);
  link(pair, true);
  pair.expect(1);
  pair.remote.check({0, kBytes}, kNew);
}

void send_while_down(const Pair& pair) {
  link(pair, false);
  pair.post(send_of(pair, kBytes, 1));
  pair.expect(1);
  link(pair, true);
  send(pair, kBytes);
}

// ---- the table ----

const std::vector<Case>& table() {
  // clang-format off
  static const std::vector<Case> all = {
      {"nothing-wrong", "", "", {}, {}, long_write, reliable()},
      {"read-response-4-lost", "drop rx opcode=read-response qp={here} nth=4", "",
       {{"implied_nak_seq_err", 1, 6}}, {{"duplicate_request", 1}}, long_read, reliable()},
      {"read-response-first-lost", "drop rx opcode=read-response-first qp={here} nth=1", "",
       {{"implied_nak_seq_err", 1, 9}}, {{"duplicate_request", 1}}, long_read, reliable()},
      {"read-response-last-lost", "", "drop tx opcode=read-response-last qp={here} nth=1",
       {{"local_ack_timeout_err", 1}}, {{"duplicate_request", 1}}, long_read, reliable()},
      {"read-request-lost", "drop tx opcode=read-request qp={there} nth=1", "",
       {{"local_ack_timeout_err", 1}}, {}, long_read, reliable()},
      {"ack-corrupted", "corrupt rx opcode=ack qp={here} nth=1", "",
       {{"rx_icrc_encapsulated", 1}, {"local_ack_timeout_err", 1}}, {{"duplicate_request", 1}},
       short_write, reliable()},
      {"ack-lost", "", "drop tx opcode=ack qp={here} nth=1", {{"local_ack_timeout_err", 1}},
       {{"duplicate_request", 1}}, short_write, reliable()},
      {"write-middle-lost", "drop tx opcode=write-middle qp={there} nth=5", "",
       {{"packet_seq_err", 1}}, {{"out_of_sequence", 1}}, long_write, reliable()},
      {"write-middle-corrupted", "", "corrupt=payload rx opcode=write-middle qp={there} nth=5",
       {{"packet_seq_err", 1}}, {{"out_of_sequence", 1}, {"rx_icrc_encapsulated", 1}}, long_write,
       reliable()},
      {"write-last-lost", "drop tx opcode=write-last qp={there} nth=1", "",
       {{"local_ack_timeout_err", 1}}, {{"duplicate_request", 9}}, long_write, reliable()},
      {"send-first-lost", "drop tx opcode=send-first qp={there} nth=1", "",
       {{"packet_seq_err", 1}}, {{"out_of_sequence", 1}}, long_send, reliable()},
      {"nak-lost", "drop rx syndrome=nak qp={here} nth=1;drop tx opcode=write-first qp={there} nth=1",
       "", {{"local_ack_timeout_err", 1}}, {{"out_of_sequence", 1}}, long_write, reliable()},
      {"rnr-then-ready", "", "", {}, {{"out_of_buffer", 1, 9}}, send_before_recv, long_rnr()},
      {"rnr-nak-lost", "drop rx syndrome=rnr qp={here} nth=1", "", {{"local_ack_timeout_err", 1}},
       {{"out_of_buffer", 1, 9}}, send_before_recv, long_rnr()},
      {"rnr-retries-used-up", "", "", {{"rnr_nak_retry_err", 1}, {"req_cqe_error", 1},
       {"req_cqe_flush_error", 3}}, {{"out_of_buffer", 3}}, sends_fail, few_retries()},
      {"retries-used-up", "drop tx opcode=write qp={there}", "",
       {{"local_ack_timeout_err", 3}, {"req_cqe_error", 1}, {"req_cqe_flush_error", 3}}, {},
       writes_fail, few_retries(), "check", false},
      {"seven-retries-used-up", "drop tx opcode=write qp={there}", "",
       {{"local_ack_timeout_err", 8}, {"req_cqe_error", 1}, {"req_cqe_flush_error", 3}}, {},
       writes_fail, reliable(many_retries()), "check", false},
      {"seven-rnr-retries-never-end", "", "", {}, {{"out_of_buffer", 9, 1000000}},
       send_long_before_recv, reliable(many_retries())},
      {"path-mtu-differs", "", "", {{"req_cqe_error", 1}, {"req_remote_invalid_request", 1}}, {},
       refused_mtu, unconnected(IBV_QPT_RC, IBV_QPT_RC)},
      {"path-mtu-differs-in-a-read", "", "", {{"req_cqe_error", 1}}, {}, bad_response_mtu,
       unconnected(IBV_QPT_RC, IBV_QPT_RC)},
      {"port-goes-down-and-up", "", "", {{"local_ack_timeout_err", 1, 7}},
       {{"duplicate_request", 0, 20}}, write_while_down, reliable()},
      {"atomic-request-duplicated", "duplicate tx opcode=fetch-add qp={there}", "", {},
       {{"duplicate_request", 1}, {"rx_atomic_requests", 1}}, fetch_add, reliable()},
      {"atomic-response-lost", "drop rx opcode=atomic-ack qp={here} nth=1", "",
       {{"local_ack_timeout_err", 1}}, {{"duplicate_request", 1}, {"rx_atomic_requests", 1}},
       fetch_add, reliable()},
      {"write-comes-again-late", "duplicate tx opcode=write-only qp={there} after=1s", "", {},
       {{"duplicate_request", 1}}, write_with_ghost, reliable()},
      {"write-reordered", "reorder=2 tx opcode=write-middle qp={there} nth=3", "",
       {{"packet_seq_err", 1, 2}}, {{"out_of_sequence", 1, 2}, {"duplicate_request", 0, 8}},
       long_write, reliable()},
      {"write-delayed", "delay=200ms tx opcode=write-only qp={there}", "", {}, {}, short_write,
       reliable()},
      {"ack-delayed-beyond-timeout", "delay=2s rx opcode=ack qp={here} nth=1", "",
       {{"local_ack_timeout_err", 1}}, {{"duplicate_request", 1}}, short_write, reliable()},
      {"icrc-warn", "corrupt tx opcode=write-only qp={there}", "", {}, {{"rx_icrc_encapsulated", 1}},
       short_write, reliable(), "warn"},
      {"icrc-off", "corrupt tx opcode=write-only qp={there}", "", {}, {}, short_write, reliable(),
       "off"},
      {"congestion-marked", "", "mark rx opcode=write-last qp={there}",
       {{"rp_cnp_handled", 1}}, {{"np_ecn_marked_roce_packets", 1}, {"np_cnp_sent", 1}}, long_write, reliable()},
      {"source-unreachable", "dma-error read addr={page}", "",
       {{"dma_errors", 1}, {"req_cqe_error", 1}}, {}, source_unreachable, reliable()},
      {"target-unreachable", "", "dma-error write addr={page}", {{"req_cqe_error", 1}},
       {{"dma_errors", 1}}, target_unreachable, reliable()},
      {"receiver-unreachable", "", "dma-error write addr={page}", {{"req_cqe_error", 1}},
       {{"dma_errors", 1}, {"resp_cqe_error", 1}}, receiver_unreachable, reliable()},
      {"psn-wraps", "drop tx psn=0 opcode=write qp={there} nth=1", "", {{"packet_seq_err", 1}},
       {{"out_of_sequence", 1}}, long_write, wrapping()},
      {"psn-wraps-in-a-read", "drop rx psn=0xffffff-0 opcode=read-response qp={here} nth=1 count=2",
       "", {{"implied_nak_seq_err", 1, 5}}, {{"duplicate_request", 1}}, long_read, wrapping(),
       "check", false},
      {"uc-middle-lost", "drop tx opcode=send-middle transport=uc qp={there} nth=2", "", {},
       {{"out_of_sequence", 1}}, second_of_three_lost, of_type(IBV_QPT_UC, IBV_QPT_UC)},
      {"uc-first-lost", "drop tx opcode=send-first transport=uc qp={there} nth=2", "", {},
       {{"out_of_sequence", 1}}, second_of_three_lost, of_type(IBV_QPT_UC, IBV_QPT_UC)},
      {"uc-last-lost", "drop tx opcode=send-last transport=uc qp={there} nth=2", "", {},
       {{"out_of_sequence", 1}}, second_of_three_lost, of_type(IBV_QPT_UC, IBV_QPT_UC)},
      {"uc-psn-wraps", "drop tx psn=0 transport=uc qp={there} nth=1", "", {},
       {{"out_of_sequence", 1}}, second_of_three_lost, wrapping(IBV_QPT_UC, IBV_QPT_UC)},
      {"uc-no-receive", "", "", {}, {{"out_of_buffer", 1}}, no_receive,
       of_type(IBV_QPT_UC, IBV_QPT_UC)},
      {"uc-path-mtu-differs", "", "", {}, {}, lost_mtu, unconnected(IBV_QPT_UC, IBV_QPT_UC)},
      {"uc-port-goes-down-and-up", "", "", {}, {{"out_of_sequence", 0, 1}}, send_while_down,
       of_type(IBV_QPT_UC, IBV_QPT_UC)},
      {"xrc-send-middle-lost", "drop tx opcode=send-middle transport=xrc qp={there} nth=2", "",
       {{"packet_seq_err", 1}}, {{"out_of_sequence", 1}}, long_send,
       of_type(IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV)},
      {"xrc-ack-lost", "drop rx opcode=ack transport=xrc qp={here} nth=1", "",
       {{"local_ack_timeout_err", 1}}, {{"duplicate_request", 10}}, long_send, xrc(usual())},
      {"xrc-write-last-lost", "drop tx opcode=write-last transport=xrc qp={there} nth=1", "",
       {{"local_ack_timeout_err", 1}}, {{"duplicate_request", 9}}, long_write, xrc(usual())},
      {"xrc-nak-lost",
       "drop rx syndrome=nak qp={here} nth=1;drop tx opcode=write-first qp={there} nth=1", "",
       {{"local_ack_timeout_err", 1}}, {{"out_of_sequence", 1}}, long_write, xrc(usual())},
      {"xrc-read-response-4-lost", "drop rx opcode=read-response transport=xrc qp={here} nth=4", "",
       {{"implied_nak_seq_err", 1, 6}}, {{"duplicate_request", 1}}, long_read, xrc(usual())},
      {"xrc-read-response-last-lost", "", "drop tx opcode=read-response-last qp={here} nth=1",
       {{"local_ack_timeout_err", 1}}, {{"duplicate_request", 1}}, long_read, xrc(usual())},
      {"xrc-atomic-request-duplicated", "duplicate tx opcode=fetch-add qp={there}", "", {},
       {{"duplicate_request", 1}, {"rx_atomic_requests", 1}}, fetch_add, xrc(usual())},
      {"xrc-atomic-response-lost", "drop rx opcode=atomic-ack qp={here} nth=1", "",
       {{"local_ack_timeout_err", 1}}, {{"duplicate_request", 1}, {"rx_atomic_requests", 1}},
       fetch_add, xrc(usual())},
      {"xrc-psn-wraps", "drop tx psn=0 opcode=write qp={there} nth=1", "", {{"packet_seq_err", 1}},
       {{"out_of_sequence", 1}}, long_write, wrapping(IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV)},
      {"xrc-rnr-then-ready", "", "", {}, {{"out_of_buffer", 1, 9}}, send_before_recv,
       xrc(long_timeouts())},
      {"xrc-rnr-retries-used-up", "", "", {{"rnr_nak_retry_err", 1}, {"req_cqe_error", 1},
       {"req_cqe_flush_error", 3}}, {{"out_of_buffer", 3}}, sends_fail, xrc(retries())},
      {"xrc-seven-rnr-retries-never-end", "", "", {}, {{"out_of_buffer", 9, 1000000}},
       send_long_before_recv, xrc(many_retries())},
      {"xrc-seven-retries-used-up", "drop tx opcode=write qp={there}", "",
       {{"local_ack_timeout_err", 8}, {"req_cqe_error", 1}, {"req_cqe_flush_error", 3}}, {},
       writes_fail, xrc(many_retries()), "check", false},
      {"xrc-path-mtu-differs", "", "", {{"req_cqe_error", 1}, {"req_remote_invalid_request", 1}},
       {}, refused_mtu, unconnected(IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV)},
      {"xrc-port-goes-down-and-up", "", "", {{"local_ack_timeout_err", 1, 7}},
       {{"duplicate_request", 0, 20}}, write_while_down, xrc(usual())},
  };
  // clang-format on
  return all;
}

}  // namespace

std::span<const Case> cases() { return table(); }

}  // namespace guest
