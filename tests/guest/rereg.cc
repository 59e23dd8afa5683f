// SPDX-License-Identifier: GPL-2.0-or-later
// rereg: tests ibv_rereg_mr(3): every combination of flags, the state after failures, and calls
// while requests are in flight.
//
//   rereg [-d DEV] [-g GID_INDEX] [PATTERN...]
//
// Prints "ok rereg/NAME" or "not ok rereg/NAME - why" for each test.
//
// Test: rereg
// Tier: quick, 600 s
// Boot: pcap
// Proves: Ibv_rereg_mr(3): every combination of flags with data through both keys, failures that
//   leave the old registration, read-only memory, pins, and requests in flight while the region
//   moves or changes its rights.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <thread>

#include "counts.h"
#include "map.h"
#include "pair.h"
#include "program.h"

namespace guest {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLength = 16 * kPage;
constexpr int kTrans = IBV_REREG_MR_CHANGE_TRANSLATION;
constexpr int kPd = IBV_REREG_MR_CHANGE_PD;
constexpr int kAccess = IBV_REREG_MR_CHANGE_ACCESS;

// Memory with a pattern.
class Pages : public Map {
 public:
  explicit Pages(std::size_t length = kLength, int protection = PROT_READ | PROT_WRITE)
      : Map(length, protection) {}
  void paint(std::uint64_t seed) const { fill(bytes(), seed); }
  void check(std::uint64_t seed, const char* what) const {
    const auto at = mismatch(bytes(), seed);
    require(!at, "{}: byte {} was changed", what, at.value_or(0));
  }
};

// Requests between two connected QPs of one PD.
class Requests {
 public:
  Requests(const Device& dev, ibv_pd* pd) : pair_(dev, alike({.memory = 0, .pd = pd})) {}
  void start(ibv_wr_opcode opcode, const ibv_sge& sge, std::uint64_t raddr,
             std::uint32_t rkey) const {
    pair_.post({.opcode = opcode, .sges = {sge}, .raddr = raddr, .rkey = rkey});
  }
  [[nodiscard]] ibv_wc_status end() const { return poll(pair_.local.send_cq(), 1).front().status; }
  ibv_wc_status run(ibv_wr_opcode opcode, const ibv_sge& sge, std::uint64_t raddr,
                    std::uint32_t rkey) const {
    start(opcode, sge, raddr, rkey);
    return end();
  }

 private:
  Pair pair_;
};

MrPtr reg(ibv_pd* pd, const Pages& pages, int access = kAllAccess) {
  MrPtr mr(ibv_reg_mr_iova(pd, pages.bytes().data(), pages.bytes().size(), pages.address(),
                           static_cast<unsigned>(access)));
  require(mr != nullptr, "ibv_reg_mr: {}", errno_name(errno));
  return mr;
}

void must(int result) { require(result == 0, "ibv_rereg_mr: {}, {}", result, errno_name(errno)); }

// Accesses the region under test through its lkey and its rkey. Each access uses new QPs, since a
// refused one ends its QP.
class Probe {
 public:
  Probe(const Device& dev, ibv_pd* pd, const ibv_mr* mr)
      : dev_(dev), pd_(pd), other_(), key_(reg(pd, other_)), mr_(mr) {}

