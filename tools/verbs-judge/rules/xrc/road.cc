// SPDX-License-Identifier: GPL-2.0-or-later
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "xrc.h"

namespace guest::xrc {

File::File() {
  char name[] = "/tmp/xrcd-XXXXXX";
  fd_ = ::mkostemp(name, O_CLOEXEC);
  if (fd_ < 0) fail_errno("mkostemp");
  ::unlink(name);
}

File::~File() { ::close(fd_); }

XrcdPtr try_open(ibv_context* context, int fd, int flags) {
  need_xrc(context);
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = fd;
  attr.oflags = flags;
  return XrcdPtr(ibv_open_xrcd(context, &attr));
}

XrcdPtr open(const Device& dev, int fd) {
  XrcdPtr xrcd = try_open(dev.context(), fd, O_CREAT);
  if (!xrcd) fail_errno("ibv_open_xrcd");
  return xrcd;
}

Place::Place(const Device& dev, ibv_xrcd* xrcd)
    : pd_(alloc_pd(dev)), cq_(create_cq(dev, 16)), memory_(pd_.get(), 4096, kAllAccess) {
  ibv_srq_init_attr_ex attr{};
  attr.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = pd_.get();
  attr.xrcd = xrcd;
  attr.cq = cq_.get();
  srq_.reset(ibv_create_srq_ex(dev.context(), &attr));
  if (!srq_) fail_errno("ibv_create_srq_ex");
  require_err(ibv_get_srq_num(srq(), &number_), 0, "ibv_get_srq_num");
}

void Place::recv(std::uint64_t wr_id) const {
  require_err(post_srq_recv(srq(), wr_id, memory_.sge(0, 64)), 0, "ibv_post_srq_recv");
}

ibv_wc Place::received(std::uint64_t wr_id) const {
  const ibv_wc wc = poll(cq(), 1).front();
  require_status(wc, wr_id, IBV_WC_SUCCESS);
  return wc;
}

Road::Road(const Device& dev, ibv_xrcd* xrcd)
    : cq_(create_cq(dev, 16)), memory_(dev.pd(), 4096, kAllAccess) {
  sender_ = create_qp(dev, {.type = IBV_QPT_XRC_SEND,
                            .send_cq = cq_.get(),
                            .cap = capacity(8, 0),
                            .send_ops = kRcSendOps});
  target_ = create_qp(dev, {.type = IBV_QPT_XRC_RECV, .xrcd = xrcd});
  const Endpoint here{.qpn = sender()->qp_num, .psn = 10, .gid = dev.gid()};
  const Endpoint there{.qpn = target()->qp_num, .psn = 20, .gid = dev.gid()};
  const Connection how{.mtu = dev.active_mtu()};
  connect(target(), dev, how, there, here);
  connect(sender(), dev, how, here, there);
}

Send Road::message(std::uint32_t srqn) const {
  return {.sges = {memory_.sge(0, 8)}, .wr_id = 5, .srqn = srqn};
}

ibv_wc_status Road::run(const Send& send) const {
  require_err(post(sender(), Api::kPost, send), 0, "ibv_post_send");
  return poll(cq_.get(), 1).front().status;
}

void Road::arrives(const Place& place, std::uint64_t wr_id) const {
  place.recv(wr_id);
  const ibv_wc_status status = run(message(place.number()));
  require(status == IBV_WC_SUCCESS, "a send to an SRQ: {}", ibv_wc_status_str(status));
  const ibv_wc wc = place.received(wr_id);
  require(wc.byte_len == 8, "byte_len {}", wc.byte_len);
}

}  // namespace guest::xrc
