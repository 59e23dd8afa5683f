// SPDX-License-Identifier: GPL-2.0-or-later
#include "regress.h"

#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <infiniband/terndv.h>
#include "verbs.h"

namespace guest::uverbsfuzz {
namespace {

// The object of an XRC target is ib_core's own and smaller than the driver's.
std::string sport_of_a_target(const std::string& device) {
  const Device dev(device, -1);
  const CqPtr cq = create_cq(dev, 8);
  const XrcShare share = open_xrc(dev, dev.pd(), cq.get());
  for (std::uint16_t i = 1; i <= 40; ++i) {
    const QpPtr target = create_qp(dev, {.type = IBV_QPT_XRC_RECV, .xrcd = share.xrcd.get()});
    connect_to_itself(target.get(), dev);
    const auto wanted = static_cast<std::uint16_t>(0xc000 + i);
    std::uint16_t got = 0;
    if (const int err = terndv_modify_qp_udp_sport(target.get(), wanted)) return std::strerror(err);
    if (const int err = terndv_query_qp_udp_sport(target.get(), &got)) return std::strerror(err);
    if (got != wanted) return "port " + std::to_string(got) + ", not " + std::to_string(wanted);
  }
  return "";
}

// The kernel's own queues exist only for its own QPs.
std::string posts_by_write(const std::string& device) {
  const Device dev(device, -1);
  const CqPtr cq = create_cq(dev, 8);
  const QpPtr qp = create_qp(dev, {.send_cq = cq.get(), .recv_cq = cq.get()});
  struct {
    ib_uverbs_cmd_hdr header;
    std::uint64_t response;
    std::uint32_t words[16];
  } command{};
  std::uint64_t response[16] = {};
  for (const std::uint32_t number :
       {IB_USER_VERBS_CMD_POST_SEND, IB_USER_VERBS_CMD_POST_RECV, IB_USER_VERBS_CMD_POLL_CQ,
        IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, IB_USER_VERBS_CMD_POST_SRQ_RECV}) {
    command.header = {.command = number, .in_words = sizeof(command) / 4, .out_words = 16};
    command.response = reinterpret_cast<std::uint64_t>(response);
    command.words[0] = number == IB_USER_VERBS_CMD_POLL_CQ ? cq->handle : qp->handle;
    command.words[1] = 1;
    errno = 0;
    if (write(dev.context()->cmd_fd, &command, sizeof(command)) >= 0 || errno != EOPNOTSUPP) {
      return "command " + std::to_string(number) + ": " + std::strerror(errno);
    }
  }
  return "";
}

}  // namespace

const std::vector<Regression>& regressions() {
  static const std::vector<Regression> all = {{"sport-of-an-xrc-target", sport_of_a_target},
                                              {"posts-by-write-are-refused", posts_by_write}};
  return all;
}

}  // namespace guest::uverbsfuzz
