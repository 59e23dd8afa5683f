// SPDX-License-Identifier: GPL-2.0-or-later
// Toeplitz hashes: published values, and a plain implementation.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "eth/rss_hash.h"
#include "frames/sample_frames.h"

namespace tern::eth {

using namespace frames;

namespace {

using Key = std::array<std::uint8_t, 40>;
using FieldSets = std::array<std::uint8_t, 8>;

constexpr std::uint8_t kAddresses = TERN_RSS_FIELD_SRC_IP | TERN_RSS_FIELD_DST_IP;
constexpr std::uint8_t kPorts = TERN_RSS_FIELD_SRC_PORT | TERN_RSS_FIELD_DST_PORT;

// The key and the hashes of "RSS hashing types: verifying the hash calculation", Microsoft.
constexpr Key kMicrosoft = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                            0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                            0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                            0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

struct Published {
  std::vector<std::uint8_t> src;
  std::vector<std::uint8_t> dst;
  std::uint16_t src_port;
  std::uint16_t dst_port;
  std::uint32_t addresses;
  std::uint32_t ports;
};

const Published kPublished[] = {
    {{66, 9, 149, 187}, {161, 142, 100, 80}, 2794, 1766, 0x323e8fc2, 0x51ccc178},
    {{199, 92, 111, 2}, {65, 69, 140, 83}, 14230, 4739, 0xd718262a, 0xc626b0ea},
    {{24, 19, 198, 95}, {12, 22, 207, 184}, 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
    {{38, 27, 205, 30}, {209, 142, 163, 6}, 48228, 2217, 0x82989176, 0xafc7327f},
    {{153, 39, 163, 191}, {202, 188, 127, 2}, 44251, 1303, 0x5d1809c5, 0x10e828a2},
    {{0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 7},
     {0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x00, 0x03, 0, 0, 0, 0, 0, 0, 0, 1},
     2794,
     1766,
     0x2cc18cd5,
     0x40207d3d},
    {{0x3f, 0xfe, 0x05, 0x01, 0, 8, 0, 0, 2, 0x60, 0x97, 0xff, 0xfe, 0x40, 0xef, 0xab},
     {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
     14230,
     4739,
     0x0f0c461c,
     0xdde51bbf},
    {{0x3f, 0xfe, 0x19, 0, 0x45, 0x45, 0, 3, 2, 0, 0xf8, 0xff, 0xfe, 0x21, 0x67, 0xcf},
     {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0xf8, 0xff, 0xfe, 0x21, 0x67, 0xcf},
     44251,
     38024,
     0x4b61e985,
     0x02d1feef},
};

Bytes frame_of(const Published& p, std::uint8_t protocol) {
  SampleFrame f;
  f.v4 = p.src.size() == 4;
  f.protocol = protocol;
  f.src_port = p.src_port;
  f.dst_port = p.dst_port;
  Bytes frame = f.make();
  std::byte* const addresses = frame.data() + f.l3() + (f.v4 ? 12 : 8);
  std::memcpy(addresses, p.src.data(), p.src.size());
  std::memcpy(addresses + p.src.size(), p.dst.data(), p.dst.size());
  return frame;
}

TEST(RssHashTest, PublishedValues) {
  FieldSets all;
  all.fill(kAddresses | kPorts);
  FieldSets addresses;
  addresses.fill(kAddresses);
  for (const Published& p : kPublished) {
    for (const int protocol : {6, 17}) {
      const Level level = parse(frame_of(p, static_cast<std::uint8_t>(protocol))).outer;
      const Hash l4 = rss_hash(level, TERN_RSS_FUNC_TOEPLITZ, all, kMicrosoft);
      EXPECT_EQ(l4.value, p.ports);
      EXPECT_EQ(l4.type, TERN_ETH_HASH_L4);
      const Hash l3 = rss_hash(level, TERN_RSS_FUNC_TOEPLITZ, addresses, kMicrosoft);
      EXPECT_EQ(l3.value, p.addresses);
      EXPECT_EQ(l3.type, TERN_ETH_HASH_L3);
    }
    // A protocol without ports.
    const Hash icmp =
        rss_hash(parse(frame_of(p, 1)).outer, TERN_RSS_FUNC_TOEPLITZ, all, kMicrosoft);
    EXPECT_EQ(icmp.value, p.addresses);
    EXPECT_EQ(icmp.type, TERN_ETH_HASH_L3);
  }
}

// Bit by bit, as the hash is defined.
std::uint32_t plain_toeplitz(const Key& key, std::span<const std::byte> input) {
  const auto key_bit = [&](std::size_t i) {
    return static_cast<std::uint32_t>(key[i / 8] >> (7 - i % 8) & 1);
  };
  std::uint32_t window = 0;
  for (std::size_t i = 0; i < 32; ++i) window = window << 1 | key_bit(i);
  std::uint32_t hash = 0;
  for (std::size_t i = 0; i < 8 * input.size(); ++i) {
    if ((std::to_integer<unsigned>(input[i / 8]) >> (7 - i % 8) & 1) != 0) hash ^= window;
    window = window << 1 | (i + 32 < 320 ? key_bit(i + 32) : 0);
  }
  return hash;
}

// The input of the hash, taken from the frame's bytes.
Bytes input_of(const SampleFrame& f, const Bytes& frame, bool symmetric, unsigned fields) {
  const std::size_t size = f.v4 ? 4 : 16;
  const std::size_t at = f.l3() + (f.v4 ? 12 : 8);
  Bytes parts[4] = {{frame.begin() + static_cast<std::ptrdiff_t>(at),
                     frame.begin() + static_cast<std::ptrdiff_t>(at + size)},
                    {frame.begin() + static_cast<std::ptrdiff_t>(at + size),
                     frame.begin() + static_cast<std::ptrdiff_t>(at + 2 * size)},
                    {},
                    {}};
  if (!f.fragment && (f.tcp() || f.udp())) {
    parts[2] = {frame[f.l4()], frame[f.l4() + 1]};
    parts[3] = {frame[f.l4() + 2], frame[f.l4() + 3]};
  }
  Bytes input;
  for (std::size_t i = 0; i < 4; ++i) {
    Bytes part = parts[i];
    if (symmetric)
      std::ranges::transform(part, parts[i ^ 1], part.begin(),
                             [](std::byte a, std::byte b) { return a ^ b; });
    if ((fields >> i & 1) != 0) input.insert(input.end(), part.begin(), part.end());
  }
  return input;
}

TEST(RssHashTest, EverySelectionOfFields) {
  std::mt19937 random(1);
  unsigned hashed = 0;
  for (unsigned i = 0; i < 20'000; ++i) {
    const SampleFrame f = draw_frame(random);
    const Bytes frame = f.make();
    Key key;
    std::ranges::generate(key, [&] { return static_cast<std::uint8_t>(random()); });
    FieldSets fields{};
    for (std::size_t k = 0; k < 6; ++k) fields[k] = random() % 16;
    const std::size_t protocol = f.fragment || f.protocol == 1 ? 0 : f.tcp() ? 2 : 4;
    const bool symmetric = random() % 2 == 0;
    const Bytes input = input_of(f, frame, symmetric, fields[protocol + (f.v4 ? 0 : 1)]);
    const Hash hash =
        rss_hash(parse(frame).outer, symmetric ? TERN_RSS_FUNC_SYMMETRIC : TERN_RSS_FUNC_TOEPLITZ,
                 fields, Toeplitz(key));
    ASSERT_EQ(hash.value, plain_toeplitz(key, input)) << i;
    const bool ports = protocol != 0 && (fields[protocol + (f.v4 ? 0 : 1)] & kPorts) != 0;
    ASSERT_EQ(hash.type, ports           ? TERN_ETH_HASH_L4
                         : input.empty() ? TERN_ETH_HASH_NONE
                                         : TERN_ETH_HASH_L3)
        << i;
    hashed += hash.type != TERN_ETH_HASH_NONE;
  }
  EXPECT_GT(hashed, 10'000U);
}

TEST(RssHashTest, BothDirectionsOfAConnection) {
  FieldSets all;
  all.fill(kAddresses | kPorts);
  for (const Published& p : kPublished) {
    const Published back{p.dst, p.src, p.dst_port, p.src_port, 0, 0};
    const Level there = parse(frame_of(p, 6)).outer;
    const Level here = parse(frame_of(back, 6)).outer;
    EXPECT_EQ(rss_hash(there, TERN_RSS_FUNC_SYMMETRIC, all, kMicrosoft).value,
              rss_hash(here, TERN_RSS_FUNC_SYMMETRIC, all, kMicrosoft).value);
    EXPECT_NE(rss_hash(there, TERN_RSS_FUNC_TOEPLITZ, all, kMicrosoft).value,
              rss_hash(here, TERN_RSS_FUNC_TOEPLITZ, all, kMicrosoft).value);
  }
}

TEST(RssHashTest, FramesWithoutIp) {
  FieldSets all;
  all.fill(kAddresses | kPorts);
  Bytes frame = SampleFrame{}.make();
  put16(frame, 12, 0x0806);
  const Hash hash = rss_hash(parse(frame).outer, TERN_RSS_FUNC_TOEPLITZ, all, kMicrosoft);
  EXPECT_EQ(hash.value, 0U);
  EXPECT_EQ(hash.type, TERN_ETH_HASH_NONE);
}

// ESP in the place of TCP or UDP; the SPI is where they have their ports.
Bytes esp_frame(SampleFrame f, std::uint32_t spi, std::size_t size = 40) {
  f.protocol = 50;
  f.inside.resize(size);
  for (std::size_t i = 0; i < std::min<std::size_t>(size, 4); ++i)
    f.inside[i] = static_cast<std::byte>(spi >> (24 - 8 * i));
  return f.make();
}

constexpr std::uint8_t kSpi = TERN_RSS_FIELD_SPI;

TEST(RssHashTest, PublishedValuesWithAnSpiInPlaceOfThePorts) {
  FieldSets fields{};
  fields[TERN_RSS_ESP4] = fields[TERN_RSS_ESP6] = kAddresses | kSpi;
  for (const Published& p : kPublished) {
    Bytes frame = frame_of(p, 50);
    const std::size_t l4 = frame.size();
    frame.resize(l4 + 8);
    put16(frame, p.src.size() == 4 ? 16 : 18,
          static_cast<std::uint16_t>(p.src.size() == 4 ? 28 : 8));
    put16(frame, l4, p.src_port);
    put16(frame, l4 + 2, p.dst_port);
    const Hash hash = rss_hash(parse(frame).outer, TERN_RSS_FUNC_TOEPLITZ, fields, kMicrosoft);
    EXPECT_EQ(hash.value, p.ports);
    EXPECT_EQ(hash.type, TERN_ETH_HASH_L4);
  }
}

TEST(RssHashTest, EspBySelectedFields) {
  std::mt19937 random(2);
  for (unsigned i = 0; i < 2000; ++i) {
    SampleFrame f = draw_frame(random);
    f.fragment = false;
    const auto spi = static_cast<std::uint32_t>(random());
    const Bytes frame = esp_frame(f, spi);
    Key key;
    std::ranges::generate(key, [&] { return static_cast<std::uint8_t>(random()); });
    FieldSets fields{};
    const std::uint8_t selected =
        static_cast<std::uint8_t>(random() % 4 | (random() % 2 != 0 ? kSpi : 0));
    const std::uint8_t plain = random() % 4;
    fields[f.v4 ? TERN_RSS_ESP4 : TERN_RSS_ESP6] = selected;
    fields[f.v4 ? TERN_RSS_IPV4 : TERN_RSS_IPV6] = plain;
    f.protocol = 50;
    Bytes input = input_of(f, frame, false, selected != 0 ? selected & kAddresses : plain);
    if ((selected & kSpi) != 0) {
      for (unsigned shift = 32; shift != 0; shift -= 8)
        input.push_back(static_cast<std::byte>(spi >> (shift - 8)));
    }
    const Hash hash = rss_hash(parse(frame).outer, TERN_RSS_FUNC_TOEPLITZ, fields, Toeplitz(key));
    ASSERT_EQ(hash.value, plain_toeplitz(key, input)) << i;
    ASSERT_EQ(hash.type, (selected & kSpi) != 0 ? TERN_ETH_HASH_L4
                         : input.empty()        ? TERN_ETH_HASH_NONE
                                                : TERN_ETH_HASH_L3)
        << i;
  }
}

TEST(RssHashTest, FragmentsAndStumpsOfEspHaveAddressesOnly) {
  FieldSets fields{};
  fields[TERN_RSS_ESP4] = kAddresses | kSpi;
  fields[TERN_RSS_IPV4] = kAddresses;
  SampleFrame f;
  const auto type = [&](const Bytes& frame) {
    return rss_hash(parse(frame).outer, TERN_RSS_FUNC_TOEPLITZ, fields, kMicrosoft).type;
  };
  EXPECT_EQ(type(esp_frame(f, 1, 8)), TERN_ETH_HASH_L4);
  EXPECT_EQ(type(esp_frame(f, 1, 7)), TERN_ETH_HASH_L3);
  f.padding = 20;
  EXPECT_EQ(type(esp_frame(f, 1, 7)), TERN_ETH_HASH_L3) << "padding is not the packet";
  f.fragment = true;
  EXPECT_EQ(type(esp_frame(f, 1)), TERN_ETH_HASH_L3);
}

}  // namespace
}  // namespace tern::eth
