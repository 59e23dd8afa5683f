// SPDX-License-Identifier: GPL-2.0-or-later
// What arrives of a datagram, and which datagrams do not arrive.
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "datagrams.h"

namespace guest::datagrams {
namespace {

constexpr std::uint32_t kControlled = 0x80000000;  // the bit of a controlled Q_Key

bool is_ipv4(const ibv_gid& gid) {
  return IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(gid.raw));
}

// A GRH, or an IP header in its place: an IPv4 header fills its second half.
void header(const Env& env) {
  const Ends ends(env);
  if (env.dev.port().link_layer != IBV_LINK_LAYER_ETHERNET) skip("no Ethernet");
  ends.fill({0, 100}, 5);
  ends.recv(1, 0, 100);
  const ibv_wc wc = ends.arrives(ends.message(100), 1);
  require((wc.wc_flags & IBV_WC_GRH) != 0, "no IBV_WC_GRH");
  require(wc.byte_len == kGrh + 100, "byte_len {} of 100 bytes", wc.byte_len);
  const std::span<std::byte> bytes = ends.there().memory().bytes();
  require(!mismatch(bytes.subspan(kGrh, 100), 5), "wrong bytes behind the header");
  const ibv_gid& gid = env.dev.gid();
  const auto at = [&bytes](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
  if (is_ipv4(gid)) {
    require(at(20) >> 4 == 4, "IP version {}", at(20) >> 4);
    require(at(29) == IPPROTO_UDP, "IP protocol {}", at(29));
    require(std::memcmp(&bytes[32], gid.raw + 12, 4) == 0, "another source address");
    require(std::memcmp(&bytes[36], gid.raw + 12, 4) == 0, "another destination address");
  } else {
    require(at(0) >> 4 == 6, "IP version {}", at(0) >> 4);
    require(same_gid(&bytes[8], gid), "another source address");
    require(same_gid(&bytes[24], gid), "another destination address");
  }
}

void source(const Env& env) {
  const Ends first(env);
  const Ends second(env);
  for (std::uint64_t i = 0; i < 6; i++) {
    const Ends& from = i % 2 == 0 ? first : second;
    first.recv(i, 0, 8);
    Send send = from.message();
    send.remote_qpn = first.there().qp()->qp_num;
    from.run(send);
    const ibv_wc wc = first.expect_recv(i);
    require(wc.src_qp == from.local.qp()->qp_num, "src_qp {:#x}", wc.src_qp);
    require(wc.opcode == IBV_WC_RECV, "opcode {}", static_cast<int>(wc.opcode));
  }
  expect_quiet(second.there().recv_cq(), kLost);
}

void to_itself(const Env& env) {
  const Ends ends(env);
  require_err(post_recv(ends.local.qp(), 4, ends.local.memory().sge(0, kGrh + 8)), 0,
              "ibv_post_recv");
  Send send = ends.message();
  send.remote_qpn = ends.local.qp()->qp_num;
  ends.run(send);
  const ibv_wc wc = poll(ends.local.recv_cq(), 1).front();
  require_status(wc, 4, IBV_WC_SUCCESS);
  require(wc.src_qp == ends.local.qp()->qp_num, "src_qp {:#x}", wc.src_qp);
}

void lengths(const Env& env) {
  const Ends ends(env);
  const std::uint32_t mtu = 128U << env.dev.active_mtu();
  std::uint64_t wr_id = 0;
  for (const std::uint32_t length : {0U, 1U, 3U, 64U, mtu - 1, mtu}) {
    ends.fill({0, length}, length);
    ends.recv(++wr_id, 0, length);
    const ibv_wc wc = ends.arrives(ends.message(length), wr_id);
    require(wc.byte_len == kGrh + length, "byte_len {} of {} bytes", wc.byte_len, length);
    require(!mismatch(ends.there().memory().bytes().subspan(kGrh, length), length),
            "wrong bytes of {}", length);
  }
}

// A datagram is one packet. IBTA (C10-93.1.1) wants neither a packet nor an error; hardware reports
// one.
void too_long(const Env& env) {
  const std::uint32_t mtu = 128U << env.dev.active_mtu();
  const Ends ends(env);
  for (const std::uint32_t length : {mtu + 1, 4 * mtu}) {
    if (length > ends.local.memory().length() / 2) continue;
    ends.recv(1, 0, length);
    const Send send = ends.message(length);
    const int err = post(ends.local.qp(), Api::kPost, send);
    if (err != 0) {
      chose(std::format("a datagram above the MTU: refused with {}", errno_name(err)));
    } else {
      const ibv_wc wc = poll(ends.local.send_cq(), 1).front();
      chose(std::format("a datagram above the MTU: {}", ibv_wc_status_str(wc.status)));
    }
    expect_quiet(ends.there().recv_cq(), kLost);
    if (err == 0) break;  // the send queue has stopped
  }
}

void qkey(const Env& env) {
  const Ends ends(env);
  ends.recv(1, 0, 8);
  for (const std::uint32_t wrong : {kQkey + 1, 0U, ~kQkey & ~kControlled}) {
    Send send = ends.message();
    send.remote_qkey = wrong;
    ends.dropped(send);
  }
  ends.arrives(ends.message(), 1);
}

// With the highest bit set in the request, the Q_Key of the sending QP goes into the packet.
void controlled_qkey(const Env& env) {
  const Ends ends(env);
  ends.recv(1, 0, 8);
  Send send = ends.message();
  send.remote_qkey = kControlled | 0x1234;
  ends.arrives(send, 1);
  ibv_qp_attr attr{};
  attr.qkey = kQkey + 5;
  attr.qp_state = IBV_QPS_RTS;
  require_err(ibv_modify_qp(ends.local.qp(), &attr, IBV_QP_STATE | IBV_QP_QKEY), 0, "a new Q_Key");
  ends.recv(2, 0, 8);
  ends.dropped(send);
  ends.arrives(ends.message(), 2);
}

void new_qkey(const Env& env) {
  const Ends ends(env);
  ibv_qp_attr attr{};
  attr.qkey = kQkey + 7;
  attr.qp_state = IBV_QPS_RTS;
  require_err(ibv_modify_qp(ends.there().qp(), &attr, IBV_QP_STATE | IBV_QP_QKEY), 0,
              "a new Q_Key");
  ends.recv(1, 0, 8);
  Send send = ends.message();
  ends.dropped(send);
  send.remote_qkey = attr.qkey;
  ends.arrives(send, 1);
}

void no_receive(const Env& env) {
  const Ends ends(env);
  for (std::uint64_t i = 0; i < 3; i++) {
    ends.dropped(ends.message());
    ends.works(i);
  }
  require(state_of(ends.there().qp()) == IBV_QPS_RTS, "the QP has left RTS");
}

void no_such_qp(const Env& env) {
  const Ends ends(env);
  std::uint32_t gone = 0;
  {
    const Ends others(env);
    gone = others.there().qp()->qp_num;
  }
  ends.recv(1, 0, 8);
  Send send = ends.message();
  for (const std::uint32_t qpn : {gone, 0xfffff0U}) {
    send.remote_qpn = qpn;
    ends.dropped(send);
  }
  ends.arrives(ends.message(), 1);
}

void not_ready(const Env& env) {
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR}) {
    const Ends ends(env);
    ends.remote.to_state(state == IBV_QPS_ERR ? IBV_QPS_ERR : IBV_QPS_RESET);
    if (state == IBV_QPS_INIT) {
      require_err(to_init(ends.there().qp(), ends.how), 0, "to INIT");
      ends.recv(1, 0, 8);
    }
    ends.dropped(ends.message());
  }
}

