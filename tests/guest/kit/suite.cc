// SPDX-License-Identifier: GPL-2.0-or-later
#include "suite.h"

#include <algorithm>

namespace guest {

Pair::Pair(const Env& env, const PairOptions& options)
    : local(env.dev, options.local), remote(env.link, options.remote), how(options.how) {
  if (how.mtu == ibv_mtu{}) {
    how.mtu = std::min(env.dev.active_mtu(), remote.active_mtu());
  }
  if (options.connect) {
    connect();
  }
}

void Pair::connect() {
  remote.connect(how, local.endpoint());
  guest::connect(local.qp(), local.device(), how, local.endpoint(), remote.endpoint());
}

Send Pair::request(ibv_wr_opcode opcode, std::uint32_t length, std::uint64_t local_at,
                   std::uint64_t remote_at) const {
  Send send;
  send.opcode = opcode;
  send.sges = {local.memory().sge(local_at, length)};
  send.raddr = remote.address(remote_at);
  send.rkey = remote.rkey();
  return send;
}

void Pair::post(const Send& send, Api api) const { post(std::span(&send, 1), api); }

void Pair::post(std::span<const Send> sends, Api api) const {
  const int err = guest::post(local.qp(), api, sends);
  require(err == 0, "{}: {}", api_name(api), errno_name(err));
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

void Pair::expect_traffic() const {
  constexpr std::uint32_t kLength = 5000;
  fill({0, kLength}, 77);
  remote.post_recv(0x7e57, {0, kLength});
  Send send = request(IBV_WR_SEND, kLength);
  send.wr_id = 0x5e4d;
  post(send);
  expect(0x5e4d);
  require(expect_recv(0x7e57).byte_len == kLength, "receive of another length");
  remote.check({0, kLength}, 77);
}

void Pair::fill(Range range, std::uint64_t seed) const {
  guest::fill(local.memory().bytes().subspan(range.offset, range.length), seed);
}

void Pair::check(Range range, std::uint64_t seed) const {
  const auto at = mismatch(local.memory().bytes().subspan(range.offset, range.length), seed);
  require(!at, "{} bytes at {} here: wrong from byte {} on", range.length, range.offset,
          at.value_or(0));
}

}  // namespace guest
