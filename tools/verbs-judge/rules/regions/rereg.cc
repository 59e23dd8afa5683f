// SPDX-License-Identifier: GPL-2.0-or-later
// ibv_rereg_mr(): every combination of flags, and the state after failures.
#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "regions.h"

namespace guest::regions {
namespace {

constexpr int kTrans = IBV_REREG_MR_CHANGE_TRANSLATION;
constexpr int kPd = IBV_REREG_MR_CHANGE_PD;
constexpr int kAccess = IBV_REREG_MR_CHANGE_ACCESS;

// No capability tells what a device can change, so the errno does.
void must(int result) {
  if (result == IBV_REREG_MR_ERR_CMD && (errno == EOPNOTSUPP || errno == ENOSYS)) {
    skip("ibv_rereg_mr: {}", errno_name(errno));
  }
  require(result == 0, "ibv_rereg_mr: {}, {}", result, errno_name(errno));
}

// The members of struct ibv_mr that a call may leave as they are.
struct Keys {
  explicit Keys(const ibv_mr* mr) : lkey(mr->lkey), rkey(mr->rkey), handle(mr->handle) {}
  void same(const ibv_mr* mr) const {
    require_usual(mr->lkey == lkey && mr->rkey == rkey && mr->handle == handle,
                  "the keys of a region change with it");
  }
  std::uint32_t lkey;
  std::uint32_t rkey;
  std::uint32_t handle;
};

// Everything that the flags name changes at once, and nothing else.
void combination(const Env& env, int flags) {
  const PdPtr pd(ibv_alloc_pd(env.dev.context()));
  const Pages first;
  const Pages second(kLength - 3 * kPage);
  // Probe::reaches() shows that rights were added; rights() tests their removal. Without TRANS,
  // write access needs memory that was registered for writing.
  const MrPtr mr =
      reg(env.dev.pd(), first,
          (flags & kAccess) != 0 ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ : kAllAccess);
  const Keys keys(mr.get());
  must(ibv_rereg_mr(mr.get(), flags, (flags & kPd) != 0 ? pd.get() : nullptr,
                    (flags & kTrans) != 0 ? second.bytes().data() : nullptr,
                    (flags & kTrans) != 0 ? second.bytes().size() : 0,
                    (flags & kAccess) != 0 ? kAllAccess : 0));
  keys.same(mr.get());
  const Pages& now = (flags & kTrans) != 0 ? second : first;
  ibv_pd* owner = (flags & kPd) != 0 ? pd.get() : env.dev.pd();
  require(mr->addr == now.bytes().data() && mr->length == now.bytes().size() && mr->pd == owner,
          "struct ibv_mr says something else");
  const Probe probe(env.dev, owner, mr.get());
  probe.reaches(now, "after it");
  if ((flags & kTrans) != 0) probe.refuses(first, "where it was");
  if ((flags & kPd) != 0)
    Probe(env.dev, env.dev.pd(), mr.get()).refuses(now, "for a QP of the old PD");
}

// Grants and revokes each right and tests it with the operation that needs it.
void rights(const Env& env) {
  struct Right {
    int access;
    ibv_wr_opcode opcode;
  };
  constexpr Right kRights[] = {{IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ},
                               {IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE},
                               {IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD}};
  const Pages pages;
  const MrPtr mr = reg(env.dev, pages, kAllAccess);
  const Keys keys(mr.get());
  const Probe probe(env.dev, env.dev.pd(), mr.get());
  for (const int access :
       {0, static_cast<int>(IBV_ACCESS_LOCAL_WRITE), static_cast<int>(IBV_ACCESS_REMOTE_READ),
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, kAllAccess}) {
    must(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, access));
    keys.same(mr.get());
    for (const Right& r : kRights) {
      pages.paint(5);
      const bool may = (access & r.access) != 0;
      const ibv_wc_status status = probe.remote(r.opcode, pages.address());
      require(status == (may ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR),
              "access {:#x}, opcode {}: {}", static_cast<unsigned>(access),
              static_cast<int>(r.opcode), ibv_wc_status_str(status));
      if (!may) pages.check(5, "a refused request");
    }
    const bool writes = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
    require(probe.local(IBV_WR_RDMA_READ, pages.address()) ==
                (writes ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR),
            "access {:#x}, a local write", static_cast<unsigned>(access));
    require(probe.local(IBV_WR_RDMA_WRITE, pages.address()) == IBV_WC_SUCCESS, "a local read");
  }
}

// Longer, shorter, at any byte of a page, over the old range and onto a part of it.
void places(const Env& env) {
  const Pages pages(64 * kPage);
  const MrPtr mr = reg(env.dev, pages, kAllAccess);
  const Keys keys(mr.get());
  const Probe probe(env.dev, env.dev.pd(), mr.get());
  struct Place {
    std::size_t offset;
    std::uint32_t length;
  };
  for (const Place& p : {Place{0, 1}, Place{1, 8}, Place{4095, 2}, Place{100, 40000},
                         Place{4096, 60 * 4096}, Place{63 * 4096, 4096}, Place{0, 64 * 4096}}) {
    std::byte* at = pages.bytes().data() + p.offset;
    must(ibv_rereg_mr(mr.get(), kTrans, nullptr, at, p.length, 0));
    keys.same(mr.get());
    require(mr->addr == at && mr->length == p.length, "struct ibv_mr says something else");
    pages.paint(9);
    std::vector<std::byte> want(pages.bytes().begin(), pages.bytes().end());
    const std::uint32_t n = std::min(p.length, 60000U);
    const std::uint64_t first = pages.address(p.offset);
    for (const std::uint64_t begin : {first, first + p.length - n}) {
      require(probe.remote(IBV_WR_RDMA_READ, begin, n) == IBV_WC_SUCCESS, "inside of it");
      require(probe.remote(IBV_WR_RDMA_WRITE, begin, n) == IBV_WC_SUCCESS, "inside of it");
    }
    for (const std::uint64_t outside : {first - 1, first + p.length - n + 1}) {
      require(probe.remote(IBV_WR_RDMA_WRITE, outside, n) == IBV_WC_REM_ACCESS_ERR,
              "outside of it");
    }
    // Only the bytes that were written may have changed.
    const auto untouched = [&](std::size_t from, std::size_t to) {
      require(std::ranges::equal(pages.bytes().subspan(from, to - from),
                                 std::span(want).subspan(from, to - from)),
              "bytes outside of it were changed");
    };
    untouched(0, p.offset);
    untouched(p.offset + p.length, want.size());
  }
}

// The old PD loses the region and can be deallocated; the new one cannot.
void pds(const Env& env) {
  PdPtr first(ibv_alloc_pd(env.dev.context()));
  PdPtr second(ibv_alloc_pd(env.dev.context()));
  const Pages pages;
  MrPtr mr = reg(first.get(), pages, kAllAccess);
  require(ibv_dealloc_pd(first.get()) == EBUSY, "a PD with a region in it");
  must(ibv_rereg_mr(mr.get(), kPd, second.get(), nullptr, 0, 0));
  require(ibv_dealloc_pd(second.get()) == EBUSY, "a PD with a region in it");
  require(ibv_dealloc_pd(first.release()) == 0, "the PD that it left");
  Probe(env.dev, second.get(), mr.get()).reaches(pages, "in the new PD");
  must(ibv_rereg_mr(mr.get(), kPd, env.dev.pd(), nullptr, 0, 0));
  second.reset();
  Probe(env.dev, env.dev.pd(), mr.get()).reaches(pages, "back in a PD");
}

// The library refuses these calls itself, without the device: the errno is EINVAL.
void refused_by_the_library(const Env& env) {
  const Pages pages;
  const Pages other;
  const MrPtr mr = reg(env.dev, pages, kAllAccess);
  struct Call {
    const char* what;
    int flags;
    void* addr;
    std::size_t length;
    int access;
  };
  void* const there = other.bytes().data();
  const Call calls[] = {{"flag 8", 8, nullptr, 0, 0},
                        {"flag 8 among others", 8 | kTrans, there, kLength, 0},
                        {"the highest flag", std::numeric_limits<int>::min(), nullptr, 0, 0},
                        {"no address", kTrans, nullptr, kLength, 0},
                        {"no length", kTrans, there, 0, 0},
                        {"access without its flag", kTrans, there, kLength, kAllAccess},
                        {"access without its flag", kPd, nullptr, 0, IBV_ACCESS_LOCAL_WRITE}};
  for (const Call& c : calls) {
    errno = 0;
    const int result = ibv_rereg_mr(mr.get(), c.flags, env.dev.pd(), c.addr, c.length, c.access);
    require(result == IBV_REREG_MR_ERR_INPUT && errno == EINVAL, "{}: {}, {}", c.what, result,
            errno_name(errno));
  }
  Probe(env.dev, env.dev.pd(), mr.get()).reaches(pages, "after the refusals");
}

// The kernel or the device refuses these calls. The page says that the region should not be used
// any more, but it can be deregistered.
void failures(const Env& env) {
  const Pages pages;
  const Pages other;
  Pages gone;
  const std::uint64_t nowhere = gone.address();
  gone.unmap();
  const Pages readable(kLength, PROT_READ);
  const PdPtr no_pd = alloc_pd(env.dev);
  const std::uint32_t handle = std::exchange(no_pd->handle, 0x7fffffff);
  struct Call {
    const char* what;
    int flags;
    ibv_pd* pd;
    void* addr;
    std::size_t length;
    int access;
  };
  void* const there = other.bytes().data();
  const int all = kTrans | kPd | kAccess;
  const Call calls[] = {
      {"no flag", 0, nullptr, nullptr, 0, 0},
      {"no PD", kPd, no_pd.get(), nullptr, 0, 0},
      {"no PD, all flags", all, no_pd.get(), there, kLength, kAllAccess},
      {"unmapped", kTrans, nullptr, reinterpret_cast<void*>(nowhere), kLength, 0},
      {"unmapped, all flags", all, env.dev.pd(), reinterpret_cast<void*>(nowhere), kLength,
       kAllAccess},
      {"half unmapped", kTrans, nullptr, other.bytes().data() + kPage, std::size_t{1} << 40, 0},
      {"not writable", kTrans, nullptr, readable.bytes().data(), kLength, 0},
      {"wraps", kTrans, nullptr, there, std::numeric_limits<std::size_t>::max() - kPage, 0},
      {"remote write without local", kAccess, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE},
      {"remote atomic without local", kAccess, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_ATOMIC},
      {"remote write without local, all flags", all, env.dev.pd(), there, kLength,
       IBV_ACCESS_REMOTE_WRITE},
      {"a right that there is not", kAccess, nullptr, nullptr, 0, 1 << 18}};
  for (const Call& c : calls) {
    const MrPtr mr = reg(env.dev, pages, kAllAccess);
    const Keys keys(mr.get());
    const int result = ibv_rereg_mr(mr.get(), c.flags, c.pd, c.addr, c.length, c.access);
    require(result != 0, "{}: succeeds", c.what);
    require_usual(result == IBV_REREG_MR_ERR_CMD, "{}: {}", c.what, result);
    const Probe probe(env.dev, env.dev.pd(), mr.get());
    if (!strict()) {
      require_usual(probe.remote(IBV_WR_RDMA_READ, pages.address()) == IBV_WC_SUCCESS,
                    "after a failure the region is lost");
      continue;
    }
    keys.same(mr.get());
    require(mr->addr == pages.at() && mr->length == kLength && mr->pd == env.dev.pd(),
            "{}: struct ibv_mr has changed", c.what);
    probe.reaches(pages, c.what);
    probe.refuses(other, c.what);
  }
  no_pd->handle = handle;
}

// Read-only memory can be registered for reading and stays read-only, also when the region should
// not be used any more.
void read_only_memory(const Env& env) {
  const Pages pages;
  const Pages secret;
  secret.paint(33);
  secret.protect(PROT_READ);
  for (const int access : {static_cast<int>(IBV_ACCESS_LOCAL_WRITE), kAllAccess}) {
    const MrPtr mr = reg(env.dev, pages, IBV_ACCESS_REMOTE_READ);
    const Probe probe(env.dev, env.dev.pd(), mr.get());
    must(ibv_rereg_mr(mr.get(), kTrans, nullptr, secret.at(), kLength, 0));
    const auto not_written = [&](const char* what) {
      require(probe.remote(IBV_WR_RDMA_WRITE, secret.address()) == IBV_WC_REM_ACCESS_ERR,
              "{}: a WRITE", what);
      require(probe.local(IBV_WR_RDMA_READ, secret.address()) == IBV_WC_LOC_PROT_ERR,
              "{}: a local write", what);
      secret.check(33, what);
    };
    require(probe.remote(IBV_WR_RDMA_READ, secret.address(), 64) == IBV_WC_SUCCESS, "a READ");
    not_written("registered");
    require(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, access) != 0,
            "memory that may only be read gets rights to write");
    not_written("after the refusal");
    if (!strict()) continue;
    must(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, 0));
    must(ibv_rereg_mr(mr.get(), kTrans | kAccess, nullptr, pages.at(), kLength, kAllAccess));
    probe.reaches(pages, "on other memory");
  }
}

