// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that are in flight while a region moves, changes its rights or ends.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "regions.h"

namespace guest::regions {
namespace {

// Returns whether the region has other memory. Another failure than EOPNOTSUPP fails the test.
void move_to(ibv_mr* mr, void* at, std::size_t length) {
  const int result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, at, length, 0);
  if (result == IBV_REREG_MR_ERR_CMD && (errno == EOPNOTSUPP || errno == ENOSYS)) {
    skip("ibv_rereg_mr: {}", errno_name(errno));
  }
  require(result == 0, "ibv_rereg_mr: {}, {}", result, errno_name(errno));
}

void start(const Loop& link, const Send& send) {
  require_err(post(link.a(), Api::kPost, send), 0, "a WRITE");
}

ibv_wc_status end(const Loop& link) { return poll(link.cq(), 1, 60000)[0].status; }

// Long WRITEs while the region grows and shrinks around their target.
void under_writes(const Env& env) {
  constexpr std::uint32_t kBig = 256 * kPage;
  const Pages source(kBig);
  source.paint(81);
  const MrPtr from = reg(env.dev, source, kAllAccess);
  const Pages pages(2 * kBig);
  const MrPtr mr = reg(env.dev, pages, kAllAccess);
  const std::uint64_t middle = pages.address(kBig / 2);
  std::optional<Loop> link;
  for (unsigned round = 0; round < 60; round++) {
    if (!link) link.emplace(env.dev, 4);
    pages.paint(82);
    start(*link, write_from(sge(from.get(), source.address(), kBig), middle, mr->rkey));
    // Both translations cover the target.
    const std::size_t offset = round % 2 == 0 ? 0 : kBig / 4;
    move_to(mr.get(), pages.at(offset), 2 * kBig - 2 * offset);
    const ibv_wc_status status = end(*link);
    require(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR, "a WRITE: {}",
            ibv_wc_status_str(status));
    require_usual(status == IBV_WC_SUCCESS, "a WRITE inside of both places is refused");
    if (status == IBV_WC_SUCCESS) {
      expect_pattern(pages.bytes(kBig / 2, kBig), 81, "the WRITE");
    } else {
      link.reset();
    }
    std::vector<std::byte> want(2 * kBig);
    fill(want, 82);
    require(std::ranges::equal(pages.bytes(0, kBig / 2), std::span(want).first(kBig / 2)) &&
                std::ranges::equal(pages.bytes(kBig + kBig / 2, kBig / 2),
                                   std::span(want).subspan(kBig + kBig / 2)),
            "bytes beside the WRITE were changed");
  }
}

// A WRITE is in flight when `leave` takes its target away. It may succeed or fail, but then the
// device must not write to that memory any more.
template <typename Leave>
void revoked(const Env& env, const Leave& leave) {
  constexpr std::uint32_t kBig = 1024 * kPage;
  const Pages source(kBig);
  source.paint(91);
  const MrPtr from = reg(env.dev, source, kAllAccess);
  for (unsigned round = 0; round < 40; round++) {
    const Pages target(kBig);
    MrPtr mr = reg(env.dev, target, kAllAccess);
    const Loop link(env.dev, 4);
    start(link, write_from(sge(from.get(), source.address(), kBig), target.address(), mr->rkey));
    std::this_thread::sleep_for(std::chrono::microseconds(round * 20));
    leave(mr);
    target.paint(92);
    const ibv_wc_status status = end(link);
    require(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR, "the WRITE: {}",
            ibv_wc_status_str(status));
    target.check(92, "the memory that was left");
  }
}

void moved_under_writes(const Env& env) {
  const Pages elsewhere(kPage);
  revoked(env, [&](MrPtr& mr) { move_to(mr.get(), elsewhere.at(), kPage); });
}

void ended_under_writes(const Env& env) {
  revoked(env, [](MrPtr& mr) { require_err(ibv_dereg_mr(mr.release()), 0, "ibv_dereg_mr"); });
}

// WRITEs one after the other while another thread changes the region's rights. A packet is allowed
// or refused as a whole; tern decides for the whole WRITE.
void rights_under_writes(const Env& env) {
  const std::uint32_t length = strict() ? kPage : 256;
  const Pages source(kPage), target(kPage);
  const MrPtr from = reg(env.dev, source, kAllAccess), mr = reg(env.dev, target, kAllAccess);
  const auto change = [&](int access) {
    return ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access);
  };
  if (change(kAllAccess) != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
    skip("ibv_rereg_mr: {}", errno_name(errno));
  }
  std::atomic<int> wrong = 0;
  std::jthread changer([&](const std::stop_token& stop) {
    for (unsigned i = 0; !stop.stop_requested(); i++) {
      wrong += change(i % 2 == 0 ? static_cast<int>(IBV_ACCESS_REMOTE_READ) : kAllAccess) != 0;
    }
  });
  std::optional<Loop> link;
  for (unsigned i = 0; i < 300; i++) {
    if (!link) link.emplace(env.dev, 4);
    source.paint(1000 + i);
    target.paint(5000);
    const ibv_wc_status status = link->run(
        write_from(sge(from.get(), source.address(), length), target.address(), mr->rkey));
    const bool came = status == IBV_WC_SUCCESS;
    require(came || status == IBV_WC_REM_ACCESS_ERR, "a WRITE: {}", ibv_wc_status_str(status));
    require(!mismatch(target.bytes(0, length), came ? 1000 + i : 5000), "{}",
            came ? "an allowed WRITE is not whole" : "a refused WRITE moved bytes");
    if (!came) link.reset();
  }
  changer.request_stop();
  changer.join();
  require(wrong == 0, "{} calls failed", wrong.load());
}

}  // namespace

Rules rereg_under_way() {
  return {
      {"rereg-under-writes",
       "WRITEs change no byte beside them while their region grows and shrinks", under_writes},
      {"rereg-revokes", "when ibv_rereg_mr returns, no request in flight writes to the old memory",
       moved_under_writes},
      {"dereg-revokes", "when ibv_dereg_mr returns, no request in flight writes to its memory",
       ended_under_writes, "ibv_reg_mr(3); IBTA volume 1, 10.6.5"},
      {"rereg-rights-under-writes", "a WRITE that meets a change of rights is allowed or refused",
       rights_under_writes},
  };
}

}  // namespace guest::regions
