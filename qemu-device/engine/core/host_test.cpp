// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <random>
#include <thread>

#include "core/ordered_copy.h"
#include "tests/fake_host.h"

namespace tern {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

std::vector<std::byte> ramp(std::size_t n, unsigned start = 0) {
  std::vector<std::byte> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<std::byte>(start + i);
  return v;
}

class DmaTest : public ::testing::Test {
 protected:
  FakeHost host;
};

TEST_F(DmaTest, CopiesThroughShortSpans) {
  const std::uint64_t addr = host.alloc(8192);
  const auto data = ramp(5000);
  host.short_span = 7;
  EXPECT_TRUE(dma_write(host, addr + 3, data));
  EXPECT_EQ(host.bytes_written, 5000U);
  std::vector<std::byte> back(5000);
  host.short_span = 0;
  host.bounce_pages = true;
  EXPECT_TRUE(dma_read(host, addr + 3, back));
  EXPECT_EQ(back, data);
  EXPECT_EQ(host.outstanding(), 0U);
  EXPECT_EQ(host.bytes_written, 5000U);
}

TEST_F(DmaTest, SaysWhenItIsNotRam) {
  const std::uint64_t addr = host.alloc(4096);
  std::array<std::byte, 64> buf{};
  EXPECT_FALSE(dma_read(host, addr + 4096 - 63, buf));
  EXPECT_TRUE(dma_read(host, addr + 4096 - 64, buf));
  EXPECT_FALSE(dma_write(host, addr + 4096 - 63, buf));
  EXPECT_FALSE(dma_read(host, 0, buf));
}

// Known RAM that is also mapped at a second DMA address: no mapping may leak.
TEST_F(DmaTest, KnownRamAtAnotherAddress) {
  const std::uint64_t addr = host.alloc(4096);
  // set_ram() gets an address that map() does not serve; map() serves the second address.
  constexpr std::uint64_t kKnown = 0x7000'0000'0000;
  const Host::Ram ram{kKnown, 4096, host.at(addr)};
  host.set_ram(std::span(&ram, 1));
  const auto data = ramp(100);
  EXPECT_TRUE(dma_write(host, addr + 8, data));
  EXPECT_EQ(host.maps, 1U);
  EXPECT_EQ(host.unmaps, 1U);
  EXPECT_EQ(host.outstanding(), 0U);
  EXPECT_EQ(host.ram_bytes_written, 100U) << "the host learns of the bytes";
  std::vector<std::byte> back(100);
  EXPECT_TRUE(dma_read(host, kKnown + 8, back));
  EXPECT_EQ(back, data);
  {
    SpanList list(host);
    ASSERT_TRUE(list.append_dma(addr, 4096, true));
  }
  EXPECT_EQ(host.outstanding(), 0U);
}

TEST_F(DmaTest, NothingIsAlwaysThere) {
  EXPECT_TRUE(dma_read(host, 0, {}));
  EXPECT_TRUE(dma_write(host, ~0ULL, {}));
  EXPECT_EQ(host.maps, 0U);
}

TEST_F(DmaTest, AddressesDoNotWrap) {
  host.add_ram(~0ULL - 4095, 4096);
  host.add_ram(0, 4096);
  std::array<std::byte, 16> buf{};
  EXPECT_TRUE(dma_read(host, ~0ULL - 15, buf));
  EXPECT_FALSE(dma_read(host, ~0ULL - 14, buf));
  SpanList list(host);
  EXPECT_TRUE(list.append_dma(~0ULL - 15, 16, false));
  EXPECT_FALSE(list.append_dma(~0ULL - 14, 16, false));
  EXPECT_EQ(list.size(), 16U);
}

TEST_F(DmaTest, AppendIsAllOrNothing) {
  const std::uint64_t addr = host.alloc(8192);
  host.punch(addr + 6000, 100);
  host.short_span = 1000;
  SpanList list(host);
  EXPECT_TRUE(list.append_dma(addr, 3000, true));
  EXPECT_EQ(list.pieces().size(), 3U);
  EXPECT_FALSE(list.append_dma(addr + 3000, 3500, true));
  EXPECT_EQ(list.size(), 3000U);
  EXPECT_EQ(host.outstanding(), 3U);
  list.clear();
  EXPECT_EQ(host.outstanding(), 0U);
  EXPECT_EQ(host.bytes_written, 3000U);
}

TEST_F(DmaTest, AbandonedMappingsAreUntouched) {
  const std::uint64_t addr = host.alloc(4096);
  SpanList list(host);
  EXPECT_TRUE(list.append_dma(addr, 100, true));
  EXPECT_TRUE(list.append_dma(addr, 100, false));
  list.abandon();
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(host.outstanding(), 0U);
  EXPECT_EQ(host.bytes_written, 0U);
}

TEST_F(DmaTest, ReadMappingsCountAsNotWritten) {
  const std::uint64_t addr = host.alloc(4096);
  {
    SpanList list(host);
    EXPECT_TRUE(list.append_dma(addr, 100, false));
    EXPECT_TRUE(list.append_dma(addr, 50, true));
  }
  EXPECT_EQ(host.bytes_written, 50U);
}

// Known RAM is accessed without map() up to its end, and stores to it are reported.
TEST_F(DmaTest, KnownRamNeedsNoMapping) {
  const std::uint64_t addr = host.alloc(2 * FakeHost::kPage);
  const Host::Ram known[] = {{addr, FakeHost::kPage, host.at(addr)}};
  host.set_ram(known);
  const auto data = ramp(5000);
  EXPECT_TRUE(dma_write(host, addr + 1, data));
  EXPECT_EQ(host.maps, 1U) << "what is behind the known piece";
  EXPECT_EQ(host.outstanding(), 0U);
  EXPECT_EQ(host.ram_bytes_written, FakeHost::kPage - 1);
  EXPECT_EQ(host.bytes_written, 5000 - (FakeHost::kPage - 1));
  std::vector<std::byte> back(5000);
  EXPECT_TRUE(dma_read(host, addr + 1, back));
  EXPECT_EQ(back, data);
  EXPECT_EQ(host.ram_bytes_written, FakeHost::kPage - 1) << "reading stores nothing";
  SpanList list(host);
  ASSERT_TRUE(list.append_dma(addr, 64, true));
  list.abandon();
  EXPECT_EQ(host.ram_bytes_written, FakeHost::kPage - 1);
  host.set_ram({});
  EXPECT_TRUE(dma_read(host, addr + 1, back));
  EXPECT_EQ(host.maps, 3U) << "forgotten";
}

TEST_F(DmaTest, EmptyPiecesAreNoPieces) {
  SpanList list(host);
  list.append_plain(std::span<std::byte>());
  list.append_plain(std::span<const std::byte>());
  EXPECT_TRUE(list.append_dma(0, 0, true));
  EXPECT_TRUE(list.pieces().empty());
  SpanList other(host);
  SpanList::copy(list, other);
  list.copy_to({});
  other.copy_from({});
}

TEST_F(DmaTest, CopiesBetweenPieces) {
  std::vector<std::byte> source = ramp(100);
  std::vector<std::byte> target(100);
  // Split both sides in every way, in steps of 13 and 17 bytes.
  for (std::size_t a = 1; a < 99; a += 13) {
    for (std::size_t b = 1; b < 99; b += 17) {
      SpanList from(host), to(host);
      from.append_plain(std::span<const std::byte>(source).first(a));
      from.append_plain(std::span<const std::byte>(source).subspan(a));
      to.append_plain(std::span(target).first(b));
      to.append_plain(std::span(target).subspan(b));
      std::ranges::fill(target, std::byte{0});
      SpanList::copy(from, to);
      EXPECT_EQ(target, source);
    }
  }
}

TEST_F(DmaTest, CopiesTheShorterLength) {
  std::vector<std::byte> source = ramp(10, 1);
  std::vector<std::byte> target(20);
  SpanList from(host), to(host);
  from.append_plain(std::span<const std::byte>(source));
  to.append_plain(std::span(target).first(3));
  to.append_plain(std::span(target).subspan(3));
  SpanList::copy(from, to);
  EXPECT_THAT(std::span(target).first(10), ElementsAreArray(source));
  EXPECT_THAT(std::span(target).subspan(10), Each(std::byte{0}));
  SpanList all(host);
  all.append_plain(std::span<const std::byte>(target));
  SpanList few(host);
  few.append_plain(std::span(source).first(4));
  SpanList::copy(all, few);
  EXPECT_EQ(source, ramp(10, 1));
}

// A source and a target in one buffer, split at random: the result must equal memmove's.
TEST_F(DmaTest, OverlapIsMemmove) {
  std::mt19937 rng(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::byte> buffer = ramp(200, static_cast<unsigned>(rng()));
    const std::size_t len = 1 + rng() % 100;
    const std::size_t s = rng() % (200 - len);
    const std::size_t d = rng() % (200 - len);
    std::vector<std::byte> want = buffer;
    std::memmove(want.data() + d, buffer.data() + s, len);
    SpanList from(host), to(host);
    const auto cut = [&](SpanList& list, std::size_t at) {
      for (std::size_t done = 0; done < len;) {
        const std::size_t n = round % 3 ? std::min<std::size_t>(len - done, 1 + rng() % 40) : len;
        list.append_plain(std::span(buffer).subspan(at + done, n));
        done += n;
      }
    };
    cut(from, s);
    cut(to, d);
    SpanList::copy(from, to);
    ASSERT_EQ(buffer, want) << "round " << round << " " << s << " to " << d << ", " << len;
  }
}

TEST_F(DmaTest, CopyToAndFrom) {
  const std::uint64_t addr = host.alloc(4096);
  host.short_span = 11;
  const auto data = ramp(100);
  {
    SpanList list(host);
    ASSERT_TRUE(list.append_dma(addr, 120, true));
    list.copy_from(data);
    std::vector<std::byte> back(100);
    list.copy_to(back);
    EXPECT_EQ(back, data);
  }
  EXPECT_EQ(std::memcmp(host.at(addr, 100), data.data(), 100), 0);
}

// A Mover that records its stores.
struct Recorder {
  struct Store {
    std::byte* at;
    std::size_t len;
    bool last;
  };
  void body(std::byte* to, const std::byte* from, std::size_t n) {
    stores.push_back({to, n, false});
    std::memmove(to, from, n);
  }
  template <class T>
  void last(std::byte* to, T value) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(to) % sizeof(T), 0U) << "an atomic store is aligned";
    stores.push_back({to, sizeof(T), true});
    std::memcpy(to, &value, sizeof(T));
  }
  std::vector<Store> stores;
};

