// SPDX-License-Identifier: GPL-2.0-or-later
// Operations of the CPU on device memory, and queries of keys.
#include <cerrno>
#include <cstring>
#include <thread>

#include "raw.h"
#include "tests.h"

namespace guest {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kAt = kPage + 0x40;  // of the word that the operations change

using Word = volatile std::uint32_t;

Word* map_op(ibv_dm* dm, std::uint8_t op, std::uint64_t offset) {
  void* const address = terndv_dm_map_op_addr(dm, op, offset);
  require(address != nullptr, "terndv_dm_map_op_addr: {}", errno_name(errno));
  return static_cast<Word*>(address);
}

std::uint32_t get(ibv_dm* dm, std::uint64_t offset) {
  std::uint32_t value = 0;
  require_err(ibv_memcpy_from_dm(&value, dm, offset, sizeof(value)), 0, "ibv_memcpy_from_dm");
  return value;
}

void put(ibv_dm* dm, std::uint64_t offset, std::uint32_t value) {
  require_err(ibv_memcpy_to_dm(dm, offset, &value, sizeof(value)), 0, "ibv_memcpy_to_dm");
}

void operations(const Device& dev) {
  const DmPtr dm = alloc_dm(dev.context(), 2 * kPage);
  Word& add = *map_op(dm.get(), TERNDV_DM_OP_ADD, kAt);
  Word& set = *map_op(dm.get(), TERNDV_DM_OP_OR, kAt);
  Word& clear = *map_op(dm.get(), TERNDV_DM_OP_CLEAR, kAt);
  require(map_op(dm.get(), TERNDV_DM_OP_ADD, kAt) == &add, "a second mapping");
  put(dm.get(), kAt, 10);
  add = 5;
  require(add == 15 && get(dm.get(), kAt) == 16, "ADD made {}", get(dm.get(), kAt));
  set = 0x80000000;
  require(set == 0x80000010 && get(dm.get(), kAt) == 0x80000011, "OR made {:#x}",
          get(dm.get(), kAt));
  clear = 0x80000001;
  require(clear == 0x10 && get(dm.get(), kAt) == 0, "CLEAR made {:#x}", get(dm.get(), kAt));
  require(set == 0 && set == 1, "test and set");
  require(get(dm.get(), kAt - 4) == 0 && get(dm.get(), kAt + 4) == 0 && get(dm.get(), 0x40) == 0,
          "another word changed");
}

void refused_operations(const Device& dev) {
  const DmPtr dm = alloc_dm(dev.context(), 2 * kPage);
  const auto refused = [&](std::uint8_t op, std::uint64_t offset, int err) {
    errno = 0;
    require(terndv_dm_map_op_addr(dm.get(), op, offset) == nullptr, "operation {} at {}", op,
            offset);
    require_err(errno, err, "terndv_dm_map_op_addr");
  };
  refused(3, 0, EOPNOTSUPP);
  refused(255, 0, EOPNOTSUPP);
  refused(TERNDV_DM_OP_ADD, 2, EINVAL);
  refused(TERNDV_DM_OP_ADD, 2 * kPage, EINVAL);
  refused(TERNDV_DM_OP_ADD, ~std::uint64_t{3}, EINVAL);
}

// A context has a limited number of pages. What is freed can be mapped again.
void many_operations(const Device& dev) {
  constexpr std::size_t kLimit = 64;
  for (int round = 0; round < 2; round++) {
    const DmPtr dm = alloc_dm(dev.context(), 40 * kPage);
    for (std::size_t i = 0; i < kLimit; i++) {
      *map_op(dm.get(), static_cast<std::uint8_t>(i / 40), i % 40 * kPage) = 1;
    }
    require(
        terndv_dm_map_op_addr(dm.get(), TERNDV_DM_OP_OR, 39 * kPage) == nullptr && errno == ENOSPC,
        "no limit");
    require(get(dm.get(), 23 * kPage) == 1 && get(dm.get(), 24 * kPage) == 1,
            "a store went elsewhere");
  }
}

// Threads and a peer's atomics change one word; no change is lost.
void shared_counter(const Device& dev) {
  constexpr std::uint32_t kRounds = 200;
  const DmPtr dm = alloc_dm(dev.context(), 2 * kPage);
  const MrPtr mr(ibv_reg_dm_mr(dev.pd(), dm.get(), kAt, 8, kAllAccess | IBV_ACCESS_ZERO_BASED));
  require(mr != nullptr, "ibv_reg_dm_mr");
  const Pair pair(dev, short_queues(IBV_QPT_RC));
  const Memory result(dev.pd(), kPage, kAllAccess);
  Word& add = *map_op(dm.get(), TERNDV_DM_OP_ADD, kAt);
  std::thread other([&add] {
    for (std::uint32_t i = 0; i < kRounds; i++) add = 3;
  });
  for (std::uint32_t i = 0; i < kRounds; i++) {
    Send send;
    send.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    send.sges = {result.sge(0, 8)};
    send.rkey = mr->rkey;
    send.compare_add = 1000;
    if (const int err = post(pair.local.qp(), Api::kPost, send); err != 0) {
      other.join();
      require_err(err, 0, "post");
    }
    (void)static_cast<std::uint32_t>(add);
    (void)poll(pair.local.send_cq(), 1);
  }
  other.join();
  require(add == kRounds * (1000 + 3 + 1), "{} instead of {}", get(dm.get(), kAt) - 1,
          kRounds * 1004);
}

// ---- keys ----

terndv_key_attr key_of(ibv_pd* pd, std::uint32_t key) {
  terndv_key_attr attr{};
  require_err(terndv_query_key(pd, key, &attr), 0, "terndv_query_key");
  return attr;
}

terndv_key_attr window_of(ibv_mw* mw) {
  terndv_key_attr attr{};
  require_err(terndv_query_mw(mw, &attr), 0, "terndv_query_mw");
  return attr;
}

void complete(const Pair& pair, const Send& send) {
  require_err(post(pair.local.qp(), Api::kPost, send), 0, "post");
  const ibv_wc wc = poll(pair.local.send_cq(), 1).front();
  require(wc.status == IBV_WC_SUCCESS, "{}", ibv_wc_status_str(wc.status));
}

void region(const Device& dev) {
  const Memory memory(dev.pd(), 2 * kPage,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND,
                      0x12345000);
  const terndv_key_attr attr = key_of(dev.pd(), memory.rkey());
  require(attr.addr == 0x12345000 && attr.length == 2 * kPage, "range {:#x} {:#x}", attr.addr,
          attr.length);
  require(attr.access == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND),
          "access {:#x}", attr.access);
  require(attr.key == memory.rkey() && attr.type == 0 && attr.state == TERNDV_KEY_VALID,
          "key, type or state");
  require(attr.num_windows == 0 && attr.mr_key == 0 && attr.qp_num == 0,
          "windows of an unused region");
}

