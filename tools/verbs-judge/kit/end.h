// SPDX-License-Identifier: GPL-2.0-or-later
// One end of a connection: a QP of any type, its CQs, and memory of both kinds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "space.h"
#include "verbs.h"

namespace guest {

// Bytes that precede the payload in a UD receive buffer.
constexpr std::uint32_t kGrh = 40;

constexpr std::uint64_t kUdSendOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kUcSendOps =
    kUdSendOps | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
constexpr std::uint64_t kWindowOps =
    IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;

constexpr bool is_reliable(ibv_qp_type type) { return type != IBV_QPT_UC && type != IBV_QPT_UD; }
// The type of the other end's QP.
constexpr ibv_qp_type other_type(ibv_qp_type type) {
  return type == IBV_QPT_XRC_SEND   ? IBV_QPT_XRC_RECV
         : type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND
                                    : type;
}

// The types of a requester, with the operations that each has for ibv_wr_*().
struct Type {
  ibv_qp_type type;
  const char* name;
  std::uint64_t send_ops;
};
constexpr std::array<Type, 4> kTypes{{{IBV_QPT_UD, "UD", kUdSendOps},
                                      {IBV_QPT_UC, "UC", kUcSendOps},
                                      {IBV_QPT_RC, "RC", kRcSendOps},
                                      {IBV_QPT_XRC_SEND, "XRC_SEND", kRcSendOps}}};

// A part of an end's memory.
struct Range {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  Kind kind = Kind::kHost;
};
using Ranges = std::span<const Range>;

// How an end is made. Sent over TCP as a raw structure. A device that can do less gets less: fewer
// SGEs, no inline data, no atomics, no windows.
struct EndSpec {
  ibv_qp_type type = IBV_QPT_RC;
  std::uint32_t memory = 64 * 1024;  // bytes of host memory
  std::uint32_t device_memory = 0;   // bytes of device memory
  int access = kAllAccess;           // of the regions
  Part part{};                       // of the device memory
  std::uint64_t iova = 0;            // of the host memory; 0: its address
  std::uint32_t send_wr = 64;
  std::uint32_t recv_wr = 64;
  std::uint32_t send_sge = 4;
  std::uint32_t recv_sge = 4;
  std::uint32_t inline_data = 64;
  int send_cqe = 256;
  int recv_cqe = 256;
  bool srq = false;  // receives come from an SRQ; always so with XRC_RECV
  bool signal_all = false;
  bool foreign_pd = false;     // the memory belongs to a PD other than the QP's
  std::uint64_t more_ops = 0;  // for ibv_wr_*(), besides those of the type
  std::uint32_t psn = 0x123456;
  // Objects to be used instead of the end's own. Only for an end in this process.
  ibv_pd* pd = nullptr;  // the device's
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_srq* use_srq = nullptr;
};

class End {
 public:
  End(const Device& dev, const EndSpec& spec);

  [[nodiscard]] const Device& device() const { return dev_; }
  [[nodiscard]] const EndSpec& spec() const { return spec_; }
  [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
  [[nodiscard]] ibv_cq* send_cq() const { return spec_.send_cq; }
  [[nodiscard]] ibv_cq* recv_cq() const { return spec_.recv_cq; }
  // The channel of the end's own receive CQ.
  [[nodiscard]] ibv_comp_channel* channel() const { return channel_.get(); }
  [[nodiscard]] const Memory& memory() const { return space(Kind::kHost).memory(); }
  // Throws a Failure if the end has no such memory.
  [[nodiscard]] const Space& space(Kind kind) const;
  [[nodiscard]] const ibv_qp_cap& cap() const { return cap_; }
  // Bytes that precede the payload in a receive buffer.
  [[nodiscard]] std::uint32_t header() const { return spec_.type == IBV_QPT_UD ? kGrh : 0; }
  [[nodiscard]] ibv_srq* srq() const { return spec_.use_srq; }
  [[nodiscard]] Endpoint endpoint() const {
    return {.qpn = qp_->qp_num,
            .psn = spec_.psn,
            .gid = dev_.gid(),
            .srqn = srqn_,
            .lid = dev_.port().lid};
  }
  [[nodiscard]] ibv_sge sge(const Range& range) const;
  [[nodiscard]] std::vector<ibv_sge> sges(Ranges ranges) const;
  [[nodiscard]] std::span<std::byte> bytes(const Range& range) const;

  // Posts a receive. try_recv() returns an errno.
  [[nodiscard]] int try_recv(std::uint64_t wr_id, std::span<const ibv_sge> sges) const;
  void recv(std::uint64_t wr_id, Ranges ranges) const;
  void recv(std::uint64_t wr_id, const Range& range) const { recv(wr_id, {&range, 1}); }
  void fill(const Range& range, std::uint64_t seed) const;
  // These check the bytes. They wait for them if the QP type has no completion that proves arrival.
  void check(const Range& range, std::uint64_t seed) const;
  void check(Kind kind, std::uint64_t background, Patches patches) const;
  void destroy_qp() { qp_.reset(); }

 private:
  void make_srq();
  void make_qp();

  const Device& dev_;
  EndSpec spec_;
  PdPtr foreign_pd_;
  ChannelPtr channel_;
  CqPtr send_cq_;
  CqPtr recv_cq_;
  std::optional<Space> host_;
  std::optional<Space> device_;
  ibv_qp_cap cap_{};
  XrcShare xrc_;
  std::uint32_t srqn_ = 0;
  QpPtr qp_;
};

}  // namespace guest