// The end is stored separately and last, as the largest aligned word, whether or not the source
// overlaps.
TEST(OrderedCopy, TheEndIsTheLastStore) {
  alignas(64) std::array<std::byte, 256> buffer;
  for (std::size_t d = 64; d < 80; ++d) {
    for (std::size_t s = 40; s < 140; s += 3) {
      for (std::size_t n = 0; n < 70; ++n) {
        std::ranges::copy(ramp(256), buffer.begin());
        std::vector<std::byte> want(buffer.begin(), buffer.end());
        std::memmove(want.data() + d, buffer.data() + s, n);
        Recorder m;
        copy_ending(m, buffer.data() + d, buffer.data() + s, n);
        ASSERT_TRUE(std::ranges::equal(buffer, want)) << s << " to " << d << ", " << n;
        if (n == 0) {
          EXPECT_TRUE(m.stores.empty());
          continue;
        }
        std::size_t word = 8;
        while (word > n || (d + n) % word != 0) word /= 2;
        ASSERT_EQ(m.stores.size(), word == n ? 1U : 2U);
        EXPECT_TRUE(m.stores.back().last);
        EXPECT_EQ(m.stores.back().len, word);
        EXPECT_EQ(m.stores.back().at + word, buffer.data() + d + n);
        if (word != n) {
          EXPECT_EQ(m.stores[0].at, buffer.data() + d);
          EXPECT_EQ(m.stores[0].len, n - word) << "the end is not stored twice";
        }
      }
    }
  }
}

