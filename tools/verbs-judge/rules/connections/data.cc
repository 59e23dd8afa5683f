// SPDX-License-Identifier: GPL-2.0-or-later
// Data arrives where it belongs, and nowhere else.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <vector>

#include "connections.h"

namespace guest::connections {
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
void sizes(const Env& env) {
  const Pair pair(env, big_memory());
  for (const std::uint32_t size : kSizes) {
    if (size <= env.dev.port().max_msg_sz) transfer(pair, kOpcode, kApi, size);
  }
}

void every_mtu(const Env& env) {
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
void gather_scatter(const Env& env) {
  PairOptions o;
  o.local.send_sge = o.remote.recv_sge = 5;
  const Pair pair(env, o);
  if (pair.local.cap().max_send_sge < 5) skip("max_sge is less than 5");
  constexpr std::array<std::uint32_t, 5> kFrom = {1, 0, 1021, 2048, 930};
  constexpr std::array<std::uint32_t, 5> kTo = {700, 1, 0, 299, 3000};
  std::vector<std::byte> message(4000);
  fill(message, 5);
  for (const Api api : env.dev.apis()) {
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
void rdma_sge_list(const Env& env) {
  const Pair pair(env);
  if (pair.local.cap().max_send_sge < 3) skip("max_send_sge is less than 3");
  for (const Api api : env.dev.apis()) {
    const std::uint64_t seed = api == Api::kPost ? 8 : 9;
    Send send = pair.request(IBV_WR_RDMA_READ, 0, 0, 3);
    send.sges = {pair.local.memory().sge(101, 7), pair.local.memory().sge(108, 5000),
                 pair.local.memory().sge(5108, 93)};
    pair.remote.fill({3, 5100}, seed);
    pair.post(send, api);
    pair.expect(0);
    pair.check({101, 5100}, seed);
    send.opcode = IBV_WR_RDMA_WRITE;
    send.raddr = pair.remote.address(20001);
    pair.post(send, api);
    pair.expect(0);
    pair.remote.check({20001, 5100}, seed);
  }
}

// Inline data is copied at the post: the buffer may change right after it, and its lkey is ignored.
void inline_data(const Env& env) {
  const Pair pair(env);
  const std::uint32_t most = pair.local.cap().max_inline_data;
  if (most == 0) skip("max_inline_data is 0");
  for (const Api api : env.dev.apis()) {
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

void inline_list(const Env& env) {
  const Pair pair(env);
  if (pair.local.cap().max_inline_data < 57) skip("max_inline_data is less than 57");
  if (pair.local.cap().max_send_sge < 3) skip("max_send_sge is less than 3");
  for (const Api api : env.dev.apis()) {
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

void fetch_add(const Env& env) {
  need_atomics(env.dev);
  const Pair pair(env);
  constexpr std::uint64_t kStart = 0xfffffffffffffff0U;
  for (const Api api : env.dev.apis()) {
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

void compare_swap(const Env& env) {
  need_atomics(env.dev);
  const Pair pair(env);
  for (const Api api : env.dev.apis()) {
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
void fence(const Env& env) {
  const Pair pair(env, big_memory());
  constexpr std::uint32_t kLength = 256 * 1024;
  for (const Api api : env.dev.apis()) {
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
void write_then_send(const Env& env) {
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

void many_reads(const Env& env) {
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

void psn_wrap(const Env& env) {
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

void mr_iova(const Env& env) {
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
void both_ways(const Env& env) {
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

Rules data() {
  return {
      {"send_sizes_post",
       "SEND by ibv_post_send: a message of any length arrives in the receive, and nothing beside "
       "it",
       sizes<IBV_WR_SEND, Api::kPost>},
      {"send_sizes_wr",
       "SEND by ibv_wr_send: a message of any length arrives in the receive, and nothing beside it",
       sizes<IBV_WR_SEND, Api::kWr>},
      {"send_imm_sizes_post",
       "SEND with immediate data by ibv_post_send: the receive has data and immediate",
       sizes<IBV_WR_SEND_WITH_IMM, Api::kPost>},
      {"send_imm_sizes_wr",
       "SEND with immediate data by ibv_wr_send_imm: the receive has data and immediate",
       sizes<IBV_WR_SEND_WITH_IMM, Api::kWr>},
      {"write_sizes_post", "RDMA WRITE by ibv_post_send: any length, exactly the addressed bytes",
       sizes<IBV_WR_RDMA_WRITE, Api::kPost>},
      {"write_sizes_wr", "RDMA WRITE by ibv_wr_rdma_write: any length, exactly the addressed bytes",
       sizes<IBV_WR_RDMA_WRITE, Api::kWr>},
      {"write_imm_sizes_post",
       "RDMA WRITE with immediate data by ibv_post_send: a receive has its length and immediate",
       sizes<IBV_WR_RDMA_WRITE_WITH_IMM, Api::kPost>},
      {"write_imm_sizes_wr", "RDMA WRITE with immediate data by ibv_wr_rdma_write_imm: the same",
       sizes<IBV_WR_RDMA_WRITE_WITH_IMM, Api::kWr>},
      {"read_sizes_post", "RDMA READ by ibv_post_send: any length, exactly the addressed bytes",
       sizes<IBV_WR_RDMA_READ, Api::kPost>},
      {"read_sizes_wr", "RDMA READ by ibv_wr_rdma_read: any length, exactly the addressed bytes",
       sizes<IBV_WR_RDMA_READ, Api::kWr>},
      {"every_mtu",
       "each path MTU up to the active one carries messages around the length of its packets",
       every_mtu},
      {"gather_scatter",
       "a SEND gathers from SGEs of any length, 0 too, and the receive scatters to others",
       gather_scatter},
      {"rdma_sge_list", "a READ scatters to a list of SGEs, a WRITE gathers from one",
       rdma_sge_list},
      {"inline_data",
       "inline data is copied by the post, up to max_inline_data, and its lkey is ignored",
       inline_data},
      {"inline_list", "inline data may come in pieces", inline_list},
      {"fetch_add", "FETCH_AND_ADD returns the old value and adds modulo 2^64", fetch_add},
      {"compare_swap",
       "CMP_AND_SWP returns the old value, and swaps only if it equals the compare value",
       compare_swap},
      {"fence", "a fenced SEND after a READ sends what the READ fetched", fence},
      {"write_then_send", "when a SEND has arrived, so has the WRITE before it", write_then_send},
      {"many_reads", "more READs than max_rd_atomic may be posted: all complete, in order",
       many_reads},
      {"psn_wrap", "a connection survives the wrap of its packet sequence numbers", psn_wrap},
      {"mr_iova", "a region has the addresses that ibv_reg_mr_iova gave it", mr_iova},
      {"both_ways", "both ends send at once, and each gets every message", both_ways},
  };
}

}  // namespace guest::connections
