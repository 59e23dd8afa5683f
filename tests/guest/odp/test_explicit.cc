// SPDX-License-Identifier: GPL-2.0-or-later
// Every operation on memory that is not present, advice, windows, re-registration, null regions.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "paging.h"

namespace guest {
namespace {

constexpr std::uint32_t kLen = 3 * kPage;

// Nothing of these was touched: each end of each operation faults.
struct Ends {
  explicit Ends(const Device& dev)
      : pair(dev), here(8 * kPage), there(8 * kPage), near(reg(dev, here)), far(reg(dev, there)) {}
  Loop pair;
  Map here, there;
  MrPtr near, far;
  [[nodiscard]] ibv_sge from(std::size_t offset = 100, std::uint32_t n = kLen) const {
    return sge(near.get(), here.address(offset), n);
  }
};

void operations(const Device& dev) {
  const std::uint64_t before = counter(dev, "page_faults");
  {
    Ends e(dev);
    fill(e.here.bytes(100, kLen), 1);
    e.pair.must(write_from(e.from(), e.there.address(50), e.far->rkey), "WRITE");
    expect_pattern(e.there.bytes(50, kLen), 1, "WRITE");
  }
  {
    Ends e(dev);
    fill(e.there.bytes(50, kLen), 2);
    e.pair.must(read_into(e.from(), e.there.address(50), e.far->rkey), "READ");
    expect_pattern(e.here.bytes(100, kLen), 2, "READ");
  }
  {
    Ends e(dev);
    fill(e.here.bytes(100, kLen), 3);
    const ibv_sge to = sge(e.far.get(), e.there.address(70), kLen);
    require_err(post_recv(e.pair.b(), 7, {&to, 1}), 0, "ibv_post_recv");
    require_err(post(e.pair.a(), Api::kPost, Send{.opcode = IBV_WR_SEND, .sges = {e.from()}}), 0,
                "SEND");
    for (const ibv_wc& wc : poll(e.pair.cq(), 2))
      require(wc.status == IBV_WC_SUCCESS, "SEND: {}", ibv_wc_status_str(wc.status));
    expect_pattern(e.there.bytes(70, kLen), 3, "SEND");
  }
  {
    Ends e(dev);
    Send add{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sges = {e.from(8, 8)}};
    add.raddr = e.there.address(16);
    add.rkey = e.far->rkey;
    add.compare_add = 5;
    for (std::uint64_t i = 0; i < 3; ++i) {
      e.pair.must(add, "FETCH_AND_ADD");
      std::uint64_t got = 0;
      std::memcpy(&got, e.here.at(8), 8);
      require(got == i * 5, "FETCH_AND_ADD returned {}", got);
    }
    Send swap = add;
    swap.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    swap.compare_add = 15;
    swap.swap = 99;
    e.here.advise(MADV_DONTNEED);
    e.pair.must(swap, "CMP_AND_SWP");
    std::uint64_t word = 0;
    std::memcpy(&word, e.there.at(16), 8);
    require(word == 99, "CMP_AND_SWP left {}", word);
    Send flush{.opcode = IBV_WR_FLUSH};
    flush.raddr = e.there.address(4 * kPage);
    flush.rkey = e.far->rkey;
    flush.flush_length = kPage;
    e.pair.must(flush, "FLUSH");
    Send store{.opcode = IBV_WR_ATOMIC_WRITE};
    store.raddr = e.there.address(5 * kPage);
    store.rkey = e.far->rkey;
    store.swap = 0x123456789abcdef;
    e.pair.must(store, "ATOMIC_WRITE");
    std::memcpy(&word, e.there.at(5 * kPage), 8);
    require(word == store.swap, "ATOMIC_WRITE left {:#x}", word);
  }
  require(counter(dev, "page_faults") > before, "no page fault was counted");
}

void srq_receive(const Device& dev) {
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
  const SrqPtr srq(ibv_create_srq(dev.pd(), &attr));
  require(srq != nullptr, "ibv_create_srq");
  Loop pair(dev, 16, srq.get());
  const Map here(8 * kPage), there(8 * kPage);
  const MrPtr near = reg(dev, here), far = reg(dev, there);
  fill(here.bytes(), 4);
  const ibv_sge to = sge(far.get(), there.address(), 8 * kPage);
  require_err(post_srq_recv(srq.get(), 1, {&to, 1}), 0, "ibv_post_srq_recv");
  require_err(
      post(pair.a(), Api::kPost,
           Send{.opcode = IBV_WR_SEND, .sges = {sge(near.get(), here.address(), 8 * kPage)}}),
      0, "SEND");
  for (const ibv_wc& wc : poll(pair.cq(), 2))
    require(wc.status == IBV_WC_SUCCESS, "SEND: {}", ibv_wc_status_str(wc.status));
  expect_pattern(there.bytes(), 4, "SRQ");
}

void protection(const Device& dev) {
  // A mapping that may only be read can be sent from, but not written to.
  const Map plain(kPage);
  const Map read_only(2 * kPage, PROT_READ);
  const MrPtr local = reg(dev, plain), far = reg(dev, read_only);
  {
    Loop pair(dev);
    pair.must(write_from(sge(far.get(), read_only.address(), 100), plain.address(), local->rkey),
              "WRITE from a read-only mapping");
    const auto status =
        pair.run(write_from(sge(local.get(), plain.address(), 8), read_only.address(), far->rkey));
    require(status == IBV_WC_REM_ACCESS_ERR, "WRITE to a read-only mapping: {}",
            ibv_wc_status_str(status));
  }
  const Map gone(4 * kPage);
  const MrPtr hole = reg(dev, gone);
  require(::mprotect(gone.at(2 * kPage), kPage, PROT_NONE) == 0, "mprotect");
  {
    Loop pair(dev);
    const auto status = pair.run(
        write_from(sge(hole.get(), gone.address(2 * kPage), 8), plain.address(), local->rkey));
    require(status == IBV_WC_LOC_PROT_ERR, "WRITE from a hole: {}", ibv_wc_status_str(status));
  }
  {
    // What is in front of the hole arrives.
    Loop pair(dev);
    fill(gone.bytes(0, 2 * kPage), 5);
    const auto status = pair.run(
        read_into(sge(local.get(), plain.address(), 8), gone.address(2 * kPage), hole->rkey));
    require(status == IBV_WC_REM_ACCESS_ERR, "READ from a hole: {}", ibv_wc_status_str(status));
    Loop other(dev);
    other.must(read_into(sge(local.get(), plain.address(), kPage), gone.address(kPage), hole->rkey),
               "READ in front of the hole");
  }
}

void advice(const Device& dev) {
  const Map here(64 * kPage), there(64 * kPage), normal(kPage), read_only(kPage);
  const MrPtr near = reg(dev, here), far = reg(dev, there);
  const MrPtr pinned = reg(dev, normal, kAllAccess);
  const MrPtr no_write = reg(dev, read_only, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);
  const PdPtr other(ibv_alloc_pd(dev.context()));
  const auto advise = [&](ibv_pd* pd, ibv_advise_mr_advice what, unsigned flags, ibv_sge s) {
    return ibv_advise_mr(pd, what, flags, &s, 1);
  };
  constexpr auto kRead = IBV_ADVISE_MR_ADVICE_PREFETCH;
  constexpr auto kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  constexpr auto kPresent = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
  constexpr unsigned kFlush = IBV_ADVISE_MR_FLAG_FLUSH;
  const ibv_sge all = sge(far.get(), there.address(), 64 * kPage);
  require_err(advise(dev.pd(), kWrite, kFlush, all), 0, "PREFETCH_WRITE");
  require_err(advise(dev.pd(), kRead, kFlush, sge(near.get(), here.address(), 64 * kPage)), 0,
              "PREFETCH");
  const std::uint64_t before = counter(dev, "page_faults");
  Loop pair(dev);
  pair.must(write_from(sge(near.get(), here.address(), 64 * kPage), there.address(), far->rkey),
            "WRITE after PREFETCH");
  require(counter(dev, "page_faults") == before, "prefetched pages faulted");
  there.advise(MADV_DONTNEED);
  require_err(advise(dev.pd(), kPresent, kFlush, all), 0, "PREFETCH_NO_FAULT");
  std::memset(there.at(), 1, 8 * kPage);
  require_err(advise(dev.pd(), kPresent, kFlush, all), 0, "PREFETCH_NO_FAULT of some pages");
  for (const auto what : {kRead, kWrite, kPresent})
    require_err(advise(dev.pd(), what, 0, all), 0, "asynchronous advice");
  // The page's errors.
  require_err(advise(dev.pd(), kRead, kFlush, sge(pinned.get(), normal.address(), 8)), ENOENT,
              "advice for a pinned region");
  ibv_sge bad = all;
  bad.lkey ^= 1;
  require_err(advise(dev.pd(), kRead, kFlush, bad), ENOENT, "advice for another variant of a key");
  require_err(advise(other.get(), kRead, kFlush, all), EPERM, "advice for a region of another PD");
  require_err(advise(dev.pd(), kWrite, kFlush, sge(no_write.get(), read_only.address(), 8)), EPERM,
              "PREFETCH_WRITE without the right");
  require_err(advise(dev.pd(), kRead, kFlush, sge(far.get(), there.address() - 1, 8)), EFAULT,
              "advice in front of a region");
  require_err(advise(dev.pd(), kRead, kFlush, sge(far.get(), there.address(63 * kPage), kPage + 1)),
              EFAULT, "advice beyond a region");
  require(::mprotect(there.at(10 * kPage), kPage, PROT_NONE) == 0, "mprotect");
  require_err(advise(dev.pd(), kRead, kFlush, all), EFAULT, "PREFETCH of a hole");
  require_err(advise(dev.pd(), kRead, 0, all), 0, "asynchronous PREFETCH of a hole");
  require_err(advise(dev.pd(), static_cast<ibv_advise_mr_advice>(3), 0, all), EOPNOTSUPP,
              "unknown advice");
  require(advise(dev.pd(), kRead, 0x100, all) != 0, "unknown flags");
}

// Advice that maps only present pages races with advice that faults them in: the kernel must keep
// their results apart.
void advice_races(const Device& dev) {
  // New memory has no page table, if it covers what a whole one is for.
  constexpr std::size_t kPages = 1024;
  const Map map(kPages * kPage);
  const auto renew = [&] {
    void* const at = ::mmap(map.at(), kPages * kPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    require(at == map.at(), "mmap");
    map.advise(MADV_NOHUGEPAGE);
  };
  const MrPtr mr = reg(dev, map);
  const auto advise = [&](ibv_advise_mr_advice what, std::size_t first, std::size_t pages) {
    ibv_sge range =
        sge(mr.get(), map.address(first * kPage), static_cast<std::uint32_t>(pages * kPage));
    return ibv_advise_mr(dev.pd(), what, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1);
  };
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> prefetchers;
    for (int i = 0; i < 3; ++i) {
      prefetchers.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          if (const int err = advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, kPages))
            failed = err;
        }
      });
    }
    for (std::size_t i = 0; i < 600; ++i) {
      renew();
      require_err(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, kPages / 2 - 4 + i % 8, 1), 0,
                  "PREFETCH_WRITE");
    }
  }
  require_err(failed, 0, "PREFETCH_NO_FAULT");
}

