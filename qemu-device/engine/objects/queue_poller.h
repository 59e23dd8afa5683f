// SPDX-License-Identifier: GPL-2.0-or-later
// Polling of the queues of a kind whose software rings often. Software need not ring while a queue
// is polled: a status word in the queue's record says so.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "core/polled.h"
#include "core/types.h"
#include "objects/context.h"

namespace tern {

// `Queue` has a member `polled`. `Access` has these static functions:
//   bool may_poll(const Queue&)          the queue's state allows polling
//   bool moved(Context&, Queue&)         the producer index has moved, or cannot be read, and the
//                                        queue is not waiting to be served
//   void kick(Queue&)                    has the queue served, as a doorbell does
//   std::uint32_t uar(const Queue&)      the doorbell page of its process
//   void store_status(Context&, Queue&)  stores in the record whether the queue is polled; a full
//                                        barrier follows
//
// A period is `kPeriod` doorbells.
template <class Queue, class Access, std::uint32_t kPeriod = 64>
class QueuePoller {
 public:
  // `doorbell_cost`: Config::doorbell_cost. The more a doorbell costs, the less often a queue must
  // ring to be polled, and the longer it is polled without work: up to ten times kMaxPatience.
  QueuePoller(Context& context, Nanos doorbell_cost)
      : context_(context),
        dense_limit_(Nanos{kPeriod} * 4 * doorbell_cost),
        patience_(static_cast<std::uint16_t>(
            std::max<Nanos>(std::min(doorbell_cost, kMaxPatience) * 512 / 1000, 64))) {}

  // Allows polling from time `from` on; kNever forbids it. The host promises to run the device, or
  // to call poll(), again and again from then on while any() holds. Releases all queues polled so
  // far.
  void allow(Nanos from) {
    from_ = from;
    dense_ = false;
    rings_ = 0;
    while (count_ != 0) release(*queues_[count_ - 1]);
  }
  // Counts a doorbell of the queue.
  void rung(Queue& queue) {
    if (from_ != kNever) count(queue);
  }
  // Starts to poll the queue if its state allows that and a place is free, as if it had been rung
  // often. If none is free, a process with more queues polled gives one up.
  void begin(Queue& queue) {
    if (queue.polled.on || !Access::may_poll(queue)) return;
    if (count_ == kMost) {
      Queue* const other = least_used(queue);
      if (other == nullptr) return;
      release(*other);
    }
    queues_[count_++] = &queue;
    queue.polled.on = true;
    queue.polled.idle = 0;
    queue.polled.moved_at = polling_;
    Access::store_status(context_, queue);
  }
  // Stops polling a queue that is being destroyed, or whose status the caller is about to store.
  void forget(Queue& queue) {
    if (!queue.polled.on) return;
    queue.polled.on = false;
    queue.polled.rings = 0;
    *std::find(queues_.begin(), queues_.begin() + count_, &queue) = queues_[count_ - 1];
    --count_;
  }
  // Stops polling the queue: its software has to ring again. WQEs posted before software could see
  // that are found.
  void release(Queue& queue) {
    if (!queue.polled.on) return;
    forget(queue);
    Access::store_status(context_, queue);
    if (Access::moved(context_, queue)) Access::kick(queue);
  }
  // Polls: kicks each queue whose producer index has moved, and releases each queue that was idle
  // too often or too long.
  void poll() {
    if (++polls_ % kClockPolls == 0) read_clock();
    for (std::size_t i = count_; i-- > 0;) {
      Queue& queue = *queues_[i];
      Polled& p = queue.polled;
      if (Access::moved(context_, queue)) {
        p.idle -= std::min(p.idle, worth());
        p.moved_at = polling_;
        Access::kick(queue);
      } else if (++p.idle >= patience_ || polling_ - p.moved_at > kLongestIdle) {
        release(queue);
      }
    }
  }
  [[nodiscard]] bool any() const { return count_ != 0; }
  // Saved state. number(queue), and find(number): null if there is no such queue.
  template <class Number, class Find>
  void state(Archive& ar, Number number, Find find) {
    ar(polls_, polling_, read_at_, from_, dense_, began_, period_, rings_);
    const std::uint32_t left = ar.count(count_, kMost);
    for (std::uint32_t i = 0; i < left && ar.ok(); ++i) {
      std::uint32_t id = ar.reading() ? 0 : number(*queues_[i]);
      ar(id);
      if (!ar.reading()) continue;
      Queue* const queue = find(id);
      if (!ar.require(queue != nullptr && !queue->polled.on && Access::may_poll(*queue),
                      "a queue cannot be polled"))
        return;
      queue->polled.on = true;
      queues_[count_++] = queue;
    }
  }

