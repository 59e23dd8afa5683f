// SPDX-License-Identifier: GPL-2.0-or-later
// What tern claims, and the faults that it counts.
#include <cerrno>
#include <cstring>

#include "paging.h"

namespace guest {
namespace {

void capabilities(const Device& dev) {
  const ibv_device_attr_ex& attr = dev.attr_ex();
  require(attr.odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT),
          "general_caps {:#x}", attr.odp_caps.general_caps);
  const auto& caps = attr.odp_caps.per_transport_caps;
  require(caps.rc_odp_caps == 0xff && attr.xrc_odp_caps == 0xff, "RC {:#x}, XRC {:#x}",
          caps.rc_odp_caps, attr.xrc_odp_caps);
  require(caps.ud_odp_caps == IBV_ODP_SUPPORT_SEND && caps.uc_odp_caps == IBV_ODP_SUPPORT_SEND,
          "UD {:#x}, UC {:#x}", caps.ud_odp_caps, caps.uc_odp_caps);
}

// Pages that are absent fault once; prefetched pages do not.
void counted(const Device& dev) {
  constexpr std::uint32_t kLen = 64 * kPage;
  const Map here(kLen), there(kLen);
  const MrPtr near = reg(dev, here), far = reg(dev, there);
  const Loop pair(dev);
  const Send write = write_from(sge(near.get(), here.address(), kLen), there.address(), far->rkey);
  const std::uint64_t before = counter(dev, "page_faults");
  pair.must(write, "WRITE");
  const std::uint64_t faulted = counter(dev, "page_faults");
  require(faulted > before, "no page fault was counted");
  pair.must(write, "WRITE again");
  require(counter(dev, "page_faults") == faulted, "present pages faulted");
  here.advise(MADV_DONTNEED);
  there.advise(MADV_DONTNEED);
  ibv_sge all = sge(far.get(), there.address(), kLen);
  require_err(ibv_advise_mr(dev.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
                            &all, 1),
              0, "PREFETCH_WRITE");
  all = sge(near.get(), here.address(), kLen);
  require_err(
      ibv_advise_mr(dev.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &all, 1), 0,
      "PREFETCH");
  const std::uint64_t prefetched = counter(dev, "page_faults");
  pair.must(write, "WRITE after PREFETCH");
  require(counter(dev, "page_faults") == prefetched, "prefetched pages faulted");
}

}  // namespace

std::vector<Test> counted_tests(const Device& dev) {
  return tests_of(dev, {{"capabilities", capabilities}, {"counted", counted}});
}

}  // namespace guest