// Memory that was registered for reading: Linux gives it rights to write only when it is registered
// anew.
void rights_to_write_come(const Env& env) {
  const Pages pages;
  MrPtr mr = reg(env.dev, pages, 0);
  const int result = ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, kAllAccess);
  if (usually_refused(result != 0 ? errno : 0, EACCES, "rights to write, without translation")) {
    if (!strict()) mr = reg(env.dev, pages, 0);
    must(ibv_rereg_mr(mr.get(), kTrans | kAccess, nullptr, pages.at(), kLength, kAllAccess));
  }
  Probe(env.dev, env.dev.pd(), mr.get()).reaches(pages, "with rights to write");
}

// The call unpins the pages of the old translation.
void pins(const Env& env) {
  const Pages large(512 * kPage);
  const Pages small(2 * kPage);
  large.paint(1);
  small.paint(1);
  const MrPtr mr = reg(env.dev, small, kAllAccess);
  const std::uint64_t before = pinned_kib();
  for (int round = 0; round < 20; round++) {
    must(ibv_rereg_mr(mr.get(), kTrans, nullptr, large.at(), 512 * kPage, 0));
    const std::uint64_t during = pinned_kib();
    require_usual(during == before + 510 * kPage / 1024, "{} KiB are pinned, were {}", during,
                  before);
    must(ibv_rereg_mr(mr.get(), kTrans, nullptr, small.at(), 2 * kPage, 0));
    require(pinned_kib() == before, "round {}: {} KiB stay pinned, were {}", round, pinned_kib(),
            before);
  }
}

