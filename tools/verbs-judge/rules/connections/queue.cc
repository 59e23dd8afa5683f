// SPDX-License-Identifier: GPL-2.0-or-later
// Queues: capacities, requests that a post refuses, slots and their reuse, completions.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "connections.h"
#include "refusal.h"

namespace guest::connections {
namespace {

// A QP of up to the limits. No limit promises inline data, nor all limits at once.
struct Asked {
  ibv_qp_cap cap;
  bool promised = true;
};

void capacity_of(const Env& env, ibv_cq* cq, const Asked& asked) {
  const ibv_qp_cap& want = asked.cap;
  QpSpec spec{.send_cq = cq, .recv_cq = cq, .cap = want, .send_ops = kRcSendOps};
  const QpPtr qp = try_create_qp(env.dev, spec);
  if (!qp && !asked.promised) {
    return require_usual(false, "a QP with {} {} {} {} {}: {}", want.max_send_wr, want.max_recv_wr,
                         want.max_send_sge, want.max_recv_sge, want.max_inline_data,
                         errno_name(errno));
  }
  if (!qp) fail_errno("ibv_create_qp_ex");
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  require_err(ibv_query_qp(qp.get(), &attr, IBV_QP_CAP | IBV_QP_STATE, &init), 0, "ibv_query_qp");
  require(attr.qp_state == IBV_QPS_RESET, "state {}", static_cast<int>(attr.qp_state));
  for (const ibv_qp_cap& got : {spec.cap, init.cap}) {
    require(got.max_send_wr >= want.max_send_wr && got.max_recv_wr >= want.max_recv_wr &&
                got.max_send_sge >= want.max_send_sge && got.max_recv_sge >= want.max_recv_sge &&
                got.max_inline_data >= want.max_inline_data,
            "less than asked for: {} {} {} {} {}", got.max_send_wr, got.max_recv_wr,
            got.max_send_sge, got.max_recv_sge, got.max_inline_data);
  }
}

void capacities(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 16);
  const auto wr = static_cast<std::uint32_t>(env.dev.attr().max_qp_wr);
  const auto sge = static_cast<std::uint32_t>(env.dev.attr().max_sge);
  const Asked all[] = {
      {.cap = {0, 0, 0, 0, 0}},
      {.cap = {1, 1, 1, 1, 0}},
      {.cap = {1, 1, 1, 1, 1}, .promised = false},
      {.cap = {std::min(100U, wr), std::min(33U, wr), std::min(3U, sge), std::min(7U, sge), 0}},
      {.cap = {100, 33, 3, 7, 200}, .promised = false},
      {.cap = {wr, wr, 1, 1, 0}, .promised = false},
      {.cap = {std::min(16U, wr), std::min(16U, wr), sge, sge, 0}, .promised = false},
  };
  for (const Asked& asked : all) capacity_of(env, cq.get(), asked);
}

void too_much_refused(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 16);
  const auto wr = static_cast<std::uint32_t>(env.dev.attr().max_qp_wr);
  const auto sge = static_cast<std::uint32_t>(env.dev.attr().max_sge);
  const ibv_qp_cap asked[] = {
      {wr + 1, 1, 1, 1, 0},     {1, wr + 1, 1, 1, 0},   {1, 1, sge + 1, 1, 0},
      {1, 1, 1, sge + 1, 0},    {1, 1, 1, 1, 1U << 20}, {0xffffffff, 1, 1, 1, 0},
      {1, 0xffffffff, 1, 1, 0},
  };
  for (const ibv_qp_cap& cap : asked) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = cap;
    const QpPtr qp(ibv_create_qp(env.dev.pd(), &attr));
    const int err = qp ? 0 : errno;
    usually_refused(err, EINVAL,
                    std::format("a QP with {} {} {} {} {}", cap.max_send_wr, cap.max_recv_wr,
                                cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data)
                        .c_str());
  }
}

