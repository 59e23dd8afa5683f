// SPDX-License-Identifier: GPL-2.0-or-later
// The two ends of a measurement: one sends requests, the other does its part, in the same thread or
// on another machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "pair.h"
#include "tcp.h"
#include "verbs.h"

namespace guest::bench {

// The part of the other end.
enum class Part : std::uint32_t {
  kNothing,    // its device does everything
  kWriteBack,  // writes each number that arrives back
  kSendBack,   // answers each message
  kTake,       // receives messages
  kEnd,        // no measurement follows
};

struct Job {
  Part part = Part::kNothing;
  std::uint32_t size = 8;     // bytes per message
  std::uint32_t buffers = 1;  // concurrent messages, each with its own memory
};

// Sent over TCP as a raw structure: both ends run the same program.
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
  // Throws a Failure if a transition is refused.
  void connect(const Address& remote);

  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] ibv_qp* qp() const { return end_.qp(); }
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
  [[nodiscard]] const Memory& memory() const { return end_.memory(); }
  [[nodiscard]] const Address& remote() const { return remote_; }

  void post_recv(std::uint32_t buffer) const;
  // Builds a request from this buffer to the same one at the other end.
  [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, std::uint32_t buffer, ibv_sge& sge) const;
  void post(ibv_send_wr& wr) const;
  // Polls up to num completions. Throws a Failure if one of them is unsuccessful.
  int poll(ibv_wc* wcs, int num) const;

  // Does the other end's part of the work, if there is any to do.
  void step();

  static constexpr std::uint32_t kNumberAt = 0;  // where a number arrives
  static constexpr std::uint32_t kOwnAt = 64;    // where a number to be sent is stored

 private:
  void write_back();
  void send_back();
  void take();

  Job job_;
  CqPtr cq_;
  guest::End end_;
  Address remote_;
  std::uint64_t seen_ = 0;
};

// The other end.
class Peer {
 public:
  virtual ~Peer() = default;
  // Creates the other end and connects it to `end`.
  virtual void begin(End& end) = 0;
  // Must be called while waiting.
  virtual void step() {}
  virtual void finish() = 0;
};

std::unique_ptr<Peer> local_peer(const Device& dev);
std::unique_ptr<Peer> remote_peer(const std::string& host, const std::string& port);
// Serves one client until it disconnects.
void serve(const Device& dev, const std::string& port);

}  // namespace guest::bench
