// SPDX-License-Identifier: GPL-2.0-or-later
// Doorbell (UAR) pages: allocation, the queues of each page, and service of all queues of a page.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/list.h"
#include "memory/page_list.h"

namespace tern {

// A queue's entry in the list of its doorbell page. The queue contains it, so it leaves the list
// with the queue.
class PageQueue : public BaseHook<PageQueue> {
 public:
  // `recheck` acts as if software had rung every doorbell of the queue.
  PageQueue(void (*recheck)(void*), void* queue) : recheck_(recheck), queue_(queue) {}

 private:
  friend class UarPages;
  void (*recheck_)(void*);
  void* queue_;
};

class UarPages {
 public:
  // Enables `count` pages; the kernel's page is one of them.
  void enable(std::uint32_t count);
  void reset();  // call it when no queue is left

  // Use of a page of BAR2: doorbells of queues, or an operation on device memory.
  enum class Use : std::uint8_t { kQueues, kDmOp };
  [[nodiscard]] Status alloc(Use use, std::uint32_t* uar);
  // Returns TERN_ST_BUSY while queues use the page.
  [[nodiscard]] Status free(std::uint32_t uar);
  // Whether queues may use the page.
  [[nodiscard]] bool live(std::uint32_t uar) const {
    return allocated(uar) && pages_[uar]->use == Use::kQueues;
  }
  [[nodiscard]] std::uint32_t handed_out() const { return handed_out_; }

  // Takes the queue from another lane if it is there. `uar` must be live in lane 0, which has the
  // allocation of all pages.
  void add(std::uint32_t uar, PageQueue& queue) {
    queue.unlink();
    if (!pages_[uar]) pages_[uar] = std::make_unique<Page>();
    pages_[uar]->queues.push_back(queue);
  }
  // Another lane than lane 0: forgets a page that lane 0 has freed.
  void forget(std::uint32_t uar) { pages_[uar].reset(); }
  // Whether queues use the page.
  [[nodiscard]] bool used(std::uint32_t uar) const {
    return allocated(uar) && !(pages_[uar]->queues.empty() && pages_[uar]->unseen.empty());
  }

  // TERN_DB_CMD_PAGE: makes run() serve every queue of the page. Returns false if there is no such
  // page.
  [[nodiscard]] bool ring(std::uint32_t uar);
  // Serves up to `most` queues and returns their number.
  std::uint32_t run(std::uint32_t most);
  // Saved state, and that of a queue of a live page. `of_home`: those of lane 0, which allocates
  // the pages.
  void state(Archive& ar, const UarPages& of_home);
  void queue_state(Archive& ar, std::uint32_t uar, PageQueue& queue);
  // Whether run() has more to do.
  [[nodiscard]] bool pending() const { return !rung_.empty(); }

 private:
  // Queues of one page in a row, so that a page with many queues does not delay other pages.
  static constexpr std::uint32_t kTurn = 64;

  struct Page {
    List<PageQueue, BaseHook<PageQueue>> queues;  // queues that run() need not serve
    List<PageQueue, BaseHook<PageQueue>> unseen;  // queues that run() still has to serve
    Hook<Page> rung{this};
    Use use = Use::kQueues;
  };
  [[nodiscard]] bool allocated(std::uint32_t uar) const {
    return uar < pages_.size() && pages_[uar];
  }
  std::vector<std::unique_ptr<Page>> pages_;  // null: not allocated
  List<Page> rung_;
  std::uint32_t handed_out_ = 0;
  std::uint32_t next_ = 1;  // where the search for a free page starts
};

}  // namespace tern
