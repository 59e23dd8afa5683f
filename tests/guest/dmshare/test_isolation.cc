// SPDX-License-Identifier: GPL-2.0-or-later
// No process can read what another has stored, and no mapping reaches beyond its allocation.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "dmshare.h"

namespace guest {
namespace {

constexpr std::uint64_t kChunk = 16 * kPage;

void require_zero(std::span<const std::byte> bytes, const char* what) {
  const auto at = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{}; });
  require(at == bytes.end(), "{}: byte {} is not 0", what, at - bytes.begin());
}

void require_all(std::span<const std::byte> bytes, std::byte value, const char* what) {
  const auto at = std::ranges::find_if(bytes, [&](std::byte b) { return b != value; });
  require(at == bytes.end(), "{}: byte {} is {:#x}", what, at - bytes.begin(),
          std::to_integer<unsigned>(bytes[static_cast<std::size_t>(at - bytes.begin())]));
}

// Allocates all free device memory in chunks and checks that each is zero.
std::vector<DmPtr> take_all(const Device& dev, std::uint64_t chunk) {
  std::vector<DmPtr> all;
  while (DmPtr dm = try_alloc_dm(dev.context(), chunk)) {
    require_zero(dm_read(dm.get(), 0, chunk), "a new allocation");
    all.push_back(std::move(dm));
  }
  require(errno == ENOMEM, "ibv_alloc_dm: {}", errno_name(errno));
  return all;
}

// Fills allocations of many sizes and frees them, or leaves them to the end of the process.
void zeroed_for_another(const Where& where) {
  for (const bool frees : {true, false}) {
    Child first([&where, frees](const Talk& talk) {
      const Device dev = where.open();
      std::vector<DmPtr> all;
      std::uint64_t used = 0;
      for (std::uint64_t n = kPage; used + n <= where.size; n = n * 5 / 3 / 4 * 4) {
        used += (n + kPage - 1) / kPage * kPage;
        all.push_back(alloc_dm(dev.context(), n));
        dm_write(all.back().get(), 0, std::vector<std::byte>(n, std::byte{0xee}));
      }
      all.push_back(try_alloc_dm(dev.context(), where.size - used));
      if (frees) {
        for (DmPtr& dm : all) dm.reset();
        return;
      }
      talk.tell();
      ::_exit(0);
    });
    first.finish();
    where.expect_all_free();
  }
}

// The same with bytes written by the device, in a process that continues to run.
void zeroed_after_the_device(const Where& where) {
  Child first([&where](const Talk& talk) {
    const Device dev = where.open();
    {
      const Pair pair(dev, alike({.device_memory = 64 * 1024}));
      const Patch all{.offset = 0, .length = 65536, .seed = 1};
      pair.local.space(Kind::kHost).paint(0, {&all, 1});
      pair.run(pair.request(IBV_WR_RDMA_WRITE, {.length = 65536},
                            {.length = 65536, .kind = Kind::kDevice}));
      pair.remote.check(Kind::kDevice, 0, {&all, 1});
    }
    talk.tell();
    talk.wait();
  });
  first.talk().wait();
  where.expect_all_free();
  first.talk().tell();
  first.finish();
}

