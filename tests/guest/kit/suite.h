// SPDX-License-Identifier: GPL-2.0-or-later
// The tests by subject, and their common parts: a connected pair and expectations.
#pragma once

#include <span>

#include "peer.h"

namespace guest {

struct Env {
  const Device& dev;
  Link& link;
  // Scales what is repeated for coverage, in percent.
  unsigned effort = 100;
};

struct Test {
  const char* name;
  void (*run)(Env& env);
};

std::span<const Test> data_tests();
std::span<const Test> queue_tests();
std::span<const Test> local_error_tests();
std::span<const Test> remote_error_tests();
std::span<const Test> state_tests();
std::span<const Test> event_tests();
std::span<const Test> flush_tests();

struct PairOptions {
  SessionOptions local;
  SessionOptions remote{.psn = 0xabcdef};
  Connection how;
  bool connect = true;
};

// Two ends, connected unless the options say otherwise.
class Pair {
 public:
  explicit Pair(const Env& env, const PairOptions& options = {});

  Session local;
  Remote remote;
  Connection how;

  void connect();
  // Builds a request of `length` bytes, with local memory from local_at and remote memory from
  // remote_at.
  [[nodiscard]] Send request(ibv_wr_opcode opcode, std::uint32_t length, std::uint64_t local_at = 0,
                             std::uint64_t remote_at = 0) const;
  // Posts the requests and requires success.
  void post(const Send& send, Api api = Api::kPost) const;
  void post(std::span<const Send> sends, Api api = Api::kPost) const;
  // Checks that the next send completion is for wr_id and has this status.
  ibv_wc expect(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;
  // Checks the next receive completion at the other end.
  ibv_wc expect_recv(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;
  // Checks that the connection works: sends a message and verifies it.
  void expect_traffic() const;
  void fill(Range range, std::uint64_t seed) const;
  void check(Range range, std::uint64_t seed) const;
};

constexpr bool needs_recv(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
         opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

constexpr bool has_imm(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

}  // namespace guest
