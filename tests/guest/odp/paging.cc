// SPDX-License-Identifier: GPL-2.0-or-later
#include "paging.h"

#include <algorithm>
#include <fstream>

namespace guest {

Loop::Loop(const Device& dev, unsigned depth, ibv_srq* srq)
    : cq_(create_cq(dev, static_cast<int>(depth) * 4)) {
  pair_.emplace(dev,
                alike({.memory = 0,
                       .send_wr = depth,
                       .recv_wr = depth,
                       .send_sge = 2,
                       .recv_sge = 2,
                       .inline_data = 0,
                       .more_ops = kBuiltOps,
                       .send_cq = cq_.get(),
                       .recv_cq = cq_.get(),
                       .use_srq = srq},
                      {.qp_access = kRemoteAccess | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_MW_BIND,
                       .min_rnr_timer = 1}));  // 10 us
}

ibv_wc_status Loop::run(const Send& send, int timeout_ms) {
  const bool built = send.opcode == IBV_WR_FLUSH || send.opcode == IBV_WR_ATOMIC_WRITE;
  require_err(post(a(), built ? Api::kWr : Api::kPost, send), 0, "post");
  return poll(cq(), 1, timeout_ms)[0].status;
}

void Loop::must(const Send& send, const char* what) {
  const ibv_wc_status status = run(send);
  require(status == IBV_WC_SUCCESS, "{}: {}", what, ibv_wc_status_str(status));
}

MrPtr reg(const Device& dev, const Map& map, int access) {
  MrPtr mr(ibv_reg_mr(dev.pd(), map.at(), map.length(), static_cast<unsigned>(access)));
  require(mr != nullptr, "ibv_reg_mr: {}", errno_name(errno));
  return mr;
}

MrPtr reg_all(const Device& dev, int access) {
  MrPtr mr(ibv_reg_mr(dev.pd(), nullptr, SIZE_MAX, static_cast<unsigned>(access)));
  require(mr != nullptr, "ibv_reg_mr of the address space: {}", errno_name(errno));
  return mr;
}

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

void expect_pattern(std::span<const std::byte> bytes, std::uint64_t seed, const char* what) {
  const auto at = mismatch(bytes, seed);
  require(!at, "{}: byte {} is wrong", what, at.value_or(0));
}

void expect_zeros(std::span<const std::byte> bytes, const char* what) {
  const auto it = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{0}; });
  require(it == bytes.end(), "{}: byte {} is not 0", what, it - bytes.begin());
}

std::string get(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  std::getline(in, text);
  return text;
}

void put(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  require(out.good(), "cannot write {} to {}", text, path);
}

std::uint64_t counter(const Device& dev, const std::string& name) {
  return std::stoull(get(std::string("/sys/class/infiniband/") +
                         ibv_get_device_name(dev.context()->device) + "/ports/1/hw_counters/" +
                         name));
}

}  // namespace guest
