// SPDX-License-Identifier: GPL-2.0-or-later
// Multicast groups, between QPs of one device.
#include <unistd.h>

#include <cerrno>
#include <set>

#include "datagrams.h"

namespace guest::datagrams {
namespace {

constexpr std::uint32_t kEveryQp = 0xffffff;

// The GID of an IPv4 group if the port has IPv4 addresses, else of an IPv6 group.
ibv_gid group_gid(const Device& dev, std::uint8_t last) {
  ibv_gid gid{};
  if (dev.gid().raw[10] == 0xff && dev.gid().raw[11] == 0xff) {
    gid.raw[10] = gid.raw[11] = 0xff;
    gid.raw[12] = 239;
    gid.raw[13] = 7;
  } else {
    gid.raw[0] = 0xff;
    gid.raw[1] = 0x0e;
  }
  gid.raw[15] = last;
  return gid;
}

// Members of a group on one device, and a sender that is none.
class Members {
 public:
  explicit Members(const Env& env) : a(env), b(env), gid(group_gid(env.dev, 9)) {
    if (env.dev.attr().max_mcast_grp == 0) skip("max_mcast_grp is 0");
    ibv_ah_attr attr = path_to(env.dev.gid_index(), gid, 0);
    ah_.reset(ibv_create_ah(env.dev.pd(), &attr));
    if (!ah_) fail("ibv_create_ah of a group: {}", errno_name(errno));
  }

  [[nodiscard]] int attach(const Ends& ends) const {
    return ibv_attach_mcast(ends.there().qp(), &gid, 0);
  }
  [[nodiscard]] int detach(const Ends& ends) const {
    return ibv_detach_mcast(ends.there().qp(), &gid, 0);
  }
  // Sends to the group and returns which of both got the datagram.
  [[nodiscard]] std::set<const Ends*> send() const {
    std::set<const Ends*> got;
    Send send = a.message();
    send.ah = ah_.get();
    send.remote_qpn = kEveryQp;
    for (const Ends* ends : {&a, &b}) ends->recv(1, 0, 8);
    a.run(send);
    for (int ms = 0; ms < 4 * kLost && got.size() < 2; ms++) {
      usleep(1000);
      for (const Ends* ends : {&a, &b}) {
        ibv_wc wc{};
        if (ibv_poll_cq(ends->there().recv_cq(), 1, &wc) != 1) continue;
        require_status(wc, 1, IBV_WC_SUCCESS);
        require((wc.wc_flags & IBV_WC_GRH) != 0, "a multicast without IBV_WC_GRH");
        require(wc.src_qp == a.local.qp()->qp_num, "src_qp {:#x}", wc.src_qp);
        require(got.insert(ends).second, "a member got the datagram twice");
      }
    }
    // A member that got none has a receive left, which a direct datagram takes.
    for (const Ends* ends : {&a, &b}) {
      if (!got.contains(ends)) ends->arrives(ends->message(), 1);
    }
    return got;
  }

  Ends a;
  Ends b;
  ibv_gid gid;

 private:
  AhPtr ah_;
};

void group(const Env& env) {
  const Members m(env);
  require_err(m.attach(m.a), 0, "ibv_attach_mcast");
  const auto one = m.send();
  require(!one.contains(&m.b), "a QP that is no member got the datagram");
  require_usual(one.contains(&m.a), "a group does not reach a member on the sender's port");
  require_err(m.attach(m.b), 0, "ibv_attach_mcast of the second member");
  require_usual(m.send().size() == 2, "a group does not reach both members on the sender's port");
  require_err(m.detach(m.a), 0, "ibv_detach_mcast");
  const auto left = m.send();
  require(!left.contains(&m.a), "a QP that has left got the datagram");
  require_usual(left.contains(&m.b), "a group does not reach the member that stays");
  require_err(m.detach(m.b), 0, "ibv_detach_mcast of the last member");
  require(m.send().empty(), "a group without members reaches one");
}

// "If a QP is attached to the same multicast group multiple times, the QP will still receive a
// single copy of a multicast message."
void attached_twice(const Env& env) {
  const Members m(env);
  require_err(m.attach(m.a), 0, "ibv_attach_mcast");
  const int err = m.attach(m.a);
  if (err != 0) chose(std::format("a second ibv_attach_mcast: {}", errno_name(err)));
  static_cast<void>(m.send());
  require_err(m.detach(m.a), 0, "ibv_detach_mcast");
}

void refused(const Env& env) {
  const Members m(env);
  require_refused(m.detach(m.a), EINVAL, "ibv_detach_mcast of a QP that is no member");
  ibv_gid unicast = env.dev.gid();
  require_refused(ibv_attach_mcast(m.a.there().qp(), &unicast, 0), EINVAL,
                  "ibv_attach_mcast of a unicast GID");
  const Pair rc(env.dev);
  require_refused(ibv_attach_mcast(rc.local.qp(), &m.gid, 0), EINVAL,
                  "ibv_attach_mcast of an RC QP");
}

}  // namespace

Rules multicast() {
  return {
      {"multicast", "a multicast reaches each member once, and none that has left", group},
      {"multicast_twice", "a QP that was attached twice gets one copy", attached_twice},
      {"multicast_refused", "only UD QPs become members, of multicast GIDs", refused},
  };
}

}  // namespace guest::datagrams