  // Moves n bytes from or to `address` by the region's rkey. Returns the completion status.
  [[nodiscard]] ibv_wc_status remote(ibv_wr_opcode opcode, std::uint64_t address,
                                     std::uint32_t n = 8) const {
    const Requests link(dev_, pd_);
    return link.run(opcode, {.addr = other_.address(), .length = n, .lkey = key_->lkey}, address,
                    mr_->rkey);
  }
  // The same with the region in the local SGE.
  [[nodiscard]] ibv_wc_status local(ibv_wr_opcode opcode, std::uint64_t address,
                                    std::uint32_t n = 8) const {
    const Requests link(dev_, pd_);
    return link.run(opcode, {.addr = address, .length = n, .lkey = mr_->lkey}, other_.address(),
                    key_->rkey);
  }
  // Checks that both keys reach all bytes of `pages` and none beside them: data moves both ways.
  void reaches(const Pages& pages, const char* what) const {
    const auto n = static_cast<std::uint32_t>(pages.bytes().size());
    const std::uint64_t at = pages.address();
    moved(pages, other_, [&] { return remote(IBV_WR_RDMA_READ, at, n); }, what);
    moved(pages, other_, [&] { return local(IBV_WR_RDMA_WRITE, at, n); }, what);
    moved(other_, pages, [&] { return remote(IBV_WR_RDMA_WRITE, at, n); }, what);
    moved(other_, pages, [&] { return local(IBV_WR_RDMA_READ, at, n); }, what);
    require(remote(IBV_WR_RDMA_READ, at + n - 7) == IBV_WC_REM_ACCESS_ERR, "{}: a byte after",
            what);
    require(remote(IBV_WR_RDMA_READ, at - 1) == IBV_WC_REM_ACCESS_ERR, "{}: a byte before", what);
  }
  // Checks that neither key reaches these pages, and that no byte there changes.
  void refuses(const Pages& pages, const char* what) const {
    pages.paint(71);
    other_.paint(72);
    const std::uint64_t at = pages.address();
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
      require(remote(opcode, at) == IBV_WC_REM_ACCESS_ERR, "{}: by the remote key", what);
      require(local(opcode, at) == IBV_WC_LOC_PROT_ERR, "{}: by the local key", what);
    }
    pages.check(71, what);
    other_.check(72, what);
  }

 private:
  template <typename Run>
  void moved(const Pages& from, const Pages& to, const Run& run, const char* what) const {
    from.paint(61);
    to.paint(62);
    const ibv_wc_status status = run();
    require(status == IBV_WC_SUCCESS, "{}: {}", what, ibv_wc_status_str(status));
    const std::size_t n = std::min(from.bytes().size(), to.bytes().size());
    require(!mismatch(to.bytes().first(n), 61), "{}: other bytes came", what);
  }

  const Device& dev_;
  ibv_pd* pd_;
  Pages other_;
  MrPtr key_;
  const ibv_mr* mr_;
};

// The members of struct ibv_mr that every successful call must keep.
struct Keys {
  explicit Keys(const ibv_mr* mr) : lkey(mr->lkey), rkey(mr->rkey), handle(mr->handle) {}
  void same(const ibv_mr* mr) const {
    require(mr->lkey == lkey && mr->rkey == rkey && mr->handle == handle, "a key has changed");
  }
  std::uint32_t lkey;
  std::uint32_t rkey;
  std::uint32_t handle;
};

// Everything that the flags name changes at once, and nothing else.
void combination(const Device& dev, int flags) {
  const PdPtr pd(ibv_alloc_pd(dev.context()));
  const Pages first;
  const Pages second(kLength - 3 * kPage);
  // Probe::reaches() shows that rights were added; rights() tests their removal. Without TRANS,
  // write access needs memory that was registered for writing.
  const MrPtr mr =
      reg(dev.pd(), first,
          (flags & kAccess) != 0 ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ : kAllAccess);
  const Keys keys(mr.get());
  must(ibv_rereg_mr(mr.get(), flags, (flags & kPd) != 0 ? pd.get() : nullptr,
                    (flags & kTrans) != 0 ? second.bytes().data() : nullptr,
                    (flags & kTrans) != 0 ? second.bytes().size() : 0,
                    (flags & kAccess) != 0 ? kAllAccess : 0));
  keys.same(mr.get());
  const Pages& now = (flags & kTrans) != 0 ? second : first;
  ibv_pd* owner = (flags & kPd) != 0 ? pd.get() : dev.pd();
  require(mr->addr == now.bytes().data() && mr->length == now.bytes().size() && mr->pd == owner,
          "struct ibv_mr says something else");
  const Probe probe(dev, owner, mr.get());
  probe.reaches(now, "after it");
  if ((flags & kTrans) != 0) probe.refuses(first, "where it was");
  if ((flags & kPd) != 0) Probe(dev, dev.pd(), mr.get()).refuses(now, "for a QP of the old PD");
}

