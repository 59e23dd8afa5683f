// SPDX-License-Identifier: GPL-2.0-or-later
#include "datapath/multicast.h"

#include <algorithm>

#include "core/limits.h"
#include "transport/qp.h"

namespace tern {

Status Multicast::attach(const Gid& group, Qp& qp) {
  const auto it = groups_.find(group);
  if (it == groups_.end()) {
    if (groups_.size() == kMaxMcastGroups) return TERN_ST_NO_RESOURCE;
    groups_[group].push_back(&qp);
    members_.emplace(qp.number().value, group);
    return TERN_ST_OK;
  }
  std::vector<Qp*>& qps = it->second;
  if (std::ranges::find(qps, &qp) != qps.end()) return TERN_ST_OK;
  if (qps.size() == kMaxMcastQps) return TERN_ST_NO_RESOURCE;
  qps.push_back(&qp);
  members_.emplace(qp.number().value, group);
  return TERN_ST_OK;
}

Status Multicast::detach(const Gid& group, const Qp& qp) {
  const auto it = groups_.find(group);
  if (it == groups_.end() || std::erase(it->second, &qp) == 0) return TERN_ST_BAD_HANDLE;
  if (it->second.empty()) groups_.erase(it);
  members_.erase({qp.number().value, group});
  return TERN_ST_OK;
}

std::uint32_t Multicast::forget(const Qp& qp) {
  const std::uint32_t number = qp.number().value;
  const auto first = members_.lower_bound({number, Gid{}});
  auto member = first;
  std::uint32_t count = 0;
  for (; member != members_.end() && member->first == number; ++member, ++count) {
    const auto group = groups_.find(member->second);
    std::erase(group->second, &qp);
    if (group->second.empty()) groups_.erase(group);
  }
  members_.erase(first, member);
  return count;
}

void Multicast::clear() {
  groups_.clear();
  members_.clear();
}

std::optional<std::uint32_t> Multicast::deliver(const Packet& packet, const Qp* except) const {
  const auto it = groups_.find(packet.route.dgid);
  if (it == groups_.end()) return std::nullopt;
  std::uint32_t count = 0;
  for (Qp* const qp : it->second) {
    if (qp == except) continue;
    qp->deliver(packet);
    ++count;
  }
  return count;
}

}  // namespace tern
