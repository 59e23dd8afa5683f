// SPDX-License-Identifier: GPL-2.0-or-later
// Doorbell pages: which are handed out, which queues ring through each, and looking at all queues of a page.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/list.h"
#include "memory/page_list.h"

namespace tern {

// A queue as its doorbell page knows it; part of the queue, and leaves the page with it.
class PageQueue {
 public:
  // `look`: as if software had rung each doorbell of the queue.
  PageQueue(void (*look)(void*), void* queue) : look_(look), queue_(queue) {}

 private:
  friend class UarPages;
  Hook<PageQueue> hook_{this};
  void (*look_)(void*);
  void* queue_;
};

class UarPages {
 public:
  // The device is enabled with `count` pages, the kernel's included.
  void enable(std::uint32_t count);
  void reset();  // no queue is left

  [[nodiscard]] Status alloc(std::uint32_t* uar);
  // TERN_ST_BUSY while a queue rings through it.
  [[nodiscard]] Status free(std::uint32_t uar);
  // Whether queues may ring through it.
  [[nodiscard]] bool live(std::uint32_t uar) const { return uar < pages_.size() && pages_[uar]; }
  [[nodiscard]] std::uint32_t handed_out() const { return handed_out_; }

  // `uar` is live.
  void add(std::uint32_t uar, PageQueue& queue) { pages_[uar]->queues.push_back(queue.hook_); }

  // TERN_DB_CMD_PAGE: run() looks at every queue of the page. False: there is no such page.
  [[nodiscard]] bool ring(std::uint32_t uar);
  // Looks at up to `most` queues; returns how many it was.
  std::uint32_t run(std::uint32_t most);
  // Whether run() has more to do.
  [[nodiscard]] bool pending() const { return !rung_.empty(); }

 private:
  // With many queues on a page, the other pages are not kept waiting.
  static constexpr std::uint32_t kTurn = 64;

  struct Page {
    List<PageQueue> queues;  // all but
    List<PageQueue> unseen;  // those that run() has still to look at
    Hook<Page> rung{this};
  };
  std::vector<std::unique_ptr<Page>> pages_;  // null: not handed out
  List<Page> rung_;
  std::uint32_t handed_out_ = 0;
  std::uint32_t next_ = 1;  // where the search for a free page goes on
};

}  // namespace tern
