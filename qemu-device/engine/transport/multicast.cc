// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/multicast.h"

#include <algorithm>

#include "core/limits.h"
#include "transport/qp.h"

namespace tern {

Status Multicast::attach(const Gid& group, Qp& qp) {
  const auto it = groups_.find(group);
  if (it == groups_.end()) {
    if (groups_.size() == kMaxMcastGroups) return TERN_ST_NO_RESOURCE;
    groups_[group].push_back(&qp);
    return TERN_ST_OK;
  }
  std::vector<Qp*>& qps = it->second;
  if (std::ranges::find(qps, &qp) != qps.end()) return TERN_ST_OK;
  if (qps.size() == kMaxMcastQps) return TERN_ST_NO_RESOURCE;
  qps.push_back(&qp);
  return TERN_ST_OK;
}

Status Multicast::detach(const Gid& group, const Qp& qp) {
  const auto it = groups_.find(group);
  if (it == groups_.end() || std::erase(it->second, &qp) == 0) return TERN_ST_BAD_HANDLE;
  if (it->second.empty()) groups_.erase(it);
  return TERN_ST_OK;
}

void Multicast::forget(const Qp& qp) {
  std::erase_if(groups_, [&qp](auto& group) {
    std::erase(group.second, &qp);
    return group.second.empty();
  });
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

std::uint32_t Multicast::attachments() const {
  std::size_t n = 0;
  for (const auto& [gid, qps] : groups_) n += qps.size();
  return static_cast<std::uint32_t>(n);
}

}  // namespace tern
