// SPDX-License-Identifier: GPL-2.0-or-later
// The two ends of a measurement: one asks, the other does its part, in the same thread or on another machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tcp.h"
#include "verbs.h"

namespace guest::bench {

// What the other end does.
enum class Part : std::uint32_t {
  kNothing,    // its device does it all
  kWriteBack,  // writes each number that comes back
  kSendBack,   // answers each message
  kTake,       // takes messages
  kEnd,        // no measurement follows
};

struct Job {
  Part part = Part::kNothing;
  std::uint32_t size = 8;     // bytes of a message
  std::uint32_t buffers = 1;  // messages at once, each with memory of its own
};

// Goes over the wire as it stands: both ends run the same program.
struct Address {
  Endpoint endpoint;
  std::uint64_t memory = 0;
  std::uint32_t rkey = 0;
  ibv_mtu mtu = IBV_MTU_256;
};

// A QP, a CQ and a ring of buffers.
class End {
 public:
  End(const Device& dev, const Job& job);

  [[nodiscard]] Address address() const;
  // Throws Failure when a transition is refused.
  void connect(const Address& remote);

  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] const Address& remote() const { return remote_; }

  void post_recv(std::uint32_t buffer) const;
  // A request for this buffer and the same one there.
  [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, std::uint32_t buffer, ibv_sge& sge) const;
  void post(ibv_send_wr& wr) const;
  // Completions, all good ones, or a Failure.
  int poll(ibv_wc* wcs, int num) const;

  // The other end's part of the work, as far as there is some.
  void step();

  static constexpr std::uint32_t kNumberAt = 0;  // where a number comes in,
  static constexpr std::uint32_t kOwnAt = 64;    // and where one that goes out is made

 private:
  void write_back();
  void send_back();
  void take();

  const Device& dev_;
  Job job_;
  Memory memory_;
  CqPtr cq_;
  QpPtr qp_;
  std::uint32_t psn_ = 0x1234;
  Address remote_;
  std::uint64_t seen_ = 0;
};

// Who is at the other end.
class Peer {
 public:
  virtual ~Peer() = default;
  // Makes the other end and connects it with this one.
  virtual void begin(End& end) = 0;
  // To be called while waiting.
  virtual void step() {}
  virtual void finish() = 0;
};

std::unique_ptr<Peer> local_peer(const Device& dev);
std::unique_ptr<Peer> remote_peer(const std::string& host, const std::string& port);
// Serves one client until it goes.
void serve(const Device& dev, const std::string& port);

}  // namespace guest::bench
