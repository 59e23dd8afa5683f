// SPDX-License-Identifier: GPL-2.0-or-later
// A key to device memory reaches only its region. CPU and device accesses are ordered by doorbells
// and completions.
#include <algorithm>
#include <array>
#include <limits>

#include "device_memory.h"

namespace guest::device_memory {
namespace {

constexpr std::uint64_t kLength = 16384;

bool across(const Env& env) { return env.link.responder() == nullptr; }

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

// A part of the device memory such that the bytes beside it belong to the same allocation.
struct Case {
  Part part;
  std::uint64_t offset;  // of the access, in the region
  std::uint32_t length;
};

constexpr Case kInside[] = {{{0, 64}, 0, 64},   {{1, 7}, 0, 7},          {{1, 7}, 6, 1},
                            {{4095, 2}, 0, 2},  {{4096, 4096}, 0, 4096}, {{100, 5000}, 1, 4999},
                            {{16383, 1}, 0, 1}, {{0, 16384}, 0, 16384},  {{8000, 384}, 383, 1}};
constexpr Case kOutside[] = {{{0, 64}, 64, 1},
                             {{0, 64}, 0, 65},
                             {{1, 7}, 7, 1},
                             {{1, 7}, 4, 4},
                             {{4096, 4096}, 4096, 1},
                             {{4096, 4096}, 0, 4097},
                             {{100, 5000}, 4999, 2},
                             {{4096, 64}, kMost, 1},
                             {{4096, 64}, kMost, 2},
                             {{4096, 64}, kMost - 63, 64},
                             {{4096, 64}, kMost - 4095, 4096},
                             {{4096, 64}, 1UL << 63, 8},
                             {{8, 8}, kMost - 7, 8}};

void inside(const Env& env, ibv_wr_opcode opcode) {
  for (const Case& c : kInside) {
    const Pair pair(env.dev, env.link,
                    both({.length = kLength}, {.length = kLength, .part = c.part}));
    const bool read = opcode == IBV_WR_RDMA_READ;
    const Patch near{.offset = 0, .length = c.length, .seed = 5};
    const Patch far{.offset = c.part.offset + c.offset, .length = c.length, .seed = 5};
    const Space& host = pair.local.space(Kind::kHost);
    host.paint(1, read ? Patches{} : Patches(&near, 1));
    pair.remote.paint(Kind::kDevice, 2, read ? Patches(&far, 1) : Patches{});
    pair.run(pair.request(opcode, {.length = c.length},
                          {.offset = c.offset, .length = c.length, .kind = Kind::kDevice}));
    host.check(1, {&near, 1});
    pair.remote.check(Kind::kDevice, 2, {&far, 1});
  }
}

void outside(const Env& env, ibv_wr_opcode opcode) {
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) need_atomics(env.dev);
  for (const Case& c : kOutside) {
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && (c.length != 8 || c.offset % 8 != 0)) continue;
    const Pair pair(env.dev, env.link,
                    both({.length = kLength}, {.length = kLength, .part = c.part}));
    pair.local.space(Kind::kHost).paint(1);
    pair.remote.paint(Kind::kDevice, 2);
    pair.remote.paint(Kind::kHost, 3);
    pair.run(pair.request(opcode, {.length = c.length},
                          {.offset = c.offset, .length = c.length, .kind = Kind::kDevice}),
             Api::kPost, IBV_WC_REM_ACCESS_ERR);
    pair.local.space(Kind::kHost).check(1);
    pair.remote.check(Kind::kDevice, 2);
    pair.remote.check(Kind::kHost, 3);
  }
}

// The same for the local SGE, as source of a WRITE and destination of a READ.
void outside_here(const Env& env) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    for (const Case& c : kOutside) {
      // Only single packets: of a longer message, packets before the bad byte may already be sent.
      if (c.length > 4096) continue;
      const Pair pair(env.dev, env.link,
                      both({.length = kLength, .part = c.part}, {.length = kLength}));
      pair.local.space(Kind::kDevice).paint(1);
      pair.remote.paint(Kind::kHost, 2);
      pair.run(pair.request(opcode, {.offset = c.offset, .length = c.length, .kind = Kind::kDevice},
                            {.length = c.length}),
               Api::kPost, IBV_WC_LOC_PROT_ERR);
      pair.local.space(Kind::kDevice).check(1);
      pair.remote.check(Kind::kHost, 2);
    }
  }
}

// A receive into the other end's device memory is refused there.
void receive_refused(const Env& env, const Both& there, std::uint32_t length) {
  const Pair pair(env.dev, env.link, both({.length = kLength}, there));
  pair.remote.paint(Kind::kDevice, 2);
  pair.remote.post_recv(4, {.offset = 0, .length = length, .kind = Kind::kDevice});
  pair.run(pair.request(IBV_WR_SEND, {.length = length}, {}), Api::kPost, IBV_WC_REM_OP_ERR);
  pair.expect_recv(4, IBV_WC_LOC_PROT_ERR);
  pair.remote.check(Kind::kDevice, 2);
}