TEST(OrderedCopy, PiecesInOrderAndOneEnd) {
  FakeHost host;
  std::mt19937 rng(3);
  for (int round = 0; round < 300; ++round) {
    const std::size_t len = 1 + rng() % 200;
    std::vector<std::byte> source = ramp(len, static_cast<unsigned>(rng()));
    std::vector<std::byte> target(len + 8);
    SpanList from(host), to(host);
    const auto cut = [&](SpanList& list, std::span<std::byte> bytes) {
      while (!bytes.empty()) {
        const std::size_t n = std::min<std::size_t>(bytes.size(), 1 + rng() % 60);
        list.append_plain(bytes.first(n));
        bytes = bytes.subspan(n);
      }
    };
    cut(from, source);
    cut(to, target);
    Recorder m;
    copy_pieces_ending(m, from.pieces(), to.pieces(), len);
    EXPECT_TRUE(std::ranges::equal(source, std::span(target).first(len)));
    std::byte* next = target.data();
    for (std::size_t i = 0; i < m.stores.size(); ++i) {
      EXPECT_EQ(m.stores[i].at, next) << "from the first byte to the last";
      EXPECT_EQ(m.stores[i].last, i + 1 == m.stores.size());
      next += m.stores[i].len;
    }
    EXPECT_EQ(next, target.data() + len);
  }
}

