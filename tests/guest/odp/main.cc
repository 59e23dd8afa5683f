// SPDX-License-Identifier: GPL-2.0-or-later
// odp: tests on-demand paging where it needs root, a helper or tern's counts, and
// ibv_reg_dmabuf_mr(3). The rules that a program can test by itself are verbs-judge's.
//
//   odp [PATTERN...]
//   odp --peer            only the test with two adapters
//   odp --nodes           only the tests with two NUMA nodes
//   odp --revoke          only the tests of revoked dma-bufs, which revoked.sh runs
//   odp --swap            only the test that swaps
//   odp --hold uffd|fuse  the device waits for a page that never arrives, until SIGTERM; prints
//                         "ready" when it does
//   odp --churn           faults without end, until the device is gone; prints "ready" when it has
//                         begun
//
// Prints "ok odp/NAME" or "not ok odp/NAME - why" for each test. Needs root.
//
// Test: odp
// Tier: full, 1800 s
// Also: testing
// Boot: pair
// Proves: On-demand paging and dma-bufs (Documentation/odp.rst).
//
// Test: odp-swap
// Tier: full, 900 s
// Lane: trixie
// Boot: pair
// Run: odp --swap
// Proves: Pages of regions are swapped out and back in. Not in the lane debug: reclaim of a cgroup
//   gives up there, with pages in the active list only, and ends the program. The cause is not
//   known.
//
// Test: ternd-odp-iommu
// Tier: full, 600 s
// Boot: ternd-iommu
// Run: odp counted udmabuf
// Proves: On-demand paging behind a vIOMMU whose mappings are messages to ternd.
//
// Test: odp-iommu
// Tier: full, 600 s
// Boot: iommu
// Run: odp counted udmabuf
// Proves: On-demand paging behind an emulated VT-d.
//
// Test: odp-nodes
// Tier: long, 600 s
// Lane: trixie
// Boot: beside --vms 1 --nodes 2
// Run: odp --nodes
// Proves: Pages of regions move between NUMA nodes.
//
// Test: odp-peer
// Tier: quick, 300 s
// Lane: testing
// Boot: zen
// Run: odp --peer
// Proves: Dma-bufs in the memory of a peer device.
#include <cstdio>
#include <string>

#include "paging.h"
#include "stuck.h"

namespace {

void churn(const guest::Device& dev) {
  using namespace guest;
  const Map map(1024 * kPage), plain(kPage);
  const MrPtr mr = reg(dev, map), all = reg_all(dev), local = reg(dev, plain, kAllAccess);
  Loop pair(dev);
  try {
    for (std::size_t i = 0;; ++i) {
      const std::size_t at = i % 1000 * kPage;
      const ibv_mr* const to = i % 2 ? mr.get() : all.get();
      if (pair.run(
              write_from(sge(local.get(), plain.address(), kPage), map.address(at) + 8, to->rkey),
              5000) != IBV_WC_SUCCESS)
        break;
      if (i % 16 == 15) map.advise(MADV_DONTNEED);
      if (i == 100) {
        std::printf("ready\n");
        std::fflush(stdout);
      }
    }
  } catch (const Failure&) {
    // A device that was pulled out does not complete anything.
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace guest;
  bool swap = false, peer = false, nodes = false, revoke = false, churns = false;
  std::string held;
  return run_program(argc, argv,
                     {.group = "odp",
                      .options = {{"swap", &swap},
                                  {"peer", &peer},
                                  {"nodes", &nodes},
                                  {"revoke", &revoke},
                                  {"churn", &churns},
                                  {"hold", &held}},
                      .run = [&](const CommandLine& line) {
                        if (!held.empty()) return hold(held == "fuse");
                        const Device dev(line.device, line.gid_index);
                        if (churns) return churn(dev);
                        if (swap) return run_tests(swap_tests(dev));
                        if (peer) return run_tests(peer_tests(dev));
                        if (nodes) return run_tests(node_tests(dev));
                        if (revoke) {
                          set_group("revoked/" + line.device);
                          return run_tests(revoke_tests(dev));
                        }
                        std::vector<Test> tests;
                        for (const auto& part : {counted_tests(dev), move_tests(dev),
                                                 late_tests(dev), dmabuf_tests(dev)}) {
                          tests.insert(tests.end(), part.begin(), part.end());
                        }
                        run_tests(tests);
                      }});
}
