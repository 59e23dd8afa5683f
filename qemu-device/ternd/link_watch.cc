// SPDX-License-Identifier: GPL-2.0-or-later
#include "link_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace tern::daemon {

namespace {

// Messages in one read(): the socket may be that of a control client, which never stops.
constexpr unsigned kMost = 256;

}  // namespace

Descriptor LinkWatch::open() {
  Descriptor file = checked(
      socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), "netlink");
  sockaddr_nl addr{};
  addr.nl_family = AF_NETLINK;
  addr.nl_groups = RTMGRP_LINK;
  if (bind(file.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)) != 0)
    throw std::system_error(errno, std::generic_category(), "netlink");
  return file;
}

void LinkWatch::ask() {
  struct {
    nlmsghdr header;
    ifinfomsg info;
  } request{};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.info.ifi_index = static_cast<int>(index_);
  send(socket_.get(), &request, sizeof(request), MSG_DONTWAIT);
}

LinkWatch::State LinkWatch::read() {
  for (unsigned i = 0; i < kMost && state_ != State::kGone; ++i) {
    // The attributes that follow are not read.
    struct {
      nlmsghdr header;
      union {
        ifinfomsg info;
        nlmsgerr error;
      };
    } news{};
    sockaddr_nl from{};
    socklen_t from_size = sizeof(from);
    const ssize_t got = recvfrom(socket_.get(), &news, sizeof(news), MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from), &from_size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOBUFS) {
      // Messages were lost.
      ask();
      continue;
    }
    if (got < 0) break;
    const auto size = static_cast<std::size_t>(got);
    // Only the kernel has port 0.
    if (from.nl_pid != 0 || size < sizeof(news.header)) continue;
    if (news.header.nlmsg_type == NLMSG_ERROR && size >= sizeof(news.header) + sizeof(int) &&
        news.error.error == -ENODEV)
      state_ = State::kGone;
    // A bridge reports with its own family that a port leaves it: the port still exists.
    if (size < sizeof(news.header) + sizeof(news.info) || news.info.ifi_family != AF_UNSPEC)
      continue;
    if (news.info.ifi_index != static_cast<int>(index_)) continue;
    constexpr unsigned kWorks = IFF_UP | IFF_RUNNING;
    if (news.header.nlmsg_type == RTM_DELLINK) state_ = State::kGone;
    if (news.header.nlmsg_type == RTM_NEWLINK)
      state_ = (news.info.ifi_flags & kWorks) == kWorks ? State::kUp : State::kDown;
  }
  return state_;
}

}  // namespace tern::daemon
