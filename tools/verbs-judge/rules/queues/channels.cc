// SPDX-License-Identifier: GPL-2.0-or-later
// Completion channels, contexts and vectors of CQs, and what destroys them.
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "queues.h"

namespace guest::queues {
namespace {

struct Event {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
};

// Does not acknowledge the event.
Event next_event(ibv_comp_channel* channel) {
  pollfd fd{.fd = channel->fd, .events = POLLIN, .revents = 0};
  require(::poll(&fd, 1, kSoon) == 1, "no event");
  Event event;
  if (ibv_get_cq_event(channel, &event.cq, &event.context) != 0) fail_errno("ibv_get_cq_event");
  return event;
}

// CQs that share a channel, each for the sends of a QP.
class Shared {
 public:
  Shared(const Device& dev, std::size_t count)
      : channel_(ibv_create_comp_channel(dev.context())), marks_(count) {
    if (!channel_) fail_errno("ibv_create_comp_channel");
    for (std::size_t i = 0; i < count; i++) {
      cqs_.emplace_back(ibv_create_cq(dev.context(), 16, &marks_[i], channel_.get(), 0));
      if (!cqs_.back()) fail_errno("ibv_create_cq");
      PairOptions options;
      options.local.send_cq = cqs_.back().get();
      pairs_.push_back(std::make_unique<Pair>(dev, options));
    }
  }
  [[nodiscard]] ibv_comp_channel* channel() const { return channel_.get(); }
  [[nodiscard]] ibv_cq* cq(std::size_t i) const { return cqs_.at(i).get(); }
  [[nodiscard]] const void* mark(std::size_t i) const { return &marks_[i]; }
  [[nodiscard]] std::size_t size() const { return cqs_.size(); }
  void arm(std::size_t i) const {
    require_err(ibv_req_notify_cq(cq(i), 0), 0, "ibv_req_notify_cq");
  }
  void write(std::size_t i) const {
    pairs_.at(i)->post(pairs_.at(i)->request(IBV_WR_RDMA_WRITE, 8));
  }
  void take(std::size_t i) const { require_status(poll(cq(i), 1).front(), 0, IBV_WC_SUCCESS); }
  void close_pair(std::size_t i) { pairs_.at(i).reset(); }
  // Gives up the CQ.
  [[nodiscard]] ibv_cq* release(std::size_t i) { return cqs_.at(i).release(); }

 private:
  ChannelPtr channel_;
  std::vector<int> marks_;
  std::vector<CqPtr> cqs_;
  std::vector<std::unique_ptr<Pair>> pairs_;
};

void shared_channel(const Env& env) {
  const Shared s(env.dev, 4);
  for (std::size_t round = 0; round < 12; round++) {
    const std::size_t i = round * 7 % s.size();
    for (std::size_t n = 0; n < s.size(); n++) s.arm(n);
    s.write(i);
    const Event event = next_event(s.channel());
    ibv_ack_cq_events(event.cq, 1);
    require(event.cq == s.cq(i), "the event names another CQ");
    require(event.context == s.mark(i), "the event has another cq_context");
    s.take(i);
  }
  for (std::size_t i = 0; i < s.size(); i++) {
    require(s.cq(i)->cq_context == s.mark(i), "cq_context of the CQ");
  }
}

void ack_batch(const Env& env) {
  Shared s(env.dev, 1);
  constexpr unsigned kEvents = 20;
  for (unsigned i = 0; i < kEvents; i++) {
    s.arm(0);
    s.write(0);
    static_cast<void>(next_event(s.channel()));
    s.take(0);
  }
  ibv_ack_cq_events(s.cq(0), kEvents);
  s.close_pair(0);
  require_err(ibv_destroy_cq(s.release(0)), 0, "ibv_destroy_cq");
}

// "To avoid races, destroying a CQ will wait for all completion events to be acknowledged."
void destroy_waits(const Env& env) {
  Shared s(env.dev, 1);
  s.arm(0);
  s.write(0);
  const Event event = next_event(s.channel());
  s.take(0);
  s.close_pair(0);
  std::atomic<bool> gone = false;
  std::atomic<int> err = 0;
  ibv_cq* const cq = s.release(0);
  std::thread destroyer([&] {
    err = ibv_destroy_cq(cq);
    gone = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(kNever));
  const bool early = gone;
  if (!early) ibv_ack_cq_events(event.cq, 1);
  destroyer.join();
  require(!early, "ibv_destroy_cq has not waited for the acknowledgement");
  require_err(err, 0, "ibv_destroy_cq");
}

void busy(const Env& env) {
  const Shared s(env.dev, 1);
  require_refused(ibv_destroy_cq(s.cq(0)), EBUSY, "ibv_destroy_cq while a QP uses it");
  require_refused(ibv_destroy_comp_channel(s.channel()), EBUSY,
                  "ibv_destroy_comp_channel while a CQ uses it");
  s.arm(0);
  s.write(0);
  const Event event = next_event(s.channel());
  ibv_ack_cq_events(event.cq, 1);
  s.take(0);
}

void vectors(const Env& env) {
  const int count = env.dev.context()->num_comp_vectors;
  require(count >= 1, "num_comp_vectors is {}", count);
  for (int vector = 0; vector < std::min(count, 64); vector++) {
    const ChannelPtr channel(ibv_create_comp_channel(env.dev.context()));
    const CqPtr cq(ibv_create_cq(env.dev.context(), 16, nullptr, channel.get(), vector));
    if (!cq) fail("vector {} of {}: {}", vector, count, errno_name(errno));
    PairOptions options;
    options.local.send_cq = cq.get();
    const Pair pair(env.dev, options);
    require_err(ibv_req_notify_cq(cq.get(), 0), 0, "ibv_req_notify_cq");
    pair.post(pair.request(IBV_WR_RDMA_WRITE, 8));
    require(wait_event(channel.get(), kSoon), "no event by vector {}", vector);
    pair.expect(0);
  }
  for (const int wrong : {count, -1}) {
    const CqPtr cq(ibv_create_cq(env.dev.context(), 16, nullptr, nullptr, wrong));
    require_refused(cq ? 0 : errno, EINVAL, "a comp_vector out of range");
  }
}

// Without events a CQ needs no channel.
void no_channel(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 16);
  PairOptions options;
  options.local.send_cq = cq.get();
  const Pair pair(env.dev, options);
  pair.run(pair.request(IBV_WR_RDMA_WRITE, 8));
  require(cq->channel == nullptr, "a channel that was not asked for");
}

// One CQ has the completions of both queues of several QPs, each once.
void one_for_all(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 64);
  EndSpec spec;
  spec.send_cq = spec.recv_cq = cq.get();
  const PairOptions options = alike(spec);
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 3; i++) pairs.push_back(std::make_unique<Pair>(env.dev, options));
  for (std::uint64_t round = 0; round < 5; round++) {
    for (std::uint64_t i = 0; i < pairs.size(); i++) {
      pairs[i]->recv(100 + i, 0, 8);
      pairs[i]->post(pairs[i]->request(IBV_WR_SEND, 8, 0, 0, i));
    }
    std::array<int, 3> sends{};
    std::array<int, 3> recvs{};
    for (const ibv_wc& wc : poll(cq.get(), 6)) {
      require(wc.status == IBV_WC_SUCCESS, "{}", ibv_wc_status_str(wc.status));
      const bool recv = wc.wr_id >= 100;
      const std::size_t i = wc.wr_id - (recv ? 100 : 0);
      require(i < pairs.size(), "wr_id {}", wc.wr_id);
      const std::uint32_t qpn =
          recv ? pairs[i]->remote.endpoint().qpn : pairs[i]->local.qp()->qp_num;
      require(wc.qp_num == qpn, "qp_num {:#x}", wc.qp_num);
      (recv ? recvs : sends).at(i)++;
    }
    require(sends == std::array{1, 1, 1} && recvs == sends, "a completion is missing");
  }
  expect_quiet(cq.get(), 5);
}

