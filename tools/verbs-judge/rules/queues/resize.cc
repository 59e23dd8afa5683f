// SPDX-License-Identifier: GPL-2.0-or-later
// CQs of another size, and CQs that run over.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <thread>

#include "queues.h"

namespace guest::queues {
namespace {

// Skips the rule if the device cannot resize a CQ.
void resize_to(const Rig& rig, int entries, const char* what) {
  const int err = ibv_resize_cq(rig.cq(), entries);
  if (err == EOPNOTSUPP || err == ENOSYS) skip("no ibv_resize_cq");
  require_err(err, 0, what);
  require(rig.cq()->cqe >= entries, "{} entries after a resize to {}", rig.cq()->cqe, entries);
}

void keeps_what_waits(const Env& env) {
  Rig rig(env.dev, {.entries = 16});
  for (const int entries : {64, 16, std::min(4096, env.dev.attr().max_cqe), 20, 100, 17}) {
    rig.write(9);
    rig.settle();
    rig.poll_all(3);
    resize_to(rig, entries, "ibv_resize_cq");
    rig.write(4);
    rig.poll_all(11);
  }
}

void refused(const Env& env) {
  Rig rig(env.dev, {.entries = 16});
  resize_to(rig, 16, "ibv_resize_cq to the same size");
  const int cqe = rig.cq()->cqe;
  rig.write(10);
  rig.settle();
  for (const int bad : {0, -1, env.dev.attr().max_cqe + 1}) {
    require_refused(ibv_resize_cq(rig.cq(), bad), EINVAL, "ibv_resize_cq out of range");
  }
  require(rig.cq()->cqe == cqe, "a resize that is refused has changed the size");
  for (const int few : {2, 8}) {
    if (!usually_refused(ibv_resize_cq(rig.cq(), few), EINVAL,
                         "ibv_resize_cq to fewer than wait")) {
      require(rig.cq()->cqe >= 11, "{} entries, but 11 wait", rig.cq()->cqe);
    }
  }
  rig.poll_all(11);
  resize_to(rig, 2, "ibv_resize_cq of an empty CQ");
  rig.write(2);
  rig.poll_all(2);
}

void to_max(const Env& env) {
  Rig rig(env.dev, {.entries = 16});
  resize_to(rig, 16, "ibv_resize_cq to the same size");
  const int err = ibv_resize_cq(rig.cq(), env.dev.attr().max_cqe);
  if (err == ENOMEM && !strict()) skip("no memory for max_cqe entries");
  require_err(err, 0, "ibv_resize_cq to max_cqe");
  require(rig.cq()->cqe >= env.dev.attr().max_cqe, "not max_cqe entries");
  rig.write(50);
  rig.poll_all(50);
}

// A pending arm survives a resize.
void keeps_the_arm(const Env& env) {
  Rig rig(env.dev, {.entries = 16});
  for (const int entries : {100, 10, 1000}) {
    rig.arm();
    resize_to(rig, entries, "ibv_resize_cq");
    require(!rig.event(kNever), "event of a resize");
    rig.write();
    require(rig.event(kSoon), "the arm is lost");
    rig.poll_all(1);
  }
}

// Polls while another thread resizes the CQ, and waits for an event before every second poll: each
// completion comes once and in order, and no wake-up is lost.
void under_traffic(const Env& env) {
  const std::uint64_t requests = std::uint64_t{50} * env.effort;
  constexpr unsigned kResizes = 50;
  Rig rig(env.dev, {.entries = kDepth});
  resize_to(rig, kDepth, "ibv_resize_cq to the same size");
  std::atomic<bool> done = false;
  std::atomic<unsigned> resizes = 0;
  std::exception_ptr broken;
  std::thread resizer([&] {
    try {
      constexpr int kSizes[] = {64, 300, 65, 4096, 128, 1000, 64, 2048};
      for (; !done; resizes++) {
        require_err(ibv_resize_cq(rig.cq(), kSizes[resizes % 8]), 0, "ibv_resize_cq under traffic");
      }
    } catch (...) {
      broken = std::current_exception();
      done = true;
    }
  });
  std::string why;
  try {
    for (unsigned round = 0; !done && (rig.posted() < requests || resizes < kResizes); round++) {
      const bool sleeps = round % 2 == 0;
      const unsigned burst = 1 + round % kDepth;
      if (sleeps) rig.arm();
      rig.write(burst);
      require(!sleeps || rig.event(kSoon), "no event for completion {}", rig.taken());
      rig.poll_all(burst);
    }
  } catch (const std::exception& e) {
    why = e.what();
  }
  done = true;
  resizer.join();
  if (broken) std::rethrow_exception(broken);
  require(why.empty(), "after {} resizes: {}", resizes.load(), why);
}

void overrun_ignored(const Env& env) {
  Rig rig(env.dev, {.entries = 4, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN});
  for (int i = 0; i < 10; i++) {
    rig.write(4);
    rig.poll_all(4);
  }
  // Fills the send queue without polling: many more completions than the CQ holds, and no slot is
  // freed meanwhile.
  rig.write(kDepth - 1);
  rig.settle();
  require(!env.dev.wait_async(IBV_EVENT_CQ_ERR, kNever), "IBV_EVENT_CQ_ERR");
  require(state_of(rig.qp()) == IBV_QPS_RTS, "the QP has left RTS");
  usually_refused(ibv_resize_cq(rig.cq(), 100), EINVAL, "a resize of a CQ that has run over");
}

}  // namespace

Rules resize() {
  return {
      {"resize_keeps_what_waits", "a resize keeps the completions that wait, and their order",
       keeps_what_waits},
      {"resize_refused", "a size out of range is refused, and the CQ stays", refused},
      {"resize_to_max", "a CQ can grow to max_cqe", to_max},
      {"resize_keeps_the_arm", "a resize keeps the CQ armed, and raises no event", keeps_the_arm},
      {"resize_under_traffic", "a resize under traffic loses neither completions nor events",
       under_traffic},
      {"overrun_ignored", "a CQ that ignores overruns raises no error", overrun_ignored},
  };
}

Rules all() {
  Rules rules;
  append(rules, resize(), "ibv_resize_cq(3), ibv_create_cq_ex(3)");
  append(rules, moderation(), "ibv_modify_cq(3)");
  append(rules, fields(), "ibv_create_cq_ex(3), ibv_query_rt_values_ex(3)");
  append(rules, channels(), "ibv_create_cq(3), ibv_get_cq_event(3)");
  return rules;
}

}  // namespace guest::queues