void cq_sizes(const Env& env) {
  for (const int entries : {1, 2, 3, 100}) create_cq(env.dev, entries);
  const auto create = [&](int entries, int vector) {
    const CqPtr cq(ibv_create_cq(env.dev.context(), entries, nullptr, nullptr, vector));
    require(!cq || cq->cqe >= entries, "CQ of {} entries has {}", entries, cq ? cq->cqe : 0);
    return cq ? 0 : errno;
  };
  // Memory may not suffice for the largest.
  const int most = env.dev.attr().max_cqe;
  const int err = create(most, 0);
  require(err == 0 || err == ENOMEM, "a CQ of max_cqe entries: {}", errno_name(err));
  require_usual(err == 0, "a CQ of max_cqe entries: ENOMEM");
  for (const int entries : {0, -1, most + 1}) {
    const CqPtr cq(ibv_create_cq(env.dev.context(), entries, nullptr, nullptr, 0));
    usually_refused(cq ? 0 : errno, EINVAL, std::format("a CQ of {}", entries).c_str());
  }
  const int vectors = env.dev.context()->num_comp_vectors;
  require(vectors >= 1, "num_comp_vectors {}", vectors);
  require_err(create(1, vectors - 1), 0, "a CQ on the last vector");
  usually_refused(create(1, vectors), EINVAL, "a vector past the last");
}

// Makes a good request of a pair bad.
struct Spoil {
  void (*spoil)(const Pair& pair, Send& send);
  IfAccepted then;
};

constexpr Spoil kTooManySges{[](const Pair& pair, Send& send) {
                               send.sges.assign(pair.local.cap().max_send_sge + 1, send.sges[0]);
                             },
                             IfAccepted::kMayWork};
constexpr Spoil kTooMuchInline{[](const Pair& pair, Send& send) {
                                 send.sges[0].length = pair.local.cap().max_inline_data + 1;
                                 send.flags |= IBV_SEND_INLINE;
                               },
                               IfAccepted::kMayWork};
constexpr Spoil kReadInline{[](const Pair&, Send& send) {
                              send.opcode = IBV_WR_RDMA_READ;
                              send.flags |= IBV_SEND_INLINE;
                            },
                            IfAccepted::kMayWork};
constexpr Spoil kAtomicList{[](const Pair& pair, Send& send) {
                              send.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
                              send.sges = {pair.local.memory().sge(0, 4),
                                           pair.local.memory().sge(4, 4)};
                            },
                            IfAccepted::kMayWork};
constexpr Spoil kTso{[](const Pair&, Send& send) { send.opcode = IBV_WR_TSO; },
                     IfAccepted::kMustFail};
constexpr Spoil kNoOpcode{
    [](const Pair&, Send& send) { send.opcode = static_cast<ibv_wr_opcode>(13); },
    IfAccepted::kMustFail};

void refuse(const Env& env, Api api, const Spoil& how) {
  const Pair pair(env);
  Send send = pair.request(IBV_WR_RDMA_WRITE, 8);
  send.wr_id = 2;
  how.spoil(pair, send);
  check_refusal(pair, api, send, EINVAL, how.then);
}

void bad_wr(const Env& env) {
  for (const Spoil& how :
       {kTooManySges, kTooMuchInline, kReadInline, kAtomicList, kTso, kNoOpcode}) {
    refuse(env, Api::kPost, how);
  }
}

// The same through ibv_wr_*(): nothing is posted, and the next session works.
void bad_session(const Env& env) {
  for (const Spoil& how : {kTooManySges, kTooMuchInline, kReadInline}) refuse(env, Api::kWr, how);
  const Pair pair(env);
  const Send good = pair.request(IBV_WR_RDMA_WRITE, 8);
  Send wide = good;
  kTooManySges.spoil(pair, wide);
  const int err = guest::post(pair.local.qp(), Api::kWr, std::array{good, wide, good});
  if (err == 0) return;  // accepted, as noted above
  expect_quiet(pair.local.send_cq(), 20);
  pair.post(good, Api::kWr);
  pair.expect(0);
}

void wr_abort(const Env& env) {
  const Pair pair(env);
  ibv_qp_ex* qpx = ibv_qp_to_qp_ex(pair.local.qp());
  if (qpx == nullptr || env.dev.apis().size() == 1) skip("no ibv_wr_*()");
  pair.remote.fill({0, 64}, 1);
  pair.fill({0, 64}, 2);
  for (int i = 0; i < 100; i++) {
    ibv_wr_start(qpx);
    qpx->wr_id = 1;
    qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qpx, pair.remote.rkey(), pair.remote.address());
    ibv_wr_set_sge(qpx, pair.local.memory().lkey(), pair.local.memory().address(), 64);
    ibv_wr_abort(qpx);
  }
  ibv_wr_start(qpx);
  require_err(ibv_wr_complete(qpx), 0, "empty session");
  expect_quiet(pair.local.send_cq(), 20);
  pair.remote.check({0, 64}, 1);
  pair.expect_traffic();
}

