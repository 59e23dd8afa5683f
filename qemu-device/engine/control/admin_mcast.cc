// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on multicast groups.
#include <algorithm>

#include "control/admin.h"
#include "control/admin_commands.h"
#include "control/device.h"

namespace tern::commands {

namespace {

// Finds the group and the QP that a command refers to.
Status find_both(Device& device, const tern_cmd_mcast& cmd, Gid& group, Qp*& qp) {
  std::ranges::copy(cmd.gid, group.begin());
  if (!is_port(cmd.port) || !is_multicast(group)) return TERN_ST_BAD_PARAM;
  qp = device.registry.qps.find(le(std::uint32_t{cmd.qpn}));
  if (qp == nullptr) return TERN_ST_BAD_HANDLE;
  return qp->type() == TERN_QPT_UD ? TERN_ST_OK : TERN_ST_BAD_PARAM;
}

}  // namespace

Status attach_mcast(Admin&, Device& device, const tern_cmd_mcast& cmd, Reply&) {
  Gid group;
  Qp* qp;
  if (const Status st = find_both(device, cmd, group, qp); st != TERN_ST_OK) return st;
  device.fix(device.registry.member_of(*qp).group());
  return device.port.multicast.attach(group, *qp);
}

Status detach_mcast(Admin&, Device& device, const tern_cmd_mcast& cmd, Reply&) {
  Gid group;
  Qp* qp;
  const Status st = find_both(device, cmd, group, qp);
  return st != TERN_ST_OK ? st : device.port.multicast.detach(group, *qp);
}

}  // namespace tern::commands
