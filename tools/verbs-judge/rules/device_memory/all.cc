// SPDX-License-Identifier: GPL-2.0-or-later
#include "device_memory.h"

namespace guest::device_memory {

Rules all() {
  Rules rules;
  append(rules, alloc(), "ibv_alloc_dm(3)");
  append(rules, data(), "ibv_alloc_dm(3), ibv_post_send(3)");
  append(rules, bounds(), "ibv_alloc_dm(3), ibv_reg_mr(3)");
  return rules;
}

}  // namespace guest::device_memory