// A pair whose CQ holds more than its send queue, as a rule.
PairOptions long_cq(std::uint32_t send_wr) {
  PairOptions o;
  o.local.send_wr = send_wr;
  o.local.send_cqe = 1024;
  return o;
}

void need_cqes(const Pair& pair, std::uint32_t count) {
  if (count > static_cast<std::uint32_t>(pair.local.send_cq()->cqe)) {
    undecided("{} requests are more than the CQ holds", count);
  }
}

// The queue takes max_send_wr requests, and as many again after polling. It usually refuses one
// more; a device may also have more slots, or free them before the completion is polled.
template <Api kApi>
void sq_full(const Env& env) {
  const Pair pair(env, long_cq(16));
  const std::uint32_t slots = pair.local.cap().max_send_wr;
  require(slots >= 16, "max_send_wr {}", slots);
  need_cqes(pair, slots + 3);
  Send write = pair.request(IBV_WR_RDMA_WRITE, 8);
  for (int round = 0; round < 3; round++) {
    std::uint64_t posted = 0;
    const auto post_one = [&] {
      write.wr_id = posted;
      const int err = guest::post(pair.local.qp(), kApi, write);
      posted += err == 0 ? 1 : 0;
      return err;
    };
    for (std::uint32_t i = 0; i < slots; i++) require_err(post_one(), 0, "post");
    usually_refused(post_one(), ENOMEM, "post to a full queue");
    pair.expect(0);
    require_err(post_one(), 0, "post after one completion");
    usually_refused(post_one(), ENOMEM, "post to a full queue");
    for (std::uint64_t i = 1; i < posted; i++) pair.expect(i);
  }
}

// A session that does not fit is refused as a whole.
void session_too_long(const Env& env) {
  const Pair pair(env, long_cq(16));
  const std::vector<Send> list(pair.local.cap().max_send_wr + 1,
                               pair.request(IBV_WR_RDMA_WRITE, 8));
  need_cqes(pair, static_cast<std::uint32_t>(list.size()));
  if (usually_refused(guest::post(pair.local.qp(), Api::kWr, list), ENOMEM, "ibv_wr_complete")) {
    expect_quiet(pair.local.send_cq(), 20);
  } else {
    for (std::size_t i = 0; i < list.size(); i++) pair.expect(0);
  }
  pair.expect_traffic();
}

void rq_full(const Env& env) {
  PairOptions o;
  o.local.recv_wr = 16;
  {
    const Pair pair(env, o);
    const std::vector<ibv_sge> wide(pair.local.cap().max_recv_sge + 1, pair.local.sge({0, 64}));
    usually_refused(post_recv(pair.local.qp(), 0, wide), EINVAL, "receive with too many SGEs");
  }
  const Pair pair(env, o);
  const std::uint32_t slots = pair.local.cap().max_recv_wr;
  const ibv_sge sge = pair.local.sge({0, 64});
  for (std::uint32_t i = 0; i < slots; i++) {
    require_err(post_recv(pair.local.qp(), i, sge), 0, "ibv_post_recv");
  }
  usually_refused(post_recv(pair.local.qp(), 0, sge), ENOMEM, "receive to a full queue");
  pair.remote.send(9, {0, 64});
  require_status(poll(pair.local.recv_cq(), 1).front(), 0, IBV_WC_SUCCESS);
  require_err(post_recv(pair.local.qp(), 0, sge), 0, "receive after one completion");
  usually_refused(post_recv(pair.local.qp(), 0, sge), ENOMEM, "receive to a full queue");
}

// An unsignaled request's slot is freed with the next signaled completion.
void unsignaled(const Env& env) {
  PairOptions o;
  o.local.send_wr = 32;
  const Pair pair(env, o);
  const std::uint32_t slots = pair.local.cap().max_send_wr;
  for (const Api api : env.dev.apis()) {
    for (std::uint32_t round = 0; round < 20; round++) {
      std::vector<Send> list(slots, pair.request(IBV_WR_RDMA_WRITE, 8));
      for (Send& send : list) send.flags = 0;
      list.back().flags = IBV_SEND_SIGNALED;
      list.back().wr_id = round;
      pair.post(list, api);
      pair.expect(round);
    }
  }
  expect_quiet(pair.local.send_cq(), 20);
}

