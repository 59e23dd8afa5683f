// SPDX-License-Identifier: GPL-2.0-or-later
#include <cerrno>

#include "paging.h"

namespace guest::paging {

void need(const Env& env, std::uint32_t rc_caps) {
  const auto& caps = env.dev.attr_ex().odp_caps;
  if ((caps.general_caps & IBV_ODP_SUPPORT) == 0) skip("no IBV_ODP_SUPPORT");
  if ((caps.per_transport_caps.rc_odp_caps & rc_caps) != rc_caps) {
    skip("rc_odp_caps {:#x} lack {:#x}", caps.per_transport_caps.rc_odp_caps, rc_caps);
  }
}

MrPtr on_demand(const Env& env, const Map& map) { return reg(env.dev, map, odp_access(env.dev)); }

MrPtr all_memory(const Env& env) {
  MrPtr mr = try_reg(env.dev.pd(), nullptr, SIZE_MAX, odp_access(env.dev));
  require(mr != nullptr, "ibv_reg_mr of the address space: {}", errno_name(errno));
  return mr;
}

Rules all() {
  Rules rules;
  append(rules, operations(), "ibv_reg_mr(3), ibv_query_device_ex(3)");
  append(rules, advice(), "ibv_advise_mr(3)");
  append(rules, moves(), "ibv_reg_mr(3)");
  return rules;
}

}  // namespace guest::paging
