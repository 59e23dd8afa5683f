// SPDX-License-Identifier: GPL-2.0-or-later
// Data arrives where it belongs, and nowhere else.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <vector>

#include "suite.h"

namespace guest {
namespace {

constexpr std::uint32_t kSizes[] = {0, 1, 3, 4095, 4096, 4097, 64 * 1024, 1 << 20, 8 << 20};
// Bytes before and after a target; a prime, so that nothing is aligned.
constexpr std::uint32_t kGuard = 67;

PairOptions big_memory() {
  PairOptions o;
  o.local.memory = o.remote.memory = (8U << 20) + 4096;
  return o;
}

ibv_wc_opcode wc_opcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    default:
      return IBV_WC_SEND;
  }
}

void check_recv(const ibv_wc& wc, const Send& send, std::uint32_t length) {
  const bool write = send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  require(wc.opcode == (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV), "receive opcode {}",
          static_cast<int>(wc.opcode));
  require(wc.byte_len == length, "byte_len {} of {}", wc.byte_len, length);
  const bool imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
  require(imm == has_imm(send.opcode), "IBV_WC_WITH_IMM is {}", imm);
  require(!imm || ntohl(wc.imm_data) == send.imm, "immediate {:#x}", ntohl(wc.imm_data));
}

void transfer(const Pair& pair, ibv_wr_opcode opcode, Api api, std::uint32_t size) {
  const Range before{0, kGuard};
  const Range target{kGuard, size};
  const Range after{kGuard + size, kGuard};
  const bool read = opcode == IBV_WR_RDMA_READ;
  const std::uint64_t seed = size + 1000;
  Send send = pair.request(opcode, size, read ? kGuard : 133, read ? 133 : kGuard);
  send.wr_id = 0xfeedface00000000U + size;
  send.imm = 0x80000001U ^ size;
  if (read) {
    pair.remote.fill({133, size}, seed);
    pair.fill(before, 1);
    pair.fill(target, 2);
    pair.fill(after, 3);
  } else {
    pair.fill({133, size}, seed);
    pair.remote.fill(before, 1);
    pair.remote.fill(target, 2);
    pair.remote.fill(after, 3);
  }
  if (needs_recv(opcode)) {
    const bool write = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    pair.remote.post_recv(~send.wr_id, write ? Range{0, 0} : target);
  }
  pair.post(send, api);
  const ibv_wc wc = pair.expect(send.wr_id);
  require(wc.opcode == wc_opcode(opcode), "completion opcode {}", static_cast<int>(wc.opcode));
  if (needs_recv(opcode)) check_recv(pair.expect_recv(~send.wr_id), send, size);
  if (read) {
    require(wc.byte_len == size, "byte_len {} of a READ of {}", wc.byte_len, size);
    pair.check(before, 1);
    pair.check(target, seed);
    pair.check(after, 3);
  } else {
    pair.remote.check(before, 1);
    pair.remote.check(target, seed);
    pair.remote.check(after, 3);
  }
}

template <ibv_wr_opcode kOpcode, Api kApi>
void sizes(Env& env) {
  const Pair pair(env, big_memory());
  for (const std::uint32_t size : kSizes) transfer(pair, kOpcode, kApi, size);
}

void every_mtu(Env& env) {
  for (int mtu = IBV_MTU_256; mtu <= env.dev.active_mtu(); mtu++) {
    PairOptions o;
    o.how.mtu = static_cast<ibv_mtu>(mtu);
    const Pair pair(env, o);
    if (mtu > pair.remote.active_mtu()) break;
    const std::uint32_t bytes = 128U << mtu;
    for (const std::uint32_t size : {bytes - 1, bytes, bytes + 1, 3 * bytes + 5}) {
      for (const ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
        transfer(pair, op, Api::kPost, size);
      }
    }
  }
}

