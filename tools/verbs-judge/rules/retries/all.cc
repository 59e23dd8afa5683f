// SPDX-License-Identifier: GPL-2.0-or-later
// What a requester repeats, and when it gives up. No rule measures time.
#include <arpa/inet.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <string>
#include <thread>

#include "rule.h"

namespace guest::retries {
namespace {

using Bytes = std::initializer_list<std::uint8_t>;

PairOptions with(const Connection& how) { return alike({}, how); }

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Fewer than 7 attempts: the requester gives up, and the receiver does not notice.
void rnr_gives_up(const Env& env) {
  for (const std::uint8_t count : Bytes{0, 1, 3, 6}) {
    const Pair pair(env, with({.rnr_retry = count, .min_rnr_timer = 1}));
    pair.post(pair.request(IBV_WR_SEND, 8, 0, 0, 1));
    pair.post(pair.request(IBV_WR_RDMA_WRITE, 8, 0, 0, 2));
    pair.expect(1, IBV_WC_RNR_RETRY_EXC_ERR);
    pair.expect(2, IBV_WC_WR_FLUSH_ERR);
    require(state_of(pair.local.qp()) == IBV_QPS_ERR, "the QP is not in ERR");
    require(pair.remote.qp_state() == IBV_QPS_RTS, "the receiver has left RTS");
    pair.remote.post_recv(3, {0, 8});
    pair.remote.expect_quiet(20);
  }
}

// With a receive in time each number of attempts is enough.
void rnr_in_time(const Env& env) {
  for (const std::uint8_t count : Bytes{0, 1, 7}) {
    const Pair pair(env, with({.rnr_retry = count}));
    for (std::uint64_t i = 0; i < 5; i++) {
      pair.remote.post_recv(i, {0, 8});
      pair.run(pair.request(IBV_WR_SEND, 8, 0, 0, i));
      pair.expect_recv(i);
    }
  }
}

// 7 attempts are without end, for each timer of the receiver.
void rnr_timers(const Env& env) {
  for (const std::uint8_t timer : Bytes{0, 1, 7, 12, 19, 25, 31}) {
    const Pair pair(env, with({.rnr_retry = 7, .min_rnr_timer = timer}));
    pair.post(pair.request(IBV_WR_SEND, 8, 0, 0, timer));
    expect_quiet(pair.local.send_cq(), 20);
    pair.remote.post_recv(1, {0, 8});
    pair.expect(timer);
    pair.expect_recv(1);
  }
}

// Several requests wait, and each takes the receive of its place.
void rnr_in_order(const Env& env) {
  constexpr std::uint64_t kCount = 8;
  const Pair pair(env, with({.rnr_retry = 7, .min_rnr_timer = 1}));
  for (std::uint64_t i = 0; i < kCount; i++) {
    Send send = pair.request(i % 2 == 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM, 8);
    send.imm = static_cast<std::uint32_t>(100 + i);
    send.wr_id = i;
    pair.post(send);
  }
  for (std::uint64_t i = 0; i < kCount; i++) {
    expect_quiet(pair.local.send_cq(), 5);
    pair.remote.post_recv(i, {0, 8});
    pair.expect(i);
    const ibv_wc wc = pair.expect_recv(i);
    require(ntohl(wc.imm_data) == 100 + i, "message {} in the place of {}",
            ntohl(wc.imm_data) - 100, i);
  }
}

// The peer is gone: whatever the timeout and the number of attempts, the requester gives up.
void peer_gone(const Env& env) {
  struct Case {
    std::uint8_t timeout;
    std::uint8_t count;
  };
  for (const Case& c : {Case{1, 0}, Case{8, 0}, Case{12, 1}, Case{10, 3}, Case{1, 7}}) {
    const Pair pair(env, with({.timeout = c.timeout, .retry_cnt = c.count}));
    pair.remote.destroy_qp();
    pair.post(pair.request(IBV_WR_RDMA_WRITE, 8, 0, 0, 1));
    pair.post(pair.request(IBV_WR_RDMA_READ, 8, 0, 0, 2));
    const auto first = poll(pair.local.send_cq(), 1, 60000).front();
    require_status(first, 1, IBV_WC_RETRY_EXC_ERR);
    pair.expect(2, IBV_WC_WR_FLUSH_ERR);
    require(state_of(pair.local.qp()) == IBV_QPS_ERR, "the QP is not in ERR");
  }
}

// A timeout of 0 is without end.
void no_timeout(const Env& env) {
  const Pair pair(env, with({.timeout = 0, .retry_cnt = 0}));
  pair.run(pair.request(IBV_WR_RDMA_WRITE, 8, 0, 0, 1));
  pair.remote.destroy_qp();
  pair.post(pair.request(IBV_WR_RDMA_WRITE, 8, 0, 0, 2));
  expect_quiet(pair.local.send_cq(), 500);
  require(state_of(pair.local.qp()) == IBV_QPS_RTS, "the QP has left RTS");
  require_err(to_state(pair.local.qp(), IBV_QPS_ERR), 0, "to ERR");
  pair.expect(2, IBV_WC_WR_FLUSH_ERR);
}

// The first attempts find a peer that is not ready to receive.
void late_peer(const Env& env) {
  PairOptions options = with({.timeout = 14, .retry_cnt = 7});
  options.connect = false;
  Pair pair(env, options);
  pair.remote.connect(pair.how, pair.local.endpoint(), IBV_QPS_INIT);
  connect(pair.local.qp(), env.dev, pair.how, pair.local.endpoint(), pair.remote.endpoint());
  pair.remote.post_recv(1, {0, 8});
  pair.post(pair.request(IBV_WR_SEND, 8, 0, 0, 2));
  sleep_ms(20);
  // From RESET again, since an end goes all the way.
  pair.remote.to_state(IBV_QPS_RESET);
  pair.remote.connect(pair.how, pair.local.endpoint());
  pair.remote.post_recv(1, {0, 8});
  const ibv_wc wc = poll(pair.local.send_cq(), 1, 60000).front();
  if (wc.status == IBV_WC_RETRY_EXC_ERR && !strict()) {
    chose("7 attempts were over before the peer was ready");
    return;
  }
  require_status(wc, 2, IBV_WC_SUCCESS);
  pair.expect_recv(1);
}

// After the error the QP is connected anew, and the request may be sent again.
void recovers(const Env& env) {
  Pair pair(env, with({.rnr_retry = 0, .min_rnr_timer = 1}));
  for (int round = 0; round < 3; round++) {
    pair.run(pair.request(IBV_WR_SEND, 8, 0, 0, 1), Api::kPost, IBV_WC_RNR_RETRY_EXC_ERR);
    require_err(to_state(pair.local.qp(), IBV_QPS_RESET), 0, "to RESET");
    pair.remote.to_state(IBV_QPS_RESET);
    pair.connect();
    pair.expect_traffic();
  }
}

std::map<std::string, std::uint64_t> counters(const Device& dev) {
  std::map<std::string, std::uint64_t> values;
  const std::string path = std::format("/sys/class/infiniband/{}/ports/1/hw_counters",
                                       ibv_get_device_name(dev.context()->device));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    std::uint64_t value = 0;
    if (std::ifstream(entry.path()) >> value) values[entry.path().filename()] = value;
  }
  return values;
}

// No document names the counters: what they count is information.
void counted(const Env& env) {
  const auto before = counters(env.dev);
  if (before.empty()) skip("no hw_counters");
  {
    const Pair pair(env, with({.rnr_retry = 2, .min_rnr_timer = 1}));
    pair.run(pair.request(IBV_WR_SEND, 8), Api::kPost, IBV_WC_RNR_RETRY_EXC_ERR);
    const Pair gone(env, with({.timeout = 8, .retry_cnt = 1}));
    gone.remote.destroy_qp();
    gone.run(gone.request(IBV_WR_RDMA_WRITE, 8), Api::kPost, IBV_WC_RETRY_EXC_ERR);
  }
  // A device may update them once in a while.
  sleep_ms(100);
  std::string changed;
  for (const auto& [name, value] : counters(env.dev)) {
    const auto old = before.find(name);
    if (old != before.end() && old->second != value) changed += " " + name;
  }
  chose("retries are counted by" + (changed.empty() ? " nothing" : changed));
}

}  // namespace

Rules all() {
  return {
      {"rnr_gives_up", "after rnr_retry attempts: IBV_WC_RNR_RETRY_EXC_ERR, and no message arrives",
       rnr_gives_up},
      {"rnr_in_time", "no attempt is needed if the receive is there", rnr_in_time},
      {"rnr_timers", "with rnr_retry 7 a message waits, whatever the min_rnr_timer", rnr_timers},
      {"rnr_in_order", "messages that wait for receives arrive once and in order", rnr_in_order},
      {"peer_gone", "a peer that is gone: IBV_WC_RETRY_EXC_ERR for each timeout and retry_cnt",
       peer_gone},
      {"no_timeout", "with a timeout of 0 the requester waits without end", no_timeout},
      {"late_peer", "a message is repeated until the peer is ready to receive", late_peer},
      {"recovers", "a QP that has given up can be connected anew", recovers},
      {"counted", "the counters of the port may count retries", counted},
  };
}

}  // namespace guest::retries