// Targets of one and of two pieces, aligned and unaligned: the last byte is always stored last.
TEST(OrderedCopy, AWatcherOfTheLastByteSeesTheRest) {
  FakeHost host;
  constexpr std::size_t kLen = 192;
  alignas(64) std::array<std::byte, kLen + 64> target{};
  for (const std::size_t cut : {kLen, std::size_t{64}, std::size_t{61}}) {
    for (const std::size_t shift : {0U, 1U, 4U}) {
      std::byte* const to_bytes = target.data() + shift;
      std::atomic<bool> stop = false;
      std::atomic<std::uint64_t> torn = 0, seen = 0;
      target.fill(std::byte{0});
      std::thread watcher([&] {
        while (!stop.load(std::memory_order_relaxed)) {
          const auto end = __atomic_load_n(to_bytes + kLen - 1, __ATOMIC_ACQUIRE);
          const auto first = __atomic_load_n(to_bytes, __ATOMIC_RELAXED);
          const auto middle = __atomic_load_n(to_bytes + kLen / 2, __ATOMIC_RELAXED);
          // Older than `end` if it is up to 128 values behind, modulo 256.
          const auto older = [&](std::byte b) {
            const auto ahead = static_cast<std::uint8_t>(std::to_integer<unsigned>(b) -
                                                         std::to_integer<unsigned>(end));
            return ahead >= 128;
          };
          torn += older(first) || older(middle);
          ++seen;
        }
      });
      for (unsigned i = 1; i < 4000; ++i) {
        std::array<std::byte, kLen> source;
        source.fill(static_cast<std::byte>(i));
        SpanList from(host), to(host);
        from.append_plain(std::span<const std::byte>(source));
        to.append_plain(std::span(to_bytes, kLen).first(cut));
        to.append_plain(std::span(to_bytes, kLen).subspan(cut));
        SpanList::copy(from, to);
        // The watcher must not fall behind by half of all values.
        if (i % 64 == 0) {
          for (const std::uint64_t before = seen; seen < before + 2;) std::this_thread::yield();
        }
      }
      stop = true;
      watcher.join();
      EXPECT_EQ(torn, 0U) << cut << " " << shift;
    }
  }
}

TEST(AtomicWord, AddsAndSwaps) {
  for (const std::size_t shift : {0U, 4U, 1U}) {  // aligned and unaligned
    alignas(8) std::array<std::byte, 16> memory{};
    std::byte* const p = memory.data() + shift;
    EXPECT_EQ(atomic_fetch_add(p, 5), 0U);
    EXPECT_EQ(atomic_fetch_add(p, ~0ULL), 5U);
    EXPECT_EQ(atomic_compare_swap(p, 5, 9), 4U);
    EXPECT_EQ(atomic_compare_swap(p, 4, 0x123456789abcdef0), 4U);
    EXPECT_EQ(atomic_fetch_add(p, 0), 0x123456789abcdef0U);
    store_release32(p, 0x55667788);
    EXPECT_EQ(load_acquire32(p), 0x55667788U);
    EXPECT_EQ(atomic_fetch_add(p, 0), 0x1234567855667788U);
  }
}

}  // namespace
}  // namespace tern
