// SPDX-License-Identifier: GPL-2.0-or-later
#include "ends.h"

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

}  // namespace

Ends::Ends(const Device& dev, const Type& type, const EndsOptions& options)
    : dev_(dev),
      type_(type),
      channel_(create_channel(dev)),
      send_cq_(create_cq(dev, 64)),
      recv_cq_(create_cq(dev, 64, channel_.get())),
      here_(dev.pd(), kMemory, options.access | IBV_ACCESS_MW_BIND),
      there_(dev.pd(), kMemory, options.access | IBV_ACCESS_MW_BIND),
      qp_access_(options.access & ~IBV_ACCESS_LOCAL_WRITE) {
  QpSpec spec{.type = type.type,
              .send_cq = send_cq_.get(),
              .recv_cq = recv_cq_.get(),
              .cap = options.cap,
              .send_ops = type.send_ops | options.more_ops};
  if (type.type == IBV_QPT_XRC_SEND) {
    xrc_ = open_xrc(dev, dev.pd(), recv_cq_.get());
    QpSpec target{.type = IBV_QPT_XRC_RECV, .xrcd = xrc_.xrcd.get()};
    peer_ = create_qp(dev, target);
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

void Ends::bring_to(ibv_qp_state state) const {
  const Connection how{.mtu = dev_.active_mtu(), .qp_access = qp_access_};
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
  if (!xrc_.srq) {
    return post_recv(peer_.get(), wr_id, sges);
  }
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = const_cast<ibv_sge*>(sges.data());
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  const int err = ibv_post_srq_recv(xrc_.srq.get(), &wr, &bad);
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
  s.srqn = xrc_.srqn;
  return s;
}

Send Ends::bind(ibv_mw* mw, const Memory& to, std::uint8_t variant, std::uint64_t wr_id,
                std::uint32_t length, std::uint64_t at) const {
  Send s{.opcode = IBV_WR_BIND_MW, .wr_id = wr_id};
  s.mw = mw;
  s.bind = {.mr = to.mr(),
            .addr = to.address(at),
            .length = length,
            .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  s.bind_rkey = (mw->rkey & ~0xffU) | variant;
  return s;
}

void Ends::post(const Send& send, Api api) const {
  require_err(guest::post(qp_.get(), api, send), 0, api_name(api));
}

void Ends::peer_post(const Send& send, Api api) const {
  require_err(guest::post(peer_.get(), api, send), 0, api_name(api));
}

ibv_wc Ends::peer_sent(std::uint64_t wr_id, ibv_wc_status status) const {
  const ibv_wc wc = poll(send_cq(), 1).front();
  require_status(wc, wr_id, status);
  require(wc.qp_num == peer_->qp_num, "completion of QP {:#x}", wc.qp_num);
  return wc;
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

void Ends::check(const Memory& memory, std::uint64_t at, std::uint32_t length,
                 std::uint64_t seed) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::optional<std::size_t> wrong;
  while ((wrong = mismatch(memory.bytes().subspan(at, length), seed)) &&
         std::chrono::steady_clock::now() < end && !is_reliable(type_)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  require(!wrong, "{} bytes at {} {}: wrong from byte {} on", length, at,
          &memory == &here_ ? "here" : "there", wrong.value_or(0));
}

void Ends::check_there(std::uint64_t at, std::uint32_t length, std::uint64_t seed) const {
  check(there_, at, length, seed);
}

}  // namespace guest