void poll_nothing(const Env& env) {
  Rig rig(env.dev);
  ibv_wc wc{};
  require(ibv_poll_cq(rig.cq(), 1, &wc) == 0, "a completion of an empty CQ");
  rig.write();
  rig.settle();
  require(ibv_poll_cq(rig.cq(), 0, &wc) == 0, "ibv_poll_cq for no completions returns one");
  rig.poll_all(2);
}

// An event of a QP that was not acknowledged keeps the QP.
void async_waits(const Env& env) {
  auto pair = std::make_unique<Pair>(env.dev);
  Send bad = pair->request(IBV_WR_RDMA_WRITE, 8);
  bad.rkey ^= 0xffff00;
  pair->run(bad, Api::kPost, IBV_WC_REM_ACCESS_ERR);
  pollfd fd{.fd = env.dev.context()->async_fd, .events = POLLIN, .revents = 0};
  ibv_async_event event{};
  if (::poll(&fd, 1, 2000) != 1) {
    require_usual(false, "no event of a responder that refuses an access");
    skip("no event of a QP");
  }
  if (ibv_get_async_event(env.dev.context(), &event) != 0) fail_errno("ibv_get_async_event");
  std::atomic<bool> gone = false;
  std::thread destroyer([&] {
    pair.reset();
    gone = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(kNever));
  const bool early = gone;
  ibv_ack_async_event(&event);
  destroyer.join();
  require(!early, "ibv_destroy_qp has not waited for the acknowledgement");
}

}  // namespace

Rules channels() {
  return {
      {"shared_channel", "an event names its CQ, with the cq_context, on a channel of several",
       shared_channel},
      {"ack_batch", "ibv_ack_cq_events acknowledges several events at once", ack_batch},
      {"destroy_waits", "ibv_destroy_cq waits until its events are acknowledged", destroy_waits},
      {"busy", "a CQ that a QP uses, and a channel that a CQ uses, cannot be destroyed", busy},
      {"vectors", "each completion vector below num_comp_vectors gives events", vectors},
      {"no_channel", "a CQ needs no channel", no_channel},
      {"one_for_all", "one CQ can have the completions of both queues of several QPs", one_for_all},
      {"poll_nothing", "ibv_poll_cq for no completions takes none", poll_nothing},
      {"async_waits", "ibv_destroy_qp waits until its asynchronous events are acknowledged",
       async_waits, "ibv_get_async_event(3)"},
  };
}

}  // namespace guest::queues
