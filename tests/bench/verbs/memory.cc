// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "clock.h"
#include "measure.h"
#include "pages.h"

namespace guest::bench {
namespace {

constexpr std::size_t kSizes[] = {4096, std::size_t{1} << 20, std::size_t{256} << 20};
constexpr std::uint32_t kWindows = 16;
constexpr std::uint32_t kWindow = 4096;
constexpr std::size_t kDmCopy = 64 * 1024;
constexpr std::size_t kCopySizes[] = {4096, 65536, std::size_t{1} << 20};
constexpr std::size_t kCopyBytes = std::size_t{8} << 20;
constexpr std::size_t kMostCopies = 64;

// Returns the nanoseconds per call, averaged over a time.
template <typename Call>
double each(double seconds, Call call) {
  std::uint64_t n = 0;
  call();
  const std::uint64_t begin = ticks();
  do {
    call();
    ++n;
  } while (seconds_since(begin) < seconds);
  return seconds_since(begin) * 1e9 / static_cast<double>(n);
}

void registration(const Device& dev, const Scene& scene, std::size_t size, int access,
                  const std::string& suffix) {
  const Pages pages(size);
  std::vector<std::uint64_t> made;
  std::vector<std::uint64_t> gone;
  const std::uint64_t begin = ticks();
  do {
    const std::uint64_t first = ticks();
    ibv_mr* const mr = ibv_reg_mr(dev.pd(), pages.at(), size, static_cast<unsigned>(access));
    const std::uint64_t second = ticks();
    if (mr == nullptr) fail_errno("ibv_reg_mr");
    if (const int err = ibv_dereg_mr(mr)) fail("ibv_dereg_mr: {}", errno_name(err));
    made.push_back(second - first);
    gone.push_back(ticks() - second);
  } while (seconds_since(begin) < scene.seconds);
  report_times(scene, "register" + suffix, size, made, 1);
  report_times(scene, "deregister" + suffix, size, gone, 1);
}

// Type 2 windows: binds and invalidates each, in one list of requests.
void windows(const Device& dev, const Scene& scene) {
  if (!(dev.attr().device_cap_flags &
        (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
    return;
  End end(dev, {});
  const auto peer = local_peer(dev);
  peer->begin(end);
  const Memory memory(dev.pd(), kWindows * kWindow, kAllAccess | IBV_ACCESS_MW_BIND);
  std::vector<MwPtr> mws;
  std::array<ibv_send_wr, 2 * kWindows> wrs{};
  for (std::uint32_t i = 0; i < kWindows; ++i) {
    mws.emplace_back(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
    if (!mws.back()) fail_errno("ibv_alloc_mw");
    wrs.at(i).opcode = IBV_WR_BIND_MW;
    wrs.at(i).bind_mw.mw = mws.back().get();
    wrs.at(i).bind_mw.rkey = mws.back()->rkey;
    wrs.at(i).bind_mw.bind_info = {
        .mr = memory.mr(),
        .addr = memory.address(std::uint64_t{i} * kWindow),
        .length = kWindow,
        .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    wrs.at(kWindows + i).opcode = IBV_WR_LOCAL_INV;
  }
  for (std::size_t i = 0; i + 1 < wrs.size(); ++i) wrs.at(i).next = &wrs.at(i + 1);
  wrs.back().send_flags = IBV_SEND_SIGNALED;
  const double list = each(scene.seconds, [&] {
    for (std::uint32_t i = 0; i < kWindows; ++i) {
      wrs.at(i).bind_mw.rkey = ibv_inc_rkey(wrs.at(i).bind_mw.rkey);
      wrs.at(kWindows + i).invalidate_rkey = wrs.at(i).bind_mw.rkey;
    }
    end.post(wrs.front());
    ibv_wc wc{};
    while (end.poll(&wc, 1) == 0) {
    }
  });
  peer->finish();
  report(scene, "bind-invalidate", kWindow, kWindows * 1e3 / list, "M/s");
}

void device_memory(const Device& dev, const Scene& scene) {
  ibv_device_attr_ex attr{};
  if (ibv_query_device_ex(dev.context(), nullptr, &attr) != 0 || attr.max_dm_size < kDmCopy) return;
  ibv_alloc_dm_attr want{.length = kDmCopy, .log_align_req = 0, .comp_mask = 0};
  ibv_dm* const dm = ibv_alloc_dm(dev.context(), &want);
  if (dm == nullptr) fail_errno("ibv_alloc_dm");
  const Pages pages(kDmCopy);
  const double to = each(scene.seconds, [&] { ibv_memcpy_to_dm(dm, 0, pages.at(), kDmCopy); });
  const double from = each(scene.seconds, [&] { ibv_memcpy_from_dm(pages.at(), dm, 0, kDmCopy); });
  ibv_free_dm(dm);
  report(scene, "copy-to-dm", kDmCopy, kDmCopy / to, "GB/s");
  report(scene, "copy-from-dm", kDmCopy, kDmCopy / from, "GB/s");
}

}  // namespace

void measure_registration(const Device& dev, const Scene& scene, int access,
                          const std::string& suffix) {
  for (const std::size_t size : kSizes) registration(dev, scene, size, access, suffix);
}

void measure_memory(const Device& dev, const Scene& scene) {
  measure_registration(dev, scene, kAllAccess, "");
  windows(dev, scene);
  device_memory(dev, scene);
  measure_on_demand(dev, scene);
}

void measure_limits(const Device& dev, const Scene& scene) {
  End end(dev, {});
  const auto peer = local_peer(dev);
  peer->begin(end);
  if (ibv_qp_ex* const ex = ibv_qp_to_qp_ex(end.qp())) {
    // Built and aborted, so that no doorbell is rung.
    const double post = each(scene.seconds, [&] {
      ibv_wr_start(ex);
      ex->wr_id = 1;
      ex->wr_flags = 0;
      ibv_wr_rdma_write(ex, end.remote().rkey, end.remote().memory);
      ibv_wr_set_sge(ex, end.memory().lkey(), end.memory().address(), 64);
      ibv_wr_abort(ex);
    });
    report(scene, "build-wqe", 64, post, "ns");
  }
  ibv_wc wc{};
  report(scene, "poll-empty", 0, each(scene.seconds, [&] { ibv_poll_cq(end.cq(), 1, &wc); }), "ns");
  peer->finish();
  const Pages from(kCopyBytes);
  const Pages to(kCopyBytes);
  for (const std::size_t size : kCopySizes) {
    const std::size_t buffers = std::min(kCopyBytes / size, kMostCopies);
    std::size_t i = 0;
    const double ns = each(scene.seconds, [&] {
      std::memcpy(to.at(i * size), from.at(i * size), size);
      i = (i + 1) % buffers;
    });
    report(scene, "guest-memcpy", size, static_cast<double>(size) / ns, "GB/s");
  }
}

}  // namespace guest::bench
