// SPDX-License-Identifier: GPL-2.0-or-later
// Writes a capture with every opcode to the path in TERN_SAMPLES, for
// qemu-device/engine/tests/tshark-check. The fields of each frame have the values that the check
// expects.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/fake_host.h"
#include "tests/packet_samples.h"
#include "tests/pcap.h"

namespace tern {
namespace {

TEST(Samples, Write) {
  const char* const path = std::getenv("TERN_SAMPLES");
  if (!path) GTEST_SKIP() << "TERN_SAMPLES is not set";
  PcapWriter pcap(path);
  ASSERT_TRUE(pcap.ok());
  FakeHost host;
  std::uint64_t time = 0;
  for (const bool ipv4 : {true, false}) {
    for (const std::uint16_t vlan : {std::uint16_t{0xffff}, std::uint16_t{77}}) {
      for_each_opcode([&](Transport transport, Op op, const OpTraits&) {
        for (const std::size_t want : {1023, 0, 1, 2, 64, 4096}) {
          const auto data = pattern(sample_payload(transport, op, want));
          Packet p(host);
          fill_sample(p, transport, op);
          p.route = sample_route(ipv4, vlan);
          p.mig_req = transport != Transport::kUc;
          p.payload.append_plain(std::span<const std::byte>(data));
          pcap.frame(time += 1000, encode(p));
          if (data.size() != want) break;  // the opcode fixes the length
        }
      });
    }
  }
}

}  // namespace
}  // namespace tern
