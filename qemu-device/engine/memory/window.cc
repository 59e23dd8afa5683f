// SPDX-License-Identifier: GPL-2.0-or-later
// The window part of Memory.
#include "memory/memory.h"

namespace tern {

// ---- commands ----

Status Memory::alloc_mw(Pdn pd, std::uint8_t type, std::uint32_t* key) {
  if (type != 1 && type != 2) return TERN_ST_BAD_PARAM;
  if (windows_ == max_mw_) return TERN_ST_NO_RESOURCE;
  Window window;
  window.pd = pd;
  window.type = type;
  *key = insert(KeyEntry(window));
  ++windows_;
  if (log != nullptr) log_key(TERN_LOG_KEY_CREATED, *as_window(resolve(*key)));
  return TERN_ST_OK;
}

Status Memory::free_mw(std::uint32_t key) {
  Window* const window = as_window(resolve(key));
  if (!window) return TERN_ST_BAD_HANDLE;
  unbind(*window);
  if (log != nullptr) log_key(TERN_LOG_KEY_DESTROYED, *window);
  erase(window->key, window->pd);
  --windows_;
  return TERN_ST_OK;
}

Status Memory::query_mw(const Window& w, tern_rsp_mr* rsp) const {
  *rsp = {};
  rsp->key = le(w.key);
  rsp->pdn = le(w.pd.value);
  rsp->type = w.type;
  rsp->state = w.bound || w.type == 1 ? TERN_KEY_ST_VALID : TERN_KEY_ST_FREE;
  if (!w.bound) return TERN_ST_OK;
  rsp->iova = le(w.iova);
  rsp->length = le(w.length);
  rsp->access = le(std::uint32_t{w.access});
  if (w.type == 2) rsp->qpn = le(w.qp.value);
  if (const Region* const region = region_of(w)) rsp->mr_key = le(region->key);
  return TERN_ST_OK;
}

// ---- binding ----

bool Memory::bind_mw(const Accessor& who, const tern_bind_seg& seg) {
  const KeyRequest request{le(std::uint32_t{seg.rkey}), le(std::uint64_t{seg.addr}),
                           le(std::uint64_t{seg.length}), le(std::uint32_t{seg.access})};
  Window* const window = as_window(resolve(who, request.key));
  Region* const region = request.length != 0 ? find(who, le(std::uint32_t{seg.lkey})) : nullptr;
  const Rule broken = rules.bind(who, seg, window, region);
  if (concluded(TERN_LOG_CHECK_BIND, who, request, broken) != Access::kReady) return false;
  Window& w = *window;
  unbind(w, who.qp);
  w.key = (w.key & ~std::uint32_t{TERN_KEY_VARIANT_MASK}) |
          (le(std::uint32_t{seg.new_rkey}) & TERN_KEY_VARIANT_MASK);
  if (region == nullptr) return true;
  w.access = static_cast<std::uint16_t>(request.rights);
  w.iova = request.rights & TERN_ACCESS_ZERO_BASED ? 0 : request.addr;
  w.length = request.length;
  w.bound = true;
  w.region = region->key >> TERN_KEY_INDEX_SHIFT;
  w.offset = request.addr - region->iova;
  ++region->windows;
  if (w.type == 2) {
    w.qp = who.qp;
    w.qp_generation = who.generation;
    const std::scoped_lock lock(qp_windows_mutex_);
    ++qp_windows_[who.qp.value];
  }
  if (log != nullptr) [[unlikely]]
    log_key(TERN_LOG_KEY_BOUND, w, who.qp);
  return true;
}

void Memory::unbind(Window& w, Qpn by) {
  if (!w.bound) return;
  if (log != nullptr) [[unlikely]]
    log_key(TERN_LOG_KEY_UNBOUND, w, by);
  w.bound = false;
  if (Region* const region = region_of(w); region && region->windows != 0) {
    --region->windows;
  }
  if (w.type == 1) return;
  const std::scoped_lock lock(qp_windows_mutex_);
  const auto named = qp_windows_.find(w.qp.value);
  if (--named->second == 0) qp_windows_.erase(named);
}

}  // namespace tern
