// SPDX-License-Identifier: GPL-2.0-or-later
// The limit of an SRQ, its size, and the events of both.
#include <cerrno>

#include "srq.h"

namespace guest::srq {
namespace {

constexpr int kSoon = 5000;  // ms; an expected event must arrive within this time
constexpr int kNever = 150;  // ms; no event may arrive within this time

void arm(const Shared& s, std::uint32_t limit) {
  const int err = s.modify(IBV_SRQ_LIMIT, 0, limit);
  if (err == EOPNOTSUPP) skip("no IBV_SRQ_LIMIT");
  require_err(err, 0, "ibv_modify_srq with IBV_SRQ_LIMIT");
}

bool limit_event(const Env& env, const Shared& s, int timeout_ms) {
  const auto event = next_event(env.dev, IBV_EVENT_SRQ_LIMIT_REACHED, timeout_ms);
  require(!event || event->element.srq == s.srq(), "the event names another SRQ");
  return event.has_value();
}

void limit(const Env& env) {
  const Shared s(env.dev, 2);
  std::uint64_t next = 0;
  for (int round = 0; round < 3; round++) {
    s.post(next, 8);
    arm(s, 5);
    require(s.query().srq_limit == 5, "srq_limit is {}", s.query().srq_limit);
    // 5 remain, which is not below the limit.
    for (std::size_t i = 0; i < 3; i++) s.send(next++, i % 2);
    require(!limit_event(env, s, kNever), "an event with as many receives as the limit");
    s.send(next++, 1);
    require(limit_event(env, s, kSoon), "no event below the limit");
    require(s.query().srq_limit == 0, "the SRQ is armed after the event");
    for (std::size_t i = 0; i < 4; i++) s.send(next++, i % 2);
    require(!limit_event(env, s, kNever), "a second event of one arm");
  }
}

void not_armed(const Env& env) {
  const Shared s(env.dev);
  s.post(0, 4);
  arm(s, 3);
  arm(s, 0);
  require(s.query().srq_limit == 0, "srq_limit is {}", s.query().srq_limit);
  for (std::uint64_t i = 0; i < 4; i++) s.send(i);
  require(!limit_event(env, s, kNever), "an event though the limit was set to 0");
}

// Armed when fewer receives wait than the limit. Whether the event comes at once is not said.
void armed_below(const Env& env) {
  const Shared s(env.dev);
  s.post(0, 4);
  arm(s, 8);
  const bool at_once = limit_event(env, s, kNever);
  chose(std::format("armed below the limit, the event comes {}",
                    at_once ? "at once" : "with the next message"));
  s.send(0);
  const bool later = limit_event(env, s, at_once ? kNever : kSoon);
  require(later != at_once, "{} events of one arm", at_once ? "two" : "no");
}

void limit_refused(const Env& env) {
  const Shared s(env.dev);
  const int err = s.modify(IBV_SRQ_LIMIT, 0, s.query().max_wr + 1);
  if (usually_refused(err, EINVAL, "an srq_limit above max_wr")) {
    require(s.query().srq_limit == 0, "refused, but srq_limit is {}", s.query().srq_limit);
  }
  usually_refused(s.modify(1 << 20, 0, 0), EINVAL, "an unknown bit of the mask");
}

void need_resize(const Env& env) {
  if ((env.dev.attr().device_cap_flags & IBV_DEVICE_SRQ_RESIZE) == 0) {
    skip("no IBV_DEVICE_SRQ_RESIZE");
  }
}

void resize(const Env& env) {
  need_resize(env);
  const Shared s(env.dev, 2);
  std::uint64_t next = 0;
  for (const std::uint32_t size : {64U, 20U, 200U, 33U}) {
    s.post(next, 6);
    require_err(s.modify(IBV_SRQ_MAX_WR, size, 0), 0, "ibv_modify_srq with IBV_SRQ_MAX_WR");
    require(s.query().max_wr >= size, "max_wr is {} after a resize to {}", s.query().max_wr, size);
    s.post(next + 6, size - 6);
    for (std::uint32_t i = 0; i < size; i++) s.send(next++, i % 2);
  }
}

void resize_refused(const Env& env) {
  need_resize(env);
  const Shared s(env.dev, 1, {64, 1, 0});
  s.post(0, 40);
  const auto too_many = static_cast<std::uint32_t>(env.dev.attr().max_srq_wr) + 1;
  require_refused(s.modify(IBV_SRQ_MAX_WR, too_many, 0), EINVAL, "more than max_srq_wr");
  const int err = s.modify(IBV_SRQ_MAX_WR, 8, 0);
  if (err != 0) {
    require_usual(err == EINVAL, "fewer than wait: {}", errno_name(err));
    require(s.query().max_wr >= 64, "refused, but max_wr is {}", s.query().max_wr);
  } else {
    require_usual(false, "a resize to fewer than wait: accepted, max_wr is {}", s.query().max_wr);
  }
  for (std::uint64_t i = 0; i < 40; i++) s.send(i);
}

void resize_keeps_limit(const Env& env) {
  need_resize(env);
  const Shared s(env.dev);
  s.post(0, 6);
  arm(s, 3);
  require_err(s.modify(IBV_SRQ_MAX_WR, 100, 0), 0, "ibv_modify_srq with IBV_SRQ_MAX_WR");
  require(s.query().srq_limit == 3, "srq_limit is {} after a resize", s.query().srq_limit);
  for (std::uint64_t i = 0; i < 3; i++) s.send(i);
  require(!limit_event(env, s, kNever), "an event with as many receives as the limit");
  s.send(3);
  require(limit_event(env, s, kSoon), "no event below the limit");
}

// The program may then destroy the QP, for it takes no more receives of the SRQ.
void last_wqe(const Env& env) {
  const Shared s(env.dev, 2);
  s.post(0, 4);
  s.send(0, 0);
  s.send(1, 1);
  for (std::size_t i = 0; i < 2; i++) {
    s.pair(i).remote.to_state(IBV_QPS_ERR);
    const auto event = next_event(env.dev, IBV_EVENT_QP_LAST_WQE_REACHED, kSoon);
    require(event.has_value(), "no IBV_EVENT_QP_LAST_WQE_REACHED of a QP in ERR");
    require(event->element.qp == s.pair(i).remote.end().qp(), "the event names another QP");
  }
  require(!next_event(env.dev, IBV_EVENT_QP_LAST_WQE_REACHED, kNever), "a second event of a QP");
}

void last_wqe_of_error(const Env& env) {
  const Shared s(env.dev);
  s.post(0, 2);
  Send bad = s.pair().request(IBV_WR_RDMA_WRITE, 8);
  bad.rkey ^= 0xffff00;
  s.pair().run(bad, Api::kPost, IBV_WC_REM_ACCESS_ERR);
  const auto event = next_event(env.dev, IBV_EVENT_QP_LAST_WQE_REACHED, kSoon);
  require(event && event->element.qp == s.pair().remote.end().qp(),
          "no IBV_EVENT_QP_LAST_WQE_REACHED of the QP that met the error");
}

}  // namespace

Rules events() {
  return {
      {"limit", "fewer receives than srq_limit: one event, and the SRQ is no longer armed", limit},
      {"not_armed", "an srq_limit of 0 disarms the SRQ", not_armed},
      {"armed_below", "an SRQ armed above what it holds raises one event", armed_below},
      {"limit_refused", "an srq_limit above max_wr, and unknown attributes, change nothing",
       limit_refused},
      {"resize", "IBV_SRQ_MAX_WR changes the size and keeps what waits", resize},
      {"resize_refused", "an SRQ that cannot get the new size keeps the old one, and what waits",
       resize_refused},
      {"resize_keeps_limit", "a resize keeps the limit armed", resize_keeps_limit},
      {"last_wqe", "a QP of an SRQ that is moved to ERR raises IBV_EVENT_QP_LAST_WQE_REACHED",
       last_wqe},
      {"last_wqe_of_error", "so does a QP of an SRQ that meets an error", last_wqe_of_error},
  };
}

}  // namespace guest::srq
