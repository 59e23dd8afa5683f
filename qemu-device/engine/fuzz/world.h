// SPDX-License-Identifier: GPL-2.0-or-later
// A device with live objects of every type that its capabilities report, created over the admin
// queue, and the checks that hold after every input.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "control/device.h"
#include "host.h"

namespace tern::fuzz {

// The parameters of a world, from the first bytes of an input.
struct Scene {
  std::uint8_t type = TERN_QPT_RC;  // of its QPs
  bool privileged = false;          // their PD is, so they may use any DMA address
  bool loopback = false;            // the QPs are connected to each other, not to the wire
  bool srq = false;                 // the QPs take receive WQEs from an SRQ
  bool tags = false;                // which matches tags; every other QP fetches rendezvous
  bool eth = false;                 // Ethernet queues
  bool capture = false;
  bool ipv4 = false;
  bool vlan = false;
  bool cut_pages = false;  // no mapping crosses a page
  std::uint8_t log_mtu = 10;
  std::uint8_t log_sq_stride = 8;
  std::uint8_t qps = 2;
};

// Pages of RAM and their use.
namespace page {
inline constexpr unsigned kArgs = 1;    // input; reply at 2048
inline constexpr unsigned kEqs = 2;     // asynchronous EQ; completion EQ at 2048
inline constexpr unsigned kCq = 3;      // three CQs
inline constexpr unsigned kSrq = 6;     // two SRQs
inline constexpr unsigned kEth = 8;     // TX, RX
inline constexpr unsigned kLists = 10;  // page lists
inline constexpr unsigned kQp = 12;     // two pages for each of up to four QPs
inline constexpr unsigned kQpPages = 2;
inline constexpr unsigned kRw = 20;  // a region with all rights: pages 20 and 23
inline constexpr unsigned kRw2 = 23;
inline constexpr unsigned kRo = 25;     // a read-only region
inline constexpr unsigned kOther = 27;  // a region of another PD
inline constexpr unsigned kFast = 29;   // pages for REG_MR, and their list
inline constexpr unsigned kEthBuffers = 31;
inline constexpr unsigned kFree = 33;  // free, up to kEnd
inline constexpr unsigned kEnd = 120;
inline constexpr unsigned kTags = 121;     // operations on tags
inline constexpr unsigned kRecords = 124;  // doorbell records
inline constexpr unsigned kAdmin = 126;    // AQ; ACQ at 2048
}  // namespace page

// Addresses of the doorbell records; they share one page.
namespace record {
inline constexpr std::uint64_t kPage = FuzzHost::page(page::kRecords);
constexpr std::uint64_t eq(unsigned i) { return kPage + 64 * i; }
constexpr std::uint64_t eth(unsigned direction) { return kPage + 2048 + 128 * direction; }
constexpr std::uint64_t cq(unsigned i) { return kPage + 256 + 128 * i; }
constexpr std::uint64_t srq(unsigned i) { return kPage + 768 + 128 * i; }
constexpr std::uint64_t qp(unsigned i) { return kPage + 1024 + 256 * i; }
}  // namespace record

struct Region {
  std::uint32_t key = 0;
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
};

// An allocation of device memory.
struct DmPart {
  std::uint32_t number = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct FuzzQp {
  std::uint32_t number = 0;
  std::uint8_t type = TERN_QPT_RC;
  std::uint64_t buffer = 0;  // DMA address
  std::uint32_t sq_offset = 0;
  std::uint32_t rq_offset = 0;
  std::uint64_t record = 0;  // DMA address
  std::uint8_t log_sq = 3;
  std::uint8_t log_sq_stride = 8;
  std::uint8_t log_rq = 3;
  std::uint8_t log_rq_stride = 7;
  bool has_sq = true;
  bool has_rq = true;
  std::uint32_t sq_pi = 0;
  std::uint32_t rq_pi = 0;
};

class World {
 public:
  static constexpr std::uint32_t kUarBytes = 2 << 16;
  static constexpr unsigned kLogAdmin = 5;
  static constexpr unsigned kLogCq = 5;
  static constexpr unsigned kLogSrq = 3;
  static constexpr unsigned kLogSrqStride = 7;
  static constexpr unsigned kLogTagOps = 4;
  static constexpr std::uint32_t kTags = 3;
  static constexpr unsigned kLogEth = 4;
  static constexpr std::uint32_t kQkey = 0x11111111;
  static constexpr std::uint32_t kPsn = 0xfffffa;  // wraps soon
  static constexpr std::uint32_t kPeerQpn = 0x123456;
  static constexpr Mac kMac = {0x52, 0x54, 0, 0x77, 0, 1};
  static constexpr Mac kPeerMac = {0x52, 0x54, 0, 0x77, 0, 2};
  static constexpr Mac kClaimedMac = {0x52, 0x54, 0, 0x77, 0, 3};  // of raw QPs
  static constexpr std::uint16_t kVlan = 77;

