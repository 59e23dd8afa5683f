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

#include "suite.h"

namespace guest {
namespace {

void capacities(Env& env) {
  const CqPtr cq = create_cq(env.dev, 16);
  const ibv_device_attr& dev = env.dev.attr();
  const ibv_qp_cap asked[] = {
      {0, 0, 0, 0, 0},
      {1, 1, 1, 1, 1},
      {100, 33, 3, 7, 200},
      {static_cast<std::uint32_t>(dev.max_qp_wr), static_cast<std::uint32_t>(dev.max_qp_wr), 1, 1,
       0},
      {16, 16, static_cast<std::uint32_t>(dev.max_sge), static_cast<std::uint32_t>(dev.max_sge), 0},
  };
  for (const ibv_qp_cap& want : asked) {
    QpSpec spec{.send_cq = cq.get(), .recv_cq = cq.get(), .cap = want, .send_ops = kRcSendOps};
    const QpPtr qp = create_qp(env.dev, spec);
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
}

void too_much_refused(Env& env) {
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
    require(qp == nullptr && errno == EINVAL, "QP with {} {} {} {} {}: {}", cap.max_send_wr,
            cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data,
            qp ? "made" : errno_name(errno));
  }
}

void cq_sizes(Env& env) {
  for (const int entries : {1, 2, 3, 100, env.dev.attr().max_cqe}) create_cq(env.dev, entries);
  for (const int entries : {0, -1, env.dev.attr().max_cqe + 1}) {
    const CqPtr cq(ibv_create_cq(env.dev.context(), entries, nullptr, nullptr, 0));
    require(cq == nullptr && errno == EINVAL, "CQ of {}: {}", entries,
            cq ? "made" : errno_name(errno));
  }
  const int vectors = env.dev.context()->num_comp_vectors;
  require(vectors >= 1, "num_comp_vectors {}", vectors);
  const CqPtr last(ibv_create_cq(env.dev.context(), 1, nullptr, nullptr, vectors - 1));
  require(last != nullptr, "last vector: {}", errno_name(errno));
  const CqPtr past(ibv_create_cq(env.dev.context(), 1, nullptr, nullptr, vectors));
  require(past == nullptr && errno == EINVAL, "vector past the last");
}

// Too many SGEs, too much inline data, a READ with inline data.
std::vector<Send> bad_requests(const Pair& pair) {
  Send wide = pair.request(IBV_WR_RDMA_WRITE, 8);
  wide.sges.assign(pair.local.cap().max_send_sge + 1, wide.sges[0]);
  Send fat = pair.request(IBV_WR_RDMA_WRITE, pair.local.cap().max_inline_data + 1);
  fat.flags |= IBV_SEND_INLINE;
  Send read_inline = pair.request(IBV_WR_RDMA_READ, 8);
  read_inline.flags |= IBV_SEND_INLINE;
  return {wide, fat, read_inline};
}

// A list whose third request is bad: two are posted, and bad_wr points to the third.
void bad_wr(Env& env) {
  const Pair pair(env);
  const Send good = pair.request(IBV_WR_RDMA_WRITE, 8);
  std::vector<Send> all = bad_requests(pair);
  Send atomic_list = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 4);
  atomic_list.sges.push_back(pair.local.memory().sge(4, 4));
  Send tso = good;
  tso.opcode = IBV_WR_TSO;
  Send nonsense = good;
  nonsense.opcode = static_cast<ibv_wr_opcode>(13);
  all.insert(all.end(), {atomic_list, tso, nonsense});
  for (const Send& bad : all) {
    std::array<Send, 4> list = {good, good, bad, good};
    for (std::size_t i = 0; i < list.size(); i++) list[i].wr_id = i;
    std::size_t at = 99;
    require_err(guest::post(pair.local.qp(), Api::kPost, list, &at), EINVAL, "ibv_post_send");
    require(at == 2, "bad_wr is request {} for opcode {}", at, static_cast<int>(bad.opcode));
    pair.expect(0);
    pair.expect(1);
    expect_quiet(pair.local.send_cq(), 20);
  }
}

// The same through ibv_wr_*(): nothing is posted, and the next session works.
void bad_session(Env& env) {
  const Pair pair(env);
  const Send good = pair.request(IBV_WR_RDMA_WRITE, 8);
  for (const Send& bad : bad_requests(pair)) {
    const std::array<Send, 4> list = {good, good, bad, good};
    require_err(guest::post(pair.local.qp(), Api::kWr, list), EINVAL, "ibv_wr_complete");
    expect_quiet(pair.local.send_cq(), 20);
    pair.post(good, Api::kWr);
    pair.expect(0);
  }
}

void wr_abort(Env& env) {
  const Pair pair(env);
  ibv_qp_ex* qpx = ibv_qp_to_qp_ex(pair.local.qp());
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

// The queue takes max_send_wr requests, refuses one more, and takes as many again after polling.
template <Api kApi>
void sq_full(Env& env) {
  PairOptions o;
  o.local.send_wr = 16;
  o.local.send_cqe = 64;
  const Pair pair(env, o);
  const std::uint32_t slots = pair.local.cap().max_send_wr;
  require(slots >= 16, "max_send_wr {}", slots);
  Send write = pair.request(IBV_WR_RDMA_WRITE, 8);
  for (int round = 0; round < 3; round++) {
    for (std::uint32_t i = 0; i < slots; i++) {
      write.wr_id = i;
      require_err(guest::post(pair.local.qp(), kApi, write), 0, "post");
    }
    require_err(guest::post(pair.local.qp(), kApi, write), ENOMEM, "post to a full queue");
    pair.expect(0);
    write.wr_id = slots;
    require_err(guest::post(pair.local.qp(), kApi, write), 0, "post after one completion");
    require_err(guest::post(pair.local.qp(), kApi, write), ENOMEM, "post to a full queue");
    for (std::uint32_t i = 1; i <= slots; i++) pair.expect(i);
  }
}

// A session that does not fit is refused as a whole.
void session_too_long(Env& env) {
  PairOptions o;
  o.local.send_wr = 16;
  const Pair pair(env, o);
  const std::vector<Send> list(pair.local.cap().max_send_wr + 1,
                               pair.request(IBV_WR_RDMA_WRITE, 8));
  require_err(guest::post(pair.local.qp(), Api::kWr, list), ENOMEM, "ibv_wr_complete");
  expect_quiet(pair.local.send_cq(), 20);
  pair.expect_traffic();
}

void rq_full(Env& env) {
  PairOptions o;
  o.local.recv_wr = 16;
  const Pair pair(env, o);
  const std::uint32_t slots = pair.local.cap().max_recv_wr;
  const ibv_sge sge = pair.local.sge({0, 64});
  const std::vector<ibv_sge> wide(pair.local.cap().max_recv_sge + 1, sge);
  require_err(post_recv(pair.local.qp(), 0, wide), EINVAL, "receive with too many SGEs");
  for (std::uint32_t i = 0; i < slots; i++) {
    require_err(post_recv(pair.local.qp(), i, sge), 0, "ibv_post_recv");
  }
  require_err(post_recv(pair.local.qp(), 0, sge), ENOMEM, "receive to a full queue");
  pair.remote.send(9, {0, 64});
  require_status(poll(pair.local.recv_cq(), 1).front(), 0, IBV_WC_SUCCESS);
  require_err(post_recv(pair.local.qp(), 0, sge), 0, "receive after one completion");
  require_err(post_recv(pair.local.qp(), 0, sge), ENOMEM, "receive to a full queue");
}

// An unsignaled request's slot is freed with the next signaled completion.
void unsignaled(Env& env) {
  PairOptions o;
  o.local.send_wr = 32;
  const Pair pair(env, o);
  const std::uint32_t slots = pair.local.cap().max_send_wr;
  for (const Api api : kBothApis) {
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

void signal_all(Env& env) {
  PairOptions o;
  o.local.signal_all = true;
  const Pair pair(env, o);
  for (const Api api : kBothApis) {
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
void mixed_apis(Env& env) {
  PairOptions o;
  o.local.send_wr = 8;
  const Pair pair(env, o);
  pair.remote.store64(0, 0);
  for (std::uint64_t i = 0; i < 200; i++) {
    Send send = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    send.compare_add = 1;
    send.wr_id = ~i;
    pair.post(send, kBothApis[i % 2]);
    pair.expect(~i);
    require(pair.local.memory().load64(0) == i, "result {} at {}", pair.local.memory().load64(0),
            i);
  }
}

// Two threads post to one QP while a third polls: every request is executed exactly once.
void threads(Env& env) {
  PairOptions o;
  o.local.send_wr = 64;
  o.local.send_cqe = 64;
  const Pair pair(env, o);
  const std::uint64_t each = std::max(100U, 20 * env.effort);
  pair.remote.store64(0, 0);
  std::atomic<bool> failed = false;
  auto poster = [&](Api api) {
    Send send = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, api == Api::kPost ? 0 : 8);
    send.compare_add = 1;
    for (std::uint64_t i = 0; i < each && !failed;) {
      const int err = guest::post(pair.local.qp(), api, send);
      failed = failed || (err != 0 && err != ENOMEM);
      i += err == 0 ? 1 : 0;
    }
  };
  std::thread a(poster, Api::kPost);
  std::thread b(poster, Api::kWr);
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

// Completions of a destroyed or reset QP are removed from the CQ; those of other QPs stay, in
// order.
template <bool kDestroy>
void purge(Env& env) {
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
  for (std::uint64_t i = 0; i < 8; i++) stays.expect(200 + i);
  expect_quiet(cq.get(), 20);
  stays.run(stays.request(IBV_WR_RDMA_WRITE, 8, 0, 64, 7));
}

// QPs are created and destroyed on a CQ that another thread polls, reusing their numbers. The
// completions of the QP that stays arrive without loss and in order.
void churn(Env& env) {
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
    if (!done && post(stays.local.qp(), kBothApis[posted % 2], mine) == 0) posted++;
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
  require(expected == posted && posted > 100, "{} of {} completions", expected, posted);
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
void cq_ex(Env& env) {
  const CqPtr send_cq = create_cq(env.dev, 64);
  ibv_cq_ex* cqx = create_cq_ex(env.dev, 4, IBV_WC_STANDARD_FLAGS);
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
      require(ibv_wc_read_wc_flags(cqx) == IBV_WC_WITH_IMM, "flags");
      require(ibv_wc_read_qp_num(cqx) == pair.remote.endpoint().qpn, "QP number");
      require(ibv_wc_read_slid(cqx) == 0 && ibv_wc_read_dlid_path_bits(cqx) == 0, "LIDs");
      require(ibv_wc_read_sl(cqx) == 0, "service level");
    }
    require_err(ibv_next_poll(cqx), ENOENT, "ibv_next_poll of an empty CQ");
    ibv_end_poll(cqx);
  }
  expect_quiet(recv_cq.get(), 5);
}

void many_qps(Env& env) {
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

std::vector<Test> queue_tests(Env& env) {
  return tests_of(env, {{"capacities", capacities},
                        {"too_much_refused", too_much_refused},
                        {"cq_sizes", cq_sizes},
                        {"bad_wr", bad_wr},
                        {"bad_session", bad_session},
                        {"wr_abort", wr_abort},
                        {"sq_full_post", sq_full<Api::kPost>},
                        {"sq_full_wr", sq_full<Api::kWr>},
                        {"session_too_long", session_too_long},
                        {"rq_full", rq_full},
                        {"unsignaled", unsignaled},
                        {"signal_all", signal_all},
                        {"mixed_apis", mixed_apis},
                        {"threads", threads},
                        {"purge_on_destroy", purge<true>},
                        {"purge_on_reset", purge<false>},
                        {"churn", churn},
                        {"cq_ex", cq_ex},
                        {"many_qps", many_qps}});
}

}  // namespace guest
