// SPDX-License-Identifier: GPL-2.0-or-later
// What an SRQ holds, and who takes it.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "srq.h"

namespace guest::srq {
namespace {

void sizes(const Env& env) {
  const Device& dev = env.dev;
  const auto max_wr = static_cast<std::uint32_t>(dev.attr().max_srq_wr);
  const auto max_sge = static_cast<std::uint32_t>(dev.attr().max_srq_sge);
  for (const std::uint32_t wr : {1U, 2U, 3U, 17U, std::min(100U, max_wr)}) {
    for (const std::uint32_t sge : {1U, max_sge}) {
      if (wr > max_wr) continue;
      ibv_srq_attr attr{.max_wr = wr, .max_sge = sge, .srq_limit = 0};
      const SrqPtr srq = try_create(dev, attr);
      if (!srq) fail_errno("ibv_create_srq");
      require(attr.max_wr >= wr && attr.max_sge >= sge, "{} of {} SGEs asked for, {} of {} got", wr,
              sge, attr.max_wr, attr.max_sge);
      ibv_srq_attr got{};
      require_err(ibv_query_srq(srq.get(), &got), 0, "ibv_query_srq");
      require(got.max_wr >= wr && got.max_sge >= sge, "{} of {} SGEs asked for, {} of {} queried",
              wr, sge, got.max_wr, got.max_sge);
      require(got.srq_limit == 0, "srq_limit is {}", got.srq_limit);
    }
  }
}

void sizes_refused(const Env& env) {
  const auto max_wr = static_cast<std::uint32_t>(env.dev.attr().max_srq_wr);
  const auto max_sge = static_cast<std::uint32_t>(env.dev.attr().max_srq_sge);
  for (ibv_srq_attr attr : {ibv_srq_attr{max_wr + 1, 1, 0}, ibv_srq_attr{4, max_sge + 1, 0}}) {
    const SrqPtr srq = try_create(env.dev, attr);
    require_refused(srq ? 0 : errno, EINVAL, "an SRQ above the limits of the device");
  }
  ibv_srq_attr none{.max_wr = 0, .max_sge = 1, .srq_limit = 0};
  const SrqPtr srq = try_create(env.dev, none);
  usually_refused(srq ? 0 : errno, EINVAL, "an SRQ of no requests");
}

// The limit of the creation is irrelevant: the SRQ is not armed.
void creation_limit(const Env& env) {
  const Shared s(env.dev, 1, {16, 1, 8});
  require_usual(s.query().srq_limit == 0, "an SRQ is created with srq_limit {}",
                s.query().srq_limit);
}

void in_order(const Env& env) {
  const Shared s(env.dev, 3);
  std::uint64_t next = 0;
  for (int round = 0; round < 10; round++) {
    s.post(next, 12);
    for (std::size_t i = 0; i < 12; i++) s.send(next++, (i * 5 + i / 4) % s.pairs());
  }
}

// The receives of an SRQ go to whoever needs them: the QPs send at once.
void each_once(const Env& env) {
  constexpr std::uint64_t kEach = 8;
  const Shared s(env.dev, 4, {64, 2, 0});
  for (unsigned round = 0; round < 5; round++) {
    s.post(0, kEach * s.pairs());
    for (std::size_t i = 0; i < s.pairs(); i++) {
      const std::vector<Send> sends(kEach, s.pair(i).request(IBV_WR_SEND, 8));
      s.pair(i).post(sends);
    }
    std::vector<bool> seen(kEach * s.pairs());
    for (const ibv_wc& wc : poll(s.pair().remote.end().recv_cq(), seen.size())) {
      require(wc.status == IBV_WC_SUCCESS, "{}", ibv_wc_status_str(wc.status));
      require(wc.wr_id < seen.size() && !seen[wc.wr_id], "receive {} twice", wc.wr_id);
      seen[wc.wr_id] = true;
    }
    for (std::size_t i = 0; i < s.pairs(); i++) {
      static_cast<void>(poll(s.pair(i).local.send_cq(), kEach));
    }
  }
}

void data(const Env& env) {
  const Shared s(env.dev, 2);
  const Memory to(env.dev.pd(), 16384, kAllAccess);
  for (std::uint64_t i = 0; i < 2; i++) {
    const std::array<ibv_sge, 2> sges{to.sge(i * 8192, 3000), to.sge(i * 8192 + 3000, 3000)};
    require_err(post_srq_recv(s.srq(), i, sges), 0, "ibv_post_srq_recv");
  }
  for (std::uint64_t i = 0; i < 2; i++) {
    s.pair(i).fill({0, 5000}, 40 + i);
    s.pair(i).run(s.pair(i).request(IBV_WR_SEND, 5000));
    require(s.received(i, i).byte_len == 5000, "byte_len");
    require(!mismatch(to.bytes().subspan(i * 8192, 5000), 40 + i), "wrong bytes");
  }
}

void full(const Env& env) {
  const Shared s(env.dev, 1, {4, 1, 0});
  const ibv_sge sge = s.sge();
  std::uint64_t posted = 0;
  int err = 0;
  while (posted <= s.attr().max_wr + 64 && (err = post_srq_recv(s.srq(), posted, sge)) == 0) {
    posted++;
  }
  require(posted >= 4, "an SRQ for 4 requests takes {}", posted);
  require_usual(err == ENOMEM, "one request too many: {}", errno_name(err));
  require_usual(posted == s.attr().max_wr, "max_wr is {}, but {} requests fit", s.attr().max_wr,
                posted);
  // One that was taken makes room for one more.
  for (std::uint64_t i = 0; i < posted + 10; i++) {
    s.send(i);
    require_err(post_srq_recv(s.srq(), posted + i, sge), 0, "a request after one was taken");
  }
}

void too_many_sges(const Env& env) {
  const Shared s(env.dev);
  ibv_srq_attr attr = s.query();
  std::vector<ibv_sge> sges(attr.max_sge + 1, s.sge());
  require_refused(post_srq_recv(s.srq(), 9, sges), EINVAL, "a receive of max_sge + 1 SGEs");
  // Of a list the requests before the wrong one are posted.
  ibv_sge sge = s.sge();
  std::array<ibv_recv_wr, 3> wrs{};
  for (std::size_t i = 0; i < wrs.size(); i++) {
    wrs[i] = {.wr_id = i,
              .next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr,
              .sg_list = i == 1 ? sges.data() : &sge,
              .num_sge = i == 1 ? static_cast<int>(sges.size()) : 1};
  }
  ibv_recv_wr* bad = nullptr;
  require_refused(ibv_post_srq_recv(s.srq(), wrs.data(), &bad), EINVAL, "a list with a wrong one");
  require(bad == &wrs[1], "bad_recv_wr is not the wrong request");
  s.post(7);
  s.send(0);
  s.send(7);
}

// A message waits until the SRQ has a receive for it.
void empty(const Env& env) {
  const Shared s(env.dev);
  s.pair().post(s.pair().request(IBV_WR_SEND, 8));
  expect_quiet(s.pair().local.send_cq(), 20);
  s.post(3);
  s.received(3);
  s.pair().expect(0);
}

void no_own_queue(const Env& env) {
  const Shared s(env.dev);
  const ibv_sge sge = s.sge();
  require_refused(post_recv(s.pair().remote.end().qp(), 1, sge), EINVAL,
                  "ibv_post_recv to a QP with an SRQ");
}

// Requests that no message has taken stay for the other QPs when one fails.
void outlives_qp(const Env& env) {
  Shared s(env.dev, 2);
  s.post(0, 8);
  s.send(0, 0);
  s.pair(0).remote.to_state(IBV_QPS_ERR);
  expect_quiet(s.pair(0).remote.end().recv_cq(), 20);
  s.send(1, 1);
  s.pair(0).remote.to_state(IBV_QPS_RESET);
  s.send(2, 1);
  s.close_pair(0);
  for (std::uint64_t i = 3; i < 8; i++) s.send(i, 1);
}

void busy(const Env& env) {
  Shared s(env.dev);
  require_refused(ibv_destroy_srq(s.srq()), EBUSY, "ibv_destroy_srq while a QP uses it");
  s.post(1);
  s.send(1);
}

void datagrams(const Env& env) {
  const Shared s(env.dev, 2, {16, 2, 0}, IBV_QPT_UD);
  s.post(0, 6);
  for (std::uint64_t i = 0; i < 6; i++) {
    const std::size_t to = i % 2;
    s.pair(to).run(s.pair(to).request(IBV_WR_SEND, 8));
    const ibv_wc wc = s.received(i, to);
    require(wc.byte_len == kGrh + 8, "byte_len {}", wc.byte_len);
    require(wc.src_qp == s.pair(to).local.qp()->qp_num, "src_qp {:#x}", wc.src_qp);
  }
}

void threads(const Env& env) {
  constexpr std::uint64_t kEach = 40;
  const Shared s(env.dev, 2, {128, 1, 0});
  std::atomic<int> err = 0;
  const auto poster = [&](std::uint64_t first) {
    for (std::uint64_t i = first; i < first + kEach; i++) {
      const int result = post_srq_recv(s.srq(), i, s.sge(i));
      if (result != 0) err = result;
    }
  };
  std::thread other(poster, kEach);
  poster(0);
  other.join();
  require_err(err, 0, "ibv_post_srq_recv from two threads");
  std::vector<bool> seen(2 * kEach);
  for (std::uint64_t i = 0; i < 2 * kEach; i++) {
    s.pair(i % 2).run(s.pair(i % 2).request(IBV_WR_SEND, 8));
    const ibv_wc wc = poll(s.pair().remote.end().recv_cq(), 1).front();
    require(wc.status == IBV_WC_SUCCESS, "{}", ibv_wc_status_str(wc.status));
    require(wc.wr_id < 2 * kEach && !seen[wc.wr_id], "receive {} twice or unknown", wc.wr_id);
    seen[wc.wr_id] = true;
  }
}

}  // namespace

Rules queue() {
  return {
      {"sizes", "an SRQ has at least the sizes asked for, and ibv_query_srq returns them", sizes},
      {"sizes_refused", "an SRQ above max_srq_wr or max_srq_sge is refused", sizes_refused},
      {"creation_limit", "the srq_limit of ibv_create_srq is irrelevant", creation_limit},
      {"in_order", "QPs that share an SRQ take its receives in the order of the messages",
       in_order},
      {"each_once", "QPs that receive at once take each receive once", each_once},
      {"data", "a receive of an SRQ scatters to its SGEs, whichever QP takes it", data},
      {"full", "an SRQ takes max_wr requests, and more when some were taken", full},
      {"too_many_sges",
       "a receive of more SGEs than max_sge is refused, those before it are posted", too_many_sges},
      {"empty", "a message to an empty SRQ waits for a receive", empty},
      {"no_own_queue", "ibv_post_recv is refused to a QP that has an SRQ", no_own_queue},
      {"outlives_qp", "receives that no message has taken stay when a QP of the SRQ fails",
       outlives_qp},
      {"busy", "an SRQ that a QP uses cannot be destroyed, and works on", busy},
      {"datagrams", "UD QPs can share an SRQ", datagrams},
      {"threads", "threads may post to one SRQ at once: no receive is lost or comes twice",
       threads},
  };
}

}  // namespace guest::srq
