// SPDX-License-Identifier: GPL-2.0-or-later
// All device memory is freed when a process is killed, whatever it was doing.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <random>
#include <thread>

#include "dmshare.h"

namespace guest {
namespace {

using std::chrono::milliseconds;

// Runs `body` in a child, kills the child once it has reported, then checks that all memory is
// free.
void killed_after(const Where& where, const std::function<void(const Device&, const Talk&)>& body) {
  Child child([&where, &body](const Talk& talk) {
    const Device dev = where.open();
    body(dev, talk);
  });
  child.talk().wait();
  child.kill();
  where.expect_all_free();
}

void hold(const Talk& talk) {
  talk.tell();
  talk.wait();
}

void with_an_allocation(const Where& where) {
  killed_after(where, [&where](const Device& dev, const Talk& talk) {
    const DmPtr dm = alloc_dm(dev.context(), where.size);
    dm_write(dm.get(), 0, std::vector<std::byte>(where.size, std::byte{0x99}));
    hold(talk);
  });
}

void with_regions(const Where& where) {
  killed_after(where, [](const Device& dev, const Talk& talk) {
    const DmPtr dm = alloc_dm(dev.context(), 8 * kPage);
    std::vector<MrPtr> regions;
    for (std::uint64_t i = 0; i < 8; i++) {
      regions.push_back(reg_dm(dev.pd(), dm.get(), i * 100, 8 * kPage - i * 200));
    }
    hold(talk);
  });
}

void with_freed_and_mapped(const Where& where) {
  killed_after(where, [](const Device& dev, const Talk& talk) {
    for (int i = 0; i < 4; i++) {
      const auto before = device_mappings();
      const DmPtr dm = alloc_dm(dev.context(), 4 * kPage);
      const Mapping own = mapping_of(before);
      require(map_again(dev, own.offset, own.length) != nullptr, "a second mapping: {}",
              errno_name(errno));
    }
    hold(talk);
  });
}

// Endless messages between two spaces of the process.
void with_traffic(const Where& where, ibv_wr_opcode opcode) {
  for (unsigned round = 0; round < 6; round++) {
    Child child([&where, opcode](const Talk& talk) {
      const Device dev = where.open();
      const Pair pair(dev, alike({.memory = 0, .device_memory = 1 << 20}));
      const Send send = pair.request(opcode, {.length = 1 << 20, .kind = Kind::kDevice},
                                     {.length = 1 << 20, .kind = Kind::kDevice});
      for (int i = 0;; i++) {
        pair.run(send);
        if (i == 3) talk.tell();
      }
    });
    child.talk().wait();
    std::this_thread::sleep_for(milliseconds(round * 7));
    child.kill();
    where.expect_all_free();
  }
}

// Allocates, registers and frees at random until it is killed.
void at_any_moment(const Where& where) {
  std::mt19937 random(5);
  for (unsigned round = 0; round < 30; round++) {
    const auto seed = static_cast<unsigned>(random());
    Child child([&where, seed](const Talk& talk) {
      const Device dev = where.open();
      std::mt19937 dice(seed);
      std::vector<DmPtr> all;
      std::vector<MrPtr> regions;
      talk.tell();
      for (;;) {
        const auto what = dice() % 8;
        if (what < 4) {
          const std::uint64_t length = (1 + dice() % 64) * 1000;
          if (DmPtr dm =
                  try_alloc_dm(dev.context(), length, static_cast<std::uint32_t>(dice() % 16))) {
            regions.push_back(reg_dm(dev.pd(), dm.get(), 0, length));
            dm_write(dm.get(), 0, std::vector<std::byte>(64, std::byte{0x55}));
            all.push_back(std::move(dm));
          }
        } else if (what < 6 && !all.empty()) {
          regions.pop_back();
          all.pop_back();
        } else if (!all.empty()) {
          require(ibv_free_dm(all.back().get()) == EBUSY, "ibv_free_dm with a region on it");
        }
      }
    });
    child.talk().wait();
    std::this_thread::sleep_for(milliseconds(random() % 40));
    child.kill();
    where.expect_count("dm_bytes", 0);
    where.expect_count("alive_dm", 0);
  }
  where.expect_all_free();
}

// Several processes; each dies while the others allocate.
void one_of_many(const Where& where) {
  const std::uint64_t share = where.size / 8;
  std::vector<std::unique_ptr<Child>> all;
  const auto start = [&] {
    all.push_back(std::make_unique<Child>([&where, share](const Talk& talk) {
      const Device dev = where.open();
      const DmPtr dm = alloc_dm(dev.context(), share);
      const std::vector<std::byte> bytes = dm_read(dm.get(), 0, share);
      for (const std::byte b : bytes) require(b == std::byte{}, "a byte is not 0");
      dm_write(dm.get(), 0, std::vector<std::byte>(share, std::byte{0x61}));
      hold(talk);
    }));
    all.back()->talk().wait();
  };
  for (int i = 0; i < 8; i++) start();
  for (int i = 0; i < 8; i++) {
    all.erase(all.begin() + i * 3 % 8);
    where.expect_count("dm_bytes", share * 7);
    start();
  }
  all.clear();
  where.expect_all_free();
}

}  // namespace

std::vector<Test> death_tests(const Where& where) {
  return tests_of(
      where, {{"killed-with-an-allocation", with_an_allocation},
              {"killed-with-regions", with_regions},
              {"killed-with-freed-and-mapped", with_freed_and_mapped},
              {"killed-under-writes", [](const Where& at) { with_traffic(at, IBV_WR_RDMA_WRITE); }},
              {"killed-under-reads", [](const Where& at) { with_traffic(at, IBV_WR_RDMA_READ); }},
              {"killed-at-any-moment", at_any_moment},
              {"killed-one-of-many", one_of_many}});
}

}  // namespace guest