  explicit World(FuzzHost& host) : host(host) {}

  // plug() makes an enabled device with its port up and without objects. build() calls it and adds
  // the objects of `scene`.
  void plug(bool capture);
  void build(const Scene& scene);

  // Executes an admin command. Returns nullopt if the device is not enabled any more.
  std::optional<Status> command(std::uint16_t opcode, std::span<const std::byte> in,
                                std::size_t out_len = 0);
  template <class In>
  std::optional<Status> command(std::uint16_t opcode, const In& in, std::size_t out_len = 0) {
    return command(opcode, std::as_bytes(std::span(&in, 1)), out_len);
  }
  std::optional<Status> on(std::uint16_t opcode, std::uint32_t id) {
    return command(opcode, tern_cmd_object{id, 0});
  }
  // The same for an admin queue entry.
  std::optional<Status> perform(const tern_aq_entry& entry);
  // Allows the device exactly the allocated parts of device memory.
  void grant_dm();
  // From now on the allocated parts are unknown: allows all device memory.
  void lose_dm();
  // The number in the reply to the last command.
  [[nodiscard]] std::uint32_t reply() const { return host.get<std::uint32_t>(reply_addr()); }
  [[nodiscard]] static std::uint64_t input_addr() { return FuzzHost::page(page::kArgs); }
  [[nodiscard]] static std::uint64_t reply_addr() { return FuzzHost::page(page::kArgs) + 2048; }

  // Brings a QP from RESET to RTS. Returns false if the device refuses a transition.
  bool connect(FuzzQp& qp, std::uint32_t dest, bool local);
  [[nodiscard]] tern_av av(bool local) const;
  [[nodiscard]] Gid own_gid() const { return gid(1, scene.ipv4); }
  [[nodiscard]] Gid peer_gid() const { return gid(2, scene.ipv4); }
  [[nodiscard]] static Gid gid(std::uint8_t last, bool ipv4);

  void doorbell(std::uint32_t through, std::uint32_t cmd, std::uint32_t number) {
    device->doorbell(std::uint64_t{through} << 12, cmd << 28 | (number & 0xffffff));
  }

  // Runs the device until it is idle; a violation if that never happens.
  void settle();
  // The input has written TERN_REG_AQ_TAIL, and the device has followed.
  void follow_tail(std::uint32_t tail) { aq_tail_ = tail; }
  // Advances time to the next timer and settles. Returns false if no timer is armed.
  bool next_timer();
  // Checks the effects and discards them.
  void collect();
  [[nodiscard]] bool enabled() const;
  // Checks the invariants that hold between calls.
  void check();
  // Destroys the objects of build() and compares the object counts with those before it, or resets
  // the device.
  void tear_down(bool reset);
  [[nodiscard]] std::optional<tern_rsp_objects> objects();

  FuzzHost& host;
  std::unique_ptr<Device> device;
  Scene scene;
  tern_rsp_caps caps{};

  std::uint32_t uar = 0;
  std::uint32_t pd = 0;
  std::uint32_t pd2 = 0;
  std::uint32_t xrcd = 0;
  std::uint32_t async_eq = 0;
  std::uint32_t eq = 0;
  std::array<std::uint32_t, 3> cqs{};
  std::array<std::uint32_t, 2> srqs{};  // plain or with tags, XRC
  std::uint32_t eth_tx = 0;
  std::uint32_t eth_rx = 0;
  Region rw, ro, other, fast, dm;
  std::vector<DmPart> dm_parts;
  std::vector<Region> windows;  // one of each type, bound to parts of rw if the first QP can bind
  std::vector<FuzzQp> qps;
  std::vector<std::uint32_t> flows;
  // The last frames sent to the wire, for Step::kEcho.
  std::vector<std::vector<std::byte>> sent;
  bool trust_commands = true;  // whether each command must complete
  bool trust_sent = true;      // whether every frame sent must be well-formed RoCE

  [[nodiscard]] bool can(std::uint32_t cap) const { return caps.flags & cap; }

 private:
  void make_queues();
  void make_memory();
  void make_dm();
  void dm_given(std::uint64_t reply, std::size_t len);
  void make_srqs();
  void make_eth();
  void make_qp(unsigned index);
  void make_flows();
  void bind_windows();
  std::uint32_t make(std::uint16_t opcode, std::span<const std::byte> in);
  template <class In>
  std::uint32_t make(std::uint16_t opcode, const In& in) {
    return make(opcode, std::as_bytes(std::span(&in, 1)));
  }
  void look_at(const Effects::Frame& frame);
  void must(std::uint16_t opcode, std::uint32_t id);

  std::uint32_t aq_tail_ = 0;
  bool dm_lost_ = false;
  tern_rsp_objects before_{};
};

}  // namespace tern::fuzz
