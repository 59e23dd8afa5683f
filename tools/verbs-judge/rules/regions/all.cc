// SPDX-License-Identifier: GPL-2.0-or-later
#include "regions.h"

namespace guest::regions {

Rules all() {
  Rules rules;
  append(rules, registration(), "ibv_reg_mr(3); IBTA volume 1, 10.6");
  append(rules, memory(), "ibv_reg_mr(3)");
  append(rules, rereg(), "ibv_rereg_mr(3)");
  append(rules, rereg_under_way(), "ibv_rereg_mr(3); IBTA volume 1, 10.6.5");
  return rules;
}

}  // namespace guest::regions
