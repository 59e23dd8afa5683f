// SPDX-License-Identifier: GPL-2.0-or-later
#include "ends.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace guest {
namespace {

constexpr std::size_t kMemory = 64UL * 1024;
constexpr std::uint32_t kPsnHere = 0x123456;
constexpr std::uint32_t kPsnThere = 0xabcdef;

ChannelPtr create_channel(const Device& dev) {
  ChannelPtr channel(ibv_create_comp_channel(dev.context()));
  if (!channel) {
    fail_errno("ibv_create_comp_channel");
  }
  return channel;
}

QpPtr create_qp(const Device& dev, QpSpec& spec) {
  QpPtr qp = try_create_qp(dev, spec);
  if (!qp) {
    fail_errno("ibv_create_qp_ex");
  }
  return qp;
}

AhPtr create_ah(const Device& dev) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = dev.gid();
  attr.grh.sgid_index = dev.gid_index();
  attr.grh.hop_limit = 64;
  AhPtr ah(ibv_create_ah(dev.pd(), &attr));
  if (!ah) {
    fail_errno("ibv_create_ah");
  }
  return ah;
}

void require_status(const ibv_wc& wc, std::uint64_t wr_id, ibv_wc_status status) {
  require(wc.status == status, "wr_id {:#x}: {}, not {} (vendor error {:#x})", wc.wr_id,
          ibv_wc_status_str(wc.status), ibv_wc_status_str(status), wc.vendor_err);
  require(wc.wr_id == wr_id, "completion of wr_id {:#x}, not {:#x}", wc.wr_id, wr_id);
}

}  // namespace

Ends::Ends(const Device& dev, const Type& type, const EndsOptions& options)
    : dev_(dev),
      type_(type),
      channel_(create_channel(dev)),
      send_cq_(create_cq(dev, 64)),
      recv_cq_(create_cq(dev, 64, channel_.get())),
      here_(dev.pd(), kMemory, kAllAccess),
      there_(dev.pd(), kMemory, kAllAccess) {
  QpSpec spec{.type = type.type,
              .send_cq = send_cq_.get(),
              .recv_cq = recv_cq_.get(),
              .cap = options.cap,
              .send_ops = type.send_ops | options.more_ops};
  if (type.type == IBV_QPT_XRC_SEND) {
    make_xrc_target();
  } else {
    QpSpec peer = spec;
    peer_ = create_qp(dev, peer);
  }
  if (type.type == IBV_QPT_UD) {
    ah_ = create_ah(dev);
  }
  qp_ = create_qp(dev, spec);
  cap_ = spec.cap;
  if (options.connect) {
    bring_to(IBV_QPS_RTS);
  }
}

void Ends::make_xrc_target() {
  ibv_xrcd_init_attr xrcd{};
  xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd.fd = -1;
  xrcd.oflags = O_CREAT;
  xrcd_.reset(ibv_open_xrcd(dev_.context(), &xrcd));
  if (!xrcd_) {
    fail_errno("ibv_open_xrcd");
  }
  ibv_srq_init_attr_ex srq{};
  srq.attr = {.max_wr = 16, .max_sge = 4, .srq_limit = 0};
  srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                  IBV_SRQ_INIT_ATTR_CQ;
  srq.srq_type = IBV_SRQT_XRC;
  srq.pd = dev_.pd();
  srq.xrcd = xrcd_.get();
  srq.cq = recv_cq_.get();
  srq_.reset(ibv_create_srq_ex(dev_.context(), &srq));
  if (!srq_ || ibv_get_srq_num(srq_.get(), &srqn_) != 0) {
    fail_errno("ibv_create_srq_ex");
  }
  QpSpec spec{.type = IBV_QPT_XRC_RECV, .xrcd = xrcd_.get()};
  peer_ = create_qp(dev_, spec);
}

void Ends::bring_to(ibv_qp_state state) const {
  const Connection how{.mtu = dev_.active_mtu()};
  const Endpoint here{.qpn = qp_->qp_num, .psn = kPsnHere, .gid = dev_.gid()};
  const Endpoint there{.qpn = peer_->qp_num, .psn = kPsnThere, .gid = dev_.gid()};
  const auto step = [&](ibv_qp* qp, const Endpoint& self, const Endpoint& other) {
    if (state >= IBV_QPS_INIT) {
      require_err(to_init(qp, how), 0, "to INIT");
    }
    if (state >= IBV_QPS_RTR) {
      require_err(to_rtr(qp, dev_, how, other), 0, "to RTR");
    }
    if (state >= IBV_QPS_RTS) {
      require_err(to_rts(qp, how, self.psn), 0, "to RTS");
    }
  };
  step(peer_.get(), there, here);
  step(qp_.get(), here, there);
}

int Ends::try_recv(std::uint64_t wr_id, std::span<const ibv_sge> sges) const {
  if (!srq_) {
    return post_recv(peer_.get(), wr_id, sges);
  }
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = const_cast<ibv_sge*>(sges.data());
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  const int err = ibv_post_srq_recv(srq_.get(), &wr, &bad);
  require(err == 0 || bad == &wr, "ibv_post_srq_recv: bad_wr is another");
  return err;
}

void Ends::recv(std::uint64_t wr_id, std::uint64_t at, std::uint32_t length) const {
  const ibv_sge sge = there_.sge(at, length + header());
  require_err(try_recv(wr_id, std::span(&sge, 1)), 0, "post of a receive");
}

Send Ends::request(ibv_wr_opcode opcode, std::uint64_t wr_id, std::uint32_t length,
                   std::uint64_t at, std::uint64_t remote_at) const {
  Send s{.opcode = opcode, .wr_id = wr_id};
  s.sges = {here_.sge(at, length)};
  s.raddr = there_.address(remote_at);
  s.rkey = there_.rkey();
  s.ah = ah_.get();
  s.remote_qpn = peer_->qp_num;
  s.remote_qkey = kQkey;
  s.srqn = srqn_;
  return s;
}

void Ends::post(const Send& send, Api api) const {
  require_err(guest::post(qp_.get(), api, send), 0, api_name(api));
}

ibv_wc Ends::sent(std::uint64_t wr_id, ibv_wc_status status) const {
  const ibv_wc wc = poll(send_cq(), 1).front();
  require_status(wc, wr_id, status);
  require(wc.qp_num == qp_->qp_num, "completion of QP {:#x}", wc.qp_num);
  return wc;
}

ibv_wc Ends::received(std::uint64_t wr_id, ibv_wc_status status) const {
  const ibv_wc wc = poll(recv_cq(), 1).front();
  require_status(wc, wr_id, status);
  require(wc.qp_num == peer_->qp_num, "receive completion of QP {:#x}", wc.qp_num);
  return wc;
}

void Ends::check_there(std::uint64_t at, std::uint32_t length, std::uint64_t seed) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::optional<std::size_t> wrong;
  while ((wrong = mismatch(there_.bytes().subspan(at, length), seed)) &&
         std::chrono::steady_clock::now() < end && !is_reliable(type_)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  require(!wrong, "{} bytes at {} there: wrong from byte {} on", length, at, wrong.value_or(0));
}

void require_err(int err, int expected, const char* what) {
  require(err == expected, "{}: {}, not {}", what, errno_name(err), errno_name(expected));
}

}  // namespace guest
