// SPDX-License-Identifier: GPL-2.0-or-later
// One end of a connection: a QP of any type with memory of both kinds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "space.h"

namespace guest {

// What the UD payload of a receive has in front of it.
constexpr std::uint32_t kGrh = 40;

struct EndSpec {
  ibv_qp_type type = IBV_QPT_RC;  // of the end that asks
  bool answers = false;           // the end that is asked: for XRC another type of QP
  bool srq = false;               // receives come from an SRQ; with XRC always
  std::uint64_t length = 64 * 1024;
  int access = kAllAccess;  // of the regions
  Part part{};              // of the device memory
};

// A piece of the memory of an end.
struct Piece {
  Kind kind = Kind::kHost;
  std::uint32_t length = 0;
  std::uint64_t offset = 0;
};
using Pieces = std::span<const Piece>;

// What the other end must know.
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
  // Waits until the memory is this, if the type has no completion that says so.
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