// It can receive from RTR on.
void ready_to_receive(const Env& env) {
  const Ends ends(env);
  ends.remote.to_state(IBV_QPS_RESET);
  require_err(to_init(ends.there().qp(), ends.how), 0, "to INIT");
  ends.recv(1, 0, 8);
  require_err(to_rtr(ends.there().qp(), env.dev, ends.how, {}), 0, "to RTR");
  ends.arrives(ends.message(), 1);
}

// No more than the receive is written, and it is no success.
void receive_too_short(const Env& env) {
  const Ends ends(env);
  const std::span<std::byte> bytes = ends.there().memory().bytes();
  for (const std::uint32_t room : {kGrh + 50, kGrh, 10U}) {
    std::fill(bytes.begin(), bytes.begin() + 400, std::byte{0x5a});
    ends.remote.post_recv(1, Range{0, room});
    ends.run(ends.message(100));
    ibv_wc wc{};
    int n = 0;
    for (int ms = 0; ms < kLost && n == 0; ms++) {
      usleep(1000);
      n = ibv_poll_cq(ends.there().recv_cq(), 1, &wc);
    }
    for (std::size_t i = room; i < 400; i++) {
      require(bytes[i] == std::byte{0x5a}, "byte {} behind a receive of {}", i, room);
    }
    require(n == 0 || wc.status != IBV_WC_SUCCESS, "100 bytes in a receive of {}: a success", room);
    chose(std::format("a receive that is too short: {}",
                      n == 0 ? "no completion" : ibv_wc_status_str(wc.status)));
    if (n != 0) break;  // the QP may be in ERR
    ends.remote.to_state(IBV_QPS_ERR);
    require_status(poll(ends.there().recv_cq(), 1).front(), 1, IBV_WC_WR_FLUSH_ERR);
    break;
  }
}

