// SPDX-License-Identifier: GPL-2.0-or-later
#include "loop.h"

#include <algorithm>

namespace guest {
namespace {

// The operations of ibv_wr_*() and the access rights that the device claims, of those that tests
// use on a loop.
PairOptions options(const Device& dev, unsigned depth, ibv_cq* cq) {
  PairOptions options = alike({.memory = 0,
                               .send_wr = depth,
                               .recv_wr = depth,
                               .send_sge = 2,
                               .recv_sge = 2,
                               .inline_data = 0,
                               .send_cq = cq,
                               .recv_cq = cq},
                              {.qp_access = kRemoteAccess, .min_rnr_timer = 1});  // 10 us
  const std::uint64_t claims = dev.attr_ex().device_cap_flags_ex;
  if ((claims & IB_UVERBS_DEVICE_FLUSH_GLOBAL) != 0) {
    options.local.more_ops |= IBV_QP_EX_WITH_FLUSH;
    options.how.qp_access |= IBV_ACCESS_FLUSH_GLOBAL;
  }
  if ((claims & IB_UVERBS_DEVICE_ATOMIC_WRITE) != 0) {
    options.local.more_ops |= IBV_QP_EX_WITH_ATOMIC_WRITE;
  }
  if (claims_windows(dev.context())) options.how.qp_access |= IBV_ACCESS_MW_BIND;
  options.remote.more_ops = options.local.more_ops;
  return options;
}

}  // namespace

Loop::Loop(const Device& dev, unsigned depth, ibv_srq* srq, ibv_pd* pd)
    : cq_(create_cq(dev, static_cast<int>(depth) * 4)) {
  PairOptions how = options(dev, depth, cq_.get());
  how.local.use_srq = how.remote.use_srq = srq;
  how.local.pd = how.remote.pd = pd;
  pair_.emplace(dev, how);
}

ibv_wc_status Loop::run(const Send& send, int timeout_ms) const {
  const bool built = send.opcode == IBV_WR_FLUSH || send.opcode == IBV_WR_ATOMIC_WRITE;
  require_err(post(a(), built ? Api::kWr : Api::kPost, send), 0, "post");
  return poll(cq(), 1, timeout_ms)[0].status;
}

void Loop::must(const Send& send, const char* what) const {
  const ibv_wc_status status = run(send);
  require(status == IBV_WC_SUCCESS, "{}: {}", what, ibv_wc_status_str(status));
}

void Loop::message(const ibv_sge& from, std::span<const ibv_sge> to, ibv_srq* srq) const {
  require_err(srq != nullptr ? post_srq_recv(srq, 1, to) : post_recv(b(), 1, to), 0, "a receive");
  require_err(post(a(), Api::kPost, Send{.opcode = IBV_WR_SEND, .sges = {from}}), 0, "a SEND");
  for (const ibv_wc& wc : poll(cq(), 2)) {
    require(wc.status == IBV_WC_SUCCESS, "a SEND: {}", ibv_wc_status_str(wc.status));
  }
}

MrPtr try_reg(ibv_pd* pd, void* at, std::size_t length, int access) {
  return MrPtr(ibv_reg_mr(pd, at, length, static_cast<unsigned>(access)));
}

MrPtr reg(ibv_pd* pd, const Map& map, int access) {
  MrPtr mr = try_reg(pd, map.at(), map.length(), access);
  require(mr != nullptr, "ibv_reg_mr: {}", errno_name(errno));
  return mr;
}

MrPtr reg(const Device& dev, const Map& map, int access) { return reg(dev.pd(), map, access); }

Send write_from(const ibv_sge& from, std::uint64_t to, std::uint32_t rkey) {
  Send s{.opcode = IBV_WR_RDMA_WRITE, .sges = {from}};
  s.raddr = to;
  s.rkey = rkey;
  return s;
}

Send read_into(const ibv_sge& into, std::uint64_t from, std::uint32_t rkey) {
  Send s = write_from(into, from, rkey);
  s.opcode = IBV_WR_RDMA_READ;
  return s;
}

ibv_sge sge(const ibv_mr* mr, std::uint64_t address, std::uint32_t length) {
  return {.addr = address, .length = length, .lkey = mr->lkey};
}

int odp_access(const Device& dev) {
  const bool flush = (dev.attr_ex().device_cap_flags_ex & IB_UVERBS_DEVICE_FLUSH_GLOBAL) != 0;
  return (flush ? kFlushAccess : kAllAccess) | IBV_ACCESS_ON_DEMAND;
}

Bed::Bed(const Device& dev, std::size_t length, int protection, int flags, int fd)
    : pair(dev),
      map(length, protection, flags, fd),
      plain(1 << 20),
      mr(reg(dev, map, odp_access(dev))),
      local(reg(dev, plain, kAllAccess)) {}

void Bed::write(std::size_t offset, std::uint32_t n, std::uint64_t seed) const {
  fill(plain.bytes(0, n), seed);
  pair.must(write_from(sge(local.get(), plain.address(), n), map.address(offset), mr->rkey),
            "WRITE");
}

std::span<std::byte> Bed::read(std::size_t offset, std::uint32_t n) const {
  std::ranges::fill(plain.bytes(0, n), std::byte{0xee});
  pair.must(read_into(sge(local.get(), plain.address(), n), map.address(offset), mr->rkey), "READ");
  return plain.bytes(0, n);
}

void expect_pattern(std::span<const std::byte> bytes, std::uint64_t seed, const char* what) {
  const auto at = mismatch(bytes, seed);
  require(!at, "{}: byte {} is wrong", what, at.value_or(0));
}

void expect_zeros(std::span<const std::byte> bytes, const char* what) {
  const auto it = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{0}; });
  require(it == bytes.end(), "{}: byte {} is not 0", what, it - bytes.begin());
}

}  // namespace guest