void receive_outside(const Env& env) {
  receive_refused(env, {.length = kLength, .part = {4096, 64}}, 65);
}

// An operation without its access right is refused.
void rights(const Env& env) {
  struct Right {
    ibv_wr_opcode opcode;
    int right;
  };
  constexpr Right kRights[] = {{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
                               {IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
                               {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC}};
  for (const Right& has : kRights) {
    for (const Right& asks : kRights) {
      const auto is_atomic = [](const Right& r) { return r.right == IBV_ACCESS_REMOTE_ATOMIC; };
      if ((is_atomic(has) || is_atomic(asks)) && !claims_atomics(env.dev)) continue;
      const Pair pair(env.dev, env.link,
                      both({.length = kLength},
                           {.length = kLength, .access = IBV_ACCESS_LOCAL_WRITE | has.right}));
      pair.local.space(Kind::kHost).paint(1);
      pair.remote.paint(Kind::kDevice, 2);
      const bool may = has.right == asks.right;
      pair.run(pair.request(asks.opcode, {.length = 8}, {.length = 8, .kind = Kind::kDevice}),
               Api::kPost, may ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
      if (!may) {
        pair.local.space(Kind::kHost).check(1);
        pair.remote.check(Kind::kDevice, 2);
      }
    }
  }
  receive_refused(env, {.length = kLength, .access = 0}, 8);
}

void misaligned_atomic(const Env& env) {
  need_atomics(env.dev);
  for (const std::uint64_t at : {1UL, 2UL, 4UL, 4092UL, 4095UL}) {
    const Pair pair(env.dev, env.link, both({.length = kLength}));
    pair.local.space(Kind::kHost).paint(1);
    pair.remote.paint(Kind::kDevice, 2);
    const Send send = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, {.length = 8},
                                   {.offset = at, .length = 8, .kind = Kind::kDevice});
    const int err = post(pair.local.qp(), Api::kPost, send);
    require_usual(err == 0, "ibv_post_send: {}", errno_name(err));
    if (err == 0) {
      const ibv_wc_status status = poll(pair.local.send_cq(), 1).front().status;
      require(status != IBV_WC_SUCCESS, "the atomic succeeds");
      require_usual(status == IBV_WC_REM_INV_REQ_ERR, "{}", ibv_wc_status_str(status));
    }
    pair.local.space(Kind::kHost).check(1);
    pair.remote.check(Kind::kDevice, 2);
  }
}

// A region's key is invalid for a QP of another PD, and invalid once the region is deregistered.
void foreign_and_stale(const Env& env) {
  const PdPtr pd(ibv_alloc_pd(env.dev.context()));
  const DmPtr dm = alloc_dm(env.dev.context(), kLength);
  std::vector<std::byte> bytes(kLength);
  fill(bytes, 8);
  dm_write(dm.get(), 0, bytes);
  const MrPtr foreign = reg_dm(pd.get(), dm.get(), 0, kLength);
  const std::uint32_t stale = reg_dm(env.dev.pd(), dm.get(), 0, kLength)->lkey;
  for (const std::uint32_t lkey : {foreign->lkey, stale}) {
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
      const Pair pair(env.dev, env.link, both({.length = kLength}));
      pair.remote.paint(Kind::kHost, 2);
      Send send = pair.request(opcode, {.length = 64}, {.length = 64});
      send.sges[0].addr = 0;
      send.sges[0].lkey = lkey;
      pair.run(send, Api::kPost, IBV_WC_LOC_PROT_ERR);
      pair.remote.check(Kind::kHost, 2);
    }
  }
  require(dm_read(dm.get(), 0, kLength) == bytes, "bytes came to the device memory");
}

// The device sees what the CPU stored before the doorbell.
void store_then_doorbell(const Env& env) {
  const Pair pair(env.dev, env.link, both({.length = 1024}));
  const std::uint64_t rounds = across(env) ? 200 : 4000;
  for (std::uint64_t i = 0; i < rounds; i++) {
    const auto n = static_cast<std::uint32_t>(4 + i * 4 % 512);
    const std::uint64_t at = i * 12 % 512;
    std::vector<std::byte> bytes(n);
    fill(bytes, i);
    const Send send = pair.request(
        IBV_WR_RDMA_WRITE, {.offset = at, .length = n, .kind = Kind::kDevice}, {.length = n});
    pair.remote.paint(Kind::kHost, 3);
    dm_write(pair.local.space(Kind::kDevice).dm(), at, bytes);
    pair.run(send, env.dev.api(i));
    const Patch patch{.offset = 0, .length = n, .seed = i};
    pair.remote.check(Kind::kHost, 3, {&patch, 1});
  }
}

// After a completion the CPU sees what the device stored: the requester READ data, the receiver
// SEND data.
void store_then_completion(const Env& env) {
  const Pair pair(env.dev, env.link, both({.length = 1024}));
  const std::uint64_t rounds = across(env) ? 200 : 4000;
  for (std::uint64_t i = 0; i < rounds; i++) {
    const auto n = static_cast<std::uint32_t>(4 + i * 4 % 512);
    const std::uint64_t at = i * 12 % 512;
    const Range device{.offset = at, .length = n, .kind = Kind::kDevice};
    const Patch source{.offset = 0, .length = n, .seed = i};
    const Patch target{.offset = at, .length = n, .seed = i};
    if (i % 2 == 0) {
      pair.local.space(Kind::kDevice).paint(4);
      pair.remote.paint(Kind::kHost, 3, {&source, 1});
      pair.run(pair.request(IBV_WR_RDMA_READ, device, {.length = n}));
      pair.local.space(Kind::kDevice).check(4, {&target, 1});
    } else {
      pair.remote.paint(Kind::kDevice, 4);
      pair.local.space(Kind::kHost).paint(3, {&source, 1});
      pair.remote.post_recv(i, device);
      pair.run(pair.request(IBV_WR_SEND, {.length = n}, {}));
      pair.expect_recv(i);
      pair.remote.check(Kind::kDevice, 4, {&target, 1});
    }
  }
}

// The CPU stores into a word while the device stores into the words beside it: all arrive.
void words_beside(const Env& env) {
  const Pair pair(env.dev, env.link, both({.length = 1024}));
  const Space& device = pair.local.space(Kind::kDevice);
  const Patch source{.offset = 0, .length = 600, .seed = 6};
  pair.remote.paint(Kind::kHost, 3, {&source, 1});
  for (std::uint64_t i = 0; i < (across(env) ? 100U : 1000U); i++) {
    device.paint(4);
    const std::array<Range, 2> sides{{{.offset = 100, .length = 300, .kind = Kind::kDevice},
                                      {.offset = 404, .length = 300, .kind = Kind::kDevice}}};
    const Send read = pair.request(IBV_WR_RDMA_READ, sides, {.length = 600});
    require_err(post(pair.local.qp(), Api::kPost, read), 0, "ibv_post_send");
    for (std::uint32_t n = 0; n <= 20; n++) {
      const std::uint32_t word = 0xa5000000U + n;
      dm_write(device.dm(), 400, std::as_bytes(std::span(&word, 1)));
    }
    require(poll(pair.local.send_cq(), 1).front().status == IBV_WC_SUCCESS, "the READ failed");
    std::vector<std::byte> want = image(1024, 4, {});
    std::vector<std::byte> fetched(600);
    fill(fetched, 6);
    std::ranges::copy(std::span(fetched).first(300), want.begin() + 100);
    std::ranges::copy(std::span(fetched).subspan(300), want.begin() + 404);
    const std::uint32_t last = 0xa5000000U + 20;
    std::ranges::copy(std::as_bytes(std::span(&last, 1)), want.begin() + 400);
    require(dm_read(device.dm(), 0, 1024) == want, "round {}: bytes differ", i);
  }
}

}  // namespace

