// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <fstream>
#include <string>

#include "regions.h"

namespace guest::regions {
namespace {

// Another group judges the status of a request that its own side refuses (connections/local_range).
bool refused_here(ibv_wc_status status) {
  return strict() ? status == IBV_WC_LOC_PROT_ERR : status != IBV_WC_SUCCESS;
}

}  // namespace

Probe::Probe(const Device& dev, ibv_pd* pd, const ibv_mr* mr)
    : dev_(dev), pd_(pd), other_(), key_(reg(pd, other_, kAllAccess)), mr_(mr) {}

ibv_wc_status Probe::remote(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t n) const {
  const Loop link(dev_, 4, nullptr, pd_);
  return link.run({.opcode = opcode,
                   .sges = {sge(key_.get(), other_.address(), n)},
                   .raddr = address,
                   .rkey = mr_->rkey});
}

ibv_wc_status Probe::local(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t n) const {
  const Loop link(dev_, 4, nullptr, pd_);
  return link.run({.opcode = opcode,
                   .sges = {sge(mr_, address, n)},
                   .raddr = other_.address(),
                   .rkey = key_->rkey});
}

void Probe::reaches(std::span<std::byte> bytes, std::uint64_t at, const char* what) const {
  const auto n = static_cast<std::uint32_t>(bytes.size());
  const std::span<std::byte> other = other_.bytes().first(n);
  moved(bytes, other, [&] { return remote(IBV_WR_RDMA_READ, at, n); }, what);
  moved(bytes, other, [&] { return local(IBV_WR_RDMA_WRITE, at, n); }, what);
  moved(other, bytes, [&] { return remote(IBV_WR_RDMA_WRITE, at, n); }, what);
  moved(other, bytes, [&] { return local(IBV_WR_RDMA_READ, at, n); }, what);
  require(remote(IBV_WR_RDMA_READ, at + n, 1) == IBV_WC_REM_ACCESS_ERR, "{}: a byte after", what);
  require(remote(IBV_WR_RDMA_READ, at - 1) == IBV_WC_REM_ACCESS_ERR, "{}: a byte before", what);
  require(refused_here(local(IBV_WR_RDMA_WRITE, at + n, 1)), "{}: a byte after, by the local key",
          what);
  require(refused_here(local(IBV_WR_RDMA_WRITE, at - 1)), "{}: a byte before, by the local key",
          what);
}

void Probe::refuses(const Pages& pages, const char* what) const {
  pages.paint(71);
  other_.paint(72);
  const std::uint64_t at = pages.address();
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    require(remote(opcode, at) == IBV_WC_REM_ACCESS_ERR, "{}: by the remote key", what);
    require(refused_here(local(opcode, at)), "{}: by the local key", what);
  }
  pages.check(71, what);
  other_.check(72, what);
}

template <typename Run>
void Probe::moved(std::span<std::byte> from, std::span<std::byte> to, const Run& run,
                  const char* what) const {
  fill(from, 61);
  fill(to, 62);
  const ibv_wc_status status = run();
  require(status == IBV_WC_SUCCESS, "{}: {}", what, ibv_wc_status_str(status));
  require(!mismatch(to, 61), "{}: other bytes came", what);
}

std::uint64_t pinned_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmPin:")) return std::stoull(line.substr(6));
  }
  skip("/proc/self/status does not count pinned memory");
}

}  // namespace guest::regions
