// SPDX-License-Identifier: GPL-2.0-or-later
// Operations on memory windows, device memory and reregistered regions.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "walk.h"

namespace guest::killer {

void Walk::make_mw() {
  const auto* pd = any(pds_);
  if (pd == nullptr || mws_.size() >= 10 || role_.missing[kMw]) return;
  if (ibv_mw* mw = ibv_alloc_mw(pd->object, random_.one_in(2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2)) {
    mws_.push_back({pd->context, mw, pd->object});
  }
  step("ibv_alloc_mw");
}

// Binds the window. A type 2 window that is bound is invalidated instead, since only a free one can
// be bound. Returns whether the window is bound now.
bool Walk::post_bind(Queue& queue, Window& window, const Region& region) {
  ibv_mw_bind_info info = {};
  info.mr = region.object;
  info.addr = reinterpret_cast<std::uint64_t>(region.object->addr);  // 0 in device memory
  info.length = region.object->length;
  info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (window.object->type == IBV_MW_TYPE_1) {
    ibv_mw_bind bind = {};
    bind.bind_info = info;
    bind.send_flags = random_.one_in(2) ? +IBV_SEND_SIGNALED : 0U;
    return ibv_bind_mw(queue.object, window.object, &bind) == 0 || window.bound;
  }
  ibv_send_wr* bad = nullptr;
  ibv_send_wr wr = {};
  if (window.bound) {
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = window.object->rkey;
    return ibv_post_send(queue.object, &wr, &bad) != 0;
  }
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = window.object;
  wr.bind_mw.rkey = ibv_inc_rkey(window.object->rkey);
  wr.bind_mw.bind_info = info;
  if (ibv_post_send(queue.object, &wr, &bad) != 0) return false;
  window.object->rkey = wr.bind_mw.rkey;
  return true;
}

// One in eight ignores whether the region allows binds: such a bind can fail, and the QP with it.
void Walk::bind_mw() {
  auto* window = any(mws_);
  if (window == nullptr) return;
  const bool blind = random_.one_in(8);
  const auto region = std::ranges::find_if(
      mrs_, [&](const Region& r) { return r.object->pd == window->pd && (blind || r.bindable); });
  const auto queue = std::ranges::find_if(qps_, [&](const Queue& q) {
    return q.connected && q.object->pd == window->pd && q.kind != kUd;
  });
  if (region == mrs_.end() || queue == qps_.end()) return;
  window->bound = post_bind(*queue, *window, *region);
  step("ibv_bind_mw");
}

void Walk::make_dm() {
  if (contexts_.empty() || dms_.size() >= 6 || role_.missing[kDm]) return;
  ibv_context* verbs = contexts_[random_.below(contexts_.size())].verbs;
  ibv_alloc_dm_attr attr = {};
  attr.length = 4 * (1 + random_.below(8192));
  attr.log_align_req = random_.below(16);
  if (ibv_dm* dm = ibv_alloc_dm(verbs, &attr)) {
    const std::array<std::uint32_t, 1> word = {0xfeedface};
    ibv_memcpy_to_dm(dm, 4 * random_.below(attr.length / 4), word.data(), sizeof(word));
    dms_.push_back({verbs, dm});
  }
  step("ibv_alloc_dm");
}

void Walk::make_dm_mr() {
  const auto* dm = any(dms_);
  if (dm == nullptr || mrs_.size() >= 16) return;
  const auto* pd = any(pds_, dm->context);
  if (pd == nullptr) return;
  // May exceed the allocation: the device refuses such a region.
  const std::uint64_t offset = random_.below(1024);
  const std::size_t length = 1 + random_.below(2048);
  const bool bindable = random_.one_in(2);
  const int access = kRegionAccess | IBV_ACCESS_ZERO_BASED | (bindable ? IBV_ACCESS_MW_BIND : 0);
  ibv_mr* mr = ibv_reg_dm_mr(pd->object, dm->object, offset, length, static_cast<unsigned>(access));
  if (mr != nullptr) mrs_.push_back({dm->context, mr, pd->object, bindable, dm->object});
  step("ibv_reg_dm_mr");
}

void Walk::rereg_mr() {
  auto* mr = any(mrs_);
  if (mr == nullptr || role_.missing[kRereg]) return;
  const auto* pd = any(pds_, mr->context);
  const int flags = static_cast<int>(1 + random_.below(7)) & (pd == nullptr ? 5 : 7);
  if (flags == 0) return;
  const bool bindable = !random_.one_in(3);
  void* memory = nullptr;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    memory = mmap(nullptr, kMaxRegion, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
  }
  errno = 0;
  const int err = ibv_rereg_mr(mr->object, flags, pd == nullptr ? nullptr : pd->object, memory,
                               std::size_t{4096} << random_.below(10),
                               bindable ? kRegionAccess | IBV_ACCESS_MW_BIND : kRegionAccess);
  if (err == 0) {
    ++reregs_;
    mr->pd = mr->object->pd;
    if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) mr->bindable = bindable;
  } else if (errno == EOPNOTSUPP) {
    role_.missing[kRereg] = 1;
  }
  // If the call succeeded, the pages are pinned.
  if (memory != nullptr && random_.one_in(4)) munmap(memory, kMaxRegion);
  step("ibv_rereg_mr");
}

bool Walk::in_use(const ibv_dm* dm) const {
  return std::ranges::any_of(mrs_, [&](const Region& r) { return r.dm == dm; });
}

// A region with bound windows is busy, and so is device memory with regions: both stay.
void Walk::destroy_memory() {
  switch (random_.below(4)) {
    case 2:
      return drop(mws_, "ibv_dealloc_mw");
    case 3:
      return drop(dms_, "ibv_free_dm");
    default:
      return drop(mrs_, "ibv_dereg_mr");
  }
}

}  // namespace guest::killer