Rules combinations() {
  Rules rules;
  for (int flags = 1; flags < 8; flags++) {
    std::string name = "rereg";
    std::string what;
    const auto add = [&](int flag, const char* more) {
      if ((flags & flag) == 0) return;
      name += std::string("-") + more;
      what += (what.empty() ? "" : ", ") + std::string(more);
    };
    add(kTrans, "translation");
    add(kPd, "pd");
    add(kAccess, "access");
    rules.push_back({name, "ibv_rereg_mr changes what its flags name and nothing else: " + what,
                     [flags](const Env& env) { combination(env, flags); }});
  }
  return rules;
}

}  // namespace

Rules rereg() {
  Rules rules = combinations();
  const Rules more = {
      {"rereg-every-right", "each right is granted and revoked", rights},
      {"rereg-every-place", "memory may be longer, shorter, at any byte, over the old and in it",
       places},
      {"rereg-old-and-new-pd", "the PD that a region left can be deallocated, the new one not",
       pds},
      {"rereg-input", "the library refuses unknown flags, no memory, and rights without their flag",
       refused_by_the_library},
      {"rereg-failures", "what the kernel refuses fails, and the region can be deregistered",
       failures},
      {"rereg-read-only", "memory that may only be read never gets rights to write",
       read_only_memory},
      {"rereg-rights-to-write", "a region gets rights to write together with its memory",
       rights_to_write_come},
      {"rereg-pins", "pages that a region leaves are unpinned when the call returns", pins},
  };
  append(rules, more, "");
  return rules;
}

}  // namespace guest::regions
