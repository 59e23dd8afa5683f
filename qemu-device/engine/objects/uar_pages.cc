// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects/uar_pages.h"

#include <algorithm>

namespace tern {

void UarPages::enable(std::uint32_t count) {
  pages_.resize(count);
  pages_[TERN_UAR_KERNEL] = std::make_unique<Page>();
}

void UarPages::reset() {
  pages_.clear();
  handed_out_ = 0;
  next_ = 1;
}

// Searches from the page after the last one allocated, so that a freed page is not reused at once.
Status UarPages::alloc(Use use, std::uint32_t* uar) {
  const auto count = static_cast<std::uint32_t>(pages_.size());
  if (handed_out_ + 1 >= count) return TERN_ST_NO_RESOURCE;
  std::uint32_t free = next_ % count;
  while (pages_[free]) free = (free + 1) % count;
  pages_[free] = std::make_unique<Page>();
  pages_[free]->use = use;
  ++handed_out_;
  next_ = free + 1;
  *uar = free;
  return TERN_ST_OK;
}

Status UarPages::free(std::uint32_t uar) {
  if (uar == TERN_UAR_KERNEL || !allocated(uar)) return TERN_ST_BAD_HANDLE;
  if (used(uar)) return TERN_ST_BUSY;
  pages_[uar].reset();
  --handed_out_;
  return TERN_ST_OK;
}

// Also requeues queues that run() has served already: they may have been written since.
bool UarPages::ring(std::uint32_t uar) {
  if (!live(uar)) return false;
  Page& page = *pages_[uar];
  page.unseen.take_all(page.queues);
  if (!page.rung.linked()) rung_.push_back(page.rung);
  return true;
}

std::uint32_t UarPages::run(std::uint32_t most) {
  std::uint32_t looked = 0;
  while (looked < most) {
    Page* const page = rung_.pop_front();
    if (page == nullptr) break;
    const std::uint32_t end = std::min(most, looked + kTurn);
    while (looked < end) {
      PageQueue* const queue = page->unseen.pop_front();
      if (queue == nullptr) break;
      page->queues.push_back(*queue);
      ++looked;
      queue->recheck_(queue->queue_);
    }
    if (!page->unseen.empty()) rung_.push_back(page->rung);
  }
  return looked;
}

}  // namespace tern
