// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that must fail: the status at each end, and no byte moves.
#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "connections.h"

namespace guest::connections {
namespace {

// Checks that the request after a failed one is flushed and that the QP is in the error state.
void expect_flushed(const Pair& pair, std::uint64_t wr_id) {
  pair.expect(wr_id, IBV_WC_WR_FLUSH_ERR);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  require_err(ibv_query_qp(pair.local.qp(), &attr, IBV_QP_STATE, &init), 0, "ibv_query_qp");
  require(attr.qp_state == IBV_QPS_ERR, "QP in state {}", static_cast<int>(attr.qp_state));
}

// What a device may do instead of failing with the usual status.
enum class Or { kNothing, kAnotherError, kRefuse };

// Posts the bad request and one after it: the first fails with `status`, the other is flushed.
// Returns false if the request was refused when posted, where that is allowed.
bool expect_failure(const Pair& pair, Send bad, ibv_wc_status status, Api api = Api::kPost,
                    Or other = Or::kNothing) {
  bad.wr_id = 1;
  Send next = pair.request(IBV_WR_RDMA_WRITE, 8);
  next.wr_id = 2;
  const int err = guest::post(pair.local.qp(), api, std::array{bad, next});
  if (err != 0 && other == Or::kRefuse && !strict()) {
    chose(std::format("{}: {}", api_name(api), errno_name(err)));
    return false;
  }
  require_err(err, 0, api_name(api));
  if (other == Or::kNothing || strict()) {
    pair.expect(1, status);
  } else {
    const ibv_wc wc = poll(pair.local.send_cq(), 1).front();
    require(wc.wr_id == 1 && wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR,
            "wr_id {:#x}: {}", wc.wr_id, ibv_wc_status_str(wc.status));
    require_usual(wc.status == status, "{}, not {}", ibv_wc_status_str(wc.status),
                  ibv_wc_status_str(status));
  }
  expect_flushed(pair, 2);
  return true;
}

std::span<const ibv_wr_opcode> remote_ops(const Env& env) {
  static constexpr ibv_wr_opcode kOps[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                           IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
                                           IBV_WR_ATOMIC_FETCH_AND_ADD};
  return std::span(kOps).first(claims_atomics(env.dev) ? 5 : 3);
}

bool is_atomic(ibv_wr_opcode op) {
  return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// A refused access: the status at the requester, the event at the responder, and memory unchanged
// at both ends.
void refused(const Env& env, const PairOptions& options, const Send& change, ibv_wc_status status,
             std::uint32_t length, Or other = Or::kNothing) {
  for (const Api api : env.dev.apis()) {
    const Pair pair(env, options);
    Send send = pair.request(change.opcode, length);
    send.raddr += change.raddr;
    send.rkey += change.rkey;
    send.compare_add = send.swap = 1;
    pair.remote.fill({0, 4096}, 1);
    pair.fill({0, 4096}, 2);
    if (send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) pair.remote.post_recv(9, Range{0, 0});
    const bool posted = expect_failure(pair, send, status, api, other);
    pair.remote.check({0, 4096}, 1);
    pair.check({0, 4096}, 2);
    if (posted && status == IBV_WC_REM_ACCESS_ERR && send.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) {
      require_usual(pair.remote.wait_async(IBV_EVENT_QP_ACCESS_ERR, strict() ? 5000 : 500),
                    "no IBV_EVENT_QP_ACCESS_ERR at the responder");
    }
  }
}

void bad_rkey(const Env& env) {
  for (const ibv_wr_opcode op : remote_ops(env)) {
    Send change{.opcode = op};
    change.rkey = 1;
    refused(env, {}, change, IBV_WC_REM_ACCESS_ERR, 8);
    change.rkey = 0x100;
    refused(env, {}, change, IBV_WC_REM_ACCESS_ERR, 8);
  }
}

// One byte (one word for atomics) past either end of the region.
void out_of_range(const Env& env) {
  PairOptions o;
  o.remote.memory = 4096;
  for (const ibv_wr_opcode op : remote_ops(env)) {
    Send change{.opcode = op};
    const std::uint32_t length = is_atomic(op) ? 8 : 100;
    change.raddr = is_atomic(op) ? 4096 : 4096 - 99;
    refused(env, o, change, IBV_WC_REM_ACCESS_ERR, length);
    change.raddr = is_atomic(op) ? ~std::uint64_t{7} : ~std::uint64_t{0};
    refused(env, o, change, IBV_WC_REM_ACCESS_ERR, length);
  }
}

// A range that ends past 2^64.
void wrap_around(const Env& env) {
  PairOptions o;
  o.remote.iova = 0xffffffffffffe000U;
  o.remote.memory = 4096;
  Send change{.opcode = IBV_WR_RDMA_WRITE};
  change.raddr = 8192 - 50;
  refused(env, o, change, IBV_WC_REM_ACCESS_ERR, 100);
}

void missing_right(const Env& env) {
  for (const ibv_wr_opcode op : remote_ops(env)) {
    int right = IBV_ACCESS_REMOTE_WRITE;
    if (op == IBV_WR_RDMA_READ) {
      right = IBV_ACCESS_REMOTE_READ;
    } else if (is_atomic(op)) {
      right = IBV_ACCESS_REMOTE_ATOMIC;
    }
    PairOptions o;
    o.remote.access = kAllAccess & ~right;
    refused(env, o, Send{.opcode = op}, IBV_WC_REM_ACCESS_ERR, 8);
  }
}

// The responder's QP allows no remote access.
void qp_access(const Env& env) {
  for (const ibv_wr_opcode op : remote_ops(env)) {
    PairOptions o;
    o.how.qp_access = 0;
    refused(env, o, Send{.opcode = op}, IBV_WC_REM_INV_REQ_ERR, 8, Or::kAnotherError);
  }
}

void unaligned_atomic(const Env& env) {
  need_atomics(env.dev);
  for (const ibv_wr_opcode op : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    for (const std::uint64_t offset : {1U, 4U, 7U}) {
      Send change{.opcode = op};
      change.raddr = offset;
      refused(env, {}, change, IBV_WC_REM_INV_REQ_ERR, 8, Or::kRefuse);
    }
  }
}

// Keys of another PD in the same process, at either end.
void other_pd(const Env& env) {
  PairOptions there;
  there.remote.foreign_pd = true;
  PairOptions here;
  here.local.foreign_pd = true;
  for (const ibv_wr_opcode op : remote_ops(env)) {
    refused(env, there, Send{.opcode = op}, IBV_WC_REM_ACCESS_ERR, 8);
    const Pair pair(env, here);
    expect_failure(pair, pair.request(op, 8), IBV_WC_LOC_PROT_ERR);
  }
}

// A request of length 0 accesses nothing, so even its key is not checked.
void zero_length(const Env& env) {
  const Pair pair(env);
  for (const Api api : env.dev.apis()) {
    for (const ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
      Send send = pair.request(op, 0);
      send.rkey = 0xffffffff;
      send.raddr = 0xffffffffffffff00U;
      pair.post(send, api);
      pair.expect(0);
    }
    Send none = pair.request(IBV_WR_SEND, 0);
    none.sges.clear();
    pair.remote.post_recv(1, std::span<const Range>{});
    pair.post(none, api);
    pair.expect(0);
    require(pair.expect_recv(1).byte_len == 0, "byte_len");
  }
}

void local_key(const Env& env) {
  for (const Api api : env.dev.apis()) {
    for (const ibv_wr_opcode op :
         {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
      if (is_atomic(op) && !claims_atomics(env.dev)) continue;
      const Pair pair(env);
      Send send = pair.request(op, 8);
      send.sges[0].lkey += 1;
      expect_failure(pair, send, IBV_WC_LOC_PROT_ERR, api);
    }
  }
}

void local_range(const Env& env) {
  PairOptions o;
  o.local.memory = 4096;
  for (const ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    const Pair pair(env, o);
    expect_failure(pair, pair.request(op, 101, 4096 - 100), IBV_WC_LOC_PROT_ERR);
  }
}

// READ and atomics write to local memory, so the region must allow it.
void local_write_right(const Env& env) {
  PairOptions o;
  o.local.access = 0;
  for (const ibv_wr_opcode op : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    if (is_atomic(op) && !claims_atomics(env.dev)) continue;
    const Pair pair(env, o);
    expect_failure(pair, pair.request(op, 8), IBV_WC_LOC_PROT_ERR);
  }
  const Pair pair(env, o);
  pair.expect_traffic();
}

void atomic_length(const Env& env) {
  need_atomics(env.dev);
  for (const std::uint32_t length : {0U, 4U, 16U}) {
    const Pair pair(env);
    pair.remote.store64(0, 5);
    // A device may use a part of a longer buffer.
    if (length > 8 && !strict()) {
      Send longer = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, length);
      if (guest::post(pair.local.qp(), Api::kPost, longer) == 0 &&
          poll(pair.local.send_cq(), 1).front().status == IBV_WC_SUCCESS) {
        chose("an atomic with 16 bytes of room works");
        require(pair.local.memory().load64(0) == 5, "not the value of the peer");
      }
      continue;
    }
    expect_failure(pair, pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, length), IBV_WC_LOC_LEN_ERR,
                   Api::kPost, Or::kRefuse);
    require(pair.remote.load64(0) == 5, "the memory changed");
  }
}

// Requests before the first error succeed; all after it are flushed in order.
void flush_order(const Env& env) {
  PairOptions o;
  o.local.send_wr = 32;
  const Pair pair(env, o);
  std::vector<Send> list;
  for (std::uint64_t i = 0; i < 20; i++) {
    list.push_back(pair.request(IBV_WR_RDMA_WRITE, 64));
    list.back().wr_id = i;
    // Flushed requests complete even if unsignaled.
    list.back().flags = i >= 10 && i % 2 == 1 ? 0 : IBV_SEND_SIGNALED;
  }
  list[7].rkey += 1;
  const ibv_sge sge = pair.local.memory().sge(0, 64);
  for (std::uint64_t i = 0; i < 5; i++) {
    require_err(post_recv(pair.local.qp(), 50 + i, {&sge, 1}), 0, "ibv_post_recv");
    pair.remote.post_recv(60 + i, {0, 64});
  }
  pair.post(list);
  for (std::uint64_t i = 0; i < 20; i++) {
    ibv_wc_status status = IBV_WC_SUCCESS;
    if (i >= 7) status = i == 7 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR;
    pair.expect(i, status);
  }
  const auto here = poll(pair.local.recv_cq(), 5);
  for (std::uint64_t i = 0; i < 5; i++) {
    require_status(here[i], 50 + i, IBV_WC_WR_FLUSH_ERR);
    pair.expect_recv(60 + i, IBV_WC_WR_FLUSH_ERR);
  }
}

// Requests posted to a QP in error are flushed at once, on both queues, any number of times.
void post_in_error(const Env& env) {
  PairOptions o;
  o.local.send_wr = o.local.recv_wr = 8;
  const Pair pair(env, o);
  require_err(to_state(pair.local.qp(), IBV_QPS_ERR), 0, "to ERR");
  const ibv_sge sge = pair.local.memory().sge(0, 64);
  for (std::uint64_t i = 0; i < 30; i++) {
    Send send = pair.request(IBV_WR_RDMA_WRITE, 8);
    send.wr_id = i;
    pair.post(send, env.dev.api(i));
    pair.expect(i, IBV_WC_WR_FLUSH_ERR);
    require_err(post_recv(pair.local.qp(), i, {&sge, 1}), 0, "ibv_post_recv");
    require_status(poll(pair.local.recv_cq(), 1).front(), i, IBV_WC_WR_FLUSH_ERR);
  }
}

// The receive is shorter than the message.
void recv_too_small(const Env& env) {
  const Pair pair(env);
  // What a failed receive leaves in its buffer is undefined.
  const Range beyond{.offset = strict() ? 0U : 99U, .length = 4000};
  pair.remote.fill(beyond, 1);
  pair.remote.post_recv(5, {0, 99});
  pair.remote.post_recv(6, {0, 99});
  expect_failure(pair, pair.request(IBV_WR_SEND, 100), IBV_WC_REM_INV_REQ_ERR);
  pair.expect_recv(5, IBV_WC_LOC_LEN_ERR);
  pair.expect_recv(6, IBV_WC_WR_FLUSH_ERR);
  pair.remote.check(beyond, 1);
}

// The receive refers to memory that may not be written.
void recv_protection(const Env& env) {
  PairOptions o;
  o.remote.access = IBV_ACCESS_REMOTE_READ;
  const Pair pair(env, o);
  pair.remote.post_recv(5, {0, 100});
  expect_failure(pair, pair.request(IBV_WR_SEND, 100), IBV_WC_REM_OP_ERR);
  pair.expect_recv(5, IBV_WC_LOC_PROT_ERR);
}

void rnr_fails(const Env& env) {
  for (const unsigned retries : {0U, 2U}) {
    PairOptions o;
    o.how.rnr_retry = static_cast<std::uint8_t>(retries);
    const Pair pair(env, o);
    expect_failure(pair, pair.request(IBV_WR_SEND, 8), IBV_WC_RNR_RETRY_EXC_ERR);
  }
}

// An rnr_retry of 7 retries without limit: a late receive is used.
void rnr_waits(const Env& env) {
  const Pair pair(env);
  pair.fill({0, 5000}, 3);
  Send send = pair.request(IBV_WR_SEND, 5000);
  pair.post(send);
  Send imm = pair.request(IBV_WR_RDMA_WRITE_WITH_IMM, 100, 0, 8000);
  imm.wr_id = 1;
  pair.post(imm);
  expect_quiet(pair.local.send_cq(), 100);
  pair.remote.post_recv(1, {0, 5000});
  pair.expect(0);
  pair.expect_recv(1);
  pair.remote.check({0, 5000}, 3);
  expect_quiet(pair.local.send_cq(), 50);
  pair.remote.post_recv(2, Range{0, 0});
  pair.expect(1);
  require(pair.expect_recv(2).opcode == IBV_WC_RECV_RDMA_WITH_IMM, "opcode");
}

// No response: the QP at the other end is gone.
void no_answer(const Env& env) {
  PairOptions o;
  o.how.timeout = 12;
  o.how.retry_cnt = 2;
  const Pair pair(env, o);
  pair.remote.destroy_qp();
  expect_failure(pair, pair.request(IBV_WR_RDMA_WRITE, 8), IBV_WC_RETRY_EXC_ERR);
}

// A QP in the error state does not respond either.
void peer_in_error(const Env& env) {
  PairOptions o;
  o.how.timeout = 12;
  o.how.retry_cnt = 2;
  const Pair pair(env, o);
  pair.remote.to_state(IBV_QPS_ERR);
  expect_failure(pair, pair.request(IBV_WR_RDMA_READ, 8), IBV_WC_RETRY_EXC_ERR);
}

// A key is invalid once its region is deregistered.
void key_after_dereg(const Env& env) {
  const Pair pair(env);
  Send send = pair.request(IBV_WR_RDMA_WRITE, 8);
  {
    const Remote gone(env.link, EndSpec{});
    send.rkey = gone.rkey();
    send.raddr = gone.address();
  }
  expect_failure(pair, send, IBV_WC_REM_ACCESS_ERR);
}

}  // namespace

Rules local_error() {
  return {
      {"local_key", "a wrong lkey: IBV_WC_LOC_PROT_ERR, and the requests behind it are flushed",
       local_key},
      {"local_range", "an SGE beyond its region: IBV_WC_LOC_PROT_ERR", local_range},
      {"local_write_right", "READ and atomics into memory without LOCAL_WRITE: IBV_WC_LOC_PROT_ERR",
       local_write_right},
      {"other_pd", "a key of another PD is refused at either end", other_pd},
      {"atomic_length",
       "an atomic with room for less than 8 bytes is refused or fails, and memory stays",
       atomic_length},
      {"flush_order",
       "requests before an error succeed; all behind it are flushed, unsignaled ones too",
       flush_order},
      {"post_in_error", "requests posted to a QP in ERR are flushed, on both queues",
       post_in_error},
      {"zero_length", "a request of length 0 succeeds, and its rkey is not checked", zero_length},
  };
}
Rules remote_error() {
  return {
      {"bad_rkey",
       "a wrong rkey: IBV_WC_REM_ACCESS_ERR, an event at the responder, and no byte moves",
       bad_rkey},
      {"out_of_range",
       "an access one byte beyond either end of a region is refused, and no byte moves",
       out_of_range},
      {"wrap_around", "an access that wraps at 2^64 is refused", wrap_around},
      {"missing_right", "an access without its right in the region: IBV_WC_REM_ACCESS_ERR",
       missing_right},
      {"qp_access",
       "an access without its right in the QP fails, as a rule with IBV_WC_REM_INV_REQ_ERR",
       qp_access},
      {"unaligned_atomic",
       "an atomic on an address that is no multiple of 8 is refused or fails, and memory stays",
       unaligned_atomic},
      {"recv_too_small",
       "a message longer than its receive: an error at both ends, and no byte beyond the receive",
       recv_too_small},
      {"recv_protection",
       "a receive into memory that may not be written: LOC_PROT_ERR there, REM_OP_ERR here",
       recv_protection},
      {"rnr_fails", "without a receive at the peer a SEND fails after rnr_retry attempts",
       rnr_fails},
      {"rnr_waits", "with rnr_retry 7 a SEND waits for the receive as long as it takes", rnr_waits},
      {"no_answer", "a request to a QP that is gone: IBV_WC_RETRY_EXC_ERR", no_answer},
      {"peer_in_error", "a request to a QP in ERR: IBV_WC_RETRY_EXC_ERR", peer_in_error},
      {"key_after_dereg", "a key is dead when ibv_dereg_mr returns", key_after_dereg},
  };
}

}  // namespace guest::connections