void signal_all(const Env& env) {
  PairOptions o;
  o.local.signal_all = true;
  const Pair pair(env, o);
  for (const Api api : env.dev.apis()) {
    Send send = pair.request(IBV_WR_RDMA_WRITE, 8);
    send.flags = 0;
    for (std::uint64_t i = 0; i < 10; i++) {
      send.wr_id = i;
      pair.post(send, api);
      pair.expect(i);
    }
  }
}

// Both APIs on one queue, over many wraps; wr_id keeps its 64 bits.
void mixed_apis(const Env& env) {
  need_atomics(env.dev);
  PairOptions o;
  o.local.send_wr = 8;
  const Pair pair(env, o);
  pair.remote.store64(0, 0);
  for (std::uint64_t i = 0; i < 200; i++) {
    Send send = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    send.compare_add = 1;
    send.wr_id = ~i;
    pair.post(send, env.dev.api(i));
    pair.expect(~i);
    require(pair.local.memory().load64(0) == i, "result {} at {}", pair.local.memory().load64(0),
            i);
  }
}

// Two threads post to one QP while a third polls: every request is executed exactly once.
void threads(const Env& env) {
  need_atomics(env.dev);
  const Pair pair(env, long_cq(64));
  need_cqes(pair, pair.local.cap().max_send_wr);
  const std::uint64_t each = std::max(100U, 20 * env.effort);
  pair.remote.store64(0, 0);
  std::atomic<bool> failed = false;
  const auto poster = [&](Api api) {
    Send send = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, api == Api::kPost ? 0 : 8);
    send.compare_add = 1;
    // Providers refuse a post to a full queue with one of several errnos.
    for (std::uint64_t i = 0; i < each && !failed;) {
      const int err = guest::post(pair.local.qp(), api, send);
      failed = failed || (err != 0 && err != ENOMEM && err != ENOSPC && err != EAGAIN);
      i += err == 0 ? 1 : 0;
    }
  };
  std::thread a(poster, Api::kPost);
  std::thread b(poster, env.dev.api(1));
  std::string error;
  try {
    for (std::uint64_t i = 0; i < 2 * each; i++) {
      require_status(poll(pair.local.send_cq(), 1).front(), 0, IBV_WC_SUCCESS);
    }
  } catch (const Failure& e) {
    error = e.what();
    failed = true;
  }
  a.join();
  b.join();
  require(error.empty(), "{}", error);
  require(!failed, "a post failed");
  require(pair.remote.load64(0) == 2 * each, "{} of {} done", pair.remote.load64(0), 2 * each);
}

// Both ends in this process, on one CQ.
Pair pair_on(const Env& env, ibv_cq* send_cq, ibv_cq* recv_cq) {
  return Pair(env.dev, alike({.memory = 8192, .send_cq = send_cq, .recv_cq = recv_cq}));
}

// Completions of a destroyed or reset QP may be removed from the CQ; those of other QPs stay, in
// order.
template <bool kDestroy>
void purge(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 64);
  Pair goes = pair_on(env, cq.get(), cq.get());
  const Pair stays = pair_on(env, cq.get(), cq.get());
  const auto post_both = [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; i++) {
      goes.post(goes.request(IBV_WR_RDMA_WRITE, 8, 0, 64, i));
      stays.post(stays.request(IBV_WR_RDMA_WRITE, 8, 0, 64, 200 + i));
    }
  };
  // Wrap the CQ more than once, to cover both phases and the wrap itself.
  for (int round = 0; round < 9; round++) {
    post_both(5);
    for (const ibv_wc& wc : poll(cq.get(), 10)) require_status(wc, wc.wr_id, IBV_WC_SUCCESS);
  }
  post_both(8);
  // Let both QPs complete their requests, without polling.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (kDestroy) {
    goes.local.destroy_qp();
  } else {
    require_err(to_state(goes.local.qp(), IBV_QPS_RESET), 0, "to RESET");
  }
  std::vector<ibv_wc> left = poll_for(cq.get(), 16, 100);
  const auto of_gone = std::erase_if(left, [](const ibv_wc& wc) { return wc.wr_id < 200; });
  require_usual(of_gone == 0, "completions of before stay in the CQ");
  require(left.size() == 8, "{} of 8 completions of another QP", left.size());
  for (std::uint64_t i = 0; i < 8; i++) require_status(left[i], 200 + i, IBV_WC_SUCCESS);
  expect_quiet(cq.get(), 20);
  stays.run(stays.request(IBV_WR_RDMA_WRITE, 8, 0, 64, 7));
}

