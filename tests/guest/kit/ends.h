// SPDX-License-Identifier: GPL-2.0-or-later
// Two QPs of any type in one process that send to each other, and checks on them.
#pragma once

#include <array>
#include <string>

#include "verbs.h"

namespace guest {

struct Type {
  ibv_qp_type type;
  const char* name;
  std::uint64_t send_ops;
};

constexpr std::uint64_t kUdSendOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kUcSendOps =
    kUdSendOps | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;

// The columns of the page's table, except raw packets.
constexpr std::array<Type, 4> kTypes{{{IBV_QPT_UD, "UD", kUdSendOps},
                                      {IBV_QPT_UC, "UC", kUcSendOps},
                                      {IBV_QPT_RC, "RC", kRcSendOps},
                                      {IBV_QPT_XRC_SEND, "XRC_SEND", kRcSendOps}}};

// Operations on memory windows.
constexpr std::uint64_t kWindowOps =
    IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;

constexpr bool is_reliable(const Type& t) {
  return t.type == IBV_QPT_RC || t.type == IBV_QPT_XRC_SEND;
}

struct EndsOptions {
  ibv_qp_cap cap{.max_send_wr = 8,
                 .max_recv_wr = 16,
                 .max_send_sge = 4,
                 .max_recv_sge = 4,
                 .max_inline_data = 64};
  bool connect = true;
  std::uint64_t more_ops = 0;  // in addition to those of the type
  int access = kAllAccess;     // of the memory and the QPs
};

// A sender of the given type and its receiver: a QP, or an XRC target with its SRQ.
class Ends {
 public:
  Ends(const Device& dev, const Type& type, const EndsOptions& options = {});

  [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
  [[nodiscard]] ibv_qp* peer() const { return peer_.get(); }
  [[nodiscard]] ibv_cq* send_cq() const { return send_cq_.get(); }
  [[nodiscard]] ibv_cq* recv_cq() const { return recv_cq_.get(); }
  [[nodiscard]] ibv_comp_channel* channel() const { return channel_.get(); }
  [[nodiscard]] const ibv_qp_cap& cap() const { return cap_; }
  [[nodiscard]] const Memory& here() const { return here_; }
  [[nodiscard]] const Memory& there() const { return there_; }
  // Bytes that precede the payload in a receive buffer.
  [[nodiscard]] std::uint32_t header() const { return type_.type == IBV_QPT_UD ? 40 : 0; }

  // Moves both QPs to this state, through RESET, INIT, RTR and RTS as needed.
  void bring_to(ibv_qp_state state) const;
  // Posts a receive into the peer's memory. try_recv() returns an errno.
  [[nodiscard]] int try_recv(std::uint64_t wr_id, std::span<const ibv_sge> sges) const;
  void recv(std::uint64_t wr_id, std::uint64_t at, std::uint32_t length) const;
  // Builds a request of one SGE, addressed to the peer.
  [[nodiscard]] Send request(ibv_wr_opcode opcode, std::uint64_t wr_id, std::uint32_t length,
                             std::uint64_t at = 0, std::uint64_t remote_at = 0) const;
  // Builds a bind of the type 2 window to a piece of memory. `variant` is the low byte of the new
  // key.
  [[nodiscard]] Send bind(ibv_mw* mw, const Memory& to, std::uint8_t variant, std::uint64_t wr_id,
                          std::uint32_t length, std::uint64_t at) const;
  // Posts the request and requires success.
  void post(const Send& send, Api api) const;
  // Return the next completion of the sender, or of the receiver, after checking it.
  ibv_wc sent(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;
  ibv_wc received(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;
  // The same for the peer if it is a QP. Its send completions go to the sender's CQ.
  void peer_post(const Send& send, Api api) const;
  ibv_wc peer_sent(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;
  // Checks that the memory has `length` bytes of the pattern at `at`; waits for them if the QP type
  // has no acknowledgement.
  void check(const Memory& memory, std::uint64_t at, std::uint32_t length,
             std::uint64_t seed) const;
  void check_there(std::uint64_t at, std::uint32_t length, std::uint64_t seed) const;

 private:
  const Device& dev_;
  Type type_;
  ChannelPtr channel_;
  CqPtr send_cq_;
  CqPtr recv_cq_;
  Memory here_;
  Memory there_;
  int qp_access_;
  XrcShare xrc_;
  AhPtr ah_;
  ibv_qp_cap cap_{};
  QpPtr peer_;
  QpPtr qp_;
};

}  // namespace guest
