// SPDX-License-Identifier: GPL-2.0-or-later
// A storm: three devices on a wire that loses, duplicates, delays and damages frames, flows of
// every transport and operation between them, and forged frames. Everything follows from one seed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/storm/changes.h"
#include "tests/storm/datagrams.h"
#include "tests/storm/flow.h"
#include "tests/storm/hostile.h"
#include "tests/storm/tags.h"

namespace tern::storm {

// Faults planted behind the engine's back, which the oracle must find.
enum class Plant : std::uint8_t {
  kNone,
  kLose,         // drops a receive completion
  kDouble,       // delivers a receive completion twice
  kReorder,      // swaps two receive completions of a flow
  kCorrupt,      // flips a bit of a received message
  kCorruptRead,  // flips a bit of READ data
  kOutside,      // changes a byte next to a receive buffer
  kGhost,        // stores the data of a WRITE again after it is done
  kAtomicTwice,  // changes the word again after an atomic
  kStatus,       // changes the status of a failed request
  kFlushOrder,   // swaps the completions of two flushed requests
  kStall,        // drops all further send completions of a QP
  kForgedAck,    // the wire drops a SEND and acknowledges it
  kUcDouble,     // delivers a UC receive completion twice
  kUcLose,
  kNakTwice,     // the wire repeats a NAK as if it had been sent twice
  kFlushAnswer,  // data covered by a FLUSH is missing when its response is sent
  kFlushDone,    // data covered by a FLUSH is missing when it completes
  kFlushAcked,   // an ACK replaces the response
  kFlushBytes,   // the response has payload
  kWordLost,     // an ATOMIC WRITE completes with the word unchanged
  kWordTwice,    // an ATOMIC WRITE is executed again after a later one
  kForgedWord,   // the wire drops an ATOMIC WRITE and answers it
  kTagLost,      // the last CQE of a tag is lost
  kTagTwice,     // it comes twice
  kTagCorrupt,   // flips a bit of a message that matched a tag
  kTagOutside,   // changes a byte next to the buffer of a tag
  kTagEarly,     // a CQE says that no tag waits any more
  kTagOther,     // a message seems to have matched another tag of the list
  kNum
};
[[nodiscard]] const char* plant_name(Plant plant);
// The first finding must be of one of these claims.
[[nodiscard]] std::vector<Claim> plant_claims(Plant plant);

struct StormOptions {
  std::uint64_t seed = 1;
  std::uint64_t packets = 100'000;  // to send before winding up
  Plant plant = Plant::kNone;
  bool trace = false;  // compute StormResult::trace
  bool unfinished_frames = false;
  bool share_payload = false;
  unsigned saves = 0;  // saves and loads a device once in so many rounds; 0: never
};

struct StormResult {
  Findings findings;
  RuleCounts counts;
  Sim::Stats wire;
  std::uint64_t messages = 0;  // number of messages delivered
  std::uint64_t saves = 0;     // of devices
  std::uint64_t unrung = 0;    // requests posted without a doorbell
  std::uint64_t fingerprint = 0;
  // Hash of every sent and delivered frame, interrupt and device store (CQEs, EQEs, payload), with
  // times.
  std::uint64_t trace = 0;
  Nanos simulated = 0;
  std::string rates;  // of the wire, as text
};

[[nodiscard]] StormResult run_storm(const StormOptions& options);

class World {
 public:
  explicit World(const StormOptions& options, StormResult& result);
  void run();

 private:
  // A QP's completions belong to the flow it sends for and to the flow it receives for.
  struct Duties {
    Flow* sends = nullptr;
    Flow* receives = nullptr;
    ReliableFlow* registers = nullptr;  // flow for which the QP posts REG_MR
    ReliableFlow* reliable = nullptr;   // sends, if it is a ReliableFlow
    ReceivePool* pool = nullptr;
    ConnectedFlow* connected = nullptr;  // sends, if it is a ConnectedFlow
  };
  struct Node {
    std::unique_ptr<TestNode> node;
    TestCq* send_cq;
    TestCq* recv_cq;
    std::uint32_t pd;  // a privileged PD
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
  void add_tags(Node& to);

  void tick();
  void post_receives();
  void poll();
  void dispatch(Node& node, const Wc& wc);
  void dispatch_one(Node& node, const Wc& wc);
  [[nodiscard]] bool planted(Node& node, const Wc& wc);
  [[nodiscard]] bool plant_receive(Node& node, const Duties& duties, const Wc& wc);
  [[nodiscard]] bool plant_send(Node& node, const Duties& duties, const Wc& wc);
  [[nodiscard]] unsigned plant_tag(TagFlow& tags, Wc& wc);
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
  Random saving_;  // of its own: the trace is the same without
  Sim sim_;
  Context context_;
  std::deque<Node> nodes_;
  std::unique_ptr<WireWatch> watch_;
  std::deque<ReceivePool> pools_;
  ReceivePool* inside_ = nullptr;  // of the flow in one device: never empty
  std::vector<std::unique_ptr<Flow>> flows_;
  std::vector<ReliableFlow*> reliable_;
  std::vector<TagFlow*> tags_;
  std::unique_ptr<Changes> changes_;
  std::unique_ptr<Datagrams> datagrams_;
  std::unique_ptr<Hostile> hostile_;
  decltype(Sim::pass) honest_;           // the wire's behaviour without a plant
  std::optional<Wc> held_;               // completion held back by a plant that swaps two
  const ReliableFlow* wrote_ = nullptr;  // kWordTwice: flow and value of the WRITE
  std::uint64_t written_ = 0;
  std::uint32_t silenced_ = 0;  // QP on node 0 whose send completions a plant drops
  bool planted_ = false;
  std::uint64_t ticks_ = 0;
};

}  // namespace tern::storm