void window_type_2(const Device& dev) {
  const Memory memory(dev.pd(), 2 * kPage, kAllAccess | IBV_ACCESS_MW_BIND);
  const Pair pair(dev, short_queues(IBV_QPT_RC));
  const MwPtr mw(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
  require(mw != nullptr, "ibv_alloc_mw");
  terndv_key_attr attr = window_of(mw.get());
  require(attr.type == 2 && attr.state == TERNDV_KEY_FREE && attr.length == 0,
          "a window before its bind");

  Send bind;
  bind.opcode = IBV_WR_BIND_MW;
  bind.mw = mw.get();
  bind.bind_rkey = ibv_inc_rkey(mw->rkey);
  bind.bind = {.mr = memory.mr(),
               .addr = memory.address(100),
               .length = 500,
               .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  complete(pair, bind);
  attr = key_of(dev.pd(), bind.bind_rkey);
  require(attr.state == TERNDV_KEY_VALID && attr.key == bind.bind_rkey, "the window is not bound");
  require(attr.addr == memory.address(100) && attr.length == 500, "range {:#x} {:#x}", attr.addr,
          attr.length);
  require(attr.access == IBV_ACCESS_REMOTE_WRITE && attr.qp_num == pair.local.qp()->qp_num,
          "access or QP");
  require(attr.mr_key == memory.rkey(), "region {:#x}", attr.mr_key);
  require(key_of(dev.pd(), memory.rkey()).num_windows == 1, "the region does not count its window");

  Send invalidate;
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.inv_rkey = bind.bind_rkey;
  complete(pair, invalidate);
  attr = window_of(mw.get());
  require(attr.state == TERNDV_KEY_FREE && attr.mr_key == 0 && attr.length == 0,
          "the window is still bound");
  require(key_of(dev.pd(), memory.rkey()).num_windows == 0, "the region still counts it");
}

void window_type_1(const Device& dev) {
  const Memory memory(dev.pd(), 2 * kPage, kAllAccess | IBV_ACCESS_MW_BIND);
  const Pair pair(dev, short_queues(IBV_QPT_RC));
  const MwPtr mw(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_1));
  require(mw != nullptr, "ibv_alloc_mw");
  const std::uint32_t before = mw->rkey;
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {.mr = memory.mr(),
                    .addr = memory.address(8),
                    .length = 16,
                    .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  require_err(ibv_bind_mw(pair.local.qp(), mw.get(), &bind), 0, "ibv_bind_mw");
  require(poll(pair.local.send_cq(), 1).front().status == IBV_WC_SUCCESS, "the bind failed");
  terndv_key_attr attr = window_of(mw.get());
  require(attr.type == 1 && attr.key == mw->rkey && attr.key != before, "key {:#x}", attr.key);
  require(attr.length == 16 && attr.qp_num == 0 && attr.mr_key == memory.rkey(), "the bind");
  // A key of the past finds the window as well, and tells the key that is valid.
  attr = key_of(dev.pd(), before);
  require(attr.key == mw->rkey, "key {:#x}", attr.key);
}

void foreign_keys(const Device& dev) {
  const Device other(ibv_get_device_name(dev.context()->device), dev.gid_index());
  const Memory theirs(other.pd(), kPage, kAllAccess);
  const MwPtr window(ibv_alloc_mw(other.pd(), IBV_MW_TYPE_2));
  require(window != nullptr, "ibv_alloc_mw");
  const PdPtr own(ibv_alloc_pd(dev.context()));
  const Memory ours(own.get(), kPage, kAllAccess);
  terndv_key_attr attr{};
  for (const std::uint32_t key :
       {theirs.rkey(), window->rkey, ours.rkey(), 0U, 0x100U, 0x200U, 0xffffffffU}) {
    require_err(terndv_query_key(dev.pd(), key, &attr), ENOENT, "a key of another PD, or of none");
  }
  // A PD of another context cannot be named, either.
  ibv_pd forged = *other.pd();
  forged.context = dev.context();
  forged.handle = 0x7fffffff;
  require_err(terndv_query_key(&forged, theirs.rkey(), &attr), ENOENT, "an unknown PD");
  require(key_of(other.pd(), theirs.rkey()).length == kPage, "the owner's query");
}

}  // namespace

std::vector<Test> dm_tests(const Device& dev) {
  return tests_of(dev, {{"dm-operations", operations},
                        {"dm-operations-refused", refused_operations},
                        {"dm-operations-many", many_operations},
                        {"dm-operations-shared", shared_counter}});
}

std::vector<Test> key_tests(const Device& dev) {
  return tests_of(dev, {{"key-region", region},
                        {"key-window-type-2", window_type_2},
                        {"key-window-type-1", window_type_1},
                        {"key-foreign", foreign_keys}});
}

}  // namespace guest