// Grants and revokes each right and tests it with the operation that needs it.
void rights(const Device& dev) {
  struct Right {
    int access;
    ibv_wr_opcode opcode;
  };
  constexpr Right kRights[] = {{IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ},
                               {IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE},
                               {IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD}};
  const Pages pages;
  const MrPtr mr = reg(dev.pd(), pages);
  const Keys keys(mr.get());
  const Probe probe(dev, dev.pd(), mr.get());
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
void places(const Device& dev) {
  const Pages pages(64 * kPage);
  const MrPtr mr = reg(dev.pd(), pages);
  const Keys keys(mr.get());
  const Probe probe(dev, dev.pd(), mr.get());
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
void pds(const Device& dev) {
  PdPtr first(ibv_alloc_pd(dev.context()));
  PdPtr second(ibv_alloc_pd(dev.context()));
  const Pages pages;
  MrPtr mr = reg(first.get(), pages);
  require(ibv_dealloc_pd(first.get()) == EBUSY, "a PD with a region in it");
  must(ibv_rereg_mr(mr.get(), kPd, second.get(), nullptr, 0, 0));
  require(ibv_dealloc_pd(second.get()) == EBUSY, "a PD with a region in it");
  require(ibv_dealloc_pd(first.release()) == 0, "the PD that it left");
  Probe(dev, second.get(), mr.get()).reaches(pages, "in the new PD");
  must(ibv_rereg_mr(mr.get(), kPd, dev.pd(), nullptr, 0, 0));
  second.reset();
  Probe(dev, dev.pd(), mr.get()).reaches(pages, "back in a PD");
}

// The library refuses these calls itself, without the device: the errno is EINVAL.
void refused_by_the_library(const Device& dev) {
  const Pages pages;
  const Pages other;
  const MrPtr mr = reg(dev.pd(), pages);
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
    const int result = ibv_rereg_mr(mr.get(), c.flags, dev.pd(), c.addr, c.length, c.access);
    require(result == IBV_REREG_MR_ERR_INPUT && errno == EINVAL, "{}: {}, {}", c.what, result,
            errno_name(errno));
  }
  Probe(dev, dev.pd(), mr.get()).reaches(pages, "after the refusals");
}

// The kernel or the device refuses these calls: IBV_REREG_MR_ERR_CMD, and the old registration
// stays valid.
void failure_leaves_the_old(const Device& dev) {
  const Pages pages;
  const Pages other;
  Pages gone;
  const std::uint64_t nowhere = gone.address();
  gone.unmap();
  const Pages readable(kLength, PROT_READ);
  const MrPtr mr = reg(dev.pd(), pages);
  const Keys keys(mr.get());
  ibv_pd no_pd = *dev.pd();
  no_pd.handle = 0x7fffffff;
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
      {"no PD", kPd, &no_pd, nullptr, 0, 0},
      {"no PD, all flags", all, &no_pd, there, kLength, kAllAccess},
      {"unmapped", kTrans, nullptr, reinterpret_cast<void*>(nowhere), kLength, 0},
      {"unmapped, all flags", all, dev.pd(), reinterpret_cast<void*>(nowhere), kLength, kAllAccess},
      {"half unmapped", kTrans, nullptr, other.bytes().data() + kPage, std::size_t{1} << 40, 0},
      {"not writable", kTrans, nullptr, readable.bytes().data(), kLength, 0},
      {"wraps", kTrans, nullptr, there, std::numeric_limits<std::size_t>::max() - kPage, 0},
      {"remote write without local", kAccess, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE},
      {"remote atomic without local", kAccess, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_ATOMIC},
      {"remote write without local, all flags", all, dev.pd(), there, kLength,
       IBV_ACCESS_REMOTE_WRITE},
      {"a right that there is not", kAccess, nullptr, nullptr, 0, 1 << 18}};
  for (const Call& c : calls) {
    const int result = ibv_rereg_mr(mr.get(), c.flags, c.pd, c.addr, c.length, c.access);
    require(result == IBV_REREG_MR_ERR_CMD, "{}: {}, {}", c.what, result, errno_name(errno));
    keys.same(mr.get());
    require(mr->addr == pages.bytes().data() && mr->length == kLength && mr->pd == dev.pd(),
            "{}: struct ibv_mr has changed", c.what);
    const Probe probe(dev, dev.pd(), mr.get());
    probe.reaches(pages, c.what);
    probe.refuses(other, c.what);
  }
}