// ibv_free_dm() while the process has a second mapping: the memory stays its own until that is
// unmapped.
void free_with_a_mapping(const Where& where) {
  Child first([&where](const Talk& talk) {
    const Device dev = where.open();
    const auto before = device_mappings();
    DmPtr dm = alloc_dm(dev.context(), kChunk);
    const Mapping own = mapping_of(before);
    std::byte* kept = map_again(dev, own.offset, own.length);
    require(kept != nullptr, "a second mapping: {}", errno_name(errno));
    dm_write(dm.get(), 0, std::vector<std::byte>(kChunk, std::byte{0x11}));
    require_all({kept, kChunk}, std::byte{0x11}, "the second mapping");
    require(ibv_free_dm(dm.release()) == 0, "ibv_free_dm: {}", errno_name(errno));
    require(map_again(dev, own.offset, own.length) == nullptr, "a mapping of what is freed");
    // The other process now allocates the rest and fills it.
    talk.tell();
    talk.wait();
    for (unsigned round = 0; round < 4; round++) {
      require_all({kept, kChunk}, static_cast<std::byte>(0x11 + round), "the kept mapping");
      std::memset(kept, static_cast<int>(0x12 + round), kChunk);
      talk.tell();
      talk.wait();
    }
    ::munmap(kept, own.length);
    talk.tell();
    talk.wait();
  });
  Child second([&where](const Talk& talk) {
    const Device dev = where.open();
    talk.wait();
    std::vector<DmPtr> all = take_all(dev, kChunk);
    require(all.size() == where.size / kChunk - 1, "{} chunks", all.size());
    const std::vector<std::byte> own(kChunk, std::byte{0x77});
    for (const DmPtr& dm : all) dm_write(dm.get(), 0, own);
    for (;;) {
      talk.tell();
      if (talk.hear()[0] == 1) break;
      for (const DmPtr& dm : all) {
        require(dm_read(dm.get(), 0, kChunk) == own, "bytes of the first process");
      }
    }
    // The last mapping is gone: the memory is free again, and zeroed.
    all.push_back(alloc_dm(dev.context(), kChunk));
    require_zero(dm_read(all.back().get(), 0, kChunk), "what came back");
    talk.tell();
    talk.wait();
  });
  first.talk().wait();
  where.expect_count("dm_bytes", kChunk);
  second.talk().tell();
  second.talk().wait();
  for (int round = 0; round < 4; round++) {
    static_cast<void>(first.ask());
    static_cast<void>(second.ask());
  }
  static_cast<void>(first.ask());  // first unmaps
  where.expect_count("dm_bytes", where.size - kChunk);
  static_cast<void>(second.ask({1}));
  first.talk().tell();
  first.finish();
  second.talk().tell();
  second.finish();
}

// A mapping in a forked process keeps the memory allocated, even if the parent has freed it or
// exited.
void mapping_of_a_forked_process(const Where& where) {
  for (const bool frees : {true, false}) {
    Child first([&where, frees](const Talk& talk) {
      const Device dev = where.open();
      const auto before = device_mappings();
      DmPtr dm = alloc_dm(dev.context(), kChunk);
      const Mapping own = mapping_of(before);
      dm_write(dm.get(), 0, std::vector<std::byte>(kChunk, std::byte{0x21}));
      if (::fork() == 0) {
        // The child keeps the mapping and closes the file.
        ::close(dev.context()->cmd_fd);
        auto* bytes = reinterpret_cast<std::byte*>(own.start);
        talk.wait();
        require_all({bytes, kChunk}, std::byte{0x21}, "the mapping");
        std::memset(bytes, 0x22, kChunk);
        talk.tell();
        talk.wait();
        ::_exit(0);
      }
      if (frees) dm.reset();
      talk.tell();
      ::_exit(0);
    });
    first.talk().wait();
    std::uint64_t held = 0;
    {
      Child second([&where](const Talk& talk) {
        const Device dev = where.open();
        const std::vector<DmPtr> all = take_all(dev, kChunk);
        talk.tell({all.size() * kChunk});
        talk.wait();
        for (const DmPtr& dm : all) require_zero(dm_read(dm.get(), 0, kChunk), "an allocation");
      });
      held = where.size - second.talk().hear()[0];
      static_cast<void>(first.ask());  // the forked process stores
      second.talk().tell();
      second.finish();
    }
    require(held == kChunk, "{} bytes are held", held);
    first.talk().tell();
    where.expect_all_free();
  }
}

// Offsets and lengths that do not match an allocation are refused.
void no_mapping_beyond(const Where& where) {
  Child child([&where](const Talk&) {
    const Device dev = where.open();
    const auto before = device_mappings();
    const DmPtr dm = alloc_dm(dev.context(), 4 * kPage);
    const Mapping own = mapping_of(before);
    require(own.length == 4 * kPage, "{} bytes are mapped", own.length);
    const auto refused = [&](std::uint64_t offset, std::uint64_t length) {
      const std::byte* map = map_again(dev, offset, length);
      require(map == nullptr, "{:#x} bytes at {:#x} of the file, the allocation has {:#x} at {:#x}",
              length, offset, own.length, own.offset);
    };
    for (const std::uint64_t pages : {1UL, 2UL, 3UL, 5UL, 8UL, 4096UL}) {
      refused(own.offset, pages * kPage);
    }
    for (std::uint64_t page = 1; page < 4; page++) {
      for (std::uint64_t pages = 1; pages <= 4; pages++) {
        refused(own.offset + page * kPage, pages * kPage);
      }
    }
    require(::mmap(nullptr, own.length, PROT_READ, MAP_PRIVATE, dev.context()->cmd_fd,
                   static_cast<off_t>(own.offset)) == MAP_FAILED,
            "a private mapping");
    auto* start = reinterpret_cast<void*>(own.start);
    require(::mremap(start, own.length, own.length + kPage, MREMAP_MAYMOVE) == MAP_FAILED,
            "a mapping grows");
    require(dm_read(dm.get(), 0, 4 * kPage).size() == 4 * kPage, "the mapping has gone");
  });
  child.finish();
}

