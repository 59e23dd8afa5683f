// SPDX-License-Identifier: GPL-2.0-or-later
// Saved state of the objects that queue pairs refer to.
#include <algorithm>
#include <vector>

#include "core/archive.h"
#include "objects/comp_counter.h"
#include "objects/context.h"
#include "objects/queues.h"
#include "objects/srq.h"
#include "objects/tag_list.h"

namespace tern {

// ---- event and completion queues ----

void Eq::state(Archive& ar) {
  if (!ar.require(check() == TERN_ST_OK, "an event queue is wrong")) return;
  buffer_.state(ar);
  ar(pi_, ci_);
  ar.require(pi_ - ci_ <= size(), "an event queue has too many events");
}

void Cq::state(Archive& ar) {
  ar.list(users_);
  ar.list(notified_);
  buffer_.state(ar);
  ar(serial_, base_, pi_, solicited_end_, reported_, unreported_solicited_, eqe_index_, pending_);
  ar(ci_, armed_word_, count_, period_, log_size_, fired_seq_, armed_seq_);
  ar(eqe_posted_, armed_, armed_solicited_, broken_);
  const bool timed = ar.timer(period_end_, context_->timers);
  const bool written = ar.member(written_, {&context_->written_cqs});
  const bool failed = ar.member(failed_, {&context_->failed_cqs});
  context_->uars.queue_state(ar, uar(), page_queue_);
  ar.group(lane_member, *context_);
  ar.require(log_size_ >= kMinLogCq && log_size_ <= kMaxLogCq && record_.fits<tern_cq_record>() &&
                 base_ <= pi_ && reported_ <= pi_ && (count_ <= 1 || period_ != 0),
             "a completion queue is wrong");
  ar.require(eq_ != nullptr || (!armed_ && !written && !timed),
             "a completion queue reports to no event queue");
  ar.require(!failed || broken_, "a completion queue fails without a reason");
}

// ---- shared receive queues ----

void Srq::state(Archive& ar) {
  ar(serial_, ci_, limit_, log_size_, failed_);
  ar.require(check() == TERN_ST_OK, "a shared receive queue is wrong");
  buffer_.state(ar);
  if (ar.ok() && (cmd_.flags & TERN_SRQ_F_TM)) {
    if (ar.reading()) tags_ = std::make_unique<TagList>(*context_, cmd_, *this, *cq_);
    tags_->state(ar);
  }
  if (cq_ != nullptr) cq_->user_state(ar, cq_user_);
  ar.group(lane_member, *context_);
}

// Each number is free, in the list, or held by one message.
bool TagList::claim(std::uint32_t number) {
  if (number >= known_.size() || known_[number]) return false;
  known_[number] = true;
  return true;
}

bool TagList::consistent() {
  known_.assign(slots_.size(), false);
  const auto once = [this](std::uint32_t number) { return claim(number); };
  return std::ranges::all_of(free_, once) &&
         std::ranges::all_of(order_, once, [](const Entry& e) { return e.slot; }) &&
         ready_ <= order_.size();
}

void TagList::state(Archive& ar) {
  if (ar.reading() && !ar.require(allocate() == TERN_ST_OK && record_.fits<tern_srq_record>(),
                                  "a tag list is wrong"))
    return;
  ring_.state(ar);
  for (Slot& slot : slots_) {
    Held& held = slot.held;
    ar(slot.handle, held.recv_wr_id, held.num_sge, held.sges);
    ar.require(held.num_sge <= held.sges.size(), "a tag has too many SGEs");
  }
  free_.resize(ar.count(free_.size(), max_tags_));
  for (std::uint32_t& number : free_) ar(number);
  order_.resize(ar.count(order_.size(), max_tags_));
  for (Entry& entry : order_) ar(entry.tag, entry.mask, entry.slot);
  std::uint64_t ready = ready_;
  ar(ready, ci_, released_, unexpected_, handled_);
  ready_ = ready;
  ar.require(!ar.reading() || consistent(), "a tag list is inconsistent");
  (void)ar.member(pending, {&context_->tag_lists});
  context_->uars.queue_state(ar, uar_, page_queue_);
}

void CompCounter::state(Archive& ar) {
  ar(values_);
  ar.require(valid(), "a completion counter is wrong");
  ar.group(lane_member, *context_);
}

// ---- events ----

void AsyncEvents::state(Archive& ar) {
  if (!ar.section("events")) return;
  std::uint32_t left = ar.count(waiting_.size(), UINT32_MAX);
  const auto item = [&](Event& event) { ar(event.type, event.id, event.generation); };
  if (!ar.reading()) {
    for (auto& [key, event] : waiting_) item(event);
    return;
  }
  for (Event event{}; left != 0 && ar.ok(); --left) {
    item(event);
    if (!ar.require(known_.emplace(event, next_).second, "an event waits twice")) return;
    waiting_.emplace(next_++, event);
  }
}

void PageFaults::state(Archive& ar) {
  if (!ar.section("page faults")) return;
  ar(tokens_);
  ar.list(waiting_);
}

void PageFaults::fault_state(Archive& ar, Fault& fault) {
  ar(fault.state);
  if (!ar.require(fault.state <= Fault::State::kReported, "a page fault is wrong")) return;
  if (fault.state == Fault::State::kNone) return;
  ar(fault.addr, fault.length, fault.key, fault.qpn, fault.side, fault.write, fault.port,
     fault.token);
  const bool waits = ar.member(fault.hook, {&waiting_});
  ar.require(waits == (fault.state == Fault::State::kWaiting), "a page fault waits in vain");
  if (ar.reading()) ++parked_;
}

// ---- doorbell pages ----

void UarPages::state(Archive& ar, const UarPages& of_home) {
  if (!ar.section("doorbell pages")) return;
  const auto count = static_cast<std::uint32_t>(
      std::ranges::count_if(pages_, [](const auto& page) { return page != nullptr; }));
  ar(next_);
  ar.list(rung_);
  std::uint32_t left = ar.count(count, pages_.size());
  std::uint32_t uar = 0;
  const auto item = [&](Page& page) {
    ar(page.use);
    ar.require(page.use <= Use::kDmOp, "a doorbell page has a wrong use");
    ar.list(page.queues);
    ar.list(page.unseen);
    (void)ar.member(page.rung, {&rung_});
  };
  if (!ar.reading()) {
    for (; uar < pages_.size(); ++uar) {
      if (!pages_[uar]) continue;
      ar(uar);
      item(*pages_[uar]);
    }
    return;
  }
  // enable() has made the kernel's page.
  std::vector<bool> seen(pages_.size());
  for (; left != 0 && ar.ok(); --left) {
    ar(uar);
    const bool home = this == &of_home;
    if (!ar.require(uar < pages_.size() && !seen[uar] && (home || of_home.live(uar)),
                    "there is no such doorbell page"))
      return;
    seen[uar] = true;
    if (uar != TERN_UAR_KERNEL) pages_[uar] = std::make_unique<Page>();
    item(*pages_[uar]);
    if (home && uar != TERN_UAR_KERNEL) ++handed_out_;
  }
}

void UarPages::queue_state(Archive& ar, std::uint32_t uar, PageQueue& queue) {
  if (!ar.require(live(uar), "a queue has no doorbell page")) return;
  const bool listed = ar.member(queue, {&pages_[uar]->queues, &pages_[uar]->unseen});
  ar.require(listed, "a queue is not in its doorbell page");
}

}  // namespace tern
