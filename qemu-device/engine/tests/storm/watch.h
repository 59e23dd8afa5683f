// SPDX-License-Identifier: GPL-2.0-or-later
// Inspects every packet on the simulated wire, when it is sent and when a device receives it.
// Counts the rules that it meets, and collects what justifies a completion with an error.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "tests/storm/base.h"
#include "tests/storm/rules.h"
#include "wire/codec.h"

namespace tern::storm {

// A packet as seen on the wire.
struct Seen {
  Transport transport;
  Op op;
  const OpTraits* traits;
  unsigned to_node;    // by the Ethernet address
  unsigned from_node;  // by the IP address
  std::uint32_t dest;
  Psn psn;
  bool ack_req;
  std::uint32_t payload;
  std::uint8_t syndrome;   // with AETH
  std::uint64_t original;  // with AtomicAckETH
  std::uint32_t rkey;      // with RETH
  std::uint32_t dma_len;
  std::uint32_t src_qp;  // with DETH
};
// Returns nullopt unless the frame is a packet with a known opcode.
[[nodiscard]] std::optional<Seen> look_at(std::span<const std::byte> frame);

// Packets that a QP may send under its rate limit.
class Pace {
 public:
  // From now on the QP sends up to `kbit` kbit/s; 0: no limit.
  void start(std::uint64_t kbit, Nanos now) { *this = Pace(kbit, now); }
  // A packet that counts has been sent. Returns false if it was too early.
  [[nodiscard]] bool take(std::uint64_t frame, Nanos now);
  [[nodiscard]] bool limited() const { return kbit_ != 0; }

  Pace() = default;

 private:
  Pace(std::uint64_t kbit, Nanos now) : kbit_(kbit), since_(now) {}

  std::uint64_t kbit_ = 0;
  Nanos since_ = 0;
  std::uint64_t bytes_ = 0;  // that have been sent since
};

struct QpView;

// Notified when the response of a FLUSH is sent, before it is on the wire.
class Flushes {
 public:
  virtual ~Flushes() = default;
  virtual void flush_answered(Psn psn) = 0;
};

// Notified when a message that needs a receive WQE has arrived at an unreliable QP. `whole`: all
// its packets arrived in order, and a receive WQE was available.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  virtual void arrived(const QpView& at, unsigned from_node, std::uint32_t src_qp, Psn last,
                       bool whole) = 0;
};

// A packet that answers a request.
struct Answer {
  Op op;
  std::uint8_t syndrome;
  Psn psn;
};

// A FLUSH or ATOMIC WRITE, which is answered by an empty READ response.
struct Awaited {
  Op op;
  bool answered = false;
};

// The state of a QP, as far as its packets show it.
struct QpView {
  TestQp* qp = nullptr;
  QpView* peer = nullptr;  // null: UD
  unsigned node = 0;
  std::uint32_t mtu = 0;
  ReceivePool::Kind receives = ReceivePool::Kind::kQueue;
  std::uint32_t good_key = 0;  // the key that its peers may use
  Arrivals* arrivals = nullptr;
  Flushes* flushes = nullptr;  // of the peer's flow
  bool black_hole = false;     // the wire loses everything to and from this QP
  bool keep_answers = false;
  Pace pace;

  // Requester:
  Psn first_psn;
  Psn una;  // PSNs before it have been acknowledged
  Psn window_base;
  Psn end;                                   // one past the highest PSN sent
  std::vector<std::uint8_t> sent;            // how often each PSN was sent, from first_psn on
  std::set<std::uint32_t> reads;             // first PSNs of READs
  std::map<std::uint32_t, Awaited> awaited;  // by PSN
  std::deque<Psn> outstanding;               // last PSN of each request with a response of its own
  std::unordered_map<std::uint32_t, unsigned> rnr_naks;  // received, by PSN
  std::uint8_t fatal_nak = 0;  // syndrome of the first fatal NAK received; 0: none

  // Responder:
  bool nak_owed = false;  // the QP has noted a gap and has not received the expected packet since
  unsigned naks_due = 0;  // NAKs 0x60 that it may send for gaps
  std::optional<Psn> again_read;
  bool again_part = false;
  bool again_send = false;
  bool again_write = false;
  std::optional<Psn> again_atomic;
  std::optional<Psn> again_empty;                  // a FLUSH or ATOMIC WRITE
  std::map<std::uint32_t, std::uint64_t> results;  // of atomics, by PSN
  std::vector<Answer> answers;
  // UC:
  Psn expected;
  bool in_message = false;
  bool lost_step = false;  // after a gap, until a message begins

  // Highest number of transmissions, or of RNR NAKs, among the PSNs [first, first + n).
  [[nodiscard]] unsigned most_sent(Psn first, std::uint32_t n) const;
  [[nodiscard]] unsigned most_rnr(Psn first, std::uint32_t n) const;
};

class WireWatch {
 public:
  WireWatch(Sim& sim, std::vector<TestNode*> nodes, RuleCounts& counts, Findings& findings);
  ~WireWatch();
  WireWatch(const WireWatch&) = delete;
  WireWatch& operator=(const WireWatch&) = delete;

  // Follows the packets of a QP; connect() links it with its peer.
  QpView& add(TestQp& qp);
  static void connect(QpView& a, QpView& b);
  [[nodiscard]] QpView* find(unsigned node, std::uint32_t qpn) const;
  // Adds the devices' counters at the end.
  void finish();
  // Hash of the packets so far: the same in every run of a seed.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Before {
    Counters counters;
    Psn expected;
    std::uint32_t sq_ci = 0;
    std::uint8_t state = 0;
  };

  bool on_sent(unsigned from, std::span<const std::byte> frame);
  void sent_request(QpView& by, const Seen& seen);
  void sent_paced(QpView& by, const Seen& seen, std::size_t frame);
  void sent_answer(QpView& by, const Seen& seen);
  void sent_read_response(QpView& by, const Seen& seen);
  void sent_empty(QpView& by, const Seen& seen, Awaited& awaited);
  void on_delivery(SimNode& to, std::span<const std::byte> frame, bool after);
  [[nodiscard]] Before state_of(SimNode& node, std::uint32_t qpn) const;
  void got_request(QpView& at, const Seen& seen, const Before& now);
  void got_repeated(QpView& at, const Seen& seen);
  void got_executed(QpView& at, const Seen& seen, const Before& now);
  void got_unreliable(QpView& at, const Seen& seen, const Before& now);
  void got_answer(QpView& at, const Seen& seen, const Before& now);
  [[nodiscard]] std::uint64_t moved(const Before& now, unsigned counter) const {
    return now.counters.rdma[counter] - before_.counters.rdma[counter];
  }

  Sim& sim_;
  std::vector<TestNode*> nodes_;
  RuleCounts& counts_;
  Findings& findings_;
  std::vector<std::unordered_map<std::uint32_t, std::unique_ptr<QpView>>> views_;
  std::uint64_t fingerprint_ = 0;
  Before before_;
};

}  // namespace tern::storm