// Gathers from SGEs of several lengths, 0 among them, and scatters to others.
void gather_scatter(Env& env) {
  PairOptions o;
  o.local.send_sge = o.remote.recv_sge = 5;
  const Pair pair(env, o);
  constexpr std::array<std::uint32_t, 5> kFrom = {1, 0, 1021, 2048, 930};
  constexpr std::array<std::uint32_t, 5> kTo = {700, 1, 0, 299, 3000};
  std::vector<std::byte> message(4000);
  fill(message, 5);
  for (const Api api : kBothApis) {
    Send send;
    std::size_t done = 0;
    std::uint64_t at = 1;
    for (const std::uint32_t n : kFrom) {
      std::copy_n(message.begin() + static_cast<std::ptrdiff_t>(done), n,
                  pair.local.memory().bytes().begin() + static_cast<std::ptrdiff_t>(at));
      send.sges.push_back(pair.local.memory().sge(at, n));
      done += n;
      at += n + 13;
    }
    // Adjacent pieces, so that the data can be checked as one.
    std::vector<Range> to;
    at = 9;
    for (const std::uint32_t n : kTo) {
      to.push_back({at, n});
      at += n;
    }
    pair.remote.fill({0, 8192}, 6);
    pair.remote.post_recv(1, to);
    pair.post(send, api);
    pair.expect(0);
    const std::uint32_t got = pair.expect_recv(1).byte_len;
    require(got == 4000, "{} of 4000 bytes", got);
    pair.remote.check({9, 4000}, 5);
  }
}

// READ scatters and WRITE gathers.
void rdma_sge_list(Env& env) {
  const Pair pair(env);
  for (const Api api : kBothApis) {
    Send send = pair.request(IBV_WR_RDMA_READ, 0, 0, 3);
    send.sges = {pair.local.memory().sge(101, 7), pair.local.memory().sge(108, 5000),
                 pair.local.memory().sge(5108, 93)};
    pair.remote.fill({3, 5100}, 8);
    pair.post(send, api);
    pair.expect(0);
    pair.check({101, 5100}, 8);
    send.opcode = IBV_WR_RDMA_WRITE;
    send.raddr = pair.remote.address(20001);
    pair.post(send, api);
    pair.expect(0);
    pair.remote.check({20001, 5100}, 8);
  }
}

// Inline data is copied at the post: the buffer may change right after it, and its lkey is ignored.
void inline_data(Env& env) {
  const Pair pair(env);
  const std::uint32_t most = pair.local.cap().max_inline_data;
  require(most >= 64, "max_inline_data {}", most);
  for (const Api api : kBothApis) {
    for (const ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM}) {
      for (std::uint32_t n = 0; n <= most; n += std::max(1U, most / 7)) {
        Send send = pair.request(op, n, 0, 100);
        send.flags |= IBV_SEND_INLINE;
        send.sges[0].lkey = 0xdeadbeef;
        pair.fill({0, n}, n + 1);
        if (needs_recv(op)) pair.remote.post_recv(2, {100, n});
        pair.post(send, api);
        pair.fill({0, n}, 0);
        pair.expect(0);
        if (needs_recv(op)) pair.expect_recv(2);
        pair.remote.check({100, n}, n + 1);
      }
    }
  }
}

void inline_list(Env& env) {
  const Pair pair(env);
  for (const Api api : kBothApis) {
    Send send = pair.request(IBV_WR_RDMA_WRITE, 17, 1);
    send.sges.push_back(pair.local.memory().sge(18, 0));
    send.sges.push_back(pair.local.memory().sge(18, 40));
    send.flags |= IBV_SEND_INLINE;
    pair.fill({1, 57}, 3);
    pair.remote.fill({0, 64}, 4);
    pair.post(send, api);
    pair.expect(0);
    pair.remote.check({0, 57}, 3);
  }
}