 private:
  // Returns the longest idle queue of the processes that have at least two polled queues more than
  // the process of `queue`; null if there is none.
  [[nodiscard]] Queue* least_used(const Queue& queue) const {
    const auto polled = std::span(queues_).first(count_);
    const auto share = [&](std::uint32_t uar) {
      return std::ranges::count_if(polled,
                                   [uar](const Queue* q) { return Access::uar(*q) == uar; });
    };
    const auto own = share(Access::uar(queue));
    // No process has enough queues. The common case, on each doorbell of a queue without a place.
    if (own + 2 > std::ssize(polled) - own) return nullptr;
    Queue* found = nullptr;
    for (Queue* const other : polled) {
      if (share(Access::uar(*other)) < own + 2) continue;
      if (found == nullptr || other->polled.idle > found->polled.idle) found = other;
    }
    return found;
  }
  // Limit of polled queues: more would make each poll slow. Enough for one or two busy connections
  // of each process.
  static constexpr std::size_t kMost = 16;
  // Number of doorbells of one queue in a period that makes it worth polling.
  static constexpr std::uint8_t kRings = 4;
  static constexpr Nanos kMaxPatience = 100'000;
  // A queue that is idle for this long (us) is released, however few polls that were: a host that
  // does other work in between takes a microsecond for each. A time slice of the kernel is shorter.
  static constexpr std::uint32_t kLongestIdle = 5'000;
  // Number of polls between two reads of the clock.
  static constexpr std::uint32_t kClockPolls = 256;
  static constexpr std::uint64_t kLongestPoll = 4;  // us

  // Advances polling_. A longer pause of the host does not mean that queues were idle.
  void read_clock() {
    const Nanos now = context_.host.now();
    polling_ +=
        static_cast<std::uint32_t>(std::min((now - read_at_) / 1000, kLongestPoll * kClockPolls));
    read_at_ = now;
  }

  void count(Queue& queue) {
    if (rings_++ == kPeriod) {
      const Nanos now = context_.host.now();
      dense_ = now - began_ <= dense_limit_ && now >= from_;
      began_ = now;
      rings_ = 1;
      ++period_;
    }
    Polled& p = queue.polled;
    if (p.period != period_) {
      p.period = period_;
      p.rings = 0;
    }
    if (++p.rings >= kRings && dense_) begin(queue);
  }
  // Number of polls without work that one poll with work outweighs.
  [[nodiscard]] std::uint16_t worth() const { return patience_ / 2; }

  Context& context_;
  // Doorbells are dense if a period is no longer than this: four times their cost.
  const Nanos dense_limit_;
  // Polls without work after which a queue is released, at about 20 ns each: ten times the cost of
  // a doorbell.
  const std::uint16_t patience_;
  std::array<Queue*, kMost> queues_{};
  std::size_t count_ = 0;
  std::uint32_t polls_ = 0;
  std::uint32_t polling_ = 0;  // time spent polling, us
  Nanos read_at_ = 0;          // when polling_ was advanced
  Nanos from_ = kNever;
  bool dense_ = false;  // the last period was no longer than dense_limit_
  Nanos began_ = 0;     // start of this period
  std::uint32_t period_ = 1;
  std::uint32_t rings_ = 0;  // in this period
};

}  // namespace tern
