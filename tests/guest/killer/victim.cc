// SPDX-License-Identifier: GPL-2.0-or-later
#include "victim.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace guest::killer {

// The objects of one open device.
class Part : public Walk {
 public:
  Part(Victim& victim, ibv_context* verbs, const WalkOptions& options)
      : Walk(verbs, victim.shared_.walk, options), victim_(victim) {}

  void one_operation();
  // Adds what there is now.
  void count(std::array<std::uint32_t, kGoals>& live) const;
  [[nodiscard]] ibv_context* device() const { return device_; }

 private:
  struct Op {
    std::uint32_t weight;
    int (Part::*call)();
  };

  void called(const char* verb) override { victim_.step(verb); }
  void reached(std::size_t goal) override { ++victim_.reached_[goal]; }
  void refused(std::size_t goal, int err) override {
    if (err == EOPNOTSUPP) victim_.role_.missing[goal] = 1;
  }
  int notify();
  int to_error();
  int take_async_event();

  Victim& victim_;
};

void Part::one_operation() {
  static constexpr Op kOps[] = {
      {4, &Part::make_pd},     {8, &Part::make_mr},          {3, &Part::make_channel},
      {8, &Part::make_cq},     {20, &Part::make_qp},         {5, &Part::make_srq},
      {6, &Part::make_xrcd},   {6, &Part::make_xrc_srq},     {6, &Part::make_target},
      {5, &Part::open_target}, {4, &Part::make_ah},          {7, &Part::mcast},
      {20, &Part::connect_qp}, {24, &Part::traffic},         {5, &Part::notify},
      {6, &Part::poll},        {4, &Part::resize},           {5, &Part::query},
      {2, &Part::to_error},    {12, &Part::destroy_one},     {9, &Part::make_mw},
      {14, &Part::bind_mw},    {5, &Part::make_dm},          {6, &Part::make_dm_mr},
      {5, &Part::rereg},       {2, &Part::take_async_event},
  };
  (this->*kOps[draw<Op>(random_, kOps)].call)();
}

void Part::count(std::array<std::uint32_t, kGoals>& live) const {
  const auto add = [&](std::size_t goal, std::size_t n) {
    live[goal] += static_cast<std::uint32_t>(n);
  };
  const auto matching = [](const auto& pool, auto fits) {
    return static_cast<std::size_t>(std::ranges::count_if(pool, fits));
  };
  const std::size_t xrc_srqs = matching(srqs_, [](const SharedQueue& q) { return q.xrcd; });
  add(kContext, 1);
  add(kPd, pds_.size());
  add(kMr, mrs_.size());
  add(kChannel, channels_.size());
  add(kCq, cqs_.size());
  add(kRc, queues(IBV_QPT_RC));
  add(kUc, queues(IBV_QPT_UC));
  add(kUd, queues(IBV_QPT_UD));
  add(kXrcSend, queues(IBV_QPT_XRC_SEND));
  add(kXrcTarget, queues(IBV_QPT_XRC_RECV));
  add(kOpenedQp, queues(IBV_QPT_XRC_RECV, true));
  add(kSrq, srqs_.size() - xrc_srqs);
  add(kXrcSrq, xrc_srqs);
  add(kXrcd, xrcds_.size());
  add(kAh, ahs_.size());
  add(kMcast, matching(qps_, &Queue::groups));
  add(kMw, mws_.size());
  add(kBound, matching(mws_, &Window::bound));
  add(kDm, dms_.size());
  add(kDmMr, matching(mrs_, &Region::dm));
  add(kConnected, matching(qps_, &Queue::connected));
}

int Part::notify() {
  if (const auto* channel = any(channels_); channel != nullptr && random_.one_in(2)) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(*channel, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
    called("ibv_get_cq_event");
  } else if (const auto* completions = any(cqs_)) {
    ibv_req_notify_cq(completions->cq, static_cast<int>(random_.below(2)));
    called("ibv_req_notify_cq");
  }
  return 0;
}