// QPs are created and destroyed on a CQ that another thread polls, reusing their numbers. The
// completions of the QP that stays arrive without loss and in order.
void churn(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 256);
  const Pair stays = pair_on(env, cq.get(), cq.get());
  std::atomic<bool> done = false;
  std::string error;
  std::thread other([&] {
    try {
      for (unsigned i = 0; i < std::max(20U, env.effort / 2); i++) {
        const Pair goes = pair_on(env, cq.get(), cq.get());
        goes.remote.post_recv(0, {0, 8});
        for (int n = 0; n < 16; n++) goes.post(goes.request(IBV_WR_RDMA_WRITE, 8));
        if (i % 2 == 0) goes.remote.to_state(IBV_QPS_ERR);
      }
    } catch (const Failure& e) {
      error = e.what();
    }
    done = true;
  });
  std::uint64_t expected = 0;
  std::uint64_t posted = 0;
  std::string lost;
  Send mine = stays.request(IBV_WR_RDMA_WRITE, 8);
  for (int idle = 0; (!done || expected < posted) && lost.empty() && idle < 100'000'000; idle++) {
    mine.wr_id = posted;
    if (!done && post(stays.local.qp(), env.dev.api(posted), mine) == 0) posted++;
    ibv_wc wc{};
    if (ibv_poll_cq(cq.get(), 1, &wc) == 1 && wc.qp_num == stays.local.qp()->qp_num) {
      if (wc.wr_id != expected || wc.status != IBV_WC_SUCCESS) {
        lost = std::format("completion {} is {}, {}", expected, wc.wr_id,
                           ibv_wc_status_str(wc.status));
      }
      expected++;
      idle = 0;
    }
  }
  other.join();
  require(error.empty(), "{}", error);
  require(lost.empty(), "{}", lost);
  require(expected == posted && posted > 0, "{} of {} completions", expected, posted);
}

ibv_cq_ex* create_cq_ex(const Device& dev, std::uint32_t cqe, std::uint64_t wc_flags) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = cqe;
  attr.wc_flags = wc_flags;
  return ibv_create_cq_ex(dev.context(), &attr);
}

int start_poll(ibv_cq_ex* cq) {
  ibv_poll_cq_attr attr{};
  int err = ENOENT;
  for (int tries = 0; err == ENOENT && tries < 100'000'000; tries++) {
    err = ibv_start_poll(cq, &attr);
  }
  return err;
}

// The extended CQ: every standard field of receive completions, several in one batch.
void cq_ex(const Env& env) {
  const CqPtr send_cq = create_cq(env.dev, 64);
  ibv_cq_ex* cqx = create_cq_ex(env.dev, 4, IBV_WC_STANDARD_FLAGS);
  if (cqx == nullptr && errno == EOPNOTSUPP) skip("ibv_create_cq_ex: EOPNOTSUPP");
  require(cqx != nullptr, "ibv_create_cq_ex: {}", errno_name(errno));
  const CqPtr recv_cq(ibv_cq_ex_to_cq(cqx));
  const Pair pair = pair_on(env, send_cq.get(), recv_cq.get());
  for (std::uint32_t round = 0; round < 10; round++) {
    for (std::uint32_t i = 0; i < 3; i++) {
      pair.remote.post_recv(round * 10 + i, {4096, 64});
      Send send = pair.request(IBV_WR_SEND_WITH_IMM, i + 1);
      send.imm = i + 5;
      pair.post(send);
    }
    for (const ibv_wc& wc : poll(send_cq.get(), 3)) require_status(wc, 0, IBV_WC_SUCCESS);
    require_err(start_poll(cqx), 0, "ibv_start_poll");
    for (std::uint32_t i = 0; i < 3; i++) {
      int err = i == 0 ? 0 : ENOENT;
      for (int tries = 0; err == ENOENT && tries < 100'000'000; tries++) err = ibv_next_poll(cqx);
      require_err(err, 0, "ibv_next_poll");
      require(cqx->status == IBV_WC_SUCCESS && cqx->wr_id == round * 10 + i, "wr_id {:#x}: {}",
              cqx->wr_id, ibv_wc_status_str(cqx->status));
      require(ibv_wc_read_opcode(cqx) == IBV_WC_RECV, "opcode");
      require(ibv_wc_read_byte_len(cqx) == i + 1, "byte_len {}", ibv_wc_read_byte_len(cqx));
      require(ntohl(ibv_wc_read_imm_data(cqx)) == i + 5, "immediate");
      const unsigned flags = ibv_wc_read_wc_flags(cqx);
      require((flags & IBV_WC_WITH_IMM) != 0 && (flags & IBV_WC_WITH_INV) == 0, "flags {:#x}",
              flags);
      require(ibv_wc_read_qp_num(cqx) == pair.remote.endpoint().qpn, "QP number");
      // These have no meaning on Ethernet.
      require_usual(ibv_wc_read_slid(cqx) == 0 && ibv_wc_read_dlid_path_bits(cqx) == 0 &&
                        ibv_wc_read_sl(cqx) == 0,
                    "LIDs or a service level");
    }
    require_err(ibv_next_poll(cqx), ENOENT, "ibv_next_poll of an empty CQ");
    ibv_end_poll(cqx);
  }
  expect_quiet(recv_cq.get(), 5);
}

