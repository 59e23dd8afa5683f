// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "core/limits.h"

namespace tern {

namespace {

constexpr std::uint32_t kRights = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                                  TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC |
                                  TERN_ACCESS_MW_BIND | TERN_ACCESS_ZERO_BASED |
                                  TERN_ACCESS_FLUSH_GLOBAL;
// Rights whose capability the device lacks: it has no memory that survives a power loss.
constexpr std::uint32_t kUnsupported = TERN_ACCESS_FLUSH_PERSISTENT;

// `pageable`: pages of the region may be absent.
Status check_access(std::uint32_t access, bool pageable) {
  const std::uint32_t unsupported =
      kUnsupported | (pageable ? 0 : std::uint32_t{TERN_ACCESS_ON_DEMAND});
  if (access & ~(kRights | TERN_ACCESS_ON_DEMAND | kUnsupported)) return TERN_ST_BAD_PARAM;
  if (access & unsupported) return TERN_ST_NOT_SUPPORTED;
  // IBTA 10.6.3.1: a peer may change only what the consumer itself may change.
  const bool remote_change = access & (TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_ATOMIC);
  return remote_change && !(access & TERN_ACCESS_LOCAL_WRITE) ? TERN_ST_BAD_PARAM : TERN_ST_OK;
}

// Size of the memory for TERN_LKEY_NULL, which repeats.
constexpr std::size_t kNullBytes = 64 << 10;

// Checks common to all kinds of region: rights and address range.
Status check_region(std::uint32_t access, std::uint64_t iova, std::uint64_t length, bool pageable,
                    bool sparse = false) {
  if (const Status st = check_access(access, pageable); st != TERN_ST_OK) return st;
  if ((length > kMaxMrSize && !sparse) || !in_range(iova, length)) return TERN_ST_BAD_PARAM;
  return (access & TERN_ACCESS_ZERO_BASED) && iova != 0 ? TERN_ST_BAD_PARAM : TERN_ST_OK;
}

// Whether `num` pages hold `length` bytes that begin at `offset` in the first page. `length` has
// been checked, so nothing wraps.
bool covers(std::uint64_t num, unsigned shift, std::uint64_t offset, std::uint64_t length) {
  return offset >> shift == 0 && offset + length <= num << shift;
}

}  // namespace

MemoryKey* Memory::own(const Accessor& who, MemoryKey* key) const {
  const bool foreign = key != nullptr && key->pd != who.pd &&
                       pd_lanes_->get(key->pd.value) != pd_lanes_->get(who.pd.value);
  return foreign ? nullptr : key;
}

Region* Memory::find(const Accessor& who, std::uint32_t key) const {
  Region* const region = as_region(resolve(who, key));
  return region && region->key == key ? region : nullptr;
}

// Inlined, as permit_remote() is: a permit stays in registers.
[[gnu::always_inline]] inline Memory::Permit Memory::permit_through(
    const Window& w, const Accessor& who, const KeyRequest& request) const {
  if (const Rule broken = rules.access(w, who, request); broken != Rule::kNone) return {broken};
  // The region exists as long as the window is bound, but it may be closed.
  const Region* const region = region_of(w);
  const Rule broken = rules.access_through(region, request.rights);
  if (broken != Rule::kNone) return {broken};
  return {Rule::kNone, region, region->iova + w.offset + (request.addr - w.iova)};
}

[[gnu::always_inline]] inline Memory::Permit Memory::permit_remote(
    const Accessor& who, const KeyRequest& request) const {
  MemoryKey* const key = resolve(who, request.key);
  if (const Window* const window = as_window(key)) return permit_through(*window, who, request);
  const Region* const region = key != nullptr && key->key == request.key ? as_region(key) : nullptr;
  return {KeyRules::access(region, who, request), region, request.addr};
}

Access Memory::append(const Region& region, std::uint64_t addr, const KeyRequest& request,
                      SpanList& out, Missing& missing) {
  std::uint64_t at = region.offset + (addr - region.iova);
  std::uint64_t len = request.length;
  const bool write = request.writes();
  if (region.dmn != 0) {
    // With a window rule switched off (core/rules.h), a window may lie outside its region.
    if (at > dm_->size() || len > dm_->size() - at) return Access::kDmaError;
    out.append_device(dm_->bytes(at, len), write);
    return Access::kReady;
  }
  if (region.access & TERN_ACCESS_ON_DEMAND) [[unlikely]] {
    // Maps nothing unless all pages are present.
    const Access access = present(region, addr, request, missing);
    if (access != Access::kReady) return access;
  }
  while (len != 0) {
    const PageList::Run run = region.pages.at(at, len);
    if (run.len == 0 || !out.append_dma(run.addr, run.len, write)) return Access::kDmaError;
    at += run.len;
    len -= run.len;
  }
  return Access::kReady;
}

// Whether all pages of an access to an on-demand region are present.
Access Memory::present(const Region& region, std::uint64_t addr, const KeyRequest& request,
                       Missing& missing) {
  const std::uint64_t usable =
      region.pages.usable(region.offset + (addr - region.iova), request.length, request.writes());
  if (usable == request.length) return Access::kReady;
  missing = {addr + usable, request.length - usable, region.key, request.writes()};
  return Access::kPending;
}

Access Memory::local(const Accessor& who, const KeyRequest& request, SpanList& out,
                     Missing& missing) {
  if (request.length == 0) return Access::kReady;
  Access access = Access::kReady;
  Rule broken = Rule::kNone;
  if (request.key >> TERN_KEY_INDEX_SHIFT < kFirstIndex) [[unlikely]] {
    broken = rule_of_reserved(who, request);
    if (broken == Rule::kNone) access = reserved(who, request, out);
  } else {
    const Region* const region = find(who, request.key);
    broken = KeyRules::access(region, who, request);
    if (broken == Rule::kNone) [[likely]]
      access = append(*region, request.addr, request, out, missing);
  }
  return concluded(TERN_LOG_CHECK_LOCAL, who, request, broken, access);
}

Rule Memory::rule_of_reserved(const Accessor& who, const KeyRequest& request) {
  if (request.key == TERN_LKEY_DMA) return who.privileged ? Rule::kNone : Rule::kPrivileged;
  if (request.key != TERN_LKEY_NULL) return Rule::kKey;
  return in_range(request.addr, request.length) ? Rule::kNone : Rule::kMrHigh;
}

Access Memory::reserved(const Accessor& who, const KeyRequest& request, SpanList& out) {
  std::uint64_t len = request.length;
  const bool write = request.writes();
  if (request.key == TERN_LKEY_DMA) {
    return out.append_dma(request.addr, len, write) ? Access::kReady : Access::kDmaError;
  }
  static std::array<std::byte, kNullBytes> zeros;  // never written
  std::vector<std::byte>& discard =
      discard_[pd_lanes_ != nullptr ? pd_lanes_->get(who.pd.value) : 0];
  discard.resize(kNullBytes);
  while (len != 0) {
    const std::size_t n = std::min<std::uint64_t>(len, kNullBytes);
    if (write) {
      out.append_plain(std::span(discard).first(n));
    } else {
      out.append_plain(std::span(std::as_const(zeros)).first(n));
    }
    len -= n;
  }
  return Access::kReady;
}

Access Memory::remote(const Accessor& who, const KeyRequest& request, SpanList& out,
                      Missing& missing) {
  if (request.length == 0) return Access::kReady;
  const Permit permit = permit_remote(who, request);
  if (permit.broken != Rule::kNone) [[unlikely]]
    return concluded(TERN_LOG_CHECK_REMOTE, who, request, permit.broken);
  return map(permit, who, request, out, missing);
}

Access Memory::map(const Permit& permit, const Accessor& who, const KeyRequest& request,
                   SpanList& out, Missing& missing) {
  const Region& region = *permit.region;
  Access access = append(region, permit.addr, request, out, missing);
  // An atomic also reads its operand, and an IOMMU may allow the device to write only.
  if ((request.rights & TERN_ACCESS_REMOTE_ATOMIC) && access == Access::kReady &&
      !readable(region, permit.addr, request.length)) {
    out.abandon();
    access = Access::kDmaError;
  }
  return concluded(TERN_LOG_CHECK_REMOTE, who, request, Rule::kNone, access);
}

bool Memory::readable(const Region& region, std::uint64_t addr, std::uint64_t len) const {
  if (region.dmn != 0) return true;
  for (std::uint64_t at = region.offset + (addr - region.iova); len != 0;) {
    const PageList::Run run = region.pages.at(at, len);
    const auto span = run.len == 0 ? std::span<std::byte>() : host_.reach(run.addr, run.len, false);
    if (span.empty()) return false;
    at += span.size();
    len -= span.size();
    host_.release(span, false, 0);
  }
  return true;
}

Memory::Permit Memory::check_remote(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                                    std::uint64_t len, std::uint32_t rights) const {
  if (len == 0) return {};
  const KeyRequest request{rkey, va, len, rights};
  const Permit permit = permit_remote(who, request);
  (void)concluded(TERN_LOG_CHECK_REMOTE, who, request, permit.broken);
  return permit;
}

void Memory::denied_by_qp(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                          std::uint64_t len, std::uint32_t rights) const {
  (void)concluded(TERN_LOG_CHECK_REMOTE, who, {rkey, va, len, rights}, Rule::kQpRights);
}

Access Memory::check_flush(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                           std::uint64_t len, bool whole, std::uint32_t rights) const {
  if (whole) {
    const Region* const region = find(who, rkey);
    va = region ? region->iova : 0;
    len = 0;
  }
  const KeyRequest request{rkey, va, len, rights};
  return concluded(TERN_LOG_CHECK_REMOTE, who, request, permit_remote(who, request).broken);
}

// The page list has to cover the region.
Status Memory::load(const tern_pages& pages, std::uint8_t flags, std::uint64_t offset,
                    std::uint64_t length, bool on_demand, PageList& list) {
  if (flags & ~(TERN_MR_F_INCOMPLETE | TERN_MR_F_SPARSE)) return TERN_ST_BAD_PARAM;
  const bool incomplete = flags & TERN_MR_F_INCOMPLETE;
  const bool sparse = flags & TERN_MR_F_SPARSE;
  // UPDATE_PAGES provides the list later; the command must have none.
  if ((incomplete || sparse) && (pages.addr != 0 || pages.kind != TERN_PAGES_LIST))
    return TERN_ST_BAD_PARAM;
  if (pages.kind == TERN_PAGES_DIRECT) {
    if (on_demand) return TERN_ST_BAD_PARAM;  // its pages cannot be absent
    const std::uint64_t addr = le(pages.addr);
    if (!in_range(addr, offset) || !in_range(addr + offset, length)) return TERN_ST_BAD_PARAM;
    return list.load(host_, pages, 0);
  }
  const unsigned shift = pages.page_shift;
  if (shift < kPageShiftMin || shift > kPageShiftMax || pages.rsvd_e != 0) {
    return TERN_ST_BAD_PARAM;
  }
  const std::uint64_t num = le(pages.num);
  if (sparse) {
    if (!on_demand || num != 0 || offset >> shift != 0 || !in_range(offset, length)) {
      return TERN_ST_BAD_PARAM;
    }
    return list.reserve_sparse(shift);
  }
  if (!covers(num, shift, offset, length)) return TERN_ST_BAD_PARAM;
  if (!incomplete && num > kMaxCmdPages) return TERN_ST_BAD_PARAM;
  if (!budget_.charge(num)) return TERN_ST_NO_MEMORY;
  // Clearing an entry is cheaper than reading one.
  budget_.work(incomplete ? num / 8 : num);
  const Status st =
      incomplete ? list.reserve(num, shift, on_demand) : list.load(host_, pages, num, on_demand);
  if (st != TERN_ST_OK) budget_.release(num);
  return st;
}

// A region on device memory has no page list and must lie inside one part.
Status Memory::load_device(const tern_cmd_create_mr& cmd, Region& region) {
  if (!is_none(cmd.pages) || cmd.flags != 0) return TERN_ST_BAD_PARAM;
  region.dmn = le(cmd.dmn);
  const DeviceMemory::Part* const part = dm_->find(region.dmn);
  if (part == nullptr) return TERN_ST_BAD_HANDLE;
  if (!part->holds(region.offset, region.length)) return TERN_ST_BAD_PARAM;
  region.offset += part->offset;
  return TERN_ST_OK;
}

// A region for REG_MR begins closed, with space for a page list.
Status Memory::load_fast(const tern_cmd_create_mr& cmd, Region& region) {
  tern_cmd_create_mr rest = cmd;
  rest.pages.num = 0;
  rest.pdn = 0;
  rest.kind = 0;
  constexpr tern_cmd_create_mr zero{};
  const std::uint32_t num = le(cmd.pages.num);
  if (std::memcmp(&rest, &zero, sizeof(rest)) != 0 || num > kMaxFastRegPages) {
    return TERN_ST_BAD_PARAM;
  }
  if (!budget_.charge(num)) return TERN_ST_NO_MEMORY;
  region.fast = true;
  const Status st = region.pages.reserve(num, kPageShiftMin);
  if (st != TERN_ST_OK) budget_.release(num);
  return st;
}

Status Memory::create_mr(const tern_cmd_create_mr& cmd, std::uint32_t* key) {
  if (cmd.kind > TERN_MR_FAST) return TERN_ST_BAD_PARAM;
  const bool device = cmd.kind == TERN_MR_DM;
  if (device && (dm_ == nullptr || dm_->size() == 0)) return TERN_ST_NOT_SUPPORTED;
  if (cmd.kind == TERN_MR_FAST) {
    Region region;
    region.pd = Pdn(le(cmd.pdn));
    if (counts().mr == max_mr_) return TERN_ST_NO_RESOURCE;
    if (const Status st = load_fast(cmd, region); st != TERN_ST_OK) return st;
    *key = insert_region(std::move(region));
    return TERN_ST_OK;
  }
  if (!device && cmd.dmn != 0) return TERN_ST_BAD_PARAM;
  Region region;
  const std::uint32_t access = le(cmd.access);
  region.access = static_cast<std::uint16_t>(access);  // check_region() refuses other bits
  region.pd = Pdn(le(cmd.pdn));
  region.open = !(cmd.flags & TERN_MR_F_INCOMPLETE);
  region.iova = le(cmd.iova);
  region.length = le(cmd.length);
  region.offset = le(cmd.offset);
  const bool on_demand = access & TERN_ACCESS_ON_DEMAND;
  if (const Status st = check_region(access, region.iova, region.length, !device && odp_,
                                     cmd.flags & TERN_MR_F_SPARSE);
      st != TERN_ST_OK) {
    return st;
  }
  if (counts().mr == max_mr_) return TERN_ST_NO_RESOURCE;
  const Status st =
      device ? load_device(cmd, region)
             : load(cmd.pages, cmd.flags, region.offset, region.length, on_demand, region.pages);
  if (st != TERN_ST_OK) return st;
  *key = insert_region(std::move(region));
  return TERN_ST_OK;
}

std::uint32_t Memory::insert_region(Region region) {
  page_entries_ += region.pages.entries_held();
  if (region.dmn != 0) ++dm_->find(region.dmn)->users;
  const std::uint32_t key = insert(KeyEntry(std::move(region)));
  if (log != nullptr) log_key(TERN_LOG_KEY_CREATED, *as_region(resolve(key)));
  return key;
}

std::uint32_t Memory::insert(KeyEntry entry) {
  ++pd_users_[entry.key().pd.value];
  std::uint32_t key = 0;
  entries_.insert([&](std::uint32_t index) {
    key = index << TERN_KEY_INDEX_SHIFT | new_variant(index);
    entry.key().key = key;
    return std::move(entry);
  });
  return key;
}

// The new variant cannot be guessed from the last one of the index, and always differs from it.
std::uint8_t Memory::new_variant(std::uint32_t index) {
  const std::size_t i = index - kFirstIndex;
  if (i >= variants_.size()) variants_.resize(i + 1);
  const auto step = static_cast<std::uint8_t>(host_.random() % TERN_KEY_VARIANT_MASK + 1);
  return variants_[i] = static_cast<std::uint8_t>(variants_[i] + step);
}

Status Memory::destroy_mr(std::uint32_t key) {
  const Region* const region = find_for_command(key);
  if (!region) return TERN_ST_BAD_HANDLE;
  if (rules.change(*region) != Rule::kNone) return TERN_ST_BUSY;
  if (log != nullptr) log_key(TERN_LOG_KEY_DESTROYED, *region);
  const std::uint64_t held = region->pages.entries_held();
  page_entries_ -= held;
  budget_.release(held);
  budget_.work(held / 8);  // to free an entry is cheaper than to read one
  if (region->dmn != 0) --dm_->find(region->dmn)->users;
  erase(region->key, region->pd);
  return TERN_ST_OK;
}

void Memory::erase(std::uint32_t key, Pdn pd) {
  const std::uint32_t index = key >> TERN_KEY_INDEX_SHIFT;
  // REG_MR or BIND_MW may have changed the variant: the next key of this index must differ from the
  // last valid one.
  variants_[index - kFirstIndex] = static_cast<std::uint8_t>(key & TERN_KEY_VARIANT_MASK);
  forget_user(pd);
  entries_.erase(index);
}

// Checks everything before it changes anything.
Status Memory::rereg_mr(const tern_cmd_rereg_mr& cmd) {
  Region* const region = find_for_command(le(cmd.key));
  if (!region) return TERN_ST_BAD_HANDLE;
  if (region->fast || region->dmn != 0) return TERN_ST_BAD_STATE;
  const std::uint32_t mask = le(cmd.mask);
  if (mask & ~(TERN_REREG_TRANS | TERN_REREG_PD | TERN_REREG_ACCESS)) return TERN_ST_BAD_PARAM;
  const bool moves = mask & (TERN_REREG_TRANS | TERN_REREG_PD);
  if (moves && rules.change(*region) != Rule::kNone) return TERN_ST_BUSY;
  const bool trans = mask & TERN_REREG_TRANS;
  const std::uint32_t access = mask & TERN_REREG_ACCESS ? le(cmd.access) : region->access;
  const std::uint64_t iova = trans ? le(cmd.iova) : region->iova;
  const std::uint64_t length = trans ? le(cmd.length) : region->length;
  // Without TRANS the length has been checked before.
  const bool sparse = !trans || (cmd.flags & TERN_MR_F_SPARSE);
  if (const Status st = check_region(access, iova, length, odp_, sparse); st != TERN_ST_OK)
    return st;
  const bool on_demand = access & TERN_ACCESS_ON_DEMAND;
  // Entries of on-demand lists and of other lists differ.
  if (!trans && ((access ^ region->access) & TERN_ACCESS_ON_DEMAND)) return TERN_ST_BAD_PARAM;
  if (trans) {
    const std::uint64_t offset = le(cmd.offset);
    const std::uint64_t held = region->pages.entries_held();
    PageList list;
    if (const Status st = load(cmd.pages, cmd.flags, offset, length, on_demand, list);
        st != TERN_ST_OK) {
      return st;
    }
    page_entries_ = page_entries_ - held + list.entries_held();
    budget_.release(held);
    budget_.work(held / 8);
    region->pages = std::move(list);
    region->offset = offset;
    region->iova = iova;
    region->length = length;
    region->open = !(cmd.flags & TERN_MR_F_INCOMPLETE);
  }
  if (mask & TERN_REREG_PD) {
    forget_user(region->pd);
    region->pd = Pdn(le(cmd.pdn));
    ++pd_users_[region->pd.value];
  }
  region->access = static_cast<std::uint16_t>(access);
  if (log != nullptr) log_key(TERN_LOG_KEY_CHANGED, *region);
  return TERN_ST_OK;
}

void Memory::forget_user(Pdn pd) {
  const auto users = pd_users_.find(pd.value);
  if (--users->second == 0) pd_users_.erase(users);
}

Status Memory::invalidate_pages(Region& region, const tern_cmd_update_pages& cmd) {
  if (cmd.pages.addr != 0 || cmd.pages.kind != TERN_PAGES_LIST || cmd.pages.rsvd_e != 0) {
    return TERN_ST_BAD_PARAM;
  }
  budget_.work(le(cmd.pages.num) / 8 + 1);
  return region.pages.clear(budget_, le(cmd.first), le(cmd.pages.num));
}

Status Memory::replace_pages(Region& region, const tern_cmd_update_pages& cmd) {
  if (cmd.pages.num == 0) return TERN_ST_OK;
  budget_.work(le(cmd.pages.num));
  return region.pages.update(host_, budget_, le(cmd.first), cmd.pages);
}

Status Memory::update_pages(const tern_cmd_update_pages& cmd) {
  Region* const region = find_for_command(le(cmd.key));
  if (!region) return TERN_ST_BAD_HANDLE;
  if (region->fast || (region->dmn != 0 && cmd.pages.num != 0)) return TERN_ST_BAD_STATE;
  const std::uint32_t flags = le(cmd.flags);
  const bool last = flags & TERN_UPDATE_LAST;
  const bool close = flags & TERN_UPDATE_CLOSE;
  if ((flags & ~(TERN_UPDATE_LAST | TERN_UPDATE_CLOSE | TERN_UPDATE_ABSENT)) || (last && close)) {
    return TERN_ST_BAD_PARAM;
  }
  if (le(cmd.pages.num) > kMaxCmdPages) return TERN_ST_BAD_PARAM;
  const std::uint64_t held = region->pages.entries_held();
  const Status st =
      flags & TERN_UPDATE_ABSENT ? invalidate_pages(*region, cmd) : replace_pages(*region, cmd);
  page_entries_ = page_entries_ - held + region->pages.entries_held();
  if (st != TERN_ST_OK) return st;
  if (last || close) {
    region->open = last;
    if (log != nullptr) log_key(last ? TERN_LOG_KEY_OPENED : TERN_LOG_KEY_CLOSED, *region);
  }
  return TERN_ST_OK;
}

// ---- fast registration ----

Access Memory::register_fast(const Accessor& who, const tern_reg_seg& seg) {
  const KeyRequest request{le(std::uint32_t{seg.key}), le(std::uint64_t{seg.iova}),
                           le(std::uint64_t{seg.length}), le(std::uint32_t{seg.access})};
  Region* const region = fast_or_exact(resolve(who, request.key), request.key);
  Rule broken = KeyRules::registration(who, region);
  Status status = TERN_ST_OK;
  if (broken == Rule::kNone) {
    status = open_fast(*region, seg);
    if (status != TERN_ST_OK && status != TERN_ST_DMA_ERROR) broken = Rule::kFields;
  }
  const Access access = concluded(TERN_LOG_CHECK_REGISTER, who, request, broken,
                                  status == TERN_ST_DMA_ERROR ? Access::kDmaError : Access::kReady);
  if (access == Access::kReady && log != nullptr) [[unlikely]]
    log_key(TERN_LOG_KEY_OPENED, *region, who.qp);
  return access;
}

Status Memory::open_fast(Region& region, const tern_reg_seg& seg) {
  const std::uint32_t access = le(std::uint32_t{seg.access});
  const std::uint64_t iova = le(std::uint64_t{seg.iova});
  const std::uint64_t length = le(std::uint64_t{seg.length});
  const std::uint64_t offset = le(std::uint64_t{seg.first_offset});
  const std::uint32_t num = le(std::uint32_t{seg.num_pages});
  if (check_region(access, iova, length, false) != TERN_ST_OK ||
      std::ranges::any_of(seg.rsvd_25, [](std::uint8_t b) { return b != 0; }) ||
      seg.page_shift > kPageShiftMax || !covers(num, seg.page_shift, offset, length)) {
    return TERN_ST_BAD_PARAM;
  }
  const Status st = region.pages.refill(host_, le(std::uint64_t{seg.pages}), num, seg.page_shift);
  if (st != TERN_ST_OK) return st;
  region.key = le(std::uint32_t{seg.key});
  region.access = static_cast<std::uint16_t>(access);
  region.iova = iova;
  region.length = length;
  region.offset = offset;
  region.open = true;
  return TERN_ST_OK;
}

bool Memory::invalidate_local(const Accessor& who, std::uint32_t key) {
  return invalidate(who, key, false);
}

bool Memory::invalidate_remote(const Accessor& who, std::uint32_t key) {
  return invalidate(who, key, true);
}

bool Memory::invalidate(const Accessor& who, std::uint32_t key, bool remote) {
  Window* const window = as_window(resolve(who, key));
  Region* const region = find(who, key);
  const Rule broken = window != nullptr ? rules.invalidation(who, *window, key)
                                        : rules.invalidation(who, region, remote);
  const std::uint8_t operation = remote ? TERN_LOG_CHECK_REMOTE_INV : TERN_LOG_CHECK_LOCAL_INV;
  if (concluded(operation, who, {key, 0, 0, 0}, broken) != Access::kReady) return false;
  if (window != nullptr) {
    unbind(*window, who.qp);
  } else {
    region->open = false;
    if (log != nullptr) [[unlikely]]
      log_key(TERN_LOG_KEY_CLOSED, *region, who.qp);
  }
  return true;
}

Status Memory::query(std::uint32_t key, tern_rsp_mr* rsp) const {
  // A bind that is under way changes the variant, so software may know another one.
  if (const Window* const window = as_window(resolve(key))) return query_mw(*window, rsp);
  const Region* const region = find_for_command(key);
  if (!region) return TERN_ST_BAD_HANDLE;
  *rsp = {};
  rsp->iova = le(region->iova);
  rsp->length = le(region->length);
  rsp->key = le(region->key);
  rsp->pdn = le(region->pd.value);
  rsp->access = le(std::uint32_t{region->access});
  rsp->num_windows = le(region->windows);
  rsp->state = region->open ? TERN_KEY_ST_VALID : TERN_KEY_ST_FREE;
  return TERN_ST_OK;
}

void Memory::reset() {
  entries_.clear();
  pd_users_.clear();
  qp_windows_.clear();
  windows_ = 0;
  budget_.release(page_entries_);
  page_entries_ = 0;
}

std::uint32_t Memory::users_of(Pdn pd) const {
  const auto it = pd_users_.find(pd.value);
  return it == pd_users_.end() ? 0 : it->second;
}

}  // namespace tern
