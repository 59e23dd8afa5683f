// SPDX-License-Identifier: GPL-2.0-or-later
#include "pair.h"

#include <algorithm>
#include <utility>

namespace guest {

PairOptions alike(const EndSpec& spec, const Connection& how) {
  PairOptions options{.local = spec, .remote = spec, .how = how};
  options.remote.type = other_type(spec.type);
  options.remote.psn = PairOptions{}.remote.psn;
  return options;
}

PairOptions loop(ibv_qp_type type, std::uint64_t more_ops, int access) {
  return alike({.type = type,
                .access = access | IBV_ACCESS_MW_BIND,
                .send_wr = 8,
                .recv_wr = 16,
                .more_ops = more_ops},
               {.qp_access = access & ~IBV_ACCESS_LOCAL_WRITE});
}

Pair::Pair(const Device& dev, std::unique_ptr<Link> link, const PairOptions& options)
    : Pair(dev, *link, options) {
  own_link_ = std::move(link);
}

Pair::Pair(const Device& dev, Link& link, const PairOptions& options)
    : local(dev, options.local), remote(link, options.remote), how(options.how) {
  if (how.mtu == ibv_mtu{}) how.mtu = std::min(dev.active_mtu(), remote.active_mtu());
  if (options.local.type == IBV_QPT_UD)
    ah_ = create_ah(dev, remote.endpoint().gid, remote.endpoint().lid);
  if (options.connect) connect();
}

void Pair::connect(ibv_qp_state until) {
  remote.connect(how, local.endpoint(), until);
  guest::connect(local.qp(), local.device(), how, local.endpoint(), remote.endpoint(), until);
}

Send Pair::request(ibv_wr_opcode opcode, Ranges here, const Range& there) const {
  Send send{.opcode = opcode, .sges = local.sges(here)};
  send.raddr = remote.address(there.offset, there.kind);
  send.rkey = remote.rkey(there.kind);
  send.ah = ah_.get();
  send.remote_qpn = remote.endpoint().qpn;
  send.remote_qkey = kQkey;
  send.srqn = remote.endpoint().srqn;
  return send;
}

Send Pair::request(ibv_wr_opcode opcode, std::uint32_t length, std::uint64_t local_at,
                   std::uint64_t remote_at, std::uint64_t wr_id) const {
  Send send = request(opcode, {local_at, length}, Range{remote_at, length});
  send.wr_id = wr_id;
  return send;
}

void Pair::post(const Send& send, Api api) const { post(std::span(&send, 1), api); }

void Pair::post(std::span<const Send> sends, Api api) const {
  require_err(guest::post(local.qp(), api, sends), 0, api_name(api));
}

ibv_wc Pair::expect(std::uint64_t wr_id, ibv_wc_status status) const {
  const ibv_wc wc = poll(local.send_cq(), 1).front();
  require_status(wc, wr_id, status);
  require(wc.qp_num == local.qp()->qp_num, "completion of QP {:#x}", wc.qp_num);
  return wc;
}

ibv_wc Pair::expect_recv(std::uint64_t wr_id, ibv_wc_status status) const {
  const ibv_wc wc = remote.poll_recv(1).front();
  require_status(wc, wr_id, status);
  require(wc.qp_num == remote.endpoint().qpn, "receive completion of QP {:#x}", wc.qp_num);
  return wc;
}

ibv_wc Pair::run(const Send& send, Api api, ibv_wc_status status) const {
  post(send, api);
  return expect(send.wr_id, status);
}

void Pair::run_back(const Send& send, Api api, ibv_wc_status status) const {
  require_err(guest::post(remote.end().qp(), api, send), 0, api_name(api));
  require_status(remote.poll_send(1).front(), send.wr_id, status);
}

void Pair::recv(std::uint64_t wr_id, std::uint64_t at, std::uint32_t length) const {
  remote.post_recv(wr_id, {at, length + local.header()});
}

void Pair::expect_traffic() const {
  constexpr std::uint32_t kLength = 5000;
  fill({0, kLength}, 77);
  remote.post_recv(0x7e57, {0, kLength});
  run(request(IBV_WR_SEND, kLength, 0, 0, 0x5e4d));
  require(expect_recv(0x7e57).byte_len == kLength, "receive of another length");
  remote.check({0, kLength}, 77);
}

}  // namespace guest
