// SPDX-License-Identifier: GPL-2.0-or-later
// A key to device memory reaches only its region. CPU and device accesses are ordered by doorbells
// and completions.
#include <algorithm>
#include <array>
#include <limits>

#include "devmem.h"

namespace guest {
namespace {

constexpr std::uint64_t kLength = 16384;
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
    const Couple couple(env.dev, *env.wire, {.length = kLength},
                        EndSpec{.length = kLength, .part = c.part});
    const bool read = opcode == IBV_WR_RDMA_READ;
    const Patch near{.offset = 0, .length = c.length, .seed = 5};
    const Patch far{.offset = c.part.offset + c.offset, .length = c.length, .seed = 5};
    const Space& host = couple.near.space(Kind::kHost);
    host.paint(1, read ? Patches{} : Patches(&near, 1));
    couple.far.paint(Kind::kDevice, 2, read ? Patches(&far, 1) : Patches{});
    couple.run(couple.request(opcode, {.length = c.length},
                              {.kind = Kind::kDevice, .length = c.length, .offset = c.offset}));
    host.check(1, {&near, 1});
    couple.far.check(Kind::kDevice, 2, {&far, 1});
  }
}

void outside(const Env& env, ibv_wr_opcode opcode) {
  for (const Case& c : kOutside) {
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && (c.length != 8 || c.offset % 8 != 0)) {
      continue;
    }
    const Couple couple(env.dev, *env.wire, {.length = kLength},
                        EndSpec{.length = kLength, .part = c.part});
    couple.near.space(Kind::kHost).paint(1);
    couple.far.paint(Kind::kDevice, 2);
    couple.far.paint(Kind::kHost, 3);
    couple.run(couple.request(opcode, {.length = c.length},
                              {.kind = Kind::kDevice, .length = c.length, .offset = c.offset}),
               Api::kPost, IBV_WC_REM_ACCESS_ERR);
    couple.near.space(Kind::kHost).check(1);
    couple.far.check(Kind::kDevice, 2);
    couple.far.check(Kind::kHost, 3);
  }
}

// The same for the local SGE, as source of a WRITE and destination of a READ.
void outside_here(const Env& env) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    for (const Case& c : kOutside) {
      // Only single packets: of a longer message, packets before the bad byte may already be sent.
      if (c.length > 4096) {
        continue;
      }
      const Couple couple(env.dev, *env.wire, EndSpec{.length = kLength, .part = c.part},
                          EndSpec{.length = kLength});
      couple.near.space(Kind::kDevice).paint(1);
      couple.far.paint(Kind::kHost, 2);
      couple.run(
          couple.request(opcode, {.kind = Kind::kDevice, .length = c.length, .offset = c.offset},
                         {.length = c.length}),
          Api::kPost, IBV_WC_LOC_PROT_ERR);
      couple.near.space(Kind::kDevice).check(1);
      couple.far.check(Kind::kHost, 2);
    }
  }
}

void receive_outside(const Env& env) {
  const Couple couple(env.dev, *env.wire, {.length = kLength},
                      EndSpec{.length = kLength, .part = {4096, 64}});
  couple.far.paint(Kind::kDevice, 2);
  couple.far.recv(4, {.kind = Kind::kDevice, .length = 65, .offset = 0});
  couple.run(couple.request(IBV_WR_SEND, {.length = 65}, {}), Api::kPost, IBV_WC_REM_OP_ERR);
  couple.received(4, IBV_WC_LOC_PROT_ERR);
  couple.far.check(Kind::kDevice, 2);
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
      const Couple couple(env.dev, *env.wire, {.length = kLength},
                          EndSpec{.length = kLength, .access = IBV_ACCESS_LOCAL_WRITE | has.right});
      couple.near.space(Kind::kHost).paint(1);
      couple.far.paint(Kind::kDevice, 2);
      const bool may = has.right == asks.right;
      couple.run(couple.request(asks.opcode, {.length = 8}, {.kind = Kind::kDevice, .length = 8}),
                 Api::kPost, may ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
      if (!may) {
        couple.near.space(Kind::kHost).check(1);
        couple.far.check(Kind::kDevice, 2);
      }
    }
  }
  const Couple couple(env.dev, *env.wire, {.length = kLength},
                      EndSpec{.length = kLength, .access = 0});
  couple.far.paint(Kind::kDevice, 2);
  couple.far.recv(4, {.kind = Kind::kDevice, .length = 8, .offset = 0});
  couple.run(couple.request(IBV_WR_SEND, {.length = 8}, {}), Api::kPost, IBV_WC_REM_OP_ERR);
  couple.received(4, IBV_WC_LOC_PROT_ERR);
  couple.far.check(Kind::kDevice, 2);
}

void misaligned_atomic(const Env& env) {
  for (const std::uint64_t at : {1UL, 2UL, 4UL, 4092UL, 4095UL}) {
    const Couple couple(env.dev, *env.wire, {.length = kLength});
    couple.near.space(Kind::kHost).paint(1);
    couple.far.paint(Kind::kDevice, 2);
    couple.run(couple.request(IBV_WR_ATOMIC_FETCH_AND_ADD, {.length = 8},
                              {.kind = Kind::kDevice, .length = 8, .offset = at}),
               Api::kPost, IBV_WC_REM_INV_REQ_ERR);
    couple.near.space(Kind::kHost).check(1);
    couple.far.check(Kind::kDevice, 2);
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
      const Couple couple(env.dev, *env.wire, {.length = kLength});
      couple.far.paint(Kind::kHost, 2);
      Send send = couple.request(opcode, {.length = 64}, {.length = 64});
      send.sges[0].addr = 0;
      send.sges[0].lkey = lkey;
      couple.run(send, Api::kPost, IBV_WC_LOC_PROT_ERR);
      couple.far.check(Kind::kHost, 2);
    }
  }
  require(dm_read(dm.get(), 0, kLength) == bytes, "bytes came to the device memory");
}

