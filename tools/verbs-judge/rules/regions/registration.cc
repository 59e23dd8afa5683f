// SPDX-License-Identifier: GPL-2.0-or-later
// ibv_reg_mr() and its variants: what they accept, and what their keys reach.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>

#include "regions.h"

namespace guest::regions {
namespace {

// Regions at any byte and of any length, in memory that continues on both sides.
void bounds(const Env& env) {
  struct Place {
    std::size_t offset;
    std::uint32_t length;
  };
  const Pages pages;
  for (const Place& p : {Place{kPage, 1}, Place{kPage + 1, 8}, Place{2 * kPage - 1, 2},
                         Place{100, 9000}, Place{3 * kPage, kPage}, Place{kPage - 1, kPage + 2}}) {
    const MrPtr mr = try_reg(env.dev.pd(), pages.at(p.offset), p.length, kAllAccess);
    require(mr != nullptr, "{} bytes at {}: {}", p.length, p.offset, errno_name(errno));
    require(mr->addr == pages.at(p.offset) && mr->length == p.length && mr->pd == env.dev.pd() &&
                mr->context == env.dev.context(),
            "struct ibv_mr says something else");
    pages.paint(3);
    std::vector<std::byte> want(kLength);
    fill(want, 3);
    Probe(env.dev, env.dev.pd(), mr.get())
        .reaches(pages.bytes(p.offset, p.length), pages.address(p.offset), "a region");
    for (std::size_t i = 0; i < kLength; i++) {
      const bool inside = i >= p.offset && i < p.offset + p.length;
      require(inside || *pages.at(i) == want[i], "byte {} beside the region was changed", i);
    }
  }
}

// Addresses that the caller chooses, at the same place in a page.
void iova(const Env& env) {
  const Pages pages;
  constexpr std::uint64_t kOffset = 100;
  const auto bytes = pages.bytes(kOffset, kLength - kOffset);
  for (const std::uint64_t base : {std::uint64_t{kPage}, std::uint64_t{1} << 40,
                                   std::uint64_t{1} << 62, ~std::uint64_t{0} << 20}) {
    const MrPtr mr(ibv_reg_mr_iova(env.dev.pd(), bytes.data(), bytes.size(), base + kOffset,
                                   static_cast<unsigned>(kAllAccess)));
    require(mr != nullptr, "ibv_reg_mr_iova at {:#x}: {}", base, errno_name(errno));
    Probe(env.dev, env.dev.pd(), mr.get()).reaches(bytes, base + kOffset, "at a chosen address");
  }
  const MrPtr mr(
      ibv_reg_mr_iova(env.dev.pd(), pages.at(), kLength, 0, static_cast<unsigned>(kAllAccess)));
  require(mr != nullptr, "ibv_reg_mr_iova at 0: {}", errno_name(errno));
  Probe(env.dev, env.dev.pd(), mr.get()).reaches(pages.bytes(), 0, "at 0");
}

// The page promises offsets. Linux hands the flag to the drivers, some of which ignore it.
void zero_based(const Env& env) {
  const Pages pages;
  const MrPtr mr = try_reg(env.dev.pd(), pages.at(), kLength, kAllAccess | IBV_ACCESS_ZERO_BASED);
  if (!mr) return require_usual(false, "IBV_ACCESS_ZERO_BASED: {}", errno_name(errno));
  const Probe probe(env.dev, env.dev.pd(), mr.get());
  if (probe.remote(IBV_WR_RDMA_READ, 0) != IBV_WC_SUCCESS) {
    require_usual(false, "IBV_ACCESS_ZERO_BASED is ignored");
    return probe.reaches(pages, "with its flag ignored");
  }
  probe.reaches(pages.bytes(), 0, "by offset");
  require(probe.remote(IBV_WR_RDMA_READ, pages.address()) == IBV_WC_REM_ACCESS_ERR,
          "by its address, too");
}

void zero_length(const Env& env) {
  const Pages pages;
  for (const std::size_t offset : {std::size_t{0}, std::size_t{100}}) {
    const MrPtr mr = try_reg(env.dev.pd(), pages.at(offset), 0, kAllAccess);
    if (!usually_refused(mr ? 0 : errno, EINVAL, "a region of no byte")) {
      const Probe probe(env.dev, env.dev.pd(), mr.get());
      require(probe.remote(IBV_WR_RDMA_READ, pages.address(offset), 1) == IBV_WC_REM_ACCESS_ERR,
              "a region of no byte has one");
    }
  }
}

// A mapping that may be read can be registered for that.
void read_only(const Env& env) {
  const Pages pages;
  pages.paint(33);
  pages.protect(PROT_READ);
  for (const int access : {static_cast<int>(IBV_ACCESS_LOCAL_WRITE), kAllAccess}) {
    const MrPtr mr = try_reg(env.dev.pd(), pages.at(), kLength, access);
    require_refused(mr ? 0 : errno, EFAULT, "rights to write memory that may only be read");
  }
  const MrPtr mr = reg(env.dev, pages, IBV_ACCESS_REMOTE_READ);
  const Probe probe(env.dev, env.dev.pd(), mr.get());
  require(probe.remote(IBV_WR_RDMA_READ, pages.address(), 5000) == IBV_WC_SUCCESS, "a READ");
  require(probe.local(IBV_WR_RDMA_WRITE, pages.address(), 5000) == IBV_WC_SUCCESS, "a WRITE of it");
  require(probe.remote(IBV_WR_RDMA_WRITE, pages.address()) == IBV_WC_REM_ACCESS_ERR, "a WRITE");
  require(probe.local(IBV_WR_RDMA_READ, pages.address()) == IBV_WC_LOC_PROT_ERR, "a local write");
  pages.check(33, "memory that may only be read");
}

void unmapped(const Env& env) {
  const Pages pages;
  Pages gone(4 * kPage);
  std::byte* const nowhere = gone.at();
  gone.unmap();
  const Pages none(kLength, PROT_NONE);
  struct Call {
    const char* what;
    std::byte* at;
    std::size_t length;
    int usual;
  };
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  const Call calls[] = {{"unmapped memory", nowhere, kPage, EFAULT},
                        {"a byte of it", nowhere, 1, EFAULT},
                        {"memory that may not be read", none.at(), kPage, EFAULT},
                        {"the page 0", nullptr, kPage, EFAULT},
                        {"memory and far more", pages.at(), std::size_t{1} << 40, EFAULT},
                        {"a range that wraps", pages.at(), kMost - kPage, EINVAL}};
  for (const Call& c : calls) {
    const MrPtr mr = try_reg(env.dev.pd(), c.at, c.length, kAllAccess);
    require_refused(mr ? 0 : errno, c.usual, c.what);
  }
  // The library did nothing to memory that it could not register.
  reg(env.dev, pages, kAllAccess);
}

void rights_to_write(const Env& env) {
  const Pages pages;
  for (const int access :
       {static_cast<int>(IBV_ACCESS_REMOTE_WRITE), static_cast<int>(IBV_ACCESS_REMOTE_ATOMIC),
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC, kRemoteAccess}) {
    const MrPtr mr = try_reg(env.dev.pd(), pages.at(), kLength, access);
    require_refused(mr ? 0 : errno, EINVAL, "remote rights to write without LOCAL_WRITE");
  }
}

// The bits of IBV_ACCESS_OPTIONAL_RANGE may be ignored, no other may.
void optional_rights(const Env& env) {
  const Pages pages;
  for (unsigned bit = 20; bit < 30; bit++) {
    const MrPtr mr = try_reg(env.dev.pd(), pages.at(), kLength, kAllAccess | 1 << bit);
    require(mr != nullptr, "the optional flag {}: {}", bit, errno_name(errno));
    if (bit < 22) Probe(env.dev, env.dev.pd(), mr.get()).reaches(pages, "with an optional flag");
  }
  for (unsigned bit = 10; bit < 20; bit++) {
    const MrPtr mr = try_reg(env.dev.pd(), pages.at(), kLength, kAllAccess | 1 << bit);
    usually_refused(mr ? 0 : errno, EINVAL, "an unknown right");
  }
}

// The same memory twice, and regions that overlap: each has its own keys and bounds.
void overlapping(const Env& env) {
  const Pages pages;
  const MrPtr all = reg(env.dev, pages, kAllAccess);
  MrPtr again = reg(env.dev, pages, kAllAccess);
  const MrPtr part = try_reg(env.dev.pd(), pages.at(kPage + 10), 2 * kPage, kAllAccess);
  require(part != nullptr, "a part of a region: {}", errno_name(errno));
  require(all->lkey != again->lkey && all->rkey != again->rkey, "two regions with one key");
  Probe(env.dev, env.dev.pd(), all.get()).reaches(pages, "the first of two");
  Probe(env.dev, env.dev.pd(), again.get()).reaches(pages, "the second of two");
  const Probe probe(env.dev, env.dev.pd(), part.get());
  probe.reaches(pages.bytes(kPage + 10, 2 * kPage), pages.address(kPage + 10), "a part");
  require_err(ibv_dereg_mr(again.release()), 0, "ibv_dereg_mr");
  Probe(env.dev, env.dev.pd(), all.get()).reaches(pages, "when the other is gone");
}

// Both keys end with the region, whose memory stays.
void dereg(const Env& env) {
  const Pages pages;
  MrPtr mr = reg(env.dev, pages, kAllAccess);
  ibv_mr gone = *mr;
  const Probe probe(env.dev, env.dev.pd(), &gone);
  probe.reaches(pages, "the region");
  require_err(ibv_dereg_mr(mr.release()), 0, "ibv_dereg_mr");
  probe.refuses(pages, "a region that is gone");
}

// A region holds its pages until it ends.
void pins(const Env& env) {
  constexpr std::size_t kBytes = 512 * kPage;
  const Pages pages(kBytes);
  const std::uint64_t before = pinned_kib();
  for (int round = 0; round < 5; round++) {
    MrPtr mr = reg(env.dev, pages, kAllAccess);
    require_usual(pinned_kib() == before + kBytes / 1024, "{} KiB are pinned, were {}",
                  pinned_kib(), before);
    require_err(ibv_dereg_mr(mr.release()), 0, "ibv_dereg_mr");
    require(pinned_kib() == before, "{} KiB stay pinned, were {}", pinned_kib(), before);
  }
}

// Files that are no dma-buf, and none at all.
void no_dmabuf(const Env& env) {
  const int file = ::memfd_create("region", MFD_CLOEXEC);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  require(file >= 0 && null >= 0 && ::ftruncate(file, kLength) == 0, "files");
  struct Bad {
    const char* what;
    int fd;
    int usual;
  };
  std::string unsupported;
  for (const Bad& b :
       {Bad{"no file", -1, EBADF}, Bad{"a memfd", file, EINVAL}, Bad{"/dev/null", null, EINVAL}}) {
    const MrPtr mr(ibv_reg_dmabuf_mr(env.dev.pd(), 0, kPage, 0, b.fd, kAllAccess));
    const int err = mr ? 0 : errno;
    if (err == EOPNOTSUPP || err == ENOSYS) {
      unsupported = errno_name(err);
    } else {
      require_refused(err, b.usual, b.what);
    }
  }
  ::close(file);
  ::close(null);
  if (!unsupported.empty()) skip("ibv_reg_dmabuf_mr: {}", unsupported);
}

// Reads give zeros and writes vanish; the key is a local one.
void null_region(const Env& env) {
  const Pages pages;
  const MrPtr mr = reg(env.dev, pages, kAllAccess);
  const MrPtr null(ibv_alloc_null_mr(env.dev.pd()));
  if (!null) skip("ibv_alloc_null_mr: {}", errno_name(errno));
  const Loop pair(env.dev);
  pages.paint(9);
  pair.must(write_from(sge(null.get(), 0, kLength), pages.address(), mr->rkey),
            "a WRITE from a null region");
  expect_zeros(pages.bytes(), "a WRITE from a null region");
  pair.must(read_into(sge(null.get(), 0x1234567, kLength), pages.address(), mr->rkey),
            "a READ into a null region");
  // A receive that skips the begin of a message.
  fill(pages.bytes(0, 3 * kPage), 10);
  const std::array to{sge(null.get(), 0, kPage),
                      sge(mr.get(), pages.address(8 * kPage), 2 * kPage)};
  pair.message(sge(mr.get(), pages.address(), 3 * kPage), to);
  std::vector<std::byte> want(3 * kPage);
  fill(want, 10);
  require(std::ranges::equal(std::span(want).subspan(kPage), pages.bytes(8 * kPage, 2 * kPage)),
          "what comes beside a null region");
}

}  // namespace

Rules registration() {
  return {
      {"bounds", "keys reach their region to the byte, wherever it begins and ends", bounds},
      {"iova", "ibv_reg_mr_iova: keys use the address that the caller gave", iova},
      {"zero-based", "with IBV_ACCESS_ZERO_BASED, keys use offsets", zero_based},
      {"zero-length", "a region of no byte is refused, or its keys reach none", zero_length},
      {"read-only", "memory that may only be read gets no rights to write", read_only},
      {"unmapped", "memory that is not there or may not be read is refused", unmapped},
      {"remote-rights", "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE", rights_to_write},
      {"optional-rights", "flags of IBV_ACCESS_OPTIONAL_RANGE never refuse a region",
       optional_rights},
      {"overlapping", "regions over the same memory have their own keys, bounds and lives",
       overlapping},
      {"dereg", "both keys of a region end with it", dereg},
      {"pins", "ibv_dereg_mr unpins what ibv_reg_mr has pinned", pins},
      {"no-dmabuf", "ibv_reg_dmabuf_mr refuses what is no dma-buf", no_dmabuf},
      {"null", "a null region gives zeros and discards what is written", null_region,
       "ibv_alloc_null_mr(3)"},
  };
}

}  // namespace guest::regions
