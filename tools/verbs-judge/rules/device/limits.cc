// SPDX-License-Identifier: GPL-2.0-or-later
// Limits of the number and the size of objects. The page allows that they cannot be reached, since
// others use the device, too; beyond them there is nothing.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "device.h"
#include "loop.h"

namespace guest::device {
namespace {

constexpr int kMany = 64;
constexpr int kMostEntries = 16384;  // of a queue that a test creates

template <typename Create>
void reach(int limit, const char* what, const Create& create) {
  std::vector<decltype(create())> all;
  const int wanted = std::min(limit, kMany);
  for (int i = 0; i < wanted; i++) {
    all.push_back(create());
    if (all.back() == nullptr) {
      return require_usual(false, "{} of {} {}: {}", i, limit, what, errno_name(errno));
    }
  }
}

void pds(const Env& env) {
  reach(env.dev.attr().max_pd, "PDs", [&] { return PdPtr(ibv_alloc_pd(env.dev.context())); });
}

CqPtr try_cq(const Env& env, int entries, int vector = 0, ibv_comp_channel* channel = nullptr) {
  return CqPtr(ibv_create_cq(env.dev.context(), entries, nullptr, channel, vector));
}

void cqs(const Env& env) {
  reach(env.dev.attr().max_cq, "CQs", [&] { return try_cq(env, 1); });
}

void mrs(const Env& env) {
  const Map map(4096);
  reach(env.dev.attr().max_mr, "MRs",
        [&] { return try_reg(env.dev.pd(), map.at(), map.length(), kAllAccess); });
}

void mws(const Env& env) {
  need_windows(env.dev.context());
  const bool one = (env.dev.attr().device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0;
  reach(env.dev.attr().max_mw, "windows",
        [&] { return MwPtr(ibv_alloc_mw(env.dev.pd(), one ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2)); });
}

void qps(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 16);
  reach(env.dev.attr().max_qp, "QPs", [&] {
    QpSpec spec{.send_cq = cq.get(), .recv_cq = cq.get()};
    return try_create_qp(env.dev, spec);
  });
}

ibv_srq* new_srq(const Env& env, std::uint32_t wr, std::uint32_t sge) {
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = wr, .max_sge = sge, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(env.dev.pd(), &attr);
  if (srq != nullptr) {
    require(attr.attr.max_wr >= wr && attr.attr.max_sge >= sge,
            "an SRQ of {} requests with {} SGEs has {} with {}", wr, sge, attr.attr.max_wr,
            attr.attr.max_sge);
  }
  return srq;
}

void need_srqs(const Env& env) {
  if (env.dev.attr().max_srq == 0) skip("max_srq is 0");
}

void srqs(const Env& env) {
  need_srqs(env);
  reach(env.dev.attr().max_srq, "SRQs", [&] { return SrqPtr(new_srq(env, 1, 1)); });
}

void ahs(const Env& env) {
  if (env.dev.attr().max_ah == 0) skip("max_ah is 0");
  ibv_ah_attr attr = path_to_itself(env.dev);
  reach(env.dev.attr().max_ah, "AHs", [&] { return AhPtr(ibv_create_ah(env.dev.pd(), &attr)); });
}

void cq_size(const Env& env) {
  const int most = env.dev.attr().max_cqe;
  for (const int n : {1, 2, 3, 100, std::min(most, kMostEntries)}) {
    if (n > most) continue;
    const CqPtr cq = try_cq(env, n);
    require_usual(cq != nullptr, "a CQ of {} entries: {}", n, errno_name(errno));
    require(!cq || cq->cqe >= n, "a CQ of {} entries has {}", n, cq ? cq->cqe : 0);
  }
  if (most < std::numeric_limits<int>::max()) {
    const CqPtr above = try_cq(env, most + 1);
    require_refused(above ? 0 : errno, EINVAL, "a CQ of more than max_cqe entries");
  }
  const CqPtr negative = try_cq(env, -1);
  require_refused(negative ? 0 : errno, EINVAL, "a CQ of -1 entries");
  const CqPtr none = try_cq(env, 0);
  usually_refused(none ? 0 : errno, EINVAL, "a CQ of no entry");
}

// Each vector gives events; there are no others.
void vectors(const Env& env) {
  const int count = env.dev.context()->num_comp_vectors;
  require(count > 0, "num_comp_vectors is {}", count);
  for (int vector = 0; vector < std::min(count, kMany); vector++) {
    const ChannelPtr channel(ibv_create_comp_channel(env.dev.context()));
    require(channel != nullptr, "ibv_create_comp_channel: {}", errno_name(errno));
    const CqPtr cq = try_cq(env, 16, vector, channel.get());
    require(cq != nullptr, "a CQ of vector {} of {}: {}", vector, count, errno_name(errno));
    require_err(ibv_req_notify_cq(cq.get(), 0), 0, "ibv_req_notify_cq");
    PairOptions options;
    options.local.send_cq = cq.get();
    const Pair pair(env.dev, options);
    pair.run(pair.request(IBV_WR_RDMA_WRITE, 8));
    require(wait_event(channel.get(), 10000), "no event from vector {}", vector);
  }
  for (const int bad : {-1, count, count + 1, std::numeric_limits<int>::max()}) {
    const CqPtr cq = try_cq(env, 16, bad);
    require_refused(cq ? 0 : errno, EINVAL, "a completion vector that is not there");
  }
}

int qp_error(const Env& env, ibv_cq* cq, const ibv_qp_cap& cap) {
  QpSpec spec{.send_cq = cq, .recv_cq = cq, .cap = cap};
  const QpPtr qp = try_create_qp(env.dev, spec);
  if (!qp) return errno;
  require(spec.cap.max_send_wr >= cap.max_send_wr && spec.cap.max_recv_wr >= cap.max_recv_wr &&
              spec.cap.max_send_sge >= cap.max_send_sge &&
              spec.cap.max_recv_sge >= cap.max_recv_sge &&
              spec.cap.max_inline_data >= cap.max_inline_data,
          "a QP has less than was asked for");
  return 0;
}

void qp_size(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 16);
  const auto error = [&](const ibv_qp_cap& cap) { return qp_error(env, cq.get(), cap); };
  const auto wr = static_cast<std::uint32_t>(env.dev.attr().max_qp_wr);
  const auto sge = static_cast<std::uint32_t>(env.dev.attr().max_sge);
  const auto most = std::min<std::uint32_t>(wr, kMostEntries);
  for (const ibv_qp_cap& cap : {capacity(most, 1), capacity(1, most), capacity(most, most),
                                capacity(1, 1, sge), capacity(0, 0), capacity(1, 0)}) {
    const int err = error(cap);
    require_usual(err == 0, "a QP of {} and {} requests with {} SGEs: {}", cap.max_send_wr,
                  cap.max_recv_wr, cap.max_send_sge, errno_name(err));
  }
  ibv_qp_cap recv = capacity(1, 1);
  recv.max_recv_sge = sge + 1;
  ibv_qp_cap send = capacity(1, 1);
  send.max_send_sge = sge + 1;
  require_refused(error(capacity(wr + 1, 1)), EINVAL, "more sends than max_qp_wr");
  require_refused(error(capacity(1, wr + 1)), EINVAL, "more receives than max_qp_wr");
  require_refused(error(send), EINVAL, "more SGEs of a send than max_sge");
  require_refused(error(recv), EINVAL, "more SGEs of a receive than max_sge");
  require_refused(error(capacity(~0U, 1)), EINVAL, "2^32 - 1 sends");
  require_refused(error(capacity(1, ~0U)), EINVAL, "2^32 - 1 receives");
  require_refused(error(capacity(1, 1, 1, 1U << 30)), EINVAL, "inline data of 1 GiB");
}

void srq_size(const Env& env) {
  need_srqs(env);
  const auto wr = static_cast<std::uint32_t>(env.dev.attr().max_srq_wr);
  const auto sge = static_cast<std::uint32_t>(env.dev.attr().max_srq_sge);
  const auto error = [&](std::uint32_t requests, std::uint32_t sges) {
    const SrqPtr srq(new_srq(env, requests, sges));
    return srq ? 0 : errno;
  };
  const int full = error(std::min<std::uint32_t>(wr, kMostEntries), 1);
  require_usual(full == 0, "an SRQ of max_srq_wr requests: {}", errno_name(full));
  const int wide = error(1, sge);
  require_usual(wide == 0, "an SRQ of max_srq_sge SGEs: {}", errno_name(wide));
  require_refused(error(wr + 1, 1), EINVAL, "more requests than max_srq_wr");
  require_refused(error(1, sge + 1), EINVAL, "more SGEs than max_srq_sge");
  require_refused(error(~0U, 1), EINVAL, "2^32 - 1 requests");
}

// What a connection may have in flight.
void reads(const Env& env) {
  if (env.dev.iwarp()) skip("iWARP connects by rdma_cm alone");
  const CqPtr cq = create_cq(env.dev, 16);
  const auto error = [&](int out, int in) {
    QpSpec spec{.send_cq = cq.get(), .recv_cq = cq.get()};
    const QpPtr qp = create_qp(env.dev, spec);
    const Connection how{.mtu = env.dev.active_mtu(),
                         .max_rd_atomic = static_cast<std::uint8_t>(out),
                         .max_dest_rd_atomic = static_cast<std::uint8_t>(in)};
    require_err(to_init(qp.get(), how), 0, "to INIT");
    const int err = to_rtr(qp.get(), env.dev, how, {.qpn = qp->qp_num, .gid = env.dev.gid()});
    return err != 0 ? err : to_rts(qp.get(), how, 1);
  };
  const int out = env.dev.attr().max_qp_init_rd_atom;
  const int in = env.dev.attr().max_qp_rd_atom;
  require_err(error(std::min(out, 255), std::min(in, 255)), 0, "what the limits allow");
  require_err(error(0, 0), 0, "no READ");
  if (out < 255) {
    usually_refused(error(out + 1, 1), EINVAL, "max_rd_atomic above max_qp_init_rd_atom");
  }
  if (in < 255)
    usually_refused(error(1, in + 1), EINVAL, "max_dest_rd_atomic above max_qp_rd_atom");
}

}  // namespace

