// SPDX-License-Identifier: GPL-2.0-or-later
#include <poll.h>

#include <cerrno>
#include <chrono>

#include "srq.h"

namespace guest::srq {

SrqPtr try_create(const Device& dev, ibv_srq_attr& attr) {
  if (dev.attr().max_srq == 0) skip("max_srq is 0");
  ibv_srq_init_attr init{.srq_context = nullptr, .attr = attr};
  SrqPtr srq(ibv_create_srq(dev.pd(), &init));
  if (srq) attr = init.attr;
  return srq;
}

Shared::Shared(const Device& dev, std::size_t pairs, ibv_srq_attr attr, ibv_qp_type type)
    : attr_(attr), memory_(dev.pd(), 4096, kAllAccess), cq_(create_cq(dev, 256)) {
  srq_ = try_create(dev, attr_);
  if (!srq_) fail_errno("ibv_create_srq");
  PairOptions options = alike({.type = type});
  options.remote.use_srq = srq_.get();
  options.remote.recv_cq = cq_.get();
  for (std::size_t i = 0; i < pairs; i++) pairs_.push_back(std::make_unique<Pair>(dev, options));
}

void Shared::post(std::uint64_t first, std::uint64_t count) const {
  for (std::uint64_t i = first; i < first + count; i++) {
    require_err(post_srq_recv(srq(), i, sge(i)), 0, "ibv_post_srq_recv");
  }
}

void Shared::send(std::uint64_t wr_id, std::size_t i) const {
  pair(i).run(pair(i).request(IBV_WR_SEND, 8));
  received(wr_id, i);
}

ibv_wc Shared::received(std::uint64_t wr_id, std::size_t i, ibv_wc_status status) const {
  const ibv_wc wc = poll(cq_.get(), 1).front();
  require_status(wc, wr_id, status);
  require(wc.qp_num == pair(i).remote.endpoint().qpn, "completion of QP {:#x}", wc.qp_num);
  return wc;
}

ibv_srq_attr Shared::query() const {
  ibv_srq_attr attr{};
  require_err(ibv_query_srq(srq(), &attr), 0, "ibv_query_srq");
  return attr;
}

int Shared::modify(int mask, std::uint32_t max_wr, std::uint32_t limit) const {
  ibv_srq_attr attr{.max_wr = max_wr, .max_sge = 0, .srq_limit = limit};
  return ibv_modify_srq(srq(), &attr, mask);
}

std::optional<ibv_async_event> next_event(const Device& dev, ibv_event_type type, int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd fd{.fd = dev.context()->async_fd, .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&fd, 1, static_cast<int>(left)) != 1) return {};
    ibv_async_event event{};
    if (ibv_get_async_event(dev.context(), &event) != 0) fail_errno("ibv_get_async_event");
    ibv_ack_async_event(&event);
    if (event.event_type == type) return event;
  }
}

Rules all() {
  Rules rules;
  append(rules, queue(), "ibv_create_srq(3), ibv_post_srq_recv(3); IBTA volume 1, 10.2.9");
  append(rules, events(), "ibv_modify_srq(3), ibv_get_async_event(3); IBTA volume 1, 10.2.9");
  return rules;
}

}  // namespace guest::srq