int Part::to_error() {
  Queue* const queue = any(qps_);
  if (queue == nullptr) return kNothing;
  const ibv_qp_state state = random_.one_in(3) ? IBV_QPS_RESET : IBV_QPS_ERR;
  const int err = to_state(queue->qp, state);
  if (err == 0 && state == IBV_QPS_RESET) queue->connected = false;
  called("ibv_modify_qp to ERR");
  return err;
}

int Part::take_async_event() {
  ibv_async_event event;
  if (ibv_get_async_event(device_, &event) == 0) ibv_ack_async_event(&event);
  called("ibv_get_async_event");
  return 0;
}

Victim::Victim(const Options& options, Shared& shared, Role& role)
    : options_(options), shared_(shared), role_(role), random_(options.seed) {}

Victim::~Victim() = default;

void Victim::step(const char* what) {
  std::array<std::uint32_t, kGoals> live{};
  for (const auto& part : parts_) part->count(live);
  for (const std::size_t goal : {std::size_t{kRereg}, std::size_t{kPosted}, std::size_t{kFork}}) {
    live[goal] = reached_[goal];
  }
  std::ranges::copy(live, role_.live.begin());
  role_.last = what;
  if (++role_.verbs == options_.kill_after) kill(getpid(), SIGKILL);
}

void Victim::note_missing(ibv_context* verbs) {
  ibv_device_attr_ex attr{};
  if (ibv_query_device_ex(verbs, nullptr, &attr) != 0) return;
  const ibv_device_attr& old = attr.orig_attr;
  role_.missing[kSrq] = old.max_srq == 0;
  role_.missing[kMcast] = old.max_mcast_grp == 0;
  role_.missing[kMw] = role_.missing[kBound] = old.max_mw == 0;
  role_.missing[kDm] = role_.missing[kDmMr] = attr.max_dm_size == 0;
  role_.missing[kUd] = role_.missing[kAh] = old.max_ah == 0;
  for (const Goal goal : {kXrcSend, kXrcTarget, kOpenedQp, kXrcSrq, kXrcd}) {
    role_.missing[goal] = (old.device_cap_flags & IBV_DEVICE_XRC) == 0;
  }
}

void Victim::open_device() {
  if (parts_.size() >= 3) return;
  ibv_context* const verbs = open_context(options_.device);
  step("ibv_open_device");
  if (verbs == nullptr) return;
  // Reads must not block on an event that may never come.
  fcntl(verbs->async_fd, F_SETFL, fcntl(verbs->async_fd, F_GETFL) | O_NONBLOCK);
  note_missing(verbs);
  parts_.push_back(
      std::make_unique<Part>(*this, verbs,
                             WalkOptions{.seed = random_.next(),
                                         .how = {.timeout = 14, .max_dest_rd_atomic = 4},
                                         .xrcd_fd = options_.xrcd_fd,
                                         .careful = options_.careful}));
  step("ibv_query_gid");
}

// Closes a device with everything in it: the kernel destroys the objects, and libibverbs' memory
// for them leaks.
void Victim::close_device() {
  if (parts_.size() < 2) return;
  const auto part = parts_.begin() + random_.below(parts_.size());
  ibv_context* const verbs = (*part)->device();
  parts_.erase(part);
  ibv_close_device(verbs);
  step("ibv_close_device");
}

// A child keeps the open device and its mappings beyond its parent's death.
void Victim::fork_holder() {
  if (reached_[kFork] > 0) return;
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  if (child > 0) ++reached_[kFork];
  step("fork");
}

void Victim::one_operation() {
  if (parts_.empty()) return open_device();
  switch (random_.below(206)) {
    case 0:
      return open_device();
    case 1:
      return close_device();
    case 2:
      return fork_holder();
    default:
      return parts_[random_.below(parts_.size())]->one_operation();
  }
}

void Victim::run() {
  for (;;) one_operation();
}

}  // namespace guest::killer
