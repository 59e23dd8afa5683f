// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>
#include <cstring>

#include "core/limits.h"
#include "objects/queues.h"

namespace tern {

namespace {

constexpr std::size_t kWord = sizeof(std::uint32_t);

// Rings start on a cache line.
constexpr std::uint64_t kRingAlign = TERN_RECORD_LINE;

}  // namespace

bool dma_publish(Host& host, std::uint64_t addr, std::span<const std::byte> from) {
  if (from.size() < kWord) return false;  // no entry is this short
  const std::size_t body = from.size() - kWord;
  std::uint32_t last;
  std::memcpy(&last, from.data() + body, kWord);
  last = le(last);
  const auto span = host.reach(addr, from.size(), true);
  if (span.size() == from.size()) {
    std::memcpy(span.data(), from.data(), body);
    store_release32(span.data() + body, le(last));
    host.release(span, true, from.size());
    return true;
  }
  if (!span.empty()) host.release(span, true, 0);
  return dma_write(host, addr, from.first(body)) && dma_store32(host, addr + body, last);
}

Status QueueBuffer::load(Host& host, const tern_pages& pages, std::uint64_t bytes) {
  tern_pages used = pages;
  std::uint64_t need = 0;
  if (pages.kind == TERN_PAGES_DIRECT) {
    const std::uint64_t addr = le(pages.addr);
    if (addr % kRingAlign != 0 || addr + bytes < addr) return TERN_ST_BAD_PARAM;
  } else {
    if (pages.page_shift < kPageShiftMin || pages.page_shift > kPageShiftMax) {
      return TERN_ST_BAD_PARAM;
    }
    need = ((bytes - 1) >> pages.page_shift) + 1;
    if (need > le(pages.num) || need > kMaxCmdPages) return TERN_ST_BAD_PARAM;
    used.num = le(static_cast<std::uint32_t>(need));
  }
  if (!budget_->charge(need)) return TERN_ST_NO_MEMORY;
  budget_->work(need);
  const Status st = pages_.load(host, used, need);
  if (st != TERN_ST_OK) budget_->release(need);
  return st;
}

bool QueueBuffer::read(Host& host, std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const PageList::Run run = pages_.at(offset, to.size());
    if (run.len == 0 || !dma_read(host, run.addr, to.first(run.len))) return false;
    offset += run.len;
    to = to.subspan(run.len);
  }
  return true;
}

bool QueueBuffer::publish(Host& host, std::uint64_t offset, std::span<const std::byte> from) const {
  const PageList::Run run = pages_.at(offset, from.size());
  return run.len == from.size() && dma_publish(host, run.addr, from);
}

}  // namespace tern