// The device sees what the CPU stored before the doorbell.
void store_then_doorbell(const Env& env) {
  const Couple couple(env.dev, *env.wire, {.length = 1024});
  const std::uint64_t rounds = env.across ? 200 : 4000;
  for (std::uint64_t i = 0; i < rounds; i++) {
    const auto n = static_cast<std::uint32_t>(4 + i * 4 % 512);
    const std::uint64_t at = i * 12 % 512;
    std::vector<std::byte> bytes(n);
    fill(bytes, i);
    const Send send = couple.request(
        IBV_WR_RDMA_WRITE, {.kind = Kind::kDevice, .length = n, .offset = at}, {.length = n});
    couple.far.paint(Kind::kHost, 3);
    dm_write(couple.near.space(Kind::kDevice).dm(), at, bytes);
    couple.run(send, i % 2 == 0 ? Api::kPost : Api::kWr);
    const Patch patch{.offset = 0, .length = n, .seed = i};
    couple.far.check(Kind::kHost, 3, {&patch, 1});
  }
}

// After a completion the CPU sees what the device stored: the requester READ data, the receiver
// SEND data.
void store_then_completion(const Env& env) {
  const Couple couple(env.dev, *env.wire, {.length = 1024});
  const std::uint64_t rounds = env.across ? 200 : 4000;
  for (std::uint64_t i = 0; i < rounds; i++) {
    const auto n = static_cast<std::uint32_t>(4 + i * 4 % 512);
    const std::uint64_t at = i * 12 % 512;
    const Piece device{.kind = Kind::kDevice, .length = n, .offset = at};
    const Patch source{.offset = 0, .length = n, .seed = i};
    const Patch target{.offset = at, .length = n, .seed = i};
    if (i % 2 == 0) {
      couple.near.space(Kind::kDevice).paint(4);
      couple.far.paint(Kind::kHost, 3, {&source, 1});
      couple.run(couple.request(IBV_WR_RDMA_READ, device, {.length = n}));
      couple.near.space(Kind::kDevice).check(4, {&target, 1});
    } else {
      couple.far.paint(Kind::kDevice, 4);
      couple.near.space(Kind::kHost).paint(3, {&source, 1});
      couple.far.recv(i, device);
      couple.run(couple.request(IBV_WR_SEND, {.length = n}, {}));
      couple.received(i);
      couple.far.check(Kind::kDevice, 4, {&target, 1});
    }
  }
}

// The CPU stores into a word while the device stores into the words beside it: all arrive.
void words_beside(const Env& env) {
  const Couple couple(env.dev, *env.wire, {.length = 1024});
  const Space& device = couple.near.space(Kind::kDevice);
  const Patch source{.offset = 0, .length = 600, .seed = 6};
  couple.far.paint(Kind::kHost, 3, {&source, 1});
  for (std::uint64_t i = 0; i < (env.across ? 100U : 1000U); i++) {
    device.paint(4);
    const std::array<Piece, 2> sides{{{.kind = Kind::kDevice, .length = 300, .offset = 100},
                                      {.kind = Kind::kDevice, .length = 300, .offset = 404}}};
    const Send read = couple.request(IBV_WR_RDMA_READ, sides, {.length = 600});
    require_err(post(couple.near.qp(), Api::kPost, read), 0, "ibv_post_send");
    for (std::uint32_t n = 0; n <= 20; n++) {
      const std::uint32_t word = 0xa5000000U + n;
      dm_write(device.dm(), 400, std::as_bytes(std::span(&word, 1)));
    }
    require(poll(couple.near.send_cq(), 1).front().status == IBV_WC_SUCCESS, "the READ failed");
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

std::vector<Named> bounds_tests(const Env& env) {
  const auto test = [&env](const char* name, void (*run)(const Env&)) {
    return Named{name, [&env, run] { run(env); }};
  };
  const auto with = [&env](const char* name, void (*run)(const Env&, ibv_wr_opcode),
                           ibv_wr_opcode opcode) {
    return Named{name, [&env, run, opcode] { run(env, opcode); }};
  };
  return {
      with("write-inside-part", inside, IBV_WR_RDMA_WRITE),
      with("read-inside-part", inside, IBV_WR_RDMA_READ),
      with("write-outside-part", outside, IBV_WR_RDMA_WRITE),
      with("read-outside-part", outside, IBV_WR_RDMA_READ),
      with("atomic-outside-part", outside, IBV_WR_ATOMIC_FETCH_AND_ADD),
      test("sge-outside-part", outside_here),
      test("receive-outside-part", receive_outside),
      test("rights", rights),
      test("misaligned-atomic", misaligned_atomic),
      test("foreign-and-stale-key", foreign_and_stale),
      test("store-then-doorbell", store_then_doorbell),
      test("store-then-completion", store_then_completion),
      test("words-beside", words_beside),
  };
}

}  // namespace guest
