// SPDX-License-Identifier: GPL-2.0-or-later
// Registers 64 GiB of address space on a machine with far less memory, by mapping one small memfd
// of huge pages repeatedly. RDMA writes and reads at both ends, at the borders of page list chunks
// and in the middle must reach the right bytes. The page list is counted while the region exists
// and freed afterwards.
//
// usage: bigmr [-d DEV] [-g GID_INDEX]
//
// Test: bigmr
// Tier: full, 1200 s
// Boot: pair
// Proves: Regions of 64 GiB, in 2 MiB and in 4 KiB pages, accessed at both ends and at the borders
//   of page list pieces.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "pair.h"
#include "program.h"

namespace guest {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kFile = std::uint64_t{64} << 20;
constexpr std::uint64_t kRegion = 64 * kGiB;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHuge = std::uint64_t{2} << 20;
constexpr std::uint32_t kBytes = 8000;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// Address space of kRegion bytes, which repeats a file of huge pages.
std::byte* map_region() {
  std::ofstream("/proc/sys/vm/nr_hugepages") << kFile / kHuge;
  const int fd = memfd_create("bigmr", MFD_HUGETLB);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(kFile)) != 0) fail_errno("memfd of huge pages");
  auto* const space = static_cast<std::byte*>(mmap(
      nullptr, kRegion + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (space == MAP_FAILED) fail_errno("mmap of 64 GiB");
  std::byte* const region = space + (kHuge - reinterpret_cast<std::uintptr_t>(space) % kHuge);
  for (std::uint64_t at = 0; at < kRegion; at += kFile) {
    if (mmap(region + at, kFile, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
        MAP_FAILED) {
      fail_errno("mmap of the memfd");
    }
  }
  return region;
}

// Writes a pattern to `offset` of the region, checks it in the file, and reads it back.
void cross(const Pair& pair, const std::byte* region, const ibv_mr* big, std::uint64_t iova,
           std::uint64_t offset) {
  const std::uint64_t seed = offset / kPage;
  pair.fill({0, kBytes}, seed);
  Send send = pair.request(IBV_WR_RDMA_WRITE, kBytes);
  send.raddr = iova + offset;
  send.rkey = big->rkey;
  pair.post(send);
  pair.expect(0);
  const std::uint64_t at = offset % kFile;
  const std::uint64_t first = std::min<std::uint64_t>(kBytes, kFile - at);
  std::vector<std::byte> stored(region + at, region + at + first);
  stored.insert(stored.end(), region, region + kBytes - first);
  require(!mismatch(stored, seed), "other bytes were written");
  send.opcode = IBV_WR_RDMA_READ;
  send.sges = {pair.local.memory().sge(kBytes, kBytes)};
  pair.post(send);
  pair.expect(0);
  pair.check({kBytes, kBytes}, seed);
}

void exercise(const Pair& pair, std::byte* region, std::uint64_t iova, const std::string& name) {
  MrPtr big;
  const bool registered = run_test(name + "-register", [&] {
    big.reset(ibv_reg_mr_iova(pair.local.device().pd(), region, kRegion, iova, kAccess));
    if (!big) fail_errno("ibv_reg_mr_iova");
  });
  if (!registered) return;
  // A page list chunk has 512 entries; one UPDATE_PAGES command takes up to 512 chunks.
  const std::uint64_t chunk = 512 * kPage;
  const std::uint64_t piece = 512 * chunk;
  for (const std::uint64_t offset :
       {std::uint64_t{0}, kPage - 3, chunk - 5, piece - 100, 17 * piece - 1, kRegion / 2 + 12345,
        kRegion - piece - 7, kRegion - 8192}) {
    run_test(name + (offset == 0 ? "-at-0" : std::format("-at-{:#x}", offset)),
             [&] { cross(pair, region, big.get(), iova, offset); });
  }
  const int err = ibv_dereg_mr(big.release());
  if (err != 0) report(false, name + "-dereg", errno_name(err));
}

void run(const CommandLine& line) {
  const Device dev(line.device, line.gid_index);
  const Pair pair(dev);
  std::byte* const region = map_region();
  // With the same alignment the region has 2 MiB pages. With an IOVA off by 4 KiB it has 16 Mi
  // pages of 4 KiB.
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(region);
  exercise(pair, region, base, "64g-2m-pages");
  exercise(pair, region, base + kPage, "64g-4k-pages");
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  return guest::run_program(argc, argv, {.group = "bigmr", .run = guest::run});
}