void fetch_add(Env& env) {
  const Pair pair(env);
  constexpr std::uint64_t kStart = 0xfffffffffffffff0U;
  for (const Api api : kBothApis) {
    pair.remote.store64(64, kStart);
    for (std::uint64_t i = 0; i < 4; i++) {
      Send send = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8 * i, 64);
      send.compare_add = 7;
      send.wr_id = i;
      pair.post(send, api);
      require(pair.expect(i).opcode == IBV_WC_FETCH_ADD, "completion opcode");
      require(pair.local.memory().load64(8 * i) == kStart + 7 * i, "result {} is {:#x}", i,
              pair.local.memory().load64(8 * i));
    }
    require(pair.remote.load64(64) == kStart + 28, "memory is {:#x}", pair.remote.load64(64));
  }
}

void compare_swap(Env& env) {
  const Pair pair(env);
  for (const Api api : kBothApis) {
    pair.remote.store64(0, 0x1122334455667788U);
    Send send = pair.request(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
    send.compare_add = 0x1122334455667788U;
    send.swap = 0x0102030405060708U;
    pair.post(send, api);
    require(pair.expect(0).opcode == IBV_WC_COMP_SWAP, "completion opcode");
    require(pair.local.memory().load64(0) == 0x1122334455667788U, "original value");
    require(pair.remote.load64(0) == 0x0102030405060708U, "not swapped");
    // The memory differs from the compare value now, so it stays.
    pair.post(send, api);
    pair.expect(0);
    require(pair.local.memory().load64(0) == 0x0102030405060708U, "original value of a miss");
    require(pair.remote.load64(0) == 0x0102030405060708U, "swapped in spite of a miss");
  }
}

// A fenced SEND of the data that a READ fetches: without the fence it could send old data.
void fence(Env& env) {
  const Pair pair(env, big_memory());
  constexpr std::uint32_t kLength = 256 * 1024;
  for (const Api api : kBothApis) {
    pair.fill({0, kLength}, 1);
    pair.remote.fill({0, kLength}, 9);
    pair.remote.post_recv(3, {1 << 20, kLength});
    Send read = pair.request(IBV_WR_RDMA_READ, kLength);
    read.flags = 0;
    Send send = pair.request(IBV_WR_SEND, kLength);
    send.flags |= IBV_SEND_FENCE;
    pair.post(std::array{read, send}, api);
    pair.expect(0);
    pair.expect_recv(3);
    pair.remote.check({1 << 20, kLength}, 9);
  }
}

// A SEND after a WRITE: when it has arrived, the WRITE has too.
void write_then_send(Env& env) {
  const Pair pair(env, big_memory());
  constexpr std::uint32_t kLength = 1 << 20;
  pair.fill({0, kLength}, 11);
  pair.remote.post_recv(4, {4 << 20, 16});
  Send write = pair.request(IBV_WR_RDMA_WRITE, kLength);
  write.flags = 0;
  pair.post(std::array{write, pair.request(IBV_WR_SEND, 16)});
  pair.expect_recv(4);
  pair.remote.check({0, kLength}, 11);
  pair.expect(0);
}

void many_reads(Env& env) {
  PairOptions o;
  o.how.max_rd_atomic = 1;
  o.how.max_dest_rd_atomic = 1;
  const Pair pair(env, o);
  pair.remote.fill({0, 32 * 1024}, 12);
  std::vector<Send> reads;
  for (std::uint32_t i = 0; i < 32; i++) {
    reads.push_back(pair.request(IBV_WR_RDMA_READ, 1024, i * 1024U, i * 1024U));
    reads.back().wr_id = i;
  }
  pair.post(reads);
  for (std::uint32_t i = 0; i < 32; i++) pair.expect(i);
  pair.check({0, 32 * 1024}, 12);
}

void psn_wrap(Env& env) {
  PairOptions o;
  o.local.psn = 0xfffffd;
  o.remote.psn = 0xfffffe;
  o.how.mtu = IBV_MTU_256;
  const Pair pair(env, o);
  for (std::uint32_t i = 0; i < 8; i++) {
    transfer(pair, IBV_WR_SEND, Api::kPost, 600 + i);
    transfer(pair, IBV_WR_RDMA_READ, Api::kPost, 600 + i);
    transfer(pair, IBV_WR_RDMA_WRITE, Api::kPost, 600 + i);
  }
}

void mr_iova(Env& env) {
  PairOptions o;
  o.remote.iova = 0x7000000000001000U;
  o.local.iova = 0x1000;
  const Pair pair(env, o);
  require(pair.remote.address() == 0x7000000000001000U, "address");
  for (const ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    transfer(pair, op, Api::kPost, 10000);
  }
}

// Both ends send at once.
void both_ways(Env& env) {
  PairOptions o;
  o.local.memory = o.remote.memory = 256 * 1024;
  const Pair pair(env, o);
  constexpr std::uint32_t kCount = 16;
  constexpr std::uint32_t kLength = 3000;
  pair.fill({0, kLength}, 1);
  pair.remote.fill({0, kLength}, 2);
  for (std::uint32_t i = 0; i < kCount; i++) {
    pair.remote.post_recv(i, {4096 * (i + 1), kLength});
    pair.local.recv(i, {4096 * (i + 1), kLength});
  }
  for (std::uint32_t i = 0; i < kCount; i++) {
    pair.remote.send(i, {0, kLength});
    Send send = pair.request(IBV_WR_SEND, kLength);
    send.wr_id = i;
    pair.post(send);
  }
  const auto there = pair.remote.poll_recv(kCount);
  const auto here = poll(pair.local.recv_cq(), kCount);
  const auto sent_there = pair.remote.poll_send(kCount);
  for (std::uint32_t i = 0; i < kCount; i++) {
    require_status(there[i], i, IBV_WC_SUCCESS);
    require_status(here[i], i, IBV_WC_SUCCESS);
    require_status(sent_there[i], i, IBV_WC_SUCCESS);
    pair.expect(i);
    pair.check({4096 * (i + 1), kLength}, 2);
    pair.remote.check({4096 * (i + 1), kLength}, 1);
  }
}

}  // namespace