// A process can map only its own allocations: tries the other process's offsets, the first pages of
// the file and some further ones.
void nothing_of_another(const Where& where) {
  Child first([&where](const Talk& talk) {
    const Device dev = where.open();
    std::vector<DmPtr> all;
    for (int i = 0; i < 8; i++) {
      const auto before = device_mappings();
      all.push_back(alloc_dm(dev.context(), kPage));
      talk.tell({mapping_of(before).offset});
    }
    talk.wait();
  });
  std::vector<std::uint64_t> theirs;
  for (int i = 0; i < 8; i++) theirs.push_back(first.talk().hear()[0]);
  Child second([&where, &theirs](const Talk&) {
    const Device dev = where.open();
    const std::vector<Mapping> own = device_mappings();
    std::vector<std::uint64_t> offsets = theirs;
    for (std::uint64_t page = 0; page < 2048; page++) offsets.push_back(page * kPage);
    std::mt19937_64 random(4);
    for (int i = 0; i < 2000; i++) {
      offsets.push_back((random() >> (20 + i % 30)) * kPage & ((1UL << 62) - 1));
    }
    for (const std::uint64_t offset : offsets) {
      const bool mine =
          std::ranges::any_of(own, [&](const Mapping& m) { return m.offset == offset; });
      std::byte* map = map_again(dev, offset, kPage);
      require(map == nullptr || mine, "offset {:#x} of the file can be mapped", offset);
      if (map != nullptr) ::munmap(map, kPage);
    }
  });
  second.finish();
  first.talk().tell();
  first.finish();
}

// Neighbouring pages of two processes: a store to one does not change the next.
void neighbours(const Where& where) {
  const std::uint64_t pages = std::min<std::uint64_t>(where.size / kPage, 64);
  Child first([&where, pages](const Talk& talk) {
    const Device dev = where.open();
    std::vector<DmPtr> all;
    for (std::uint64_t i = 0; i < pages; i++) all.push_back(alloc_dm(dev.context(), kPage));
    // Every second page is freed for the other process.
    for (std::uint64_t i = 0; i < pages; i += 2) all[i].reset();
    talk.tell();
    for (unsigned round = 0; round < 3; round++) {
      const std::vector<std::byte> bytes(kPage, static_cast<std::byte>(0x30 + round));
      for (std::uint64_t i = 1; i < pages; i += 2) dm_write(all[i].get(), 0, bytes);
      talk.wait();
      for (std::uint64_t i = 1; i < pages; i += 2) {
        require(dm_read(all[i].get(), 0, kPage) == bytes, "page {} has bytes of its neighbour", i);
      }
      talk.tell();
    }
  });
  Child second([&where, pages](const Talk& talk) {
    const Device dev = where.open();
    std::vector<DmPtr> all;
    for (std::uint64_t i = 0; i < pages / 2; i++) {
      all.push_back(alloc_dm(dev.context(), kPage));
      require_zero(dm_read(all.back().get(), 0, kPage), "a page between another's");
    }
    for (unsigned round = 0; round < 3; round++) {
      talk.wait();
      const std::vector<std::byte> bytes(kPage, static_cast<std::byte>(0x50 + round));
      for (const DmPtr& dm : all) dm_write(dm.get(), 0, bytes);
      talk.tell();
      talk.wait();
      for (const DmPtr& dm : all) {
        require(dm_read(dm.get(), 0, kPage) == bytes, "a page has bytes of its neighbour");
      }
      talk.tell();
    }
  });
  first.talk().wait();
  for (int round = 0; round < 3; round++) {
    static_cast<void>(second.ask());
    static_cast<void>(first.ask());
    static_cast<void>(second.ask());
  }
  first.finish();
  second.finish();
}

}  // namespace

std::vector<Test> isolation_tests(const Where& where) {
  return tests_of(where, {{"zeroed-for-another", zeroed_for_another},
                          {"zeroed-after-the-device", zeroed_after_the_device},
                          {"free-with-a-mapping", free_with_a_mapping},
                          {"mapping-of-a-forked-process", mapping_of_a_forked_process},
                          {"no-mapping-beyond", no_mapping_beyond},
                          {"nothing-of-another", nothing_of_another},
                          {"neighbours", neighbours}});
}

}  // namespace guest
