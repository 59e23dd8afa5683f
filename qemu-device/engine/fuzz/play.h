// SPDX-License-Identifier: GPL-2.0-or-later
// What an input can do to a world: one step for each group of its bytes. A target is a choice of
// steps; the numbers of the steps are the format of the corpora, so they only ever grow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "input.h"
#include "wire/packet.h"
#include "world.h"

namespace tern::fuzz {

enum class Step : std::uint8_t {
  kFrame,       // a well-formed packet with any field changed
  kRawFrame,    // bytes of the input, ICRC made right or not
  kEcho,        // a frame that the device sent, changed, sent back
  kPostRecv,    // good receive WQEs
  kPostSend,    // a good send WQE
  kRun,         // one turn with a small budget
  kTimer,       // time until the next timer
  kHole,        // takes a page away, or gives it back
  kState,       // MODIFY_QP: SQD, RTS, ERR, or RESET and up again
  kLink,        // link down or up
  kPoll,        // software consumes completions and events
  kArm,         // arms a CQ
  kWqe,         // a send WQE whose every field the input chooses
  kRawWqe,      // bytes of the input in a send or receive slot
  kRecvWqe,     // a receive WQE whose every field the input chooses
  kRecord,      // a word of a doorbell record
  kScribble,    // bytes of the input anywhere in the queues
  kDoorbell,    // any doorbell through any page
  kEth,         // Ethernet descriptors and their indices
  kMemory,      // limits of mappings
  kFaults,      // fault rules, or none; by a byte of 0xf8 or more, in no table
  kNum
};

class Play {
 public:
  Play(World& world, Input& in) : w_(world), in_(in) {}

  void step(Step what);

 private:
  FuzzQp& qp() { return w_.qps[in_.pick(static_cast<unsigned>(w_.qps.size()))]; }
  // Keys and addresses, good ones more often than others.
  std::uint32_t key();
  std::uint64_t address(std::uint32_t key);
  std::uint32_t length(std::uint32_t most);

  void frame();
  void fill(Packet& p, const FuzzQp& to);
  void raw_frame();
  void echo();
  void inject(std::vector<std::byte>& frame, std::uint8_t damage);
  void post_recv();
  void put_recv(FuzzQp& qp, std::span<const std::byte> slot);
  void post_send();
  void put_send(FuzzQp& qp, std::span<const std::byte> slot, bool ring);
  void state();
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
  // A turn of 1 << bits; some of them begin to poll a QP.
  void run(unsigned bits);
  std::string rule();
  void faults();

  World& w_;
  Input& in_;
};

// The scene that the first bytes of an input choose.
[[nodiscard]] Scene read_scene(Input& in, const tern_rsp_caps& caps);

// The whole of an input: builds, plays with the steps of `table`, checks, tears down.
int run_scene(std::span<const std::uint8_t> bytes, std::span<const Step> table);

// The ICRC of a RoCE frame, made right where there is room for it.
void fix_icrc(std::span<std::byte> frame);

}  // namespace tern::fuzz