void scattered(const Env& env) {
  const Ends ends(env);
  // The pieces split the header and the payload.
  const std::vector<Range> ranges{{0, 7}, {1000, kGrh}, {2000, 20}};
  ends.fill({0, 25}, 3);
  ends.remote.post_recv(1, ranges);
  require(ends.arrives(ends.message(25), 1).byte_len == kGrh + 25, "byte_len");
  const std::span<std::byte> bytes = ends.there().memory().bytes();
  std::vector<std::byte> all;
  for (const Range& r : ranges) {
    const auto piece = bytes.subspan(r.offset, r.length);
    all.insert(all.end(), piece.begin(), piece.end());
  }
  require(!mismatch(std::span(all).subspan(kGrh, 25), 3), "wrong bytes");
}

}  // namespace

Rules delivery() {
  return {
      {"header", "40 bytes precede the data, with the addresses, and byte_len counts them", header},
      {"source", "src_qp of a completion is the QP that has sent the datagram", source},
      {"to_itself", "a UD QP can send to itself", to_itself},
      {"lengths", "a datagram may have each length up to the MTU of the port", lengths},
      {"too_long", "nothing arrives of a datagram that is longer than the MTU", too_long},
      {"qkey", "a datagram with another Q_Key than the receiver's is dropped", qkey},
      {"controlled_qkey", "a remote_qkey with the highest bit stands for the sender's own Q_Key",
       controlled_qkey},
      {"new_qkey", "a Q_Key that ibv_modify_qp changed counts from then on", new_qkey},
      {"no_receive", "a datagram without a receive is dropped, and both QPs work on", no_receive},
      {"no_such_qp", "a datagram to a QP that does not exist is a success of the sender",
       no_such_qp},
      {"not_ready", "a datagram to a QP below RTR or in ERR is dropped", not_ready},
      {"ready_to_receive", "a UD QP receives from RTR on", ready_to_receive},
      {"receive_too_short", "of a datagram longer than its receive nothing is written behind it",
       receive_too_short},
      {"scattered", "header and data scatter to the SGEs of the receive", scattered},
  };
}

}  // namespace guest::datagrams
