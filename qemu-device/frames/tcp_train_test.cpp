// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/tcp_train.h"

#include <gtest/gtest.h>

#include "frames/sample_frames.h"

namespace tern::frames {
namespace {

TEST(TcpTrainTest, DividesIntoSegments) {
  for (const bool v4 : {true, false}) {
    for (const std::size_t payload : {1001U, 5000U, 64'000U}) {
      SampleFrame f;
      f.v4 = v4;
      f.tags.assign(payload % 2, 0x8100);
      f.tcp_options = 12;
      f.payload = payload;
      f.flags = 0xd9;
      const Bytes whole = f.make();
      const auto segments = static_cast<std::uint32_t>((payload + 999) / 1000);
      const auto train = TcpTrain::parse(whole, segments, 1000);
      ASSERT_TRUE(train);
      EXPECT_EQ(train->packets(), segments);
      std::size_t bytes = 0;
      Bytes stream;
      for (std::uint32_t i = 0; i < segments; ++i) {
        Bytes out(train->bytes(i), std::byte{0xee});
        train->write(i, out);
        bytes += out.size();
        const std::size_t length = i + 1 < segments ? 1000 : payload - 1000 * i;
        ASSERT_EQ(out.size(), std::max(kMinFrame, f.headers() + length));
        const auto frame = std::span(out).first(f.headers() + length);
        EXPECT_TRUE(f.valid(frame));
        EXPECT_EQ(get32(out, f.l4() + 4), f.sequence + 1000 * i);
        EXPECT_EQ(get8(out, f.l4() + 13) & 0x80, i == 0 ? 0x80 : 0) << "CWR";
        EXPECT_EQ(get8(out, f.l4() + 13) & 9, i + 1 == segments ? 9 : 0) << "PSH and FIN";
        stream.insert(stream.end(), frame.begin() + static_cast<std::ptrdiff_t>(f.headers()),
                      frame.end());
      }
      EXPECT_EQ(train->bytes(), bytes);
      EXPECT_EQ(stream,
                Bytes(whole.begin() + static_cast<std::ptrdiff_t>(f.headers()), whole.end()));
    }
  }
}

TEST(TcpTrainTest, RefusesWhatIsNone) {
  SampleFrame f;
  f.payload = 3000;
  const Bytes whole = f.make();
  EXPECT_TRUE(TcpTrain::parse(whole, 3, 1000));
  EXPECT_TRUE(TcpTrain::parse(whole, 3, 1499));
  for (const auto& [segments, mss] : {std::pair{2U, 1000U},
                                      {4U, 1000U},
                                      {1U, 3000U},
                                      {0U, 0U},
                                      {3U, 0U},
                                      {2U, 3000U},
                                      {3000U, 0U}})
    EXPECT_FALSE(TcpTrain::parse(whole, segments, mss)) << segments << " of " << mss;
  for (std::size_t length = 0; length < f.headers() + 2001; ++length)
    EXPECT_FALSE(TcpTrain::parse(std::span(whole).first(length), 3, 1000)) << length;
  f.protocol = 17;
  EXPECT_FALSE(TcpTrain::parse(f.make(), 3, 1000));
}

}  // namespace
}  // namespace tern::frames
