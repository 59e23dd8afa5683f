// SPDX-License-Identifier: GPL-2.0-or-later
// Compares the device's steering with Linux's, packet by packet. Random flows are installed in the
// engine and as filters of flower at the ingress of vb; random frames leave at va, and the mark
// with which each arrives behind the filters must be the number of the flow that the engine finds.
// steering.sh makes the interfaces.
//
// usage: steering; prints ok / not ok lines.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "check.h"
#include "eth/steering.h"
#include "flow.h"
#include "flower.h"
#include "frame.h"
#include "frames/headers.h"
#include "program.h"
#include "testing/packet_socket.h"

namespace guest::steering {
namespace {

using tern::frames::Bytes;

constexpr unsigned kSets = 8;  // of each subject
constexpr unsigned kFlows = 40;
constexpr unsigned kFrames = 250;

class PacketSocket {
 public:
  PacketSocket(const char* name, std::uint16_t protocol)
      : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
    require(fd_ >= 0, "packet socket");
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(protocol);
    address.sll_ifindex = static_cast<int>(if_nametoindex(name));
    const int on = 1;
    const timeval timeout{20, 0};
    require(setsockopt(fd_, SOL_SOCKET, SO_RCVMARK, &on, sizeof(on)) == 0, "SO_RCVMARK");
    require(setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0,
            "SO_RCVTIMEO");
    require(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, name);
  }
  ~PacketSocket() { close(fd_); }
  PacketSocket(const PacketSocket&) = delete;
  PacketSocket& operator=(const PacketSocket&) = delete;

  void send(const Bytes& frame) const {
    require(::send(fd_, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()),
            "send");
  }

  // The mark with which the frame arrives; nothing if it does not.
  [[nodiscard]] std::optional<std::uint32_t> receive(const Bytes& frame) const {
    for (;;) {
      auto arrived = tern::test::ReceivedFrame::take(fd_, 2048);
      if (!arrived) return {};
      if (arrived->bytes == frame) return arrived->control<std::uint32_t>(SOL_SOCKET, SO_MARK);
    }
  }

 private:
  int fd_;
};

// The engine's table, and one for each flow alone.
class Engine {
 public:
  explicit Engine(std::span<const Flow> flows) {
    for (std::uint32_t i = 0; i < flows.size(); ++i) {
      Flow flow = flows[i];
      flow.dest_id = tern::le(i + 1);
      create(all_, flow);
      create(*alone_.emplace_back(std::make_unique<tern::eth::Steering>()), flow);
    }
  }
  // The number of the flow that takes the frame, or 0.
  [[nodiscard]] std::uint32_t flow_of(const Bytes& frame) { return flow_of(all_, frame); }
  [[nodiscard]] bool several_match(const Bytes& frame) const {
    return std::ranges::count_if(
               alone_, [&](const auto& table) { return flow_of(*table, frame) != 0; }) > 1;
  }

 private:
  static void create(tern::eth::Steering& table, const Flow& flow) {
    std::uint32_t id = 0;
    if (table.create(flow, &id) == TERN_ST_OK) return;
    guest::fail("the engine refuses a flow");
  }
  static std::uint32_t flow_of(tern::eth::Steering& table, const Bytes& frame) {
    constexpr auto kStage = tern::eth::Stage::kReceived;
    const auto verdict = table.classify(tern::frames::parse(frame), frame.size(), kStage, kStage);
    return verdict.taken ? verdict.target.id : 0;
  }

  tern::eth::Steering all_;
  std::vector<std::unique_ptr<tern::eth::Steering>> alone_;
};

struct Counts {
  unsigned matched = 0;
  unsigned missed = 0;
  unsigned several = 0;  // flows match
};

std::string hex(const Bytes& frame) {
  std::string text;
  for (const std::byte byte : frame) {
    std::array<char, 3> digits;
    std::snprintf(digits.data(), digits.size(), "%02x", std::to_integer<unsigned>(byte));
    text += digits.data();
  }
  return text;
}

// Returns what is wrong, or nothing.
std::string compare(const Subject& subject, unsigned seed, Flower& flower, const PacketSocket& out,
                    const PacketSocket& in, Counts& counts) {
  Random random(seed);
  const Values values(random);
  const std::vector<Flow> flows = draw_flows(kFlows, subject, values, random);
  flower.install(flows);
  Engine engine(flows);
  for (unsigned i = 0; i < kFrames; ++i) {
    const Bytes frame = draw_frame(flows, values, random);
    const std::uint32_t expected = engine.flow_of(frame);
    out.send(frame);
    const auto mark = in.receive(frame);
    if (mark != expected) {
      const std::string there = mark ? "flow " + std::to_string(*mark) : "nothing";
      return "seed " + std::to_string(seed) + ": flow " + std::to_string(expected) +
             " in the engine, " + there + " in Linux for " + hex(frame);
    }
    ++(expected != 0 ? counts.matched : counts.missed);
    if (engine.several_match(frame)) ++counts.several;
  }
  return {};
}

void run() {
  Flower flower("vb", "sink");
  const PacketSocket out("va", 0);
  const PacketSocket in("sink", ETH_P_ALL);
  for (const Subject& subject : subjects()) {
    Counts counts;
    std::string wrong;
    for (unsigned seed = 1; seed <= kSets && wrong.empty(); ++seed)
      wrong = compare(subject, seed, flower, out, in, counts);
    std::printf("# %s: %u frames matched, %u missed, %u matched several flows\n", subject.name,
                counts.matched, counts.missed, counts.several);
    constexpr unsigned kEnough = kSets * kFrames / 10;
    if (wrong.empty() && std::min({counts.matched, counts.missed, counts.several}) < kEnough)
      wrong = "too few frames of a kind";
    guest::report(wrong.empty(), subject.name, wrong);
  }
}

}  // namespace
}  // namespace guest::steering

int main(int argc, char** argv) {
  return guest::run_program(argc, argv, {.group = "steering", .run = [](const guest::CommandLine&) {
                                           guest::steering::run();
                                         }});
}