void many_qps(const Env& env) {
  std::vector<std::unique_ptr<Pair>> pairs;
  PairOptions o;
  o.local.memory = o.remote.memory = 8192;
  o.local.send_cqe = o.local.recv_cqe = o.remote.send_cqe = o.remote.recv_cqe = 16;
  for (int i = 0; i < 24; i++) pairs.push_back(std::make_unique<Pair>(env, o));
  for (std::size_t i = 0; i < pairs.size(); i++) {
    pairs[i]->fill({0, 4096}, i);
    pairs[i]->post(pairs[i]->request(IBV_WR_RDMA_WRITE, 4096));
  }
  for (std::size_t i = 0; i < pairs.size(); i++) {
    pairs[i]->expect(0);
    pairs[i]->remote.check({0, 4096}, i);
  }
}

}  // namespace

Rules queue() {
  return {
      {"capacities", "a QP has at least the capacities asked for, up to the limits of the device",
       capacities},
      {"too_much_refused", "a QP with more than the limits of the device is refused",
       too_much_refused},
      {"cq_sizes",
       "a CQ has at least the entries asked for; none, and more than max_cqe, are refused",
       cq_sizes},
      {"bad_wr",
       "of a list with a wrong request, those before it are posted and bad_wr points to it",
       bad_wr},
      {"bad_session", "a session of ibv_wr_*() with a wrong request posts nothing", bad_session},
      {"wr_abort", "ibv_wr_abort posts nothing", wr_abort},
      {"sq_full_post",
       "a send queue takes max_send_wr requests by ibv_post_send, and more after a poll",
       sq_full<Api::kPost>},
      {"sq_full_wr", "a send queue takes max_send_wr requests by ibv_wr_*(), and more after a poll",
       sq_full<Api::kWr>},
      {"session_too_long", "a session of ibv_wr_*() that does not fit is refused as a whole",
       session_too_long},
      {"rq_full", "a receive queue takes max_recv_wr requests, and more after a poll", rq_full},
      {"unsignaled",
       "an unsignaled request completes silently, and the next signaled one frees its slot",
       unsignaled},
      {"signal_all", "with sq_sig_all each request completes", signal_all},
      {"mixed_apis", "ibv_post_send and ibv_wr_*() may alternate, and wr_id keeps its 64 bits",
       mixed_apis},
      {"threads", "several threads may post to one QP: each request is executed exactly once",
       threads},
      {"purge_on_destroy", "when a QP is destroyed, completions of others stay in the CQ, in order",
       purge<true>},
      {"purge_on_reset", "when a QP is reset, completions of others stay in the CQ, in order",
       purge<false>},
      {"churn",
       "QPs come and go on a CQ that another thread polls: no completion of others is lost", churn},
      {"cq_ex", "an extended CQ gives each standard field of a completion", cq_ex},
      {"many_qps", "many connections between two processes do not disturb each other", many_qps},
  };
}

}  // namespace guest::connections
