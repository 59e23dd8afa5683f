// SPDX-License-Identifier: GPL-2.0-or-later
// A storm: three devices on a wire that loses, doubles, delays and damages frames, flows of every
// transport and operation between them, frames made by hand in between; all of it from one seed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/storm/datagrams.h"
#include "tests/storm/flow.h"
#include "tests/storm/hostile.h"

namespace tern::storm {

// What is made wrong behind the engine's back, to see that it is found.
enum class Plant : std::uint8_t {
  kNone,
  kLose,         // a receive completion is not passed on
  kDouble,       // one is passed on twice
  kReorder,      // two of a flow are passed on in the wrong order
  kCorrupt,      // a bit of what was received is turned over
  kCorruptRead,  // of what was read
  kOutside,      // a byte beside a receive buffer
  kGhost,        // a WRITE's bytes are stored once more when it is long done
  kAtomicTwice,  // an atomic is added once more
  kStatus,       // the status of a failed request is another
  kFlushOrder,   // two flushed requests complete in the wrong order
  kStall,        // a send completion is not passed on
  kForgedAck,    // the wire swallows a SEND and acknowledges it
  kUcDouble,     // a UC completion is passed on twice
  kUcLose,
  kNakTwice,     // the wire repeats a NAK as if it had been sent twice
  kFlushAnswer,  // what a FLUSH names is not there when its response goes out
  kFlushDone,    // it is not there when the FLUSH completes
  kFlushAcked,   // an ACK takes the place of the response
  kFlushBytes,   // the response has bytes
  kWordLost,     // an ATOMIC WRITE is done, and the word is as before
  kWordTwice,    // one is executed again behind a later one
  kForgedWord,   // the wire swallows an ATOMIC WRITE and answers it
  kNum
};
[[nodiscard]] const char* plant_name(Plant plant);
// What must be found then.
[[nodiscard]] std::vector<Claim> plant_claims(Plant plant);

struct StormOptions {
  std::uint64_t seed = 1;
  std::uint64_t packets = 100'000;  // on the wire, before it winds up
  Plant plant = Plant::kNone;
  bool trace = false;  // StormResult::trace
};

struct StormResult {
  Findings findings;
  RuleCounts counts;
  Sim::Stats wire;
  std::uint64_t messages = 0;   // delivered
  std::uint64_t unrung = 0;     // requests that needed no doorbell
  std::uint64_t fingerprint = 0;
  // Hash of every frame sent and delivered, interrupt and device store (CQEs, EQEs, payload) with its time.
  std::uint64_t trace = 0;
  Nanos simulated = 0;
  std::string rates;            // of the wire
};

[[nodiscard]] StormResult run_storm(const StormOptions& options);

class World {
 public:
  explicit World(const StormOptions& options, StormResult& result);
  void run();

 private:
  // Completions of a QP belong to the flow that it sends for and the one that it receives for.
  struct Duties {
    Flow* sends = nullptr;
    Flow* receives = nullptr;
    ReliableFlow* registers = nullptr;  // for whom it does REG_MR
    ReliableFlow* reliable = nullptr;   // of those it sends for
    ReceivePool* pool = nullptr;
    ConnectedFlow* connected = nullptr;  // of those it sends for
  };
  struct Node {
    std::unique_ptr<TestNode> node;
    TestCq* send_cq;
    TestCq* recv_cq;
    std::uint32_t pd;  // privileged
    TestSrq* srq;
    ReceivePool* shared;
    std::uint32_t xrcd;
    TestSrq* xrc_srq;
    ReceivePool* xrc;
    std::unordered_map<std::uint32_t, Duties> duties;
    TestNode& operator*() const { return *node; }
  };

  void set_wire();
  void add_node();
  [[nodiscard]] QpOptions options_for(std::uint8_t type, const Node& node);
  [[nodiscard]] ReceivePool& own_pool(Node& node, TestQp& qp, std::uint32_t max_len);
  void add_reliable(Node& a, Node& b, Fate fate, bool large);
  void add_direction(Node& a, Node& b, TestQp& x, TestQp& y, FlowOptions base);
  void add_xrc(Node& a, Node& b);
  void add_inside(Node& a);
  void add_uc(Node& a, Node& b);
  void add_datagrams();

  void tick();
  void post_receives();
  void poll();
  void dispatch(Node& node, const Wc& wc);
  void dispatch_one(Node& node, const Wc& wc);
  [[nodiscard]] bool planted(Node& node, const Wc& wc);
  [[nodiscard]] bool plant_receive(Node& node, const Duties& duties, const Wc& wc);
  [[nodiscard]] bool plant_send(Node& node, const Duties& duties, const Wc& wc);
  [[nodiscard]] bool plant_word(const ReliableFlow& flow, const Wc& wc);
  void pass_again(Node& node, const Duties& duties, Wc wc);
  void plant_on_the_wire();
  [[nodiscard]] bool plant_frame(const Seen& seen, unsigned from, std::span<const std::byte> frame);
  [[nodiscard]] bool plant_response(const Seen& seen, unsigned from);
  [[nodiscard]] bool is_next(const Seen& seen);
  [[nodiscard]] std::vector<std::byte> answer_to(const Seen& seen, Op op, unsigned bytes = 0);
  [[nodiscard]] bool stalled(bool idle);
  void finish();
  [[nodiscard]] std::uint64_t hash_trace() const;

  StormOptions o_;
  StormResult& result_;
  Random random_;
  Sim sim_;
  Context context_;
  std::deque<Node> nodes_;
  std::unique_ptr<WireWatch> watch_;
  std::deque<ReceivePool> pools_;
  ReceivePool* inside_ = nullptr;  // of the flow inside of a device: never empty
  std::vector<std::unique_ptr<Flow>> flows_;
  std::vector<ReliableFlow*> reliable_;
  std::unique_ptr<Datagrams> datagrams_;
  std::unique_ptr<Hostile> hostile_;
  decltype(Sim::pass) honest_;  // what the wire would do without a plant
  std::optional<Wc> held_;  // of a plant that changes the order
  const ReliableFlow* wrote_ = nullptr;  // of kWordTwice: whose ATOMIC WRITE it is, and of what
  std::uint64_t written_ = 0;
  std::uint32_t silenced_ = 0;  // QP of a plant that loses all completions, on node 0
  bool planted_ = false;
  std::uint64_t ticks_ = 0;
};

}  // namespace tern::storm
