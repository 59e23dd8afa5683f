// SPDX-License-Identifier: GPL-2.0-or-later
// Multicast groups of UD QPs (IBTA 10.5, A17.4.6): the QPs that get a copy of a datagram to QP
// 0xffffff.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/types.h"
#include "memory/page_list.h"
#include "wire/packet.h"

namespace tern {

class Archive;
class Qp;

// The destination QP of every multicast packet.
inline constexpr std::uint32_t kMulticastQpn = 0xffffff;

class Multicast {
 public:
  // Attaches the QP to the group; a second time has no effect. Returns TERN_ST_NO_RESOURCE if there
  // are too many groups, or too many QPs in the group.
  [[nodiscard]] Status attach(const Gid& group, Qp& qp);
  // Returns TERN_ST_BAD_HANDLE if the QP is not attached.
  [[nodiscard]] Status detach(const Gid& group, const Qp& qp);
  // Removes a QP that is being destroyed from its groups. Returns their number.
  std::uint32_t forget(const Qp& qp);
  void clear();
  // Saved state. find_qp(number): null if there is no such UD QP.
  void state(Archive& ar, const std::function<Qp*(std::uint32_t)>& find_qp);

  [[nodiscard]] bool has(const Gid& group) const { return groups_.contains(group); }
  // Delivers the packet to each QP of its group except `except`. Returns their number, nullopt if
  // there is no such group.
  [[nodiscard]] std::optional<std::uint32_t> deliver(const Packet& packet, const Qp* except) const;

  [[nodiscard]] std::uint32_t attachments() const {
    return static_cast<std::uint32_t>(members_.size());
  }

 private:
  std::map<Gid, std::vector<Qp*>> groups_;           // none is empty
  std::set<std::pair<std::uint32_t, Gid>> members_;  // QP numbers, each with its groups
};

}  // namespace tern
