// SPDX-License-Identifier: GPL-2.0-or-later
// What an input can do to a world: one step for each group of its bytes. A target is a table of
// steps. The step numbers are the format of the corpora: only add new ones at the end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "input.h"
#include "transport/tag_headers.h"
#include "wire/packet.h"
#include "world.h"

namespace tern::fuzz {

enum class Step : std::uint8_t {
  kFrame,     // a valid packet with any field changed
  kRawFrame,  // bytes of the input, with or without a correct ICRC
  kEcho,      // a frame that the device sent, changed and sent back
  kPostRecv,  // valid receive WQEs
  kPostSend,  // a valid send WQE
  kRun,       // one run() with a small budget
  kTimer,     // advances time to the next timer
  kHole,      // takes a page away, or restores all
  kState,     // MODIFY_QP: SQD, RTS, ERR, or RESET and reconnect
  kLink,      // link down or up
  kPoll,      // software consumes completions and events
  kArm,       // arms a CQ
  kWqe,       // a send WQE with every field from the input
  kRawWqe,    // bytes of the input in a send or receive slot
  kRecvWqe,   // a receive WQE with every field from the input
  kRecord,    // a word of a doorbell record
  kScribble,  // bytes of the input anywhere in the queues
  kDoorbell,  // any doorbell through any page
  kEth,       // Ethernet descriptors and their indices
  kMemory,    // limits on the size of mappings
  kFaults,    // replaces the fault rules; selected by a byte >= 0xf8, not by a table
  kNum
};

class Play {
 public:
  Play(World& world, Input& in) : w_(world), in_(in) {}

  void step(Step what);

 private:
  FuzzQp& qp() { return w_.qps[in_.pick(static_cast<unsigned>(w_.qps.size()))]; }
  // Return mostly valid keys and addresses.
  std::uint32_t key();
  std::uint64_t address(std::uint32_t key);
  std::uint32_t length(std::uint32_t most);

  void frame();
  void fill(Packet& p, const FuzzQp& to);
  TagHeaders tag_headers(std::uint8_t how);
  std::uint32_t add_tag(Packet& p);
  void raw_frame();
  void echo();
  void inject(std::vector<std::byte>& frame, std::uint8_t damage);
  void post_recv();
  void post_tags();
  void put_recv(FuzzQp& qp, std::span<const std::byte> slot);
  void post_send();
  std::uint32_t raw_frame_of(std::uint8_t flags, std::vector<std::byte>& segment);
  void put_send(FuzzQp& qp, std::span<const std::byte> slot, bool ring);
  void state();
  void rate(const FuzzQp& qp);
  void poll();
  void arm();
  void wqe();
  void raw_wqe();
  void recv_wqe();
  void record();
  void scribble();
  void doorbell();
  void eth();
  void hole();
  // A run() with a budget of 1 << bits; small budgets also start polling a QP.
  void run(unsigned bits);
  std::string rule();
  void faults();

  World& w_;
  Input& in_;
  TagHeaders headers_{};  // of the message in a frame
};

// Reads the scene from the first bytes of an input.
[[nodiscard]] Scene read_scene(Input& in, const tern_rsp_caps& caps);

// Runs an input: builds the world, performs steps of `table`, checks, tears down. Returns the
// result for libFuzzer.
int run_scene(std::span<const std::uint8_t> bytes, std::span<const Step> table);

// Corrects IPv4 checksum and ICRC of a RoCE frame that is long enough to have them.
void fix_icrc(std::span<std::byte> frame);

}  // namespace tern::fuzz