Rules limits() {
  return {
      {"max-pd", "PDs can be allocated up to max_pd", pds, "ibv_alloc_pd(3)"},
      {"max-cq", "CQs can be created up to max_cq", cqs, "ibv_create_cq(3)"},
      {"max-mr", "memory can be registered up to max_mr times", mrs, "ibv_reg_mr(3)"},
      {"max-mw", "windows can be allocated up to max_mw", mws, "ibv_alloc_mw(3)"},
      {"max-qp", "QPs can be created up to max_qp", qps, "ibv_create_qp(3)"},
      {"max-srq", "SRQs can be created up to max_srq", srqs, "ibv_create_srq(3)"},
      {"max-ah", "address handles can be created up to max_ah", ahs, "ibv_create_ah(3)"},
      {"max-cqe", "a CQ has the entries asked for, and no more than max_cqe are accepted", cq_size,
       "ibv_create_cq(3)"},
      {"comp-vectors", "each completion vector gives events, and others are refused", vectors,
       "ibv_create_cq(3)"},
      {"max-qp-wr", "a QP has the capacities asked for, and no more than the limits are accepted",
       qp_size, "ibv_create_qp(3)"},
      {"max-srq-wr",
       "an SRQ has the capacities asked for, and no more than the limits are accepted", srq_size,
       "ibv_create_srq(3)"},
      {"max-rd-atom", "a QP accepts READs in flight up to the limits", reads, "ibv_modify_qp(3)"},
  };
}

}  // namespace guest::device
