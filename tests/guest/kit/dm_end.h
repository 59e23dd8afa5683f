// SPDX-License-Identifier: GPL-2.0-or-later
// One end of a connection: a QP of any type with host and device memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "dm_space.h"

namespace guest {

// Bytes that precede the payload in a UD receive buffer.
constexpr std::uint32_t kGrh = 40;

struct EndSpec {
  ibv_qp_type type = IBV_QPT_RC;  // QP type of the requester
  bool answers = false;           // this end is the responder: with XRC, an XRC_RECV QP
  bool srq = false;               // receives come from an SRQ; always so with XRC
  std::uint64_t length = 64 * 1024;
  int access = kAllAccess;  // access rights of the regions
  Part part{};              // part of the device memory that the region covers
};

// A range of an end's memory.
struct Piece {
  Kind kind = Kind::kHost;
  std::uint32_t length = 0;
  std::uint64_t offset = 0;
};
using Pieces = std::span<const Piece>;

// The attributes that the other end needs.
struct Address {
  Endpoint endpoint;
  std::uint32_t srqn = 0;
  std::array<std::uint64_t, 2> base{};
  std::array<std::uint32_t, 2> rkey{};
};

constexpr bool is_reliable(ibv_qp_type type) {
  return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
}

class End {
 public:
  End(const Device& dev, const EndSpec& spec);

  [[nodiscard]] const EndSpec& spec() const { return spec_; }
  [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
  [[nodiscard]] ibv_cq* send_cq() const { return send_cq_.get(); }
  [[nodiscard]] ibv_cq* recv_cq() const { return recv_cq_.get(); }
  [[nodiscard]] std::uint32_t max_inline() const { return cap_.max_inline_data; }
  [[nodiscard]] const Space& space(Kind kind) const {
    return kind == Kind::kHost ? host_ : device_;
  }
  [[nodiscard]] Address address() const;
  void connect(const Endpoint& other);
  [[nodiscard]] std::vector<ibv_sge> sges(Pieces pieces) const;
  void recv(std::uint64_t wr_id, Pieces pieces) const;
  // Checks the memory; waits for it if the QP type has no completion that proves arrival.
  void check(Kind kind, std::uint64_t background, Patches patches) const;

 private:
  void make_srq();

  const Device& dev_;
  EndSpec spec_;
  CqPtr send_cq_;
  CqPtr recv_cq_;
  Space host_;
  Space device_;
  XrcdPtr xrcd_;
  SrqPtr srq_;
  std::uint32_t srqn_ = 0;
  ibv_qp_cap cap_{};
  QpPtr qp_;
};

}  // namespace guest