// Read-only memory can be registered for reading and stays read-only.
void read_only_memory(const Device& dev) {
  const Pages pages;
  const Pages secret;
  secret.paint(33);
  secret.protect(PROT_READ);
  const MrPtr mr = reg(dev.pd(), pages, IBV_ACCESS_REMOTE_READ);
  const Probe probe(dev, dev.pd(), mr.get());
  must(ibv_rereg_mr(mr.get(), kTrans, nullptr, secret.bytes().data(), kLength, 0));
  const auto as_before = [&](const char* what) {
    require(probe.remote(IBV_WR_RDMA_READ, secret.address(), 64) == IBV_WC_SUCCESS, "{}: a READ",
            what);
    require(probe.remote(IBV_WR_RDMA_WRITE, secret.address()) == IBV_WC_REM_ACCESS_ERR,
            "{}: a WRITE", what);
    require(probe.local(IBV_WR_RDMA_READ, secret.address()) == IBV_WC_LOC_PROT_ERR,
            "{}: a local write", what);
    secret.check(33, what);
  };
  as_before("registered");
  for (const int access : {static_cast<int>(IBV_ACCESS_LOCAL_WRITE), kAllAccess}) {
    const int result = ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, access);
    require(result == IBV_REREG_MR_ERR_CMD, "rights to write memory that may only be read: {}",
            result);
    as_before("after the refusal");
  }
  must(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, 0));
  must(
      ibv_rereg_mr(mr.get(), kTrans | kAccess, nullptr, pages.bytes().data(), kLength, kAllAccess));
  probe.reaches(pages, "on other memory");
}

// A region registered for reading gains write access only together with a new translation.
void rights_to_write_come(const Device& dev) {
  const Pages pages;
  const MrPtr mr = reg(dev.pd(), pages, 0);
  const int result = ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, kAllAccess);
  require(result == IBV_REREG_MR_ERR_CMD && errno == EACCES, "without it: {}, {}", result, errno);
  must(
      ibv_rereg_mr(mr.get(), kTrans | kAccess, nullptr, pages.bytes().data(), kLength, kAllAccess));
  Probe(dev, dev.pd(), mr.get()).reaches(pages, "with rights to write");
}

// The call unpins the pages of the old translation and frees its page list.
void pins(const Device& dev) {
  const char* name = ibv_get_device_name(dev.context()->device);
  const Pages large(512 * kPage);
  const Pages small(2 * kPage);
  large.paint(1);
  small.paint(1);
  MrPtr mr = reg(dev.pd(), small);
  const Counts before = read_counts(name);
  for (int round = 0; round < 20; round++) {
    must(ibv_rereg_mr(mr.get(), kTrans, nullptr, large.bytes().data(), 512 * kPage, 0));
    const Counts during = read_counts(name);
    require(during.at("pinned_pages") == before.at("pinned_pages") + 510,
            "{} pages are pinned, were {}", during.at("pinned_pages"), before.at("pinned_pages"));
    must(ibv_rereg_mr(mr.get(), kTrans, nullptr, small.bytes().data(), 2 * kPage, 0));
    const std::string left = difference(before, read_counts(name));
    require(left.empty(), "round {}: {}", round, left);
  }
}

// Long WRITEs while the region grows and shrinks around their target: every one succeeds, and no
// byte beside the target changes.
void under_writes(const Device& dev) {
  constexpr std::uint32_t kBig = 256 * kPage;
  const Pages source(kBig);
  source.paint(81);
  const MrPtr from = reg(dev.pd(), source);
  const Pages pages(2 * kBig);
  const MrPtr mr = reg(dev.pd(), pages);
  const Requests link(dev, dev.pd());
  const std::uint64_t middle = pages.address(kBig / 2);
  for (unsigned round = 0; round < 60; round++) {
    pages.paint(82);
    link.start(IBV_WR_RDMA_WRITE, {.addr = source.address(), .length = kBig, .lkey = from->lkey},
               middle, mr->rkey);
    // Both translations cover the target.
    const std::size_t offset = round % 2 == 0 ? 0 : kBig / 4;
    must(ibv_rereg_mr(mr.get(), kTrans, nullptr, pages.bytes().data() + offset,
                      2 * kBig - 2 * offset, 0));
    const ibv_wc_status status = link.end();
    require(status == IBV_WC_SUCCESS, "a WRITE inside of both places: {}",
            ibv_wc_status_str(status));
    require(!mismatch(pages.bytes().subspan(kBig / 2, kBig), 81), "bytes of the WRITE are lost");
    std::vector<std::byte> want(2 * kBig);
    fill(want, 82);
    require(std::ranges::equal(pages.bytes().first(kBig / 2), std::span(want).first(kBig / 2)) &&
                std::ranges::equal(pages.bytes().subspan(kBig + kBig / 2),
                                   std::span(want).subspan(kBig + kBig / 2)),
            "bytes beside the WRITE were changed");
  }
}