std::vector<Test> data_tests(Env& env) {
  return tests_of(env, {{"send_sizes_post", sizes<IBV_WR_SEND, Api::kPost>},
                        {"send_sizes_wr", sizes<IBV_WR_SEND, Api::kWr>},
                        {"send_imm_sizes_post", sizes<IBV_WR_SEND_WITH_IMM, Api::kPost>},
                        {"send_imm_sizes_wr", sizes<IBV_WR_SEND_WITH_IMM, Api::kWr>},
                        {"write_sizes_post", sizes<IBV_WR_RDMA_WRITE, Api::kPost>},
                        {"write_sizes_wr", sizes<IBV_WR_RDMA_WRITE, Api::kWr>},
                        {"write_imm_sizes_post", sizes<IBV_WR_RDMA_WRITE_WITH_IMM, Api::kPost>},
                        {"write_imm_sizes_wr", sizes<IBV_WR_RDMA_WRITE_WITH_IMM, Api::kWr>},
                        {"read_sizes_post", sizes<IBV_WR_RDMA_READ, Api::kPost>},
                        {"read_sizes_wr", sizes<IBV_WR_RDMA_READ, Api::kWr>},
                        {"every_mtu", every_mtu},
                        {"gather_scatter", gather_scatter},
                        {"rdma_sge_list", rdma_sge_list},
                        {"inline_data", inline_data},
                        {"inline_list", inline_list},
                        {"fetch_add", fetch_add},
                        {"compare_swap", compare_swap},
                        {"fence", fence},
                        {"write_then_send", write_then_send},
                        {"many_reads", many_reads},
                        {"psn_wrap", psn_wrap},
                        {"mr_iova", mr_iova},
                        {"both_ways", both_ways}});
}

}  // namespace guest