void windows(const Device& dev) {
  const Map here(kPage), there(8 * kPage);
  const MrPtr near = reg(dev, here), far = reg(dev, there, kOdpAccess | IBV_ACCESS_MW_BIND);
  fill(here.bytes(), 6);
  const MwPtr mw(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
  require(mw != nullptr, "ibv_alloc_mw");
  Loop pair(dev);
  Send bind{.opcode = IBV_WR_BIND_MW};
  bind.mw = mw.get();
  bind.bind_rkey = ibv_inc_rkey(mw->rkey);
  bind.bind = {.mr = far.get(),
               .addr = there.address(3 * kPage - 10),
               .length = 20,
               .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  require_err(post(pair.b(), Api::kPost, bind), 0, "bind");
  require(poll(pair.cq(), 1)[0].status == IBV_WC_SUCCESS, "bind");
  pair.must(write_from(sge(near.get(), here.address(), 20), there.address(3 * kPage - 10),
                       bind.bind_rkey),
            "WRITE through a window");
  expect_pattern(there.bytes(3 * kPage - 10, 20), 6, "window");
  // The memory moves, and the rules stay.
  there.advise(MADV_DONTNEED);
  errno = 0;
  require(ibv_rereg_mr(far.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, there.at(),
                       there.length(), 0) != 0,
          "rereg of a region with a window");
  require(errno == EBUSY, "rereg of a region with a window: {}", errno_name(errno));
  require_err(ibv_dereg_mr(far.get()), EBUSY, "dereg of a region with a window");
  pair.must(write_from(sge(near.get(), here.address(), 20), there.address(3 * kPage - 10),
                       bind.bind_rkey),
            "WRITE after the memory moved");
  expect_pattern(there.bytes(3 * kPage - 10, 20), 6, "window after a move");
  const auto status = pair.run(write_from(sge(near.get(), here.address(), 20),
                                          there.address(3 * kPage - 9), bind.bind_rkey));
  require(status == IBV_WC_REM_ACCESS_ERR, "WRITE beyond a window: {}", ibv_wc_status_str(status));
  expect_zeros(there.bytes(3 * kPage + 10, 100), "beyond the window");
}

void rereg(const Device& dev) {
  const Map here(kPage), there(8 * kPage), other(8 * kPage);
  const MrPtr near = reg(dev, here);
  MrPtr far = reg(dev, there, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);
  fill(here.bytes(), 8);
  const auto change = [&](int flags, void* at, int access) {
    const int err = ibv_rereg_mr(far.get(), flags, nullptr, at, at ? 8 * kPage : 0, access);
    require(err == 0, "ibv_rereg_mr with {}: {}, {}", flags, err, errno_name(errno));
  };
  const auto write = [&](const Map& to) {
    Loop pair(dev);
    return pair.run(write_from(sge(near.get(), here.address(), kPage), to.address(100), far->rkey));
  };
  require(write(there) == IBV_WC_REM_ACCESS_ERR, "WRITE without the right");
  change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, kOdpAccess);
  require(write(there) == IBV_WC_SUCCESS, "WRITE with the right");
  expect_pattern(there.bytes(100, kPage), 8, "WRITE with the right");
  change(IBV_REREG_MR_CHANGE_TRANSLATION, other.at(), 0);
  require(write(there) == IBV_WC_REM_ACCESS_ERR, "WRITE to the old memory");
  require(write(other) == IBV_WC_SUCCESS, "WRITE to the new memory");
  expect_pattern(other.bytes(100, kPage), 8, "WRITE to the new memory");
  // To pinned memory and back.
  change(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, there.at(), kAllAccess);
  std::memset(there.at(), 0, 2 * kPage);
  require(write(there) == IBV_WC_SUCCESS, "WRITE to pinned memory");
  expect_pattern(there.bytes(100, kPage), 8, "WRITE to pinned memory");
  change(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, other.at(), kOdpAccess);
  other.advise(MADV_DONTNEED);
  require(write(other) == IBV_WC_SUCCESS, "WRITE on demand again");
  expect_pattern(other.bytes(100, kPage), 8, "WRITE on demand again");
}

void null_region(const Device& dev) {
  const Map here(64 * kPage);
  const MrPtr mr = reg(dev, here, kAllAccess);
  MrPtr null(ibv_alloc_null_mr(dev.pd()));
  require(null != nullptr, "ibv_alloc_null_mr: {}", errno_name(errno));
  Loop pair(dev);
  fill(here.bytes(), 9);
  pair.must(
      write_from({.addr = 0, .length = 64 * kPage, .lkey = null->lkey}, here.address(), mr->rkey),
      "WRITE from a null region");
  expect_zeros(here.bytes(), "WRITE from a null region");
  pair.must(read_into({.addr = 0x1234567, .length = 64 * kPage, .lkey = null->lkey}, here.address(),
                      mr->rkey),
            "READ into a null region");
  // A receive that skips the middle of a message.
  fill(here.bytes(0, 3 * kPage), 10);
  const ibv_sge to[] = {{.addr = 0, .length = kPage, .lkey = null->lkey},
                        sge(mr.get(), here.address(8 * kPage), 2 * kPage)};
  require_err(post_recv(pair.b(), 1, to), 0, "ibv_post_recv");
  require_err(post(pair.a(), Api::kPost,
                   Send{.opcode = IBV_WR_SEND, .sges = {sge(mr.get(), here.address(), 3 * kPage)}}),
              0, "SEND");
  for (const ibv_wc& wc : poll(pair.cq(), 2))
    require(wc.status == IBV_WC_SUCCESS, "SEND: {}", ibv_wc_status_str(wc.status));
  require(std::ranges::equal(here.bytes(kPage, 2 * kPage), here.bytes(8 * kPage, 2 * kPage)),
          "scatter beside a null region");
}

void capabilities(const Device& dev) {
  ibv_device_attr_ex attr{};
  require_err(ibv_query_device_ex(dev.context(), nullptr, &attr), 0, "ibv_query_device_ex");
  require(attr.odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT),
          "general_caps {:#x}", attr.odp_caps.general_caps);
  const auto& caps = attr.odp_caps.per_transport_caps;
  require(caps.rc_odp_caps == 0xff && attr.xrc_odp_caps == 0xff, "RC {:#x}, XRC {:#x}",
          caps.rc_odp_caps, attr.xrc_odp_caps);
  require(caps.ud_odp_caps == IBV_ODP_SUPPORT_SEND && caps.uc_odp_caps == IBV_ODP_SUPPORT_SEND,
          "UD {:#x}, UC {:#x}", caps.ud_odp_caps, caps.uc_odp_caps);
  const Map map(kPage);
  errno = 0;
  require(
      ibv_reg_mr_iova(dev.pd(), nullptr, SIZE_MAX, kPage, kOdpAccess) == nullptr && errno == EINVAL,
      "an implicit region at an address: {}", errno_name(errno));
}

}  // namespace

std::vector<Test> explicit_tests(const Device& dev) {
  return tests_of(dev, {{"capabilities", capabilities},
                        {"operations", operations},
                        {"srq-receive", srq_receive},
                        {"protection", protection},
                        {"advice", advice},
                        {"advice-races", advice_races},
                        {"windows", windows},
                        {"rereg", rereg},
                        {"null-region", null_region}});
}

}  // namespace guest