Rules bounds() {
  return {
      {"write-inside-part", "a WRITE reaches each byte of a region on a part of the memory",
       [](const Env& env) { inside(env, IBV_WR_RDMA_WRITE); }},
      {"read-inside-part", "a READ reaches each byte of such a region",
       [](const Env& env) { inside(env, IBV_WR_RDMA_READ); }},
      {"write-outside-part", "a WRITE beyond such a region is refused, and no byte moves",
       [](const Env& env) { outside(env, IBV_WR_RDMA_WRITE); }},
      {"read-outside-part", "a READ beyond such a region is refused, and no byte moves",
       [](const Env& env) { outside(env, IBV_WR_RDMA_READ); }},
      {"atomic-outside-part", "an atomic beyond such a region is refused, and no byte moves",
       [](const Env& env) { outside(env, IBV_WR_ATOMIC_FETCH_AND_ADD); }},
      {"sge-outside-part", "an SGE beyond such a region: IBV_WC_LOC_PROT_ERR", outside_here},
      {"receive-outside-part", "a receive beyond such a region: IBV_WC_LOC_PROT_ERR, REM_OP_ERR",
       receive_outside},
      {"rights", "an access needs its right in the region", rights},
      {"misaligned-atomic", "an atomic on an unaligned address is refused or fails",
       misaligned_atomic},
      {"foreign-and-stale-key", "keys of another PD and of a region that is gone are refused",
       foreign_and_stale},
      {"store-then-doorbell", "the device sees what the CPU copied before the post",
       store_then_doorbell},
      {"store-then-completion", "the CPU sees what the device stored before the completion",
       store_then_completion},
      {"words-beside", "CPU and device may store side by side: every byte arrives", words_beside},
  };
}

}  // namespace guest::device_memory
