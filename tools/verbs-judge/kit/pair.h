// SPDX-License-Identifier: GPL-2.0-or-later
// A connected pair, whose other end may be on another machine, and expectations.
#pragma once

#include <memory>
#include <span>

#include "remote.h"

namespace guest {

// What a rule is tested with.
struct Env {
  const Device& dev;
  Link& link;
  // Scales what is repeated for coverage, in percent.
  unsigned effort = 100;
  // What the caller knows of the device; 0 or empty: nothing.
  std::string kind{};         // of its windows of type 2: 2a or 2b
  std::uint64_t dm_size = 0;  // of its device memory
  // A shell command that gives the wire the rules of faults in $1.
  std::string faults{};
};

struct PairOptions {
  EndSpec local;
  EndSpec remote{.psn = 0xabcdef};
  Connection how;
  bool connect = true;
};
// Both ends alike, but for what XRC needs.
PairOptions alike(const EndSpec& spec, const Connection& how = {});
// The same with short queues, and memory to which windows can be bound.
PairOptions loop(ibv_qp_type type, std::uint64_t more_ops = 0, int access = kAllAccess);

// Two ends, connected unless the options say otherwise.
class Pair {
 public:
  Pair(const Device& dev, Link& link, const PairOptions& options = {});
  explicit Pair(const Env& env, const PairOptions& options = {})
      : Pair(env.dev, env.link, options) {}
  // Both ends in this process, on one device.
  explicit Pair(const Device& dev, const PairOptions& options = {})
      : Pair(dev, local_link(dev), options) {}

 private:
  Pair(const Device& dev, std::unique_ptr<Link> link, const PairOptions& options);

  std::unique_ptr<Link> own_link_;

 public:
  End local;
  Remote remote;
  Connection how;

  // Takes both ends from RESET to a state, RTS at most.
  void connect(ibv_qp_state until = IBV_QPS_RTS);
  // Builds a request from these ranges here, and from or to this range there.
  [[nodiscard]] Send request(ibv_wr_opcode opcode, Ranges here, const Range& there) const;
  [[nodiscard]] Send request(ibv_wr_opcode opcode, const Range& here, const Range& there) const {
    return request(opcode, {&here, 1}, there);
  }
  // The same for `length` bytes of host memory.
  [[nodiscard]] Send request(ibv_wr_opcode opcode, std::uint32_t length, std::uint64_t local_at = 0,
                             std::uint64_t remote_at = 0, std::uint64_t wr_id = 0) const;
  // Posts the requests and requires success.
  void post(const Send& send, Api api = Api::kPost) const;
  void post(std::span<const Send> sends, Api api = Api::kPost) const;
  // Checks that the next send completion is for wr_id and has this status.
  ibv_wc expect(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;
  // Checks the next receive completion at the other end.
  ibv_wc expect_recv(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;
  // Posts the request and expects its completion.
  ibv_wc run(const Send& send, Api api = Api::kPost, ibv_wc_status status = IBV_WC_SUCCESS) const;
  // The same from the other end, which is in this process.
  void run_back(const Send& send, Api api = Api::kPost,
                ibv_wc_status status = IBV_WC_SUCCESS) const;
  // Posts a receive at the other end, for payload of this length.
  void recv(std::uint64_t wr_id, std::uint64_t at, std::uint32_t length) const;
  // Checks that the connection works: sends a message and verifies it.
  void expect_traffic() const;
  void fill(const Range& range, std::uint64_t seed) const { local.fill(range, seed); }
  void check(const Range& range, std::uint64_t seed) const { local.check(range, seed); }

 private:
  AhPtr ah_;
};

constexpr bool needs_recv(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
         opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

constexpr bool has_imm(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

}  // namespace guest
