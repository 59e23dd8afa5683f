// SPDX-License-Identifier: GPL-2.0-or-later
#include "dm_end.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace guest {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

std::uint64_t send_ops(ibv_qp_type type) {
  constexpr std::uint64_t kUd = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t kUc =
      kUd | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  return type == IBV_QPT_UD ? kUd : type == IBV_QPT_UC ? kUc : kRcSendOps;
}

}  // namespace

End::End(const Device& dev, const EndSpec& spec)
    : dev_(dev),
      spec_(spec),
      send_cq_(create_cq(dev, 64)),
      recv_cq_(create_cq(dev, 64)),
      host_(dev, Kind::kHost, spec.length, spec.access),
      device_(dev, Kind::kDevice, spec.length, spec.access, spec.part) {
  const bool target = spec.type == IBV_QPT_XRC_SEND && spec.answers;
  if (target || spec.srq) {
    make_srq();
  }
  QpSpec make{.type = target ? IBV_QPT_XRC_RECV : spec.type,
              .send_cq = send_cq_.get(),
              .recv_cq = recv_cq_.get(),
              .srq = target ? nullptr : srq_.get(),
              .xrcd = xrcd_.get(),
              .cap = {.max_send_wr = 16,
                      .max_recv_wr = 16,
                      .max_send_sge = 4,
                      .max_recv_sge = 4,
                      .max_inline_data = 64},
              .send_ops = send_ops(spec.type)};
  qp_ = try_create_qp(dev, make);
  if (!qp_) {
    fail_errno("ibv_create_qp_ex");
  }
  cap_ = make.cap;
}

void End::make_srq() {
  ibv_srq_init_attr_ex attr{};
  attr.attr = {.max_wr = 16, .max_sge = 4, .srq_limit = 0};
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  attr.srq_type = IBV_SRQT_BASIC;
  attr.pd = dev_.pd();
  if (spec_.type == IBV_QPT_XRC_SEND) {
    ibv_xrcd_init_attr xrcd{};
    xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    xrcd.fd = -1;
    xrcd.oflags = O_CREAT;
    xrcd_.reset(ibv_open_xrcd(dev_.context(), &xrcd));
    if (!xrcd_) {
      fail_errno("ibv_open_xrcd");
    }
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.xrcd = xrcd_.get();
    attr.cq = recv_cq_.get();
  }
  srq_.reset(ibv_create_srq_ex(dev_.context(), &attr));
  if (!srq_) {
    fail_errno("ibv_create_srq_ex");
  }
  if (xrcd_ && ibv_get_srq_num(srq_.get(), &srqn_) != 0) {
    fail_errno("ibv_get_srq_num");
  }
}

Address End::address() const {
  return {.endpoint = {.qpn = qp_->qp_num, .psn = 0x654321, .gid = dev_.gid()},
          .srqn = srqn_,
          .base = {host_.address(), device_.address()},
          .rkey = {host_.rkey(), device_.rkey()}};
}

void End::connect(const Endpoint& other) {
  Connection how{.mtu = dev_.active_mtu()};
  guest::connect(qp_.get(), dev_, how, address().endpoint, other);
}

std::vector<ibv_sge> End::sges(Pieces pieces) const {
  std::vector<ibv_sge> list;
  for (const Piece& p : pieces) {
    list.push_back(space(p.kind).sge(p.offset, p.length));
  }
  return list;
}

void End::recv(std::uint64_t wr_id, Pieces pieces) const {
  std::vector<ibv_sge> list = sges(pieces);
  int err = 0;
  if (srq_) {
    ibv_recv_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = list.data();
    wr.num_sge = static_cast<int>(list.size());
    ibv_recv_wr* bad = nullptr;
    err = ibv_post_srq_recv(srq_.get(), &wr, &bad);
  } else {
    err = post_recv(qp_.get(), wr_id, list);
  }
  require(err == 0, "post of a receive: {}", errno_name(err));
}

void End::check(Kind kind, std::uint64_t background, Patches patches) const {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!is_reliable(spec_.type) && space(kind).differs(background, patches) &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  space(kind).check(background, patches);
}

}  // namespace guest