// A WRITE is in flight when the region is moved. It may succeed or fail, but once the call has
// returned the device must not write to the old memory.
void revoked_under_writes(const Device& dev) {
  constexpr std::uint32_t kBig = 1024 * kPage;
  const Pages source(kBig);
  source.paint(91);
  const MrPtr from = reg(dev.pd(), source);
  const Pages elsewhere(kPage);
  unsigned refused = 0;
  for (unsigned round = 0; round < 40; round++) {
    Pages target(kBig);
    const MrPtr mr = reg(dev.pd(), target);
    const Requests link(dev, dev.pd());
    link.start(IBV_WR_RDMA_WRITE, {.addr = source.address(), .length = kBig, .lkey = from->lkey},
               target.address(), mr->rkey);
    std::this_thread::sleep_for(std::chrono::microseconds(round * 20));
    must(ibv_rereg_mr(mr.get(), kTrans, nullptr, elsewhere.bytes().data(), kPage, 0));
    target.paint(92);
    const ibv_wc_status status = link.end();
    require(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR, "the WRITE: {}",
            ibv_wc_status_str(status));
    refused += status == IBV_WC_SUCCESS ? 0U : 1U;
    target.check(92, "the memory that was left");
  }
  std::printf("# rereg: %u of 40 WRITEs were stopped on the way\n", refused);
}

// WRITEs one after the other while another thread changes the region's rights: each is allowed or
// refused as a whole, and a refused one moves no byte.
void rights_under_writes(const Device& dev) {
  const Pages source(kPage);
  const MrPtr from = reg(dev.pd(), source);
  const Pages target(kPage);
  const MrPtr mr = reg(dev.pd(), target);
  std::atomic<bool> stop = false;
  int wrong = 0;
  std::thread changer([&] {
    for (unsigned i = 0; !stop; i++) {
      const int access = i % 2 == 0 ? IBV_ACCESS_REMOTE_READ : kAllAccess;
      wrong += ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, access) == 0 ? 0 : 1;
    }
  });
  unsigned counts[2] = {0, 0};
  std::string why;
  std::optional<Requests> link;
  for (unsigned i = 0; i < 300 && why.empty(); i++) {
    if (!link) link.emplace(dev, dev.pd());
    source.paint(1000 + i);
    target.paint(5000);
    const ibv_wc_status status = link->run(
        IBV_WR_RDMA_WRITE, {.addr = source.address(), .length = kPage, .lkey = from->lkey},
        target.address(), mr->rkey);
    const bool came = status == IBV_WC_SUCCESS;
    counts[came ? 1 : 0]++;
    if (!came && status != IBV_WC_REM_ACCESS_ERR) {
      why = ibv_wc_status_str(status);
    } else if (mismatch(target.bytes(), came ? 1000 + i : 5000)) {
      why = came ? "an allowed WRITE is not whole" : "a refused WRITE moved bytes";
    }
    if (!came) link.reset();
  }
  stop = true;
  changer.join();
  require(why.empty(), "{}", why);
  require(wrong == 0, "{} calls failed", wrong);
  std::printf("# rereg: %u WRITEs came, %u were refused\n", counts[1], counts[0]);
}

std::vector<Test> tests(const Device& dev) {
  std::vector<Test> all;
  for (int flags = 1; flags < 8; flags++) {
    std::string name = "change";
    name += (flags & kTrans) != 0 ? "-translation" : "";
    name += (flags & kPd) != 0 ? "-pd" : "";
    name += (flags & kAccess) != 0 ? "-access" : "";
    all.push_back({name, [&dev, flags] { combination(dev, flags); }});
  }
  const std::vector<Test> others =
      tests_of(dev, {{"every-right", rights},
                     {"every-place", places},
                     {"old-and-new-pd", pds},
                     {"refused-by-the-library", refused_by_the_library},
                     {"failure-leaves-the-old", failure_leaves_the_old},
                     {"read-only-memory", read_only_memory},
                     {"rights-to-write-come", rights_to_write_come},
                     {"pins", pins},
                     {"under-writes", under_writes},
                     {"revoked-under-writes", revoked_under_writes},
                     {"rights-under-writes", rights_under_writes}});
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  return run_program(argc, argv, {.group = "rereg", .run = [](const CommandLine& line) {
                                    const Device dev(line.device, line.gid_index);
                                    run_tests(tests(dev));
                                  }});
}
